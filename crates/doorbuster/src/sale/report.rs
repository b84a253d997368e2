//! `doorbuster sale report`: what a sale came to, from the ledger, and from the figures that were kept beside it.
//!
//! Must not: add anything up; the ledger's report does. What is not known is named, and never shown as 0.

use std::path::{Path, PathBuf};

use clap::Args;
use server::clock::wall_clock;
use server::config::Environment;
use server::figures::Kept;
use server::ledger::{Audit, SaleReport};
use server::reported::Reported;

use super::certificate::{self, Certified};
use super::gates::GateAndQueue;
use super::{report_html, report_text};
use crate::cluster_audit;
use crate::failure::Failure;
use crate::ledger::{LedgerArguments, cannot_audit};
use crate::new_file::NewFile;
use crate::output;

/// Report what a sale came to, when it is over or so far.
#[derive(Args, Debug)]
#[command(after_help = "\
Reads the whole ledger once, while a server runs on it or not, and audits it by the way: units, orders by what became of
them, when it sold out, the fullest second, how soon holds were paid, payments, refunds, and what operators did. All of it is
as of one entry, which is named. What was refused and why, how fast the answers were, and when the verdict was not green, comes
from figures.db in the data directory, or of a server of this machine in figures.history_dir, as far as that was kept. Takes as
much memory as the server's book.

Exit codes: 0 reported; 1 there is no such sale, or the audit is not clean.

Examples:
  doorbuster sale report 3 --data-dir var/doorbuster
  doorbuster sale report 3 --config doorbuster.toml     the ledger that the server has by this file, also a cluster's
  doorbuster sale report 3 --data-dir var/doorbuster --json | jq .report.orders.paid
  doorbuster sale report 3 --data-dir var/doorbuster --html winter-drop.html --certificate winter-drop.json
  doorbuster sale report 3 --config doorbuster.toml --certificate winter-drop.json --key report-key")]
pub(super) struct ReportArguments {
    /// The sale's number
    sale: u64,
    #[command(flatten)]
    ledger: LedgerArguments,
    /// All of it, as JSON; amounts in the currency's smallest unit, times in milliseconds since 1970
    #[arg(long)]
    json: bool,
    /// Also write it to this file, as a page in one piece, to be sent on or printed. The file must not exist
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Also write it to this file, signed; `doorbuster sale verify` checks it. The file must not exist. Of a cluster, gate and
    /// queue are audited with it
    #[arg(long, value_name = "FILE")]
    certificate: Option<PathBuf>,
    /// The key that signs: made if there is none [default: ledger.signing_key_file, or report-key in the data directory]
    #[arg(long, value_name = "FILE", requires = "certificate")]
    key: Option<PathBuf>,
}

pub(super) fn run(arguments: &ReportArguments, environment: &Environment) -> Result<(), Failure> {
    let source = arguments.ledger.source(environment)?;
    let key = arguments.ledger.key_file(arguments.key.as_deref(), environment)?;
    let three = match arguments.certificate {
        Some(_) if key.is_none() => return Err(certificate::key_needed()),
        Some(_) => arguments.ledger.cluster(environment)?,
        None => None,
    };
    let three = three.map(|config| cluster_audit::read(&config, environment)).transpose()?;
    let now_ms = wall_clock().0;
    // As of the entry at which the ledger was held against the gates.
    let to = three.as_ref().filter(|found| found.ledger.complete).map(|found| found.ledger.entries);
    let (audit, report) = source.report(engine::SaleId(arguments.sale), to).map_err(cannot_audit)?;
    let broken = three.as_ref().map_or(Ok(()), cluster_audit::check).and_then(|()| check(&audit));
    let Some(report) = report else {
        let missing = format!("there is no sale {} in this ledger", arguments.sale);
        return broken.and(Err(Failure::check(missing)));
    };
    let gates = three.as_ref().map(|found| GateAndQueue::of(found, &report, now_ms));
    let certified = Certified { source: &source, audit: &audit, report: &report, gates: gates.as_ref() };
    let written = arguments.certificate.as_ref().zip(key);
    let signed = written.map(|(file, key)| certificate::write(file, &key, &certified, now_ms)).transpose()?;
    let audit = match three {
        // The ledger's own are among these.
        Some(found) if !found.broken.is_empty() => Audit { broken: found.broken, ..audit },
        _ => audit,
    };
    let history_dir = arguments.ledger.history_dir(environment)?;
    let reported = reported(history_dir.as_deref(), audit, report, now_ms);
    let page = arguments.html.as_ref().map(|file| report_html::write(file, &reported)).transpose()?;
    // Both are written whole before one has its name, and no page has it whose certificate has not.
    let (certificate, signed_by) = signed.unzip();
    certificate.into_iter().chain(page).try_for_each(NewFile::keep)?;
    if arguments.json {
        let json = serde_json::to_string(&reported).expect("all of it is plain");
        output::print(&format!("{json}\n"))?;
    } else {
        output::print(&report_text::page(&reported))?;
        output::print(&signed_by.map_or_else(String::new, |line| format!("\n{line}")))?;
    }
    broken
}

fn check(audit: &Audit) -> Result<(), Failure> {
    if audit.broken.is_empty() {
        return Ok(());
    }
    let lines: String = audit.broken.iter().map(|line| format!("\n  {line}")).collect();
    Err(Failure::check(format!("the ledger breaks {} invariant(s):{lines}", audit.broken.len())))
}

fn reported(history_dir: Option<&Path>, audit: Audit, report: SaleReport, now_ms: u64) -> Reported {
    Reported::new((audit, report), now_ms, |sold| match history_dir {
        Some(dir) => Kept::read(dir, sold).map_err(|error| error.to_string()),
        None => Err("without figures.history_dir they are in each server's memory".to_owned()),
    })
}
