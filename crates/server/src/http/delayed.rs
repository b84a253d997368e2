//! Answers to wrong operator tokens, which wait a moment: whoever guesses on one connection has few guesses a second.
//!
//! Must not: block, or keep more of a request than its ticket.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use super::HttpService;
use super::call::Call;
use super::delivery::Delivery;
use super::pending::{Pending, Waiting};
use super::wire::error::Problem;
use crate::net::Ticket;

/// How long; sent in the first round after it, which is a quarter of a second later at most.
const DELAY: Duration = Duration::from_millis(400);
/// Of one loop. With more, further ones are answered at once: what bounds guessing is the token's length.
pub(super) const DELAYED_MAX: usize = 256;

/// The answers of one loop, in the order in which they are due.
#[derive(Debug)]
pub(super) struct Delayed {
    pub(super) delay: Duration,
    waiting: VecDeque<(Instant, Ticket, Problem)>,
}

impl Default for Delayed {
    fn default() -> Delayed {
        Delayed { delay: DELAY, waiting: VecDeque::new() }
    }
}

impl HttpService {
    /// Returns what is to be answered at once.
    pub(super) fn delay(&mut self, call: &Call<'_>, problem: Problem) -> Option<Problem> {
        let is_wrong_token = problem.is_of_no_operator() && call.fields.authorization.is_some();
        if !is_wrong_token || self.delayed.waiting.len() >= DELAYED_MAX {
            return Some(problem);
        }
        let due = Instant::now() + self.delayed.delay;
        self.delayed.waiting.push_back((due, call.ticket, problem));
        self.pending.put(call.ticket, Pending::new(call, Waiting::Delay));
        None
    }

    /// To be called once in each round.
    pub(super) fn send_delayed(&mut self, delivery: &mut impl Delivery) {
        if self.delayed.waiting.is_empty() {
            return;
        }
        let now = Instant::now();
        let is_due = |(due, ..): &(Instant, Ticket, Problem)| *due <= now;
        while self.delayed.waiting.front().is_some_and(is_due)
            && let Some((_, ticket, problem)) = self.delayed.waiting.pop_front()
        {
            self.reply_with(ticket, problem, delivery);
        }
    }
}
