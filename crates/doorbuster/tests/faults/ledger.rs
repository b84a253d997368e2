//! Faults of MariaDB, the ledger.

use std::time::Duration;

use crate::proxy::Mode;
use crate::small_disk;
use crate::testbed::{Scenario, Testbed, play};

pub(crate) const KILLED: Scenario = Scenario::of("MariaDB killed");
pub(crate) const FROZEN: Scenario = Scenario::of("MariaDB frozen");
pub(crate) const FROZEN_AND_BACKLOG_FULL: Scenario =
    Scenario { backlog_max: 100, ..Scenario::of("MariaDB frozen until more wait than cluster.backlog_max") };
pub(crate) const UNREACHABLE: Scenario = Scenario::of("MariaDB unreachable for one server");
pub(crate) const AWAY: Scenario = Scenario::of("MariaDB away for longer than every bound");
pub(crate) const COMMITS_UNANSWERED: Scenario = Scenario::of("the answers to MariaDB's commits lost");
pub(crate) const DISK_FULL: Scenario =
    Scenario { small_disk: Some(&small_disk::MARIADB), ..Scenario::of("MariaDB's disk full") };

#[test]
fn mariadb_is_killed() {
    play(&KILLED, |testbed| {
        testbed.engines.kill("mariadb");
        Testbed::wait_out();
        testbed.engines.up(&["mariadb"]);
    });
}

#[test]
fn mariadb_is_frozen() {
    play(&FROZEN, |testbed| {
        testbed.engines.freeze("mariadb");
        Testbed::wait_out();
        testbed.engines.thaw("mariadb");
    });
}

/// Then no server takes more, whichever reads the queues.
#[test]
fn mariadb_is_frozen_until_the_backlog_is_full() {
    let outcome = play(&FROZEN_AND_BACKLOG_FULL, |testbed| {
        testbed.engines.freeze("mariadb");
        testbed.load.wait_until_silent(Duration::from_secs(2), Duration::from_secs(60));
        Testbed::wait_out();
        testbed.engines.thaw("mariadb");
    });
    assert!(outcome.answers.keys().any(|answer| answer.contains("busy")), "{:?}", outcome.answers);
}

#[test]
fn mariadb_is_unreachable_for_one_server() {
    play(&UNREACHABLE, |testbed| {
        testbed.network.mariadb.set_for(testbed.cluster.pid(0), Mode::Silent);
        Testbed::wait_out();
        testbed.network.mariadb.set(Mode::Pass);
    });
}

/// Orders are accepted meanwhile: the broker has them. So the buyers do not notice, but for those who pay.
#[test]
fn mariadb_is_away_for_long() {
    play(&AWAY, |testbed| {
        testbed.network.mariadb.set(Mode::Cut);
        for _ in 0..3 {
            Testbed::wait_out();
        }
        testbed.network.mariadb.set(Mode::Pass);
    });
}

/// Whatever was committed is found to be there, and not done again.
#[test]
fn answers_to_commits_are_lost() {
    play(&COMMITS_UNANSWERED, |testbed| {
        testbed.network.mariadb.set(Mode::LoseAnswerTo(b"COMMIT"));
        Testbed::wait_out();
        testbed.network.mariadb.set(Mode::Pass);
        assert!(testbed.network.mariadb.answers_lost() > 0, "no commit was seen");
    });
}

/// MariaDB refuses, waits for room, or ends itself; then an operator makes room, and starts it again.
#[test]
fn mariadbs_disk_is_full() {
    play(&DISK_FULL, |testbed| {
        let disk = testbed.small_disk.as_ref().expect("the scenario has one");
        disk.fill();
        disk.wait_until_met();
        Testbed::wait_out();
        disk.free();
        // It may have ended itself, and one that waits for room to go on with its binary log looks for it once a minute.
        disk.restart();
    });
}
