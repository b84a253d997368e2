//! From the event loops to the gate: the first stage of the cluster, and the only one that orders wait for before
//! anything is reserved.
//!
//! What one drain of the mailbox brought goes to the gate as one pipelined batch. A key that is known is answered
//! whatever admission says; only a request whose key is unknown is refused. Nothing is reserved that could not be
//! published: a broker that is down, or a full queue before it, refuses first.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use engine::handover::Reservation;
use engine::{BuyerId, OrderId, OrderView, Placement, Refunded, Refusal, Seq, Status, UnixMs};

use crate::cluster::Core;
use crate::cluster::answers::{Answers, NotServed, ReplyTo};
use crate::cluster::core::items_known;
use crate::cluster::place::publish::{Publication, Published};
use crate::cluster::work::{Instruction, Question};
use crate::gate::{Closed, Found, Gate, GateAnswer, GateError, Open, OpenRecord, Reserve, Reserved};
use crate::intake::Need;
use crate::intake::admission::{NotAdmitted, Permitted};
use crate::intake::catalog::Catalog;
use crate::intake::{Drained, Envelope, Judged, NewOrder, Reply, Request};
use crate::queue::{NotAMessage, message};
use crate::time::Instant;

const PATIENCE: Duration = Duration::from_millis(200);

/// What was read longer ago is not begun any more: its buyer has asked another server meanwhile, and may have been refused there.
const ASKED_AGO_MAX: Duration = Duration::from_secs(2);

/// An order before the gate.
#[derive(Debug)]
struct Incoming {
    to: ReplyTo,
    placement: Placement,
    buyer_text: Option<Box<str>>,
    address: Option<Box<[u8]>>,
    /// Of the buyer, as this server knows the sale.
    limit: Option<u32>,
    /// It has a key, so it may be known although this server never saw it.
    keyed: bool,
    asked_at: Instant,
}

/// The first stage. Lives on one thread.
#[derive(Debug)]
pub(in crate::cluster) struct Relay<'a> {
    core: &'a Core,
    gate: Gate,
    answers: Answers,
    /// As of this batch, with when it was last known to be the ledger's.
    catalog: Arc<Catalog>,
    sales_read_at: Option<UnixMs>,
    /// What waits for the broker when a batch begins: until its end that only falls.
    publishing: usize,
    reserving: Vec<Permitted<Incoming>>,
    /// With what each is refused if its key is unknown.
    looking_up: Vec<(Incoming, NotServed)>,
    publications: Vec<Publication>,
}

impl<'a> Relay<'a> {
    pub(in crate::cluster) fn new(core: &'a Core, gate: Gate) -> Relay<'a> {
        let answers = Answers::new(&core.mailbox);
        let (reserving, looking_up, publications) = (Vec::new(), Vec::new(), Vec::new());
        let catalog = core.shelf.current();
        let (sales_read_at, publishing) = (None, 0);
        Relay { core, gate, answers, catalog, sales_read_at, publishing, reserving, looking_up, publications }
    }

    /// Runs until the mailbox is closed and empty.
    pub(in crate::cluster) fn run(mut self) {
        let mut envelopes = Vec::new();
        let max = self.core.options.batch_commands_max;
        while self.core.mailbox.drain(&mut envelopes, max, PATIENCE) != Drained::Closed {
            if !envelopes.is_empty() {
                self.batch(&mut envelopes);
            }
            self.core.suspect(self.gate.take_suspects());
        }
    }

    fn batch(&mut self, envelopes: &mut Vec<Envelope>) {
        // In this order: the catalog is no older.
        self.sales_read_at = self.core.sales_read_at();
        self.core.shelf.refresh(&mut self.catalog);
        self.publishing = self.core.publishing.len();
        for Envelope { event_loop, ticket, request } in envelopes.drain(..) {
            let to = ReplyTo { event_loop, ticket };
            // A place in the mailbox is free again, but what stands behind must not grow without bound.
            let full = |waiting: usize| waiting >= self.core.options.queue_commands_max;
            let behind = match &request {
                Request::Place(_)
                | Request::Message(_)
                | Request::ConfirmClock { .. }
                | Request::Join { .. }
                | Request::Receipt { .. } => 0,
                Request::Read { .. } | Request::RefundsDue => self.core.status.len(),
                Request::Execute(_) | Request::Operate(..) | Request::SetBalance { .. } => {
                    self.core.commands.len()
                }
            };
            if full(behind) {
                self.answers.push(to, Reply::NotAdmitted(NotAdmitted::Busy));
                continue;
            }
            match request {
                Request::Place(order) => self.judge(to, order),
                Request::Message(body) => self.message(to, body),
                Request::Read { order, buyer, wait, with_address } => {
                    let until = Instant::now() + wait;
                    self.core.status.push(Question::Read { to, order, buyer, until, with_address });
                }
                Request::RefundsDue => self.core.status.push(Question::RefundsDue { to }),
                // A cluster has no lines.
                Request::Join { .. } | Request::Receipt { .. } => {
                    self.answers.push(to, Reply::Refused(Refusal::NoLine));
                }
                Request::Execute(command) => {
                    self.core.commands.push(Instruction::Execute { to, command, by: None })
                }
                Request::Operate(command, by) => {
                    self.core.commands.push(Instruction::Execute { to, command, by: Some(by) })
                }
                Request::SetBalance { sale, balance } => {
                    self.core.commands.push(Instruction::SetBalance { to, sale, balance });
                }
                Request::ConfirmClock { .. } => self.answers.push(to, self.core.confirm_clock()),
            }
        }
        self.look_up();
        self.reserve();
        self.core.publishing.append(&mut self.publications);
        self.answers.hand_over(&self.core.mailbox);
    }

    /// Admission, and whether what is reserved now could be published.
    fn judge(&mut self, to: ReplyTo, order: NewOrder) {
        let NewOrder { placement, buyer_text, address, admission, asked_at } = order;
        let (keyed, permit) = match admission {
            Judged::ByTheLoop(permit) => (false, Ok(permit)),
            Judged::ByTheProfile { over, bounds } => {
                let now = self.core.clock.now();
                let asked = (placement.buyer, placement.id.sku);
                let admit = || self.core.admission.admit(&self.catalog, asked, bounds, now);
                (true, over.map_or_else(admit, |over| Err(over.into())))
            }
        };
        let of_sku = self.catalog.item(placement.id.sku);
        let limit = of_sku.and_then(|(_, item)| item.limit);
        let known = of_sku.is_some_and(|(sale, _)| items_known(sale.spec.starts_at, self.sales_read_at));
        let sellable = || if known { self.publishable() } else { Err(NotServed::Unavailable) };
        let permit = permit.map_err(NotServed::NotAdmitted).and_then(|permit| match sellable() {
            Ok(()) => Ok(permit),
            Err(why) => {
                self.core.admission.take_back(permit);
                Err(why)
            }
        });
        let asked = Incoming { to, placement, buyer_text, address, limit, keyed, asked_at };
        match permit {
            Ok(permit) => self.reserving.push(permit.spend_on(asked)),
            Err(why) if keyed => self.looking_up.push((asked, why)),
            Err(why) => self.answers.push(to, why.into()),
        }
    }

    fn publishable(&self) -> Result<(), NotServed> {
        if !self.core.clock.is_confirmed() {
            return Err(NotServed::ClockUnconfirmed);
        }
        let needs = [Need::Broker, Need::BrokerDisk, Need::QueueWhole, Need::Backlog];
        if !needs.into_iter().all(|need| self.core.health.is_met(need)) {
            return Err(NotServed::Unavailable);
        }
        let waiting = self.publishing + self.reserving.len() + self.publications.len();
        let backlog = self.core.backlog.load(Ordering::Relaxed);
        if waiting >= self.core.options.publish_queue_max || backlog > self.core.options.backlog_max {
            return Err(NotServed::NotAdmitted(NotAdmitted::Busy));
        }
        Ok(())
    }

    fn message(&mut self, to: ReplyTo, body: Box<[u8]>) {
        match self.publishable() {
            Ok(()) => self.publications.push(Publication {
                to,
                body: body.into_vec(),
                what: Published::Message,
                deadline: Instant::now() + self.core.options.publish_timeout,
            }),
            Err(why) => self.answers.push(to, why.into()),
        }
    }

    /// Orders that were not admitted: refused, unless their key is known.
    fn look_up(&mut self) {
        let asked = std::mem::take(&mut self.looking_up);
        if asked.is_empty() {
            return;
        }
        let deadline = Instant::now() + self.core.options.publish_timeout;
        let ids: Vec<_> = asked.iter().map(|(asked, _)| asked.placement.id).collect();
        let found = self.gate.find(&ids);
        for ((asked, refused), found) in asked.into_iter().zip(found) {
            match found {
                Ok(None) => self.answers.push(asked.to, refused.into()),
                Ok(Some(Found::Open(open))) if is_of(&open, &asked.placement) => {
                    self.publish_again(asked, &open, deadline);
                }
                Ok(Some(Found::Open(_))) => {
                    self.answers.push(asked.to, Reply::Refused(Refusal::KeyConflict));
                }
                Ok(Some(Found::Settled(_))) | Err(_) => self.ask_ledger(asked),
            }
        }
    }

    fn reserve(&mut self) {
        // In this order: whoever stands still in between asks the gate for what it refuses by the time.
        let time = self.core.majority_time();
        let now = Instant::now();
        let mut asked = std::mem::take(&mut self.reserving);
        let too_late = |asked: &mut Permitted<Incoming>| now - asked.order().asked_at > ASKED_AGO_MAX;
        let waited: Vec<_> = asked.extract_if(.., too_late).collect();
        for asked in waited {
            let (asked, permit) = asked.into_parts();
            self.core.admission.take_back(permit);
            self.not_reserved(asked);
        }
        if asked.is_empty() {
            return;
        }
        // From before the gate is asked: a fence may come right behind the reservation.
        let deadline = Instant::now() + self.core.options.publish_timeout;
        let started = Instant::now();
        let mut records = Vec::with_capacity(asked.len());
        for Incoming { placement, buyer_text, address, .. } in asked.iter().map(Permitted::order) {
            let mut record = Vec::new();
            message::encode_asked(placement, (buyer_text.as_deref(), address.as_deref()), &mut record);
            records.push(record);
        }
        let requests: Vec<_> = asked
            .iter()
            .zip(&records)
            .map(|(asked, record)| {
                let Incoming { placement, limit, .. } = *asked.order();
                Reserve { placement, limit, record }
            })
            .collect();
        let reserved = self.gate.reserve(&requests, time);
        self.core.counts.gate_seconds.observe(started.elapsed().as_secs_f64());
        for ((asked, record), reserved) in asked.into_iter().zip(records).zip(reserved) {
            let (asked, permit) = asked.into_parts();
            let taken = matches!(&reserved, Ok(GateAnswer { what: Reserved::Taken { .. }, .. }));
            if let Err(error) = &reserved {
                self.core.note_closed(asked.placement.id.sku, error);
            }
            match &reserved {
                Err(error @ GateError::Closed(Closed::WrongClock { .. } | Closed::OtherLimit)) => {
                    self.core.warnings.differing.met(error)
                }
                _ if taken => self.core.warnings.differing.well(),
                _ => {}
            }
            if !taken && !matches!(&reserved, Err(GateError::Unknown(_))) {
                self.core.admission.take_back(permit);
            }
            self.reserved((asked, record), reserved, deadline);
        }
    }

    fn reserved(
        &mut self,
        (asked, mut record): (Incoming, Vec<u8>),
        reserved: Result<GateAnswer<Reserved>, GateError>,
        deadline: Instant,
    ) {
        match reserved {
            Ok(GateAnswer { seen, what }) => {
                if seen.available <= 0 {
                    self.core.stock.observe(self.core, asked.placement.id.sku, seen);
                }
                match what {
                    Reserved::Taken { at } => {
                        message::stamp(&mut record, seen.epoch, at);
                        self.publish(asked.to, (record, &asked.placement, at), false, deadline);
                    }
                    Reserved::Open(open) => self.publish_again(asked, &open, deadline),
                    Reserved::Settled => self.ask_ledger(asked),
                    Reserved::Refused(refusal) => self.answers.push(asked.to, Reply::Refused(refusal)),
                }
            }
            Err(GateError::Unknown(_)) => self.answers.push(asked.to, Reply::Unknown),
            Err(_) => self.not_reserved(asked),
        }
    }

    /// Nothing was reserved now. But under its key something may have been, before.
    fn not_reserved(&mut self, asked: Incoming) {
        if asked.keyed {
            self.ask_ledger(asked);
        } else {
            self.answers.push(asked.to, Reply::Unavailable);
        }
    }

    /// A reservation that is open still: its message may not have come, so it is sent again, and the answer is
    /// the broker's to this one.
    fn publish_again(&mut self, asked: Incoming, open: &OpenRecord, deadline: Instant) {
        match order_of(open) {
            Ok(order) => {
                let mut body = Vec::new();
                message::encode(&order, &mut body);
                self.publish(asked.to, (body, &order.placement, order.reserved_at), true, deadline);
            }
            Err(error) => {
                self.core.warnings.unreadable.met(&format_args!("order {}: {error}", asked.placement.id));
                self.answers.push(asked.to, Reply::Unknown);
            }
        }
    }

    fn publish(
        &mut self,
        to: ReplyTo,
        (body, placement, at): (Vec<u8>, &Placement, UnixMs),
        replayed: bool,
        deadline: Instant,
    ) {
        let order = view_of(&self.catalog, placement.id, placement.buyer, placement.quantity, at);
        let what = Published::Order { order, replayed };
        self.publications.push(Publication { to, body, what, deadline });
    }

    fn ask_ledger(&mut self, asked: Incoming) {
        self.core.status.push(Question::Replay { to: asked.to, placement: asked.placement });
    }
}

/// The order that a reservation holds; the gate alone knows when it was reserved, and under which epoch.
pub(in crate::cluster) fn order_of(open: &OpenRecord) -> Result<Reservation, NotAMessage> {
    let order = message::decode(&open.record)?;
    Ok(Reservation { epoch: open.epoch, reserved_at: open.at, ..order })
}

/// Whether a reservation is the one that this request made, and not another under the same key.
pub(in crate::cluster) fn is_of(open: &OpenRecord, placement: &Placement) -> bool {
    open.what == Open::Order(*placement)
}

impl Core {
    /// An order that is with the broker, as its buyer sees it.
    pub(in crate::cluster) fn pending_view(&self, order: &Reservation) -> OrderView {
        let placement = &order.placement;
        self.bare_view(placement.id, placement.buyer, placement.quantity, order.reserved_at)
    }

    /// An order that is not in the ledger, with what is known of it.
    pub(in crate::cluster) fn bare_view(
        &self,
        id: OrderId,
        buyer: BuyerId,
        quantity: u32,
        at: UnixMs,
    ) -> OrderView {
        view_of(&self.shelf.current(), id, buyer, quantity, at)
    }
}

fn view_of(catalog: &Catalog, id: OrderId, buyer: BuyerId, quantity: u32, at: UnixMs) -> OrderView {
    OrderView {
        id,
        seq: Seq(0),
        buyer,
        quantity,
        unit_price: catalog.item(id.sku).map_or(0, |(_, item)| item.price),
        status: Status::Held,
        placed_at: at,
        pay_by: None,
        closed_at: None,
        refund_due: false,
        refunded: Refunded::default(),
    }
}
