//! What those who wait in the line of an item read: the line as last committed, and what it did lately.
//!
//! Must not: know a request.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use engine::{LineView, UnixMs};

/// What a waiting page reads of a line: as last committed.
#[derive(Debug, Default)]
pub struct Board(Mutex<Posted>);

#[derive(Debug, Default)]
struct Posted {
    line: Option<LineView>,
    /// What everybody in it is to read.
    message: Arc<str>,
    /// Of those who can be called soon; as of the last second.
    present: u32,
    /// The latest last, and one that is older than the pace asks for.
    went: VecDeque<Went>,
    moved: Option<BorderMove>,
}

/// How far a line was at the end of a second.
#[derive(Clone, Copy, Debug)]
struct Went {
    second: u64,
    reached: u32,
    /// How many places became sure for what others let go; the stock is for as many at once, which is no pace.
    came: u32,
}

impl Went {
    fn at(now: UnixMs, line: &LineView) -> Went {
        let at_once = line.stock.total().div_ceil(line.terms.units.into());
        let came = u64::from(line.borders.sure_to).saturating_sub(at_once);
        Went {
            second: now.0 / 1000,
            reached: line.borders.reached,
            came: u32::try_from(came).unwrap_or(u32::MAX),
        }
    }
}

/// Why places of a line are worth more or less than they were.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MoveReason {
    /// Units were added.
    Added,
    /// Units were taken off sale, as not there.
    Taken,
    /// Units of orders came back that were not paid, or cancelled.
    Unpaid,
    /// People gave up.
    GaveUp,
}

/// What moved the borders of a line last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BorderMove {
    pub at: UnixMs,
    pub why: MoveReason,
    /// Units, or people.
    pub count: u64,
}

impl BorderMove {
    /// As `line.js` says it of two boards.
    fn between(before: &LineView, after: &LineView, at: UnixMs) -> Option<BorderMove> {
        let of = |why, count| Some(BorderMove { at, why, count });
        let (was, is) = (&before.stock, &after.stock);
        let unpaid = (was.held() + was.sold()).saturating_sub(is.held() + is.sold());
        let gave_up = after.standings.gave_up.saturating_sub(before.standings.gave_up);
        if is.total() > was.total() {
            of(MoveReason::Added, is.total() - was.total())
        } else if is.total() < was.total() {
            of(MoveReason::Taken, was.total() - is.total())
        } else if unpaid > 0 {
            of(MoveReason::Unpaid, unpaid)
        } else if gave_up > 0 {
            of(MoveReason::GaveUp, gave_up.into())
        } else {
            None
        }
    }
}

/// Over which a line's pace is counted.
const PACE_S: u64 = 60;
/// What it did in less says nothing of how it goes on.
const PACE_S_MIN: u64 = 15;

/// Whether everybody who is sure was reached: who comes next depends on what others let go.
fn is_at_the_front(line: &LineView) -> bool {
    line.borders.reached >= line.borders.sure_to
}

/// How many are before this place, of those whom the line's pace is of. `None`: it is reached, or the pace says nothing of it, as those who
/// are sure are reached first.
pub fn ahead_of(line: &LineView, place: u32) -> Option<u32> {
    let ahead = place.checked_sub(line.borders.reached + 1)?;
    (place <= line.borders.sure_to || is_at_the_front(line)).then_some(ahead)
}

impl Board {
    /// `message`: what everybody in the line is to read.
    pub fn publish(&self, now: UnixMs, line: LineView, message: &str) {
        let mut posted = self.lock();
        if &*posted.message != message {
            posted.message = message.into();
        }
        let before = posted.line.replace(line);
        posted.moved = before.and_then(|before| BorderMove::between(&before, &line, now)).or(posted.moved);
        let went = Went::at(now, &line);
        posted.forget(went.second);
        // Before the start nobody is reached, and that is no pace either.
        if before.is_some_and(|before| before.borders.reached == 0) {
            posted.went.clear();
        }
        match posted.went.back_mut() {
            Some(last) if last.second == went.second => *last = went,
            Some(last) if (last.reached, last.came) == (went.reached, went.came) => {}
            _ => posted.went.push_back(went),
        }
    }

    /// `None`: nobody has said yet.
    pub fn read(&self) -> Option<LineView> {
        self.lock().line
    }

    /// What everybody in the line is to read, and how often that was changed. `None`: nobody has said yet.
    pub fn message(&self) -> Option<(u32, Arc<str>)> {
        let posted = self.lock();
        posted.line.map(|line| (line.message_changes, Arc::clone(&posted.message)))
    }

    /// Since the start of this server.
    pub fn moved(&self) -> Option<BorderMove> {
        self.lock().moved
    }

    pub fn publish_present(&self, present: u32) {
        self.lock().present = present;
    }

    /// How many are there of those who can be called soon.
    pub fn present(&self) -> u32 {
        self.lock().present
    }

    /// How many places a minute the line goes on by, as in the last one, or since its start or this server's. While some who are sure
    /// are not reached yet: as fast as these are; else as fast as others become sure. 0: it stands, or that can't be said yet.
    pub fn pace(&self, now: UnixMs) -> u32 {
        let mut posted = self.lock();
        let second = now.0 / 1000;
        posted.forget(second);
        let Some(line) = &posted.line else { return 0 };
        let ends = posted.went.front().zip(posted.went.back());
        let (places, seconds) = ends.map_or((0, 0), |(first, last)| {
            let places = match is_at_the_front(line) {
                true => last.came.saturating_sub(first.came),
                false => last.reached.saturating_sub(first.reached),
            };
            (u64::from(places), second.saturating_sub(first.second).min(PACE_S))
        });
        let pace = if seconds < PACE_S_MIN { 0 } else { (places * PACE_S).div_ceil(seconds) };
        let max = line.pace_max.map_or(u64::MAX, |per_s| u64::from(per_s) * PACE_S);
        u32::try_from(pace.min(max)).unwrap_or(u32::MAX)
    }

    fn lock(&self) -> MutexGuard<'_, Posted> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Posted {
    /// Of what is older than the pace asks for, the latest is kept: it was so at its beginning. A clock that was set back makes
    /// all that was kept useless.
    fn forget(&mut self, second: u64) {
        if self.went.back().is_some_and(|went| went.second > second + PACE_S) {
            self.went.clear();
        }
        while self.went.get(1).is_some_and(|went| went.second + PACE_S <= second) {
            self.went.pop_front();
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use engine::{Borders, DrawView, LineTerms, Seq, Standings, Stock};

    /// One of ten thousand people, of whom each may have two.
    pub(crate) fn line(reached: u32, sure_to: u32, total: u64) -> LineView {
        LineView {
            terms: LineTerms { units: 2, turn_ms: 1, grace_ms: 1, close_ms: 1, beacon: None, access: None },
            draw: DrawView::Open,
            borders: Borders { away_to: 0, reached, sure_to },
            joined: 10_000,
            standings: Standings::default(),
            pace_max: None,
            message_changes: 0,
            commitment: [0; 32],
            version: Seq(1),
            promised: 0,
            stock: Stock::new(total),
        }
    }

    /// As it stands at these seconds; then what the pace of each is.
    fn paces(went: &[(u64, LineView)], asked: &[u64]) -> Vec<u32> {
        let board = Board::default();
        for (second, line) in went {
            board.publish(UnixMs(second * 1000), *line, "");
        }
        asked.iter().map(|second| board.pace(UnixMs(second * 1000))).collect()
    }

    #[test]
    fn units_that_many_are_called_for_at_once_are_no_pace() {
        // 100 units are for 50 places, which are called at once at the start.
        let start = [(0, line(0, 50, 100)), (30, line(0, 50, 100)), (40, line(50, 50, 100))];
        assert_eq!(paces(&start, &[40, 55, 70]), [0, 0, 0]);
        // Others give up: as many become sure, and are reached.
        let moved = [&start[..], &[(60, line(55, 55, 100))]].concat();
        assert_eq!(paces(&moved, &[60, 80, 100, 119, 120]), [15, 8, 5, 5, 0]);
        // Units that are added are for so many at once, too.
        let added = [&moved[..], &[(70, line(75, 75, 140))]].concat();
        assert_eq!(paces(&added, &[80, 100]), [8, 5]);
        // Nor are those who are sure as soon as they join.
        let joins: Vec<_> = (0..40).map(|at| (40 + u64::from(at), line(at, at, 100))).collect();
        assert_eq!(paces(&joins, &[80]), [0]);
    }

    /// It stood for as long as the clock had been ahead, and kept every second of that.
    #[test]
    fn a_clock_that_is_set_back_begins_the_pace_anew() {
        let board = Board::default();
        for second in (100_000..100_100_u32).chain(1000..1200) {
            board.publish(UnixMs(u64::from(second) * 1000), line(1 + second % 1000, 5_000, 10_000), "");
        }
        assert_eq!(board.pace(UnixMs(1_199_000)), 60);
        assert!(board.lock().went.len() as u64 <= PACE_S + 2);
    }

    #[test]
    fn while_some_who_are_sure_are_not_reached_the_pace_is_theirs() {
        let limited = |at: u32| (100 + u64::from(at), line(1 + 3 * at, 5_000, 10_000));
        let went: Vec<_> = (0..90).map(limited).collect();
        let started = [&[(30, line(0, 5_000, 10_000))], &went[..]].concat();
        assert_eq!(paces(&started[..=10], &[109]), [0], "too soon to say");
        assert_eq!(paces(&started[..=20], &[119]), [180]);
        assert_eq!(paces(&started, &[189]), [180]);
        // A server that has just started knows of nothing before.
        assert_eq!(paces(&went[60..], &[189]), [180]);
        let (_, last) = started[started.len() - 1];
        for (pace_max, pace) in [(Some(0), 0), (Some(1), 60), (Some(4), 180)] {
            let limited = [&started[..], &[(189, LineView { pace_max, ..last })]].concat();
            assert_eq!(paces(&limited, &[189]), [pace], "{pace_max:?}");
        }
        let view = line(100, 120, 1_000);
        let ahead = [100, 101, 120, 121].map(|place| ahead_of(&view, place));
        assert_eq!(ahead, [None, Some(0), Some(19), None]);
        assert_eq!(ahead_of(&line(120, 120, 1_000), 121), Some(0));
    }
}
