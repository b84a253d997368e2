//! From a request to its route, and from what comes back to the request that waits for it.
//!
//! This is the top of the interface: it knows every route, and
//! no route knows it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::http::pending::{Pending, Placed, Waiting};
use crate::http::route::Address;
use crate::http::service::{Call, HttpService, other};
use crate::http::wire::answer::{Answering, Shape};
use crate::http::wire::error::Problem;
use crate::http::wire::fields::{Fields, Method};
use crate::intake::{Reply, Request as Command};
use crate::net::{Answer, Replies, Request, ResponseWriter, Service, Ticket};

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
            (A::Metrics, _) => self.metrics(call, out),
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
                Reply::Order(view) if self.client.reserve() => {
                    let (command, waiting) =
                        crate::http::routes::payments::demo_pay_paid(order, buyer, view.amount());
                    self.hand_over(ticket, command, Pending { waiting, origin });
                }
                Reply::Order(_) => {
                    self.write_later(ticket, origin, shape, delivery, |_, _| Err(Problem::busy()))
                }
                reply => self.write_later(ticket, origin, shape, delivery, |_, _| Err(other(reply))),
            },
            Waiting::DemoPayPaid { order, buyer } => match reply {
                Reply::Accepted(_) if self.client.reserve() => {
                    let command = Command::Read { order, buyer: Some(buyer), wait: Duration::ZERO };
                    self.hand_over(ticket, command, Pending { waiting: Waiting::Order, origin });
                }
                Reply::Accepted(_) => {
                    self.write_later(ticket, origin, shape, delivery, |_, _| Err(Problem::busy()));
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

impl Service for HttpService {
    /// The large bound is the operator's alone: anybody else could have the server buffer that much for a 401.
    fn body_bytes_max(&self, _method: &str, path: &str, headers: &[httparse::Header<'_>]) -> usize {
        let options = &self.shared.options;
        let operators = Address::of(path).is_some_and(Address::is_operators)
            && self.shared.auth.is_operator(&Fields::of(headers));
        if operators { options.operator_body_bytes_max } else { options.body_bytes_max }
    }

    fn call(&mut self, request: &Request<'_>, ticket: Ticket, response: &mut ResponseWriter<'_>) -> Answer {
        // An answer that another loop has given already may be of a newer catalog than this loop has, and its
        // reader may ask here next. One atomic load.
        self.shared.shelf.refresh(&mut self.catalog);
        let fields = Fields::of(request.headers);
        let origin = self.shared.auth.foreign_origin(&fields);
        let mut out = Answering::new(response, origin.clone());
        let method = Method::of(request.method);
        let call = Call { request, fields, method, ticket, now: self.shared.clock.now(), origin };
        let address = Address::of(request.path);
        let answered = match (address, fields.unusable) {
            (Some(_), Some(name)) => Err(Problem::unusable_header(name)),
            (Some(address), None) => self.route(address, &call, &mut out),
            (None, _) => Err(Problem::not_found()),
        };
        if matches!(answered, Ok(Answer::Later)) {
            return Answer::Later;
        }
        if let Err(problem) = answered {
            let for_people = address.is_none_or(Address::is_page) && !request.path.starts_with("/api/");
            let published = address.is_some_and(Address::is_published);
            if for_people && problem.status == 404 && crate::http::pages::wants_html(&call) {
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
