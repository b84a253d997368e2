//! Whether events may come to a line as it is: what a ledger is judged by.
//!
//! Must not: change a line.

use super::{Borders, ClosedLine, DrawView, Line, Spoken, Turn, TurnEnd};
use crate::{BuyerId, Refusal, UnixMs, limits};

impl Line {
    pub(crate) fn judge_join(&self, buyer: BuyerId, places_max: u32) -> Result<(), Refusal> {
        assert!(self.number_of(buyer).is_none(), "a second join is answered as the first");
        if self.joined() >= places_max { Err(Refusal::LineFull) } else { Ok(()) }
    }

    /// Who joined until now takes part, and whoever checks it comes to the same root.
    pub(crate) fn check_close(&self, closed: ClosedLine, starts_at: UnixMs) -> Result<(), &'static str> {
        if self.draw != DrawView::Open {
            return Err("the entries of a line were closed twice");
        }
        if closed.at < self.closes_at(starts_at) {
            return Err("the entries of a line were closed before their time");
        }
        if closed != self.closed_now(closed.at) {
            return Err("the entries of a line are not those who had joined");
        }
        Ok(())
    }

    /// Without the beacon that was announced only when it was silent for too long.
    pub(crate) fn check_draw(
        &self,
        at: UnixMs,
        spoken: Option<Spoken>,
        starts_at: UnixMs,
    ) -> Result<(), &'static str> {
        let DrawView::Closed(closed) = self.draw else {
            return Err("places were drawn twice, or of entries that were not closed");
        };
        match spoken {
            Some(spoken) if closed.round != Some(spoken.round) => Err("a draw went by another round"),
            None if self.patience_ends(starts_at) > at => Err("a draw did not wait for its beacon"),
            _ => Ok(()),
        }
    }

    /// Borders move forward, in their order, when it is time, and promise no more units than there are.
    pub(crate) fn check_move(&self, at: UnixMs, to: Borders, available: u64) -> Result<(), &'static str> {
        let from = self.borders;
        if to == from || to.away_to < from.away_to || to.reached < from.reached || to.sure_to < from.sure_to {
            return Err("a border of a line moved back, or none moved");
        }
        if self.order.is_none() {
            return Err("a line moved before its places were drawn");
        }
        if to.away_to > from.reached || to.reached > to.sure_to || to.sure_to > self.joined() {
            return Err("the borders of a line are out of their order");
        }
        let over = self.graces.iter().take_while(|(_, until)| self.is_over(*until, at)).last();
        let over = over.map_or(0, |(place, _)| *place);
        if to.away_to > from.away_to.max(over) {
            return Err("a grace was over before its time");
        }
        if to.reached - from.reached > self.pace_allows(at) {
            return Err("a line moved faster than an operator let it");
        }
        let gone = self.uncalled_in(from.away_to, to.away_to);
        let kept_for = u64::from(self.in_grace - gone) + u64::from(to.sure_to - from.reached);
        // For the last of them one unit will do.
        if kept_for > 0 && (kept_for - 1) * u64::from(self.terms.units) >= available {
            return Err("a line promised more units than there are");
        }
        Ok(())
    }

    pub(crate) fn judge_pace(&self, per_s_max: Option<u32>) -> Result<(), &'static str> {
        let fits = per_s_max.is_none_or(|per_s| per_s <= limits::LINE_PACE_PER_S_MAX);
        if fits { Ok(()) } else { Err("the pace of a line is limited to 0 to 100,000 places per second") }
    }

    pub(crate) fn judge_message(message: &str) -> Result<(), &'static str> {
        let is_short = message.chars().count() <= limits::LINE_MESSAGE_CHARS_MAX;
        let fits = is_short && !message.chars().any(char::is_control);
        if fits { Ok(()) } else { Err("a message to a line has 280 characters at most, and no line ends") }
    }

    /// Of somebody in grace the units were kept; of somebody away they must be such as nobody was promised.
    pub(crate) fn check_open(&self, turn: Turn, available: u64) -> Result<(), &'static str> {
        let place = turn.place;
        if !self.uncalled.contains(&place) {
            return Err("somebody was called who was not reached, or was called before");
        }
        let Some(due) = self.turn_at(place, available) else {
            return Err("somebody was called for a unit that another was promised");
        };
        if (due.number, due.buyer) != (turn.number, turn.buyer) {
            return Err("somebody was called in another's place");
        }
        if due == turn { Ok(()) } else { Err("somebody was called for other units than there were for them") }
    }

    pub(crate) fn check_end(&self, at: UnixMs, place: u32, how: TurnEnd) -> Result<(), &'static str> {
        let until = self.turns.get(&place).ok_or("no turn of this place is open")?.until;
        if how == TurnEnd::Expired && !self.is_over(until, at) {
            Err("a turn expired before its time")
        } else {
            Ok(())
        }
    }

    /// By what a ledger is judged: an older one may have ended it without the time of a pause that ended with the sale.
    fn is_over(&self, until: UnixMs, at: UnixMs) -> bool {
        until.0.saturating_sub(self.forgiven_ms) <= at.0
    }

    /// Every invariant that a line has, of an item with so many units available.
    pub(crate) fn check(&self, available: u64) -> Result<(), String> {
        let Borders { away_to, reached, sure_to } = self.borders;
        if !(away_to <= reached && reached <= sure_to && sure_to <= self.joined()) {
            return Err(format!(
                "the borders are out of their order: {:?} of {}",
                self.borders,
                self.joined()
            ));
        }
        let in_grace = self.uncalled_in(away_to, reached);
        if in_grace != self.in_grace {
            return Err(format!("{in_grace} are in grace, but counted {}", self.in_grace));
        }
        if self.reaches.last().map_or(0, |(to, _)| *to) != reached {
            return Err("it is not known when somebody was reached".to_owned());
        }
        if self.kept_for() > 0 && (self.kept_for() - 1) * u64::from(self.terms.units) >= available {
            return Err(format!("{} are to get a turn of {available} units", self.kept_for()));
        }
        let last = self.graces.back().map_or(away_to, |(place, _)| *place);
        if last != reached || self.uncalled.last().is_some_and(|place| *place > reached) {
            return Err("somebody was reached and has no end of the grace".to_owned());
        }
        for number in 1..=self.joined() {
            if self.number_of(self.buyer(number)) != Some(number) {
                return Err(format!("number {number} is another's"));
            }
            let place = self.place_of_number(number).unwrap_or(number);
            if self.order.as_ref().is_some_and(|order| order.number_at(place) != number) {
                return Err(format!("place {place} is not that of number {number} alone"));
            }
        }
        Ok(())
    }
}
