//! The embedded benchmark: `doorbuster bench embedded`.
//!
//! Rounds of scenarios, each measured next to the same requests against nginx, with an audit of the ledger after
//! every run that places orders. A figure is printed only if the audits were clean. It starts what it needs, in a
//! folder that it removes, and ends its children also on an error.

pub(crate) mod measure;
mod report;
mod scenario;
mod shop;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use anyhow::{Context, ensure};

use self::measure::Probe;
use self::scenario::{Arrival, Load, SCENARIOS, Scenario, Side};
use self::shop::{GONE_PRODUCT, GONE_SALE, Shop};
use crate::drivers::http::{RunError, once};
use crate::environment::Environment;
use crate::load::schedule::Schedule;
use crate::nginx::Nginx;
use crate::progress::Progress;
use crate::target::TOKEN_SECRET;
use crate::traffic::{BUYER_FIRST, Reference, Traffic};

pub use self::measure::Sample;
pub use self::report::{Measurement, Report, Row};
pub use self::scenario::Quantity;
pub use self::shop::Footprint;

/// The demo's sale page and stock, as published.
const PAGE: &str = "seckill_3_29.html";
const STOCK: &str = "/cache/stock?productId=29";
const WARM_UP_MAX: Duration = Duration::from_millis(300);
const GZIP: &str = "Accept-Encoding: gzip";

#[derive(Debug, Clone)]
pub struct EmbeddedOptions {
    /// The `doorbuster` program to measure.
    pub program: PathBuf,
    /// Where the temporary folder is made: on the disk whose syncs are to be measured, so on no tmpfs.
    pub folder: PathBuf,
    /// At least 5 for a result; fewer are allowed, and the report says so.
    pub rounds: usize,
    /// Length of each single measurement.
    pub window: Duration,
    /// Orders in the ledger before the own route is measured.
    pub prefill_orders: u64,
    /// Raised by the caller on SIGINT or SIGTERM: the run ends with an error, its children and files are removed.
    pub stop: Arc<AtomicBool>,
}

impl EmbeddedOptions {
    pub fn new(program: PathBuf) -> Self {
        Self {
            program,
            folder: std::env::temp_dir(),
            rounds: 5,
            window: Duration::from_secs(5),
            prefill_orders: 1_000_000,
            stop: Arc::default(),
        }
    }

    /// About a minute: shows that everything works, gives no figures to compare.
    pub fn quick(self) -> Self {
        Self { rounds: 1, window: Duration::from_secs(1), prefill_orders: 100_000, ..self }
    }
}

/// Runs the whole benchmark.
///
/// # Errors
/// If anything can't be started or measured, if the stop flag is raised, or if an audit fails. A missed goal is no
/// error: see [`Report::missed`].
pub fn embedded(options: &EmbeddedOptions) -> anyhow::Result<Report> {
    ensure!(options.rounds > 0 && !options.window.is_zero(), "a benchmark needs a round, and time for it");
    let folder = tempfile::Builder::new()
        .prefix("doorbuster-bench-")
        .tempdir_in(&options.folder)
        .with_context(|| format!("a folder in {}", options.folder.display()))?;
    let environment = Environment::read(folder.path());
    let mut bench = Bench::prepare(options, folder.path())?;
    let footprint = bench.prefill()?;
    for round in 1..=options.rounds {
        for (index, scenario) in SCENARIOS.iter().enumerate() {
            bench.measure(round, index, scenario)?;
        }
    }
    let answered = [bench.demo.close()?, bench.own.close()?];
    bench.progress.done("both ledgers audited: every accepted order is there, and no other");
    let measurements = bench.measurements;
    Ok(Report::new(options, environment, footprint, answered, measurements))
}

/// Everything that runs. Dropped before the folder that it lies in.
struct Bench<'a> {
    options: &'a EmbeddedOptions,
    progress: Progress,
    nginx: Nginx,
    demo: Shop,
    own: Shop,
    traffic: Vec<(Load, Traffic)>,
    measurements: Vec<Measurement>,
}

impl<'a> Bench<'a> {
    fn prepare(options: &'a EmbeddedOptions, folder: &Path) -> anyhow::Result<Self> {
        let progress = Progress::start();
        progress.doing("starting nginx and two servers");
        let nginx_folder = folder.join("nginx");
        std::fs::create_dir(&nginx_folder).context("nginx's folder")?;
        let nginx = Nginx::start(&nginx_folder)?;
        let mut demo = Shop::open(&options.program, &folder.join("demo"), true, &options.stop)?;
        let own = Shop::open(&options.program, &folder.join("own"), false, &options.stop)?;
        demo.sell_out().context("making a sale that is sold out")?;
        let traffic = make_traffic(&demo, &nginx)?;
        progress.done("nginx and two servers run");
        Ok(Self { options, progress, nginx, demo, own, traffic, measurements: Vec::new() })
    }

    fn prefill(&mut self) -> anyhow::Result<Footprint> {
        let traffic = find(&mut self.traffic, Load::Own);
        let options = self.options;
        let footprint = self.own.prefill(options.prefill_orders, traffic, &options.stop, &self.progress)?;
        self.progress.done(&format!("{} orders placed, and found again after a restart", footprint.orders));
        Ok(footprint)
    }

    /// The scenario against the server and against nginx; which of them comes first changes from round to round.
    fn measure(&mut self, round: usize, index: usize, scenario: &'static Scenario) -> anyhow::Result<()> {
        let name = format!(
            "round {round}/{}, {}/{}: {}, {} connections",
            self.options.rounds,
            index + 1,
            SCENARIOS.len(),
            scenario.name,
            scenario.connections
        );
        self.progress.doing(&name);
        let schedule = self.schedule(round, scenario);
        let (server, reference) = if round % 2 == 1 {
            let server = self.sample_server(scenario, schedule).with_context(|| name.clone())?;
            (server, self.sample_reference(scenario, schedule).with_context(|| format!("{name}, nginx"))?)
        } else {
            let reference =
                self.sample_reference(scenario, schedule).with_context(|| format!("{name}, nginx"))?;
            (self.sample_server(scenario, schedule).with_context(|| name.clone())?, reference)
        };
        self.progress.done(&format!(
            "{name}: {:.0}/s at {:.2} us, nginx {:.0}/s at {:.2} us",
            server.answers_per_s, server.cpu_us, reference.answers_per_s, reference.cpu_us
        ));
        self.measurements.push(Measurement { round, scenario: index, server, reference });
        Ok(())
    }

    fn schedule(&self, round: usize, scenario: &Scenario) -> Schedule {
        if scenario.arrival == Arrival::Peak {
            return Schedule::closed(self.options.window);
        }
        let peak = self
            .measurements
            .iter()
            .find(|measurement| {
                let earlier = &SCENARIOS[measurement.scenario];
                measurement.round == round
                    && earlier.load == scenario.load
                    && earlier.connections == scenario.connections
            })
            .expect("the table has each peak before its half");
        Schedule::constant(peak.server.answers_per_s / 2.0, self.options.window)
    }

    fn sample_server(&mut self, scenario: &Scenario, schedule: Schedule) -> anyhow::Result<Sample> {
        let shop = match scenario.load.side() {
            Side::Demo => &mut self.demo,
            Side::Own => &mut self.own,
        };
        let probe = Probe {
            address: shop.target.address(),
            pid: shop.target.pid(),
            connections: scenario.connections,
            warm_up: WARM_UP_MAX.min(self.options.window),
            schedule,
            wanted: scenario.load.wanted(),
        };
        let traffic = find(&mut self.traffic, scenario.load);
        let sample = measure::sample(probe, traffic, &self.options.stop, |record| shop.settle(record));
        if let Err(error) = &sample
            && error.is::<RunError>()
        {
            // What was answered in an interrupted run is not known, so there is nothing to audit.
            return sample;
        }
        // The audit comes first: an invalid measurement may be the lesser news.
        shop.check()?;
        sample
    }

    fn sample_reference(&mut self, scenario: &Scenario, schedule: Schedule) -> anyhow::Result<Sample> {
        let probe = Probe {
            address: self.nginx.address(),
            pid: self.nginx.pid(),
            connections: scenario.connections,
            warm_up: WARM_UP_MAX.min(self.options.window),
            schedule,
            wanted: crate::load::record::Outcome::Served,
        };
        let mut traffic = Reference(find(&mut self.traffic, scenario.load));
        measure::sample(probe, &mut traffic, &self.options.stop, |_| ())
    }
}

fn find(traffic: &mut [(Load, Traffic)], load: Load) -> &mut Traffic {
    let entry = traffic.iter_mut().find(|(of, _)| *of == load);
    &mut entry.expect("every load has its traffic").1
}

/// Fetches the page, for its length and so that nginx serves the same bytes.
fn make_traffic(demo: &Shop, nginx: &Nginx) -> anyhow::Result<Vec<(Load, Traffic)>> {
    let path = format!("/{PAGE}");
    let page = demo.target.exchange(&once::encode("GET", &path, &[], &[]), 200)?.body;
    let gzipped = demo.target.exchange(&once::encode("GET", &path, &[GZIP], &[]), 200)?.body;
    ensure!(gzipped.starts_with(&[0x1f, 0x8b]), "the page is not compressed for those who accept gzip");
    nginx.serve_file(PAGE, &page, Some(&gzipped)).context("nginx's copy of the page")?;
    Ok(Load::ALL
        .map(|load| {
            let traffic = match load {
                Load::Published => Traffic::published(),
                Load::Own => Traffic::own(TOKEN_SECRET, BUYER_FIRST),
                Load::SoldOut => Traffic::sold_out(GONE_SALE, GONE_PRODUCT),
                Load::Stock => Traffic::read(STOCK, &[], None),
                Load::Page => Traffic::read(&path, &[], Some(&page)),
                Load::PageGzip => Traffic::read(&path, &[GZIP], Some(&gzipped)),
            };
            (load, traffic)
        })
        .into())
}
