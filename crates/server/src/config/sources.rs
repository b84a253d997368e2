//! Lays the configuration file, the environment and arguments over the embedded defaults.
//!
//! The defaults are the list of keys: what is not in them is a mistake, reported with its place and the nearest
//! key that exists. Every value is tried alone, so that an error names the line it came from and all errors come
//! out in one run.

use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddr;
use std::path::Path;

use serde::Deserialize;
use toml::de::{DeTable, DeValue};
use toml::{Table, Value};

use super::secrets::SECRET_VARIABLES;
use super::{Config, DEFAULTS, Demo};

/// Where our environment variables begin. Everything that begins so must be known.
const PREFIX: &str = "DOORBUSTER_";

/// Read by the client commands and by `bench`, and no keys of the server.
const CLIENT_VARIABLES: [&str; 2] = ["DOORBUSTER_SERVER", "DOORBUSTER_BENCH_REDIS_PASSWORD"];

/// Read by the scripts in `dev/`: somebody who has exported one runs the server from the same shell.
const DEV_VARIABLES: [&str; 19] = [
    "DOORBUSTER_CACHE",
    "DOORBUSTER_DEV_ADVERTISED_HOST",
    "DOORBUSTER_DEV_DIR",
    "DOORBUSTER_DEV_PORT_BASE",
    "DOORBUSTER_DEV_PRELOAD",
    "DOORBUSTER_MARIADB_FLUSH_LOG",
    "DOORBUSTER_MARIADB_OPTIONS",
    "DOORBUSTER_MARIADB_SYNC_BINLOG",
    "DOORBUSTER_REDIS_APPENDFSYNC",
    "DOORBUSTER_REDIS_APPENDONLY",
    "DOORBUSTER_REDIS_CLUSTER_NODE_TIMEOUT_MS",
    "DOORBUSTER_REDIS_MAXMEMORY",
    "DOORBUSTER_REDIS_SAVE",
    "DOORBUSTER_REDIS_SENTINEL_DOWN_AFTER_MS",
    "DOORBUSTER_ROCKETMQ_FLUSH",
    "DOORBUSTER_ROCKETMQ_OPTIONS",
    "DOORBUSTER_ROCKETMQ_ROLE",
    "DOORBUSTER_ROCKETMQ_TLS_DIR",
    "DOORBUSTER_ROCKETMQ_VERSION",
];

/// Below this likeness (0 to 1) a suggestion would rather mislead.
const LIKENESS_MIN: f64 = 0.6;

/// All that is wrong with a configuration, a line each, each with what to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigErrors(pub Vec<String>);

impl fmt::Display for ConfigErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.join("\n"))
    }
}

impl std::error::Error for ConfigErrors {}

/// The process's variables that begin with `DOORBUSTER_`, read once. Its `Debug` leaves the values out, for
/// some are secrets.
#[derive(Clone, Default)]
pub struct Environment {
    variables: BTreeMap<String, String>,
    not_text: Vec<String>,
}

impl Environment {
    pub fn from_process() -> Self {
        let mut environment = Self::default();
        for (name, value) in std::env::vars_os() {
            let Some(name) = name.to_str().filter(|name| name.starts_with(PREFIX)) else { continue };
            match value.into_string() {
                Ok(value) => drop(environment.variables.insert(name.to_owned(), value)),
                Err(_) => environment.not_text.push(name.to_owned()),
            }
        }
        environment
    }

    pub fn from_pairs<'a>(pairs: impl IntoIterator<Item = (&'a str, &'a str)>) -> Self {
        let variables = pairs.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
        Self { variables, not_text: Vec::new() }
    }

    pub fn get(&self, name: &str) -> Option<&str> {
        self.variables.get(name).map(String::as_str)
    }
}

impl fmt::Debug for Environment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.variables.keys()).finish()
    }
}

/// Collects the sources of a configuration; each call stands above those before it.
#[derive(Clone, Debug)]
pub struct Sources {
    defaults: Table,
    merged: Table,
    /// Where a key's value came from; a key that is not here has its default.
    origins: BTreeMap<String, String>,
    /// The addresses that names were found to be, by their keys. Each is looked up once: it may not be found again.
    found: BTreeMap<String, SocketAddr>,
    problems: Vec<String>,
    /// A file could not be read, so that it is not known what is configured.
    unread: bool,
    demo: Option<Demo>,
}

impl Default for Sources {
    fn default() -> Self {
        let defaults: Table = DEFAULTS.parse().expect("the embedded defaults are tested to parse");
        let merged = defaults.clone();
        let (origins, found, problems) = (BTreeMap::new(), BTreeMap::new(), Vec::new());
        Self { defaults, merged, origins, found, problems, unread: false, demo: None }
    }
}

impl Sources {
    /// Adds a TOML file. One that can't be read is among the errors of [`Sources::load`].
    #[must_use]
    pub fn file(mut self, path: &Path) -> Self {
        match std::fs::read_to_string(path) {
            Ok(text) => self.text(&path.display().to_string(), &text),
            Err(error) => {
                self.unread = true;
                self.problems.push(format!("{}: can't be read: {error}", path.display()));
            }
        }
        self
    }

    /// Adds the variables `DOORBUSTER_<SECTION>_<KEY>`; any other that begins so is an error.
    #[must_use]
    pub fn environment(mut self, environment: &Environment) -> Self {
        for name in &environment.not_text {
            self.problems.push(format!("{name}: is not UTF-8 text"));
        }
        let keys = self.keys();
        for (name, text) in &environment.variables {
            let others: [&[&str]; 3] = [&SECRET_VARIABLES, &CLIENT_VARIABLES, &DEV_VARIABLES];
            if others.iter().any(|names| names.contains(&name.as_str())) {
                continue;
            }
            match keys.iter().find(|key| variable_of(key) == *name) {
                Some(key) => match typed_like(self.default_of(key), text) {
                    Ok(value) => self.set(key, value, name),
                    Err(expected) => self.problems.push(format!("{name}: {text:?} is not {expected}")),
                },
                None => {
                    let variables = keys.iter().map(|key| variable_of(key));
                    let known = SECRET_VARIABLES.iter().chain(&CLIENT_VARIABLES).map(ToString::to_string);
                    let advice = advice(nearest(name, variables.chain(known)));
                    self.problems.push(format!("{name}: unknown variable; {advice}"));
                }
            }
        }
        self
    }

    /// Adds an argument: `argument("http.listen", "127.0.0.1:0", "--listen")`.
    #[must_use]
    pub fn argument(mut self, key: &str, text: &str, name: &str) -> Self {
        self.set(key, Value::String(text.to_owned()), name);
        self
    }

    /// Makes it a demo: [`Config::demo`], buyers by cookie whatever the file says, the route for messages, and no
    /// bound of orders in flight per buyer: the published load commands are one buyer, a thousand times at once.
    #[must_use]
    pub fn demo(mut self, demo: Demo) -> Self {
        self.demo = Some(demo);
        self.argument("auth.buyer", "demo_cookie", "--demo")
    }

    /// The whole configuration, checked.
    ///
    /// # Errors
    /// Everything that is wrong in any source, each with its place and what to do.
    pub fn load(self) -> Result<Config, ConfigErrors> {
        let (config, problems) = self.load_all()?;
        if problems.is_empty() { Ok(config) } else { Err(ConfigErrors(problems)) }
    }

    /// What is configured beside all that is wrong with it: a value that can't be taken is left out. For whoever looks for more.
    ///
    /// # Errors
    /// If a file could not be read.
    pub fn load_all(self) -> Result<(Config, Vec<String>), ConfigErrors> {
        let (mut problems, mut merged) = (self.problems, self.merged);
        for (key, address) in &self.found {
            place(&mut merged, key, Value::String(address.to_string()));
        }
        let mut config: Config = merged
            .try_into()
            .expect("defaults with values that were each accepted alone, no name among them");
        config.demo = self.demo;
        if config.demo.is_some() {
            config.admission.in_flight_per_buyer_max = 0;
            config.admission.orders_per_s_per_buyer = 0;
            config.http.message_route = true;
        }
        for (key, message) in config.problems() {
            match self.origins.get(key) {
                Some(origin) => problems.push(format!("{origin}: {key} {message}")),
                None => problems.push(format!("{key} {message}")),
            }
        }
        if self.unread { Err(ConfigErrors(problems)) } else { Ok((config, problems)) }
    }

    /// The values of keys of a section, whichever source each is from.
    ///
    /// # Panics
    /// If there is no such key.
    pub fn values(&self, section: &str, keys: &[&str]) -> Table {
        keys.iter().map(|key| ((*key).to_owned(), self.merged[section][*key].clone())).collect()
    }

    /// The keys that have other values here than there.
    pub fn keys_unlike(&self, other: &Sources) -> Vec<String> {
        let value = |sources: &Sources, key: &str| {
            let (section, name) = key.split_once('.').expect("keys are section.name");
            sources.merged[section][name].clone()
        };
        self.keys().into_iter().filter(|key| value(self, key) != value(other, key)).collect()
    }

    pub(super) fn text(&mut self, name: &str, text: &str) {
        let values: Table = match text.parse() {
            Ok(values) => values,
            Err(error) => return self.syntax_error(name, text, &error),
        };
        let document = match DeTable::parse(text) {
            Ok(document) => document,
            Err(error) => return self.syntax_error(name, text, &error),
        };
        for (section, entry) in document.get_ref() {
            let place = |start: usize| format!("{name}:{}", line_of(text, start));
            let section_name = section.get_ref().as_ref();
            let DeValue::Table(entries) = entry.get_ref() else {
                self.unknown(section_name, &place(section.span().start));
                continue;
            };
            if entries.is_empty() && !self.defaults.contains_key(section_name) {
                self.unknown(section_name, &place(section.span().start));
            }
            for key in entries.keys() {
                let dotted = format!("{section_name}.{}", key.get_ref());
                let origin = place(key.span().start);
                if self.keys().contains(&dotted) {
                    let value = values[section_name][key.get_ref().as_ref()].clone();
                    self.set(&dotted, value, &origin);
                } else {
                    self.unknown(&dotted, &origin);
                }
            }
        }
    }

    fn syntax_error(&mut self, name: &str, text: &str, error: &toml::de::Error) {
        self.unread = true;
        let line = error.span().map_or(1, |span| line_of(text, span.start));
        self.problems.push(format!("{name}:{line}: not valid TOML: {}", error.message().replace('\n', ", ")));
    }

    fn unknown(&mut self, key: &str, origin: &str) {
        let problem = if self.defaults.contains_key(key) {
            format!("{origin}: {key} is a section: write [{key}] and its keys below it")
        } else {
            let advice = advice(nearest(key, self.keys().into_iter()));
            format!("{origin}: unknown key \"{key}\"; {advice}")
        };
        self.problems.push(problem);
    }

    /// Sets one key if its value alone makes a configuration, and keeps the reason if it does not.
    fn set(&mut self, key: &str, value: Value, origin: &str) {
        let default = self.default_of(key).clone();
        let mut trial = self.defaults.clone();
        place(&mut trial, key, value.clone());
        let taken = match Config::deserialize(trial) {
            Ok(taken) => taken,
            Err(error) => {
                let message = error.message().replace('\n', " ");
                let problem = format!("{origin}: {key} = {value}: {message}; the default is {default}");
                self.problems.push(problem);
                return;
            }
        };
        self.found.remove(key);
        if let Some(address) = taken.http.address_of(key) {
            self.found.insert(key.to_owned(), address);
        }
        place(&mut self.merged, key, value);
        self.origins.insert(key.to_owned(), origin.to_owned());
    }

    fn default_of(&self, key: &str) -> &Value {
        let (section, name) = key.split_once('.').expect("keys are section.name");
        &self.defaults[section][name]
    }

    fn keys(&self) -> Vec<String> {
        let sections = self.defaults.iter();
        sections
            .filter_map(|(section, entries)| Some((section, entries.as_table()?)))
            .flat_map(|(section, entries)| entries.keys().map(move |key| format!("{section}.{key}")))
            .collect()
    }
}

fn place(table: &mut Table, key: &str, value: Value) {
    let (section, name) = key.split_once('.').expect("keys are section.name");
    table[section][name] = value;
}

/// `http.listen` is set by `DOORBUSTER_HTTP_LISTEN`.
fn variable_of(key: &str) -> String {
    format!("{PREFIX}{}", key.replace('.', "_").to_uppercase())
}

/// Reads a variable's text as the type that the key's default has.
fn typed_like(default: &Value, text: &str) -> Result<Value, &'static str> {
    match default {
        Value::Boolean(_) => text.trim().parse().map(Value::Boolean).or(Err("true or false")),
        Value::Integer(_) => text.trim().parse().map(Value::Integer).or(Err("a whole number")),
        Value::Array(_) => {
            let parts = text.split(',').map(str::trim).filter(|part| !part.is_empty());
            Ok(Value::Array(parts.map(|part| Value::String(part.to_owned())).collect()))
        }
        _ => Ok(Value::String(text.to_owned())),
    }
}

fn line_of(text: &str, offset: usize) -> usize {
    text.bytes().take(offset).filter(|byte| *byte == b'\n').count() + 1
}

/// The candidate most like `name`, as a whole or in its last part (somebody forgot the section).
fn nearest(name: &str, candidates: impl Iterator<Item = String>) -> Option<String> {
    let likeness = |candidate: &str| {
        let whole = strsim::normalized_damerau_levenshtein(name, candidate);
        let last = candidate.rsplit('.').next().unwrap_or(candidate);
        let part = strsim::normalized_damerau_levenshtein(name.rsplit('.').next().unwrap_or(name), last);
        whole.max(part * 0.9)
    };
    candidates
        .map(|candidate| (likeness(&candidate), candidate))
        .filter(|(score, _)| *score >= LIKENESS_MIN)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, candidate)| candidate)
}

fn advice(nearest: Option<String>) -> String {
    match nearest {
        Some(nearest) => format!("did you mean \"{nearest}\"?"),
        None => "`doorbuster config` lists the keys".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// It was looked up again when the whole was loaded, and the program panicked if it was not found then.
    #[test]
    fn a_name_to_listen_on_that_is_gone_once_it_was_found_is_not_looked_up_again() {
        let mut sources = Sources::default();
        sources.text("doorbuster.toml", "[http]\nlisten = 'localhost:80'\noperator_listen = 'localhost:81'");
        place(&mut sources.merged, "http.listen", Value::String("gone".to_owned()));
        let http = sources.clone().load().unwrap().http;
        assert!(http.listen.ip().is_loopback() && http.listen.port() == 80, "{}", http.listen);
        assert_eq!(http.operator_listen.map(|address| address.port()), Some(81));
        // What stands above it counts.
        let none = sources.argument("http.operator_listen", "", "--operator-listen");
        let other = none.argument("http.listen", "127.0.0.1:82", "--listen");
        let http = other.load().unwrap().http;
        assert_eq!((http.listen.port(), http.operator_listen), (82, None));
    }
}
