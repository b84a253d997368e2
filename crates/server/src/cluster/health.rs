//! What this server knows of its engines at the moment: whether orders should come here, and why not.
//!
//! Each fact is written by the stage that learns it, and read by the readiness probe and by the relay, which takes
//! no order that could not be published. Must not: ask an engine. Called by: every stage of the cluster.

use std::sync::atomic::{AtomicBool, Ordering};

/// One thing that must hold for orders to be taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Need {
    /// Redis answers, and keeps what it is given.
    Gate,
    /// It never evicts a key: `maxmemory-policy` is `noeviction`.
    GateKeepsKeys,
    /// The broker takes messages.
    Broker,
    /// The broker's disk is not nearly full.
    BrokerDisk,
    /// No message was deleted before it was consumed.
    QueueWhole,
    /// The shared ledger answers.
    Ledger,
}

const NEEDS: [(Need, &str); 6] = [
    (Need::Gate, "the stock gate (Redis) does not answer"),
    (Need::GateKeepsKeys, "the stock gate may evict keys: set Redis' maxmemory-policy to noeviction"),
    (Need::Broker, "the broker (RocketMQ) takes no messages"),
    (Need::BrokerDisk, "the broker's disk is nearly full (queue.broker_disk_percent_max)"),
    (Need::QueueWhole, "the broker has deleted messages that were not consumed: orders may be missing"),
    (Need::Ledger, "the ledger (MySQL) does not answer"),
];

/// All needs, each met or not.
#[derive(Debug)]
pub struct Health {
    unmet: [AtomicBool; NEEDS.len()],
}

impl Default for Health {
    fn default() -> Health {
        Health { unmet: std::array::from_fn(|_| AtomicBool::new(false)) }
    }
}

impl Health {
    /// Notes how a need stands; a change is logged once. Returns whether it is one.
    pub(crate) fn note(&self, need: Need, met: bool) -> bool {
        let (index, text) = place(need);
        let was_unmet = self.unmet[index].swap(!met, Ordering::AcqRel);
        match (was_unmet, met) {
            (false, false) => tracing::error!("not ready: {text}"),
            (true, true) => tracing::info!("over: {text}"),
            (false, true) | (true, false) => {}
        }
        was_unmet == met
    }

    pub(crate) fn is_met(&self, need: Need) -> bool {
        !self.unmet[place(need).0].load(Ordering::Acquire)
    }

    /// Why orders should not come here, if they should not.
    pub(crate) fn why_not_ready(&self) -> Option<&'static str> {
        NEEDS
            .iter()
            .zip(&self.unmet)
            .find(|(_, unmet)| unmet.load(Ordering::Acquire))
            .map(|((_, text), _)| *text)
    }
}

fn place(need: Need) -> (usize, &'static str) {
    let index = NEEDS.iter().position(|(other, _)| *other == need).expect("every need is listed");
    (index, NEEDS[index].1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_need_that_is_not_met_is_told_until_it_is() {
        let health = Health::default();
        assert_eq!(health.why_not_ready(), None);
        health.note(Need::Ledger, false);
        health.note(Need::Broker, false);
        assert_eq!(health.why_not_ready(), Some("the broker (RocketMQ) takes no messages"));
        health.note(Need::Broker, true);
        assert!(!health.is_met(Need::Ledger) && health.is_met(Need::Broker));
        health.note(Need::Ledger, true);
        assert_eq!(health.why_not_ready(), None);
    }
}
