//! No public item that nobody uses: the compiler can't see that in a library.

use std::collections::HashMap;

use crate::{Source, assert_none, sources};

/// What only tests use, and must: each with the reason.
const ALLOWED: &[&str] = &[
    // An environment that a test makes up; the program reads the real one.
    "from_pairs",
    // A command that counts for more than one in a mix, without a text that says so.
    "weighing",
    // How long the test of an outage waits, by bounds that nobody else has to know.
    "ledger_missed_within",
];

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !(c.is_alphanumeric() || c == '_')).filter(|word| !word.is_empty())
}

/// The name of the public item that a line declares.
fn declared(line: &str) -> Option<&str> {
    let rest = line.trim_start().strip_prefix("pub ")?;
    let rest = rest.strip_prefix("const fn ").map_or(rest, |_| &rest["const ".len()..]);
    let (kind, rest) = rest.split_once(' ')?;
    if !["fn", "struct", "enum", "trait", "type", "const", "static"].contains(&kind) {
        return None;
    }
    words(rest).next()
}

/// Whether a line begins to pass on what stands elsewhere.
fn passes_on(line: &str) -> bool {
    let Some(rest) = line.trim_start().strip_prefix("pub") else { return false };
    let within = rest.strip_prefix('(').and_then(|within| within.split_once(')'));
    within.map_or(rest, |(_, rest)| rest).starts_with(" use ")
}

/// The code of a file without what it passes on, which is no use of it.
fn using(source: &Source) -> impl Iterator<Item = &str> {
    let mut passing_on = false;
    source.code().map(|(_, line)| line).filter(move |line| {
        let of_it = passing_on || passes_on(line);
        passing_on = of_it && !line.trim_end().ends_with(';');
        !of_it
    })
}

#[test]
fn every_public_item_is_used() {
    let all = sources("crates");
    let mut uses: HashMap<&str, usize> = HashMap::new();
    // A crate that is for tests has no other users.
    let counts = |source: &&Source| !source.is_test() || source.path.starts_with("crates/simulation/");
    for source in all.iter().filter(counts) {
        for word in using(source).flat_map(words) {
            *uses.entry(word).or_default() += 1;
        }
    }
    let mut offenders = Vec::new();
    let in_library = |source: &&Source| {
        source.path.contains("/src/") && !source.is_test() && !source.path.contains("/doorbuster/")
    };
    for source in all.iter().filter(in_library) {
        for (number, line) in source.code() {
            let Some(name) = declared(line) else { continue };
            if uses[name] == 1 && !ALLOWED.contains(&name) {
                offenders.push(format!("{}:{number}: {name}", source.path));
            }
        }
    }
    assert_none(&offenders, "a public item is used by somebody, or it goes");
}
