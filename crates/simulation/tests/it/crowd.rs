//! A crowd at the gate in a time of its own: the real client and the real scripts, over a network that is slow, cuts, and brings what was
//! given up; servers that crash and freeze. Whatever happens, each unit is reserved once, and none is left.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use engine::handover::{GateSale, Snapshot};
use engine::{BuyerId, Fingerprint, OrderId, Placement, Refusal, SkuId, UnixMs};
use server::gate::{Built, Gate, GateError, Reserve, Reserved};
use server::time::{self, Instant};
use simulation::gate::{Dialect, FaultCounts, Faults, Network, Redis};
use simulation::random::Random;
use simulation::schedule::Schedule;

use crate::alone::config;
use crate::seeds::{Seed, seeds};

const SKU: SkuId = SkuId(1);
const BEGAN: UnixMs = UnixMs(1_772_323_207_251);
const UNITS: u32 = 40;
const BUYERS: u128 = 90;
const SERVERS: usize = 3;
const SERVER_THREADS: usize = 2;
/// How long the network has its faults.
const FAULTY: Duration = Duration::from_secs(5);
/// Nobody needs as much.
const OVER: Duration = Duration::from_secs(60);
const SOON: Duration = Duration::from_secs(1);
const AGAIN: Duration = Duration::from_millis(50);

/// What a server gets wrong, so that it must be found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Planted {
    Nothing,
    /// An answer that did not come is taken for a refusal.
    UnknownIsRefused,
    /// What was not answered is asked again as another order.
    AnotherKey,
}

/// What each order was answered last, by its key.
type Answers = Arc<Mutex<BTreeMap<u128, Result<Reserved, GateError>>>>;

#[derive(Debug, PartialEq, Eq)]
struct Run {
    trace: u64,
    turns: u64,
    happened: FaultCounts,
    crashes: u32,
    /// Orders that have a unit, and that have none, as they were answered last.
    reserved: usize,
    refused: usize,
    /// Units that the gate has left at the end.
    left: i64,
}

fn place(key: u128) -> Placement {
    let id = OrderId { sku: SKU, hash: key };
    Placement { id, buyer: BuyerId(key % BUYERS), quantity: 1, fingerprint: Fingerprint(7) }
}

fn ask(gate: &mut Gate, key: u128, begun: Instant) -> Result<Reserved, GateError> {
    let reserve = Reserve { placement: place(key), limit: None, record: b"record" };
    let now = BEGAN.plus(u64::try_from(begun.elapsed().as_millis()).unwrap());
    gate.reserve(&[reserve], Some(now)).remove(0).map(|answer| answer.what)
}

/// One thread of a server, with these buyers.
fn serve(network: &Network, begun: Instant, buyers: &[u128], answers: &Answers, planted: Planted) {
    let mut gate = Gate::new(config(Arc::new(network.of("crowd"))));
    for buyer in buyers {
        let mut key = *buyer;
        loop {
            let got = ask(&mut gate, key, begun);
            let unknown = matches!(got, Err(GateError::Unknown(_)));
            answers.lock().unwrap().insert(key, got.clone());
            if got.is_ok() || (unknown && planted == Planted::UnknownIsRefused) {
                break;
            }
            if unknown && planted == Planted::AnotherKey {
                key += BUYERS;
            }
            time::sleep(AGAIN);
        }
    }
}

fn open(network: &Network) {
    let mut gate = Gate::new(config(Arc::new(network.of("crowd"))));
    let sale = GateSale {
        version: 1,
        starts_at: UnixMs(0),
        ends_at: BEGAN.plus(u64::try_from(OVER.as_millis()).unwrap()),
        paused: false,
        ended: false,
    };
    let (buyers, returned_holds, marks) = (Vec::new(), Vec::new(), Vec::new());
    let available = UNITS.into();
    let snapshot = Snapshot { epoch: 1, available, sale, limit: None, buyers, returned_holds, marks };
    while !matches!(gate.build(SKU, &snapshot, &mut || ()), Ok(Built::Open(_))) {
        time::sleep(AGAIN);
    }
}

fn left(network: &Network) -> i64 {
    let mut gate = Gate::new(config(Arc::new(network.of("crowd"))));
    loop {
        match gate.states(&[SKU]).remove(0) {
            Ok(Some(state)) => return state.seen.available,
            Ok(None) => panic!("there is no gate"),
            Err(_) => time::sleep(AGAIN),
        }
    }
}

/// A run, with all that takes part in it.
struct Crowd {
    schedule: Schedule,
    random: Random,
    begun: Instant,
    network: Network,
    answers: Answers,
    planted: Planted,
    /// The buyers of each thread of each server. Some of them ask two.
    hosts: BTreeMap<String, Vec<Vec<u128>>>,
}

impl Crowd {
    fn new(seed: u64, planted: Planted) -> Crowd {
        let mut random = Random(seed);
        let schedule = Schedule::new(BEGAN, random.number());
        let redis = Redis::new(Dialect::Redis, &"1".repeat(40));
        let network = Network::new(vec![("simulated", redis)], BEGAN.0 * 1_000, random.number());
        let often = [0, 10, 40, 200];
        let [cut_before, cut_after, slow] = [(); 3].map(|()| random.of(&often));
        network.set_faults(Faults { cut_before, cut_after, slow });
        let mut hosts: BTreeMap<String, Vec<Vec<u128>>> = BTreeMap::new();
        for buyer in 0..BUYERS {
            for _ in 0..=usize::from(random.below(5) == 0) {
                let host = format!("server-{}", random.below(SERVERS));
                let threads = hosts.entry(host).or_insert_with(|| vec![Vec::new(); SERVER_THREADS]);
                threads[random.below(SERVER_THREADS)].push(buyer);
            }
        }
        let (begun, answers) = (Instant::now(), Answers::default());
        Crowd { schedule, random, begun, network, answers, planted, hosts }
    }

    fn start(&mut self, host: &str) {
        for buyers in self.hosts[host].clone() {
            let (network, answers) = (self.network.clone(), self.answers.clone());
            let (begun, planted) = (self.begun, self.planted);
            self.schedule.add(host, move || serve(&network, begun, &buyers, &answers, planted));
        }
    }

    /// Servers crash and freeze while they are asked. How many crashed.
    fn disturb(&mut self) -> u32 {
        let names: Vec<String> = self.hosts.keys().cloned().collect();
        let mut crashes = 0;
        for _ in 0..self.random.below(4) {
            let pause = Duration::from_micros(self.random.below(100_000) as u64);
            self.schedule.run(self.schedule.gone_by() + pause);
            let host = &names[self.random.below(names.len())];
            if self.random.below(2) == 0 {
                self.schedule.freeze(host, Duration::from_millis(self.random.below(4_000) as u64));
            } else {
                // Whoever was not answered asks the one that is started in its place.
                self.schedule.crash(host);
                self.start(host);
                crashes += 1;
            }
        }
        crashes
    }

    /// What the gate has left. Nothing is on its way any more.
    fn left(&mut self) -> i64 {
        let found = Arc::new(Mutex::new(None));
        let (network, finding) = (self.network.clone(), found.clone());
        self.schedule.add("operator", move || *finding.lock().unwrap() = Some(left(&network)));
        self.schedule.run(self.schedule.gone_by() + SOON);
        found.lock().unwrap().expect("the gate answers soon")
    }
}

fn run(seed: u64, planted: Planted) -> Run {
    let mut crowd = Crowd::new(seed, planted);
    let (carrier, opener) = (crowd.network.clone(), crowd.network.clone());
    crowd.schedule.add("network", move || carrier.carry());
    crowd.schedule.add("operator", move || open(&opener));
    let names: Vec<String> = crowd.hosts.keys().cloned().collect();
    names.iter().for_each(|host| crowd.start(host));
    let crashes = crowd.disturb();
    crowd.schedule.run(FAULTY);
    crowd.network.set_faults(Faults::default());
    crowd.schedule.run(OVER - SOON);
    let left = crowd.left();
    let answers = crowd.answers.lock().unwrap();
    let reserved = |answer: &&Result<Reserved, GateError>| {
        matches!(answer, Ok(Reserved::Taken { .. } | Reserved::Open(_)))
    };
    let refused =
        |answer: &&Result<Reserved, GateError>| matches!(answer, Ok(Reserved::Refused(Refusal::SoldOut)));
    Run {
        trace: crowd.schedule.trace(),
        turns: crowd.schedule.turns(),
        happened: crowd.network.happened(),
        crashes,
        reserved: answers.values().filter(reserved).count(),
        refused: answers.values().filter(refused).count(),
        left,
    }
}

/// Whether everybody was answered, and each unit was reserved for somebody who knows of it.
fn holds(run: &Run) -> bool {
    let answered = run.reserved + run.refused;
    run.left == 0 && run.reserved == UNITS as usize && answered == usize::try_from(BUYERS).unwrap()
}

#[test]
fn whatever_the_network_does_each_unit_is_reserved_once_and_none_is_left() {
    let mut all = (FaultCounts::default(), 0);
    for seed in seeds(40) {
        let _named = Seed(seed);
        let run = run(seed, Planted::Nothing);
        assert!(holds(&run), "seed {seed}: {run:?}");
        let FaultCounts { cut_before, cut_after, slow, late } = run.happened;
        all.0.cut_before += cut_before;
        all.0.cut_after += cut_after;
        all.0.slow += slow;
        all.0.late += late;
        all.1 += run.crashes;
    }
    let (FaultCounts { cut_before, cut_after, slow, late }, crashes) = all;
    assert!(
        [cut_before, cut_after, slow, late, u64::from(crashes)].iter().all(|times| *times > 0),
        "{all:?}"
    );
}

#[test]
fn a_seed_decides_everything() {
    for seed in seeds(5) {
        let _named = Seed(seed);
        assert_eq!(run(seed, Planted::Nothing), run(seed, Planted::Nothing), "seed {seed}");
    }
}

#[test]
fn a_server_that_does_wrong_is_found() {
    for planted in [Planted::UnknownIsRefused, Planted::AnotherKey] {
        assert!((0..20).any(|seed| !holds(&run(seed, planted))), "{planted:?}");
    }
}
