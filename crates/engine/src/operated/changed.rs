//! What an operator changed of a sale, from what to what, for whoever reads the log.
//!
//! Must not: judge the change.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use crate::{ItemChange, ItemSpec, Payment, SaleChange, SaleSpec, UnixMs, amount, format_utc, is_plain_char};

/// Longer texts are cut.
const BYTES_MAX: usize = 200;
/// Of each title in it.
const TITLE_CHARS_MAX: usize = 20;
const CUT: char = '\u{2026}';

/// As `ends_at 2026-12-01T10:00:00Z -> 2026-12-01T10:15:00Z, product 30: limit 2 -> 1`; empty: it is as it was.
pub(super) fn changed(spec: &SaleSpec, change: &SaleChange) -> String {
    let utc = |at: UnixMs| format_utc(at.0);
    let mut said = Said::default();
    said.change("starts_at", utc(spec.starts_at), change.starts_at.map(utc));
    said.change("ends_at", utc(spec.ends_at), change.ends_at.map(utc));
    if let Payment::WithinMs(ms) = spec.payment {
        said.change("payment_s", ms / 1000, change.payment_ms.map(|ms| ms / 1000));
    }
    said.title(&spec.title, change.title.as_deref());
    // The items of a sale are up to 10,000, and so are those that change.
    let changes: BTreeMap<_, _> = change.items.iter().map(|item| (item.product, item)).collect();
    for item in &spec.items {
        if said.is_full() {
            break;
        }
        if let Some(change) = changes.get(&item.product) {
            said.item(item, change, &spec.currency);
        }
    }
    said.cut()
}

#[derive(Default)]
struct Said(String);

impl Said {
    fn change<T: PartialEq + std::fmt::Display>(&mut self, name: &str, from: T, to: Option<T>) {
        if let Some(to) = to.filter(|to| *to != from) {
            self.add(&format!("{name} {from} -> {to}"));
        }
    }

    fn title(&mut self, from: &str, to: Option<&str>) {
        if let Some(to) = to.filter(|to| *to != from) {
            self.add(&format!("title {} -> {}", short(from), short(to)));
        }
    }

    fn item(&mut self, item: &ItemSpec, change: &ItemChange, currency: &str) {
        let money = |minor: u64| format!("{} {currency}", amount(minor, currency));
        let limit = |limit: Option<u32>| limit.map_or_else(|| "none".to_owned(), |limit| limit.to_string());
        let mut said = Said::default();
        said.change("price", money(item.price), change.price.map(money));
        said.change("list_price", money(item.list_price), change.list_price.map(money));
        said.change("limit", limit(item.limit), change.limit.map(limit));
        said.title(&item.title, change.title.as_deref());
        if change.description.as_ref().is_some_and(|description| *description != item.description) {
            said.add("description");
        }
        if !said.0.is_empty() {
            self.add(&format!("product {}: {}", item.product.0, said.0));
        }
    }

    fn add(&mut self, part: &str) {
        let between = if self.0.is_empty() { "" } else { ", " };
        write!(self.0, "{between}{part}").expect("a String takes every write");
    }

    fn is_full(&self) -> bool {
        self.0.len() > BYTES_MAX
    }

    fn cut(mut self) -> String {
        if self.is_full() {
            let mut end = BYTES_MAX - CUT.len_utf8();
            while !self.0.is_char_boundary(end) {
                end -= 1;
            }
            self.0.truncate(end);
            self.0.push(CUT);
        }
        self.0
    }
}

/// Two that differ behind the cut look the same; the entry of the change has the new one whole.
fn short(title: &str) -> String {
    let plain = |character| if is_plain_char(character) { character } else { '\u{fffd}' };
    let begins: String = title.chars().take(TITLE_CHARS_MAX).map(plain).collect();
    let cut = if title.chars().nth(TITLE_CHARS_MAX).is_some() { CUT.to_string() } else { String::new() };
    format!("\u{201c}{begins}{cut}\u{201d}")
}
