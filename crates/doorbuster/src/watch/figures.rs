//! What the server says of itself, as the API gives it, and each part of it in words.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Deserialize;

use crate::output::plain;
use crate::time::{format_duration, format_utc};

/// A server of a cluster reads what is held and sold each second.
const UNITS_OLD_MS: u64 = 3_000;
/// Clocks that are further apart are so by seconds and more.
const APART_IN_MS: Duration = Duration::from_secs(10);

/// As the API gives them.
#[derive(Debug, Deserialize)]
pub(super) struct Figures {
    /// Since they were taken; of an older server, nothing.
    #[serde(default)]
    pub(super) age_ms: u64,
    pub(super) number: u64,
    pub(super) at_ms: u64,
    pub(super) verdict: Verdict,
    pub(super) rates: BTreeMap<String, f64>,
    pub(super) refused_by_code: BTreeMap<String, f64>,
    pub(super) order_route: Option<Took>,
    pub(super) health: Health,
    /// One that is older does not name them.
    #[serde(default)]
    pub(super) servers: Vec<Server>,
    pub(super) sales: Vec<Sale>,
    /// One that is older does not say.
    pub(super) sales_total: Option<usize>,
    pub(super) open: Option<Open>,
    /// The newest first; one that is older does not know them.
    #[serde(default)]
    pub(super) events: Vec<Event>,
}

/// All sales that have begun and are not over.
#[derive(Debug, Deserialize)]
pub(super) struct Open {
    pub(super) units: Units,
}

#[derive(Debug, Deserialize)]
pub(super) struct Event {
    pub(super) at_ms: u64,
    pub(super) says: String,
}

/// One of a cluster's.
#[derive(Debug, Deserialize)]
pub(super) struct Server {
    pub(super) server: String,
    pub(super) silent_ms: u64,
    pub(super) counted: bool,
    pub(super) ready: bool,
    pub(super) accepted_per_s: f64,
    /// What its own machine has; one that is older says less of it.
    pub(super) memory_bytes: Option<u64>,
    pub(super) disk_free_bytes: Option<u64>,
    pub(super) disk_bytes: Option<u64>,
    pub(super) clock_confirmed: Option<bool>,
    /// Of most clocks of the cluster.
    pub(super) clock_ahead_ms: Option<i64>,
    /// From the system's.
    pub(super) clock_difference_ms: Option<i64>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Verdict {
    pub(super) level: String,
    pub(super) code: String,
    pub(super) says: String,
    #[serde(rename = "do")]
    pub(super) action: String,
    /// The same for a machine, where the server knows it; one that is older does not.
    #[serde(rename = "action")]
    pub(super) press: Option<Press>,
}

/// What the console has a button for.
#[derive(Debug, Deserialize)]
pub(super) struct Press {
    kind: String,
    sale: Option<u64>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Took {
    pub(super) p50_ms: f64,
    pub(super) p99_ms: f64,
}

#[derive(Debug, Deserialize)]
pub(super) struct Health {
    pub(super) ready: bool,
    pub(super) reasons: Vec<String>,
    pub(super) in_flight: u64,
    pub(super) commit: Option<Took>,
    pub(super) disk_free_bytes: Option<u64>,
    pub(super) memory_bytes: Option<u64>,
    pub(super) connections: u64,
    pub(super) processors_busy: Option<f64>,
    pub(super) refunds_due: Option<u64>,
    /// One that is older does not know of these.
    pub(super) orders_per_s_max: Option<u64>,
    pub(super) measured_peak: Option<MeasuredPeak>,
    pub(super) webhooks: Option<Webhooks>,
    pub(super) dead_letters: Option<u64>,
    pub(super) backlog: Option<u64>,
    pub(super) backlog_age_ms: Option<u64>,
    pub(super) units_age_ms: Option<u64>,
    pub(super) mailbox: Option<u64>,
    pub(super) clock_confirmed: Option<bool>,
    pub(super) clock_difference_ms: Option<i64>,
    pub(super) ledger_bytes: Option<u64>,
    #[serde(default)]
    pub(super) engines: Vec<Engine>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Engine {
    engine: String,
    fault: Option<String>,
}

#[derive(Debug, Deserialize)]
pub(super) struct MeasuredPeak {
    pub(super) orders_per_s: u64,
    pub(super) on: String,
}

#[derive(Debug, Deserialize)]
pub(super) struct Webhooks {
    /// One that is older does not name them.
    #[serde(default)]
    pub(super) off: Vec<String>,
    pub(super) waiting: u64,
    pub(super) given_up: u64,
}

#[derive(Debug, Deserialize)]
pub(super) struct Sale {
    pub(super) id: u64,
    pub(super) title: String,
    pub(super) state: String,
    pub(super) starts_at_ms: u64,
    pub(super) ends_at_ms: u64,
    /// An operator ended it. One that is older does not say.
    pub(super) ended_at_ms: Option<u64>,
    pub(super) units: Units,
    /// One that is older does not say.
    pub(super) rates: Option<BTreeMap<String, f64>>,
    #[serde(default)]
    pub(super) refused_by_code: BTreeMap<String, f64>,
    pub(super) order_route: Option<Took>,
    pub(super) holds: Option<Holds>,
    pub(super) items_total: usize,
    pub(super) items: Vec<Item>,
}

/// How they ended.
#[derive(Debug, Deserialize)]
pub(super) struct Holds {
    since_ms: Option<u64>,
    paid: u64,
    paid_late: u64,
    cancelled: u64,
    expired: u64,
    paid_after_p50_s: Option<f64>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Units {
    pub(super) total: u64,
    pub(super) available: u64,
    /// One that is older does not say.
    #[serde(default)]
    pub(super) turns: u64,
    pub(super) held: u64,
    pub(super) sold: u64,
}

#[derive(Debug, Deserialize)]
pub(super) struct Item {
    pub(super) product: u64,
    pub(super) title: String,
    #[serde(flatten)]
    pub(super) units: Units,
    pub(super) rates: Option<BTreeMap<String, f64>>,
    /// One that is older does not say.
    pub(super) refused_by_code: Option<BTreeMap<String, f64>>,
    pub(super) order_route: Option<Took>,
    pub(super) sold_out_at_ms: Option<u64>,
    /// One that is older does not know lines.
    pub(super) line: Option<Line>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Line {
    joined: u64,
    joins_per_s: Option<f64>,
    waiting: u64,
    present: u64,
    sure_to: u64,
    reached: u64,
    turns: u64,
    called: u64,
    ordered: u64,
    expired: u64,
    given_back: u64,
    away: u64,
    pace: u64,
    pace_max_per_s: Option<u32>,
    tail_wait_s: Option<u64>,
    wait: Option<LineWait>,
    draw: String,
}

#[derive(Debug, Deserialize)]
struct LineWait {
    said_s: u64,
    took_s: u64,
}

impl Figures {
    /// Of one sale alone.
    pub(super) fn retain(&mut self, sale: u64) {
        self.sales.retain(|shown| shown.id == sale);
        (self.sales_total, self.open) = (None, None);
    }

    /// Otherwise the sale may be there, and the server had no room for it.
    pub(super) fn shows_all_or(&self, sale: u64) -> bool {
        self.sales_not_shown() == 0 || self.sales.iter().any(|shown| shown.id == sale)
    }

    /// That are there, and that the server had no room for.
    pub(super) fn sales_not_shown(&self) -> usize {
        self.sales_total.unwrap_or(0).saturating_sub(self.sales.len())
    }

    /// Which servers take no orders, if any.
    pub(super) fn out(&self) -> Option<String> {
        let all = self.servers.len();
        if !self.health.ready {
            let who = if all > 1 { "no server takes orders" } else { "the server takes no orders" };
            return Some(format!("{who}: {}", plain(&self.health.reasons.join("; "))));
        }
        let is_out = |server: &&Server| !server.counted || !server.ready;
        let out: Vec<_> = self.servers.iter().filter(is_out).map(Server::words).collect();
        (!out.is_empty()).then(|| format!("{} of {all} servers are out: {}", out.len(), out.join(", ")))
    }
}

impl Verdict {
    /// The command that does what it says to do, of this server; `None`: there is none.
    pub(super) fn command(&self, base: &str) -> Option<String> {
        let Press { kind, sale } = self.press.as_ref()?;
        let command = match (kind.as_str(), sale) {
            ("create", _) => "create drop.toml".to_owned(),
            ("resume", Some(sale)) => format!("resume {sale}"),
            // A later server knows more.
            _ => return None,
        };
        Some(format!("doorbuster sale {command} --server {base}"))
    }
}

impl Health {
    /// The rate that is let through, and beside it what was measured, where that is known.
    pub(super) fn admission(&self) -> Option<String> {
        let max = match self.orders_per_s_max? {
            0 => "all".to_owned(),
            max => format!("{max}/s"),
        };
        let peak = self.measured_peak.as_ref();
        let peak = peak.map(|peak| format!(" of a measured {}/s  {}", peak.orders_per_s, plain(&peak.on)));
        Some(max + &peak.unwrap_or_default())
    }

    /// Its clock and what its ledger takes; of a cluster each server has a row of its own.
    pub(super) fn clock(&self) -> Option<String> {
        let believed = match (self.dead_letters, self.clock_confirmed?) {
            (Some(_), _) => return None,
            (None, true) => "confirmed",
            (None, false) => "NOT CONFIRMED",
        };
        let ledger = self.ledger_bytes.map(|bytes| format!("  ledger {} MiB", bytes >> 20));
        let off = apart(self.clock_difference_ms);
        Some(format!("{believed}, {off} from the system's{}", ledger.unwrap_or_default()))
    }

    /// What waits for somebody or something; only what there is.
    pub(super) fn behind(&self) -> Vec<String> {
        let webhooks = self.webhooks.as_ref();
        let counts = [
            ("refunds due", self.refunds_due),
            ("webhooks waiting", webhooks.map(|webhooks| webhooks.waiting)),
            ("webhooks given up", webhooks.map(|webhooks| webhooks.given_up)),
            ("dead letters", self.dead_letters),
            ("commands waiting", self.mailbox),
            ("messages waiting", self.backlog),
        ];
        let there =
            counts.into_iter().filter_map(|(name, count)| Some((name, count.filter(|count| *count > 0)?)));
        let mut behind: Vec<_> = there.map(|(name, count)| format!("{name} {count}")).collect();
        if let Some(age_ms) = self.backlog_age_ms.filter(|age_ms| *age_ms >= 1_000) {
            behind.push(format!("the oldest for {}", format_duration(Duration::from_secs(age_ms / 1_000))));
        }
        if let Some(age_ms) = self.units_age_ms.filter(|age_ms| *age_ms >= UNITS_OLD_MS) {
            let age = format_duration(Duration::from_secs(age_ms / 1_000));
            behind.push(format!("held and sold as of {age} ago"));
        }
        let off = webhooks.map_or(&[][..], |webhooks| &webhooks.off);
        behind.extend(off.iter().map(|endpoint| format!("webhook {} off", plain(endpoint))));
        behind
    }

    /// Each engine, with what keeps it from being used.
    pub(super) fn engines(&self) -> String {
        let words = |Engine { engine, fault }: &Engine| match fault {
            None => format!("{} well", plain(engine)),
            Some(fault) => format!("{} NOT WELL: {}", plain(engine), plain(fault)),
        };
        self.engines.iter().map(words).collect::<Vec<_>>().join("  ")
    }
}

impl Took {
    pub(super) fn words(&self) -> String {
        format!("p50 {} ms  p99 {} ms", self.p50_ms, self.p99_ms)
    }
}

impl Holds {
    /// `None`: none has ended.
    pub(super) fn words(&self) -> Option<String> {
        let in_time = self.paid - self.paid_late.min(self.paid);
        let ended = in_time + self.cancelled + self.expired;
        let half = self.paid_after_p50_s.and_then(|half| Duration::try_from_secs_f64(half.ceil()).ok());
        let soon = half.map_or_else(String::new, |half| format!(", half within {}", format_duration(half)));
        (ended > 0).then(|| {
            let since = self.since_ms.map_or_else(String::new, |ms| format!("since {} ", format_utc(ms)));
            format!("{since}{in_time} of {ended} holds were paid{soon}; {} expired", self.expired)
        })
    }
}

impl Line {
    pub(super) fn words(&self) -> String {
        let joins = self.joins_per_s.map_or_else(String::new, |rate| format!(" ({rate}/s)"));
        let last = match self.tail_wait_s {
            None if self.waiting == 0 => "nobody waits".to_owned(),
            None if self.pace == 0 || self.reached < self.sure_to => {
                "no saying how long the last waits".to_owned()
            }
            None => "the last is hardly reached before the end".to_owned(),
            Some(wait) => format!("the last waits {}", format_duration(Duration::from_secs(wait))),
        };
        let limit = self.pace_max_per_s.map_or_else(String::new, |per_s| format!(" (limited to {per_s}/s)"));
        let waited = self.wait.as_ref().map_or_else(String::new, |wait| {
            let [took, said] =
                [wait.took_s, wait.said_s].map(|seconds| format_duration(Duration::from_secs(seconds)));
            format!("  waited {took}, the page said {said}")
        });
        format!(
            "joined {}{joins}  waiting {}  there {}  turns {}  called {}  ordered {}  expired {}  given back {}  \
             away {}  pace {}/min{limit}, {last}{waited}  draw {}",
            self.joined,
            self.waiting,
            self.present,
            self.turns,
            self.called,
            self.ordered,
            self.expired,
            self.given_back,
            self.away,
            self.pace,
            plain(&self.draw)
        )
    }
}

impl Server {
    pub(super) fn words(&self) -> String {
        let name = plain(&self.server);
        match self {
            Server { counted: false, silent_ms, .. } => format!("{name} silent for {} s", silent_ms / 1_000),
            Server { ready: false, .. } => format!("{name} takes no orders"),
            Server { accepted_per_s, .. } => format!("{name} {accepted_per_s}/s"),
        }
    }

    /// Of its clock: whether it is believed, how far it is ahead of most clocks, and how far from the system's.
    pub(super) fn clock(&self) -> [String; 3] {
        let believed = match self.clock_confirmed {
            None => "-",
            Some(true) => "confirmed",
            Some(false) => "NOT CONFIRMED",
        };
        let sign = match self.clock_ahead_ms.map_or(0, i64::signum) {
            1 => "+",
            -1 => "-",
            _ => "",
        };
        let [ahead, off] = [self.clock_ahead_ms, self.clock_difference_ms].map(apart);
        [believed.to_owned(), format!("{sign}{ahead}"), off]
    }
}

/// In milliseconds as long as that is what matters.
fn apart(ms: Option<i64>) -> String {
    let Some(ms) = ms else { return "-".to_owned() };
    let apart = Duration::from_millis(ms.unsigned_abs());
    if apart < APART_IN_MS { format!("{} ms", apart.as_millis()) } else { format_duration(apart) }
}

impl Units {
    pub(super) fn words(&self) -> [String; 5] {
        [self.total, self.available, self.turns, self.held, self.sold].map(|units| units.to_string())
    }
}
