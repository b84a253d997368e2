//! Support, through the real program: an order by its number, cancelled on one server of a cluster and found on the other.

use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use crate::cluster::{accepted, configure, serve};
use crate::payments::{demo, pay, post};
use crate::reload::wait_until;
use crate::serving::{OPERATOR, Serving};
use crate::{doorbuster, outcome};

/// A command that asks this server, as root.
fn operated(directory: &Path, server: &Serving, arguments: &[&str]) -> Command {
    let mut command = doorbuster(directory);
    command.args(arguments).args(["--server", &format!("http://{}", server.address)]);
    command.env("DOORBUSTER_OPERATOR_TOKEN", OPERATOR);
    command
}

/// Exit code, standard output and error of a command for support.
fn orders(directory: &Path, server: &Serving, arguments: &[&str]) -> (i32, String, String) {
    outcome(operated(directory, server, &[&["orders"], arguments].concat()).output().unwrap())
}

/// What an order's buyer is shown for its number.
fn number_of(directory: &Path, server: &Serving, id: &str) -> String {
    let (code, shown, errors) = orders(directory, server, &["show", id, "--json"]);
    assert_eq!((code, errors.as_str()), (0, ""));
    let shown: Value = serde_json::from_str(&shown).unwrap();
    shown["order"]["number"].as_str().unwrap_or_else(|| panic!("{shown}")).to_owned()
}

fn life(shown: &str) -> Vec<&str> {
    // The first line is the order's number, which may end as a time does.
    shown.lines().skip(1).filter_map(|line| line.split_once("Z  ")).map(|(_, what)| what).collect()
}

#[test]
fn an_order_is_found_cancelled_and_refunded_by_its_number() {
    let directory = tempfile::tempdir().unwrap();
    let server = demo(directory.path());
    let orders = |arguments: &[&str]| orders(directory.path(), &server, arguments);
    let place = || {
        let order = json!({ "sale": 3, "product": 29 });
        let placed = post(&server, "/api/v1/orders", &[("memberId", "7")], &order);
        let id = placed["id"].as_str().unwrap().to_owned();
        (number_of(directory.path(), &server, &id), id, placed["amount"].as_u64().unwrap())
    };
    let (number, id, _) = place();
    let (code, shown, errors) = orders(&["show", &number.to_lowercase()]);
    assert_eq!((code, errors.as_str()), (0, ""));
    assert!(shown.starts_with(&format!("{number}  held\n")) && shown.contains(&id), "{shown}");
    for _again in 0..2 {
        let (code, said, errors) = orders(&["cancel", &number, "--why", "ordered twice"]);
        assert_eq!((code, errors.as_str()), (0, ""));
        assert_eq!(said, format!("{number}: cancelled, 1 unit on sale again\n"));
    }
    assert_eq!(life(&orders(&["show", &id]).1), ["placed", "cancelled by root: ordered twice"]);

    let (number, id, amount) = place();
    let note = |more: &[&str]| orders(&[&["note-refund", &number, "--reference", "bank 7"], more].concat());
    let (code, _, errors) = note(&[]);
    assert!(code == 1 && errors.starts_with(&format!("error: {number}: Not refundable")), "{errors}");
    assert_eq!(pay(&server, "pay_1", &id, amount)["result"], "paid");
    assert_eq!(pay(&server, "pay_2", &id, amount)["reason"], "already_paid");
    let money = format!("{} ", server::pages::amount(amount, "EUR"));
    let due = format!(
        "\na refund is due: {money}EUR of pay_2 (already paid); when it was made: doorbuster refunds settle pay_2\n"
    );
    let shown = orders(&["show", &number]).1;
    assert!(shown.contains(&due), "{shown}");
    let (code, settled, _) =
        outcome(operated(directory.path(), &server, &["refunds", "settle", "pay_2"]).output().unwrap());
    assert_eq!((code, settled), (0, format!("pay_2 of {money}EUR: settled\n")));
    let shown = orders(&["show", &number]).1;
    assert!(!shown.contains("a refund is due"), "{shown}");
    for _again in 0..2 {
        let (code, said, errors) = note(&["--why", "never came"]);
        assert_eq!((code, errors.as_str()), (0, ""));
        assert!(
            said.starts_with(&format!("{number}: {money}")) && said.ends_with("noted as refunded, bank 7\n")
        );
    }
    let shown = orders(&["show", &number]).1;
    let made = life(&shown)[2].to_owned();
    assert_eq!([life(&shown)[1], life(&shown)[3]], ["paid pay_1", "refunded by root: never came"]);
    assert!(made.starts_with("refund made bank 7 ") && made.ends_with(" by root: never came"), "{made}");
    let mut log = operated(directory.path(), &server, &["operators", "log", "--sale", "3"]);
    let (_, log, _) = outcome(log.output().unwrap());
    let refunded = format!("  root  order_refunded sale 3 {id}, {money}EUR: never came\n");
    assert!(log.contains(&refunded), "{log}");
    let (code, _, errors) = orders(&["cancel", &number]);
    assert!(code == 1 && !errors.is_empty(), "what is paid is refunded: {errors}");

    for (wrong, says) in [("K7QM", "eight letters and digits"), ("0000-0000", "was it misread")] {
        let (code, out, errors) = orders(&["show", wrong]);
        assert_eq!((code, out.as_str()), (1, ""), "{errors}");
        assert!(errors.starts_with(&format!("error: {wrong}: ")) && errors.contains(says), "{errors}");
    }
    assert_eq!(server.stop(), 0);
    let (code, audited, errors) = crate::run(directory.path(), &["audit", "--data-dir", "data"]);
    assert!(code == 0 && audited.contains("0 refunds due"), "{audited}{errors}");
}

#[test]
fn any_server_of_a_cluster_finds_and_cancels_an_order_by_its_number() {
    let directory = tempfile::tempdir().unwrap();
    configure(directory.path(), "support", "");
    let (one, other) = (serve(directory.path()), serve(directory.path()));
    let id = &accepted(&one, 7, "support", 30);
    wait_until("it is in the ledger", || {
        orders(directory.path(), &one, &["show", id]).1.contains("  held\n")
    });
    let number = number_of(directory.path(), &one, id);
    assert_eq!(number_of(directory.path(), &other, id), number);
    let (code, _, errors) = orders(directory.path(), &other, &["cancel", &number, "--why", "moved"]);
    assert_eq!((code, errors.as_str()), (0, ""));
    let (_, shown, _) = orders(directory.path(), &one, &["show", &number]);
    assert_eq!(life(&shown), ["placed", "cancelled by root: moved"], "{shown}");
    assert_eq!([one.stop(), other.stop()], [0, 0]);
}
