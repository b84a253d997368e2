//! What `serve --demo` brings: sales that the published load commands run against as they stand, and a small
//! one for people.
//!
//! A sale that the ledger has is not changed, so that a demo can be stopped and started again.

use engine::{ItemSpec, LineTerms, Payment, ProductId, SaleId, SaleSpec, UnixMs};

/// The sale of the published order and page routes.
pub const FLASH_SALE: SaleId = SaleId(3);
/// The shop of `POST /order/submit`: its goods are sold on account, an order is paid by being placed.
pub const SHOP_SALE: SaleId = SaleId(1);

/// The sale to a line, whose places are drawn among everybody who joins soon after the start.
pub const LINE_SALE: SaleId = SaleId(4);
const JOIN_MS: u64 = 20_000;
const CLOSE_MS: u64 = 30_000;

/// Goods of the shop, and units of each; the published plan asks for 101 to 1100.
const SHOP_GOODS: std::ops::RangeInclusive<u64> = 100..=1101;
const SHOP_BALANCE: u64 = 10;
/// A demo that runs longer is started anew with another data directory.
const OPEN_MS: u64 = 365 * 24 * 3600 * 1000;

/// The demo's sales, the flash sale starting so many milliseconds from now. It comes last: the list of sales
/// shows the newest first. Where several servers sell, nothing is sold to a line.
pub fn sales(now: UnixMs, starts_in_ms: u64, payment_ms: u64, sells_alone: bool) -> Vec<SaleSpec> {
    let starts_at = now.plus(starts_in_ms);
    let line_sale = sells_alone.then(|| line_sale(starts_at.plus(JOIN_MS + CLOSE_MS), payment_ms));
    [shop(now)].into_iter().chain(line_sale).chain([flash_sale(starts_at, payment_ms)]).collect()
}

fn flash_sale(starts_at: UnixMs, payment_ms: u64) -> SaleSpec {
    SaleSpec {
        id: FLASH_SALE,
        title: "Doorbuster Friday".to_owned(),
        currency: "EUR".to_owned(),
        starts_at,
        ends_at: starts_at.plus(OPEN_MS),
        payment: Payment::WithinMs(payment_ms),
        open_holds_per_buyer_max: None,
        items: vec![
            ItemSpec {
                product: ProductId(29),
                title: "Aria 8 Plus smartphone, 64 GB".to_owned(),
                description:
                    "Two lenses, two days of battery, a screen that stays sharp in the sun. Ten million \
                              were made: take as many as you like."
                        .to_owned(),
                price: 499_900,
                list_price: 549_900,
                total: 10_000_000,
                limit: None,
                image: None,
                line: None,
            },
            ItemSpec {
                product: ProductId(30),
                title: "Nocturne wireless headphones".to_owned(),
                description: "Forty hours of music, folded flat. One hundred pairs, one for each buyer."
                    .to_owned(),
                price: 7_900,
                list_price: 24_900,
                total: 100,
                limit: Some(1),
                image: None,
                line: None,
            },
        ],
    }
}

/// One item that is sold to its line.
fn line_sale(starts_at: UnixMs, payment_ms: u64) -> SaleSpec {
    let item = ItemSpec {
        product: ProductId(31),
        title: "Tideline diving watch".to_owned(),
        description:
            "Steel, sapphire, three hundred metres deep. Fifty were made: they are sold to their line, \
                      one for each buyer, and nobody has to be fast."
                .to_owned(),
        price: 129_900,
        list_price: 129_900,
        total: 50,
        limit: Some(1),
        image: None,
        line: Some(LineTerms {
            units: 1,
            turn_ms: 120_000,
            grace_ms: 20_000,
            close_ms: CLOSE_MS,
            beacon: None,
            access: None,
        }),
    };
    SaleSpec {
        id: LINE_SALE,
        title: "The Tideline drop".to_owned(),
        items: vec![item],
        ..flash_sale(starts_at, payment_ms)
    }
}

fn shop(now: UnixMs) -> SaleSpec {
    let good = |id: u64| ItemSpec {
        product: ProductId(id),
        title: format!("Mystery parcel No. {id}"),
        description: "One of a thousand sealed parcels. Nobody remembers what is in it; few sent one back."
            .to_owned(),
        price: 100 + id,
        list_price: 100 + id,
        total: SHOP_BALANCE,
        limit: None,
        image: None,
        line: None,
    };
    SaleSpec {
        id: SHOP_SALE,
        title: "The thousand parcels".to_owned(),
        currency: "EUR".to_owned(),
        starts_at: now,
        ends_at: now.plus(OPEN_MS),
        payment: Payment::OnPlacing,
        open_holds_per_buyer_max: None,
        items: SHOP_GOODS.map(good).collect(),
    }
}

#[cfg(test)]
mod tests {
    use engine::{Book, Command};

    use super::*;

    #[test]
    fn the_demo_has_what_the_published_commands_ask_for() {
        let mut book = Book::new();
        for sale in sales(UnixMs(1_000), 0, 900_000, true) {
            book.execute(UnixMs(1_000), Command::CreateSale(sale)).unwrap();
        }
        let stock =
            |book: &Book, sale, product| book.stock(book.sku(sale, ProductId(product)).unwrap()).unwrap();
        assert_eq!(stock(&book, FLASH_SALE, 29).available(), 10_000_000);
        assert_eq!(stock(&book, FLASH_SALE, 30).available(), 100);
        assert_eq!(stock(&book, LINE_SALE, 31).available(), 50);
        book.call_due(UnixMs(20_999), 10, u32::MAX);
        let line = |book: &Book| book.line_of(book.sku(LINE_SALE, ProductId(31)).unwrap()).unwrap();
        assert_eq!(line(&book).draw.drawn(), None, "there is time to join");
        book.call_due(UnixMs(21_000), 10, u32::MAX);
        assert_eq!(line(&book).draw.drawn(), Some(0));
        assert_eq!(book.sale(SHOP_SALE).unwrap().stocks.len(), 1_002);
        let where_several_sell = sales(UnixMs(1_000), 0, 900_000, false);
        assert!(where_several_sell.iter().flat_map(|sale| &sale.items).all(|item| item.line.is_none()));
        assert!((101..=1100).all(|good| stock(&book, SHOP_SALE, good).available() == 10));
    }
}
