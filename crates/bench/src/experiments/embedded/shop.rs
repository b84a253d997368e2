//! A server under test together with its ledger and with the answers that its buyers got.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use anyhow::{Context, bail};

use crate::audit::{Answered, Ledger};
use crate::drivers::http::traffic::{self, OWN_PRODUCT, OWN_SALE, OWN_UNITS, Traffic};
use crate::drivers::http::{Driver, Settings};
use crate::host::procfs;
use crate::load::record::{Outcome, Outcomes};
use crate::load::schedule::Schedule;
use crate::progress::Progress;
use crate::report::model::{Better, Case, Metric};
use crate::target::{Setup, Target};

const PREFILL_CONNECTIONS: usize = 200;
/// The pre-fill is sent in this many parts, so that a person sees it move.
const PREFILL_PARTS: u64 = 10;
/// The sale of the demo server that is sold out at once.
pub(super) const GONE_SALE: u64 = 9;
pub(super) const GONE_PRODUCT: u64 = 90;

#[derive(Debug)]
pub(super) struct Shop {
    pub(super) target: Target,
    ledger: Ledger,
    answered: Answered,
}

/// What the orders of the pre-fill cost in memory, on disk and at the next start.
#[derive(Debug)]
pub(super) struct Footprint {
    orders: u64,
    orders_per_s: f64,
    /// Growth of the resident memory, for each order.
    memory_bytes_per_order: f64,
    /// Written to storage while they were placed, for each order: log, checkpoints and all.
    written_bytes_per_order: f64,
    /// Size of the ledger's file after a graceful stop, for each order.
    ledger_bytes_per_order: f64,
    /// From the process's start until it was ready, with these orders in the ledger.
    open_seconds: f64,
    /// Resident memory just after that.
    reopened_memory_bytes: f64,
}

impl Footprint {
    pub(super) fn case(&self) -> Case {
        let name = "what an order costs";
        let figures = [
            ("orders", self.orders as f64, "orders", Better::Neither),
            ("throughput", self.orders_per_s, "1/s", Better::Higher),
            ("memory per order", self.memory_bytes_per_order, "bytes", Better::Lower),
            ("written per order", self.written_bytes_per_order, "bytes", Better::Lower),
            ("ledger per order", self.ledger_bytes_per_order, "bytes", Better::Lower),
            ("start with these orders", self.open_seconds, "s", Better::Lower),
            ("memory after the start", self.reopened_memory_bytes, "bytes", Better::Lower),
        ];
        let metric = |(name, value, unit, better)| Metric::new(name, unit, better, vec![value]);
        let metrics = figures.map(metric).into();
        Case { name: name.to_owned(), series: name.to_owned(), metrics, ..Case::default() }
    }
}

impl Shop {
    pub(super) fn open(
        program: &Path,
        folder: &Path,
        demo: bool,
        stop: &Arc<AtomicBool>,
    ) -> anyhow::Result<Self> {
        std::fs::create_dir(folder).context("the server's folder")?;
        let target = Target::start(program, folder, Setup { demo, settings: "", stop })?;
        let ledger = Ledger::open(&target.data_dir()).context("opening the ledger to audit it")?;
        Ok(Self { target, ledger, answered: Answered::default() })
    }

    /// The ledger must hold what the buyers were answered, no order less and none more.
    pub(super) fn settle(&mut self, outcomes: &Outcomes) -> anyhow::Result<()> {
        self.answered.add(outcomes);
        self.check()
    }

    fn check(&mut self) -> anyhow::Result<()> {
        let orders = self.ledger.orders().context("counting the ledger's orders")?;
        Ok(self.answered.check(orders)?)
    }

    /// Stops the server and audits all of its ledger, by our own count and by the program's audit.
    pub(super) fn close(&mut self) -> anyhow::Result<Answered> {
        self.check()?;
        self.target.stop()?;
        self.answered.check(self.ledger.orders_recounted().context("recounting the ledger's orders")?)?;
        self.target.audit()?;
        Ok(self.answered)
    }

    fn create_sale(&self, sale: u64, product: u64, units: u64, limit: u64) -> anyhow::Result<()> {
        self.target.operate("/api/v1/sales", &traffic::sale(sale, product, units, limit), 201).map(drop)
    }

    /// A sale of one unit, and the order that takes it.
    pub(super) fn sell_out(&mut self) -> anyhow::Result<()> {
        self.create_sale(GONE_SALE, GONE_PRODUCT, 1, 1000)?;
        self.target.exchange(&traffic::published_order(GONE_SALE, GONE_PRODUCT), 200)?;
        self.answered.accepted += 1;
        self.check()
    }

    /// Creates the own sale, places `orders` in it through the API, restarts the server, and says what that cost.
    pub(super) fn prefill(
        &mut self,
        orders: u64,
        traffic: &mut Traffic,
        stop: &AtomicBool,
        progress: &Progress,
    ) -> anyhow::Result<Footprint> {
        self.create_sale(OWN_SALE, OWN_PRODUCT, OWN_UNITS, 1)?;
        let ledger_file = self.target.data_dir().join("ledger.db");
        let pid = self.target.pid();
        let (memory_before, written_before) = (procfs::rss_bytes(pid)?, procfs::write_bytes(pid)?);
        let elapsed = self.place(orders, traffic, stop, progress)?;
        let (memory, written) = (procfs::rss_bytes(pid)?, procfs::write_bytes(pid)?);
        let orders = self.answered.accepted;
        let open = self.target.restart()?;
        let ledger_bytes = std::fs::metadata(&ledger_file).context("the ledger's size")?.len();
        self.ledger =
            Ledger::open(&self.target.data_dir()).context("opening the ledger after the restart")?;
        self.check()?;
        let per_order = |bytes: u64| bytes as f64 / orders as f64;
        Ok(Footprint {
            orders,
            orders_per_s: orders as f64 / elapsed.as_secs_f64(),
            memory_bytes_per_order: per_order(memory.saturating_sub(memory_before)),
            written_bytes_per_order: per_order(written.saturating_sub(written_before)),
            ledger_bytes_per_order: per_order(ledger_bytes),
            open_seconds: open.as_secs_f64(),
            reopened_memory_bytes: procfs::rss_bytes(self.target.pid())? as f64,
        })
    }

    /// Sends until that many are accepted.
    fn place(
        &mut self,
        orders: u64,
        traffic: &mut Traffic,
        stop: &AtomicBool,
        progress: &Progress,
    ) -> anyhow::Result<Duration> {
        let mut driver = Driver::connect(Settings::keep_alive(self.target.address(), PREFILL_CONNECTIONS))?;
        let mut elapsed = Duration::ZERO;
        while self.answered.accepted < orders {
            progress.doing(&format!("pre-filling: {} of {orders} orders", self.answered.accepted));
            let part = orders.div_ceil(PREFILL_PARTS).min(orders - self.answered.accepted);
            let record = driver.run(Schedule::closed_requests(part), traffic, stop)?;
            self.answered.add(&record.outcomes);
            elapsed += record.elapsed;
            if record.outcomes.of(Outcome::Won) * 2 < part {
                let first = record.first_surprise.as_deref().unwrap_or("none");
                bail!("the pre-fill is refused: {:?}; the first other answer was: {first}", record.outcomes);
            }
        }
        self.check()?;
        Ok(elapsed)
    }
}
