//! The published tier `message broker`, and how much a consumer gets of what was acknowledged to a producer.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};

use super::brokers::Brokers;
use super::own::{self, Line, Own, Sent};
use super::{METRICS, Produced};
use crate::drivers::rocketmq::{Bodies, Consumed, Consumer, Numbers, Producer, Pulling, Sending, Topic};
use crate::experiments::cases::Point;
use crate::experiments::{ScenarioContext, cases, limit};
use crate::load::choice::Random;
use crate::load::schedule::{Schedule, Until};
use crate::load::trial::Distribution;
use crate::load::{Generator, Trial};
use crate::measure::{Surroundings, trial};
use crate::reference::{self, File};
use crate::report::model::{Better, Case, Metric, ScenarioReport, Shape};

/// The published command.
const THREADS: usize = 64;
const BYTES: usize = 128;
const QUEUES: u32 = 8;
/// How the messages are sent.
#[derive(Debug, Clone, Copy)]
struct Kind {
    name: &'static str,
    series: &'static str,
    connections: usize,
    batch: u32,
    pipeline: u32,
}

const SINGLE: Kind = Kind {
    name: "64 threads, 128 bytes",
    series: "message broker",
    connections: THREADS,
    batch: 1,
    pipeline: 1,
};
/// As RocketMQ's own client has its threads: with one connection. They are begun and timed together.
const ONE_CONNECTION: Kind = Kind {
    name: "64 messages at once on one connection, 128 bytes",
    series: "message broker, one connection",
    connections: 1,
    batch: 1,
    pipeline: 64,
};
const BATCHES: Kind = Kind {
    name: "64 threads, 128 bytes, batches of 32",
    series: "message broker, batches",
    connections: THREADS,
    batch: BATCH,
    pipeline: 1,
};
const OWN_PRODUCER: &str = "64 threads, 128 bytes, RocketMQ's own producer";
/// Messages of one request, where batches are measured.
const BATCH: u32 = 32;
/// RocketMQ's own consumers ask for so many at once.
const PULL_MESSAGES_MAX: usize = 32;
/// What was acknowledged must arrive within this.
const PATIENCE: Duration = Duration::from_secs(60);
/// The rest of a topic is consumed in steps of this.
const SLICE: Duration = Duration::from_millis(250);
/// How often it is looked whether all messages of a live stream have come.
const POLL: Duration = Duration::from_millis(10);
const HOLD_MS: u64 = 100;
/// Of the live stream: far below what a broker carries, so that it is delivery that is timed and no queueing.
const LIVE_PER_S: f64 = 1000.0;

pub(super) fn message_broker(context: &mut ScenarioContext) -> anyhow::Result<ScenarioReport> {
    with_brokers(context, "message-broker", "RocketMQ: the message broker's tier", |context, brokers| {
        // First, for it warms the broker up further: what comes later may be a little faster, and it is not ours.
        let own = match brokers.jars().filter(|_| context.wants(OWN_PRODUCER)) {
            Some(library) => {
                let own = own_case(context, brokers, &library)?;
                context.keep(&own.0);
                Some(own)
            }
            None => None,
        };
        let mut cases = Vec::new();
        for kind in [SINGLE, ONE_CONNECTION, BATCHES] {
            if context.wants(kind.name) {
                let case = produce_case(context, brokers, kind)?;
                context.keep(&case);
                cases.push(case);
                brokers.check_room()?;
            }
        }
        let mut shapes = Vec::new();
        if let Some((case, own)) = own {
            let ours = |kind: Kind| cases.iter().find(|case| case.name == kind.name).and_then(Sent::ours);
            shapes.push(own::shape(&own, ours(SINGLE), ours(ONE_CONNECTION)));
            cases.push(case);
        }
        Ok((cases, shapes))
    })
}

/// The same by RocketMQ's own benchmark.
fn own_case(context: &ScenarioContext, brokers: &mut Brokers, library: &str) -> anyhow::Result<(Case, Own)> {
    context.progress.doing(OWN_PRODUCER);
    let topic = brokers.topic("doorbuster_bench_own", QUEUES)?;
    let name_server = brokers.name_server().to_string();
    let own = own::run(context, library, (&name_server, &topic.name), (THREADS, BYTES), brokers.watched())?;
    let metric = |name, unit, better, value: fn(&Line) -> f64| {
        Metric::new(name, unit, better, own.lines.iter().map(value).collect())
    };
    let figures = vec![
        metric("throughput", "1/s", Better::Higher, |line| line.per_s),
        metric("mean response", "us", Better::Lower, |line| line.mean_ms * 1000.0),
        metric("max response", "us", Better::Lower, |line| line.max_ms * 1000.0),
        metric("failed", "messages", Better::Lower, |line| line.failed),
    ];
    let case = by_threads("RocketMQ's own producer", OWN_PRODUCER).case(Vec::new(), &[], figures);
    let best = own.lines.iter().map(|line| line.per_s).fold(0.0, f64::max);
    context.progress.done(&format!("{OWN_PRODUCER}: {best:.0}/s"));
    Ok((case, own))
}

pub(super) fn consumer(context: &mut ScenarioContext) -> anyhow::Result<ScenarioReport> {
    with_brokers(context, "rocketmq-consumer", "RocketMQ: the consumer", |context, brokers| {
        let mut cases = Vec::new();
        for (name, run) in [
            ("backlog", backlog_case as fn(&ScenarioContext, &mut Brokers, &str) -> anyhow::Result<Case>),
            ("live stream", live_case),
        ] {
            if context.wants(name) {
                let case = run(context, brokers, name)?;
                context.keep(&case);
                cases.push(case);
                brokers.check_room()?;
            }
        }
        Ok((cases, Vec::new()))
    })
}

fn with_brokers(
    context: &ScenarioContext,
    name: &str,
    title: &str,
    measure: impl FnOnce(&ScenarioContext, &mut Brokers) -> anyhow::Result<(Vec<Case>, Vec<Shape>)>,
) -> anyhow::Result<ScenarioReport> {
    let mut brokers = Brokers::open(context)?;
    brokers.warm_up(context, Duration::from_secs(if context.quick() { 10 } else { 60 }))?;
    let measured = measure(context, &mut brokers);
    let engines = brokers.settings();
    let closed = brokers.close();
    let (cases, shapes) = measured?;
    closed?;
    ensure!(!cases.is_empty(), "no case has this in its name: {:?}", context.only);
    let mut notes = brokers.notes();
    if name == "rocketmq-consumer" {
        notes.push(
            "a connection pulls each queue, 32 messages at a time, as RocketMQ's own consumers do".to_owned(),
        );
        notes.push(
            "every acknowledged message was consumed, and none twice, or there would be no report".to_owned(),
        );
    } else {
        notes.push(
            "RocketMQ's own producer has all its threads on one connection; here each has its own, which costs the \
             broker more, and is what as many producers cost it. With one connection its messages are begun together, which costs the broker less than threads do"
                .to_owned(),
        );
        notes.push("the topic holds what was acknowledged, or there would be no report".to_owned());
    }
    Ok(ScenarioReport {
        name: name.to_owned(),
        title: title.to_owned(),
        reference: (name == "message-broker").then(|| "seckill-tiers.csv".to_owned()),
        scaled_down: brokers.scaled_down(),
        notes,
        engines: engines?,
        limiter: limit::of(&cases),
        cases,
        shapes,
        ..ScenarioReport::default()
    })
}

fn window(context: &ScenarioContext) -> Duration {
    Duration::from_secs(if context.quick() { 3 } else { 10 })
}

fn sending(run: u64, topic: &Topic, connections: usize, batch: u32) -> Sending {
    let bodies = Bodies::new(run, BYTES);
    Sending { topic: topic.clone(), connections, bodies, keys: false, batch, pipeline: 1 }
}

/// What distinguishes the messages of one repeat from those of another. A message whose outcome is unknown may come into its
/// topic as late as in the next repeat; each has a topic of its own too, so it can't be taken for damaged there.
fn run_of(seed: u64, repeat: usize) -> u64 {
    let seed = Random::new(seed).next_u64();
    Random::new(seed.wrapping_add(repeat as u64)).next_u64()
}

fn by_threads(series: &str, name: &str) -> Point {
    Point { name: name.to_owned(), ..Point::at(series, "threads", THREADS as u64) }
}

fn produce_case(context: &ScenarioContext, brokers: &mut Brokers, kind: Kind) -> anyhow::Result<Case> {
    let name = kind.name;
    context.progress.doing(name);
    let topic = brokers.topic("doorbuster_bench_tier", QUEUES)?;
    let mut produced = Produced { before: topic.messages()?, ..Produced::default() };
    let sending =
        Sending { pipeline: kind.pipeline, ..sending(context.seed, &topic, kind.connections, kind.batch) };
    let window = window(context);
    let trials = super::produce(context, brokers, sending, Duration::ZERO, window, &mut produced)?;
    let (shown, acknowledged) = (cases::shown(&trials), produced.acknowledged);
    context.progress.done(&format!("{name}: {shown}, {acknowledged} in the topic as acknowledged"));
    // Single messages were published.
    let published = reference::find(File::Tiers, &[("tier", "message broker")]);
    let published = published.filter(|_| name == SINGLE.name);
    Ok(by_threads(kind.series, name).beside(published).case(trials, METRICS, Vec::new()))
}

/// A consumer of all that comes into the topic from now on.
fn pulling(run: u64, topic: &Topic, hold_ms: u64) -> anyhow::Result<Consumer> {
    Ok(Consumer::new(Pulling {
        topic: topic.clone(),
        group: "doorbuster_bench".to_owned(),
        offsets: topic.ends()?,
        messages_max: PULL_MESSAGES_MAX,
        hold_ms,
        bodies: Some(Bodies::new(run, BYTES)),
    }))
}

/// Each repeat: a backlog is made by batches, then consumed as fast as it goes.
fn backlog_case(context: &ScenarioContext, brokers: &mut Brokers, name: &str) -> anyhow::Result<Case> {
    let watched = brokers.watched();
    let mut trials = Vec::new();
    for repeat in 1..=context.repeats {
        context.progress.doing(&format!("{name}: producing"));
        let topic = brokers.topic(&format!("doorbuster_bench_backlog_{repeat}"), QUEUES)?;
        let run = run_of(context.seed, repeat);
        let mut consumer = pulling(run, &topic, 0)?;
        // Numbers begin at 0 again, so what the consumer has seen is one repeat's.
        let sending = sending(run, &topic, THREADS, BATCH);
        let mut producer = Producer::new(sending.clone()).remembering();
        let mut generator = Generator::connect(sending.settings(), &mut producer)?;
        let record = generator.run(Schedule::closed(window(context)), &mut producer, &context.stop)?;
        let acknowledged = producer.acknowledged().context("it remembers")?;
        let there: u64 = topic.ends()?.iter().zip(consumer.offsets()).map(|(end, begun)| end - begun).sum();
        let produced =
            Produced { acknowledged: record.outcomes.queued, unknown: record.outcomes.unknown, before: 0 };
        produced.check(there)?;
        context.progress.doing(&format!("{name}: consuming {there} messages"));
        let mut puller = Generator::connect(consumer.settings(), &mut consumer)?;
        let around = brokers.surroundings(context, &watched);
        // As many pulls as it takes if each is full; what is left after them is taken without being timed.
        let pulls = Schedule::closed_requests(there.div_ceil(PULL_MESSAGES_MAX as u64));
        trials.push(trial(&mut puller, pulls, &mut consumer, repeat, around)?);
        drain(context, &mut puller, &mut consumer, acknowledged)?;
        check(consumer.consumed(), acknowledged, there)?;
        context.progress.done(&format!("{name}: {there} messages, none lost, none twice"));
    }
    Ok(Point::bar("consumer", name.to_owned()).case(trials, METRICS, Vec::new()))
}

/// Until all that was acknowledged is consumed; the answers after that moment, up to the end of a slice, too.
fn drain(
    context: &ScenarioContext,
    puller: &mut Generator,
    consumer: &mut Consumer,
    acknowledged: &Numbers,
) -> anyhow::Result<()> {
    let begun = Instant::now();
    while acknowledged.missing_in(&consumer.consumed().numbers) > 0 {
        let missing = acknowledged.missing_in(&consumer.consumed().numbers);
        ensure!(
            begun.elapsed() < PATIENCE,
            "AUDIT FAILED: {missing} acknowledged messages were not delivered within {} s",
            PATIENCE.as_secs()
        );
        puller.run(Schedule::closed(SLICE), consumer, &context.stop)?;
    }
    Ok(())
}

/// No loss, nothing twice, nothing damaged, and no more than there is.
fn check(consumed: &Consumed, acknowledged: &Numbers, there: u64) -> anyhow::Result<()> {
    let Consumed { messages, duplicates, lost, damaged, numbers, .. } = consumed;
    let missing = acknowledged.missing_in(numbers);
    ensure!(
        (missing, *duplicates, *lost, *damaged) == (0, 0, 0, 0) && *messages <= there,
        "AUDIT FAILED: of {} acknowledged messages {missing} were not consumed; of {messages} consumed ({there} are in \
         the topic) {duplicates} came twice, {damaged} are not what was sent, and {lost} offsets were passed over",
        acknowledged.count()
    );
    Ok(())
}

/// A slow stream, consumed while it is produced: how long a message takes from its producer to its consumer.
fn live_case(context: &ScenarioContext, brokers: &mut Brokers, name: &str) -> anyhow::Result<Case> {
    let watched = brokers.watched();
    let mut trials = Vec::new();
    let mut delays = Vec::new();
    for repeat in 1..=context.repeats {
        context.progress.doing(name);
        let topic = brokers.topic(&format!("doorbuster_bench_live_{repeat}"), QUEUES)?;
        let run = run_of(context.seed, repeat);
        let mut consumer = pulling(run, &topic, HOLD_MS)?;
        let mut puller = Generator::connect(consumer.settings(), &mut consumer)?;
        let sending = sending(run, &topic, THREADS, 1);
        let mut producer = Producer::new(sending.clone()).remembering();
        let mut generator = Generator::connect(sending.settings(), &mut producer)?;
        let around = brokers.surroundings(context, &watched);
        let schedule = Schedule::constant(LIVE_PER_S, window(context));
        let produced = live(around, (&mut puller, &mut consumer), schedule, || {
            trial(&mut generator, schedule, &mut producer, repeat, around)
        })?;
        let acknowledged = producer.acknowledged().context("it remembers")?;
        drain(context, &mut puller, &mut consumer, acknowledged)?;
        let consumed = consumer.consumed();
        check(consumed, acknowledged, produced.outcomes.queued + produced.outcomes.unknown)?;
        let (born, stored) = (consumed.born_to_consumed(), consumed.stored_to_consumed());
        context.progress.done(&format!(
            "{name}: {} messages, none lost, none twice, p99 {} ms from producer to consumer",
            consumed.messages,
            born.at(0.99) / 1000
        ));
        if produced.is_valid() {
            delays.push((born, stored));
        }
        trials.push(produced);
    }
    Ok(Point::bar("consumer", name.to_owned()).case(trials, &[], delay_metrics(&delays)))
}

/// Pulls without a pause from before the first message until all that were acknowledged have come. The end of a run
/// is a pause: queues that have answered are not pulled again until all have, and what comes then waits for us.
fn live(
    around: Surroundings<'_>,
    (puller, consumer): (&mut Generator, &mut Consumer),
    schedule: Schedule,
    produce: impl FnOnce() -> anyhow::Result<Trial>,
) -> anyhow::Result<Trial> {
    let Until::Elapsed(window) = schedule.until else { anyhow::bail!("a stream lasts for a time") };
    // Long enough for a producer that is given up, and for what it sent to be waited for.
    let longest = Schedule::closed(window + 3 * PATIENCE);
    let (finish, arrived) = (AtomicBool::new(false), consumer.arrived());
    std::thread::scope(|scope| {
        let pulling = scope.spawn(|| puller.run_until(longest, consumer, &finish, &mut |_| {}));
        let produced = produce();
        let acknowledged = produced.as_ref().map_or(0, |trial| trial.outcomes.queued);
        let begun = Instant::now();
        while arrived.load(Ordering::Relaxed) < acknowledged
            && begun.elapsed() < PATIENCE
            && !pulling.is_finished()
            && !around.stop.load(Ordering::Relaxed)
        {
            std::thread::sleep(POLL);
        }
        finish.store(true, Ordering::Relaxed);
        let pulled = pulling.join().expect("a run returns its errors");
        // Nothing was produced at all if it ended before it began.
        let produced = produced?;
        pulled.context("consuming the live stream")?;
        Ok(produced)
    })
}

fn delay_metrics(delays: &[(Distribution, Distribution)]) -> Vec<Metric> {
    let metric = |name, value: fn(&(Distribution, Distribution)) -> f64| {
        Metric::new(name, "us", Better::Lower, delays.iter().map(value).collect())
    };
    vec![
        metric("p50 producer to consumer", |(born, _)| born.at(0.5) as f64),
        metric("p99 producer to consumer", |(born, _)| born.at(0.99) as f64),
        metric("max producer to consumer", |(born, _)| born.max_us as f64),
        metric("p99 broker to consumer", |(_, stored)| stored.at(0.99) as f64),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repeats_have_messages_of_their_own() {
        let runs: Vec<u64> = (1..=100).map(|repeat| run_of(7, repeat)).collect();
        let mut others = runs.clone();
        others.sort_unstable();
        others.dedup();
        assert_eq!(others.len(), 100);
        assert_eq!(runs[0], run_of(7, 1));
        assert!(!runs.contains(&run_of(8, 1)));
    }
}
