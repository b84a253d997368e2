//! The sales as the ledger has them, on one server: what its catalog is made of, and what the gate of each
//! item gets to know.
//!
//! Only the entries about sales are followed: the registry that they are replayed into knows no order and no stock.

use std::sync::Arc;

use engine::handover::GateSale;
use engine::{Entry, ProductId, Sale, SaleId, Seq, SkuId, UnixMs};

use crate::cluster::ask::refresh::publish_stocks;
use crate::intake::catalog::{Catalog, Shelf};
use crate::ledger::mysql::cluster::SkuRow;

/// An item as its gate has to know it.
#[derive(Clone, Copy, Debug)]
pub(super) struct GateItem {
    pub(super) sku: SkuId,
    pub(super) state: GateSale,
    pub(super) limit: Option<u32>,
    pub(super) product: ProductId,
}

impl GateItem {
    /// Whether nothing of it is sold any more, as things stand.
    pub(super) fn is_over(&self, now: UnixMs) -> bool {
        self.state.ended || self.state.ends_at <= now
    }
}

/// The sales of the ledger, up to some entry.
#[derive(Debug, Default)]
pub(super) struct FollowedSales {
    registry: engine::Sales,
    /// Of all sales, in the order of their SKUs' numbers.
    items: Arc<[GateItem]>,
    /// Of the last entry that was followed, whether it made sense or not.
    after: Seq,
    /// The ledger had gone back so often when its first entry was read.
    times_back: u64,
}

impl FollowedSales {
    /// The last entry that was followed of the ledger that has gone back so often: of a new one, none.
    pub(super) fn after(&self, times_back: u64) -> Seq {
        if times_back == self.times_back { self.after } else { Seq(0) }
    }

    /// Follows what was read of the ledger, all of it if it has gone back since, and publishes the catalog. `stocks`: read after
    /// the entries, for they are published before anybody sees a new SKU: one without stock looks sold out.
    pub(super) fn follow(&mut self, times_back: u64, entries: Vec<Entry>, stocks: &[SkuRow], shelf: &Shelf) {
        // Another stage may have read further meanwhile, or of a newer one.
        if times_back < self.times_back {
            return;
        }
        let mut before = shelf.current();
        if times_back > self.times_back {
            *self = FollowedSales { times_back, ..FollowedSales::default() };
            // Another sale may have the place and the version that one had which is gone.
            before = Arc::new(before.begun_anew());
        }
        let new: Vec<_> = entries.into_iter().filter(|entry| entry.seq > self.after).collect();
        if new.is_empty() {
            return;
        }
        for entry in new {
            self.after = entry.seq;
            // The audit reports it too; selling goes on as the sale was before.
            if let Err(error) = self.registry.replay(&entry) {
                tracing::error!(%error, seq = entry.seq.0, "the ledger's sale events do not follow");
            }
        }
        self.items = self.registry.iter().flat_map(items_of).collect();
        let catalog = Catalog::of(&self.registry, &before);
        publish_stocks(&catalog, stocks);
        shelf.publish(catalog);
    }

    /// The items of all sales, in the order of their SKUs' numbers.
    pub(super) fn items(&self) -> Arc<[GateItem]> {
        Arc::clone(&self.items)
    }

    /// The items of one sale; none if the sale is unknown.
    pub(super) fn items_of(&self, sale: SaleId) -> Vec<GateItem> {
        self.registry.get(sale).map_or_else(Vec::new, |sale| items_of(sale).collect())
    }
}

fn items_of(sale: &Sale) -> impl Iterator<Item = GateItem> + '_ {
    let state = GateSale {
        version: sale.version.0,
        starts_at: sale.spec.starts_at,
        ends_at: sale.spec.ends_at,
        paused: sale.paused,
        ended: sale.ended_at.is_some(),
    };
    let items = sale.skus().zip(&sale.spec.items);
    items.map(move |(sku, item)| GateItem { sku, state, limit: item.limit, product: item.product })
}

#[cfg(test)]
mod tests {
    use engine::{Event, ItemSpec, Payment, SaleSpec};

    use super::*;

    fn created(seq: u64, sale: u64, title: &str) -> Entry {
        let item = ItemSpec {
            product: ProductId(1),
            title: "Shoe".to_owned(),
            description: String::new(),
            price: 1,
            list_price: 1,
            total: 1,
            limit: None,
            image: None,
            line: None,
        };
        let spec = SaleSpec {
            id: SaleId(sale),
            title: title.to_owned(),
            currency: "EUR".to_owned(),
            starts_at: UnixMs(1),
            ends_at: UnixMs(2),
            payment: Payment::OnPlacing,
            open_holds_per_buyer_max: None,
            items: vec![item],
        };
        Entry { seq: Seq(seq), at: UnixMs(1), event: Event::SaleCreated(Box::new(spec)) }
    }

    /// A database that has lost its tail gives the numbers of what is gone to others.
    #[test]
    fn of_a_ledger_that_went_back_nothing_is_kept() {
        let (mut sales, shelf) = (FollowedSales::default(), Shelf::default());
        let titles =
            || -> Vec<String> { shelf.current().sales.iter().map(|sale| sale.spec.title.clone()).collect() };
        sales.follow(
            0,
            vec![created(1, 1, "one"), created(2, 2, "lost"), created(3, 3, "lost")],
            &[],
            &shelf,
        );
        assert_eq!(
            (titles(), sales.after(0), sales.items().len()),
            (vec!["one".into(), "lost".into(), "lost".into()], Seq(3), 3)
        );
        let before = shelf.current().version;
        assert_eq!(sales.after(1), Seq(0));
        sales.follow(1, vec![created(1, 1, "one"), created(2, 2, "another")], &[], &shelf);
        assert_eq!(
            (titles(), sales.after(1), sales.items().len()),
            (vec!["one".into(), "another".into()], Seq(2), 2)
        );
        assert!(shelf.current().version > before, "readers take it over");
        // What another stage has read of the ledger before.
        sales.follow(0, vec![created(4, 4, "lost")], &[], &shelf);
        assert_eq!((titles().len(), sales.after(1)), (2, Seq(2)));
    }
}
