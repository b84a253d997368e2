//! `doorbuster dead-letters`: the messages that no consumer understood, listed and sent again.
//!
//! Speaks to the brokers of the configuration, beside the servers. A replayed message gets a note in the topic of
//! dead letters, so that it is replayed by `--all` once. Must not: look into a message, or change one.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use clap::{Args, Subcommand};
use engine::{Action, limits};
use server::Secrets;
use server::cluster::{self, PassOverError};
use server::config::{Config, Environment, Sources};
use server::ledger::mysql::cluster::{Acting, SharedLedger};
use server::queue::dead_letters::{DeadLetter, ReadRecord, Record, place, read_all};
use server::queue::{Options, Producer, PullError, Queue, SendError, Topics};

use crate::acting::ActingArguments;
use crate::failure::Failure;
use crate::output::{self, numbers, plain, words};
use crate::time::format_utc;

/// Name of these commands to the brokers.
const GROUP: &str = "doorbuster-operator";

/// List and replay messages that no server understood (cluster profile).
#[derive(Args, Debug)]
#[command(after_help = "\
A server puts a message aside that it can't read, with the reason, and goes on. Such a message is lost to nobody: its
units are sold by the reservation that it was made from. Look at the reason first: a replay by servers that can't read
it either makes a new dead letter. Replaying one that was read in the meantime changes nothing, for its order is known.

A queue whose next message the broker has lost, or can't give whole, is not read on, and its server takes no orders: the
log says \"a queue can't be read\". `pass-over` moves it behind what can't be read, and nothing else. Orders among that
come to the ledger by their reservations, where the gates have kept them; do it before a gate is rebuilt.

Both leave an entry in `doorbuster operators log`: who, when, why, and which letters or messages. Who has the ledger's
password is not asked for a token: the name is believed.

Examples:
  doorbuster dead-letters list --config doorbuster.toml
  doorbuster dead-letters replay --config doorbuster.toml broker-a/3/1742
  doorbuster dead-letters replay --config doorbuster.toml --all --who anna --why \"release 2 reads them\"
  doorbuster dead-letters pass-over --config doorbuster.toml broker-a/3")]
pub(crate) struct DeadLettersArguments {
    #[command(subcommand)]
    command: DeadLettersCommand,
}

#[derive(Subcommand, Debug)]
enum DeadLettersCommand {
    /// Show them, the oldest first
    List {
        #[command(flatten)]
        broker: BrokerArguments,
    },
    /// Send them to the topic of orders again
    Replay {
        #[command(flatten)]
        broker: BrokerArguments,
        #[command(flatten)]
        acting: ActingArguments,
        /// Every one that was not replayed yet
        #[arg(long, conflicts_with = "letters")]
        all: bool,
        /// BROKER/QUEUE/OFFSET as `list` shows it; replayed even if it was before
        #[arg(value_name = "LETTER", required_unless_present = "all")]
        letters: Vec<String>,
    },
    /// Go on reading a queue after messages that are gone or damaged
    PassOver {
        #[command(flatten)]
        broker: BrokerArguments,
        #[command(flatten)]
        acting: ActingArguments,
        /// BROKER/QUEUE as the log says it
        #[arg(value_name = "QUEUE")]
        queue: Queue,
    },
}

#[derive(Args, Debug)]
struct BrokerArguments {
    /// Configuration file of the servers: its sections `queue` and `ledger` say where those are
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
}

struct Brokers {
    options: Options,
    topics: Topics,
}

/// Sends letters again, and notes in the ledger which, and who did it.
struct Replay {
    brokers: Brokers,
    ledger: SharedLedger,
    acting: Acting,
}

/// A letter without its body.
struct Line {
    at_ms: u64,
    reason: String,
    bytes: usize,
    replayed: bool,
}

pub(crate) fn run(arguments: &DeadLettersArguments, environment: &Environment) -> Result<(), Failure> {
    match &arguments.command {
        DeadLettersCommand::List { broker } => list(&brokers(broker, environment)?),
        DeadLettersCommand::Replay { broker, acting, all, letters } => {
            let replay = Replay::open(broker, acting, environment)?;
            if *all { replay.all() } else { replay.these(letters) }
        }
        DeadLettersCommand::PassOver { broker, acting, queue } => {
            let config = sources(broker).environment(environment).load()?;
            pass_over(&config, environment, queue, &acting.acting()?)
        }
    }
}

fn pass_over(
    config: &Config,
    environment: &Environment,
    queue: &Queue,
    acting: &Acting,
) -> Result<(), Failure> {
    let secrets = Secrets::load_for_ledger(config, environment)?;
    let passed = cluster::pass_over(config, &secrets, queue, acting).map_err(|error| match error {
        PassOverError::Sound { .. } | PassOverError::Unknown(_) | PassOverError::Moved(_) => {
            Failure::check(error)
        }
        _ => Failure::unavailable(error),
    })?;
    output::print(&format!(
        "passed over {} message(s) of queue {queue}: {} to {} (exclusive)\n",
        passed.end - passed.start,
        passed.start,
        passed.end
    ))
}

fn sources(arguments: &BrokerArguments) -> Sources {
    let sources = Sources::default();
    match &arguments.config {
        Some(path) => sources.file(path),
        None => sources,
    }
}

fn brokers(arguments: &BrokerArguments, environment: &Environment) -> Result<Brokers, Failure> {
    let config = sources(arguments).environment(environment).load()?;
    let secrets = Secrets::load_for_ledger(&config, environment)?;
    let options = cluster::queue_options(&config, &secrets).map_err(Failure::usage)?;
    Ok(Brokers {
        options: Options { group: GROUP.into(), ..options },
        topics: Topics::new(&config.queue.topic),
    })
}

fn list(brokers: &Brokers) -> Result<(), Failure> {
    let (lines, unreadable) = lines(brokers)?;
    let mut sorted: Vec<_> = lines.iter().collect();
    sorted.sort_by_key(|(name, line)| (line.at_ms, *name));
    let rows: Vec<_> = sorted
        .into_iter()
        .map(|(name, line)| {
            [
                plain(name),
                format_utc(line.at_ms),
                line.bytes.to_string(),
                if line.replayed { "yes" } else { "no" }.to_owned(),
                plain(&line.reason),
            ]
        })
        .collect();
    let columns = [words("letter"), words("time"), numbers("bytes"), words("replayed"), words("reason")];
    if rows.is_empty() {
        output::print("no dead letters\n")?;
    } else {
        output::print(&output::table(columns, &rows))?;
    }
    complain(&unreadable)
}

impl Replay {
    /// The ledger first: without it nothing is sent, for nobody would know who did it.
    fn open(
        broker: &BrokerArguments,
        acting: &ActingArguments,
        environment: &Environment,
    ) -> Result<Replay, Failure> {
        let acting = acting.acting()?;
        let brokers = brokers(broker, environment)?;
        let config = sources(broker).environment(environment).load()?;
        let secrets = Secrets::load_for_ledger(&config, environment)?;
        let ledger = SharedLedger::open(&config.ledger.mysql_options(&secrets)).map_err(|error| {
            Failure::unavailable(format!(
                "nothing was replayed, for the ledger can't keep who did it: {error}"
            ))
        })?;
        Ok(Replay { brokers, ledger, acting })
    }

    fn all(mut self) -> Result<(), Failure> {
        let (lines, unreadable) = lines(&self.brokers)?;
        let open = lines.into_iter().filter(|(_, line)| !line.replayed).map(|(name, _)| name).collect();
        let count = self.send(open)?;
        output::print(&format!("{count} replayed\n"))?;
        complain(&unreadable)
    }

    fn these(mut self, letters: &[String]) -> Result<(), Failure> {
        let wanted: BTreeSet<String> = letters.iter().cloned().collect();
        let (lines, _) = lines(&self.brokers)?;
        let missing: Vec<&str> =
            wanted.iter().filter(|name| !lines.contains_key(*name)).map(String::as_str).collect();
        if !missing.is_empty() {
            let list = "`doorbuster dead-letters list` shows what there is; nothing was replayed";
            return Err(Failure::check(format!("no dead letter is called {}: {list}", missing.join(", "))));
        }
        let count = self.send(wanted)?;
        output::print(&format!("{count} replayed\n"))
    }

    /// What was sent before it stopped is kept, too.
    fn send(&mut self, wanted: BTreeSet<String>) -> Result<usize, Failure> {
        let mut sent = Vec::new();
        let stopped = send_again(&self.brokers, wanted, &mut sent);
        let kept = self.ledger.keep_actions(&self.acting, Action::DeadLettersReplayed, lists(&sent));
        stopped?;
        kept.map_err(|error| {
            let count = sent.len();
            Failure::unavailable(format!(
                "{count} replayed, but the operators' log does not have it: {error}"
            ))
        })?;
        Ok(sent.len())
    }
}

/// Names, as many together as an entry takes.
fn lists(names: &[String]) -> Vec<String> {
    let mut lists: Vec<String> = Vec::new();
    for name in names {
        match lists.last_mut() {
            Some(list) if list.len() + 1 + name.len() <= limits::PAYMENT_ID_BYTES_MAX => {
                list.push(' ');
                list.push_str(name);
            }
            _ => lists.push(name.clone()),
        }
    }
    lists
}

/// What there is, by place; and why some records are none.
fn lines(brokers: &Brokers) -> Result<(BTreeMap<String, Line>, Vec<String>), Failure> {
    let mut lines: BTreeMap<String, Line> = BTreeMap::new();
    let mut replayed = BTreeSet::new();
    let mut unreadable = Vec::new();
    let visit = |read: ReadRecord| {
        match read.record {
            Ok(Record::Letter(letter)) => {
                let DeadLetter { at, reason, bytes, .. } = &letter;
                let line = Line { at_ms: at.0, reason: reason.clone(), bytes: *bytes, replayed: false };
                lines.entry(letter.place()).or_insert(line);
            }
            Ok(Record::Replayed { queue, offset }) => drop(replayed.insert(place(&queue, offset))),
            Err(error) => unreadable.push(format!("{}: {error}", place(&read.queue, read.offset))),
        }
        Ok::<(), PullError>(())
    };
    read_all(brokers.options.clone(), &brokers.topics.dead_letters, visit).map_err(cannot_read)?;
    for (name, line) in &mut lines {
        line.replayed = replayed.contains(name);
    }
    Ok((lines, unreadable))
}

/// Sends these letters' messages again, reading them once more: a message at a time is in memory.
fn send_again(
    brokers: &Brokers,
    mut wanted: BTreeSet<String>,
    names_sent: &mut Vec<String>,
) -> Result<(), Failure> {
    let mut producer = Producer::new(brokers.options.clone());
    let visit = |read: ReadRecord| {
        let Ok(Record::Letter(letter)) = read.record else { return Ok(()) };
        let (name, count) = (letter.place(), names_sent.len());
        if !wanted.remove(&name) {
            return Ok(());
        }
        let Some(body) = &letter.body else {
            let kept =
                "it was too long to be kept; it is where it was sent to, for as long as the broker keeps it";
            return Err(Stopped(Failure::check(format!(
                "{name} can't be replayed after {count} others: {kept}"
            ))));
        };
        let (queue, offset) = (letter.queue.clone(), letter.offset);
        let note = Record::Replayed { queue, offset }.encode();
        // The note comes second: without it the message is replayed once more, which changes nothing.
        let stopped = |error| Stopped(cannot_send(&name, count, &error));
        producer.send(&brokers.topics.orders, &[body]).map_err(stopped)?;
        names_sent.push(name.clone());
        producer.send(&brokers.topics.dead_letters, &[note]).map_err(stopped)
    };
    read_all(brokers.options.clone(), &brokers.topics.dead_letters, visit)
        .map_err(|stopped: Stopped| stopped.0)
}

/// Why a walk through the letters ended early.
struct Stopped(Failure);

impl From<PullError> for Stopped {
    fn from(error: PullError) -> Stopped {
        Stopped(cannot_read(error))
    }
}

fn cannot_read(error: PullError) -> Failure {
    let message = format!("the dead letters can't be read: {error}");
    if error.is_retryable() { Failure::unavailable(message) } else { Failure::check(message) }
}

fn cannot_send(name: &str, count: usize, error: &SendError) -> Failure {
    Failure::unavailable(format!(
        "stopped at {name}, after {count} others were replayed: {error}. It is safe to run the command again."
    ))
}

fn complain(unreadable: &[String]) -> Result<(), Failure> {
    if unreadable.is_empty() {
        return Ok(());
    }
    let lines: String = unreadable.iter().map(|line| format!("\n  {}", plain(line))).collect();
    Err(Failure::check(format!(
        "{} record(s) in the topic of dead letters are none:{lines}",
        unreadable.len()
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_listed_together_as_far_as_an_entry_goes() {
        let names: Vec<String> = (0..1_000).map(|offset| format!("broker-a/3/{offset}")).collect();
        let lists = lists(&names);
        assert!(lists.iter().all(|list| list.len() <= limits::PAYMENT_ID_BYTES_MAX));
        assert!(lists.len() < names.len() / 10, "{}", lists.len());
        assert_eq!(lists.join(" "), names.join(" "));
    }
}
