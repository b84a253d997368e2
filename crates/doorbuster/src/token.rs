//! `doorbuster token`: buyers' tokens for trials, signed as the shop would sign them.
//!
//! Must not: make a secret, or send anything.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand};
use server::Secrets;
use server::clock::wall_clock;
use server::config::{Environment, Sources};
use server::http::{TokenRules, mint};

use crate::failure::Failure;
use crate::output;
use crate::time::parse_duration;

/// Longest time that a token may hold for: a trial's, not a shop's.
const EXPIRES_IN_MAX: Duration = Duration::from_secs(366 * 86_400);

/// Make a buyer's token for trials.
#[derive(Args, Debug)]
pub(crate) struct TokenArguments {
    #[command(subcommand)]
    command: TokenCommand,
}

#[derive(Subcommand, Debug)]
enum TokenCommand {
    Mint(MintArguments),
}

/// Print a token of one buyer, signed (HS256) with the server's token secret.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  doorbuster token mint --config doorbuster.toml --member 42
  curl http://127.0.0.1:8080/api/v1/orders -H \"Authorization: Bearer $(doorbuster token mint \\
      --config doorbuster.toml --member anna@shop.example)\" \\
      -H 'Idempotency-Key: first' -d '{\"sale\":3,\"product\":30}'
  open a page as that buyer: http://127.0.0.1:8080/#token=TOKEN

The secret is auth.token_secret_file's, or DOORBUSTER_AUTH_TOKEN_SECRET. Whoever has it can be any buyer, so a shop signs
its tokens itself, with the same secret and these claims: the buyer in auth.token_claim (usually sub), exp, and iss and aud
where auth.token_issuer and auth.token_audience are set.")]
struct MintArguments {
    /// The buyer: a number, or a text of 1 to 128 bytes
    #[arg(long, value_name = "ID")]
    member: String,

    /// How long it holds: 90s, 15m, 1h30m, 7d
    #[arg(long, value_name = "TIME", default_value = "1h", value_parser = parse_duration)]
    expires_in: Duration,

    /// Its issuer (iss) [default: auth.token_issuer]
    #[arg(long, value_name = "TEXT")]
    issuer: Option<String>,

    /// Its audience (aud) [default: auth.token_audience]
    #[arg(long, value_name = "TEXT")]
    audience: Option<String>,

    /// Configuration file of the server, with the environment on top of it
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
}

pub(crate) fn run(arguments: &TokenArguments, environment: &Environment) -> Result<(), Failure> {
    let TokenCommand::Mint(arguments) = &arguments.command;
    let sources = match &arguments.config {
        Some(path) => Sources::default().file(path),
        None => Sources::default(),
    };
    let config = sources.environment(environment).load()?;
    let secret = Secrets::load_for_tokens(&config, environment)?;
    if !(Duration::from_secs(1)..=EXPIRES_IN_MAX).contains(&arguments.expires_in) {
        return Err(Failure::usage("--expires-in must be from 1s to 366d"));
    }
    let rules = TokenRules {
        claim: config.auth.token_claim.clone(),
        issuer: arguments.issuer.clone().or_else(|| config.auth.token_issuer.clone()),
        audience: arguments.audience.clone().or_else(|| config.auth.token_audience.clone()),
        with_address: false,
        groups: None,
    };
    let expires_s = wall_clock().0 / 1000 + arguments.expires_in.as_secs();
    let token = mint(secret.as_bytes(), &rules, &arguments.member, expires_s).map_err(Failure::usage)?;
    output::print(&format!("{token}\n"))
}
