//! The server's own reserve script on one SKU, driven as plain commands: wins by pipeline depth, and a sale that ends.
//!
//! After each run the stock is audited: what remains, what is reserved, and what each buyer has.

use std::time::Duration;

use anyhow::ensure;

use super::case::{Point, Session, figure, measure, rates};
use super::server::{Subject, aof};
use crate::drivers::redis::Workload;
use crate::drivers::redis::keys::{Keys, Order};
use crate::drivers::redis::reserve::{Gate, SCRIPT};
use crate::experiments::{ScenarioContext, empty_report, limit};
use crate::load::Trial;
use crate::load::schedule::Schedule;
use crate::report::model::{Audit, Better, Metric, ScenarioReport};

const USERS: usize = 50;
const DEPTHS: [usize; 4] = [1, 8, 64, 512];
const BUYERS: u64 = 1 << 40;
/// The sale that ends: units, buyers, and units per buyer.
const SALE: (u64, u64, u32) = (10_000, 20_000, 2);

#[derive(Debug)]
pub(super) struct Sizes {
    pub(super) window: Duration,
    pub(super) depths: Vec<usize>,
}

pub(super) fn run(context: &mut ScenarioContext) -> anyhow::Result<ScenarioReport> {
    let window = if context.quick() { Duration::from_secs(2) } else { Duration::from_secs(10) };
    run_sized(context, &Sizes { window, depths: DEPTHS.to_vec() })
}

pub(super) fn run_sized(context: &ScenarioContext, sizes: &Sizes) -> anyhow::Result<ScenarioReport> {
    let subject = Subject::of(context, aof("everysec"))?;
    let tag = format!("{}gate", subject.prefix());
    let mut audit = Audit {
        method: "after each run: stock in Redis, reservations counted, units of each buyer".to_owned(),
        ..Audit::default()
    };
    let mut cases = Vec::new();
    for depth in &sizes.depths {
        // More than any run takes.
        let gate = Gate { tag: tag.clone(), units: 1 << 40, buyers: BUYERS, limit: 5 };
        let point = Point::at("won", "orders in a pipeline", *depth as u64);
        cases.extend(measure(context, point, |repeat| {
            once(context, &subject, &gate, *depth, sizes.window, repeat, &mut audit)
        })?);
    }
    let (units, buyers, limit) = SALE;
    let gate = Gate { tag, units, buyers, limit };
    let point = Point::bar("sell-out", "sell-out".to_owned());
    cases.extend(measure(context, point, |repeat| {
        once(context, &subject, &gate, 8, sizes.window, repeat, &mut audit)
    })?);
    let engines = vec![subject.said()?];
    let won = |depth: usize| format!("won, {depth} orders in a pipeline");
    let shapes = vec![rates(
        &cases,
        "pipelines of 64 reserve at least 1.2 times as often as one by one",
        "not published; 75,000/s to 128,000/s with a prototype: 1.7 times",
        [&won(64), &won(1)],
        |ratio| ratio >= 1.2,
        |ratio| format!("{ratio:.1} times"),
    )];
    let mut notes = subject.notes();
    notes.push(format!(
        "The script is the server's reserve.lua as this program was built with it, on a gate of its own: {USERS} \
         connections, one unit an order, every order id new. The sell-out has {units} units, {buyers} buyers and a \
         limit of {limit}: its throughput is of orders won over the whole time, refusals are under answers."
    ));
    Ok(ScenarioReport {
        notes,
        engines,
        limiter: limit::of(&cases),
        cases,
        shapes,
        audit: Some(audit),
        ..empty_report("Redis: the gate's reserve script")
    })
}

fn once(
    context: &ScenarioContext,
    subject: &Subject,
    gate: &Gate,
    depth: usize,
    window: Duration,
    repeat: usize,
    audit: &mut Audit,
) -> anyhow::Result<(Trial, Vec<Metric>)> {
    let mut redis = subject.client()?;
    let keys = gate.keys();
    for key in &keys {
        redis.tell(&["UNLINK", key])?;
    }
    let sha: String = redis.ask(&["SCRIPT", "LOAD", SCRIPT])?;
    redis.tell(&gate.making())?;
    let workload =
        Workload { depth, ..Workload::of(gate.order(&sha, 1)?, Keys::new("", 1, 1, Order::Random)?) };
    let session = Session::new(context, &[subject.address()], subject.watched());
    let (trial, _) = session.run(USERS, workload, Schedule::closed(window), repeat)?;

    let [state, marks, _, buyers] = &keys;
    let remaining: u64 = redis.ask(&["HGET", state, "avail"])?;
    let orders: u64 = redis.ask(&["HLEN", marks])?;
    let (won, unknown) = (trial.outcomes.won, trial.outcomes.unknown);
    ensure!(
        gate.units == remaining + orders && (won..=won + unknown).contains(&orders),
        "AUDIT FAILED: of {} units {remaining} remain and {orders} are reserved; {won} buyers won, {unknown} lost their answer",
        gate.units
    );
    if gate.buyers <= SALE.1 {
        let mut sum = 0;
        for has in redis.ask::<Vec<u64>>(&["HVALS", buyers])? {
            ensure!(
                has <= u64::from(gate.limit),
                "AUDIT FAILED: a buyer has {has} units, over {}",
                gate.limit
            );
            sum += has;
        }
        ensure!(sum == orders, "AUDIT FAILED: buyers have {sum} units of {orders} reserved");
    }
    for key in &keys {
        redis.tell(&["UNLINK", key])?;
    }
    audit.add(&Audit {
        initial_units: gate.units,
        remaining_units: remaining,
        held_units: orders,
        accepted: won,
        unknown,
        orders,
        ..Audit::default()
    });
    let answers = trial.outcomes.total() - trial.outcomes.bad();
    let answers = answers as f64 / trial.seconds.max(1e-9);
    let figures = vec![
        figure("answers", "1/s", Better::Higher, answers),
        figure("sold out", "orders", Better::Neither, trial.outcomes.sold_out as f64),
        figure("over the limit", "orders", Better::Neither, trial.outcomes.over_limit as f64),
    ];
    Ok((trial, figures))
}
