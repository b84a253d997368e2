//! What waits for the stages that read and change the ledger. Filled by the relay.

use engine::{BuyerId, By, Command, OrderId, Placement, SaleId};

use crate::time::Instant;

use super::answers::ReplyTo;

/// What changes the ledger and does not place.
#[derive(Debug)]
pub(super) enum Instruction {
    Execute { to: ReplyTo, command: Command, by: Option<By> },
    SetBalance { to: ReplyTo, sale: SaleId, balance: u64 },
}

/// What is asked about an order, or of the ledger.
#[derive(Debug)]
pub(super) enum Question {
    /// A retry whose key the gate does not hold open: what was answered under it?
    Replay {
        to: ReplyTo,
        placement: Placement,
    },
    /// `until`: how long an order that is pending is waited for.
    Read {
        to: ReplyTo,
        order: OrderId,
        buyer: Option<BuyerId>,
        until: Instant,
        with_address: bool,
    },
    RefundsDue {
        to: ReplyTo,
    },
}

impl Question {
    pub(super) fn order(&self) -> Option<OrderId> {
        match self {
            Question::Replay { placement, .. } => Some(placement.id),
            Question::Read { order, .. } => Some(*order),
            Question::RefundsDue { .. } => None,
        }
    }

    pub(super) fn to(&self) -> ReplyTo {
        match self {
            Question::Replay { to, .. } | Question::Read { to, .. } | Question::RefundsDue { to } => *to,
        }
    }
}
