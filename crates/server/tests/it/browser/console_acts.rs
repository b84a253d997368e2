//! What an operator does at the console and can't take back is named first, and what it will come to is said. Against the whole server.

use std::cell::Cell;

use serde_json::{Value, json};

use super::axe::assert_accessible;
use super::console::{ask_by, assert_laid_out, press, sign_in, sign_in_by, wait_for_state};
use super::line::{join, sell};
use super::real::{PRODUCT, SALE, Shop};
use super::steps::wait_for_view;
use super::webdriver::Browser;

pub(super) fn press_item(browser: &Browser, call: &str) {
    ask_by(browser, &format!("#sale-{SALE} button[data-item-call={call}]"));
}

#[test]
fn units_are_added_and_taken_off_with_what_that_comes_to() {
    let (shop, browser) = (Shop::demo(), Browser::start());
    shop.sell(&json!({ "total": 120 }));
    shop.order_as("1");
    sign_in(&browser, &shop);
    let row = format!("#sale-{SALE} tbody tr");
    browser.wait_for_text(&row, "119\t1\t0\t120");
    press_item(&browser, "restock");
    assert_eq!(browser.text("#ask-sum"), "");
    for not_countable in ["1.5", "99999999999999999999"] {
        browser.type_into("#field-units", not_countable);
        assert_eq!(browser.text("#ask-sum"), "", "{not_countable}");
    }
    browser.type_into("#field-units", "50");
    browser.wait_for_text("#ask-sum", "Adds 50 to 120: 170 in all, 169 of them left.");
    browser.click("#ask-no");
    press_item(&browser, "correct");
    browser.type_into("#field-units", "120");
    browser.wait_for_text("#ask-sum", "Only 119 are left: 120 can't be taken off.");
    browser.click("#ask-do");
    browser.wait_until("it is refused", |browser| !browser.text("#ask-problem").is_empty());
    // Somebody orders while it is asked.
    shop.order_as("2");
    browser.wait_for_text(&row, "118\t2\t0\t120");
    browser.type_into("#field-units", "20");
    browser.wait_for_text("#ask-sum", "Takes 20 off 120: 100 in all, 98 of them left.");
    assert_accessible(&browser, "the console that takes units off");
    browser.click("#ask-do");
    browser.wait_for_text(&row, "98\t2\t0\t100");
    browser.wait_for_text("#events", "corrected no. 40 product 7, 20 units: 120 -> 100");
    assert_eq!(shop.units(), (98, 2, 0));
}

#[test]
fn the_price_of_an_item_is_changed_before_the_sale() {
    let (shop, browser) = (Shop::demo(), Browser::start());
    let later = shop.now_ms() + 3_600_000;
    shop.sell(&json!({ "starts_at_ms": later, "ends_at_ms": later + 3_600_000 }));
    sign_in(&browser, &shop);
    wait_for_state(&browser, "planned");
    press_item(&browser, "edit");
    assert_eq!(browser.run("return document.getElementById('field-price').value"), "189900");
    browser.type_into("#field-price", "0");
    browser.click("#ask-do");
    browser.wait_for_text(
        "#ask-problem",
        &format!("Product {PRODUCT} costs nothing. Press again if that is meant."),
    );
    browser.type_into("#field-price", "179900");
    browser.type_into("#field-limit", "2");
    browser.click("#ask-do");
    browser.wait_until("the price", |_| shop.get(&format!("sales/{SALE}"))["items"][0]["price"] == 179_900);
    let item = shop.get(&format!("sales/{SALE}"))["items"][0].clone();
    assert_eq!((&item["list_price"], &item["limit"]), (&json!(249_900), &json!(2)));

    // Somebody else changes the price, and what is not changed here, while the form is open.
    press_item(&browser, "edit");
    browser.type_into("#field-price", "159900");
    shop.change_sale(&json!({ "items": [{ "product": PRODUCT, "price": 169_900, "limit": 3 }] }));
    browser.click("#ask-do");
    let expected = "Price, in the smallest unit of EUR: somebody else has made it “169900” meanwhile. Press again if that is meant.";
    browser.wait_for_text("#ask-problem", expected);
    browser.click("#ask-do");
    browser.wait_until("the price", |_| shop.get(&format!("sales/{SALE}"))["items"][0]["price"] == 159_900);
    assert_eq!(shop.get(&format!("sales/{SALE}"))["items"][0]["limit"], 3);
}

/// Who is signed out while they type: what they left as it was may be another's by then.
#[test]
fn a_draft_has_what_was_typed_alone() {
    let (shop, browser) = (Shop::demo(), Browser::start());
    let later = shop.now_ms() + 3_600_000;
    shop.sell(&json!({ "starts_at_ms": later, "ends_at_ms": later + 3_600_000 }));
    sign_in(&browser, &shop);
    wait_for_state(&browser, "planned");
    press_item(&browser, "edit");
    browser.type_into("#field-price", "159900");
    let end = "fetch('/api/v1/console/session/end', { method: 'POST' }).then(({ status }) => { \
               document.dispatchEvent(new Event('doubted')); done(status); })";
    assert_eq!(browser.run_async(end), 204);
    browser.wait_for_text("#sign-in-problem", "You were signed out.");
    shop.change_sale(&json!({ "items": [{ "product": PRODUCT, "price": 169_900, "limit": 3 }] }));
    sign_in(&browser, &shop);
    wait_for_state(&browser, "planned");
    press_item(&browser, "edit");
    let typed = |field: &str| browser.run(&format!("return document.getElementById('field-{field}').value"));
    assert_eq!((typed("price"), typed("limit")), (json!("159900"), json!("3")));
    browser.click("#ask-do");
    browser.wait_for_text("#ask-problem", "somebody else has made it “169900” meanwhile");
    browser.click("#ask-do");
    browser.wait_until("the price", |_| shop.get(&format!("sales/{SALE}"))["items"][0]["price"] == 159_900);
    assert_eq!(shop.get(&format!("sales/{SALE}"))["items"][0]["limit"], 3);
}

#[test]
fn a_sale_that_is_paused_before_its_start_is_still_to_come() {
    let (shop, browser) = (Shop::with_tokens(), Browser::start());
    let later = shop.now_ms() + 3_600_000;
    shop.sell(&json!({ "starts_at_ms": later, "ends_at_ms": later + 3_600_000 }));
    shop.steer("pause");
    sign_in(&browser, &shop);
    wait_for_state(&browser, "paused");
    browser.wait_for_text(&format!("#when-{SALE}"), "starts in 59 min ");
    browser.wait_for_text(&format!("#when-{SALE}"), ", if it is resumed by then");
    let left = "return [...document.querySelectorAll('#tiles dt')].find((name) => name.textContent === 'Left')\
                .nextSibling.firstChild.textContent";
    assert_eq!(browser.run(left), "0", "nothing of it sells");
    let hidden = "return [...document.querySelectorAll('article button[data-call], td button[data-item-call]')]\
                  .filter((button) => button.hidden).map((button) => button.textContent)";
    assert_eq!(browser.run(hidden), json!(["Pause"]));
    press_item(&browser, "edit");
    browser.wait_for_text("#ask-says", "is sold on the terms that stand here then");
    browser.click("#ask-no");
    // Its end is nobody's loss yet, and its start can be moved.
    press(&browser, "edit");
    for (field, minutes) in [("starts_at_ms", 30), ("ends_at_ms", 90)] {
        browser.run(&format!(
            "const at = new Date(Date.now() + {minutes} * 60000); document.querySelector('#field-{field}').value = \
             new Date(at - at.getTimezoneOffset() * 60000).toISOString().slice(0, 19)"
        ));
    }
    browser.click("#ask-do");
    browser.wait_for_text(&format!("#when-{SALE}"), "starts in 29 min ");
    press(&browser, "resume");
    browser.wait_for_text("#ask-says", "starts as planned, in 29 min ");
    browser.click("#ask-do");
    wait_for_state(&browser, "planned");
}

#[test]
fn an_earlier_end_says_how_soon_and_asks_for_the_title_as_it_is_read() {
    let (shop, browser) = (Shop::demo(), Browser::start());
    shop.sell(&json!({ "title": "Opening  night " }));
    sign_in(&browser, &shop);
    wait_for_state(&browser, "live");
    let ends_in = |seconds: i64| {
        let field = "document.querySelector('#field-ends_at_ms')";
        browser.run(&format!(
            "const at = new Date(Date.now() + {seconds}000); \
             {field}.value = new Date(at - at.getTimezoneOffset() * 60000).toISOString().slice(0, 19)"
        ));
        browser.click("#ask-do");
    };
    press(&browser, "edit");
    assert_eq!(browser.text("#ask-typed"), "");
    ends_in(600);
    browser.wait_for_text("#ask-problem", "This can't be taken back: type the sale's title.");
    browser.wait_for_text("#ask-says", "ends in 9 min ");
    browser.wait_for_text("#ask-says", " before its time, with 100 units left.");
    assert_accessible(&browser, "the console that asks for the title");
    ends_in(-5);
    browser.wait_for_text("#ask-problem", "That is not the sale's title");
    browser.wait_for_text("#ask-says", "ends at once");
    browser.type_into("#typed", "Opening");
    browser.click("#ask-do");
    browser.wait_for_text("#ask-problem", "That is not the sale's title");
    assert_eq!(browser.text(&format!("#sale-{SALE} .state")), "live");
    browser.type_into("#typed", "Opening night");
    ends_in(300);
    browser.wait_for_text(&format!("#when-{SALE}"), "ends in 4 min ");
    // A later one is no loss.
    press(&browser, "edit");
    ends_in(1_800);
    browser.wait_for_text(&format!("#when-{SALE}"), "ends in 29 min ");
    press(&browser, "end");
    browser.type_into("#typed", "Opening night");
    browser.click("#ask-do");
    wait_for_state(&browser, "ended");
}

#[test]
fn a_payment_for_nothing_is_settled_by_the_orders_number() {
    let (shop, browser) = (Shop::demo(), Browser::start());
    shop.sell(&json!({}));
    let order = shop.order_as("7");
    shop.cancel(&order);
    shop.provider_says(&json!({ "payment_id": "bank <7>", "order": order, "amount": 189_900 }));
    sign_in_by(&browser, &shop, &shop.add_operator("support"));
    browser.wait_for_text("#who", "support");
    browser.type_into("#order-number", &order);
    browser.click("#find-order button");
    browser.wait_for_text("#found-order", "1899.00 EUR of bank <7> are to be given back.");
    let title = browser.text("#found-order h3");
    let number = title.split(' ').next().unwrap();
    browser.click("#found-order button[data-order-call=settle]");
    browser.wait_for_text("#ask-says", "Notes that 1899.00 EUR of “bank <7>” were given back");
    browser.wait_for_text("#ask-typed", "To go on, type the order's number");
    browser.click("#ask-do");
    browser.wait_for_text("#ask-problem", &format!("That is not the order's number: “{number}”."));
    browser.type_into("#typed", &number.to_lowercase().replace('-', " "));
    browser.click("#ask-do");
    browser.wait_for_text("#done", "Settled.");
    browser
        .wait_until("nothing is due", |browser| !browser.text("#found-order").contains("to be given back"));
}

#[test]
fn the_figures_can_be_taken_away_as_csv() {
    // As pressed: only then it is known which time is shown.
    const READ: &str = "const link = document.getElementById('csv'); \
        link.addEventListener('click', (event) => event.preventDefault(), { once: true }); \
        link.click(); \
        fetch(link.href).then(async (answer) => done([answer.status, link.hasAttribute('download'), await answer.text()]))";
    let (shop, browser) = (Shop::demo(), Browser::start());
    shop.sell(&json!({ "total": 3 }));
    sign_in(&browser, &shop);
    wait_for_state(&browser, "live");
    shop.order_as("1");
    browser.wait_for_text(&format!("#sale-{SALE} tbody tr"), "2\t1\t0\t3");
    browser.click(&format!("#sale-{SALE} td button[aria-pressed]"));
    browser.wait_until("a second that was kept", |browser| {
        let read = browser.run_async(READ);
        let [Value::Number(status), Value::Bool(download), Value::String(text)] =
            &read.as_array().unwrap()[..]
        else {
            panic!("{read}")
        };
        assert_eq!((status.as_u64(), download), (Some(200), &true));
        text.starts_with("at_ms,")
            && text.lines().any(|line| line.contains(",2,0,1,0,") || line.ends_with(",2,0,1,0"))
    });
}

#[test]
fn a_sale_that_has_ended_leads_to_its_report() {
    let (shop, browser) = (Shop::demo(), Browser::start());
    let later = shop.now_ms() + 3_600_000;
    shop.sell(&json!({ "id": 41, "starts_at_ms": later, "ends_at_ms": later + 3_600_000, "items": [{ "product": 8, "title": "Lamp", "price": 1, "total": 1, "limit": null }] }));
    shop.sell(&json!({}));
    shop.order_as("1");
    sign_in_by(&browser, &shop, &shop.add_operator("support"));
    wait_for_state(&browser, "live");
    let shown = "return [...document.querySelectorAll('.report')].filter((link) => link.checkVisibility()).map((link) => link.pathname)";
    // Whoever presses it while the sale sells has the whole ledger audited meanwhile.
    assert_eq!(browser.run(shown), json!([]));
    shop.steer("end");
    wait_for_state(&browser, "ended");
    assert_eq!(browser.run(shown), json!([format!("/console/sales/{SALE}/report")]));
    // It says what operators did, which is support's to read.
    browser.click("#sign-out");
    browser.wait_for_text("#sign-in", "Operator token");
    sign_in_by(&browser, &shop, &shop.add_operator("viewer"));
    wait_for_state(&browser, "ended");
    assert_eq!(
        browser.run(&format!("return document.querySelector('#sale-{SALE} .report').checkVisibility()")),
        false
    );
}

#[test]
fn of_an_item_that_sells_it_says_how_long_orders_took_and_why_some_were_refused() {
    let (shop, browser) = (Shop::demo(), Browser::start());
    shop.sell(&json!({ "total": 10_000, "limit": 1 }));
    sign_in(&browser, &shop);
    wait_for_state(&browser, "live");
    let says = format!("#sale-{SALE} tbody tr .does");
    // Both are of one second: somebody orders as long as nobody has seen them.
    let member = Cell::new(0);
    browser.wait_until("refusals and times", |browser| {
        member.set(member.get() + 1);
        shop.order_as(&member.get().to_string());
        let refused = shop.refused_as(&member.get().to_string());
        assert_eq!(refused, "over_limit");
        let says = browser.text(&says);
        says.contains(" refused/s (over limit ") && says.contains("p50 ") && says.contains(", p99 ")
    });
    assert_laid_out(&browser);
}

#[test]
fn a_line_that_was_held_back_is_let_in() {
    let (shop, (browser, waits)) = (Shop::demo(), Browser::two());
    sell(&shop, json!({ "line": { "grace_s": 600 }, "total": 3 }));
    sign_in_by(&browser, &shop, &shop.add_operator("operator"));
    press_item(&browser, "pace");
    browser.type_into("#field-per_s_max", "0");
    browser.click("#ask-do");
    let line = format!("#line-{SALE}-{PRODUCT}");
    browser.wait_for_text(&line, "Pace is limited\n0 a second");
    for member in ["1", "2"] {
        shop.line_as(member, "");
    }
    join(&waits, &shop);
    browser.wait_for_text(&line, "Waiting\n3");
    for member in ["1", "2"] {
        assert_eq!(shop.line_as(member, "/presence")["standing"], "waiting", "{member}");
    }

    press_item(&browser, "let_all_in");
    browser.wait_for_text("#ask-says", "3 people wait, 3 units are free.");
    browser.type_into("#field-why", "the payments are back");
    browser.type_into("#typed", "Opening night");
    browser.click("#ask-do");
    browser.wait_for_text("#done", "No limit holds the line back.");
    for member in ["1", "2"] {
        browser.wait_until("who waited is called", |_| {
            shop.line_as(member, "/presence")["standing"] == "called"
        });
    }
    wait_for_view(&waits, "#line", "called");
    for shown in ["Pace is limited\nno", "Called\n3", "Waiting\n0"] {
        browser.wait_for_text(&line, shown);
    }
    shop.order_as("1");
    assert_eq!(shop.units().1, 1, "who was let in has ordered");
    let log = shop.operators_log();
    let of_line = |action: &&Value| action["what"] == "line_pace_limited";
    let said = |action: &Value| json!([action["who"], action["about"], action["why"]]);
    let said: Vec<Value> = log.iter().filter(of_line).map(said).collect();
    let expected = [
        json!(["operator", "product 7, no limit", "the payments are back"]),
        json!(["operator", "product 7, 0 per second", ""]),
    ];
    assert_eq!(said, expected);
    let entry = "operator: line pace limited no. 40 product 7, no limit (the payments are back)";
    browser.wait_for_text("#events", entry);
    assert_eq!((browser.complaints(), waits.complaints()), (vec![], vec![]));
}
