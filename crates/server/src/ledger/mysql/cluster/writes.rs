//! Which statements write what a transaction came to, and its commit, in one round trip.

use engine::working_set::{Effects, Rejection, SkuState};
use engine::{Event, Seq, UnixMs};

use super::outbox::change_row;
use super::session::Failure;
use super::transaction::Transaction;
use crate::ledger::Batch;
use crate::ledger::mysql::entries::push_batch;
use crate::ledger::mysql::sql::{BuyerColumns, Script, hex, id_bytes, number, numbers, quoted, who_hex};
use crate::ledger::rows::int;

/// Writes all that the transaction came to and commits; says whether. One that read nothing, or was given up, ends
/// without a write.
pub(super) fn write(transaction: Transaction<'_>, committing: &mut bool) -> Result<bool, Failure> {
    let Transaction { session, set, offsets, more, .. } = transaction;
    let begun = set.begun();
    let Some(effects) = set.into_effects() else {
        if begun {
            let mut script = Script::default();
            script.push("ROLLBACK");
            script.extend(session.end());
            session.run(script, |_, _| Ok(()))?;
        }
        return Ok(false);
    };
    let mut script = Script::new(session.packet_bytes_max);
    write_entries(&mut script, &effects);
    write_open(&mut script, &effects);
    write_skus(&mut script, &effects);
    write_buyers(&mut script, &effects);
    for (queue, offset) in &offsets {
        let mut text = format!("UPDATE queue_offsets SET next_offset = {} WHERE queue = ", int(*offset));
        quoted(&mut text, queue);
        script.push(text);
    }
    for statement in &more {
        script.push(statement.as_str());
    }
    if !effects.entries.is_empty() {
        let (next_seq, at) = (int(effects.next_seq.0), int(effects.last_at.0));
        script.push(format!(
            "UPDATE writer SET batch = batch + 1, next_seq = {next_seq}, latest_at = {at} WHERE id = 1"
        ));
    }
    script.push("COMMIT");
    script.extend(session.end());
    *committing = true;
    session.run(script, |_, _| Ok(()))?;
    Ok(true)
}

fn write_skus(script: &mut Script, effects: &Effects) {
    script.rows(
        "INSERT INTO sku_stock (sku, total, held, sold, orders, epoch) VALUES ",
        &effects.skus,
        " ON DUPLICATE KEY UPDATE total = VALUES(total), held = VALUES(held), sold = VALUES(sold), \
         orders = VALUES(orders), epoch = VALUES(epoch)",
        |text, (sku, SkuState { stock, orders, epoch })| {
            for value in [stock.total(), stock.held(), stock.sold(), *orders] {
                assert!(i64::try_from(value).is_ok(), "units and orders are below 2^63");
            }
            let [total, held, sold] = [stock.total(), stock.held(), stock.sold()];
            number(text, format_args!("{},{total},{held},{sold},{orders},{}", sku.0, int(*epoch)));
        },
    );
}

/// Holds and refunds that were opened or closed, rejections, and what the gate is to hear.
fn write_open(script: &mut Script, effects: &Effects) {
    script.rows(
        "INSERT INTO open_holds (order_seq, pay_by) VALUES ",
        &effects.holds_opened,
        "",
        |text, (seq, pay_by)| numbers(text, [seq.0, pay_by.0].map(int)),
    );
    let seq = |text: &mut String, seq: &Seq| number(text, seq.0);
    script.lists("DELETE FROM open_holds WHERE order_seq IN ", &effects.holds_closed, "", seq);
    script.rows(
        "INSERT INTO refunds_due (payment_seq, id) VALUES ",
        &effects.refunds_opened,
        "",
        |text, (seq, order)| {
            number(text, format_args!("{},", seq.0));
            hex(text, &id_bytes(*order));
        },
    );
    script.lists("DELETE FROM refunds_due WHERE payment_seq IN ", &effects.refunds_closed, "", seq);
    script.rows(
        "INSERT INTO rejections (id, at, buyer, buyer_high, quantity, fingerprint, epoch, reason) VALUES ",
        &effects.rejections,
        "",
        |text, (id, rejection)| {
            hex(text, &id_bytes(*id));
            let Rejection { at, buyer, quantity, fingerprint, epoch, reason } = rejection;
            let ([at, epoch], buyer) = ([at.0, *epoch].map(int), BuyerColumns(*buyer));
            let fingerprint = fingerprint.0.cast_signed();
            let reason = reason.code();
            number(text, format_args!(",{at},{buyer},{quantity},{fingerprint},{epoch},'{reason}'"));
        },
    );
    script.rows(
        "INSERT INTO outbox (sku, epoch, kind, hash, buyer, buyer_high, units, fingerprint) VALUES ",
        &effects.outbox,
        "",
        |text, (sku, epoch, change)| change_row(text, *sku, *epoch, change),
    );
}

fn write_buyers(script: &mut Script, effects: &Effects) {
    script.rows(
        "INSERT INTO buyer_sku (who, units) VALUES ",
        effects.units.iter().filter(|(_, units)| *units > 0),
        " ON DUPLICATE KEY UPDATE units = VALUES(units)",
        |text, ((sku, buyer), units)| {
            who_hex(text, *sku, *buyer);
            text.push(',');
            numbers(text, [(*units).into()]);
        },
    );
    script.lists(
        "DELETE FROM buyer_sku WHERE who IN ",
        effects.units.iter().filter(|(_, units)| *units == 0),
        "",
        |text, ((sku, buyer), _)| who_hex(text, *sku, *buyer),
    );
}

/// The entries, as every writer writes them, and the ids of the orders among them.
fn write_entries(script: &mut Script, effects: &Effects) {
    let Effects { entries, addresses, buyers, .. } = effects;
    push_batch(script, &Batch { entries, addresses, buyers, messages: &[], at: UnixMs(0) });
    let ids = entries.iter().filter_map(|entry| match entry.event {
        Event::OrderPlaced { id, .. } => Some((id, entry.seq)),
        _ => None,
    });
    script.rows("INSERT INTO order_ids (id, order_seq) VALUES ", ids, "", |text, (id, seq)| {
        hex(text, &id_bytes(id));
        text.push(',');
        numbers(text, [int(seq.0)]);
    });
}
