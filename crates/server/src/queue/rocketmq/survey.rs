//! What the masters themselves say of a topic's queues: which there are, and how far each goes.
//!
//! The name servers know which queues a broker has registered, and forget a broker that died. Whether a queue was
//! removed only its broker can say. Rare, so each call makes its own connections.
//!
//! Must not: change anything at a broker.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::time::{Duration, Instant};

use rocketmq::codes::{GET_MAX_OFFSET, GET_MIN_OFFSET};
use rocketmq::{BrokerRoute, OffsetFields};
use serde::Deserialize;

use super::admin::{Admin, AdminError, TOPIC, TOPIC_OF_ALL_BROKERS};
use super::route::RouteError;
use crate::queue::Queue;

/// For all requests to one broker. Less than a lease, so that who asks for it keeps its own.
const BROKER_TIMEOUT: Duration = Duration::from_secs(2);

/// What the brokers of one topic say, each by its name; or why one said nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Survey {
    pub brokers: BTreeMap<String, Result<BrokerQueues, String>>,
}

/// The queues of one broker.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BrokerQueues {
    /// Those with a smaller number give messages.
    pub read: u32,
    /// Those with a smaller number take messages.
    pub write: u32,
    /// Offsets of the oldest message and behind the newest: of the queues that there are, and of those asked for.
    pub messages: BTreeMap<u32, Range<u64>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct TopicConfig {
    read_queue_nums: u32,
    write_queue_nums: u32,
}

impl Admin {
    /// Asks the masters of all brokers that have the topic, by the name servers, and those of further queues, which may
    /// not be in the topic any more.
    pub fn survey<'a>(
        &mut self,
        topic: &str,
        further: impl IntoIterator<Item = &'a Queue>,
    ) -> Result<Survey, AdminError> {
        let mut wanted: BTreeMap<String, BTreeSet<u32>> = BTreeMap::new();
        for queue in further {
            wanted.entry(queue.broker.clone()).or_default().insert(queue.number);
        }
        let of_topic = self.route_of(topic)?;
        let mut masters: BTreeMap<String, Option<String>> = BTreeMap::new();
        for BrokerRoute { broker, master, .. } in of_topic {
            wanted.entry(broker.clone()).or_default();
            masters.insert(broker, master);
        }
        // A broker may live, and have nothing of the topic any more.
        if wanted.keys().any(|broker| !masters.contains_key(broker)) {
            for BrokerRoute { broker, master, .. } in self.route_of(TOPIC_OF_ALL_BROKERS)? {
                masters.entry(broker).or_insert(master);
            }
        }
        let mut survey = Survey::default();
        for (broker, further) in wanted {
            let said = match masters.get(&broker) {
                None => Err("no name server knows it".to_owned()),
                Some(None) => Err("it has no master".to_owned()),
                Some(Some(address)) => {
                    self.ask(&broker, address, topic, further).map_err(|error| error.to_string())
                }
            };
            survey.brokers.insert(broker, said);
        }
        Ok(survey)
    }

    fn route_of(&mut self, topic: &str) -> Result<Vec<BrokerRoute>, AdminError> {
        match self.name_servers.lookup(topic) {
            Ok(route) => Ok(route),
            Err(RouteError::NoTopic(_)) => Ok(Vec::new()),
            Err(RouteError::Refused(why)) => Err(AdminError::Denied(why)),
            Err(error) => Err(AdminError::Unreachable(error.to_string())),
        }
    }

    fn ask(
        &self,
        name: &str,
        address: &str,
        topic: &str,
        further: BTreeSet<u32>,
    ) -> Result<BrokerQueues, AdminError> {
        let mut broker = self.open_before(name, address, Instant::now() + BROKER_TIMEOUT)?;
        let what = || format!("describe the topic {topic}");
        let mut queues = BrokerQueues::default();
        if let Some(config) = broker.describe::<TopicConfig>(&TOPIC, topic)? {
            (queues.read, queues.write) = (config.read_queue_nums, config.write_queue_nums);
        }
        let mut numbers = further;
        numbers.extend(0..queues.read.max(queues.write));
        for number in numbers {
            let mut offset = |code| {
                let answer = broker.call(code, &OffsetFields { topic, queue_id: number }, &[])?;
                let answer = broker.check(answer, what)?;
                answer.number("offset").map_err(|text| broker.odd(what(), text))
            };
            queues.messages.insert(number, offset(GET_MIN_OFFSET)?..offset(GET_MAX_OFFSET)?);
        }
        Ok(queues)
    }
}
