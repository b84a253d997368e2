//! Taking orders in from the queue: one transaction for what one pull brought.
//!
//! The orders and how far the queues were read are committed together, so each message is taken in once, however
//! often it is delivered; and an id that is known is dropped, however the message came. The ledger is the last
//! guard: an order that its stock or the buyer's limit can't take is rejected, whatever the gate had said.

use engine::handover::{Change, Reservation};
use engine::{OrderId, OrderView, Place, Refusal, UnixMs, rules};

use super::known::Rejection;
use super::reads::Reads;
use super::session::Failure;
use super::transaction::Transaction;
use super::{LedgerError, ORDERS_MAX, SharedLedger};

/// Whether an order's numbers can stand in the ledger. A message whose numbers can't was not written by a server of
/// ours, which lets none in that is 2^63 or more: it is a dead letter.
pub fn fits(order: &Reservation) -> bool {
    [order.place.buyer.0, order.epoch].into_iter().all(|number| i64::try_from(number).is_ok())
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

/// What an order came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It is in the ledger since this call.
    Placed(OrderView),
    /// It was in the ledger before. As it was placed.
    Known(OrderView),
    /// Another order stands under this id.
    Conflict,
    /// The ledger could not take it, now or before. It stays so.
    Rejected(Rejection),
}

impl SharedLedger {
    /// Takes orders in, one after the other in the order given, and moves the queues on, in one transaction.
    /// Returns what each came to.
    ///
    /// # Errors
    /// [`LedgerError::Fenced`] if a queue is not this owner's any more, or was read from another offset. See there
    /// for the others. Nothing was taken in then, but for [`LedgerError::Unknown`].
    ///
    /// # Panics
    /// If there are more than [`ORDERS_MAX`] orders, or one does not [fit](fits).
    pub fn consume(
        &mut self,
        now: UnixMs,
        progress: &[Progress],
        orders: &[Reservation],
    ) -> Result<Vec<Outcome>, LedgerError> {
        assert!(orders.len() <= ORDERS_MAX, "a batch is bounded by whoever makes it");
        assert!(orders.iter().all(fits), "what does not fit is a dead letter");
        self.transact(now, |transaction| {
            let mut reads = Reads {
                queues: progress.iter().map(|progress| progress.queue.clone()).collect(),
                ..Reads::default()
            };
            for order in orders {
                let Place { id, buyer, .. } = order.place;
                reads.skus.insert(id.sku);
                reads.orders.insert(id);
                reads.buyers.insert((id.sku, buyer));
            }
            transaction.read(reads)?;
            for progress in progress {
                advance(transaction, progress)?;
            }
            Ok(orders.iter().map(|order| admit(transaction, order)).collect())
        })
    }
}

/// Moves a queue on, if it is still this owner's and stands where the owner has read from.
fn advance(transaction: &mut Transaction<'_>, progress: &Progress) -> Result<(), Failure> {
    let fenced = || Failure::Fenced(format!("the queue {}", progress.queue));
    assert!(progress.from <= progress.to, "a queue is read forwards");
    let state = transaction.known.queues.get_mut(&progress.queue).ok_or_else(fenced)?;
    let same_owner = (state.owner, state.generation) == (progress.owner, progress.generation);
    // At the end already: the answer to this very commit was lost, and its orders are known.
    if !same_owner || (state.next_offset != progress.from && state.next_offset != progress.to) {
        return Err(fenced());
    }
    if state.next_offset != progress.to {
        state.next_offset = progress.to;
        transaction.beside.offsets.push((progress.queue.clone(), progress.to));
    }
    Ok(())
}

/// Takes one order in, or says why not.
fn admit(transaction: &mut Transaction<'_>, order: &Reservation) -> Outcome {
    let place = &order.place;
    let rejected_before = match known(transaction, place) {
        // Another reservation under the same id, of a gate that was built since: it counts, the old answer does not.
        Some(Outcome::Rejected(rejection)) if order.epoch > rejection.epoch => Some(rejection),
        Some(known) => return known,
        None => None,
    };
    if let Err(reason) = judge(transaction, place) {
        if let Some(rejection) = rejected_before {
            return Outcome::Rejected(rejection);
        }
        return Outcome::Rejected(transaction.reject(place, order.epoch, reason));
    }
    transaction.record_placed(place, order.address.as_deref());
    let epoch = transaction.sku(place.id.sku).epoch;
    if order.epoch < epoch {
        transaction.beside.outbox.push((place.id.sku, epoch, Change::Take(*place)));
    }
    super::payments::match_early(transaction, place.id);
    Outcome::Placed(transaction.view(place.id).expect("the order was just placed").as_placed())
}

/// What an id that came before was answered with.
fn known(transaction: &Transaction<'_>, place: &Place) -> Option<Outcome> {
    let id: OrderId = place.id;
    if let Some(row) = transaction.known.orders.get(&id) {
        let same = rules::repeat((row.fingerprint, row.buyer, row.quantity), place);
        let view = transaction.view(id).expect("its row is known").as_placed();
        return Some(same.map_or(Outcome::Conflict, |()| Outcome::Known(view)));
    }
    let rejection = *transaction.known.rejections.get(&id)?;
    let same = rules::repeat((rejection.fingerprint, rejection.buyer, rejection.quantity), place);
    Some(same.map_or(Outcome::Conflict, |()| Outcome::Rejected(rejection)))
}

/// Units and limits; the window, a pause and open holds were judged before the queue.
fn judge(transaction: &mut Transaction<'_>, place: &Place) -> Result<(), Refusal> {
    let Place { id, buyer, quantity, .. } = *place;
    let terms = transaction.catalog.terms(id.sku).ok_or(Refusal::UnknownSku)?;
    rules::place(&rules::Placing {
        quantity,
        limit: terms.limit,
        units: transaction.units_of(id.sku, buyer),
        open_holds: None,
        available: transaction.sku(id.sku).stock.available(),
    })
}
