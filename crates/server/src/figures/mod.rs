//! The figures of the night: what the server does, taken once a second and rendered once for all who read it.
//!
//! In a cluster each server makes its own known to the others, and shows the sum of all (decision 035).
//!
//! A thread of its own reads counters that are atomics, what the catalog has published, and what the system says of the
//! machine. A reader copies the bytes of the last second, so a hundred of them cost the orders nothing. Must not: take a lock that
//! an order waits for, read the ledger, or ask an engine.

mod ages;
mod away;
mod events;
mod history;
mod host;
mod lines;
mod look;
mod part;
mod sales;
mod sample;
mod selling;
mod verdict;
mod wanted;

use std::io;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use engine::BeaconTerms;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;

use crate::intake::{Health, Intake, MailboxClient, Servers};
use crate::net::{NetStats, Stop};
use crate::time::Instant;
use crate::webhooks::Control;

pub use history::{
    Export, ExportPage, History, HistoryQuery, Incident, Kept, NoHistory, NotKept, POINTS_MAX, Points,
    RefusedAt, SaleKept, Sold,
};
pub use host::{Disk, HostFigures};
pub use look::Looking;
pub use verdict::grouped;
pub use wanted::WantedSales;

use history::{Taken, WAITING_MAX};

/// From one sample to the next.
const INTERVAL: Duration = Duration::from_secs(1);
/// How soon what another server says is in the sum.
pub(crate) const HEARING_INTERVAL: Duration = Duration::from_millis(250);
/// What happens is shown so soon: in the next sample, which the event loops send at once. As docs/operating.md has it.
pub(crate) const SHOWN_WITHIN: Duration = INTERVAL;
const _: () = assert!(SHOWN_WITHIN.as_millis() == 1_000);
#[cfg(target_os = "linux")]
const NICE: i32 = 10;

/// What is looked at.
#[derive(Clone, Debug)]
pub struct Watched {
    pub intake: Intake,
    pub net: Arc<NetStats>,
    pub health: Arc<Health>,
    /// Shows whether the ledger takes writes.
    pub client: MailboxClient,
    pub stop: Stop,
    /// Whose figures they are.
    pub server: String,
    /// On the disk whose room counts; `None`: nothing is written here.
    pub data_dir: Option<PathBuf>,
    /// Where the history is kept; `None`: in memory.
    pub history_dir: Option<PathBuf>,
    /// `None`: the ledger is no file.
    pub ledger: Option<PathBuf>,
    /// `None`: this server has the book.
    pub cluster: Option<Cluster>,
    /// What the installation was found to carry, in orders per second, and when.
    pub measured_peak: Option<(u64, String)>,
    /// Whom the shop's events are sent to.
    pub webhooks: Vec<Arc<Control>>,
    /// Which is asked for draws.
    pub beacon: Option<BeaconTerms>,
}

/// What a server of a cluster has besides.
#[derive(Clone, Debug)]
pub struct Cluster {
    /// The others, whose figures are added.
    pub servers: Arc<Servers>,
    /// How many there are to be, with this one.
    pub servers_expected: u32,
    /// Messages that this server has put aside.
    pub dead_letters: Counter,
    /// Orders that were accepted, and that the ledger rejected when this server brought them.
    pub orders_lost: Counter,
    /// Times that this server found the ledger without its latest entries, as every other does.
    pub ledger_lost_tail: Counter,
    /// Units by which this server found gate and ledger to differ.
    pub drift_units: Counter,
    /// Messages that wait in all queues.
    pub backlog: Gauge,
    /// For how long the oldest of them has waited, at least.
    pub backlog_age_ms: Gauge,
    /// Times that reconciliation ended well here.
    pub reconciled: Counter,
    /// Times that what is held and sold was read from the ledger here.
    pub units_read: Counter,
    /// How far this server's clock is ahead of most, or the system's while the server's stands.
    pub clock_ahead_ms: Gauge,
}

/// The last sample.
#[derive(Clone, Debug)]
pub struct Latest {
    json: Arc<[u8]>,
    taken_at: Instant,
}

impl Latest {
    /// With its age at `now`: one that comes late, or again, does not pass for a new one.
    pub fn to_json(&self, now: Instant) -> Vec<u8> {
        let age_ms = now.duration_since(self.taken_at).as_millis();
        let fields = self.json.strip_prefix(b"{").expect("a sample is an object");
        [format!("{{\"age_ms\":{age_ms},").as_bytes(), fields].concat()
    }

    /// Whether it is the same sample.
    pub fn is(&self, other: &Latest) -> bool {
        Arc::ptr_eq(&self.json, &other.json)
    }
}

/// What is read of a server's figures.
#[derive(Debug)]
pub struct Figures {
    latest: Mutex<Latest>,
    /// What its look at the machine found.
    host: Mutex<HostFigures>,
    pub history: History,
    pub wanted: WantedSales,
}

impl Figures {
    fn new(history: History) -> Figures {
        let latest = Latest { json: Arc::from(*b"{}"), taken_at: Instant::now() };
        Figures {
            latest: Mutex::new(latest),
            host: Mutex::default(),
            history,
            wanted: WantedSales::default(),
        }
    }

    fn publish(&self, json: Vec<u8>, host: HostFigures, taken_at: Instant) {
        *self.host.lock().unwrap_or_else(PoisonError::into_inner) = host;
        let latest = Latest { json: json.into(), taken_at };
        *self.latest.lock().unwrap_or_else(PoisonError::into_inner) = latest;
    }

    pub fn latest(&self) -> Latest {
        self.latest.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Of the last second.
    pub fn host(&self) -> HostFigures {
        *self.host.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Takes samples, and keeps them, until it is dropped.
#[derive(Debug)]
pub struct Sampling {
    stop: Option<SyncSender<()>>,
    threads: Vec<JoinHandle<()>>,
}

impl Sampling {
    /// Of what `looking` has looked at once; on threads that `thread` makes of their names.
    ///
    /// # Errors
    /// If one of them can't be started.
    pub fn start(looking: Looking, thread: impl Fn(String) -> thread::Builder) -> io::Result<Sampling> {
        let (stop, stopped) = sync_channel(1);
        let (to_history, taken) = sync_channel(WAITING_MAX);
        let mut sampling = Sampling { stop: Some(stop), threads: Vec::with_capacity(2) };
        let figures = looking.figures();
        let record = move || {
            nicely();
            figures.history.record_all(&taken);
        };
        sampling.threads.push(thread("figures-history".to_owned()).spawn(record)?);
        let look = move || {
            nicely();
            sample(looking, &stopped, &to_history);
        };
        sampling.threads.push(thread("figures".to_owned()).spawn(look)?);
        Ok(sampling)
    }
}

impl Drop for Sampling {
    fn drop(&mut self) {
        // The one that takes samples ends without it, and the one that keeps them with that one.
        self.stop = None;
        for thread in self.threads.drain(..) {
            if thread.join().is_err() {
                tracing::error!("a thread that takes the figures panicked; orders were not touched by that");
            }
        }
    }
}

/// Orders come first where processors are few.
fn nicely() {
    #[cfg(target_os = "linux")]
    if let Err(error) = rustix::process::setpriority_process(None, NICE) {
        tracing::debug!(%error, "a thread that takes the figures has no lower priority");
    }
}

fn sample(mut looking: Looking, stopped: &Receiver<()>, to_history: &SyncSender<Taken>) {
    let mut next = Instant::now() + INTERVAL;
    let pause_max = if looking.has_others() { HEARING_INTERVAL } else { INTERVAL };
    loop {
        let pause = next.duration_since(Instant::now()).min(pause_max);
        if stopped.recv_timeout(pause) != Err(RecvTimeoutError::Timeout) {
            return;
        }
        let now = Instant::now();
        if now < next {
            looking.hear(now);
            continue;
        }
        history::hand_over(to_history, looking.look(now));
        looking.show();
        // A second that was missed is not made up for: its orders are in the next one, whose length is known.
        next = (next + INTERVAL).max(now + INTERVAL / 2);
    }
}

#[cfg(test)]
mod tests;
