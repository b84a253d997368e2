//! One kill in mid-load: what was acknowledged, what of it is gone, and when orders are accepted again.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};

use super::combination::Victim;
use super::{DurabilityOptions, Kill};
use crate::audit::invariants::{self, Matched, STILL};
use crate::drivers::http::traffic::{OWN_SALE, OwnOrders, judge_own};
use crate::drivers::http::{Heard, Http, once};
use crate::load::mid_load::wait_for_an_order;
use crate::load::record::{Outcome, Record};
use crate::load::schedule::Schedule;
use crate::load::{Generator, RunError, Settings};
use crate::target::TOKEN_SECRET;
use crate::target::installation::Installation;
use crate::testbed::Testbed;

/// Of the load's length: where the kill falls, or once the first order is accepted if that is later.
const KILL_AT: f64 = 0.5;
const FIRST_ORDER_PATIENCE: Duration = Duration::from_secs(60);
/// The buyers who try until they are served again are numbered from here, this far apart for each kill.
const PROBE_BUYER_FIRST: u64 = 7_000_000_000;
const PROBE_BUYERS: u64 = 1_000_000;
const REST_STEP: Duration = Duration::from_millis(50);
const PROBE_PAUSE: Duration = Duration::from_millis(10);
const BACK_PATIENCE: Duration = Duration::from_secs(150);
const STILL_POLL: Duration = Duration::from_millis(500);
const DRAIN_PATIENCE: Duration = Duration::from_secs(300);

/// The answers to the buyers who tried until they were served again.
#[derive(Debug, Default)]
struct Probed {
    accepted: Vec<u8>,
    unknown: u64,
    back_after: Duration,
}

pub(super) fn kill(
    options: &DurabilityOptions,
    testbed: &mut Testbed,
    victim: Victim,
) -> anyhow::Result<Kill> {
    let first = testbed.receipts.count();
    let (record, probed) = load_and_kill(options, testbed, victim)?;
    testbed.answered.add(&record.outcomes);
    ensure!(
        record.outcomes.won > 0,
        "no order was accepted before the kill: {:?}; the first other answer was: {}",
        record.outcomes,
        record.first_surprise.as_deref().unwrap_or("none")
    );
    testbed.receipts.keep(&probed.accepted);
    testbed.answered.accepted += 1;
    testbed.answered.unknown += probed.unknown;
    let matched = settled(testbed, first, &options.site.stop)?;
    ensure!(matched.twice == 0, "AUDIT FAILED: {} orders are in the ledger twice", matched.twice);
    Ok(Kill {
        victim: victim.name(),
        acknowledged: testbed.receipts.count() - first,
        acknowledged_lost: u64::try_from(matched.lost.len())?,
        unknown: record.outcomes.unknown + probed.unknown,
        back_after_s: probed.back_after.as_secs_f64(),
    })
}

/// The load runs on a thread of its own; this one kills, starts again at once, and has a buyer try meanwhile.
fn load_and_kill(
    options: &DurabilityOptions,
    testbed: &mut Testbed,
    victim: Victim,
) -> anyhow::Result<(Record, Probed)> {
    let address = testbed.addresses()[0];
    let buyer = PROBE_BUYER_FIRST + PROBE_BUYERS * (testbed.answered.accepted % 1_000_000);
    let (mut kept, installation) = testbed.parts()?;
    let won = &AtomicBool::new(false);
    let hear = |_: &[u8]| won.store(true, Ordering::Relaxed);
    let mut http = Http { workload: &mut Heard { inner: &mut kept, won: hear } };
    let mut generator = Generator::connect(Settings::keep_alive(address, options.users), &mut http)
        .context("connecting to the server")?;
    let (finish, stop) = (&AtomicBool::new(false), &options.site.stop);
    std::thread::scope(|scope| {
        let load = scope.spawn(|| -> Result<Record, RunError> {
            let schedule = Schedule::closed(options.load + FIRST_ORDER_PATIENCE);
            generator.run_until(schedule, &mut http, finish, &mut |_| {})
        });
        wait_for_an_order(&load, options.load.mul_f64(KILL_AT), won, stop);
        let killed = Instant::now();
        let probed = kill_and_probe(victim, installation, (address, buyer), stop);
        while killed.elapsed() < options.load.mul_f64(1.0 - KILL_AT) && !stop.load(Ordering::Relaxed) {
            std::thread::sleep(REST_STEP);
        }
        // Whatever happened, the thread must end.
        finish.store(true, Ordering::Relaxed);
        let record = load.join().expect("the load does not panic")?;
        ensure!(!stop.load(Ordering::Relaxed), "stopped by a signal");
        Ok((record, probed?))
    })
}

fn kill_and_probe(
    victim: Victim,
    installation: &mut Installation,
    (address, buyer): (SocketAddr, u64),
    stop: &AtomicBool,
) -> anyhow::Result<Probed> {
    let killed = Instant::now();
    match (victim, installation) {
        (Victim::Server, installation) => {
            let server = installation.first_server();
            server.kill()?;
            server.start_again()?;
            probe(server.address(), buyer, killed, &[stop])
        }
        (Victim::Engine(member, _), Installation::Cluster { set, .. }) => {
            set.kill(member)?;
            let given_up = &AtomicBool::new(false);
            std::thread::scope(|scope| {
                let prober = scope.spawn(move || probe(address, buyer, killed, &[given_up, stop]));
                let restarted = set.up(&[member], &[], stop);
                given_up.store(restarted.is_err(), Ordering::Relaxed);
                let probed = prober.join().expect("a buyer does not panic");
                restarted?;
                probed
            })
        }
        (Victim::Engine(member, _), Installation::Embedded(_)) => bail!("no {member} in this profile"),
    }
}

/// One order after the other, each by another buyer, until one is accepted, or one of the flags is raised.
fn probe(
    address: SocketAddr,
    buyer: u64,
    killed: Instant,
    given_up: &[&AtomicBool],
) -> anyhow::Result<Probed> {
    let mut orders = OwnOrders::new(TOKEN_SECRET, OWN_SALE, buyer);
    let mut probed = Probed::default();
    while killed.elapsed() < BACK_PATIENCE {
        let waited_for = given_up.iter().all(|flag| !flag.load(Ordering::Relaxed));
        ensure!(waited_for, "nobody waits for the answer any more");
        match once::exchange(address, orders.next()) {
            Ok(answer) => match judge_own(answer.status, &answer.body) {
                Outcome::Won => {
                    probed.back_after = killed.elapsed();
                    probed.accepted = answer.body;
                    return Ok(probed);
                }
                // A refusal: certainly no order. Everything else may be one.
                Outcome::Limited | Outcome::Busy => {}
                _ => probed.unknown += 1,
            },
            Err(error) if error.kind() == std::io::ErrorKind::ConnectionRefused => {}
            Err(_) => probed.unknown += 1,
        }
        std::thread::sleep(PROBE_PAUSE);
    }
    bail!("no order is accepted {} s after the kill", BACK_PATIENCE.as_secs())
}

fn orders_now(testbed: &mut Testbed) -> anyhow::Result<u64> {
    testbed.installation()?.ledger()?.count()
}

fn look_up(testbed: &mut Testbed, first: u64) -> anyhow::Result<Matched> {
    let mut ledger = testbed.installation()?.ledger()?;
    let orders = ledger.count()?;
    invariants::compare(&mut *ledger, orders, &mut testbed.receipts, first)
}

/// What became of the receipts from number `first` on, once all are found or the ledger takes in no more.
fn settled(testbed: &mut Testbed, first: u64, stop: &AtomicBool) -> anyhow::Result<Matched> {
    let still = match testbed.installation()? {
        // Without a queue, what was acknowledged is in the ledger or is lost.
        Installation::Embedded(_) => Duration::ZERO,
        Installation::Cluster { .. } => STILL,
    };
    let begun = Instant::now();
    let (mut orders, mut grown) = (orders_now(testbed)?, Instant::now());
    loop {
        let matched = look_up(testbed, first)?;
        if matched.lost.is_empty() || grown.elapsed() >= still {
            return Ok(matched);
        }
        ensure!(!stop.load(Ordering::Relaxed), "stopped by a signal");
        ensure!(begun.elapsed() < DRAIN_PATIENCE, "the ledger still takes in orders");
        std::thread::sleep(STILL_POLL);
        let now = orders_now(testbed)?;
        if now > orders {
            (orders, grown) = (now, Instant::now());
        }
    }
}
