//! An event as the shop gets it: its kind, its JSON, and who wants it.

use engine::Status;
use serde_json::{Value, json};

use crate::ledger::{OpenedTurn, Outgoing, What};
use engine::format_utc;

/// Every kind of event there is.
pub const KINDS: [&str; 14] = [
    "order.held",
    "order.paid",
    "order.cancelled",
    "order.expired",
    "order.rejected",
    "order.refunded",
    "order.addressed",
    "refund.due",
    "refund.settled",
    "sale.started",
    "sale.sold_out",
    "sale.back_in_stock",
    "sale.ended",
    "turn.opened",
];

/// Which events an endpoint wants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventFilter {
    kinds: Vec<&'static str>,
    /// Empty: of all sales.
    sales: Vec<u64>,
}

impl EventFilter {
    /// `patterns`: kinds, `order.*` for all of orders, `*` for all. `sales`: none for all.
    ///
    /// # Errors
    /// The first pattern that no kind fits.
    pub fn new(patterns: &[String], sales: &[u64]) -> Result<EventFilter, String> {
        let mut kinds = Vec::new();
        for pattern in patterns {
            let fits = |kind: &str| match pattern.strip_suffix('*') {
                Some(start) => (start.is_empty() || start.ends_with('.')) && kind.starts_with(start),
                None => kind == pattern,
            };
            let before = kinds.len();
            kinds.extend(KINDS.into_iter().filter(|kind| fits(kind)));
            if kinds.len() == before {
                return Err(pattern.clone());
            }
        }
        Ok(EventFilter { kinds, sales: sales.to_vec() })
    }

    pub(super) fn has(&self, event: &Outgoing) -> bool {
        let of_sale =
            |sale: Option<u64>| self.sales.is_empty() || sale.is_some_and(|sale| self.sales.contains(&sale));
        self.kinds.contains(&kind(event)) && of_sale(sale(event))
    }
}

fn kind(event: &Outgoing) -> &'static str {
    match &event.what {
        What::Order(order) => match order.status {
            Status::Held => "order.held",
            Status::Paid => "order.paid",
            Status::Cancelled => "order.cancelled",
            Status::Expired => "order.expired",
            Status::Refunded => "order.refunded",
        },
        What::Addressed(_) => "order.addressed",
        What::Rejected { .. } => "order.rejected",
        What::Refund { settled: false, .. } => "refund.due",
        What::Refund { settled: true, .. } => "refund.settled",
        What::SaleStarted { .. } => "sale.started",
        What::Stock { sold_out: true, .. } => "sale.sold_out",
        What::Stock { sold_out: false, .. } => "sale.back_in_stock",
        What::SaleEnded { .. } => "sale.ended",
        What::TurnOpened(_) => "turn.opened",
    }
}

fn sale(event: &Outgoing) -> Option<u64> {
    match &event.what {
        What::Order(order) | What::Addressed(order) => Some(order.sale.0),
        What::Refund { payment, .. } => payment.sale,
        What::SaleStarted { sale }
        | What::SaleEnded { sale }
        | What::Stock { sale, .. }
        | What::TurnOpened(OpenedTurn { sale, .. })
        | What::Rejected { sale, .. } => Some(*sale),
    }
}

/// The event's id: the same however often it is sent.
pub(super) fn id(event: &Outgoing) -> String {
    format!("evt_{}", event.seq)
}

pub(super) fn body(event: &Outgoing) -> Value {
    let data = match &event.what {
        What::Order(order) | What::Addressed(order) => {
            let address =
                order.address.as_ref().map(|text| serde_json::from_str(text).unwrap_or(Value::Null));
            json!({ "order": {
                "id": order.id.to_string(),
                "sale": order.sale.0,
                "product": order.product.0,
                "buyer": order.buyer,
                "quantity": order.quantity,
                "unit_price": order.unit_price,
                "amount": u64::from(order.quantity).saturating_mul(order.unit_price),
                "currency": order.currency,
                "status": order.status.as_str(),
                "placed_at_ms": order.placed_at.0,
                "closed_at_ms": order.closed_at.map(|at| at.0),
                "refunded": order.refunded,
                "address": address,
            } })
        }
        What::Rejected { order, sale, product, reason } => json!({ "order": {
            "id": order.to_string(),
            "sale": sale,
            "product": product,
            "status": "rejected",
            "reason": reason.code(),
        } }),
        What::Refund { payment, settled } => json!({ "refund": {
            "payment_id": payment.payment,
            "order": payment.order,
            "sale": payment.sale,
            "amount": payment.amount,
            "currency": payment.currency,
            "reason": payment.reason,
            "units": payment.units,
            "status": if *settled { "settled" } else { "due" },
        } }),
        What::SaleStarted { sale } | What::SaleEnded { sale } => json!({ "sale": { "id": sale } }),
        What::TurnOpened(turn) => json!({ "turn": {
            "sale": turn.sale,
            "product": turn.product,
            "buyer": turn.buyer,
            "number": turn.number,
            "place": turn.place,
            "units": turn.units,
            "until_ms": turn.until.0,
        } }),
        What::Stock { sale, product, .. } => json!({ "item": { "sale": sale, "product": product } }),
    };
    json!({
        "type": kind(event),
        "timestamp": format_utc(event.at.0),
        "id": id(event),
        "sequence": event.seq,
        "data": data,
    })
}

/// An event that means nothing, to try an endpoint with.
pub(super) fn test(number: u64, now_ms: u64) -> (String, Value) {
    let id = format!("evt_test_{now_ms}_{number}");
    let body = json!({ "type": "webhook.test", "timestamp": format_utc(now_ms), "id": id, "data": {} });
    (id, body)
}

/// Several events in one request.
pub(super) fn batch(events: &[&Outgoing]) -> (String, Value) {
    let (first, last) = (events[0].seq, events[events.len() - 1].seq);
    let bodies: Vec<Value> = events.iter().map(|event| body(event)).collect();
    let timestamp = format_utc(events[events.len() - 1].at.0);
    (
        format!("bat_{first}_{last}_{}", events.len()),
        json!({ "type": "batch", "timestamp": timestamp, "events": bodies }),
    )
}

#[cfg(test)]
mod tests {
    use engine::{OrderId, ProductId, SaleId, SkuId, UnixMs};

    use super::*;
    use crate::ledger::{DueRefund, OrderLine};

    fn order(status: Status) -> Outgoing {
        let line = OrderLine {
            id: OrderId { sku: SkuId(2), hash: 0xabc },
            sale: SaleId(3),
            product: ProductId(30),
            buyer: "anna".to_owned(),
            quantity: 2,
            unit_price: 4_999,
            currency: "EUR".to_owned(),
            status,
            placed_at: UnixMs(1_700_000_000_000),
            closed_at: (status != Status::Held).then_some(UnixMs(1_700_000_001_000)),
            refunded: 0,
            address: Some(r#"{"city":"Bergen"}"#.to_owned()),
        };
        Outgoing { seq: 42, at: UnixMs(1_700_000_001_000), what: What::Order(line) }
    }

    fn refund(sale: Option<u64>) -> Outgoing {
        let payment = DueRefund {
            payment: "pay_1".to_owned(),
            order: "ff".to_owned(),
            amount: 50,
            sale,
            currency: sale.map(|_| "EUR".to_owned()),
            reason: "unknown_order".to_owned(),
            units: None,
        };
        Outgoing { seq: 43, at: UnixMs(1_700_000_002_000), what: What::Refund { payment, settled: false } }
    }

    #[test]
    fn an_order_is_sent_whole() {
        assert_eq!(
            body(&order(Status::Paid)),
            json!({
                "type": "order.paid",
                "timestamp": "2023-11-14T22:13:21Z",
                "id": "evt_42",
                "sequence": 42,
                "data": { "order": {
                    "id": "0000000200000000000000000000000000000abc",
                    "sale": 3, "product": 30, "buyer": "anna", "quantity": 2, "unit_price": 4_999, "amount": 9_998,
                    "currency": "EUR", "status": "paid", "placed_at_ms": 1_700_000_000_000_u64,
                    "closed_at_ms": 1_700_000_001_000_u64, "refunded": 0, "address": { "city": "Bergen" },
                } },
            })
        );
    }

    #[test]
    fn a_turn_is_sent_with_whom_to_write_to() {
        let turn = OpenedTurn {
            sale: 3,
            product: 30,
            number: 4_711,
            place: 12,
            buyer: "anna".to_owned(),
            units: 2,
            until: UnixMs(1_700_000_121_000),
        };
        let event = Outgoing { seq: 44, at: UnixMs(1_700_000_001_000), what: What::TurnOpened(turn) };
        let data = json!({ "turn": {
            "sale": 3, "product": 30, "buyer": "anna", "number": 4_711, "place": 12, "units": 2,
            "until_ms": 1_700_000_121_000_u64,
        } });
        assert_eq!((&body(&event)["type"], &body(&event)["data"]), (&json!("turn.opened"), &data));
        assert_eq!(event.about(), "turn 3/30/12", "one that fails holds up no other");
        let filter =
            |pattern: &str, sale| EventFilter::new(&[pattern.to_owned()], &[sale]).unwrap().has(&event);
        let wants = [filter("turn.*", 3), filter("*", 3), filter("order.*", 3), filter("*", 4)];
        assert_eq!(wants, [true, true, false, false]);
    }

    #[test]
    fn a_batch_names_its_events() {
        let (first, second) = (order(Status::Held), refund(None));
        let (id, batch) = batch(&[&first, &second]);
        assert_eq!((id.as_str(), &batch["type"]), ("bat_42_43_2", &json!("batch")));
        assert_eq!(batch["events"], json!([body(&first), body(&second)]));
    }

    #[test]
    fn an_endpoint_gets_what_it_wants() {
        let filter = |patterns: &[&str], sales: &[u64]| {
            EventFilter::new(&patterns.iter().map(|&text| text.to_owned()).collect::<Vec<_>>(), sales)
        };
        for (patterns, sales, held, paid, due) in [
            (&["*"][..], &[][..], true, true, true),
            (&["order.*"], &[], true, true, false),
            (&["order.paid", "refund.due"], &[], false, true, true),
            (&["*"], &[3], true, true, false),
            (&["*"], &[4], false, false, false),
        ] {
            let filter = filter(patterns, sales).unwrap();
            let has =
                [order(Status::Held), order(Status::Paid), refund(None)].map(|event| filter.has(&event));
            assert_eq!(has, [held, paid, due], "{patterns:?} {sales:?}");
        }
        for unknown in ["", "order", "order.p*", "orders.*", "order.lost"] {
            assert_eq!(filter(&[unknown], &[]), Err(unknown.to_owned()));
        }
    }
}
