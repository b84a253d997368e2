//! `bench peers` on real engines: every peer sells out exactly, and what was accepted survives SIGKILL of all its processes.

use std::path::{Path, PathBuf};
use std::time::Duration;

use bench::peers::{Kind, PeersOptions, RATE_MIN, answer};
use bench::target::installation::Site;

use crate::engines::free_ports;

#[test]
fn all_peers_sell_the_same_sale_exactly() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let mut site = Site::new(PathBuf::from(env!("CARGO_BIN_EXE_doorbuster")));
    site.folder = folder.path().to_owned();
    site.scripts = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../dev");
    let (ports, _lock) = free_ports();
    site.port_base = ports.start;
    let (load, seed) = (Duration::from_secs(1), 7);
    let options = PeersOptions { rounds: 1, rate: RATE_MIN, load, users: 20, seed, site };
    let compared = options.run().unwrap();
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "it removes what it made");
    let said = answer::text(&options, &compared);
    // The tests install PostgreSQL nowhere: where it is, it is measured.
    let missing: Vec<Kind> = compared.missing.iter().map(|(kind, _)| *kind).collect();
    assert!(missing.iter().all(|kind| *kind == Kind::PostgreSql), "{said}");
    let kinds: Vec<Kind> = compared.played.iter().map(|played| played.kind).collect();
    assert_eq!([kinds, missing].concat(), Kind::ALL);
    for played in &compared.played {
        assert!(played.sold.sound() && played.peak_sold.sound() && played.killed.accepted > 0, "{played:?}");
        // On a busy machine too few requests may be carried to sell out.
        assert!(played.sold.exact() || played.sale.outcomes.sold_out == 0, "{played:?}");
        assert!(played.sale.usage.is_some() && played.peak.outcomes.won > 0, "{played:?}");
    }
    // What others lose is their affair; Redis may postpone a write while it syncs.
    assert!(answer::holds(&compared), "{said}");
}
