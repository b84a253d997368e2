//! On which terms name servers and brokers are spoken to: as whom, and whether the connection is encrypted.

use std::collections::BTreeMap;
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use ring::hmac;
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};

use crate::secret::SecretBytes;

/// The same for all servers of one installation. Clones share what they hold.
#[derive(Clone, Debug, Default)]
pub struct Terms {
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
    /// Adds who asks, and the signature: HMAC-SHA1 over the values of all fields, in the order of their names, and the
    /// body. Brokers of 4.x with `aclEnable` and of 5.x with `authenticationEnabled` check the same one.
    pub(super) fn sign(&self, fields: &mut BTreeMap<String, String>, body: &[u8]) {
        fields.insert("AccessKey".into(), self.access_key.clone());
        if let Some(token) = &self.security_token {
            fields.insert("SecurityToken".into(), String::from_utf8_lossy(token.as_bytes()).into_owned());
        }
        let key = hmac::Key::new(hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY, self.secret_key.as_bytes());
        let mut signature = hmac::Context::with_key(&key);
        fields.values().for_each(|value| signature.update(value.as_bytes()));
        signature.update(body);
        fields.insert("Signature".into(), STANDARD.encode(signature.sign()));
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

    fn fields(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn the_signature_is_over_the_fields_by_name_and_the_body() {
        // printf 'shop-keyorders3body' | openssl dgst -sha1 -hmac secret-key -binary | base64
        let credentials = Credentials {
            access_key: "shop-key".into(),
            secret_key: SecretBytes::from(&b"secret-key"[..]),
            security_token: None,
        };
        let mut signed = fields(&[("topic", "orders"), ("zone", "3")]);
        credentials.sign(&mut signed, b"body");
        assert_eq!(signed["AccessKey"], "shop-key");
        assert_eq!(signed["Signature"], "npjXQQw2ZJfHhX4b6ZtAZE2Tkjg=");
        assert!(!format!("{credentials:?}").contains("secret-key"));
        // The token is signed as well: printf 'shop-keytokenorders' | ...
        let credentials =
            Credentials { security_token: Some(SecretBytes::from(&b"token"[..])), ..credentials };
        let mut signed = fields(&[("topic", "orders")]);
        credentials.sign(&mut signed, b"");
        assert_eq!(
            (signed["SecurityToken"].as_str(), signed["Signature"].as_str()),
            ("token", "t9+Zu1QDozsfX28wJDFmC/CAh04=")
        );
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
