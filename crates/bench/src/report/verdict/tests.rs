//! Each rule by itself, on a report that is valid without it.

use super::*;
use crate::host::environment::DEBUG;
use crate::report::model::{FailedScenario, Metric, Sample};
use crate::report::sample;

/// One case of an order path, 6 repeats of 3 s each, and nothing against it.
fn valid() -> Report {
    let mut report = sample::report();
    report.scenarios.truncate(1);
    let scenario = &mut report.scenarios[0];
    scenario.name = "order-embedded".to_owned();
    scenario.cases = vec![scenario.cases.remove(1)];
    scenario.limiter = None;
    for trial in &mut scenario.cases[0].trials {
        std::mem::swap(&mut trial.outcomes.won, &mut trial.outcomes.served);
    }
    report.failures.clear();
    report.environment.co_located = true;
    report
}

fn with(change: impl FnOnce(&mut Report)) -> Verdict {
    let mut report = valid();
    change(&mut report);
    of(&report)
}

fn trials(report: &mut Report) -> &mut [Trial] {
    &mut report.scenarios[0].cases[0].trials
}

/// The first words say how it stands.
#[track_caller]
fn check(change: impl FnOnce(&mut Report), sentence: &str) {
    let said = with(change);
    assert_eq!(said.sentence, sentence);
    let grades =
        [("valid, ", Grade::Valid), ("NOT TO BE QUOTED", Grade::NotToBeQuoted), ("INVALID", Grade::Invalid)];
    assert!(grades.iter().any(|(words, of)| sentence.starts_with(words) && said.grade == *of));
}

#[test]
fn an_engineer_can_quote_it() {
    let quoted = "valid, co-located, 6 repeats: 42,500 orders/s (40,000 to 45,000)";
    check(|_report| {}, quoted);
    check(
        |report| {
            report.environment.co_located = false;
            report.repeats = 1;
            report.scenarios[0].name = "stock".to_owned();
            report.scenarios[0].cases[0].metrics[0].values.truncate(1);
        },
        "valid, the load from another machine, 1 repeat: 40,000/s",
    );
    check(
        |report| {
            report.failures = vec![FailedScenario { name: "edge".to_owned(), error: "no nginx".to_owned() }]
        },
        &format!("{quoted}; not finished: edge"),
    );
    // The best case of the path of an order, whatever stands before it.
    check(
        |report| {
            let mut pages = report.scenarios[0].clone();
            pages.name = "static-page".to_owned();
            pages.cases[0].metrics[0].values = vec![90_000.0; 6];
            report.scenarios.insert(0, pages);
        },
        "valid, co-located, 6 repeats: order-embedded, set, 50 threads: 42,500 orders/s (40,000 to 45,000)",
    );
    // A reference beside it wins no order, however quick it is.
    check(
        |report| {
            let mut nginx = report.scenarios[0].cases[0].clone();
            nginx.name = "set, 50 threads, nginx".to_owned();
            nginx.metrics[0].values = vec![90_000.0; 6];
            for trial in &mut nginx.trials {
                std::mem::swap(&mut trial.outcomes.won, &mut trial.outcomes.served);
            }
            report.scenarios[0].cases.push(nginx);
        },
        "valid, co-located, 6 repeats: order-embedded, set, 50 threads: 42,500 orders/s (40,000 to 45,000)",
    );
    // Nor is any other figure of what stands beside.
    check(
        |report| {
            report.scenarios[0].name = "redis-get-set".to_owned();
            let mut tool = report.scenarios[0].cases[0].clone();
            (tool.name, tool.reference) = ("set, 50 threads, by a tool".to_owned(), true);
            tool.metrics[0].values = vec![90_000.0; 6];
            report.scenarios[0].cases.push(tool);
        },
        "valid, co-located, 6 repeats: redis-get-set, set, 50 threads: 42,500/s (40,000 to 45,000)",
    );
    check(
        |report| report.scenarios.push(sample::report().scenarios.remove(2)),
        "valid, co-located: at most 2,400 orders/s with a p99 within 50 ms",
    );
}

#[test]
fn what_is_no_result_is_invalid() {
    check(|report| report.scenarios.clear(), "INVALID: nothing was measured");
    assert!(with(|report| report.complete = false).sentence.starts_with("INVALID: NOT COMPLETE"));
    let refused = with(|report| trials(report)[2].flags.push(Flag::NotCarried { requests: 9, of: 9 }));
    assert!(
        refused.sentence.contains("order-embedded/set, 50 threads: not one request"),
        "{}",
        refused.sentence
    );
    check(
        |report| trials(report)[2].flags.push(Flag::Unsent { requests: 9 }),
        "INVALID: 9 requests were due and never sent",
    );
}

/// 27% was called valid.
#[test]
fn other_work_beside_it_makes_it_invalid() {
    let disturbed = |report: &mut Report| {
        trials(report)[2].flags.push(Flag::Disturbed { processors: 0.54, most: 0.5 });
    };
    check(disturbed, "INVALID: other work took 27% of the processors");
    check(
        |report| {
            disturbed(report);
            let mut other = report.scenarios[0].clone();
            other.name = "stock".to_owned();
            other.cases[0].trials[2].flags.clear();
            report.scenarios.push(other);
        },
        "INVALID in 1 of 2 cases, as order-embedded, set, 50 threads: other work took 27% of the processors; of the \
         others: stock, set, 50 threads: 42,500/s (40,000 to 45,000)",
    );
    // What is too short, or was watched by nobody, is not quoted instead.
    for change in
        [(|trial: &mut Vec<Trial>| trial[0].seconds = 0.1) as fn(&mut Vec<Trial>), |trials| trials.clear()]
    {
        let said = with(|report| {
            report.size = Size::Quick;
            disturbed(report);
            let mut other = report.scenarios[0].clone();
            other.name = "stock".to_owned();
            other.cases[0].trials[2].flags.clear();
            change(&mut other.cases[0].trials);
            report.scenarios.push(other);
        });
        let whole = "INVALID in 1 of 2 cases, as order-embedded, set, 50 threads: other work took 27% of the processors";
        assert_eq!(said.sentence, whole);
    }
    let peak = with(|report| {
        let mut peak = sample::report().scenarios.remove(2);
        peak.cases[3].trials[0].flags.push(Flag::Disturbed { processors: 0.54, most: 0.5 });
        report.scenarios.push(peak);
    });
    let wanted = "INVALID in 1 of 3 cases, as peak, 2,400/s, confirm: other work took 27% of the processors";
    assert_eq!(peak.sentence, wanted);
}

#[test]
fn a_generator_that_was_the_limit_makes_it_invalid() {
    let busy = |name: &'static str, share: f64| {
        move |report: &mut Report| {
            report.scenarios[0].name = name.to_owned();
            trials(report)[1].usage.as_mut().unwrap().processes[0].busiest_thread_share = share;
        }
    };
    check(busy("stock", 0.92), "INVALID: the load generator was the limit: it used 92% of a processor");
    assert_eq!(with(busy("stock", 0.84)).grade, Grade::Valid);
    assert_eq!(with(busy(MEASURES_THE_GENERATOR, 1.0)).grade, Grade::Valid);
    // Another thread was fuller, or the rate was given: then the generator limited nothing.
    for (change, quoted) in [
        (|trial: &mut Trial| {
            let usage = trial.usage.as_mut().unwrap();
            let mut redis = usage.processes[0].clone();
            (redis.name, redis.busiest_thread_share) = ("redis".to_owned(), 0.97);
            usage.processes.push(redis);
        }) as fn(&mut Trial),
        |trial| trial.arrivals = "5000/s, Poisson".to_owned(),
    ]
    .into_iter()
    // With its own thread used up, too, it can't say how much more there was.
    .zip(["at least 42,500/s", "42,500/s"])
    {
        let said = with(|report| {
            busy("stock", 0.92)(report);
            change(&mut trials(report)[1]);
        });
        let wanted = format!("valid, co-located, 6 repeats: {quoted} (40,000 to 45,000)");
        assert_eq!(said.sentence, wanted);
    }
}

/// 80 ms of requests were called a sample.
#[test]
fn too_short_a_sample_is_not_quoted() {
    let short = |name: &'static str, size, seconds, served| {
        move |report: &mut Report| {
            report.size = size;
            report.scenarios[0].name = name.to_owned();
            let trial = &mut trials(report)[0];
            (trial.seconds, trial.outcomes.won) = (seconds, served);
        }
    };
    check(
        short("redis-reserve", Size::Full, 0.08, 12_000),
        "INVALID: too short a sample: 80 ms, 12,000 requests",
    );
    check(
        short("redis-reserve", Size::Quick, 0.08, 12_000),
        "NOT TO BE QUOTED: 1 of 1 cases rest on less than 3 s or 10,000 requests; co-located, 6 repeats: 42,500/s (40,000 \
         to 45,000)",
    );
    let (full, quick) = (Size::Full, Size::Quick);
    for (name, size, seconds, served, grade) in [
        ("redis-reserve", full, 3.0, 10_000, Grade::Valid),
        ("redis-reserve", full, 2.96, 10_000, Grade::Valid),
        ("redis-reserve", full, 2.94, 10_000, Grade::Invalid),
        ("redis-reserve", full, 9.0, 9_999, Grade::Invalid),
        // A number that was published excuses both at the published size, in a time in which other work is seen; and a
        // disk excuses few requests in time enough.
        ("redis-persistence", full, 0.7, 100_000, Grade::Valid),
        ("redis-persistence", full, 0.4, 100_000, Grade::Invalid),
        ("redis-persistence", quick, 0.07, 10_000, Grade::NotToBeQuoted),
        ("mysql-commit", quick, 3.0, 900, Grade::Valid),
        ("mysql-commit", quick, 2.0, 900, Grade::NotToBeQuoted),
        ("mysql-commit", full, 2.0, 900, Grade::Invalid),
        ("rocketmq-consumer", full, 0.5, 900, Grade::Valid),
    ] {
        let said = with(short(name, size, seconds, served));
        assert_eq!(said.grade, grade, "{name} {seconds}: {}", said.sentence);
    }
}

/// The gate's client, measured by a child of the program, was valid whatever it was measured beside.
#[test]
fn what_no_trial_measured_is_judged_by_its_samples() {
    let measured = |seconds: f64, requests: u64, others: f64| {
        move |report: &mut Report| {
            let case = &mut report.scenarios[0].cases[0];
            let usage = Usage { others, ..case.trials[0].usage.clone().unwrap() };
            case.trials.clear();
            case.samples = vec![Sample { seconds, requests, usage }; 6];
        }
    };
    let quoted = "valid, co-located, 6 repeats: 42,500 orders/s (40,000 to 45,000)";
    check(measured(3.0, 10_000, 0.5), quoted);
    check(measured(3.0, 10_000, 0.54), "INVALID: other work took 27% of the processors");
    let mut report = valid();
    measured(3.0, 10_000, 0.54)(&mut report);
    let doubt = "INVALID: set, 50 threads, repeat 1, 2, 3, 4, 5, 6: other work used 0.5 processors, at most 0.5 allowed (the \
                 first of them)";
    assert_eq!(words::doubts_of_scenario(&report.scenarios[0], report.size), [doubt]);
    check(measured(0.08, 12_000, 0.1), "INVALID: too short a sample: 80 ms, 12,000 requests");
    // A start asks nobody for anything, and takes the time that it takes.
    check(measured(0.08, 0, 0.1), quoted);
    let unnoted = |size| {
        move |report: &mut Report| {
            report.size = size;
            report.scenarios[0].cases[0].trials.clear();
        }
    };
    check(unnoted(Size::Full), "INVALID: too short a sample: nobody noted its time and requests");
    assert_eq!(with(unnoted(Size::Quick)).grade, Grade::NotToBeQuoted);
}

#[test]
fn every_excuse_is_of_something_that_there_is() {
    for (name, ..) in SHORT_ON_PURPOSE.iter().filter(|(name, ..)| !["durability", "peak"].contains(name)) {
        assert!(crate::experiments::find(name).is_some(), "{name}");
    }
    assert!(crate::experiments::find(MEASURES_THE_GENERATOR).is_some());
}

#[test]
fn a_contradiction_makes_it_invalid() {
    let says = |what: &'static str, busy: f64| {
        move |report: &mut Report| {
            report.scenarios[0].limiter = Some(Limiter { what: what.to_owned(), evidence: Vec::new() });
            for trial in trials(report) {
                trial.usage.as_mut().unwrap().machine_busy = busy;
            }
        }
    };
    check(
        says("waiting: nothing was used up", 0.86),
        "INVALID: order-embedded contradicts itself: nothing was used up, and the processors were 86% busy",
    );
    assert_eq!(with(says("waiting: nothing was used up", 0.6)).grade, Grade::Valid);
    assert_eq!(with(says("the processors", 0.86)).grade, Grade::Valid);
    // The reference beside it is quicker and busier, and nothing is said of it.
    let beside = |name: &'static str| {
        move |report: &mut Report| {
            says("waiting: nothing was used up", 0.6)(report);
            let mut nginx = report.scenarios[0].cases[0].clone();
            nginx.name += ", nginx";
            for trial in &mut nginx.trials {
                (trial.outcomes.served, trial.outcomes.won) = (2 * trial.outcomes.won, 0);
                trial.usage.as_mut().unwrap().machine_busy = 0.9;
            }
            report.scenarios[0].cases.push(nginx);
            report.scenarios[0].limiter.as_mut().unwrap().evidence = vec![format!("{name}: 42500/s.")];
        }
    };
    assert_eq!(with(beside("set, 50 threads")).grade, Grade::Valid);
    assert_eq!(with(beside("set, 50 threads, nginx")).grade, Grade::Invalid);
}

#[test]
fn a_debug_build_is_not_quoted() {
    let said = with(|report| report.environment.build = DEBUG.to_owned());
    assert_eq!(said.grade, Grade::NotToBeQuoted);
    assert!(said.sentence.starts_with("NOT TO BE QUOTED: a debug build was measured"), "{}", said.sentence);
}

#[test]
fn what_is_no_rate_is_quoted_in_its_unit() {
    let memory = |report: &mut Report| {
        let case = &mut report.scenarios[0].cases[0];
        case.trials.clear();
        let values = [30.0, 31.0, 32.0, 33.0, 34.0, 35.0].map(|mib: f64| mib * 1_048_576.0).to_vec();
        case.metrics = vec![Metric::new("used memory", "bytes", crate::report::model::Better::Lower, values)];
    };
    let sentence = "valid, co-located, 6 repeats: used memory 32.5 MiB (30 MiB to 35 MiB)";
    check(memory, sentence);
}

/// A peak is a load that is carried, confirmed, and one that is not; what the generator limits is none.
#[test]
fn a_search_without_a_peak_says_why() {
    let said = |change: fn(&mut ScenarioReport)| {
        with(|report| {
            let mut peak = sample::report().scenarios.remove(2);
            change(&mut peak);
            report.scenarios = vec![peak];
        })
    };
    assert_eq!(said(|_peak| {}).grade, Grade::Valid);
    type Change = fn(&mut ScenarioReport);
    let passed: Change = |peak| peak.cases[0].metrics[0].values.clear();
    let failed: Change = |peak| peak.cases[0].metrics[1].values.clear();
    let cases: [(Change, &str); 6] = [
        (failed, "the target carries at least 2,400/s; the search was cut off"),
        (
            |peak| {
                peak.cases[0].metrics[1].values.clear();
                peak.limiter.as_mut().unwrap().what = crate::host::limit::LOAD_GENERATOR.to_owned();
            },
            "this machine's load generator is the limit: the target carries at least 2,400/s",
        ),
        (
            |peak| peak.search.as_mut().unwrap().confirmed = false,
            "the peak was not confirmed: the machine changed",
        ),
        (passed, "the peak was not confirmed: loads passed once"),
        (
            |peak| {
                peak.cases[0].metrics[0].values.clear();
                peak.cases.retain(|case| case.name != "2,400/s, confirm");
            },
            "no load that might pass could be judged",
        ),
        (
            |peak| {
                peak.cases[0].metrics[0].values.clear();
                peak.cases[1].load.as_mut().unwrap().verdict = Some(crate::report::model::Verdict::Invalid);
                peak.cases.truncate(3);
            },
            "no load that might pass could be judged",
        ),
    ];
    for (change, why) in cases {
        let said = said(change);
        assert!(
            said.is_invalid() && said.sentence.starts_with(&format!("INVALID: {why}")),
            "{why}: {said:?}"
        );
    }
    // Nothing passes, and that is sound.
    let nothing = said(|peak| {
        peak.cases[0].metrics[0].values.clear();
        peak.cases.truncate(3);
    });
    assert_eq!(nothing.sentence, "valid, co-located: no load is carried with a p99 within 50 ms");
}
