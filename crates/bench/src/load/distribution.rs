//! Times: the histogram that takes them, and its quantiles, which reports keep.

use std::ops::{Deref, DerefMut};

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

/// Longer times are recorded as this: far above every time limit of the driver.
pub(super) const TIME_US_MAX: u64 = 120_000_000;

/// The quantiles that are kept of a distribution: enough to draw it on logarithmic axes.
const QUANTILES: [f64; 16] =
    [0.0, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.975, 0.99, 0.995, 0.999, 0.9995, 0.9999, 0.99999, 0.999999, 1.0];

/// A latency distribution by its quantiles, ascending.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Distribution {
    pub mean_us: f64,
    pub points: Vec<Quantile>,
    pub max_us: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Quantile {
    /// 0 to 1.
    pub q: f64,
    pub us: u64,
}

impl Distribution {
    pub(crate) fn of(times: &Histogram<u64>) -> Self {
        if times.is_empty() {
            return Self::default();
        }
        let points = QUANTILES.iter().map(|&q| Quantile { q, us: times.value_at_quantile(q) }).collect();
        Self { mean_us: times.mean(), points, max_us: times.max() }
    }

    /// The time at a quantile that is kept; 0 without samples.
    pub fn at(&self, quantile: f64) -> u64 {
        self.points.iter().find(|point| point.q >= quantile).map_or(0, |point| point.us)
    }
}

/// Takes times. Its size is fixed, however many there are.
#[derive(Debug, Clone)]
pub(crate) struct Durations(Histogram<u64>);

impl Default for Durations {
    fn default() -> Self {
        let times = Histogram::new_with_bounds(1, TIME_US_MAX, 3);
        Self(times.expect("the bounds are constants that the histogram allows"))
    }
}

impl Deref for Durations {
    type Target = Histogram<u64>;

    fn deref(&self) -> &Histogram<u64> {
        &self.0
    }
}

impl DerefMut for Durations {
    fn deref_mut(&mut self) -> &mut Histogram<u64> {
        &mut self.0
    }
}
