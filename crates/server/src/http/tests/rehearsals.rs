//! Rehearsals at an operator's word: of a shell that runs until it is signalled to end.

use std::ffi::OsString;

use engine::{Command, SaleId, SaleSpec};

use super::shop::{Delivered, NOW, Sent, Setup, Shop, demo_mode, flash_sale, item};
use super::{Response, problem};
use crate::http::delivery::Delivery;
use crate::net::{ResponseWriter, Ticket};
use crate::rehearsals::RehearseCommand;

const HOUR_MS: u64 = 3_600_000;

/// Nobody waits for an answer any more.
struct Gone;

impl Delivery for Gone {
    fn reply(&mut self, _ticket: Ticket, _write: impl FnOnce(&mut ResponseWriter<'_>)) -> bool {
        false
    }

    fn part(&mut self, _ticket: Ticket, _bytes: &[u8]) -> bool {
        false
    }

    fn has_taken_parts(&self, _ticket: Ticket) -> Option<bool> {
        None
    }

    fn end(&mut self, _ticket: Ticket) {}
}

/// One where sale 9 can be rehearsed: the others are over.
fn shop() -> Shop {
    let script = "trap 'exit 0' TERM; while :; do sleep 0.1; done";
    let arguments = ["-c", script, "rehearse"].map(OsString::from).into();
    let command = RehearseCommand { program: "/bin/sh".into(), arguments, clean_up: Vec::new() };
    let mut shop = Shop::with(Setup { rehearse: Some(command), ..Setup::new(demo_mode()) });
    shop.advance(HOUR_MS);
    shop.execute(Command::CreateSale(SaleSpec {
        id: SaleId(9),
        starts_at: NOW.plus(3 * HOUR_MS),
        ends_at: NOW.plus(4 * HOUR_MS),
        items: vec![item(41, 10, None)],
        ..flash_sale()
    }));
    shop
}

fn begin() -> Sent {
    Sent::post("/api/v1/sales/9/rehearse", r#"{"buyers":300,"over_s":4}"#).operator().key("k1")
}

/// The claim on the entry stayed with a caller who was gone: the ledger did not have it, and nobody could bring it.
#[test]
fn an_entry_that_the_ledger_did_not_take_is_given_back_also_by_a_caller_who_has_hung_up() {
    let mut shop = shop();
    shop.failing = true;
    assert_eq!(shop.call(&begin()).1, None, "the ledger is asked");
    shop.write();
    shop.service.deliver_to(&mut Gone);
    shop.failing = false;

    let (again, ready) = shop.call(&begin());
    assert_eq!(ready, None, "it is asked again");
    shop.write();
    let mut delivered = Delivered::default();
    shop.service.deliver_to(&mut delivered);
    let (_, bytes) = delivered.0.iter().find(|(ticket, _)| *ticket == again).unwrap();
    assert_eq!(Response::read(bytes).status, 202);

    // It has the entry now.
    let answered = shop.call(&begin()).1.map(|response| response.status);
    assert_eq!(answered, Some(202));
    shop.stop.request();
}

#[test]
fn an_entry_that_the_ledger_took_stays_when_its_caller_has_hung_up() {
    let mut shop = shop();
    assert_eq!(shop.call(&begin()).1, None, "the ledger is asked");
    shop.write();
    shop.service.deliver_to(&mut Gone);
    let answered = shop.call(&begin()).1.map(|response| response.status);
    assert_eq!(answered, Some(202), "it is not asked again");
    shop.stop.request();
}

#[test]
fn a_stop_that_says_which_one_it_means_stops_no_other() {
    let mut shop = shop();
    let stop = |body: &str| Sent::post("/api/v1/rehearsal/stop", body).operator();
    for body in ["", "{}", r#"{"began_at_ms":7}"#] {
        assert_eq!(shop.send(&stop(body)).problem(), problem(409, "no_rehearsal"), "{body}");
    }
    assert_eq!(shop.send(&begin()).status, 202);
    let began_at_ms = shop.send(&Sent::get("/api/v1/rehearsal").operator()).json()["began_at_ms"].as_u64();
    let meant = |ms: u64| stop(&format!("{{\"began_at_ms\":{ms}}}"));
    let began_at_ms = began_at_ms.unwrap();
    let before = shop.send(&meant(began_at_ms - 1));
    assert_eq!(before.problem(), problem(409, "another_rehearsal"));
    for body in ["7", r#"{"began_at_ms":"now"}"#, r#"{"began":7}"#] {
        assert_eq!(shop.send(&stop(body)).status, 400, "{body}");
    }
    // It is asked to end by this one alone.
    assert_eq!(shop.send(&meant(began_at_ms)).status, 202);
    assert_eq!(shop.send(&meant(began_at_ms - 1)).problem(), problem(409, "another_rehearsal"));
    shop.stop.request();
}
