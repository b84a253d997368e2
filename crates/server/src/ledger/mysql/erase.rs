//! Removing the addresses of buyers who were erased, a portion of the orders at a time. The server's binlogs keep what was
//! removed until they expire.

use std::fmt::Write;

use mysql::Conn;
use mysql::prelude::Queryable;

use crate::ledger::RowError;
use crate::ledger::erasing::{BUYERS_MAX, PASS_AT, PASS_TO, Pass, WAITING_FROM, WAITING_TO};
use crate::ledger::rows::{ADDRESSES_PURGED_TO, buyer_row};

/// The next portion of a pass.
pub(super) struct Portion {
    /// Orders that were looked at.
    pub(super) orders: u32,
    /// What removes it and notes how far the pass has come. To do so again changes nothing.
    pub(super) statements: Vec<String>,
    /// The pass ends: so many buyers were served.
    pub(super) served: Option<usize>,
}

impl Portion {
    /// `None`: nobody waits.
    pub(super) fn find<E: From<mysql::Error> + From<RowError>>(
        connection: &mut Conn,
        max: u32,
    ) -> Result<Option<Portion>, E> {
        let waiting: Vec<(String, String)> = connection.exec(
            "SELECT name, CAST(value AS CHAR) FROM meta WHERE name >= ? AND name < ? ORDER BY name LIMIT ?",
            (WAITING_FROM, WAITING_TO, BUYERS_MAX),
        )?;
        if waiting.is_empty() {
            return Ok(None);
        }
        let mut number = |name: &str| -> Result<Option<i64>, mysql::Error> {
            connection.exec_first("SELECT CAST(value AS SIGNED) FROM meta WHERE name = ?", (name,))
        };
        let Some(pass) = Pass::of(&waiting, number(PASS_TO)?)? else { return Ok(None) };
        let from = number(PASS_AT)?.or(number(ADDRESSES_PURGED_TO)?).unwrap_or(0);
        let found: Option<(Option<i64>, u32)> = connection.exec_first(
            "SELECT MAX(seq), COUNT(*) FROM \
             (SELECT seq FROM orders WHERE seq > ? AND seq < ? ORDER BY seq LIMIT ?) AS next",
            (from, pass.to, max),
        )?;
        let (last, orders) = found.unwrap_or_default();
        let mut statements = Vec::new();
        if let Some(last) = last {
            statements.push(format!(
                "UPDATE orders SET address = NULL WHERE seq > {from} AND seq <= {last} AND address IS NOT NULL AND ({})",
                any_of(&pass)
            ));
        }
        let served = match last {
            Some(last) if orders == max => {
                statements.push(format!("REPLACE INTO meta VALUES ('{PASS_AT}', '{last}')"));
                statements.push(format!("REPLACE INTO meta VALUES ('{PASS_TO}', '{}')", pass.to));
                None
            }
            _ => {
                let done = &waiting[pass.buyers.len() - 1].0;
                statements.push(format!(
                    "DELETE FROM meta WHERE name IN ('{PASS_AT}', '{PASS_TO}') \
                     OR (name >= '{WAITING_FROM}' AND name <= '{done}')"
                ));
                Some(pass.buyers.len())
            }
        };
        Ok(Some(Portion { orders, statements, served }))
    }

    /// To be called once the portion is committed.
    pub(super) fn report(&self) {
        if let Some(buyers) = self.served {
            tracing::info!(buyers, "the addresses of erased buyers are gone");
        }
    }
}

/// A condition on orders.
fn any_of(pass: &Pass) -> String {
    let mut text = String::new();
    for buyer in &pass.buyers {
        let or = if text.is_empty() { "" } else { " OR " };
        let (low, high) = buyer_row(*buyer);
        match high {
            Some(high) => write!(text, "{or}(buyer = {low} AND buyer_high = {high})"),
            None => write!(text, "{or}(buyer = {low} AND buyer_high IS NULL)"),
        }
        .expect("a String takes everything");
    }
    text
}
