//! Which rows a batch has to read before it can be judged. Whatever is not asked for here, no rule may look at.

use std::collections::BTreeSet;

use super::{Operation, WorkingSet};
use crate::handover::Reservation;
use crate::{BuyerId, Command, OrderId, Sale, SkuId};

/// Keys of rows to be read. A row that there is not is an answer too.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Needs {
    pub skus: BTreeSet<SkuId>,
    /// With their latest transitions, their rejections, and the payments for them that have a refund due.
    pub orders: BTreeSet<OrderId>,
    /// What each holds and owns.
    pub buyers: BTreeSet<(SkuId, BuyerId)>,
    pub payments: BTreeSet<Box<str>>,
    pub adjustments: BTreeSet<(SkuId, Box<str>)>,
}

impl Needs {
    /// Of orders that are to be taken in.
    pub fn of_orders(orders: &[Reservation]) -> Needs {
        let mut needs = Needs::default();
        for Reservation { placement, .. } in orders {
            needs.order(placement.id);
            needs.buyers.insert((placement.id.sku, placement.buyer));
        }
        needs
    }

    /// Of operations, as far as they show it: see [`WorkingSet::needs_further`].
    pub fn of_operations(operations: &[Operation]) -> Needs {
        let mut needs = Needs::default();
        for operation in operations {
            match operation.command() {
                Command::Adjust { sku, key, .. } => {
                    needs.skus.insert(*sku);
                    needs.adjustments.insert((*sku, key.clone()));
                }
                Command::Cancel { order, .. }
                | Command::CancelFor(order)
                | Command::Address { order, .. } => needs.order(*order),
                Command::Pay(pay) => {
                    needs.order(pay.order);
                    needs.payments.insert(pay.id.clone());
                }
                Command::Refund(refund) => {
                    needs.order(refund.order);
                    needs.payments.insert(refund.id.clone());
                }
                Command::Settle { payment } => drop(needs.payments.insert(payment.clone())),
                Command::CreateSale(_)
                | Command::ChangeSale { .. }
                | Command::Pause(_)
                | Command::Resume(_)
                | Command::End(_)
                | Command::DeleteSale(_)
                | Command::EraseBuyer(_)
                | Command::AddOperator(_)
                | Command::RevokeOperator(_)
                | Command::Notice(_)
                | Command::Join { .. }
                | Command::ShowPresence { .. }
                | Command::Draw { .. }
                | Command::LimitPace { .. }
                | Command::SetLineMessage { .. }
                | Command::GiveTurnBack { .. }
                | Command::KeepAction(..)
                | Command::Place(_) => {}
            }
        }
        needs
    }

    /// Of orders whose holds are due.
    pub fn of_due(due: &[(OrderId, BuyerId)]) -> Needs {
        let mut needs = Needs::default();
        for (id, buyer) in due {
            needs.order(*id);
            needs.buyers.insert((id.sku, *buyer));
        }
        needs
    }

    /// Of SKUs alone.
    pub fn of_skus(skus: impl IntoIterator<Item = SkuId>) -> Needs {
        Needs { skus: skus.into_iter().collect(), ..Needs::default() }
    }

    fn order(&mut self, id: OrderId) {
        self.skus.insert(id.sku);
        self.orders.insert(id);
    }

    pub(super) fn append(&mut self, mut other: Needs) {
        self.skus.append(&mut other.skus);
        self.orders.append(&mut other.orders);
        self.buyers.append(&mut other.buyers);
        self.payments.append(&mut other.payments);
        self.adjustments.append(&mut other.adjustments);
    }
}

impl WorkingSet<'_> {
    /// What operations need beside what [`Needs::of_operations`] says. Whose units a late payment takes, or a cancellation
    /// returns, only their orders can show; and which SKUs a sale has, only the sales.
    pub fn needs_further(&self, operations: &[Operation]) -> Needs {
        let buyers = self.orders.iter().map(|order| (order.sku, order.buyer));
        let buyers = buyers.filter(|who| !self.units.contains_key(who)).collect();
        let without_orders =
            operations.iter().filter_map(|operation| self.sales.to_have_no_orders(operation.command()));
        let skus = without_orders.flat_map(Sale::skus).filter(|sku| !self.skus.contains_key(sku)).collect();
        Needs { buyers, skus, ..Needs::default() }
    }
}
