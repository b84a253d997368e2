//! Which servers there are, and which of them reads which queue. Times are the database's.
//!
//! Each server asks every second or so, of the queues that it reaches: that keeps its own, takes those that nobody
//! reads, and some of whoever reads more. So each queue that any server reaches is read, and they are shared evenly. A
//! queue changes hands with a new generation, which the consumer's transaction checks; so a server that was away, or has
//! not heard of it yet, can't move a queue that another reads.

use std::collections::BTreeMap;

use mysql::from_row_opt;
use mysql::prelude::Queryable;

use super::leases::{DB_NOW, is_over};
use super::session::Failure;
use super::{LedgerError, SharedLedger};
use crate::ledger::mysql::sql::{Script, number, quoted, unsigned};
use crate::ledger::rows::int;

/// Milliseconds for which a server keeps a queue without asking again.
pub const QUEUE_LEASE_MS: u64 = 3_000;
/// After which a server that is gone is forgotten.
const FORGET_MS: u64 = 24 * 3_600 * 1_000;

/// A queue that this server reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Assignment {
    pub queue: String,
    pub next_offset: u64,
    pub generation: u64,
}

/// A queue as it is shared among servers.
#[derive(Clone, Debug)]
pub struct Share {
    pub queue: String,
    pub next_offset: u64,
    /// 0: nobody.
    pub owner: u64,
    /// Its owner's time is over, or it has none.
    pub free: bool,
    pub generation: u64,
    /// Read by this server from now on.
    pub mine: bool,
}

impl SharedLedger {
    /// Says that a server is alive. `server` is not 0, which is nobody.
    ///
    /// # Errors
    /// See [`LedgerError`].
    pub fn heartbeat(&mut self, server: u64, address: &str) -> Result<(), LedgerError> {
        assert_ne!(server, 0, "0 is nobody");
        let server = server.cast_signed();
        let mut text = format!("INSERT INTO servers (id, address, alive_at) VALUES ({server}, ");
        quoted(&mut text, address);
        text.push_str(&format!(
            ", {DB_NOW}) ON DUPLICATE KEY UPDATE address = VALUES(address), alive_at = VALUES(alive_at)"
        ));
        self.attempt(|session, _| {
            session.check_format()?;
            Ok(session.connection.query_drop(&text)?)
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

    /// Keeps and takes this server's share of the queues. `queues`: all that it reaches, each with the offset from
    /// which it is read if the ledger has never seen it.
    ///
    /// # Errors
    /// See [`LedgerError`].
    pub fn lease_queues(
        &mut self,
        server: u64,
        queues: &[(String, u64)],
    ) -> Result<Vec<Assignment>, LedgerError> {
        assert_ne!(server, 0, "0 is nobody");
        self.attempt(|session, _| {
            let mut script = Script::default();
            let head = "INSERT IGNORE INTO queue_offsets (queue, next_offset, owner, leased_until, generation) VALUES ";
            script.rows(head, queues, "", |text, (queue, from)| {
                quoted(text, queue);
                number(text, format_args!(",{},0,0,0", int(*from)));
            });
            // These rows are the consumers' too: a server that is stopped here must not keep them waiting.
            script.extend(session.begin());
            script.push("START TRANSACTION");
            script.push(format!(
                "SELECT queue, next_offset, owner, owner = 0 OR {}, generation \
                 FROM queue_offsets ORDER BY queue FOR UPDATE",
                is_over(QUEUE_LEASE_MS)
            ));
            let mut found = Vec::new();
            session.run(script, |_, row| {
                found.push(row);
                Ok(())
            })?;
            let mut rows: BTreeMap<String, Share> = BTreeMap::new();
            for row in found {
                type Columns = (String, i64, i64, bool, i64);
                let (queue, next_offset, owner, free, generation): Columns = from_row_opt(row)?;
                let [next_offset, owner, generation] = [next_offset, owner, generation].map(unsigned);
                let share = Share { queue: queue.clone(), next_offset, owner, free, generation, mine: false };
                rows.insert(queue, share);
            }
            let mine = share_queues(&mut rows, server, |queue| queues.iter().any(|(reached, _)| reached == queue));
            let mut script = Script::default();
            for row in rows.values().filter(|row| row.mine) {
                let until = format!("{DB_NOW} + {QUEUE_LEASE_MS}");
                let (owner, generation) = (row.owner.cast_signed(), int(row.generation));
                let mut text = format!(
                    "UPDATE queue_offsets SET owner = {owner}, generation = {generation}, \
                     leased_until = {until} WHERE queue = "
                );
                quoted(&mut text, &row.queue);
                script.push(text);
            }
            script.push("COMMIT");
            script.extend(session.end());
            session.run(script, |_, _| Ok(()))?;
            Ok::<_, Failure>(mine)
        })
    }
}

/// What this server reads from now on: what it has, what is free, and as many of whoever has most as make them even.
/// Only what it reaches, so what nobody else reaches stays with whoever does.
pub fn share_queues(
    rows: &mut BTreeMap<String, Share>,
    server: u64,
    reaches: impl Fn(&str) -> bool,
) -> Vec<Assignment> {
    let mut counts: BTreeMap<u64, usize> = BTreeMap::new();
    for row in rows.values_mut() {
        row.mine = (row.owner == server || row.free) && reaches(&row.queue);
        if row.mine {
            *counts.entry(server).or_default() += 1;
        } else if !row.free && row.owner != server {
            *counts.entry(row.owner).or_default() += 1;
        }
    }
    loop {
        let own = counts.get(&server).copied().unwrap_or_default();
        let others = rows.values_mut().filter(|row| !row.mine && row.owner != server && reaches(&row.queue));
        let Some(row) =
            others.max_by_key(|row| counts[&row.owner]).filter(|row| counts[&row.owner] > own + 1)
        else {
            break;
        };
        row.mine = true;
        *counts.get_mut(&row.owner).expect("it has this one") -= 1;
        *counts.entry(server).or_default() += 1;
    }
    let mine = rows.values_mut().filter(|row| row.mine);
    mine.map(|row| {
        if row.owner != server {
            row.owner = server;
            row.generation += 1;
        }
        Assignment { queue: row.queue.clone(), next_offset: row.next_offset, generation: row.generation }
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// By queue, the owner, or 0; `!`: the owner's time is over.
    fn rows(owners: &[&str]) -> BTreeMap<String, Share> {
        let row = |(index, owner): (usize, &&str)| {
            let number: u64 = owner.trim_end_matches('!').parse().unwrap();
            let queue = format!("a/{index:02}");
            let free = owner.ends_with('!') || number == 0;
            (queue.clone(), Share { queue, next_offset: 0, owner: number, free, generation: 5, mine: false })
        };
        owners.iter().enumerate().map(row).collect()
    }

    fn owners(rows: &BTreeMap<String, Share>) -> Vec<u64> {
        rows.values().map(|row| row.owner).collect()
    }

    #[track_caller]
    fn check(before: &[&str], reached: &[usize], after: &[u64]) {
        let before = rows(before);
        let mut now = before.clone();
        let mine =
            share_queues(&mut now, 7, |queue| reached.iter().any(|index| queue == format!("a/{index:02}")));
        assert_eq!(owners(&now), after, "{before:?}");
        assert_eq!(mine.len(), now.values().filter(|row| row.mine).count());
        for assignment in mine {
            let taken = before[&assignment.queue].owner != 7;
            assert_eq!(assignment.generation, if taken { 6 } else { 5 });
        }
    }

    #[test]
    fn a_server_takes_what_is_free_and_of_whoever_has_more() {
        let all = [0, 1, 2, 3];
        check(&["0", "0", "0", "0"], &all, &[7, 7, 7, 7]);
        check(&["7", "7", "7", "7"], &all, &[7, 7, 7, 7]);
        check(&["8", "8", "8", "8"], &all, &[8, 8, 7, 7]);
        check(&["7", "8", "8", "7!"], &all, &[7, 8, 8, 7]);
        check(&["8", "8!", "8", "8!"], &all, &[8, 7, 8, 7]);
        check(&["7", "8", "8", "9"], &all, &[7, 8, 8, 9]);
    }

    #[test]
    fn a_server_takes_only_what_it_reaches() {
        check(&["0", "0", "0", "0"], &[0, 1], &[7, 7, 0, 0]);
        check(&["8", "8", "8", "8"], &[0], &[7, 8, 8, 8]);
        check(&["7", "7", "8", "8!"], &[2], &[7, 7, 8, 8]);
        check(&["8", "8", "8", "8"], &[], &[8, 8, 8, 8]);
    }

    /// Of servers of which each reaches other queues: whoever asks when, soon none changes hands any more, each that is
    /// reached is read, and nobody could take one of somebody who has two more.
    #[test]
    fn every_queue_that_is_reached_is_read_and_they_come_to_rest() {
        let mut random = 1_u64;
        let mut next = |below: u64| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (random >> 33) % below
        };
        for _case in 0..2_000 {
            let (servers, queues) = (1 + next(5), 1 + next(12));
            let reach: Vec<Vec<bool>> =
                (0..servers).map(|_| (0..queues).map(|_| next(3) > 0).collect()).collect();
            let mut rows = rows(&vec!["0"; usize::try_from(queues).unwrap()]);
            let index = |queue: &str| queue[2..].parse::<usize>().unwrap();
            let ask = |rows: &mut BTreeMap<String, Share>, server: u64| {
                let reached = &reach[usize::try_from(server - 1).unwrap()];
                share_queues(rows, server, |queue| reached[index(queue)]);
                rows.values_mut().for_each(|row| row.free = row.owner == 0);
            };
            for _turn in 0..servers {
                ask(&mut rows, 1 + next(servers));
            }
            // Each that changes hands makes them more even, so there are never many.
            let mut at_rest = owners(&rows);
            for round in 0.. {
                (1..=servers).for_each(|server| ask(&mut rows, server));
                let before = std::mem::replace(&mut at_rest, owners(&rows));
                if at_rest == before {
                    break;
                }
                assert!(round < 50, "{reach:?}");
            }
            for (queue, owner) in at_rest.iter().enumerate() {
                let is_reached = reach.iter().any(|of_server| of_server[queue]);
                assert_eq!(*owner != 0, is_reached, "queue {queue} of {at_rest:?}: {reach:?}");
            }
        }
    }
}
