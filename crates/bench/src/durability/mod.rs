//! The price list of durability: `doorbuster bench durability`.
//!
//! For each combination of flush settings: what it carries, how long buyers wait, and what is gone after SIGKILL of
//! each process in mid-load, every acknowledged order looked up by its id. What a *power cut* would risk can't be measured
//! here; it is reasoned, and labelled so. The rows are the default, each setting changed alone, and both extremes:
//! the full product is asked for with [`Extent::Full`]. It must not print: the caller does.

mod combination;
mod crash;
mod stand;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};

use self::combination::Combination;
use self::stand::Stand;
use crate::engines::find_scripts;
use crate::load::Trial;
use crate::progress::Progress;
use crate::report::model::{DurabilityRow, Kill};
use crate::suite::AUDIT_FAILED;

pub use self::combination::Extent;

#[derive(Debug)]
pub struct DurabilityOptions {
    pub extent: Extent,
    /// Only the rows whose names hold this text: `embedded`, `Redis none`, `flush async`.
    pub only: Option<String>,
    /// Times that throughput and latency are measured in each row.
    pub repeats: usize,
    /// Length of each of these, and of each load in the middle of which a process is killed.
    pub load: Duration,
    /// Users of the closed loop.
    pub users: usize,
    /// The `doorbuster` program to measure.
    pub program: PathBuf,
    /// The folder of the scripts `up` and `down`.
    pub scripts: PathBuf,
    /// Where the temporary folder is made: on the disk whose syncs are to be measured, so on no tmpfs.
    pub folder: PathBuf,
    /// The engines take 100 ports from here.
    pub port_base: u16,
    pub progress: Progress,
    /// Raised on SIGINT or SIGTERM: it ends with an error, its engines and files are removed.
    pub stop: Arc<AtomicBool>,
}

impl DurabilityOptions {
    pub fn new(program: PathBuf) -> Self {
        Self {
            extent: Extent::OneAtATime,
            only: None,
            repeats: 6,
            load: Duration::from_secs(8),
            users: 100,
            program,
            scripts: PathBuf::from("dev"),
            folder: std::env::temp_dir(),
            port_base: 27000,
            progress: Progress::start(),
            stop: Arc::default(),
        }
    }

    /// Few rows, short loads, one repeat.
    pub fn quick(self) -> Self {
        Self { extent: Extent::Quick, repeats: 1, load: Duration::from_secs(2), ..self }
    }
}

/// Measures every row. Each is added to `measured` once it is audited, so that an end before the last one loses none.
///
/// # Errors
/// If anything can't be started or measured, if the stop flag is raised, or if a ledger breaks an invariant. Orders
/// lost by a kill are `AUDIT FAILED`, whatever the settings.
pub fn run(options: &DurabilityOptions, measured: &mut Vec<DurabilityRow>) -> anyhow::Result<()> {
    ensure!(options.repeats > 0 && options.users > 0 && !options.load.is_zero(), "a row needs a load");
    let rows: Vec<_> = Combination::all(options.extent)
        .into_iter()
        .filter(|row| options.only.as_ref().is_none_or(|only| row.name().contains(only.as_str())))
        .collect();
    ensure!(!rows.is_empty(), "no row of that name");
    let cluster = rows.iter().any(|row| matches!(row, Combination::Cluster(_)));
    let scripts = if cluster { find_scripts(&options.scripts)? } else { PathBuf::new() };
    let folder = tempfile::Builder::new()
        .prefix("doorbuster-bench-")
        .tempdir_in(&options.folder)
        .with_context(|| format!("a folder in {}", options.folder.display()))?;
    let begun = Instant::now();
    for (number, row) in rows.iter().enumerate() {
        // Rows take about as long as each other: after the first one it is known how long.
        let left =
            (number > 0).then(|| begun.elapsed().mul_f64((rows.len() - number) as f64 / number as f64));
        options.progress.scenario(number + 1, rows.len(), &row.name(), left);
        options.progress.doing("throughput and latency");
        let folder = folder.path().join(format!("row-{number}"));
        let done = measure(options, &scripts, &folder, *row).with_context(|| row.name())?;
        // The engines are down by now; a long list must not need the disk of all rows together.
        std::fs::remove_dir_all(&folder).context("removing a row's folder")?;
        options.progress.done(&told(&done, *row));
        measured.push(done);
    }
    Ok(())
}

fn measure(
    options: &DurabilityOptions,
    scripts: &Path,
    folder: &Path,
    row: Combination,
) -> anyhow::Result<DurabilityRow> {
    std::fs::create_dir(folder).context("a row's folder")?;
    let mut stand = Stand::open(options, scripts, folder, row)?;
    // A Java program and an empty buffer pool are slow at first: their orders count for the audit only.
    stand.load(options, 0)?;
    let trials = (1..=options.repeats)
        .map(|repeat| stand.load(options, repeat))
        .collect::<anyhow::Result<Vec<_>>>()?;
    let valid = || trials.iter().filter(|trial| trial.is_valid());
    let engines = stand.engines()?;
    let mut kills = Vec::new();
    for victim in stand.victims() {
        ensure!(!options.stop.load(Ordering::Relaxed), "stopped by a signal");
        options.progress.doing(&format!("killing {}", victim.name()));
        let kill = crash::kill(options, &mut stand, *victim)?;
        check_kept(&kill)?;
        kills.push(kill);
    }
    stand.wait_until_still(&options.stop)?;
    let audit = stand.close()?;
    let mut notes = Vec::new();
    if let Combination::Embedded(_) = row {
        notes.push("SQLite tells no other process its settings: as configured, not read back.".to_owned());
    }
    Ok(DurabilityRow {
        profile: row.profile().to_owned(),
        settings: row.settings(),
        engines,
        orders_per_s: valid().map(Trial::good_per_s).collect(),
        p99_us: valid().map(|trial| trial.response.at(0.99)).collect(),
        trials: trials.clone(),
        kills,
        power_cut: row.power_cut(),
        audit: Some(audit),
        notes,
    })
}

/// The promise of every row: what was acknowledged survives SIGKILL of any one process.
///
/// What a process has written stays, for the system has it: so in no mode of SQLite is an order lost, nor with either
/// flush of the broker, which writes to mapped pages. An order is accepted when the broker has it, so nothing that Redis
/// forgets is one. MariaDB keeps commits of up to a second in its own memory if it syncs none, but with the orders it
/// forgets how far the queues were read, so that they are read again.
fn check_kept(kill: &Kill) -> anyhow::Result<()> {
    let Kill { victim, acknowledged, acknowledged_lost, .. } = kill;
    ensure!(
        *acknowledged_lost == 0,
        "{AUDIT_FAILED}: {acknowledged_lost} of {acknowledged} acknowledged orders are gone after {victim} was killed"
    );
    Ok(())
}

fn told(done: &DurabilityRow, row: Combination) -> String {
    let kills: Vec<_> = done
        .kills
        .iter()
        .map(|kill| {
            format!(
                "{}: {} of {} lost, {} unknown, back after {:.1} s",
                kill.victim, kill.acknowledged_lost, kill.acknowledged, kill.unknown, kill.back_after_s
            )
        })
        .collect();
    let per_s = done.orders_per_s.iter().sum::<f64>() / done.orders_per_s.len().max(1) as f64;
    format!("{}: {per_s:.0}/s; {}", row.name(), kills.join("; "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lost_order_is_a_failed_audit() {
        for (acknowledged_lost, kept) in [(0, true), (1, false), (5000, false)] {
            let victim = "mariadb".to_owned();
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
}
