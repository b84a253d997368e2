//! The tables of the history.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::File;
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::Arc;

use engine::is_sold_out;
use rusqlite::{Connection, OptionalExtension, Result, ToSql, params};
use serde_json::Value;

use super::ask::{HistoryQuery, Points, StockValues};
use super::export::{Export, ExportPage, MINUTES, PAGE_ROWS, SECONDS, Table};
use super::incidents::{self, Changes};
use super::{
    Bounds, COLUMNS, DAY_MS, HEARD, ItemStock, KNOWN, LATE_S_MAX, MINUTE_MS, Taken, Values, refusals, sales,
    signed,
};
use crate::figures::events::EventFigures;

/// Of the tables below; a newer one is left alone.
pub(super) const FORMAT: i64 = 5;
/// The first that has refusals, incidents and events.
pub(super) const WITH_INCIDENTS: i64 = 2;
/// The first that has orders by sale.
pub(super) const WITH_SALES: i64 = 3;
/// The first whose stock has what is set aside in turns.
const WITH_TURNS: i64 = 4;
/// The first that has how many servers were heard. In older rows that is not known.
pub(super) const WITH_SERVERS: i64 = 5;
const PAGE_BYTES: i64 = 4096;
/// Rows of stock that are removed at a time because of their age.
const AGED_ROWS_MAX: u32 = 1_000;
/// Rows that are read to find when an item was sold out: a day in which something was paid each second.
const SOLD_OUT_ROWS_MAX: i64 = 86_400;

/// Why there is no history to begin with.
#[derive(Debug, thiserror::Error)]
pub(super) enum OpenError {
    #[error(transparent)]
    Sqlite(#[from] rusqlite::Error),
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error("it is of format {0}, which this version does not know")]
    Format(i64),
    #[error("another server has its directory")]
    Locked,
    #[error("what room the disk has is left to the ledger: {0} bytes")]
    NoRoom(u64),
}

#[derive(Debug)]
pub(super) struct Store {
    pub(super) connection: Connection,
    bounds: Bounds,
    /// The minute of the last row; `None`: none was written since the start.
    minute: Option<i64>,
    /// As it was written last, of the items that are shown.
    stock: BTreeMap<(i64, i64), ItemStock>,
    changes: Changes,
    /// As they were written last.
    events: Option<Arc<[EventFigures]>>,
}

impl Store {
    pub(super) fn open(path: &Path, bounds: Bounds) -> Result<Store, OpenError> {
        create_private(path)?;
        let connection = Connection::open(path)?;
        connection.pragma_update_and_check(None, "journal_mode", "wal", |row| row.get::<_, String>(0))?;
        // A power cut may take the last rows, and nothing waits for the disk.
        connection.pragma_update(None, "synchronous", "normal")?;
        Store::with(connection, bounds)
    }

    pub(super) fn in_memory(bounds: Bounds) -> Result<Store, OpenError> {
        Store::with(Connection::open_in_memory()?, bounds)
    }

    fn with(connection: Connection, bounds: Bounds) -> Result<Store, OpenError> {
        let format: i64 = connection.pragma_query_value(None, "user_version", |row| row.get(0))?;
        if !(0..=FORMAT).contains(&format) {
            return Err(OpenError::Format(format));
        }
        let columns: String =
            COLUMNS.iter().fold(String::new(), |columns, (name, _)| columns + ", " + name + " REAL");
        let pages_max = bounds.bytes / PAGE_BYTES;
        connection.pragma_update_and_check(None, "max_page_count", pages_max, |row| row.get::<_, i64>(0))?;
        let turns = match format {
            1..WITH_TURNS => "ALTER TABLE stock ADD COLUMN turns INTEGER NOT NULL DEFAULT 0;",
            _ => "",
        };
        let servers = match format {
            1..WITH_SERVERS => ["seconds", "minutes"]
                .iter()
                .flat_map(|table| {
                    [HEARD, KNOWN].map(|name| format!("ALTER TABLE {table} ADD COLUMN {name} REAL;"))
                })
                .collect(),
            _ => String::new(),
        };
        connection.execute_batch(&format!(
            "BEGIN;
             CREATE TABLE IF NOT EXISTS seconds (at_ms INTEGER PRIMARY KEY{columns});
             CREATE TABLE IF NOT EXISTS minutes (at_ms INTEGER PRIMARY KEY{columns});
             CREATE TABLE IF NOT EXISTS stock (change INTEGER PRIMARY KEY, at_ms INTEGER NOT NULL, sale INTEGER NOT NULL, \
                product INTEGER NOT NULL, available INTEGER NOT NULL, held INTEGER NOT NULL, sold INTEGER NOT NULL, \
                turns INTEGER NOT NULL DEFAULT 0);
             {turns}
             {servers}
             CREATE INDEX IF NOT EXISTS stock_of_item ON stock (sale, product, at_ms);
             {refusals}
             {incidents}
             {sales}
             CREATE TABLE IF NOT EXISTS events (place INTEGER PRIMARY KEY, event TEXT NOT NULL);
             PRAGMA user_version = {FORMAT};
             COMMIT;",
            refusals = refusals::TABLE,
            incidents = incidents::TABLE,
            sales = sales::TABLE,
        ))?;
        let (stock, changes) = (BTreeMap::new(), Changes::begin(&connection)?);
        Ok(Store { connection, bounds, minute: None, stock, changes, events: None })
    }

    /// Writes a second, in one transaction. A clock that was set back writes over what it wrote.
    pub(super) fn record(&mut self, taken: &Taken) -> Result<()> {
        let minute = taken.at_ms / MINUTE_MS;
        let is_next = self.minute != Some(minute);
        let transaction = self.connection.transaction()?;
        if self.minute.is_none() {
            incidents::note_start(&transaction, taken.at_ms)?;
        }
        let values_before = taken.values_before();
        // A look that came late is a row for each second that it is of; those of a minute that is over are summed up with it.
        let late = (1..=LATE_S_MAX).map(|second| second * 1_000);
        for missed_ms in late.take_while(|missed_ms| missed_ms + 500 < taken.passed_ms) {
            insert(&transaction, "IGNORE", taken.at_ms - missed_ms, &values_before)?;
        }
        if is_next {
            // After a start, whatever was not summed up before the end.
            let since = self.minute.map_or(0, |before| before.min(minute));
            sum_up(&transaction, since, minute)?;
            prune(&transaction, taken.at_ms, &self.bounds)?;
        }
        insert(&transaction, "REPLACE", taken.at_ms, &taken.values)?;
        for left in taken.stock.iter().filter(|left| self.stock.get(&left.item()) != Some(left)) {
            let ItemStock { sale, product, available, turns, held, sold } = left;
            transaction
                .prepare_cached(
                    "INSERT INTO stock (at_ms, sale, product, available, turns, held, sold) \
                     VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
                )?
                .execute(params![taken.at_ms, sale, product, available, turns, held, sold])?;
        }
        refusals::add(&transaction, minute * MINUTE_MS, &taken.refused)?;
        sales::add(&transaction, minute * MINUTE_MS, &taken.sales)?;
        self.changes.take(taken);
        self.changes.write(&transaction)?;
        if self.events.as_ref().is_none_or(|written| !Arc::ptr_eq(written, &taken.events)) {
            write_events(&transaction, &taken.events)?;
        }
        transaction.commit()?;
        self.events = Some(Arc::clone(&taken.events));
        self.minute = Some(minute);
        self.stock = taken.stock.iter().map(|left| (left.item(), *left)).collect();
        Ok(())
    }

    /// Keeps in mind what must not be missed, and writes nothing.
    pub(super) fn remember(&mut self, taken: &Taken) {
        self.changes.take(taken);
    }

    /// Writes what was kept elsewhere meanwhile; incidents and events are written with the next second.
    pub(super) fn take_in(&mut self, aside: &Store) -> Result<()> {
        let transaction = self.connection.transaction()?;
        for (columns, table) in
            [("*", "seconds"), ("NULL, at_ms, sale, product, available, held, sold, turns", "stock")]
        {
            let mut kept =
                aside.connection.prepare(&format!("SELECT {columns} FROM {table} ORDER BY 1, at_ms"))?;
            let count = kept.column_count();
            let insert = insert_into(table, "REPLACE", count);
            let mut rows = kept.query([])?;
            while let Some(row) = rows.next()? {
                let values = (0..count)
                    .map(|column| row.get(column))
                    .collect::<Result<Vec<rusqlite::types::Value>>>()?;
                transaction.prepare_cached(&insert)?.execute(rusqlite::params_from_iter(values))?;
            }
        }
        refusals::take_in(&transaction, &aside.connection)?;
        sales::take_in(&transaction, &aside.connection)?;
        transaction.commit()?;
        self.stock.clone_from(&aside.stock);
        Ok(())
    }

    /// Nothing is recorded any more.
    pub(super) fn end(&mut self) -> Result<()> {
        incidents::end(&self.connection).map(drop)
    }

    /// What the last server to write here had seen, the newest first. What a newer version wrote may be unknown.
    pub(super) fn events(&mut self) -> Result<Vec<EventFigures>> {
        let mut events = self.connection.prepare("SELECT event FROM events ORDER BY place")?;
        let events = events.query_map([], |row| row.get::<_, String>(0))?.collect::<Result<Vec<_>>>()?;
        Ok(events.iter().filter_map(|event| serde_json::from_str(event).ok()).collect())
    }

    /// Costs a row for each second since in which something of the item was paid or came back.
    pub(super) fn sold_out(&mut self, items: &[(u64, u64)]) -> Result<Vec<((u64, u64), u64)>> {
        let mut newest = self.connection.prepare(
            "SELECT at_ms, available, turns FROM stock WHERE sale = ?1 AND product = ?2 ORDER BY at_ms DESC, change DESC LIMIT ?3",
        )?;
        let mut found = Vec::new();
        for (sale, product) in items {
            let mut rows = newest.query(params![signed(*sale), signed(*product), SOLD_OUT_ROWS_MAX])?;
            let mut since = None;
            while let Some(row) = rows.next()? {
                let (available, turns): (i64, i64) = (row.get(1)?, row.get(2)?);
                if !is_sold_out(available.unsigned_abs(), turns.unsigned_abs()) {
                    found.extend(since.map(|at_ms: i64| ((*sale, *product), at_ms.unsigned_abs())));
                    break;
                }
                since = Some(row.get(0)?);
            }
        }
        Ok(found)
    }

    /// The seconds if the minutes know of no earlier time that is asked for, and the minutes otherwise.
    fn table(&self, from_ms: i64) -> Result<Table> {
        let first = |table: &str| {
            let first = format!("SELECT min(at_ms) FROM {table}");
            self.connection.query_row(&first, [], |row| row.get::<_, Option<i64>>(0))
        };
        let (second, minute) = (first("seconds")?.unwrap_or(0), first("minutes")?.unwrap_or(i64::MAX));
        Ok(if from_ms >= second || minute >= second - second % MINUTE_MS { SECONDS } else { MINUTES })
    }

    /// Folded to rows of this length.
    fn points(&self, table: Table, (from_ms, to_ms): (i64, i64), step_ms: i64) -> Result<Points> {
        let (folded, name) = (folded(), table.name);
        let query = format!(
            "SELECT at_ms / ?3 * ?3{folded} FROM {name} WHERE at_ms >= ?1 AND at_ms < ?2 GROUP BY 1 ORDER BY 1"
        );
        let mut statement = self.connection.prepare_cached(&query)?;
        let rows = statement.query_map(params![from_ms, to_ms, step_ms], |row| {
            let at_ms: i64 = row.get(0)?;
            let mut values = vec![Value::from(at_ms)];
            for column in 1..=COLUMNS.len() {
                values.push(number(row.get(column)?));
            }
            Ok(values)
        })?;
        let rows = rows.collect::<Result<Vec<_>>>()?;
        Ok(Points::new(step_ms, COLUMNS.iter().map(|(name, _)| *name).collect(), rows))
    }

    fn tables<'s>(&'s self, aside: Option<&'s Store>) -> Vec<&'s Connection> {
        [self].into_iter().chain(aside).map(|store| &store.connection).collect()
    }

    /// `aside`: what came later and is not written yet.
    pub(super) fn read(&mut self, asked: &HistoryQuery, aside: Option<&Store>) -> Result<Points> {
        let table = self.table(asked.from_ms)?;
        let (step_ms, time) = (asked.step_ms(table.row_ms), (asked.from_ms, asked.to_ms));
        let mut points = self.points(table, time, step_ms)?;
        if let Some(aside) = aside {
            points.add_later(aside.points(SECONDS, time, step_ms)?);
        }
        points.add_incidents(self.changes.add_to(incidents::read(&self.connection, time)?, time));
        if let Some((sale, product)) = asked.item {
            let mut changes = self.stock_of((sale, product), time, step_ms)?;
            let later = aside.map(|aside| aside.stock_of((sale, product), time, step_ms)).transpose()?;
            changes.extend(later.into_iter().flatten());
            points.add_stock(&changes);
            let of = (Some(sale), Some(product));
            points.add_refused(refusals::read(&self.tables(aside), of, time, asked.points)?);
        }
        Ok(points)
    }

    /// The next page of an export. `aside`: as above.
    pub(super) fn page(&mut self, export: &Export, aside: Option<&Store>) -> Result<ExportPage> {
        let table = export.table.map_or_else(|| self.table(export.from_ms), Ok)?;
        let first = export.first(&self.connection, table)?;
        let first_aside = aside.map(|aside| export.first(&aside.connection, SECONDS)).transpose()?.flatten();
        let first = first.into_iter().chain(first_aside).min();
        let time = first.map_or((export.to_ms, export.to_ms), |first| export.span(first, table));
        let mut points = self.points(table, time, table.row_ms)?;
        let mut changes = export.item.map(|item| self.stock_of(item, time, table.row_ms)).transpose()?;
        let tables = self.tables(aside);
        let (_, minutes) = refusals::read(&tables, export.item.unzip(), time, PAGE_ROWS + 1)?;
        if let Some(aside) = aside {
            points.add_later(aside.points(SECONDS, time, table.row_ms)?);
            if let Some((changes, item)) = changes.as_mut().zip(export.item) {
                changes.extend(aside.stock_of(item, time, table.row_ms)?);
            }
        }
        if let Some(changes) = changes {
            points.add_stock(&changes);
        }
        points.add_incident_codes(&self.changes.add_to(incidents::read_all(&self.connection, time)?, time));
        points.add_refused_in_minute(minutes);
        let goes_on = time.1 < export.to_ms;
        let next = goes_on.then_some(Export { from_ms: time.1, table: Some(table), ..*export });
        Ok(ExportPage { csv: points.to_csv(export.table.is_none()), next })
    }

    /// The last change of an item's stock in each step, by time; the first one may be older.
    fn stock_of(
        &self,
        (sale, product): (i64, i64),
        (from_ms, to_ms): (i64, i64),
        step_ms: i64,
    ) -> Result<Vec<(i64, StockValues)>> {
        let change =
            |row: &rusqlite::Row<'_>| Ok((row.get(0)?, [row.get(1)?, row.get(2)?, row.get(3)?, row.get(4)?]));
        let before = "SELECT at_ms, available, turns, held, sold FROM stock WHERE sale = ?1 AND product = ?2 AND at_ms < ?3 \
                      ORDER BY at_ms DESC, change DESC LIMIT 1";
        let before = self.connection.query_row(before, params![sale, product, from_ms], change);
        // Beside max(), SQLite shows the other columns of the row that has it.
        let within = "SELECT at_ms, available, turns, held, sold, max(change) FROM stock WHERE sale = ?1 AND product = ?2 \
                      AND at_ms >= ?3 AND at_ms < ?4 GROUP BY at_ms / ?5 ORDER BY at_ms";
        let mut within = self.connection.prepare_cached(within)?;
        let within = within.query_map(params![sale, product, from_ms, to_ms, step_ms], change)?;
        before.optional()?.map(Ok).into_iter().chain(within).collect()
    }
}

impl ItemStock {
    fn item(self) -> (i64, i64) {
        (self.sale, self.product)
    }
}

/// `or`: what becomes of a row that is there.
fn insert(connection: &Connection, or: &str, at_ms: i64, values: &Values) -> Result<()> {
    let mut row: Vec<&dyn ToSql> = vec![&at_ms];
    row.extend(values.iter().map(|value| value as &dyn ToSql));
    connection.prepare_cached(&insert_into("seconds", or, row.len()))?.execute(row.as_slice())?;
    Ok(())
}

fn insert_into(table: &str, or: &str, columns: usize) -> String {
    let mut insert = format!("INSERT OR {or} INTO {table} VALUES (?1");
    for column in 2..=columns {
        write!(insert, ", ?{column}").expect("a String takes every write");
    }
    insert + ")"
}

fn write_events(connection: &Connection, events: &[EventFigures]) -> Result<()> {
    connection.execute("DELETE FROM events", [])?;
    let mut insert = connection.prepare_cached("INSERT INTO events (event) VALUES (?1)")?;
    for event in events {
        insert.execute([serde_json::to_string(event).expect("all of it is plain")])?;
    }
    Ok(())
}

/// What is selected of several rows.
fn folded() -> String {
    COLUMNS.iter().fold(String::new(), |folded, (name, fold)| format!("{folded}, {}", fold.of(name)))
}

/// Makes rows of minutes of the seconds from one minute on, and before another.
fn sum_up(connection: &Connection, since: i64, until: i64) -> Result<usize> {
    let folded = folded();
    connection.execute(
        &format!(
            "INSERT OR REPLACE INTO minutes SELECT at_ms / ?3 * ?3{folded} FROM seconds WHERE at_ms >= ?1 AND at_ms < ?2 \
             GROUP BY 1"
        ),
        params![since * MINUTE_MS, until * MINUTE_MS, MINUTE_MS],
    )
}

/// Removes what is older than is kept, and what a clock that was wrong wrote far ahead.
fn prune(connection: &Connection, now_ms: i64, bounds: &Bounds) -> Result<()> {
    for (table, kept_ms) in [("seconds", bounds.seconds_ms), ("minutes", bounds.minutes_ms)] {
        connection.execute(
            &format!("DELETE FROM {table} WHERE at_ms < ?1 OR at_ms > ?2"),
            params![now_ms.saturating_sub(kept_ms), now_ms + DAY_MS],
        )?;
    }
    connection.execute(
        "DELETE FROM stock WHERE change <= (SELECT max(change) FROM stock) - ?1",
        params![bounds.stock_rows],
    )?;
    connection.execute(
        "DELETE FROM stock WHERE change IN (SELECT change FROM stock ORDER BY change LIMIT ?1) AND at_ms < ?2",
        params![AGED_ROWS_MAX, now_ms.saturating_sub(bounds.minutes_ms)],
    )?;
    refusals::prune(connection, now_ms.saturating_sub(bounds.minutes_ms))?;
    sales::prune(connection, now_ms.saturating_sub(bounds.minutes_ms))
}

/// To a hundredth, and whole if it is.
#[expect(clippy::cast_possible_truncation, reason = "what is whole and exact in a double fits")]
fn number(value: Option<f64>) -> Value {
    const EXACT_MAX: f64 = (1_u64 << 53) as f64;
    match value.map(|value| (value * 100.0).round() / 100.0) {
        None => Value::Null,
        Some(whole) if whole.fract() == 0.0 && whole.abs() < EXACT_MAX => Value::from(whole as i64),
        Some(value) => Value::from(value),
    }
}

/// What a shop sells is nobody else's business.
fn create_private(path: &Path) -> io::Result<()> {
    match File::options().write(true).create_new(true).mode(0o600).open(path) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
        Ok(_) | Err(_) => Ok(()),
    }
}
