//! `doorbuster queues`: the queues of the topic as brokers and ledger know them, and retiring those that are gone.
//!
//! Speaks to the brokers and the ledger of the configuration, beside the servers. Must not: change a topic.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use server::Secrets;
use server::cluster::{self, QueueCondition, QueueSight};
use server::config::{Config, Environment, Sources};
use server::ledger::mysql::cluster::{Acting, Holder, QueueRow};
use server::queue::Queue;

use crate::acting::ActingArguments;
use crate::failure::Failure;
use crate::output::{self, numbers, plain, words};
use crate::time::format_utc;

/// Look at the queues of the orders, and retire those that were removed (cluster profile).
#[derive(Args, Debug)]
#[command(after_help = "\
The ledger keeps how far each queue was consumed. A queue that is missing may hold orders, so gates are not rebuilt without
it: the log, /readyz and `doorbuster audit` name it. What to do depends on why it is missing:
  - its broker is down: start it. Nothing else brings back what it holds.
  - the topic was given fewer queues, and messages of the queue wait: give it as many as before until they are consumed.
  - the topic was given fewer queues, and nothing waits: nothing has to be done; `retire` clears the row away.
`retire` takes queues that the topic no longer has out of what is waited for. It asks every broker, and refuses if one does
not answer. A queue of that name that comes back later is read on from where it stood. `doorbuster operators log` has it then:
who, when, why, and which queues.

To give a topic fewer queues: first fewer write queues (mqadmin updateTopic -w), then, when `list` shows that nothing waits
in the others, fewer read queues (-r), and then `retire`.

Examples:
  doorbuster queues list --config doorbuster.toml
  doorbuster queues retire --config doorbuster.toml broker-a/4 broker-a/5 --who anna --why \"fewer queues\"")]
pub(crate) struct QueuesArguments {
    #[command(subcommand)]
    command: QueuesCommand,
}

#[derive(Subcommand, Debug)]
enum QueuesCommand {
    /// Show each queue: where the ledger stands, what the broker has, and what waits
    List {
        #[command(flatten)]
        cluster: ClusterArguments,
    },
    /// Wait no longer for queues that were removed from the topic
    Retire {
        #[command(flatten)]
        cluster: ClusterArguments,
        #[command(flatten)]
        acting: ActingArguments,
        /// Also with messages that were not consumed: their orders come to the ledger by their reservations, or are lost
        /// where a gate has lost these
        #[arg(long)]
        with_unread: bool,
        /// BROKER/NUMBER as `list` shows it
        #[arg(value_name = "QUEUE", required = true)]
        queues: Vec<Queue>,
    },
}

#[derive(Args, Debug)]
struct ClusterArguments {
    /// Configuration file of the servers: its sections `queue` and `ledger` say where those are
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
}

pub(crate) fn run(arguments: &QueuesArguments, environment: &Environment) -> Result<(), Failure> {
    match &arguments.command {
        QueuesCommand::List { cluster } => list(&load(cluster, environment)?, environment),
        QueuesCommand::Retire { cluster, acting, with_unread, queues } => {
            retire(&load(cluster, environment)?, environment, (queues, *with_unread), &acting.acting()?)
        }
    }
}

fn load(arguments: &ClusterArguments, environment: &Environment) -> Result<Config, Failure> {
    let sources = match &arguments.config {
        Some(path) => Sources::default().file(path),
        None => Sources::default(),
    };
    Ok(sources.environment(environment).load()?)
}

fn list(config: &Config, environment: &Environment) -> Result<(), Failure> {
    let secrets = Secrets::load_for_ledger(config, environment)?;
    let queues = cluster::queues(config, &secrets).map_err(Failure::unavailable)?;
    if queues.is_empty() {
        return output::print("no queues: no server has made the topic yet\n");
    }
    let rows: Vec<_> = queues.iter().map(cells).collect();
    let columns = [
        words("queue"),
        numbers("ledger"),
        numbers("oldest"),
        numbers("end"),
        numbers("waiting"),
        words("broker"),
        words("read by"),
    ];
    output::print(&output::table(columns, &rows))
}

fn cells(sight: &QueueSight) -> [String; 7] {
    let or_none = |number: Option<u64>| number.map_or_else(|| "-".to_owned(), |number| number.to_string());
    let condition = match &sight.condition {
        QueueCondition::InTopic => "in the topic".to_owned(),
        QueueCondition::ReadOnly => "takes no more".to_owned(),
        QueueCondition::WriteOnly => "can't be read".to_owned(),
        QueueCondition::Removed => "removed".to_owned(),
        QueueCondition::Silent(why) => format!("no answer: {why}"),
    };
    let holder = match sight.row.as_ref() {
        None => "nobody yet".to_owned(),
        Some(row) => match (&row.holder, retired_at(row)) {
            (Holder::Server(server), _) => server.clone(),
            (_, Some(at)) => format!("retired {at}"),
            (_, None) => "nobody".to_owned(),
        },
    };
    [
        sight.queue.to_string(),
        or_none(sight.row.as_ref().map(|row| row.next_offset)),
        or_none(sight.messages.as_ref().map(|messages| messages.start)),
        or_none(sight.messages.as_ref().map(|messages| messages.end)),
        or_none(sight.waiting()),
        plain(&condition),
        plain(&holder),
    ]
}

/// When an operator has retired a queue, if one has.
pub(crate) fn retired_at(row: &QueueRow) -> Option<String> {
    match row.holder {
        Holder::Retired { at } => Some(format_utc(at.0)),
        Holder::Nobody | Holder::Server(_) => None,
    }
}

fn retire(
    config: &Config,
    environment: &Environment,
    (queues, with_unread): (&[Queue], bool),
    acting: &Acting,
) -> Result<(), Failure> {
    let secrets = Secrets::load_for_ledger(config, environment)?;
    let retired = cluster::retire(config, &secrets, queues, with_unread, acting).map_err(|error| {
        if error.is_refusal() { Failure::check(error) } else { Failure::unavailable(error) }
    })?;
    output::print(&retired.iter().map(|retired| format!("retired queue {retired}\n")).collect::<String>())
}
