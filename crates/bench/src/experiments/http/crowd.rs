//! The flash crowd: a spike of buyers at one moment, most of them for one product, bots among them, and retries.
//!
//! Nothing published compares with it. It shows what the others can't: that a limited stock is sold to the last unit
//! and not beyond while far more ask for it than there is, and how those who get nothing are answered, and how fast.

use std::time::Duration;

use anyhow::{Context, ensure};
use serde_json::Value;

use super::testbed::{HttpTestbed, Profile};
use crate::drivers::http::buyers::{BOTS, BOTS_SHARE, Buyers, RETRIES};
use crate::drivers::http::traffic::{self, Traffic};
use crate::drivers::http::{Heard, Http};
use crate::experiments::cases::Run;
use crate::experiments::{ScenarioContext, Target, limit};
use crate::load::choice::{Hot, Random};
use crate::load::schedule::{FlashCrowd, Schedule, Spacing};
use crate::load::{Generator, Settings, Trial};
use crate::measure::trial;
use crate::report::model::{Better, Case, Metric, ScenarioReport, Shape};
use crate::report::thresholds::OF_ALL_ANSWERS;
use crate::report::trials;
use crate::target::{Setup, TOKEN_SECRET};

const SALE: u64 = 8;
const PRODUCTS: u64 = 10;
/// Of the requests, for the first product.
const HOT_SHARE: f64 = 0.8;
const WARM_UP: Duration = Duration::from_secs(5);
const WARM_UP_USERS: usize = 50;
const WARM_UP_BUYER_FIRST: u64 = 3_000_000_000;
const IN_FLIGHT_MAX: usize = 8000;
#[derive(Debug, Clone, Copy)]
struct Plan {
    crowd: FlashCrowd,
    duration: Duration,
    hot_units: u64,
    other_units: u64,
    admitted_per_s: u64,
}

impl Plan {
    fn of(context: &ScenarioContext) -> Self {
        let crowd = |base_per_s, peak_per_s, decay| FlashCrowd {
            base_per_s,
            at: Duration::from_secs(1),
            peak_per_s,
            decay: Duration::from_secs(decay),
            spacing: Spacing::Poisson,
            retries: RETRIES,
        };
        if context.quick() {
            let duration = Duration::from_secs(8);
            return Self {
                crowd: crowd(100.0, 4000.0, 2),
                duration,
                hot_units: 2000,
                other_units: 20,
                admitted_per_s: 2000,
            };
        }
        let duration = Duration::from_secs(30);
        Self {
            crowd: crowd(500.0, 10_000.0, 5),
            duration,
            hot_units: 20_000,
            other_units: 200,
            admitted_per_s: 5000,
        }
    }
}

pub(super) fn run(context: &ScenarioContext) -> anyhow::Result<ScenarioReport> {
    ensure!(
        context.target == Target::Spawn,
        "flash-crowd sells a sale of its own to the last unit, so it needs servers of its own: run it without --target-..."
    );
    let mut report = Run::new(context, "Flash crowd").report;
    let plan = Plan::of(context);
    report.notes.push(format!(
        "{} asked for {PRODUCTS} products of which the first had {} units and the others {}; {:.0}% for the first, \
         {:.0}% of the requests from {BOTS} bots, one unit each; {} orders/s admitted.",
        Schedule::flash_crowd(plan.crowd, plan.duration),
        plan.hot_units,
        plan.other_units,
        HOT_SHARE * 100.0,
        BOTS_SHARE * 100.0,
        plan.admitted_per_s
    ));
    for &profile in Profile::of(context).iter().filter(|profile| context.wants(profile.name())) {
        let mut trials = Vec::new();
        for repeat in 1..=context.repeats {
            trials.push(once(context, &mut report, profile, plan, repeat)?);
            context.keep(&case(profile, &trials));
        }
        report.cases.push(case(profile, &trials));
    }
    report.limiter = limit::of_open(&report.cases);
    Ok(report)
}

/// Each repeat has a shop of its own: a sale is sold out only once.
fn once(
    context: &ScenarioContext,
    report: &mut ScenarioReport,
    profile: Profile,
    plan: Plan,
    repeat: usize,
) -> anyhow::Result<Trial> {
    let settings = format!("[admission]\norders_per_s = {}\n", plan.admitted_per_s);
    let setup = Setup { demo: false, settings: &settings, stop: &context.stop };
    let mut testbed = HttpTestbed::open(context, profile, setup)?;
    let engines = testbed.engines()?;
    let server = engines.last().context("it is ours")?;
    server.expect("admission orders_per_s", &plan.admitted_per_s.to_string())?;
    testbed.create_sale(context, &sale(plan))?;
    warm_up(context, &mut testbed)?;
    context.progress.doing(&format!("flash crowd: {}, {repeat} of {}", profile.name(), context.repeats));
    let watched = testbed.watched();
    let settings = Settings::open_loop(testbed.orders, IN_FLIGHT_MAX);
    let choice = Hot::new(PRODUCTS, HOT_SHARE);
    let product = |random: &mut Random| 1 + choice.next(random);
    let seed = context.seed.wrapping_add(repeat as u64);
    let mut buyers = Buyers::new(SALE, product, IN_FLIGHT_MAX, seed, &mut testbed.receipts);
    let mut generator = Generator::connect(settings, &mut buyers).context("connecting")?;
    let around = context.around(&watched, true);
    let schedule = Schedule::flash_crowd(plan.crowd, plan.duration).seeded(context.seed);
    let trial = trial(&mut generator, schedule, &mut buyers, repeat, around)?;
    testbed.answered.add(&trial.outcomes);
    let left = testbed.units_left(SALE)?;
    if repeat == 1 {
        report.engines.extend(engines);
    }
    report.audit =
        testbed.close().with_context(|| format!("flash crowd, {}", profile.name()))?.or(report.audit.take());
    let won = trial.outcomes.won;
    context.progress.done(&format!("flash crowd: {}: {won} orders, {left} units left", profile.name()));
    report.shapes.push(sold_out(profile, repeat, plan, won, left, &trial));
    Ok(trial)
}

/// Orders of another sale. A shop that runs since yesterday meets its crowd; of a Java program that has just started the
/// compiler would take the processors from the crowd.
fn warm_up(context: &ScenarioContext, testbed: &mut HttpTestbed) -> anyhow::Result<()> {
    context.progress.doing("flash crowd: warming up");
    testbed.create_sale(context, &traffic::own_sale())?;
    let mut orders = Traffic::own(TOKEN_SECRET, WARM_UP_BUYER_FIRST);
    let mut kept = Heard { inner: &mut orders, won: |body: &[u8]| testbed.receipts.keep(body) };
    let mut http = Http { workload: &mut kept };
    let settings = Settings::keep_alive(testbed.orders, WARM_UP_USERS);
    let mut generator = Generator::connect(settings, &mut http).context("connecting")?;
    let record = generator.run(Schedule::closed(WARM_UP), &mut http, &context.stop)?;
    testbed.answered.add(&record.outcomes);
    Ok(())
}

fn sale(plan: Plan) -> Value {
    let item = |product: u64| {
        let units = if product == 1 { plan.hot_units } else { plan.other_units };
        traffic::item(product, &format!("Thing {product}"), units, 1)
    };
    traffic::sale_of(SALE, "Flash crowd", &(1..=PRODUCTS).map(item).collect::<Vec<_>>())
}

/// Everybody wanted one unit, and more wanted one than there were: so all must be gone, to the last.
fn sold_out(profile: Profile, repeat: usize, plan: Plan, won: u64, left: u64, trial: &Trial) -> Shape {
    let units = plan.hot_units + plan.other_units * (PRODUCTS - 1);
    // An answer that was lost may have been an order.
    let orders = won..=won + trial.outcomes.unknown;
    let exhausted = trial.outcomes.sold_out > 0;
    Shape {
        claim: format!(
            "{}, run {repeat}: each unit is sold once, and none is left while buyers wait",
            profile.name()
        ),
        published: format!("{units} units"),
        measured: format!(
            "{won} orders, {left} units left, {} were answered sold out",
            trial.outcomes.sold_out
        ),
        holds: exhausted.then(|| orders.contains(&(units - left)) && left == 0),
    }
}

fn case(profile: Profile, trials: &[Trial]) -> Case {
    type Count = fn(&Trial) -> u64;
    let counts: [(&str, Count); 8] = [
        ("orders", |trial| trial.outcomes.won),
        ("answered sold out", |trial| trial.outcomes.sold_out),
        ("over the limit", |trial| trial.outcomes.over_limit),
        ("asked to try again", |trial| trial.outcomes.limited + trial.outcomes.busy),
        ("further attempts", |trial| trial.retries),
        ("gave up after the last attempt", |trial| trial.gave_up),
        ("failed or unknown", |trial| trial.outcomes.bad()),
        ("requests in the busiest second", |trial| {
            trial
                .seconds_series
                .iter()
                .map(|second| second.good + second.refused + second.bad)
                .max()
                .unwrap_or(0)
        }),
    ];
    // Admission turns many away on purpose: the times count what they waited for that, and say so.
    let mut metrics = trials::figures(trials, &["p99", "p50"]);
    metrics.iter_mut().for_each(|metric| metric.name += OF_ALL_ANSWERS);
    metrics.extend(counts.iter().map(|(name, count)| -> Metric {
        trials::metric(name, "requests", Better::Neither, trials, |trial| count(trial) as f64)
    }));
    let name = profile.name().to_owned();
    Case { series: name.clone(), name, metrics, trials: trials.to_vec(), ..Case::default() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::record::Record;
    use crate::load::trial::Flag;
    use crate::report::{sample, thresholds};

    #[test]
    fn its_times_are_judged_though_many_are_turned_away() {
        let mut report = ScenarioReport::default();
        let schedule = Schedule::closed(Duration::from_secs(1));
        let mut trial = Trial::new(1, &schedule, &Record::default(), None);
        trial.flags.push(Flag::NotCarried { requests: 7, of: 9 });
        report.cases.push(case(Profile::Embedded, &[trial]));
        report.name = "flash-crowd".to_owned();
        let mut all = sample::report();
        all.scenarios = vec![report];
        for metric in ["p99 of all answers", "p50 of all answers"] {
            let threshold = format!("flash-crowd:{metric}<=1s").parse().unwrap();
            assert!(thresholds::judge(&[threshold], &all)[0].met, "{metric}");
        }
    }

    #[test]
    fn it_says_that_it_needs_servers_of_its_own() {
        let error = crate::experiments::refused_at_a_running_server(run);
        assert!(error.contains("needs servers of its own"), "{error}");
    }
}
