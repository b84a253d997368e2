//! Everything at once for hours: a cluster on real engines and two embedded servers sell round after round while
//! whatever can fail fails at random, and strangers misbehave.
//!
//! As part of `make test` it is one short round; `make soak HOURS=N` (DOORBUSTER_SOAK_HOURS) goes on for so long and
//! writes docs/soak.md. Each round ends like a scenario: every accepted order found, every unit sold once, a clean
//! audit. One server of the cluster and one of the embedded ones are never killed: what they keep shows on them.

mod strangers;
mod table;

use std::path::Path;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::cluster::Cluster;
use crate::engines::Engines;
use crate::gate::redis_cli;
use crate::load::{Load, Random, Shape};
use crate::proxy::Mode;
use crate::shop::{Caller, Round};
use crate::testbed::{self, ALONE, Network, Scenario, Testbed};
use crate::verdict;
use strangers::Strangers;
use table::{Table, Usage};

/// One of the cluster's servers more than are killed.
const KILLED_SERVERS: usize = 2;
const WARM_WITHIN: Duration = Duration::from_secs(60);
/// With `appendfsync everysec` a killed Redis forgets what came since the last write of its log, at most this.
const UNSYNCED: Duration = Duration::from_secs(2);
const FROZEN_MAX: Duration = Duration::from_secs(6);
const BETWEEN_KILLS_MAX: Duration = Duration::from_millis(1500);
/// Of one process. What is open grows and shrinks with its clients.
const MORE_DESCRIPTORS_MAX: u64 = 64;
/// What an order of one unit, its address, its buyer and its key may cost a server that keeps them all in memory.
const BYTES_PER_ORDER_MAX: u64 = 1024;
/// Beside the orders: caches, pools, what the allocator keeps.
const MORE_BYTES_MAX: u64 = 128 << 20;

/// For how long, if not only for a short round.
pub(crate) fn hours() -> Option<f64> {
    let hours = std::env::var("DOORBUSTER_SOAK_HOURS").ok()?;
    let hours = hours.parse().ok().filter(|hours| *hours > 0.0 && *hours <= 1000.0);
    Some(hours.expect("DOORBUSTER_SOAK_HOURS is a number of hours, at most 1000"))
}

/// How long a round's faults last.
fn round_time() -> Duration {
    Duration::from_secs(if hours().is_some() { 240 } else { 8 })
}

/// What sells.
struct Arena<'a> {
    name: &'static str,
    cluster: Cluster,
    /// Those of the first servers that are killed; the last one never is.
    killed: usize,
    /// `None`: embedded.
    engines: Option<(&'a Engines, &'a Network)>,
    random: Random,
    kills: u64,
    faults: u64,
    orders: u64,
    /// In which the gate may forget what it took.
    forgets: Vec<(Option<Instant>, Instant)>,
}

/// What fails beside the servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    RedisKilled,
    RedisFrozen,
    RedisSilent,
    RedisWiped,
    BrokerKilled,
    BrokerFrozen,
    BrokerMute,
    LedgerKilled,
    LedgerFrozen,
    LedgerCut,
    CommitsUnanswered,
}

const GATE_FAULTS: [Fault; 4] =
    [Fault::RedisKilled, Fault::RedisFrozen, Fault::RedisSilent, Fault::RedisWiped];
const BROKER_FAULTS: [Fault; 3] = [Fault::BrokerKilled, Fault::BrokerFrozen, Fault::BrokerMute];
const LEDGER_FAULTS: [Fault; 4] =
    [Fault::LedgerKilled, Fault::LedgerFrozen, Fault::LedgerCut, Fault::CommitsUnanswered];

#[test]
fn both_profiles_outlive_everything_at_once() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let (engines, network) = testbed::engines_that_are_well();
    let prefix = "soak";
    testbed::say_sql(engines, &format!("DROP DATABASE IF EXISTS {prefix}; CREATE DATABASE {prefix}"));
    let dir = tempfile::tempdir().unwrap();
    let folder = |name: &str| {
        let folder = dir.path().join(name);
        std::fs::create_dir(&folder).unwrap();
        folder
    };
    let scenario = Scenario { servers: KILLED_SERVERS + 1, ..Scenario::of("soak") };
    let ledger = (network.mariadb.address.to_string(), prefix);
    let name_server = network.name_server.address.to_string();
    let cluster = testbed::configuration(&scenario, network, ledger, &name_server, prefix, prefix);
    let on_engines = Some((engines, network));
    let arenas = [
        Arena::open("cluster", &folder("cluster"), &cluster, on_engines, scenario.servers, KILLED_SERVERS),
        Arena::open("embedded, killed", &folder("killed"), EMBEDDED, None, 1, 1),
        Arena::open("embedded, never killed", &folder("kept"), EMBEDDED, None, 1, 0),
    ];
    let until = hours().map(|hours| Instant::now() + Duration::from_secs_f64(hours * 3600.0));
    let (table, over) = (Table::new(), AtomicBool::new(false));
    std::thread::scope(|scope| {
        for arena in arenas {
            let (table, over) = (&table, &over);
            scope.spawn(move || {
                // One that fails ends the others after their round.
                let _over = SetOnPanic(over);
                arena.run(table, || {
                    over.load(Ordering::Relaxed) || until.is_none_or(|until| Instant::now() >= until)
                });
            });
        }
    });
    testbed::say_sql(engines, &format!("DROP DATABASE {prefix}"));
    if hours().is_some() {
        table.write();
    }
}

const EMBEDDED: &str = r#"[auth]
buyer = "member_id"
[admission]
in_flight_per_buyer_max = 0
orders_per_s_per_buyer = 0
[ledger]
data_dir = "data"
"#;

struct SetOnPanic<'a>(&'a AtomicBool);

impl Drop for SetOnPanic<'_> {
    fn drop(&mut self) {
        self.0.fetch_or(std::thread::panicking(), Ordering::Relaxed);
    }
}

impl<'a> Arena<'a> {
    fn open(
        name: &'static str,
        dir: &Path,
        config: &str,
        engines: Option<(&'a Engines, &'a Network)>,
        servers: usize,
        killed: usize,
    ) -> Arena<'a> {
        let cluster = Cluster::start(dir, config, servers);
        let random = Random(name.len() as u64);
        Arena { name, cluster, killed, engines, random, kills: 0, faults: 0, orders: 0, forgets: Vec::new() }
    }

    /// Sells round after round; what it uses grows by no more than its orders do.
    fn run(mut self, table: &Table, is_over: impl Fn() -> bool) {
        let mut round = Round::FIRST;
        let mut first = None;
        loop {
            self.play(round);
            let usage = self.usage();
            table.add(self.name, round.number, self.orders, self.kills, self.faults, &usage);
            let (orders_then, then) = first.get_or_insert_with(|| (self.orders, usage.clone())).clone();
            let orders = self.orders - orders_then;
            let kept = (then.last(), usage.last());
            assert!(
                kept.1.descriptors <= kept.0.descriptors + MORE_DESCRIPTORS_MAX,
                "{}: descriptors, {kept:?}",
                self.name
            );
            let bytes_max = kept.0.bytes + MORE_BYTES_MAX + orders * BYTES_PER_ORDER_MAX;
            assert!(kept.1.bytes <= bytes_max, "{}: memory after {orders} more orders, {kept:?}", self.name);
            if is_over() {
                return;
            }
            let since = Caller::calm(self.cluster.addresses()[0]).end_of_feed(round);
            round = Round { number: round.number + 1, since };
        }
    }

    fn play(&mut self, round: Round) {
        let servers = self.cluster.addresses();
        Caller::calm(servers[0]).create_sales(round);
        servers.iter().for_each(|server| Caller::calm(*server).wait_for_sales(round));
        let buyers = if self.engines.is_some() { 12 } else { 4 };
        let load = Load::start(servers.clone(), Shape { buyers, think: Duration::from_millis(60), round });
        let strangers = Strangers::start(servers, round.number);
        load.wait_for_orders(100, WARM_WITHIN);
        self.forgets.clear();
        let until = Instant::now() + round_time();
        while Instant::now() < until {
            match self.engines {
                Some((engines, network)) => self.fail_engines(engines, network),
                None => self.fail_servers(),
            }
            let pause = self.less_than(Testbed::outage());
            std::thread::sleep(pause.min(until.saturating_duration_since(Instant::now())));
        }
        self.cluster.wait_all_ready();
        load.wait_for_orders(100, WARM_WITHIN);
        strangers.stop();
        let attempts = load.stop();
        let forgotten = |sent: Instant| {
            self.forgets.iter().any(|(from, until)| from.is_none_or(|from| sent >= from) && sent <= *until)
        };
        let forgettable =
            testbed::acceptances(&attempts).filter(|timed| forgotten(timed.sent)).count() as u64;
        let outcome = verdict::judge(&self.cluster, attempts, round);
        assert!(outcome.rejected <= forgettable, "{}: rejected of {forgettable}: {outcome:?}", self.name);
        self.orders += outcome.accepted;
    }

    /// One or two engines fail, for a while in which servers are killed.
    fn fail_engines(&mut self, engines: &Engines, network: &Network) {
        let began = Instant::now();
        let faults: Vec<Fault> = [&GATE_FAULTS[..], &BROKER_FAULTS, &LEDGER_FAULTS]
            .into_iter()
            .filter_map(|of_one_engine| {
                // Each in two of five times, so that often one fails, sometimes none and sometimes all.
                let drawn = usize::try_from(self.random.below(of_one_engine.len() as u64)).unwrap();
                (self.random.below(5) < 2).then(|| of_one_engine[drawn])
            })
            .collect();
        let silenced = self.cluster.pid(usize::try_from(self.random.below(3)).unwrap());
        for fault in &faults {
            begin(*fault, engines, network, silenced);
        }
        self.fail_servers();
        std::thread::sleep(self.less_than(Testbed::outage()));
        for fault in &faults {
            end(*fault, engines, network);
            match fault {
                Fault::RedisKilled => self.forgets.push((began.checked_sub(UNSYNCED), Instant::now())),
                Fault::RedisWiped => self.forgets.push((None, Instant::now())),
                _ => {}
            }
        }
        self.faults += faults.len() as u64;
        self.cluster.launch_ended();
    }

    /// Kills some, freezes one for a moment, or has one read its configuration again.
    fn fail_servers(&mut self) {
        let last = self.cluster.addresses().len() - 1;
        match self.random.below(4) {
            0 => {
                self.cluster.freeze(last);
                std::thread::sleep(self.less_than(FROZEN_MAX));
                self.cluster.thaw(last);
                self.faults += 1;
            }
            1 => self.cluster.reload(last),
            _ => {}
        }
        for _ in 0..self.random.below(3).min(self.killed as u64) {
            std::thread::sleep(self.less_than(BETWEEN_KILLS_MAX));
            self.cluster.launch_ended();
            self.cluster.kill_and_launch(usize::try_from(self.random.below(self.killed as u64)).unwrap());
            self.kills += 1;
        }
    }

    fn less_than(&mut self, max: Duration) -> Duration {
        Duration::from_millis(self.random.below(u64::try_from(max.as_millis()).unwrap()))
    }

    /// Of each server, the last one never killed, and of the engines.
    fn usage(&self) -> Usage {
        let servers = 0..self.cluster.addresses().len();
        let engines = ["redis", "rocketmq-broker", "mariadb"];
        let members =
            self.engines.into_iter().flat_map(|(all, _)| engines.map(|name| (name, all.member(name).pid)));
        Usage::of(members.chain(servers.map(|index| ("server", self.cluster.pid(index)))))
    }
}

fn begin(fault: Fault, engines: &Engines, network: &Network, server: u32) {
    match fault {
        Fault::RedisKilled => engines.kill("redis"),
        Fault::RedisFrozen => engines.freeze("redis"),
        Fault::RedisSilent => network.redis.set_for(server, Mode::Silent),
        Fault::RedisWiped => assert_eq!(redis_cli(engines, "redis", &["flushall"]).trim(), "OK"),
        Fault::BrokerKilled => engines.kill("rocketmq-broker"),
        Fault::BrokerFrozen => engines.freeze("rocketmq-broker"),
        Fault::BrokerMute => network.broker.set(Mode::MuteAnswers),
        Fault::LedgerKilled => engines.kill("mariadb"),
        Fault::LedgerFrozen => engines.freeze("mariadb"),
        Fault::LedgerCut => network.mariadb.set(Mode::Cut),
        Fault::CommitsUnanswered => network.mariadb.set(Mode::LoseAnswerTo(b"COMMIT")),
    }
}

fn end(fault: Fault, engines: &Engines, network: &Network) {
    match fault {
        Fault::RedisKilled => engines.up(&["redis"]),
        Fault::RedisFrozen => engines.thaw("redis"),
        Fault::RedisSilent => network.redis.set(Mode::Pass),
        Fault::RedisWiped => {}
        Fault::BrokerKilled => engines.up(&["rocketmq"]),
        Fault::BrokerFrozen => engines.thaw("rocketmq-broker"),
        Fault::BrokerMute => {
            // The connections have lost parts of what was said: they are of no use any more.
            network.broker.set(Mode::Cut);
            network.broker.set(Mode::Pass);
        }
        Fault::LedgerKilled => engines.up(&["mariadb"]),
        Fault::LedgerFrozen => engines.thaw("mariadb"),
        Fault::LedgerCut | Fault::CommitsUnanswered => network.mariadb.set(Mode::Pass),
    }
}
