//! The lines of the book: joining, showing oneself, and calling those whose turn it is.

use std::cmp::Reverse;

use super::Book;
use crate::line::draw::{Hash, LineSecrets};
use crate::line::{AFTER_START_MS, Line, LineStep, Moment};
use crate::rules::apply::record;
use crate::rules::rows::Rows;
use crate::sale::title_fault;
use crate::{
    Accepted, Borders, BuyerId, DrawView, Entry, EntryView, Event, LineTerms, Payment, Phase, PlaceView,
    Reached, Refusal, Sale, Seq, SkuId, Spoken, Standing, Standings, Stock, TurnEnd, UnixMs, limits,
};

const UNPLAIN_MESSAGE: &str =
    "a message to a line has something to see, and no characters that turn the direction of text";

/// Each costs a look into the memory of another item, and anybody may ask for it.
const ITEMS_SEARCHED_MAX: usize = 64;

/// The line of a SKU, to read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LineView {
    pub terms: LineTerms,
    pub draw: DrawView,
    pub borders: Borders,
    pub joined: u32,
    pub standings: Standings,
    /// Places that may be reached per second; `None`: as many as can be.
    pub pace_max: Option<u32>,
    /// How often its message was changed: see [`Book::message_to_line`].
    pub message_changes: u32,
    /// What the secret of its draw was committed to with.
    pub commitment: Hash,
    /// The latest entry that it may have changed with.
    pub version: Seq,
    /// Of the units that are available the line has promised so many.
    pub promised: u64,
    pub stock: Stock,
}

/// What calling came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CallsMade {
    pub steps: usize,
    pub reached: u32,
}

/// What became of a buyer's place, as of the entry that is the line's version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReceiptView {
    pub buyer: BuyerId,
    pub place: PlaceView,
    /// `None`: not yet.
    pub reached: Option<Reached>,
    /// In the tree of the draw; `None`: who takes part is not fixed yet, or the buyer came after that.
    pub entry: Option<EntryView>,
    pub line: LineView,
}

impl Book {
    /// The line of a SKU; `None`: it has none.
    pub fn line_of(&self, sku: SkuId) -> Option<LineView> {
        let entry = self.skus.get(sku.0 as usize)?;
        let line = entry.line.as_deref()?;
        Some(LineView {
            terms: line.terms(),
            draw: line.draw(),
            borders: line.borders(),
            joined: line.joined(),
            standings: line.standings(),
            pace_max: line.pace_max(),
            message_changes: line.message().0,
            commitment: line.commitment(),
            version: Seq(self.end.next.0 - 1),
            promised: line.promised(entry.row.stock.available()),
            stock: entry.row.stock,
        })
    }

    /// What those in the line of a SKU are to read; empty: nothing.
    pub fn message_to_line(&self, sku: SkuId) -> &str {
        self.line(sku).map_or("", |line| line.message().1)
    }

    /// Takes the lines that may have changed since the last call, each once, with what is to be read in them.
    pub fn drain_moved_lines(&mut self, mut each: impl FnMut(SkuId, LineView, &str)) {
        for sku in std::mem::take(&mut self.moved) {
            self.skus[sku.0 as usize].moved = false;
            each(sku, self.line_of(sku).expect("only lines move"), self.message_to_line(sku));
        }
    }

    /// A buyer's place in the line of a SKU.
    ///
    /// # Errors
    /// If there is no such SKU, no line, or no place.
    pub fn place_in_line(&self, sku: SkuId, buyer: BuyerId) -> Result<PlaceView, Refusal> {
        self.known_line(sku)?
            .view(buyer)
            .map(|place| self.with_holds(sku, buyer, place))
            .ok_or(Refusal::NotInLine)
    }

    fn with_holds(&self, sku: SkuId, buyer: BuyerId, place: PlaceView) -> PlaceView {
        let waits = matches!(place.standing, Standing::Grace | Standing::Away);
        PlaceView { has_too_many_holds: waits && !self.may_hold_more(sku, buyer), ..place }
    }

    /// How many in the line of a SKU are there, of those who can be called soon; 0 without a line. Costs a pass over them.
    pub fn count_present(&self, now: UnixMs, sku: SkuId) -> u32 {
        self.line(sku).map_or(0, |line| line.count_present(now))
    }

    /// What became of a buyer's place in the line of a SKU until now.
    ///
    /// # Errors
    /// If there is no such SKU, no line, or no place.
    pub fn receipt(&self, sku: SkuId, buyer: BuyerId) -> Result<ReceiptView, Refusal> {
        let place = self.place_in_line(sku, buyer)?;
        let reached = place.place.and_then(|place| self.line(sku)?.reached(place));
        let entry = self.line(sku).and_then(|line| line.entry(place.number));
        let line = self.line_of(sku).expect("the buyer has a place in it");
        Ok(ReceiptView { buyer, place, reached, entry, line })
    }

    /// Whether a buyer has a place in the line of an item, or of one of the first [`ITEMS_SEARCHED_MAX`] of its sale.
    ///
    /// # Errors
    /// If there is no such SKU, no line, or no place in these.
    pub fn known_to_lines_of_sale(&self, sku: SkuId, buyer: BuyerId) -> Result<(), Refusal> {
        let own = self.known_line(sku)?;
        let skus = self.sales.of_sku(sku).expect("the SKU is known").skus();
        let mut others = skus.take(ITEMS_SEARCHED_MAX).filter_map(|other| self.line(other));
        let is_in = |line: &Line| line.number_of(buyer).is_some();
        if is_in(own) || others.any(is_in) { Ok(()) } else { Err(Refusal::NotInLine) }
    }

    /// Calls those whose turn it is, and ends the turns and graces that are over: at most so many steps, and at most so many places
    /// reached, in all lines together.
    ///
    /// # Panics
    /// If `now` is before the latest event, as [`Book::execute`].
    pub fn call_due(&mut self, now: UnixMs, max: usize, reach_max: u32) -> CallsMade {
        self.assert_not_past(now);
        for sku in std::mem::take(&mut self.held_back) {
            self.line_mut(sku);
        }
        while self.line_times.peek().is_some_and(|Reverse((at, _))| *at <= now) {
            let Reverse((_, sku)) = self.line_times.pop().expect("it was peeked at");
            self.line_mut(sku);
        }
        let mut made = CallsMade::default();
        while let Some(sku) = self.stirred.last().copied() {
            while let Some(event) = self.next_step(now, sku, reach_max - made.reached) {
                if made.steps == max {
                    return made;
                }
                let before = self.reached_to(sku);
                record(self, now, event);
                made.reached += self.reached_to(sku) - before;
                made.steps += 1;
            }
            if self.line(sku).is_some_and(|line| line.is_held_back(self.phase_of(now, sku))) {
                self.held_back.push(sku);
            }
            self.stirred.pop();
            self.skus[sku.0 as usize].stirred = false;
            self.line_times.extend(self.next_line_time(now, sku).map(|at| Reverse((at, sku))));
        }
        made
    }

    /// Whether anything was ever sold to a line: otherwise there is nobody to call.
    pub fn has_lines(&self) -> bool {
        self.has_lines
    }

    /// Whether somebody waits only because too many were reached at the last call.
    pub fn is_line_held_back(&self) -> bool {
        !self.held_back.is_empty()
    }

    /// From now on the book serves, maybe after a time in which nobody could show presence or order: nobody loses a turn or a
    /// grace for that time at once.
    pub fn open_lines(&mut self, now: UnixMs) {
        let until = UnixMs(now.0.saturating_add(AFTER_START_MS));
        for sku in self.sku_numbers() {
            if let Some(line) = self.line_mut(sku) {
                line.keep_until(until);
            }
        }
    }

    pub(super) fn sku_numbers(&self) -> impl Iterator<Item = SkuId> + use<> {
        (0..u32::try_from(self.skus.len()).expect("SKUs have 32 bits")).map(SkuId)
    }

    pub(super) fn join(&mut self, now: UnixMs, sku: SkuId, buyer: BuyerId) -> Result<Accepted, Refusal> {
        let line = self.known_line(sku)?;
        let replayed = line.number_of(buyer).is_some();
        if !replayed {
            self.judge_join(now, (sku, buyer), self.line_places_max)?;
            record(self, now, Event::LineJoined { sku, buyer });
        }
        let place = self.place_now(now, sku, buyer).expect("the buyer has a place");
        Ok(Accepted::InLine { sku, place, replayed })
    }

    /// Who is so far back that it means nothing is answered the same.
    pub(super) fn show_presence(
        &mut self,
        now: UnixMs,
        sku: SkuId,
        buyer: BuyerId,
    ) -> Result<Accepted, Refusal> {
        let place = self.place_now(now, sku, buyer)?;
        if let Some(at) = place.place {
            self.line_mut(sku).expect("the buyer has a place in it").see(at, now);
        }
        Ok(Accepted::InLine { sku, place, replayed: true })
    }

    pub(super) fn give_turn_back(
        &mut self,
        now: UnixMs,
        sku: SkuId,
        buyer: BuyerId,
    ) -> Result<Accepted, Refusal> {
        let known = self.place_now(now, sku, buyer)?;
        let turn = self.known_line(sku)?.turn_of(buyer);
        if let Some(place) = turn {
            record(self, now, Event::TurnEnded { sku, place, how: TurnEnd::GivenBack });
        } else if !matches!(known.standing, Standing::Ordered | Standing::LetGo(_)) {
            return Err(Refusal::TurnRequired);
        }
        let place = self.place_now(now, sku, buyer)?;
        Ok(Accepted::InLine { sku, place, replayed: turn.is_none() })
    }

    /// A beacon that has spoken twice has drawn once.
    pub(super) fn draw(&mut self, now: UnixMs, sku: SkuId, spoken: Box<Spoken>) -> Result<Accepted, Refusal> {
        let line = self.known_line(sku)?;
        if line.draw().drawn().is_none() {
            line.check_draw(now, Some(*spoken), self.starts_at(sku)).map_err(Refusal::InvalidChange)?;
            record(self, now, Event::LineDrawn { sku, spoken: Some(spoken) });
        }
        Ok(Accepted::Drawn(sku))
    }

    /// To what it is already changes nothing.
    pub(super) fn limit_pace(
        &mut self,
        now: UnixMs,
        sku: SkuId,
        per_s_max: Option<u32>,
    ) -> Result<Accepted, Refusal> {
        let line = self.known_line(sku)?;
        line.judge_pace(per_s_max).map_err(Refusal::InvalidChange)?;
        if line.pace_max() != per_s_max {
            record(self, now, Event::PaceLimited { sku, per_s_max });
        }
        Ok(Accepted::LineSteered(sku))
    }

    /// The same again changes nothing.
    pub(super) fn set_line_message(
        &mut self,
        now: UnixMs,
        sku: SkuId,
        message: Box<str>,
    ) -> Result<Accepted, Refusal> {
        let line = self.known_line(sku)?;
        Line::judge_message(&message).map_err(Refusal::InvalidChange)?;
        // A ledger may have older ones, from before this was asked.
        if !message.is_empty() && title_fault(&message).is_some() {
            return Err(Refusal::InvalidChange(UNPLAIN_MESSAGE));
        }
        if line.message().1 != &*message {
            record(self, now, Event::LineMessageSet { sku, message });
        }
        Ok(Accepted::LineSteered(sku))
    }

    /// The secrets of a line, for whoever publishes what may be published of them.
    pub fn line_secrets(&self, sku: SkuId) -> Option<&LineSecrets> {
        Some(self.skus.get(sku.0 as usize)?.line.as_deref()?.secrets())
    }

    fn starts_at(&self, sku: SkuId) -> UnixMs {
        self.sales.of_sku(sku).expect("a line is of a SKU").spec.starts_at
    }

    fn known_line(&self, sku: SkuId) -> Result<&Line, Refusal> {
        self.sales.known_sku(sku)?;
        self.line(sku).ok_or(Refusal::NoLine)
    }

    /// Whoever comes after the end could not be called any more.
    fn judge_join(
        &self,
        now: UnixMs,
        (sku, buyer): (SkuId, BuyerId),
        places_max: u32,
    ) -> Result<(), Refusal> {
        let line = self.known_line(sku)?;
        if self.phase_of(now, sku) == Phase::Ended {
            return Err(Refusal::Ended);
        }
        line.judge_join(buyer, places_max)
    }

    fn phase_of(&self, now: UnixMs, sku: SkuId) -> Phase {
        self.sales.of_sku(sku).expect("a line is of a SKU").phase(now)
    }

    fn reached_to(&self, sku: SkuId) -> u32 {
        self.line(sku).map_or(0, |line| line.borders().reached)
    }

    fn next_step(&mut self, now: UnixMs, sku: SkuId, reach_max: u32) -> Option<Event> {
        // Of a deleted sale nobody is called.
        self.sales.known_sku(sku).ok()?;
        let (phase, starts_at) = (self.phase_of(now, sku), self.starts_at(sku));
        self.end_pause(now, sku);
        let called_off = self.sales.of_sku(sku).is_some_and(Sale::is_called_off);
        let entry = &mut self.skus[sku.0 as usize];
        let available = entry.row.stock.available();
        let mut line = entry.line.take()?;
        let moment = Moment { now, phase, starts_at, called_off, available, reach_max };
        let step = line.next_step(moment, |buyer| self.may_hold_more(sku, buyer));
        self.skus[sku.0 as usize].line = Some(line);
        Some(match step? {
            LineStep::Close(closed) => Event::LineClosed { sku, closed: Box::new(closed) },
            LineStep::Draw => Event::LineDrawn { sku, spoken: None },
            LineStep::End { place, how } => Event::TurnEnded { sku, place, how },
            LineStep::Move(to) => Event::LineMoved { sku, to },
            LineStep::Open(turn) => Event::TurnOpened { sku, turn },
        })
    }

    /// If the sale's end has ended it by itself.
    fn end_pause(&mut self, now: UnixMs, sku: SkuId) {
        let over_at = self.sales.of_sku(sku).expect("a line is of a SKU").lines_go_on_at();
        if let Some(line) = self.skus[sku.0 as usize].line.as_deref_mut() {
            line.end_pause(now, over_at);
        }
    }

    /// Before an event is looked at that goes by a line's times.
    pub(super) fn end_pause_before(&mut self, Entry { at, event, .. }: &Entry) {
        if let Event::LineMoved { sku, .. } | Event::TurnOpened { sku, .. } | Event::TurnEnded { sku, .. } =
            event
            && self.sales.terms(*sku).is_some()
        {
            self.end_pause(*at, *sku);
        }
    }

    /// As it stands now.
    fn place_now(&mut self, now: UnixMs, sku: SkuId, buyer: BuyerId) -> Result<PlaceView, Refusal> {
        self.known_line(sku)?;
        self.end_pause(now, sku);
        let place = self.known_line(sku)?.view_at(now, buyer).ok_or(Refusal::NotInLine)?;
        Ok(self.with_holds(sku, buyer, place))
    }

    /// Whether a buyer may have one more open order in the sale of a SKU. Their turns there count, since each comes to an order; so a
    /// turn is never refused one. It is no rule of the ledger, which has calls from before this rule.
    fn may_hold_more(&self, sku: SkuId, buyer: BuyerId) -> bool {
        let terms = self.sales.terms(sku).expect("a line is of a SKU");
        let sale = self.sales.of(terms);
        let Some(max) = sale.spec.open_holds_per_buyer_max else { return true };
        if sale.spec.payment == Payment::OnPlacing {
            return true;
        }
        self.holds.get(terms.sale, buyer) + self.turns.get(terms.sale, buyer) < max
    }

    fn next_line_time(&self, now: UnixMs, sku: SkuId) -> Option<UnixMs> {
        let sale = self.sales.of_sku(sku).filter(|sale| !sale.deleted)?;
        let line = self.line(sku)?;
        let phase = self.phase_of(now, sku);
        match line.draw() {
            DrawView::Open => return (phase != Phase::Ended).then(|| line.closes_at(sale.spec.starts_at)),
            DrawView::Closed(_) => return Some(line.patience_ends(sale.spec.starts_at)),
            DrawView::Drawn { .. } => {}
        }
        match phase {
            Phase::NotStarted => Some(sale.spec.starts_at),
            // An end ends a pause.
            Phase::Paused => Some(sale.spec.ends_at),
            Phase::Live | Phase::Ended => line.next_time(),
        }
    }

    /// Whether a line's event can come to the book as it is.
    pub(super) fn check_line_event(&self, at: UnixMs, event: &Event) -> Result<(), &'static str> {
        let line = |sku: SkuId| self.known_line(sku).map_err(|_refusal| "the SKU has no line");
        let available = |sku: SkuId| self.skus[sku.0 as usize].row.stock.available();
        match event {
            Event::LineJoined { sku, buyer } => {
                if line(*sku)?.number_of(*buyer).is_some() {
                    return Err("the buyer has a place in the line already");
                }
                let judged = self.judge_join(at, (*sku, *buyer), limits::LINE_PLACES_MAX);
                judged.map_err(|_refusal| "nobody could join the line")
            }
            Event::LineClosed { sku, closed } => {
                if closed.at != at {
                    return Err("the entries of a line were closed at another time");
                }
                if self.phase_of(at, *sku) == Phase::Ended {
                    return Err("the entries of a line were closed after the end");
                }
                line(*sku)?.check_close(**closed, self.starts_at(*sku))
            }
            Event::LineDrawn { sku, spoken } => {
                line(*sku)?.check_draw(at, spoken.as_deref().copied(), self.starts_at(*sku))
            }
            Event::LineMoved { sku, to } => {
                let line = line(*sku)?;
                line.check_move(at, *to, available(*sku))?;
                match self.phase_of(at, *sku) {
                    Phase::Paused => Err("a line moved in a pause"),
                    Phase::NotStarted if to.reached > 0 => Err("somebody was reached before the start"),
                    Phase::Ended if to.sure_to > line.borders().sure_to => {
                        Err("somebody was promised a unit after the end")
                    }
                    _ => Ok(()),
                }
            }
            Event::PaceLimited { sku, per_s_max } => line(*sku)?.judge_pace(*per_s_max),
            Event::LineMessageSet { sku, message } => {
                line(*sku)?;
                Line::judge_message(message)
            }
            Event::TurnOpened { sku, turn } => {
                if matches!(self.phase_of(at, *sku), Phase::Paused | Phase::NotStarted) {
                    return Err("somebody was called before the start, or in a pause");
                }
                line(*sku)?.check_open(*turn, available(*sku))
            }
            Event::TurnEnded { sku, place, how } => {
                if *how == TurnEnd::Expired && self.phase_of(at, *sku) == Phase::Paused {
                    return Err("a turn expired in a pause");
                }
                line(*sku)?.check_end(at, *place, *how)
            }
            _ => unreachable!("the other events are not about a line"),
        }
    }
}
