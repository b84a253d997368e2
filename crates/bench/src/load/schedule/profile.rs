//! A level over time (requests per second, or users), and the arrivals that follow from a rate that changes.
//!
//! Pure arithmetic in seconds since the start. A profile is a fixed number of corners with straight lines between
//! them, so schedules can be copied, and the instant of arrival `n` has a closed form: no step size, no drift.

use std::time::{Duration, Instant};

use crate::load::choice::Random;

/// Corners of a profile at most: steps take two each.
pub const CORNERS_MAX: usize = 32;

/// A level from here on, up to the next corner in a straight line, after the last one for ever.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Corner {
    pub at_s: f64,
    pub level: f64,
}

/// A piecewise linear level. Two corners at one time are a jump.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Profile {
    corners: [Corner; CORNERS_MAX],
    count: usize,
}

impl Profile {
    /// # Panics
    /// If there is no corner or more than [`CORNERS_MAX`], the first is not at 0, they are not in the order of time,
    /// or a level is negative or no number.
    pub fn new(corners: &[Corner]) -> Self {
        assert!((1..=CORNERS_MAX).contains(&corners.len()), "{} corners", corners.len());
        assert!(corners[0].at_s == 0.0, "a profile begins at 0");
        assert!(
            corners.iter().all(|corner| corner.level.is_finite() && corner.level >= 0.0),
            "a level is a number from 0 on"
        );
        assert!(
            corners.windows(2).all(|two| two[0].at_s <= two[1].at_s)
                && corners.iter().all(|c| c.at_s.is_finite()),
            "corners are in the order of time"
        );
        let mut all = [corners[corners.len() - 1]; CORNERS_MAX];
        all[..corners.len()].copy_from_slice(corners);
        Self { corners: all, count: corners.len() }
    }

    pub fn constant(level: f64) -> Self {
        Self::new(&[Corner { at_s: 0.0, level }])
    }

    /// In a straight line from one level to another, which then holds.
    pub fn ramp(from: f64, to: f64, over: Duration) -> Self {
        Self::new(&[Corner { at_s: 0.0, level: from }, Corner { at_s: over.as_secs_f64(), level: to }])
    }

    /// Each level for so long; the last one holds.
    pub fn steps(levels: &[f64], each: Duration) -> Self {
        let mut corners = Vec::with_capacity(2 * levels.len());
        for (step, level) in levels.iter().enumerate() {
            let at_s = each.as_secs_f64() * step as f64;
            if let Some(&Corner { level: before, .. }) = corners.last() {
                corners.push(Corner { at_s, level: before });
            }
            corners.push(Corner { at_s, level: *level });
        }
        Self::new(&corners)
    }

    pub fn corners(&self) -> &[Corner] {
        &self.corners[..self.count]
    }

    pub(super) fn is_constant(&self) -> bool {
        self.corners().iter().all(|corner| corner.level == self.corners[0].level)
    }

    pub(super) fn highest(&self) -> f64 {
        self.corners().iter().map(|corner| corner.level).fold(0.0, f64::max)
    }

    pub(super) fn last(&self) -> f64 {
        self.corners[self.count - 1].level
    }

    pub(super) fn level_at(&self, at_s: f64) -> f64 {
        let next = self.corners().iter().position(|corner| corner.at_s > at_s);
        match next {
            None => self.last(),
            Some(next) => {
                let (from, to) = (self.corners[next - 1], self.corners[next]);
                from.level + (to.level - from.level) * (at_s - from.at_s) / (to.at_s - from.at_s)
            }
        }
    }

    /// The first time from `from_s` on at which the level is at least this; `None` if it never is.
    pub(super) fn reaches(&self, level: f64, from_s: f64) -> Option<f64> {
        if self.level_at(from_s) >= level {
            return Some(from_s);
        }
        let ahead = self.corners().windows(2).filter(|two| two[1].at_s > from_s);
        for two in ahead {
            let (from, to) = (two[0], two[1]);
            if to.level < level {
                continue;
            }
            let rise = to.level - from.level;
            let part = if rise > 0.0 { ((level - from.level) / rise).clamp(0.0, 1.0) } else { 0.0 };
            return Some((from.at_s + (to.at_s - from.at_s) * part).max(from_s));
        }
        None
    }
}

/// How arrivals lie around their rate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Spacing {
    /// As regular as the rate allows.
    Even,
    /// A Poisson process: independent buyers. Their clusters make queues that even spacing never shows.
    Poisson,
}

/// The rate of a stream.
#[derive(Debug, Clone)]
pub(super) enum Rate {
    Profile(Box<Profile>),
    /// From `at_s` on `per_s * exp(-(t - at_s) / decay_s)`; before it, nothing.
    Decay {
        at_s: f64,
        per_s: f64,
        decay_s: f64,
    },
}

/// Where in a profile a mass lies: the corner before it, and the integral up to there. It only moves on.
#[derive(Debug, Clone, Copy, Default)]
struct Cursor {
    corner: usize,
    mass: f64,
}

/// Arrivals one after another: arrival `n` is due when the integral of the rate reaches `n` (even spacing), or the
/// sum of `n` exponential draws (Poisson).
#[derive(Debug, Clone)]
pub(super) struct Stream {
    rate: Rate,
    spacing: Spacing,
    random: Random,
    started: Instant,
    /// The integral of the rate at which the next arrival is due.
    mass: f64,
    cursor: Cursor,
    due: Option<Instant>,
}

impl Stream {
    pub(super) fn start(rate: Rate, spacing: Spacing, random: Random, started: Instant) -> Self {
        let mut stream =
            Self { rate, spacing, random, started, mass: 0.0, cursor: Cursor::default(), due: None };
        if spacing == Spacing::Poisson {
            stream.mass = stream.random.exponential();
        }
        stream.due = stream.instant();
        stream
    }

    /// When the next arrival is due; `None` if there is none any more.
    pub(super) fn due(&self) -> Option<Instant> {
        self.due
    }

    /// Goes on to the arrival after that.
    pub(super) fn advance(&mut self) {
        self.mass += match self.spacing {
            Spacing::Even => 1.0,
            Spacing::Poisson => self.random.exponential(),
        };
        self.due = self.instant();
    }

    fn instant(&mut self) -> Option<Instant> {
        let seconds = match &self.rate {
            Rate::Profile(profile) => self.cursor.advance(profile, self.mass)?,
            Rate::Decay { at_s, per_s, decay_s } => {
                let left = 1.0 - self.mass / (per_s * decay_s);
                (left > 0.0).then(|| at_s - decay_s * left.ln())?
            }
        };
        // Beyond what the clock can say is never.
        self.started.checked_add(Duration::try_from_secs_f64(seconds).ok()?)
    }
}

impl Cursor {
    /// The time at which the integral of the profile reaches the mass.
    fn advance(&mut self, profile: &Profile, mass: f64) -> Option<f64> {
        let corners = profile.corners();
        while let Some([from, to]) = corners.get(self.corner..self.corner + 2) {
            let length = to.at_s - from.at_s;
            let area = length * (from.level + to.level) / 2.0;
            let rest = mass - self.mass;
            if rest < area {
                // rest = from * x + slope / 2 * x^2, solved without cancellation.
                let slope = (to.level - from.level) / length;
                let root = (from.level * from.level + 2.0 * slope * rest).max(0.0).sqrt();
                let sum = from.level + root;
                return Some(from.at_s + if sum > 0.0 { 2.0 * rest / sum } else { 0.0 });
            }
            self.corner += 1;
            self.mass += area;
        }
        let Corner { at_s, level } = corners[self.corner];
        (level > 0.0).then(|| at_s + (mass - self.mass) / level)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn arrivals(profile: Profile, spacing: Spacing, until_s: f64) -> Vec<f64> {
        let start = Instant::now();
        let mut stream = Stream::start(Rate::Profile(Box::new(profile)), spacing, Random::new(5), start);
        std::iter::from_fn(|| {
            let due = stream.due()?.duration_since(start).as_secs_f64();
            stream.advance();
            (due < until_s).then_some(due)
        })
        .collect()
    }

    fn between(arrivals: &[f64], from: f64, to: f64) -> usize {
        arrivals.iter().filter(|at| (from..to).contains(*at)).count()
    }

    #[test]
    fn levels_and_when_they_are_reached() {
        let ramp = Profile::ramp(10.0, 30.0, 10 * SECOND);
        assert_eq!((ramp.level_at(0.0), ramp.level_at(5.0), ramp.level_at(99.0)), (10.0, 20.0, 30.0));
        assert_eq!((ramp.reaches(10.0, 0.0), ramp.reaches(20.0, 0.0)), (Some(0.0), Some(5.0)));
        assert_eq!((ramp.reaches(20.0, 7.0), ramp.reaches(31.0, 0.0)), (Some(7.0), None));
        let steps = Profile::steps(&[1.0, 4.0, 2.0], 2 * SECOND);
        assert_eq!((steps.level_at(1.9), steps.level_at(2.0), steps.level_at(4.0)), (1.0, 4.0, 2.0));
        assert_eq!((steps.reaches(3.0, 0.0), steps.reaches(3.0, 4.0)), (Some(2.0), None));
        assert_eq!((steps.highest(), steps.last(), steps.is_constant()), (4.0, 2.0, false));
    }

    #[test]
    fn even_arrivals_follow_the_integral_of_the_rate() {
        // 0 to 100/s over 2 s: 100 arrivals, arrival n at 2 * sqrt(n / 100).
        let ramp = arrivals(Profile::ramp(0.0, 100.0, 2 * SECOND), Spacing::Even, 2.0 - 1e-9);
        assert_eq!(ramp.len(), 100);
        for (number, at) in ramp.iter().enumerate() {
            let wanted = 2.0 * (number as f64 / 100.0).sqrt();
            assert!((at - wanted).abs() < 1e-6, "{number}: {at}, not {wanted}");
        }
        let steps = arrivals(Profile::steps(&[10.0, 0.0, 40.0], SECOND), Spacing::Even, 4.0);
        assert_eq!(
            (between(&steps, 0.0, 1.0), between(&steps, 1.0, 2.0), between(&steps, 2.0, 4.0)),
            (10, 0, 80)
        );
        let down = arrivals(Profile::ramp(100.0, 0.0, 2 * SECOND), Spacing::Even, 1e9);
        assert_eq!((down.len(), between(&down, 0.0, 1.0)), (100, 75));
    }

    #[test]
    fn poisson_arrivals_have_the_rate_and_the_spread() {
        let at = arrivals(Profile::constant(1000.0), Spacing::Poisson, 100.0);
        assert!(at.len().abs_diff(100_000) < 1_000, "{}", at.len());
        assert!(at.is_sorted());
        // Of a Poisson process, the variance of the counts is their mean; even spacing has none.
        let mut counts = vec![0_f64; 1000];
        for at in at {
            counts[format!("{:.0}", (at * 10.0).floor()).parse::<usize>().unwrap()] += 1.0;
        }
        let mean = counts.iter().sum::<f64>() / 1000.0;
        let variance = counts.iter().map(|count| (count - mean).powi(2)).sum::<f64>() / 1000.0;
        assert!((0.8..1.25).contains(&(variance / mean)), "{variance} / {mean}");
        let ramp = arrivals(Profile::ramp(0.0, 2000.0, 10 * SECOND), Spacing::Poisson, 10.0);
        assert!(between(&ramp, 0.0, 5.0).abs_diff(2_500) < 250, "{}", between(&ramp, 0.0, 5.0));
        assert!(between(&ramp, 5.0, 10.0).abs_diff(7_500) < 400, "{}", between(&ramp, 5.0, 10.0));
    }

    #[test]
    fn a_decaying_spike_ends() {
        let start = Instant::now();
        let rate = Rate::Decay { at_s: 3.0, per_s: 1000.0, decay_s: 2.0 };
        let mut stream = Stream::start(rate, Spacing::Even, Random::new(1), start);
        let mut at = Vec::new();
        while let Some(due) = stream.due() {
            at.push(due.duration_since(start).as_secs_f64());
            stream.advance();
        }
        assert_eq!((at.len(), at[0]), (2000, 3.0));
        // After one time constant, 1 - 1/e of them have come.
        assert_eq!(between(&at, 0.0, 5.0), 1265);
    }
}
