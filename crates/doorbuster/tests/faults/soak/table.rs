//! What each round came to and what the processes used at its end, as it happens and in docs/soak.md.

use std::collections::HashMap;
use std::fmt::Write;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

/// Of one process.
#[derive(Clone, Debug)]
pub(super) struct Process {
    name: &'static str,
    pub(super) bytes: u64,
    pub(super) descriptors: u64,
}

#[derive(Clone, Debug)]
pub(super) struct Usage(Vec<Process>);

impl Usage {
    pub(super) fn of(processes: impl Iterator<Item = (&'static str, u32)>) -> Usage {
        let look = |(name, pid): (&'static str, u32)| {
            let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
            let kib = status
                .lines()
                .find_map(|line| line.strip_prefix("VmRSS:")?.split_whitespace().next()?.parse::<u64>().ok());
            let descriptors = std::fs::read_dir(format!("/proc/{pid}/fd")).unwrap().count() as u64;
            Process { name, bytes: kib.unwrap() << 10, descriptors }
        };
        Usage(processes.map(look).collect())
    }

    /// The server that is never killed, where there is one.
    pub(super) fn last(&self) -> &Process {
        self.0.last().expect("there is a server")
    }
}

/// A round of one of those that sell.
#[derive(Debug)]
struct Line {
    name: String,
    minutes: f64,
    text: String,
}

/// Between two rows of the file; the last one is there too.
const MINUTES_PER_ROW: f64 = 15.0;

#[derive(Debug)]
pub(super) struct Table {
    began: Instant,
    rows: Mutex<Vec<Line>>,
}

impl Table {
    pub(super) fn new() -> Table {
        Table { began: Instant::now(), rows: Mutex::default() }
    }

    /// A row of totals since the start, printed and kept.
    pub(super) fn add(&self, name: &str, round: u64, orders: u64, kills: u64, faults: u64, usage: &Usage) {
        let minutes = self.began.elapsed().as_secs_f64() / 60.0;
        let mut row =
            format!("| {minutes:.0} min | {name} | {} | {orders} | {kills} | {faults} |", round + 1);
        for process in &usage.0 {
            write!(row, " {} {} MiB, {};", process.name, process.bytes >> 20, process.descriptors).unwrap();
        }
        let row = format!("{} |", row.trim_end_matches(';'));
        println!("{row}");
        let line = Line { name: name.to_owned(), minutes, text: row };
        self.rows.lock().unwrap_or_else(PoisonError::into_inner).push(line);
    }

    pub(super) fn write(&self) {
        let rows = self.rows.lock().unwrap_or_else(PoisonError::into_inner);
        let hours = self.began.elapsed().as_secs_f64() / 3600.0;
        let mut text = format!("{HEAD}Lasted {hours:.1} hours.\n\n{COLUMNS}");
        let mut written: HashMap<&str, f64> = HashMap::new();
        for (at, line) in rows.iter().enumerate() {
            let due =
                written.get(line.name.as_str()).is_none_or(|last| line.minutes >= last + MINUTES_PER_ROW);
            let is_last = !rows[at + 1..].iter().any(|later| later.name == line.name);
            if due || is_last {
                written.insert(&line.name, line.minutes);
                writeln!(text, "{}", line.text).unwrap();
            }
        }
        std::fs::write(PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs/soak.md"), text).unwrap();
    }
}

const HEAD: &str = "\
# Soak

Everything at once for hours, written by `make soak HOURS=N`: a cluster of three servers on Redis (`appendfsync everysec`),
RocketMQ (synchronous flush) and MariaDB, and two embedded servers, each with buyers who order, pay, cancel and ask again,
and with strangers who read pages, pipeline without reading, send half a request or noise. At random, engines are killed,
frozen, cut off, wiped, and servers killed by SIGKILL, frozen and reloaded, several at a time. Each round of about five
minutes ends as a fault's test does: every attempt decided, every accepted order found in the ledger as it was answered,
what is left bought up to the last unit and not one more, a clean audit; so a row is there only if all of it held.

A row for each quarter of an hour, and the last one. Orders, kills (of servers, by SIGKILL) and faults (of engines, and servers frozen) are totals since the start. Of each
process: resident memory, and open descriptors, at the end of the round. The last server of the cluster, and the embedded
one that says so, are never killed. An embedded server keeps its orders in memory.

";

const COLUMNS: &str = "\
| after | what | round | orders | kills | faults | memory, descriptors |
| --- | --- | --- | --- | --- | --- | --- |
";
