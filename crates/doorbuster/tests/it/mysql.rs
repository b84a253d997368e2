//! The program with its ledger on a real MySQL server: the published plan, the tools, and two servers at once.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use crate::engines::Engines;
use crate::published::random_goods;
use crate::run;
use crate::serving::Serving;

/// Makes a database and writes a configuration that names it.
pub(crate) fn configure(directory: &Path, database: &str) {
    let address = Engines::shared(&["mariadb"]).address("mariadb");
    let (host, port) = address.rsplit_once(':').unwrap();
    let sql = format!("CREATE DATABASE {database}");
    let made = Command::new("mariadb")
        .args(["--no-defaults", "--protocol=tcp", "--user=root", "--host", host, "--port", port, "--execute"])
        .arg(sql)
        .status()
        .unwrap();
    assert!(made.success());
    let config = format!(
        "[ledger]\nbackend = \"mysql\"\nmysql_address = \"{address}\"\nmysql_user = \"root\"\n\
         mysql_database = \"{database}\"\n"
    );
    std::fs::write(directory.join("doorbuster.toml"), config).unwrap();
}

pub(crate) fn demo(directory: &Path) -> Command {
    let mut command = crate::doorbuster(directory);
    command.args(["serve", "--demo", "--config", "doorbuster.toml", "--listen", "127.0.0.1:0"]);
    command.args(["--data-dir", "data"]);
    command
}

#[test]
fn random_goods_with_ten_units_each_end_in_exactly_ten_thousand_orders_on_mysql() {
    let dir = tempfile::tempdir().unwrap();
    configure(dir.path(), "plan");
    let serving = Serving::start(demo(dir.path()));
    random_goods(serving.address);
    assert_eq!(serving.stop(), 0);
    let (code, output, errors) = run(dir.path(), &["audit", "--config", "doorbuster.toml"]);
    assert_eq!(code, 0, "{output}{errors}");
    assert!(output.contains("10000 orders"), "{output}");
    assert!(!dir.path().join("data/ledger.db").exists(), "nothing is kept beside the server");
    let export = ["orders", "export", "--config", "doorbuster.toml", "--format", "csv"];
    let (code, output, errors) = run(dir.path(), &export);
    assert_eq!((code, output.lines().count()), (0, 1 + 10_000), "{errors}");
    let (code, _, errors) = run(dir.path(), &["backup", "--config", "doorbuster.toml", "--to", "copy.db"]);
    assert_eq!(code, 64);
    assert!(errors.contains("mysqldump --single-transaction"), "{errors}");
    // The same ledger again: every order is in the book that is loaded.
    let serving = Serving::start(demo(dir.path()));
    assert_eq!(serving.stop(), 0);
}

#[test]
fn a_server_that_starts_takes_over_and_the_one_before_ends_with_69() {
    let dir = tempfile::tempdir().unwrap();
    configure(dir.path(), "twice");
    let mut first = Serving::start(demo(dir.path()));
    let second = Serving::start(demo(dir.path()));
    let started = Instant::now();
    let code = loop {
        if let Some(code) = first.ended() {
            break code;
        }
        assert!(started.elapsed() < Duration::from_secs(30), "it did not notice");
        std::thread::sleep(Duration::from_millis(20));
    };
    assert_eq!(code, 69);
    assert_eq!(second.stop(), 0);
}

#[test]
fn a_ledger_on_a_server_that_is_not_there_is_said() {
    let dir = tempfile::tempdir().unwrap();
    let config = "[ledger]\nbackend = \"mysql\"\nmysql_address = \"127.0.0.1:1\"\n";
    std::fs::write(dir.path().join("doorbuster.toml"), config).unwrap();
    let (code, _, errors) = run(dir.path(), &["audit", "--config", "doorbuster.toml"]);
    assert_eq!(code, 69);
    assert!(
        errors.contains("cannot reach the ledger at mysql://doorbuster@127.0.0.1:1/doorbuster"),
        "{errors}"
    );
    let (code, _, errors) =
        run(dir.path(), &["serve", "--demo", "--config", "doorbuster.toml", "--listen", "127.0.0.1:0"]);
    assert_eq!(code, 69);
    assert!(errors.contains("cannot reach the ledger at"), "{errors}");
}
