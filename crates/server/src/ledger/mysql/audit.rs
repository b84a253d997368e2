//! Checking a ledger of either profile, while servers write it or not.

use engine::draw::LedgerSecret;
use engine::{Book, Entry, LedgerKind};
use mysql::Conn;
use mysql::prelude::Queryable;

use super::book::{WriterRow, roll_back};
use super::cluster::audit as shared_audit;
use super::profile::{self, Profile};
use super::replay::{last_seq, replay_to, secret};
use super::{LoadError, OpenError, Options, open_reader};
use crate::ledger::buyers::check_texts;
use crate::ledger::{Audit, rows};

/// Checks every invariant over the whole ledger, as of the moment of the call, while a server writes it or not.
///
/// # Errors
/// If the ledger cannot be opened or read. A broken invariant is no error but the audit's result.
pub fn audit(options: &Options) -> Result<Audit, OpenError> {
    audit_each(options, None, &mut |_book, _entry| {})
}

/// Checks every invariant over the ledger up to an entry, while a server writes it or not; `None`: as of the moment of the call.
/// Calls `each` after every entry.
///
/// # Errors
/// If the ledger cannot be opened or read, or ends before `to`. A broken invariant is no error but the audit's result.
pub(in crate::ledger) fn audit_each(
    options: &Options,
    to: Option<u64>,
    each: &mut dyn FnMut(&Book, &Entry),
) -> Result<Audit, OpenError> {
    let mut connection = open_reader(options)?;
    // One snapshot of the two, or a running server would seem to be ahead of itself.
    connection.query_drop("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")?;
    connection.query_drop("START TRANSACTION WITH CONSISTENT SNAPSHOT")?;
    let writer = WriterRow::read(&mut connection)?;
    let last = last_seq(&mut connection)?;
    let shared = profile::of(&mut connection)? == Some(Profile::Cluster);
    let mut broken = Vec::new();
    let kind = if shared { LedgerKind::Gated } else { LedgerKind::Book };
    let mut book = Book::new();
    book.set_ledger_secret(LedgerSecret(secret(&mut connection)?.unwrap_or_default()));
    if let Some(since) = to.filter(|to| *to > last) {
        return Err(OpenError::CursorAhead { since, last });
    }
    let up_to = to.unwrap_or(last);
    let replayed = replay_to(&mut connection, up_to, |entry| {
        book.replay(kind, &entry).map_err(LoadError::from)?;
        each(&book, &entry);
        Ok(())
    });
    match replayed {
        Ok(()) => {}
        Err(LoadError::MySql(error)) => return Err(error.into()),
        Err(LoadError::Row(error)) => broken.push(format!("a row makes no sense: {error}")),
        Err(LoadError::Inconsistent(found)) => broken.push(found.to_string()),
        Err(other @ (LoadError::Sequence { .. } | LoadError::Fenced(_))) => broken.push(other.to_string()),
    }
    if u64::try_from(writer.next_seq).ok() != last.checked_add(1) {
        broken.push(LoadError::Sequence { next: writer.next_seq, last }.to_string());
    }
    check_buyers(&mut connection, &mut broken)?;
    // The tables of the state as of this snapshot, so they can be held against all entries and no fewer.
    if shared && up_to == last && broken.is_empty() {
        shared_audit::check(&mut connection, &book, &mut broken)?;
    }
    roll_back(&mut connection)?;
    Ok(Audit::of(&book, up_to, broken))
}

/// Every buyer who is a hash has a text unless they were erased after the order, and it is theirs. Costs a pass over the orders.
fn check_buyers(connection: &mut Conn, broken: &mut Vec<String>) -> Result<(), OpenError> {
    let without: Option<u64> = connection.query_first(
        "SELECT COUNT(*) FROM orders AS o LEFT JOIN buyers AS b ON b.high = o.buyer_high AND b.low = o.buyer \
         WHERE o.buyer_high IS NOT NULL AND b.text IS NULL \
         AND NOT EXISTS (SELECT 1 FROM further_entries AS f WHERE f.seq > o.seq AND f.kind = 'buyer_erased' \
             AND JSON_UNQUOTE(JSON_EXTRACT(CONVERT(f.body USING utf8mb4), '$.buyer')) = \
                 LOWER(CONCAT(LPAD(HEX(o.buyer_high), 16, '0'), LPAD(HEX(o.buyer), 16, '0'))))",
    )?;
    if without != Some(0) {
        broken.push(format!("{} orders are of buyers who are hashes and have no text", without.unwrap_or(0)));
    }
    let secret = secret(connection)?;
    let rows: Vec<(i64, i64, Vec<u8>)> = connection.query("SELECT high, low, text FROM buyers")?;
    let mut texts = Vec::with_capacity(rows.len());
    for (high, low, text) in rows {
        texts.push((rows::buyer(low, Some(high))?, String::from_utf8_lossy(&text).into_owned()));
    }
    check_texts(secret, texts, broken);
    Ok(())
}
