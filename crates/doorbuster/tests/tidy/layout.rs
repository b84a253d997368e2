//! Where things stand: one convention for modules and for their tests, files that one can read, a map that is whole.

use std::collections::BTreeSet;
use std::fs;
use std::process::Command;

use crate::{assert_none, repository, sources};

/// Of a source file, its unit tests included. Above it a file is more than one thing.
const FILE_LINES_MAX: usize = 600;
const ARCHITECTURE_LINES_MAX: usize = 300;
const README_WORDS_MAX: usize = 1_000;

#[test]
fn no_file_is_too_long() {
    let mut offenders = Vec::new();
    for source in sources("crates") {
        let lines = source.text.lines().count();
        if lines > FILE_LINES_MAX {
            offenders.push(format!("{}: {lines} lines", source.path));
        }
    }
    assert_none(&offenders, &format!("a file has at most {FILE_LINES_MAX} lines"));
}

#[test]
fn every_file_says_what_it_is_for() {
    let mut offenders = Vec::new();
    for source in sources("crates") {
        let own_file = !source.path.ends_with("/tests.rs");
        if own_file && !source.text.starts_with("//! ") {
            offenders.push(format!("{}: does not begin with //!", source.path));
        }
        if source.text.lines().any(|line| line.starts_with("//!") && line.contains("Called by")) {
            offenders.push(format!("{}: says who calls it, which no compiler keeps true", source.path));
        }
    }
    assert_none(&offenders, "a file begins with its purpose and what it must not do");
}

#[test]
fn a_module_with_children_is_a_folder_with_mod_rs() {
    let offenders: Vec<String> = sources("crates")
        .into_iter()
        .filter(|source| {
            let folder = repository().join(source.path.trim_end_matches(".rs"));
            folder.is_dir()
        })
        .map(|source| source.path)
        .collect();
    assert_none(&offenders, "NAME/mod.rs, not NAME.rs beside the folder NAME");
}

/// Unit tests stand at the end of their file in `mod tests`, or in `NAME/tests.rs`, or in the folder `NAME/tests`.
/// Only the binaries of integration tests may share a module by its path.
#[test]
fn unit_tests_have_one_convention() {
    let mut offenders = Vec::new();
    for source in sources("crates") {
        let name = source.path.rsplit('/').next().unwrap();
        if name.ends_with("_test.rs") || name.ends_with("_tests.rs") || name == "test.rs" {
            offenders.push(format!("{}: tests stand in tests.rs", source.path));
        }
        if source.path.contains("/tests/tidy/") {
            continue;
        }
        for (index, line) in source.text.lines().enumerate() {
            let line = line.trim();
            if line.starts_with("#[path") && !source.path.contains("/tests/") {
                offenders.push(format!(
                    "{}:{}: a module's file has the module's name",
                    source.path,
                    index + 1
                ));
            }
            if line.starts_with(concat!("#[", "ignore")) {
                offenders.push(format!("{}:{}: an ignored test tests nothing", source.path, index + 1));
            }
        }
    }
    assert_none(&offenders, "one convention for unit tests");
}

#[test]
fn the_code_map_names_every_folder() {
    let map = fs::read_to_string(repository().join("ARCHITECTURE.md")).unwrap();
    let listed = Command::new("git").arg("-C").arg(repository()).args(["ls-files"]).output().unwrap();
    let listed = String::from_utf8(listed.stdout).unwrap();
    let mut folders = BTreeSet::new();
    for path in listed.lines() {
        let parts: Vec<&str> = path.split('/').collect();
        let (folders_of, file) = parts.split_at(parts.len() - 1);
        // A folder of one file and its tests is that file.
        if matches!(file, ["mod.rs" | "tests.rs"]) {
            continue;
        }
        let outside = match folders_of {
            ["crates", _, "src", ..] => 3,
            [top, ..] if *top != "crates" && !top.starts_with('.') => 0,
            _ => continue,
        };
        let to = if outside == 0 { 1 } else { folders_of.len() };
        for depth in (outside..to).filter(|depth| folders_of[*depth] != "tests") {
            folders.insert((folders_of[depth], folders_of[..depth].join("/")));
        }
    }
    assert!(folders.len() > 20, "git listed the files of this repository: {folders:?}");
    let named = |name: &str| map.matches(&format!("{name}/")).count();
    // Folders of one name are named as often as there are of them.
    let there = |name: &str| folders.iter().filter(|(folder, _)| *folder == name).count();
    let missing = folders.iter().filter(|(name, _)| named(name) < there(name));
    let missing: Vec<String> = missing.map(|(name, above)| format!("{above}/{name}")).collect();
    assert_none(&missing, "the code map of ARCHITECTURE.md names every folder, as `name/`");
}

#[test]
fn what_is_read_first_is_short() {
    let read = |name: &str| fs::read_to_string(repository().join(name)).unwrap();
    let lines = read("ARCHITECTURE.md").lines().count();
    assert!(
        lines <= ARCHITECTURE_LINES_MAX,
        "ARCHITECTURE.md has {lines} lines, at most {ARCHITECTURE_LINES_MAX}"
    );
    let words = read("README.md").split_whitespace().count();
    assert!(words <= README_WORDS_MAX, "README.md has {words} words, at most {README_WORDS_MAX}");
}
