//! The authorities that vouch for servers that this one calls: the shop's.

use std::sync::Arc;

use ureq::tls::{Certificate, PemItem, RootCerts, TlsConfig, parse_pem};

/// They can't be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotAuthorities {
    #[error("holds no PEM certificate")]
    NoCertificate,
    #[error("is not PEM")]
    NotPem,
}

/// Settings of a client that trusts whom these PEM certificates vouch for, and nobody else.
///
/// # Errors
/// See [`NotAuthorities`].
pub(crate) fn trusting(pem: &[u8]) -> Result<TlsConfig, NotAuthorities> {
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
