//! The console in a browser, against the whole server: signing in, what it shows, what it does, and when nobody answers.

use serde_json::json;

use super::axe::assert_accessible;
use super::real::{OPERATOR, PRODUCT, SALE, Shop, TITLE};
use super::steps::open_sale;
use super::webdriver::Browser;

const WIDE: &str = "return document.documentElement.scrollWidth - document.documentElement.clientWidth";
/// Words of names that stand on two lines.
const BROKEN_WORDS: &str = "return [...document.querySelectorAll('dt, th, .mark, #runbook')].flatMap(({ childNodes }) => \
    [...childNodes].filter((node) => node.nodeType === Node.TEXT_NODE).flatMap((text) => \
      [...text.data.matchAll(/\\S+/g)].filter(({ 0: word, index }) => { \
        const range = document.createRange(); \
        range.setStart(text, index); \
        range.setEnd(text, index + word.length); \
        return range.getClientRects().length > 1; \
      }).map(([word]) => word)))";

/// At the width that it has.
/// The innermost elements that reach farther than the page is wide.
const REACHES_OUT: &str = "const reaches = (of) => of.getBoundingClientRect().right > document.documentElement.clientWidth; \
    return [...document.querySelectorAll('body *')].filter((of) => reaches(of) && ![...of.children].some(reaches)).map((of) => of.outerHTML.slice(0, 200))";

#[track_caller]
pub(crate) fn assert_laid_out(browser: &Browser) {
    let width = browser.run("return innerWidth");
    assert_eq!(browser.run(WIDE), 0, "{width} px: {}", browser.run(REACHES_OUT));
    assert_eq!(browser.run(BROKEN_WORDS), json!([]), "{width} px");
}

pub(crate) fn sign_in(browser: &Browser, shop: &Shop) {
    sign_in_by(browser, shop, OPERATOR);
}

pub(crate) fn sign_in_by(browser: &Browser, shop: &Shop, token: &str) {
    browser.open(&format!("{}/console", shop.base));
    browser.wait_for_text("#sign-in", "Operator token");
    browser.type_into("#token", token);
    browser.click("#sign-in button");
    browser.wait_for_text("#age", "live");
}

pub(crate) fn press(browser: &Browser, call: &str) {
    ask_by(browser, &format!("#sale-{SALE} button[data-call={call}]"));
}

/// Figures may show what was done before its answer has come, which closes the form that lies over the buttons.
pub(crate) fn ask_by(browser: &Browser, button: &str) {
    let is_open = |browser: &Browser| browser.run("return document.getElementById('ask').open") == true;
    browser.wait_until("what was asked before is answered", |browser| !is_open(browser));
    browser.click(button);
    browser.wait_until("it says what it will do", is_open);
}

pub(crate) fn wait_for_state(browser: &Browser, state: &str) {
    browser.wait_for_text(&format!("#sale-{SALE} .state"), state);
}

/// Until it says that there have been no figures for so many seconds, or for longer.
pub(crate) fn wait_until_old(browser: &Browser, seconds_min: u64) {
    browser.wait_until(&format!("figures that are {seconds_min} s old"), |browser| {
        let text = browser.text("#age");
        let age = text.strip_prefix("figures ").and_then(|age| age.split_once(' '));
        age.is_some_and(|(number, unit)| {
            !unit.starts_with("s ") || number.parse::<u64>().unwrap() >= seconds_min
        })
    });
}

#[test]
fn who_has_the_token_sees_the_sale_as_it_happens() {
    let (shop, browser) = (Shop::demo(), Browser::start());
    shop.sell(&json!({ "total": 3 }));
    browser.open(&format!("{}/console", shop.base));
    browser.wait_for_text("#sign-in", "Operator token");
    assert_eq!(browser.run("return document.activeElement.id"), "token");
    assert_accessible(&browser, "the console before signing in");
    browser.type_into("#token", "a wrong token, as long as one");
    browser.click("#sign-in button");
    browser.wait_for_text("#sign-in-problem", "operator");
    sign_in(&browser, &shop);
    assert_eq!(browser.run("return document.cookie.includes('doorbuster_console')"), false);
    wait_for_state(&browser, "live");
    for member in 1..=2 {
        shop.order_as(&member.to_string());
    }
    let row = format!("#sale-{SALE} tbody tr");
    browser.wait_for_text(&row, "1\t2\t0\t3");
    let last = shop.order_as("3");
    browser.wait_for_text(&row, "0\t3\t0\t3");
    browser.wait_for_text(&format!("#does-{SALE}"), "accepted/s");
    browser.wait_for_text("#events", &format!("“{TITLE}” is sold out."));
    browser.wait_until("the moment of sell-out", |browser| browser.text(&row).contains(':'));
    browser.wait_for_text("#units-chart", "held");
    assert!(!browser.text("#says").is_empty() && !browser.text("#level").is_empty());
    for (width, height) in [(360, 800), (1280, 900), (2560, 1440)] {
        browser.resize(width, height);
        assert_laid_out(&browser);
    }
    assert_accessible(&browser, "the console of a sale that is sold out");
    shop.cancel(&last);
    browser.wait_for_text(&format!("#holds-{SALE}"), "of 1 holds that ended 0 were paid · 1 cancelled");
    browser.wait_for_text("#events", &format!("“{TITLE}” is on sale again."));
    browser.wait_for_text("#events", "root: ");
    // A session outlives the page, until one signs out.
    browser.reload();
    browser.wait_for_text("#age", "live");
    browser.click("#sign-out");
    browser.wait_for_text("#sign-in", "Operator token");
    browser.reload();
    browser.wait_for_text("#sign-in", "Operator token");
}

#[test]
fn a_line_is_seen_as_it_goes() {
    let (shop, (browser, waits)) = (Shop::demo(), Browser::two());
    // Nobody takes part in its draw: places are in the order of joining.
    shop.sell(&json!({ "line": { "close_s": 86_400 }, "total": 2 }));
    shop.wait_for_draw();
    sign_in(&browser, &shop);
    let line = format!("#line-{SALE}-{PRODUCT}");
    browser.wait_for_text(&line, "Joined\n0");
    for member in ["1", "2", "3"] {
        shop.line_as(member, "");
    }
    browser.wait_for_text(&line, "Joined\n3");
    browser.wait_for_text(&line, "Waiting\n1");
    for member in ["1", "3"] {
        shop.line_as(member, "/presence");
    }
    browser.wait_for_text(&line, "There\n1");
    browser.wait_for_text(&line, "Turns open\n1\nunits set aside: 1; 1 reached and not seen yet");
    // What is in turns is left: nobody has ordered it.
    browser.wait_for_text(&format!("#sale-{SALE} tbody tr"), "2\t0\t0\t2");
    shop.order_as("1");
    browser.wait_for_text(&line, "Called\n1\n1 ordered");
    browser.wait_for_text(&line, "Draw\ndrawn");
    browser.click("button[data-item-call=pace]");
    browser.wait_for_text("#ask-says", "now it has no limit of its own. 0: nobody more is reached.");
    browser.type_into("#field-per_s_max", "0");
    browser.click("#ask-do");
    browser.wait_for_text(&line, "Pace is limited\n0 a second\nnobody more is reached");
    browser.wait_for_text("#events", "line pace limited");
    browser.click("button[data-item-call=let_all_in]");
    browser.wait_for_text("#ask-says", "has no limit any more: everybody who is there is called at once");
    browser.click("#ask-do");
    browser.wait_for_text("#ask-problem", "That is not the sale's title: “Opening night”.");
    browser.click("#ask-no");
    // The same by another name; a limit is taken back by another one.
    ask_by(&browser, "button[data-item-call=pace]");
    browser.type_into("#field-per_s_max", "5");
    browser.click("#ask-do");
    browser.wait_for_text(&line, "Pace is limited\n5 a second");
    ask_by(&browser, "button[data-item-call=pace]");
    browser.type_into("#field-per_s_max", "");
    browser.click("#ask-do");
    browser.wait_for_text("#ask-problem", "This can't be taken back: type the sale's title.");
    browser.type_into("#typed", "Opening night");
    browser.click("#ask-do");
    browser.wait_for_text(&line, "Pace is limited\nno");
    open_sale(&waits, &shop.base, SALE, PRODUCT);
    assert_eq!(waits.text("#message"), "");
    browser.click("button[data-item-call=message]");
    browser.wait_for_text("#ask-says", "reads this within seconds, 3 people if all");
    browser.type_into("#field-message", "We are <b>slow</b> tonight.");
    browser.click("#ask-do");
    waits.wait_for_text("#message", "We are <b>slow</b> tonight.");
    assert_accessible(&waits, "a line that was sent a message");
    assert_eq!(waits.complaints(), Vec::<String>::new());
    browser.wait_for_text("#events", "line told");
    browser.wait_for_text(&line, "Everybody reads\nWe are <b>slow</b> tonight.");
    for (width, height) in [(360, 800), (1280, 900)] {
        browser.resize(width, height);
        assert_laid_out(&browser);
    }
    assert_accessible(&browser, "the console of a line");
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

#[test]
fn what_a_role_may_not_do_is_not_there() {
    // Of this sale: others that the demo has may not have started yet.
    let shown_now = format!(
        "return [...new Set([...document.querySelectorAll('#sale-{SALE} :is([data-call], [data-item-call])')] \
         .filter((button) => getComputedStyle(button).display !== 'none').map((button) => button.textContent))].sort().join()"
    );
    let (shop, browser) = (Shop::demo(), Browser::start());
    shop.sell(&json!({ "total": 3 }));
    for (role, shown) in [
        ("viewer", ""),
        ("support", ""),
        ("operator", "Duplicate,Edit,End now,Pause,Restock"),
        ("admin", "Correct,Duplicate,Edit,End now,Pause,Restock"),
    ] {
        let token = shop.add_operator(role);
        sign_in_by(&browser, &shop, &token);
        wait_for_state(&browser, "live");
        browser.wait_for_text("#who", &format!("{role}, {role}"));
        assert_eq!(browser.run(&shown_now), shown, "{role}");
        assert_accessible(&browser, &format!("the console of a {role}"));
        browser.click("#sign-out");
    }
}

#[test]
fn a_sale_is_paused_resumed_and_ended_by_two_operators_at_once() {
    let shop = Shop::demo();
    shop.sell(&json!({}));
    let (one, other) = Browser::two();
    for browser in [&one, &other] {
        sign_in(browser, &shop);
        wait_for_state(browser, "live");
        press(browser, "pause");
        browser.wait_for_text("#ask-says", "Nobody can order");
    }
    assert_accessible(&one, "the console that asks");
    std::thread::scope(|scope| {
        for browser in [&one, &other] {
            scope.spawn(|| browser.click("#ask-do"));
        }
    });
    for browser in [&one, &other] {
        wait_for_state(browser, "paused");
        browser.wait_for_text("#events", "“Opening night” is paused.");
        browser.wait_until("it is done", |browser| {
            browser.run("return document.getElementById('ask').open") == false
        });
    }
    assert_eq!(
        shop.actions().iter().filter(|what| *what == "sale_paused").count(),
        1,
        "who was later did nothing"
    );
    press(&one, "resume");
    one.click("#ask-no");
    press(&one, "resume");
    one.click("#ask-do");
    wait_for_state(&other, "live");
    press(&one, "edit");
    assert_accessible(&one, "the console that asks for values");
    one.click("#ask-do");
    one.wait_for_text("#ask-problem", "Nothing is changed");
    one.type_into("#field-title", "Closing night");
    one.click("#ask-do");
    other.wait_for_text(&format!("#sale-{SALE} h3"), "Closing night");
    one.click(&format!("#sale-{SALE} button[data-item-call=restock]"));
    one.type_into("#field-units", "20");
    one.click("#ask-do");
    other.wait_for_text(&format!("#sale-{SALE} tbody tr"), "120\t0\t0\t120");
    one.wait_for_text(&format!("#sale-{SALE} h3"), "Closing night");
    press(&one, "end");
    one.type_into("#typed", "Closing nigh");
    one.click("#ask-do");
    one.wait_for_text("#ask-problem", "not the sale's title");
    one.type_into("#typed", "Closing night");
    one.click("#ask-do");
    wait_for_state(&other, "ended");
    let when = format!("#when-{SALE}");
    other.wait_for_text(&when, "ended at ");
    other.wait_for_text(&when, " before its time");
    other.wait_for_text(&format!("#sale-{SALE} tbody tr"), TITLE);
}

#[test]
fn a_sale_is_corrected_and_deleted_before_it_starts() {
    let (shop, browser) = (Shop::demo(), Browser::start());
    let later = shop.now_ms() + 3_600_000;
    shop.sell(&json!({ "starts_at_ms": later, "ends_at_ms": later + 1_000 }));
    sign_in(&browser, &shop);
    wait_for_state(&browser, "planned");
    let edit = format!("#sale-{SALE} button[data-item-call=edit]");
    browser.click(&edit);
    browser.wait_for_text("#ask-fields", "Price, in the smallest unit of EUR");
    assert_accessible(&browser, "the console that asks for an item's terms");
    browser.click("#ask-do");
    browser.wait_for_text("#ask-problem", "Nothing is changed");
    browser.type_into("#field-title", "A seat in the stalls");
    browser.click("#ask-do");
    browser.wait_for_text(&format!("#sale-{SALE} tbody tr"), "A seat in the stalls");
    press(&browser, "delete");
    browser.wait_for_text("#ask-says", "is never used again");
    browser.type_into("#typed", "Opening night");
    browser.click("#ask-do");
    browser.wait_until("the sale is gone", |browser| {
        browser.run(&format!("return document.getElementById('sale-{SALE}') === null")) == true
    });
}

#[test]
fn when_the_server_is_gone_nothing_old_looks_new() {
    let (mut shop, browser) = (Shop::demo(), Browser::start());
    shop.sell(&json!({}));
    sign_in(&browser, &shop);
    wait_for_state(&browser, "live");
    shop.stop_while(|| {
        browser.wait_for_text("#says", "No figures since");
        browser.wait_for_text("#level", "UNKNOWN");
        browser.wait_for_text("#age", "old");
        assert_accessible(&browser, "the console without a server");
        // It has failed more than once by then.
        wait_until_old(&browser, 8);
    });
    browser.wait_for_text("#age", "live");
    shop.order_as("5");
    browser.wait_for_text("#tiles", "1 since the start");
}

#[test]
fn support_finds_an_order_by_its_number_cancels_it_and_notes_a_refund() {
    let (shop, browser) = (Shop::demo(), Browser::start());
    shop.sell(&json!({ "limit": null }));
    let orders = ["7", "8"].map(|member| shop.order_as(member));
    sign_in_by(&browser, &shop, &shop.add_operator("viewer"));
    browser.wait_for_text("#who", "viewer");
    assert_eq!(browser.run("return getComputedStyle(document.getElementById('orders')).display"), "none");
    browser.click("#sign-out");
    sign_in_by(&browser, &shop, &shop.add_operator("support"));
    browser.wait_for_text("#who", "support");
    let find = |typed: &str| {
        browser.type_into("#order-number", typed);
        browser.click("#find-order button");
    };
    find("K7QM");
    browser.wait_for_text("#order-problem", "eight letters and digits");
    find("0000-0000");
    browser.wait_for_text("#order-problem", "was it misread");
    // By its id, as by its number.
    find(&orders[0]);
    browser.wait_for_text("#found-order h3", "held");
    let title = browser.text("#found-order h3");
    find(title.split(' ').next().unwrap());
    browser.wait_for_text("#found-order", "placed");
    assert_accessible(&browser, "the console with an order");
    browser.resize(360, 800);
    assert_laid_out(&browser);
    browser.click("#found-order button[data-order-call=cancel]");
    browser.wait_for_text("#ask-says", "can't be undone");
    browser.type_into("#field-why", "ordered twice – by mistake");
    browser.click("#ask-do");
    let number = title.split(' ').next().unwrap();
    browser.wait_for_text("#ask-problem", &format!("That is not the order's number: “{number}”."));
    browser.type_into("#typed", number);
    browser.click("#ask-do");
    browser.wait_for_text("#found-order", "cancelled by support: ordered twice – by mistake");
    assert_eq!(browser.run("return document.querySelectorAll('[data-order-call]').length"), 0);
    shop.pay_as("8", &orders[1]);
    find(&orders[1]);
    browser.wait_for_text("#found-order h3", "paid");
    browser.click("#found-order button[data-order-call=refund]");
    browser.wait_for_text("#ask-says", "nothing is moved from here");
    browser.type_into("#field-reference", "bank 7");
    let title = browser.text("#found-order h3");
    browser.type_into("#typed", title.split(' ').next().unwrap());
    browser.click("#ask-do");
    browser.wait_for_text("#found-order", "refund made bank 7");
    browser.wait_for_text("#found-order h3", "refunded");
}

#[test]
fn who_tries_most_is_asked_for_while_somebody_looks() {
    const CHOOSE: &str = "const of = document.getElementById('attempts-of'); of.value = arguments_of; \
        of.dispatchEvent(new Event('change')); return of.value";
    let (shop, browser) = (Shop::demo(), Browser::start());
    shop.sell(&json!({ "total": 3 }));
    let token = shop.add_operator("support");
    sign_in_by(&browser, &shop, &token);
    wait_for_state(&browser, "live");
    shop.order_as("7");
    browser.click("#attempts-open summary");
    browser.wait_until("the items are offered", |browser| {
        browser.run("return document.getElementById('attempts-of').options.length > 0") == true
    });
    let item = browser.run(&format!(
        "return [...document.getElementById('attempts-of').options].find((one) => one.value.startsWith('{SALE}/')).value"
    ));
    browser.run(&CHOOSE.replace("arguments_of", &item.to_string()));
    browser.wait_for_text("#attempts-tables", "7\t1\t1\t0");
    browser.wait_for_text("#attempts-tables", "127.0.0.1\t1\t1\t0");
    // By itself, and without losing the choice.
    shop.order_as("8");
    browser.wait_for_text("#attempts-tables", "127.0.0.1\t2\t2\t0");
    assert_eq!(browser.run("return document.getElementById('attempts-of').value"), item);
    assert_eq!(browser.text("#attempts-problem"), "");
    for (width, height) in [(360, 800), (1280, 900)] {
        browser.resize(width, height);
        assert_laid_out(&browser);
    }
    assert_accessible(&browser, "who tries most");
    browser.click("#sign-out");
    let token = shop.add_operator("viewer");
    sign_in_by(&browser, &shop, &token);
    browser.wait_for_text("#who", "viewer, viewer");
    browser.wait_until("a viewer has none of it", |browser| {
        browser.run("return getComputedStyle(document.getElementById('attempts')).display") == "none"
    });
}

#[test]
fn a_sale_is_rehearsed_and_what_it_says_stays() {
    let (shop, browser) = (Shop::with_tokens(), Browser::start());
    let starts_at_ms = shop.now_ms() + 3_600_000;
    // In titles there may be words without an end.
    shop.sell(&json!({
        "id": 41, "title": "W".repeat(200), "starts_at_ms": starts_at_ms, "ends_at_ms": starts_at_ms + 3_600_000,
        "items": [{ "product": 8, "title": "X".repeat(200), "price": 1, "total": 1, "limit": null }],
    }));
    shop.sell(&json!({ "starts_at_ms": starts_at_ms, "ends_at_ms": starts_at_ms + 3_600_000 }));
    sign_in(&browser, &shop);
    wait_for_state(&browser, "planned");
    let rehearse = |buyers: &str| {
        press(&browser, "rehearse");
        browser.run(&format!("document.getElementById('field-buyers').value = '{buyers}'"));
        browser.click("#ask-do");
    };
    rehearse("1");
    browser.wait_for_text("#rehearsal-says", "1 buyers come");
    browser.wait_for_text("#rehearsal-about", "“Opening night”, no. 40: 1 buyers within 10 s, begun by root");
    assert_accessible(&browser, "the console of a rehearsal that is played");
    // What would be refused is said before anything is asked.
    browser.click(&format!("#sale-{SALE} button[data-call=rehearse]"));
    browser.wait_for_text("#done", "sale 40 is being rehearsed. One is played at a time.");
    assert_eq!(browser.run("return document.getElementById('ask').open"), false);
    ask_by(&browser, "#rehearsal-stop");
    browser.wait_for_text("#ask-title", "Stop the rehearsal: Opening night");
    browser
        .wait_for_text("#ask-says", "It ends within a minute, without saying what this installation carries");
    browser.type_into("#field-why", "Doors open soon");
    browser.click("#ask-do");
    browser.wait_for_text("#rehearsal-says", "Stopped: by root.");
    let kept = "root: rehearsal stopped sale 40, 1 buyers (Doors open soon)";
    browser.wait_for_text("#events", kept);
    let again = "fetch('/api/v1/rehearsal/stop', { method: 'POST' })\
                 .then(async (answer) => done([answer.status, (await answer.json()).outcome]))";
    assert_eq!(browser.run_async(again), json!([202, "stopped"]));
    rehearse("20000");
    browser.wait_for_text("#rehearsal-says", "Carries 9,000 orders/s");
    browser.wait_for_text("#rehearsal-found", "50 of 50; 50 units came back, 50 sold again");
    for (width, height) in [(360, 800), (1280, 900)] {
        browser.resize(width, height);
        assert_laid_out(&browser);
    }
    assert_accessible(&browser, "the console of a rehearsal that is over");
    browser.reload();
    browser.wait_for_text("#rehearsal-says", "Carries 9,000 orders/s");
    browser.wait_for_text("#events", "rehearsal ended sale 40, 20000 buyers: Carries 9,000 orders/s");
    assert_eq!(browser.text("#events").matches("rehearsal stopped").count(), 1);
    shop.start_at(shop.now_ms());
    wait_for_state(&browser, "live");
    let button = format!("#sale-{SALE} button[data-call=rehearse]");
    browser.wait_until("the button is gone", |browser| {
        browser.run(&format!("return document.querySelector('{button}').hidden")) == true
    });
}

#[test]
fn what_is_rarely_meant_is_asked_about_and_what_is_rounded_refused() {
    let (shop, browser) = (Shop::with_tokens(), Browser::start());
    let starts_at_ms = shop.now_ms() + 3_600_000;
    shop.sell(&json!({ "starts_at_ms": starts_at_ms, "ends_at_ms": starts_at_ms + 3_600_000 }));
    sign_in(&browser, &shop);
    wait_for_state(&browser, "planned");
    press(&browser, "edit");
    browser.type_into("#field-payment_s", "90000");
    browser.run("document.querySelector('#field-starts_at_ms').value = '2020-01-01T00:00:00'");
    browser.type_into("#field-why", "the press is late");
    browser.click("#ask-do");
    browser.wait_for_text("#ask-problem", "The start is past: 1 Jan 2020");
    browser.wait_for_text("#ask-problem", "Buyers have 1 d 1 h to pay");
    browser.run(
        "const start = document.querySelector('#field-starts_at_ms'); start.value = start.dataset.before",
    );
    browser.click("#ask-do");
    browser.wait_for_text("#ask-problem", "Buyers have 1 d 1 h to pay");
    browser.click("#ask-do");
    browser.wait_until("a change", |_| shop.get("sales/40")["payment_s"] == 90_000);
    browser.wait_for_text("#events", "sale changed no. 40 payment_s 900 -> 90000 (the press is late)");
    browser.click("button[data-item-call=restock]");
    browser.type_into("#field-units", "901");
    browser.click("#ask-do");
    browser.wait_for_text("#ask-problem", "Product 7 has 1,001 units then, more than 10 times what it has.");
    browser.click("#ask-no");

    // Another operator's sale takes the number that was chosen when the form was opened.
    browser.click("#new-sale");
    browser.wait_for_text("#ask-title", "New sale");
    shop.sell(&json!({ "id": 41, "starts_at_ms": starts_at_ms, "ends_at_ms": starts_at_ms + 60_000 }));
    let typed = [
        ("title", "Tonight"),
        ("product", "9007199254740993"),
        ("item", "Cap"),
        ("price", "1"),
        ("total", "5"),
    ];
    for (field, text) in typed {
        browser.type_into(&format!("#field-{field}"), text);
    }
    browser.click("#ask-do");
    browser.wait_for_text("#ask-problem", "which this page would round");
    browser.type_into("#field-product", "9");
    browser.click("#ask-do");
    browser.wait_for_text("#ask-problem", "No. 41 was made in the meantime");
    browser.click("#ask-do");
    browser.wait_for_text("#sale-42 h3", "Tonight no. 42");
}

#[test]
fn a_sale_is_made_like_another_and_from_nothing() {
    let (shop, browser) = (Shop::with_tokens(), Browser::start());
    let starts_at_ms = shop.now_ms() + 3_600_000;
    let access = json!({ "groups": [{ "name": "members", "before_s": 600 }], "others": { "before_s": 60 } });
    let line = json!({ "units": 1, "access": access });
    shop.sell(&json!({ "starts_at_ms": starts_at_ms, "ends_at_ms": starts_at_ms + 3_600_000, "line": line }));
    sign_in(&browser, &shop);
    wait_for_state(&browser, "planned");
    press(&browser, "duplicate");
    browser.wait_for_text("#ask-says", "Another sale of the items of “Opening night”");
    assert_accessible(&browser, "the console that makes a sale like another");
    browser.click("#ask-do");
    browser.wait_for_text("#sale-41 h3", "Opening night no. 41");
    let (made, of) = (shop.get("sales/41"), shop.get("sales/40"));
    for name in ["title", "currency", "payment_s", "open_holds_per_buyer_max"] {
        assert_eq!(made[name], of[name], "{name}");
    }
    for name in ["product", "title", "description", "price", "list_price", "total", "limit", "image", "line"]
    {
        assert_eq!(made["items"][0][name], of["items"][0][name], "{name}");
    }
    let length = |sale: &serde_json::Value| {
        sale["ends_at_ms"].as_u64().unwrap() - sale["starts_at_ms"].as_u64().unwrap()
    };
    assert_eq!(length(&made), length(&of));
    browser.click("#new-sale");
    browser.wait_for_text("#ask-title", "New sale");
    for (field, text) in
        [("title", "Tonight"), ("product", "9"), ("item", "Cap"), ("price", "0"), ("total", "5")]
    {
        browser.type_into(&format!("#field-{field}"), text);
    }
    browser.click("#ask-do");
    browser.wait_for_text("#ask-problem", "Product 9 costs nothing. Press again if that is meant.");
    assert_accessible(&browser, "the console that asks whether that is meant");
    browser.click("#ask-do");
    browser.wait_for_text("#sale-42 h3", "Tonight no. 42");
    let made = shop.get("sales/42");
    assert_eq!((&made["payment_s"], &made["items"][0]["limit"]), (&json!(900), &json!(1)));
    browser.wait_for_text("#events", "root: sale created no. 42");
}
