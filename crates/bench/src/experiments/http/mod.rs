//! The tiers that buyers reach by HTTP: pages, stock, messages and orders, as the published `ab` commands ask for them;
//! and a flash crowd of our own.
//!
//! Each on both profiles, without keep-alive as published, and with it. An audit follows everything that was stored.

mod crowd;
mod testbed;

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context, ensure};

use self::testbed::{HttpTestbed, Profile};
use super::cases::{self, Point, Run};
use super::{Engine, Scenario, ScenarioContext};
use crate::drivers::http::traffic::Traffic;
use crate::drivers::http::{Heard, Http, once};
use crate::load::schedule::Schedule;
use crate::load::{Generator, Reuse, Settings, Trial};
use crate::measure::trial;
use crate::reference::{self, File};
use crate::report::model::{Case, ScenarioReport};
use crate::target::Setup;
use crate::target::address::is_local;

const NEEDS: &[Engine] =
    &[Engine::Doorbuster, Engine::Nginx, Engine::Redis, Engine::RocketMq, Engine::MariaDb];
/// Of each tier; see [`case()`].
const METRICS: &[&str] = &[
    "throughput",
    "mean",
    "p50",
    "p95",
    "p99",
    "max",
    "failed or unknown",
    "CPU per answer, load",
    "CPU per answer, server",
    "CPU per answer, nginx",
];
/// Before the measurements of a case: a Java program that was just started is slow at first.
const WARM_UP: Duration = Duration::from_secs(2);
/// Of each load, whatever it sends: the published numbers of requests take a tenth of a second to a few.
const WINDOW_S: u64 = 5;
const QUICK_WINDOW_S: u64 = 1;

pub(super) const SCENARIOS: &[Scenario] = &[
    tier("static-page", "the static sale page, about 10 KB (ab -c 100 -n 30000)", |context| {
        run(context, &STATIC_PAGE)
    }),
    tier("product-page", "the product page for a member (ab -c 200 -n 100000)", |context| {
        run(context, &PRODUCT_PAGE)
    }),
    tier("stock", "the stock, a few bytes (ab -c 200 -n 100000)", |context| run(context, &STOCK)),
    tier(
        "message-http",
        "one message to the broker by POST /seckillOrder/pressureMQ (ab -c 20 -n 10000)",
        |context| run(context, &MESSAGE),
    ),
    tier(
        "order-http",
        "one order by POST /seckillOrder/generateOrder (ab -c 1000 -n 10000), audited",
        |context| run(context, &ORDER),
    ),
    Scenario {
        name: "flash-crowd",
        about: "a spike of buyers with retries, a hot product and bots, on a stock that does not suffice, audited",
        reference: None,
        needs: NEEDS,
        metrics: &[
            "p99 of all answers",
            "p50 of all answers",
            "orders",
            "answered sold out",
            "over the limit",
            "asked to try again",
            "further attempts",
            "gave up after the last attempt",
            "failed or unknown",
            "requests in the busiest second",
        ],
        run: crowd::run,
    },
];

const fn tier(
    name: &'static str,
    about: &'static str,
    run: fn(&ScenarioContext) -> anyhow::Result<ScenarioReport>,
) -> Scenario {
    Scenario { name, about, reference: Some("seckill-tiers.csv"), needs: NEEDS, metrics: METRICS, run }
}

#[derive(Debug)]
struct Tier {
    /// As the table calls it.
    row: &'static str,
    title: &'static str,
    connections: usize,
    /// So many were published.
    requests: u64,
    kind: Kind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Page(&'static str),
    Message,
    Order,
}

const STATIC_PAGE: Tier = Tier {
    row: "static sale page",
    title: "Static sale page",
    connections: 100,
    requests: 30_000,
    kind: Kind::Page("/seckill_3_29.html"),
};
const PRODUCT_PAGE: Tier = Tier {
    row: "product page for a member",
    title: "Product page for a member",
    connections: 200,
    requests: 100_000,
    kind: Kind::Page("/product?flashPromotionId=3&promotionProductId=29&memberId=462245"),
};
const STOCK: Tier = Tier {
    row: "stock",
    title: "Stock",
    connections: 200,
    requests: 100_000,
    kind: Kind::Page("/cache/stock?productId=29"),
};
const MESSAGE: Tier = Tier {
    row: "message by http",
    title: "Message to the broker by HTTP",
    connections: 20,
    requests: 10_000,
    kind: Kind::Message,
};
const ORDER: Tier = Tier {
    row: "order by http",
    title: "Order by HTTP",
    connections: 1000,
    requests: 10_000,
    kind: Kind::Order,
};

impl Tier {
    /// What every answer must be like, asked for once: the server may be in no state to show it between two trials.
    fn sample(&self, address: SocketAddr) -> anyhow::Result<Option<Vec<u8>>> {
        let Kind::Page(path) = self.kind else { return Ok(None) };
        let shown = once::exchange(address, &once::encode("GET", path, &[], &[])).context("the page")?;
        ensure!(shown.status == 200, "GET {path} is answered with {}", shown.text());
        Ok(Some(shown.body))
    }

    fn traffic(&self, sample: Option<&[u8]>) -> Traffic {
        match self.kind {
            Kind::Page(path) => Traffic::read(path, &[], sample),
            Kind::Message => Traffic::message(),
            Kind::Order => Traffic::published(),
        }
    }
}

fn run(context: &ScenarioContext, tier: &Tier) -> anyhow::Result<ScenarioReport> {
    let mut run = Run::new(context, tier.title);
    let seconds = if context.quick() { QUICK_WINDOW_S } else { WINDOW_S };
    run.scaled_down(format!(
        "Each load lasts {seconds} s, instead of the published {} requests.",
        tier.requests
    ));
    run.note(
        "The published runs asked nginx on a host of its own, the load came from a third one; here all share one machine.",
    );
    for &profile in Profile::of(context) {
        let names = [Reuse::PerRequest, Reuse::KeepAlive].map(|reuse| (reuse, case_name(profile, reuse)));
        if !names.iter().any(|(_, name)| context.wants(name)) {
            continue;
        }
        let demo = Setup { demo: true, settings: "", stop: &context.stop };
        let mut testbed = HttpTestbed::open(context, profile, demo)?;
        if tier.kind == Kind::Order {
            testbed.check_audited()?;
        }
        let mut cases = Vec::new();
        for (reuse, name) in names {
            if context.wants(&name) {
                let trials = measure(context, &mut testbed, tier, reuse, &name)?;
                let case = case(tier, reuse, name, trials);
                if matches!(tier.kind, Kind::Page(_)) {
                    context.keep(&case);
                }
                cases.push(case);
            }
        }
        run.report.engines.extend(testbed.engines()?);
        // The cluster's comes last, and is the stronger one.
        let audit = testbed.close().with_context(|| format!("{}, {}", tier.title, profile.name()))?;
        run.report.audit = audit.or(run.report.audit);
        // They are audited now.
        cases.into_iter().for_each(|case| run.keep(case));
    }
    Ok(run.finish(|_| Vec::new()))
}

fn case_name(profile: Profile, reuse: Reuse) -> String {
    let reuse = match reuse {
        Reuse::PerRequest => "no keep-alive",
        Reuse::KeepAlive => "keep-alive",
    };
    format!("{}, {reuse}", profile.name())
}

fn measure(
    context: &ScenarioContext,
    testbed: &mut HttpTestbed,
    tier: &Tier,
    reuse: Reuse,
    name: &str,
) -> anyhow::Result<Vec<Trial>> {
    let address = if matches!(tier.kind, Kind::Page(_)) { testbed.pages } else { testbed.orders };
    let watched = testbed.watched();
    let around = context.around(&watched, is_local(address));
    let settings = Settings { reuse, ..Settings::keep_alive(address, tier.connections) };
    let sample = tier.sample(address)?;
    let mut generator = None;
    let mut trials = Vec::new();
    for repeat in 0..=context.repeats {
        context.progress.doing(&format!("{}: {name}, {repeat} of {}", tier.title, context.repeats));
        let mut traffic = tier.traffic(sample.as_deref());
        let mut workload = Heard { inner: &mut traffic, won: |body: &[u8]| testbed.receipts.keep(body) };
        let mut http = Http { workload: &mut workload };
        if generator.is_none() {
            generator = Some(
                Generator::connect(settings.clone(), &mut http)
                    .with_context(|| format!("connecting to {address}"))?,
            );
        }
        let generator = generator.as_mut().expect("it was just made");
        // The first is a warm-up: it counts for the audit only.
        let schedule = if repeat == 0 {
            Schedule::closed(WARM_UP)
        } else {
            Schedule::closed(Duration::from_secs(if context.quick() { QUICK_WINDOW_S } else { WINDOW_S }))
        };
        trials.push(trial(generator, schedule, &mut http, repeat, around)?);
    }
    for trial in &trials {
        match tier.kind {
            Kind::Page(_) => {}
            Kind::Message => testbed.add_messages(&trial.outcomes),
            Kind::Order => testbed.answered.add(&trial.outcomes),
        }
    }
    trials.remove(0);
    let audited = if tier.kind == Kind::Order { " (not audited yet)" } else { "" };
    context.progress.done(&format!("{}: {name}: {}{audited}", tier.title, cases::shown(&trials)));
    Ok(trials)
}

/// The published figures stand beside the cases that were asked as they were: `ab` without `-k`.
fn case(tier: &Tier, reuse: Reuse, name: String, trials: Vec<Trial>) -> Case {
    let row = reference::find(File::Tiers, &[("tier", tier.row)]).filter(|_| reuse == Reuse::PerRequest);
    let mut case = Point::bar(&name, &*name).beside(row).case(trials.into(), METRICS);
    // Of the cluster: pages are answered at the edge.
    case.metrics.retain(|of| of.name != "CPU per answer, nginx" || !of.values.is_empty());
    case
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader, Write};
    use std::net::TcpListener;

    use super::*;

    /// Answers every request of its first connections with a page, and of later ones with 503.
    fn serve(listener: &TcpListener, connections: usize) {
        for (number, stream) in listener.incoming().enumerate() {
            let mut stream = stream.unwrap();
            let status = if number < connections { "200 OK" } else { "503 Busy" };
            std::thread::spawn(move || {
                let mut lines = BufReader::new(stream.try_clone().unwrap()).lines();
                while let Some(Ok(line)) = lines.next() {
                    let answer = format!("HTTP/1.1 {status}\r\nContent-Length: 4\r\n\r\npage");
                    if line.is_empty() && stream.write_all(answer.as_bytes()).is_err() {
                        return;
                    }
                }
            });
        }
    }

    #[test]
    fn the_sample_page_is_asked_for_once_a_case() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let tier = Tier { connections: 2, requests: 100, kind: Kind::Page("/page"), ..STATIC_PAGE };
        // One for the sample, and those of the load.
        std::thread::spawn(move || serve(&listener, 1 + 2));
        let folder = tempfile::tempdir().unwrap();
        let mut context = crate::experiments::context_at(address, folder.path());
        (context.repeats, context.only) = (2, Some(", keep-alive".to_owned()));
        let report = run(&context, &tier).unwrap();
        let trials = &report.cases[0].trials;
        assert!(trials.len() == 2 && trials.iter().all(|trial| trial.outcomes.served > 0), "{trials:?}");
    }

    #[test]
    fn no_order_is_placed_where_it_can_not_be_audited() {
        crate::experiments::refuses_without_token(|context| run(context, &ORDER));
    }
}
