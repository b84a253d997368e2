//! A rehearsal on engines, of a cluster or of one server with its ledger on a MySQL server: servers of our own, under names that are
//! made and removed.
//!
//! Must not: name anything of the installation to those servers but where its engines are, and as whom to speak to them.

use std::fs::OpenOptions;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;

use ::bench::progress::say;
use ::bench::rehearsal::Profile;
use ::bench::target::engines::mariadb::Database;
use ::bench::target::token::unix_ms;
use server::Secrets;
use server::cluster::rehearsal::{Names, Site, SiteError};
use server::config::{Config, Sources};
use server::ledger::mysql::connect::{Purpose, connect};
use toml::{Table, Value};

use super::folder::{self, Folder};
use super::{Crowd, KEPT, Keys, check_ledger, kept};
use crate::failure::Failure;

/// Where the engines are, how they are spoken to, and what else figures depend on.
const KEPT_OF_CLUSTER: [Keys; 4] = [
    (
        "cluster",
        &[
            "publish_timeout_ms",
            "publish_queue_max",
            "publish_batch_max",
            "publish_threads",
            "backlog_max",
            "consume_batch_max",
            "roll_forward_after_ms",
        ],
    ),
    (
        "gate",
        &[
            "addresses",
            "mode",
            "sentinel_master",
            "sentinel_user",
            "user",
            "tls",
            "tls_authority_file",
            "tls_certificate_file",
            "tls_key_file",
            "batch_commands_max",
            "timeout_ms",
        ],
    ),
    (
        "queue",
        &[
            "name_servers",
            "access_key",
            "tls",
            "tls_authority_file",
            "tls_server_name",
            "tls_certificate_file",
            "tls_key_file",
            "broker_disk_percent_max",
            "timeout_ms",
        ],
    ),
    LEDGER,
];
const LEDGER: Keys = ("ledger", &["backend", "mysql_address", "mysql_user", "mysql_tls", "mysql_ca_file"]);

/// On the disks of the ledger's server and of the brokers, of each order.
const DISK_BYTES_PER_ORDER: u64 = 2 * 1024;

pub(super) fn rehearse(
    crowd: &Crowd<'_>,
    config: &Config,
    secrets: &Secrets,
    sources: &Sources,
) -> Result<(), Failure> {
    let mut site = Site::open(config, secrets).map_err(failure)?;
    let ledger = config.ledger_source(secrets);
    check_ledger(&ledger, unix_ms(), crowd.arguments.yes)?;
    let _watch = super::begin(crowd, ledger)?;
    let place = folder::place(&config.ledger.data_dir)?;
    folder::remove_left(&place)?;
    remove_left(&mut site)?;
    let orders = orders_max(crowd);
    site.check_room(orders).map_err(failure)?;
    let names = site.choose().map_err(failure)?;
    say(&format!(
        "rehearsing as {}: {orders} orders at most; all together they take {} MiB at the ledger's server, as much in its binary log{}",
        names.database(),
        (orders * DISK_BYTES_PER_ORDER).div_ceil(1 << 20),
        if config.cluster.enabled { " and as much at the brokers" } else { "" }
    ));
    let engines = site.engines().map_err(failure)?;
    let folder = Folder::make(&place)?;
    let gated = config.cluster.enabled;
    let of_engines = if gated { &KEPT_OF_CLUSTER[..] } else { &[LEDGER] };
    let mut settings = kept(sources, &[&KEPT[..], of_engines].concat());
    set(&mut settings, "ledger", "mysql_database", names.database());
    if gated {
        rename(&mut settings, &names, crowd.arguments.servers);
    }
    give_secrets(&mut settings, &folder, secrets)?;
    let mut options = config.ledger.mysql_options(secrets);
    names.database().clone_into(&mut options.database);
    site.make(&names).map_err(failure)?;
    let played = crowd.play(
        &folder,
        &settings,
        Profile::Engines {
            servers: crowd.arguments.servers.into(),
            gated,
            engines: &engines,
            ledger: &|| Ok(Database::over(connect(&options, Purpose::Read)?.0, &options.server())),
        },
    );
    if let Err(error) = site.remove(&names) {
        let stays = format!(
            "{} can't be removed now: {error}; the next rehearsal removes it, or `doorbuster rehearse --clean-up`",
            names.database()
        );
        // A failed audit is the greater evil: its exit code stays.
        say(&stays);
        return played.and(Err(Failure::Unavailable(stays)));
    }
    played
}

/// Only removes what was left.
pub(super) fn clean_up(config: &Config, secrets: &Secrets) -> Result<(), Failure> {
    remove_left(&mut Site::open(config, secrets).map_err(failure)?)
}

fn remove_left(site: &mut Site) -> Result<(), Failure> {
    let (left, others) = site.left().map_err(failure)?;
    for names in left {
        site.remove(&names).map_err(failure)?;
        say(&format!("removed what a rehearsal that was killed had left: {}", names.database()));
    }
    for database in others {
        say(&format!(
            "{database} is of a rehearsal with another gate.prefix or queue.topic: `doorbuster rehearse --clean-up` removes it \
             with the configuration of then"
        ));
    }
    Ok(())
}

fn failure(error: SiteError) -> Failure {
    match error {
        SiteError::TooLong(_) => Failure::usage(error),
        error if error.is_refusal() => Failure::check(error),
        error => Failure::unavailable(error),
    }
}

/// No buyer is given more than one, and of what comes back none more than once.
fn orders_max(crowd: &Crowd<'_>) -> u64 {
    let items = crowd.sale["items"].as_array().map(Vec::as_slice).unwrap_or_default();
    let units: u64 = items.iter().filter_map(|item| item["total"].as_u64()).sum();
    2 * units.min(crowd.arguments.buyers)
}

fn rename(settings: &mut Table, names: &Names, servers: u8) {
    set(settings, "cluster", "enabled", true);
    set(settings, "cluster", "servers", i64::from(servers));
    set(settings, "gate", "prefix", names.prefix());
    set(settings, "queue", "topic", names.topic());
}

fn set(settings: &mut Table, section: &str, key: &str, value: impl Into<Value>) {
    let section = settings.entry(section).or_insert_with(|| Value::Table(Table::new()));
    section.as_table_mut().expect("sections are tables").insert(key.to_owned(), value.into());
}

/// Wherever they come from, the servers find them in files that nobody else may read.
fn give_secrets(settings: &mut Table, folder: &Folder, secrets: &Secrets) -> Result<(), Failure> {
    for (section, key, secret) in [
        ("gate", "password_file", &secrets.gate),
        ("gate", "sentinel_password_file", &secrets.sentinel),
        ("ledger", "mysql_password_file", &secrets.mysql),
        ("queue", "secret_key_file", &secrets.queue),
        ("queue", "security_token_file", &secrets.queue_token),
    ] {
        let Some(secret) = secret else { continue };
        let path = folder.path().join(format!("{section}-{key}"));
        let written = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&path)
            .and_then(|mut file| file.write_all(secret.as_bytes()));
        written.map_err(|error| Failure::unavailable(format!("{}: {error}", path.display())))?;
        set(settings, section, key, path.display().to_string());
    }
    Ok(())
}
