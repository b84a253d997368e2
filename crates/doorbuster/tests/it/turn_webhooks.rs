//! The shop hears of each turn of a line, through rounds of SIGKILL.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;

use serde_json::{Value, json};

use crate::exchange::Connection;
use crate::line::{LINE, UNITS, make_sale};
use crate::reload::wait_until;
use crate::serving::Serving;
use crate::webhooks::{Receiver, audited, command, endpoint};

/// Of a buyer whom the shop names by a text.
fn ask(address: SocketAddr, buyer: &str, path: &str) -> Value {
    let mut connection = Connection::open(address).unwrap();
    let answer = connection.exchange("POST", path, &[("memberId", buyer)], "").unwrap();
    assert!([200, 201].contains(&answer.status), "{answer:?}");
    answer.json()
}

/// By place: the ids under which it was sent, and what of it, which is always the same.
fn delivered(receiver: &Receiver) -> BTreeMap<u64, (BTreeSet<String>, Value)> {
    let mut delivered = BTreeMap::new();
    for heard in receiver.heard().into_iter().filter(|heard| heard.status == 204) {
        assert_eq!(heard.body["type"], "turn.opened");
        let turn = heard.body["data"]["turn"].clone();
        let (ids, known) = delivered
            .entry(turn["place"].as_u64().unwrap())
            .or_insert_with(|| (BTreeSet::new(), turn.clone()));
        ids.insert(heard.id);
        assert_eq!(*known, turn);
    }
    delivered
}

#[test]
fn no_kill_loses_a_turn_that_the_shop_was_to_hear_of_or_makes_a_second_one() {
    const ROUNDS: u64 = 3;
    const PEOPLE: u64 = 10;
    let (directory, receiver) = (tempfile::tempdir().unwrap(), Receiver::start());
    let start = || {
        let command = command(directory.path(), &receiver, "");
        let events = endpoint(directory.path(), &receiver, "").replace("order.*", "turn.*");
        std::fs::write(directory.path().join("hooks.toml"), events).unwrap();
        Serving::start(command)
    };
    let mut server = start();
    make_sale(directory.path(), server.address);
    let mut places = BTreeMap::new();
    for round in 0..ROUNDS {
        // What is sent last is refused, and comes again after the kill.
        receiver.set(if round == 1 { 500 } else { 204 });
        for number in round * PEOPLE..(round + 1) * PEOPLE {
            let buyer = format!("O'Neil №{number}");
            let place = ask(server.address, &buyer, LINE);
            ask(server.address, &buyer, &format!("{LINE}/presence"));
            places.insert(place["place"].as_u64().unwrap(), (buyer, place["number"].clone()));
        }
        server.kill();
        server = start();
    }
    receiver.set(204);
    wait_until("all turns were sent", || delivered(&receiver).len() as u64 == UNITS);
    for (place, (ids, turn)) in delivered(&receiver) {
        let (buyer, number) = &places[&place];
        assert_eq!(ids.len(), 1, "place {place} was sent under {ids:?}");
        assert_eq!(
            [&turn["buyer"], &turn["number"], &turn["sale"], &turn["product"], &turn["units"]],
            [&json!(buyer), number, &json!(70), &json!(5), &json!(1)]
        );
    }
    assert_eq!(server.stop(), 0);
    audited(directory.path());
}
