//! Events for the shop's endpoints: reading them from the entries, and storing how far each endpoint has come.

use std::path::Path;

use engine::{BuyerId, Event, Notice, UnixMs};
use rusqlite::types::Type;
use rusqlite::{Connection, OptionalExtension, Row, params};

use super::append::classify;
use super::buyer::BuyerColumn;
use super::read::{order_row, read_skus};
use super::replay::{last_seq, order_id, unsigned};
use super::{OpenError, SqliteLedger, open_reader};
use crate::ledger::AppendError;
use crate::ledger::feed::{OrderLine, Skus};
use crate::ledger::lines;
use crate::ledger::outgoing::{
    DueRefund, ENTRIES_PER_READ, EndpointChange, EndpointProgress, EventPage, Outgoing, StoredEndpoint,
    UnansweredEvent, What,
};
use crate::ledger::rows::{int, notice};

const ORDERS: &str = "
    SELECT o.sku, o.hash, o.buyer, o.quantity, o.unit_price, o.at, o.address, NULL, NULL,
        (SELECT text FROM buyers AS b WHERE typeof(o.buyer) = 'blob' AND b.id = o.buyer), 0, o.seq, o.at
    FROM orders AS o WHERE o.seq > ?1 AND o.seq <= ?2";
const TRANSITIONS: &str = "
    SELECT o.sku, o.hash, o.buyer, o.quantity, o.unit_price, o.at, o.address, t.kind, t.at,
        (SELECT text FROM buyers AS b WHERE typeof(o.buyer) = 'blob' AND b.id = o.buyer), 0, t.seq, t.at
    FROM transitions AS t JOIN orders AS o ON o.seq = t.order_seq WHERE t.seq > ?1 AND t.seq <= ?2";
/// Orders that were given an address, as they stood then.
const ADDRESSED: &str = "
    SELECT o.sku, o.hash, o.buyer, o.quantity, o.unit_price, o.at, o.address, t.kind, t.at,
        (SELECT text FROM buyers AS b WHERE typeof(o.buyer) = 'blob' AND b.id = o.buyer),
        (SELECT coalesce(sum(amount), 0) FROM payments AS p WHERE p.order_seq = o.seq AND p.seq <= f.seq), f.seq, f.at
    FROM further_entries AS f JOIN orders AS o ON o.seq = CAST(f.body AS TEXT) ->> 'order'
    LEFT JOIN transitions AS t ON t.order_seq = o.seq AND t.step =
        (SELECT max(step) FROM transitions AS s WHERE s.order_seq = o.seq AND s.seq <= f.seq)
    WHERE f.seq > ?1 AND f.seq <= ?2 AND f.kind = 'order_addressed'";
const DUE: &str = "
    SELECT seq, at, id, sku, hash, amount, disposition, units
    FROM payments WHERE seq > ?1 AND seq <= ?2 AND disposition NOT IN ('applied', 'paid_out')";
const SETTLED: &str = "
    SELECT e.seq, e.at, p.id, p.sku, p.hash, p.amount, p.disposition, p.units
    FROM payment_ends AS e JOIN payments AS p ON p.seq = e.payment_seq
    WHERE e.seq > ?1 AND e.seq <= ?2 AND e.kind = 'settled'
    UNION ALL
    SELECT seq, at, id, sku, hash, amount, 'requested', units
    FROM payments WHERE seq > ?1 AND seq <= ?2 AND disposition = 'paid_out'";
const ENDED: &str = "SELECT seq, at, sale FROM sale_events WHERE seq > ?1 AND seq <= ?2 AND kind = 'ended'";
/// An order is rejected later in a shared ledger alone.
const NOTICES: &str =
    "SELECT seq, at, body FROM further_entries WHERE seq > ?1 AND seq <= ?2 AND kind = 'notice'";
/// Of those who were called; the ends of turns are among them.
const TURNS: &str =
    "SELECT seq, at, body FROM further_entries WHERE seq > ?1 AND seq <= ?2 AND kind = 'line_turn'";
const TEXT: &str = "SELECT text FROM buyers WHERE id = ?1";
/// The latest of each alone, however often an item was sold out and back.
const NOTICED_SINCE: &str = "
    SELECT MAX(at), body FROM further_entries WHERE kind = 'notice' AND at >= ?1
    GROUP BY body ORDER BY MAX(seq)";

/// The payment that paid for an order, from the entry that says so: it is the entry before it, or came before the order.
const PAID_BY: &str = "
    SELECT id FROM payments WHERE seq = ?1 AND disposition = 'applied'
    UNION ALL
    SELECT p.id FROM payment_ends AS e JOIN payments AS p ON p.seq = e.payment_seq
    WHERE e.seq = ?1 AND e.kind = 'matched'";
/// When the order was paid whose refund this entry is: the entry before it.
const PAID_BEFORE: &str = "
    SELECT t.seq - 1 FROM payments AS r JOIN transitions AS t ON t.order_seq = r.order_seq
    WHERE r.seq = ?1 AND t.kind IN (1, 4)";

/// Reads on a connection of its own, in short transactions.
#[derive(Debug)]
pub struct EventReader {
    connection: Connection,
    skus: Skus,
    /// Every sale that was created up to this entry is among them.
    skus_to: u64,
}

/// Opens a ledger to read its events.
///
/// # Errors
/// See [`OpenError`].
pub fn open_event_reader(data_dir: &Path) -> Result<EventReader, OpenError> {
    Ok(EventReader { connection: open_reader(data_dir)?, skus: Skus::default(), skus_to: 0 })
}

impl EventReader {
    pub(in crate::ledger) fn last(&self) -> Result<u64, OpenError> {
        Ok(last_seq(&self.connection)?)
    }

    pub(in crate::ledger) fn read(&mut self, after: u64, to: u64) -> Result<EventPage, OpenError> {
        let to = self.last()?.min(to).min(after.saturating_add(ENTRIES_PER_READ));
        let mut events = EventPage { events: Vec::new(), to: to.max(after) };
        if to <= after {
            return Ok(events);
        }
        self.follow_sales(to)?;
        let (range, found) = ((after, to), &mut events.events);
        self.orders(ORDERS, range, What::Order, found)?;
        self.orders(TRANSITIONS, range, What::Order, found)?;
        self.orders(ADDRESSED, range, What::Addressed, found)?;
        self.refunds(DUE, range, false, found)?;
        self.refunds(SETTLED, range, true, found)?;
        self.ended(range, found)?;
        self.notices(range, found)?;
        self.turns(range, found)?;
        found.sort_unstable_by_key(|event| event.seq);
        Ok(events)
    }

    fn follow_sales(&mut self, to: u64) -> Result<(), rusqlite::Error> {
        let new = "SELECT EXISTS (SELECT 1 FROM sale_events WHERE seq > ?1 AND kind IN ('created', 'line_created'))";
        if self.connection.prepare_cached(new)?.query_row([int(self.skus_to)], |row| row.get(0))? {
            self.skus = read_skus(&self.connection)?;
        }
        self.skus_to = self.skus_to.max(to);
        Ok(())
    }

    fn orders(
        &self,
        query: &str,
        (after, to): (u64, u64),
        what: fn(OrderLine) -> What,
        found: &mut Vec<Outgoing>,
    ) -> Result<(), rusqlite::Error> {
        let mut statement = self.connection.prepare_cached(query)?;
        let mut rows = statement.query([int(after), int(to)])?;
        while let Some(row) = rows.next()? {
            let line = self.skus.line(order_row(row)?).ok_or(rusqlite::Error::QueryReturnedNoRows)?;
            let (seq, at) = (unsigned(row, 11)?, UnixMs(unsigned(row, 12)?));
            found.push(Outgoing { seq, at, what: what(line) });
        }
        Ok(())
    }

    fn refunds(
        &self,
        query: &str,
        (after, to): (u64, u64),
        settled: bool,
        found: &mut Vec<Outgoing>,
    ) -> Result<(), rusqlite::Error> {
        let mut statement = self.connection.prepare_cached(query)?;
        let mut rows = statement.query([int(after), int(to)])?;
        while let Some(row) = rows.next()? {
            let order = order_id(row, 3)?;
            let (sale, currency) = self.skus.sale(order.sku).unzip();
            let payment = DueRefund {
                payment: row.get(2)?,
                order: order.to_string(),
                amount: unsigned(row, 5)?,
                sale,
                currency,
                reason: row.get(6)?,
                units: row.get(7)?,
            };
            let (seq, at) = (unsigned(row, 0)?, UnixMs(unsigned(row, 1)?));
            found.push(Outgoing { seq, at, what: What::Refund { payment, settled } });
        }
        Ok(())
    }

    fn ended(&self, (after, to): (u64, u64), found: &mut Vec<Outgoing>) -> Result<(), rusqlite::Error> {
        let mut statement = self.connection.prepare_cached(ENDED)?;
        let mut rows = statement.query([int(after), int(to)])?;
        while let Some(row) = rows.next()? {
            let what = What::SaleEnded { sale: unsigned(row, 2)? };
            found.push(Outgoing { seq: unsigned(row, 0)?, at: UnixMs(unsigned(row, 1)?), what });
        }
        Ok(())
    }

    fn notices(&self, (after, to): (u64, u64), found: &mut Vec<Outgoing>) -> Result<(), rusqlite::Error> {
        let mut statement = self.connection.prepare_cached(NOTICES)?;
        let mut rows = statement.query([int(after), int(to)])?;
        while let Some(row) = rows.next()? {
            let (seq, at) = (unsigned(row, 0)?, UnixMs(unsigned(row, 1)?));
            let what = self
                .skus
                .further(&Event::Noticed(read_notice(row, 2)?))
                .ok_or(rusqlite::Error::QueryReturnedNoRows)?;
            found.push(Outgoing { seq, at, what });
        }
        Ok(())
    }

    fn turns(&self, (after, to): (u64, u64), found: &mut Vec<Outgoing>) -> Result<(), rusqlite::Error> {
        let mut statement = self.connection.prepare_cached(TURNS)?;
        let mut rows = statement.query([int(after), int(to)])?;
        while let Some(row) = rows.next()? {
            let (seq, at) = (unsigned(row, 0)?, UnixMs(unsigned(row, 1)?));
            let body: Vec<u8> = row.get(2)?;
            let wrong = |error| rusqlite::Error::FromSqlConversionFailure(2, Type::Blob, Box::new(error));
            let Event::TurnOpened { sku, turn } = lines::event(lines::TURN, &body).map_err(wrong)? else {
                continue;
            };
            let text = turn.buyer.is_hash().then(|| self.text_of(turn.buyer)).transpose()?.flatten();
            let what = self.skus.turn(sku, turn, at, text).ok_or(rusqlite::Error::QueryReturnedNoRows)?;
            found.push(Outgoing { seq, at, what });
        }
        Ok(())
    }

    /// `None`: of somebody who was erased.
    fn text_of(&self, buyer: BuyerId) -> Result<Option<String>, rusqlite::Error> {
        let mut statement = self.connection.prepare_cached(TEXT)?;
        statement.query_row([BuyerColumn(buyer)], |row| row.get(0)).optional()
    }

    pub(in crate::ledger) fn noticed_since(&self, at: UnixMs) -> Result<Vec<(UnixMs, Notice)>, OpenError> {
        let mut statement = self.connection.prepare_cached(NOTICED_SINCE)?;
        let mut rows = statement.query([int(at.0)])?;
        let mut noticed = Vec::new();
        while let Some(row) = rows.next()? {
            noticed.push((UnixMs(unsigned(row, 0)?), read_notice(row, 1)?));
        }
        Ok(noticed)
    }

    pub(in crate::ledger) fn paid_by(&self, entry: u64) -> Result<Option<String>, OpenError> {
        let before =
            self.connection.prepare_cached(PAID_BEFORE)?.query_row([int(entry)], |row| unsigned(row, 0));
        let before = before.optional()?.unwrap_or(entry.saturating_sub(1));
        Ok(self.connection.prepare_cached(PAID_BY)?.query_row([int(before)], |row| row.get(0)).optional()?)
    }

    pub(in crate::ledger) fn endpoint(&self, name: &str) -> Result<Option<StoredEndpoint>, OpenError> {
        let row = "SELECT sent_to, disabled FROM webhook_endpoints WHERE name = ?1";
        let row = self.connection.query_row(row, [name], |row| Ok((unsigned(row, 0)?, row.get(1)?)));
        let Some((sent_to, disabled)) = row.optional()? else { return Ok(None) };
        let mut statement = self.connection.prepare(
            "SELECT seq, about, since, attempts, next_at, dead, error FROM webhook_waiting
             WHERE endpoint = ?1 ORDER BY seq",
        )?;
        let waiting = statement.query_map([name], waiting)?.collect::<Result<_, _>>()?;
        Ok(Some(StoredEndpoint { sent_to, disabled, waiting }))
    }
}

fn read_notice(row: &Row<'_>, column: usize) -> Result<Notice, rusqlite::Error> {
    let body: Vec<u8> = row.get(column)?;
    let wrong = |error| rusqlite::Error::FromSqlConversionFailure(column, Type::Blob, Box::new(error));
    notice(&body).map_err(wrong)
}

fn waiting(row: &Row<'_>) -> Result<UnansweredEvent, rusqlite::Error> {
    Ok(UnansweredEvent {
        seq: unsigned(row, 0)?,
        about: row.get(1)?,
        since: UnixMs(unsigned(row, 2)?),
        attempts: row.get(3)?,
        next_at: UnixMs(unsigned(row, 4)?),
        dead: row.get(5)?,
        error: row.get(6)?,
    })
}

impl SqliteLedger {
    /// Stores how far endpoints have come, and what was changed of them since: in one transaction, of its own.
    ///
    /// # Errors
    /// As [`SqliteLedger::append`], but the book stays right.
    pub fn note_progress(
        &mut self,
        progress: &[(String, EndpointProgress)],
        changes: &[(String, EndpointChange)],
    ) -> Result<(), AppendError> {
        let noted = note(&self.connection, progress, changes);
        if noted.is_err() && !self.connection.is_autocommit() {
            let rolled_back = self.connection.execute_batch("ROLLBACK");
            tracing::warn!(?rolled_back, "what was sent to the shop could not be noted");
        }
        noted.map_err(classify)
    }
}

fn note(
    connection: &Connection,
    progress: &[(String, EndpointProgress)],
    changes: &[(String, EndpointChange)],
) -> Result<(), rusqlite::Error> {
    connection.prepare_cached("BEGIN IMMEDIATE")?.execute([])?;
    for (endpoint, EndpointProgress { sent_to, disabled, waiting, answered }) in progress {
        connection
            .prepare_cached("INSERT OR REPLACE INTO webhook_endpoints VALUES (?1, ?2, ?3)")?
            .execute(params![endpoint, int(*sent_to), disabled])?;
        let mut put = connection.prepare_cached(
            "INSERT OR REPLACE INTO webhook_waiting VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
        )?;
        for UnansweredEvent { seq, about, since, attempts, next_at, dead, error } in waiting {
            let [seq, since, next_at] = [*seq, since.0, next_at.0].map(int);
            put.execute(params![endpoint, seq, about, since, attempts, next_at, dead, error])?;
        }
        let mut remove =
            connection.prepare_cached("DELETE FROM webhook_waiting WHERE endpoint = ?1 AND seq = ?2")?;
        for seq in answered {
            remove.execute(params![endpoint, int(*seq)])?;
        }
    }
    for (endpoint, change) in changes {
        let disable = "UPDATE webhook_endpoints SET disabled = ?2 WHERE name = ?1";
        match change {
            EndpointChange::Disable => connection.execute(disable, params![endpoint, true])?,
            EndpointChange::Enable => connection.execute(disable, params![endpoint, false])?,
            EndpointChange::Replay { since } => {
                let since = int(*since);
                let back = "UPDATE webhook_endpoints SET sent_to = min(sent_to, ?2) WHERE name = ?1";
                connection.execute(back, params![endpoint, since])?;
                let remove = "DELETE FROM webhook_waiting WHERE endpoint = ?1 AND seq > ?2";
                connection.execute(remove, params![endpoint, since])?
            }
        };
    }
    connection.prepare_cached("COMMIT")?.execute([])?;
    Ok(())
}
