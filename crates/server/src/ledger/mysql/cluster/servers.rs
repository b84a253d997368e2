//! Which servers there are, and which of them reads which queue. Times are the database's.
//!
//! Each server asks every second or so: that keeps its queues, gives back what is over its share, and takes what
//! nobody reads. A queue changes hands with a new generation, which the consumer's transaction checks; so a server
//! that was away can't move a queue that another reads.

use std::collections::BTreeMap;

use mysql::prelude::Queryable;

use super::leases::{DB_NOW, STEP_MS_MAX, is_over};
use super::session::Failure;
use super::{LedgerError, SharedLedger};
use crate::ledger::mysql::sql::{Script, number, quoted, unsigned};
use crate::ledger::rows::int;

/// Milliseconds for which a server keeps a queue without asking again.
pub const QUEUE_LEASE_MS: u64 = 3_000;
/// Milliseconds for which a server counts as alive without a sign of life.
pub const ALIVE_MS: u64 = 5_000;
/// After which a server that is gone is forgotten.
const FORGET_MS: u64 = 24 * 3_600 * 1_000;

/// A queue that this server reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Assignment {
    pub queue: String,
    pub next_offset: u64,
    pub generation: u64,
}

#[derive(Clone, Debug)]
struct Row {
    queue: String,
    next_offset: u64,
    owner: u64,
    /// Its owner's time is over, or it has none.
    free: bool,
    generation: u64,
    changed: bool,
}

impl SharedLedger {
    /// Says that a server is alive; returns how many are, this one included. `server` is not 0, which is nobody.
    ///
    /// # Errors
    /// See [`LedgerError`].
    pub fn heartbeat(&mut self, server: u64, address: &str) -> Result<usize, LedgerError> {
        assert_ne!(server, 0, "0 is nobody");
        let server = server.cast_signed();
        let mut text = format!("INSERT INTO servers (id, address, alive_at) VALUES ({server}, ");
        quoted(&mut text, address);
        text.push_str(&format!(
            ", {DB_NOW}) ON DUPLICATE KEY UPDATE address = VALUES(address), alive_at = VALUES(alive_at)"
        ));
        self.attempt(|session, _| {
            session.check_format()?;
            session.connection.query_drop(&text)?;
            let count = format!(
                "SELECT COUNT(*) FROM servers WHERE alive_at BETWEEN {DB_NOW} - {ALIVE_MS} AND {DB_NOW} + {STEP_MS_MAX}"
            );
            let alive: Option<usize> = session.connection.query_first(count)?;
            Ok(alive.unwrap_or(0).max(1))
        })
    }

    /// A server that stops says so: its queues are free at once, and it counts no more.
    ///
    /// # Errors
    /// See [`LedgerError`].
    pub fn leave(&mut self, server: u64) -> Result<(), LedgerError> {
        let server = server.cast_signed();
        self.attempt(|session, _| {
            let mut script = Script::default();
            script
                .push(format!("UPDATE queue_offsets SET owner = 0, leased_until = 0 WHERE owner = {server}"));
            script.push(format!(
                "DELETE FROM servers WHERE id = {server} OR alive_at < {DB_NOW} - {FORGET_MS}"
            ));
            Ok(session.run(script, |_, _| Ok(()))?)
        })
    }

    /// Keeps and takes this server's share of the queues. `queues`: all that there are, each with the offset from
    /// which it is read if the ledger has never seen it. `alive`: from [`SharedLedger::heartbeat`].
    ///
    /// # Errors
    /// See [`LedgerError`].
    pub fn claim_queues(
        &mut self,
        server: u64,
        queues: &[(String, u64)],
        alive: usize,
    ) -> Result<Vec<Assignment>, LedgerError> {
        assert_ne!(server, 0, "0 is nobody");
        let share = queues.len().div_ceil(alive.max(1));
        self.attempt(|session, _| {
            let mut script = Script::default();
            let head = "INSERT IGNORE INTO queue_offsets (queue, next_offset, owner, leased_until, generation) VALUES ";
            script.rows(head, queues, "", |text, (queue, from)| {
                quoted(text, queue);
                number(text, format_args!(",{},0,0,0", int(*from)));
            });
            // These rows are the consumers' too: a server that is stopped here must not keep them waiting.
            script.push(session.begin());
            script.push("START TRANSACTION");
            session.run(script, |_, _| Ok(()))?;
            let rows: Vec<(String, i64, i64, bool, i64)> = session.connection.query(format!(
                "SELECT queue, next_offset, owner, owner = 0 OR {}, generation \
                 FROM queue_offsets ORDER BY queue FOR UPDATE",
                is_over(QUEUE_LEASE_MS)
            ))?;
            let mut rows: BTreeMap<String, Row> = rows
                .into_iter()
                .map(|(queue, next_offset, owner, free, generation)| {
                    let [next_offset, owner, generation] = [next_offset, owner, generation].map(unsigned);
                    let row =
                        Row { queue: queue.clone(), next_offset, owner, free, generation, changed: false };
                    (queue, row)
                })
                .collect();
            rows.retain(|queue, _| queues.iter().any(|(wanted, _)| wanted == queue));
            let mine = choose(&mut rows, server, share);
            let mut script = Script::default();
            for row in rows.values().filter(|row| row.owner == server || row.changed) {
                let until = if row.owner == server {
                    format!("{DB_NOW} + {QUEUE_LEASE_MS}")
                } else {
                    "0".to_owned()
                };
                let (owner, generation) = (row.owner.cast_signed(), int(row.generation));
                let mut text = format!(
                    "UPDATE queue_offsets SET owner = {owner}, generation = {generation}, \
                     leased_until = {until} WHERE queue = "
                );
                quoted(&mut text, &row.queue);
                script.push(text);
            }
            script.push("COMMIT");
            script.push(session.end());
            session.run(script, |_, _| Ok(()))?;
            Ok::<_, Failure>(mine)
        })
    }
}

/// Who reads what from now on: this server keeps what it has up to its share, gives the rest back, and takes what
/// is free.
fn choose(rows: &mut BTreeMap<String, Row>, server: u64, share: usize) -> Vec<Assignment> {
    let mut count = 0;
    for row in rows.values_mut().filter(|row| row.owner == server) {
        count += 1;
        if count > share {
            row.owner = 0;
            row.changed = true;
        }
    }
    count = count.min(share);
    for row in rows.values_mut().filter(|row| row.free && row.owner != server && !row.changed) {
        if count < share {
            count += 1;
            row.owner = server;
            row.generation += 1;
            row.changed = true;
        }
    }
    rows.values()
        .filter(|row| row.owner == server)
        .map(|row| Assignment {
            queue: row.queue.clone(),
            next_offset: row.next_offset,
            generation: row.generation,
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Owners by queue; `!` marks those whose time is over.
    fn check(owners: &[&str], server: u64, share: usize, after: &[u64]) {
        let row = |(index, owner): (usize, &&str)| {
            let number: u64 = owner.trim_end_matches('!').parse().unwrap();
            let queue = format!("a/{index}");
            let free = owner.ends_with('!') || number == 0;
            let row = Row {
                queue: queue.clone(),
                next_offset: 0,
                owner: number,
                free,
                generation: 5,
                changed: false,
            };
            (queue, row)
        };
        let mut rows: BTreeMap<String, Row> = owners.iter().enumerate().map(row).collect();
        let before = rows.clone();
        let mine = choose(&mut rows, server, share);
        assert_eq!(rows.values().map(|row| row.owner).collect::<Vec<_>>(), after, "{owners:?}");
        assert_eq!(mine.len(), after.iter().filter(|owner| **owner == server).count());
        for assignment in mine {
            let taken = before[&assignment.queue].owner != server;
            assert_eq!(assignment.generation, if taken { 6 } else { 5 });
        }
    }

    #[test]
    fn each_server_keeps_and_takes_its_share() {
        check(&["0", "0", "0", "0"], 7, 4, &[7, 7, 7, 7]);
        check(&["0", "0", "0", "0"], 7, 2, &[7, 7, 0, 0]);
        check(&["7", "7", "7", "7"], 7, 2, &[7, 7, 0, 0]);
        check(&["7", "8", "8", "7!"], 7, 2, &[7, 8, 8, 7]);
        check(&["8", "8!", "8", "8!"], 7, 2, &[8, 7, 8, 7]);
        check(&["8", "8", "8", "8"], 7, 2, &[8, 8, 8, 8]);
    }
}
