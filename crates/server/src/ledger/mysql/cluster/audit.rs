//! What the shared ledger's own tables must say, checked against the book of all entries.

use std::collections::HashMap;

use engine::{Book, Disposition, OrderId, RefundReason, Seq, SkuId, Status, UnixMs};
use mysql::prelude::Queryable;
use mysql::{Conn, from_row_opt};

use super::reads::sku_row;
use super::session::Failure;
use crate::ledger::mysql::OpenError;
use crate::ledger::mysql::sql::{id_of, unsigned, who_of};

/// Lines about one table; a table that is wrong all over need not be reported row by row.
const LINES_MAX: usize = 20;

/// Adds a line for each row that the book does not bear out.
pub(in crate::ledger::mysql) fn check(
    connection: &mut Conn,
    book: &Book,
    broken: &mut Vec<String>,
) -> Result<(), OpenError> {
    for table in [stock, buyers, ids, rejections, holds, refunds] {
        let before = broken.len();
        match table(connection, book, broken) {
            Ok(()) => {}
            Err(Failure::Sql(error)) => return Err(error.into()),
            Err(Failure::Damaged(why) | Failure::Fenced(why)) => broken.push(why),
            Err(Failure::Format(found)) => broken.push(format!("the ledger has format {found} since")),
        }
        if broken.len() > before + LINES_MAX {
            let more = broken.len() - before - LINES_MAX;
            broken.truncate(before + LINES_MAX);
            broken.push(format!("and {more} more like these"));
        }
    }
    Ok(())
}

fn stock(connection: &mut Conn, book: &Book, broken: &mut Vec<String>) -> Result<(), Failure> {
    let mut count = 0;
    let query = "SELECT sku, total, held, sold, orders, epoch FROM sku_stock ORDER BY sku";
    for row in connection.query_iter(query)? {
        let (sku, state) = sku_row(row?)?;
        count += 1;
        let (stock, orders) = (book.stock(sku), book.orders_of(sku));
        if (Some(state.stock), Some(state.orders)) != (stock, orders) {
            broken.push(format!(
                "sku_stock: SKU {} has {:?} and {} orders, its entries say {stock:?} and {orders:?}",
                sku.0, state.stock, state.orders
            ));
        }
    }
    let skus: usize = book.sales().map(|sale| sale.stocks.len()).sum();
    if count != skus {
        broken.push(format!("sku_stock: {count} SKUs of {skus}"));
    }
    Ok(())
}

fn buyers(connection: &mut Conn, book: &Book, broken: &mut Vec<String>) -> Result<(), Failure> {
    let mut count = 0;
    for row in connection.query_iter("SELECT who, units FROM buyer_sku ORDER BY who")? {
        let (who, units): (Vec<u8>, u32) = from_row_opt(row?)?;
        count += 1;
        match who_of(&who) {
            Some((sku, buyer)) if book.units(sku, buyer) == units && units > 0 => {}
            Some((SkuId(sku), buyer)) => {
                broken.push(format!(
                    "buyer_sku: buyer {buyer} has {units} units of SKU {sku}, the orders say {}",
                    book.units(SkuId(sku), buyer)
                ));
            }
            None => broken.push("buyer_sku: a key of another length".to_owned()),
        }
    }
    let expected = book.units_len();
    if count != expected {
        broken.push(format!("buyer_sku: {count} rows, and {expected} buyers have units"));
    }
    Ok(())
}

fn ids(connection: &mut Conn, book: &Book, broken: &mut Vec<String>) -> Result<(), Failure> {
    let mut count = 0;
    for row in connection.query_iter("SELECT id, order_seq FROM order_ids ORDER BY id")? {
        let (id, seq): (Vec<u8>, i64) = from_row_opt(row?)?;
        count += 1;
        let order = id_of(&id).and_then(|id| book.order(id));
        if order.map(|order| order.seq) != Some(Seq(unsigned(seq))) {
            broken.push(format!("order_ids: {} is not order {seq}", shown(&id)));
        }
    }
    if count != book.orders_len() {
        broken.push(format!("order_ids: {count} ids of {} orders", book.orders_len()));
    }
    Ok(())
}

fn rejections(connection: &mut Conn, book: &Book, broken: &mut Vec<String>) -> Result<(), Failure> {
    let epochs: HashMap<u32, i64> = connection
        .query_iter("SELECT sku, epoch FROM sku_stock")?
        .map(|row| Ok(from_row_opt(row?)?))
        .collect::<Result<_, Failure>>()?;
    for row in connection.query_iter("SELECT id, epoch FROM rejections ORDER BY id")? {
        let (id, epoch): (Vec<u8>, i64) = from_row_opt(row?)?;
        // An order may have come under this id by a later reservation, at a gate of a later epoch.
        let later = |id: OrderId| epochs.get(&id.sku.0).is_some_and(|now| epoch < *now);
        if id_of(&id).is_none_or(|id| book.order(id).is_some() && !later(id)) {
            broken.push(format!("rejections: {} is an order", shown(&id)));
        }
    }
    Ok(())
}

fn holds(connection: &mut Conn, book: &Book, broken: &mut Vec<String>) -> Result<(), Failure> {
    let mut count = 0;
    let query = "SELECT order_seq, pay_by FROM open_holds ORDER BY order_seq";
    for row in connection.query_iter(query)? {
        let (seq, pay_by): (i64, i64) = from_row_opt(row?)?;
        count += 1;
        let held = book.order_at(Seq(unsigned(seq))).filter(|order| order.status == Status::Held);
        if held.and_then(|order| order.pay_by) != Some(UnixMs(unsigned(pay_by))) {
            broken.push(format!("open_holds: order {seq} is not held until {pay_by}"));
        }
    }
    let held = book.held_len();
    if count != held {
        broken.push(format!("open_holds: {count} rows, and {held} orders are held"));
    }
    Ok(())
}

fn refunds(connection: &mut Conn, book: &Book, broken: &mut Vec<String>) -> Result<(), Failure> {
    let query = "SELECT payment_seq, id FROM refunds_due ORDER BY payment_seq";
    let mut found: Vec<(Seq, Option<OrderId>)> = Vec::new();
    for row in connection.query_iter(query)? {
        let (seq, id): (i64, Vec<u8>) = from_row_opt(row?)?;
        found.push((Seq(unsigned(seq)), id_of(&id)));
    }
    let due: Vec<_> = book.refunds_due().map(|payment| (payment.seq, Some(payment.pay.order))).collect();
    if found != due {
        broken.push(format!("refunds_due: {} rows, and {} refunds are due", found.len(), due.len()));
    }
    // A payment that waits for its order must not wait any more once that is there and would take it.
    for payment in book.refunds_due() {
        let early = payment.disposition == Disposition::RefundDue(RefundReason::UnknownOrder);
        let order = book.order(payment.pay.order);
        let missed = order.is_some_and(|order| {
            order.seq > payment.seq
                && engine::rules::matches(order.status, order.amount(), payment.pay.amount)
        });
        if early && missed {
            broken.push(format!("payment {:?} came before its order and was not matched", payment.pay.id));
        }
    }
    Ok(())
}

fn shown(id: &[u8]) -> String {
    id_of(id).map_or_else(|| "a key of another length".to_owned(), |id| id.to_string())
}
