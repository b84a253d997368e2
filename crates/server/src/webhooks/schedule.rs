//! When an event is tried again: after 5 seconds first, up to every 4 hours, spread by chance, for three days.

use std::time::Duration;

use engine::UnixMs;

use super::limits::GIVEN_UP_AFTER;

/// Pauses after the first tries, in seconds; after the last of them, it again and again.
const PAUSES_S: [u64; 8] = [5, 30, 120, 600, 1_800, 3_600, 7_200, 14_400];
/// A pause is longer or shorter by at most this part of it, so that what failed together does not come back together.
const SPREAD: u64 = 5;

/// What is next for an event that was tried so often.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NextAttempt {
    At(UnixMs),
    GivenUp,
}

/// `since`: when it was to be sent first. `asked`: what the endpoint asks for (`Retry-After`). `chance`: any number.
pub(super) fn next(
    attempts: u32,
    since: UnixMs,
    now: UnixMs,
    asked: Option<Duration>,
    chance: u64,
) -> NextAttempt {
    if Duration::from_millis(now.0.saturating_sub(since.0)) >= GIVEN_UP_AFTER {
        return NextAttempt::GivenUp;
    }
    let tried = usize::try_from(attempts).unwrap_or(usize::MAX).saturating_sub(1);
    let pause_ms = 1_000 * PAUSES_S[tried.min(PAUSES_S.len() - 1)];
    let spread_ms = pause_ms / SPREAD;
    let pause_ms = pause_ms - spread_ms + chance % (2 * spread_ms + 1);
    let longest_ms = 1_000 * PAUSES_S[PAUSES_S.len() - 1];
    let asked_ms =
        asked.map_or(0, |asked| u64::try_from(asked.as_millis()).unwrap_or(u64::MAX).min(longest_ms));
    NextAttempt::At(now.plus(pause_ms.max(asked_ms)))
}

/// Whether an event's time has come. One that is further away than any pause is of a clock that was wrong.
pub(super) fn is_due(next_at: UnixMs, now: UnixMs) -> bool {
    let longest_ms = 1_000 * PAUSES_S[PAUSES_S.len() - 1];
    next_at <= now || next_at.0 - now.0 > longest_ms + longest_ms / SPREAD
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pauses_grow_from_seconds_to_hours_and_end_after_three_days() {
        let since = UnixMs(1_000_000);
        let (mut now, mut attempts, mut pauses) = (since, 0, Vec::new());
        // The middle of each spread.
        while let NextAttempt::At(at) = next(attempts + 1, since, now, None, 0) {
            pauses.push((at.0 - now.0) / 1_000);
            (now, attempts) = (at, attempts + 1);
        }
        assert_eq!(pauses[..9], [4, 24, 96, 480, 1_440, 2_880, 5_760, 11_520, 11_520]);
        assert!((now.0 - since.0) / 1_000 >= 3 * 24 * 3_600);
        assert!(attempts < 40, "{attempts}");
    }

    #[test]
    fn a_pause_is_spread_and_never_shorter_than_what_the_endpoint_asks_for() {
        let now = UnixMs(1_000_000);
        let pause =
            |asked: Option<u64>, chance| match next(1, now, now, asked.map(Duration::from_secs), chance) {
                NextAttempt::At(at) => at.0 - now.0,
                NextAttempt::GivenUp => panic!("it has just begun"),
            };
        assert_eq!([0, 1_000, 2_000, 2_001].map(|chance| pause(None, chance)), [4_000, 5_000, 6_000, 4_000]);
        assert_eq!(pause(Some(60), 0), 60_000);
        assert_eq!(
            pause(Some(u64::MAX), 0),
            14_400_000,
            "nobody may silence it for longer than the longest pause"
        );
    }

    #[test]
    fn a_clock_that_was_wrong_does_not_hold_an_event_for_ever() {
        let now = UnixMs(1_000_000_000);
        assert!(is_due(now, now) && is_due(UnixMs(0), now));
        assert!(!is_due(now.plus(1), now) && !is_due(now.plus(17_280_000), now));
        assert!(is_due(now.plus(17_280_001), now));
    }
}
