//! Turns: whose they are, for how many units, and what is kept for those that are to come.

use super::{Borders, Line};
use crate::{BuyerId, UnixMs};

/// Who was called, and for how much. The rest follows from the place and the stock; an entry has it so that whoever reads it
/// alone knows whose turn it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Turn {
    pub place: u32,
    pub number: u32,
    pub buyer: BuyerId,
    /// Units that it is for, if there were fewer than [`crate::LineTerms::units`].
    pub fewer_units: Option<u32>,
}

/// A turn that was not used yet.
#[derive(Clone, Copy, Debug)]
pub(super) struct OpenTurn {
    pub(super) units: u32,
    pub(super) until: UnixMs,
    /// Was called after the grace.
    was_away: bool,
}

/// How a turn came to its end without an order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TurnEnd {
    Expired,
    GivenBack,
}

impl Line {
    /// The place whose turn a buyer has.
    pub(crate) fn turn_of(&self, buyer: BuyerId) -> Option<u32> {
        self.place_of(buyer).filter(|place| self.turns.contains_key(place))
    }

    /// Units that a buyer may order who was called; 0: was not.
    pub(crate) fn units_for(&self, buyer: BuyerId) -> u32 {
        if self.turns.is_empty() {
            return 0;
        }
        self.place_of(buyer).and_then(|place| self.turns.get(&place)).map_or(0, |turn| turn.units)
    }

    /// The turn that whoever has this place, and was reached, would get with so many units available; `None`: nobody has it yet,
    /// or there is nothing to be called for.
    pub(crate) fn turn_at(&self, place: u32, available: u64) -> Option<Turn> {
        let order = self.order.as_ref().filter(|_| (1..=self.joined()).contains(&place))?;
        let number = order.number_at(place);
        let units = self.units_at(place, available);
        let fewer_units = (units < self.terms.units).then_some(units);
        (units > 0).then(|| Turn { place, number, buyer: self.buyer(number), fewer_units })
    }

    /// In grace: those that are kept. Away: of those that nobody was promised.
    fn units_at(&self, place: u32, available: u64) -> u32 {
        let full = u64::from(self.terms.units);
        let free = if place <= self.borders.away_to {
            available - self.promised(available)
        } else if self.borders.sure_to == self.borders.reached && self.uncalled.last() == Some(&place) {
            // The last for whom units are kept.
            available.saturating_sub((self.kept_for() - 1) * full)
        } else {
            full
        };
        u32::try_from(free.min(full)).expect("a turn has 32 bits")
    }

    /// Whose turns are open.
    pub(crate) fn called(&self) -> impl Iterator<Item = BuyerId> + '_ {
        self.turns.keys().map(|place| self.buyer_at(*place))
    }

    /// Units of the turns that are open.
    pub(crate) fn turn_units(&self) -> u64 {
        self.turns.values().map(|turn| u64::from(turn.units)).sum()
    }

    /// Of the units that are available those that are kept for who was not called yet: nobody else gets them.
    pub(crate) fn promised(&self, available: u64) -> u64 {
        available.min(self.kept_for() * u64::from(self.terms.units))
    }

    /// How many units are kept for: a full turn each, but for the last, for whom it is one at least.
    pub(super) fn kept_for(&self) -> u64 {
        let Borders { reached, sure_to, .. } = self.borders;
        u64::from(self.in_grace) + u64::from(sure_to - reached)
    }
}

/// What events do to them.
impl Line {
    /// Returns for how many units it is.
    pub(crate) fn open_turn(&mut self, at: UnixMs, Turn { place, fewer_units, .. }: Turn) -> u32 {
        assert!(self.uncalled.remove(&place), "only who was reached and not called yet is called");
        let was_away = place <= self.borders.away_to;
        self.in_grace -= u32::from(!was_away);
        self.present.remove(&place);
        let until = UnixMs(at.0.saturating_add(self.terms.turn_ms));
        let units = fewer_units.unwrap_or(self.terms.units);
        self.turns.insert(place, OpenTurn { units, until, was_away });
        self.expiring.push_back((place, until));
        units
    }

    /// An order has used it. Returns for how many units it was.
    pub(crate) fn end_turn(&mut self, place: u32) -> u32 {
        self.close_turn(place).units
    }

    fn close_turn(&mut self, place: u32) -> OpenTurn {
        self.turns.remove(&place).expect("only an open turn ends")
    }

    /// It ended without an order.
    pub(crate) fn let_go(&mut self, place: u32, how: TurnEnd) -> u32 {
        let OpenTurn { units, was_away, .. } = self.close_turn(place);
        self.gave_up += u32::from(!was_away);
        self.given_back += u32::from(how == TurnEnd::GivenBack);
        self.let_go.insert(place, how);
        units
    }
}
