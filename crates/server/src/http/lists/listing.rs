//! Which sales are listed where: looked through once per change of the sales, or when one of them begins or ends, or has not any
//! more, by a clock that was set back.

use std::ops::Range;

use engine::{Phase, UnixMs};

use super::STALE_STOCK_MS;
use super::page::States;
use crate::intake::catalog::{Catalog, Sale};

/// The sales by what they are at one time, as places in the catalog, ascending.
#[derive(Debug, Default)]
pub(super) struct Listing {
    catalog_version: u64,
    /// When it is this one. The clock may be set back to before.
    times: Range<UnixMs>,
    upcoming: Vec<u32>,
    open: Vec<u32>,
    /// Those that are not over, and of the others those in whose lines somebody may order still.
    current: Vec<u32>,
    ended: Vec<u32>,
}

impl Listing {
    pub(super) fn of(catalog: &Catalog, now: UnixMs) -> Listing {
        let mut listing = Listing {
            catalog_version: catalog.version,
            times: UnixMs(0)..UnixMs(u64::MAX),
            ..Listing::default()
        };
        for (place, sale) in (0..).zip(&catalog.sales).filter(|(_, sale)| !sale.deleted) {
            let sales = match state(sale, now) {
                State::Ended => &mut listing.ended,
                State::Open => &mut listing.open,
                State::Upcoming => &mut listing.upcoming,
            };
            sales.push(place);
            for at in [sale.spec.starts_at, sale.spec.ends_at] {
                listing.changes(at, now);
            }
            if state(sale, now) != State::Ended {
                listing.current.push(place);
            } else if serves_on(catalog, sale) {
                // Until that is over, which no change of the sales says.
                listing.current.push(place);
                listing.changes(now.plus(STALE_STOCK_MS), now);
                listing.changes(UnixMs(now.0.saturating_sub(STALE_STOCK_MS)), now);
            }
        }
        listing
    }

    /// It is another one before this time, or from then on.
    fn changes(&mut self, at: UnixMs, now: UnixMs) {
        if at <= now {
            self.times.start = self.times.start.max(at);
        } else {
            self.times.end = self.times.end.min(at);
        }
    }

    /// Whether it is what is in this catalog now.
    pub(super) fn holds(&self, catalog_version: u64, now: UnixMs) -> bool {
        self.catalog_version == catalog_version && self.times.contains(&now)
    }

    pub(super) fn times(&self) -> Range<UnixMs> {
        self.times.clone()
    }

    pub(super) fn has_ended(&self) -> bool {
        !self.ended.is_empty()
    }

    /// Places before this one, the newest sale first.
    pub(super) fn before(&self, states: States, before: u32) -> impl Iterator<Item = u32> + '_ {
        let all = match states {
            States::Current => &self.current,
            States::Upcoming => &self.upcoming,
            States::Open => &self.open,
            States::Ended => &self.ended,
        };
        all[..all.partition_point(|place| *place < before)].iter().rev().copied()
    }
}

/// Whether somebody in a line of a sale that is over may order still, or is sure to be called. Once nobody is, nobody will be.
fn serves_on(catalog: &Catalog, sale: &Sale) -> bool {
    let items = sale.spec.items.iter().zip(&catalog.skus[sale.first_sku.0 as usize..]);
    items.filter_map(|(_, sku)| sku.board.as_ref()?.read()).any(|line| {
        let is_awaited = line.standings.in_grace > 0 || line.borders.reached < line.borders.sure_to;
        line.standings.called > 0 || (is_awaited && !sale.is_called_off())
    })
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Upcoming,
    Open,
    Ended,
}

/// A pause changes nothing of it: it may end any moment.
fn state(sale: &Sale, now: UnixMs) -> State {
    match sale.phase(now) {
        Phase::Ended => State::Ended,
        _ if now < sale.spec.starts_at => State::Upcoming,
        _ => State::Open,
    }
}
