//! Erasing a buyer, through the real program: from a server's feed, and over a restart.

use std::path::Path;

use serde_json::{Value, json};

use crate::exchange::Connection;
use crate::reload::wait_until;
use crate::serving::{OPERATOR, Serving};
use crate::{doorbuster, outcome};

fn demo(directory: &Path) -> Serving {
    let mut command = doorbuster(directory);
    command.args(["serve", "--demo", "--listen", "127.0.0.1:0", "--data-dir", "data"]);
    Serving::start(command)
}

fn place(server: &Serving, buyer: &str, city: &str) {
    let body = json!({ "sale": 3, "product": 29, "address": { "name": buyer, "city": city } }).to_string();
    let headers = [("memberId", buyer), ("Content-Type", "application/json")];
    let mut connection = Connection::open(server.address).unwrap();
    let response = connection.exchange("POST", "/api/v1/orders", &headers, &body).unwrap();
    assert_eq!(response.status, 201, "{response:?}");
}

/// Buyer and city of each order, in the order of the feed.
fn feed(server: &Serving) -> Vec<(String, Option<String>)> {
    let bearer = format!("Bearer {OPERATOR}");
    let mut connection = Connection::open(server.address).unwrap();
    let response =
        connection.exchange("GET", "/api/v1/orders?since=0", &[("Authorization", &bearer)], "").unwrap();
    let page: Value = serde_json::from_str(&response.body).unwrap();
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let orders = page["orders"].as_array().unwrap().iter();
    orders.map(|order| (text(&order["buyer"]).unwrap(), text(&order["address"]["city"]))).collect()
}

#[test]
fn an_erased_buyer_has_no_name_and_no_address_and_may_come_back() {
    let directory = tempfile::tempdir().unwrap();
    let server = demo(directory.path());
    for (buyer, city) in [("anna", "Bergen"), ("7", "Oslo"), ("anna", "Bergen"), ("ben", "Narvik")] {
        place(&server, buyer, city);
    }
    let erase = |server: &Serving, arguments: &[&str]| {
        let mut command = doorbuster(directory.path());
        command.args(["buyers", "erase"]).args(arguments);
        command.args(["--server", &format!("http://{}", server.address)]);
        outcome(command.env("DOORBUSTER_OPERATOR_TOKEN", OPERATOR).output().unwrap())
    };
    let (code, out, errors) = erase(&server, &["anna", "7"]);
    assert_eq!((code, errors.as_str()), (0, ""));
    let erased =
        |name: &str| format!("{name}: the name is erased; the addresses of the orders so far follow\n");
    assert_eq!(out, erased("anna") + &erased("7"));
    assert!(feed(&server).iter().all(|(buyer, _)| buyer != "anna"), "the name is gone when the command ends");
    let cities = |server: &Serving| feed(server).into_iter().map(|(_, city)| city).collect::<Vec<_>>();
    let narvik = [None, None, None, Some("Narvik".to_owned())];
    wait_until("addresses are gone", || cities(&server) == narvik);
    let (code, _, errors) = erase(&server, &[" anna"]);
    assert!(code == 1 && errors.contains("no spaces at its ends"), "{errors}");
    assert_eq!(server.stop(), 0);

    let server = demo(directory.path());
    place(&server, "anna", "Bergen");
    let (last, city) = feed(&server).pop().unwrap();
    assert_eq!((last.as_str(), city.as_deref()), ("anna", Some("Bergen")));
    let bytes = std::fs::read(directory.path().join("data/ledger.db")).unwrap();
    assert!(!bytes.windows(4).any(|bytes| bytes == b"Oslo"), "nothing of it is left in the file");
    assert_eq!(server.stop(), 0);
    let (code, audited, errors) = crate::run(directory.path(), &["audit", "--data-dir", "data"]);
    assert_eq!(code, 0, "{audited}{errors}");
}

/// A buyer chooses what the shop calls them, in some shops, and a spreadsheet calculated it.
#[test]
fn no_buyer_is_a_formula_in_the_csv() {
    let directory = tempfile::tempdir().unwrap();
    let server = demo(directory.path());
    let buyers = [
        "anna",
        "7",
        "=HYPERLINK(\"http://x.example\")",
        "+49 30 7",
        "-7",
        "@ben",
        "\u{ff1d}1",
        "'anna",
        "a=b",
    ];
    for buyer in buyers {
        place(&server, buyer, "=Oslo");
    }
    let export = |format: &str| {
        let mut command = doorbuster(directory.path());
        command.args(["orders", "export", "--data-dir", "data", "--format", format]);
        let (code, out, errors) = outcome(command.output().unwrap());
        assert_eq!(code, 0, "{errors}");
        out
    };
    let csv = export("csv");
    let mut reader = csv::Reader::from_reader(csv.as_bytes());
    let rows: Vec<csv::StringRecord> = reader.records().map(Result::unwrap).collect();
    let cells: Vec<&str> = rows.iter().map(|row| &row[3]).collect();
    let expected = buyers.map(|buyer| {
        if ["anna", "7", "a=b"].contains(&buyer) { buyer.to_owned() } else { format!("'{buyer}") }
    });
    assert_eq!(cells, expected);
    assert!(rows.iter().all(|row| row[11].starts_with("{\"")), "an address is an object: {csv}");
    let read_back: Vec<&str> = cells.iter().map(|cell| cell.strip_prefix('\'').unwrap_or(cell)).collect();
    assert_eq!(read_back, buyers);
    let as_they_are: Vec<Value> =
        export("jsonl").lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(as_they_are.iter().map(|order| order["buyer"].as_str().unwrap()).collect::<Vec<_>>(), buyers);
}
