//! Webhooks: the shop is notified of what becomes of orders, at its own addresses, signed as Standard Webhooks specifies.
//!
//! Events are read from the ledger, so nothing is sent that is not committed. How far each endpoint has come is stored there too:
//! always after the sending, so that a crash repeats events and loses none. One thread serves one endpoint, on a connection to
//! the ledger of its own; in a cluster the threads of one server do, at a time. Must not: know a profile, or be waited for by anybody who sells.

mod breaker;
mod control;
mod counts;
mod deliver;
mod duty;
mod event;
mod lanes;
mod noticing;
mod schedule;
mod sender;
mod signature;

use std::sync::Arc;

pub use control::{Control, EndpointState};
pub use counts::Counts;
pub use deliver::{Client, Deliver, NotDelivered, ShopEndpoint};
pub use duty::{Busy, Duty};
pub use event::{EventFilter, KINDS};
pub use noticing::Noticing;
pub use sender::{Sender, Surroundings};
pub use signature::{NotASecret, Secret};

/// Bounds, for each endpoint.
pub mod limits {
    use std::time::Duration;

    pub const ENDPOINTS_MAX: usize = 16;
    pub const NAME_BYTES_MAX: usize = 32;
    /// Events of one request.
    pub const BATCH_EVENTS_MAX: usize = 100;
    /// Requests at one time.
    pub const REQUESTS_MAX: usize = 8;
    /// Events that wait for another try. While there are as many, no new ones are read: they are in the ledger.
    pub const WAITING_MAX: usize = 10_000;
    /// Events that were given up and are still listed; the ledger keeps all of them.
    pub const DEAD_MAX: usize = 10_000;
    /// For a whole exchange.
    pub const TIMEOUT: Duration = Duration::from_secs(10);
    /// Of an answer's body, which is not looked at.
    pub const ANSWER_BYTES_MAX: u64 = 16 << 10;
    /// From the first try on.
    pub const GIVEN_UP_AFTER: Duration = Duration::from_secs(3 * 24 * 3600);
}

/// Where events go.
#[derive(Clone, Debug)]
pub struct Endpoint {
    /// Under which its progress is stored, at most 32 bytes. The shop's have letters, digits, `-` and `_`.
    pub name: String,
    pub url: Arc<str>,
    pub filter: EventFilter,
    /// Events that are handed over together.
    pub batch_events_max: usize,
    pub to: Arc<dyn Deliver>,
}
