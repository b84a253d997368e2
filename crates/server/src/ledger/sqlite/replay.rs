//! Reading the whole ledger back, in the order of its sequence: to open it, and to audit it.

use std::path::Path;

use engine::draw::LedgerSecret;
use engine::{Book, Entry, Event, Inconsistent, LedgerKind, OrderId, Pay, SaleId, Seq, SkuId, UnixMs};
use rusqlite::{Connection, OptionalExtension, Row, Rows, params};

use super::buyer::BuyerColumn;
use super::{OpenError, SqliteLedger, open_reader};
use crate::ledger::Audit;
use crate::ledger::buyers::check_texts;
use crate::ledger::rows::{self, RowError};

/// Entries per read transaction: a short one, so that a running server can reuse its WAL.
const ENTRIES_PER_READ: u64 = 50_000;

/// The ledger could not be read back.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    #[error("cannot read the ledger: {0}")]
    Sqlite(#[from] rusqlite::Error),
    #[error("the ledger breaks an invariant, {0}; restore a backup, or send the file to the developers")]
    Inconsistent(#[from] Inconsistent),
}

impl SqliteLedger {
    /// The book that the ledger adds up to.
    ///
    /// # Errors
    /// If the ledger cannot be read or breaks an invariant.
    pub fn load(&self) -> Result<Book, LoadError> {
        let mut book = Book::new();
        book.set_ledger_secret(LedgerSecret(secret(&self.connection)?.unwrap_or_default()));
        let last = last_seq(&self.connection)?;
        book.reserve_orders(orders_len(&self.connection, last)?);
        replay_to(&self.connection, last, |entry| {
            book.replay(LedgerKind::Book, &entry).map_err(LoadError::from)
        })?;
        book.drain_touched(|_, _| {});
        Ok(book)
    }
}

/// The tables of the sequence, but for the orders.
const OTHER_TABLES: [&str; 6] =
    ["sale_events", "stock_adjustments", "transitions", "payments", "payment_ends", "further_entries"];

/// The latest sequence number; 0 for an empty ledger.
pub(super) fn last_seq(connection: &Connection) -> Result<u64, rusqlite::Error> {
    let mut query = String::from("SELECT max(0");
    for table in OTHER_TABLES.iter().chain(&["orders"]) {
        query.push_str(&format!(", coalesce((SELECT max(seq) FROM {table}), 0)"));
    }
    query.push(')');
    connection.query_row(&query, [], |row| unsigned(row, 0))
}

/// How many orders there are. The sequence has no gaps, so they are what the other tables leave of it: those have
/// an index that is quickly counted, or few rows, while counting orders would read every address.
///
/// A number for reserving memory, so on a damaged ledger it is bounded by what its file has room for.
fn orders_len(connection: &Connection, last: u64) -> Result<usize, rusqlite::Error> {
    const ORDER_BYTES_MIN: u64 = 32;
    let mut others = 0;
    for table in OTHER_TABLES {
        others +=
            connection.query_row(&format!("SELECT count(*) FROM {table}"), [], |row| unsigned(row, 0))?;
    }
    let pages = connection.pragma_query_value(None, "page_count", |row| unsigned(row, 0))?;
    let page_bytes = connection.pragma_query_value(None, "page_size", |row| unsigned(row, 0))?;
    let orders = last.saturating_sub(others).min(pages * page_bytes / ORDER_BYTES_MIN);
    Ok(usize::try_from(orders).unwrap_or(0))
}

/// Calls `each` for every entry up to `last`, in order, in read transactions of bounded length.
fn replay_to<E: From<rusqlite::Error>>(
    connection: &Connection,
    last: u64,
    mut each: impl FnMut(Entry) -> Result<(), E>,
) -> Result<(), E> {
    let mut after = 0;
    while after < last {
        let to = last.min(after + ENTRIES_PER_READ);
        let entries = replay_range(connection, after, to, &mut each)?;
        if entries < to - after {
            // A gap, which no ledger has. What follows it is refused, and may be 2^60 numbers away.
            replay_range(connection, to, last, &mut each)?;
            return Ok(());
        }
        after = to;
    }
    Ok(())
}

/// The tables of the sequence, each with how its rows become entries.
type Parse = fn(&Row<'_>) -> Result<Event, rusqlite::Error>;
const TABLES: [(&str, Parse); 7] = [
    ("SELECT * FROM sale_events", sale_event),
    ("SELECT * FROM stock_adjustments", adjustment),
    ("SELECT seq, at, sku, hash, buyer, quantity, unit_price, fingerprint FROM orders", order),
    ("SELECT * FROM transitions", transition),
    ("SELECT * FROM payments", payment),
    ("SELECT * FROM payment_ends", payment_end),
    ("SELECT * FROM further_entries", further),
];

/// A merge of the tables: each is read in the order of its primary key. Returns how many entries there were.
fn replay_range<E: From<rusqlite::Error>>(
    connection: &Connection,
    after: u64,
    to: u64,
    each: &mut impl FnMut(Entry) -> Result<(), E>,
) -> Result<u64, E> {
    let mut statements = Vec::with_capacity(TABLES.len());
    for (select, parse) in TABLES {
        let query = format!("{select} WHERE seq > ?1 AND seq <= ?2 ORDER BY seq");
        statements.push((connection.prepare_cached(&query)?, parse));
    }
    let mut sources = Vec::with_capacity(TABLES.len());
    for (statement, parse) in &mut statements {
        let rows = statement.query(params![after.cast_signed(), to.cast_signed()])?;
        let mut source = Source { rows, parse: *parse, next: None };
        source.advance()?;
        sources.push(source);
    }
    let mut entries = 0;
    while let Some(source) =
        sources.iter_mut().filter(|source| source.next.is_some()).min_by_key(|source| source.seq())
    {
        let entry = source.next.take().expect("it was filtered for having one");
        source.advance()?;
        each(entry)?;
        entries += 1;
    }
    Ok(entries)
}

struct Source<'s> {
    rows: Rows<'s>,
    parse: Parse,
    next: Option<Entry>,
}

impl Source<'_> {
    fn seq(&self) -> Seq {
        self.next.as_ref().map_or(Seq(u64::MAX), |entry| entry.seq)
    }

    fn advance(&mut self) -> Result<(), rusqlite::Error> {
        self.next = match self.rows.next()? {
            Some(row) => Some(Entry {
                seq: Seq(unsigned(row, 0)?),
                at: UnixMs(unsigned(row, 1)?),
                event: (self.parse)(row)?,
            }),
            None => None,
        };
        Ok(())
    }
}

/// The entries about sales after an entry.
pub(in crate::ledger) fn sale_entries(connection: &Connection, after: Seq) -> Result<Vec<Entry>, OpenError> {
    let mut statement = connection.prepare("SELECT * FROM sale_events WHERE seq > ?1 ORDER BY seq")?;
    let entry = |row: &Row<'_>| {
        let (seq, at) = (Seq(unsigned(row, 0)?), UnixMs(unsigned(row, 1)?));
        Ok(Entry { seq, at, event: sale_event(row)? })
    };
    Ok(statement.query_map([after.0.cast_signed()], entry)?.collect::<Result<_, _>>()?)
}

fn sale_event(row: &Row<'_>) -> Result<Event, rusqlite::Error> {
    let (kind, body) = (row.get_ref(3)?.as_str()?, row.get_ref(4)?.as_str()?);
    rows::sale_event(SaleId(unsigned(row, 2)?), kind, body).map_err(|error| nonsense(4, error))
}

fn adjustment(row: &Row<'_>) -> Result<Event, rusqlite::Error> {
    let (kind, key) = (row.get_ref(3)?.as_str()?, row.get_ref(5)?.as_str()?);
    rows::adjustment(SkuId(row.get(2)?), kind, unsigned(row, 4)?, key).map_err(|error| nonsense(3, error))
}

fn order(row: &Row<'_>) -> Result<Event, rusqlite::Error> {
    let (BuyerColumn(buyer), unit_price) = (row.get(4)?, unsigned(row, 6)?);
    Ok(rows::order(order_id(row, 2)?, buyer, row.get(5)?, unit_price, row.get(7)?))
}

fn transition(row: &Row<'_>) -> Result<Event, rusqlite::Error> {
    rows::transition(unsigned(row, 2)?, row.get(3)?, row.get(4)?).map_err(|error| nonsense(4, error))
}

fn payment(row: &Row<'_>) -> Result<Event, rusqlite::Error> {
    let pay =
        Pay { id: row.get_ref(2)?.as_str()?.into(), order: order_id(row, 3)?, amount: unsigned(row, 5)? };
    let order = row.get::<_, Option<i64>>(7)?.map(|_order| unsigned(row, 7)).transpose()?;
    let refund = order.zip(row.get(8)?);
    rows::payment(pay, row.get_ref(6)?.as_str()?, refund).map_err(|error| nonsense(6, error))
}

fn payment_end(row: &Row<'_>) -> Result<Event, rusqlite::Error> {
    rows::payment_end(unsigned(row, 2)?, row.get_ref(3)?.as_str()?).map_err(|error| nonsense(3, error))
}

fn further(row: &Row<'_>) -> Result<Event, rusqlite::Error> {
    let (kind, body) = (row.get_ref(2)?.as_str()?, row.get_ref(3)?.as_blob()?);
    rows::further(unsigned(row, 0)?, kind, body).map_err(|error| nonsense(3, error))
}

/// An order id from its two columns.
pub(super) fn order_id(row: &Row<'_>, first: usize) -> Result<OrderId, rusqlite::Error> {
    Ok(rows::order_id(row.get(first)?, row.get(first + 1)?))
}

pub(super) fn unsigned(row: &Row<'_>, column: usize) -> Result<u64, rusqlite::Error> {
    let value: i64 = row.get(column)?;
    u64::try_from(value).map_err(|_negative| rusqlite::Error::IntegralValueOutOfRange(column, value))
}

/// A column of the right type, with a meaning that is unknown.
pub(super) fn nonsense(column: usize, error: RowError) -> rusqlite::Error {
    rusqlite::Error::FromSqlConversionFailure(column, rusqlite::types::Type::Text, error.into())
}

/// Checks every invariant over the whole ledger, as of the moment of the call, while a server writes it or not.
///
/// # Errors
/// If the ledger cannot be opened or read. A broken invariant is no error but the audit's result.
pub fn audit(data_dir: &Path) -> Result<Audit, OpenError> {
    audit_each(data_dir, None, &mut |_book, _entry| {})
}

/// Checks every invariant over the ledger up to an entry, while a server writes it or not; `None`: as of the moment of the call.
/// Calls `each` after every entry.
///
/// # Errors
/// If the ledger cannot be opened or read, or ends before `to`. A broken invariant is no error but the audit's result.
pub(in crate::ledger) fn audit_each(
    data_dir: &Path,
    to: Option<u64>,
    each: &mut dyn FnMut(&Book, &Entry),
) -> Result<Audit, OpenError> {
    let connection = open_reader(data_dir)?;
    let last = last_seq(&connection)?;
    if let Some(since) = to.filter(|to| *to > last) {
        return Err(OpenError::CursorAhead { since, last });
    }
    let last = to.unwrap_or(last);
    let mut broken = Vec::new();
    let mut book = Book::new();
    // One that no server has opened has none, and no lines.
    book.set_ledger_secret(LedgerSecret(secret(&connection)?.unwrap_or_default()));
    let replayed = replay_to(&connection, last, |entry| {
        book.replay(LedgerKind::Book, &entry).map_err(LoadError::from)?;
        each(&book, &entry);
        Ok(())
    });
    match replayed {
        Ok(()) => {}
        Err(LoadError::Inconsistent(found)) => broken.push(found.to_string()),
        Err(LoadError::Sqlite(error)) if error.sqlite_error_code().is_some() => return Err(error.into()),
        Err(LoadError::Sqlite(error)) => broken.push(format!("a row makes no sense: {error}")),
    }
    check_buyers(&connection, &mut broken)?;
    let mut audit = Audit::of(&book, last, broken);
    // With the indexes, unlike a quick check: the export finds transitions by one.
    let verdict: String = connection.query_row("PRAGMA integrity_check(1)", [], |row| row.get(0))?;
    if verdict != "ok" {
        audit.broken.push(format!("the file is damaged: {verdict}"));
    }
    Ok(audit)
}

/// Every buyer who is a hash has a text unless they were erased after the order, and it is theirs. Costs a pass over the orders.
fn check_buyers(connection: &Connection, broken: &mut Vec<String>) -> Result<(), rusqlite::Error> {
    let without: u64 = connection.query_row(
        "SELECT count(*) FROM orders AS o WHERE typeof(buyer) = 'blob' AND buyer NOT IN (SELECT id FROM buyers)
         AND NOT EXISTS (SELECT 1 FROM further_entries AS f WHERE f.seq > o.seq AND kind = 'buyer_erased'
                         AND CAST(body AS TEXT) ->> 'buyer' = lower(hex(o.buyer)))",
        [],
        |row| unsigned(row, 0),
    )?;
    if without > 0 {
        broken.push(format!("{without} orders are of buyers who are hashes and have no text"));
    }
    let secret = secret(connection)?;
    let mut texts = connection.prepare("SELECT id, text FROM buyers")?;
    let texts = texts.query_map([], |row| Ok((row.get::<_, BuyerColumn>(0)?.0, row.get(1)?)))?;
    check_texts(secret, texts.collect::<Result<Vec<_>, _>>()?, broken);
    Ok(())
}

/// The secret that order ids are made with, if any server has opened the ledger.
fn secret(connection: &Connection) -> Result<Option<[u8; 16]>, rusqlite::Error> {
    let secret = "SELECT value FROM meta WHERE name = 'id_secret'";
    connection.query_row(secret, [], |row| row.get(0)).optional()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_reserved_for_the_orders_and_not_for_all_entries() {
        let connection = Connection::open_in_memory().unwrap();
        for script in super::super::migrate::MIGRATIONS {
            connection.execute_batch(script).unwrap();
        }
        let rows = "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 100)";
        for insert in [
            "INSERT INTO orders SELECT i + 1, 1, 0, x'00', 1, 1, 1, 1, NULL FROM n",
            "INSERT INTO transitions SELECT i + 101, 1, i + 1, 1, 2 FROM n",
            "INSERT INTO payments SELECT i + 201, 1, 'p' || i, 0, x'00', 1, 'applied', NULL, NULL FROM n",
        ] {
            connection.execute(&format!("{rows} {insert}"), []).unwrap();
        }
        connection.execute("INSERT INTO sale_events VALUES (1, 1, 1, 'created', '{}')", []).unwrap();
        assert_eq!(last_seq(&connection).unwrap(), 301);
        assert_eq!(orders_len(&connection, 301).unwrap(), 100);
        let damaged = orders_len(&connection, 1 << 60).unwrap();
        assert!(damaged < 10_000, "{damaged} orders in a file of a few pages");
    }
}
