//! `doorbuster sale report --certificate` and `sale verify`: what is certified, and what does not pass.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::cluster;
use crate::engines::Engines;
use crate::ledger::Writer;
use crate::mysql;
use crate::run;
use crate::serving::Serving;

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
fn neither_page_nor_certificate_is_there_without_the_other() {
    let directory = tempfile::tempdir().unwrap();
    let directory = directory.path();
    let _writer = Writer::on(&directory.join("data"));
    let report = |html: &str| {
        let certificate = ["sale", "report", "3", "--data-dir", "data", "--certificate", "drop.json"];
        run(directory, &[&certificate[..], &["--html", html]].concat())
    };
    let files = || {
        let entries = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().file_name());
        let mut names: Vec<_> = entries.filter(|name| name != "data").collect();
        names.sort();
        names
    };
    let (code, _, errors) = report("nowhere/drop.html");
    assert!(
        code == 64 && errors.starts_with("error: nowhere/drop.html can't be written: "),
        "{code} {errors}"
    );
    assert!(files().is_empty(), "{:?}", files());
    fs::write(directory.join("drop.json"), "somebody's").unwrap();
    let (code, _, errors) = report("drop.html");
    assert!(code == 64 && errors.starts_with("error: drop.json can't be written: "), "{code} {errors}");
    assert_eq!(files(), ["drop.json"]);
    fs::remove_file(directory.join("drop.json")).unwrap();
    let (code, _, errors) = report("drop.html");
    assert_eq!((code, errors.as_str(), files()), (0, "", vec!["drop.html".into(), "drop.json".into()]));
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
    let alone = format!(
        "{about}the signature holds; --data-dir or --config compares it with the ledger; --key compares whose key it is\n"
    );
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

    // Without a ledger, too, a key that is named is compared.
    assert_eq!(verify(directory, &["--key", "data/report-key"]).0, 0);
    fs::rename(directory.join("drop.json"), directory.join("second.json")).unwrap();
    let (code, _, errors) = run(directory, &[&arguments[..], &["--key", "others"]].concat());
    assert_eq!((code, errors.as_str()), (0, ""));
    let (code, _, errors) = verify(directory, &["--key", "data/report-key"]);
    assert!(
        code == 1
            && errors.contains(" and it differs in 1 place(s):\n  the key is not that of data/report-key"),
        "{errors}"
    );
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
fn another_ledger_another_key_and_another_history_are_distinguished() {
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
    assert!(errors.contains("\n  there is no key other/report-key"), "{errors}");
    assert!(errors.contains("\n  it is another ledger"), "{errors}");

    let database = rusqlite::Connection::open(directory.join("data/ledger.db")).unwrap();
    let change = "UPDATE orders SET fingerprint = fingerprint + 1 WHERE buyer = 12";
    assert_eq!(database.execute(change, []).unwrap(), 1);
    drop(database);
    let errors = with("data");
    assert!(errors.contains("differs in 1 place(s):\n  report.entries_sha256: certified \""), "{errors}");
}

const MADE: [&str; 8] =
    ["sale", "report", "3", "--config", "doorbuster.toml", "--certificate", "drop.json", "--key"];

/// What the file certifies.
fn certified(directory: &Path) -> Value {
    let signed: Value = serde_json::from_slice(&fs::read(directory.join("drop.json")).unwrap()).unwrap();
    signed["certificate"].clone()
}

#[test]
fn a_book_on_mysql_is_certified_with_a_key_that_is_named() {
    let directory = tempfile::tempdir().unwrap();
    let directory = directory.path();
    mysql::configure(directory, "certified");
    assert_eq!(Serving::start(mysql::demo(directory)).stop(), 0);
    let (code, _, errors) = run(directory, &MADE[..7]);
    assert!(code == 64 && errors.contains("name a file for it by --key FILE"), "{code} {errors}");
    assert!(!directory.join("drop.json").exists());
    let (code, page, errors) = run(directory, &[&MADE[..], &["keys"]].concat());
    assert_eq!((code, errors.as_str()), (0, ""), "{page}");
    assert_eq!(fs::metadata(directory.join("keys")).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(certified(directory)["gate_and_queue"], Value::Null, "there are none");

    let config = ["--config", "doorbuster.toml"];
    let with = |key: &[&str]| verify(directory, &[&config[..], key].concat());
    let (code, out, errors) = with(&["--key", "keys"]);
    assert_eq!((code, errors.as_str()), (0, ""), "{out}");
    assert!(out.ends_with("\nthe signature holds, and the ledger says the same\n"), "{out}");
    let (code, out, _) = with(&[]);
    assert!(code == 0 && out.ends_with(" the same; --key compares whose key it is\n"), "{out}");
    let (code, _, errors) = with(&["--key", "none"]);
    assert!(code == 1 && errors.contains("\n  there is no key none"), "{errors}");
    mysql::configure(directory, "certified_other");
    assert_eq!(Serving::start(mysql::demo(directory)).stop(), 0);
    let (code, _, errors) = with(&[]);
    assert!(code == 1 && errors.contains("\n  it is another ledger"), "{errors}");
}

#[test]
fn of_a_cluster_gate_and_queue_are_certified_too_and_what_they_lack_is_in_it() {
    let directory = tempfile::tempdir().unwrap();
    let directory = directory.path();
    cluster::configure(directory, "certified_c", "");
    let server = cluster::serve(directory);
    cluster::read(&server, 1, &cluster::accepted(&server, 1, "a", 29));
    cluster::audit(directory);
    let report = || run(directory, &[&MADE[..], &["keys"]].concat());
    let (code, page, errors) = report();
    assert_eq!((code, errors.as_str()), (0, ""), "{page}");
    let gates = &certified(directory)["gate_and_queue"];
    let items = gates["items"].as_array().unwrap();
    let numbers = |item: &Value| {
        ["available", "open_units", "held", "sold", "total"].map(|name| item[name].as_i64().unwrap())
    };
    let item = items.iter().find(|item| item["product"] == 29).unwrap();
    let [available, open, held, sold, total] = numbers(item);
    assert_eq!((held + sold, open, available), (1, 0, total - 1), "{item}");
    assert!(items.iter().all(|item| item["compared"] == true), "{gates}");
    assert_eq!((&gates["at_rest"], &gates["messages"]), (&Value::Bool(true), &Value::from(0)));
    let says = format!("gate, queue and ledger agree: {} of {} items compared on ", items.len(), items.len());
    assert!(page.contains(&format!("\n{says}")), "{page}");

    // What is ordered since changes nothing of it.
    cluster::read(&server, 2, &cluster::accepted(&server, 2, "b", 29));
    let verify = || verify(directory, &["--config", "doorbuster.toml", "--key", "keys"]);
    let (code, out, errors) = verify();
    assert_eq!((code, errors.as_str()), (0, ""), "{out}");
    assert!(
        out.contains(&says) && out.ends_with("\nthe signature holds, and the ledger says the same\n"),
        "{out}"
    );
    cluster::audit(directory);
    assert_eq!(server.stop(), 0);

    one_unit_more_at_each_gate("certified_c");
    fs::remove_file(directory.join("drop.json")).unwrap();
    let (code, page, errors) = report();
    assert!(code == 1 && errors.contains("gate, queue and ledger break "), "{code} {errors}");
    assert!(
        page.contains("AUDIT NOT CLEAN") && page.contains("gate, queue and ledger DO NOT AGREE"),
        "{page}"
    );
    let broken = certified(directory)["gate_and_queue"]["broken"].clone();
    assert!(broken[0].as_str().unwrap().contains(" differs by 1 from the total "), "{broken}");
    assert_eq!(verify().0, 0, "it is a true certificate of a sale that went wrong");
}

fn one_unit_more_at_each_gate(name: &str) {
    let redis = Engines::shared(&["redis"]).address("redis");
    let (host, port) = redis.rsplit_once(':').unwrap();
    let script = format!(
        "local changed = 0 for _, key in ipairs(redis.call('KEYS', '{{{name}:*')) do \
         if redis.call('TYPE', key).ok == 'hash' and redis.call('HEXISTS', key, 'avail') == 1 then \
         redis.call('HINCRBY', key, 'avail', 1) changed = changed + 1 end end return changed"
    );
    let changed =
        Command::new("redis-cli").args(["-h", host, "-p", port, "EVAL", &script, "0"]).output().unwrap();
    let changed: u64 = String::from_utf8_lossy(&changed.stdout).trim().parse().expect("how many there were");
    assert!(changed > 0);
}
