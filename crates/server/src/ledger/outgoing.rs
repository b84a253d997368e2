//! What the shop is notified of: events, read from the entries of the ledger, and how far each endpoint has come.
//!
//! For every backend. Must not: send anything, or judge when.

use engine::{OrderId, Refusal, UnixMs};

use super::feed::OrderLine;

/// Entries looked through per read.
pub(super) const ENTRIES_PER_READ: u64 = 1_000;
/// Of the text of an error that is kept.
pub const ERROR_BYTES_MAX: usize = 200;

/// Something that happened: one entry of the ledger.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outgoing {
    pub seq: u64,
    pub at: UnixMs,
    pub what: What,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum What {
    /// An order was placed, or moved on: its status is as of this entry.
    Order(OrderLine),
    /// An order that was placed without an address has one now: as of this entry.
    Addressed(OrderLine),
    /// An order was answered as accepted, and refused later.
    Rejected {
        order: OrderId,
        sale: u64,
        product: u64,
        reason: Refusal,
    },
    /// A payment paid for nothing, or a refund of a paid order was asked for; or it was settled.
    Refund {
        payment: DueRefund,
        settled: bool,
    },
    SaleStarted {
        sale: u64,
    },
    /// By the clock, or by an operator.
    SaleEnded {
        sale: u64,
    },
    /// Somebody in a line was called.
    TurnOpened(OpenedTurn),
    /// Nothing of an item is left to buy at the moment, or something is again.
    Stock {
        sale: u64,
        product: u64,
        sold_out: bool,
    },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenedTurn {
    pub sale: u64,
    pub product: u64,
    pub number: u32,
    pub place: u32,
    /// As [`OrderLine::buyer`].
    pub buyer: String,
    /// That may be ordered by it.
    pub units: u32,
    /// A pause, and a start of the server, put it off.
    pub until: UnixMs,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DueRefund {
    pub payment: String,
    /// Id of the order that was paid for, which may not exist.
    pub order: String,
    /// Minor units.
    pub amount: u64,
    /// The order's; `None`: there is no such product.
    pub sale: Option<u64>,
    pub currency: Option<String>,
    /// Why a refund is due.
    pub reason: String,
    /// Of a refund of a paid order: those that went back on sale.
    pub units: Option<u32>,
}

impl Outgoing {
    /// Events about the same go one after the other.
    pub fn about(&self) -> String {
        match &self.what {
            What::Order(line) | What::Addressed(line) => line.id.to_string(),
            What::Rejected { order, .. } => order.to_string(),
            What::Refund { payment, .. } => payment.order.clone(),
            What::SaleStarted { sale } | What::SaleEnded { sale } => format!("sale {sale}"),
            What::TurnOpened(OpenedTurn { sale, product, place, .. }) => {
                format!("turn {sale}/{product}/{place}")
            }
            What::Stock { sale, product, .. } => format!("product {sale}/{product}"),
        }
    }
}

/// A page of events.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EventPage {
    pub events: Vec<Outgoing>,
    /// Every entry up to here was looked at.
    pub to: u64,
}

/// An event that was not answered yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnansweredEvent {
    pub seq: u64,
    pub about: String,
    /// When it was to be sent first.
    pub since: UnixMs,
    pub attempts: u32,
    pub next_at: UnixMs,
    /// Given up: it is sent again only if somebody asks for it.
    pub dead: bool,
    pub error: String,
}

/// What is stored of an endpoint: how far it has come.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StoredEndpoint {
    /// Every event up to this entry was answered, or waits.
    pub sent_to: u64,
    pub disabled: bool,
    /// In the order of their entries.
    pub waiting: Vec<UnansweredEvent>,
}

/// What an operator changes of an endpoint. Whoever sends to it must read anew how far it has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EndpointChange {
    Disable,
    Enable,
    /// Every event after this entry is sent again, those that were given up among them.
    Replay {
        since: u64,
    },
}

/// What has changed of an endpoint, to be stored whole or not at all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EndpointProgress {
    pub sent_to: u64,
    pub disabled: bool,
    /// New or changed.
    pub waiting: Vec<UnansweredEvent>,
    /// Entries whose events wait no more.
    pub answered: Vec<u64>,
}
