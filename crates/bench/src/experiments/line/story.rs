//! What became of a line, by the rows of its server's ledger, read with statements of our own. Must not: judge.

use std::path::Path;

use anyhow::{Context, bail};
use rusqlite::{Connection, OpenFlags, Row};
use serde::Deserialize;

/// Of the item that is sold to its line: the first that was created.
const SKU: u32 = 0;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Event {
    Moved(Borders),
    /// Somebody in this place was called.
    Opened(u32),
    /// Their turn ended without an order.
    Ended(u32),
    /// By a buyer, of one unit.
    Ordered(u64),
    Paid,
    /// Cancelled, or not paid in time.
    Lapsed,
    /// After it had lapsed.
    PaidLate,
    /// Units put on sale, or taken off.
    Adjusted(i64),
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
pub(super) struct Borders {
    pub(super) away_to: u32,
    pub(super) reached: u32,
    pub(super) sure_to: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) seq: u64,
    pub(super) at_ms: u64,
    pub(super) event: Event,
}

#[derive(Deserialize)]
struct OfSku {
    sku: u32,
}

#[derive(Deserialize)]
struct Turn {
    place: u32,
    ended: Option<String>,
}

/// All entries of the line and its item, in their order, but for those who joined.
pub(super) fn read(data_dir: &Path) -> anyhow::Result<Vec<Entry>> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let ledger = Connection::open_with_flags(data_dir.join("ledger.db"), flags).context("the ledger")?;
    let mut entries = Vec::new();
    let mut take =
        |sql: &str, event: &dyn Fn(&Row<'_>) -> anyhow::Result<Option<Event>>| -> anyhow::Result<()> {
            let mut statement = ledger.prepare(sql)?;
            let mut rows = statement.query([])?;
            while let Some(row) = rows.next()? {
                if let Some(event) = event(row).with_context(|| sql.to_owned())? {
                    entries.push(Entry { seq: unsigned(row, 0)?, at_ms: unsigned(row, 1)?, event });
                }
            }
            Ok(())
        };
    take(
        "SELECT seq, at, kind, body FROM further_entries WHERE kind IN ('line_moved', 'line_turn')",
        &|row| of_line(&row.get::<_, String>(2)?, &bytes(row, 3)?),
    )?;
    take(&format!("SELECT seq, at, buyer FROM orders WHERE sku = {SKU} AND quantity = 1"), &|row| {
        Ok(Some(Event::Ordered(unsigned(row, 2)?)))
    })?;
    let transitions = "SELECT t.seq, t.at, t.kind FROM transitions t JOIN orders o ON o.seq = t.order_seq";
    take(&format!("{transitions} WHERE o.sku = {SKU}"), &|row| match unsigned(row, 2)? {
        1 => Ok(Some(Event::Paid)),
        2 | 3 => Ok(Some(Event::Lapsed)),
        4 => Ok(Some(Event::PaidLate)),
        kind => bail!("an order has a transition of kind {kind}"),
    })?;
    take(&format!("SELECT seq, at, units FROM stock_adjustments WHERE sku = {SKU}"), &|row| {
        Ok(Some(Event::Adjusted(row.get(2)?)))
    })?;
    entries.sort_unstable_by_key(|entry| entry.seq);
    Ok(entries)
}

fn of_line(kind: &str, body: &[u8]) -> anyhow::Result<Option<Event>> {
    if serde_json::from_slice::<OfSku>(body)?.sku != SKU {
        return Ok(None);
    }
    if kind == "line_moved" {
        return Ok(Some(Event::Moved(serde_json::from_slice(body)?)));
    }
    let Turn { place, ended } = serde_json::from_slice(body)?;
    Ok(Some(if ended.is_some() { Event::Ended(place) } else { Event::Opened(place) }))
}

fn unsigned(row: &Row<'_>, column: usize) -> anyhow::Result<u64> {
    u64::try_from(row.get::<_, i64>(column)?).context("a number of the ledger is negative")
}

/// A body is a blob, or a text by the type of its value.
fn bytes(row: &Row<'_>, column: usize) -> anyhow::Result<Vec<u8>> {
    let value = row.get_ref(column)?;
    Ok(value.as_bytes().context("an entry of a line has a body")?.to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_come_in_their_order_and_of_the_line_alone() {
        let folder = tempfile::tempdir().unwrap();
        let ledger = Connection::open(folder.path().join("ledger.db")).unwrap();
        ledger
            .execute_batch(
                r#"CREATE TABLE further_entries (seq INTEGER PRIMARY KEY, at INTEGER, kind TEXT, body BLOB);
                CREATE TABLE orders (seq INTEGER PRIMARY KEY, at INTEGER, sku INTEGER, buyer ANY, quantity INTEGER);
                CREATE TABLE transitions (seq INTEGER PRIMARY KEY, at INTEGER, order_seq INTEGER, kind INTEGER);
                CREATE TABLE stock_adjustments (seq INTEGER PRIMARY KEY, at INTEGER, sku INTEGER, units INTEGER);
                INSERT INTO further_entries VALUES (1, 10, 'line_joined', '{"sku":0,"buyer":"7"}'),
                    (2, 20, 'line_moved', '{"sku":0,"away_to":0,"reached":1,"sure_to":3}'), (4, 30, 'line_turn', '{"sku":0,"place":1}'),
                    (3, 30, 'line_turn', '{"sku":1,"place":9}'), (8, 60, 'line_turn', '{"sku":0,"place":2,"ended":"given_back"}');
                INSERT INTO orders VALUES (5, 40, 0, 7, 1), (6, 40, 1, 8, 1);
                INSERT INTO transitions VALUES (7, 50, 5, 3), (9, 50, 6, 1), (10, 70, 5, 4);
                INSERT INTO stock_adjustments VALUES (11, 80, 0, -2), (12, 80, 1, 5)"#,
            )
            .unwrap();
        let borders = Borders { away_to: 0, reached: 1, sure_to: 3 };
        let read = read(folder.path()).unwrap();
        let found: Vec<_> = read.iter().map(|entry| (entry.seq, entry.at_ms, entry.event)).collect();
        let wanted = [
            (2, 20, Event::Moved(borders)),
            (4, 30, Event::Opened(1)),
            (5, 40, Event::Ordered(7)),
            (7, 50, Event::Lapsed),
            (8, 60, Event::Ended(2)),
            (10, 70, Event::PaidLate),
            (11, 80, Event::Adjusted(-2)),
        ];
        assert_eq!(found, wanted);
        ledger.execute_batch("INSERT INTO transitions VALUES (13, 90, 5, 5)").unwrap();
        assert!(super::read(folder.path()).is_err());
    }
}
