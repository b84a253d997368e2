//! What was kept of a time that is over, read from the file beside a server or without one.
//!
//! Must not: change the file, or make one.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags, params};
use serde::Serialize;

use super::store::{FORMAT, WITH_INCIDENTS, WITH_SALES, WITH_SERVERS};
use super::{
    FILE_NAME, HEARD, Incident, KNOWN, NoHistory, RefusedAt, SaleKept, incidents, refusals, sales, signed,
    whole,
};

/// Rows of a sale's refusals: of more minutes, several are one.
const REFUSED_ROWS_MAX: i64 = 60;

/// Of SQLite's header, what distinguishes a database from other files, and where the format's number is in it.
const MAGIC: &[u8] = b"SQLite format 3\0";
const HEADER_BYTES: usize = 100;
const FORMAT_AT: std::ops::Range<usize> = 60..64;

/// The sale that is asked about, and when it was.
#[derive(Clone, Copy, Debug)]
pub struct Sold {
    pub sale: u64,
    /// From its start on, and before its end.
    pub time: (u64, u64),
    /// When the last of its holds was to be paid.
    pub paid_until_ms: u64,
}

/// Of the whole server, whatever sales it had.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Kept {
    /// How long a row is: seconds are kept for a day.
    pub row_s: u64,
    pub rows: u64,
    /// What there would be if none was missing. In a time without rows the server was down, or had no room.
    pub rows_expected: u64,
    /// Of these, in how many only some servers of the cluster were heard: what the others did in them is missing. `None`: of
    /// before that was kept.
    pub rows_some_heard: Option<u64>,
    /// And in how many this server stood still, and heard nobody. `None`: as above.
    pub rows_none_heard: Option<u64>,
    /// Orders, from rates: of minutes, about so many.
    pub received: u64,
    pub accepted: u64,
    pub replayed: u64,
    pub refused: u64,
    pub busy: u64,
    pub unknown: u64,
    /// The mean over the rows in which there were orders; `None`: there were none.
    pub order_p50_ms: Option<f64>,
    /// The highest of any row.
    pub order_p99_ms: Option<f64>,
    pub commit_p99_ms: Option<f64>,
    /// When the verdict was not green, the newest, by time: until holds were paid. `None`: from before such were kept.
    pub incidents: Option<Vec<Incident>>,
    /// Of the sale alone. `None`: from before such were kept.
    pub sale: Option<SaleKept>,
    /// Orders of the sale that were refused, by reason, of so many seconds each. `None`: as above.
    pub refused_row_s: u64,
    pub refused_rows: Option<Vec<RefusedAt>>,
}

/// Why nothing is known of it.
#[derive(Debug, thiserror::Error)]
pub enum NotKept {
    #[error("there is no {}", .0.display())]
    Missing(PathBuf),
    #[error("figures.db has no row of that time")]
    NotThen,
    #[error("{} is no history of figures", .0.display())]
    NotAHistory(PathBuf),
    #[error("figures.db is of format {0}, which this version does not know")]
    Format(i64),
    #[error("figures.db can't be read: {0}")]
    Sqlite(#[from] rusqlite::Error),
    #[error("figures.db can't be read: {0}")]
    Io(#[from] io::Error),
    #[error(transparent)]
    Ended(#[from] NoHistory),
}

impl Kept {
    /// Of a sale, in the directory of a history: of seconds if the file still has the first of them, and of minutes otherwise.
    ///
    /// # Errors
    /// See [`NotKept`].
    pub fn read(dir: &Path, sold: &Sold) -> Result<Kept, NotKept> {
        let path = dir.join(FILE_NAME);
        if !path.try_exists()? {
            return Err(NotKept::Missing(path));
        }
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(&path, flags)?;
        connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
        connection.pragma_update(None, "query_only", true)?;
        Kept::of(&connection, sold)
    }

    pub(super) fn of(connection: &Connection, sold: &Sold) -> Result<Kept, NotKept> {
        let format: i64 = connection.pragma_query_value(None, "user_version", |row| row.get(0))?;
        if !(1..=FORMAT).contains(&format) {
            return Err(NotKept::Format(format));
        }
        let mut kept = Kept::summed_up(connection, sold.time)?;
        if format >= WITH_SERVERS {
            [kept.rows_some_heard, kept.rows_none_heard] = heard(connection, kept.row_s, sold.time)?;
        }
        if format >= WITH_INCIDENTS {
            let (from_ms, to_ms) = sold.time;
            let time = (signed(from_ms), signed(to_ms));
            kept.incidents = Some(incidents::read(connection, (time.0, signed(sold.paid_until_ms)))?);
            let of = (Some(signed(sold.sale)), None);
            let (step_ms, rows) = refusals::read(&[connection], of, time, REFUSED_ROWS_MAX)?;
            kept.refused_row_s = step_ms.unsigned_abs() / 1_000;
            kept.refused_rows = Some(rows);
        }
        if format >= WITH_SALES {
            let (from_ms, to_ms) = sold.time;
            kept.sale = Some(sales::read(connection, signed(sold.sale), (signed(from_ms), signed(to_ms)))?);
        }
        Ok(kept)
    }

    /// Finds out by its header whether a server could go on with the history in a directory, if there is one.
    ///
    /// # Errors
    /// See [`NotKept`].
    pub fn check(dir: &Path) -> Result<(), NotKept> {
        let path = dir.join(FILE_NAME);
        let mut header = Vec::new();
        match File::open(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            file => file?.take(HEADER_BYTES as u64).read_to_end(&mut header)?,
        };
        // One that was made, and not written yet.
        if header.is_empty() {
            return Ok(());
        }
        if header.len() < HEADER_BYTES || !header.starts_with(MAGIC) {
            return Err(NotKept::NotAHistory(path));
        }
        let format = header[FORMAT_AT].try_into().map(i32::from_be_bytes).expect("it has 4 bytes").into();
        if (0..=FORMAT).contains(&format) { Ok(()) } else { Err(NotKept::Format(format)) }
    }

    fn summed_up(connection: &Connection, (from_ms, to_ms): (u64, u64)) -> Result<Kept, NotKept> {
        for (table, row_s) in [("seconds", 1), ("minutes", 60)] {
            let first = format!("SELECT min(at_ms) FROM {table}");
            let first: Option<i64> = connection.query_row(&first, [], |row| row.get(0))?;
            let is_last = table == "minutes";
            let whole = first.is_some_and(|first| first <= signed(from_ms).saturating_add(1_000));
            let kept = (whole || is_last).then(|| sum(connection, table, row_s, (from_ms, to_ms)));
            if let Some(kept) = kept.transpose()?.filter(|kept| kept.rows > 0) {
                return Ok(kept);
            }
        }
        // The first start of a server may be in the time: no minute is whole yet, or none before it.
        let kept = sum(connection, "seconds", 1, (from_ms, to_ms))?;
        if kept.rows > 0 { Ok(kept) } else { Err(NotKept::NotThen) }
    }
}

fn sum(connection: &Connection, table: &str, row_s: u64, time: (u64, u64)) -> Result<Kept, rusqlite::Error> {
    let (from_ms, to_ms) = whole_rows(time, row_s);
    // A rate is of the time since the row before, which is not a row's length on a machine that is busy. After a gap it is.
    let row_ms = signed(row_s) * 1_000;
    let query = format!(
        "SELECT count(*), total(received * s), total(accepted * s), total(replayed * s), total(refused * s), total(busy * s), \
         total(unknown * s), avg(order_p50_ms), max(order_p99_ms), max(commit_p99_ms) FROM \
         (SELECT *, iif(since_ms * 2 <= 3 * {row_ms}, since_ms, {row_ms}) / 1000.0 AS s FROM \
         (SELECT *, at_ms - lag(at_ms) OVER (ORDER BY at_ms) AS since_ms FROM {table} WHERE at_ms >= ?1 - 2 * {row_ms} AND at_ms < ?2)) \
         WHERE at_ms >= ?1"
    );
    connection.query_row(&query, params![signed(from_ms), signed(to_ms)], |row| {
        let orders = |column| Ok::<_, rusqlite::Error>(whole(row.get(column)?));
        Ok(Kept {
            row_s,
            rows: row.get::<_, i64>(0)?.unsigned_abs(),
            rows_expected: to_ms.saturating_sub(from_ms).div_ceil(row_s * 1_000),
            rows_some_heard: None,
            rows_none_heard: None,
            received: orders(1)?,
            accepted: orders(2)?,
            replayed: orders(3)?,
            refused: orders(4)?,
            busy: orders(5)?,
            unknown: orders(6)?,
            order_p50_ms: row.get(7)?,
            order_p99_ms: row.get(8)?,
            commit_p99_ms: row.get(9)?,
            incidents: None,
            sale: None,
            refused_row_s: 60,
            refused_rows: None,
        })
    })
}

/// A row is known by its beginning.
fn whole_rows((from_ms, to_ms): (u64, u64), row_s: u64) -> (u64, u64) {
    (from_ms - from_ms % (row_s * 1_000), to_ms)
}

/// In how many rows only some servers were heard, and in how many none, of those that say so. `None`: none of them does.
fn heard(connection: &Connection, row_s: u64, time: (u64, u64)) -> Result<[Option<u64>; 2], rusqlite::Error> {
    let ((from_ms, to_ms), table) = (whole_rows(time, row_s), if row_s == 1 { "seconds" } else { "minutes" });
    let query = format!(
        "SELECT sum({HEARD} > 0 AND {HEARD} < {KNOWN}), sum({HEARD} = 0) FROM {table} WHERE at_ms >= ?1 AND at_ms < ?2"
    );
    connection.query_row(&query, params![signed(from_ms), signed(to_ms)], |row| {
        let rows =
            |column| Ok::<_, rusqlite::Error>(row.get::<_, Option<i64>>(column)?.map(i64::unsigned_abs));
        Ok([rows(0)?, rows(1)?])
    })
}
