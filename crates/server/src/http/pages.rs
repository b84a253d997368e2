//! Which page is served where, and when one is rendered again.
//!
//! A sale's page is rendered when somebody asks for it and it shows another state than the sale is in: the
//! description, the phase, the units or the stock's state (live, almost gone, sold out) changed. Then it is kept, with its
//! answers assembled, for all loops. The stock of a hot sale may change its state with every commit, so for
//! that alone a page is rendered once a second at most; the page's script asks for the stock itself.
//!
//! Called by: the service.

mod files;
mod kept;

use std::sync::Arc;

pub use files::PageFiles;
pub(super) use kept::{LoopPages, PageShelf};

use engine::{Payment, ProductId, Refusal, SaleId, UnixMs};

use super::answer::Answering;
use super::error::Problem;
use super::route::Address;
use super::service::{Call, HttpService};
use super::token::BUYER_MAX;
use super::wire::{decimal, parameter};
use crate::catalog::{Catalog, Sale};
use crate::net::Answer;
use crate::pages::{CONTENT_SECURITY_POLICY, ItemView, Picture, SaleState, SaleView};

/// Every page: what it may load, that it may not be framed, and that nobody learns where it was left from.
const PAGE_HEADERS: [(&str, &str); 2] =
    [("Content-Security-Policy", CONTENT_SECURITY_POLICY), ("Referrer-Policy", "same-origin")];
const HTML: &str = "text/html; charset=utf-8";

/// Whether somebody is to read the answer.
pub(super) fn wants_html(call: &Call<'_>) -> bool {
    call.fields.accept.is_some_and(|accept| accept.contains("text/html"))
}

impl HttpService {
    pub(super) fn page(
        &mut self,
        address: Address<'_>,
        call: &Call<'_>,
        out: &mut Answering<'_, '_>,
    ) -> Result<Answer, Problem> {
        let shelf = &self.shared.pages;
        match address {
            Address::SalePage(sale, product) => return self.sale_page(sale, product, call, out),
            Address::ProductPage => return self.product_page(call, out),
            Address::Index => {
                let page = self.pages.index(shelf, &self.catalog, call.now);
                page.answer(&call.fields, out);
            }
            Address::OrderPage => shelf.order.answer(&call.fields, out),
            Address::ApiPage => shelf.api.answer(&call.fields, out),
            _ => shelf.asset(call.request.path).ok_or_else(Problem::not_found)?.answer(&call.fields, out),
        }
        Ok(Answer::Ready)
    }

    fn sale_page(
        &mut self,
        sale: SaleId,
        product: ProductId,
        call: &Call<'_>,
        out: &mut Answering<'_, '_>,
    ) -> Result<Answer, Problem> {
        let sku = self.catalog.sku_id(sale, product).ok_or(Refusal::UnknownSku)?;
        let page = self.pages.sale(&self.shared.pages, &self.catalog, sku, call.now);
        page.of_sale.answer(&call.fields, out);
        Ok(Answer::Ready)
    }

    /// The product for one member: private, so neither kept nor tagged.
    fn product_page(&mut self, call: &Call<'_>, out: &mut Answering<'_, '_>) -> Result<Answer, Problem> {
        let number = |name| {
            let text = parameter(call.request.query, name).unwrap_or_default();
            decimal(text).filter(|number| *number <= BUYER_MAX).ok_or_else(|| {
                Problem::invalid("flashPromotionId, promotionProductId and memberId must be numbers.")
            })
        };
        let sale = SaleId(number("flashPromotionId")?);
        let product = ProductId(number("promotionProductId")?);
        let member = number("memberId")?;
        let sku = self.catalog.sku_id(sale, product).ok_or(Refusal::UnknownSku)?;
        let page = Arc::clone(self.pages.sale(&self.shared.pages, &self.catalog, sku, call.now));
        self.scratch.clear();
        self.shared.pages.pages.product(&page.for_member, member, &mut self.scratch);
        let [policy, referrer] = PAGE_HEADERS;
        out.cached(&[policy, referrer, ("Cache-Control", "private, no-store")], HTML, &self.scratch);
        Ok(Answer::Ready)
    }

    pub(super) fn not_found_page(&mut self, out: &mut Answering<'_, '_>) {
        let page = &self.shared.pages.not_found;
        let [policy, referrer] = PAGE_HEADERS;
        out.body_with(404, &[policy, referrer], page.content_type, &page.body);
    }
}

/// How much of a SKU is left, as far as its page shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StockState {
    Plenty,
    AlmostGone,
    SoldOut,
}

impl StockState {
    /// The page's script draws the line at the same place.
    pub(super) fn of(available: u64, total: u64) -> StockState {
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
        engine::Phase::NotStarted => SaleState::NotStarted,
        engine::Phase::Live => SaleState::Live,
        engine::Phase::Paused => SaleState::Paused,
        engine::Phase::Ended => SaleState::Ended,
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
