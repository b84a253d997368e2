//! The entries of a batch as rows of their tables, for every writer on a MySQL server.
//!
//! Numbers are written as they are, everything else as hexadecimal: nothing has to be escaped, whatever it is.

use std::fmt;

use engine::{BuyerId, Entry, Event, Seq};

use super::sql::{Script, hex, number, numbers, quoted};
use crate::ledger::erasing::waiting_name;
use crate::ledger::rows::{
    CONFIRMED_SINCE, NOTED_AT, adjust_code, buyer_row, closing_code, disposition_row, further_row, int,
    operator_row, payment_end_row, sale_event_row, text_of,
};
use crate::ledger::{BUYER_BYTES_MAX, Batch};

const ORDERS: &str =
    "INSERT INTO orders (seq, at, sku, hash, buyer, quantity, unit_price, fingerprint, address) VALUES ";
/// Of buyers who are hashes: the rows of all others are as short as they were without them.
const ORDERS_OF_HASHES: &str = "INSERT INTO orders (buyer_high, seq, at, sku, hash, buyer, quantity, unit_price, \
                                fingerprint, address) VALUES ";
const REFUNDS: &str =
    "INSERT INTO payments (order_seq, units, seq, at, id, sku, hash, amount, disposition) VALUES ";
const TRANSITIONS: &str = "INSERT INTO transitions (seq, at, order_seq, step, kind) VALUES ";

/// All rows of a batch, in the order of its entries.
pub(super) fn push_batch(script: &mut Script, batch: &Batch<'_>) {
    let mut texts = batch.buyers.iter().peekable();
    for entry in batch.entries {
        if let Some((buyer, text)) = text_of(&mut texts, entry) {
            push_buyer(script, buyer, text);
        }
        // In this order, too: somebody who was erased may order again.
        if let Event::BuyerErased(buyer) = entry.event {
            push_erased(script, entry.seq, buyer);
        }
    }
    assert!(texts.next().is_none(), "every text is of the buyer of an entry of the batch, in order");
    let mut addresses = batch.addresses.iter().peekable();
    for entry in batch.entries {
        let address = addresses.next_if(|(seq, _)| *seq == entry.seq).map(|(_, address)| &**address);
        push_entry(script, entry, address);
    }
    assert!(addresses.next().is_none(), "every address belongs to an order of the batch, in order");
    for body in batch.messages {
        script.row("INSERT INTO messages (at, body) VALUES ", |row| {
            number(row, format_args!("{},", int(batch.at.0)));
            hex(row, body);
        });
    }
}

/// Rows of `meta` that are operators begin so; the name follows.
pub(super) const OPERATOR_PREFIX: &str = "operator:";

/// Whether addresses of the age of the order `o` were removed.
pub(super) const ADDRESS_IS_OVER: &str =
    "o.seq <= COALESCE((SELECT CAST(value AS SIGNED) FROM meta WHERE name = 'addresses_purged_to'), 0)";

/// Whoever has ordered or joined before is there already. Such an INSERT would also cut a text that is too long.
fn push_buyer(script: &mut Script, buyer: BuyerId, text: &str) {
    assert!(text.len() <= BUYER_BYTES_MAX, "a buyer's text is checked where it comes in");
    let (low, high) = buyer_row(buyer);
    let high = high.expect("a number has no text");
    script.row("INSERT IGNORE INTO buyers (high, low, text) VALUES ", |row| {
        number(row, format_args!("{high},{low},"));
        hex(row, text.as_bytes());
    });
}

/// The text goes; the addresses are to follow.
fn push_erased(script: &mut Script, seq: Seq, buyer: BuyerId) {
    if let (low, Some(high)) = buyer_row(buyer) {
        script.push(format!("DELETE FROM buyers WHERE high = {high} AND low = {low}"));
    }
    script.push(format!("REPLACE INTO meta VALUES ('{}', '{buyer}')", waiting_name(seq)));
}

fn push_entry(script: &mut Script, entry: &Entry, address: Option<&[u8]>) {
    let (seq, at) = (int(entry.seq.0), int(entry.at.0));
    match &entry.event {
        Event::OrderPlaced { id, buyer, quantity, unit_price, fingerprint } => {
            let (buyer, high) = buyer_row(*buyer);
            script.row(if high.is_some() { ORDERS_OF_HASHES } else { ORDERS }, |row| {
                if let Some(high) = high {
                    numbers(row, [high]);
                    row.push(',');
                }
                numbers(row, [seq, at, id.sku.0.into()]);
                row.push(',');
                hex(row, &id.hash.to_be_bytes());
                row.push(',');
                let (price, fingerprint) = (int(*unit_price), fingerprint.0.cast_signed());
                numbers(row, [buyer, (*quantity).into(), price, fingerprint]);
                row.push(',');
                match address {
                    Some(address) => hex(row, address),
                    None => row.push_str("NULL"),
                }
            });
        }
        Event::OrderClosed { order, how } => script.row(TRANSITIONS, |row| {
            let (order, step, kind) = (int(order.0), how.step(), closing_code(*how));
            number(row, format_args!("{seq},{at},{order},{step},{kind}"));
        }),
        Event::OrderAddressed { order } => {
            push_rare(script, entry);
            // Whoever has the writer's row has seen that the order has none; sent again, it changes nothing.
            let address = address.expect("an address comes with its entry");
            let mut update = "UPDATE orders SET address = ".to_owned();
            hex(&mut update, address);
            number(&mut update, format_args!(" WHERE seq = {} AND address IS NULL", int(order.0)));
            script.push(update);
        }
        _ => push_rare(script, entry),
    }
}

/// Who may now, for servers that keep no book: so none has to go through all entries.
fn push_operators(script: &mut Script, event: &Event) {
    match event {
        Event::OperatorAdded(operator) => {
            let mut statement = "REPLACE INTO meta VALUES (".to_owned();
            quoted(&mut statement, &format!("{OPERATOR_PREFIX}{}", operator.name));
            statement.push(',');
            quoted(&mut statement, &operator_row(operator));
            statement.push(')');
            script.push(statement);
        }
        Event::OperatorRevoked(name) => {
            let mut statement = "DELETE FROM meta WHERE name = ".to_owned();
            quoted(&mut statement, &format!("{OPERATOR_PREFIX}{name}"));
            script.push(statement);
        }
        _ => {}
    }
}

fn push_rare(script: &mut Script, entry: &Entry) {
    let (seq, at) = (int(entry.seq.0), int(entry.at.0));
    if let Some((sale, kind, body)) = sale_event_row(&entry.event) {
        script.row("INSERT INTO sale_events (seq, at, sale, kind, body) VALUES ", |row| {
            number(row, format_args!("{seq},{at},{},{},", int(sale.0), Code(kind)));
            hex(row, body.as_bytes());
        });
    } else if let Some((kind, body)) = further_row(&entry.event) {
        script.row("INSERT INTO further_entries (seq, at, kind, body) VALUES ", |row| {
            number(row, format_args!("{seq},{at},{},", Code(kind)));
            hex(row, body.as_bytes());
        });
        push_operators(script, &entry.event);
        // The notes are of the run of times before; the one of this run begins with it, or not at all.
        if matches!(entry.event, Event::ClockCorrected { .. }) {
            for name in [NOTED_AT, CONFIRMED_SINCE] {
                script.push(format!("REPLACE INTO meta VALUES ('{name}', '{at}')"));
            }
        }
    } else if let Some((payment, kind)) = payment_end_row(&entry.event) {
        script.row("INSERT INTO payment_ends (seq, at, payment_seq, kind) VALUES ", |row| {
            number(row, format_args!("{seq},{at},{},{}", int(payment.0), Code(kind)));
        });
    } else if let Event::StockAdjusted { sku, how, units, key } = &entry.event {
        script.row("INSERT INTO stock_adjustments (seq, at, sku, kind, units, `key`) VALUES ", |row| {
            let (kind, units) = (Code(adjust_code(*how)), int(*units));
            number(row, format_args!("{seq},{at},{},{kind},{units},", sku.0));
            hex(row, key.as_bytes());
        });
    } else if let Event::PaymentRecorded { pay, disposition } = &entry.event {
        let (came_to, refund) = disposition_row(*disposition);
        // A refund is rare; the rows of payments are as short as they were without them.
        let head = match refund {
            Some(_) => REFUNDS,
            None => "INSERT INTO payments (seq, at, id, sku, hash, amount, disposition) VALUES ",
        };
        script.row(head, |row| {
            if let Some((order, units)) = refund {
                number(row, format_args!("{order},{units},"));
            }
            number(row, format_args!("{seq},{at},"));
            hex(row, pay.id.as_bytes());
            number(row, format_args!(",{},", pay.order.sku.0));
            hex(row, &pay.order.hash.to_be_bytes());
            number(row, format_args!(",{},{}", int(pay.amount), Code(came_to)));
        });
    } else {
        unreachable!("the other events are not rare");
    }
}

/// One of our own texts, of letters and underscores.
struct Code(&'static str);

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        debug_assert!(self.0.bytes().all(|b| b.is_ascii_lowercase() || b == b'_'), "{}", self.0);
        write!(f, "'{}'", self.0)
    }
}

#[cfg(test)]
mod tests {
    use engine::{BuyerId, Closing, Fingerprint, OrderId, SkuId, UnixMs};

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
        let mut script = Script::new(1 << 24);
        script.push("START TRANSACTION");
        push_batch(
            &mut script,
            &Batch {
                entries: &entries,
                addresses: &addresses,
                buyers: &[],
                messages: &[b"m".to_vec().into_boxed_slice()],
                at: UnixMs(7),
            },
        );
        let row =
            |seq, address| format!("({seq},7,3,x'0000000000000000000000000000abcd',4,1,100,-1,{address})");
        let expected = format!(
            "START TRANSACTION;{ORDERS}{},{},{};{TRANSITIONS}(4,7,1,1,1);\
             INSERT INTO messages (at, body) VALUES (7,x'6d');",
            row(1, "NULL"),
            row(2, "x'7b7d0027'"),
            row(3, "NULL")
        );
        assert_eq!(script.packets().collect::<Vec<_>>(), [expected]);
    }

    #[test]
    fn a_packet_is_never_longer_than_the_server_takes_unless_one_row_is() {
        let entries: Vec<Entry> = (1..=1_000).map(placed).collect();
        let long = vec![b'x'; 10_000].into_boxed_slice();
        let addresses = [(Seq(500), long)];
        let mut script = Script::new(4096);
        for _again in 0..2 {
            script.clear();
            script.push("START TRANSACTION");
            push_batch(
                &mut script,
                &Batch {
                    entries: &entries,
                    addresses: &addresses,
                    buyers: &[],
                    messages: &[],
                    at: UnixMs(7),
                },
            );
            let packets: Vec<_> = script.packets().collect();
            let too_long: Vec<usize> =
                packets.iter().map(|packet| packet.len()).filter(|&len| len > 4096 - 512).collect();
            assert!(matches!(too_long[..], [20_000..21_000]), "{too_long:?}");
            assert!(packets.iter().all(|packet| packet.ends_with(';')));
            let rows: usize = packets.iter().map(|packet| packet.matches("(").count()).sum();
            assert_eq!(rows, 1_000 + packets.len(), "each packet names the columns once");
        }
    }
}
