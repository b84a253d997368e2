//! What is asked of the history, and what it answers: points, each of the same length.

use serde::Serialize;
use serde_json::Value;

use super::{Incident, RefusedAt, signed};

/// Bound of an answer, whatever is asked for: some 600 KB.
pub const POINTS_MAX: u64 = 4_000;
const STOCK: [&str; 4] = ["available", "turns", "held", "sold"];

/// As [`STOCK`] names them.
pub(super) type StockValues = [i64; STOCK.len()];

/// From a time on, and before another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HistoryQuery {
    pub(super) from_ms: i64,
    pub(super) to_ms: i64,
    pub(super) points: i64,
    /// A sale and a product of it, whose stock is asked for, and why orders of it were refused.
    pub(super) item: Option<(i64, i64)>,
}

impl HistoryQuery {
    /// At most so many points, and never more than [`POINTS_MAX`].
    pub fn new((from_ms, to_ms): (u64, u64), points: u64, item: Option<(u64, u64)>) -> HistoryQuery {
        HistoryQuery {
            from_ms: signed(from_ms),
            to_ms: signed(to_ms),
            points: signed(points.clamp(1, POINTS_MAX)),
            item: item.map(|(sale, product)| (signed(sale), signed(product))),
        }
    }

    /// How long each point is, as many rows of this length.
    pub(super) fn step_ms(&self, row_ms: i64) -> i64 {
        let ceiling = |number: i64, divisor: i64| (number / divisor) + i64::from(number % divisor > 0);
        let rows = ceiling(self.to_ms.saturating_sub(self.from_ms), row_ms);
        row_ms.saturating_mul(ceiling(rows, self.points).max(1))
    }
}

/// A table. A time of which nothing is known has no row.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Points {
    pub(super) step_ms: i64,
    pub(super) columns: Vec<String>,
    pub(super) rows: Vec<Vec<Value>>,
    /// The newest that were in the time, by time.
    incidents: Vec<Incident>,
    /// `None`: no item was asked for.
    refused: Option<RefusedSteps>,
}

/// Orders of an item that were refused, by reason; a time without has no row.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
struct RefusedSteps {
    step_ms: i64,
    rows: Vec<RefusedAt>,
}

impl Points {
    pub(super) fn new(step_ms: i64, named: Vec<&'static str>, rows: Vec<Vec<Value>>) -> Points {
        let columns = ["at_ms"].into_iter().chain(named).map(str::to_owned).collect();
        Points { step_ms, columns, rows, incidents: Vec::new(), refused: None }
    }

    pub(super) fn add_later(&mut self, later: Points) {
        let last = self.rows.last().map(|row| row[0].as_i64());
        self.rows.extend(later.rows.into_iter().filter(|row| last.is_none_or(|last| row[0].as_i64() > last)));
    }

    pub(super) fn add_incidents(&mut self, incidents: Vec<Incident>) {
        self.incidents = incidents;
    }

    pub(super) fn add_refused(&mut self, (step_ms, rows): (i64, Vec<RefusedAt>)) {
        self.refused = Some(RefusedSteps { step_ms, rows });
    }

    /// Adds to each row what was left at its end, of the changes by time; before the first of them it is not known.
    pub(super) fn add_stock(&mut self, changes: &[(i64, StockValues)]) {
        self.columns.extend(STOCK.map(str::to_owned));
        let (mut changes, mut left) = (changes.iter().peekable(), [const { Value::Null }; STOCK.len()]);
        for row in &mut self.rows {
            let end_ms = row[0].as_i64().unwrap_or(0).saturating_add(self.step_ms);
            while let Some((_, units)) = changes.next_if(|(at_ms, _)| *at_ms < end_ms) {
                left = units.map(Value::from);
            }
            row.extend(left.clone());
        }
    }

    pub fn to_json(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("all of it is plain")
    }
}
