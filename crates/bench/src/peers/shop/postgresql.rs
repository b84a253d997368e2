//! PostgreSQL under the shop, on its default durability: every commit is synced. Asked by its own `psql`.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use anyhow::Context;

use super::Order;
use crate::host::process::run_tool;
use crate::host::usage::Watched;
use crate::peers::to_install;
use crate::target::engines::expect;

/// Debian has the programs of each release in a folder of its own.
const RELEASES: &str = "/usr/lib/postgresql";
const USER: &str = "postgres";
const SETTINGS: [&str; 3] = ["fsync", "synchronous_commit", "full_page_writes"];
/// A million rows are made, or read, on a busy machine too.
const PATIENCE: Duration = Duration::from_secs(300);

pub(super) fn missing() -> Option<String> {
    let found = released("postgres").is_some() || Command::new("postgres").arg("--version").output().is_ok();
    (!found).then(|| to_install("postgresql"))
}

/// Of the newest release.
fn released(program: &str) -> Option<PathBuf> {
    let releases = std::fs::read_dir(RELEASES).ok()?.filter_map(|entry| Some(entry.ok()?.path()));
    let found = releases.map(|release| release.join("bin").join(program)).filter(|file| file.is_file());
    found.max_by_key(|file| release(file))
}

fn release(program: &Path) -> Option<u32> {
    program.parent()?.parent()?.file_name()?.to_str()?.parse().ok()
}

pub(super) fn url(address: SocketAddr) -> String {
    format!("postgres://{USER}@{address}/postgres?sslmode=disable")
}

pub(super) fn check(address: SocketAddr) -> anyhow::Result<()> {
    let stop = AtomicBool::new(false);
    for setting in SETTINGS {
        let found = ask(address, &[&format!("SHOW {setting}")], &stop)?;
        expect("PostgreSQL", setting, found.trim(), "on")?;
    }
    Ok(())
}

/// A process for each of the shop's connections, and those that write behind them. Who cleans up, once a minute, comes and
/// goes, as our own `psql` does: neither is counted.
pub(super) fn processes(
    server: &Watched,
    address: SocketAddr,
    stop: &AtomicBool,
) -> anyhow::Result<Vec<Watched>> {
    let lasting = "SELECT pid FROM pg_stat_activity WHERE application_name <> 'psql' AND backend_type <> 'autovacuum worker'";
    let pids = ask(address, &[lasting], stop)?;
    let watched = |pid: &str| Ok(Watched::new(&server.name, pid.parse().context("a process's number")?));
    pids.lines().map(watched).collect()
}

/// As a team would before a sale, the rows are settled: none of that is left for the sale itself.
pub(super) fn open(address: SocketAddr, product: u64, units: u64, stop: &AtomicBool) -> anyhow::Result<()> {
    let fill =
        format!("INSERT INTO units (product, id) SELECT {product}, n FROM generate_series(1, {units}) n");
    ask(address, &[&fill, "VACUUM ANALYZE", "CHECKPOINT"], stop).map(drop)
}

pub(super) fn orders(address: SocketAddr, product: u64, stop: &AtomicBool) -> anyhow::Result<Vec<Order>> {
    let rows = ask(address, &[&format!("SELECT id, buyer FROM orders WHERE product = {product}")], stop)?;
    rows.lines().map(order).collect()
}

fn order(row: &str) -> anyhow::Result<Order> {
    let (id, buyer) = row.split_once('|').with_context(|| format!("a row: {row}"))?;
    let hash = u128::from_str_radix(&id.replace('-', ""), 16).with_context(|| format!("an id: {row}"))?;
    Ok(Order { hash, buyer: buyer.to_owned() })
}

/// Each statement is a transaction; the rows of all, a line each.
fn ask(address: SocketAddr, statements: &[&str], stop: &AtomicBool) -> anyhow::Result<String> {
    let mut psql = Command::new(released("psql").unwrap_or_else(|| "psql".into()));
    psql.args(["--no-psqlrc", "--quiet", "--no-align", "--tuples-only", "--set=ON_ERROR_STOP=1"]);
    psql.args([
        "--host",
        &address.ip().to_string(),
        "--port",
        &address.port().to_string(),
        "--username",
        USER,
    ]);
    for statement in statements {
        psql.args(["--command", statement]);
    }
    run_tool(&mut psql, PATIENCE, stop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_is_an_id_and_a_buyer() {
        let found = order("00000000-0000-0000-0000-0000000000ff|1000000001").unwrap();
        assert_eq!(found, Order { hash: 255, buyer: "1000000001".to_owned() });
        assert!(order("psql: error: no server").is_err() && order("12|").is_ok() && order("x|1").is_err());
    }

    #[test]
    fn the_newest_release_is_the_greatest_number() {
        let number = |path: &str| release(Path::new(path));
        assert!(number("/usr/lib/postgresql/15/bin/psql") > number("/usr/lib/postgresql/9/bin/psql"));
        assert_eq!(number("/usr/lib/postgresql/bin"), None);
    }
}
