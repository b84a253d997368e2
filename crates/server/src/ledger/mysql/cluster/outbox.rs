//! What the gate has to hear: units that came back or were taken by the ledger, once for each change.
//!
//! A row is written in the transaction of its change and removed after the gate has it, so it survives whoever
//! wrote it.

use std::hash::Hasher;

use engine::handover::{Change, OutboxRow};
use engine::{BuyerId, Fingerprint, OrderId, Placement, SkuId};
use mysql::from_row_opt;
use siphasher::sip128::{Hasher128, SipHasher24};

use super::session::look_near;
use super::{Failure, LedgerError, SharedLedger};
use crate::ledger::mysql::sql::{BuyerColumns, Script, hex, number, unsigned};
use crate::ledger::rows::{self, int};

/// A correction's name at the gate, among the orders of its SKU. The hash has 128 bits, and an operator is no
/// adversary here.
pub fn correction_id(sku: SkuId, key: &str) -> OrderId {
    let mut hasher = SipHasher24::new();
    hasher.write(b"correction ");
    hasher.write(key.as_bytes());
    OrderId { sku, hash: hasher.finish128().as_u128() }
}

/// A change as the values of its row.
pub(super) fn change_row(text: &mut String, sku: SkuId, epoch: u64, change: &Change) {
    let (kind, hash, buyer, units, fingerprint) = match *change {
        Change::Release(placement) => of_order("release", placement),
        Change::Take(placement) => of_order("take", placement),
        Change::TakeLate(placement) => of_order("take_late", placement),
        Change::Restock { units } => ("restock", 0, BuyerId(0), units, Fingerprint(0)),
        Change::Correct { id, units } => ("correct", id.hash, BuyerId(0), units, Fingerprint(0)),
    };
    number(text, format_args!("{},{},'{kind}',", sku.0, int(epoch)));
    hex(text, &hash.to_be_bytes());
    let (units, fingerprint) = (int(units), fingerprint.0.cast_signed());
    number(text, format_args!(",{},{units},{fingerprint}", BuyerColumns(buyer)));
}

fn of_order(kind: &str, placement: Placement) -> (&str, u128, BuyerId, u64, Fingerprint) {
    (kind, placement.id.hash, placement.buyer, u64::from(placement.quantity), placement.fingerprint)
}

impl SharedLedger {
    /// At most `max` rows after the one with this number, oldest first.
    ///
    /// # Errors
    /// See [`LedgerError`].
    pub fn outbox(&mut self, max: usize, after: u64) -> Result<Vec<OutboxRow>, LedgerError> {
        let query = format!(
            "SELECT id, sku, epoch, kind, hash, buyer, buyer_high, units, fingerprint FROM outbox WHERE id > {} \
             ORDER BY id LIMIT {max}",
            int(after)
        );
        let continuity = self.continuity.clone();
        self.attempt(|session, _| {
            let asked = continuity.end();
            let mut script = Script::default();
            script.push(&query);
            // After the rows, and before the gate hears of them: what wrote them is looked for from now on.
            script.push(look_near(asked.0));
            let (mut rows, mut sight) = (Vec::new(), None);
            session.run(script, |statement, row| {
                if statement == 0 {
                    rows.push(row);
                } else {
                    sight = Some(row);
                }
                Ok(())
            })?;
            let sight = sight.map(from_row_opt).transpose()?;
            session.has_looked(&continuity, asked, sight)?;
            rows.into_iter().map(outbox_row).collect()
        })
    }

    /// The gate has these. Removing one again is no error.
    ///
    /// # Errors
    /// See [`LedgerError`].
    pub fn outbox_done(&mut self, ids: &[u64]) -> Result<(), LedgerError> {
        self.attempt(|session, _| {
            let mut script = Script::default();
            script.lists("DELETE FROM outbox WHERE id IN ", ids, "", number);
            Ok(session.run(script, |_, _| Ok(()))?)
        })
    }
}

fn outbox_row(row: mysql::Row) -> Result<OutboxRow, Failure> {
    type Columns = (u64, u32, i64, String, Vec<u8>, i64, Option<i64>, i64, i64);
    let (id, sku, epoch, kind, hash, low, high, units, fingerprint): Columns = from_row_opt(row)?;
    let damaged = || Failure::Damaged(format!("row {id} of the outbox"));
    let hash: [u8; 16] = hash.try_into().map_err(|_bytes| damaged())?;
    let name = OrderId { sku: SkuId(sku), hash: u128::from_be_bytes(hash) };
    let placement = || {
        let quantity = u32::try_from(units).map_err(|_too_many| damaged())?;
        let (buyer, fingerprint) = (rows::buyer(low, high)?, Fingerprint(unsigned(fingerprint)));
        Ok::<_, Failure>(Placement { id: name, buyer, quantity, fingerprint })
    };
    let change = match kind.as_str() {
        "release" => Change::Release(placement()?),
        "take" => Change::Take(placement()?),
        "take_late" => Change::TakeLate(placement()?),
        "restock" => Change::Restock { units: unsigned(units) },
        "correct" => Change::Correct { id: name, units: unsigned(units) },
        _ => return Err(damaged()),
    };
    Ok(OutboxRow { id, sku: SkuId(sku), epoch: unsigned(epoch), change })
}
