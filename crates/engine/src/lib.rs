//! The rules of a flash sale: commands in, outcomes out.
//!
//! Pure and deterministic: no I/O, no clock, no entropy, no threads. Whoever calls gives the time, the order
//! ids and the payment ids; the same commands at the same times give the same state, which is why a ledger
//! of [`Entry`]s is enough to rebuild a [`Book`]. A refusal is a result, not an error. The invariants are
//! asserted here, in production too.
#![forbid(unsafe_code)]

pub mod balance;
mod book;
mod buyers;
mod calendar;
mod command;
mod cool_down;
mod entry;
pub mod handover;
mod id;
mod line;
mod money;
mod notice;
mod operated;
mod operator;
mod order;
mod payment;
mod refusal;
pub mod rules;
mod sale;
mod sales;
mod sharded;
mod stock;
pub mod working_set;

pub use book::{Book, CallsMade, LedgerKind, LineView, ReceiptView};
pub use calendar::{date_of, format_seconds, format_utc, format_utc_exactly};
pub use command::{Accepted, Action, Command};
pub use cool_down::{CoolDown, RETURNED_HOLDS_FREE};
pub use entry::{Entry, Event, Inconsistent};
pub use id::{
    BuyerId, Fingerprint, NotAnOrderId, ORDER_ID_CHARS, OrderId, ProductId, SaleId, Seq, SkuId, UnixMs,
};
pub use line::draw;
pub use line::{
    BeaconTerms, Borders, ClosedLine, DrawView, EntryView, GroupName, LineAccess, LineTerms, Opening,
    PRESENT_AHEAD, PRESENT_MS, PlaceView, Reached, Spoken, Standing, Standings, Turn, TurnEnd,
};
pub use money::{amount, minor_digits};
pub use notice::Notice;
pub use operated::{By, Operated};
pub use operator::{Operator, Operators, ROOT, Role};
pub use order::{Closing, KeptAddress, OrderView, Placement, Status};
pub use payment::{Disposition, Pay, PaymentView, Refund, RefundReason, Refunded};
pub use refusal::{Refusal, UnitsKept};
pub use sale::{
    ItemChange, ItemImage, ItemSpec, Payment, Phase, SaleChange, SaleSpec, SaleView, is_plain, is_plain_char,
    limits, plain,
};
pub use sales::{Sale, Sales, Terms};
pub use stock::{Adjust, Stock, is_sold_out};
