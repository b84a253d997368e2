//! One measurement of orders end to end: load, buyers who wait, looks at the queues, and the time until the ledger has
//! every order.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{Scope, ScopedJoinHandle};
use std::time::{Duration, Instant};

use anyhow::Context;
use serde::{Deserialize, Serialize};

use super::buyers::{BUYERS, Buyer, Seen};
use super::scenario::{Arrival, CONNECTIONS, SUSTAINED_SHARE, Scenario};
use super::shop::{DATABASE, Shop, TOPIC};
use super::watch::{Point, Queues, Watcher};
use crate::drivers::http::{Driver, Settings, Workload};
use crate::engines::EngineSet;
use crate::load::record::{LatencyUs, Outcome, Outcomes, Record, points};
use crate::load::schedule::Schedule;
use crate::usage::{Snapshot, Usage, Watched};

/// The figures of one measurement.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct OrdersSample {
    /// Of the load.
    pub seconds: f64,
    pub accepted_per_s: f64,
    /// Rows in the ledger over the time from the first order until the ledger had the last one.
    pub persisted_per_s: f64,
    /// From the end of the load until the ledger had the last order.
    pub drain_seconds: f64,
    /// Orders that were not accepted, for whatever reason, and those that were due and never sent.
    pub not_accepted: u64,
    pub first_refusal: Option<String>,
    pub outcomes: Outcomes,
    /// Before the measurement, on servers that may have just started.
    pub warm_up: Outcomes,
    pub warm_up_surprise: Option<String>,
    /// From the planned send to the answer, of all orders.
    pub accepted_us: LatencyUs,
    /// From the click of those buyers who waited for their orders: to the answer, and to the ledger.
    pub waiting_accepted_us: LatencyUs,
    pub waiting_persisted_us: LatencyUs,
    pub waiting_orders: u64,
    pub queues: Queues,
    pub usage: Usage,
}

/// What this measurement is given.
pub(super) struct OrdersContext<'a> {
    pub(super) set: &'a EngineSet,
    pub(super) shop: &'a mut Shop,
    pub(super) beside: &'a [Watched],
    pub(super) disk: Option<&'a str>,
    pub(super) window: Duration,
    pub(super) warm_up: Duration,
    pub(super) stop: &'a AtomicBool,
}

/// A load whose accepted orders are counted where others can see them.
struct Counted<'a, W> {
    inner: &'a mut W,
    accepted: &'a AtomicU64,
}

impl<W: Workload> Workload for Counted<'_, W> {
    fn request(&mut self) -> &[u8] {
        self.inner.request()
    }

    fn judge(&mut self, status: u16, body: &[u8]) -> Outcome {
        let outcome = self.inner.judge(status, body);
        if outcome == Outcome::Won {
            self.accepted.fetch_add(1, Ordering::Relaxed);
        }
        outcome
    }
}

/// What the threads of one load brought back.
struct Run {
    record: Record,
    ended: Instant,
    seen: Seen,
    points: Vec<Point>,
    usage: Usage,
}

/// `peak`: what the same servers persisted per second at their peak in this round.
pub(super) fn sample(
    context: &mut OrdersContext<'_>,
    scenario: Scenario,
    peak: Option<f64>,
) -> anyhow::Result<OrdersSample> {
    context.set.database(None)?.purge_binary_logs()?;
    let addresses = context.shop.addresses();
    let mut driver = Driver::connect(Settings::spread(addresses, CONNECTIONS)).context("connecting")?;
    let warm_up = driver.run(Schedule::closed(context.warm_up), &mut context.shop.traffic, context.stop)?;
    context.shop.answered.add(&warm_up);
    context.shop.drain()?;
    let schedule = match (scenario.arrival, peak) {
        (Arrival::Sustained, Some(peak)) => Schedule::constant(peak * SUSTAINED_SHARE, context.window),
        _ => Schedule::closed(context.window),
    };
    let rows_before = context.shop.rows()?;
    let run = load(context, &mut driver, schedule)?;
    context.shop.answered.add(&run.record);
    context.shop.answered.accepted += run.seen.placed;
    context.shop.drain()?;
    let drained = run.ended.elapsed();
    context.shop.check()?;
    let rows = context.shop.rows()? - rows_before;
    let figures = figures(run, rows, drained);
    Ok(OrdersSample { warm_up: warm_up.outcomes, warm_up_surprise: warm_up.first_surprise, ..figures })
}

fn load(context: &mut OrdersContext<'_>, driver: &mut Driver, schedule: Schedule) -> anyhow::Result<Run> {
    let addresses = context.shop.addresses();
    let mut watched = context.shop.watched();
    watched.extend(context.set.all_watched());
    watched.push(Watched::load());
    watched.extend_from_slice(context.beside);
    let metrics = Shop::metrics_request();
    let watcher = Watcher::new(context.set, DATABASE, TOPIC, addresses.clone(), metrics)?;
    let buyers = (0..BUYERS)
        .zip(addresses.iter().cycle())
        .map(|(_, server)| Buyer::new(*server, context.shop.waiting_buyer()))
        .collect::<anyhow::Result<Vec<_>>>()?;
    let (accepted, over) = (AtomicU64::new(0), AtomicBool::new(false));
    let before = Snapshot::take(&watched, context.disk)?;
    std::thread::scope(|scope| {
        let eyes = scope.spawn(|| watcher.watch(&accepted, &over));
        let buyers: Vec<_> =
            buyers.into_iter().map(|buyer| go(scope, buyer, &accepted, (&over, context.stop))).collect();
        let mut traffic = Counted { inner: &mut context.shop.traffic, accepted: &accepted };
        let record = driver.run(schedule, &mut traffic, context.stop);
        let (ended, after) = (Instant::now(), Snapshot::take(&watched, context.disk));
        // Whatever happened, the threads must end.
        over.store(true, Ordering::Relaxed);
        let mut seen = Seen::none();
        for buyer in buyers {
            seen.add(&buyer.join().expect("a buyer does not panic")?)?;
        }
        let points = eyes.join().expect("looking does not panic")?;
        Ok(Run { record: record?, ended, seen, points, usage: before.until(&after?) })
    })
}

fn go<'scope>(
    scope: &'scope Scope<'scope, '_>,
    buyer: Buyer,
    accepted: &'scope AtomicU64,
    (over, stop): (&'scope AtomicBool, &'scope AtomicBool),
) -> ScopedJoinHandle<'scope, anyhow::Result<Seen>> {
    scope.spawn(move || buyer.shop(accepted, over, stop))
}

fn figures(run: Run, rows: u64, drained: Duration) -> OrdersSample {
    let Run { record, seen, points: looks, usage, .. } = run;
    let accepted = record.outcomes.of(Outcome::Won) + seen.placed;
    let seconds = record.elapsed.as_secs_f64();
    let drain_seconds = drained.as_secs_f64();
    OrdersSample {
        seconds,
        accepted_per_s: accepted as f64 / seconds,
        persisted_per_s: rows as f64 / (seconds + drain_seconds),
        drain_seconds,
        not_accepted: record.outcomes.total() + record.unsent + seen.refused
            - record.outcomes.of(Outcome::Won),
        first_refusal: record.first_surprise.clone().or(seen.first_refusal),
        outcomes: record.outcomes,
        warm_up: Outcomes::default(),
        warm_up_surprise: None,
        accepted_us: record.response_us(),
        waiting_accepted_us: points(&seen.accepted),
        waiting_persisted_us: points(&seen.persisted),
        waiting_orders: seen.placed,
        queues: Queues::of(looks),
        usage,
    }
}
