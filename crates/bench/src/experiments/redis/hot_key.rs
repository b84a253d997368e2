//! INCR of one key by more and more threads: a hot SKU's counter. Every acknowledged one must be in the final value.

use std::time::Duration;

use anyhow::{Context, ensure};

use super::case::{
    INSTANT, Instants, Point, Session, beside, figure, measure, rates, ratio, shape, value_of,
};
use super::server::{Subject, no_persistence};
use crate::drivers::redis::Workload;
use crate::drivers::redis::command::RedisCommand;
use crate::drivers::redis::keys::{Keys, Order};
use crate::experiments::limit::{self, bound};
use crate::experiments::{ScenarioContext, empty_report};
use crate::load::Trial;
use crate::load::schedule::Schedule;
use crate::reference::{self, File};
use crate::report::model::{Better, Case, Metric, ScenarioReport, Shape};
use crate::target::engines::redis::Redis;

const THREADS: [usize; 5] = [10, 50, 100, 120, 150];
/// For each INCR: runs of other lengths compare.
const CPU_SYS: &str = "used_cpu_sys per INCR";
const CPU_USER: &str = "used_cpu_user per INCR";

#[derive(Debug)]
pub(super) struct Sizes {
    pub(super) window: Duration,
    pub(super) threads: Vec<usize>,
}

pub(super) fn run(context: &mut ScenarioContext) -> anyhow::Result<ScenarioReport> {
    // Redis' own rates are means of 1.6 s: a shorter run would only show a part of them.
    let window = if context.quick() { Duration::from_secs(2) } else { Duration::from_secs(20) };
    run_sized(context, &Sizes { window, threads: THREADS.to_vec() })
}

pub(super) fn run_sized(context: &ScenarioContext, sizes: &Sizes) -> anyhow::Result<ScenarioReport> {
    let subject = Subject::of(context, no_persistence())?;
    let mut cases = Vec::new();
    for threads in &sizes.threads {
        let published = reference::find(File::HotKey, &[("threads", &threads.to_string())]);
        let point = Point::at("incr", "threads", *threads as u64).beside(published);
        cases.extend(measure(context, point, |repeat| {
            once(context, &subject, *threads, sizes.window, repeat)
        })?);
    }
    let engines = vec![subject.said()?];
    let mut notes = subject.notes();
    notes.push(
        "After each run the key's value was the number of acknowledged INCRs; those whose answer was lost were its \
         only bound above."
            .to_owned(),
    );
    notes.push(
        "A published thread made 100 INCRs, and the persistence is not said: here each case runs for a fixed time, and \
         nothing is written to the disk. instantaneous_* are the highest of INFO's values in the run; used_cpu_* are \
         what the run added, for each of its INCRs, beside the published ones for each of theirs."
            .to_owned(),
    );
    Ok(ScenarioReport {
        scaled_down: vec![
            "Connections of one thread stand for the threads of the published client; it and the server share one \
             host."
                .to_owned(),
        ],
        notes,
        engines,
        shapes: shapes(&cases),
        limiter: limit::of(&cases),
        cases,
        ..empty_report("Redis: one hot key, INCR from many threads")
    })
}

fn once(
    context: &ScenarioContext,
    subject: &Subject,
    threads: usize,
    window: Duration,
    repeat: usize,
) -> anyhow::Result<(Trial, Vec<Metric>)> {
    let session = Session::new(context, &[subject.address()], subject.watched());
    let key = format!("{}hot", subject.prefix());
    let mut redis = subject.client()?;
    redis.tell(&["DEL", &key])?;
    let workload =
        Workload::of(RedisCommand::parse(&format!("INCR {key}"))?, Keys::new("", 1, 1, Order::Random)?);
    let before = processor(&mut redis)?;
    let mut instants = Instants::default();
    let (trial, driver) = beside(
        subject.client()?,
        INSTANT,
        |redis| instants.look(redis),
        || session.run(threads, workload, Schedule::closed(window), repeat),
    )?;
    let after = processor(&mut redis)?;
    let value = redis.ask(&["GET", &key]).context("the value of the hot key")?;
    check_sum(value, trial.outcomes.served, trial.outcomes.unknown, driver.highest())?;
    redis.tell(&["DEL", &key])?;
    let mut figures = vec![figure(
        "time for 100 INCRs",
        "ms",
        Better::Lower,
        // Of one thread, which makes them one after the other: a hundred mean service times.
        trial.service.mean_us * 100.0 / 1000.0,
    )];
    figures.extend(instants.figures());
    let per_increment = |seconds: f64| seconds * 1e6 / trial.outcomes.good().max(1) as f64;
    figures.push(figure(CPU_SYS, "us", Better::Lower, per_increment(after.0 - before.0)));
    figures.push(figure(CPU_USER, "us", Better::Lower, per_increment(after.1 - before.1)));
    Ok((trial, figures))
}

/// Seconds in the kernel and outside of it, by INFO.
fn processor(redis: &mut Redis) -> anyhow::Result<(f64, f64)> {
    Ok((redis.info("cpu", "used_cpu_sys")?.parse()?, redis.info("cpu", "used_cpu_user")?.parse()?))
}

/// The proof: no acknowledged INCR is missing, and no other one was made.
fn check_sum(value: u64, acknowledged: u64, unknown: u64, highest: Option<i64>) -> anyhow::Result<()> {
    ensure!(
        (acknowledged..=acknowledged + unknown).contains(&value),
        "AUDIT FAILED: {acknowledged} INCRs were acknowledged and {unknown} lost their answer, and the key is {value}"
    );
    let highest = highest.and_then(|value| u64::try_from(value).ok()).unwrap_or(0);
    ensure!(highest <= value, "AUDIT FAILED: an INCR was answered by {highest}, and the key is {value}");
    Ok(())
}

fn shapes(cases: &[Case]) -> Vec<Shape> {
    let (few, many) = ("incr, 10 threads", "incr, 150 threads");
    let time = |name| value_of(cases, name, "time for 100 INCRs");
    let grows = shape(
        "a thread's time for 100 INCRs grows at least 3 times from 10 threads to 150",
        "140 ms with 10 threads, 1,570 ms with 150: 11.2 times",
        ratio(time(many), time(few)),
        |ratio| ratio >= 3.0,
        |ratio| format!("{ratio:.1} times"),
    );
    vec![
        limit::doubted(grows, bound(cases, &[few, many])),
        rates(
            cases,
            "150 threads on one key have at least 0.9 times the rate of 10",
            "342/s seen with 10 threads, 8,350/s with 150",
            [many, few],
            |ratio| ratio >= 0.9,
            |ratio| format!("with 150 threads {ratio:.2} times the rate of 10"),
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sum_is_bounded_by_what_was_acknowledged_and_what_is_unknown() {
        for (value, acknowledged, unknown, highest, clean) in [
            (10, 10, 0, Some(10), true),
            (10, 8, 2, Some(9), true),
            (8, 8, 2, None, true),
            (9, 10, 0, Some(9), false),
            (11, 10, 0, Some(10), false),
            (11, 8, 2, Some(8), false),
            (10, 10, 0, Some(11), false),
        ] {
            let checked = check_sum(value, acknowledged, unknown, highest);
            assert_eq!(checked.is_ok(), clean, "{value} {acknowledged} {unknown} {highest:?}");
        }
    }
}
