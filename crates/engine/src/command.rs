//! What can be asked, and what it came to. Data only; a refusal is [`crate::Refusal`].

use crate::{
    Adjust, BuyerId, Notice, Operator, OrderId, OrderView, Pay, PaymentView, PlaceView, Placement, Refund,
    SaleChange, SaleId, SaleSpec, SkuId, Spoken,
};

/// Everything that can be asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    CreateSale(SaleSpec),
    ChangeSale {
        sale: SaleId,
        change: SaleChange,
    },
    Pause(SaleId),
    Resume(SaleId),
    End(SaleId),
    /// A sale that has sold nothing is to be as if it had never been. Its number stays taken.
    DeleteSale(SaleId),
    /// Moves the total of a SKU; `key` is the operator's idempotency key.
    Adjust {
        sku: SkuId,
        how: Adjust,
        units: u64,
        key: Box<str>,
    },
    Place(Placement),
    /// Joins the line of a SKU.
    Join {
        sku: SkuId,
        buyer: BuyerId,
    },
    /// A buyer who has joined is there. No ledger keeps it.
    ShowPresence {
        sku: SkuId,
        buyer: BuyerId,
    },
    /// What the beacon said in the round that a line's draw waits for; whoever brings it has checked it.
    Draw {
        sku: SkuId,
        spoken: Box<Spoken>,
    },
    /// At most so many places of a line are to be reached per second; 0: none, `None`: as many as can be.
    LimitPace {
        sku: SkuId,
        per_s_max: Option<u32>,
    },
    /// Everybody in a line is to read this, in place of what there was before; empty: nothing.
    SetLineMessage {
        sku: SkuId,
        message: Box<str>,
    },
    /// A buyer who was called does not want the units.
    GiveTurnBack {
        sku: SkuId,
        buyer: BuyerId,
    },
    Cancel {
        order: OrderId,
        buyer: BuyerId,
    },
    /// The same for an operator, whoever's order it is.
    CancelFor(OrderId),
    /// Gives an order that was placed without an address one, as JSON text. Judged with what the ledger has kept: see
    /// [`crate::Book::give_address`].
    Address {
        order: OrderId,
        buyer: BuyerId,
        address: Box<[u8]>,
    },
    Pay(Pay),
    Refund(Refund),
    /// Somebody has paid the refund out.
    Settle {
        payment: Box<str>,
    },
    /// What names the buyer is to go. Their orders and units stay: the books are right without a name.
    EraseBuyer(BuyerId),
    /// Somebody may from now on.
    AddOperator(Box<Operator>),
    /// The operator of this name may no more.
    RevokeOperator(Box<str>),
    /// Has the ledger keep what the shop is to hear.
    Notice(Notice),
    /// Has the ledger keep that an operator did something beside the books, and what about: nothing else comes of it.
    KeepAction(Action, Box<str>),
}

/// What operators do that changes nothing in a book.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    ImageAdded,
    ImageRemoved,
    WebhookDisabled,
    WebhookEnabled,
    WebhookReplayed,
    ClockConfirmed,
    DeadLettersReplayed,
    MessagesPassedOver,
    QueuesRetired,
    RehearsalBegan,
    RehearsalStopped,
    RehearsalEnded,
}

impl Action {
    pub fn as_str(self) -> &'static str {
        match self {
            Action::ImageAdded => "image_added",
            Action::ImageRemoved => "image_removed",
            Action::WebhookDisabled => "webhook_disabled",
            Action::WebhookEnabled => "webhook_enabled",
            Action::WebhookReplayed => "webhook_replayed",
            Action::ClockConfirmed => "clock_confirmed",
            Action::DeadLettersReplayed => "dead_letters_replayed",
            Action::MessagesPassedOver => "messages_passed_over",
            Action::QueuesRetired => "queues_retired",
            Action::RehearsalBegan => "rehearsal_began",
            Action::RehearsalStopped => "rehearsal_stopped",
            Action::RehearsalEnded => "rehearsal_ended",
        }
    }
}

/// What a command that was carried out came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Accepted {
    Sale(SaleId),
    Stock(SkuId),
    /// `replayed`: the order was there before, this is its answer again.
    Order {
        order: OrderView,
        replayed: bool,
    },
    Payment {
        payment: PaymentView,
        replayed: bool,
    },
    /// A buyer's place in the line of a SKU: they joined it, showed that they are there, or gave their turn back.
    /// `replayed`: nothing was recorded.
    InLine {
        sku: SkuId,
        place: PlaceView,
        replayed: bool,
    },
    /// The places of a line are drawn.
    Drawn(SkuId),
    /// An operator has changed something of a line.
    LineSteered(SkuId),
    BuyerErased,
    /// An operator was added or revoked.
    Operators,
    Noticed,
    ActionKept,
}
