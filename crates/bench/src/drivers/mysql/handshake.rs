//! The beginning of a connection: the server's greeting, and our answer with a password that is proved, not sent.
//!
//! Knows `mysql_native_password`, and the empty password, which is the same for every way to log in. Other ways
//! (`caching_sha2_password`, `ed25519`) need keys or encryption: a benchmark's user is made without them.

use ring::digest::{Context, SHA1_FOR_LEGACY_USE_ONLY, digest};

use super::Login;
use super::packet::{self, Packet, Values};
use crate::load::Greeting;

const PROTOCOL: u8 = 10;
const OK: u8 = 0x00;
const ERROR: u8 = 0xff;
const SWITCH: u8 = 0xfe;
const NATIVE: &[u8] = b"mysql_native_password";

/// What we can: long passwords, a database, protocol 4.1, transactions, the newer way to log in, several statements in
/// one request with their results, and the name of the way to log in.
const CAPABILITIES: u32 =
    0x1 | 0x8 | 0x200 | 0x2000 | 0x8000 | CAPABILITY_MULTI_STATEMENTS | 0x2_0000 | 0x8_0000;
const CAPABILITY_MULTI_STATEMENTS: u32 = 0x1_0000;
const CAPABILITY_DATABASE: u32 = 0x8;
const ANSWER_BYTES_MAX: u32 = 16 << 20;
/// utf8mb4_general_ci, which MySQL and MariaDB both have.
const CHARACTER_SET: u8 = 45;

/// How far a connection's greeting has come.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Step {
    #[default]
    Greeted,
    Proved,
}

pub(super) fn greet(step: &mut Step, login: &Login, bytes: &[u8], out: &mut Vec<u8>) -> Greeting {
    if bytes.is_empty() {
        // Before the server's first bytes, also of a connection that replaces a broken one.
        *step = Step::Greeted;
    }
    let packet = match packet::parse(bytes) {
        Ok(Some(packet)) => packet,
        Ok(None) => return Greeting::Part,
        Err(why) => return Greeting::Broken(why),
    };
    let answered = match step {
        Step::Greeted => answer(login, &packet, out).map(|()| Greeting::Next { consumed: packet.bytes }),
        Step::Proved => proved(login, &packet, out),
    };
    *step = Step::Proved;
    answered.unwrap_or_else(Greeting::Broken)
}

/// The server's greeting is answered.
fn answer(login: &Login, packet: &Packet<'_>, out: &mut Vec<u8>) -> Result<(), &'static str> {
    if packet.payload.first() == Some(&ERROR) {
        return Err("the server refuses the connection: too many of them, or none from here");
    }
    let salt = salt(packet.payload).ok_or("the server's greeting is none of protocol 10")?;
    let mut capabilities = CAPABILITIES;
    if login.database.is_none() {
        capabilities &= !CAPABILITY_DATABASE;
    }
    packet::append(out, packet.sequence.wrapping_add(1), |out| {
        out.extend_from_slice(&capabilities.to_le_bytes());
        out.extend_from_slice(&ANSWER_BYTES_MAX.to_le_bytes());
        out.push(CHARACTER_SET);
        out.extend_from_slice(&[0; 23]);
        out.extend_from_slice(login.user.as_bytes());
        out.push(0);
        let proof = proof(&login.password, &salt);
        out.push(u8::try_from(proof.len()).expect("a digest of 20 bytes, or none"));
        out.extend_from_slice(&proof);
        if let Some(database) = &login.database {
            out.extend_from_slice(database.as_bytes());
            out.push(0);
        }
        out.extend_from_slice(NATIVE);
        out.push(0);
    });
    Ok(())
}

/// What the server says to our proof.
fn proved(login: &Login, packet: &Packet<'_>, out: &mut Vec<u8>) -> Result<Greeting, &'static str> {
    match packet.payload.first() {
        Some(&OK) => Ok(Greeting::Done { consumed: packet.bytes }),
        Some(&ERROR) => Err("the server refused the user, the password or the database"),
        Some(&SWITCH) => {
            let mut values = Values(&packet.payload[1..]);
            if values.text() != NATIVE && !login.password.is_empty() {
                return Err("the server wants a way to log in other than mysql_native_password");
            }
            let proof = proof(&login.password, values.text());
            packet::append(out, packet.sequence.wrapping_add(1), |out| out.extend_from_slice(&proof));
            Ok(Greeting::Next { consumed: packet.bytes })
        }
        _ => Err("the server wants a way to log in other than mysql_native_password"),
    }
}

/// The bytes that the password is mixed with, from the server's greeting.
fn salt(greeting: &[u8]) -> Option<Vec<u8>> {
    let mut values = Values(greeting);
    if values.take(1)? != [PROTOCOL] {
        return None;
    }
    values.text(); // the version
    values.take(4)?; // the connection's number
    let mut salt = values.take(8)?.to_vec();
    values.take(1)?;
    let capabilities = values.number(2)?;
    values.take(1 + 2)?; // character set and status
    let capabilities = capabilities | values.number(2)? << 16;
    values.take(1 + 10)?;
    salt.extend_from_slice(values.take(12)?);
    let needed = u64::from(CAPABILITY_MULTI_STATEMENTS | 0x200 | 0x8000);
    (capabilities & needed == needed).then_some(salt)
}

/// SHA1(password) XOR SHA1(salt + SHA1(SHA1(password))); nothing for the empty password.
fn proof(password: &str, salt: &[u8]) -> Vec<u8> {
    if password.is_empty() {
        return Vec::new();
    }
    let once = digest(&SHA1_FOR_LEGACY_USE_ONLY, password.as_bytes());
    let twice = digest(&SHA1_FOR_LEGACY_USE_ONLY, once.as_ref());
    let mut mixed = Context::new(&SHA1_FOR_LEGACY_USE_ONLY);
    mixed.update(salt);
    mixed.update(twice.as_ref());
    once.as_ref().iter().zip(mixed.finish().as_ref()).map(|(once, mixed)| once ^ mixed).collect()
}

#[cfg(test)]
pub(super) fn greeting(salt: &[u8; 20], capabilities: u32) -> Vec<u8> {
    let capabilities = capabilities.to_le_bytes();
    [
        &[PROTOCOL][..],
        b"5.5.5-10.11.6-MariaDB\0",
        &[1, 0, 0, 0],
        &salt[..8],
        &[0],
        &capabilities[..2],
        &[45, 2, 0],
        &capabilities[2..],
        &[21],
        &[0; 10],
        &salt[8..],
        &[0],
        NATIVE,
        &[0],
    ]
    .concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packet(sequence: u8, payload: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::new();
        packet::append(&mut bytes, sequence, |out| out.extend_from_slice(payload));
        bytes
    }

    fn login(password: &str) -> Login {
        Login { user: "ada".into(), password: password.into(), database: Some("shop".into()) }
    }

    #[test]
    fn a_password_is_proved_as_the_protocol_wants() {
        // By the server's own rule: SHA1(proof XOR SHA1(salt + stored)) is stored, which is SHA1(SHA1(password)).
        let (password, salt) = ("secret", [7; 20]);
        let sha1 = |bytes: &[u8]| digest(&SHA1_FOR_LEGACY_USE_ONLY, bytes).as_ref().to_vec();
        let stored = sha1(&sha1(password.as_bytes()));
        let mask = sha1(&[&salt[..], &stored].concat());
        let unmasked: Vec<u8> =
            proof(password, &salt).iter().zip(&mask).map(|(proof, mask)| proof ^ mask).collect();
        assert_eq!(sha1(&unmasked), stored);
        assert!(proof("", &salt).is_empty());
    }

    #[test]
    fn a_greeting_goes_step_by_step() {
        let (mut step, mut out) = (Step::default(), Vec::new());
        let login = login("secret");
        assert_eq!(greet(&mut step, &login, &[], &mut out), Greeting::Part);
        let hello = packet(0, &greeting(&[9; 20], u32::MAX));
        assert_eq!(greet(&mut step, &login, &hello[..30], &mut out), Greeting::Part);
        assert_eq!(greet(&mut step, &login, &hello, &mut out), Greeting::Next { consumed: hello.len() });
        let sent = packet::parse(&out).unwrap().unwrap();
        assert_eq!(sent.sequence, 1);
        let wanted =
            [&b"ada\0\x14"[..], &proof("secret", &[9; 20]), b"shop\0mysql_native_password\0"].concat();
        assert_eq!(sent.payload[32..], wanted);
        out.clear();
        let switch = packet(2, &[&[SWITCH][..], NATIVE, &[0], &[5; 20], &[0]].concat());
        assert_eq!(greet(&mut step, &login, &switch, &mut out), Greeting::Next { consumed: switch.len() });
        assert_eq!(out, packet(3, &proof("secret", &[5; 20])));
        let ok = packet(4, &[OK, 0, 0, 2, 0, 0, 0]);
        assert_eq!(greet(&mut step, &login, &ok, &mut out), Greeting::Done { consumed: ok.len() });
    }

    #[test]
    fn refusals_and_nonsense_end_it() {
        let hello = packet(0, &greeting(&[9; 20], u32::MAX));
        let cases: [(&[u8], &str); 4] = [
            (b"\xff\x15\x04#28000Access denied", "refused the user"),
            (b"\xfecaching_sha2_password\0abcdefghijklmnopqrst\0", "other than mysql_native_password"),
            (b"\x01\x04", "other than mysql_native_password"),
            (b"", "other than mysql_native_password"),
        ];
        for (payload, wanted) in cases {
            let mut step = Step::default();
            greet(&mut step, &login("x"), &hello, &mut Vec::new());
            let end = greet(&mut step, &login("x"), &packet(2, payload), &mut Vec::new());
            assert!(matches!(end, Greeting::Broken(why) if why.contains(wanted)), "{end:?}");
        }
        let old = packet(0, &greeting(&[9; 20], 0x200));
        let firsts: [&[u8]; 4] =
            [&packet(0, b"\x09old"), &packet(0, b"\xff\x10\x04Too many connections"), &packet(0, b""), &old];
        for first in firsts {
            let end = greet(&mut Step::default(), &login("x"), first, &mut Vec::new());
            assert!(matches!(end, Greeting::Broken(_)), "{end:?}");
        }
    }
}
