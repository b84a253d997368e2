//! What one server knows of its last second, as servers make it known to each other, and the sum of several.
//!
//! Rates and counts are added, and percentiles are those of the added counts. What is sold is not in it: every server reads that
//! from the ledger. Must not: know how it is carried.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::sales::SoldOutAt;
use super::sample::{
    HealthFigures, Lately, MachineFigures, Rates, ServerFigures, Took, Totals, WebhookFigures, tenths,
};
use super::selling::{Holds, SaleSecond, Selling};
use super::verdict::UNITS_AGE_MS_MAX;
use crate::intake::{Health, PartAway, ServerReport, Servers};
use crate::metrics::Counts;
use crate::time::Instant;

/// What was heard so long ago is not in the sum: figures are at most so old.
const COUNTED: Duration = Duration::from_secs(2);
/// Whoever has said nothing for so long is missed; one slow second is none.
pub(super) const SILENT: Duration = Duration::from_secs(4);
/// Of each reason why a server takes no orders: what an engine answered may be of any length.
const REASON_CHARS_MAX: usize = 300;

/// A server of another version may know more, which is passed over, or less, which reads as nothing.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Part {
    /// Whoever carries it reads whose it is, and `holds_since_ms`.
    pub(super) server: String,
    pub(super) rates: Rates,
    /// Per second, of those that were busy: by admission, and not because an engine was away.
    pub(super) rejected: f64,
    /// Per second.
    pub(super) refused_by_code: BTreeMap<String, f64>,
    pub(super) order: Counts,
    pub(super) commit: Counts,
    pub(super) recent: Recent,
    pub(super) totals: Totals,
    /// `None`: it did not say, being older, or having too much to say.
    pub(super) sales: Option<Selling>,
    /// As above.
    pub(super) holds: Option<Holds>,
    /// Since when those and `totals` are counted, if that is not since ever: its start. In a sum it is the latest: before
    /// that, what a server's earlier run has counted is missing.
    pub(super) holds_since_ms: Option<u64>,
    /// Of items of which nothing is left.
    pub(super) sold_out: SoldOutAt,
    /// Sales that are watched by their number.
    pub(super) wanted: Vec<u64>,
    pub(super) health: HealthFigures,
    /// Of this server alone: in a sum, of the one that adds up.
    pub(super) machine: MachineFigures,
}

/// Of the last [`super::verdict::SECONDS`].
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Recent {
    pub(super) order: Counts,
    pub(super) commit: Counts,
    pub(super) unknown: u64,
    /// Connections.
    pub(super) refused: u64,
}

impl Part {
    /// For the others.
    pub(super) fn written(&self) -> Vec<u8> {
        let mut part = self.clone();
        let faults = part.health.engines.iter_mut().filter_map(|engine| engine.fault.as_mut());
        let why = part.health.part_away.as_mut().map(|part| &mut part.why);
        for reason in part.health.reasons.iter_mut().chain(faults).chain(why) {
            *reason = reason.chars().take(REASON_CHARS_MAX).collect();
        }
        let written = serde_json::to_vec(&part).expect("all of it is plain");
        if written.len() <= Servers::SAID_BYTES_MAX {
            return written;
        }
        // A hundred items that sell at once: the rest of the figures is more than their share.
        for leave_out in [SaleSecond::leave_out_items_order, SaleSecond::leave_out_items_refused] {
            part.sales.iter_mut().flat_map(Selling::values_mut).for_each(leave_out);
            let written = serde_json::to_vec(&part).expect("all of it is plain");
            if written.len() <= Servers::SAID_BYTES_MAX {
                return written;
            }
        }
        serde_json::to_vec(&Part { sales: None, holds: None, sold_out: SoldOutAt::new(), ..part })
            .expect("all of it is plain")
    }

    /// Adds another server's.
    fn add(&mut self, other: Part) {
        self.rates = self.rates.and(other.rates);
        self.rejected = tenths(self.rejected + other.rejected);
        for (code, rate) in other.refused_by_code {
            let sum = self.refused_by_code.entry(code).or_default();
            *sum = tenths(*sum + rate);
        }
        self.order = self.order.and(&other.order);
        self.commit = self.commit.and(&other.commit);
        self.recent = Recent {
            order: self.recent.order.and(&other.recent.order),
            commit: self.recent.commit.and(&other.recent.commit),
            unknown: self.recent.unknown.saturating_add(other.recent.unknown),
            refused: self.recent.refused.saturating_add(other.recent.refused),
        };
        // Where one did not say, the sum is not known.
        self.sales = self.sales.take().zip(other.sales).map(|(mut sum, other)| {
            for (sale, second) in other {
                sum.entry(sale).or_default().add(second);
            }
            sum
        });
        self.health.add(other.health);
    }

    fn shown(&self, silent: Duration, counted: bool) -> ServerFigures {
        ServerFigures {
            server: self.server.clone(),
            silent_ms: ms(silent),
            counted,
            ready: self.health.ready,
            accepted_per_s: self.rates.accepted,
            in_flight: self.health.in_flight,
            processors_busy: self.health.processors_busy,
            memory_bytes: self.health.memory_bytes,
            machine: self.machine,
        }
    }

    /// The sum of this server's and what was heard of the others, and whose it is.
    pub(super) fn with(&self, others: &[ServerReport], now: Instant) -> (Part, Vec<ServerFigures>) {
        let mut heard: Vec<_> = others
            .iter()
            .filter_map(|heard| {
                // Of what can't be read there is nothing to say.
                let part: Part = serde_json::from_slice(&heard.said).ok()?;
                if part.server.is_empty() {
                    return None;
                }
                let silent = now.duration_since(heard.at);
                Some((part, silent, heard.lives && silent <= COUNTED))
            })
            .collect();
        // A server that was started again has been heard as two: the one that lives is it.
        heard.sort_by(|(a, a_silent, a_counted), (b, b_silent, b_counted)| {
            (&a.server, Reverse(a_counted), a_silent).cmp(&(&b.server, Reverse(b_counted), b_silent))
        });
        heard.dedup_by(|(later, _, counted), (first, _, _)| later.server == first.server && !*counted);
        heard.retain(|(part, _, counted)| part.server != self.server || *counted);
        debug_assert!(heard.len() <= Servers::OTHERS_MAX, "what is heard is bounded");

        let mut sum = self.clone();
        if heard.iter().any(|(_, _, counted)| *counted) {
            sum.health.name_reasons(&self.server);
        }
        let counts = heard.iter().filter(|(_, _, counted)| *counted).map(|(part, _, _)| part);
        sum.health.note_cut_off(&[self].into_iter().chain(counts).collect::<Vec<_>>());
        let mut servers = vec![self.shown(Duration::ZERO, true)];
        for (mut part, silent, counted) in heard {
            servers.push(part.shown(silent, counted));
            // What a server has done stays done when it goes.
            sum.totals = sum.totals.and(part.totals);
            sum.holds = sum.holds.take().zip(part.holds.take()).map(added);
            for (sale, items) in std::mem::take(&mut part.sold_out) {
                let known = sum.sold_out.entry(sale).or_default();
                for (product, at_ms) in items {
                    known.entry(product).and_modify(|known| *known = at_ms.min(*known)).or_insert(at_ms);
                }
            }
            sum.holds_since_ms = both(sum.holds_since_ms, part.holds_since_ms, u64::max);
            sum.health.dead_letters =
                both(sum.health.dead_letters, part.health.dead_letters, u64::saturating_add);
            let age = part.health.dead_letter_age_ms.map(|age| age.saturating_add(ms(silent)));
            sum.health.dead_letter_age_ms = both(sum.health.dead_letter_age_ms, age, u64::min);
            let before = |lately: Option<Lately>| {
                let age_ms = |lately: &Lately| lately.age_ms.saturating_add(ms(silent));
                lately.map(|lately| Lately { age_ms: age_ms(&lately), ..lately })
            };
            let Part { health, .. } = &part;
            sum.health.orders_lost = both(sum.health.orders_lost, before(health.orders_lost), Lately::and);
            let lost_tail = before(health.ledger_lost_tail);
            sum.health.ledger_lost_tail = both(sum.health.ledger_lost_tail, lost_tail, Lately::seen_by_both);
            sum.health.drift_units = both(sum.health.drift_units, before(health.drift_units), Lately::and);
            if counted {
                sum.wanted.append(&mut part.wanted);
                part.health.name_reasons(&part.server);
                part.health.reconciled_age_ms =
                    part.health.reconciled_age_ms.map(|age| age.saturating_add(ms(silent)));
                sum.add(part);
            }
        }
        sum.health.commit = Took::of(&sum.commit);
        (sum, servers)
    }
}

pub(super) fn ms(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// What only one knows is the sum.
fn both<T>(one: Option<T>, other: Option<T>, sum: fn(T, T) -> T) -> Option<T> {
    one.into_iter().chain(other).reduce(sum)
}

fn added((mut sum, other): (Holds, Holds)) -> Holds {
    for (sale, ended) in other {
        sum.entry(sale).or_default().add(ended);
    }
    sum
}

impl HealthFigures {
    fn name_reasons(&mut self, server: &str) {
        let faults = self.engines.iter_mut().filter_map(|engine| engine.fault.as_mut());
        self.reasons.iter_mut().chain(faults).for_each(|reason| *reason = format!("{server}: {reason}"));
    }

    /// Whether its server uses the ledger; `None`: an older server does not say. One that hangs has no fault for a while.
    fn uses_ledger(&self) -> Option<bool> {
        let ledger = self.engines.iter().find(|engine| engine.engine == Health::LEDGER)?;
        let hangs = self.units_age_ms.is_some_and(|age| age > UNITS_AGE_MS_MAX);
        Some(ledger.fault.is_none() && !hangs)
    }

    /// Finds who is kept from the ledger while another server uses it. Of the other engines one server may know alone what is
    /// wrong with them for all.
    fn note_cut_off(&mut self, parts: &[&Part]) {
        let says = |part: &&Part| Some((part.server.clone(), part.health.uses_ledger()?));
        let (using, cut_off): (Vec<_>, Vec<_>) = parts.iter().filter_map(says).partition(|(_, uses)| *uses);
        let ledger = self.engines.iter_mut().find(|engine| engine.engine == Health::LEDGER);
        if let Some(ledger) = ledger.filter(|_| !using.is_empty()) {
            ledger.cut_off = cut_off.into_iter().map(|(server, _)| server).collect();
        }
    }

    /// Orders are taken while one server takes them, and the machine that is worst off counts. The ledger's disk is none of theirs.
    fn add(&mut self, other: HealthFigures) {
        self.ready |= other.ready;
        self.reasons.extend(other.reasons);
        let larger =
            |ours: PartAway, theirs: PartAway| if theirs.products > ours.products { theirs } else { ours };
        self.part_away = both(self.part_away.take(), other.part_away, larger);
        // One server that can't use an engine is enough to look at it; an older server says nothing of them.
        for engine in other.engines {
            match self.engines.iter_mut().find(|ours| ours.engine == engine.engine) {
                Some(ours) => ours.fault = ours.fault.take().or(engine.fault),
                None => self.engines.push(engine),
            }
        }
        self.mailbox = self.mailbox.saturating_add(other.mailbox);
        self.mailbox_max = self.mailbox_max.saturating_add(other.mailbox_max);
        self.in_flight = self.in_flight.saturating_add(other.in_flight);
        // Where one has no bound, all together have none.
        self.in_flight_max = match (self.in_flight_max, other.in_flight_max) {
            (0, _) | (_, 0) => 0,
            (ours, theirs) => ours.saturating_add(theirs),
        };
        self.orders_per_s_max = match (self.orders_per_s_max, other.orders_per_s_max) {
            (0, _) | (_, 0) => 0,
            (ours, theirs) => ours.saturating_add(theirs),
        };
        if other.clock_difference_ms.unsigned_abs() > self.clock_difference_ms.unsigned_abs() {
            self.clock_difference_ms = other.clock_difference_ms;
        }
        self.clock_confirmed &= other.clock_confirmed;
        self.memory_bytes = both(self.memory_bytes, other.memory_bytes, u64::saturating_add);
        self.reconciled_age_ms = both(self.reconciled_age_ms, other.reconciled_age_ms, u64::min);
        self.webhooks = both(self.webhooks.take(), other.webhooks, WebhookFigures::and);
        self.connections = self.connections.saturating_add(other.connections);
        self.processors_busy =
            [self.processors_busy, other.processors_busy].into_iter().flatten().reduce(f64::max);
    }
}

#[cfg(test)]
mod tests;
