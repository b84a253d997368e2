//! Orders for the shop's fulfilment: what was placed or changed after a cursor, in short read transactions.

use std::path::Path;

use engine::{SaleId, UnixMs};
use rusqlite::{Connection, OptionalExtension, Row, params};

use super::buyer::BuyerColumn;
use super::replay::{last_seq, nonsense, order_id, unsigned};
use super::{OpenError, open_reader};
use crate::ledger::feed::{Changes, OrderFeedRow, OrderLine, Skus, WINDOW};

/// Orders placed or changed after `since`, each once, with the status it has now. Looks at a bounded number
/// of entries, so a page may be empty although `more` follow. An order that changes again comes again.
///
/// # Errors
/// If the ledger cannot be read, or ends before the cursor.
pub fn changes(connection: &Connection, since: u64, entries_max: u64) -> Result<Changes, OpenError> {
    let (last, skus) = ends_at(connection)?;
    if since > last {
        return Err(OpenError::CursorAhead { since, last });
    }
    let cursor = last.min(since.saturating_add(entries_max.clamp(1, WINDOW)));
    let mut orders = Vec::new();
    window(connection, &skus, since, (since, cursor), last, &mut |line| orders.push(line))?;
    Ok(Changes { orders, cursor, more: cursor < last })
}

/// Calls `each` for every order placed or changed after `since`, once, with its status as of the call, and
/// returns the cursor to go on from. Each read transaction is short: a running server can reuse its WAL.
///
/// # Errors
/// See [`OpenError`].
pub fn export(data_dir: &Path, since: u64, each: &mut dyn FnMut(OrderLine)) -> Result<u64, OpenError> {
    let connection = open_reader(data_dir)?;
    let (last, skus) = ends_at(&connection)?;
    if since > last {
        return Err(OpenError::CursorAhead { since, last });
    }
    let mut after = since;
    while after < last {
        let to = last.min(after + WINDOW);
        window(&connection, &skus, since, (after, to), last, each)?;
        after = to;
    }
    Ok(last)
}

/// The secret that order ids are made with; `None`: no server has opened it yet, so there are no orders.
///
/// # Errors
/// If the ledger cannot be read.
pub(in crate::ledger) fn kept_id_secret(data_dir: &Path) -> Result<Option<Vec<u8>>, OpenError> {
    let connection = open_reader(data_dir)?;
    let secret = "SELECT value FROM meta WHERE name = 'id_secret'";
    Ok(connection.query_row(secret, [], |row| row.get(0)).optional()?)
}

/// Orders placed in the window, and orders placed before `since` whose latest transition or refund is in it, or that were
/// given an address in it and have neither; so that over all windows after `since` each order comes once, with its address.
fn window(
    connection: &Connection,
    skus: &Skus,
    since: u64,
    (after, to): (u64, u64),
    as_of: u64,
    each: &mut dyn FnMut(OrderLine),
) -> Result<(), rusqlite::Error> {
    let mut statement = connection.prepare_cached(
        "WITH changed (order_seq) AS (
             SELECT seq FROM orders WHERE seq > ?2 AND seq <= ?3
             UNION ALL
             SELECT order_seq FROM transitions AS t
             WHERE t.seq > ?2 AND t.seq <= ?3 AND t.order_seq <= ?1 AND NOT EXISTS
                 (SELECT 1 FROM transitions AS later
                  WHERE later.order_seq = t.order_seq AND later.step > t.step AND later.seq <= ?4)
             AND NOT EXISTS
                 (SELECT 1 FROM payments AS later
                  WHERE later.order_seq = t.order_seq AND later.seq > t.seq AND later.seq <= ?4)
             UNION ALL
             SELECT order_seq FROM payments AS p
             WHERE p.seq > ?2 AND p.seq <= ?3 AND p.order_seq <= ?1 AND NOT EXISTS
                 (SELECT 1 FROM payments AS later
                  WHERE later.order_seq = p.order_seq AND later.seq > p.seq AND later.seq <= ?4)
             AND NOT EXISTS
                 (SELECT 1 FROM transitions AS later
                  WHERE later.order_seq = p.order_seq AND later.seq > p.seq AND later.seq <= ?4)
             UNION ALL
             SELECT f.order_seq FROM
                 (SELECT DISTINCT CAST(CAST(body AS TEXT) ->> 'order' AS INTEGER) AS order_seq FROM further_entries
                  WHERE seq > ?2 AND seq <= ?3 AND kind = 'order_addressed') AS f
             WHERE f.order_seq <= ?1 AND NOT EXISTS
                 (SELECT 1 FROM transitions AS other
                  WHERE other.order_seq = f.order_seq AND other.seq > ?1 AND other.seq <= ?4)
             AND NOT EXISTS
                 (SELECT 1 FROM payments AS other
                  WHERE other.order_seq = f.order_seq AND other.seq > ?1 AND other.seq <= ?4)
         )
         SELECT o.sku, o.hash, o.buyer, o.quantity, o.unit_price, o.at, o.address, t.kind, t.at,
             (SELECT text FROM buyers AS b WHERE typeof(o.buyer) = 'blob' AND b.id = o.buyer),
             (SELECT coalesce(sum(amount), 0) FROM payments AS p WHERE p.order_seq = o.seq AND p.seq <= ?4)
         FROM changed JOIN orders AS o ON o.seq = changed.order_seq
         LEFT JOIN transitions AS t ON t.order_seq = o.seq AND t.step =
             (SELECT max(step) FROM transitions AS s WHERE s.order_seq = o.seq AND s.seq <= ?4)
         ORDER BY o.seq",
    )?;
    let bounds = [since, after, to, as_of].map(u64::cast_signed);
    let mut rows = statement.query(params![bounds[0], bounds[1], bounds[2], bounds[3]])?;
    while let Some(row) = rows.next()? {
        each(skus.line(order_row(row)?).ok_or(rusqlite::Error::QueryReturnedNoRows)?);
    }
    Ok(())
}

/// The latest entry and the SKUs, in this order: a sale that is created between the two is known too early,
/// which is harmless; the other way round an order of it would have a SKU that is unknown.
fn ends_at(connection: &Connection) -> Result<(u64, Skus), rusqlite::Error> {
    Ok((last_seq(connection)?, read_skus(connection)?))
}

pub(super) fn read_skus(connection: &Connection) -> Result<Skus, rusqlite::Error> {
    let mut skus = Skus::default();
    let mut statement = connection.prepare_cached(
        "SELECT sale, body FROM sale_events WHERE kind IN ('created', 'line_created') ORDER BY seq",
    )?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        skus.add(SaleId(unsigned(row, 0)?), row.get_ref(1)?.as_str()?).map_err(|error| nonsense(1, error))?;
    }
    Ok(skus)
}

pub(super) fn order_row(row: &Row<'_>) -> Result<OrderFeedRow, rusqlite::Error> {
    let kind: Option<u8> = row.get(7)?;
    let closed_at: Option<i64> = row.get(8)?;
    Ok(OrderFeedRow {
        id: order_id(row, 0)?,
        buyer: row.get::<_, BuyerColumn>(2)?.0,
        buyer_text: row.get(9)?,
        quantity: row.get(3)?,
        unit_price: unsigned(row, 4)?,
        placed_at: UnixMs(unsigned(row, 5)?),
        address: row.get(6)?,
        closed: kind.zip(closed_at.map(|at| UnixMs(at.unsigned_abs()))),
        refunded: unsigned(row, 10)?,
    })
}
