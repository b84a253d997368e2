//! One night of a cluster, played by one seed: servers with the real stages, the real scripts, simulated engines, people, and faults.

mod broken;
mod buyers;
mod check;
mod faults;
mod gates;
mod planted;
mod report;
mod server;
mod watch;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use ::server::intake::Reply;
use ::server::time::{self, Instant};
use engine::{
    Adjust, BuyerId, Command, ItemSpec, OrderId, Payment, ProductId, SaleId, SaleSpec, SkuId, UnixMs,
};

pub use self::broken::Broken;
use self::buyers::{Answer, Answers, People};
use self::faults::End;
pub use self::faults::{Fault, KINDS, Plan, plan};
use self::gates::Gates;
pub use self::planted::{Aim, PLANTED, Planted};
pub use self::report::report;
use self::server::Askers;
use self::watch::Watch;
use crate::gate::Network;
use crate::ledger::Database;
use crate::queue::Brokers;
use crate::random::Random;
use crate::record;
use crate::schedule::Schedule;

const SERVERS: usize = 3;
const BROKERS: [&str; 2] = ["broker-a", "broker-b"];
const QUEUES_EACH: u32 = 2;
/// The master at first, and its replica.
const REDIS: [&str; 2] = ["redis-a:6379", "redis-b:6379"];
const SENTINEL: &str = "sentinel:26379";
const BEGAN: UnixMs = UnixMs(1_772_323_207_251);
const SALE: SaleId = SaleId(1);
const SKU: SkuId = SkuId(0);
const UNITS: u64 = 30;
/// What an operator adds, once most is sold, and when.
const RESTOCK: u64 = 30;
/// What an operator calls that, and the units that are taken off.
const MORE: &str = "more";
const FEWER: &str = "fewer";
const RESTOCKED: Duration = Duration::from_secs(9);
/// Between these the sale is paused, for a moment, and a few units are taken off.
const PAUSED_MS: (usize, usize) = (5_000, 14_000);
const PAUSE_MS_MAX: usize = 2_000;
/// An operator looks so often whether it sells again.
const RESUMED: usize = 6;
const RESUMED_EVERY: Duration = Duration::from_secs(4);
const CLOCKS_LOOKED_AT_EVERY: Duration = Duration::from_secs(3);
const LIMIT: u32 = 2;
const PRICE: u64 = 4_999;
/// How long an order may be paid.
const HOLD_MS: u64 = 8_000;
const BUYERS: u128 = 60;
/// Buyers come from the first to the last second; until then everything is well.
const BUYING_S: (usize, usize) = (2, 15);
/// By then every fault is over, everybody was answered, and holds have expired.
const CALM: Duration = Duration::from_secs(55);
/// For whoever takes what is left. Who is refused asks again until the last holds, of those who were answered late, have expired.
const LATE: Duration = Duration::from_secs(20);
const ASKED_UNTIL: Duration = Duration::from_secs(15);
const ASKED_EVERY: Duration = Duration::from_secs(3);

/// Of one installation.
#[derive(Clone, Debug)]
struct Engines {
    network: Network,
    database: Database,
    brokers: Brokers,
    /// Servers ask a Sentinel where the master is; or know one address.
    behind_sentinel: bool,
    planted: Planted,
}

fn host(server: usize) -> String {
    format!("server-{server}")
}

/// What a night came to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Played {
    /// What does not hold.
    pub broken: Vec<Broken>,
    pub trace: u64,
    pub turns: u64,
    /// How often each answer was given.
    pub answers: BTreeMap<&'static str, u64>,
    /// How often what was to go wrong did.
    pub happened: BTreeMap<&'static str, u64>,
}

/// The night while it is played.
#[derive(Debug)]
struct Night {
    schedule: Schedule,
    engines: Engines,
    askers: Askers,
    people: People,
    lives: BTreeMap<usize, u64>,
    gate: Gates,
    watch: Watch,
}

/// Plays a night with these faults, the rest by the seed.
pub fn play(seed: u64, plan: &Plan, planted: Planted) -> Played {
    let mut random = Random(seed);
    let schedule = Schedule::new(BEGAN, random.number());
    record::begins();
    let (network, gate) = gates::network(planted, random.number());
    let fails_over = plan.iter().any(|(_, fault)| matches!(fault, Fault::GateFailsOver { .. }));
    let engines = Engines {
        network,
        database: Database::new(BEGAN, random.number()),
        brokers: Brokers::new(&BROKERS, QUEUES_EACH, random.number()),
        behind_sentinel: random.below(2) == 0 || fails_over,
        planted,
    };
    if !plan.iter().any(|(_, fault)| matches!(fault, Fault::LedgerFailsOver { .. })) {
        engines.database.keep_no_states();
    }
    let (askers, answers) = (Askers::default(), Arc::new(Mutex::new(Answers::default())));
    let people = People {
        askers: askers.clone(),
        answers,
        begun: Instant::now(),
        hosts: (0..SERVERS).map(host).collect(),
        price: PRICE,
    };
    let clock_is_set = plan.iter().any(|(_, fault)| fault.is_of_clock());
    let (lives, watch) = (BTreeMap::new(), Watch::new(clock_is_set));
    let mut night = Night { schedule, engines, askers, people, lives, gate, watch };
    night.open(&mut random);
    night.people_come(&mut random);
    night.operators_come(&mut random);
    night.go_through(plan);
    night.run(CALM);
    night.others_come(&mut random);
    night.run(CALM + LATE);
    night.check(plan)
}

impl Night {
    fn start(&mut self, server: usize) {
        let life = self.lives.entry(server).or_default();
        *life += 1;
        let (host, life) = (host(server), *life);
        let (engines, askers) = (self.engines.clone(), self.askers.clone());
        let name = host.clone();
        self.schedule.add(&name, move || server::start(&host, life, &engines, &askers));
    }

    /// Everything starts, and an operator creates the sale.
    fn open(&mut self, random: &mut Random) {
        let network = self.engines.network.clone();
        self.schedule.add("network", move || network.carry());
        (0..SERVERS).for_each(|server| self.start(server));
        let (people, mut random) = (self.people.clone(), Random(random.number()));
        self.schedule.add("people", move || {
            let created = people.command(&Command::CreateSale(sale()), &mut random);
            if !matches!(created, Reply::Accepted(_) | Reply::Refused(engine::Refusal::SaleExists)) {
                let what = format!("whoever creates a sale is not answered so: {created:?}");
                people.answers().wrong.push(what.into());
            }
        });
    }

    /// Operators, who ask until they are answered: units are added, the sale is paused for a moment, and some units do not exist;
    /// and one who looks at the clocks.
    fn operators_come(&mut self, random: &mut Random) {
        let restock = Command::Adjust { sku: SKU, how: Adjust::Restock, units: RESTOCK, key: MORE.into() };
        self.operator(random, RESTOCKED, move |people, random| {
            let added = people.command(&restock, random);
            if !matches!(added, Reply::Accepted(_)) {
                let what = format!("whoever adds units is not answered so: {added:?}");
                people.answers().wrong.push(what.into());
            }
        });
        let (from, to) = PAUSED_MS;
        let (paused, lasts) = (random.below(to - from) + from, random.below(PAUSE_MS_MAX));
        self.operator(random, Duration::from_millis(paused as u64), move |people, random| {
            let paused = people.command(&Command::Pause(SALE), random);
            let from = people.begun.elapsed();
            time::sleep(Duration::from_millis(lasts as u64));
            if matches!(paused, Reply::Accepted(_)) {
                people.answers().paused = Some((from, people.begun.elapsed()));
            }
            // Until it stays so: that it was resumed may be undone, and a pause that was given up on may still come.
            for _ in 0..RESUMED {
                people.command(&Command::Resume(SALE), random);
                time::sleep(RESUMED_EVERY);
            }
        });
        let (corrected, units) = (random.below(to - from) + from, 1 + random.below(3) as u64);
        let correct = Command::Adjust { sku: SKU, how: Adjust::Correct, units, key: FEWER.into() };
        self.operator(random, Duration::from_millis(corrected as u64), move |people, random| {
            people.answers().corrected.0 = units;
            let answered = people.command(&correct, random);
            people.answers().corrected.1 = matches!(answered, Reply::Accepted(_));
        });
        self.operator(random, CLOCKS_LOOKED_AT_EVERY, |people, _| {
            while people.begun.elapsed() < CALM {
                people.confirm_clocks();
                time::sleep(CLOCKS_LOOKED_AT_EVERY);
            }
        });
    }

    fn operator(
        &mut self,
        random: &mut Random,
        at: Duration,
        does: impl FnOnce(&People, &mut Random) + Send + 'static,
    ) {
        let (people, mut random) = (self.people.clone(), Random(random.number()));
        self.schedule.add("people", move || {
            time::sleep(at);
            does(&people, &mut random);
        });
    }

    fn people_come(&mut self, random: &mut Random) {
        let (first, last) = BUYING_S;
        for buyer in 0..BUYERS {
            let comes = Duration::from_millis((first * 1_000 + random.below((last - first) * 1_000)) as u64);
            let (people, mut random) = (self.people.clone(), Random(random.number()));
            self.schedule.add("people", move || {
                time::sleep(comes);
                visit(&people, buyer, &mut random);
            });
        }
    }

    fn run(&mut self, until: Duration) {
        let Night { schedule, engines, watch, .. } = self;
        schedule.run_and_look(until, |at| watch.look(engines, at));
    }

    fn go_through(&mut self, plan: &Plan) {
        let mut ends: Vec<(Duration, End)> = Vec::new();
        for (at, fault) in plan {
            self.end_until(&mut ends, *at);
            self.run(*at);
            let begun = self.begin(*fault);
            ends.extend(begun.into_iter().map(|(after, end)| (*at + Duration::from_millis(after), end)));
        }
        self.end_until(&mut ends, CALM);
    }

    fn end_until(&mut self, ends: &mut Vec<(Duration, End)>, until: Duration) {
        while let Some(next) =
            (0..ends.len()).filter(|one| ends[*one].0 <= until).min_by_key(|one| ends[*one].0)
        {
            let (at, end) = ends.remove(next);
            self.run(at);
            // Of two faults that do the same, the one that lasts longer.
            if end.undoes().is_some_and(|what| ends.iter().any(|(_, later)| later.undoes() == Some(what))) {
                continue;
            }
            let more = self.end(end);
            ends.extend(more.into_iter().map(|(after, end)| (at + Duration::from_millis(after), end)));
        }
    }

    /// Whoever takes what is left, one after the other.
    fn others_come(&mut self, random: &mut Random) {
        let (people, mut random) = (self.people.clone(), Random(random.number()));
        self.schedule.add("people", move || {
            for key in BUYERS * 10.. {
                if people.buy(key, BuyerId(key), 1, &mut random) == Answer::Ordered {
                    people.pay(order_of(key), 1, &mut random);
                } else if people.begun.elapsed() < CALM + ASKED_UNTIL {
                    time::sleep(ASKED_EVERY);
                } else {
                    break;
                }
            }
        });
    }
}

/// An order's id by its key. Small numbers name restocks at the gate.
fn order_of(key: u128) -> OrderId {
    OrderId { sku: SKU, hash: key | 1 << 100 }
}

/// Asks for another number of units under the same key first: an order is of one of the two. How many it is of.
fn buy_with_two_bodies(
    people: &People,
    key: u128,
    (buyer, quantity): (BuyerId, u32),
    random: &mut Random,
) -> (Answer, u32) {
    let first = 3 - quantity;
    match people.buy_once(key, buyer, first, random) {
        Answer::Ordered => {
            people.buy(key, buyer, quantity, random);
            (Answer::Ordered, first)
        }
        Answer::Unknown | Answer::NotServed(_) => (people.buy(key, buyer, quantity, random), quantity),
        answer => (answer, first),
    }
}

/// One of the people: wants a unit or two, and pays, or not.
fn visit(people: &People, buyer: u128, random: &mut Random) {
    let orders = 1 + random.below(3) / 2;
    for number in 0..orders as u128 {
        let (key, quantity) = (buyer + number * BUYERS, 1 + u32::from(random.below(4) == 0));
        let id = order_of(key);
        let (answer, quantity) = match buyer % 10 {
            // Without a key nobody can ask again.
            3 => (people.buy_without_key(key, BuyerId(buyer), quantity, random), quantity),
            7 => buy_with_two_bodies(people, key, (BuyerId(buyer), quantity), random),
            _ => (people.buy(key, BuyerId(buyer), quantity, random), quantity),
        };
        if answer != Answer::Ordered {
            continue;
        }
        if random.below(4) == 0 {
            people.look_at(id, BuyerId(buyer), random);
        }
        match random.below(8) {
            // Too late, perhaps.
            0 => {
                time::sleep(Duration::from_millis(HOLD_MS + random.below(4_000) as u64));
                people.pay(id, quantity, random);
            }
            1 => people.cancel(id, BuyerId(buyer), random),
            2 => {}
            _ => {
                time::sleep(Duration::from_millis(random.below(4_000) as u64));
                people.pay(id, quantity, random);
                if buyer % 10 == 5 {
                    people.refund(id, quantity - 1, random);
                }
            }
        }
    }
}

fn sale() -> SaleSpec {
    let item = ItemSpec {
        product: ProductId(1),
        title: "A thing".to_owned(),
        description: String::new(),
        price: PRICE,
        list_price: PRICE,
        total: UNITS,
        limit: Some(LIMIT),
        image: None,
        line: None,
    };
    SaleSpec {
        id: SALE,
        title: "A night".to_owned(),
        currency: "EUR".to_owned(),
        starts_at: BEGAN,
        ends_at: BEGAN.plus(24 * 3_600_000),
        payment: Payment::WithinMs(HOLD_MS),
        open_holds_per_buyer_max: None,
        items: vec![item],
    }
}
