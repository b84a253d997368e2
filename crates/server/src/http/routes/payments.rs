//! Payments: the provider's signed callbacks; refunds of paid orders, and those that are due.

use std::borrow::Cow;
use std::time::Instant;

use engine::limits::PAYMENT_ID_BYTES_MAX;
use engine::{Accepted, Command, Disposition, OrderId, Pay, PaymentView, Refund, Refusal, Role, is_plain};
use serde::Deserialize;

use crate::http::HttpService;
use crate::http::call::Call;
use crate::http::route::{Handler, Route};
use crate::http::routes::orders::order_id;
use crate::http::wire::answer::Answering;
use crate::http::wire::body::read_object;
use crate::http::wire::error::Problem;
use crate::http::wire::{Number, Object, Quantity, decode_path, not_null};
use crate::intake::catalog::Catalog;
use crate::intake::{Reply, Request};
use crate::net::Answer;

pub(in crate::http) const ROUTES: &[Route] = &[
    Route::post("/api/v1/payments", Handler::Provider(HttpService::record_payment)),
    Route::post("/api/v1/payments/refunds", Handler::Provider(HttpService::record_refund)),
    Route::post("/api/v1/orders/{id?}/refund", Handler::Operator(Role::Support, HttpService::refund_order)),
    Route::get(
        "/api/v1/payments/refunds-due",
        Handler::Operator(Role::Support, HttpService::list_refunds_due),
    ),
    Route::post("/api/v1/payments/{payment?}/settle", Handler::Operator(Role::Support, HttpService::settle)),
];

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Callback<'a> {
    #[serde(borrow)]
    payment_id: Cow<'a, str>,
    #[serde(borrow)]
    order: Cow<'a, str>,
    amount: Number,
    /// Left out, it is the sale's.
    #[serde(borrow, default, deserialize_with = "not_null")]
    currency: Option<Cow<'a, str>>,
}

/// What an operator wants to be refunded; without an amount, all that is left.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RefundRequest<'a> {
    #[serde(borrow)]
    refund_id: Cow<'a, str>,
    #[serde(default, deserialize_with = "not_null")]
    amount: Option<Number>,
    /// That go back on sale.
    #[serde(default = "none")]
    units: Quantity,
    /// The money was given back already.
    #[serde(default)]
    made: bool,
}

/// A refund that the provider has made.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Made<'a> {
    #[serde(borrow)]
    refund_id: Cow<'a, str>,
    #[serde(borrow)]
    order: Cow<'a, str>,
    amount: Number,
    #[serde(default = "none")]
    units: Quantity,
    #[serde(borrow, default, deserialize_with = "not_null")]
    currency: Option<Cow<'a, str>>,
}

fn none() -> Quantity {
    Quantity(0)
}

impl HttpService {
    /// The provider's callback: whatever it reports is recorded, also for an order that is not known. But not an amount of
    /// another currency: as minor units of the sale's it would be a lie, and might pay.
    fn record_payment(&mut self, call: &Call<'_>) -> Result<Answer, Problem> {
        let callback: Callback<'_> = read_object(call)?;
        let order = named_order(&callback.order)?;
        check_id("payment_id", &callback.payment_id)?;
        self.check_currency(order, callback.currency.as_deref())?;
        let pay = Pay { id: callback.payment_id.into(), order, amount: callback.amount.0 };
        self.ask(call, Request::Execute(Command::Pay(pay)), HttpService::show_payment)
    }

    /// Asks for a refund of a paid order; that it was made is to be said later, or is noted with it.
    fn refund_order(&mut self, call: &Call<'_>) -> Result<Answer, Problem> {
        let order = order_id(call.params.name)?;
        let RefundRequest { refund_id, amount, units, made } = read_object(call)?;
        check_id("refund_id", &refund_id)?;
        // What a provider has made is recorded as it named it.
        if !is_plain(&refund_id) {
            return Err(Problem::invalid(
                "\"refund_id\" may have no control characters, nor characters that turn the direction of text.",
            ));
        }
        let amount = amount.map(|amount| amount.0);
        let refund = Refund { id: refund_id.into(), order, amount, units: units.0, paid_out: made };
        self.ask(call, call.command(Command::Refund(refund)), HttpService::show_payment)
    }

    /// The provider has made a refund, whoever asked for it.
    fn record_refund(&mut self, call: &Call<'_>) -> Result<Answer, Problem> {
        let Made { refund_id, order, amount, units, currency } = read_object(call)?;
        let order = named_order(&order)?;
        check_id("refund_id", &refund_id)?;
        self.check_currency(order, currency.as_deref())?;
        let (id, amount) = (refund_id.into(), Some(amount.0));
        let refund = Refund { id, order, amount, units: units.0, paid_out: true };
        self.ask(call, Request::Execute(Command::Refund(refund)), HttpService::show_payment)
    }

    /// Codes of currencies have no case: some providers write them in small letters.
    fn check_currency(&self, order: OrderId, currency: Option<&str>) -> Result<(), Problem> {
        match (currency, self.catalog.item(order.sku)) {
            (Some(named), Some((sale, _))) if !sale.spec.currency.eq_ignore_ascii_case(named) => {
                Err(Problem::currency_differs(&sale.spec.currency))
            }
            _ => Ok(()),
        }
    }

    pub(super) fn show_payment(&mut self, reply: Reply, out: &mut Answering<'_, '_>) -> Result<(), Problem> {
        let Reply::Accepted(Accepted::Payment { payment, .. }) = reply else { return Err(reply.into()) };
        self.scratch.clear();
        write_payment(&mut self.scratch, &payment, &self.catalog);
        out.json(200, &self.scratch);
        Ok(())
    }

    fn list_refunds_due(&mut self, call: &Call<'_>) -> Result<Answer, Problem> {
        let asked = Instant::now();
        self.ask(call, Request::RefundsDue, move |service, reply, out| {
            let payments = match reply {
                Reply::RefundsDue(payments) => payments,
                Reply::Unknown => return Err(Problem::ledger_silent(asked.elapsed())),
                reply => return Err(reply.into()),
            };
            service.scratch.clear();
            let catalog = &service.catalog;
            let write = |out: &mut Vec<u8>, payment: &PaymentView| write_payment(out, payment, catalog);
            Object::begin(&mut service.scratch).list("payments", &payments, write).end();
            out.json(200, &service.scratch);
            Ok(())
        })
    }

    fn settle(&mut self, call: &Call<'_>) -> Result<Answer, Problem> {
        let payment = decode_path(call.params.name)
            .ok_or_else(|| Problem::invalid("The payment's id is not encoded rightly."))?;
        // What can't be a payment's id is answered like one that does not exist.
        if !is_payment_id(&payment) {
            return Err(Refusal::UnknownPayment.into());
        }
        let command = Command::Settle { payment: payment.into() };
        self.ask(call, call.command(command), HttpService::show_payment)
    }
}

fn named_order(text: &str) -> Result<OrderId, Problem> {
    let wanted = "\"order\" must be an order's id: 40 hexadecimal digits.";
    text.parse().map_err(|engine::NotAnOrderId| Problem::invalid(wanted))
}

fn check_id(field: &str, id: &str) -> Result<(), Problem> {
    let wanted = || Problem::invalid(format!("\"{field}\" must have 1 to {PAYMENT_ID_BYTES_MAX} bytes."));
    if is_payment_id(id) { Ok(()) } else { Err(wanted()) }
}

pub(super) fn is_payment_id(id: &str) -> bool {
    (1..=PAYMENT_ID_BYTES_MAX).contains(&id.len())
}

fn write_payment(out: &mut Vec<u8>, payment: &PaymentView, catalog: &Catalog) {
    let (result, reason) = match payment.disposition {
        Disposition::Applied => ("paid", None),
        Disposition::RefundDue(reason) => ("refund_due", Some(reason)),
        Disposition::Settled(reason) => ("settled", Some(reason)),
    };
    let mut object = Object::begin(out);
    object
        .text("payment_id", &payment.pay.id)
        .order_id("order", payment.pay.order)
        .number("amount", payment.pay.amount);
    match catalog.item(payment.pay.order.sku) {
        Some((sale, _)) => object.text("currency", &sale.spec.currency),
        None => object.raw("currency", b"null"),
    };
    object.text("result", result);
    match reason {
        Some(reason) => object.text("reason", reason.as_str()),
        None => object.raw("reason", b"null"),
    };
    if let Some(units) = payment.disposition.requested() {
        object.number("units", u64::from(units));
    }
    object.number("recorded_at_ms", payment.at.0).end();
}

/// What fuzz/targets ask of a body: whether it is understood.
#[cfg(fuzzing)]
pub(in crate::http) fn understand(body: &[u8]) -> Result<(), Problem> {
    crate::http::wire::body::parse::<Callback<'_>>(body).map(drop)
}
