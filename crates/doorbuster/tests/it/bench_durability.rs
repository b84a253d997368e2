//! The price list of durability, against the real program and engines of its own: servers are killed in mid-load, and
//! with the safe settings no acknowledged order is lost by that.

use std::path::{Path, PathBuf};
use std::time::Duration;

use bench::durability::{DurabilityOptions, Extent};
use bench::report::model::DurabilityRow;

/// Below the ports that the other tests choose from, and those that the system takes for outgoing connections.
const PORT_BASE: u16 = 21_700;

fn measure(only: &str) -> DurabilityRow {
    let mut options = DurabilityOptions::new(PathBuf::from(env!("CARGO_BIN_EXE_doorbuster"))).quick();
    // In the build's folder, which is on a disk.
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    options.folder = folder.path().to_owned();
    options.scripts = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../dev");
    options.extent = Extent::OneAtATime;
    options.only = Some(only.to_owned());
    options.load = Duration::from_secs(1);
    options.users = 20;
    options.port_base = PORT_BASE;
    let mut rows = Vec::new();
    bench::durability::run(&options, &mut rows).unwrap();
    assert_eq!(rows.len(), 1, "{only}");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "it removes what it made");
    rows.remove(0)
}

fn check(row: &DurabilityRow, victims: &[&str]) {
    let killed: Vec<_> = row.kills.iter().map(|kill| kill.victim.as_str()).collect();
    assert_eq!(killed, victims);
    for kill in &row.kills {
        assert!(kill.acknowledged > 0 && kill.back_after_s > 0.0, "{kill:?}");
        assert_eq!(kill.acknowledged_lost, 0, "{kill:?}");
    }
    let audit = row.audit.as_ref().unwrap();
    let told: u64 = row.kills.iter().map(|kill| kill.acknowledged).sum();
    assert!(audit.accepted > told && audit.orders >= audit.accepted, "{audit:?}");
    assert_eq!(audit.initial_units, audit.remaining_units + audit.held_units + audit.sold_units);
    assert!(row.orders_per_s[0] > 0.0 && row.p99_us[0] > 0, "{row:?}");
    assert!(row.power_cut.starts_with("Not measured"), "{}", row.power_cut);
}

#[test]
fn a_killed_server_loses_no_acknowledged_order() {
    check(&measure("SQLite synchronous full"), &["server"]);
}

#[test]
fn no_killed_member_of_a_cluster_loses_an_acknowledged_order() {
    let row = measure("cluster: InnoDB and binlog sync 1/1, Redis AOF everysec, broker flush sync");
    check(&row, &["redis", "broker", "mariadb", "server"]);
    let redis = row.engines.iter().find(|of| of.engine == "Redis").unwrap();
    assert_eq!(redis.settings["appendfsync"], "everysec");
}
