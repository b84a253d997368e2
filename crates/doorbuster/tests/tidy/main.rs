//! What must hold in the source itself: who may import whom, how long a file may be, where tests stand, that no public
//! item is dead, and that ARCHITECTURE.md names every folder.
//!
//! Reads text, not syntax: a rule that needs a parser belongs into clippy. Each failure lists all offenders with the
//! rule that they break.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod imports;
mod items;
mod layout;

use std::fs;
use std::path::{Path, PathBuf};

/// One file of the repository.
#[derive(Debug)]
struct Source {
    /// From the top of the repository, with `/`.
    path: String,
    text: String,
}

impl Source {
    /// Whether all of it is test code.
    fn is_test(&self) -> bool {
        let in_tests = |part: &str| part == "tests" || part == "tests.rs" || part == "benches";
        self.path.split('/').any(in_tests)
    }

    /// The lines before the unit tests at its end, with their numbers; comments are left out.
    fn code(&self) -> impl Iterator<Item = (usize, &str)> {
        let lines = self.text.lines().enumerate();
        lines
            .take_while(|(_, line)| line.trim() != "mod tests {")
            .filter(|(_, line)| !line.trim_start().starts_with("//"))
            .map(|(index, line)| (index + 1, line))
    }
}

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// All Rust files below a folder of the repository.
fn sources(folder: &str) -> Vec<Source> {
    let top = repository();
    let mut folders = vec![top.join(folder)];
    let mut sources = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let text = fs::read_to_string(&path).unwrap();
                let path = path.strip_prefix(&top).unwrap().to_str().unwrap().replace('\\', "/");
                sources.push(Source { path, text });
            }
        }
    }
    assert!(!sources.is_empty(), "{folder} has no Rust files: was it renamed?");
    sources.sort_by(|a, b| a.path.cmp(&b.path));
    sources
}

fn assert_none(offenders: &[String], rule: &str) {
    assert!(offenders.is_empty(), "{rule}:\n  {}", offenders.join("\n  "));
}
