//! The buy button in a page of the shop, which is of another origin than the server.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::sync::{Arc, Mutex};

use engine::Status;
use serde_json::{Value, json};

use super::real::{PRODUCT, SALE, Shop};
use super::real_visitors::token;
use super::steps::wait_for_view;
use super::webdriver::Browser;

/// A shop's page, as strict as pages can be: no style and no script but the button's.
struct Page {
    origin: String,
    html: Arc<Mutex<(String, String)>>,
}

impl Page {
    /// It serves until the test's process ends.
    fn start() -> Page {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let origin = format!("http://{}", listener.local_addr().unwrap());
        let html: Arc<Mutex<(String, String)>> = Arc::default();
        let served = Arc::clone(&html);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                let lines = BufReader::new(stream.try_clone().unwrap()).lines();
                // A browser may open a connection and close it unused.
                if lines.map_while(Result::ok).take_while(|line| !line.is_empty()).count() == 0 {
                    continue;
                }
                let (base, html) = served.lock().unwrap().clone();
                let head = format!(
                    "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nConnection: close\r\nContent-Length: {}\r\n\
                     Content-Security-Policy: default-src 'none'; img-src data:; script-src {base}; connect-src {base}\r\n\r\n",
                    html.len()
                );
                stream.write_all(&[head, html].concat().into_bytes()).unwrap();
            }
        });
        Page { origin, html }
    }

    fn show(&self, browser: &Browser, shop: &Shop, attributes: &str) {
        let html = format!(
            "<!doctype html><html lang=en><title>A shop</title><link rel=icon href='data:,'>\
             <script type=module src='{base}/buy-button.js'></script><main><h1>A watch</h1>\
             <doorbuster-buy sale={SALE} product={PRODUCT} {attributes}></doorbuster-buy></main></html>",
            base = shop.base
        );
        *self.html.lock().unwrap() = (shop.base.clone(), html);
        browser.open("about:blank");
        browser.open(&self.origin);
    }
}

/// What the button and the line under it say.
fn says(browser: &Browser) -> (String, String) {
    let texts = "const root = document.querySelector('doorbuster-buy').shadowRoot;
        return root ? [root.querySelector('button').textContent, root.querySelector('p').textContent] : ['', ''];";
    let Value::Array(texts) = browser.run(texts) else { panic!("two texts") };
    let text = |of: &Value| of.as_str().unwrap().to_owned();
    (text(&texts[0]), text(&texts[1]))
}

fn wait_for_label(browser: &Browser, label: &str) {
    browser.wait_until(label, |browser| says(browser).0 == label);
}

fn press(browser: &Browser) {
    browser.run("document.querySelector('doorbuster-buy').shadowRoot.querySelector('button').click()");
}

#[test]
fn a_page_of_the_shop_sells_by_the_button() {
    let (page, browser) = (Page::start(), Browser::start());
    let shop = Shop::for_pages_of(&page.origin);
    let now_ms = shop.now_ms();
    shop.sell(&json!({ "starts_at_ms": now_ms + 3_600_000, "ends_at_ms": now_ms + 7_200_000, "total": 2 }));
    let expires_s = now_ms / 1000 + 3600;
    page.show(&browser, &shop, "");
    browser.wait_until("a countdown", |browser| says(browser).0.starts_with("Opens in 59 min"));
    press(&browser);
    shop.start_at(shop.now_ms());
    page.show(&browser, &shop, "sign-in-url='https://shop.example/login?back={return}'");
    wait_for_label(&browser, "Buy now");
    press(&browser);
    browser.wait_until("a way to sign in", |browser| {
        says(browser).1 == "Sign in first. Nothing was ordered. Sign in"
    });
    assert!(shop.orders().is_empty());

    page.show(&browser, &shop, &format!("label='Get it' token={}", token(7, expires_s)));
    wait_for_label(&browser, "Get it");
    press(&browser);
    wait_for_view(&browser, "#order", "held");
    let order = shop.only_order();
    assert_eq!((order.buyer.as_str(), order.status), ("7", Status::Held));
    assert_eq!(browser.url(), format!("{}/orders/{}", shop.base, order.id));

    // One unit a person: the page hears of it, and stays.
    page.show(&browser, &shop, &format!("token={}", token(7, expires_s)));
    wait_for_label(&browser, "Buy now");
    browser.run("addEventListener('doorbuster-refused', (event) => (document.title = event.detail.code))");
    press(&browser);
    browser.wait_until("a refusal", |browser| says(browser).1.contains("limit per person"));
    assert_eq!(browser.run("return document.title"), "over_limit");

    // A page may go on by itself.
    page.show(&browser, &shop, &format!("token={}", token(8, expires_s)));
    wait_for_label(&browser, "Buy now");
    browser.run(
        "addEventListener('doorbuster-order', (event) => {
           event.preventDefault();
           document.title = event.detail.id;
         })",
    );
    press(&browser);
    wait_for_label(&browser, "Sold out");
    let ids: Vec<_> = shop.orders().iter().map(|order| order.id.to_string()).collect();
    browser.wait_until("the order's event", |browser| {
        ids.iter().any(|id| browser.run("return document.title") == **id)
    });
    assert_eq!(says(&browser).1, "Reserved!");
    assert_eq!(browser.complaints(), [""; 0]);
}

/// The button sent no price: who had the page open while it was edited ordered at the new one.
#[test]
fn nobody_buys_by_the_button_at_another_price_than_they_were_shown() {
    let (page, browser) = (Page::start(), Browser::start());
    let shop = Shop::for_pages_of(&page.origin);
    let now_ms = shop.now_ms();
    shop.sell(&json!({ "starts_at_ms": now_ms + 3_600_000, "ends_at_ms": now_ms + 7_200_000 }));
    let of = |buyer| format!("token={}", token(buyer, now_ms / 1000 + 3600));
    page.show(&browser, &shop, &of(7));
    browser.wait_until("a countdown", |browser| says(browser).0.starts_with("Opens in 59 min"));
    shop.change_sale(&json!({ "items": [{ "product": PRODUCT, "price": 149_900 }] }));
    shop.start_at(shop.now_ms());
    wait_for_label(&browser, "Buy now");
    press(&browser);
    let changed = "A unit costs €1,499.00 now, and nothing was ordered. Press again to order at that price.";
    browser.wait_until("the new price", |browser| says(browser).1 == changed);
    assert!(shop.orders().is_empty());
    press(&browser);
    wait_for_view(&browser, "#order", "held");
    assert_eq!(shop.only_order().unit_price, 149_900);

    // The page says what it shows, which may be old from the start.
    page.show(&browser, &shop, &format!("price=189900 {}", of(8)));
    wait_for_label(&browser, "Buy now");
    browser
        .run("addEventListener('doorbuster-refused', (event) => (document.title = event.detail.unit_price))");
    press(&browser);
    browser.wait_until("the new price", |browser| says(browser).1 == changed);
    let button = "document.querySelector('doorbuster-buy').getAttribute('price')";
    assert_eq!(browser.run(&format!("return [{button}, document.title]")), json!(["149900", "149900"]));
    press(&browser);
    wait_for_view(&browser, "#order", "held");
    assert_eq!(browser.complaints(), [""; 0]);
}

#[test]
fn a_button_that_can_not_sell_says_why() {
    let (page, browser) = (Page::start(), Browser::start());
    let shop = Shop::for_pages_of(&page.origin);
    page.show(&browser, &shop, "");
    browser.wait_until("no such sale", |browser| says(browser).1 == "This is not on sale.");
    let without = "document.querySelector('doorbuster-buy').remove();
        document.body.append(document.createElement('doorbuster-buy'))";
    browser.run(without);
    browser.wait_until("no attributes", |browser| {
        says(browser).1.contains("its attribute \"sale\" must be a number")
    });
    press(&browser);
}

#[test]
fn the_button_of_an_item_with_a_line_leads_to_it_and_orders_for_whoever_was_called() {
    let (page, browser) = (Page::start(), Browser::start());
    let shop = Shop::for_pages_of(&page.origin);
    // Nobody takes part in its draw: places are in the order of joining.
    shop.sell(&json!({ "line": { "close_s": 86_400 }, "total": 1 }));
    shop.wait_for_draw();
    let line = format!("{}/seckill_{SALE}_{PRODUCT}.html", shop.base);
    let expires_s = shop.now_ms() / 1000 + 3600;
    let of = |buyer| format!("quantity=2 token={}", token(buyer, expires_s));
    page.show(&browser, &shop, "");
    wait_for_label(&browser, "To the line");
    press(&browser);
    browser.wait_until("the line's page", |browser| browser.url() == line);

    page.show(&browser, &shop, &of(7));
    wait_for_label(&browser, "To the line");
    press(&browser);
    browser.wait_for_text("#join-button", "Join the line");
    browser.click("#join-button");
    wait_for_view(&browser, "#line", "called");
    assert_eq!(shop.units(), (0, 0, 0), "it is set aside");

    // Nothing is free, and nothing is sold out.
    page.show(&browser, &shop, &of(8));
    wait_for_label(&browser, "To the line");
    browser.run(
        "addEventListener('doorbuster-line', (event) => {
           event.preventDefault();
           document.title = event.detail.url;
         })",
    );
    press(&browser);
    browser.wait_until("the line's event", |browser| browser.run("return document.title") == *line);

    page.show(&browser, &shop, &of(7));
    wait_for_label(&browser, "To the line");
    press(&browser);
    wait_for_label(&browser, "Buy now");
    let says_now = says(&browser).1;
    assert!(says_now.starts_with("It is your turn: order 1 unit at most until "), "{says_now}");
    press(&browser);
    wait_for_view(&browser, "#order", "held");
    let order = shop.only_order();
    assert_eq!((order.buyer.as_str(), order.status, order.quantity), ("7", Status::Held, 1));
    assert_eq!(shop.units(), (0, 1, 0));
    assert_eq!(browser.complaints(), [""; 0]);
}
