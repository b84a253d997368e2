//! Which page is served where. When one is rendered again is `shelf`'s.

pub(super) mod files;
pub(super) mod shelf;

use std::sync::Arc;

use engine::{ProductId, Refusal, SaleId};

use crate::http::HttpService;
use crate::http::call::Call;
use crate::http::pages::shelf::PAGE_HEADERS;
use crate::http::route::{Handler, Route};
use crate::http::wire::answer::{Answering, Shape};
use crate::http::wire::error::Problem;
use crate::http::wire::needed_number_in;
use crate::net::Answer;

const HTML: &str = "text/html; charset=utf-8";

pub(super) const ROUTES: &[Route] = &[
    Route::get("/", Handler::Anybody(HttpService::index_page)).problems(Shape::Page),
    Route::get("/seckill_{sale}_{product}.html", Handler::Anybody(HttpService::sale_page))
        .problems(Shape::Page),
    Route::get("/product", Handler::Anybody(HttpService::product_page)).problems(Shape::Page),
    Route::get("/orders/{id}", Handler::Anybody(HttpService::order_page)).problems(Shape::Page),
    Route::get("/api", Handler::Anybody(HttpService::api_page)).problems(Shape::Page),
    Route::get("/assets/{name*}", Handler::Anybody(HttpService::asset)),
];

impl HttpService {
    fn index_page(&mut self, call: &Call<'_>, out: &mut Answering<'_, '_>) -> Result<Answer, Problem> {
        self.pages.index(&self.shared.pages, &self.catalog, call.now).answer(&call.fields, out);
        Ok(Answer::Ready)
    }

    /// The same for every order: its script asks for the order.
    #[expect(clippy::unnecessary_wraps, reason = "a route like any other")]
    fn order_page(&mut self, call: &Call<'_>, out: &mut Answering<'_, '_>) -> Result<Answer, Problem> {
        self.shared.pages.order.answer(&call.fields, out);
        Ok(Answer::Ready)
    }

    #[expect(clippy::unnecessary_wraps, reason = "a route like any other")]
    fn api_page(&mut self, call: &Call<'_>, out: &mut Answering<'_, '_>) -> Result<Answer, Problem> {
        self.shared.pages.api.answer(&call.fields, out);
        Ok(Answer::Ready)
    }

    fn asset(&mut self, call: &Call<'_>, out: &mut Answering<'_, '_>) -> Result<Answer, Problem> {
        let asset = self.shared.pages.asset(call.request.path).ok_or_else(Problem::not_found)?;
        asset.answer(&call.fields, out);
        Ok(Answer::Ready)
    }

    fn sale_page(&mut self, call: &Call<'_>, out: &mut Answering<'_, '_>) -> Result<Answer, Problem> {
        let sku = self.catalog.sku_id(call.params.sale, call.params.product).ok_or(Refusal::UnknownSku)?;
        let page = self.pages.sale(&self.shared.pages, &self.catalog, sku, call.now);
        page.of_sale.answer(&call.fields, out);
        Ok(Answer::Ready)
    }

    /// The product for one member: private, so neither kept nor tagged.
    fn product_page(&mut self, call: &Call<'_>, out: &mut Answering<'_, '_>) -> Result<Answer, Problem> {
        let number = |name| needed_number_in(call.request.query, name);
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
