//! Placing an order, cancelling it, and letting it expire.

use std::cmp::Reverse;

use super::{
    Accepted, Book, BuyerId, Closing, Disposition, Event, OrderId, OrderView, Place, Refusal, UnixMs,
    table_hash,
};
use crate::Status;
use crate::sale::limits;

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
        let same = order.fingerprint == place.fingerprint
            && order.buyer == place.buyer
            && order.quantity == place.quantity;
        Some(if same { Ok(self.view(index).as_placed()) } else { Err(Refusal::KeyConflict) })
    }

    /// Whether an order may be placed under an id that is unknown yet.
    pub(super) fn check_place(&self, now: UnixMs, place: &Place) -> Result<(), Refusal> {
        let sku = self.skus.get(place.id.sku.0 as usize).ok_or(Refusal::UnknownSku)?;
        let sale = &self.sales[sku.sale as usize];
        if let Some(refusal) = sale.phase(now).refusal() {
            return Err(refusal);
        }
        if place.quantity == 0 || place.quantity > limits::QUANTITY_MAX {
            return Err(Refusal::InvalidQuantity);
        }
        if !self.within_limit(place.id, place.buyer, place.quantity) {
            return Err(Refusal::OverLimit);
        }
        if let Some(max) = sale.spec.open_holds_per_buyer_max
            && self.holds.get(sku.sale, place.buyer) >= max
        {
            return Err(Refusal::TooManyHolds);
        }
        match sku.stock.available() {
            0 => Err(Refusal::SoldOut),
            left if left < u64::from(place.quantity) => Err(Refusal::NotEnoughLeft),
            _ => Ok(()),
        }
    }

    /// Whether the buyer may hold and own so many units more.
    pub(super) fn within_limit(&self, id: OrderId, buyer: BuyerId, quantity: u32) -> bool {
        let Some(limit) = self.skus[id.sku.0 as usize].limit else { return true };
        u64::from(self.units.get(id.sku.0, buyer)) + u64::from(quantity) <= u64::from(limit)
    }

    /// Cancels a buyer's own unpaid order. Cancelling it again is answered as the first time.
    pub(super) fn cancel(&mut self, now: UnixMs, id: OrderId, buyer: BuyerId) -> Result<Accepted, Refusal> {
        let index = self.find(id).ok_or(Refusal::UnknownOrder)?;
        let order = self.orders[index];
        if order.buyer != buyer {
            return Err(Refusal::UnknownOrder);
        }
        let replayed = match order.status {
            Status::Held => {
                self.record(now, Event::OrderClosed { order: order.seq, how: Closing::Cancelled });
                false
            }
            Status::Cancelled => true,
            status @ (Status::Paid | Status::Expired) => return Err(Refusal::NotCancellable(status)),
        };
        Ok(Accepted::Order { order: self.view(index), replayed })
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
            if order.status == Status::Held
                && payment.pay.amount == order.amount()
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
