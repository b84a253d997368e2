//! What a page does that waits in a line, and how often it asks: by the rules that docs/line.md gives it, written a second time.
//!
//! Pure: no sockets, no clock.

use std::time::Duration;

use serde::Deserialize;

use crate::load::choice::Random;

/// Whoever is farther behind those who are sure has nothing to show.
pub(super) const PRESENT_AHEAD: u32 = 10_000;
/// From so long before the start they show it.
const PRESENT_BEFORE_START_MS: u64 = 20_000;
/// Presence is shown every 4 to 5 s.
const PRESENCE_MS: (u64, u64) = (4_000, 1_000);
/// A board is read every second near the front, and every 11 s far back, a third more or less.
const BOARD_MS: (f64, f64) = (1_000.0, 11_000.0);
/// Within so many places it is read every second.
const CLOSE_PLACES: f64 = 100.0;
/// So long before the start nothing moves but the number of those who join.
const STILL_MS: u64 = 60_000;
/// An older board says nothing any more.
const OLD_MS: u64 = 5_000;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Phase {
    NotStarted,
    Live,
    Paused,
    Ended,
}

/// What everybody reads. Fields that a page makes no promise of are left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub(super) struct Board {
    pub(super) state: Phase,
    pub(super) served: u32,
    pub(super) sure_to: u32,
    pub(super) free: u64,
    pub(super) turns: u64,
    pub(super) held: u64,
    pub(super) sold: u64,
    /// The entry of the ledger that it is as of.
    pub(super) version: u64,
    pub(super) now_ms: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Zone {
    Sure,
    May,
    Nothing,
    /// The sale is over, and nobody becomes sure any more.
    Closed,
}

impl Board {
    /// Units that somebody may still get who was not promised one.
    pub(super) fn open_units(&self) -> u64 {
        self.free + self.turns + self.held
    }

    /// `None`: it is too old to say anything.
    pub(super) fn zone(&self, place: u32, now_ms: u64) -> Option<Zone> {
        let zone = if place <= self.sure_to {
            Zone::Sure
        } else if self.state == Phase::Ended {
            Zone::Closed
        } else if self.open_units() == 0 {
            Zone::Nothing
        } else {
            Zone::May
        };
        (now_ms < self.now_ms + OLD_MS).then_some(zone)
    }

    /// Until this place reads the next one.
    pub(super) fn wait_ms(&self, place: u32, starts_in_ms: u64, random: &mut Random) -> u64 {
        let (least, most) = BOARD_MS;
        let ahead = f64::from(place.saturating_sub(self.served));
        let wait = (least * (ahead / CLOSE_PLACES).sqrt()).clamp(least, most);
        let wait = if starts_in_ms > STILL_MS { most } else { wait };
        Duration::from_secs_f64(wait / 1e3 * (2.0 + 2.0 * random.unit()) / 3.0)
            .as_millis()
            .try_into()
            .expect("a wait has few milliseconds")
    }

    /// Whether somebody in this place shows that they are there.
    pub(super) fn is_near(&self, place: u32, starts_in_ms: u64) -> bool {
        place <= self.sure_to.saturating_add(PRESENT_AHEAD) && starts_in_ms < PRESENT_BEFORE_START_MS
    }
}

/// Until presence is shown again.
pub(super) fn presence_ms(random: &mut Random) -> u64 {
    PRESENCE_MS.0 + random.below(PRESENCE_MS.1)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Standing {
    Waiting,
    Reached,
    Away,
    Called,
    Over,
}

/// What joining, showing presence and leaving are answered with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub(super) struct PlaceAnswer {
    pub(super) place: Option<u32>,
    pub(super) standing: Standing,
    pub(super) turn_until_ms: Option<u64>,
    pub(super) now_ms: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn board() -> Board {
        serde_json::from_str(
            r#"{"state":"live","drawn":900,"served":100,"sure_to":120,"tail":90000,"free":5,"turns":0,"held":2,"sold":3,"gave_up":1,
                "pace":6,"version":77,"now_ms":1000000}"#,
        )
        .unwrap()
    }

    #[test]
    fn a_place_is_worth_what_the_board_says() {
        let (board, now) = (board(), 1_000_000);
        assert_eq!(board.zone(120, now), Some(Zone::Sure));
        assert_eq!(board.zone(121, now), Some(Zone::May));
        assert_eq!(board.zone(120, now + OLD_MS), None);
        let gone = Board { free: 0, held: 0, ..board };
        assert_eq!((gone.zone(120, now), gone.zone(121, now)), (Some(Zone::Sure), Some(Zone::Nothing)));
        let ended = Board { state: Phase::Ended, ..board };
        assert_eq!((ended.zone(120, now), ended.zone(121, now)), (Some(Zone::Sure), Some(Zone::Closed)));
    }

    #[test]
    fn who_is_farther_back_asks_more_seldom() {
        let (board, mut random) = (board(), Random::new(1));
        for (place, starts_in_ms, wait) in
            [(1, 0, 1_000), (200, 0, 1_000), (500, 0, 2_000), (90_000, 0, 11_000), (1, 60_001, 11_000)]
        {
            let waits: Vec<u64> = (0..500).map(|_| board.wait_ms(place, starts_in_ms, &mut random)).collect();
            let (least, most) = (waits.iter().min().unwrap(), waits.iter().max().unwrap());
            assert!(*least >= wait * 2 / 3 - 1 && *most <= wait * 4 / 3, "{place}: {least} to {most}");
            assert!(*least < wait * 3 / 4 && *most > wait * 5 / 4, "{place}: {least} to {most}");
        }
        assert!((0..100).all(|_| (4_000..5_000).contains(&presence_ms(&mut random))));
    }

    #[test]
    fn only_near_the_front_and_near_the_start_presence_is_shown() {
        let board = board();
        assert!(board.is_near(10_120, 0) && !board.is_near(10_121, 0));
        assert!(board.is_near(1, 19_999) && !board.is_near(1, 20_000));
    }
}
