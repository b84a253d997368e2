//! What became of the orders of each sale that is shown, and of its items, in the last second.
//!
//! Must not: know how it is carried to other servers.

use std::collections::BTreeMap;
use std::time::Duration;

use engine::SaleId;
use serde::{Deserialize, Serialize};

use super::sales::{room, watched};
use super::sample::{Took, per_s, tenths};
use crate::intake::catalog::{Catalog, Sale};
use crate::intake::{HoldCounts, OUTCOMES, Outcome, REFUSALS};
use crate::metrics::Counts;
use crate::time::Instant;

/// By sale.
pub(super) type Selling = BTreeMap<u64, SaleSecond>;

/// How holds ended since the start, by sale; only of those of which some did.
pub(super) type Holds = BTreeMap<u64, HoldsEnded>;

/// As [`HoldCounts`], for other servers.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct HoldsEnded {
    paid_late: u64,
    cancelled: u64,
    expired: u64,
    paid_after: Counts,
}

/// As the API shows them.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(super) struct ShownHolds {
    /// In time or late.
    paid: u64,
    paid_late: u64,
    cancelled: u64,
    expired: u64,
    paid_after_p50_s: Option<f64>,
    paid_after_p90_s: Option<f64>,
}

impl HoldsEnded {
    fn of(sale: &Sale) -> HoldsEnded {
        let HoldCounts { paid_late, cancelled, expired, paid_after } = sale.outcomes.holds();
        HoldsEnded { paid_late, cancelled, expired, paid_after }
    }

    /// Adds another server's.
    pub(super) fn add(&mut self, other: HoldsEnded) {
        self.paid_late = self.paid_late.saturating_add(other.paid_late);
        self.cancelled = self.cancelled.saturating_add(other.cancelled);
        self.expired = self.expired.saturating_add(other.expired);
        self.paid_after = self.paid_after.and(&other.paid_after);
    }

    pub(super) fn shown(&self) -> ShownHolds {
        let HoldsEnded { paid_late, cancelled, expired, .. } = *self;
        let counts = HoldCounts { paid_late, cancelled, expired, paid_after: self.paid_after.clone() };
        let within = |thousandths| counts.paid_within(thousandths).map(|within| tenths(within.as_secs_f64()));
        ShownHolds {
            paid: counts.paid_after.total(),
            paid_late,
            cancelled,
            expired,
            paid_after_p50_s: within(500),
            paid_after_p90_s: within(900),
        }
    }
}

/// Of the sales that are shown.
pub(super) fn holds(catalog: &Catalog, now: engine::UnixMs) -> Holds {
    let sales = watched(catalog, now).into_iter();
    let holds = sales.map(|(_, sale)| (sale.spec.id.0, HoldsEnded::of(sale)));
    holds.filter(|(_, ended)| *ended != HoldsEnded::default()).collect()
}

/// By [`Outcome`].
type Totals = [u64; OUTCOMES];

/// Per second, in the order of [`Outcome`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct OutcomeRates([f64; OUTCOMES]);

/// A second of one sale.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct SaleSecond {
    /// Of all its items.
    rates: OutcomeRates,
    /// By product; only those for which there were orders.
    items: BTreeMap<u64, OutcomeRates>,
    refused_by_code: BTreeMap<String, f64>,
    order: Counts,
}

/// As the API shows them.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(super) struct ShownRates {
    accepted: f64,
    replayed: f64,
    refused: f64,
    busy: f64,
    unknown: f64,
}

impl OutcomeRates {
    fn between(before: &Totals, now: &Totals, elapsed: Duration) -> OutcomeRates {
        OutcomeRates(std::array::from_fn(|outcome| {
            per_s(now[outcome].saturating_sub(before[outcome]), elapsed)
        }))
    }

    fn and(&self, other: &OutcomeRates) -> OutcomeRates {
        OutcomeRates(std::array::from_fn(|outcome| tenths(self.0[outcome] + other.0[outcome])))
    }

    fn is_nothing(&self) -> bool {
        self.0.iter().all(|rate| *rate == 0.0)
    }

    pub(super) fn shown(self) -> ShownRates {
        let of = |outcome: Outcome| self.0[outcome as usize];
        ShownRates {
            accepted: of(Outcome::Accepted),
            replayed: of(Outcome::Replayed),
            refused: of(Outcome::Refused),
            busy: of(Outcome::Busy),
            unknown: of(Outcome::Unknown),
        }
    }
}

impl SaleSecond {
    /// Adds another server's.
    pub(super) fn add(&mut self, other: SaleSecond) {
        self.rates = self.rates.and(&other.rates);
        for (product, rates) in other.items {
            let sum = self.items.entry(product).or_default();
            *sum = sum.and(&rates);
        }
        for (code, rate) in other.refused_by_code {
            let sum = self.refused_by_code.entry(code).or_default();
            *sum = tenths(*sum + rate);
        }
        self.order = self.order.and(&other.order);
    }

    pub(super) fn rates(&self) -> ShownRates {
        self.rates.shown()
    }

    pub(super) fn of_item(&self, product: u64) -> ShownRates {
        self.items.get(&product).copied().unwrap_or_default().shown()
    }

    pub(super) fn refused_by_code(&self) -> BTreeMap<String, f64> {
        self.refused_by_code.clone()
    }

    pub(super) fn order_route(&self) -> Option<Took> {
        Took::of(&self.order)
    }
}

/// The counters of the sales that are shown, as they were at the last look.
#[derive(Debug)]
pub(super) struct Counted {
    at: Instant,
    sales: BTreeMap<SaleId, OfSale>,
    /// How many sales the catalog had.
    sales_len: usize,
}

#[derive(Debug, Default)]
struct OfSale {
    /// Of all its items.
    totals: Totals,
    /// Of those that are shown.
    items: Vec<Totals>,
    refused: [u64; REFUSALS.len()],
    order: Counts,
}

impl OfSale {
    fn now(catalog: &Catalog, sale: &Sale, room: usize) -> OfSale {
        let first = sale.first_sku.0 as usize;
        let mut totals = Totals::default();
        let mut items = Vec::with_capacity(room);
        for sku in &catalog.skus[first..first + sale.spec.items.len()] {
            let counted = sku.counters.outcomes.counted();
            totals.iter_mut().zip(counted).for_each(|(total, count)| *total += count);
            if items.len() < room {
                items.push(counted);
            }
        }
        let (refused, order) = sale.outcomes.counted();
        OfSale { totals, items, refused, order }
    }

    fn since(&self, before: &OfSale, sale: &Sale, elapsed: Duration) -> SaleSecond {
        let items = sale.spec.items.iter().zip(self.items.iter().zip(&before.items));
        let items =
            items.map(|(item, (now, before))| (item.product.0, OutcomeRates::between(before, now, elapsed)));
        let refused = REFUSALS.iter().zip(self.refused.iter().zip(before.refused));
        let refused = refused.map(|(refusal, (now, before))| {
            (refusal.code().to_owned(), per_s(now.saturating_sub(before), elapsed))
        });
        SaleSecond {
            rates: OutcomeRates::between(&before.totals, &self.totals, elapsed),
            items: items.filter(|(_, rates)| !rates.is_nothing()).collect(),
            refused_by_code: refused.filter(|(_, rate)| *rate > 0.0).collect(),
            order: self.order.since(&before.order),
        }
    }
}

impl Counted {
    pub(super) fn none(at: Instant) -> Counted {
        Counted { at, sales: BTreeMap::new(), sales_len: 0 }
    }

    /// What came since the last look. Of a sale that was there and not shown nothing is known yet, and nothing is said; all
    /// that a new one has came since.
    pub(super) fn look(&mut self, catalog: &Catalog, now: engine::UnixMs, at: Instant) -> Selling {
        let elapsed = at.duration_since(self.at);
        let watched = watched(catalog, now);
        let room = room(&watched.iter().map(|(_, sale)| sale.spec.items.len()).collect::<Vec<_>>());
        let mut sales = BTreeMap::new();
        let mut selling = Selling::new();
        for ((_, sale), room) in watched.into_iter().zip(room) {
            let counted = OfSale::now(catalog, sale, room);
            let nothing = OfSale { items: vec![Totals::default(); room], ..OfSale::default() };
            let is_new = catalog.position(sale.spec.id).is_some_and(|position| position >= self.sales_len);
            if let Some(before) = self.sales.get(&sale.spec.id).or(is_new.then_some(&nothing)) {
                let second = counted.since(before, sale, elapsed);
                if second != SaleSecond::default() {
                    selling.insert(sale.spec.id.0, second);
                }
            }
            sales.insert(sale.spec.id, counted);
        }
        *self = Counted { at, sales, sales_len: catalog.sales.len() };
        selling
    }
}
