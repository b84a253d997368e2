//! What a server has of a sale, and what a file says of it, field by field.
//!
//! Must not: ask a server or change one.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::time::Duration;

use serde_json::{Value, json};

use super::line::Line;
use super::plan::{NewItem, NewSale};
use super::{ENDED, Item, Sale};
use crate::images::is_address;
use crate::output::{money, plain};
use crate::time::{format_duration, format_utc_exactly};

const SET_FOR_GOOD: &str = "it is set when a sale is created";
const STARTED: &str = "the sale has started";
const OVER: &str = "the sale is over";
const ENDED_FOR_GOOD: &str = "it was ended before its time, for good";

/// How the server comes to have what the file says.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Change {
    Edit,
    /// By a command of its own: units are counted, not set.
    Restock(u64),
    Correct(u64),
    /// Why it does not.
    Never(&'static str),
}

/// A field in which they differ, in the words of the file.
pub(super) struct Difference {
    pub(super) field: &'static str,
    /// Of an item.
    pub(super) product: Option<u64>,
    server: Value,
    file: Value,
    pub(super) change: Change,
}

/// All that differ. What the file leaves to the server's default does not, whatever that was; nor does an image that
/// only the server can name.
pub(super) fn differences(server: &Sale, file: &NewSale, now_ms: u64) -> Vec<Difference> {
    let over = server.state == ENDED && file.ends_at_ms <= now_ms;
    let edit = if over || was_ended(server, now_ms) { Change::Never(OVER) } else { Change::Edit };
    let start = if now_ms >= server.starts_at_ms { Change::Never(STARTED) } else { edit };
    let for_good = Change::Never(SET_FOR_GOOD);
    let mut rows = vec![
        ("title", json!(server.title), json!(file.title), edit),
        ("currency", json!(server.currency), json!(file.currency), for_good),
        ("starts_at", json!(server.starts_at_ms), json!(file.starts_at_ms), start),
        ("ends_at", json!(server.ends_at_ms), json!(file.ends_at_ms), edit),
    ];
    if let Some(payment_s) = file.payment_s {
        let change = if payment_s.is_some() && server.payment_s.is_some() { edit } else { for_good };
        rows.push(("payment", json!(server.payment_s), json!(payment_s), change));
    }
    if let Some(max) = file.open_holds_per_buyer_max {
        let server_max = server.open_holds_per_buyer_max.unwrap_or(0);
        rows.push(("open_holds_per_buyer_max", json!(server_max), json!(max), for_good));
    }
    let mut found: Vec<_> = differing(None, rows).collect();
    let mut there: HashMap<u64, &Item> = server.items.iter().map(|item| (item.product, item)).collect();
    for item in &file.items {
        let rows = match there.remove(&item.product) {
            Some(server) => rows_of_item(server, item, start),
            None => vec![("item", Value::Null, json!(item.title), for_good)],
        };
        found.extend(differing(Some(item.product), rows));
    }
    for item in server.items.iter().filter(|item| there.contains_key(&item.product)) {
        found.extend(differing(Some(item.product), vec![("item", json!(item.title), Value::Null, for_good)]));
    }
    found
}

/// Somebody did that, before its time was over.
fn was_ended(server: &Sale, now_ms: u64) -> bool {
    server.state == ENDED && now_ms < server.ends_at_ms
}

/// By the file a sale would go on that somebody has ended.
pub(super) fn of_state(server: &Sale, file: &NewSale, now_ms: u64) -> Option<Difference> {
    let by_file = if now_ms < file.starts_at_ms { "not_started" } else { "live" };
    (was_ended(server, now_ms) && now_ms < file.ends_at_ms).then(|| Difference {
        field: "state",
        product: None,
        server: json!(server.state),
        file: json!(by_file),
        change: Change::Never(ENDED_FOR_GOOD),
    })
}

type Row = (&'static str, Value, Value, Change);

fn differing(product: Option<u64>, rows: Vec<Row>) -> impl Iterator<Item = Difference> {
    rows.into_iter()
        .filter(|(_, server, file, _)| server != file)
        .map(move |(field, server, file, change)| Difference { field, product, server, file, change })
}

/// `terms`: how what is fixed from the start on comes to be as the file says.
fn rows_of_item(server: &Item, file: &NewItem, terms: Change) -> Vec<Row> {
    let for_good = Change::Never(SET_FOR_GOOD);
    let total = match file.total.checked_sub(server.total) {
        Some(more) => Change::Restock(more),
        None => Change::Correct(server.total - file.total),
    };
    let of_server = server.line.as_ref().and_then(|line| line.beacon);
    let line = file.line.clone().map(|line| Line { beacon: line.beacon.or(of_server), ..line });
    let mut rows = vec![
        ("title", json!(server.title), json!(file.title), terms),
        ("description", json!(server.description), json!(file.description), terms),
        ("price", json!(server.price), json!(file.price), terms),
        ("list", json!(server.list_price), json!(file.list_price), terms),
        ("total", json!(server.total), json!(file.total), total),
        ("limit", json!(server.limit), json!(file.limit), terms),
        ("line", json!(server.line), json!(line), for_good),
    ];
    let images = (server.image.as_ref(), file.image.as_ref());
    if !images.1.is_some_and(|image| is_address(&image.name)) {
        let (server_name, file_name) = (images.0.map(|image| &image.name), images.1.map(|image| &image.name));
        rows.push(("image", json!(server_name), json!(file_name), for_good));
    }
    if let (Some(server), Some(file)) = images {
        rows.push(("alt", json!(server.alt), json!(file.alt), for_good));
    }
    rows
}

impl Difference {
    /// `price of item 30`
    pub(super) fn name(&self) -> String {
        match self.product {
            Some(product) if self.field == "item" => format!("item {product}"),
            Some(product) => format!("{} of item {product}", self.field),
            None => self.field.to_owned(),
        }
    }

    /// The name and why it can't be changed; `None` if it can.
    pub(super) fn why_never(&self) -> Option<String> {
        let Change::Never(why) = self.change else { return None };
        Some(format!("{} ({why})", self.name()))
    }

    fn change_name(&self) -> (&'static str, Option<u64>) {
        match self.change {
            Change::Edit => ("edit", None),
            Change::Restock(units) => ("restock", Some(units)),
            Change::Correct(units) => ("correct", Some(units)),
            Change::Never(_) => ("never", None),
        }
    }

    fn json(&self) -> Value {
        let (change, units) = self.change_name();
        json!({ "field": self.field, "product": self.product, "server": self.server, "file": self.file,
            "change": change, "units": units })
    }
}

/// For machines: times in milliseconds, prices in the smallest unit, payment in seconds.
pub(super) fn as_json(sale: u64, found: &[Difference]) -> String {
    let found: Vec<_> = found.iter().map(Difference::json).collect();
    format!("{}\n", json!({ "id": sale, "there": true, "differences": found }))
}

/// A line each.
pub(super) fn as_text(server: &Sale, file: &NewSale, found: &[Difference]) -> String {
    let mut text = format!("sale {}: {}\n", server.id, plain(&server.title));
    for difference in found {
        let before = shown(difference.field, &difference.server, &server.currency);
        let after = shown(difference.field, &difference.file, &file.currency);
        let how = match (difference.change, difference.product) {
            (Change::Edit, _) => String::new(),
            (Change::Never(why), _) => format!("  (can't be changed: {why})"),
            (Change::Restock(units) | Change::Correct(units), product) => {
                let (verb, product) = (difference.change_name().0, product.unwrap_or_default());
                format!("  (`doorbuster sale {verb} {} {product} {units}`)", server.id)
            }
        };
        writeln!(text, "  {}: {before} -> {after}{how}", difference.name())
            .expect("a String takes every write");
    }
    text
}

fn shown(field: &str, value: &Value, currency: &str) -> String {
    match (field, value, value.as_u64()) {
        ("item", Value::Null, _) => "not there".to_owned(),
        (_, Value::Null, _) => "none".to_owned(),
        (_, Value::String(text), _) => format!("\"{}\"", plain(text)),
        ("starts_at" | "ends_at", _, Some(ms)) => format_utc_exactly(ms),
        ("price" | "list", _, Some(amount)) => money(amount, currency),
        ("payment", _, Some(seconds)) => format_duration(Duration::from_secs(seconds)),
        _ => value.to_string(),
    }
}
