//! Why orders were refused, by sale and item, minute by minute.
//!
//! Must not: know a buyer.

use std::collections::BTreeMap;

use rusqlite::{Connection, Result, params};
use serde::Serialize;

use super::whole;
use crate::intake::REFUSALS;

/// Rows of a minute, whatever is refused in it; what finds no room is not kept.
pub(super) const ROWS_PER_MINUTE_MAX: i64 = 500;
/// Of those, rows of items; what finds no room is the sale's alone.
pub(super) const ITEM_ROWS_PER_MINUTE_MAX: i64 = 200;
/// Rows of all minutes, the newest.
pub(super) const ROWS_MAX: i64 = 1_000_000;
/// Rows that are removed at a time because of their age.
const AGED_ROWS_MAX: u32 = 1_000;
/// In the place of a product: of items that are not shown one by one.
const OTHERS: i64 = -1;
/// What a server of another version may refuse with.
const OTHER_CODE: &str = "other";

pub(super) const TABLE: &str = "CREATE TABLE IF NOT EXISTS refusals (number INTEGER PRIMARY KEY, at_ms INTEGER NOT NULL, \
    sale INTEGER NOT NULL, product INTEGER NOT NULL, code TEXT NOT NULL, orders REAL NOT NULL, \
    UNIQUE (at_ms, sale, product, code));";

/// Orders of one second that were refused for one reason.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(in crate::figures) struct Refused {
    pub(in crate::figures) sale: i64,
    /// `None`: an item that is not shown by itself.
    pub(in crate::figures) product: Option<i64>,
    pub(in crate::figures) code: &'static str,
    pub(in crate::figures) orders: f64,
}

impl Refused {
    /// A code of [`REFUSALS`]: there are no more reasons than those.
    pub(in crate::figures) fn known(code: &str) -> &'static str {
        REFUSALS.iter().map(|refusal| refusal.code()).find(|known| *known == code).unwrap_or(OTHER_CODE)
    }
}

/// Orders that were refused from a time on, by reason.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RefusedAt {
    pub at_ms: i64,
    pub orders: BTreeMap<String, u64>,
}

/// Adds those of one second to their minute.
pub(super) fn add(connection: &Connection, minute_ms: i64, refused: &[Refused]) -> Result<()> {
    let mut row = connection.prepare_cached(
        "UPDATE refusals SET orders = orders + ?5 WHERE at_ms = ?1 AND sale = ?2 AND product = ?3 AND code = ?4",
    )?;
    let mut insert = connection.prepare_cached(
        "INSERT INTO refusals (at_ms, sale, product, code, orders) VALUES (?1, ?2, ?3, ?4, ?5)",
    )?;
    let mut counted = connection
        .prepare_cached("SELECT count(*), count(nullif(product, ?2)) FROM refusals WHERE at_ms = ?1")?;
    for Refused { sale, product, code, orders } in refused {
        let mut product = product.unwrap_or(OTHERS);
        if row.execute(params![minute_ms, sale, product, code, orders])? > 0 {
            continue;
        }
        let (rows, of_items): (i64, i64) =
            counted.query_row([minute_ms, OTHERS], |row| Ok((row.get(0)?, row.get(1)?)))?;
        if product != OTHERS && of_items >= ITEM_ROWS_PER_MINUTE_MAX {
            product = OTHERS;
            if row.execute(params![minute_ms, sale, product, code, orders])? > 0 {
                continue;
            }
        }
        if rows < ROWS_PER_MINUTE_MAX {
            insert.execute(params![minute_ms, sale, product, code, orders])?;
        }
    }
    Ok(())
}

/// Adds all that was kept elsewhere.
pub(super) fn take_in(connection: &Connection, from: &Connection) -> Result<()> {
    let mut kept = from.prepare("SELECT at_ms, sale, product, code, orders FROM refusals")?;
    let mut rows = kept.query([])?;
    while let Some(row) = rows.next()? {
        let code = Refused::known(&row.get::<_, String>(3)?);
        let refused = Refused { sale: row.get(1)?, product: row.get(2)?, code, orders: row.get(4)? };
        add(connection, row.get(0)?, &[refused])?;
    }
    Ok(())
}

/// Removes what is too much, and what is from before a time.
pub(super) fn prune(connection: &Connection, before_ms: i64) -> Result<()> {
    connection.execute(
        "DELETE FROM refusals WHERE number <= (SELECT max(number) FROM refusals) - ?1",
        [ROWS_MAX],
    )?;
    connection.execute(
        "DELETE FROM refusals WHERE number IN (SELECT number FROM refusals ORDER BY number LIMIT ?1) AND at_ms < ?2",
        params![AGED_ROWS_MAX, before_ms],
    )?;
    Ok(())
}

/// Of all sales, or of one, or of an item of it, in minutes that begin in a time; in at most so many steps from the first of them.
/// Also how long a step is. Each minute may be in several of the tables.
pub(super) fn read(
    tables: &[&Connection],
    (sale, product): (Option<i64>, Option<i64>),
    (from_ms, to_ms): (i64, i64),
    steps_max: i64,
) -> Result<(i64, Vec<RefusedAt>)> {
    const OF: &str = "FROM refusals WHERE at_ms >= ?1 AND at_ms < ?2 AND (?3 IS NULL OR sale = ?3) \
         AND (?4 IS NULL OR product = ?4)";
    let from_ms = from_ms - from_ms.rem_euclid(super::MINUTE_MS);
    let mut minutes = None;
    for table in tables {
        let span = format!("SELECT min(at_ms), max(at_ms) {OF}");
        let span = table.query_row(&span, params![from_ms, to_ms, sale, product], |row| {
            Ok(row.get::<_, Option<i64>>(0)?.zip(row.get::<_, Option<i64>>(1)?))
        })?;
        let wider = |(first, last): (i64, i64), (a, b): (i64, i64)| (first.min(a), last.max(b));
        minutes = minutes.into_iter().chain(span).reduce(wider);
    }
    let Some((first_ms, last_ms)) = minutes else { return Ok((super::MINUTE_MS, Vec::new())) };
    let minutes = (last_ms - first_ms) / super::MINUTE_MS + 1;
    let step_ms = (minutes + steps_max - 1) / steps_max * super::MINUTE_MS;
    let query = format!("SELECT (at_ms - ?5) / ?6, code, sum(orders) {OF} GROUP BY 1, 2");
    let mut steps: BTreeMap<i64, BTreeMap<String, f64>> = BTreeMap::new();
    for table in tables {
        let mut rows = table.prepare(&query)?;
        let mut rows = rows.query(params![from_ms, to_ms, sale, product, first_ms, step_ms])?;
        while let Some(row) = rows.next()? {
            let orders = steps.entry(row.get(0)?).or_default().entry(row.get(1)?).or_default();
            *orders += row.get::<_, f64>(2)?;
        }
    }
    let refused_at = |(step, orders): (i64, BTreeMap<String, f64>)| RefusedAt {
        at_ms: first_ms + step * step_ms,
        orders: orders.into_iter().map(|(code, orders)| (code, whole(orders))).collect(),
    };
    Ok((step_ms, steps.into_iter().map(refused_at).collect()))
}
