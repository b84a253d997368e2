//! Public keys in PEM: `BEGIN PUBLIC KEY`, as `openssl pkey -pubout` prints them (SubjectPublicKeyInfo, RFC 5280).
//!
//! Only the three forms that there are keys for; what else DER can say is refused.

use rustls::pki_types::SubjectPublicKeyInfoDer;
use rustls::pki_types::pem::PemObject;

use super::{Key, NamedKey, NotKeys};

const SEQUENCE: u8 = 0x30;
const INTEGER: u8 = 0x02;
const BIT_STRING: u8 = 0x03;
/// Algorithm identifiers with their parameters: rsaEncryption, id-ecPublicKey on prime256v1, id-Ed25519.
const RSA: &[u8] = b"\x06\x09\x2a\x86\x48\x86\xf7\x0d\x01\x01\x01\x05\x00";
const P256: &[u8] = b"\x06\x07\x2a\x86\x48\xce\x3d\x02\x01\x06\x08\x2a\x86\x48\xce\x3d\x03\x01\x07";
const ED25519: &[u8] = b"\x06\x03\x2b\x65\x70";

pub(super) fn read(text: &str) -> Result<Vec<NamedKey>, NotKeys> {
    if text.contains("PRIVATE KEY-----") {
        return Err(NotKeys::Private);
    }
    let mut keys = Vec::new();
    for der in SubjectPublicKeyInfoDer::pem_slice_iter(text.as_bytes()) {
        let der = der.map_err(|_not_pem| NotKeys::Neither)?;
        keys.push(NamedKey { id: None, key: key(&der)? });
    }
    match (keys.is_empty(), text.contains("BEGIN CERTIFICATE-----")) {
        (true, true) => Err(NotKeys::Certificate),
        (true, false) => Err(NotKeys::Neither),
        (false, _) => Ok(keys),
    }
}

fn key(der: &[u8]) -> Result<Key, NotKeys> {
    let (algorithm, bits) = parts(der).ok_or(NotKeys::Kind)?;
    match algorithm {
        RSA => {
            let (modulus, exponent) = rsa(bits).ok_or(NotKeys::Kind)?;
            Key::rsa(modulus, exponent)
        }
        P256 => bits.try_into().map(Key::Ec).map_err(|_compressed| NotKeys::Kind),
        ED25519 => bits.try_into().map(Key::Ed25519).map_err(|_length| NotKeys::Kind),
        _ => Err(NotKeys::Kind),
    }
}

/// The algorithm, and the key's bytes.
fn parts(der: &[u8]) -> Option<(&[u8], &[u8])> {
    let (whole, []) = element(SEQUENCE, der)? else { return None };
    let (algorithm, rest) = element(SEQUENCE, whole)?;
    let (bits, []) = element(BIT_STRING, rest)? else { return None };
    // The number of unused bits of the last byte.
    let bits = bits.strip_prefix(&[0])?;
    Some((algorithm, bits))
}

fn rsa(der: &[u8]) -> Option<(&[u8], &[u8])> {
    let (whole, []) = element(SEQUENCE, der)? else { return None };
    let (modulus, rest) = element(INTEGER, whole)?;
    let (exponent, []) = element(INTEGER, rest)? else { return None };
    Some((modulus, exponent))
}

/// The content of the element of this kind that the bytes begin with, and what follows it.
fn element(kind: u8, der: &[u8]) -> Option<(&[u8], &[u8])> {
    let (found, rest) = der.split_first()?;
    let (short, rest) = rest.split_first()?;
    let (length, rest) = match short {
        0..=0x7f => (usize::from(*short), rest),
        0x81 => (usize::from(*rest.first()?), rest.get(1..)?),
        0x82 => (usize::from(u16::from_be_bytes(rest.get(..2)?.try_into().ok()?)), rest.get(2..)?),
        0x80 | 0x83.. => return None,
    };
    (*found == kind).then(|| rest.split_at_checked(length))?
}
