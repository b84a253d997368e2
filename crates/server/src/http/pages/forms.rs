//! Ordering without a script: a form, a page to check it, and a page of the order, each made by the server.
//!
//! The form of a product's page is sent without a key. What is answered is a page that shows what would be ordered, with a key of
//! its own; sent again, that page gives the same order, so a second press or a reload buys nothing twice.
//!
//! Must not: judge an order in another way than the API does.

use std::borrow::Cow;
use std::time::Duration;

use engine::{Command, OrderId, ProductId, Refusal, SaleId, Status};
use ring::rand::{SecureRandom, SystemRandom};

use crate::http::HttpService;
use crate::http::call::Call;
use crate::http::lists::PAGE_HEADERS;
use crate::http::placing::order_number::OrderNumber;
use crate::http::placing::{Placed, as_key};
use crate::http::route::{Handler, Route, When};
use crate::http::routes::orders::{PENDING, given_address, order_id, standing};
use crate::http::wire::address::{DeliveryAddress, NAMES, WireAddress};
use crate::http::wire::answer::{Answering, ProblemFormat};
use crate::http::wire::body::parse;
use crate::http::wire::error::Problem;
use crate::http::wire::{
    FORM, decode, is_form, needed_number_in, number_in, parameter, push_hex, push_order_id,
};
use crate::intake::{Reply, Request};
use crate::ledger::Buyer;
use crate::net::Answer;
use crate::pages::{CheckView, HTML_CONTENT_TYPE, LanguageId, OrderPageView, TroubleView};

pub(in crate::http) const ROUTES: &[Route] = &[
    Route::post("/buy", Handler::Anybody(HttpService::buy)).problems(ProblemFormat::FORM),
    Route::post("/orders/{id}/cancel", Handler::Buyer(HttpService::cancel_by_form))
        .problems(ProblemFormat::FORM),
    Route::post("/orders/{id}/address", Handler::Buyer(HttpService::address_by_form))
        .problems(ProblemFormat::FORM),
    Route::post("/orders/{id}/pay", Handler::Buyer(HttpService::pay_by_form))
        .problems(ProblemFormat::FORM)
        .when(When::Demo),
];

/// While an order is pending, its page is asked for again after so many seconds.
const REFRESH: (&str, &str) = ("Refresh", "2");

/// What the form of a product's page says.
struct BuyForm {
    sale: SaleId,
    product: ProductId,
    quantity: u32,
    /// These two of the page to check only.
    key: Option<String>,
    unit_price: Option<u64>,
    /// Fields of the address that are filled in, in their order.
    address: Vec<(&'static str, String)>,
}

impl BuyForm {
    fn of(call: &Call<'_>) -> Result<BuyForm, Problem> {
        let form = form_of(call)?;
        let address = address_of(form)?;
        let key = field(form, "key")?;
        if let Some(key) = &key {
            as_key(key)?;
        }
        Ok(BuyForm {
            sale: SaleId(needed_number_in(form, "sale")?),
            product: ProductId(needed_number_in(form, "product")?),
            quantity: u32::try_from(needed_number_in(form, "quantity")?)
                .map_err(|_too_many| Refusal::InvalidQuantity)?,
            key,
            unit_price: number_in(form, "unit_price").transpose()?,
            address,
        })
    }
}

pub(super) fn form_of<'a>(call: &Call<'a>) -> Result<&'a str, Problem> {
    if !call.fields.content_type.is_some_and(is_form) {
        return Err(Problem::unsupported_media_type(FORM));
    }
    std::str::from_utf8(call.request.body).map_err(|_not_text| Problem::invalid("The form is not text."))
}

/// A field that is filled in.
fn field(form: &str, name: &str) -> Result<Option<String>, Problem> {
    match parameter(form, name).filter(|text| !text.is_empty()).map(decode) {
        Some(None) => Err(Problem::invalid(format!("\"{name}\" must be encoded text."))),
        text => Ok(text.flatten().map(Cow::into_owned)),
    }
}

fn address_of(form: &str) -> Result<Vec<(&'static str, String)>, Problem> {
    let mut address = Vec::new();
    for name in NAMES {
        address.extend(field(form, name)?.map(|text| (name, text)));
    }
    Ok(address)
}

/// As the API takes it.
fn address_json(address: &[(&'static str, String)]) -> Option<Vec<u8>> {
    let fields = address.iter().map(|(name, text)| ((*name).to_owned(), text.as_str().into()));
    let json = || serde_json::Value::Object(fields.collect()).to_string().into_bytes();
    (!address.is_empty()).then(json)
}

/// The fields of an address as it is kept that say something, in their order.
fn texts_of(address: &[u8]) -> Vec<String> {
    let kept: serde_json::Value = serde_json::from_slice(address).unwrap_or_default();
    let texts = NAMES.iter().filter_map(|name| kept.get(name)?.as_str());
    texts.filter(|text| !text.is_empty()).map(str::to_owned).collect()
}

impl HttpService {
    fn buy(&mut self, call: &Call<'_>, out: &mut Answering<'_, '_>) -> Result<Answer, Problem> {
        self.access.auth.same_site(&call.fields, call.request.secure)?;
        let form = BuyForm::of(call)?;
        let json = address_json(&form.address);
        let wire = json.as_deref().map(parse::<WireAddress<'_>>).transpose()?;
        let address = wire.as_ref().map(DeliveryAddress::own).transpose()?;
        let Some(key) = &form.key else { return self.show_check(call, &form, out) };
        let buyer = self.access.auth.buyer(&call.fields, call.between)?;
        let named = (form.sale, form.product);
        if let Some(other) = self.other_price(named, form.unit_price) {
            return self.find_placed(
                call,
                buyer,
                (named, Some(key)),
                other,
                |_, Placed { order, .. }, out| {
                    go_to(order.id, out);
                    Ok(())
                },
            );
        }
        let admitted = self.admit(call, buyer, named, Some(key))?;
        let kept = self.keep_address(true, form.quantity, &[], address);
        let kept = self.or_of_token(call, kept);
        self.place(call, admitted, form.quantity, kept, |_, Placed { order, .. }, out| {
            go_to(order.id, out);
            Ok(())
        })
    }

    /// What would be ordered, with a key. A demonstration's browser gets its cookie here.
    fn show_check(
        &mut self,
        call: &Call<'_>,
        form: &BuyForm,
        out: &mut Answering<'_, '_>,
    ) -> Result<Answer, Problem> {
        let cookie = match self.access.auth.buyer(&call.fields, call.between) {
            Ok(_) => None,
            // Only a demonstration makes one.
            Err(unknown) => self.demo_cookie(call).map_err(|_no_demo| unknown)?,
        };
        let sku = self.catalog.sku_id(form.sale, form.product).ok_or(Refusal::UnknownSku)?;
        let (sale, item) = self.catalog.item(sku).ok_or(Refusal::UnknownSku)?;
        if !(1..=engine::limits::QUANTITY_MAX).contains(&form.quantity) {
            return Err(Refusal::InvalidQuantity.into());
        }
        let mut random = [0; 16];
        SystemRandom::new().fill(&mut random).expect("the system gives entropy");
        let mut key = Vec::with_capacity(32);
        push_hex(&mut key, &random);
        let view = CheckView {
            sale: form.sale.0,
            product: form.product.0,
            title: &item.title,
            quantity: form.quantity,
            unit_price: item.price,
            currency: &sale.spec.currency,
            key: std::str::from_utf8(&key).expect("digits are text"),
            address: &form.address,
        };
        self.scratch.clear();
        self.shared.pages.pages.check(self.language(&call.fields), &view, &mut self.scratch);
        let cookie = cookie.as_deref().map(|cookie| ("Set-Cookie", cookie));
        private_page(200, cookie, &self.scratch, out);
        Ok(Answer::Ready)
    }

    /// For its buyer.
    pub(super) fn plain_order(&mut self, call: &Call<'_>) -> Result<Answer, Problem> {
        let buyer = self.access.auth.buyer(&call.fields, call.between)?.id;
        let order = order_id(call.params.name)?;
        let language = self.language(&call.fields);
        let with_address = self.shared.options.address_after;
        let read = Request::Read { order, buyer: Some(buyer), wait: Duration::ZERO, with_address };
        self.ask(call, read, move |service, reply, out| service.show_plain_order(reply, language, out))
    }

    fn show_plain_order(
        &mut self,
        reply: Reply,
        language: LanguageId,
        out: &mut Answering<'_, '_>,
    ) -> Result<(), Problem> {
        let address = match &reply {
            Reply::AddressedOrder { address, .. } => Some(address.as_deref().map(texts_of)),
            _ => None,
        };
        let (order, standing) = standing(reply)?;
        let Some((sale, item)) = self.catalog.item(order.id.sku) else {
            return Err(Problem::unavailable(
                "The order's sale is not published yet; ask for the order again.",
            ));
        };
        let held = standing == Status::Held.as_str();
        let pay_link = self.access.pay_link.as_ref().filter(|_| held);
        let pay_url = pay_link.and_then(|link| link.of(&order, &sale.spec.currency));
        let mut id = Vec::with_capacity(40);
        push_order_id(&mut id, order.id);
        let number = self.ids.numbers.of(order.seq);
        let view = OrderPageView {
            id: std::str::from_utf8(&id).expect("digits are text"),
            number: number.as_ref().map(OrderNumber::as_str),
            standing,
            sale: sale.spec.id.0,
            product: item.product.0,
            title: &item.title,
            quantity: order.quantity,
            unit_price: order.unit_price,
            currency: &sale.spec.currency,
            placed_at_ms: order.placed_at.0,
            pay_by_ms: order.pay_by.filter(|_| held).map(|at| at.0),
            refund_due: order.refund_due,
            refunded: order.refunded.amount,
            pay_url: pay_url.as_deref(),
            asks_address: address == Some(None) && matches!(order.status, Status::Held | Status::Paid),
            address: &address.flatten().unwrap_or_default(),
        };
        self.scratch.clear();
        self.shared.pages.pages.plain_order(language, &view, &mut self.scratch);
        private_page(200, (standing == PENDING).then_some(REFRESH), &self.scratch, out);
        Ok(())
    }

    fn cancel_by_form(&mut self, call: &Call<'_>, buyer: Buyer) -> Result<Answer, Problem> {
        let order = order_id(call.params.name)?;
        let command = Command::Cancel { order, buyer: buyer.id };
        self.ask(call, Request::Execute(command), move |_, reply, out| {
            standing(reply).map(|_cancelled| go_to(order, out))
        })
    }

    fn address_by_form(&mut self, call: &Call<'_>, buyer: Buyer) -> Result<Answer, Problem> {
        let order = order_id(call.params.name)?;
        let json = address_json(&address_of(form_of(call)?)?).unwrap_or_else(|| b"{}".to_vec());
        let address = given_address(&DeliveryAddress::own(&parse::<WireAddress<'_>>(&json)?)?)?;
        let command = Command::Address { order, buyer: buyer.id, address };
        self.ask(call, Request::Execute(command), move |_, reply, out| {
            standing(reply).map(|_given| go_to(order, out))
        })
    }

    fn pay_by_form(&mut self, call: &Call<'_>, buyer: Buyer) -> Result<Answer, Problem> {
        let order = order_id(call.params.name)?;
        self.pay_demo(call, buyer.id, move |_, reply, out| standing(reply).map(|_paid| go_to(order, out)))
    }

    /// What became of a form, or of a page of an order, that could not be had.
    pub(in crate::http) fn trouble_page(
        &mut self,
        problem: &Problem,
        language: LanguageId,
        out: &mut Answering<'_, '_>,
    ) {
        let view = TroubleView { status: problem.status, code: problem.code, detail: &problem.detail };
        self.scratch.clear();
        self.shared.pages.pages.trouble(language, &view, &mut self.scratch);
        problem_page(problem, &self.scratch, out);
    }
}

/// In the place of what was asked for.
pub(super) fn problem_page(problem: &Problem, body: &[u8], out: &mut Answering<'_, '_>) {
    let seconds = problem.retry_after_s.map(|seconds| seconds.to_string());
    let headers = [
        seconds.as_deref().map(|text| ("Retry-After", text)),
        problem.allow.map(|methods| ("Allow", methods)),
        (problem.status == 401).then_some(("WWW-Authenticate", "Bearer")),
    ];
    private_page(problem.status, headers.into_iter().flatten(), body, out);
}

/// One reader's.
pub(in crate::http) fn private_page<'a>(
    status: u16,
    headers: impl IntoIterator<Item = (&'a str, &'a str)>,
    body: &[u8],
    out: &mut Answering<'_, '_>,
) {
    let headers: Vec<_> = PAGE_HEADERS.into_iter().chain(headers).collect();
    out.body_with(status, &headers, HTML_CONTENT_TYPE, body);
}

/// Leads to the page of an order, which a reload only shows again.
fn go_to(order: OrderId, out: &mut Answering<'_, '_>) {
    let mut path = b"/orders/".to_vec();
    push_order_id(&mut path, order);
    path.extend_from_slice(b"?plain=1");
    out.empty(303, &[("Location", std::str::from_utf8(&path).expect("a path of ASCII characters"))]);
}
