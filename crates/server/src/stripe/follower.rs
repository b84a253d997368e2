//! Carries out at Stripe what the ledger has decided: captures what paid for an order, voids or pays back what did not, and
//! reports to the ledger that it went back.
//!
//! An event may come again after a crash at any point. So each step looks at how the intent and the ledger's entry stand now,
//! and what was done before counts as done. Must not: decide what a payment pays for.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use engine::{Accepted, Command, Disposition, OrderId, Pay, PaymentView, Status};
use prometheus_client::metrics::counter::Counter;

use super::api::{Api, Intent};
use super::checkouts::Checkouts;
use super::client::Failure;
use super::{Surroundings, money};
use crate::intake::{Asker, Reply, Request};
use crate::ledger::{DueRefund, EventReader, OrderLine, Outgoing, What};
use crate::webhooks::{Deliver, NotDelivered};

/// For an answer of the ledger.
pub(super) const LEDGER_PATIENCE: Duration = Duration::from_secs(10);
/// Of the ids of Stripe's intents: other payments are other providers'.
const INTENT: &str = "pi_";

/// Follows the ledger for Stripe. See [`Deliver`].
pub struct Follower {
    api: Api,
    reader: Mutex<EventReader>,
    asker: Asker,
    checkouts: Arc<Checkouts>,
    counts: Counts,
}

#[derive(Debug, Default)]
struct Counts {
    captured: Counter,
    lost: Counter,
    given_back: Counter,
}

impl fmt::Debug for Follower {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Follower").field("api", &self.api).finish_non_exhaustive()
    }
}

impl From<Failure> for NotDelivered {
    fn from(failure: Failure) -> NotDelivered {
        let of_event = failure.is_refusal();
        NotDelivered {
            retry_after: failure.retry_after,
            of_event,
            ..NotDelivered::new(format!("Stripe {}", failure.why))
        }
    }
}

fn of_event(why: impl Into<String>) -> NotDelivered {
    NotDelivered { of_event: true, ..NotDelivered::new(why.into()) }
}

fn hopeless(why: String) -> NotDelivered {
    NotDelivered { hopeless: true, ..of_event(why) }
}

impl Deliver for Follower {
    fn deliver(&self, events: &[&Outgoing], now_ms: u64) -> Result<(), NotDelivered> {
        for event in events {
            match &event.what {
                What::Order(line) if line.status == Status::Paid => self.capture(event.seq, line, now_ms)?,
                What::Order(line) => self.close(line, now_ms)?,
                What::Refund { payment, settled: false } => self.give_back(event.seq, payment, now_ms)?,
                _ => {}
            }
        }
        Ok(())
    }

    fn test(&self, _number: u64, _now_ms: u64) -> Result<(), NotDelivered> {
        Ok(self.api.try_key()?)
    }
}

impl Follower {
    pub(super) fn new(
        api: Api,
        reader: EventReader,
        shared: &Surroundings,
        checkouts: Arc<Checkouts>,
    ) -> Follower {
        let counts = Counts::default();
        shared.metrics.with_registry(|r| {
            let mut counter = |name: &str, help: &str, counter: &Counter| {
                r.register(format!("doorbuster_stripe_{name}"), help, counter.clone());
            };
            counter("captured", "Payments that were captured at Stripe", &counts.captured);
            let lost = "Orders that are paid in the ledger, and whose authorisation was gone at Stripe";
            counter("authorisations_lost", lost, &counts.lost);
            counter("given_back", "Payments and refunds that were voided or paid back", &counts.given_back);
        });
        Follower { api, reader: Mutex::new(reader), asker: shared.asker.clone(), checkouts, counts }
    }

    /// The intent that paid for an order; `None`: another provider's payment did, or none was needed.
    fn paid_by(&self, entry: u64) -> Result<Option<String>, NotDelivered> {
        let mut reader = self.reader.lock().unwrap_or_else(PoisonError::into_inner);
        let found = reader.paid_by(entry);
        let found = found.map_err(|error| of_event(format!("the ledger can't be read: {error}")))?;
        Ok(found.filter(|payment| payment.starts_with(INTENT)))
    }

    fn capture(&self, entry: u64, line: &OrderLine, now_ms: u64) -> Result<(), NotDelivered> {
        self.checkouts.forget(line.id);
        let Some(id) = self.paid_by(entry)? else { return Ok(()) };
        let amount = line.unit_price.saturating_mul(u64::from(line.quantity));
        let amount = money::to_stripe(amount, &line.currency)
            .ok_or_else(|| hopeless(format!("{amount} {} can't be captured at Stripe", line.currency)))?;
        let captured = self.api.capture(&id, amount, now_ms);
        let found = match captured {
            Ok(found) => found,
            // It may be captured already, or the authorisation is gone.
            Err(failure) if failure.is_refusal() => {
                let found = self.api.intent(&id)?;
                if found.is_authorised() || found.status == "processing" {
                    return Err(failure.into());
                }
                found
            }
            Err(failure) => return Err(failure.into()),
        };
        self.judge_captured(&found, line.id, amount)
    }

    fn judge_captured(&self, found: &Intent, order: OrderId, amount: u64) -> Result<(), NotDelivered> {
        let Intent { id, status, amount_received, .. } = found;
        if found.is_captured() && *amount_received >= amount {
            self.counts.captured.inc();
            return Ok(());
        }
        if status == "processing" {
            return Err(of_event(format!("Stripe has not captured {id} yet")));
        }
        // Refunded whole before it was captured, it was voided.
        let read = Request::Read { order, buyer: None, wait: Duration::ZERO, with_address: false };
        if found.is_canceled()
            && matches!(self.asker.ask(read, LEDGER_PATIENCE), Reply::Order(view) if view.status == Status::Refunded)
        {
            return Ok(());
        }
        self.counts.lost.inc();
        let how = if found.is_captured() {
            format!("only {amount_received} of {amount} was captured")
        } else {
            format!("its authorisation is gone ({status})")
        };
        tracing::error!(%order, intent = id, status, amount, amount_received, "a paid order's money can't be taken any more");
        Err(hopeless(format!("order {order} is paid, but of {id} {how}: nobody has paid for it in full")))
    }

    /// The order is not to be paid any more. What is authorised all the same is judged by the ledger, as ever.
    fn close(&self, line: &OrderLine, now_ms: u64) -> Result<(), NotDelivered> {
        let Some(known) = self.checkouts.get(line.id) else { return Ok(()) };
        match self.api.close_checkout(&known.id) {
            Err(failure) if failure.is_refusal() => self.look_at_closed(line, &known.id, now_ms)?,
            closed => drop(closed?),
        }
        self.checkouts.forget(line.id);
        Ok(())
    }

    /// The session is over already: paid, perhaps, and its webhook has not come.
    fn look_at_closed(&self, line: &OrderLine, checkout: &str, now_ms: u64) -> Result<(), NotDelivered> {
        let Some(id) = self.api.checkout(checkout)?.payment_intent else { return Ok(()) };
        let found = self.api.intent(&id)?;
        if !found.is_authorised() {
            return Ok(());
        }
        let amount = money::from_stripe(found.amount_capturable, &found.currency);
        match amount.filter(|_| found.currency.eq_ignore_ascii_case(&line.currency)) {
            Some(amount) => {
                let pay = Pay { id: id.into(), order: line.id, amount };
                payment(&self.asker, Command::Pay(pay)).map(drop)
            }
            None => undo(&self.api, &id, None, &id, now_ms),
        }
    }

    fn give_back(&self, entry: u64, due: &DueRefund, now_ms: u64) -> Result<(), NotDelivered> {
        let Ok(order) = due.order.parse::<OrderId>() else { return Ok(()) };
        // As it was recorded: asked again it changes nothing, and the answer says how it stands now.
        let (intent, part, again) = match due.units {
            Some(units) => {
                let Some(intent) = self.paid_by(entry)? else { return Ok(()) };
                let currency = due.currency.as_deref().unwrap_or_default();
                let part = money::to_stripe(due.amount, currency).ok_or_else(|| {
                    hopeless(format!("{} {currency} can't be paid back at Stripe", due.amount))
                })?;
                (intent, Some(part), Command::Refund(refund(due, order, units, false)))
            }
            None => {
                if !due.payment.starts_with(INTENT) {
                    return Ok(());
                }
                let pay = Pay { id: due.payment.as_str().into(), order, amount: due.amount };
                (due.payment.clone(), None, Command::Pay(pay))
            }
        };
        let Disposition::RefundDue(_) = payment(&self.asker, again)?.disposition else { return Ok(()) };
        undo(&self.api, &intent, part, &due.payment, now_ms)?;
        let settle = match due.units {
            Some(units) => Command::Refund(refund(due, order, units, true)),
            None => Command::Settle { payment: due.payment.as_str().into() },
        };
        payment(&self.asker, settle)?;
        self.counts.given_back.inc();
        Ok(())
    }
}

fn refund(due: &DueRefund, order: OrderId, units: u32, paid_out: bool) -> engine::Refund {
    engine::Refund { id: due.payment.as_str().into(), order, amount: Some(due.amount), units, paid_out }
}

/// Has the ledger carry out what comes to a payment.
pub(super) fn payment(asker: &Asker, command: Command) -> Result<PaymentView, NotDelivered> {
    match asker.ask(Request::Execute(command), LEDGER_PATIENCE) {
        Reply::Accepted(Accepted::Payment { payment, .. }) => Ok(payment),
        Reply::Refused(refusal) => Err(hopeless(format!("the ledger refuses it: {}", refusal.code()))),
        _ => Err(of_event("the ledger takes no writes at the moment")),
    }
}

/// Gives an intent's money back, or `part` of it, whatever it takes: by voiding what was not captured, or by a refund, once
/// for each `name`.
pub(super) fn undo(
    api: &Api,
    id: &str,
    part: Option<u64>,
    name: &str,
    now_ms: u64,
) -> Result<(), NotDelivered> {
    let mut found = api.intent(id)?;
    if found.is_authorised() && part.is_some_and(|part| part < found.amount_capturable) {
        found = api.capture(id, found.amount_capturable, now_ms)?;
    }
    if found.is_canceled() {
        return Ok(());
    }
    if found.is_captured() {
        return Ok(api.refund(&found, name, part)?);
    }
    let canceled = api.cancel(id, now_ms)?;
    if canceled.is_canceled() { Ok(()) } else { Err(of_event(format!("Stripe has not voided {id} yet"))) }
}
