//! The servers of one row, with its settings, and what their buyers were told.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::atomic::AtomicBool;

use anyhow::{Context, ensure};
use serde_json::json;

use super::DurabilityOptions;
use super::combination::Combination;
use crate::audit::invariants::{self, Matched, Rows, Stock};
use crate::audit::receipts::{Kept, Receipts};
use crate::audit::{Ledger, Told};
use crate::cluster::shop::Shop;
use crate::drivers::http::Http;
use crate::engines::{EngineSet, Place};
use crate::load::record::Record;
use crate::load::schedule::Schedule;
use crate::load::{Generator, Settings, Trial};
use crate::report::model::{Audit, EngineSettings};
use crate::scenarios::measure::{Surroundings, trial};
use crate::target::{Setup, TOKEN_SECRET, Target};
use crate::token;
use crate::traffic::{BUYER_FIRST, OWN_PRODUCT, OWN_SALE, Traffic};
use crate::usage::Watched;

const UNITS: u64 = 100_000_000;
const PAYMENT_S: u64 = 12 * 3600;
const SALE_LIFE_MS: u64 = 24 * 3600 * 1000;

pub(super) struct Stand {
    pub(super) traffic: Traffic,
    pub(super) told: Told,
    pub(super) receipts: Receipts,
    pub(super) profile: Profile,
}

pub(super) enum Profile {
    Embedded(Target),
    /// Servers before the engines under them, for the order in which they are dropped.
    Cluster {
        shop: Box<Shop>,
        set: EngineSet,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Victim {
    Server,
    /// An engine by its name in `dev/up`, and in the report.
    Engine(&'static str, &'static str),
}

impl Victim {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Server => "server",
            Self::Engine(_, name) => name,
        }
    }
}

impl Stand {
    pub(super) fn open(
        options: &DurabilityOptions,
        scripts: &Path,
        folder: &Path,
        row: Combination,
    ) -> anyhow::Result<Self> {
        let profile = match row {
            Combination::Embedded(synchronous) => {
                let folder = folder.join("server");
                std::fs::create_dir(&folder).context("the server's folder")?;
                let settings = format!("[ledger]\nsynchronous = \"{}\"\n", synchronous.setting());
                let setup = Setup { demo: false, settings: &settings, stop: &options.stop };
                let target = Target::start(&options.program, &folder, setup)?;
                target.operate("/api/v1/sales", &sale(), 201)?;
                Profile::Embedded(target)
            }
            Combination::Cluster(flushes) => {
                let place = Place {
                    scripts: scripts.to_owned(),
                    folder: folder.join("engines"),
                    port_base: options.port_base,
                };
                let set = EngineSet::start_with(place, flushes, &options.stop)?;
                let shop = Shop::open(&options.program, &folder.join("servers"), &set, &options.stop)?;
                Profile::Cluster { shop: Box::new(shop), set }
            }
        };
        let receipts = Receipts::create(&folder.join("receipts")).context("the receipts' file")?;
        let traffic = Traffic::own(TOKEN_SECRET, BUYER_FIRST);
        Ok(Self { traffic, told: Told::default(), receipts, profile })
    }

    pub(super) fn address(&self) -> SocketAddr {
        match &self.profile {
            Profile::Embedded(target) => target.address(),
            Profile::Cluster { shop, .. } => shop.addresses()[0],
        }
    }

    pub(super) fn victims(&self) -> &'static [Victim] {
        match &self.profile {
            Profile::Embedded(_) => &[Victim::Server],
            Profile::Cluster { .. } => &[
                Victim::Engine("redis", "redis"),
                Victim::Engine("rocketmq-broker", "broker"),
                Victim::Engine("mariadb", "mariadb"),
                Victim::Server,
            ],
        }
    }

    pub(super) fn engines(&self) -> anyhow::Result<Vec<EngineSettings>> {
        match &self.profile {
            Profile::Embedded(_) => Ok(Vec::new()),
            Profile::Cluster { set, .. } => set.settings(),
        }
    }

    /// A closed loop.
    pub(super) fn load(&mut self, options: &DurabilityOptions, repeat: usize) -> anyhow::Result<Trial> {
        let address = self.address();
        let watched = self.watched();
        let mut kept = Kept { inner: &mut self.traffic, receipts: &mut self.receipts };
        let mut http = Http { workload: &mut kept };
        let mut generator = Generator::connect(Settings::keep_alive(address, options.users), &mut http)
            .context("connecting to the server")?;
        let around = Surroundings {
            watched: &watched,
            disk: None,
            co_located: true,
            stop: &options.stop,
            progress: Some(&options.progress),
        };
        let trial = trial(&mut generator, Schedule::closed(options.load), &mut http, repeat, around)?;
        self.told.add_outcomes(&trial.outcomes);
        self.drained()?;
        let surprise = trial.first_surprise.as_deref().unwrap_or("no answer at all");
        ensure!(trial.outcomes.won > 0, "no order was accepted: {surprise}");
        Ok(trial)
    }

    fn watched(&self) -> Vec<Watched> {
        match &self.profile {
            Profile::Embedded(target) => vec![Watched::new("server", target.pid())],
            Profile::Cluster { shop, set } => shop.watched().into_iter().chain(set.all_watched()).collect(),
        }
    }

    /// Waits until the ledger has taken in what the broker has; without a queue there is nothing to wait for.
    pub(super) fn drained(&mut self) -> anyhow::Result<()> {
        if let Profile::Cluster { shop, .. } = &mut self.profile {
            shop.told = self.told;
            shop.drain()?;
        }
        Ok(())
    }

    /// Orders in the ledger now, on a connection of its own: the one before may have died with a server.
    pub(super) fn orders(&self) -> anyhow::Result<u64> {
        self.with_ledger(|ledger| ledger.count())
    }

    /// After kills, requests with an unknown outcome may still become orders.
    pub(super) fn wait_until_still(&self, stop: &AtomicBool) -> anyhow::Result<()> {
        match &self.profile {
            Profile::Embedded(_) => Ok(()),
            Profile::Cluster { .. } => {
                self.with_ledger(|ledger| invariants::wait_until_still(ledger, self.told, stop))
            }
        }
    }

    /// Looks up the receipts from number `first` on.
    pub(super) fn look_up(&mut self, first: u64) -> anyhow::Result<Matched> {
        let orders = self.orders()?;
        let Self { profile, receipts, .. } = self;
        ledger_of(profile)?.compare(orders, receipts, first)
    }

    fn with_ledger<T>(&self, ask: impl FnOnce(&mut dyn Rows) -> anyhow::Result<T>) -> anyhow::Result<T> {
        match ledger_of(&self.profile)? {
            Reader::File(mut ledger) => ask(&mut ledger),
            Reader::Tables(mut database) => ask(&mut *database),
        }
    }

    /// The audit as a gate.
    pub(super) fn close(self) -> anyhow::Result<Audit> {
        let Self { told, mut receipts, profile, .. } = self;
        match profile {
            Profile::Embedded(mut target) => {
                let stock = Stock { server: target.address(), product: OWN_PRODUCT };
                let audit = invariants::embedded(&target.data_dir(), stock, told, &mut receipts)?;
                target.stop()?;
                target.audit()?;
                Ok(audit)
            }
            Profile::Cluster { mut shop, set } => {
                let stock = Stock { server: shop.addresses()[0], product: OWN_PRODUCT };
                let audit = invariants::cluster(&mut shop.ledger(&set)?, stock, told, &mut receipts)?;
                shop.first_server().audit_config()?;
                shop.serve_by(0)?;
                Ok(audit)
            }
        }
    }
}

enum Reader {
    File(Ledger),
    Tables(Box<crate::engines::mariadb::Database>),
}

impl Reader {
    fn compare(self, orders: u64, receipts: &mut Receipts, first: u64) -> anyhow::Result<Matched> {
        match self {
            Self::File(mut ledger) => invariants::compare(&mut ledger, orders, receipts, first),
            Self::Tables(mut database) => invariants::compare(&mut *database, orders, receipts, first),
        }
    }
}

fn ledger_of(profile: &Profile) -> anyhow::Result<Reader> {
    Ok(match profile {
        Profile::Embedded(target) => Reader::File(Ledger::open(&target.data_dir())?),
        Profile::Cluster { shop, set } => Reader::Tables(Box::new(shop.ledger(set)?)),
    })
}

pub(super) fn surprise(record: &Record) -> String {
    let first = record.first_surprise.as_deref().unwrap_or("none");
    format!("{:?}; the first other answer was: {first}", record.outcomes)
}

fn sale() -> serde_json::Value {
    let now_ms = token::unix_s() * 1000;
    json!({
        "id": OWN_SALE, "title": "Benchmark", "currency": "EUR",
        "starts_at_ms": now_ms - 1000, "ends_at_ms": now_ms + SALE_LIFE_MS,
        "payment_s": PAYMENT_S, "open_holds_per_buyer_max": 0,
        "items": [{
            "product": OWN_PRODUCT, "title": "Measured thing", "price": 4999, "list_price": 9999,
            "total": UNITS, "limit": 1,
        }],
    })
}
