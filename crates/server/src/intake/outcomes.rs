//! What became of the orders of each item and each sale, and how holds ended, counted since this process started, or in all: for the figures alone.
//!
//! An event loop adds one to a counter of the item, one to why it was refused, and one to how long it took.
//! Must not: be read where an order is decided.

use std::mem::discriminant;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use engine::{Closing, Entry, Event, OrderView, Refusal, Seq, SkuId};

use crate::metrics::{Counts, Latencies};

/// What an order can be refused with.
pub const REFUSALS: [Refusal; 15] = [
    Refusal::UnknownSale,
    Refusal::UnknownSku,
    Refusal::NotStarted,
    Refusal::Paused,
    Refusal::Ended,
    Refusal::SoldOut,
    Refusal::NotEnoughLeft,
    Refusal::OverLimit,
    Refusal::TooManyHolds,
    Refusal::HoldsUsedUp,
    Refusal::CoolingDown { retry_after_ms: 0 },
    Refusal::InvalidQuantity,
    Refusal::KeyConflict,
    Refusal::TurnRequired,
    Refusal::PriceChanged { unit_price: 0 },
];

/// Of each sale the first items are timed one by one: as many as are ever shown. Each takes 1.2 KB.
pub const ITEMS_TIMED_MAX: usize = 100;

/// In the order of the figures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestOutcome {
    Accepted,
    Replayed,
    Refused,
    /// Asked to come again.
    Busy,
    Unknown,
}

pub const OUTCOMES: usize = RequestOutcome::Unknown as usize + 1;

/// Of an item. On lines of memory of its own: what is beside it is read for every order.
#[derive(Debug, Default)]
#[repr(align(64))]
pub struct Outcomes {
    orders: [AtomicU64; OUTCOMES],
    /// By the places of [`REFUSALS`]. An item of which no order was refused has none.
    refused: OnceLock<Box<[AtomicU64; REFUSALS.len()]>>,
    /// Of the first items of a sale, once somebody ordered.
    took: OnceLock<Latencies>,
}

impl Outcomes {
    pub fn count(&self, outcome: RequestOutcome) {
        self.orders[outcome as usize].fetch_add(1, Relaxed);
    }

    pub fn count_refused(&self, refusal: Refusal) {
        self.count(RequestOutcome::Refused);
        let is_it = |known: &Refusal| discriminant(known) == discriminant(&refusal);
        let place = REFUSALS.iter().position(is_it);
        debug_assert!(place.is_some(), "an order was refused with {refusal:?}, which refuses none");
        if let Some(place) = place {
            self.refused.get_or_init(Box::default)[place].fetch_add(1, Relaxed);
        }
    }

    /// From the complete request to the answer.
    pub fn took(&self, took: Duration) {
        self.took.get_or_init(Latencies::default).observe(took);
    }

    /// How long the answers took.
    pub fn times(&self) -> Option<Counts> {
        self.took.get().map(Latencies::counts)
    }

    /// By [`RequestOutcome`].
    pub fn counted(&self) -> [u64; OUTCOMES] {
        self.orders.each_ref().map(|count| count.load(Relaxed))
    }

    /// By the places of [`REFUSALS`].
    pub fn refused(&self) -> [u64; REFUSALS.len()] {
        let counted =
            |refused: &[AtomicU64; REFUSALS.len()]| refused.each_ref().map(|count| count.load(Relaxed));
        self.refused.get().map_or_else(Default::default, |refused| counted(refused))
    }
}

/// Of a sale, what its items' do not say. One that nobody orders from costs a pointer.
#[derive(Debug, Default)]
pub struct SaleOutcomes(OnceLock<Box<Counted>>);

#[derive(Debug, Default)]
struct Counted {
    holds: Holds,
    /// Times that somebody asked for the stock of an item.
    asked: AtomicU64,
    /// Of the items that are not timed one by one.
    others_took: Latencies,
}

impl SaleOutcomes {
    /// From the complete request to the answer, of an item that is not timed by itself.
    pub fn others_took(&self, took: Duration) {
        self.0.get_or_init(Box::default).others_took.observe(took);
    }

    /// An open page asks for its item's stock again and again.
    pub fn stock_asked(&self) {
        self.0.get_or_init(Box::default).asked.fetch_add(1, Relaxed);
    }

    pub fn hold_ended(&self, ended: &HoldEnded) {
        self.0.get_or_init(Box::default).holds.count(ended);
    }

    pub fn holds(&self) -> HoldCounts {
        self.0.get().map_or_else(Default::default, |counted| counted.holds.counted())
    }

    pub fn stock_asked_count(&self) -> u64 {
        self.0.get().map_or(0, |counted| counted.asked.load(Relaxed))
    }

    /// How long the answers took, of the items that are not timed one by one.
    pub fn others_times(&self) -> Counts {
        self.0.get().map_or_else(Default::default, |counted| counted.others_took.counts())
    }
}

/// How a hold ended, by an entry of the ledger.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HoldEnded {
    pub sku: SkuId,
    how: Closing,
    /// Since it was placed, by the ledger's times.
    after: Duration,
}

impl HoldEnded {
    /// As the book has it.
    pub fn in_book((sku, how, after_ms): (SkuId, Closing, u64)) -> HoldEnded {
        HoldEnded { sku, how, after: Duration::from_millis(after_ms) }
    }

    /// `None`: the entry ends none. `order` finds the order that an entry placed.
    pub fn of(entry: &Entry, order: impl FnOnce(Seq) -> Option<OrderView>) -> Option<HoldEnded> {
        let Event::OrderClosed { order: placed, how } = entry.event else { return None };
        let ends = how.ends_hold() || how == Closing::PaidLate;
        let order = order(placed).filter(|_| ends)?;
        let after = Duration::from_millis(entry.at.0.saturating_sub(order.placed_at.0));
        Some(HoldEnded { sku: order.id.sku, how, after })
    }
}

/// A hold lasts up to 30 days and an answer some seconds: what is counted of a hold is its time divided by this, so that 50 ms
/// to 14 h are distinguished.
const HOLD_SCALE: u32 = 1 << 12;

#[derive(Debug, Default)]
struct Holds {
    paid_late: AtomicU64,
    cancelled: AtomicU64,
    expired: AtomicU64,
    /// In time or late.
    paid_after: Latencies,
}

/// Of a sale, since the start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HoldCounts {
    /// Of those that had expired before.
    pub paid_late: u64,
    pub cancelled: u64,
    pub expired: u64,
    /// How long after they were placed holds were paid, divided by `HOLD_SCALE`.
    pub paid_after: Counts,
}

impl Holds {
    fn count(&self, ended: &HoldEnded) {
        let counter = match ended.how {
            Closing::Paid => None,
            Closing::PaidLate => Some(&self.paid_late),
            Closing::Cancelled => Some(&self.cancelled),
            Closing::Expired => Some(&self.expired),
            Closing::Refunded => unreachable!("an order that is refunded was paid before"),
        };
        if let Some(counter) = counter {
            counter.fetch_add(1, Relaxed);
        }
        if matches!(ended.how, Closing::Paid | Closing::PaidLate) {
            self.paid_after.observe(ended.after / HOLD_SCALE);
        }
    }

    fn counted(&self) -> HoldCounts {
        HoldCounts {
            paid_late: self.paid_late.load(Relaxed),
            cancelled: self.cancelled.load(Relaxed),
            expired: self.expired.load(Relaxed),
            paid_after: self.paid_after.counts(),
        }
    }
}

impl HoldCounts {
    /// Within which time so many thousandths of those that were paid were.
    pub fn paid_within(&self, thousandths: u64) -> Option<Duration> {
        self.paid_after.quantile(thousandths).map(|scaled| scaled * HOLD_SCALE)
    }
}

#[cfg(test)]
mod tests {
    use engine::{OrderId, Pay, SaleId};

    use super::*;

    /// Whoever was not called in a line, or saw another price, was refused for no reason that is known.
    #[test]
    fn orders_are_counted_by_why_they_were_refused() {
        let outcomes = Outcomes::default();
        assert_eq!(outcomes.refused(), [0; REFUSALS.len()]);
        for refusal in [
            Refusal::CoolingDown { retry_after_ms: 7 },
            Refusal::TurnRequired,
            Refusal::PriceChanged { unit_price: 120 },
            Refusal::TurnRequired,
        ] {
            outcomes.count_refused(refusal);
        }
        let counted = REFUSALS.iter().zip(outcomes.refused()).filter(|(_, count)| *count > 0);
        let counted: Vec<_> = counted.map(|(refusal, count)| (refusal.code(), count)).collect();
        assert_eq!(counted, [("cooling_down", 1), ("turn_required", 2), ("price_changed", 1)]);
        assert_eq!(outcomes.counted()[RequestOutcome::Refused as usize], 4);
    }

    #[test]
    fn holds_are_counted_by_their_end_and_how_soon_they_were_paid() {
        let sale = SaleOutcomes::default();
        assert_eq!(sale.holds(), HoldCounts::default());
        let ended = |how, after_s| HoldEnded { sku: SkuId(0), how, after: Duration::from_secs(after_s) };
        for second in 1..=10 {
            sale.hold_ended(&ended(Closing::Paid, second * 60));
        }
        sale.hold_ended(&ended(Closing::PaidLate, 40 * 24 * 3600));
        sale.hold_ended(&ended(Closing::Cancelled, 1));
        sale.hold_ended(&ended(Closing::Expired, 900));
        let holds = sale.holds();
        assert_eq!(
            (holds.paid_late, holds.cancelled, holds.expired, holds.paid_after.total()),
            (1, 1, 1, 11)
        );
        for (thousandths, exact_s) in [(1, 60), (500, 360), (900, 600)] {
            let found = holds.paid_within(thousandths).unwrap().as_secs_f64();
            let exact = f64::from(exact_s);
            assert!(found >= exact && found <= exact * 1.126, "{thousandths}: {found}");
        }
        assert!(
            holds.paid_within(1_000).unwrap() > Duration::from_secs(14 * 3600),
            "the longest that is counted"
        );
    }

    #[test]
    fn a_hold_ends_by_what_closes_it_and_by_nothing_else() {
        let id = OrderId { sku: SkuId(7), hash: 1 };
        let order = OrderView {
            id,
            seq: Seq(5),
            buyer: engine::BuyerId(1),
            quantity: 1,
            unit_price: 1,
            status: engine::Status::Paid,
            placed_at: engine::UnixMs(1_000),
            pay_by: None,
            closed_at: None,
            refund_due: false,
            refunded: engine::Refunded::default(),
        };
        let of = |event, known: bool| {
            let entry = Entry { seq: Seq(9), at: engine::UnixMs(3_500), event };
            HoldEnded::of(&entry, |seq| (known && seq == Seq(5)).then_some(order))
        };
        let closed = |how| Event::OrderClosed { order: Seq(5), how };
        for how in [Closing::Paid, Closing::PaidLate, Closing::Cancelled, Closing::Expired] {
            let after = Duration::from_millis(2_500);
            assert_eq!(of(closed(how), true), Some(HoldEnded { sku: SkuId(7), how, after }), "{how:?}");
        }
        assert_eq!(of(closed(Closing::Refunded), true), None);
        assert_eq!(of(closed(Closing::Paid), false), None);
        assert_eq!(of(Event::SalePaused(SaleId(1)), true), None);
        let pay = Pay { id: "p".into(), order: id, amount: 1 };
        assert_eq!(of(Event::PaymentRecorded { pay, disposition: engine::Disposition::Applied }, true), None);
    }
}
