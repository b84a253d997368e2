//! Arrivals one after the other, by a rate that stays or decays.
//!
//! Pure arithmetic in seconds since the start: the instant of arrival `n` has a closed form, so there is no step size and
//! no drift.

use std::time::{Duration, Instant};

use crate::load::choice::Random;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Spacing {
    /// As regular as the rate allows.
    Even,
    /// A Poisson process: independent buyers. Their clusters make queues that even spacing never shows.
    Poisson,
}

#[derive(Debug, Clone, Copy)]
pub(super) enum Rate {
    Constant {
        per_s: f64,
    },
    /// From `at_s` on `per_s * exp(-(t - at_s) / decay_s)`; before it, nothing.
    Decay {
        at_s: f64,
        per_s: f64,
        decay_s: f64,
    },
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
    /// When the next arrival is due; `None` if there is none any more.
    pub(super) due: Option<Instant>,
}

impl Stream {
    pub(super) fn start(rate: Rate, spacing: Spacing, random: Random, started: Instant) -> Self {
        let mut stream = Self { rate, spacing, random, started, mass: 0.0, due: None };
        if spacing == Spacing::Poisson {
            stream.mass = stream.random.exponential();
        }
        stream.due = stream.instant();
        stream
    }

    pub(super) fn advance(&mut self) {
        self.mass += match self.spacing {
            Spacing::Even => 1.0,
            Spacing::Poisson => self.random.exponential(),
        };
        self.due = self.instant();
    }

    fn instant(&self) -> Option<Instant> {
        let seconds = match self.rate {
            Rate::Constant { per_s } => self.mass / per_s,
            Rate::Decay { at_s, per_s, decay_s } => {
                let left = 1.0 - self.mass / (per_s * decay_s);
                (left > 0.0).then(|| at_s - decay_s * left.ln())?
            }
        };
        // Beyond what the clock can say is never.
        self.started.checked_add(Duration::try_from_secs_f64(seconds).ok()?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arrivals(per_s: f64, spacing: Spacing, until_s: f64) -> Vec<f64> {
        let start = Instant::now();
        let mut stream = Stream::start(Rate::Constant { per_s }, spacing, Random::new(5), start);
        std::iter::from_fn(|| {
            let due = stream.due?.duration_since(start).as_secs_f64();
            stream.advance();
            (due < until_s).then_some(due)
        })
        .collect()
    }

    fn between(arrivals: &[f64], from: f64, to: f64) -> usize {
        arrivals.iter().filter(|at| (from..to).contains(*at)).count()
    }

    #[test]
    fn even_arrivals_do_not_drift() {
        let all = arrivals(3.0, Spacing::Even, 1000.0 - 1e-9);
        assert_eq!(all.len(), 3000);
        for (number, at) in all.iter().enumerate() {
            let wanted = number as f64 / 3.0;
            assert!((at - wanted).abs() < 1e-6, "{number}: {at}, not {wanted}");
        }
    }

    #[test]
    fn poisson_arrivals_have_the_rate_and_the_spread() {
        let at = arrivals(1000.0, Spacing::Poisson, 100.0);
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
    }

    #[test]
    fn a_decaying_spike_ends() {
        let start = Instant::now();
        let rate = Rate::Decay { at_s: 3.0, per_s: 1000.0, decay_s: 2.0 };
        let mut stream = Stream::start(rate, Spacing::Even, Random::new(1), start);
        let mut at = Vec::new();
        while let Some(due) = stream.due {
            at.push(due.duration_since(start).as_secs_f64());
            stream.advance();
        }
        assert_eq!((at.len(), at[0]), (2000, 3.0));
        // After one time constant, 1 - 1/e of them have come.
        assert_eq!(between(&at, 0.0, 5.0), 1265);
    }
}
