//! How long ago what only a counter is known of happened last.
//!
//! A stage that hangs can't say since when it does; its counter stands. Must not: count anything itself.

use super::Cluster;
use super::part::ms;
use super::sample::Lately;
use crate::time::Instant;

/// Of one counter.
#[derive(Clone, Copy, Debug)]
struct Grown {
    count: u64,
    at: Option<Instant>,
}

/// Of what a server of a cluster does.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ages {
    begun: Instant,
    dead_letters: Grown,
    orders_lost: Grown,
    ledger_lost_tail: Grown,
    drift_units: Grown,
    reconciled: Grown,
    /// On any server that was ever heard: how old the latest good end of a round was, and when it was so old.
    reconciled_anywhere: (u64, Instant),
    units_read: Grown,
}

impl Grown {
    fn of(count: u64) -> Grown {
        Grown { count, at: None }
    }

    fn look(&mut self, count: u64, at: Instant) {
        if count > self.count {
            *self = Grown { count, at: Some(at) };
        }
    }

    /// If it has grown while we looked.
    fn lately(&self, now: Instant) -> Option<Lately> {
        self.at.map(|at| Lately { count: self.count, age_ms: since(at, now) })
    }
}

impl Ages {
    /// As it stands at the first look.
    pub(super) fn begin(cluster: &Cluster, at: Instant) -> Ages {
        Ages {
            begun: at,
            dead_letters: Grown::of(cluster.dead_letters.get()),
            orders_lost: Grown::of(cluster.orders_lost.get()),
            ledger_lost_tail: Grown::of(cluster.ledger_lost_tail.get()),
            drift_units: Grown::of(cluster.drift_units.get()),
            reconciled: Grown::of(cluster.reconciled.get()),
            reconciled_anywhere: (0, at),
            units_read: Grown::of(cluster.units_read.get()),
        }
    }

    pub(super) fn look(&mut self, cluster: &Cluster, at: Instant) {
        self.dead_letters.look(cluster.dead_letters.get(), at);
        self.orders_lost.look(cluster.orders_lost.get(), at);
        self.ledger_lost_tail.look(cluster.ledger_lost_tail.get(), at);
        self.drift_units.look(cluster.drift_units.get(), at);
        self.reconciled.look(cluster.reconciled.get(), at);
        self.units_read.look(cluster.units_read.get(), at);
    }

    /// Since a message was put aside, if one was while we looked.
    pub(super) fn dead_letter_ms(&self, now: Instant) -> Option<u64> {
        self.dead_letters.at.map(|at| since(at, now))
    }

    pub(super) fn orders_lost(&self, now: Instant) -> Option<Lately> {
        self.orders_lost.lately(now)
    }

    pub(super) fn ledger_lost_tail(&self, now: Instant) -> Option<Lately> {
        self.ledger_lost_tail.lately(now)
    }

    pub(super) fn drift_units(&self, now: Instant) -> Option<Lately> {
        self.drift_units.lately(now)
    }

    /// Since reconciliation ended well here, if it did while we looked.
    pub(super) fn reconciled_ms(&self, now: Instant) -> Option<u64> {
        self.reconciled.at.map(|at| since(at, now))
    }

    /// Since it ended well on any server, or since the first look. `heard_ms`: on those that are heard now. What another one did
    /// is not forgotten when it goes, or Redis does: whoever takes over needs a moment.
    pub(super) fn reconciled_anywhere_ms(&mut self, heard_ms: Option<u64>, now: Instant) -> u64 {
        let (age_ms, at) = self.reconciled_anywhere;
        let known_ms = age_ms.saturating_add(since(at, now));
        let age_ms = heard_ms.map_or(known_ms, |heard_ms| heard_ms.min(known_ms));
        self.reconciled_anywhere = (age_ms, now);
        age_ms
    }

    /// Since what is held and sold was read here, or since the first look.
    pub(super) fn units_ms(&self, now: Instant) -> u64 {
        since(self.units_read.at.unwrap_or(self.begun), now)
    }
}

fn since(at: Instant, now: Instant) -> u64 {
    ms(now.duration_since(at))
}
