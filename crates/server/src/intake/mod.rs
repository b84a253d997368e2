//! The contract between the event loops and what is behind them, the same for both profiles: requests and replies,
//! the mailbox between them, admission, the catalog of what is on sale, and the health of the engines.
//!
//! Must not: know HTTP, a ledger, a gate or a queue.

mod address_rate;
pub mod admission;
pub mod attempts;
pub mod board;
pub mod catalog;
mod health;
mod mailbox;
mod operators;
mod outcomes;
mod part_away;
mod reply;
mod request;
mod servers;
mod settings;
mod shares;
mod work_queue;

use std::sync::Arc;

pub use address_rate::AddressRate;
pub use health::Health;
pub(crate) use health::{Need, Remark, Remarks};
pub use mailbox::{Asker, Mailbox, MailboxClient};
pub use operators::{KnownOperators, OperatorsCopy};
pub use outcomes::{HoldCounts, HoldEnded, ITEMS_TIMED_MAX, OUTCOMES, REFUSALS, RequestOutcome};
pub(crate) use part_away::PartAway;
pub use reply::Reply;
pub use request::{Envelope, Judged, NewOrder, Request};
pub use servers::{ServerReport, Servers};
pub(crate) use settings::Engine;
pub use settings::{EngineSettings, Setting};
pub(crate) use work_queue::{Drained, WorkQueue};

use crate::clock::{Clock, WallClock};
use crate::metrics::Metrics;
use admission::{Admission, Limits};
use attempts::AllAttempts;
use catalog::Shelf;

/// What the event loops share with the profile behind them.
#[derive(Clone, Debug)]
pub struct Intake {
    pub clock: Arc<Clock>,
    pub shelf: Arc<Shelf>,
    pub admission: Arc<Admission>,
    pub metrics: Arc<Metrics>,
    pub operators: Arc<KnownOperators>,
    pub attempts: Arc<AllAttempts>,
}

impl Intake {
    pub fn new(wall: WallClock, limits: Limits) -> Intake {
        Intake {
            clock: Arc::new(Clock::new(wall)),
            shelf: Arc::default(),
            admission: Arc::new(Admission::new(limits)),
            metrics: Arc::new(Metrics::new()),
            operators: Arc::default(),
            attempts: Arc::default(),
        }
    }
}
