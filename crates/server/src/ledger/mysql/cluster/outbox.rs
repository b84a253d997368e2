//! What the gate has to be told: units that came back or were taken by the ledger, once for each change.
//!
//! A row is written in the transaction of its change and removed after the gate has it, so it survives whoever
//! wrote it.

use std::hash::Hasher;

use engine::{BuyerId, Fingerprint, OrderId, SkuId};
use mysql::from_row_opt;
use siphasher::sip128::{Hasher128, SipHasher24};

use super::sql::{Script, hex, number, unsigned};
use super::{Failure, LedgerError, SharedLedger};
use crate::ledger::rows::int;

/// What happened to units, as the gate has to know it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// An order was cancelled or has expired: its units are on sale again.
    Release { order: OrderId, buyer: BuyerId, units: u32, fingerprint: Fingerprint },
    /// The ledger took an order of an older epoch, of which this gate does not know.
    Take { order: OrderId, buyer: BuyerId, units: u32, fingerprint: Fingerprint },
    /// An operator put more units on sale. The row's number is its key.
    Restock { units: u64 },
    /// The ledger took a late payment. Its units were claimed at the gate before, but that gate may be gone.
    TakeLate { order: OrderId, buyer: BuyerId, units: u32, fingerprint: Fingerprint },
    /// An operator took units off sale. `id`: of the claim at the gate, which may be gone as well.
    Correct { id: OrderId, units: u64 },
}

/// A correction's name at the gate, among the orders of its SKU. The hash has 128 bits, and an operator is no
/// adversary here.
pub fn correction_id(sku: SkuId, key: &str) -> OrderId {
    let mut hasher = SipHasher24::new();
    hasher.write(b"correction ");
    hasher.write(key.as_bytes());
    OrderId { sku, hash: hasher.finish128().as_u128() }
}

/// One thing to tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutboxRow {
    pub id: u64,
    pub sku: SkuId,
    /// Of the SKU when the change was made: a gate that was built later knows of it already.
    pub epoch: u64,
    pub change: Change,
}

impl Change {
    pub(super) fn row(&self, text: &mut String, sku: SkuId, epoch: u64) {
        let none = (OrderId { sku, hash: 0 }, BuyerId(0), Fingerprint(0));
        let (kind, (order, buyer, fingerprint), units) = match *self {
            Change::Release { order, buyer, units, fingerprint } => {
                ("release", (order, buyer, fingerprint), u64::from(units))
            }
            Change::Take { order, buyer, units, fingerprint } => {
                ("take", (order, buyer, fingerprint), u64::from(units))
            }
            Change::TakeLate { order, buyer, units, fingerprint } => {
                ("take_late", (order, buyer, fingerprint), u64::from(units))
            }
            Change::Restock { units } => ("restock", none, units),
            Change::Correct { id, units } => ("correct", (id, BuyerId(0), Fingerprint(0)), units),
        };
        number(text, format_args!("{},{},'{kind}',", sku.0, int(epoch)));
        hex(text, &order.hash.to_be_bytes());
        let (buyer, units, fingerprint) = (int(buyer.0), int(units), fingerprint.0.cast_signed());
        number(text, format_args!(",{buyer},{units},{fingerprint}"));
    }
}

impl SharedLedger {
    /// At most `max` rows after the one with this number, oldest first.
    ///
    /// # Errors
    /// See [`LedgerError`].
    pub fn outbox(&mut self, max: usize, after: u64) -> Result<Vec<OutboxRow>, LedgerError> {
        let query = format!(
            "SELECT id, sku, epoch, kind, hash, buyer, units, fingerprint FROM outbox WHERE id > {} \
             ORDER BY id LIMIT {max}",
            int(after)
        );
        self.select(query, |row| {
            type Columns = (u64, u32, i64, String, Vec<u8>, i64, i64, i64);
            let (id, sku, epoch, kind, hash, buyer, units, fingerprint): Columns = from_row_opt(row)?;
            let damaged = || Failure::Damaged(format!("row {id} of the outbox"));
            let hash: [u8; 16] = hash.try_into().map_err(|_bytes| damaged())?;
            let order = OrderId { sku: SkuId(sku), hash: u128::from_be_bytes(hash) };
            let (buyer, fingerprint) = (BuyerId(unsigned(buyer)), Fingerprint(unsigned(fingerprint)));
            let of_order = || u32::try_from(units).map_err(|_too_many| damaged());
            let change = match kind.as_str() {
                "release" => Change::Release { order, buyer, units: of_order()?, fingerprint },
                "take" => Change::Take { order, buyer, units: of_order()?, fingerprint },
                "take_late" => Change::TakeLate { order, buyer, units: of_order()?, fingerprint },
                "restock" => Change::Restock { units: unsigned(units) },
                "correct" => Change::Correct { id: order, units: unsigned(units) },
                _ => return Err(damaged()),
            };
            Ok(OutboxRow { id, sku: SkuId(sku), epoch: unsigned(epoch), change })
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
