//! Name servers: which brokers have a topic, and where their masters are.

use std::collections::BTreeMap;
use std::io;
use std::time::{Duration, Instant};

use rocketmq::codes::{DELETE_TOPIC_IN_NAME_SERVER, GET_ROUTEINFO_BY_TOPIC, SUCCESS, TOPIC_NOT_EXIST};
use rocketmq::frame::Answer;
use rocketmq::{BrokerRoute, RouteFields, route};

use super::connection::{Connection, Lost};
use crate::queue::{Options, Security, no_topic};

/// For one name server to answer while orders wait for it; then the next one is asked.
pub(super) const ANSWER_TIMEOUT: Duration = Duration::from_secs(1);

#[derive(Debug, thiserror::Error)]
pub(super) enum RouteError {
    #[error("{}", no_topic(.0))]
    NoTopic(String),
    #[error("no name server answers (queue.name_servers): {0}")]
    NoNameServer(String),
    /// It stays so until a configuration is changed.
    #[error("no name server takes our requests: {0}")]
    Refused(String),
}

#[derive(Debug)]
pub(super) struct NameServers {
    addresses: Vec<String>,
    security: Security,
    /// The one that answered last.
    first: usize,
    /// For each of them to answer.
    timeout: Duration,
}

impl NameServers {
    pub(super) fn new(options: &Options, timeout: Duration) -> NameServers {
        let (addresses, security) = (options.name_servers.clone(), options.security.clone());
        NameServers { addresses, security, first: 0, timeout }
    }

    /// Asks one after the other until one knows the topic: one that has just started does not know all brokers yet.
    pub(super) fn lookup(&mut self, topic: &str) -> Result<Vec<BrokerRoute>, RouteError> {
        let mut reasons = Vec::new();
        let (mut unknown, mut refused) = (false, true);
        for step in 0..self.addresses.len() {
            let index = (self.first + step) % self.addresses.len();
            let address = &self.addresses[index];
            match ask(address, &self.security, topic, Instant::now() + self.timeout) {
                Ok(Some(route)) => {
                    self.first = index;
                    return Ok(route);
                }
                Ok(None) => unknown = true,
                Err(lost) => {
                    refused &= lost.is_lasting();
                    reasons.push(format!("{address}: {lost}"));
                }
            }
        }
        if unknown {
            return Err(RouteError::NoTopic(topic.into()));
        }
        let reasons = reasons.join("; ");
        Err(if refused { RouteError::Refused(reasons) } else { RouteError::NoNameServer(reasons) })
    }

    /// Has all of them forget where a topic was: each keeps that by itself, so all must answer.
    pub(super) fn forget(&mut self, topic: &str) -> Result<(), RouteError> {
        for address in &self.addresses {
            let deadline = Instant::now() + self.timeout;
            forget(address, &self.security, topic, deadline).map_err(|lost| {
                let reason = format!("{address}: {lost}");
                let refused = lost.is_lasting();
                if refused { RouteError::Refused(reason) } else { RouteError::NoNameServer(reason) }
            })?;
        }
        Ok(())
    }
}

fn forget(address: &str, security: &Security, topic: &str, deadline: Instant) -> Result<(), Lost> {
    let mut connection = Connection::open(address, security, deadline)?;
    let fields = BTreeMap::from([("topic", topic)]);
    let answer = connection.call(DELETE_TOPIC_IN_NAME_SERVER, 1, &fields, &[], deadline, drop)?;
    if answer.code == SUCCESS { Ok(()) } else { Err(refused(&connection, &answer)) }
}

fn ask(
    address: &str,
    security: &Security,
    topic: &str,
    deadline: Instant,
) -> Result<Option<Vec<BrokerRoute>>, Lost> {
    let mut connection = Connection::open(address, security, deadline)?;
    let answer = connection.call(GET_ROUTEINFO_BY_TOPIC, 1, &RouteFields::new(topic), &[], deadline, drop)?;
    match answer.code {
        SUCCESS => Ok(Some(route(&answer.body).map_err(io::Error::other)?)),
        TOPIC_NOT_EXIST => Ok(None),
        _ => Err(refused(&connection, &answer)),
    }
}

fn refused(connection: &Connection, answer: &Answer) -> Lost {
    match connection.refusal(answer) {
        Some(why) => Lost::Refused(why),
        None => io::Error::other(format!("code {}: {}", answer.code, answer.remark)).into(),
    }
}
