//! Replaying a ledger: an entry is checked against the book as it stands, and then carried out as a live one is.
//!
//! The rules of the live commands are asked again, so that a ledger can't hold what no command could have made. An
//! entry that was altered on disk is found here; it must not reach an assertion.

use super::Book;
use crate::handover::Grant;
use crate::rules::rows::Rows;
use crate::rules::{self, Declined, apply, operate, pay, place};
use crate::{
    Closing, Disposition, Entry, Event, Inconsistent, KeptAddress, Pay, PaymentView, Placement, RefundReason,
    Refusal, Seq, Status, UnixMs,
};

/// Who judged what stands in a ledger.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LedgerKind {
    /// One book, everything.
    Book,
    /// A gate stood before the ledger. It judged window and pause, so an order may come after the end of its sale. And it
    /// may have refused a late payment for which the ledger has units: it had promised them. No sale bounds open holds.
    Gated,
}

impl Book {
    /// Carries out an entry of the ledger, in the order of the sequence.
    ///
    /// # Errors
    /// If the entry does not follow from the ones before it; the book is as it was.
    pub fn replay(&mut self, kind: LedgerKind, entry: &Entry) -> Result<(), Inconsistent> {
        self.end_pause_before(entry);
        self.check_entry(kind, entry).map_err(|why| Inconsistent { seq: entry.seq, why })?;
        apply::apply(self, entry);
        Ok(())
    }

    fn check_entry(&self, kind: LedgerKind, entry: &Entry) -> Result<(), &'static str> {
        let at = entry.at;
        ensure(entry.seq == self.end.next, "the sequence has a gap")?;
        let corrected = matches!(entry.event, Event::ClockCorrected { .. });
        ensure(corrected || at >= self.end.last_at, "time runs backwards")?;
        let paid = |how: &Closing| matches!(how, Closing::Paid | Closing::PaidLate | Closing::Refunded);
        let closes = matches!(&entry.event, Event::OrderClosed { how, .. } if paid(how));
        ensure(closes || self.paying.is_none(), "a payment was applied, but its order not closed")?;
        match &entry.event {
            event if event.is_about_a_sale() => {
                self.sales.check(at, event)?;
                operate::judge_orders(self, event).map_err(why_not_possible)
            }
            Event::StockAdjusted { sku, how, units, key } => {
                ensure(self.adjusted(*sku, key).is_none(), "the adjustment was made before")?;
                operate::judge_adjust(self, *sku, (*how, *units), key).map_err(why_not_possible)
            }
            Event::OrderPlaced { id, buyer, quantity, unit_price, fingerprint } => {
                ensure(self.find(*id).is_none(), "the order exists already")?;
                let (buyer, quantity, fingerprint) = (*buyer, *quantity, *fingerprint);
                self.check_placed(kind, at, &Placement { id: *id, buyer, quantity, fingerprint }, *unit_price)
            }
            Event::OrderClosed { order, how } => self.check_closed(at, *order, *how),
            Event::PaymentRecorded { pay, disposition } => {
                ensure(self.find_payment(&pay.id).is_none(), "the payment was recorded before")?;
                self.check_payment(kind, pay, *disposition)
            }
            Event::PaymentMatched { payment } => self.check_matched(*payment),
            Event::RefundSettled { payment } => {
                let payment = self.find_payment_at(*payment).ok_or("the payment is unknown")?;
                let due = matches!(self.payment(payment).disposition, Disposition::RefundDue(_));
                ensure(due, "no refund was due")
            }
            Event::OrderAddressed { order } => {
                let index = self.find_at(*order).ok_or("the order is unknown")?;
                let status = self.order_row(index).status;
                rules::give_address(status, &KeptAddress::Missing, &[]).map(drop).map_err(why_not_possible)
            }
            Event::BuyerErased(buyer) => ensure(buyer.is_valid(), "nobody can be the buyer who was erased"),
            Event::OrderRejected { order, .. } => {
                ensure(kind == LedgerKind::Gated, "an order of a ledger of one server was rejected later")?;
                ensure(self.sales.terms(order.sku).is_some(), "there is no such SKU")?;
                ensure(self.find(*order).is_none(), "it is an order")
            }
            Event::OperatorAdded(operator) => self.operators.judge_add(operator).map_err(why_not_possible),
            Event::OperatorRevoked(name) => self.operators.judge_revoke(name).map_err(why_not_possible),
            Event::Operated(operated) => operated.check(),
            Event::Noticed(notice) => operate::judge_notice(&self.sales, *notice).map_err(why_not_possible),
            Event::LineJoined { .. }
            | Event::LineClosed { .. }
            | Event::LineDrawn { .. }
            | Event::LineMoved { .. }
            | Event::PaceLimited { .. }
            | Event::LineMessageSet { .. }
            | Event::TurnOpened { .. }
            | Event::TurnEnded { .. } => {
                ensure(kind == LedgerKind::Book, "a ledger that many servers share has no lines")?;
                self.check_line_event(at, &entry.event)
            }
            Event::ClockCorrected { from, to, who } => {
                ensure(kind == LedgerKind::Book, "the clock of a shared ledger was corrected")?;
                self.check_correction(at, (*from, *to), who)
            }
            _ => unreachable!("the events about sales were the first arm"),
        }
    }

    fn check_placed(
        &self,
        kind: LedgerKind,
        at: UnixMs,
        placement: &Placement,
        unit_price: u64,
    ) -> Result<(), &'static str> {
        let open_holds = match kind {
            LedgerKind::Book => self.judge_window(at, placement).map_err(why_not_possible)?,
            LedgerKind::Gated => None,
        };
        let terms = place::judge(self, placement, open_holds).map_err(why_not_possible)?;
        ensure(unit_price == terms.price, "the order has another price than its SKU")
    }

    fn check_closed(&self, at: UnixMs, seq: Seq, how: Closing) -> Result<(), &'static str> {
        let index = self.find_at(seq).ok_or("the order is unknown")?;
        let order = self.order_row(index);
        let from = match how {
            Closing::PaidLate => Status::Expired,
            Closing::Refunded => Status::Paid,
            Closing::Paid | Closing::Cancelled | Closing::Expired => Status::Held,
        };
        ensure(order.status == from, "the order was closed before")?;
        match how {
            // Units and limit of a late payment were judged with the payment, which is the entry before.
            Closing::Paid | Closing::PaidLate => {
                ensure(self.paying == Some(order.id()), "the order was closed as paid without a payment")
            }
            // So was the refund, which is the entry before.
            Closing::Refunded => {
                ensure(self.paying == Some(order.id()), "the order was closed as refunded without a refund")
            }
            Closing::Expired => {
                let expires = rules::expires(order.status, self.pay_by(index), at);
                ensure(expires, "the order expired before its time")
            }
            Closing::Cancelled => Ok(()),
        }
    }

    /// A late payment needs units of the gate, which knows of orders that are not in the ledger yet: it may have
    /// had none though the ledger shows some.
    fn check_payment(
        &self,
        kind: LedgerKind,
        pay: &Pay,
        disposition: Disposition,
    ) -> Result<(), &'static str> {
        if let Disposition::RefundDue(reason) | Disposition::Settled(reason) = disposition
            && let RefundReason::Requested { order, units } = reason
        {
            rules::payment_id(&pay.id).map_err(why_not_possible)?;
            let order = self.order_at(order).filter(|order| order.id == pay.order);
            let order = order.ok_or("the order is unknown")?;
            let judged = pay::judge_refund(&order, (Some(pay.amount), units));
            return judged.map(drop).map_err(why_not_possible);
        }
        let judged = pay::judge(self, pay, Grant::NotAsked);
        let (judged, closing) = judged.map_err(|why| match why {
            Declined::Refused(refusal) => why_not_possible(refusal),
            Declined::NeedsClaim(_) => unreachable!("a book knows of all units: it grants them"),
        })?;
        let late = closing.is_some_and(|(_, how)| how == Closing::PaidLate)
            || matches!(judged, Disposition::RefundDue(reason) if is_late(reason));
        let refused = matches!(disposition, Disposition::RefundDue(reason) if is_late(reason));
        let by_the_gate = kind == LedgerKind::Gated && late && refused;
        ensure(by_the_gate || judged == disposition, "the payment could not come to this")
    }

    fn check_matched(&self, seq: Seq) -> Result<(), &'static str> {
        let payment = self.find_payment_at(seq).ok_or("the payment is unknown")?;
        let PaymentView { pay, disposition, .. } = self.payment(payment);
        let early = *disposition == Disposition::RefundDue(RefundReason::UnknownOrder);
        ensure(early, "the payment had not come before its order")?;
        let order = self.order(pay.order).ok_or("the order is unknown")?;
        let fits = rules::matches(order.status, order.amount(), pay.amount);
        ensure(fits, "the payment does not fit its order")
    }
}

fn is_late(reason: RefundReason) -> bool {
    matches!(reason, RefundReason::ExpiredSoldOut | RefundReason::ExpiredOverLimit)
}

fn ensure(holds: bool, why: &'static str) -> Result<(), &'static str> {
    if holds { Ok(()) } else { Err(why) }
}

/// What a refusal means in a ledger, where nothing that was refused can stand.
fn why_not_possible(refusal: Refusal) -> &'static str {
    match refusal {
        Refusal::UnknownSku => "the SKU is unknown",
        Refusal::NotStarted => "the order was placed before the start",
        Refusal::Paused => "the order was placed while the sale was paused",
        Refusal::Ended => "the order was placed after the end",
        Refusal::InvalidQuantity => "the order has a quantity that none can have",
        Refusal::OverLimit => "the buyer is over the limit",
        Refusal::TooManyHolds => "the buyer has too many open holds",
        Refusal::TurnRequired => "the buyer was not called",
        Refusal::SoldOut | Refusal::NotEnoughLeft => "the order was oversold",
        Refusal::SaleStarted => "it had orders",
        Refusal::CorrectionTooLarge(_) => "a correction of units that are sold, held, set aside or promised",
        Refusal::NotRefundable(_) => "the order is not paid, and was refunded",
        Refusal::RefundTooLarge => "more was refunded than the order has",
        Refusal::InvalidChange(why) => why,
        _ => "no command could have made it",
    }
}
