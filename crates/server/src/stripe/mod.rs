//! Stripe: a buyer authorises the payment of a held order on a page of Stripe's; the ledger decides what it pays for; then
//! it is captured, voided or paid back.
//!
//! Money follows the ledger and never leads it: nothing is captured that is not committed as paid, and what is committed is
//! carried out at Stripe however often it takes, by [`Follower`], which reads the ledger as the shop's endpoints are notified of
//! it. Must not: know HTTP's routes or a profile, or be asked on an event loop what Stripe must be asked.

mod api;
mod askers;
mod checkouts;
mod client;
mod desk;
mod event;
mod follower;
mod money;

use std::sync::Arc;

use ring::digest;

pub use client::Client;
pub use desk::{Desk, OnOutcome, StripeOutcome, Work};
pub use event::{NotAnEvent, StripeEvent};
pub use follower::Follower;
pub use money::from_stripe;

use api::Api;
use checkouts::Checkouts;

use crate::clock::Clock;
use crate::intake::Asker;
use crate::intake::catalog::Shelf;
use crate::ledger::EventReader;
use crate::metrics::Metrics;
use crate::webhooks::{Endpoint, EventFilter};

/// Under which it is kept how far Stripe follows the ledger. No endpoint of the shop has a dot.
pub const FOLLOWER: &str = "payments.stripe";
/// What Stripe does something about.
const WANTED: [&str; 4] = ["order.paid", "order.cancelled", "order.expired", "refund.due"];

/// What is configured.
#[derive(Clone, Debug)]
pub struct Account {
    pub client: Client,
    /// The server's address as browsers know it, without a path.
    pub public_url: String,
    /// Where a buyer comes back to, with `{order}`.
    pub return_url: String,
}

/// What of the server Stripe's part uses.
#[derive(Clone, Debug)]
pub struct Surroundings {
    pub clock: Arc<Clock>,
    pub shelf: Arc<Shelf>,
    pub metrics: Arc<Metrics>,
    pub asker: Asker,
}

/// Starts the threads that ask Stripe for buyers, and makes what follows the ledger.
/// `id_secret` is the ledger's: it is called after it at Stripe, so that several ledgers can share an account.
pub fn start(
    account: &Account,
    id_secret: &[u8],
    shared: Surroundings,
    reader: EventReader,
) -> (Desk, Endpoint) {
    let name = [b"the ledger's name at Stripe".as_slice(), id_secret].concat();
    let api = Api::new(account.client.clone(), fingerprint_of(&name).into());
    let checkouts = Arc::new(Checkouts::default());
    let follower = Follower::new(api.clone(), reader, &shared, Arc::clone(&checkouts));
    let kinds = WANTED.map(str::to_owned);
    let endpoint = Endpoint {
        name: FOLLOWER.to_owned(),
        url: Arc::clone(account.client.api_url()),
        filter: EventFilter::new(&kinds, &[]).expect("these kinds exist"),
        batch_events_max: 1,
        to: Arc::new(follower),
    };
    (Desk::start(api, account.clone(), shared, checkouts), endpoint)
}

/// Of a text of any length, for a key of bounded length.
fn fingerprint(text: &str) -> String {
    fingerprint_of(text.as_bytes())
}

fn fingerprint_of(bytes: &[u8]) -> String {
    let digest = digest::digest(&digest::SHA256, bytes);
    digest.as_ref()[..16].iter().map(|byte| format!("{byte:02x}")).collect()
}
