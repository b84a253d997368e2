//! What readers see: sales as last committed, and the stock of each SKU as counters.
//!
//! No event loop has the book or asks the ledger. The profile publishes here what was committed: stock into
//! atomics, and, when a sale was created or changed, a whole new [`Catalog`]. So pages, stock reads and the
//! sold-out fast path cost no hand-over, and show committed state only.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use engine::{
    ItemSpec, Phase, ProductId, SaleId, SaleSpec, Seq, SkuId, Stock, UnixMs, is_plain_char, is_sold_out,
};

use super::board::Board;
use super::outcomes::{HoldEnded, ITEMS_TIMED_MAX, Outcomes, SaleOutcomes};

/// Committed units of one SKU. Each number is exact at some commit; read together they may be one commit apart.
#[derive(Debug, Default)]
pub struct Counters {
    available: AtomicU64,
    /// Of an item that is sold to a line: set aside for those who were called.
    turns: AtomicU64,
    held: AtomicU64,
    sold: AtomicU64,
    total: AtomicU64,
    version: AtomicU64,
    /// Units held of all SKUs of the catalog.
    all_held: Arc<AtomicU64>,
    /// Until when nobody else can have returned units that this process has not seen. 0: nobody has said what is
    /// available yet, and that is not sold out.
    known_until: AtomicU64,
    pub outcomes: Outcomes,
}

impl Counters {
    pub fn publish(&self, stock: Stock) {
        self.publish_held(stock.held());
        self.sold.store(stock.sold(), Ordering::Relaxed);
        self.total.store(stock.total(), Ordering::Relaxed);
        // What moves from one to the other is never in neither: see `free_and_turns`.
        let moves = [(&self.turns, stock.turns()), (&self.available, stock.available())];
        let opens = stock.turns() > self.turns();
        for (counter, units) in if opens { moves } else { [moves[1], moves[0]] } {
            counter.store(units, Ordering::Release);
        }
        self.known_until.store(u64::MAX, Ordering::Release);
        self.version.fetch_add(1, Ordering::Release);
    }

    /// What the ledger says, where the gate decides what is available.
    pub fn publish_committed(&self, total: u64, held: u64, sold: u64) {
        let changed = [(&self.total, total), (&self.sold, sold)]
            .map(|(counter, value)| counter.swap(value, Ordering::Relaxed) != value);
        if self.publish_held(held) || changed.contains(&true) {
            self.version.fetch_add(1, Ordering::Release);
        }
    }

    /// Returns whether it is another number than before.
    fn publish_held(&self, held: u64) -> bool {
        let before = self.held.swap(held, Ordering::Relaxed);
        self.all_held.fetch_add(held.wrapping_sub(before), Ordering::Relaxed);
        before != held
    }

    /// What the gate had available, which is trusted to be sold out until then only: other processes sell, and
    /// return units, too.
    pub fn publish_gate(&self, available: u64, known_until: UnixMs) {
        let before = self.available();
        // In this order: an older zero must not be believed for longer because of what is reported now.
        self.available.store(available, Ordering::Release);
        self.known_until.store(known_until.0, Ordering::Release);
        if before != available {
            self.version.fetch_add(1, Ordering::Release);
        }
    }

    /// Whether an order can be refused as sold out without asking whoever keeps the stock.
    pub fn is_sold_out(&self, now: UnixMs) -> bool {
        now.0 <= self.known_until.load(Ordering::Acquire) && self.looks_sold_out()
    }

    /// Whether there is nothing to order, by what was said last.
    pub fn looks_sold_out(&self) -> bool {
        let (available, turns) = self.free_and_turns();
        is_sold_out(available, turns)
    }

    /// What is available, and set aside in turns, so that a unit which goes from one to the other meanwhile is in one of them.
    pub fn free_and_turns(&self) -> (u64, u64) {
        loop {
            let (before, available) = (self.turns(), self.available());
            if self.turns() == before {
                return (available, before);
            }
        }
    }

    /// What can be bought. Until the gate has reported it, what the ledger has left: a gate that is away or closed must
    /// never look sold out.
    pub fn available(&self) -> u64 {
        if self.known_until.load(Ordering::Acquire) == 0 {
            return self.total().saturating_sub(self.held()).saturating_sub(self.sold());
        }
        self.available.load(Ordering::Acquire)
    }

    /// Whether anybody has said yet what there is.
    pub fn is_known(&self) -> bool {
        self.known_until.load(Ordering::Acquire) > 0 || self.total() > 0
    }

    /// Units that are set aside for those who were called from a line.
    pub fn turns(&self) -> u64 {
        self.turns.load(Ordering::Acquire)
    }

    pub fn held(&self) -> u64 {
        self.held.load(Ordering::Relaxed)
    }

    pub fn sold(&self) -> u64 {
        self.sold.load(Ordering::Relaxed)
    }

    pub fn total(&self) -> u64 {
        self.total.load(Ordering::Relaxed)
    }

    /// Grows with each publication: whatever was derived from an older version is stale.
    pub fn version(&self) -> u64 {
        self.version.load(Ordering::Acquire)
    }
}

/// A sale as last committed.
#[derive(Clone, Debug)]
pub struct Sale {
    pub spec: Arc<SaleSpec>,
    pub paused: bool,
    /// When an operator ended it, or deleted it.
    pub ended_at: Option<UnixMs>,
    /// Nobody finds it any more, nor its items: it is here so that the others keep their places.
    pub deleted: bool,
    /// Of the first item; the others follow in order.
    pub first_sku: SkuId,
    pub outcomes: Arc<SaleOutcomes>,
    /// Of the latest entry about it.
    version: Seq,
}

impl Sale {
    pub fn phase(&self, now: UnixMs) -> Phase {
        Phase::at(now, self.spec.starts_at, self.spec.ends_at, self.paused, self.ended_at.is_some())
    }

    /// In how many milliseconds it starts, or would if it were not paused. `None`: it has started, or is over.
    pub fn starts_in_ms(&self, now: UnixMs) -> Option<u64> {
        let is_to_come = now < self.spec.starts_at && self.phase(now) != Phase::Ended;
        is_to_come.then(|| self.spec.starts_at.0 - now.0)
    }

    /// It was ended before its start: nothing that its lines promised holds.
    pub fn is_called_off(&self) -> bool {
        self.ended_at.is_some_and(|at| at < self.spec.starts_at)
    }
}

/// A SKU: where it stands, and its counters.
#[derive(Clone, Debug)]
pub struct Sku {
    /// Position in [`Catalog::sales`].
    pub sale: usize,
    /// Position in the sale's items.
    pub item: usize,
    pub counters: Arc<Counters>,
    /// Of an item that is sold to a line.
    pub board: Option<Arc<Board>>,
}

/// All sales as last committed. Immutable; a change makes a new one, which shares with it what did not change. It costs a
/// few copies of pointers for each sale and SKU that there is, so it is made when a sale changes and never for stock.
#[derive(Clone, Debug, Default)]
pub struct Catalog {
    /// Grows with each change.
    pub version: u64,
    /// In the order of creation.
    pub sales: Vec<Sale>,
    /// By [`SkuId`].
    pub skus: Vec<Sku>,
    by_product: Arc<HashMap<(SaleId, ProductId), SkuId>>,
    newest_by_product: Arc<HashMap<ProductId, SkuId>>,
    by_sale: Arc<HashMap<SaleId, usize>>,
    highest_id: Option<SaleId>,
    all_held: Arc<AtomicU64>,
}

impl Catalog {
    /// The catalog of the sales, keeping the counters that readers already hold. `before` was made of the same sales,
    /// with fewer or older ones among them.
    pub fn of(sales: &engine::Sales, before: &Catalog) -> Catalog {
        let mut catalog = Catalog { version: before.version + 1, ..before.clone() };
        for (position, view) in sales.iter().enumerate() {
            match before.sales.get(position) {
                None => catalog.add(view),
                Some(known) if known.version == view.version => {}
                Some(known) => {
                    let same = *known.spec == view.spec;
                    let spec = if same { Arc::clone(&known.spec) } else { Arc::new(view.spec.clone()) };
                    catalog.sales[position] = sale(view, spec, Arc::clone(&known.outcomes));
                    if view.deleted && !known.deleted {
                        catalog.forget(position);
                    }
                }
            }
        }
        catalog
    }

    /// With nothing of what is sold now, for the sales of a ledger that does not go on from these: the next is made of it.
    pub fn begun_anew(&self) -> Catalog {
        Catalog { version: self.version, ..Catalog::default() }
    }

    fn add(&mut self, view: &engine::Sale) {
        let position = self.sales.len();
        let by_product = Arc::make_mut(&mut self.by_product);
        let newest_by_product = Arc::make_mut(&mut self.newest_by_product);
        for (item, spec) in view.spec.items.iter().enumerate() {
            let id = SkuId(u32::try_from(self.skus.len()).expect("the book numbers its SKUs by u32"));
            if !view.deleted {
                by_product.insert((view.spec.id, spec.product), id);
                newest_by_product.insert(spec.product, id);
            }
            let counters = Counters { all_held: Arc::clone(&self.all_held), ..Counters::default() };
            let board = spec.line.map(|_terms| Arc::default());
            self.skus.push(Sku { sale: position, item, counters: Arc::new(counters), board });
        }
        Arc::make_mut(&mut self.by_sale).insert(view.spec.id, position);
        self.highest_id = self.highest_id.max(Some(view.spec.id));
        self.sales.push(sale(view, Arc::new(view.spec.clone()), Arc::default()));
    }

    /// Leaves out the items of a sale that was deleted. Costs a pass over all SKUs, and comes rarely.
    fn forget(&mut self, position: usize) {
        let Catalog { sales, skus, .. } = self;
        let gone = Arc::clone(&sales[position].spec);
        let by_product = Arc::make_mut(&mut self.by_product);
        let newest_by_product = Arc::make_mut(&mut self.newest_by_product);
        let products: HashSet<_> = gone.items.iter().map(|item| item.product).collect();
        for product in &products {
            by_product.remove(&(gone.id, *product));
            newest_by_product.remove(product);
        }
        for (sku, number) in skus.iter().zip(0..) {
            let sale = &sales[sku.sale];
            let product = sale.spec.items[sku.item].product;
            if !sale.deleted && products.contains(&product) {
                newest_by_product.insert(product, SkuId(number));
            }
        }
    }

    /// An order was answered so long after it was asked for.
    pub fn took(&self, id: SkuId, took: Duration) {
        let Some(sku) = self.sku(id) else { return };
        if sku.item < ITEMS_TIMED_MAX {
            sku.counters.outcomes.took(took);
        } else {
            self.sales[sku.sale].outcomes.others_took(took);
        }
    }

    pub fn count_holds_ended(&self, ended: impl IntoIterator<Item = HoldEnded>) {
        for ended in ended {
            if let Some((sale, _)) = self.item(ended.sku) {
                sale.outcomes.hold_ended(&ended);
            }
        }
    }

    /// Units of orders that await payment, over all sales.
    pub fn held(&self) -> u64 {
        self.all_held.load(Ordering::Relaxed)
    }

    /// The number for a new sale: the one after the highest; once `max` is taken, the lowest that is free.
    pub fn next_id(&self, max: u64) -> u64 {
        match self.highest_id {
            None => 1,
            Some(SaleId(highest)) if highest < max => highest + 1,
            Some(_) => (1..max).find(|id| !self.by_sale.contains_key(&SaleId(*id))).unwrap_or(max),
        }
    }

    /// Units of the item that has the most, of all sales that were not deleted, over or not; `None`: there is no sale.
    pub fn largest_total(&self) -> Option<u64> {
        let sales = self.sales.iter().filter(|sale| !sale.deleted);
        let skus = sales.flat_map(|sale| {
            let first = sale.first_sku.0 as usize;
            &self.skus[first..first + sale.spec.items.len()]
        });
        skus.map(|sku| sku.counters.total()).max()
    }

    pub fn sale(&self, id: SaleId) -> Option<&Sale> {
        self.position(id).map(|position| &self.sales[position])
    }

    /// In [`Catalog::sales`], for good; `None` too of a sale that was deleted.
    pub fn position(&self, id: SaleId) -> Option<usize> {
        self.by_sale.get(&id).copied().filter(|position| !self.sales[*position].deleted)
    }

    /// Whether there was a sale of this number, which is deleted.
    pub fn is_deleted(&self, id: SaleId) -> bool {
        self.by_sale.get(&id).is_some_and(|position| self.sales[*position].deleted)
    }

    pub fn sku_id(&self, sale: SaleId, product: ProductId) -> Option<SkuId> {
        self.by_product.get(&(sale, product)).copied()
    }

    pub fn sku(&self, id: SkuId) -> Option<&Sku> {
        self.skus.get(id.0 as usize)
    }

    /// The sale and the item that a SKU belongs to.
    pub fn item(&self, id: SkuId) -> Option<(&Sale, &ItemSpec)> {
        let sku = self.sku(id)?;
        let sale = &self.sales[sku.sale];
        Some((sale, &sale.spec.items[sku.item]))
    }

    /// The newest sale that has this product: for the published stock route, which names no sale.
    pub fn newest_sku_of(&self, product: ProductId) -> Option<SkuId> {
        self.newest_by_product.get(&product).copied()
    }
}

/// A title within a sentence. What turns the direction of text is refused since titles are checked; an older ledger may have it.
pub(crate) fn quoted(title: &str) -> String {
    let shown = |character| if is_plain_char(character) { character } else { '\u{fffd}' };
    format!("“{}”", title.chars().map(shown).collect::<String>())
}

fn sale(view: &engine::Sale, spec: Arc<SaleSpec>, outcomes: Arc<SaleOutcomes>) -> Sale {
    let engine::Sale { paused, ended_at, deleted, first_sku, version, .. } = *view;
    Sale { spec, paused, ended_at, deleted, first_sku, outcomes, version }
}

/// Where the profile publishes and readers look.
#[derive(Debug, Default)]
pub struct Shelf {
    version: AtomicU64,
    current: Mutex<Arc<Catalog>>,
}

impl Shelf {
    pub fn publish(&self, catalog: Catalog) -> Arc<Catalog> {
        let catalog = Arc::new(catalog);
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        self.version.store(catalog.version, Ordering::Release);
        *current = Arc::clone(&catalog);
        catalog
    }

    pub fn current(&self) -> Arc<Catalog> {
        Arc::clone(&self.current.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Brings a reader's copy up to date; costs one atomic load when nothing changed. Returns whether it did.
    pub fn refresh(&self, copy: &mut Arc<Catalog>) -> bool {
        let stale = self.version.load(Ordering::Acquire) != copy.version;
        if stale {
            *copy = self.current();
        }
        stale
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stock_is_sold_out_only_if_somebody_said_so_and_as_long_as_that_holds() {
        let counters = Counters::default();
        assert!(!counters.is_sold_out(UnixMs(1)), "nobody has reported the stock yet");
        counters.publish_gate(0, UnixMs(500));
        assert!(counters.is_sold_out(UnixMs(500)) && !counters.is_sold_out(UnixMs(501)));
        counters.publish_gate(1, UnixMs(900));
        assert!(!counters.is_sold_out(UnixMs(600)));
        // The book's word holds until its next.
        counters.publish(Stock::new(0));
        assert!(counters.is_sold_out(UnixMs(u64::MAX)));
    }

    fn sale(id: u64) -> SaleSpec {
        let item = |product| ItemSpec {
            product: ProductId(product),
            title: "Shoe".to_owned(),
            description: String::new(),
            price: 1,
            list_price: 1,
            total: 10,
            limit: None,
            image: None,
            line: None,
        };
        SaleSpec {
            id: SaleId(id),
            title: "Winter".to_owned(),
            currency: "EUR".to_owned(),
            starts_at: UnixMs(10),
            ends_at: UnixMs(20),
            payment: engine::Payment::OnPlacing,
            open_holds_per_buyer_max: None,
            items: vec![item(7), item(8)],
        }
    }

    #[test]
    fn the_first_items_of_a_sale_are_timed_one_by_one() {
        let mut spec = sale(3);
        let item = |product| ItemSpec { product: ProductId(product), ..spec.items[0].clone() };
        spec.items = (0..=ITEMS_TIMED_MAX as u64).map(item).collect();
        let mut book = engine::Book::new();
        book.execute(UnixMs(1), engine::Command::CreateSale(spec)).unwrap();
        let catalog = Catalog::of(book.registry(), &Catalog::default());
        let skus = &catalog.skus;
        (0..=100).for_each(|sku| catalog.took(SkuId(sku), Duration::from_millis(5)));
        catalog.took(SkuId(9_999), Duration::from_millis(5));
        let timed = skus
            .iter()
            .filter(|sku| sku.counters.outcomes.times().is_some_and(|times| times.total() == 1))
            .count();
        assert_eq!((timed, catalog.sales[0].outcomes.others_times().total()), (ITEMS_TIMED_MAX, 1));
    }

    #[test]
    fn a_change_of_one_sale_leaves_the_others_as_they_are() {
        let mut book = engine::Book::new();
        let mut execute = |command| {
            book.execute(UnixMs(1), command).unwrap();
            book.registry().clone()
        };
        execute(engine::Command::CreateSale(sale(3)));
        let before = execute(engine::Command::CreateSale(sale(5)));
        let before = Catalog::of(&before, &Catalog::default());
        before.skus[0].counters.publish_committed(10, 2, 0);
        before.skus[3].counters.publish_committed(10, 5, 0);
        before.skus[3].counters.publish_committed(10, 4, 1);
        assert_eq!((before.held(), before.next_id(9), before.next_id(5)), (6, 6, 1));
        assert_eq!(before.newest_sku_of(ProductId(7)), Some(SkuId(2)));

        let title = Some("Spring".to_owned());
        let change = engine::SaleChange { title, ..engine::SaleChange::default() };
        let after = execute(engine::Command::ChangeSale { sale: SaleId(5), change });
        let after = Catalog::of(&after, &before);
        let paused = Catalog::of(&execute(engine::Command::Pause(SaleId(5))), &after);
        let same = |one: &Catalog, other: &Catalog, place: usize| {
            Arc::ptr_eq(&one.sales[place].spec, &other.sales[place].spec)
        };
        assert!(same(&before, &after, 0) && !same(&before, &after, 1) && same(&after, &paused, 1));
        assert!(paused.sales[1].paused && !paused.sales[0].paused && !after.sales[1].paused);
        assert_eq!(paused.sales[1].spec.title, "Spring");
        assert!(Arc::ptr_eq(&before.sales[1].outcomes, &paused.sales[1].outcomes), "its counts go on");
        let added = Catalog::of(&execute(engine::Command::CreateSale(sale(4))), &paused);
        assert_eq!((added.version, added.held(), added.next_id(9)), (before.version + 3, 6, 6));
        assert!((0..4).all(|sku| Arc::ptr_eq(&added.skus[sku].counters, &before.skus[sku].counters)));
        assert_eq!((added.newest_sku_of(ProductId(7)), added.position(SaleId(4))), (Some(SkuId(4)), Some(2)));
        assert_eq!(paused.position(SaleId(4)), None, "what readers have does not change");
        let deleted = Catalog::of(&execute(engine::Command::DeleteSale(SaleId(4))), &added);
        let restarted = Catalog::of(book.registry(), &Catalog::default());
        for catalog in [deleted, restarted] {
            assert_eq!((catalog.position(SaleId(4)), catalog.sku_id(SaleId(4), ProductId(7))), (None, None));
            assert_eq!((catalog.newest_sku_of(ProductId(7)), catalog.next_id(9)), (Some(SkuId(2)), 6));
            assert_eq!(catalog.sku_id(SaleId(5), ProductId(7)), Some(SkuId(2)));
            assert_eq!(catalog.sales.len(), 3, "the others keep their places");
        }
    }

    #[test]
    fn until_the_gate_was_read_the_ledger_says_what_is_left() {
        let counters = Counters::default();
        counters.publish_committed(10, 2, 3);
        assert_eq!(counters.available(), 5);
        assert!(!counters.is_sold_out(UnixMs(0)) && !counters.is_sold_out(UnixMs(1)));
        // Pages that show five are stale.
        let version = counters.version();
        counters.publish_gate(0, UnixMs(500));
        assert_eq!(counters.available(), 0);
        assert!(counters.version() > version);
        counters.publish_committed(10, 2, 4);
        assert_eq!(counters.available(), 0, "from now on the gate reports it");
    }
}
