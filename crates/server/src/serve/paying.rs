//! Where orders are paid: at the shop, or by Stripe.
//!
//! Must not: decide what a payment pays for.

use std::sync::Arc;

use super::ServeError;
use crate::config::{Config, Secrets};
use crate::http::PayPage;
use crate::intake::{Intake, Mailbox};
use crate::stripe::{self, Desk, Surroundings};
use crate::webhooks::Endpoint;

/// What asks Stripe for buyers, and what follows the ledger for it; `None`: another provider takes the payments.
pub(super) fn start(
    config: &Config,
    secrets: &Secrets,
    intake: &Intake,
    mailbox: &Arc<Mailbox>,
    order_id: &[u8; 16],
) -> Result<Option<(Desk, Endpoint)>, ServeError> {
    let Some(account) = &secrets.stripe else { return Ok(None) };
    let reader = config.ledger_source(secrets).event_reader()?;
    let (clock, shelf) = (Arc::clone(&intake.clock), Arc::clone(&intake.shelf));
    let (metrics, asker) = (Arc::clone(&intake.metrics), mailbox.asker());
    let shared = Surroundings { clock, shelf, metrics, asker };
    Ok(Some(stripe::start(account, order_id, shared, reader)))
}

/// The page that an order's page leads to: the shop's, or ours, from where Stripe's is gone to.
pub(super) fn page(config: &Config, secrets: &Secrets) -> Option<PayPage> {
    if let Some(account) = &secrets.stripe {
        let query = "amount={amount}&currency={currency}&signature={signature}";
        let pay_url = format!("{}/orders/{{order}}/pay?{query}", account.public_url);
        return Some(PayPage { pay_url, return_url: String::new() });
    }
    let pay_url = config.shop.pay_url.clone()?;
    Some(PayPage { pay_url, return_url: config.shop.return_url.clone().unwrap_or_default() })
}

/// What signs the address of that page. Nobody else has to check our own.
pub(super) fn page_key(secrets: &Secrets, order_id: &[u8; 16]) -> Option<Box<[u8]>> {
    match &secrets.stripe {
        Some(_) => Some([b"pay".as_slice(), order_id].concat().into()),
        None => secrets.payment.as_ref().map(super::bytes),
    }
}
