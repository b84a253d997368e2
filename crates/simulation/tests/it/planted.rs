//! Defects that are planted: nights find each of them, and say what it did.
//!
//! With `DOORBUSTER_PLANTED`, a part of a name, only those of such names are looked for, and each is reported.

use std::env;
use std::panic::catch_unwind;
use std::sync::Mutex;

use simulation::night::{Aim, PLANTED, Plan, Planted, play, report};

use crate::night::{play_well, smallest, with_each};
use crate::panics::{is_asserted, message};

/// Its name, what is wrong, the nights that aim at it, and in how many of them it is found.
type Row = (&'static str, Planted, Aim, u64);

/// Whether something is broken. A panic counts if it is an assertion; another may be a bug of the simulator: an error.
fn is_found(seed: u64, plan: &Plan, planted: Planted) -> Result<bool, String> {
    match catch_unwind(|| play(seed, plan, planted)) {
        Ok(played) => Ok(!played.broken.is_empty()),
        Err(panic) => {
            let why = message(&*panic);
            if is_asserted(&why) { Ok(true) } else { Err(format!("seed {seed} panicked: {why}")) }
        }
    }
}

/// The first night that finds it.
fn find(&(name, planted, aim, within): &Row) -> Result<u64, String> {
    for seed in 0..within {
        match is_found(seed, &aim(seed), planted) {
            Ok(false) => {}
            Ok(true) => return Ok(seed),
            Err(why) => return Err(format!("{name}: {why}")),
        }
    }
    Err(format!("{name}: not in {within} nights"))
}

/// A night that finds it, with as few of its faults as it takes.
fn reported(seed: u64, &(_, planted, aim, _): &Row) -> Vec<String> {
    let (plan, played) = smallest(seed, aim(seed), planted);
    report(seed, &plan, planted, &played)
}

/// What is to be said of it, if it is not found, or nights are broken without it, too.
fn look_for(row: &Row, is_reported: bool) -> Option<String> {
    let &(name, _, aim, _) = row;
    let found = match find(row) {
        Ok(found) => found,
        Err(why) => return Some(why),
    };
    println!("{name}: found in {} nights", found + 1);
    if is_reported {
        println!("{name}: {}", reported(found, row).join("\n"));
    }
    let without = play_well(found, &aim(found), Planted::Nothing).broken;
    let is_without = !without.is_empty();
    is_without.then(|| format!("{name}: seed {found} is broken without it, too: {without:?}"))
}

#[test]
fn every_planted_defect_is_found() {
    let asked = env::var("DOORBUSTER_PLANTED").ok();
    let is_asked = |row: &&Row| asked.as_ref().is_none_or(|part| row.0.contains(part.as_str()));
    let rows: Vec<&Row> = PLANTED.iter().filter(is_asked).collect();
    let names: Vec<_> = PLANTED.iter().map(|row| row.0).collect();
    assert!(!rows.is_empty(), "no planted defect is called {asked:?}, but:\n  {}", names.join("\n  "));
    let missed = Mutex::new(Vec::new());
    with_each(rows.into_iter(), |row| {
        let says = look_for(row, asked.is_some());
        says.iter().for_each(|says| println!("{says}"));
        missed.lock().unwrap().extend(says);
    });
    assert_eq!(missed.into_inner().unwrap(), Vec::<String>::new());
}

/// Whether all of these are there, in this order.
fn has_in_order(lines: &[&String], parts: &[&str]) -> bool {
    let mut lines = lines.iter();
    parts.iter().all(|part| lines.any(|line| line.contains(part)))
}

/// What is broken, what happened to an order that it is about, in this order, and what did not.
const TOLD: [(&str, &str, &[&str], &str); 2] = [
    (
        "a cancellation is forgotten, long before a fail-over",
        "was cancelled, and is",
        &[
            "reserve of server-",
            "sends its message to queue",
            "reads its message in queue",
            "placed, units",
            "to cancel it, answers: accepted, Cancelled",
            "closed, Expired",
            "now given back",
        ],
        "closed, Cancelled",
    ),
    (
        "messages are passed over",
        "was accepted and is none",
        &["reserve of server-", "sends its message to queue", "answers: pending"],
        "placed, units",
    ),
];

#[test]
fn a_defect_that_is_found_is_reported_by_the_life_of_an_order() {
    for (name, broken, life, never) in TOLD {
        let row = PLANTED.iter().find(|row| row.0 == name).unwrap();
        let lines = reported(find(row).unwrap(), row);
        let text = lines.join("\n");
        assert!(lines.len() <= 40, "{} lines:\n{text}", lines.len());
        let is_broken = |line: &String| line.starts_with("  BROKEN: ") && line.contains(broken);
        assert!(lines.iter().any(is_broken), "{name}:\n{text}");
        let is_order = |line: &str| line.starts_with("  order ") && line.ends_with(':');
        let is_reported = lines.iter().enumerate().filter(|(_, line)| is_order(line)).any(|(at, _)| {
            let of_it: Vec<_> = lines[at + 1..].iter().take_while(|line| !line.ends_with(':')).collect();
            has_in_order(&of_it, life) && !of_it.iter().any(|line| line.contains(never))
        });
        assert!(is_reported, "{name}:\n{text}");
    }
}
