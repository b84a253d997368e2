//! Stripe: the address from which a buyer is led to a page of Stripe's, and Stripe's webhooks.
//!
//! Must not: ask Stripe, which takes a while; the desk's threads do.

use engine::{Command, OrderId, Pay, Refusal};

use crate::http::HttpService;
use crate::http::call::Call;
use crate::http::pending::{Pending, Waiting};
use crate::http::reads::ShowRead;
use crate::http::route::{Handler, Route, When};
use crate::http::routes::orders::order_id;
use crate::http::routes::payments::is_payment_id;
use crate::http::wire::Object;
use crate::http::wire::answer::{Answering, ProblemFormat};
use crate::http::wire::error::Problem;
use crate::intake::{Reply, Request};
use crate::net::Answer;
use crate::stripe::{Desk, NotAnEvent, StripeEvent, StripeOutcome, Work, from_stripe};

pub(in crate::http) const ROUTES: &[Route] = &[
    Route::post("/api/v1/payments/stripe", Handler::Anybody(HttpService::hear_stripe)).when(When::Stripe),
    Route::get("/orders/{id}/pay", Handler::Anybody(HttpService::pay_at_stripe))
        .problems(ProblemFormat::FORM)
        .when(When::Stripe),
];

/// What is answered to a webhook that changes nothing.
const IGNORED: &str = "ignored";

impl HttpService {
    /// Answered 200 once what it says is committed: what is not is sent again by Stripe, for three days.
    fn hear_stripe(&mut self, call: &Call<'_>, out: &mut Answering<'_, '_>) -> Result<Answer, Problem> {
        let checked = self.access.stripe.check(call.fields.stripe_signature, call.request.body, call.between);
        checked.map_err(|unsigned| Problem::invalid_signature(unsigned.detail_of_stripe()))?;
        let event =
            StripeEvent::read(call.request.body, self.shared.stripe.as_ref().map_or("", Desk::ledger))
                .map_err(|NotAnEvent| Problem::invalid_body("The body is no event of Stripe."))?;
        match event {
            StripeEvent::Authorised { intent, order, amount, currency } if is_payment_id(&intent) => {
                match self.in_the_sales_currency(order, amount, &currency) {
                    Some(amount) => {
                        let pay = Pay { id: intent.into(), order, amount };
                        self.ask(call, Request::Execute(Command::Pay(pay)), |service, reply, out| match reply
                        {
                            // Recorded as authorised, and less was captured by hand: what captures has given the alarm.
                            Reply::Refused(Refusal::PaymentConflict) => {
                                service.show_heard(IGNORED, out);
                                Ok(())
                            }
                            reply => service.show_payment(reply, out),
                        })
                    }
                    None => {
                        tracing::warn!(%order, intent, amount, currency, "a payment at Stripe in another currency is voided");
                        self.ask_stripe(call, Work::Undo { intent }, show_done)
                    }
                }
            }
            StripeEvent::Refunded { refund, intent, amount } if is_payment_id(&refund) => {
                self.ask_stripe(call, Work::Refunded { refund, intent, amount }, show_done)
            }
            StripeEvent::RefundFailed { name, refund } => {
                self.shared.metrics.stripe_refunds_failed.inc();
                tracing::error!(
                    payment = name,
                    refund,
                    "a refund failed at Stripe: its buyer has not got the money back"
                );
                Ok(self.show_heard(IGNORED, out))
            }
            StripeEvent::Authorised { .. } | StripeEvent::Refunded { .. } | StripeEvent::Other => {
                Ok(self.show_heard(IGNORED, out))
            }
        }
    }

    /// Our minor units; `None`: of another money than the sale's.
    fn in_the_sales_currency(&self, order: OrderId, amount: u64, currency: &str) -> Option<u64> {
        let other = |sale: &str| !sale.eq_ignore_ascii_case(currency);
        if self.catalog.item(order.sku).is_some_and(|(sale, _)| other(&sale.spec.currency)) {
            return None;
        }
        from_stripe(amount, currency)
    }

    /// Whoever has the signed address may pay the order: its buyer, or whom they gave it to.
    fn pay_at_stripe(&mut self, call: &Call<'_>, _out: &mut Answering<'_, '_>) -> Result<Answer, Problem> {
        let order = order_id(call.params.name)?;
        let leads_here = self
            .access
            .pay_link
            .as_ref()
            .is_some_and(|link| link.leads_here(call.params.name, call.request.query));
        if !leads_here {
            return Err(Problem::invalid_pay_link());
        }
        self.ask_stripe(call, Work::Pay(order), move |outcome, _, out| {
            let page = format!("/orders/{order}");
            let to = match &outcome {
                StripeOutcome::GoTo(url) => url,
                // It says how the order stands.
                StripeOutcome::NotHeld => &page,
                _ => return Err(problem(outcome)),
            };
            out.empty(
                303,
                &[("Location", to), ("Cache-Control", "no-store"), ("Referrer-Policy", "no-referrer")],
            );
            Ok(())
        })
    }

    fn ask_stripe(
        &mut self,
        call: &Call<'_>,
        work: Work,
        show: impl FnOnce(StripeOutcome, &mut HttpService, &mut Answering<'_, '_>) -> Result<(), Problem>
        + Send
        + 'static,
    ) -> Result<Answer, Problem> {
        let desk = self.shared.stripe.as_ref().ok_or_else(Problem::stripe_off)?;
        let (answers, event_loop, ticket) =
            (self.shared.reads.answers(), self.client.event_loop(), call.ticket);
        let answer = move |outcome| {
            let show = ShowRead::new(move |service, out| show(outcome, service, out));
            answers.give(event_loop, ticket, show);
        };
        if !desk.ask(work, Box::new(answer)) {
            return Err(Problem::busy());
        }
        self.pending.put(ticket, Pending::new(call, Waiting::Thread));
        Ok(Answer::Later)
    }

    fn show_heard(&mut self, result: &str, out: &mut Answering<'_, '_>) -> Answer {
        self.scratch.clear();
        Object::begin(&mut self.scratch).text("result", result).end();
        out.json(200, &self.scratch);
        Answer::Ready
    }
}

fn show_done(
    outcome: StripeOutcome,
    service: &mut HttpService,
    out: &mut Answering<'_, '_>,
) -> Result<(), Problem> {
    if outcome != StripeOutcome::Done {
        return Err(problem(outcome));
    }
    service.show_heard("done", out);
    Ok(())
}

fn problem(outcome: StripeOutcome) -> Problem {
    match outcome {
        StripeOutcome::UnknownOrder => Refusal::UnknownOrder.into(),
        StripeOutcome::NotPayable(why) => Problem::not_payable(why),
        StripeOutcome::NotYet(why) => {
            Problem::unavailable(format!("Nothing is lost; try again in a moment ({why})."))
        }
        StripeOutcome::GoTo(_) | StripeOutcome::NotHeld | StripeOutcome::Done => {
            Problem::internal("An answer to another question.")
        }
    }
}
