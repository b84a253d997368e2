//! Calling other servers, the shop's and Stripe's: for how long, which authorities vouch for them, and at which addresses.

mod address;

use std::sync::Arc;
use std::time::Duration;

use ureq::Agent;
use ureq::config::{Config, ConfigBuilder};
use ureq::tls::{Certificate, PemItem, RootCerts, TlsConfig, parse_pem};
use ureq::typestate::AgentScope;
use ureq::unversioned::transport::DefaultConnector;

use address::PublicOnly;

/// They can't be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotAuthorities {
    #[error("holds no PEM certificate")]
    NoCertificate,
    #[error("is not PEM")]
    NotPem,
}

/// Settings of a client that waits at most so long for a whole exchange, follows no redirect and uses no proxy.
/// `authorities`: the PEM certificates that vouch for https servers, and nobody else does; `None`: there are none to be called.
///
/// # Errors
/// See [`NotAuthorities`].
pub(crate) fn client(
    timeout: Duration,
    authorities: Option<&[u8]>,
) -> Result<ConfigBuilder<AgentScope>, NotAuthorities> {
    let settings = Agent::config_builder()
        .timeout_global(Some(timeout))
        .http_status_as_error(false)
        .max_redirects(0)
        .proxy(None);
    Ok(match authorities {
        Some(pem) => settings.tls_config(trusting(pem)?),
        None => settings,
    })
}

/// What calls with these settings, unless `allow_private` no address of this machine or its network.
pub(crate) fn agent(settings: Config, allow_private: bool) -> Agent {
    match allow_private {
        true => settings.into(),
        false => Agent::with_parts(settings, DefaultConnector::default(), PublicOnly::default()),
    }
}

/// Why there was no answer. What is ours has words of its own, and ureq calls it "other".
pub(crate) fn why_none(error: &ureq::Error) -> String {
    match error {
        ureq::Error::Other(ours) => ours.to_string(),
        error => error.to_string(),
    }
}

fn trusting(pem: &[u8]) -> Result<TlsConfig, NotAuthorities> {
    let items: Result<Vec<_>, _> = parse_pem(pem).collect();
    let certificates: Vec<Certificate<'static>> = items
        .map_err(|_not_pem| NotAuthorities::NotPem)?
        .into_iter()
        .filter_map(|item| match item {
            PemItem::Certificate(certificate) => Some(certificate),
            _ => None,
        })
        .collect();
    if certificates.is_empty() {
        return Err(NotAuthorities::NoCertificate);
    }
    Ok(TlsConfig::builder()
        .root_certs(RootCerts::Specific(Arc::new(certificates)))
        .unversioned_rustls_crypto_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .build())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn why_there_was_no_answer_is_said_in_our_own_words() {
        let settings = client(Duration::from_secs(1), None).unwrap().build();
        let error = agent(settings, false).get("http://127.0.0.1:1/").call().unwrap_err();
        assert_eq!(why_none(&error), "its address is a private one (allow_private)");
    }
}
