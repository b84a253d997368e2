//! Why a command was not carried out. A refusal changes nothing and binds no key.

use std::fmt;

use crate::{Status, Stock};

/// What of an item's units can't be taken out of the sale.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct UnitsKept {
    pub total: u64,
    pub sold: u64,
    pub held: u64,
    /// Set aside for those who were called from its line.
    pub turns: u64,
    /// For those in its line who are sure to be called.
    pub promised: u64,
}

impl UnitsKept {
    /// `spare`: available units that nobody was promised.
    pub(crate) fn of(stock: Stock, spare: u64) -> UnitsKept {
        let promised = stock.available() - spare;
        UnitsKept {
            total: stock.total(),
            sold: stock.sold(),
            held: stock.held(),
            turns: stock.turns(),
            promised,
        }
    }

    fn total_min(&self) -> u64 {
        self.sold + self.held + self.turns + self.promised
    }
}

impl fmt::Display for UnitsKept {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (total, total_min) = (self.total, self.total_min());
        write!(
            f,
            "at most {} of {total} units can be taken off, which leaves {total_min}",
            total - total_min
        )?;
        let kept = [
            (self.sold, "sold"),
            (self.held, "held"),
            (self.turns, "set aside in open turns"),
            (self.promised, "promised to people in the line who are sure to be called"),
        ];
        for (place, (units, what)) in kept.iter().filter(|(units, _)| *units > 0).enumerate() {
            write!(f, "{} {units} {what}", if place == 0 { ":" } else { "," })?;
        }
        Ok(())
    }
}

/// Each has a stable code, part of the public API.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Refusal {
    UnknownSale,
    UnknownSku,
    UnknownOrder,
    UnknownPayment,
    NotStarted,
    Paused,
    Ended,
    /// No unit is available.
    SoldOut,
    /// The item is sold to its line, and the buyer was not called.
    TurnRequired,
    /// The item has no line.
    NoLine,
    /// The buyer has no place in the line.
    NotInLine,
    /// As many have joined as a line takes.
    LineFull,
    /// Some units are available, but fewer than were asked for.
    NotEnoughLeft,
    /// The buyer would hold and own more units of the SKU than the limit.
    OverLimit,
    /// The buyer has as many unpaid orders and open turns in this sale as one may have.
    TooManyHolds,
    /// The buyer has let as many holds of the SKU go unpaid as one may have open in this sale.
    HoldsUsedUp,
    /// Too many holds of the buyer on this SKU were cancelled or have expired, see [`crate::CoolDown`].
    CoolingDown {
        retry_after_ms: u64,
    },
    /// A unit costs something else than the buyer was shown. Judged before the order reaches the rules.
    PriceChanged {
        unit_price: u64,
    },
    /// The quantity is 0, or more than any order may have.
    InvalidQuantity,
    /// The key was used for another request.
    KeyConflict,
    /// The order can't be cancelled any more.
    NotCancellable(Status),
    /// The order has another address, and keeps it.
    AddressGiven,
    /// Only orders that are held or paid are given an address, and only while addresses of their age are kept.
    TakesNoAddress(Status),
    /// The payment id was used for another order or amount, or for a refund, or the other way round.
    PaymentConflict,
    /// Only paid orders are refunded.
    NotRefundable(Status),
    /// More money, or more units, than the order has left.
    RefundTooLarge,
    /// No refund is due for this payment.
    NothingToSettle,
    SaleExists,
    /// The sale has started, or sold something: what it sells, and on which terms, stays.
    SaleStarted,
    /// The sale as described can't be; the text says which bound it breaks.
    InvalidSale(&'static str),
    /// One of the items can't be: its place in the list that was sent, its field, and which bound that breaks.
    InvalidItem {
        place: u32,
        field: &'static str,
        why: &'static str,
    },
    /// The change can't be made any more; the text says why.
    InvalidChange(&'static str),
    /// More units than nobody has, nor was promised, can't be taken out of the sale. `None`: it is the gate that has too few.
    CorrectionTooLarge(Option<UnitsKept>),
}

impl Refusal {
    /// The stable code, as in the API's problem documents.
    pub fn code(self) -> &'static str {
        match self {
            Refusal::UnknownSale => "unknown_sale",
            Refusal::UnknownSku => "unknown_sku",
            Refusal::UnknownOrder => "unknown_order",
            Refusal::UnknownPayment => "unknown_payment",
            Refusal::NotStarted => "not_started",
            Refusal::Paused => "paused",
            Refusal::Ended => "ended",
            Refusal::SoldOut => "sold_out",
            Refusal::TurnRequired => "turn_required",
            Refusal::NoLine => "no_line",
            Refusal::NotInLine => "not_in_line",
            Refusal::LineFull => "line_full",
            Refusal::NotEnoughLeft => "not_enough_left",
            Refusal::OverLimit => "over_limit",
            Refusal::TooManyHolds => "too_many_holds",
            Refusal::HoldsUsedUp => "holds_used_up",
            Refusal::CoolingDown { .. } => "cooling_down",
            Refusal::PriceChanged { .. } => "price_changed",
            Refusal::InvalidQuantity => "invalid_quantity",
            Refusal::KeyConflict => "key_conflict",
            Refusal::NotCancellable(_) => "not_cancellable",
            Refusal::AddressGiven => "address_given",
            Refusal::TakesNoAddress(_) => "takes_no_address",
            Refusal::PaymentConflict => "payment_conflict",
            Refusal::NotRefundable(_) => "not_refundable",
            Refusal::RefundTooLarge => "refund_too_large",
            Refusal::NothingToSettle => "nothing_to_settle",
            Refusal::SaleExists => "sale_exists",
            Refusal::SaleStarted => "sale_started",
            Refusal::InvalidSale(_) | Refusal::InvalidItem { .. } => "invalid_sale",
            Refusal::InvalidChange(_) => "invalid_change",
            Refusal::CorrectionTooLarge(_) => "correction_too_large",
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match self {
            Refusal::UnknownSale => "no sale here has this number",
            Refusal::UnknownSku => "this product is not in this sale",
            Refusal::UnknownOrder => "no order of yours has this number",
            Refusal::UnknownPayment => "there is no such payment",
            Refusal::NotStarted => "the sale has not started yet",
            Refusal::Paused => "the sale is paused; try again later",
            Refusal::Ended => "the sale is over",
            Refusal::SoldOut => "sold out; units come back if orders are not paid in time",
            Refusal::TurnRequired => {
                "this product is sold to its line: order when you are called, once; whoever has not joined yet may join it"
            }
            Refusal::NoLine => "this product has no line: order it",
            Refusal::NotInLine => "you have no place in this line: join it",
            Refusal::LineFull => "the line is full",
            Refusal::NotEnoughLeft => "fewer units are left than you ask for",
            Refusal::OverLimit => "this is more than one buyer may have of this product",
            Refusal::TooManyHolds => {
                "pay an open order of yours in this sale first; a turn of yours that is open counts as one"
            }
            Refusal::HoldsUsedUp => {
                "as many of your orders of this product were cancelled or not paid in time as one buyer may have"
            }
            Refusal::CoolingDown { retry_after_ms } => {
                let seconds = retry_after_ms.div_ceil(1000);
                return write!(
                    f,
                    "too many of your orders of this product were cancelled or not paid in time; order it again in \
                     {seconds} s"
                );
            }
            Refusal::PriceChanged { .. } => {
                "a unit costs unit_price now, which is not what the order was asked for; nothing was ordered"
            }
            Refusal::InvalidQuantity => "the quantity must be at least 1 and at most 1,000,000",
            Refusal::KeyConflict => "this idempotency key was used for another request; use a new one",
            Refusal::NotCancellable(status) => {
                return write!(f, "the order is {} and can't be cancelled", status.as_str());
            }
            Refusal::AddressGiven => "the order has an address already; ask the shop to change it",
            Refusal::TakesNoAddress(status) => {
                return write!(f, "the order is {} and takes no address any more", status.as_str());
            }
            Refusal::PaymentConflict => "this payment id was recorded with another order or amount",
            Refusal::NotRefundable(status) => {
                return write!(f, "the order is {}, and only paid orders are refunded", status.as_str());
            }
            Refusal::RefundTooLarge => "this is more money, or more units, than is left of the order",
            Refusal::NothingToSettle => "no refund is due for this payment",
            Refusal::SaleExists => "a sale with this id exists and is not the same, or was deleted",
            Refusal::SaleStarted => {
                "the sale has started or has orders: its items can't be changed, and it can't be deleted"
            }
            Refusal::InvalidItem { place, field, why } => return write!(f, "items[{place}].{field}: {why}"),
            Refusal::InvalidSale(why) | Refusal::InvalidChange(why) => why,
            Refusal::CorrectionTooLarge(Some(kept)) => return fmt::Display::fmt(kept, f),
            Refusal::CorrectionTooLarge(None) => "fewer units are available than the correction takes away",
        };
        f.write_str(text)
    }
}
