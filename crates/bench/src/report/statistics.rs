//! Medians and their intervals, without an assumption about the distribution: benchmarks' figures have none that is
//! known, and outliers on one side.
//!
//! Pure; it decides nothing.

/// Fewer repeats have no interval of the wanted confidence.
pub const REPEATS_FOR_INTERVAL: usize = 6;
/// What intervals cover at least.
const CONFIDENCE: f64 = 0.95;

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Interval {
    pub low: f64,
    pub high: f64,
    /// How surely the true value lies in it; at least 0.95.
    pub confidence: f64,
}

impl Interval {
    pub fn contains(self, value: f64) -> bool {
        (self.low..=self.high).contains(&value)
    }
}

/// The mean of the middle two of an even count; `None` without values.
pub fn median(values: &[f64]) -> Option<f64> {
    let values = sorted(values);
    let middle = values.len() / 2;
    match values.len() {
        0 => None,
        odd if odd % 2 == 1 => Some(values[middle]),
        _ => Some(f64::midpoint(values[middle - 1], values[middle])),
    }
}

/// An interval for the true median from the order statistics: the narrowest symmetric pair of values that covers it
/// with 95% at least. With six values that is the least and the greatest, and 96.9%; with fewer there is none.
pub fn median_interval(values: &[f64]) -> Option<Interval> {
    if values.len() < REPEATS_FOR_INTERVAL {
        return None;
    }
    let count = values.len();
    // P(at most k of n values lie below the median) is the binomial distribution with a half.
    symmetric(&sorted(values), (0..count / 2).map(|k| binomial_half(count, k)))
}

/// The narrowest pair of values, as many below it as above, that covers with the wanted confidence. `tail` has the chance
/// that exactly so many values lie beyond one end: none, one, ...
fn symmetric(sorted: &[f64], tail: impl IntoIterator<Item = f64>) -> Option<Interval> {
    let (mut confidence, mut found) = (1.0, None);
    for (k, probability) in tail.into_iter().enumerate() {
        confidence -= 2.0 * probability;
        if confidence < CONFIDENCE {
            break;
        }
        found = Some(Interval { low: sorted[k], high: sorted[sorted.len() - 1 - k], confidence });
    }
    found
}

/// How much greater `after` is than `before`: the median of all quotients (Hodges and Lehmann's estimate, on a
/// logarithmic scale), and the interval that the Mann-Whitney test with 5% gives for it. Both are exact for any
/// distribution, as long as a change multiplies it. Without six values on each side there is no interval, and the
/// ratio is that of the medians.
pub fn ratio(before: &[f64], after: &[f64]) -> Option<(f64, Option<Interval>)> {
    if before.len() < REPEATS_FOR_INTERVAL || after.len() < REPEATS_FOR_INTERVAL {
        return Some((quotient(median(after)?, median(before)?), None));
    }
    let quotients: Vec<f64> =
        after.iter().flat_map(|&after| before.iter().map(move |&before| quotient(after, before))).collect();
    let quotients = sorted(&quotients);
    Some((median(&quotients)?, symmetric(&quotients, mann_whitney(before.len(), after.len()))))
}

/// Nothing of nothing is no change.
fn quotient(after: f64, before: f64) -> f64 {
    if after == before { 1.0 } else { after / before }
}

fn sorted(values: &[f64]) -> Vec<f64> {
    let mut values = values.to_vec();
    values.sort_by(f64::total_cmp);
    values
}

/// P(exactly `k` of `n` coins).
pub(crate) fn binomial_half(n: usize, k: usize) -> f64 {
    (0..k).fold(0.5_f64.powf(n as f64), |value, i| value * (n - i) as f64 / (i + 1) as f64)
}

/// P(U = 0), P(U = 1), ... of the Mann-Whitney statistic of samples of these sizes from one distribution.
fn mann_whitney(m: usize, n: usize) -> Vec<f64> {
    // ways[i][u] for j values of the second sample: the greatest of all comes from the one sample, and then beats
    // all of the other, or from the other, and then beats none.
    let most = m * n;
    let mut ways = vec![vec![0.0_f64; most + 1]; m + 1];
    for row in &mut ways {
        row[0] = 1.0;
    }
    for j in 1..=n {
        for i in 1..=m {
            for u in (0..=most).rev() {
                let beats = if u >= j { ways[i - 1][u - j] } else { 0.0 };
                ways[i][u] += beats;
            }
        }
    }
    let all: f64 = ways[m].iter().sum();
    ways[m].iter().map(|ways| ways / all).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians() {
        assert_eq!(median(&[]), None);
        assert_eq!(median(&[3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&[4.0, 1.0, 3.0, 2.0]), Some(2.5));
    }

    #[test]
    fn the_intervals_of_the_tables_for_the_median() {
        let values = |count: u32| (1..=count).map(f64::from).collect::<Vec<_>>();
        assert_eq!(median_interval(&values(5)), None);
        for (count, low, high, confidence) in
            [(6, 1.0, 6.0, 0.96875), (8, 1.0, 8.0, 0.9922), (9, 2.0, 8.0, 0.9609), (20, 6.0, 15.0, 0.9586)]
        {
            let interval = median_interval(&values(count)).unwrap();
            assert_eq!((interval.low, interval.high), (low, high), "{count} values");
            assert!((interval.confidence - confidence).abs() < 1e-4, "{interval:?}");
        }
    }

    /// Critical values of the two-sided test with 5%: U <= 5 for 6 and 6, U <= 23 for 10 and 10, U <= 10 for 6 and 9.
    #[test]
    fn mann_whitney_agrees_with_the_printed_tables() {
        for (m, n, critical) in [(6, 6, 5), (10, 10, 23), (6, 9, 10), (9, 6, 10)] {
            let distribution = mann_whitney(m, n);
            assert!((distribution.iter().sum::<f64>() - 1.0).abs() < 1e-9);
            let below = |most: usize| distribution[..=most].iter().sum::<f64>();
            assert!(
                below(critical) <= 0.025 && below(critical + 1) > 0.025,
                "{m} and {n}: {}",
                below(critical)
            );
        }
    }

    #[test]
    fn a_ratio_lies_in_its_interval_and_a_large_change_excludes_none() {
        let before = [100.0, 102.0, 98.0, 101.0, 99.0, 100.5];
        let slower: Vec<f64> = before.iter().map(|value| value * 0.8).collect();
        let (ratio_of, interval) = ratio(&before, &slower).unwrap();
        let interval = interval.unwrap();
        assert!((ratio_of - 0.8).abs() < 0.01 && interval.contains(ratio_of) && !interval.contains(1.0));
        let (same, interval) = ratio(&before, &before).unwrap();
        assert!((same - 1.0).abs() < 1e-9 && interval.unwrap().contains(1.0));
    }

    #[test]
    fn few_repeats_give_the_ratio_of_medians_alone() {
        assert_eq!(ratio(&[2.0, 4.0, 3.0], &[6.0]), Some((2.0, None)));
        assert_eq!(ratio(&[0.0], &[0.0]), Some((1.0, None)));
        assert_eq!(ratio(&[], &[1.0]), None);
    }
}
