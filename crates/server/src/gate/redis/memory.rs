//! What this client saw last of each SKU, to notice a gate that has forgotten something.
//!
//! Within an epoch a state's sequence number only grows, and replies come in the order of the commands. One that goes
//! backwards means that what was answered before is lost, whatever the run says.

use std::sync::Arc;

use engine::SkuId;

use crate::gate::{BySku, Closed, Epochs, GateError, Seen, Why};

#[derive(Debug, Default)]
pub(super) struct Memory {
    epochs: Arc<Epochs>,
    /// (epoch, seq) per SKU: as many entries as there are SKUs.
    newest: BySku<(u64, u64)>,
    /// Not fenced in Redis yet; the epoch up to which to fence.
    to_fence: BySku<u64>,
    suspects: Vec<SkuId>,
}

impl Memory {
    pub(super) fn new(epochs: Arc<Epochs>) -> Memory {
        Memory { epochs, ..Memory::default() }
    }

    /// Whether the gate that promised units is one of an epoch that is over. Then it is to be fenced, if it can be, and nothing is
    /// asked of it before; the one that came after it is well.
    pub(super) fn check_promise(&mut self, sku: SkuId, seen: Seen) -> Result<(), GateError> {
        if !self.epochs.is_over(sku, seen.epoch) {
            return Ok(());
        }
        self.to_fence.insert(sku, seen.epoch);
        Err(GateError::Unknown(Why::RanBackwards))
    }

    /// Compares an answer with what was seen before. Whoever got it must not rely on it if it ran backwards.
    pub(super) fn compare(&mut self, sku: SkuId, seen: Seen) -> Result<(), GateError> {
        let newest = self.newest.entry(sku).or_insert((0, 0));
        if (seen.epoch, seen.seq) >= *newest {
            if seen.epoch > newest.0 {
                self.epochs.hear([(sku, seen.epoch)]);
            }
            *newest = (seen.epoch, seen.seq);
            return Ok(());
        }
        self.to_fence.insert(sku, newest.0);
        if !self.suspects.contains(&sku) {
            self.suspects.push(sku);
        }
        Err(GateError::Unknown(Why::RanBackwards))
    }

    /// Nothing is asked of a suspect before it is known to be closed.
    pub(super) fn refusal(&self, sku: SkuId) -> Option<GateError> {
        self.to_fence.contains_key(&sku).then_some(GateError::Closed(Closed::RanBackwards))
    }

    pub(super) fn to_fence(&self) -> Vec<(SkuId, u64)> {
        self.to_fence.iter().map(|(sku, epoch)| (*sku, *epoch)).collect()
    }

    pub(super) fn fenced(&mut self, skus: &[(SkuId, u64)], outcomes: &[Result<(), GateError>]) {
        for ((sku, epoch), outcome) in skus.iter().zip(outcomes) {
            if outcome.is_ok() && self.to_fence.get(sku).is_some_and(|wanted| wanted <= epoch) {
                self.to_fence.remove(sku);
            }
        }
    }

    pub(super) fn take_suspects(&mut self) -> Vec<SkuId> {
        std::mem::take(&mut self.suspects)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_that_runs_backwards_is_reported_once_and_refused_until_it_is_fenced() {
        let (mut memory, sku) = (Memory::default(), SkuId(1));
        let seen = |epoch, seq| Seen { epoch, seq, available: 0 };
        for (epoch, seq) in [(1, 1), (1, 1), (1, 9), (2, 1), (2, 3)] {
            assert_eq!(memory.compare(sku, seen(epoch, seq)), Ok(()));
        }
        assert_eq!(memory.refusal(sku), None);
        for (epoch, seq) in [(2, 2), (1, 99)] {
            assert_eq!(memory.compare(sku, seen(epoch, seq)), Err(GateError::Unknown(Why::RanBackwards)));
        }
        assert_eq!(memory.refusal(sku), Some(GateError::Closed(Closed::RanBackwards)));
        assert_eq!(memory.take_suspects(), [sku]);
        assert_eq!(memory.take_suspects(), []);
        let wanted = memory.to_fence();
        assert_eq!(wanted, [(sku, 2)]);
        memory.fenced(&wanted, &[Err(GateError::NotExecuted(Why::Busy))]);
        assert!(memory.refusal(sku).is_some());
        memory.fenced(&wanted, &[Ok(())]);
        assert_eq!(memory.refusal(sku), None);
    }
}
