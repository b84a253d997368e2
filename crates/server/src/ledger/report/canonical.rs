//! The entries of a sale as a text that never changes, for a digest of them: a line for each, with its number and time.
//!
//! A format that certificates were made of: a line is never written in another way. Buyers are their numbers or hashes, and
//! addresses are not in it, so what is erased or purged later changes nothing. Must not: decide which entries are a sale's.

use engine::{Entry, Event};

use crate::ledger::rows;

/// `None`: an entry of the erasure of a buyer, which is of no sale.
pub(super) fn line(entry: &Entry) -> Option<String> {
    let Entry { seq, at, ref event } = *entry;
    let what = match event {
        Event::StockAdjusted { sku, how, units, key } => {
            format!("stock {} {} {units} {}", sku.0, rows::adjust_code(*how), text(key))
        }
        Event::OrderPlaced { id, buyer, quantity, unit_price, fingerprint } => {
            format!("order {id} {buyer} {quantity} {unit_price} {}", fingerprint.0)
        }
        Event::OrderClosed { order, how } => format!("closed {} {}", order.0, rows::closing_code(*how)),
        Event::PaymentRecorded { pay, disposition } => {
            let (came_to, refund) = rows::disposition_row(*disposition);
            let refund = refund.map_or_else(String::new, |(order, units)| format!(" {order} {units}"));
            format!("payment {} {} {} {came_to}{refund}", text(&pay.id), pay.order, pay.amount)
        }
        Event::PaymentMatched { .. } | Event::RefundSettled { .. } => {
            let (payment, kind) = rows::payment_end_row(event)?;
            format!("{kind} {}", payment.0)
        }
        Event::BuyerErased(_) => return None,
        _ => match (rows::sale_event_row(event), rows::further_row(event)) {
            (Some((sale, kind, body)), _) => format!("sale {} {kind} {body}", sale.0),
            (None, Some((kind, body))) => format!("{kind} {body}"),
            (None, None) => return None,
        },
    };
    Some(format!("{} {} {what}\n", seq.0, at.0))
}

/// As a JSON string, so that no text can look like more than one.
fn text(text: &str) -> String {
    serde_json::to_string(text).expect("a text is JSON")
}
