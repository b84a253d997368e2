//! Redis and RocketMQ: where they are, as whom and how they are spoken to.

use std::path::PathBuf;
use std::time::Duration;

use serde::Deserialize;

use super::{Problem, is_named, path_unless_empty};

#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Gate {
    pub addresses: Vec<String>,
    pub mode: GateMode,
    pub sentinel_master: String,
    pub sentinel_user: String,
    #[serde(deserialize_with = "path_unless_empty")]
    pub(crate) sentinel_password_file: Option<PathBuf>,
    pub user: String,
    #[serde(deserialize_with = "path_unless_empty")]
    pub(crate) password_file: Option<PathBuf>,
    pub tls: bool,
    #[serde(deserialize_with = "path_unless_empty")]
    pub tls_authority_file: Option<PathBuf>,
    #[serde(deserialize_with = "path_unless_empty")]
    pub tls_certificate_file: Option<PathBuf>,
    #[serde(deserialize_with = "path_unless_empty")]
    pub tls_key_file: Option<PathBuf>,
    pub prefix: String,
    pub batch_commands_max: usize,
    pub(super) timeout_ms: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GateMode {
    Single,
    Cluster,
    Sentinel,
}

impl Gate {
    pub fn timeout(&self) -> Duration {
        Duration::from_millis(self.timeout_ms)
    }

    pub(super) fn check(&self, problems: &mut Vec<Problem>) {
        if self.prefix.is_empty() || !is_named(&self.prefix, "_-.:") {
            let message = "must have 1 to 64 letters, digits, dashes, underscores, dots and colons";
            problems.push(("gate.prefix", message.into()));
        }
        check_addresses("gate.addresses", &self.addresses, problems);
        if self.mode == GateMode::Single && self.addresses.len() > 1 {
            let message =
                "has more than one address: set gate.mode = \"cluster\" or \"sentinel\", or name one";
            problems.push(("gate.addresses", message.into()));
        }
        if self.mode == GateMode::Sentinel && self.sentinel_master.trim().is_empty() {
            let message = "is empty: give the name that the Sentinels have for the master";
            problems.push(("gate.sentinel_master", message.into()));
        }
        let of_sentinels = [
            ("gate.sentinel_user", !self.sentinel_user.is_empty()),
            ("gate.sentinel_password_file", self.sentinel_password_file.is_some()),
        ];
        for (key, _) in of_sentinels.iter().filter(|(_, given)| *given && self.mode != GateMode::Sentinel) {
            let message = "has no effect without Sentinels: set gate.mode = \"sentinel\", or leave it empty";
            problems.push((*key, message.into()));
        }
        let files = [
            ("gate.tls_authority_file", self.tls_authority_file.is_some()),
            ("gate.tls_certificate_file", self.tls_certificate_file.is_some()),
            ("gate.tls_key_file", self.tls_key_file.is_some()),
        ];
        check_tls("gate.tls", self.tls, &files, problems);
    }
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Queue {
    pub name_servers: Vec<String>,
    pub topic: String,
    pub access_key: String,
    #[serde(deserialize_with = "path_unless_empty")]
    pub(crate) secret_key_file: Option<PathBuf>,
    #[serde(deserialize_with = "path_unless_empty")]
    pub(crate) security_token_file: Option<PathBuf>,
    pub tls: bool,
    #[serde(deserialize_with = "path_unless_empty")]
    pub tls_authority_file: Option<PathBuf>,
    pub tls_server_name: String,
    #[serde(deserialize_with = "path_unless_empty")]
    pub tls_certificate_file: Option<PathBuf>,
    #[serde(deserialize_with = "path_unless_empty")]
    pub tls_key_file: Option<PathBuf>,
    pub broker_disk_percent_max: u32,
    pub(super) timeout_ms: u64,
}

impl Queue {
    pub fn timeout(&self) -> Duration {
        Duration::from_millis(self.timeout_ms)
    }

    pub(super) fn check(&self, problems: &mut Vec<Problem>) {
        if self.topic.is_empty() || !is_named(&self.topic, "_-") {
            let message = "must have 1 to 64 letters, digits, dashes and underscores";
            problems.push(("queue.topic", message.into()));
        }
        check_addresses("queue.name_servers", &self.name_servers, problems);
        if self.tls && self.tls_authority_file.is_none() {
            let message = "is empty: with queue.tls = true, name the file of the authority that signed the brokers' \
                           certificates";
            problems.push(("queue.tls_authority_file", message.into()));
        }
        let files = [
            ("queue.tls_authority_file", self.tls_authority_file.is_some()),
            ("queue.tls_server_name", !self.tls_server_name.is_empty()),
            ("queue.tls_certificate_file", self.tls_certificate_file.is_some()),
            ("queue.tls_key_file", self.tls_key_file.is_some()),
        ];
        check_tls("queue.tls", self.tls, &files, problems);
    }
}

/// Files that only TLS uses, the last two of which are a certificate and its key.
fn check_tls(key: &'static str, tls: bool, files: &[(&'static str, bool)], problems: &mut Vec<Problem>) {
    if let (false, Some((file, _))) = (tls, files.iter().find(|(_, given)| *given)) {
        problems.push((*file, format!("has no effect without TLS: set {key} = true, or leave it empty")));
    }
    if let [.., (certificate, has_certificate), (private, has_private)] = files
        && has_certificate != has_private
    {
        let missing = if *has_certificate { private } else { certificate };
        problems.push((*missing, "is empty but the other one is set: set both, or neither".into()));
    }
}

fn check_addresses(key: &'static str, addresses: &[String], problems: &mut Vec<Problem>) {
    if addresses.is_empty() {
        problems.push((key, "is empty: name at least one address, host:port".into()));
    }
    for address in addresses.iter().filter(|address| !is_address(address)) {
        problems.push((key, format!("holds {address:?}: write it as host:port")));
    }
}

/// A host and a port.
fn is_address(text: &str) -> bool {
    text.rsplit_once(':').is_some_and(|(host, port)| {
        !host.is_empty()
            && !host.contains(char::is_whitespace)
            && port.parse::<u16>().is_ok_and(|port| port > 0)
    })
}
