//! An item that is sold to its line, on the embedded profile: its draw, and a whole night of it.
//!
//! Everything is checked from outside: places by a second implementation of the draw, promises by the ledger's own rows.

mod draw;
mod fairness;
mod joins;
mod judge;
mod night;
mod pages;
mod people;
mod places;
mod story;
mod wire;

use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use serde_json::{Value, json};

pub use self::draw::{DrawSizes, run as draw};
pub use self::night::{NightSizes, run as night};
use super::cases::{Measured, Point};
use super::shapes::Judged;
use super::{Engine, Scenario, ScenarioContext};
use crate::drivers::http::once;
use crate::goal::Goal;
use crate::host::ensure_free;
use crate::report::format::figure;
use crate::report::model::{Case, Shape};
use crate::target::token::unix_ms;
use crate::target::{OPERATOR_TOKEN, Setup, Target};

pub(super) const SCENARIOS: &[Scenario] = &[
    Scenario {
        name: "draw",
        about: "the draw of a line: exported, verified, found out again by a second implementation; whether draws are fair",
        reference: None,
        needs: &[Engine::Doorbuster],
        metrics: draw::METRICS,
        run: |context| draw::run(context, DrawSizes::of(context)),
    },
    Scenario {
        name: "line",
        about: "a night with a line: joins, boards beside nginx, presence, bots, turns and payments; every promise audited",
        reference: None,
        needs: &[Engine::Doorbuster, Engine::Nginx],
        metrics: night::METRICS,
        run: |context| night::run(context, NightSizes::of(context)),
    },
];

/// The item that is sold to its line.
const SALE: u64 = 70;
const PRODUCT: u64 = 5;
const PRICE: u64 = 4999;
const LINE: &str = "/api/v1/sales/70/items/5/line";
/// The sale is created so long before its start, and is then moved to where it is wanted: that closes the entries.
const AHEAD_MS: u64 = 2 * 3600 * 1000;
const CLOSE_S: u64 = 3600;
const LASTS_MS: u64 = 24 * 3600 * 1000;

/// Room on the disk that is left alone.
const ROOM_LEFT: u64 = 1 << 30;
/// Of each who joins: an entry of about 60 bytes in the log and in the ledger, its pages, and a line of the exported draw.
const ROOM_PER_PERSON: u64 = 1024;

const DRAWN_PATIENCE: Duration = Duration::from_secs(30);
const POLL: Duration = Duration::from_millis(2);

#[derive(Debug, Clone, Copy)]
struct Terms {
    units: u64,
    turn_s: u64,
    grace_s: u64,
    payment_s: u64,
}

#[derive(Debug, Clone)]
struct Shown(Value);

impl Shown {
    fn text(&self, field: &str) -> anyhow::Result<&str> {
        self.0[field].as_str().with_context(|| format!("the draw has no {field}: {}", self.0))
    }

    fn hash(&self, field: &str) -> anyhow::Result<places::Hash> {
        places::hash_of(self.text(field)?)
    }

    fn entries(&self) -> anyhow::Result<u32> {
        let entries = self.0["entries"].as_u64().and_then(|entries| u32::try_from(entries).ok());
        entries.with_context(|| format!("the draw has no entries: {}", self.0))
    }
}

/// A server of our own in a folder of the scenario, with the sale.
fn open(context: &ScenarioContext, folder: &str, terms: Terms) -> anyhow::Result<Target> {
    context.progress.doing("starting a server");
    let folder = context.folder.join(folder);
    std::fs::create_dir(&folder).context("the server's folder")?;
    let setup = Setup { demo: false, settings: "", stop: &context.stop };
    let server = Target::start(&context.program, &folder, setup)?;
    let starts_at_ms = unix_ms() + AHEAD_MS;
    let sale = json!({
        "id": SALE, "title": "Line", "currency": "EUR",
        "starts_at_ms": starts_at_ms, "ends_at_ms": starts_at_ms + LASTS_MS, "payment_s": terms.payment_s,
        "items": [{
            "product": PRODUCT, "title": "Awaited thing", "price": PRICE, "total": terms.units, "limit": 1,
            "line": {"units": 1, "turn_s": terms.turn_s, "grace_s": terms.grace_s, "close_s": CLOSE_S},
        }],
    });
    server.operate("/api/v1/sales", &sale, 201)?;
    Ok(server)
}

/// Removes the data of a server that was stopped: a repeat has the disk for itself.
fn remove(server: Target) -> anyhow::Result<()> {
    let data_dir = server.data_dir();
    drop(server);
    std::fs::remove_dir_all(data_dir).context("removing the server's data")
}

/// Moves the start nearer than the close is before it, so that the entries close at once; when it starts.
fn close_entries(server: &Target, starts_in: Duration, lasts: Duration) -> anyhow::Result<u64> {
    let in_ms = |time: Duration| u64::try_from(time.as_millis()).expect("a night has few milliseconds");
    let starts_at_ms = unix_ms() + in_ms(starts_in);
    let times = json!({"starts_at_ms": starts_at_ms, "ends_at_ms": starts_at_ms + in_ms(lasts)});
    let path = format!("/api/v1/sales/{SALE}");
    let request = once::operating(OPERATOR_TOKEN, "PATCH", &path, times.to_string().as_bytes());
    server.exchange(&request, 200)?;
    Ok(starts_at_ms)
}

fn read(server: &Target, path: &str) -> anyhow::Result<Value> {
    let answer = server.exchange(&once::encode("GET", path, &[], &[]), 200)?;
    serde_json::from_slice(&answer.body).with_context(|| path.to_owned())
}

fn shown(server: &Target) -> anyhow::Result<Shown> {
    read(server, &format!("{LINE}/draw")).map(Shown)
}

fn drawn(context: &ScenarioContext, server: &Target) -> anyhow::Result<Shown> {
    let begun = Instant::now();
    loop {
        let draw = shown(server)?;
        if draw.text("state")? == "drawn" {
            return Ok(draw);
        }
        ensure!(begun.elapsed() < DRAWN_PATIENCE, "the places are not drawn: {}", draw.0);
        context.ensure_running()?;
        std::thread::sleep(POLL);
    }
}

/// Says before how much of the disk it needs at most.
fn check(context: &ScenarioContext, people: u32) -> anyhow::Result<()> {
    context.ensure_spawned()?;
    let taken = u64::from(people) * ROOM_PER_PERSON;
    let said = figure(taken as f64, "bytes");
    let needed =
        format!("{people} people need {said}, beside {} that stay free", figure(ROOM_LEFT as f64, "bytes"));
    ensure_free(&context.folder, taken + ROOM_LEFT, &needed)?;
    context.progress.done(&format!("{people} people, at most {said} of the disk"));
    Ok(())
}

fn case(figures: &Measured, name: &str) -> Case {
    Point::bar(name, name).case(figures.clone(), &[])
}

/// What is expected of the worst of a figure's values; `None`: it can't be judged, and why.
fn shape(case: &Case, name: &str, goal: Goal, doubt: Option<String>) -> Option<Shape> {
    let metric = case.metrics.iter().find(|metric| metric.name == name)?;
    let worst = match goal {
        Goal::AtMost(_) => metric.values.iter().copied().reduce(f64::max),
        Goal::AtLeast(_) => metric.values.iter().copied().reduce(f64::min),
    };
    let judged = worst.map(|worst| (figure(worst, &metric.unit), goal.met(worst)));
    Some(Judged::new(judged, "no valid measurement").doubted(doubt).shape(
        &format!("{}: {name} {}", case.name, goal.said(&metric.unit)),
        "not published: what we expect of ourselves",
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::model::Better;

    #[test]
    fn the_worst_of_the_repeats_is_judged() {
        let mut figures = Measured::default();
        for value in [1.0, 3.0, 2.0] {
            figures.add_value(("wait", "s", Better::Lower), value);
        }
        let case = case(&figures, "night");
        let holds =
            |goal, doubt: Option<&str>| shape(&case, "wait", goal, doubt.map(str::to_owned)).unwrap().holds;
        assert_eq!(holds(Goal::AtMost(3.0), None), Some(true));
        assert_eq!(holds(Goal::AtMost(2.9), None), Some(false));
        assert_eq!(holds(Goal::AtLeast(1.5), None), Some(false));
        assert_eq!(holds(Goal::AtMost(2.9), Some("too few")), None);
        assert!(shape(&case, "other", Goal::AtMost(1.0), None).is_none());
    }

    #[test]
    fn they_measure_servers_of_their_own_alone() {
        for scenario in SCENARIOS {
            let error = crate::experiments::refused_at_a_running_server(scenario.run);
            assert!(error.contains("starts all that it measures itself"), "{error}");
        }
    }
}
