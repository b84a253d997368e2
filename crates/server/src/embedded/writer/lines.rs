//! The lines of the book: called with every batch, and shown to whoever waits after the commit.

use std::time::{Duration, Instant};

use engine::{Accepted, BuyerId, Command, LineView, SkuId, UnixMs};

use super::{Writer, answer};
use crate::intake::Reply;
use crate::intake::catalog::Sku;

/// Steps of all lines together with one batch: bounds the batch, the rest follow with the next.
const CALLS_PER_BATCH: usize = 1_000;

/// While people wait only for the rate, they are reached so often: not one by one, each with an entry of its own.
const REACHINGS_PER_S: u64 = 20;
const NS_PER_S: u64 = 1_000_000_000;

/// Between two times that whoever is there is counted: a pass over those near the front of each line.
const COUNT_INTERVAL: Duration = Duration::from_secs(1);

/// How many places of lines are reached per second: as many as orders are let through, since whoever is called orders.
#[derive(Debug)]
pub(super) struct Reaching {
    /// What was reached is paid for by then.
    paid_at: Instant,
}

impl Reaching {
    pub(super) fn new() -> Reaching {
        Reaching { paid_at: Instant::now() }
    }

    /// How many may be reached at this moment. `per_s`: 0 for no bound; `burst`: how many may be at once.
    fn allowed(&self, now: Instant, (per_s, burst): (u64, u64)) -> u32 {
        let Some(interval) = interval(per_s) else { return u32::MAX };
        let burst = burst.max(1);
        let owed = self.paid_at.saturating_duration_since(now).as_nanos().div_ceil(interval.as_nanos());
        let allowed = burst.saturating_sub(u64::try_from(owed).unwrap_or(u64::MAX));
        let worth_it = (per_s / REACHINGS_PER_S).clamp(1, burst);
        if allowed < worth_it { 0 } else { u32::try_from(allowed).unwrap_or(u32::MAX) }
    }

    fn reached(&mut self, now: Instant, places: u32, per_s: u64) {
        if let Some(interval) = interval(per_s) {
            self.paid_at = self.paid_at.max(now) + interval * places;
        }
    }
}

/// Between two of so many a second; `None`: they are not bounded.
fn interval(per_s: u64) -> Option<Duration> {
    Some(Duration::from_nanos(NS_PER_S.checked_div(per_s)?.max(1)))
}

impl Writer {
    pub(super) fn call_lines(&mut self, now: UnixMs) {
        if !self.book.has_lines() {
            return;
        }
        let (at, limits) = (Instant::now(), self.shared.admission.limits());
        let reach_max = self.reaching.allowed(at, (limits.orders_per_s, limits.burst));
        let made = self.book.call_due(now, CALLS_PER_BATCH, reach_max);
        self.reaching.reached(at, made.reached, limits.orders_per_s);
    }

    /// For the figures: presence is in no entry, so nothing else would say that nobody is there any more.
    pub(super) fn count_present(&mut self, now: UnixMs) {
        if !self.book.has_lines() || self.present_counted_at.elapsed() < COUNT_INTERVAL {
            return;
        }
        self.present_counted_at = Instant::now();
        for (sku, number) in self.catalog.skus.iter().zip(0..) {
            if let Some(board) = &sku.board {
                board.publish_present(self.book.count_present(now, SkuId(number)));
            }
        }
    }

    /// When it is worth calling again though nothing happens: soon, if the rate alone keeps people waiting.
    pub(super) fn until_reaching(&self) -> Duration {
        let soon = Duration::from_nanos(NS_PER_S / REACHINGS_PER_S);
        if self.book.is_line_held_back() { soon } else { Duration::MAX }
    }

    /// With the text of one who joins, so that the shop can be notified whom a turn is of.
    pub(super) fn join(
        &mut self,
        now: UnixMs,
        (sku, buyer, verified): (SkuId, BuyerId, bool),
        text: Option<Box<str>>,
    ) -> Reply {
        if !verified && let Err(refusal) = self.book.known_to_lines_of_sale(sku, buyer) {
            return Reply::Refused(refusal);
        }
        let seq = self.book.next_seq();
        let joined = self.book.execute(now, Command::Join { sku, buyer });
        if matches!(joined, Ok(Accepted::InLine { replayed: false, .. })) {
            self.buyers.extend(text.map(|text| (seq, text)));
        }
        answer(joined)
    }

    pub(super) fn receipt(&self, sku: SkuId, buyer: BuyerId) -> Reply {
        match self.book.receipt(sku, buyer) {
            Ok(receipt) => Reply::Receipt(Box::new(receipt)),
            Err(refusal) => Reply::Refused(refusal),
        }
    }

    /// From now on it serves, maybe after a time in which it did not.
    pub(super) fn open_lines(&mut self) {
        let now = self.shared.clock.now().max(self.book.last_at());
        self.book.open_lines(now);
    }
}

/// With what everybody in the line is to read.
pub(super) fn publish_line(now: UnixMs, sku: &Sku, (line, message): (LineView, &str)) {
    sku.board.as_ref().expect("the catalog is made from the book").publish(now, line, message);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn so_many_are_reached_in_a_second_and_a_burst_at_once() {
        let start = Instant::now();
        let at = |ms: u64| start + Duration::from_millis(ms);
        let mut reaching = Reaching { paid_at: start };
        let rate = (100, 10);
        let mut total = 0;
        for ms in 0..1_000 {
            let allowed = reaching.allowed(at(ms), rate);
            assert!(allowed == 0 || allowed >= 5, "{allowed} are not worth an entry");
            reaching.reached(at(ms), allowed, rate.0);
            total += allowed;
        }
        assert!((100..=110).contains(&total), "{total}");
        // Whoever was not there leaves nothing to be made up for.
        assert_eq!(reaching.allowed(at(60_000), rate), 10);
        for (rate, allowed) in
            [((0, 0), u32::MAX), ((1, 0), 1), ((3, 1), 1), ((10_000_000, 1_000_000), 1_000_000)]
        {
            assert_eq!(Reaching { paid_at: start }.allowed(start, rate), allowed, "{rate:?}");
        }
    }
}
