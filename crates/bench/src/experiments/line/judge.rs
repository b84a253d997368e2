//! The judge of a night: whether everything that anybody was answered came true, by the ledger's own entries.
//!
//! Pure. Times of different processes are compared with a margin, always in favour of the server; entries are not.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::people::{Board, Zone};
use super::story::{Borders, Entry, Event};

/// Presence counts so long.
const PRESENT_MS: u64 = 15_000;
/// Between the server's clock and that of the pages.
const MARGIN_MS: u64 = 250;
/// Of many broken promises so many are named.
const NAMED_MAX: usize = 5;

/// A zone that a page has shown to whoever waits in a place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Reading {
    pub(super) place: u32,
    pub(super) zone: Zone,
    /// Of the board.
    pub(super) version: u64,
}

/// Presence that was answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Shown {
    pub(super) sent_ms: u64,
    pub(super) answered_ms: u64,
}

/// All that the pages were answered, and what they did.
#[derive(Debug, Default)]
pub(super) struct Answers {
    pub(super) readings: Vec<Reading>,
    /// By version.
    pub(super) boards: BTreeMap<u64, Board>,
    /// By place, in the order of time.
    pub(super) presence: HashMap<u32, Vec<Shown>>,
    /// Boards of one version that were not the same.
    pub(super) contradictions: u64,
    /// When a page first knew that it was called.
    pub(super) known: Vec<(u32, u64)>,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Sold {
    pub(super) units: u64,
    pub(super) grace_ms: u64,
}

/// What was found. All but the counts of what happened must be nothing.
#[derive(Debug, Default)]
pub(super) struct Judged {
    /// "You will get one", and no turn came though they were there.
    pub(super) sure_broken: u64,
    /// "Nothing is left", and a turn came, though no unit was put on sale.
    pub(super) nothing_broken: u64,
    /// A board that is not what the ledger was at its version.
    pub(super) boards_wrong: u64,
    pub(super) turns_without_unit: u64,
    pub(super) orders_without_turn: u64,
    pub(super) overtaken: u64,
    /// The first ones, in words.
    pub(super) named: Vec<String>,
    pub(super) called: u64,
    pub(super) orders: u64,
    pub(super) free: u64,
    pub(super) held: u64,
    pub(super) sold: u64,
    /// From being called to the page knowing it.
    pub(super) known_after_ms: Vec<u64>,
}

impl Answers {
    pub(super) fn read(&mut self, board: Board) {
        let numbers = |of: &Board| (of.served, of.sure_to, of.free, of.turns, of.held, of.sold);
        let first = self.boards.entry(board.version).or_insert(board);
        self.contradictions += u64::from(numbers(first) != numbers(&board));
    }
}

impl Judged {
    pub(super) fn promises_broken(&self) -> u64 {
        self.sure_broken + self.nothing_broken + self.boards_wrong
    }

    pub(super) fn all_broken(&self) -> u64 {
        self.promises_broken() + self.turns_without_unit + self.orders_without_turn + self.overtaken
    }

    fn name(&mut self, what: impl FnOnce() -> String) {
        if self.named.len() < NAMED_MAX {
            self.named.push(what());
        }
    }
}

/// The line and its item after an entry.
#[derive(Debug, Default)]
struct State {
    total: u64,
    held: u64,
    sold: u64,
    borders: Borders,
    /// Reached, and not called yet.
    uncalled: BTreeSet<u32>,
    turns: BTreeSet<u32>,
    reached_ms: HashMap<u32, u64>,
    /// Entry and time.
    called: HashMap<u32, (u64, u64)>,
    /// Entries by which units were put on sale.
    restocked: Vec<u64>,
}

impl State {
    /// Units that are neither ordered nor set aside; `None`: there are more of those than units.
    fn free(&self) -> Option<u64> {
        self.total.checked_sub(self.held + self.sold + self.turns.len() as u64)
    }

    /// Units that are kept for those who were not called yet.
    fn kept(&self) -> u64 {
        let in_grace = self.uncalled.range(self.borders.away_to + 1..).count() as u64;
        in_grace + u64::from(self.borders.sure_to.saturating_sub(self.borders.reached))
    }

    fn is(&self, board: &Board) -> bool {
        let Borders { reached, sure_to, .. } = self.borders;
        (reached, sure_to) == (board.served, board.sure_to)
            && self.free() == Some(board.free)
            && (self.turns.len() as u64, self.held, self.sold) == (board.turns, board.held, board.sold)
    }
}

/// `place_of`: where a buyer stands.
pub(super) fn judge(
    entries: &[Entry],
    answers: &Answers,
    sold: Sold,
    place_of: impl Fn(u64) -> Option<u32>,
) -> Judged {
    let mut judged = Judged::default();
    let mut state = State { total: sold.units, ..State::default() };
    let mut boards = answers.boards.iter().peekable();
    let compare = |state: &State, judged: &mut Judged, version: u64, board: &Board| {
        if !state.is(board) {
            judged.boards_wrong += 1;
            judged.name(|| format!("the board of entry {version} is not the ledger: {board:?}"));
        }
    };
    for entry in entries {
        while let Some((version, board)) = boards.next_if(|(version, _)| **version < entry.seq) {
            compare(&state, &mut judged, *version, board);
        }
        step(&mut state, &mut judged, entry, answers, &place_of);
        if state.free().is_none_or(|free| free < state.kept()) {
            judged.turns_without_unit += 1;
            judged.name(|| {
                format!("after entry {} a unit is set aside or promised that there is not", entry.seq)
            });
        }
    }
    boards.for_each(|(version, board)| compare(&state, &mut judged, *version, board));
    judged.boards_wrong += answers.contradictions;
    (judged.called, judged.free) = (state.called.len() as u64, state.free().unwrap_or(0));
    (judged.held, judged.sold) = (state.held, state.sold);
    judge_zones(&state, &mut judged, answers, sold);
    for (place, known_ms) in &answers.known {
        match state.called.get(place) {
            Some((_, called_ms)) => judged.known_after_ms.push(known_ms.saturating_sub(*called_ms)),
            None => {
                judged.boards_wrong += 1;
                judged.name(|| format!("place {place} was answered that it is called, and is not"));
            }
        }
    }
    judged
}

fn step(
    state: &mut State,
    judged: &mut Judged,
    entry: &Entry,
    answers: &Answers,
    place_of: &impl Fn(u64) -> Option<u32>,
) {
    match entry.event {
        Event::Moved(to) => {
            if to.sure_to > state.borders.sure_to {
                // Whoever was away and is there again comes before those behind.
                overtaken(state, judged, entry, 1..=state.borders.away_to, answers);
            }
            for place in state.borders.reached + 1..=to.reached {
                state.uncalled.insert(place);
                state.reached_ms.insert(place, entry.at_ms);
            }
            state.borders = to;
        }
        Event::Opened(place) => {
            let from = if place > state.borders.away_to { state.borders.away_to + 1 } else { 1 };
            overtaken(state, judged, entry, from..=place - 1, answers);
            if !state.uncalled.remove(&place) {
                judged.overtaken += 1;
                judged.name(|| {
                    format!("place {place} was called by entry {}, not reached or called before", entry.seq)
                });
            }
            state.turns.insert(place);
            state.called.insert(place, (entry.seq, entry.at_ms));
        }
        Event::Ended(place) => {
            state.turns.remove(&place);
        }
        Event::Ordered(buyer) => {
            if !place_of(buyer).is_some_and(|place| state.turns.remove(&place)) {
                judged.orders_without_turn += 1;
                judged.name(|| format!("the order of entry {}, of buyer {buyer}, had no turn", entry.seq));
            }
            state.held += 1;
            judged.orders += 1;
        }
        Event::Paid => (state.held, state.sold) = (state.held - 1, state.sold + 1),
        Event::Lapsed => state.held -= 1,
        Event::PaidLate => state.sold += 1,
        Event::Adjusted(units) => {
            state.total = state.total.saturating_add_signed(units);
            if units > 0 {
                state.restocked.push(entry.seq);
            }
        }
    }
}

/// Counts an entry that passes over somebody in these places who was there for certain.
fn overtaken(
    state: &State,
    judged: &mut Judged,
    entry: &Entry,
    places: std::ops::RangeInclusive<u32>,
    answers: &Answers,
) {
    if places.is_empty() {
        return;
    }
    let passed =
        state.uncalled.range(places).find(|place| was_there(answers, **place, entry.at_ms, entry.at_ms));
    if let Some(place) = passed {
        judged.overtaken += 1;
        judged.name(|| format!("entry {} passes over place {place}, which was there", entry.seq));
    }
}

/// Whether presence counted for certain at some time between two.
fn was_there(answers: &Answers, place: u32, from_ms: u64, to_ms: u64) -> bool {
    let shown = answers.presence.get(&place).map_or(&[][..], Vec::as_slice);
    let before = shown.partition_point(|shown| shown.answered_ms + MARGIN_MS <= to_ms);
    let last = before.checked_sub(1).map(|last| shown[last]);
    last.is_some_and(|last| last.sent_ms + PRESENT_MS >= from_ms + MARGIN_MS)
}

fn judge_zones(state: &State, judged: &mut Judged, answers: &Answers, sold: Sold) {
    let mut broken = BTreeSet::new();
    for Reading { place, zone, version } in &answers.readings {
        let called = state.called.get(place);
        match zone {
            Zone::Sure if called.is_none() && !broken.contains(place) => {
                // Who is sure is reached in the end, and has the grace to be there.
                let kept = state.reached_ms.get(place).is_some_and(|reached_ms| {
                    !was_there(answers, *place, *reached_ms, reached_ms + sold.grace_ms)
                });
                if !kept {
                    broken.insert(*place);
                    judged.sure_broken += 1;
                    judged.name(|| {
                        format!("place {place} was sure by entry {version}, was there, and got no turn")
                    });
                }
            }
            Zone::Nothing => {
                let later = called.filter(|(called, _)| called > version);
                let restocked =
                    |called: u64| state.restocked.iter().any(|seq| (*version..called).contains(seq));
                if let Some((called, _)) = later.filter(|(called, _)| !restocked(*called)) {
                    judged.nothing_broken += 1;
                    judged.name(|| {
                        format!("place {place} was shown by entry {version} that nothing is left, and called by {called}")
                    });
                }
            }
            Zone::Sure | Zone::May | Zone::Closed => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::people::Phase;
    use super::*;

    const SOLD: Sold = Sold { units: 2, grace_ms: 3_000 };

    /// One for each number from 1, at 1,000 ms each.
    fn entries(events: &[Event]) -> Vec<Entry> {
        (1..).zip(events).map(|(seq, event)| Entry { seq, at_ms: seq * 1_000, event: *event }).collect()
    }

    fn moved(away_to: u32, reached: u32, sure_to: u32) -> Event {
        Event::Moved(Borders { away_to, reached, sure_to })
    }

    fn reading(place: u32, zone: Zone, version: u64) -> Reading {
        Reading { place, zone, version }
    }

    /// Buyers have the number of their place.
    fn verdict(events: &[Event], answers: &Answers) -> Judged {
        judge(&entries(events), answers, SOLD, |buyer| u32::try_from(buyer).ok())
    }

    fn there(places: &[(u32, u64)]) -> HashMap<u32, Vec<Shown>> {
        let shown = |at_ms: u64| vec![Shown { sent_ms: at_ms, answered_ms: at_ms }];
        places.iter().map(|(place, at_ms)| (*place, shown(*at_ms))).collect()
    }

    /// Both units are asked for by the two who were called.
    fn board(version: u64, turns: u64, held: u64) -> Board {
        let (served, sure_to, free, sold) = (2, 2, 0, 0);
        Board {
            state: Phase::Live,
            served,
            sure_to,
            free,
            turns,
            held,
            sold,
            version,
            now_ms: version * 1_000,
        }
    }

    /// Two units: the first two are called, one pays, one's order lapses, the third is called and pays.
    fn night() -> Vec<Event> {
        vec![
            moved(0, 2, 2),
            Event::Opened(1),
            Event::Opened(2),
            Event::Ordered(1),
            Event::Ordered(2),
            Event::Paid,
            Event::Lapsed,
            moved(0, 3, 3),
            Event::Opened(3),
            Event::Ordered(3),
            Event::Paid,
        ]
    }

    #[test]
    fn a_night_that_kept_its_promises_is_clean() {
        let board = board(5, 0, 2);
        let sold_out = Board { served: 3, sure_to: 3, held: 0, sold: 2, version: 11, ..board };
        let answers = Answers {
            readings: vec![
                reading(1, Zone::Sure, 1),
                reading(3, Zone::May, 5),
                reading(3, Zone::Sure, 8),
                reading(4, Zone::May, 8),
                reading(4, Zone::Nothing, 11),
            ],
            boards: [(5, board), (11, sold_out)].into(),
            presence: there(&[(1, 100), (2, 100), (3, 7_000)]),
            known: vec![(3, 9_400)],
            contradictions: 0,
        };
        let judged = verdict(&night(), &answers);
        assert_eq!((judged.all_broken(), judged.called, judged.sold), (0, 3, 2), "{judged:?}");
        assert_eq!(judged.known_after_ms, [400]);
    }

    #[test]
    fn a_planted_wrong_promise_is_found() {
        let events = [moved(0, 1, 2), Event::Opened(1), moved(0, 2, 2), moved(2, 2, 2)];
        let answers = |present: &[(u32, u64)]| Answers {
            readings: vec![reading(2, Zone::Sure, 1), reading(2, Zone::Sure, 2)],
            presence: there(present),
            ..Answers::default()
        };
        // Reached at 3 s, the grace ends at 6 s.
        for (present, broken) in [
            (&[][..], 0),
            (&[(2, 2_000)], 1),
            (&[(2, 4_000)], 1),
            // Too late, or too long before.
            (&[(2, 5_900)], 0),
        ] {
            let judged = verdict(&events, &answers(present));
            assert_eq!(judged.sure_broken, broken, "{present:?}: {judged:?}");
        }
        // Never reached at all.
        assert_eq!(verdict(&events[..2], &answers(&[])).sure_broken, 1);
    }

    #[test]
    fn nothing_left_is_a_promise_and_a_restock_breaks_none() {
        let answers = Answers { readings: vec![reading(3, Zone::Nothing, 7)], ..Answers::default() };
        let judged = verdict(&night(), &answers);
        assert_eq!(judged.nothing_broken, 1, "{judged:?}");
        // After it was called it says nothing of that.
        let after = Answers { readings: vec![reading(3, Zone::Nothing, 9)], ..Answers::default() };
        assert_eq!(verdict(&night(), &after).all_broken(), 0);
        for (units, broken) in [(1, 0), (-1, 1)] {
            let mut restocked = night();
            restocked[6] = Event::Paid;
            restocked.insert(7, Event::Adjusted(units));
            let judged = verdict(&restocked, &answers);
            assert_eq!(judged.nothing_broken, broken, "{units}: {judged:?}");
        }
    }

    #[test]
    fn a_board_that_is_not_the_ledger_is_found() {
        let board = board(4, 1, 1);
        let wrong = |board: Board| {
            verdict(&night(), &Answers { boards: [(4, board)].into(), ..Answers::default() }).boards_wrong
        };
        assert_eq!(wrong(board), 0);
        for other in [
            Board { sure_to: 3, ..board },
            Board { served: 1, ..board },
            Board { free: 1, ..board },
            Board { turns: 2, ..board },
            Board { held: 0, ..board },
            Board { sold: 1, ..board },
        ] {
            assert_eq!(wrong(other), 1, "{other:?}");
        }
        let mut answers = Answers::default();
        answers.read(board);
        answers.read(Board { now_ms: 4_400, ..board });
        assert_eq!(verdict(&night(), &answers).boards_wrong, 0);
        answers.read(Board { free: 1, ..board });
        assert_eq!(verdict(&night(), &answers).boards_wrong, 1);
        let answers = Answers { known: vec![(9, 1)], ..Answers::default() };
        assert_eq!(verdict(&night(), &answers).boards_wrong, 1);
    }

    #[test]
    fn who_was_there_is_not_passed_over() {
        let events = [moved(0, 2, 2), Event::Opened(2)];
        for (present, overtaken) in [(&[][..], 0), (&[(1, 1_000)], 1), (&[(1, 1_900)], 0)] {
            let answers = Answers { presence: there(present), ..Answers::default() };
            assert_eq!(verdict(&events, &answers).overtaken, overtaken, "{present:?}");
        }
        // Whoever is away has the right to what nobody was promised, before those behind become sure.
        let away = [moved(0, 1, 1), moved(1, 1, 1), moved(1, 2, 2), Event::Opened(2)];
        let answers = Answers { presence: there(&[(1, 2_000)]), ..Answers::default() };
        assert_eq!(verdict(&away, &answers).overtaken, 1);
        assert_eq!(verdict(&[moved(0, 1, 1), Event::Opened(1), Event::Opened(1)], &answers).overtaken, 1);
    }

    #[test]
    fn no_unit_is_set_aside_twice_and_no_order_has_no_turn() {
        let events = [moved(0, 3, 3)];
        assert_eq!(verdict(&events, &Answers::default()).turns_without_unit, 1);
        let events = [moved(0, 2, 2), Event::Opened(1), Event::Ordered(2)];
        assert_eq!(verdict(&events, &Answers::default()).orders_without_turn, 1);
        let unknown = judge(&entries(&[Event::Ordered(1)]), &Answers::default(), SOLD, |_| None);
        assert_eq!((unknown.orders_without_turn, unknown.all_broken()), (1, 1));
    }
}
