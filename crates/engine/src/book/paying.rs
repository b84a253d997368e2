//! Payments. Every one that a provider tells us is recorded, whatever it comes to: money is never ignored.

use super::{Accepted, Book, Closing, Disposition, Event, Pay, Refusal, Seq, UnixMs, view_payment};
use crate::payment::RefundReason;
use crate::{OrderView, rules};

impl Book {
    /// Records a payment and pays its order with it, if it can. The same callback again changes nothing.
    pub(super) fn pay(&mut self, now: UnixMs, pay: Pay) -> Result<Accepted, Refusal> {
        if let Some(index) = self.find_payment(&pay.id) {
            let known = &self.payments[index];
            return if known.pay == pay {
                Ok(Accepted::Payment { payment: view_payment(known), replayed: true })
            } else {
                Err(Refusal::PaymentConflict)
            };
        }
        let (disposition, closing) = self.judge(&pay)?;
        let id = pay.id.clone();
        self.record(now, Event::PaymentRecorded { pay, disposition });
        if let Some((order, how)) = closing {
            self.record(now, Event::OrderClosed { order, how });
        }
        let payment = &self.payments[self.find_payment(&id).expect("it was just recorded")];
        Ok(Accepted::Payment { payment: view_payment(payment), replayed: false })
    }

    /// What a payment that was not recorded yet does to its order as it stands.
    pub(super) fn judge(&self, pay: &Pay) -> Result<(Disposition, Option<(Seq, Closing)>), Refusal> {
        rules::payment_id(&pay.id)?;
        Ok(match self.order(pay.order) {
            None => (Disposition::RefundDue(RefundReason::UnknownOrder), None),
            Some(order) => match self.judge_known(&order, pay.amount) {
                Ok(how) => (Disposition::Applied, Some((order.seq, how))),
                Err(reason) => (Disposition::RefundDue(reason), None),
            },
        })
    }

    fn judge_known(&self, order: &OrderView, amount: u64) -> Result<Closing, RefundReason> {
        rules::pay(order.status, order.amount(), amount, || {
            let sku = &self.skus[order.id.sku.0 as usize];
            let units = self.units_of(order.id, order.buyer);
            rules::pay_late(sku.stock.available(), sku.limit, units, order.quantity)
        })
    }

    /// Notes that a refund was paid out. Settling it again is answered as the first time.
    pub(super) fn settle(&mut self, now: UnixMs, id: &str) -> Result<Accepted, Refusal> {
        let index = self.find_payment(id).ok_or(Refusal::UnknownPayment)?;
        let settles = rules::settle(self.payments[index].disposition)?;
        if settles {
            let payment = self.payments[index].seq;
            self.record(now, Event::RefundSettled { payment });
        }
        Ok(Accepted::Payment { payment: view_payment(&self.payments[index]), replayed: !settles })
    }
}
