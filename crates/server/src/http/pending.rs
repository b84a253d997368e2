//! What each waiting request is waiting for: how its answer will be written when the writer has it.
//!
//! One place per connection, because a connection has one request in flight. If a connection is gone and its
//! place is taken by another, what waits is kept aside until its answer comes, so that every order that was
//! counted as in flight is counted out again.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

use engine::{BuyerId, OrderId, SaleId};

use crate::http::published::reply::Echo;
use crate::net::Ticket;

/// The route's part of an order's answer.
#[derive(Debug)]
pub(super) enum Placed {
    Own,
    Published(Box<Echo>),
    Submit,
}

/// What a request waits for, and what its route needs to write the answer.
#[derive(Debug)]
pub(super) enum Waiting {
    Placing {
        buyer: BuyerId,
        received: Instant,
        route: Placed,
    },
    /// One order, to be shown.
    Order,
    /// The demo's payment, step by step: the order is read, its amount is paid, and it is read again.
    DemoPayRead {
        order: OrderId,
        buyer: BuyerId,
    },
    DemoPayPaid {
        order: OrderId,
        buyer: BuyerId,
    },
    Payment,
    RefundsDue,
    /// A sale that was created or changed, to be shown with this status.
    Sale {
        sale: SaleId,
        status: u16,
    },
    Message,
    Balance {
        balance: u64,
    },
    Reanchor,
    /// What the ledger's file says; what was asked comes back with it.
    Ledger,
}

/// A request that waits.
#[derive(Debug)]
pub(super) struct Pending {
    pub(super) waiting: Waiting,
    /// The origin of another site whose page may read the answer.
    pub(super) origin: Option<Arc<str>>,
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
    use super::*;

    fn pending(balance: u64) -> Pending {
        Pending { waiting: Waiting::Balance { balance }, origin: None }
    }

    fn balance(pending: Option<Pending>) -> Option<u64> {
        match pending?.waiting {
            Waiting::Balance { balance } => Some(balance),
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
        assert_eq!(balance(table.take(ticket(2, 1))), Some(1));
        assert_eq!(balance(table.take(ticket(2, 1))), None);
        assert_eq!(balance(table.take(ticket(2, 3))), Some(3));
        assert_eq!(balance(table.take(ticket(2, 2))), Some(2));
        assert_eq!(balance(table.take(ticket(0, 8))), None);
        assert_eq!(balance(table.take(ticket(0, 7))), Some(7));
        assert_eq!(balance(table.take(ticket(9, 9))), None);
    }
}
