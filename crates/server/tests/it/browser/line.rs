//! A product that is sold to its line: its page is where one waits, is called and orders.

use engine::Status;
use engine::draw::Permutation;
use serde_json::{Value, json};
use server::line_ticket::RECEIPT;
use server::signing::read_document;

use super::axe::assert_accessible;
use super::languages::choose;
use super::looking::AUDIT;
use super::real::{PRODUCT, SALE, Shop, TITLE};
use super::real_visitors::token;
use super::steps::{
    come_back, fill_address, open_sale, press_buy, sale_url, type_address, wait_for_order, wait_for_view,
};
use super::webdriver::Browser;

/// Nobody takes part in its draw: places are in the order of joining.
pub(super) fn sell(shop: &Shop, mut terms: Value) {
    terms["line"]["close_s"] = json!(86_400);
    shop.sell(&terms);
    shop.wait_for_draw();
}

pub(super) fn join(browser: &Browser, shop: &Shop) {
    open_sale(browser, &shop.base, SALE, PRODUCT);
    browser.click("#join-button");
    browser.wait_until("a place", |browser| browser.text("#place").starts_with("Your place"));
}

#[test]
fn two_join_and_the_unit_that_the_first_cancels_goes_to_the_second() {
    let (shop, (first, second)) = (Shop::demo(), Browser::two());
    sell(&shop, json!({ "line": {}, "total": 1 }));
    open_sale(&first, &shop.base, SALE, PRODUCT);
    assert_eq!(first.attribute("#line", "data-view").as_deref(), Some("outside"));
    assert!(first.text("#meaning").contains("you have 2 minutes to order it"), "{}", first.text("#meaning"));
    assert_accessible(&first, "before joining");
    join(&first, &shop);
    assert_eq!(first.text("#place"), "Your place: 1");
    wait_for_view(&first, "#line", "called");
    assert_eq!(first.run("return document.title.startsWith('It is your turn')"), true);
    assert!(first.text("#turn").contains("1 min"), "{}", first.text("#turn"));
    assert_accessible(&first, "called");

    join(&second, &shop);
    wait_for_view(&second, "#line", "maybe");
    let figures = second.text("#figures");
    // It is said of when it is, since the board may be some seconds old.
    let (as_of, figures) = figures.split_once(". ").expect("two sentences");
    assert!(as_of.starts_with("As of ") && as_of.matches(':').count() == 2, "{as_of}");
    assert!(figures.starts_with("You are next when one comes free. Not sold yet: 1 unit."), "{figures}");
    assert_accessible(&second, "waiting");
    // What is not one's turn can be filled in, and not sent.
    fill_address(&second);
    second.click("#submit");
    second.wait_for_text("#outcome", "Not your turn yet. Nothing was ordered.");

    count_tones(&second);
    second.click("#sound");
    assert_eq!(second.attribute("#sound", "aria-pressed").as_deref(), Some("true"));
    assert_eq!(second.run(TONES), 1, "what it will sound like");
    fill_address(&first);
    press_buy(&first);
    let id = wait_for_order(&first);
    assert_eq!(shop.units(), (0, 1, 0));
    shop.cancel(&id);
    wait_for_view(&second, "#line", "called");
    assert_eq!(second.run(TONES), 4);
    press_buy(&second);
    let next = wait_for_order(&second);
    let orders: Vec<_> = shop.orders().iter().map(|order| (order.id.to_string(), order.status)).collect();
    assert_eq!(orders, [(id, Status::Cancelled), (next, Status::Held)]);
    assert_eq!(shop.units(), (0, 1, 0));

    // Whoever has had a turn finds that, and the order.
    open_sale(&second, &shop.base, SALE, PRODUCT);
    wait_for_view(&second, "#line", "over");
    assert!(second.text("#mine").contains("See your order"), "{}", second.text("#mine"));
    let receipt = save_receipt(&second);
    assert_eq!((&receipt["place"], &receipt["outcome"]), (&json!(2), &json!("ordered")), "{receipt}");
    assert_eq!((first.complaints(), second.complaints()), (vec![], vec![]));
}

const TONES: &str = "return tones";

/// Counts what is played from now on.
fn count_tones(browser: &Browser) {
    browser.run(
        "window.tones = 0;
        const start = OscillatorNode.prototype.start;
        OscillatorNode.prototype.start = function (...at) { tones += 1; return start.apply(this, at); };",
    );
}

/// What the button saves.
fn save_receipt(browser: &Browser) -> Value {
    browser.run(
        "const make = URL.createObjectURL; URL.createObjectURL = (blob) => { \
         blob.text().then((text) => { window.saved = text; }); return make.call(URL, blob); }",
    );
    browser.click("#receipt");
    browser
        .wait_until("the receipt is saved", |browser| browser.run("return window.saved ?? null").is_string());
    let saved = browser.run("return window.saved");
    let (content, _) = read_document(RECEIPT, saved.as_str().unwrap().as_bytes()).expect("it is signed");
    serde_json::from_str(content.get()).unwrap()
}

#[test]
fn who_was_away_is_called_for_the_unit_that_comes_free() {
    let (shop, browser) = (Shop::demo(), Browser::start());
    let starts_at_ms = shop.now_ms() + 600_000;
    shop.sell(&json!({ "line": { "grace_s": 0 }, "total": 1, "starts_at_ms": starts_at_ms }));
    open_sale(&browser, &shop.base, SALE, PRODUCT);
    browser
        .wait_until("the draw is shown", |browser| browser.text("#drawn").starts_with("Places are drawn at"));
    let shown = browser.text("#drawn");
    assert!(shown.contains("No public beacon takes part: whoever runs the sale could still"), "{shown}");
    browser.click("#join-button");
    wait_for_view(&browser, "#line", "drawing");
    assert_eq!(browser.text("#place"), "Your number: 1");
    assert!(browser.text("#when").starts_with("It is drawn at"), "{}", browser.text("#when"));
    assert_accessible(&browser, "before the draw");
    browser.open(&format!("{}/orders", shop.base));
    shop.start_at(shop.now_ms() + 1000);
    shop.wait_for_draw();
    shop.line_as("77", "");
    browser.wait_until("the next is called", |_| shop.line_as("77", "/presence")["standing"] == "called");

    open_sale(&browser, &shop.base, SALE, PRODUCT);
    wait_for_view(&browser, "#line", "away");
    assert_accessible(&browser, "away");
    shop.line_as("77", "/leave");
    wait_for_view(&browser, "#line", "called");
    // Given back, after a second thought.
    browser.click("#leave");
    browser.click("#sure button[value=keep]");
    assert_eq!(browser.attribute("#line", "data-view").as_deref(), Some("called"));
    browser.click("#leave");
    assert_accessible(&browser, "a second thought");
    browser.click("#sure button[value=leave]");
    wait_for_view(&browser, "#line", "over");
    assert_eq!(shop.units(), (1, 0, 0));
    assert_eq!(browser.complaints(), [""; 0]);
}

#[test]
fn who_waits_reads_what_moved_the_borders() {
    let (shop, browser) = (Shop::demo(), Browser::start());
    sell(&shop, json!({ "line": { "grace_s": 600 }, "total": 1 }));
    shop.line_as("77", "");
    shop.line_as("77", "/presence");
    // Two are waited for.
    shop.line_as("78", "");
    shop.line_as("79", "");
    join(&browser, &shop);
    wait_for_view(&browser, "#line", "maybe");
    assert_eq!(browser.text("#moved"), "");
    shop.line_as("77", "/leave");
    browser.wait_for_text("#moved", "Gave up (");
    browser.wait_for_text("#moved", "): 1.");
    shop.restock(1);
    browser.wait_for_text("#moved", "Added (");
    browser.wait_for_text("#moved", "): 1 unit.");
    assert_eq!(browser.complaints(), [""; 0]);
}

#[test]
fn a_place_is_kept_over_a_reload_a_pause_and_the_end() {
    let (shop, browser) = (Shop::demo(), Browser::start());
    sell(&shop, json!({ "line": {}, "total": 1 }));
    shop.line_as("77", "");
    shop.line_as("77", "/presence");
    join(&browser, &shop);
    assert_eq!(browser.text("#place"), "Your place: 2");
    browser.reload();
    wait_for_view(&browser, "#line", "maybe");
    assert_eq!(browser.text("#place"), "Your place: 2");
    // In another browser, or in this one when it has forgotten everything, the same buyer gets the same place.
    browser.open(&format!("{}/orders", shop.base));
    browser.run("localStorage.clear()");
    join(&browser, &shop);
    assert_eq!(browser.text("#place"), "Your place: 2");
    assert_eq!(shop.get(&format!("sales/{SALE}/items/{PRODUCT}/line"))["tail"], 2);
    shop.steer("pause");
    wait_for_view(&browser, "#offer", "paused");
    browser.wait_for_text("#status", "The sale is paused");
    shop.steer("resume");
    wait_for_view(&browser, "#offer", "live");
    shop.steer("end");
    wait_for_view(&browser, "#line", "closed");
    assert_accessible(&browser, "closed");
}

#[test]
fn a_board_that_cannot_be_read_promises_nothing() {
    let (shop, browser) = (Shop::demo(), Browser::start());
    sell(&shop, json!({ "line": {}, "total": 1, "starts_at_ms": shop.now_ms() + 1_800_000 }));
    join(&browser, &shop);
    wait_for_view(&browser, "#line", "sure");
    browser.wait_for_text("#when", "You may close this page");
    browser.run(
        "window.ask = window.fetch;
         window.fetch = () => Promise.reject(new TypeError('cut off'))",
    );
    come_back(&browser);
    wait_for_view(&browser, "#line", "unknown");
    assert!(browser.text("#worth").contains("nothing is promised here"), "{}", browser.text("#worth"));
    assert_accessible(&browser, "unknown");
    // An answer that a cache has kept for too long is no better.
    browser.run(
        "const old = (answer) => answer.json().then((board) => Response.json({ ...board, now_ms: board.now_ms - 6000 }));
         window.fetch = (url, how) => window.ask(url, how).then((answer) => (url.endsWith('/line') ? old(answer) : answer));
         window.dispatchEvent(new Event('online'))",
    );
    browser.wait_until("the shop is there again", |browser| browser.text("#connection").is_empty());
    assert_eq!(browser.attribute("#line", "data-view").as_deref(), Some("unknown"));
    browser.run("window.fetch = window.ask; window.dispatchEvent(new Event('online'))");
    wait_for_view(&browser, "#line", "sure");
}

/// The ticket shows that somebody is there; whoever is called has to sign in to order.
#[test]
fn who_is_signed_out_while_waiting_is_called_and_asked_to_sign_in() {
    let (shop, browser) = (Shop::with_tokens(), Browser::start());
    shop.sell(&json!({ "line": {}, "total": 1, "starts_at_ms": shop.now_ms() + 600_000 }));
    let page = sale_url(&shop.base, SALE, PRODUCT);
    browser.open(&format!("{page}#token={}", token(7, shop.now_ms() / 1000 + 600)));
    wait_for_view(&browser, "#offer", "not_started");
    browser.click("#join-button");
    wait_for_view(&browser, "#line", "drawing");
    browser.open(&format!("{}/orders#token={}", shop.base, token(7, 1_000_000)));
    browser.open(&page);
    wait_for_view(&browser, "#line", "drawing");
    shop.start_at(shop.now_ms() + 1000);
    wait_for_view(&browser, "#line", "called");
    browser.wait_for_text("#status", "Sign in at the shop first.");
    assert_eq!(browser.text("#place"), "Your place: 1");
}

#[test]
fn without_a_script_a_form_joins_and_a_page_waits() {
    let shop = Shop::demo();
    let terms = json!({ "line": { "units": 2, "grace_s": 0 }, "total": 2, "limit": 2 });
    sell(&shop, terms);
    shop.line_as("77", "");
    let browser = Browser::start();
    choose(&browser, &shop.base, "en");
    browser.allow_scripts(false);
    browser.resize(360, 800);
    browser.open(&sale_url(&shop.base, SALE, PRODUCT));
    browser.click("#join-button");
    // Nobody is there to be called before, so this page calls its reader by being read again.
    browser.wait_for_text("h1", "It is your turn");
    assert!(browser.text("main").contains("Your place: 2") && browser.text("main").contains(TITLE));
    assert_eq!(browser.run(AUDIT), "", "the plain place");
    browser.allow_scripts(true);
    assert_accessible(&browser, "the plain place");
    browser.allow_scripts(false);
    browser.resize(360, 800);
    browser.type_into("#quantity", "2");
    type_address(&browser);
    browser.click("#submit");
    browser.wait_for_text("h1", "Check your order");
    browser.click("button.primary");
    browser.wait_for_text("h1", "Reserved for you");
    assert_eq!(shop.units(), (0, 2, 0));
    browser.open(&format!("{}/line?sale={SALE}&product={PRODUCT}", shop.base));
    browser.wait_for_text("h1", "You have ordered");
}

#[test]
fn the_page_finds_its_place_in_a_draw_by_itself() {
    let (shop, browser) = (Shop::demo(), Browser::start());
    shop.sell(&json!({ "line": {}, "total": 1, "starts_at_ms": shop.now_ms() + 1_800_000 }));
    for member in ["1", "2", "3"] {
        shop.line_as(member, "");
    }
    open_sale(&browser, &shop.base, SALE, PRODUCT);
    let seed: [u8; 32] = std::array::from_fn(|at| u8::try_from(at * 7).unwrap());
    let place_of = |entries, number| match number > entries {
        true => number,
        false => Permutation::new(&seed, entries).place_of(number),
    };
    let hex: String = seed.iter().map(|byte| format!("{byte:02x}")).collect();
    for entries in [1, 2, 3, 5, 16, 17, 40] {
        let found = browser.run_async(&format!(
            "const {{ href }} = document.querySelector('link[href*=\"/assets/draw-\"]');
             const numbers = Array.from({{ length: {entries} + 1 }}, (_, at) => at + 1);
             import(href)
               .then(({{ placeOf }}) => Promise.all(numbers.map((number) => placeOf('{hex}', {entries}, number))))
               .then(done, (error) => done(String(error)));"
        ));
        let places: Vec<u32> = (1..=entries + 1).map(|number| place_of(entries, number)).collect();
        assert_eq!(found, json!(places), "of {entries}");
        let mut each = places;
        each.sort_unstable();
        assert_eq!(each, (1..=entries + 1).collect::<Vec<_>>(), "a place for everybody");
    }

    // A page that waits for its place, and hears that there was a draw.
    browser.run(&format!(
        "const mine = {{ number: 3, place: null, standing: 'waiting', turn_until_ms: null }};
         localStorage.setItem('doorbuster.line.demo.{SALE}.{PRODUCT}', JSON.stringify(mine));"
    ));
    open_sale(&browser, &shop.base, SALE, PRODUCT);
    wait_for_view(&browser, "#line", "drawing");
    assert_eq!(browser.text("#place"), "Your number: 3");
    browser.run(&format!(
        "const ask = window.fetch;
         const drawn = async (answer) => Response.json({{ ...await answer.json(), drawn: 3, tail: 3, sure_to: 1 }});
         window.fetch = (url, how) => (
           url.endsWith('/line/draw') ? Promise.resolve(Response.json({{ state: 'drawn', entries: 3, seed: '{hex}' }}))
           : url.endsWith('/line') ? ask(url, how).then(drawn) : ask(url, how));"
    ));
    come_back(&browser);
    let place = place_of(3, 3);
    browser.wait_for_text("#place", &format!("Your place: {place}"));
    wait_for_view(&browser, "#line", if place == 1 { "sure" } else { "maybe" });
}

#[test]
fn whoever_has_a_place_checks_it_in_the_browser() {
    let (shop, browser) = (Shop::demo(), Browser::start());
    let starts_at_ms = shop.now_ms() + 3_600_000;
    shop.sell(&json!({ "line": { "close_s": 3_000 }, "total": 1, "starts_at_ms": starts_at_ms, "ends_at_ms": starts_at_ms + 60_000 }));
    for member in ["1", "2", "3", "4"] {
        shop.line_as(member, "");
    }
    open_sale(&browser, &shop.base, SALE, PRODUCT);
    browser.click("#join-button");
    wait_for_view(&browser, "#line", "drawing");
    assert_eq!(browser.run("return document.querySelector('#check').hidden"), true);
    for member in ["6", "7", "8", "9", "10", "11", "12", "13", "14", "15", "16", "17", "18", "19", "20"] {
        shop.line_as(member, "");
    }
    // The entries close at once.
    shop.change_sale(
        &json!({ "starts_at_ms": shop.now_ms() + 1_800_000, "ends_at_ms": shop.now_ms() + 3_600_000 }),
    );
    shop.wait_for_draw();
    come_back(&browser);
    browser.wait_for_text("#place", "Your place: ");
    browser.click("#check");
    browser.wait_for_text(
        "#check-outcome",
        "It holds. Checked in this browser: your entry is one of the 20 that were fixed",
    );
    assert_accessible(&browser, "a place that was checked");
    // What is changed does not hold.
    let changes = [
        ("", true),
        ("draw.secret = flip(draw.secret)", false),
        ("draw.commitment = flip(draw.commitment)", false),
        ("mine.commitment = flip(mine.commitment)", false),
        ("draw.seed = flip(draw.seed)", false),
        ("draw.root = flip(draw.root)", false),
        ("mine.place += 1", false),
        ("mine.number += 1", false),
        ("mine.ticket = mine.ticket.replace(/^5/, '6')", false),
        ("mine.ticket = flip(mine.ticket)", false),
        ("path[1] = flip(path[1])", false),
        ("path.pop()", false),
        // Of so many the path is longer. With one more it is the same, and in one draw of 21 the place is, too.
        ("draw.entries = 40", false),
    ];
    for (change, expected) in changes {
        let held = browser.run_async(&format!(
            "const {{ href }} = document.querySelector('link[href*=\"/assets/proof-\"]');
             const flip = (hex) => hex.slice(0, -1) + (hex.endsWith('0') ? '1' : '0');
             const line = '/api/v1/sales/{SALE}/items/{PRODUCT}/line';
             const mine = JSON.parse(localStorage.getItem('doorbuster.line.demo.{SALE}.{PRODUCT}'));
             (async () => {{
               const {{ holds }} = await import(href);
               const draw = await (await fetch(line + '/draw')).json();
               const body = JSON.stringify({{ ticket: mine.ticket }});
               const headers = {{ 'content-type': 'application/json' }};
               const {{ receipt }} = await (await fetch(line + '/receipt', {{ method: 'POST', headers, body }})).json();
               const {{ path }} = receipt;
               {change};
               return holds({{ sale: {SALE}, product: {PRODUCT} }}, mine, draw, path);
             }})().then(done, (error) => done(String(error)));"
        ));
        assert_eq!(held, json!(expected), "{change}");
    }
}

#[test]
fn progress_moves_forward_alone() {
    let (shop, browser) = (Shop::demo(), Browser::start());
    shop.sell(&json!({ "line": {}, "total": 1, "starts_at_ms": shop.now_ms() + 1_800_000 }));
    open_sale(&browser, &shop.base, SALE, PRODUCT);
    browser.run(&format!(
        "const mine = {{ number: 100, place: null, standing: 'waiting', turn_until_ms: null }};
         localStorage.setItem('doorbuster.line.demo.{SALE}.{PRODUCT}', JSON.stringify(mine));"
    ));
    open_sale(&browser, &shop.base, SALE, PRODUCT);
    wait_for_view(&browser, "#line", "drawing");
    browser.run(
        "const ask = window.fetch;
         const changed = async (answer) => Response.json({
           ...await answer.json(), drawn: 1, tail: 200, sure_to: 60, free: 1, ...window.board });
         window.fetch = (url, how) => (
           url.endsWith('/line/draw') ? Promise.resolve(Response.json({ state: 'drawn', entries: 1, seed: '00' }))
           : url.endsWith('/line') ? ask(url, how).then(changed) : ask(url, how));
         window.board = { served: 50, gave_up: 7 }",
    );
    come_back(&browser);
    browser.wait_for_text("#figures", "Gave up so far: 7.");
    let progress = |browser: &Browser| browser.run("return document.getElementById('way').value");
    assert_eq!(progress(&browser), 50);
    browser.run("window.board = { served: 40, gave_up: 8 }");
    come_back(&browser);
    browser.wait_for_text("#figures", "Gave up so far: 8.");
    assert_eq!(progress(&browser), 50);
    browser.run("window.board = { served: 55, gave_up: 9 }");
    come_back(&browser);
    browser.wait_for_text("#figures", "Gave up so far: 9.");
    assert_eq!(progress(&browser), 55);
}

/// By a status, which a screen reader speaks; the clock itself is silent.
#[test]
fn the_last_seconds_of_a_turn_are_said() {
    let (shop, browser) = (Shop::demo(), Browser::start());
    sell(&shop, json!({ "line": { "turn_s": 40 }, "total": 1 }));
    join(&browser, &shop);
    wait_for_view(&browser, "#line", "called");
    assert_eq!(browser.attribute("#turn", "aria-live").as_deref(), Some("off"));
    let said = || browser.run("return document.getElementById('turn-said').textContent");
    browser.wait_until("a minute is not left", |_| {
        said().as_str().is_some_and(|said| said.ends_with("seconds left to order."))
    });
    let first = said();
    browser.wait_until("half of one is not", |_| said() != first);
    assert_eq!(browser.attribute("#turn-said", "role").as_deref(), Some("status"));
}

#[test]
fn a_line_waits_in_every_language() {
    let shop = Shop::demo();
    sell(&shop, json!({ "line": {}, "total": 1 }));
    shop.line_as("77", "");
    shop.line_as("77", "/presence");
    for (place, (code, said)) in
        [("de", "Ihr Platz"), ("es", "Su puesto"), ("zh", "您的位置"), ("ar", "مكانك")]
            .into_iter()
            .enumerate()
    {
        let browser = Browser::start();
        choose(&browser, &shop.base, code);
        open_sale(&browser, &shop.base, SALE, PRODUCT);
        browser.click("#join-button");
        wait_for_view(&browser, "#line", "maybe");
        let shown = browser.text("#place");
        assert!(shown.starts_with(said) && shown.ends_with(&(place + 2).to_string()), "{shown}");
        browser.resize(360, 800);
        assert_eq!(browser.run(AUDIT), "", "{code}");
        let main = browser.text("#line");
        for word in ["line", "place", "unit", "turn", "order"] {
            assert!(
                !main.split(|c: char| !c.is_alphabetic()).any(|shown| shown == word),
                "{code}: {word}: {main}"
            );
        }
        assert_eq!(browser.complaints(), [""; 0], "{code}");
    }
}
