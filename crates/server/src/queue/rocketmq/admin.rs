//! Topics and the health of brokers. Rare, so each call makes its own connections.
//!
//! Must not: change a topic that is there (fewer queues would hide those that still hold orders), or delete one that sells.

use std::collections::{BTreeMap, HashMap};
use std::time::{Duration, Instant};

use rocketmq::BrokerRoute;
use rocketmq::codes::{
    DELETE_TOPIC_IN_BROKER, GET_ALL_SUBSCRIPTIONGROUP_CONFIG, GET_ALL_TOPIC_CONFIG, GET_BROKER_CONFIG,
    GET_BROKER_RUNTIME_INFO, GET_SUBSCRIPTIONGROUP_CONFIG, GET_TOPIC_CONFIG, REQUEST_CODE_NOT_SUPPORTED,
    SUBSCRIPTION_GROUP_NOT_EXIST, SUCCESS, TOPIC_NOT_EXIST, UPDATE_AND_CREATE_SUBSCRIPTIONGROUP,
    UPDATE_AND_CREATE_TOPIC,
};
use rocketmq::frame::Answer;
use serde::de::{DeserializeOwned, Error as _, IgnoredAny};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::connection::{Connection, Lost};
use super::route::{NameServers, RouteError};
use crate::intake::{EngineSettings, Setting};
use crate::queue::Options;

/// For all requests to one broker, and for each to a name server: nobody waits for an order here.
const BROKER_TIMEOUT: Duration = Duration::from_secs(3);
/// For a broker to delete topics, which it writes to its disk.
const DELETE_TIMEOUT: Duration = Duration::from_secs(10);
/// For a name server to hear of a topic from the broker that has made it; looked at so often.
const REGISTER_TIMEOUT: Duration = Duration::from_secs(5);
const REGISTER_PAUSE: Duration = Duration::from_millis(20);
/// Every broker has it.
pub(super) const TOPIC_OF_ALL_BROKERS: &str = "SELF_TEST_TOPIC";
/// Queues of a topic that is made here, on each broker.
const QUEUES: &str = "8";

#[derive(Serialize)]
struct NoFields {}

/// What a broker keeps a configuration of, by its name.
pub(super) struct Kind {
    /// For people, and the field of the request that names it.
    word: &'static str,
    show: i32,
    /// The answer to `show` for what is not there.
    absent: i32,
    show_all: i32,
    /// The field of the answer to `show_all`, a map by name.
    table: &'static str,
}

pub(super) const TOPIC: Kind = Kind {
    word: "topic",
    show: GET_TOPIC_CONFIG,
    absent: TOPIC_NOT_EXIST,
    show_all: GET_ALL_TOPIC_CONFIG,
    table: "topicConfigTable",
};
const GROUP: Kind = Kind {
    word: "group",
    show: GET_SUBSCRIPTIONGROUP_CONFIG,
    absent: SUBSCRIPTION_GROUP_NOT_EXIST,
    show_all: GET_ALL_SUBSCRIPTIONGROUP_CONFIG,
    table: "subscriptionGroupTable",
};

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct NewTopic<'a> {
    topic: &'a str,
    default_topic: &'static str,
    read_queue_nums: &'static str,
    write_queue_nums: &'static str,
    /// Read and write.
    perm: &'static str,
    topic_filter_type: &'static str,
    topic_sys_flag: &'static str,
    order: &'static str,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct NewGroup<'a> {
    group_name: &'a str,
}

#[derive(Deserialize)]
struct RuntimeInfo {
    table: HashMap<String, String>,
}

/// The brokers are not as they must be.
#[derive(Debug, thiserror::Error)]
pub enum AdminError {
    #[error("unreachable: {0}")]
    Unreachable(String),
    #[error("broker {broker} refused to {what} with code {code}: {text}")]
    Refused { broker: String, what: String, code: i32, text: String },
    /// Of whoever asks, whatever it is: what was answered, and which key to change.
    #[error("{0}")]
    Denied(String),
}

impl AdminError {
    /// Whether it stays so until a configuration is changed.
    pub fn is_lasting(&self) -> bool {
        matches!(self, AdminError::Denied(_))
    }
}

/// What has to be done to brokers beside sending and reading.
#[derive(Debug)]
pub struct Admin {
    options: Options,
    pub(super) name_servers: NameServers,
}

pub(super) struct Broker {
    /// With its address, for people.
    pub(super) name: String,
    connection: Connection,
    deadline: Instant,
    opaque: i32,
}

impl Admin {
    pub fn new(options: Options) -> Admin {
        let name_servers = NameServers::new(&options, BROKER_TIMEOUT);
        Admin { options, name_servers }
    }

    /// Makes topics on all masters that do not have them, with 8 queues each, and the group of the consumers. When
    /// it returns, the name servers know the topics.
    pub fn create_topics(&mut self, topics: &[&str]) -> Result<(), AdminError> {
        let masters = self.masters()?;
        for (name, address) in &masters {
            let mut broker = self.open(name, address)?;
            for topic in topics {
                broker.create_topic(topic)?;
            }
            broker.create_group(&self.options.group)?;
        }
        let deadline = Instant::now() + REGISTER_TIMEOUT;
        for topic in topics {
            while !self.is_registered(topic, &masters)? {
                if Instant::now() >= deadline {
                    let text = format!(
                        "not all brokers of the topic {topic} have registered it with the name servers"
                    );
                    return Err(AdminError::Unreachable(text));
                }
                std::thread::sleep(REGISTER_PAUSE);
            }
        }
        Ok(())
    }

    /// Deletes topics with what is in them, at all masters and then at all name servers. One that is not there is as it should
    /// be. What the messages take on a broker's disk is free when it deletes the files of that time.
    pub fn delete_topics(&mut self, topics: &[&str]) -> Result<(), AdminError> {
        for (name, address) in self.masters()? {
            let mut broker = self.open_before(&name, &address, Instant::now() + DELETE_TIMEOUT)?;
            for topic in topics {
                let deleted =
                    broker.call(DELETE_TOPIC_IN_BROKER, &BTreeMap::from([("topic", *topic)]), &[])?;
                broker.check(deleted, || format!("delete topic {topic}"))?;
            }
        }
        topics.iter().try_for_each(|topic| self.name_servers.forget(topic).map_err(not_routed))
    }

    fn is_registered(&mut self, topic: &str, masters: &[(String, String)]) -> Result<bool, AdminError> {
        match self.name_servers.lookup(topic) {
            Ok(route) => {
                Ok(masters.iter().all(|(name, _)| route.iter().any(|broker| broker.broker == *name)))
            }
            Err(RouteError::NoTopic(_)) => Ok(false),
            Err(error) => Err(AdminError::Unreachable(error.to_string())),
        }
    }

    /// How full the disk of the fullest broker is, from 0 to 1. All of them must say it.
    pub fn disk_used(&mut self) -> Result<f64, AdminError> {
        let what = || "show how full its disk is".to_owned();
        let mut fullest = 0.0;
        for (name, address) in self.masters()? {
            let mut broker = self.open(&name, &address)?;
            let answer = broker.call(GET_BROKER_RUNTIME_INFO, &NoFields {}, &[])?;
            let answer = broker.check(answer, what)?;
            let used = disk_ratio(&answer.body)
                .ok_or_else(|| broker.odd(what(), "no ratio in its answer".to_owned()))?;
            fullest = f64::max(fullest, used);
        }
        Ok(fullest)
    }

    /// What each master says of the settings that decide what its messages survive.
    pub fn settings(&mut self) -> Result<Vec<EngineSettings>, AdminError> {
        let masters = self.masters()?;
        let settings = masters.into_iter().map(|(name, address)| {
            let engine = format!("rocketmq {name} {address}");
            let config = self.open(&name, &address).and_then(|mut broker| {
                let answer = broker.call(GET_BROKER_CONFIG, &NoFields {}, &[])?;
                broker.check(answer, || "show its settings".to_owned())
            });
            EngineSettings { engine, settings: broker_settings(config) }
        });
        Ok(settings.collect())
    }

    fn open(&self, name: &str, address: &str) -> Result<Broker, AdminError> {
        self.open_before(name, address, Instant::now() + BROKER_TIMEOUT)
    }

    /// The deadline is that of all requests to this broker.
    pub(super) fn open_before(
        &self,
        name: &str,
        address: &str,
        deadline: Instant,
    ) -> Result<Broker, AdminError> {
        let name = format!("{name} at {address}");
        let connection = Connection::open(address, &self.options.security, deadline)
            .map_err(|lost| unreachable(&name, &lost))?;
        Ok(Broker { name, connection, deadline, opaque: 0 })
    }

    /// Name and address of each.
    pub fn masters(&mut self) -> Result<Vec<(String, String)>, AdminError> {
        let route = self.name_servers.lookup(TOPIC_OF_ALL_BROKERS).map_err(not_routed)?;
        let master = |broker: BrokerRoute| Some((broker.broker, broker.master?));
        Ok(route.into_iter().filter_map(master).collect())
    }
}

impl Broker {
    pub(super) fn call<F: Serialize>(
        &mut self,
        code: i32,
        fields: &F,
        body: &[u8],
    ) -> Result<Answer, AdminError> {
        self.opaque += 1;
        self.connection
            .call(code, self.opaque, fields, body, self.deadline, drop)
            .map_err(|lost| unreachable(&self.name, &lost))
    }

    /// A configuration that the broker keeps, if it keeps one of this name. Brokers of 4.x show one only with all others.
    pub(super) fn describe<T: DeserializeOwned>(
        &mut self,
        kind: &Kind,
        name: &str,
    ) -> Result<Option<T>, AdminError> {
        let what = || format!("describe the {} {name}", kind.word);
        let answer = self.call(kind.show, &BTreeMap::from([(kind.word, name)]), &[])?;
        let described = if answer.code == kind.absent {
            Ok(None)
        } else if answer.code == REQUEST_CODE_NOT_SUPPORTED {
            let all = self.call(kind.show_all, &NoFields {}, &[])?;
            named(&self.check(all, what)?.body, kind.table, name)
        } else {
            serde_json::from_slice(&self.check(answer, what)?.body).map(Some)
        };
        described.map_err(|error| self.odd(what(), error.to_string()))
    }

    fn create_topic(&mut self, topic: &str) -> Result<(), AdminError> {
        if self.describe::<IgnoredAny>(&TOPIC, topic)?.is_some() {
            return Ok(());
        }
        let fields = NewTopic {
            topic,
            default_topic: "TBW102",
            read_queue_nums: QUEUES,
            write_queue_nums: QUEUES,
            perm: "6",
            topic_filter_type: "SINGLE_TAG",
            topic_sys_flag: "0",
            order: "false",
        };
        let made = self.call(UPDATE_AND_CREATE_TOPIC, &fields, &[])?;
        self.check(made, || format!("make topic {topic}")).map(drop)
    }

    /// A broker may be set to make groups by itself, or not to.
    fn create_group(&mut self, group: &str) -> Result<(), AdminError> {
        if self.describe::<IgnoredAny>(&GROUP, group)?.is_some() {
            return Ok(());
        }
        let body = serde_json::to_vec(&NewGroup { group_name: group }).expect("a name is JSON");
        let made = self.call(UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, &NoFields {}, &body)?;
        self.check(made, || format!("make group {group}")).map(drop)
    }

    /// Of an answer that is none, though it says that all is well.
    pub(super) fn odd(&self, what: String, text: String) -> AdminError {
        AdminError::Refused { broker: self.name.clone(), what, code: SUCCESS, text }
    }

    pub(super) fn check(&self, answer: Answer, what: impl FnOnce() -> String) -> Result<Answer, AdminError> {
        if answer.code == SUCCESS {
            return Ok(answer);
        }
        let (broker, what) = (self.name.clone(), what());
        if let Some(why) = self.connection.refusal(&answer) {
            return Err(AdminError::Denied(format!("broker {broker} does not let us {what}: {why}")));
        }
        Err(AdminError::Refused { broker, what, code: answer.code, text: answer.remark })
    }
}

const NO_BROKER: &str =
    "the name servers know no broker now: start the brokers, or wait until they have registered";

fn not_routed(error: RouteError) -> AdminError {
    match error {
        RouteError::NoTopic(_) => AdminError::Unreachable(NO_BROKER.into()),
        RouteError::NoNameServer(_) => AdminError::Unreachable(error.to_string()),
        RouteError::Refused(_) => AdminError::Denied(error.to_string()),
    }
}

fn unreachable(broker: &str, lost: &Lost) -> AdminError {
    let text = format!("broker {broker}: {lost}");
    if lost.is_lasting() { AdminError::Denied(text) } else { AdminError::Unreachable(text) }
}

/// One of a table's entries, without what the others say.
fn named<T: DeserializeOwned>(body: &[u8], table: &str, name: &str) -> serde_json::Result<Option<T>> {
    let answer: HashMap<String, &RawValue> = serde_json::from_slice(body)?;
    let entries = answer.get(table).ok_or_else(|| serde_json::Error::custom(format!("it has no {table}")))?;
    let entries: HashMap<String, &RawValue> = serde_json::from_str(entries.get())?;
    entries.get(name).map(|entry| serde_json::from_str(entry.get())).transpose()
}

const NO_COPY: &str = "it does not wait for its slave: a lost disk may lose accepted orders";

/// From lines of NAME=VALUE.
fn broker_settings(config: Result<Answer, AdminError>) -> Vec<Setting> {
    let config = match &config {
        Ok(answer) => Ok(String::from_utf8_lossy(&answer.body)),
        Err(error) => Err(error.to_string()),
    };
    let read = |name: &'static str| {
        let value = config.as_ref().map_err(Clone::clone).and_then(|config| {
            let value = config.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix('='));
            value
                .map(|value| value.trim().to_owned())
                .ok_or_else(|| "the broker has no such setting".to_owned())
        });
        Setting::new(name, value)
    };
    let flush =
        read("flushDiskType").safe_if(&["SYNC_FLUSH"], "a power cut may lose the last accepted orders");
    let role = read("brokerRole");
    let copies = read("inSyncReplicas");
    let waits = role.value.as_ref().is_ok_and(|role| role == "SYNC_MASTER") && copies.value.is_ok();
    // Of 5.x. There a SYNC_MASTER that is not configured how many copies to wait for waits for its own.
    let copies = Setting { weak: (copies.value == Ok("1".into())).then_some(NO_COPY), ..copies };
    if waits { vec![flush, role, copies] } else { vec![flush, role] }
}

/// The fullest of the disks that hold the broker's log.
fn disk_ratio(body: &[u8]) -> Option<f64> {
    let info: RuntimeInfo = serde_json::from_slice(body).ok()?;
    let ratios = info.table.iter().filter(|(name, _)| name.starts_with("commitLogDiskRatio"));
    ratios.filter_map(|(_, value)| value.parse().ok()).filter(|ratio| *ratio >= 0.0).reduce(f64::max)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sync_master_shows_whether_it_waits_for_its_slave() {
        let shown = |settings: &str| {
            let body = settings.as_bytes().to_vec();
            let answer = Answer {
                code: SUCCESS,
                opaque: 0,
                version: 0,
                remark: String::new(),
                fields: HashMap::new(),
                body,
            };
            let shown = broker_settings(Ok(answer));
            shown[1..].iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
        };
        let sync = "flushDiskType=SYNC_FLUSH\nbrokerRole=SYNC_MASTER\n";
        assert_eq!(shown(sync), "brokerRole = SYNC_MASTER", "4.x, which always waits");
        let of_5 = |copies| shown(&format!("{sync}inSyncReplicas={copies}\n"));
        assert_eq!(of_5(2), "brokerRole = SYNC_MASTER, inSyncReplicas = 2");
        assert_eq!(of_5(1), format!("brokerRole = SYNC_MASTER, inSyncReplicas = 1 ({NO_COPY})"));
        assert_eq!(shown("brokerRole=ASYNC_MASTER\ninSyncReplicas=1\n"), "brokerRole = ASYNC_MASTER");
    }

    #[test]
    fn one_of_all_configurations_is_found_by_its_name() {
        let of = |name: &str, body: &str| named::<u32>(body.as_bytes(), "table", name);
        let body = r#"{"dataVersion":{"counter":3},"table":{"a":1,"b\u0021":2,"other":{"unlike":true}}}"#;
        assert_eq!(of("a", body).unwrap(), Some(1));
        assert_eq!(of("b!", body).unwrap(), Some(2));
        assert_eq!(of("c", body).unwrap(), None);
        let error = of("a", r#"{"dataVersion":{}}"#).unwrap_err().to_string();
        assert!(error.starts_with("it has no table"), "{error}");
        of("other", body).unwrap_err();
        of("a", "").unwrap_err();
    }

    #[test]
    fn the_fullest_disk_counts() {
        let info = |table: &str| disk_ratio(format!(r#"{{"table":{{{table}}}}}"#).as_bytes());
        assert_eq!(
            info(r#""commitLogDiskRatio":"0.5","commitLogDiskRatio_/b":"0.71","other":"0.9""#),
            Some(0.71)
        );
        assert_eq!(info(r#""commitLogDiskRatio":"-1.0""#), None);
        assert_eq!(info(""), None);
        assert_eq!(disk_ratio(b"?"), None);
    }
}
