//! What people read of a night in which something does not hold: its faults, what is broken, and the lives of the orders that
//! this is about.
//!
//! The lives are what a second play of the same night notes.

use std::collections::BTreeSet;
use std::panic::catch_unwind;
use std::time::Duration;

use engine::OrderId;

use super::{Broken, Fault, Plan, Planted, Played, play};
use crate::record::{self, Note};

/// Of all of it.
const LINES_MAX: usize = 40;
const FAULTS_MAX: usize = 12;
const BROKEN_MAX: usize = 6;
const LINE_CHARS_MAX: usize = 300;
/// Of one life, with its heading.
const LIFE_LINES_MAX: usize = 18;
/// A life of fewer lines says nothing.
const LIFE_LINES_MIN: usize = 6;
/// Lines in a row about what came to nothing.
const IN_VAIN_MAX: usize = 2;

/// At most 40 lines.
///
/// # Panics
/// If the night is another one when it is played again.
pub fn report(seed: u64, plan: &Plan, planted: Planted, played: &Played) -> Vec<String> {
    let orders: BTreeSet<OrderId> = played.broken.iter().flat_map(|broken| broken.orders.clone()).collect();
    let (again, notes) = record::taken(orders, || catch_unwind(|| play(seed, plan, planted)));
    if let Ok(again) = again {
        assert_eq!(&again, played, "seed {seed} is another night when notes are taken");
    }
    let mut lines = vec![format!("seed {seed}, by the faults without which it does not fail:")];
    let line = |(at, fault): &(Duration, Fault)| format!("  {}  {fault}", ms(*at));
    lines.extend(first(FAULTS_MAX, plan.iter().map(line).collect()));
    // What lives are shown of comes first.
    let mut broken: Vec<_> = played.broken.iter().collect();
    broken.sort_by_key(|broken| broken.orders.is_empty());
    let what = |broken: &Broken| format!("  BROKEN: {}", cut(&broken.what));
    lines.extend(first(BROKEN_MAX, broken.into_iter().map(what).collect()));
    let mut left = LINES_MAX - lines.len();
    for life in lives(&played.broken, &notes) {
        if left < LIFE_LINES_MIN {
            break;
        }
        let life = life.lines(left.min(LIFE_LINES_MAX));
        left -= life.len();
        lines.extend(life);
    }
    lines
}

/// What happened to an order, or to what there is to sell.
struct Life<'a> {
    of: Option<OrderId>,
    notes: Vec<&'a Note>,
    /// It is looked at from its end.
    is_long: bool,
}

/// Of each order that something broken is about, once; then of what there is to sell, if something is about no order.
fn lives<'a>(broken: &[Broken], notes: &'a [Note]) -> Vec<Life<'a>> {
    let of = |order: Option<OrderId>, until: Duration| -> Vec<&'a Note> {
        notes.iter().filter(|note| note.order == order && note.at <= until).collect()
    };
    let mut seen = BTreeSet::new();
    let orders = broken.iter().flat_map(|broken| &broken.orders).filter(|order| seen.insert(**order));
    let mut lives: Vec<_> = orders
        .map(|order| Life { of: Some(*order), notes: of(Some(*order), Duration::MAX), is_long: false })
        .collect();
    if let Some(broken) = broken.iter().find(|broken| broken.orders.is_empty()) {
        let until = broken.at.unwrap_or(Duration::MAX);
        lives.push(Life { of: None, notes: of(None, until), is_long: true });
    }
    lives
}

impl Life<'_> {
    fn lines(&self, lines_max: usize) -> Vec<String> {
        let mut lines = vec![match self.of {
            Some(order) => format!("  order {:x}:", order.hash),
            None => "  what there is to sell:".to_owned(),
        }];
        let shown = self.without_what_came_to_nothing();
        let room = lines_max - 1;
        if shown.len() <= room {
            lines.extend(shown);
            return lines;
        }
        let first = if self.is_long { 0 } else { (room - 1) / 2 };
        let last = room - 1 - first;
        lines.extend_from_slice(&shown[..first]);
        lines.push(format!("       ... {} lines", shown.len() - first - last));
        lines.extend_from_slice(&shown[shown.len() - last..]);
        lines
    }

    /// Of what was tried in vain again and again, the first ones.
    fn without_what_came_to_nothing(&self) -> Vec<String> {
        let mut lines = Vec::new();
        for row in self.notes.chunk_by(|one, other| one.in_vain && other.in_vain) {
            let shown = if row.len() > IN_VAIN_MAX + 1 { IN_VAIN_MAX } else { row.len() };
            lines.extend(row[..shown].iter().map(|note| format!("  {}  {}", ms(note.at), cut(&note.what))));
            if let Some(last) = row[shown..].last() {
                lines.push(format!("  {}  the last of {} more in vain", ms(last.at), row.len() - shown));
            }
        }
        lines
    }
}

/// At most so many lines, the last of which says how many there are more.
fn first(max: usize, mut lines: Vec<String>) -> Vec<String> {
    if lines.len() > max {
        let more = lines.len() - (max - 1);
        lines.truncate(max - 1);
        lines.push(format!("  ... and {more} more"));
    }
    lines
}

fn cut(text: &str) -> String {
    match text.char_indices().nth(LINE_CHARS_MAX) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text.to_owned(),
    }
}

fn ms(at: Duration) -> String {
    format!("{:>6} ms", at.as_millis())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn note(at: u64, what: &str, in_vain: bool) -> Note {
        Note { at: Duration::from_millis(at), order: None, in_vain, what: what.to_owned() }
    }

    fn lines(notes: &[Note], lines_max: usize, is_long: bool) -> Vec<String> {
        let lines = Life { of: None, notes: notes.iter().collect(), is_long }.lines(lines_max);
        let short = |line: &String| line.split_whitespace().collect::<Vec<_>>().join(" ");
        lines[1..].iter().map(short).collect()
    }

    #[test]
    fn a_life_is_shown_within_its_lines() {
        let notes: Vec<_> = (1..=5).map(|at| note(at, "x", false)).collect();
        for (lines_max, is_long, expected) in [
            (6, false, &["1 ms x", "2 ms x", "3 ms x", "4 ms x", "5 ms x"][..]),
            (5, false, &["1 ms x", "... 2 lines", "4 ms x", "5 ms x"]),
            (4, false, &["1 ms x", "... 3 lines", "5 ms x"]),
            (4, true, &["... 3 lines", "4 ms x", "5 ms x"]),
        ] {
            assert_eq!(lines(&notes, lines_max, is_long), expected, "{lines_max}, {is_long}");
        }
    }

    #[test]
    fn of_what_was_tried_in_vain_the_first_ones_are_shown() {
        let tried = |often: u64| {
            let vain = (1..=often).map(|at| note(at, "no", true));
            vain.chain([note(9, "yes", false)]).collect::<Vec<_>>()
        };
        for (often, expected) in [
            (0, &["9 ms yes"][..]),
            (3, &["1 ms no", "2 ms no", "3 ms no", "9 ms yes"]),
            (4, &["1 ms no", "2 ms no", "4 ms the last of 2 more in vain", "9 ms yes"]),
        ] {
            assert_eq!(lines(&tried(often), LINES_MAX, false), expected, "{often} times");
        }
    }
}
