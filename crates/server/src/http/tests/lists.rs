//! Every page once, whatever happens between two; what is kept, and for how long; and a year of sales.

use std::collections::BTreeSet;
use std::sync::Arc;

use engine::{Command, ItemSpec, SaleId, SaleSpec};
use serde_json::Value;

use super::problem;
use super::shop::{NOW, SALE, Sent, Setup, Shop, demo_mode, flash_sale, item};
use crate::http::lists::{STALE_STOCK_MS, items_page, sales_page};
use crate::pages::LanguageId;

const PAGE_BYTES_MAX: usize = 64 * 1024;

/// Sales of the shop beside those that a test makes: 1 and 3, both open.
const SHOP_SALES: [u64; 2] = [3, 1];
const HOUR_MS: u64 = 3_600_000;

fn sale(id: u64, starts_after_ms: u64, items: Vec<ItemSpec>) -> Command {
    let starts_at = NOW.plus(starts_after_ms);
    let spec =
        SaleSpec { id: SaleId(id), starts_at, ends_at: starts_at.plus(HOUR_MS), items, ..flash_sale() };
    Command::CreateSale(spec)
}

fn one_item(id: u64, starts_after_ms: u64) -> Command {
    sale(id, starts_after_ms, vec![item(id, 10, None)])
}

fn ids(page: &Value) -> Vec<u64> {
    page["sales"].as_array().unwrap().iter().map(|sale| sale["id"].as_u64().unwrap()).collect()
}

/// Reads a list to its end, doing something to the shop after each page; what its pages had.
fn walk(shop: &mut Shop, query: &str, mut between: impl FnMut(&mut Shop, usize)) -> Vec<Vec<u64>> {
    let mut pages: Vec<Vec<u64>> = Vec::new();
    let mut cursor = String::new();
    loop {
        let page = shop.send(&Sent::get(&format!("/api/v1/sales?{query}{cursor}")));
        assert_eq!(page.status, 200, "{}", page.text());
        assert!(page.body.len() <= PAGE_BYTES_MAX + 1024, "{} bytes", page.body.len());
        let page = page.json();
        pages.push(ids(&page));
        between(shop, pages.len());
        let Some(next) = page["next_cursor"].as_u64() else { return pages };
        cursor = format!("&cursor={next}");
    }
}

#[test]
fn every_sale_is_on_one_page_of_its_list() {
    let mut shop = Shop::new(demo_mode());
    // 100 to 129 are upcoming, 200 to 229 open, 300 to 309 were ended.
    for number in 0..30 {
        shop.execute(one_item(100 + number, 600_000));
        shop.execute(one_item(200 + number, 0));
        if number < 10 {
            shop.execute(one_item(300 + number, 0));
            shop.execute(Command::End(SaleId(300 + number)));
        }
    }
    let newest_first = |from: u64, to: u64| (from..=to).rev().collect::<Vec<_>>();
    let open = [newest_first(200, 229), SHOP_SALES.to_vec()].concat();
    for (query, expected, pages) in [
        ("state=upcoming", newest_first(100, 129), 1),
        ("state=upcoming&limit=10", newest_first(100, 129), 3),
        // Rounded down to 5.
        ("state=open&limit=9", open.clone(), 7),
        ("state=open&limit=200", open.clone(), 1),
        ("state=ended&limit=1", newest_first(300, 309), 10),
        ("state=ended&limit=5", newest_first(300, 309), 2),
    ] {
        let found = walk(&mut shop, query, |_, _| {});
        assert_eq!((found.concat(), found.len()), (expected, pages), "{query}");
    }
    let current = walk(&mut shop, "limit=20", |_, _| {}).concat();
    let all: BTreeSet<u64> = newest_first(100, 129).into_iter().chain(open).collect();
    assert_eq!((current.len(), current.into_iter().collect::<BTreeSet<_>>()), (62, all));
}

#[test]
fn sales_that_come_and_go_between_two_pages_leave_no_other_out() {
    let mut shop = Shop::new(demo_mode());
    shop.execute_all((100..160).map(|id| one_item(id, 0)));
    let found = walk(&mut shop, "limit=10", |shop, page| {
        let page = page as u64;
        shop.execute(one_item(500 + page, 0));
        // One that was shown, one that was not, and the one at the cursor.
        for id in [160 - page, 100 + page, 160 - 10 * page] {
            if page <= 2 {
                shop.execute(Command::End(SaleId(id)));
            }
        }
    });
    let ended_before_shown = [101, 102];
    let expected: Vec<u64> =
        (100..160).rev().chain(SHOP_SALES).filter(|id| !ended_before_shown.contains(id)).collect();
    assert_eq!(found.concat(), expected);
}

#[test]
fn a_sale_moves_from_list_to_list_by_the_clock_alone() {
    let mut shop = Shop::new(demo_mode());
    shop.execute(one_item(7, HOUR_MS / 2));
    let lists = |shop: &mut Shop| {
        ["upcoming", "open", "ended"].map(|state| walk(shop, &format!("state={state}"), |_, _| {}).concat())
    };
    assert_eq!(lists(&mut shop), [vec![7], vec![3, 1], vec![]]);
    shop.advance(HOUR_MS / 4);
    assert_eq!(lists(&mut shop), [vec![7], vec![3, 1], vec![]]);
    shop.advance(HOUR_MS / 4);
    assert_eq!(lists(&mut shop), [vec![], vec![7, 3, 1], vec![]]);
    shop.advance(HOUR_MS);
    assert_eq!(lists(&mut shop), [vec![], vec![], vec![7, 3, 1]]);
}

/// They were missing from every list until a restart, and their items from the metrics.
#[test]
fn sales_that_were_over_by_a_clock_that_was_ahead_come_back_when_it_is_set_back() {
    let mut shop = Shop::new(demo_mode());
    shop.execute(one_item(7, HOUR_MS));
    let look = |shop: &mut Shop| {
        let lists = ["state=upcoming", "state=open", "state=ended", "limit=50"];
        let of_operator = shop.send(&Sent::get("/api/v1/sales").operator()).json();
        let metrics = shop.send(&Sent::get("/metrics").operator()).text();
        (
            lists.map(|query| walk(shop, query, |_, _| {}).concat()),
            ids(&of_operator),
            shop.send(&Sent::get("/")).text().contains("id=\"sale-3\""),
            shop.send(&Sent::get("/sales/3")).text(),
            metrics.contains("doorbuster_stock_units{sale=\"3\""),
        )
    };
    let before = look(&mut shop);
    assert_eq!(before.0, [vec![7], vec![3, 1], vec![], vec![7, 3, 1]]);
    assert!(before.2 && before.4, "{before:?}");
    shop.advance(4 * 24 * HOUR_MS);
    let ahead = look(&mut shop);
    assert_eq!(ahead.0, [vec![], vec![], vec![7, 3, 1], vec![]]);
    assert!(!ahead.2 && !ahead.4, "{ahead:?}");
    shop.shared.clock.set(NOW);
    assert_eq!(look(&mut shop), before);
}

/// For as long as the clock had been ahead, they were what they were then.
#[test]
fn pages_show_the_stock_as_it_is_after_the_clock_was_set_back() {
    let mut shop = Shop::new(demo_mode());
    shop.execute(one_item(7, 0));
    let pages = ["/api/v1/sales/7", "/sales/7", "/seckill_7_7.html"];
    let look = |shop: &mut Shop| pages.map(|page| shop.send(&Sent::get(page)).text());
    shop.advance(HOUR_MS / 2);
    let ahead = look(&mut shop);
    for buyer in 1..=10 {
        shop.send(&Sent::post("/api/v1/orders", r#"{"sale":7,"product":7}"#).member(buyer));
    }
    shop.shared.clock.set(NOW);
    let now = look(&mut shop);
    for ((page, ahead), now) in pages.iter().zip(&ahead).zip(&now) {
        assert_ne!(ahead, now, "{page}");
    }
}

#[test]
fn what_no_page_can_be_is_refused_in_words() {
    let mut shop = Shop::new(demo_mode());
    let invalid = || problem(400, "invalid_request");
    for (target, refused) in [
        ("/api/v1/sales?state=live", invalid()),
        ("/api/v1/sales?state=", invalid()),
        ("/api/v1/sales?limit=0", invalid()),
        ("/api/v1/sales?limit=201", invalid()),
        ("/api/v1/sales?limit=ten", invalid()),
        ("/api/v1/sales?cursor=", invalid()),
        ("/api/v1/sales?cursor=-1", invalid()),
        ("/api/v1/sales?cursor=99999999999999999999", invalid()),
        ("/api/v1/sales?cursor=3", problem(409, "cursor_ahead")),
        ("/api/v1/sales?cursor=4294967298", problem(409, "cursor_ahead")),
        ("/api/v1/sales/3?limit=0", invalid()),
        ("/api/v1/sales/3?cursor=3", problem(409, "cursor_ahead")),
        ("/api/v1/sales/9", problem(404, "unknown_sale")),
        ("/?cursor=3", problem(409, "cursor_ahead")),
        ("/?state=live", invalid()),
        ("/sales/3?cursor=x", invalid()),
        ("/sales/9", problem(404, "unknown_sale")),
    ] {
        assert_eq!(shop.send(&Sent::get(target)).problem(), refused, "{target}");
    }
    assert_eq!(shop.send(&Sent::get("/api/v1/sales?cursor=2")).status, 200);
}

#[test]
fn ten_thousand_items_are_read_page_by_page() {
    let mut shop = Shop::new(demo_mode());
    let described = |product| ItemSpec { description: "d".repeat(2000), ..item(product, 10, None) };
    shop.execute(sale(7, 0, (0..10_000).map(|product| item(product, 10, None)).collect()));
    shop.execute(sale(8, 0, (0..200).map(described).collect()));
    for (sale, items, limit) in [(7, 10_000, 200), (7, 10_000, 50), (8, 200, 200)] {
        let (mut products, mut cursor) = (Vec::new(), Some(0));
        while let Some(from) = cursor {
            let target = format!("/api/v1/sales/{sale}?limit={limit}&cursor={from}");
            let page = shop.send(&Sent::get(&target));
            assert!(page.body.len() <= PAGE_BYTES_MAX + 1024, "{} bytes", page.body.len());
            let page = page.json();
            assert_eq!(page["items_total"], items);
            let of_page = page["items"].as_array().unwrap();
            assert!(!of_page.is_empty() && of_page.len() <= limit);
            products.extend(of_page.iter().map(|item| item["product"].as_u64().unwrap()));
            cursor = page["items_next_cursor"].as_u64();
        }
        assert_eq!(products, (0..items).collect::<Vec<_>>());
    }
    // What changes an item shows it.
    let restock = Sent::post("/api/v1/sales/7/items/9007/restock", r#"{"units":5}"#).operator().key("r");
    let shown = shop.send(&restock).json();
    assert_eq!((&shown["items"][7]["product"], &shown["items"][7]["total"]), (&9007.into(), &15.into()));
    // People get as far, without a script.
    let mut target = "/sales/7".to_owned();
    let mut pages = 0;
    loop {
        let page = shop.send(&Sent::get(&target)).text();
        pages += 1;
        assert!(page.len() <= PAGE_BYTES_MAX, "{} bytes", page.len());
        let Some((_, next)) = page.split_once("<a href=\"/sales/7?cursor=") else { break };
        target = format!("/sales/7?cursor={}", next.split('"').next().unwrap());
    }
    assert_eq!(pages, 10_000_usize.div_ceil(24));
}

#[test]
fn ten_thousand_sales_are_listed_page_by_page_and_walking_them_keeps_little() {
    let mut shop = Shop::new(demo_mode());
    shop.execute_all((1000..11_000).map(|id| one_item(id, if id % 2 == 0 { 0 } else { HOUR_MS })));
    shop.advance(HOUR_MS);
    shop.execute(one_item(20_000, HOUR_MS));
    let ended: Vec<u64> = (1000..11_000).rev().filter(|id| id % 2 == 0).chain(SHOP_SALES).collect();
    let front =
        |shop: &Shop| shop.shared.lists.kept(sales_page("", &shop.shared.shelf.current(), None).unwrap());
    let first = shop.send(&Sent::get("/api/v1/sales"));
    assert_eq!(ids(&first.json())[..2], [20_000, 10_999]);
    let kept = front(&shop).unwrap();
    for limit in [200, 5] {
        assert_eq!(walk(&mut shop, &format!("state=ended&limit={limit}"), |_, _| {}).concat(), ended);
        let (entries, bytes) = shop.shared.lists.kept_size();
        assert!(entries <= 512 + 30 && bytes <= 40 * 1024 * 1024, "{entries} pages, {bytes} bytes");
    }
    // Cursors between two sales of the list are pages of their own to nobody.
    let before = shop.shared.lists.kept_size().0;
    let invented = |cursor: u64| Sent::get(&format!("/api/v1/sales?state=upcoming&cursor={cursor}"));
    for cursor in 1..=1000 {
        assert_eq!(ids(&shop.send(&invented(cursor)).json()), [0_u64; 0]);
    }
    assert!(shop.shared.lists.kept_size().0 <= before + 1);
    assert!(Arc::ptr_eq(&kept, &front(&shop).unwrap()), "the first page was not rendered again");
}

#[test]
fn a_page_is_known_by_its_tag_in_either_coding_and_on_every_loop() {
    let mut shop = Shop::new(demo_mode());
    for target in ["/api/v1/sales", "/api/v1/sales/3", "/", "/sales/3"] {
        let first = shop.send(&Sent::get(target));
        let tag = first.header("etag").unwrap().to_owned();
        assert_eq!(first.header("cache-control"), Some("public, max-age=1"), "{target}");
        assert_eq!(shop.send(&Sent::get(target)).body, first.body);
        shop.service = shop.another_loop();
        let known = shop.send(&Sent::get(target).with("If-None-Match", &tag));
        assert_eq!((known.status, known.body.len()), (304, 0), "{target}");
        let packed = shop.send(&Sent::get(target).with("Accept-Encoding", "gzip"));
        assert_eq!(packed.header("content-encoding"), Some("gzip"));
        let private = shop.send(&Sent::get(target).operator());
        let of_operator = if target.starts_with("/api/") { "no-store" } else { "public, max-age=1" };
        assert_eq!(private.header("cache-control"), Some(of_operator), "{target}");
    }
}

#[test]
fn a_page_is_rendered_once_per_change_of_what_it_shows() {
    let mut shop = Shop::new(demo_mode());
    let catalog = shop.shared.shelf.current();
    for (target, page) in [
        ("/api/v1/sales", sales_page("", &catalog, None).unwrap()),
        ("/api/v1/sales/3", items_page("", &catalog, SALE, None).unwrap()),
        ("/", sales_page("", &catalog, Some(LanguageId::default())).unwrap()),
    ] {
        let render = |shop: &mut Shop, expected: &str| {
            // What is only older than a second is looked at again.
            shop.advance(STALE_STOCK_MS);
            let text = shop.send(&Sent::get(target)).text();
            assert!(text.contains(expected), "{expected} in {text}");
            shop.shared.lists.kept(page).unwrap()
        };
        let first = render(&mut shop, "Flash");
        assert!(Arc::ptr_eq(&first, &render(&mut shop, "Flash")), "{target}: nothing has changed");
        shop.send(&Sent::post("/api/v1/orders", r#"{"sale":3,"product":29}"#).member(1));
        let sold = render(&mut shop, "Flash");
        assert!(!Arc::ptr_eq(&first, &sold), "{target}: the stock has changed");
        assert!(Arc::ptr_eq(&sold, &render(&mut shop, "Flash")));
        shop.execute(Command::Pause(SALE));
        assert!(!Arc::ptr_eq(&sold, &render(&mut shop, "paused")));
        shop.execute(Command::Resume(SALE));
    }
    let sold = shop.send(&Sent::get("/api/v1/sales/3")).json();
    let exact = shop.send(&Sent::get("/api/v1/stock?sale=3&product=29")).json();
    assert_eq!((&sold["items"][0]["available"], &exact["available"]), (&999_997.into(), &999_997.into()));
}

#[test]
fn a_page_of_another_site_may_read_a_list() {
    let mut shop = Shop::new(demo_mode());
    let asked = Sent::get("/api/v1/sales").with("Origin", "https://shop.example");
    for _ in 0..2 {
        let read = shop.send(&asked);
        assert_eq!(read.header("access-control-allow-origin"), Some("https://shop.example"));
        let vary: Vec<_> = read.headers.iter().filter(|(name, _)| name == "vary").collect();
        assert!(vary.len() == 2, "{vary:?}");
    }
    assert_eq!(shop.send(&Sent::get("/api/v1/sales")).header("access-control-allow-origin"), None);
}

#[test]
fn the_front_page_leads_to_every_sale() {
    let mut shop = Shop::new(demo_mode());
    shop.execute_all((100..130).chain(200..230).map(|id| one_item(id, 0)));
    shop.execute_all((200..230).map(|id| Command::End(SaleId(id))));
    for (begin, expected) in [
        ("/", (100..130).rev().chain(SHOP_SALES).collect::<Vec<u64>>()),
        ("/?state=ended", (200..230).rev().collect()),
    ] {
        let (mut target, mut found) = (begin.to_owned(), Vec::new());
        loop {
            let page = shop.send(&Sent::get(&target)).text();
            let of_page = page.split(" id=\"sale-").skip(1);
            found.extend(of_page.map(|part| part.split('"').next().unwrap().parse::<u64>().unwrap()));
            let Some(link) = page.split("<a href=\"").find(|part| part.contains("\" rel=\"next\"")) else {
                break;
            };
            target = link.split('"').next().unwrap().replace("&amp;", "&");
        }
        assert_eq!(found, expected, "{begin}");
    }
    let front = shop.send(&Sent::get("/")).text();
    assert!(front.contains("<a href=\"/?state=ended\">"));
}

#[test]
fn operators_find_the_orders_that_they_ask_for() {
    let mut shop = Shop::with(Setup { ledger: true, ..Setup::new(demo_mode()) });
    let place = |shop: &mut Shop, (buyer, sale, product): (u64, u64, u64)| {
        let body = format!(r#"{{"sale":{sale},"product":{product}}}"#);
        let placed = shop.send(&Sent::post("/api/v1/orders", &body).member(buyer));
        assert_eq!(placed.status, 201, "{}", placed.text());
        placed.json()["id"].as_str().unwrap().to_owned()
    };
    let placed =
        [(1, 3, 29), (2, 3, 29), (1, 3, 30), (3, 1, 101), (1, 1, 102)].map(|order| place(&mut shop, order));
    let cancel = Sent::post(&format!("/api/v1/orders/{}/cancel", placed[0]), "").member(1);
    assert_eq!(shop.send(&cancel).status, 200);
    for (query, expected) in [
        ("", vec![0, 1, 2, 3, 4]),
        ("status=cancelled", vec![0]),
        ("status=held", vec![1, 2]),
        ("status=paid", vec![3, 4]),
        ("status=expired", vec![]),
        ("sale=3", vec![0, 1, 2]),
        ("sale=3&product=30", vec![2]),
        ("buyer=1", vec![0, 2, 4]),
        ("buyer=%31&status=held", vec![2]),
        ("buyer=9", vec![]),
    ] {
        // However few entries a page looks through, each comes once: with its status now, where it was placed or changed.
        for limit in [1, 3, 1000] {
            let (mut found, mut since) = (BTreeSet::new(), 0);
            loop {
                let target = format!("/api/v1/orders?since={since}&limit={limit}&{query}");
                let page = shop.send(&Sent::get(&target).operator()).json();
                for line in page["orders"].as_array().unwrap() {
                    let id = line["id"].as_str().unwrap();
                    found.insert(placed.iter().position(|placed| placed == id).unwrap());
                }
                since = page["cursor"].as_u64().unwrap();
                if page["more"] == false {
                    break;
                }
            }
            assert_eq!(found.into_iter().collect::<Vec<_>>(), expected, "{query}, {limit} entries a page");
        }
    }
    for query in ["status=pending", "sale=x", "product=-1", "buyer=%f"] {
        let refused = shop.send(&Sent::get(&format!("/api/v1/orders?{query}")).operator());
        assert_eq!(refused.problem(), problem(400, "invalid_request"), "{query}");
    }
}
