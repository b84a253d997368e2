//! Nights that aim at a defect.

use std::time::Duration;

use crate::night::faults::{Fault, Plan};
use crate::night::{BUYING_S, PAUSE_MS_MAX, PAUSED_MS, RESTOCKED, SERVERS};
use crate::random::Random;

/// By a seed: a database that fails over just after units were added, and nothing else.
pub(super) fn after_the_restock(seed: u64) -> Plan {
    let mut random = Random(!seed);
    let at = RESTOCKED + Duration::from_millis(20 + random.below(200) as u64);
    vec![(at, Fault::LedgerFailsOver { without: 8 + random.below(24) })]
}

/// By a seed: every server is killed, and a database that fails over has lost what they alone had seen.
pub(super) fn forgotten_by_all(seed: u64) -> Plan {
    let at = Duration::from_millis(5_000 + Random(!seed).below(9_000) as u64);
    let killed = (0..SERVERS).map(|server| (at, Fault::Crash { server, down: 1_000 }));
    killed.chain([(at, Fault::LedgerFailsOver { without: 31 })]).collect()
}

/// By a seed: sends fail in every way, and Redis loses what it knew of their orders.
pub(super) fn wiped_while_sends_fail(seed: u64) -> Plan {
    wiped(seed, Fault::FaultyQueue { one_in: 1, lasts: 9_000 })
}

/// By a seed: some messages come seconds late, and Redis has lost what it knew of their orders.
pub(super) fn wiped_while_messages_are_late(seed: u64) -> Plan {
    wiped(seed, Fault::FaultyQueue { one_in: 1, lasts: 12_000 })
}

/// By a seed: nothing is taken into the ledger for a while, and Redis loses what it knew of the orders that wait.
pub(super) fn wiped_with_a_backlog(seed: u64) -> Plan {
    wiped(seed, Fault::LedgerAway { lasts: 3_000 })
}

/// By a seed: a server does not reach a broker any more, and gates wait for all that the brokers have.
pub(super) fn wiped_while_a_broker_is_cut(seed: u64) -> Plan {
    let server = usize::try_from(seed).expect("it is small") % SERVERS;
    let cut = Fault::BrokerCut { server, broker: 0, lasts: 90_000 };
    vec![(Duration::from_secs(4), cut), (Duration::from_secs(8), Fault::GateWiped)]
}

/// By a seed: what each server has asked Redis comes seconds later.
pub(super) fn gate_cut(seed: u64) -> Plan {
    let mut random = Random(!seed);
    let cut = |server| {
        let at = Duration::from_millis(4_000 + random.below(4_000) as u64);
        (at, Fault::GateCut { server, lasts: 9_000 })
    };
    let mut plan: Plan = (0..SERVERS).map(cut).collect();
    plan.sort();
    plan
}

/// By a seed: a server goes on with a master of Redis that is cut off, while its replica is promoted, and nothing else.
pub(super) fn fails_over_with_one(seed: u64) -> Plan {
    let mut random = Random(!seed);
    let at = Duration::from_millis(4_000 + random.below(4_000) as u64);
    vec![(at, Fault::GateFailsOver { server: random.below(SERVERS), behind: 0, alone: 10_000, lasts: 9_000 })]
}

/// In every night the same: what a broker loses while the database is away, only the gates of before remember.
pub(super) fn lost_by_a_broker_before_a_restart(_seed: u64) -> Plan {
    vec![
        (Duration::from_secs(4), Fault::LedgerAway { lasts: 4_000 }),
        (Duration::from_secs(7), Fault::BrokerForgets { broker: 0, newest: usize::MAX }),
        (Duration::from_millis(7_500), Fault::GateRestarted),
    ]
}

/// By a seed: calls of the database fail, servers die one after the other, and Redis loses what it knew of the orders that wait.
pub(super) fn wiped_while_servers_crash(seed: u64) -> Plan {
    let mut random = Random(!seed);
    let mut at = |from: u64| Duration::from_millis(from + random.below(800) as u64);
    let mut plan = vec![(at(2_000), Fault::FaultyLedger { one_in: 2, lasts: 9_000 })];
    for turn in 0..6 {
        let server = usize::try_from(turn).unwrap_or_default() % SERVERS;
        plan.push((at(3_000 + 1_000 * turn), Fault::Crash { server, down: 1_500 }));
        plan.push((at(3_200 + 1_000 * turn), Fault::GateWiped));
    }
    plan.sort();
    plan
}

/// A fault, and Redis wiped as early as two seconds and as late as eight after it began.
fn wiped(seed: u64, fault: Fault) -> Plan {
    let mut random = Random(!seed);
    let mut after = |from: u64| Duration::from_millis(from + random.below(2_000) as u64);
    let (at, first, last) = (after(4_000), after(6_000), after(10_000));
    vec![(at, fault), (first, Fault::GateWiped), (last, Fault::GateWiped)]
}

/// By a seed: the network to Redis fails, and nothing else.
pub(super) fn faulty_gate(seed: u64) -> Plan {
    let at = Duration::from_millis(5_000 + Random(!seed).below(2_000) as u64);
    vec![(at, Fault::FaultyGate { one_in: 2, lasts: 9_000 })]
}

/// The database fails over once the sale was paused and goes on, and nothing else.
pub(super) fn fails_over_after_the_pause(_seed: u64) -> Plan {
    let at = Duration::from_millis((PAUSED_MS.1 + PAUSE_MS_MAX) as u64 + 500);
    vec![(at, Fault::LedgerFailsOver { without: 1 })]
}

/// A database that fails over without its tail once the last buyers have come, and nothing else.
pub(super) fn fails_over_late(_seed: u64) -> Plan {
    vec![(Duration::from_secs(BUYING_S.1 as u64), Fault::LedgerFailsOver { without: 31 })]
}

/// By a seed: as [`gate_cut`], and Redis is wiped when all of that is over.
pub(super) fn gate_cut_and_wiped_later(seed: u64) -> Plan {
    let mut plan = gate_cut(seed);
    plan.push((Duration::from_secs(22), Fault::GateWiped));
    plan
}

/// Nothing goes wrong.
pub(super) fn quiet(_seed: u64) -> Plan {
    Vec::new()
}
