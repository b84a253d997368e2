//! What operators do: describing and changing a sale, pausing and ending it, moving its stock.

use engine::{Command, ItemChange, Payment, ProductId, SaleChange, SaleId, SaleSpec, SkuId, UnixMs, limits};

use crate::shop::{
    Do, END, HOLD, PRICE, SALE, START, Script, Shop, cancel, change, change_item, check, correct,
    correct_clock, create, delete, end, expire, item, limited, pause, pay, place, restock, resume, sale_of,
};

/// In milliseconds since 1970.
const YEAR_9999_ENDS: u64 = 253_402_300_799_999;

/// How to bend a description, and what comes of it.
type Row<'a> = (&'a str, &'a dyn Fn(&mut SaleSpec), &'a str);

#[test]
fn a_description_has_bounds() {
    let day = 24 * 3600 * 1000;
    let rows: [Row<'_>; 34] = [
        ("as it is", &|_| (), "sale"),
        ("no title", &|spec| spec.title.clear(), "invalid_sale"),
        ("longest title", &|spec| spec.title = "t".repeat(200), "sale"),
        ("longer title", &|spec| spec.title = "t".repeat(201), "invalid_sale"),
        ("no currency", &|spec| spec.currency.clear(), "invalid_sale"),
        ("small currency", &|spec| spec.currency = "eur".to_owned(), "invalid_sale"),
        ("long currency", &|spec| spec.currency = "EURO".to_owned(), "invalid_sale"),
        ("three bytes that are one letter", &|spec| spec.currency = "\u{20ac}".to_owned(), "invalid_sale"),
        ("one moment", &|spec| spec.ends_at = UnixMs(START + 1), "sale"),
        ("no moment", &|spec| spec.ends_at = UnixMs(START), "invalid_sale"),
        ("back in time", &|spec| spec.ends_at = UnixMs(START - 1), "invalid_sale"),
        ("all of time", &|spec| (spec.starts_at, spec.ends_at) = (UnixMs(0), UnixMs(YEAR_9999_ENDS)), "sale"),
        ("the year 10000", &|spec| spec.ends_at = UnixMs(YEAR_9999_ENDS + 1), "invalid_sale"),
        (
            "never",
            &|spec| (spec.starts_at, spec.ends_at) = (UnixMs(u64::MAX - 1), UnixMs(u64::MAX)),
            "invalid_sale",
        ),
        ("no payment time", &|spec| spec.payment = Payment::WithinMs(0), "invalid_sale"),
        ("30 days", &|spec| spec.payment = Payment::WithinMs(30 * day), "sale"),
        ("more than 30 days", &|spec| spec.payment = Payment::WithinMs(30 * day + 1), "invalid_sale"),
        ("no holds", &|spec| spec.open_holds_per_buyer_max = Some(0), "invalid_sale"),
        ("many holds", &|spec| spec.open_holds_per_buyer_max = Some(u32::MAX), "sale"),
        ("no items", &|spec| spec.items.clear(), "invalid_sale"),
        ("most items", &|spec| set_items(spec, limits::ITEMS_MAX), "sale"),
        ("more items", &|spec| set_items(spec, limits::ITEMS_MAX + 1), "invalid_sale"),
        ("a product twice", &|spec| spec.items.push(spec.items[0].clone()), "invalid_sale"),
        ("an item without a title", &|spec| spec.items[0].title.clear(), "invalid_sale"),
        ("an item's long title", &|spec| spec.items[0].title = "t".repeat(201), "invalid_sale"),
        ("longest description", &|spec| spec.items[0].description = "d".repeat(2_000), "sale"),
        ("longer description", &|spec| spec.items[0].description = "d".repeat(2_001), "invalid_sale"),
        ("dearest", &|spec| spec.items[0].price = limits::PRICE_MAX, "sale"),
        ("dearer", &|spec| spec.items[0].price = limits::PRICE_MAX + 1, "invalid_sale"),
        ("dearer before", &|spec| spec.items[0].list_price = u64::MAX, "invalid_sale"),
        ("too many units", &|spec| spec.items[0].total = limits::TOTAL_MAX + 1, "invalid_sale"),
        ("no limit at all", &|spec| spec.items[0].limit = Some(0), "invalid_sale"),
        ("highest limit", &|spec| spec.items[0].limit = Some(limits::QUANTITY_MAX), "sale"),
        ("higher limit", &|spec| spec.items[0].limit = Some(limits::QUANTITY_MAX + 1), "invalid_sale"),
    ];
    for (name, bend, outcome) in rows {
        let mut spec = sale_of(5);
        bend(&mut spec);
        let mut shop = Shop::default();
        assert_eq!(shop.run(0, create(spec)), outcome, "{name}");
        assert_eq!(shop.ledger.len(), usize::from(outcome == "sale"), "{name}");
        assert_eq!(shop.book.sales().count(), usize::from(outcome == "sale"), "{name}");
    }
}

/// What a change says of an item, by the item's place in the change; what it leaves is asked nothing.
#[test]
fn a_refusal_names_the_item_and_its_field() {
    let mut spec = sale_of(5);
    set_items(&mut spec, 4);
    let rows: [Row<'_>; 12] = [
        ("title", &|spec| spec.title = " \u{200b}".to_owned(), "title: nothing visible"),
        (
            "direction",
            &|spec| spec.title = "\u{202e}x".to_owned(),
            "title: control characters, or characters that turn the direction of text",
        ),
        ("unseen", &|spec| spec.items[3].title = "\u{200e}".to_owned(), "items[3].title: nothing visible"),
        ("mark", &|spec| spec.items[0].title = "\u{301}".to_owned(), "items[0].title: nothing visible"),
        ("empty", &|spec| spec.items[1].title.clear(), "items[1].title: it must have 1 to 200 bytes"),
        (
            "cursor",
            &|spec| spec.items[2].description = "a\n\u{1b}[2J".to_owned(),
            "items[2].description: control characters, or characters that turn the direction of text",
        ),
        (
            "long",
            &|spec| spec.items[2].description = "d".repeat(2_001),
            "items[2].description: it may have at most 2,000 bytes",
        ),
        (
            "dearer",
            &|spec| spec.items[3].price = u64::MAX,
            "items[3].price: a price may be at most 1,000,000,000,000 minor units",
        ),
        (
            "dearer before",
            &|spec| spec.items[3].list_price = u64::MAX,
            "items[3].list_price: a price may be at most 1,000,000,000,000 minor units",
        ),
        (
            "units",
            &|spec| spec.items[1].total = u64::MAX,
            "items[1].total: an item may have at most 1,000,000,000,000 units",
        ),
        ("limit", &|spec| spec.items[1].limit = Some(0), "items[1].limit: it must be 1 to 1,000,000 units"),
        (
            "twice",
            &|spec| spec.items[3].product = ProductId(1),
            "items[3].product: a product may stand in a sale only once",
        ),
    ];
    for (name, bend, said) in rows {
        let mut bent = spec.clone();
        bend(&mut bent);
        let refusal = Shop::default().book.execute(UnixMs(0), Command::CreateSale(bent)).unwrap_err();
        assert_eq!((refusal.code(), refusal.to_string().as_str()), ("invalid_sale", said), "{name}");
    }
    let of = |product, title: &str| ItemChange {
        product: ProductId(product),
        title: Some(title.to_owned()),
        ..item()
    };
    let mut shop = Shop::with(spec);
    for (title, said) in
        [("\u{200b}", "items[1].title: nothing visible"), ("", "items[1].title: it must have 1 to 200 bytes")]
    {
        let items = vec![of(2, "Boot"), of(3, title)];
        let what = Command::ChangeSale { sale: SALE, change: SaleChange { items, ..SaleChange::default() } };
        assert_eq!(shop.book.execute(UnixMs(0), what).unwrap_err().to_string(), said);
    }
    assert_eq!(shop.run(0, change_item(of(3, "Boot"))), "sale");
}

fn set_items(spec: &mut SaleSpec, len: usize) {
    let item = spec.items[0].clone();
    spec.items = (0..len as u64)
        .map(|product| engine::ItemSpec { product: ProductId(product), ..item.clone() })
        .collect();
}

#[test]
fn creating_the_same_sale_again_is_answered_and_another_is_refused() {
    let mut dearer = sale_of(5);
    dearer.items[0].price += 1;
    let renamed = SaleChange { title: Some("New".to_owned()), ..SaleChange::default() };
    let script = [
        (0, create(sale_of(5)), "sale"),
        (0, create(dearer), "sale_exists"),
        (START, place(1, 1, 1), "held"),
        (START, end(), "sale"),
        (END, create(sale_of(5)), "sale"),
    ];
    check("again", sale_of(5), &script, [5, 4, 1, 0]);
    let script = [(0, change(renamed), "sale"), (0, create(sale_of(5)), "sale_exists")];
    check("changed", sale_of(5), &script, [5, 5, 0, 0]);
}

#[test]
fn skus_are_numbered_over_all_sales() {
    let mut shop = Shop::with(sale_of(5));
    let mut second = sale_of(7);
    second.id = SaleId(1);
    set_items(&mut second, 3);
    assert_eq!(shop.run(0, create(second)), "sale");
    for (sale, product, sku) in
        [(SALE, 29, Some(0)), (SaleId(1), 0, Some(1)), (SaleId(1), 2, Some(3)), (SALE, 0, None)]
    {
        assert_eq!(shop.book.sku(sale, ProductId(product)), sku.map(SkuId), "{sale:?} {product}");
    }
    assert_eq!(shop.book.stock(SkuId(3)).unwrap().total(), 7);
    assert_eq!(shop.book.stock(SkuId(4)), None);
    let ids: Vec<_> = shop.book.sales().map(|sale| (sale.spec.id, sale.first_sku.0)).collect();
    assert_eq!(ids, [(SALE, 0), (SaleId(1), 1)]);
    assert_eq!(shop.book.sale(SaleId(1)).unwrap().stocks.len(), 3);
    shop.assert_sound();
}

fn starts(at: u64) -> SaleChange {
    SaleChange { starts_at: Some(UnixMs(at)), ..SaleChange::default() }
}

fn ends(at: u64) -> SaleChange {
    SaleChange { ends_at: Some(UnixMs(at)), ..SaleChange::default() }
}

fn pays_within(ms: u64) -> SaleChange {
    SaleChange { payment_ms: Some(ms), ..SaleChange::default() }
}

#[test]
fn a_sale_changes_within_its_rules() {
    let title = |title: &str| SaleChange { title: Some(title.to_owned()), ..SaleChange::default() };
    let rows = [
        ("nothing", START, SaleChange::default(), "sale"),
        ("a title", START, title("New"), "sale"),
        ("no title", START, title(""), "invalid_sale"),
        ("a title that turns its direction", START, title("\u{202e}x"), "invalid_sale"),
        ("earlier", START - 2, starts(START - 1), "sale"),
        ("at once", START - 2, starts(START - 2), "sale"),
        ("later", START - 1, starts(END - 1), "sale"),
        ("as late as the end", START - 1, starts(END), "invalid_sale"),
        ("the start of a sale that has started", START, starts(START + 1), "invalid_change"),
        ("a longer sale", END - 1, ends(END + 1), "sale"),
        ("until the year 9999 ends", END - 1, ends(YEAR_9999_ENDS), "sale"),
        ("until the year 10000", END - 1, ends(YEAR_9999_ENDS + 1), "invalid_sale"),
        (
            "from the year 10000",
            0,
            SaleChange { ends_at: Some(UnixMs(u64::MAX)), ..starts(YEAR_9999_ENDS + 1) },
            "invalid_sale",
        ),
        ("a shorter sale", START, ends(START + 1), "sale"),
        ("an end that is now", START + 5, ends(START + 5), "invalid_change"),
        ("an end before the start", START - 5, ends(START - 1), "invalid_sale"),
        ("a title after the end", END, title("New"), "ended"),
        ("more time after the end", END, ends(END + 1), "sale"),
        ("no time after the end", END, ends(END), "invalid_change"),
        ("another payment time", START, pays_within(1), "sale"),
        ("no payment time", START, pays_within(0), "invalid_sale"),
        ("too long a payment time", START, pays_within(u64::MAX), "invalid_sale"),
    ];
    for (name, at, what, outcome) in rows {
        check(name, sale_of(5), &[(at, change(what), outcome)], [5, 5, 0, 0]);
    }
    let mut on_placing = sale_of(5);
    on_placing.payment = Payment::OnPlacing;
    check("on placing", on_placing, &[(0, change(pays_within(1)), "invalid_change")], [5, 5, 0, 0]);
}

#[test]
fn an_item_changes_until_the_start() {
    let title = |title: &str| ItemChange { title: Some(title.to_owned()), ..item() };
    let description = |text: &str| ItemChange { description: Some(text.to_owned()), ..item() };
    let price = |price| ItemChange { price: Some(price), ..item() };
    let limit = |limit| ItemChange { limit: Some(limit), ..item() };
    let rows = [
        ("nothing", START - 1, item(), "sale"),
        ("at the start", START, item(), "sale_started"),
        ("after the end", END, price(1), "ended"),
        ("no title", 0, title(""), "invalid_sale"),
        ("a long title", 0, title(&"t".repeat(201)), "invalid_sale"),
        ("a title that turns its direction", 0, title("\u{202e}x"), "invalid_sale"),
        ("two lines of description", 0, description("a\nb"), "sale"),
        ("longest description", 0, description(&"d".repeat(2_000)), "sale"),
        ("longer description", 0, description(&"d".repeat(2_001)), "invalid_sale"),
        ("a description that moves a cursor", 0, description("\u{1b}[2J"), "invalid_sale"),
        ("a gift", 0, price(0), "sale"),
        ("dearer", 0, price(limits::PRICE_MAX + 1), "invalid_sale"),
        ("dearer before", 0, ItemChange { list_price: Some(u64::MAX), ..item() }, "invalid_sale"),
        ("no unit for anybody", 0, limit(Some(0)), "invalid_sale"),
        ("higher limit", 0, limit(Some(limits::QUANTITY_MAX + 1)), "invalid_sale"),
        ("no limit", 0, limit(None), "sale"),
        ("another product", 0, ItemChange { product: ProductId(1), ..item() }, "unknown_sku"),
    ];
    for (name, at, what, outcome) in rows {
        check(name, sale_of(5), &[(at, change_item(what), outcome)], [5, 5, 0, 0]);
    }
    let twice = SaleChange { items: vec![item(), item()], ..SaleChange::default() };
    check("twice", sale_of(5), &[(0, change(twice), "invalid_change")], [5, 5, 0, 0]);
}

#[test]
fn orders_are_on_the_terms_of_the_last_change() {
    let changed = ItemChange { price: Some(PRICE * 2), limit: Some(Some(2)), ..item() };
    let script = [
        (0, change_item(changed), "sale"),
        (START, place(1, 1, 3), "over_limit"),
        (START, place(1, 1, 2), "held"),
        (START, pay("p", 1, 2), "due: amount_differs"),
        (START, pay("q", 1, 4), "applied"),
        (START, place(2, 1, 1), "over_limit"),
    ];
    check("dearer", sale_of(5), &script, [5, 3, 0, 2]);
    let script = [
        (0, change_item(ItemChange { limit: Some(None), ..item() }), "sale"),
        (START, place(1, 1, 5), "held"),
        (START + HOLD, expire(9), "1 expired"),
    ];
    check("no limit any more", limited(5, 1), &script, [5, 5, 0, 0]);
}

/// The clock was wrong: what was ordered stays ordered, on its terms.
#[test]
fn a_sale_that_sold_before_the_clock_was_set_back_stays_as_it_is() {
    let script = [
        (START, place(1, 1, 1), "held"),
        (START, correct_clock(0), "corrected"),
        (0, change_item(item()), "sale_started"),
        (0, delete(), "sale_started"),
        (0, cancel(1, 1), "cancelled"),
        (0, change_item(item()), "sale_started"),
        (0, delete(), "sale_started"),
        (0, change(starts(5)), "sale"),
    ];
    check("set back", sale_of(5), &script, [5, 5, 0, 0]);
}

#[test]
fn a_sale_is_deleted_before_its_start_and_never_again() {
    let sold_nothing = [5, 5, 0, 0];
    let script = [
        (START - 1, delete(), "sale"),
        (START - 1, delete(), "sale"),
        (START - 1, create(sale_of(5)), "sale_exists"),
        (START - 1, change(starts(START + 1)), "unknown_sale"),
        (START - 1, pause(), "unknown_sale"),
        (START - 1, resume(), "unknown_sale"),
        (START - 1, end(), "unknown_sale"),
        (START - 1, restock("a", 1), "unknown_sku"),
        (START - 1, correct("a", 1), "unknown_sku"),
        (START, place(1, 1, 1), "ended"),
        // The answer that was lost is asked for whenever.
        (END, delete(), "sale"),
        // Nobody was given an order's number, and yet a payment names one: it is kept, and to be refunded.
        (END, pay("p", 1, 1), "due: unknown_order"),
    ];
    check("deleted", sale_of(5), &script, sold_nothing);
    let mut shop = Shop::with(sale_of(5));
    script.iter().for_each(|(at, what, _)| drop(shop.run(*at, what.clone())));
    assert_eq!(shop.ledger.len(), 3, "created, deleted, and the payment");
    for (name, at, before) in [("at the start", START, None), ("over", END, None), ("ended", 0, Some(end()))]
    {
        let mut shop = Shop::with(sale_of(5));
        let outcome = if before.is_some() { "sale" } else { "sale_started" };
        before.into_iter().for_each(|before| assert_eq!(shop.run(at, before), "sale"));
        assert_eq!(shop.run(at, delete()), outcome, "{name}");
    }
}

#[test]
fn a_change_holds_from_then_on() {
    let script = [
        (0, change(starts(START - 10)), "sale"),
        (START - 11, place(1, 1, 1), "not_started"),
        (START - 10, place(1, 1, 1), "held"),
        (START, change(ends(END + 1)), "sale"),
        (END, place(2, 1, 1), "held"),
        (END, change(pays_within(HOLD * 3)), "sale"),
        (END, place(3, 1, 1), "held"),
        // The orders from before keep the payment time that they were placed with.
        (END + HOLD, expire(9), "2 expired"),
        (END + HOLD * 3 - 1, expire(9), "0 expired"),
        (END + HOLD * 3, expire(9), "1 expired"),
    ];
    check("changes", sale_of(5), &script, [5, 5, 0, 0]);
}

#[test]
fn pausing_resuming_and_ending_twice_changes_nothing_more() {
    let rows: [(&str, Script<'_>, usize); 6] = [
        ("pause", &[(0, pause(), "sale"), (0, pause(), "sale")], 1),
        ("resume what runs", &[(0, resume(), "sale")], 0),
        ("pause and resume", &[(0, pause(), "sale"), (0, resume(), "sale"), (0, resume(), "sale")], 2),
        ("end", &[(START, end(), "sale"), (START, end(), "sale"), (START, resume(), "ended")], 1),
        ("end what is over", &[(END, pause(), "ended"), (END, end(), "sale")], 1),
        (
            "no more time for what was ended",
            &[(START, end(), "sale"), (END, change(ends(END + 9)), "ended")],
            1,
        ),
    ];
    for (name, script, events) in rows {
        check(name, sale_of(5), script, [5, 5, 0, 0]);
        let mut shop = Shop::with(sale_of(5));
        script.iter().for_each(|(at, what, _)| drop(shop.run(*at, what.clone())));
        assert_eq!(shop.ledger.len(), 1 + events, "{name}");
    }
}

#[test]
fn what_does_not_exist_is_refused() {
    let mut shop = Shop::with(sale_of(5));
    let ghost = SaleId(99);
    let rows = [
        (Command::Pause(ghost), "unknown_sale"),
        (Command::Resume(ghost), "unknown_sale"),
        (Command::End(ghost), "unknown_sale"),
        (Command::DeleteSale(ghost), "unknown_sale"),
        (Command::ChangeSale { sale: ghost, change: SaleChange::default() }, "unknown_sale"),
        (
            Command::Adjust { sku: SkuId(1), how: engine::Adjust::Restock, units: 1, key: "a".into() },
            "unknown_sku",
        ),
        (
            Command::Place(engine::Placement {
                id: engine::OrderId { sku: SkuId(u32::MAX), hash: 1 },
                ..crate::shop::request(1, 1, 1)
            }),
            "unknown_sku",
        ),
    ];
    for (command, outcome) in rows {
        assert_eq!(shop.run(START, Do::Command(command.clone())), outcome, "{command:?}");
    }
    assert_eq!(shop.ledger.len(), 1);
}

#[test]
fn a_correction_goes_down_to_what_is_held_and_sold() {
    let t = START;
    let script = [
        (t, place(1, 1, 1), "held"),
        (t, place(2, 1, 2), "held"),
        (t, pay("p", 2, 2), "applied"),
        (t, correct("a", 3), "correction_too_large"),
        // A refusal does not bind the key.
        (t, correct("a", 2), "stock"),
        (t, correct("b", 1), "correction_too_large"),
        (t, place(3, 2, 1), "sold_out"),
        (t, cancel(1, 1), "cancelled"),
        (t, correct("b", 1), "stock"),
        (t, correct("c", 1), "correction_too_large"),
    ];
    check("down", sale_of(5), &script, [2, 0, 0, 2]);
}

#[test]
fn an_adjustment_is_made_once_per_key() {
    let longest = "k".repeat(limits::KEY_BYTES_MAX);
    let too_long = "k".repeat(limits::KEY_BYTES_MAX + 1);
    let script = [
        (0, restock("a", 2), "stock"),
        (0, restock("a", 2), "stock"),
        (0, restock("a", 3), "key_conflict"),
        (0, correct("a", 2), "key_conflict"),
        (0, restock("", 1), "invalid_change"),
        (0, restock(&too_long, 1), "invalid_change"),
        (0, restock(&longest, 1), "stock"),
        (0, restock("b", 0), "invalid_change"),
        (0, correct("b", 0), "invalid_change"),
        (0, correct("b", 4), "stock"),
        (0, correct("b", 4), "stock"),
        // Both directions are open in any phase: units are counted when they are counted.
        (END, end(), "sale"),
        (END, restock("c", 1), "stock"),
    ];
    check("keys", sale_of(5), &script, [5, 5, 0, 0]);
}

#[test]
fn a_restock_goes_up_to_the_bound() {
    let script = [
        (0, restock("a", limits::TOTAL_MAX), "invalid_change"),
        (0, restock("a", u64::MAX), "invalid_change"),
        (0, restock("a", limits::TOTAL_MAX - 1), "stock"),
        (0, restock("b", 1), "invalid_change"),
        (START, place(1, 1, 1), "held"),
        (START, restock("b", 1), "invalid_change"),
    ];
    check("up", sale_of(1), &script, [limits::TOTAL_MAX, limits::TOTAL_MAX - 1, 1, 0]);
}

#[test]
fn a_restock_sells_again() {
    let script = [
        (START, place(1, 1, 1), "held"),
        (START, place(2, 2, 1), "sold_out"),
        (START, restock("a", 1), "stock"),
        (START, place(2, 2, 1), "held"),
        (START, place(3, 3, 1), "sold_out"),
    ];
    check("again", sale_of(1), &script, [2, 0, 2, 0]);
}

#[test]
fn touched_skus_are_listed_once_with_their_stock() {
    let mut shop = Shop::with(sale_of(5));
    let mut second = sale_of(7);
    second.id = SaleId(1);
    shop.run(0, create(second));
    let touched = |shop: &mut Shop| {
        let mut touched = Vec::new();
        shop.book.drain_touched(|sku, stock| touched.push((sku.0, stock.available())));
        touched
    };
    assert_eq!(touched(&mut shop), [(0, 5), (1, 7)]);
    assert_eq!(touched(&mut shop), []);
    shop.run(START, place(1, 1, 2));
    shop.run(START, place(2, 1, 2));
    shop.run(START, place(3, 1, 2));
    assert_eq!(touched(&mut shop), [(0, 1)]);
    shop.run(START, place(1, 1, 2));
    assert_eq!(touched(&mut shop), []);
}
