//! What a corrected clock does to a book: the times of its entries begin anew, and open deadlines move along.
//!
//! The windows of sales do not move: they were announced, as times of the clocks that buyers have. A deadline was worked
//! out from a clock that was wrong, so the buyer keeps what was left of it.

use std::cmp::Reverse;

use super::Book;
use crate::rules::apply::record;
use crate::rules::rows::Rows;
use crate::sale::limits;
use crate::{Event, Refusal, Seq, Status, UnixMs};

impl Book {
    /// Notes that the clock, which says `from`, should say `to`: earlier or later. From then on it is to be given so.
    ///
    /// # Errors
    /// [`Refusal::InvalidChange`] if one of the times, or who says so, can't be.
    ///
    /// # Panics
    /// If `from` is before the latest event, as [`Book::execute`].
    pub fn correct_clock(&mut self, from: UnixMs, to: UnixMs, who: &str) -> Result<(), Refusal> {
        self.assert_not_past(from);
        judge(from, to, who)?;
        record(self, to, Event::ClockCorrected { from, to, who: who.into() });
        Ok(())
    }

    /// How often the clock was corrected.
    pub fn corrections_len(&self) -> usize {
        self.corrections.len()
    }

    pub(super) fn check_correction(
        &self,
        at: UnixMs,
        (from, to): (UnixMs, UnixMs),
        who: &str,
    ) -> Result<(), &'static str> {
        if from < self.end.last_at {
            return Err("time runs backwards");
        }
        if at != to {
            return Err("a correction of the clock has another time than the clock after it");
        }
        judge(from, to, who).map_err(|_refusal| "no command could have made it")
    }

    pub(super) fn correct(&mut self, seq: Seq, (from, to): (UnixMs, UnixMs)) {
        let shift = to.0.cast_signed() - from.0.cast_signed();
        let before = self.corrections.last().map_or(0, |(_, total)| *total);
        self.corrections.push((seq, before.saturating_add(shift)));
        for sku in self.sku_numbers() {
            let sale = self.sales.of_sku(sku).expect("a SKU is of a sale");
            let (over_at, phase) = (sale.lines_go_on_at(), sale.phase(to));
            if let Some(line) = self.line_mut(sku) {
                // The sale's times do not move: a pause that its end was the end of may go on, one may be over at once, and
                // what had started may wait for its start.
                line.end_pause(from, over_at);
                line.shift(shift);
                line.follow(to, phase);
            }
        }
        let waiting = std::mem::take(&mut self.deadlines).into_vec();
        let held = waiting.into_iter().map(|Reverse((_, index))| index);
        let held = held.filter(|index| self.orders[*index as usize].status == Status::Held);
        self.deadlines = held.map(|index| Reverse((self.pay_by(index), index))).collect();
    }

    /// Until when an order must be paid.
    pub(super) fn pay_by(&self, order: u32) -> UnixMs {
        let order = &self.orders[order as usize];
        order.pay_by(self.shift_ms_since(order.seq))
    }
}

fn judge(from: UnixMs, to: UnixMs, who: &str) -> Result<(), Refusal> {
    if from.0.max(to.0) > limits::TIME_MS_MAX {
        return Err(Refusal::InvalidChange("the time is too far ahead"));
    }
    if who.is_empty() || who.len() > limits::KEY_BYTES_MAX {
        return Err(Refusal::InvalidChange("who corrects the clock must have 1 to 64 bytes"));
    }
    Ok(())
}
