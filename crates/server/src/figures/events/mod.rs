//! The last things that happened, for whoever comes late: found by comparing each look with the one before.
//!
//! Must not: read the ledger; who did it is in the operators' log.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use engine::Phase;
use serde::{Deserialize, Serialize};

use super::sales::{SaleFigures, quoted};
use super::sample::ServerFigures;
use super::verdict::{Level, Verdict};

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
    StockChanged,
    SoldOut,
    OnSaleAgain,
    OrdersTaken,
    NoOrdersTaken,
    ServerBack,
    ServerSilent,
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
    sales: BTreeMap<u64, SeenSale>,
    /// By name, whether it is counted.
    servers: BTreeMap<String, bool>,
    ready: bool,
    verdict: (Level, &'static str),
}

#[derive(Debug, PartialEq, Eq)]
struct SeenSale {
    phase: Phase,
    terms: (String, u64, u64),
    /// Units of each item that is shown, and whether one is left.
    items: BTreeMap<u64, (u64, bool)>,
}

/// One look, of all servers.
#[derive(Clone, Copy, Debug)]
pub(super) struct Look<'a> {
    pub(super) at_ms: u64,
    pub(super) sales: &'a [SaleFigures<'a>],
    pub(super) servers: &'a [ServerFigures],
    /// One at least takes orders; and why some do not.
    pub(super) ready: bool,
    pub(super) reasons: &'a [String],
    pub(super) verdict: &'a Verdict,
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
            let items =
                sale.items.iter().map(|item| (item.product, (item.units.total, item.units.available > 0)));
            let terms = (sale.title.to_owned(), sale.starts_at_ms, sale.ends_at_ms);
            (sale.id, SeenSale { phase: sale.phase, terms, items: items.collect() })
        };
        Seen {
            sales: look.sales.iter().map(sale).collect(),
            servers: look.servers.iter().map(|server| (server.server.clone(), server.counted)).collect(),
            ready: look.ready,
            verdict: (look.verdict.level, look.verdict.code),
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
        let now = Seen::of(look);
        if let Some(before) = self.seen.take() {
            look.sales.iter().for_each(|sale| self.compare_sale(look.at_ms, &before, sale));
            self.compare_servers(look, &before);
            if before.ready != now.ready {
                let says = match now.ready {
                    true => "Orders are taken again.".to_owned(),
                    false => format!("No order is taken. {}", look.reasons.join(" ")),
                };
                let kind = if now.ready { Kind::OrdersTaken } else { Kind::NoOrdersTaken };
                self.add(look.at_ms, kind, (None, None), says);
            }
            if before.verdict != now.verdict {
                self.add(look.at_ms, Kind::VerdictChanged, (None, None), look.verdict.says.clone());
            }
        }
        self.seen = Some(now);
    }

    fn compare_sale(&mut self, at_ms: u64, before: &Seen, sale: &SaleFigures<'_>) {
        let about = (Some(sale.id), None);
        let Some(known) = before.sales.get(&sale.id) else {
            if sale.phase == Phase::NotStarted {
                self.add(at_ms, Kind::SaleAdded, about, format!("{} is planned.", quoted(sale.title)));
            }
            return;
        };
        let changed = match (known.phase, sale.phase) {
            (one, other) if one == other => None,
            (Phase::Paused, Phase::Live) => Some((Kind::SaleResumed, "sells again")),
            (_, Phase::Live) => Some((Kind::SaleOpened, "has started")),
            (_, Phase::Paused) => Some((Kind::SalePaused, "is paused")),
            (_, Phase::Ended) => Some((Kind::SaleEnded, "has ended")),
            (_, Phase::NotStarted) => None,
        };
        if let Some((kind, what)) = changed {
            self.add(at_ms, kind, about, format!("{} {what}.", quoted(sale.title)));
        }
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
            let Some((total, was_left)) = known.items.get(&item.product) else { continue };
            let about = (Some(sale.id), Some(item.product));
            if *total != item.units.total {
                let says =
                    format!("{} has {} units in all, before {total}.", quoted(item.title), item.units.total);
                self.add(at_ms, Kind::StockChanged, about, says);
            }
            match (*was_left, item.units.available > 0) {
                (true, false) => {
                    self.add(at_ms, Kind::SoldOut, about, format!("{} is sold out.", quoted(item.title)))
                }
                (false, true) => {
                    self.add(
                        at_ms,
                        Kind::OnSaleAgain,
                        about,
                        format!("{} is on sale again.", quoted(item.title)),
                    );
                }
                (true, true) | (false, false) => {}
            }
        }
    }

    fn compare_servers(&mut self, look: &Look<'_>, before: &Seen) {
        for server in look.servers {
            let (name, counted) = (&server.server, server.counted);
            match before.servers.get(name) {
                Some(true) if !counted => {
                    self.add(look.at_ms, Kind::ServerSilent, (None, None), format!("{name} is silent."));
                }
                Some(false) | None if counted => {
                    self.add(look.at_ms, Kind::ServerBack, (None, None), format!("{name} is there."));
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
