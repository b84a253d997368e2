//! The page of what a sale came to: who may read it, what it says, and what stands in its place.

use std::sync::mpsc::sync_channel;
use std::time::Duration;

use engine::{Command, Role};

use super::operators::bearer;
use super::shop::{Sent, Setup, Shop, demo_mode};
use super::{Response, problem};
use crate::http::Entrance;
use crate::http::reads::{Lane, LedgerRead, ShowRead};
use crate::net::Ticket;

const PAGE: &str = "/console/sales/3/report";
const PATIENCE: Duration = Duration::from_secs(60);

fn shop() -> Shop {
    let mut setup = Setup::new(demo_mode());
    setup.ledger = true;
    Shop::with(setup)
}

/// As a browser asks for a page.
fn page(path: &str) -> Sent {
    Sent::get(path).with("Accept", "text/html,application/xhtml+xml")
}

/// The cookie of a session of the console.
fn session(shop: &mut Shop, role: Role) -> String {
    let token = bearer(shop, role.as_str(), role, None);
    let begun = shop.send(&Sent::post("/api/v1/console/session", "").with("Authorization", &token));
    begun.header("set-cookie").unwrap().split(';').next().unwrap().to_owned()
}

/// A page of ours, with this status.
#[track_caller]
fn html(answer: &Response, status: u16) -> String {
    assert_eq!(answer.status, status, "{}", answer.text());
    assert_eq!(answer.header("content-type"), Some("text/html; charset=utf-8"));
    assert_eq!(answer.header("cache-control"), Some("no-store"));
    let policy = answer.header("content-security-policy").unwrap();
    assert!(policy.contains("default-src 'none'") && !policy.contains("unsafe"), "{policy}");
    let text = answer.text();
    for forbidden in ["<script", "<style", " style=", "http:", "https:", "{{", "{%"] {
        assert!(!text.contains(forbidden), "{forbidden}: {text}");
    }
    text
}

#[test]
fn support_reads_what_a_sale_came_to_so_far_and_in_the_end() {
    let mut shop = shop();
    let order = Sent::post("/api/v1/orders", r#"{"sale":3,"product":29}"#).member(7).key("k");
    assert_eq!(shop.send(&order).status, 201);
    let support = session(&mut shop, Role::Support);
    let so_far = html(&shop.send(&page(PAGE).with("Cookie", &support)), 200);
    let says = "Flash sold 0 of 1000002 units to 0 buyers so far; 1 held; 0 refunds due; audit clean.";
    assert!(so_far.contains(&format!("<h1 id=\"says\">{says}</h1>")), "{so_far}");
    for part in [
        "<div><dt>orders</dt><dd>1: 0 paid, 0 paid late, 1 held, 0 expired, 0 cancelled, 0 refunded</dd></div>",
        "<caption><h2>Units</h2></caption>",
        "<th scope=\"col\" class=\"words\">title</th>",
        "<th scope=\"row\" data-head=\"product\">29</th><td data-head=\"title\" class=\"words\">Product &quot;29&quot;</td>",
        "<p>No operator did anything.</p>",
        "<dt>audit of the ledger</dt><dd>clean</dd>",
        "href=\"/api/v1/sales/3/report\"",
        "doorbuster sale verify sale-3.json",
    ] {
        assert!(so_far.contains(part), "{part}: {so_far}");
    }
    // The same is there as JSON, with the digest and whose key it is on the page alone.
    let json = shop.send(&Sent::get("/api/v1/sales/3/report").with("Cookie", &support)).json();
    assert_eq!((&json["says"], &json["over"]), (&says.into(), &false.into()));
    let digest = json["report"]["entries_sha256"].as_str().unwrap();
    let key = shop.shared.signing_key.as_ref().unwrap().public();
    assert!(so_far.contains(digest) && so_far.contains(&key), "{digest} {key}: {so_far}");
    shop.execute(Command::End(super::shop::SALE));
    let over = html(&shop.send(&page(PAGE).with("Cookie", &support)), 200);
    let says = "Flash sold 0 of 1000002 units to 0 buyers; 1 held; 0 refunds due; audit clean.";
    assert!(over.contains(&format!(">{says}</h1>")), "{over}");
}

#[test]
fn who_may_not_read_it_reads_why_and_a_program_is_answered_as_everywhere() {
    let mut shop = shop();
    let stranger = html(&shop.send(&page(PAGE)), 401);
    assert!(stranger.contains("<a href=\"/console\">Sign in at the console</a>"), "{stranger}");
    assert!(stranger.contains("<code>operator_unauthorized</code>"), "{stranger}");
    assert_eq!(shop.send(&Sent::get(PAGE)).problem(), problem(401, "operator_unauthorized"));
    let viewer = session(&mut shop, Role::Viewer);
    let refused = html(&shop.send(&page(PAGE).with("Cookie", &viewer)), 403);
    assert!(refused.contains("<p>This takes the role support: ask somebody who has it.</p>"), "{refused}");
    let refused = shop.send(&Sent::get(PAGE).with("Cookie", &viewer));
    assert_eq!(refused.problem(), problem(403, "role_required"));
    let of_another_site = page(PAGE).with("Cookie", &viewer).with("Sec-Fetch-Site", "cross-site");
    html(&shop.send(&of_another_site), 401);
    let none = html(&shop.send(&page("/console/sales/99/report").operator()), 404);
    assert!(none.contains("<h1>No such sale</h1>"), "{none}");
    let none = shop.send(&Sent::get("/console/sales/99/report").operator());
    assert_eq!(none.problem(), problem(404, "unknown_sale"));
    shop.service = shop.at(Entrance::Public);
    assert_eq!(shop.send(&page(PAGE).operator()).status, 404);
}

/// It is read where audits are, and with as many at a time.
#[test]
fn while_too_many_wait_a_page_says_so() {
    let mut shop = shop();
    let (go_on, gate) = sync_channel::<()>(0);
    let (begin, has_begun) = sync_channel(1);
    let long = LedgerRead::new(move |_ledger| {
        begin.send(()).unwrap();
        gate.recv().unwrap_or(());
        Ok(ShowRead::new(|_, _| Ok(())))
    });
    let nobody = Ticket { connection: 6, generation: 0 };
    assert!(shop.shared.reads.ask(0, nobody, "a report", long.on(Lane::Audits)));
    has_begun.recv_timeout(PATIENCE).unwrap();
    for place in 0..Lane::Audits.waiting_max() {
        assert_eq!(shop.call(&page(PAGE).operator()).1, None, "{place}");
    }
    let (_, refused) = shop.call(&page(PAGE).operator());
    let refused = refused.expect("it is answered at once");
    assert_eq!(refused.header("retry-after"), Some("1"));
    let text = html(&refused, 503);
    assert!(text.contains("<h1>Too busy</h1>") && text.contains("Reload the page to ask again."), "{text}");
    drop(go_on);
}
