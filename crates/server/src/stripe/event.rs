//! What one of Stripe's webhooks says, as far as it matters here.
//!
//! Must not: believe it; its signature is checked before.

use engine::OrderId;
use serde::Deserialize;
use serde_json::Value;

use super::api::{Intent, MadeRefund};

/// What happened at Stripe.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StripeEvent {
    /// An intent for an order of ours is authorised, or its money was taken.
    Authorised {
        intent: String,
        order: OrderId,
        /// Stripe's minor units, and its small letters.
        amount: u64,
        currency: String,
    },
    /// A refund of an intent was made, not by us.
    Refunded { refund: String, intent: String, amount: u64 },
    /// A refund of ours came to nothing after all: the buyer has not got the money.
    RefundFailed { name: String, refund: String },
    /// Nothing of ours, or nothing that changes anything.
    Other,
}

/// The body is no event of Stripe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotAnEvent;

#[derive(Deserialize)]
struct Event {
    #[serde(rename = "type")]
    kind: String,
    data: Data,
}

#[derive(Deserialize)]
struct Data {
    object: Value,
}

#[derive(Deserialize)]
struct OfIntent {
    #[serde(default)]
    payment_intent: Option<String>,
}

impl StripeEvent {
    /// `ledger`: what ours is called at Stripe.
    ///
    /// # Errors
    /// See [`NotAnEvent`].
    pub fn read(body: &[u8], ledger: &str) -> Result<StripeEvent, NotAnEvent> {
        let Event { kind, data } = serde_json::from_slice(body).map_err(|_not_json| NotAnEvent)?;
        match kind.as_str() {
            "payment_intent.amount_capturable_updated" | "payment_intent.succeeded" => {
                let intent: Intent = serde_json::from_value(data.object).map_err(|_not_one| NotAnEvent)?;
                Ok(StripeEvent::of_intent(intent, ledger))
            }
            "refund.created" | "refund.updated" | "refund.failed" | "charge.refund.updated" => {
                let of: OfIntent =
                    serde_json::from_value(data.object.clone()).map_err(|_not_one| NotAnEvent)?;
                let refund: MadeRefund =
                    serde_json::from_value(data.object).map_err(|_not_one| NotAnEvent)?;
                Ok(StripeEvent::of_refund(refund, of.payment_intent))
            }
            _ => Ok(StripeEvent::Other),
        }
    }

    fn of_intent(intent: Intent, ledger: &str) -> StripeEvent {
        let Some(order) = intent.order(ledger).and_then(|order| order.parse().ok()) else {
            return StripeEvent::Other;
        };
        let amount = if intent.is_captured() { intent.amount_received } else { intent.amount_capturable };
        if amount == 0 {
            return StripeEvent::Other;
        }
        StripeEvent::Authorised { order, amount, intent: intent.id, currency: intent.currency }
    }

    fn of_refund(refund: MadeRefund, intent: Option<String>) -> StripeEvent {
        match (refund.named(), intent) {
            (Some(name), _) if refund.failed() => {
                StripeEvent::RefundFailed { name: name.to_owned(), refund: refund.id }
            }
            (None, Some(intent)) if refund.status.as_deref() == Some("succeeded") => {
                StripeEvent::Refunded { refund: refund.id, intent, amount: refund.amount }
            }
            _ => StripeEvent::Other,
        }
    }
}

#[cfg(test)]
mod tests {
    use engine::SkuId;
    use serde_json::json;

    use super::*;

    #[test]
    fn events_are_read_as_far_as_they_are_ours() {
        let order = OrderId { sku: SkuId(2), hash: 0xabc };
        let intent = |status: &str, order: &Value| {
            json!({ "id": "pi_1", "status": status, "amount": 500, "amount_capturable": 500, "amount_received": 400,
                "currency": "eur", "metadata": order })
        };
        let ours = json!({ "doorbuster_order": order.to_string() });
        let authorised = |amount| StripeEvent::Authorised {
            intent: "pi_1".to_owned(),
            order,
            amount,
            currency: "eur".to_owned(),
        };
        let refund = |status: &str, metadata: Value| {
            json!({ "id": "re_1", "status": status, "amount": 5, "currency": "eur", "payment_intent": "pi_1",
                "metadata": metadata })
        };
        let made = StripeEvent::Refunded { refund: "re_1".to_owned(), intent: "pi_1".to_owned(), amount: 5 };
        let failed = StripeEvent::RefundFailed { name: "r 1".to_owned(), refund: "re_1".to_owned() };
        let of_ours = json!({ "doorbuster_refund": "r 1" });
        for (kind, object, event) in [
            ("payment_intent.amount_capturable_updated", intent("requires_capture", &ours), authorised(500)),
            ("payment_intent.succeeded", intent("succeeded", &ours), authorised(400)),
            ("payment_intent.succeeded", intent("succeeded", &json!({})), StripeEvent::Other),
            ("payment_intent.succeeded", intent("succeeded", &Value::Null), StripeEvent::Other),
            (
                "payment_intent.succeeded",
                intent("succeeded", &json!({ "doorbuster_order": "x" })),
                StripeEvent::Other,
            ),
            (
                "payment_intent.succeeded",
                intent(
                    "succeeded",
                    &json!({ "doorbuster_order": order.to_string(), "doorbuster_ledger": "us" }),
                ),
                authorised(400),
            ),
            (
                "payment_intent.succeeded",
                intent(
                    "succeeded",
                    &json!({ "doorbuster_order": order.to_string(), "doorbuster_ledger": "them" }),
                ),
                StripeEvent::Other,
            ),
            ("payment_intent.created", intent("requires_payment_method", &ours), StripeEvent::Other),
            ("refund.created", refund("succeeded", Value::Null), made.clone()),
            ("refund.updated", refund("pending", json!({})), StripeEvent::Other),
            ("charge.refund.updated", refund("succeeded", json!({})), made),
            ("refund.created", refund("succeeded", of_ours.clone()), StripeEvent::Other),
            ("refund.failed", refund("failed", of_ours), failed),
            ("customer.created", json!({}), StripeEvent::Other),
        ] {
            let body = json!({ "id": "evt_1", "type": kind, "data": { "object": object } }).to_string();
            assert_eq!(StripeEvent::read(body.as_bytes(), "us"), Ok(event), "{body}");
        }
        for body in ["", "[]", "{}", r#"{"type":"refund.created","data":{"object":[]}}"#] {
            assert_eq!(StripeEvent::read(body.as_bytes(), "us"), Err(NotAnEvent), "{body}");
        }
    }
}
