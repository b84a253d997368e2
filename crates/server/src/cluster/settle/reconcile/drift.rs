//! What the gate and the ledger count differently at rest.
//!
//! Only a SKU that is at rest can be compared: nothing open at the gate, nothing of it in the outbox, and neither side
//! changed since the look before. A difference that is seen so twice is proven; it is reported, and mended by a rebuild.

use engine::SkuId;

use super::Engines;
use super::rebuild::{Rebuild, Urgency};
use crate::gate::{BySku, GateError, GateState};
use crate::ledger::mysql::cluster::{LedgerError, SkuRow};

/// What was seen of a SKU whose counts differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Sight {
    epoch: u64,
    seq: u64,
    units: i64,
}

/// The SKUs whose counts differed when they were looked at last.
#[derive(Debug, Default)]
pub(super) struct Drift {
    seen: BySku<Sight>,
}

/// What one look came to.
#[derive(Debug, Default)]
pub(super) struct Differing {
    /// Units by which gate and ledger differ for certain.
    pub(super) proven: u64,
    /// To be looked at again soon.
    pub(super) close: Vec<SkuId>,
}

impl Drift {
    /// Compares SKUs as the ledger and the gate have them, in the order of their numbers.
    pub(super) fn look(
        &mut self,
        engines: &mut Engines,
        rows: &[SkuRow],
        skus: &[SkuId],
        states: &[Result<Option<GateState>, GateError>],
        rebuild: &mut Rebuild,
    ) -> Result<Differing, LedgerError> {
        let mut differing = Differing::default();
        for row in rows {
            let before = self.seen.remove(&row.sku);
            let Ok(at) = skus.binary_search(&row.sku) else { continue };
            let Some(sight) = sight(row, &states[at]) else { continue };
            if before == Some(sight) && is_still(engines, row.sku, sight)? {
                let units = sight.units;
                tracing::error!(sku = row.sku.0, units, "the gate has this many units more than the ledger");
                differing.proven += units.unsigned_abs();
                rebuild.ask(row.sku, Urgency::Selling);
            }
            self.seen.insert(row.sku, sight);
            differing.close.push(row.sku);
        }
        Ok(differing)
    }
}

/// By how much they differ, if they do.
fn sight(row: &SkuRow, state: &Result<Option<GateState>, GateError>) -> Option<Sight> {
    let Ok(Some(GateState { seen, closed: None, .. })) = state else { return None };
    let units = seen.available - i64::try_from(row.stock.available()).unwrap_or(i64::MAX);
    let differs = units != 0 && seen.epoch == row.epoch;
    differs.then_some(Sight { epoch: seen.epoch, seq: seen.seq, units })
}

/// Whether they differ by as much at rest: what was open when they were counted may be in the ledger by now, so they are
/// counted once more.
fn is_still(engines: &mut Engines, sku: SkuId, before: Sight) -> Result<bool, LedgerError> {
    let nothing_open = engines.gate.open_reservations(sku, 0, 1).is_ok_and(|open| open.is_empty());
    if !nothing_open || engines.ledger.outbox_len(Some(sku))? > 0 {
        return Ok(false);
    }
    let rows = engines.ledger.stocks_of(&[sku])?;
    let states = engines.gate.states(&[sku]);
    let now = rows.first().zip(states.first()).and_then(|(row, state)| sight(row, state));
    Ok(now == Some(before))
}
