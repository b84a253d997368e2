//! `doorbuster bench producer` and `bench consumer`: RocketMQ's own benchmark programs, with the same flags.
//!
//! Raw arguments become checked options here, and each window becomes a line.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use ::bench::target::address::resolve;
use ::bench::tools::{self, ConsumerOptions, ProducerOptions};
use clap::{ArgAction, Args};

use super::signals::stop_on_signals;
use crate::failure::Failure;
use crate::output;

/// Characters of a topic's name, and of a group's.
const TOPIC_MAX: usize = 127;
const GROUP_MAX: usize = 255;

/// Send messages to a running RocketMQ, as its own benchmark does
#[derive(Args, Debug)]
#[command(after_help = "\
Prints a line each 10 seconds; at the end, or at Ctrl-C, one of what came since, and the sum. Exits with 0.

Example:
  doorbuster bench producer -n 127.0.0.1:17040 -t bench -w 64 -s 128 -k false --seconds 30")]
pub(super) struct ProducerArguments {
    /// The name server
    #[arg(short = 'n', long = "namesrv", value_name = "ADDR", value_parser = resolve)]
    namesrv: SocketAddr,
    /// The topic; made if no broker has it
    #[arg(short = 't', long, value_name = "NAME", default_value = "BenchmarkTest", value_parser = topic)]
    topic: String,
    /// Threads: connections with one message under way each
    #[arg(short = 'w', long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u16).range(1..=10_000))]
    threads: u16,
    /// Size of each message's body in bytes
    #[arg(short = 's', long, value_name = "BYTES", default_value_t = 128, value_parser = clap::value_parser!(u32).range(1..=4_000_000))]
    size: u32,
    /// Whether messages have keys to be looked up by
    #[arg(short = 'k', long, value_name = "BOOL", default_value_t = false, action = ArgAction::Set)]
    keys: bool,
    /// Queues on each broker, of a topic that is made
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    queues: Option<u32>,
    /// Messages in each request
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1024))]
    batch: u32,
    /// End after so many seconds [default: at Ctrl-C]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    seconds: Option<u64>,
}

/// Take messages from a running RocketMQ, as its own benchmark does
#[derive(Args, Debug)]
#[command(after_help = "\
Prints a line each 10 seconds; at the end, or at Ctrl-C, one of what came since, and the sum. Exits with 0.

Example:
  doorbuster bench consumer -n 127.0.0.1:17040 -t bench -g readers --from-start --seconds 30")]
pub(super) struct ConsumerArguments {
    /// The name server
    #[arg(short = 'n', long = "namesrv", value_name = "ADDR", value_parser = resolve)]
    namesrv: SocketAddr,
    /// The topic
    #[arg(short = 't', long, value_name = "NAME", default_value = "BenchmarkTest", value_parser = topic)]
    topic: String,
    /// The group under whose name it reads; its offsets are not touched
    #[arg(short = 'g', long, value_name = "NAME", default_value = "benchmark_consumer", value_parser = group)]
    group: String,
    /// From the oldest message that is there; otherwise only what comes from now on
    #[arg(long)]
    from_start: bool,
    /// End after so many seconds [default: at Ctrl-C]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    seconds: Option<u64>,
}

/// As RocketMQ itself checks them: what it refuses is said before anything is connected. Nothing of a name has to be escaped
/// on its way to a broker.
fn topic(text: &str) -> Result<String, String> {
    name(text, TOPIC_MAX)
}

fn group(text: &str) -> Result<String, String> {
    name(text, GROUP_MAX)
}

fn name(text: &str, most: usize) -> Result<String, String> {
    let known = |c: char| c.is_ascii_alphanumeric() || "%|-_".contains(c);
    if text.is_empty() || text.len() > most || !text.chars().all(known) {
        return Err(format!("RocketMQ takes names of 1 to {most} letters, digits and any of % | - _"));
    }
    Ok(text.to_owned())
}

pub(super) fn produce(arguments: &ProducerArguments) -> Result<(), Failure> {
    let stop = stop()?;
    let options = ProducerOptions {
        namesrv: arguments.namesrv,
        topic: arguments.topic.clone(),
        threads: arguments.threads.into(),
        message_bytes: usize::try_from(arguments.size).map_err(Failure::usage)?,
        keys: arguments.keys,
        queues: arguments.queues,
        batch: arguments.batch,
        seconds: arguments.seconds,
    };
    let mut printed = Ok(());
    let report = tools::producer(&options, &stop, |line| {
        if printed.is_ok() {
            printed = output::print(&format!("{line}\n"));
        }
    });
    printed?;
    output::print(&format!("{}\n", report.map_err(|error| Failure::unavailable(format!("{error:#}")))?))
}

pub(super) fn consume(arguments: &ConsumerArguments) -> Result<(), Failure> {
    let stop = stop()?;
    let options = ConsumerOptions {
        namesrv: arguments.namesrv,
        topic: arguments.topic.clone(),
        group: arguments.group.clone(),
        from_start: arguments.from_start,
        seconds: arguments.seconds,
    };
    let mut printed = Ok(());
    let report = tools::consumer(&options, &stop, |line| {
        if printed.is_ok() {
            printed = output::print(&format!("{line}\n"));
        }
    });
    printed?;
    output::print(&format!("{}\n", report.map_err(|error| Failure::unavailable(format!("{error:#}")))?))
}

fn stop() -> Result<Arc<AtomicBool>, Failure> {
    let stop = Arc::new(AtomicBool::new(false));
    stop_on_signals(&stop)?;
    Ok(stop)
}
