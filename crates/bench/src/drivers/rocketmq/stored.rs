//! Messages as a broker hands them out: one after the other, in the form that they have in its log.
//!
//! Only what a consumer under measurement needs: where each stands, when it was made and stored, and its body. The
//! checksum is not looked at: whoever knows what the bodies must be compares them, which is stronger.

/// The usual form, and the one whose topic has a length of two bytes.
const MAGIC: u32 = 0xdaa3_20a7;
const MAGIC_LONG_TOPIC: u32 = 0xdaa3_20ab;
/// Bits of the system flag: addresses of 16 bytes.
const BORN_BY_V6: u32 = 1 << 4;
const STORED_BY_V6: u32 = 1 << 5;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Stored<'a> {
    pub(super) queue: u32,
    pub(super) offset: u64,
    /// By the producer's clock, and by the broker's.
    pub(super) born_ms: u64,
    pub(super) stored_ms: u64,
    pub(super) body: &'a [u8],
}

/// The next message of the bytes, which then begin behind it; `None` if they can't be one.
pub(super) fn next<'a>(rest: &mut &'a [u8]) -> Option<Stored<'a>> {
    let mut bytes = *rest;
    let length = usize::try_from(u32(&mut bytes)?).ok()?.checked_sub(4)?;
    let (mut message, behind) = bytes.split_at_checked(length)?;
    let stored = read(&mut message).filter(|_| message.is_empty())?;
    *rest = behind;
    Some(stored)
}

fn read<'a>(message: &mut &'a [u8]) -> Option<Stored<'a>> {
    let magic = u32(message)?;
    let _checksum = u32(message)?;
    let queue = u32(message)?;
    let _flag = u32(message)?;
    let offset = u64(message)?;
    let _log_offset = u64(message)?;
    let system_flag = u32(message)?;
    let address = |v6: u32| if system_flag & v6 == 0 { 4 + 4 } else { 16 + 4 };
    let born_ms = u64(message)?;
    take(message, address(BORN_BY_V6))?;
    let stored_ms = u64(message)?;
    take(message, address(STORED_BY_V6))?;
    let _times_consumed = u32(message)?;
    let _prepared_offset = u64(message)?;
    let body_bytes = usize::try_from(u32(message)?).ok()?;
    let body = take(message, body_bytes)?;
    let topic_bytes = match magic {
        MAGIC => usize::from(take(message, 1)?[0]),
        MAGIC_LONG_TOPIC => u16(message)?,
        _ => return None,
    };
    take(message, topic_bytes)?;
    let properties_bytes = u16(message)?;
    take(message, properties_bytes)?;
    Some(Stored { queue, offset, born_ms, stored_ms, body })
}

fn take<'a>(rest: &mut &'a [u8], count: usize) -> Option<&'a [u8]> {
    let (taken, behind) = rest.split_at_checked(count)?;
    *rest = behind;
    Some(taken)
}

fn array<const N: usize>(rest: &mut &[u8]) -> Option<[u8; N]> {
    let (taken, behind) = rest.split_first_chunk::<N>()?;
    *rest = behind;
    Some(*taken)
}

fn u16(rest: &mut &[u8]) -> Option<usize> {
    array(rest).map(u16::from_be_bytes).map(usize::from)
}

fn u32(rest: &mut &[u8]) -> Option<u32> {
    array(rest).map(u32::from_be_bytes)
}

fn u64(rest: &mut &[u8]) -> Option<u64> {
    array(rest).map(u64::from_be_bytes)
}

#[cfg(test)]
pub(super) fn message(magic: u32, system_flag: u32, place: (u32, u64), body: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let address = |v6| vec![7; if system_flag & v6 == 0 { 8 } else { 20 }];
    for part in [
        &magic.to_be_bytes()[..],
        &[0; 4],
        &place.0.to_be_bytes(),
        &[0; 4],
        &place.1.to_be_bytes(),
        &[0; 8],
        &system_flag.to_be_bytes(),
        &1_000_u64.to_be_bytes(),
        &address(BORN_BY_V6),
        &1_002_u64.to_be_bytes(),
        &address(STORED_BY_V6),
        &[0; 12],
        &u32::try_from(body.len()).unwrap().to_be_bytes(),
        body,
        if magic == MAGIC { &[2][..] } else { &[0, 2] },
        b"To",
        &[0, 3],
        b"a\x01b",
    ] {
        bytes.extend_from_slice(part);
    }
    let length = u32::try_from(bytes.len() + 4).unwrap();
    [&length.to_be_bytes()[..], &bytes].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_of_all_forms_follow_each_other() {
        let mut all = Vec::new();
        let forms = [(MAGIC, 0), (MAGIC_LONG_TOPIC, BORN_BY_V6), (MAGIC, STORED_BY_V6 | BORN_BY_V6)];
        for (at, (magic, flag)) in (0..).zip(forms) {
            all.extend(message(magic, flag, (3, at), b"body"));
        }
        let mut rest = &all[..];
        for offset in 0..3 {
            let wanted = Stored { queue: 3, offset, born_ms: 1_000, stored_ms: 1_002, body: b"body" };
            assert_eq!(next(&mut rest), Some(wanted));
        }
        assert_eq!((rest.len(), next(&mut rest)), (0, None));
    }

    #[test]
    fn a_damaged_message_is_none() {
        let whole = message(MAGIC, 0, (3, 9), b"body");
        for cut in 0..whole.len() {
            assert_eq!(next(&mut &whole[..cut]), None, "{cut}");
        }
        // Its length, its kind, its body's length, its topic's.
        for (at, byte) in [(3, 1), (3, 255), (4, 0), (whole.len() - 16, 0x7f), (whole.len() - 8, 200)] {
            let mut damaged = whole.clone();
            assert_ne!(damaged[at], byte);
            damaged[at] = byte;
            assert_eq!(next(&mut &damaged[..]), None, "byte {at}");
        }
    }
}
