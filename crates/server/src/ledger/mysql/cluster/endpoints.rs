//! How far the shop's endpoints have come: stored by the server that has the lease, changed for operators by any.

use mysql::prelude::Queryable;

use super::leases::Lease;
use super::session::Failure;
use super::{LedgerError, SharedLedger};
use crate::ledger::mysql::outgoing::store_endpoints;
use crate::ledger::mysql::replay::last_seq;
use crate::ledger::mysql::sql::{Script, quoted, unsigned};
use crate::ledger::{EndpointChange, EndpointProgress};

impl SharedLedger {
    /// Endpoints that nobody has heard of yet are notified of what happens from now on.
    ///
    /// # Errors
    /// See [`LedgerError`].
    pub fn know_endpoints(&mut self, names: &[&str]) -> Result<(), LedgerError> {
        self.attempt(|session, _| {
            session.check_format()?;
            let connection = &mut session.connection;
            let last = last_seq(connection)?;
            for name in names {
                connection
                    .exec_drop("INSERT IGNORE INTO webhook_endpoints VALUES (?, ?, 0)", (name, last))?;
            }
            Ok(())
        })
    }

    /// Stores how far endpoints have come.
    ///
    /// # Errors
    /// See [`LedgerError`]; [`LedgerError::Fenced`] if the lease is another server's. To do it again changes nothing.
    pub fn note_progress(
        &mut self,
        lease: &Lease,
        progress: &[(String, EndpointProgress)],
    ) -> Result<(), LedgerError> {
        self.attempt(|session, parts| {
            let mut script = Script::default();
            script.extend(session.begin());
            script.push("START TRANSACTION");
            session.run(script, |_, _| Ok(()))?;
            let held: Option<(i64, i64)> = session.connection.query_first(lease.query())?;
            if !held.is_some_and(|(owner, generation)| lease.is(unsigned(owner), unsigned(generation))) {
                return Err(Failure::Fenced("the task of sending webhooks".to_owned()));
            }
            let mut script = Script::new(session.packet_bytes_max);
            store_endpoints(&mut script, progress, &[]);
            script.push("COMMIT");
            script.extend(session.end());
            *parts.committing = true;
            Ok(session.run(script, |_, _| Ok(()))?)
        })
    }

    /// Changes endpoints, and takes the lease of this name from whoever has it: the next holder goes on from what is
    /// stored now.
    ///
    /// # Errors
    /// See [`LedgerError`]. To do it again sends some events once more.
    pub fn change_endpoints(
        &mut self,
        lease: &str,
        changes: &[(String, EndpointChange)],
    ) -> Result<(), LedgerError> {
        self.attempt(|session, parts| {
            session.check_format()?;
            let mut take =
                "UPDATE leases SET owner = 0, leased_until = 0, generation = generation + 1 WHERE name = "
                    .to_owned();
            quoted(&mut take, lease);
            let mut script = Script::default();
            script.extend(session.begin());
            script.push("START TRANSACTION");
            script.push(take);
            store_endpoints(&mut script, &[], changes);
            script.push("COMMIT");
            script.extend(session.end());
            *parts.committing = true;
            Ok(session.run(script, |_, _| Ok(()))?)
        })
    }
}
