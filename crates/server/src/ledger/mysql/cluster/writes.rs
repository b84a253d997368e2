//! Which statements write what a transaction came to, and its commit, in one round trip.

use engine::{Entry, Event, Seq, UnixMs};

use super::known::{Beside, Known, Rejection};
use super::outbox::change_row;
use super::session::Failure;
use super::sql::{Script, hex, id_bytes, number, quoted, who_bytes};
use super::transaction::Transaction;
use crate::ledger::Batch;
use crate::ledger::mysql::statements::Statements;
use crate::ledger::rows::int;

/// Writes all that the transaction came to and commits. One that came to nothing ends without a write.
pub(super) fn write(transaction: Transaction<'_>, committing: &mut bool) -> Result<(), Failure> {
    let Transaction { begun, entries, addresses, beside, known, .. } = &transaction;
    if !begun {
        return Ok(());
    }
    let mut script = Script::default();
    write_entries(&mut script, transaction.session.packet_bytes_max, entries, addresses);
    write_holds(&mut script, beside);
    let changed = known.skus.iter().filter(|(_, state)| state.changed);
    script.rows(
        "INSERT INTO sku_stock (sku, total, held, sold, orders, epoch) VALUES ",
        changed,
        " ON DUPLICATE KEY UPDATE total = VALUES(total), held = VALUES(held), sold = VALUES(sold), \
         orders = VALUES(orders), epoch = VALUES(epoch)",
        |text, (sku, state)| {
            let stock = state.stock;
            for value in [stock.total(), stock.held(), stock.sold(), state.orders] {
                assert!(i64::try_from(value).is_ok(), "units and orders are below 2^63");
            }
            let [total, held, sold] = [stock.total(), stock.held(), stock.sold()];
            number(
                text,
                format_args!("{},{total},{held},{sold},{},{}", sku.0, state.orders, int(state.epoch)),
            );
        },
    );
    write_buyers(&mut script, known);
    for (queue, offset) in &beside.offsets {
        let mut text = format!("UPDATE queue_offsets SET next_offset = {} WHERE queue = ", int(*offset));
        quoted(&mut text, queue);
        script.push(text);
    }
    for statement in &beside.more {
        script.push(statement.as_str());
    }
    if !entries.is_empty() {
        let (next_seq, at) = (transaction.next_seq().0, transaction.at().0);
        script.push(format!(
            "UPDATE writer SET batch = batch + 1, next_seq = {}, last_at = {} WHERE id = 1",
            int(next_seq),
            int(at)
        ));
    }
    script.push("COMMIT");
    script.push(transaction.session.end());
    *committing = true;
    transaction.session.run(script, |_, _| Ok(()))?;
    Ok(())
}

fn write_holds(script: &mut Script, beside: &Beside) {
    script.rows(
        "INSERT INTO open_holds (order_seq, pay_by) VALUES ",
        &beside.holds_opened,
        "",
        |text, (seq, pay_by)| number(text, format_args!("{},{}", seq.0, int(pay_by.0))),
    );
    let seq = |text: &mut String, seq: &Seq| number(text, seq.0);
    script.lists("DELETE FROM open_holds WHERE order_seq IN ", &beside.holds_closed, "", seq);
    script.rows(
        "INSERT INTO refunds_due (payment_seq, id) VALUES ",
        &beside.refunds_opened,
        "",
        |text, (seq, order)| {
            number(text, format_args!("{},", seq.0));
            hex(text, &id_bytes(*order));
        },
    );
    script.lists("DELETE FROM refunds_due WHERE payment_seq IN ", &beside.refunds_closed, "", seq);
    script.rows(
        "INSERT INTO rejections (id, at, buyer, quantity, fingerprint, epoch, reason) VALUES ",
        &beside.rejections,
        "",
        |text, (id, rejection)| {
            hex(text, &id_bytes(*id));
            let Rejection { at, buyer, quantity, fingerprint, epoch, reason } = rejection;
            let [at, buyer, epoch] = [at.0, buyer.0, *epoch].map(int);
            let fingerprint = fingerprint.0.cast_signed();
            let reason = reason.code();
            number(text, format_args!(",{at},{buyer},{quantity},{fingerprint},{epoch},'{reason}'"));
        },
    );
    script.rows(
        "INSERT INTO outbox (sku, epoch, kind, hash, buyer, units, fingerprint) VALUES ",
        &beside.outbox,
        "",
        |text, (sku, epoch, change)| change_row(text, *sku, *epoch, change),
    );
}

fn write_buyers(script: &mut Script, known: &Known) {
    let changed = || known.buyers.iter().filter(|(_, units)| units.before != units.now);
    script.rows(
        "INSERT INTO buyer_sku (who, units) VALUES ",
        changed().filter(|(_, units)| units.now > 0),
        " ON DUPLICATE KEY UPDATE units = VALUES(units)",
        |text, ((sku, buyer), units)| {
            hex(text, &who_bytes(*sku, *buyer));
            number(text, format_args!(",{}", units.now));
        },
    );
    script.lists(
        "DELETE FROM buyer_sku WHERE who IN ",
        changed().filter(|(_, units)| units.now == 0),
        "",
        |text, ((sku, buyer), _)| hex(text, &who_bytes(*sku, *buyer)),
    );
}

/// The entries, as every writer writes them, and the ids of the orders among them.
fn write_entries(
    script: &mut Script,
    packet_bytes_max: usize,
    entries: &[Entry],
    addresses: &[(Seq, Box<[u8]>)],
) {
    let mut statements = Statements::new(packet_bytes_max);
    statements.push_batch(&Batch { entries, addresses, messages: &[], at: UnixMs(0) });
    for packet in statements.packets() {
        script.push(packet.trim_end_matches(';'));
    }
    let ids = entries.iter().filter_map(|entry| match entry.event {
        Event::OrderPlaced { id, .. } => Some((id, entry.seq)),
        _ => None,
    });
    script.rows("INSERT INTO order_ids (id, order_seq) VALUES ", ids, "", |text, (id, seq)| {
        hex(text, &id_bytes(id));
        number(text, format_args!(",{}", seq.0));
    });
}
