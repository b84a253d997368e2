//! The report of a sale as people read it in a terminal of 100 columns.
//!
//! Must not: find anything out.

use std::cmp::Reverse;
use std::fmt::Write as _;
use std::time::Duration;

use server::figures::{Kept, RefusedAt, SaleKept};
use server::ledger::{Acted, Happened, ItemReport, Orders, SaleReport, Spread, Sum, WhatHappened};

use super::report::Reported;
use crate::output::{self, Column, money, numbers, plain, words};
use crate::time::{format_duration, format_utc, format_utc_exactly};

/// Items, and things that happened, that are shown one by one; `--json` has more.
const ROWS_MAX: usize = 50;
const TITLE_CELLS_MAX: usize = 24;
const COLUMNS: usize = 100;
/// Before what goes on in the next line.
const INDENT: &str = "    ";

/// What whoever deletes a sale is noted with. Of ledgers of before operators nobody is known.
const DELETED: &str = "sale_deleted";

/// The whole sale in one line.
pub(super) fn sentence(report: &SaleReport, clean: bool, over: bool, now_ms: u64) -> String {
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
        text += &format!(", all taken in {}", after(at_ms, opened_at_ms(report)));
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

/// All of it.
pub(super) fn page(reported: &Reported) -> String {
    let report = &reported.report;
    let mut text = format!("{}\n\n", reported.says);
    for (name, line) in lines(reported) {
        text += format!("{name:<10}{line}").trim_end();
        text.push('\n');
    }
    text.push('\n');
    text += &units(report);
    text.push('\n');
    text += &times(report);
    if report.items.len() > ROWS_MAX {
        text += &format!("{} more items: --json\n", report.items.len() - ROWS_MAX);
    }
    text += &lines_waited(report);
    text += &incidents(reported);
    text += &refused(reported);
    text += &happened(report);
    text += &actions(report);
    text
}

type Line = (&'static str, String);

/// What is no table.
pub(super) fn lines(reported: &Reported) -> Vec<Line> {
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
                        "{about}{} accepted, {} refused, {} busy, {} unknown, of all sales in that time",
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
        format!("about {accepted} accepted, {refused} refused, {busy} busy, {unknown} unknown, of this sale"),
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

pub(super) const INCIDENTS: [Column; 4] = [words("from"), words("to"), words("level"), words("what")];

pub(super) fn incident_rows(reported: &Reported) -> impl Iterator<Item = [String; INCIDENTS.len()]> {
    let incidents = reported.figures.iter().flat_map(|kept| kept.incidents.iter().flatten());
    incidents.map(|incident| {
        let utc = |at_ms: i64| format_utc(at_ms.unsigned_abs());
        let to = incident.ended_ms.map_or_else(|| "no end on file".to_owned(), utc);
        [utc(incident.began_ms), to, plain(&incident.level), plain(&incident.says)]
    })
}

fn incidents(reported: &Reported) -> String {
    let rows: Vec<_> = incident_rows(reported).collect();
    if rows.is_empty() {
        return String::new();
    }
    let table = output::table(INCIDENTS, &rows);
    table.lines().fold("\nincidents\n".to_owned(), |text, line| text + &fitting(line))
}

pub(super) const REFUSED: [Column; 3] = [words("refused from"), numbers("orders"), words("why")];

/// Of so many seconds each.
pub(super) fn refused_rows(reported: &Reported) -> impl Iterator<Item = [String; REFUSED.len()]> {
    let rows = reported.figures.iter().flat_map(|kept| kept.refused_rows.iter().flatten());
    rows.map(|RefusedAt { at_ms, orders }| {
        let mut why: Vec<_> = orders.iter().collect();
        why.sort_by_key(|(code, count)| (Reverse(**count), *code));
        let why: Vec<_> =
            why.iter().map(|(code, count)| format!("{count} {}", plain(&code.replace('_', " ")))).collect();
        let all = orders.values().sum::<u64>();
        [format_utc(at_ms.unsigned_abs()), all.to_string(), why.join(", ")]
    })
}

/// How long the time of a row of refusals is.
pub(super) fn refused_title(reported: &Reported) -> String {
    match reported.figures.as_ref().map_or(60, |kept| kept.refused_row_s) {
        60 => "Refused, by minute".to_owned(),
        seconds => format!("Refused, by {}", format_duration(Duration::from_secs(seconds))),
    }
}

fn refused(reported: &Reported) -> String {
    let rows: Vec<_> = refused_rows(reported).collect();
    if rows.is_empty() {
        return String::new();
    }
    let title = format!("\n{}\n", refused_title(reported).to_lowercase());
    output::table(REFUSED, &rows).lines().fold(title, |text, line| text + &fitting(line))
}

/// A line that goes on in the next one if it is too long: what is cut in a report can't be read again once the server is gone.
fn fitting(line: &str) -> String {
    output::wrapped(line.trim_end(), COLUMNS - INDENT.len()).join(&format!("\n{INDENT}")) + "\n"
}

pub(super) const UNITS: [Column; 9] = [
    numbers("product"),
    words("title"),
    numbers("planned"),
    numbers("total"),
    numbers("sold"),
    numbers("held"),
    numbers("left"),
    numbers("returned"),
    numbers("taken again"),
];

pub(super) fn unit_rows(report: &SaleReport) -> impl Iterator<Item = [String; UNITS.len()]> {
    report.items.iter().map(|item| {
        [
            item.product.to_string(),
            plain(&item.title),
            item.planned.to_string(),
            item.total.to_string(),
            item.sold.to_string(),
            item.held.to_string(),
            (item.available + item.turns).to_string(),
            item.returned.to_string(),
            item.returned_taken.to_string(),
        ]
    })
}

pub(super) const TIMES: [Column; 10] = [
    numbers("product"),
    numbers("orders"),
    numbers("paid"),
    numbers("late"),
    numbers("expired"),
    numbers("cancelled"),
    numbers("refunded"),
    numbers("first"),
    numbers("half taken"),
    numbers("all taken"),
];

pub(super) fn time_rows(report: &SaleReport) -> impl Iterator<Item = [String; TIMES.len()]> {
    let since =
        |at_ms: Option<u64>| at_ms.map_or_else(|| "-".to_owned(), |at_ms| after(at_ms, opened_at_ms(report)));
    report.items.iter().map(move |item| {
        let orders = item.orders;
        [
            item.product.to_string(),
            orders.placed.to_string(),
            orders.paid.to_string(),
            orders.paid_late.to_string(),
            orders.expired.to_string(),
            orders.cancelled.to_string(),
            orders.refunded.to_string(),
            since(item.first_order_at_ms),
            since(item.half_at_ms),
            since(item.sold_out_at_ms),
        ]
    })
}

fn units(report: &SaleReport) -> String {
    let shortened = |mut row: [String; UNITS.len()]| {
        row[1] = output::within(&row[1], TITLE_CELLS_MAX).to_owned();
        row
    };
    output::table(UNITS, &unit_rows(report).take(ROWS_MAX).map(shortened).collect::<Vec<_>>())
}

fn times(report: &SaleReport) -> String {
    output::table(TIMES, &time_rows(report).take(ROWS_MAX).collect::<Vec<_>>())
}

pub(super) const LINES: [Column; 6] = [
    numbers("product"),
    numbers("joined its line"),
    numbers("called"),
    numbers("half waited"),
    numbers("90% waited"),
    numbers("99% waited"),
];

/// Until they were called, since they joined or since the start.
pub(super) fn line_rows(report: &SaleReport) -> impl Iterator<Item = [String; LINES.len()]> {
    report.items.iter().filter(|item| item.line_joined > 0).map(|item| {
        let at_most = |of: fn(Spread) -> u64| {
            item.line_waited_ms.map_or_else(|| "-".to_owned(), |waited| duration(of(waited)))
        };
        [
            item.product.to_string(),
            item.line_joined.to_string(),
            item.line_called.to_string(),
            at_most(|waited| waited.p50),
            at_most(|waited| waited.p90),
            at_most(|waited| waited.p99),
        ]
    })
}

fn lines_waited(report: &SaleReport) -> String {
    let rows: Vec<_> = line_rows(report).take(ROWS_MAX).collect();
    if rows.is_empty() { String::new() } else { format!("\n{}", output::table(LINES, &rows)) }
}

pub(super) const HAPPENED: [Column; 2] = [words("at"), words("what")];

pub(super) fn happened_rows(report: &SaleReport) -> impl Iterator<Item = [String; HAPPENED.len()]> {
    report
        .happened
        .iter()
        .map(|Happened { at_ms, what, .. }| [format_utc_exactly(*at_ms), plain(&in_words(what))])
}

fn happened(report: &SaleReport) -> String {
    let mut text = String::from("\n");
    for [at, what] in happened_rows(report).take(ROWS_MAX) {
        text += &format!("{at}  {what}\n");
    }
    let more = report.happened.len().saturating_sub(ROWS_MAX) as u64 + report.happened_left_out;
    if more > 0 {
        text += &format!("and {more} more: --json has the first 1,000\n");
    }
    text
}

pub(super) const ACTIONS: [Column; 5] =
    [words("at"), words("operator"), words("did"), words("about"), words("why")];

pub(super) fn action_rows(report: &SaleReport) -> impl Iterator<Item = [String; ACTIONS.len()]> {
    report.actions.iter().map(|Acted { at_ms, who, what, about, why, .. }| {
        [format_utc_exactly(*at_ms), plain(who), plain(&what.replace('_', " ")), plain(about), plain(why)]
    })
}

fn actions(report: &SaleReport) -> String {
    if report.actions.is_empty() {
        return "\nno operator did anything\n".to_owned();
    }
    let mut text = String::from("\n");
    for [at, who, did, about, why] in action_rows(report).take(ROWS_MAX) {
        let about = if about.is_empty() { about } else { format!(" {about}") };
        let why = if why.is_empty() { why } else { format!(": {why}") };
        text += &fitting(&format!("{at}  {who}  {did}{about}{why}"));
    }
    let more = report.actions.len().saturating_sub(ROWS_MAX) as u64 + report.actions_left_out;
    if more > 0 {
        text += &format!("and {more} more: --json has the first 1,000\n");
    }
    text
}

fn in_words(what: &WhatHappened) -> String {
    match what {
        WhatHappened::Created => "created".to_owned(),
        WhatHappened::Changed { title, starts_at_ms, ends_at_ms, payment_ms, products } => {
            let products: Vec<_> = products.iter().map(u64::to_string).collect();
            let parts = [
                title.as_ref().map(|title| format!("title {title}")),
                starts_at_ms.map(|at_ms| format!("start {}", format_utc(at_ms))),
                ends_at_ms.map(|at_ms| format!("end {}", format_utc(at_ms))),
                payment_ms.map(|ms| format!("{} to pay", format_duration(Duration::from_millis(ms)))),
                (!products.is_empty()).then(|| format!("terms of product {}", products.join(", "))),
            ];
            format!("changed: {}", parts.into_iter().flatten().collect::<Vec<_>>().join(", "))
        }
        WhatHappened::Paused => "paused".to_owned(),
        WhatHappened::Resumed => "resumed".to_owned(),
        WhatHappened::Ended => "ended".to_owned(),
        WhatHappened::Deleted => "deleted".to_owned(),
        WhatHappened::Restocked { product, units, key } => {
            format!("product {product}: {} added, key {key}", counted(*units, "unit"))
        }
        WhatHappened::Corrected { product, units, key } => {
            format!("product {product}: {} taken off, key {key}", counted(*units, "unit"))
        }
        WhatHappened::ClockCorrected { from_ms, to_ms, who } => {
            format!("the clock was set from {} to {} by {who}", format_utc(*from_ms), format_utc(*to_ms))
        }
    }
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
        _ => format_duration(Duration::from_millis(ms)),
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

    /// Incidents were cut, and nobody could read the rest.
    #[test]
    fn a_long_line_is_there_whole() {
        let line = "word ".repeat(50);
        let shown = fitting(&line);
        assert!(shown.lines().skip(1).all(|line| line.starts_with(INDENT)), "{shown}");
        assert!(shown.lines().all(|line| line.len() <= COLUMNS), "{shown}");
        assert_eq!(shown.split_whitespace().count(), 50);
    }
}
