//! Payments: what a provider reported, and what it paid for.

use crate::{OrderId, Seq, UnixMs};

/// A payment as the provider's callback reports it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pay {
    /// The provider's id: the same payment may be reported many times.
    pub id: Box<str>,
    pub order: OrderId,
    /// Minor units of the sale's currency.
    pub amount: u64,
}

/// Money that is to go back, or went back, to the buyer of a paid order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refund {
    /// Among the ids of payments: the same refund may be asked for many times.
    pub id: Box<str>,
    pub order: OrderId,
    /// Minor units of the sale's currency; `None`: all that was not refunded before.
    pub amount: Option<u64>,
    /// Units that go back on sale.
    pub units: u32,
    /// The provider has paid it out: nothing is due.
    pub paid_out: bool,
}

/// What of an order was refunded, by however many refunds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Refunded {
    /// Minor units.
    pub amount: u64,
    /// Units that went back on sale.
    pub units: u32,
}

impl Refunded {
    pub fn add(&mut self, other: Refunded) {
        self.amount += other.amount;
        self.units += other.units;
    }
}

/// Why money goes back: a payment paid for nothing, or a refund was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RefundReason {
    /// No such order is known (yet: if it comes, the payment pays for it).
    UnknownOrder,
    /// Not the order's amount.
    AmountDiffers,
    /// The order was paid already.
    AlreadyPaid,
    Cancelled,
    /// Paid after the hold had expired, and no units were free any more.
    ExpiredSoldOut,
    /// Paid after the hold had expired, and the buyer had reached the limit by another order.
    ExpiredOverLimit,
    /// No payment, but a refund of the paid order that this entry placed, with units that went back on sale.
    Requested {
        order: Seq,
        units: u32,
    },
}

impl RefundReason {
    pub fn as_str(self) -> &'static str {
        match self {
            RefundReason::UnknownOrder => "unknown_order",
            RefundReason::AmountDiffers => "amount_differs",
            RefundReason::AlreadyPaid => "already_paid",
            RefundReason::Cancelled => "cancelled",
            RefundReason::ExpiredSoldOut => "expired_sold_out",
            RefundReason::ExpiredOverLimit => "expired_over_limit",
            RefundReason::Requested { .. } => "requested",
        }
    }
}

/// What a payment came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Disposition {
    /// It paid for its order.
    Applied,
    RefundDue(RefundReason),
    /// A refund was due and somebody settled it; or the provider has paid a [`RefundReason::Requested`] out on its own.
    Settled(RefundReason),
}

impl Disposition {
    /// How many units went back on sale, if it is a refund of a paid order.
    pub fn requested(self) -> Option<u32> {
        match self {
            Disposition::RefundDue(RefundReason::Requested { units, .. })
            | Disposition::Settled(RefundReason::Requested { units, .. }) => Some(units),
            _ => None,
        }
    }

    /// Whether it is a payment that paid for nothing: all of it is to go back, or has.
    pub fn is_for_nothing(self) -> bool {
        self != Disposition::Applied && self.requested().is_none()
    }
}

/// A payment, or a refund of a paid order, as it was recorded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PaymentView {
    pub pay: Pay,
    pub seq: Seq,
    pub at: UnixMs,
    pub disposition: Disposition,
}
