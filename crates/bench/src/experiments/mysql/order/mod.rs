//! The published submit-order experiment on this program: the embedded profile with its ledger in MariaDB, and
//! `POST /order/submit` with random users and goods.
//!
//! First with balances of 10, which must end in exactly 10,000 orders; then, with balances that never run short, at
//! rising numbers of users, for each way to flush. A ledger that holds anything but what the buyers were answered ends it.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, ensure};
use serde_json::json;

use super::{DISK_BYTES_MAX, FLUSHES, Flush, settings, start};
use crate::audit::Answered;
use crate::audit::running::Running;
use crate::drivers::http::traffic::Traffic;
use crate::drivers::http::{Http, Settings};
use crate::experiments::cases::{Measured, Point, Run};
use crate::experiments::shapes::Judged;
use crate::experiments::{Addresses, ScenarioContext, Target as Whom, limit};
use crate::host::usage::Watched;
use crate::load::record::Outcomes;
use crate::load::schedule::Schedule;
use crate::load::{Generator, Trial};
use crate::measure::trial;
use crate::reference::{self, File};
use crate::report::model::{Audit, Better, Case, Metric, ScenarioReport, Shape};
use crate::report::statistics::median;
use crate::report::trials;
use crate::target::address::is_local;
use crate::target::engines::EngineSet;
use crate::target::engines::mariadb::Database;
use crate::target::{Setup, Target};

const DATABASE: &str = "bench_submit";
/// Of the published ones, the kind that a virtual disk of today is more like.
const DISK: &str = "ssd";
/// The published plans go up to 500 and 800; their best rates were at 100 and at 280 to 300.
const USERS: [usize; 8] = [10, 50, 100, 200, 300, 400, 500, 800];
const USERS_QUICK: [usize; 6] = [10, 50, 100, 300, 500, 800];
/// Of the run with balances of 10.
const SOLD_OUT_USERS: usize = 300;
/// The published plan asks for the goods 101 to 1100.
const GOODS: u64 = 1000;
const BALANCE: u64 = 10;
const BALANCE_AMPLE: u64 = 100_000_000;
/// The published plan's orders; and so many that each good is asked for more than 10 times in any case.
const PLAN_ORDERS: u64 = 400_000;
const PLAN_ORDERS_QUICK: u64 = 40_000;

/// Rates that differ by less than this part are the same, as far as a few windows can show.
const MARGIN: f64 = 0.05;

/// A server of ours over a database of its own.
struct Shop {
    target: Target,
    database: Database,
    answered: Answered,
    watched: Vec<Watched>,
}

impl Shop {
    fn open(context: &ScenarioContext, set: &EngineSet, folder: PathBuf) -> anyhow::Result<Self> {
        let mut database = set.database(None)?;
        database.recreate(DATABASE)?;
        database.purge_binary_logs()?;
        let ledger = set.ledger_settings(DATABASE)?;
        let setup = Setup { demo: true, settings: &ledger, stop: &context.stop };
        let target = Target::start(&context.program, &folder, setup)?;
        let mut watched = set.all_watched();
        watched.push(Watched::new("server", target.pid()));
        Ok(Self { target, database: set.database(Some(DATABASE))?, answered: Answered::default(), watched })
    }

    fn balance(&self, units: u64) -> anyhow::Result<()> {
        self.target.operate("/api/v1/demo/load", &json!({ "balance": units }), 200).map(drop)
    }

    /// The ledger must hold what the buyers were answered.
    fn add(&mut self, outcomes: &Outcomes) -> anyhow::Result<()> {
        self.answered.add(outcomes);
        self.answered.check(self.database.orders()?)
    }

    /// Every row counted again, and the program's own audit.
    fn close(mut self) -> anyhow::Result<()> {
        self.target.stop()?;
        self.answered.check(self.database.count("orders")?)?;
        self.target.audit_config()?;
        Ok(())
    }
}

pub(super) fn run(context: &ScenarioContext) -> anyhow::Result<ScenarioReport> {
    let mut run = Run::new(context, "Orders by POST /order/submit on MariaDB");
    run.scaled_down("users come in steps that are measured one by one, not one more every half second");
    run.scaled_down("users, server and database share one machine; the published load came from another one");
    run.scaled_down(
        "one kind of disk: the published experiment has a hard disk and an SSD, and these are the SSD's figures",
    );
    if context.quick() {
        run.scaled_down("steps of 2 s; 40,000 orders instead of 400,000 for the 10,000 units");
    }
    let shapes = match &context.target {
        Whom::Spawn => run_own(&mut run)?,
        Whom::Running(addresses) => run_running(&mut run, addresses)?,
    };
    run.ensure_some()?;
    Ok(run.finish(|_| shapes))
}

fn run_own(run: &mut Run<'_>) -> anyhow::Result<Vec<Shape>> {
    run.note(
        "this program commits the orders of many buyers in one transaction; the published one commits each by itself",
    );
    run.note("the ledger was compared with what buyers were answered after every step, and audited after every ramp");
    run.note("throughput counts accepted orders; each is a row in MariaDB when it is answered");
    let context = run.context;
    let set = start(context)?;
    let mut ramp = Ramp::default();
    let mut sold_out = None;
    for repeat in 1..=context.repeats {
        for flush in FLUSHES {
            flush.apply(&mut set.database(None)?)?;
            let folder = context.folder.join(format!("server-{}-{repeat}", flush.value()));
            let mut shop = Shop::open(context, &set, folder)?;
            if sold_out.is_none() && context.wants("balances of 10") {
                sold_out = Some(sell_out(context, &mut shop)?);
            }
            shop.balance(BALANCE_AMPLE)?;
            for users in steps(context, flush.name()) {
                shop.database.purge_binary_logs()?;
                let (address, watched) = (shop.target.address(), shop.watched.clone());
                let settle = |outcomes: &Outcomes| shop.add(outcomes);
                ramp.step(context, address, &watched, (flush.name(), users), repeat, settle)?;
                set.check_room(DISK_BYTES_MAX)?;
            }
            shop.close()?;
            sold_out.iter().for_each(|(case, _)| context.keep(case));
            ramp.cases(context).iter().for_each(|case| context.keep(case));
            if repeat == 1 {
                run.report.engines.push(settings(&mut set.database(None)?, flush.name())?);
            }
        }
    }
    if let Some((case, audit)) = sold_out {
        run.report.cases.push(case);
        run.report.audit = Some(audit);
    }
    run.report.cases.extend(ramp.cases(context));
    Ok(ramp.shapes())
}

fn steps(context: &ScenarioContext, series: &str) -> impl Iterator<Item = usize> {
    let steps: &'static [usize] = if context.quick() { &USERS_QUICK } else { &USERS };
    steps.iter().copied().filter(move |users| context.wants(&name(series, *users)))
}

fn connect(address: SocketAddr, users: usize, traffic: &mut Traffic) -> anyhow::Result<Generator> {
    Generator::connect(Settings::keep_alive(address, users), &mut Http { workload: traffic })
        .context("connecting to the shop")
}

/// The published plan on goods of which there are 10 each. Comes first: nothing was sold yet.
fn sell_out(context: &ScenarioContext, shop: &mut Shop) -> anyhow::Result<(Case, Audit)> {
    let requests = if context.quick() { PLAN_ORDERS_QUICK } else { PLAN_ORDERS };
    context.progress.doing("balances of 10");
    shop.balance(BALANCE)?;
    let mut traffic = Traffic::submit();
    let mut generator = connect(shop.target.address(), SOLD_OUT_USERS, &mut traffic)?;
    let around = context.around(&shop.watched, true);
    let schedule = Schedule::closed_requests(requests);
    let trial = trial(&mut generator, schedule, &mut Http { workload: &mut traffic }, 1, around)?;
    shop.add(&trial.outcomes)?;
    let orders = shop.database.count("orders")?;
    let (goods, least, most) = shop.database.units_by_sku()?;
    ensure!(
        (orders, goods, least, most) == (GOODS * BALANCE, GOODS, BALANCE, BALANCE),
        "AUDIT FAILED: {GOODS} goods of {BALANCE} units each came to {orders} orders of {goods} goods, {least} to \
         {most} of each"
    );
    context
        .progress
        .done(&format!("balances of 10: {orders} orders of {requests} requests, {most} of each good"));
    let Outcomes { won, unknown, .. } = trial.outcomes;
    let units = GOODS * BALANCE;
    let audit = Audit {
        initial_units: units,
        remaining_units: units - orders,
        held_units: 0,
        sold_units: orders,
        accepted: won,
        unknown,
        orders,
        method: "balances of 10: every row counted, by good; the orders of the ramps were counted against what was \
                 accepted, and the program's audit found every ledger clean"
            .to_owned(),
    };
    let requests_per_s = trial.outcomes.total() as f64 / trial.seconds.max(1e-9);
    let metrics = vec![
        Metric::new("orders", "orders", Better::Neither, vec![orders as f64]),
        Metric::new("requests", "1/s", Better::Higher, vec![requests_per_s]),
        Metric::new("most sold of one good", "units", Better::Neither, vec![most as f64]),
    ];
    let measured = Measured { trials: vec![trial], own: metrics, ..Measured::default() };
    Ok((Point::bar("sold out", "balances of 10").case(measured, &[]), audit))
}

#[derive(Default)]
struct Ramp {
    steps: Vec<(String, usize, Vec<Trial>)>,
}

impl Ramp {
    /// Warmed up, then measured; `settle` is handed the outcomes of both.
    fn step(
        &mut self,
        context: &ScenarioContext,
        address: SocketAddr,
        watched: &[Watched],
        (series, users): (&str, usize),
        repeat: usize,
        mut settle: impl FnMut(&Outcomes) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        let name = name(series, users);
        context.progress.doing(&name);
        let mut traffic = Traffic::submit();
        let mut generator = connect(address, users, &mut traffic)?;
        let mut http = Http { workload: &mut traffic };
        let (warm_up, window) = durations(context);
        let record = generator.run(Schedule::closed(warm_up), &mut http, &context.stop)?;
        settle(&record.outcomes)?;
        let around = context.around(watched, is_local(address));
        let trial = trial(&mut generator, Schedule::closed(window), &mut http, repeat, around)?;
        settle(&trial.outcomes).with_context(|| name.clone())?;
        // A step whose balances ran short, or whose server failed, has no figure.
        ensure!(
            trial.outcomes.won > 0 && trial.outcomes.sold_out == 0,
            "{name}: the goods ran out, or nothing was sold: {:?}, first {:?}",
            trial.outcomes,
            trial.first_surprise
        );
        context.progress.done(&format!("{name}: {:.0} orders/s", trial.good_per_s()));
        match self.steps.iter_mut().find(|step| step.0 == series && step.1 == users) {
            Some(step) => step.2.push(trial),
            None => self.steps.push((series.to_owned(), users, vec![trial])),
        }
        Ok(())
    }

    /// For each repeat of a series, the valid trial of its best rate, and its users.
    fn best(&self, series: &str) -> Vec<(Trial, usize)> {
        let steps = || self.steps.iter().filter(|step| step.0 == series);
        let trials = || steps().flat_map(|step| step.2.iter().map(|trial| (trial, step.1)));
        let mut repeats: Vec<usize> = trials().map(|(trial, _)| trial.repeat).collect();
        repeats.sort_unstable();
        repeats.dedup();
        let best = |repeat: usize| {
            trials()
                .filter(|(trial, _)| trial.repeat == repeat && trial.is_valid())
                .max_by(|a, b| a.0.good_per_s().total_cmp(&b.0.good_per_s()))
        };
        repeats.into_iter().filter_map(best).map(|(trial, users)| (trial.clone(), users)).collect()
    }

    /// The rates of valid trials by users, those of all repeats in their median.
    fn curve(&self, series: &str) -> Vec<(usize, f64)> {
        let rates = |trials: &[Trial]| -> Vec<f64> {
            trials.iter().filter(|trial| trial.is_valid()).map(Trial::good_per_s).collect()
        };
        let steps = self.steps.iter().filter(|step| step.0 == series);
        steps.filter_map(|step| Some((step.1, median(&rates(&step.2))?))).collect()
    }

    fn cases(&self, context: &ScenarioContext) -> Vec<Case> {
        let mut cases = Vec::new();
        let mut series: Vec<String> = self.steps.iter().map(|step| step.0.clone()).collect();
        series.dedup();
        for series in series.iter().filter(|_| context.only.is_none()) {
            let best = self.best(series);
            let flush = FLUSHES.into_iter().find(|flush| flush.name() == series);
            let published = flush.and_then(|flush| {
                reference::find(File::SubmitOrder, &[("disk", DISK), ("sync_binlog", flush.value())])
            });
            let values = |value: fn(&(Trial, usize)) -> f64| best.iter().map(value).collect();
            let metrics = vec![
                Metric::new("best throughput", "1/s", Better::Higher, values(|best| best.0.good_per_s())),
                Metric::new("users at the best", "users", Better::Neither, values(|best| best.1 as f64)),
            ];
            let point = Point::bar("best", format!("{series}, best")).beside(published);
            let trials = best.into_iter().map(|(trial, _)| trial).collect();
            cases.push(point.case(Measured { trials, own: metrics, ..Measured::default() }, &[]));
        }
        let case = |(series, users, trials): &(String, usize, Vec<Trial>)| {
            let failed = trials::metric("failed", "orders", Better::Lower, trials, |trial| {
                trial.outcomes.bad() as f64
            });
            let measured = Measured { trials: trials.clone(), own: vec![failed], ..Measured::default() };
            Point::at(series, "users", *users as u64)
                .case(measured, &["throughput", "mean response", "p99 response"])
        };
        cases.extend(self.steps.iter().map(case));
        cases
    }

    /// Why the rate of a step may be the generator's own ceiling.
    fn bound(&self, flush: Flush, users: usize) -> Option<String> {
        let of_step = |step: &&(String, usize, Vec<Trial>)| step.0 == flush.name() && step.1 == users;
        let trials = &self.steps.iter().find(of_step)?.2;
        trials.iter().filter(|trial| trial.is_valid()).find_map(limit::generator_bound)
    }

    fn shapes(&self) -> Vec<Shape> {
        let best = |flush: Flush| {
            let curve = self.curve(flush.name());
            curve.into_iter().max_by(|a, b| a.1.total_cmp(&b.1))
        };
        let bound_at = |flush: Flush, step: Option<(usize, f64)>| self.bound(flush, step?.0);
        let (synced, not) = (best(Flush::EachCommit), best(Flush::Never));
        let pair = synced.zip(not);
        let last = self.curve(Flush::EachCommit.name()).pop().filter(|last| last.0 == 800);
        let fall = synced.zip(last).map(|(best, last)| (best, last.1 / best.1));
        let full = bound_at(Flush::EachCommit, synced);
        let more = pair.map(|(synced, not)| {
            let times = not.1 / synced.1;
            let said = format!("{:.0}/s at best against {:.0}/s: {times:.2} times", not.1, synced.1);
            (said, times)
        });
        let close = more.as_ref().filter(|(_, times)| (times - 1.0).abs() < MARGIN);
        let close = close.map(|_| "too close to call".to_owned());
        let lower = fall.map(|(best, share)| {
            let said = format!("best at {} users; at 800, {:.0}% of that", best.0, share * 100.0);
            (said, best.0 < 500 && share <= 1.0 - MARGIN)
        });
        let more = more.map(|(said, times)| (said, times > 1.0));
        vec![
            Judged::new(more, "one of the two was not run")
                .doubted(full.clone().or_else(|| bound_at(Flush::Never, not)).or(close))
                .shape("0/0 sells faster than 1/1", "better with 0/0, on either disk"),
            Judged::new(lower, "800 users were not run")
                .doubted(full.or_else(|| bound_at(Flush::EachCommit, last)))
                .shape(
                    "with 1/1 the rate is best below 500 users, and lower by 5% at 800",
                    "best at 280 to 300 users, and it falls beyond",
                ),
        ]
    }
}

fn name(series: &str, users: usize) -> String {
    format!("{series}, {users} users")
}

fn durations(context: &ScenarioContext) -> (Duration, Duration) {
    let (warm_up, window) = if context.quick() { (500, 2_000) } else { (1_000, 10_000) };
    (Duration::from_millis(warm_up), Duration::from_millis(window))
}

/// A server that runs already: the ramp alone. Its balances are its operator's to set, and its ledger is its own to
/// audit.
fn run_running(run: &mut Run<'_>, addresses: &Addresses) -> anyhow::Result<Vec<Shape>> {
    run.note("left out, for the server is not ours: both flush settings, and balances of 10");
    let context = run.context;
    let address = addresses.http.context("no HTTP server is given: --target-http ADDRESS")?;
    let series = "as found";
    let before = Running::open(address, addresses.operator_token.as_deref(), &context.stop)?
        .reporting_to(&context.progress);
    let mut answered = Answered::default();
    let mut ramp = Ramp::default();
    for repeat in 1..=context.repeats {
        for users in steps(context, series) {
            let settle = |outcomes: &Outcomes| {
                answered.add(outcomes);
                Ok(())
            };
            ramp.step(context, address, &[], (series, users), repeat, settle)?;
        }
    }
    if let Some(url) = &addresses.mysql {
        run.report.engines.push(settings(&mut Database::open(url)?, series)?);
    }
    run.report.cases = ramp.cases(context);
    run.report.audit = Some(before.close(answered)?);
    Ok(Vec::new())
}

#[cfg(test)]
mod tests;
