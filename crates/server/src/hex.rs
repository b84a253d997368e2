//! Bytes as lower-case hexadecimal digits.

const HEX: &[u8; 16] = b"0123456789abcdef";

pub(crate) fn push_hex(out: &mut Vec<u8>, bytes: &[u8]) {
    out.extend(bytes.iter().flat_map(|byte| [HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]]));
}

pub fn hex(bytes: &[u8]) -> String {
    let mut digits = Vec::with_capacity(bytes.len() * 2);
    push_hex(&mut digits, bytes);
    String::from_utf8(digits).expect("digits are ASCII")
}

/// Bytes from digits that fill `into` exactly.
pub fn read_hex(text: &str, into: &mut [u8]) -> bool {
    let nibble = |digit: u8| HEX.iter().position(|known| *known == digit).and_then(|n| u8::try_from(n).ok());
    if text.len() != into.len() * 2 {
        return false;
    }
    for (pair, byte) in text.as_bytes().chunks_exact(2).zip(into) {
        let (Some(high), Some(low)) = (nibble(pair[0]), nibble(pair[1])) else { return false };
        *byte = high << 4 | low;
    }
    true
}

/// The same, of a width that is known.
pub fn unhex<const WIDTH: usize>(text: &str) -> Option<[u8; WIDTH]> {
    let mut bytes = [0; WIDTH];
    read_hex(text, &mut bytes).then_some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hex_is_read_exactly() {
        let mut two = [0; 2];
        assert!(read_hex("0aff", &mut two));
        assert_eq!((two, hex(&two)), ([0x0a, 0xff], "0aff".to_owned()));
        for text in ["", "0aff0", "0aff00", "0aFF", "0ag0", "0a f", "ää"] {
            assert!(!read_hex(text, &mut two), "{text}");
        }
    }
}
