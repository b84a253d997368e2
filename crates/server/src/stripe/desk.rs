//! What must be asked of Stripe before somebody is answered: a page on which a buyer pays, and what to do about a webhook that
//! the ledger can't judge alone. On threads of their own, past the event loops.
//!
//! A bounded number waits, for a bounded time; with more, the asker is sent away to come again. Must not: answer that
//! something was done whose outcome is unknown.

use std::fmt;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use engine::{Command, Disposition, OrderId, OrderView, Pay, Refund, Status};

use super::api::{Api, NewCheckout};
use super::askers::Askers;
use super::checkouts::{Checkouts, OpenCheckout};
use super::client::Failure;
use super::follower::{LEDGER_PATIENCE, payment, undo};
use super::{Account, Surroundings, money};
use crate::intake::{Reply, Request};
use crate::webhooks::NotDelivered;

/// At one time; each waits for Stripe most of it.
const THREADS: usize = 16;
/// That wait for a thread.
const WAITING_MAX: usize = 1_024;
/// For which an answer is worth waiting.
const PATIENCE: Duration = Duration::from_secs(12);
/// Between two tries of the same request.
const PAUSE: Duration = Duration::from_millis(300);
/// Stripe keeps a session open for half an hour at least, and a day at most; its clock may be minutes off.
const SESSION_S_MIN: u64 = 35 * 60;
const SESSION_S_MAX: u64 = 23 * 3600;
/// Ends of sessions are multiples of it: who asks again soon asks for the same session.
const SESSION_STEP_S: u64 = 600;
/// A session that ends sooner is not worth going to.
const SESSION_LEFT_S: u64 = 60;
/// Of an item's title, as Stripe shows it.
const TITLE_CHARS_MAX: usize = 200;

/// What is asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Work {
    /// A page on which this order is paid.
    Pay(OrderId),
    /// An authorisation that pays for nothing, and that the ledger can't keep.
    Undo { intent: String },
    /// A refund that was made at Stripe, in its minor units.
    Refunded { refund: String, intent: String, amount: u64 },
}

/// What it came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StripeOutcome {
    GoTo(String),
    /// The order is not to be paid.
    NotHeld,
    UnknownOrder,
    /// Not at Stripe, ever: why.
    NotPayable(String),
    Done,
    /// Nobody knows, or not yet: ask again.
    NotYet(String),
}

/// Takes the outcome to whoever asked.
pub type OnOutcome = Box<dyn FnOnce(StripeOutcome) + Send>;

struct Job {
    work: Work,
    /// `None`: those who ask for an order's page are known by the order.
    answer: Option<OnOutcome>,
    since: Instant,
}

/// The threads, as the event loops see them. They end after this is dropped.
pub struct Desk {
    jobs: SyncSender<Job>,
    paying: Arc<Askers<OnOutcome>>,
    ledger: Box<str>,
}

impl fmt::Debug for Desk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Desk")
    }
}

impl Desk {
    pub(super) fn start(api: Api, account: Account, shared: Surroundings, checkouts: Arc<Checkouts>) -> Desk {
        let (waiting, jobs) = sync_channel(WAITING_MAX);
        let (paying, ledger) = (Arc::new(Askers::default()), api.ledger().into());
        let jobs = Mutex::new(jobs);
        let clerk = Arc::new(Clerk { api, account, shared, checkouts, jobs, paying: Arc::clone(&paying) });
        for _ in 0..THREADS {
            let clerk = Arc::clone(&clerk);
            // Not waited for at the end: what is unanswered then is asked again.
            let thread = thread::Builder::new().name("stripe".to_owned()).spawn(move || clerk.run());
            drop(thread.expect("the system starts a thread while the server starts"));
        }
        Desk { jobs: waiting, paying, ledger }
    }

    /// What our ledger is called at Stripe.
    pub fn ledger(&self) -> &str {
        &self.ledger
    }

    /// Hands something over; false: too much waits.
    pub fn ask(&self, work: Work, answer: OnOutcome) -> bool {
        let send = |work, answer| self.jobs.try_send(Job { work, answer, since: Instant::now() }).is_ok();
        match work {
            Work::Pay(order) => self.paying.join(order, answer, || send(work, None)),
            _ => send(work, Some(answer)),
        }
    }
}

struct Clerk {
    api: Api,
    account: Account,
    shared: Surroundings,
    checkouts: Arc<Checkouts>,
    jobs: Mutex<Receiver<Job>>,
    paying: Arc<Askers<OnOutcome>>,
}

impl Clerk {
    fn run(&self) {
        loop {
            let job = self.jobs.lock().unwrap_or_else(PoisonError::into_inner).recv();
            let Ok(Job { work, answer, since }) = job else { return };
            let until = since + PATIENCE;
            // Whoever waited for longer has left.
            let outcome = if Instant::now() >= until {
                StripeOutcome::NotYet("too many ask".to_owned())
            } else {
                self.carry_out(&work, until)
            };
            let askers = if let Work::Pay(order) = work { self.paying.take(order) } else { Vec::new() };
            answer.into_iter().chain(askers).for_each(|answer| answer(outcome.clone()));
        }
    }

    fn carry_out(&self, work: &Work, until: Instant) -> StripeOutcome {
        let done = match work {
            Work::Pay(order) => return self.pay(*order, until),
            Work::Undo { intent } => undo(&self.api, intent, None, intent, self.now_ms()),
            Work::Refunded { refund, intent, amount } => self.refunded(refund, intent, *amount),
        };
        match done {
            Ok(()) => StripeOutcome::Done,
            Err(NotDelivered { why, .. }) => {
                tracing::warn!(?work, why, "a webhook of Stripe could not be carried out; it comes again");
                StripeOutcome::NotYet(why)
            }
        }
    }

    fn now_ms(&self) -> u64 {
        self.shared.clock.wall().0
    }

    fn pay(&self, order: OrderId, until: Instant) -> StripeOutcome {
        let read = Request::Read { order, buyer: None, wait: Duration::ZERO, with_address: false };
        match self.shared.asker.ask(read, LEDGER_PATIENCE) {
            Reply::Order(view) if view.status == Status::Held => self.open(&view, until),
            Reply::Order(_) | Reply::Lost(_) => StripeOutcome::NotHeld,
            Reply::Refused(_) => StripeOutcome::UnknownOrder,
            Reply::Pending { .. } => StripeOutcome::NotYet("the order is pending".to_owned()),
            _ => StripeOutcome::NotYet("the ledger does not answer".to_owned()),
        }
    }

    fn open(&self, view: &OrderView, until: Instant) -> StripeOutcome {
        let now_s = self.now_ms() / 1_000;
        if let Some(known) = self.checkouts.open(view.id, now_s + SESSION_LEFT_S) {
            return StripeOutcome::GoTo(known.url);
        }
        let catalog = self.shared.shelf.current();
        let Some((sale, item)) = catalog.item(view.id.sku) else {
            return StripeOutcome::NotYet("its sale is not published yet".to_owned());
        };
        let currency = &sale.spec.currency;
        let Some(unit_amount) = money::to_stripe(view.unit_price, currency) else {
            return StripeOutcome::NotPayable(format!("Stripe takes no amount like this in {currency}"));
        };
        let (order, pay_by_s) = (view.id.to_string(), view.pay_by.map_or(0, |at| at.0 / 1_000));
        let new = NewCheckout {
            order: &order,
            title: &item.title.chars().take(TITLE_CHARS_MAX).collect::<String>(),
            quantity: view.quantity,
            unit_amount,
            currency,
            return_url: &self.account.return_url.replace("{order}", &order),
            expires_at_s: ends_at_s(now_s, pay_by_s),
        };
        match self.open_until(&new, until) {
            Ok(known) => {
                self.checkouts.note(view.id, known.clone(), now_s);
                StripeOutcome::GoTo(known.url)
            }
            Err(failure) if failure.is_refusal() => {
                tracing::error!(order, why = failure.why, "Stripe takes no payment of an order");
                StripeOutcome::NotPayable(format!("Stripe {}", failure.why))
            }
            Err(failure) => {
                tracing::warn!(order, why = failure.why, "no page at Stripe for an order yet");
                StripeOutcome::NotYet(format!("Stripe {}", failure.why))
            }
        }
    }

    /// What is not known to have been done is asked for again as the same.
    fn open_until(&self, new: &NewCheckout<'_>, until: Instant) -> Result<OpenCheckout, Failure> {
        loop {
            match self.api.open_checkout(new) {
                Ok(checkout) => {
                    let no_url =
                        || Failure { status: None, why: "gave no address".to_owned(), retry_after: None };
                    let url = checkout.url.ok_or_else(no_url)?;
                    return Ok(OpenCheckout { id: checkout.id, url, expires_at_s: new.expires_at_s });
                }
                Err(failure)
                    if failure.is_refusal()
                        || failure.retry_after.is_some()
                        || Instant::now() + PAUSE >= until =>
                {
                    return Err(failure);
                }
                Err(_unknown) => thread::sleep(PAUSE),
            }
        }
    }

    fn refunded(&self, refund: &str, intent: &str, amount: u64) -> Result<(), NotDelivered> {
        let found = self.api.intent(intent)?;
        let Some(order) = found.order(self.api.ledger()).and_then(|order| order.parse::<OrderId>().ok())
        else {
            return Ok(());
        };
        // Voided, or of another money than the sale's, which the ledger has not: there is nothing to give back.
        let catalog = self.shared.shelf.current();
        let currency = catalog.item(order.sku).map(|(sale, _)| &sale.spec.currency);
        if found.amount_received == 0
            || currency.is_some_and(|ours| !ours.eq_ignore_ascii_case(&found.currency))
        {
            return Ok(());
        }
        let asker = &self.shared.asker;
        let ours = |amount| {
            let wrong = || NotDelivered::new(format!("{amount} {} is no amount", found.currency));
            money::from_stripe(amount, &found.currency).ok_or_else(wrong)
        };
        let pay = |amount| Command::Pay(Pay { id: intent.into(), order, amount });
        let known = match payment(asker, pay(ours(found.amount_received)?)) {
            // It was recorded as authorised, and less was captured by hand.
            Err(refused) if refused.hopeless && found.amount != found.amount_received => {
                payment(asker, pay(ours(found.amount)?))?
            }
            known => known?,
        };
        let refunded = match known.disposition {
            Disposition::Applied => {
                let (id, amount) = (refund.into(), Some(ours(amount)?));
                Command::Refund(Refund { id, order, amount, units: 0, paid_out: true })
            }
            Disposition::RefundDue(_) if amount >= found.amount_received => {
                Command::Settle { payment: intent.into() }
            }
            Disposition::RefundDue(_) | Disposition::Settled(_) => return Ok(()),
        };
        payment(asker, refunded).map(drop)
    }
}

/// When a session ends that begins now: with the hold, as far as Stripe lets it.
fn ends_at_s(now_s: u64, pay_by_s: u64) -> u64 {
    let soonest = (now_s + SESSION_S_MIN).next_multiple_of(SESSION_STEP_S);
    let latest = (now_s + SESSION_S_MAX) / SESSION_STEP_S * SESSION_STEP_S;
    pay_by_s.clamp(soonest, latest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_ends_with_the_hold_as_far_as_stripe_lets_it() {
        let now_s = 1_795_809_600;
        let (soonest, latest) = (now_s + 2_400, now_s + 82_800);
        for (pay_by_s, ends) in
            [(now_s + 60, soonest), (now_s + 7_201, now_s + 7_201), (now_s + 900_000, latest)]
        {
            assert_eq!(ends_at_s(now_s, pay_by_s), ends);
            // Asked again soon, it is the same session.
            assert_eq!(ends_at_s(now_s + 299, pay_by_s), ends);
        }
        for now_s in now_s..now_s + 600 {
            let ends = ends_at_s(now_s, 0) - now_s;
            assert!((1_801..=86_400).contains(&ends), "{ends}");
        }
    }
}
