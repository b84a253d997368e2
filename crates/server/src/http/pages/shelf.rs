//! Rendered pages with their answers assembled, kept until they show another state than the sale is in.
//!
//! A sale's page is rendered when somebody asks for it and its description, phase, units or stock state (live,
//! almost gone, sold out) has changed. The stock of a hot sale may change its state with every commit, so for
//! that alone a page is rendered once a second at most; the page's script asks for the stock itself.
//!
//! One shelf for all loops, so that a change is rendered once, on the thread that renders lists; each loop keeps what it
//! got from there, so that a page is served without a lock. Both are bounded: a year's sales have many pages.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use engine::{Payment, Phase, SaleSpec, SkuId, UnixMs};

use crate::http::lists::{Bounded, KeptPage, PAGE_CACHE_CONTROL, STALE_STOCK_MS};
use crate::intake::catalog::{Catalog, Sale};
use crate::pages::{
    ASSET_CACHE_CONTROL, BUTTON_CACHE_CONTROL, Image, ImageView, ItemView, LanguageId, Pages, PreparedPage,
    Rendered, SaleState, SaleView, TurnView,
};

/// Pages of SKUs that are kept for all loops, of about 30 kB each, and their bytes; and those that each loop keeps of them.
const KEPT_MAX: usize = 1024;
const KEPT_BYTES_MAX: usize = 32 * 1024 * 1024;
/// Images of items that are in memory, and their bytes; the others are read anew.
const KEPT_IMAGES_MAX: usize = 4096;
const KEPT_IMAGE_BYTES_MAX: usize = 128 * 1024 * 1024;
const KEPT_BY_LOOP_MAX: usize = 256;
const KEPT_BYTES_BY_LOOP_MAX: usize = 8 * 1024 * 1024;

/// What a page shows that can change, beside the sale's description.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct State {
    phase: Phase,
    total: u64,
    stock: StockState,
}

/// What a page shows, by the description's identity: the catalog shares it until the sale is changed.
#[derive(Clone, Debug)]
pub(in crate::http) struct Shown {
    spec: Arc<SaleSpec>,
    state: State,
}

impl Shown {
    /// Whether two pages show the same.
    pub(in crate::http) fn is(&self, other: &Shown) -> bool {
        Arc::ptr_eq(&self.spec, &other.spec) && self.state == other.state
    }

    /// Whether a page of this shows what the sale is now.
    pub(in crate::http) fn is_now(&self, catalog: &Catalog, sku: SkuId, now: UnixMs) -> bool {
        let (spec, state) = shown(catalog, sku, now);
        Arc::ptr_eq(&self.spec, spec) && self.state == state
    }
}

fn shown(catalog: &Catalog, sku: SkuId, now: UnixMs) -> (&Arc<SaleSpec>, State) {
    let entry = &catalog.skus[sku.0 as usize];
    let sale = &catalog.sales[entry.sale];
    let total = entry.counters.total();
    let stock = StockState::of(entry.counters.available(), total);
    (&sale.spec, State { phase: sale.phase(now), total, stock })
}

/// The page of a SKU, and the one for a member, which its member is written into.
#[derive(Debug)]
pub(in crate::http) struct SkuPages {
    pub(in crate::http) shown: Shown,
    rendered_at: UnixMs,
    pub(in crate::http) of_sale: KeptPage,
    pub(in crate::http) for_member: PreparedPage,
}

impl SkuPages {
    /// Whether it may be served still: it shows what is, or only the stock's state is another since a moment.
    fn is_fresh(&self, catalog: &Catalog, sku: SkuId, now: UnixMs) -> bool {
        let (spec, state) = shown(catalog, sku, now);
        let before = self.shown.state;
        Arc::ptr_eq(&self.shown.spec, spec)
            && (before == state
                || (State { stock: before.stock, ..state } == before
                    && now.0.abs_diff(self.rendered_at.0) < STALE_STOCK_MS))
    }
}

/// Pages of all loops.
#[derive(Debug)]
pub(in crate::http) struct PageShelf {
    pub(in crate::http) pages: Pages,
    pub(in crate::http) order: ByLanguage<KeptPage>,
    pub(in crate::http) orders: ByLanguage<KeptPage>,
    pub(in crate::http) api: KeptPage,
    pub(in crate::http) console: KeptPage,
    pub(in crate::http) runbook: KeptPage,
    pub(in crate::http) buy_button: KeptPage,
    pub(in crate::http) not_found: ByLanguage<Rendered>,
    assets: HashMap<String, KeptPage>,
    by_sku: Mutex<Bounded<(SkuId, LanguageId), Arc<SkuPages>>>,
    images: Mutex<Bounded<String, Arc<KeptPage>>>,
}

/// One of something for each language.
#[derive(Debug)]
pub(in crate::http) struct ByLanguage<T>(HashMap<LanguageId, T>);

impl<T> ByLanguage<T> {
    fn new(pages: &Pages, make: impl Fn(LanguageId) -> T) -> ByLanguage<T> {
        ByLanguage(pages.languages().ids().map(|language| (language, make(language))).collect())
    }

    pub(in crate::http) fn of(&self, language: LanguageId) -> &T {
        self.0.get(&language).expect("there is one for each language")
    }
}

impl PageShelf {
    pub(in crate::http) fn new(pages: Pages) -> PageShelf {
        let assets = pages
            .assets()
            .map(|(path, asset)| (path.to_owned(), KeptPage::plain(asset, ASSET_CACHE_CONTROL)));
        PageShelf {
            order: ByLanguage::new(&pages, |language| {
                KeptPage::page(&pages.order(language), PAGE_CACHE_CONTROL)
            }),
            orders: ByLanguage::new(&pages, |language| {
                KeptPage::page(&pages.orders(language), PAGE_CACHE_CONTROL)
            }),
            api: KeptPage::plain(&pages.api(), PAGE_CACHE_CONTROL),
            console: KeptPage::plain(&pages.console(), PAGE_CACHE_CONTROL),
            runbook: KeptPage::plain(&pages.runbook(), PAGE_CACHE_CONTROL),
            buy_button: KeptPage::plain(&pages.buy_button(), BUTTON_CACHE_CONTROL),
            not_found: ByLanguage::new(&pages, |language| pages.not_found(language)),
            assets: assets.collect(),
            by_sku: Mutex::new(Bounded::new(KEPT_MAX, KEPT_BYTES_MAX)),
            images: Mutex::new(Bounded::new(KEPT_IMAGES_MAX, KEPT_IMAGE_BYTES_MAX)),
            pages,
        }
    }

    pub(in crate::http) fn asset(&self, path: &str) -> Option<&KeptPage> {
        self.assets.get(path)
    }

    /// An image of an item, if it is in memory.
    pub(in crate::http) fn image(&self, name: &str) -> Option<Arc<KeptPage>> {
        self.images().get(name.to_owned()).map(Arc::clone)
    }

    pub(in crate::http) fn put_image(&self, image: &Image) -> Arc<KeptPage> {
        let kept = Arc::new(KeptPage::image(image, ASSET_CACHE_CONTROL));
        self.images().put(image.name(), Arc::clone(&kept), kept.bytes());
        kept
    }

    pub(in crate::http) fn remove_image(&self, name: &str) {
        self.images().remove(&name.to_owned());
    }

    fn images(&self) -> MutexGuard<'_, Bounded<String, Arc<KeptPage>>> {
        self.images.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The pages of a SKU, if they are kept and show what is.
    fn kept(&self, catalog: &Catalog, page: (SkuId, LanguageId), now: UnixMs) -> Option<Arc<SkuPages>> {
        let mut by_sku = self.by_sku.lock().unwrap_or_else(PoisonError::into_inner);
        by_sku.get(page).filter(|kept| kept.is_fresh(catalog, page.0, now)).map(Arc::clone)
    }

    /// The pages of a SKU as they should be now; rendered if need be, in a millisecond or two, so not for a loop.
    pub(in crate::http) fn sku(
        &self,
        catalog: &Catalog,
        (sku, language): (SkuId, LanguageId),
        now: UnixMs,
    ) -> Arc<SkuPages> {
        if let Some(kept) = self.kept(catalog, (sku, language), now) {
            return kept;
        }
        let entry = &catalog.skus[sku.0 as usize];
        let sale = &catalog.sales[entry.sale];
        let (spec, state) = shown(catalog, sku, now);
        let view = sale_view(sale, Vec::new(), now);
        let item = item_view(catalog, sale, entry.item);
        let made = Arc::new(SkuPages {
            shown: Shown { spec: Arc::clone(spec), state },
            rendered_at: now,
            of_sale: KeptPage::page(&self.pages.sale(language, &view, &item), PAGE_CACHE_CONTROL),
            for_member: self.pages.prepare_product(language, &view, &item),
        });
        // The one for a member is another copy of the plain page.
        let bytes = 2 * made.of_sale.bytes();
        let mut by_sku = self.by_sku.lock().unwrap_or_else(PoisonError::into_inner);
        by_sku.put((sku, language), Arc::clone(&made), bytes);
        made
    }
}

/// What one loop has got from the shelf.
#[derive(Debug)]
pub(in crate::http) struct LoopPages(Bounded<(SkuId, LanguageId), Arc<SkuPages>>);

impl Default for LoopPages {
    fn default() -> LoopPages {
        LoopPages(Bounded::new(KEPT_BY_LOOP_MAX, KEPT_BYTES_BY_LOOP_MAX))
    }
}

impl LoopPages {
    /// The pages of a SKU, if they show what is; otherwise they are to be rendered.
    pub(in crate::http) fn sku(
        &mut self,
        shelf: &PageShelf,
        catalog: &Catalog,
        page: (SkuId, LanguageId),
        now: UnixMs,
    ) -> Option<Arc<SkuPages>> {
        if let Some(kept) = self.0.get(page).filter(|kept| kept.is_fresh(catalog, page.0, now)) {
            return Some(Arc::clone(kept));
        }
        let kept = shelf.kept(catalog, page, now)?;
        self.0.put(page, Arc::clone(&kept), 2 * kept.of_sale.bytes());
        Some(kept)
    }
}

/// How much of a SKU is left, as far as its page shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::http) enum StockState {
    Plenty,
    AlmostGone,
    SoldOut,
}

impl StockState {
    /// The page's script draws the line at the same place.
    pub(in crate::http) fn of(available: u64, total: u64) -> StockState {
        if available == 0 {
            StockState::SoldOut
        } else if available <= (total / 10).max(10) && available < total {
            StockState::AlmostGone
        } else {
            StockState::Plenty
        }
    }
}

pub(in crate::http) fn sale_view(sale: &Sale, items: Vec<ItemView>, now: UnixMs) -> SaleView {
    let state = match sale.phase(now) {
        Phase::NotStarted => SaleState::NotStarted,
        Phase::Live => SaleState::Live,
        Phase::Paused => SaleState::Paused,
        Phase::Ended => SaleState::Ended,
    };
    SaleView {
        id: sale.spec.id.0,
        title: sale.spec.title.clone(),
        currency: sale.spec.currency.clone(),
        state,
        starts_at_ms: sale.spec.starts_at.0,
        ends_at_ms: sale.spec.ends_at.0,
        ended_early: sale.ended_at.is_some(),
        payment_time_ms: match sale.spec.payment {
            Payment::WithinMs(ms) => ms,
            Payment::OnPlacing => 0,
        },
        items,
        items_total: sale.spec.items.len(),
    }
}

pub(in crate::http) fn item_view(catalog: &Catalog, sale: &Sale, position: usize) -> ItemView {
    let item = &sale.spec.items[position];
    let counters = &catalog.skus[sale.first_sku.0 as usize + position].counters;
    ItemView {
        product: item.product.0,
        title: item.title.clone(),
        description: item.description.clone(),
        price: item.price,
        list_price: Some(item.list_price),
        total: counters.total(),
        available: counters.available(),
        limit: item.limit,
        line: item.line.map(|line| TurnView {
            units: line.units,
            turn_ms: line.turn_ms,
            grace_ms: line.grace_ms,
        }),
        image: item.image.as_ref().map(|image| ImageView {
            path: Pages::image_path(sale.spec.id.0, item.product.0, &image.name),
            alt: image.alt.clone(),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_stock_has_three_states() {
        for (available, total, state) in [
            (0, 100, StockState::SoldOut),
            (1, 100, StockState::AlmostGone),
            (10, 100, StockState::AlmostGone),
            (11, 100, StockState::Plenty),
            (10, 10, StockState::Plenty),
            (9, 10, StockState::AlmostGone),
            (1_000_001, 10_000_000, StockState::Plenty),
            (1_000_000, 10_000_000, StockState::AlmostGone),
            (0, 0, StockState::SoldOut),
        ] {
            assert_eq!(StockState::of(available, total), state, "{available} of {total}");
        }
    }
}
