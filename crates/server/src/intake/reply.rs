//! What the profile answers to a request.

use engine::{Accepted, OrderView, PaymentView, ReceiptView, Refusal, UnixMs};

use super::admission::NotAdmitted;

/// What the profile answers: after the commit, but for [`Reply::Pending`].
#[derive(Debug)]
pub enum Reply {
    Accepted(Accepted),
    Refused(Refusal),
    /// By admission, of an order whose key is unknown; or because too much waits behind the mailbox.
    NotAdmitted(NotAdmitted),
    Order(OrderView),
    /// An order with its address as JSON text; `None`: it has none.
    AddressedOrder {
        order: OrderView,
        address: Option<Box<[u8]>>,
    },
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
    Receipt(Box<ReceiptView>),
    /// Items whose balance was set.
    BalanceSet {
        items: usize,
    },
    /// The clock said `from`, and goes on from `to`.
    ClockConfirmed {
        from: UnixMs,
        to: UnixMs,
    },
    /// Nobody knows what time it is, so nothing was started.
    ClockUnconfirmed,
    /// The commit failed: whether it happened is not known. Ask again with the same key.
    Unknown,
    /// The ledger takes no writes at the moment, so nothing was started.
    Unavailable,
}
