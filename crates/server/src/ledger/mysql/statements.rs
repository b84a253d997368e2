//! The statements of a transaction as text: many rows to an INSERT and many statements to a packet, so that a batch
//! costs one round trip and its commit another.
//!
//! Numbers are written as they are, everything else as hexadecimal: nothing has to be escaped, whatever it is.

use std::fmt::Write;

use engine::{BuyerId, Entry, Event};

use crate::ledger::rows::{
    adjust_code, buyer_row, closing_code, disposition_code, int, payment_end_row, sale_event_row, text_of,
};
use crate::ledger::{BUYER_BYTES_MAX, Batch};

/// A packet is sent when it is this long: a long one makes the server wait for its end with nothing to do.
const PACKET_BYTES: usize = 1 << 20;
/// Room for the command's header and what ends a statement.
const PACKET_MARGIN: usize = 1024;

const ORDERS: &str =
    "INSERT INTO orders (seq, at, sku, hash, buyer, quantity, unit_price, fingerprint, address) VALUES ";
/// Of buyers who are hashes: the rows of all others are as short as they were without them.
const ORDERS_OF_HASHES: &str = "INSERT INTO orders (buyer_high, seq, at, sku, hash, buyer, quantity, unit_price, \
                                fingerprint, address) VALUES ";
const TRANSITIONS: &str = "INSERT INTO transitions (seq, at, order_seq, step, kind) VALUES ";

/// Statements of one transaction, in packets that the server takes.
#[derive(Debug)]
pub(super) struct Statements {
    packets: Vec<String>,
    /// Packets in use; the others keep their memory for the next transaction.
    used: usize,
    /// The INSERT that the next row may go on with.
    open: Option<&'static str>,
    row: String,
    bytes_max: usize,
}

impl Statements {
    pub(super) fn new(packet_bytes_max: usize) -> Statements {
        Statements {
            packets: Vec::new(),
            used: 0,
            open: None,
            row: String::new(),
            bytes_max: packet_bytes_max.saturating_sub(PACKET_MARGIN).clamp(PACKET_MARGIN, PACKET_BYTES),
        }
    }

    pub(super) fn clear(&mut self) {
        self.used = 0;
        self.open = None;
    }

    pub(super) fn packets(&self) -> &[String] {
        &self.packets[..self.used]
    }

    /// A whole statement, without its semicolon.
    pub(super) fn push(&mut self, statement: &str) {
        self.open = None;
        let packet = self.packet(statement.len() + 1);
        packet.push_str(statement);
        packet.push(';');
    }

    /// All rows of a batch.
    pub(super) fn push_batch(&mut self, batch: &Batch<'_>) {
        let mut texts = batch.buyers.iter().peekable();
        for entry in batch.entries {
            if let Event::OrderPlaced { buyer, .. } = entry.event
                && let Some(text) = text_of(&mut texts, entry.seq, buyer)
            {
                self.push_buyer(buyer, text);
            }
        }
        assert!(texts.next().is_none(), "every text is of the buyer of an order of the batch, in order");
        let mut addresses = batch.addresses.iter().peekable();
        for entry in batch.entries {
            let address = addresses.next_if(|(seq, _)| *seq == entry.seq).map(|(_, address)| &**address);
            self.push_entry(entry, address);
        }
        assert!(addresses.next().is_none(), "every address belongs to an order of the batch, in order");
        for body in batch.messages {
            self.push_row("INSERT INTO messages (at, body) VALUES ", |row| {
                number(row, int(batch.at.0));
                bytes(row, body);
            });
        }
        self.end_insert();
    }

    /// Whoever has ordered before is there already. Such an INSERT would also cut a text that is too long.
    fn push_buyer(&mut self, buyer: BuyerId, text: &str) {
        assert!(text.len() <= BUYER_BYTES_MAX, "a buyer's text is checked where it comes in");
        let (low, high) = buyer_row(buyer);
        self.push_row("INSERT IGNORE INTO buyers (high, low, text) VALUES ", |row| {
            number(row, high.expect("a number has no text"));
            number(row, low);
            bytes(row, text.as_bytes());
        });
    }

    fn push_entry(&mut self, entry: &Entry, address: Option<&[u8]>) {
        let (seq, at) = (int(entry.seq.0), int(entry.at.0));
        match &entry.event {
            Event::OrderPlaced { id, buyer, quantity, unit_price, fingerprint } => {
                let (buyer, high) = buyer_row(*buyer);
                self.push_row(if high.is_some() { ORDERS_OF_HASHES } else { ORDERS }, |row| {
                    if let Some(high) = high {
                        number(row, high);
                    }
                    number(row, seq);
                    number(row, at);
                    number(row, id.sku.0);
                    hash(row, id.hash);
                    number(row, buyer);
                    number(row, *quantity);
                    number(row, int(*unit_price));
                    number(row, fingerprint.0.cast_signed());
                    match address {
                        Some(address) => bytes(row, address),
                        None => row.push_str("NULL,"),
                    }
                });
            }
            Event::OrderClosed { order, how } => self.push_row(TRANSITIONS, |row| {
                number(row, seq);
                number(row, at);
                number(row, int(order.0));
                number(row, how.step());
                number(row, closing_code(*how));
            }),
            _ => self.push_rare(entry),
        }
    }

    fn push_rare(&mut self, entry: &Entry) {
        let (seq, at) = (int(entry.seq.0), int(entry.at.0));
        let mut begin = |insert: &'static str, rest: &dyn Fn(&mut String)| {
            self.push_row(insert, |row| {
                number(row, seq);
                number(row, at);
                rest(row);
            });
        };
        if let Some((sale, kind, body)) = sale_event_row(&entry.event) {
            begin("INSERT INTO sale_events (seq, at, sale, kind, body) VALUES ", &|row| {
                number(row, int(sale.0));
                code(row, kind);
                bytes(row, body.as_bytes());
            });
        } else if let Some((payment, kind)) = payment_end_row(&entry.event) {
            begin("INSERT INTO payment_ends (seq, at, payment_seq, kind) VALUES ", &|row| {
                number(row, int(payment.0));
                code(row, kind);
            });
        } else if let Event::StockAdjusted { sku, how, units, key } = &entry.event {
            begin("INSERT INTO stock_adjustments (seq, at, sku, kind, units, `key`) VALUES ", &|row| {
                number(row, sku.0);
                code(row, adjust_code(*how));
                number(row, int(*units));
                bytes(row, key.as_bytes());
            });
        } else if let Event::PaymentRecorded { pay, disposition } = &entry.event {
            begin("INSERT INTO payments (seq, at, id, sku, hash, amount, disposition) VALUES ", &|row| {
                bytes(row, pay.id.as_bytes());
                number(row, pay.order.sku.0);
                hash(row, pay.order.hash);
                number(row, int(pay.amount));
                code(row, disposition_code(*disposition));
            });
        } else {
            unreachable!("the other events are not rare");
        }
    }

    /// One row, in the INSERT before it if that is of the same table and its packet has room.
    fn push_row(&mut self, insert: &'static str, write: impl FnOnce(&mut String)) {
        let mut row = std::mem::take(&mut self.row);
        row.clear();
        row.push('(');
        write(&mut row);
        // In place of the comma after the last value.
        row.pop();
        row.push(')');
        let fits = self.open == Some(insert)
            && self.packets[..self.used]
                .last()
                .is_some_and(|packet| packet.len() + row.len() < self.bytes_max);
        if fits {
            let packet = &mut self.packets[self.used - 1];
            packet.push(',');
            packet.push_str(&row);
        } else {
            self.end_insert();
            let packet = self.packet(insert.len() + row.len() + 1);
            packet.push_str(insert);
            packet.push_str(&row);
            self.open = Some(insert);
        }
        self.row = row;
    }

    fn end_insert(&mut self) {
        if self.open.take().is_some() {
            self.packets[self.used - 1].push(';');
        }
    }

    /// The last packet, or a new one if that has no room.
    fn packet(&mut self, bytes: usize) -> &mut String {
        let room =
            self.packets[..self.used].last().is_some_and(|packet| packet.len() + bytes < self.bytes_max);
        if !room {
            if self.used == self.packets.len() {
                self.packets.push(String::new());
            }
            self.packets[self.used].clear();
            self.used += 1;
        }
        &mut self.packets[self.used - 1]
    }
}

fn number(row: &mut String, number: impl Into<i64>) {
    write!(row, "{},", number.into()).expect("a string takes all that is written to it");
}

/// One of our own texts, of letters and underscores.
fn code(row: &mut String, code: &'static str) {
    debug_assert!(code.bytes().all(|b| b.is_ascii_lowercase() || b == b'_'), "{code}");
    row.push('\'');
    row.push_str(code);
    row.push_str("',");
}

fn hash(row: &mut String, hash: u128) {
    write!(row, "x'{hash:032x}',").expect("a string takes all that is written to it");
}

fn bytes(row: &mut String, bytes: &[u8]) {
    const DIGITS: [u8; 16] = *b"0123456789abcdef";
    row.push_str("x'");
    row.extend(bytes.iter().flat_map(|byte| {
        [char::from(DIGITS[usize::from(byte >> 4)]), char::from(DIGITS[usize::from(byte & 15)])]
    }));
    row.push_str("',");
}

#[cfg(test)]
mod tests {
    use engine::{BuyerId, Closing, Fingerprint, OrderId, Seq, SkuId, UnixMs};

    use super::*;

    fn placed(seq: u64) -> Entry {
        Entry {
            seq: Seq(seq),
            at: UnixMs(7),
            event: Event::OrderPlaced {
                id: OrderId { sku: SkuId(3), hash: 0xabcd },
                buyer: BuyerId(4),
                quantity: 1,
                unit_price: 100,
                fingerprint: Fingerprint(u64::MAX),
            },
        }
    }

    #[test]
    fn rows_of_a_table_that_follow_each_other_are_one_statement() {
        let closed = Entry {
            seq: Seq(4),
            at: UnixMs(7),
            event: Event::OrderClosed { order: Seq(1), how: Closing::Paid },
        };
        let entries = [placed(1), placed(2), placed(3), closed];
        let addresses = [(Seq(2), b"{}\0'".to_vec().into_boxed_slice())];
        let mut statements = Statements::new(1 << 24);
        statements.push("START TRANSACTION");
        statements.push_batch(&Batch {
            entries: &entries,
            addresses: &addresses,
            buyers: &[],
            messages: &[b"m".to_vec().into_boxed_slice()],
            at: UnixMs(7),
        });
        let row =
            |seq, address| format!("({seq},7,3,x'0000000000000000000000000000abcd',4,1,100,-1,{address})");
        let expected = format!(
            "START TRANSACTION;{ORDERS}{},{},{};{TRANSITIONS}(4,7,1,1,1);\
             INSERT INTO messages (at, body) VALUES (7,x'6d');",
            row(1, "NULL"),
            row(2, "x'7b7d0027'"),
            row(3, "NULL")
        );
        assert_eq!(statements.packets(), [expected]);
    }

    #[test]
    fn a_packet_is_never_longer_than_the_server_takes_unless_one_row_is() {
        let entries: Vec<Entry> = (1..=1_000).map(placed).collect();
        let long = vec![b'x'; 10_000].into_boxed_slice();
        let addresses = [(Seq(500), long)];
        let mut statements = Statements::new(4096);
        for _again in 0..2 {
            statements.clear();
            statements.push("START TRANSACTION");
            statements.push_batch(&Batch {
                entries: &entries,
                addresses: &addresses,
                buyers: &[],
                messages: &[],
                at: UnixMs(7),
            });
            let packets = statements.packets();
            let too_long: Vec<usize> =
                packets.iter().map(String::len).filter(|&len| len > 4096 - 512).collect();
            assert!(matches!(too_long[..], [20_000..21_000]), "{too_long:?}");
            assert!(packets.iter().all(|packet| packet.ends_with(';')));
            let rows: usize = packets.iter().map(|packet| packet.matches("(").count()).sum();
            assert_eq!(rows, 1_000 + packets.len(), "each packet names the columns once");
        }
    }
}
