//! Bringing the WAL's pages into the database, so that the WAL is overwritten and does not grow.
//!
//! A checkpoint copies pages and syncs the database: tens of milliseconds that no buyer should wait for. So a
//! second connection does the bulk in the background while commits go on, and the writer only finishes what
//! came meanwhile, between two batches; then all is in the database and the next commit starts the WAL anew.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rusqlite::Connection;
use rusqlite::hooks::Wal;

use super::BUSY_TIMEOUT;

/// Which checkpoint of SQLite's.
#[derive(Clone, Copy, Debug)]
enum Mode {
    /// As much as can be done without waiting.
    Passive,
    /// All of it; the next commit starts the WAL anew.
    Restart,
    /// All of it, and the WAL is emptied.
    Truncate,
}

/// A checkpoint that the writer finished.
#[derive(Clone, Copy, Debug)]
pub struct Checkpointed {
    /// Of the background part and the writer's.
    pub took: Duration,
    /// Everything was copied; if not, a reader is in the way and the WAL grows on.
    pub complete: bool,
}

/// Before anything is served: all of the WAL goes into the database, and the next commit starts the WAL anew.
/// Waits at most `patience` for readers that are in the way; returns whether it was done.
pub(super) fn settle(connection: &Connection, patience: Duration) -> Result<bool, rusqlite::Error> {
    connection.busy_timeout(patience)?;
    let done = checkpoint(connection, Mode::Restart);
    connection.busy_timeout(BUSY_TIMEOUT)?;
    done
}

/// At a clean stop: empties the WAL, if no reader is in the way; the next start settles it otherwise.
pub(super) fn empty(connection: &Connection) -> Result<(), rusqlite::Error> {
    checkpoint(connection, Mode::Truncate).map(|_| ())
}

/// Returns whether all of the WAL was copied.
fn checkpoint(connection: &Connection, mode: Mode) -> Result<bool, rusqlite::Error> {
    let pragma = match mode {
        Mode::Passive => "PRAGMA wal_checkpoint(PASSIVE)",
        Mode::Restart => "PRAGMA wal_checkpoint(RESTART)",
        Mode::Truncate => "PRAGMA wal_checkpoint(TRUNCATE)",
    };
    let row =
        |row: &rusqlite::Row<'_>| Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?, row.get::<_, i64>(2)?));
    let (busy, frames, copied) = connection.prepare_cached(pragma)?.query_row([], row)?;
    Ok(busy == 0 && frames == copied)
}

#[derive(Debug)]
enum State {
    Idle,
    Running,
    Done { took: Duration, result: Result<bool, rusqlite::Error> },
}

#[derive(Debug)]
pub(super) struct Checkpointer {
    /// Frames in the WAL after the latest commit, counted by SQLite's hook.
    frames: Arc<AtomicU32>,
    /// Frames at which the next one starts.
    threshold: u32,
    pages: u32,
    state: Arc<Mutex<State>>,
    start: Option<SyncSender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Checkpointer {
    /// Starts the thread. `writer` gets a hook that counts its WAL; `second` is for the thread.
    pub(super) fn start(
        writer: &mut Connection,
        second: Connection,
        pages: u32,
    ) -> Result<Checkpointer, rusqlite::Error> {
        let frames = Arc::new(AtomicU32::new(0));
        let count = Arc::clone(&frames);
        writer.wal_hook(Some(move |_: &mut Wal, pages: std::ffi::c_int| {
            count.store(u32::try_from(pages).unwrap_or(0), Ordering::Relaxed);
            Ok(())
        }))?;
        let state = Arc::new(Mutex::new(State::Idle));
        let (start, starts) = sync_channel(1);
        let shared = Arc::clone(&state);
        let thread = std::thread::Builder::new()
            .name("checkpoint".into())
            .spawn(move || serve(&second, &starts, &shared))
            .expect("a thread can be started while the server starts");
        Ok(Checkpointer { frames, threshold: pages, pages, state, start: Some(start), thread: Some(thread) })
    }

    /// Between two batches: starts the background part when the WAL is long enough, or finishes after it.
    pub(super) fn step(&mut self, writer: &Connection) -> Result<Option<Checkpointed>, rusqlite::Error> {
        let frames = self.frames.load(Ordering::Relaxed);
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        match &*state {
            State::Running => Ok(None),
            State::Idle if frames < self.threshold => Ok(None),
            State::Idle => {
                *state = State::Running;
                drop(state);
                let start = self.start.as_ref().expect("the thread runs until stop");
                start.send(()).expect("the thread runs until stop");
                Ok(None)
            }
            State::Done { .. } => {
                let State::Done { took, result } = std::mem::replace(&mut *state, State::Idle) else {
                    unreachable!("it was just looked at")
                };
                drop(state);
                // If the disk refuses or a reader is in the way, try again only after as much again.
                self.threshold = frames.saturating_add(self.pages);
                result?;
                let started = Instant::now();
                let complete = checkpoint(writer, Mode::Passive)?;
                if complete {
                    self.threshold = self.pages;
                    // The hook hears of commits only; without one, the same frames would start a checkpoint
                    // over and over. It runs within a commit, so on this thread, and can't come between.
                    self.frames.store(0, Ordering::Relaxed);
                }
                Ok(Some(Checkpointed { took: took + started.elapsed(), complete }))
            }
        }
    }

    /// Starts the next one as soon as there is anything to copy: what was erased is to be gone from the file.
    pub(super) fn hurry(&mut self) {
        self.threshold = 1;
    }

    /// Ends the thread after what it is doing.
    pub(super) fn stop(mut self) {
        self.join();
    }

    fn join(&mut self) {
        drop(self.start.take());
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the checkpoint thread panicked");
        }
    }
}

impl Drop for Checkpointer {
    fn drop(&mut self) {
        self.join();
    }
}

fn serve(connection: &Connection, starts: &Receiver<()>, state: &Mutex<State>) {
    while starts.recv().is_ok() {
        let started = Instant::now();
        let result = checkpoint(connection, Mode::Passive);
        *state.lock().unwrap_or_else(PoisonError::into_inner) =
            State::Done { took: started.elapsed(), result };
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::ledger::sqlite::{Synchronous, prepare};

    fn open(dir: &Path) -> Connection {
        let connection = Connection::open(dir.join("ledger.db")).unwrap();
        prepare(&connection, Synchronous::Off).unwrap();
        connection
    }

    fn write(connection: &Connection) {
        connection.execute_batch("CREATE TABLE IF NOT EXISTS t (x); INSERT INTO t VALUES (1)").unwrap();
    }

    #[test]
    fn an_idle_ledger_is_checkpointed_once() {
        let dir = tempfile::tempdir().unwrap();
        let mut writer = open(dir.path());
        let mut checkpointer = Checkpointer::start(&mut writer, open(dir.path()), 1).unwrap();
        write(&writer);
        let deadline = Instant::now() + Duration::from_secs(60);
        loop {
            assert!(Instant::now() < deadline, "no checkpoint came");
            if let Some(done) = checkpointer.step(&writer).unwrap() {
                assert!(done.complete);
                break;
            }
            std::thread::yield_now();
        }
        assert!(checkpointer.step(&writer).unwrap().is_none());
        assert!(matches!(*checkpointer.state.lock().unwrap(), State::Idle), "another one was started");
        write(&writer);
        checkpointer.step(&writer).unwrap();
        assert!(!matches!(*checkpointer.state.lock().unwrap(), State::Idle), "a commit brings the next one");
    }

    #[test]
    fn settling_says_whether_a_reader_was_in_the_way() {
        let dir = tempfile::tempdir().unwrap();
        let (writer, reader) = (open(dir.path()), open(dir.path()));
        write(&writer);
        reader.execute_batch("BEGIN; SELECT * FROM t").unwrap();
        write(&writer);
        assert!(!settle(&writer, Duration::ZERO).unwrap(), "half of the WAL can't be copied");
        reader.execute_batch("COMMIT; BEGIN; SELECT * FROM t").unwrap();
        assert!(!settle(&writer, Duration::ZERO).unwrap(), "all is copied, but the WAL can't start anew");
        let leaving = std::thread::spawn(move || reader.execute_batch("COMMIT").unwrap());
        assert!(settle(&writer, Duration::from_secs(60)).unwrap(), "it waits for a reader that leaves");
        leaving.join().unwrap();
    }
}
