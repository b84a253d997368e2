//! An installation of our own that orders are placed at, from its start to its audit: one embedded server, or servers on
//! real engines. With it, the sale that nobody can buy out.
//!
//! The search for the peak and the price list of durability measure one. It must not: place an order, or keep the
//! answers that buyers got; its user does both.

pub(crate) mod cluster;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use anyhow::Context;

use self::cluster::Shop;
use crate::audit::invariants::{self, Rows, Stock};
use crate::audit::receipts::Receipts;
use crate::audit::{Answered, Ledger};
use crate::drivers::http::traffic::{self, OWN_PRODUCT};
use crate::host::usage::Watched;
use crate::measure::Surroundings;
use crate::progress::Progress;
use crate::report::model::{Audit, EngineSettings};
use crate::target::engines::{EngineSet, EngineSite, Flushes};
use crate::target::{Setup, Target};

/// Where it is measured: what every measurement needs beside its load.
#[derive(Debug)]
pub struct Site {
    /// The `doorbuster` program to measure.
    pub program: PathBuf,
    /// The folder of the scripts `up` and `down`, for a cluster.
    pub scripts: PathBuf,
    /// Where the temporary folder is made: on the disk whose syncs are to be measured, so on no tmpfs.
    pub folder: PathBuf,
    /// The engines of a cluster take 100 ports from here.
    pub port_base: u16,
    pub progress: Progress,
    /// Raised on SIGINT or SIGTERM: the measurement ends with an error, its servers and files are removed.
    pub stop: Arc<AtomicBool>,
}

impl Site {
    pub fn new(program: PathBuf) -> Self {
        Self {
            program,
            scripts: PathBuf::from("dev"),
            folder: std::env::temp_dir(),
            port_base: 27000,
            progress: Progress::start(),
            stop: Arc::default(),
        }
    }

    /// Removed when it is dropped.
    pub(crate) fn temporary_folder(&self) -> anyhow::Result<tempfile::TempDir> {
        tempfile::Builder::new()
            .prefix("doorbuster-bench-")
            .tempdir_in(&self.folder)
            .with_context(|| format!("a folder in {}", self.folder.display()))
    }

    /// For engines beside the servers of this folder.
    pub(crate) fn engines(&self, folder: &Path) -> EngineSite {
        let scripts = self.scripts.clone();
        EngineSite { scripts, folder: folder.join("engines"), port_base: self.port_base }
    }

    pub(crate) fn around<'a>(
        &'a self,
        watched: &'a [Watched],
        disk: Option<&'a str>,
        co_located: bool,
    ) -> Surroundings<'a> {
        Surroundings { watched, disk, co_located, stop: &self.stop, progress: Some(&self.progress) }
    }
}

pub(crate) enum Installation {
    Embedded(Target),
    /// Servers before the engines under them, for the order in which they are dropped.
    Cluster {
        shop: Box<Shop>,
        set: EngineSet,
    },
}

impl Installation {
    /// One server with its files in `folder`, more of its configuration file in `settings`, and the sale.
    pub(crate) fn embedded(site: &Site, folder: &Path, settings: &str) -> anyhow::Result<Self> {
        let setup = Setup { demo: false, settings, stop: &site.stop };
        let target = Target::start(&site.program, &folder.join("server"), setup)?;
        target.operate("/api/v1/sales", &traffic::own_sale(), 201)?;
        Ok(Self::Embedded(target))
    }

    /// Engines with these settings, read back; as many servers on them, on the default configuration; and the sale.
    pub(crate) fn cluster(
        site: &Site,
        folder: &Path,
        flushes: Flushes,
        servers: usize,
    ) -> anyhow::Result<Self> {
        let set = EngineSet::start(site.engines(folder), flushes, &site.stop)?;
        let mut shop = Shop::selling(&site.program, &folder.join("servers"), &set, &site.stop)?;
        shop.serve_by(servers)?;
        Ok(Self::Cluster { shop: Box::new(shop), set })
    }

    /// The one that orders are placed at when a server is to be killed, and that an operator asks.
    pub(crate) fn first_server(&mut self) -> &mut Target {
        match self {
            Self::Embedded(target) => target,
            Self::Cluster { shop, .. } => shop.first_server(),
        }
    }

    pub(crate) fn addresses(&self) -> Vec<SocketAddr> {
        match self {
            Self::Embedded(target) => vec![target.address()],
            Self::Cluster { shop, .. } => shop.addresses(),
        }
    }

    pub(crate) fn watched(&self) -> Vec<Watched> {
        match self {
            Self::Embedded(target) => vec![Watched::new("server", target.pid())],
            Self::Cluster { shop, set } => shop.watched().into_iter().chain(set.all_watched()).collect(),
        }
    }

    /// As server and engines say them.
    pub(crate) fn settings(&self) -> anyhow::Result<Vec<EngineSettings>> {
        match self {
            Self::Embedded(target) => Ok(vec![target.settings()?]),
            Self::Cluster { shop, set } => {
                let mut found = set.settings()?;
                found.push(shop.settings()?);
                Ok(found)
            }
        }
    }

    /// Waits until the ledger has taken in what the broker has; without a queue there is nothing to wait for.
    pub(crate) fn drain(&mut self, answered: Answered) -> anyhow::Result<()> {
        if let Self::Cluster { shop, .. } = self {
            shop.answered = answered;
            shop.drain()?;
        }
        Ok(())
    }

    /// On a connection of its own: an older one may have died with a server.
    pub(crate) fn ledger(&self) -> anyhow::Result<Box<dyn Rows>> {
        Ok(match self {
            Self::Embedded(target) => Box::new(Ledger::open(&target.data_dir())?),
            Self::Cluster { shop, set } => Box::new(shop.ledger(set)?),
        })
    }

    /// The audit as a gate of every result, and the end of it.
    pub(crate) fn close(
        self,
        answered: Answered,
        receipts: &mut Receipts,
        stop: &AtomicBool,
    ) -> anyhow::Result<Audit> {
        let stock = Stock { server: self.addresses()[0], product: OWN_PRODUCT };
        match self {
            Self::Embedded(target) => {
                let audit =
                    invariants::audit(&mut Ledger::open(&target.data_dir())?, stock, answered, receipts)?;
                Self::Embedded(target).end()?;
                Ok(audit)
            }
            Self::Cluster { shop, set } => {
                let mut ledger = shop.ledger(&set)?;
                // Requests with an unknown outcome may still become orders.
                invariants::wait_until_still(&mut ledger, answered, stop)?;
                invariants::none_rejected(&mut ledger)?;
                let mut audit = invariants::audit(&mut ledger, stock, answered, receipts)?;
                Self::Cluster { shop, set }.end()?;
                audit.method.push_str("; gate, queue and ledger compared by the program's own audit");
                Ok(audit)
            }
        }
    }

    /// The program's own audit, and the end of all servers.
    pub(crate) fn end(self) -> anyhow::Result<()> {
        match self {
            Self::Embedded(mut target) => {
                target.stop()?;
                target.audit().map(drop)
            }
            Self::Cluster { mut shop, .. } => shop.audit(),
        }
    }
}
