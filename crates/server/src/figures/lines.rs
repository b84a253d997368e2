//! The lines of the items that are shown: who joins, who waits and is there, what became of those who were reached, and
//! how long they waited beside what their page had said.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use engine::{LineView, Phase, SkuId, Standings, UnixMs};
use serde::{Serialize, Serializer};

use super::sales::{room, watched};
use super::sample::per_s;
use crate::intake::board::{Board, ahead_of};
use crate::intake::catalog::Catalog;
use crate::time::Instant;

/// Between two moments that are kept of a line, to compare with later.
const KEPT_EVERY_MS: u64 = 10_000;
/// What a page said is looked up so long before.
const KEPT_FOR_MS: u64 = 5 * 60_000;

/// As the API shows them.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct LineFigures {
    /// Of the draw of its places.
    draw: &'static str,
    joined: u32,
    /// `None`: at the first look.
    joins_per_s: Option<f64>,
    /// Not reached yet.
    waiting: u32,
    /// Of those near the front.
    present: u32,
    sure_to: u32,
    reached: u32,
    /// As they stand now; the rest of those who were reached has ordered.
    in_grace: u32,
    away: u32,
    turns: u32,
    /// Since the start, as are the next three.
    called: u32,
    ordered: u32,
    expired: u32,
    given_back: u32,
    /// Places a minute, as its board has it.
    pace: u32,
    /// As an operator has limited it; `None`: not at all.
    pace_max_per_s: Option<u32>,
    /// How long whoever is last in the line would wait at that pace. `None`: that can't be said, or they may not be reached before the end.
    tail_wait_s: Option<u64>,
    wait: Option<Wait>,
    /// What everybody in it is to read; empty: nothing.
    #[serde(serialize_with = "as_text")]
    message: Arc<str>,
}

fn as_text<S: Serializer>(text: &Arc<str>, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(text)
}

/// How long whoever was reached last has waited since some minutes before, and how long a page would have said then.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
struct Wait {
    said_s: u64,
    took_s: u64,
}

/// At one look.
#[derive(Clone, Copy, Debug)]
struct Moment {
    at: UnixMs,
    reached: u32,
    pace: u32,
}

#[derive(Debug)]
struct Followed {
    figures: LineFigures,
    /// When the last place was reached.
    reached_at: UnixMs,
    /// The oldest first.
    moments: VecDeque<Moment>,
}

/// The lines that are shown, as they were at the last look.
#[derive(Debug, Default)]
pub(super) struct Lines {
    looked_at: Option<Instant>,
    followed: BTreeMap<SkuId, Followed>,
}

impl Lines {
    pub(super) fn look(&mut self, catalog: &Catalog, (now, at): (UnixMs, Instant), wanted: &[u64]) {
        let watched = watched(catalog, now, wanted);
        let room = room(&watched.iter().map(|(_, sale)| sale.spec.items.len()).collect::<Vec<_>>());
        let mut before = std::mem::take(&mut self.followed);
        for ((phase, sale), room) in watched.into_iter().zip(room) {
            let first = sale.first_sku.0;
            for (sku, number) in catalog.skus[first as usize..].iter().zip(first..).take(room) {
                let Some((board, line)) = sku.board.as_ref().and_then(|board| Some((board, board.read()?)))
                else {
                    continue;
                };
                let before = before.remove(&SkuId(number));
                let mut figures = LineFigures::of(&line, board, now, (phase, sale.spec.ends_at));
                if let Some((before, looked_at)) = before.as_ref().zip(self.looked_at) {
                    let joined = u64::from(figures.joined.saturating_sub(before.figures.joined));
                    figures.joins_per_s = Some(per_s(joined, at.duration_since(looked_at)));
                }
                self.followed.insert(SkuId(number), Followed::after(before, figures, now));
            }
        }
        self.looked_at = Some(at);
    }

    /// `None`: it has no line, or nobody has said yet how that is.
    pub(super) fn of(&self, sku: SkuId) -> Option<LineFigures> {
        self.followed.get(&sku).map(|followed| followed.figures.clone())
    }
}

impl LineFigures {
    fn of(line: &LineView, board: &Board, now: UnixMs, (phase, end): (Phase, UnixMs)) -> LineFigures {
        let LineView { draw, borders, joined, standings, pace_max, .. } = line;
        let Standings { in_grace, away, called, ordered, expired, given_back, .. } = *standings;
        let (waiting, pace) = (joined - borders.reached, board.pace(now));
        let is_in_time =
            |wait_s: &u64| *joined <= borders.sure_to || now.plus(wait_s.saturating_mul(1000)) < end;
        let tail_wait_s = ahead_of(line, *joined).and_then(|ahead| wait_s(ahead, pace)).filter(is_in_time);
        LineFigures {
            draw: draw.as_str(phase == Phase::Ended),
            joined: *joined,
            joins_per_s: None,
            waiting,
            present: board.present(),
            sure_to: borders.sure_to,
            reached: borders.reached,
            in_grace,
            away,
            turns: called,
            called: standings.all_called(),
            ordered,
            expired,
            given_back,
            pace,
            pace_max_per_s: *pace_max,
            tail_wait_s,
            wait: None,
            message: board.message().map(|(_, message)| message).unwrap_or_default(),
        }
    }
}

/// As a page says it: so many places at that pace. `None`: the line stands.
fn wait_s(places: u32, pace: u32) -> Option<u64> {
    (u64::from(places) * 60).checked_div(pace.into())
}

impl Followed {
    fn after(before: Option<Followed>, mut figures: LineFigures, now: UnixMs) -> Followed {
        let (mut reached_at, mut moments) = (now, VecDeque::new());
        if let Some(before) = before {
            moments = before.moments;
            if before.figures.reached == figures.reached {
                reached_at = before.reached_at;
            }
        }
        // A clock that was put back makes all that was kept useless.
        moments.retain(|moment| moment.at <= now);
        while moments.front().is_some_and(|moment| moment.at.0 + KEPT_FOR_MS < now.0) {
            moments.pop_front();
        }
        figures.wait = moments.iter().find_map(|then| Wait::since(then, figures.reached, reached_at));
        if moments.back().is_none_or(|last| last.at.0 + KEPT_EVERY_MS <= now.0) {
            moments.push_back(Moment { at: now, reached: figures.reached, pace: figures.pace });
        }
        Followed { figures, reached_at, moments }
    }
}

impl Wait {
    /// `place`: was reached last, at this time. `None`: it was reached before, or nothing was said then as the line stood.
    fn since(then: &Moment, place: u32, reached_at: UnixMs) -> Option<Wait> {
        let ahead = place.checked_sub(then.reached + 1)?;
        let took_ms = reached_at.0.checked_sub(then.at.0)?;
        Some(Wait { said_s: wait_s(ahead, then.pace)?, took_s: took_ms / 1000 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::intake::board::tests::line;

    fn figures(reached: u32, pace: u32) -> LineFigures {
        LineFigures {
            draw: "drawn",
            joined: 1_000,
            joins_per_s: None,
            waiting: 1_000 - reached,
            present: 0,
            sure_to: 500,
            reached,
            in_grace: 0,
            away: 0,
            turns: 0,
            called: 0,
            ordered: 0,
            expired: 0,
            given_back: 0,
            pace,
            pace_max_per_s: None,
            tail_wait_s: None,
            wait: None,
            message: Arc::default(),
        }
    }

    /// One who becomes sure a minute, and ten who wait.
    #[test]
    fn whoever_is_last_waits_till_the_end_at_most_unless_they_are_sure() {
        let line = |reached, sure_to, joined| LineView { joined, ..line(reached, sure_to, 2) };
        let tail = |to: LineView, end_s: u64| {
            let (board, now) = (Board::default(), UnixMs(60_000));
            board.publish(UnixMs(0), line(1, 1, to.joined), "");
            board.publish(now, to, "");
            LineFigures::of(&to, &board, now, (Phase::Live, UnixMs(end_s * 1000))).tail_wait_s
        };
        let last = line(2, 2, 12);
        assert_eq!([600, 601].map(|end_s| tail(last, end_s)), [None, Some(540)]);
        assert_eq!(tail(line(2, 12, 12), 61), Some(540), "sure, after the end too");
        assert_eq!(tail(line(2, 3, 12), 10_000), None, "others who are sure go first");
        assert_eq!(tail(line(12, 12, 12), 10_000), None, "nobody waits");
    }

    #[test]
    fn what_a_page_had_said_stands_beside_how_long_it_took() {
        let mut line: Option<Followed> = None;
        // A place a second, after a minute in which none was reached.
        let mut look = |second: u64, reached, pace| {
            line = Some(Followed::after(line.take(), figures(reached, pace), UnixMs(second * 1000)));
            let line = line.as_ref().unwrap();
            assert!(line.moments.len() <= 31, "{} are kept", line.moments.len());
            line.figures.wait.map(|wait| (wait.said_s, wait.took_s))
        };
        for second in 0..60 {
            assert_eq!(look(second, 0, 0), None, "nothing was said while it stood");
        }
        for second in 60..120 {
            look(second, u32::try_from(second - 60).unwrap(), 30);
        }
        // At 60 s, when the line began to move, the page of place 60 said 59 places at 30 a minute.
        assert_eq!(look(120, 60, 60), Some((118, 60)));
        for second in 121..600 {
            look(second, u32::try_from(second - 60).unwrap(), 60);
        }
        // Five minutes before, at the pace that it had: 299 places, as the next is reached at once.
        assert_eq!(look(600, 540, 60), Some((299, 300)));
        // It stands again, and how long the last one took stays, as long as it is known what was said.
        assert_eq!(look(700, 540, 0), Some((199, 200)));
        assert_eq!(look(950, 540, 0), None);
        // The clock was put back.
        assert_eq!(look(100, 540, 0), None);
        assert_eq!(wait_s(90, 60), Some(90));
        assert_eq!(wait_s(90, 0), None);
    }
}
