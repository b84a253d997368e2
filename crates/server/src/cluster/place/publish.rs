//! From the gate to the broker: what was reserved is sent in batches, and answered when the broker has it.
//!
//! Whatever a send comes to, no units are returned because of it: the reservation holds the whole order, and is
//! rolled forward if its message never came. A send that did not succeed is repeated until the order's deadline
//! (the publish time-out after its reservation began); then the buyer is answered that the outcome is unknown. An
//! acknowledgement after the deadline is not trusted either: the gate may be rebuilt from then on.

use std::time::Duration;

use engine::OrderView;

use crate::cluster::Core;
use crate::cluster::answers::{Answers, ReplyTo};
use crate::intake::Drained;
use crate::intake::Health;
use crate::intake::Need;
use crate::intake::Reply;
use crate::queue::{Produce, SendError, Unavailable, batch_len};
use crate::time::Instant;

/// The longest that a sender waits for work before it looks after the broker again.
const PATIENCE: Duration = Duration::from_millis(200);
/// Between two tries while the broker takes nothing.
const RETRY_PAUSE: Duration = Duration::from_millis(20);

/// A server that has just started makes topics and connections first, and is not ready meanwhile: that is no fault
/// unless it takes longer than this.
const START_PATIENCE: Duration = Duration::from_secs(10);

/// An order that holds units at the gate, or a message that is no order.
#[derive(Debug)]
pub(in crate::cluster) struct Publication {
    pub(in crate::cluster) to: ReplyTo,
    pub(in crate::cluster) body: Vec<u8>,
    pub(in crate::cluster) what: Published,
    /// An acknowledgement that comes later is not passed on.
    pub(in crate::cluster) deadline: Instant,
}

#[derive(Debug)]
pub(in crate::cluster) enum Published {
    Order { order: OrderView, replayed: bool },
    Message,
}

/// Runs until the stage is closed and empty.
pub(in crate::cluster) fn run(core: &Core, mut producer: Box<dyn Produce>) {
    let topics = &core.options.topics;
    let mut answers = Answers::new(&core.mailbox);
    let (mut orders, mut messages) = (Vec::new(), Vec::new());
    let mut work = Vec::new();
    let started = Instant::now();
    let mut reached = false;
    loop {
        let room = core.options.publish_batch_max - orders.len().max(messages.len());
        let idle = orders.is_empty() && messages.is_empty();
        let patience = if idle { PATIENCE } else { RETRY_PAUSE };
        let drained = core.publishing.drain(&mut work, room, patience);
        let waiting = core.publishing.len() + work.len() + orders.len() + messages.len();
        core.counts.publish_queue.set(i64::try_from(waiting).unwrap_or(i64::MAX));
        if drained == Drained::Closed && idle {
            break;
        }
        for publication in work.drain(..) {
            match publication.what {
                Published::Order { .. } => orders.push(publication),
                Published::Message => messages.push(publication),
            }
        }
        if orders.is_empty() && messages.is_empty() {
            // So a broker that dies is known before the next order reserves, and one that is back is found.
            let looked = producer.look(&topics.orders);
            reached |= looked.is_ok();
            let patient = !reached && started.elapsed() < START_PATIENCE;
            note_broker(&core.health, looked, patient);
            continue;
        }
        let sent = send(core, &mut *producer, &topics.orders, &mut orders, &mut answers)
            & send(core, &mut *producer, &topics.messages, &mut messages, &mut answers);
        answers.hand_over(&core.mailbox);
        if !sent {
            crate::time::sleep(RETRY_PAUSE);
        }
    }
}

/// Whether the broker takes messages. What will not be over by itself is reported at once.
fn note_broker(health: &Health, looked: Result<(), Unavailable>, patient: bool) {
    match looked {
        Ok(()) => drop(health.note(Need::Broker, true)),
        Err(Unavailable::Refused(why)) => drop(health.note_fault(Need::Broker, Some(why))),
        Err(_) if patient => {}
        // Why it could not be made is for whoever makes it to say.
        Err(Unavailable::NoTopic(_)) => drop(health.note(Need::Broker, false)),
        Err(Unavailable::Unreachable(why)) => drop(health.note_passing(Need::Broker, why)),
    }
}

/// Sends the first of a batch, as many as one message batch holds; false: they were not acknowledged, and stay in it
/// until their deadline.
fn send(
    core: &Core,
    producer: &mut dyn Produce,
    topic: &str,
    batch: &mut Vec<Publication>,
    answers: &mut Answers,
) -> bool {
    let started = Instant::now();
    for Publication { to, what, .. } in expired(batch, started) {
        // What is no order was never sent, for it is not sent twice.
        let reply = if matches!(what, Published::Message) { Reply::Unavailable } else { Reply::Unknown };
        answers.push(to, reply);
    }
    if batch.is_empty() {
        return true;
    }
    let count = batch_len(batch.iter().map(|publication| publication.body.len())).max(1);
    let bodies: Vec<&[u8]> = batch[..count].iter().map(|publication| publication.body.as_slice()).collect();
    let sent = producer.send(topic, &bodies);
    let now = Instant::now();
    match sent {
        Ok(()) => {
            core.health.note(Need::Broker, true);
            core.warnings.publishing.well();
            core.counts.publish_seconds.observe((now - started).as_secs_f64());
            core.counts.published.inc_by(count as u64);
            for publication in batch.drain(..count) {
                let reply =
                    if now <= publication.deadline { acknowledged(publication.what) } else { Reply::Unknown };
                answers.push(publication.to, reply);
            }
            true
        }
        Err(error) => {
            core.counts.publishes_failed.inc();
            core.health.note_passing(Need::Broker, error.to_string());
            core.warnings.publishing.met(&error);
            give_up_messages(batch, &error, answers);
            false
        }
    }
}

/// Takes out what is not sent any more.
fn expired(batch: &mut Vec<Publication>, now: Instant) -> impl Iterator<Item = Publication> {
    batch.extract_if(.., move |publication| now > publication.deadline)
}

fn acknowledged(what: Published) -> Reply {
    match what {
        Published::Order { order, replayed } => Reply::Pending { order, replayed },
        Published::Message => Reply::Stored,
    }
}

/// A message that is no order holds nothing, so it is not repeated.
fn give_up_messages(batch: &mut Vec<Publication>, error: &SendError, answers: &mut Answers) {
    for Publication { to, .. } in batch.extract_if(.., |one| matches!(one.what, Published::Message)) {
        answers.push(to, if error.is_unknown() { Reply::Unknown } else { Reply::Unavailable });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::net::Ticket;

    #[test]
    fn what_was_reserved_too_long_ago_is_not_sent() {
        let now = Instant::now();
        let due = |body: u8, deadline: Instant| Publication {
            to: ReplyTo { event_loop: 0, ticket: Ticket { connection: 0, generation: 0 } },
            body: vec![body],
            what: Published::Message,
            deadline,
        };
        let mut batch =
            vec![due(1, now - RETRY_PAUSE), due(2, now), due(3, now - PATIENCE), due(4, now + PATIENCE)];
        let bodies = |batch: &[Publication]| batch.iter().map(|one| one.body[0]).collect::<Vec<_>>();
        let gone: Vec<_> = expired(&mut batch, now).collect();
        assert_eq!((bodies(&gone), bodies(&batch)), (vec![1, 3], vec![2, 4]));
    }
}
