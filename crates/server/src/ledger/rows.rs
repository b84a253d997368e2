//! What the columns of the ledger's rows mean, for every backend: events as codes and texts, and back.
//!
//! Formats on disk: a code or a text is never given another meaning. Must not: know a database.

use std::iter::Peekable;

use engine::{
    Adjust, BuyerId, Closing, Disposition, Entry, Event, Fingerprint, KeptAddress, Notice, Operated,
    Operator, OrderId, Pay, RefundReason, Refusal, SaleId, Seq, SkuId,
};

use super::lines;
use super::record::{
    AddressRecord, ChangeRecord, CorrectionRecord, ErasureRecord, NoticeRecord, OperatedRecord,
    OperatorRecord, RejectionRecord, RevocationRecord, SaleRecord,
};

/// A row that no version of this program wrote, or a newer one.
#[derive(Debug, thiserror::Error)]
pub enum RowError {
    #[error("the ledger says {0:?}, which this version does not know")]
    Unknown(String),
    #[error(
        "entry {seq} is of the kind {kind:?}, which this release does not know; nothing of the ledger is read without \
         it: run the release that wrote it, or a newer one"
    )]
    Kind { seq: u64, kind: String },
    #[error("{0}")]
    Json(#[from] serde_json::Error),
    #[error("column {column} holds {found}, which it cannot")]
    Column { column: usize, found: String },
}

pub(super) fn unknown(what: &str) -> RowError {
    RowError::Unknown(what.to_owned())
}

/// Everything that the ledger counts is below 2^63: ids and amounts are checked where they come in.
pub(super) fn int(value: u64) -> i64 {
    i64::try_from(value).expect("ids, times and amounts are below 2^63")
}

/// Names of the clock's notes in `meta`.
pub(super) const NOTED_AT: &str = "clock_noted_at";
pub(super) const CONFIRMED_SINCE: &str = "clock_confirmed_since";
/// In `meta`: up to which order none has an address any more.
pub(super) const ADDRESSES_PURGED_TO: &str = "addresses_purged_to";

/// Sale, kind and body of a row of `sale_events`; `None` if the event is of another table.
pub(super) fn sale_event_row(event: &Event) -> Option<(SaleId, &'static str, String)> {
    let empty = || "{}".to_owned();
    Some(match event {
        // Another kind, too: who knows no lines would sell to whoever comes first.
        Event::SaleCreated(spec) => {
            let has_line = spec.items.iter().any(|item| item.line.is_some());
            let kind = if has_line { LINE_CREATED } else { "created" };
            (spec.id, kind, json(&SaleRecord::of(spec)))
        }
        // Another kind: a program that knows no changes of items must refuse what it would half understand.
        Event::SaleChanged { sale, change } => {
            let kind = if change.items.is_empty() { "changed" } else { "items_changed" };
            (*sale, kind, json(&ChangeRecord::of(change)))
        }
        Event::SalePaused(sale) => (*sale, "paused", empty()),
        Event::SaleResumed(sale) => (*sale, "resumed", empty()),
        Event::SaleEnded(sale) => (*sale, "ended", empty()),
        Event::SaleDeleted(sale) => (*sale, "deleted", empty()),
        _ => return None,
    })
}

pub(super) fn json(record: &impl serde::Serialize) -> String {
    serde_json::to_string(record).expect("a record of strings and numbers is JSON")
}

pub(super) fn sale_event(sale: SaleId, kind: &str, body: &str) -> Result<Event, RowError> {
    match kind {
        "created" | LINE_CREATED => {
            let record: SaleRecord = serde_json::from_str(body)?;
            Ok(Event::SaleCreated(Box::new(record.into_spec(sale))))
        }
        "changed" | "items_changed" => {
            let record: ChangeRecord = serde_json::from_str(body)?;
            Ok(Event::SaleChanged { sale, change: Box::new(record.into_change()) })
        }
        "paused" => Ok(Event::SalePaused(sale)),
        "resumed" => Ok(Event::SaleResumed(sale)),
        "ended" => Ok(Event::SaleEnded(sale)),
        "deleted" => Ok(Event::SaleDeleted(sale)),
        other => Err(unknown(other)),
    }
}

pub(super) fn adjust_code(how: Adjust) -> &'static str {
    match how {
        Adjust::Restock => "restock",
        Adjust::Correct => "correct",
    }
}

pub(super) fn adjustment(sku: SkuId, kind: &str, units: u64, key: &str) -> Result<Event, RowError> {
    let how = match kind {
        "restock" => Adjust::Restock,
        "correct" => Adjust::Correct,
        other => return Err(unknown(other)),
    };
    Ok(Event::StockAdjusted { sku, how, units, key: key.into() })
}

/// An order id from its two columns.
pub(super) fn order_id(sku: u32, hash: [u8; 16]) -> OrderId {
    OrderId { sku: SkuId(sku), hash: u128::from_be_bytes(hash) }
}

pub(super) fn order(id: OrderId, buyer: BuyerId, quantity: u32, unit_price: u64, fingerprint: i64) -> Event {
    let fingerprint = Fingerprint(fingerprint.cast_unsigned());
    Event::OrderPlaced { id, buyer, quantity, unit_price, fingerprint }
}

/// A buyer in two columns: the lower 64 bits, and the higher ones of a buyer who is a hash.
pub(super) fn buyer_row(buyer: BuyerId) -> (i64, Option<i64>) {
    assert!(buyer.is_valid(), "a buyer is checked where it comes in");
    let half = |bits: u128| u64::try_from(bits & u128::from(u64::MAX)).expect("64 bits of it").cast_signed();
    (half(buyer.0), buyer.is_hash().then(|| half(buyer.0 >> 64)))
}

pub(super) fn buyer(low: i64, high: Option<i64>) -> Result<BuyerId, RowError> {
    let buyer = match high {
        None => u64::try_from(low).ok().and_then(BuyerId::of_number),
        Some(high) => {
            let [high, low] = [high, low].map(|half| u128::from(half.cast_unsigned()));
            Some(BuyerId(high << 64 | low)).filter(|buyer| buyer.is_hash())
        }
    };
    buyer.ok_or_else(|| unknown(&format!("buyer {low}, {high:?}")))
}

/// The kinds of `further_entries` that have a meaning here. Each must be one that a program of this format without it may not
/// pass over: that one refuses the ledger.
pub(super) const FURTHER_KINDS: [&str; 15] = [
    CLOCK_CORRECTED,
    BUYER_ERASED,
    ORDER_REJECTED,
    NOTICE,
    ORDER_ADDRESSED,
    OPERATOR_ADDED,
    OPERATOR_REVOKED,
    OPERATED,
    lines::JOINED,
    lines::CLOSED,
    lines::DRAWN,
    lines::MOVED,
    lines::PACE_LIMITED,
    lines::MESSAGE_SET,
    lines::TURN,
];
const CLOCK_CORRECTED: &str = "clock_corrected";
const BUYER_ERASED: &str = "buyer_erased";
const ORDER_REJECTED: &str = "order_rejected";
const NOTICE: &str = "notice";
const ORDER_ADDRESSED: &str = "order_addressed";
const OPERATOR_ADDED: &str = "operator_added";
const OPERATOR_REVOKED: &str = "operator_revoked";
/// Of what an operator did.
pub(super) const OPERATED: &str = "operated";
/// Of `sale_events`.
const LINE_CREATED: &str = "line_created";

/// Kind and body of a row of `further_entries`; `None` if the event is of another table.
pub(super) fn further_row(event: &Event) -> Option<(&'static str, String)> {
    match event {
        Event::ClockCorrected { from, to, who } => {
            Some((CLOCK_CORRECTED, json(&CorrectionRecord::of(*from, *to, who))))
        }
        Event::BuyerErased(buyer) => Some((BUYER_ERASED, json(&ErasureRecord::of(*buyer)))),
        Event::OrderRejected { order, reason } => {
            Some((ORDER_REJECTED, json(&RejectionRecord::of(*order, *reason))))
        }
        Event::OrderAddressed { order } => Some((ORDER_ADDRESSED, json(&AddressRecord { order: order.0 }))),
        Event::OperatorAdded(operator) => Some((OPERATOR_ADDED, operator_row(operator))),
        Event::OperatorRevoked(name) => {
            Some((OPERATOR_REVOKED, json(&RevocationRecord { name: name.clone() })))
        }
        Event::Operated(operated) => Some((OPERATED, json(&OperatedRecord::of(operated)))),
        Event::Noticed(notice) => Some((NOTICE, json(&NoticeRecord::of(*notice)))),
        _ => lines::row(event),
    }
}

pub(super) fn further(seq: u64, kind: &str, body: &[u8]) -> Result<Event, RowError> {
    match kind {
        CLOCK_CORRECTED => Ok(serde_json::from_slice::<CorrectionRecord>(body)?.into_event()),
        BUYER_ERASED => {
            let buyer = serde_json::from_slice::<ErasureRecord>(body)?.buyer;
            buyer_of(&buyer).map(Event::BuyerErased)
        }
        ORDER_REJECTED => {
            let (order, reason) = rejected_order(body)?;
            Ok(Event::OrderRejected { order, reason })
        }
        NOTICE => Ok(Event::Noticed(notice(body)?)),
        OPERATOR_ADDED => Ok(Event::OperatorAdded(Box::new(operator(body)?))),
        OPERATOR_REVOKED => {
            Ok(Event::OperatorRevoked(serde_json::from_slice::<RevocationRecord>(body)?.name))
        }
        OPERATED => Ok(Event::Operated(Box::new(operated(body)?))),
        ORDER_ADDRESSED => {
            let AddressRecord { order } = serde_json::from_slice(body)?;
            Ok(Event::OrderAddressed { order: Seq(order) })
        }
        other if lines::KINDS.contains(&other) => lines::event(other, body),
        other => Err(RowError::Kind { seq, kind: other.to_owned() }),
    }
}

/// An operator, as an entry and as a row of `meta` have it.
pub(super) fn operator_row(operator: &Operator) -> String {
    json(&OperatorRecord::of(operator))
}

pub(super) fn operator(body: &[u8]) -> Result<Operator, RowError> {
    let record: OperatorRecord = serde_json::from_slice(body)?;
    record.into_operator().map_err(|what| unknown(&what))
}

pub(super) fn operated(body: &[u8]) -> Result<Operated, RowError> {
    Ok(serde_json::from_slice::<OperatedRecord>(body)?.into_operated())
}

/// Which order was rejected, and why, as `further_entries` says.
pub(super) fn rejected_order(body: &[u8]) -> Result<(OrderId, Refusal), RowError> {
    let RejectionRecord { order, reason } = serde_json::from_slice(body)?;
    let unknown = || RowError::Unknown(format!("order {order:?}, rejected for {reason:?}"));
    order.parse().ok().zip(rejection_reason(&reason)).ok_or_else(unknown)
}

/// What an order that the gate had let pass can be refused for.
pub(super) fn rejection_reason(code: &str) -> Option<Refusal> {
    let reasons = [
        Refusal::UnknownSku,
        Refusal::InvalidQuantity,
        Refusal::OverLimit,
        Refusal::SoldOut,
        Refusal::NotEnoughLeft,
    ];
    reasons.into_iter().find(|reason| reason.code() == code)
}

/// What a notice of `further_entries` says.
pub(super) fn notice(body: &[u8]) -> Result<Notice, RowError> {
    Ok(serde_json::from_slice::<NoticeRecord>(body)?.into_notice())
}

/// A buyer as an entry's JSON names it: a number in digits, or a hash in 32 hexadecimal ones.
pub(super) fn buyer_of(text: &str) -> Result<BuyerId, RowError> {
    let hash = |text| u128::from_str_radix(text, 16).ok().map(BuyerId).filter(|buyer| buyer.is_hash());
    let buyer = if text.len() == 32 { hash(text) } else { BuyerId::of_digits(text) };
    buyer.ok_or_else(|| unknown(&format!("buyer {text}")))
}

/// Who orders or joins a line with an entry, and the text of one who is a hash: the two go into the ledger together.
pub(super) fn text_of<'a>(
    texts: &mut Peekable<std::slice::Iter<'a, (Seq, Box<str>)>>,
    entry: &Entry,
) -> Option<(BuyerId, &'a str)> {
    let (Event::OrderPlaced { buyer, .. } | Event::LineJoined { buyer, .. }) = entry.event else {
        return None;
    };
    let text = texts.next_if(|(of, _)| *of == entry.seq).map(|(_, text)| &**text);
    assert_eq!(text.is_some(), buyer.is_hash(), "a buyer who is a hash, and no other, comes with a text");
    text.map(|text| (buyer, text))
}

/// What a row of the orders says of its address. `over`: those of its age were removed.
pub(super) fn kept_address(address: Option<Vec<u8>>, over: bool) -> KeptAddress {
    match address {
        Some(address) => KeptAddress::Is(address.into()),
        None if over => KeptAddress::Over,
        None => KeptAddress::Missing,
    }
}

pub(super) fn closing_code(how: Closing) -> u8 {
    match how {
        Closing::Paid => 1,
        Closing::Cancelled => 2,
        Closing::Expired => 3,
        Closing::PaidLate => 4,
        Closing::Refunded => 5,
    }
}

/// What the ledger's number for a transition means.
pub(super) fn closing(code: u8) -> Option<Closing> {
    match code {
        1 => Some(Closing::Paid),
        2 => Some(Closing::Cancelled),
        3 => Some(Closing::Expired),
        4 => Some(Closing::PaidLate),
        5 => Some(Closing::Refunded),
        _ => None,
    }
}

pub(super) fn transition(order: u64, step: u8, kind: u8) -> Result<Event, RowError> {
    let how = closing(kind).ok_or_else(|| unknown("a transition"))?;
    if step != how.step() {
        return Err(unknown("a step that is not this transition's"));
    }
    Ok(Event::OrderClosed { order: Seq(order), how })
}

/// What a payment came to, and of a refund the order's entry and the units that went back on sale.
pub(super) fn disposition_row(disposition: Disposition) -> (&'static str, Option<(i64, u32)>) {
    match disposition {
        Disposition::Applied => ("applied", None),
        Disposition::RefundDue(reason @ RefundReason::Requested { order, units }) => {
            (reason.as_str(), Some((int(order.0), units)))
        }
        Disposition::Settled(RefundReason::Requested { order, units }) => {
            (PAID_OUT, Some((int(order.0), units)))
        }
        Disposition::RefundDue(reason) => (reason.as_str(), None),
        Disposition::Settled(_) => unreachable!("a payment is recorded before it is settled"),
    }
}

/// A refund that the provider has made before it was known of.
const PAID_OUT: &str = "paid_out";

/// `refund`: the order's entry and the units of a refund.
pub(super) fn payment(pay: Pay, came_to: &str, refund: Option<(u64, u32)>) -> Result<Event, RowError> {
    let reasons = [
        RefundReason::UnknownOrder,
        RefundReason::AmountDiffers,
        RefundReason::AlreadyPaid,
        RefundReason::Cancelled,
        RefundReason::ExpiredSoldOut,
        RefundReason::ExpiredOverLimit,
    ];
    let requested = refund.map(|(order, units)| RefundReason::Requested { order: Seq(order), units });
    let disposition = match (came_to, requested) {
        ("applied", None) => Some(Disposition::Applied),
        (PAID_OUT, Some(reason)) => Some(Disposition::Settled(reason)),
        (text, Some(reason)) if text == reason.as_str() => Some(Disposition::RefundDue(reason)),
        (text, None) => {
            reasons.into_iter().find(|reason| reason.as_str() == text).map(Disposition::RefundDue)
        }
        _ => None,
    };
    let disposition = disposition.ok_or_else(|| unknown(came_to))?;
    Ok(Event::PaymentRecorded { pay, disposition })
}

/// The payment and the kind of a row of `payment_ends`; `None` if the event is of another table.
pub(super) fn payment_end_row(event: &Event) -> Option<(Seq, &'static str)> {
    match event {
        Event::PaymentMatched { payment } => Some((*payment, "matched")),
        Event::RefundSettled { payment } => Some((*payment, "settled")),
        _ => None,
    }
}

pub(super) fn payment_end(payment: u64, kind: &str) -> Result<Event, RowError> {
    let payment = Seq(payment);
    match kind {
        "matched" => Ok(Event::PaymentMatched { payment }),
        "settled" => Ok(Event::RefundSettled { payment }),
        other => Err(unknown(other)),
    }
}

#[cfg(test)]
mod tests {
    use engine::{ItemChange, ProductId, SaleChange};

    use super::*;

    #[test]
    fn what_happened_to_a_sale_is_read_as_it_was_written() {
        let sale = SaleId(7);
        let item = |product, limit| ItemChange {
            product: ProductId(product),
            title: Some("Boot".to_owned()),
            description: (product == 1).then(|| "Warm\n".to_owned()),
            price: (product == 1).then_some(3_999),
            list_price: (product == 2).then_some(0),
            limit,
        };
        let items = vec![item(1, None), item(2, Some(None)), item(3, Some(Some(2)))];
        let changed = |items| {
            let change = SaleChange { items, ends_at: Some(engine::UnixMs(9)), ..SaleChange::default() };
            Event::SaleChanged { sale, change: Box::new(change) }
        };
        let rows = [
            (changed(Vec::new()), "changed"),
            (changed(items), "items_changed"),
            (Event::SaleDeleted(sale), "deleted"),
        ];
        for (event, kind) in rows {
            let (of, written, body) = sale_event_row(&event).unwrap();
            assert_eq!((of, written), (sale, kind));
            assert_eq!(sale_event(sale, kind, &body).unwrap(), event, "{body}");
        }
        let before = r#"{"title":null,"starts_at_ms":null,"ends_at_ms":9,"payment_ms":null}"#;
        assert_eq!(sale_event(sale, "changed", before).unwrap(), changed(Vec::new()));
        assert_eq!(
            sale_event_row(&changed(Vec::new())).unwrap().2,
            before,
            "as every release has written it"
        );
    }
}
