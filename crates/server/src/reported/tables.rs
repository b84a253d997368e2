//! The tables of a report: their columns, and their rows as text.
//!
//! Must not: leave a row out without saying so.

use std::cmp::Reverse;

use engine::{format_seconds, format_utc, format_utc_exactly, plain};

use super::{Reported, after, counted, duration, opened_at_ms};
use crate::figures::RefusedAt;
use crate::ledger::{Acted, Happened, Percentiles, SaleReport, WhatHappened};
use crate::pages::{HeadView, TableView};

/// One column of a table.
#[derive(Clone, Copy, Debug)]
pub struct Column {
    pub title: &'static str,
    pub right: bool,
}

/// A column of words.
pub const fn words(title: &'static str) -> Column {
    Column { title, right: false }
}

/// A column of numbers, whose digits stand below each other.
pub const fn numbers(title: &'static str) -> Column {
    Column { title, right: true }
}

/// All that there are, for a page; of each so many rows at most.
pub fn page_tables(reported: &Reported, rows_max: usize) -> Vec<TableView> {
    let report = &reported.report;
    let waited = "Waited in line, from the start or from joining, until called";
    let mut tables = vec![
        table("Units", UNITS, unit_rows(report)),
        table("Orders, and times after the start", TIMES, time_rows(report)),
        table(waited, LINES, line_rows(report)),
        table("Incidents", INCIDENTS, incident_rows(reported)),
        table(&refused_title(reported), REFUSED, refused_rows(reported)),
    ];
    // Of what is empty a line says why, and most sales have no line.
    tables.retain(|table| !table.rows.is_empty());
    tables.push(TableView {
        left_out: report.happened_left_out,
        ..table("What happened", HAPPENED, happened_rows(report))
    });
    tables.push(TableView {
        left_out: report.actions_left_out,
        none: "No operator did anything.",
        ..table("What operators did", ACTIONS, action_rows(report))
    });
    for table in &mut tables {
        table.left_out += table.rows.len().saturating_sub(rows_max) as u64;
        table.rows.truncate(rows_max);
    }
    tables
}

fn table<const N: usize>(
    title: &str,
    columns: [Column; N],
    rows: impl Iterator<Item = [String; N]>,
) -> TableView {
    let columns =
        columns.iter().map(|column| HeadView { title: column.title, words: !column.right }).collect();
    TableView { title: title.to_owned(), columns, rows: rows.map(Vec::from).collect(), left_out: 0, none: "" }
}

pub const UNITS: [Column; 9] = [
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

pub fn unit_rows(report: &SaleReport) -> impl Iterator<Item = [String; UNITS.len()]> {
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

pub const TIMES: [Column; 10] = [
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

pub fn time_rows(report: &SaleReport) -> impl Iterator<Item = [String; TIMES.len()]> {
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

pub const LINES: [Column; 6] = [
    numbers("product"),
    numbers("joined its line"),
    numbers("called"),
    numbers("half waited"),
    numbers("90% waited"),
    numbers("99% waited"),
];

/// Until they were called, since they joined or since the start.
pub fn line_rows(report: &SaleReport) -> impl Iterator<Item = [String; LINES.len()]> {
    report.items.iter().filter(|item| item.line_joined > 0).map(|item| {
        let at_most = |of: fn(Percentiles) -> u64| {
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

pub const INCIDENTS: [Column; 4] = [words("from"), words("to"), words("level"), words("what")];

pub fn incident_rows(reported: &Reported) -> impl Iterator<Item = [String; INCIDENTS.len()]> {
    let incidents = reported.figures.iter().flat_map(|kept| kept.incidents.iter().flatten());
    incidents.map(|incident| {
        let utc = |at_ms: i64| format_utc(at_ms.unsigned_abs());
        let to = incident.ended_ms.map_or_else(|| "no end on file".to_owned(), utc);
        [utc(incident.began_ms), to, plain(&incident.level), plain(&incident.says)]
    })
}

pub const REFUSED: [Column; 3] = [words("refused from"), numbers("orders"), words("why")];

/// Of so many seconds each.
pub fn refused_rows(reported: &Reported) -> impl Iterator<Item = [String; REFUSED.len()]> {
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
pub fn refused_title(reported: &Reported) -> String {
    match reported.figures.as_ref().map_or(60, |kept| kept.refused_row_s) {
        60 => "Refused, by minute".to_owned(),
        seconds => format!("Refused, by {}", format_seconds(seconds)),
    }
}

const HAPPENED: [Column; 2] = [words("at"), words("what")];

pub fn happened_rows(report: &SaleReport) -> impl Iterator<Item = [String; HAPPENED.len()]> {
    report
        .happened
        .iter()
        .map(|Happened { at_ms, what, .. }| [format_utc_exactly(*at_ms), plain(&in_words(what))])
}

const ACTIONS: [Column; 5] = [words("at"), words("operator"), words("did"), words("about"), words("why")];

pub fn action_rows(report: &SaleReport) -> impl Iterator<Item = [String; ACTIONS.len()]> {
    report.actions.iter().map(|Acted { at_ms, who, what, about, why, .. }| {
        [format_utc_exactly(*at_ms), plain(who), plain(&what.replace('_', " ")), plain(about), plain(why)]
    })
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
                payment_ms.map(|ms| format!("{} to pay", format_seconds(ms / 1_000))),
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
