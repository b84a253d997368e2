//! Comparing the clocks of the servers, the Redis masters and the database, on every server: what is off from the majority is
//! out, until it agrees again.
//!
//! - This server: its clock stands, as at a start with a clock that is not believed. It takes no order and no lease; it reads,
//!   pays and consumes, by the ledger's latest time.
//! - A Redis: its gates take no order. Its clock may be set at any moment, so every reservation compares it, too.
//! - The database: nothing expires and nothing is purged. Leases are by its clock, whatever that says.
//!
//! The servers' clocks are compared by way of the database's, to which each server says how far it is ahead. A server starts
//! with a clock that stands until it was compared; after that it is out when it was off at several looks, for a clock that
//! is set makes others look wrong for a moment. An engine that does not answer is left out.
//!
//! Must not: set anybody's clock but this server's own.

mod comparison;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::time::Duration;

use engine::{UnixMs, format_utc};

use self::comparison::signed;
pub(in crate::cluster) use self::comparison::{Comparison, Reading, Whose, describe};
use crate::cluster::Core;
use crate::gate::Gate;
use crate::gate::limits::CLOCK_OFF_MS_MAX;
use crate::intake::{Need, Remark, Remarks, Reply};
use crate::ledger::mysql::cluster::{ClusterLedger, LedgerError, LedgerTime, ServerClock};
use crate::time::Instant;

/// Between two looks.
const INTERVAL: Duration = Duration::from_millis(500);
/// Looks in a row at which a clock that was right must be off to be out.
const LOOKS_UNTIL_OUT: u32 = 3;
/// A reading that took longer says nothing.
const READING_MAX: Duration = Duration::from_secs(1);
/// Of what another server has said of its clock.
const SAID_DOUBT_MS: u64 = 100;

/// What the stages know of the clocks.
#[derive(Debug, Default)]
pub(in crate::cluster) struct Compared {
    /// How far this server's clock is ahead of the majority.
    ahead_ms: AtomicI64,
    /// How far the system's clock of this machine is.
    system_ahead_ms: AtomicI64,
    /// Redis and the database say what that one does, and most clocks are behind it.
    most_are_behind: AtomicBool,
    /// The database's clock is out, or the ledger is from the future.
    expiry_stops: AtomicBool,
}

impl Core {
    /// What the time is by the majority, for a gate to compare its clock with.
    pub(in crate::cluster) fn majority_time(&self) -> Option<UnixMs> {
        self.options.clocks_decide.then(|| {
            // A clock that stands was not compared: the system's was.
            let ours = if self.clock.is_confirmed() { self.clock.now() } else { self.clock.wall() };
            ours.shifted(self.compared.ahead_ms.load(Ordering::Relaxed).saturating_neg())
        })
    }

    /// Takes the system's time, forward or back, because an operator confirmed it: no book stands behind the clock here.
    pub(in crate::cluster) fn confirm_clock(&self) -> Reply {
        if !self.system_clock_agrees() {
            return Reply::ClockUnconfirmed;
        }
        let (from, to) = (self.clock.now(), self.clock.wall());
        self.clock.set(to);
        tracing::warn!(from = format_utc(from.0), to = format_utc(to.0), "an operator confirmed the clock");
        Reply::ClockConfirmed { from, to }
    }

    /// Whether the system's clock may be taken over, as far as others say.
    fn system_clock_agrees(&self) -> bool {
        let Compared { system_ahead_ms, most_are_behind, .. } = &self.compared;
        let ahead = system_ahead_ms.load(Ordering::Relaxed).unsigned_abs();
        // The servers may be the majority that is wrong: their machines were paused.
        let agrees = ahead <= CLOCK_OFF_MS_MAX || most_are_behind.load(Ordering::Relaxed);
        !self.options.clocks_decide || agrees
    }

    /// Whether nothing may expire or be purged, for the time in the ledger can't be believed.
    pub(in crate::cluster) fn expiry_stops(&self) -> bool {
        self.options.clocks_decide && self.compared.expiry_stops.load(Ordering::Relaxed)
    }
}

/// The clocks as they were read together.
#[derive(Debug)]
pub(in crate::cluster) struct Look {
    /// What the reference said at a moment, and that moment.
    reference: (UnixMs, Instant),
    readings: Vec<Reading>,
}

impl Look {
    /// Begins with one's own clock as the reference.
    pub(in crate::cluster) fn new(now: UnixMs) -> Look {
        Look { reference: (now, Instant::now()), readings: Vec::new() }
    }

    /// Takes a clock in that was read between two moments; returns how far it is ahead of the reference.
    fn read(&mut self, whose: Whose, at: UnixMs, (asked, answered): (Instant, Instant)) -> Option<i64> {
        let took = answered - asked;
        if took > READING_MAX {
            return None;
        }
        let middle = asked + took / 2;
        let (reference, since) = self.reference;
        let reference = reference.shifted(signed(crate::cluster::ms(middle.duration_since(since))));
        let ahead_ms = difference(at, reference);
        // A millisecond for the clocks' own steps.
        self.readings.push(Reading { whose, ahead_ms, doubt_ms: crate::cluster::ms(took / 2) + 1 });
        Some(ahead_ms)
    }

    pub(in crate::cluster) fn read_gates(&mut self, gate: &mut Gate) {
        for time in gate.times() {
            self.read(Whose::Gate(time.address), time.at, time.between);
        }
    }

    pub(in crate::cluster) fn read_ledger(
        &mut self,
        ledger: &dyn ClusterLedger,
        time: &LedgerTime,
    ) -> Option<i64> {
        self.read(Whose::Ledger(ledger.server()), time.at, time.between)
    }

    /// Servers, which have said how far they are ahead of the ledger.
    pub(in crate::cluster) fn add_servers(&mut self, servers: Vec<ServerClock>, ledger_ahead_ms: i64) {
        for ServerClock { address, ahead_ms, .. } in servers {
            self.add(Whose::Server(address), ledger_ahead_ms.saturating_add(ahead_ms), SAID_DOUBT_MS);
        }
    }

    /// A clock of which it is known how far it is ahead of the reference.
    pub(in crate::cluster) fn add(&mut self, whose: Whose, ahead_ms: i64, doubt_ms: u64) {
        self.readings.push(Reading { whose, ahead_ms, doubt_ms });
    }

    pub(in crate::cluster) fn comparison(self) -> Comparison {
        Comparison::of(self.readings)
    }
}

/// The stage that compares. Lives on one thread.
#[derive(Debug)]
pub(in crate::cluster) struct Comparing {
    ledger: Box<dyn ClusterLedger>,
    gate: Gate,
    /// At how many looks in a row each was off.
    off: BTreeMap<Whose, u32>,
    looks: u32,
}

impl Comparing {
    /// This server's clock stands from here on, at the ledger's time, until it was compared.
    ///
    /// # Errors
    /// If the ledger can't be read.
    pub(in crate::cluster) fn begin(
        core: &Core,
        ledger: Box<dyn ClusterLedger>,
        gate: Gate,
    ) -> Result<Comparing, LedgerError> {
        let mut comparing = Comparing { ledger, gate, off: BTreeMap::new(), looks: 0 };
        if core.options.clocks_decide {
            core.clock.stand_at(comparing.ledger.time()?.latest_entry_at);
        }
        comparing.look(core)?;
        Ok(comparing)
    }

    /// Runs until the server stops.
    pub(in crate::cluster) fn run(mut self, core: &Core) {
        while !core.stopping.load(Ordering::Acquire) {
            match self.look(core) {
                Ok(()) => core.warnings.comparing.well(),
                // What was known of the clocks holds: this one does not follow the system's.
                Err(error) => core.warnings.comparing.met(&error),
            }
            core.wait(INTERVAL);
        }
    }

    fn look(&mut self, core: &Core) -> Result<(), LedgerError> {
        let system = core.clock.wall();
        // A clock that stands says nothing: what it would go on from does.
        let ours = if core.clock.is_confirmed() { difference(core.clock.now(), system) } else { 0 };
        let mut look = Look::new(system);
        look.add(Whose::Ours, ours, 0);
        let time = self.ledger.time()?;
        if let Some(ledger_ahead) = look.read_ledger(&*self.ledger, &time) {
            let others = self.ledger.compare_clocks(core.options.server_id, ours - ledger_ahead)?;
            look.add_servers(others, ledger_ahead);
        }
        look.read_gates(&mut self.gate);
        let comparison = look.comparison();
        self.looks = self.looks.saturating_add(1);
        let out = self.out(&comparison, !core.clock.is_confirmed());
        judge_ours(core, &out, &comparison, self.off.contains_key(&Whose::Ours), &time);
        judge_others(core, &out, &comparison, system, &time);
        if self.looks < LOOKS_UNTIL_OUT {
            core.compared.expiry_stops.store(true, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Which clocks are out, and how far ahead each is.
    fn out(&mut self, comparison: &Comparison, stands: bool) -> BTreeMap<Whose, i64> {
        let off: BTreeMap<Whose, i64> = comparison.out().map(|(whose, off)| (whose.clone(), off)).collect();
        self.off.retain(|whose, _| off.contains_key(whose));
        for whose in off.keys() {
            *self.off.entry(whose.clone()).or_insert(0) += 1;
        }
        let looks = |whose: &Whose| if stands && *whose == Whose::Ours { 1 } else { LOOKS_UNTIL_OUT };
        let is_out = |whose: &Whose| self.off.get(whose).is_some_and(|count| *count >= looks(whose));
        off.into_iter().filter(|(whose, _)| is_out(whose)).collect()
    }
}

/// This server's own clock: it stands while it is out, and goes on from the system's when that agrees with the majority.
/// `off`: it is, perhaps for too short a time to be out.
fn judge_ours(
    core: &Core,
    out: &BTreeMap<Whose, i64>,
    comparison: &Comparison,
    off: bool,
    time: &LedgerTime,
) {
    let system_ahead = comparison.middle_ms.unwrap_or(0).saturating_neg();
    let ahead = comparison.off(&Whose::Ours).unwrap_or(0);
    let Compared { ahead_ms, system_ahead_ms, most_are_behind, .. } = &core.compared;
    most_are_behind.store(comparison.most_are_behind(), Ordering::Relaxed);
    system_ahead_ms.store(system_ahead, Ordering::Relaxed);
    ahead_ms.store(ahead, Ordering::Relaxed);
    core.counts.clock_ahead_ms.set(ahead);
    if !core.options.clocks_decide {
        return;
    }
    let Some(off_ms) = out.get(&Whose::Ours) else {
        if !core.clock.is_confirmed() && !off {
            core.clock.set(core.clock.wall());
            ahead_ms.store(system_ahead, Ordering::Relaxed);
        }
        core.health.note(Need::Clock, true);
        return;
    };
    // Its own time may be from the future, and must not come into the ledger.
    core.clock.stand_at(time.latest_entry_at);
    ahead_ms.store(system_ahead, Ordering::Relaxed);
    let fault = match comparison.middle_ms {
        Some(_) if comparison.most_are_behind() => format!(
            "{}: it takes no order and no lease; {}",
            describe(&Whose::Ours, *off_ms),
            confirm_or_set(core.clock.wall())
        ),
        Some(_) => format!(
            "{}: it takes no order and no lease; set that clock, and the server goes on by itself",
            describe(&Whose::Ours, *off_ms)
        ),
        None => format!("no time is said by more than half of the clocks ({}): set them", list(comparison)),
    };
    core.health.note_passing(Need::Clock, fault);
}

fn judge_others(
    core: &Core,
    out: &BTreeMap<Whose, i64>,
    comparison: &Comparison,
    system: UnixMs,
    time: &LedgerTime,
) {
    core.counts.clocks_out.set(i64::try_from(out.len()).unwrap_or(i64::MAX));
    let Some(middle) = comparison.middle_ms else {
        // Who is wrong is unknown, and this server is out with all others.
        core.compared.expiry_stops.store(true, Ordering::Relaxed);
        return;
    };
    let are_behind = comparison.most_are_behind().then(|| confirm_or_set(system));
    let are_behind = are_behind.as_deref();
    let (mut closed, mut remarks, mut ledger_out) = (None, Remark::default(), false);
    for (whose, off) in out {
        let text = describe(whose, *off);
        match whose {
            _ if !core.options.clocks_decide => {
                remarks.add(whose, format!("{text} (clock.trust = \"system\")"))
            }
            Whose::Ours => {}
            Whose::Gate(_) => {
                closed.get_or_insert_with(|| {
                    let to_do = are_behind.unwrap_or("set that clock, and it sells again by itself");
                    format!("{text}; {to_do}")
                });
            }
            Whose::Server(_) => remarks.add(whose, format!("{text}: it takes no order")),
            Whose::Ledger(_) => {
                ledger_out = true;
                let to_do = are_behind.unwrap_or("set that clock");
                remarks.add(whose, format!("{text}: nothing expires and no address is erased; {to_do}"));
            }
        }
    }
    let ahead = difference(time.latest_entry_at, system.shifted(middle));
    let from_future = ahead > signed(CLOCK_OFF_MS_MAX);
    if from_future && core.options.clocks_decide {
        remarks.add(&"the latest entry", format!(
            "the latest entry of the ledger is {} s ahead of the clocks, from a server with a wrong one: until that time has \
             come, nothing expires and no address is erased",
            ahead / 1_000
        ));
    }
    core.compared.expiry_stops.store(ledger_out || from_future, Ordering::Relaxed);
    match closed {
        Some(fault) => core.health.note_passing(Need::GateClocks, fault),
        None => core.health.note(Need::GateClocks, true),
    };
    core.health.remark(Remarks::Clocks, remarks);
}

/// What is to be done where the servers may be the majority that is wrong.
fn confirm_or_set(system: UnixMs) -> String {
    format!(
        "it is {} by the system's clock of this machine, Redis and the database: if that is right, machines of servers were \
         paused: `doorbuster clock confirm` at each server; if it is wrong, set those clocks",
        format_utc(system.0)
    )
}

/// Each clock, and how far it is ahead of the system's here.
fn list(comparison: &Comparison) -> String {
    let each =
        comparison.clocks.iter().map(|(reading, off)| format!("{} {:+} s", reading.whose, off / 1_000));
    each.collect::<Vec<_>>().join(", ")
}

fn difference(a: UnixMs, b: UnixMs) -> i64 {
    signed(a.0).saturating_sub(signed(b.0))
}
