//! A real Vendure shop with the plugin of `integrations/vendure`, a real Doorbuster, and a buyer in Chromium.

mod place;

use ring::hmac;
use serde_json::json;

use crate::reload::wait_until;
use crate::webdriver::Browser;
use place::{PASSWORD, PAYMENT_SECRET, Place, Reports, Shop};

/// What the shop's variants SHOE and QUICK have as numbers.
const SHOE: (u64, u64) = (3, 30);
const QUICK: (u64, u64) = (4, 40);
/// A sale that no variant names.
const NAMELESS: (u64, u64) = (5, 50);
/// What is sent of the orders below, if it is sent once.
const EVENTS: u64 = 21;
/// Anna's id at the shop, which is her name at Doorbuster.
const ANNA: u64 = 1;

#[test]
fn a_vendure_shop_and_doorbuster_have_the_same_orders_whatever_fails() {
    let place = Place::prepare();
    place.test_parts();
    let mut server = place.serve();
    for ((sale, product), payment_s) in [(SHOE, 900), (QUICK, 1), (NAMELESS, 900)] {
        let item = json!({ "product": product, "title": "Shoe", "price": 4900, "total": 100 });
        let sale = json!({ "id": sale, "title": "Drop", "currency": "USD", "payment_s": payment_s,
            "starts_at_ms": 0, "ends_at_ms": 4_102_444_800_000_u64, "items": [item] });
        place.operate("POST", "/api/v1/sales", &sale.to_string());
    }
    let mut shop = place.open_shop();
    let browser = Browser::start();

    sells_nothing_of_the_drop_beside_it(&place, &browser);
    let paid = buys_and_pays(&place, &browser);
    answers_bad_input(&place, &browser, &shop, &paid);

    // The shop is killed, and orders go on: one is held, one cancelled, one paid elsewhere, one never paid.
    let token = place.token(ANNA);
    shop.kill();
    let held = place.place(&token, "held", SHOE.0, SHOE.1);
    let cancelled = place.place(&token, "cancelled", SHOE.0, SHOE.1);
    cancel(&place, &cancelled, &token);
    let elsewhere = place.place(&token, "elsewhere", SHOE.0, SHOE.1);
    report_payment(&place, &elsewhere);
    place.place(&token, "late", QUICK.0, QUICK.1);
    shop = place.open_shop();
    send_again(&place);
    assert_eq!(place.settled().len(), 5);
    assert_eq!(place.counts(), [5, 2, 0]);
    // A draft and a paid order learn where they go.
    an_address_reaches_the_shops_order(&place, &held, "Bergen", &token);
    an_address_reaches_the_shops_order(&place, &elsewhere, "Ulm", &token);

    // Doorbuster is killed under a buyer who is about to pay: nothing is taken, and it goes on when it is back.
    browser.open(&pay_url(&place, &held, &token));
    browser.wait_for_text("#pay", "$49.00");
    server.kill();
    browser.click("#pay");
    browser.wait_for_text("#message", "please try again");
    assert_eq!(place.counts(), [5, 2, 0]);
    server = place.serve();
    // The payment is taken, the answer to its report is lost, and the shop is killed before it can ask again.
    pay_unheard(&place, &browser, Reports::Unanswered, &held, &token);
    shop.kill();
    place.let_reports(Reports::Pass);
    shop = place.open_shop();
    send_again(&place);
    reported(&place);
    place.settled();
    // The report does not arrive before the buyer cancels: what was paid goes back.
    let regretted = place.place(&token, "regretted", SHOE.0, SHOE.1);
    pay_unheard(&place, &browser, Reports::Lost, &regretted, &token);
    cancel(&place, &regretted, &token);
    place.let_reports(Reports::Pass);
    wait_until("what was paid went back", || place.counts() == [6, 4, 1]);
    reported(&place);
    place.settled();
    assert_eq!(place.doorbuster(&["refunds", "list"]), "no refunds are due\n");

    // Support refunds the first order, and the shop pays it back.
    place.doorbuster(&["refunds", "create", &paid, "--amount", "900", "--id", "part"]);
    place.doorbuster(&["refunds", "create", &paid, "--id", "rest"]);
    wait_until("all refunds are made", || place.counts()[2] == 3);
    reported(&place);

    let nameless = a_variant_without_numbers_stops_nothing_else(&place, &token);
    let (before, answered) = ((place.settled(), place.counts()), place.answered());
    send_again(&place);
    wait_until("everything was sent again", || place.answered() >= answered + EVENTS);
    assert_eq!((place.settled(), place.counts()), before, "nothing comes twice of a replay");
    assert_eq!((before.0.len(), before.1), (8, [8, 4, 3]));
    an_address_of_the_shops_own_stays(&place, &nameless, &token);
    assert_eq!(browser.complaints(), Vec::<String>::new());

    shop.stop();
    assert_eq!(server.stop(), 0);
    let (code, audited, errors) = crate::run(place.path(), &["audit", "--data-dir", "data"]);
    assert_eq!(code, 0, "{audited}{errors}");
}

fn sells_nothing_of_the_drop_beside_it(place: &Place, browser: &Browser) {
    browser.open(&place.url("/"));
    browser.wait_for_text("#who", "sign in");
    browser.click("#buy-SHOE");
    browser.wait_for_text("#said", "not currently authorized");
    browser.type_into("[name=email]", "anna@shop.example");
    browser.type_into("[name=password]", PASSWORD);
    browser.click("#login button");
    browser.wait_for_text("#who", "Hello, Anna");
    for sku in ["SHOE", "HALF"] {
        browser.click(&format!("#cart-{sku}"));
        browser.wait_for_text("#said", "flash sale");
        browser.click("#cart-SOCKS");
        browser.wait_for_text("#said", "In your cart");
    }
}

/// From the shop's page to the sale, to the payment, and back; the order.
fn buys_and_pays(place: &Place, browser: &Browser) -> String {
    browser.click("#buy-SHOE");
    browser.wait_until("the sale's page", |browser| browser.url().contains("/seckill_3_30.html"));
    browser.wait_until("the button", |browser| {
        browser.run("return document.querySelector('#submit:enabled') !== null") == true
    });
    browser.click("#submit");
    browser.wait_until("the way to pay", |browser| !browser.text("#pay-link").is_empty());
    let (_, order) =
        browser.url().rsplit_once('/').map(|(from, id)| (from.to_owned(), id.to_owned())).unwrap();
    browser.click("#pay-link");
    browser.wait_for_text("#pay", "Pay $49.00");
    browser.click("#pay");
    browser.wait_for_text("#badge", "Paid");
    assert_eq!(place.settled().len(), 1);
    order
}

fn answers_bad_input(place: &Place, browser: &Browser, shop: &Shop, paid: &str) {
    let says = |link: &str, words: &str| {
        browser.open(&place.url(link));
        browser.wait_for_text("#message", words);
    };
    let unknown = "0".repeat(40);
    says(&signed_link(&unknown, 4900), "no such order");
    says(&signed_link(paid, 4901), "another amount");
    says(&signed_link(paid, 4900), "paid already");
    says(&signed_link(paid, 4900).replace("amount=4900", "amount=1"), "not the one that the sale made");

    let event = |sale: u64, buyer: u64, sequence: &str| {
        format!(
            r#"{{"type":"order.held","sequence":{sequence},"data":{{"order":{{"id":"{unknown}","sale":{sale},
            "product":30,"buyer":{buyer},"quantity":1,"unit_price":4900,"amount":4900,"currency":"USD","status":"held"}}}}}}"#
        )
    };
    let cases = [
        (false, event(SHOE.0, ANNA, "1"), 401, "not signed"),
        (true, event(SHOE.0, ANNA, "\"1\""), 400, "sequence is no whole number"),
        (true, event(99, ANNA, "1"), 422, "no variant has the numbers of sale 99, product 30"),
        (true, event(SHOE.0, 4711, "1"), 422, "no customer 4711"),
        (true, event(SHOE.0, ANNA, "1").replace("USD", "EUR"), 422, "does not sell in EUR"),
    ];
    for (signed, body, status, says) in cases {
        let answer = shop.send_event(signed, &body);
        assert!(answer.status == status && answer.body.contains(says), "{body}: {answer:?}");
    }
    assert_eq!(place.counts(), [1, 1, 0], "and nothing of it was kept");
}

/// Its order waits, and is made once an administrator has set them; others pass.
fn a_variant_without_numbers_stops_nothing_else(place: &Place, token: &str) -> String {
    let nameless = place.place(token, "nameless", NAMELESS.0, NAMELESS.1);
    let other = place.place(token, "other", SHOE.0, SHOE.1);
    cancel(place, &other, token);
    wait_until("the other order is made", || place.counts()[0] == 7);
    place.give_numbers("HALF", NAMELESS);
    send_again(place);
    nameless
}

fn an_address_reaches_the_shops_order(place: &Place, order: &str, city: &str, token: &str) {
    assert_eq!(place.city(order), None);
    give_address(place, order, city, token);
    wait_until("the shop's order goes there", || place.city(order).as_deref() == Some(city));
}

fn an_address_of_the_shops_own_stays(place: &Place, order: &str, token: &str) {
    place.write_city(order, "Oslo");
    let heard = place.heard(order);
    give_address(place, order, "Ulm", token);
    wait_until("the shop was notified", || place.heard(order) > heard);
    assert_eq!(place.city(order), Some("Oslo".to_owned()));
}

/// Pays on the shop's page while Doorbuster's answer does not come.
fn pay_unheard(place: &Place, browser: &Browser, reports: Reports, order: &str, token: &str) {
    browser.open(&pay_url(place, order, token));
    place.let_reports(reports);
    browser.click("#pay");
    browser.wait_until("the way back", |browser| browser.url().contains("/orders/"));
    assert_eq!(place.unanswered(), 1);
}

/// Waits until Doorbuster has answered everything that the shop has to report.
fn reported(place: &Place) {
    wait_until("all is reported", || place.unanswered() == 0);
}

/// Everything, now: what failed while the shop was away would come by itself, after minutes.
fn send_again(place: &Place) {
    place.doorbuster(&["webhooks", "replay", "shop", "--since", "0"]);
    place.doorbuster(&["webhooks", "enable", "shop"]);
}

fn cancel(place: &Place, order: &str, token: &str) {
    place.call("POST", &format!("/api/v1/orders/{order}/cancel"), &[("Authorization", token)], "");
}

fn give_address(place: &Place, order: &str, city: &str, token: &str) {
    let body = json!({ "city": city }).to_string();
    place.call("POST", &format!("/api/v1/orders/{order}/address"), &[("Authorization", token)], &body);
}

fn pay_url(place: &Place, order: &str, token: &str) -> String {
    let read = place.call("GET", &format!("/api/v1/orders/{order}"), &[("Authorization", token)], "");
    read["pay_url"].as_str().unwrap().to_owned()
}

/// A link to pay as Doorbuster would sign it.
fn signed_link(order: &str, amount: u64) -> String {
    let key = hmac::Key::new(hmac::HMAC_SHA256, PAYMENT_SECRET.as_bytes());
    let tag = hmac::sign(&key, format!("pay:{order}:{amount}:USD:").as_bytes());
    format!("/doorbuster/pay?order={order}&amount={amount}&currency=USD&back=&sig={}", hex(tag.as_ref()))
}

/// Another provider's payment.
fn report_payment(place: &Place, order: &str) {
    let body = format!(r#"{{"payment_id":"elsewhere","order":"{order}","amount":4900,"currency":"USD"}}"#);
    let at = std::time::UNIX_EPOCH.elapsed().unwrap().as_secs();
    let key = hmac::Key::new(hmac::HMAC_SHA256, PAYMENT_SECRET.as_bytes());
    let tag = hmac::sign(&key, format!("{at}.{body}").as_bytes());
    let signature = format!("t={at},v1={}", hex(tag.as_ref()));
    let answer = place.call("POST", "/api/v1/payments", &[("Doorbuster-Signature", &signature)], &body);
    assert_eq!(answer["result"], "paid");
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
