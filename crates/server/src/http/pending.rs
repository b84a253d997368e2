//! What each waiting request is waiting for: how its answer will be written when the reply is there.
//!
//! One place per connection, because a connection has one request in flight. If a connection is gone and its
//! place is taken by another, what waits is kept aside until its answer comes, so that every order that was
//! counted as in flight is counted out again.
//!
//! A route leaves a function behind that writes its answer. A box of a function that carries nothing allocates
//! nothing, so the usual path does not.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use engine::SkuId;

use super::HttpService;
use super::call::Call;
use super::placing::{Asks, Placed};
use super::wire::answer::{Answering, ProblemFormat};
use super::wire::error::Problem;
use crate::intake::{Reply, Request};
use crate::net::Ticket;
use crate::time::Instant;

/// Writes the answer to a request, from the reply.
pub(super) type Show =
    Box<dyn FnOnce(&mut HttpService, Reply, &mut Answering<'_, '_>) -> Result<(), Problem> + Send>;

/// Writes the answer to an order that was accepted.
pub(super) type ShowPlaced =
    Box<dyn FnOnce(&mut HttpService, Placed, &mut Answering<'_, '_>) -> Result<(), Problem> + Send>;

/// Says from a reply what comes next.
pub(super) type NextStep = Box<dyn FnOnce(Reply) -> Result<Next, Problem> + Send>;

pub(super) enum Next {
    /// The profile is asked again.
    Ask(Request, Waiting),
    /// A thread beside the loops was asked.
    Thread,
    /// Nothing: that was it.
    Show(Reply, Show),
}

/// What a request waits for.
pub(super) enum Waiting {
    /// An order: it is counted as in flight until its reply is there, whoever waits still.
    Placing {
        sku: SkuId,
        asks: Asks,
        received: Instant,
        /// It is only looked for: a unit costs this now, which is not what its buyer was shown.
        unit_price: Option<u64>,
        show: ShowPlaced,
    },
    Reply(Show),
    /// The reply to one of several requests that answer one call.
    Step(NextStep),
    /// A thread beside the loops, which reads the ledger or renders; what writes the answer comes from there.
    Thread,
    /// Nothing: its answer is known, and comes late.
    Delay,
}

impl fmt::Debug for Waiting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Waiting::Placing { .. } => "Placing",
            Waiting::Reply(_) => "Reply",
            Waiting::Step(_) => "Step",
            Waiting::Thread => "Thread",
            Waiting::Delay => "Delay",
        })
    }
}

/// A request that waits.
#[derive(Debug)]
pub(super) struct Pending {
    pub(super) waiting: Waiting,
    /// The origin of another site whose page may read the answer.
    pub(super) origin: Option<Arc<str>>,
    /// How its problems are reported.
    pub(super) problems: ProblemFormat,
}

impl Pending {
    pub(super) fn new(call: &Call<'_>, waiting: Waiting) -> Pending {
        Pending { waiting, origin: call.origin.clone(), problems: call.problems }
    }
}

/// All requests of one loop that wait.
#[derive(Debug, Default)]
pub(super) struct PendingTable {
    by_connection: Vec<Option<(u32, Pending)>>,
    /// Of connections that are gone; few, and soon gone too.
    orphans: HashMap<(u32, u32), Pending>,
}

impl PendingTable {
    pub(super) fn put(&mut self, ticket: Ticket, pending: Pending) {
        let index = usize::try_from(ticket.connection).expect("usize has 32 bits or more");
        if index >= self.by_connection.len() {
            self.by_connection.resize_with(index + 1, || None);
        }
        if let Some((generation, earlier)) = self.by_connection[index].replace((ticket.generation, pending)) {
            self.orphans.insert((ticket.connection, generation), earlier);
        }
    }

    pub(super) fn take(&mut self, ticket: Ticket) -> Option<Pending> {
        let index = usize::try_from(ticket.connection).expect("usize has 32 bits or more");
        let place = self.by_connection.get_mut(index)?;
        match place {
            Some((generation, _)) if *generation == ticket.generation => {
                place.take().map(|(_, pending)| pending)
            }
            _ => self.orphans.remove(&(ticket.connection, ticket.generation)),
        }
    }
}

#[cfg(test)]
mod tests {
    use engine::BuyerId;

    use super::*;
    use crate::ledger::Buyer;

    /// One of several that wait, distinguished by their buyer.
    fn pending(buyer: u64) -> Pending {
        let show: ShowPlaced = Box::new(|_, _, _| Ok(()));
        let buyer = Buyer { id: BuyerId(buyer.into()), text: None };
        let asks = Asks { buyer, client: [192, 0, 2, 1].into() };
        let waiting =
            Waiting::Placing { sku: SkuId(0), asks, received: Instant::now(), unit_price: None, show };
        Pending { waiting, origin: None, problems: ProblemFormat::Problem }
    }

    fn buyer(pending: Option<Pending>) -> Option<u64> {
        match pending?.waiting {
            Waiting::Placing { asks, .. } => asks.buyer.id.number(),
            _ => None,
        }
    }

    #[test]
    fn what_waits_is_found_once_also_when_its_place_was_taken() {
        let mut table = PendingTable::default();
        let ticket = |connection, generation| Ticket { connection, generation };
        table.put(ticket(2, 1), pending(1));
        table.put(ticket(0, 7), pending(7));
        table.put(ticket(2, 2), pending(2));
        table.put(ticket(2, 3), pending(3));
        assert_eq!(buyer(table.take(ticket(2, 1))), Some(1));
        assert_eq!(buyer(table.take(ticket(2, 1))), None);
        assert_eq!(buyer(table.take(ticket(2, 3))), Some(3));
        assert_eq!(buyer(table.take(ticket(2, 2))), Some(2));
        assert_eq!(buyer(table.take(ticket(0, 8))), None);
        assert_eq!(buyer(table.take(ticket(0, 7))), Some(7));
        assert_eq!(buyer(table.take(ticket(9, 9))), None);
    }
}
