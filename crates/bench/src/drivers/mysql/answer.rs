//! The answer to a request: one result for each of its statements, read in whatever pieces it comes in.
//!
//! Rows are skipped, only counted: the drivers ask for writes and small reads. It keeps no bytes.

use super::packet::{self, Packet, Values};

const OK: u8 = 0x00;
const ERROR: u8 = 0xff;
const END: u8 = 0xfe;
const WANTS_FILE: u8 = 0xfb;
/// Bit of the server's status: another result follows.
const MORE: u64 = 0x8;
/// A packet that begins like an end of rows and is longer is a row.
const END_BYTES_MAX: usize = 9;
/// Bytes of an error's text that are kept, for a person.
const TEXT_BYTES_MAX: usize = 200;

/// What came of a request. Statements behind one that failed were not run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Answer {
    pub results: Vec<Statement>,
    pub error: Option<Error>,
}

/// One statement that succeeded.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Statement {
    /// Rows that it changed.
    pub affected: u64,
    /// Rows that it gave.
    pub rows: u64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Error {
    pub code: u16,
    pub text: String,
}

/// What is expected next.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Expecting {
    #[default]
    Result,
    /// So many descriptions of columns, and an end.
    Columns(u64),
    Rows(u64),
}

/// An answer under way.
#[derive(Debug, Default)]
pub(super) struct Reading {
    answer: Answer,
    expecting: Expecting,
    /// Of the next packet.
    sequence: u8,
}

impl Reading {
    /// For the next request.
    pub(super) fn begin(&mut self) {
        self.answer.results.clear();
        self.answer.error = None;
        self.expecting = Expecting::Result;
        self.sequence = 1;
    }

    pub(super) fn answer(&self) -> &Answer {
        &self.answer
    }

    /// Reads whole packets; how many bytes they were, and whether the answer is whole.
    pub(super) fn read(&mut self, bytes: &[u8]) -> Result<(usize, bool), &'static str> {
        let mut consumed = 0;
        while let Some(packet) = packet::parse(&bytes[consumed..])? {
            if packet.sequence != self.sequence {
                return Err("a packet out of its order");
            }
            self.sequence = self.sequence.wrapping_add(1);
            consumed += packet.bytes;
            if self.packet(&packet)? {
                return Ok((consumed, true));
            }
        }
        Ok((consumed, false))
    }

    /// Whether it was the last one.
    fn packet(&mut self, packet: &Packet<'_>) -> Result<bool, &'static str> {
        let first = *packet.payload.first().ok_or("an empty packet")?;
        let values = Values(&packet.payload[1..]);
        if first == ERROR {
            self.answer.error = Some(error(values).ok_or("an error without a number")?);
            return Ok(true);
        }
        let is_end = first == END && packet.payload.len() < END_BYTES_MAX;
        match self.expecting {
            Expecting::Result if first == OK => {
                let (affected, status) = ok(values).ok_or("a success without a status")?;
                Ok(self.result(Statement { affected, rows: 0 }, status))
            }
            Expecting::Result if first == WANTS_FILE => Err("the server wants a file"),
            Expecting::Result => {
                let count = Values(packet.payload).counted().ok_or("no number of columns")?;
                self.expecting = Expecting::Columns(count);
                Ok(false)
            }
            Expecting::Columns(0) if is_end => {
                self.expecting = Expecting::Rows(0);
                Ok(false)
            }
            Expecting::Columns(0) => Err("more columns than there are"),
            Expecting::Columns(left) => {
                self.expecting = Expecting::Columns(left - 1);
                Ok(false)
            }
            Expecting::Rows(rows) if is_end => {
                let status = end(values).ok_or("an end without a status")?;
                Ok(self.result(Statement { affected: 0, rows }, status))
            }
            Expecting::Rows(rows) => {
                self.expecting = Expecting::Rows(rows + 1);
                Ok(false)
            }
        }
    }

    fn result(&mut self, statement: Statement, status: u64) -> bool {
        self.answer.results.push(statement);
        self.expecting = Expecting::Result;
        status & MORE == 0
    }
}

/// Changed rows and status.
fn ok(mut values: Values<'_>) -> Option<(u64, u64)> {
    let affected = values.counted()?;
    values.counted()?; // the last number that was given out
    Some((affected, values.number(2)?))
}

fn end(mut values: Values<'_>) -> Option<u64> {
    values.number(2)?; // warnings
    values.number(2)
}

fn error(mut values: Values<'_>) -> Option<Error> {
    let code = u16::try_from(values.number(2)?).ok()?;
    // A mark and five letters of a state stand before the text.
    let text = match values.0.first() {
        Some(b'#') => values.0.get(6..).unwrap_or_default(),
        _ => values.0,
    };
    let text = &text[..text.len().min(TEXT_BYTES_MAX)];
    Some(Error { code, text: String::from_utf8_lossy(text).into_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packets(payloads: &[&[u8]]) -> Vec<u8> {
        let mut bytes = Vec::new();
        for (sequence, payload) in (1..).zip(payloads) {
            packet::append(&mut bytes, sequence, |out| out.extend_from_slice(payload));
        }
        bytes
    }

    fn check(payloads: &[&[u8]], wanted: Result<Option<Answer>, &'static str>) {
        let bytes = packets(payloads);
        let mut reading = Reading::default();
        reading.begin();
        let got = reading.read(&bytes).map(|(consumed, whole)| {
            assert_eq!(consumed, bytes.len());
            whole.then(|| reading.answer().clone())
        });
        assert_eq!(got, wanted, "{payloads:?}");
        // And a byte at a time.
        reading.begin();
        let mut kept = Vec::new();
        let mut last = Ok((0, false));
        for byte in bytes {
            kept.push(byte);
            last = reading.read(&kept);
            match last {
                Ok((consumed, _)) => drop(kept.drain(..consumed)),
                Err(_) => break,
            }
        }
        assert_eq!(last.map(|(_, whole)| whole.then(|| reading.answer().clone())), wanted);
    }

    #[test]
    fn answers() {
        let ok = |affected: u8, status: u8| [OK, affected, 0, status, 0, 0, 0];
        let end = |status: u8| [END, 0, 0, status, 0];
        let done = |results: &[(u64, u64)]| Answer {
            results: results.iter().map(|&(affected, rows)| Statement { affected, rows }).collect(),
            error: None,
        };
        check(&[&ok(3, 2)], Ok(Some(done(&[(3, 0)]))));
        check(&[&ok(0, 8)], Ok(None));
        check(&[&ok(0, 8), &ok(1, 10), &ok(0, 2)], Ok(Some(done(&[(0, 0), (1, 0), (0, 0)]))));
        let one = [1];
        let rows: &[&[u8]] = &[&one, b"a column", &end(2), b"\x011", b"\x012", &end(8), &ok(5, 0)];
        check(rows, Ok(Some(done(&[(0, 2), (5, 0)]))));
        let refused = b"\xff\xbd\x04#40001Deadlock found";
        let error = Some(Error { code: 1213, text: "Deadlock found".to_owned() });
        check(&[&ok(0, 8), refused], Ok(Some(Answer { results: done(&[(0, 0)]).results, error })));
        for (payloads, why) in [
            (&[&b""[..]][..], "an empty packet"),
            (&[b"\xfbfile"], "the server wants a file"),
            (&[b"\x00\x01"], "a success without a status"),
            (&[b"\xff\x01"], "an error without a number"),
            (&[b"\xfc\x01"], "no number of columns"),
            (&[&one, b"a", b"b"], "more columns than there are"),
        ] {
            check(payloads, Err(why));
        }
        let mut reading = Reading::default();
        reading.begin();
        let mut again = packets(&[&ok(0, 8)]);
        again.extend(packets(&[&ok(0, 2)]));
        assert_eq!(reading.read(&again), Err("a packet out of its order"));
    }

    #[test]
    fn a_long_row_is_not_taken_for_an_end() {
        let mut row = vec![END];
        row.extend([0; 20]);
        let end = [END, 0, 0, 2, 0];
        let wanted = Answer { results: vec![Statement { affected: 0, rows: 1 }], error: None };
        check(&[&[1], b"column", &end, &row, &end], Ok(Some(wanted)));
    }
}
