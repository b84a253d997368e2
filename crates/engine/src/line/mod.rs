//! The line of one SKU: who waits in which place, and what a place is worth.
//!
//! Data structures first. A line is a list of buyers in the order of joining, which gives each a *number*; the draw, which
//! gives each number of those who joined before the close its *place*, while later ones have the place of their number; and
//! three borders that only move forward, once the places are drawn:
//!
//! ```text
//! 1 ......... away_to ........... reached ........... sure_to ........... joined
//!   their grace    called, or in      will be called,     may be called
//!   is over        their grace        a unit is kept
//! ```
//!
//! Units are kept for everybody in grace and everybody who is sure; a *turn* is a unit set aside for one who was called. Who
//! was not called in the grace stands by, and is called before those behind, as long as there are units that nobody was
//! promised. Presence is the one thing here that no ledger has: it is proven again after a restart.
//!
//! Must not: move units. [`call`] decides, events move.

mod call;
pub mod draw;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::sharded::{Sharded, hash_of};
use crate::{BuyerId, Refusal, Seq, UnixMs};

pub(crate) use call::{Call, Moment};
use draw::{Entries, Hash, LineSecrets, Permutation, Proof};

/// How long somebody counts as present after the last sign.
pub const PRESENT_MS: u64 = 15_000;
/// After a start nobody loses a turn or a grace before: who could not reach the server finds it again.
pub(crate) const AFTER_START_MS: u64 = 30_000;
/// Only so many places behind those who were reached may show themselves: whoever is farther back has nothing to tell.
pub const PRESENT_AHEAD: u32 = 10_000;

/// How an item with a line is sold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LineTerms {
    /// Units that a turn is for, at most.
    pub units: u32,
    /// How long a turn lasts.
    pub turn_ms: u64,
    /// How long a unit is kept for one who is not there when reached.
    pub grace_ms: u64,
    /// How long before the start the entries close, and their places are drawn.
    pub close_ms: u64,
    /// Whose value the draw waits for; `None`: it needs none.
    pub beacon: Option<BeaconTerms>,
}

/// A public source of randomness that speaks at fixed times, as the sale's creation announced it: drand's, of the scheme
/// `bls-unchained-g1-rfc9380`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BeaconTerms {
    pub public_key: [u8; 96],
    /// Of round 1, in seconds since 1970.
    pub genesis_s: u64,
    pub period_s: u32,
}

/// A round is later than the close by so much at least: what was closed is published before.
const BEACON_AFTER_MS: u64 = 3_000;
/// A beacon that has said nothing when the sale starts is waited for so long after its round was due, at least. Nor longer, if
/// the clock was far ahead at the close: by the time since then, which a correction moves too.
const BEACON_PATIENCE_MS: u64 = 20_000;

impl BeaconTerms {
    /// The first round that is not spoken yet, nor soon.
    pub fn round_after(&self, closed_at: UnixMs) -> u64 {
        let after_ms = closed_at.0.saturating_add(BEACON_AFTER_MS);
        let since_ms = after_ms.saturating_sub(self.genesis_s.saturating_mul(1000));
        since_ms.div_ceil(u64::from(self.period_s) * 1000) + 1
    }

    pub fn due_at(&self, round: u64) -> UnixMs {
        let since_s = (round - 1).saturating_mul(self.period_s.into());
        UnixMs(self.genesis_s.saturating_add(since_s).saturating_mul(1000))
    }
}

/// What a beacon said in the round that a draw waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spoken {
    pub round: u64,
    /// Whoever brings it has checked it.
    pub signature: [u8; 48],
}

/// How far the draw of a line is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DrawView {
    /// Whoever joins takes part.
    Open,
    /// Who takes part is fixed; the beacon has not spoken yet.
    Closed(Closed),
    /// `secret`: what was committed to, for everybody to see from now on.
    Drawn { closed: Closed, spoken: Option<Spoken>, secret: Hash, seed: Hash },
}

impl DrawView {
    pub fn closed(&self) -> Option<Closed> {
        match self {
            DrawView::Open => None,
            DrawView::Closed(closed) | DrawView::Drawn { closed, .. } => Some(*closed),
        }
    }

    /// How many places were drawn; `None`: none yet.
    pub fn drawn(&self) -> Option<u32> {
        match self {
            DrawView::Drawn { closed, .. } => Some(closed.entries),
            DrawView::Open | DrawView::Closed(_) => None,
        }
    }
}

/// Who takes part in a draw.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Closed {
    pub at: UnixMs,
    pub entries: u32,
    pub root: Hash,
    /// The round that the draw waits for, if a beacon was announced.
    pub round: Option<u64>,
}

/// The borders of a line. They only move forward; a place counts from 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Borders {
    /// The grace of these places is over.
    pub away_to: u32,
    /// These were called, or their grace has begun.
    pub reached: u32,
    /// These get a unit, unless they are away when reached.
    pub sure_to: u32,
}

/// Who was called. Number and buyer follow from the place; an entry has them so that whoever reads it alone knows whose turn it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Turn {
    pub place: u32,
    pub number: u32,
    pub buyer: BuyerId,
}

/// How a turn came to its end without an order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TurnEnd {
    Expired,
    GivenBack,
}

/// What becomes of a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// Not reached yet.
    Waiting,
    /// Reached, and not seen yet.
    Grace,
    /// Was not there in the grace, and is called if units are left.
    Away,
    /// Called; the turn is over at this time.
    Called { until: UnixMs },
    /// Called, and has ordered.
    Ordered,
    /// Called, and the turn ended without an order.
    LetGo(TurnEnd),
}

/// When a place was reached, and what was there then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reached {
    /// The entry that moved the line so far.
    pub by: Seq,
    /// Units that nobody held, owned or was called for: those of the places that it reached, and of any behind them.
    pub left: u64,
}

/// Somebody in a line, to read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlaceView {
    /// In the order of joining.
    pub number: u32,
    pub proof: Proof,
    /// `None`: not drawn yet.
    pub place: Option<u32>,
    pub standing: Standing,
}

/// See above. Per person who joined: 16 bytes and a hash table's entry of 4; while not called 4 more, and 8 for a turn that was let go.
#[derive(Clone, Debug)]
pub(crate) struct Line {
    terms: LineTerms,
    secrets: LineSecrets,
    commitment: Hash,
    /// By number.
    buyers: Vec<BuyerId>,
    /// Not before somebody has joined: it is large when it is empty.
    number_of: Option<Sharded<u32>>,
    entries: Entries,
    draw: DrawView,
    /// Of closed entries: until when the beacon is waited for, if the sale has started by then.
    patience: UnixMs,
    /// Once the places are drawn.
    order: Option<Permutation>,
    borders: Borders,
    /// Up to which place each of the moves came that reached somebody, in order.
    reaches: Vec<(u32, Reached)>,
    /// Whose grace ends when: up to a place, in order.
    graces: VecDeque<(u32, UnixMs)>,
    /// Reached and not called yet.
    uncalled: BTreeSet<u32>,
    /// Of `uncalled`, those behind `away_to`.
    in_grace: u32,
    /// The places whose turns are open, and until when.
    turns: BTreeMap<u32, UnixMs>,
    /// The same in the order of their ends, and those that ended before.
    expiring: VecDeque<(u32, UnixMs)>,
    /// When they were last seen. Of those that can be called soon, and were not.
    present: BTreeMap<u32, UnixMs>,
    /// The places whose turns ended without an order.
    let_go: BTreeMap<u32, TurnEnd>,
    /// Since when the sale is paused.
    paused_at: Option<UnixMs>,
    /// No turn and no grace is over before. No ledger has it.
    kept_until: UnixMs,
}

impl Line {
    pub(crate) fn new(terms: LineTerms, secrets: LineSecrets) -> Line {
        Line {
            terms,
            commitment: secrets.commitment(),
            secrets,
            buyers: Vec::new(),
            number_of: None,
            entries: Entries::default(),
            draw: DrawView::Open,
            patience: UnixMs(0),
            order: None,
            borders: Borders::default(),
            reaches: Vec::new(),
            graces: VecDeque::new(),
            uncalled: BTreeSet::new(),
            in_grace: 0,
            turns: BTreeMap::new(),
            expiring: VecDeque::new(),
            present: BTreeMap::new(),
            let_go: BTreeMap::new(),
            paused_at: None,
            kept_until: UnixMs(0),
        }
    }

    pub(crate) fn terms(&self) -> LineTerms {
        self.terms
    }

    pub(crate) fn borders(&self) -> Borders {
        self.borders
    }

    pub(crate) fn joined(&self) -> u32 {
        u32::try_from(self.buyers.len()).expect("bounded when somebody joins")
    }

    pub(crate) fn secrets(&self) -> &LineSecrets {
        &self.secrets
    }

    pub(crate) fn commitment(&self) -> Hash {
        self.commitment
    }

    pub(crate) fn draw(&self) -> DrawView {
        self.draw
    }

    pub(crate) fn number_of(&self, buyer: BuyerId) -> Option<u32> {
        self.number_of.as_ref()?.find(hash_of(buyer), |number| self.buyer(*number) == buyer).copied()
    }

    /// `None`: not drawn yet.
    pub(crate) fn place_of_number(&self, number: u32) -> Option<u32> {
        self.order.as_ref().map(|order| order.place_of(number))
    }

    pub(crate) fn place_of(&self, buyer: BuyerId) -> Option<u32> {
        self.number_of(buyer).and_then(|number| self.place_of_number(number))
    }

    pub(crate) fn view(&self, buyer: BuyerId) -> Option<PlaceView> {
        let number = self.number_of(buyer)?;
        let place = self.place_of_number(number);
        let standing = place.map_or(Standing::Waiting, |place| self.standing(place));
        Some(PlaceView { number, proof: self.secrets.proof(number, buyer), place, standing })
    }

    pub(crate) fn standing(&self, place: u32) -> Standing {
        if let Some(until) = self.turns.get(&place) {
            Standing::Called { until: (*until).max(self.kept_until) }
        } else if place > self.borders.reached {
            Standing::Waiting
        } else if !self.uncalled.contains(&place) {
            self.let_go.get(&place).map_or(Standing::Ordered, |how| Standing::LetGo(*how))
        } else if place > self.borders.away_to {
            Standing::Grace
        } else {
            Standing::Away
        }
    }

    /// `None`: not yet.
    pub(crate) fn reached(&self, place: u32) -> Option<Reached> {
        let after = self.reaches.partition_point(|(to, _)| *to < place);
        self.reaches.get(after).map(|(_, reached)| *reached)
    }

    /// The place whose turn a buyer has.
    pub(crate) fn turn_of(&self, buyer: BuyerId) -> Option<u32> {
        self.place_of(buyer).filter(|place| self.turns.contains_key(place))
    }

    /// The turn that whoever has this place would get; `None`: nobody has it yet.
    pub(crate) fn turn_at(&self, place: u32) -> Option<Turn> {
        let order = self.order.as_ref().filter(|_| (1..=self.joined()).contains(&place))?;
        let number = order.number_at(place);
        Some(Turn { place, number, buyer: self.buyer(number) })
    }

    /// Units of the turns that are open.
    pub(crate) fn turn_units(&self) -> u64 {
        self.turns.len() as u64 * u64::from(self.terms.units)
    }

    /// How many were reached and have no order of it: they were away, or let their turn go.
    pub(crate) fn gave_up(&self) -> u32 {
        let uncalled = u32::try_from(self.uncalled.len()).expect("places have 32 bits");
        let let_go = u32::try_from(self.let_go.len()).expect("places have 32 bits");
        uncalled - self.in_grace + let_go
    }

    /// Units that are kept for those who were not called yet: nobody else gets them.
    pub(crate) fn promised(&self) -> u64 {
        let Borders { reached, sure_to, .. } = self.borders;
        u64::from(self.in_grace + sure_to.saturating_sub(reached)) * u64::from(self.terms.units)
    }

    /// Notes that somebody is there, if they can be called soon, and were not.
    pub(crate) fn see(&mut self, place: u32, now: UnixMs) {
        let Borders { reached, sure_to, .. } = self.borders;
        let is_near = place > reached && place <= sure_to.saturating_add(PRESENT_AHEAD);
        if is_near || self.uncalled.contains(&place) {
            self.present.insert(place, now);
        }
    }

    pub(crate) fn keep_until(&mut self, at: UnixMs) {
        self.kept_until = at;
    }

    pub(crate) fn is_present(&self, place: u32, now: UnixMs) -> bool {
        self.present.get(&place).is_some_and(|seen| now.0 <= seen.0.saturating_add(PRESENT_MS))
    }

    /// How many behind one place, up to another, were reached and not called yet.
    fn uncalled_in(&self, from: u32, to: u32) -> u32 {
        let count = if from < to { self.uncalled.range(from + 1..=to).count() } else { 0 };
        u32::try_from(count).expect("places have 32 bits")
    }

    fn buyer(&self, number: u32) -> BuyerId {
        self.buyers[number as usize - 1]
    }
}

/// What events do to a line.
impl Line {
    pub(crate) fn join(&mut self, buyer: BuyerId) {
        self.buyers.push(buyer);
        let (number, buyers) = (self.joined(), &self.buyers);
        let number_of = self.number_of.get_or_insert_default();
        number_of.insert(hash_of(buyer), number, |number| hash_of(buyers[*number as usize - 1]));
        if self.draw == DrawView::Open {
            self.entries.add(self.secrets.leaf(number, buyer));
        }
    }

    pub(crate) fn close(&mut self, closed: Closed) {
        self.draw = DrawView::Closed(closed);
        if let Some((beacon, round)) = self.terms.beacon.zip(closed.round) {
            // A beacon that begins in a hundred years is none.
            let latest = closed.at.plus(BEACON_AFTER_MS + u64::from(beacon.period_s) * 1000);
            self.patience = beacon.due_at(round).min(latest).plus(BEACON_PATIENCE_MS);
        }
    }

    pub(crate) fn place_by_draw(&mut self, spoken: Option<Spoken>) {
        let closed = self.draw.closed().expect("only closed entries are drawn");
        let beacon = spoken.map(|spoken| draw::randomness(&spoken.signature));
        let secret = self.secrets.secret();
        let seed = draw::seed(&secret, &closed.root, beacon.as_ref());
        self.order = Some(Permutation::new(&seed, closed.entries));
        self.draw = DrawView::Drawn { closed, spoken, secret, seed };
    }

    /// Whose grace begins now has it until `at` and the grace. `reached`: what those have met who are reached by it.
    pub(crate) fn move_to(&mut self, at: UnixMs, to: Borders, reached: Reached) {
        if to.reached > self.borders.reached {
            self.reaches.push((to.reached, reached));
            let newly = self.borders.reached + 1..=to.reached;
            self.in_grace += to.reached - self.borders.reached;
            self.uncalled.extend(newly);
            self.graces.push_back((to.reached, UnixMs(at.0.saturating_add(self.terms.grace_ms))));
        }
        if to.away_to > self.borders.away_to {
            self.in_grace -= self.uncalled_in(self.borders.away_to, to.away_to);
            while self.graces.front().is_some_and(|(place, _)| *place <= to.away_to) {
                self.graces.pop_front();
            }
        }
        self.borders = to;
    }

    pub(crate) fn open_turn(&mut self, at: UnixMs, place: u32) {
        assert!(self.uncalled.remove(&place), "only who was reached and not called yet is called");
        if place > self.borders.away_to {
            self.in_grace -= 1;
        }
        self.present.remove(&place);
        let until = UnixMs(at.0.saturating_add(self.terms.turn_ms));
        self.turns.insert(place, until);
        self.expiring.push_back((place, until));
    }

    /// The turn is over, or an order has used it.
    pub(crate) fn end_turn(&mut self, place: u32) {
        self.turns.remove(&place).expect("only an open turn ends");
    }

    /// It ended without an order.
    pub(crate) fn let_go(&mut self, place: u32, how: TurnEnd) {
        self.end_turn(place);
        self.let_go.insert(place, how);
    }

    /// The clock was wrong by so much: what is to come moves with it.
    pub(crate) fn shift(&mut self, by_ms: i64) {
        let graces = self.graces.iter_mut().chain(&mut self.expiring).map(|(_, until)| until);
        self.kept_until = self.kept_until.shifted(by_ms);
        self.patience = self.patience.shifted(by_ms);
        for time in graces.chain(self.turns.values_mut()).chain(self.present.values_mut()) {
            *time = time.shifted(by_ms);
        }
        self.paused_at = self.paused_at.map(|paused_at| paused_at.shifted(by_ms));
    }

    pub(crate) fn pause(&mut self, at: UnixMs) {
        self.paused_at = Some(at);
    }

    /// Turns and graces get back the time of the pause.
    pub(crate) fn resume(&mut self, at: UnixMs) {
        let paused_at = self.paused_at.take().unwrap_or(at);
        self.shift(at.0.saturating_sub(paused_at.0).cast_signed());
    }
}

/// Whether events may come to a line as it is: what a ledger is judged by.
impl Line {
    pub(crate) fn judge_join(&self, buyer: BuyerId) -> Result<(), Refusal> {
        assert!(self.number_of(buyer).is_none(), "a second join is answered as the first");
        if self.joined() >= crate::limits::LINE_PLACES_MAX { Err(Refusal::LineFull) } else { Ok(()) }
    }

    /// Who joined until now takes part, and whoever checks it comes to the same root.
    pub(crate) fn check_close(&self, closed: Closed, starts_at: UnixMs) -> Result<(), &'static str> {
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
        let over =
            self.graces.iter().take_while(|(_, until)| *until <= at).last().map_or(0, |(place, _)| *place);
        if to.away_to > from.away_to.max(over) {
            return Err("a grace was over before its time");
        }
        let gone = self.uncalled_in(from.away_to, to.away_to);
        let kept_for = u64::from(self.in_grace - gone) + u64::from(to.sure_to - from.reached);
        if kept_for * u64::from(self.terms.units) > available {
            return Err("a line promised more units than there are");
        }
        Ok(())
    }

    /// Of somebody in grace the unit was kept; of somebody away it must be one that nobody was promised.
    pub(crate) fn check_open(&self, turn: Turn, available: u64) -> Result<(), &'static str> {
        let place = turn.place;
        if !self.uncalled.contains(&place) {
            return Err("somebody was called who was not reached, or was called before");
        }
        if self.turn_at(place) != Some(turn) {
            return Err("somebody was called in another's place");
        }
        let kept = if place > self.borders.away_to { u64::from(self.terms.units) } else { 0 };
        let needed = self.promised() - kept + u64::from(self.terms.units);
        if needed > available {
            Err("somebody was called for a unit that another was promised")
        } else {
            Ok(())
        }
    }

    pub(crate) fn check_end(&self, at: UnixMs, place: u32, how: TurnEnd) -> Result<(), &'static str> {
        let until = *self.turns.get(&place).ok_or("no turn of this place is open")?;
        if how == TurnEnd::Expired && until > at { Err("a turn expired before its time") } else { Ok(()) }
    }

    /// Every invariant that a line has by itself.
    pub(crate) fn check(&self) -> Result<(), String> {
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
