//! Payments: the provider's signed callback, the demo's button that acts as a provider, and the refunds that
//! are due.

use engine::{Accepted, BuyerId, Command, Disposition, OrderId, Pay, PaymentView};
use serde::Deserialize;
use std::borrow::Cow;
use std::time::Duration;

use crate::http::pending::Waiting;
use crate::http::routes::orders::{order_id, read_object};
use crate::http::service::{Call, HttpService, other};
use crate::http::wire::answer::Answering;
use crate::http::wire::error::Problem;
use crate::http::wire::{Number, Object, decode_path};
use crate::intake::{Reply, Request};
use crate::net::Answer;

/// Longest payment id, in bytes, and so the longest that can be settled.
const PAYMENT_ID_BYTES_MAX: usize = engine::limits::KEY_BYTES_MAX;

/// How long the demo's button waits for an order that is pending.
const PENDING_WAIT: Duration = Duration::from_secs(2);

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Callback<'a> {
    #[serde(borrow)]
    payment_id: Cow<'a, str>,
    #[serde(borrow)]
    order: Cow<'a, str>,
    amount: Number,
}

impl HttpService {
    /// The provider's callback: whatever it tells is recorded, also for an order that is not known.
    pub(in crate::http) fn payment(&mut self, call: &Call<'_>) -> Result<Answer, Problem> {
        let Some(checker) = &self.shared.payments else {
            let detail =
                "This server has no payment secret, so callbacks are off: set auth.payment_secret_file.";
            return Err(Problem::new(403, "payments_off", "Payment callbacks are off", detail));
        };
        checker.check(call.fields.signature, call.request.body, call.now_s()).map_err(|unsigned| {
            Problem::new(401, "invalid_signature", "The callback is not signed rightly", unsigned.detail())
        })?;
        let callback: Callback<'_> = read_object(call)?;
        let order = callback.order.parse().map_err(|engine::NotAnOrderId| {
            Problem::invalid("order must be an order's id: 40 hexadecimal digits.")
        })?;
        check_payment_id(&callback.payment_id)?;
        let pay = Pay { id: callback.payment_id.into(), order, amount: callback.amount.0 };
        self.ask(call, Request::Execute(Command::Pay(pay)), Waiting::Payment)
    }

    pub(in crate::http) fn show_payment(
        &mut self,
        reply: Reply,
        out: &mut Answering<'_, '_>,
    ) -> Result<(), Problem> {
        let Reply::Accepted(Accepted::Payment { payment, .. }) = reply else { return Err(other(reply)) };
        self.scratch.clear();
        write_payment(&mut self.scratch, &payment);
        out.json(200, &self.scratch);
        Ok(())
    }

    pub(in crate::http) fn refunds_due(&mut self, call: &Call<'_>) -> Result<Answer, Problem> {
        self.shared.auth.operator(&call.fields)?;
        self.ask(call, Request::RefundsDue, Waiting::RefundsDue)
    }

    pub(in crate::http) fn show_refunds_due(
        &mut self,
        reply: Reply,
        out: &mut Answering<'_, '_>,
    ) -> Result<(), Problem> {
        let Reply::RefundsDue(payments) = reply else { return Err(other(reply)) };
        self.scratch.clear();
        Object::begin(&mut self.scratch).list("payments", &payments, write_payment).end();
        out.json(200, &self.scratch);
        Ok(())
    }

    pub(in crate::http) fn settle(&mut self, call: &Call<'_>, id: &str) -> Result<Answer, Problem> {
        self.shared.auth.operator(&call.fields)?;
        let payment =
            decode_path(id).ok_or_else(|| Problem::invalid("The payment's id is not encoded rightly."))?;
        check_payment_id(&payment)?;
        self.ask(call, Request::Execute(Command::Settle { payment: payment.into() }), Waiting::Payment)
    }

    /// Pays the buyer's own order without a provider. Three steps: the writer reads the order, is told of a
    /// payment of its amount, and reads it again.
    pub(in crate::http) fn demo_pay(&mut self, call: &Call<'_>, id: &str) -> Result<Answer, Problem> {
        if !self.shared.options.demo {
            return Err(Problem::demo_only());
        }
        let buyer = self.acting_buyer(call)?;
        let order = order_id(id)?;
        let read = Request::Read { order, buyer: Some(buyer), wait: PENDING_WAIT };
        self.ask(call, read, Waiting::DemoPayRead { order, buyer })
    }
}

/// The second step of the demo's payment. One payment per order: pressing twice pays once.
pub(in crate::http) fn demo_pay_paid(order: OrderId, buyer: BuyerId, amount: u64) -> (Request, Waiting) {
    let pay = Pay { id: format!("demo-{order}").into(), order, amount };
    (Request::Execute(Command::Pay(pay)), Waiting::DemoPayPaid { order, buyer })
}

fn check_payment_id(id: &str) -> Result<(), Problem> {
    if (1..=PAYMENT_ID_BYTES_MAX).contains(&id.len()) {
        return Ok(());
    }
    Err(Problem::invalid("The payment's id must have 1 to 64 bytes."))
}

fn write_payment(out: &mut Vec<u8>, payment: &PaymentView) {
    let (result, reason) = match payment.disposition {
        Disposition::Applied => ("paid", None),
        Disposition::RefundDue(reason) => ("refund_due", Some(reason)),
        Disposition::Settled(reason) => ("settled", Some(reason)),
    };
    let mut object = Object::begin(out);
    object
        .text("payment_id", &payment.pay.id)
        .order_id("order", payment.pay.order)
        .number("amount", payment.pay.amount)
        .text("result", result);
    match reason {
        Some(reason) => object.text("reason", reason.as_str()),
        None => object.raw("reason", b"null"),
    };
    object.number("recorded_at_ms", payment.at.0).end();
}
