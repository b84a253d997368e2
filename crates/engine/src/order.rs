//! An order: what was asked for, what became of it.

use crate::{BuyerId, Fingerprint, OrderId, Refunded, Seq, SkuId, UnixMs};

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
    /// Paid before, and all of the money is to go back, or went back.
    Refunded,
}

impl Status {
    /// The order's units count to its buyer.
    pub fn has_units(self) -> bool {
        matches!(self, Status::Held | Status::Paid | Status::Refunded)
    }

    pub fn as_str(self) -> &'static str {
        match self {
            Status::Held => "held",
            Status::Paid => "paid",
            Status::Cancelled => "cancelled",
            Status::Expired => "expired",
            Status::Refunded => "refunded",
        }
    }
}

/// What a ledger has of an order's address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeptAddress {
    Missing,
    /// JSON text.
    Is(Box<[u8]>),
    /// Addresses of orders of that age are kept no longer.
    Over,
}

/// How an order left `held`; as [`Closing::PaidLate`], `expired`; as [`Closing::Refunded`], `paid`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Closing {
    Paid,
    Cancelled,
    Expired,
    /// Paid after it had expired, with units taken again.
    PaidLate,
    /// All of its money is refunded. Its units are where they were, but for those that went back on sale with a refund.
    Refunded,
}

impl Closing {
    /// The status after it.
    pub fn status(self) -> Status {
        match self {
            Closing::Paid | Closing::PaidLate => Status::Paid,
            Closing::Cancelled => Status::Cancelled,
            Closing::Expired => Status::Expired,
            Closing::Refunded => Status::Refunded,
        }
    }

    /// The order was held until then.
    pub fn ends_hold(self) -> bool {
        self.step() == 1
    }

    /// The order's units are on sale again.
    pub fn returns_units(self) -> bool {
        matches!(self, Closing::Cancelled | Closing::Expired)
    }

    /// Its number among the order's transitions, from 1: what the ledger's primary key guards.
    pub fn step(self) -> u8 {
        match self {
            Closing::Paid | Closing::Cancelled | Closing::Expired => 1,
            Closing::PaidLate => 2,
            Closing::Refunded => 3,
        }
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
    /// It had expired before it was paid. Only the book asks for it.
    pub(crate) paid_late: bool,
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

    pub(crate) fn view(
        &self,
        unit_price: u64,
        shift_ms: i64,
        refund_due: bool,
        refunded: Refunded,
    ) -> OrderView {
        let is_closed = match self.status {
            Status::Held => false,
            Status::Refunded => true,
            _ => self.payment_ms > 0,
        };
        OrderView {
            id: self.id(),
            seq: self.seq,
            buyer: self.buyer,
            quantity: self.quantity,
            unit_price,
            status: self.status,
            placed_at: self.placed_at,
            pay_by: (self.payment_ms > 0).then(|| self.pay_by(shift_ms)),
            closed_at: is_closed.then_some(self.closed_at),
            refund_due,
            refunded,
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
    /// When it left `held` (or was paid late, or refunded whole); `None` while it is held.
    pub closed_at: Option<UnixMs>,
    /// Money for it is to go back: of a payment that did not pay for it, or of a refund; nobody has settled it yet.
    pub refund_due: bool,
    pub refunded: Refunded,
}

impl OrderView {
    /// Minor units, for the whole order.
    pub fn amount(&self) -> u64 {
        self.unit_price * u64::from(self.quantity)
    }

    /// The order as it was when it was accepted: the answer that a retry gets again.
    pub fn as_placed(mut self) -> OrderView {
        self.refund_due = false;
        self.refunded = Refunded::default();
        self.status = if self.pay_by.is_some() { Status::Held } else { Status::Paid };
        self.closed_at = None;
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
