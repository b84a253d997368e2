//! When reconciliation is left to another server, for what it waits for does not answer this one: the cut may be this server's alone.

use std::time::Duration;

use crate::time::Instant;

/// How long no gate may answer before another server may try, and for how long this one then keeps away.
const SILENCE_MAX: Duration = Duration::from_secs(3);
const AWAY: Duration = Duration::from_secs(5);
/// The same of a part: one gate that sells, a broker that a rebuild waits for, or all Sentinels, for the master may be another by now. A
/// fail-over takes about half as long. Each time twice as long, for it may be away for everybody.
const PART_SILENT_MAX: Duration = Duration::from_secs(10);
const PART_SILENT_MAX_AT_LAST: Duration = Duration::from_secs(300);

/// What a look has come to: nothing answers, or not everything.
#[derive(Clone, Copy, Debug)]
pub(super) struct Silent {
    pub(super) all: bool,
    pub(super) a_part: bool,
}

#[derive(Debug)]
pub(super) struct Silence {
    /// Since when no gate has answered.
    silent_since: Option<Instant>,
    /// Since when not everything has that this server's work waits for.
    partly_since: Option<Instant>,
    part_silent_max: Duration,
    /// When it was left to another for a part last.
    partly_over_at: Option<Instant>,
    away_until: Option<Instant>,
}

impl Default for Silence {
    fn default() -> Silence {
        Silence {
            silent_since: None,
            partly_since: None,
            part_silent_max: PART_SILENT_MAX,
            partly_over_at: None,
            away_until: None,
        }
    }
}

impl Silence {
    /// Another server had the task meanwhile.
    pub(super) fn begin_anew(&mut self) {
        (self.silent_since, self.partly_since) = (None, None);
    }

    /// Whether this server leaves the task to others still.
    pub(super) fn keeps_away(&self, now: Instant) -> bool {
        self.away_until.is_some_and(|until| now < until)
    }

    /// Whether it has been silent for too long: then this server keeps away from now on, for a while.
    pub(super) fn is_over(&mut self, silent: Silent, now: Instant) -> bool {
        let Silent { all, a_part } = silent;
        let both = [(&mut self.silent_since, all), (&mut self.partly_since, a_part)];
        for (since, is_silent) in both {
            *since = if is_silent { since.or(Some(now)) } else { None };
        }
        if self.partly_over_at.is_none_or(|at| now - at >= self.part_silent_max * 3) {
            self.part_silent_max = PART_SILENT_MAX;
        }
        let is_over = |since: Option<Instant>, most| since.is_some_and(|since| now - since >= most);
        let is_partly_over = is_over(self.partly_since, self.part_silent_max);
        if !is_partly_over && !is_over(self.silent_since, SILENCE_MAX) {
            return false;
        }
        if is_partly_over {
            self.part_silent_max = (self.part_silent_max * 2).min(PART_SILENT_MAX_AT_LAST);
            self.partly_over_at = Some(now);
        }
        self.begin_anew();
        self.away_until = Some(now + AWAY);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: Silent = Silent { all: true, a_part: true };
    const PART: Silent = Silent { all: false, a_part: true };
    const WELL: Silent = Silent { all: false, a_part: false };

    /// After how many seconds from `from` on it is over, looked at twice a second; `None`: not within ten minutes.
    fn over_after(silence: &mut Silence, silent: Silent, from: Instant) -> Option<u64> {
        let over = (0..1_200).find(|half| silence.is_over(silent, from + Duration::from_millis(500 * half)));
        over.map(|half| half / 2)
    }

    #[test]
    fn whoever_hears_nothing_leaves_it_to_others_sooner_than_who_misses_a_part() {
        let (mut silence, now) = (Silence::default(), Instant::now());
        assert_eq!(over_after(&mut silence, ALL, now), Some(3));
        let now = now + Duration::from_secs(3);
        assert!(silence.keeps_away(now) && !silence.keeps_away(now + AWAY));
        assert_eq!(over_after(&mut Silence::default(), PART, now), Some(10));
        assert_eq!(over_after(&mut Silence::default(), WELL, now), None);
    }

    #[test]
    fn one_answer_ends_it() {
        let (mut silence, now) = (Silence::default(), Instant::now());
        let at = |seconds| now + Duration::from_secs(seconds);
        assert!(!silence.is_over(PART, at(0)) && !silence.is_over(WELL, at(9)));
        assert!(!silence.is_over(PART, at(10)) && !silence.is_over(PART, at(19)));
        assert!(silence.is_over(PART, at(20)));
    }

    #[test]
    fn a_part_that_is_away_for_everybody_is_handed_on_less_and_less_often() {
        let (mut silence, mut now) = (Silence::default(), Instant::now());
        let mut waited = Vec::new();
        for _ in 0..7 {
            let seconds = over_after(&mut silence, PART, now).unwrap();
            waited.push(seconds);
            now += Duration::from_secs(seconds) + AWAY;
        }
        assert_eq!(waited, [10, 20, 40, 80, 160, 300, 300]);
        // Long after the last time it is another matter.
        assert_eq!(over_after(&mut silence, PART, now + Duration::from_secs(3_600)), Some(10));
    }
}
