//! Statements as text: values are numbers and byte strings only, many rows stand in one statement, and many
//! statements go in one round trip.
//!
//! Prepared statements would cost a round trip each; a batch of 500 orders as text is one packet.
//!
//! Must not: know a table.

use std::fmt::Write;

use engine::{BuyerId, OrderId, SkuId};
use mysql::prelude::Queryable;
use mysql::{Conn, Row};

use crate::ledger::rows::buyer_row;

/// Bounds of one statement. Above 1,000 values MariaDB turns a list into a join.
const LIST_MAX: usize = 900;
const ROWS_MAX: usize = 1_000;
/// A packet is sent when it is this long: a long one makes the server wait for its end with nothing to do.
const PACKET_BYTES: usize = 1 << 20;
/// Of the longest packet that the server takes, left for its frame.
const PACKET_SPARE: usize = 1_024;

/// Statements that will be sent together, in one text: what is sent is cut from it.
#[derive(Debug)]
pub(in crate::ledger::mysql) struct Script {
    text: String,
    /// Where each statement ends, its semicolon included.
    ends: Vec<usize>,
    /// The INSERT that the next row may go on with.
    open: Option<&'static str>,
    /// Where the packet begins in which the next row or statement would stand.
    packet_at: usize,
    /// Longest packet to make; an INSERT that goes on ends before it.
    bytes_max: usize,
}

impl Default for Script {
    fn default() -> Script {
        Script::new(usize::MAX)
    }
}

impl Script {
    pub(in crate::ledger::mysql) fn new(packet_bytes_max: usize) -> Script {
        let bytes_max = packet_bytes_max.saturating_sub(PACKET_SPARE).clamp(PACKET_SPARE, PACKET_BYTES);
        Script { text: String::new(), ends: Vec::new(), open: None, packet_at: 0, bytes_max }
    }

    /// Empty again; the memory is kept for the next transaction.
    pub(in crate::ledger::mysql) fn clear(&mut self) {
        self.text.clear();
        self.ends.clear();
        self.open = None;
        self.packet_at = 0;
    }

    /// A whole statement, without its semicolon.
    pub(in crate::ledger::mysql) fn push(&mut self, statement: impl AsRef<str>) {
        let at = self.begin();
        self.text.push_str(statement.as_ref());
        self.end(at);
    }

    /// Whole statements, as [`Script::push`].
    pub(in crate::ledger::mysql) fn extend(&mut self, statements: impl IntoIterator<Item = String>) {
        statements.into_iter().for_each(|statement| self.push(statement));
    }

    /// One row, written without its brackets, in the INSERT before it if that is of the same table and its packet has
    /// room.
    pub(in crate::ledger::mysql) fn row(&mut self, insert: &'static str, write: impl FnOnce(&mut String)) {
        let goes_on = self.open == Some(insert);
        if goes_on {
            self.text.push(',');
        } else {
            self.begin();
            self.text.push_str(insert);
            self.open = Some(insert);
        }
        let row_at = self.text.len();
        self.text.push('(');
        write(&mut self.text);
        self.text.push(')');
        if self.text.len() - self.packet_at < self.bytes_max {
            return;
        }
        if goes_on {
            // In place of the comma before it, the statement ends, and the row begins another in a new packet.
            self.text.replace_range(row_at - 1..row_at, ";");
            self.ends.push(row_at);
            self.text.insert_str(row_at, insert);
            self.packet_at = row_at;
        } else {
            self.packet_at = row_at - insert.len();
        }
    }

    /// Ends an INSERT that is open; returns where the next statement begins.
    fn begin(&mut self) -> usize {
        if self.open.take().is_some() {
            self.text.push(';');
            self.ends.push(self.text.len());
        }
        self.text.len()
    }

    /// Ends the statement that began there.
    fn end(&mut self, at: usize) {
        self.text.push(';');
        self.ends.push(self.text.len());
        if self.text.len() - self.packet_at >= self.bytes_max {
            self.packet_at = at;
        }
    }

    /// `head` and then the rows, each written by `row` without its brackets, and `tail`: as many statements as it
    /// takes, none if there are no rows.
    pub(in crate::ledger::mysql) fn rows<T>(
        &mut self,
        head: &str,
        rows: impl IntoIterator<Item = T>,
        tail: &str,
        mut row: impl FnMut(&mut String, T),
    ) {
        self.values(
            ROWS_MAX,
            rows,
            |text, count, item| {
                text.push_str(if count == 0 { head } else { "," });
                text.push('(');
                row(text, item);
                text.push(')');
            },
            tail,
        );
    }

    /// `head (values) tail`: as many statements as it takes; returns how many. None if there are no values.
    pub(in crate::ledger::mysql) fn lists<T>(
        &mut self,
        head: &str,
        values: impl IntoIterator<Item = T>,
        tail: &str,
        mut value: impl FnMut(&mut String, T),
    ) -> usize {
        let tail = format!("){tail}");
        self.values(
            LIST_MAX,
            values,
            |text, count, item| {
                if count == 0 {
                    text.push_str(head);
                }
                text.push(if count == 0 { '(' } else { ',' });
                value(text, item);
            },
            &tail,
        )
    }

    /// Statements of at most `max` items each; returns how many.
    fn values<T>(
        &mut self,
        max: usize,
        items: impl IntoIterator<Item = T>,
        mut write: impl FnMut(&mut String, usize, T),
        tail: &str,
    ) -> usize {
        let mut statement_at = self.begin();
        let before = self.ends.len();
        let mut count = 0;
        for item in items {
            write(&mut self.text, count, item);
            count += 1;
            if count == max {
                self.text.push_str(tail);
                self.end(statement_at);
                statement_at = self.text.len();
                count = 0;
            }
        }
        if count > 0 {
            self.text.push_str(tail);
            self.end(statement_at);
        }
        self.ends.len() - before
    }

    /// The statements in as few packets as their length allows, in order. A statement that is longer is one by itself.
    pub(in crate::ledger::mysql) fn packets(&mut self) -> impl Iterator<Item = &str> {
        self.begin();
        let Script { text, ends, bytes_max, .. } = &*self;
        let (mut at, mut next) = (0, 0);
        std::iter::from_fn(move || {
            let first = *ends.get(next)?;
            let mut end = first;
            next += 1;
            while let Some(longer) = ends.get(next).filter(|longer| **longer - at < *bytes_max) {
                end = *longer;
                next += 1;
            }
            let packet = &text[at..end];
            at = end;
            Some(packet)
        })
    }

    /// Sends the statements and hands every row to `each`, with the number of the statement that it answers.
    ///
    /// # Errors
    /// The first that failed; those after it were not run.
    pub(in crate::ledger::mysql) fn run(
        mut self,
        connection: &mut Conn,
        packet_bytes_max: usize,
        mut each: impl FnMut(usize, Row) -> Result<(), mysql::Error>,
    ) -> Result<(), mysql::Error> {
        self.bytes_max = self.bytes_max.min(packet_bytes_max.saturating_sub(PACKET_SPARE));
        let mut statement = 0;
        for packet in self.packets() {
            let mut result = connection.query_iter(packet)?;
            while let Some(set) = result.iter() {
                for row in set {
                    each(statement, row?)?;
                }
                statement += 1;
            }
        }
        Ok(())
    }
}

/// A number of a signed column, as it went in: fingerprints use all bits, all others are below 2^63.
pub(in crate::ledger::mysql) fn unsigned(value: i64) -> u64 {
    value.cast_unsigned()
}

pub(in crate::ledger::mysql) fn number(text: &mut String, value: impl std::fmt::Display) {
    write!(text, "{value}").expect("text takes anything");
}

/// Numbers, with commas between them: of every order there are twenty, which [`number`] would take longer for.
pub(in crate::ledger::mysql) fn numbers<const N: usize>(text: &mut String, values: [i64; N]) {
    let mut digits = itoa::Buffer::new();
    for (place, value) in values.into_iter().enumerate() {
        if place > 0 {
            text.push(',');
        }
        text.push_str(digits.format(value));
    }
}

/// The 20 bytes of an order's id.
pub(in crate::ledger::mysql) fn id_bytes(id: OrderId) -> [u8; 20] {
    let mut bytes = [0; 20];
    bytes[..4].copy_from_slice(&id.sku.0.to_be_bytes());
    bytes[4..].copy_from_slice(&id.hash.to_be_bytes());
    bytes
}

pub(in crate::ledger::mysql) fn id_of(bytes: &[u8]) -> Option<OrderId> {
    let (sku, hash) = bytes.split_first_chunk()?;
    Some(OrderId { sku: SkuId(u32::from_be_bytes(*sku)), hash: u128::from_be_bytes(hash.try_into().ok()?) })
}

/// The columns `buyer` and `buyer_high`.
pub(in crate::ledger::mysql) struct BuyerColumns(pub(in crate::ledger::mysql) BuyerId);

impl std::fmt::Display for BuyerColumns {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match buyer_row(self.0) {
            (low, Some(high)) => write!(f, "{low},{high}"),
            (low, None) => write!(f, "{low},NULL"),
        }
    }
}

/// A SKU and a buyer: 12 bytes for a number, 20 for a hash.
pub(in crate::ledger::mysql) fn who_hex(text: &mut String, sku: SkuId, buyer: BuyerId) {
    let mut bytes = [0; 20];
    bytes[..4].copy_from_slice(&sku.0.to_be_bytes());
    match buyer.number() {
        Some(number) => {
            bytes[4..12].copy_from_slice(&number.to_be_bytes());
            hex(text, &bytes[..12]);
        }
        None => {
            bytes[4..].copy_from_slice(&buyer.0.to_be_bytes());
            hex(text, &bytes);
        }
    }
}

pub(in crate::ledger::mysql) fn who_of(bytes: &[u8]) -> Option<(SkuId, BuyerId)> {
    let (sku, buyer) = bytes.split_first_chunk()?;
    let buyer = match buyer.len() {
        8 => BuyerId::of_number(u64::from_be_bytes(buyer.try_into().ok()?))?,
        _ => Some(BuyerId(u128::from_be_bytes(buyer.try_into().ok()?))).filter(|buyer| buyer.is_hash())?,
    };
    Some((SkuId(u32::from_be_bytes(*sku)), buyer))
}

/// A byte string as a hexadecimal literal.
pub(in crate::ledger::mysql) fn hex(text: &mut String, bytes: &[u8]) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    const AT_ONCE: usize = 32;
    text.push_str("x'");
    for part in bytes.chunks(AT_ONCE) {
        let mut digits = [0; 2 * AT_ONCE];
        for (pair, byte) in digits.chunks_exact_mut(2).zip(part) {
            pair.copy_from_slice(&[DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]]);
        }
        text.push_str(std::str::from_utf8(&digits[..2 * part.len()]).expect("digits are text"));
    }
    text.push('\'');
}

/// A text, quoted; every text that comes from outside goes this way or as [`hex`].
pub(in crate::ledger::mysql) fn quoted(text: &mut String, value: &str) {
    text.push('\'');
    for char in value.chars() {
        match char {
            '\'' => text.push_str("\\'"),
            '\\' => text.push_str("\\\\"),
            '\0' => text.push_str("\\0"),
            char => text.push(char),
        }
    }
    text.push('\'');
}

/// Bytes that are mostly text, quoted if they are; half as long as [`hex`].
pub(in crate::ledger::mysql) fn bytes(text: &mut String, value: &[u8]) {
    match std::str::from_utf8(value) {
        Ok(value) => {
            text.push_str("_binary");
            quoted(text, value);
        }
        Err(_not_text) => hex(text, value),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_and_numbers_are_written_as_the_server_reads_them() {
        for length in [0, 1, 31, 32, 33, 100] {
            let bytes: Vec<u8> = (0..length).map(|byte: u8| byte.wrapping_mul(37)).collect();
            let digits: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
            let mut text = "a".to_owned();
            hex(&mut text, &bytes);
            assert_eq!(text, format!("ax'{digits}'"));
        }
        let mut text = "a".to_owned();
        numbers(&mut text, [0, -7, i64::MAX, i64::MIN]);
        numbers(&mut text, []);
        assert_eq!(text, "a0,-7,9223372036854775807,-9223372036854775808");
    }

    #[test]
    fn ids_survive_their_bytes() {
        for (sku, hash) in [(0, 0), (7, 1 << 100), (u32::MAX, u128::MAX)] {
            let id = OrderId { sku: SkuId(sku), hash };
            assert_eq!(id_of(&id_bytes(id)), Some(id));
        }
        assert_eq!(id_of(&[0; 19]), None);
        for buyer in [BuyerId(0), BuyerId(BuyerId::NUMBER_MAX.into()), BuyerId::of_hash(7)] {
            let mut text = String::new();
            who_hex(&mut text, SkuId(9), buyer);
            let digits = text.strip_prefix("x'").and_then(|text| text.strip_suffix('\'')).unwrap();
            let bytes: Vec<u8> = (0..digits.len() / 2)
                .map(|at| u8::from_str_radix(&digits[2 * at..2 * at + 2], 16).unwrap())
                .collect();
            assert_eq!(who_of(&bytes), Some((SkuId(9), buyer)));
        }
        assert_eq!(who_of(&[0; 13]), None);
    }

    #[test]
    fn what_comes_from_outside_stays_inside_its_quotes() {
        let mut text = String::new();
        quoted(&mut text, "O'Neil \\ x\0é");
        bytes(&mut text, b"a'b");
        bytes(&mut text, &[0xff, 0x00]);
        assert_eq!(text, "'O\\'Neil \\\\ x\\0é'_binary'a\\'b'x'ff00'");
    }

    #[test]
    fn rows_and_lists_are_bounded_and_packets_too() {
        let mut script = Script::new(0);
        script.rows("INSERT INTO t VALUES ", 0..2_001, " END", number);
        assert_eq!(script.ends.len(), 3);
        assert!(script.text.ends_with(";INSERT INTO t VALUES (2000) END;"));
        assert_eq!(script.lists("SELECT 1 FROM t WHERE i IN ", 0..901, "", number), 2);
        assert!(script.text.ends_with(";SELECT 1 FROM t WHERE i IN (900);"));
        assert_eq!(script.lists("SELECT 1 FROM t WHERE i IN ", 0..0, "", number), 0);
        script.rows("INSERT INTO t VALUES ", 0..0, "", number);
        assert_eq!(script.ends.len(), 5);
        script.push("SELECT 1");
        script.push("SELECT 2");
        let whole = script.text.clone();
        let packets: Vec<_> = script.packets().map(str::to_owned).collect();
        assert_eq!(packets.concat(), whole);
        let short = packets.iter().map(|packet| packet.matches(';').count());
        assert_eq!(short.collect::<Vec<_>>(), [1, 1, 1, 1, 3], "long ones are by themselves");
    }
}
