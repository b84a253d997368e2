//! Appending a batch: one transaction, one row per entry, one sync.

use std::iter::{Peekable, repeat_n};
use std::slice;
use std::sync::LazyLock;

use engine::{Entry, Event, KeptAddress, Seq};
use rusqlite::{CachedStatement, Connection, OptionalExtension, Statement, ToSql, params};

use super::buyer::BuyerColumn;
use super::checkpoint::Checkpointed;
use super::{SqliteLedger, files};
use crate::ledger::erasing::waiting_name;
use crate::ledger::rows::{
    CONFIRMED_SINCE, NOTED_AT, adjust_code, closing_code, disposition_row, further_row, int, kept_address,
    payment_end_row, sale_event_row, text_of,
};
use crate::ledger::{AppendError, Batch};

/// SQLite's extended codes of a sync that failed: of a file, and of a directory.
const SYNC_CODES: [i32; 2] = [rusqlite::ffi::SQLITE_IOERR_FSYNC, rusqlite::ffi::SQLITE_IOERR_DIR_FSYNC];
/// Not the same bytes twice: each settling is another page.
const COUNT_ROLLED_BACK: &str =
    "INSERT INTO meta VALUES ('rolled_back', 1) ON CONFLICT DO UPDATE SET value = value + 1";
/// Orders that are inserted by one statement: to run one costs about as much as a quarter of a row. With twice as many
/// little more is gained.
const ORDERS_AT_ONCE: usize = 16;
const ORDER_COLUMNS: usize = 9;
static INSERT_ORDERS: LazyLock<String> = LazyLock::new(|| insert_orders(ORDERS_AT_ONCE));
static INSERT_ORDER: LazyLock<String> = LazyLock::new(|| insert_orders(1));

fn insert_orders(rows: usize) -> String {
    let list = |item: &str, count| repeat_n(item, count).collect::<Vec<_>>().join(", ");
    let row = format!("({})", list("?", ORDER_COLUMNS));
    format!("INSERT INTO orders VALUES {}", list(&row, rows))
}

impl SqliteLedger {
    /// Appends a batch in one transaction and returns when it is synced.
    ///
    /// # Errors
    /// See [`AppendError`]; in either case the book must not be used any more.
    pub fn append(&mut self, batch: &Batch<'_>) -> Result<(), AppendError> {
        let result = append(&self.connection, batch);
        if let Err(error) = &result
            && !self.connection.is_autocommit()
            && let Err(second) = self.connection.execute_batch("ROLLBACK")
        {
            tracing::warn!(%error, %second, "the rollback failed too; the next transaction will");
        }
        result.map_err(classify)?;
        // Not before it: whoever is answered now finds the order in a file that had its name after the commit.
        self.files.check().map_err(|misplaced| AppendError::Misplaced(misplaced.into()))
    }

    /// What an order has of an address.
    ///
    /// # Errors
    /// If the ledger cannot be read.
    pub fn kept_address(&self, order: Seq) -> Result<KeptAddress, rusqlite::Error> {
        let query = "SELECT address,
                seq <= coalesce((SELECT value FROM meta WHERE name = 'addresses_purged_to'), 0)
            FROM orders WHERE seq = ?1";
        let found = |row: &rusqlite::Row<'_>| Ok((row.get::<_, Option<Vec<u8>>>(0)?, row.get(1)?));
        let found = self.connection.prepare_cached(query)?.query_row([int(order.0)], found).optional()?;
        Ok(found.map_or(KeptAddress::Missing, |(address, over)| kept_address(address, over)))
    }

    /// Takes back for good what was rolled back: to be called after [`AppendError::RolledBack`], before the book
    /// is loaded and anybody is answered from it.
    ///
    /// If SQLite fails after it wrote a commit's last frame (the WAL's index can't grow), the transaction is
    /// gone for this process, but complete in the WAL's file: a kill would bring it back, and with it an order
    /// that a buyer was refused because of what the reloaded book said. A commit of its own takes its place.
    ///
    /// # Errors
    /// As [`SqliteLedger::append`], and [`AppendError::RolledBack`] while the disk has too little room. While the disk
    /// refuses this, nothing must be accepted.
    pub fn settle_rolled_back(&self) -> Result<(), AppendError> {
        // On a disk that stays full the small commit below fits, and the next batch does not.
        if let Some(free) = files::free_bytes(&self.options.data_dir)
            && free < files::FREE_BYTES_MIN
        {
            let dir = self.options.data_dir.display();
            let needed = files::FREE_BYTES_MIN / 1024 / 1024;
            let why =
                format!("{} KiB are free on the disk of {dir}, and {needed} MiB are needed", free / 1024);
            return Err(AppendError::RolledBack(why.into()));
        }
        if !self.connection.is_autocommit() {
            self.connection.execute_batch("ROLLBACK").map_err(classify)?;
        }
        self.connection.execute(COUNT_ROLLED_BACK, []).map(|_| ()).map_err(classify)
    }

    /// What may follow a batch, after its answers: starting a checkpoint, or finishing one.
    ///
    /// # Errors
    /// [`AppendError::SyncFailed`] if a sync of the checkpoint failed.
    pub fn maintain(&mut self) -> Result<Option<Checkpointed>, AppendError> {
        self.checkpointer.step(&self.connection).map_err(classify)
    }
}

pub(super) fn classify(error: rusqlite::Error) -> AppendError {
    let sync = error.sqlite_error().is_some_and(|code| SYNC_CODES.contains(&code.extended_code));
    if sync { AppendError::SyncFailed(error.into()) } else { AppendError::RolledBack(error.into()) }
}

fn append(connection: &Connection, batch: &Batch<'_>) -> Result<(), rusqlite::Error> {
    connection.prepare_cached("BEGIN IMMEDIATE")?.execute([])?;
    let mut statements = Statements::prepare(connection, batch.entries.len())?;
    let mut addresses = batch.addresses.iter().peekable();
    let mut texts = batch.buyers.iter().peekable();
    let mut entries = batch.entries;
    while !entries.is_empty() {
        let (inserted, left) =
            entries.split_at(statements.insert_next(connection, entries, &mut addresses)?);
        for entry in inserted {
            if let Some((buyer, text)) = text_of(&mut texts, entry) {
                connection
                    .prepare_cached("INSERT INTO buyers VALUES (?1, ?2) ON CONFLICT DO NOTHING")?
                    .execute(params![BuyerColumn(buyer), text])?;
            }
        }
        entries = left;
    }
    assert!(addresses.next().is_none(), "every address belongs to an order of the batch, in order");
    assert!(texts.next().is_none(), "every text is of the buyer of an entry of the batch, in order");
    if !batch.messages.is_empty() {
        let mut insert = connection.prepare_cached("INSERT INTO messages (at, body) VALUES (?1, ?2)")?;
        for body in batch.messages {
            insert.execute(params![int(batch.at.0), body])?;
        }
    }
    connection.prepare_cached("COMMIT")?.execute([])?;
    Ok(())
}

/// Addresses of a batch that were not inserted yet.
type Addresses<'b> = Peekable<slice::Iter<'b, (Seq, Box<[u8]>)>>;

fn address_of<'b>(addresses: &mut Addresses<'b>, entry: &Entry) -> Option<&'b [u8]> {
    addresses.next_if(|(seq, _)| *seq == entry.seq).map(|(_, address)| &**address)
}

fn is_order(entry: &Entry) -> bool {
    matches!(entry.event, Event::OrderPlaced { .. })
}

/// The statements that a rush needs; the others are prepared when they come.
struct Statements<'c> {
    order: CachedStatement<'c>,
    /// Of a batch that may have so many.
    orders: Option<CachedStatement<'c>>,
    transition: CachedStatement<'c>,
}

impl<'c> Statements<'c> {
    fn prepare(connection: &'c Connection, entries: usize) -> Result<Statements<'c>, rusqlite::Error> {
        let several = (entries >= ORDERS_AT_ONCE).then(|| connection.prepare_cached(&INSERT_ORDERS));
        Ok(Statements {
            order: connection.prepare_cached(&INSERT_ORDER)?,
            orders: several.transpose()?,
            transition: connection.prepare_cached("INSERT INTO transitions VALUES (?1, ?2, ?3, ?4, ?5)")?,
        })
    }

    /// Inserts the first entry, or the first [`ORDERS_AT_ONCE`] if all of them are orders; returns how many.
    fn insert_next(
        &mut self,
        connection: &Connection,
        entries: &[Entry],
        addresses: &mut Addresses<'_>,
    ) -> Result<usize, rusqlite::Error> {
        if let Some(statement) = &mut self.orders
            && let Some(orders) = entries.get(..ORDERS_AT_ONCE)
            && orders.iter().all(is_order)
        {
            for (row, entry) in orders.iter().enumerate() {
                bind_order(statement, row * ORDER_COLUMNS, entry, address_of(addresses, entry))?;
            }
            return statement.raw_execute().map(|_rows| ORDERS_AT_ONCE);
        }
        let entry = &entries[0];
        self.insert(connection, entry, address_of(addresses, entry))?;
        Ok(1)
    }

    fn insert(
        &mut self,
        connection: &Connection,
        entry: &Entry,
        address: Option<&[u8]>,
    ) -> Result<(), rusqlite::Error> {
        match &entry.event {
            Event::OrderPlaced { .. } => {
                bind_order(&mut self.order, 0, entry, address)?;
                self.order.raw_execute()?;
            }
            Event::OrderClosed { order, how } => {
                let (seq, at) = (int(entry.seq.0), int(entry.at.0));
                self.transition.execute(params![seq, at, int(order.0), how.step(), closing_code(*how)])?;
            }
            _ => insert_rare(connection, entry, address)?,
        }
        Ok(())
    }
}

/// Binds the row of an order to the parameters that follow so many others.
fn bind_order(
    statement: &mut Statement<'_>,
    others: usize,
    entry: &Entry,
    address: Option<&[u8]>,
) -> Result<(), rusqlite::Error> {
    let Event::OrderPlaced { id, buyer, quantity, unit_price, fingerprint } = &entry.event else {
        unreachable!("the caller has seen that it is an order")
    };
    let row: [&dyn ToSql; ORDER_COLUMNS] = [
        &int(entry.seq.0),
        &int(entry.at.0),
        &id.sku.0,
        &id.hash.to_be_bytes(),
        &BuyerColumn(*buyer),
        quantity,
        &int(*unit_price),
        &fingerprint.0.cast_signed(),
        &address,
    ];
    for (column, place) in row.iter().zip(others + 1..) {
        statement.raw_bind_parameter(place, column)?;
    }
    Ok(())
}

fn insert_rare(
    connection: &Connection,
    entry: &Entry,
    address: Option<&[u8]>,
) -> Result<(), rusqlite::Error> {
    let (seq, at) = (int(entry.seq.0), int(entry.at.0));
    if let Some((sale, kind, body)) = sale_event_row(&entry.event) {
        connection
            .prepare_cached("INSERT INTO sale_events VALUES (?1, ?2, ?3, ?4, ?5)")?
            .execute(params![seq, at, int(sale.0), kind, body])?;
    } else if let Some((kind, body)) = further_row(&entry.event) {
        connection
            .prepare_cached("INSERT INTO further_entries VALUES (?1, ?2, ?3, ?4)")?
            .execute(params![seq, at, kind, body.as_bytes()])?;
        insert_beside(connection, entry, address)?;
    } else if let Some((payment, kind)) = payment_end_row(&entry.event) {
        connection.prepare_cached("INSERT INTO payment_ends VALUES (?1, ?2, ?3, ?4)")?.execute(params![
            seq,
            at,
            int(payment.0),
            kind
        ])?;
    } else if let Event::StockAdjusted { sku, how, units, key } = &entry.event {
        connection
            .prepare_cached("INSERT INTO stock_adjustments VALUES (?1, ?2, ?3, ?4, ?5, ?6)")?
            .execute(params![seq, at, sku.0, adjust_code(*how), int(*units), key])?;
    } else if let Event::PaymentRecorded { pay, disposition } = &entry.event {
        let (came_to, refund) = disposition_row(*disposition);
        let (order, units) = refund.unzip();
        connection
            .prepare_cached("INSERT INTO payments VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)")?
            .execute(params![
                seq,
                at,
                pay.id,
                pay.order.sku.0,
                pay.order.hash.to_be_bytes(),
                int(pay.amount),
                came_to,
                order,
                units
            ])?;
    } else {
        unreachable!("the other events are not rare");
    }
    Ok(())
}

/// What goes into other tables together with a row of `further_entries`.
fn insert_beside(
    connection: &Connection,
    entry: &Entry,
    address: Option<&[u8]>,
) -> Result<(), rusqlite::Error> {
    let mut note = connection.prepare_cached("INSERT OR REPLACE INTO meta VALUES (?1, ?2)")?;
    match &entry.event {
        Event::ClockCorrected { .. } => {
            // The notes are of the run of times before; the one of this run begins with it, or not at all.
            for name in [NOTED_AT, CONFIRMED_SINCE] {
                note.execute(params![name, int(entry.at.0)])?;
            }
        }
        Event::OrderAddressed { order } => {
            let address = address.expect("an address comes with its entry");
            let given = connection
                .prepare_cached("UPDATE orders SET address = ?2 WHERE seq = ?1 AND address IS NULL")?
                .execute(params![int(order.0), address])?;
            assert_eq!(given, 1, "the writer has seen that the order has no address");
        }
        Event::BuyerErased(buyer) => {
            note.execute(params![waiting_name(entry.seq), buyer.to_string()])?;
            let buyer = BuyerColumn(*buyer);
            connection.prepare_cached("DELETE FROM buyers WHERE id = ?1")?.execute([buyer])?;
        }
        Event::OrderRejected { .. }
        | Event::Noticed(_)
        | Event::OperatorAdded(_)
        | Event::OperatorRevoked(_)
        | Event::LineJoined { .. }
        | Event::LineClosed { .. }
        | Event::LineDrawn { .. }
        | Event::LineMoved { .. }
        | Event::PaceLimited { .. }
        | Event::LineMessageSet { .. }
        | Event::TurnOpened { .. }
        | Event::TurnEnded { .. }
        | Event::Operated(_) => {}
        _ => unreachable!("the other events have tables of their own"),
    }
    Ok(())
}
