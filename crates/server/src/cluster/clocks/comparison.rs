//! Which of several clocks are wrong: the rule alone.
//!
//! Clocks that agree are right if they are more than half of all that could be read. What is further from the middle one of
//! them than a bound, beyond all doubt of its reading, is out. Must not: read a clock.

use std::fmt;

use crate::gate::limits::CLOCK_OFF_MS_MAX;

/// Whose clock it is.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::cluster) enum Whose {
    /// Of whoever compares.
    Ours,
    /// Of another server, by its address.
    Server(String),
    /// Of a Redis, by its address.
    Gate(String),
    /// Of the database, by its address.
    Ledger(String),
}

impl fmt::Display for Whose {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Whose::Ours => f.write_str("this machine"),
            Whose::Server(address) => write!(f, "the server {address}"),
            Whose::Gate(address) => write!(f, "redis {address}"),
            Whose::Ledger(address) => f.write_str(address),
        }
    }
}

/// A clock that was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::cluster) struct Reading {
    pub(in crate::cluster) whose: Whose,
    /// How far it is ahead of one and the same reference (negative: behind).
    pub(in crate::cluster) ahead_ms: i64,
    /// By how much that may be wrong, because reading took time.
    pub(in crate::cluster) doubt_ms: u64,
}

/// What comparing came to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::cluster) struct Comparison {
    /// How far what most clocks say is ahead of the reference. `None`: no time is said by more than half of them.
    pub(in crate::cluster) middle_ms: Option<i64>,
    /// Each clock, and how far it is ahead of the middle; without one, of the reference.
    pub(in crate::cluster) clocks: Vec<(Reading, i64)>,
}

impl Comparison {
    pub(in crate::cluster) fn of(mut readings: Vec<Reading>) -> Comparison {
        readings.sort_by_key(|reading| reading.ahead_ms);
        let Some(middle) = readings.get(readings.len().saturating_sub(1) / 2).map(|middle| middle.ahead_ms)
        else {
            return Comparison::default();
        };
        let agreeing = readings.iter().filter(|reading| !is_off(reading, reading.ahead_ms - middle)).count();
        let middle_ms = (agreeing * 2 > readings.len()).then_some(middle);
        let from = middle_ms.unwrap_or(0);
        let clocks = readings.into_iter().map(|reading| {
            let off = reading.ahead_ms - from;
            (reading, off)
        });
        Comparison { middle_ms, clocks: clocks.collect() }
    }

    /// The clocks that are wrong, and how far each is ahead of most; all of them if no majority agrees.
    pub(in crate::cluster) fn out(&self) -> impl Iterator<Item = (&Whose, i64)> {
        let out = |(reading, off): &&(Reading, i64)| self.middle_ms.is_none() || is_off(reading, *off);
        self.clocks.iter().filter(out).map(|(reading, off)| (&reading.whose, *off))
    }

    /// Whether most clocks are behind the reference, and Redis and the database, which were read, say what that does: as it is when the
    /// machines of servers were paused, which puts no clock ahead.
    pub(in crate::cluster) fn most_are_behind(&self) -> bool {
        if self.middle_ms.is_none_or(|middle| middle >= -signed(CLOCK_OFF_MS_MAX)) {
            return false;
        }
        let readings = self.clocks.iter().map(|(reading, _)| reading);
        let (mut gates, mut ledgers) = (0, 0);
        for reading in readings {
            match reading.whose {
                Whose::Ours | Whose::Server(_) => continue,
                Whose::Gate(_) => gates += 1,
                Whose::Ledger(_) => ledgers += 1,
            }
            if is_off(reading, reading.ahead_ms) {
                return false;
            }
        }
        gates > 0 && ledgers > 0
    }

    pub(in crate::cluster) fn off(&self, whose: &Whose) -> Option<i64> {
        self.clocks.iter().find(|(reading, _)| reading.whose == *whose).map(|(_, off)| *off)
    }
}

pub(super) fn signed(ms: u64) -> i64 {
    i64::try_from(ms).unwrap_or(i64::MAX)
}

fn is_off(reading: &Reading, off_ms: i64) -> bool {
    off_ms.unsigned_abs() > CLOCK_OFF_MS_MAX + reading.doubt_ms
}

/// What is reported to an operator of a clock.
pub(in crate::cluster) fn describe(whose: &Whose, off_ms: i64) -> String {
    let seconds = off_ms.unsigned_abs() / 1_000;
    let tenths = off_ms.unsigned_abs() / 100 % 10;
    let direction = if off_ms < 0 { "behind" } else { "ahead of" };
    format!("the clock of {whose} is {seconds}.{tenths} s {direction} the others")
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: i64 = 3_600_000;

    /// Clocks by how far they are ahead; the first is ours. Those that are out.
    #[track_caller]
    fn check(ahead: &[i64], middle: Option<i64>, out: &[usize]) {
        let whose = |index: usize| match index {
            0 => Whose::Ours,
            index => Whose::Server(index.to_string()),
        };
        let reading =
            |(index, ahead): (usize, &i64)| Reading { whose: whose(index), ahead_ms: *ahead, doubt_ms: 5 };
        let comparison = Comparison::of(ahead.iter().enumerate().map(reading).collect());
        assert_eq!(comparison.middle_ms, middle, "{ahead:?}");
        let mut found: Vec<_> = comparison.out().map(|(whose, _)| whose.clone()).collect();
        found.sort();
        assert_eq!(found, out.iter().map(|index| whose(*index)).collect::<Vec<_>>(), "{ahead:?}");
    }

    #[test]
    fn a_minority_is_out_and_without_a_majority_all_are() {
        check(&[], None, &[]);
        check(&[7], Some(7), &[]);
        check(&[0, 1_999], Some(0), &[]);
        check(&[0, 2_005, 2], Some(2), &[]);
        check(&[0, 2_008, 2], Some(2), &[1]);
        check(&[24 * HOUR, 3, -2], Some(3), &[0]);
        check(&[0, -HOUR, 1, 2, HOUR], Some(1), &[1, 4]);
        // Three servers against a database and a Redis on one host.
        check(&[0, 1, 2, HOUR, HOUR], Some(2), &[3, 4]);
        check(&[0, HOUR], None, &[0, 1]);
        check(&[0, 1, HOUR, HOUR + 1], None, &[0, 1, 2, 3]);
        check(&[0, HOUR, 2 * HOUR], None, &[0, 1, 2]);
    }

    #[test]
    fn most_are_behind_if_the_engines_of_both_kinds_say_what_the_reference_does() {
        let are = |ahead: &[(Whose, i64)]| {
            let reading = |(whose, ahead_ms): &(Whose, i64)| Reading {
                whose: whose.clone(),
                ahead_ms: *ahead_ms,
                doubt_ms: 5,
            };
            Comparison::of(ahead.iter().map(reading).collect()).most_are_behind()
        };
        let server = |number: u8, ahead| (Whose::Server(number.to_string()), ahead);
        let gate = |ahead| (Whose::Gate("redis".into()), ahead);
        let ledger = |ahead| (Whose::Ledger("mariadb".into()), ahead);
        // The machines of three servers were paused for an hour, and the system's clock is the reference.
        let servers = |ahead| [(Whose::Ours, ahead), server(1, ahead), server(2, ahead)];
        let with = |ahead, engines: &[(Whose, i64)]| are(&[&servers(ahead)[..], engines].concat());
        assert!(with(-HOUR, &[gate(3), ledger(-4)]));
        assert!(
            !with(-HOUR, &[gate(3), ledger(HOUR)]) && !with(-HOUR, &[gate(3)]) && !with(-HOUR, &[ledger(3)])
        );
        assert!(!with(HOUR, &[gate(3), ledger(-4)]), "no pause puts a clock ahead");
        assert!(!with(-1_900, &[gate(3), ledger(-4)]) && !with(0, &[gate(3), ledger(-4)]));
        // Who is wrong is open, and two paused servers, one Redis and a database find out by themselves.
        assert!(!are(&[(Whose::Ours, -HOUR), server(1, -HOUR), gate(0), ledger(0)]));
        assert!(!are(&[]));
    }

    #[test]
    fn a_clock_that_could_be_read_roughly_only_is_given_the_benefit_of_the_doubt() {
        let reading = |ahead_ms, doubt_ms| Reading { whose: Whose::Gate(String::new()), ahead_ms, doubt_ms };
        let out = |doubt| {
            Comparison::of(vec![reading(0, 0), reading(0, 0), reading(3_000, doubt)])
                .out()
                .map(|(_, off)| off)
                .collect()
        };
        assert_eq!((out(900), out(1_100)), (vec![3_000], vec![]));
    }

    #[test]
    fn a_wrong_clock_is_described_with_what_it_is_of() {
        let text = describe(&Whose::Gate("10.0.0.7:6379".into()), -3_600_040);
        assert_eq!(text, "the clock of redis 10.0.0.7:6379 is 3600.0 s behind the others");
        assert_eq!(describe(&Whose::Ours, 2_150), "the clock of this machine is 2.1 s ahead of the others");
    }
}
