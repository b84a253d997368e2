//! The published tier `message broker`, and how much a consumer gets of what was acknowledged to a producer.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};

use super::brokers::Brokers;
use super::own::{self, Line, Own, Sent};
use super::{METRICS, Produced};
use crate::drivers::rocketmq::{Bodies, Consumed, Consumer, Numbers, Producer, Pulling, Sending, Topic};
use crate::experiments::ScenarioContext;
use crate::experiments::cases::{Measured, Point, Run};
use crate::load::choice::Random;
use crate::load::schedule::{Schedule, Until};
use crate::load::trial::Distribution;
use crate::load::{Generator, Trial};
use crate::measure::{Surroundings, trial};
use crate::reference::{self, File};
use crate::report::model::{Better, Metric, ScenarioReport};

/// The published command.
const THREADS: usize = 64;
const BYTES: usize = 128;
const QUEUES: u32 = 8;
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

pub(super) fn message_broker(context: &ScenarioContext) -> anyhow::Result<ScenarioReport> {
    super::on_brokers(context, "RocketMQ: the message broker's tier", |run, brokers| {
        run.note(
            "RocketMQ's own producer has all its threads on one connection; here each has its own, which costs the \
             broker more, and is what as many producers cost it. With one connection its messages are begun together, \
             which costs the broker less than threads do",
        );
        run.note("the topic holds what was acknowledged, or there would be no report");
        brokers.warm_up(context, warm_up(context))?;
        // First, for it warms the broker up further: what comes later may be a little faster, and it is not ours.
        let own = own_case(run, brokers)?;
        for kind in [SINGLE, ONE_CONNECTION, BATCHES] {
            produce_case(run, brokers, kind)?;
            brokers.check_room()?;
        }
        let Some(own) = own else { return Ok(Vec::new()) };
        run.report.cases.rotate_left(1);
        let cases = &run.report.cases;
        let ours = |kind: Kind| cases.iter().find(|case| case.name == kind.name).and_then(Sent::ours);
        Ok(vec![own::shape(&own, ours(SINGLE), ours(ONE_CONNECTION))])
    })
}

/// The same by RocketMQ's own benchmark, if its programs are there.
fn own_case(run: &mut Run<'_>, brokers: &mut Brokers) -> anyhow::Result<Option<Own>> {
    let (context, mut own) = (run.context, None);
    let Some(library) = brokers.jars() else { return Ok(None) };
    let point = by_threads("RocketMQ's own producer", OWN_PRODUCER).of_reference();
    run.case(point, &[], || {
        let topic = brokers.topic("doorbuster_bench_own", QUEUES)?;
        let whom = (&*brokers.name_server.to_string(), &*topic.name);
        let found = own::run(context, &library, whom, (THREADS, BYTES), brokers.watched())?;
        let metric = |name, unit, better, value: fn(&Line) -> f64| {
            Metric::new(name, unit, better, found.lines.iter().map(value).collect())
        };
        let figures = vec![
            metric("throughput", "1/s", Better::Higher, |line| line.per_s),
            metric("mean response", "us", Better::Lower, |line| line.mean_ms * 1000.0),
            metric("max response", "us", Better::Lower, |line| line.max_ms * 1000.0),
            metric("failed", "messages", Better::Lower, |line| line.failed),
        ];
        let samples = found.samples();
        own = Some(found);
        Ok(Measured { own: figures, samples, ..Measured::default() })
    })?;
    Ok(own)
}

pub(super) fn consumer(context: &ScenarioContext) -> anyhow::Result<ScenarioReport> {
    super::on_brokers(context, "RocketMQ: the consumer", |run, brokers| {
        run.note("a connection pulls each queue, 32 messages at a time, as RocketMQ's own consumers do");
        run.note("every acknowledged message was consumed, and none twice, or there would be no report");
        brokers.warm_up(context, warm_up(context))?;
        run.case(Point::bar("consumer", "backlog"), METRICS, || backlog(context, brokers))?;
        brokers.check_room()?;
        run.case(Point::bar("consumer", "live stream"), &[], || live_stream(context, brokers))?;
        brokers.check_room()?;
        Ok(Vec::new())
    })
}

fn warm_up(context: &ScenarioContext) -> Duration {
    Duration::from_secs(if context.quick() { 10 } else { 60 })
}

fn window(context: &ScenarioContext) -> Duration {
    Duration::from_secs(if context.quick() { 3 } else { 10 })
}

fn sending(run: u64, topic: &Topic, connections: usize, batch: u32) -> Sending {
    Sending { batch, ..Sending::plain(topic.clone(), connections, Bodies::new(run, BYTES)) }
}

/// What distinguishes the messages of one repeat from those of another. A message whose outcome is unknown may come into its
/// topic as late as in the next repeat; each has a topic of its own too, so it can't be taken for damaged there.
fn run_of(seed: u64, repeat: usize) -> u64 {
    let seed = Random::new(seed).next_u64();
    Random::new(seed.wrapping_add(repeat as u64)).next_u64()
}

fn by_threads(series: &str, name: &str) -> Point {
    Point::at(series, "threads", THREADS as u64).named(name)
}

fn produce_case(run: &mut Run<'_>, brokers: &mut Brokers, kind: Kind) -> anyhow::Result<()> {
    let context = run.context;
    // Single messages were published.
    let published = reference::find(File::Tiers, &[("tier", "message broker")]);
    let published = published.filter(|_| kind.name == SINGLE.name);
    run.case(by_threads(kind.series, kind.name).beside(published), METRICS, || {
        let topic = brokers.topic("doorbuster_bench_tier", QUEUES)?;
        let mut produced = Produced { before: topic.messages()?, ..Produced::default() };
        let Kind { connections, batch, pipeline, .. } = kind;
        let sending = Sending { pipeline, ..sending(context.seed, &topic, connections, batch) };
        super::produce(context, brokers, sending, Duration::ZERO, window(context), &mut produced)
    })
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
fn backlog(context: &ScenarioContext, brokers: &mut Brokers) -> anyhow::Result<Vec<Trial>> {
    let watched = brokers.watched();
    let mut trials = Vec::new();
    for repeat in 1..=context.repeats {
        context.progress.doing("backlog: producing");
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
        context.progress.doing(&format!("backlog: consuming {there} messages"));
        let mut puller = Generator::connect(consumer.settings(), &mut consumer)?;
        let around = brokers.surroundings(context, &watched);
        // As many pulls as it takes if each is full; what is left after them is taken without being timed.
        let pulls = Schedule::closed_requests(there.div_ceil(PULL_MESSAGES_MAX as u64));
        trials.push(trial(&mut puller, pulls, &mut consumer, repeat, around)?);
        drain(context, &mut puller, &mut consumer, acknowledged)?;
        check(&consumer.consumed, acknowledged, there)?;
        context.progress.done(&format!("backlog: {there} messages, none lost, none twice"));
    }
    Ok(trials)
}

/// Until all that was acknowledged is consumed; the answers after that moment, up to the end of a slice, too.
fn drain(
    context: &ScenarioContext,
    puller: &mut Generator,
    consumer: &mut Consumer,
    acknowledged: &Numbers,
) -> anyhow::Result<()> {
    let begun = Instant::now();
    while acknowledged.missing_in(&consumer.consumed.numbers) > 0 {
        let missing = acknowledged.missing_in(&consumer.consumed.numbers);
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
fn live_stream(context: &ScenarioContext, brokers: &mut Brokers) -> anyhow::Result<Measured> {
    let watched = brokers.watched();
    let mut trials = Vec::new();
    let mut delays = Vec::new();
    for repeat in 1..=context.repeats {
        context.progress.doing("live stream");
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
        let consumed = &consumer.consumed;
        check(consumed, acknowledged, produced.outcomes.queued + produced.outcomes.unknown)?;
        let (born, stored) = (consumed.born_to_consumed(), consumed.stored_to_consumed());
        context.progress.done(&format!(
            "live stream: {} messages, none lost, none twice, p99 {} ms from producer to consumer",
            consumed.messages,
            born.at(0.99) / 1000
        ));
        if produced.is_valid() {
            delays.push((born, stored));
        }
        trials.push(produced);
    }
    Ok(Measured { trials, own: delay_metrics(&delays), ..Measured::default() })
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
