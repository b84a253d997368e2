//! A sale rehearsed: a server of our own with the shop's settings, on the shop's disk or engines, and a crowd for the sale.
//!
//! It must not: touch the installation that is configured, or know its files. What came of it is judged in [`verdict`].

pub mod answer;
pub(crate) mod payments;
mod servers;
pub mod verdict;

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use serde_json::Value;

use self::servers::Servers;
use crate::audit::invariants::Stock;
use crate::audit::receipts::Receipts;
use crate::audit::running::Running;
use crate::audit::{AUDIT_FAILED, Answered};
use crate::drivers::http::Http;
use crate::drivers::http::buyers::{Buyers, RETRIES};
use crate::host::{ensure_free, environment};
use crate::load::choice::{Random, Weighted};
use crate::load::schedule::{FlashCrowd, Schedule, Spacing};
use crate::load::{Generator, Protocol, Settings, Trial};
use crate::measure::{Surroundings, trial_within};
use crate::progress::Progress;
use crate::report::format::figure;
use crate::target::OPERATOR_TOKEN;
use crate::target::engines::mariadb::Database;

/// The shortest crowd: figures of less than 3 s are not believed, and the last buyer comes a little before the end.
pub const OVER_MIN: Duration = Duration::from_secs(4);
pub const OVER_MAX: Duration = Duration::from_secs(60);
pub const BUYERS_MAX: u64 = 1_000_000;
/// Requests under way at once, as in the flash crowd.
const IN_FLIGHT_MAX: usize = 8000;
/// Of the buyers: those who waited for the start. The others come evenly, until the end.
const SPIKE_SHARE: f64 = 0.9;
/// So that six of seven of the spike come in its first second.
const SPIKE_DECAY: Duration = Duration::from_millis(500);

/// Half of those who hold an order pay within this after the crowd; the rest of the time to pay is for the audit between.
const PAYING: Duration = Duration::from_secs(4);
const PAYING_SPARE: Duration = Duration::from_secs(6);
/// Units of whom never paid are on sale again by then: expiring is done in the background.
const COME_BACK_MAX: Duration = Duration::from_secs(30);
const COME_BACK_POLL: Duration = Duration::from_millis(200);
/// Those who come for them, evenly: twice as many as there are units.
const LATE: Duration = Duration::from_secs(3);

/// Room on the disk that is left alone, whatever the rehearsal writes.
const ROOM_LEFT: u64 = 1 << 30;
/// Of each buyer's order: about 500 bytes with an address, in the log and in the ledger, twice that to be sure.
const ROOM_PER_BUYER: u64 = 2 * 1024;

/// Where what is sold is kept.
#[derive(Clone, Copy)]
pub enum Profile<'a> {
    /// By one server, in its folder.
    Embedded,
    /// On the engines that the settings name, by so many servers.
    Engines {
        servers: usize,
        /// Whether it is a cluster: gates and a queue before the ledger.
        gated: bool,
        /// Names and addresses, of which some may be on this machine.
        engines: &'a [(&'static str, String)],
        /// Connects to the ledger of the rehearsal, to look up what was acknowledged.
        ledger: &'a dyn Fn() -> anyhow::Result<Database>,
    },
}

impl fmt::Debug for Profile<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Embedded => "Embedded",
            Self::Engines { .. } => "Engines",
        })
    }
}

#[derive(Debug)]
pub struct Rehearsal<'a> {
    pub program: &'a Path,
    pub profile: Profile<'a>,
    /// Of the servers' files: in the embedded profile on the disk whose syncs count. It must be there, and is not removed.
    pub folder: &'a Path,
    /// Of the configuration file, in whole sections.
    pub settings: &'a str,
    /// As an operator creates it: open already, with its id.
    pub sale: &'a Value,
    pub buyers: u64,
    pub over: Duration,
    /// Half of what one server takes from one address at most, so that none of ours is turned away at the door.
    pub connections_max: usize,
    pub seed: u64,
    pub stop: &'a Arc<AtomicBool>,
    pub progress: &'a Progress,
}

/// What came of it, its audit clean.
#[derive(Debug)]
pub struct Rehearsed {
    pub trial: Trial,
    /// Of all items.
    pub units: u64,
    /// That nobody had after the crowd.
    pub left: u64,
    /// `None`: nobody held anything, or the sale is without payment.
    pub paying: Option<Paying>,
    /// Orders per second that the server admits, as it says; 0: as many as come.
    pub admitted_per_s: u64,
}

/// After the crowd: half of those who hold an order pay, the others' units come back and are sold again.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Paying {
    /// Orders that were to be paid.
    pub due: u64,
    pub paid: u64,
    /// Of the callbacks.
    pub p99_us: u64,
    /// Units of the others.
    pub came_back: u64,
    pub sold_again: u64,
}

impl Rehearsal<'_> {
    /// # Errors
    /// If the disk has not the room for it, or does not say. Orders on engines are on disks that this machine may not see.
    pub fn check_room(&self) -> anyhow::Result<()> {
        if matches!(self.profile, Profile::Engines { .. }) {
            return Ok(());
        }
        let bytes = room_for(self.buyers);
        let needed = format!("{} buyers need {}", self.buyers, figure(bytes as f64, "bytes"));
        ensure_free(self.folder, bytes, &needed)
    }

    /// # Errors
    /// What keeps it from being carried out, or [`AUDIT_FAILED`] in its text.
    pub fn run(&self) -> anyhow::Result<Rehearsed> {
        let servers = Servers::start(self)?;
        let admitted_per_s = servers.admitted_per_s()?;
        let audit = Running::open(servers.first().address(), Some(OPERATOR_TOKEN), self.stop)?;
        let goods = Weighted::new(weights(self.sale)?);
        let units = weights(self.sale)?.iter().map(|(_, units)| units).sum();
        let mut receipts = Receipts::create(&self.receipts()).context("the file of receipts")?;
        let users = usize::try_from(self.buyers).unwrap_or(IN_FLIGHT_MAX);
        let users = users.min(IN_FLIGHT_MAX).min(self.connections_max).max(1);
        let sale = self.sale["id"].as_u64().context("a sale has an id")?;
        let product = |random: &mut Random| goods.next(random);
        let mut buyers = Buyers::new(sale, product, users, self.seed, &mut receipts);
        let settings = Settings {
            addresses: servers.addresses(),
            ..Settings::open_loop(servers.first().address(), users)
        };
        let mut generator = Generator::connect(settings, &mut buyers).context("connecting")?;

        self.progress.phase("the crowd comes");
        let schedule = spike(self.buyers, self.over).seeded(self.seed);
        let trial = self.trial(&servers, &mut generator, schedule, &mut buyers)?;
        self.progress.phase("auditing");
        let mut answered = Answered::default();
        answered.add(&trial.outcomes);
        let left = units_of(&audit.drain(answered)?, "available")?;
        let paying = self.paying((&servers, &audit), &mut generator, &mut buyers, (left, &mut answered))?;
        let numbers = audit.drain(answered)?;
        audit.judge(&numbers, answered, "the program's audit of the whole ledger")?;
        servers.close(self, answered, &mut receipts)?;
        Ok(Rehearsed { trial, units, left, paying, admitted_per_s })
    }

    /// What is not paid comes back while the rehearsal lasts.
    fn sale_of_rehearsal(&self) -> Value {
        let mut sale = self.sale.clone();
        if !self.is_without_payment() {
            sale["payment_s"] = (self.over + PAYING + PAYING_SPARE).as_secs().into();
        }
        sale
    }

    fn is_without_payment(&self) -> bool {
        self.sale.get("payment_s") == Some(&Value::Null)
    }

    fn paying<F: FnMut(&mut Random) -> u64>(
        &self,
        (servers, audit): (&Servers, &Running),
        generator: &mut Generator,
        buyers: &mut Buyers<'_, F>,
        (left, answered): (u64, &mut Answered),
    ) -> anyhow::Result<Option<Paying>> {
        if self.is_without_payment() || answered.accepted == 0 {
            return Ok(None);
        }
        self.progress.phase("half of them pay");
        let bills = payments::bills(servers.first())?;
        let due = bills.len() as u64;
        let mut callbacks = payments::Callbacks::new(&bills);
        let schedule = Schedule::constant(due.max(1) as f64 / PAYING.as_secs_f64(), PAYING);
        let payments = self.trial(servers, generator, schedule, &mut Http { workload: &mut callbacks })?;
        self.progress.phase("what nobody paid comes back");
        let back = self.come_back((servers, audit), *answered)?.saturating_sub(left);
        self.progress.phase("it is sold again");
        let schedule = Schedule::constant((back * 2).max(1) as f64 / LATE.as_secs_f64(), LATE);
        let late = self.trial(servers, generator, schedule.seeded(self.seed), buyers)?;
        answered.add(&late.outcomes);
        let (paid, p99_us) = (payments.outcomes.served.min(due), payments.response.at(0.99));
        Ok(Some(Paying { due, paid, p99_us, came_back: back, sold_again: late.outcomes.won }))
    }

    /// The units on sale once nobody holds any, and servers sell what the ledger has: a gate hears of it a moment later.
    fn come_back(&self, (servers, audit): (&Servers, &Running), answered: Answered) -> anyhow::Result<u64> {
        let products = weights(self.sale)?;
        let sold_by = |server| {
            let stocks = products.iter().map(|(product, _)| Stock { server, product: *product }.remaining());
            stocks.sum::<anyhow::Result<u64>>()
        };
        let payable = self.over + PAYING + PAYING_SPARE;
        let begun = Instant::now();
        loop {
            let numbers = audit.drain(answered)?;
            let (held, available) = (units_of(&numbers, "held")?, units_of(&numbers, "available")?);
            if held == 0
                && servers
                    .addresses()
                    .into_iter()
                    .map(sold_by)
                    .all(|sold| sold.is_ok_and(|sold| sold == available))
            {
                return Ok(available);
            }
            if begun.elapsed() > payable + COME_BACK_MAX {
                bail!(
                    "{AUDIT_FAILED}: {held} units are held, and not all of {available} others are on sale, {} after the time to pay",
                    figure(COME_BACK_MAX.as_secs_f64(), "s")
                );
            }
            ensure!(!self.stop.load(Ordering::Relaxed), "stopped by a signal");
            sleep(COME_BACK_POLL);
        }
    }

    fn receipts(&self) -> PathBuf {
        self.folder.join("receipts")
    }

    fn trial<P: Protocol>(
        &self,
        servers: &Servers,
        generator: &mut Generator,
        schedule: Schedule,
        protocol: &mut P,
    ) -> anyhow::Result<Trial> {
        let disk = environment::disk(self.folder);
        let around = Surroundings {
            watched: &servers.watched(),
            disk: disk.as_deref(),
            co_located: true,
            stop: self.stop,
            progress: Some(self.progress),
        };
        trial_within(verdict::PATIENCE, generator, schedule, protocol, 1, around)
    }
}

fn room_for(buyers: u64) -> u64 {
    ROOM_LEFT + buyers.min(BUYERS_MAX) * ROOM_PER_BUYER
}

fn spike(buyers: u64, over: Duration) -> Schedule {
    let buyers = buyers as f64;
    let crowd = FlashCrowd {
        base_per_s: buyers * (1.0 - SPIKE_SHARE) / over.as_secs_f64(),
        at: Duration::ZERO,
        peak_per_s: buyers * SPIKE_SHARE / SPIKE_DECAY.as_secs_f64(),
        decay: SPIKE_DECAY,
        spacing: Spacing::Poisson,
        retries: RETRIES,
    };
    Schedule::flash_crowd(crowd, over)
}

/// The products of a sale, each as often wanted as there are units of it.
fn weights(sale: &Value) -> anyhow::Result<Vec<(u64, u64)>> {
    let items = sale["items"].as_array().context("a sale has items")?;
    let weight = |item: &Value| Some((item["product"].as_u64()?, item["total"].as_u64()?));
    items.iter().map(weight).collect::<Option<_>>().context("an item has a product and a total")
}

/// Over all products: `available`, `held`, `sold`.
fn units_of(audit: &Value, standing: &str) -> anyhow::Result<u64> {
    let skus = audit["skus"].as_array().context("an audit lists the SKUs")?;
    Ok(skus.iter().filter_map(|sku| sku[standing].as_u64()).sum())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn room_is_for_all_buyers_and_some_is_left() {
        assert_eq!(room_for(0), 1 << 30);
        assert_eq!(room_for(BUYERS_MAX) - room_for(0), 2_048_000_000);
    }

    #[test]
    fn goods_are_wanted_by_their_units() {
        let sale = json!({"items": [{"product": 30, "total": 3}, {"product": 31, "total": 1}]});
        assert_eq!(weights(&sale).unwrap(), [(30, 3), (31, 1)]);
        assert!(weights(&json!({"items": [{"product": 30}]})).is_err());
        let audit = json!({"skus": [{"available": 2, "held": 1}, {"available": 5, "held": 3}]});
        assert_eq!((units_of(&audit, "available").unwrap(), units_of(&audit, "held").unwrap()), (7, 4));
    }
}
