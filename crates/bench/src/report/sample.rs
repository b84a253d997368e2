//! A report with everything in it, for the tests of all forms.

use std::collections::BTreeMap;
use std::time::Duration;

use super::model::*;
use crate::host::environment::Environment;
use crate::host::usage::{ProcessUsage, Usage};
use crate::load::record::{Outcomes, Record};
use crate::load::schedule::Schedule;

/// Text that must be escaped wherever it is shown.
pub(crate) const HOSTILE: &str = "<script>alert(\"1 & 2\")</script> | `a`";

pub(crate) fn report() -> Report {
    Report {
        schema: SCHEMA.to_owned(),
        verdict: String::new(),
        program: "doorbuster 0.1.0".to_owned(),
        git_revision: Some("abcdef0".to_owned()),
        command: ["doorbuster", "bench", "run", "--only", HOSTILE].map(str::to_owned).to_vec(),
        started_unix_s: 1_795_304_146,
        elapsed_s: 754.0,
        complete: true,
        size: Size::Full,
        repeats: 6,
        seed: 7,
        environment: Environment {
            build: "release".to_owned(),
            ..Environment::read(std::path::Path::new("/"))
        },
        scenarios: vec![threads(), memory(), peak(), durability()],
        failures: vec![FailedScenario { name: "broken".to_owned(), error: HOSTILE.to_owned() }],
        thresholds: vec![
            ThresholdResult {
                threshold: "redis-threads:p99<=1s".to_owned(),
                measured: Some(2000.0),
                met: true,
            },
            ThresholdResult { threshold: "nothing:x>=1".to_owned(), measured: None, met: false },
        ],
    }
}

fn threads() -> ScenarioReport {
    let mut cases = vec![case(5, 9000, Some(9704.0)), case(50, 40_000, Some(42_634.0))];
    let mut invalid = case(5000, 0, None);
    for trial in &mut invalid.trials {
        trial.flags.push(Flag::SendLag { p99_us: 9000, most_us: 5000 });
    }
    for metric in &mut invalid.metrics {
        metric.values.clear();
    }
    invalid.metrics.truncate(1);
    cases.push(invalid);
    ScenarioReport {
        name: "redis-threads".to_owned(),
        title: "Redis Cluster: threads".to_owned(),
        reference: Some("redis-cluster.csv".to_owned()),
        scaled_down: vec!["one host instead of three".to_owned()],
        notes: vec![HOSTILE.to_owned()],
        engines: vec![engine()],
        cases,
        shapes: vec![
            shape("levels off at 50 threads", Some(true)),
            shape("reads are slower", Some(false)),
            shape("swap halves it", None),
        ],
        audit: Some(audit()),
        limiter: Some(limiter()),
        ..ScenarioReport::default()
    }
}

fn shape(claim: &str, holds: Option<bool>) -> Shape {
    Shape { claim: claim.to_owned(), published: "42,634/s".to_owned(), measured: HOSTILE.to_owned(), holds }
}

fn memory() -> ScenarioReport {
    let published = Some(Published { value: 30_303_846.0, dubious: Some(HOSTILE.to_owned()) });
    let metric = Metric { published, ..Metric::new("used memory", "bytes", Better::Lower, vec![30e6]) };
    ScenarioReport {
        name: "redis-memory".to_owned(),
        title: "Memory per key".to_owned(),
        cases: vec![Case {
            name: "400,000 keys".to_owned(),
            series: "memory".to_owned(),
            metrics: vec![metric],
            ..Case::default()
        }],
        ..ScenarioReport::default()
    }
}

fn case(threads: u32, rate: u32, published: Option<f64>) -> Case {
    let published = published.map(|value| Published { value, dubious: None });
    // 50 threads: 40,000 to 45,000, the median 42,500; 5 threads: 9,000 each.
    let step = if threads == 50 { 1000 } else { 0 };
    let rates: Vec<u32> = (0..6).map(|n| rate + step * n).collect();
    let values: Vec<f64> = rates.iter().copied().map(f64::from).collect();
    Case {
        name: format!("set, {threads} threads"),
        series: "set".to_owned(),
        x: Some(X { label: "threads".to_owned(), value: threads.into() }),
        trials: rates.iter().enumerate().map(|(repeat, rate)| trial(repeat, *rate)).collect(),
        metrics: vec![
            Metric { published, ..Metric::new("throughput", "1/s", Better::Higher, values) },
            Metric::new("p99", "us", Better::Lower, vec![2000.0; 6]),
        ],
        ..Case::default()
    }
}

pub(crate) fn trial(repeat: usize, rate: u32) -> Trial {
    let distribution = |scale: u64| Distribution {
        mean_us: 1100.0,
        points: [(0.0, 100), (0.5, 1000), (0.9, 1500), (0.99, 2000), (0.999, 9000), (1.0, 12_000)]
            .map(|(q, us)| Quantile { q, us: us * scale })
            .to_vec(),
        max_us: 12_000 * scale,
    };
    let good = u64::from(rate);
    let second = |at: u32| Second {
        at_s: f64::from(at),
        good,
        refused: 3,
        bad: u64::from(at == 2),
        p50_us: 1000,
        p99_us: 2000 * u64::from(at),
        in_flight: 50,
    };
    Trial {
        seconds: 3.0,
        outcomes: Outcomes { served: 3 * good, ..Outcomes::default() },
        response: distribution(2),
        service: distribution(1),
        send_lag: distribution(1),
        generator_lag: distribution(1),
        seconds_series: (1..=3).map(second).collect(),
        flags: vec![Flag::CoLocated],
        first_surprise: Some(HOSTILE.to_owned()),
        ..Trial::new(repeat, &Schedule::closed(Duration::from_secs(3)), &Record::default(), Some(usage()))
    }
}

fn usage() -> Usage {
    let process = ProcessUsage { busiest_thread: "doorbuster".to_owned(), ..ProcessUsage::of("load", 0.5) };
    Usage {
        seconds: 3.0,
        processors: 2,
        machine_busy: 0.9,
        others: 0.1,
        disk_busy: Some(0.2),
        processes: vec![process],
        ..Usage::default()
    }
}

fn engine() -> EngineSettings {
    EngineSettings {
        engine: "redis".to_owned(),
        version: "7.0.15".to_owned(),
        settings: BTreeMap::from([("appendfsync".to_owned(), "everysec".to_owned())]),
    }
}

fn audit() -> Audit {
    Audit {
        initial_units: 100,
        remaining_units: 40,
        held_units: 60,
        sold_units: 0,
        accepted: 60,
        unknown: 1,
        orders: 60,
        method: "every acknowledged order looked up".to_owned(),
    }
}

fn limiter() -> Limiter {
    Limiter { what: "processor".to_owned(), evidence: vec![HOSTILE.to_owned()] }
}

fn peak() -> ScenarioReport {
    let load = |rate: u32, phase: &'static str, verdict| {
        let load = Load { phase: phase.to_owned(), verdict, decides: false };
        let mut case = case(50, rate, None);
        case.trials.truncate(1);
        for metric in &mut case.metrics {
            metric.values.truncate(1);
        }
        case.metrics.swap(0, 1);
        let x = X { label: "offered load, 1/s".to_owned(), value: rate.into() };
        let name = format!("{},{:03}/s, {phase}", rate / 1000, rate % 1000);
        let series = verdict.map_or(phase, crate::report::words::verdict_of_load).to_owned();
        Case { name, series, x: Some(x), load: Some(load), ..case }
    };
    let mut invalid = load(2450, "bisect", Some(Verdict::Invalid));
    invalid.trials[0].flags.push(Flag::Unsent { requests: 7 });
    invalid.metrics.iter_mut().for_each(|metric| metric.values.clear());
    // Made again, and so wrong that every median with it in would show.
    let mut passed = load(2400, "confirm", Some(Verdict::Pass));
    passed.trials.push(Trial { flags: vec![Flag::Unsent { requests: 9 }], ..trial(1, 900_000) });
    let mut failed = load(2500, "bisect", Some(Verdict::Fail));
    for case in [&mut passed, &mut failed] {
        case.load.as_mut().unwrap().decides = true;
    }
    let closed = Case { name: "closed loop".to_owned(), x: None, ..load(3000, "anchor", None) };
    let overload = Case { x: None, ..load(4800, "overload", None) };
    let figure =
        |(name, unit, value): (&str, &str, f64)| Metric::new(name, unit, Better::Higher, vec![value]);
    let found = [
        ("highest passed", "1/s", 2400.0),
        ("lowest failed", "1/s", 2500.0),
        ("closed-loop maximum", "1/s", 3000.0),
        ("recovery", "s", 1.5),
    ];
    let found = found.map(figure).to_vec();
    let found = Case { name: "embedded".to_owned(), metrics: found, ..Case::default() };
    ScenarioReport {
        name: "peak".to_owned(),
        title: "The load that is carried within a limit".to_owned(),
        notes: vec![HOSTILE.to_owned()],
        cases: vec![found, closed, failed, passed, invalid, overload],
        audit: Some(audit()),
        limiter: Some(limiter()),
        search: Some(Search {
            p99_limit_us: 50_000,
            errors_limit: 0.001,
            confirmed: true,
            settings: Some("[admission]\norders_per_s = 2400 # <b>\n".to_owned()),
        }),
        ..ScenarioReport::default()
    }
}

fn durability() -> ScenarioReport {
    let metric =
        |name: &str, unit: &str, values: &[f64]| Metric::new(name, unit, Better::Lower, values.to_vec());
    let case = Case {
        name: "cluster, redis appendfsync = everysec".to_owned(),
        series: "cluster".to_owned(),
        metrics: vec![
            metric("throughput", "1/s", &[1000.0, 1100.0, 1200.0]),
            metric("p99", "us", &[20_000.0, 21_000.0, 22_000.0]),
            metric("acknowledged, redis killed", "orders", &[5000.0]),
            metric("acknowledged lost, redis killed", "orders", &[0.0]),
            metric("unknown, redis killed", "orders", &[4.0]),
            metric("back after, redis killed", "s", &[0.7]),
        ],
        trials: vec![Trial { flags: vec![Flag::Stray { answers: 9 }], ..trial(0, 900) }],
        engines: vec![engine()],
        notes: vec!["up to a second of reservations".to_owned(), HOSTILE.to_owned()],
        ..Case::default()
    };
    ScenarioReport {
        name: "durability".to_owned(),
        title: "What durability costs".to_owned(),
        cases: vec![case],
        audit: Some(audit()),
        ..ScenarioReport::default()
    }
}
