//! Events for the shop's endpoints: reading them from the entries, and storing how far each endpoint has come.

use engine::{BuyerId, Event, Notice, UnixMs};
use mysql::prelude::Queryable;
use mysql::{Conn, params};

use super::read::{order_row, read_skus};
use super::replay::{Columns, last_seq};
use super::sql::{Script, hex, number};
use super::{OpenError, Options, open_reader};
use crate::ledger::RowError;
use crate::ledger::feed::Skus;
use crate::ledger::lines;
use crate::ledger::outgoing::{
    DueRefund, ENTRIES_PER_READ, EndpointChange, EndpointProgress, EventPage, Outgoing, StoredEndpoint,
    UnansweredEvent, What,
};
use crate::ledger::rows::{buyer_row, further, int, notice};

const ORDERS: &str = "
    SELECT o.sku, o.hash, o.buyer, o.buyer_high, o.quantity, o.unit_price, o.at, o.address, NULL, NULL, b.text,
        0, o.seq, o.at
    FROM orders AS o LEFT JOIN buyers AS b ON b.high = o.buyer_high AND b.low = o.buyer
    WHERE o.seq > :after AND o.seq <= :to";
const TRANSITIONS: &str = "
    SELECT STRAIGHT_JOIN o.sku, o.hash, o.buyer, o.buyer_high, o.quantity, o.unit_price, o.at, o.address, t.kind,
        t.at, b.text, 0, t.seq, t.at
    FROM transitions AS t JOIN orders AS o ON o.seq = t.order_seq
    LEFT JOIN buyers AS b ON b.high = o.buyer_high AND b.low = o.buyer
    WHERE t.seq > :after AND t.seq <= :to";
/// Orders that were given an address, as they stood then. The entries are few, so the planner is made to begin with them.
const ADDRESSED: &str = "
    SELECT STRAIGHT_JOIN o.sku, o.hash, o.buyer, o.buyer_high, o.quantity, o.unit_price, o.at, o.address, t.kind,
        t.at, b.text,
        (SELECT CAST(COALESCE(SUM(p.amount), 0) AS SIGNED) FROM payments AS p
         WHERE p.order_seq = o.seq AND p.seq <= f.seq), f.seq, f.at
    FROM (
        SELECT seq, at, CAST(JSON_EXTRACT(CONVERT(body USING utf8mb4), '$.order') AS SIGNED) AS order_seq
        FROM further_entries WHERE seq > :after AND seq <= :to AND kind = 'order_addressed'
    ) AS f JOIN orders AS o ON o.seq = f.order_seq
    LEFT JOIN buyers AS b ON b.high = o.buyer_high AND b.low = o.buyer
    LEFT JOIN transitions AS t ON t.order_seq = o.seq AND t.step =
        (SELECT MAX(s.step) FROM transitions AS s WHERE s.order_seq = o.seq AND s.seq <= f.seq)";
const DUE: &str = "
    SELECT seq, at, id, sku, hash, amount, disposition, units
    FROM payments WHERE seq > :after AND seq <= :to AND disposition NOT IN ('applied', 'paid_out')";
const SETTLED: &str = "
    SELECT STRAIGHT_JOIN e.seq, e.at, p.id, p.sku, p.hash, p.amount, p.disposition, p.units
    FROM payment_ends AS e JOIN payments AS p ON p.seq = e.payment_seq
    WHERE e.seq > :after AND e.seq <= :to AND e.kind = 'settled'
    UNION ALL
    SELECT seq, at, id, sku, hash, amount, 'requested', units
    FROM payments WHERE seq > :after AND seq <= :to AND disposition = 'paid_out'";
const ENDED: &str =
    "SELECT seq, at, sale FROM sale_events WHERE seq > :after AND seq <= :to AND kind = 'ended'";

const FURTHER: &str = "
    SELECT seq, at, kind, body FROM further_entries
    WHERE seq > :after AND seq <= :to AND kind IN ('order_rejected', 'notice')";
/// Of those who were called; the ends of turns are among them.
const TURNS: &str = "
    SELECT seq, at, body FROM further_entries WHERE seq > :after AND seq <= :to AND kind = 'line_turn'";
const TEXT: &str = "SELECT text FROM buyers WHERE high = ? AND low = ?";
/// The latest of each alone, however often an item was sold out and back.
const NOTICED_SINCE: &str = "
    SELECT MAX(at), body FROM further_entries WHERE kind = 'notice' AND at >= ?
    GROUP BY body ORDER BY MAX(seq)";

/// The payment that paid for an order, from the entry that says so: it is the entry before it, or came before the order.
const PAID_BY: &str = "
    SELECT id FROM payments WHERE seq = :entry AND disposition = 'applied'
    UNION ALL
    SELECT STRAIGHT_JOIN p.id FROM payment_ends AS e JOIN payments AS p ON p.seq = e.payment_seq
    WHERE e.seq = :entry AND e.kind = 'matched'";
/// When the order was paid whose refund this entry is: the entry before it.
const PAID_BEFORE: &str = "
    SELECT STRAIGHT_JOIN t.seq - 1 FROM payments AS r JOIN transitions AS t ON t.order_seq = r.order_seq
    WHERE r.seq = :entry AND t.kind IN (1, 4)";

/// Reads on a connection of its own, and makes another one after an error.
#[derive(Debug)]
pub struct EventReader {
    options: Box<Options>,
    connection: Option<Conn>,
    skus: Skus,
    /// Every sale that was created up to this entry is among them.
    skus_to: u64,
}

impl EventReader {
    pub(in crate::ledger) fn new(options: Box<Options>) -> EventReader {
        EventReader { options, connection: None, skus: Skus::default(), skus_to: 0 }
    }

    pub(in crate::ledger) fn last(&mut self) -> Result<u64, OpenError> {
        self.on_connection(|_, connection| Ok(last_seq(connection)?))
    }

    pub(in crate::ledger) fn read(&mut self, after: u64, to: u64) -> Result<EventPage, OpenError> {
        self.on_connection(|reader, connection| reader.read_on(connection, after, to))
    }

    pub(in crate::ledger) fn noticed_since(
        &mut self,
        at: UnixMs,
    ) -> Result<Vec<(UnixMs, Notice)>, OpenError> {
        self.on_connection(|_, connection| {
            let rows: Vec<(u64, Vec<u8>)> = connection.exec(NOTICED_SINCE, (int(at.0),))?;
            rows.into_iter().map(|(at, body)| Ok((UnixMs(at), notice(&body)?))).collect()
        })
    }

    pub(in crate::ledger) fn paid_by(&mut self, entry: u64) -> Result<Option<String>, OpenError> {
        self.on_connection(|_, connection| {
            let before: Option<u64> = connection.exec_first(PAID_BEFORE, params! { "entry" => entry })?;
            let before = before.unwrap_or(entry.saturating_sub(1));
            Ok(connection.exec_first(PAID_BY, params! { "entry" => before })?)
        })
    }

    pub(in crate::ledger) fn endpoint(&mut self, name: &str) -> Result<Option<StoredEndpoint>, OpenError> {
        self.on_connection(|_, connection| endpoint(connection, name))
    }

    fn on_connection<T>(
        &mut self,
        read: impl FnOnce(&mut EventReader, &mut Conn) -> Result<T, OpenError>,
    ) -> Result<T, OpenError> {
        let mut connection = match self.connection.take() {
            Some(connection) => connection,
            None => open_reader(&self.options)?,
        };
        let found = read(self, &mut connection);
        if found.is_ok() {
            self.connection = Some(connection);
        }
        found
    }

    fn read_on(&mut self, connection: &mut Conn, after: u64, to: u64) -> Result<EventPage, OpenError> {
        let to = last_seq(connection)?.min(to).min(after.saturating_add(ENTRIES_PER_READ));
        let mut events = EventPage { events: Vec::new(), to: to.max(after) };
        if to <= after {
            return Ok(events);
        }
        let new =
            "SELECT EXISTS (SELECT 1 FROM sale_events WHERE seq > ? AND kind IN ('created', 'line_created'))";
        if connection.exec_first(new, (self.skus_to,))? == Some(1) {
            self.skus = read_skus(connection)?;
        }
        self.skus_to = self.skus_to.max(to);
        let found = &mut events.events;
        for (query, given) in [(ORDERS, false), (TRANSITIONS, false), (ADDRESSED, true)] {
            let rows: Vec<mysql::Row> = connection.exec(query, params! { after, to })?;
            for row in rows {
                let mut columns = Columns::of(row);
                let row = order_row(&mut columns)?;
                let unknown = RowError::Unknown(format!("SKU {}", row.id.sku.0));
                let line = self.skus.line(row).ok_or(unknown)?;
                let (seq, at) = (columns.take()?, UnixMs(columns.take()?));
                let what = if given { What::Addressed(line) } else { What::Order(line) };
                found.push(Outgoing { seq, at, what });
            }
        }
        for (query, settled) in [(DUE, false), (SETTLED, true)] {
            let rows: Vec<mysql::Row> = connection.exec(query, params! { after, to })?;
            for row in rows {
                found.push(self.refund(Columns::of(row), settled)?);
            }
        }
        let rows: Vec<(u64, u64, u64)> = connection.exec(ENDED, params! { after, to })?;
        found.extend(rows.into_iter().map(|(seq, at, sale)| Outgoing {
            seq,
            at: UnixMs(at),
            what: What::SaleEnded { sale },
        }));
        let rows: Vec<(u64, u64, String, Vec<u8>)> = connection.exec(FURTHER, params! { after, to })?;
        for (seq, at, kind, body) in rows {
            let unknown = || RowError::Unknown(String::from_utf8_lossy(&body).into_owned());
            let what = self.skus.further(&further(seq, &kind, &body)?).ok_or_else(unknown)?;
            found.push(Outgoing { seq, at: UnixMs(at), what });
        }
        let rows: Vec<(u64, u64, Vec<u8>)> = connection.exec(TURNS, params! { after, to })?;
        for (seq, at, body) in rows {
            let Event::TurnOpened { sku, turn } = lines::event(lines::TURN, &body)? else { continue };
            let text = text_of(connection, turn.buyer)?;
            let unknown = || RowError::Unknown(format!("a line of SKU {}", sku.0));
            let what = self.skus.turn(sku, turn, UnixMs(at), text).ok_or_else(unknown)?;
            found.push(Outgoing { seq, at: UnixMs(at), what });
        }
        found.sort_unstable_by_key(|event| event.seq);
        Ok(events)
    }

    fn refund(&self, mut columns: Columns, settled: bool) -> Result<Outgoing, RowError> {
        let (seq, at) = (columns.take()?, UnixMs(columns.take()?));
        let (payment, order) = (columns.take()?, columns.take_order_id()?);
        let (sale, currency) = self.skus.sale(order.sku).unzip();
        let (amount, reason, units) = (columns.take()?, columns.take()?, columns.take()?);
        let payment = DueRefund { payment, order: order.to_string(), amount, sale, currency, reason, units };
        Ok(Outgoing { seq, at, what: What::Refund { payment, settled } })
    }
}

/// `None`: a number, or somebody who was erased.
fn text_of(connection: &mut Conn, buyer: BuyerId) -> Result<Option<String>, OpenError> {
    let (low, Some(high)) = buyer_row(buyer) else { return Ok(None) };
    let text: Option<Vec<u8>> = connection.exec_first(TEXT, (high, low))?;
    Ok(text.map(|text| String::from_utf8_lossy(&text).into_owned()))
}

fn endpoint(connection: &mut Conn, name: &str) -> Result<Option<StoredEndpoint>, OpenError> {
    let row = "SELECT sent_to, disabled FROM webhook_endpoints WHERE name = ?";
    let Some((sent_to, disabled)) = connection.exec_first(row, (name,))? else { return Ok(None) };
    let rows: Vec<mysql::Row> = connection.exec(
        "SELECT seq, about, since, attempts, next_at, dead, error FROM webhook_waiting \
         WHERE endpoint = ? ORDER BY seq",
        (name,),
    )?;
    let waiting = |row| {
        let mut columns = Columns::of(row);
        Ok::<_, RowError>(UnansweredEvent {
            seq: columns.take()?,
            about: columns.take()?,
            since: UnixMs(columns.take()?),
            attempts: columns.take()?,
            next_at: UnixMs(columns.take()?),
            dead: columns.take()?,
            error: columns.take()?,
        })
    };
    let waiting = rows.into_iter().map(waiting).collect::<Result<_, _>>()?;
    Ok(Some(StoredEndpoint { sent_to, disabled, waiting }))
}

/// Stores how far endpoints have come, and what was changed of them since. To do so again changes nothing.
pub(in crate::ledger::mysql) fn store_endpoints(
    script: &mut Script,
    progress: &[(String, EndpointProgress)],
    changes: &[(String, EndpointChange)],
) {
    for (endpoint, progress) in progress {
        store(script, endpoint, progress);
    }
    for (endpoint, change) in changes {
        carry_out(script, endpoint, *change);
    }
}

fn carry_out(script: &mut Script, endpoint: &str, change: EndpointChange) {
    let mut name = String::new();
    hex(&mut name, endpoint.as_bytes());
    let mut set =
        |what: &str| script.push(format!("UPDATE webhook_endpoints SET {what} WHERE name = {name}"));
    match change {
        EndpointChange::Disable => set("disabled = 1"),
        EndpointChange::Enable => set("disabled = 0"),
        EndpointChange::Replay { since } => {
            let since = int(since);
            set(&format!("sent_to = LEAST(sent_to, {since})"));
            script.push(format!("DELETE FROM webhook_waiting WHERE endpoint = {name} AND seq > {since}"));
        }
    }
}

fn store(script: &mut Script, endpoint: &str, progress: &EndpointProgress) {
    let EndpointProgress { sent_to, disabled, waiting, answered } = progress;
    let mut name = String::new();
    hex(&mut name, endpoint.as_bytes());
    let disabled = u8::from(*disabled);
    script.push(format!("REPLACE INTO webhook_endpoints VALUES ({name}, {}, {disabled})", int(*sent_to)));
    for UnansweredEvent { seq, about, since, attempts, next_at, dead, error } in waiting {
        script.row("REPLACE INTO webhook_waiting VALUES ", |text| {
            let [seq, since, next_at] = [*seq, since.0, next_at.0].map(int);
            number(text, format_args!("{name},{seq},"));
            hex(text, about.as_bytes());
            number(text, format_args!(",{since},{attempts},{next_at},{},", u8::from(*dead)));
            hex(text, error.as_bytes());
        });
    }
    let head = format!("DELETE FROM webhook_waiting WHERE endpoint = {name} AND seq IN ");
    script.lists(&head, answered, "", number);
}
