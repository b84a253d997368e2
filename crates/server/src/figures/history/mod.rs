//! The figures of the past: a row for each second of a day and each minute of a year, how the stock and each sale went, why
//! orders were refused, and when the verdict was not green.
//!
//! Kept in `figures.db`, a file of its own in a directory that one server has at a time, by a thread of its own; without a
//! directory in memory, and for less time. A disk that is full or a file that is broken stops it, with one warning, and nothing else. Must not:
//! be waited for by whoever takes the figures.

mod ask;
mod export;
mod incidents;
mod kept;
mod refusals;
mod sales;
mod store;

use std::fmt::Display;
use std::fs::{DirBuilder, File, TryLockError};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

pub use ask::{HistoryQuery, POINTS_MAX, Points};
pub use export::{Export, ExportPage};
pub use incidents::Incident;
pub use kept::{Kept, NotKept, Sold};
pub use refusals::RefusedAt;
pub use sales::SaleKept;
use store::{OpenError, Store};

pub(super) use incidents::SecondVerdict;
pub(super) use refusals::Refused;
pub(super) use sales::SaleOrders;

use super::events::EventFigures;
use super::host::Disk;
use crate::recurring::Recurring;

pub(super) const FILE_NAME: &str = "figures.db";
/// Locked by the server that keeps its history beside it.
const LOCK_NAME: &str = "figures.lock";
/// Seconds that wait to be written; with a disk that is slower than that, there is a gap.
pub(super) const WAITING_MAX: usize = 60;
/// A look that comes late is of all seconds since the one before; of a machine that slept, of so many.
const LATE_S_MAX: i64 = 60;
/// What is left to the ledger: with less room on the disk nothing is added.
const DISK_FREE_BYTES_MIN: u64 = 100 * 1024 * 1024;
const DAY_MS: i64 = 24 * 3600 * 1000;
const MINUTE_MS: i64 = 60_000;

/// How much is kept.
#[derive(Clone, Copy, Debug)]
struct Bounds {
    /// How long each second is, and each minute.
    seconds_ms: i64,
    minutes_ms: i64,
    /// Changes of an item's stock, the newest.
    stock_rows: i64,
    /// Whatever else happens.
    bytes: i64,
}

const IN_FILE: Bounds =
    Bounds { seconds_ms: DAY_MS, minutes_ms: 366 * DAY_MS, stock_rows: 4_000_000, bytes: 512 * 1024 * 1024 };
const IN_MEMORY: Bounds =
    Bounds { seconds_ms: 3600 * 1000, minutes_ms: DAY_MS, stock_rows: 50_000, bytes: 16 * 1024 * 1024 };

/// What one row of many says of all that it stands for.
#[derive(Clone, Copy, Debug)]
enum Fold {
    /// Of a time of which nothing is known, nothing is in it.
    Rate,
    Mean,
    Highest,
    Lowest,
    /// As many below the highest [`KNOWN`] as were missed at once: a server that joins is not missed before.
    FewestHeard,
}

impl Fold {
    /// As SQLite writes it.
    fn of(self, column: &str) -> String {
        match self {
            Fold::Rate => format!("sum({column}) / count(*)"),
            Fold::Mean => format!("avg({column})"),
            Fold::Highest => format!("max({column})"),
            Fold::Lowest => format!("min({column})"),
            Fold::FewestHeard => format!("max({KNOWN}) - max({KNOWN} - {column})"),
        }
    }
}

/// Whose figures are in the sum, and how many servers there were: where fewer are, the sum is not whole.
const HEARD: &str = "servers_heard";
const KNOWN: &str = "servers_known";

/// What is kept of a second, by name, and what a longer time shows of it.
const COLUMNS: [(&str, Fold); 17] = [
    ("received", Fold::Rate),
    ("accepted", Fold::Rate),
    ("replayed", Fold::Rate),
    ("refused", Fold::Rate),
    ("busy", Fold::Rate),
    ("unknown", Fold::Rate),
    ("requests", Fold::Rate),
    ("order_p50_ms", Fold::Mean),
    ("order_p99_ms", Fold::Highest),
    ("commit_p99_ms", Fold::Highest),
    ("processors_busy", Fold::Mean),
    ("in_flight", Fold::Highest),
    ("connections", Fold::Highest),
    ("memory_bytes", Fold::Highest),
    ("disk_free_bytes", Fold::Lowest),
    (HEARD, Fold::FewestHeard),
    (KNOWN, Fold::Highest),
];

/// In the order of [`COLUMNS`].
pub(super) type Values = [Option<f64>; COLUMNS.len()];

/// One second.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Taken {
    pub(super) at_ms: i64,
    /// Since the one before: the values are of all this time, unless the server stood still.
    pub(super) passed_ms: i64,
    /// The values are of the last second: of the time before, nothing is known.
    pub(super) stood_still: bool,
    pub(super) values: Values,
    pub(super) stock: Vec<ItemStock>,
    pub(super) refused: Vec<Refused>,
    /// Only those of which there were orders.
    pub(super) sales: Vec<SaleOrders>,
    pub(super) judged: SecondVerdict,
    /// The last that happened, the newest first: as long as nothing new has, the same.
    pub(super) events: Arc<[EventFigures]>,
    pub(super) disk_free_bytes: Option<u64>,
}

impl Taken {
    /// Of each second since the one before.
    fn values_before(&self) -> Values {
        if !self.stood_still {
            return self.values;
        }
        // Whoever stands still does not hear itself.
        std::array::from_fn(|place| match COLUMNS[place].0 {
            HEARD => Some(0.0),
            KNOWN => self.values[place],
            _ => None,
        })
    }
}

/// As SQLite writes numbers; none of ours is larger.
pub(super) fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// Orders, of rates; which are not negative, and their sums far below 2^63.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "see above; beyond, it is the bound"
)]
fn whole(orders: f64) -> u64 {
    orders.round() as u64
}

/// Units of an item that is on sale, or was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ItemStock {
    pub(super) sale: i64,
    pub(super) product: i64,
    pub(super) available: i64,
    pub(super) turns: i64,
    pub(super) held: i64,
    pub(super) sold: i64,
}

/// There is none, or it stopped; the log says why.
#[derive(Debug, thiserror::Error)]
#[error("the history of the figures can't be read; the server's log says why")]
pub struct NoHistory;

#[derive(Debug)]
pub struct History {
    store: Mutex<Option<Store>>,
    /// In memory, what the disk has no room for at the moment.
    aside: Mutex<Option<Store>>,
    /// Where the file is; `None`: in memory.
    dir: Option<PathBuf>,
    /// Held as long as the history.
    _lock: Option<File>,
}

impl History {
    /// In a directory, or in memory: without one, and while another server has it.
    pub(crate) fn open(dir: Option<&Path>) -> History {
        History::open_on(dir, dir.and_then(Disk::of))
    }

    fn open_on(dir: Option<&Path>, disk: Option<Disk>) -> History {
        let opened = match (dir, disk) {
            // A new file would take it from a ledger that is just opened again on a full disk.
            (Some(_), Some(Disk { free_bytes: free @ ..DISK_FREE_BYTES_MIN, .. })) => {
                Err(OpenError::NoRoom(free))
            }
            (Some(dir), _) => {
                lock(dir).and_then(|lock| Ok((Store::open(&dir.join(FILE_NAME), IN_FILE)?, Some(lock))))
            }
            (None, _) => in_memory(),
        };
        let opened = match opened {
            Err(OpenError::Locked) => {
                let dir = dir.map(Path::display).expect("no lock is taken without a directory");
                tracing::warn!(
                    "another server keeps its history of the figures in {dir}; this one keeps its own in memory: give it a \
                     figures.history_dir of its own"
                );
                in_memory()
            }
            Err(error @ OpenError::NoRoom(_)) => {
                tracing::warn!(%error, "the history of the figures is kept in memory until the next start");
                in_memory()
            }
            opened => opened,
        };
        let (store, lock) = opened.inspect_err(|error| stopped(error, dir)).ok().unzip();
        let lock: Option<File> = lock.flatten();
        let dir = dir.filter(|_| lock.is_some()).map(Path::to_path_buf);
        History { store: Mutex::new(store), aside: Mutex::default(), dir, _lock: lock }
    }

    /// What had happened before the start, the newest first.
    pub(super) fn events(&self) -> Vec<EventFigures> {
        self.with(Store::events).unwrap_or_default()
    }

    /// Since when nothing is left of each of these items, as far as that was seen.
    pub(super) fn sold_out(&self, items: &[(u64, u64)]) -> Vec<((u64, u64), u64)> {
        self.with(|store| store.sold_out(items)).unwrap_or_default()
    }

    /// Writes what is taken until nobody takes any more.
    pub(super) fn record_all(&self, taken: &Receiver<Taken>) {
        let no_room = Recurring::new(
            "the history of the figures is kept in memory, to leave what room the disk has to the ledger",
        );
        for taken in taken {
            match taken.disk_free_bytes {
                Some(free @ ..DISK_FREE_BYTES_MIN) => {
                    no_room.met(&format_args!("{free} bytes are free"));
                    self.remember(&taken);
                }
                Some(_) | None => {
                    no_room.well();
                    self.record(&taken);
                }
            }
        }
        // Whoever reads the file of a server that has stopped should not find an incident that goes on.
        self.with(|store| store.end()).ok();
    }

    pub(super) fn record(&self, taken: &Taken) {
        let aside = self.aside().take();
        // Whatever keeps it from being written is logged, and the history has ended.
        self.with(|store| {
            if let Some(aside) = aside {
                store.take_in(&aside)?;
            }
            store.record(taken)
        })
        .ok();
    }

    /// While there is no room: it is written when there is some.
    fn remember(&self, taken: &Taken) {
        if let Some(store) = self.lock().as_mut() {
            store.remember(taken);
        }
        let mut aside = self.aside();
        if aside.is_none() {
            *aside = in_memory().ok().map(|(store, _)| store);
        }
        // One that is full goes, and the next begins.
        if aside.as_mut().is_some_and(|aside| aside.record(taken).is_err()) {
            *aside = None;
        }
    }

    /// Reads it; may take a second.
    ///
    /// # Errors
    /// `NoHistory`.
    pub fn read(&self, asked: &HistoryQuery) -> Result<Points, NoHistory> {
        self.with(|store| store.read(asked, self.aside().as_ref()))
    }

    /// Reads what was kept of a sale; may take a second.
    ///
    /// # Errors
    /// See [`NotKept`].
    pub fn kept(&self, sold: &Sold) -> Result<Kept, NotKept> {
        match &self.dir {
            // By a connection of its own: nothing waits for it.
            Some(dir) => Kept::read(dir, sold),
            None => Kept::of(&self.lock().as_ref().ok_or(NoHistory)?.connection, sold),
        }
    }

    /// Reads the next page of an export; may take a second.
    ///
    /// # Errors
    /// `NoHistory`.
    pub fn page(&self, export: &Export) -> Result<ExportPage, NoHistory> {
        self.with(|store| store.page(export, self.aside().as_ref()))
    }

    /// Whether there is one, as far as that can be said without waiting for whoever reads or writes it.
    ///
    /// # Errors
    /// `NoHistory`.
    pub fn check(&self) -> Result<(), NoHistory> {
        match self.store.try_lock().as_deref() {
            Ok(None) => Err(NoHistory),
            Ok(Some(_)) | Err(_) => Ok(()),
        }
    }

    /// What fails ends the history.
    fn with<T>(&self, done: impl FnOnce(&mut Store) -> rusqlite::Result<T>) -> Result<T, NoHistory> {
        let mut store = self.lock();
        done(store.as_mut().ok_or(NoHistory)?).map_err(|error| {
            stopped(&error, None);
            *store = None;
            NoHistory
        })
    }

    /// Taken after the store, if both are.
    fn aside(&self) -> MutexGuard<'_, Option<Store>> {
        self.aside.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock(&self) -> MutexGuard<'_, Option<Store>> {
        self.store.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn in_memory() -> Result<(Store, Option<File>), OpenError> {
    Ok((Store::in_memory(IN_MEMORY)?, None))
}

/// Makes the directory if it is missing, and takes it until the file is closed, however the process ends.
fn lock(dir: &Path) -> Result<File, OpenError> {
    DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
    let mut options = File::options();
    let options = options.write(true).create(true).truncate(false).mode(0o600);
    let file = options.open(dir.join(LOCK_NAME))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(OpenError::Locked),
        Err(TryLockError::Error(error)) => Err(error.into()),
    }
}

/// `dir`: where it was to be opened.
fn stopped(error: &dyn Display, dir: Option<&Path>) {
    let dir = dir.map(|dir| dir.display().to_string());
    tracing::warn!(%error, dir, "no history of the figures is kept until the next start; orders are not touched by that");
}

/// Hands a second over, unless too many wait.
pub(super) fn hand_over(to: &SyncSender<Taken>, taken: Taken) {
    match to.try_send(taken) {
        // One that is full leaves a gap, which shows; one that is gone has panicked, which is logged at the end.
        Ok(()) | Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) => {}
    }
}

#[cfg(test)]
mod tests;
