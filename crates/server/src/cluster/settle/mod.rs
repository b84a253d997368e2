//! Reporting to the gate what the ledger decided.
//!
//! It is reported once, and best: what it did not hear stays open there until reconciliation settles it, and is counted
//! as in flight until then.

pub(super) mod consume;
pub(super) mod reconcile;
mod undecided;
pub(super) mod watch;

use engine::handover::{Reservation, Settle, Verdict};
use engine::working_set::Outcome;

use super::Core;
use crate::gate::{Gate, Settled};

/// Settles the reservations of orders that the ledger has judged. Returns how many the gate did not hear of.
pub(in crate::cluster) fn report_to_gate(
    core: &Core,
    gate: &mut Gate,
    orders: &[Reservation],
    outcomes: &[Outcome],
) -> usize {
    let settles: Vec<_> = orders
        .iter()
        .zip(outcomes)
        .map(|(order, outcome)| {
            let verdict = match outcome {
                Outcome::Placed(_) | Outcome::Known(_) => Verdict::Placed,
                Outcome::Rejected(_) | Outcome::Conflict => Verdict::RejectedKept,
            };
            Settle { id: order.placement.id, epoch: order.epoch, verdict }
        })
        .collect();
    settle(core, gate, &settles)
}

/// Settles; returns how many the gate did not hear of.
pub(in crate::cluster) fn settle(core: &Core, gate: &mut Gate, settles: &[Settle]) -> usize {
    let settled = gate.settle(settles);
    let unheard = settled.iter().filter(|settled| settled.is_err()).count();
    let done = settled.iter().filter(|settled| matches!(settled, Ok(Settled::Done))).count();
    core.counts.settled.inc_by(done as u64);
    core.counts.settles_unheard.inc_by(unheard as u64);
    core.suspect(gate.take_suspects());
    unheard
}
