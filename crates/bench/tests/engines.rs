//! A set of real engines: its settings are what was asked for, its figures can be read, and nothing is left of it.

mod ports;

use std::fs;
use std::path::Path;
use std::sync::atomic::AtomicBool;

use bench::target::engines::{EngineSet, EngineSite, Flushes, find_scripts};
use ports::free_ports;

#[test]
fn a_set_is_started_asked_and_removed() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let scripts = find_scripts(Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../dev"))).expect("dev/up");
    let (port_base, _ports) = free_ports();
    let site = EngineSite { scripts, folder: folder.path().join("set"), port_base };
    let set = EngineSet::start(site, Flushes::QUICK, &AtomicBool::new(false)).expect("a set");

    let versions = set.versions().expect("engines know their versions");
    assert!(versions.redis.contains('.') && versions.mariadb.contains('.'), "{versions:?}");
    assert!(!versions.rocketmq.is_empty(), "{versions:?}");
    assert_eq!(set.all_watched().len(), 4);

    let mut database = set.database(None).expect("a connection");
    database.recreate("bench_test").expect("a database");
    let mut database = set.database(Some("bench_test")).expect("a connection to it");
    database
        .execute("CREATE TABLE orders(seq BIGINT PRIMARY KEY, sku INT, quantity INT); INSERT INTO orders VALUES (1, 7, 2)")
        .expect("a table");
    assert_eq!((database.orders().unwrap(), database.orders().unwrap()), (1, 1));
    database.execute("INSERT INTO orders VALUES (2, 7, 1), (5, 8, 4)").expect("rows");
    assert_eq!((database.orders().unwrap(), database.count("orders").unwrap()), (3, 3));
    assert_eq!(database.units_by_sku().unwrap(), (2, 3, 4));
    database.purge_binary_logs().expect("binary logs");

    let offset = set.broker().expect("a broker").max_offset("TBW102", 0).expect("its default topic");
    assert_eq!(offset, 0);
    let pids: Vec<u32> = set.all_watched().iter().map(|of| of.pid).collect();
    assert!(set.disk_bytes().unwrap() > 1 << 20);
    drop(set);
    for pid in pids {
        // One that has ended and was not waited for yet has no command line.
        let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        assert!(line.is_empty(), "{pid} is still there: {}", String::from_utf8_lossy(&line));
    }
}
