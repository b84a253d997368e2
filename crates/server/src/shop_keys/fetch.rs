//! Keys from a URL.
//!
//! Must not: be asked on an event loop: it waits for another server.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use ureq::Agent;

use super::{NotKeys, ShopKeys};
use crate::authorities::{self, NotAuthorities};

/// For the whole exchange.
const TIMEOUT: Duration = Duration::from_secs(5);
/// Of the document.
const BYTES_MAX: u64 = 64 << 10;

/// Where a shop publishes its keys.
#[derive(Clone)]
pub struct KeySource {
    url: Arc<str>,
    agent: Agent,
}

impl fmt::Debug for KeySource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeySource").field("url", &self.url).finish_non_exhaustive()
    }
}

/// Why no keys came.
#[derive(Debug, thiserror::Error)]
pub enum FetchError {
    #[error("the server of the keys answered {0}")]
    Status(u16),
    #[error("no answer from the server of the keys: {0}")]
    NoAnswer(#[source] Box<ureq::Error>),
    #[error("what it answered {0}")]
    NotKeys(#[from] NotKeys),
}

impl KeySource {
    /// `authorities`: the PEM certificates that vouch for an https server; `None`: it is reached without TLS.
    ///
    /// # Errors
    /// If the certificates can not be read as such.
    pub fn new(url: &str, authorities: Option<&[u8]>) -> Result<KeySource, NotAuthorities> {
        let settings = authorities::client(TIMEOUT, authorities)?;
        Ok(KeySource { url: Arc::from(url), agent: settings.build().into() })
    }

    /// Blocks, at most for five seconds.
    ///
    /// # Errors
    /// See [`FetchError`].
    pub fn fetch(&self) -> Result<ShopKeys, FetchError> {
        let no_answer = |error| FetchError::NoAnswer(Box::new(error));
        let mut response = self.agent.get(&*self.url).call().map_err(no_answer)?;
        if response.status() != 200 {
            return Err(FetchError::Status(response.status().as_u16()));
        }
        let text = response.body_mut().with_config().limit(BYTES_MAX).read_to_string().map_err(no_answer)?;
        Ok(ShopKeys::read(&text)?)
    }
}
