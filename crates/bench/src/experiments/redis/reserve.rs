//! The server's own reserve script on one SKU, driven as plain commands: wins by pipeline depth, and a sale that ends.
//!
//! After each run the stock is audited: what remains, what is reserved, and what each buyer has.

use std::time::Duration;

use anyhow::ensure;

use super::case::{OF_TRIALS, Sweep, figure};
use super::server::{Subject, aof};
use crate::drivers::redis::Workload;
use crate::drivers::redis::keys::{Keys, Order};
use crate::drivers::redis::reserve::{Gate, SCRIPT};
use crate::experiments::ScenarioContext;
use crate::experiments::cases::{Point, Run};
use crate::experiments::shapes::rates;
use crate::load::Trial;
use crate::load::schedule::Schedule;
use crate::report::model::{Audit, Better, Metric, ScenarioReport};

const USERS: usize = 50;
pub(super) const DEPTHS: [usize; 4] = [1, 8, 64, 512];
const BUYERS: u64 = 1 << 40;
/// The sale that ends: units, buyers, and units per buyer.
const SALE: (u64, u64, u32) = (10_000, 20_000, 2);

pub(super) fn run(context: &ScenarioContext, sizes: &Sweep) -> anyhow::Result<ScenarioReport> {
    let mut run = Run::new(context, "Redis: the gate's reserve script");
    let subject = Subject::of(context, aof("everysec"))?;
    let mut audit = Audit {
        method: "after each run: stock in Redis, reservations counted, units of each buyer".to_owned(),
        ..Audit::default()
    };
    let (units, buyers, limit) = SALE;
    run.note(format!(
        "The script is the server's reserve.lua as this program was built with it, on a gate of its own: {USERS} \
         connections, one unit an order, every order id new. The sell-out has {units} units, {buyers} buyers and a \
         limit of {limit}: its throughput is of orders won over the whole time, refusals are under answers."
    ));
    // More than any run takes; then the sale that ends.
    let ample = |depth: &usize| {
        (Point::at("won", "orders in a pipeline", *depth as u64), *depth, (1 << 40, BUYERS, 5))
    };
    let ends = (Point::bar("sell-out", "sell-out"), 8, SALE);
    for (point, depth, (units, buyers, limit)) in sizes.at.iter().map(ample).chain([ends]) {
        let gate = Gate { tag: format!("{}gate", subject.prefix()), units, buyers, limit };
        let once = |repeat| once(context, &subject, &gate, depth, sizes.window, repeat, &mut audit);
        run.case(point, &OF_TRIALS, || context.repeat(once))?;
    }
    subject.close(&mut run)?;
    run.report.audit = Some(audit);
    let won = |depth: usize| format!("won, {depth} orders in a pipeline");
    Ok(run.finish(|cases| {
        vec![rates(cases, [&won(64), &won(1)], 1.2.., "{} times").shape(
            "pipelines of 64 reserve at least 1.2 times as often as one by one",
            "not published; 75,000/s to 128,000/s with a prototype: 1.7 times",
        )]
    }))
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
        redis.exec(&["UNLINK", key])?;
    }
    let sha: String = redis.query(&["SCRIPT", "LOAD", SCRIPT])?;
    redis.exec(&gate.making())?;
    let workload =
        Workload { depth, ..Workload::of(gate.order(&sha, 1)?, Keys::new("", 1, 1, Order::Random)?) };
    let (trial, _) = subject.session(context).run(USERS, workload, Schedule::closed(window), repeat)?;

    let [state, marks, _, buyers] = &keys;
    let remaining: u64 = redis.query(&["HGET", state, "avail"])?;
    let orders: u64 = redis.query(&["HLEN", marks])?;
    let (won, unknown) = (trial.outcomes.won, trial.outcomes.unknown);
    ensure!(
        gate.units == remaining + orders && (won..=won + unknown).contains(&orders),
        "AUDIT FAILED: of {} units {remaining} remain and {orders} are reserved; {won} buyers won, {unknown} lost their answer",
        gate.units
    );
    if gate.buyers <= SALE.1 {
        let mut sum = 0;
        for has in redis.query::<Vec<u64>>(&["HVALS", buyers])? {
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
        redis.exec(&["UNLINK", key])?;
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
