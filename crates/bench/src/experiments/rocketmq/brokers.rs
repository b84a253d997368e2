//! The brokers under test: a set of our own with its store kept in bounds, or one that runs already.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context, ensure};

use crate::drivers::rocketmq::{Bodies, Producer, Sending, Topic};
use crate::experiments::cases::Run;
use crate::experiments::warm_up::until_no_faster;
use crate::experiments::{ScenarioContext, Target};
use crate::host::usage::Watched;
use crate::load::Generator;
use crate::load::record::{Outcome, Record};
use crate::load::schedule::Schedule;
use crate::measure::Surroundings;
use crate::report::model::EngineSettings;
use crate::target::address::is_local;
use crate::target::engines::rocketmq::Broker;
use crate::target::engines::{EngineSet, Flushes, expect};

/// A broker of our own whose data are larger than this is replaced by an empty one before the next measurement: at
/// 30,000 messages of 3 KB a second, a store fills a disk within the hour.
const STORE_BYTES_RENEW: u64 = 8 << 30;
/// No single measurement may bring it above this.
const STORE_BYTES_MAX: u64 = 24 << 30;
const WARM_UP_CONNECTIONS: usize = 64;
const WARM_UP_BYTES: usize = 1024;
/// The longest warm-up in least ones.
const WARM_UP_TIMES_MAX: u32 = 3;
/// Settings that the figures depend on, as the broker calls them.
const SETTINGS: [&str; 9] = [
    "brokerRole",
    "flushDiskType",
    "flushIntervalCommitLog",
    "mappedFileSizeCommitLog",
    "messageIndexEnable",
    "osPageCacheBusyTimeOutMills",
    "sendMessageThreadPoolNums",
    "transientStorePoolEnable",
    "waitTimeMillsInSendQueue",
];

pub(super) struct Brokers {
    /// `None`: they are somebody else's.
    set: Option<EngineSet>,
    pub(super) name_server: SocketAddr,
    /// How often the store was thrown away.
    renewed: usize,
    topics: Vec<Topic>,
}

impl Brokers {
    pub(super) fn open(context: &ScenarioContext) -> anyhow::Result<Self> {
        let (set, name_server) = match &context.target {
            Target::Spawn => {
                context.progress.doing("starting RocketMQ");
                let set = EngineSet::start_some(
                    context.engine_site(0),
                    Flushes::QUICK,
                    &["rocketmq"],
                    &[],
                    &context.stop,
                )?;
                let name_server = set.address("rocketmq-namesrv")?;
                (Some(set), name_server)
            }
            Target::Running(addresses) => (
                None,
                addresses
                    .rocketmq_namesrv
                    .context("no name server of RocketMQ is given: --target-rocketmq ADDRESS")?,
            ),
        };
        let brokers = Self { set, name_server, renewed: 0, topics: Vec::new() };
        brokers.check()?;
        Ok(brokers)
    }

    fn is_own(&self) -> bool {
        self.set.is_some()
    }

    /// With so many queues on each broker. It may hold messages of an earlier run.
    pub(super) fn topic(&mut self, name: &str, queues: u32) -> anyhow::Result<Topic> {
        let topic = Topic::create(self.name_server, name, queues)?;
        self.topics.retain(|of| of.name != name);
        self.topics.push(topic.clone());
        Ok(topic)
    }

    /// Whether the store was thrown away to make room; then all topics are gone, and the broker is cold.
    pub(super) fn make_room(&mut self, context: &ScenarioContext) -> anyhow::Result<bool> {
        let Some(set) = &mut self.set else { return Ok(false) };
        let bytes = set.disk_bytes()?;
        if bytes < STORE_BYTES_RENEW {
            return Ok(false);
        }
        context
            .progress
            .doing(&format!("the broker's store has {} MiB: an empty one takes its place", bytes >> 20));
        set.down(&["rocketmq-broker"])?;
        set.up(&["rocketmq-broker"], &[], &context.stop)?;
        self.renewed += 1;
        self.topics.clear();
        self.check()?;
        Ok(true)
    }

    pub(super) fn check_room(&self) -> anyhow::Result<()> {
        self.set.as_ref().map_or(Ok(()), |set| set.check_room(STORE_BYTES_MAX))
    }

    /// Sends until the broker gets no faster, for at least this long. What is sent counts for nothing.
    pub(super) fn warm_up(&mut self, context: &ScenarioContext, least: Duration) -> anyhow::Result<()> {
        context.progress.doing("warming the broker up");
        let topic = self.topic("doorbuster_bench_warm_up", 8)?;
        let bodies = Bodies::new(context.seed, WARM_UP_BYTES);
        let sending = Sending::plain(topic, WARM_UP_CONNECTIONS, bodies);
        let mut producer = Producer::new(sending.clone());
        let mut generator = Generator::connect(sending.settings(), &mut producer)?;
        let warm = until_no_faster(least, least * WARM_UP_TIMES_MAX, |window| {
            let record: Record = generator.run(Schedule::closed(window), &mut producer, &context.stop)?;
            ensure!(
                record.outcomes.queued > 0,
                "the broker takes no message: {}",
                record.first_surprise.unwrap_or_default()
            );
            Ok(record.per_s(Outcome::Queued))
        })?;
        context.progress.done(&format!("warm after {:.0} s: {:.0}/s", warm.after.as_secs_f64(), warm.per_s));
        Ok(())
    }

    pub(super) fn watched(&self) -> Vec<Watched> {
        self.set.as_ref().map(EngineSet::all_watched).unwrap_or_default()
    }

    pub(super) fn surroundings<'a>(
        &'a self,
        context: &'a ScenarioContext,
        watched: &'a [Watched],
    ) -> Surroundings<'a> {
        context.around(watched, is_local(self.name_server))
    }

    /// The class path of a broker of our own, by its command line: RocketMQ's own programs are in it.
    pub(super) fn jars(&self) -> Option<String> {
        let broker = self.set.as_ref()?.watched("rocketmq-broker").ok()?;
        let line = std::fs::read(format!("/proc/{}/cmdline", broker.pid)).ok()?;
        let line = String::from_utf8(line).ok()?;
        let mut arguments = line.split('\0');
        arguments.find(|argument| *argument == "-cp")?;
        arguments.next().map(str::to_owned)
    }

    /// As the brokers say themselves.
    pub(super) fn settings(&self) -> anyhow::Result<Vec<EngineSettings>> {
        let all = self.topics.first().context("a topic names the brokers")?;
        all.brokers
            .iter()
            .map(|of| {
                let mut broker = Broker::connect(of.address)?;
                let all = broker.settings()?;
                let found = |name: &str| Some((name.to_owned(), all.get(name)?.clone()));
                Ok(EngineSettings {
                    engine: format!("RocketMQ ({})", of.name),
                    version: broker.version()?,
                    settings: SETTINGS.iter().filter_map(|name| found(name)).collect(),
                })
            })
            .collect()
    }

    pub(super) fn describe(&self, run: &mut Run<'_>) {
        run.note("a thread of RocketMQ's producer is here a connection with one message under way");
        run.note("times are from the planned send; the published ones from the call, in whole milliseconds");
        if self.is_own() {
            run.scaled_down(
                "one broker with a heap of 512 MB, flushing asynchronously, without a slave: the published ones were 4 \
                 masters and 4 slaves on hosts of 48 cores and 256 GB",
            );
            run.scaled_down("the generator shares the machine with the broker");
        } else {
            run.note(
                "the brokers are not ours: their settings are as found, and their store is not kept in bounds; the \
                 topics made for this were removed",
            );
        }
    }

    /// What was made at somebody else's brokers is removed; our own go as a whole.
    pub(super) fn close(&mut self, run: &mut Run<'_>) -> anyhow::Result<()> {
        if self.renewed > 0 {
            run.note(format!(
                "the broker was replaced by an empty one {} times, so that its store did not fill the disk",
                self.renewed
            ));
        }
        let topics = std::mem::take(&mut self.topics);
        if self.is_own() {
            return Ok(());
        }
        topics.into_iter().try_for_each(|topic| topic.delete(self.name_server))
    }

    fn check(&self) -> anyhow::Result<()> {
        let Some(set) = &self.set else { return Ok(()) };
        let settings = set.broker()?.settings()?;
        for (name, wanted) in [("flushDiskType", "ASYNC_FLUSH"), ("brokerRole", "ASYNC_MASTER")] {
            expect("the broker", name, settings.get(name).map_or("", String::as_str), wanted)?;
        }
        Ok(())
    }
}
