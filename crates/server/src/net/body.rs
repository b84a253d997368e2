//! The chunked transfer coding, removed in place: decoded bytes move to the front of the same buffer, so a
//! chunked body needs no second one. Strict on purpose (no bare line feed, no blank after a size), because
//! lenient chunk parsers are how requests get smuggled.

use super::head::{Malformed, malformed};

/// Bytes of one chunk's size line; extensions are skipped, and this bounds them.
const SIZE_LINE_BYTES_MAX: usize = 256;
/// Bytes of all trailer lines, which are skipped.
const TRAILER_BYTES_MAX: usize = 4 * 1024;

const BAD_SIZE: Malformed = malformed(400, "a chunk size is invalid");
const BAD_END: Malformed = malformed(400, "a chunk is not followed by a line end");
const BAD_TRAILER: Malformed = malformed(400, "the trailer of a chunked body is invalid or too long");

/// Where in the coding the next raw byte stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ChunkState {
    /// In the hexadecimal size; whether a digit was seen.
    Size {
        digits: bool,
    },
    Extension,
    SizeLineFeed,
    Data,
    DataReturn,
    DataLineFeed,
    TrailerStart,
    Trailer,
    TrailerLineFeed,
    LastLineFeed,
    Done,
}

/// The decoder of one chunked body; fed with input as it arrives.
#[derive(Debug)]
pub(super) struct Chunks {
    state: ChunkState,
    /// Bytes of the current chunk that are still to come, or its size while that is being read.
    left: usize,
    /// Bytes of the current size line or of the trailer.
    line_bytes: usize,
    decoded: usize,
    body_bytes_max: usize,
}

impl Chunks {
    pub(super) fn new(body_bytes_max: usize) -> Chunks {
        Chunks {
            state: ChunkState::Size { digits: false },
            left: 0,
            line_bytes: 0,
            decoded: 0,
            body_bytes_max,
        }
    }

    /// The length of the decoded body, once it is complete.
    pub(super) fn complete(&self) -> Option<usize> {
        (self.state == ChunkState::Done).then_some(self.decoded)
    }

    /// Decodes what is in `tail`: the bytes decoded by earlier calls, then raw ones. Leaves all decoded
    /// bytes in front, followed by what comes after the body, and returns the new length of `tail`.
    pub(super) fn decode(&mut self, tail: &mut [u8]) -> Result<usize, Malformed> {
        let mut read = self.decoded;
        while read < tail.len() && self.state != ChunkState::Done {
            if self.state == ChunkState::Data {
                let bytes = self.left.min(tail.len() - read);
                tail.copy_within(read..read + bytes, self.decoded);
                self.decoded += bytes;
                self.left -= bytes;
                read += bytes;
                if self.left == 0 {
                    self.state = ChunkState::DataReturn;
                }
            } else {
                self.state = self.step(tail[read])?;
                read += 1;
            }
        }
        tail.copy_within(read.., self.decoded);
        Ok(self.decoded + (tail.len() - read))
    }

    /// Takes one byte of the coding itself.
    fn step(&mut self, byte: u8) -> Result<ChunkState, Malformed> {
        self.line_bytes += 1;
        match (self.state, byte) {
            (ChunkState::Size { .. }, b'0'..=b'9' | b'a'..=b'f' | b'A'..=b'F') => self.digit(byte),
            (ChunkState::Size { digits: true }, b';') => Ok(ChunkState::Extension),
            (ChunkState::Size { digits: true } | ChunkState::Extension, b'\r') => {
                Ok(ChunkState::SizeLineFeed)
            }
            (ChunkState::Size { .. }, _) => Err(BAD_SIZE),
            (ChunkState::Extension, _) if forbidden(byte) || self.line_bytes > SIZE_LINE_BYTES_MAX => {
                Err(malformed(400, "a chunk extension is invalid or too long"))
            }
            (ChunkState::Extension, _) => Ok(ChunkState::Extension),
            (ChunkState::SizeLineFeed, b'\n') => {
                self.line_bytes = 0;
                Ok(if self.left == 0 { ChunkState::TrailerStart } else { ChunkState::Data })
            }
            (ChunkState::SizeLineFeed, _) => Err(BAD_SIZE),
            (ChunkState::DataReturn, b'\r') => Ok(ChunkState::DataLineFeed),
            (ChunkState::DataLineFeed, b'\n') => {
                self.line_bytes = 0;
                Ok(ChunkState::Size { digits: false })
            }
            (ChunkState::DataReturn | ChunkState::DataLineFeed, _) => Err(BAD_END),
            (ChunkState::TrailerStart, b'\r') => Ok(ChunkState::LastLineFeed),
            (ChunkState::Trailer, b'\r') => Ok(ChunkState::TrailerLineFeed),
            (ChunkState::TrailerLineFeed, b'\n') => Ok(ChunkState::TrailerStart),
            (ChunkState::LastLineFeed, b'\n') => Ok(ChunkState::Done),
            (ChunkState::TrailerStart | ChunkState::Trailer, _)
                if !forbidden(byte) && self.line_bytes <= TRAILER_BYTES_MAX =>
            {
                Ok(ChunkState::Trailer)
            }
            (ChunkState::TrailerStart | ChunkState::Trailer, _)
            | (ChunkState::TrailerLineFeed | ChunkState::LastLineFeed, _) => Err(BAD_TRAILER),
            (ChunkState::Data | ChunkState::Done, _) => {
                unreachable!("decode() takes data itself and ends at Done")
            }
        }
    }

    fn digit(&mut self, byte: u8) -> Result<ChunkState, Malformed> {
        let value = char::from(byte).to_digit(16).expect("the caller matched a hexadecimal digit");
        // Zeros in front could go on without end: a size line is bounded like an extension.
        if self.line_bytes > SIZE_LINE_BYTES_MAX {
            return Err(BAD_SIZE);
        }
        self.left = self.left.checked_mul(16).ok_or(BAD_SIZE)? + value as usize;
        if self.left > self.body_bytes_max - self.decoded {
            return Err(malformed(413, "the body is too large"));
        }
        Ok(ChunkState::Size { digits: true })
    }
}

/// Control characters, except the tab.
fn forbidden(byte: u8) -> bool {
    (byte < b' ' && byte != b'\t') || byte == 0x7f
}
