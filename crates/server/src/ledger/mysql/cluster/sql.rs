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
/// A packet may be as large as the server takes, and this much is left for its frame.
const PACKET_SPARE: usize = 4_096;

/// Statements that will be sent together.
#[derive(Debug, Default)]
pub(super) struct Script(Vec<String>);

impl Script {
    pub(super) fn push(&mut self, statement: impl Into<String>) {
        self.0.push(statement.into());
    }

    /// `head` and then the rows, each written by `row` without its brackets, and `tail`: as many statements as it
    /// takes, none if there are no rows.
    pub(super) fn rows<T>(
        &mut self,
        head: &str,
        rows: impl IntoIterator<Item = T>,
        tail: &str,
        mut row: impl FnMut(&mut String, T),
    ) {
        let mut text = String::new();
        let mut count = 0;
        for item in rows {
            text.push_str(if count == 0 { head } else { "," });
            text.push('(');
            row(&mut text, item);
            text.push(')');
            count += 1;
            if count == ROWS_MAX {
                text.push_str(tail);
                self.0.push(std::mem::take(&mut text));
                count = 0;
            }
        }
        if count > 0 {
            text.push_str(tail);
            self.0.push(text);
        }
    }

    /// `head (values) tail`: as many statements as it takes; returns how many. None if there are no values.
    pub(super) fn lists<T>(
        &mut self,
        head: &str,
        values: impl IntoIterator<Item = T>,
        tail: &str,
        mut value: impl FnMut(&mut String, T),
    ) -> usize {
        let before = self.0.len();
        let mut text = String::new();
        let mut count = 0;
        for item in values {
            if count == 0 {
                text.push_str(head);
            }
            text.push(if count == 0 { '(' } else { ',' });
            value(&mut text, item);
            count += 1;
            if count == LIST_MAX {
                text.push(')');
                text.push_str(tail);
                self.0.push(std::mem::take(&mut text));
                count = 0;
            }
        }
        if count > 0 {
            text.push(')');
            text.push_str(tail);
            self.0.push(text);
        }
        self.0.len() - before
    }

    /// The statements in as few packets as the server takes.
    fn packets(self, packet_bytes_max: usize) -> Vec<String> {
        let max = packet_bytes_max.saturating_sub(PACKET_SPARE);
        let mut packets: Vec<String> = Vec::new();
        for statement in self.0 {
            match packets.last_mut() {
                Some(last) if last.len() + statement.len() < max => {
                    last.push(';');
                    last.push_str(&statement);
                }
                _ => packets.push(statement),
            }
        }
        packets
    }

    /// Sends the statements and hands every row to `each`, with the number of the statement that it answers.
    ///
    /// # Errors
    /// The first that failed; those after it were not run.
    pub(super) fn run(
        self,
        connection: &mut Conn,
        packet_bytes_max: usize,
        mut each: impl FnMut(usize, Row) -> Result<(), mysql::Error>,
    ) -> Result<(), mysql::Error> {
        let mut statement = 0;
        for packet in self.packets(packet_bytes_max) {
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
pub(super) fn unsigned(value: i64) -> u64 {
    value.cast_unsigned()
}

pub(super) fn number(text: &mut String, value: impl std::fmt::Display) {
    write!(text, "{value}").expect("text takes anything");
}

/// The 20 bytes of an order's id.
pub(super) fn id_bytes(id: OrderId) -> [u8; 20] {
    let mut bytes = [0; 20];
    bytes[..4].copy_from_slice(&id.sku.0.to_be_bytes());
    bytes[4..].copy_from_slice(&id.hash.to_be_bytes());
    bytes
}

pub(super) fn id_of(bytes: &[u8]) -> Option<OrderId> {
    let (sku, hash) = bytes.split_first_chunk()?;
    Some(OrderId { sku: SkuId(u32::from_be_bytes(*sku)), hash: u128::from_be_bytes(hash.try_into().ok()?) })
}

/// The columns `buyer` and `buyer_high`.
pub(super) struct BuyerColumns(pub(super) BuyerId);

impl std::fmt::Display for BuyerColumns {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match buyer_row(self.0) {
            (low, Some(high)) => write!(f, "{low},{high}"),
            (low, None) => write!(f, "{low},NULL"),
        }
    }
}

/// A SKU and a buyer: 12 bytes for a number, 20 for a hash.
pub(super) fn who_hex(text: &mut String, sku: SkuId, buyer: BuyerId) {
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

pub(super) fn who_of(bytes: &[u8]) -> Option<(SkuId, BuyerId)> {
    let (sku, buyer) = bytes.split_first_chunk()?;
    let buyer = match buyer.len() {
        8 => BuyerId::of_number(u64::from_be_bytes(buyer.try_into().ok()?))?,
        _ => Some(BuyerId(u128::from_be_bytes(buyer.try_into().ok()?))).filter(|buyer| buyer.is_hash())?,
    };
    Some((SkuId(u32::from_be_bytes(*sku)), buyer))
}

/// A byte string as a hexadecimal literal.
pub(super) fn hex(text: &mut String, bytes: &[u8]) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    text.push_str("x'");
    for byte in bytes {
        text.push(char::from(DIGITS[usize::from(byte >> 4)]));
        text.push(char::from(DIGITS[usize::from(byte & 15)]));
    }
    text.push('\'');
}

/// A text, quoted; every text that comes from outside goes this way or as [`hex`].
pub(super) fn quoted(text: &mut String, value: &str) {
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
pub(super) fn bytes(text: &mut String, value: &[u8]) {
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
        let mut script = Script::default();
        script.rows("INSERT INTO t VALUES ", 0..2_001, " END", number);
        assert_eq!(script.0.len(), 3);
        assert_eq!(script.0[2], "INSERT INTO t VALUES (2000) END");
        assert_eq!(script.lists("SELECT 1 FROM t WHERE i IN ", 0..901, "", number), 2);
        assert_eq!(script.0[4], "SELECT 1 FROM t WHERE i IN (900)");
        assert_eq!(script.lists("SELECT 1 FROM t WHERE i IN ", 0..0, "", number), 0);
        script.rows("INSERT INTO t VALUES ", 0..0, "", number);
        assert_eq!(script.0.len(), 5);
        let longest = script.0.iter().map(String::len).max().unwrap();
        let packets = script.packets(PACKET_SPARE + longest + 100);
        assert!(packets.len() > 1 && packets.iter().all(|packet| packet.len() < longest + 100));
    }
}
