//! One line that says how the night goes, and what to do next.
//!
//! A table of rules, the most severe first; the first that holds is the verdict. Must not: look at anything itself.

mod night;
mod press;
mod words;

use std::time::Duration;

use engine::{Phase, ProductId, SaleId};
use serde::Serialize;

use crate::chores::CLOCK_DIFFERENCE_MS_MAX;
use crate::figures::sales::{Open, Units};
use crate::figures::sample::{EngineFigures, Lately};
use crate::intake::catalog::quoted;
use engine::format_utc;

pub(in crate::figures) use night::Night;
use night::{free_below, live, next, paused, soon};
use press::Press;
pub use words::grouped;
pub(in crate::figures) use words::{ago, capital, units};
use words::{ahead, whole};

/// How many seconds something must go on, or is remembered, before it is a verdict: one bad second is none.
pub(in crate::figures) const SECONDS: usize = 10;
const ORDER_P99_MAX: Duration = Duration::from_secs(1);
const COMMIT_P99_MAX: Duration = Duration::from_millis(500);
/// Of all processors.
pub(in crate::figures) const PROCESSORS_BUSY_MAX: f64 = 0.95;
const MIB: u64 = 1024 * 1024;
/// Of any disk; of a small one, a tenth of it, but no less than [`DISK_WARNED_BYTES_MIN`].
const DISK_LOW_BYTES: u64 = 5 * 1024 * MIB;
const DISK_FULL_SOON_BYTES: u64 = 100 * MIB;
/// Twice what the ledger keeps free: below that it takes no orders, and a warning comes before.
const DISK_WARNED_BYTES_MIN: u64 = 32 * MIB;
/// It is read once a second. A database that hangs is given 4 s at each try, and so is known to be away much later.
pub(in crate::figures) const UNITS_AGE_MS_MAX: u64 = 5 * 1000;
/// A burst is stored within seconds.
const BACKLOG_AGE_MS_MAX: u64 = 30 * 1000;
/// Its lease changes hands within 5 s, and a round takes less than one, but where gates with millions of marks are rebuilt.
const RECONCILED_AGE_MS_MAX: u64 = 30 * 1000;
/// Longer than the pauses after the first failures.
const WEBHOOK_AGE_MS_MAX: u64 = 10 * MINUTE_MS;
/// No server knows whether a letter was sent again, so it is remembered for as long as by the alert.
const DEAD_LETTER_AGE_MS_MAX: u64 = 60 * MINUTE_MS;
/// What was counted by itself is reported for so long, and is in the log after that.
const COUNTED_AGE_MS_MAX: u64 = 10 * MINUTE_MS;
const MINUTE_MS: u64 = 60 * 1000;
/// A sale that begins so soon is what everybody waits for.
const SOON_MS: u64 = 10 * 60 * 1000;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub(in crate::figures) enum Level {
    Red,
    Amber,
    Green,
}

impl Level {
    pub(in crate::figures) fn as_str(self) -> &'static str {
        match self {
            Level::Red => "red",
            Level::Amber => "amber",
            Level::Green => "green",
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(in crate::figures) struct Verdict {
    pub(in crate::figures) level: Level,
    /// Stable.
    pub(in crate::figures) code: &'static str,
    pub(in crate::figures) says: String,
    /// What distinguishes two of one code: the engine that keeps orders from being taken.
    #[serde(skip)]
    pub(in crate::figures) cause: Option<&'static str>,
    /// The verdict is that none is taken, anywhere.
    #[serde(skip)]
    pub(in crate::figures) no_orders: bool,
    #[serde(rename = "do")]
    pub(in crate::figures) action: &'static str,
    /// The same as a button of the console, if it has one for it.
    #[serde(rename = "action")]
    pub(in crate::figures) press: Option<Press>,
    /// A heading of docs/runbook.md.
    pub(in crate::figures) runbook: String,
}

/// When a verdict is given, in which words, and what is to be done.
struct Rule {
    level: Level,
    code: &'static str,
    says: fn(&Night<'_>) -> Option<String>,
    action: &'static str,
    /// Only of what is said above, so that nothing else is pressed. `None`: the console has no button for it.
    press: Option<fn(&Night<'_>) -> Option<Press>>,
}

const NOTHING: &str = "Nothing to do.";

const RULES: &[Rule] = &[
    Rule {
        level: Level::Red,
        code: "stopping",
        says: |night| {
            (night.stopping && !night.takes_orders)
                .then(|| "The server is stopping and takes no more orders.".to_owned())
        },
        action: "If nobody stopped it, read its log and start it again.",
        press: None,
    },
    Rule {
        level: Level::Red,
        code: "disk_takes_no_writes",
        says: |night| {
            (night.read_only && !night.takes_orders)
                .then(|| "The ledger takes no writes: orders are read, none is taken.".to_owned())
        },
        action: "Make room on the ledger's disk, or bring its database back; orders are taken again by themselves.",
        press: None,
    },
    Rule {
        level: Level::Red,
        code: "not_ready",
        says: |night| {
            let (_, fault) = night.engine_fault.filter(|_| !night.takes_orders)?;
            // Of a moment ago, or where a clock of one part of the gate is off and the others sell.
            let taken = if night.accepted_per_s > 0.0 { "Not every order is" } else { "No order is" };
            Some(format!("{taken} taken here: {fault}."))
        },
        action: "Mend the engine that is named; orders are taken again by themselves.",
        press: None,
    },
    Rule {
        level: Level::Red,
        code: "gate_part_away",
        says: |night| night.part_away.map(|part| format!("{}.", capital(&part.to_string()))),
        action: "Mend the Redis that is named; if none is, see why gates stay closed. The others sell on, and these do again by themselves.",
        press: None,
    },
    Rule {
        level: Level::Red,
        code: "clock_unconfirmed",
        says: |night| {
            let says = "The clock is not confirmed: no order is taken, no sale opens or ends.";
            (!night.clock_confirmed && !night.takes_orders).then(|| says.to_owned())
        },
        action: "Look at the system's clock. If it is right, run `doorbuster clock confirm`; if not, stop the server and set it.",
        press: None,
    },
    Rule {
        level: Level::Red,
        code: "disk_full_soon",
        says: |night| {
            let free = free_below(night, DISK_FULL_SOON_BYTES)?;
            Some(format!("Only {free} are free on the ledger's disk; once it is full no order is taken."))
        },
        action: "Make room now: move backups and logs away, or enlarge the disk.",
        press: None,
    },
    Rule {
        level: Level::Red,
        code: "outcomes_unknown",
        says: |night| {
            // Each try is an answer: of orders there may be fewer.
            let answers = match night.unknown {
                0 => return None,
                1 => "1 answer".to_owned(),
                unknown => format!("{} answers", grouped(unknown)),
            };
            Some(format!(
                "{answers} of the last {SECONDS} s said that the outcome is unknown, and to ask again."
            ))
        },
        action: "Read the log for what failed. In a cluster look at Redis and the broker; else at the ledger's disk or database. Nothing is lost: the key finds the outcome.",
        press: None,
    },
    // Amber, by what somebody must do first; a cause comes before what it causes. What keeps accepted orders from being carried
    // out; servers that are missing; what turns buyers away; what sells nothing because somebody wants it so, or has forgotten it
    // (said beside each of the others); what has buyers wait; what the shop does not hear; what must be done before the next sale;
    // what can wait until the morning.
    Rule {
        level: Level::Amber,
        code: "ledger_lost_tail",
        says: |night| {
            let (_, age) = lately(night.ledger_lost_tail)?;
            Some(format!(
                "The ledger lost its latest entries {age} ago: its database has failed over to one without them, or was put back."
            ))
        },
        action: "Orders that a broker has come back by themselves. Compare the payments and cancellations of those seconds with your provider's, and say lost changes of sales again.",
        press: None,
    },
    Rule {
        level: Level::Amber,
        code: "orders_lost",
        says: |night| {
            let (lost, age) = lately(night.orders_lost)?;
            Some(format!(
                "Orders that were accepted are lost: the ledger rejected {lost}; the last {age} ago."
            ))
        },
        action: "Tell those buyers, and refund what they paid; see which Redis lost its memory. `doorbuster audit` has the rest.",
        press: None,
    },
    Rule {
        level: Level::Amber,
        code: "ledger_away",
        says: |night| {
            let hangs = || {
                let age = ago(night.units_age_ms);
                let others_read = night.cut_off.is_some();
                let is_old = night.units_age_ms > UNITS_AGE_MS_MAX && !others_read;
                is_old.then(|| {
                    format!("The ledger has not answered for {age}: what is held and sold is as it was then")
                })
            };
            let fault = night.ledger_fault.map(str::to_owned).or_else(hangs)?;
            Some(format!(
                "Orders are accepted, and wait at the broker until a server can store them. {fault}."
            ))
        },
        action: "Bring the ledger's database back, and let it be written to; what waits is stored by itself. Nothing is paid or cancelled before.",
        press: None,
    },
    Rule {
        level: Level::Amber,
        code: "nobody_reconciles",
        says: |night| {
            let age_ms = night.reconciled_age_ms;
            (age_ms > RECONCILED_AGE_MS_MAX).then(|| {
                let age = ago(age_ms);
                format!("No server has made gate and ledger agree for {age}: holds do not expire, and lost gates stay closed.")
            })
        },
        action: "Read the log of each server for what keeps it from reconciling: the database, Redis or a clock.",
        press: None,
    },
    Rule {
        level: Level::Amber,
        code: "servers_silent",
        says: |night| {
            let silent: Vec<_> = night.servers.iter().filter(|server| server.is_silent()).collect();
            let longest = silent.iter().max_by_key(|server| server.silent_ms)?;
            let (all, heard) = (night.servers.len(), night.servers.len() - silent.len());
            let (server, seconds) = (&longest.server, longest.silent_ms / 1_000);
            let others = match silent.len() - 1 {
                0 => String::new(),
                others => format!(" (and {others} more)"),
            };
            Some(format!("{heard} of {all} servers; {server}{others} silent for {seconds} s."))
        },
        action: "See whether it runs, and reaches Redis; start it again. The others take its queues, and nothing that was accepted is lost.",
        press: None,
    },
    Rule {
        level: Level::Amber,
        code: "server_cut_off",
        says: |night| {
            let EngineFigures { fault, cut_off, .. } = night.cut_off?;
            let (server, others) = cut_off.split_first().filter(|_| night.cut_off_seconds >= SECONDS)?;
            let (others, does) = match others.len() {
                0 => (String::new(), "does"),
                others => (format!(" (and {others} more)"), "do"),
            };
            let why =
                fault.as_deref().map(|fault| fault.strip_prefix(&format!("{server}: ")).unwrap_or(fault));
            let why = why.unwrap_or("it does not answer there");
            Some(format!("{server}{others} {does} not reach the ledger's database; other servers do: {why}."))
        },
        action: "Look at the network between that server and the database, and not at the database: other servers use it, and store what is ordered.",
        press: None,
    },
    Rule {
        level: Level::Amber,
        code: "servers_out",
        says: |night| {
            let out = night.servers.iter().filter(|server| server.counted && !server.ready).count();
            let reason = night.reasons.first().filter(|_| out > 0)?;
            Some(format!("{out} of {} servers take no orders. {reason}", night.servers.len()))
        },
        action: "Mend what is named, or, of an engine that the others use, the network between it and that server; orders are taken there again by themselves.",
        press: None,
    },
    Rule {
        level: Level::Amber,
        code: "broker_not_well",
        says: |night| {
            let fault = night.queues_fault?;
            Some(format!("Orders are taken, and RocketMQ is not well: {fault}."))
        },
        action: "Start what is away: a name server or a broker. A server that is started meanwhile, and a broker that moves, are not found.",
        press: None,
    },
    Rule {
        level: Level::Amber,
        code: "backlog",
        says: |night| {
            (night.backlog > 0 && night.backlog_age_ms > BACKLOG_AGE_MS_MAX).then(|| {
                let (waiting, age) = (grouped(night.backlog), ago(night.backlog_age_ms));
                format!("{waiting} messages wait at the broker, the oldest for {age}: their buyers see their orders as pending.")
            })
        },
        action: "See which queues nobody reads (`doorbuster queues list`), and what keeps the ledger's database busy. What waits is stored, and nothing is lost.",
        press: None,
    },
    Rule {
        level: Level::Amber,
        code: "busy_with_stock",
        says: |night| {
            let left = night.live.units.available;
            (night.busy_seconds >= SECONDS && left > 0).then(|| {
                let (busy, seconds) = (night.busy_per_s, night.busy_seconds);
                let orders = if busy < 0.95 {
                    "Less than 1 order/s is"
                } else {
                    &*format!("{} orders/s are", whole(busy))
                };
                format!(
                    "{orders} asked to come again, for {seconds} s now, while {} {} left.",
                    units(left),
                    if left == 1 { "is" } else { "are" }
                )
            })
        },
        action: "If processors and commits have room, raise `admission.orders_per_s` and send SIGHUP; else wait, buyers ask again.",
        press: None,
    },
    Rule {
        level: Level::Amber,
        code: "connections_refused",
        says: |night| match night.connections_refused {
            0 => None,
            1 => Some(format!("1 connection was turned away in the last {SECONDS} s: too many are open.")),
            refused => Some(format!(
                "{} connections were turned away in the last {SECONDS} s: too many are open.",
                grouped(refused)
            )),
        },
        action: "Raise `http.connections_max` and `LimitNOFILE=` at the next start; behind a proxy have it keep fewer connections.",
        press: None,
    },
    Rule {
        level: Level::Amber,
        code: "sale_paused",
        says: |night| {
            let (sale, in_ms) = paused(night)?;
            let title = quoted(sale.title);
            Some(match in_ms {
                0 => format!("{title} is paused: nothing of it is sold, what was ordered is paid."),
                ms => format!("{title} is paused, and was to start in {}.", ahead(ms)),
            })
        },
        action: "`doorbuster sale resume SALE` when it may go on.",
        press: Some(|night| paused(night).map(|(sale, _)| Press::resume(sale.id))),
    },
    Rule {
        level: Level::Amber,
        code: "orders_slow",
        says: |night| {
            let took = night.order_p99.filter(|took| *took > ORDER_P99_MAX)?.as_secs_f64();
            Some(format!(
                "One order in a hundred was answered after {took:.1} s or later, in the last {SECONDS} s."
            ))
        },
        action: "Lower `admission.orders_per_s` or `admission.in_flight_max`, and see what else runs on this machine.",
        press: None,
    },
    Rule {
        level: Level::Amber,
        code: "commits_slow",
        says: |night| {
            let took = night.commit_p99.filter(|took| *took > COMMIT_P99_MAX)?.as_millis();
            Some(format!("One commit in a hundred took {took} ms or longer, in the last {SECONDS} s."))
        },
        action: "See what else writes to the ledger's disk or database: a backup, a log, another program.",
        press: None,
    },
    Rule {
        level: Level::Amber,
        code: "processors_busy",
        says: |night| {
            let seconds = night.processors_busy_seconds;
            let busy = PROCESSORS_BUSY_MAX * 100.0;
            (seconds >= SECONDS)
                .then(|| format!("The processors have been busier than {busy:.0}% for {seconds} s."))
        },
        action: "See what else runs on this machine, a rehearsal among it, and stop it; lower `admission.orders_per_s` if orders get slow.",
        press: None,
    },
    Rule {
        level: Level::Amber,
        code: "webhook_off",
        says: |night| {
            let webhooks = night.webhooks.filter(|webhooks| !webhooks.off.is_empty())?;
            let (off, waiting) = (webhooks.off.join(", "), grouped(webhooks.waiting));
            Some(format!(
                "Nothing is sent to the shop's endpoint {off}: it is off, or paused after failures. {waiting} events wait."
            ))
        },
        action: "`doorbuster webhooks list` has what was answered last. Mend the endpoint, then `doorbuster webhooks enable NAME`; what waits is sent.",
        press: None,
    },
    Rule {
        level: Level::Amber,
        code: "webhook_waiting",
        says: |night| {
            let webhooks = night.webhooks?;
            let since_ms = webhooks.waiting_since_ms?;
            let age_ms = night.now.0.saturating_sub(since_ms);
            (age_ms > WEBHOOK_AGE_MS_MAX).then(|| {
                let (endpoint, age) = (webhooks.waiting_for.as_deref().unwrap_or_default(), ago(age_ms));
                format!("The shop's endpoint {endpoint} has not taken an event for {age}.")
            })
        },
        action: "`doorbuster webhooks list` has what was answered last. Mend the endpoint; what waits is sent by itself.",
        press: None,
    },
    Rule {
        level: Level::Amber,
        code: "beacon_not_configured",
        says: |night| {
            let (SaleId(sale), ProductId(product)) = night.unasked?;
            Some(format!(
                "The draw of item {product} in sale {sale} was announced with a beacon that this server is not configured to ask."
            ))
        },
        action: "Give `[beacon]` the url, key, genesis and period of when the sale was created, and start again before the entries close.",
        press: None,
    },
    Rule {
        level: Level::Amber,
        code: "clock_differs",
        says: |night| {
            let ms = night.clock_difference_ms;
            (ms.unsigned_abs() > CLOCK_DIFFERENCE_MS_MAX).then(|| {
                let (seconds, side) = (ms.unsigned_abs() / 1_000, if ms < 0 { "behind" } else { "ahead of" });
                format!("The system's clock is {seconds} s {side} the clock that sales go by.")
            })
        },
        action: "If the system's clock is right, run `doorbuster clock confirm` before the next start of a sale.",
        press: None,
    },
    Rule {
        level: Level::Amber,
        code: "servers_fewer",
        says: |night| {
            let (heard, expected) = (night.servers.len(), night.servers_expected);
            (night.servers_fewer_seconds >= SECONDS && heard < expected).then(|| {
                format!("{heard} of {expected} servers are there: each lets through its share of the orders, and the others' is missing.")
            })
        },
        action: "Start those that are missing, or set `cluster.servers` to how many there are, at all of them.",
        press: None,
    },
    Rule {
        level: Level::Amber,
        code: "disk_low",
        says: |night| {
            let free = free_below(night, DISK_LOW_BYTES)?;
            Some(format!("{free} are free on the ledger's disk."))
        },
        action: "Make room before the next sale.",
        press: None,
    },
    Rule {
        level: Level::Amber,
        code: "gate_and_ledger_differ",
        says: |night| {
            let (count, age) = lately(night.drift_units)?;
            let unit = if count == "1" { "unit" } else { "units" };
            Some(format!(
                "Gate and ledger differed by {count} {unit}; the last time {age} ago. The gate is rebuilt by itself."
            ))
        },
        action: "Nothing at first. If it comes back, keep the log and what `doorbuster audit` prints.",
        press: None,
    },
    Rule {
        level: Level::Amber,
        code: "dead_letters",
        says: |night| {
            let age_ms = night.dead_letter_age_ms.filter(|age_ms| *age_ms < DEAD_LETTER_AGE_MS_MAX)?;
            let (letters, age) = (grouped(night.dead_letters), ago(age_ms));
            Some(format!(
                "{letters} messages could not be read since the servers' start, and were put aside; the last one {age} ago."
            ))
        },
        action: "`doorbuster dead-letters list` has the reasons. Their orders come by their reservations; `doorbuster dead-letters replay` sends them again.",
        press: None,
    },
    Rule {
        level: Level::Amber,
        code: "refunds_due",
        says: |night| match night.refunds_due {
            0 => None,
            1 => Some("1 payment paid for nothing: its refund is due.".to_owned()),
            due => Some(format!("{due} payments paid for nothing: their refunds are due.")),
        },
        action: "`doorbuster refunds list` names them; settle each once the provider has given the money back.",
        press: None,
    },
    Rule {
        level: Level::Green,
        code: "selling",
        says: |night| {
            let left = night.live.units.available + night.live.units.turns;
            (left > 0).then(|| {
                format!(
                    "{} at {} orders/s, {} left{}.",
                    live(night, "is selling", "are selling"),
                    whole(night.accepted_per_s),
                    units(left),
                    soon(night).map_or_else(String::new, |next| format!("; {next}"))
                )
            })
        },
        action: NOTHING,
        press: None,
    },
    Rule {
        level: Level::Green,
        code: "starts_soon",
        says: |night| Some(format!("{}, ready.", soon(night)?)),
        action: NOTHING,
        press: None,
    },
    Rule {
        level: Level::Green,
        code: "sold_out",
        says: |night| {
            let Open { sales: 1.., units: Units { held, sold, .. } } = night.live else { return None };
            let what = live(night, "is sold out", "are sold out");
            Some(match held {
                0 => format!("{what}: {} sold.", units(sold)),
                _ => {
                    let (sold, held) = (units(sold), grouped(held));
                    format!("{what}: {sold} sold, {held} held until they are paid or come back.")
                }
            })
        },
        action: NOTHING,
        press: None,
    },
    Rule {
        level: Level::Green,
        code: "planned",
        says: |night| {
            let (sale, _) = next(night)?;
            let paused = if sale.phase == Phase::Paused { ", and is paused" } else { "" };
            let (title, at) = (quoted(sale.title), format_utc(sale.starts_at_ms));
            Some(format!("Ready. {title} starts at {at}{paused}."))
        },
        action: NOTHING,
        press: None,
    },
    Rule {
        level: Level::Green,
        code: "nothing_planned",
        says: |_| Some("Ready. No sale runs, and none is planned.".to_owned()),
        action: "`doorbuster sale create` plans one.",
        press: Some(|_| Some(Press::CREATE)),
    },
];

impl Verdict {
    pub(in crate::figures) fn on(night: &Night<'_>) -> Verdict {
        let given = |rule: &Rule| {
            let mut says = (rule.says)(night)?;
            let Rule { level, code, action, .. } = *rule;
            if let Some((sale, 0)) = paused(night).filter(|_| level == Level::Amber && code != "sale_paused")
            {
                says += &format!(" {} is paused, too.", quoted(sale.title));
            }
            let press = rule.press.and_then(|press| press(night));
            let runbook = code.replace('_', "-");
            let cause = night.engine_fault.and_then(|(engine, _)| engine).filter(|_| code == "not_ready");
            let no_orders = level == Level::Red && !night.takes_orders && night.accepted_per_s == 0.0;
            Some(Verdict { level, code, says, cause, no_orders, action, press, runbook })
        };
        RULES.iter().find_map(given).expect("the last rule always holds")
    }
}

/// How much was counted, and how long ago it was last, if it was lately.
fn lately(counted: Option<Lately>) -> Option<(String, String)> {
    let Lately { count, age_ms } = counted.filter(|counted| counted.age_ms < COUNTED_AGE_MS_MAX)?;
    Some((grouped(count), ago(age_ms)))
}

#[cfg(test)]
mod tests;
