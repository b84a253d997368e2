//! Reading one order's life.

use rusqlite::{Connection, OptionalExtension, Row};

use super::OpenError;
use super::replay::{nonsense, order_id, unsigned};
use crate::ledger::life::{
    LifeRows, OrderLife, RefundRow, RefundStep, order_query, paid_at, paid_by_query, refunds_made_query,
    refunds_query, transitions_query,
};
use crate::ledger::rows::int;

/// `None`: the entry is no order's.
///
/// # Errors
/// See [`OpenError`].
pub(in crate::ledger) fn order_life(
    connection: &Connection,
    order: u64,
) -> Result<Option<OrderLife>, OpenError> {
    let order = int(order.min(i64::MAX as u64)).cast_unsigned();
    let placed = |row: &Row<'_>| Ok((order_id(row, 0)?, unsigned(row, 2)?));
    let placed = connection.query_row(&order_query(order), [], placed).optional()?;
    let Some((id, placed_at)) = placed else { return Ok(None) };
    let transition = |row: &Row<'_>| Ok((unsigned(row, 0)?, unsigned(row, 1)?, row.get(2)?));
    let transitions = all(connection, &transitions_query(order), transition)?;
    let paid_by = paid_at(&transitions)
        .map(|paid| connection.query_row(&paid_by_query(paid), [], |row| row.get(0)).optional());
    let mut refunds = all(connection, &refunds_query(order), refund_row)?;
    refunds.extend(all(connection, &refunds_made_query(order), refund_row)?);
    let paid_by = paid_by.transpose()?.flatten();
    let rows = LifeRows { seq: order, id, placed_at, transitions, paid_by, refunds };
    let mut life = rows.into_life().map_err(|error| nonsense(2, error))?;
    let action = |row: &Row<'_>| Ok((unsigned(row, 0)?, row.get(1)?));
    let actions: Vec<(u64, Vec<u8>)> = all(connection, &life.operated_query(), action)?;
    life.note_operators(&actions).map_err(|error| nonsense(1, error))?;
    Ok(Some(life))
}

fn all<T>(
    connection: &Connection,
    query: &str,
    read: impl Fn(&Row<'_>) -> Result<T, rusqlite::Error>,
) -> Result<Vec<T>, rusqlite::Error> {
    connection.prepare(query)?.query_map([], read)?.collect()
}

fn refund_row(row: &Row<'_>) -> Result<RefundRow, rusqlite::Error> {
    let made: (Option<i64>, Option<i64>) = (row.get(5)?, row.get(6)?);
    let refund = RefundStep { id: row.get(2)?, amount: unsigned(row, 3)?, units: row.get(4)? };
    Ok(RefundRow {
        seq: unsigned(row, 0)?,
        at: unsigned(row, 1)?,
        refund,
        made: made.0.zip(made.1).map(|(seq, at)| (seq.cast_unsigned(), at.cast_unsigned())),
    })
}
