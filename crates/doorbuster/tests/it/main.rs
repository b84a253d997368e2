//! The real binary, run as a person or a script would run it: arguments, exit codes and what it prints.

#![expect(clippy::unwrap_used, reason = "everything here is a test, its functions beside #[test] too")]

mod alarms;
mod api_document;
mod arguments;
mod attempts;
mod bench_cli;
mod bench_durability;
mod bench_line;
mod bench_peak;
mod bench_peers;
mod bench_run;
mod bench_signals;
mod between;
mod buyers;
mod client;
mod client_line;
mod client_words;
mod clients;
mod clock;
mod cluster;
mod cluster_balance;
mod cluster_bounds;
mod cluster_brokers;
mod cluster_clocks;
mod cluster_corrections;
mod cluster_figures;
mod cluster_frozen;
mod cluster_gate;
mod cluster_log;
mod cluster_queues;
mod cluster_redis;
mod console;
mod crash;
mod dead_letters;
mod draw;
mod edge;
#[path = "../../../server/tests/it/engines.rs"]
mod engines;
mod exchange;
mod fake_clock;
mod figures;
mod images;
mod ledger;
mod line;
mod mysql;
mod named_operators;
mod operators;
mod payments;
#[allow(dead_code, reason = "the faults use the rest of it")]
#[path = "../faults/proxy.rs"]
mod proxy;
mod published;
mod rehearse;
mod rehearse_cluster;
mod reload;
mod sale_certificate;
mod sale_file;
mod sale_report;
#[path = "../../../server/tests/it/sent.rs"]
mod sent;
mod serve;
mod serving;
mod shop_calls;
#[path = "../faults/small_mount.rs"]
mod small_mount;
mod stand_in;
mod stripe;
mod support;
mod tls;
mod tokens;
mod topic;
mod turn_webhooks;
mod vendure;
mod verifier;
mod watch;
#[path = "../../../server/tests/it/browser/webdriver.rs"]
#[expect(dead_code, reason = "the tests of the pages use all of it")]
mod webdriver;
mod webhooks;
mod webhooks_given_up;

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};

/// The binary with a clean environment, in a directory of its own choosing, and nothing to read.
fn doorbuster(directory: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_doorbuster"));
    command.current_dir(directory).env_clear().stdin(Stdio::null());
    command
}

/// A file that these may read.
fn write_as(directory: &Path, name: &str, content: &str, mode: u32) {
    std::fs::write(directory.join(name), content).unwrap();
    std::fs::set_permissions(directory.join(name), Permissions::from_mode(mode)).unwrap();
}

/// What it prints; it must succeed.
#[track_caller]
fn succeeds(command: &mut Command) -> String {
    let output = command.output().unwrap();
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{command:?}: {printed}\n{}", String::from_utf8_lossy(&output.stderr));
    printed
}

/// Exit code, standard output and standard error.
#[track_caller]
fn run(directory: &Path, arguments: &[&str]) -> (i32, String, String) {
    outcome(doorbuster(directory).args(arguments).output().unwrap())
}

#[track_caller]
fn outcome(output: Output) -> (i32, String, String) {
    let code = output.status.code().expect("it ends by itself, not by a signal");
    (code, String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap())
}
