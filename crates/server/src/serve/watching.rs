//! What the figures are taken of, by what is configured.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use super::Secrets;
use crate::beacon::Beacon;
use crate::config::Config;
use crate::figures::{Cluster, Looking, Watched};
use crate::intake::{Health, Intake, Mailbox};
use crate::ledger::{Source, sqlite};
use crate::net::{NetStats, Stop};
use crate::time::Instant;
use crate::webhooks::Control;

/// The parts of the process that are looked at.
pub(super) struct WatchedParts<'a> {
    pub(super) intake: &'a Intake,
    pub(super) net: &'a Arc<NetStats>,
    pub(super) health: &'a Arc<Health>,
    pub(super) mailbox: &'a Arc<Mailbox>,
    pub(super) stop: &'a Stop,
    pub(super) cluster: Option<Cluster>,
    pub(super) webhooks: &'a [Arc<Control>],
}

/// The name of this server among those of a cluster, and its address otherwise.
pub(super) fn server_name(config: &Config, address: SocketAddr) -> String {
    match config.cluster.server_name.as_str() {
        _ if !config.cluster.enabled => address.to_string(),
        "" => format!("{}:{}", super::host_name(), address.port()),
        name => name.to_owned(),
    }
}

/// Looks for the first time.
pub(super) fn look(
    config: &Config,
    secrets: &Secrets,
    address: SocketAddr,
    parts: &WatchedParts<'_>,
) -> Looking {
    let data_dir = match config.ledger_source(secrets) {
        Source::Directory(data_dir) => Some(data_dir),
        // Nothing is written here, so no disk of this machine can fill up with orders.
        Source::MySql(_) => None,
    };
    let watched = Watched {
        intake: parts.intake.clone(),
        net: Arc::clone(parts.net),
        health: Arc::clone(parts.health),
        client: parts.mailbox.client(0),
        stop: parts.stop.clone(),
        server: server_name(config, address),
        ledger: data_dir.as_ref().map(|dir| dir.join(sqlite::FILE_NAME)),
        data_dir,
        history_dir: config.history_dir().map(Path::to_owned),
        cluster: parts.cluster.clone(),
        measured_peak: config.admission.measured_peak().map(|(peak, on)| (peak, on.to_owned())),
        webhooks: parts.webhooks.to_vec(),
        beacon: secrets.beacon.as_ref().map(Beacon::terms),
    };
    Looking::new(watched, Instant::now())
}
