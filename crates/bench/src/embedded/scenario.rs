//! The table of the embedded benchmark: what is asked of whom, and the goals.
//!
//! Data only. A scenario runs once in every round, next to the same requests against nginx.

use serde::Serialize;

use crate::goal::Goal;
use crate::load::record::Outcome;

/// What is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Load {
    Published,
    Own,
    SoldOut,
    Stock,
    Page,
    PageGzip,
}

/// Whose data the load needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Side {
    /// `serve --demo`.
    Demo,
    /// `serve` with signed tokens, and the pre-filled ledger.
    Own,
}

impl Load {
    pub(super) const ALL: [Self; 6] =
        [Self::Published, Self::Own, Self::SoldOut, Self::Stock, Self::Page, Self::PageGzip];

    pub(super) fn side(self) -> Side {
        if self == Self::Own { Side::Own } else { Side::Demo }
    }

    /// The outcome that is counted; everything else is a refusal or an error.
    pub(super) fn wanted(self) -> Outcome {
        match self {
            Self::Published | Self::Own => Outcome::Won,
            Self::SoldOut => Outcome::SoldOut,
            Self::Stock | Self::Page | Self::PageGzip => Outcome::Served,
        }
    }
}

/// When the requests are sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Arrival {
    /// Closed loop: as fast as the target answers.
    Peak,
    /// Open loop at half of the peak that the same load just had in the same round, times from the planned send.
    HalfPeak,
}

/// What is computed from a server's and the reference's figures.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Quantity {
    /// The server's processor time per answer over nginx's.
    CpuRatio,
    /// The server's answers per second over nginx's.
    RateRatio,
    P50Ms,
    P99Ms,
    P999Ms,
}

#[derive(Debug)]
pub(super) struct Scenario {
    pub(super) name: &'static str,
    pub(super) load: Load,
    pub(super) connections: usize,
    pub(super) arrival: Arrival,
    pub(super) goals: &'static [(Quantity, Goal)],
}

const ORDER: &[(Quantity, Goal)] =
    &[(Quantity::CpuRatio, Goal::AtMost(2.0)), (Quantity::RateRatio, Goal::AtLeast(0.5))];
const OWN_ORDER: &[(Quantity, Goal)] =
    &[(Quantity::CpuRatio, Goal::AtMost(3.0)), (Quantity::RateRatio, Goal::None)];
const LATENCY: &[(Quantity, Goal)] =
    &[(Quantity::P50Ms, Goal::None), (Quantity::P99Ms, Goal::AtMost(10.0)), (Quantity::P999Ms, Goal::None)];
const CHEAP: &[(Quantity, Goal)] =
    &[(Quantity::CpuRatio, Goal::AtMost(1.3)), (Quantity::RateRatio, Goal::None)];

const fn peak(
    name: &'static str,
    load: Load,
    connections: usize,
    goals: &'static [(Quantity, Goal)],
) -> Scenario {
    Scenario { name, load, connections, arrival: Arrival::Peak, goals }
}

const fn half_peak(name: &'static str, load: Load) -> Scenario {
    Scenario { name, load, connections: 200, arrival: Arrival::HalfPeak, goals: LATENCY }
}

/// In the order of a round. A half-peak needs its peak, at as many connections, before it.
pub(super) const SCENARIOS: [Scenario; 14] = [
    peak("published order", Load::Published, 200, ORDER),
    half_peak("published order, half peak", Load::Published),
    peak("published order", Load::Published, 1000, ORDER),
    peak("own order", Load::Own, 200, OWN_ORDER),
    half_peak("own order, half peak", Load::Own),
    peak("own order", Load::Own, 1000, OWN_ORDER),
    peak("sold-out refusal", Load::SoldOut, 200, CHEAP),
    peak("sold-out refusal", Load::SoldOut, 1000, CHEAP),
    peak("stock read", Load::Stock, 200, CHEAP),
    peak("stock read", Load::Stock, 1000, CHEAP),
    peak("static page", Load::Page, 200, CHEAP),
    peak("static page", Load::Page, 1000, CHEAP),
    peak("static page, gzip", Load::PageGzip, 200, CHEAP),
    peak("static page, gzip", Load::PageGzip, 1000, CHEAP),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_half_peak_follows_its_peak() {
        for (index, scenario) in SCENARIOS.iter().enumerate() {
            assert!(
                scenario.arrival == Arrival::Peak
                    || SCENARIOS[..index].iter().any(|earlier| {
                        earlier.arrival == Arrival::Peak
                            && earlier.load == scenario.load
                            && earlier.connections == scenario.connections
                    }),
                "{scenario:?}"
            );
        }
        for load in Load::ALL {
            assert!(SCENARIOS.iter().any(|scenario| scenario.load == load), "{load:?} is never measured");
        }
    }
}
