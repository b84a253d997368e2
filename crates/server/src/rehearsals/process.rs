//! The process that rehearses: what it is given, what is read of it, and when it is signalled to end.
//!
//! Must not: wait for it without a bound, or keep more of what it prints than a bound.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use engine::{Phase, SaleSpec, UnixMs};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use super::{Crowd, Latest, RehearsalOutcome, RehearseCommand};
use crate::intake::Intake;
use crate::intake::catalog::{Catalog, Sale};
use crate::net::Stop;

/// Of what it prints: its figures by the second are most of it.
const REPORT_BYTES_MAX: u64 = 1 << 20;
const LINE_BYTES_MAX: u64 = 1000;
const LINES_WAITING_MAX: usize = 16;
/// Between two looks at whether it has ended or is to end.
const LOOK: Duration = Duration::from_millis(200);
/// Beside the time in which its buyers come: the ledger is read, orders are paid, all is audited and removed.
const LASTS_AT_MOST: Duration = Duration::from_secs(15 * 60);
/// As the console says it before.
const TOO_LONG: &str = "it had not ended 15 min after its buyers came, which is the longest it may take";
/// From the wish that it ends to the end by force: engines are cleared meanwhile.
const ENDS_WITHIN: Duration = Duration::from_secs(60);
/// For its last words, once it has ended.
pub(super) const LAST_WORDS: Duration = Duration::from_secs(5);
/// A sale that begins so soon needs the machine: what is played stops.
const SOON_MS: u64 = 60_000;
/// So long before a sale none is begun, as `doorbuster rehearse` has it.
const NEAR_MS: u64 = 15 * 60_000;
/// What it exits with if nothing can be concluded.
const INVALID: i32 = 2;

pub(super) struct Process {
    child: Child,
    /// What it printed, once it closed that.
    report: Receiver<Vec<u8>>,
    /// About what it does.
    lines: Receiver<String>,
    ends_at: Instant,
}

/// What came of it.
#[derive(Debug)]
pub(super) struct Ended {
    pub(super) outcome: RehearsalOutcome,
    pub(super) says: String,
    pub(super) report: Option<Value>,
}

impl Process {
    /// `sale`: what it reads.
    pub(super) fn start(command: &RehearseCommand, sale: String, crowd: Crowd) -> io::Result<Process> {
        let mut child = Command::new(&command.program)
            .args(&command.arguments)
            .args(["--buyers", &crowd.buyers.to_string(), "--over", &format!("{}s", crowd.over_s)])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()?;
        match pipes(&mut child, sale) {
            Ok((report, lines)) => {
                let ends_at = Instant::now() + Duration::from_secs(crowd.over_s) + LASTS_AT_MOST;
                Ok(Process { child, report, lines, ends_at })
            }
            Err(error) => {
                end_by_force(&mut child);
                Err(error)
            }
        }
    }

    /// Until it has ended; `latest` shows how it stands.
    pub(super) fn attend(mut self, latest: &Latest, intake: &Intake, stop: &Stop) -> Ended {
        let mut last_line = String::new();
        let mut asked_at = None;
        let status = loop {
            for line in self.lines.try_iter() {
                last_line.clone_from(&line);
                latest.change(|played| played.progress = line);
            }
            match self.child.try_wait() {
                Ok(Some(status)) => break Some(status),
                Ok(None) => {}
                Err(error) => {
                    tracing::error!(%error, "nothing can be learnt about the process that rehearses");
                    break None;
                }
            }
            let now = intake.clock.now();
            latest.change(|played| {
                let stops = || stop.is_requested().then(|| "the server stops".to_owned());
                let over = || (Instant::now() > self.ends_at).then(|| TOO_LONG.to_owned());
                let why = || needed(&intake.shelf.current(), now).or_else(over).or_else(stops);
                played.stopped = played.stopped.take().or_else(why);
                if played.stopped.is_some() && asked_at.is_none() {
                    ask_to_end(&self.child);
                    asked_at = Some(Instant::now());
                }
            });
            if asked_at.is_some_and(|at| at.elapsed() > ENDS_WITHIN) {
                end_by_force(&mut self.child);
            }
            thread::sleep(LOOK);
        };
        let patience = Instant::now() + LAST_WORDS;
        let left = || patience.saturating_duration_since(Instant::now());
        // Until the pipe is closed, which it is soon after the end.
        while let Ok(line) = self.lines.recv_timeout(left()) {
            last_line = line;
        }
        let printed = self.report.recv_timeout(left()).unwrap_or_default();
        let mut stopped = None;
        latest.change(|played| {
            played.is_ending = true;
            stopped.clone_from(&played.stopped);
        });
        ended(status, stopped, &printed, &last_line)
    }
}

/// Threads that write to it and read of it, each until the other end is closed.
fn pipes(child: &mut Child, sale: String) -> io::Result<(Receiver<Vec<u8>>, Receiver<String>)> {
    let taken = "a pipe is there once";
    let (mut input, output, errors) = (
        child.stdin.take().expect(taken),
        child.stdout.take().expect(taken),
        child.stderr.take().expect(taken),
    );
    let (report_read, report) = sync_channel(1);
    let (line_read, lines) = sync_channel(LINES_WAITING_MAX);
    let start = |name: &str| thread::Builder::new().name(format!("rehearsal-{name}"));
    // A process that reads nothing says why by itself.
    start("in").spawn(move || drop(input.write_all(sale.as_bytes())))?;
    start("out").spawn(move || {
        let mut printed = Vec::new();
        if output.take(REPORT_BYTES_MAX).read_to_end(&mut printed).is_ok() {
            drop(report_read.send(printed));
        }
    })?;
    start("lines").spawn(move || read_lines(BufReader::new(errors), &line_read))?;
    Ok((report, lines))
}

/// Of a longer line what is beyond the bound is a line of its own.
fn read_lines(mut from: impl BufRead, to: &SyncSender<String>) {
    loop {
        let mut line = Vec::new();
        match from.by_ref().take(LINE_BYTES_MAX).read_until(b'\n', &mut line) {
            Err(_) | Ok(0) => return,
            Ok(_) => {}
        }
        let line = String::from_utf8_lossy(&line).trim().to_owned();
        if !line.is_empty() && to.send(line).is_err() {
            return;
        }
    }
}

/// Why the machine is needed now, if it is.
pub(super) fn needed(catalog: &Catalog, now: UnixMs) -> Option<String> {
    let sales = catalog.sales.iter().filter(|sale| !sale.deleted);
    sales.into_iter().find_map(|sale| needed_for(&sale.spec, sale.phase(now), now))
}

/// Why the machine is needed now for a sale that is in this phase and was not deleted, if it is: then no rehearsal goes on.
pub fn needed_for(sale: &SaleSpec, phase: Phase, now: UnixMs) -> Option<String> {
    let (id, starts_in_ms) = (sale.id.0, sale.starts_at.0.saturating_sub(now.0));
    match phase {
        Phase::Ended => None,
        phase if starts_in_ms == 0 => Some(format!("sale {id} is {}", phase.as_str())),
        _ if starts_in_ms <= SOON_MS => Some(format!("sale {id} begins within a minute")),
        Phase::NotStarted | Phase::Live | Phase::Paused => None,
    }
}

/// Why none is begun now, if so: a sale that is live or near, or orders that wait for their payment.
pub(super) fn in_the_way(catalog: &Catalog, now: UnixMs) -> Option<String> {
    // What is live comes first, then what is held, then what begins: not the sale that was made first.
    let why = |sale: &Sale| {
        let id = sale.spec.id.0;
        let first = sale.first_sku.0 as usize;
        let skus = &catalog.skus[first..first + sale.spec.items.len()];
        let held: u64 = skus.iter().map(|sku| sku.counters.held()).sum();
        match (sale.phase(now), sale.starts_in_ms(now)) {
            _ if sale.deleted => None,
            (phase @ (Phase::Live | Phase::Paused), None) => {
                Some((0, format!("sale {id} is {}", phase.as_str())))
            }
            _ if held > 0 => {
                let held = format!("sale {id} has units that are held and not paid: {held}");
                Some((1, format!("{held}; rehearse when they are paid or have expired")))
            }
            (_, Some(until)) if until < NEAR_MS => {
                Some((2, format!("sale {id} begins in {} min", until.div_ceil(60_000))))
            }
            _ => None,
        }
    };
    catalog.sales.iter().filter_map(why).min_by_key(|(urgency, _)| *urgency).map(|(_, why)| why)
}

fn ask_to_end(child: &Child) {
    if let Err(error) = kill_process(Pid::from_child(child), Signal::TERM) {
        tracing::error!(%error, "the process that rehearses can't be asked to end");
    }
}

pub(super) fn end_by_force(child: &mut Child) {
    if let Err(error) = child.kill().and_then(|()| child.wait()) {
        tracing::error!(%error, "the process that rehearses can't be ended");
    }
}

fn ended(status: Option<ExitStatus>, stopped: Option<String>, printed: &[u8], last_line: &str) -> Ended {
    if let Some(why) = stopped {
        return Ended { outcome: RehearsalOutcome::Stopped, says: format!("Stopped: {why}."), report: None };
    }
    let report: Option<Value> = serde_json::from_slice(printed).ok();
    let verdict = report.as_ref().and_then(|report| report["verdict"].as_str()).map(str::to_owned);
    let outcome = match status.and_then(|status| status.code()) {
        Some(0) => RehearsalOutcome::Carried,
        Some(INVALID) => RehearsalOutcome::Inconclusive,
        _ => RehearsalOutcome::Failed,
    };
    let (outcome, says) = match (outcome, verdict) {
        (RehearsalOutcome::Carried | RehearsalOutcome::Inconclusive, Some(verdict)) => (outcome, verdict),
        // Any other line is of what it did before.
        _ => match (last_line.strip_prefix("error: "), status) {
            (Some(why), _) => (RehearsalOutcome::Failed, why.to_owned()),
            (None, Some(status)) if outcome == RehearsalOutcome::Failed => {
                (RehearsalOutcome::Failed, format!("It ended: {status}."))
            }
            (None, Some(status)) => {
                (RehearsalOutcome::Failed, format!("It ended ({status}), and what it printed can't be read."))
            }
            (None, None) => (RehearsalOutcome::Failed, "It is not known how it ended.".to_owned()),
        },
    };
    Ended { outcome, says, report }
}
