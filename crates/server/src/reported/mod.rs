//! What a sale came to, in words and tables: as people read it in the terminal, in a file and at the console.
//!
//! Must not: add anything up; the ledger's report and the history do. What is not known is named, and never shown as 0.

mod tables;

use std::fmt::Write as _;

use engine::{format_seconds, format_utc, format_utc_exactly, plain};
use serde::Serialize;

use crate::figures::{Kept, SaleKept, Sold};
use crate::ledger::{Audit, ItemReport, Orders, SaleReport, Sum, WhatHappened};
use crate::pages::{ReportView, amount};

pub use tables::{
    Column, INCIDENTS, LINES, REFUSED, TIMES, UNITS, action_rows, happened_rows, incident_rows, line_rows,
    numbers, page_tables, refused_rows, refused_title, time_rows, unit_rows, words,
};

/// What whoever deletes a sale is noted with. Of ledgers from before there were operators nobody is known.
const DELETED: &str = "sale_deleted";
/// Rows of a table of the console's page: a sale may have 10,000 items. As JSON all are there.
const PAGE_ROWS_MAX: usize = 1_000;

/// All that is reported; as JSON in this shape, to which fields are only added.
#[derive(Debug, Serialize)]
pub struct Reported {
    /// The first line that people read.
    pub says: String,
    /// The sale's time is over, by the clock of whoever reports, or somebody ended or deleted it.
    pub over: bool,
    pub report: SaleReport,
    pub audit: Audited,
    /// `None`: nothing is known, for the reason in `figures_unknown`.
    pub figures: Option<Kept>,
    pub figures_unknown: Option<String>,
    /// What was asked and nothing here keeps: nothing any more.
    pub not_kept: [&'static str; 0],
}

#[derive(Debug, Serialize)]
pub struct Audited {
    pub clean: bool,
    /// If not, the report is of the entries before the first wrong one.
    pub complete: bool,
    pub broken: Vec<String>,
}

impl Reported {
    /// `kept`: reads the history of the figures, or says why there is none.
    pub fn new(
        (audit, report): (Audit, SaleReport),
        now_ms: u64,
        kept: impl FnOnce(&Sold) -> Result<Kept, String>,
    ) -> Reported {
        let ends_at_ms = report.ended_at_ms.unwrap_or(report.ends_at_ms);
        let figures = if report.deleted_at_ms.is_some() {
            Err("the sale was deleted before it began".to_owned())
        } else if now_ms <= report.starts_at_ms {
            Err("the sale has not begun".to_owned())
        } else {
            let time = (report.starts_at_ms, ends_at_ms.min(now_ms));
            let paid_until_ms = ends_at_ms.saturating_add(report.payment_ms.unwrap_or(0));
            kept(&Sold { sale: report.sale, time, paid_until_ms })
        };
        let over = ends_at_ms <= now_ms || report.deleted_at_ms.is_some();
        let clean = audit.broken.is_empty();
        Reported {
            says: sentence(&report, clean, over, now_ms),
            over,
            report,
            audit: Audited { clean, complete: audit.complete, broken: audit.broken },
            figures_unknown: figures.as_ref().err().cloned(),
            figures: figures.ok(),
            not_kept: [],
        }
    }

    /// For the console; `public_key`: of the key that would sign a certificate of it, if the server has one.
    pub fn view(&self, public_key: Option<String>) -> ReportView<'_> {
        let report = &self.report;
        ReportView {
            sale: report.sale,
            title: plain(&report.title),
            says: &self.says,
            lines: lines(self),
            tables: page_tables(self, PAGE_ROWS_MAX),
            clean: self.audit.clean,
            complete: self.audit.complete,
            broken: self.audit.broken.iter().map(|line| plain(line)).collect(),
            entry: report.entry,
            entry_at: format_utc_exactly(report.entry_at_ms),
            entries: report.entries,
            entries_sha256: &report.entries_sha256,
            public_key,
        }
    }
}

/// An amount in a currency's smallest unit, as people write it: 4999 EUR is "49.99 EUR".
pub fn money(minor: u64, currency: &str) -> String {
    format!("{} {}", amount(minor, currency), plain(currency))
}

/// The whole sale in one line.
fn sentence(report: &SaleReport, clean: bool, over: bool, now_ms: u64) -> String {
    let sum = |of: fn(&ItemReport) -> u64| report.items.iter().map(of).sum::<u64>();
    let (total, sold, held) = (sum(|item| item.total), sum(|item| item.sold), sum(|item| item.held));
    let mut text = plain(&report.title);
    if let Some(at_ms) = report.deleted_at_ms {
        let acted = report.actions.iter().find(|acted| acted.what == DELETED);
        let by = acted.map_or_else(String::new, |acted| format!(" by {}", plain(&acted.who)));
        write!(text, " was deleted at {}{by}, before it began", format_utc(at_ms))
    } else if now_ms < report.starts_at_ms && !over {
        write!(text, " starts at {} with {}", format_utc(report.starts_at_ms), counted(total, "unit"))
    } else {
        let buyers = counted(report.buyers_bought, "buyer");
        write!(
            text,
            " sold {sold} of {} to {buyers}{}",
            counted(total, "unit"),
            if over { "" } else { " so far" }
        )
    }
    .expect("a String takes every write");
    if let Some(at_ms) = report.sold_out_at_ms {
        // Units came back since, or were added.
        let left = match sum(|item| item.available) {
            0 => String::new(),
            left => format!(", {left} left"),
        };
        text += &format!(", all taken in {}{left}", after(at_ms, opened_at_ms(report)));
    }
    if held > 0 {
        text += &format!("; {held} held");
    }
    text += &format!("; {} due; ", counted(report.refunds_due.count, "refund"));
    text + if clean { "audit clean." } else { "AUDIT NOT CLEAN." }
}

/// When the first order was possible: a sale that was created after its start began with that.
fn opened_at_ms(report: &SaleReport) -> u64 {
    let created = report.happened.iter().find(|happened| matches!(happened.what, WhatHappened::Created));
    report.starts_at_ms.max(created.map_or(0, |created| created.at_ms))
}

/// A name, and what there is to say.
type Line = (&'static str, String);

/// What is no table.
pub fn lines(reported: &Reported) -> Vec<Line> {
    let mut lines = ledger_lines(&reported.report);
    lines.append(&mut server_lines(reported));
    lines
}

fn ledger_lines(report: &SaleReport) -> Vec<Line> {
    let span = |from, to| format!("{} to {}", format_utc(from), format_utc(to));
    let mut lines = vec![
        (
            "sale",
            format!("{}, as of entry {}, {}", report.sale, report.entry, format_utc(report.entry_at_ms)),
        ),
        ("planned", span(report.planned_starts_at_ms, report.planned_ends_at_ms)),
    ];
    let to_ms = report.ended_at_ms.unwrap_or(report.ends_at_ms);
    let how = match (report.ended_at_ms, report.paused) {
        (Some(_), _) => ", ended by an operator",
        (None, true) => ", paused",
        (None, false) => "",
    };
    lines.push(match report.deleted_at_ms {
        Some(at_ms) => ("deleted", format!("{}, before it began", format_utc(at_ms))),
        None if to_ms < report.starts_at_ms => {
            ("called off", format!("{}, before it began", format_utc(to_ms)))
        }
        None => ("was", span(report.starts_at_ms, to_ms) + how),
    });
    lines.push(("orders", orders(report.orders)));
    lines.push((
        "buyers",
        format!("{} ordered, {} with a paid order", report.buyers_ordered, report.buyers_bought),
    ));
    if let Some((first, peak)) = report.first_order_at_ms.zip(report.peak_at_ms) {
        let first = after(first, opened_at_ms(report));
        let peak = format!("{} in the second of {}", report.peak_orders_per_s, format_utc(peak));
        lines.push(("speed", format!("first order {first} after the start; at most {peak}")));
    }
    let abandoned = report.orders.expired + report.orders.cancelled;
    lines.push((
        "holds",
        match report.paid_after_ms {
            Some(after) => format!(
                "paid after {} (half), {} (90%), {} (99%); {abandoned} abandoned",
                duration(after.p50),
                duration(after.p90),
                duration(after.p99)
            ),
            None => format!("none was paid in time; {abandoned} abandoned"),
        },
    ));
    let sum = |sum: Sum| format!("{}, {}", sum.count, money(sum.amount, &report.currency));
    lines.push(("payments", sum(report.payments)));
    lines.push(("refunds", format!("due: {}; made: {}", sum(report.refunds_due), sum(report.refunds_made))));
    lines
}

fn orders(orders: Orders) -> String {
    let Orders { placed, held, paid, paid_late, cancelled, expired, refunded, rejected } = orders;
    let mut text = format!(
        "{placed}: {paid} paid, {paid_late} paid late, {held} held, {expired} expired, {cancelled} cancelled, {refunded} refunded"
    );
    if rejected > 0 {
        text += &format!("; {rejected} rejected");
    }
    text
}

fn server_lines(reported: &Reported) -> Vec<Line> {
    match (&reported.figures, &reported.figures_unknown) {
        (Some(kept), _) => {
            let about = if kept.row_s > 1 { "about " } else { "" };
            let ms = |ms: Option<f64>| ms.map_or_else(|| "not known".to_owned(), |ms| format!("{ms:.1} ms"));
            let mut lines = sale_lines(kept.sale.as_ref());
            lines.extend([
                (
                    "server",
                    format!(
                        "{about}{} accepted, {} refused, {} busy, {} unknown, of all sales from start to end",
                        kept.accepted, kept.refused, kept.busy, kept.unknown
                    ),
                ),
                (
                    "answers",
                    format!(
                        "half within {} (mean), 99% within {} (at the worst), of all sales",
                        ms(kept.order_p50_ms),
                        ms(kept.order_p99_ms)
                    ),
                ),
                (
                    "figures",
                    format!(
                        "{} of {} rows of {} s are there",
                        kept.rows.min(kept.rows_expected),
                        kept.rows_expected,
                        kept.row_s
                    ),
                ),
            ]);
            lines.extend(heard(kept));
            lines.extend(no_incidents(kept));
            lines
        }
        (None, why) => {
            let why = why.as_deref().unwrap_or("they were not asked for");
            let what = "refused and why, busy, unknown, speed of answers, incidents";
            vec![("figures", format!("{what}: not known; {}", plain(why)))]
        }
    }
}

/// Where sums are not those of the whole cluster.
fn heard(kept: &Kept) -> Vec<Line> {
    // What is so in a second of a minute is so in that minute.
    let (parts, row) = if kept.row_s == 1 { ("", "second") } else { ("parts of ", "minute") };
    let lines = [
        (
            "heard",
            kept.rows_some_heard,
            "only some servers were heard: these figures lack what the others did then",
        ),
        ("frozen", kept.rows_none_heard, "this server stood still: these figures lack what others did then"),
    ];
    let there =
        lines.into_iter().filter_map(|(name, rows, what)| Some((name, rows.filter(|rows| *rows > 0)?, what)));
    there
        .map(|(name, rows, what)| (name, format!("in {parts}{rows} of {} {what}", counted(kept.rows, row))))
        .collect()
}

/// Of the sale alone, as far as that is kept.
fn sale_lines(sale: Option<&SaleKept>) -> Vec<Line> {
    let Some(sale) = sale else { return Vec::new() };
    let SaleKept { accepted, refused, busy, unknown, .. } = sale;
    let mut lines = vec![(
        "attempts",
        // A minute of it began before the start, and one goes on after the end.
        format!(
            "about {accepted} accepted, {refused} refused, {busy} busy, {unknown} unknown, of this sale, in whole minutes"
        ),
    )];
    if let Some((p50, p99)) = sale.order_p50_ms.zip(sale.order_p99_ms) {
        lines.push((
            "waits",
            format!("half of its orders at most {p50:.1} ms for the answer, 99% {p99:.1} ms"),
        ));
    }
    lines
}

/// In the place of a table that would be empty.
fn no_incidents(kept: &Kept) -> Option<Line> {
    let says = match &kept.incidents {
        Some(incidents) if incidents.is_empty() => "none: the verdict was green whenever it was kept",
        Some(_) => return None,
        None => "not known, nor why orders were refused: figures.db is of an older version",
    };
    Some(("incidents", says.to_owned()))
}

fn counted(number: u64, what: &str) -> String {
    format!("{number} {what}{}", if number == 1 { "" } else { "s" })
}

/// From one time to a later one.
fn after(at_ms: u64, since_ms: u64) -> String {
    duration(at_ms.saturating_sub(since_ms))
}

/// To a thousandth of a second below ten seconds, to a tenth below two minutes, and to a second beyond.
fn duration(ms: u64) -> String {
    match ms {
        ..10_000 => format!("{} s", ms as f64 / 1_000.0),
        10_000..120_000 => format!("{:.1} s", ms as f64 / 1_000.0),
        _ => format_seconds(ms / 1_000),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(row_s: u64, rows: u64, [rows_some_heard, rows_none_heard]: [Option<u64>; 2]) -> Kept {
        Kept {
            row_s,
            rows,
            rows_expected: rows,
            rows_some_heard,
            rows_none_heard,
            received: 9,
            accepted: 9,
            replayed: 0,
            refused: 0,
            busy: 0,
            unknown: 0,
            order_p50_ms: None,
            order_p99_ms: None,
            commit_p99_ms: None,
            incidents: None,
            sale: None,
            refused_row_s: 60,
            refused_rows: None,
        }
    }

    /// Of the sale alone more was refused than of all, it said: before its start, in the minute that it keeps whole.
    #[test]
    fn attempts_of_a_sale_and_of_all_say_of_which_time_they_are() {
        let sale = SaleKept { refused: 90, ..SaleKept::default() };
        let [(name, says)]: [Line; 1] = sale_lines(Some(&sale)).try_into().unwrap();
        assert_eq!(name, "attempts");
        assert_eq!(says, "about 0 accepted, 90 refused, 0 busy, 0 unknown, of this sale, in whole minutes");
    }

    /// Sums of half the servers stood as if they were of all.
    #[test]
    fn it_is_said_in_how_many_seconds_not_all_servers_were_heard() {
        let lack = "only some servers were heard: these figures lack what the others did then";
        let still = "this server stood still: these figures lack what others did then";
        for (row_s, rows, of, expected) in [
            (1, 494, [Some(12), Some(0)], vec![("heard", format!("in 12 of 494 seconds {lack}"))]),
            (1, 1, [Some(1), Some(0)], vec![("heard", format!("in 1 of 1 second {lack}"))]),
            (60, 9, [Some(2), Some(0)], vec![("heard", format!("in parts of 2 of 9 minutes {lack}"))]),
            (
                1,
                60,
                [Some(3), Some(30)],
                vec![
                    ("heard", format!("in 3 of 60 seconds {lack}")),
                    ("frozen", format!("in 30 of 60 seconds {still}")),
                ],
            ),
            (1, 494, [Some(0), Some(0)], vec![]),
            (1, 494, [None, None], vec![]),
        ] {
            assert_eq!(heard(&kept(row_s, rows, of)), expected, "{of:?} of {rows}");
        }
    }
}
