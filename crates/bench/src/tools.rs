//! RocketMQ's own benchmark programs with our clocks: a producer and a consumer to point at brokers that run already.
//!
//! `bench producer` and `bench consumer` have flags that are named as in RocketMQ's own, which check what is asked for. The
//! line of a window goes to `on_line` as it ends; nothing is printed here.

use std::net::SocketAddr;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};

use crate::drivers::rocketmq::{Bodies, Consumed, Consumer, Producer, Pulling, Sending, Topic};
use crate::load::record::{Outcome, Record};
use crate::load::schedule::Schedule;
use crate::load::{Generator, Protocol, RunError};
use crate::target::token;

/// RocketMQ's own programs print a line each ten seconds; these print one of what is left at the end, too.
const WINDOW: Duration = Duration::from_secs(10);
/// A century or so.
const SECONDS_MAX: u64 = u32::MAX as u64;
const HOLD_MS: u64 = 500;
/// Messages in one answer, as RocketMQ's own consumers ask for.
const PULL_MESSAGES_MAX: usize = 32;
const QUEUES: u32 = 8;
/// `maxMessageSize`, as brokers come.
const REQUEST_BYTES_MAX: usize = 4 << 20;

/// `bench producer`.
#[derive(Debug, Clone)]
pub struct ProducerOptions {
    /// `-n`.
    pub namesrv: SocketAddr,
    /// `-t`. Made with `queues` if no broker has it.
    pub topic: String,
    /// `-w`: connections with one message under way.
    pub threads: usize,
    /// `-s`.
    pub message_bytes: usize,
    /// `-k`: messages can be looked up by a key.
    pub keys: bool,
    /// On each broker, of a topic that is made; `None`: 8.
    pub queues: Option<u32>,
    /// Messages in a request; 1 is no batch.
    pub batch: u32,
    /// Until it is stopped, if `None`.
    pub seconds: Option<u64>,
}

/// `bench consumer`.
#[derive(Debug, Clone)]
pub struct ConsumerOptions {
    /// `-n`.
    pub namesrv: SocketAddr,
    /// `-t`.
    pub topic: String,
    /// `-g`. Offsets are not committed to it.
    pub group: String,
    /// From the oldest message that the brokers have, or only what comes from now on.
    pub from_start: bool,
    /// Until it is stopped, if `None`.
    pub seconds: Option<u64>,
}

/// What came of a run.
#[derive(Debug, Clone, Copy, Default)]
pub struct ProducerReport {
    pub queues: u32,
    pub seconds: f64,
    /// Messages that the broker has.
    pub queued: u64,
    /// And those of any other outcome.
    pub others: u64,
}

#[derive(Debug, Clone, Copy, Default)]
pub struct ConsumerReport {
    pub queues: u32,
    pub seconds: f64,
    pub messages: u64,
    /// Offsets that were passed over.
    pub lost: u64,
    /// Pulls that were refused.
    pub failed: u64,
}

/// Sends as fast as the broker answers.
///
/// # Errors
/// If the name server or a broker can't be reached, or the topic can't be made. Being stopped is none.
pub fn producer(
    options: &ProducerOptions,
    stop: &AtomicBool,
    mut on_line: impl FnMut(String),
) -> anyhow::Result<ProducerReport> {
    ensure!(options.threads > 0 && options.batch > 0, "a producer needs a thread, and a request a message");
    let request_bytes = options.message_bytes.saturating_mul(usize::try_from(options.batch)?);
    ensure!(
        request_bytes <= REQUEST_BYTES_MAX,
        "a request of {request_bytes} bytes: brokers take {REQUEST_BYTES_MAX}, so send smaller messages or batches"
    );
    let topic = match Topic::look_up(options.namesrv, &options.topic)? {
        Some(topic) => topic,
        None => Topic::create(options.namesrv, &options.topic, options.queues.unwrap_or(QUEUES))?,
    };
    let mut report = ProducerReport { queues: topic.queues(), ..ProducerReport::default() };
    ensure!(report.queues > 0, "no broker lets the topic {} be written", options.topic);
    // A number of its own, so that the messages of two runs can be distinguished.
    let bodies = Bodies::new(token::unix_ms(), options.message_bytes);
    let (keys, batch) = (options.keys, options.batch);
    let sending = Sending { keys, batch, ..Sending::plain(topic, options.threads, bodies) };
    let mut producer = Producer::new(sending.clone());
    let mut generator =
        Generator::connect(sending.settings(), &mut producer).context("connecting to the brokers")?;
    run(&mut generator, &mut producer, options.seconds, stop, &mut |record, _| {
        report.seconds += record.elapsed.as_secs_f64();
        report.queued += record.outcomes.queued;
        report.others += record.outcomes.total() - record.outcomes.queued;
        on_line(sent(&record));
    })?;
    Ok(report)
}

/// Takes messages as fast as they come.
///
/// # Errors
/// If the name server or a broker can't be reached, or there is no such topic. Being stopped is none.
pub fn consumer(
    options: &ConsumerOptions,
    stop: &AtomicBool,
    mut on_line: impl FnMut(String),
) -> anyhow::Result<ConsumerReport> {
    let topic = Topic::look_up(options.namesrv, &options.topic)?;
    let topic = topic.with_context(|| format!("no broker has the topic {}", options.topic))?;
    let mut report = ConsumerReport { queues: topic.queues(), ..ConsumerReport::default() };
    ensure!(report.queues > 0, "the topic {} has no queue", options.topic);
    let offsets = if options.from_start { topic.starts()? } else { topic.ends()? };
    let mut consumer = Consumer::new(Pulling {
        topic,
        group: options.group.clone(),
        offsets,
        messages_max: PULL_MESSAGES_MAX,
        hold_ms: HOLD_MS,
        bodies: None,
    });
    let mut generator =
        Generator::connect(consumer.settings(), &mut consumer).context("connecting to the brokers")?;
    run(&mut generator, &mut consumer, options.seconds, stop, &mut |record, consumer| {
        let Consumed { messages, lost, .. } = consumer.consumed;
        on_line(taken(&record, &consumer.consumed, report));
        report = ConsumerReport { messages, lost, ..report };
        report.seconds += record.elapsed.as_secs_f64();
        report.failed += record.outcomes.failed;
    })?;
    Ok(report)
}

/// Until the time is over, or it is stopped. A broker that answers nothing any more ends a run of the generator, and is
/// tried again.
fn run<P: Protocol>(
    generator: &mut Generator,
    protocol: &mut P,
    seconds: Option<u64>,
    stop: &AtomicBool,
    on_window: &mut dyn FnMut(Record, &P),
) -> anyhow::Result<()> {
    let time = Duration::from_secs(seconds.unwrap_or(SECONDS_MAX).min(SECONDS_MAX));
    let begun = Instant::now();
    while begun.elapsed() < time {
        let left = Schedule::closed(time.saturating_sub(begun.elapsed()));
        match generator.run_in_windows(left, protocol, stop, WINDOW, on_window) {
            Err(RunError::Stopped) => break,
            result => result?,
        }
    }
    Ok(())
}

/// In the words of RocketMQ's own producer.
fn sent(record: &Record) -> String {
    let (response, outcomes) = (record.response(), record.outcomes);
    let line = format!(
        "Send TPS: {:.0} | Max RT(ms): {:.3} | Average RT(ms): {:.3} | P99 RT(ms): {:.3} | Send Failed: {} | \
         Response Failed: {} | Unknown: {}",
        record.per_s(Outcome::Queued),
        response.max_us as f64 / 1000.0,
        response.mean_us / 1000.0,
        response.at(0.99) as f64 / 1000.0,
        outcomes.failed,
        outcomes.busy,
        outcomes.unknown
    );
    line + &surprise(record)
}

/// In the words of RocketMQ's own consumer; the times are of all messages since the start.
fn taken(record: &Record, consumed: &Consumed, before: ConsumerReport) -> String {
    let (born, stored) = (consumed.born_to_consumed(), consumed.stored_to_consumed());
    let line = format!(
        "Consume TPS: {:.0} | AVG(B2C) RT(ms): {:.3} | AVG(S2C) RT(ms): {:.3} | MAX(B2C) RT(ms): {} | \
         MAX(S2C) RT(ms): {} | Consume Fail: {} | Lost: {}",
        (consumed.messages - before.messages) as f64 / record.elapsed.as_secs_f64().max(1e-9),
        born.mean_us / 1000.0,
        stored.mean_us / 1000.0,
        born.max_us / 1000,
        stored.max_us / 1000,
        record.outcomes.failed,
        consumed.lost - before.lost
    );
    line + &surprise(record)
}

fn surprise(record: &Record) -> String {
    record.first_surprise.as_ref().map(|text| format!(" | first: {text}")).unwrap_or_default()
}

impl std::fmt::Display for ProducerReport {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { queues, seconds, queued, others } = *self;
        let per_s = queued as f64 / seconds.max(1e-9);
        write!(f, "{queued} messages to {queues} queues in {seconds:.1} s, {others} others: {per_s:.0}/s")
    }
}

impl std::fmt::Display for ConsumerReport {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { queues, seconds, messages, .. } = *self;
        let per_s = messages as f64 / seconds.max(1e-9);
        write!(f, "{messages} messages from {queues} queues in {seconds:.1} s: {per_s:.0}/s")
    }
}
