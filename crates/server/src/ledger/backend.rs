//! The backends behind one type each: [`Ledger`] for the writer, [`Source`] for readers.

use std::fmt;
use std::path::PathBuf;

use engine::{Book, Entry, KeptAddress, Notice, ProductId, SaleId, Seq, UnixMs};
use ring::hmac;

use super::draw::{Draw, Drawing, NoDraw};
use super::mysql::{self, MySqlLedger};
use super::report::{SaleReport, Tally};
use super::sqlite::{self, Checkpointed, SqliteLedger};
use super::{
    AppendError, Audit, Batch, Changes, EndpointChange, EndpointProgress, EventPage, OperatorLog,
    OperatorLogAsked, OrderLife, OrderLine, StoredEndpoint,
};
use crate::clock::Notes;

/// The writer's ledger.
#[derive(Debug)]
pub enum Ledger {
    Sqlite(Box<SqliteLedger>),
    MySql(Box<MySqlLedger>),
}

/// Why a ledger could not be opened, or read by a reader. Each says what to do.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    #[error(transparent)]
    Sqlite(#[from] sqlite::OpenError),
    #[error(transparent)]
    MySql(#[from] mysql::OpenError),
}

impl OpenError {
    /// The ledger could be read, but what is in it is none any more.
    pub fn is_damage(&self) -> bool {
        match self {
            OpenError::Sqlite(error) => error.is_damage(),
            OpenError::MySql(error) => error.is_damage(),
        }
    }

    /// A reader has come further than the ledger goes: its cursor is of another one, or of the time before a backup was restored.
    pub fn is_cursor_ahead(&self) -> bool {
        matches!(
            self,
            OpenError::Sqlite(sqlite::OpenError::CursorAhead { .. })
                | OpenError::MySql(mysql::OpenError::CursorAhead { .. })
        )
    }
}

/// The book could not be loaded from the ledger.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    #[error(transparent)]
    Sqlite(#[from] sqlite::LoadError),
    #[error(transparent)]
    MySql(#[from] mysql::LoadError),
}

impl LoadError {
    /// Another server has taken the ledger over: no later try will succeed.
    pub fn is_fenced(&self) -> bool {
        matches!(self, LoadError::MySql(mysql::LoadError::Fenced(_)))
    }
}

impl From<SqliteLedger> for Ledger {
    fn from(ledger: SqliteLedger) -> Ledger {
        Ledger::Sqlite(Box::new(ledger))
    }
}

impl From<MySqlLedger> for Ledger {
    fn from(ledger: MySqlLedger) -> Ledger {
        Ledger::MySql(Box::new(ledger))
    }
}

/// Where it lies.
impl fmt::Display for Ledger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Ledger::Sqlite(ledger) => ledger.path().display().fmt(f),
            Ledger::MySql(ledger) => ledger.options().fmt(f),
        }
    }
}

impl Ledger {
    /// What decides which orders a crash may take, as it is in effect here. A MySQL server has its own.
    pub fn settings(&self) -> sqlite::Settings {
        match self {
            Ledger::Sqlite(ledger) => {
                let mut settings = vec![("backend", "sqlite".to_owned())];
                settings.extend_from_slice(ledger.settings());
                settings
            }
            Ledger::MySql(_) => vec![("backend", "mysql".to_owned())],
        }
    }

    /// Appends a batch in one transaction and returns when it is committed and synced.
    ///
    /// # Errors
    /// See [`AppendError`]; in any case the book must not be used any more.
    pub fn append(&mut self, batch: &Batch<'_>) -> Result<(), AppendError> {
        match self {
            Ledger::Sqlite(ledger) => ledger.append(batch),
            Ledger::MySql(ledger) => ledger.append(batch),
        }
    }

    /// Whether it can only be read for now: its disk was full when it was opened.
    pub fn is_full(&self) -> bool {
        match self {
            Ledger::Sqlite(ledger) => ledger.is_full(),
            Ledger::MySql(_) => false,
        }
    }

    /// Copies what was written after [`AppendError::Misplaced`], and reports where to.
    pub fn rescue(&self) {
        let Ledger::Sqlite(ledger) = self else { return };
        match ledger.rescue() {
            Ok(copy) => tracing::error!(
                copy = %copy.display(),
                "this copy has everything; to go on from it, remove ledger.db-wal and ledger.db-shm, move it to ledger.db, \
                 and start again"
            ),
            Err(error) => tracing::error!(%error, "what was written can't be copied"),
        }
    }

    /// Takes back for good what was rolled back, and shows that writing is possible: to be called after
    /// [`Ledger::append`] failed, once the book is loaded, before anybody is answered from it for good.
    ///
    /// # Errors
    /// As [`Ledger::append`]. While the ledger refuses this, nothing must be accepted.
    pub fn settle_rolled_back(&mut self) -> Result<(), AppendError> {
        match self {
            Ledger::Sqlite(ledger) => ledger.settle_rolled_back(),
            Ledger::MySql(ledger) => ledger.settle_rolled_back(),
        }
    }

    /// What may follow a batch, after its answers, and is done while there is none.
    ///
    /// # Errors
    /// See [`AppendError`]; the book stays right unless it is [`AppendError::SyncFailed`].
    pub fn maintain(&mut self) -> Result<Option<Checkpointed>, AppendError> {
        match self {
            Ledger::Sqlite(ledger) => ledger.maintain(),
            Ledger::MySql(ledger) => ledger.maintain().map(|()| None),
        }
    }

    /// Removes addresses of orders placed before `cutoff_ms`, and messages from before it; returns how many of
    /// both it went through. At most `max`; if it is `max`, more may wait.
    ///
    /// # Errors
    /// As [`Ledger::append`], but the book stays right.
    pub fn purge_addresses(&mut self, cutoff_ms: u64, max: u32) -> Result<u32, AppendError> {
        match self {
            Ledger::Sqlite(ledger) => ledger.purge_addresses(cutoff_ms, max),
            Ledger::MySql(ledger) => ledger.purge_addresses(cutoff_ms, max),
        }
    }

    /// Goes on with the addresses of buyers who were erased; returns how many orders it went through. At most `max`; if it is
    /// `max`, more may wait.
    ///
    /// # Errors
    /// As [`Ledger::append`], but the book stays right.
    pub fn erase_addresses(&mut self, max: u32) -> Result<u32, AppendError> {
        match self {
            Ledger::Sqlite(ledger) => ledger.erase_addresses(max),
            Ledger::MySql(ledger) => ledger.erase_addresses(max),
        }
    }

    /// What an order has of an address.
    ///
    /// # Errors
    /// If the ledger cannot be read.
    pub fn kept_address(&mut self, order: Seq) -> Result<KeptAddress, OpenError> {
        match self {
            Ledger::Sqlite(ledger) => Ok(ledger.kept_address(order).map_err(sqlite::OpenError::from)?),
            Ledger::MySql(ledger) => Ok(ledger.kept_address(order).map_err(mysql::OpenError::from)?),
        }
    }

    /// Stores how far endpoints of the shop have come, and what was changed of them since.
    ///
    /// # Errors
    /// As [`Ledger::append`], but the book stays right; to do it again changes nothing.
    pub fn note_progress(
        &mut self,
        progress: &[(String, EndpointProgress)],
        changes: &[(String, EndpointChange)],
    ) -> Result<(), AppendError> {
        match self {
            Ledger::Sqlite(ledger) => ledger.note_progress(progress, changes),
            Ledger::MySql(ledger) => ledger.note_progress(progress, changes),
        }
    }

    /// The book that the ledger adds up to.
    ///
    /// # Errors
    /// If the ledger cannot be read, breaks an invariant, or was taken over.
    pub fn load(&mut self) -> Result<Book, LoadError> {
        match self {
            Ledger::Sqlite(ledger) => Ok(ledger.load()?),
            Ledger::MySql(ledger) => Ok(ledger.load()?),
        }
    }

    /// The secret that order ids are made with: made once, kept in the ledger.
    ///
    /// # Errors
    /// If the ledger cannot be read or written.
    pub fn id_secret(&mut self) -> Result<[u8; 16], OpenError> {
        match self {
            Ledger::Sqlite(ledger) => Ok(ledger.id_secret().map_err(sqlite::OpenError::from)?),
            Ledger::MySql(ledger) => Ok(ledger.id_secret().map_err(mysql::OpenError::from)?),
        }
    }

    /// Whether a demo may write here: its own ledger, or one that is still empty and becomes its own.
    ///
    /// # Errors
    /// If the ledger cannot be read or marked.
    pub fn is_for_demo(&mut self, empty: bool) -> Result<bool, OpenError> {
        match self {
            Ledger::Sqlite(ledger) => Ok(ledger.is_for_demo(empty).map_err(sqlite::OpenError::from)?),
            Ledger::MySql(ledger) => Ok(ledger.is_for_demo(empty).map_err(mysql::OpenError::from)?),
        }
    }

    /// What was noted of the clock.
    ///
    /// # Errors
    /// If the ledger cannot be read.
    pub fn clock_notes(&mut self) -> Result<Notes, OpenError> {
        match self {
            Ledger::Sqlite(ledger) => Ok(ledger.clock_notes().map_err(sqlite::OpenError::from)?),
            Ledger::MySql(ledger) => Ok(ledger.clock_notes().map_err(mysql::OpenError::from)?),
        }
    }

    /// Notes the clock, in place of what was noted before.
    ///
    /// # Errors
    /// As [`Ledger::append`], but the book stays right.
    pub fn note_clock(&mut self, notes: &Notes) -> Result<(), AppendError> {
        match self {
            Ledger::Sqlite(ledger) => ledger.note_clock(notes),
            Ledger::MySql(ledger) => ledger.note_clock(notes),
        }
    }

    /// For a clean stop.
    ///
    /// # Errors
    /// If SQLite's last checkpoint failed; nothing is lost, the next start does it.
    pub fn close(self) -> Result<(), OpenError> {
        match self {
            Ledger::Sqlite(ledger) => Ok(ledger.close().map_err(sqlite::OpenError::from)?),
            Ledger::MySql(_) => Ok(()),
        }
    }
}

/// Where a ledger can be read, while a server writes it or not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// SQLite's data directory.
    Directory(PathBuf),
    MySql(Box<mysql::Options>),
}

/// What names a ledger and gives nothing of its secret away.
pub(crate) fn identity_of(secret: &[u8]) -> [u8; 32] {
    let key = hmac::Key::new(hmac::HMAC_SHA256, secret);
    let tag = hmac::sign(&key, b"the identity of a ledger of doorbuster");
    tag.as_ref().try_into().expect("a tag of SHA-256 has 32 bytes")
}

impl Source {
    /// Whether it has entries, and no demo has made it. Changes nothing, whatever its format is.
    ///
    /// # Errors
    /// If the ledger cannot be read.
    pub fn is_a_shops(&self) -> Result<bool, OpenError> {
        match self {
            Source::Directory(data_dir) => Ok(sqlite::is_a_shops(data_dir)?),
            Source::MySql(options) => Ok(mysql::is_a_shops(options)?),
        }
    }

    /// Finds out whether a server could open it, or would make or migrate it. Changes nothing.
    ///
    /// # Errors
    /// Why it could not.
    pub fn check(&self) -> Result<(), OpenError> {
        match self {
            Source::Directory(data_dir) => Ok(sqlite::check(data_dir)?),
            Source::MySql(options) => Ok(mysql::check(options)?),
        }
    }

    /// Distinguishes ledgers, and gives nothing of the secret away that it is made of. A copy of a ledger has the same.
    ///
    /// # Errors
    /// If the ledger cannot be read.
    pub fn identity(&self) -> Result<[u8; 32], OpenError> {
        let secret = match self {
            Source::Directory(data_dir) => sqlite::kept_id_secret(data_dir)?,
            Source::MySql(options) => mysql::kept_id_secret(options)?,
        };
        Ok(identity_of(&secret.unwrap_or_default()))
    }

    /// Checks every invariant over the whole ledger, as of the moment of the call.
    ///
    /// # Errors
    /// If the ledger cannot be opened or read. A broken invariant is no error but the audit's result.
    pub fn audit(&self) -> Result<Audit, OpenError> {
        match self {
            Source::Directory(data_dir) => Ok(sqlite::audit(data_dir)?),
            Source::MySql(options) => Ok(mysql::audit(options)?),
        }
    }

    /// Audits it and reports on a sale, in the same read: both are as of the same entry, `to` or the last one. The report is
    /// `None` if there was no such sale by then.
    ///
    /// # Errors
    /// As [`Source::audit`], or if the ledger ends before `to`.
    pub fn report(&self, sale: SaleId, to: Option<u64>) -> Result<(Audit, Option<SaleReport>), OpenError> {
        let mut tally = Tally::of(sale);
        let mut each = |book: &Book, entry: &Entry| tally.add(book, entry);
        let audit = match self {
            Source::Directory(data_dir) => sqlite::audit_each(data_dir, to, &mut each)?,
            Source::MySql(options) => mysql::audit_each(options, to, &mut each)?,
        };
        Ok((audit, tally.finish()))
    }

    /// The draw of an item's line, with everybody who takes part. Reads the whole ledger. `sale`: `None` where only one sells the
    /// product to a line.
    ///
    /// # Errors
    /// As [`Source::audit`], or if a rule is broken in it.
    pub fn draw(&self, sale: Option<SaleId>, product: ProductId) -> Result<Result<Draw, NoDraw>, OpenError> {
        let mut drawing = Drawing::of(sale, product);
        let mut each = |book: &Book, entry: &Entry| drawing.add(book, entry);
        let audit = match self {
            Source::Directory(data_dir) => sqlite::audit_each(data_dir, None, &mut each)?,
            Source::MySql(options) => mysql::audit_each(options, None, &mut each)?,
        };
        Ok(drawing.finish(audit))
    }

    /// Orders placed or changed after `since`: one page, see [`Changes`].
    ///
    /// # Errors
    /// If the ledger cannot be read, or ends before the cursor.
    pub fn changes(&self, since: u64, entries_max: u64) -> Result<Changes, OpenError> {
        match self {
            Source::Directory(data_dir) => {
                Ok(sqlite::changes(&sqlite::open_reader(data_dir)?, since, entries_max)?)
            }
            Source::MySql(options) => Ok(mysql::changes(options, since, entries_max)?),
        }
    }

    /// Calls `each` for every order placed or changed after `since`, once, with its status as of the call, and
    /// returns the cursor to go on from.
    ///
    /// # Errors
    /// If the ledger cannot be read, or ends before the cursor.
    pub fn export(&self, since: u64, each: &mut dyn FnMut(OrderLine)) -> Result<u64, OpenError> {
        match self {
            Source::Directory(data_dir) => Ok(sqlite::export(data_dir, since, each)?),
            Source::MySql(options) => Ok(mysql::export(options, since, each)?),
        }
    }

    /// What became of an order, by its entry; `None`: that is no order's.
    ///
    /// # Errors
    /// If the ledger cannot be read.
    pub fn order_life(&self, order: u64) -> Result<Option<OrderLife>, OpenError> {
        match self {
            Source::Directory(data_dir) => Ok(sqlite::order_life(&sqlite::open_reader(data_dir)?, order)?),
            Source::MySql(options) => Ok(mysql::order_life(options, order)?),
        }
    }

    /// The entries about sales after the one with this number, for [`engine::Sales::replay`].
    ///
    /// # Errors
    /// If the ledger cannot be read.
    pub fn sale_entries(&self, after: Seq) -> Result<Vec<Entry>, OpenError> {
        match self {
            Source::Directory(data_dir) => Ok(sqlite::sale_entries(&sqlite::open_reader(data_dir)?, after)?),
            Source::MySql(options) => Ok(mysql::sale_entries(options, after)?),
        }
    }

    /// What operators did: one page.
    ///
    /// # Errors
    /// If the ledger cannot be read.
    pub fn operator_log(&self, asked: &OperatorLogAsked) -> Result<OperatorLog, OpenError> {
        match self {
            Source::Directory(data_dir) => Ok(sqlite::operator_log(&sqlite::open_reader(data_dir)?, asked)?),
            Source::MySql(options) => Ok(mysql::operator_log(options, asked)?),
        }
    }

    /// Opens it to read its events.
    ///
    /// # Errors
    /// If it can't be opened; one on a MySQL server is connected to at the first read.
    pub fn event_reader(&self) -> Result<EventReader, OpenError> {
        Ok(match self {
            Source::Directory(data_dir) => EventReader::Sqlite(sqlite::open_event_reader(data_dir)?),
            Source::MySql(options) => EventReader::MySql(mysql::EventReader::new(options.clone())),
        })
    }
}

/// Reads events, in short transactions, while a server writes.
#[derive(Debug)]
pub enum EventReader {
    Sqlite(sqlite::EventReader),
    MySql(mysql::EventReader),
}

impl EventReader {
    /// The latest entry; 0: there is none.
    ///
    /// # Errors
    /// If the ledger cannot be read.
    pub fn last(&mut self) -> Result<u64, OpenError> {
        match self {
            EventReader::Sqlite(reader) => Ok(reader.last()?),
            EventReader::MySql(reader) => Ok(reader.last()?),
        }
    }

    /// Events after one entry and up to another, in order: of a bounded number of entries, so there may be none though more
    /// follow.
    ///
    /// # Errors
    /// If the ledger cannot be read.
    pub fn read(&mut self, after: u64, to: u64) -> Result<EventPage, OpenError> {
        match self {
            EventReader::Sqlite(reader) => Ok(reader.read(after, to)?),
            EventReader::MySql(reader) => Ok(reader.read(after, to)?),
        }
    }

    /// The notices since a time, in order, the latest of each alone.
    ///
    /// # Errors
    /// If the ledger cannot be read.
    pub fn noticed_since(&mut self, at: UnixMs) -> Result<Vec<(UnixMs, Notice)>, OpenError> {
        match self {
            EventReader::Sqlite(reader) => Ok(reader.noticed_since(at)?),
            EventReader::MySql(reader) => Ok(reader.noticed_since(at)?),
        }
    }

    /// The id of the payment that paid for an order: of the entry that the order is paid, or that a refund of it was asked
    /// for. `None`: it was paid by being placed.
    ///
    /// # Errors
    /// If the ledger cannot be read.
    pub fn paid_by(&mut self, entry: u64) -> Result<Option<String>, OpenError> {
        match self {
            EventReader::Sqlite(reader) => Ok(reader.paid_by(entry)?),
            EventReader::MySql(reader) => Ok(reader.paid_by(entry)?),
        }
    }

    /// How far an endpoint has come; `None`: nobody has heard of it yet.
    ///
    /// # Errors
    /// If the ledger cannot be read.
    pub fn endpoint(&mut self, endpoint: &str) -> Result<Option<StoredEndpoint>, OpenError> {
        match self {
            EventReader::Sqlite(reader) => Ok(reader.endpoint(endpoint)?),
            EventReader::MySql(reader) => Ok(reader.endpoint(endpoint)?),
        }
    }
}
