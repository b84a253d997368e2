//! An order of an older epoch that the ledger does not have yet: how long the gate of now is asked for its units, and when it is
//! rejected. That gate did not know of it, and may have promised them to somebody whose order was accepted.

use std::time::Duration;

use engine::handover::Reservation;
use engine::{Refusal, UnixMs};

use crate::cluster::place::relay::is_of;
use crate::gate::limits::CLOCK_OFF_MS_MAX;
use crate::gate::{GateAnswer, GateError, Reserved};
use crate::time::Instant;

/// An order of an older epoch waits so long for the gate of now, and what was sent after it waits, too. Then it is rejected, for its
/// units may be promised to somebody else.
const OUTDATED_WAITS: Duration = Duration::from_secs(5);
/// What a gate was asked and did not answer is carried out no later: the gate compares the time of the asking with its own clock, and
/// both may be off by as much as it bears. Nobody is rejected before that.
const ASK_REACHES_WITHIN: Duration = Duration::from_millis(2 * CLOCK_OFF_MS_MAX);
/// A gate that can't be asked whether it has it after all is asked on for so long.
const LOOKED_FOR: Duration = Duration::from_secs(15);
/// Longer than anything is waited for.
const KNOWN_FOR: Duration = Duration::from_secs(60);
/// Whoever takes a queue over knows nothing of what was asked before.
const _: () = assert!(OUTDATED_WAITS.as_millis() > ASK_REACHES_WITHIN.as_millis());

/// An order of an older epoch that is not in the ledger yet.
#[derive(Debug)]
pub(in crate::cluster) struct Undecided {
    since: Instant,
    /// When its gate was last asked without an answer.
    pub(super) unanswered: Option<Instant>,
    /// The epoch by which it has its units, and when it took them.
    pub(super) taken: Option<(u64, UnixMs)>,
}

impl Undecided {
    pub(super) fn new(now: Instant) -> Undecided {
        Undecided { since: now, unanswered: None, taken: None }
    }

    pub(super) fn is_over(&self, now: Instant) -> bool {
        now - self.since >= OUTDATED_WAITS
    }

    /// By what this server asked, or another one before it forgot what was asked.
    pub(super) fn may_be_reserved(&self, forgot_at: Option<Instant>, now: Instant) -> bool {
        self.unanswered.max(forgot_at).is_some_and(|at| now - at < ASK_REACHES_WITHIN)
    }

    /// Whether a gate that can't be asked if it has it after all is asked on.
    pub(super) fn is_looked_for(&self, now: Instant) -> bool {
        now - self.since < LOOKED_FOR
    }

    /// Whether it may come again.
    pub(super) fn is_known(&self, now: Instant) -> bool {
        now - self.since < KNOWN_FOR
    }
}

/// What the gate of now says of it.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Decision {
    /// It has its units, by this epoch.
    Taken {
        epoch: u64,
        at: UnixMs,
    },
    Refused(Refusal),
    NotYet,
}

pub(super) fn decide(order: &Reservation, reserved: Result<GateAnswer<Reserved>, GateError>) -> Decision {
    let Ok(GateAnswer { seen, what }) = reserved else { return Decision::NotYet };
    match what {
        Reserved::Taken { at } => Decision::Taken { epoch: seen.epoch, at },
        // Its buyer has asked again meanwhile.
        Reserved::Open(open) if is_of(&open, &order.placement) => {
            Decision::Taken { epoch: open.epoch, at: open.at }
        }
        // The buyer has used its key for another order, which that gate has taken.
        Reserved::Open(_) | Reserved::Refused(Refusal::KeyConflict) => Decision::Refused(Refusal::SoldOut),
        Reserved::Refused(why) => Decision::Refused(why),
        Reserved::Settled => Decision::NotYet,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(now: Instant, ms: u64) -> Instant {
        now + Duration::from_millis(ms)
    }

    #[test]
    fn it_waits_for_five_seconds_and_is_looked_for_in_fifteen() {
        let now = Instant::now();
        let undecided = Undecided::new(now);
        for (ms, is_over, is_looked_for, is_known) in [
            (0, false, true, true),
            (4_999, false, true, true),
            (5_000, true, true, true),
            (14_999, true, true, true),
            (15_000, true, false, true),
            (60_000, true, false, false),
        ] {
            let at = after(now, ms);
            let found = (undecided.is_over(at), undecided.is_looked_for(at), undecided.is_known(at));
            assert_eq!(found, (is_over, is_looked_for, is_known), "after {ms} ms");
        }
    }

    /// What was asked may take the units for four seconds, whoever asked it last.
    #[test]
    fn nobody_is_rejected_while_what_was_asked_may_reach_the_gate() {
        let now = Instant::now();
        let at = |ms| Some(after(now, ms));
        for (unanswered, forgot_at, asked_at, expected) in [
            (None, None, 0, false),
            (at(0), None, 3_999, true),
            (at(0), None, 4_000, false),
            (None, at(0), 3_999, true),
            (None, at(0), 4_000, false),
            (at(0), at(2_000), 5_999, true),
            (at(2_000), at(0), 5_999, true),
            (at(2_000), at(0), 6_000, false),
        ] {
            let undecided = Undecided { unanswered, ..Undecided::new(now) };
            let found = undecided.may_be_reserved(forgot_at, after(now, asked_at));
            assert_eq!(found, expected, "{unanswered:?}, {forgot_at:?}, after {asked_at} ms");
        }
    }
}
