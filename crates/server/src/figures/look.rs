//! One look a second: the counters now, what they were a second ago, and what is judged over the last ten.

use std::collections::{BTreeMap, VecDeque};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use engine::{ProductId, SaleId, UnixMs};
use prometheus_client::metrics::counter::Counter;

use super::ages::Ages;
use super::away::{Away, Since};
use super::events::{Events, Look};
use super::history::{History, Taken};
use super::host::{Disk, Host, HostFigures};
use super::lines::Lines;
use super::part::{Part, Recent};
use super::sales::{NearSale, Open, SoldOut, Sums, near_sales, shown};
use super::sample::{
    EngineFigures, HealthFigures, MachineFigures, MeasuredPeak, Rates, Sample, ServerFigures, Took, Totals,
    WebhookFigures, per_s,
};
use super::selling::{Counted, holds, orders, refused};
use super::verdict::{Night, PROCESSORS_BUSY_MAX, SECONDS, Verdict};
use super::wanted::of_all;
use super::{Figures, Watched};
use crate::beacon;
use crate::chores;
use crate::intake::catalog::Catalog;
use crate::intake::{Health, Need, REFUSALS, ServerReport, Servers};
use crate::metrics::{Counts, Metrics};
use crate::time::Instant;

/// Looks at a server that runs, and publishes what it has seen.
#[derive(Debug)]
pub struct Looking {
    pub(super) watched: Watched,
    figures: Arc<Figures>,
    pub(super) host: Host,
    catalog: Arc<Catalog>,
    refused: Refused,
    sold_out: SoldOut,
    counted: Counted,
    lines: Lines,
    events: Events,
    /// Of a cluster.
    ages: Option<Ages>,
    begun: UnixMs,
    /// Of the last [`SECONDS`] looks, the oldest first; the first of all is the start's.
    moments: VecDeque<Moment>,
    streaks: Streaks,
    away: Away,
    number: u64,
    /// What this server has seen by itself at the last look, and of its machine.
    ours: Part,
    hindered: Hindered,
    found: HostFigures,
    /// Sales that are watched by their number, here or at another server, when the sum was taken last.
    wanted: Vec<u64>,
    /// What the others had said when the sum was taken last.
    others: Arc<[ServerReport]>,
}

/// The counters at one look.
#[derive(Clone, Debug)]
struct Moment {
    at: Instant,
    totals: Totals,
    requests: u64,
    rejected: u64,
    connections_refused: u64,
    refused: [u64; REFUSALS.len()],
    order: Counts,
    commit: Counts,
}

/// Between two moments.
#[derive(Debug)]
struct Passed {
    rates: Rates,
    rejected: f64,
    refused_by_code: BTreeMap<String, f64>,
    order: Counts,
    commit: Counts,
    unknown: u64,
    connections_refused: u64,
}

/// What keeps this server from taking orders. As the rest of its figures it is of the last look: were one of them read
/// later than another, the verdict would be on a moment that never was.
#[derive(Clone, Debug, Default)]
struct Hindered {
    stopping: bool,
    read_only: bool,
    /// The engine, and what it is about it.
    by_engine: Option<(Option<&'static str>, String)>,
    by_clock: Option<String>,
}

impl Hindered {
    fn look(watched: &Watched, catalog: &Catalog) -> Hindered {
        Hindered {
            stopping: watched.stop.is_requested(),
            read_only: watched.client.read_only(),
            by_engine: watched.health.why_no_orders(),
            by_clock: chores::why_unconfirmed(&watched.intake.clock, catalog),
        }
    }

    fn reasons(&self) -> Vec<String> {
        let stopping = self.stopping.then(|| "The server is stopping.".to_owned());
        let read_only =
            self.read_only.then(|| "The disk takes no writes: orders can be read, not placed.".to_owned());
        let by_engine = self.by_engine.as_ref().map(|(_, reason)| reason.clone());
        [stopping, read_only, by_engine, self.by_clock.clone()].into_iter().flatten().collect()
    }
}

/// For how many looks in a row something has been so.
#[derive(Clone, Copy, Debug, Default)]
struct Streaks {
    busy: usize,
    processors_busy: usize,
    cut_off: usize,
    servers_fewer: usize,
}

/// The counters of refusals. A code has none before it was given, and from then on it is not looked up again.
#[derive(Debug, Default)]
struct Refused([Option<Counter>; REFUSALS.len()]);

impl Refused {
    fn look(&mut self, metrics: &Metrics) -> [u64; REFUSALS.len()] {
        for (known, refusal) in self.0.iter_mut().zip(REFUSALS) {
            if known.is_none() {
                *known = metrics.refusals.get(&[("code", refusal.code())]).map(|counter| counter.clone());
            }
        }
        std::array::from_fn(|place| self.0[place].as_ref().map_or(0, Counter::get))
    }
}

impl Looking {
    /// Looks for the first time, at `now`.
    pub fn new(watched: Watched, now: Instant) -> Looking {
        let mut refused = Refused::default();
        let begin = Moment::of(&watched, &mut refused, now);
        let history = History::open(watched.history_dir.as_deref());
        let (catalog, begun) = (watched.intake.shelf.current(), watched.intake.clock.now());
        let sold_out = SoldOut::after(history.sold_out(&shown(&catalog, begun)));
        let mut looking = Looking {
            host: Host::new(watched.data_dir.clone(), watched.ledger.clone()),
            catalog,
            refused,
            sold_out,
            counted: Counted::default(),
            lines: Lines::default(),
            events: Events::after(history.events()),
            begun,
            ages: watched.cluster.as_ref().map(|cluster| Ages::begin(cluster, now)),
            moments: VecDeque::from([begin]),
            streaks: Streaks::default(),
            away: Away::default(),
            number: 0,
            ours: Part::default(),
            hindered: Hindered::default(),
            found: HostFigures::default(),
            wanted: Vec::new(),
            others: Arc::default(),
            figures: Arc::new(Figures::new(history)),
            watched,
        };
        looking.look(now);
        looking
    }

    /// Where what is seen is published.
    pub fn figures(&self) -> Arc<Figures> {
        Arc::clone(&self.figures)
    }

    /// Looks again, and keeps it at once.
    #[cfg(test)]
    pub(crate) fn look_and_keep(&mut self, at: Instant) {
        let taken = self.look(at);
        self.figures.history.record(&taken);
    }

    /// The same, as if a second had passed since the last time, however long that takes here.
    #[cfg(test)]
    pub(crate) fn look_a_second_later(&mut self) {
        let last = self.moments.back().expect("the start's is there").at;
        self.look_and_keep(last + Duration::from_secs(1));
    }

    /// The event loops send it to whoever watches.
    pub(super) fn show(&self) {
        self.watched.stop.wake_all();
    }

    /// Looks again: about a second after the last time. What is to be kept of it is returned.
    pub(super) fn look(&mut self, at: Instant) -> Taken {
        self.watched.intake.shelf.refresh(&mut self.catalog);
        let moment = Moment::of(&self.watched, &mut self.refused, at);
        let [before, first] =
            [self.moments.back(), self.moments.front()].map(|earlier| earlier.expect("the start's is there"));
        let since = self.away.look(at.duration_since(before.at), at);
        let last = moment.since(before, since.busy());
        let window = moment.since(first, at.duration_since(first.at));
        self.found = self.host.look();
        self.hindered = Hindered::look(&self.watched, &self.catalog);
        let ages = self.ages.as_mut().zip(self.watched.cluster.as_ref()).map(|(ages, cluster)| {
            ages.look(cluster, at);
            *ages
        });
        let (now, wanted) = (self.watched.intake.clock.now(), self.figures.wanted.now(at));
        let all_wanted = of_all(&[&*wanted, &*self.wanted].concat());
        self.ours = Part {
            server: self.watched.server.clone(),
            rates: last.rates,
            rejected: last.rejected,
            refused_by_code: last.refused_by_code,
            order: last.order,
            commit: last.commit,
            recent: Recent {
                order: window.order,
                commit: window.commit,
                unknown: window.unknown,
                refused: window.connections_refused,
            },
            totals: moment.totals,
            sales: Some(self.counted.look(&self.catalog, (now, since.busy()), &all_wanted)),
            holds: Some(holds(&self.catalog, now, &all_wanted)),
            holds_since_ms: self.has_others().then_some(self.begun.0),
            sold_out: self.sold_out.known(),
            wanted,
            health: HealthFigures {
                dead_letter_age_ms: ages.and_then(|ages| ages.dead_letter_ms(at)),
                orders_lost: ages.and_then(|ages| ages.orders_lost(at)),
                ledger_lost_tail: ages.and_then(|ages| ages.ledger_lost_tail(at)),
                drift_units: ages.and_then(|ages| ages.drift_units(at)),
                reconciled_age_ms: ages.and_then(|ages| ages.reconciled_ms(at)),
                units_age_ms: ages.map(|ages| ages.units_ms(at)),
                ..health(&self.watched, &self.hindered, &self.found)
            },
            machine: machine(&self.watched, &self.hindered, &self.found),
        };
        self.lines.look(&self.catalog, (now, at), &all_wanted);
        self.moments.push_back(moment);
        if self.moments.len() > SECONDS {
            self.moments.pop_front();
        }
        if let Some(servers) = self.servers() {
            servers.say(self.ours.written());
        }
        self.publish(at, Some(since))
    }

    /// Whether there may be other servers.
    pub(super) fn has_others(&self) -> bool {
        self.watched.cluster.is_some()
    }

    /// No more than can be heard.
    fn servers_expected(&self) -> usize {
        let expected = self.watched.cluster.as_ref().map_or(1, |cluster| cluster.servers_expected);
        usize::try_from(expected).unwrap_or(usize::MAX).min(Servers::OTHERS_MAX + 1)
    }

    fn servers(&self) -> Option<&Servers> {
        self.watched.cluster.as_ref().map(|cluster| &*cluster.servers)
    }

    /// Publishes and shows the sum again if another server has said something since: it would be a second older otherwise.
    pub(super) fn hear(&mut self, at: Instant) {
        let others = self.servers().map(Servers::others);
        if others.is_some_and(|others| !Arc::ptr_eq(&others, &self.others)) {
            self.publish(at, None);
            self.show();
        }
    }

    /// Publishes the sum of all servers. `since`: the look before; `None`: it is the same look.
    fn publish(&mut self, at: Instant, since: Option<Since>) -> Taken {
        let now = self.watched.intake.clock.now();
        if let Some(others) = self.servers().map(Servers::others) {
            self.others = others;
        }
        let (mut sum, mut servers) = self.ours.with(&self.others, at);
        for server in &mut servers {
            server.silent_ms = self.away.awake_ms(server.silent_ms, at);
        }
        if let Some(ages) = &mut self.ages {
            let heard_ms = sum.health.reconciled_age_ms;
            sum.health.reconciled_age_ms = Some(ages.reconciled_anywhere_ms(heard_ms, at));
        }
        if self.is_cut_off(&servers) {
            self.away.note_cut_off(at);
        }
        if since.is_some() {
            let heard = servers.iter().filter(|server| !server.is_silent()).count();
            self.streaks.go_on(&sum, heard < self.servers_expected());
        }
        self.wanted = of_all(&sum.wanted);
        let sales = self.sold_out.look(&self.catalog, now, (&sum, &self.lines, &self.wanted));
        let near = near_sales(&self.catalog, now);
        let sums = Sums::of(&near, now);
        let health = &sum.health;
        let verdict = Verdict::on(&self.night((now, at), &sum, (&servers, &near), sums.live));
        self.events.look(&Look {
            at_ms: now.0,
            server: &self.watched.server,
            catalog: &self.catalog,
            near: &near,
            sales: &sales,
            servers: &servers,
            ready: health.ready,
            reasons: &health.reasons,
            part_away: health.part_away.as_ref(),
            verdict: &verdict,
            stood_still: since.and_then(Since::still),
            has_just_woken: self.away.has_just_woken(at),
        });
        let (sold, since) = (sum.sales.as_ref(), since.unwrap_or_default());
        let orders = (orders(sold, since.busy()), refused(sold, since.busy()));
        let events = self.events.kept();
        let sample = Sample {
            number: self.number,
            at_ms: now.0,
            server: &self.watched.server,
            servers,
            verdict,
            rates: sum.rates,
            refused_by_code: sum.refused_by_code,
            order_route: Took::of(&sum.order),
            totals: sum.totals,
            totals_since_ms: sum.holds_since_ms,
            health: sum.health,
            sales,
            sales_total: sums.sales,
            open: sums.open,
            events: self.events.last(),
        };
        self.figures.publish(serde_json::to_vec(&sample).expect("all of it is plain"), self.found, at);
        self.number += 1;
        let disk = self.watched.history_dir.as_deref().and_then(Disk::of);
        let servers_expected = self.servers_expected();
        sample.taken(orders, events, (disk, since), servers_expected)
    }

    /// Nobody says anything here, and this server itself does not reach what carries it.
    fn is_cut_off(&self, servers: &[ServerFigures]) -> bool {
        let is_away = |engine: &EngineFigures| engine.engine == Health::GATE && engine.fault.is_some();
        let others = servers.get(1..).unwrap_or_default();
        !others.is_empty()
            && others.iter().all(|other| !other.counted)
            && self.ours.health.engines.iter().any(is_away)
    }

    fn unasked(&self, now: UnixMs) -> Option<(SaleId, ProductId)> {
        let (sku, _) = beacon::unasked(self.watched.beacon.as_ref(), &self.catalog, now).next()?;
        let (sale, item) = self.catalog.item(sku).expect("a SKU has a sale");
        Some((sale.spec.id, item.product))
    }

    /// What there is to judge: not what this server only has not looked at since it was away itself.
    fn night<'a>(
        &'a self,
        (now, at): (UnixMs, Instant),
        sum: &'a Part,
        (servers, sales): (&'a [ServerFigures], &'a [NearSale<'a>]),
        live: Open,
    ) -> Night<'a> {
        let (health, away) = (&sum.health, &self.away);
        let (is_known, of_ledger) = (!away.has_just_woken(at), !away.is_just_back(at));
        let engine_fault = self.hindered.by_engine.as_ref().filter(|_| is_known);
        Night {
            now,
            takes_orders: health.ready,
            stopping: self.hindered.stopping,
            read_only: self.hindered.read_only && is_known,
            engine_fault: engine_fault.map(|(engine, reason)| (*engine, reason.as_str())),
            part_away: health.part_away.as_ref(),
            ledger_fault: fault_of_all(&health.engines, Health::LEDGER).filter(|_| of_ledger),
            queues_fault: fault_of_all(&health.engines, Health::QUEUES).filter(|_| is_known),
            cut_off: health.engines.iter().find(|engine| !engine.cut_off.is_empty()),
            cut_off_seconds: self.streaks.cut_off,
            units_age_ms: away.there_ms(health.units_age_ms.unwrap_or(0), at),
            clock_confirmed: self.hindered.by_clock.is_none(),
            clock_difference_ms: health.clock_difference_ms,
            disk: self.found.disk,
            unknown: sum.recent.unknown,
            busy_seconds: self.streaks.busy,
            busy_per_s: sum.rejected,
            accepted_per_s: sum.rates.accepted,
            order_p99: sum.recent.order.quantile(990),
            commit_p99: sum.recent.commit.quantile(990),
            refunds_due: health.refunds_due.unwrap_or(0),
            backlog: health.backlog.unwrap_or(0),
            backlog_age_ms: health.backlog_age_ms.unwrap_or(0),
            reconciled_age_ms: away.there_ms(health.reconciled_age_ms.unwrap_or(0), at),
            dead_letters: health.dead_letters.unwrap_or(0),
            dead_letter_age_ms: health.dead_letter_age_ms,
            orders_lost: health.orders_lost,
            ledger_lost_tail: health.ledger_lost_tail,
            drift_units: health.drift_units,
            connections_refused: sum.recent.refused,
            webhooks: health.webhooks.as_ref(),
            processors_busy_seconds: self.streaks.processors_busy,
            reasons: if is_known { &health.reasons } else { &[] },
            servers,
            servers_expected: self.servers_expected(),
            servers_fewer_seconds: self.streaks.servers_fewer,
            sales,
            live,
            unasked: self.unasked(now),
        }
    }
}

impl Moment {
    fn of(watched: &Watched, refused: &mut Refused, at: Instant) -> Moment {
        let metrics = &watched.intake.metrics;
        Moment {
            at,
            totals: Totals::of(metrics),
            requests: watched.net.requests.load(Relaxed),
            rejected: metrics.orders_rejected.get(),
            connections_refused: watched.net.refused_over_limit.load(Relaxed),
            refused: refused.look(metrics),
            order: metrics.order_seconds.counts(),
            commit: metrics.commit_seconds.counts(),
        }
    }

    /// As what was done in so long.
    fn since(&self, earlier: &Moment, elapsed: Duration) -> Passed {
        let refused = REFUSALS.iter().zip(self.refused.iter().zip(earlier.refused));
        let rate = |now: &u64, before: u64| per_s(now.saturating_sub(before), elapsed);
        Passed {
            rates: Rates::between(
                (&earlier.totals, earlier.requests),
                (&self.totals, self.requests),
                elapsed,
            ),
            rejected: rate(&self.rejected, earlier.rejected),
            refused_by_code: refused
                .map(|(refusal, (now, before))| (refusal.code().to_owned(), rate(now, before)))
                .filter(|(_, rate)| *rate > 0.0)
                .collect(),
            order: self.order.since(&earlier.order),
            commit: self.commit.since(&earlier.commit),
            unknown: self.totals.unknown.saturating_sub(earlier.totals.unknown),
            connections_refused: self.connections_refused.saturating_sub(earlier.connections_refused),
        }
    }
}

impl Streaks {
    fn go_on(&mut self, sum: &Part, servers_fewer: bool) {
        let longer = |streak: usize, goes_on: bool| if goes_on { streak + 1 } else { 0 };
        self.busy = longer(self.busy, sum.rejected > 0.0);
        let processors_busy = sum.health.processors_busy.is_some_and(|busy| busy > PROCESSORS_BUSY_MAX);
        self.processors_busy = longer(self.processors_busy, processors_busy);
        let cut_off = sum.health.engines.iter().any(|engine| !engine.cut_off.is_empty());
        self.cut_off = longer(self.cut_off, cut_off);
        self.servers_fewer = longer(self.servers_fewer, servers_fewer);
    }
}

fn engines(watched: &Watched, read_only: bool) -> Vec<EngineFigures> {
    let named = |(engine, fault): (&str, Option<String>)| EngineFigures {
        engine: engine.to_owned(),
        fault,
        cut_off: Vec::new(),
    };
    match watched.cluster {
        Some(_) => watched.health.engines().map(named).into(),
        None => vec![named(("Ledger", read_only.then(|| "The disk takes no writes.".to_owned())))],
    }
}

/// What keeps every server from an engine, or the only one.
fn fault_of_all<'a>(engines: &'a [EngineFigures], name: &str) -> Option<&'a str> {
    engines.iter().find(|engine| engine.engine == name && engine.cut_off.is_empty())?.fault.as_deref()
}

/// Without the commits, which are counted once for all servers.
fn health(watched: &Watched, hindered: &Hindered, host: &HostFigures) -> HealthFigures {
    let intake = &watched.intake;
    let limits = intake.admission.limits();
    let reasons = hindered.reasons();
    let due = intake.metrics.refunds_due.get();
    let backlog = watched.cluster.as_ref().filter(|_| watched.health.is_met(Need::Backlog));
    HealthFigures {
        ready: reasons.is_empty(),
        reasons,
        part_away: watched.health.part_away(),
        engines: engines(watched, hindered.read_only),
        mailbox: watched.client.places().0,
        mailbox_max: watched.client.places().1,
        in_flight: intake.admission.in_flight(),
        in_flight_max: limits.in_flight_max,
        orders_per_s_max: limits.orders_per_s,
        measured_peak: watched
            .measured_peak
            .clone()
            .map(|(orders_per_s, on)| MeasuredPeak { orders_per_s, on }),
        commit: None,
        clock_difference_ms: intake.clock.wall_difference_ms(),
        clock_confirmed: hindered.by_clock.is_none(),
        disk_free_bytes: host.disk.map(|disk| disk.free_bytes),
        disk_bytes: host.disk.map(|disk| disk.bytes),
        ledger_bytes: host.ledger_bytes,
        memory_bytes: host.memory_bytes,
        connections: watched.net.open(),
        refunds_due: u64::try_from(due).ok(),
        webhooks: WebhookFigures::of(&watched.webhooks),
        dead_letter_age_ms: None,
        orders_lost: None,
        ledger_lost_tail: None,
        drift_units: None,
        reconciled_age_ms: None,
        units_age_ms: None,
        dead_letters: watched.cluster.as_ref().map(|cluster| cluster.dead_letters.get()),
        backlog: backlog.map(|cluster| u64::try_from(cluster.backlog.get()).unwrap_or(0)),
        backlog_age_ms: backlog.map(|cluster| u64::try_from(cluster.backlog_age_ms.get()).unwrap_or(0)),
        processors_busy: host.processors_busy.map(|busy| (busy * 1_000.0).round() / 1_000.0),
    }
}

/// A server whose ledger is elsewhere writes its history; without one it has a disk all the same.
fn machine(watched: &Watched, hindered: &Hindered, host: &HostFigures) -> MachineFigures {
    let own_dir = || watched.history_dir.as_deref().unwrap_or(Path::new("."));
    let disk = host.disk.or_else(|| Disk::of(own_dir()));
    MachineFigures {
        disk_free_bytes: disk.map(|disk| disk.free_bytes),
        disk_bytes: disk.map(|disk| disk.bytes),
        clock_confirmed: Some(hindered.by_clock.is_none()),
        clock_difference_ms: Some(watched.intake.clock.wall_difference_ms()),
        clock_ahead_ms: watched.cluster.as_ref().map(|cluster| cluster.clock_ahead_ms.get()),
    }
}
