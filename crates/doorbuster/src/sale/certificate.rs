//! The certificate of a sale: its report, as of an entry, signed, so that others can check later that nothing of it was changed.
//!
//! An Ed25519 key of the data directory signs (decision 030). Whoever has the file can check the signature; whoever has the ledger
//! too can have everything found out again. Must not: add anything up.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use clap::Args;
use ring::rand::SystemRandom;
use ring::signature::{ED25519, Ed25519KeyPair, KeyPair, UnparsedPublicKey};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Value, json};
use server::hex::{hex, unhex};
use server::ledger::{Audit, SaleReport, Source, sqlite};

use super::report::write_new;
use crate::failure::Failure;
use crate::ledger::cannot_audit;
use crate::output;

/// In the data directory, PKCS#8, for its owner alone.
const KEY_FILE: &str = "report-key";
const KEY_BYTES_MAX: u64 = 1_024;
/// One with 10,000 items and 1,000 things that happened has some 5 MB.
const FILE_BYTES_MAX: u64 = 64 << 20;
const DIFFERENCES_MAX: usize = 20;
const FORMAT: u64 = 1;
/// Of the certificate itself.
const NOT_OF_THE_LEDGER: [&str; 2] = ["made_at_ms", "program"];

/// Check the certificate of a sale.
#[derive(Args, Debug)]
#[command(after_help = "\
Without --data-dir it checks the signature: that nothing was changed since the holder of the key that is printed made it. With
it, everything is found out again from the ledger as it was at that entry, and the key must be the directory's own. A ledger
that has grown since still verifies.

Exit codes: 0 it holds; 1 it does not, and what differs is named.

Examples:
  doorbuster sale verify winter-drop.json
  doorbuster sale verify winter-drop.json --data-dir var/doorbuster")]
pub(super) struct VerifyArguments {
    /// The certificate, as `doorbuster sale report --certificate` wrote it
    file: PathBuf,
    /// The ledger to find everything out from again
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
}

/// The file. The signature is of the certificate's bytes as they stand in it.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Signed {
    certificate: Box<RawValue>,
    /// Hexadecimal, as the signature.
    public_key: String,
    signature: String,
}

/// What of the ledger is certified.
fn found(source: &Source, audit: &Audit, report: &SaleReport) -> Result<Value, Failure> {
    Ok(json!({
        "format": FORMAT,
        "ledger": identity(source)?,
        "report": report,
        "audit": { "clean": audit.broken.is_empty(), "complete": audit.complete, "broken": audit.broken },
    }))
}

/// Tells ledgers apart and gives nothing of their secrets away.
fn identity(source: &Source) -> Result<String, Failure> {
    let identity = sqlite::identity(data_dir(source)?).map_err(|error| cannot_audit(error.into()))?;
    Ok(hex(&identity))
}

fn data_dir(source: &Source) -> Result<&Path, Failure> {
    match source {
        Source::Directory(data_dir) => Ok(data_dir),
        Source::MySql(_) => Err(Failure::usage(
            "a certificate is made of a ledger in a data directory, where its key is kept",
        )),
    }
}

/// Writes the certificate, and returns a line that names the key.
pub(super) fn write(
    file: &Path,
    source: &Source,
    (audit, report): (&Audit, &SaleReport),
    now_ms: u64,
) -> Result<String, Failure> {
    let key = key_of(data_dir(source)?)?;
    let mut certificate = found(source, audit, report)?;
    certificate["made_at_ms"] = now_ms.into();
    certificate["program"] = env!("CARGO_PKG_VERSION").into();
    let certificate = RawValue::from_string(certificate.to_string()).expect("it was just written as JSON");
    let signature = hex(key.sign(certificate.get().as_bytes()).as_ref());
    let public_key = hex(key.public_key().as_ref());
    let line = format!("{}: signed by the key {public_key}\n", file.display());
    let text = in_full(&Signed { certificate, public_key, signature });
    write_new(file, text.as_bytes())?;
    Ok(line)
}

fn in_full(signed: &Signed) -> String {
    serde_json::to_string(signed).expect("all of it is plain") + "\n"
}

/// The data directory's key, which is made when it is needed first.
fn key_of(data_dir: &Path) -> Result<Ed25519KeyPair, Failure> {
    if let Some(key) = read_key(data_dir)? {
        return Ok(key);
    }
    let path = data_dir.join(KEY_FILE);
    let failed = |error: io::Error| Failure::usage(format!("{} can't be made: {error}", path.display()));
    let pkcs8 = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new()).expect("the system gives entropy");
    let mut made = File::options().write(true).create_new(true).mode(0o600).open(&path).map_err(failed)?;
    made.write_all(pkcs8.as_ref()).and_then(|()| made.sync_all()).map_err(failed)?;
    Ok(Ed25519KeyPair::from_pkcs8(pkcs8.as_ref()).expect("it was just made"))
}

/// `None`: it was never needed.
fn read_key(data_dir: &Path) -> Result<Option<Ed25519KeyPair>, Failure> {
    let path = data_dir.join(KEY_FILE);
    let wrong = |what: &dyn std::fmt::Display| Failure::usage(format!("{}: {what}", path.display()));
    let bytes = match fs::metadata(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Ok(metadata) if metadata.len() > KEY_BYTES_MAX => return Err(wrong(&"it is too large for a key")),
        _ => fs::read(&path).map_err(|error| wrong(&error))?,
    };
    Ed25519KeyPair::from_pkcs8(&bytes).map(Some).map_err(|error| wrong(&error))
}

pub(super) fn verify(arguments: &VerifyArguments) -> Result<(), Failure> {
    let file = &arguments.file;
    let (certificate, public_key) = signed_by(file)?;
    let about = format!(
        "{}: sale {} as of entry {}, signed by the key {public_key}",
        file.display(),
        certificate["report"]["sale"],
        certificate["report"]["entry"]
    );
    let Some(data_dir) = &arguments.data_dir else {
        return output::print(&format!(
            "{about}\nthe signature holds; --data-dir compares it with the ledger\n"
        ));
    };
    let differences = differences(&certificate, &public_key, data_dir)?;
    if differences.is_empty() {
        return output::print(&format!("{about}\nthe signature holds, and the ledger says the same\n"));
    }
    let shown: String = differences.iter().take(DIFFERENCES_MAX).map(|line| format!("\n  {line}")).collect();
    Err(Failure::check(format!("{about}, and the ledger differs in {} place(s):{shown}", differences.len())))
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
    let signed: Signed = serde_json::from_slice(&bytes).map_err(|_not_one| wrong())?;
    let (key, signature) =
        unhex::<32>(&signed.public_key).zip(unhex::<64>(&signed.signature)).ok_or_else(wrong)?;
    let message = signed.certificate.get().as_bytes();
    UnparsedPublicKey::new(&ED25519, key).verify(message, &signature).map_err(|_unspecified| wrong())?;
    // What is not signed may be written in one way only.
    if in_full(&signed).as_bytes() != bytes {
        return Err(wrong());
    }
    let certificate: Value = serde_json::from_str(signed.certificate.get()).map_err(|_not_json| wrong())?;
    if certificate["format"] != FORMAT {
        return Err(Failure::usage(format!("{}: it is of another format than {FORMAT}", file.display())));
    }
    Ok((certificate, signed.public_key))
}

/// What the ledger says differently, as of the same entry.
fn differences(certificate: &Value, public_key: &str, data_dir: &Path) -> Result<Vec<String>, Failure> {
    let mut differences = Vec::new();
    let key = read_key(data_dir)?.map(|key| hex(key.public_key().as_ref()));
    if key.as_deref() != Some(public_key) {
        differences.push("the key is not the data directory's".to_owned());
    }
    let source = Source::Directory(data_dir.to_owned());
    let ledger = identity(&source)?;
    if certificate["ledger"] != ledger.as_str() {
        differences.push("it is another ledger".to_owned());
        return Ok(differences);
    }
    let named = |name: &str| certificate["report"][name].as_u64().unwrap_or(0);
    let (sale, entry) = (engine::SaleId(named("sale")), named("entry"));
    let (audit, report) = source.report(sale, Some(entry)).map_err(cannot_audit)?;
    let Some(report) = report else {
        differences.push(format!("there was no sale {} at entry {entry}", sale.0));
        return Ok(differences);
    };
    compare("", certificate, &found(&source, &audit, &report)?, &mut differences);
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
