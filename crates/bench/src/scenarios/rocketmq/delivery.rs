//! The published tier `message broker`, and what a consumer gets of what a producer was told is stored.

use std::time::{Duration, Instant};

use anyhow::{Context, ensure};

use super::brokers::Brokers;
use super::{Told, metrics};
use crate::drivers::rocketmq::{Bodies, Consumed, Consumer, Numbers, Producer, Pulling, Sending, Topic};
use crate::load::schedule::Schedule;
use crate::load::trial::Distribution;
use crate::load::{Generator, Trial};
use crate::report::model::{Better, Case, Metric, ScenarioReport, X};
use crate::scenarios::Stage;
use crate::scenarios::measure::trial;

/// The published command.
const THREADS: usize = 64;
const BYTES: usize = 128;
const QUEUES: u32 = 8;
/// Messages of one request, where batches are measured.
const BATCH: u32 = 32;
/// RocketMQ's own consumers ask for so many at once.
const PULL_MESSAGES_MAX: u32 = 32;
/// What was acknowledged must arrive within this.
const PATIENCE: Duration = Duration::from_secs(60);
/// The rest of a topic is consumed in steps of this.
const SLICE: Duration = Duration::from_millis(250);
const HOLD_MS: u64 = 100;
/// Of the live stream: far below what a broker carries, so that it is delivery that is timed and no queueing.
const LIVE_PER_S: f64 = 1000.0;

pub(super) fn message_broker(stage: &mut Stage) -> anyhow::Result<ScenarioReport> {
    with_brokers(stage, "message-broker", "RocketMQ: the message broker's tier", |stage, brokers| {
        let mut cases = Vec::new();
        for (batch, name) in [(1, "64 threads, 128 bytes"), (BATCH, "64 threads, 128 bytes, batches of 32")] {
            if stage.wants(name) {
                cases.push(produce_case(stage, brokers, name, batch)?);
                brokers.check_room()?;
            }
        }
        Ok(cases)
    })
}

pub(super) fn consumer(stage: &mut Stage) -> anyhow::Result<ScenarioReport> {
    with_brokers(stage, "rocketmq-consumer", "RocketMQ: the consumer", |stage, brokers| {
        let mut cases = Vec::new();
        for (name, run) in [
            ("backlog", backlog_case as fn(&Stage, &mut Brokers, &str) -> anyhow::Result<Case>),
            ("live stream", live_case),
        ] {
            if stage.wants(name) {
                cases.push(run(stage, brokers, name)?);
                brokers.check_room()?;
            }
        }
        Ok(cases)
    })
}

fn with_brokers(
    stage: &Stage,
    name: &str,
    title: &str,
    measure: impl FnOnce(&Stage, &mut Brokers) -> anyhow::Result<Vec<Case>>,
) -> anyhow::Result<ScenarioReport> {
    let mut brokers = Brokers::open(stage)?;
    brokers.warm_up(stage, Duration::from_secs(if stage.quick() { 10 } else { 60 }))?;
    let measured = measure(stage, &mut brokers);
    let engines = brokers.settings();
    let closed = brokers.close();
    let cases = measured?;
    closed?;
    ensure!(!cases.is_empty(), "no case has this in its name: {:?}", stage.only);
    let mut notes = brokers.notes();
    if name == "rocketmq-consumer" {
        notes.push(
            "a connection pulls each queue, 32 messages at a time, as RocketMQ's own consumers do".to_owned(),
        );
        notes.push(
            "every acknowledged message was consumed, and none twice, or there would be no report".to_owned(),
        );
    } else {
        notes.push("the topic holds what was acknowledged, or there would be no report".to_owned());
    }
    Ok(ScenarioReport {
        name: name.to_owned(),
        title: title.to_owned(),
        reference: (name == "message-broker").then(|| "seckill-tiers.csv".to_owned()),
        scaled_down: brokers.scaled_down(),
        notes,
        engines: engines?,
        cases,
        shapes: Vec::new(),
        audit: None,
        limiter: None,
    })
}

fn window(stage: &Stage) -> Duration {
    Duration::from_secs(if stage.quick() { 3 } else { 10 })
}

fn sending(stage: &Stage, topic: &Topic, connections: usize, batch: u32) -> Sending {
    let bodies = Bodies::new(stage.seed, BYTES);
    Sending { topic: topic.clone(), connections, bodies, keys: false, batch }
}

fn threads(count: usize) -> Option<X> {
    Some(X { label: "threads".to_owned(), value: count as f64 })
}

fn produce_case(stage: &Stage, brokers: &mut Brokers, name: &str, batch: u32) -> anyhow::Result<Case> {
    stage.progress.doing(name);
    let topic = brokers.topic("doorbuster_bench_tier", QUEUES)?;
    let mut told = Told { before: topic.messages()?, ..Told::default() };
    let sending = sending(stage, &topic, THREADS, batch);
    let mut producer = Producer::new(sending.clone());
    let mut generator = Generator::connect(sending.settings(), &mut producer)?;
    let watched = brokers.watched();
    let mut trials = Vec::new();
    for repeat in 0..stage.repeats {
        let around = brokers.surroundings(stage, &watched);
        let trial = trial(&mut generator, Schedule::closed(window(stage)), &mut producer, repeat, around)?;
        told.add(&trial.outcomes);
        trials.push(trial);
    }
    told.check(topic.messages()?)?;
    let best = trials.iter().map(Trial::good_per_s).fold(0.0, f64::max);
    stage.progress.done(&format!("{name}: {best:.0}/s, {} in the topic as told", told.acknowledged));
    let series = if batch == 1 { "message broker" } else { "message broker, batches" };
    Ok(Case {
        name: name.to_owned(),
        series: series.to_owned(),
        x: threads(THREADS),
        metrics: metrics(&trials),
        trials,
    })
}

/// A consumer of all that comes into the topic from now on.
fn pulling(stage: &Stage, topic: &Topic, hold_ms: u64) -> anyhow::Result<Consumer> {
    Ok(Consumer::new(Pulling {
        topic: topic.clone(),
        group: "doorbuster_bench".to_owned(),
        offsets: topic.ends()?,
        messages_max: PULL_MESSAGES_MAX,
        hold_ms,
        bodies: Some(Bodies::new(stage.seed, BYTES)),
    }))
}

/// Each repeat: a backlog is made by batches, then consumed as fast as it goes.
fn backlog_case(stage: &Stage, brokers: &mut Brokers, name: &str) -> anyhow::Result<Case> {
    let topic = brokers.topic("doorbuster_bench_backlog", QUEUES)?;
    let watched = brokers.watched();
    let mut trials = Vec::new();
    for repeat in 0..stage.repeats {
        stage.progress.doing(&format!("{name}: producing"));
        let mut consumer = pulling(stage, &topic, 0)?;
        // Numbers begin at 0 again, so what the consumer has seen is one repeat's.
        let sending = sending(stage, &topic, THREADS, BATCH);
        let mut producer = Producer::new(sending.clone()).remembering();
        let mut generator = Generator::connect(sending.settings(), &mut producer)?;
        let record = generator.run(Schedule::closed(window(stage)), &mut producer, &stage.stop)?;
        let acknowledged = producer.acknowledged().context("it remembers")?;
        let there: u64 = topic.ends()?.iter().zip(consumer.offsets()).map(|(end, begun)| end - begun).sum();
        let told = Told { acknowledged: record.outcomes.queued, unknown: record.outcomes.unknown, before: 0 };
        told.check(there)?;
        stage.progress.doing(&format!("{name}: consuming {there} messages"));
        let mut puller = Generator::connect(consumer.settings(), &mut consumer)?;
        let around = brokers.surroundings(stage, &watched);
        // As many pulls as it takes if each is full; what is left after them is taken without being timed.
        let pulls = Schedule::closed_requests(there.div_ceil(PULL_MESSAGES_MAX.into()));
        trials.push(trial(&mut puller, pulls, &mut consumer, repeat, around)?);
        drain(stage, &mut puller, &mut consumer, acknowledged)?;
        check(consumer.consumed(), acknowledged, there)?;
        stage.progress.done(&format!("{name}: {there} messages, none lost, none twice"));
    }
    Ok(Case {
        name: name.to_owned(),
        series: "consumer".to_owned(),
        x: None,
        metrics: metrics(&trials),
        trials,
    })
}

/// Until all that was acknowledged is consumed; the answers after that moment, up to the end of a slice, too.
fn drain(
    stage: &Stage,
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
        puller.run(Schedule::closed(SLICE), consumer, &stage.stop)?;
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
fn live_case(stage: &Stage, brokers: &mut Brokers, name: &str) -> anyhow::Result<Case> {
    let topic = brokers.topic("doorbuster_bench_live", QUEUES)?;
    let watched = brokers.watched();
    let mut trials = Vec::new();
    let mut delays: Vec<(Distribution, Distribution)> = Vec::new();
    for repeat in 0..stage.repeats {
        stage.progress.doing(name);
        let mut consumer = pulling(stage, &topic, HOLD_MS)?;
        let mut puller = Generator::connect(consumer.settings(), &mut consumer)?;
        let sending = sending(stage, &topic, THREADS, 1);
        let mut producer = Producer::new(sending.clone()).remembering();
        let mut generator = Generator::connect(sending.settings(), &mut producer)?;
        let around = brokers.surroundings(stage, &watched);
        let schedule = Schedule::constant(LIVE_PER_S, window(stage));
        let produced = std::thread::scope(|scope| -> anyhow::Result<Trial> {
            let thread = scope.spawn(|| trial(&mut generator, schedule, &mut producer, repeat, around));
            while !thread.is_finished() {
                puller.run(Schedule::closed(SLICE), &mut consumer, &stage.stop)?;
            }
            thread.join().expect("a trial returns its errors")
        })?;
        let acknowledged = producer.acknowledged().context("it remembers")?;
        drain(stage, &mut puller, &mut consumer, acknowledged)?;
        let consumed = consumer.consumed();
        check(consumed, acknowledged, produced.outcomes.queued + produced.outcomes.unknown)?;
        delays.push((consumed.born_to_consumed(), consumed.stored_to_consumed()));
        stage.progress.done(&format!(
            "{name}: {} messages, none lost, none twice, p99 {} ms from producer to consumer",
            consumed.messages,
            delays.last().map_or(0, |(born, _)| born.at(0.99) / 1000)
        ));
        trials.push(produced);
    }
    Ok(Case {
        name: name.to_owned(),
        series: "consumer".to_owned(),
        x: None,
        metrics: delay_metrics(&delays),
        trials,
    })
}

fn delay_metrics(delays: &[(Distribution, Distribution)]) -> Vec<Metric> {
    let metric = |name: &str, value: fn(&(Distribution, Distribution)) -> f64| Metric {
        name: name.to_owned(),
        unit: "us".to_owned(),
        better: Better::Lower,
        values: delays.iter().map(value).collect(),
        published: None,
    };
    vec![
        metric("p50 producer to consumer", |(born, _)| born.at(0.5) as f64),
        metric("p99 producer to consumer", |(born, _)| born.at(0.99) as f64),
        metric("max producer to consumer", |(born, _)| born.max_us as f64),
        metric("p99 broker to consumer", |(_, stored)| stored.at(0.99) as f64),
    ]
}
