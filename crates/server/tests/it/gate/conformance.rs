//! The gate on Redis and on a Redis Cluster against the engine's book: generated histories, seeded.

use engine::handover::{GateSale, Snapshot};
use engine::{Command, Placement, Refusal, SkuId, UnixMs};
use server::clock::wall_clock;
use server::gate::{Gate, GateConfig, Reserve, Reserved};

use super::servers::{Cluster, Redis};
use super::shop::{BUYERS, SALE, SKUS, Shop, request};
use super::{available, build, fresh, is_taken, place};
use crate::history::Random;

const STEPS: u32 = 150;

fn any_place(random: &mut Random) -> Placement {
    let hash = random.below(60);
    // Mostly the buyer and the quantity that belong to the id, so that retries are retries; sometimes a conflict.
    let (buyer, quantity) = match random.below(12) {
        0 => (random.below(BUYERS), 1),
        1 => (hash % BUYERS, 5),
        2 => (hash % BUYERS, 0),
        _ => (hash % BUYERS, 1 + u32::try_from(hash % 3).unwrap()),
    };
    let fingerprint = if random.below(20) == 0 { 8 } else { 7 };
    request(any_sku(random), hash, buyer, quantity, fingerprint)
}

fn any_sku(random: &mut Random) -> SkuId {
    SKUS[usize::from(random.below(2) == 1)]
}

fn any_limit(random: &mut Random) -> Option<u32> {
    [None, Some(2), Some(4)][usize::try_from(random.below(3)).unwrap()]
}

fn step(random: &mut Random, shop: &mut Shop) {
    match random.below(40) {
        0..=17 => {
            let places: Vec<Placement> = (0..=random.below(6)).map(|_| any_place(random)).collect();
            shop.reserve(&places);
        }
        18..=20 => shop.settle(usize::try_from(random.below(20)).unwrap()),
        21..=25 => {
            if let Some(place) = shop.any_order(random.next()) {
                shop.cancel(place.id, place.buyer);
            }
        }
        26 => shop.expire(),
        27..=30 => {
            if let Some(place) = shop.any_order(random.next()) {
                shop.pay(place.id);
            }
        }
        31 | 32 => shop.take(any_place(random)),
        33 => shop.restock(any_sku(random), random.below(10), 1 + random.below(3)),
        34 => shop.correct(any_sku(random), random.next() >> 32, 1 + random.below(4), random.below(2) == 0),
        35 => shop.sale(Command::Pause(SALE)),
        36..=38 => shop.sale(Command::Resume(SALE)),
        _ => shop.rebuild(),
    }
}

fn run(seed: u64, gate: Gate, now: UnixMs) {
    let mut random = Random(seed);
    let mut shop = Shop::open(gate, now);
    // Not started yet; then on; at the very end over.
    shop.reserve(&[any_place(&mut random), any_place(&mut random)]);
    shop.limit_to([any_limit(&mut random), any_limit(&mut random)]);
    if random.below(2) == 0 {
        shop.rebuild();
    }
    shop.limit_to([any_limit(&mut random), any_limit(&mut random)]);
    shop.begin();
    for _ in 0..STEPS {
        step(&mut random, &mut shop);
        shop.compare();
    }
    shop.audit();
    shop.sale(Command::End(SALE));
    shop.reserve(&[any_place(&mut random), any_place(&mut random)]);
    shop.rebuild();
    shop.audit();
}

/// Names the seed of a history that fails.
struct Seed(u64);

impl Drop for Seed {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("the seed is {}", self.0);
        }
    }
}

fn histories(seeds: std::ops::Range<u64>, redis: &Redis, config: impl Fn() -> GateConfig) {
    for seed in seeds {
        let _named = Seed(seed);
        let gate = Gate::new(GateConfig { key_prefix: format!("h{seed}"), ..config() });
        run(seed, gate, redis_time(redis));
    }
}

#[test]
fn histories_on_redis_come_to_what_the_book_says() {
    histories_on(&Redis::start(&[]));
}

pub(super) fn histories_on(redis: &Redis) {
    histories(0..24, redis, || redis.config());
}

#[test]
fn histories_on_a_cluster_come_to_what_the_book_says() {
    let cluster = Cluster::start(3, 0);
    histories(100..112, &cluster.nodes[0], || cluster.config());
}

fn redis_time(redis: &Redis) -> UnixMs {
    let time: (u64, u64) = redis.command(&["TIME"]);
    UnixMs(time.0 * 1_000 + time.1 / 1_000)
}

/// What an order is answered, or `None` if it is taken.
fn answered(gate: &mut Gate, sku: SkuId, hash: u128) -> Option<Refusal> {
    match gate
        .reserve(&[Reserve { placement: place(sku, hash, 9, 1), limit: None, record: b"" }], None)
        .remove(0)
        .unwrap()
        .what
    {
        Reserved::Taken { .. } => None,
        Reserved::Refused(refusal) => Some(refusal),
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_window_is_judged_by_the_time_of_the_redis_server() {
    window_on(&Redis::start(&[]));
}

pub(super) fn window_on(redis: &Redis) {
    const HOUR_MS: u64 = 3_600_000;
    let mut gate = redis.gate();
    let now = redis_time(redis);
    let (ago, later) = (|ms| UnixMs(now.0 - ms), |ms| now.plus(ms));
    let build_with = |gate: &mut Gate, sku, starts_at, ends_at| {
        let sale = GateSale { starts_at, ends_at, ..super::on() };
        build(gate, sku, &Snapshot { sale, ..fresh(1, 1_000_000, None) });
    };
    for (number, (starts_at, ends_at, expected)) in [
        (later(HOUR_MS), later(2 * HOUR_MS), Some(Refusal::NotStarted)),
        (ago(HOUR_MS), later(HOUR_MS), None),
        (ago(2 * HOUR_MS), ago(HOUR_MS), Some(Refusal::Ended)),
    ]
    .into_iter()
    .enumerate()
    {
        let sku = SkuId(100 + u32::try_from(number).unwrap());
        build_with(&mut gate, sku, starts_at, ends_at);
        assert_eq!(answered(&mut gate, sku, 1), expected);
    }
    // To the millisecond: each answer is right at some time between a look at the clock before it and one after it.
    let (starts_at, ends_at) = (later(300), later(900));
    build_with(&mut gate, SKUS[0], starts_at, ends_at);
    let phase = |at: UnixMs| match at {
        at if at < starts_at => (0, Some(Refusal::NotStarted)),
        at if at < ends_at => (1, None),
        _ => (2, Some(Refusal::Ended)),
    };
    for hash in 0.. {
        let before = redis_time(redis);
        let answer = answered(&mut gate, SKUS[0], hash);
        let (first, last) = (phase(before), phase(redis_time(redis)));
        let right = [first, (1, None), last]
            .iter()
            .any(|(number, expected)| (first.0..=last.0).contains(number) && answer == *expected);
        assert!(right, "{answer:?} between {first:?} and {last:?}");
        if first.0 == 2 {
            break;
        }
    }
}

#[test]
fn clients_that_race_for_the_last_units_never_oversell() {
    race_on(&Redis::start(&[]));
}

pub(super) fn race_on(redis: &Redis) {
    const CLIENTS: u64 = 4;
    const STOCK: u64 = 500;
    let sku = SKUS[1];
    build(&mut redis.gate(), sku, &fresh(1, STOCK, Some(3)));
    let race = |client: u64| {
        let mut gate = redis.gate();
        let mut taken = 0;
        for round in 0..40 {
            let places = (0..20).map(|at| {
                // The same 60 buyers for all clients; half of the ids are common, too.
                let own = if at % 2 == 0 { 0 } else { 1 + client };
                place(sku, u128::from(own * 1_000_000 + round * 20 + at), (round * 20 + at) % 200, 1)
            });
            let requests: Vec<Reserve<'_>> =
                places.map(|place| Reserve { placement: place, limit: Some(3), record: b"r" }).collect();
            taken +=
                gate.reserve(&requests, Some(wall_clock())).iter().filter(|answer| is_taken(answer)).count();
        }
        taken
    };
    let taken: usize = std::thread::scope(|scope| {
        let race = &race;
        let clients: Vec<_> = (0..CLIENTS).map(|client| scope.spawn(move || race(client))).collect();
        clients.into_iter().map(|client| client.join().unwrap()).sum()
    });
    assert_eq!(taken as u64, STOCK);
    let mut gate = redis.gate();
    assert_eq!(available(&mut gate, sku), 0);
    let audit = gate.audit(sku).unwrap();
    assert_eq!((audit.fault(), audit.open_units), (None, STOCK));
    let counts: std::collections::HashMap<Vec<u8>, u64> =
        redis::cmd("HGETALL").arg("{db:00000001}:b").query(&mut redis.connect()).unwrap();
    assert!(counts.values().all(|units| *units <= 3), "{counts:?}");
}
