//! The sales that somebody watches: those that sell, those that begin next, those that are just over.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::ops::Add;

use engine::{Phase, SaleId, SkuId, UnixMs, is_sold_out};
use serde::{Serialize, Serializer};

use super::lines::{LineFigures, Lines};
use super::part::Part;
use super::sample::Took;
use super::selling::{HoldsEnded, SaleSecond, ShownHolds, ShownRates};
use crate::intake::ITEMS_TIMED_MAX;
use crate::intake::catalog::{Catalog, Counters, Sale};

/// Bounds of a sample, whatever the catalog has.
pub(super) const SALES_MAX: usize = 20;
pub(super) const ITEMS_MAX: usize = ITEMS_TIMED_MAX;
/// Of the sales, those that begin next have so many places at least, however many sell.
pub(super) const TO_COME_MIN: usize = 5;
/// How long a sale is shown after its end.
const OVER_MS: u64 = 24 * 3600 * 1000;

#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct SaleFigures<'a> {
    pub(super) id: u64,
    pub(super) title: &'a str,
    pub(super) currency: &'a str,
    #[serde(rename = "state", serialize_with = "as_in_the_list_of_sales")]
    pub(super) phase: Phase,
    pub(super) starts_at_ms: u64,
    pub(super) ends_at_ms: u64,
    /// When an operator ended it, before its time was over.
    pub(super) ended_at_ms: Option<u64>,
    /// Of all its items.
    pub(super) units: Units,
    /// Of all its items; `None`: a server of the cluster did not say.
    pub(super) rates: Option<ShownRates>,
    /// Per second; only those that there were.
    pub(super) refused_by_code: BTreeMap<String, f64>,
    pub(super) order_route: Option<Took>,
    /// How often in a second its stock was asked for, as open pages do; `None`: as with the rates.
    pub(super) stock_asked_per_s: Option<f64>,
    /// `None`: as with the rates.
    pub(super) holds: Option<ShownHolds>,
    pub(super) items_total: usize,
    /// As many as there is room for.
    pub(super) items: Vec<ItemFigures<'a>>,
}

/// As they were committed last; each by itself, so their sum may be a commit off.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(super) struct Units {
    pub(super) total: u64,
    pub(super) available: u64,
    /// Set aside for those who were called from a line.
    pub(super) turns: u64,
    pub(super) held: u64,
    pub(super) sold: u64,
}

impl Units {
    fn of(counters: &Counters) -> Units {
        let (available, turns) = counters.free_and_turns();
        Units { total: counters.total(), available, turns, held: counters.held(), sold: counters.sold() }
    }

    /// See [`is_sold_out`].
    pub(super) fn is_sold_out(self) -> bool {
        is_sold_out(self.available, self.turns)
    }
}

impl Add for Units {
    type Output = Units;

    fn add(self, other: Units) -> Units {
        Units {
            total: self.total + other.total,
            available: self.available + other.available,
            turns: self.turns + other.turns,
            held: self.held + other.held,
            sold: self.sold + other.sold,
        }
    }
}

fn as_in_the_list_of_sales<S: Serializer>(phase: &Phase, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(phase.as_str())
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct ItemFigures<'a> {
    pub(super) product: u64,
    pub(super) title: &'a str,
    #[serde(skip)]
    pub(super) price: u64,
    #[serde(flatten)]
    pub(super) units: Units,
    pub(super) rates: Option<ShownRates>,
    /// As of its sale; `None`: as with the rates, or more items sell than there is room for.
    pub(super) refused_by_code: Option<BTreeMap<String, f64>>,
    /// `None` also if it is not known, as with the refusals.
    pub(super) order_route: Option<Took>,
    /// When the last unit went. `None`: some were left at the end, or are now, or no server that is known saw them go.
    pub(super) sold_out_at_ms: Option<u64>,
    /// `None`: it is sold to whoever comes first.
    pub(super) line: Option<LineFigures>,
}

/// When items were sold out, by sale and product, as servers report it to each other.
pub(super) type SoldOutAt = BTreeMap<u64, BTreeMap<u64, u64>>;

/// When the items that are shown were sold out.
#[derive(Debug, Default)]
pub(super) struct SoldOut(BTreeMap<(u64, u64), Left>);

/// What was left of an item at the last look.
#[derive(Clone, Copy, Debug)]
enum Left {
    Some,
    /// Since when; `None`: there was nothing at the first look, and nobody knows.
    Nothing(Option<u64>),
}

/// Those that have begun: the paused ones, those with orders of which something is held or left, those without orders, those that
/// are sold out, and in each of these the newest first; then those to come, the nearest first; then what is over, the latest first.
/// Where there is no room for all that have begun, those are shown that come first and hold most, and some to come beside them.
/// What is `wanted` comes at the end, if it is not among them.
pub(super) fn watched<'c>(catalog: &'c Catalog, now: UnixMs, wanted: &[u64]) -> Vec<(Phase, &'c Sale)> {
    let (mut sales, mut to_come, mut over) = (Vec::new(), Vec::new(), Vec::new());
    for (phase, sale) in near(catalog, now) {
        let kind = match phase {
            Phase::Ended => &mut over,
            // One that is paused before its start has not begun.
            _ if now < sale.spec.starts_at => &mut to_come,
            _ => &mut sales,
        };
        kind.push((phase, sale));
    }
    to_come.sort_by_key(|(_, sale)| sale.spec.starts_at);
    over.sort_by_key(|(_, sale)| Reverse(sale.spec.ends_at));
    let room = SALES_MAX - to_come.len().min(TO_COME_MIN);
    if sales.len() > room {
        sales.sort_by_cached_key(|(phase, sale)| {
            let Units { held, .. } = units(catalog, sale);
            Reverse((going_on(catalog, *phase, sale), held, sale.spec.starts_at))
        });
        sales.truncate(room);
    }
    sales.sort_by_cached_key(|(phase, sale)| Reverse((going_on(catalog, *phase, sale), sale.spec.starts_at)));
    sales.extend(to_come.into_iter().chain(over));
    sales.truncate(SALES_MAX);
    if !wanted.is_empty() {
        let shown: Vec<_> = sales.iter().map(|(_, sale)| sale.spec.id).collect();
        let is_missing = |id: SaleId| wanted.contains(&id.0) && !shown.contains(&id);
        sales.extend(near(catalog, now).filter(|(_, sale)| is_missing(sale.spec.id)));
    }
    sales
}

/// All that run, will, or did until lately.
fn near(catalog: &Catalog, now: UnixMs) -> impl Iterator<Item = (Phase, &Sale)> {
    let over = now.0.saturating_sub(OVER_MS);
    let sales = catalog.sales.iter().filter(|sale| !sale.deleted).map(move |sale| (sale.phase(now), sale));
    sales.filter(move |(phase, sale)| *phase != Phase::Ended || sale.spec.ends_at.0 >= over)
}

fn units(catalog: &Catalog, sale: &Sale) -> Units {
    let first = sale.first_sku.0 as usize;
    let skus = &catalog.skus[first..first + sale.spec.items.len()];
    skus.iter().map(|sku| Units::of(&sku.counters)).fold(Units::default(), Units::add)
}

/// The greater, the more there is to watch: it is paused, it has orders and is not over for them, it waits for orders. All servers of
/// a cluster know it alike, so they show the same sales; and it changes seldom, so that what is pressed does not jump away.
fn going_on(catalog: &Catalog, phase: Phase, sale: &Sale) -> (bool, bool, bool) {
    let units = units(catalog, sale);
    let is_open = units.held > 0 || !units.is_sold_out();
    (phase == Phase::Paused, is_open && units.held + units.sold > 0, is_open)
}

/// A sale whether there is room to show it or not, as far as the whole night is judged by it.
#[derive(Clone, Copy, Debug)]
pub(super) struct NearSale<'a> {
    pub(super) id: u64,
    pub(super) title: &'a str,
    pub(super) phase: Phase,
    pub(super) starts_at_ms: u64,
    pub(super) units: Units,
}

/// All that run, will, or did until lately; as many as the catalog has at most.
pub(super) fn near_sales(catalog: &Catalog, now: UnixMs) -> Vec<NearSale<'_>> {
    near(catalog, now)
        .map(|(phase, sale)| NearSale {
            id: sale.spec.id.0,
            title: &sale.spec.title,
            phase,
            starts_at_ms: sale.spec.starts_at.0,
            units: units(catalog, sale),
        })
        .collect()
}

/// Of all sales, whether there is room to show them or not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Sums {
    /// That run, will, or did until lately.
    pub(super) sales: usize,
    /// That have begun and are not over: of those that run, and of the paused ones too.
    pub(super) live: Open,
    pub(super) open: Open,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(super) struct Open {
    pub(super) sales: usize,
    pub(super) units: Units,
}

impl Open {
    fn add(&mut self, units: Units) {
        *self = Open { sales: self.sales + 1, units: self.units + units };
    }
}

impl Sums {
    pub(super) fn of(near: &[NearSale<'_>], now: UnixMs) -> Sums {
        let mut sums = Sums { sales: near.len(), ..Sums::default() };
        for sale in near.iter().filter(|sale| sale.phase != Phase::Ended && sale.starts_at_ms <= now.0) {
            sums.open.add(sale.units);
            if sale.phase == Phase::Live {
                sums.live.add(sale.units);
            }
        }
        sums
    }
}

/// How many items of each sale are shown, of so many that it has: a fair part of the room each, and what is left over goes to
/// the first ones. A sale of a thousand items must not hide the one that everybody waits for.
pub(super) fn room(items: &[usize]) -> Vec<usize> {
    let fair = ITEMS_MAX / items.len().max(1);
    let mut room: Vec<_> = items.iter().map(|items| fair.min(*items)).collect();
    let mut left = ITEMS_MAX - room.iter().sum::<usize>();
    for (room, items) in room.iter_mut().zip(items) {
        let more = left.min(items - *room);
        *room += more;
        left -= more;
    }
    room
}

/// The sales and products that are shown, whatever is wanted.
pub(super) fn shown(catalog: &Catalog, now: UnixMs) -> Vec<(u64, u64)> {
    let watched = watched(catalog, now, &[]);
    let room = room(&watched.iter().map(|(_, sale)| sale.spec.items.len()).collect::<Vec<_>>());
    let items = watched.iter().zip(room).flat_map(|((_, sale), room)| {
        sale.spec.items.iter().take(room).map(|item| (sale.spec.id.0, item.product.0))
    });
    items.collect()
}

impl SoldOut {
    /// As it was seen before this start.
    pub(super) fn after(before: Vec<((u64, u64), u64)>) -> SoldOut {
        SoldOut(before.into_iter().map(|(item, at_ms)| (item, Left::Nothing(Some(at_ms)))).collect())
    }

    /// As far as it is known.
    pub(super) fn known(&self) -> SoldOutAt {
        let mut known = SoldOutAt::new();
        for ((sale, product), left) in &self.0 {
            if let Some(at_ms) = left.nothing_since() {
                known.entry(*sale).or_default().insert(*product, at_ms);
            }
        }
        known
    }

    /// The figures of the sales to be shown: at most [`SALES_MAX`], and those that are wanted, with [`ITEMS_MAX`] items.
    pub(super) fn look<'c>(
        &mut self,
        catalog: &'c Catalog,
        now: UnixMs,
        (sum, lines, wanted): (&Part, &Lines, &[u64]),
    ) -> Vec<SaleFigures<'c>> {
        let (selling, holds) = (sum.sales.as_ref(), sum.holds.as_ref());
        let (quiet, none) = (SaleSecond::default(), HoldsEnded::default());
        let mut seen = BTreeMap::new();
        let mut sales = Vec::new();
        let watched = watched(catalog, now, wanted);
        let room = room(&watched.iter().map(|(_, sale)| sale.spec.items.len()).collect::<Vec<_>>());
        for ((phase, sale), room) in watched.into_iter().zip(room) {
            let spec = &*sale.spec;
            let first = sale.first_sku.0 as usize;
            let skus = &catalog.skus[first..first + spec.items.len()];
            let mut items = Vec::with_capacity(skus.len().min(room));
            let second = selling.map(|selling| selling.get(&spec.id.0).unwrap_or(&quiet));
            for ((item, sku), number) in spec.items.iter().zip(skus).zip(sale.first_sku.0..).take(room) {
                let units = Units::of(&sku.counters);
                let (product, title) = (item.product.0, &*item.title);
                let left = self.left((spec.id.0, product), (phase, units, now), &sum.sold_out);
                seen.insert((spec.id.0, product), left);
                let rates = second.map(|second| second.of_item(product));
                items.push(ItemFigures {
                    product,
                    title,
                    price: item.price,
                    units,
                    rates,
                    refused_by_code: second.and_then(|second| second.refused_of_item(product)),
                    order_route: second.and_then(|second| second.order_route_of_item(product)),
                    sold_out_at_ms: left.nothing_since(),
                    line: lines.of(SkuId(number)),
                });
            }
            sales.push(SaleFigures {
                id: spec.id.0,
                title: &spec.title,
                currency: &spec.currency,
                phase,
                starts_at_ms: spec.starts_at.0,
                ends_at_ms: spec.ends_at.0,
                ended_at_ms: sale.ended_at.filter(|at| *at < spec.ends_at).map(|at| at.0),
                units: units(catalog, sale),
                rates: second.map(SaleSecond::rates),
                refused_by_code: second.map(SaleSecond::refused_by_code).unwrap_or_default(),
                order_route: second.and_then(SaleSecond::order_route),
                stock_asked_per_s: second.map(SaleSecond::asked),
                holds: holds.map(|holds| {
                    // Of a sale that had not begun then, nothing is left out.
                    let since_ms = sum.holds_since_ms.filter(|since_ms| spec.starts_at.0 < *since_ms);
                    holds.get(&spec.id.0).unwrap_or(&none).shown(since_ms)
                }),
                items_total: skus.len(),
                items,
            });
        }
        self.0 = seen;
        sales
    }

    /// `heard`: of other servers, for what this one did not see.
    fn left(&self, item: (u64, u64), (phase, units, now): (Phase, Units, UnixMs), heard: &SoldOutAt) -> Left {
        match self.0.get(&item) {
            // What comes back after the end is sold to nobody.
            Some(known @ Left::Nothing(Some(_))) if phase == Phase::Ended => *known,
            _ if !units.is_sold_out() => Left::Some,
            None | Some(Left::Nothing(None)) => {
                Left::Nothing(heard.get(&item.0).and_then(|items| items.get(&item.1)).copied())
            }
            Some(Left::Some) => Left::Nothing(Some(now.0)),
            Some(nothing) => *nothing,
        }
    }
}

impl Left {
    fn nothing_since(self) -> Option<u64> {
        match self {
            Left::Nothing(since) => since,
            Left::Some => None,
        }
    }
}
