//! What is listened on, with which bounds, and who is believed there.

use std::net::{SocketAddr, ToSocketAddrs};
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Deserializer};

use super::{Problem, path_unless_empty};
use crate::net;

/// Connections of the operators' own listener.
const OPERATOR_CONNECTIONS_MAX: usize = 64;

#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Http {
    #[serde(deserialize_with = "address")]
    pub listen: SocketAddr,
    #[serde(deserialize_with = "address_unless_empty")]
    pub operator_listen: Option<SocketAddr>,
    pub threads: usize,
    pub connections_max: usize,
    pub(super) connections_per_address_max: usize,
    pub head_bytes_max: usize,
    pub body_bytes_max: usize,
    pub operator_body_bytes_max: usize,
    pub(super) request_timeout_ms: u64,
    pub(super) idle_timeout_ms: u64,
    pub(super) write_timeout_ms: u64,
    pub(super) drain_timeout_ms: u64,
    #[serde(deserialize_with = "path_unless_empty")]
    tls_certificate_file: Option<PathBuf>,
    #[serde(deserialize_with = "path_unless_empty")]
    tls_key_file: Option<PathBuf>,
    pub allowed_origins: Vec<String>,
    pub public_names: Vec<String>,
    trusted_proxies: Vec<String>,
    pub metrics_token_required: bool,
    pub message_route: bool,
}

impl Http {
    pub fn request_timeout(&self) -> Duration {
        Duration::from_millis(self.request_timeout_ms)
    }

    pub fn idle_timeout(&self) -> Duration {
        Duration::from_millis(self.idle_timeout_ms)
    }

    pub fn write_timeout(&self) -> Duration {
        Duration::from_millis(self.write_timeout_ms)
    }

    pub fn drain_timeout(&self) -> Duration {
        Duration::from_millis(self.drain_timeout_ms)
    }

    /// The address that this key gives, be it as a name; `None`: it gives none.
    pub(super) fn address_of(&self, key: &str) -> Option<SocketAddr> {
        match key {
            "http.listen" => Some(self.listen),
            "http.operator_listen" => self.operator_listen,
            _ => None,
        }
    }

    /// The bounds of one of the event loops, which share the connections among them.
    pub fn limits(&self) -> net::Limits {
        let connections_max = self.connections_max.div_ceil(self.threads);
        let per_address = self.connections_per_address_max.div_ceil(self.threads);
        let three_quarters = (connections_max - connections_max / 4).max(1);
        net::Limits {
            connections_max,
            connections_per_address_max: if per_address == 0 { three_quarters } else { per_address },
            trusted_proxies: self.trusted_proxies(),
            head_bytes_max: self.head_bytes_max,
            request_timeout: self.request_timeout(),
            idle_timeout: self.idle_timeout(),
            write_timeout: self.write_timeout(),
            drain: self.drain_timeout(),
            ..net::Limits::default()
        }
    }

    /// The bounds of the operators' event loop: some tools, and no crowd.
    pub fn operator_limits(&self) -> net::Limits {
        let connections_max = self.connections_max.min(OPERATOR_CONNECTIONS_MAX);
        net::Limits { connections_max, connections_per_address_max: connections_max, ..self.limits() }
    }

    /// The proxies that say for whom they ask.
    ///
    /// # Panics
    /// If the configuration was not checked.
    pub fn trusted_proxies(&self) -> net::TrustedProxies {
        net::TrustedProxies::parse(&self.trusted_proxies).expect("the configuration was checked")
    }

    /// The PEM files of the certificate chain and of its key; `None` is plain HTTP.
    pub fn tls_files(&self) -> Option<(&Path, &Path)> {
        self.tls_certificate_file.as_deref().zip(self.tls_key_file.as_deref())
    }

    pub(super) fn check(&self, problems: &mut Vec<Problem>) {
        let http = self;
        let (missing, given) = ("is empty but the other one is set:", "set both, or neither for plain HTTP");
        if http.operator_listen.is_some_and(|address| address == http.listen && address.port() != 0) {
            let message =
                "is http.listen as well: give the operators another address or port, or leave it empty";
            problems.push(("http.operator_listen", message.into()));
        }
        match (&http.tls_certificate_file, &http.tls_key_file) {
            (None, Some(_)) => problems.push(("http.tls_certificate_file", format!("{missing} {given}"))),
            (Some(_), None) => problems.push(("http.tls_key_file", format!("{missing} {given}"))),
            (None, None) | (Some(_), Some(_)) => {}
        }
        for origin in http.allowed_origins.iter().filter(|origin| !is_origin(origin)) {
            problems.push(("http.allowed_origins", not_an_origin(origin)));
        }
        for name in http.public_names.iter().filter(|name| !is_host_name(name)) {
            let message = format!("holds {name:?}: write a name alone, like \"drops.shop.example\"");
            problems.push(("http.public_names", message));
        }
        for (text, advice) in net::TrustedProxies::parse(&http.trusted_proxies).err().into_iter().flatten() {
            problems.push(("http.trusted_proxies", format!("holds {text:?}: {advice}")));
        }
        if http.operator_body_bytes_max < http.body_bytes_max {
            let message = "is below http.body_bytes_max: raise it to that at least";
            problems.push(("http.operator_body_bytes_max", message.into()));
        }
    }
}

pub(super) fn not_an_origin(text: &str) -> String {
    format!("holds {text:?}: write it as a browser does, like \"https://shop.example\"")
}

/// Scheme, host and perhaps port, with nothing after it: what a browser sends as `Origin`.
pub(super) fn is_origin(text: &str) -> bool {
    let host = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://"));
    host.is_some_and(|host| {
        !host.is_empty()
            && host.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b".-:[]".contains(&b))
    })
}

/// A name as a browser sends it in `Host`, without the port.
fn is_host_name(text: &str) -> bool {
    !text.is_empty()
        && text.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b".-".contains(&b))
}

/// An address or a name of this machine with a port, in the file, the environment and the arguments alike: `localhost:8080`.
/// Of the addresses of a name an IPv4 one is preferred.
///
/// # Errors
/// What to write instead.
pub fn parse_listen(text: &str) -> Result<SocketAddr, String> {
    let wrong = "write an address with a port, like 127.0.0.1:8080, [::1]:8080 or localhost:8080";
    let found: Vec<SocketAddr> =
        text.to_socket_addrs().map_err(|error| format!("{error}; {wrong}"))?.collect();
    let first = found.iter().find(|address| address.is_ipv4()).or(found.first());
    first.copied().ok_or_else(|| wrong.to_owned())
}

fn address<'de, D: Deserializer<'de>>(source: D) -> Result<SocketAddr, D::Error> {
    parse_listen(&String::deserialize(source)?).map_err(serde::de::Error::custom)
}

fn address_unless_empty<'de, D: Deserializer<'de>>(source: D) -> Result<Option<SocketAddr>, D::Error> {
    let text = String::deserialize(source)?;
    if text.is_empty() {
        return Ok(None);
    }
    parse_listen(&text).map(Some).map_err(serde::de::Error::custom)
}

#[cfg(test)]
mod tests {
    use crate::config::Sources;

    /// `--listen localhost:8080` was taken, and the same in a file refused.
    #[test]
    fn a_name_of_this_machine_is_listened_on_wherever_it_is_said() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("doorbuster.toml");
        std::fs::write(&file, "[http]\nlisten = 'localhost:80'\noperator_listen = 'localhost:81'").unwrap();
        let file = Sources::default().file(&file).load().unwrap();
        let argument = Sources::default().argument("http.listen", "localhost:80", "--listen").load().unwrap();
        let operators = file.http.operator_listen.unwrap();
        for (address, port) in [(file.http.listen, 80), (argument.http.listen, 80), (operators, 81)] {
            assert!(address.ip().is_loopback() && address.port() == port, "{address}");
        }
    }
}
