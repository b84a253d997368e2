//! An order: what was asked for, what became of it.

use crate::{BuyerId, Fingerprint, OrderId, Seq, SkuId, UnixMs};

/// A placement: a request for units, complete but for the time. [`crate::Command::Place`] asks for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Placement {
    pub id: OrderId,
    pub buyer: BuyerId,
    pub quantity: u32,
    /// Of the whole request, to tell a retry from a conflict. Any value if the id was made without a key.
    pub fingerprint: Fingerprint,
}

/// Where an order stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Status {
    Held,
    Paid,
    Cancelled,
    Expired,
}

impl Status {
    pub fn as_str(self) -> &'static str {
        match self {
            Status::Held => "held",
            Status::Paid => "paid",
            Status::Cancelled => "cancelled",
            Status::Expired => "expired",
        }
    }
}

/// How an order left `held` or, as [`Closing::PaidLate`], `expired`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Closing {
    Paid,
    Cancelled,
    Expired,
    /// Paid after it had expired, with units taken again. The only second transition that an order can have.
    PaidLate,
}

impl Closing {
    /// The status after it.
    pub fn status(self) -> Status {
        match self {
            Closing::Paid | Closing::PaidLate => Status::Paid,
            Closing::Cancelled => Status::Cancelled,
            Closing::Expired => Status::Expired,
        }
    }

    /// The order's units are on sale again.
    pub fn returns_units(self) -> bool {
        matches!(self, Closing::Cancelled | Closing::Expired)
    }

    /// Its number among the order's transitions, from 1: what the ledger's primary key guards.
    pub fn step(self) -> u8 {
        if self == Closing::PaidLate { 2 } else { 1 }
    }
}

/// An order as a state keeps it. 80 bytes: a book has millions. Packed, because 128-bit numbers would otherwise be
/// aligned to 16.
#[derive(Clone, Copy, Debug)]
#[repr(Rust, packed(8))]
pub(crate) struct Order {
    pub(crate) hash: u128,
    pub(crate) seq: Seq,
    pub(crate) buyer: BuyerId,
    pub(crate) placed_at: UnixMs,
    /// Means nothing while the order is held, or if it was paid on placing.
    pub(crate) closed_at: UnixMs,
    pub(crate) fingerprint: Fingerprint,
    pub(crate) sku: SkuId,
    pub(crate) quantity: u32,
    /// Payment time in ms, 0 if paid on placing; at most 30 days, so it fits.
    pub(crate) payment_ms: u32,
    pub(crate) status: Status,
}

impl Order {
    pub(crate) fn id(&self) -> OrderId {
        OrderId { sku: self.sku, hash: self.hash }
    }

    /// `shift_ms`: how far the clock was corrected since it was placed.
    pub(crate) fn pay_by(&self, shift_ms: i64) -> UnixMs {
        self.placed_at.shifted(shift_ms.saturating_add(i64::from(self.payment_ms)))
    }

    pub(crate) fn placement(&self) -> Placement {
        let Order { buyer, quantity, fingerprint, .. } = *self;
        Placement { id: self.id(), buyer, quantity, fingerprint }
    }

    pub(crate) fn view(&self, unit_price: u64, shift_ms: i64, refund_due: bool) -> OrderView {
        OrderView {
            id: self.id(),
            seq: self.seq,
            buyer: self.buyer,
            quantity: self.quantity,
            unit_price,
            status: self.status,
            placed_at: self.placed_at,
            pay_by: (self.payment_ms > 0).then(|| self.pay_by(shift_ms)),
            closed_at: (self.status != Status::Held && self.payment_ms > 0).then_some(self.closed_at),
            refund_due,
        }
    }
}

/// An order to read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OrderView {
    pub id: OrderId,
    pub seq: Seq,
    pub buyer: BuyerId,
    pub quantity: u32,
    /// Minor units, per unit.
    pub unit_price: u64,
    pub status: Status,
    pub placed_at: UnixMs,
    /// Until when it must be paid, by the clock as it was corrected since; `None` if it was paid on placing.
    pub pay_by: Option<UnixMs>,
    /// When it left `held` (or was paid late); `None` while it is held.
    pub closed_at: Option<UnixMs>,
    /// A payment for it was recorded that did not pay for it, and was not settled yet.
    pub refund_due: bool,
}

impl OrderView {
    /// Minor units, for the whole order.
    pub fn amount(&self) -> u64 {
        self.unit_price * u64::from(self.quantity)
    }

    /// The order as it was when it was accepted: the answer that a retry gets again.
    pub fn as_placed(mut self) -> OrderView {
        self.refund_due = false;
        if self.pay_by.is_some() {
            self.status = Status::Held;
            self.closed_at = None;
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_order_has_80_bytes() {
        assert_eq!(size_of::<Order>(), 80);
    }
}
