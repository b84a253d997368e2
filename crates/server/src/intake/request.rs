//! What the event loops ask of the profile behind them.

use std::time::Duration;

use engine::{BuyerId, By, Command, OrderId, Placement, SkuId};

use super::admission::{BuyerBounds, Over, Permit};
use crate::net::Ticket;
use crate::time::Instant;

/// An order to place: parsed once, complete.
#[derive(Debug)]
pub struct NewOrder {
    pub placement: Placement,
    /// Of a buyer who is a hash, stored with the buyer's first order.
    pub buyer_text: Option<Box<str>>,
    /// The address as JSON text, stored with the order.
    pub address: Option<Box<[u8]>>,
    pub admission: Judged,
    /// When its request was read.
    pub asked_at: Instant,
}

/// Who judges an order's admission. Only an order whose key is unknown may be refused by it.
#[derive(Debug)]
pub enum Judged {
    /// It has no key, so it can't be known: the event loop has judged it.
    ByTheLoop(Permit),
    /// It has a key: the profile looks that up, and judges only if it is unknown. `over`: the bound of orders
    /// in flight over which it came.
    ByTheProfile { over: Option<Over>, bounds: BuyerBounds },
}

/// What can be asked of the profile.
#[derive(Debug)]
pub enum Request {
    Place(NewOrder),
    /// Everything else that changes the book: cancel, pay, what others report.
    Execute(Command),
    /// The same for an operator, whose action is noted.
    Operate(Command, By),
    /// One order, for its buyer; `None` for an operator, who may read all. An order that is pending is waited
    /// for, at most so long.
    Read {
        order: OrderId,
        buyer: Option<BuyerId>,
        wait: Duration,
        /// With its address, which costs a look into the ledger.
        with_address: bool,
    },
    /// One durable row of the message table.
    Message(Box<[u8]>),
    RefundsDue,
    /// Joins the line of an item.
    Join {
        sku: SkuId,
        buyer: BuyerId,
        /// As of an order: of a buyer who is a hash.
        buyer_text: Option<Box<str>>,
        /// Has given what is asked first. Whoever has not joins only with a place in the line of this item or of
        /// another of its sale: for that they were asked already.
        verified: bool,
    },
    /// What became of a buyer's place in the line of an item.
    Receipt {
        sku: SkuId,
        buyer: BuyerId,
    },
    /// Sets the available units of every item of a sale to this balance, of all or of none.
    SetBalance {
        sale: engine::SaleId,
        balance: u64,
    },
    /// An operator says that the wall clock is right: its time is taken. `closed`: and so was the server's, until the shop
    /// was closed.
    ConfirmClock {
        closed: bool,
    },
}

/// A request with where its answer goes.
#[derive(Debug)]
pub struct Envelope {
    pub event_loop: usize,
    pub ticket: Ticket,
    pub request: Request,
}
