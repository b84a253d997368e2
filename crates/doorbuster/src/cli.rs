//! The command line as a whole: the list of commands, and what becomes of a wrong one.

use std::io::{self, Write};
use std::process::ExitCode;

use clap::error::ErrorKind;
use clap::{Command, CommandFactory as _, FromArgMatches as _, Parser, Subcommand};

use crate::attempts::AttemptsArguments;
use crate::bench::BenchArguments;
use crate::buyers::BuyersArguments;
use crate::clock::ClockArguments;
use crate::config::ConfigArguments;
use crate::dead_letters::DeadLettersArguments;
use crate::demo::DemoArguments;
use crate::draw::DrawArguments;
use crate::failure;
use crate::images::ImagesArguments;
use crate::init::InitArguments;
use crate::ledger::{AuditArguments, BackupArguments};
use crate::operators::OperatorsArguments;
use crate::orders::OrdersArguments;
use crate::queues::QueuesArguments;
use crate::receipt::ReceiptArguments;
use crate::refunds::RefundsArguments;
use crate::rehearse::RehearseArguments;
use crate::sale::SaleArguments;
use crate::serve::ServeArguments;
use crate::status::StatusArguments;
use crate::token::TokenArguments;
use crate::watch::WatchArguments;
use crate::webhooks::WebhooksArguments;

/// Takes the orders of a flash sale: sells a limited stock exactly, and keeps every accepted order through a crash.
#[derive(Parser, Debug)]
#[command(
    name = "doorbuster",
    version,
    max_term_width = 110,
    after_help = "\
Start here:
  doorbuster serve --demo                    a running sale to look at: http://127.0.0.1:8080
  doorbuster init                            configuration, secrets and a systemd unit, from five questions
  doorbuster serve --config doorbuster.toml
  doorbuster sale create --help              your first sale

Exit codes: 0 done; 1 a check failed or the server refused; 2 a measurement is invalid; 64 wrong arguments or
configuration; 69 can't serve, or the server can't be reached."
)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: CommandGroup,
}

/// Commands that change nothing.
const LOOKING: [&str; 2] = ["status", "watch"];

/// What was typed, or what is wrong with it.
pub(crate) fn parse() -> Result<Cli, clap::Error> {
    let mut command = without_why(with_negative_numbers(Cli::command()));
    let matches = command.try_get_matches_from_mut(std::env::args_os())?;
    Cli::from_arg_matches(&matches).map_err(|error| error.format(&mut command))
}

/// What only looks has nothing that is kept in the operators' log.
fn without_why(command: Command) -> Command {
    LOOKING.into_iter().fold(command, |command, name| {
        command.mut_subcommand(name, |looks| looks.mut_arg("why", |why| why.hide(true)))
    })
}

/// Of `--price -1`, the value is wrong, and -1 is no option.
fn with_negative_numbers(command: Command) -> Command {
    let is_valued = |argument: &clap::Arg| argument.get_action().takes_values();
    command
        .mut_args(|argument| {
            let allowed = is_valued(&argument);
            argument.allow_negative_numbers(allowed)
        })
        .mut_subcommands(with_negative_numbers)
}

#[derive(Subcommand, Debug)]
pub(crate) enum CommandGroup {
    Serve(ServeArguments),
    Sale(SaleArguments),
    Rehearse(RehearseArguments),
    Status(StatusArguments),
    Watch(WatchArguments),
    Attempts(AttemptsArguments),
    Audit(AuditArguments),
    Orders(OrdersArguments),
    Refunds(RefundsArguments),
    Buyers(BuyersArguments),
    Images(ImagesArguments),
    Operators(OperatorsArguments),
    Webhooks(WebhooksArguments),
    Backup(BackupArguments),
    Clock(ClockArguments),
    DeadLetters(DeadLettersArguments),
    Draw(DrawArguments),
    Receipt(ReceiptArguments),
    Queues(QueuesArguments),
    Token(TokenArguments),
    Demo(DemoArguments),
    Config(ConfigArguments),
    Init(InitArguments),
    Bench(BenchArguments),
}

/// Shows help and version on standard output (0), everything else on standard error (64) in a line or two.
pub(crate) fn exit_code_of(error: &clap::Error) -> ExitCode {
    match error.kind() {
        // If the writing fails nobody can learn of it; `| head` is no error.
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => {
            error.print().ok();
            ExitCode::SUCCESS
        }
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            error.print().ok();
            failure::usage_exit_code()
        }
        _ => {
            io::stderr().write_all(in_two_lines(&error.to_string()).as_bytes()).ok();
            failure::usage_exit_code()
        }
    }
}

/// What the standard library says of a text that is no number, and what people understand.
const NO_NUMBER: [(&str, &str); 2] = [
    ("invalid digit found in string", "it is not a whole number"),
    ("cannot parse integer from empty string", "it is not a whole number"),
];

/// The parser's error without its blank lines and its usage summary, for which `--help` is the better place.
fn in_two_lines(rendered: &str) -> String {
    let reason =
        rendered.lines().take_while(|line| !line.starts_with("Usage:") && !line.starts_with("For more"));
    let words: Vec<&str> = reason.map(str::trim).filter(|line| !line.is_empty()).collect();
    let end = rendered.lines().last().filter(|line| line.starts_with("For more")).unwrap_or_default();
    let words = NO_NUMBER.iter().fold(words.join(" "), |words, (from, to)| words.replace(from, to));
    format!("{words}\n{end}\n").replace("\n\n", "\n")
}
