//! Packets of the MySQL protocol: three bytes of length, a sequence number, a payload; and the values in payloads.

/// A payload of this length goes on in the next packet; no answer to a bench is that long.
const PAYLOAD_BYTES_MAX: usize = 0xff_ffff;

#[derive(Debug, PartialEq, Eq)]
pub(super) struct Packet<'a> {
    pub(super) sequence: u8,
    pub(super) payload: &'a [u8],
    /// With its head.
    pub(super) bytes: usize,
}

/// `None` while it is not whole.
pub(super) fn parse(bytes: &[u8]) -> Result<Option<Packet<'_>>, &'static str> {
    let Some((&[low, middle, high, sequence], rest)) = bytes.split_first_chunk::<4>() else {
        return Ok(None);
    };
    let length = usize::from(low) | usize::from(middle) << 8 | usize::from(high) << 16;
    if length == PAYLOAD_BYTES_MAX {
        return Err("an answer of over 16 MiB");
    }
    Ok(rest.get(..length).map(|payload| Packet { sequence, payload, bytes: 4 + length }))
}

/// Appends a packet whose payload `write` appends.
pub(super) fn append(out: &mut Vec<u8>, sequence: u8, write: impl FnOnce(&mut Vec<u8>)) {
    let start = out.len();
    out.extend_from_slice(&[0, 0, 0, sequence]);
    write(out);
    let length = out.len() - start - 4;
    assert!(length < PAYLOAD_BYTES_MAX, "a statement is shorter than 16 MiB");
    let length = u32::try_from(length).expect("checked just now").to_le_bytes();
    out[start..start + 3].copy_from_slice(&length[..3]);
}

/// Reads values from the front of a payload; `None` where it is too short.
#[derive(Debug, Clone, Copy)]
pub(super) struct Values<'a>(pub(super) &'a [u8]);

impl<'a> Values<'a> {
    pub(super) fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    /// A number of so many bytes, the lowest first.
    pub(super) fn number(&mut self, bytes: usize) -> Option<u64> {
        Some(self.take(bytes)?.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte)))
    }

    /// A number that says by its first byte how long it is.
    pub(super) fn counted(&mut self) -> Option<u64> {
        match self.number(1)? {
            small @ 0..=250 => Some(small),
            252 => self.number(2),
            253 => self.number(3),
            254 => self.number(8),
            _ => None,
        }
    }

    /// Text up to a zero byte, or to the end.
    pub(super) fn text(&mut self) -> &'a [u8] {
        let end = self.0.iter().position(|byte| *byte == 0);
        let text = &self.0[..end.unwrap_or(self.0.len())];
        self.0 = end.map_or(&[], |end| &self.0[end + 1..]);
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_are_read_when_they_are_whole() {
        let mut bytes = Vec::new();
        append(&mut bytes, 3, |out| out.extend_from_slice(&[9; 300]));
        assert_eq!(bytes[..4], [44, 1, 0, 3]);
        for cut in [0, 3, 4, 303] {
            assert_eq!(parse(&bytes[..cut]), Ok(None), "{cut}");
        }
        bytes.push(77);
        assert_eq!(parse(&bytes), Ok(Some(Packet { sequence: 3, payload: &[9; 300], bytes: 304 })));
        assert!(parse(&[255, 255, 255, 0]).is_err());
    }

    #[test]
    fn numbers_have_their_lengths() {
        let cases: [(&[u8], Option<u64>); 9] = [
            (&[0], Some(0)),
            (&[250], Some(250)),
            (&[251], None),
            (&[252, 1, 2], Some(0x201)),
            (&[252, 1], None),
            (&[253, 1, 2, 3], Some(0x3_0201)),
            (&[254, 1, 0, 0, 0, 0, 0, 0, 0x80], Some(0x8000_0000_0000_0001)),
            (&[255, 1, 1, 1, 1, 1, 1, 1, 1], None),
            (&[], None),
        ];
        for (bytes, wanted) in cases {
            assert_eq!(Values(bytes).counted(), wanted, "{bytes:?}");
        }
        let mut values = Values(b"one\0two");
        assert_eq!((values.text(), values.text(), values.text()), (&b"one"[..], &b"two"[..], &b""[..]));
    }
}
