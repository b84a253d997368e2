//! Who is called next. One step at a time, so that each is an event before the next is decided.

use std::ops::RangeInclusive;

use super::{Borders, ClosedLine, DrawView, Line, Turn, TurnEnd};
use crate::{BuyerId, Phase, UnixMs};

/// What a step is decided by, beside the line.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moment {
    pub(crate) now: UnixMs,
    pub(crate) phase: Phase,
    pub(crate) starts_at: UnixMs,
    /// The sale was ended before its start.
    pub(crate) called_off: bool,
    /// Units of the SKU, those that the line has promised among them.
    pub(crate) available: u64,
    /// Places that may be reached now: the others wait, and their graces with them.
    pub(crate) reach_max: u32,
}

/// While an operator limits a line's pace, places are reached so often.
const REACHINGS_PER_S: u32 = 20;

/// A step of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LineStep {
    Close(ClosedLine),
    /// Without a beacon.
    Draw,
    End {
        place: u32,
        how: TurnEnd,
    },
    Move(Borders),
    Open(Turn),
}

impl Line {
    /// The next step; `None`: there is nothing to do before something happens, or before [`Line::next_time`].
    ///
    /// Nothing happens in a pause: it stops a line's time too. After the sale's end whoever is sure is called still, and nobody
    /// else becomes so; of a sale that was called off nobody is called. Whoever may not be called is passed over as one who is away.
    pub(crate) fn next_step(&mut self, moment: Moment, may: impl Fn(BuyerId) -> bool) -> Option<LineStep> {
        let Moment { now, phase, starts_at, called_off, available, reach_max } = moment;
        match self.draw {
            DrawView::Open => {
                let closes = phase != Phase::Ended && self.closes_at(starts_at) <= now;
                return closes.then(|| LineStep::Close(self.closed_now(now)));
            }
            DrawView::Closed(_) => return (self.patience_ends(starts_at) <= now).then_some(LineStep::Draw),
            DrawView::Drawn { .. } => {}
        }
        if phase == Phase::Paused || self.is_paused() {
            return None;
        }
        let over_at = if now < self.kept_until { UnixMs(0) } else { now };
        if let Some(place) = self.turn_over(over_at) {
            return Some(LineStep::End { place, how: TurnEnd::Expired });
        }
        let mut to = self.borders;
        if let Some((place, _)) = self.graces.iter().take_while(|(_, until)| *until <= over_at).last() {
            to.away_to = *place;
            return Some(LineStep::Move(to));
        }
        if called_off {
            return None;
        }
        let spare = available - self.promised(available);
        if let Some(place) = self.first_present(to.away_to + 1..=to.reached, now, &may) {
            return self.turn_at(place, available).map(LineStep::Open);
        }
        if phase == Phase::Live
            && spare > 0
            && let Some(place) = self.first_present(1..=to.away_to, now, &may)
        {
            return self.turn_at(place, available).map(LineStep::Open);
        }
        if phase != Phase::Ended {
            // A rest is a turn for fewer units: nothing stays unsold.
            let more = u32::try_from(spare.div_ceil(self.terms.units.into())).unwrap_or(u32::MAX);
            to.sure_to = to.sure_to.saturating_add(more).min(self.joined());
        }
        if phase != Phase::NotStarted {
            let reach_max = reach_max.min(self.pace_allows(now));
            to.reached = to.sure_to.min(to.reached.saturating_add(reach_max));
        }
        (to != self.borders).then_some(LineStep::Move(to))
    }

    /// How many places may be reached at this moment, as the operator has limited it. What may be in a twentieth of a second is
    /// reached at once, so that not each place is an entry of its own.
    pub(super) fn pace_allows(&self, now: UnixMs) -> u32 {
        match self.pace_max {
            None => u32::MAX,
            Some(per_s) if self.paced_until <= now => per_s.div_ceil(REACHINGS_PER_S),
            Some(_) => 0,
        }
    }

    /// So many were reached. Who looks seldom makes up for it, but for no more than the time between two reachings.
    pub(super) fn pay_for(&mut self, at: UnixMs, places: u32) {
        let Some(per_s) = self.pace_max.filter(|per_s| *per_s > 0) else { return };
        let looked = UnixMs(at.0.saturating_sub(1000 / u64::from(REACHINGS_PER_S)));
        let ms = (u64::from(places) * 1000).div_ceil(per_s.into());
        self.paced_until = self.paced_until.max(looked).plus(ms);
    }

    /// Whether somebody is sure and could be reached, but that it was not allowed, and will be by itself.
    pub(crate) fn is_held_back(&self, phase: Phase) -> bool {
        let may_move = matches!(phase, Phase::Live | Phase::Ended) && self.pace_max != Some(0);
        self.order.is_some() && may_move && self.borders.reached < self.borders.sure_to
    }

    pub(crate) fn closes_at(&self, starts_at: UnixMs) -> UnixMs {
        UnixMs(starts_at.0.saturating_sub(self.terms.close_ms))
    }

    /// Until when the beacon is waited for.
    pub(crate) fn patience_ends(&self, starts_at: UnixMs) -> UnixMs {
        if self.terms.beacon.is_some() { self.patience.max(starts_at) } else { UnixMs(0) }
    }

    /// The entries as they are.
    pub(super) fn closed_now(&self, at: UnixMs) -> ClosedLine {
        let round = self.terms.beacon.map(|beacon| beacon.round_after(at));
        ClosedLine { at, entries: self.entries.count(), root: self.entries.root(), round }
    }

    /// When something is to be done though nothing happens, once the places are drawn.
    pub(crate) fn next_time(&self) -> Option<UnixMs> {
        let grace = self.graces.front().map(|(_, until)| *until);
        let turn = self.expiring.front().map(|(_, until)| *until);
        let first = grace.into_iter().chain(turn).min()?;
        Some(first.max(self.kept_until))
    }

    /// A turn whose time is over, the oldest first.
    fn turn_over(&mut self, now: UnixMs) -> Option<u32> {
        while let Some((place, until)) = self.expiring.front().copied() {
            if self.turns.contains_key(&place) {
                return (until <= now).then_some(place);
            }
            self.expiring.pop_front();
        }
        None
    }

    /// The first in these places who is there and may be called. Forgets the others before: whoever shows themselves is looked at
    /// again.
    fn first_present(
        &mut self,
        places: RangeInclusive<u32>,
        now: UnixMs,
        may: &impl Fn(BuyerId) -> bool,
    ) -> Option<u32> {
        if places.is_empty() {
            return None;
        }
        while let Some((place, _)) = self.present.range(places.clone()).next() {
            let place = *place;
            if self.is_present(place, now) && may(self.buyer_at(place)) {
                return Some(place);
            }
            self.present.remove(&place);
        }
        None
    }
}
