//! Who has tried most often, in bounded memory: counters for those who tried, and for all others how often they can have.
//!
//! When the table is full, the half with the fewest attempts goes (Misra and Gries, in batches), and what the largest of these
//! can have had is noted: whoever comes later may have had as much before. Each time at least [`KEPT`] counters lose as much as
//! that number grows, so it is at most the KEPT-th part of all attempts, whatever order they come in.
//!
//! Must not: read a clock.

use std::collections::HashMap;
use std::hash::Hash;

use engine::UnixMs;
use foldhash::fast::RandomState;

/// Kept when a table is full.
const KEPT: usize = 896;
/// As many as a hash map of 2,048 places takes.
const COUNTERS_MAX: usize = 2 * KEPT;
/// Parts of the time that counts as recent, the one that is not over among them.
const WINDOWS: u32 = 5;
/// Each lasts so long. So what is recent is of the last 60 to 75 seconds.
const WINDOW_MS: u64 = 15_000;

/// What an attempt came to, as far as it says something of who tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Came {
    Accepted,
    Replayed,
    /// The sale had not started, was paused, or over.
    RefusedClosed,
    /// There were not enough units.
    RefusedStock,
    /// The buyer may have no more, or not yet.
    RefusedLimit,
    /// What was asked for can't be.
    RefusedInvalid,
    /// Asked to come again.
    Busy,
    Unknown,
}

pub const CAME: usize = Came::Unknown as usize + 1;

/// By [`Came`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Attempts(pub [u32; CAME]);

impl Attempts {
    fn count(&mut self, came: Came) {
        let count = &mut self.0[came as usize];
        *count = count.saturating_add(1);
    }

    pub fn add(&mut self, other: &Attempts) {
        for (count, more) in self.0.iter_mut().zip(other.0) {
            *count = count.saturating_add(more);
        }
    }

    pub fn total(&self) -> u32 {
        self.0.iter().fold(0, |total, count| total.saturating_add(*count))
    }
}

/// What is known of one who tried. Most try within one window, and are then kept in a third of the memory.
#[derive(Clone, Debug)]
pub(super) struct AttemptRecord {
    pub(super) night: Attempts,
    /// By the places of windows; `None`: all of the night is of the latest.
    recent: Option<Box<Windows>>,
    /// Of the latest attempt.
    window: u32,
    /// So many attempts can have come before the first that was counted.
    pub(super) missed_max: u32,
}

type Windows = [Attempts; WINDOWS as usize];

impl AttemptRecord {
    fn at_most(&self) -> u32 {
        self.night.total().saturating_add(self.missed_max)
    }

    fn count(&mut self, came: Came, window: u32) {
        let passed = passed(self.window, window);
        if passed > 0 {
            let recent = self.recent.get_or_insert_with(|| {
                let mut recent = Box::<Windows>::default();
                recent[place(self.window)] = self.night;
                recent
            });
            begin_anew(recent, window, passed, Attempts::default());
            self.window = window;
        }
        self.night.count(came);
        if let Some(recent) = &mut self.recent {
            recent[place(window)].count(came);
        }
    }

    /// Of the last minute.
    pub(super) fn recent(&self, window: u32) -> Attempts {
        let passed = passed(self.window, window);
        match &self.recent {
            None if passed < WINDOWS => self.night,
            None => Attempts::default(),
            Some(recent) => {
                let (mut recent, mut sum) = (**recent, Attempts::default());
                begin_anew(&mut recent, window, passed, Attempts::default());
                recent.iter().for_each(|attempts| sum.add(attempts));
                sum
            }
        }
    }
}

/// Windows that have begun since; all of them if a clock was set back, which leaves nothing that is recent.
fn passed(since: u32, window: u32) -> u32 {
    window.checked_sub(since).map_or(WINDOWS, |passed| passed.min(WINDOWS))
}

/// Of the windows that have begun, up to this one.
fn begin_anew<T: Copy>(windows: &mut [T; WINDOWS as usize], window: u32, passed: u32, with: T) {
    for step in 0..passed {
        windows[place(window.saturating_sub(step))] = with;
    }
}

/// The window that a time is in.
pub(super) fn window_of(at: UnixMs) -> u32 {
    u32::try_from(at.0 / WINDOW_MS).unwrap_or(u32::MAX)
}

fn place(window: u32) -> usize {
    (window % WINDOWS) as usize
}

#[derive(Debug)]
struct Counter {
    record: AttemptRecord,
    /// What names them beside the key.
    name: Option<Box<str>>,
}

/// The counters of one sale and one event loop, by item and by who tried.
#[derive(Debug)]
pub(super) struct Table<K> {
    /// By a hash that is quick, not strong: whoever has all in one place makes a look as long as the table at most.
    counters: HashMap<K, Counter, RandomState>,
    missed_max: u32,
    /// What it was when each of the last windows began.
    began_with: [u32; WINDOWS as usize],
    window: u32,
}

impl<K> Default for Table<K> {
    fn default() -> Table<K> {
        Table { counters: HashMap::default(), missed_max: 0, began_with: [0; WINDOWS as usize], window: 0 }
    }
}

impl<K: Copy + Eq + Hash> Table<K> {
    pub(super) fn count(&mut self, who: K, name: Option<&str>, came: Came, window: u32) {
        self.move_to(window);
        if self.counters.len() >= COUNTERS_MAX && !self.counters.contains_key(&who) {
            self.make_room();
        }
        let missed_max = self.missed_max;
        let counter = self.counters.entry(who).or_insert_with(|| {
            let record = AttemptRecord { night: Attempts::default(), recent: None, window, missed_max };
            Counter { record, name: name.map(Box::from) }
        });
        counter.record.count(came, window);
    }

    fn make_room(&mut self) {
        let mut most: Vec<u32> = self.counters.values().map(|counter| counter.record.at_most()).collect();
        let (_, least_kept, _) = most.select_nth_unstable_by(KEPT - 1, |a, b| b.cmp(a));
        self.missed_max = *least_kept;
        self.counters.retain(|_, counter| counter.record.at_most() > self.missed_max);
    }

    fn move_to(&mut self, window: u32) {
        if window == self.window {
            return;
        }
        begin_anew(&mut self.began_with, window, passed(self.window, window), self.missed_max);
        self.window = window;
    }

    /// As far as a minute goes, so many attempts of anybody can have been missed: of the night, and of the last minute.
    pub(super) fn missed_max(&mut self, window: u32) -> [u32; 2] {
        self.move_to(window);
        let oldest = self.began_with[place(window.wrapping_add(1))];
        [self.missed_max, self.missed_max - oldest]
    }

    pub(super) fn records(&self) -> impl Iterator<Item = (K, &AttemptRecord)> {
        self.counters.iter().map(|(who, counter)| (*who, &counter.record))
    }

    pub(super) fn name(&self, who: &K) -> Option<&str> {
        self.counters.get(who)?.name.as_deref()
    }

    pub(super) fn forget(&mut self, is_it: impl Fn(&K) -> bool) {
        self.counters.retain(|who, _| !is_it(who));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A seeded crowd: the few who try again and again are never missed, and nobody's count is off by more than is said.
    #[test]
    fn who_tries_often_is_listed_and_the_bound_holds_in_bounded_memory() {
        for seed in 1..=3_u64 {
            let (mut table, mut exact, mut state) = (Table::default(), HashMap::<u64, u32>::new(), seed);
            let all = 50_000_u32;
            for _ in 0..all {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                let (kind, rest) = (state >> 60, (state >> 20) % 1_000_000);
                let who = if kind == 0 { rest % 10 } else { 10 + rest };
                table.count(who, None, Came::RefusedStock, 7);
                *exact.entry(who).or_default() += 1;
                assert!(table.counters.len() <= COUNTERS_MAX);
            }
            let [missed_max, recent] = table.missed_max(7);
            assert_eq!(missed_max, recent, "seed {seed}: all of it was within the minute");
            assert!(missed_max as usize <= all as usize / KEPT, "seed {seed}: {missed_max}");
            let records: HashMap<u64, &AttemptRecord> = table.records().collect();
            for (who, count) in &exact {
                match records.get(who) {
                    Some(record) => {
                        let counted = record.night.total();
                        assert!(
                            counted <= *count && *count <= counted + record.missed_max,
                            "seed {seed}: {who}"
                        );
                    }
                    None => assert!(*count <= missed_max, "seed {seed}: {who} tried {count} times"),
                }
            }
            assert!((0..10).all(|who| records.contains_key(&who)), "seed {seed}");
        }
    }

    #[test]
    fn the_last_minute_goes_by_and_a_clock_that_was_set_back_starts_it_anew() {
        let mut table = Table::default();
        for (window, times) in [(100, 3), (101, 2), (104, 1)] {
            (0..times).for_each(|_| table.count(1_u64, Some("ann"), Came::Busy, window));
        }
        let recent = |table: &Table<u64>, window| table.records().next().unwrap().1.recent(window).total();
        assert_eq!([104, 105, 106, 108, 109].map(|window| recent(&table, window)), [6, 3, 1, 1, 0]);
        let mut of_one_window = Table::default();
        (0..3).for_each(|_| of_one_window.count(1_u64, None, Came::Busy, 100));
        assert_eq!([99, 100, 104, 105].map(|window| recent(&of_one_window, window)), [0, 3, 3, 0]);
        table.count(1, None, Came::Busy, 50);
        assert_eq!([50, 54, 55].map(|window| recent(&table, window)), [1, 1, 0]);
        assert_eq!(table.records().next().unwrap().1.night.0[Came::Busy as usize], 7);
        assert_eq!(table.name(&1), Some("ann"));
        table.forget(|who| *who == 1);
        assert_eq!(table.records().count(), 0);
    }
}
