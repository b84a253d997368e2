//! The book writer: one thread owns the book and its ledger, and everything that changes goes through it.
//!
//! It drains a bounded mailbox of commands, carries them out on the book, appends their events to the ledger
//! in one transaction for the whole batch (group commit), and answers only after the commit is synced: also
//! the answers that changed nothing, because they may have been computed from a change of the same batch.
//!
//! Called by: the HTTP service (commands from the event loops) and `server::run`.

mod balance;
mod mailbox;
mod run;

use std::time::Duration;

use engine::{Accepted, BuyerId, Command, OrderId, OrderView, PaymentView, Place, Refusal};

pub(crate) use mailbox::Drained;
pub use mailbox::{Client, Mailbox};
pub use run::{Options, PrepareError, Shared, Writer};

use crate::admission::{Permit, Rejection};
use crate::net::Ticket;

/// An order to place: parsed once, complete.
#[derive(Debug)]
pub struct NewOrder {
    pub place: Place,
    /// The address as JSON text, stored with the order.
    pub address: Option<Box<[u8]>>,
    pub admission: Judged,
}

/// Who judges an order's admission. Only an order whose key is unknown may be refused by it.
#[derive(Debug)]
pub enum Judged {
    /// It has no key, so it can't be known: the event loop has judged it.
    ByTheLoop(Permit),
    /// It has a key: the writer looks that up, and judges only if it is unknown. `over`: the bound of orders
    /// in flight over which it came.
    ByTheWriter { over: Option<Rejection> },
}

/// What can be asked of the writer.
#[derive(Debug)]
pub enum Request {
    Place(NewOrder),
    /// Everything else that changes the book: cancel, pay, settle, what operators do.
    Execute(Command),
    /// One order, for its buyer; `None` for an operator, who may read all. An order that is pending is waited
    /// for, at most so long.
    Read {
        order: OrderId,
        buyer: Option<BuyerId>,
        wait: Duration,
    },
    /// One durable row of the message table.
    Message(Box<[u8]>),
    RefundsDue,
    /// Sets the available units of every item of a sale to this balance, in one batch.
    SetBalance {
        sale: engine::SaleId,
        balance: u64,
    },
    /// Takes the wall clock's time.
    Reanchor,
}

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

/// A request with where its answer goes.
#[derive(Debug)]
pub struct Envelope {
    pub event_loop: usize,
    pub ticket: Ticket,
    pub request: Request,
}
