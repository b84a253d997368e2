//! Addresses of orders that were placed without one: read, and taken once.
//!
//! The book has none. What an order has is looked up in the batch that is being made, and then in the ledger. Must not: be used
//! on the way of an order.

use engine::{Accepted, BuyerId, KeptAddress, OrderId, Seq, UnixMs};

use super::{Writer, answer};
use crate::intake::Reply;

impl Writer {
    /// How an order stands can be answered though its address can't be read.
    pub(super) fn read_with_address(&mut self, order: OrderId, buyer: Option<BuyerId>) -> Reply {
        let reply = self.read(order, buyer);
        let Reply::Order(order) = reply else { return reply };
        match self.kept_address(order.seq) {
            Some(KeptAddress::Is(address)) => Reply::AddressedOrder { order, address: Some(address) },
            Some(KeptAddress::Missing | KeptAddress::Over) => Reply::AddressedOrder { order, address: None },
            None => Reply::Order(order),
        }
    }

    /// What an order has of an address, in the batch or in the ledger; `None`: that can't be read at the moment.
    fn kept_address(&mut self, order: Seq) -> Option<KeptAddress> {
        // They are in the order of the entries.
        let placed = self.addresses.binary_search_by_key(&order, |(entry, _)| *entry).ok();
        let given = self.addressed.iter().find(|(given, _)| *given == order).map(|(_, index)| *index);
        if let Some(index) = placed.or(given) {
            return Some(KeptAddress::Is(self.addresses[index].1.clone()));
        }
        match self.ledger.kept_address(order) {
            Ok(kept) => Some(kept),
            Err(error) => {
                tracing::debug!(%error, "the address of an order can't be read");
                None
            }
        }
    }

    pub(super) fn give_address(
        &mut self,
        now: UnixMs,
        order: OrderId,
        buyer: BuyerId,
        address: Box<[u8]>,
    ) -> Reply {
        let Some(found) = self.book.order(order) else {
            return Reply::Refused(engine::Refusal::UnknownOrder);
        };
        let Some(kept) = self.kept_address(found.seq) else { return Reply::Unavailable };
        let given = self.book.give_address(now, (order, buyer), &address, &kept);
        if let Ok((order, Some(entry))) = &given {
            self.addressed.push((order.seq, self.addresses.len()));
            self.addresses.push((*entry, address));
        }
        answer(given.map(|(order, entry)| Accepted::Order { order, replayed: entry.is_none() }))
    }
}
