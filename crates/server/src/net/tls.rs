//! Loads a certificate and its key for the event loop, and another one in its place while the loop runs.

use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use rustls::client::verify_server_cert_signed_by_trust_anchor;
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, UnixTime};
use rustls::server::{ClientHello, ParsedCertificate, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use rustls::{CertificateError, RootCertStore, ServerConfig};

/// After the year 9999, the last that a certificate can name.
const TOO_LATE_S: u64 = 253_402_300_800;

/// Why TLS can't be served; each names the file at fault.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    #[error("the certificate file {} can't be read as PEM", path.display())]
    Certificate {
        path: PathBuf,
        #[source]
        source: pem::Error,
    },
    #[error("the certificate file {} holds no certificate", path.display())]
    NoCertificate { path: PathBuf },
    #[error("the key file {} holds no readable PEM private key", path.display())]
    Key {
        path: PathBuf,
        #[source]
        source: pem::Error,
    },
    #[error("the certificate {} and the key {} can't be used together", certificate.display(), key.display())]
    Pair {
        certificate: PathBuf,
        key: PathBuf,
        #[source]
        source: rustls::Error,
    },
}

/// The certificate that is shown now. One handshake looks at it once; what is shown later may be another.
#[derive(Debug)]
struct Shown(RwLock<Arc<CertifiedKey>>);

impl ResolvesServerCert for Shown {
    fn resolve(&self, _hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(Arc::clone(&self.0.read().unwrap_or_else(PoisonError::into_inner)))
    }
}

/// A certificate with its key, and the terms on which a loop speaks TLS with it. Clones show the same one.
#[derive(Clone, Debug)]
pub struct Tls {
    config: Arc<ServerConfig>,
    shown: Arc<Shown>,
}

impl Tls {
    /// TLS 1.2 and 1.3 without client certificates, HTTP/1.1 only. `certificate` is the chain, the server's own
    /// certificate first; both files are PEM.
    ///
    /// # Errors
    /// If one of the files can't be read, or they don't belong together.
    pub fn load(certificate: &Path, key: &Path) -> Result<Tls, TlsError> {
        let provider = rustls::crypto::ring::default_provider();
        let pair =
            |source| TlsError::Pair { certificate: certificate.to_owned(), key: key.to_owned(), source };
        let (chain, private) = read(certificate, key)?;
        let certified = CertifiedKey::from_der(chain, private, &provider).map_err(pair)?;
        let shown = Arc::new(Shown(RwLock::new(Arc::new(certified))));
        let mut config = ServerConfig::builder_with_provider(Arc::new(provider))
            .with_safe_default_protocol_versions()
            .map_err(pair)?
            .with_no_client_auth()
            .with_cert_resolver(Arc::clone(&shown) as Arc<dyn ResolvesServerCert>);
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Tls { config: Arc::new(config), shown })
    }

    /// For [`EventLoop::new`](super::EventLoop::new).
    pub fn config(&self) -> Arc<ServerConfig> {
        Arc::clone(&self.config)
    }

    /// From when on and until when clients take the certificate, by its own word. `None`: it does not say so.
    pub fn valid(&self) -> Option<(engine::UnixMs, engine::UnixMs)> {
        let shown = self.shown.0.read().unwrap_or_else(PoisonError::into_inner);
        let own = ParsedCertificate::try_from(shown.cert.first()?).ok()?;
        // The library gives either time to whoever comes at a wrong one, before it looks who vouches for the certificate.
        let wrong = |at_s| {
            let at = UnixTime::since_unix_epoch(Duration::from_secs(at_s));
            match verify_server_cert_signed_by_trust_anchor(&own, &RootCertStore::empty(), &[], at, &[]) {
                Err(rustls::Error::InvalidCertificate(why)) => Some(why),
                _ => None,
            }
        };
        let ms = |at: UnixTime| engine::UnixMs(at.as_secs().saturating_mul(1_000));
        match (wrong(0)?, wrong(TOO_LATE_S)?) {
            (
                CertificateError::NotValidYetContext { not_before, .. },
                CertificateError::ExpiredContext { not_after, .. },
            ) => Some((ms(not_before), ms(not_after))),
            _ => None,
        }
    }

    /// Shows another certificate from the next handshake on. Connections that there are go on.
    pub(crate) fn show(&self, renewed: &Tls) {
        let renewed = Arc::clone(&renewed.shown.0.read().unwrap_or_else(PoisonError::into_inner));
        *self.shown.0.write().unwrap_or_else(PoisonError::into_inner) = renewed;
    }
}

type Pair = (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>);

fn read(certificate: &Path, key: &Path) -> Result<Pair, TlsError> {
    let unreadable = |source| TlsError::Certificate { path: certificate.to_owned(), source };
    let chain: Vec<CertificateDer<'static>> = CertificateDer::pem_file_iter(certificate)
        .map_err(unreadable)?
        .collect::<Result<_, _>>()
        .map_err(unreadable)?;
    if chain.is_empty() {
        return Err(TlsError::NoCertificate { path: certificate.to_owned() });
    }
    let private =
        PrivateKeyDer::from_pem_file(key).map_err(|source| TlsError::Key { path: key.to_owned(), source })?;
    Ok((chain, private))
}
