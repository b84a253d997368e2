//! Reading: orders by their ids, refunds that are due, stock, and the sales for the servers' catalogs. Nothing here
//! takes a lock; what is read was committed.

use std::collections::HashMap;

use engine::working_set::{Needs, Rejection, SkuState};
use engine::{
    Entry, Fingerprint, KeptAddress, OrderId, OrderView, PaymentView, SaleId, Sales, Seq, SkuId, Stock,
    UnixMs,
};
use mysql::prelude::Queryable;
use mysql::{Row, from_row_opt};

use super::attempt::Parts;
use super::reads::{
    ORDER_COLUMNS, ORDER_TABLES, PAYMENT_COLUMNS, order_row, payment_row, rejection_row, sku_row,
};
use super::session::{Failure, Session};
use super::{LedgerError, SharedLedger};
use crate::ledger::mysql::entries::ADDRESS_IS_OVER;
use crate::ledger::mysql::sale_entries::{entries_after, sale_entry};
use crate::ledger::mysql::sql::{Script, hex, id_bytes, id_of, unsigned};
use crate::ledger::rows::kept_address;

/// So many refunds that are due are as bad as more: counting them once a second must stay cheap.
const REFUNDS_COUNTED_MAX: u32 = 100_000;
const STOCKS: &str = "SELECT sku, total, held, sold, orders, epoch FROM sku_stock";
/// SKUs in a row from which on a prepared statement makes up for its round trip.
const PREPARED_MIN: usize = 100;

/// What stands under an order's id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recorded {
    Order { order: OrderView, fingerprint: Fingerprint },
    Rejected(Rejection),
}

/// A SKU as the ledger has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SkuRow {
    pub sku: SkuId,
    pub sale: SaleId,
    /// Of the sale's state: the latest entry about it.
    pub version: Seq,
    pub stock: Stock,
    /// Of any status.
    pub orders: u64,
    /// 0: no gate was built yet.
    pub epoch: u64,
}

/// What a statement's rows are.
#[derive(Clone, Copy, Debug)]
enum Section {
    Rejections,
    Refunds,
    Orders,
    Sales,
    Skus,
}

fn with_sales(sales: &Sales, skus: Vec<(SkuId, SkuState)>) -> Result<Vec<SkuRow>, Failure> {
    let row = |(sku, state): (SkuId, SkuState)| {
        let no_sale = || Failure::Damaged(format!("SKU {} has no sale", sku.0));
        let sale = sales.of_sku(sku).ok_or_else(no_sale)?;
        let (sale, version) = (sale.spec.id, sale.version);
        let (stock, orders, epoch) = (state.stock, state.orders, state.epoch);
        Ok(SkuRow { sku, sale, version, stock, orders, epoch })
    };
    skus.into_iter().map(row).collect()
}

pub(super) fn kept_addresses(
    session: &mut Session,
    ids: &[OrderId],
) -> Result<Vec<(OrderId, KeptAddress)>, Failure> {
    if ids.is_empty() {
        return Ok(Vec::new());
    }
    let mut script = Script::default();
    let head = format!(
        "SELECT i.id, o.address, {ADDRESS_IS_OVER} FROM order_ids AS i STRAIGHT_JOIN orders AS o ON o.seq = i.order_seq \
         WHERE i.id IN "
    );
    script.lists(&head, ids, "", |text, id| hex(text, &id_bytes(*id)));
    let mut rows = Vec::new();
    session.run(script, |_, row| {
        rows.push(row);
        Ok(())
    })?;
    let kept = |row| {
        let (id, address, over): (Vec<u8>, Option<Vec<u8>>, bool) = from_row_opt(row)?;
        let id = id_of(&id).ok_or_else(|| Failure::Damaged("an order's id".into()))?;
        Ok((id, kept_address(address, over)))
    };
    rows.into_iter().map(kept).collect()
}

impl SharedLedger {
    /// What stands under each id, in the same order; `None`: the ledger does not know it.
    ///
    /// # Errors
    /// See [`LedgerError`].
    pub fn lookup(&mut self, ids: &[OrderId]) -> Result<Vec<Option<Recorded>>, LedgerError> {
        self.attempt(|session, parts| {
            let Parts { sales, .. } = parts;
            let mut script = Script::default();
            let mut sections = Vec::new();
            let id = |text: &mut String, id: &OrderId| hex(text, &id_bytes(*id));
            let head =
                "SELECT id, at, buyer, buyer_high, quantity, fingerprint, epoch, reason FROM rejections WHERE id IN ";
            let count = script.lists(head, ids, "", id);
            sections.extend(std::iter::repeat_n(Section::Rejections, count));
            // Before the orders: a payment that came since is no matter, an order's sale must be known.
            let count = script.lists("SELECT id FROM refunds_due WHERE id IN ", ids, "", id);
            sections.extend(std::iter::repeat_n(Section::Refunds, count));
            let head = format!("SELECT {ORDER_COLUMNS} FROM {ORDER_TABLES} WHERE i.id IN ");
            let count = script.lists(&head, ids, "", id);
            sections.extend(std::iter::repeat_n(Section::Orders, count));
            // After the orders: the sale of any order that was read is here, and how it was to be paid.
            script.push(entries_after(sales.seen()));
            sections.push(Section::Sales);
            let mut rows = Vec::new();
            session.run(script, |statement, row| {
                rows.push((sections[statement], row));
                Ok(())
            })?;
            let (mut found, mut orders, mut refunds) = (HashMap::new(), Vec::new(), Vec::new());
            for (section, row) in rows {
                match section {
                    Section::Rejections => {
                        let (id, rejection) = rejection_row(row)?;
                        found.insert(id, Recorded::Rejected(rejection));
                    }
                    Section::Refunds => {
                        let (id,): (Vec<u8>,) = from_row_opt(row)?;
                        refunds.push(id_of(&id).ok_or_else(|| Failure::Damaged("a refund's order".into()))?);
                    }
                    Section::Orders => orders.push(order_row(row)?),
                    Section::Sales => sales.replay(&sale_entry::<Failure>(row)?)?,
                    Section::Skus => {}
                }
            }
            for (id, row) in orders {
                let order = row.view(sales, id, refunds.contains(&id))?;
                found.insert(id, Recorded::Order { order, fingerprint: row.fingerprint });
            }
            Ok(ids.iter().map(|id| found.get(id).copied()).collect())
        })
    }

    /// What each of these orders has of an address, those that there are, in any order.
    ///
    /// # Errors
    /// See [`LedgerError`].
    pub fn kept_addresses(&mut self, ids: &[OrderId]) -> Result<Vec<(OrderId, KeptAddress)>, LedgerError> {
        self.attempt(|session, _| kept_addresses(session, ids))
    }

    /// Payments for which a refund is due, oldest first, after the one with this number; at most `max`.
    ///
    /// # Errors
    /// See [`LedgerError`].
    pub fn refunds_due(&mut self, after: Seq, max: usize) -> Result<Vec<PaymentView>, LedgerError> {
        let query = format!(
            "SELECT {PAYMENT_COLUMNS} FROM refunds_due AS r STRAIGHT_JOIN payments AS p ON p.seq = r.payment_seq \
             LEFT JOIN payment_ends AS e ON e.payment_seq = p.seq \
             WHERE r.payment_seq > {} ORDER BY r.payment_seq LIMIT {max}",
            after.0
        );
        self.select(query, payment_row)
    }

    /// How many there are, counted up to `REFUNDS_COUNTED_MAX`.
    ///
    /// # Errors
    /// See [`LedgerError`].
    pub fn refunds_due_count(&mut self) -> Result<u64, LedgerError> {
        let query = format!(
            "SELECT COUNT(*) FROM (SELECT 1 FROM refunds_due LIMIT {REFUNDS_COUNTED_MAX}) AS counted"
        );
        let counts = self.select(query, |row| Ok(from_row_opt::<(u64,)>(row)?.0))?;
        Ok(counts.into_iter().sum())
    }

    /// All SKUs in the order of their numbers.
    ///
    /// # Errors
    /// See [`LedgerError`].
    pub fn stocks(&mut self) -> Result<Vec<SkuRow>, LedgerError> {
        self.stocks_where("")
    }

    /// Those of these SKUs, which are in the order of their numbers, that there are.
    ///
    /// # Errors
    /// See [`LedgerError`].
    pub fn stocks_of(&mut self, skus: &[SkuId]) -> Result<Vec<SkuRow>, LedgerError> {
        if skus.is_empty() {
            return Ok(Vec::new());
        }
        // A sale's SKUs have numbers in a row.
        let follows = |one: &SkuId, next: &SkuId| one.0 + 1 == next.0;
        if skus.len() >= PREPARED_MIN && skus.is_sorted_by(follows) {
            return self.stocks_between(skus[0], skus[skus.len() - 1]);
        }
        let runs = skus.chunk_by(follows);
        let ranges: Vec<String> =
            runs.map(|run| format!("sku BETWEEN {} AND {}", run[0].0, run[run.len() - 1].0)).collect();
        self.stocks_where(&format!("WHERE {} ", ranges.join(" OR ")))
    }

    fn stocks_where(&mut self, condition: &str) -> Result<Vec<SkuRow>, LedgerError> {
        self.attempt(|session, parts| {
            let Parts { sales, .. } = parts;
            let mut script = Script::default();
            script.push(format!("{STOCKS} {condition}ORDER BY sku"));
            // After the stock, so that the sale of each SKU is known.
            script.push(entries_after(sales.seen()));
            let sections = [Section::Skus, Section::Sales];
            let mut rows = Vec::new();
            session.run(script, |statement, row| {
                rows.push((sections[statement], row));
                Ok(())
            })?;
            let mut skus = Vec::new();
            for (section, row) in rows {
                if let Section::Skus = section {
                    skus.push(sku_row(row)?);
                } else {
                    sales.replay(&sale_entry::<Failure>(row)?)?;
                }
            }
            with_sales(sales, skus)
        })
    }

    /// The same of all between two, by a prepared statement: numbers that come as text take several times as long to read.
    fn stocks_between(&mut self, first: SkuId, last: SkuId) -> Result<Vec<SkuRow>, LedgerError> {
        let query = format!("{STOCKS} WHERE sku BETWEEN ? AND ? ORDER BY sku");
        self.attempt(|session, parts| {
            let Parts { sales, .. } = parts;
            let rows: Vec<Row> = session.connection.exec(query.as_str(), (first.0, last.0))?;
            // After the stock, so that the sale of each SKU is known.
            let entries: Vec<Row> = session.connection.query(entries_after(sales.seen()))?;
            for entry in entries {
                sales.replay(&sale_entry::<Failure>(entry)?)?;
            }
            with_sales(sales, rows.into_iter().map(sku_row).collect::<Result<_, _>>()?)
        })
    }

    /// The entries about sales after the one with this number, for [`engine::Sales::replay`].
    ///
    /// # Errors
    /// See [`LedgerError`].
    pub fn sale_entries(&mut self, after: Seq) -> Result<Vec<Entry>, LedgerError> {
        let continuity = self.continuity.clone();
        self.attempt(|session, _| {
            let rows: Vec<Row> = session.connection.query(entries_after(after))?;
            // Who follows them must hear if they are lost.
            if !rows.is_empty() {
                session.look_back(&continuity)?;
            }
            rows.into_iter().map(sale_entry).collect()
        })
    }

    /// Waits until whoever writes now has finished, so that a read after it shows what that came to.
    ///
    /// # Errors
    /// See [`LedgerError`].
    pub fn wait_for_writers(&mut self) -> Result<(), LedgerError> {
        self.transact(UnixMs(0), |transaction| transaction.read(Needs::default()))
    }

    /// The latest entry and its time: as far as the ledger goes.
    ///
    /// # Errors
    /// See [`LedgerError`].
    pub fn end(&mut self) -> Result<(Seq, UnixMs), LedgerError> {
        let query = "SELECT next_seq, latest_at FROM writer WHERE id = 1".to_owned();
        let rows = self.select(query, |row| {
            let (next_seq, last_at): (i64, i64) = from_row_opt(row)?;
            Ok((Seq(unsigned(next_seq) - 1), UnixMs(unsigned(last_at))))
        })?;
        let missing = || LedgerError::Damaged("the row of the writer is missing".to_owned());
        rows.into_iter().next().ok_or_else(missing)
    }
}
