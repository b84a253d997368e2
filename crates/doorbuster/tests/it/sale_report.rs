//! `doorbuster sale report` on the ledger that a real server wrote: its numbers against what the test did.

use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::exchange::Connection;
use crate::payments::{demo, pay, post, refunds};
use crate::run;
use crate::serving::{OPERATOR, Serving};

const PATIENCE: Duration = Duration::from_secs(60);
const SALE: u64 = 7;
const PRICE: u64 = 500;

/// As an operator; it must succeed.
#[track_caller]
fn steer(server: &Serving, method: &str, path: &str, key: &str, body: &Value) -> Value {
    let bearer = format!("Bearer {OPERATOR}");
    let headers =
        [("Authorization", &*bearer), ("Content-Type", "application/json"), ("Idempotency-Key", key)];
    let mut connection = Connection::open(server.address).unwrap();
    let answer = connection.exchange(method, path, &headers, &body.to_string()).unwrap();
    assert!([200, 201].contains(&answer.status), "{path}: {answer:?}");
    answer.json()
}

/// The order's id.
#[track_caller]
fn place(server: &Serving, buyer: &str, quantity: u32) -> String {
    let body = json!({ "sale": SALE, "product": 70, "quantity": quantity });
    let order = post(server, "/api/v1/orders", &[("memberId", buyer)], &body);
    order["id"].as_str().unwrap().to_owned()
}

fn wait_until_expired(server: &Serving, buyer: &str, order: &str) {
    let until = Instant::now() + PATIENCE;
    loop {
        let mut connection = Connection::open(server.address).unwrap();
        let path = format!("/api/v1/orders/{order}");
        let read: Value = connection.exchange("GET", &path, &[("memberId", buyer)], "").unwrap().json();
        if read["status"] == "expired" {
            return;
        }
        assert!(Instant::now() < until, "{read}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Its start is as long past as can be. All 6 units are taken at first; 2 come back by a refund, and 4 in all are taken again.
fn sell(directory: &Path, server: &Serving) {
    let now: Value = {
        let mut connection = Connection::open(server.address).unwrap();
        connection.exchange("GET", "/api/v1/time", &[], "").unwrap().json()
    };
    let now_ms = now["now_ms"].as_u64().unwrap();
    let sale = json!({
        "id": SALE, "title": "Winter drop", "currency": "EUR", "starts_at_ms": 0, "ends_at_ms": now_ms + 3_600_000,
        "payment_s": 900, "open_holds_per_buyer_max": 0, "items": [{ "product": 70, "title": "Shoe <42>", "description": "",
        "price": PRICE, "list_price": PRICE, "total": 6, "limit": 3 }],
    });
    let path = format!("/api/v1/sales/{SALE}");
    steer(server, "POST", "/api/v1/sales", "create", &sale);
    let first: Vec<_> = ["1", "2", "3"].map(|buyer| place(server, buyer, 2)).into();
    for (payment, order) in first.iter().enumerate() {
        assert_eq!(pay(server, &format!("p{payment}"), order, 2 * PRICE)["result"], "paid");
    }
    assert_eq!(pay(server, "twice", &first[1], 2 * PRICE)["reason"], "already_paid");
    let (code, _, errors) = refunds(directory, server, &["create", &first[0], "--units", "2", "--id", "r-1"]);
    assert_eq!(code, 0, "{errors}");
    let (code, _, errors) = refunds(directory, server, &["settle", "r-1"]);
    assert_eq!(code, 0, "{errors}");
    for _ in 0..5 {
        let mut connection = Connection::open(server.address).unwrap();
        let body = json!({ "sale": SALE, "product": 70, "quantity": 4 }).to_string();
        let headers = [("memberId", "7"), ("Content-Type", "application/json")];
        let refused = connection.exchange("POST", "/api/v1/orders", &headers, &body).unwrap();
        assert_eq!(refused.status, 409, "{refused:?}");
    }
    let cancelled = place(server, "4", 1);
    post(server, &format!("/api/v1/orders/{cancelled}/cancel"), &[("memberId", "4")], &json!({}));
    steer(server, "PATCH", &path, "sooner", &json!({ "payment_s": 1 }));
    let (late, lost) = (place(server, "5", 1), place(server, "6", 1));
    wait_until_expired(server, "5", &late);
    wait_until_expired(server, "6", &lost);
    assert_eq!(pay(server, "late", &late, PRICE)["result"], "paid");
    for verb in ["pause", "resume"] {
        steer(server, "POST", &format!("{path}/{verb}"), verb, &json!({}));
    }
    let restock = format!("{path}/items/70/restock");
    steer(server, "POST", &restock, "pallet-2", &json!({ "units": 5 }));
}

/// The refusals of `sell`, and that a refund is due, are on file.
fn wait_until_kept(server: &Serving) {
    let bearer = format!("Bearer {OPERATOR}");
    let until = Instant::now() + PATIENCE;
    loop {
        let mut connection = Connection::open(server.address).unwrap();
        let path = format!("/api/v1/figures/history?sale={SALE}&product=70");
        let kept: Value =
            connection.exchange("GET", &path, &[("Authorization", &bearer)], "").unwrap().json();
        if [&kept["refused"]["rows"], &kept["incidents"]].iter().all(|rows| rows[0].is_object()) {
            return;
        }
        assert!(Instant::now() < until, "{kept}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn report(directory: &Path, arguments: &[&str]) -> (i32, String, String) {
    run(directory, &[&["sale", "report", "7", "--data-dir", "data"], arguments].concat())
}

#[track_caller]
fn assert_fields(found: &Value, expected: &Value) {
    for (name, value) in expected.as_object().unwrap() {
        assert_eq!(&found[name], value, "{name}: {found}");
    }
}

#[test]
fn a_sale_is_reported_as_it_went_beside_its_server_and_without() {
    let directory = tempfile::tempdir().unwrap();
    let directory = directory.path();
    let server = demo(directory);
    sell(directory, &server);
    wait_until_kept(&server);
    let (code, running, errors) = report(directory, &["--json"]);
    assert_eq!((code, errors.as_str()), (0, ""));
    let running: Value = serde_json::from_str(&running).unwrap();
    assert_eq!((&running["over"], &running["audit"]["clean"]), (&json!(false), &json!(true)));
    let says = "Winter drop sold 5 of 11 units to 3 buyers so far, all taken in ";
    assert!(running["says"].as_str().unwrap().starts_with(says), "{running}");
    let sums = json!({
        "sale": SALE, "title": "Winter drop", "currency": "EUR", "buyers_ordered": 6, "buyers_bought": 3,
        "orders": { "placed": 6, "held": 0, "paid": 2, "paid_late": 1, "cancelled": 1, "expired": 1, "refunded": 1, "rejected": 0 },
        "payments": { "count": 4, "amount": 7 * PRICE },
        "refunds_due": { "count": 1, "amount": 2 * PRICE }, "refunds_made": { "count": 1, "amount": 2 * PRICE },
        "ended_at_ms": null, "deleted_at_ms": null, "paused": false, "happened_left_out": 0,
    });
    check_sums(&running["report"], &sums);

    steer(&server, "POST", "/api/v1/sales/7/end", "end", &json!({}));
    let (code, page, errors) = report(directory, &[]);
    assert_eq!((code, errors.as_str()), (0, ""), "{page}");
    assert_eq!(server.stop(), 0);
    let (code, stopped, errors) = report(directory, &[]);
    assert_eq!((code, errors.as_str()), (0, ""), "{stopped}");
    check_page(&stopped);
    let (code, json, errors) = report(directory, &["--json", "--html", "drop.html"]);
    assert_eq!((code, errors.as_str()), (0, ""));
    check_file(&std::fs::read_to_string(directory.join("drop.html")).unwrap(), &stopped);
    let (code, _, errors) = report(directory, &["--html", "drop.html"]);
    assert!(code == 64 && errors.starts_with("error: drop.html can't be written: "), "{code} {errors}");
    let over: Value = serde_json::from_str(&json).unwrap();
    assert_eq!((&over["over"], &over["figures_unknown"]), (&json!(true), &Value::Null));
    let figures = &over["figures"];
    assert!(figures["rows"].as_u64().unwrap() >= 1, "{json}");
    let refused = &figures["refused_rows"][0]["orders"];
    assert!(refused["over_limit"].as_u64().is_some_and(|orders| orders > 0), "{json}");
    let sale = &figures["sale"];
    assert!(sale["accepted"].as_u64() > Some(0) && sale["order_p99_ms"].as_f64() > Some(0.0), "{json}");
    let incident = &figures["incidents"][0];
    assert!(
        incident["ended_ms"].as_u64() >= incident["began_ms"].as_u64(),
        "it was stopped in order: {json}"
    );
}

fn check_sums(report: &Value, sums: &Value) {
    assert_fields(report, sums);
    let item = json!({ "product": 70, "planned": 6, "total": 11, "sold": 5, "held": 0, "available": 6, "returned": 5, "returned_taken": 4 });
    assert_fields(&report["items"][0], &item);
    let times = ["first_order_at_ms", "half_at_ms", "sold_out_at_ms"]
        .map(|time| report["items"][0][time].as_u64().unwrap());
    assert!(times.is_sorted() && times[0] >= report["starts_at_ms"].as_u64().unwrap(), "{report}");
    let after = &report["paid_after_ms"];
    assert!(after["p50"].as_u64() <= after["p99"].as_u64() && after["p99"].is_u64(), "{report}");
    let happened: Vec<_> = report["happened"].as_array().unwrap().iter().map(|it| &it["what"]).collect();
    assert_eq!(happened, ["created", "changed", "paused", "resumed", "restocked"]);
    let actions: Vec<_> = report["actions"].as_array().unwrap().iter().map(|it| &it["what"]).collect();
    let expected = [
        "sale_created",
        "order_refunded",
        "refund_settled",
        "sale_changed",
        "sale_paused",
        "sale_resumed",
        "restocked",
    ];
    assert_eq!(actions, expected);
    assert_fields(
        &report["happened"][4],
        &json!({ "what": "restocked", "product": 70, "units": 5, "key": "pallet-2" }),
    );
}

fn check_page(page: &str) {
    let first = page.lines().next().unwrap();
    assert!(first.starts_with("Winter drop sold 5 of 11 units to 3 buyers, all taken in "), "{page}");
    assert!(first.ends_with(" s, 6 left; 1 refund due; audit clean."), "{page}");
    assert!(page.lines().all(|line| line.chars().count() <= 100), "{page}");
    for line in [
        "orders    6: 2 paid, 1 paid late, 0 held, 1 expired, 1 cancelled, 1 refunded\n",
        "buyers    6 ordered, 3 with a paid order\n",
        "payments  4, 35.00 EUR\n",
        "refunds   due: 1, 10.00 EUR; made: 1, 10.00 EUR\n",
        "     70  Shoe <42>        6     11     5     0     6         5            4\n",
        "  product 70: 5 units added, key pallet-2\n",
        "\nattempts  about ",
        "\nwaits     half of its orders at most ",
        "\nincidents\nfrom                  to                    level  what\n",
        "\nrefused, by minute\nrefused from          orders  why\n",
        " over limit\n",
    ] {
        assert!(page.contains(line), "{line}{page}");
    }
    assert!(page.contains(", ended by an operator\n") && page.contains("  ended\n"), "{page}");
    assert!(
        page.contains("  root  refund settled r-1\n") && page.ends_with("  root  sale ended\n"),
        "{page}"
    );
}

/// It says what the terminal says, and loads nothing.
fn check_file(html: &str, page: &str) {
    let says = page.lines().next().unwrap();
    for part in [
        &*format!("<h1>{says}</h1>"),
        "<title>Winter drop</title>",
        "<dt>payments</dt><dd>4, 35.00 EUR</dd>",
        "<th scope=\"col\" class=\"words\">title</th>",
        "<tr><td>70</td><td class=\"words\">Shoe &lt;42&gt;</td><td>6</td><td>11</td><td>5</td><td>0</td><td>6</td>",
        "<td class=\"words\">product 70: 5 units added, key pallet-2</td>",
        "<td class=\"words\">refund settled</td><td class=\"words\">r-1</td>",
        "<h2>Incidents</h2>",
        "<h2>Refused, by minute</h2>",
        "default-src 'none'",
        "@media print",
    ] {
        assert!(html.contains(part), "{part}: {html}");
    }
    for loads in ["<script", "<link", "<img", "url(", "http:", "https:", "{{", "{%"] {
        assert!(!html.contains(loads), "{loads}: {html}");
    }
}

#[test]
fn what_is_not_there_is_said() {
    let directory = tempfile::tempdir().unwrap();
    let directory = directory.path();
    assert_eq!(demo(directory).stop(), 0);
    let (code, page, errors) = report(directory, &[]);
    assert_eq!((code, page.as_str()), (1, ""));
    assert_eq!(errors, "error: there is no sale 7 in this ledger\n");
    let (code, _, errors) = run(directory, &["sale", "report", "7", "--data-dir", "nowhere"]);
    assert_eq!(
        (code, errors.as_str()),
        (64, "error: there is no ledger at nowhere/ledger.db; is --data-dir right?\n")
    );
    for name in ["figures.db", "figures.db-wal", "figures.db-shm"] {
        std::fs::remove_file(directory.join("data").join(name)).ok();
    }
    let (code, page, errors) = run(directory, &["sale", "report", "3", "--data-dir", "data"]);
    assert_eq!((code, errors.as_str()), (0, ""));
    assert!(
        page.contains("figures   refused and why, busy, unknown, speed of answers, incidents: not known; "),
        "{page}"
    );
    assert!(!directory.join("data/figures.db").exists());
}

#[test]
fn a_deleted_sale_is_reported_as_deleted_when_and_by_whom() {
    let directory = tempfile::tempdir().unwrap();
    let directory = directory.path();
    let server = demo(directory);
    let sale = json!({ "id": SALE, "title": "Called off", "currency": "EUR", "starts_at_ms": 4_000_000_000_000_u64,
        "ends_at_ms": 4_000_000_060_000_u64, "payment_s": null,
        "items": [{ "product": 70, "title": "Shoe", "price": PRICE, "total": 6, "limit": null }] });
    steer(&server, "POST", "/api/v1/sales", "made", &sale);
    let bearer = format!("Bearer {OPERATOR}");
    let path = format!("/api/v1/sales/{SALE}/delete");
    let mut connection = Connection::open(server.address).unwrap();
    assert_eq!(connection.exchange("POST", &path, &[("Authorization", &bearer)], "").unwrap().status, 204);
    assert_eq!(server.stop(), 0);
    let (code, page, errors) = report(directory, &["--html", "deleted.html"]);
    assert_eq!((code, errors.as_str()), (0, ""), "{page}");
    let says = page.lines().next().unwrap();
    assert!(says.starts_with("Called off was deleted at 20"), "{says}");
    assert!(says.ends_with("Z by root, before it began; 0 refunds due; audit clean."), "{says}");
    assert!(page.contains("\ndeleted   20") && !page.contains("\nwas "), "{page}");
    assert!(page.contains("not known; the sale was deleted before it began"), "{page}");
    let html = std::fs::read_to_string(directory.join("deleted.html")).unwrap();
    assert!(html.contains(&format!("<h1>{says}</h1>")), "{html}");
    let (_, json, _) = report(directory, &["--json"]);
    let found: Value = serde_json::from_str(&json).unwrap();
    assert!(found["over"] == true && found["report"]["deleted_at_ms"].is_u64(), "{json}");
}

#[test]
fn a_ledger_that_breaks_an_invariant_is_reported_so() {
    let directory = tempfile::tempdir().unwrap();
    let directory = directory.path();
    let server = demo(directory);
    post(&server, "/api/v1/orders", &[("memberId", "1")], &json!({ "sale": 3, "product": 29 }));
    assert_eq!(server.stop(), 0);
    let database = rusqlite::Connection::open(directory.join("data/ledger.db")).unwrap();
    assert_eq!(database.execute("UPDATE orders SET unit_price = unit_price + 1", []).unwrap(), 1);
    drop(database);
    let (code, page, errors) = run(directory, &["sale", "report", "3", "--data-dir", "data"]);
    assert_eq!(code, 1, "{page}");
    assert!(page.lines().next().unwrap().ends_with("AUDIT NOT CLEAN."), "{page}");
    assert!(errors.starts_with("error: the ledger breaks 1 invariant(s):\n  entry "), "{errors}");
}
