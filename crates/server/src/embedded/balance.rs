//! The balance of a shop's goods, set as a whole: for loads that are to find a given stock.

use engine::balance::{Balance, plan};
use engine::{Book, Refusal, SaleId, UnixMs};

use crate::intake::Reply;

/// Moves each item of a sale to this many available units, all of them or none, in the batch of the caller.
pub(super) fn set_balance(book: &mut Book, now: UnixMs, sale: SaleId, available: u64) -> Reply {
    let Some(sale) = book.registry().get(sale).filter(|sale| !sale.deleted) else {
        return Reply::Refused(Refusal::UnknownSale);
    };
    let items: Vec<_> = sale.skus().map(|sku| Balance::of(book, sku)).collect();
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

#[cfg(test)]
mod tests {
    use engine::{BuyerId, Command, ItemSpec, LineTerms, Payment, ProductId, SaleSpec, SkuId, UnitsKept};

    use super::*;

    const SALE: SaleId = SaleId(1);
    const NOW: UnixMs = UnixMs(1_000);

    fn item(product: u64, line: Option<LineTerms>) -> ItemSpec {
        ItemSpec {
            product: ProductId(product),
            title: "Shoe".to_owned(),
            description: String::new(),
            price: 1,
            list_price: 1,
            total: 5,
            limit: line.is_some().then_some(1),
            image: None,
            line,
        }
    }

    /// Two items of 5 units, of which one is sold to a line; in half an hour.
    fn book() -> Book {
        let terms = LineTerms {
            units: 1,
            turn_ms: 10_000,
            grace_ms: 0,
            close_ms: 60_000,
            beacon: None,
            access: None,
        };
        let spec = SaleSpec {
            id: SALE,
            title: "Drop".to_owned(),
            currency: "EUR".to_owned(),
            starts_at: UnixMs(1_800_000),
            ends_at: UnixMs(3_600_000),
            payment: Payment::WithinMs(60_000),
            open_holds_per_buyer_max: None,
            items: vec![item(1, None), item(2, Some(terms))],
        };
        let mut book = Book::new();
        book.execute(NOW, Command::CreateSale(spec)).unwrap();
        book
    }

    fn available(book: &Book) -> [u64; 2] {
        [0, 1].map(|sku| book.stock(SkuId(sku)).unwrap().available())
    }

    #[test]
    fn a_balance_takes_nothing_that_a_line_was_promised() {
        let (mut book, drawn) = (book(), UnixMs(1_750_000));
        for buyer in 1..=3 {
            book.execute(NOW, Command::Join { sku: SkuId(1), buyer: BuyerId(buyer) }).unwrap();
        }
        book.call_due(drawn, usize::MAX, u32::MAX);
        let refused = set_balance(&mut book, drawn, SALE, 2);
        let kept = UnitsKept { total: 5, sold: 0, held: 0, turns: 0, promised: 3 };
        let expected = Refusal::CorrectionTooLarge(Some(kept));
        assert!(matches!(refused, Reply::Refused(found) if found == expected), "{refused:?}");
        assert_eq!(available(&book), [5, 5]);
        assert!(matches!(set_balance(&mut book, drawn, SALE, 3), Reply::BalanceSet { items: 2 }));
        assert_eq!(available(&book), [3, 3]);
    }

    #[test]
    fn a_sale_that_was_deleted_has_no_balance() {
        let mut book = book();
        book.execute(NOW, Command::DeleteSale(SALE)).unwrap();
        let refused = set_balance(&mut book, NOW, SALE, 2);
        assert!(matches!(refused, Reply::Refused(Refusal::UnknownSale)), "{refused:?}");
    }
}
