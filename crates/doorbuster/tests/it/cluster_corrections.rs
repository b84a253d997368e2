//! Corrections before the start where several servers sell, on real engines: all of them sell on the new terms or don't
//! sell, and so does the gate.

use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};
use server::clock::wall_clock;

use crate::cluster::{
    accepted, ask, ask_once, audit, code, configure, operator, read, serve, sql, wipe_gates,
};
use crate::cluster_gate::until;
use crate::engines::Engines;
use crate::exchange::Response;
use crate::serving::{OPERATOR, Serving};
use crate::{doorbuster, succeeds};

const HOUR_MS: u64 = 3_600_000;
/// As the engine has it.
const MINUTE_MS: u64 = engine::limits::ITEMS_FIXED_MS;
/// For what must be done before the last minute begins, on a busy machine too.
const SPARE_MS: u64 = 25_000;

fn create(server: &Serving, sale: u64, starts_at_ms: u64) -> Response {
    let items = json!([{"product": 30, "title": "Shoe", "price": 4999, "total": 50, "limit": 1}]);
    let spec = json!({"id": sale, "title": "Drop", "currency": "EUR", "starts_at_ms": starts_at_ms,
        "ends_at_ms": starts_at_ms + HOUR_MS, "payment_s": 900, "items": items});
    operator(server, "/api/v1/sales", "create", &spec.to_string())
}

fn change(server: &Serving, sale: u64, change: &Value) -> Response {
    let token = format!("Bearer {OPERATOR}");
    let headers = [("Authorization", token.as_str()), ("Content-Type", "application/json")];
    ask(server, "PATCH", &format!("/api/v1/sales/{sale}"), &headers, &change.to_string())
}

fn delete(server: &Serving, sale: u64) -> Response {
    operator(server, &format!("/api/v1/sales/{sale}/delete"), "delete", "")
}

fn show(server: &Serving, sale: u64) -> Response {
    ask(server, "GET", &format!("/api/v1/sales/{sale}"), &[], "")
}

/// Waits until the server shows the item so.
fn until_shown(server: &Serving, sale: u64, price: u64, limit: u64) {
    until("the item is shown as it was changed", || {
        let shown = show(server, sale);
        let is = shown.status == 200 && {
            let item = &shown.json()["items"][0];
            (item["price"].as_u64(), item["limit"].as_u64()) == (Some(price), Some(limit))
        };
        (is, shown.body)
    });
}

fn until_gone(server: &Serving, sale: u64) {
    until("the sale is gone", || {
        let shown = show(server, sale);
        (shown.status == 404, shown.body)
    });
}

fn place_once(server: &Serving, sale: u64, member: u64, key: &str, quantity: u32) -> Response {
    let (member, order) = (member.to_string(), json!({"sale": sale, "product": 30, "quantity": quantity}));
    let headers =
        [("memberId", member.as_str()), ("Content-Type", "application/json"), ("Idempotency-Key", key)];
    ask_once(server, "POST", "/api/v1/orders", &headers, &order.to_string())
}

/// Asks again until the answer is no 503.
fn place(server: &Serving, sale: u64, member: u64, key: &str, quantity: u32) -> Response {
    let mut last = None;
    until("an answer to an order", || {
        let placed = place_once(server, sale, member, key, quantity);
        let answered = placed.status != 503;
        let text = format!("{placed:?}");
        last = answered.then_some(placed);
        (answered, text)
    });
    last.unwrap()
}

/// An order of so many units is taken at this price; of one more, which would be over the limit, not.
#[track_caller]
fn sells(server: &Serving, other: &Serving, (sale, member): (u64, u64), quantity: u32, price: u64) {
    let placed = place(server, sale, member, "k", quantity);
    assert!(matches!(placed.status, 201 | 202), "{placed:?}");
    let order = placed.json();
    assert_eq!(order["unit_price"], price, "{order}");
    let id = order["id"].as_str().unwrap();
    assert_eq!(read(other, member, id)["unit_price"], price);
    for server in [server, other] {
        let more = place(server, sale, member, "another", 1);
        assert_eq!(code(&more), "over_limit", "{more:?}");
    }
}

/// By the command line, against this server.
fn does(directory: &Path, server: &Serving, arguments: &[&str]) -> String {
    let mut command = doorbuster(directory);
    command.args(arguments).args(["--server", &format!("http://{}", server.address)]);
    succeeds(command.env("DOORBUSTER_OPERATOR_TOKEN", OPERATOR))
}

#[test]
fn what_is_corrected_before_the_start_is_sold_so_by_every_server_and_by_a_gate_that_is_rebuilt() {
    let dir = tempfile::tempdir().unwrap();
    configure(dir.path(), "corrected", "");
    let (a, b) = (serve(dir.path()), serve(dir.path()));
    let starts_at_ms = 4_102_444_800_000; // 2100
    assert_eq!(create(&a, 7, starts_at_ms).status, 201);

    let edited =
        does(dir.path(), &a, &["sale", "edit", "7", "--item", "30", "--price", "3999", "--limit", "2"]);
    assert!(edited.contains("39.99 EUR   49.99 EUR"), "{edited}");
    until_shown(&b, 7, 3999, 2);
    let file = "id = 7\ntitle = \"Drop\"\ncurrency = \"EUR\"\nstarts_at = \"2100-01-01T00:00:00Z\"\nfor = \"1h\"\n\
                payment = \"15m\"\n[[item]]\nproduct = 30\ntitle = \"Shoe\"\nprice = 2999\ntotal = 50\nlimit = 3\n";
    std::fs::write(dir.path().join("drop.toml"), file).unwrap();
    let applied = does(dir.path(), &b, &["sale", "apply", "drop.toml", "--yes"]);
    assert!(applied.ends_with("sale 7 is changed\n"), "{applied}");
    assert_eq!(does(dir.path(), &b, &["sale", "apply", "drop.toml"]), "sale 7: nothing to do\n");
    until_shown(&a, 7, 2999, 3);

    // A sale that is deleted is so on each server, once, and its number is used up.
    assert_eq!(create(&b, 8, starts_at_ms).status, 201);
    assert_eq!(delete(&a, 8).status, 204);
    until_gone(&b, 8);
    assert_eq!(delete(&b, 8).status, 204);
    assert_eq!(code(&create(&a, 8, starts_at_ms)), "sale_exists");

    // From a minute before the start both are refused, and what was changed before is sold.
    assert_eq!(change(&a, 7, &json!({"starts_at_ms": wall_clock().0 + MINUTE_MS / 2})).status, 200);
    let late = change(&b, 7, &json!({"items": [{"product": 30, "price": 1}]}));
    assert_eq!((late.status, code(&late).as_str()), (422, "invalid_change"), "{late:?}");
    let late = delete(&a, 7);
    assert_eq!((late.status, code(&late).as_str()), (422, "invalid_change"), "{late:?}");
    assert_eq!(change(&b, 7, &json!({"starts_at_ms": wall_clock().0 - 1})).status, 200);
    until("the other server has heard of the start", || {
        let shown = show(&a, 7);
        (shown.json()["state"] == "live", shown.body)
    });
    sells(&a, &b, (7, 1), 3, 2999);
    sells(&b, &a, (7, 2), 3, 2999);
    wipe_gates("corrected");
    sells(&a, &b, (7, 3), 3, 2999);
    assert_eq!(place(&a, 8, 4, "k", 1).status, 404);
    audit(dir.path());
}

#[test]
fn a_server_that_is_cut_off_from_the_ledger_during_a_correction_does_not_sell_on_the_old_terms() {
    const USER: &str = "corrected_apart";
    let dir = tempfile::tempdir().unwrap();
    configure(dir.path(), USER, "");
    let mariadb = Engines::shared(&["mariadb"]).address("mariadb");
    sql(&mariadb, &format!("CREATE OR REPLACE USER {USER}; GRANT ALL ON {USER}.* TO {USER}"));
    let a = serve(dir.path());
    let mut command = doorbuster(dir.path());
    command.env("DOORBUSTER_LEDGER_MYSQL_USER", USER);
    command.args(["serve", "--demo", "--config", "doorbuster.toml", "--listen", "127.0.0.1:0"]);
    command.args(["--data-dir", "secrets"]);
    let b = Serving::start(command);
    accepted(&b, 1, "k", 30);

    let starts_at_ms = wall_clock().0 + MINUTE_MS + SPARE_MS;
    for sale in [7, 8] {
        assert_eq!(create(&a, sale, starts_at_ms).status, 201);
        until_shown(&b, sale, 4999, 1);
    }
    sql(&mariadb, &format!("ALTER USER {USER} ACCOUNT LOCK; KILL USER {USER}"));
    // The price alone: of a limit the gate would know.
    let changed = change(&a, 7, &json!({"items": [{"product": 30, "price": 3999}]}));
    assert_eq!(changed.status, 200, "{changed:?}");
    assert_eq!(delete(&a, 8).status, 204);
    while wall_clock().0 <= starts_at_ms {
        std::thread::sleep(Duration::from_millis(200));
    }
    assert_eq!(show(&b, 7).json()["items"][0]["price"], 4999, "it has not heard of it");
    accepted(&b, 2, "k", 30);
    for (sale, key) in [(7, "one"), (8, "one"), (7, "two"), (8, "two")] {
        let placed = place_once(&b, sale, 3, key, 1);
        assert_eq!(placed.status, 503, "sale {sale}: {placed:?}");
    }
    sells(&a, &a, (7, 4), 1, 3999);
    assert_eq!(place(&a, 8, 4, "k", 1).status, 404);

    sql(&mariadb, &format!("ALTER USER {USER} ACCOUNT UNLOCK"));
    sells(&b, &a, (7, 3), 1, 3999);
    assert_eq!(place(&b, 8, 3, "k", 1).status, 404);
    assert_eq!(b.stop(), 0);
    audit(dir.path());
    sql(&mariadb, &format!("DROP USER {USER}"));
}
