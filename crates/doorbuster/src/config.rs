//! `doorbuster config`: prints the commented defaults, or checks a file and what it names.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use clap::Args;
use engine::{UnixMs, format_utc};
use rustix::fs::{Mode, OFlags, open};
use rustix::io::Errno;
use server::config::{Config, ConfigErrors, DEFAULTS, Environment, Sources};
use server::figures::Kept;
use server::ledger::{Source, sqlite};
use server::signing::SigningKey;
use server::{Secrets, clock, cluster, net};

use crate::failure::Failure;
use crate::ledger::cannot_open;
use crate::output;
use crate::serve::cannot_serve;

/// Print the commented default configuration, or check a file.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  doorbuster config > doorbuster.toml        a file to edit; every key with its default and its bounds
  doorbuster config --check doorbuster.toml  exit code 64 and every error with its line, or \"ok\"
  doorbuster config --check doorbuster.toml --connect

DOORBUSTER_<SECTION>_<KEY> variables stand above the file, and are checked with it. What `serve` opens is opened: secrets,
certificate (which must not have expired), keys and other files that it names, its directories, the ledger and the history in them, and its addresses, unless a
server has the data directory; with --connect also the engines. All that is wrong is said, a line each. Nothing is made or changed.
Exit code 69: it is right, but something can't be reached, opened or served.")]
pub(crate) struct ConfigArguments {
    /// Check FILE and what it names, with the environment on top of it, instead of printing the defaults
    #[arg(long, value_name = "FILE")]
    check: Option<PathBuf>,
    /// Connect to the database, to Redis and to the brokers too
    #[arg(long, requires = "check")]
    connect: bool,
}

pub(crate) fn run(arguments: &ConfigArguments, environment: &Environment) -> Result<(), Failure> {
    let Some(path) = &arguments.check else { return output::print(DEFAULTS) };
    let (config, wrong) = Sources::default().file(path).environment(environment).load_all()?;
    let mut faults = Faults { wrong, away: Vec::new() };
    let secrets = faults.found(Secrets::load(&config, environment).map_err(Failure::from));
    faults.check_files(&config);
    faults.check_certificate(&config);
    faults.check_addresses(&config);
    for exposed in Secrets::exposed(&config) {
        eprintln!("warning: {exposed}");
    }
    // Without a password every engine would only say so once more.
    if let Some(secrets) = secrets.filter(|_| arguments.connect) {
        faults.connect(&config, &secrets);
    }
    faults.end()?;
    output::print(&format!("{}: ok\n", path.display()))
}

/// All that would keep a server from starting.
struct Faults {
    /// What to change in the configuration, or the files that it names.
    wrong: Vec<String>,
    /// What is right, and can't be had at the moment.
    away: Vec<String>,
}

impl Faults {
    /// Notes why there is nothing, if so.
    fn found<T>(&mut self, result: Result<T, Failure>) -> Option<T> {
        match result {
            Ok(found) => return Some(found),
            Err(Failure::Config(errors)) => self.wrong.extend(errors.0),
            Err(Failure::Unavailable(message)) => self.away.push(message),
            Err(other) => self.wrong.push(other.message()),
        }
        None
    }

    fn check_files(&mut self, config: &Config) {
        let named = [
            ("ledger.data_dir", config.ledger_dir()),
            ("figures.history_dir", config.figures.history_dir.as_deref()),
        ];
        for (key, dir) in named {
            let Some(dir) = dir else { continue };
            self.found(check_directory(key, dir).map_err(Failure::usage));
        }
        if let Some(path) = config.signing_key() {
            self.found(SigningKey::read(&path).map_err(Failure::usage));
        }
        if let Some(dir) = config.ledger_dir() {
            self.found(Source::Directory(dir.to_owned()).check().map_err(cannot_open));
        }
        if let Some(dir) = config.history_dir() {
            let without =
                "a server would sell, and keep no history: move it away, or set figures.history_dir";
            let checked = Kept::check(dir).map_err(|why| Failure::usage(format!("{why}; {without}")));
            self.found(checked);
        }
    }

    /// One that can't be read is among the faults of the secrets.
    fn check_certificate(&mut self, config: &Config) {
        let Some((certificate, key)) = config.http.tls_files() else { return };
        let Some((from, until)) = net::Tls::load(certificate, key).ok().and_then(|tls| tls.valid()) else {
            return;
        };
        let named = format!("http.tls_certificate_file = {certificate:?}");
        match lapse(clock::wall_clock(), from, until) {
            Lapse::Never => {}
            Lapse::Soon(says) => eprintln!("warning: {named} {says}"),
            Lapse::Out(says) => self.wrong.push(format!("{named} {says}")),
        }
    }

    /// While a server has the data directory, its addresses are that server's.
    fn check_addresses(&mut self, config: &Config) {
        if config.ledger_dir().is_some_and(|dir| sqlite::is_served(dir).unwrap_or(false)) {
            return;
        }
        let operators = config.http.operator_listen.map(|address| ("http.operator_listen", address));
        for (key, address) in [Some(("http.listen", config.http.listen)), operators].into_iter().flatten() {
            let Err(error) = net::check_address(address) else { continue };
            let fault = cannot_serve(address, key, &error);
            // Whose it is can't be seen where the ledger is on a server: this file's own may be running.
            if error.kind() == io::ErrorKind::AddrInUse && config.ledger_dir().is_none() {
                eprintln!("warning: {fault}, unless it is the server of this file");
            } else {
                self.away.push(fault);
            }
        }
    }

    fn connect(&mut self, config: &Config, secrets: &Secrets) {
        if config.ledger_dir().is_none()
            && let Err(error) = config.ledger_source(secrets).check()
        {
            self.away.push(error.to_string());
        }
        // Of none there is nothing to ask, which is among the faults of the configuration.
        let are_named = !config.gate.addresses.is_empty() && !config.queue.name_servers.is_empty();
        if config.cluster.enabled
            && are_named
            && let Some(engines) =
                self.found(cluster::unreachable(config, secrets).map_err(Failure::unavailable))
        {
            self.away.extend(engines);
        }
    }

    fn end(self) -> Result<(), Failure> {
        let Faults { wrong, away } = self;
        match (wrong.is_empty(), away.is_empty()) {
            (true, true) => Ok(()),
            (true, false) => Err(Failure::Unavailable(away.join("\n"))),
            (false, _) => Err(ConfigErrors([wrong, away].concat()).into()),
        }
    }
}

/// Whether clients take a certificate.
#[derive(Debug, PartialEq, Eq)]
enum Lapse {
    Never,
    Soon(String),
    Out(String),
}

/// Who renews by itself does so earlier.
const RENEWED_BEFORE_MS: u64 = 14 * 24 * 3600 * 1000;

fn lapse(now: UnixMs, from: UnixMs, until: UnixMs) -> Lapse {
    if now > until {
        return Lapse::Out(format!("expired at {}: renew it", format_utc(until.0)));
    }
    if now < from {
        return Lapse::Out(format!("is not valid before {}: look at the system's clock", format_utc(from.0)));
    }
    if until.0 - now.0 < RENEWED_BEFORE_MS {
        return Lapse::Soon(format!("expires at {}: renew it", format_utc(until.0)));
    }
    Lapse::Never
}

/// Whether a server could keep its files in a directory, or make it. Makes nothing that stays.
fn check_directory(key: &str, dir: &Path) -> Result<(), String> {
    let there = dir.ancestors().find(|path| path.exists()).unwrap_or(Path::new("."));
    let usable = match there.is_dir() {
        true => try_to_write(there).map_err(|error| error.to_string()),
        false => Err("is no directory".to_owned()),
    };
    usable.map_err(|why| {
        format!(
            "{key} = {dir:?} can't be used: {}: {why}; name a directory that can be written",
            there.display()
        )
    })
}

/// By a file without a name, or where there are none (NFS, /proc) one that is removed at once: what a file system lets root do stands
/// in no right.
fn try_to_write(dir: &Path) -> io::Result<()> {
    let flags = OFlags::TMPFILE | OFlags::WRONLY | OFlags::CLOEXEC;
    match open(dir, flags, Mode::RUSR | Mode::WUSR) {
        Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::NOENT) => {
            let file = dir.join(format!(".doorbuster-check-{}", std::process::id()));
            File::create_new(&file).and_then(|made| std::fs::remove_file(&file).map(|()| drop(made)))
        }
        opened => opened.map(drop).map_err(io::Error::from),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_certificate_is_out_when_it_has_expired_and_renewed_two_weeks_before() {
        let (from, until) = (UnixMs(1_000), UnixMs(1_796_119_200_000));
        let at = |ms| lapse(UnixMs(ms), from, until);
        let soon = Lapse::Soon("expires at 2026-12-01T10:00:00Z: renew it".to_owned());
        assert_eq!(
            at(999),
            Lapse::Out("is not valid before 1970-01-01T00:00:01Z: look at the system's clock".to_owned())
        );
        assert_eq!((at(1_000), at(until.0 - RENEWED_BEFORE_MS)), (Lapse::Never, Lapse::Never));
        assert_eq!(at(until.0 - RENEWED_BEFORE_MS + 1), soon);
        assert_eq!(at(until.0), soon);
        assert_eq!(at(until.0 + 1), Lapse::Out("expired at 2026-12-01T10:00:00Z: renew it".to_owned()));
    }
}
