//! All that is kept of a time, as CSV, page by page: each row as it is on file, with what was refused and what was not well.
//!
//! Must not: hold more than a page in memory.

use rusqlite::{Connection, Result, params};
use serde_json::Value;

use super::ask::Points;
use super::{Incident, MINUTE_MS, RefusedAt, signed};
use crate::intake::REFUSALS;

/// Rows of a page, at most: some 700 KB. Of whole minutes, whatever the rows are.
pub(super) const PAGE_ROWS: i64 = 6_000;
/// As a server of another version may have noted it.
const OTHER: &str = "other";

/// What is left of an export.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Export {
    pub(super) from_ms: i64,
    pub(super) to_ms: i64,
    /// A sale and a product of it, whose stock and refusals are exported; `None`: refusals of all.
    pub(super) item: Option<(i64, i64)>,
    /// `None`: nothing was read yet.
    pub(super) table: Option<Table>,
}

/// Whose rows are exported, and how long each is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Table {
    pub(super) name: &'static str,
    pub(super) row_ms: i64,
}

pub(super) const SECONDS: Table = Table { name: "seconds", row_ms: 1_000 };
pub(super) const MINUTES: Table = Table { name: "minutes", row_ms: MINUTE_MS };

/// A page of the file, and what comes after it; `None`: that was all.
#[derive(Debug, PartialEq, Eq)]
pub struct ExportPage {
    pub csv: Vec<u8>,
    pub next: Option<Export>,
}

impl Export {
    /// Of a time: from one on, and before another.
    pub fn new((from_ms, to_ms): (u64, u64), item: Option<(u64, u64)>) -> Export {
        let item = item.map(|(sale, product)| (signed(sale), signed(product)));
        Export { from_ms: signed(from_ms), to_ms: signed(to_ms), item, table: None }
    }

    /// The time of the next row, if there is one.
    pub(super) fn first(&self, connection: &Connection, table: Table) -> Result<Option<i64>> {
        let first = format!("SELECT min(at_ms) FROM {} WHERE at_ms >= ?1 AND at_ms < ?2", table.name);
        connection.query_row(&first, params![self.from_ms, self.to_ms], |row| row.get(0))
    }

    /// When the page of that row begins, and ends: with a minute, so that no minute's refusals are in two.
    pub(super) fn span(&self, first: i64, table: Table) -> (i64, i64) {
        let page_ms = PAGE_ROWS * table.row_ms;
        let end_ms = (first - first.rem_euclid(page_ms)).saturating_add(page_ms);
        (first, end_ms.min(self.to_ms))
    }
}

impl Points {
    /// Adds the codes of the incidents that were in each row's time.
    pub(super) fn add_incident_codes(&mut self, incidents: &[Incident]) {
        self.columns.push("incidents".to_owned());
        let step_ms = self.step_ms;
        for row in &mut self.rows {
            let at_ms = row[0].as_i64().unwrap_or(0);
            let is_in = |incident: &&Incident| {
                incident.began_ms < at_ms + step_ms && incident.ended_ms.is_none_or(|ended| ended >= at_ms)
            };
            let codes: Vec<_> =
                incidents.iter().filter(is_in).map(|incident| incident.code.as_str()).collect();
            row.push(if codes.is_empty() { Value::Null } else { codes.join(" ").into() });
        }
    }

    /// Adds to the first row of each minute how many orders were refused in that minute, by reason.
    pub(super) fn add_refused_in_minute(&mut self, minutes: Vec<RefusedAt>) {
        let codes: Vec<_> = REFUSALS.iter().map(|refusal| refusal.code()).chain([OTHER]).collect();
        self.columns.extend(codes.iter().map(|code| format!("refused_in_minute_{code}")));
        let (step_ms, mut minutes) = (self.step_ms, minutes.into_iter().peekable());
        for row in &mut self.rows {
            let end_ms = row[0].as_i64().unwrap_or(0) + step_ms;
            let mut orders = vec![0; codes.len()];
            while let Some(minute) = minutes.next_if(|minute| minute.at_ms < end_ms) {
                for (code, count) in minute.orders {
                    let place = codes.iter().position(|known| *known == code).unwrap_or(codes.len() - 1);
                    orders[place] += count;
                }
            }
            row.extend(orders.into_iter().map(|count| if count == 0 { Value::Null } else { count.into() }));
        }
    }

    /// A line for each row, after one of names; what is not known is empty.
    pub(super) fn to_csv(&self, with_names: bool) -> Vec<u8> {
        let mut text = if with_names { self.columns.join(",") + "\n" } else { String::new() };
        for row in &self.rows {
            for (place, value) in row.iter().enumerate() {
                text += if place == 0 { "" } else { "," };
                match value {
                    Value::Null => {}
                    // A code, which has no comma.
                    Value::String(code) => text += code,
                    number => text += &number.to_string(),
                }
            }
            text.push('\n');
        }
        text.into_bytes()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::figures::history::tests::{BEGUN, bounded, judged, left, refused, taken};
    use crate::figures::history::{Bounds, History, HistoryQuery, IN_FILE, Taken};
    use crate::figures::verdict::Level;

    fn export(from_ms: i64, to_ms: i64, item: Option<(u64, u64)>) -> Export {
        Export::new((from_ms.unsigned_abs(), to_ms.unsigned_abs()), item)
    }

    /// The whole file, and of how many pages.
    fn read(history: &History, export: Export) -> (String, usize) {
        let (mut csv, mut pages, mut next) = (Vec::new(), 0, Some(export));
        while let Some(export) = next {
            let page = history.page(&export).unwrap();
            let rows = page.csv.iter().filter(|byte| **byte == b'\n').count();
            assert!(rows as u64 <= PAGE_ROWS.unsigned_abs() + 1, "{rows} rows are in memory");
            csv.extend_from_slice(&page.csv);
            (pages, next) = (pages + 1, page.next);
        }
        (String::from_utf8(csv).unwrap(), pages)
    }

    #[test]
    fn every_second_is_exported_with_its_refusals_and_incidents_once() {
        let history = bounded(IN_FILE);
        let seconds = 2 * PAGE_ROWS + 90;
        for second in 0..seconds {
            let refused =
                if second % 60 == 30 { vec![refused(3, Some(30), "sold_out", 2.0)] } else { Vec::new() };
            let stock = vec![left(if second < 10 { 7 } else { 0 })];
            let verdict = if (100..103).contains(&second) { Level::Red } else { Level::Green };
            let judged = judged(0, verdict, "full").judged;
            let at_ms = BEGUN + second * 1_000 + 400;
            history.record(&Taken { refused, stock, judged, ..taken(at_ms, 1.5) });
        }
        let (csv, pages) = read(&history, export(0, i64::MAX, Some((3, 30))));
        assert!(pages >= 3, "{pages}");
        let mut lines = csv.lines();
        let names: Vec<_> = lines.next().unwrap().split(',').collect();
        assert_eq!(
            (names[0], names[18..23].join(" ")),
            ("at_ms", "available turns held sold incidents".to_owned())
        );
        let place = |name: &str| names.iter().position(|found| *found == name).unwrap();
        let (sold_out, incidents) = (place("refused_in_minute_sold_out"), place("incidents"));
        let rows: Vec<Vec<_>> = lines.map(|line| line.split(',').collect()).collect();
        let at_ms: Vec<i64> = rows.iter().map(|row| row[0].parse().unwrap()).collect();
        assert_eq!(at_ms, (0..seconds).map(|second| BEGUN + second * 1_000).collect::<Vec<_>>());
        assert!(rows.iter().all(|row| row.len() == names.len() && row[place("accepted")] == "1.5"));
        let refused: Vec<_> =
            rows.iter().map(|row| row[sold_out]).filter(|count| !count.is_empty()).collect();
        assert_eq!(
            (refused.len() as u64, refused[0]),
            (seconds.unsigned_abs() / 60, "2"),
            "one for each minute"
        );
        assert_eq!((rows[9][18], rows[11][18]), ("7", "0"));
        assert_eq!((rows[99][incidents], rows[101][incidents], rows[105][incidents]), ("", "full", ""));
    }

    /// What the disk had no room for was left out, and its refusals were never written.
    #[test]
    fn what_is_only_in_memory_is_exported_as_it_is_when_it_is_written() {
        let history = bounded(IN_FILE);
        let at = |second: i64| {
            let level = if (10..20).contains(&second) { Level::Red } else { Level::Green };
            let judged = judged(0, level, "full").judged;
            let refused = vec![refused(3, Some(30), "sold_out", 1.0)];
            let stock = vec![left(200 - second)];
            Taken { refused, stock, judged, ..taken(BEGUN + second * 1_000, 1.5) }
        };
        (0..15).for_each(|second| history.record(&at(second)));
        (15..130).for_each(|second| history.remember(&at(second)));
        let item = || export(0, i64::MAX, Some((3, 30)));
        let (in_memory, _) = read(&history, item());
        let rows: Vec<Vec<_>> = in_memory.lines().skip(1).map(|line| line.split(',').collect()).collect();
        assert_eq!(rows.len(), 130, "{in_memory}");
        for (second, row) in (0_i64..).zip(&rows) {
            let incident = if (10..=20).contains(&second) { "full" } else { "" };
            assert_eq!((row[18], row[22]), (&*(200 - second).to_string(), incident), "{second}");
        }
        let refused = |row: usize| rows[row].iter().rev().find(|count| !count.is_empty()).copied();
        assert_eq!([0, 60, 120].map(refused), [Some("60"), Some("60"), Some("10")]);
        // The JSON left those out.
        let refused = |points| {
            let (begun, asked) = (BEGUN.unsigned_abs(), Some((3, 30)));
            let points = history.read(&HistoryQuery::new((begun, begun + 130_000), points, asked)).unwrap();
            serde_json::from_slice::<Value>(&points.to_json()).unwrap()["refused"].clone()
        };
        let row =
            |minute, orders| json!({ "at_ms": BEGUN + minute * MINUTE_MS, "orders": { "sold_out": orders } });
        let minutes = json!({ "step_ms": 60_000, "rows": [row(0, 60), row(1, 60), row(2, 10)] });
        let folded = json!({ "step_ms": 120_000, "rows": [row(0, 120), row(2, 10)] });
        assert_eq!([refused(600), refused(2)], [minutes, folded]);
        history.record(&at(130));
        let (written, _) = read(&history, item());
        let first = |csv: &str| csv.lines().take(121).map(str::to_owned).collect::<Vec<_>>();
        assert!(first(&written) == first(&in_memory) && written.lines().count() == 132, "{written}");
    }

    #[test]
    fn a_time_that_seconds_do_not_have_is_exported_by_minutes_and_a_gap_costs_no_page() {
        let history = bounded(Bounds { seconds_ms: 60_000, ..IN_FILE });
        let day_ms = 24 * 3_600_000;
        for second in (0..180).chain(100 * 86_400..100 * 86_400 + 180) {
            let refused = vec![refused(3, Some(30), "sold_out", 1.0), refused(4, None, "paused", 1.0)];
            history.record(&Taken { refused, ..taken(BEGUN + second * 1_000, 1.0) });
        }
        let (csv, pages) = read(&history, export(BEGUN, BEGUN + 200 * day_ms, None));
        let rows: Vec<_> = csv.lines().skip(1).collect();
        assert_eq!((rows.len(), pages), (5, 3), "{csv}");
        assert!(rows.iter().all(|row| row.contains("60")), "refusals of all sales: {csv}");
        let (empty, pages) = read(&history, export(0, BEGUN, None));
        assert_eq!((empty.lines().count(), pages), (1, 1), "the names alone");
    }
}
