//! What became of some orders in a run, for people: whoever does something with one notes it, while somebody wants to know.
//!
//! Must not: draw a number, wait, or change what it notes. A run with notes is the same as one without.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::time::Duration;

use engine::OrderId;
use server::time::Instant;

use crate::schedule::instant;

/// Something that happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Note {
    /// Since the run began.
    pub(crate) at: Duration,
    /// `None`: to what there is to sell.
    pub(crate) order: Option<OrderId>,
    /// Nothing came of it, and it is tried again.
    pub(crate) in_vain: bool,
    pub(crate) what: String,
}

#[derive(Debug)]
struct Record {
    orders: BTreeSet<OrderId>,
    begun: Instant,
    notes: Vec<Note>,
}

thread_local! {
    static RECORD: RefCell<Option<Record>> = const { RefCell::new(None) };
}

/// Runs this, with notes of what becomes of these orders and of what there is to sell.
pub(crate) fn taken<T>(orders: BTreeSet<OrderId>, run: impl FnOnce() -> T) -> (T, Vec<Note>) {
    RECORD.set(Some(Record { orders, begun: instant(), notes: Vec::new() }));
    let value = run();
    let notes = RECORD.take().map(|record| record.notes);
    (value, notes.unwrap_or_default())
}

/// A run begins: its times are since now.
pub(crate) fn begins() {
    RECORD.with_borrow_mut(|record| record.iter_mut().for_each(|record| record.begun = instant()));
}

/// Whether notes are taken. What is costly to put together is so only then.
pub(crate) fn is_on() -> bool {
    RECORD.with_borrow(Option::is_some)
}

/// The orders of which notes are taken.
pub(crate) fn orders() -> Vec<OrderId> {
    RECORD.with_borrow(|record| record.iter().flat_map(|record| record.orders.iter().copied()).collect())
}

/// Of an order.
pub(crate) fn note(order: OrderId, in_vain: bool, what: impl FnOnce() -> String) {
    if RECORD.with_borrow(|record| record.as_ref().is_some_and(|record| record.orders.contains(&order))) {
        add(Some(order), in_vain, what());
    }
}

/// Of what there is to sell.
pub(crate) fn note_stock(what: impl FnOnce() -> String) {
    if is_on() {
        add(None, false, what());
    }
}

fn add(order: Option<OrderId>, in_vain: bool, what: String) {
    RECORD.with_borrow_mut(|record| {
        if let Some(record) = record {
            record.notes.push(Note { at: instant() - record.begun, order, in_vain, what });
        }
    });
}
