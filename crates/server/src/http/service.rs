//! The service of one event loop: finds the route, lets it answer or hand over, and delivers what comes back.
//!
//! Called by: the event loop, through [`Service`].

use std::sync::Arc;
use std::time::Instant;

use engine::{Refusal, UnixMs};
use prometheus_client::metrics::counter::Counter;

use super::answer::{Answering, Shape, SoldOut};
use super::error::Problem;
use super::fields::{Fields, Method};
use super::order_id::Ids;
use super::pages::LoopPages;
use super::pending::{Pending, PendingTable, Placed, Waiting};
use super::published::Templates;
use super::reads::Found;
use super::route::Address;
use super::shared::{ServerState, Shared};
use crate::catalog::Catalog;
use crate::metrics::Metrics;
use crate::net::{Answer, Replies, Request, ResponseWriter, Service, Ticket};
use crate::writer::{Client, Envelope, Reply, Request as Command};

/// One request on its way through a route.
#[derive(Debug)]
pub(super) struct Call<'a> {
    pub(super) request: &'a Request<'a>,
    pub(super) fields: Fields<'a>,
    pub(super) method: Method,
    pub(super) ticket: Ticket,
    pub(super) now: UnixMs,
    /// The origin of another site whose page may read the answer.
    pub(super) origin: Option<Arc<str>>,
}

impl Call<'_> {
    pub(super) fn now_s(&self) -> u64 {
        self.now.0 / 1000
    }
}

/// Counters that are looked up once, by their label, and then are one addition each.
#[derive(Debug)]
pub(super) struct Tally {
    by_class: [Counter; 4],
    by_refusal: Vec<(&'static str, Counter)>,
}

const CLASSES: [&str; 4] = ["2xx", "3xx", "4xx", "5xx"];

impl Tally {
    fn new(metrics: &Metrics) -> Tally {
        let class = |class| metrics.responses.get_or_create(&[("class", class)]).clone();
        Tally { by_class: CLASSES.map(class), by_refusal: Vec::new() }
    }

    pub(super) fn answered(&self, status: u16) {
        debug_assert!((200..600).contains(&status), "an answer was written");
        self.by_class[usize::from(status / 100).clamp(2, 5) - 2].inc();
    }

    pub(super) fn refused(&mut self, metrics: &Metrics, refusal: Refusal) {
        let code = refusal.code();
        // Few codes; the texts are one each, so the pointers are compared before the letters.
        if let Some((_, counter)) = self.by_refusal.iter().find(|(known, _)| *known == code) {
            counter.inc();
            return;
        }
        let counter = metrics.refusals.get_or_create(&[("code", code)]).clone();
        counter.inc();
        self.by_refusal.push((code, counter));
    }
}

/// The routes, as one event loop serves them.
#[derive(Debug)]
pub struct HttpService {
    pub(super) shared: Arc<Shared>,
    client: Client,
    pub(super) catalog: Arc<Catalog>,
    batch: Vec<Envelope>,
    pending: PendingTable,
    replies: Vec<(Ticket, Reply)>,
    found: Vec<(Ticket, Found)>,
    /// Where an answer's body is assembled.
    pub(super) scratch: Vec<u8>,
    pub(super) ids: Ids,
    pub(super) tally: Tally,
    pub(super) templates: Templates,
    pub(super) pages: LoopPages,
    sold_out: SoldOut,
}

/// Where answers that come later go: the event loop, or a test.
pub(super) trait Delivery {
    /// False, and `write` is not called, if nobody waits any more.
    fn reply(&mut self, ticket: Ticket, write: impl FnOnce(&mut ResponseWriter<'_>)) -> bool;
}

impl Delivery for Replies<'_> {
    fn reply(&mut self, ticket: Ticket, write: impl FnOnce(&mut ResponseWriter<'_>)) -> bool {
        Replies::reply(self, ticket, write)
    }
}

impl HttpService {
    /// One per event loop; `client` is that loop's.
    pub fn new(shared: Arc<Shared>, client: Client) -> HttpService {
        HttpService {
            catalog: shared.shelf.current(),
            batch: Vec::new(),
            pending: PendingTable::default(),
            replies: Vec::new(),
            found: Vec::new(),
            scratch: Vec::with_capacity(4096),
            ids: Ids::new(shared.order_id_secret),
            tally: Tally::new(&shared.metrics),
            templates: Templates::default(),
            pages: LoopPages::default(),
            sold_out: SoldOut::new(),
            client,
            shared,
        }
    }

    /// Hands a command to the writer; the answer is written as `waiting` says.
    pub(super) fn ask(
        &mut self,
        call: &Call<'_>,
        command: Command,
        waiting: Waiting,
    ) -> Result<Answer, Problem> {
        match self.shared.state() {
            ServerState::Serving | ServerState::Draining => {}
            ServerState::Starting => return Err(Problem::unavailable("The server is starting; try again.")),
            ServerState::Failed => {
                return Err(Problem::unavailable("The ledger can't be written; the server is stopping."));
            }
        }
        self.hand_over(call.ticket, command, Pending { waiting, origin: call.origin.clone() });
        Ok(Answer::Later)
    }

    fn hand_over(&mut self, ticket: Ticket, request: Command, pending: Pending) {
        self.pending.put(ticket, pending);
        self.batch.push(Envelope { event_loop: self.client.event_loop(), ticket, request });
    }

    /// Asks the ledger's file.
    pub(super) fn read_ledger(
        &mut self,
        call: &Call<'_>,
        question: super::reads::Question,
        waiting: Waiting,
    ) -> Result<Answer, Problem> {
        if !self.shared.reads.ask(self.client.event_loop(), call.ticket, question) {
            return Err(Problem::busy());
        }
        self.pending.put(call.ticket, Pending { waiting, origin: call.origin.clone() });
        Ok(Answer::Later)
    }

    fn route(
        &mut self,
        address: Address<'_>,
        call: &Call<'_>,
        out: &mut Answering<'_, '_>,
    ) -> Result<Answer, Problem> {
        use Address as A;
        if !address.takes(call.method) {
            return Err(Problem::method_not_allowed(address.allow()));
        }
        if call.method == Method::Options {
            return Ok(self.options(address, call, out));
        }
        match (address, call.method) {
            (A::Orders, Method::Post) => self.place_order(call),
            (A::Orders, _) => self.feed(call),
            (A::Order(id), _) => self.read_order(call, id),
            (A::CancelOrder(id), _) => self.cancel_order(call, id),
            (A::PayOrder(id), _) => self.demo_pay(call, id),
            (A::Stock, _) => self.stock(call, out),
            (A::Time, _) => self.time(call, out),
            (A::Sales, Method::Post) => self.create_sale(call),
            (A::Sales, _) => self.list_sales(call, out),
            (A::Sale(id), Method::Patch) => self.change_sale(call, id),
            (A::Sale(id), _) => self.show_sale(call, id, out),
            (A::Steer(id, steer), _) => self.steer_sale(call, id, steer),
            (A::Adjust(sale, product, how), _) => self.adjust_stock(call, sale, product, how),
            (A::Audit, _) => self.audit(call),
            (A::Reanchor, _) => self.reanchor(call),
            (A::RefundsDue, _) => self.refunds_due(call),
            (A::Settle(id), _) => self.settle(call, id),
            (A::DemoLoad, _) => self.demo_load(call),
            (A::DemoSession, _) => self.demo_session(call, out),
            (A::Payments, _) => self.payment(call),
            (A::GenerateOrder, _) => self.generate_order(call),
            (A::PressureMq, _) => self.pressure_mq(call),
            (A::CacheStock, _) => self.cache_stock(call, out),
            (A::Submit, _) => self.submit_order(call),
            (A::OpenApi, _) => self.open_api(out),
            (A::Health, _) => self.health(out),
            (A::Ready, _) => self.ready(out),
            (A::Metrics, _) => self.metrics(out),
            (A::Index | A::SalePage(..) | A::ProductPage | A::OrderPage | A::ApiPage | A::Asset, _) => {
                self.page(address, call, out)
            }
        }
    }

    /// What may be asked here; for a page of an allowed origin also what it may send.
    #[expect(clippy::unused_self, reason = "a route like any other")]
    fn options(&self, address: Address<'_>, call: &Call<'_>, out: &mut Answering<'_, '_>) -> Answer {
        let mut headers = vec![("Allow", address.allow())];
        if call.origin.is_some() {
            headers.push(("Access-Control-Allow-Methods", address.allow()));
            headers.push(("Access-Control-Allow-Headers", "Authorization, Content-Type, Idempotency-Key"));
            headers.push(("Access-Control-Max-Age", "600"));
        }
        out.empty(204, &headers);
        Answer::Ready
    }

    /// Delivers what the writer and the ledger's file said since.
    pub(super) fn deliver_to(&mut self, delivery: &mut impl Delivery) {
        let mut replies = std::mem::take(&mut self.replies);
        self.client.take(&mut replies);
        if !replies.is_empty() {
            self.shared.shelf.refresh(&mut self.catalog);
            let answered = Instant::now();
            for (ticket, reply) in replies.drain(..) {
                self.deliver_one(ticket, reply, answered, delivery);
            }
        }
        self.replies = replies;
        let mut found = std::mem::take(&mut self.found);
        self.shared.reads.take(self.client.event_loop(), &mut found);
        for (ticket, found) in found.drain(..) {
            let Some(pending) = self.pending.take(ticket) else { continue };
            let found = |service: &mut HttpService, out: &mut Answering<'_, '_>| service.found(found, out);
            self.write_later(ticket, pending.origin, Shape::Problem, delivery, found);
        }
        self.found = found;
    }

    fn deliver_one(&mut self, ticket: Ticket, reply: Reply, answered: Instant, delivery: &mut impl Delivery) {
        let Some(Pending { waiting, origin }) = self.pending.take(ticket) else {
            debug_assert!(false, "an answer came that nobody had asked for");
            return;
        };
        let shape = match &waiting {
            Waiting::Placing { route: Placed::Published(_), .. } | Waiting::Message => Shape::Published,
            _ => Shape::Problem,
        };
        match waiting {
            // Counted out whether or not anybody waits for the answer still.
            Waiting::Placing { buyer, received, route } => {
                self.count_placed(buyer, &reply, answered.duration_since(received));
                self.write_later(ticket, origin, shape, delivery, |service, out| {
                    service.placed(route, reply, out)
                });
            }
            Waiting::DemoPayRead { order, buyer } => match reply {
                Reply::Order(view) => {
                    let (command, waiting) = super::payments::demo_pay_paid(order, buyer, view.amount());
                    self.hand_over(ticket, command, Pending { waiting, origin });
                }
                reply => self.write_later(ticket, origin, shape, delivery, |_, _| Err(other(reply))),
            },
            Waiting::DemoPayPaid { order, buyer } => match reply {
                Reply::Accepted(_) => {
                    let command = Command::Read { order, buyer: Some(buyer) };
                    self.hand_over(ticket, command, Pending { waiting: Waiting::Order, origin });
                }
                reply => self.write_later(ticket, origin, shape, delivery, |_, _| Err(other(reply))),
            },
            waiting => self.write_later(ticket, origin, shape, delivery, |service, out| {
                service.told(waiting, reply, out)
            }),
        }
    }

    fn write_later(
        &mut self,
        ticket: Ticket,
        origin: Option<Arc<str>>,
        shape: Shape,
        delivery: &mut impl Delivery,
        write: impl FnOnce(&mut HttpService, &mut Answering<'_, '_>) -> Result<(), Problem>,
    ) {
        delivery.reply(ticket, |writer| {
            let mut out = Answering::new(writer, origin);
            if let Err(problem) = write(self, &mut out) {
                out.problem(&problem, shape, &self.sold_out, &mut self.scratch);
            }
            self.tally.answered(out.status);
        });
    }

    /// Writes what the writer told, other than about placing.
    fn told(&mut self, waiting: Waiting, reply: Reply, out: &mut Answering<'_, '_>) -> Result<(), Problem> {
        match waiting {
            Waiting::Order => self.show_order(reply, out),
            Waiting::Payment => self.show_payment(reply, out),
            Waiting::RefundsDue => self.show_refunds_due(reply, out),
            Waiting::Sale { sale, status } => self.show_changed_sale(sale, status, reply, out),
            Waiting::Message => self.show_message(reply, out),
            Waiting::Balance { balance } => self.show_balance(balance, reply, out),
            Waiting::Reanchor => self.show_reanchored(reply, out),
            Waiting::Placing { .. }
            | Waiting::DemoPayRead { .. }
            | Waiting::DemoPayPaid { .. }
            | Waiting::Ledger => unreachable!("these are written elsewhere: {waiting:?}"),
        }
    }
}

/// What a reply means that is not the one hoped for.
pub(super) fn other(reply: Reply) -> Problem {
    match reply {
        Reply::Refused(refusal) => refusal.into(),
        Reply::Rejected(rejection) => rejection.into(),
        Reply::Unknown => Problem::outcome_unknown(),
        reply => {
            debug_assert!(false, "the writer answered another question: {reply:?}");
            Problem::outcome_unknown()
        }
    }
}

impl Service for HttpService {
    fn body_bytes_max(&self, _method: &str, path: &str) -> usize {
        let options = &self.shared.options;
        let operators = Address::of(path).is_some_and(Address::is_operators);
        if operators { options.operator_body_bytes_max } else { options.body_bytes_max }
    }

    fn call(&mut self, request: &Request<'_>, ticket: Ticket, response: &mut ResponseWriter<'_>) -> Answer {
        let fields = Fields::of(request);
        let origin = self.shared.auth.foreign_origin(&fields);
        let mut out = Answering::new(response, origin.clone());
        let method = Method::of(request.method);
        let call = Call { request, fields, method, ticket, now: self.shared.clock.now(), origin };
        let address = Address::of(request.path);
        let answered = match address {
            Some(address) => self.route(address, &call, &mut out),
            None => Err(Problem::not_found()),
        };
        if matches!(answered, Ok(Answer::Later)) {
            return Answer::Later;
        }
        if let Err(problem) = answered {
            let for_people = address.is_none_or(Address::is_page) && !request.path.starts_with("/api/");
            let published = address.is_some_and(Address::is_published);
            if for_people && problem.status == 404 && super::pages::wants_html(&call) {
                self.not_found_page(&mut out);
            } else {
                let shape = if published { Shape::Published } else { Shape::Problem };
                out.problem(&problem, shape, &self.sold_out, &mut self.scratch);
            }
        }
        self.tally.answered(out.status);
        Answer::Ready
    }

    fn round_ended(&mut self) {
        self.client.submit(&mut self.batch);
        self.shared.shelf.refresh(&mut self.catalog);
    }

    fn deliver(&mut self, replies: &mut Replies<'_>) {
        self.deliver_to(replies);
    }

    fn protocol_error(&mut self, status: u16, detail: &str, response: &mut ResponseWriter<'_>) {
        let mut out = Answering::new(response, None);
        let problem = Problem::protocol(status, detail);
        out.problem(&problem, Shape::Problem, &self.sold_out, &mut self.scratch);
        self.tally.answered(out.status);
    }
}
