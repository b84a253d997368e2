//! What is to be said of a search for the peak: the figure that is quoted, or why there is none.

use crate::host::limit::LOAD_GENERATOR;
use crate::report::format::{number, time_us};
use crate::report::model::{Load, Report, ScenarioReport, Verdict};

/// Of the scenario that a search is.
pub(super) const NAME: &str = "peak";

/// A sound search that found no load within the limit.
pub fn nothing_passes(report: &Report) -> bool {
    report.scenarios.iter().any(|of| of.search.is_some() && of.found("highest passed").is_none())
}

pub(super) fn quoted(of: &ScenarioReport) -> Option<String> {
    let limit = time_us(of.search.as_ref()?.p99_limit_us as f64);
    Some(match of.found("highest passed") {
        Some(passed) => format!("at most {} orders/s with a p99 within {limit}", number(passed)),
        None => format!("no load is carried with a p99 within {limit}"),
    })
}

/// Why a search has no peak to rely upon, if it has none: a peak is a load that is carried, and one that is not.
pub(super) fn unfound(of: &ScenarioReport) -> Option<String> {
    let search = of.search.as_ref()?;
    let (passed, failed) = (of.found("highest passed"), of.found("lowest failed"));
    let loads = || {
        of.cases
            .iter()
            .filter_map(|case| Some((case.x.as_ref().map_or(0.0, |x| x.value), case.load.as_ref()?)))
    };
    let is = |load: &Load, verdict| load.verdict == Some(verdict);
    // Below the lowest load that failed there may be one that passes: not if the generator spoiled none there.
    let judged =
        failed.is_some_and(|failed| loads().all(|(rate, load)| !is(load, Verdict::Invalid) || rate > failed));
    let once = loads().any(|(_, load)| is(load, Verdict::Pass));
    let generator = of.limiter.as_ref().is_some_and(|limiter| limiter.what == LOAD_GENERATOR);
    Some(match (passed, search.confirmed, failed) {
        (Some(_), true, Some(_)) => return None,
        (Some(passed), true, None) if generator => format!(
            "this machine's load generator is the limit: the target carries at least {}/s, and more could not be \
             offered. No settings follow; search again with the generator on a faster or on another machine",
            number(passed)
        ),
        (Some(passed), true, None) => format!(
            "the target carries at least {}/s; the search was cut off before it found a load that it does not carry, \
             so no settings follow",
            number(passed)
        ),
        (Some(_), false, _) => {
            "the peak was not confirmed: the machine changed meanwhile, or the generator is the \
                                limit; see the notes"
                .to_owned()
        }
        (None, ..) if once => {
            "the peak was not confirmed: loads passed once, and none of them a second time".to_owned()
        }
        (None, ..) if !judged => "no load that might pass could be judged: see what was invalid".to_owned(),
        (None, ..) => return None,
    })
}
