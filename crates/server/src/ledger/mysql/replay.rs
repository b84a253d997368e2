//! Reading entries back, in the order of the sequence: to open a ledger, and to audit it.

use engine::{Entry, Event, OrderId, Pay, SaleId, Seq, SkuId, UnixMs};
use mysql::prelude::{FromValue, Queryable};
use mysql::{Conn, Row};

use crate::ledger::{RowError, rows};

/// Entries in memory at one time, and per statement: each takes the server a moment and holds no lock.
const ENTRIES_PER_READ: u64 = 20_000;

/// The latest sequence number; 0 for an empty ledger.
pub(super) fn last_seq(connection: &mut Conn) -> Result<u64, mysql::Error> {
    let each = TABLES.map(|(table, ..)| format!("COALESCE((SELECT MAX(seq) FROM {table}), 0)"));
    Ok(connection.query_first(format!("SELECT GREATEST({})", each.join(", ")))?.unwrap_or(0))
}

/// The time of the entry of this number, as an expression; NULL if there is none.
pub(super) fn time_of(seq: Seq) -> String {
    let each = TABLES.map(|(table, ..)| format!("(SELECT at FROM {table} WHERE seq = {})", seq.0));
    format!("COALESCE({})", each.join(", "))
}

/// Calls `each` for every entry up to `last`, in order.
pub(super) fn replay_to<E: From<mysql::Error> + From<RowError>>(
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
pub(super) struct Columns {
    row: Row,
    next: usize,
}

impl Columns {
    pub(super) fn of(row: Row) -> Columns {
        Columns { row, next: 0 }
    }

    /// The next one, which must be of this type: a negative number is no `u64`.
    pub(super) fn take<T: FromValue>(&mut self) -> Result<T, RowError> {
        let column = self.next;
        self.next += 1;
        let wrong = |found: String| RowError::Column { column, found };
        match self.row.take_opt(column) {
            Some(Ok(value)) => Ok(value),
            Some(Err(error)) => Err(wrong(format!("{:?}", error.0))),
            None => Err(wrong("nothing".to_owned())),
        }
    }

    pub(super) fn take_order_id(&mut self) -> Result<OrderId, RowError> {
        let (sku, column) = (self.take()?, self.next);
        let hash: Vec<u8> = self.take()?;
        match <[u8; 16]>::try_from(hash) {
            Ok(hash) => Ok(rows::order_id(sku, hash)),
            Err(other) => Err(RowError::Column { column, found: format!("{} bytes", other.len()) }),
        }
    }
}

/// The secret that order ids are made with, if any server has opened the ledger.
pub(super) fn secret(connection: &mut Conn) -> Result<Option<[u8; 16]>, mysql::Error> {
    let secret: Option<Vec<u8>> =
        connection.query_first("SELECT value FROM meta WHERE name = 'id_secret'")?;
    Ok(secret.and_then(|secret| secret.try_into().ok()))
}
