//! What goes wrong in a night, and when.

use std::fmt;
use std::time::Duration;

use crate::gate;
use crate::random::Random;
use crate::{ledger, queue};

use super::gates::{PROMOTED_AFTER_MS, Step};
use super::{BROKERS, Night, QUEUES_EACH, SERVERS, host};

/// From the first to the last fault.
const FAULTY_S: (usize, usize) = (3, 16);
const FAULTS_MAX: usize = 6;

/// One fault. Times in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fault {
    /// The server is killed, and started again.
    Crash {
        server: usize,
        down: u64,
    },
    /// The server's machine stands still.
    Freeze {
        server: usize,
        lasts: u64,
    },
    /// The server's machine is suspended: it answers nobody, and its timers stand still, too. Its clocks go on.
    Suspend {
        server: usize,
        lasts: u64,
    },
    /// The server's virtual machine is paused: its clocks stand still as well, and that on the wall is set right so long after.
    Pause {
        server: usize,
        lasts: u64,
        behind: u64,
    },
    /// The network to Redis loses, cuts and delays, one in so many.
    FaultyGate {
        one_in: usize,
        lasts: u64,
    },
    FaultyLedger {
        one_in: usize,
        lasts: u64,
    },
    FaultyQueue {
        one_in: usize,
        lasts: u64,
    },
    /// Redis is killed and has lost everything.
    GateWiped,
    /// Redis is killed, and has everything.
    GateRestarted,
    /// Redis is killed, and has what it had so long before.
    GateRestored {
        age: u64,
    },
    /// One server reaches no Redis.
    GateCut {
        server: usize,
        lasts: u64,
    },
    /// One server and the master reach nobody else; the replica has what the master had so long before, and is promoted. Without
    /// replicas the master takes writes for this long.
    GateFailsOver {
        server: usize,
        behind: u64,
        alone: u64,
        lasts: u64,
    },
    BrokerDown {
        broker: usize,
        lasts: u64,
    },
    /// One server does not reach one broker.
    BrokerCut {
        server: usize,
        broker: usize,
        lasts: u64,
    },
    /// A broker loses its newest messages.
    BrokerForgets {
        broker: usize,
        newest: usize,
    },
    /// A broker loses all that one of its queues has.
    QueueEmptied {
        broker: usize,
        queue: u32,
    },
    LedgerAway {
        lasts: u64,
    },
    /// One server does not reach the database.
    LedgerCut {
        server: usize,
        lasts: u64,
    },
    LedgerReadOnly {
        lasts: u64,
    },
    /// A replica of the database takes over, without the latest transactions.
    LedgerFailsOver {
        without: usize,
    },
    /// A clock steps, and back after a while.
    ServerClock {
        server: usize,
        by: i64,
        lasts: u64,
    },
    GateClock {
        by: i64,
        lasts: u64,
    },
    LedgerClock {
        by: i64,
        lasts: u64,
    },
}

/// Each kind by a name, for counting.
pub const KINDS: [&str; 23] = [
    "a server killed",
    "a server frozen",
    "a faulty way to Redis",
    "a faulty way to the database",
    "a faulty way to the brokers",
    "Redis without memory",
    "Redis restarted",
    "a broker down",
    "a broker out of one server's reach",
    "a broker that forgets",
    "the database away",
    "the database read-only",
    "a server's clock",
    "Redis' clock",
    "the database's clock",
    "a database that fails over without its tail",
    "Redis from an old snapshot",
    "Redis out of one server's reach",
    "a master of Redis that is cut off while its replica is promoted",
    "a broker without a queue",
    "the database out of one server's reach",
    "a server's machine suspended",
    "a server's virtual machine paused",
];

impl Fault {
    pub fn kind(&self) -> usize {
        match self {
            Fault::Crash { .. } => 0,
            Fault::Freeze { .. } => 1,
            Fault::FaultyGate { .. } => 2,
            Fault::FaultyLedger { .. } => 3,
            Fault::FaultyQueue { .. } => 4,
            Fault::GateWiped => 5,
            Fault::GateRestarted => 6,
            Fault::BrokerDown { .. } => 7,
            Fault::BrokerCut { .. } => 8,
            Fault::BrokerForgets { .. } => 9,
            Fault::LedgerAway { .. } => 10,
            Fault::LedgerReadOnly { .. } => 11,
            Fault::LedgerFailsOver { .. } => 15,
            Fault::GateRestored { .. } => 16,
            Fault::GateCut { .. } => 17,
            Fault::GateFailsOver { .. } => 18,
            Fault::QueueEmptied { .. } => 19,
            Fault::LedgerCut { .. } => 20,
            Fault::Suspend { .. } => 21,
            Fault::Pause { .. } => 22,
            Fault::ServerClock { .. } => 12,
            Fault::GateClock { .. } => 13,
            Fault::LedgerClock { .. } => 14,
        }
    }

    fn random(kind: usize, random: &mut Random) -> Fault {
        let (server, broker) = (random.below(SERVERS), random.below(BROKERS.len()));
        let lasts = [200, 1_000, 3_000, 6_000, 9_000][random.below(5)] + random.below(500) as u64;
        let one_in = random.of(&[5, 20, 80]);
        let by = random.of(&[-7_200_000, -5_000, 5_000, 7_200_000]);
        match kind {
            0 => Fault::Crash { server, down: lasts },
            1 => Fault::Freeze { server, lasts },
            2 => Fault::FaultyGate { one_in, lasts },
            3 => Fault::FaultyLedger { one_in, lasts },
            4 => Fault::FaultyQueue { one_in, lasts },
            5 => Fault::GateWiped,
            6 => Fault::GateRestarted,
            7 => Fault::BrokerDown { broker, lasts },
            8 => Fault::BrokerCut { server, broker, lasts },
            9 => Fault::BrokerForgets { broker, newest: random.of(&[1, 2, 5, usize::MAX]) },
            10 => Fault::LedgerAway { lasts },
            11 => Fault::LedgerReadOnly { lasts },
            12 => Fault::ServerClock { server, by, lasts },
            13 => Fault::GateClock { by, lasts },
            14 => Fault::LedgerClock { by, lasts },
            15 => Fault::LedgerFailsOver { without: 1 + random.below(8) },
            16 => Fault::GateRestored { age: lasts },
            17 => Fault::GateCut { server, lasts },
            18 => {
                let (behind, alone) = (random.of(&[0, 10, 300]), random.of(&[1_000, 10_000]));
                Fault::GateFailsOver { server, behind, alone, lasts }
            }
            19 => Fault::QueueEmptied { broker, queue: random.of(&[0, QUEUES_EACH - 1]) },
            20 => Fault::LedgerCut { server, lasts },
            21 => Fault::Suspend { server, lasts },
            _ => Fault::Pause { server, lasts, behind: random.of(&[0, 20, 5_000]) },
        }
    }
}

impl Fault {
    fn fmt_of_server(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Fault::Crash { server, down } => {
                write!(f, "{} is killed, and started again after {down} ms", host(server))
            }
            Fault::Freeze { server, lasts } => write!(f, "{} stands still for {lasts} ms", host(server)),
            Fault::Suspend { server, lasts } => {
                write!(f, "the machine of {} is suspended for {lasts} ms", host(server))
            }
            Fault::Pause { server, lasts, behind } => {
                let host = host(server);
                let paused = format!("the machine of {host} is paused for {lasts} ms");
                write!(f, "{paused}, and its clock set right {behind} ms later")
            }
            _ => unreachable!("it is not of a server"),
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fault::Crash { .. } | Fault::Freeze { .. } | Fault::Suspend { .. } | Fault::Pause { .. } => {
                self.fmt_of_server(f)
            }
            Fault::FaultyGate { one_in, lasts } => {
                write!(f, "for {lasts} ms one of {one_in} messages to Redis is lost, cut or late")
            }
            Fault::FaultyLedger { one_in, lasts } => {
                write!(
                    f,
                    "for {lasts} ms one of {one_in} calls of the database is lost, before or after it was done"
                )
            }
            Fault::FaultyQueue { one_in, lasts } => {
                write!(
                    f,
                    "for {lasts} ms one of {one_in} sends is lost, refused, not acknowledged, late or stored twice"
                )
            }
            Fault::GateWiped => f.write_str("Redis is killed and has lost everything"),
            Fault::GateRestarted => f.write_str("Redis is killed and has everything"),
            Fault::GateRestored { age } => {
                write!(f, "Redis is killed after {age} ms, and has what it has now")
            }
            Fault::GateCut { server, lasts } => {
                write!(f, "{} does not reach Redis for {lasts} ms", host(*server))
            }
            Fault::GateFailsOver { server, behind, alone, lasts } => write!(
                f,
                "the replica of Redis has this, and in {behind} ms the master and {} reach nobody for {lasts} ms; the replica is \
                 promoted, and the master takes writes for {alone} ms",
                host(*server)
            ),
            Fault::QueueEmptied { broker, queue } => {
                write!(f, "{} loses all of its queue {queue}", BROKERS[*broker])
            }
            Fault::BrokerDown { broker, lasts } => write!(f, "{} is down for {lasts} ms", BROKERS[*broker]),
            Fault::BrokerCut { server, broker, lasts } => {
                write!(f, "{} does not reach {} for {lasts} ms", host(*server), BROKERS[*broker])
            }
            Fault::BrokerForgets { broker, newest } => {
                write!(f, "{} loses the {newest} newest messages of each queue", BROKERS[*broker])
            }
            Fault::LedgerAway { lasts } => write!(f, "the database answers nobody for {lasts} ms"),
            Fault::LedgerCut { server, lasts } => {
                write!(f, "{} does not reach the database for {lasts} ms", host(*server))
            }
            Fault::LedgerReadOnly { lasts } => write!(f, "the database is read-only for {lasts} ms"),
            Fault::LedgerFailsOver { without } => {
                write!(f, "a replica of the database takes over, without the last {without} transactions")
            }
            Fault::ServerClock { server, by, lasts } => {
                write!(f, "the clock of {} is set by {by} ms, and back after {lasts} ms", host(*server))
            }
            Fault::GateClock { by, lasts } => {
                write!(f, "the clock of Redis is set by {by} ms, and back after {lasts} ms")
            }
            Fault::LedgerClock { by, lasts } => {
                write!(f, "the clock of the database is set by {by} ms, and back after {lasts} ms")
            }
        }
    }
}

/// What happens, with its time since the beginning.
pub type Plan = Vec<(Duration, Fault)>;

/// By a seed: few kinds in each night, so that they meet, and every kind in as many seeds as there are kinds.
pub fn plan(seed: u64) -> Plan {
    let mut random = Random(!seed);
    let first_kind = usize::try_from(seed % KINDS.len() as u64).expect("it is less than a usize");
    let mut kinds = vec![first_kind];
    kinds.extend((0..random.below(3)).map(|_| random.below(KINDS.len())));
    let (first, last) = FAULTY_S;
    let mut plan: Plan = (0..1 + random.below(FAULTS_MAX))
        .map(|number| {
            let at = Duration::from_millis((first * 1_000 + random.below((last - first) * 1_000)) as u64);
            let kind = if number == 0 { first_kind } else { random.of(&kinds) };
            (at, Fault::random(kind, &mut random))
        })
        .collect();
    plan.sort();
    plan
}

impl Fault {
    pub(super) fn is_of_clock(&self) -> bool {
        matches!(self, Fault::ServerClock { .. } | Fault::GateClock { .. } | Fault::LedgerClock { .. })
    }

    /// From when to when it may keep servers from the engines, if it begins at this time.
    pub(super) fn disturbs(&self, at: Duration) -> (Duration, Duration) {
        let from = match *self {
            Fault::GateRestored { age: after } | Fault::GateFailsOver { behind: after, .. } => {
                at + Duration::from_millis(after)
            }
            _ => at,
        };
        (from, from + self.lasts())
    }

    fn lasts(&self) -> Duration {
        let ms = match *self {
            Fault::Crash { down, .. } => down,
            Fault::Pause { lasts, behind, .. } => lasts + behind,
            Fault::Freeze { lasts, .. }
            | Fault::Suspend { lasts, .. }
            | Fault::FaultyGate { lasts, .. }
            | Fault::FaultyLedger { lasts, .. }
            | Fault::FaultyQueue { lasts, .. }
            | Fault::BrokerDown { lasts, .. }
            | Fault::GateCut { lasts, .. }
            | Fault::BrokerCut { lasts, .. }
            | Fault::LedgerAway { lasts }
            | Fault::LedgerCut { lasts, .. }
            | Fault::LedgerReadOnly { lasts }
            | Fault::ServerClock { lasts, .. }
            | Fault::GateClock { lasts, .. }
            | Fault::LedgerClock { lasts, .. } => lasts,
            // Whoever is left with the old master hears of the new epoch from the database.
            Fault::GateFailsOver { .. } => PROMOTED_AFTER_MS,
            Fault::GateWiped
            | Fault::GateRestarted
            | Fault::GateRestored { .. }
            | Fault::BrokerForgets { .. }
            | Fault::QueueEmptied { .. }
            | Fault::LedgerFailsOver { .. } => 0,
        };
        Duration::from_millis(ms)
    }
}

/// What ends a fault, or is its next step.
#[derive(Debug)]
pub(super) enum End {
    Start { server: usize },
    Gate,
    AtGate(Step),
    Ledger,
    Queue,
    Broker { broker: usize },
    BrokerReached { server: usize, broker: usize },
    LedgerBack,
    LedgerReached { server: usize },
    LedgerWrites,
    ServerClock { server: usize, by: i64 },
    GateClock { by: i64 },
    LedgerClock { by: i64 },
}

impl End {
    /// What it undoes at once, of which server and which broker; `None`: not all of it.
    pub(super) fn undoes(&self) -> Option<(&'static str, usize, usize)> {
        match *self {
            End::Start { server } => Some(("down", server, 0)),
            End::Gate => Some(("faulty gate", 0, 0)),
            End::AtGate(Step::Reached { server }) => Some(("gate cut", server, 0)),
            End::Ledger => Some(("faulty ledger", 0, 0)),
            End::Queue => Some(("faulty queue", 0, 0)),
            End::Broker { broker } => Some(("broker down", 0, broker)),
            End::BrokerReached { server, broker } => Some(("broker cut", server, broker)),
            End::LedgerReached { server } => Some(("ledger cut", server, 0)),
            End::LedgerBack => Some(("ledger away", 0, 0)),
            End::LedgerWrites => Some(("ledger read-only", 0, 0)),
            End::AtGate(_) | End::ServerClock { .. } | End::GateClock { .. } | End::LedgerClock { .. } => {
                None
            }
        }
    }
}

impl Night {
    /// It happens. What ends it, and after how many milliseconds.
    pub(super) fn begin(&mut self, fault: Fault) -> Option<(u64, End)> {
        let engines = &self.engines;
        match fault {
            Fault::Crash { .. }
            | Fault::Freeze { .. }
            | Fault::Suspend { .. }
            | Fault::Pause { .. }
            | Fault::ServerClock { .. } => return self.begin_at_server(fault),
            Fault::FaultyGate { one_in, lasts } => {
                let faults = gate::Faults { cut_before: one_in * 3, cut_after: one_in * 3, slow: one_in * 3 };
                engines.network.set_faults(faults);
                return Some((lasts, End::Gate));
            }
            Fault::FaultyLedger { one_in, lasts } => {
                let each = one_in * 3;
                let faults = ledger::Faults { lost_before: each, lost_after: each, slow: each };
                engines.database.set_faults(faults);
                return Some((lasts, End::Ledger));
            }
            Fault::FaultyQueue { one_in, lasts } => {
                engines.brokers.set_faults(queue::Faults::each(one_in * 4));
                return Some((lasts, End::Queue));
            }
            Fault::GateWiped
            | Fault::GateRestarted
            | Fault::GateRestored { .. }
            | Fault::GateCut { .. }
            | Fault::GateFailsOver { .. } => {
                return self.begin_at_gate(fault).map(|(after, step)| (after, End::AtGate(step)));
            }
            Fault::BrokerDown { broker, lasts } => {
                engines.brokers.set_down(BROKERS[broker], true);
                return Some((lasts, End::Broker { broker }));
            }
            Fault::BrokerCut { server, broker, lasts } => {
                engines.brokers.set_cut(&host(server), BROKERS[broker], true);
                return Some((lasts, End::BrokerReached { server, broker }));
            }
            Fault::BrokerForgets { broker, newest } => engines.brokers.forget(BROKERS[broker], None, newest),
            Fault::QueueEmptied { broker, queue } => {
                engines.brokers.forget(BROKERS[broker], Some(queue), usize::MAX);
            }
            Fault::LedgerAway { .. }
            | Fault::LedgerCut { .. }
            | Fault::LedgerReadOnly { .. }
            | Fault::LedgerFailsOver { .. } => return self.begin_at_ledger(fault),
            Fault::GateClock { by, lasts } => {
                engines.network.set_clock(by);
                return Some((lasts, End::GateClock { by }));
            }
            Fault::LedgerClock { by, lasts } => {
                engines.database.set_clock(by);
                return Some((lasts, End::LedgerClock { by }));
            }
        }
        None
    }

    fn begin_at_server(&mut self, fault: Fault) -> Option<(u64, End)> {
        let schedule = &mut self.schedule;
        match fault {
            Fault::Crash { server, down } => {
                let host = host(server);
                self.askers.remove(&host);
                schedule.crash(&host);
                Some((down, End::Start { server }))
            }
            Fault::Freeze { server, lasts } => {
                schedule.freeze(&host(server), Duration::from_millis(lasts));
                None
            }
            Fault::Suspend { server, lasts } => {
                schedule.stop(&host(server), Duration::from_millis(lasts), false);
                None
            }
            Fault::Pause { server, lasts, behind } => {
                let host = host(server);
                let stood = schedule.stop(&host, Duration::from_millis(lasts), true);
                let by = -i64::try_from(stood.as_millis()).expect("it is seconds");
                schedule.set_clock(&host, by);
                Some((lasts + behind, End::ServerClock { server, by }))
            }
            Fault::ServerClock { server, by, lasts } => {
                schedule.set_clock(&host(server), by);
                Some((lasts, End::ServerClock { server, by }))
            }
            _ => unreachable!("it is not of a server"),
        }
    }

    fn begin_at_ledger(&self, fault: Fault) -> Option<(u64, End)> {
        let database = &self.engines.database;
        match fault {
            Fault::LedgerAway { lasts } => {
                database.set_away(true);
                Some((lasts, End::LedgerBack))
            }
            Fault::LedgerCut { server, lasts } => {
                database.set_cut(&host(server), true);
                Some((lasts, End::LedgerReached { server }))
            }
            Fault::LedgerReadOnly { lasts } => {
                database.set_read_only(true);
                Some((lasts, End::LedgerWrites))
            }
            Fault::LedgerFailsOver { without } => {
                database.fail_over(without);
                None
            }
            _ => unreachable!("it is not of the database"),
        }
    }

    /// What comes after it, and after how many milliseconds.
    pub(super) fn end(&mut self, end: End) -> Vec<(u64, End)> {
        let engines = &self.engines;
        match end {
            End::Start { server } => self.start(server),
            End::Gate => engines.network.set_faults(gate::Faults::default()),
            End::AtGate(step) => {
                let next = self.step_at_gate(step);
                return next.into_iter().map(|(after, step)| (after, End::AtGate(step))).collect();
            }
            End::Ledger => engines.database.set_faults(ledger::Faults::default()),
            End::Queue => engines.brokers.set_faults(queue::Faults::default()),
            End::Broker { broker } => engines.brokers.set_down(BROKERS[broker], false),
            End::BrokerReached { server, broker } => {
                engines.brokers.set_cut(&host(server), BROKERS[broker], false);
            }
            End::LedgerReached { server } => engines.database.set_cut(&host(server), false),
            End::LedgerBack => engines.database.set_away(false),
            End::LedgerWrites => engines.database.set_read_only(false),
            End::ServerClock { server, by } => self.schedule.set_clock(&host(server), -by),
            End::GateClock { by } => engines.network.set_clock(-by),
            End::LedgerClock { by } => engines.database.set_clock(-by),
        }
        Vec::new()
    }
}
