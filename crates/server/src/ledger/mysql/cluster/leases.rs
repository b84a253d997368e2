//! Leases: a task that one server at a time does, by the database's clock. The generation grows with every change of
//! hands, and every transaction of the holder checks it, so that a holder who was away writes nothing after another
//! has taken over.

use mysql::from_row_opt;
use mysql::prelude::Queryable;

use super::session::Failure;
use super::{LedgerError, SharedLedger};
use crate::ledger::mysql::migrate::FORMAT;
use crate::ledger::mysql::sql::{Script, quoted, unsigned};
use crate::ledger::rows::int;

/// Milliseconds since 1970 by the database's clock, at the start of the statement.
pub(super) const DB_NOW: &str = "CAST(UNIX_TIMESTAMP(NOW(3)) * 1000 AS SIGNED)";
/// How far that clock may step back without that a lease, or a sign of life, is known to be from before. Nobody holds one for
/// longer than it is given for.
pub(super) const STEP_MS_MAX: u64 = 1_000;
/// A task that is kept again and again is renewed when it would end so much sooner: each renewal is a commit.
const SOONER_MS_MAX: u64 = 250;

/// Whether a lease that is given for so many milliseconds is over: it has ended, or it is from before the database's clock
/// was set back, and its holder has not renewed it.
pub(super) fn is_over(ms: u64) -> String {
    format!("leased_until NOT BETWEEN {DB_NOW} AND {DB_NOW} + {}", ms + STEP_MS_MAX)
}

/// A task that this server does at the moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lease {
    pub name: String,
    pub owner: u64,
    pub generation: u64,
}

impl Lease {
    pub(super) fn is(&self, owner: u64, generation: u64) -> bool {
        (self.owner, self.generation) == (owner, generation)
    }

    /// The statement that reads who holds it, and keeps that so until the commit.
    pub(super) fn query(&self) -> String {
        let mut text = "SELECT owner, generation FROM leases WHERE name = ".to_owned();
        quoted(&mut text, &self.name);
        text.push_str(" LOCK IN SHARE MODE");
        text
    }
}

impl SharedLedger {
    /// Takes a task, or keeps it, for so many milliseconds from now, or at most `SOONER_MS_MAX` fewer; `None`: another server
    /// has it. Taking it over from a server whose time is over makes a new generation; keeping it does not.
    ///
    /// # Errors
    /// See [`LedgerError`].
    pub fn lease(&mut self, name: &str, owner: u64, ms: u64) -> Result<Option<Lease>, LedgerError> {
        let mut quoted_name = String::new();
        quoted(&mut quoted_name, name);
        let (over, at_least) = (is_over(ms), ms.saturating_sub(SOONER_MS_MAX));
        // Most looks find a task that another server has, or that was renewed just now: they lock and write nothing.
        let look = format!(
            "SELECT w.format, l.owner, l.generation, {over}, \
             leased_until BETWEEN {DB_NOW} + {at_least} AND {DB_NOW} + {ms} \
             FROM writer AS w LEFT JOIN leases AS l ON l.name = {quoted_name} WHERE w.id = 1"
        );
        let owner_number = owner.cast_signed();
        let take = format!(
            "UPDATE leases SET generation = generation + IF(owner = {owner_number}, 0, 1), \
             owner = {owner_number}, leased_until = {DB_NOW} + {ms} \
             WHERE name = {quoted_name} AND (owner = {owner_number} OR {over})"
        );
        let held = |(holder, generation): (i64, i64)| {
            let generation = unsigned(generation);
            (unsigned(holder) == owner).then(|| Lease { name: name.to_owned(), owner, generation })
        };
        self.attempt(|session, _| {
            type Found = (i64, Option<i64>, Option<i64>, Option<bool>, Option<bool>);
            let found: Option<Found> = session.connection.query_first(&look)?;
            // As `check_format`.
            let Some((FORMAT, holder, generation, has_ended, is_fresh)) = found else {
                return Err(Failure::Format(found.map_or(0, |(format, ..)| format)));
            };
            let known = holder.zip(generation);
            if let Some((holder, generation)) = known {
                let stays =
                    if holder == owner_number { is_fresh == Some(true) } else { has_ended == Some(false) };
                if stays {
                    return Ok(held((holder, generation)));
                }
            }
            let mut script = Script::default();
            if known.is_none() {
                script.push(format!("INSERT IGNORE INTO leases VALUES ({quoted_name}, 0, 0, 0)"));
            }
            script.push(&take);
            script.push(format!("SELECT owner, generation FROM leases WHERE name = {quoted_name}"));
            let mut row = None;
            session.run(script, |_, found| {
                row = Some(found);
                Ok(())
            })?;
            let row: Option<(i64, i64)> = row.map(from_row_opt).transpose()?;
            Ok(row.and_then(&held))
        })
    }

    /// Gives a task back, so that another server need not wait for its time to be over. One that was taken over
    /// is left alone.
    ///
    /// # Errors
    /// See [`LedgerError`].
    pub fn release(&mut self, lease: &Lease) -> Result<(), LedgerError> {
        let mut name = String::new();
        quoted(&mut name, &lease.name);
        self.attempt(|session, _| {
            let (owner, generation) = (lease.owner.cast_signed(), int(lease.generation));
            Ok(session.connection.query_drop(format!(
                "UPDATE leases SET owner = 0, leased_until = 0 \
                 WHERE name = {name} AND owner = {owner} AND generation = {generation}"
            ))?)
        })
    }

    /// From now on every transaction of this connection that appends is refused as [`LedgerError::Fenced`] once
    /// the task belongs to another server.
    pub fn fence_with(&mut self, lease: Option<Lease>) {
        self.lease = lease;
    }
}
