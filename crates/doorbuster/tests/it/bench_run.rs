//! `doorbuster bench run` on real engines: what becomes of its report.

use std::process::Command;

use crate::engines::free_ports;
use crate::{doorbuster, outcome};

#[test]
fn a_full_disk_costs_no_earlier_report() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("bench-report");
    std::fs::create_dir(&out).unwrap();
    for name in ["report.json", "report.html", "report.csv"] {
        std::fs::write(out.join(name), "of yesterday").unwrap();
    }
    let (ports, _lock) = free_ports();
    let base = ports.start.to_string();
    // No file may be longer than that, as on a disk that is almost full.
    let limited = "ulimit -f 2; trap '' XFSZ; exec \"$@\"";
    let program = doorbuster(folder.path());
    let mut command = Command::new("sh");
    command.args(["-c", limited, "sh"]).arg(program.get_program()).current_dir(folder.path());
    command.env_clear().env("PATH", "/usr/local/bin:/usr/bin:/bin");
    command.args(["bench", "run", "redis-memory", "--only", "400000 keys", "--folder", "data"]);
    let (code, _, stderr) = outcome(command.args(["--port-base", &base]).output().unwrap());
    assert!(code == 69 && stderr.contains("report.json: can't be written: File too large"), "{stderr}");
    for name in ["report.json", "report.html", "report.csv"] {
        assert_eq!(std::fs::read(out.join(name)).unwrap(), b"of yesterday", "{name}");
    }
}
