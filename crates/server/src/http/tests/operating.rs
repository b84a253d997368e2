//! Health, metrics, audit, feed, the clock, and the API's description.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::mpsc::sync_channel;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::shop::{Delivered, NOW, OPERATOR, Sent, Setup, Shop, demo_mode};
use super::{Response, problem};
use crate::http::AuthMode;
use crate::http::reads::{Lane, LedgerRead, ShowRead};
use crate::http::route::Route;
use crate::http::router::{ROUTER, Resource};
use crate::http::routes::operating::OPEN_API;
use crate::http::wire::fields::Method;
use crate::ledger::Batch;
use crate::ledger::sqlite::{Options, SqliteLedger, Synchronous};
use crate::net::{ResponseWriter, Service, Ticket};

const PATIENCE: Duration = Duration::from_secs(60);

/// Every path of the router with its methods, as the description writes them.
fn routed() -> BTreeMap<String, Vec<&'static str>> {
    let name = |route: &Route| match route.method {
        Method::Get => "get",
        Method::Post => "post",
        Method::Patch => "patch",
        Method::Options | Method::Other => panic!("no row is about {:?}", route.method),
    };
    let methods = |resource: &Resource| resource.routes().map(name).collect();
    ROUTER.resources().map(|resource| (resource.described(), methods(resource))).collect()
}

#[test]
fn the_description_names_every_route_and_no_other() {
    let spec: Value = serde_json::from_str(OPEN_API).unwrap();
    let paths = spec["paths"].as_object().unwrap();
    let mut described = BTreeMap::new();
    for (path, operations) in paths {
        let operations = operations.as_object().unwrap();
        for (method, operation) in operations.iter().filter(|(name, _)| *name != "parameters") {
            assert!(
                operation["summary"].is_string() && operation["responses"].is_object(),
                "{method} {path}"
            );
            described.entry(path.clone()).or_insert_with(Vec::new).push(method.as_str());
        }
    }
    let mut routed = routed();
    routed.values_mut().for_each(|methods| methods.sort_unstable());
    assert_eq!(described, routed);
}

#[test]
fn every_reference_of_the_description_leads_somewhere() {
    fn check(value: &Value, spec: &Value) {
        match value {
            Value::Object(fields) => {
                if let Some(target) = fields.get("$ref").and_then(Value::as_str) {
                    let pointer = target.strip_prefix('#').unwrap();
                    assert!(spec.pointer(pointer).is_some(), "{target}");
                }
                fields.values().for_each(|value| check(value, spec));
            }
            Value::Array(values) => values.iter().for_each(|value| check(value, spec)),
            _ => {}
        }
    }
    let spec: Value = serde_json::from_str(OPEN_API).unwrap();
    check(&spec, &spec);
    assert_eq!(Shop::new(demo_mode()).send(&Sent::get("/api/v1/openapi.json")).json(), spec);
}

#[test]
fn unknown_addresses_and_methods_are_problems() {
    let mut shop = Shop::new(demo_mode());
    assert_eq!(shop.send(&Sent::get("/api/v1/nothing")).problem(), problem(404, "not_found"));
    for (path, methods) in routed() {
        let path = path.replace("{sale}", "3").replace("{product}", "29");
        for method in ["GET", "POST", "PATCH", "DELETE", "PUT", "FROB"] {
            if methods.contains(&method.to_lowercase().as_str()) {
                continue;
            }
            let refused = shop.send(&Sent::new(method, &path));
            assert_eq!(refused.status, 405, "{method} {path}");
            assert!(refused.header("allow").unwrap().contains("OPTIONS"));
        }
        assert_eq!(shop.send(&Sent::new("OPTIONS", &path)).status, 204);
    }
}

#[test]
fn the_metrics_are_in_prometheus_format() {
    let mut setup = Setup::new(demo_mode());
    (setup.limits.orders_per_s, setup.limits.burst, setup.limits.in_flight_max) = (55, 5, 77);
    let mut shop = Shop::with(setup);
    shop.send(&Sent::post("/api/v1/orders", r#"{"sale":3,"product":30}"#).member(1));
    shop.send(&Sent::post("/api/v1/orders", r#"{"sale":3,"product":31}"#).member(1));
    let metrics = shop.send(&Sent::get("/metrics"));
    let text = metrics.text();
    assert!(text.ends_with("# EOF\n") && text.matches("# EOF").count() == 1, "{text}");
    for line in [
        "doorbuster_stock_units{sale=\"3\",product=\"30\",kind=\"held\"} 1",
        "doorbuster_stock_units{sale=\"3\",product=\"30\",kind=\"available\"} 1",
        "doorbuster_refusals_total{code=\"sold_out\"} 1",
        "doorbuster_http_responses_total{class=\"4xx\"} 1",
        "doorbuster_orders_accepted_total 1",
        "doorbuster_order_seconds_count 1",
        "doorbuster_units_held 1",
        "doorbuster_admission_orders_per_s 55",
        "doorbuster_admission_burst 5",
        "doorbuster_admission_in_flight_max 77",
    ] {
        assert!(text.lines().any(|found| found == line), "{line} in\n{text}");
    }
    let value = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        line.map(|value| value.parse::<f64>().unwrap())
    };
    let (free, disk) =
        (value("doorbuster_disk_free_bytes").unwrap(), value("doorbuster_disk_bytes").unwrap());
    assert!(0.0 < free && free <= disk, "{free} of {disk}");
    assert!(value("doorbuster_memory_bytes").unwrap() > 100_000.0);
    assert_eq!(value("doorbuster_ledger_bytes"), None, "what nobody knows is not shown");
    let mut names = BTreeSet::new();
    for line in text.lines().filter_map(|line| line.strip_prefix("# TYPE ")) {
        assert!(names.insert(line.split(' ').next().unwrap().to_owned()), "{line} twice");
    }
}

/// Another loop than the one that a change is seen at first must see it too.
#[test]
fn who_is_let_in_changes_for_every_loop_with_the_next_request() {
    let mut shop = Shop::new(demo_mode());
    let mut rested = shop.another_loop();
    let asked = |token: &str| Sent::get("/api/v1/payments/refunds-due").with("Authorization", token);
    let mut setup = Setup::new(demo_mode());
    setup.secrets.operator = vec![Box::from(*b"another token"), Box::from(&OPERATOR.as_bytes()[7..])];
    shop.shared.change_access(&setup.options, &setup.secrets);
    for _ in 0..2 {
        assert_eq!(
            [shop.send(&asked(OPERATOR)).status, shop.send(&asked("Bearer another token")).status],
            [200, 200]
        );
        std::mem::swap(&mut shop.service, &mut rested);
    }
    setup.secrets.operator.pop();
    setup.options.public_names = vec!["shop.example".to_owned()];
    shop.shared.change_access(&setup.options, &setup.secrets);
    for _ in 0..2 {
        assert_eq!(
            [shop.send(&asked(OPERATOR)).status, shop.send(&asked("Bearer another token")).status],
            [401, 200]
        );
        std::mem::swap(&mut shop.service, &mut rested);
    }
}

#[test]
fn the_metrics_may_be_the_operators_alone() {
    let mut setup = Setup::new(demo_mode());
    setup.options.metrics_token_required = true;
    let mut shop = Shop::with(setup);
    assert_eq!(shop.send(&Sent::get("/metrics")).problem(), problem(401, "operator_unauthorized"));
    assert_eq!(shop.send(&Sent::get("/metrics").operator()).status, 200);
}

#[test]
fn the_audit_and_the_feed_come_from_the_ledger() {
    let mut shop = Shop::new(demo_mode());
    let audit = Sent::get("/api/v1/audit").operator();
    assert_eq!(shop.send(&audit).problem(), problem(503, "ledger_unreadable"));
    let mut ledger = SqliteLedger::open(Options {
        data_dir: shop.data_dir().to_owned(),
        synchronous: Synchronous::Off,
        checkpoint_pages: 1000,
        vfs: None,
    })
    .unwrap();
    let mut book = engine::Book::new();
    book.execute(NOW, engine::Command::CreateSale(super::shop::flash_sale())).unwrap();
    let sku = book.sku(super::shop::SALE, engine::ProductId(30)).unwrap();
    let id = engine::OrderId { sku, hash: 5 };
    let place =
        engine::Placement { id, buyer: engine::BuyerId(7), quantity: 1, fingerprint: engine::Fingerprint(0) };
    let (order, _) = book.place(NOW, &place).unwrap();
    let mut entries = Vec::new();
    book.drain_journal(&mut entries);
    let addresses = [(order.seq, Box::from(*br#"{"name":"Ada"}"#))];
    ledger
        .append(&Batch { entries: &entries, addresses: &addresses, buyers: &[], messages: &[], at: NOW })
        .unwrap();

    let audited = shop.send(&audit).json();
    assert_eq!((&audited["clean"], &audited["orders"]), (&true.into(), &1.into()), "{audited}");
    assert_eq!((&audited["skus"][1]["held"], &audited["skus"][1]["total"]), (&1.into(), &2.into()));
    let reported = shop.send(&Sent::get("/api/v1/sales/3/report").operator()).json();
    let report = &reported["report"];
    let shown = [&report["sale"], &report["orders"]["placed"], &reported["audit"]["clean"]];
    assert_eq!(shown, [&json!(3), &json!(1), &json!(true)], "{reported}");
    let none = shop.send(&Sent::get("/api/v1/sales/99/report").operator());
    assert_eq!(none.problem(), problem(404, "unknown_sale"));
    let feed = shop.send(&Sent::get("/api/v1/orders?since=0&limit=10").operator()).json();
    let line = &feed["orders"][0];
    assert_eq!((&line["id"], &line["buyer"]), (&id.to_string().into(), &"7".into()));
    assert_eq!((&line["address"]["name"], &line["status"]), (&"Ada".into(), &"held".into()));
    let next = format!("/api/v1/orders?since={}", feed["cursor"]);
    let rest = shop.send(&Sent::get(&next).operator()).json();
    assert_eq!((&rest["orders"], &rest["more"]), (&Value::Array(Vec::new()), &false.into()));
    let broken = Sent::get("/api/v1/orders?since=x").operator();
    assert_eq!(shop.send(&broken).problem(), problem(400, "invalid_request"));
}

/// A report reads and audits the whole ledger.
#[test]
fn orders_are_answered_while_a_report_is_made_and_so_many_reports_wait() {
    let mut setup = Setup::new(AuthMode::MemberId);
    setup.ledger = true;
    let mut shop = Shop::with(setup);
    let (go_on, gate) = sync_channel::<()>(0);
    let (begin, has_begun) = sync_channel(1);
    // Before them one is read that takes as long as the test says.
    let long = LedgerRead::new(move |_ledger| {
        begin.send(()).unwrap();
        gate.recv().unwrap_or(());
        Ok(ShowRead::new(|_, _| Ok(())))
    });
    let nobody = Ticket { connection: 6, generation: 0 };
    assert!(shop.shared.reads.ask(0, nobody, "a report", long.on(Lane::Audits)));
    has_begun.recv_timeout(PATIENCE).unwrap();
    let report = Sent::get("/api/v1/sales/3/report").operator();
    let first = shop.call(&report);
    assert_eq!(first.1, None, "it waits");
    for place in 1..Lane::Audits.waiting_max() {
        assert_eq!(shop.call(&report).1, None, "{place}");
    }
    let refused = shop.send(&report);
    assert_eq!((refused.problem(), refused.header("retry-after")), (problem(503, "busy"), Some("1")));
    let order = Sent::post("/api/v1/orders", r#"{"sale":3,"product":29}"#).member(7).key("k1");
    assert_eq!(shop.send(&order).status, 201);
    drop(go_on);
    let (begun, mut delivered) = (Instant::now(), Delivered::default());
    let made = loop {
        assert!(begun.elapsed() < PATIENCE);
        shop.service.deliver_to(&mut delivered);
        if let Some((_, bytes)) = delivered.0.iter().find(|(found, _)| *found == first.0) {
            break Response::read(bytes);
        }
        std::thread::yield_now();
    };
    assert_eq!(made.json()["report"]["orders"]["placed"], 1);
}

#[test]
fn the_clock_and_the_shop_are_set() {
    let mut setup = Setup::new(demo_mode());
    setup.ledger = true;
    let mut shop = Shop::with(setup);
    assert!(shop.send(&Sent::get("/api/v1/time")).json()["now_ms"].as_u64() >= Some(NOW.0));
    let confirmed = shop.send(&Sent::post("/api/v1/clock/confirm", "").operator());
    assert_eq!(
        (confirmed.status, confirmed.body.as_slice()),
        (200, br#"{"from_ms":7,"to_ms":5}"#.as_slice())
    );
    let log = shop.send(&Sent::get("/api/v1/operators/log").operator()).json();
    let said = ["who", "what", "about"].map(|name| log["log"][0][name].as_str().unwrap().to_owned());
    assert_eq!(said, ["root", "clock_confirmed", "from 1970-01-01T00:00:00Z to 1970-01-01T00:00:00Z"]);
    let loaded = shop.send(&Sent::post("/api/v1/demo/load", r#"{"balance":10}"#).operator());
    assert_eq!((loaded.status, &loaded.json()["balance"]), (200, &10.into()));
    let too_much = Sent::post("/api/v1/demo/load", r#"{"balance":999999999999999}"#).operator();
    assert_eq!(shop.send(&too_much).problem(), problem(400, "invalid_request"));
}

#[test]
fn a_clock_that_stands_is_reported_with_what_waits_for_it() {
    let mut shop = Shop::new(demo_mode());
    let asked = Sent::get("/api/v1/clock").operator();
    assert_eq!(shop.send(&asked).json()["confirmed"], true);
    assert_eq!(shop.send(&Sent::get("/readyz")).status, 200);
    assert_eq!(shop.send(&Sent::get("/api/v1/clock")).problem(), problem(401, "operator_unauthorized"));
    // The wall's clock says NOW, which is 100 days and the start of the sale later.
    let stands_at = NOW.shifted(-100 * 86_400_000);
    shop.shared.clock.stand_at(stands_at);
    for asked in [asked.clone(), Sent::get("/api/v1/time")] {
        let clock = shop.send(&asked).json();
        assert_eq!((&clock["confirmed"], &clock["now_ms"]), (&false.into(), &stands_at.0.into()));
    }
    let clock = shop.send(&asked).json();
    assert_eq!((&clock["system_ms"], &clock["next_start_ms"]), (&NOW.0.into(), &NOW.0.into()));
    let ready = shop.send(&Sent::get("/readyz"));
    let why = ready.text();
    assert_eq!(ready.status, 503, "{why}");
    for expected in [
        "100d 0h 0m ahead",
        "the next sale is to start at 2023-11-14T22:13:20Z",
        "`doorbuster clock confirm`",
    ] {
        assert!(why.contains(expected), "{why}");
    }
    let metrics = shop.send(&Sent::get("/metrics"));
    for gauge in ["doorbuster_clock_unconfirmed 1", "doorbuster_ready 0"] {
        assert!(metrics.text().lines().any(|line| line == gauge), "{gauge}");
    }
}

#[test]
fn what_the_net_layer_found_is_a_problem_too() {
    let mut shop = Shop::new(demo_mode());
    for (status, code) in
        [(400, "bad_request"), (413, "body_too_large"), (431, "head_too_large"), (505, "http_version")]
    {
        let bytes =
            ResponseWriter::render(|writer| shop.service.protocol_error(status, "Do better.", writer));
        assert_eq!(Response::read(&bytes).problem(), problem(status, code));
    }
}

#[test]
fn only_the_operator_may_send_a_large_body() {
    let shop = Shop::new(demo_mode());
    for (path, token, bytes) in [
        ("/api/v1/sales", OPERATOR, 1024 * 1024),
        ("/api/v1/sales/3", OPERATOR, 1024 * 1024),
        ("/api/v1/sales", "Bearer another token", 16 * 1024),
        ("/api/v1/sales", "", 16 * 1024),
        ("/api/v1/orders", OPERATOR, 16 * 1024),
    ] {
        let headers = [httparse::Header { name: "Authorization", value: token.as_bytes() }];
        assert_eq!(shop.service.body_bytes_max("POST", path, &headers), bytes, "{path} {token}");
        assert_eq!(shop.service.body_bytes_max("POST", path, &[]), 16 * 1024);
    }
}

#[test]
fn an_operator_erases_a_buyer_and_nobody_else_does() {
    let mut shop = Shop::new(AuthMode::MemberId);
    let erase = |body: &str| Sent::post("/api/v1/buyers/erase", body);
    assert_eq!(shop.send(&erase(r#"{"buyer":"anna"}"#).member(7)).status, 401);
    for buyer in ["anna", "7", &"x".repeat(128)] {
        let answer = shop.send(&erase(&format!(r#"{{"buyer":"{buyer}"}}"#)).operator());
        assert_eq!((answer.status, &*answer.text()), (202, r#"{"addresses":"erasing"}"#), "{buyer}");
    }
    let long = "x".repeat(129);
    for name in ["", " anna", "an\\nna", &long] {
        let sent = erase(&format!(r#"{{"buyer":"{name}"}}"#)).operator();
        assert_eq!(shop.send(&sent).problem(), problem(400, "invalid_request"), "{name}");
    }
    for body in [r#"{"buyer":7}"#, "{}", r#"{"buyer":"a","b":1}"#, "x"] {
        assert_eq!(shop.send(&erase(body).operator()).problem(), problem(400, "invalid_body"), "{body}");
    }
}
