//! `doorbuster bench peak` and `bench durability`: the load that is carried within a limit, and what durability costs.
//!
//! Raw arguments become checked options here. Must not: measure or judge; that is the bench crate's.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use ::bench::audit;
use ::bench::durability::{self, DurabilityOptions, Extent};
use ::bench::peak::{self, Order, PeakOptions, PeakTarget, Searched};
use ::bench::report::folder::Folder;
use ::bench::report::model::{FailedScenario, Report, Size};
use ::bench::report::thresholds::judge;
use ::bench::report::{json, summary, verdict};
use ::bench::suite;
use ::bench::target::address::{is_local, resolve};
use ::bench::target::installation::Site;
use clap::{Args, ValueEnum};

use super::compare::share;
use super::place::PlaceArguments;
use super::suite::{command_line, version};
use super::thresholds::{self, ThresholdArguments};
use super::{TOKEN_SECRET, report, signals};
use crate::failure::Failure;
use crate::output;
use crate::time::format_utc;

const STOPPED: &str = "stopped by a signal";

/// Sleeps and wake-ups alone take a good part of it.
const P99_MIN: Duration = Duration::from_millis(1);
const TRIAL_MIN: Duration = Duration::from_millis(500);

/// The demo's sale and product, which the published commands order.
const DEMO: (u64, u64) = (3, 29);
/// Of the sale that own orders are placed in at a running server, unless it is said otherwise.
const OWN_SALE: u64 = 7;

/// What a search, a price list and a comparison have in common.
#[derive(Args, Debug)]
pub(super) struct CommonArguments {
    /// A first impression: short loads, and fewer of them
    #[arg(long)]
    pub(super) quick: bool,
    /// The folder of the report; one of an earlier run is replaced when something was measured
    #[arg(long, value_name = "DIR", default_value = "bench-report")]
    out: PathBuf,
    #[command(flatten)]
    pub(super) thresholds: ThresholdArguments,
    // Last: its heading is over whatever follows.
    #[command(flatten)]
    pub(super) place: PlaceArguments,
}

/// Find the load that is carried within a latency limit, and the admission settings that follow
#[derive(Args, Debug)]
#[command(after_help = "\
Looks at the idle machine and at the generator alone, finds the closed-loop maximum, then the highest load of which
repeated trials keep the limit and the lowest of which they don't, confirms both in turn, and offers twice the peak to
see how it recovers. A refused order is not carried. An audit follows: no result without a clean one.
After a signal the report has the loads that were judged, marked as not complete, and no peak.
The settings are written to admission.toml beside the report; `doorbuster serve --config` takes them.

A running server's own audit is asked for with the operator's token in DOORBUSTER_OPERATOR_TOKEN; without it no order is
placed. Its buyers' tokens (--order own) are signed by the secret in DOORBUSTER_AUTH_TOKEN_SECRET; the sale that is
created for them stays, with its orders, so end it afterwards. A demo knows buyers by a header: it takes published orders.

A threshold is 'peak[/target]:metric>=value' with >=, <=, > or <, and times with a unit (2s). The metrics are those of the
report: highest passed, lowest failed, closed-loop maximum, recovery. A file has them as a list in TOML, as for
`bench run`. What was not measured misses it.

Exit codes: 0 a peak was found and confirmed, and every threshold is met; 1 a threshold is missed, no load is within the
limit, an audit failed or a signal came; 2 INVALID, as the first sentence says: a peak was not confirmed, the load generator
is the limit and not the target, no load could be judged, other work beside it; 64 wrong arguments; 69 something can't be started.

Examples:
  doorbuster bench peak --p99 50ms --errors 0.1%
  doorbuster bench peak --threshold 'peak:highest passed>=10000' --threshold 'peak:recovery<=5s'
  doorbuster bench peak --cluster 2 --p99 100ms
  doorbuster bench peak --quick --out first-look
  doorbuster bench peak --target-http 127.0.0.1:8080        a running `doorbuster serve --demo`
  doorbuster bench peak --target-http shop:8080 --order own --sale 900")]
pub(super) struct PeakArguments {
    /// What 99 of 100 answers must keep: 50ms, 1s; from 1ms on
    #[arg(long, value_name = "TIME", default_value = "50ms", value_parser = limit)]
    p99: Duration,
    /// Requests that may be left uncarried: failed, unknown or refused
    #[arg(long, value_name = "SHARE", default_value = "0.1%", value_parser = share)]
    errors: f64,
    /// Users of the closed loop
    #[arg(long, value_name = "N", default_value_t = 200, value_parser = clap::value_parser!(u16).range(1..))]
    users: u16,
    /// Length of each trial, longer than --p99; from 500ms on [default: 10s, with --quick 1.5s]
    #[arg(long, value_name = "TIME", value_parser = trial)]
    trial: Option<Duration>,
    /// What the times are chosen by at which requests are due: the same seed, the same times
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Search so many servers on Redis, RocketMQ and MariaDB, instead of one embedded server
    #[arg(long, value_name = "SERVERS", value_parser = clap::value_parser!(u8).range(1..), conflicts_with = "target_http")]
    cluster: Option<u8>,
    /// Search a running server, by default by the published order command for the demo's product
    #[arg(long, value_name = "ADDR", value_parser = resolve)]
    target_http: Option<SocketAddr>,
    /// How orders are placed at the running server
    #[arg(long, value_name = "ROUTE", requires = "target_http", default_value = "published")]
    order: OrderRoute,
    /// The sale at the running server: one with units enough, or with --order own a new one [default: 3, of own orders 7]
    #[arg(long, value_name = "ID", requires = "target_http")]
    sale: Option<u64>,
    /// The product in it, which published orders are for [default: 29]
    #[arg(long, value_name = "ID", requires = "target_http")]
    product: Option<u64>,
    #[command(flatten)]
    common: CommonArguments,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum OrderRoute {
    /// POST /seckillOrder/generateOrder, all by one member, as the published command has it
    Published,
    /// POST /api/v1/orders, each by another buyer with a token of its own, in a sale that is created for it
    Own,
}

/// Measure what each durability setting costs, and what SIGKILL loses under it
#[derive(Args, Debug)]
#[command(after_help = "\
Each row is a combination of the flush settings of Redis, broker, MariaDB and SQLite: orders per second, p99, and the
acknowledged orders that are gone after each process was killed in mid-load. By default each setting is changed alone.
What a power cut may lose is reasoned, not measured. No setting may lose an acknowledged order to a kill: after such a
loss no figure is printed. Rows before one that can't be measured, or before a signal, are reported, and marked as not
complete.

Rows and time on two processors: --extent quick 4, one-at-a-time 15, full 63; a row of the cluster takes a minute and
a half and 11 loads of 8 s (with --quick 6 of 2 s), so that the default is some 40 minutes and the full one three hours. The
first line printed says it for what was asked.

A threshold is 'durability[/row]:metric>=value' with >=, <=, > or <, and times with a unit (50ms). The metrics are those
of the report: throughput; p99; 'acknowledged lost, redis killed'; 'back after, redis killed', and so for broker, mariadb
and server. It is judged by the median; without a row it holds for each that has the metric. A file has them as a list in
TOML, as for `bench run`.

Exit codes: 0 measured, and every threshold is met; 1 a threshold is missed, an acknowledged order was lost, a ledger broke
an invariant or a signal came; 2 a trial is invalid (the report says why); 64 wrong arguments; 69 something can't be
started.

Examples:
  doorbuster bench durability --quick
  doorbuster bench durability --only embedded
  doorbuster bench durability --quick --threshold 'durability:back after, server killed<=10s'
  doorbuster bench durability --extent full --out prices")]
pub(super) struct DurabilityArguments {
    /// Which combinations [default: one-at-a-time, with --quick quick]
    #[arg(long, value_name = "EXTENT")]
    extent: Option<ExtentArgument>,
    /// Only the rows whose names hold TEXT: embedded, 'Redis = none', 'broker flush = async'
    #[arg(long, value_name = "TEXT")]
    only: Option<String>,
    /// Times that throughput and latency are measured in each row [default: 6, with --quick 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1000))]
    repeats: Option<u16>,
    /// Users of the closed loop
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u16).range(1..))]
    users: u16,
    #[command(flatten)]
    common: CommonArguments,
}

/// Rows of the price list.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum ExtentArgument {
    /// The default and the fastest of each profile
    Quick,
    /// The default, each setting changed alone, and both extremes
    OneAtATime,
    /// Every combination
    Full,
}

impl From<ExtentArgument> for Extent {
    fn from(extent: ExtentArgument) -> Self {
        match extent {
            ExtentArgument::Quick => Self::Quick,
            ExtentArgument::OneAtATime => Self::OneAtATime,
            ExtentArgument::Full => Self::Full,
        }
    }
}

impl PeakArguments {
    fn order(&self, token_secret: Option<String>) -> Result<Order, Failure> {
        match self.order {
            OrderRoute::Published => Ok(Order::Published {
                sale: self.sale.unwrap_or(DEMO.0),
                product: self.product.unwrap_or(DEMO.1),
            }),
            OrderRoute::Own if self.product.is_some() => Err(Failure::usage(
                "--product is for published orders: with --order own the sale is created, with one product",
            )),
            OrderRoute::Own => Ok(Order::Own {
                sale: self.sale.unwrap_or(OWN_SALE),
                token_secret: token_secret.ok_or_else(|| {
                    Failure::usage(format!(
                        "--order own signs buyers' tokens: set {TOKEN_SECRET} to the content of the server's \
                         auth.token_secret_file"
                    ))
                })?,
            }),
        }
    }
}

/// Of a running server.
#[derive(Debug)]
pub(super) struct Secrets {
    pub(super) operator_token: Option<String>,
    /// That buyers' tokens are signed by.
    pub(super) token_secret: Option<String>,
}

pub(super) fn run_peak(arguments: &PeakArguments, secrets: Secrets) -> Result<(), Failure> {
    let operator_token = secrets.operator_token;
    let target = match (arguments.cluster, arguments.target_http) {
        (Some(servers), _) => PeakTarget::Cluster { servers: servers.into() },
        (None, Some(address)) => {
            PeakTarget::Running { address, order: arguments.order(secrets.token_secret)?, operator_token }
        }
        (None, None) => PeakTarget::Embedded,
    };
    let mut options = PeakOptions::new(arguments.common.place.program()?, target);
    if arguments.common.quick {
        options = options.quick();
    }
    options.p99 = arguments.p99;
    options.errors = arguments.errors;
    options.users = arguments.users.into();
    options.trial = arguments.trial.unwrap_or(options.trial);
    options.seed = arguments.seed;
    arguments.common.locate(&mut options.site);
    options.check().map_err(|error| Failure::usage(format!("{error:#}")))?;
    let known = [(options.target.name(), peak::metrics())];
    let thresholds = arguments.common.thresholds.read_for("peak", &known)?;
    let mut begun = arguments.common.begin(&options.site.stop)?;
    // How often each load was tried depends on what came of it, and is shown beside each.
    let mut report = arguments.common.report(1, arguments.target_http.is_none_or(is_local));
    report.seed = arguments.seed;
    let found = peak::run(&options);
    options.site.progress.finish();
    let settings = match found {
        Ok(Searched { report: found, cut }) => {
            let settings = found.search.as_ref().and_then(|search| search.settings.clone());
            report.scenarios.push(found);
            if let Some(why) = cut {
                return arguments.common.give_up(report, begun, "peak", &why, &options.site.stop);
            }
            settings
        }
        Err(error) => {
            let why = format!("{error:#}");
            return arguments.common.give_up(report, begun, "peak", &why, &options.site.stop);
        }
    };
    report.thresholds = judge(&thresholds, &report);
    arguments.common.keep(&mut report, &mut begun)?;
    if let Some(config) = settings {
        let file = arguments.common.out.join("admission.toml");
        let day = &format_utc(report.started_unix_s * 1_000)[.."2026-11-20".len()];
        let config = format!("{config}measured_on = \"{day}\"\n");
        json::write_text(&config, &file).map_err(|error| Failure::usage(format!("{error:#}")))?;
        output::print(&format!("The settings that follow: {}\n", file.display()))?;
    }
    check(&report)
}

/// Figures that can't be believed weigh more than thresholds that are missed.
pub(super) fn check(report: &Report) -> Result<(), Failure> {
    let verdict = verdict::of(report);
    if verdict.is_invalid() {
        return Err(Failure::Invalid(verdict.sentence));
    }
    if verdict::nothing_passes(report) {
        return Err(Failure::check("no load was within the limit; see the loads in the report"));
    }
    thresholds::check(report)
}

pub(super) fn run_durability(arguments: &DurabilityArguments) -> Result<(), Failure> {
    let mut options = DurabilityOptions::new(arguments.common.place.program()?);
    if arguments.common.quick {
        options = options.quick();
    }
    options.extent = arguments.extent.map_or(options.extent, Extent::from);
    options.only.clone_from(&arguments.only);
    options.repeats = arguments.repeats.map_or(options.repeats, usize::from);
    options.users = arguments.users.into();
    arguments.common.locate(&mut options.site);
    let plan = options.plan();
    if plan.is_empty() {
        return Err(Failure::usage(
            "nothing would be measured: no row of this extent was asked for by --only",
        ));
    }
    let thresholds = arguments.common.thresholds.read_for("durability", &plan)?;
    let mut begun = arguments.common.begin(&options.site.stop)?;
    let mut report = arguments.common.report(options.repeats, true);
    report.scenarios.push(durability::empty());
    let ended = durability::run(&options, &mut report.scenarios[0]);
    options.site.progress.finish();
    if let Err(error) = ended {
        let error = format!("{error:#}");
        return arguments.common.give_up(report, begun, "durability", &error, &options.site.stop);
    }
    report.thresholds = judge(&thresholds, &report);
    arguments.common.keep(&mut report, &mut begun)?;
    check(&report)
}

/// When a measurement began, and where its report will be.
pub(super) struct Begun {
    at: Instant,
    folder: Folder,
}

impl CommonArguments {
    pub(super) fn locate(&self, site: &mut Site) {
        site.scripts.clone_from(&self.place.scripts);
        site.folder = self.place.data();
        site.port_base = self.place.port_base;
    }

    /// What can be found out before minutes of measuring is found out here.
    pub(super) fn begin(&self, stop: &Arc<AtomicBool>) -> Result<Begun, Failure> {
        self.place.check()?;
        let data = self.place.data();
        std::fs::create_dir_all(&data)
            .map_err(|error| Failure::usage(format!("{}: can't be made: {error}", data.display())))?;
        let folder = report::folder(&self.out)?;
        self.place.outrank()?;
        signals::begin(stop)?;
        Ok(Begun { at: Instant::now(), folder })
    }

    /// Made before anything is measured: it has the time of the start in it, and the load of the idle machine.
    pub(super) fn report(&self, repeats: usize, co_located: bool) -> Report {
        let size = if self.quick { Size::Quick } else { Size::Full };
        let about = suite::About {
            version: version(),
            command: command_line(std::env::args()),
            size,
            repeats,
            seed: 0,
            co_located,
        };
        Report { complete: true, ..suite::empty(about, &self.place.data()) }
    }

    /// An end before all was measured. What was is kept, but never after a broken audit.
    pub(super) fn give_up(
        &self,
        mut report: Report,
        mut begun: Begun,
        name: &str,
        error: &str,
        stop: &AtomicBool,
    ) -> Result<(), Failure> {
        if error.contains(audit::AUDIT_FAILED) {
            begun.folder.clear().map_err(|unremoved| Failure::check(format!("{error}\n{unremoved:#}")))?;
            return Err(Failure::check(error));
        }
        let stopped = stop.load(Ordering::Relaxed);
        let nothing = !report.has_cases();
        if stopped && nothing {
            return Err(Failure::check(format!("{STOPPED} before anything was measured")));
        }
        if nothing {
            return Err(Failure::unavailable(error));
        }
        report.complete = false;
        report.failures.push(FailedScenario { name: name.to_owned(), error: error.to_owned() });
        self.keep(&mut report, &mut begun)?;
        let kept = format!("what was measured is in {}", self.out.join("report.json").display());
        Err(if stopped {
            Failure::check(format!("{STOPPED}; {kept}"))
        } else {
            Failure::unavailable(format!("{error}; {kept}"))
        })
    }

    pub(super) fn keep(&self, report: &mut Report, begun: &mut Begun) -> Result<(), Failure> {
        report.elapsed_s = begun.at.elapsed().as_secs_f64();
        begun.folder.write(report).map_err(|error| Failure::usage(format!("{error:#}")))?;
        report::write_all(report, begun.folder.path())?;
        let place = format!("\nThe report: {}/report.html, .md, .csv and .json\n", self.out.display());
        output::print(&(summary::of_report(report) + &place))
    }
}

/// Of --p99.
fn limit(text: &str) -> Result<Duration, String> {
    at_least(P99_MIN, text, "the load generator is not that exact")
}

/// Of --trial.
fn trial(text: &str) -> Result<Duration, String> {
    at_least(TRIAL_MIN, text, "in less there are too few answers to judge a load by")
}

fn at_least(least: Duration, text: &str, why: &str) -> Result<Duration, String> {
    match time(text)? {
        time if time < least => Err(format!("at least {least:?}: {why}")),
        time => Ok(time),
    }
}

/// `50ms`, `1.5s`.
fn time(text: &str) -> Result<Duration, String> {
    let (number, unit) = text.split_at(text.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(text.len()));
    let scale = match unit {
        "us" => 1e-6,
        "ms" => 1e-3,
        "s" => 1.0,
        _ => f64::NAN,
    };
    let seconds = number.trim().parse().unwrap_or(f64::NAN) * scale;
    Duration::try_from_secs_f64(seconds)
        .ok()
        .filter(|time| !time.is_zero())
        .ok_or_else(|| "write a time with its unit, such as 50ms or 1.5s".to_owned())
}

#[cfg(test)]
mod tests;
