//! Rendered pages with their answers assembled, kept until they show another state than the sale is in.
//!
//! A sale's page is rendered when somebody asks for it and its description, phase, units or stock state (live,
//! almost gone, sold out) has changed. The stock of a hot sale may change its state with every commit, so for
//! that alone a page is rendered once a second at most; the page's script asks for the stock itself.
//!
//! One shelf for all loops, so that a change is rendered once; each loop keeps what it got from there, so
//! that a page is served without a lock.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use engine::{Payment, Phase, SaleSpec, SkuId, UnixMs};

use crate::http::wire::answer::{Answering, NOSNIFF};
use crate::http::wire::fields::Fields;
use crate::intake::catalog::{Catalog, Sale};
use crate::net::Prepared;
use crate::pages::{
    ASSET_CACHE_CONTROL, CONTENT_SECURITY_POLICY, ItemView, Pages, Picture, ProductPage, Rendered, SaleState,
    SaleView,
};

/// Every page: what it may load, that it may not be framed, and that nobody learns where it was left from.
pub(in crate::http) const PAGE_HEADERS: [(&str, &str); 2] =
    [("Content-Security-Policy", CONTENT_SECURITY_POLICY), ("Referrer-Policy", "same-origin")];
/// How long a page stays although the stock's state has changed.
const STALE_STOCK_MS: u64 = 1000;
/// A browser or a CDN may keep a page this long; it asks with the tag afterwards. The page's script asks for
/// what changes faster.
const PAGE_CACHE_CONTROL: &str = "public, max-age=1";

/// A page with its answers: plain, compressed, and "you have it".
#[derive(Debug)]
pub(in crate::http) struct KeptPage {
    pub(in crate::http) rendered: Rendered,
    plain: Prepared,
    gzip: Prepared,
    known: Prepared,
}

impl KeptPage {
    fn new(rendered: Rendered, cache_control: &str) -> KeptPage {
        let [policy, referrer] = PAGE_HEADERS;
        let headers = |etag| {
            [
                policy,
                referrer,
                NOSNIFF,
                ("Cache-Control", cache_control),
                ("Vary", "Accept-Encoding"),
                ("ETag", etag),
            ]
        };
        let (plain, coded) = (headers(&rendered.etag), headers(&rendered.etag_gzip));
        let packed: Vec<_> = coded.into_iter().chain([("Content-Encoding", "gzip")]).collect();
        KeptPage {
            plain: Prepared::new(200, &plain, rendered.content_type, &rendered.body),
            gzip: Prepared::new(200, &packed, rendered.content_type, &rendered.gzip),
            known: Prepared::new(304, &plain, "", b""),
            rendered,
        }
    }

    pub(in crate::http) fn answer(&self, fields: &Fields<'_>, out: &mut Answering<'_, '_>) {
        if fields.if_none_match.is_some_and(|tags| self.rendered.is_known_to(tags)) {
            out.prepared(304, &self.known);
        } else if fields.accept_encoding.is_some_and(takes_gzip) {
            out.prepared(200, &self.gzip);
        } else {
            out.prepared(200, &self.plain);
        }
    }
}

/// Whether gzip is among the accepted codings, and not by a weight of zero.
fn takes_gzip(accepted: &str) -> bool {
    accepted.split(',').any(|coding| {
        let (name, weight) = coding.split_once(';').unwrap_or((coding, ""));
        let refused =
            weight.trim().strip_prefix("q=").is_some_and(|weight| weight.trim_matches(['0', '.']).is_empty());
        matches!(name.trim(), "gzip" | "x-gzip" | "*") && !refused
    })
}

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
    pub(in crate::http) for_member: ProductPage,
}

impl SkuPages {
    /// Whether it may be served still: it shows what is, or only the stock's state is another since a moment.
    fn is_fresh(&self, catalog: &Catalog, sku: SkuId, now: UnixMs) -> bool {
        let (spec, state) = shown(catalog, sku, now);
        let before = self.shown.state;
        Arc::ptr_eq(&self.shown.spec, spec)
            && (before == state
                || (State { stock: before.stock, ..state } == before
                    && now.0 < self.rendered_at.0.saturating_add(STALE_STOCK_MS)))
    }
}

/// What the list of sales shows that can change.
#[derive(Clone, Debug, PartialEq, Eq)]
struct ShownIndex {
    catalog_version: u64,
    phases: Vec<Phase>,
    /// Over all SKUs: a restock changes no sale's description.
    total: u64,
}

/// Pages of all loops.
#[derive(Debug)]
pub(in crate::http) struct PageShelf {
    pub(in crate::http) pages: Pages,
    pub(in crate::http) order: KeptPage,
    pub(in crate::http) api: KeptPage,
    pub(in crate::http) not_found: Rendered,
    assets: HashMap<String, KeptPage>,
    by_sku: Mutex<HashMap<SkuId, Arc<SkuPages>>>,
}

impl PageShelf {
    pub(in crate::http) fn new(pages: Pages) -> PageShelf {
        let assets = pages
            .assets()
            .map(|(path, asset)| (path.to_owned(), KeptPage::new(asset.clone(), ASSET_CACHE_CONTROL)));
        PageShelf {
            order: KeptPage::new(pages.order(), PAGE_CACHE_CONTROL),
            api: KeptPage::new(pages.api(), PAGE_CACHE_CONTROL),
            not_found: pages.not_found(),
            assets: assets.collect(),
            by_sku: Mutex::default(),
            pages,
        }
    }

    pub(in crate::http) fn asset(&self, path: &str) -> Option<&KeptPage> {
        self.assets.get(path)
    }

    /// The page of a SKU as it should be now; rendered if no loop has done it, in a millisecond or two.
    pub(in crate::http) fn sku(&self, catalog: &Catalog, sku: SkuId, now: UnixMs) -> Arc<SkuPages> {
        let mut by_sku = self.by_sku.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(kept) = by_sku.get(&sku).filter(|kept| kept.is_fresh(catalog, sku, now)) {
            return Arc::clone(kept);
        }
        // Under the lock: the other loops would render the same.
        let entry = &catalog.skus[sku.0 as usize];
        let sale = &catalog.sales[entry.sale];
        let view = sale_view(sale, Vec::new(), now);
        let item = item_view(catalog, sale, entry.item);
        let (spec, state) = shown(catalog, sku, now);
        let made = Arc::new(SkuPages {
            shown: Shown { spec: Arc::clone(spec), state },
            rendered_at: now,
            of_sale: KeptPage::new(self.pages.sale(&view, &item), PAGE_CACHE_CONTROL),
            for_member: self.pages.prepare_product(&view, &item),
        });
        by_sku.insert(sku, Arc::clone(&made));
        made
    }

    fn render_index(&self, catalog: &Catalog, now: UnixMs) -> KeptPage {
        // Newest first: that is the one that people come for. Nobody comes for one that is over.
        let mut newest_first: Vec<_> = catalog.sales.iter().rev().collect();
        newest_first.sort_by_key(|sale| sale.phase(now) == Phase::Ended);
        let views: Vec<_> = newest_first
            .into_iter()
            .map(|sale| {
                let items = (0..sale.spec.items.len()).map(|item| item_view(catalog, sale, item)).collect();
                sale_view(sale, items, now)
            })
            .collect();
        KeptPage::new(self.pages.index(&views), PAGE_CACHE_CONTROL)
    }
}

/// What one loop has got from the shelf.
#[derive(Debug, Default)]
pub(in crate::http) struct LoopPages {
    by_sku: Vec<Option<Arc<SkuPages>>>,
    index: Option<(ShownIndex, KeptPage)>,
}

impl LoopPages {
    pub(in crate::http) fn sale(
        &mut self,
        shelf: &PageShelf,
        catalog: &Catalog,
        sku: SkuId,
        now: UnixMs,
    ) -> &Arc<SkuPages> {
        let position = sku.0 as usize;
        if position >= self.by_sku.len() {
            self.by_sku.resize(position + 1, None);
        }
        let place = &mut self.by_sku[position];
        let fresh = place.take().filter(|kept| kept.is_fresh(catalog, sku, now));
        place.insert(fresh.unwrap_or_else(|| shelf.sku(catalog, sku, now)))
    }

    pub(in crate::http) fn index(&mut self, shelf: &PageShelf, catalog: &Catalog, now: UnixMs) -> &KeptPage {
        let phases = catalog.sales.iter().map(|sale| sale.phase(now)).collect();
        let total = catalog.skus.iter().map(|sku| sku.counters.total()).sum();
        let shown = ShownIndex { catalog_version: catalog.version, phases, total };
        let fresh = self.index.take().filter(|(before, _)| *before == shown);
        let kept = fresh.unwrap_or_else(|| (shown, shelf.render_index(catalog, now)));
        &self.index.insert(kept).1
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

fn sale_view(sale: &Sale, items: Vec<ItemView>, now: UnixMs) -> SaleView {
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
        ended_early: sale.ended,
        payment_time_ms: match sale.spec.payment {
            Payment::WithinMs(ms) => ms,
            Payment::OnPlacing => 0,
        },
        items,
    }
}

fn item_view(catalog: &Catalog, sale: &Sale, position: usize) -> ItemView {
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
        picture: Picture::for_title(&item.title),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gzip_is_taken_where_it_is_accepted() {
        for (accepted, taken) in [
            ("gzip", true),
            ("br, gzip;q=0.5", true),
            ("deflate,gzip , br", true),
            ("*", true),
            ("gzip;q=0", false),
            ("gzip; q=0.000, br", false),
            ("identity", false),
            ("notgzip", false),
            ("", false),
        ] {
            assert_eq!(takes_gzip(accepted), taken, "{accepted:?}");
        }
    }

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
