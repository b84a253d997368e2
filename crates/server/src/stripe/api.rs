//! What is asked of Stripe, by name: sessions in which a buyer authorises a payment, and what becomes of the authorisation.
//!
//! Each can be asked again after a lost answer: a session and a refund by their idempotency keys, all others by the state
//! of what they change. Must not: decide what is to be done.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Deserialize;

use super::client::{Client, Failure};

/// In the metadata of an intent: the order that it pays.
pub(super) const ORDER: &str = "doorbuster_order";
/// Beside it: whose order it is, where several servers with ledgers of their own use one account.
const LEDGER: &str = "doorbuster_ledger";
/// In the metadata of a refund: that it was made here, and the id under which the ledger has it.
pub(super) const REFUND: &str = "doorbuster_refund";
/// Refunds of one intent that are looked through: pages of a hundred.
const PAGES_MAX: usize = 20;

pub(super) type Metadata = BTreeMap<String, String>;

/// A payment at Stripe.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Intent {
    pub(super) id: String,
    pub(super) status: String,
    /// That was authorised.
    #[serde(default)]
    pub(super) amount: u64,
    #[serde(default)]
    pub(super) amount_capturable: u64,
    #[serde(default)]
    pub(super) amount_received: u64,
    pub(super) currency: String,
    #[serde(default)]
    pub(super) metadata: Option<Metadata>,
}

impl Intent {
    /// The order of this ledger that it pays. One that says nothing of a ledger was made by hand, for whoever hears of it.
    pub(super) fn order(&self, ledger: &str) -> Option<&str> {
        let metadata = self.metadata.as_ref()?;
        let is_ours = metadata.get(LEDGER).is_none_or(|found| found == ledger);
        metadata.get(ORDER).filter(|_| is_ours).map(String::as_str)
    }

    pub(super) fn is_canceled(&self) -> bool {
        self.status == "canceled"
    }

    /// Its money was taken, or is being taken.
    pub(super) fn is_captured(&self) -> bool {
        self.status == "succeeded"
    }

    pub(super) fn is_authorised(&self) -> bool {
        self.status == "requires_capture"
    }
}

/// A page at Stripe where one order is paid.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Checkout {
    pub(super) id: String,
    /// Open ones alone have one.
    #[serde(default)]
    pub(super) url: Option<String>,
    #[serde(default)]
    pub(super) payment_intent: Option<String>,
}

/// What a session is made with.
#[derive(Clone, Debug)]
pub(super) struct NewCheckout<'a> {
    pub(super) order: &'a str,
    pub(super) title: &'a str,
    pub(super) quantity: u32,
    /// Stripe's minor units.
    pub(super) unit_amount: u64,
    pub(super) currency: &'a str,
    pub(super) return_url: &'a str,
    pub(super) expires_at_s: u64,
}

#[derive(Clone, Debug, Deserialize)]
pub(super) struct MadeRefund {
    pub(super) id: String,
    pub(super) amount: u64,
    #[serde(default)]
    pub(super) status: Option<String>,
    #[serde(default)]
    pub(super) metadata: Option<Metadata>,
}

impl MadeRefund {
    pub(super) fn named(&self) -> Option<&str> {
        self.metadata.as_ref()?.get(REFUND).map(String::as_str)
    }

    pub(super) fn failed(&self) -> bool {
        matches!(self.status.as_deref(), Some("failed" | "canceled"))
    }
}

#[derive(Debug, Deserialize)]
struct Page<T> {
    data: Vec<T>,
    #[serde(default)]
    has_more: bool,
}

/// Stripe's API, as far as it is used here.
#[derive(Clone, Debug)]
pub(super) struct Api {
    client: Client,
    /// What the ledger is called at Stripe.
    ledger: Arc<str>,
}

impl Api {
    pub(super) fn new(client: Client, ledger: Arc<str>) -> Api {
        Api { client, ledger }
    }

    pub(super) fn ledger(&self) -> &str {
        &self.ledger
    }

    /// Whether Stripe answers, and knows the key.
    pub(super) fn try_key(&self) -> Result<(), Failure> {
        self.client.get::<Page<Intent>>("/v1/payment_intents?limit=1").map(drop)
    }

    /// The same parameters are the same session, for a day.
    pub(super) fn open_checkout(&self, new: &NewCheckout<'_>) -> Result<Checkout, Failure> {
        let form = [
            ("mode", "payment".to_owned()),
            ("client_reference_id", new.order.to_owned()),
            ("payment_intent_data[capture_method]", "manual".to_owned()),
            ("payment_intent_data[metadata][doorbuster_order]", new.order.to_owned()),
            ("payment_intent_data[metadata][doorbuster_ledger]", self.ledger.to_string()),
            ("line_items[0][quantity]", new.quantity.to_string()),
            ("line_items[0][price_data][currency]", new.currency.to_ascii_lowercase()),
            ("line_items[0][price_data][unit_amount]", new.unit_amount.to_string()),
            ("line_items[0][price_data][product_data][name]", new.title.to_owned()),
            ("success_url", new.return_url.to_owned()),
            ("cancel_url", new.return_url.to_owned()),
            ("expires_at", new.expires_at_s.to_string()),
            // Another currency would pay for nothing.
            ("adaptive_pricing[enabled]", "false".to_owned()),
        ];
        let values: Vec<&str> = form.iter().map(|(_, value)| value.as_str()).collect();
        let key =
            format!("doorbuster-checkout-{}-{}", new.order, crate::stripe::fingerprint(&values.join("\n")));
        self.client.post("/v1/checkout/sessions", &form, &key)
    }

    pub(super) fn checkout(&self, id: &str) -> Result<Checkout, Failure> {
        self.client.get(&format!("/v1/checkout/sessions/{}", segment(id)))
    }

    pub(super) fn close_checkout(&self, id: &str) -> Result<Checkout, Failure> {
        let key = format!("doorbuster-close-{id}");
        self.client.post(&format!("/v1/checkout/sessions/{}/expire", segment(id)), &[], &key)
    }

    pub(super) fn intent(&self, id: &str) -> Result<Intent, Failure> {
        self.client.get(&format!("/v1/payment_intents/{}", segment(id)))
    }

    /// `attempt` is another one each time: a failure that Stripe remembers under the key must not be the answer to the next
    /// try. An intent is captured once anyway.
    pub(super) fn capture(&self, id: &str, amount: u64, attempt: u64) -> Result<Intent, Failure> {
        let form = [("amount_to_capture", amount.to_string())];
        let key = format!("doorbuster-capture-{id}-{attempt}");
        self.client.post(&format!("/v1/payment_intents/{}/capture", segment(id)), &form, &key)
    }

    pub(super) fn cancel(&self, id: &str, attempt: u64) -> Result<Intent, Failure> {
        let key = format!("doorbuster-cancel-{id}-{attempt}");
        self.client.post(&format!("/v1/payment_intents/{}/cancel", segment(id)), &[], &key)
    }

    /// Pays `part` of a captured intent back, or all that is left of it, once for each `name`. Stripe's refunds are looked
    /// through first: its idempotency keys are good for a day, and a try may come after more.
    pub(super) fn refund(&self, intent: &Intent, name: &str, part: Option<u64>) -> Result<(), Failure> {
        let refunds = self.refunds(&intent.id)?;
        let (failed, made): (Vec<_>, Vec<_>) = refunds.iter().partition(|made| made.failed());
        if made.iter().any(|made| made.named() == Some(name)) {
            return Ok(());
        }
        let failed = failed.iter().filter(|failed| failed.named() == Some(name)).count();
        let gone: u64 = made.iter().map(|made| made.amount).sum();
        let amount = part.unwrap_or(intent.amount_received.saturating_sub(gone));
        if amount == 0 {
            return Ok(());
        }
        let intent = &intent.id;
        let form = [
            ("payment_intent", intent.clone()),
            ("amount", amount.to_string()),
            ("metadata[doorbuster_refund]", name.to_owned()),
        ];
        // Names are up to 255 bytes, and so are keys.
        let name = crate::stripe::fingerprint(name);
        let key = format!("doorbuster-refund-{intent}-{name}-{amount}-{failed}");
        self.client.post::<MadeRefund>("/v1/refunds", &form, &key).map(drop)
    }

    fn refunds(&self, intent: &str) -> Result<Vec<MadeRefund>, Failure> {
        let mut found: Vec<MadeRefund> = Vec::new();
        for _page in 0..PAGES_MAX {
            let after = found.last().map(|last| format!("&starting_after={}", segment(&last.id)));
            let after = after.unwrap_or_default();
            let path = format!("/v1/refunds?payment_intent={}&limit=100{after}", segment(intent));
            let page: Page<MadeRefund> = self.client.get(&path)?;
            let more = page.has_more && !page.data.is_empty();
            found.extend(page.data);
            if !more {
                break;
            }
        }
        Ok(found)
    }
}

/// Ids of Stripe are letters, digits and `_`; what is anything else must not become another path.
fn segment(id: &str) -> String {
    id.chars().filter(|letter| letter.is_ascii_alphanumeric() || *letter == '_').collect()
}
