//! From what comes back to the request that waits for it: its answer is written by what it left behind.

use std::sync::Arc;

use engine::UnixMs;

use super::HttpService;
use super::pending::{Next, Pending, Waiting};
use super::placing::{Placed, found};
use super::reads::AfterRead;
use super::wire::answer::{Answering, ProblemFormat};
use super::wire::error::Problem;
use crate::intake::{Reply, Request};
use crate::net::{Replies, ResponseWriter, Ticket};
use crate::time::Instant;

/// Where answers that come later go: the event loop, or a test.
pub(super) trait Delivery {
    /// False, and `write` is not called, if nobody waits any more.
    fn reply(&mut self, ticket: Ticket, write: impl FnOnce(&mut ResponseWriter<'_>)) -> bool;

    /// A part of an answer that was begun; false if nobody reads it any more.
    fn part(&mut self, ticket: Ticket, bytes: &[u8]) -> bool;

    /// Whether whoever reads an answer in parts has taken all of them; `None` if nobody reads it any more.
    fn has_taken_parts(&self, ticket: Ticket) -> Option<bool>;

    /// The end of an answer in parts.
    fn end(&mut self, ticket: Ticket);
}

impl Delivery for Replies<'_> {
    fn reply(&mut self, ticket: Ticket, write: impl FnOnce(&mut ResponseWriter<'_>)) -> bool {
        Replies::reply(self, ticket, write)
    }

    fn part(&mut self, ticket: Ticket, bytes: &[u8]) -> bool {
        Replies::part(self, ticket, bytes)
    }

    fn has_taken_parts(&self, ticket: Ticket) -> Option<bool> {
        Replies::has_taken_parts(self, ticket)
    }

    fn end(&mut self, ticket: Ticket) {
        Replies::end(self, ticket);
    }
}

/// Whose answer is written, and how.
struct Recipient {
    ticket: Ticket,
    origin: Option<Arc<str>>,
    problems: ProblemFormat,
}

impl HttpService {
    /// Delivers what the profile replied and what was read from the ledger since.
    pub(super) fn deliver_to(&mut self, delivery: &mut impl Delivery) {
        let mut replies = std::mem::take(&mut self.replies);
        self.client.take(&mut replies);
        if !replies.is_empty() {
            self.shared.shelf.refresh(&mut self.catalog);
            let moment = Instant::now();
            let answered = (moment, self.shared.clock.at(moment));
            for (ticket, reply) in replies.drain(..) {
                self.deliver_one(ticket, reply, answered, delivery);
            }
        }
        self.replies = replies;
        let mut read = std::mem::take(&mut self.read);
        self.shared.reads.take(self.client.event_loop(), &mut read);
        for (ticket, show) in read.drain(..) {
            let recipient = |Pending { origin, problems, .. }| Recipient { ticket, origin, problems };
            match (show.next(), self.pending.take(ticket).map(recipient)) {
                (AfterRead::Page(page), _) => self.exports.read(ticket, page),
                (AfterRead::Write(write), Some(recipient)) => self.write_later(recipient, delivery, write),
                (AfterRead::Ask(request, waiting), Some(recipient)) => {
                    self.go_on(recipient, (*request, waiting), delivery);
                }
                (AfterRead::Write(_) | AfterRead::Ask(..), None) => {}
            }
        }
        self.read = read;
        self.send_delayed(delivery);
        self.send_figures(delivery);
        self.send_exports(delivery);
    }

    fn deliver_one(
        &mut self,
        ticket: Ticket,
        reply: Reply,
        (answered, now): (Instant, UnixMs),
        delivery: &mut impl Delivery,
    ) {
        let Some(Pending { waiting, origin, problems }) = self.pending.take(ticket) else {
            debug_assert!(false, "an answer came that nobody had asked for");
            return;
        };
        let recipient = Recipient { ticket, origin, problems };
        match waiting {
            // Counted out whether or not anybody waits for the answer still.
            Waiting::Placing { sku, asks, received, unit_price, show } => {
                let reply = match unit_price {
                    None => reply,
                    Some(unit_price) => found(reply, unit_price),
                };
                self.count_placed(sku, asks, &reply, (answered.duration_since(received), now));
                self.write_later(recipient, delivery, |service, out| show(service, Placed::of(reply)?, out));
            }
            Waiting::Reply(show) => {
                self.write_later(recipient, delivery, |service, out| show(service, reply, out));
            }
            Waiting::Step(next) => match next(reply) {
                Ok(Next::Ask(request, waiting)) => self.go_on(recipient, (request, waiting), delivery),
                Ok(Next::Thread) => {
                    let Recipient { ticket, origin, problems } = recipient;
                    self.pending.put(ticket, Pending { waiting: Waiting::Thread, origin, problems });
                }
                Ok(Next::Show(reply, show)) => {
                    self.write_later(recipient, delivery, |service, out| show(service, reply, out));
                }
                Err(problem) => self.write_later(recipient, delivery, |_, _| Err(problem)),
            },
            Waiting::Thread | Waiting::Delay => {
                unreachable!("what another thread or nobody answers does not come through the mailbox")
            }
        }
    }

    /// Asks the profile for what answers a request that has waited already.
    fn go_on(
        &mut self,
        recipient: Recipient,
        (request, waiting): (Request, Waiting),
        delivery: &mut impl Delivery,
    ) {
        if self.client.reserve() {
            let Recipient { ticket, origin, problems } = recipient;
            self.hand_over(ticket, request, Pending { waiting, origin, problems });
        } else {
            self.write_later(recipient, delivery, |_, _| Err(Problem::busy()));
        }
    }

    /// To a request that waits; if it does still.
    pub(super) fn reply_with(&mut self, ticket: Ticket, problem: Problem, delivery: &mut impl Delivery) {
        if let Some(Pending { origin, problems, .. }) = self.pending.take(ticket) {
            self.write_later(Recipient { ticket, origin, problems }, delivery, |_, _| Err(problem));
        }
    }

    fn write_later(
        &mut self,
        recipient: Recipient,
        delivery: &mut impl Delivery,
        write: impl FnOnce(&mut HttpService, &mut Answering<'_, '_>) -> Result<(), Problem>,
    ) {
        delivery.reply(recipient.ticket, |writer| {
            let mut out = Answering::new(writer, recipient.origin);
            if let Err(problem) = write(self, &mut out) {
                self.write_problem(&problem, recipient.problems, &mut out);
            }
            self.tally.answered(out.status);
        });
    }
}
