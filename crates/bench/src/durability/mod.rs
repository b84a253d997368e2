//! The price list of durability: `doorbuster bench durability`.
//!
//! For each combination of flush settings: what it carries, how long buyers wait, and what is gone after SIGKILL of
//! each process in mid-load, every acknowledged order looked up by its id. What a *power cut* would risk can't be measured
//! here; it is reasoned, and labelled so. The rows are the default, each setting changed alone, and both extremes:
//! the full product is asked for with [`Extent::Full`]. It must not print: the caller does.

mod combination;
mod crash;

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};

use self::combination::Combination;
use crate::audit::AUDIT_FAILED;
use crate::load::Trial;
use crate::load::schedule::Schedule;
use crate::measure::LATENCY_LIMIT;
use crate::report::figures::KILLED;
use crate::report::model::{Audit, Better, Case, Metric, ScenarioReport};
use crate::report::trials::figures;
use crate::target::engines::find_scripts;
use crate::target::installation::{Installation, Site};
use crate::testbed::{Load, Testbed};

pub use self::combination::Extent;

/// Of a row, besides its loads: as measured on two processors.
const EMBEDDED_BESIDES: Duration = Duration::from_secs(3);
const CLUSTER_BESIDES: Duration = Duration::from_secs(90);
const WITHOUT_MARIADB: &str = "Back after: until an order was accepted. That needs no MariaDB: orders wait in the broker, \
                               pending, until it is there again.";

/// Name, unit and direction of each figure of a kill.
const KILL: [(&str, &str, Better); 4] = [
    ("acknowledged", "orders", Better::Neither),
    ("acknowledged lost", "orders", Better::Lower),
    ("unknown", "orders", Better::Neither),
    ("back after", "s", Better::Lower),
];

/// `back after, redis killed`.
fn of_kill(metric: &str, victim: &str) -> String {
    format!("{metric}, {victim}{KILLED}")
}

/// What was lost when one process was killed.
#[derive(Debug)]
struct Kill {
    victim: &'static str,
    acknowledged: u64,
    acknowledged_lost: u64,
    unknown: u64,
    /// From the kill until an order was accepted again.
    back_after_s: f64,
}

#[derive(Debug)]
pub struct DurabilityOptions {
    pub extent: Extent,
    /// Only the rows whose names hold this text: `embedded`, `Redis = none`, `flush = async`.
    pub only: Option<String>,
    /// Times that throughput and latency are measured in each row.
    pub repeats: usize,
    /// Length of each of these, and of each load in the middle of which a process is killed.
    pub load: Duration,
    pub users: usize,
    pub site: Site,
}

impl DurabilityOptions {
    pub fn new(program: PathBuf) -> Self {
        Self {
            extent: Extent::OneAtATime,
            only: None,
            repeats: 6,
            load: Duration::from_secs(8),
            users: 100,
            site: Site::new(program),
        }
    }

    /// Few rows, short loads, one repeat.
    pub fn quick(self) -> Self {
        Self { extent: Extent::Quick, repeats: 1, load: Duration::from_secs(2), ..self }
    }

    fn rows(&self) -> Vec<Combination> {
        let asked =
            |row: &Combination| self.only.as_ref().is_none_or(|only| row.name().contains(only.as_str()));
        Combination::all(self.extent).into_iter().filter(asked).collect()
    }

    /// What will be measured: the name of each row, and its metrics.
    pub fn plan(&self) -> Vec<(String, Vec<String>)> {
        let metrics = |row: &Combination| {
            let of_kills =
                row.victims().iter().flat_map(|victim| KILL.map(|(of, ..)| of_kill(of, victim.name())));
            ["throughput", "p99"].map(str::to_owned).into_iter().chain(of_kills).collect()
        };
        self.rows().iter().map(|row| (row.name(), metrics(row))).collect()
    }

    /// About how long that takes on two processors: the loads, and starts, restarts and audits as they were measured.
    fn expected(&self, rows: &[Combination]) -> Duration {
        rows.iter()
            .map(|row| {
                let loads = 1 + self.repeats + row.victims().len();
                let besides = match row {
                    Combination::Embedded(_) => EMBEDDED_BESIDES,
                    Combination::Cluster(_) => CLUSTER_BESIDES,
                };
                self.load * u32::try_from(loads).unwrap_or(u32::MAX) + besides
            })
            .sum()
    }
}

/// The price list, without a row.
pub fn empty() -> ScenarioReport {
    ScenarioReport {
        name: "durability".to_owned(),
        title: "What durability costs, and what SIGKILL loses".to_owned(),
        ..ScenarioReport::default()
    }
}

/// Measures every row, and adds each to `measured` when it is done: an hour is not lost with the row after it.
///
/// # Errors
/// If anything can't be started or measured, if the stop flag is raised, or if a ledger breaks an invariant. Orders
/// lost by a kill are `AUDIT FAILED`, whatever the settings; then there is no figure, `measured` is empty.
pub fn run(options: &DurabilityOptions, measured: &mut ScenarioReport) -> anyhow::Result<()> {
    let ended = run_rows(options, measured);
    if ended.as_ref().is_err_and(|error| format!("{error:#}").contains(AUDIT_FAILED)) {
        *measured = empty();
    }
    ended
}

fn run_rows(options: &DurabilityOptions, measured: &mut ScenarioReport) -> anyhow::Result<()> {
    ensure!(options.repeats > 0 && options.users > 0 && !options.load.is_zero(), "a row needs a load");
    let rows = options.rows();
    ensure!(!rows.is_empty(), "no row of that name");
    // Found out now, and not after the rows of the embedded profile.
    if rows.iter().any(|row| matches!(row, Combination::Cluster(_))) {
        find_scripts(&options.site.scripts)?;
    }
    let folder = options.site.temporary_folder()?;
    let begun = Instant::now();
    let expected = options.expected(&rows);
    let minutes = expected.as_secs().div_ceil(60);
    options.site.progress.done(&format!("{} rows, about {minutes} min", rows.len()));
    for (number, row) in rows.iter().enumerate() {
        // How much slower or faster this machine is, is known after the first row.
        let pace = match options.expected(&rows[..number]) {
            Duration::ZERO => 1.0,
            expected => begun.elapsed().div_duration_f64(expected),
        };
        let left = options.expected(&rows[number..]).mul_f64(pace);
        options.site.progress.scenario(number + 1, rows.len(), &row.name(), Some(left));
        options.site.progress.doing("throughput and latency");
        let folder = folder.path().join(format!("row-{number}"));
        let (case, audit) = measure(options, &folder, *row).with_context(|| row.name())?;
        // The engines are down by now; a long list must not need the disk of all rows together.
        std::fs::remove_dir_all(&folder).context("removing a row's folder")?;
        measured.cases.push(case);
        // Of all ledgers together: each was audited by itself.
        match &mut measured.audit {
            Some(all) => all.add(&audit),
            none => *none = Some(audit),
        }
    }
    Ok(())
}

fn measure(options: &DurabilityOptions, folder: &Path, row: Combination) -> anyhow::Result<(Case, Audit)> {
    std::fs::create_dir(folder).context("a row's folder")?;
    let mut testbed = Testbed::own(install(options, folder, row)?, folder)?;
    // A Java program and an empty buffer pool are slow at first: their orders count for the audit only.
    load(options, &mut testbed, 0)?;
    let trials = (1..=options.repeats)
        .map(|repeat| load(options, &mut testbed, repeat))
        .collect::<anyhow::Result<Vec<_>>>()?;
    let engines = testbed.installation()?.settings()?;
    let mut kills = Vec::new();
    for victim in row.victims() {
        ensure!(!options.site.stop.load(Ordering::Relaxed), "stopped by a signal");
        options.site.progress.doing(&format!("killing {}", victim.name()));
        let kill = crash::kill(options, &mut testbed, *victim)?;
        check_kept(&kill)?;
        kills.push(kill);
    }
    let audit = testbed.close(None, &options.site)?;
    let mut notes = vec![row.power_cut()];
    if matches!(row, Combination::Cluster(_)) {
        notes.push(WITHOUT_MARIADB.to_owned());
    }
    let mut metrics = figures(&trials, &["throughput", "p99"]);
    metrics.extend(kills.iter().flat_map(Kill::metrics));
    let per_s = metrics[0].values.iter().sum::<f64>() / metrics[0].values.len().max(1) as f64;
    let kills: Vec<String> = kills.iter().map(ToString::to_string).collect();
    options.site.progress.done(&format!("{}: {per_s:.0}/s; {}", row.name(), kills.join("; ")));
    let (name, series) = (row.name(), row.profile().to_owned());
    Ok((Case { name, series, metrics, trials, engines, notes, ..Case::default() }, audit))
}

/// The servers of a row, with its settings.
fn install(options: &DurabilityOptions, folder: &Path, row: Combination) -> anyhow::Result<Installation> {
    match row {
        Combination::Embedded(synchronous) => {
            let settings = format!("[ledger]\nsynchronous = \"{}\"\n", synchronous.setting);
            let installation = Installation::embedded(&options.site, folder, &settings)?;
            for found in installation.settings()? {
                for name in ["ledger synchronous", "ledger checkpoint_synchronous"] {
                    found.expect(name, synchronous.setting)?;
                }
            }
            Ok(installation)
        }
        Combination::Cluster(flushes) => Installation::cluster(&options.site, folder, flushes, 1),
    }
}

fn load(options: &DurabilityOptions, testbed: &mut Testbed, repeat: usize) -> anyhow::Result<Trial> {
    let (schedule, connections) = (Schedule::closed(options.load), options.users);
    let load = Load { schedule, connections, opened: connections, p99: LATENCY_LIMIT, repeat };
    let (trial, _) = testbed.load(&options.site, load)?;
    testbed.rest()?;
    let surprise = trial.first_surprise.as_deref().unwrap_or("no answer at all");
    ensure!(trial.outcomes.won > 0, "no order was accepted: {surprise}");
    Ok(trial)
}

impl Kill {
    fn metrics(&self) -> [Metric; 4] {
        let values =
            [self.acknowledged as f64, self.acknowledged_lost as f64, self.unknown as f64, self.back_after_s];
        std::array::from_fn(|of| {
            let (metric, unit, better) = KILL[of];
            Metric::new(&of_kill(metric, self.victim), unit, better, vec![values[of]])
        })
    }
}

impl fmt::Display for Kill {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { victim, acknowledged, acknowledged_lost, unknown, back_after_s } = self;
        write!(
            f,
            "{victim}: {acknowledged_lost} of {acknowledged} lost, {unknown} unknown, back after {back_after_s:.1} s"
        )
    }
}

/// The promise of every row: what was acknowledged survives SIGKILL of any one process.
///
/// What a process has written stays, for the system has it: so in no mode of SQLite is an order lost, nor with either
/// flush of the broker, which writes to mapped pages. An order is accepted when the broker has it, so nothing that Redis
/// forgets is one. MariaDB has written each commit, but for InnoDB's flush 0, with which it keeps commits of up to a second
/// in its own memory; with the orders it forgets how far the queues were read, so that they are read again.
fn check_kept(kill: &Kill) -> anyhow::Result<()> {
    let Kill { victim, acknowledged, acknowledged_lost, .. } = kill;
    ensure!(
        *acknowledged_lost == 0,
        "{AUDIT_FAILED}: {acknowledged_lost} of {acknowledged} acknowledged orders are gone after {victim} was killed"
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::combination::Victim;
    use super::*;

    #[test]
    fn a_lost_order_is_a_failed_audit() {
        for (acknowledged_lost, kept) in [(0, true), (1, false), (5000, false)] {
            let victim = "mariadb";
            let kill = Kill { victim, acknowledged: 5000, acknowledged_lost, unknown: 4, back_after_s: 0.7 };
            match check_kept(&kill) {
                Ok(()) => assert!(kept, "{acknowledged_lost} are let through"),
                Err(error) => {
                    let wanted = format!("AUDIT FAILED: {acknowledged_lost} of 5000 acknowledged");
                    assert!(!kept && error.to_string().starts_with(&wanted), "{error}");
                }
            }
        }
    }

    /// Thresholds are checked by them before an hour of measuring.
    #[test]
    fn the_names_of_metrics_are_known_before_they_are_measured() {
        let options =
            DurabilityOptions { only: Some("embedded".to_owned()), ..DurabilityOptions::new("x".into()) };
        let plan = options.plan();
        let victim = Victim::Server.name();
        let kill = Kill { victim, acknowledged: 1, acknowledged_lost: 0, unknown: 0, back_after_s: 0.7 };
        let of_kill = kill.metrics().map(|of| of.name);
        assert_eq!((plan.len(), &plan[0].1[..2]), (3, &["throughput".to_owned(), "p99".to_owned()][..]));
        assert_eq!(plan[0].1[2..], of_kill);
        assert!(of_kill.iter().all(|name| name.ends_with(KILLED)), "{of_kill:?}");
    }
}
