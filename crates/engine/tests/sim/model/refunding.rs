//! What becomes of money that is to go back: why, and refunds of paid orders.

use engine::{Accepted, Disposition, Pay, PaymentView, Refund, RefundReason, Refusal, Status, UnixMs};

use super::{ANY_TEXT, Model, ModelOrder};

impl Model {
    pub(super) fn why_refund(&self, index: usize, amount: u64) -> Option<RefundReason> {
        let ModelOrder { place, status, .. } = self.orders[index];
        let left = self.stock(place.id.sku)[1];
        match status {
            _ if amount != self.amount(&place) => Some(RefundReason::AmountDiffers),
            Status::Held => None,
            Status::Paid | Status::Refunded => Some(RefundReason::AlreadyPaid),
            Status::Cancelled => Some(RefundReason::Cancelled),
            Status::Expired if left < u64::from(place.quantity) => Some(RefundReason::ExpiredSoldOut),
            Status::Expired if self.breaks_limit(&place) => Some(RefundReason::ExpiredOverLimit),
            Status::Expired => self.gate_refuses,
        }
    }

    pub(super) fn refund(&mut self, now: u64, asked: &Refund) -> Result<Accepted, Refusal> {
        let mut replayed = self.payment_by_id.contains_key(&asked.id);
        if let Some(known) = self.payment_by_id.get(&asked.id) {
            let PaymentView { pay, disposition, .. } = &self.payments[*known];
            let same = match disposition.requested() {
                Some(units) => units == asked.units,
                // What paid for nothing is paid out under its own id.
                None => *disposition != Disposition::Applied && asked.paid_out && asked.units == 0,
            };
            if !same || pay.order != asked.order || asked.amount.is_some_and(|amount| amount != pay.amount) {
                return Err(Refusal::PaymentConflict);
            }
        } else {
            self.new_refund(now, asked)?;
        }
        let known = self.payment_by_id[&asked.id];
        if asked.paid_out && self.due.contains(&known) {
            replayed = false;
            self.settle(&asked.id)?;
        }
        Ok(Accepted::Payment { payment: self.payments[known].clone(), replayed })
    }

    fn new_refund(&mut self, now: u64, asked: &Refund) -> Result<(), Refusal> {
        if !(1..=255).contains(&asked.id.len()) {
            return Err(Refusal::InvalidChange(ANY_TEXT));
        }
        let index = *self.by_id.get(&asked.order).ok_or(Refusal::UnknownOrder)?;
        let ModelOrder { place, status, refunded, .. } = self.orders[index];
        if status != Status::Paid {
            return Err(Refusal::NotRefundable(status));
        }
        let left = self.amount(&place) - refunded.amount;
        let amount = asked.amount.unwrap_or(left);
        if amount > left || asked.units > place.quantity - refunded.units {
            return Err(Refusal::RefundTooLarge);
        }
        if amount == 0 {
            return Err(Refusal::InvalidChange(ANY_TEXT));
        }
        let pay = Pay { id: asked.id.clone(), order: asked.order, amount };
        let reason = RefundReason::Requested { order: self.orders[index].seq, units: asked.units };
        let due_or_settled = if asked.paid_out { Disposition::Settled } else { Disposition::RefundDue };
        let disposition = due_or_settled(reason);
        let payment = PaymentView { pay, seq: self.event(), at: UnixMs(now), disposition };
        if !asked.paid_out {
            self.due.push(self.payments.len());
        }
        self.payment_by_id.insert(asked.id.clone(), self.payments.len());
        self.payments.push(payment);
        let refunded = &mut self.orders[index].refunded;
        refunded.amount += amount;
        refunded.units += asked.units;
        if amount == left {
            self.close(now, index, Status::Refunded);
        }
        Ok(())
    }

    pub(super) fn settle(&mut self, id: &str) -> Result<Accepted, Refusal> {
        let index = *self.payment_by_id.get(id).ok_or(Refusal::UnknownPayment)?;
        let replayed = match self.payments[index].disposition {
            Disposition::Applied => return Err(Refusal::NothingToSettle),
            Disposition::Settled(_) => true,
            Disposition::RefundDue(reason) => {
                self.payments[index].disposition = Disposition::Settled(reason);
                self.due.retain(|due| *due != index);
                self.event();
                false
            }
        };
        Ok(Accepted::Payment { payment: self.payments[index].clone(), replayed })
    }
}
