//! The ways into the book that are its own: placing with the window in force, and the holds whose time is over.

use std::cmp::Reverse;

use super::Book;
use crate::rules::OpenHolds;
use crate::rules::place::{expire, lookup, place};
use crate::rules::rows::Rows;
use crate::{OrderView, Phase, Placement, Refusal, UnixMs};

impl Book {
    /// Places an order, or answers again what was answered under this id: the order as it was placed.
    ///
    /// The id comes before everything else: only a request whose id is unknown can be refused by the window,
    /// a pause, the limits or the stock.
    ///
    /// # Panics
    /// If `now` is before the latest event, as [`Book::execute`].
    pub fn place(&mut self, now: UnixMs, placement: &Placement) -> Result<(OrderView, bool), Refusal> {
        self.assert_not_past(now);
        place(self, now, placement, |book| {
            let open_holds = book.judge_window(now, placement)?;
            if book.has_turn(placement) {
                return book.judge_started(now, placement).map(|()| open_holds);
            }
            let open_holds = open_holds.map(|holds| book.bounds_of_new(holds, placement)).transpose()?;
            book.judge_returned_holds(now, placement)?;
            Ok(open_holds)
        })
    }

    /// What was answered under this id, if it is known: the order, or a conflict with another request.
    pub fn lookup(&self, placement: &Placement) -> Option<Result<OrderView, Refusal>> {
        lookup(self, placement)
    }

    /// Whether the sale sells now; and the buyer's open holds, if the sale bounds them.
    pub(super) fn judge_window(
        &self,
        now: UnixMs,
        placement: &Placement,
    ) -> Result<Option<OpenHolds>, Refusal> {
        let terms = self.sales.terms(placement.id.sku).ok_or(Refusal::UnknownSku)?;
        let sale = self.sales.of(terms);
        let phase = sale.phase(now);
        if self.has_turn(placement) && phase != Phase::Paused {
            // Called within the window, or promised in it: all else was judged then.
            return Ok(None);
        }
        if let Some(refusal) = phase.refusal() {
            return Err(refusal);
        }
        if terms.has_line {
            return Err(Refusal::TurnRequired);
        }
        let has = |max| OpenHolds { has: self.holds.get(terms.sale, placement.buyer), max };
        Ok(sale.spec.open_holds_per_buyer_max.map(has))
    }

    /// After a clock was set back there may be turns from before their sale's start, and they wait for it. No rule of the
    /// ledger, which has orders from before this rule.
    fn judge_started(&self, now: UnixMs, placement: &Placement) -> Result<(), Refusal> {
        let sale = self.sales.of_sku(placement.id.sku).ok_or(Refusal::UnknownSku)?;
        if sale.phase(now) == Phase::NotStarted { Err(Refusal::NotStarted) } else { Ok(()) }
    }

    /// Whether the order is of somebody who was called.
    pub fn has_turn(&self, placement: &Placement) -> bool {
        self.line(placement.id.sku).is_some_and(|line| line.turn_of(placement.buyer).is_some())
    }

    /// What holds for new orders beside the rules of the ledger, which has orders from before them. An open turn counts as
    /// the hold that it comes to. And of the open holds that the buyer may have there is one less for each hold of the SKU
    /// that they let go unpaid: so nobody takes units and lets them go more often than that, however short the time to pay
    /// is.
    fn bounds_of_new(&self, holds: OpenHolds, placement: &Placement) -> Result<OpenHolds, Refusal> {
        let OpenHolds { has, max } = holds;
        let sku = placement.id.sku;
        let sale = self.sales.terms(sku).ok_or(Refusal::UnknownSku)?.sale;
        let turns = self.turns.get(sale, placement.buyer);
        match max.saturating_sub(self.returned_holds.get(sku.0, placement.buyer)) {
            0 => Err(Refusal::HoldsUsedUp),
            max => Ok(OpenHolds { has: has + turns, max }),
        }
    }

    /// Whether the buyer need not wait. Costs nothing as long as nobody has to.
    fn judge_returned_holds(&self, now: UnixMs, placement: &Placement) -> Result<(), Refusal> {
        if self.cooling.is_empty() {
            return Ok(());
        }
        let (sku, buyer) = (placement.id.sku, placement.buyer);
        let Some((entry, at)) = self.cooling.get(&(sku, buyer)) else { return Ok(()) };
        let until = self.cool_down.until(self.returned_holds.get(sku.0, buyer), *at);
        let until = until.shifted(self.shift_ms_since(*entry));
        match until.0.checked_sub(now.0) {
            None | Some(0) => Ok(()),
            Some(retry_after_ms) => Err(Refusal::CoolingDown { retry_after_ms }),
        }
    }

    /// Expires at most `max` holds whose time is over and returns how many; their units are on sale again.
    /// Entries of orders that were closed before are skipped, and not counted.
    ///
    /// # Panics
    /// If `now` is before the latest event, as [`Book::execute`].
    pub fn expire_due(&mut self, now: UnixMs, max: usize) -> usize {
        self.assert_not_past(now);
        let mut expired = 0;
        while expired < max {
            match self.deadlines.peek() {
                Some(Reverse((deadline, _))) if *deadline <= now => {}
                _ => break,
            }
            let Reverse((_, order)) = self.deadlines.pop().expect("it was peeked at");
            expired += usize::from(expire(self, now, order));
        }
        expired
    }
}
