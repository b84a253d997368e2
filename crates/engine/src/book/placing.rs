//! Placing an order, cancelling it, and letting it expire.

use std::cmp::Reverse;

use super::{
    Accepted, Book, BuyerId, Closing, Disposition, Event, OrderId, OrderView, Place, Refusal, UnixMs,
    table_hash,
};
use crate::{Status, rules};

impl Book {
    /// Places an order, or answers again what was answered under this id: the order as it was placed.
    ///
    /// The id comes before everything else: only a request whose id is unknown can be refused by the window,
    /// a pause, the limits or the stock.
    ///
    /// # Panics
    /// If `now` is before the latest event, as [`Book::execute`].
    pub fn place(&mut self, now: UnixMs, place: &Place) -> Result<(OrderView, bool), Refusal> {
        self.assert_not_past(now);
        if let Some(answer) = self.lookup(place) {
            return answer.map(|order| (order, true));
        }
        self.check_place(now, place)?;
        let unit_price = self.skus[place.id.sku.0 as usize].price;
        let Place { id, buyer, quantity, fingerprint } = *place;
        self.record(now, Event::OrderPlaced { id, buyer, quantity, unit_price, fingerprint });
        if !self.unmatched.is_empty() {
            self.match_payments(now, id);
        }
        Ok((self.view(self.find(id).expect("the order was just placed")).as_placed(), false))
    }

    /// What was answered under this id, if it is known: the order, or a conflict with another request.
    pub fn lookup(&self, place: &Place) -> Option<Result<OrderView, Refusal>> {
        let index = self.find(place.id)?;
        let order = &self.orders[index];
        let known = (order.fingerprint, order.buyer, order.quantity);
        Some(rules::repeat(known, place).map(|()| self.view(index).as_placed()))
    }

    /// Whether an order may be placed under an id that is unknown yet.
    pub(super) fn check_place(&self, now: UnixMs, place: &Place) -> Result<(), Refusal> {
        let sku = self.skus.get(place.id.sku.0 as usize).ok_or(Refusal::UnknownSku)?;
        let sale = &self.sales[sku.sale as usize];
        let mut open_holds = None;
        if !self.of_queue {
            if let Some(refusal) = sale.phase(now).refusal() {
                return Err(refusal);
            }
            let has = |max| rules::OpenHolds { has: self.holds.get(sku.sale, place.buyer), max };
            open_holds = sale.spec.open_holds_per_buyer_max.map(has);
        }
        rules::place(&rules::Placing {
            quantity: place.quantity,
            limit: sku.limit,
            units: self.units_of(place.id, place.buyer),
            open_holds,
            available: sku.stock.available(),
        })
    }

    /// What the buyer holds and owns, if there is a limit to it.
    pub(super) fn units_of(&self, id: OrderId, buyer: BuyerId) -> u32 {
        let limited = self.skus[id.sku.0 as usize].limit.is_some();
        if limited { self.units.get(id.sku.0, buyer) } else { 0 }
    }

    /// Cancels a buyer's own unpaid order. Cancelling it again is answered as the first time.
    pub(super) fn cancel(&mut self, now: UnixMs, id: OrderId, buyer: BuyerId) -> Result<Accepted, Refusal> {
        let index = self.find(id).ok_or(Refusal::UnknownOrder)?;
        let order = self.orders[index];
        if order.buyer != buyer {
            return Err(Refusal::UnknownOrder);
        }
        let cancels = rules::cancel(order.status)?;
        if cancels {
            self.record(now, Event::OrderClosed { order: order.seq, how: Closing::Cancelled });
        }
        Ok(Accepted::Order { order: self.view(index), replayed: !cancels })
    }

    /// Expires at most `max` holds whose time is over and returns how many; their units are on sale again.
    /// Entries of orders that were closed before are skipped, and not counted.
    ///
    /// # Panics
    /// If `now` is before the latest event, as [`Book::execute`].
    pub fn expire_due(&mut self, now: UnixMs, max: usize) -> usize {
        self.assert_not_past(now);
        let mut expired = 0;
        while expired < max {
            match self.deadlines.peek() {
                Some(Reverse((deadline, _))) if *deadline <= now => {}
                _ => break,
            }
            let Reverse((_, index)) = self.deadlines.pop().expect("it was peeked at");
            let order = self.orders[index as usize];
            if order.status == Status::Held {
                self.record(now, Event::OrderClosed { order: order.seq, how: Closing::Expired });
                expired += 1;
            }
        }
        expired
    }

    /// Payments that came before this order: the first of the right amount pays for it, if it is held.
    fn match_payments(&mut self, now: UnixMs, id: OrderId) {
        let Some(waiting) = self.unmatched.get(&id).cloned() else { return };
        let index = self.find(id).expect("the order was just placed");
        for payment in waiting {
            let order = self.view(index);
            let payment = &self.payments[payment as usize];
            if rules::matches(order.status, order.amount(), payment.pay.amount)
                && matches!(payment.disposition, Disposition::RefundDue(_))
            {
                let seq = payment.seq;
                self.record(now, Event::PaymentMatched { payment: seq });
                self.record(now, Event::OrderClosed { order: order.seq, how: Closing::Paid });
            }
        }
    }

    pub(super) fn insert_order(&mut self, index: u32, hash: u128) {
        let orders = &self.orders;
        self.order_by_id.insert(table_hash(hash), index, |index| table_hash(orders[*index as usize].hash));
    }
}
