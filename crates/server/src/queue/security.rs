//! How name servers and brokers are spoken to: as whom, and whether the connection is encrypted.

use std::sync::Arc;

use rocketmq::Signer;
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};

use crate::secret::SecretBytes;

/// The same for all servers of one installation. Clones share what they hold.
#[derive(Clone, Debug, Default)]
pub struct Security {
    /// As whom, where brokers ask for that.
    pub credentials: Option<Arc<Credentials>>,
    /// Without it, nothing is encrypted.
    pub tls: Option<Tls>,
}

/// What requests are signed with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Credentials {
    /// The user's name.
    pub access_key: String,
    pub secret_key: SecretBytes,
    /// Of credentials that lapse, if these do.
    pub security_token: Option<SecretBytes>,
}

impl Credentials {
    pub(super) fn signer(&self) -> Signer<'_> {
        Signer {
            access_key: &self.access_key,
            secret_key: self.secret_key.as_bytes(),
            security_token: self.security_token.as_ref().map(SecretBytes::as_bytes),
        }
    }
}

/// Why no encrypted connection can be made, whoever is asked. Each names the key to change.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    #[error("queue.tls_authority_file holds no readable PEM certificate: {0}")]
    Authority(String),
    #[error("queue.tls_certificate_file holds no readable PEM certificate: {0}")]
    Certificate(#[source] pem::Error),
    #[error("queue.tls_key_file holds no readable PEM private key: {0}")]
    Key(#[source] pem::Error),
    #[error("queue.tls_certificate_file and queue.tls_key_file can't be used together: {0}")]
    Pair(#[source] rustls::Error),
    #[error("queue.tls_server_name = {0:?} is no name of a server")]
    ServerName(String),
}

/// Whom to trust, and the certificate to show.
#[derive(Clone, Debug)]
pub struct Tls {
    pub(super) config: Arc<ClientConfig>,
    /// The name that certificates must be for; otherwise the host of each address.
    server_name: Option<ServerName<'static>>,
}

impl Tls {
    /// All files are PEM: the authorities' certificates, and our own with its key, if servers want one. An empty name
    /// stands for the host of each address.
    ///
    /// # Errors
    /// See [`TlsError`].
    pub fn new(authorities: &[u8], ours: Option<(&[u8], &[u8])>, server_name: &str) -> Result<Tls, TlsError> {
        let wrong = |error: &dyn std::fmt::Display| TlsError::Authority(error.to_string());
        let mut roots = RootCertStore::empty();
        for certificate in CertificateDer::pem_slice_iter(authorities) {
            roots.add(certificate.map_err(|e| wrong(&e))?).map_err(|error| wrong(&error))?;
        }
        if roots.is_empty() {
            return Err(TlsError::Authority("there is none in it".into()));
        }
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(TlsError::Pair)?
            .with_root_certificates(roots);
        let config = match ours {
            None => builder.with_no_client_auth(),
            Some((certificate, key)) => {
                let chain: Result<_, _> = CertificateDer::pem_slice_iter(certificate).collect();
                let key = PrivateKeyDer::from_pem_slice(key).map_err(TlsError::Key)?;
                builder
                    .with_client_auth_cert(chain.map_err(TlsError::Certificate)?, key)
                    .map_err(TlsError::Pair)?
            }
        };
        let name = |text: &str| {
            ServerName::try_from(text.to_owned()).map_err(|_invalid| TlsError::ServerName(text.into()))
        };
        let server_name = (!server_name.is_empty()).then(|| name(server_name)).transpose()?;
        Ok(Tls { config: Arc::new(config), server_name })
    }

    /// The name that the certificate of the server at this address, host and port, must be for.
    pub(super) fn name_of(&self, address: &str) -> Option<ServerName<'static>> {
        let host = || {
            let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
            ServerName::try_from(host.trim_matches(['[', ']']).to_owned()).ok()
        };
        self.server_name.clone().or_else(host)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_requests_are_signed_with_is_not_shown() {
        let secret = SecretBytes::from(&b"secret-key"[..]);
        let credentials = Credentials {
            access_key: "shop-key".into(),
            secret_key: secret.clone(),
            security_token: Some(secret),
        };
        let shown = format!("{credentials:?} {:?}", credentials.signer());
        assert!(shown.contains("shop-key") && !shown.contains("secret-key"), "{shown}");
        assert!(!shown.contains(&format!("{:?}", b"secret-key")), "{shown}");
        assert_eq!(credentials.signer().secret_key, b"secret-key");
        assert_eq!(credentials.signer().security_token, Some(&b"secret-key"[..]));
    }

    #[test]
    fn a_certificate_must_be_for_the_host_or_for_the_name_that_was_given() {
        let authority = include_bytes!("../../tests/data/localhost.cert.pem");
        let tls = |name: &str| Tls::new(authority, None, name).unwrap();
        let name = |tls: &Tls, address: &str| tls.name_of(address).unwrap().to_str().into_owned();
        assert_eq!(name(&tls(""), "10.0.0.1:10911"), "10.0.0.1");
        assert_eq!(name(&tls(""), "[::1]:10911"), "::1");
        assert_eq!(name(&tls(""), "broker.example:10911"), "broker.example");
        assert_eq!(name(&tls("brokers.shop"), "10.0.0.1:10911"), "brokers.shop");
    }

    #[test]
    fn each_file_that_can_not_be_used_is_named_by_its_key() {
        let authority = &include_bytes!("../../tests/data/localhost.cert.pem")[..];
        let key = &include_bytes!("../../tests/data/localhost.key.pem")[..];
        let other = &include_bytes!("../../tests/data/localhost-renewed.key.pem")[..];
        let cases = [
            ("queue.tls_authority_file", &b"no PEM"[..], None, ""),
            ("queue.tls_key_file", authority, Some((authority, &b"no PEM"[..])), ""),
            ("queue.tls_certificate_file", authority, Some((&b"no PEM"[..], key)), ""),
            ("queue.tls_certificate_file", authority, Some((authority, other)), ""),
            ("queue.tls_server_name", authority, None, "not a name"),
        ];
        for (named, authority, ours, name) in cases {
            let error = Tls::new(authority, ours, name).unwrap_err().to_string();
            assert!(error.contains(named), "{named}: {error}");
        }
    }
}
