//! The table of the cluster's orders: which broker, how many servers, which arrivals, and the goals.
//!
//! Data only. A scenario runs once in every round.

use crate::engines::BrokerFlush;
use crate::goal::Goal;

/// Accepted orders per second of the published order tier (`reference/seckill-tiers.csv`).
pub(super) const PUBLISHED_PER_S: f64 = 4055.0;
/// Of a closed loop: enough to keep every stage supplied, as the published runs had.
pub(super) const CONNECTIONS: usize = 300;
/// An open loop offers this share of what the peak persisted in the same round: what could be sold all day.
pub(super) const SUSTAINED_SHARE: f64 = 0.8;

/// When the orders are sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Arrival {
    /// Closed loop: as fast as they are answered, be the ledger behind or not.
    Peak,
    /// Open loop at a rate that the ledger must keep up with; times from the planned send.
    Sustained,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Scenario {
    pub(super) flush: BrokerFlush,
    pub(super) servers: usize,
    pub(super) arrival: Arrival,
}

impl Scenario {
    pub(super) fn name(self) -> String {
        let flush = match self.flush {
            BrokerFlush::Asynchronous => "async",
            BrokerFlush::Synchronous => "sync",
        };
        let arrival = match self.arrival {
            Arrival::Peak => "peak",
            Arrival::Sustained => "sustained",
        };
        let servers = if self.servers == 1 { "1 server" } else { "2 servers" };
        format!("orders, {flush} broker, {servers}, {arrival}")
    }

    /// At least so many persisted per second, for as long as one likes.
    pub(super) fn rate_goal(self) -> Goal {
        match (self.flush, self.arrival) {
            (BrokerFlush::Asynchronous, Arrival::Sustained) => Goal::AtLeast(PUBLISHED_PER_S),
            _ => Goal::None,
        }
    }

    /// Of what must not happen while the ledger keeps up.
    pub(super) fn none_goal(self, most: f64) -> Goal {
        if self.arrival == Arrival::Sustained { Goal::AtMost(most) } else { Goal::None }
    }
}

const fn scenario(flush: BrokerFlush, servers: usize, arrival: Arrival) -> Scenario {
    Scenario { flush, servers, arrival }
}

/// In the order of a round: a sustained load follows the peak that it is a share of.
pub(super) const SCENARIOS: [Scenario; 8] = [
    scenario(BrokerFlush::Asynchronous, 1, Arrival::Peak),
    scenario(BrokerFlush::Asynchronous, 1, Arrival::Sustained),
    scenario(BrokerFlush::Asynchronous, 2, Arrival::Peak),
    scenario(BrokerFlush::Asynchronous, 2, Arrival::Sustained),
    scenario(BrokerFlush::Synchronous, 1, Arrival::Peak),
    scenario(BrokerFlush::Synchronous, 1, Arrival::Sustained),
    scenario(BrokerFlush::Synchronous, 2, Arrival::Peak),
    scenario(BrokerFlush::Synchronous, 2, Arrival::Sustained),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sustained_load_follows_its_peak() {
        for pair in SCENARIOS.chunks(2) {
            assert_eq!((pair[0].arrival, pair[1].arrival), (Arrival::Peak, Arrival::Sustained));
            assert_eq!((pair[0].flush, pair[0].servers), (pair[1].flush, pair[1].servers));
        }
    }

    #[test]
    fn only_what_lasts_is_judged() {
        assert_eq!(SCENARIOS[1].rate_goal(), Goal::AtLeast(4055.0));
        assert_eq!(SCENARIOS[5].rate_goal(), Goal::None);
        assert_eq!(SCENARIOS[0].none_goal(0.0), Goal::None);
        assert_eq!(SCENARIOS[5].none_goal(0.0), Goal::AtMost(0.0));
    }
}
