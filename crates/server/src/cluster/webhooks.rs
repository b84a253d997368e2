//! Which server notifies the shop: one at a time, by a lease in the ledger whose generation is checked whenever it is stored how
//! far the endpoints have come. What operators change of them any server stores, and with it takes the lease from its holder.

use std::sync::atomic::Ordering;
use std::time::Duration;

use engine::Command;
use engine::handover::Grant;
use engine::working_set::Operation;

use crate::cluster::Core;
use crate::ledger::mysql::cluster::{Lease, LedgerError, SharedLedger};
use crate::time::Instant;
use crate::webhooks::{Duty, Noticing};

/// The lease's name in the ledger.
const LEASE: &str = "webhooks";
/// So long nobody notifies the shop after the holder was killed.
const LEASE_MS: u64 = 5_000;
/// Until the holder's senders pause, unless it has renewed the lease: before another server may take it.
const BELIEVED: Duration = Duration::from_millis(LEASE_MS - 1_000);
const INTERVAL: Duration = Duration::from_millis(500);

/// Runs until the server stops; then another server takes the lease at once.
pub(super) fn run(core: &Core, duty: &Duty, mut ledger: SharedLedger, mut noticing: Option<Noticing>) {
    let mut held = None;
    while !core.stopping.load(Ordering::Acquire) {
        match round(core, duty, &mut ledger, &mut noticing, &mut held) {
            Ok(()) => core.warnings.sending_webhooks.well(),
            Err(error) => core.warnings.sending_webhooks.met(&error),
        }
        core.wait(INTERVAL);
    }
    // The senders have ended.
    let Some(lease) = held else { return };
    let stored = store(duty, &mut ledger, &lease);
    if let Err(error) = stored.and_then(|()| ledger.release(&lease)) {
        tracing::debug!(%error, "the task of sending webhooks could not be given up; another server takes it in a few seconds");
    }
}

fn round(
    core: &Core,
    duty: &Duty,
    ledger: &mut SharedLedger,
    noticing: &mut Option<Noticing>,
    held: &mut Option<Lease>,
) -> Result<(), LedgerError> {
    let asked = Instant::now();
    let lease = ledger.lease(LEASE, core.options.server_id, LEASE_MS)?;
    if lease != *held {
        duty.end();
        noticing.iter_mut().for_each(Noticing::forget);
    }
    held.clone_from(&lease);
    ledger.fence_with(lease.clone());
    if let Some(lease) = &lease {
        duty.begin(Some(asked + BELIEVED));
        store(duty, ledger, lease)?;
        if let Some(noticing) = noticing {
            notice(core, ledger, noticing)?;
        }
    }
    let changes = duty.take_changes();
    if changes.is_empty() {
        return Ok(());
    }
    let changed = ledger.change_endpoints(LEASE, &changes);
    if changed.is_err() {
        duty.put_changes_back(changes);
    }
    changed
}

/// Stores what the senders have noted.
fn store(duty: &Duty, ledger: &mut SharedLedger, lease: &Lease) -> Result<(), LedgerError> {
    let progress = duty.take_progress();
    if progress.is_empty() {
        return Ok(());
    }
    let stored = ledger.note_progress(lease, &progress);
    if stored.is_err() {
        duty.put_progress_back(progress);
    }
    stored
}

/// Appends what the shop is to hear of beside its orders.
fn notice(core: &Core, ledger: &mut SharedLedger, noticing: &mut Noticing) -> Result<(), LedgerError> {
    if core.expiry_stops() {
        return Ok(());
    }
    let now = core.clock.now();
    let notices = match noticing.look(now, &core.shelf.current()) {
        Ok(notices) if notices.is_empty() => return Ok(()),
        Ok(notices) => notices,
        Err(error) => return Err(LedgerError::Unavailable(Box::new(error))),
    };
    let operation =
        |notice| Operation::of(Command::Notice(notice), Grant::NotAsked).expect("it places nothing");
    let operations: Vec<_> = notices.into_iter().map(operation).collect();
    let noticed = ledger.execute(now, &operations);
    if noticed.is_err() {
        noticing.forget();
    }
    noticed.map(drop)
}
