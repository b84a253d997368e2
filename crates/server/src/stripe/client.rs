//! One request to Stripe's API, and what its answer means.
//!
//! Must not: try again, or log a key.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use ureq::Agent;
use ureq::http::Response;

use crate::authorities::{self, NotAuthorities};
use crate::secret::SecretBytes;

/// For a whole exchange.
const TIMEOUT: Duration = Duration::from_secs(10);
/// Of an answer's body.
const ANSWER_BYTES_MAX: u64 = 1 << 20;
/// The answers' form that is understood here, whatever the account's is.
const API_VERSION: &str = "2024-06-20";
/// Connections that are kept open.
const IDLE_MAX: usize = 32;
/// Of a message that is kept.
const MESSAGE_CHARS_MAX: usize = 160;

/// An account at Stripe.
#[derive(Clone)]
pub struct Client {
    agent: Agent,
    api_url: Arc<str>,
    key: SecretBytes,
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("api_url", &self.api_url).finish_non_exhaustive()
    }
}

/// Why there is no good answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Failure {
    /// `None`: there was no answer, and whether the request was carried out is unknown.
    pub(super) status: Option<u16>,
    pub(super) why: String,
    pub(super) retry_after: Option<Duration>,
}

impl Failure {
    /// Stripe said no to this request, and would to the same again as long as nothing else changes.
    pub(super) fn is_refusal(&self) -> bool {
        self.status
            .is_some_and(|status| (400..500).contains(&status) && ![401, 403, 409, 429].contains(&status))
    }

    fn unknown(why: String) -> Failure {
        Failure { status: None, why, retry_after: None }
    }
}

#[derive(Deserialize)]
struct ErrorBody {
    error: ErrorObject,
}

#[derive(Deserialize)]
struct ErrorObject {
    #[serde(default)]
    code: Option<String>,
    #[serde(default)]
    message: Option<String>,
}

impl Client {
    /// `authorities`: PEM certificates that vouch for an https server; `None`: it is reached without TLS.
    ///
    /// # Errors
    /// If the certificates can not be read as such.
    pub fn new(
        api_url: &str,
        key: SecretBytes,
        authorities: Option<&[u8]>,
    ) -> Result<Client, NotAuthorities> {
        let settings = authorities::client(TIMEOUT, authorities)?
            .max_idle_connections_per_host(IDLE_MAX)
            .user_agent(concat!("Doorbuster/", env!("CARGO_PKG_VERSION")));
        let api_url = Arc::from(api_url.trim_end_matches('/'));
        Ok(Client { agent: settings.build().into(), api_url, key })
    }

    pub(super) fn api_url(&self) -> &Arc<str> {
        &self.api_url
    }

    /// Blocks, at most for [`TIMEOUT`].
    pub(super) fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, Failure> {
        let asked = self.agent.get(format!("{}{path}", self.api_url));
        understand(asked.header("authorization", self.bearer()).header("stripe-version", API_VERSION).call())
    }

    /// Blocks, at most for [`TIMEOUT`]. The same `key` within a day is carried out once.
    pub(super) fn post<T: DeserializeOwned>(
        &self,
        path: &str,
        form: &[(&str, String)],
        key: &str,
    ) -> Result<T, Failure> {
        let asked = self
            .agent
            .post(format!("{}{path}", self.api_url))
            .header("authorization", self.bearer())
            .header("stripe-version", API_VERSION)
            .header("idempotency-key", key);
        understand(asked.send_form(form.iter().map(|(name, value)| (*name, value.as_str()))))
    }

    fn bearer(&self) -> String {
        format!("Bearer {}", String::from_utf8_lossy(self.key.as_bytes()))
    }
}

fn understand<T: DeserializeOwned>(
    answered: Result<Response<ureq::Body>, ureq::Error>,
) -> Result<T, Failure> {
    let no_answer = |error| Failure::unknown(format!("no answer: {error}"));
    let mut answer = answered.map_err(no_answer)?;
    let status = answer.status().as_u16();
    let retry_after = answer.headers().get("retry-after").and_then(|value| value.to_str().ok()?.parse().ok());
    let body = answer.body_mut().with_config().limit(ANSWER_BYTES_MAX).read_to_vec().map_err(no_answer)?;
    if status == 200 {
        return serde_json::from_slice(&body)
            .map_err(|error| Failure::unknown(format!("the answer is not understood: {error}")));
    }
    let mut why = format!("answered {status}");
    if let Ok(ErrorBody { error }) = serde_json::from_slice::<ErrorBody>(&body) {
        let parts = [error.code, error.message].into_iter().flatten().collect::<Vec<_>>().join(": ");
        why = format!("{why}: {}", parts.chars().take(MESSAGE_CHARS_MAX).collect::<String>());
    }
    Err(Failure { status: Some(status), why, retry_after: retry_after.map(Duration::from_secs) })
}
