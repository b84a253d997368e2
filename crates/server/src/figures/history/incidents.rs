//! Times in which the verdict was not green, each from its first second to the first that was judged otherwise; and those in
//! which the server did not run, or stood still.
//!
//! Must not: judge; a verdict is taken as it was given.

use std::collections::{BTreeMap, VecDeque};

use rusqlite::{Connection, Result, params};
use serde::Serialize;

use super::Taken;
use crate::figures::verdict::{Level, grouped};

/// The newest that are kept.
pub(super) const INCIDENTS_MAX: i64 = 10_000;
/// The newest that are shown at once.
const SHOWN_MAX: i64 = 100;
/// What is so again so soon goes on: a verdict that goes to and fro is one incident. One that says that no order is taken
/// does not: its time is read as that in which the shop was down, and between the two it was not.
const AGAIN_MS: i64 = 60_000;
/// Changes that wait for room on the disk.
const WAITING_MAX: usize = 100;

const RESTARTED: &str = "The server was started again.";

pub(super) const TABLE: &str = "CREATE TABLE IF NOT EXISTS incidents (incident INTEGER PRIMARY KEY, \
    began_ms INTEGER NOT NULL, ended_ms INTEGER, level TEXT NOT NULL, code TEXT NOT NULL, says TEXT NOT NULL);";

/// The verdict of one second.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::figures) struct SecondVerdict {
    pub(in crate::figures) level: Level,
    pub(in crate::figures) code: &'static str,
    pub(in crate::figures) says: String,
    /// What distinguishes two of one code.
    pub(in crate::figures) cause: Option<&'static str>,
    /// No order is taken.
    pub(in crate::figures) no_orders: bool,
}

type Kind = (Level, &'static str, Option<&'static str>);

impl SecondVerdict {
    fn kind(&self) -> Kind {
        (self.level, self.code, self.cause)
    }

    fn incident(&self, (began_ms, ended_ms): (i64, Option<i64>)) -> Incident {
        let (level, code, says) = (self.level.as_str().to_owned(), self.code.to_owned(), self.says.clone());
        Incident { began_ms, ended_ms, level, code, says }
    }
}

/// A time in which the verdict was amber or red, and the same; or, as `restarted`, in which the server did not run, or, as
/// `stood_still`, did nothing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Incident {
    pub began_ms: i64,
    /// `None`: it goes on, or the server was killed and not started again.
    pub ended_ms: Option<i64>,
    pub level: String,
    pub code: String,
    /// As it was said first.
    pub says: String,
}

/// What changed since it was written last.
#[derive(Debug)]
pub(super) struct Changes {
    /// The last of each kind. None from before the start goes on.
    last: BTreeMap<Kind, i64>,
    /// The verdict's, if it was not green.
    now: Option<Kind>,
    waiting: VecDeque<(i64, Option<SecondVerdict>)>,
    /// From and to: when the server stood still.
    still: VecDeque<(i64, i64)>,
}

impl Changes {
    /// From a start on. What a kill left open ended with the last second that is kept.
    pub(super) fn begin(connection: &Connection) -> Result<Changes> {
        end(connection)?;
        Ok(Changes { last: BTreeMap::new(), now: None, waiting: VecDeque::new(), still: VecDeque::new() })
    }

    /// What is to note of a second.
    pub(super) fn take(&mut self, taken: &Taken) {
        if taken.stood_still && self.still.len() < WAITING_MAX {
            let began_ms = taken.at_ms.saturating_sub(taken.passed_ms).saturating_add(1_000);
            self.still.push_back((began_ms.min(taken.at_ms), taken.at_ms));
        }
        self.note(taken.at_ms, &taken.judged);
    }

    pub(super) fn note(&mut self, at_ms: i64, judged: &SecondVerdict) {
        let now = (judged.level != Level::Green).then(|| judged.kind());
        // What finds no room is noted when there is some, as far as it is still so.
        if now != self.now && self.waiting.len() < WAITING_MAX {
            self.now = now;
            self.waiting.push_back((at_ms, now.map(|_| judged.clone())));
        }
    }

    /// To those that are written and were in a time, what waits: their ends, and later ones.
    pub(super) fn add_to(&self, mut incidents: Vec<Incident>, (from_ms, to_ms): (i64, i64)) -> Vec<Incident> {
        for (at_ms, judged) in &self.waiting {
            for open in incidents.iter_mut().filter(|incident| incident.ended_ms.is_none()) {
                open.ended_ms = Some(open.began_ms.max(*at_ms));
            }
            incidents.extend(judged.as_ref().map(|judged| judged.incident((*at_ms, None))));
        }
        if !self.still.is_empty() {
            incidents
                .extend(self.still.iter().map(|time| stood_still(*time).incident((time.0, Some(time.1)))));
            incidents.sort_by_key(|incident| incident.began_ms);
        }
        let is_in = |it: &Incident| it.began_ms < to_ms && it.ended_ms.is_none_or(|ended| ended >= from_ms);
        incidents.retain(is_in);
        incidents
    }

    pub(super) fn write(&mut self, connection: &Connection) -> Result<()> {
        for time in std::mem::take(&mut self.still) {
            keep(connection, (time.0, Some(time.1)), &stood_still(time))?;
        }
        for (at_ms, judged) in std::mem::take(&mut self.waiting) {
            connection
                .prepare_cached("UPDATE incidents SET ended_ms = max(began_ms, ?1) WHERE ended_ms IS NULL")?
                .execute([at_ms])?;
            if let Some(judged) = judged {
                self.insert(connection, at_ms, &judged)?;
            }
        }
        Ok(())
    }

    fn insert(&mut self, connection: &Connection, at_ms: i64, judged: &SecondVerdict) -> Result<()> {
        let last = self.last.get(&judged.kind()).filter(|_| !judged.no_orders);
        // A number whose row a full disk took back may be another one's by now.
        let goes_on = "UPDATE incidents SET ended_ms = NULL WHERE incident = ?1 AND level = ?2 AND code = ?3 \
                       AND began_ms <= ?4 AND ended_ms BETWEEN ?5 AND ?4";
        let soon = at_ms.saturating_sub(AGAIN_MS);
        let goes_on =
            connection.execute(goes_on, params![last, judged.level.as_str(), judged.code, at_ms, soon])?;
        if goes_on == 0 {
            keep(connection, (at_ms, None), judged)?;
            self.last.insert(judged.kind(), connection.last_insert_rowid());
        }
        Ok(())
    }
}

fn stood_still((began_ms, ended_ms): (i64, i64)) -> SecondVerdict {
    let seconds = grouped((ended_ms - began_ms).unsigned_abs() / 1_000);
    let says = format!("The server stood still for {seconds} s: nothing is known of that time.");
    SecondVerdict { level: Level::Amber, code: "stood_still", says, cause: None, no_orders: false }
}

fn keep(
    connection: &Connection,
    (began_ms, ended_ms): (i64, Option<i64>),
    judged: &SecondVerdict,
) -> Result<()> {
    let SecondVerdict { level, code, says, .. } = judged;
    connection.execute(
        "INSERT INTO incidents (began_ms, ended_ms, level, code, says) VALUES (?1, ?2, ?3, ?4, ?5)",
        params![began_ms, ended_ms, level.as_str(), code, says],
    )?;
    connection.execute(
        "DELETE FROM incidents WHERE incident <= (SELECT max(incident) FROM incidents) - ?1",
        [INCIDENTS_MAX],
    )?;
    Ok(())
}

/// What the time between the last second on file and the first after a start was, if there is one.
pub(super) fn note_start(connection: &Connection, at_ms: i64) -> Result<()> {
    let last = "SELECT max(at_ms) FROM (SELECT max(at_ms) AS at_ms FROM seconds UNION ALL SELECT max(at_ms) FROM minutes)";
    let Some(last): Option<i64> = connection.query_row(last, [], |row| row.get(0))? else { return Ok(()) };
    let began = last.saturating_add(1_000).min(at_ms);
    let says = match (at_ms - began) / 1_000 {
        0 => RESTARTED.to_owned(),
        seconds => {
            format!("{RESTARTED} Nothing is known of the {} s before.", grouped(seconds.unsigned_abs()))
        }
    };
    let restarted =
        SecondVerdict { level: Level::Amber, code: "restarted", says, cause: None, no_orders: false };
    keep(connection, (began, Some(at_ms)), &restarted)
}

/// What nobody follows any more ended with the last second that is kept.
pub(super) fn end(connection: &Connection) -> Result<usize> {
    connection.execute(
        "UPDATE incidents SET ended_ms = max(began_ms, coalesce((SELECT max(at_ms) FROM seconds), began_ms)) \
         WHERE ended_ms IS NULL",
        [],
    )
}

/// The newest of those that were in a time, by time.
pub(super) fn read(connection: &Connection, time: (i64, i64)) -> Result<Vec<Incident>> {
    newest(connection, time, SHOWN_MAX)
}

/// All of them.
pub(super) fn read_all(connection: &Connection, time: (i64, i64)) -> Result<Vec<Incident>> {
    newest(connection, time, INCIDENTS_MAX)
}

fn newest(connection: &Connection, (from_ms, to_ms): (i64, i64), max: i64) -> Result<Vec<Incident>> {
    let query = "SELECT began_ms, ended_ms, level, code, says FROM incidents \
                 WHERE began_ms < ?2 AND (ended_ms IS NULL OR ended_ms >= ?1) ORDER BY incident DESC LIMIT ?3";
    let mut newest = connection.prepare(query)?;
    let newest = newest.query_map(params![from_ms, to_ms, max], |row| {
        Ok(Incident {
            began_ms: row.get(0)?,
            ended_ms: row.get(1)?,
            level: row.get(2)?,
            code: row.get(3)?,
            says: row.get(4)?,
        })
    })?;
    let mut newest = newest.collect::<Result<Vec<_>>>()?;
    newest.reverse();
    newest.sort_by_key(|incident| incident.began_ms);
    Ok(newest)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Judged in each of these seconds; from, to and cause of what is kept.
    fn kept(judged: &[(i64, bool, Option<&'static str>)]) -> Vec<(i64, Option<i64>, String)> {
        let connection = Connection::open_in_memory().unwrap();
        connection
            .execute_batch(&format!("{TABLE} CREATE TABLE seconds (at_ms INTEGER PRIMARY KEY);"))
            .unwrap();
        let mut changes = Changes::begin(&connection).unwrap();
        for (at_s, no_orders, cause) in judged {
            let (level, code) = if *no_orders { (Level::Red, "not_ready") } else { (Level::Amber, "away") };
            let level = cause.map_or(Level::Green, |_| level);
            let says = cause.unwrap_or_default().to_owned();
            let judged = SecondVerdict { level, code, says, cause: *cause, no_orders: *no_orders };
            changes.note(at_s * 1_000, &judged);
            changes.write(&connection).unwrap();
        }
        let found = read(&connection, (0, i64::MAX)).unwrap().into_iter();
        found.map(|it| (it.began_ms / 1_000, it.ended_ms.map(|ended| ended / 1_000), it.says)).collect()
    }

    fn is(began: i64, ended: Option<i64>, says: &str) -> (i64, Option<i64>, String) {
        (began, ended, says.to_owned())
    }

    /// Redis was away, then the broker: it was one incident, and the broker was never named.
    #[test]
    fn another_cause_is_another_incident() {
        let (redis, broker) = (Some("Redis"), Some("RocketMQ"));
        let apart = kept(&[(0, true, redis), (25, false, None), (49, true, broker), (76, false, None)]);
        assert_eq!(apart, [is(0, Some(25), "Redis"), is(49, Some(76), "RocketMQ")]);
        let at_once = kept(&[(0, true, redis), (25, true, broker), (76, false, None)]);
        assert_eq!(at_once, [is(0, Some(25), "Redis"), is(25, Some(76), "RocketMQ")]);
        // To and fro, each goes on.
        let to_and_fro =
            kept(&[(0, false, redis), (10, false, broker), (20, false, redis), (30, false, broker)]);
        assert_eq!(to_and_fro, [is(0, Some(30), "Redis"), is(10, None, "RocketMQ")]);
    }

    #[test]
    fn seconds_in_which_orders_were_taken_are_in_no_incident_that_says_that_none_is() {
        let redis = Some("Redis");
        let seconds = |no_orders| [(0, no_orders, redis), (5, no_orders, None), (40, no_orders, redis)];
        assert_eq!(kept(&seconds(true)), [is(0, Some(5), "Redis"), is(40, None, "Redis")]);
        assert_eq!(kept(&seconds(false)), [is(0, None, "Redis")], "it goes on within a minute");
    }
}
