//! What the ledger keeps: events, each with its place in the sequence and its time. Data only.

use std::fmt;

use crate::{
    Adjust, Borders, BuyerId, ClosedLine, Closing, Disposition, Fingerprint, Notice, Operated, Operator,
    OrderId, Pay, Refusal, SaleChange, SaleId, SaleSpec, Seq, SkuId, Spoken, Turn, TurnEnd, UnixMs,
};

/// One change: what the ledger keeps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    SaleCreated(Box<SaleSpec>),
    SaleChanged {
        sale: SaleId,
        change: Box<SaleChange>,
    },
    SalePaused(SaleId),
    SaleResumed(SaleId),
    SaleEnded(SaleId),
    SaleDeleted(SaleId),
    StockAdjusted {
        sku: SkuId,
        how: Adjust,
        units: u64,
        key: Box<str>,
    },
    OrderPlaced {
        id: OrderId,
        buyer: BuyerId,
        quantity: u32,
        unit_price: u64,
        fingerprint: Fingerprint,
    },
    OrderClosed {
        order: Seq,
        how: Closing,
    },
    PaymentRecorded {
        pay: Pay,
        disposition: Disposition,
    },
    /// A payment that had come before its order has paid for it.
    PaymentMatched {
        payment: Seq,
    },
    RefundSettled {
        payment: Seq,
    },
    /// An order that was placed without an address was given one, which is kept with the order.
    OrderAddressed {
        order: Seq,
    },
    /// What names the buyer in the ledger went with this entry, or goes soon after it. Orders and counts stay.
    BuyerErased(BuyerId),
    /// An order that the gate had let pass was refused here. Only in a ledger that many servers share.
    OrderRejected {
        order: OrderId,
        reason: Refusal,
    },
    /// The shop is to hear of this. Nothing is changed by it.
    Noticed(Notice),
    /// From now on whoever has the token may.
    OperatorAdded(Box<Operator>),
    /// The operator of this name may no more.
    OperatorRevoked(Box<str>),
    /// An operator asked for what the entries before it say. Nothing is changed by it.
    Operated(Box<Operated>),
    /// A buyer has the next place in the line of a SKU.
    LineJoined {
        sku: SkuId,
        buyer: BuyerId,
    },
    /// The entries of a line: whoever joins from now on takes no part in its draw.
    LineClosed {
        sku: SkuId,
        closed: Box<ClosedLine>,
    },
    /// The places of those who take part; `None`: by no beacon.
    LineDrawn {
        sku: SkuId,
        spoken: Option<Box<Spoken>>,
    },
    LineMoved {
        sku: SkuId,
        to: Borders,
    },
    /// From now on so many places of a line are reached per second at most; `None`: as many as can be.
    PaceLimited {
        sku: SkuId,
        per_s_max: Option<u32>,
    },
    /// What everybody in a line is to read from now on; empty: nothing.
    LineMessageSet {
        sku: SkuId,
        message: Box<str>,
    },
    /// Whoever has this place was called: units are set aside.
    TurnOpened {
        sku: SkuId,
        turn: Turn,
    },
    /// Without an order: one that uses the turn is an event of its own.
    TurnEnded {
        sku: SkuId,
        place: u32,
        how: TurnEnd,
    },
    /// The clock was wrong: it said `from` when it should have said `to`. The times of the entries from this one on are a new
    /// run, which begins at `to`; deadlines that were open move with it.
    ClockCorrected {
        from: UnixMs,
        to: UnixMs,
        /// Who said so: 1 to 64 bytes.
        who: Box<str>,
    },
}

impl Event {
    /// Whether [`crate::Sales`] follow it.
    pub fn is_about_a_sale(&self) -> bool {
        matches!(
            self,
            Event::SaleCreated(_)
                | Event::SaleChanged { .. }
                | Event::SalePaused(_)
                | Event::SaleResumed(_)
                | Event::SaleEnded(_)
                | Event::SaleDeleted(_)
        )
    }
}

/// An event with its place and time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    pub seq: Seq,
    pub at: UnixMs,
    pub event: Event,
}

/// A ledger entry that does not follow from the ones before it: the ledger breaks an invariant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Inconsistent {
    pub seq: Seq,
    pub why: &'static str,
}

impl fmt::Display for Inconsistent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "entry {}: {}", self.seq.0, self.why)
    }
}

impl std::error::Error for Inconsistent {}
