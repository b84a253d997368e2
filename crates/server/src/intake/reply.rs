//! What the profile answers to a request.

use engine::{Accepted, OrderView, PaymentView, Refusal, UnixMs};

use super::admission::Rejection;
use crate::clock::Clock;

/// What the writer answers, after the commit.
#[derive(Debug)]
pub enum Reply {
    Accepted(Accepted),
    Refused(Refusal),
    /// An order with a key that is unknown was not admitted.
    Rejected(Rejection),
    Order(OrderView),
    /// An order that the broker has acknowledged and that is not in the ledger yet.
    Pending {
        order: OrderView,
        replayed: bool,
    },
    /// An order that the gate let through and the ledger could not keep, because the gate had lost memory.
    Lost(OrderView),
    /// The order is pending still: it can be paid or cancelled in a moment.
    StillPending,
    Stored,
    RefundsDue(Vec<PaymentView>),
    /// Items whose balance was set.
    BalanceSet {
        items: usize,
    },
    /// The difference to the wall clock that is left, in milliseconds.
    Reanchored {
        difference_ms: i64,
    },
    /// The commit failed: whether it happened is not known. Ask again with the same key.
    Unknown,
    /// The ledger takes no writes at the moment, so nothing was started.
    Unavailable,
}

impl Reply {
    /// Takes the wall clock's time because an operator says so, but does not go behind `not_before`.
    pub(crate) fn reanchored(clock: &Clock, not_before: UnixMs) -> Reply {
        let difference_ms = clock.reanchor(not_before);
        tracing::warn!(difference_ms, "an operator re-anchored the clock");
        Reply::Reanchored { difference_ms }
    }
}
