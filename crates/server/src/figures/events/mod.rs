//! The last things that happened, for whoever comes late: found by comparing each look with the one before.
//!
//! Must not: read the ledger; who did it is in the operators' log.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use engine::{Phase, SaleId};
use serde::{Deserialize, Serialize};

use super::part::ms;
use super::sales::{ItemFigures, NearSale, SaleFigures};
use super::sample::ServerFigures;
use super::verdict::{Level, Verdict, ago, capital, grouped, units};
use crate::intake::PartAway;
use crate::intake::catalog::{Catalog, quoted};
use crate::pages::amount;

/// The newest that are shown.
pub(super) const EVENTS_MAX: usize = 50;
/// What happens again so soon takes the place of the time before: what goes to and fro does not push the rest out.
const AGAIN_MS: u64 = 60_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Kind {
    SaleAdded,
    SaleOpened,
    SalePaused,
    SaleResumed,
    SaleEnded,
    SaleEdited,
    SaleDeleted,
    PriceChanged,
    StockChanged,
    SoldOut,
    OnSaleAgain,
    OrdersTaken,
    NoOrdersTaken,
    PartAway,
    PartBack,
    ServerStarted,
    ServerBack,
    ServerSilent,
    ServerStoodStill,
    VerdictChanged,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct EventFigures {
    pub(super) at_ms: u64,
    pub(super) kind: Kind,
    pub(super) says: String,
    pub(super) sale: Option<u64>,
    pub(super) product: Option<u64>,
}

/// What a look shows, as far as it is compared.
#[derive(Debug)]
struct Seen {
    /// Of all, whether they are shown or not.
    phases: BTreeMap<u64, Phase>,
    sales: BTreeMap<u64, SeenSale>,
    /// In the catalog, which are more.
    sales_total: usize,
    /// By name, whether it is counted.
    servers: BTreeMap<String, bool>,
    ready: bool,
    part_away: Option<PartAway>,
    verdict: (Level, &'static str),
}

#[derive(Debug, PartialEq, Eq)]
struct SeenSale {
    terms: (String, u64, u64),
    /// Of those that are shown.
    items: BTreeMap<u64, SeenItem>,
}

#[derive(Debug, PartialEq, Eq)]
struct SeenItem {
    total: u64,
    is_sold_out: bool,
    price: u64,
}

/// One look, of all servers.
#[derive(Clone, Copy, Debug)]
pub(super) struct Look<'a> {
    pub(super) at_ms: u64,
    /// That looks.
    pub(super) server: &'a str,
    pub(super) catalog: &'a Catalog,
    /// Of the catalog, all that run, will, or did until lately.
    pub(super) near: &'a [NearSale<'a>],
    /// Of these, those that are shown.
    pub(super) sales: &'a [SaleFigures<'a>],
    pub(super) servers: &'a [ServerFigures],
    /// One at least takes orders; and why some do not.
    pub(super) ready: bool,
    pub(super) reasons: &'a [String],
    /// What can't be bought of those that take orders.
    pub(super) part_away: Option<&'a PartAway>,
    pub(super) verdict: &'a Verdict,
    /// This server, for so long before this look.
    pub(super) stood_still: Option<Duration>,
    /// What it knows of others is out of date.
    pub(super) has_just_woken: bool,
}

#[derive(Debug, Default)]
pub(super) struct Events {
    /// The newest first.
    last: VecDeque<EventFigures>,
    /// A copy for the history, until something happens.
    kept: Option<Arc<[EventFigures]>>,
    /// `None`: there was no look yet, so nothing is known to have changed.
    seen: Option<Seen>,
}

impl Seen {
    fn of(look: &Look<'_>) -> Seen {
        let sale = |sale: &SaleFigures<'_>| {
            let item = |item: &ItemFigures<'_>| SeenItem {
                total: item.units.total,
                is_sold_out: item.units.is_sold_out(),
                price: item.price,
            };
            let items = sale.items.iter().map(|of| (of.product, item(of)));
            let terms = (sale.title.to_owned(), sale.starts_at_ms, sale.ends_at_ms);
            (sale.id, SeenSale { terms, items: items.collect() })
        };
        Seen {
            phases: look.near.iter().map(|sale| (sale.id, sale.phase)).collect(),
            sales: look.sales.iter().map(sale).collect(),
            sales_total: look.catalog.sales.len(),
            servers: look.servers.iter().map(|server| (server.server.clone(), server.counted)).collect(),
            ready: look.ready,
            part_away: look.part_away.cloned(),
            verdict: (look.verdict.level, look.verdict.code),
        }
    }

    /// Whoever has just woken has heard nobody meanwhile, and asked no engine: nothing of that has changed.
    fn hold(&mut self, before: &Seen) {
        self.ready = before.ready;
        self.part_away.clone_from(&before.part_away);
        for (server, is_there) in &mut self.servers {
            *is_there |= before.servers.get(server).is_some_and(|was_there| *was_there);
        }
    }
}

impl Events {
    /// After a start, with what was seen before it.
    pub(super) fn after(before: Vec<EventFigures>) -> Events {
        let mut last = VecDeque::from(before);
        last.truncate(EVENTS_MAX);
        Events { last, ..Events::default() }
    }

    /// The same as long as nothing happens.
    pub(super) fn kept(&mut self) -> Arc<[EventFigures]> {
        Arc::clone(self.kept.get_or_insert_with(|| self.last.iter().cloned().collect()))
    }

    /// The newest first.
    pub(super) fn last(&self) -> &VecDeque<EventFigures> {
        &self.last
    }

    pub(super) fn look(&mut self, look: &Look<'_>) {
        let mut now = Seen::of(look);
        if let Some(before) = self.seen.take() {
            if look.has_just_woken {
                now.hold(&before);
            }
            if let Some(still) = look.stood_still {
                let says = format!("{} stood still for {}.", look.server, ago(ms(still)));
                self.add(look.at_ms, Kind::ServerStoodStill, (None, None), says);
            }
            look.near.iter().for_each(|sale| self.compare_phase(look, &before, sale));
            look.sales.iter().for_each(|sale| self.compare_sale(look, &before, sale));
            self.find_deleted(look, &before);
            self.compare_servers(look.at_ms, &before, &now);
            self.compare_orders(look, &before, &now);
            if before.verdict != now.verdict {
                self.add(look.at_ms, Kind::VerdictChanged, (None, None), look.verdict.says.clone());
            }
        } else {
            self.add(look.at_ms, Kind::ServerStarted, (None, None), format!("{} was started.", look.server));
        }
        self.seen = Some(now);
    }

    /// Whether orders are taken, and for what.
    fn compare_orders(&mut self, look: &Look<'_>, before: &Seen, now: &Seen) {
        let mut add = |kind, says| self.add(look.at_ms, kind, (None, None), says);
        match (before.ready, now.ready) {
            (false, true) => add(Kind::OrdersTaken, "Orders are taken again.".to_owned()),
            (true, false) => {
                add(Kind::NoOrdersTaken, format!("No order is taken. {}", look.reasons.join(" ")));
            }
            (true, true) | (false, false) => {}
        }
        match (&before.part_away, &now.part_away) {
            (Some(before), Some(now)) if now.is_as(before) => {}
            (_, Some(part)) => add(Kind::PartAway, format!("{}.", capital(&part.to_string()))),
            (Some(_), None) if now.ready => {
                add(Kind::PartBack, "All products can be bought again.".to_owned());
            }
            (Some(_) | None, None) => {}
        }
    }

    fn compare_phase(&mut self, look: &Look<'_>, before: &Seen, sale: &NearSale<'_>) {
        let (at_ms, about) = (look.at_ms, (Some(sale.id), None));
        let Some(known) = before.phases.get(&sale.id) else {
            // A new end brings back one that was long over.
            let position = look.catalog.position(SaleId(sale.id));
            if position.is_some_and(|position| position < before.sales_total) {
                return;
            }
            match sale.phase {
                Phase::NotStarted => {
                    self.add(at_ms, Kind::SaleAdded, about, format!("{} is planned.", quoted(sale.title)));
                }
                Phase::Live => {
                    self.add(at_ms, Kind::SaleOpened, about, format!("{} has started.", quoted(sale.title)));
                }
                Phase::Paused | Phase::Ended => {}
            }
            return;
        };
        let changed = match (*known, sale.phase) {
            (one, other) if one == other => None,
            (Phase::Paused, Phase::Live) => Some((Kind::SaleResumed, "sells again")),
            (_, Phase::Live) => Some((Kind::SaleOpened, "has started")),
            (_, Phase::Paused) => Some((Kind::SalePaused, "is paused")),
            (_, Phase::Ended) => Some((Kind::SaleEnded, "has ended")),
            (Phase::Paused, Phase::NotStarted) => Some((Kind::SaleResumed, "is no longer paused")),
            (_, Phase::NotStarted) => None,
        };
        // Of a hundred sales that start at once, those that are not shown must not push out all that happened before.
        let is_done_by_hand = |kind: &Kind| matches!(kind, Kind::SalePaused | Kind::SaleResumed);
        let is_shown = before.sales.contains_key(&sale.id);
        if let Some((kind, what)) = changed.filter(|(kind, _)| is_shown || is_done_by_hand(kind)) {
            self.add(at_ms, kind, about, format!("{} {what}.", quoted(sale.title)));
        }
    }

    fn compare_sale(&mut self, look: &Look<'_>, before: &Seen, sale: &SaleFigures<'_>) {
        let (at_ms, about) = (look.at_ms, (Some(sale.id), None));
        // Others that go make room for one that was there.
        let Some(known) = before.sales.get(&sale.id) else { return };
        let (title, starts_at_ms, ends_at_ms) = &known.terms;
        // The end of one that was ended is when that was.
        let moved = *ends_at_ms != sale.ends_at_ms && sale.phase != Phase::Ended;
        if title != sale.title || *starts_at_ms != sale.starts_at_ms || moved {
            self.add(
                at_ms,
                Kind::SaleEdited,
                about,
                format!("Title or times of {} were changed.", quoted(sale.title)),
            );
        }
        for item in &sale.items {
            if let Some(known) = known.items.get(&item.product) {
                self.compare_item(at_ms, known, (sale, item));
            }
        }
    }

    fn compare_item(
        &mut self,
        at_ms: u64,
        known: &SeenItem,
        (sale, item): (&SaleFigures<'_>, &ItemFigures<'_>),
    ) {
        let about = (Some(sale.id), Some(item.product));
        let title = quoted(item.title);
        if known.price != item.price {
            let [before, now] = [known.price, item.price].map(|price| amount(price, sale.currency));
            let says = format!("{title} costs {now} {}, before {before}.", sale.currency);
            self.add(at_ms, Kind::PriceChanged, about, says);
        }
        if known.total != item.units.total {
            let says =
                format!("{title} has {} in all, before {}.", units(item.units.total), grouped(known.total));
            self.add(at_ms, Kind::StockChanged, about, says);
        }
        match (known.is_sold_out, item.units.is_sold_out()) {
            (false, true) => self.add(at_ms, Kind::SoldOut, about, format!("{title} is sold out.")),
            // Of a sale that is paused or over nothing is on sale.
            (true, false) if sale.phase == Phase::Live => {
                self.add(at_ms, Kind::OnSaleAgain, about, format!("{title} is on sale again."));
            }
            (true, _) | (false, false) => {}
        }
    }

    /// Others leave the list because they are long over, or because there is no room.
    fn find_deleted(&mut self, look: &Look<'_>, before: &Seen) {
        for (id, known) in &before.sales {
            let is_shown = look.sales.iter().any(|sale| sale.id == *id);
            if !is_shown && look.catalog.position(SaleId(*id)).is_none() {
                let says = format!("{} was deleted.", quoted(&known.terms.0));
                self.add(look.at_ms, Kind::SaleDeleted, (Some(*id), None), says);
            }
        }
    }

    fn compare_servers(&mut self, at_ms: u64, before: &Seen, now: &Seen) {
        for (name, counted) in &now.servers {
            match before.servers.get(name) {
                Some(true) if !counted => {
                    self.add(at_ms, Kind::ServerSilent, (None, None), format!("{name} is silent."));
                }
                Some(false) | None if *counted => {
                    self.add(at_ms, Kind::ServerBack, (None, None), format!("{name} is there."));
                }
                Some(_) | None => {}
            }
        }
    }

    fn add(&mut self, at_ms: u64, kind: Kind, (sale, product): (Option<u64>, Option<u64>), says: String) {
        let event = EventFigures { at_ms, kind, says, sale, product };
        let names_itself = matches!(kind, Kind::ServerBack | Kind::ServerSilent);
        self.last.retain(|earlier| {
            let same = (earlier.kind, earlier.sale, earlier.product) == (kind, sale, product)
                && (!names_itself || earlier.says == event.says);
            !same || at_ms.saturating_sub(earlier.at_ms) >= AGAIN_MS
        });
        self.kept = None;
        self.last.push_front(event);
        self.last.truncate(EVENTS_MAX);
    }
}

#[cfg(test)]
mod tests;
