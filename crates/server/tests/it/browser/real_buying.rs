//! Buying from the real server: what the page says and what the ledger holds are the same.

use engine::Status;
use serde_json::json;

use super::real::{PRODUCT, SALE, Shop, TITLE};
use super::steps::{
    buy, fill_address, is_open, open_sale, press_buy, sale_url, type_address, wait_for_order,
    wait_for_order_page, wait_for_view, wait_until_open,
};
use super::webdriver::Browser;

#[test]
fn from_the_list_of_sales_to_a_paid_order() {
    let (shop, browser) = (Shop::demo(), Browser::start());
    shop.sell(&json!({}));
    browser.open(&format!("{}/", shop.base));
    browser.wait_for_text(&format!("[aria-labelledby=sale-{SALE}] [data-when]"), "Ends in");
    browser.click(&format!("a[href='/seckill_{SALE}_{PRODUCT}.html']"));
    browser.wait_for_text("h1", TITLE);
    type_address(&browser);
    press_buy(&browser);
    let id = wait_for_order(&browser);
    assert_eq!(browser.text("#product"), TITLE);
    assert_eq!(browser.text("#amount"), "€1,899.00");
    assert_eq!(shop.units(), (99, 1, 0));

    assert_eq!(browser.text("#pay"), "Pay €1,899.00 (demo)");
    browser.click("#pay");
    wait_for_view(&browser, "#order", "paid");
    // The button that had the focus is gone; the news has it.
    assert_eq!(browser.run("return document.activeElement.id"), "heading");
    assert!(browser.text("#actions").is_empty());
    assert_eq!(shop.units(), (99, 0, 1));
    let order = shop.only_order();
    assert_eq!((order.id.to_string(), order.status), (id, Status::Paid));
    let address: serde_json::Value = serde_json::from_str(&order.address.unwrap()).unwrap();
    assert_eq!(address["name"], "Zoë Ångström");
    assert_eq!(address["detail"], "Götgatan 1 \"B\"");
    browser.reload();
    wait_for_view(&browser, "#order", "paid");
    assert_eq!(browser.complaints(), [""; 0]);
}

#[test]
fn the_last_unit_goes_to_the_second_browser_when_the_first_cancels() {
    let (shop, (first, second)) = (Shop::demo(), Browser::two());
    shop.sell(&json!({ "total": 1 }));
    open_sale(&second, &shop.base, SALE, PRODUCT);
    wait_for_view(&second, "#offer", "live");
    second.run("window.sameDocument = true");
    let id = buy(&first, &shop.base, SALE, PRODUCT);
    wait_for_view(&second, "#offer", "sold_out");
    assert!(!is_open(&second));

    // The order is the first browser's: the second one is answered that there is no such order.
    let offer = second.new_tab();
    second.open(&format!("{}/orders/{id}", shop.base));
    second.wait_for_text("#heading", "No such order");
    assert!(second.text("#facts").is_empty());
    second.switch_to(&offer);

    first.click("#cancel");
    first.click("#sure button[value=keep]");
    assert_eq!(shop.only_order().status, Status::Held);
    first.click("#cancel");
    first.click("#sure button[value=cancel]");
    wait_for_view(&first, "#order", "cancelled");
    wait_for_view(&second, "#offer", "live");
    assert_eq!(second.run("return window.sameDocument"), true, "without a reload");
    fill_address(&second);
    press_buy(&second);
    let next = wait_for_order(&second);
    assert_ne!(next, id);
    assert_eq!(shop.units(), (0, 1, 0));
    let closed: Vec<_> = shop.orders().iter().map(|order| (order.id.to_string(), order.status)).collect();
    assert_eq!(closed, [(id, Status::Cancelled), (next, Status::Held)]);
}

#[test]
fn units_of_an_expired_order_are_bought_by_who_waited() {
    let (shop, browser) = (Shop::demo(), Browser::start());
    // Longer than the page waits between two looks at the stock, so that it sees both changes, and than its reader
    // takes to press the button in between, on however busy a machine.
    shop.sell(&json!({ "total": 1, "payment_s": 15 }));
    open_sale(&browser, &shop.base, SALE, PRODUCT);
    fill_address(&browser);
    wait_until_open(&browser);
    shop.order_as("77");
    wait_for_view(&browser, "#offer", "sold_out");
    browser.click("#submit");
    browser.wait_for_text("#outcome", "Sold out. Nothing was ordered.");
    wait_for_view(&browser, "#offer", "live");
    assert!(browser.text("#status").contains("Units are back: 1 unit left"));
    press_buy(&browser);
    wait_for_order(&browser);
    let statuses: Vec<_> = shop.orders().iter().map(|order| order.status).collect();
    assert_eq!(statuses, [Status::Expired, Status::Held]);
}

#[test]
fn an_unpaid_order_expires_on_its_page() {
    let (shop, browser) = (Shop::demo(), Browser::start());
    shop.sell(&json!({ "payment_s": 2 }));
    open_sale(&browser, &shop.base, SALE, PRODUCT);
    fill_address(&browser);
    press_buy(&browser);
    wait_for_order_page(&browser);
    wait_for_view(&browser, "#order", "expired");
    assert!(browser.text("#actions").is_empty());
    assert_eq!(shop.units(), (100, 0, 0));
    browser.click("#back");
    wait_until_open(&browser);
    assert_eq!(shop.only_order().status, Status::Expired);
}

#[test]
fn a_double_click_makes_one_order() {
    let (shop, browser) = (Shop::demo(), Browser::start());
    // Nothing but the page and its key stands between a second press and a second order.
    shop.sell(&json!({ "limit": null }));
    open_sale(&browser, &shop.base, SALE, PRODUCT);
    fill_address(&browser);
    wait_until_open(&browser);
    browser.run("const button = document.getElementById('submit'); button.click(); button.click();");
    let id = wait_for_order(&browser);
    assert_eq!(shop.only_order().id.to_string(), id);
    assert_eq!(shop.units(), (99, 1, 0));
}

/// From the moment that the attempt is stored: before it is sent, while it is under way, after its answer.
const RELOADS_AFTER_MS: [u32; 5] = [0, 2, 5, 15, 60];

#[test]
fn a_reload_in_mid_order_never_buys_twice() {
    let (shop, browser) = (Shop::demo(), Browser::start());
    shop.sell(&json!({ "limit": null }));
    for (before, after_ms) in RELOADS_AFTER_MS.into_iter().enumerate() {
        browser.open(&format!("{}/healthz", shop.base));
        browser.run("localStorage.clear()");
        open_sale(&browser, &shop.base, SALE, PRODUCT);
        fill_address(&browser);
        wait_until_open(&browser);
        browser.run(&format!(
            "const set = Storage.prototype.setItem;
             Storage.prototype.setItem = function (name, value) {{
               set.call(this, name, value);
               if (name.includes('attempt')) setTimeout(() => location.reload(), {after_ms});
             }};
             window.beforeReload = true;
             document.getElementById('submit').click();"
        ));
        browser.wait_until("the reload", |browser| browser.run("return !window.beforeReload") == true);
        // The answer was there first: then the page links to the order instead of going there.
        browser.wait_until("the order", |browser| {
            browser.url().contains("/orders/") || browser.text("#mine").contains("See your order")
        });
        if !browser.url().contains("/orders/") {
            browser.click("#mine a");
        }
        let id = wait_for_order(&browser);
        let orders = shop.orders();
        assert_eq!(orders.len(), before + 1, "reloaded after {after_ms} ms: {orders:?}");
        assert_eq!(orders[before].id.to_string(), id);
    }
}

#[test]
fn the_limit_is_shown() {
    let (shop, browser) = (Shop::demo(), Browser::start());
    shop.sell(&json!({}));
    let id = buy(&browser, &shop.base, SALE, PRODUCT);
    browser.open(&sale_url(&shop.base, SALE, PRODUCT));
    browser.wait_for_text("#mine", "See your order");
    fill_address(&browser);
    press_buy(&browser);
    browser.wait_for_text("#outcome", "You have reached the limit per person");
    assert_eq!(shop.only_order().id.to_string(), id);
}

#[test]
fn my_orders_are_listed_as_they_stand() {
    let (shop, browser) = (Shop::demo(), Browser::start());
    shop.sell(&json!({ "limit": null }));
    browser.open(&format!("{}/orders", shop.base));
    browser.wait_for_text("#outcome", "None yet");
    let first = buy(&browser, &shop.base, SALE, PRODUCT);
    browser.click("#pay");
    wait_for_view(&browser, "#order", "paid");
    let second = buy(&browser, &shop.base, SALE, PRODUCT);
    let number = browser.text("#short");
    assert_eq!((number.len(), number.find('-')), (9, Some(4)), "{number}");
    assert_eq!(browser.text("#id"), second);
    browser.click("nav a[href='/orders']");
    wait_for_view(&browser, "#orders", "read");
    let list = browser.text("#list");
    let lines: Vec<&str> = list
        .lines()
        .filter(|line| line.starts_with("No. ") || *line == "Paid" || *line == "Reserved")
        .collect();
    assert!(lines[0].starts_with(&format!("No. {number} · ")), "{list}");
    assert!(lines[0].ends_with("€1,899.00"), "{list}");
    assert_eq!((lines[1], lines[3]), ("Reserved", "Paid"), "{list}");
    browser.click("#list li:last-child a");
    wait_for_view(&browser, "#order", "paid");
    assert!(browser.url().contains(&first));
    assert_eq!(browser.complaints(), [""; 0]);
    // From the list of sales to all that one has.
    browser.open(&format!("{}/", shop.base));
    browser.click(&format!("#sale-{SALE} a"));
    browser.wait_for_text("h1", "Opening night");
}
