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

/// Why a payment paid for nothing.
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
        }
    }
}

/// What a payment came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Disposition {
    /// It paid for its order.
    Applied,
    RefundDue(RefundReason),
    /// A refund was due and somebody settled it.
    Settled(RefundReason),
}

/// A payment as it was recorded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PaymentView {
    pub pay: Pay,
    pub seq: Seq,
    pub at: UnixMs,
    pub disposition: Disposition,
}
