//! What fenced gates have reserved and no queue had: taken into the ledger before they are built anew, for what they remember is lost
//! with the build.

use std::collections::HashMap;

use engine::SkuId;

use super::rebuild::built_once;
use super::{Engines, OPEN_ROWS, Renewal, orders_of, take_in};
use crate::cluster::Core;
use crate::gate::{GateError, limits};
use crate::ledger::mysql::cluster::{LedgerError, Recorded};

/// Records in one read.
const OPEN_ROWS_AT_ONCE: u64 = 5_000;

/// Takes into the ledger what these gates have reserved and the ledger has not, for a broker has lost it. Those that could not be
/// read are not to be built yet.
pub(super) fn roll_forward_fenced(
    core: &Core,
    engines: &mut Engines,
    skus: &[SkuId],
    renewal: &mut Renewal,
) -> Result<HashMap<SkuId, GateError>, LedgerError> {
    let mut unread = HashMap::new();
    let built = built_once(core, engines, skus)?;
    let mut readable = Vec::new();
    // Once more: a replica that was made the master meanwhile may not have heard of the fence.
    for ((sku, _), fenced) in built.iter().zip(engines.gate.fence(&built)) {
        match fenced {
            Ok(()) => readable.push(*sku),
            Err(error) => drop(unread.insert(*sku, error)),
        }
    }
    let mut left = Vec::new();
    for (sku, count) in readable.iter().zip(engines.gate.open_counts(&readable)) {
        match count {
            Ok(0) => {}
            Ok(count) => left.push(OpenLeft { sku: *sku, passed: 0, count }),
            Err(error) => drop(unread.insert(*sku, error)),
        }
    }
    while !left.is_empty() {
        renewal.renew(&mut *engines.ledger);
        renewal.check()?;
        let now: Vec<_> = left.drain(..at_once(&left)).collect();
        let wanted: Vec<_> = now.iter().map(|left| (left.sku, left.passed)).collect();
        let mut orders = Vec::new();
        for (of, open) in now.into_iter().zip(engines.gate.open_beyond(&wanted)) {
            match open {
                Ok(rows) => {
                    orders.extend(orders_of(core, of.sku, &rows));
                    left.extend(of.after(rows.count()));
                }
                // It has nothing, or nothing that is ours.
                Err(GateError::Closed(_)) => {}
                Err(error) => drop(unread.insert(of.sku, error)),
            }
        }
        let ids: Vec<_> = orders.iter().map(|order| order.placement.id).collect();
        let mut known = engines.ledger.lookup(&ids)?.into_iter();
        // One that was rejected may have been taken anew, by a later gate.
        orders.retain(|order| match known.next().flatten() {
            None => true,
            Some(Recorded::Rejected(rejection)) => order.epoch > rejection.epoch,
            Some(Recorded::Order { .. }) => false,
        });
        // Nothing is reported to the gate: it is built anew, by what the ledger has.
        for orders in orders.chunks(OPEN_ROWS) {
            take_in(core, engines, orders.to_vec())?;
        }
    }
    Ok(unread)
}

/// What is open at a gate and was not read yet.
#[derive(Clone, Copy, Debug)]
struct OpenLeft {
    sku: SkuId,
    passed: u64,
    count: u64,
}

impl OpenLeft {
    /// After so many more, if as many came as one answer has: there may be more by now than were counted.
    fn after(self, read: usize) -> Option<OpenLeft> {
        let OpenLeft { sku, passed, count } = self;
        let is_full = read >= limits::OPEN_ROWS_MAX;
        let read = read as u64;
        is_full.then(|| OpenLeft { sku, passed: passed + read, count: count.saturating_sub(read) })
    }
}

/// How many of them are read together: one alone may have more rows than are read at once.
fn at_once(left: &[OpenLeft]) -> usize {
    let mut rows = 0;
    let fits = left.iter().take_while(|of| {
        rows += of.count.min(limits::OPEN_ROWS_MAX as u64);
        rows <= OPEN_ROWS_AT_ONCE
    });
    fits.count().max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_gates_have_reserved_is_read_together_in_portions() {
        let left = |counts: &[u64]| -> Vec<_> {
            let of = |(sku, count): (u32, &u64)| OpenLeft { sku: SkuId(sku), passed: 0, count: *count };
            (0..).zip(counts).map(of).collect()
        };
        assert_eq!(at_once(&left(&[1; 9])), 9);
        assert_eq!(at_once(&left(&[2_000; 9])), 5);
        assert_eq!(at_once(&left(&[OPEN_ROWS_AT_ONCE * 9; 2])), 2);
        assert_eq!(at_once(&left(&[4_000])), 1);
        let many = left(&[2_500])[0];
        let after = many.after(1_000).unwrap();
        assert_eq!((after.passed, after.count), (1_000, 1_500));
        let last = after.after(1_000).unwrap();
        assert_eq!((last.passed, last.count), (2_000, 500));
        assert!(last.after(500).is_none() && many.after(0).is_none());
        let grown = last.after(1_000).unwrap();
        assert_eq!((grown.passed, grown.count), (3_000, 0));
    }
}
