//! `doorbuster sale pause` and `resume`, with what either comes to.

use clap::Args;
use serde::Deserialize;
use serde_json::json;
use server::config::Environment;
use server::figures::grouped;

use super::{ENDED, Sale, server_time};
use crate::client::{Client, ServerArguments};
use crate::failure::Failure;
use crate::output::{self, plain, units_of};
use crate::time::format_utc;

/// How often an open page asks for the stock of a sale that runs.
const PAGE_ASKS_EVERY_S: f64 = 1.5;

/// A sale, and what is about to be done to it.
#[derive(Args, Debug)]
pub(super) struct PauseArguments {
    /// The sale's number, as `doorbuster sale list` shows it
    sale: u64,
    /// Say what comes of it, and do nothing
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    server: ServerArguments,
}

/// As far as it is read here.
#[derive(Deserialize)]
struct Figures {
    sales: Vec<OfSale>,
}

#[derive(Deserialize)]
struct OfSale {
    id: u64,
    /// One that is older, or does not hear of all servers of a cluster, does not say.
    stock_asked_per_s: Option<f64>,
}

pub(super) fn pause(arguments: &PauseArguments, environment: &Environment) -> Result<(), Failure> {
    steer(arguments, "pause", environment)
}

pub(super) fn resume(arguments: &PauseArguments, environment: &Environment) -> Result<(), Failure> {
    steer(arguments, "resume", environment)
}

fn steer(arguments: &PauseArguments, verb: &str, environment: &Environment) -> Result<(), Failure> {
    let PauseArguments { sale: id, dry_run, server } = arguments;
    let client = Client::connect(server, environment)?;
    let path = format!("/sales/{id}/{verb}");
    if server.json && !*dry_run {
        return output::print(&client.post(&path, &json!({}), None)?.text());
    }
    let before = super::find(&client, *id)?;
    let before = before.ok_or_else(|| Failure::check(format!("there is no sale {id}")))?;
    let was_so = before.state != ENDED && (before.state == "paused") == (verb == "pause");
    let says = match verb {
        // It is the server's to refuse.
        _ if was_so || before.state == ENDED => String::new(),
        "resume" => says_resume(&before, server_time(&client)?),
        _ => says_pause(&before, open_pages(&client, *id)),
    };
    if *dry_run {
        let says = match (before.state.as_str(), was_so) {
            (ENDED, _) => return Err(Failure::check(format!("sale {id} is over: it can't be {verb}d"))),
            (_, true) => becomes(&before, true) + "\n",
            (_, false) => says,
        };
        return output::print(&format!("{says}nothing was {verb}d\n"));
    }
    // What it comes to is said once it is so: whoever may not do it is told that alone.
    let after: Sale = client.post(&path, &json!({}), None)?.read()?;
    output::print(&format!("{says}{}\n", becomes(&after, was_so)))
}

fn becomes(sale: &Sale, was_so: bool) -> String {
    let Sale { id, state, starts_at_ms, .. } = sale;
    match state.as_str() {
        "not_started" => format!("sale {id} is not paused; it starts at {}", format_utc(*starts_at_ms)),
        state => format!("sale {id} is {}{}", plain(state), if was_so { " already" } else { "" }),
    }
}

/// About so many; `None`: not known.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "pages that people look at")]
fn open_pages(client: &Client, id: u64) -> Option<u64> {
    let figures: Figures = client.get("/figures").ok()?.read().ok()?;
    let asked = figures.sales.iter().find(|sale| sale.id == id)?.stock_asked_per_s?;
    Some((asked * PAGE_ASKS_EVERY_S).round() as u64)
}

fn says_pause(sale: &Sale, pages: Option<u64>) -> String {
    let (id, title, left, ends) = shown(sale);
    let held = units_of(sale.items.iter().map(|item| item.held.unwrap_or(0)).sum(), "held ");
    let pages =
        pages.map_or_else(String::new, |pages| format!(" About {} open pages say so.", grouped(pages)));
    format!(
        "Pauses sale {id}, “{title}”: nobody can order of its {left} left until it is resumed; it still ends at {ends}. {held} \
         can be paid as before.{pages}\n"
    )
}

fn says_resume(sale: &Sale, now_ms: u64) -> String {
    let (id, title, left, ends) = shown(sale);
    let once = if sale.starts_at_ms > now_ms { ", once it has started" } else { "" };
    format!("Resumes sale {id}, “{title}”: {left} can be ordered until {ends}{once}.\n")
}

/// Number, title, units that are left, and the end.
fn shown(sale: &Sale) -> (u64, String, String, String) {
    let left = units_of(sale.items.iter().map(|item| item.available).sum(), "");
    (sale.id, plain(&sale.title), left, format_utc(sale.ends_at_ms))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pause_says_whom_it_reaches() {
        let sale = json!({
            "id": 3, "title": "Drop", "currency": "EUR", "state": "live", "starts_at_ms": 1_796_119_200_000_u64,
            "ends_at_ms": 1_796_122_800_000_u64, "payment_s": 900, "items_total": 1, "items_next_cursor": null,
            "items": [{ "product": 30, "title": "Shoe", "description": "", "image": null, "price": 1, "list_price": 1, "limit": null, "total": 4_000,
                "available": 3_000, "held": 1_000, "sold": 0 }],
        });
        let sale: Sale = serde_json::from_value(sale).unwrap();
        assert_eq!(
            says_pause(&sale, Some(4_213)),
            "Pauses sale 3, “Drop”: nobody can order of its 3,000 units left until it is resumed; it still ends at \
             2026-12-01T11:00:00Z. 1,000 held units can be paid as before. About 4,213 open pages say so.\n"
        );
        assert!(says_pause(&sale, None).ends_with("as before.\n"));
        let resumes = "Resumes sale 3, “Drop”: 3,000 units can be ordered until 2026-12-01T11:00:00Z";
        assert_eq!(says_resume(&sale, sale.starts_at_ms - 1), format!("{resumes}, once it has started.\n"));
        assert_eq!(says_resume(&sale, sale.starts_at_ms), format!("{resumes}.\n"));
    }
}
