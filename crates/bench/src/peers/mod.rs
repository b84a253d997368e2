//! Doorbuster beside what other teams build: `doorbuster bench peers`.
//!
//! In each round every peer, each time in another order, has the same load: a sale that sells out at a stated rate, a closed
//! loop, and SIGKILL of all of its processes in mid-sale. Its store's rows are counted after each. It must not print: the
//! caller does.

mod doorbuster;
mod orders;
mod play;
mod redis;
mod report;
mod shop;

use std::fmt;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::time::Duration;

use anyhow::{Context, bail, ensure};

use self::play::PeerRun;
use self::shop::{Shop, Store};
use crate::audit::AUDIT_FAILED;
use crate::host::usage::Watched;
use crate::load::Trial;
use crate::load::choice::Random;
use crate::report::verdict::SAMPLE_MIN_REQUESTS;
use crate::target::engines::{RedisLog, find_scripts};
use crate::target::installation::Site;

pub use self::play::Books;
pub use self::report::{NAME, chart};

pub const ROUNDS_MAX: u8 = 20;
/// With fewer, the buyers of one second may be fewer than its units by chance.
pub const RATE_MIN: u32 = 500;
pub const RATE_MAX: u32 = 100_000;
/// What it carries may be less than while it warmed up.
const LOOP_MARGIN: f64 = 1.5;
/// A peer that carries fewer requests in it than a sample needs is not waited for: the verdict says that it is too short.
const LOOP_MAX: Duration = Duration::from_secs(120);
/// Of a peer in a round, besides its loads: some 25 s in all on two processors.
const BESIDES: Duration = Duration::from_secs(9);

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

    /// Of the shops in Go.
    fn store(self) -> Option<Store> {
        match self {
            Self::Doorbuster | Self::RedisEverySecond | Self::RedisAlways => None,
            Self::MariaDb => Some(Store::MariaDb),
            Self::PostgreSql => Some(Store::PostgreSql),
        }
    }

    /// Why it can't be played here, as far as that is known before anything is compiled or started.
    fn missing(self, site: &Site) -> Option<String> {
        if self == Self::Doorbuster {
            return None;
        }
        let scripts = find_scripts(&site.scripts).err().map(|error| format!("{error:#}"));
        scripts.or_else(|| self.store().map_or_else(redis::missing, Store::missing))
    }

    fn start(self, site: &Site, folder: &Path, shop: Option<&Path>) -> anyhow::Result<Box<dyn Peer>> {
        let start_shop = |store| Shop::start(site, folder, shop.context("the shop is not compiled")?, store);
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
    pub rounds: usize,
    /// Requests per second of the sale, and of the one in which the processes are killed.
    pub rate: u32,
    /// Length of the sales' load and of the closed loop, at least.
    pub load: Duration,
    /// A load lasts longer where it would have fewer.
    pub requests_min: u64,
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

impl Played {
    /// What this program sells wrongly is a broken audit; what the others do is a finding.
    fn check(&self) -> anyhow::Result<()> {
        let books = [self.sold, self.peak_sold, self.killed];
        match books.into_iter().find(|books| self.kind == Kind::Doorbuster && !books.sound()) {
            Some(wrong) => bail!("{AUDIT_FAILED}: this program's own books are wrong: {wrong}"),
            None => Ok(()),
        }
    }
}

impl PeersOptions {
    pub fn new(program: PathBuf) -> Self {
        Self {
            rounds: 6,
            rate: 2000,
            load: Duration::from_secs(5),
            requests_min: SAMPLE_MIN_REQUESTS,
            users: 100,
            seed: 1,
            site: Site::new(program),
        }
    }

    /// One round of short loads.
    pub fn quick(self) -> Self {
        Self { rounds: 1, load: Duration::from_secs(1), requests_min: 0, ..self }
    }

    /// Adds to `compared` what each peer did in each round, when it is done: the rounds before a failure stay.
    ///
    /// # Errors
    /// If a peer can't be started or measured, if there is none to compare with, or the stop flag is raised. What a peer sells
    /// wrongly is no error; what this program does is `AUDIT FAILED`.
    pub fn run(&self, compared: &mut Compared) -> anyhow::Result<()> {
        ensure!(
            self.rounds > 0 && self.rate > 0 && self.users > 0 && !self.load.is_zero(),
            "nothing to measure"
        );
        for kind in Kind::ALL {
            compared.lacks(kind, kind.missing(&self.site), &self.site);
        }
        let kinds = compared.present()?;
        let folder = self.site.temporary_folder()?;
        let shop = match kinds.iter().any(|kind| kind.store().is_some()) {
            true => self.compile(folder.path(), compared),
            false => None,
        };
        let kinds = compared.present()?;
        let (peers, rounds) = (kinds.len(), self.rounds);
        let minutes = (self.expected() * u32::try_from(peers * rounds)?).as_secs().div_ceil(60);
        self.site.progress.done(&format!("{} peers, rounds: {rounds}, about {minutes} min", peers - 1));
        let mut random = Random::new(self.seed);
        self.play_rounds(kinds, &mut compared.played, |kind, round| {
            let folder = tempfile::tempdir_in(folder.path()).context("a peer's folder")?;
            let peer = kind.start(&self.site, folder.path(), shop.as_deref())?;
            PeerRun { options: self, folder: folder.path(), peer, round }.play(kind, &mut random)
        })
    }

    /// The shop in Go, for both databases; none if it can't be compiled.
    fn compile(&self, folder: &Path, compared: &mut Compared) -> Option<PathBuf> {
        self.site.progress.doing("compiling the shop in Go; the first time its modules are fetched");
        let shop = shop::build(folder, &self.site.stop);
        let why = shop.as_ref().err().map(|error| format!("it can't be compiled: {error:#}"));
        for kind in Kind::ALL.into_iter().filter(|kind| kind.store().is_some()) {
            compared.lacks(kind, why.clone(), &self.site);
        }
        shop.ok()
    }

    fn play_rounds(
        &self,
        mut kinds: Vec<Kind>,
        played: &mut Vec<Played>,
        mut play: impl FnMut(Kind, usize) -> anyhow::Result<Played>,
    ) -> anyhow::Result<()> {
        let progress = &self.site.progress;
        for round in 1..=self.rounds {
            for kind in &kinds {
                ensure!(!self.site.stop.load(Ordering::Relaxed), "stopped by a signal");
                progress.doing(&format!("round {round} of {}: {}", self.rounds, kind.name()));
                let of = play(*kind, round).with_context(|| format!("{}, round {round}", kind.name()))?;
                of.check()?;
                progress.done(&format!("round {round} of {}: {of}", self.rounds));
                played.push(of);
            }
            // The next one has another order.
            kinds.rotate_left(1);
        }
        Ok(())
    }

    /// About how long a peer takes in a round.
    fn expected(&self) -> Duration {
        self.sale_length() * 2 + self.load + BESIDES
    }

    /// With Poisson arrivals: by five standard deviations more requests than it must have, so that chance leaves it none short.
    fn sale_length(&self) -> Duration {
        let wanted = self.requests_min as f64 + 5.0 * (self.requests_min as f64).sqrt();
        self.load.max(Duration::from_secs_f64(wanted / f64::from(self.rate)))
    }

    /// Of the sale, about.
    fn requests(&self) -> u64 {
        let ms = u64::try_from(self.sale_length().as_millis()).unwrap_or(u64::MAX);
        ms.saturating_mul(self.rate.into()) / 1000
    }

    /// Of a closed loop with a peer that carried so many requests per second while it warmed up.
    fn loop_length(&self, warm_per_s: f64) -> Duration {
        let needed_s = self.requests_min as f64 * LOOP_MARGIN / warm_per_s.max(1.0);
        self.load.max(Duration::from_secs_f64(needed_s).min(LOOP_MAX))
    }
}

impl Compared {
    /// Said at once: whoever wants that peer need not wait for the end.
    fn lacks(&mut self, kind: Kind, why: Option<String>, site: &Site) {
        let Some(why) = why.filter(|_| self.has(kind)) else { return };
        site.progress.done(&format!("{} is left out: {why}", kind.name()));
        self.missing.push((kind, why));
    }

    fn has(&self, kind: Kind) -> bool {
        !self.missing.iter().any(|(missing, _)| *missing == kind)
    }

    fn present(&self) -> anyhow::Result<Vec<Kind>> {
        let kinds: Vec<Kind> = Kind::ALL.into_iter().filter(|kind| self.has(*kind)).collect();
        ensure!(kinds.len() > 1, "there is no peer here to compare with; see above why");
        Ok(kinds)
    }
}

#[cfg(test)]
mod tests {
    use super::report::tests::played;
    use super::*;

    fn options() -> PeersOptions {
        PeersOptions::new("doorbuster".into())
    }

    #[test]
    fn a_loss_of_our_own_is_a_broken_audit() {
        let play = |kind, lost| {
            options().play_rounds(vec![kind], &mut Vec::new(), |kind, round| Ok(played(kind, round, lost)))
        };
        let error = play(Kind::Doorbuster, 3).unwrap_err().to_string();
        assert!(
            error.starts_with("AUDIT FAILED: this program's own books are wrong: 5 units; 5 orders"),
            "{error}"
        );
        assert!(play(Kind::RedisEverySecond, 3).is_ok() && play(Kind::Doorbuster, 0).is_ok());
    }

    #[test]
    fn what_was_played_before_a_failure_stays() {
        let fails = |stopped: bool| {
            let (options, mut all) = (options(), Vec::new());
            let ended =
                options.play_rounds(vec![Kind::Doorbuster, Kind::MariaDb], &mut all, |kind, round| {
                    ensure!(stopped || round < 5 || kind != Kind::MariaDb, "it died");
                    options.site.stop.store(stopped, Ordering::Relaxed);
                    Ok(played(kind, round, 0))
                });
            let (scenario, _) = Compared { played: all, missing: Vec::new() }.report(&options);
            let trials = scenario.cases.iter().map(|case| case.trials.len());
            (format!("{:#}", ended.unwrap_err()), trials.collect::<Vec<_>>())
        };
        // In each round they change their places.
        let died = "Go + MariaDB, one transaction, round 5: it died".to_owned();
        assert_eq!(fails(false), (died, vec![5, 4, 5, 4]));
        assert_eq!(fails(true), ("stopped by a signal".to_owned(), vec![1, 1]));
    }

    #[test]
    fn no_load_is_too_short_a_sample() {
        for rate in [RATE_MIN, 2000, RATE_MAX] {
            let options = PeersOptions { rate, ..options() };
            assert!(options.requests() >= 10_499 && options.sale_length() >= options.load, "{rate}");
        }
        let options = options();
        // A peer that carries much less than while it warmed up.
        for warm_per_s in [150.0, 2000.0, 50_000.0] {
            let length = options.loop_length(warm_per_s);
            assert!(
                length >= options.load && length.as_secs_f64() * warm_per_s / 1.4 >= 10_000.0,
                "{warm_per_s}"
            );
        }
        assert_eq!((options.loop_length(0.0), options.loop_length(50_000.0)), (LOOP_MAX, options.load));
        let quick = options.quick();
        assert_eq!((quick.sale_length(), quick.loop_length(10.0)), (quick.load, quick.load));
    }

    #[test]
    fn without_the_sources_it_is_said_before_anything_is_made() {
        let mut options = options();
        (options.site.scripts, options.site.folder) = ("no/dev".into(), "no/folder".into());
        let mut compared = Compared::default();
        let error = format!("{:#}", options.run(&mut compared).unwrap_err());
        assert!(error.starts_with("there is no peer here to compare with"), "{error}");
        let missing: Vec<Kind> = compared.missing.iter().map(|(kind, _)| *kind).collect();
        assert_eq!(missing, Kind::ALL[1..]);
        assert!(compared.missing.iter().all(|(_, why)| why.starts_with("no/dev has no script `up`")));
    }
}
