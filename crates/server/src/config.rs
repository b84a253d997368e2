//! The configuration: one struct, checked whole before any port is bound or any ledger opened.
//!
//! The defaults, with what each key means, are `config.default.toml`, compiled in and printed by
//! `doorbuster config`; there is no second list of them. [`Sources`] lays file, environment and arguments over
//! them. [`Secrets`] are read apart, so that a printed configuration can't hold one.
//!
//! Must not: open anything but the configuration and secret files. Called by: the binary and tests.

mod secrets;
mod sources;

use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Deserializer};

use crate::admission::Limits;
use crate::ledger::sqlite::Synchronous;
use crate::net;

pub use secrets::{SecretBytes, Secrets};
pub use sources::{ConfigErrors, Environment, Sources};

/// The commented defaults, as `doorbuster config` prints them.
pub const DEFAULTS: &str = include_str!("../config.default.toml");

/// Everything that can be configured. The keys are documented in [`DEFAULTS`], not here once more.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    pub http: Http,
    pub auth: Auth,
    pub admission: Admission,
    pub ledger: Ledger,
    pub sale: Sale,
    pub pages: Pages,
    pub log: Log,
    /// Set by `serve --demo` alone: a file must not be able to turn a shop into a demo.
    #[serde(skip)]
    pub demo: Option<Demo>,
}

/// What `serve --demo` adds: sale 3 with its products, the shop of `/order/submit`, the demo payment button,
/// and buyers known by a cookie or by the `memberId` header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Demo {
    /// From the start of the server to the start of the sale; zero starts it at once.
    pub starts_in: Duration,
    /// Serve the demo, where anybody can be any buyer, on an address that other machines reach.
    pub public: bool,
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Http {
    pub listen: SocketAddr,
    pub threads: usize,
    pub connections_max: usize,
    pub head_bytes_max: usize,
    pub body_bytes_max: usize,
    pub operator_body_bytes_max: usize,
    request_timeout_ms: u64,
    idle_timeout_ms: u64,
    write_timeout_ms: u64,
    drain_timeout_ms: u64,
    #[serde(deserialize_with = "path_unless_empty")]
    tls_certificate_file: Option<PathBuf>,
    #[serde(deserialize_with = "path_unless_empty")]
    tls_key_file: Option<PathBuf>,
    pub allowed_origins: Vec<String>,
    pub metrics_token_required: bool,
    pub message_route: bool,
}

impl Http {
    pub fn request_timeout(&self) -> Duration {
        Duration::from_millis(self.request_timeout_ms)
    }

    pub fn idle_timeout(&self) -> Duration {
        Duration::from_millis(self.idle_timeout_ms)
    }

    pub fn write_timeout(&self) -> Duration {
        Duration::from_millis(self.write_timeout_ms)
    }

    pub fn drain_timeout(&self) -> Duration {
        Duration::from_millis(self.drain_timeout_ms)
    }

    /// The bounds of one of the event loops, which share the connections among them.
    pub fn limits(&self) -> net::Limits {
        net::Limits {
            connections_max: self.connections_max.div_ceil(self.threads),
            head_bytes_max: self.head_bytes_max,
            request_timeout: self.request_timeout(),
            idle_timeout: self.idle_timeout(),
            write_timeout: self.write_timeout(),
            drain: self.drain_timeout(),
            ..net::Limits::default()
        }
    }

    /// The PEM files of the certificate chain and of its key; `None` is plain HTTP.
    pub fn tls_files(&self) -> Option<(&Path, &Path)> {
        self.tls_certificate_file.as_deref().zip(self.tls_key_file.as_deref())
    }
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Auth {
    pub buyer: BuyerAuth,
    #[serde(deserialize_with = "path_unless_empty")]
    token_secret_file: Option<PathBuf>,
    pub token_claim: String,
    #[serde(deserialize_with = "path_unless_empty")]
    operator_token_file: Option<PathBuf>,
    #[serde(deserialize_with = "path_unless_empty")]
    payment_secret_file: Option<PathBuf>,
    payment_tolerance_s: u64,
}

impl Auth {
    pub fn payment_tolerance(&self) -> Duration {
        Duration::from_secs(self.payment_tolerance_s)
    }
}

/// How a buyer is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BuyerAuth {
    /// A bearer token signed with HS256.
    Token,
    /// The `memberId` header, set by a trusted edge.
    MemberId,
    /// A signed cookie per browser, or the `memberId` header; under `--demo` only.
    DemoCookie,
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Admission {
    orders_per_s: u64,
    burst: u64,
    in_flight_max: usize,
    pub(crate) in_flight_per_buyer_max: u32,
}

impl Admission {
    /// The bounds as admission takes them, with the burst worked out.
    pub fn limits(&self) -> Limits {
        Limits {
            orders_per_s: self.orders_per_s,
            burst: if self.burst == 0 { (self.orders_per_s / 10).max(1) } else { self.burst },
            in_flight_max: self.in_flight_max,
            in_flight_per_buyer_max: self.in_flight_per_buyer_max,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ledger {
    pub backend: Backend,
    pub data_dir: PathBuf,
    #[serde(with = "SynchronousText")]
    pub synchronous: Synchronous,
    pub batch_commands_max: usize,
    pub queue_commands_max: usize,
    pub checkpoint_pages: u32,
    pub address_retention_days: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Backend {
    Sqlite,
}

/// How the ledger's own type is written; what each survives is said in [`DEFAULTS`].
#[derive(Deserialize)]
#[serde(remote = "Synchronous", rename_all = "snake_case")]
enum SynchronousText {
    Full,
    Normal,
    Off,
}

/// Defaults for sales that do not say it themselves.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sale {
    payment_s: u32,
    pub open_holds_per_buyer_max: u32,
}

impl Sale {
    pub fn payment(&self) -> Duration {
        Duration::from_secs(self.payment_s.into())
    }
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pages {
    #[serde(deserialize_with = "path_unless_empty")]
    pub write_dir: Option<PathBuf>,
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Log {
    pub level: LogLevel,
    pub format: LogFormat,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LogLevel {
    Error,
    Warn,
    Info,
    Debug,
    Trace,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LogFormat {
    Auto,
    Pretty,
    Json,
}

impl Default for Config {
    fn default() -> Self {
        toml::from_str(DEFAULTS).expect("the embedded defaults are tested to parse")
    }
}

/// A value that can't be served with: the key, and what to do about it.
pub(crate) type Problem = (&'static str, String);

impl Config {
    /// Checks what the types do not: bounds, and keys that depend on each other. Does no I/O.
    ///
    /// # Errors
    /// All that is wrong, not only the first, each with its key and what to do.
    pub fn check(&self) -> Result<(), ConfigErrors> {
        let problems = self.problems();
        if problems.is_empty() {
            return Ok(());
        }
        Err(ConfigErrors(problems.into_iter().map(|(key, message)| format!("{key} {message}")).collect()))
    }

    pub(crate) fn problems(&self) -> Vec<Problem> {
        let mut problems = Vec::new();
        for (key, value, bounds) in self.bounds() {
            if !bounds.contains(&value) {
                let (min, max) = (bounds.start(), bounds.end());
                problems.push((key, format!("= {value} is out of bounds: set it from {min} to {max}")));
            }
        }
        self.check_http(&mut problems);
        self.check_demo(&mut problems);
        if self.auth.token_claim.is_empty() {
            problems.push(("auth.token_claim", "is empty: name the claim, usually \"sub\"".into()));
        }
        if self.ledger.data_dir.as_os_str().is_empty() {
            problems.push(("ledger.data_dir", "is empty: name a directory on a local disk".into()));
        }
        if self.admission.burst > 0 && self.admission.orders_per_s == 0 {
            let message = "has no effect without a rate: set admission.orders_per_s, or leave burst at 0";
            problems.push(("admission.burst", message.into()));
        }
        if self.ledger.batch_commands_max > self.ledger.queue_commands_max {
            let message = "is above ledger.queue_commands_max, so no batch could be full: lower it";
            problems.push(("ledger.batch_commands_max", message.into()));
        }
        problems
    }

    fn check_http(&self, problems: &mut Vec<Problem>) {
        let http = &self.http;
        let (missing, given) = ("is empty but the other one is set:", "set both, or neither for plain HTTP");
        match (&http.tls_certificate_file, &http.tls_key_file) {
            (None, Some(_)) => problems.push(("http.tls_certificate_file", format!("{missing} {given}"))),
            (Some(_), None) => problems.push(("http.tls_key_file", format!("{missing} {given}"))),
            (None, None) | (Some(_), Some(_)) => {}
        }
        for origin in http.allowed_origins.iter().filter(|origin| !is_origin(origin)) {
            let message =
                format!("holds {origin:?}: write it as a browser does, like \"https://shop.example\"");
            problems.push(("http.allowed_origins", message));
        }
        if http.operator_body_bytes_max < http.body_bytes_max {
            let message = "is below http.body_bytes_max: raise it to that at least";
            problems.push(("http.operator_body_bytes_max", message.into()));
        }
    }

    fn check_demo(&self, problems: &mut Vec<Problem>) {
        match self.demo {
            None if self.auth.buyer == BuyerAuth::DemoCookie => {
                let message = "= \"demo_cookie\" makes everybody a buyer: use it with `doorbuster serve --demo`, \
                               or set \"token\" or \"member_id\"";
                problems.push(("auth.buyer", message.into()));
            }
            Some(demo) if !demo.public && !self.http.listen.ip().is_loopback() => {
                let message = format!(
                    "= {} is reached by other machines, and in a demo anybody can be any buyer: listen on \
                     127.0.0.1, or add --demo-public",
                    self.http.listen
                );
                problems.push(("http.listen", message));
            }
            None | Some(_) => {}
        }
    }

    /// Every number that can be set, with the bounds that its comment in [`DEFAULTS`] states.
    fn bounds(&self) -> [(&'static str, u64, RangeInclusive<u64>); 20] {
        let (http, admission, ledger) = (&self.http, &self.admission, &self.ledger);
        [
            ("http.threads", http.threads as u64, 1..=64),
            ("http.connections_max", http.connections_max as u64, 1..=1_000_000),
            ("http.head_bytes_max", http.head_bytes_max as u64, 1024..=65_536),
            ("http.body_bytes_max", http.body_bytes_max as u64, 1024..=1_048_576),
            ("http.operator_body_bytes_max", http.operator_body_bytes_max as u64, 1024..=67_108_864),
            ("http.request_timeout_ms", http.request_timeout_ms, 100..=600_000),
            ("http.idle_timeout_ms", http.idle_timeout_ms, 100..=3_600_000),
            ("http.write_timeout_ms", http.write_timeout_ms, 100..=600_000),
            ("http.drain_timeout_ms", http.drain_timeout_ms, 0..=600_000),
            ("auth.payment_tolerance_s", self.auth.payment_tolerance_s, 1..=86_400),
            ("admission.orders_per_s", admission.orders_per_s, 0..=10_000_000),
            ("admission.burst", admission.burst, 0..=10_000_000),
            ("admission.in_flight_max", admission.in_flight_max as u64, 1..=1_000_000),
            ("admission.in_flight_per_buyer_max", admission.in_flight_per_buyer_max.into(), 0..=1_000_000),
            ("ledger.batch_commands_max", ledger.batch_commands_max as u64, 1..=65_536),
            ("ledger.queue_commands_max", ledger.queue_commands_max as u64, 1..=1_048_576),
            ("ledger.checkpoint_pages", ledger.checkpoint_pages.into(), 64..=1_048_576),
            ("ledger.address_retention_days", ledger.address_retention_days.into(), 1..=3_650),
            ("sale.payment_s", self.sale.payment_s.into(), 1..=2_592_000),
            ("sale.open_holds_per_buyer_max", self.sale.open_holds_per_buyer_max.into(), 1..=1_000_000),
        ]
    }
}

/// Scheme, host and perhaps port, with nothing after it: what a browser sends as `Origin`.
fn is_origin(text: &str) -> bool {
    let host = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://"));
    host.is_some_and(|host| {
        !host.is_empty()
            && host.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b".-:[]".contains(&b))
    })
}

fn path_unless_empty<'de, D: Deserializer<'de>>(source: D) -> Result<Option<PathBuf>, D::Error> {
    let text = String::deserialize(source)?;
    Ok((!text.is_empty()).then(|| PathBuf::from(text)))
}

#[cfg(test)]
mod tests;
