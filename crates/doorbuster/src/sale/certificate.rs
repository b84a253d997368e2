//! The certificate of a sale: its report, as of an entry, signed, so that others can check later that nothing of it was changed.
//!
//! An Ed25519 key signs, of the data directory or of a file that is named (decision 030). Whoever has the file can check the signature; whoever has the ledger
//! too can have everything found out again. Must not: add anything up.

use std::fs;
use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::{Value, json};
use server::config::Environment;
use server::hex::hex;
use server::ledger::{Audit, SaleReport, Source};
use server::signing::read_document;

use super::gates::GateAndQueue;
use crate::failure::Failure;
use crate::ledger::{cannot_audit, configured};
use crate::new_file::NewFile;
use crate::output;
use crate::signing_key::KeyFile;

/// Of a certificate, in its file.
const NAME: &str = "certificate";
/// One with 10,000 items and 1,000 things that happened has some 5 MB.
const FILE_BYTES_MAX: u64 = 64 << 20;
const DIFFERENCES_MAX: usize = 20;
const FORMAT: u64 = 1;
/// Of the certificate itself.
const NOT_OF_THE_LEDGER: [&str; 3] = ["made_at_ms", "program", GATES];
/// The field with what gate and queue of a cluster had.
const GATES: &str = "gate_and_queue";

/// Check the certificate of a sale.
#[derive(Args, Debug)]
#[command(after_help = "\
Without --data-dir or --config it checks the signature: that nothing was changed since the holder of the key that is printed
made it. With one of them, everything is found out again from the ledger as it was at that entry, and the key must be the
directory's own, or that of --key. A ledger that has grown since still verifies. What gate and queue of a cluster had can't be
read again: it must fit the ledger's part.

Exit codes: 0 it holds; 1 it does not, and what differs is named.

Examples:
  doorbuster sale verify winter-drop.json
  doorbuster sale verify winter-drop.json --data-dir var/doorbuster
  doorbuster sale verify winter-drop.json --config doorbuster.toml --key report-key    a ledger on a MySQL server")]
pub(super) struct VerifyArguments {
    /// The certificate, as `doorbuster sale report --certificate` wrote it
    file: PathBuf,
    /// The ledger to find everything out from again, by its directory
    #[arg(long, value_name = "DIR", conflicts_with = "config")]
    data_dir: Option<PathBuf>,
    /// The same, by the configuration file of the server that has it
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// The key that must have signed it [default: ledger.signing_key_file, or report-key in the data directory]
    #[arg(long, value_name = "FILE")]
    key: Option<PathBuf>,
}

impl VerifyArguments {
    fn source(&self, environment: &Environment) -> Result<Option<Source>, Failure> {
        let directory = self.data_dir.clone().map(Source::Directory);
        let config = self.config.as_ref().map(|file| configured(file, environment)).transpose()?;
        Ok(directory.or(config))
    }
}

/// What is certified, all of it as of one entry.
pub(super) struct Certified<'a> {
    pub(super) source: &'a Source,
    pub(super) audit: &'a Audit,
    pub(super) report: &'a SaleReport,
    /// Of a cluster.
    pub(super) gates: Option<&'a GateAndQueue>,
}

impl Certified<'_> {
    fn to_json(&self) -> Result<Value, Failure> {
        let Certified { source, audit, report, gates } = self;
        let mut certificate = json!({
            "format": FORMAT,
            "ledger": hex(&source.identity().map_err(cannot_audit)?),
            "report": report,
            "audit": { "clean": audit.broken.is_empty(), "complete": audit.complete, "broken": audit.broken },
        });
        if let Some(gates) = gates {
            certificate[GATES] = json!(gates);
        }
        Ok(certificate)
    }
}

/// Writes the certificate, which is still to be kept, and lines that name the key, and say what gate and queue were seen with.
pub(super) fn write(
    file: &Path,
    key: &KeyFile,
    certified: &Certified<'_>,
    now_ms: u64,
) -> Result<(NewFile, String), Failure> {
    let key = key.read_or_make()?;
    let mut certificate = certified.to_json()?;
    certificate["made_at_ms"] = now_ms.into();
    certificate["program"] = env!("CARGO_PKG_VERSION").into();
    let seen = certified.gates.map_or_else(String::new, |gates| gates.says() + "\n");
    let written = NewFile::write(file, key.document(NAME, &certificate.to_string()).as_bytes())?;
    Ok((written, format!("{seen}{}: signed by the key {}\n", file.display(), key.public())))
}

/// A ledger on a MySQL server has no directory for a key.
pub(super) fn key_needed() -> Failure {
    Failure::usage(
        "this ledger is on a MySQL server, where no key is kept: name a file for it by --key FILE, which is made if there is none",
    )
}

pub(super) fn verify(arguments: &VerifyArguments, environment: &Environment) -> Result<(), Failure> {
    let file = &arguments.file;
    let (certificate, public_key) = signed_by(file)?;
    let about = format!(
        "{}: sale {} as of entry {}, signed by the key {public_key}",
        file.display(),
        certificate["report"]["sale"],
        certificate["report"]["entry"]
    );
    let mut text = format!("{about}\n");
    let gates = gates_of(&certificate)?;
    if let Some(gates) = &gates {
        text += &format!("{}\n", gates.says());
    }
    let source = arguments.source(environment)?;
    let ledger = (arguments.config.as_deref(), arguments.data_dir.as_deref());
    let key = KeyFile::of(arguments.key.as_deref(), ledger, environment)?;
    let mut differences =
        key.as_ref().map_or(Ok(None), |key| key.is_not(&public_key))?.into_iter().collect::<Vec<_>>();
    if let Some(source) = &source {
        differences.extend(differences_from(source, &certificate, gates.as_ref())?);
    }
    if differences.is_empty() {
        let ledger = match source {
            Some(_) => ", and the ledger says the same",
            None => "; --data-dir or --config compares it with the ledger",
        };
        let unknown = if key.is_none() { "; --key compares whose key it is" } else { "" };
        return output::print(&format!("{text}the signature holds{ledger}{unknown}\n"));
    }
    let which = if source.is_some() { "the ledger" } else { "it" };
    let shown: String = differences.iter().take(DIFFERENCES_MAX).map(|line| format!("\n  {line}")).collect();
    Err(Failure::check(format!("{about}, and {which} differs in {} place(s):{shown}", differences.len())))
}

/// What a file certifies, and whose signature it has.
fn signed_by(file: &Path) -> Result<(Value, String), Failure> {
    let unreadable = |error: &dyn std::fmt::Display| Failure::usage(format!("{}: {error}", file.display()));
    let length = fs::metadata(file).map_err(|error| unreadable(&error))?.len();
    if length > FILE_BYTES_MAX {
        return Err(unreadable(&"it is too large for a certificate"));
    }
    let bytes = fs::read(file).map_err(|error| unreadable(&error))?;
    let wrong = || Failure::check(format!("{}: it was changed, or is no certificate", file.display()));
    let (certificate, public_key) = read_document(NAME, &bytes).ok_or_else(wrong)?;
    let certificate: Value = serde_json::from_str(certificate.get()).map_err(|_not_json| wrong())?;
    if certificate["format"] != FORMAT {
        return Err(Failure::usage(format!("{}: it is of another format than {FORMAT}", file.display())));
    }
    Ok((certificate, public_key))
}

fn gates_of(certificate: &Value) -> Result<Option<GateAndQueue>, Failure> {
    let gates = certificate.get(GATES).cloned().map(serde_json::from_value);
    gates.transpose().map_err(|error| Failure::usage(format!("{GATES} is of another format: {error}")))
}

/// What the ledger says differently, as of the same entry.
fn differences_from(
    source: &Source,
    certificate: &Value,
    gates: Option<&GateAndQueue>,
) -> Result<Vec<String>, Failure> {
    if certificate["ledger"] != hex(&source.identity().map_err(cannot_audit)?).as_str() {
        return Ok(vec!["it is another ledger".to_owned()]);
    }
    let named = |name: &str| certificate["report"][name].as_u64().unwrap_or(0);
    let (sale, entry) = (engine::SaleId(named("sale")), named("entry"));
    let (audit, report) = source.report(sale, Some(entry)).map_err(cannot_audit)?;
    let Some(report) = report else {
        return Ok(vec![format!("there was no sale {} at entry {entry}", sale.0)]);
    };
    let mut differences = gates.map_or_else(Vec::new, |gates| gates.contradicted_by(&report));
    let found = Certified { source, audit: &audit, report: &report, gates: None };
    compare("", certificate, &found.to_json()?, &mut differences);
    Ok(differences)
}

/// Adds a line for each place of what is certified that the ledger does not say. Fields that a newer program adds to the report are
/// not in an older certificate, and claim nothing.
fn compare(place: &str, certified: &Value, found: &Value, differences: &mut Vec<String>) {
    match (certified, found) {
        (Value::Object(fields), Value::Object(_)) => {
            for (name, value) in fields.iter().filter(|(name, _)| !NOT_OF_THE_LEDGER.contains(&name.as_str()))
            {
                compare(&format!("{place}.{name}"), value, &found[name], differences);
            }
        }
        (Value::Array(all), Value::Array(others)) if all.len() == others.len() => {
            for (index, (value, other)) in all.iter().zip(others).enumerate() {
                compare(&format!("{place}[{index}]"), value, other, differences);
            }
        }
        _ if certified != found => {
            let place = place.trim_start_matches('.');
            differences.push(format!("{place}: certified {certified}, in the ledger {found}"));
        }
        _ => {}
    }
}
