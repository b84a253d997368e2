//! Whether a claim of a published shape holds: by a ratio of figures, and by nothing that the generator's own ceiling decided.

use std::ops::RangeBounds;

use super::limit;
use crate::goal::median;
use crate::report::model::{Case, Shape};

/// What a claim came to.
pub(super) struct Judged {
    measured: String,
    holds: Option<bool>,
}

impl Judged {
    /// What was measured and whether the claim holds; or, in words, that it was not measured.
    pub(super) fn new(measured: Option<(String, bool)>, otherwise: &str) -> Self {
        let (measured, holds) = measured.unzip();
        Self { measured: measured.unwrap_or_else(|| otherwise.to_owned()), holds }
    }

    /// Undecided, if there is a reason to doubt it.
    pub(super) fn doubted(self, why: Option<String>) -> Self {
        match why.filter(|_| self.holds.is_some()) {
            Some(why) => Self { measured: format!("{}; {why}", self.measured), holds: None },
            None => self,
        }
    }

    /// The claim names the bounds that it was judged by.
    pub(super) fn shape(self, claim: &str, published: &str) -> Shape {
        let Self { measured, holds } = self;
        Shape { claim: claim.to_owned(), published: published.to_owned(), measured, holds }
    }
}

/// By one figure over another; in `words` it stands for `{}`.
pub(super) fn ratio(
    part: Option<f64>,
    whole: Option<f64>,
    bounds: impl RangeBounds<f64>,
    words: &str,
) -> Judged {
    let ratio = part.zip(whole).filter(|(_, whole)| *whole > 0.0).map(|(part, whole)| part / whole);
    let said = |ratio: f64| (words.replace("{}", &format!("{ratio:.2}")), bounds.contains(&ratio));
    Judged::new(ratio.map(said), "its cases were not run")
}

/// By the rate of the first case over that of the second; undecided if one of them may be the generator's own ceiling.
pub(super) fn rates(cases: &[Case], names: [&str; 2], bounds: impl RangeBounds<f64>, words: &str) -> Judged {
    let [part, whole] = names.map(|name| value_of(cases, name, "throughput"));
    ratio(part, whole, bounds, words).doubted(limit::bound(cases, &names))
}

/// The median of a metric of the case with this name; `None` if it was not measured.
pub(super) fn value_of(cases: &[Case], case: &str, metric: &str) -> Option<f64> {
    let case = cases.iter().find(|of| of.name == case)?;
    let metric = case.metrics.iter().find(|of| of.name == metric)?;
    (!metric.values.is_empty()).then(|| median(metric.values.iter().copied()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiments::limit::tests::case_of;

    #[test]
    fn rates_at_the_generators_ceiling_have_no_shape() {
        let judged = |one, other| {
            let cases = [case_of("a", 200, one), case_of("b", 100, other)];
            rates(&cases, ["a", "b"], 2.0..=2.0, "{} times")
        };
        assert_eq!((judged(0.84, 0.84).holds, &*judged(0.84, 0.84).measured), (Some(true), "2.00 times"));
        for judged in [judged(0.9, 0.5), judged(0.5, 0.9)] {
            assert_eq!(judged.holds, None);
            let doubt = "2.00 times; the load generator used 90%";
            assert!(judged.measured.starts_with(doubt), "{}", judged.measured);
        }
        assert_eq!(rates(&[], ["a", "b"], 0.0.., "").measured, "its cases were not run");
    }
}
