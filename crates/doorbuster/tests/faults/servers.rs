//! Faults of the servers themselves.

use std::time::Duration;

use crate::fake_clock::{DAY_AHEAD, FakeClock, RIGHT};
use crate::load::Random;
use crate::proxy::Mode;
use crate::testbed::{Scenario, Testbed, is_full, play};

pub(crate) const KILLED: Scenario = Scenario::of("a server killed");
pub(crate) const KILLED_AGAIN_AND_AGAIN: Scenario = Scenario::of("servers killed in turn, at random moments");
pub(crate) const FROZEN: Scenario = Scenario::of("a server frozen");
pub(crate) const FROZEN_BEFORE_PUBLISHING: Scenario =
    Scenario::of("a server frozen between reserving and publishing");
pub(crate) const DRAINED: Scenario = Scenario::of("a server drained (SIGTERM)");
pub(crate) const CLOCK_AHEAD: Scenario = Scenario::of("a server restarted with its clock a day ahead");

#[test]
fn a_server_is_killed() {
    play(&KILLED, |testbed| {
        testbed.cluster.kill(0);
        Testbed::wait_out();
        testbed.cluster.restart(0);
    });
}

/// Some of the kills hit a consumer between its commit and its next step: the queue's offset is in the commit.
#[test]
fn servers_are_killed_in_turn() {
    play(&KILLED_AGAIN_AND_AGAIN, |testbed| {
        let mut random = Random(1);
        for round in 0..if is_full() { 30 } else { 8 } {
            std::thread::sleep(Duration::from_millis(50 + random.below(350)));
            testbed.cluster.kill(round % 2);
            testbed.cluster.restart(round % 2);
        }
    });
}

#[test]
fn a_server_is_frozen() {
    play(&FROZEN, |testbed| {
        testbed.cluster.freeze(0);
        Testbed::wait_out();
        testbed.cluster.thaw(0);
    });
}

/// Its messages are held up and then lost, with orders reserved that nobody else knows; when it wakes up, the others
/// have put them into the ledger.
#[test]
fn a_server_is_frozen_between_reserving_and_publishing() {
    play(&FROZEN_BEFORE_PUBLISHING, |testbed| {
        let pid = testbed.cluster.pid(0);
        testbed.network.broker.set_for(pid, Mode::Silent);
        testbed.network.broker.wait_until_held_back();
        testbed.cluster.freeze(0);
        testbed.network.broker.set_for(pid, Mode::Cut);
        Testbed::wait_out();
        testbed.network.broker.set(Mode::Pass);
        testbed.cluster.thaw(0);
    });
}

/// It waits for its clock to be set; nothing expires meanwhile.
#[test]
fn a_server_comes_back_with_a_wrong_clock() {
    play(&CLOCK_AHEAD, |testbed| {
        let clock = FakeClock::new(testbed.cluster.dir(), DAY_AHEAD);
        testbed.cluster.kill(0);
        testbed.cluster.launch_with(0, &clock.environment());
        Testbed::wait_out();
        clock.set(RIGHT);
        testbed.cluster.wait_ready(0);
    });
}

#[test]
fn a_server_is_drained() {
    let outcome = play(&DRAINED, |testbed| {
        testbed.cluster.drain(0);
        testbed.cluster.restart(0);
    });
    assert_eq!(outcome.unanswered, 0, "requests were carried out by a server that stopped, and not answered");
}
