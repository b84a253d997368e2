//! What a run has reached: how often each refusal, disposition and event. A simulation that no longer comes
//! past an edge must fail, not pass.

use std::collections::BTreeMap;

use engine::{Accepted, Closing, Disposition, Event, RefundReason, Refusal, Status};

/// Every outcome there is. The matches below have no wildcard: a new variant stops the build here.
const OUTCOMES: [&str; 72] = [
    "applied",
    "due: already_paid",
    "due: amount_differs",
    "due: cancelled",
    "due: expired_over_limit",
    "due: expired_sold_out",
    "due: requested",
    "due: unknown_order",
    "erased",
    "event: adjusted",
    "event: cancelled",
    "event: changed",
    "event: corrected",
    "event: created",
    "event: deleted",
    "event: ended",
    "event: erased",
    "event: expired",
    "event: items changed",
    "event: matched",
    "event: noticed",
    "event: paid",
    "event: paid late",
    "event: paused",
    "event: payment",
    "event: placed",
    "event: refunded",
    "event: resumed",
    "event: settled",
    "not_cancellable: expired",
    "not_cancellable: paid",
    "not_cancellable: refunded",
    "noticed",
    "order",
    "order again",
    "payment",
    "payment again",
    "refused: cooling_down",
    "refused: correction_too_large",
    "refused: ended",
    "refused: holds_used_up",
    "refused: invalid_change",
    "refused: invalid_quantity",
    "refused: invalid_sale",
    "refused: key_conflict",
    "refused: not_cancellable",
    "refused: not_enough_left",
    "refused: not_refundable",
    "refused: not_started",
    "refused: nothing_to_settle",
    "refused: over_limit",
    "refused: paused",
    "refused: payment_conflict",
    "refused: refund_too_large",
    "refused: sale_exists",
    "refused: sale_started",
    "refused: sold_out",
    "refused: too_many_holds",
    "refused: unknown_order",
    "refused: unknown_payment",
    "refused: unknown_sale",
    "refused: unknown_sku",
    "sale",
    "settled: already_paid",
    "settled: amount_differs",
    "settled: cancelled",
    "settled: expired_over_limit",
    "settled: expired_sold_out",
    "settled: requested",
    "settled: unknown_order",
    "stock",
    "swept",
];

#[derive(Debug, Default)]
pub(crate) struct Coverage(BTreeMap<&'static str, u64>);

impl Coverage {
    pub(crate) fn count(&mut self, outcome: &'static str) {
        *self.0.entry(outcome).or_insert(0) += 1;
    }

    pub(crate) fn answer(&mut self, answer: &Result<Accepted, Refusal>) {
        match answer {
            Ok(Accepted::Sale(_)) => self.count("sale"),
            Ok(Accepted::Stock(_)) => self.count("stock"),
            Ok(Accepted::BuyerErased) => self.count("erased"),
            Ok(Accepted::Operators | Accepted::ActionKept) => {
                unreachable!("not of a sale: tests/rules has them")
            }
            Ok(Accepted::InLine { .. } | Accepted::Drawn(_) | Accepted::LineSteered(_)) => {
                unreachable!("no item of these histories has a line")
            }
            Ok(Accepted::Noticed) => self.count("noticed"),
            Ok(Accepted::Order { replayed: false, .. }) => self.count("order"),
            Ok(Accepted::Order { replayed: true, .. }) => self.count("order again"),
            Ok(Accepted::Payment { payment, replayed }) => {
                self.count(if *replayed { "payment again" } else { "payment" });
                self.count(disposition(payment.disposition));
            }
            Err(refusal) => {
                if let Refusal::NotCancellable(status) = refusal {
                    self.count(not_cancellable(*status));
                }
                self.count(refused(*refusal));
            }
        }
    }

    pub(crate) fn event(&mut self, event: &Event) {
        self.count(match event {
            Event::SaleCreated(_) => "event: created",
            Event::SaleChanged { change, .. } if !change.items.is_empty() => "event: items changed",
            Event::SaleChanged { .. } => "event: changed",
            Event::SalePaused(_) => "event: paused",
            Event::SaleResumed(_) => "event: resumed",
            Event::SaleEnded(_) => "event: ended",
            Event::SaleDeleted(_) => "event: deleted",
            Event::StockAdjusted { .. } => "event: adjusted",
            Event::OrderPlaced { .. } => "event: placed",
            Event::OrderClosed { how: Closing::Paid, .. } => "event: paid",
            Event::OrderClosed { how: Closing::Cancelled, .. } => "event: cancelled",
            Event::OrderClosed { how: Closing::Expired, .. } => "event: expired",
            Event::OrderClosed { how: Closing::PaidLate, .. } => "event: paid late",
            Event::OrderClosed { how: Closing::Refunded, .. } => "event: refunded",
            Event::PaymentRecorded { .. } => "event: payment",
            Event::PaymentMatched { .. } => "event: matched",
            Event::RefundSettled { .. } => "event: settled",
            Event::OrderAddressed { .. } => unreachable!("a book has no addresses"),
            Event::BuyerErased(_) => "event: erased",
            Event::OrderRejected { .. } => unreachable!("a book alone refuses at once"),
            Event::Noticed(_) => "event: noticed",
            Event::OperatorAdded(_) | Event::OperatorRevoked(_) | Event::Operated(_) => {
                unreachable!("not of a sale: tests/rules has them")
            }
            Event::LineJoined { .. }
            | Event::LineClosed { .. }
            | Event::LineDrawn { .. }
            | Event::LineMoved { .. }
            | Event::PaceLimited { .. }
            | Event::LineMessageSet { .. }
            | Event::TurnOpened { .. }
            | Event::TurnEnded { .. } => unreachable!("no item of these histories has a line"),
            Event::ClockCorrected { .. } => "event: corrected",
        });
    }

    /// Panics unless every outcome was reached, and none that is not on the list.
    pub(crate) fn assert_complete(&self) {
        let reached: Vec<_> = self.0.keys().copied().collect();
        assert_eq!(reached, OUTCOMES, "outcomes reached, against those there are; counts: {:#?}", self.0);
    }
}

fn disposition(disposition: Disposition) -> &'static str {
    use RefundReason::{
        AlreadyPaid, AmountDiffers, Cancelled, ExpiredOverLimit, ExpiredSoldOut, Requested, UnknownOrder,
    };
    match disposition {
        Disposition::Applied => "applied",
        Disposition::RefundDue(UnknownOrder) => "due: unknown_order",
        Disposition::RefundDue(AmountDiffers) => "due: amount_differs",
        Disposition::RefundDue(AlreadyPaid) => "due: already_paid",
        Disposition::RefundDue(Cancelled) => "due: cancelled",
        Disposition::RefundDue(ExpiredSoldOut) => "due: expired_sold_out",
        Disposition::RefundDue(ExpiredOverLimit) => "due: expired_over_limit",
        Disposition::RefundDue(Requested { .. }) => "due: requested",
        Disposition::Settled(Requested { .. }) => "settled: requested",
        Disposition::Settled(UnknownOrder) => "settled: unknown_order",
        Disposition::Settled(AmountDiffers) => "settled: amount_differs",
        Disposition::Settled(AlreadyPaid) => "settled: already_paid",
        Disposition::Settled(Cancelled) => "settled: cancelled",
        Disposition::Settled(ExpiredSoldOut) => "settled: expired_sold_out",
        Disposition::Settled(ExpiredOverLimit) => "settled: expired_over_limit",
    }
}

fn not_cancellable(status: Status) -> &'static str {
    match status {
        Status::Paid => "not_cancellable: paid",
        Status::Expired => "not_cancellable: expired",
        Status::Refunded => "not_cancellable: refunded",
        Status::Held | Status::Cancelled => unreachable!("{status:?} orders can be cancelled (again)"),
    }
}

fn refused(refusal: Refusal) -> &'static str {
    match refusal {
        Refusal::UnknownSale => "refused: unknown_sale",
        Refusal::UnknownSku => "refused: unknown_sku",
        Refusal::UnknownOrder => "refused: unknown_order",
        Refusal::UnknownPayment => "refused: unknown_payment",
        Refusal::NotStarted => "refused: not_started",
        Refusal::Paused => "refused: paused",
        Refusal::Ended => "refused: ended",
        Refusal::SoldOut => "refused: sold_out",
        Refusal::TurnRequired | Refusal::NoLine | Refusal::NotInLine | Refusal::LineFull => {
            unreachable!("no item of these histories has a line")
        }
        Refusal::PriceChanged { .. } => unreachable!("no order of these histories says what it was shown"),
        Refusal::NotEnoughLeft => "refused: not_enough_left",
        Refusal::OverLimit => "refused: over_limit",
        Refusal::TooManyHolds => "refused: too_many_holds",
        Refusal::HoldsUsedUp => "refused: holds_used_up",
        Refusal::CoolingDown { .. } => "refused: cooling_down",
        Refusal::InvalidQuantity => "refused: invalid_quantity",
        Refusal::KeyConflict => "refused: key_conflict",
        Refusal::NotCancellable(_) => "refused: not_cancellable",
        Refusal::AddressGiven => "refused: address_given",
        Refusal::TakesNoAddress(_) => "refused: takes_no_address",
        Refusal::PaymentConflict => "refused: payment_conflict",
        Refusal::NotRefundable(_) => "refused: not_refundable",
        Refusal::RefundTooLarge => "refused: refund_too_large",
        Refusal::NothingToSettle => "refused: nothing_to_settle",
        Refusal::SaleExists => "refused: sale_exists",
        Refusal::SaleStarted => "refused: sale_started",
        Refusal::InvalidSale(_) | Refusal::InvalidItem { .. } => "refused: invalid_sale",
        Refusal::InvalidChange(_) => "refused: invalid_change",
        Refusal::CorrectionTooLarge(_) => "refused: correction_too_large",
    }
}
