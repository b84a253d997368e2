//! Handing events over: to the shop by one request to its endpoint, and what its answer means.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use ureq::Agent;

use super::event;
use super::limits::{ANSWER_BYTES_MAX, REQUESTS_MAX, TIMEOUT};
use super::signature::{Secret, sign};
use crate::authorities::{self, NotAuthorities};
use crate::ledger::{ERROR_BYTES_MAX, Outgoing};

/// What makes the requests of an endpoint: keeps connections open from one to the next.
#[derive(Clone, Debug)]
pub struct Client(Agent);

/// Who events are handed to. What was handed over may come again, after a crash or a lost answer.
pub trait Deliver: fmt::Debug + Send + Sync {
    /// Blocks, for a bounded time. `now_ms` is the wall clock's.
    ///
    /// # Errors
    /// [`NotDelivered`]: the events are handed over again, later.
    fn deliver(&self, events: &[&Outgoing], now_ms: u64) -> Result<(), NotDelivered>;

    /// Tries whether it could; `number` is of the test.
    ///
    /// # Errors
    /// Why not.
    fn test(&self, number: u64, now_ms: u64) -> Result<(), NotDelivered>;
}

/// An endpoint of the shop.
#[derive(Clone, Debug)]
pub struct ShopEndpoint {
    pub url: Arc<str>,
    /// The newer one first, while there are two.
    pub secrets: Vec<Secret>,
    pub client: Client,
    /// Every request is a list of events.
    pub listed: bool,
}

impl Deliver for ShopEndpoint {
    fn deliver(&self, events: &[&Outgoing], now_ms: u64) -> Result<(), NotDelivered> {
        let (id, body) = match events {
            [event] if !self.listed => (event::id(event), event::body(event)),
            events => event::batch(events),
        };
        self.client.send(&self.url, &self.secrets, (&id, now_ms / 1_000), body.to_string().as_bytes())
    }

    fn test(&self, number: u64, now_ms: u64) -> Result<(), NotDelivered> {
        let (id, body) = event::test(number, now_ms);
        self.client.send(&self.url, &self.secrets, (&id, now_ms / 1_000), body.to_string().as_bytes())
    }
}

/// Why an event is not known to have arrived.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NotDelivered {
    pub why: String,
    /// The endpoint asks to be left alone for so long.
    pub retry_after: Option<Duration>,
    /// The endpoint is there no more (410).
    pub gone: bool,
    /// It is this event's fault: others may well arrive.
    pub of_event: bool,
    /// No other try can help: it is given up.
    pub hopeless: bool,
}

impl NotDelivered {
    pub fn new(mut why: String) -> NotDelivered {
        why = why.chars().map(|letter| if letter.is_control() { ' ' } else { letter }).collect();
        while why.len() > ERROR_BYTES_MAX {
            why.pop();
        }
        NotDelivered { why, ..NotDelivered::default() }
    }
}

impl Client {
    /// `authorities`: PEM certificates that vouch for an https server; `None`: it is reached without TLS. Redirects are not
    /// followed, and no proxy is used.
    ///
    /// # Errors
    /// If the certificates can not be read as such.
    pub fn new(authorities: Option<&[u8]>, allow_private: bool) -> Result<Client, NotAuthorities> {
        let settings = authorities::client(TIMEOUT, authorities)?
            .max_idle_connections_per_host(REQUESTS_MAX)
            .user_agent(concat!("Doorbuster/", env!("CARGO_PKG_VERSION")));
        Ok(Client(authorities::agent(settings.build(), allow_private)))
    }

    /// Blocks, at most for [`TIMEOUT`].
    pub(super) fn send(
        &self,
        url: &Arc<str>,
        secrets: &[Secret],
        (id, at_s): (&str, u64),
        body: &[u8],
    ) -> Result<(), NotDelivered> {
        let sent = self
            .0
            .post(&**url)
            .header("content-type", "application/json")
            .header("webhook-id", id)
            .header("webhook-timestamp", at_s.to_string())
            .header("webhook-signature", sign(secrets, id, at_s, body))
            .send(body);
        let mut answer =
            sent.map_err(|error| NotDelivered::new(format!("no answer: {}", authorities::why_none(&error))))?;
        let status = answer.status();
        let retry_after =
            answer.headers().get("retry-after").and_then(|value| value.to_str().ok()?.parse().ok());
        // Read so that the connection can be used again. What it says does not matter, nor whether it ends.
        drop(answer.body_mut().with_config().limit(ANSWER_BYTES_MAX).read_to_vec());
        if status.is_success() {
            return Ok(());
        }
        let mut why = NotDelivered::new(format!("answered {}", status.as_u16()));
        why.gone = status == 410;
        why.retry_after = retry_after.map(Duration::from_secs);
        Err(why)
    }
}
