//! `doorbuster sale report --certificate` and `sale verify`: what is certified, and what does not pass.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use crate::ledger::Writer;
use crate::run;

fn certify(directory: &Path) -> String {
    let arguments = ["sale", "report", "3", "--data-dir", "data", "--certificate", "drop.json"];
    let (code, page, errors) = run(directory, &arguments);
    assert_eq!((code, errors.as_str()), (0, ""), "{page}");
    let key = page.lines().last().unwrap().strip_prefix("drop.json: signed by the key ").unwrap();
    assert_eq!(key.len(), 64, "{page}");
    key.to_owned()
}

fn verify(directory: &Path, arguments: &[&str]) -> (i32, String, String) {
    run(directory, &[&["sale", "verify", "drop.json"], arguments].concat())
}

#[test]
fn a_certificate_holds_without_the_ledger_and_with_one_that_has_grown() {
    let directory = tempfile::tempdir().unwrap();
    let directory = directory.path();
    let mut writer = Writer::on(&directory.join("data"));
    let key = certify(directory);
    let mode = fs::metadata(directory.join("data/report-key")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let about = format!("drop.json: sale 3 as of entry 6, signed by the key {key}\n");
    let alone = format!("{about}the signature holds; --data-dir compares it with the ledger\n");
    assert_eq!(verify(directory, &[]), (0, alone, String::new()));
    let both = format!("{about}the signature holds, and the ledger says the same\n");
    assert_eq!(verify(directory, &["--data-dir", "data"]), (0, both.clone(), String::new()));
    writer.place(13, None);
    assert_eq!(verify(directory, &["--data-dir", "data"]), (0, both, String::new()));

    let arguments = ["sale", "report", "3", "--data-dir", "data", "--certificate", "drop.json"];
    let (code, _, errors) = run(directory, &arguments);
    assert!(code == 64 && errors.starts_with("error: drop.json can't be written: "), "{code} {errors}");
    fs::rename(directory.join("drop.json"), directory.join("first.json")).unwrap();
    assert_eq!(certify(directory), key, "the key stays");
}

#[test]
fn a_changed_byte_is_found_wherever_it_is() {
    let directory = tempfile::tempdir().unwrap();
    let directory = directory.path();
    drop(Writer::on(&directory.join("data")));
    certify(directory);
    let path = directory.join("drop.json");
    let bytes = fs::read(&path).unwrap();
    let unsigned = bytes.len() - 330;
    let changes = (0..unsigned).step_by(37).chain((unsigned..bytes.len()).step_by(5));
    for at in changes.chain([0, bytes.len() - 1]) {
        let mut changed = bytes.clone();
        changed[at] = if changed[at] == b'a' { b'A' } else { b'a' };
        fs::write(&path, &changed).unwrap();
        let (code, _, errors) = verify(directory, &[]);
        let said = "error: drop.json: it was changed, or is no certificate\n";
        assert_eq!((code, errors.as_str()), (1, said), "byte {at}");
    }
    for changed in [[&bytes[..], b" "].concat(), bytes[..bytes.len() - 1].to_vec(), Vec::new()] {
        fs::write(&path, &changed).unwrap();
        assert_eq!(verify(directory, &[]).0, 1, "{} bytes of {}", changed.len(), bytes.len());
    }
}

#[test]
fn another_ledger_another_key_and_another_history_are_told_apart() {
    let directory = tempfile::tempdir().unwrap();
    let directory = directory.path();
    drop(Writer::on(&directory.join("data")));
    certify(directory);
    let with = |data: &str| {
        let (code, out, errors) = verify(directory, &["--data-dir", data]);
        assert_eq!((code, out.as_str()), (1, ""), "{data}");
        errors
    };
    let other = Writer::on(&directory.join("other"));
    other.ledger.id_secret().unwrap();
    drop(other);
    let errors = with("other");
    assert!(errors.contains("\n  the key is not the data directory's"), "{errors}");
    assert!(errors.contains("\n  it is another ledger"), "{errors}");

    let database = rusqlite::Connection::open(directory.join("data/ledger.db")).unwrap();
    let change = "UPDATE orders SET fingerprint = fingerprint + 1 WHERE buyer = 12";
    assert_eq!(database.execute(change, []).unwrap(), 1);
    drop(database);
    let errors = with("data");
    assert!(errors.contains("differs in 1 place(s):\n  report.entries_sha256: certified \""), "{errors}");
}
