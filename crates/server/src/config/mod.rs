//! The configuration: one struct, checked whole before any port is bound or any ledger opened.
//!
//! The defaults, with what each key means, are `config.default.toml`, compiled in and printed by
//! `doorbuster config`; there is no second list of them. [`Sources`] lays file, environment and arguments over
//! them. [`Secrets`] are read apart, so that a printed configuration can't hold one.
//!
//! Must not: open anything but the configuration and secret files.

mod beacon;
mod clock;
mod engines;
#[cfg(fuzzing)]
pub mod fuzzing;
mod http;
mod ledger;
mod line;
mod secrets;
mod shop;
mod sources;
mod stripe;
mod webhooks;

use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::time::Duration;

use engine::{CoolDown, limits};
use serde::{Deserialize, Deserializer};

use self::http::{is_origin, not_an_origin};
use crate::intake::admission::Limits;
use crate::rehearsals::RehearseCommand;

pub use beacon::Beacon;
pub use clock::Clock;
pub use engines::{Gate, GateMode, Queue};
pub use http::{Http, parse_listen};
pub use ledger::{Backend, Ledger, MySqlTls, SIGNING_KEY_FILE};
pub use line::Line;
pub use secrets::Secrets;
pub use shop::{Address, Shop};
pub use sources::{ConfigErrors, Environment, Sources};
pub use stripe::Stripe;
pub use webhooks::Webhooks;

/// The commented defaults, as `doorbuster config` prints them.
pub const DEFAULTS: &str = include_str!("../../config.default.toml");

/// Everything that can be configured. The keys are documented in [`DEFAULTS`], not here once more.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    pub http: Http,
    pub auth: Auth,
    pub admission: Admission,
    pub published: Published,
    pub ledger: Ledger,
    pub cluster: Cluster,
    pub gate: Gate,
    pub queue: Queue,
    pub sale: Sale,
    pub shop: Shop,
    pub stripe: Stripe,
    pub beacon: Beacon,
    pub line: Line,
    pub webhooks: Webhooks,
    pub figures: Figures,
    pub clock: Clock,
    pub pages: Pages,
    pub log: Log,
    /// Set by `serve --demo` alone: a file must not be able to turn a shop into a demo.
    #[serde(skip)]
    pub demo: Option<Demo>,
    /// Set by `serve` alone. `None`: operators can't have a sale rehearsed.
    #[serde(skip)]
    pub rehearse: Option<RehearseCommand>,
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
pub struct Auth {
    pub buyer: BuyerAuth,
    #[serde(deserialize_with = "path_unless_empty")]
    token_secret_file: Option<PathBuf>,
    #[serde(deserialize_with = "path_unless_empty")]
    token_secret_previous_file: Option<PathBuf>,
    pub token_claim: String,
    #[serde(deserialize_with = "text_unless_empty")]
    pub token_groups_claim: Option<String>,
    #[serde(deserialize_with = "text_unless_empty")]
    pub token_issuer: Option<String>,
    #[serde(deserialize_with = "text_unless_empty")]
    pub token_audience: Option<String>,
    #[serde(deserialize_with = "path_unless_empty")]
    shop_key_file: Option<PathBuf>,
    #[serde(deserialize_with = "text_unless_empty")]
    shop_jwks_url: Option<String>,
    shop_jwks_authority_file: PathBuf,
    pub shop_origins: Vec<String>,
    session_s: u64,
    #[serde(deserialize_with = "path_unless_empty")]
    operator_token_file: Option<PathBuf>,
    #[serde(deserialize_with = "path_unless_empty")]
    operator_token_previous_file: Option<PathBuf>,
    #[serde(deserialize_with = "path_unless_empty")]
    payment_secret_file: Option<PathBuf>,
    #[serde(deserialize_with = "path_unless_empty")]
    payment_secret_previous_file: Option<PathBuf>,
    payment_tolerance_s: u64,
}

impl Auth {
    pub fn payment_tolerance(&self) -> Duration {
        Duration::from_secs(self.payment_tolerance_s)
    }

    pub fn session(&self) -> Duration {
        Duration::from_secs(self.session_s)
    }

    fn check(&self, problems: &mut Vec<Problem>) {
        if self.token_claim.is_empty() {
            problems.push(("auth.token_claim", "is empty: name the claim, usually \"sub\"".into()));
        }
        if self.token_groups_claim.as_ref() == Some(&self.token_claim) {
            problems.push(("auth.token_groups_claim", "is the claim that names the buyer".into()));
        }
        for (key, text) in [
            ("auth.token_groups_claim", &self.token_groups_claim),
            ("auth.token_issuer", &self.token_issuer),
            ("auth.token_audience", &self.token_audience),
        ] {
            if text.as_ref().is_some_and(|text| text.len() > CLAIM_BYTES_MAX) {
                problems.push((key, format!("must have at most {CLAIM_BYTES_MAX} bytes")));
            }
        }
        for origin in self.shop_origins.iter().filter(|origin| !is_origin(origin)) {
            problems.push(("auth.shop_origins", not_an_origin(origin)));
        }
        if self.shop_jwks_url.as_deref().is_some_and(|url| !is_safe_url(url)) {
            let message = "must begin with https://; without TLS keys are fetched from this machine alone \
                           (http://127.0.0.1, http://[::1], http://localhost)";
            problems.push(("auth.shop_jwks_url", message.into()));
        }
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
    pub(crate) orders_per_s_per_buyer: u64,
    in_flight_max: usize,
    pub(crate) in_flight_per_buyer_max: u32,
    pub(crate) anonymous_requests_per_s_per_address: u64,
    pub(crate) sessions_per_s_per_address: u64,
    measured_peak_per_s: u64,
    measured_on: String,
}

/// A date, in whichever words.
const MEASURED_ON_BYTES_MAX: usize = 32;

/// Of the default burst, whatever the rate: buyers who were asked to try again come in waves, by whole seconds, and what a
/// wave can't take of its second goes to whoever asks without pause.
const BURST_MIN: u64 = 20;

impl Admission {
    /// What the installation was found to carry, in orders per second, and when; `None`: not known.
    pub(crate) fn measured_peak(&self) -> Option<(u64, &str)> {
        (self.measured_peak_per_s > 0).then_some((self.measured_peak_per_s, &*self.measured_on))
    }

    /// The bounds as admission takes them, with the burst worked out: of one of so many servers, which share the
    /// rate among them.
    pub fn limits(&self, servers: u32) -> Limits {
        let share = |whole: u64| whole.div_ceil(u64::from(servers.max(1)));
        let orders_per_s = share(self.orders_per_s);
        Limits {
            orders_per_s,
            burst: match self.burst {
                // Never more than a second's.
                0 => (orders_per_s / 10).max(BURST_MIN).min(orders_per_s).max(1),
                burst => share(burst),
            },
            orders_per_s_per_buyer: self.orders_per_s_per_buyer,
            in_flight_max: self.in_flight_max,
            in_flight_per_buyer_max: self.in_flight_per_buyer_max,
            gate_judges: false,
        }
    }
}

/// The published routes.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Published {
    pub unlimited: bool,
}

/// The servers of a cluster, and the bounds of each one's stages.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cluster {
    pub enabled: bool,
    pub servers: u32,
    pub server_name: String,
    publish_timeout_ms: u64,
    pub publish_queue_max: usize,
    pub publish_batch_max: usize,
    pub publish_threads: usize,
    pub backlog_max: u64,
    pub consume_batch_max: usize,
    roll_forward_after_ms: u64,
}

impl Cluster {
    /// From the reservation to the broker's acknowledgement.
    pub fn publish_timeout(&self) -> Duration {
        Duration::from_millis(self.publish_timeout_ms)
    }

    pub fn roll_forward_after(&self) -> Duration {
        Duration::from_millis(self.roll_forward_after_ms)
    }
}

/// Defaults for sales that do not say it themselves.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sale {
    payment_s: u32,
    pub open_holds_per_buyer_max: u32,
    cool_down_ms: u32,
}

impl Sale {
    pub fn payment(&self) -> Duration {
        Duration::from_secs(self.payment_s.into())
    }

    pub fn cool_down(&self) -> CoolDown {
        CoolDown { first_ms: self.cool_down_ms }
    }
}

/// Where the history of the figures is kept.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Figures {
    #[serde(deserialize_with = "path_unless_empty")]
    pub history_dir: Option<PathBuf>,
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

impl Config {
    /// Where the ledger is read: a cluster's is always on a server.
    ///
    /// # Panics
    /// If the configuration was not checked.
    pub fn ledger_source(&self, secrets: &Secrets) -> crate::ledger::Source {
        if self.cluster.enabled {
            return crate::ledger::Source::MySql(Box::new(self.ledger.mysql_options(secrets)));
        }
        self.ledger.source(secrets)
    }

    /// What the server signs with; `None`: nothing. Only lines need it, which a cluster has none of.
    pub fn signing_key(&self) -> Option<PathBuf> {
        if self.cluster.enabled { None } else { self.ledger.signing_key() }
    }

    /// Where the history of the figures is kept; `None`: in memory.
    pub fn history_dir(&self) -> Option<&Path> {
        self.figures.history_dir.as_deref().or_else(|| self.ledger_dir())
    }

    /// `None`: the ledger is on a server.
    pub fn ledger_dir(&self) -> Option<&Path> {
        let in_files = self.ledger.backend == Backend::Sqlite && !self.cluster.enabled;
        in_files.then_some(&self.ledger.data_dir)
    }
}

/// Of what claims of a token must be: a token has 2,048 bytes at most.
const CLAIM_BYTES_MAX: usize = 256;

/// Of names that are given in the configuration.
const NAME_BYTES_MAX: usize = 64;

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
        self.http.check(&mut problems);
        self.check_demo(&mut problems);
        self.check_address(&mut problems);
        self.auth.check(&mut problems);
        self.shop.check(&mut problems);
        self.stripe.check(&mut problems);
        self.beacon.check(&mut problems);
        self.line.check(&mut problems);
        self.webhooks.check(&mut problems);
        if self.ledger.data_dir.as_os_str().is_empty() {
            problems.push(("ledger.data_dir", "is empty: name a directory on a local disk".into()));
        }
        self.check_cluster(&mut problems);
        self.ledger.check_mysql(self.cluster.enabled, &mut problems);
        if self.admission.burst > 0 && self.admission.orders_per_s == 0 {
            let message = "has no effect without a rate: set admission.orders_per_s, or leave burst at 0";
            problems.push(("admission.burst", message.into()));
        }
        if self.admission.measured_on.len() > MEASURED_ON_BYTES_MAX {
            let message = format!("is longer than {MEASURED_ON_BYTES_MAX} bytes: give the date");
            problems.push(("admission.measured_on", message));
        }
        if self.ledger.batch_commands_max > self.ledger.queue_commands_max {
            let message = "is above ledger.queue_commands_max, so no batch could be full: lower it";
            problems.push(("ledger.batch_commands_max", message.into()));
        }
        problems
    }

    fn check_address(&self, problems: &mut Vec<Problem>) {
        if self.shop.address == Address::Token && (self.auth.buyer != BuyerAuth::Token || self.demo.is_some())
        {
            let message =
                "= \"token\" is for tokens of the shop that reach this server: set auth.buyer = \"token\"";
            problems.push(("shop.address", message.into()));
        }
    }

    fn check_demo(&self, problems: &mut Vec<Problem>) {
        match self.demo {
            None if self.auth.buyer == BuyerAuth::DemoCookie => {
                let message = "= \"demo_cookie\" makes everybody a buyer: use it with `doorbuster serve --demo`, \
                               or set \"token\" or \"member_id\"";
                problems.push(("auth.buyer", message.into()));
            }
            Some(demo)
                if !demo.public
                    && self.http.operator_listen.is_some_and(|address| !address.ip().is_loopback()) =>
            {
                let message =
                    "is reached by other machines: in a demo listen on 127.0.0.1, or add --demo-public";
                problems.push(("http.operator_listen", message.into()));
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

    fn check_cluster(&self, problems: &mut Vec<Problem>) {
        if !is_named(&self.cluster.server_name, ".:-") {
            let message = "must have at most 64 letters, digits, dots, colons and dashes";
            problems.push(("cluster.server_name", message.into()));
        }
        self.gate.check(problems);
        self.queue.check(problems);
        if self.cluster.roll_forward_after_ms <= self.cluster.publish_timeout_ms {
            let message = "must be above cluster.publish_timeout_ms: a message may be on its way so long";
            problems.push(("cluster.roll_forward_after_ms", message.into()));
        }
    }

    /// Every number that can be set, with the bounds that its comment in [`DEFAULTS`] states.
    fn bounds(&self) -> Vec<(&'static str, u64, RangeInclusive<u64>)> {
        let (http, admission, ledger) = (&self.http, &self.admission, &self.ledger);
        let (cluster, gate, queue) = (&self.cluster, &self.gate, &self.queue);
        vec![
            ("http.threads", http.threads as u64, 1..=64),
            ("http.connections_max", http.connections_max as u64, 1..=1_000_000),
            ("http.connections_per_address_max", http.connections_per_address_max as u64, 0..=1_000_000),
            ("http.head_bytes_max", http.head_bytes_max as u64, 1024..=65_536),
            ("http.body_bytes_max", http.body_bytes_max as u64, 1024..=1_048_576),
            ("http.operator_body_bytes_max", http.operator_body_bytes_max as u64, 1024..=67_108_864),
            ("http.request_timeout_ms", http.request_timeout_ms, 100..=600_000),
            ("http.idle_timeout_ms", http.idle_timeout_ms, 100..=3_600_000),
            ("http.write_timeout_ms", http.write_timeout_ms, 100..=600_000),
            ("http.drain_timeout_ms", http.drain_timeout_ms, 0..=600_000),
            ("auth.session_s", self.auth.session_s, 60..=86_400),
            ("auth.payment_tolerance_s", self.auth.payment_tolerance_s, 1..=86_400),
            ("admission.orders_per_s", admission.orders_per_s, 0..=10_000_000),
            ("admission.burst", admission.burst, 0..=10_000_000),
            ("admission.measured_peak_per_s", admission.measured_peak_per_s, 0..=10_000_000),
            ("admission.orders_per_s_per_buyer", admission.orders_per_s_per_buyer, 0..=1_000_000),
            ("admission.in_flight_max", admission.in_flight_max as u64, 1..=1_000_000),
            ("admission.in_flight_per_buyer_max", admission.in_flight_per_buyer_max.into(), 0..=1_000_000),
            (
                "admission.anonymous_requests_per_s_per_address",
                admission.anonymous_requests_per_s_per_address,
                0..=1_000_000,
            ),
            ("admission.sessions_per_s_per_address", admission.sessions_per_s_per_address, 0..=1_000_000),
            ("ledger.batch_commands_max", ledger.batch_commands_max as u64, 1..=65_536),
            ("ledger.queue_commands_max", ledger.queue_commands_max as u64, 1..=1_048_576),
            ("ledger.checkpoint_pages", ledger.checkpoint_pages.into(), 64..=1_048_576),
            ("ledger.address_retention_days", ledger.address_retention_days.into(), 1..=3_650),
            ("cluster.servers", cluster.servers.into(), 1..=1_000),
            ("cluster.publish_timeout_ms", cluster.publish_timeout_ms, 100..=60_000),
            ("cluster.publish_queue_max", cluster.publish_queue_max as u64, 1..=1_048_576),
            ("cluster.publish_batch_max", cluster.publish_batch_max as u64, 1..=1_024),
            ("cluster.publish_threads", cluster.publish_threads as u64, 1..=64),
            ("cluster.backlog_max", cluster.backlog_max, 1..=1_000_000_000),
            ("cluster.consume_batch_max", cluster.consume_batch_max as u64, 1..=65_536),
            ("cluster.roll_forward_after_ms", cluster.roll_forward_after_ms, 1_000..=3_600_000),
            ("gate.batch_commands_max", gate.batch_commands_max as u64, 1..=65_536),
            ("gate.timeout_ms", gate.timeout_ms, 10..=60_000),
            ("queue.broker_disk_percent_max", queue.broker_disk_percent_max.into(), 1..=100),
            ("queue.timeout_ms", queue.timeout_ms, 10..=60_000),
            ("sale.payment_s", self.sale.payment_s.into(), 1..=limits::PAYMENT_MS_MAX / 1_000),
            ("clock.jump_max_s", self.clock.jump_max_s, 120..=86_400),
            ("sale.open_holds_per_buyer_max", self.sale.open_holds_per_buyer_max.into(), 1..=1_000_000),
            ("sale.cool_down_ms", self.sale.cool_down_ms.into(), 0..=3_600_000),
            ("beacon.genesis_s", self.beacon.genesis_s, 0..=4_294_967_295),
            ("beacon.period_s", self.beacon.period_s.into(), 1..=3600),
            ("line.places_max", self.line.places_max.into(), 1..=limits::LINE_PLACES_MAX.into()),
            ("line.proof_of_work_bits", self.line.proof_of_work_bits.into(), 12..=28),
        ]
    }
}

/// A name of letters, digits and these other characters. It may be empty.
fn is_named(text: &str, more: &str) -> bool {
    text.len() <= NAME_BYTES_MAX
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || more.as_bytes().contains(&byte))
}

/// Of keys: whoever could change them on their way could be any buyer. Of pages: whoever could read what a buyer is led to.
fn is_safe_url(url: &str) -> bool {
    let Some((scheme, rest)) = url.split_once("://") else { return false };
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let host = match authority.strip_prefix('[') {
        Some(v6) => v6.split_once(']').map_or("", |(host, _)| host),
        None => authority.split_once(':').map_or(authority, |(host, _)| host),
    };
    let plain =
        !host.is_empty() && !authority.contains('@') && url.bytes().all(|byte| byte.is_ascii_graphic());
    plain && (scheme == "https" || (scheme == "http" && ["127.0.0.1", "::1", "localhost"].contains(&host)))
}

fn text_unless_empty<'de, D: Deserializer<'de>>(source: D) -> Result<Option<String>, D::Error> {
    let text = String::deserialize(source)?;
    Ok((!text.is_empty()).then_some(text))
}

fn path_unless_empty<'de, D: Deserializer<'de>>(source: D) -> Result<Option<PathBuf>, D::Error> {
    let text = String::deserialize(source)?;
    Ok((!text.is_empty()).then(|| PathBuf::from(text)))
}

#[cfg(test)]
mod tests;
