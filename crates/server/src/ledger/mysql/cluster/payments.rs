//! Payments: every one that a provider tells is recorded, whatever it comes to.
//!
//! A payment of an expired order needs its units again, and units in flight are the gate's knowledge: it is not
//! recorded before the gate was asked for them. Must not: ask the gate.

use engine::handover::{Claim, Grant};
use engine::{
    Accepted, Closing, Disposition, OrderId, OrderView, Pay, Place, RefundReason, Refusal, SkuId, Status,
    rules,
};

use super::Executed;
use super::transaction::Transaction;

/// Records a payment and pays its order with it, if it can. The same callback again changes nothing.
pub(super) fn pay(transaction: &mut Transaction<'_>, pay: &Pay, grant: Grant) -> Executed {
    if let Some(known) = transaction.known.payments.get(&pay.id) {
        return if known.pay == *pay {
            Executed::Accepted(Accepted::Payment { payment: known.clone(), replayed: true })
        } else {
            Executed::Refused(Refusal::PaymentConflict)
        };
    }
    if let Err(refusal) = rules::payment_id(&pay.id) {
        return Executed::Refused(refusal);
    }
    let order = transaction.view(pay.order);
    let judged = match &order {
        None => Err(RefundReason::UnknownOrder),
        Some(order) => {
            let late = order.status == Status::Expired && pay.amount == order.amount();
            if late && !is_asked(transaction, order.id.sku, grant) {
                return Executed::NeedsClaim(Claim::LatePayment(as_asked(transaction, order)));
            }
            rules::pay(order.status, order.amount(), pay.amount, || late_units(transaction, order, grant))
        }
    };
    let disposition = judged.map_or_else(Disposition::RefundDue, |_| Disposition::Applied);
    let payment = transaction.record_payment(pay, disposition);
    if let Ok(how) = judged {
        transaction.record_closed(pay.order, how);
    }
    Executed::Accepted(Accepted::Payment { payment, replayed: false })
}

/// The order as it was asked for: what the gate must take again.
fn as_asked(transaction: &Transaction<'_>, order: &OrderView) -> Place {
    let fingerprint = transaction.known.orders[&order.id].fingerprint;
    Place { id: order.id, buyer: order.buyer, quantity: order.quantity, fingerprint }
}

/// Whether the gate that there is was asked for the units.
pub(super) fn is_asked(transaction: &mut Transaction<'_>, sku: SkuId, grant: Grant) -> bool {
    match grant {
        Grant::NotAsked => false,
        Grant::Taken { epoch } => epoch == transaction.sku(sku).epoch,
        Grant::SoldOut | Grant::OverLimit => true,
    }
}

/// Whether an expired order's units can be taken again: the gate must have had them, and the ledger too.
fn late_units(
    transaction: &mut Transaction<'_>,
    order: &OrderView,
    grant: Grant,
) -> Result<(), RefundReason> {
    let sku = order.id.sku;
    let limit = transaction.catalog.terms(sku).and_then(|terms| terms.limit);
    let units = transaction.units_of(sku, order.buyer);
    let available = transaction.sku(sku).stock.available();
    rules::pay_late(available, limit, units, order.quantity)?;
    match grant {
        Grant::Taken { .. } => Ok(()),
        Grant::NotAsked | Grant::SoldOut => Err(RefundReason::ExpiredSoldOut),
        Grant::OverLimit => Err(RefundReason::ExpiredOverLimit),
    }
}

/// Payments that came before this order: the first of the right amount pays for it, if it is held.
pub(super) fn match_early(transaction: &mut Transaction<'_>, id: OrderId) {
    let Some(waiting) = transaction.known.refunds.get(&id).cloned() else { return };
    for payment in waiting {
        let order = transaction.view(id).expect("the order was just placed");
        let early = payment.disposition == Disposition::RefundDue(RefundReason::UnknownOrder);
        if early && rules::matches(order.status, order.amount(), payment.pay.amount) {
            transaction.record_refund_end(&payment, Disposition::Applied);
            transaction.record_closed(id, Closing::Paid);
        }
    }
}

/// Notes that a refund was paid out. Settling it again is answered as the first time.
pub(super) fn settle(transaction: &mut Transaction<'_>, id: &str) -> Executed {
    let Some(payment) = transaction.known.payments.get(id).cloned() else {
        return Executed::Refused(Refusal::UnknownPayment);
    };
    match rules::settle(payment.disposition) {
        Err(refusal) => Executed::Refused(refusal),
        Ok(false) => Executed::Accepted(Accepted::Payment { payment, replayed: true }),
        Ok(true) => {
            let Disposition::RefundDue(reason) = payment.disposition else {
                unreachable!("only a refund that is due is settled")
            };
            let payment = transaction.record_refund_end(&payment, Disposition::Settled(reason));
            Executed::Accepted(Accepted::Payment { payment, replayed: false })
        }
    }
}
