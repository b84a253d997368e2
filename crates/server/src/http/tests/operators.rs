//! Operators with names: which role may call what, how tokens come and go, and what is kept of what they did.

use std::cell::Cell;

use engine::{Command, Operator, ROOT, Role, UnixMs};

use super::problem;
use super::shop::{NOW, OPERATOR, Sent, Setup, Shop, demo_mode};
use crate::http::auth::operators::{digest_of, new_token};
use crate::http::route::Served;
use crate::http::router::ROUTER;
use crate::http::wire::fields::Method;

const OPERATORS: &str = "/api/v1/operators";
const REFUNDS: &str = "/api/v1/payments/refunds-due";

/// The least role of each route that asks for one: who may what, in one place.
const ROLES: [(&str, Role); 51] = [
    ("GET /api/v1/audit", Role::Viewer),
    ("GET /api/v1/clock", Role::Viewer),
    ("GET /api/v1/figures", Role::Viewer),
    ("GET /api/v1/figures/events", Role::Viewer),
    ("GET /api/v1/figures/history", Role::Viewer),
    ("GET /api/v1/figures/history.csv", Role::Viewer),
    ("GET /api/v1/images", Role::Viewer),
    ("GET /api/v1/rehearsal", Role::Viewer),
    ("GET /api/v1/webhooks", Role::Viewer),
    ("POST /api/v1/console/session", Role::Viewer),
    ("GET /api/v1/operators/log", Role::Support),
    ("GET /api/v1/payments/refunds-due", Role::Support),
    ("GET /api/v1/sales/{sale}/items/{product}/attempts", Role::Support),
    ("GET /api/v1/sales/{sale}/report", Role::Support),
    ("GET /console/sales/{sale}/report", Role::Support),
    ("GET /api/v1/support/orders/{number?}", Role::Support),
    ("POST /api/v1/orders/{id?}/refund", Role::Support),
    ("POST /api/v1/payments/{payment?}/settle", Role::Support),
    ("GET /api/v1/orders", Role::Operator),
    ("POST /api/v1/demo/load", Role::Operator),
    ("POST /api/v1/images", Role::Operator),
    ("POST /api/v1/images/{name?}/remove", Role::Operator),
    ("POST /api/v1/sales", Role::Operator),
    ("PATCH /api/v1/sales/{sale}", Role::Operator),
    ("POST /api/v1/sales/{sale}/delete", Role::Operator),
    ("POST /api/v1/sales/{sale}/end", Role::Operator),
    ("POST /api/v1/sales/{sale}/items/{product}/line/message", Role::Operator),
    ("POST /api/v1/sales/{sale}/items/{product}/line/pace", Role::Operator),
    ("POST /api/v1/sales/{sale}/items/{product}/restock", Role::Operator),
    ("POST /api/v1/rehearsal/stop", Role::Operator),
    ("POST /api/v1/sales/{sale}/pause", Role::Operator),
    ("POST /api/v1/sales/{sale}/rehearse", Role::Operator),
    ("POST /api/v1/sales/{sale}/resume", Role::Operator),
    ("POST /api/v1/webhooks/{endpoint?}/disable", Role::Operator),
    ("POST /api/v1/webhooks/{endpoint?}/enable", Role::Operator),
    ("POST /api/v1/webhooks/{endpoint?}/replay", Role::Operator),
    ("POST /api/v1/webhooks/{endpoint?}/test", Role::Operator),
    ("GET /api/v1/operators", Role::Admin),
    ("POST /api/v1/buyers/erase", Role::Admin),
    ("POST /api/v1/clock/confirm", Role::Admin),
    ("POST /api/v1/operators", Role::Admin),
    ("POST /api/v1/operators/{name?}/revoke", Role::Admin),
    ("POST /api/v1/sales/{sale}/items/{product}/correct", Role::Admin),
    // Served at the operators' listener, and to whoever reaches it.
    ("GET /console", Role::Viewer),
    ("GET /console/runbook", Role::Viewer),
    ("GET /metrics", Role::Viewer),
    ("GET /api/v1/console/session", Role::Viewer),
    ("POST /api/v1/console/session/end", Role::Viewer),
    ("GET /healthz", Role::Viewer),
    ("GET /readyz", Role::Viewer),
    ("GET /api/v1/sales", Role::Viewer),
];
/// Those of them that ask for no token.
const OPEN: usize = 8;

pub(super) fn bearer(shop: &mut Shop, name: &str, role: Role, expires_at: Option<UnixMs>) -> String {
    let (token, by) = (new_token(name), ROOT.into());
    let digest = digest_of(&token);
    let operator = Operator { name: name.into(), role, digest, added_at: NOW, by, expires_at };
    shop.execute(Command::AddOperator(Box::new(operator)));
    format!("Bearer {token}")
}

pub(super) fn with(sent: Sent, bearer: &str) -> Sent {
    sent.with("Authorization", bearer)
}

#[test]
fn each_role_may_call_exactly_its_routes() {
    let asks = &ROLES[..ROLES.len() - OPEN];
    let mut setup = Setup::new(demo_mode());
    setup.ledger = true;
    let mut shop = Shop::with(setup);
    let tokens = Role::ALL.map(|role| (role, bearer(&mut shop, role.as_str(), role, None)));
    let rows = ROUTER.resources().flat_map(|resource| resource.routes());
    for row in rows.filter(|row| row.served != Served::Public) {
        let method = match row.method {
            Method::Get => "GET",
            Method::Post => "POST",
            _ => "PATCH",
        };
        let route = format!("{method} {}", row.path);
        let Some((_, needed)) = asks.iter().find(|(known, _)| *known == route) else {
            let is_open = ROLES.iter().any(|(known, _)| *known == route) || row.served == Served::Both;
            assert!(is_open, "{route} has no row in ROLES");
            continue;
        };
        let path = row.path.replace("{sale}", "3").replace("{product}", "29");
        let path = path.replace("{id?}", &"0".repeat(40)).replace("{payment?}", "p1");
        let path =
            path.replace("{name?}", "none").replace("{number?}", "none").replace("{endpoint?}", "none");
        // A body that nothing comes of: what is judged before it is what is asked.
        let sent = || Sent { body: b"[".to_vec(), ..Sent::new(method, &path) };
        assert_eq!(shop.call(&sent()).1.unwrap().status, 401, "{route} without a token");
        for (role, bearer) in &tokens {
            let answer = shop.call(&with(sent(), bearer)).1;
            let refused =
                answer.is_some_and(|answer| answer.status == 403 && answer.text().contains("role_required"));
            assert_eq!(refused, role < needed, "{route} by a {}", role.as_str());
        }
    }
}

#[test]
fn a_role_that_is_missing_is_named_and_drafts_and_orders_are_shown_by_role() {
    let mut shop = Shop::new(demo_mode());
    let viewer = bearer(&mut shop, "vera", Role::Viewer, None);
    let answer = shop.send(&with(Sent::post("/api/v1/sales/3/pause", ""), &viewer));
    assert_eq!(answer.problem(), problem(403, "role_required"));
    assert!(answer.text().contains("the role operator"), "{}", answer.text());
    let sale = shop.send(&with(Sent::get("/api/v1/sales/3"), &viewer)).json();
    assert!(sale["items"][0].get("held").is_some(), "a viewer sees what operators see of a sale");
    let placed = shop.send(&Sent::post("/api/v1/orders", r#"{"sale":3,"product":29}"#).member(7).key("k"));
    let order = format!("/api/v1/orders/{}", placed.json()["id"].as_str().unwrap());
    assert_eq!(shop.send(&with(Sent::get(&order), &viewer)).problem(), problem(403, "role_required"));
    assert_eq!(
        shop.send(&with(Sent::get(&order), &viewer).member(7)).status,
        200,
        "a buyer who watches, too"
    );
    let support = bearer(&mut shop, "sam", Role::Support, None);
    assert_eq!(shop.send(&with(Sent::get(&order), &support)).status, 200);
}

#[test]
fn support_cancels_a_buyers_order_and_the_log_says_so() {
    let mut setup = Setup::new(demo_mode());
    setup.ledger = true;
    let mut shop = Shop::with(setup);
    let [viewer, support] = [("vera", Role::Viewer), ("sam", Role::Support)].map(|(name, role)| {
        let of = bearer(&mut shop, name, role, None);
        move |sent| with(sent, &of)
    });
    let placed = shop.send(&Sent::post("/api/v1/orders", r#"{"sale":3,"product":29}"#).member(7).key("k"));
    let id = placed.json()["id"].as_str().unwrap().to_owned();
    let cancel = || Sent::post(&format!("/api/v1/orders/{id}/cancel"), "");
    assert_eq!(shop.send(&viewer(cancel())).problem(), problem(403, "role_required"));
    assert_eq!(shop.send(&cancel()).status, 401);
    let cancelled = shop.send(&support(cancel()).with("Operator-Reason", "moved%20abroad"));
    assert_eq!((cancelled.status, &cancelled.json()["status"]), (200, &"cancelled".into()));
    assert_eq!(shop.send(&cancel().member(7)).status, 200, "its buyer is answered the same");
    let log = shop.send(&support(Sent::get("/api/v1/operators/log"))).json();
    let actions = log["log"].as_array().unwrap();
    let said = ["who", "what", "about", "why"].map(|name| actions[0][name].as_str().unwrap().to_owned());
    assert_eq!(
        (actions.len(), said),
        (1, ["sam", "order_cancelled", &id, "moved abroad"].map(str::to_owned))
    );
}

#[test]
fn an_operator_is_added_listed_and_revoked_and_the_token_ends_at_once() {
    let mut shop = Shop::new(demo_mode());
    let add = |body: &str| Sent::post(OPERATORS, body).operator();
    let made = shop.send(&add(r#"{"name":"anna","role":"support","expires_s":60}"#));
    assert_eq!((made.status, made.header("cache-control")), (201, Some("no-store")), "{}", made.text());
    let made = made.json();
    assert!(made["expires_at_ms"].as_u64().unwrap() >= NOW.0 + 60_000);
    let bearer = format!("Bearer {}", made["token"].as_str().unwrap());
    let list = shop.send(&Sent::get(OPERATORS).operator());
    assert!(!list.text().contains(made["token"].as_str().unwrap()), "it is shown once");
    let anna = &list.json()["operators"][0];
    let expected = ("anna", "support", ROOT, false);
    let text = |name: &str| anna[name].as_str().unwrap();
    assert_eq!((text("name"), text("role"), text("added_by"), anna["expired"].as_bool().unwrap()), expected);
    assert_eq!(shop.send(&with(Sent::get(REFUNDS), &bearer)).status, 200);
    assert_eq!(
        shop.send(&add(r#"{"name":"anna","role":"admin"}"#)).problem(),
        problem(422, "invalid_change")
    );
    for wrong in [
        r#"{"name":"ben","role":"root"}"#,
        r#"{"name":"ben"}"#,
        r#"{"name":"ben","role":"viewer","expires_s":0}"#,
    ] {
        assert_eq!(shop.send(&add(wrong)).status, 400, "{wrong}");
    }
    assert_eq!(shop.send(&add(r#"{"name":"root","role":"viewer"}"#)).status, 422);
    let revoke = Sent::post("/api/v1/operators/anna/revoke", "").operator();
    assert_eq!(shop.send(&revoke).status, 204);
    assert_eq!(shop.send(&with(Sent::get(REFUNDS), &bearer)).status, 401);
    assert_eq!(shop.send(&revoke).problem(), problem(422, "invalid_change"));
}

#[test]
fn tokens_that_are_not_good_are_answered_alike_counted_and_slowed_down() {
    let mut shop = Shop::new(demo_mode());
    let expired = bearer(&mut shop, "eva", Role::Admin, Some(NOW));
    let revoked = bearer(&mut shop, "rob", Role::Admin, None);
    shop.execute(Command::RevokeOperator("rob".into()));
    let unknown = format!("Bearer {}", new_token("nobody"));
    let wrong = format!("{}0", &expired[..expired.len() - 1]);
    let mut answers = Vec::new();
    for bearer in [&expired, &revoked, &unknown, &wrong, "Bearer wrong"] {
        let answer = shop.send(&with(Sent::get(REFUNDS), bearer));
        answers.push((answer.status, answer.body));
    }
    answers.dedup();
    assert_eq!((answers.len(), answers[0].0), (1, 401));
    assert_eq!(shop.shared.metrics.operator_tokens_wrong.get(), 5);
    // What everybody may read is no way to find out.
    for public in ["/api/v1/sales", "/api/v1/sales/3"] {
        assert_eq!(shop.send(&with(Sent::get(public), &revoked)).status, 401, "{public}");
    }
    let statuses: Vec<_> = (0..10).map(|_| shop.send(&with(Sent::get(REFUNDS), &revoked)).status).collect();
    assert_eq!(statuses.last(), Some(&429));
    assert_eq!(shop.send(&with(Sent::get(REFUNDS), OPERATOR)).status, 200, "a good one is taken at once");
}

#[test]
fn a_session_of_the_console_is_the_operators_and_ends_with_the_token() {
    let mut shop = Shop::new(demo_mode());
    let support = bearer(&mut shop, "sam", Role::Support, None);
    let begun = shop.send(&with(Sent::post("/api/v1/console/session", ""), &support));
    let cookie = begun.header("set-cookie").unwrap().split(';').next().unwrap().to_owned();
    let session = Sent::get("/api/v1/console/session").with("Cookie", &cookie);
    let shown = shop.send(&session).json();
    assert_eq!((&shown["operator"], &shown["role"]), (&"sam".into(), &"support".into()));
    assert_eq!(shop.send(&Sent::get(REFUNDS).with("Cookie", &cookie)).status, 200);
    let pause = Sent::post("/api/v1/sales/3/pause", "").with("Cookie", &cookie);
    let pause = shop.send(&pause.with("Origin", "http://here"));
    assert_eq!(pause.problem(), problem(403, "role_required"));
    shop.execute(Command::RevokeOperator("sam".into()));
    assert_eq!(shop.send(&session).json()["signed_in"], false);
    assert_eq!(shop.send(&Sent::get(REFUNDS).with("Cookie", &cookie)).status, 401);
}

#[test]
fn actions_are_in_the_log_with_who_and_why_and_a_reason_is_bounded() {
    let mut setup = Setup::new(demo_mode());
    setup.ledger = true;
    let mut shop = Shop::with(setup);
    let otto = bearer(&mut shop, "otto", Role::Operator, None);
    let pause = |why: &str| with(Sent::post("/api/v1/sales/3/pause", ""), &otto).with("Operator-Reason", why);
    for wrong in ["%zz", "a%0ab", "%E2%80%AEdlos", &"x".repeat(201)] {
        assert_eq!(shop.send(&pause(wrong)).problem(), problem(400, "invalid_request"), "{wrong}");
    }
    assert_eq!(shop.send(&pause("zu%20schnell%20%E2%80%93%20Lager")).status, 200);
    assert_eq!(shop.send(&pause("again: it is paused, and nothing is done")).status, 200);
    assert_eq!(shop.send(&Sent::post("/api/v1/sales/1/pause", "").operator()).status, 200);
    let mut page =
        |query: &str| shop.send(&Sent::get(&format!("/api/v1/operators/log{query}")).operator()).json();
    let log = page("");
    let action =
        |at: usize| ["who", "what", "why"].map(|name| log["log"][at][name].as_str().unwrap().to_owned());
    assert_eq!(action(0), [ROOT, "sale_paused", ""]);
    assert_eq!(action(1), ["otto", "sale_paused", "zu schnell – Lager"]);
    assert_eq!((log["log"].as_array().unwrap().len(), &log["next_cursor"]), (2, &serde_json::Value::Null));
    let first = page("?limit=1");
    let older = page(&format!("?limit=1&cursor={}", first["next_cursor"]));
    assert_eq!((&first["log"][0], &older["log"][0]), (&log["log"][0], &log["log"][1]));
    assert_eq!(page("?sale=3")["log"], serde_json::json!([log["log"][1]]));
}

/// A server's clock that stands, or runs behind, made an expired token good again: it could add an admin that never expires.
#[test]
fn an_expired_token_is_not_taken_by_a_server_whose_clock_is_wrong() {
    let mut shop = Shop::new(demo_mode());
    let expired = bearer(&mut shop, "anna", Role::Admin, Some(NOW));
    let expires = bearer(&mut shop, "ben", Role::Admin, Some(NOW.plus(60_000)));
    let lasting = bearer(&mut shop, "cleo", Role::Admin, None);
    let (day, all) = (86_400_000, [&*expired, &expires, &lasting, OPERATOR]);
    let add = Sent::post(OPERATORS, r#"{"name":"dan","role":"admin"}"#);
    // Each from an address of its own: wrong tokens are counted.
    let addresses = Cell::new(0_u32);
    let asked = |sent: &Sent, bearer: &str| {
        addresses.set(addresses.get() + 1);
        with(sent.clone(), bearer).from(addresses.get().to_be_bytes())
    };
    let detail = |shop: &mut Shop, bearer: &str| {
        let answer = shop.send(&asked(&add, bearer));
        assert_eq!(answer.problem(), problem(401, "operator_unauthorized"));
        answer.json()["detail"].as_str().unwrap().to_owned()
    };
    let list = Sent::get(OPERATORS);
    let taken = |shop: &mut Shop| all.map(|bearer| shop.send(&asked(&list, bearer)).status == 200);
    assert_eq!(taken(&mut shop), [false, true, true, true]);
    shop.shared.clock.set(NOW.shifted(-day));
    assert_eq!(taken(&mut shop), [false, true, true, true], "the wall's clock says that it has expired");
    for stands_at in [NOW.shifted(-day), NOW.shifted(day)] {
        shop.shared.clock.stand_at(stands_at);
        assert_eq!(taken(&mut shop), [false, false, true, true]);
        let said = detail(&mut shop, &expires);
        assert!(said.contains("clock is not confirmed: tokens that expire are not taken"), "{said}");
        assert_eq!([detail(&mut shop, &expired), detail(&mut shop, "Bearer wrong")], [&*said, &*said]);
    }
    shop.shared.clock.set(NOW);
    assert_eq!(taken(&mut shop), [false, true, true, true]);
}
