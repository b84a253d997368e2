//! Opening the book: what the ledger adds up to.

use engine::draw::LedgerSecret;
use engine::{Book, Inconsistent, LedgerKind};

use super::{Fenced, MySqlLedger, WriterRow, roll_back};
use crate::ledger::RowError;
use crate::ledger::mysql::replay::{last_seq, replay_to, secret};

/// The ledger could not be read back.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    #[error("cannot read the ledger: {0}")]
    MySql(#[from] mysql::Error),
    #[error("cannot read the ledger: {0}")]
    Row(#[from] RowError),
    #[error("the ledger breaks an invariant, {0}; restore a backup, or send a dump to the developers")]
    Inconsistent(#[from] Inconsistent),
    #[error(
        "the ledger's writer says that entry {next} comes next, but the last one is {last}; restore a backup, or \
         send a dump to the developers"
    )]
    Sequence { next: i64, last: u64 },
    #[error(transparent)]
    Fenced(#[from] Fenced),
}

impl MySqlLedger {
    /// The book that the ledger adds up to. If the outcome of the last transaction is not known, it is found out
    /// first.
    ///
    /// # Errors
    /// If the ledger cannot be read, breaks an invariant, or was taken over.
    pub fn load(&mut self) -> Result<Book, LoadError> {
        let loaded = self.load_now();
        if loaded.is_err() {
            self.connection = None;
        }
        loaded
    }

    fn load_now(&mut self) -> Result<Book, LoadError> {
        let (ours, in_doubt) = (self.generation, self.in_doubt);
        self.knock()?;
        let connection = self.connected()?;
        // A transaction whose commit was not answered holds the row's lock until it is decided. Without one nobody
        // but a server that takes over can write, and a server that takes no writes can still be read.
        let row = if in_doubt { WriterRow::locked(connection)? } else { WriterRow::read(connection)? };
        roll_back(connection)?;
        if row.generation != ours {
            return Err(Fenced { ours, row }.into());
        }
        let last = last_seq(connection)?;
        if i64::try_from(last).ok().and_then(|last| last.checked_add(1)) != Some(row.next_seq) {
            return Err(LoadError::Sequence { next: row.next_seq, last });
        }
        let mut book = Book::new();
        book.set_ledger_secret(LedgerSecret(secret(connection)?.unwrap_or_default()));
        replay_to(connection, last, |entry| book.replay(LedgerKind::Book, &entry).map_err(LoadError::from))?;
        book.drain_touched(|_, _| {});
        self.batch = row.batch;
        self.next_seq = row.next_seq;
        self.in_doubt = false;
        Ok(book)
    }
}
