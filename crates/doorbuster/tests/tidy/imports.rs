//! Who may import whom.

use std::collections::BTreeSet;

use crate::{Source, assert_none, repository, sources};

/// The modules of the server from the entrance down. One may import what stands in a later row, and nothing of its own
/// row or an earlier one: so no circle can be, the profiles don't know each other, and HTTP knows neither.
const SERVER_LAYERS: &[&[&str]] = &[
    &["serve"],
    &["embedded", "cluster", "http"],
    &["reported"],
    &["figures"],
    &["chores", "demo"],
    &["config"],
    &["stripe", "beacon", "rehearsals"],
    &["webhooks", "image_origins"],
    &["pages", "gate", "queue", "ledger"],
    &["intake"],
    &["net"],
    &["verifier"],
    &["metrics", "clock", "recurring", "signing", "shop_keys", "tls_fault"],
    &["authorities", "line_ticket", "secret"],
    &["hex", "time"],
];

/// What may not occur in the engine: it has no I/O, no clock, no entropy and no threads.
const NOT_IN_THE_ENGINE: &[&str] = &[
    "std::time",
    "std::fs",
    "std::net",
    "std::io",
    "std::env",
    "std::thread",
    "std::process",
    "std::sync",
    "SystemTime",
    "Instant",
    "RandomState",
];

fn layer(module: &str) -> Option<usize> {
    SERVER_LAYERS.iter().position(|row| row.contains(&module))
}

/// The modules that a line names by a path that begins so.
fn named<'l>(line: &'l str, path: &'static str) -> impl Iterator<Item = &'l str> {
    line.match_indices(path).filter_map(move |(at, _)| {
        let before = line[..at].chars().next_back();
        if before.is_some_and(|before| before.is_alphanumeric() || before == '_') {
            return None;
        }
        let rest = &line[at + path.len()..];
        let end = rest.find(|c: char| !(c.is_alphanumeric() || c == '_')).unwrap_or(rest.len());
        Some(&rest[..end])
    })
}

/// `use crate::{a, b::c};` in one line, or over several, as single paths; or with another path before the brace.
fn grouped(source: &Source, path: &str) -> Vec<(usize, String)> {
    let begin = format!("{path}{{");
    let mut found = Vec::new();
    let mut open: Option<usize> = None;
    let mut depth = 0_usize;
    for (number, line) in source.code() {
        let mut rest = line;
        if open.is_none() {
            let Some(at) = line.find(&begin) else { continue };
            rest = &line[at + begin.len()..];
            (open, depth) = (Some(number), 1);
        }
        let mut name = String::new();
        for c in rest.chars() {
            match c {
                '{' => depth += 1,
                '}' => depth -= 1,
                _ => {}
            }
            if depth == 1 && (c.is_alphanumeric() || c == '_') {
                name.push(c);
            } else if !name.is_empty() && depth >= 1 {
                found.push((number, std::mem::take(&mut name)));
            }
            if depth == 0 {
                break;
            }
        }
        if !name.is_empty() {
            found.push((number, name));
        }
        if depth == 0 {
            open = None;
        }
    }
    found
}

/// What a file names by paths that begin so, with the lines.
fn all_named(source: &Source, path: &'static str) -> Vec<(usize, String)> {
    let single = |(number, line)| named(line, path).map(move |name| (number, name.to_owned()));
    source.code().flat_map(single).chain(grouped(source, path)).collect()
}

#[test]
fn every_module_of_the_server_has_a_layer() {
    let modules: BTreeSet<String> = sources("crates/server/src")
        .iter()
        .filter_map(|source| module_of(source).map(str::to_owned))
        .collect();
    let listed: BTreeSet<String> =
        SERVER_LAYERS.iter().flat_map(|row| row.iter().map(|m| (*m).to_owned())).collect();
    assert_eq!(modules, listed, "SERVER_LAYERS in {} has another list of modules", file!());
}

fn module_of(source: &Source) -> Option<&str> {
    let path = source.path.strip_prefix("crates/server/src/")?;
    let module = path.split('/').next()?;
    let module = module.strip_suffix(".rs").unwrap_or(module);
    (module != "lib").then_some(module)
}

#[test]
fn imports_run_down_the_layers_of_the_server() {
    let mut offenders = Vec::new();
    for source in sources("crates/server/src").iter().filter(|source| !source.is_test()) {
        let Some(from) = module_of(source) else { continue };
        let from_layer = layer(from).unwrap();
        for (number, to) in all_named(source, "crate::") {
            if to == from {
                continue;
            }
            if layer(&to).is_some_and(|to_layer| to_layer <= from_layer) {
                offenders.push(format!("{}:{number}: {from} imports {to}", source.path));
            }
        }
    }
    assert_none(&offenders, "a module imports only what stands in a later row of SERVER_LAYERS");
}

#[test]
fn the_two_writers_on_mysql_do_not_know_each_other() {
    let mut offenders = Vec::new();
    for [from, other] in [["book", "cluster"], ["cluster", "book"]] {
        for source in sources(&format!("crates/server/src/ledger/mysql/{from}")) {
            for path in ["crate::ledger::mysql::", "super::"] {
                let named = all_named(&source, path).into_iter().filter(|(_, to)| to == other);
                offenders
                    .extend(named.map(|(number, _)| format!("{}:{number}: imports {other}", source.path)));
            }
        }
    }
    assert_none(&offenders, "what serves both stands beside them, in ledger/mysql");
}

#[test]
fn the_engine_knows_nothing() {
    let mut offenders = Vec::new();
    for source in sources("crates/engine/src") {
        for (number, line) in source.code() {
            for word in NOT_IN_THE_ENGINE.iter().filter(|word| line.contains(*word)) {
                offenders.push(format!("{}:{number}: {word}", source.path));
            }
        }
        if source.path.ends_with("/lib.rs") && !source.text.contains("#![forbid(unsafe_code)]") {
            offenders.push(format!("{}: #![forbid(unsafe_code)] is missing", source.path));
        }
    }
    let manifest = std::fs::read_to_string(repository().join("crates/engine/Cargo.toml")).unwrap();
    let dependencies = manifest.split("[dependencies]").nth(1).unwrap().split('[').next().unwrap();
    let pure = ["hashbrown", "hmac", "sha2"];
    let is_pure = |line: &&str| pure.iter().any(|name| line.starts_with(name)) || line.is_empty();
    for line in dependencies.lines().filter(|line| !is_pure(line)) {
        offenders.push(format!("crates/engine/Cargo.toml: {line}"));
    }
    assert_none(&offenders, "the engine has no I/O, no clock, no entropy, no threads and no serde");
}

#[test]
fn the_protocol_of_rocketmq_is_bytes_alone() {
    let mut offenders = Vec::new();
    for source in sources("crates/rocketmq/src") {
        for (number, line) in source.code() {
            for word in NOT_IN_THE_ENGINE.iter().filter(|word| line.contains(*word)) {
                offenders.push(format!("{}:{number}: {word}", source.path));
            }
        }
    }
    let manifest = std::fs::read_to_string(repository().join("crates/rocketmq/Cargo.toml")).unwrap();
    let ours = |line: &&str| ["engine", "server", "bench"].iter().any(|name| line.starts_with(name));
    offenders.extend(manifest.lines().filter(ours).map(str::to_owned));
    assert_none(
        &offenders,
        "server and bench share the protocol, and no socket, no clock and no other crate",
    );
}

#[test]
fn the_bench_does_not_know_the_server() {
    let manifest = std::fs::read_to_string(repository().join("crates/bench/Cargo.toml")).unwrap();
    let depends = |line: &&str| line.starts_with("server") || line.starts_with("engine");
    let offenders: Vec<String> = manifest.lines().filter(depends).map(str::to_owned).collect();
    assert_none(&offenders, "the bench checks the server from outside");
}
