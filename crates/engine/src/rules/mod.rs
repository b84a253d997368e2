//! The rules of an order's life, once. This file judges plain values: what may be placed, paid, cancelled, moved. The
//! files beside it are the commands and events made of that, for any state that has the rows (`rows::Rows`):
//! the [`crate::Book`] with what it has in memory, and the [`crate::working_set::WorkingSet`] with what a transaction has
//! read.

pub(crate) mod apply;
pub(crate) mod operate;
pub(crate) mod pay;
pub(crate) mod place;
pub(crate) mod rows;

use crate::handover::Claim;
use crate::sale::{TOTAL_BOUND, limits};
use crate::{
    Adjust, BuyerId, Closing, Disposition, Fingerprint, KeptAddress, Placement, RefundReason, Refunded,
    Refusal, Status, Stock, UnitsKept, UnixMs,
};

/// Why a command was not carried out. Nothing was recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Declined {
    Refused(Refusal),
    /// Units are to be claimed at the gate first.
    NeedsClaim(Claim),
}

impl From<Refusal> for Declined {
    fn from(refusal: Refusal) -> Declined {
        Declined::Refused(refusal)
    }
}

/// Open holds that a buyer has in a sale which bounds them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpenHolds {
    pub has: u32,
    pub max: u32,
}

/// What an order whose id is unknown is judged by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Placing {
    pub quantity: u32,
    /// Units of the SKU that one buyer may hold and own.
    pub limit: Option<u32>,
    /// What the buyer holds and owns already. Means nothing without a limit.
    pub units: u32,
    /// `None`: the sale does not bound them.
    pub open_holds: Option<OpenHolds>,
    pub available: u64,
}

/// Whether units may be taken for an order. The window and a pause come before it, see [`crate::Phase::refusal`].
///
/// # Errors
/// The first rule that refuses it.
pub fn place(asked: &Placing) -> Result<(), Refusal> {
    if asked.quantity == 0 || asked.quantity > limits::QUANTITY_MAX {
        return Err(Refusal::InvalidQuantity);
    }
    if !within_limit(asked.limit, asked.units, asked.quantity) {
        return Err(Refusal::OverLimit);
    }
    if asked.open_holds.is_some_and(|holds| holds.has >= holds.max) {
        return Err(Refusal::TooManyHolds);
    }
    match asked.available {
        0 => Err(Refusal::SoldOut),
        left if left < u64::from(asked.quantity) => Err(Refusal::NotEnoughLeft),
        _ => Ok(()),
    }
}

/// Whether a buyer who has so many units may hold and own so many more.
pub fn within_limit(limit: Option<u32>, has: u32, more: u32) -> bool {
    limit.is_none_or(|limit| u64::from(has) + u64::from(more) <= u64::from(limit))
}

/// Whether a request under an id that is known is the one that the id was made for.
///
/// # Errors
/// [`Refusal::KeyConflict`].
pub fn repeat(
    (fingerprint, buyer, quantity): (Fingerprint, BuyerId, u32),
    asked: &Placement,
) -> Result<(), Refusal> {
    let same = fingerprint == asked.fingerprint && buyer == asked.buyer && quantity == asked.quantity;
    if same { Ok(()) } else { Err(Refusal::KeyConflict) }
}

/// Whether an order may be cancelled by its buyer; `false`: it was cancelled before, and is answered again.
///
/// # Errors
/// [`Refusal::NotCancellable`].
pub fn cancel(status: Status) -> Result<bool, Refusal> {
    match status {
        Status::Held => Ok(true),
        Status::Cancelled => Ok(false),
        Status::Paid | Status::Expired | Status::Refunded => Err(Refusal::NotCancellable(status)),
    }
}

/// Whether an order is given this address; `false`: it was before, and is answered again.
///
/// # Errors
/// [`Refusal::AddressGiven`], [`Refusal::TakesNoAddress`].
pub fn give_address(status: Status, kept: &KeptAddress, asked: &[u8]) -> Result<bool, Refusal> {
    let takes = matches!(status, Status::Held | Status::Paid);
    match kept {
        KeptAddress::Is(kept) if **kept == *asked => Ok(false),
        KeptAddress::Is(_) => Err(Refusal::AddressGiven),
        KeptAddress::Missing if takes => Ok(true),
        KeptAddress::Missing | KeptAddress::Over => Err(Refusal::TakesNoAddress(status)),
    }
}

/// Whether a provider's payment id can be recorded.
///
/// # Errors
/// [`Refusal::InvalidChange`].
pub fn payment_id(id: &str) -> Result<(), Refusal> {
    if id.is_empty() || id.len() > limits::PAYMENT_ID_BYTES_MAX {
        return Err(Refusal::InvalidChange("the payment id must have 1 to 255 bytes"));
    }
    Ok(())
}

/// Whether an order's hold is to be ended because nobody has paid.
pub fn expires(status: Status, pay_by: UnixMs, now: UnixMs) -> bool {
    status == Status::Held && pay_by <= now
}

/// What a payment does to an order that owes so much. [`Closing::PaidLate`]: if its units can be taken again, which
/// [`pay_late`] judges.
///
/// # Errors
/// Why the payment pays for nothing.
pub fn pay(status: Status, owed: u64, paid: u64) -> Result<Closing, RefundReason> {
    if paid != owed {
        return Err(RefundReason::AmountDiffers);
    }
    match status {
        Status::Held => Ok(Closing::Paid),
        Status::Paid | Status::Refunded => Err(RefundReason::AlreadyPaid),
        Status::Cancelled => Err(RefundReason::Cancelled),
        Status::Expired => Ok(Closing::PaidLate),
    }
}

/// Whether an expired order's units can be taken again.
///
/// # Errors
/// Why not.
pub fn pay_late(available: u64, limit: Option<u32>, units: u32, quantity: u32) -> Result<(), RefundReason> {
    if available < u64::from(quantity) {
        Err(RefundReason::ExpiredSoldOut)
    } else if !within_limit(limit, units, quantity) {
        Err(RefundReason::ExpiredOverLimit)
    } else {
        Ok(())
    }
}

/// Whether a payment that came before its order pays for it.
pub fn matches(status: Status, owed: u64, paid: u64) -> bool {
    status == Status::Held && owed == paid
}

/// What is refunded of an order of which so much was refunded before. `amount`: `None` for all that is left.
///
/// # Errors
/// [`Refusal::NotRefundable`], [`Refusal::RefundTooLarge`], [`Refusal::InvalidChange`].
pub fn refund(
    (status, owed, quantity): (Status, u64, u32),
    before: Refunded,
    (amount, units): (Option<u64>, u32),
) -> Result<Refunded, Refusal> {
    if status != Status::Paid {
        return Err(Refusal::NotRefundable(status));
    }
    let left = owed - before.amount;
    let amount = amount.unwrap_or(left);
    if amount > left || units > quantity - before.units {
        return Err(Refusal::RefundTooLarge);
    }
    if amount == 0 && left > 0 {
        return Err(Refusal::InvalidChange("a refund must be of at least 1 minor unit"));
    }
    Ok(Refunded { amount, units })
}

/// Whether a refund is still to be settled; `false`: it was settled before, and is answered again.
///
/// # Errors
/// [`Refusal::NothingToSettle`].
pub fn settle(disposition: Disposition) -> Result<bool, Refusal> {
    match disposition {
        Disposition::Applied => Err(Refusal::NothingToSettle),
        Disposition::Settled(_) => Ok(false),
        Disposition::RefundDue(_) => Ok(true),
    }
}

/// Whether the total of a SKU may be moved so, under a key that was not used yet. `spare`: available units that nobody was
/// promised.
///
/// # Errors
/// [`Refusal::InvalidChange`], [`Refusal::CorrectionTooLarge`].
pub fn adjust((stock, spare): (Stock, u64), (how, units): (Adjust, u64), key: &str) -> Result<(), Refusal> {
    if key.is_empty() || key.len() > limits::KEY_BYTES_MAX {
        return Err(Refusal::InvalidChange("the idempotency key must have 1 to 64 bytes"));
    }
    if units == 0 {
        return Err(Refusal::InvalidChange("the number of units must be at least 1"));
    }
    match how {
        Adjust::Restock => restock(stock.total(), units),
        Adjust::Correct => correct((spare, Some(UnitsKept::of(stock, spare))), units),
    }
}

/// Whether an item of this total may have so many units more.
///
/// # Errors
/// [`Refusal::InvalidChange`].
pub(crate) fn restock(total: u64, units: u64) -> Result<(), Refusal> {
    if units > limits::TOTAL_MAX.saturating_sub(total) {
        return Err(Refusal::InvalidChange(TOTAL_BOUND));
    }
    Ok(())
}

/// Whether so many units of an item may go. `spare`: available ones that nobody was promised; `kept`: what can't go, where it is
/// known.
///
/// # Errors
/// [`Refusal::CorrectionTooLarge`].
pub(crate) fn correct((spare, kept): (u64, Option<UnitsKept>), units: u64) -> Result<(), Refusal> {
    if units > spare { Err(Refusal::CorrectionTooLarge(kept)) } else { Ok(()) }
}

/// Whether an adjustment under a key that was used is the one that the key was used for.
///
/// # Errors
/// [`Refusal::KeyConflict`].
pub fn adjust_again(done: (Adjust, u64), asked: (Adjust, u64)) -> Result<(), Refusal> {
    if done == asked { Ok(()) } else { Err(Refusal::KeyConflict) }
}
