//! The writer and the clock: judging the start, noting the time, and corrections, which are entries of the ledger.
//!
//! Must not: say what a jump means; that is [`crate::clock`]'s.

use std::time::{Duration, Instant};

use engine::{Refusal, Seq, UnixMs, limits};

use super::Writer;
use crate::chores::{CLOCK_DIFFERENCE_MS_MAX, why_unconfirmed};
use crate::clock::{Checks, Clock, KnownTime, Notes, PURGE_WAIT_MS, StartClock, Who};
use crate::intake::Reply;
use crate::ledger::AppendError;
use engine::format_utc;

/// Between two notes of the time: a start can't tell shorter jumps from the time that it took.
const NOTE_INTERVAL: Duration = Duration::from_secs(60);
/// Between two looks at a clock that stands: the system may be setting it, or hear that it is synchronised.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);
/// Between two lines in the log that say that the clock stands.
const LOG_INTERVAL: Duration = Duration::from_secs(600);
/// Of a clock that nobody has confirmed: nothing is ever erased by it.
const NEVER: UnixMs = UnixMs(i64::MAX.unsigned_abs());

/// What the writer knows of the clock.
#[derive(Debug)]
pub(super) struct Timekeeper {
    checks: Checks,
    known: KnownTime,
    confirmed_since: Option<UnixMs>,
    /// The start was judged, and the clock runs since.
    runs: bool,
    looked_at: Option<Instant>,
    noted_at: Option<Instant>,
    logged_at: Option<Instant>,
    /// To be made with the batch, or made with one whose outcome is not known yet.
    correction: Option<Correction>,
}

#[derive(Clone, Copy, Debug)]
struct Correction {
    from: UnixMs,
    to: UnixMs,
    who: Who,
}

impl Timekeeper {
    /// At the start; a clock that can't be believed stands from here on.
    pub(super) fn start(
        checks: Checks,
        notes: &Notes,
        (next_seq, last_at): (Seq, UnixMs),
        clock: &Clock,
    ) -> Timekeeper {
        clock.advance_to(last_at);
        let known = KnownTime::of(notes, (next_seq > Seq(1)).then_some(last_at));
        if let StartClock::Doubted(at) = checks.judge(known, clock.wall_at_start()) {
            clock.stand_at(at);
        }
        Timekeeper {
            checks,
            known,
            confirmed_since: notes.confirmed_since,
            runs: false,
            looked_at: None,
            noted_at: None,
            logged_at: None,
            correction: None,
        }
    }

    /// Whether anything may be erased by this clock.
    pub(super) fn may_purge(&self, now: UnixMs) -> bool {
        self.runs && self.confirmed_since.is_some_and(|since| now >= since.plus(PURGE_WAIT_MS))
    }

    /// The clock goes on, on this one's word.
    fn goes_on(&mut self, at: UnixMs, who: Option<Who>) {
        self.runs = true;
        self.noted_at = None;
        self.confirmed_since = match who {
            Some(Who::Operator | Who::System) => Some(at),
            Some(Who::Demo) => Some(NEVER),
            // A clock that is synchronised, and moved by a day at most: a shop that is closed every night has to
            // erase its addresses too.
            Some(Who::Synchronised) | None => Some(self.confirmed_since.unwrap_or(at)),
        };
    }
}

impl Writer {
    /// What is to be done about the clock, if anything is: to be called often.
    ///
    /// # Errors
    /// As [`Writer::run`].
    pub(super) fn look_at_clock(&mut self) -> Result<(), AppendError> {
        if self.read_only.is_some() {
            return Ok(());
        }
        if self.timekeeper.runs {
            return self.note_clock();
        }
        if self.timekeeper.looked_at.is_some_and(|looked| looked.elapsed() < LOOK_INTERVAL) {
            return Ok(());
        }
        self.timekeeper.looked_at = Some(Instant::now());
        let clock = &self.shared.clock;
        match self.timekeeper.checks.judge(self.timekeeper.known, clock.wall_at_start()) {
            StartClock::Usual => self.go_on(None),
            StartClock::Believed(who) => self.go_on(Some(who)),
            StartClock::Doubted(at) => {
                clock.stand_at(at);
                self.report_doubt();
                Ok(())
            }
        }
    }

    /// An operator says that the wall clock is right. The one before was wrong then, and what was worked out by it moves; unless
    /// it was right as well, and the shop was closed in between: then what is due is due.
    pub(super) fn confirm_clock(&mut self, now: UnixMs, closed: bool) -> Reply {
        let to = UnixMs(self.shared.clock.wall().0.min(limits::TIME_MS_MAX));
        if self.timekeeper.runs && to.0.abs_diff(now.0) <= CLOCK_DIFFERENCE_MS_MAX {
            // It is right as it is; but a demo's, for one, was nobody's word so far.
            if self.timekeeper.confirmed_since == Some(NEVER) {
                self.clock_goes_on(now, Some(Who::Operator));
            }
            return Reply::ClockConfirmed { from: now, to: now };
        }
        if closed && to < now {
            return Reply::Refused(Refusal::InvalidChange(
                "the clock is behind the server's last note, and no shop is closed for less than no time",
            ));
        }
        if closed && !self.timekeeper.runs && self.timekeeper.correction.is_none() {
            self.shared.clock.set(to);
            self.clock_goes_on(to, Some(Who::Operator));
            tracing::warn!(
                from = format_utc(now.0),
                to = format_utc(to.0),
                "the shop was closed, says an operator"
            );
            return Reply::ClockConfirmed { from: now, to };
        }
        let correction = Correction { from: now, to, who: Who::Operator };
        let Correction { from, to, .. } = *self.timekeeper.correction.get_or_insert(correction);
        Reply::ClockConfirmed { from, to }
    }

    /// Makes the entry of a correction that was asked for, as the last one of its batch: what comes after it is of
    /// another time.
    pub(super) fn correct_clock(&mut self) {
        let Some(Correction { from, to, who }) = self.timekeeper.correction else { return };
        self.book
            .correct_clock(from, to, who.as_str())
            .expect("the times were bounded, and who is one of ours");
    }

    /// A correction is in the ledger.
    pub(super) fn clock_corrected(&mut self) {
        let Some(Correction { from, to, who }) = self.timekeeper.correction.take() else { return };
        self.shared.clock.set(to);
        self.clock_goes_on(to, Some(who));
        let (from, to, who) = (format_utc(from.0), format_utc(to.0), who.as_str());
        tracing::warn!(from, to, who, "the clock was corrected");
    }

    /// After the book was loaded again: whether a correction whose outcome was not known is in the ledger.
    pub(super) fn settle_correction(&mut self, corrections_before: usize) {
        if self.book.corrections_len() > corrections_before {
            self.clock_corrected();
        } else {
            self.timekeeper.correction = None;
        }
    }

    /// The start is believed. Time that has passed since the last note needs no correction: the shop was closed. A clock
    /// that goes back behind an entry does.
    fn go_on(&mut self, who: Option<Who>) -> Result<(), AppendError> {
        let (wall, last_at) = (self.shared.clock.wall(), self.book.last_at());
        let now = self.shared.clock.now().max(last_at);
        if let Some(who) = who {
            let was = self.timekeeper.known.at().unwrap_or(now);
            let (was, is, who) = (format_utc(was.0), format_utc(wall.0), who.as_str());
            tracing::warn!(
                was,
                is,
                who,
                "the clock has jumped since a server noted it last, and is believed"
            );
        }
        match who {
            Some(who) if wall < last_at => {
                self.timekeeper.correction = Some(Correction { from: now, to: wall, who });
                return self.batch(&mut Vec::new());
            }
            _ if !self.shared.clock.is_confirmed() => self.shared.clock.set(wall.max(last_at)),
            _ => {}
        }
        self.clock_goes_on(self.shared.clock.now(), who);
        self.note_clock()
    }

    /// On this one's word. While it stood nobody could order, as before a start.
    fn clock_goes_on(&mut self, at: UnixMs, who: Option<Who>) {
        let stood = !self.timekeeper.runs;
        self.timekeeper.goes_on(at, who);
        if stood {
            self.open_lines();
        }
    }

    /// Notes the time once a minute. Not of a clock that nobody has confirmed: a second start would take it for right.
    fn note_clock(&mut self) -> Result<(), AppendError> {
        if self.timekeeper.noted_at.is_some_and(|noted| noted.elapsed() < NOTE_INTERVAL) {
            return Ok(());
        }
        self.timekeeper.noted_at = Some(Instant::now());
        let noted_at = Some(self.shared.clock.now().max(self.book.last_at()));
        match self.ledger.note_clock(&Notes { noted_at, confirmed_since: self.timekeeper.confirmed_since }) {
            Err(error) if error.is_retryable() => {
                tracing::warn!(%error, "the time could not be noted; tried again in a minute");
                Ok(())
            }
            noted => noted,
        }
    }

    fn report_doubt(&mut self) {
        if self.timekeeper.logged_at.is_some_and(|logged| logged.elapsed() < LOG_INTERVAL) {
            return;
        }
        self.timekeeper.logged_at = Some(Instant::now());
        if let Some(why) = why_unconfirmed(&self.shared.clock, &self.catalog) {
            tracing::error!("{why}");
        }
    }
}
