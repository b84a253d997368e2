//! A SKU as a new gate is built from it, under a new epoch.
//!
//! The epoch is raised under the writer's lock, which fixes the stock and the number of the latest entry. The marks
//! are read later, in portions and without a lock, as they were at that entry: the ledger is append-only, so what
//! came since is known by its number and left out. That comes to the gate by the outbox, under the new epoch.

use engine::handover::{Mark, MarkState};
use engine::working_set::{Needs, Rejection};
use engine::{Closing, Fingerprint, OrderId, Placement, Seq, SkuId, Stock, UnixMs};
use mysql::from_row_opt;

use super::reads::rejection_row;
use super::session::Failure;
use super::{ClusterLedger, LedgerError, SharedLedger};
use crate::ledger::mysql::sql::{hex, id_bytes, id_of, unsigned};
use crate::ledger::rows::{self as codes, closing};

/// A SKU whose epoch was raised, as it was at that entry of the ledger.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Raised {
    pub sku: SkuId,
    /// Under which the gate is to be built.
    pub epoch: u64,
    /// The latest entry that is in it.
    pub seq: Seq,
    pub stock: Stock,
    /// That it has had, each with a mark.
    pub orders: u64,
    pub limit: Option<u32>,
}

/// A mark, and what it does not say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LedgerMark {
    pub mark: Mark,
    /// When its hold was cancelled or expired, whatever came then.
    pub returned_at: Option<UnixMs>,
}

/// All marks of a SKU at that entry, or of several with numbers in a row, portion by portion. It keeps its place, so a
/// portion that failed can be asked for again.
#[derive(Clone, Debug)]
pub struct Marks {
    next: MarksAsked,
    done: bool,
}

/// One portion of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MarksAsked {
    pub first: SkuId,
    pub last: SkuId,
    /// At this entry: what came later is left out of the marks, and counts to the portion.
    pub seq: Seq,
    /// In the order of their ids, behind this one, at most so many.
    pub after: Option<OrderId>,
    pub portion: usize,
    /// Of rejections that no order followed, not of orders.
    pub rejections: bool,
}

impl Raised {
    /// Its marks, at most so many at a time.
    pub fn marks(&self, portion: usize) -> Marks {
        Marks::of_run(std::slice::from_ref(self), portion)
    }
}

impl Marks {
    /// Of SKUs with numbers in a row, raised in one transaction.
    ///
    /// # Panics
    /// If there is none, or a portion is to be empty.
    pub fn of_run(run: &[Raised], portion: usize) -> Marks {
        assert!(portion > 0, "a portion of nothing never ends");
        let (first, last) = (&run[0], &run[run.len() - 1]);
        let (first, last, seq) = (first.sku, last.sku, first.seq);
        let next = MarksAsked { first, last, seq, portion, rejections: false, after: None };
        Marks { next, done: false }
    }

    /// The next portion, which may be empty; `None`: there are no more.
    ///
    /// # Errors
    /// See [`LedgerError`].
    pub fn next(&mut self, ledger: &mut dyn ClusterLedger) -> Result<Option<Vec<LedgerMark>>, LedgerError> {
        if self.done {
            return Ok(None);
        }
        let found = ledger.marks(&self.next)?;
        if found.len() < self.next.portion {
            self.done = self.next.rejections;
            self.next.rejections = true;
            self.next.after = None;
        } else {
            self.next.after = found.last().map(|(id, _)| *id);
        }
        Ok(Some(found.into_iter().filter_map(|(_, mark)| mark).collect()))
    }
}

impl MarksAsked {
    /// The ids that come next: the primary key begins with the SKU.
    fn range(&self) -> String {
        let mut text = "id >".to_owned();
        match self.after {
            Some(after) => hex(&mut text, &id_bytes(after)),
            None => {
                text.push('=');
                hex(&mut text, &id_bytes(OrderId { sku: self.first, hash: 0 }));
            }
        }
        text.push_str(" AND id <= ");
        hex(&mut text, &id_bytes(OrderId { sku: self.last, hash: u128::MAX }));
        format!("{text} ORDER BY id LIMIT {}", self.portion)
    }

    fn orders_query(&self) -> String {
        let (range, seq) = (self.range(), self.seq.0);
        format!(
            "SELECT i.id, o.seq, o.buyer, o.buyer_high, o.quantity, o.fingerprint, t1.kind, t1.at, t2.kind \
             FROM (SELECT id, order_seq FROM order_ids WHERE {range}) AS i \
             STRAIGHT_JOIN orders AS o ON o.seq = i.order_seq \
             LEFT JOIN transitions AS t1 ON t1.order_seq = o.seq AND t1.step = 1 AND t1.seq <= {seq} \
             LEFT JOIN transitions AS t2 ON t2.order_seq = o.seq AND t2.step = 2 AND t2.seq <= {seq} \
             ORDER BY i.id"
        )
    }

    fn rejections_query(&self) -> String {
        let range = self.range();
        format!(
            "SELECT id, at, buyer, buyer_high, quantity, fingerprint, epoch, reason FROM rejections \
             WHERE NOT EXISTS (SELECT 1 FROM order_ids WHERE order_ids.id = rejections.id) AND {range}"
        )
    }
}

/// A place in the order of ids, and its mark if it belongs to the snapshot.
pub type Placed = (OrderId, Option<LedgerMark>);

fn order_mark(as_of: Seq, row: mysql::Row) -> Result<Placed, Failure> {
    type Columns = (Vec<u8>, i64, i64, Option<i64>, u32, i64, Option<u8>, Option<i64>, Option<u8>);
    let (id, seq, low, high, quantity, fingerprint, first, first_at, second): Columns = from_row_opt(row)?;
    let id = id_of(&id).ok_or_else(|| Failure::Damaged("an order's id".to_owned()))?;
    let returned = first.and_then(closing).is_some_and(Closing::returns_units);
    let returned_at = first_at.filter(|_| returned).map(|at| UnixMs(unsigned(at)));
    // A second transition is a late payment: it has its units again.
    let state = if returned && second.is_none() { MarkState::Returned } else { MarkState::Sold };
    let (buyer, fingerprint) = (codes::buyer(low, high)?, Fingerprint(unsigned(fingerprint)));
    let mark = Mark { placement: Placement { id, buyer, quantity, fingerprint }, state };
    Ok((id, (unsigned(seq) <= as_of.0).then_some(LedgerMark { mark, returned_at })))
}

fn rejected(row: mysql::Row) -> Result<Placed, Failure> {
    let (id, Rejection { buyer, quantity, fingerprint, .. }) = rejection_row(row)?;
    let placement = Placement { id, buyer, quantity, fingerprint };
    let mark = Mark { placement, state: MarkState::RejectedReturned };
    Ok((id, Some(LedgerMark { mark, returned_at: None })))
}

impl SharedLedger {
    pub(super) fn mark_portion(&mut self, asked: &MarksAsked) -> Result<Vec<Placed>, LedgerError> {
        if asked.rejections {
            return self.select(asked.rejections_query(), rejected);
        }
        let seq = asked.seq;
        self.select(asked.orders_query(), move |row| order_mark(seq, row))
    }

    /// Raises the epochs of SKUs' gates in one transaction, and gives the states from which the new ones are to be
    /// built, in the order of their numbers. Raising one once more, because the answer was lost, does no harm. A SKU that
    /// there is not is left out.
    ///
    /// # Errors
    /// See [`LedgerError`].
    pub fn raise_epochs(&mut self, skus: &[SkuId]) -> Result<Vec<Raised>, LedgerError> {
        self.transact(UnixMs(0), |transaction| {
            transaction.read(Needs::of_skus(skus.iter().copied()))?;
            let set = &mut transaction.set;
            let seq = Seq(set.next_seq().0 - 1);
            let mut raised = Vec::with_capacity(skus.len());
            for sku in skus {
                let Some(epoch) = set.raise_epoch(*sku) else { continue };
                let stock = set.stock(*sku).expect("it has an epoch");
                let orders = set.orders(*sku).expect("it has an epoch");
                let limit = set.sales().terms(*sku).and_then(|terms| terms.limit);
                raised.push(Raised { sku: *sku, epoch, seq, stock, orders, limit });
            }
            Ok(raised)
        })
    }
}
