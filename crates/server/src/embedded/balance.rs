//! The balance of a shop's goods, set as a whole: for loads that are to find a given stock.

use engine::{Adjust, Book, Command, Refusal, SaleId, Stock, UnixMs};

use crate::intake::Reply;

/// Moves each item of a sale to this many available units, each by an adjustment with a key of its own: it
/// has a space in it, which an operator's key can't have.
pub(super) fn set_balance(book: &mut Book, now: UnixMs, sale: SaleId, balance: u64) -> Reply {
    let Some(view) = book.sale(sale) else { return Reply::Refused(Refusal::UnknownSale) };
    let first = view.first_sku.0;
    let stocks: Vec<Stock> = view.stocks.clone();
    let items = stocks.len();
    // All or none: the moves below cannot be refused after this.
    if stocks
        .iter()
        .any(|stock| balance.saturating_add(stock.held() + stock.sold()) > engine::limits::TOTAL_MAX)
    {
        return Reply::Refused(Refusal::InvalidChange("an item may have at most 1,000,000,000,000 units"));
    }
    for (sku, stock) in (first..).zip(stocks) {
        let (how, units) = if balance >= stock.available() {
            (Adjust::Restock, balance - stock.available())
        } else {
            (Adjust::Correct, stock.available() - balance)
        };
        if units > 0 {
            let key = format!("balance {}", book.next_seq().0).into();
            let adjust = Command::Adjust { sku: engine::SkuId(sku), how, units, key };
            if let Err(refusal) = book.execute(now, adjust) {
                return Reply::Refused(refusal);
            }
        }
    }
    Reply::BalanceSet { items }
}
