//! The whole cluster profile under load while one part of it fails: real servers on real engines.
//!
//! One test for each fault, one after the other. As part of `make test` each lasts some seconds; `make faults`
//! (DOORBUSTER_FAULTS=full) plays them long and writes docs/faults.md.

#![allow(clippy::unwrap_used, reason = "everything here is a test, its functions beside #[test] too")]
#![expect(
    clippy::disallowed_methods,
    reason = "a test has no clock of the server, and is steered by its environment"
)]

mod attempt;
mod broker;
mod cluster;
#[path = "../../../server/tests/it/engines.rs"]
mod engines;
#[path = "../it/exchange.rs"]
mod exchange;
#[path = "../it/fake_clock.rs"]
mod fake_clock;
mod gate;
mod ledger;
mod load;
mod proxy;
mod report;
#[path = "../../../server/tests/it/sent.rs"]
mod sent;
mod servers;
mod shop;
mod small_disk;
mod small_mount;
mod soak;
mod testbed;
#[path = "../it/topic.rs"]
mod topic;
mod verdict;

use testbed::Scenario;

/// All of them, in the order of the table.
const SCENARIOS: [Scenario; 35] = [
    servers::KILLED,
    servers::KILLED_AGAIN_AND_AGAIN,
    servers::FROZEN,
    servers::FROZEN_BEFORE_PUBLISHING,
    servers::DRAINED,
    servers::CLOCK_AHEAD,
    gate::KILLED,
    gate::FROZEN,
    gate::UNREACHABLE,
    gate::WIPED,
    gate::WIPED_WHILE_FROZEN,
    gate::WIPED_WHILE_CUT,
    gate::WIPED_OF_MANY,
    gate::WIPED_FAR_REDIS,
    gate::WIPED_FAR_LEDGER,
    gate::WIPED_FAR_BROKER,
    gate::MASTER_KILLED,
    gate::MASTER_FROZEN,
    gate::WATCHED_KILLED,
    gate::WATCHED_FROZEN,
    broker::KILLED,
    broker::FROZEN,
    broker::UNREACHABLE,
    broker::SILENT,
    broker::NAME_SERVER_KILLED,
    broker::TWICE_AND_OUT_OF_ORDER,
    broker::DISK_FULL,
    broker::QUEUES_REMOVED,
    ledger::KILLED,
    ledger::FROZEN,
    ledger::FROZEN_AND_BACKLOG_FULL,
    ledger::UNREACHABLE,
    ledger::AWAY,
    ledger::COMMITS_UNANSWERED,
    ledger::DISK_FULL,
];
