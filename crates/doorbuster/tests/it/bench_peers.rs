//! `bench peers` on real engines: every peer sells out exactly, and what was accepted survives SIGKILL of all its processes.

use std::path::{Path, PathBuf};

use bench::peers::{Compared, Kind, PeersOptions, RATE_MIN};

use crate::engines::free_ports;
use crate::run;

#[test]
fn all_peers_sell_the_same_sale_exactly() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let program = PathBuf::from(env!("CARGO_BIN_EXE_doorbuster"));
    let mut options =
        PeersOptions { rate: RATE_MIN, users: 20, seed: 7, ..PeersOptions::new(program).quick() };
    options.site.folder = folder.path().to_owned();
    options.site.scripts = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../dev");
    let (ports, _lock) = free_ports();
    options.site.port_base = ports.start;
    let mut compared = Compared::default();
    // What others lose is their affair, Redis may postpone a write while it syncs; what this program loses is an error.
    options.run(&mut compared).unwrap();
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "it removes what it made");
    let (scenario, said) = compared.report(&options);
    // The tests install PostgreSQL nowhere: where it is, it is measured.
    let missing: Vec<Kind> = compared.missing.iter().map(|(kind, _)| *kind).collect();
    assert!(missing.iter().all(|kind| *kind == Kind::PostgreSql), "{said:?}");
    let kinds: Vec<Kind> = compared.played.iter().map(|played| played.kind).collect();
    assert_eq!([kinds, missing].concat(), Kind::ALL);
    for played in &compared.played {
        assert!(played.sold.sound() && played.peak_sold.sound() && played.killed.accepted > 0, "{played:?}");
        // On a busy machine too few requests may be carried to sell out.
        assert!(played.sold.exact() || played.sale.outcomes.sold_out == 0, "{played:?}");
        assert!(played.sale.usage.is_some() && played.peak.outcomes.won > 0, "{played:?}");
    }
    assert_eq!(scenario.cases.len(), 2 * compared.played.len());
    assert_eq!(scenario.audit.unwrap().broken(), None);
}

/// As where the program is installed, and its sources are not.
#[test]
fn without_the_sources_it_says_what_it_lacks() {
    let folder = tempfile::tempdir().unwrap();
    let (code, stdout, stderr) = run(folder.path(), &["bench", "peers", "--folder", "data"]);
    assert_eq!((code, stdout.as_str()), (69, ""), "{stderr}");
    for kind in &Kind::ALL[1..] {
        let said = format!("{} is left out: dev has no script `up`", kind.name());
        assert!(stderr.contains(&said), "{said}\n{stderr}");
    }
    assert!(stderr.contains("there is no peer here to compare with"), "{stderr}");
    assert!(!folder.path().join("bench-report/report.json").exists(), "there is nothing to report");
}

#[test]
fn what_can_t_be_written_is_refused_before_the_start() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("file"), "").unwrap();
    for (output, reason) in [
        (["--out", "file/report"], "file/report: can't be made"),
        (["--chart", "none/peers.svg"], "--chart: none/peers.svg: can't be written"),
        (["--chart", "bench-report"], "--chart: bench-report: it is a folder"),
    ] {
        let (code, stdout, stderr) = run(folder.path(), &[&["bench", "peers"], &output[..]].concat());
        assert_eq!((code, stdout.as_str()), (64, ""), "{output:?}: {stderr}");
        assert!(stderr.contains(reason) && !stderr.contains("is left out"), "{output:?}: {stderr}");
    }
}
