//! Who may, on every server: read from the ledger again and again, so that whoever was revoked on one server is on all.
//!
//! A thread of its own, for an engine that hangs must not keep a token alive. While the ledger can't be read, who was known
//! goes on: locking the operators out of a sale that is in trouble would be worse. Must not: change anything.

use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::cluster::Core;
use crate::ledger::mysql::cluster::ClusterLedger;
use crate::net::SWEEP_EVERY;

/// Between two looks.
const INTERVAL: Duration = Duration::from_millis(250);
/// What is promised for a revocation, consoles' streams among it, which the event loops end. Three quarters are left for a slow look.
const REVOKED_WITHIN: Duration = Duration::from_secs(2);
const _: () = assert!(4 * (INTERVAL.as_millis() + SWEEP_EVERY.as_millis()) <= REVOKED_WITHIN.as_millis());

/// Runs until the server stops.
pub(in crate::cluster) fn run(core: &Core, mut ledger: Box<dyn ClusterLedger>) {
    while !core.stopping.load(Ordering::Acquire) {
        match ledger.operators() {
            Ok(operators) => {
                core.warnings.operators.well();
                core.operators.publish(&operators);
            }
            Err(error) => core.warnings.operators.met(&error),
        }
        core.wait(INTERVAL);
    }
}
