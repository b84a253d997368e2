//! What an answer means for the business, and how many of each meaning there were.

use serde::{Deserialize, Serialize};

/// The meaning of one answer, or of its absence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// An order was accepted.
    Won,
    /// A read, or a plain command of an engine, was answered as expected.
    Served,
    /// Accepted by the broker, and not an order yet: a message.
    Queued,
    SoldOut,
    /// The buyer has as many units as the limit allows.
    OverLimit,
    /// Refused by a rate limit: HTTP 429.
    Limited,
    /// Refused because the server has too much to do: HTTP 503.
    Busy,
    /// Certainly no order, and no refusal that a shop would give: an unexpected status, or never sent.
    Failed,
    /// Sent, and the answer was lost, broken or "unknown": the order may exist.
    Unknown,
}

impl Outcome {
    /// A buyer would try again: turned away for now, or left without an answer. Sold out and over the limit are
    /// answers.
    pub fn is_worth_a_retry(self) -> bool {
        matches!(self, Self::Limited | Self::Busy | Self::Failed | Self::Unknown)
    }
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Outcomes {
    pub won: u64,
    pub served: u64,
    #[serde(default)]
    pub queued: u64,
    pub sold_out: u64,
    pub over_limit: u64,
    pub limited: u64,
    pub busy: u64,
    pub failed: u64,
    pub unknown: u64,
}

impl Outcomes {
    fn count_mut(&mut self, outcome: Outcome) -> &mut u64 {
        match outcome {
            Outcome::Won => &mut self.won,
            Outcome::Served => &mut self.served,
            Outcome::Queued => &mut self.queued,
            Outcome::SoldOut => &mut self.sold_out,
            Outcome::OverLimit => &mut self.over_limit,
            Outcome::Limited => &mut self.limited,
            Outcome::Busy => &mut self.busy,
            Outcome::Failed => &mut self.failed,
            Outcome::Unknown => &mut self.unknown,
        }
    }

    pub fn of(mut self, outcome: Outcome) -> u64 {
        *self.count_mut(outcome)
    }

    pub fn total(&self) -> u64 {
        let Self { won, served, queued, sold_out, over_limit, limited, busy, failed, unknown } = *self;
        won + served + queued + sold_out + over_limit + limited + busy + failed + unknown
    }

    /// Orders won, reads served and messages queued.
    pub fn good(&self) -> u64 {
        self.won + self.served + self.queued
    }

    /// Refusals by rules of business or of admission: no errors.
    pub fn refused(&self) -> u64 {
        self.sold_out + self.over_limit + self.limited + self.busy
    }

    /// Failed or unknown.
    pub fn bad(&self) -> u64 {
        self.failed + self.unknown
    }

    pub fn add(&mut self, outcome: Outcome, count: u64) {
        *self.count_mut(outcome) += count;
    }
}
