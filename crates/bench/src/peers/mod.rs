//! Doorbuster beside what other teams build: `doorbuster bench peers`.
//!
//! In each round every peer, each time in another order, has the same load: a sale that sells out at a stated rate, a closed
//! loop, and SIGKILL of all of its processes in mid-sale. Its store's rows are counted after each. It must not print: the
//! caller does.

pub mod answer;
mod doorbuster;
mod orders;
mod play;
mod redis;
mod shop;

use std::fmt;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::time::Duration;

use anyhow::{Context, anyhow, ensure};

use self::play::PeerRun;
use self::shop::{Shop, Store};
use crate::host::usage::Watched;
use crate::load::Trial;
use crate::load::choice::Random;
use crate::target::engines::RedisLog;
use crate::target::installation::Site;

pub use self::play::Books;

pub const ROUNDS_MAX: u8 = 20;
/// With fewer, the buyers of one second may be fewer than its units by chance.
pub const RATE_MIN: u32 = 500;
pub const RATE_MAX: u32 = 100_000;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Doorbuster,
    RedisEverySecond,
    RedisAlways,
    MariaDb,
    PostgreSql,
}

impl Kind {
    pub const ALL: [Self; 5] =
        [Self::Doorbuster, Self::RedisEverySecond, Self::RedisAlways, Self::MariaDb, Self::PostgreSql];

    pub fn name(self) -> &'static str {
        match self {
            Self::Doorbuster => "Doorbuster, embedded",
            Self::RedisEverySecond => "nginx + Lua + Redis, appendfsync everysec",
            Self::RedisAlways => "nginx + Lua + Redis, appendfsync always",
            Self::MariaDb => "Go + MariaDB, one transaction",
            Self::PostgreSql => "Go + PostgreSQL, a row for each unit",
        }
    }

    fn missing(self, shop: &BuiltShop) -> Option<String> {
        let store = match self {
            Self::Doorbuster => return None,
            Self::RedisEverySecond | Self::RedisAlways => return redis::missing(),
            Self::MariaDb => Store::MariaDb,
            Self::PostgreSql => Store::PostgreSql,
        };
        store.missing().or_else(|| shop.as_ref().err().cloned())
    }

    fn start(self, site: &Site, folder: &Path, shop: &BuiltShop) -> anyhow::Result<Box<dyn Peer>> {
        let start_shop = |store| {
            let program = shop.as_ref().map_err(|why| anyhow!("{why}"))?;
            Shop::start(site, folder, program, store)
        };
        Ok(match self {
            Self::Doorbuster => Box::new(doorbuster::Doorbuster::start(site, folder)?),
            Self::RedisEverySecond => {
                Box::new(redis::NginxRedis::start(site, folder, RedisLog::EverySecond)?)
            }
            Self::RedisAlways => Box::new(redis::NginxRedis::start(site, folder, RedisLog::Always)?),
            Self::MariaDb => Box::new(start_shop(Store::MariaDb)?),
            Self::PostgreSql => Box::new(start_shop(Store::PostgreSql)?),
        })
    }
}

/// Where the program of the shops in Go is, or why there is none.
type BuiltShop = Result<PathBuf, String>;

fn to_install(packages: &str) -> String {
    format!("not installed; as root: apt-get install --no-install-recommends {packages}")
}

/// A shop that sells: its processes, and the orders in its store.
trait Peer: fmt::Debug {
    fn address(&self) -> SocketAddr;
    /// All of its processes: server and engines.
    fn watched(&self) -> anyhow::Result<Vec<Watched>>;
    /// Puts units of a product on sale, one for each buyer at most.
    fn open(&mut self, product: u64, units: u64) -> anyhow::Result<()>;
    /// SIGKILL of all of its processes.
    fn kill(&mut self) -> anyhow::Result<()>;
    fn start_again(&mut self) -> anyhow::Result<()>;
    /// What its store has of the product that was opened last.
    fn orders(&mut self, product: u64) -> anyhow::Result<Vec<Order>>;
    /// What its processes have logged last, for people; empty: nothing that is known.
    fn logged(&self) -> String {
        String::new()
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Order {
    hash: u128,
    buyer: String,
}

#[derive(Debug)]
pub struct PeersOptions {
    pub rounds: u8,
    /// Requests per second of the sale, and of the one in which the processes are killed.
    pub rate: u32,
    /// Length of the sale's load, and of the closed loop.
    pub load: Duration,
    /// Of the closed loop.
    pub users: usize,
    pub seed: u64,
    pub site: Site,
}

#[derive(Debug)]
pub struct Played {
    pub kind: Kind,
    pub sale: Trial,
    pub sold: Books,
    pub peak: Trial,
    pub peak_sold: Books,
    /// Until it was killed, and after, together.
    pub killed: Books,
}

#[derive(Debug, Default)]
pub struct Compared {
    pub played: Vec<Played>,
    /// And why not.
    pub missing: Vec<(Kind, String)>,
}

impl PeersOptions {
    /// # Errors
    /// If a peer can't be started or measured, or the stop flag is raised. What a peer sells wrongly is no error.
    pub fn run(&self) -> anyhow::Result<Compared> {
        ensure!(
            self.rounds > 0 && self.rate > 0 && self.users > 0 && !self.load.is_zero(),
            "nothing to measure"
        );
        let folder = self.site.temporary_folder()?;
        self.site.progress.doing("compiling the shop in Go; the first time its modules are fetched");
        let shop = shop::build(folder.path(), &self.site.stop);
        let missing: Vec<_> =
            Kind::ALL.iter().filter_map(|kind| Some((*kind, kind.missing(&shop)?))).collect();
        let is_there = |kind: &Kind| !missing.iter().any(|(missing, _)| missing == kind);
        let mut kinds: Vec<Kind> = Kind::ALL.into_iter().filter(is_there).collect();
        let mut random = Random::new(self.seed);
        let mut played = Vec::new();
        for round in 1..=self.rounds {
            for kind in &kinds {
                ensure!(!self.site.stop.load(Ordering::Relaxed), "stopped by a signal");
                self.site.progress.doing(&format!("round {round} of {}: {}", self.rounds, kind.name()));
                let folder = tempfile::tempdir_in(folder.path()).context("a peer's folder")?;
                played
                    .push(self.play(*kind, folder.path(), &shop, &mut random).with_context(|| kind.name())?);
            }
            // The next one has another order.
            kinds.rotate_left(1);
        }
        Ok(Compared { played, missing })
    }

    /// Of a load at the stated rate, about.
    fn requests(&self) -> u64 {
        let ms = u64::try_from(self.load.as_millis()).unwrap_or(u64::MAX);
        ms.saturating_mul(self.rate.into()) / 1000
    }

    fn play(
        &self,
        kind: Kind,
        folder: &Path,
        shop: &BuiltShop,
        random: &mut Random,
    ) -> anyhow::Result<Played> {
        let peer = kind.start(&self.site, folder, shop)?;
        let mut stage = PeerRun { options: self, folder, peer };
        let (sale, sold) = stage.sale(random)?;
        let (peak, peak_sold) = stage.peak()?;
        let killed = stage.kill(random)?;
        Ok(Played { kind, sale, sold, peak, peak_sold, killed })
    }
}
