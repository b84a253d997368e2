//! What is allowed, and rarely meant: a start in the past, a price of nothing, in a new sale or by a change; an end at once. Asked about before it is done, on a terminal;
//! elsewhere refused, unless `--yes` says that it is meant.
//!
//! Must not: refuse what `--yes` was said to. What can't be is the engine's to refuse.

use std::io::{self, BufRead, IsTerminal, Read, Write};
use std::time::Duration;

use super::Sale;
use super::difference::{Change, Difference};
use super::plan::{NewItem, NewSale};
use crate::failure::Failure;
use crate::output::money;
use crate::time::{format_distance, format_duration, format_utc};

const LENGTH_MS_MIN: u64 = 60 * 1_000;
/// Of a sale that has started, from now to its new end.
const LEFT_MS_MIN: u64 = 60 * 1_000;
const LENGTH_MS_MAX: u64 = 30 * 24 * 3_600 * 1_000;
const PAYMENT_S_MIN: u64 = 60;
const PAYMENT_S_MAX: u64 = 24 * 3_600;
/// Of a line: a page needs some seconds to hear that its place is reached.
const GRACE_S_MIN: u64 = 10;
/// Times the largest item so far; of a restock, times what the item had.
const TOTAL_GROWTH_MAX: u64 = 10;
/// Of an item, whatever was sold before: one that was mistyped would hide the next.
const TOTAL_MAX: u64 = 1_000_000;
/// Of an answer on a terminal.
const ANSWER_BYTES_MAX: u64 = 100;

/// What a command is about to do. `None`: it leaves that as it is, or to the server's default.
#[derive(Clone, Copy)]
pub(super) struct Intent<'a> {
    pub(super) now_ms: u64,
    pub(super) starts_at_ms: Option<u64>,
    pub(super) length_ms: Option<u64>,
    /// Of one that has started.
    pub(super) ends_at_ms: Option<u64>,
    /// When one that runs would end as it is.
    pub(super) would_end_at_ms: Option<u64>,
    pub(super) payment_s: Option<u64>,
    pub(super) items: &'a [NewItem],
    /// Of all prices.
    pub(super) currency: &'a str,
    /// Of the server's other sales; `None`: there are none to compare with.
    pub(super) largest_total: Option<u64>,
    /// People in its lines who expect a later start.
    pub(super) expect_later_start: u64,
}

/// Each says what it finds, or nothing.
const SLIPS: [fn(&Intent<'_>) -> Option<String>; 14] = [
    start_is_past,
    comes_sooner,
    is_short,
    is_long,
    ends_soon,
    ends_sooner,
    is_paid_soon,
    is_paid_late,
    costs_nothing,
    costs_more_than_elsewhere,
    waits_hardly,
    has_no_units,
    has_too_many_units,
    has_a_million_units,
];

pub(super) fn find(intent: &Intent<'_>) -> Vec<String> {
    SLIPS.iter().filter_map(|slip| slip(intent)).collect()
}

/// Of a sale that is changed to be like `new`, in what is `found` to differ: nothing is asked about what is left as it is.
pub(super) fn of_change(sale: &Sale, new: &NewSale, found: &[Difference], now_ms: u64) -> Vec<String> {
    let differs = |product: Option<u64>, fields: &[&str]| {
        let mut edits = found.iter().filter(|found| found.change == Change::Edit);
        edits.any(|found| found.product == product && fields.contains(&found.field))
    };
    let priced = new.items.iter().filter(|item| differs(Some(item.product), &["price", "list"]));
    let joined = sale.items.iter().filter_map(|item| item.line_now.as_ref()).map(|line| line.joined).sum();
    let runs = sale.starts_at_ms <= now_ms && now_ms < sale.ends_at_ms;
    // The terms of a line can't be changed so, nor units.
    let priced: Vec<_> = priced.map(|item| NewItem { line: None, total: 1, ..item.clone() }).collect();
    find(&Intent {
        now_ms,
        starts_at_ms: differs(None, &["starts_at"]).then_some(new.starts_at_ms),
        length_ms: differs(None, &["starts_at", "ends_at"]).then_some(new.ends_at_ms - new.starts_at_ms),
        ends_at_ms: (differs(None, &["ends_at"]) && new.starts_at_ms <= now_ms).then_some(new.ends_at_ms),
        would_end_at_ms: runs.then_some(sale.ends_at_ms),
        payment_s: new.payment_s.flatten().filter(|_| differs(None, &["payment"])),
        items: &priced,
        currency: &new.currency,
        largest_total: None,
        expect_later_start: if new.starts_at_ms < sale.starts_at_ms { joined } else { 0 },
    })
}

/// Of adding `units` to an item that has `total`. One that has none has nothing to compare with.
pub(super) fn of_restock(is_over: bool, product: u64, total: u64, units: u64) -> Vec<String> {
    let many = total.saturating_mul(TOTAL_GROWTH_MAX);
    let after = total.saturating_add(units);
    let slip = format!(
        "item {product} has {after} units then, more than {TOTAL_GROWTH_MAX} times what it has ({total})"
    );
    let over = is_over.then(|| "the sale is over: nobody can order what is added".to_owned());
    over.into_iter().chain((total > 0 && after > many).then_some(slip)).collect()
}

/// A line of what a dry run shows.
pub(super) fn in_a_dry_run(slip: &str) -> String {
    format!("asked about, or refused without --yes: {slip}\n")
}

/// Goes on if nothing was found, or it is meant.
pub(crate) fn confirm(slips: &[String], yes: bool) -> Result<(), Failure> {
    if yes || slips.is_empty() {
        return Ok(());
    }
    // The question goes where the answer of `--json` does not.
    let mut errors = io::stderr();
    let input = io::stdin();
    if !input.is_terminal() || !errors.is_terminal() {
        let found = slips.join("; ");
        return Err(Failure::usage(format!("nothing was done: {found}; if that is meant, say --yes")));
    }
    writeln!(errors, "{}\nIs that meant? [y/N] ", slips.join("\n")).map_err(Failure::unavailable)?;
    let mut answer = String::new();
    input.lock().take(ANSWER_BYTES_MAX).read_line(&mut answer).map_err(Failure::unavailable)?;
    match answer.trim() {
        "y" | "Y" | "yes" => Ok(()),
        _ => Err(Failure::check("nothing was done")),
    }
}

fn start_is_past(intent: &Intent<'_>) -> Option<String> {
    let starts_at_ms = intent.starts_at_ms.filter(|at| *at < intent.now_ms)?;
    let (at, ago) = (format_utc(starts_at_ms), format_distance(starts_at_ms, intent.now_ms));
    Some(format!("the start is past: {at}, {ago}"))
}

fn comes_sooner(intent: &Intent<'_>) -> Option<String> {
    let expect = intent.expect_later_start;
    (expect > 0).then(|| {
        format!("the start comes sooner than {expect} people expect who have joined a line, and whoever closed the page may miss it")
    })
}

fn is_short(intent: &Intent<'_>) -> Option<String> {
    let length_ms = intent.length_ms.filter(|length| *length < LENGTH_MS_MIN)?;
    Some(format!("the sale lasts less than a minute: {}", format_duration(Duration::from_millis(length_ms))))
}

fn is_long(intent: &Intent<'_>) -> Option<String> {
    let length_ms = intent.length_ms.filter(|length| *length > LENGTH_MS_MAX)?;
    Some(format!("the sale lasts more than 30 days: {}", format_duration(Duration::from_millis(length_ms))))
}

fn ends_soon(intent: &Intent<'_>) -> Option<String> {
    let left_ms = intent.ends_at_ms?.saturating_sub(intent.now_ms);
    match left_ms / 1_000 {
        0 => Some("the sale ends at once".to_owned()),
        seconds if left_ms < LEFT_MS_MIN => Some(format!("the sale ends in {seconds}s")),
        _ => None,
    }
}

/// An end at once is asked about by `sale end`: one that comes sooner takes from buyers, too, who count on the time that they were shown.
fn ends_sooner(intent: &Intent<'_>) -> Option<String> {
    let (ends_at_ms, would_end_at_ms) = (intent.ends_at_ms?, intent.would_end_at_ms?);
    let [new, old] = [ends_at_ms, would_end_at_ms].map(format_utc);
    (ends_at_ms < would_end_at_ms)
        .then(|| format!("the sale runs, and ends sooner than was announced: {new} instead of {old}"))
}

fn is_paid_soon(intent: &Intent<'_>) -> Option<String> {
    let payment_s = intent.payment_s.filter(|payment| *payment < PAYMENT_S_MIN)?;
    Some(format!("buyers have less than a minute to pay: {payment_s}s"))
}

fn is_paid_late(intent: &Intent<'_>) -> Option<String> {
    let payment_s = intent.payment_s.filter(|payment| *payment > PAYMENT_S_MAX)?;
    let time = format_duration(Duration::from_secs(payment_s));
    Some(format!("buyers have more than a day to pay: {time}, and what they hold is nobody else's"))
}

fn costs_nothing(intent: &Intent<'_>) -> Option<String> {
    let (item, others) = first_of(intent.items, |item| item.price == 0)?;
    Some(format!("item {} costs nothing{others}", item.product))
}

fn costs_more_than_elsewhere(intent: &Intent<'_>) -> Option<String> {
    let (item, others) = first_of(intent.items, |item| item.price > item.list_price)?;
    let [price, there] = [item.price, item.list_price].map(|amount| money(amount, intent.currency));
    Some(format!("item {} costs more than elsewhere: {price}, and {there} there{others}", item.product))
}

fn waits_hardly(intent: &Intent<'_>) -> Option<String> {
    let grace_s = |item: &NewItem| item.line.as_ref().map(|line| line.grace_s);
    let (item, others) =
        first_of(intent.items, |item| grace_s(item).is_some_and(|grace| grace < GRACE_S_MIN))?;
    let (product, grace) = (item.product, grace_s(item).unwrap_or_default());
    Some(format!(
        "whoever is not there when reached is waited for less than {GRACE_S_MIN}s in the line of item {product}: {grace}s{others}"
    ))
}

fn has_no_units(intent: &Intent<'_>) -> Option<String> {
    let (item, others) = first_of(intent.items, |item| item.total == 0)?;
    Some(format!("item {} has no units: it is sold out from the start{others}", item.product))
}

fn has_too_many_units(intent: &Intent<'_>) -> Option<String> {
    let largest = intent.largest_total?;
    let (item, others) =
        first_of(intent.items, |item| item.total > largest.saturating_mul(TOTAL_GROWTH_MAX))?;
    let NewItem { product, total, .. } = item;
    Some(format!(
        "item {product} has {total} units{others}, more than {TOTAL_GROWTH_MAX} times the largest item of this \
         server's sales so far ({largest})"
    ))
}

fn has_a_million_units(intent: &Intent<'_>) -> Option<String> {
    let (NewItem { product, total, .. }, others) = first_of(intent.items, |item| item.total > TOTAL_MAX)?;
    Some(format!("item {product} has more than a million units: {total}{others}"))
}

/// The first that is so, and how many others are.
fn first_of(items: &[NewItem], is_so: impl Fn(&NewItem) -> bool) -> Option<(&NewItem, String)> {
    let mut found = items.iter().filter(|item| is_so(item));
    let first = found.next()?;
    let others = match found.count() {
        0 => String::new(),
        others => format!(" (and {others} more)"),
    };
    Some((first, others))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sale::Line;

    const DAY_MS: u64 = 24 * 3_600 * 1_000;
    const NOW_MS: u64 = 100 * DAY_MS;

    fn item(product: u64, price: u64, total: u64) -> NewItem {
        NewItem {
            product,
            title: "t".to_owned(),
            description: String::new(),
            price,
            list_price: price,
            total,
            limit: None,
            image: None,
            line: None,
        }
    }

    fn line(grace_s: u64) -> NewItem {
        let line = Line { units: 1, turn_s: 120, grace_s, close_s: 30, beacon: None, access: None };
        NewItem { line: Some(line), ..item(4, 1, 1) }
    }

    /// What is asked about nothing.
    fn usual(items: &[NewItem]) -> Intent<'_> {
        Intent {
            now_ms: NOW_MS,
            starts_at_ms: Some(NOW_MS),
            length_ms: Some(2 * 3_600 * 1_000),
            ends_at_ms: Some(NOW_MS + 2 * 3_600 * 1_000),
            would_end_at_ms: None,
            payment_s: Some(900),
            items,
            currency: "EUR",
            largest_total: Some(1),
            expect_later_start: 0,
        }
    }

    /// Each row alone is one slip, and its neighbour at the bound is none.
    #[test]
    fn each_slip_is_found_and_its_bound_is_none() {
        let fine = [item(1, 1, 10), item(2, 5, 1)];
        let usual = usual(&fine);
        let (usual_line, hasty) = ([line(GRACE_S_MIN)], [line(GRACE_S_MIN - 1)]);
        let (million, more) = ([item(8, 5, TOTAL_MAX)], [item(8, 5, TOTAL_MAX + 1)]);
        let empty = [item(6, 5, 0)];
        let elsewhere = "item 5 costs more than elsewhere: 0.10 EUR, and 0.09 EUR there";
        let dear = [NewItem { list_price: 9, ..item(5, 10, 1) }];
        let (free, many) = ([item(1, 0, 1), item(2, 5, 1), item(3, 0, 1)], [item(7, 5, 11)]);
        for (at_bound, slip, text) in [
            (
                usual,
                Intent { starts_at_ms: Some(NOW_MS - 7_200_000), ..usual },
                "the start is past: 1970-04-10T22:00:00Z, 2h ago",
            ),
            (
                Intent { length_ms: Some(LENGTH_MS_MIN), ..usual },
                Intent { length_ms: Some(LENGTH_MS_MIN - 1), ..usual },
                "the sale lasts less than a minute: 59s",
            ),
            (
                Intent { length_ms: Some(LENGTH_MS_MAX), ..usual },
                Intent { length_ms: Some(31 * DAY_MS), ..usual },
                "the sale lasts more than 30 days: 31d",
            ),
            (
                Intent { ends_at_ms: Some(NOW_MS + LEFT_MS_MIN), ..usual },
                Intent { ends_at_ms: Some(NOW_MS + 12_000), ..usual },
                "the sale ends in 12s",
            ),
            (usual, Intent { ends_at_ms: Some(NOW_MS - 1), ..usual }, "the sale ends at once"),
            (
                Intent { would_end_at_ms: usual.ends_at_ms, ..usual },
                Intent { would_end_at_ms: Some(NOW_MS + 3 * 3_600 * 1_000), ..usual },
                "the sale runs, and ends sooner than was announced: 1970-04-11T02:00:00Z instead of 1970-04-11T03:00:00Z",
            ),
            (
                Intent { payment_s: Some(PAYMENT_S_MIN), ..usual },
                Intent { payment_s: Some(1), ..usual },
                "buyers have less than a minute to pay: 1s",
            ),
            (
                Intent { payment_s: Some(PAYMENT_S_MAX), ..usual },
                Intent { payment_s: Some(PAYMENT_S_MAX + 60), ..usual },
                "buyers have more than a day to pay: 1d1m, and what they hold is nobody else's",
            ),
            (usual, Intent { items: &free, ..usual }, "item 1 costs nothing (and 1 more)"),
            (usual, Intent { items: &dear, ..usual }, elsewhere),
            (usual, Intent { items: &empty, ..usual }, "item 6 has no units: it is sold out from the start"),
            (
                Intent { items: &usual_line, ..usual },
                Intent { items: &hasty, ..usual },
                "whoever is not there when reached is waited for less than 10s in the line of item 4: 9s",
            ),
            (
                Intent { items: &many, largest_total: None, ..usual },
                Intent { items: &many, ..usual },
                "item 7 has 11 units, more than 10 times the largest item of this server's sales so far (1)",
            ),
            (
                Intent { items: &million, largest_total: None, ..usual },
                Intent { items: &more, largest_total: None, ..usual },
                "item 8 has more than a million units: 1000001",
            ),
        ] {
            assert_eq!(find(&at_bound), Vec::<String>::new(), "{text}");
            assert_eq!(find(&slip), [text]);
        }
    }

    #[test]
    fn what_an_edit_leaves_as_it_is_is_no_slip() {
        let left_as_it_is =
            Intent { starts_at_ms: None, length_ms: None, ends_at_ms: None, payment_s: None, ..usual(&[]) };
        assert_eq!(find(&left_as_it_is), Vec::<String>::new());
    }

    #[test]
    fn a_restock_is_compared_with_what_the_item_has() {
        for (total, units) in [(100, 900), (0, u64::MAX), (u64::MAX / 2, u64::MAX)] {
            assert_eq!(of_restock(false, 7, total, units), Vec::<String>::new());
        }
        let many = "item 7 has 1001 units then, more than 10 times what it has (100)";
        let over = "the sale is over: nobody can order what is added";
        assert_eq!(of_restock(false, 7, 100, 901), [many]);
        assert_eq!(of_restock(true, 7, 100, 1), [over]);
        assert_eq!(of_restock(true, 7, 100, 901), [over, many]);
    }
}
