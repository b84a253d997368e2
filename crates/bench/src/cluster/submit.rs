//! The published submit-order experiment: the embedded profile with its ledger in MariaDB, `POST /order/submit` with
//! random users and goods.
//!
//! Twice: with balances that never run short, for the rate; and with balances of 10, which must end in exactly 10 orders
//! of each good, where the published program sold 69 of 10.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use anyhow::{Context, ensure};
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::audit::Answered;
use crate::drivers::http::{Driver, Settings};
use crate::engines::EngineSet;
use crate::engines::mariadb::Database;
use crate::load::record::{LatencyUs, Outcome, Outcomes};
use crate::load::schedule::Schedule;
use crate::target::{Setup, Target};
use crate::traffic::Traffic;
use crate::usage::{Snapshot, Usage, Watched};

const DATABASE: &str = "bench_embedded";
/// The published plan's best rate was near so many users.
pub(super) const CONNECTIONS: usize = 300;
pub(super) const PER_S_MIN: f64 = 15_000.0;
/// The published plan asks for the goods 101 to 1100.
const GOODS: u64 = 1000;
const BALANCE: u64 = 10;
const BALANCE_AMPLE: u64 = 100_000_000;

/// With balances that never run short.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct SubmitSample {
    pub seconds: f64,
    /// Rows in the ledger, counted by SQL, over the seconds.
    pub rows_per_s: f64,
    pub not_accepted: u64,
    pub outcomes: Outcomes,
    pub response_us: LatencyUs,
    pub usage: Usage,
}

/// With balances of 10.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct SoldOutSample {
    pub requests: u64,
    pub requests_per_s: f64,
    /// Rows in the ledger, counted by SQL.
    pub orders: u64,
    pub goods: u64,
    /// Units sold of the good that sold least, and of the one that sold most.
    pub units_min: u64,
    pub units_max: u64,
    pub response_us: LatencyUs,
}

/// A server with its demo's shop, over MariaDB.
pub(super) struct SubmitShop {
    target: Target,
    database: Database,
    answered: Answered,
    traffic: Traffic,
    mariadb: Watched,
}

impl SubmitShop {
    pub(super) fn open(
        program: &Path,
        folder: &Path,
        set: &EngineSet,
        stop: &Arc<AtomicBool>,
    ) -> anyhow::Result<Self> {
        std::fs::create_dir_all(folder).context("the server's folder")?;
        set.database(None)?.recreate(DATABASE)?;
        let settings = set.ledger_settings(DATABASE)?;
        let target = Target::start(program, folder, Setup { demo: true, settings: &settings, stop })?;
        Ok(Self {
            target,
            database: set.database(Some(DATABASE))?,
            answered: Answered::default(),
            traffic: Traffic::submit(),
            mariadb: set.watched("mariadb")?,
        })
    }

    pub(super) fn watched(&self) -> Watched {
        Watched::new("server", self.target.pid())
    }

    fn balance(&self, units: u64) -> anyhow::Result<()> {
        self.target.operate("/api/v1/demo/load", &json!({ "balance": units }), 200).map(drop)
    }

    fn driver(&self) -> anyhow::Result<Driver> {
        let address: SocketAddr = self.target.address();
        Driver::connect(Settings::keep_alive(address, CONNECTIONS)).context("connecting to the shop")
    }

    /// The published plan on goods of which there are 10 each. Comes first: nothing was sold yet.
    pub(super) fn sell_out(&mut self, requests: u64, stop: &AtomicBool) -> anyhow::Result<SoldOutSample> {
        self.balance(BALANCE)?;
        let record = self.driver()?.run(Schedule::closed_requests(requests), &mut self.traffic, stop)?;
        self.answered.add(&record);
        self.check()?;
        let orders = self.database.count("orders")?;
        let (goods, units_min, units_max) = self.database.units_by_sku()?;
        ensure!(
            (orders, goods, units_min, units_max) == (GOODS * BALANCE, GOODS, BALANCE, BALANCE),
            "AUDIT FAILED: {GOODS} goods of {BALANCE} units each came to {orders} orders of {goods} goods, \
             {units_min} to {units_max} of each"
        );
        Ok(SoldOutSample {
            requests,
            requests_per_s: record.outcomes.total() as f64 / record.elapsed.as_secs_f64(),
            orders,
            goods,
            units_min,
            units_max,
            response_us: record.response_us(),
        })
    }

    /// As fast as it goes, with enough of everything.
    pub(super) fn sample(
        &mut self,
        window: Duration,
        warm_up: Duration,
        (disk, beside): (Option<&str>, &[Watched]),
        stop: &AtomicBool,
    ) -> anyhow::Result<SubmitSample> {
        self.balance(BALANCE_AMPLE)?;
        self.database.purge_binary_logs()?;
        let mut driver = self.driver()?;
        self.answered.add(&driver.run(Schedule::closed(warm_up), &mut self.traffic, stop)?);
        let mut watched = vec![self.watched(), self.mariadb.clone(), Watched::load()];
        watched.extend_from_slice(beside);
        let rows = self.database.orders()?;
        let before = Snapshot::take(&watched, disk)?;
        let record = driver.run(Schedule::closed(window), &mut self.traffic, stop)?;
        let usage = before.until(&Snapshot::take(&watched, disk)?);
        let rows = self.database.orders()? - rows;
        self.answered.add(&record);
        self.check()?;
        let seconds = record.elapsed.as_secs_f64();
        Ok(SubmitSample {
            seconds,
            rows_per_s: rows as f64 / seconds,
            not_accepted: record.outcomes.total() + record.unsent - record.outcomes.of(Outcome::Won),
            outcomes: record.outcomes,
            response_us: record.response_us(),
            usage,
        })
    }

    fn check(&mut self) -> anyhow::Result<()> {
        Ok(self.answered.check(self.database.orders()?)?)
    }

    /// Stops the server and audits its ledger.
    pub(super) fn close(mut self) -> anyhow::Result<Answered> {
        self.check()?;
        self.target.stop()?;
        self.answered.check(self.database.count("orders")?)?;
        self.target.audit_config()?;
        Ok(self.answered)
    }
}
