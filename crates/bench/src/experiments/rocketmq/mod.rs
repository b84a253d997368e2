//! The queue: the 36 published scenarios of RocketMQ's producer, the published tier `message broker`, and a consumer.
//!
//! Each ends with the broker's own count: what it acknowledged must be there, and nothing that nobody sent.

mod brokers;
mod delivery;
mod own;
mod producer;

use std::time::Duration;

use self::brokers::Brokers;
use super::cases::Run;
use super::{Engine, Scenario, ScenarioContext};
use crate::drivers::rocketmq::{Producer, Sending};
use crate::load::record::Outcomes;
use crate::load::schedule::Schedule;
use crate::load::{Generator, Trial};
use crate::measure::trial;
use crate::report::model::{ScenarioReport, Shape};

/// What RocketMQ's own producer prints of each window.
const METRICS: &[&str] = &["throughput", "mean response", "p99 response", "max response", "failed"];

pub(super) const SCENARIOS: &[Scenario] = &[
    Scenario {
        name: "rocketmq-producer",
        about: "RocketMQ's producer in 36 scenarios: 1 to 200 threads, bodies of 1 and 3 KB, 8 and 16 queues",
        reference: Some("rocketmq-producer.csv"),
        needs: &[Engine::RocketMq],
        metrics: METRICS,
        run: producer::run,
    },
    Scenario {
        name: "message-broker",
        about: "RocketMQ's producer with 64 threads and 128 bytes; every acknowledged message is counted at the broker",
        reference: Some("seckill-tiers.csv"),
        needs: &[Engine::RocketMq],
        metrics: METRICS,
        run: delivery::message_broker,
    },
    Scenario {
        name: "rocketmq-consumer",
        about: "RocketMQ's consumer: a backlog and a live stream, with loss and duplicates counted",
        reference: None,
        needs: &[Engine::RocketMq],
        metrics: &[
            "throughput",
            "mean response",
            "p99 response",
            "max response",
            "failed",
            "p50 producer to consumer",
            "p99 producer to consumer",
            "max producer to consumer",
            "p99 broker to consumer",
        ],
        run: delivery::consumer,
    },
];

/// A scenario on brokers, which are left as they were found.
fn on_brokers(
    context: &ScenarioContext,
    title: &str,
    measure: impl FnOnce(&mut Run<'_>, &mut Brokers) -> anyhow::Result<Vec<Shape>>,
) -> anyhow::Result<ScenarioReport> {
    let mut run = Run::new(context, title);
    let mut brokers = Brokers::open(context)?;
    brokers.describe(&mut run);
    let measured = measure(&mut run, &mut brokers);
    let engines = brokers.settings();
    let closed = brokers.close(&mut run);
    let shapes = measured?;
    closed?;
    run.ensure_some()?;
    run.report.engines = engines?;
    Ok(run.finish(|_| shapes))
}

/// The acknowledgements that producers of one topic got, against what the topic holds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Produced {
    /// Messages in the topic when the count began.
    before: u64,
    acknowledged: u64,
    unknown: u64,
}

impl Produced {
    fn add(&mut self, outcomes: &Outcomes) {
        self.acknowledged += outcomes.queued;
        self.unknown += outcomes.unknown;
    }

    fn check(self, messages: u64) -> anyhow::Result<()> {
        let least = self.before + self.acknowledged;
        let most = least + self.unknown;
        anyhow::ensure!(
            (least..=most).contains(&messages),
            "AUDIT FAILED: the topic holds {messages} messages; {} were there, {} were acknowledged and {} have an \
             unknown outcome, so it must hold {least} to {most}",
            self.before,
            self.acknowledged,
            self.unknown
        );
        Ok(())
    }
}

/// The repeats of one producer on the same connections; all that was acknowledged must be in its topic.
fn produce(
    context: &ScenarioContext,
    brokers: &Brokers,
    sending: Sending,
    settle: Duration,
    window: Duration,
    produced: &mut Produced,
) -> anyhow::Result<Vec<Trial>> {
    let topic = sending.topic.clone();
    let settings = sending.settings();
    let mut producer = Producer::new(sending);
    let mut generator = Generator::connect(settings, &mut producer)?;
    if !settle.is_zero() {
        let settling = generator.run(Schedule::closed(settle), &mut producer, &context.stop)?;
        produced.add(&settling.outcomes);
    }
    let watched = brokers.watched();
    let mut trials = Vec::new();
    for repeat in 1..=context.repeats {
        let around = brokers.surroundings(context, &watched);
        let trial = trial(&mut generator, Schedule::closed(window), &mut producer, repeat, around)?;
        produced.add(&trial.outcomes);
        trials.push(trial);
    }
    produced.check(topic.messages()?)?;
    Ok(trials)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds() {
        let produced = Produced { before: 5, acknowledged: 10, unknown: 2 };
        for (messages, clean) in [(14, false), (15, true), (17, true), (18, false)] {
            assert_eq!(produced.check(messages).is_ok(), clean, "{messages}");
        }
    }
}
