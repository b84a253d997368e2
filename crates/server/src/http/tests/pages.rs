//! Which page is served, in which coding, and when it is another one.

use std::io::Read as _;
use std::sync::Arc;

use engine::Command;

use super::problem;
use super::shop::{SALE, Sent, Shop, demo_mode};
use crate::http::PageFiles;

const PAGE: &str = "/seckill_3_30.html";

#[test]
fn a_sale_page_is_served_plain_compressed_or_not_again() {
    let mut shop = Shop::new(demo_mode());
    let plain = shop.send(&Sent::get(PAGE));
    assert_eq!((plain.status, plain.header("content-type")), (200, Some("text/html; charset=utf-8")));
    assert!(plain.text().contains("Product &quot;30&quot;"), "{}", plain.text());
    for (name, part) in [
        ("content-security-policy", "default-src 'none'"),
        ("x-content-type-options", "nosniff"),
        ("cache-control", "max-age=1"),
        ("vary", "Accept-Encoding"),
    ] {
        assert!(plain.header(name).unwrap().contains(part), "{name}");
    }
    let packed = shop.send(&Sent::get(PAGE).with("Accept-Encoding", "br, gzip"));
    assert_eq!(packed.header("content-encoding"), Some("gzip"));
    let mut text = Vec::new();
    flate2::read::GzDecoder::new(packed.body.as_slice()).read_to_end(&mut text).unwrap();
    assert_eq!(text, plain.body);
    assert_ne!(packed.header("etag"), plain.header("etag"));
    let known = shop.send(&Sent::get(PAGE).with("If-None-Match", plain.header("etag").unwrap()));
    assert_eq!((known.status, known.body.len(), known.header("etag")), (304, 0, plain.header("etag")));
}

#[test]
fn a_page_changes_with_its_sale_at_once_and_with_its_stock_within_a_second() {
    let mut shop = Shop::new(demo_mode());
    let page = |shop: &mut Shop| shop.send(&Sent::get(PAGE));
    let first = page(&mut shop);
    shop.send(&Sent::post("/api/v1/orders", r#"{"sale":3,"product":30}"#).member(1));
    shop.advance(1001);
    let few = page(&mut shop);
    assert_ne!(few.body, first.body, "almost gone, and a second later");
    shop.send(&Sent::post("/api/v1/orders", r#"{"sale":3,"product":30}"#).member(2));
    shop.advance(1001);
    assert!(page(&mut shop).text().contains("data-available=\"0\""));
    let restock = Sent::post("/api/v1/sales/3/items/30/restock", r#"{"units":7}"#).operator().key("r");
    shop.send(&restock);
    assert!(page(&mut shop).text().contains("data-total=\"9\""));
    shop.execute(Command::Pause(SALE));
    assert!(page(&mut shop).text().contains("data-state=\"paused\""));
    shop.execute(Command::Resume(SALE));
    shop.advance(3_600_000);
    assert!(page(&mut shop).text().contains("data-state=\"ended\""), "by the clock alone");
}

#[test]
fn every_page_and_asset_is_served() {
    let mut shop = Shop::new(demo_mode());
    let index = shop.send(&Sent::get("/"));
    assert!(index.status == 200 && index.text().contains(PAGE), "{}", index.text());
    for target in ["/api", "/orders", "/orders/0123"] {
        assert_eq!(shop.send(&Sent::get(target)).header("content-type"), Some("text/html; charset=utf-8"));
    }
    let text = index.text();
    let assets: Vec<&str> = text.split('"').filter(|part| part.starts_with("/assets/")).collect();
    assert!(!assets.is_empty());
    for path in assets {
        let asset = shop.send(&Sent::get(path));
        assert_eq!(asset.status, 200, "{path}");
        assert!(asset.header("cache-control").unwrap().contains("immutable"));
    }
    assert_eq!(shop.send(&Sent::get("/assets/none.js")).problem(), problem(404, "not_found"));
}

#[test]
fn a_product_page_names_its_member() {
    let mut shop = Shop::new(demo_mode());
    let page = shop.send(&Sent::get("/product?flashPromotionId=3&promotionProductId=30&memberId=462245"));
    assert!(page.status == 200 && page.text().contains("462245"), "{}", page.text());
    assert_eq!(page.header("cache-control"), Some("private, no-store"));
    for query in [
        "",
        "?flashPromotionId=3&promotionProductId=30",
        "?flashPromotionId=3&promotionProductId=30&memberId=%3Cb%3E",
    ] {
        assert_eq!(
            shop.send(&Sent::get(&format!("/product{query}"))).problem(),
            problem(400, "invalid_request")
        );
    }
}

#[test]
fn people_get_a_page_for_an_address_that_leads_nowhere() {
    let mut shop = Shop::new(demo_mode());
    for target in
        ["/nothing", "/seckill_3_99.html", "/product?flashPromotionId=9&promotionProductId=9&memberId=9"]
    {
        let page = shop.send(&Sent::get(target).with("Accept", "text/html,*/*"));
        assert_eq!(
            (page.status, page.header("content-type")),
            (404, Some("text/html; charset=utf-8")),
            "{target}"
        );
        assert_eq!(shop.send(&Sent::get(target)).header("content-type"), Some("application/problem+json"));
    }
    let api = shop.send(&Sent::get("/api/v1/nothing").with("Accept", "text/html"));
    assert_eq!(api.problem(), problem(404, "not_found"));
}

#[test]
fn pages_are_written_as_files_when_they_change() {
    let mut shop = Shop::new(demo_mode());
    let dir = tempfile::tempdir().unwrap();
    let files = PageFiles::start(Arc::clone(&shop.shared), dir.path().join("pages")).unwrap();
    let path = dir.path().join("pages/seckill_3_30.html");
    let wait_for = |part: &str| {
        let until = std::time::Instant::now() + std::time::Duration::from_secs(20);
        while !std::fs::read_to_string(&path).is_ok_and(|text| text.contains(part)) {
            assert!(std::time::Instant::now() < until, "no file with {part}");
            std::thread::yield_now();
        }
    };
    wait_for("data-state=\"live\"");
    shop.execute(Command::Pause(SALE));
    wait_for("data-state=\"paused\"");
    drop(files);
    assert_eq!(std::fs::read(&path).unwrap(), shop.send(&Sent::get(PAGE)).body);
    assert!(std::fs::read_dir(dir.path().join("pages/assets")).unwrap().count() > 5);
}

#[test]
fn a_page_comes_in_the_language_that_is_asked_for_or_was_chosen() {
    let mut shop = Shop::new(demo_mode());
    let mut lang = |sent: Sent| {
        let page = shop.send(&sent);
        assert_eq!(page.header("vary"), Some("Accept-Encoding, Accept-Language, Cookie"), "{}", sent.target);
        let text = page.text();
        let (_, rest) = text.split_once("<html lang=\"").unwrap();
        rest[..2].to_owned()
    };
    for target in ["/", "/sales/3", "/seckill_3_30.html", "/orders", "/orders/x"] {
        let page = || Sent::get(target);
        assert_eq!(lang(page()), "en", "{target}");
        assert_eq!(lang(page().with("Accept-Language", "fr, de-AT;q=0.8, en;q=0.5")), "de", "{target}");
        let chosen = page().with("Accept-Language", "de").with("Cookie", "a=b; doorbuster_language=ar");
        assert_eq!(lang(chosen), "ar", "{target}");
    }
    let member = "/product?flashPromotionId=3&promotionProductId=30&memberId=7";
    let product = shop.send(&Sent::get(member).with("Accept-Language", "es"));
    assert!(product.text().contains("<html lang=\"es\""));
    let nowhere = Sent::get("/nowhere").with("Accept", "text/html").with("Accept-Language", "zh");
    assert!(shop.send(&nowhere).text().contains("<html lang=\"zh\""));
    let tags: Vec<_> = ["en", "de"]
        .map(|code| shop.send(&Sent::get("/orders").with("Accept-Language", code)))
        .iter()
        .map(|page| page.header("etag").unwrap().to_owned())
        .collect();
    assert_ne!(tags[0], tags[1]);
}

#[test]
fn a_choice_of_a_language_is_kept_and_leads_back() {
    let mut shop = Shop::new(demo_mode());
    let mut choose = |code: &str, from: &str| {
        let chosen = shop.send(&Sent::get(&format!("/language/{code}")).with("Referer", from));
        let header = |name| chosen.header(name).unwrap_or_default().to_owned();
        (chosen.status, header("location"), header("set-cookie"))
    };
    let cookie = "doorbuster_language=de; Path=/; Max-Age=31536000; SameSite=Lax".to_owned();
    assert_eq!(choose("de", "http://here/orders?a=b"), (303, "/orders?a=b".to_owned(), cookie.clone()));
    assert_eq!(choose("de", "http://elsewhere/orders"), (303, "/".to_owned(), cookie));
    for unknown in ["fr", "DE", "", "%64e"] {
        assert_eq!(choose(unknown, "http://here/").0, 404, "{unknown}");
    }
}
