//! Taking orders in from the queue: one transaction for what one pull brought.
//!
//! The orders and how far the queues were read are committed together, so each message is taken in once, however
//! often it is delivered; and an id that is known is dropped, however the message came. The ledger is the last
//! guard: an order that its stock or the buyer's limit can't take is rejected, whatever the gate had said.

use engine::handover::Reservation;
use engine::working_set::{Needs, Outcome};
use engine::{OrderId, Refusal, UnixMs};

use super::session::Failure;
use super::transaction::Transaction;
use super::{LedgerError, ORDERS_MAX, SharedLedger};
use crate::ledger::BUYER_BYTES_MAX;

/// Whether an order can stand in the ledger. A message that can't was not written by a server of ours, which lets no
/// number in that is 2^63 or more, and no hash without its text: it is a dead letter.
pub fn fits(order: &Reservation) -> bool {
    let buyer = order.placement.buyer;
    let named = match &order.buyer_text {
        Some(text) => buyer.is_hash() && (1..=BUYER_BYTES_MAX).contains(&text.len()),
        None => buyer.number().is_some(),
    };
    named && i64::try_from(order.epoch).is_ok()
}

/// How far a queue was read by these orders: messages from `from` up to, not including, `to`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Progress {
    pub queue: String,
    pub owner: u64,
    /// Of the owner's lease, from [`super::Assignment`].
    pub generation: u64,
    pub from: u64,
    pub to: u64,
}

impl SharedLedger {
    /// As [`SharedLedger::consume_asking`], of orders of the epoch that there is.
    ///
    /// # Errors
    /// See there.
    ///
    /// # Panics
    /// See there; and if one is of an older epoch, and new to the ledger.
    pub fn consume(
        &mut self,
        now: UnixMs,
        progress: &[Progress],
        orders: &[Reservation],
    ) -> Result<Vec<Outcome>, LedgerError> {
        let consumed = self.consume_asking(now, progress, orders, |_| None)?;
        Ok(consumed.expect("the gate is not asked"))
    }

    /// Takes orders in, one after the other in the order given, and moves the queues on, in one transaction.
    /// Returns what each came to; or those of an older epoch of which the gate must be asked first: then nothing was taken in.
    /// `refused`: why it has refused one.
    ///
    /// # Errors
    /// [`LedgerError::Fenced`] if a queue is not this owner's any more, or was read from another offset. See there
    /// for the others. Nothing was taken in then, but for [`LedgerError::Unknown`].
    ///
    /// # Panics
    /// If there are more than [`ORDERS_MAX`] orders, or one does not [fit](fits).
    pub fn consume_asking(
        &mut self,
        now: UnixMs,
        progress: &[Progress],
        orders: &[Reservation],
        refused: impl Fn(OrderId) -> Option<Refusal>,
    ) -> Result<Result<Vec<Outcome>, Vec<OrderId>>, LedgerError> {
        assert!(orders.len() <= ORDERS_MAX, "a batch is bounded by whoever makes it");
        assert!(orders.iter().all(fits), "what does not fit is a dead letter");
        self.transact(now, |transaction| {
            let queues = progress.iter().map(|progress| progress.queue.clone()).collect();
            transaction.read_with_queues(Needs::of_orders(orders), queues)?;
            for progress in progress {
                advance(transaction, progress)?;
            }
            Ok(transaction.set.admit_all(orders, &refused))
        })
    }
}

/// Moves a queue on, if it is still this owner's and stands where the owner has read from.
fn advance(transaction: &mut Transaction<'_>, progress: &Progress) -> Result<(), Failure> {
    let fenced = || Failure::Fenced(format!("the queue {}", progress.queue));
    assert!(progress.from <= progress.to, "a queue is read forwards");
    let state = transaction.queues.get_mut(&progress.queue).ok_or_else(fenced)?;
    let same_owner = (state.owner, state.generation) == (progress.owner, progress.generation);
    // At the end already: the answer to this very commit was lost, and its orders are known.
    if !same_owner || (state.next_offset != progress.from && state.next_offset != progress.to) {
        return Err(fenced());
    }
    if state.next_offset != progress.to {
        state.next_offset = progress.to;
        transaction.offsets.push((progress.queue.clone(), progress.to));
    }
    Ok(())
}
