//! A service of the siteverify kind, as providers of captchas have: what a buyer's browser got from it is handed to it, and it says
//! whether that is good.
//!
//! Must not: try again, take silence for an answer, or log a token or the secret.

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use ureq::Agent;

use crate::authorities::{self, NotAuthorities};
use crate::secret::SecretBytes;

/// For a whole exchange.
pub(super) const TIMEOUT: Duration = Duration::from_secs(5);
/// Of an answer's body.
const ANSWER_BYTES_MAX: u64 = 16 * 1024;
/// Of what a browser got: those of the known providers have 2,048 at most.
pub(super) const TOKEN_BYTES_MAX: usize = 4_096;
/// What the service says of us and of itself: no buyer can help it.
const NOT_OF_THE_BUYER: [&str; 4] =
    ["missing-input-secret", "invalid-input-secret", "sitekey-secret-mismatch", "internal-error"];

/// A service, and what is asked of its answers.
#[derive(Clone)]
pub struct Service {
    agent: Agent,
    url: Arc<str>,
    secret: SecretBytes,
    expected: Expected,
}

/// What an answer has to say beside that the token is good.
#[derive(Clone, Debug, Default)]
pub struct Expected {
    /// Where the check was shown, one of these; none: anywhere.
    pub hostnames: Vec<String>,
    /// For what it was shown; `None`: anything.
    pub action: Option<String>,
    /// The service is sent the buyer's address.
    pub sends_address: bool,
}

impl fmt::Debug for Service {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Service").field("url", &self.url).finish_non_exhaustive()
    }
}

#[derive(Deserialize)]
struct Answer {
    success: bool,
    #[serde(default)]
    action: Option<String>,
    #[serde(default)]
    hostname: Option<String>,
    #[serde(default, rename = "error-codes")]
    error_codes: Vec<String>,
}

impl Service {
    /// `authorities`: PEM certificates that vouch for an https server; `None`: it is reached without TLS. Redirects are not followed.
    ///
    /// # Errors
    /// If the certificates can not be read as such.
    pub fn new(
        url: &str,
        secret: SecretBytes,
        expected: Expected,
        (authorities, allow_private): (Option<&[u8]>, bool),
    ) -> Result<Service, NotAuthorities> {
        let settings = authorities::client(TIMEOUT, authorities)?
            .max_idle_connections_per_host(super::desk::THREADS)
            .user_agent(concat!("Doorbuster/", env!("CARGO_PKG_VERSION")));
        let agent = authorities::agent(settings.build(), allow_private);
        Ok(Service { agent, url: url.into(), secret, expected })
    }

    /// Whether a token is good. Blocks, at most for [`TIMEOUT`].
    ///
    /// # Errors
    /// Why that is not known.
    pub(super) fn ask(&self, token: &str, address: IpAddr) -> Result<bool, String> {
        let (secret, address) = (String::from_utf8_lossy(self.secret.as_bytes()), address.to_string());
        let mut form = vec![("secret", &*secret), ("response", token)];
        if self.expected.sends_address {
            form.push(("remoteip", &address));
        }
        let asked = self.agent.post(&*self.url).send_form(form);
        let mut answer = asked.map_err(|error| format!("no answer: {}", authorities::why_none(&error)))?;
        let status = answer.status().as_u16();
        let body = answer.body_mut().with_config().limit(ANSWER_BYTES_MAX).read_to_vec();
        let body = body.map_err(|error| format!("its answer can't be read: {error}"))?;
        self.understand(status, &body)
    }

    /// A refusal may come with a status of its own; that a token is good, with 200 alone.
    fn understand(&self, status: u16, body: &[u8]) -> Result<bool, String> {
        let answer = serde_json::from_slice::<Answer>(body).ok();
        let Some(answer) = answer.filter(|answer| status == 200 || status < 500 && !answer.success) else {
            return Err(format!("it answers {status}, which is no answer of a siteverify service"));
        };
        if let Some(code) = answer.error_codes.iter().find(|code| NOT_OF_THE_BUYER.contains(&&***code)) {
            return Err(format!("it answers {code}"));
        }
        let Expected { hostnames, action, .. } = &self.expected;
        let is_here = hostnames.is_empty() || answer.hostname.is_some_and(|name| hostnames.contains(&name));
        Ok(answer.success && is_here && (action.is_none() || *action == answer.action))
    }
}

/// Whether a text could be of such a service: others are not sent to it.
pub(super) fn is_token(text: &str) -> bool {
    (1..=TOKEN_BYTES_MAX).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_graphic())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_whole_answer_passes_and_only_a_refusal_refuses() {
        let expected = Expected {
            hostnames: vec!["shop.example".to_owned(), "m.shop.example".to_owned()],
            action: Some("join".to_owned()),
            sends_address: false,
        };
        let service = |expected| {
            Service::new("http://127.0.0.1:9/", SecretBytes::from(&b"s"[..]), expected, (None, true)).unwrap()
        };
        let (strict, lenient) = (service(expected), service(Expected::default()));
        let whole = r#"{"success":true,"hostname":"shop.example","action":"join","challenge_ts":"2026-01-01T00:00:00Z"}"#;
        for (status, body, by_strict, by_lenient) in [
            (200, whole, Some(true), Some(true)),
            (200, &whole.replace("\"shop", "\"m.shop"), Some(true), Some(true)),
            (200, &whole.replace("shop.", "other."), Some(false), Some(true)),
            (200, &whole.replace("join", "login"), Some(false), Some(true)),
            (200, r#"{"success":true}"#, Some(false), Some(true)),
            (200, r#"{"success":true,"hostname":null,"action":null}"#, Some(false), Some(true)),
            (200, r#"{"success":false,"error-codes":["timeout-or-duplicate"]}"#, Some(false), Some(false)),
            (400, r#"{"success":false,"error-codes":["bad-request"]}"#, Some(false), Some(false)),
            (200, r#"{"success":false,"error-codes":["invalid-input-secret"]}"#, None, None),
            (200, r#"{"success":false,"error-codes":["internal-error"]}"#, None, None),
            (400, whole, None, None),
            (302, whole, None, None),
            (500, r#"{"success":false}"#, None, None),
            (429, "slow down", None, None),
            (200, r#"{"success":"true"}"#, None, None),
            (200, "{}", None, None),
            (200, "", None, None),
            (200, "<html>", None, None),
        ] {
            for (service, expected) in [(&strict, by_strict), (&lenient, by_lenient)] {
                assert_eq!(service.understand(status, body.as_bytes()).ok(), expected, "{status} {body}");
            }
        }
    }

    #[test]
    fn what_can_be_no_token_is_sent_to_nobody() {
        let (longest, longer) = ("x".repeat(TOKEN_BYTES_MAX), "x".repeat(TOKEN_BYTES_MAX + 1));
        for (text, is) in [
            ("0.aB-_=+/", true),
            (&longest, true),
            (&longer, false),
            ("", false),
            ("a b", false),
            ("é", false),
        ] {
            assert_eq!(is_token(text), is, "{text}");
        }
    }
}
