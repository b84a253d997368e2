//! Orders of our own API: place, read, cancel; and the feed of changed orders for the shop's fulfilment.

use std::time::Duration;

use engine::{
    Accepted, BuyerId, Command, Fingerprint, OrderId, OrderView, ProductId, Refusal, Role, SaleId, Status,
};
use serde::Deserialize;

use crate::http::HttpService;
use crate::http::auth::operators::Actor;
use crate::http::call::Call;
use crate::http::pay_link::PayLink;
use crate::http::placing::order_number::OrderNumber;
use crate::http::placing::{Placed, key_of};
use crate::http::reads::{LedgerRead, ShowRead};
use crate::http::route::{Handler, Route, Served};
use crate::http::wire::address::{DeliveryAddress, WireAddress};
use crate::http::wire::answer::Answering;
use crate::http::wire::body::read_object;
use crate::http::wire::error::Problem;
use crate::http::wire::{
    Number, Object, Ordered, decimal, decode, not_null, number_in, parameter, push_number, push_order_id,
    push_text,
};
use crate::intake::catalog::Catalog;
use crate::intake::{Reply, Request};
use crate::ledger::{Buyer, Changes, OrderLine};
use crate::net::Answer;

pub(in crate::http) const ROUTES: &[Route] = &[
    Route::post("/api/v1/orders", Handler::Buyer(HttpService::place_order)),
    Route::get("/api/v1/orders", Handler::OperatorReads(Role::Operator, read_feed)),
    Route::get("/api/v1/orders/{id?}", Handler::Anybody(HttpService::read_order)).served(Served::Both),
    Route::post("/api/v1/orders/{id?}/cancel", Handler::Anybody(HttpService::cancel_order))
        .served(Served::Both),
    Route::post("/api/v1/orders/{id?}/address", Handler::Buyer(HttpService::give_address)),
];

/// Longest wait that a reader may ask for, in seconds: for an order that is pending.
const WAIT_S_MAX: u64 = 30;
/// Ledger entries that one page of the feed looks through.
const FEED_ENTRIES_DEFAULT: u64 = 1000;
const FEED_ENTRIES_MAX: u64 = 5000;
const FEED_WAIT_S_MAX: u64 = 30;
/// What the ledger does not know of: an order on its way to it, and one that it could not keep.
pub(in crate::http) const PENDING: &str = "pending";
const LOST: &str = "rejected";
const STATUSES: [Status; 5] =
    [Status::Held, Status::Paid, Status::Cancelled, Status::Expired, Status::Refunded];
const ORDERS_PATH: &[u8] = b"/api/v1/orders/";

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NewOrder<'a> {
    sale: Number,
    product: Number,
    #[serde(default = "one")]
    quantity: Ordered,
    /// What the buyer was shown.
    unit_price: Option<Number>,
    #[serde(borrow, default, deserialize_with = "not_null")]
    address: Option<WireAddress<'a>>,
}

fn one() -> Ordered {
    Ordered(1)
}

/// The name of an order, from a path. What can't be one is answered like one that does not exist.
pub(in crate::http) fn order_id(text: &str) -> Result<OrderId, Problem> {
    text.parse().map_err(|engine::NotAnOrderId| Problem::from(Refusal::UnknownOrder))
}

/// An order, and how it stands.
pub(in crate::http) fn standing(reply: Reply) -> Result<(OrderView, &'static str), Problem> {
    match reply {
        Reply::Order(order)
        | Reply::AddressedOrder { order, .. }
        | Reply::Accepted(Accepted::Order { order, .. }) => Ok((order, order.status.as_str())),
        Reply::Pending { order, .. } => Ok((order, PENDING)),
        Reply::Lost(order) => Ok((order, LOST)),
        reply => Err(reply.into()),
    }
}

impl HttpService {
    fn place_order(&mut self, call: &Call<'_>, buyer: Buyer) -> Result<Answer, Problem> {
        let key = key_of(call)?;
        let order: NewOrder<'_> = read_object(call)?;
        let address = order.address.as_ref().map(DeliveryAddress::own).transpose()?;
        let text = buyer.text.clone();
        let named = (SaleId(order.sale.0), ProductId(order.product.0));
        if let Some(other) = self.other_price(named, order.unit_price.map(|price| price.0)) {
            return self.find_placed(call, buyer, (named, key), other, move |service, placed, out| {
                service.show_placed(placed, text.as_deref(), out)
            });
        }
        let admitted = self.admit(call, buyer, named, key)?;
        let kept = self.keep_address(key.is_some(), order.quantity.0, &[], address);
        let kept = self.or_of_token(call, kept);
        let quantity = order.quantity.0;
        match text {
            // What carries nothing allocates nothing.
            None => self.place(call, admitted, quantity, kept, |service, placed, out| {
                service.show_placed(placed, None, out)
            }),
            Some(text) => self.place(call, admitted, quantity, kept, move |service, placed, out| {
                service.show_placed(placed, Some(&text), out)
            }),
        }
    }

    /// The address as it is kept, and the fingerprint of the request; without a key nothing is compared.
    /// `numbers` are what the route's request says beside it.
    pub(in crate::http) fn keep_address(
        &self,
        keyed: bool,
        quantity: u32,
        numbers: &[Option<u64>],
        address: Option<DeliveryAddress<'_>>,
    ) -> (Option<Box<[u8]>>, Fingerprint) {
        let parts = address.iter().flat_map(DeliveryAddress::fields);
        let fingerprint = if keyed { self.ids.fingerprint(quantity, numbers, parts) } else { Fingerprint(0) };
        (address.map(DeliveryAddress::to_json), fingerprint)
    }

    /// The address of the token, if there is one, in place of the request's. The fingerprint is the request's: one that is
    /// repeated with a newer token is the same.
    pub(in crate::http) fn or_of_token(
        &self,
        call: &Call<'_>,
        (address, fingerprint): (Option<Box<[u8]>>, Fingerprint),
    ) -> (Option<Box<[u8]>>, Fingerprint) {
        (self.access.auth.address(&call.fields, call.between).or(address), fingerprint)
    }

    /// The first answer and every repetition of it: the order as it was placed. 201: it is in the ledger; 202:
    /// the broker has it, and the ledger will.
    fn show_placed(
        &mut self,
        Placed { order, in_ledger, replayed }: Placed,
        buyer: Option<&str>,
        out: &mut Answering<'_, '_>,
    ) -> Result<(), Problem> {
        let (status, text) = if in_ledger { (201, order.status.as_str()) } else { (202, PENDING) };
        self.scratch.clear();
        self.scratch.extend_from_slice(ORDERS_PATH);
        push_order_id(&mut self.scratch, order.id);
        let location_bytes = self.scratch.len();
        write_order(&mut self.scratch, &self.catalog, &order, buyer, &ShownOrder::only(text))?;
        let (location, body) = self.scratch.split_at(location_bytes);
        let location = std::str::from_utf8(location).expect("a path of ASCII characters");
        let headers = [("Location", location), ("Idempotency-Replayed", "true")];
        out.json_with(status, &headers[..1 + usize::from(replayed)], body);
        Ok(())
    }

    /// For its buyer, and for operators.
    fn read_order(&mut self, call: &Call<'_>, _out: &mut Answering<'_, '_>) -> Result<Answer, Problem> {
        let wait = parameter(call.request.query, "wait").map_or(Some(0), decimal);
        let wait = wait.filter(|seconds| *seconds <= WAIT_S_MAX).map(Duration::from_secs);
        let wait = wait.ok_or_else(|| {
            Problem::invalid(format!("\"wait\" must be a whole number of seconds from 0 to {WAIT_S_MAX}."))
        })?;
        let buyer = match self.who(call) {
            Some(actor) if actor.role >= Role::Support => None,
            // Who watches in the browser in which they buy is a buyer, too.
            actor => {
                let buyer = self.access.auth.buyer(&call.fields, call.between);
                Some(buyer.map_err(|problem| self.no_buyer(call, actor.as_ref(), problem))?)
            }
        };
        let order = order_id(call.params.name)?;
        let (buyer, text) = buyer.map_or((None, None), |buyer| (Some(buyer.id), buyer.text));
        let read = Request::Read { order, buyer, wait, with_address: self.shared.options.address_after };
        self.ask(call, read, move |service, reply, out| service.show_order(reply, text.as_deref(), out))
    }

    /// Why not, of somebody who is no buyer: an operator may less, or a token is a guess.
    fn no_buyer(&self, call: &Call<'_>, actor: Option<&Actor>, problem: Problem) -> Problem {
        match actor {
            Some(_) => Problem::role_required(Role::Support),
            None => self.check_guess(call).err().unwrap_or(problem),
        }
    }

    /// For its buyer, and for operators who support buyers.
    fn cancel_order(&mut self, call: &Call<'_>, _out: &mut Answering<'_, '_>) -> Result<Answer, Problem> {
        let actor = self.who(call);
        if actor.as_ref().is_some_and(|actor| actor.role >= Role::Support) {
            self.operator(call, Role::Support)?;
            let command = call.command(Command::CancelFor(order_id(call.params.name)?));
            return self.ask(call, command, |service, reply, out| service.show_order(reply, None, out));
        }
        let buyer = self.acting_buyer(call);
        let buyer = buyer.map_err(|problem| self.no_buyer(call, actor.as_ref(), problem));
        let Buyer { id: buyer, text } = buyer?;
        let command = Command::Cancel { order: order_id(call.params.name)?, buyer };
        self.ask(call, Request::Execute(command), move |service, reply, out| {
            service.show_order(reply, text.as_deref(), out)
        })
    }

    /// Of an order that was placed without one, once. The same again is answered as the first time.
    fn give_address(&mut self, call: &Call<'_>, buyer: Buyer) -> Result<Answer, Problem> {
        let order = order_id(call.params.name)?;
        let wire: WireAddress<'_> = read_object(call)?;
        let address = given_address(&DeliveryAddress::own(&wire)?)?;
        let Buyer { id: buyer, text } = buyer;
        let command = Command::Address { order, buyer, address: address.clone() };
        self.ask(call, Request::Execute(command), move |service, reply, out| {
            let reply = match reply {
                Reply::Accepted(Accepted::Order { order, .. }) => {
                    Reply::AddressedOrder { order, address: Some(address) }
                }
                reply => reply,
            };
            service.show_order(reply, text.as_deref(), out)
        })
    }

    /// `buyer`: whoever asks, if a text names them.
    pub(in crate::http) fn show_order(
        &mut self,
        reply: Reply,
        buyer: Option<&str>,
        out: &mut Answering<'_, '_>,
    ) -> Result<(), Problem> {
        let (reply, address) = match reply {
            Reply::AddressedOrder { order, address } => (Reply::Order(order), Some(address)),
            reply => (reply, None),
        };
        let (order, standing) = standing(reply)?;
        self.scratch.clear();
        // Not where an order is placed: that stays as short and as fast as it is.
        let pay_link = self.access.pay_link.as_ref().filter(|_| standing == Status::Held.as_str());
        let number = self.ids.numbers.of(order.seq);
        let shown =
            ShownOrder { standing, number, pay_link, address: address.as_ref().map(Option::as_deref) };
        write_order(&mut self.scratch, &self.catalog, &order, buyer, &shown)?;
        out.json(200, &self.scratch);
        Ok(())
    }

    fn show_feed(&mut self, changes: &Changes, out: &mut Answering<'_, '_>) {
        self.scratch.clear();
        Object::begin(&mut self.scratch)
            .list("orders", &changes.orders, write_line)
            .number("cursor", changes.cursor)
            .flag("more", changes.more)
            .end();
        out.json(200, &self.scratch);
    }
}

/// Which orders of the feed are asked for. They are picked from what a page looks through: its cost is the same, and its
/// cursor leads past the others.
#[derive(Debug)]
struct Filter {
    status: Option<&'static str>,
    sale: Option<u64>,
    product: Option<u64>,
    buyer: Option<String>,
}

impl Filter {
    fn of(query: &str) -> Result<Filter, Problem> {
        let number = |name| number_in(query, name).transpose();
        let status = |text| {
            let known = STATUSES.map(Status::as_str);
            let status = known.into_iter().find(|known| *known == text);
            status.ok_or_else(|| {
                Problem::invalid("\"status\" must be held, paid, cancelled, expired or refunded.")
            })
        };
        let buyer = |text| decode(text).ok_or_else(|| Problem::invalid("\"buyer\" must be encoded text."));
        Ok(Filter {
            status: parameter(query, "status").map(status).transpose()?,
            sale: number("sale")?,
            product: number("product")?,
            buyer: parameter(query, "buyer").map(buyer).transpose()?.map(std::borrow::Cow::into_owned),
        })
    }

    fn lets_through(&self, line: &OrderLine) -> bool {
        self.status.is_none_or(|status| status == line.status.as_str())
            && self.sale.is_none_or(|sale| sale == line.sale.0)
            && self.product.is_none_or(|product| product == line.product.0)
            && self.buyer.as_ref().is_none_or(|buyer| *buyer == line.buyer)
    }
}

/// A page of the feed of changed orders, from a cursor.
fn read_feed(call: &Call<'_>) -> Result<LedgerRead, Problem> {
    let number = |name, default| number_in(call.request.query, name).unwrap_or(Ok(default));
    let entries_max = number("limit", FEED_ENTRIES_DEFAULT)?;
    if !(1..=FEED_ENTRIES_MAX).contains(&entries_max) {
        return Err(Problem::invalid(format!(
            "\"limit\" must be a whole number from 1 to {FEED_ENTRIES_MAX}."
        )));
    }
    let wait_s = number("wait", 0)?;
    if wait_s > FEED_WAIT_S_MAX {
        return Err(Problem::invalid(format!(
            "\"wait\" must be a whole number from 0 to {FEED_WAIT_S_MAX}."
        )));
    }
    let since = number("since", 0)?;
    let filter = Filter::of(call.request.query)?;
    let read = LedgerRead::new(move |ledger| match ledger.changes(since, entries_max) {
        Ok(mut changes) => Ok(ShowRead::new(move |service, out| {
            changes.orders.retain(|line| filter.lets_through(line));
            service.show_feed(&changes, out);
            Ok(())
        })),
        Err(error) if error.is_cursor_ahead() => {
            Ok(ShowRead::new(move |_, _| Err(Problem::cursor_ahead(error.to_string()))))
        }
        Err(error) => Err(error),
    });
    Ok(if wait_s == 0 { read } else { read.once_there_is_more(since, Duration::from_secs(wait_s)) })
}

/// What is said of an order beside what it is.
pub(super) struct ShownOrder<'a> {
    pub(super) standing: &'a str,
    /// `None` while it is not in the ledger.
    pub(super) number: Option<OrderNumber>,
    pub(super) pay_link: Option<&'a PayLink>,
    /// `None`: nothing is said of it.
    pub(super) address: Option<Option<&'a [u8]>>,
}

impl<'a> ShownOrder<'a> {
    pub(super) fn only(standing: &'a str) -> ShownOrder<'a> {
        ShownOrder { standing, number: None, pay_link: None, address: None }
    }
}

/// An address as it is kept, for an order that is given it: it can be given once, so one that says nothing is refused.
pub(in crate::http) fn given_address(address: &DeliveryAddress<'_>) -> Result<Box<[u8]>, Problem> {
    if address.fields().flatten().all(is_blank) {
        return Err(Problem::blank_address());
    }
    Ok(address.to_json())
}

/// Of a field as JSON: nothing that is read.
fn is_blank(field: &str) -> bool {
    let text: String = serde_json::from_str(field).unwrap_or_default();
    text.chars().all(|letter| letter.is_whitespace() || letter.is_control())
}

/// An order, with what the catalog knows of its SKU.
pub(super) fn write_order(
    out: &mut Vec<u8>,
    catalog: &Catalog,
    order: &OrderView,
    buyer: Option<&str>,
    shown: &ShownOrder<'_>,
) -> Result<(), Problem> {
    let Some((sale, item)) = catalog.item(order.id.sku) else {
        return Err(Problem::internal("The order's sale is not published yet; ask for the order again."));
    };
    let mut object = Object::begin(out);
    object.order_id("id", order.id).number("sale", sale.spec.id.0).number("product", item.product.0);
    match buyer {
        Some(text) => push_text(object.value("buyer"), text),
        None => {
            let buyer = object.value("buyer");
            buyer.push(b'"');
            push_buyer(buyer, order.buyer);
            buyer.push(b'"');
        }
    }
    object
        .number("quantity", u64::from(order.quantity))
        .number("unit_price", order.unit_price)
        .number("amount", order.amount())
        .text("currency", &sale.spec.currency)
        .text("status", shown.standing)
        .number("placed_at_ms", order.placed_at.0)
        .number_or_null("pay_by_ms", order.pay_by.map(|at| at.0))
        .number_or_null("closed_at_ms", order.closed_at.map(|at| at.0))
        .flag("refund_due", order.refund_due);
    if let Some(number) = &shown.number {
        object.text("number", number.as_str());
    }
    if order.refunded.amount > 0 {
        object.number("refunded", order.refunded.amount);
    }
    if let Some(url) = shown.pay_link.and_then(|link| link.of(order, &sale.spec.currency)) {
        object.text("pay_url", &url);
    }
    if let Some(address) = shown.address {
        write_address(object.value("address"), address.map(String::from_utf8_lossy).as_deref());
    }
    object.end();
    Ok(())
}

/// A number, the usual case, without an allocation.
fn push_buyer(out: &mut Vec<u8>, buyer: BuyerId) {
    match buyer.number() {
        Some(number) => push_number(out, number),
        None => out.extend_from_slice(buyer.to_string().as_bytes()),
    }
}

/// An order of the feed, with its address.
fn write_line(out: &mut Vec<u8>, line: &OrderLine) {
    let mut object = Object::begin(out);
    object
        .order_id("id", line.id)
        .number("sale", line.sale.0)
        .number("product", line.product.0)
        .text("buyer", &line.buyer)
        .number("quantity", u64::from(line.quantity))
        .number("unit_price", line.unit_price)
        .number("amount", line.unit_price.saturating_mul(u64::from(line.quantity)))
        .text("currency", &line.currency)
        .text("status", line.status.as_str())
        .number("placed_at_ms", line.placed_at.0)
        .number_or_null("closed_at_ms", line.closed_at.map(|at| at.0))
        .number("refunded", line.refunded);
    write_address(object.value("address"), line.address.as_deref());
    object.end();
}

/// It was checked and written by us, but a file can be edited: then it is shown as text.
fn write_address(out: &mut Vec<u8>, address: Option<&str>) {
    match address {
        Some(json) if serde_json::from_str::<serde::de::IgnoredAny>(json).is_ok() => {
            out.extend_from_slice(json.as_bytes());
        }
        Some(text) => push_text(out, text),
        None => out.extend_from_slice(b"null"),
    }
}

/// What fuzz/targets ask of a body: whether it is understood, with its address as it is kept.
#[cfg(fuzzing)]
pub(in crate::http) fn understand(body: &[u8]) -> Result<Option<Box<[u8]>>, Problem> {
    let order = crate::http::wire::body::parse::<NewOrder<'_>>(body)?;
    Ok(order.address.as_ref().map(DeliveryAddress::own).transpose()?.map(DeliveryAddress::to_json))
}
