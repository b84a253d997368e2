//! The figures as operators read them.

use std::time::Duration;

use engine::{Operators, Role};
use serde_json::json;

use super::operators::{bearer, with};
use super::shop::{Delivered, OPERATOR, Sent, Setup, Shop, demo_mode};
use super::{Response, problem};
use crate::http::Entrance;
use crate::time::Instant;

#[test]
fn operators_read_the_last_second_and_nobody_else_does() {
    let mut shop = Shop::new(demo_mode());
    let asked = Sent::get("/api/v1/figures");
    assert_eq!(shop.send(&asked).problem(), problem(401, "operator_unauthorized"));
    let begun = shop.send(&asked.clone().operator());
    assert_eq!((begun.status, begun.header("cache-control")), (200, Some("no-store")));
    assert_eq!((&begun.json()["number"], &begun.json()["server"]), (&0.into(), &"here:80".into()));

    shop.send(&Sent::post("/api/v1/orders", r#"{"sale":3,"product":30}"#).member(1));
    shop.send(&Sent::post("/api/v1/orders", r#"{"sale":3,"product":31}"#).member(1));
    shop.looking.look_a_second_later();
    let seen = shop.send(&asked.operator()).json();
    let totals = &seen["totals"];
    let of = |name: &str| totals[name].as_u64().unwrap();
    assert_eq!((of("received"), of("accepted"), of("refused"), of("busy")), (2, 1, 1, 0), "{seen}");
    assert!(seen["refused_by_code"]["sold_out"].as_f64() > Some(0.0), "{seen}");
    // What it is depends on the machine: its disk is looked at.
    assert!(seen["verdict"]["says"].as_str().is_some_and(|says| !says.is_empty()), "{seen}");
    assert_eq!(seen["order_route"]["count"], 1);
    let sales = seen["sales"].as_array().unwrap();
    let flash = sales.iter().find(|sale| sale["id"] == 3).unwrap();
    assert_eq!((&flash["items"][1]["held"], &flash["items"][1]["available"]), (&1.into(), &1.into()));
    let rate = |of: &serde_json::Value, name: &str| of["rates"][name].as_f64().unwrap();
    assert!(rate(flash, "accepted") > 0.0 && rate(flash, "refused") > 0.0, "{flash}");
    assert!(
        rate(&flash["items"][1], "accepted") > 0.0 || rate(&flash["items"][0], "accepted") > 0.0,
        "{flash}"
    );
    assert!(flash["refused_by_code"]["sold_out"].as_f64() > Some(0.0), "{flash}");
    assert_eq!(flash["order_route"]["count"], 1, "{flash}");
    assert!(seen["health"]["disk_free_bytes"].as_u64() > Some(0), "{seen}");
}

/// Nobody counted them.
#[test]
fn orders_at_a_price_that_has_changed_are_counted_as_refused_for_that() {
    let mut shop = Shop::new(demo_mode());
    let shown = |price: u64| {
        let body = format!(r#"{{"sale":3,"product":30,"unit_price":{price}}}"#);
        Sent::post("/api/v1/orders", &body).member(1)
    };
    let sent = [shown(1).key("k"), shown(1), shown(499_900).key("k"), shown(1).key("k")];
    assert_eq!(sent.map(|sent| shop.send(&sent).status), [409, 409, 201, 201]);
    shop.check_sums();
    let outcomes = ["received", "accepted", "replayed", "refused"];
    let counted = outcomes.map(|outcome| shop.metric(&format!("doorbuster_orders_{outcome}_total")));
    assert_eq!(counted, [4, 1, 1, 2]);
    assert_eq!(shop.metric("doorbuster_refusals_total{code=\"price_changed\"}"), 2);
    assert_eq!(shop.metric("doorbuster_orders_in_flight"), 0);

    shop.looking.look_a_second_later();
    let seen = shop.send(&Sent::get("/api/v1/figures").operator()).json();
    let flash = seen["sales"].as_array().unwrap().iter().find(|sale| sale["id"] == 3).unwrap();
    let item = flash["items"].as_array().unwrap().iter().find(|item| item["product"] == 30).unwrap();
    for of in [&seen, flash, item] {
        assert!(of["refused_by_code"]["price_changed"].as_f64() > Some(0.0), "{seen}");
    }
    let kept = shop.send(&Sent::get("/api/v1/figures/history?sale=3&product=30").operator()).json();
    assert_eq!(kept["refused"]["rows"][0]["orders"], json!({ "price_changed": 2 }), "{kept}");
    let who = shop.send(&Sent::get("/api/v1/sales/3/items/30/attempts").operator()).json();
    let first = &who["night"]["buyers"][0];
    assert_eq!((&first["attempts"], &first["refused_invalid"]), (&4.into(), &2.into()), "{who}");
}

#[test]
fn where_operators_have_a_listener_the_figures_are_there_alone() {
    let mut shop = Shop::with(Setup::new(demo_mode()));
    for (entrance, status) in [(Entrance::Public, 404), (Entrance::Operators, 200)] {
        shop.service = shop.at(entrance);
        assert_eq!(shop.send(&Sent::get("/api/v1/figures").operator()).status, status, "{entrance:?}");
    }
}

#[test]
fn who_watches_is_sent_each_second_once_and_asks_anew_when_access_changes() {
    let mut shop = Shop::new(demo_mode());
    let watched = Sent::get("/api/v1/figures/events");
    assert_eq!(shop.send(&watched).problem(), problem(401, "operator_unauthorized"));
    let number = |event: &[u8]| {
        let event = std::str::from_utf8(event).unwrap();
        let data = event.strip_prefix("data: ").and_then(|rest| rest.strip_suffix("\n\n")).unwrap();
        serde_json::from_str::<serde_json::Value>(data).unwrap()["number"].as_u64().unwrap()
    };
    let first = shop.send(&watched.clone().operator());
    assert_eq!((first.status, first.header("content-type")), (200, Some("text/event-stream")));
    assert_eq!((first.header("content-length"), number(&first.body)), (None, 0));
    let parts = |shop: &mut Shop| {
        let mut delivered = Delivered::default();
        shop.service.deliver_to(&mut delivered);
        delivered.0.into_iter().map(|(_, bytes)| bytes).collect::<Vec<_>>()
    };
    parts(&mut shop);
    assert!(parts(&mut shop).is_empty(), "nothing is new");
    shop.looking.look_a_second_later();
    let sent = parts(&mut shop);
    assert_eq!(sent.iter().map(|event| number(event)).collect::<Vec<_>>(), [1]);
    assert!(parts(&mut shop).is_empty());
    let setup = Setup::new(demo_mode());
    shop.shared.change_access(&setup.options, &setup.secrets);
    assert_eq!(parts(&mut shop), [b""], "its end");
    shop.looking.look_a_second_later();
    assert!(parts(&mut shop).is_empty());
}

#[test]
fn watchers_are_bounded() {
    let mut shop = Shop::new(demo_mode());
    let watched = Sent::get("/api/v1/figures/events").operator();
    let mut answers: Vec<_> = (0..300).map(|_| shop.send(&watched).status).collect();
    assert_eq!(answers.iter().filter(|status| **status == 200).count(), 256);
    answers.dedup();
    assert_eq!(answers, [200, 503]);
}

/// One operator's client had all places: with 1,000 streams nobody else saw the night.
#[test]
fn who_opens_streams_without_end_keeps_nobody_else_out() {
    let mut shop = Shop::new(demo_mode());
    let vera = bearer(&mut shop, "vera", Role::Viewer, None);
    let watched = |bearer: &str| with(Sent::get("/api/v1/figures/events"), bearer);
    let (first, answer) = shop.call(&watched(&vera));
    assert_eq!(answer.unwrap().status, 200);
    let mut answers: Vec<_> = (1..1_000).map(|_| shop.send(&watched(&vera)).status).collect();
    assert_eq!(answers.iter().filter(|status| **status == 200).count(), 255);
    answers.dedup();
    assert_eq!(answers, [200, 503]);
    assert_eq!(shop.send(&watched(OPERATOR)).status, 200);
    let mut delivered = Delivered::default();
    shop.service.deliver_to(&mut delivered);
    let ended = delivered.0.iter().filter(|(_, part)| part.is_empty()).map(|(ticket, _)| *ticket);
    assert_eq!(ended.collect::<Vec<_>>(), [first], "the oldest of hers gives way, and no other");
    assert_eq!(shop.send(&watched(&vera)).status, 503);
}

#[test]
fn operators_read_the_history_as_json_and_as_csv() {
    let mut shop = Shop::new(demo_mode());
    let path = "/api/v1/figures/history";
    assert_eq!(shop.send(&Sent::get(path)).problem(), problem(401, "operator_unauthorized"));
    let empty = shop.send(&Sent::get(path).operator()).json();
    assert_eq!((&empty["rows"], &empty["columns"][0]), (&json!([]), &"at_ms".into()), "{empty}");
    shop.send(&Sent::post("/api/v1/orders", r#"{"sale":3,"product":30}"#).member(1));
    shop.looking.look_a_second_later();
    let asked = Sent::get(&format!("{path}?sale=3&product=30&points=10")).operator();
    let points = shop.send(&asked).json();
    let place = |name: &str| {
        let columns = points["columns"].as_array().unwrap();
        columns.iter().position(|column| column == name).unwrap()
    };
    let rows = points["rows"].as_array().unwrap();
    assert_eq!((rows.len(), &points["step_ms"]), (1, &360_000.into()), "{points}");
    let of = |name| &rows[0][place(name)];
    assert!(of("received").as_f64() > Some(0.0), "{points}");
    assert_eq!((of("available"), of("held"), of("sold")), (&1.into(), &1.into(), &0.into()));
    assert_eq!((of("servers_heard"), of("servers_known")), (&1.into(), &1.into()), "there is no other");

    let (head, text) = export(&mut shop, &format!("{path}.csv?sale=3&product=30"));
    assert_eq!(head.header("content-type"), Some("text/csv; charset=utf-8"));
    assert_eq!((head.header("transfer-encoding"), head.header("content-length")), (Some("chunked"), None));
    let lines: Vec<_> = text.lines().collect();
    assert!(
        lines[0].starts_with("at_ms,received,") && lines[0].contains(",available,turns,held,sold,"),
        "{text}"
    );
    // A look that came late is a row for each of its seconds.
    assert!(lines.len() >= 2 && lines[lines.len() - 1].contains(",1,0,1,0,"), "{text}");

    for (query, status, code) in [
        ("points=0", 400, "invalid_request"),
        ("points=4001", 400, "invalid_request"),
        ("points=x", 400, "invalid_request"),
        ("to_ms=-1", 400, "invalid_request"),
        ("sale=3", 422, "half_an_item"),
        ("product=30", 422, "half_an_item"),
    ] {
        let refused = shop.send(&Sent::get(&format!("{path}?{query}")).operator());
        assert_eq!(refused.problem(), problem(status, code), "{query}");
    }
    // It was a table whose cells of the item are all empty.
    for path in [path, &format!("{path}.csv")] {
        let refused = shop.send(&Sent::get(&format!("{path}?sale=99&product=30")).operator());
        assert_eq!(refused.problem(), problem(404, "unknown_sale"), "{path}");
    }
    let max = i64::MAX;
    for (query, rows) in [(format!("from_ms=0&to_ms={max}&points=1"), 1), (format!("from_ms={max}"), 0)] {
        let points = shop.send(&Sent::get(&format!("{path}?{query}")).operator()).json();
        assert_eq!(points["rows"].as_array().unwrap().len(), rows, "{query}: {points}");
    }
}

/// The head of an export, and what its chunks have.
fn export(shop: &mut Shop, path: &str) -> (Response, String) {
    let head = shop.send(&Sent::get(path).operator());
    let (mut text, until) = (Vec::new(), Instant::now() + Duration::from_secs(60));
    loop {
        assert!(Instant::now() < until, "it came to no end");
        let mut delivered = Delivered::default();
        shop.service.deliver_to(&mut delivered);
        for (_, part) in delivered.0 {
            let mut rest = &part[..];
            while !rest.is_empty() {
                let line = rest.iter().position(|byte| *byte == b'\r').unwrap();
                let length = std::str::from_utf8(&rest[..line]).unwrap();
                let length = usize::from_str_radix(length, 16).unwrap();
                text.extend_from_slice(&rest[line + 2..][..length]);
                rest = &rest[line + 2 + length + 2..];
                if length == 0 {
                    assert!(rest.is_empty(), "the last chunk is the last");
                    return (head, String::from_utf8(text).unwrap());
                }
            }
        }
        std::thread::yield_now();
    }
}

#[test]
fn exports_are_few_at_a_time_and_one_that_is_over_makes_room() {
    let mut shop = Shop::new(demo_mode());
    let csv = Sent::get("/api/v1/figures/history.csv").operator();
    assert_eq!(
        shop.send(&Sent::get("/api/v1/figures/history.csv")).problem(),
        problem(401, "operator_unauthorized")
    );
    let statuses: Vec<_> = (0..5).map(|_| shop.send(&csv).status).collect();
    assert_eq!(statuses, [200, 200, 200, 200, 503]);
    let until = Instant::now() + Duration::from_secs(60);
    while shop.send(&csv).status == 503 {
        assert!(Instant::now() < until, "none came to its end");
        shop.service.deliver_to(&mut Delivered::default());
    }
}

/// A year takes a slow reader long.
#[test]
fn an_export_is_not_read_on_by_whoever_was_revoked() {
    let mut shop = Shop::new(demo_mode());
    let vera = bearer(&mut shop, "vera", Role::Viewer, None);
    let (export, head) = shop.call(&with(Sent::get("/api/v1/figures/history.csv"), &vera));
    assert_eq!(head.unwrap().status, 200);
    assert!(shop.shared.operators.publish(&Operators::default()), "she is revoked");
    let mut delivered = Delivered::default();
    shop.service.deliver_to(&mut delivered);
    // Without the last chunk, so a client can tell that it is not all.
    let of_export: Vec<_> = delivered.0.iter().filter(|(ticket, _)| *ticket == export).collect();
    assert_eq!(of_export, [&(export, Vec::new())]);
}
