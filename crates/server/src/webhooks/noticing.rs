//! What the shop is to hear of beside its orders, found by looking now and then: a sale begins or ends by the clock, an
//! item is sold out or can be bought again. Whoever writes the ledger appends it, and the senders read it from there.
//!
//! Must not: append. What is appended is noticed once, however often the server starts: it is read back from the ledger.

use std::collections::HashMap;
use std::time::Duration;

use engine::{Notice, Phase, SaleId, SkuId, UnixMs};

use crate::intake::catalog::{Catalog, Sale};
use crate::ledger::{EventReader, OpenError};
use crate::time::Instant;

/// Between two looks.
const INTERVAL: Duration = Duration::from_millis(500);
/// Between two notices about one item's stock.
const STOCK_MS: u64 = 10_000;
/// That one look may come to; the others come with the next one.
const NOTICES_MAX: usize = 100;
/// For how long after its end a sale is looked at: a server that was off for longer says nothing of the end.
const AFTER_END_MS: u64 = 7 * 24 * 3600 * 1_000;

/// Looks at one ledger's sales.
#[derive(Debug)]
pub struct Noticing {
    reader: EventReader,
    looked_at: Option<Instant>,
    /// `None`: not read from the ledger yet.
    noticed: Option<Noticed>,
}

/// The latest notices.
#[derive(Debug, Default)]
struct Noticed {
    /// Whether it has started and not ended since.
    sales: HashMap<SaleId, bool>,
    /// Whether it is sold out, and since when.
    items: HashMap<SkuId, (bool, UnixMs)>,
}

impl Noticing {
    pub fn new(reader: EventReader) -> Noticing {
        Noticing { reader, looked_at: None, noticed: None }
    }

    /// If it is time: what is to be appended now. It counts as appended; if it can't be, see [`Noticing::forget`].
    ///
    /// # Errors
    /// If the ledger can't be read.
    pub fn look(&mut self, now: UnixMs, catalog: &Catalog) -> Result<Vec<Notice>, OpenError> {
        if self.looked_at.is_some_and(|looked| looked.elapsed() < INTERVAL) {
            return Ok(Vec::new());
        }
        self.looked_at = Some(Instant::now());
        let Noticing { reader, noticed, .. } = self;
        let noticed = match noticed {
            Some(noticed) => noticed,
            None => {
                // Of a sale nothing is noticed before it starts.
                let first = in_view(catalog, now).map(|sale| sale.spec.starts_at).min();
                let past = first.map(|first| reader.noticed_since(first)).transpose()?.unwrap_or_default();
                let noticed = noticed.insert(Noticed::default());
                past.into_iter().for_each(|(at, notice)| noticed.note(at, notice));
                noticed
            }
        };
        let mut found = Vec::new();
        for sale in in_view(catalog, now) {
            noticed.look_at(now, catalog, sale, &mut found);
        }
        found.truncate(NOTICES_MAX);
        found.iter().for_each(|notice| noticed.note(now, *notice));
        Ok(found)
    }

    /// Reads the ledger again: something was not appended, or another server may have appended since.
    pub fn forget(&mut self) {
        self.noticed = None;
    }
}

/// Sales that have started and have not been over for long. One that an operator ended has an entry that says so.
fn in_view(catalog: &Catalog, now: UnixMs) -> impl Iterator<Item = &Sale> {
    let is_in_view = move |sale: &&Sale| {
        sale.ended_at.is_none() && sale.spec.starts_at <= now && now <= sale.spec.ends_at.plus(AFTER_END_MS)
    };
    catalog.sales.iter().filter(is_in_view)
}

impl Noticed {
    fn look_at(&self, now: UnixMs, catalog: &Catalog, sale: &Sale, found: &mut Vec<Notice>) {
        let id = sale.spec.id;
        let started = self.sales.get(&id).copied().unwrap_or(false);
        if sale.phase(now) == Phase::Ended {
            if started {
                found.push(Notice::SaleEnded(id));
            }
            return;
        }
        if !started {
            found.push(Notice::SaleStarted(id));
        }
        let first = sale.first_sku.0 as usize;
        for (sku, number) in catalog.skus[first..first + sale.spec.items.len()].iter().zip(sale.first_sku.0..)
        {
            let sold_out = sku.counters.is_known() && sku.counters.looks_sold_out();
            let (before, at) = self.items.get(&SkuId(number)).copied().unwrap_or((false, UnixMs(0)));
            if sold_out != before && now.0 >= at.0.saturating_add(STOCK_MS) {
                let sku = SkuId(number);
                found.push(if sold_out { Notice::SoldOut(sku) } else { Notice::BackInStock(sku) });
            }
        }
    }

    fn note(&mut self, at: UnixMs, notice: Notice) {
        match notice {
            Notice::SaleStarted(sale) => drop(self.sales.insert(sale, true)),
            Notice::SaleEnded(sale) => drop(self.sales.insert(sale, false)),
            Notice::SoldOut(sku) => drop(self.items.insert(sku, (true, at))),
            Notice::BackInStock(sku) => drop(self.items.insert(sku, (false, at))),
        }
    }
}
