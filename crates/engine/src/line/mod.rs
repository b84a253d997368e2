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
//! Units are kept for everybody in grace and everybody who is sure: those of a full turn for each, but for the last of them,
//! for whom there may be fewer. A *turn* is units set aside for one who was called. Who was not called in the grace stands by,
//! and is called before those behind, as long as there are units that nobody was promised. Presence is the one thing here that no ledger has: it is proven again after a restart.
//!
//! Must not: move units. [`call`] decides, events move.

mod access;
mod call;
pub mod draw;
mod judge;
mod turn;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::sharded::{Sharded, hash_of};
use crate::{BuyerId, Phase, Seq, UnixMs};

pub use access::{GroupName, LineAccess, Opening};
pub(crate) use call::{LineStep, Moment};
use draw::{Entries, Hash, LineSecrets, Permutation, Proof};
use turn::OpenTurn;
pub use turn::{Turn, TurnEnd};

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
    /// Who may join; `None`: everybody, always.
    pub access: Option<LineAccess>,
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
    Closed(ClosedLine),
    /// `secret`: what was committed to, for everybody to see from now on.
    Drawn { closed: ClosedLine, spoken: Option<Spoken>, secret: Hash, seed: Hash },
}

impl DrawView {
    /// `is_over`: the sale is, so what is open is never closed.
    pub fn as_str(&self, is_over: bool) -> &'static str {
        match self {
            DrawView::Open if is_over => "abandoned",
            DrawView::Open => "open",
            DrawView::Closed(_) => "closed",
            DrawView::Drawn { .. } => "drawn",
        }
    }

    pub fn closed(&self) -> Option<ClosedLine> {
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
pub struct ClosedLine {
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

/// What becomes of a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// Not reached yet.
    Waiting,
    /// Reached, and not seen yet.
    Grace,
    /// Was not there in the grace, and is called if units are left.
    Away,
    /// Called, for so many units; the turn is over at this time.
    Called { units: u32, until: UnixMs },
    /// Called, and has ordered.
    Ordered,
    /// Called, and the turn ended without an order.
    LetGo(TurnEnd),
}

/// How many of those who were reached stand where: see [`Standing`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Standings {
    pub in_grace: u32,
    pub away: u32,
    pub called: u32,
    pub ordered: u32,
    pub expired: u32,
    pub given_back: u32,
    /// How many were ever away, or let their turn go; whoever was away and has ordered since among them, so that it never falls.
    pub gave_up: u32,
}

impl Standings {
    /// How many were ever called.
    pub fn all_called(&self) -> u32 {
        self.called + self.ordered + self.expired + self.given_back
    }
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
    /// Reached, and not called only because the buyer has as many unpaid orders and open turns in the sale as one may have.
    pub has_too_many_holds: bool,
}

/// Somebody's entry in the tree of a draw.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EntryView {
    pub leaf: Hash,
    /// See [`draw::climb`].
    pub path: Vec<Hash>,
}

/// See above. Per person who joined: 16 bytes, a hash table's entry of 4, and 4 in the tree; while not called 4 more, and 8 for a turn that was let go.
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
    /// By place.
    turns: BTreeMap<u32, OpenTurn>,
    /// The same in the order of their ends, and those that ended before.
    expiring: VecDeque<(u32, UnixMs)>,
    /// When they were last seen. Of those that can be called soon, and were not.
    present: BTreeMap<u32, UnixMs>,
    /// The places whose turns ended without an order.
    let_go: BTreeMap<u32, TurnEnd>,
    /// Of `let_go`.
    given_back: u32,
    gave_up: u32,
    /// Since when its time stands: the sale is paused, or has not begun any more.
    paused_at: Option<UnixMs>,
    /// How long the last pause was that ended by itself or with the sale: older releases gave that time to nobody.
    forgiven_ms: u64,
    /// No turn and no grace is over before. No ledger has it.
    kept_until: UnixMs,
    /// Places that may be reached per second.
    pace_max: Option<u32>,
    /// What was reached is as much as may be until then.
    paced_until: UnixMs,
    /// What everybody is to read, and how often that was changed.
    message: Box<str>,
    message_changes: u32,
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
            given_back: 0,
            gave_up: 0,
            paused_at: None,
            forgiven_ms: 0,
            kept_until: UnixMs(0),
            pace_max: None,
            paced_until: UnixMs(0),
            message: Box::default(),
            message_changes: 0,
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

    pub(crate) fn pace_max(&self) -> Option<u32> {
        self.pace_max
    }

    /// How often it was changed, and what it is.
    pub(crate) fn message(&self) -> (u32, &str) {
        (self.message_changes, &self.message)
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
        let proof = self.secrets.proof(number, buyer);
        Some(PlaceView { number, proof, place, standing, has_too_many_holds: false })
    }

    /// Whether its time stands.
    pub(crate) fn is_paused(&self) -> bool {
        self.paused_at.is_some()
    }

    /// How long its time has stood.
    fn paused_ms(&self, now: UnixMs) -> u64 {
        self.paused_at.map_or(0, |paused_at| now.0.saturating_sub(paused_at.0))
    }

    /// Until when turns and graces last at least, if a pause ended at this time.
    fn kept_if_resumed(&self, at: UnixMs) -> UnixMs {
        let kept_until = self.kept_until.plus(self.paused_ms(at));
        kept_until.min(at.plus(AFTER_START_MS)).max(self.kept_until)
    }

    /// How somebody stands at a moment: in a pause a turn lasts as long as it would if that ended now.
    pub(crate) fn view_at(&self, now: UnixMs, buyer: BuyerId) -> Option<PlaceView> {
        let mut view = self.view(buyer)?;
        if let (Standing::Called { until, .. }, Some(turn)) =
            (&mut view.standing, view.place.and_then(|place| self.turns.get(&place)))
        {
            *until = turn.until.plus(self.paused_ms(now)).max(self.kept_if_resumed(now));
        }
        Some(view)
    }

    pub(crate) fn standing(&self, place: u32) -> Standing {
        if let Some(OpenTurn { units, until, .. }) = self.turns.get(&place) {
            Standing::Called { units: *units, until: (*until).max(self.kept_until) }
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

    /// Of a number; `None`: the entries are not closed, or it came after that.
    pub(crate) fn entry(&self, number: u32) -> Option<EntryView> {
        self.draw.closed().filter(|closed| number <= closed.entries)?;
        let leaf = |number| self.secrets.leaf(number, self.buyer(number));
        Some(EntryView { leaf: leaf(number), path: self.entries.path(number, leaf) })
    }

    /// `None`: not yet.
    pub(crate) fn reached(&self, place: u32) -> Option<Reached> {
        let after = self.reaches.partition_point(|(to, _)| *to < place);
        self.reaches.get(after).map(|(_, reached)| *reached)
    }

    pub(crate) fn standings(&self) -> Standings {
        let count = |len: usize| u32::try_from(len).expect("places have 32 bits");
        let (uncalled, called, let_go) =
            (count(self.uncalled.len()), count(self.turns.len()), count(self.let_go.len()));
        Standings {
            in_grace: self.in_grace,
            away: uncalled - self.in_grace,
            called,
            ordered: self.borders.reached - uncalled - called - let_go,
            expired: let_go - self.given_back,
            given_back: self.given_back,
            gave_up: self.gave_up,
        }
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
        self.present.get(&place).is_some_and(|seen| is_fresh(*seen, now))
    }

    /// How many are there who can be called soon. Forgets nobody: after a pause whoever was there at its beginning is again.
    pub(crate) fn count_present(&self, now: UnixMs) -> u32 {
        let present = self.present.values().filter(|seen| is_fresh(**seen, now));
        u32::try_from(present.count()).expect("places have 32 bits")
    }

    /// How many behind one place, up to another, were reached and not called yet.
    fn uncalled_in(&self, from: u32, to: u32) -> u32 {
        let count = if from < to { self.uncalled.range(from + 1..=to).count() } else { 0 };
        u32::try_from(count).expect("places have 32 bits")
    }

    /// Whoever has a place that was drawn.
    pub(crate) fn buyer_at(&self, place: u32) -> BuyerId {
        self.buyer(self.order.as_ref().expect("places are drawn").number_at(place))
    }

    fn buyer(&self, number: u32) -> BuyerId {
        self.buyers[number as usize - 1]
    }
}

fn is_fresh(seen: UnixMs, now: UnixMs) -> bool {
    now.0 <= seen.0.saturating_add(PRESENT_MS)
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

    pub(crate) fn close(&mut self, closed: ClosedLine) {
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
            self.pay_for(at, to.reached - self.borders.reached);
        }
        if to.away_to > self.borders.away_to {
            let away = self.uncalled_in(self.borders.away_to, to.away_to);
            self.in_grace -= away;
            self.gave_up += away;
            while self.graces.front().is_some_and(|(place, _)| *place <= to.away_to) {
                self.graces.pop_front();
            }
        }
        self.borders = to;
    }

    pub(crate) fn limit_pace(&mut self, per_s_max: Option<u32>) {
        self.pace_max = per_s_max;
        self.paced_until = UnixMs(0);
    }

    pub(crate) fn set_message(&mut self, message: Box<str>) {
        self.message = message;
        // Another number than the one before is all that it is for.
        self.message_changes = self.message_changes.wrapping_add(1);
    }

    /// The clock was wrong by so much: what is to come moves with it.
    pub(crate) fn shift(&mut self, by_ms: i64) {
        self.patience = self.patience.shifted(by_ms);
        self.paced_until = self.paced_until.shifted(by_ms);
        self.paused_at = self.paused_at.map(|paused_at| paused_at.shifted(by_ms));
        self.kept_until = self.kept_until.shifted(by_ms);
        self.shift_deadlines(by_ms);
        self.present.values_mut().for_each(|seen| *seen = seen.shifted(by_ms));
    }

    fn shift_deadlines(&mut self, by_ms: i64) {
        let graces = self.graces.iter_mut().chain(&mut self.expiring).map(|(_, until)| until);
        let turns = self.turns.values_mut().map(|turn| &mut turn.until);
        graces.chain(turns).for_each(|time| *time = time.shifted(by_ms));
    }

    /// The sale is in this phase from now on, maybe as before.
    pub(crate) fn follow(&mut self, at: UnixMs, phase: Phase) {
        match phase {
            // Nobody has a turn or a grace before the start, unless the clock was set back.
            Phase::NotStarted if self.turns.is_empty() && self.graces.is_empty() => self.resume(at),
            Phase::NotStarted | Phase::Paused => self.paused_at = self.paused_at.or(Some(at)),
            Phase::Ended => self.end_pause(at, at),
            Phase::Live => self.resume(at),
        }
    }

    /// A pause is over: turns and graces get its time back. A beacon was waited for in it, too.
    fn resume(&mut self, at: UnixMs) {
        let paused_ms = self.paused_ms(at);
        self.paused_at = None;
        self.kept_until = self.kept_if_resumed(at);
        self.shift_deadlines(paused_ms.cast_signed());
        for seen in self.present.values_mut() {
            // Whoever was there at its beginning is there again, and nobody for longer than if seen at its end.
            *seen = at.min(seen.plus(paused_ms)).max(*seen);
        }
    }

    /// A pause ends with its sale, also if that comes by itself, which no entry says.
    pub(crate) fn end_pause(&mut self, now: UnixMs, over_at: UnixMs) {
        if self.paused_at.is_some() && now >= over_at {
            self.forgiven_ms = self.paused_ms(over_at);
            self.resume(over_at);
        }
    }
}
