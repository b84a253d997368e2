//! Which statements read what a transaction needs, in one round trip.
//!
//! Everything that is read comes after the lock of the writer's row and is read committed, so it is the latest.

use std::collections::BTreeMap;

use engine::working_set::{Loaded, Needs, OrderRow, Rejection, SkuState, WorkingSet};
use engine::{
    BuyerId, Disposition, Event, Fingerprint, OrderId, Pay, PaymentView, Refunded, Seq, SkuId, Stock, UnixMs,
};
use mysql::{Row, from_row_opt};

use super::leases::Lease;
use super::session::Failure;
use super::transaction::{QueueState, Transaction};
use crate::ledger::mysql::migrate::FORMAT;
use crate::ledger::mysql::sale_entries::{entries_after, sale_entry};
use crate::ledger::mysql::sql::{
    Script, bytes, hex, id_bytes, id_of, number, quoted, unsigned, who_hex, who_of,
};
use crate::ledger::rows as codes;

/// The columns that [`order_row`] reads, and where they come from.
pub(super) const ORDER_COLUMNS: &str = "i.id, o.seq, o.at, o.buyer, o.buyer_high, o.quantity, o.unit_price, o.fingerprint, \
    COALESCE(t3.kind, t2.kind, t1.kind), COALESCE(t3.at, t2.at, t1.at), \
    (SELECT CAST(SUM(f.amount) AS SIGNED) FROM payments AS f WHERE f.order_seq = o.seq), \
    (SELECT CAST(SUM(f.units) AS SIGNED) FROM payments AS f WHERE f.order_seq = o.seq)";
pub(super) const ORDER_TABLES: &str = "order_ids AS i STRAIGHT_JOIN orders AS o ON o.seq = i.order_seq \
    LEFT JOIN transitions AS t1 ON t1.order_seq = o.seq AND t1.step = 1 \
    LEFT JOIN transitions AS t2 ON t2.order_seq = o.seq AND t2.step = 2 \
    LEFT JOIN transitions AS t3 ON t3.order_seq = o.seq AND t3.step = 3";
pub(super) const PAYMENT_COLUMNS: &str = "p.seq, p.at, p.id, p.sku, p.hash, p.amount, p.disposition, p.order_seq, p.units, \
    e.kind";
const PAYMENT_ENDS: &str = "LEFT JOIN payment_ends AS e ON e.payment_seq = p.seq";

/// What a transaction wants to read. Empty lists cost nothing.
#[derive(Debug, Default)]
pub(super) struct ReadSet {
    pub(super) needs: Needs,
    pub(super) queues: Vec<String>,
}

/// What a statement's rows are.
#[derive(Clone, Copy, Debug)]
enum Section {
    None,
    Writer,
    Sales,
    Lease,
    Queues,
    Skus,
    Orders,
    Rejections,
    Refunds,
    Buyers,
    Payments,
    Adjustments,
}

impl ReadSet {
    /// Reads into the transaction's working set; the first time under a lock that is taken before.
    pub(super) fn run(self, transaction: &mut Transaction<'_>) -> Result<(), Failure> {
        let lease = transaction.lease;
        let lock = (!transaction.set.begun()).then_some(lease);
        let (script, sections) = self.script(&transaction.set, lock, transaction.session.begin());
        let ReadSet { needs, queues: _ } = self;
        if sections.is_empty() {
            return Ok(transaction.set.load(needs, Loaded::default())?);
        }
        let mut rows = Vec::new();
        transaction.session.run(script, |statement, row| {
            rows.push((sections[statement], row));
            Ok(())
        })?;
        let mut found = Loaded::default();
        let mut leased = lock.flatten().is_none();
        for (section, row) in rows {
            match section {
                Section::None => {}
                Section::Writer => {
                    let (next_seq, last_at, format): (i64, i64, i64) = from_row_opt(row)?;
                    if format != FORMAT {
                        return Err(Failure::Format(format));
                    }
                    transaction.set.begin(Seq(unsigned(next_seq)), UnixMs(unsigned(last_at)));
                }
                Section::Lease => {
                    let (owner, generation): (i64, i64) = from_row_opt(row)?;
                    leased = lease.is_some_and(|lease| lease.is(unsigned(owner), unsigned(generation)));
                }
                Section::Sales => transaction.set.follow(&sale_entry::<Failure>(row)?)?,
                Section::Queues => {
                    let (queue, next_offset, owner, generation): (String, i64, i64, i64) = from_row_opt(row)?;
                    let [next_offset, owner, generation] = [next_offset, owner, generation].map(unsigned);
                    transaction.queues.insert(queue, QueueState { next_offset, owner, generation });
                }
                section => take(&mut found, section, row)?,
            }
        }
        if !leased {
            let name = lease.map(|lease| lease.name.clone()).unwrap_or_default();
            return Err(Failure::Fenced(format!("the task {name}")));
        }
        if !transaction.set.begun() {
            return Err(Failure::Damaged("the row of the writer is missing".to_owned()));
        }
        Ok(transaction.set.load(needs, found)?)
    }

    fn script(
        &self,
        set: &WorkingSet<'_>,
        lock: Option<Option<&Lease>>,
        begin: Option<String>,
    ) -> (Script, Vec<Section>) {
        let needs = &self.needs;
        let mut script = Script::default();
        let mut sections = Vec::new();
        let mut one = |script: &mut Script, section, statement: String| {
            script.push(statement);
            sections.push(section);
        };
        if let Some(lease) = lock {
            begin.into_iter().for_each(|begin| one(&mut script, Section::None, begin));
            one(&mut script, Section::None, "START TRANSACTION".to_owned());
            let writer = "SELECT next_seq, latest_at, format FROM writer WHERE id = 1 FOR UPDATE";
            one(&mut script, Section::Writer, writer.to_owned());
            one(&mut script, Section::Sales, entries_after(set.sales().seen()));
            if let Some(lease) = lease {
                one(&mut script, Section::Lease, lease.query());
            }
        }
        let mut lists = |count: usize, section| sections.extend(std::iter::repeat_n(section, count));
        let queues = "SELECT queue, next_offset, owner, generation FROM queue_offsets WHERE queue IN ";
        let count = script.lists(queues, &self.queues, " FOR UPDATE", |text, queue| quoted(text, queue));
        lists(count, Section::Queues);
        let skus = "SELECT sku, total, held, sold, orders, epoch FROM sku_stock WHERE sku IN ";
        let skus =
            script.lists(skus, &needs.skus, " ORDER BY sku FOR UPDATE", |text, sku| number(text, sku.0));
        lists(skus, Section::Skus);
        let id = |text: &mut String, id: &OrderId| hex(text, &id_bytes(*id));
        let head = format!("SELECT {ORDER_COLUMNS} FROM {ORDER_TABLES} WHERE i.id IN ");
        lists(script.lists(&head, &needs.orders, "", id), Section::Orders);
        let head = "SELECT id, at, buyer, buyer_high, quantity, fingerprint, epoch, reason FROM rejections WHERE id IN ";
        lists(script.lists(head, &needs.orders, "", id), Section::Rejections);
        let head = format!(
            "SELECT {PAYMENT_COLUMNS} FROM refunds_due AS r STRAIGHT_JOIN payments AS p ON p.seq = r.payment_seq \
             {PAYMENT_ENDS} WHERE r.id IN "
        );
        lists(script.lists(&head, &needs.orders, " ORDER BY p.seq", id), Section::Refunds);
        let head = "SELECT who, units FROM buyer_sku WHERE who IN ";
        let who = |text: &mut String, (sku, buyer): &(SkuId, BuyerId)| who_hex(text, *sku, *buyer);
        lists(script.lists(head, &needs.buyers, "", who), Section::Buyers);
        let head = format!("SELECT {PAYMENT_COLUMNS} FROM payments AS p {PAYMENT_ENDS} WHERE p.id IN ");
        let payment = |text: &mut String, id: &str| bytes(text, id.as_bytes());
        lists(script.lists(&head, needs.payments.iter().map(|id| &**id), "", payment), Section::Payments);
        // One key may move many SKUs; those of a list are looked up by the index, and pairs would not be.
        let mut of_key: BTreeMap<&str, Vec<SkuId>> = BTreeMap::new();
        for (sku, key) in &needs.adjustments {
            of_key.entry(key).or_default().push(*sku);
        }
        for (key, skus) in of_key {
            let mut head = "SELECT sku, `key`, kind, units FROM stock_adjustments WHERE `key` = ".to_owned();
            bytes(&mut head, key.as_bytes());
            head.push_str(" AND sku IN ");
            lists(script.lists(&head, skus, "", |text, sku| number(text, sku.0)), Section::Adjustments);
        }
        (script, sections)
    }
}

/// Takes in one row of what the rules need.
fn take(found: &mut Loaded, section: Section, row: Row) -> Result<(), Failure> {
    match section {
        Section::None | Section::Writer | Section::Sales | Section::Lease | Section::Queues => {
            unreachable!("these are no rows of the rules")
        }
        Section::Skus => found.skus.push(sku_row(row)?),
        Section::Orders => found.orders.push(order_row(row)?),
        Section::Rejections => found.rejections.push(rejection_row(row)?),
        Section::Refunds => found.refunds.push(payment_row(row)?),
        Section::Payments => found.payments.push(payment_row(row)?),
        Section::Buyers => {
            let (who, units): (Vec<u8>, u32) = from_row_opt(row)?;
            let who = who_of(&who).ok_or_else(|| Failure::Damaged("a buyer's key".to_owned()))?;
            found.units.push((who, units));
        }
        Section::Adjustments => {
            let (sku, key, kind, units): (u32, String, String, i64) = from_row_opt(row)?;
            let event = codes::adjustment(SkuId(sku), &kind, unsigned(units), &key)?;
            let Event::StockAdjusted { sku, how, units, key } = event else {
                unreachable!("a row of this table is an adjustment")
            };
            found.adjustments.push(((sku, key), (how, units)));
        }
    }
    Ok(())
}

pub(super) fn sku_row(row: Row) -> Result<(SkuId, SkuState), Failure> {
    let (sku, total, held, sold, orders, epoch): (u32, i64, i64, i64, i64, i64) = from_row_opt(row)?;
    let [total, held, sold, orders, epoch] = [total, held, sold, orders, epoch].map(unsigned);
    let stock = Stock::of(total, held, sold)
        .ok_or_else(|| Failure::Damaged(format!("SKU {sku} holds and sold more than its total")))?;
    Ok((SkuId(sku), SkuState { stock, orders, epoch }))
}

pub(super) fn order_row(row: Row) -> Result<(OrderId, OrderRow), Failure> {
    type Columns = (
        Vec<u8>,
        i64,
        i64,
        i64,
        Option<i64>,
        u32,
        i64,
        i64,
        Option<u8>,
        Option<i64>,
        Option<i64>,
        Option<u32>,
    );
    let (id, seq, at, low, high, quantity, unit_price, fingerprint, kind, closed_at, amount, units): Columns =
        from_row_opt(row)?;
    let id = id_of(&id).ok_or_else(|| Failure::Damaged("an order's id".to_owned()))?;
    let closed = match (kind, closed_at) {
        (Some(kind), Some(at)) => {
            let how = codes::closing(kind)
                .ok_or_else(|| Failure::Damaged(format!("order {id} was closed by {kind}")))?;
            Some((how, UnixMs(unsigned(at))))
        }
        _ => None,
    };
    let order = OrderRow {
        seq: Seq(unsigned(seq)),
        at: UnixMs(unsigned(at)),
        buyer: codes::buyer(low, high)?,
        quantity,
        unit_price: unsigned(unit_price),
        fingerprint: Fingerprint(unsigned(fingerprint)),
        closed,
        refunded: Refunded { amount: amount.map_or(0, unsigned), units: units.unwrap_or(0) },
    };
    Ok((id, order))
}

pub(super) fn rejection_row(row: Row) -> Result<(OrderId, Rejection), Failure> {
    type Columns = (Vec<u8>, i64, i64, Option<i64>, u32, i64, i64, String);
    let (id, at, low, high, quantity, fingerprint, epoch, reason): Columns = from_row_opt(row)?;
    let id = id_of(&id).ok_or_else(|| Failure::Damaged("a rejection's id".to_owned()))?;
    let reason = codes::rejection_reason(&reason)
        .ok_or_else(|| Failure::Damaged(format!("order {id} was rejected for {reason:?}")))?;
    let rejection = Rejection {
        at: UnixMs(unsigned(at)),
        buyer: codes::buyer(low, high)?,
        quantity,
        fingerprint: Fingerprint(unsigned(fingerprint)),
        epoch: unsigned(epoch),
        reason,
    };
    Ok((id, rejection))
}

pub(super) fn payment_row(row: Row) -> Result<PaymentView, Failure> {
    type Columns = (i64, i64, String, u32, Vec<u8>, i64, String, Option<i64>, Option<u32>, Option<String>);
    let (seq, at, id, sku, hash, amount, came_to, order, units, ended): Columns = from_row_opt(row)?;
    let damaged = |what: &str| Failure::Damaged(format!("payment {seq}: {what}"));
    let hash: [u8; 16] = hash.try_into().map_err(|_bytes| damaged("its order's id"))?;
    let pay = Pay { id: id.into(), order: codes::order_id(sku, hash), amount: unsigned(amount) };
    let Event::PaymentRecorded { pay, disposition } =
        codes::payment(pay, &came_to, order.map(unsigned).zip(units))?
    else {
        unreachable!("a row of this table is a payment")
    };
    let disposition = match (disposition, ended.as_deref()) {
        (disposition, None) => disposition,
        (Disposition::RefundDue(_), Some("matched")) => Disposition::Applied,
        (Disposition::RefundDue(reason), Some("settled")) => Disposition::Settled(reason),
        _ => return Err(damaged("it ended as no payment can")),
    };
    Ok(PaymentView { pay, seq: Seq(unsigned(seq)), at: UnixMs(unsigned(at)), disposition })
}
