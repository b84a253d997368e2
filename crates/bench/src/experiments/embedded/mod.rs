//! The embedded profile beside nginx: orders and reads of one server, each next to the same requests against nginx's
//! empty reply (pages: against the same file), and what a million orders cost.
//!
//! Two servers, a demo for the published routes and one with signed tokens and a filled ledger. The ledger is compared
//! with what buyers were answered after every trial, and audited whole at the end.

mod shop;

use std::time::Duration;

use anyhow::{Context, ensure};

use self::shop::{GONE_PRODUCT, GONE_SALE, Shop};
use super::beside::{self, Bounds, CPU_BESIDE_NGINX, Comparison, Probe, THROUGHPUT_BESIDE_NGINX};
use super::cases::Run;
use super::{Engine, Scenario, ScenarioContext};
use crate::drivers::http::once;
use crate::drivers::http::traffic::{BUYER_FIRST, Reference, Traffic};
use crate::goal::Goal;
use crate::host::usage::Watched;
use crate::load::record::Outcome;
use crate::load::schedule::Schedule;
use crate::report::model::ScenarioReport;
use crate::target::TOKEN_SECRET;
use crate::target::nginx::Nginx;

/// The demo's sale page and stock, as published.
const PAGE: &str = "seckill_3_29.html";
const STOCK: &str = "/cache/stock?productId=29";
const GZIP: &str = "Accept-Encoding: gzip";
const WARM_UP: Duration = Duration::from_millis(300);
const NEEDS: &[Engine] = &[Engine::Doorbuster, Engine::Nginx];

pub(super) const SCENARIOS: &[Scenario] = &[
    Scenario {
        name: "order-embedded",
        about: "orders and refusals of one server beside nginx's empty reply; what a million orders cost; audited",
        reference: None,
        needs: NEEDS,
        metrics: ORDER_METRICS,
        run: |context| orders(context, Sizes::of(context)),
    },
    Scenario {
        name: "read-embedded",
        about: "the stock and the sale page of one server beside nginx",
        reference: None,
        needs: NEEDS,
        metrics: beside::METRICS,
        run: |context| reads(context, Sizes::of(context)),
    },
];

/// Those of a comparison, and of the filled ledger.
const ORDER_METRICS: &[&str] = &[
    "throughput",
    "p50",
    "p99",
    "p99.9",
    "CPU per answer",
    "CPU beside nginx",
    "throughput beside nginx",
    "orders",
    "memory per order",
    "written per order",
    "ledger per order",
    "start with these orders",
    "memory after the start",
];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Load {
    Published,
    Own,
    SoldOut,
    Stock,
    Page,
    PageGzip,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Arrival {
    /// Closed loop: as fast as the target answers.
    Peak,
    /// Open loop at half of the peak that the same load just had in the same repeat, times from the planned send.
    HalfPeak,
}

/// One case: what is asked of whom, and what we expect.
#[derive(Debug)]
struct Row {
    name: &'static str,
    load: Load,
    connections: usize,
    arrival: Arrival,
    bounds: Bounds,
}

#[derive(Debug, Clone, Copy)]
pub struct Sizes {
    /// Of each trial.
    pub window: Duration,
    /// Orders in the ledger before the own route is measured.
    pub prefill_orders: u64,
}

const ORDER: Bounds = &[(CPU_BESIDE_NGINX, Goal::AtMost(2.0)), (THROUGHPUT_BESIDE_NGINX, Goal::AtLeast(0.5))];
const OWN_ORDER: Bounds = &[(CPU_BESIDE_NGINX, Goal::AtMost(3.0))];
const HALF_PEAK: Bounds = &[("p99", Goal::AtMost(10_000.0))];
const CHEAP: Bounds = &[(CPU_BESIDE_NGINX, Goal::AtMost(1.3))];

const fn peak(name: &'static str, load: Load, connections: usize, bounds: Bounds) -> Row {
    Row { name, load, connections, arrival: Arrival::Peak, bounds }
}

const fn half_peak(name: &'static str, load: Load) -> Row {
    Row { name, load, connections: 200, arrival: Arrival::HalfPeak, bounds: HALF_PEAK }
}

/// In the order of a repeat. A half-peak needs its peak, at as many connections, before it.
const ORDERS: [Row; 8] = [
    peak("published order", Load::Published, 200, ORDER),
    half_peak("published order, half peak", Load::Published),
    peak("published order", Load::Published, 1000, ORDER),
    peak("own order", Load::Own, 200, OWN_ORDER),
    half_peak("own order, half peak", Load::Own),
    peak("own order", Load::Own, 1000, OWN_ORDER),
    peak("sold-out refusal", Load::SoldOut, 200, CHEAP),
    peak("sold-out refusal", Load::SoldOut, 1000, CHEAP),
];
const READS: [Row; 6] = [
    peak("stock read", Load::Stock, 200, CHEAP),
    peak("stock read", Load::Stock, 1000, CHEAP),
    peak("static page", Load::Page, 200, CHEAP),
    peak("static page", Load::Page, 1000, CHEAP),
    peak("static page, gzip", Load::PageGzip, 200, CHEAP),
    peak("static page, gzip", Load::PageGzip, 1000, CHEAP),
];

impl Load {
    /// The outcome that is counted; everything else is a refusal or an error.
    fn wanted(self) -> Outcome {
        match self {
            Self::Published | Self::Own => Outcome::Won,
            Self::SoldOut => Outcome::SoldOut,
            Self::Stock | Self::Page | Self::PageGzip => Outcome::Served,
        }
    }

    fn traffic(self, page: &Page) -> Traffic {
        let path = format!("/{PAGE}");
        match self {
            Self::Published => Traffic::published(),
            Self::Own => Traffic::own(TOKEN_SECRET, BUYER_FIRST),
            Self::SoldOut => Traffic::sold_out(GONE_SALE, GONE_PRODUCT),
            Self::Stock => Traffic::read(STOCK, &[], None),
            Self::Page => Traffic::read(&path, &[], Some(&page.plain)),
            Self::PageGzip => Traffic::read(&path, &[GZIP], Some(&page.gzipped)),
        }
    }
}

impl Row {
    fn case(&self) -> String {
        format!("{}, {} connections", self.name, self.connections)
    }

    fn is_peak_of(&self, other: &Self) -> bool {
        self.arrival == Arrival::Peak && self.load == other.load && self.connections == other.connections
    }
}

impl Sizes {
    fn of(context: &ScenarioContext) -> Self {
        let (seconds, prefill_orders) = if context.quick() { (1, 100_000) } else { (5, 1_000_000) };
        Self { window: Duration::from_secs(seconds), prefill_orders }
    }
}

/// The sale's page, as nginx serves it too.
struct Page {
    plain: Vec<u8>,
    gzipped: Vec<u8>,
}

pub fn orders(context: &ScenarioContext, sizes: Sizes) -> anyhow::Result<ScenarioReport> {
    run(context, "Orders of the embedded profile beside nginx", &ORDERS, sizes)
}

pub fn reads(context: &ScenarioContext, sizes: Sizes) -> anyhow::Result<ScenarioReport> {
    run(context, "Reads of the embedded profile beside nginx", &READS, sizes)
}

fn run(
    context: &ScenarioContext,
    title: &str,
    table: &[Row],
    sizes: Sizes,
) -> anyhow::Result<ScenarioReport> {
    context.ensure_spawned()?;
    // A half-peak is made of its peak, whichever was asked for.
    let wanted = |row: &&Row| {
        let of_half = |half: &Row| {
            half.arrival == Arrival::HalfPeak && row.is_peak_of(half) && context.wants(&half.case())
        };
        context.wants(&row.case()) || table.iter().any(of_half)
    };
    let mut rows: Vec<(&Row, Comparison)> = table
        .iter()
        .filter(wanted)
        .map(|row| (row, Comparison::new(row.case(), "server", row.load.wanted())))
        .collect();
    let mut run = Run::new(context, title);
    if rows.is_empty() {
        return Ok(run.report);
    }
    let mut bench = Bench::open(context, sizes)?;
    run.report.engines.push(bench.own.target.settings()?);
    if rows.iter().any(|(row, _)| row.load == Load::Own) {
        let (orders, traffic) = (sizes.prefill_orders, &mut bench.own_orders);
        let cost = bench.own.prefill(orders, traffic, context)?;
        run.report.cases.push(cost);
    }
    for repeat in 1..=context.repeats {
        for index in 0..rows.len() {
            let (measured, rest) = rows.split_at_mut(index);
            let (row, comparison) = &mut rest[0];
            let peak = measured.iter().rfind(|(earlier, _)| earlier.is_peak_of(row)).map(|(_, peak)| peak);
            bench.measure(context, repeat, row, peak, comparison)?;
        }
    }
    run.note(bench.close()?);
    Ok(beside::report(run, rows.iter().map(|(row, comparison)| (comparison, row.bounds))))
}

struct Bench {
    nginx: Nginx,
    demo: Shop,
    own: Shop,
    /// Each by a buyer who was not there before.
    own_orders: Traffic,
    page: Page,
    window: Duration,
}

impl Bench {
    fn open(context: &ScenarioContext, sizes: Sizes) -> anyhow::Result<Self> {
        context.progress.doing("starting nginx and two servers");
        let nginx_folder = context.folder.join("nginx");
        std::fs::create_dir(&nginx_folder).context("nginx's folder")?;
        let nginx = Nginx::start(&nginx_folder)?;
        let mut demo = Shop::open(&context.program, &context.folder.join("demo"), true, &context.stop)?;
        let own = Shop::open(&context.program, &context.folder.join("own"), false, &context.stop)?;
        demo.sell_out().context("making a sale that is sold out")?;
        let path = format!("/{PAGE}");
        let plain = demo.target.exchange(&once::encode("GET", &path, &[], &[]), 200)?.body;
        let gzipped = demo.target.exchange(&once::encode("GET", &path, &[GZIP], &[]), 200)?.body;
        ensure!(gzipped.starts_with(&[0x1f, 0x8b]), "the page is not compressed for those who accept gzip");
        nginx.serve_file(PAGE, &plain, Some(&gzipped)).context("nginx's copy of the page")?;
        let page = Page { plain, gzipped };
        let own_orders = Load::Own.traffic(&page);
        Ok(Self { nginx, demo, own, own_orders, page, window: sizes.window })
    }

    fn measure(
        &mut self,
        context: &ScenarioContext,
        repeat: usize,
        row: &Row,
        peak: Option<&Comparison>,
        comparison: &mut Comparison,
    ) -> anyhow::Result<()> {
        let schedule = match row.arrival {
            Arrival::Peak => Schedule::closed(self.window),
            Arrival::HalfPeak => {
                let peak = peak.and_then(Comparison::last_rate).context("the peak comes before its half")?;
                Schedule::constant(peak / 2.0, self.window)
            }
        };
        let shop = if row.load == Load::Own { &mut self.own } else { &mut self.demo };
        let watched = [Watched::new("server", shop.target.pid()), Watched::new("nginx", self.nginx.pid())];
        let around = context.around(&watched, true);
        let probe = Probe {
            address: shop.target.address(),
            connections: row.connections,
            warm_up: WARM_UP.min(self.window),
            schedule,
            wanted: row.load.wanted(),
            repeat,
        };
        let of_nginx = Probe { address: self.nginx.address, wanted: Outcome::Served, ..probe };
        let mut for_nginx = row.load.traffic(&self.page);
        let mut fixed = row.load.traffic(&self.page);
        let traffic = if row.load == Load::Own { &mut self.own_orders } else { &mut fixed };
        comparison.measure(
            context,
            repeat,
            || beside::sample(probe, traffic, around, |outcomes| shop.settle(outcomes)),
            || beside::sample(of_nginx, &mut Reference(&mut for_nginx), around, |_| Ok(())),
        )
    }

    /// Audits both ledgers whole; a note on what was found.
    fn close(mut self) -> anyhow::Result<String> {
        let (demo, own) = (self.demo.close()?, self.own.close()?);
        Ok(format!(
            "Audit: clean. {} orders on the published routes and {} on the own route were accepted: the ledgers, \
             compared after every trial and audited whole at the end, hold every one of them, and none beside but at \
             most the {} whose answers were lost.",
            demo.accepted,
            own.accepted,
            demo.unknown + own.unknown
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_half_peak_follows_its_peak() {
        for table in [&ORDERS[..], &READS] {
            for (index, row) in table.iter().enumerate() {
                let follows = table[..index].iter().any(|earlier| earlier.is_peak_of(row));
                assert!(row.arrival == Arrival::Peak || follows, "{row:?}");
            }
        }
    }
}
