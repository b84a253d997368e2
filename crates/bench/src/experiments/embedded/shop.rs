//! A server under test together with its ledger and with the answers that its buyers got.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use anyhow::{Context, bail};

use crate::audit::{Answered, Ledger};
use crate::drivers::http::traffic::{self, OWN_PRODUCT, OWN_SALE, OWN_UNITS, Traffic};
use crate::drivers::http::{Http, Settings};
use crate::experiments::ScenarioContext;
use crate::experiments::cases::Point;
use crate::host::procfs;
use crate::host::usage::Watched;
use crate::load::Generator;
use crate::load::record::{Outcome, Outcomes};
use crate::load::schedule::Schedule;
use crate::measure::watch;
use crate::report::model::{Better, Case, Metric, Sample};
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

impl Shop {
    pub(super) fn open(
        program: &Path,
        folder: &Path,
        demo: bool,
        stop: &Arc<AtomicBool>,
    ) -> anyhow::Result<Self> {
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
        self.answered.check(self.ledger.orders().context("counting the ledger's orders")?)
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

    /// Creates the own sale, places `orders` in it through the API, and restarts the server: what that cost in memory, on
    /// disk and at the start.
    pub(super) fn prefill(
        &mut self,
        orders: u64,
        traffic: &mut Traffic,
        context: &ScenarioContext,
    ) -> anyhow::Result<Case> {
        self.create_sale(OWN_SALE, OWN_PRODUCT, OWN_UNITS, 1)?;
        let ledger_file = self.target.data_dir().join("ledger.db");
        let pid = self.target.pid();
        let (memory_before, written_before) = (procfs::rss_bytes(pid)?, procfs::write_bytes(pid)?);
        let watched = [Watched::new("server", pid)];
        let around = context.around(&watched, true);
        let (elapsed, usage) = watch(around, || self.place(orders, traffic, context))?;
        let (memory, written) = (procfs::rss_bytes(pid)?, procfs::write_bytes(pid)?);
        let orders = self.answered.accepted;
        let open = self.target.restart()?;
        let ledger_bytes = std::fs::metadata(&ledger_file).context("the ledger's size")?.len();
        self.ledger =
            Ledger::open(&self.target.data_dir()).context("opening the ledger after the restart")?;
        self.check()?;
        let per_order = |bytes: u64| bytes as f64 / orders as f64;
        let (grown, written) = (memory.saturating_sub(memory_before), written.saturating_sub(written_before));
        let reopened = procfs::rss_bytes(self.target.pid())?;
        let figures = [
            ("orders", orders as f64, "orders", Better::Neither),
            ("throughput", orders as f64 / elapsed.as_secs_f64(), "1/s", Better::Higher),
            // Of the resident memory.
            ("memory per order", per_order(grown), "bytes", Better::Lower),
            // To storage while they were placed: log, checkpoints and all.
            ("written per order", per_order(written), "bytes", Better::Lower),
            // The ledger's file after a graceful stop.
            ("ledger per order", per_order(ledger_bytes), "bytes", Better::Lower),
            // Until the process was ready.
            ("start with these orders", open.as_secs_f64(), "s", Better::Lower),
            ("memory after the start", reopened as f64, "bytes", Better::Lower),
        ];
        let own = figures.map(|(name, value, unit, better)| Metric::new(name, unit, better, vec![value]));
        let name = "what an order costs";
        let sample = Sample { seconds: elapsed.as_secs_f64(), requests: orders, usage };
        Ok(Point::bar(name, name).case((own.to_vec(), sample).into(), &[]))
    }

    fn place(
        &mut self,
        orders: u64,
        traffic: &mut Traffic,
        context: &ScenarioContext,
    ) -> anyhow::Result<Duration> {
        let settings = Settings::keep_alive(self.target.address(), PREFILL_CONNECTIONS);
        let mut http = Http { workload: traffic };
        let mut generator = Generator::connect(settings, &mut http)?;
        let mut elapsed = Duration::ZERO;
        while self.answered.accepted < orders {
            context.progress.doing(&format!("pre-filling: {} of {orders} orders", self.answered.accepted));
            let part = orders.div_ceil(PREFILL_PARTS).min(orders - self.answered.accepted);
            let record = generator.run(Schedule::closed_requests(part), &mut http, &context.stop)?;
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
