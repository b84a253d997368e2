//! Payments against a real server: the documented samples pay, and what paid for nothing is listed until it is settled.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::SystemTime;

use ring::hmac;
use serde_json::{Value, json};

use crate::exchange::Connection;
use crate::serving::{OPERATOR, Serving};
use crate::{doorbuster, outcome};

pub(crate) const PAYMENT_SECRET: &str = "payment-secret-of-the-program-tests-0123456789";

pub(crate) fn post(server: &Serving, path: &str, headers: &[(&str, &str)], body: &Value) -> Value {
    let mut connection = Connection::open(server.address).unwrap();
    let headers = [headers, &[("Content-Type", "application/json")]].concat();
    let response = connection.exchange("POST", path, &headers, &body.to_string()).unwrap();
    assert!([200, 201].contains(&response.status), "{response:?}");
    serde_json::from_str(&response.body).unwrap()
}

/// What the provider's callback for the payment is answered.
pub(crate) fn pay(server: &Serving, payment: &str, order: &str, amount: u64) -> Value {
    let body = json!({ "payment_id": payment, "order": order, "amount": amount });
    let at = SystemTime::UNIX_EPOCH.elapsed().unwrap().as_secs();
    let key = hmac::Key::new(hmac::HMAC_SHA256, PAYMENT_SECRET.as_bytes());
    let tag = hmac::sign(&key, format!("{at}.{body}").as_bytes());
    let hex: String = tag.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
    post(server, "/api/v1/payments", &[("Doorbuster-Signature", &format!("t={at},v1={hex}"))], &body)
}

pub(crate) fn refunds(directory: &Path, server: &Serving, arguments: &[&str]) -> (i32, String, String) {
    let mut command = doorbuster(directory);
    command.arg("refunds").args(arguments).args(["--server", &format!("http://{}", server.address)]);
    outcome(command.env("DOORBUSTER_OPERATOR_TOKEN", OPERATOR).output().unwrap())
}

pub(crate) fn demo(directory: &Path) -> Serving {
    let mut command = doorbuster(directory);
    command.args(["serve", "--demo", "--listen", "127.0.0.1:0", "--data-dir", "data"]);
    command.env("DOORBUSTER_PAYMENT_SECRET", PAYMENT_SECRET);
    Serving::start(command)
}

fn place(server: &Serving, buyer: &str) -> Value {
    post(server, "/api/v1/orders", &[("memberId", buyer)], &json!({ "sale": 3, "product": 29 }))
}

#[test]
fn the_documented_samples_report_a_payment() {
    let directory = tempfile::tempdir().unwrap();
    let document = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/shop.md");
    let document = fs::read_to_string(document).unwrap();
    let (_, document) = document.split_once("\n## Payments\n").unwrap();
    let server = demo(directory.path());
    for (language, file, program, arguments) in [
        ("python", "sample.py", "python3", &["sample.py"][..]),
        ("js", "sample.mjs", "node", &["sample.mjs"]),
        ("go", "sample.go", "go", &["run", "sample.go"]),
    ] {
        let (_, sample) = document.split_once(&format!("```{language}\n")).unwrap();
        fs::write(directory.path().join(file), sample.split_once("```").unwrap().0).unwrap();
        let order = place(&server, language);
        let (id, amount) = (order["id"].as_str().unwrap(), order["amount"].to_string());
        let url = format!("http://{}", server.address);
        let mut command = Command::new(program);
        command.args(arguments).args([&url, PAYMENT_SECRET, id, &amount]).current_dir(directory.path());
        let (code, printed, errors) = outcome(command.output().unwrap());
        assert_eq!((code, printed.as_str()), (0, "paid\n"), "{language}: {errors}");
        let mut connection = Connection::open(server.address).unwrap();
        let path = format!("/api/v1/orders/{id}");
        let read = connection.exchange("GET", &path, &[("memberId", language)], "").unwrap();
        assert!(read.body.contains("\"status\":\"paid\""), "{language}");
    }
    assert_eq!(server.stop(), 0);
}

#[test]
fn what_paid_for_nothing_is_listed_until_it_is_settled() {
    let directory = tempfile::tempdir().unwrap();
    let server = demo(directory.path());
    let list = || refunds(directory.path(), &server, &["list"]);
    assert_eq!(list(), (0, "no refunds are due\n".to_owned(), String::new()));

    let order = place(&server, "7");
    let (id, amount) = (order["id"].as_str().unwrap(), order["amount"].as_u64().unwrap());
    assert_eq!(pay(&server, "pay 1/2", id, amount)["currency"], order["currency"]);
    assert_eq!(pay(&server, "pay 2/2", id, amount)["reason"], "already_paid");
    let nobody = "f".repeat(40);
    assert_eq!(pay(&server, "pay_3", &nobody, 50)["currency"], Value::Null);

    let (code, listed, errors) = list();
    assert_eq!((code, errors.as_str()), (0, ""));
    let lines: Vec<&str> = listed.lines().collect();
    assert_eq!(lines.len(), 3, "{listed}");
    let money = format!("{} {}", server::pages::amount(amount, "EUR"), order["currency"].as_str().unwrap());
    let second = ["pay 2/2", &money, id, "already_paid", "Z"];
    assert!(second.iter().all(|text| lines[1].contains(text)), "{listed}");
    assert!(
        ["pay_3", "50 minor units", "unknown_order"].iter().all(|text| lines[2].contains(text)),
        "{listed}"
    );

    // The first paid for its order, so nothing after it is done.
    let (code, out, errors) = refunds(directory.path(), &server, &["settle", "pay 1/2", "pay_3"]);
    assert_eq!((code, out.as_str()), (1, ""));
    assert!(errors.starts_with("error: pay 1/2: Nothing to settle"), "{errors}");
    let (code, _, errors) = refunds(directory.path(), &server, &["settle", "pay_4"]);
    assert!(code == 1 && errors.starts_with("error: pay_4: No such payment"), "{errors}");
    for _again in 0..2 {
        let (code, out, errors) = refunds(directory.path(), &server, &["settle", "pay 2/2", "pay_3"]);
        assert_eq!((code, errors.as_str()), (0, ""));
        assert_eq!(out, format!("pay 2/2 of {money}: settled\npay_3 of 50 minor units: settled\n"));
    }
    assert_eq!(list().1, "no refunds are due\n");
    assert_eq!(server.stop(), 0);
    let (code, audited, errors) = crate::run(directory.path(), &["audit", "--data-dir", "data"]);
    assert!(code == 0 && audited.contains("0 refunds due"), "{audited}{errors}");
}

#[test]
fn a_paid_order_is_refunded_in_parts_and_found_so_in_feed_and_export() {
    let directory = tempfile::tempdir().unwrap();
    let server = demo(directory.path());
    let order = place(&server, "7");
    let (id, amount) = (order["id"].as_str().unwrap(), order["amount"].as_u64().unwrap());
    let create = |more: &[&str]| refunds(directory.path(), &server, &[&["create", id], more].concat());
    let (code, out, errors) = create(&[]);
    assert_eq!((code, out.as_str()), (1, ""));
    assert!(errors.starts_with(&format!("error: {id}: Not refundable: the order is held")), "{errors}");
    assert_eq!(pay(&server, "pay_1", id, amount)["result"], "paid");

    let money =
        |amount| format!("{} {}", server::pages::amount(amount, "EUR"), order["currency"].as_str().unwrap());
    for _again in 0..2 {
        let part = create(&["--amount", "100", "--units", "1", "--id", "damaged 7"]);
        let line = format!("damaged 7 of {}: due; 1 unit is on sale again\n", money(100));
        assert_eq!(part, (0, line, String::new()));
    }
    let exported = || {
        let data = ["orders", "export", "--data-dir", "data", "--format", "jsonl"];
        let (code, out, errors) = crate::run(directory.path(), &data);
        assert_eq!(code, 0, "{errors}");
        serde_json::from_str::<Value>(out.trim()).unwrap()
    };
    let line = exported();
    assert_eq!((&line["status"], &line["refunded"]), (&json!("paid"), &json!(100)));
    let rest = format!("refund-{id} of {}: due\n", money(amount - 100));
    assert_eq!(create(&[]), (0, rest, String::new()));
    let line = exported();
    assert_eq!((&line["status"], &line["refunded"]), (&json!("refunded"), &json!(amount)));
    let (code, _, errors) = create(&["--id", "third"]);
    assert!(code == 1 && errors.contains("the order is refunded, and only paid orders are"), "{errors}");
    let mut connection = Connection::open(server.address).unwrap();
    let operator = [("Authorization", &*format!("Bearer {OPERATOR}"))];
    let feed = connection.exchange("GET", "/api/v1/orders?since=0&status=refunded", &operator, "").unwrap();
    let feed: Value = serde_json::from_str(&feed.body).unwrap();
    assert_eq!((&feed["orders"][0]["id"], &feed["orders"][0]["refunded"]), (&json!(id), &json!(amount)));

    let (code, listed, _) = refunds(directory.path(), &server, &["list"]);
    assert!(code == 0 && listed.lines().count() == 3 && listed.contains("requested"), "{listed}");
    let (code, _, errors) = refunds(directory.path(), &server, &["settle", "pay_1"]);
    assert!(code == 1 && errors.starts_with("error: pay_1: Nothing to settle"), "{errors}");
    let (code, _, errors) =
        refunds(directory.path(), &server, &["settle", "damaged 7", &format!("refund-{id}")]);
    assert_eq!((code, errors.as_str()), (0, ""));
    assert_eq!(server.stop(), 0);
    let (code, audited, errors) = crate::run(directory.path(), &["audit", "--data-dir", "data"]);
    assert!(code == 0 && audited.contains("0 refunds due"), "{audited}{errors}");
}
