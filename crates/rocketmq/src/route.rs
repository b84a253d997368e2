//! What a name server says of a topic: which brokers have it, and where their masters are.

use std::collections::BTreeMap;

use serde::Deserialize;

/// The key of a master among a broker's addresses.
const MASTER: &str = "0";
/// Bits of a queue's permissions.
const PERM_READ: u32 = 4;
const PERM_WRITE: u32 = 2;

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
pub struct BrokerRoute {
    pub broker: String,
    /// Where its master is, while it has one.
    pub master: Option<String>,
    pub read_queues: u32,
    pub write_queues: u32,
}

/// Name servers before 4.9.4 can't be asked for standard JSON.
#[derive(Debug, thiserror::Error)]
#[error("a route in no known form (name servers from 4.9.4 on are understood): {0}")]
pub struct UnknownRoute(#[from] serde_json::Error);

/// A name server's answer: each broker once, in the order of their names.
pub fn route(body: &[u8]) -> Result<Vec<BrokerRoute>, UnknownRoute> {
    let data: RouteData = serde_json::from_slice(body)?;
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
    fn a_route_has_masters_and_queues() {
        let body = br#"{"brokerDatas":[{"brokerAddrs":{"0":"10.0.0.1:10911","1":"10.0.0.2:10911"},"brokerName":"b",
            "cluster":"C","enableActingMaster":false},{"brokerAddrs":{"1":"10.0.0.4:1"},"brokerName":"a"}],
            "filterServerTable":{},"queueDatas":[{"brokerName":"b","perm":6,"readQueueNums":8,"topicSysFlag":0,
            "writeQueueNums":7},{"brokerName":"a","perm":4,"readQueueNums":4,"writeQueueNums":4}]}"#;
        let a = BrokerRoute { broker: "a".into(), master: None, read_queues: 4, write_queues: 0 };
        let master = Some("10.0.0.1:10911".into());
        let b = BrokerRoute { broker: "b".into(), master, read_queues: 8, write_queues: 7 };
        assert_eq!(route(body).unwrap(), [a, b]);
        assert!(route(b"{}").is_err());
        let old = br#"{"brokerDatas":[{"brokerAddrs":{0:"a:1"},"brokerName":"broker-a"}],"queueDatas":[]}"#;
        let error = route(old).unwrap_err().to_string();
        assert!(error.contains("name servers from 4.9.4 on"), "{error}");
    }
}
