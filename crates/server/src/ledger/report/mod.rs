//! What a sale came to, by the ledger alone: units, orders, buyers, times, payments, refunds, and what operators did.
//!
//! Amounts are minor units of the sale's currency, times milliseconds since 1970, by the clock as it was then. Fields are only
//! added: scripts read them. Must not: read a ledger, or know the time.

mod canonical;
mod tally;

use serde::Serialize;

pub(super) use tally::Tally;

/// What happened besides orders, and what operators did: of more, only the number is kept.
const HAPPENED_MAX: usize = 1_000;

/// A sale, as of an entry.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct SaleReport {
    /// The latest of the whole ledger that is counted here.
    pub entry: u64,
    pub entry_at_ms: u64,
    pub sale: u64,
    pub title: String,
    pub currency: String,
    /// As the sale was created.
    pub planned_starts_at_ms: u64,
    pub planned_ends_at_ms: u64,
    /// As it was changed last.
    pub starts_at_ms: u64,
    pub ends_at_ms: u64,
    /// To pay a hold, as it was changed last. `None`: orders are paid when they are placed.
    pub payment_ms: Option<u64>,
    /// Somebody ended it, before its time was over.
    pub ended_at_ms: Option<u64>,
    /// Somebody deleted it, before it began.
    pub deleted_at_ms: Option<u64>,
    pub paused: bool,
    pub items: Vec<ItemReport>,
    pub orders: Orders,
    /// Who placed an order, and who has one that is paid.
    pub buyers_ordered: u64,
    pub buyers_bought: u64,
    pub first_order_at_ms: Option<u64>,
    /// When nothing of any item could be ordered, for the first time.
    pub sold_out_at_ms: Option<u64>,
    /// The second in which the most orders were committed.
    pub peak_at_ms: Option<u64>,
    pub peak_orders_per_s: u64,
    /// From the order to its payment, of holds that were paid in time.
    pub paid_after_ms: Option<Percentiles>,
    /// What paid for an order.
    pub payments: Sum,
    /// Of payments that paid for nothing, and refunds that were asked for.
    pub refunds_due: Sum,
    pub refunds_made: Sum,
    /// In order.
    pub happened: Vec<Happened>,
    pub happened_left_out: u64,
    /// What operators did to the sale and its orders, and, until it was over, to no sale at all; in order.
    pub actions: Vec<Acted>,
    pub actions_left_out: u64,
    /// Entries that are about it, and the SHA-256 of them as text: of two ledgers that have the same one, the sale went the same.
    pub entries: u64,
    pub entries_sha256: String,
}

/// One product of it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ItemReport {
    pub product: u64,
    pub title: String,
    /// Per unit.
    pub price: u64,
    /// Before restocks and corrections.
    pub planned: u64,
    pub total: u64,
    pub available: u64,
    /// Set aside for those who were called from its line.
    pub turns: u64,
    pub held: u64,
    pub sold: u64,
    pub orders: Orders,
    /// Units that were on sale again, of orders that expired or were cancelled, and by refunds.
    pub returned: u64,
    /// How many of those were taken again, if units that nobody had taken before went first.
    pub returned_taken: u64,
    pub first_order_at_ms: Option<u64>,
    /// When at most half of the units could be ordered.
    pub half_at_ms: Option<u64>,
    /// When none could.
    pub sold_out_at_ms: Option<u64>,
    /// Who joined its line, and how many were called.
    pub line_joined: u64,
    pub line_called: u64,
    /// From joining, or from the sale's start if that was later, until called; of those who were.
    pub line_waited_ms: Option<Percentiles>,
    /// Units that nobody has taken yet.
    #[serde(skip)]
    untouched: u64,
}

impl ItemReport {
    fn take(&mut self, units: u32) {
        let units = u64::from(units);
        let untouched = self.untouched.min(units);
        self.untouched -= untouched;
        self.returned_taken += units - untouched;
    }
}

/// By what they are now: but for `placed` and `rejected`, each order is in one of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Orders {
    pub placed: u64,
    pub held: u64,
    /// In time, or by being placed.
    pub paid: u64,
    /// After the hold had expired.
    pub paid_late: u64,
    pub cancelled: u64,
    pub expired: u64,
    pub refunded: u64,
    /// Never came into the ledger as orders: the gate of a cluster had let them pass.
    pub rejected: u64,
}

impl Orders {
    fn add(&mut self, other: Orders) {
        self.placed += other.placed;
        self.held += other.held;
        self.paid += other.paid;
        self.paid_late += other.paid_late;
        self.cancelled += other.cancelled;
        self.expired += other.expired;
        self.refunded += other.refunded;
        self.rejected += other.rejected;
    }
}

/// Half, nine in ten, and 99 in a hundred took at most so long.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Percentiles {
    pub p50: u64,
    pub p90: u64,
    pub p99: u64,
}

impl Percentiles {
    /// By the nearest rank; `None`: of nothing.
    fn of(mut all: Vec<u32>) -> Option<Percentiles> {
        all.sort_unstable();
        let rank = |percent: usize| {
            let at = (all.len() * percent).div_ceil(100).checked_sub(1)?;
            all.get(at).copied().map(u64::from)
        };
        Some(Percentiles { p50: rank(50)?, p90: rank(90)?, p99: rank(99)? })
    }
}

/// How many, and their amounts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Sum {
    pub count: u64,
    pub amount: u64,
}

impl Sum {
    fn add(&mut self, amount: u64) {
        self.count += 1;
        self.amount += amount;
    }
}

/// What an operator did.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Acted {
    pub entry: u64,
    pub at_ms: u64,
    pub who: String,
    pub what: String,
    pub about: String,
    pub why: String,
}

/// What is no order and no payment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Happened {
    pub entry: u64,
    pub at_ms: u64,
    #[serde(flatten)]
    pub what: WhatHappened,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "what", rename_all = "snake_case")]
pub enum WhatHappened {
    Created,
    /// `None`: it stayed as it was.
    Changed {
        title: Option<String>,
        starts_at_ms: Option<u64>,
        ends_at_ms: Option<u64>,
        payment_ms: Option<u64>,
        /// Whose titles, descriptions, prices or limits were changed.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        products: Vec<u64>,
    },
    Paused,
    Resumed,
    Ended,
    Deleted,
    Restocked {
        product: u64,
        units: u64,
        key: String,
    },
    Corrected {
        product: u64,
        units: u64,
        key: String,
    },
    /// For the whole server, while this sale sold or had holds.
    ClockCorrected {
        from_ms: u64,
        to_ms: u64,
        who: String,
    },
}

#[cfg(test)]
mod tests;
