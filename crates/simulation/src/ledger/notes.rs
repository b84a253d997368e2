//! What the database does with orders, and with the units that there are, as notes of a run.

use engine::{Closing, Entry, Event, OrderId};

use super::tables::Tables;
use crate::record;

/// A transaction of this host has stored these.
pub(super) fn stored(host: &str, entries: &[Entry], tables: &Tables) {
    for Entry { seq, event, .. } in entries {
        let Some(what) = text(event) else { continue };
        let order = order_of(event, tables);
        order.iter().for_each(|id| {
            record::note(*id, false, || format!("the ledger, entry {} of {host}: {what}", seq.0));
        });
        if moves_units(event) {
            let about = order.map_or(String::new(), |id| format!(" (order {:x})", id.hash));
            record::note_stock(|| format!("the ledger, entry {} of {host}{about}: {what}", seq.0));
        }
    }
}

/// A replica has taken over that does not have these.
pub(super) fn undone(entries: &[Entry], tables: &Tables) {
    for Entry { seq, event, .. } in entries {
        let (Some(what), Some(id)) = (text(event), order_of(event, tables)) else { continue };
        record::note(id, false, || format!("the ledger loses entry {}: {what}", seq.0));
    }
}

fn text(event: &Event) -> Option<String> {
    Some(match event {
        Event::OrderPlaced { quantity, .. } => format!("placed, units: {quantity}"),
        Event::OrderClosed { how, .. } => format!("closed, {how:?}"),
        Event::OrderRejected { reason, .. } => format!("rejected, {reason:?}"),
        Event::PaymentRecorded { pay, disposition } => format!("{} recorded, {disposition:?}", pay.id),
        Event::StockAdjusted { how, units, .. } => format!("{how:?}, units: {units}"),
        _ => return None,
    })
}

fn order_of(event: &Event, tables: &Tables) -> Option<OrderId> {
    match event {
        Event::OrderPlaced { id, .. } => Some(*id),
        Event::OrderClosed { order, .. } => Some(tables.order_id(*order)),
        Event::OrderRejected { order, .. } => Some(*order),
        Event::PaymentRecorded { pay, .. } => Some(pay.order),
        _ => None,
    }
}

fn moves_units(event: &Event) -> bool {
    match event {
        Event::OrderPlaced { .. } | Event::StockAdjusted { .. } => true,
        Event::OrderClosed { how, .. } => how.returns_units() || *how == Closing::PaidLate,
        Event::PaymentRecorded { disposition, .. } => disposition.requested().is_some_and(|units| units > 0),
        _ => false,
    }
}
