//! Bytes as lower-case hexadecimal digits.

const HEX: &[u8; 16] = b"0123456789abcdef";

/// Makes room once and fills it: each order's id is written twice into its answer.
pub(crate) fn push_hex(out: &mut Vec<u8>, bytes: &[u8]) {
    let begun = out.len();
    out.resize(begun + 2 * bytes.len(), 0);
    for (digits, byte) in out[begun..].chunks_exact_mut(2).zip(bytes) {
        digits[0] = digit(byte >> 4);
        digits[1] = digit(byte & 15);
    }
}

/// Without a table or a branch, so that the compiler makes vector instructions of it.
fn digit(nibble: u8) -> u8 {
    nibble + if nibble < 10 { b'0' } else { b'a' - 10 }
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
    fn every_byte_is_written_as_the_standard_library_does() {
        let bytes: Vec<u8> = (0..=255).collect();
        let mut out = b"before".to_vec();
        push_hex(&mut out, &bytes);
        let expected: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(out, [b"before", expected.as_bytes()].concat());
    }

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
