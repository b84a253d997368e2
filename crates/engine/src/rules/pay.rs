//! Payments. Every one that a provider reports is recorded, whatever it comes to: money is never ignored.
//!
//! A payment of an expired order needs its units again. Where a gate promises units that are in flight, the payment is
//! not recorded before the gate was asked for them. Must not: ask the gate.

use super::Declined;
use super::apply::record;
use super::place::units_of;
use super::rows::Rows;
use crate::handover::{Claim, Grant};
use crate::{
    Accepted, Closing, Disposition, Event, OrderView, Pay, Placement, Refund, RefundReason, Refunded,
    Refusal, Seq, UnixMs,
};

/// Records a payment and pays its order with it, if it can. The same callback again changes nothing.
pub(super) fn pay<R: Rows>(rows: &mut R, now: UnixMs, pay: Pay, grant: Grant) -> Result<Accepted, Declined> {
    if let Some(known) = rows.find_payment(&pay.id) {
        let payment = rows.payment(known);
        return if payment.pay == pay {
            Ok(Accepted::Payment { payment: payment.clone(), replayed: true })
        } else {
            Err(Refusal::PaymentConflict.into())
        };
    }
    let (disposition, closing) = judge(rows, &pay, grant)?;
    let id = pay.id.clone();
    record(rows, now, Event::PaymentRecorded { pay, disposition });
    if let Some((order, how)) = closing {
        record(rows, now, Event::OrderClosed { order, how });
    }
    let payment = rows.find_payment(&id).expect("it was just recorded");
    Ok(Accepted::Payment { payment: rows.payment(payment).clone(), replayed: false })
}

/// What a payment that was not recorded yet does to its order as it stands.
pub(crate) fn judge<R: Rows>(
    rows: &R,
    pay: &Pay,
    grant: Grant,
) -> Result<(Disposition, Option<(Seq, Closing)>), Declined> {
    super::payment_id(&pay.id)?;
    let refund = |reason| (Disposition::RefundDue(reason), None);
    let Some(order) = rows.find(pay.order) else { return Ok(refund(RefundReason::UnknownOrder)) };
    let (row, order) = (rows.order_row(order), rows.order_view(order));
    let judged = match super::pay(order.status, order.amount(), pay.amount) {
        Ok(Closing::PaidLate) => late(rows, &row.placement(), grant)?.map(|()| Closing::PaidLate),
        judged => judged,
    };
    Ok(match judged {
        Ok(how) => (Disposition::Applied, Some((order.seq, how))),
        Err(reason) => refund(reason),
    })
}

/// Whether an expired order's units can be taken again: the gate must have had them, and the state too.
fn late<R: Rows>(rows: &R, order: &Placement, grant: Grant) -> Result<Result<(), RefundReason>, Declined> {
    let sku = order.id.sku;
    let grant = rows.grant(sku, grant);
    if grant == Grant::NotAsked {
        return Err(Declined::NeedsClaim(Claim::LatePayment(*order)));
    }
    let terms = rows.registry().terms(sku).expect("an order has a SKU");
    let units = units_of(rows, sku, terms, order.buyer);
    let possible = super::pay_late(rows.spare(sku), terms.limit, units, order.quantity);
    Ok(possible.and(match grant {
        Grant::OverLimit => Err(RefundReason::ExpiredOverLimit),
        Grant::SoldOut => Err(RefundReason::ExpiredSoldOut),
        Grant::Taken { .. } | Grant::NotAsked => Ok(()),
    }))
}

/// Payments that came before this order: the first of the right amount pays for it, if it is held.
pub(super) fn match_early<R: Rows>(rows: &mut R, now: UnixMs, name: R::Order) {
    for payment in rows.early_payments(rows.order_row(name).id()) {
        let order = rows.order_view(name);
        let payment = rows.payment(payment);
        if super::matches(order.status, order.amount(), payment.pay.amount) {
            let payment = payment.seq;
            record(rows, now, Event::PaymentMatched { payment });
            record(rows, now, Event::OrderClosed { order: order.seq, how: Closing::Paid });
        }
    }
}

/// Records a refund of a paid order; with the last of its money the order is refunded. Asking for it again changes nothing,
/// but that it may have been paid out since. A payment that paid for nothing is paid out under its own id.
pub(super) fn refund<R: Rows>(rows: &mut R, now: UnixMs, asked: Refund) -> Result<Accepted, Refusal> {
    let known = rows.find_payment(&asked.id);
    let name = match known {
        Some(name) => {
            let known = rows.payment(name);
            let for_nothing = asked.paid_out && asked.units == 0 && known.disposition.is_for_nothing();
            let same = (known.disposition.requested() == Some(asked.units) || for_nothing)
                && known.pay.order == asked.order
                && asked.amount.is_none_or(|amount| amount == known.pay.amount);
            if !same {
                return Err(Refusal::PaymentConflict);
            }
            name
        }
        None => {
            super::payment_id(&asked.id)?;
            let order = rows.find(asked.order).ok_or(Refusal::UnknownOrder)?;
            let order = rows.order_view(order);
            let Refunded { amount, units } = judge_refund(&order, (asked.amount, asked.units))?;
            let pay = Pay { id: asked.id.clone(), order: asked.order, amount };
            let reason = RefundReason::Requested { order: order.seq, units };
            let due_or_settled = if asked.paid_out { Disposition::Settled } else { Disposition::RefundDue };
            let disposition = due_or_settled(reason);
            record(rows, now, Event::PaymentRecorded { pay, disposition });
            if order.refunded.amount + amount == order.amount() {
                record(rows, now, Event::OrderClosed { order: order.seq, how: Closing::Refunded });
            }
            rows.find_payment(&asked.id).expect("it was just recorded")
        }
    };
    let settles = asked.paid_out && super::settle(rows.payment(name).disposition)?;
    if settles {
        let payment = rows.payment(name).seq;
        record(rows, now, Event::RefundSettled { payment });
    }
    let replayed = known.is_some() && !settles;
    Ok(Accepted::Payment { payment: rows.payment(name).clone(), replayed })
}

/// What is refunded of an order as it stands.
pub(crate) fn judge_refund(order: &OrderView, asked: (Option<u64>, u32)) -> Result<Refunded, Refusal> {
    super::refund((order.status, order.amount(), order.quantity), order.refunded, asked)
}

/// Notes that a refund was paid out. Settling it again is answered as the first time.
pub(super) fn settle<R: Rows>(rows: &mut R, now: UnixMs, id: &str) -> Result<Accepted, Refusal> {
    let name = rows.find_payment(id).ok_or(Refusal::UnknownPayment)?;
    let payment = rows.payment(name);
    let settles = super::settle(payment.disposition)?;
    if settles {
        let payment = payment.seq;
        record(rows, now, Event::RefundSettled { payment });
    }
    Ok(Accepted::Payment { payment: rows.payment(name).clone(), replayed: !settles })
}
