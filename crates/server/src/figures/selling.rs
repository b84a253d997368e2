//! What became of the orders of each sale that is shown, and of its items, in the last second.
//!
//! Must not: know how it is carried to other servers.

use std::collections::BTreeMap;
use std::time::Duration;

use engine::SaleId;
use serde::{Deserialize, Serialize};

use super::history::{Refused, SaleOrders, signed};
use super::sales::{room, watched};
use super::sample::{Took, per_s, tenths};
use crate::intake::catalog::{Catalog, Sale};
use crate::intake::{HoldCounts, OUTCOMES, REFUSALS, RequestOutcome};
use crate::metrics::Counts;

/// By sale.
pub(super) type Selling = BTreeMap<u64, SaleSecond>;

/// How holds ended, by sale; only of those of which some did. One server knows it of the whole ledger, one of a cluster since its start.
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
    /// Since when they are counted; `None`: all that ended are.
    since_ms: Option<u64>,
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

    pub(super) fn shown(&self, since_ms: Option<u64>) -> ShownHolds {
        let HoldsEnded { paid_late, cancelled, expired, .. } = *self;
        let counts = HoldCounts { paid_late, cancelled, expired, paid_after: self.paid_after.clone() };
        let within = |thousandths| counts.paid_within(thousandths).map(|within| tenths(within.as_secs_f64()));
        ShownHolds {
            since_ms,
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
pub(super) fn holds(catalog: &Catalog, now: engine::UnixMs, wanted: &[u64]) -> Holds {
    let sales = watched(catalog, now, wanted).into_iter();
    let holds = sales.map(|(_, sale)| (sale.spec.id.0, HoldsEnded::of(sale)));
    holds.filter(|(_, ended)| *ended != HoldsEnded::default()).collect()
}

/// By [`RequestOutcome`].
type Totals = [u64; OUTCOMES];

/// By the places of [`REFUSALS`].
type Reasons = [u64; REFUSALS.len()];

/// Of a rate, which is to a tenth; a sum of several is so much more off.
const ROUNDED_OFF: f64 = 0.051;

/// Per second, in the order of [`RequestOutcome`].
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
    /// Of the above, what was of an item that is shown, by product.
    items_refused: BTreeMap<u64, BTreeMap<String, f64>>,
    order: Counts,
    /// Of an item that is shown, by product.
    items_order: BTreeMap<u64, Counts>,
    /// Whether a server left these out, having too much to say.
    without_refused: bool,
    without_order: bool,
    /// Per second, for the stock of its items.
    asked: f64,
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
        let of = |outcome: RequestOutcome| self.0[outcome as usize];
        ShownRates {
            accepted: of(RequestOutcome::Accepted),
            replayed: of(RequestOutcome::Replayed),
            refused: of(RequestOutcome::Refused),
            busy: of(RequestOutcome::Busy),
            unknown: of(RequestOutcome::Unknown),
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
        add(&mut self.refused_by_code, other.refused_by_code);
        for (product, refused) in other.items_refused {
            add(self.items_refused.entry(product).or_default(), refused);
        }
        self.order = self.order.and(&other.order);
        for (product, order) in other.items_order {
            let sum = self.items_order.entry(product).or_default();
            *sum = sum.and(&order);
        }
        self.without_refused |= other.without_refused;
        self.without_order |= other.without_order;
        self.asked = tenths(self.asked + other.asked);
    }

    pub(super) fn asked(&self) -> f64 {
        self.asked
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

    /// `None`: one of the servers did not say.
    pub(super) fn refused_of_item(&self, product: u64) -> Option<BTreeMap<String, f64>> {
        let refused = self.items_refused.get(&product).cloned().unwrap_or_default();
        (!self.without_refused).then_some(refused)
    }

    pub(super) fn order_route_of_item(&self, product: u64) -> Option<Took> {
        self.items_order.get(&product).filter(|_| !self.without_order).and_then(Took::of)
    }

    /// Says less to other servers: how long orders of a sale took, and not of which items.
    pub(super) fn leave_out_items_order(&mut self) {
        self.items_order.clear();
        self.without_order = true;
    }

    /// As above: why they were refused.
    pub(super) fn leave_out_items_refused(&mut self) {
        self.items_refused.clear();
        self.without_refused = true;
    }

    /// In so long a time, of each item and of the rest together.
    fn refused(&self, sale: u64, passed: Duration) -> Vec<Refused> {
        let row = |product: Option<u64>, code: &str, rate: f64| {
            let (sale, product) = (signed(sale), product.map(signed));
            // A second that was missed is in the next one.
            Refused { sale, product, code: Refused::known(code), orders: rate * passed.as_secs_f64() }
        };
        let mut refused = Vec::new();
        for (code, rate) in &self.refused_by_code {
            let of_items = self.items_refused.iter();
            let of_items = of_items.filter_map(|(product, refused)| Some((*product, *refused.get(code)?)));
            let (mut rest, mut rounded_off) = (*rate, ROUNDED_OFF);
            for (product, rate) in of_items {
                refused.push(row(Some(product), code, rate));
                (rest, rounded_off) = (rest - rate, rounded_off + ROUNDED_OFF);
            }
            if rest > rounded_off {
                refused.push(row(None, code, rest));
            }
        }
        refused
    }

    pub(super) fn order_route(&self) -> Option<Took> {
        Took::of(&self.order)
    }
}

/// What became of the orders of each sale in so long a time, for the history. `None`: as below.
pub(super) fn orders(selling: Option<&Selling>, passed: Duration) -> Vec<SaleOrders> {
    let sold = selling.into_iter().flatten().filter(|(_, second)| !second.rates.is_nothing());
    let orders = sold.map(|(sale, second)| SaleOrders {
        sale: signed(*sale),
        orders: second.rates.0.map(|rate| rate * passed.as_secs_f64()),
        took: second.order.clone(),
    });
    orders.collect()
}

/// Why orders were refused in so long a time, for the history. `None`: a server of the cluster did not say what it sold.
pub(super) fn refused(selling: Option<&Selling>, passed: Duration) -> Vec<Refused> {
    selling.into_iter().flatten().flat_map(|(sale, second)| second.refused(*sale, passed)).collect()
}

fn add(rates: &mut BTreeMap<String, f64>, other: BTreeMap<String, f64>) {
    for (code, rate) in other {
        let sum = rates.entry(code).or_default();
        *sum = tenths(*sum + rate);
    }
}

/// By code, per second; only those that there were.
fn refused_between(before: &Reasons, now: &Reasons, elapsed: Duration) -> BTreeMap<String, f64> {
    let refused = REFUSALS.iter().zip(now.iter().zip(before));
    let refused = refused.map(|(refusal, (now, before))| {
        (refusal.code().to_owned(), per_s(now.saturating_sub(*before), elapsed))
    });
    refused.filter(|(_, rate)| *rate > 0.0).collect()
}

/// The counters of the sales that are shown, as they were at the last look.
#[derive(Debug, Default)]
pub(super) struct Counted {
    sales: BTreeMap<SaleId, OfSale>,
    /// How many sales the catalog had.
    sales_len: usize,
}

#[derive(Debug, Default)]
struct OfSale {
    /// Of all its items.
    all: OfItem,
    /// Of those that are shown.
    items: Vec<OfItem>,
    asked: u64,
}

#[derive(Clone, Debug, Default)]
struct OfItem {
    totals: Totals,
    refused: Reasons,
    order: Counts,
}

impl OfSale {
    fn now(catalog: &Catalog, sale: &Sale, room: usize) -> OfSale {
        let first = sale.first_sku.0 as usize;
        let mut all = OfItem { order: sale.outcomes.others_times(), ..OfItem::default() };
        let mut items = Vec::with_capacity(room);
        for sku in &catalog.skus[first..first + sale.spec.items.len()] {
            let outcomes = &sku.counters.outcomes;
            let (totals, refused) = (outcomes.counted(), outcomes.refused());
            all.totals.iter_mut().zip(totals).for_each(|(total, count)| *total += count);
            all.refused.iter_mut().zip(refused).for_each(|(total, count)| *total += count);
            let order = outcomes.times();
            if let Some(order) = &order {
                all.order = all.order.and(order);
            }
            if items.len() < room {
                items.push(OfItem { totals, refused, order: order.unwrap_or_default() });
            }
        }
        OfSale { all, items, asked: sale.outcomes.stock_asked_count() }
    }

    fn since(&self, before: &OfSale, sale: &Sale, elapsed: Duration) -> SaleSecond {
        let products = sale.spec.items.iter().map(|item| item.product.0);
        let items = || products.clone().zip(self.items.iter().zip(&before.items));
        let rates = items().map(|(product, (now, before))| {
            (product, OutcomeRates::between(&before.totals, &now.totals, elapsed))
        });
        let refused = items().map(|(product, (now, before))| {
            (product, refused_between(&before.refused, &now.refused, elapsed))
        });
        let order = items().map(|(product, (now, before))| (product, now.order.since(&before.order)));
        SaleSecond {
            rates: OutcomeRates::between(&before.all.totals, &self.all.totals, elapsed),
            items: rates.filter(|(_, rates)| !rates.is_nothing()).collect(),
            refused_by_code: refused_between(&before.all.refused, &self.all.refused, elapsed),
            items_refused: refused.filter(|(_, refused)| !refused.is_empty()).collect(),
            order: self.all.order.since(&before.all.order),
            items_order: order.filter(|(_, order)| *order != Counts::default()).collect(),
            asked: per_s(self.asked.saturating_sub(before.asked), elapsed),
            ..SaleSecond::default()
        }
    }
}

impl Counted {
    /// What came since the last look, as in so long. Of a sale that was there and not shown nothing is known yet, and nothing is said; all
    /// that a new one has came since.
    pub(super) fn look(
        &mut self,
        catalog: &Catalog,
        (now, elapsed): (engine::UnixMs, Duration),
        wanted: &[u64],
    ) -> Selling {
        let watched = watched(catalog, now, wanted);
        let room = room(&watched.iter().map(|(_, sale)| sale.spec.items.len()).collect::<Vec<_>>());
        let mut sales = BTreeMap::new();
        let mut selling = Selling::new();
        for ((_, sale), room) in watched.into_iter().zip(room) {
            let counted = OfSale::now(catalog, sale, room);
            let nothing = OfSale { items: vec![OfItem::default(); room], ..OfSale::default() };
            let is_new = catalog.position(sale.spec.id).is_some_and(|position| position >= self.sales_len);
            if let Some(before) = self.sales.get(&sale.spec.id).or(is_new.then_some(&nothing)) {
                let second = counted.since(before, sale, elapsed);
                if second != SaleSecond::default() {
                    selling.insert(sale.spec.id.0, second);
                }
            }
            sales.insert(sale.spec.id, counted);
        }
        *self = Counted { sales, sales_len: catalog.sales.len() };
        selling
    }
}
