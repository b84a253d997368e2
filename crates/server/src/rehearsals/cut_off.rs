//! A rehearsal whose server ended before it: it has no end in the ledger, and the machine may have kept it from clearing up.
//!
//! Must not: remove anything itself; `doorbuster rehearse --clean-up` does.

use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use engine::Action;

use super::RehearseCommand;
use crate::ledger::{OpenError, OperatorAction, OperatorLogAsked, Source};
use crate::net::Stop;

/// Of what operators did last: one that began before these is left as it is.
const ACTIONS_MAX: u64 = 200;
/// For removing what it left.
const CLEARED_WITHIN: Duration = Duration::from_secs(60);
const LOOK: Duration = Duration::from_millis(200);

/// The one that began last, if it has no end.
pub(super) fn unended(ledger: &Source) -> Result<Option<OperatorAction>, OpenError> {
    let asked = OperatorLogAsked { before: i64::MAX.unsigned_abs(), sale: None, max: ACTIONS_MAX };
    let (began, ended) = (Action::RehearsalBegan.as_str(), Action::RehearsalEnded.as_str());
    let mut actions = ledger.operator_log(&asked)?.actions.into_iter();
    let last = actions.find(|action| [began, ended].contains(&&*action.operated.what));
    Ok(last.filter(|action| *action.operated.what == *began))
}

/// Removes what it left. What can't be removed now, the next rehearsal removes.
pub(super) fn clear(command: &RehearseCommand, stop: &Stop) {
    let mut clears = Command::new(&command.program);
    clears.args(&command.clean_up).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = match clears.spawn() {
        Ok(child) => child,
        Err(error) => return tracing::warn!(%error, "what a rehearsal left can't be removed"),
    };
    let begun = Instant::now();
    loop {
        match child.try_wait() {
            Ok(Some(status)) if status.success() => return,
            Ok(None) if begun.elapsed() < CLEARED_WITHIN && !stop.is_requested() => thread::sleep(LOOK),
            ended => {
                if let Ok(None) = ended {
                    super::process::end_by_force(&mut child);
                }
                return tracing::warn!(
                    ?ended,
                    "what a rehearsal left was not removed; the next one removes it"
                );
            }
        }
    }
}
