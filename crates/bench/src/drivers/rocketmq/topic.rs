//! Topics: made, looked up and removed by the name server and its brokers. Blocking, before and after a load.

use std::net::{SocketAddr, ToSocketAddrs};
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use rocketmq::codes::{
    DELETE_TOPIC_IN_BROKER, DELETE_TOPIC_IN_NAME_SERVER, GET_ROUTEINFO_BY_TOPIC, SUCCESS, TOPIC_NOT_EXIST,
    UPDATE_AND_CREATE_TOPIC,
};
use rocketmq::{BrokerRoute, RouteFields};
use serde_json::json;

use crate::target::engines::rocketmq::Broker;

/// Every broker has it, so its route names all of them.
const TOPIC_OF_ALL_BROKERS: &str = "SELF_TEST_TOPIC";
/// A broker that was just started may not have registered at the name server yet; a new topic is registered within a
/// second.
const PATIENCE: Duration = Duration::from_secs(30);
const POLL: Duration = Duration::from_millis(50);

/// Where a topic's messages go: its writable queues on the brokers' masters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Topic {
    pub name: String,
    pub brokers: Vec<Master>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Master {
    pub name: String,
    pub address: SocketAddr,
    /// Of this topic, on this broker.
    pub queues: u32,
}

impl Topic {
    /// `None` if no broker has it.
    ///
    /// # Errors
    /// If the name server can't be asked, or names no master.
    pub fn look_up(name_server: SocketAddr, name: &str) -> anyhow::Result<Option<Self>> {
        let mut server = Broker::connect(name_server)?;
        let answer = server.exchange(GET_ROUTEINFO_BY_TOPIC, &RouteFields::new(name))?;
        if answer.code == TOPIC_NOT_EXIST {
            return Ok(None);
        }
        ensure!(
            answer.code == SUCCESS,
            "the name server on {name_server} refused the route of {name} with code {}: {}",
            answer.code,
            answer.remark
        );
        let brokers = masters(rocketmq::route(&answer.body)?)?;
        Ok(Some(Self { name: name.to_owned(), brokers }))
    }

    /// Makes it on every broker, with so many queues on each, and waits until the name server knows.
    ///
    /// # Errors
    /// If a broker refuses, or has another number of queues in the end.
    pub fn create(name_server: SocketAddr, name: &str, queues: u32) -> anyhow::Result<Self> {
        let all = wait_for(&format!("brokers at the name server on {name_server}"), || {
            Ok(Self::look_up(name_server, TOPIC_OF_ALL_BROKERS)?.filter(|of| !of.brokers.is_empty()))
        })?;
        for broker in &all.brokers {
            let fields = json!({
                "topic": name, "defaultTopic": "TBW102", "readQueueNums": queues.to_string(),
                "writeQueueNums": queues.to_string(), "perm": "6", "topicFilterType": "SINGLE_TAG",
                "topicSysFlag": "0", "order": "false",
            });
            Broker::connect(broker.address)?.ask(UPDATE_AND_CREATE_TOPIC, &fields)?;
        }
        let is_complete = |topic: &Self| {
            topic.brokers.len() == all.brokers.len() && topic.brokers.iter().all(|of| of.queues == queues)
        };
        wait_for(&format!("the route of {name} with {queues} queues"), || {
            Ok(Self::look_up(name_server, name)?.filter(is_complete))
        })
    }

    /// The topic is gone; its messages stay in the brokers' logs until those are removed.
    pub fn delete(self, name_server: SocketAddr) -> anyhow::Result<()> {
        let fields = json!({"topic": self.name});
        for broker in &self.brokers {
            Broker::connect(broker.address)?.ask(DELETE_TOPIC_IN_BROKER, &fields)?;
        }
        Broker::connect(name_server)?.ask(DELETE_TOPIC_IN_NAME_SERVER, &fields)?;
        Ok(())
    }

    pub fn queues(&self) -> u32 {
        self.brokers.iter().map(|of| of.queues).sum()
    }

    pub(super) fn addresses(&self) -> Vec<SocketAddr> {
        self.brokers.iter().map(|of| of.address).collect()
    }

    /// Each queue: which broker, and which number there. Brokers take turns, as in RocketMQ's own producer.
    pub(super) fn all_queues(&self) -> Vec<(usize, u32)> {
        let most = self.brokers.iter().map(|of| of.queues).max().unwrap_or(0);
        let has = |broker: &usize, number| number < self.brokers[*broker].queues;
        (0..most)
            .flat_map(|number| (0..self.brokers.len()).map(move |broker| (broker, number)))
            .filter(|(broker, number)| has(broker, *number))
            .collect()
    }

    /// Of each queue, in the order of `all_queues`, the offset that its next message gets: waits until the
    /// brokers' queues show all of their logs.
    pub fn ends(&self) -> anyhow::Result<Vec<u64>> {
        let mut brokers = Vec::new();
        for of in &self.brokers {
            let mut broker = Broker::connect(of.address)?;
            wait_for("the broker to put its log into its queues", || {
                // One that was started moments ago refuses to answer.
                Ok(broker.dispatch_behind_bytes().is_ok_and(|bytes| bytes == 0).then_some(()))
            })?;
            brokers.push(broker);
        }
        let queues = self.all_queues().into_iter();
        queues.map(|(broker, number)| brokers[broker].max_offset(&self.name, number)).collect()
    }

    /// Of each queue, in that order, the offset of the oldest message that is still there.
    pub fn starts(&self) -> anyhow::Result<Vec<u64>> {
        let brokers: Result<Vec<Broker>, _> =
            self.brokers.iter().map(|of| Broker::connect(of.address)).collect();
        let mut brokers = brokers?;
        let queues = self.all_queues().into_iter();
        queues.map(|(broker, number)| brokers[broker].min_offset(&self.name, number)).collect()
    }

    /// Messages that were ever put into it.
    pub fn messages(&self) -> anyhow::Result<u64> {
        Ok(self.ends()?.iter().sum())
    }
}

/// Masters with their writable queues. A broker without a master takes no messages.
fn masters(route: Vec<BrokerRoute>) -> anyhow::Result<Vec<Master>> {
    let mut found = Vec::new();
    for BrokerRoute { broker, master, write_queues, .. } in route {
        let Some(address) = master else { continue };
        let address = address.to_socket_addrs().with_context(|| address.clone())?.next();
        let address = address.with_context(|| format!("no address of {broker}"))?;
        found.push(Master { name: broker, address, queues: write_queues });
    }
    Ok(found)
}

fn wait_for<T>(what: &str, mut look: impl FnMut() -> anyhow::Result<Option<T>>) -> anyhow::Result<T> {
    let begun = Instant::now();
    loop {
        if let Some(found) = look()? {
            return Ok(found);
        }
        if begun.elapsed() >= PATIENCE {
            bail!("waited {} s in vain for {what}", PATIENCE.as_secs());
        }
        std::thread::sleep(POLL);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_route_names_masters_and_their_writable_queues() {
        let route = json!({
            "brokerDatas": [
                {"brokerName": "b", "brokerAddrs": {"0": "127.0.0.1:2", "1": "127.0.0.1:3"}},
                {"brokerName": "a", "brokerAddrs": {"0": "127.0.0.1:1"}},
                {"brokerName": "c", "brokerAddrs": {"1": "127.0.0.1:4"}},
            ],
            "queueDatas": [
                {"brokerName": "b", "perm": 6, "readQueueNums": 9, "writeQueueNums": 1},
                {"brokerName": "a", "perm": 6, "readQueueNums": 2, "writeQueueNums": 2},
                {"brokerName": "c", "perm": 6, "readQueueNums": 2, "writeQueueNums": 2},
            ],
        });
        let masters = |route: &serde_json::Value| masters(rocketmq::route(route.to_string().as_bytes())?);
        let topic = Topic { name: "T".into(), brokers: masters(&route).unwrap() };
        assert_eq!(topic.addresses().iter().map(SocketAddr::port).collect::<Vec<_>>(), [1, 2]);
        assert_eq!((topic.queues(), topic.all_queues()), (3, vec![(0, 0), (1, 0), (0, 1)]));
        let mut read_only = route.clone();
        read_only["queueDatas"][1]["perm"] = json!(4);
        assert_eq!(masters(&read_only).unwrap()[0].queues, 0);
        assert!(masters(&json!({})).is_err());
    }
}
