//! Whose words the message of a panic is.

use std::any::Any;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// Servers and their rules assert, and so do the primary keys of the database.
const ASSERTING: [&str; 3] = ["../engine/src", "../server/src", TABLES];
const TABLES: &str = "src/ledger/tables.rs";
/// What else may panic is the simulator, whose bugs are no finds.
const SIMULATOR: &str = "src";
/// What the library puts before the text of an assertion.
const BEFORE: [&str; 3] = [
    "assertion `left == right` failed: ",
    "assertion `left != right` failed: ",
    "internal error: entered unreachable code: ",
];

/// What it says.
pub(crate) fn message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().cloned();
    text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned())).unwrap_or_default()
}

/// Whether it is an assertion of a server, of its rules or of the database: it stands in their source, not in ours.
pub(crate) fn is_asserted(message: &str) -> bool {
    static SOURCES: OnceLock<[String; 2]> = OnceLock::new();
    let [theirs, ours] = SOURCES.get_or_init(|| {
        let (mut theirs, mut ours) = (String::new(), String::new());
        ASSERTING.iter().for_each(|path| read(&in_crate(path), &|_| true, &mut theirs));
        let is_ours = |path: &Path| path != in_crate(TABLES);
        read(&in_crate(SIMULATOR), &is_ours, &mut ours);
        [theirs, ours]
    });
    let is_theirs = |code: &str| theirs.contains(code) && !ours.contains(code);
    if let Some(condition) = message.strip_prefix("assertion failed: ") {
        return is_theirs(&format!("assert!({condition}"));
    }
    let text = BEFORE.iter().find_map(|before| message.strip_prefix(before)).unwrap_or(message);
    let line = text.lines().next().unwrap_or_default();
    // An error that was not expected stands behind the text.
    let mut ends = line.match_indices(": ").map(|(at, _)| at).chain([line.len()]);
    ends.any(|end| end > 0 && is_theirs(&format!("\"{}\"", &line[..end])))
}

fn in_crate(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

fn read(path: &Path, wanted: &dyn Fn(&Path) -> bool, into: &mut String) {
    if path.is_dir() {
        fs::read_dir(path).unwrap().for_each(|entry| read(&entry.unwrap().path(), wanted, into));
    } else if path.extension().is_some_and(|end| end == "rs") && wanted(path) {
        into.push_str(&fs::read_to_string(path).unwrap());
    }
}

#[test]
fn an_assertion_is_known_by_its_message() {
    for (message, expected) in [
        ("one operation has one answer", true),
        ("each order has its whereabouts", true),
        ("an order has one entry: its id is a primary key", true),
        ("internal error: entered unreachable code: payments and corrections alone are claimed for", true),
        ("a reply of ours is RESP: Incomplete", false),
        ("no Redis at nowhere", false),
        ("index out of bounds: the len is 3 but the index is 5", false),
        ("called `Option::unwrap()` on a `None` value", false),
        ("assertion failed: nobody_asserts(this)", false),
        ("", false),
    ] {
        assert_eq!(is_asserted(message), expected, "{message}");
    }
}
