//! What is on the pictures, and what is kept out of them.

use super::*;
use crate::report::model::Flag;
use crate::report::sample;

/// All that is written on some charts, as the page has it.
fn written(charts: &[Chart]) -> String {
    serde_json::to_string(charts).unwrap()
}

#[test]
fn labels_are_short() {
    assert_eq!(
        [0.2, 500.0, 2500.0, 40_000.0, 1_250_000.0].map(short),
        ["0.200", "500", "2.5k", "40k", "1.3M"]
    );
    assert_eq!([2.0, 10.0, 1000.0].map(percentile), ["p50", "p90", "p99.9"]);
}

#[test]
fn the_typical_trial_is_the_median_of_the_valid_ones() {
    let mut trials: Vec<Trial> = [5, 1, 9, 100].into_iter().map(|rate| sample::trial(0, rate)).collect();
    trials[3].flags.push(Flag::Unsent { requests: 1 });
    assert_eq!(typical(&trials).map(|trial| trial.outcomes.served), Some(15));
    assert!(typical(&trials[3..]).is_none());
}

#[test]
fn more_series_than_colours_have_charts_of_their_own() {
    let mut report = sample::report();
    let scenario = &mut report.scenarios[0];
    let of = scenario.cases[1].clone();
    scenario.cases = (0..8)
        .map(|n| Case { name: format!("case {n}"), series: format!("series {n}"), ..of.clone() })
        .collect();
    let charts = main(&report.scenarios[0]);
    assert!(charts.len() == 2 && charts[1].title.ends_with("(2 of 2)"), "{charts:?}");
    let (first, second) = (written(&charts[..1]), written(&charts[1..]));
    assert_eq!(first.matches("series 5, measured").count(), 1);
    assert!(!first.contains("series 6") && second.contains("series 6") && second.contains("series 7"));
}

#[test]
fn a_wide_span_is_drawn_so_that_the_small_values_can_be_distinguished() {
    let mut report = sample::report();
    report.scenarios[0].cases[0].metrics[0].values = vec![100.0];
    let chart = |report: &crate::report::model::Report| {
        let charts = written(&main(&report.scenarios[0]));
        (charts.matches("\"text\":\"0\"").count(), charts.contains("\"text\":\"100\""))
    };
    // Both axes begin at 0, or only that of the threads does.
    assert_eq!(chart(&sample::report()), (2, false));
    assert_eq!(chart(&report), (1, true));
}

#[test]
fn a_search_shows_the_loads_that_were_offered_and_its_limit() {
    let mut report = sample::report();
    let charts = main(&report.scenarios[2]);
    let titles: Vec<&str> = charts.iter().map(|of| of.title.as_str()).collect();
    assert_eq!(titles, ["p99 against offered load, 1/s", "throughput against offered load, 1/s"]);
    let chart = written(&charts);
    assert!(chart.contains("2,400/s, confirm: 2,400/s") && chart.contains("the limit"), "{chart}");
    assert!(!["closed loop", "3,000/s", "2,450/s"].iter().any(|of| chart.contains(of)), "{chart}");
    report.scenarios[2].cases.retain(|case| case.name != "2,400/s, confirm");
    assert_ne!(written(&main(&report.scenarios[2])), chart);
}

#[test]
fn percentiles_beyond_the_samples_are_left_out() {
    let mut trial = sample::trial(0, 100);
    trial.outcomes.served = 100;
    let line = percentiles("x", 0, &trial);
    let shown: Vec<f64> = line.points.iter().map(|point| point.x.round()).collect();
    assert_eq!(shown, [1.0, 2.0, 10.0, 100.0]);
    // Marks stand where the axis is labelled.
    let marked = line.points.iter().filter(|point| !point.unmarked).map(|point| point.title.as_str());
    assert_eq!(marked.collect::<Vec<_>>(), ["p50: 2 ms", "p90: 3 ms", "p99: 4 ms"]);
}

/// Three points were drawn as the course of a trial.
#[test]
fn a_chart_over_time_has_twenty_points_or_is_none() {
    let mut scenario = sample::report().scenarios.remove(0);
    assert_eq!(courses(&scenario), Err("No chart over time: 3 of at least 20 seconds.".to_owned()));
    let lasting = |seconds: u32| {
        let mut trial = sample::trial(0, 40_000);
        let second = trial.seconds_series[0];
        trial.seconds_series = (1..=seconds).map(|at| Second { at_s: at.into(), ..second }).collect();
        vec![trial]
    };
    scenario.cases[0].trials = lasting(19);
    assert!(courses(&scenario).is_err_and(|why| why.contains("19 of at least 20")));
    scenario.cases[0].trials = lasting(20);
    let titles: Vec<String> = courses(&scenario).unwrap().into_iter().map(|of| of.title).collect();
    assert_eq!(
        titles.join("; "),
        "set, 5 threads: answers in each second; set, 5 threads: response time in each second"
    );
}

#[test]
fn the_picture_of_all_tiers_has_published_rates_alone() {
    let report = sample::report();
    let figures = figures::all(&report);
    let all: Vec<_> = figures.iter().collect();
    let chart = written(&overview(&all).into_iter().collect::<Vec<_>>());
    assert!(chart.contains("redis-threads, set, 50 threads, published: 42.6k"), "{chart}");
    assert!(chart.contains("\"text\":\"1.00 x\"") && !chart.contains("used memory"), "{chart}");
    assert_eq!(overview(&[]), None);
}
