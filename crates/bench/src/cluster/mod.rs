//! The benchmark of the cluster profile: `doorbuster bench cluster`.
//!
//! Real engines in sets of their own, one for each way in which the broker flushes; both run through all rounds, so that
//! a Java program is as warm as it gets, and only one is under load. Parts: orders end to end, the gate alone, the
//! published submit-order experiment, and the edge. An audit follows everything that places orders, and a figure is
//! printed only if all of them were clean. It ends what it started, also on an error.

mod buyers;
mod edge;
mod gate;
pub(crate) mod limit;
mod orders;
mod report;
mod scenario;
pub(crate) mod shop;
mod submit;
mod summary;
mod watch;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use anyhow::{Context, ensure};

use self::scenario::{Arrival, SCENARIOS, Scenario};
use self::shop::Shop;
use self::submit::SubmitShop;
use crate::engines::{BrokerFlush, EngineSet, EngineSite, PORTS_PER_SET, find_scripts};
use crate::environment::{self, Environment};
use crate::progress::Progress;
use crate::usage::Watched;

pub use self::report::{ClusterReport, Measurements, Named};

const GATE: &str = "gate alone";
const SUBMIT: &str = "submit order, embedded on MariaDB";
/// A set of engines that has written more than this in one run has a fault, or the run is too long for this machine.
const DISK_BYTES_MAX: u64 = 12 << 30;

/// What is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    Orders,
    Gate,
    Submit,
    Edge,
}

impl Part {
    pub const ALL: [Self; 4] = [Self::Orders, Self::Gate, Self::Submit, Self::Edge];
}

#[derive(Debug, Clone)]
pub struct ClusterOptions {
    /// The `doorbuster` program to measure.
    pub program: PathBuf,
    /// The folder of the scripts `up` and `down`.
    pub scripts: PathBuf,
    /// Where the temporary folder is made: on the disk whose syncs are to be measured, so on no tmpfs.
    pub folder: PathBuf,
    /// The engines take 200 ports from here.
    pub port_base: u16,
    pub parts: Vec<Part>,
    /// At least 5 for a result; fewer are allowed, and the report says so.
    pub rounds: usize,
    /// Length of each single measurement.
    pub window: Duration,
    /// Before each measurement: a Java program that was idle is slow at first.
    pub warm_up: Duration,
    /// Of the run that sells out; the published plan sends 400,000.
    pub submit_requests: u64,
    /// Raised by the caller on SIGINT or SIGTERM: the run ends with an error, its engines and files are removed.
    pub stop: Arc<AtomicBool>,
}

impl ClusterOptions {
    pub fn new(program: PathBuf) -> Self {
        Self {
            program,
            scripts: PathBuf::from("dev"),
            folder: std::env::temp_dir(),
            port_base: 27000,
            parts: Part::ALL.to_vec(),
            rounds: 5,
            window: Duration::from_secs(10),
            warm_up: Duration::from_secs(3),
            submit_requests: 400_000,
            stop: Arc::default(),
        }
    }

    /// Some two minutes: shows that everything works, gives no figures to compare.
    pub fn quick(self) -> Self {
        let second = Duration::from_secs(1);
        Self { rounds: 1, window: 2 * second, warm_up: second, submit_requests: 60_000, ..self }
    }

    fn wants(&self, part: Part) -> bool {
        self.parts.contains(&part)
    }
}

/// Runs the whole benchmark.
///
/// # Errors
/// If anything can't be started or measured, if the stop flag is raised, or if an audit fails. A missed goal is no
/// error: see [`ClusterReport::missed`].
pub fn cluster(options: &ClusterOptions) -> anyhow::Result<ClusterReport> {
    ensure!(options.rounds > 0 && !options.window.is_zero(), "a benchmark needs a round, and time for it");
    ensure!(!options.parts.is_empty(), "a benchmark needs a part to measure");
    let folder = tempfile::Builder::new()
        .prefix("doorbuster-bench-")
        .tempdir_in(&options.folder)
        .with_context(|| format!("a folder in {}", options.folder.display()))?;
    let environment = Environment::read(folder.path());
    let mut bench = Bench::prepare(options, folder.path())?;
    for round in 1..=options.rounds {
        bench.round(round)?;
    }
    let engines = bench.stacks[0].set.versions()?;
    let mut answered = Vec::new();
    if let Some(submit) = bench.submit.take() {
        answered.push(submit.close()?);
    }
    for stack in &mut bench.stacks {
        if let Some(shop) = stack.shop.take() {
            answered.push(shop.close()?);
        }
    }
    bench.progress.done("all ledgers audited: every accepted order is there, and no other");
    let (rows, costs) = summary::summarize(&bench.measurements);
    let (rounds, seconds) = (options.rounds, options.window.as_secs_f64());
    let measurements = std::mem::take(&mut bench.measurements);
    Ok(ClusterReport { environment, engines, rounds, seconds, rows, costs, answered, measurements })
}

/// Everything that runs. Dropped before the folder that it lies in; servers before the engines under them.
struct Bench<'a> {
    options: &'a ClusterOptions,
    folder: &'a Path,
    progress: Progress,
    disk: Option<String>,
    submit: Option<SubmitShop>,
    stacks: Vec<Stack>,
    measurements: Measurements,
}

/// Engines, and the servers on them if this part was wanted.
struct Stack {
    shop: Option<Shop>,
    set: EngineSet,
}

impl<'a> Bench<'a> {
    fn prepare(options: &'a ClusterOptions, folder: &'a Path) -> anyhow::Result<Self> {
        let progress = Progress::start();
        let scripts = find_scripts(&options.scripts)?;
        let disk = environment::disk(folder);
        let measurements = Measurements::default();
        let mut bench =
            Self { options, folder, progress, disk, submit: None, stacks: Vec::new(), measurements };
        let flushes: &[BrokerFlush] = if options.wants(Part::Orders) {
            &[BrokerFlush::Asynchronous, BrokerFlush::Synchronous]
        } else {
            &[BrokerFlush::Asynchronous]
        };
        for (index, flush) in (0_u16..).zip(flushes) {
            bench.progress.doing("starting Redis, MariaDB and RocketMQ");
            let site = EngineSite {
                scripts: scripts.clone(),
                folder: folder.join(format!("engines-{index}")),
                port_base: options.port_base + index * PORTS_PER_SET,
            };
            let set = EngineSet::start(site, *flush, &options.stop)?;
            bench.stacks.push(Stack { shop: None, set });
            bench.progress.done(&format!("Redis, MariaDB and RocketMQ run ({flush:?} flush)"));
        }
        bench.open_shops()?;
        Ok(bench)
    }

    fn open_shops(&mut self) -> anyhow::Result<()> {
        let options = self.options;
        let servers = options.wants(Part::Orders) || options.wants(Part::Edge);
        if options.wants(Part::Submit) {
            let folder = self.folder.join("submit");
            let mut submit = SubmitShop::open(&options.program, &folder, &self.stacks[0].set, &options.stop)?;
            self.progress.doing("selling 1000 goods of 10 units");
            let sold_out = submit.sell_out(options.submit_requests, &options.stop)?;
            self.progress.done(&format!("sold out: exactly {} orders", sold_out.orders));
            self.measurements.sold_out = Some(sold_out);
            self.submit = Some(submit);
        }
        for (index, stack) in self.stacks.iter_mut().enumerate().filter(|_| servers) {
            let folder = self.folder.join(format!("servers-{index}"));
            stack.shop = Some(Shop::open(&options.program, &folder, &stack.set, &options.stop)?);
        }
        Ok(())
    }

    fn round(&mut self, round: usize) -> anyhow::Result<()> {
        for part in Part::ALL {
            if self.options.wants(part) {
                match part {
                    Part::Orders => self.orders(round)?,
                    Part::Gate => self.gate(round)?,
                    Part::Submit => self.submit(round)?,
                    Part::Edge => self.edge(round)?,
                }
                self.check_disk()?;
            }
        }
        Ok(())
    }

    fn orders(&mut self, round: usize) -> anyhow::Result<()> {
        let mut peak = None;
        for scenario in SCENARIOS {
            let name = scenario.name();
            self.doing(round, &name);
            let sample = self.sample_orders(scenario, peak).with_context(|| name.clone())?;
            if scenario.arrival == Arrival::Peak {
                peak = Some(sample.persisted_per_s);
            }
            self.done(
                round,
                &format!(
                    "{name}: {:.0}/s accepted, {:.0}/s persisted, {} not accepted, empty after {:.2} s",
                    sample.accepted_per_s, sample.persisted_per_s, sample.not_accepted, sample.drain_seconds
                ),
            );
            if let Some(surprise) = &sample.warm_up_surprise {
                self.done(
                    round,
                    &format!("{name}: while warming up, {:?}, first {surprise}", sample.warm_up),
                );
            }
            self.measurements.orders.push(Named { round, name, sample });
        }
        Ok(())
    }

    /// What runs and has nothing to do, as one: it is no work of others.
    fn beside(&self) -> Vec<Watched> {
        let mut all: Vec<Watched> = self.submit.iter().map(SubmitShop::watched).collect();
        for stack in &self.stacks {
            all.extend(stack.shop.iter().flat_map(Shop::watched));
            all.extend(stack.set.all_watched());
        }
        all.into_iter().map(|of| Watched::new("idle beside it", of.pid)).collect()
    }

    /// Servers that are not measured would keep their broker busy by asking it.
    fn serve_only(&mut self, flush: BrokerFlush, servers: usize) -> anyhow::Result<()> {
        for stack in &mut self.stacks {
            let servers = if stack.set.flush() == flush { servers } else { 0 };
            if let Some(shop) = &mut stack.shop {
                shop.serve_by(servers)?;
            }
        }
        Ok(())
    }

    fn sample_orders(
        &mut self,
        scenario: Scenario,
        peak: Option<f64>,
    ) -> anyhow::Result<orders::OrdersSample> {
        let options = self.options;
        self.serve_only(scenario.flush, scenario.servers)?;
        let beside = self.beside();
        let stack = self
            .stacks
            .iter_mut()
            .find(|stack| stack.set.flush() == scenario.flush)
            .context("a set of engines for each way to flush")?;
        let shop = stack.shop.as_mut().context("servers on these engines")?;
        let mut context = orders::OrdersContext {
            set: &stack.set,
            shop,
            beside: &beside,
            disk: self.disk.as_deref(),
            window: options.window,
            warm_up: options.warm_up,
            stop: &options.stop,
        };
        orders::sample(&mut context, scenario, peak)
    }

    fn gate(&mut self, round: usize) -> anyhow::Result<()> {
        self.doing(round, GATE);
        let options = self.options;
        let beside = self.beside();
        let context = gate::GateContext {
            program: &options.program,
            folder: self.folder,
            set: &self.stacks[0].set,
            beside: &beside,
            window: options.window,
            disk: self.disk.as_deref(),
            stop: &options.stop,
        };
        let sample = gate::sample(&context).context(GATE)?;
        self.done(
            round,
            &format!(
                "{GATE}: {:.0} reserves/s, redis-benchmark {:.0}/s",
                sample.client_per_s, sample.redis_benchmark_per_s
            ),
        );
        self.measurements.gate.push(Named { round, name: GATE.to_owned(), sample });
        Ok(())
    }

    fn submit(&mut self, round: usize) -> anyhow::Result<()> {
        self.doing(round, SUBMIT);
        let options = self.options;
        let beside = self.beside();
        let submit = self.submit.as_mut().context("a shop on MariaDB")?;
        let sample = submit
            .sample(options.window, options.warm_up, (self.disk.as_deref(), &beside), &options.stop)
            .context(SUBMIT)?;
        self.done(round, &format!("{SUBMIT}: {:.0} rows/s", sample.rows_per_s));
        self.measurements.submit.push(Named { round, name: SUBMIT.to_owned(), sample });
        Ok(())
    }

    fn edge(&mut self, round: usize) -> anyhow::Result<()> {
        self.doing(round, "edge");
        let options = self.options;
        self.serve_only(BrokerFlush::Asynchronous, 1)?;
        let beside = self.beside();
        let stack = self.stacks.first_mut().context("a set of engines")?;
        let mut context = edge::EdgeContext {
            set: &mut stack.set,
            shop: stack.shop.as_mut().context("servers on these engines")?,
            beside: &beside,
            disk: self.disk.as_deref(),
            window: options.window,
            warm_up: options.warm_up,
            stop: &options.stop,
        };
        for sample in edge::sample(&mut context, self.folder, round)? {
            let name = sample.page.name(sample.cache_ms);
            let rates = (sample.edge.answers_per_s, sample.file.answers_per_s);
            self.done(round, &format!("{name}: {:.0}/s, a file {:.0}/s", rates.0, rates.1));
            self.measurements.edge.push(Named { round, name, sample });
        }
        Ok(())
    }

    /// The broker's store and the binary logs grow with each order.
    fn check_disk(&self) -> anyhow::Result<()> {
        for stack in &self.stacks {
            let bytes = stack.set.disk_bytes()?;
            ensure!(
                bytes <= DISK_BYTES_MAX,
                "the engines have written {} MiB, more than this benchmark allows them: fewer --rounds, or fewer \
                 --seconds",
                bytes >> 20
            );
        }
        Ok(())
    }

    fn doing(&self, round: usize, what: &str) {
        self.progress.doing(&format!("round {round}/{}: {what}", self.options.rounds));
    }

    fn done(&self, round: usize, what: &str) {
        self.progress.done(&format!("round {round}/{}: {what}", self.options.rounds));
    }
}
