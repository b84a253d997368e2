//! WCAG 2.2 AA on every state of every page, as far as axe-core can tell: on a phone in light, on a desktop in dark.
//!
//! Needs `dev/install-browser-tools`, which it runs, and which fetches axe-core once.

use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use serde_json::json;
use server::pages::{Branding, Session};

use super::fake::{FakeShop, Fault, PRODUCT, SALE};
use super::steps::{
    buy, come_back, fill_address, open_sale, press_buy, sale_url, wait_for_view, wait_until_open,
};
use super::webdriver::Browser;

/// The script of axe-core.
fn axe() -> &'static str {
    static AXE: OnceLock<String> = OnceLock::new();
    AXE.get_or_init(|| {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../dev/install-browser-tools");
        let output = Command::new(&script).stderr(Stdio::inherit()).output().expect("the script can be run");
        assert!(output.status.success(), "{} failed: axe-core is needed (npm)", script.display());
        let tools = String::from_utf8(output.stdout).expect("a path is text");
        let file = Path::new(tools.trim()).join("node_modules/axe-core/axe.min.js");
        std::fs::read_to_string(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()))
    })
}

/// What axe finds wrong with the page as it is now.
fn faults(browser: &Browser) -> serde_json::Value {
    // A page that has it already need not read its 640 KB again.
    if browser.run("return typeof window.axe") == "undefined" {
        browser.run(axe());
    }
    browser.run_async(
        "const tags = ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice'];
         const described = (node) => `${node.target.join(' ')} (${node.failureSummary})`;
         // What moves is looked at as it comes to rest.
         Promise.all(document.getAnimations().map((animation) => animation.cancel()))
           .then(() => axe.run(document, { runOnly: tags, resultTypes: ['violations'] }))
           .then(({ violations }) => violations.map(({ id, nodes }) => `${id}: ${nodes.map(described).join('; ')}`))
           .then(done, (error) => done([String(error)]));",
    )
}

/// In both looks.
#[track_caller]
pub(super) fn assert_accessible(browser: &Browser, state: &str) {
    for (width, height, dark) in [(360, 800, false), (1280, 900, true)] {
        browser.resize(width, height);
        browser.darken(dark);
        assert_eq!(faults(browser), json!([]), "{state}, {width} px wide");
    }
}

#[test]
fn a_fault_would_be_found() {
    let (shop, browser) = (FakeShop::start(), Browser::start());
    open_sale(&browser, &shop.base, SALE, PRODUCT);
    browser.run(
        "document.querySelector('label[for=city]').remove();
         const [style] = document.styleSheets;
         style.insertRule('.lead { color: #ccc !important; }', style.cssRules.length);",
    );
    let found = faults(&browser).to_string();
    assert!(found.contains("label: #city") && found.contains("color-contrast: .lead"), "{found}");
}

#[test]
fn the_page_of_a_product_is_accessible_in_every_state() {
    let (shop, browser) = (FakeShop::start(), Browser::start());
    shop.state().limit = Some(3);
    shop.state().starts_at_ms = shop.now_ms() + 1_800_000;
    open_sale(&browser, &shop.base, SALE, PRODUCT);
    wait_for_view(&browser, "#offer", "not_started");
    assert_accessible(&browser, "not started");
    fill_address(&browser);
    shop.state().starts_at_ms = shop.now_ms() - 1000;
    browser.reload();
    wait_until_open(&browser);
    assert_accessible(&browser, "live, with an address in one line");
    for (available, phase, view) in
        [(5, "live", "few"), (0, "live", "sold_out"), (5, "paused", "paused"), (5, "ended", "ended")]
    {
        let mut state = shop.state();
        (state.available, state.phase) = (available, phase);
        drop(state);
        wait_for_view(&browser, "#offer", view);
        assert_accessible(&browser, view);
        if view == "few" {
            shop.state().faults.push_back(Fault::Refuse("over_limit"));
            browser.click("#submit");
            browser.wait_for_text("#outcome", "the limit per person");
            assert_accessible(&browser, "refused");
        }
    }
    shop.state().unreachable = true;
    come_back(&browser);
    browser.wait_for_text("#connection", "No connection");
    assert_accessible(&browser, "without a connection");
}

#[test]
fn the_page_of_an_order_is_accessible_in_every_state() {
    let (shop, browser) = (FakeShop::start(), Browser::start());
    let id = buy(&browser, &shop.base, SALE, PRODUCT);
    assert_accessible(&browser, "held");
    browser.click("#cancel");
    assert_accessible(&browser, "asked whether to cancel");
    browser.click("#sure button[value=keep]");
    for (status, refund_due) in [
        ("held", true),
        ("pending", false),
        ("paid", false),
        ("paid", true),
        ("expired", false),
        ("cancelled", true),
        ("refunded", true),
        ("rejected", false),
    ] {
        let closed = if status == "held" || status == "pending" { json!(null) } else { json!(shop.now_ms()) };
        let mut state = shop.state();
        let order = state.orders.get_mut(&id).expect("the order is there");
        order["status"] = json!(status);
        order["refund_due"] = json!(refund_due);
        order["closed_at_ms"] = closed;
        drop(state);
        browser.reload();
        wait_for_view(&browser, "#order", status);
        assert_accessible(&browser, &format!("{status}, refund due: {refund_due}"));
    }
    browser.open(&format!("{}/orders", shop.base));
    wait_for_view(&browser, "#orders", "read");
    assert_accessible(&browser, "my orders");
    browser.open(&format!("{}/orders/{:040x}", shop.base, 7));
    wait_for_view(&browser, "#order", "lost");
    assert_accessible(&browser, "no such order");
    // The way back to it stays on the page of the product.
    browser.open(&sale_url(&shop.base, SALE, PRODUCT));
    browser.wait_for_text("#mine", "See your order");
    assert_accessible(&browser, "ordered before");
}

#[test]
fn the_other_pages_are_accessible() {
    let branding = Branding {
        sign_in_url: Some("https://shop.example/login".to_owned()),
        legal_links: vec![("Imprint".to_owned(), "https://shop.example/imprint".to_owned())],
        ..Branding::default()
    };
    let (shop, browser) = (FakeShop::with_branding(Session::Token, branding), Browser::start());
    for (path, available) in [("/", 100), ("/", 0), ("/api", 100), ("/orders", 100), ("/nothing/here", 100)] {
        let mut state = shop.state();
        (state.available, state.rendered_fresh) = (available, true);
        drop(state);
        browser.open(&format!("{}{path}", shop.base));
        assert_accessible(&browser, &format!("{path} with {available} units"));
    }
    browser.open(&format!("{}/orders/{:040x}", shop.base, 7));
    browser.wait_for_text("#heading", "Sign in to see this order");
    assert_accessible(&browser, "an order without a session");
    open_sale(&browser, &shop.base, SALE, PRODUCT);
    fill_address(&browser);
    press_buy(&browser);
    browser.wait_for_text("#outcome", "Sign in at the shop first");
    assert_accessible(&browser, "a product without a session");
}
