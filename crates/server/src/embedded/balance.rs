//! The balance of a shop's goods, set as a whole: for loads that are to find a given stock.

use engine::balance::{Balance, plan};
use engine::{Book, Refusal, SaleId, UnixMs};

use crate::intake::Reply;

/// Moves each item of a sale to this many available units, all of them or none, in the batch of the caller.
pub(super) fn set_balance(book: &mut Book, now: UnixMs, sale: SaleId, available: u64) -> Reply {
    let Some(sale) = book.registry().get(sale) else { return Reply::Refused(Refusal::UnknownSale) };
    let stock = |sku| book.stock(sku).expect("a sale's SKUs have a stock");
    let items: Vec<_> = sale.skus().map(|sku| Balance::of(sku, stock(sku))).collect();
    match plan(&items, available, book.next_seq()) {
        Err(refusal) => Reply::Refused(refusal),
        Ok(plan) => {
            for adjust in plan {
                book.execute(now, adjust).expect("a plan for this very state is carried out");
            }
            Reply::BalanceSet { items: items.len() }
        }
    }
}
