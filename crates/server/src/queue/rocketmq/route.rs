//! Name servers: which brokers have a topic, and where their masters are.

use std::collections::BTreeMap;
use std::io;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::codes::{GET_ROUTEINFO_BY_TOPIC, SUCCESS, TOPIC_NOT_EXIST};
use super::connection::{Connection, Lost};
use crate::queue::{Options, Terms};

/// For one name server to answer while orders wait for it; then the next one is asked.
pub(super) const ANSWER_TIMEOUT: Duration = Duration::from_secs(1);
/// Those before it cannot be asked for standard JSON.
const OLDEST: &str = "name servers from 4.9.4 on are understood";
/// The key of a master among a broker's addresses.
const MASTER: &str = "0";
/// Bits of a queue's permissions.
const PERM_READ: u32 = 4;
const PERM_WRITE: u32 = 2;

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Fields<'a> {
    topic: &'a str,
    /// Without it the keys of maps are numbers without quotes.
    accept_standard_json_only: &'static str,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RouteData {
    broker_datas: Vec<BrokerData>,
    queue_datas: Vec<QueueData>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct BrokerData {
    broker_name: String,
    broker_addrs: BTreeMap<String, String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct QueueData {
    broker_name: String,
    read_queue_nums: u32,
    write_queue_nums: u32,
    perm: u32,
}

/// A broker's share of a topic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct BrokerRoute {
    pub(super) broker: String,
    /// Where its master is, while it has one.
    pub(super) master: Option<String>,
    pub(super) read_queues: u32,
    pub(super) write_queues: u32,
}

#[derive(Debug, thiserror::Error)]
pub(super) enum RouteError {
    #[error("no broker has the topic {0}")]
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
    terms: Terms,
    /// The one that answered last.
    first: usize,
    /// For each of them to answer.
    timeout: Duration,
}

impl NameServers {
    pub(super) fn new(options: &Options, timeout: Duration) -> NameServers {
        let (addresses, terms) = (options.name_servers.clone(), options.terms.clone());
        NameServers { addresses, terms, first: 0, timeout }
    }

    /// Asks one after the other until one knows the topic: one that has just started does not know all brokers yet.
    pub(super) fn lookup(&mut self, topic: &str) -> Result<Vec<BrokerRoute>, RouteError> {
        let mut reasons = Vec::new();
        let (mut unknown, mut refused) = (false, true);
        for step in 0..self.addresses.len() {
            let index = (self.first + step) % self.addresses.len();
            let address = &self.addresses[index];
            match ask(address, &self.terms, topic, Instant::now() + self.timeout) {
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
}

fn ask(
    address: &str,
    terms: &Terms,
    topic: &str,
    deadline: Instant,
) -> Result<Option<Vec<BrokerRoute>>, Lost> {
    let fields = Fields { topic, accept_standard_json_only: "true" };
    let mut connection = Connection::open(address, terms, deadline)?;
    let answer = connection.call(GET_ROUTEINFO_BY_TOPIC, 1, &fields, &[], deadline, drop)?;
    match answer.code {
        SUCCESS => Ok(Some(parse(&answer.body)?)),
        TOPIC_NOT_EXIST => Ok(None),
        code => Err(match connection.refusal(&answer) {
            Some(why) => Lost::Refused(why),
            None => io::Error::other(format!("code {code}: {}", answer.remark)).into(),
        }),
    }
}

fn parse(body: &[u8]) -> io::Result<Vec<BrokerRoute>> {
    let data: RouteData = serde_json::from_slice(body)
        .map_err(|error| io::Error::other(format!("a route in no known form ({OLDEST}): {error}")))?;
    let mut routes: Vec<BrokerRoute> = data
        .queue_datas
        .into_iter()
        .map(|queues| {
            let having = |perm: u32, count: u32| if queues.perm & perm == 0 { 0 } else { count };
            let named = |data: &&BrokerData| data.broker_name == queues.broker_name;
            BrokerRoute {
                master: data
                    .broker_datas
                    .iter()
                    .find(named)
                    .and_then(|data| data.broker_addrs.get(MASTER))
                    .cloned(),
                read_queues: having(PERM_READ, queues.read_queue_nums),
                write_queues: having(PERM_WRITE, queues.write_queue_nums),
                broker: queues.broker_name,
            }
        })
        .collect();
    routes.sort_by(|a, b| a.broker.cmp(&b.broker));
    routes.dedup_by(|a, b| a.broker == b.broker);
    Ok(routes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_route_tells_masters_and_queues() {
        let body = br#"{"brokerDatas":[{"brokerAddrs":{"0":"10.0.0.1:10911","1":"10.0.0.2:10911"},"brokerName":"b",
            "cluster":"C","enableActingMaster":false},{"brokerAddrs":{"1":"10.0.0.4:1"},"brokerName":"a"}],
            "filterServerTable":{},"queueDatas":[{"brokerName":"b","perm":6,"readQueueNums":8,"topicSysFlag":0,
            "writeQueueNums":7},{"brokerName":"a","perm":4,"readQueueNums":4,"writeQueueNums":4}]}"#;
        let a = BrokerRoute { broker: "a".into(), master: None, read_queues: 4, write_queues: 0 };
        let master = Some("10.0.0.1:10911".into());
        let b = BrokerRoute { broker: "b".into(), master, read_queues: 8, write_queues: 7 };
        assert_eq!(parse(body).unwrap(), [a, b]);
        assert!(parse(b"{}").is_err());
        let old = br#"{"brokerDatas":[{"brokerAddrs":{0:"a:1"},"brokerName":"broker-a"}],"queueDatas":[]}"#;
        let error = parse(old).unwrap_err().to_string();
        assert!(error.contains("name servers from 4.9.4 on"), "{error}");
    }
}
