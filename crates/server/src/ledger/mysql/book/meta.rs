//! Small facts about the ledger itself, kept in its `meta` table.

use std::time::Duration;

use engine::{KeptAddress, Seq, UnixMs};
use mysql::prelude::Queryable;
use ring::rand::{SecureRandom, SystemRandom};

use super::MySqlLedger;
use crate::clock::Notes;
use crate::ledger::mysql::entries::ADDRESS_IS_OVER;
use crate::ledger::mysql::outgoing::store_endpoints;
use crate::ledger::rows::{CONFIRMED_SINCE, NOTED_AT, int, kept_address};
use crate::ledger::{AppendError, EndpointChange, EndpointProgress};

impl MySqlLedger {
    /// The secret that order ids are made with: made once, kept in the ledger, shared by all its servers.
    ///
    /// # Errors
    /// If the ledger cannot be read or written.
    pub fn id_secret(&mut self) -> Result<[u8; 16], mysql::Error> {
        const QUERY: &str = "SELECT value FROM meta WHERE name = 'id_secret'";
        let connection = self.connected()?;
        let mut secret: Option<Vec<u8>> = connection.query_first(QUERY)?;
        if secret.is_none() {
            let mut made = [0; 16];
            SystemRandom::new().fill(&mut made).expect("the system gives entropy");
            // Two servers that start at once agree on the first one's.
            connection.exec_drop("INSERT IGNORE INTO meta VALUES ('id_secret', ?)", (&made[..],))?;
            secret = connection.query_first(QUERY)?;
        }
        let bytes = secret.unwrap_or_default();
        <[u8; 16]>::try_from(bytes).map_err(|bytes| mysql::Error::FromValueError(bytes.into()))
    }

    /// What was noted of the clock.
    ///
    /// # Errors
    /// If the ledger cannot be read.
    pub fn clock_notes(&mut self) -> Result<Notes, mysql::Error> {
        let connection = self.connected()?;
        let mut note = |name: &str| {
            let value = "SELECT CAST(value AS UNSIGNED) FROM meta WHERE name = ?";
            Ok::<_, mysql::Error>(connection.exec_first(value, (name,))?.map(UnixMs))
        };
        Ok(Notes { noted_at: note(NOTED_AT)?, confirmed_since: note(CONFIRMED_SINCE)? })
    }

    /// What an order has of an address.
    ///
    /// # Errors
    /// If the ledger cannot be read.
    pub fn kept_address(&mut self, order: Seq) -> Result<KeptAddress, mysql::Error> {
        let query = format!("SELECT o.address, {ADDRESS_IS_OVER} FROM orders AS o WHERE o.seq = ?");
        let found: Option<(Option<Vec<u8>>, bool)> = self.connected()?.exec_first(query, (int(order.0),))?;
        Ok(found.map_or(KeptAddress::Missing, |(address, over)| kept_address(address, over)))
    }

    /// Notes the clock, in place of what was noted before.
    ///
    /// # Errors
    /// As [`MySqlLedger::append`]; to do it again after an unknown outcome changes nothing.
    pub fn note_clock(&mut self, notes: &Notes) -> Result<(), AppendError> {
        let notes = [(CONFIRMED_SINCE, notes.confirmed_since), (NOTED_AT, notes.noted_at)];
        self.transaction(self.next_seq, UnixMs(self.last_at), Duration::ZERO, |statements| {
            for (name, at) in notes {
                if let Some(at) = at {
                    statements.push(format!("REPLACE INTO meta VALUES ('{name}', '{}')", int(at.0)));
                }
            }
        })
    }

    /// Stores how far endpoints have come, and what was changed of them since.
    ///
    /// # Errors
    /// As [`MySqlLedger::append`]; to do it again after an unknown outcome changes nothing.
    pub fn note_progress(
        &mut self,
        progress: &[(String, EndpointProgress)],
        changes: &[(String, EndpointChange)],
    ) -> Result<(), AppendError> {
        self.transaction(self.next_seq, UnixMs(self.last_at), Duration::ZERO, |script| {
            store_endpoints(script, progress, changes);
        })
    }

    /// Whether a demo may write here: its own ledger, or one that is still empty and becomes its own.
    ///
    /// # Errors
    /// If the ledger cannot be read or marked.
    pub fn is_for_demo(&mut self, empty: bool) -> Result<bool, mysql::Error> {
        let connection = self.connected()?;
        let marked: Option<u8> = connection.query_first("SELECT 1 FROM meta WHERE name = 'demo'")?;
        if marked.is_none() && empty {
            connection.query_drop("INSERT IGNORE INTO meta VALUES ('demo', '1')")?;
        }
        Ok(marked.is_some() || empty)
    }
}
