//! The sales as the ledger has them, on one server: what its catalog is made of, and what each slot of the gate is
//! told.
//!
//! Only the entries about sales are followed: the book that they are replayed into holds no order and no true stock.

use std::collections::HashMap;

use engine::handover::SaleState;
use engine::{Book, Entry, Event, ProductId, SaleId, Seq, SkuId};

use crate::cluster::ask::refresh::publish_stocks;
use crate::intake::catalog::{Catalog, Shelf};
use crate::ledger::mysql::cluster::{LedgerError, SharedLedger};

/// A SKU as its slot of the gate has to know it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Slot {
    pub(super) sku: SkuId,
    pub(super) state: SaleState,
    pub(super) limit: Option<u32>,
    pub(super) product: ProductId,
}

/// The sales of the ledger, up to some entry.
#[derive(Debug)]
pub(super) struct Sales {
    book: Book,
    /// Of the last entry that was followed.
    after: Seq,
    /// The number in the ledger of each sale's last entry: newer states have higher ones.
    versions: HashMap<SaleId, u64>,
}

impl Default for Sales {
    fn default() -> Sales {
        Sales { book: Book::of_queue(), after: Seq(0), versions: HashMap::new() }
    }
}

impl Sales {
    /// Follows what the ledger has since, and publishes the catalog if there was anything. Returns whether.
    pub(super) fn catch_up(&mut self, ledger: &mut SharedLedger, shelf: &Shelf) -> Result<bool, LedgerError> {
        let entries = ledger.sale_entries(self.after)?;
        if entries.is_empty() {
            return Ok(false);
        }
        // Read before anything is followed, and told before anybody sees a new SKU: one without stock looks sold out.
        let stocks = ledger.stocks()?;
        for entry in entries {
            self.follow(entry);
        }
        let catalog = Catalog::of(&self.book, &shelf.current());
        publish_stocks(&catalog, &stocks);
        shelf.publish(catalog);
        Ok(true)
    }

    fn follow(&mut self, entry: Entry) {
        let sale = match &entry.event {
            Event::SaleCreated(spec) => spec.id,
            Event::SaleChanged { sale, .. }
            | Event::SalePaused(sale)
            | Event::SaleResumed(sale)
            | Event::SaleEnded(sale) => *sale,
            _ => return,
        };
        match self.book.replay_sale(&entry) {
            Ok(()) => drop(self.versions.insert(sale, entry.seq.0)),
            // The audit tells it too; selling goes on as the sale was before.
            Err(error) => {
                tracing::error!(%error, seq = entry.seq.0, "the ledger's sale events do not follow")
            }
        }
        self.after = entry.seq;
        let mut journal = Vec::new();
        self.book.drain_journal(&mut journal);
        self.book.drain_touched(|_, _| {});
    }

    /// The slots of all sales, in the order of their SKUs' numbers.
    pub(super) fn slots(&self) -> Vec<Slot> {
        self.book.sales().flat_map(|sale| self.slots_of(sale.spec.id)).collect()
    }

    /// The slots of one sale; none if the sale is unknown.
    pub(super) fn slots_of(&self, sale: SaleId) -> Vec<Slot> {
        let Some(view) = self.book.sale(sale) else { return Vec::new() };
        let version = self.versions.get(&sale).copied().unwrap_or(0);
        let numbers = view.first_sku.0..;
        numbers
            .zip(&view.spec.items)
            .map(|(number, item)| {
                let state = SaleState {
                    version,
                    starts_at: view.spec.starts_at,
                    ends_at: view.spec.ends_at,
                    paused: view.paused,
                    ended: view.ended,
                };
                Slot { sku: SkuId(number), state, limit: item.limit, product: item.product }
            })
            .collect()
    }
}
