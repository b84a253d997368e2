//! `doorbuster clock`: what time a running server goes by, and the operator's word that it is right.
//!
//! Must not: judge a clock.

use std::time::Duration;

use clap::{Args, Subcommand};
use serde::Deserialize;
use serde_json::json;
use server::config::Environment;

use crate::client::{Client, ServerArguments};
use crate::failure::Failure;
use crate::output;
use crate::time::{format_duration, format_utc};

/// Show the clock of a running server, or confirm it.
#[derive(Args, Debug)]
#[command(after_help = "\
A server that starts long after it was stopped, or before, does not know what time it is: then its clock stands, and no
sale opens or ends, until somebody says that the system's clock is right. Look at the system's clock before you confirm it:

  doorbuster clock show
  doorbuster clock confirm             the server's clock was wrong, and this one is right
  doorbuster clock confirm --closed    both are right, and the shop was closed in between

If it is wrong, stop the server, set the clock, and start again.

The servers of a cluster compare their clocks with each other, Redis' and the database's. One that is off from most takes no
order until the system's clock is set; then it goes on by itself, and nothing has to be confirmed. But after the machines
of all servers were paused (by a snapshot of their host, say) theirs are the clocks that are off: /readyz says so, and each
is confirmed.")]
pub(crate) struct ClockArguments {
    #[command(subcommand)]
    command: ClockCommand,
}

#[derive(Subcommand, Debug)]
enum ClockCommand {
    /// Show the server's time, the system's, and whether it is confirmed
    Show {
        #[command(flatten)]
        server: ServerArguments,
    },
    /// Say that the system's clock is right: the server takes its time, forward or back
    Confirm {
        /// The server's clock was right too, and the shop was closed since: deadlines that have passed have passed. Without
        /// this, open orders keep the time that they had left, and addresses are kept that much longer
        #[arg(long)]
        closed: bool,
        #[command(flatten)]
        server: ServerArguments,
    },
}

/// The clock as the API gives it.
#[derive(Deserialize)]
struct Clock {
    confirmed: bool,
    now_ms: u64,
    system_ms: u64,
    /// `None`: no sale waits for its start.
    next_start_ms: Option<u64>,
}

#[derive(Deserialize)]
struct Confirmed {
    from_ms: u64,
    to_ms: u64,
}

pub(crate) fn run(arguments: &ClockArguments, environment: &Environment) -> Result<(), Failure> {
    match &arguments.command {
        ClockCommand::Show { server } => {
            let answer = Client::connect(server, environment)?.get("/clock")?;
            if server.json { output::print(&answer.text()) } else { output::print(&show(&answer.read()?)) }
        }
        ClockCommand::Confirm { closed, server } => {
            let answer = Client::connect(server, environment)?.post(
                "/clock/confirm",
                &json!({ "closed": closed }),
                None,
            )?;
            if server.json { output::print(&answer.text()) } else { output::print(&worded(&answer.read()?)) }
        }
    }
}

fn show(clock: &Clock) -> String {
    let (now, system) = (format_utc(clock.now_ms), format_utc(clock.system_ms));
    let next = clock.next_start_ms.map_or_else(
        || "no sale is to start".to_owned(),
        |at| format!("the next sale starts at {}", format_utc(at)),
    );
    let state =
        if clock.confirmed { "it runs" } else { "NOT CONFIRMED, it stands: see `doorbuster clock --help`" };
    let jump = jump(clock.now_ms, clock.system_ms);
    format!("the server's clock says {now}; {state}\nthe system's clock says {system}, {jump}\n{next}\n")
}

fn worded(confirmed: &Confirmed) -> String {
    let Confirmed { from_ms, to_ms } = *confirmed;
    let to = format_utc(to_ms);
    if from_ms == to_ms {
        return format!("the clock is confirmed: it says {to}, as the system's does\n");
    }
    let (from, jump) = (format_utc(from_ms), jump(from_ms, to_ms));
    format!("the clock is confirmed: it said {from} and goes on from {to}, {jump}\n")
}

fn jump(from_ms: u64, to_ms: u64) -> String {
    let by = format_duration(Duration::from_millis(from_ms.abs_diff(to_ms)));
    if to_ms < from_ms { format!("{by} behind") } else { format!("{by} ahead") }
}
