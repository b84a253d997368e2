//! Which page is served where. When one is rendered again is `page_shelf`'s.

pub(super) mod files;
pub(super) mod shelf;

use std::sync::Arc;

use engine::{ProductId, Refusal, SaleId};

use crate::http::auth::token::BUYER_MAX;
use crate::http::pages::shelf::PAGE_HEADERS;
use crate::http::route::Address;
use crate::http::service::{Call, HttpService};
use crate::http::wire::answer::Answering;
use crate::http::wire::error::Problem;
use crate::http::wire::{decimal, parameter};
use crate::net::Answer;

const HTML: &str = "text/html; charset=utf-8";

/// Whether somebody is to read the answer.
pub(in crate::http) fn wants_html(call: &Call<'_>) -> bool {
    call.fields.accept.is_some_and(|accept| accept.contains("text/html"))
}

impl HttpService {
    pub(in crate::http) fn page(
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

    pub(in crate::http) fn not_found_page(&mut self, out: &mut Answering<'_, '_>) {
        let page = &self.shared.pages.not_found;
        let [policy, referrer] = PAGE_HEADERS;
        out.body_with(404, &[policy, referrer], page.content_type, &page.body);
    }
}
