//! Which page is served where. When one is rendered again is `shelf`'s.

pub(super) mod files;
pub(super) mod forms;
pub(super) mod line;
pub(super) mod shelf;

use engine::{ProductId, Refusal, SaleId, SkuId};

use crate::http::HttpService;
use crate::http::call::Call;
use crate::http::lists::{PAGE_HEADERS, Wanted, items_page, sales_page};
use crate::http::pages::shelf::SkuPages;
use crate::http::pending::{Pending, Waiting};
use crate::http::route::{Handler, Route, Served};
use crate::http::routes::session::is_local;
use crate::http::wire::answer::{Answering, ProblemFormat};
use crate::http::wire::error::Problem;
use crate::http::wire::fields::Fields;
use crate::http::wire::{needed_number_in, parameter};
use crate::net::Answer;
use crate::pages::{LANGUAGE_COOKIE, LanguageId};

const HTML: &str = "text/html; charset=utf-8";

pub(super) const ROUTES: &[Route] = &[
    Route::get("/", Handler::Anybody(HttpService::index_page)).problems(ProblemFormat::Page),
    Route::get("/sales/{sale}", Handler::Anybody(HttpService::sale_items_page)).problems(ProblemFormat::Page),
    Route::get("/seckill_{sale}_{product}.html", Handler::Anybody(HttpService::sale_page))
        .problems(ProblemFormat::Page),
    Route::get("/product", Handler::Anybody(HttpService::product_page)).problems(ProblemFormat::Page),
    Route::get("/orders", Handler::Anybody(HttpService::orders_page)).problems(ProblemFormat::Page),
    Route::get("/orders/{id}", Handler::Anybody(HttpService::order_page)).problems(ProblemFormat::FORM),
    Route::get("/api", Handler::Anybody(HttpService::api_page)).problems(ProblemFormat::Page),
    Route::get("/language/{code}", Handler::Anybody(HttpService::choose_language))
        .problems(ProblemFormat::Page),
    Route::get("/buy-button.js", Handler::Anybody(HttpService::buy_button)),
    Route::get("/assets/{name*}", Handler::Anybody(HttpService::asset)).served(Served::Both),
];

impl HttpService {
    fn index_page(&mut self, call: &Call<'_>, out: &mut Answering<'_, '_>) -> Result<Answer, Problem> {
        let language = self.language(&call.fields);
        self.show_list(sales_page(call.request.query, &self.catalog, Some(language))?, call, out)
    }

    fn sale_items_page(&mut self, call: &Call<'_>, out: &mut Answering<'_, '_>) -> Result<Answer, Problem> {
        let language = self.language(&call.fields);
        let page = items_page(call.request.query, &self.catalog, call.params.sale, Some(language))?;
        self.show_list(page, call, out)
    }

    /// The same for every order: its script asks for the order. Where there is none, the page is of the order itself.
    fn order_page(&mut self, call: &Call<'_>, out: &mut Answering<'_, '_>) -> Result<Answer, Problem> {
        if parameter(call.request.query, "plain").is_some() {
            return self.plain_order(call);
        }
        self.shared.pages.order.of(self.language(&call.fields)).answer(&Wanted::of(&call.fields), out);
        Ok(Answer::Ready)
    }

    /// The same for every buyer: its script knows which orders there are.
    #[expect(clippy::unnecessary_wraps, reason = "a route like any other")]
    fn orders_page(&mut self, call: &Call<'_>, out: &mut Answering<'_, '_>) -> Result<Answer, Problem> {
        self.shared.pages.orders.of(self.language(&call.fields)).answer(&Wanted::of(&call.fields), out);
        Ok(Answer::Ready)
    }

    #[expect(clippy::unnecessary_wraps, reason = "a route like any other")]
    fn api_page(&mut self, call: &Call<'_>, out: &mut Answering<'_, '_>) -> Result<Answer, Problem> {
        self.shared.pages.api.answer(&Wanted::of(&call.fields), out);
        Ok(Answer::Ready)
    }

    #[expect(clippy::unnecessary_wraps, reason = "a route like any other")]
    fn buy_button(&mut self, call: &Call<'_>, out: &mut Answering<'_, '_>) -> Result<Answer, Problem> {
        self.shared.pages.buy_button.answer(&Wanted::of(&call.fields), out);
        Ok(Answer::Ready)
    }

    fn asset(&mut self, call: &Call<'_>, out: &mut Answering<'_, '_>) -> Result<Answer, Problem> {
        let asset = self.shared.pages.asset(call.request.path).ok_or_else(Problem::not_found)?;
        asset.answer(&Wanted::of(&call.fields), out);
        Ok(Answer::Ready)
    }

    fn sale_page(&mut self, call: &Call<'_>, out: &mut Answering<'_, '_>) -> Result<Answer, Problem> {
        let sku = self.catalog.sku_id(call.params.sale, call.params.product).ok_or(Refusal::UnknownSku)?;
        let wanted = Wanted::of(&call.fields).to_owned();
        self.with_sku_pages(sku, call, out, move |_, pages, out| pages.of_sale.answer(&wanted, out))
    }

    /// Answers with the pages of a SKU, as soon as there are any that show what is.
    fn with_sku_pages(
        &mut self,
        sku: SkuId,
        call: &Call<'_>,
        out: &mut Answering<'_, '_>,
        show: impl FnOnce(&mut HttpService, &SkuPages, &mut Answering<'_, '_>) + Send + 'static,
    ) -> Result<Answer, Problem> {
        let page = (sku, self.language(&call.fields));
        if let Some(pages) = self.pages.sku(&self.shared.pages, &self.catalog, page, call.now) {
            show(self, &pages, out);
            return Ok(Answer::Ready);
        }
        let asked = (self.client.event_loop(), call.ticket);
        if !self.shared.lists.ask_for_sku(asked, page, show) {
            return Err(Problem::busy());
        }
        self.pending.put(call.ticket, Pending::new(call, Waiting::Thread));
        Ok(Answer::Later)
    }

    /// The product for one member: private, so neither kept nor tagged.
    fn product_page(&mut self, call: &Call<'_>, out: &mut Answering<'_, '_>) -> Result<Answer, Problem> {
        let number = |name| needed_number_in(call.request.query, name);
        let sale = SaleId(number("flashPromotionId")?);
        let product = ProductId(number("promotionProductId")?);
        let member = number("memberId")?;
        let sku = self.catalog.sku_id(sale, product).ok_or(Refusal::UnknownSku)?;
        self.with_sku_pages(sku, call, out, move |service, pages, out| {
            service.scratch.clear();
            service.shared.pages.pages.product(&pages.for_member, member, &mut service.scratch);
            let [policy, referrer] = PAGE_HEADERS;
            out.cached(&[policy, referrer, ("Cache-Control", "private, no-store")], HTML, &service.scratch);
        })
    }

    /// The language that whoever asks gets a page in.
    pub(in crate::http) fn language(&self, fields: &Fields<'_>) -> LanguageId {
        self.shared.pages.pages.languages().for_reader(fields.cookie, fields.accept_language)
    }

    /// Keeps the choice of a language in a cookie, and leads back to where it was made.
    fn choose_language(&mut self, call: &Call<'_>, out: &mut Answering<'_, '_>) -> Result<Answer, Problem> {
        let languages = self.shared.pages.pages.languages();
        let language = languages.find(call.params.name).ok_or_else(Problem::not_found)?;
        let code = languages.code(language);
        let secure = if call.request.secure { "; Secure" } else { "" };
        let cookie = format!("{LANGUAGE_COOKIE}={code}; Path=/; Max-Age=31536000; SameSite=Lax{secure}");
        let back = call.fields.referer.zip(call.fields.host).and_then(|(page, host)| path_here(page, host));
        let headers = [
            ("Location", back.unwrap_or("/")),
            ("Set-Cookie", &*cookie),
            ("Cache-Control", "no-store"),
            ("Referrer-Policy", "same-origin"),
        ];
        out.empty(303, &headers);
        Ok(Answer::Ready)
    }

    /// Why an operator's page could not be had.
    pub(in crate::http) fn operators_trouble_page(&self, problem: &Problem, out: &mut Answering<'_, '_>) {
        let says = (problem.title, &*problem.detail);
        let page = self.shared.pages.pages.operators_trouble(problem.status, problem.code, says);
        forms::problem_page(problem, &page, out);
    }

    /// For a person, instead of a problem's document.
    pub(in crate::http) fn not_found_page(
        &mut self,
        problem: &Problem,
        fields: &Fields<'_>,
        out: &mut Answering<'_, '_>,
    ) {
        let page = self.shared.pages.not_found.of(self.language(fields));
        let [policy, referrer] = PAGE_HEADERS;
        out.body_with(problem.status, &[policy, referrer], page.content_type, &page.body);
    }
}

/// The path of a page of this host; nothing else is gone to.
fn path_here<'a>(page: &'a str, host: &str) -> Option<&'a str> {
    let (_, rest) = page.split_once("://")?;
    let path = rest.strip_prefix(host)?;
    (is_local(path) && !path.starts_with("/language/")).then_some(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_choice_leads_back_to_a_page_of_ours_alone() {
        for (page, path) in [
            ("https://drops.example/orders/1?a=b", Some("/orders/1?a=b")),
            ("https://drops.example/", Some("/")),
            ("https://drops.example", None),
            ("https://drops.example.evil/orders", None),
            ("https://evil.example/drops.example/", None),
            ("https://drops.example//evil.example", None),
            ("https://drops.example/language/de", None),
            ("https://drops.example/a\u{9}b", None),
            ("nonsense", None),
        ] {
            assert_eq!(path_here(page, "drops.example"), path, "{page}");
        }
    }
}
