//! Whether the wall clock can be believed when a server starts, by what the server before it has noted.
//!
//! A clock that is wrong by an hour ends a sale, and one that is wrong by months has every address erased. The notes show a
//! jump; they can't show whether the clock was wrong before it, is wrong after it, or the shop was closed. So somebody
//! has to say: the system, if it is synchronised and the jump is no longer than a day, or an operator.
//! Must not: read a clock.

use engine::UnixMs;

const MS_PER_DAY: u64 = 24 * 3600 * 1000;
/// The longest jump for which the system's word is enough.
const SYNCHRONISED_JUMP_MS_MAX: u64 = MS_PER_DAY;
/// A wall clock that is behind by no more is waited for: it was read twice, or stepped a little.
const BEHIND_MS_MAX: u64 = 1_000;
/// How long a clock must have been confirmed before anything is erased by it.
pub const PURGE_WAIT_MS: u64 = MS_PER_DAY;

/// What a ledger keeps of the clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Notes {
    /// The time, as a server has noted it last; `None`: none has.
    pub noted_at: Option<UnixMs>,
    /// Since when the clock is the one that was confirmed last.
    pub confirmed_since: Option<UnixMs>,
}

/// The time that can't be doubted, at a start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KnownTime {
    /// The ledger is new: it has no past.
    Nothing,
    /// Of a ledger without a note, of a release that took none: it was not before this.
    NotBefore(UnixMs),
    /// The latest of the note and the entries.
    At(UnixMs),
}

impl KnownTime {
    pub fn of(notes: &Notes, last_entry_at: Option<UnixMs>) -> KnownTime {
        match (notes.noted_at, last_entry_at) {
            (None, None) => KnownTime::Nothing,
            (None, Some(at)) => KnownTime::NotBefore(at),
            (Some(noted), last) => KnownTime::At(noted.max(last.unwrap_or_default())),
        }
    }

    /// The time itself, if there is one.
    pub fn at(self) -> Option<UnixMs> {
        match self {
            KnownTime::Nothing => None,
            KnownTime::NotBefore(at) | KnownTime::At(at) => Some(at),
        }
    }
}

/// What is done about a jump that nobody has confirmed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trust {
    /// The clock stands until an operator has confirmed it.
    Ask,
    /// It goes on.
    System,
}

/// Who has confirmed a clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Who {
    Operator,
    /// The system says that it is synchronised.
    Synchronised,
    /// Nobody: the configuration trusts the system.
    System,
    /// Nobody: it is a demo, which must sell.
    Demo,
}

impl Who {
    /// As the ledger has it.
    pub fn as_str(self) -> &'static str {
        match self {
            Who::Operator => "operator",
            Who::Synchronised => "synchronised",
            Who::System => "system",
            Who::Demo => "demo",
        }
    }
}

/// Whether a wall clock can be believed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StartClock {
    /// There was no jump.
    Usual,
    /// There was one, and somebody stands for it.
    Believed(Who),
    /// The clock is to stand at this time.
    Doubted(UnixMs),
}

/// How a start is judged.
#[derive(Clone, Copy, Debug)]
pub struct Checks {
    /// A start so long after the last note is a usual one.
    pub jump_ms_max: u64,
    pub trust: Trust,
    pub demo: bool,
    /// Whether the system says that its clock is synchronised.
    pub is_synchronised: fn() -> bool,
}

impl Checks {
    /// Judges what the wall clock said at the start.
    pub fn judge(&self, known: KnownTime, wall: UnixMs) -> StartClock {
        let (at, ahead_ms_max) = match known {
            KnownTime::Nothing => return StartClock::Usual,
            KnownTime::NotBefore(at) => (at, u64::MAX),
            KnownTime::At(at) => (at, self.jump_ms_max),
        };
        let jump_ms = wall.0.abs_diff(at.0);
        let jump_ms_max = if wall < at { BEHIND_MS_MAX } else { ahead_ms_max };
        if jump_ms <= jump_ms_max {
            StartClock::Usual
        } else if jump_ms <= SYNCHRONISED_JUMP_MS_MAX && (self.is_synchronised)() {
            StartClock::Believed(Who::Synchronised)
        } else if self.trust == Trust::System {
            StartClock::Believed(Who::System)
        } else if self.demo {
            StartClock::Believed(Who::Demo)
        } else {
            StartClock::Doubted(at)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOTED: UnixMs = UnixMs(1_000 * MS_PER_DAY);
    const MINUTE: i64 = 60_000;
    const DAY: i64 = 1_440 * MINUTE;

    #[test]
    fn a_jump_is_judged_by_its_length_and_by_who_stands_for_it() {
        let checks = |trust, demo, synchronised: bool| Checks {
            jump_ms_max: 600_000,
            trust,
            demo,
            is_synchronised: if synchronised { || true } else { || false },
        };
        let (doubted, usual) = (StartClock::Doubted(NOTED), StartClock::Usual);
        let (believed, noted) = (StartClock::Believed, KnownTime::At(NOTED));
        let rows = [
            (noted, 0, [usual; 4]),
            (noted, 10 * MINUTE, [usual; 4]),
            (noted, -1_000, [usual; 4]),
            (
                noted,
                10 * MINUTE + 1,
                [doubted, believed(Who::Synchronised), believed(Who::System), believed(Who::Demo)],
            ),
            (
                noted,
                -1_001,
                [doubted, believed(Who::Synchronised), believed(Who::System), believed(Who::Demo)],
            ),
            (noted, DAY, [doubted, believed(Who::Synchronised), believed(Who::System), believed(Who::Demo)]),
            (noted, DAY + 1, [doubted, doubted, believed(Who::System), believed(Who::Demo)]),
            (noted, -DAY - 1, [doubted, doubted, believed(Who::System), believed(Who::Demo)]),
            (noted, 100 * DAY, [doubted, doubted, believed(Who::System), believed(Who::Demo)]),
            (KnownTime::NotBefore(NOTED), 100 * DAY, [usual; 4]),
            (
                KnownTime::NotBefore(NOTED),
                -DAY - 1,
                [doubted, doubted, believed(Who::System), believed(Who::Demo)],
            ),
            (KnownTime::Nothing, -100 * DAY, [usual; 4]),
        ];
        for (known, jump_ms, expected) in rows {
            let wall = NOTED.shifted(jump_ms);
            let judged = [
                checks(Trust::Ask, false, false),
                checks(Trust::Ask, false, true),
                checks(Trust::System, false, false),
                checks(Trust::Ask, true, false),
            ]
            .map(|checks| checks.judge(known, wall));
            assert_eq!(judged, expected, "{known:?}, {jump_ms}");
        }
    }

    #[test]
    fn what_is_known_is_the_latest_of_the_note_and_the_entries() {
        let at = |ms| Some(UnixMs(ms));
        for (noted_at, last, known) in [
            (None, None, KnownTime::Nothing),
            (None, at(7), KnownTime::NotBefore(UnixMs(7))),
            (at(9), None, KnownTime::At(UnixMs(9))),
            (at(9), at(7), KnownTime::At(UnixMs(9))),
            (at(7), at(9), KnownTime::At(UnixMs(9))),
        ] {
            assert_eq!(KnownTime::of(&Notes { noted_at, confirmed_since: None }, last), known);
        }
    }
}
