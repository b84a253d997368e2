//! What is known of one second, as the API shows it.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use engine::Phase;
use serde::{Deserialize, Serialize};

use super::away::Since;
use super::events::EventFigures;
use super::history::{ItemStock, Refused, SaleOrders, SecondVerdict, Taken, signed};
use super::host::Disk;
use super::part::SILENT;
use super::sales::{Open, SaleFigures};
use super::verdict::Verdict;
use crate::intake::PartAway;
use crate::metrics::{Counts, Metrics};
use crate::webhooks::Control;

#[derive(Clone, Debug, Serialize)]
pub(super) struct Sample<'a> {
    /// Grows with each, from 0 at the start: the clock may stand, and in a cluster there are several in a second.
    pub(super) number: u64,
    pub(super) at_ms: u64,
    /// Who answers.
    pub(super) server: &'a str,
    /// Whose sum it is: this one first.
    pub(super) servers: Vec<ServerFigures>,
    pub(super) verdict: Verdict,
    pub(super) rates: Rates,
    /// Per second; only those that there were.
    pub(super) refused_by_code: BTreeMap<String, f64>,
    pub(super) order_route: Option<Took>,
    pub(super) totals: Totals,
    /// As of holds.
    pub(super) totals_since_ms: Option<u64>,
    pub(super) health: HealthFigures,
    pub(super) sales: Vec<SaleFigures<'a>>,
    /// Of how many the above are.
    pub(super) sales_total: usize,
    /// Of all that have begun and are not over.
    pub(super) open: Open,
    /// The newest first.
    pub(super) events: &'a VecDeque<EventFigures>,
}

impl Sample<'_> {
    /// What the history keeps of it and of what goes with it, on this disk. `servers_expected`: as they are configured.
    pub(super) fn taken(
        &self,
        (sales, why_refused): (Vec<SaleOrders>, Vec<Refused>),
        events: Arc<[EventFigures]>,
        (disk, since): (Option<Disk>, Since),
        servers_expected: usize,
    ) -> Taken {
        let Rates { received, accepted, replayed, refused, busy, unknown, requests } = self.rates;
        let order = self.order_route;
        let heard = self.servers.iter().filter(|server| server.counted).count();
        #[expect(clippy::cast_precision_loss, reason = "what is counted here is far from 2^53")]
        let whole = |number: u64| number as f64;
        // Holds are paid and refunded after the end, too: as long as a sale is shown.
        let begun = self.sales.iter().filter(|sale| sale.phase != Phase::NotStarted);
        let left = begun.flat_map(|sale| {
            sale.items.iter().map(|item| ItemStock {
                sale: signed(sale.id),
                product: signed(item.product),
                available: signed(item.units.available),
                turns: signed(item.units.turns),
                held: signed(item.units.held),
                sold: signed(item.units.sold),
            })
        });
        Taken {
            at_ms: signed(self.at_ms),
            passed_ms: i64::try_from(since.passed.as_millis()).unwrap_or(i64::MAX),
            stood_still: since.stood_still,
            values: [
                Some(received),
                Some(accepted),
                Some(replayed),
                Some(refused),
                Some(busy),
                Some(unknown),
                Some(requests),
                order.map(|took| took.p50_ms),
                order.map(|took| took.p99_ms),
                self.health.commit.map(|took| took.p99_ms),
                self.health.processors_busy,
                Some(whole(self.health.in_flight as u64)),
                Some(whole(self.health.connections)),
                self.health.memory_bytes.map(whole),
                self.health.disk_free_bytes.map(whole),
                Some(whole(heard as u64)),
                Some(whole(self.servers.len().max(servers_expected) as u64)),
            ],
            stock: left.collect(),
            refused: why_refused,
            sales,
            judged: SecondVerdict {
                level: self.verdict.level,
                code: self.verdict.code,
                says: self.verdict.says.clone(),
                cause: self.verdict.cause,
                no_orders: self.verdict.no_orders,
            },
            events,
            disk_free_bytes: disk.map(|disk| disk.free_bytes),
        }
    }
}

/// Orders by what became of them, since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Totals {
    pub(super) received: u64,
    pub(super) accepted: u64,
    pub(super) replayed: u64,
    pub(super) refused: u64,
    /// Asked to come again: by admission, or because the profile was behind or an engine away.
    pub(super) busy: u64,
    pub(super) unknown: u64,
}

impl Totals {
    pub(super) fn of(metrics: &Metrics) -> Totals {
        Totals {
            received: metrics.orders_received.get(),
            accepted: metrics.orders_accepted.get(),
            replayed: metrics.orders_replayed.get(),
            refused: metrics.orders_refused.get(),
            busy: metrics.orders_rejected.get() + metrics.orders_unavailable.get(),
            unknown: metrics.orders_unknown.get(),
        }
    }

    pub(super) fn and(self, other: Totals) -> Totals {
        let sum = |of: fn(&Totals) -> u64| of(&self).saturating_add(of(&other));
        Totals {
            received: sum(|totals| totals.received),
            accepted: sum(|totals| totals.accepted),
            replayed: sum(|totals| totals.replayed),
            refused: sum(|totals| totals.refused),
            busy: sum(|totals| totals.busy),
            unknown: sum(|totals| totals.unknown),
        }
    }
}

/// Per second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Rates {
    pub(super) received: f64,
    pub(super) accepted: f64,
    pub(super) replayed: f64,
    pub(super) refused: f64,
    pub(super) busy: f64,
    pub(super) unknown: f64,
    /// Of HTTP, whatever they are about.
    pub(super) requests: f64,
}

impl Rates {
    pub(super) fn between(
        (before, requests_before): (&Totals, u64),
        (now, requests): (&Totals, u64),
        elapsed: Duration,
    ) -> Rates {
        let rate = |of: fn(&Totals) -> u64| per_s(of(now).saturating_sub(of(before)), elapsed);
        Rates {
            received: rate(|totals| totals.received),
            accepted: rate(|totals| totals.accepted),
            replayed: rate(|totals| totals.replayed),
            refused: rate(|totals| totals.refused),
            busy: rate(|totals| totals.busy),
            unknown: rate(|totals| totals.unknown),
            requests: per_s(requests.saturating_sub(requests_before), elapsed),
        }
    }
}

impl Rates {
    pub(super) fn and(self, other: Rates) -> Rates {
        let sum = |of: fn(&Rates) -> f64| tenths(of(&self) + of(&other));
        Rates {
            received: sum(|rates| rates.received),
            accepted: sum(|rates| rates.accepted),
            replayed: sum(|rates| rates.replayed),
            refused: sum(|rates| rates.refused),
            busy: sum(|rates| rates.busy),
            unknown: sum(|rates| rates.unknown),
            requests: sum(|rates| rates.requests),
        }
    }
}

pub(super) fn tenths(rate: f64) -> f64 {
    (rate * 10.0).round() / 10.0
}

/// To a tenth.
#[expect(clippy::cast_precision_loss, reason = "counts of a second")]
pub(super) fn per_s(count: u64, elapsed: Duration) -> f64 {
    if elapsed.is_zero() {
        return 0.0;
    }
    tenths(count as f64 / elapsed.as_secs_f64())
}

/// How long what happened in one second took.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Took {
    pub(super) count: u64,
    pub(super) p50_ms: f64,
    pub(super) p99_ms: f64,
}

impl Took {
    pub(super) fn of(counts: &Counts) -> Option<Took> {
        let (p50, p99) = (counts.quantile(500)?, counts.quantile(990)?);
        Some(Took { count: counts.total(), p50_ms: ms(p50), p99_ms: ms(p99) })
    }
}

/// To a hundredth.
fn ms(duration: Duration) -> f64 {
    (duration.as_secs_f64() * 100_000.0).round() / 100.0
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct HealthFigures {
    pub(super) ready: bool,
    /// Why not.
    pub(super) reasons: Vec<String>,
    /// What can't be sold because of the gate while other products can; `None`: nothing, or nothing can.
    pub(super) part_away: Option<PartAway>,
    /// What it stands on.
    pub(super) engines: Vec<EngineFigures>,
    /// Commands that wait for the writer or, in a cluster, for an engine.
    pub(super) mailbox: usize,
    pub(super) mailbox_max: usize,
    pub(super) in_flight: usize,
    /// 0: no bound.
    pub(super) in_flight_max: usize,
    /// 0: no bound.
    pub(super) orders_per_s_max: u64,
    /// As it is configured; `None`: not known.
    pub(super) measured_peak: Option<MeasuredPeak>,
    pub(super) commit: Option<Took>,
    pub(super) clock_difference_ms: i64,
    pub(super) clock_confirmed: bool,
    pub(super) disk_free_bytes: Option<u64>,
    pub(super) disk_bytes: Option<u64>,
    pub(super) ledger_bytes: Option<u64>,
    pub(super) memory_bytes: Option<u64>,
    pub(super) connections: u64,
    /// `None`: heard of a server of a version that did not know.
    pub(super) refunds_due: Option<u64>,
    /// `None`: the shop has no endpoints.
    pub(super) webhooks: Option<WebhookFigures>,
    /// `None`: not of a cluster, as below.
    pub(super) dead_letters: Option<u64>,
    /// Since the last of them was put aside; `None`: also if none was since the start.
    pub(super) dead_letter_age_ms: Option<u64>,
    /// Accepted, and then rejected by the ledger; `None`: also if there was none since the start, as below.
    pub(super) orders_lost: Option<Lately>,
    /// Times that the ledger was found without its latest entries.
    pub(super) ledger_lost_tail: Option<Lately>,
    /// Units by which gate and ledger were found to differ.
    pub(super) drift_units: Option<Lately>,
    /// Since reconciliation ended well on any server, also one that has gone since, or since the start of the one that answers. Of
    /// a [`super::part::Part`]: on that server; `None`: it did not while it ran.
    pub(super) reconciled_age_ms: Option<u64>,
    /// Since the server that answers read from the ledger what is held and sold, or since its start.
    pub(super) units_age_ms: Option<u64>,
    /// What all queues have together.
    pub(super) backlog: Option<u64>,
    /// Of the oldest of them, since this server saw it or one after it.
    pub(super) backlog_age_ms: Option<u64>,
    pub(super) processors_busy: Option<f64>,
}

/// What was counted since the start, and how long ago it was last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Lately {
    pub(super) count: u64,
    pub(super) age_ms: u64,
}

impl Lately {
    pub(super) fn and(self, other: Lately) -> Lately {
        let count = self.count.saturating_add(other.count);
        Lately { count, age_ms: self.age_ms.min(other.age_ms) }
    }

    /// Of what each server counts by itself.
    pub(super) fn seen_by_both(self, other: Lately) -> Lately {
        Lately { count: self.count.max(other.count), age_ms: self.age_ms.min(other.age_ms) }
    }
}

impl ServerFigures {
    /// Whether it is missed.
    pub(super) fn is_silent(&self) -> bool {
        u128::from(self.silent_ms) >= SILENT.as_millis()
    }
}

/// An engine as all servers see it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct EngineFigures {
    pub(super) engine: String,
    /// What keeps it from being used, or from being used safely; `None`: nothing does.
    pub(super) fault: Option<String>,
    /// Of a sum: servers that are kept from it while another is not.
    #[serde(skip)]
    pub(super) cut_off: Vec<String>,
}

/// What the installation was found to carry.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct MeasuredPeak {
    pub(super) orders_per_s: u64,
    /// In whichever words; may be empty.
    pub(super) on: String,
}

/// What was not sent to the shop yet, of all endpoints.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct WebhookFigures {
    /// Endpoints to which nothing is sent: they answered 410, or failed again and again, or an operator wants it so.
    pub(super) off: Vec<String>,
    /// Events that wait for another try.
    pub(super) waiting: u64,
    /// When the oldest of them was to be sent first.
    pub(super) waiting_since_ms: Option<u64>,
    /// The endpoint for which it waits.
    pub(super) waiting_for: Option<String>,
    /// Until somebody has them sent again.
    pub(super) given_up: u64,
}

impl WebhookFigures {
    /// Of those that this server sends to; in a cluster others send to the rest.
    pub(super) fn of(endpoints: &[Arc<Control>]) -> Option<WebhookFigures> {
        let figures = endpoints.iter().map(|endpoint| {
            let state = endpoint.state();
            if !state.here {
                return WebhookFigures::default();
            }
            // One that was paused and has nothing to send is not tried again: it may be well.
            let is_off = state.disabled || (state.paused_until.is_some() && state.waiting > 0);
            WebhookFigures {
                off: is_off.then(|| endpoint.name.clone()).into_iter().collect(),
                waiting: state.waiting as u64,
                waiting_since_ms: state.waiting_since.map(|at| at.0),
                waiting_for: state.waiting_since.map(|_| endpoint.name.clone()),
                given_up: state.dead as u64,
            }
        });
        figures.reduce(WebhookFigures::and)
    }

    pub(super) fn and(mut self, other: WebhookFigures) -> WebhookFigures {
        self.off.extend(other.off);
        let since = [(self.waiting_since_ms, self.waiting_for), (other.waiting_since_ms, other.waiting_for)];
        let oldest = since.into_iter().filter_map(|(since, endpoint)| Some((since?, endpoint))).min();
        let (waiting_since_ms, waiting_for) = oldest.unzip();
        WebhookFigures {
            off: self.off,
            waiting: self.waiting.saturating_add(other.waiting),
            waiting_since_ms,
            waiting_for: waiting_for.flatten(),
            given_up: self.given_up.saturating_add(other.given_up),
        }
    }
}

/// What is shown of each server by itself.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct ServerFigures {
    pub(super) server: String,
    /// Since it was heard last.
    pub(super) silent_ms: u64,
    /// In the sum; what is too old is not.
    pub(super) counted: bool,
    /// When it was heard last.
    pub(super) ready: bool,
    pub(super) accepted_per_s: f64,
    pub(super) in_flight: usize,
    pub(super) processors_busy: Option<f64>,
    pub(super) memory_bytes: Option<u64>,
    #[serde(flatten)]
    pub(super) machine: MachineFigures,
}

/// What a server says of its own machine, which is in no sum. `None`: its version does not say it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct MachineFigures {
    /// On the disk that it writes to.
    pub(super) disk_free_bytes: Option<u64>,
    pub(super) disk_bytes: Option<u64>,
    pub(super) clock_confirmed: Option<bool>,
    /// How far the system's clock is ahead of the server's.
    pub(super) clock_difference_ms: Option<i64>,
    /// How far the server's clock is ahead of most clocks of the cluster, or the system's while the server's stands.
    pub(super) clock_ahead_ms: Option<i64>,
}
