//! `doorbuster bench list` and `bench run`: the suite of all experiments.
//!
//! Raw arguments become checked options here. Must not: measure or judge; that is the bench crate's.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use ::bench::experiments::{self, Addresses, Engine, Scenario, Target};
use ::bench::report::model::{Report, ScenarioReport, Size};
use ::bench::report::thresholds::Threshold;
use ::bench::report::{summary, verdict};
use ::bench::suite::{self, End, SuiteOptions};
use ::bench::target::address::{self, resolve};
use ::bench::target::engines::find_scripts;
use clap::{ArgGroup, Args};

use super::place::PlaceArguments;
use super::thresholds::{self, ThresholdArguments};
use super::{report, signals};
use crate::failure::Failure;
use crate::output;

/// Enough for intervals, and what `--full` runs.
const REPEATS_FULL: u16 = 6;

/// Run scenarios, and write their report as JSON, CSV, Markdown and HTML
#[derive(Args, Debug)]
#[command(after_help = "\
By default the servers are started with the settings under test, on loopback, in a folder that is removed; each
setting is read back from them. With --target-... options running servers are measured instead, and left as they are
but for the keys, topics, tables and orders of the scenarios: never point them at servers that hold anything of worth.

A threshold is 'scenario[/case]:metric>=value' with >=, <=, > or <; times have a unit (50ms). It is judged by the
median. Without a case it holds for each case that has the metric; a figure that was not measured misses it, and so
does a time where more than 1% of the requests were not carried (flash-crowd: 'p99 of all answers' counts those too).
A file has them as a list in TOML: thresholds = [\"redis-get-set:throughput>=10000\"].

The report is written after every scenario: the cases that were measured before a signal or a failure are kept (orders:
after their audit), and marked as not complete. A run that measures nothing leaves an earlier report as it is. After a
broken audit no score is printed.

The report and what is printed begin with a sentence to be quoted: valid or INVALID, what was measured, and how sure.
It is INVALID beside other work that took a quarter of the processors, where the load generator was the limit, and with
--full on samples of less than 3 s or 10,000 requests; figures of such short samples with --quick are not to be quoted.

Exit codes: 0 measured, and every threshold is met; 1 a threshold is missed, an audit failed or a signal came; 2 it is
INVALID, as its first sentence says; 64 wrong arguments; 69 a scenario could not be run.

Examples:
  doorbuster bench run --all --quick
  doorbuster bench run redis-get-set --only '100 ' --repeats 6 --out result
  doorbuster bench run --all --full --threshold 'redis-get-set:throughput>=40000' --threshold 'stock:p99<=50ms'
  doorbuster bench run redis-get-set --target-redis 10.0.0.5:6379")]
#[command(group = ArgGroup::new("what").args(["names", "all"]).required(true))]
pub(super) struct RunArguments {
    /// Scenarios to run: see `bench list`
    #[arg(value_name = "NAME")]
    names: Vec<String>,
    /// Run all scenarios
    #[arg(long)]
    all: bool,
    /// The same shapes in small, once: about a quarter of an hour for all on 2 cores (the default)
    #[arg(long, conflicts_with = "full")]
    quick: bool,
    /// The published sizes, six times
    #[arg(long)]
    full: bool,
    /// Times that each case is measured [default: 1, with --full 6]; intervals need 6
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1000))]
    repeats: Option<u16>,
    /// What random choices are made from: the same seed, the same requests
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Only the cases whose names hold TEXT
    #[arg(long, value_name = "TEXT")]
    only: Option<String>,
    /// The folder of the report; one of an earlier run is replaced when something was measured
    #[arg(long, value_name = "DIR", default_value = "bench-report")]
    out: PathBuf,
    #[command(flatten)]
    thresholds: ThresholdArguments,
    #[command(flatten)]
    target: TargetArguments,
    #[command(flatten)]
    place: PlaceArguments,
    /// The host may be made to swap, where a scenario is about that
    #[arg(long)]
    allow_swap: bool,
}

/// Of running servers; from the environment, so that no list of processes shows them.
#[derive(Debug)]
pub(super) struct Secrets {
    pub(super) operator_token: Option<String>,
    pub(super) redis_password: Option<String>,
}

#[derive(Args, Debug)]
#[command(next_help_heading = "Target")]
struct TargetArguments {
    /// Start the servers, with the settings under test (the default)
    #[arg(long, conflicts_with_all = ["target_http", "target_redis", "target_redis_cluster", "target_rocketmq", "target_mysql"])]
    spawn: bool,
    /// A running doorbuster; orders need the operator's token in DOORBUSTER_OPERATOR_TOKEN, for the audit
    #[arg(long, value_name = "ADDR", value_parser = resolve)]
    target_http: Option<SocketAddr>,
    /// A running Redis; its password, if it has one, is taken from DOORBUSTER_BENCH_REDIS_PASSWORD
    #[arg(long, value_name = "ADDR", value_parser = resolve)]
    target_redis: Option<SocketAddr>,
    /// Any node of a running Redis Cluster; its password likewise
    #[arg(long, value_name = "ADDR", value_parser = resolve)]
    target_redis_cluster: Option<SocketAddr>,
    /// The name server of a running RocketMQ
    #[arg(long, value_name = "ADDR", value_parser = resolve)]
    target_rocketmq: Option<SocketAddr>,
    /// A running MySQL or MariaDB: mysql://user:password@host:port/database
    #[arg(long, value_name = "URL")]
    target_mysql: Option<String>,
}

pub(super) fn list() -> Result<(), Failure> {
    let rows: Vec<[String; 4]> = experiments::all()
        .map(|scenario| {
            let needs: Vec<&str> = scenario.needs.iter().map(|engine| engine_name(*engine)).collect();
            [
                scenario.name.to_owned(),
                scenario.about.to_owned(),
                scenario.reference.unwrap_or("-").to_owned(),
                needs.join(", "),
            ]
        })
        .collect();
    let columns = ["scenario", "what it measures", "reproduces", "needs"].map(output::words);
    output::print(&output::table(columns, &rows))
}

fn engine_name(engine: Engine) -> &'static str {
    match engine {
        Engine::Redis => "redis",
        Engine::RedisCluster => "redis cluster",
        Engine::RocketMq => "rocketmq",
        Engine::MariaDb => "mariadb",
        Engine::Nginx => "nginx",
        Engine::Doorbuster => "doorbuster",
    }
}

pub(super) fn run(arguments: &RunArguments, secrets: Secrets) -> Result<(), Failure> {
    let options = options(arguments, secrets)?;
    let mut kept = report::folder(&arguments.out)?;
    arguments.place.outrank()?;
    signals::begin(&options.stop)?;
    let (report, end) =
        suite::run(&options, &mut kept).map_err(|error| Failure::unavailable(format!("{error:#}")))?;
    if end != End::AuditFailed {
        let mut text = summary::of_report(&report);
        if report.has_cases() {
            report::write_all(&report, kept.path())?;
            text += &format!("\nThe report: {}/report.html, .md, .csv and .json\n", arguments.out.display());
        } else {
            text += "\nNothing was measured, so no report is written.\n";
        }
        output::print(&text)?;
    }
    exit(&report, end, arguments.only.as_deref(), &arguments.out)
}

/// The exit code, with the reason.
fn exit(report: &Report, end: End, only: Option<&str>, out: &Path) -> Result<(), Failure> {
    let file = out.join("report.json");
    let last = || {
        report.failures.last().map(|failed| format!("{}: {}", failed.name, failed.error)).unwrap_or_default()
    };
    let nothing = !report.has_cases() && report.failures.is_empty();
    match end {
        // Whoever asked for something must not take silence for success.
        End::Met | End::Missed if nothing => Err(nothing_measured(report, only)),
        End::Met => Ok(()),
        End::Missed => thresholds::check(report),
        End::Invalid => Err(Failure::Invalid(verdict::of(report).sentence)),
        End::Unavailable => Err(Failure::unavailable(format!(
            "{} scenario(s) could not be run; the last: {}",
            report.failures.len(),
            last()
        ))),
        End::Stopped if !report.has_cases() => {
            Err(Failure::check("stopped by a signal before anything was measured"))
        }
        End::Stopped => {
            Err(Failure::check(format!("stopped by a signal; what was measured is in {}", file.display())))
        }
        // The message has AUDIT FAILED in it.
        End::AuditFailed => Err(Failure::check(format!("{}\nNo figure of this run counts.", last()))),
    }
}

/// Because nobody asked for a case that there is, or because none could be measured here: then a note says why.
fn nothing_measured(report: &Report, only: Option<&str>) -> Failure {
    let of = |scenario: &ScenarioReport| {
        scenario.notes.iter().map(|note| format!("{}: {note}", scenario.name)).collect::<Vec<_>>()
    };
    let notes = report.scenarios.iter().flat_map(of);
    let asked = only.map(|text| format!("no case was asked for by --only '{}'", output::plain(text)));
    let why: Vec<String> = asked.map_or_else(|| notes.collect(), |asked| vec![asked]);
    Failure::usage(format!("nothing was measured: {}", why.join("; ")))
}

fn options(arguments: &RunArguments, secrets: Secrets) -> Result<SuiteOptions, Failure> {
    let scenarios = chosen(arguments)?;
    arguments.place.check()?;
    let thresholds = thresholds(arguments, &scenarios)?;
    let target = target(&arguments.target, secrets)?;
    // With --only it may be cases that need no engines.
    if target == Target::Spawn
        && arguments.only.is_none()
        && let Some(scenario) = scenarios.iter().find(|scenario| scenario.needs_scripts())
    {
        find_scripts(&arguments.place.scripts)
            .map_err(|error| Failure::usage(format!("{}: {error:#}", scenario.name)))?;
    }
    let program = arguments.place.program()?;
    let size = if arguments.full { Size::Full } else { Size::Quick };
    let repeats = arguments.repeats.unwrap_or(if arguments.full { REPEATS_FULL } else { 1 });
    Ok(SuiteOptions {
        scenarios,
        size,
        repeats: repeats.into(),
        seed: arguments.seed,
        target,
        program,
        version: version(),
        command: command_line(std::env::args()),
        scripts: arguments.place.scripts.clone(),
        folder: arguments.place.data(),
        port_base: arguments.place.port_base,
        only: arguments.only.clone(),
        allow_swap: arguments.allow_swap,
        thresholds,
        stop: Arc::new(AtomicBool::new(false)),
    })
}

fn chosen(arguments: &RunArguments) -> Result<Vec<&'static Scenario>, Failure> {
    if arguments.all {
        return Ok(experiments::all().collect());
    }
    let mut chosen: Vec<&'static Scenario> = Vec::new();
    for name in &arguments.names {
        let scenario =
            experiments::find(name).ok_or_else(|| unknown(name, experiments::all().map(|of| of.name)))?;
        if chosen.iter().all(|of| of.name != scenario.name) {
            chosen.push(scenario);
        }
    }
    Ok(chosen)
}

/// A threshold of a scenario that is not run, or on a figure that it never has, could not be met: better said before
/// than after an hour. Which cases there are depends on target, size and `--only`: a case that was not measured is reported
/// at the end, with those that were.
fn thresholds(arguments: &RunArguments, scenarios: &[&'static Scenario]) -> Result<Vec<Threshold>, Failure> {
    let thresholds = arguments.thresholds.read()?;
    for threshold in &thresholds {
        let scenario = experiments::find(&threshold.scenario)
            .ok_or_else(|| unknown(&threshold.scenario, experiments::all().map(|of| of.name)))?;
        if scenarios.iter().all(|scenario| scenario.name != threshold.scenario) {
            return Err(Failure::usage(format!("'{threshold}': {} is not run", threshold.scenario)));
        }
        let metrics = scenario.metrics.iter().copied();
        if !scenario.metrics.contains(&threshold.metric.as_str()) {
            let known = format!("; there are: {}", scenario.metrics.join("; "));
            let tip = thresholds::meant(&threshold.metric, metrics, &known);
            return Err(Failure::usage(format!("'{threshold}': {} has no such metric{tip}", scenario.name)));
        }
    }
    Ok(thresholds)
}

fn unknown<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> Failure {
    let tip = thresholds::meant(name, known, "; `doorbuster bench list` shows all");
    Failure::usage(format!("there is no scenario '{}'{tip}", output::plain(name)))
}

fn target(arguments: &TargetArguments, secrets: Secrets) -> Result<Target, Failure> {
    if let Some(url) = &arguments.target_mysql {
        let wrong = |reason| Failure::usage(format!("--target-mysql {}: {reason}", without_password(url)));
        address::of_mysql(url).map_err(wrong)?;
    }
    let mut addresses = Addresses {
        http: arguments.target_http,
        redis: arguments.target_redis,
        redis_cluster: arguments.target_redis_cluster,
        rocketmq_namesrv: arguments.target_rocketmq,
        mysql: arguments.target_mysql.clone(),
        operator_token: None,
        redis_password: None,
    };
    if addresses == Addresses::default() {
        return Ok(Target::Spawn);
    }
    addresses.operator_token = secrets.operator_token;
    addresses.redis_password = secrets.redis_password;
    Ok(Target::Running(addresses))
}

pub(super) fn version() -> String {
    format!("doorbuster {}", env!("CARGO_PKG_VERSION"))
}

/// As it was called, for the report, which others read: without the password of a database.
pub(super) fn command_line(arguments: impl Iterator<Item = String>) -> Vec<String> {
    arguments.map(|argument| without_password(&argument)).collect()
}

/// `mysql://user:password@host` becomes `mysql://user:...@host`.
fn without_password(argument: &str) -> String {
    let hidden = || {
        let (before, rest) = argument.split_once("://")?;
        let (login, place) = rest.rsplit_once('@')?;
        let (user, _password) = login.split_once(':')?;
        Some(format!("{before}://{user}:...@{place}"))
    };
    hidden().unwrap_or_else(|| argument.to_owned())
}

#[cfg(test)]
mod tests {
    use std::process::ExitCode;

    use ::bench::load::record::Record;
    use ::bench::load::schedule::Schedule;
    use ::bench::report::model::{Case, FailedScenario, Flag, ThresholdResult, Trial};

    use super::*;

    #[test]
    fn secrets_go_to_running_servers_only() {
        let secrets = || Secrets { operator_token: None, redis_password: Some("a secret".to_owned()) };
        let nothing = TargetArguments {
            spawn: false,
            target_http: None,
            target_redis: None,
            target_redis_cluster: None,
            target_rocketmq: None,
            target_mysql: None,
        };
        assert_eq!(target(&nothing, secrets()).unwrap(), Target::Spawn);
        let redis = TargetArguments { target_redis: Some(([127, 0, 0, 1], 6379).into()), ..nothing };
        let Ok(Target::Running(addresses)) = target(&redis, secrets()) else { panic!("it runs already") };
        assert_eq!(addresses.redis_password.as_deref(), Some("a secret"));
    }

    #[test]
    fn every_end_has_its_exit_code() {
        let mut report = read();
        for (end, code) in [
            (End::Met, 0),
            (End::Missed, 1),
            (End::Invalid, 2),
            (End::Unavailable, 69),
            (End::Stopped, 1),
            (End::AuditFailed, 1),
        ] {
            let ended = exit(&report, end, None, Path::new("out"));
            let ended = ended.map_or_else(|failure| failure.exit_code(), |()| ExitCode::SUCCESS);
            assert_eq!(format!("{ended:?}"), format!("{:?}", ExitCode::from(code)), "{end:?}");
        }
        report.failures.clear();
        assert!(matches!(exit(&report, End::Met, None, Path::new("out")), Err(Failure::Usage(_))));
    }

    #[test]
    fn a_run_that_carried_nothing_says_so() {
        let mut report = read();
        report.failures.clear();
        let schedule = Schedule::closed_requests(9);
        let mut trial = Trial::new(1, &schedule, &Record::default(), None);
        trial.flags.push(Flag::NotCarried { requests: 9, of: 9 });
        let case = Case { name: "embedded".to_owned(), trials: vec![trial], ..Case::default() };
        report.scenarios.push(ScenarioReport {
            name: "order-http".to_owned(),
            cases: vec![case],
            ..ScenarioReport::default()
        });
        let Err(Failure::Invalid(said)) = exit(&report, End::Invalid, None, Path::new("out")) else {
            panic!("it is invalid")
        };
        assert!(
            said.starts_with("INVALID: order-http/embedded: not one request of a trial was carried"),
            "{said}"
        );
    }

    /// Nothing but a failure and a missed threshold in it.
    fn read() -> Report {
        let environment = ::bench::host::environment::Environment::read(Path::new("/"));
        Report {
            schema: String::new(),
            verdict: String::new(),
            program: String::new(),
            git_revision: None,
            command: Vec::new(),
            started_unix_s: 0,
            elapsed_s: 0.0,
            complete: true,
            size: Size::Quick,
            repeats: 1,
            seed: 1,
            environment,
            scenarios: Vec::new(),
            failures: vec![FailedScenario { name: "orders".to_owned(), error: "AUDIT FAILED".to_owned() }],
            thresholds: vec![ThresholdResult { threshold: "a:b>1".to_owned(), measured: None, met: false }],
        }
    }

    #[test]
    fn reports_hold_no_password() {
        for (argument, kept) in [
            ("mysql://root:se@cret@127.0.0.1:3306/shop", "mysql://root:...@127.0.0.1:3306/shop"),
            ("--target-mysql=mysql://root:secret@db/shop", "--target-mysql=mysql://root:...@db/shop"),
            ("mysql://root@db/shop", "mysql://root@db/shop"),
            ("--only", "--only"),
        ] {
            assert_eq!(without_password(argument), kept);
        }
    }
}
