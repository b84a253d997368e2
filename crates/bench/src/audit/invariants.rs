//! The audit as a gate: after a run, the ledger is read whole, by our own statements, and every sum and every
//! acknowledged order is checked. A figure whose audit is broken is never printed.
//!
//! Checked: initial = remaining + held + sold, with the remaining units as the *serving* side sells them (the book, or
//! the gate) and held and sold as the *ledger's* rows give them; no order twice; none negative; each id that a buyer
//! was given is a row; and the rows are as many as were acknowledged, plus at most the unknown ones. The ledger is
//! scanned in parts by the first byte of the ids, so that memory has a bound whatever its size.

use std::collections::HashSet;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};

use super::receipts::Receipts;
use super::{Answered, Ledger};
use crate::drivers::http::once;
use crate::report::model::Audit;
use crate::target::engines::mariadb::Database;

/// Ids in memory at once: some 100 MB of them.
const PART_ORDERS_MAX: u64 = 2_000_000;
/// A server's copy of the gate's stock is at most half a second old.
const SETTLE_PATIENCE: Duration = Duration::from_secs(10);
const SETTLE_POLL: Duration = Duration::from_millis(50);

/// A queue that gives the ledger nothing for so long has nothing more for it. Longer than an open reservation waits
/// until it is rolled forward, and than a dead server keeps its queues.
pub const STILL: Duration = Duration::from_secs(30);
const STILL_POLL: Duration = Duration::from_millis(500);

/// Units as the ledger's rows give them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Units {
    pub initial: u64,
    /// Ordered, and neither paid nor given back.
    pub held: u64,
    pub sold: u64,
}

/// A ledger that can be read from outside.
pub trait Rows {
    fn units(&mut self) -> anyhow::Result<Units>;
    fn count(&mut self) -> anyhow::Result<u64>;
    /// Calls `each` with the hash of every order.
    fn hashes(&mut self, each: &mut dyn FnMut(u128)) -> anyhow::Result<()>;
}

/// Where the serving side says how many units it would still sell.
#[derive(Debug, Clone, Copy)]
pub struct Stock {
    pub server: SocketAddr,
    pub product: u64,
}

impl Stock {
    pub fn remaining(self) -> anyhow::Result<u64> {
        let path = format!("/cache/stock?productId={}", self.product);
        let answer = once::exchange(self.server, &once::encode("GET", &path, &[], &[])).context(path)?;
        ensure!(answer.status == 200, "asking for the stock: {}", answer.text());
        let text = String::from_utf8_lossy(&answer.body).into_owned();
        text.trim().parse().with_context(|| format!("AUDIT FAILED: the stock is said to be {text}"))
    }
}

/// Until requests with an unknown outcome are orders, or will never be: only then do gate and ledger agree.
pub fn wait_until_still(ledger: &mut dyn Rows, answered: Answered, stop: &AtomicBool) -> anyhow::Result<()> {
    let (mut orders, mut grown) = (ledger.count()?, Instant::now());
    while orders < answered.accepted + answered.unknown && grown.elapsed() < STILL {
        ensure!(!stop.load(Ordering::Relaxed), "stopped by a signal");
        std::thread::sleep(STILL_POLL);
        let now = ledger.count()?;
        if now > orders {
            (orders, grown) = (now, Instant::now());
        }
    }
    Ok(())
}

pub fn none_rejected(ledger: &mut Database) -> anyhow::Result<()> {
    let rejected = ledger.count("rejections")?;
    ensure!(rejected == 0, "AUDIT FAILED: {rejected} accepted orders were rejected by the ledger");
    Ok(())
}

/// Of a ledger at rest, or of the embedded profile's, which is read while the server runs. One product is on sale.
pub fn audit(
    ledger: &mut dyn Rows,
    stock: Stock,
    answered: Answered,
    receipts: &mut Receipts,
) -> anyhow::Result<Audit> {
    let orders = acknowledged(ledger, answered, receipts)?;
    let (units, remaining) = settled(ledger, stock)?;
    Ok(Audit {
        initial_units: units.initial,
        remaining_units: remaining,
        held_units: units.held,
        sold_units: units.sold,
        accepted: answered.accepted,
        unknown: answered.unknown,
        orders,
        method:
            "the id of every acknowledged order looked up in the ledger; units held and sold summed from its \
                 rows, the remaining ones as the server sells them"
                .to_owned(),
    })
}

/// How many orders the ledger holds: every acknowledged one by its id, none twice, and none that nobody was given.
pub fn acknowledged(
    ledger: &mut dyn Rows,
    answered: Answered,
    receipts: &mut Receipts,
) -> anyhow::Result<u64> {
    let kept = receipts.count();
    ensure!(
        receipts.unreadable == 0 && kept == answered.accepted,
        "AUDIT FAILED: {} orders were accepted, {kept} of them with an id and {} without",
        answered.accepted,
        receipts.unreadable
    );
    let orders = ledger.count()?;
    answered.check(orders)?;
    let matched = compare(ledger, orders, receipts, 0)?;
    ensure!(matched.twice == 0, "AUDIT FAILED: {} orders are in the ledger twice", matched.twice);
    ensure!(
        matched.lost.is_empty(),
        "AUDIT FAILED: {} acknowledged orders are not in the ledger, one of them {:032x}",
        matched.lost.len(),
        matched.lost[0]
    );
    ensure!(
        matched.found == kept,
        "AUDIT FAILED: {kept} orders were acknowledged under {} different ids",
        matched.found
    );
    Ok(orders)
}

/// The sums, once both sides agree; a copy of the stock may be a moment old.
fn settled(ledger: &mut dyn Rows, stock: Stock) -> anyhow::Result<(Units, u64)> {
    let begun = Instant::now();
    loop {
        let (units, remaining) = (ledger.units()?, stock.remaining()?);
        let Units { initial, held, sold } = units;
        if remaining + held + sold == initial {
            return Ok((units, remaining));
        }
        if begun.elapsed() > SETTLE_PATIENCE {
            bail!(
                "AUDIT FAILED: of {initial} units {remaining} remain, {held} are held and {sold} sold, which is {}",
                remaining + held + sold
            );
        }
        std::thread::sleep(SETTLE_POLL);
    }
}

/// What a ledger and receipts have in common.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Matched {
    /// Different acknowledged ids that are rows.
    pub found: u64,
    /// Acknowledged, and no row.
    pub lost: Vec<u128>,
    /// Rows whose id another row has.
    pub twice: u64,
}

/// Looks up each receipt from number `first` on.
pub fn compare(
    ledger: &mut dyn Rows,
    orders: u64,
    receipts: &mut Receipts,
    first: u64,
) -> anyhow::Result<Matched> {
    let mut matched = Matched::default();
    for part in parts(orders) {
        let mut missing = receipts.hashes(first, &part).context("reading the receipts")?;
        let expected = missing.len();
        let mut seen = HashSet::new();
        ledger.hashes(&mut |hash| {
            if part.contains(&hash.to_be_bytes()[0]) {
                matched.twice += u64::from(!seen.insert(hash));
                missing.remove(&hash);
            }
        })?;
        matched.found += u64::try_from(expected - missing.len())?;
        matched.lost.extend(missing);
    }
    Ok(matched)
}

/// Ranges of first bytes, so that each holds about as many orders as may be in memory at once.
fn parts(orders: u64) -> Vec<std::ops::RangeInclusive<u8>> {
    let count = u16::try_from(orders.div_ceil(PART_ORDERS_MAX)).unwrap_or(u16::MAX).clamp(1, 256);
    let bound = |index: u16| u32::from(index) * 256 / u32::from(count);
    (0..count)
        .map(|index| {
            let byte = |value: u32| u8::try_from(value).expect("a bound of a byte's range");
            byte(bound(index))..=byte(bound(index + 1) - 1)
        })
        .collect()
}

impl Rows for Ledger {
    fn units(&mut self) -> anyhow::Result<Units> {
        // Paid, and paid late, end as sold; cancelled and expired as given back; without any of these it is held.
        let sums: [i64; 3] = self.connection.query_row(
            "WITH ends AS (SELECT order_seq, kind FROM transitions AS t WHERE step =
                           (SELECT max(step) FROM transitions WHERE order_seq = t.order_seq))
             SELECT (SELECT coalesce(sum(json_extract(item.value, '$.total')), 0)
                     FROM sale_events, json_each(body, '$.items') AS item WHERE kind IN ('created', 'line_created'))
                  + (SELECT coalesce(sum(units), 0) FROM stock_adjustments),
                    coalesce(sum(quantity) FILTER (WHERE ends.kind IS NULL), 0),
                    coalesce(sum(quantity) FILTER (WHERE ends.kind IN (1, 4)), 0)
             FROM orders LEFT JOIN ends ON ends.order_seq = orders.seq",
            [],
            |row| Ok([row.get(0)?, row.get(1)?, row.get(2)?]),
        )?;
        let negative = sums.into_iter().find(|units| *units < 0);
        ensure!(negative.is_none(), "AUDIT FAILED: {negative:?} units");
        let [initial, held, sold] = sums.map(i64::unsigned_abs);
        Ok(Units { initial, held, sold })
    }

    fn count(&mut self) -> anyhow::Result<u64> {
        Ok(self.orders_recounted()?)
    }

    fn hashes(&mut self, each: &mut dyn FnMut(u128)) -> anyhow::Result<()> {
        let mut statement = self.connection.prepare("SELECT hash FROM orders")?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            each(u128::from_be_bytes(row.get(0)?));
        }
        Ok(())
    }
}

impl Rows for Database {
    fn units(&mut self) -> anyhow::Result<Units> {
        // Paid, and paid late, end as sold; cancelled and expired as given back; without any of these it is held.
        let sums = self.rows(
            "SELECT (SELECT CAST(COALESCE(SUM(total), 0) AS UNSIGNED) FROM sku_stock),
                    CAST(COALESCE(SUM(IF(ends.kind IS NULL, quantity, 0)), 0) AS UNSIGNED),
                    CAST(COALESCE(SUM(IF(ends.kind IN (1, 4), quantity, 0)), 0) AS UNSIGNED)
             FROM orders LEFT JOIN (
                 SELECT order_seq, kind FROM transitions AS t WHERE step =
                     (SELECT MAX(step) FROM transitions WHERE order_seq = t.order_seq)
             ) AS ends ON ends.order_seq = orders.seq",
        )?;
        let (initial, held, sold) = *sums.first().context("a sum has one row")?;
        Ok(Units { initial, held, sold })
    }

    fn count(&mut self) -> anyhow::Result<u64> {
        Database::count(self, "orders")
    }

    fn hashes(&mut self, each: &mut dyn FnMut(u128)) -> anyhow::Result<()> {
        self.order_hashes(each)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Shelf(Vec<u128>);

    impl Rows for Shelf {
        fn units(&mut self) -> anyhow::Result<Units> {
            Ok(Units::default())
        }

        fn count(&mut self) -> anyhow::Result<u64> {
            Ok(self.0.len() as u64)
        }

        fn hashes(&mut self, each: &mut dyn FnMut(u128)) -> anyhow::Result<()> {
            self.0.iter().copied().for_each(each);
            Ok(())
        }
    }

    #[test]
    fn lost_and_doubled_orders_are_found_in_every_part() {
        let folder = tempfile::tempdir().unwrap();
        let mut receipts = Receipts::create(&folder.path().join("receipts")).unwrap();
        let hash = |n: u128| n << 120 | n;
        for n in 0..=255 {
            receipts.keep(format!(r#"{{"id":"00000000{:032x}"}}"#, hash(n)).as_bytes());
        }
        let mut shelf = Shelf((0..=255).filter(|n| *n != 77).map(hash).collect());
        shelf.0.push(hash(200));
        shelf.0.push(5);
        for orders in [0, PART_ORDERS_MAX * 7, u64::MAX] {
            let matched = compare(&mut shelf, orders, &mut receipts, 0).unwrap();
            assert_eq!(matched, Matched { found: 255, lost: vec![hash(77)], twice: 1 }, "{orders}");
        }
    }

    #[test]
    fn parts_cover_every_byte_once() {
        for orders in [0, 1, PART_ORDERS_MAX, PART_ORDERS_MAX + 1, PART_ORDERS_MAX * 100, u64::MAX] {
            let bytes: Vec<u8> = parts(orders).into_iter().flatten().collect();
            assert!(bytes.iter().copied().eq(0..=255), "{orders}: {bytes:?}");
        }
    }

    #[test]
    fn units_are_summed_by_what_became_of_each_order() {
        let folder = tempfile::tempdir().unwrap();
        let writer = rusqlite::Connection::open(folder.path().join("ledger.db")).unwrap();
        writer
            .execute_batch(
                r#"CREATE TABLE orders(seq INTEGER PRIMARY KEY, quantity, hash);
                   CREATE TABLE transitions(order_seq, step, kind);
                   CREATE TABLE stock_adjustments(units);
                   CREATE TABLE sale_events(kind, body);
                   INSERT INTO sale_events VALUES ('created', '{"items":[{"total":100},{"total":50}]}'),
                                                  ('paused', '{}');
                   INSERT INTO stock_adjustments VALUES (7), (-2);
                   INSERT INTO orders(seq, quantity) VALUES (1, 1), (2, 2), (3, 4), (4, 8), (5, 16);
                   INSERT INTO transitions VALUES (2, 1, 1), (3, 1, 2), (4, 1, 3), (5, 1, 3), (5, 2, 4);"#,
            )
            .unwrap();
        let units = Ledger::open(folder.path()).unwrap().units().unwrap();
        assert_eq!(units, Units { initial: 155, held: 1, sold: 18 });
    }
}
