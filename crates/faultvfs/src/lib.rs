//! faultvfs: a disk that fails on demand, for tests of whatever keeps its data in SQLite.
//!
//! [`FaultVfs::register`] puts a shim over SQLite's `unix` VFS under a name of the test's choice. A connection opened
//! with that name (`rusqlite::Connection::open_with_flags_and_vfs`) reads, writes, locks and maps shared memory as
//! usual (but its syncs are only recorded, for speed), and the test can
//! - count its writes, syncs and growing writes, and make the N-th of them fail ([`FaultVfs::arm`]);
//! - take the files as they would be after the process was killed ([`FaultVfs::process_kill`]) or after the power
//!   failed ([`FaultVfs::power_cut`]), while the connection is still open.
//!
//! Test only: it must not be a normal dependency of anything that serves, and it must not know what is stored. It is
//! the only crate of the workspace with `unsafe` code, all of it in the private module `shim`, which does no more
//! than translate SQLite's calls; which calls fail (`plan`) and what survives a power cut (`disk`) is safe code.
//!
//! # What SQLite reports of a failure (WAL mode, `synchronous=FULL`; each line is asserted in `tests/it/sync_failure.rs`)
//!
//! | what failed | extended code of `COMMIT` | of `PRAGMA wal_checkpoint` |
//! |---|---|---|
//! | sync (WAL or database) | `SQLITE_IOERR_FSYNC` (1034) | `SQLITE_IOERR_FSYNC` (1034) |
//! | write | `SQLITE_IOERR_WRITE` (778) | `SQLITE_IOERR_WRITE` (778) |
//! | write on a full disk | `SQLITE_FULL` (13) | `SQLITE_FULL` (13) |
//! | truncation | - | `SQLITE_IOERR_TRUNCATE` (1546) |
//! | growth of the WAL's index (`-shm`) | `SQLITE_IOERR_SHMSIZE` (4874) | - |
//!
//! - After any failed `COMMIT` the transaction is closed (autocommit is on again) and its rows are invisible to the
//!   process that wrote them.
//! - After a failed *write* they never come back. After a failed *sync* they are complete in the WAL file, so they
//!   come back when the process is killed and the file opened again, unless another transaction overwrote them before.
//!   Closing the last connection hides this: it checkpoints what the process believes, and deletes the WAL.
//! - After a failed growth of the index they are complete in the WAL file too, and synced: a commit is written first
//!   and entered into the index afterwards.
//! - The kernel reports a failed sync once and then forgets it: a later sync succeeds although the bytes never reached
//!   the disk. A transaction appended behind such bytes is lost with them in a power cut, *although it was committed
//!   and synced*. `wal_checkpoint(TRUNCATE)` at the next start heals this only together with a commit after it: until
//!   the truncation is synced, the old WAL may come back and hide what the checkpoint wrote. Writing the WAL anew
//!   before SQLite opens it (copy, sync, rename, sync of the directory) heals without such a window.
//! - An automatic checkpoint (`wal_autocheckpoint`, on by default) swallows every error, syncs included, and so does
//!   the one at close. Who must know about failed syncs turns it off and checkpoints explicitly.

mod disk;
mod plan;
mod shim;

use std::io;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use disk::Disk;
use plan::Plan;
pub use plan::{Counts, Effect, Fault, Operation, Which};

/// A registered shim. Copies of the handle control the same shim.
///
/// Registration lasts for the life of the process and leaks a few hundred bytes: SQLite keeps the pointer, and a
/// connection may outlive every handle.
#[derive(Debug, Clone, Copy)]
pub struct FaultVfs {
    shared: &'static Shared,
}

/// What all files of one shim share. The lock is held through each write, truncation and sync, so that a power
/// cut taken by another thread falls between two of them; reads and file locks do not take it.
#[derive(Debug, Default)]
pub(crate) struct Shared {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
pub(crate) struct State {
    pub(crate) plan: Plan,
    pub(crate) disk: Disk,
    /// Files open now, temporary ones included.
    pub(crate) open_files: usize,
}

impl Shared {
    /// A panicking test thread must not turn every later call from SQLite into an abort, so poison is ignored: each
    /// critical section leaves the state consistent.
    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl FaultVfs {
    /// Registers a shim over the `unix` VFS as `name`, not as the default.
    ///
    /// # Panics
    /// If the name is taken (each test needs its own) or contains a zero byte.
    pub fn register(name: &str) -> FaultVfs {
        let shared: &'static Shared = Box::leak(Box::default());
        shim::register(name, shared);
        FaultVfs { shared }
    }

    /// What was done to any file since the last [`arm`](Self::arm) or [`reset_counts`](Self::reset_counts).
    pub fn counts(&self) -> Counts {
        self.counts_of(Which::Any)
    }

    /// The same for one kind of file: the bound for the `nth` of a fault on these files.
    pub fn counts_of(&self, files: Which) -> Counts {
        self.shared.lock().plan.counts_of(files)
    }

    /// Sets all counts to zero; an armed fault keeps its place.
    pub fn reset_counts(&self) {
        self.shared.lock().plan.reset_counts();
    }

    /// Arms a fault in place of any other, and counts from zero.
    ///
    /// # Panics
    /// If `nth` is 0, or the effect makes no sense for the operation (see [`Effect`]).
    pub fn arm(&self, fault: Fault) {
        self.shared.lock().plan.arm(fault);
    }

    /// The disk works again. Counts and [`fired`](Self::fired) stay readable.
    pub fn disarm(&self) {
        self.shared.lock().plan.disarm();
    }

    /// How often the fault took effect since it was armed: 0 means that the test has tested nothing.
    pub fn fired(&self) -> u64 {
        self.shared.lock().plan.fired()
    }

    /// Starts, or ends and forgets, the record of what is synced and what is not: in memory, a copy of every file and
    /// of every write. What a file holds when it is first opened counts as synced.
    ///
    /// # Panics
    /// If it is called while a file is open through this VFS: a file could only be copied through its own handle,
    /// since opening it once more would drop the process's POSIX locks on it.
    pub fn record_unsynced(&self, on: bool) {
        let mut state = self.shared.lock();
        assert!(
            state.open_files == 0,
            "record before the first connection opens, or after the last one closed"
        );
        state.disk.record(on);
    }

    /// Writes into the directory what a power cut at this moment could leave of every file opened through this VFS:
    /// all that was synced, and of the rest a subset that follows from the seed, in whole or torn at sectors of 512
    /// bytes. The shared memory (`-shm`) never survives. What was written before a *failed* sync stays in doubt for
    /// good, as on Linux, where no later sync covers it.
    ///
    /// The directory is created, and must be empty.
    ///
    /// # Errors
    /// If nothing is recorded ([`record_unsynced`](Self::record_unsynced)), two files have the same name, the
    /// directory is not empty, or it can't be written.
    pub fn power_cut(&self, seed: u64, into_dir: &Path) -> io::Result<()> {
        let images = self.shared.lock().disk.power_cut(seed)?;
        disk::write_images(images, into_dir)
    }

    /// The same for a kill of the process (or an exit without closing): every write survives, synced or not.
    ///
    /// # Errors
    /// As [`power_cut`](Self::power_cut).
    pub fn process_kill(&self, into_dir: &Path) -> io::Result<()> {
        let images = self.shared.lock().disk.process_kill()?;
        disk::write_images(images, into_dir)
    }
}
