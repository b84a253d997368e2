//! `doorbuster attempts`: who tries most to order an item of a running server, and from where.
//!
//! Must not: judge who is a machine.

use std::thread::sleep;
use std::time::Duration;

use clap::Args;
use serde::Deserialize;
use server::config::Environment;

use crate::client::{Client, ServerArguments};
use crate::failure::Failure;
use crate::output::{self, numbers, plain, words};

/// Show who tries most to order an item, and from which addresses.
#[derive(Args, Debug)]
#[command(after_help = "\
The buyers and the addresses (IPv6: networks of 64 bits) with the most attempts of the last minute and of the night so far,
and what came of these. It needs the role support. In a cluster any server shows the sum of all, within a second or two, and says how
many have not reported.

  doorbuster attempts --sale 3 --product 29

Numbers are exact while fewer than about a thousand have tried; then they may be too low by what stands under \"missed\".
What to do: a limit for each buyer (`doorbuster sale edit --item`), admission.orders_per_s_per_buyer, or your proxy, for an
address. Many buyers behind one address may be a company's or a carrier's.")]
pub(crate) struct AttemptsArguments {
    /// The sale's number
    #[arg(long)]
    sale: u64,
    /// The product's number
    #[arg(long)]
    product: u64,
    #[command(flatten)]
    server: ServerArguments,
}

#[derive(Deserialize)]
struct Found {
    /// An older server does not give them.
    #[serde(default = "one")]
    servers: u64,
    #[serde(default)]
    servers_missing: u64,
    uncounted: u64,
    night: Lists,
    minute: Lists,
}

#[derive(Deserialize)]
struct Lists {
    buyers: Vec<Tried>,
    buyers_missed_max: u64,
    addresses: Vec<Tried>,
    addresses_missed_max: u64,
}

#[derive(Deserialize)]
struct Tried {
    who: String,
    attempts: u64,
    missed_max: u64,
    accepted: u64,
    replayed: u64,
    refused_closed: u64,
    refused_stock: u64,
    refused_limit: u64,
    refused_invalid: u64,
    busy: u64,
    unknown: u64,
}

fn one() -> u64 {
    1
}

/// The other servers of a cluster report what they counted soon after the first question.
const ASKED_AT_MOST: u32 = 8;
const ASKED_EVERY: Duration = Duration::from_millis(400);

pub(crate) fn run(arguments: &AttemptsArguments, environment: &Environment) -> Result<(), Failure> {
    let AttemptsArguments { sale, product, server } = arguments;
    let path = format!("/sales/{sale}/items/{product}/attempts");
    let client = Client::connect(server, environment)?;
    let mut asked = 1;
    loop {
        let answer = client.get(&path)?;
        let found: Found = answer.read()?;
        if found.servers_missing == 0 || asked >= ASKED_AT_MOST {
            return output::print(&if server.json { answer.text() } else { text(&found) });
        }
        asked += 1;
        sleep(ASKED_EVERY);
    }
}

fn text(found: &Found) -> String {
    let mut text = String::new();
    for (lists, when) in [(&found.minute, "the last minute"), (&found.night, "the night so far")] {
        text += &list("buyer", when, &lists.buyers, lists.buyers_missed_max);
        text += &list("address", when, &lists.addresses, lists.addresses_missed_max);
    }
    match (found.servers, found.servers_missing) {
        (1, 0) => {}
        (servers, 0) => text += &format!("the sum of {servers} servers\n"),
        (servers, missing) => {
            text += &format!("of {servers} of {} servers: the others have not reported\n", servers + missing)
        }
    }
    if found.uncounted > 0 {
        text += &format!("{} attempts were not counted: too many sales at a time\n", found.uncounted);
    }
    text
}

fn list(whose: &'static str, when: &str, tried: &[Tried], missed_max: u64) -> String {
    if tried.is_empty() {
        return format!("{whose}, {when}: nobody tried\n\n");
    }
    let columns = [
        words(whose),
        numbers("attempts"),
        numbers("missed"),
        numbers("accepted"),
        numbers("replayed"),
        numbers("closed"),
        numbers("no stock"),
        numbers("limit"),
        numbers("invalid"),
        numbers("busy"),
        numbers("unknown"),
    ];
    let rows: Vec<_> = tried.iter().map(row).collect();
    let others = match missed_max {
        0 => String::new(),
        at_most => format!(" (whoever is not counted tried at most {at_most} times)"),
    };
    format!("{whose}, {when}{others}\n{}\n", output::table(columns, &rows))
}

fn row(tried: &Tried) -> [String; 11] {
    [
        plain(&tried.who),
        tried.attempts.to_string(),
        tried.missed_max.to_string(),
        tried.accepted.to_string(),
        tried.replayed.to_string(),
        tried.refused_closed.to_string(),
        tried.refused_stock.to_string(),
        tried.refused_limit.to_string(),
        tried.refused_invalid.to_string(),
        tried.busy.to_string(),
        tried.unknown.to_string(),
    ]
}
