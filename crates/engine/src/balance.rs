//! The balance of a shop's goods, set as a whole: for loads that are to find a given stock.
//!
//! A plan, no more: who asks carries it out, all of it or nothing. Must not: move a stock.

use crate::rules::rows::Rows;
use crate::{Adjust, Book, Command, Refusal, Seq, SkuId, UnitsKept, rules};

/// An item as it stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Balance {
    pub sku: SkuId,
    pub total: u64,
    /// Units that can be ordered. In a cluster the gate's, which promises units that the ledger still shows.
    pub available: u64,
    /// Available units that nobody was promised: no more can go.
    spare: u64,
    /// What can't go, where it is known.
    kept: Option<UnitsKept>,
}

impl Balance {
    /// # Panics
    /// If the book does not have it.
    pub fn of(book: &Book, sku: SkuId) -> Balance {
        let stock = book.stock(sku).expect("an item that is to have a balance has a stock");
        let spare = book.spare(sku);
        let kept = Some(UnitsKept::of(stock, spare));
        Balance { sku, total: stock.total(), available: stock.available(), spare, kept }
    }

    /// Of an item without a line, of which nobody was promised anything.
    pub fn without_line(sku: SkuId, total: u64, available: u64) -> Balance {
        Balance { sku, total, available, spare: available, kept: None }
    }
}

/// The adjustments that bring each item to this many available units, those that have them already left out. `next`: the
/// sequence number that the ledger gives next; it makes keys that were never used, and that are the same if the same is
/// asked again before anything was recorded.
///
/// # Errors
/// If one of the items can't have so many units, or so few; then none is to be moved.
pub fn plan(items: &[Balance], available: u64, next: Seq) -> Result<Vec<Command>, Refusal> {
    let mut plan = Vec::new();
    for item in items {
        let (how, units) = if available >= item.available {
            (Adjust::Restock, available - item.available)
        } else {
            (Adjust::Correct, item.available - available)
        };
        match how {
            Adjust::Restock => rules::restock(item.total, units)?,
            Adjust::Correct => rules::correct((item.spare, item.kept), units)?,
        }
        if units > 0 {
            // With a space in it, which an operator's key can't have.
            let key = format!("balance {}", next.0).into();
            plan.push(Command::Adjust { sku: item.sku, how, units, key });
        }
    }
    Ok(plan)
}
