//! Servers of the cluster profile on one set of engines, with the ledger that they share and the answers that their
//! buyers got.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};

use crate::audit::Answered;
use crate::audit::gates::Gates;
use crate::audit::invariants::{self, STILL};
use crate::drivers::http::once;
use crate::drivers::http::traffic::{self, BUYER_FIRST, Traffic};
use crate::host::usage::Watched;
use crate::target::engines::mariadb::Database;
use crate::target::engines::{EngineSet, EngineSettings};
use crate::target::{OPERATOR_TOKEN, Setup, TOKEN_SECRET, Target};

/// Made by every installation, so that one of them can't hurt another's.
pub(crate) const DATABASE: &str = "bench_cluster";
pub(crate) const TOPIC: &str = "bench";
pub(crate) const PREFIX: &str = "bench";
/// The driver's buyers are numbered from 1,000,000,000; those who wait for their orders from here.
const WAITING_BUYER_FIRST: u64 = 5_000_000_000;
/// Numbers that one waiting buyer may use in one measurement.
const WAITING_BUYER_NUMBERS: u64 = 100_000;
const DRAIN_POLL: Duration = Duration::from_millis(5);

pub(crate) struct Shop {
    program: PathBuf,
    folder: PathBuf,
    demo: bool,
    settings: String,
    servers: Vec<Target>,
    database: Database,
    pub(crate) answered: Answered,
    pub(crate) traffic: Traffic,
    waiting_buyer: u64,
    stop: Arc<AtomicBool>,
}

impl Shop {
    /// One server on the engines.
    pub(crate) fn open(
        program: &Path,
        folder: &Path,
        set: &EngineSet,
        Setup { demo, settings, stop }: Setup<'_>,
    ) -> anyhow::Result<Self> {
        set.database(None)?.recreate(DATABASE)?;
        let mut shop = Self {
            program: program.to_owned(),
            folder: folder.to_owned(),
            demo,
            settings: set.cluster_settings(PREFIX, TOPIC, DATABASE)? + settings,
            servers: Vec::new(),
            database: set.database(Some(DATABASE))?,
            answered: Answered::default(),
            traffic: Traffic::own(TOKEN_SECRET, BUYER_FIRST),
            waiting_buyer: WAITING_BUYER_FIRST,
            stop: Arc::clone(stop),
        };
        shop.serve_by(1)?;
        Ok(shop)
    }

    /// The same with a sale that never runs short.
    pub(crate) fn selling(
        program: &Path,
        folder: &Path,
        set: &EngineSet,
        stop: &Arc<AtomicBool>,
    ) -> anyhow::Result<Self> {
        let mut shop = Self::open(program, folder, set, Setup { demo: false, settings: "", stop })?;
        shop.first_server().operate("/api/v1/sales", &traffic::own_sale(), 201)?;
        shop.gates()?;
        Ok(shop)
    }

    /// Starts or stops servers until there are so many.
    pub(crate) fn serve_by(&mut self, servers: usize) -> anyhow::Result<()> {
        while self.servers.len() > servers {
            let mut last = self.servers.pop().expect("there is more than none");
            last.stop().context("stopping a server")?;
        }
        while self.servers.len() < servers {
            let folder = self.folder.join(format!("server-{}", self.servers.len() + 1));
            let setup = Setup { demo: self.demo, settings: &self.settings, stop: &self.stop };
            self.servers.push(Target::start(&self.program, &folder, setup)?);
        }
        Ok(())
    }

    /// The one that orders are placed at when a server is to be killed.
    pub(crate) fn first_server(&mut self) -> &mut Target {
        &mut self.servers[0]
    }

    /// As the first server says them: all have the same.
    pub(crate) fn settings(&self) -> anyhow::Result<EngineSettings> {
        self.servers[0].settings()
    }

    pub(crate) fn addresses(&self) -> Vec<SocketAddr> {
        self.servers.iter().map(Target::address).collect()
    }

    pub(crate) fn watched(&self) -> Vec<Watched> {
        let name = |index| format!("server {}", index + 1);
        self.servers.iter().enumerate().map(|(index, of)| Watched::new(&name(index), of.pid())).collect()
    }

    /// The first number of a buyer who waits for orders, not used before.
    pub(crate) fn waiting_buyer(&mut self) -> u64 {
        self.waiting_buyer += WAITING_BUYER_NUMBERS;
        self.waiting_buyer
    }

    /// The request for a server's metrics.
    pub(crate) fn metrics_request() -> Vec<u8> {
        once::operating(OPERATOR_TOKEN, "GET", "/metrics", &[])
    }

    /// Orders in the ledger.
    pub(crate) fn rows(&mut self) -> anyhow::Result<u64> {
        self.database.orders()
    }

    /// Another connection to the ledger's tables.
    pub(crate) fn ledger(&self, set: &EngineSet) -> anyhow::Result<Database> {
        set.database(Some(DATABASE))
    }

    /// Waits until the ledger has every accepted order.
    pub(crate) fn drain(&mut self) -> anyhow::Result<()> {
        let (mut most, mut grown) = (0, Instant::now());
        loop {
            let orders = self.database.orders()?;
            if orders > most {
                (most, grown) = (orders, Instant::now());
            }
            if orders >= self.answered.accepted {
                return Ok(());
            }
            ensure!(!self.stop.load(Ordering::Relaxed), "stopped by a signal");
            ensure!(
                grown.elapsed() < STILL,
                "AUDIT FAILED: {} orders were accepted, and the ledger has {orders}, as {} s before",
                self.answered.accepted,
                STILL.as_secs()
            );
            std::thread::sleep(DRAIN_POLL);
        }
    }

    /// The ledger must hold what the buyers were answered, no order less and none more.
    pub(crate) fn check(&mut self) -> anyhow::Result<()> {
        self.answered.check(self.database.orders()?)?;
        invariants::none_rejected(&mut self.database)
    }

    /// Stops the servers and audits gate, queue and ledger, by our own count and by the program's audit.
    pub(crate) fn close(mut self) -> anyhow::Result<Answered> {
        self.check()?;
        self.answered.check(self.database.count("orders")?)?;
        self.audit()?;
        Ok(self.answered)
    }

    /// The program's own audit of gate, queue and ledger, and the end of all servers.
    pub(crate) fn audit(&mut self) -> anyhow::Result<()> {
        self.serve_by(1)?;
        // A server that was started again may be at rebuilding them; until then there is no audit of gate and ledger.
        self.gates()?;
        self.servers[0].audit_config()?;
        self.serve_by(0)
    }

    /// Once all of them are open.
    fn gates(&self) -> anyhow::Result<Gates> {
        Gates::opened(self.servers[0].address(), OPERATOR_TOKEN, &self.stop, None)
    }
}
