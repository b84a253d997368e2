//! RocketMQ's own benchmark programs with our clocks: a producer and a consumer to point at brokers that run already.
//!
//! `bench producer` and `bench consumer` have flags that are named as in RocketMQ's own. A window's figures go to
//! `on_window` as it ends; nothing is printed here.

use std::net::SocketAddr;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use serde::Serialize;

use crate::drivers::rocketmq::{Bodies, Consumer, Producer, Pulling, Sending, Topic};
use crate::load::record::{Outcomes, Record};
use crate::load::schedule::Schedule;
use crate::load::trial::Distribution;
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

#[derive(Debug, Clone, Serialize)]
pub struct ProducerWindow {
    pub seconds: f64,
    pub outcomes: Outcomes,
    pub response: Distribution,
    pub first_surprise: Option<String>,
}

#[derive(Debug, Clone, Serialize)]
pub struct ProducerReport {
    pub queues: u32,
    pub windows: Vec<ProducerWindow>,
}

/// One window of a consumer; the distributions are of all messages since the start.
#[derive(Debug, Clone, Serialize)]
pub struct ConsumerWindow {
    pub seconds: f64,
    pub messages: u64,
    pub bytes: u64,
    /// Offsets that were passed over.
    pub lost: u64,
    /// Pulls that were refused.
    pub failed: u64,
    pub born_to_consumed: Distribution,
    pub stored_to_consumed: Distribution,
    pub first_surprise: Option<String>,
}

#[derive(Debug, Clone, Serialize)]
pub struct ConsumerReport {
    pub queues: u32,
    pub windows: Vec<ConsumerWindow>,
}

/// Sends as fast as the broker answers.
///
/// # Errors
/// If the name server or a broker can't be reached, or the topic can't be made. Being stopped is none.
pub fn producer(
    options: &ProducerOptions,
    stop: &AtomicBool,
    mut on_window: impl FnMut(&ProducerWindow),
) -> anyhow::Result<ProducerReport> {
    ensure!(options.threads > 0 && options.batch > 0, "a producer needs a thread, and a request a message");
    let request_bytes = options.message_bytes.saturating_mul(usize::try_from(options.batch)?);
    ensure!(
        request_bytes <= REQUEST_BYTES_MAX,
        "a request of {request_bytes} bytes: brokers take {REQUEST_BYTES_MAX}, so send smaller messages or batches"
    );
    check_name(&options.topic)?;
    let topic = match Topic::look_up(options.namesrv, &options.topic)? {
        Some(topic) => topic,
        None => Topic::create(options.namesrv, &options.topic, options.queues.unwrap_or(QUEUES))?,
    };
    let queues = topic.queues();
    ensure!(queues > 0, "no broker lets the topic {} be written", options.topic);
    // A number of its own, so that the messages of two runs can be distinguished.
    let bodies = Bodies::new(token::unix_ms(), options.message_bytes);
    let (keys, batch) = (options.keys, options.batch);
    let sending = Sending { keys, batch, ..Sending::plain(topic, options.threads, bodies) };
    let mut producer = Producer::new(sending.clone());
    let mut generator =
        Generator::connect(sending.settings(), &mut producer).context("connecting to the brokers")?;
    let mut windows = Vec::new();
    run(&mut generator, &mut producer, options.seconds, stop, &mut |record, _| {
        let window = ProducerWindow {
            seconds: record.elapsed.as_secs_f64(),
            outcomes: record.outcomes,
            response: record.response(),
            first_surprise: record.first_surprise,
        };
        on_window(&window);
        windows.push(window);
    })?;
    Ok(ProducerReport { queues, windows })
}

/// Takes messages as fast as they come.
///
/// # Errors
/// If the name server or a broker can't be reached, or there is no such topic. Being stopped is none.
pub fn consumer(
    options: &ConsumerOptions,
    stop: &AtomicBool,
    mut on_window: impl FnMut(&ConsumerWindow),
) -> anyhow::Result<ConsumerReport> {
    check_name(&options.topic)?;
    check_name(&options.group)?;
    let topic = Topic::look_up(options.namesrv, &options.topic)?;
    let topic = topic.with_context(|| format!("no broker has the topic {}", options.topic))?;
    let queues = topic.queues();
    ensure!(queues > 0, "the topic {} has no queue", options.topic);
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
    let mut windows: Vec<ConsumerWindow> = Vec::new();
    let (mut messages, mut bytes, mut lost) = (0, 0, 0);
    run(&mut generator, &mut consumer, options.seconds, stop, &mut |record, consumer| {
        let after = &consumer.consumed;
        let window = ConsumerWindow {
            seconds: record.elapsed.as_secs_f64(),
            messages: after.messages - messages,
            bytes: after.bytes - bytes,
            lost: after.lost - lost,
            failed: record.outcomes.failed,
            born_to_consumed: after.born_to_consumed(),
            stored_to_consumed: after.stored_to_consumed(),
            first_surprise: record.first_surprise,
        };
        (messages, bytes, lost) = (after.messages, after.bytes, after.lost);
        on_window(&window);
        windows.push(window);
    })?;
    Ok(ConsumerReport { queues, windows })
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

/// RocketMQ's own rule; whatever else would have to be escaped on its way there.
fn check_name(name: &str) -> anyhow::Result<()> {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"%|-_".contains(&byte);
    ensure!(
        !name.is_empty() && name.len() <= 127 && name.bytes().all(allowed),
        "{name:?} is no name for RocketMQ: up to 127 letters, digits, and % | - _"
    );
    Ok(())
}

impl ProducerWindow {
    pub fn per_s(&self) -> f64 {
        self.outcomes.queued as f64 / self.seconds.max(1e-9)
    }
}

impl std::fmt::Display for ProducerWindow {
    /// In the words of RocketMQ's own producer.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "Send TPS: {:.0} | Max RT(ms): {:.3} | Average RT(ms): {:.3} | P99 RT(ms): {:.3} | Send Failed: {} | \
             Response Failed: {} | Unknown: {}",
            self.per_s(),
            self.response.max_us as f64 / 1000.0,
            self.response.mean_us / 1000.0,
            self.response.at(0.99) as f64 / 1000.0,
            self.outcomes.failed,
            self.outcomes.busy,
            self.outcomes.unknown
        )?;
        self.first_surprise.as_ref().map_or(Ok(()), |text| write!(f, " | first: {text}"))
    }
}

impl ConsumerWindow {
    pub fn per_s(&self) -> f64 {
        self.messages as f64 / self.seconds.max(1e-9)
    }
}

impl std::fmt::Display for ConsumerWindow {
    /// In the words of RocketMQ's own consumer.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "Consume TPS: {:.0} | AVG(B2C) RT(ms): {:.3} | AVG(S2C) RT(ms): {:.3} | MAX(B2C) RT(ms): {} | \
             MAX(S2C) RT(ms): {} | Consume Fail: {} | Lost: {}",
            self.per_s(),
            self.born_to_consumed.mean_us / 1000.0,
            self.stored_to_consumed.mean_us / 1000.0,
            self.born_to_consumed.max_us / 1000,
            self.stored_to_consumed.max_us / 1000,
            self.failed,
            self.lost
        )?;
        self.first_surprise.as_ref().map_or(Ok(()), |text| write!(f, " | first: {text}"))
    }
}

impl std::fmt::Display for ProducerReport {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let seconds: f64 = self.windows.iter().map(|window| window.seconds).sum();
        let queued: u64 = self.windows.iter().map(|window| window.outcomes.queued).sum();
        let bad: u64 =
            self.windows.iter().map(|window| window.outcomes.total() - window.outcomes.queued).sum();
        write!(f, "{queued} messages to {} queues in {seconds:.1} s, {bad} others", self.queues)?;
        write!(f, ": {:.0}/s", queued as f64 / seconds.max(1e-9))
    }
}

impl std::fmt::Display for ConsumerReport {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let seconds: f64 = self.windows.iter().map(|window| window.seconds).sum();
        let messages: u64 = self.windows.iter().map(|window| window.messages).sum();
        write!(f, "{messages} messages from {} queues in {seconds:.1} s", self.queues)?;
        write!(f, ": {:.0}/s", messages as f64 / seconds.max(1e-9))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_would_need_escaping_are_refused() {
        for (name, allowed) in
            [("bench_1-a", true), ("%RETRY%g", true), ("", false), ("a\"b", false), ("a b", false)]
        {
            assert_eq!(check_name(name).is_ok(), allowed, "{name}");
        }
    }
}
