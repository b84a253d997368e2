//! The figures of the night: what the server does, taken once a second and rendered once for all who read it.
//!
//! A thread of its own reads counters that are atomics, what the catalog has published, and what the system says of the
//! machine. A reader copies the bytes of the last second, so a hundred of them cost the orders nothing. Must not: take a lock that
//! an order waits for, read the ledger, or ask an engine.

mod host;
mod look;
mod sales;
mod sample;
mod verdict;

use std::io;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::intake::{Client, Health, Intake};
use crate::net::{NetStats, Stop};

pub use look::Looking;

/// From one sample to the next.
const INTERVAL: Duration = Duration::from_secs(1);
/// Orders come first where processors are few.
#[cfg(target_os = "linux")]
const NICE: i32 = 10;

/// What is looked at.
#[derive(Clone, Debug)]
pub struct Watched {
    pub core: Intake,
    pub net: Arc<NetStats>,
    pub health: Arc<Health>,
    /// Tells whether the ledger takes writes.
    pub client: Client,
    pub stop: Stop,
    /// Whose figures they are.
    pub server: String,
    /// On the disk whose room counts; `None`: nothing is written here.
    pub data_dir: Option<PathBuf>,
    /// `None`: the ledger is no file.
    pub ledger: Option<PathBuf>,
    /// Refunds that are due are counted in the book alone, and not every server has one.
    pub has_book: bool,
}

/// The last sample, as JSON.
#[derive(Debug)]
pub struct Figures(Mutex<Arc<[u8]>>);

impl Figures {
    fn new(json: Vec<u8>) -> Figures {
        Figures(Mutex::new(json.into()))
    }

    fn publish(&self, json: Vec<u8>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = json.into();
    }

    pub fn latest(&self) -> Arc<[u8]> {
        Arc::clone(&self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Takes samples until it is dropped.
#[derive(Debug)]
pub struct Sampling {
    stop: Option<SyncSender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Sampling {
    /// Of what `looking` has looked at once.
    ///
    /// # Errors
    /// If the thread can't be started.
    pub fn start(mut looking: Looking, thread: thread::Builder) -> io::Result<Sampling> {
        let (stop, stopped) = sync_channel(1);
        let thread = thread.spawn(move || sample(&mut looking, &stopped))?;
        Ok(Sampling { stop: Some(stop), thread: Some(thread) })
    }
}

impl Drop for Sampling {
    fn drop(&mut self) {
        self.stop = None;
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the thread that takes the figures panicked; orders were not touched by that");
        }
    }
}

fn sample(looking: &mut Looking, stopped: &Receiver<()>) {
    #[cfg(target_os = "linux")]
    if let Err(error) = rustix::process::setpriority_process(None, NICE) {
        tracing::debug!(%error, "the thread that takes the figures has no lower priority");
    }
    let mut next = Instant::now() + INTERVAL;
    while stopped.recv_timeout(next.saturating_duration_since(Instant::now()))
        == Err(RecvTimeoutError::Timeout)
    {
        let now = Instant::now();
        looking.look(now);
        // A second that was missed is not made up for: its orders are in the next one, whose length is known.
        next = (next + INTERVAL).max(now + INTERVAL / 2);
    }
}

#[cfg(test)]
mod tests;
