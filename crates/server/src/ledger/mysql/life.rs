//! Reading one order's life.

use mysql::prelude::Queryable;
use mysql::{Conn, Row};

use super::{OpenError, Options, open_reader};
use crate::ledger::RowError;
use crate::ledger::life::{
    LifeRows, OrderLife, RefundRow, RefundStep, order_query, paid_at, paid_by_query, refunds_made_query,
    refunds_query, transitions_query,
};
use crate::ledger::mysql::replay::Columns;

/// `None`: the entry is no order's.
///
/// # Errors
/// See [`OpenError`].
pub(in crate::ledger) fn order_life(options: &Options, order: u64) -> Result<Option<OrderLife>, OpenError> {
    let mut connection = open_reader(options)?;
    let Some(row) = connection.query_first::<Row, _>(order_query(order))? else { return Ok(None) };
    let mut columns = Columns::of(row);
    let (id, placed_at) = (columns.take_order_id()?, columns.take()?);
    let transitions: Vec<(u64, u64, u8)> = connection.query(transitions_query(order))?;
    let paid_by = paid_at(&transitions).map(|paid| connection.query_first(paid_by_query(paid)));
    let paid_by = paid_by.transpose()?.flatten();
    let mut refunds = refund_rows(&mut connection, refunds_query(order))?;
    refunds.extend(refund_rows(&mut connection, refunds_made_query(order))?);
    let rows = LifeRows { seq: order, id, placed_at, transitions, paid_by, refunds };
    let mut life = rows.into_life()?;
    let actions: Vec<(u64, Vec<u8>)> = connection.query(life.operated_query())?;
    life.note_operators(&actions)?;
    Ok(Some(life))
}

fn refund_rows(connection: &mut Conn, query: String) -> Result<Vec<RefundRow>, OpenError> {
    let rows: Vec<Row> = connection.query(query)?;
    let refund = |row| {
        let mut columns = Columns::of(row);
        let (seq, at) = (columns.take()?, columns.take()?);
        let refund = RefundStep { id: columns.take()?, amount: columns.take()?, units: columns.take()? };
        let made: (Option<u64>, Option<u64>) = (columns.take()?, columns.take()?);
        Ok(RefundRow { seq, at, refund, made: made.0.zip(made.1) })
    };
    let rows: Result<Vec<_>, RowError> = rows.into_iter().map(refund).collect();
    Ok(rows?)
}
