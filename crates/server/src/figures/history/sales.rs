//! What became of the orders of each sale, and how long their answers took, minute by minute.
//!
//! Must not: know an item.

use rusqlite::{Connection, OptionalExtension, Result, params};
use serde::Serialize;

use super::{MINUTE_MS, whole};
use crate::figures::sample::Took;
use crate::intake::OUTCOMES;
use crate::metrics::Counts;

/// Rows of all minutes, the newest: twenty sales that sell for a week.
pub(super) const ROWS_MAX: i64 = 200_000;
/// Rows that are removed at a time because of their age.
const AGED_ROWS_MAX: u32 = 1_000;

/// `took` has the counts of times as JSON: a percentile of several minutes is one of all their orders.
pub(super) const TABLE: &str = "CREATE TABLE IF NOT EXISTS sales (number INTEGER PRIMARY KEY, at_ms INTEGER NOT NULL, \
    sale INTEGER NOT NULL, accepted REAL NOT NULL, replayed REAL NOT NULL, refused REAL NOT NULL, busy REAL NOT NULL, \
    unknown REAL NOT NULL, took TEXT NOT NULL, UNIQUE (at_ms, sale));";

/// Orders of a sale in one second.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::figures) struct SaleOrders {
    pub(in crate::figures) sale: i64,
    /// By [`crate::intake::RequestOutcome`].
    pub(in crate::figures) orders: [f64; OUTCOMES],
    pub(in crate::figures) took: Counts,
}

/// Orders of a sale, of the whole minutes in which it sold; from rates, so about so many.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct SaleKept {
    /// Minutes in which there were orders.
    pub minutes: u64,
    pub accepted: u64,
    pub replayed: u64,
    pub refused: u64,
    pub busy: u64,
    pub unknown: u64,
    /// Of all orders together; `None`: there were none.
    pub order_p50_ms: Option<f64>,
    pub order_p99_ms: Option<f64>,
}

/// Adds those of one second to their minute.
pub(super) fn add(connection: &Connection, minute_ms: i64, sales: &[SaleOrders]) -> Result<()> {
    let mut before = connection.prepare_cached("SELECT took FROM sales WHERE at_ms = ?1 AND sale = ?2")?;
    let mut upsert = connection.prepare_cached(
        "INSERT INTO sales (at_ms, sale, accepted, replayed, refused, busy, unknown, took) \
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8) ON CONFLICT (at_ms, sale) DO UPDATE SET \
         accepted = accepted + excluded.accepted, replayed = replayed + excluded.replayed, \
         refused = refused + excluded.refused, busy = busy + excluded.busy, unknown = unknown + excluded.unknown, \
         took = excluded.took",
    )?;
    for SaleOrders { sale, orders: [accepted, replayed, refused, busy, unknown], took } in sales {
        let before: Option<String> =
            before.query_row(params![minute_ms, sale], |row| row.get(0)).optional()?;
        let took = took.and(&before.map(|before| counts(&before)).unwrap_or_default());
        let took = serde_json::to_string(&took).expect("all of it is plain");
        upsert.execute(params![minute_ms, sale, accepted, replayed, refused, busy, unknown, took])?;
    }
    Ok(())
}

/// Adds all that was kept elsewhere.
pub(super) fn take_in(connection: &Connection, from: &Connection) -> Result<()> {
    let mut kept =
        from.prepare("SELECT accepted, replayed, refused, busy, unknown, took, at_ms, sale FROM sales")?;
    let mut rows = kept.query([])?;
    while let Some(row) = rows.next()? {
        let mut orders = [0.0; OUTCOMES];
        for (place, sum) in orders.iter_mut().enumerate() {
            *sum = row.get(place)?;
        }
        let took = counts(&row.get::<_, String>(OUTCOMES)?);
        add(
            connection,
            row.get(OUTCOMES + 1)?,
            &[SaleOrders { sale: row.get(OUTCOMES + 2)?, orders, took }],
        )?;
    }
    Ok(())
}

/// Removes what is too much, and what is from before a time.
pub(super) fn prune(connection: &Connection, before_ms: i64) -> Result<()> {
    connection
        .execute("DELETE FROM sales WHERE number <= (SELECT max(number) FROM sales) - ?1", [ROWS_MAX])?;
    connection.execute(
        "DELETE FROM sales WHERE number IN (SELECT number FROM sales ORDER BY number LIMIT ?1) AND at_ms < ?2",
        params![AGED_ROWS_MAX, before_ms],
    )?;
    Ok(())
}

/// Of a sale, in minutes that begin in a time.
pub(super) fn read(connection: &Connection, sale: i64, (from_ms, to_ms): (i64, i64)) -> Result<SaleKept> {
    let from_ms = from_ms - from_ms.rem_euclid(MINUTE_MS);
    let mut rows = connection.prepare(
        "SELECT accepted, replayed, refused, busy, unknown, took FROM sales \
         WHERE at_ms >= ?1 AND at_ms < ?2 AND sale = ?3",
    )?;
    let mut rows = rows.query(params![from_ms, to_ms, sale])?;
    let (mut minutes, mut orders, mut took) = (0, [0.0; OUTCOMES], Counts::default());
    while let Some(row) = rows.next()? {
        minutes += 1;
        for (place, sum) in orders.iter_mut().enumerate() {
            *sum += row.get::<_, f64>(place)?;
        }
        took = took.and(&counts(&row.get::<_, String>(OUTCOMES)?));
    }
    let [accepted, replayed, refused, busy, unknown] = orders.map(whole);
    let took = Took::of(&took);
    let (order_p50_ms, order_p99_ms) = (took.map(|took| took.p50_ms), took.map(|took| took.p99_ms));
    Ok(SaleKept { minutes, accepted, replayed, refused, busy, unknown, order_p50_ms, order_p99_ms })
}

/// What can't be read is none.
fn counts(written: &str) -> Counts {
    serde_json::from_str(written).unwrap_or_default()
}
