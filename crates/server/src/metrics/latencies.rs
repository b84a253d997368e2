//! How long something took, counted finely enough for a percentile of one second, and shown as a histogram of Prometheus.
//!
//! Three atomic additions and no lock for each: the library's own histogram takes a lock, and can't be read. Must not: read a
//! clock.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use prometheus_client::encoding::{EncodeMetric, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::histogram::exponential_buckets;
use serde::{Deserialize, Serialize};

/// The smallest step that is distinguished: an eighth of the first bucket that `/metrics` shows.
const STEP_NS: u64 = 12_500;
/// Each bucket that `/metrics` shows is twice as long as the one before, and is counted in so many parts of one length: a
/// percentile is off by an eighth at most.
const PARTS: usize = 8;
const SHOWN: usize = 18;
/// The last one counts what took longer than all others: 13 seconds.
const BUCKETS: usize = PARTS * SHOWN + 1;

/// The counts since the start. Clones share them.
#[derive(Clone, Debug)]
pub struct Latencies(Arc<Counted>);

#[derive(Debug)]
struct Counted {
    buckets: [AtomicU64; BUCKETS],
    sum_ns: AtomicU64,
}

/// The counts of one moment, or what came between two. Written as those buckets that have any, with their places.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "Vec<(usize, u64)>", try_from = "Vec<(usize, u64)>")]
pub struct Counts([u64; BUCKETS]);

impl Default for Latencies {
    fn default() -> Latencies {
        let buckets = std::array::from_fn(|_| AtomicU64::new(0));
        Latencies(Arc::new(Counted { buckets, sum_ns: AtomicU64::new(0) }))
    }
}

impl Latencies {
    pub fn observe(&self, took: Duration) {
        let ns = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        self.0.buckets[bucket_of(ns)].fetch_add(1, Relaxed);
        self.0.sum_ns.fetch_add(ns, Relaxed);
    }

    pub fn counts(&self) -> Counts {
        Counts(std::array::from_fn(|bucket| self.0.buckets[bucket].load(Relaxed)))
    }
}

impl Default for Counts {
    fn default() -> Counts {
        Counts([0; BUCKETS])
    }
}

impl Counts {
    pub fn total(&self) -> u64 {
        self.0.iter().fold(0, |total, count| total.saturating_add(*count))
    }

    /// What came since an earlier moment.
    #[must_use]
    pub fn since(&self, earlier: &Counts) -> Counts {
        Counts(std::array::from_fn(|bucket| self.0[bucket].saturating_sub(earlier.0[bucket])))
    }

    /// Both together: a percentile of the sum is one of all, as no mean of percentiles is.
    #[must_use]
    pub fn and(&self, other: &Counts) -> Counts {
        Counts(std::array::from_fn(|bucket| self.0[bucket].saturating_add(other.0[bucket])))
    }

    /// The time that so many thousandths of them took at most, or an eighth less; `None` if there are none. What took longer than
    /// is counted is given as the longest that is.
    pub fn quantile(&self, thousandths: u64) -> Option<Duration> {
        let rank = self.total().checked_mul(thousandths)?.div_ceil(1_000);
        if rank == 0 {
            return None;
        }
        let mut counted = 0;
        let reached = |count: &u64| {
            counted = u64::saturating_add(counted, *count);
            counted >= rank
        };
        let bucket = self.0.iter().position(reached)?.min(BUCKETS - 2);
        Some(Duration::from_nanos(longest_of(bucket)))
    }
}

impl From<Counts> for Vec<(usize, u64)> {
    fn from(counts: Counts) -> Vec<(usize, u64)> {
        counts.0.into_iter().enumerate().filter(|(_, count)| *count > 0).collect()
    }
}

impl TryFrom<Vec<(usize, u64)>> for Counts {
    type Error = &'static str;

    fn try_from(written: Vec<(usize, u64)>) -> Result<Counts, &'static str> {
        let mut counts = Counts::default();
        for (bucket, count) in written {
            *counts.0.get_mut(bucket).ok_or("there is no such bucket")? = count;
        }
        Ok(counts)
    }
}

/// What is exactly as long as a bucket's longest is in it, as Prometheus counts.
fn bucket_of(ns: u64) -> usize {
    let step = ns.div_ceil(STEP_NS).saturating_sub(1);
    let Ok(step) = usize::try_from(step) else { return BUCKETS - 1 };
    if step < PARTS {
        return step;
    }
    let doublings = step.ilog2() - PARTS.ilog2();
    let part = (step >> doublings) - PARTS;
    ((doublings as usize + 1) * PARTS + part).min(BUCKETS - 1)
}

/// In nanoseconds, of any bucket but the last.
fn longest_of(bucket: usize) -> u64 {
    let (shown, part) = (bucket / PARTS, bucket % PARTS + 1);
    let steps = if shown == 0 { part } else { (PARTS + part) << (shown - 1) };
    steps as u64 * STEP_NS
}

impl EncodeMetric for Latencies {
    fn encode(&self, mut encoder: MetricEncoder<'_>) -> fmt::Result {
        let Counts(buckets) = self.counts();
        let (shown, longer) = buckets.split_at(BUCKETS - 1);
        let bounds = exponential_buckets(0.000_1, 2.0, u16::try_from(SHOWN).expect("it is small"));
        let counts = shown.chunks(PARTS).map(|parts| parts.iter().sum::<u64>());
        let shown: Vec<_> = bounds.zip(counts).chain([(f64::INFINITY, longer[0])]).collect();
        let sum_s = Duration::from_nanos(self.0.sum_ns.load(Relaxed)).as_secs_f64();
        encoder.encode_histogram::<NoLabelSet>(sum_s, buckets.iter().sum(), &shown, None)
    }

    fn metric_type(&self) -> MetricType {
        MetricType::Histogram
    }
}

#[cfg(test)]
mod tests {
    use prometheus_client::metrics::histogram::Histogram;
    use prometheus_client::registry::Registry;

    use super::*;

    #[test]
    fn buckets_follow_each_other_and_a_bound_is_in_its_own() {
        let mut before = 0;
        for bucket in 0..BUCKETS - 1 {
            let longest = longest_of(bucket);
            assert!(longest > before && longest <= (before + before / 8).max(before + STEP_NS), "{bucket}");
            assert_eq!((bucket_of(before + 1), bucket_of(longest)), (bucket, bucket));
            before = longest;
        }
        assert_eq!((bucket_of(before + 1), bucket_of(u64::MAX), bucket_of(0)), (BUCKETS - 1, BUCKETS - 1, 0));
    }

    #[test]
    fn a_quantile_is_of_what_came_in_between() {
        let latencies = Latencies::default();
        latencies.observe(Duration::from_secs(5));
        let before = latencies.counts();
        assert_eq!(latencies.counts().since(&before).quantile(990), None);
        for ms in 1..=1_000 {
            latencies.observe(Duration::from_millis(ms));
        }
        let counts = latencies.counts().since(&before);
        assert_eq!(counts.total(), 1_000);
        for (thousandths, ms) in [(1, 1), (500, 500), (990, 990), (1_000, 1_000)] {
            let found = counts.quantile(thousandths).unwrap();
            let exact = Duration::from_millis(ms);
            assert!(found >= exact && found <= exact + exact / 8, "{thousandths}: {found:?}");
        }
        latencies.observe(Duration::from_secs(3_600));
        assert!(latencies.counts().quantile(1_000).unwrap() < Duration::from_secs(14));
    }

    #[test]
    fn counts_are_added_and_written_as_they_are() {
        let observed = |ms: &[u64]| {
            let latencies = Latencies::default();
            ms.iter().for_each(|ms| latencies.observe(Duration::from_millis(*ms)));
            latencies.counts()
        };
        let sum = observed(&[1, 1, 3_600_000]).and(&observed(&[1, 40]));
        assert_eq!(sum, observed(&[1, 1, 1, 40, 3_600_000]));
        let written = serde_json::to_string(&sum).unwrap();
        assert_eq!(written.matches('[').count(), 1 + 3, "{written}");
        assert_eq!(serde_json::from_str::<Counts>(&written).unwrap(), sum);
        assert!(serde_json::from_str::<Counts>("[[145,1]]").is_err(), "a bucket that is not there");
    }

    /// Whoever scrapes `/metrics` sees what the library's own histogram showed.
    #[test]
    fn it_is_shown_as_a_histogram_of_the_library_is() {
        let (ours, theirs) = (Latencies::default(), Histogram::new(exponential_buckets(0.000_1, 2.0, 18)));
        for us in [0, 50, 100, 101, 12_800, 400_000, 5_000_000, 13_107_200, 13_107_201, 60_000_000] {
            ours.observe(Duration::from_micros(us));
            theirs.observe(Duration::from_micros(us).as_secs_f64());
        }
        let encoded = |register: fn(&mut Registry, (&Latencies, &Histogram))| {
            let (mut registry, mut text) = (Registry::default(), String::new());
            register(&mut registry, (&ours, &theirs));
            prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
            text
        };
        assert_eq!(
            encoded(|registry, (ours, _)| registry.register("took", "It", ours.clone())),
            encoded(|registry, (_, theirs)| registry.register("took", "It", theirs.clone()))
        );
    }
}
