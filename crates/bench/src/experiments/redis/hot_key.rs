//! INCR of one key by more and more threads: a hot SKU's counter. Every acknowledged one must be in the final value.

use std::time::Duration;

use anyhow::{Context, ensure};

use super::case::{INSTANT, Instants, OF_TRIALS, Sweep, beside, figure, workload};
use super::server::{Subject, no_persistence};
use crate::drivers::redis::keys::Order;
use crate::experiments::ScenarioContext;
use crate::experiments::cases::{Point, Run};
use crate::experiments::limit::bound;
use crate::experiments::shapes::{rates, ratio, value_of};
use crate::load::Trial;
use crate::load::schedule::Schedule;
use crate::reference::{self, File};
use crate::report::model::{Better, Case, Metric, ScenarioReport, Shape};
use crate::target::engines::redis::Redis;

pub(super) const THREADS: [usize; 5] = [10, 50, 100, 120, 150];
/// For each INCR: runs of other lengths compare.
const CPU_SYS: &str = "used_cpu_sys per INCR";
const CPU_USER: &str = "used_cpu_user per INCR";

pub(super) fn run(context: &ScenarioContext, sizes: &Sweep) -> anyhow::Result<ScenarioReport> {
    let mut run = Run::new(context, "Redis: one hot key, INCR from many threads");
    run.scaled_down(
        "Connections of one thread stand for the threads of the published client; it and the server share one host.",
    );
    run.note(
        "After each run the key's value was the number of acknowledged INCRs; those whose answer was lost were its \
         only bound above.",
    );
    run.note(
        "A published thread made 100 INCRs, and the persistence is not said: here each case runs for a fixed time, and \
         nothing is written to the disk. instantaneous_* are the highest of INFO's values in the run; used_cpu_* are \
         what the run added, for each of its INCRs, beside the published ones for each of theirs.",
    );
    let subject = Subject::of(context, no_persistence())?;
    for &threads in &sizes.at {
        let published = reference::find(File::HotKey, &[("threads", &threads.to_string())]);
        let point = Point::at("incr", "threads", threads as u64).beside(published);
        let once = |repeat| once(context, &subject, threads, sizes.window, repeat);
        run.case(point, &OF_TRIALS, || context.repeat(once))?;
    }
    subject.close(&mut run)?;
    Ok(run.finish(shapes))
}

fn once(
    context: &ScenarioContext,
    subject: &Subject,
    threads: usize,
    window: Duration,
    repeat: usize,
) -> anyhow::Result<(Trial, Vec<Metric>)> {
    let key = format!("{}hot", subject.prefix());
    let mut redis = subject.client()?;
    redis.exec(&["DEL", &key])?;
    let workload = workload(&format!("INCR {key}"), "", 1, 1, Order::Random)?;
    let before = processor(&mut redis)?;
    let mut instants = Instants::default();
    let (trial, driver) = beside(
        subject.client()?,
        INSTANT,
        |redis| instants.look(redis),
        || subject.session(context).run(threads, workload, Schedule::closed(window), repeat),
    )?;
    let after = processor(&mut redis)?;
    let value = redis.query(&["GET", &key]).context("the value of the hot key")?;
    check_sum(value, trial.outcomes.served, trial.outcomes.unknown, driver.highest())?;
    redis.exec(&["DEL", &key])?;
    // Of one thread, which makes them one after the other: a hundred mean service times.
    let for_100_ms = trial.service.mean_us * 100.0 / 1000.0;
    let mut figures = vec![figure("time for 100 INCRs", "ms", Better::Lower, for_100_ms)];
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
    let names @ [many, few] = ["incr, 150 threads", "incr, 10 threads"];
    let time = |name| value_of(cases, name, "time for 100 INCRs");
    vec![
        ratio(time(many), time(few), 3.0.., "{} times").doubted(bound(cases, &names)).shape(
            "a thread's time for 100 INCRs grows at least 3 times from 10 threads to 150",
            "140 ms with 10 threads, 1,570 ms with 150: 11.2 times",
        ),
        rates(cases, names, 0.9.., "with 150 threads {} times the rate of 10").shape(
            "150 threads on one key have at least 0.9 times the rate of 10",
            "342/s seen with 10 threads, 8,350/s with 150",
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
