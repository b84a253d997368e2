//! Faults of the servers themselves.

use std::time::Duration;

use crate::load::Random;
use crate::proxy::Mode;
use crate::stage::{Scenario, Stage, is_full, play};

pub(crate) const KILLED: Scenario = Scenario::of("a server killed");
pub(crate) const KILLED_AGAIN_AND_AGAIN: Scenario = Scenario::of("servers killed in turn, at random moments");
pub(crate) const FROZEN: Scenario = Scenario::of("a server frozen");
pub(crate) const FROZEN_BEFORE_PUBLISHING: Scenario =
    Scenario::of("a server frozen between reserving and publishing");
pub(crate) const DRAINED: Scenario = Scenario::of("a server drained (SIGTERM)");

#[test]
fn a_server_is_killed() {
    play(&KILLED, |stage| {
        stage.cluster.kill(0);
        Stage::wait_out();
        stage.cluster.restart(0);
    });
}

/// Some of the kills hit a consumer between its commit and its next step: the queue's offset is in the commit.
#[test]
fn servers_are_killed_in_turn() {
    play(&KILLED_AGAIN_AND_AGAIN, |stage| {
        let mut random = Random(1);
        for round in 0..if is_full() { 30 } else { 8 } {
            std::thread::sleep(Duration::from_millis(50 + random.below(350)));
            stage.cluster.kill(round % 2);
            stage.cluster.restart(round % 2);
        }
    });
}

#[test]
fn a_server_is_frozen() {
    play(&FROZEN, |stage| {
        stage.cluster.freeze(0);
        Stage::wait_out();
        stage.cluster.thaw(0);
    });
}

/// Its messages are held up and then lost, with orders reserved that nobody else knows; when it wakes up, the others
/// have put them into the ledger.
#[test]
fn a_server_is_frozen_between_reserving_and_publishing() {
    play(&FROZEN_BEFORE_PUBLISHING, |stage| {
        let pid = stage.cluster.pid(0);
        stage.network.broker.set_for(pid, Mode::Silent);
        stage.network.broker.wait_until_held_back();
        stage.cluster.freeze(0);
        stage.network.broker.set_for(pid, Mode::Cut);
        Stage::wait_out();
        stage.network.broker.set(Mode::Pass);
        stage.cluster.thaw(0);
    });
}

#[test]
fn a_server_is_drained() {
    let outcome = play(&DRAINED, |stage| {
        stage.cluster.drain(0);
        stage.cluster.restart(0);
    });
    assert_eq!(outcome.unanswered, 0, "requests were carried out by a server that stopped, and not answered");
}
