//! The people of a night: who buy, pay, change their minds, and ask again until they know.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use engine::{Accepted, BuyerId, Command, Fingerprint, OrderId, Pay, Placement, Refund, Refusal, Status};
use server::intake::admission::{BuyerBounds, NotAdmitted};
use server::intake::{Asker, Intake, Judged, NewOrder, Reply, Request};
use server::time::{self, Instant};

use super::broken::Broken;
use super::order_of;
use super::server::Askers;
use crate::random::Random;
use crate::record;
use crate::schedule;

/// A server's clock that is off by more is seen by an operator.
const CLOCK_OFF_MS: u64 = 2_000;
/// How long an answer is waited for.
const PATIENCE: Duration = Duration::from_secs(4);
/// Until the same is asked again.
const AGAIN_MS: (usize, usize) = (20, 400);
/// Who was not answered at all for so long gives up. A late payment whose claim at the gate was made and not answered is
/// *unknown* until that is given up, after 30 s, and the gate is rebuilt.
const GIVES_UP: Duration = Duration::from_secs(45);

/// How long an order that is pending is waited for.
const LOOKS_FOR: Duration = Duration::from_millis(300);

const PAUSED: &str = "paused";

/// What somebody was answered about an order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    /// It is an order.
    Ordered,
    Refused(Refusal),
    /// It was one, or would have been, and the ledger could not take it.
    Lost,
    /// Nobody knows.
    Unknown,
    /// Nothing was started, for this reason.
    NotServed(&'static str),
}

/// A payment that was reported, or a refund that was asked for, and answered.
#[derive(Clone, Debug)]
pub(super) struct Paid {
    pub(super) id: Box<str>,
    pub(super) order: OrderId,
}

/// An answer about an order, and from when to when it was waited for.
#[derive(Clone, Debug)]
pub(super) struct Answered {
    pub(super) asked: Duration,
    pub(super) at: Duration,
    /// How many units were asked for.
    pub(super) quantity: u32,
    pub(super) answer: Answer,
}

/// Somebody with an order has asked for it, and from when to when that took.
#[derive(Clone, Debug)]
pub(super) struct Looked {
    pub(super) order: OrderId,
    pub(super) asked: Duration,
    pub(super) at: Duration,
    /// To whoever was asked.
    pub(super) is_known: bool,
}

/// What everybody was answered.
#[derive(Debug, Default)]
pub(super) struct Answers {
    pub(super) orders: BTreeMap<OrderId, Vec<Answered>>,
    /// What was asked for, under some keys twice, with other bodies.
    pub(super) wanted: BTreeMap<OrderId, (BuyerId, BTreeSet<u32>)>,
    pub(super) looked: Vec<Looked>,
    pub(super) paid: Vec<Paid>,
    pub(super) cancelled: Vec<OrderId>,
    /// From when on the sale was paused, as its operator was answered, until it was to be resumed.
    pub(super) paused: Option<(Duration, Duration)>,
    /// Units that an operator has asked to take off, and whether that was accepted.
    pub(super) corrected: (u64, bool),
    /// Orders about which somebody asked in vain until they gave up.
    pub(super) gave_up: Vec<OrderId>,
    /// Answers that nobody may get.
    pub(super) wrong: Vec<Broken>,
}

impl Answers {
    /// When somebody asked for their order, and it was not known.
    pub(super) fn not_known(&self, order: OrderId) -> impl Iterator<Item = &Looked> {
        self.looked.iter().filter(move |looked| looked.order == order && !looked.is_known)
    }
}

#[derive(Clone, Debug)]
pub(super) struct People {
    pub(super) askers: Askers,
    pub(super) answers: Arc<Mutex<Answers>>,
    pub(super) begun: Instant,
    pub(super) hosts: Vec<String>,
    pub(super) price: u64,
}

impl People {
    pub(super) fn answers(&self) -> MutexGuard<'_, Answers> {
        self.answers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Somebody who wants this much, and asks any server until it is known whether it is an order.
    pub(super) fn buy(&self, key: u128, buyer: BuyerId, quantity: u32, random: &mut Random) -> Answer {
        let begun = Instant::now();
        loop {
            match self.buy_once(key, buyer, quantity, random) {
                Answer::Unknown | Answer::NotServed(_) if begun.elapsed() < GIVES_UP => pause(random),
                answer @ (Answer::Unknown | Answer::NotServed(_)) => {
                    self.answers().gave_up.push(order_of(key));
                    return answer;
                }
                answer => return answer,
            }
        }
    }

    /// Somebody who asks once, whatever comes of it.
    pub(super) fn buy_once(&self, key: u128, buyer: BuyerId, quantity: u32, random: &mut Random) -> Answer {
        self.ask_for(key, (buyer, quantity), true, random)
    }

    /// Somebody whose order has no key: the event loop admits it, and nobody can ask for it again.
    pub(super) fn buy_without_key(
        &self,
        key: u128,
        buyer: BuyerId,
        quantity: u32,
        random: &mut Random,
    ) -> Answer {
        self.ask_for(key, (buyer, quantity), false, random)
    }

    fn ask_for(
        &self,
        key: u128,
        (buyer, quantity): (BuyerId, u32),
        is_keyed: bool,
        random: &mut Random,
    ) -> Answer {
        let id = order_of(key);
        self.answers().wanted.entry(id).or_insert((buyer, BTreeSet::new())).1.insert(quantity);
        let placement = Placement { id, buyer, quantity, fingerprint: Fingerprint(u64::from(quantity)) };
        let asked = self.begun.elapsed();
        let answer = self.place(placement, is_keyed, random);
        let answered = Answered { asked, at: self.begun.elapsed(), quantity, answer: answer.clone() };
        self.answers().orders.entry(id).or_default().push(answered);
        answer
    }

    fn place(&self, placement: Placement, is_keyed: bool, random: &mut Random) -> Answer {
        let (host, server) = self.any(random);
        let asked = self.begun.elapsed();
        let reply = server.map(|server| reply_to(server, host, placement, is_keyed));
        record::note(placement.id, is_vain(reply.as_ref()), || {
            let key = if is_keyed { "" } else { ", without a key" };
            let wants = format!("buyer {} for {} units{key}", placement.buyer, placement.quantity);
            format!("{host}, asked at {} ms by {wants}, answers: {}", asked.as_millis(), said(reply.as_ref()))
        });
        match reply {
            Some(Reply::Pending { .. } | Reply::Order(_)) => Answer::Ordered,
            Some(Reply::Accepted(Accepted::Order { .. })) => Answer::Ordered,
            Some(
                Reply::Refused(Refusal::Paused) | Reply::NotAdmitted(NotAdmitted::Refused(Refusal::Paused)),
            ) => Answer::NotServed(PAUSED),
            Some(Reply::Refused(refusal)) => Answer::Refused(refusal),
            Some(Reply::Lost(_)) => Answer::Lost,
            Some(Reply::Unknown) => Answer::Unknown,
            Some(Reply::NotAdmitted(NotAdmitted::Refused(refusal))) => Answer::Refused(refusal),
            Some(Reply::NotAdmitted(_)) => Answer::NotServed("not admitted"),
            Some(Reply::Unavailable) => Answer::NotServed("not available"),
            Some(Reply::ClockUnconfirmed) => Answer::NotServed("the clock is not confirmed"),
            None => Answer::NotServed("no server there"),
            Some(other) => {
                self.wrong(placement.id, &format!("an order is not answered so: {other:?}"));
                Answer::Unknown
            }
        }
    }

    fn wrong(&self, order: OrderId, what: &str) {
        let what = format!("order {:x}: {what}", order.hash);
        self.answers().wrong.push(Broken::of([order], what));
    }

    /// `about`: an order, and what is asked for, for whoever takes notes.
    fn ask(&self, about: Option<(OrderId, &str)>, request: Request, random: &mut Random) -> Option<Reply> {
        let (host, server) = self.any(random);
        let asked = self.begun.elapsed();
        let reply = server.map(|(asker, _)| asker.ask(request, PATIENCE));
        if let Some((order, what)) = about {
            record::note(order, is_vain(reply.as_ref()), || {
                format!("{host}, asked at {} ms {what}, answers: {}", asked.as_millis(), said(reply.as_ref()))
            });
        }
        reply
    }

    /// One of the servers, and the way to it, if it runs. A machine that stands still answers nobody.
    fn any(&self, random: &mut Random) -> (&str, Option<(Asker, Intake)>) {
        let host = &self.hosts[random.below(self.hosts.len())];
        if schedule::is_stopped(host) {
            time::sleep(PATIENCE);
            return (host, None);
        }
        (host, self.askers.of(host))
    }

    /// Once, at any server.
    pub(super) fn look_at(&self, order: OrderId, buyer: BuyerId, random: &mut Random) {
        let asked = self.begun.elapsed();
        let read = Request::Read { order, buyer: Some(buyer), wait: LOOKS_FOR, with_address: false };
        let is_known = match self.ask(Some((order, "for the order")), read, random) {
            Some(Reply::Order(_) | Reply::Pending { .. } | Reply::Lost(_)) => true,
            Some(Reply::Refused(Refusal::UnknownOrder)) => false,
            None | Some(Reply::Unknown | Reply::Unavailable) => return,
            Some(other) => {
                return self.wrong(order, &format!("whoever reads an order is not answered so: {other:?}"));
            }
        };
        let at = self.begun.elapsed();
        self.answers().looked.push(Looked { order, asked, at, is_known });
    }

    /// Reports a payment, as often as it takes.
    pub(super) fn pay(&self, order: OrderId, quantity: u32, random: &mut Random) {
        let id: Box<str> = format!("payment-{:x}", order.hash).into();
        let amount = self.price * u64::from(quantity);
        self.account(&Command::Pay(Pay { id: id.clone(), order, amount }), Paid { id, order }, random);
    }

    /// Somebody at the shop, who gives all the money back, and so many units.
    pub(super) fn refund(&self, order: OrderId, units: u32, random: &mut Random) {
        let id: Box<str> = format!("refund-{:x}", order.hash).into();
        let refund = Refund { id: id.clone(), order, amount: None, units, paid_out: false };
        self.account(&Command::Refund(refund), Paid { id, order }, random);
    }

    fn account(&self, command: &Command, of: Paid, random: &mut Random) {
        let (begun, order) = (Instant::now(), of.order);
        let what = format!("for {}", of.id);
        while begun.elapsed() < GIVES_UP {
            match self.ask(Some((order, what.as_str())), Request::Execute(command.clone()), random) {
                Some(Reply::Accepted(Accepted::Payment { .. })) => return self.answers().paid.push(of),
                // It was paid for nothing, so there is nothing to give back.
                Some(Reply::Refused(_)) if matches!(command, Command::Refund(_)) => return,
                _ => pause(random),
            }
        }
        self.answers().gave_up.push(order);
    }

    pub(super) fn cancel(&self, order: OrderId, buyer: BuyerId, random: &mut Random) {
        let begun = Instant::now();
        while begun.elapsed() < GIVES_UP {
            let cancel = Request::Execute(Command::Cancel { order, buyer });
            match self.ask(Some((order, "to cancel it")), cancel, random) {
                Some(Reply::Accepted(Accepted::Order { order, .. })) if order.status == Status::Cancelled => {
                    return self.answers().cancelled.push(order.id);
                }
                // It has expired meanwhile, or was paid.
                Some(Reply::Accepted(_) | Reply::Refused(_)) => return,
                _ => pause(random),
            }
        }
        self.answers().gave_up.push(order);
    }

    /// An operator, who does not give up.
    /// Says at each server that is off by the right time that its system's clock is right. It may be refused, for that is not
    /// right yet.
    pub(super) fn confirm_clocks(&self) {
        for host in self.hosts.iter().filter(|host| !schedule::is_stopped(host)) {
            let Some((asker, intake)) = self.askers.of(host) else { continue };
            let says = intake.clock.at(schedule::instant_of(host));
            if says.0.abs_diff(schedule::wall().0) > CLOCK_OFF_MS {
                asker.ask(Request::ConfirmClock { closed: false }, PATIENCE);
            }
        }
    }

    pub(super) fn command(&self, command: &Command, random: &mut Random) -> Reply {
        loop {
            match self.ask(None, Request::Execute(command.clone()), random) {
                Some(reply @ (Reply::Accepted(_) | Reply::Refused(_))) => return reply,
                _ => pause(random),
            }
        }
    }
}

/// The order is admitted by the event loop if it has no key, and goes on to the profile.
fn reply_to((asker, intake): (Asker, Intake), host: &str, placement: Placement, is_keyed: bool) -> Reply {
    let asked_at = schedule::instant_of(host);
    let admission = match is_keyed {
        true => Judged::ByTheProfile { over: None, bounds: BuyerBounds::Lifted },
        false => {
            let Intake { admission, shelf, clock, .. } = &intake;
            let asks = (placement.buyer, placement.id.sku);
            match admission.admit(&shelf.current(), asks, BuyerBounds::Lifted, clock.at(asked_at)) {
                Ok(permit) => Judged::ByTheLoop(permit),
                Err(why) => return Reply::NotAdmitted(why),
            }
        }
    };
    let order = NewOrder { placement, buyer_text: None, address: None, admission, asked_at };
    asker.ask(Request::Place(order), PATIENCE)
}

/// Whoever is answered so asks again.
fn is_vain(reply: Option<&Reply>) -> bool {
    match reply {
        None => true,
        Some(Reply::Refused(why) | Reply::NotAdmitted(NotAdmitted::Refused(why))) => *why == Refusal::Paused,
        Some(Reply::NotAdmitted(_)) => true,
        Some(reply) => matches!(
            reply,
            Reply::Unknown | Reply::Unavailable | Reply::ClockUnconfirmed | Reply::StillPending
        ),
    }
}

/// A reply, for people. `None`: no server is there.
fn said(reply: Option<&Reply>) -> String {
    match reply {
        None => "nothing, it is not there".to_owned(),
        Some(Reply::Unknown) => "unknown".to_owned(),
        Some(Reply::Unavailable) => "not available".to_owned(),
        Some(Reply::StillPending) => "pending still".to_owned(),
        Some(Reply::Pending { replayed, .. }) => format!("pending{}", again(*replayed)),
        Some(Reply::Order(order)) => format!("an order, {:?}", order.status),
        Some(Reply::Lost(_)) => "lost".to_owned(),
        Some(Reply::Accepted(Accepted::Order { order, replayed })) => {
            format!("accepted, {:?}{}", order.status, again(*replayed))
        }
        Some(Reply::Accepted(Accepted::Payment { payment, replayed })) => {
            format!("accepted, {:?}{}", payment.disposition, again(*replayed))
        }
        Some(Reply::Refused(why) | Reply::NotAdmitted(NotAdmitted::Refused(why))) => {
            format!("refused, {why:?}")
        }
        Some(other) => format!("{other:?}"),
    }
}

fn again(replayed: bool) -> &'static str {
    if replayed { ", as before" } else { "" }
}

pub(super) fn pause(random: &mut Random) {
    let (least, most) = AGAIN_MS;
    time::sleep(Duration::from_millis((least + random.below(most - least)) as u64));
}
