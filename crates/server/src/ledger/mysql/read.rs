//! Orders for the shop's fulfilment: what was placed or changed after a cursor, window by window.

use engine::{SaleId, UnixMs};
use mysql::prelude::Queryable;
use mysql::{Conn, params};

use super::replay::{Columns, last_seq};
use super::{OpenError, Options, open_reader};
use crate::ledger::feed::{Changes, OrderFeedRow, OrderLine, Skus, WINDOW};
use crate::ledger::{RowError, rows};

/// As in SQLite, see there. The changed orders are few, so the planner is made to begin with them.
const WINDOW_QUERY: &str = "
    SELECT STRAIGHT_JOIN o.sku, o.hash, o.buyer, o.buyer_high, o.quantity, o.unit_price, o.at, o.address, t.kind,
        t.at, b.text,
        (SELECT CAST(COALESCE(SUM(p.amount), 0) AS SIGNED) FROM payments AS p
         WHERE p.order_seq = o.seq AND p.seq <= :as_of)
    FROM (
        SELECT seq AS order_seq FROM orders WHERE seq > :after AND seq <= :to
        UNION ALL
        SELECT c.order_seq FROM transitions AS c
        WHERE c.seq > :after AND c.seq <= :to AND c.order_seq <= :since AND NOT EXISTS
            (SELECT 1 FROM transitions AS later
             WHERE later.order_seq = c.order_seq AND later.step > c.step AND later.seq <= :as_of)
        AND NOT EXISTS
            (SELECT 1 FROM payments AS later
             WHERE later.order_seq = c.order_seq AND later.seq > c.seq AND later.seq <= :as_of)
        UNION ALL
        SELECT p.order_seq FROM payments AS p
        WHERE p.seq > :after AND p.seq <= :to AND p.order_seq <= :since AND NOT EXISTS
            (SELECT 1 FROM payments AS later
             WHERE later.order_seq = p.order_seq AND later.seq > p.seq AND later.seq <= :as_of)
        AND NOT EXISTS
            (SELECT 1 FROM transitions AS later
             WHERE later.order_seq = p.order_seq AND later.seq > p.seq AND later.seq <= :as_of)
        UNION ALL
        SELECT f.order_seq FROM
            (SELECT DISTINCT CAST(JSON_EXTRACT(CONVERT(body USING utf8mb4), '$.order') AS SIGNED) AS order_seq
             FROM further_entries WHERE seq > :after AND seq <= :to AND kind = 'order_addressed') AS f
        WHERE f.order_seq <= :since AND NOT EXISTS
            (SELECT 1 FROM transitions AS other
             WHERE other.order_seq = f.order_seq AND other.seq > :since AND other.seq <= :as_of)
        AND NOT EXISTS
            (SELECT 1 FROM payments AS other
             WHERE other.order_seq = f.order_seq AND other.seq > :since AND other.seq <= :as_of)
    ) AS changed
    JOIN orders AS o ON o.seq = changed.order_seq
    LEFT JOIN buyers AS b ON b.high = o.buyer_high AND b.low = o.buyer
    LEFT JOIN transitions AS t ON t.order_seq = o.seq AND t.step =
        (SELECT MAX(s.step) FROM transitions AS s WHERE s.order_seq = o.seq AND s.seq <= :as_of)
    ORDER BY o.seq";

/// The secret that order ids are made with; `None`: no server has opened it yet, so there are no orders.
///
/// # Errors
/// If the ledger cannot be read.
pub(in crate::ledger) fn kept_id_secret(options: &Options) -> Result<Option<Vec<u8>>, OpenError> {
    let secret = "SELECT value FROM meta WHERE name = 'id_secret'";
    Ok(open_reader(options)?.query_first(secret)?)
}

/// Orders placed or changed after `since`, each once, with the status it has now. Looks at a bounded number
/// of entries, so a page may be empty although `more` follow. An order that changes again comes again.
///
/// # Errors
/// If the ledger cannot be read, or ends before the cursor.
pub fn changes(options: &Options, since: u64, entries_max: u64) -> Result<Changes, OpenError> {
    let mut connection = open_reader(options)?;
    let (last, skus) = ends_at(&mut connection, since)?;
    let cursor = last.min(since.saturating_add(entries_max.clamp(1, WINDOW)));
    let mut orders = Vec::new();
    let range = Range { since, after: since, to: cursor, as_of: last };
    window(&mut connection, &skus, range, &mut |line| orders.push(line))?;
    Ok(Changes { orders, cursor, more: cursor < last })
}

/// Calls `each` for every order placed or changed after `since`, once, with its status as of the call, and
/// returns the cursor to go on from.
///
/// # Errors
/// See [`OpenError`].
pub fn export(options: &Options, since: u64, each: &mut dyn FnMut(OrderLine)) -> Result<u64, OpenError> {
    let mut connection = open_reader(options)?;
    let (last, skus) = ends_at(&mut connection, since)?;
    let mut after = since;
    while after < last {
        let to = last.min(after + WINDOW);
        window(&mut connection, &skus, Range { since, after, to, as_of: last }, each)?;
        after = to;
    }
    Ok(last)
}

/// The entries of a window, of changes since a cursor, with the status as of another.
#[derive(Clone, Copy)]
struct Range {
    since: u64,
    after: u64,
    to: u64,
    as_of: u64,
}

/// Orders placed in the window, and orders placed before `since` whose latest transition or refund is in it, or that were
/// given an address in it and have neither; so that over all windows after `since` each order comes once, with its address.
fn window(
    connection: &mut Conn,
    skus: &Skus,
    range: Range,
    each: &mut dyn FnMut(OrderLine),
) -> Result<(), OpenError> {
    let Range { since, after, to, as_of } = range;
    let parameters = params! { since, after, to, as_of };
    // All of a window first: whoever takes the lines may be slower than the server is patient.
    let rows: Vec<mysql::Row> = connection.exec(WINDOW_QUERY, parameters)?;
    for row in rows {
        let row = order_row(&mut Columns::of(row))?;
        let unknown = RowError::Unknown(format!("SKU {}", row.id.sku.0));
        each(skus.line(row).ok_or(unknown)?);
    }
    Ok(())
}

pub(super) fn order_row(columns: &mut Columns) -> Result<OrderFeedRow, RowError> {
    let id = columns.take_order_id()?;
    let buyer = rows::buyer(columns.take()?, columns.take()?)?;
    let (quantity, unit_price) = (columns.take()?, columns.take()?);
    let (placed_at, address) = (UnixMs(columns.take()?), columns.take()?);
    let (kind, closed_at): (Option<u8>, Option<u64>) = (columns.take()?, columns.take()?);
    let closed = kind.zip(closed_at.map(UnixMs));
    let (buyer_text, refunded) = (columns.take()?, columns.take()?);
    Ok(OrderFeedRow { id, buyer, buyer_text, quantity, unit_price, placed_at, address, closed, refunded })
}

/// The latest entry and the SKUs, in this order: a sale that is created between the two is known too early,
/// which is harmless; the other way round an order of it would have a SKU that is unknown.
fn ends_at(connection: &mut Conn, since: u64) -> Result<(u64, Skus), OpenError> {
    let last = last_seq(connection)?;
    if since > last {
        return Err(OpenError::CursorAhead { since, last });
    }
    Ok((last, read_skus(connection)?))
}

pub(super) fn read_skus(connection: &mut Conn) -> Result<Skus, OpenError> {
    let mut skus = Skus::default();
    let query = "SELECT sale, body FROM sale_events WHERE kind IN ('created', 'line_created') ORDER BY seq";
    for row in connection.query_iter(query)? {
        let mut columns = Columns::of(row?);
        let (sale, body): (u64, String) = (columns.take()?, columns.take()?);
        skus.add(SaleId(sale), &body)?;
    }
    Ok(skus)
}
