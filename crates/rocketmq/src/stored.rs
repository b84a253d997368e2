//! Messages as a broker stores them, which is also how it hands them out: one after the other, in one body.
//!
//! Must not: panic because of what a server sent.

/// First the usual form, then the one with a topic's length of two bytes.
const MAGIC: [u32; 2] = [0xdaa3_20a7, 0xdaa3_20ab];
/// Bits of the system flag: addresses of 16 bytes instead of 4.
const BORN_HOST_V6: u32 = 1 << 4;
const STORE_HOST_V6: u32 = 1 << 5;
/// A broker's checksum is a positive number of Java.
const CHECKSUM_MASK: u32 = 0x7fff_ffff;

#[derive(Debug, PartialEq, Eq)]
pub struct Stored<'a> {
    pub queue: u32,
    pub offset: u64,
    /// By the producer's clock, and by the broker's.
    pub born_ms: u64,
    pub stored_ms: u64,
    pub body: &'a [u8],
}

/// Why a message can't be read. The offset is known if it got that far.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub struct Damaged {
    pub offset: Option<u64>,
    pub reason: &'static str,
}

struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn bytes(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (taken, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(*taken)
    }

    fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_be_bytes)
    }

    fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_be_bytes)
    }

    /// A length of four bytes, and so many bytes.
    fn block(&mut self) -> Option<&'a [u8]> {
        let count = self.u32()?;
        self.bytes(usize::try_from(count).ok()?)
    }
}

/// The messages of a pull's answer. An error is the last thing that it gives.
pub fn messages(body: &[u8]) -> impl Iterator<Item = Result<Stored<'_>, Damaged>> {
    let mut rest = Reader(body);
    std::iter::from_fn(move || {
        if rest.0.is_empty() {
            return None;
        }
        let message = next(&mut rest);
        if message.is_err() {
            rest.0 = &[];
        }
        Some(message)
    })
}

fn next<'a>(rest: &mut Reader<'a>) -> Result<Stored<'a>, Damaged> {
    let cut_off = Damaged { offset: None, reason: "a message is cut off" };
    let total =
        rest.u32().and_then(|total| usize::try_from(total).ok()).and_then(|total| total.checked_sub(4));
    let Some(message) = total.and_then(|total| rest.bytes(total)) else {
        return Err(cut_off);
    };
    let mut offset = None;
    let (stored, checksum) = fields(&mut Reader(message), &mut offset)
        .ok_or(Damaged { offset, reason: "a message's lengths do not add up" })?;
    if checksum != crc32fast::hash(stored.body) & CHECKSUM_MASK {
        return Err(Damaged { offset, reason: "the checksum of the body is wrong" });
    }
    Ok(stored)
}

/// The message, and the checksum that it carries. `None` if its parts do not fill it exactly.
fn fields<'a>(message: &mut Reader<'a>, known_offset: &mut Option<u64>) -> Option<(Stored<'a>, u32)> {
    let magic = message.u32()?;
    let form = MAGIC.iter().position(|known| *known == magic)?;
    let checksum = message.u32()?;
    let queue = message.u32()?;
    let _flag = message.u32()?;
    let offset = message.u64()?;
    *known_offset = Some(offset);
    let _place_in_log = message.u64()?;
    let system_flag = message.u32()?;
    let address_bytes = |v6: u32| if system_flag & v6 == 0 { 8 } else { 20 };
    let born_ms = message.u64()?;
    message.bytes(address_bytes(BORN_HOST_V6))?;
    let stored_ms = message.u64()?;
    message.bytes(address_bytes(STORE_HOST_V6))?;
    let _times_consumed = message.u32()?;
    let _prepared_transaction = message.u64()?;
    let body = message.block()?;
    let topic_bytes = if form == 0 {
        usize::from(u8::from_be_bytes(message.array()?))
    } else {
        usize::from(u16::from_be_bytes(message.array()?))
    };
    message.bytes(topic_bytes)?;
    let properties_bytes = u16::from_be_bytes(message.array()?);
    message.bytes(usize::from(properties_bytes))?;
    message.0.is_empty().then_some((Stored { queue, offset, born_ms, stored_ms, body }, checksum))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn stored(form: usize, system_flag: u32, queue: u32, offset: u64, body: &[u8]) -> Vec<u8> {
        let mut message = Vec::new();
        message.extend(MAGIC[form].to_be_bytes());
        message.extend((crc32fast::hash(body) & CHECKSUM_MASK).to_be_bytes());
        message.extend(queue.to_be_bytes());
        message.extend([0; 4]);
        message.extend(offset.to_be_bytes());
        message.extend([0; 8]);
        message.extend(system_flag.to_be_bytes());
        message.extend(1_000_u64.to_be_bytes());
        message.extend(vec![1; if system_flag & BORN_HOST_V6 == 0 { 8 } else { 20 }]);
        message.extend(1_002_u64.to_be_bytes());
        message.extend(vec![1; if system_flag & STORE_HOST_V6 == 0 { 8 } else { 20 }]);
        message.extend([0; 12]);
        message.extend(u32::try_from(body.len()).unwrap().to_be_bytes());
        message.extend(body);
        message.extend(if form == 0 { &[5_u8][..] } else { &[0, 5] });
        message.extend(b"topic");
        message.extend([0, 3]);
        message.extend(b"a\x01b");
        [&u32::try_from(message.len() + 4).unwrap().to_be_bytes()[..], &message].concat()
    }

    #[test]
    fn every_form_of_a_message_is_read() {
        for form in 0..MAGIC.len() {
            for system_flag in [0, BORN_HOST_V6, STORE_HOST_V6, BORN_HOST_V6 | STORE_HOST_V6 | 1] {
                let two =
                    [stored(form, system_flag, 3, 8, b"one"), stored(form, system_flag, 3, 9, b"")].concat();
                let read: Vec<_> = messages(&two).collect();
                let expected = [(8, &b"one"[..]), (9, b"")];
                let stored =
                    |(offset, body)| Stored { queue: 3, offset, born_ms: 1_000, stored_ms: 1_002, body };
                assert_eq!(read, expected.map(|expected| Ok(stored(expected))));
            }
        }
    }

    #[test]
    fn a_wrong_checksum_is_an_error_with_the_offset_and_ends_it() {
        let mut bytes = [stored(0, 0, 1, 7, b"body"), stored(0, 0, 1, 8, b"body")].concat();
        bytes[90] ^= 1;
        let read: Vec<_> = messages(&bytes).collect();
        assert_eq!(read, [Err(Damaged { offset: Some(7), reason: "the checksum of the body is wrong" })]);
    }

    proptest! {
        #[test]
        fn whatever_comes_is_no_reason_to_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            messages(&bytes).for_each(drop);
        }

        #[test]
        fn a_damaged_message_is_no_reason_to_panic(at: prop::sample::Index, byte: u8, cut: prop::sample::Index) {
            let mut bytes = [stored(0, 0, 1, 7, b"some body"), stored(1, 48, 1, 8, b"other")].concat();
            let at = at.index(bytes.len());
            bytes[at] = byte;
            messages(&bytes).for_each(drop);
            messages(&bytes[..cut.index(bytes.len())]).for_each(drop);
        }
    }
}
