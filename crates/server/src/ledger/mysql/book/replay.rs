//! Reading the whole ledger back, in the order of its sequence: to open it, and to audit it.

use engine::draw::LedgerSecret;
use engine::{Book, Entry, Event, Inconsistent, LedgerKind, OrderId, Pay, SaleId, Seq, SkuId, UnixMs};
use mysql::prelude::{FromValue, Queryable};
use mysql::{Conn, Row};

use super::{Fenced, MySqlLedger, WriterRow, roll_back};
use crate::ledger::buyers::check_texts;
use crate::ledger::mysql::cluster::audit as shared_audit;
use crate::ledger::mysql::profile::{self, Profile};
use crate::ledger::mysql::{OpenError, Options, open_reader};
use crate::ledger::rows;
use crate::ledger::{Audit, RowError};

/// Entries in memory at one time, and per statement: each takes the server a moment and holds no lock.
const ENTRIES_PER_READ: u64 = 20_000;

/// The ledger could not be read back.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    #[error("cannot read the ledger: {0}")]
    MySql(#[from] mysql::Error),
    #[error("cannot read the ledger: {0}")]
    Row(#[from] RowError),
    #[error("the ledger breaks an invariant, {0}; restore a backup, or send a dump to the developers")]
    Inconsistent(#[from] Inconsistent),
    #[error(
        "the ledger's writer says that entry {next} comes next, but the last one is {last}; restore a backup, or \
         send a dump to the developers"
    )]
    Sequence { next: i64, last: u64 },
    #[error(transparent)]
    Fenced(#[from] Fenced),
}

impl MySqlLedger {
    /// The book that the ledger adds up to. If the outcome of the last transaction is not known, it is found out
    /// first.
    ///
    /// # Errors
    /// If the ledger cannot be read, breaks an invariant, or was taken over.
    pub fn load(&mut self) -> Result<Book, LoadError> {
        let loaded = self.load_now();
        if loaded.is_err() {
            self.connection = None;
        }
        loaded
    }

    fn load_now(&mut self) -> Result<Book, LoadError> {
        let (ours, in_doubt) = (self.generation, self.in_doubt);
        self.knock()?;
        let connection = self.connected()?;
        // A transaction whose commit was not answered holds the row's lock until it is decided. Without one nobody
        // but a server that takes over can write, and a server that takes no writes can still be read.
        let row = if in_doubt { WriterRow::locked(connection)? } else { WriterRow::read(connection)? };
        roll_back(connection)?;
        if row.generation != ours {
            return Err(Fenced { ours, row }.into());
        }
        let last = last_seq(connection)?;
        if i64::try_from(last).ok().and_then(|last| last.checked_add(1)) != Some(row.next_seq) {
            return Err(LoadError::Sequence { next: row.next_seq, last });
        }
        let mut book = Book::new();
        book.set_ledger_secret(LedgerSecret(secret(connection)?.unwrap_or_default()));
        replay_to(connection, last, |entry| book.replay(LedgerKind::Book, &entry).map_err(LoadError::from))?;
        book.drain_touched(|_, _| {});
        self.batch = row.batch;
        self.next_seq = row.next_seq;
        self.in_doubt = false;
        Ok(book)
    }
}

/// The latest sequence number; 0 for an empty ledger.
pub(in crate::ledger::mysql) fn last_seq(connection: &mut Conn) -> Result<u64, mysql::Error> {
    let each = TABLES.map(|(table, ..)| format!("COALESCE((SELECT MAX(seq) FROM {table}), 0)"));
    Ok(connection.query_first(format!("SELECT GREATEST({})", each.join(", ")))?.unwrap_or(0))
}

/// The time of the entry of this number, as an expression; NULL if there is none.
pub(in crate::ledger::mysql) fn time_of(seq: Seq) -> String {
    let each = TABLES.map(|(table, ..)| format!("(SELECT at FROM {table} WHERE seq = {})", seq.0));
    format!("COALESCE({})", each.join(", "))
}

/// Calls `each` for every entry up to `last`, in order.
fn replay_to<E: From<mysql::Error> + From<RowError>>(
    connection: &mut Conn,
    last: u64,
    mut each: impl FnMut(Entry) -> Result<(), E>,
) -> Result<(), E> {
    let mut after = 0;
    while after < last {
        let to = last.min(after + ENTRIES_PER_READ);
        let mut rows = read_range(connection, after, to)?;
        // A gap, which no ledger has: what follows it is refused, and may be 2^60 numbers away.
        let gap = (rows.len() as u64) < to - after;
        if gap && let Some(next) = first_seq_after(connection, to)? {
            rows.extend(read_range(connection, next - 1, next)?);
        }
        for (_, entry) in rows {
            each(entry?)?;
        }
        if gap {
            return Ok(());
        }
        after = to;
    }
    Ok(())
}

fn first_seq_after(connection: &mut Conn, after: u64) -> Result<Option<u64>, mysql::Error> {
    let each = TABLES.map(|(table, ..)| format!("SELECT MIN(seq) AS first FROM {table} WHERE seq > {after}"));
    let first: Option<Option<u64>> =
        connection.query_first(format!("SELECT MIN(first) FROM ({}) AS firsts", each.join(" UNION ALL ")))?;
    Ok(first.flatten())
}

/// The tables of the sequence, each with how its rows become entries.
type Parse = fn(&mut Columns) -> Result<Event, RowError>;
const TABLES: [(&str, &str, Parse); 7] = [
    ("sale_events", "sale, kind, body", sale_event),
    ("stock_adjustments", "sku, kind, units, `key`", adjustment),
    ("orders", "sku, hash, buyer, buyer_high, quantity, unit_price, fingerprint", order),
    ("transitions", "order_seq, step, kind", transition),
    ("payments", "id, sku, hash, amount, disposition, order_seq, units", payment),
    ("payment_ends", "payment_seq, kind", payment_end),
    ("further_entries", "seq, kind, body", further),
];

type Parsed = (u64, Result<Entry, RowError>);

/// The rows of a range of the sequence, in order, one that makes no sense in its place.
fn read_range(connection: &mut Conn, after: u64, to: u64) -> Result<Vec<Parsed>, mysql::Error> {
    let mut parsed = Vec::new();
    for (table, columns, parse) in TABLES {
        let query = format!("SELECT seq, at, {columns} FROM {table} WHERE seq > ? AND seq <= ? ORDER BY seq");
        for row in connection.exec_iter(query, (after, to))? {
            let mut columns = Columns::of(row?);
            let seq = columns.take();
            let place = *seq.as_ref().unwrap_or(&after);
            let entry = seq.and_then(|seq| {
                let at = UnixMs(columns.take()?);
                Ok(Entry { seq: Seq(seq), at, event: parse(&mut columns)? })
            });
            parsed.push((place, entry));
        }
    }
    // Each table comes in order, so this is a merge.
    parsed.sort_by_key(|(seq, _)| *seq);
    Ok(parsed)
}

fn sale_event(columns: &mut Columns) -> Result<Event, RowError> {
    let sale = SaleId(columns.take()?);
    let (kind, body): (String, String) = (columns.take()?, columns.take()?);
    rows::sale_event(sale, &kind, &body)
}

fn adjustment(columns: &mut Columns) -> Result<Event, RowError> {
    let sku = SkuId(columns.take()?);
    let (kind, units, key): (String, u64, String) = (columns.take()?, columns.take()?, columns.take()?);
    rows::adjustment(sku, &kind, units, &key)
}

fn order(columns: &mut Columns) -> Result<Event, RowError> {
    let id = columns.take_order_id()?;
    let buyer = rows::buyer(columns.take()?, columns.take()?)?;
    Ok(rows::order(id, buyer, columns.take()?, columns.take()?, columns.take()?))
}

fn transition(columns: &mut Columns) -> Result<Event, RowError> {
    rows::transition(columns.take()?, columns.take()?, columns.take()?)
}

fn payment(columns: &mut Columns) -> Result<Event, RowError> {
    let id: String = columns.take()?;
    let pay = Pay { id: id.into(), order: columns.take_order_id()?, amount: columns.take()? };
    let disposition: String = columns.take()?;
    let (order, units): (Option<u64>, Option<u32>) = (columns.take()?, columns.take()?);
    rows::payment(pay, &disposition, order.zip(units))
}

fn payment_end(columns: &mut Columns) -> Result<Event, RowError> {
    let payment = columns.take()?;
    let kind: String = columns.take()?;
    rows::payment_end(payment, &kind)
}

fn further(columns: &mut Columns) -> Result<Event, RowError> {
    let (seq, kind, body): (u64, String, Vec<u8>) = (columns.take()?, columns.take()?, columns.take()?);
    rows::further(seq, &kind, &body)
}

/// A row's values, taken from left to right.
pub(in crate::ledger::mysql) struct Columns {
    row: Row,
    next: usize,
}

impl Columns {
    pub(in crate::ledger::mysql) fn of(row: Row) -> Columns {
        Columns { row, next: 0 }
    }

    /// The next one, which must be of this type: a negative number is no `u64`.
    pub(in crate::ledger::mysql) fn take<T: FromValue>(&mut self) -> Result<T, RowError> {
        let column = self.next;
        self.next += 1;
        let wrong = |found: String| RowError::Column { column, found };
        match self.row.take_opt(column) {
            Some(Ok(value)) => Ok(value),
            Some(Err(error)) => Err(wrong(format!("{:?}", error.0))),
            None => Err(wrong("nothing".to_owned())),
        }
    }

    pub(in crate::ledger::mysql) fn take_order_id(&mut self) -> Result<OrderId, RowError> {
        let (sku, column) = (self.take()?, self.next);
        let hash: Vec<u8> = self.take()?;
        match <[u8; 16]>::try_from(hash) {
            Ok(hash) => Ok(rows::order_id(sku, hash)),
            Err(other) => Err(RowError::Column { column, found: format!("{} bytes", other.len()) }),
        }
    }
}

/// Every buyer who is a hash has a text unless they were erased after the order, and it is theirs. Costs a pass over the orders.
fn check_buyers(connection: &mut Conn, broken: &mut Vec<String>) -> Result<(), OpenError> {
    let without: Option<u64> = connection.query_first(
        "SELECT COUNT(*) FROM orders AS o LEFT JOIN buyers AS b ON b.high = o.buyer_high AND b.low = o.buyer \
         WHERE o.buyer_high IS NOT NULL AND b.text IS NULL \
         AND NOT EXISTS (SELECT 1 FROM further_entries AS f WHERE f.seq > o.seq AND f.kind = 'buyer_erased' \
             AND JSON_UNQUOTE(JSON_EXTRACT(CONVERT(f.body USING utf8mb4), '$.buyer')) = \
                 LOWER(CONCAT(LPAD(HEX(o.buyer_high), 16, '0'), LPAD(HEX(o.buyer), 16, '0'))))",
    )?;
    if without != Some(0) {
        broken.push(format!("{} orders are of buyers who are hashes and have no text", without.unwrap_or(0)));
    }
    let secret = secret(connection)?;
    let rows: Vec<(i64, i64, Vec<u8>)> = connection.query("SELECT high, low, text FROM buyers")?;
    let mut texts = Vec::with_capacity(rows.len());
    for (high, low, text) in rows {
        texts.push((rows::buyer(low, Some(high))?, String::from_utf8_lossy(&text).into_owned()));
    }
    check_texts(secret, texts, broken);
    Ok(())
}

/// The secret that order ids are made with, if any server has opened the ledger.
fn secret(connection: &mut Conn) -> Result<Option<[u8; 16]>, mysql::Error> {
    let secret: Option<Vec<u8>> =
        connection.query_first("SELECT value FROM meta WHERE name = 'id_secret'")?;
    Ok(secret.and_then(|secret| secret.try_into().ok()))
}

/// Checks every invariant over the whole ledger, as of the moment of the call, while a server writes it or not.
///
/// # Errors
/// If the ledger cannot be opened or read. A broken invariant is no error but the audit's result.
pub fn audit(options: &Options) -> Result<Audit, OpenError> {
    audit_each(options, None, &mut |_book, _entry| {})
}

/// Checks every invariant over the ledger up to an entry, while a server writes it or not; `None`: as of the moment of the call.
/// Calls `each` after every entry.
///
/// # Errors
/// If the ledger cannot be opened or read, or ends before `to`. A broken invariant is no error but the audit's result.
pub(in crate::ledger) fn audit_each(
    options: &Options,
    to: Option<u64>,
    each: &mut dyn FnMut(&Book, &Entry),
) -> Result<Audit, OpenError> {
    let mut connection = open_reader(options)?;
    // One snapshot of the two, or a running server would seem to be ahead of itself.
    connection.query_drop("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")?;
    connection.query_drop("START TRANSACTION WITH CONSISTENT SNAPSHOT")?;
    let writer = WriterRow::read(&mut connection)?;
    let last = last_seq(&mut connection)?;
    let shared = profile::of(&mut connection)? == Some(Profile::Cluster);
    let mut broken = Vec::new();
    let kind = if shared { LedgerKind::Gated } else { LedgerKind::Book };
    let mut book = Book::new();
    book.set_ledger_secret(LedgerSecret(secret(&mut connection)?.unwrap_or_default()));
    if let Some(since) = to.filter(|to| *to > last) {
        return Err(OpenError::CursorAhead { since, last });
    }
    let up_to = to.unwrap_or(last);
    let replayed = replay_to(&mut connection, up_to, |entry| {
        book.replay(kind, &entry).map_err(LoadError::from)?;
        each(&book, &entry);
        Ok(())
    });
    match replayed {
        Ok(()) => {}
        Err(LoadError::MySql(error)) => return Err(error.into()),
        Err(LoadError::Row(error)) => broken.push(format!("a row makes no sense: {error}")),
        Err(LoadError::Inconsistent(found)) => broken.push(found.to_string()),
        Err(other @ (LoadError::Sequence { .. } | LoadError::Fenced(_))) => broken.push(other.to_string()),
    }
    if u64::try_from(writer.next_seq).ok() != last.checked_add(1) {
        broken.push(LoadError::Sequence { next: writer.next_seq, last }.to_string());
    }
    check_buyers(&mut connection, &mut broken)?;
    // The tables of the state as of this snapshot, so they can be held against all entries and no fewer.
    if shared && up_to == last && broken.is_empty() {
        shared_audit::check(&mut connection, &book, &mut broken)?;
    }
    roll_back(&mut connection)?;
    Ok(Audit::of(&book, up_to, broken))
}
