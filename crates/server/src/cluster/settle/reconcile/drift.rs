//! What the gate and the ledger count differently at rest.
//!
//! Only a SKU that is at rest can be compared: nothing open at the gate, nothing of it in the outbox, and neither side
//! changed since the look before. A difference that is seen so twice is proven; it is reported, and mended by a rebuild.

use std::collections::HashMap;

use engine::SkuId;

use super::Engines;
use super::rebuild::Rebuild;
use crate::cluster::Core;
use crate::ledger::mysql::cluster::{LedgerError, SkuRow};

/// What was seen of a SKU whose counts differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Sight {
    epoch: u64,
    seq: u64,
    units: i64,
}

/// The SKUs whose counts differed at the last look.
#[derive(Debug, Default)]
pub(super) struct Drift {
    seen: HashMap<SkuId, Sight>,
}

impl Drift {
    pub(super) fn look(
        &mut self,
        core: &Core,
        engines: &mut Engines,
        rows: &[SkuRow],
        rebuild: &mut Rebuild,
    ) -> Result<(), LedgerError> {
        let skus: Vec<_> = rows.iter().map(|row| row.sku).collect();
        let mut before = std::mem::take(&mut self.seen);
        let mut proven = 0;
        for (row, state) in rows.iter().zip(engines.gate.states(&skus)) {
            let Ok(Some(state)) = state else { continue };
            let units = state.seen.available - i64::try_from(row.stock.available()).unwrap_or(i64::MAX);
            if units == 0 || state.closed.is_some() || state.seen.epoch != row.epoch {
                continue;
            }
            let sight = Sight { epoch: state.seen.epoch, seq: state.seen.seq, units };
            if before.remove(&row.sku) == Some(sight) && at_rest(engines, row.sku)? {
                tracing::error!(sku = row.sku.0, units, "the gate has this many units more than the ledger");
                proven += units.unsigned_abs();
                rebuild.ask(row.sku);
            }
            self.seen.insert(row.sku, sight);
        }
        core.counts.drift_units.set(i64::try_from(proven).unwrap_or(i64::MAX));
        Ok(())
    }
}

fn at_rest(engines: &mut Engines, sku: SkuId) -> Result<bool, LedgerError> {
    let nothing_open = engines.gate.open_reservations(sku, 0, 1).is_ok_and(|open| open.is_empty());
    Ok(nothing_open && engines.ledger.outbox_len(Some(sku))? == 0)
}
