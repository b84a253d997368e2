//! Ordering without a script: a form, a page to check it, and a page of the order, as a browser sends and reads them.

use super::Response;
use super::shop::{Sent, Shop, demo_mode, token_mode};
use crate::http::AuthMode;

const FORM: &str = "sale=3&product=29&quantity=2&name=Ada+%3Cb%3E&city=London&phone=";

/// As a browser sends the form of one of our pages.
fn form(path: &str, fields: &str) -> Sent {
    let sent = Sent::post(path, fields).with("Content-Type", "application/x-www-form-urlencoded");
    sent.with("Origin", "http://here").with("Accept", "text/html")
}

/// The form of a page to check, with the cookie that came along.
fn sent_again(checked: &Response) -> (String, String) {
    assert_eq!(checked.status, 200, "{}", checked.text());
    let page = checked.text();
    let fields = page.match_indices("<input type=\"hidden\" name=\"").map(|(at, before)| {
        let (name, rest) = page[at + before.len()..].split_once("\" value=\"").unwrap();
        let value = rest.split_once('"').unwrap().0.replace("&lt;", "%3C").replace("&gt;", "%3E");
        format!("{name}={}", value.replace("&#x2f;", "%2F").replace(' ', "+"))
    });
    let cookie = checked.header("set-cookie").unwrap_or_default().split(';').next().unwrap();
    (fields.collect::<Vec<_>>().join("&"), cookie.to_owned())
}

fn is_page(response: &Response, status: u16, said: &str) {
    let page = response.text();
    assert_eq!(
        (response.status, response.header("content-type")),
        (status, Some("text/html; charset=utf-8"))
    );
    assert!(page.contains(said), "{said:?} is not in {page}");
    assert_eq!(response.header("cache-control"), Some("no-store"));
    assert!(response.header("content-security-policy").unwrap().contains("default-src 'none'"));
    assert!(page.ends_with("</html>\n") || page.ends_with("</html>"), "{page}");
}

fn available(shop: &mut Shop, product: u64) -> u64 {
    let stock = shop.send(&Sent::get(&format!("/api/v1/stock?sale=3&product={product}"))).json();
    stock["available"].as_u64().unwrap()
}

#[test]
fn a_form_is_checked_then_ordered_once_and_its_order_paid() {
    let mut shop = Shop::new(demo_mode());
    let checked = shop.send(&form("/buy", FORM));
    is_page(&checked, 200, "<h1>Check your order</h1>");
    assert!(checked.text().contains("<bdi>Ada &lt;b&gt;</bdi>, <bdi>London</bdi>"), "{}", checked.text());
    assert_eq!(available(&mut shop, 29), 1_000_000, "nothing is ordered yet");
    let (fields, cookie) = sent_again(&checked);
    assert!(cookie.starts_with("doorbuster_buyer="), "{cookie}");
    let stale = fields.replace("unit_price=", "unit_price=9");
    assert_ne!(stale, fields);
    is_page(
        &shop.send(&form("/buy", &stale).with("Cookie", &cookie)),
        409,
        "The price has changed since this page was loaded",
    );
    let order = form("/buy", &fields).with("Cookie", &cookie);
    let ordered = shop.send(&order);
    assert_eq!(ordered.status, 303, "{}", ordered.text());
    let page = ordered.header("location").unwrap().to_owned();
    assert!(page.starts_with("/orders/") && page.ends_with("?plain=1"), "{page}");
    assert_eq!(shop.send(&order).header("location"), Some(&*page), "the same order");
    let later = shop.send(&form("/buy", &stale).with("Cookie", &cookie));
    assert_eq!(later.header("location"), Some(&*page), "its price was that then");
    assert_eq!(available(&mut shop, 29), 999_998);
    let changed = form("/buy", &fields.replace("quantity=2", "quantity=3")).with("Cookie", &cookie);
    is_page(&shop.send(&changed), 409, "another request");

    let read = Sent::get(&page).with("Cookie", &cookie);
    is_page(&shop.send(&read), 200, "Reserved for you");
    let path = page.trim_end_matches("?plain=1").to_owned();
    assert!(shop.send(&read).text().contains(&format!("action=\"{path}/cancel\"")));
    let press = |what: &str| form(&format!("{path}/{what}"), "").with("Cookie", &cookie);
    for _ in 0..2 {
        let paid = shop.send(&press("pay"));
        assert_eq!((paid.status, paid.header("location")), (303, Some(&*page)), "{}", paid.text());
    }
    is_page(&shop.send(&read), 200, "Paid. It is yours!");
    is_page(&shop.send(&press("cancel")), 409, "<h1>Not possible</h1>");
    // Without the word it is the shell for all orders.
    assert!(shop.send(&Sent::get(&path)).text().contains("href=\"?plain=1\""));
}

#[test]
fn an_order_can_be_cancelled_by_its_buyer_alone() {
    let mut shop = Shop::new(demo_mode());
    let order = |shop: &mut Shop| {
        let (fields, cookie) = sent_again(&shop.send(&form("/buy", "sale=3&product=30&quantity=1")));
        let ordered = shop.send(&form("/buy", &fields).with("Cookie", &cookie));
        (ordered.header("location").unwrap().to_owned(), cookie)
    };
    let ((page, cookie), (_, another)) = (order(&mut shop), order(&mut shop));
    assert_eq!(available(&mut shop, 30), 0);
    is_page(&shop.send(&Sent::get(&page).with("Cookie", &another)), 404, "No such order");
    let cancel = form(&page.replace("?plain=1", "/cancel"), "");
    is_page(&shop.send(&cancel.clone().with("Cookie", &another)), 404, "No such order");
    is_page(&shop.send(&cancel), 401, "Sign in at the shop first.");
    let strange = Sent::post(&page.replace("?plain=1", "/cancel"), "").with("Origin", "http://evil.example");
    is_page(&shop.send(&strange.with("Cookie", &cookie)), 403, "Not possible");
    assert_eq!(shop.send(&cancel.with("Cookie", &cookie)).status, 303);
    assert_eq!(available(&mut shop, 30), 1);
    is_page(&shop.send(&Sent::get(&page).with("Cookie", &cookie)), 200, "This order is cancelled");
}

#[test]
fn what_cannot_be_ordered_is_a_page_in_the_readers_language() {
    let mut shop = Shop::new(AuthMode::MemberId);
    let buy = |fields: &str| form("/buy", fields).member(7);
    let key = "sale=3&quantity=1&key=k&product=";
    for (fields, status, said) in [
        (format!("{key}31"), 409, "Just sold out. Units that are not paid"),
        (format!("{key}77"), 404, "This product is not in the sale any more."),
        ("sale=3&quantity=1&product=77".to_owned(), 404, "This product is not in the sale any more."),
        ("sale=3&quantity=0&product=29".to_owned(), 422, "Not possible"),
        ("sale=3&quantity=5000000000&product=29".to_owned(), 422, "Not possible"),
        ("sale=3&quantity=1".to_owned(), 400, "&quot;product&quot; must be a whole number"),
        ("sale=3&quantity=1&product=29&name=%zz".to_owned(), 400, "&quot;name&quot; must be encoded text"),
        ("sale=3&quantity=1&product=29&key=%C3%A9".to_owned(), 400, "Not possible"),
        (format!("sale=3&quantity=1&product=29&city={}", "x".repeat(600)), 400, "address.city"),
    ] {
        let found = shop.send(&buy(&fields));
        is_page(&found, status, said);
        assert!(found.text().contains("href=\"/\""));
    }
    let sold_out = buy(&format!("{key}31"));
    is_page(&shop.send(&sold_out.with("Accept-Language", "de")), 409, "Gerade ausverkauft.");
    is_page(&shop.send(&Sent::post("/buy", "{}").member(7)), 415, "Not possible");
    let strange = Sent::post("/buy", FORM).with("Origin", "http://evil.example").member(7);
    is_page(
        &shop.send(&strange.with("Content-Type", "application/x-www-form-urlencoded")),
        403,
        "Not possible",
    );
    let wrong_method = shop.send(&Sent::get("/buy"));
    assert_eq!((wrong_method.status, wrong_method.header("allow")), (405, Some("POST, OPTIONS")));
    // Nobody is made a buyer where the shop says who is one.
    for sent in [form("/buy", FORM), form("/buy", &format!("{FORM}&key=k"))] {
        let answer = Shop::new(token_mode()).send(&sent);
        is_page(&answer, 401, "Sign in at the shop first.");
        assert_eq!(answer.header("set-cookie"), None);
    }
    is_page(&shop.send(&Sent::get("/orders/none?plain=1").member(7)), 404, "No such order");
}

#[test]
fn an_outcome_that_is_not_known_is_asked_for_by_a_reload() {
    let mut shop = Shop::new(AuthMode::MemberId);
    let buy = form("/buy", "sale=3&product=29&quantity=1&key=k").member(7);
    shop.failing = true;
    let unknown = shop.send(&buy);
    is_page(&unknown, 503, "Reload this page to ask again. It can't be ordered twice.");
    assert_eq!(unknown.header("retry-after"), Some("1"));
    shop.failing = false;
    assert_eq!(shop.send(&buy).status, 303);
    assert_eq!(available(&mut shop, 29), 999_999);
}
