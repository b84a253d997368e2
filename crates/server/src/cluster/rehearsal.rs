//! Where a rehearsal is played on the engines of an installation: under names of its own, which are made and removed here.
//!
//! Its database is made before anything else and dropped after everything else, and its name tells the others. So the
//! databases there are list what is to be removed, whenever a rehearsal was killed. Must not: touch what has the
//! installation's own names.

use std::thread::sleep;
use std::time::{Duration, Instant};

use ring::digest;
use ring::rand::{SecureRandom, SystemRandom};

use super::start::{StartError, gate_config, queue_options};
use crate::config::{Config, Secrets};
use crate::gate::{Gate, GateConfig, GateError, NodeHealth, Why};
use crate::hex::hex;
use crate::ledger::mysql::beside::{Beside, BesideError, NAME_CHARS_MAX, REHEARSAL};
use crate::queue::{self, Admin, AdminError, Topics};

/// Which prefix and topic go with a database, and which rehearsal it is: so many bytes of each, as digits.
const MARK_BYTES: usize = 4;
const RANDOM_BYTES: usize = 4;

/// What an order takes of Redis' memory, at most: its reservation with the address, its mark, and its buyer's units.
const GATE_BYTES_PER_ORDER: u64 = 1024;
/// Percent of Redis' memory that may be used then.
const GATE_PERCENT_MAX: u64 = 90;

/// How long an engine is asked again that does not answer, or fails as a broker does in its first second: what is not removed
/// stays.
const PATIENCE: Duration = Duration::from_secs(10);
const PAUSE: Duration = Duration::from_millis(500);

/// What one rehearsal is called on each engine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Names {
    database: String,
    prefix: String,
    topic: String,
    /// In all three.
    tail: String,
}

impl Names {
    pub fn database(&self) -> &str {
        &self.database
    }

    /// Of the keys in Redis.
    pub fn prefix(&self) -> &str {
        &self.prefix
    }

    /// Of orders; the others are named after it.
    pub fn topic(&self) -> &str {
        &self.topic
    }

    fn topics(&self) -> [String; 3] {
        let Topics { orders, messages, dead_letters } = Topics::new(&self.topic);
        [orders, messages, dead_letters]
    }
}

/// Why nothing can be rehearsed, or something stays.
#[derive(Debug, thiserror::Error)]
pub enum SiteError {
    #[error("another rehearsal of this installation is under way: wait until it has ended")]
    UnderWay,
    #[error(
        "a rehearsal's names are longer than the installation's, and {0} would have more than {NAME_CHARS_MAX} characters"
    )]
    TooLong(String),
    #[error("{0}: rehearse when there is more")]
    NoRoom(String),
    /// A Redis that can't serve, and why.
    #[error("the gate (Redis) at {0}: {1}")]
    Fault(String, String),
    #[error(transparent)]
    Start(#[from] StartError),
    #[error(transparent)]
    Ledger(#[from] BesideError),
    #[error("the gate (Redis): {0}")]
    Gate(#[from] GateError),
    #[error("the brokers (RocketMQ): {0}")]
    Brokers(#[from] AdminError),
}

impl SiteError {
    /// Whether all could be reached, and it is no time for a rehearsal.
    pub fn is_refusal(&self) -> bool {
        matches!(self, SiteError::UnderWay | SiteError::NoRoom(_))
    }
}

/// The engines of an installation, while this program alone may rehearse there.
#[derive(Debug)]
pub struct Site {
    ledger: Beside,
    ledger_address: String,
    /// `None`: one server sells, and there is a ledger alone.
    shared: Option<Shared>,
    own: Names,
}

/// What servers of a cluster share before the ledger.
#[derive(Debug)]
struct Shared {
    gate: GateConfig,
    queue: queue::Options,
    broker_disk_percent_max: u32,
}

impl Site {
    /// # Errors
    /// [`SiteError::UnderWay`], or if the ledger's server can't be reached or a file of the configuration can't be read.
    pub fn open(config: &Config, secrets: &Secrets) -> Result<Site, SiteError> {
        let options = config.ledger.mysql_options(secrets);
        let ledger = Beside::open(&options, REHEARSAL)?;
        let shared = || {
            Ok::<_, SiteError>(Shared {
                gate: gate_config(config, secrets)?,
                queue: queue_options(config, secrets)?,
                broker_disk_percent_max: config.queue.broker_disk_percent_max,
            })
        };
        Ok(Site {
            ledger: ledger.ok_or(SiteError::UnderWay)?,
            ledger_address: options.address(),
            shared: config.cluster.enabled.then(shared).transpose()?,
            own: Names {
                database: options.database,
                prefix: config.gate.prefix.clone(),
                topic: config.queue.topic.clone(),
                tail: String::new(),
            },
        })
    }

    /// Rehearsals that were killed; and databases of those that had another prefix or topic, which are not known here.
    ///
    /// # Errors
    /// If the ledger's server does not say.
    pub fn left(&mut self) -> Result<(Vec<Names>, Vec<String>), SiteError> {
        let mark = mark(&self.own);
        let is_tail = |tail: &String| {
            tail.len() == 2 * (MARK_BYTES + RANDOM_BYTES) && tail.bytes().all(|byte| byte.is_ascii_hexdigit())
        };
        let tails = self.ledger.tails()?.into_iter().filter(is_tail);
        let (ours, others): (Vec<_>, Vec<_>) = tails.partition(|tail| tail.starts_with(&mark));
        let names = |tails: Vec<String>| tails.into_iter().map(|tail| self.named(tail)).collect::<Vec<_>>();
        Ok((names(ours), names(others).into_iter().map(|names| names.database).collect()))
    }

    /// Names that no rehearsal had.
    ///
    /// # Errors
    /// [`SiteError::TooLong`].
    pub fn choose(&self) -> Result<Names, SiteError> {
        let mut random = [0; RANDOM_BYTES];
        SystemRandom::new().fill(&mut random).expect("the system gives entropy");
        let names = self.named(mark(&self.own) + &hex(&random));
        let too_long = |name: &&&String| name.chars().count() > NAME_CHARS_MAX;
        match [&names.database, &names.prefix, &names.topic].iter().find(too_long) {
            Some(name) => Err(SiteError::TooLong((**name).clone())),
            None => Ok(names),
        }
    }

    fn named(&self, tail: String) -> Names {
        let name = |own: &str| format!("{own}{REHEARSAL}{tail}");
        let Names { database, prefix, topic, .. } = &self.own;
        Names { database: name(database), prefix: name(prefix), topic: name(topic), tail }
    }

    /// Whether the engines serve and have room for so many orders.
    ///
    /// # Errors
    /// [`SiteError::NoRoom`], or what keeps an engine from serving.
    pub fn check_room(&self, orders: u64) -> Result<(), SiteError> {
        let Some(shared) = &self.shared else { return Ok(()) };
        let mut gate = Gate::new(shared.gate.clone());
        for node in patiently(|_| false, || faultless(gate.health()))? {
            check_memory(&node, orders)?;
        }
        let (used, most) = (shared.ask_brokers(Admin::disk_used)? * 100.0, shared.broker_disk_percent_max);
        if used >= f64::from(most) {
            return Err(SiteError::NoRoom(format!(
                "a broker's disk is {used:.0}% full, and no order is taken from {most}% on (queue.broker_disk_percent_max)"
            )));
        }
        Ok(())
    }

    /// Kind and address of those that take part in an order.
    ///
    /// # Errors
    /// If the brokers can't be found.
    pub fn engines(&self) -> Result<Vec<(&'static str, String)>, SiteError> {
        let mut engines = vec![("mysql", self.ledger_address.clone())];
        if let Some(shared) = &self.shared {
            let gates = Gate::new(shared.gate.clone()).health();
            engines.extend(gates.into_iter().map(|node| ("redis", node.address)));
            let brokers = shared.ask_brokers(Admin::masters)?;
            engines.extend(brokers.into_iter().map(|(_, address)| ("rocketmq", address)));
        }
        Ok(engines)
    }

    /// Makes what is removed again by [`Site::remove`], which is tried before: whoever may not remove does not make.
    ///
    /// # Errors
    /// Which right is missing, or what can't be reached; nothing is made then, or it is listed.
    pub fn make(&mut self, names: &Names) -> Result<(), SiteError> {
        self.remove(names)?;
        self.ledger.make(&names.tail)?;
        let Some(shared) = &self.shared else { return Ok(()) };
        let topics = names.topics();
        let made = shared.ask_brokers(|admin| admin.create_topics(&topics.each_ref().map(String::as_str)));
        if made.is_err() {
            // If that fails as well, the next rehearsal finds it in the list; why the topics were not made is what matters.
            drop(self.remove(names));
        }
        Ok(made?)
    }

    /// Removes all that is there of a rehearsal. Its servers must have stopped.
    ///
    /// # Errors
    /// What can't be removed; its database is there then, and with it the way to try again.
    pub fn remove(&mut self, names: &Names) -> Result<(), SiteError> {
        if let Some(shared) = &self.shared {
            let topics = names.topics();
            shared.ask_brokers(|admin| admin.delete_topics(&topics.each_ref().map(String::as_str)))?;
            let mut gate = Gate::new(GateConfig { key_prefix: names.prefix.clone(), ..shared.gate.clone() });
            patiently(is_lasting, || gate.remove_all())?;
        }
        Ok(self.ledger.drop(&names.tail)?)
    }
}

impl Shared {
    fn ask_brokers<T>(&self, ask: impl Fn(&mut Admin) -> Result<T, AdminError>) -> Result<T, AdminError> {
        let mut admin = Admin::new(self.queue.clone());
        patiently(AdminError::is_lasting, || ask(&mut admin))
    }
}

fn patiently<T, E>(is_lasting: impl Fn(&E) -> bool, mut ask: impl FnMut() -> Result<T, E>) -> Result<T, E> {
    let begun = Instant::now();
    loop {
        match ask() {
            Err(error) if !is_lasting(&error) && begun.elapsed() < PATIENCE => sleep(PAUSE),
            answer => return answer,
        }
    }
}

/// It stays so until a configuration is changed.
fn is_lasting(error: &GateError) -> bool {
    let (GateError::NotExecuted(why) | GateError::Unknown(why)) = error else { return false };
    matches!(why, Why::Denied(_) | Why::Refused(_))
}

/// Of whoever has these names: another prefix or topic has another one.
fn mark(Names { database, prefix, topic, .. }: &Names) -> String {
    let digest = digest::digest(&digest::SHA256, format!("{database}\n{prefix}\n{topic}").as_bytes());
    hex(&digest.as_ref()[..MARK_BYTES])
}

fn faultless(nodes: Vec<NodeHealth>) -> Result<Vec<NodeHealth>, SiteError> {
    let fault = nodes.iter().find_map(|node| Some((&node.address, node.fault.as_ref()?)));
    match fault {
        Some((address, fault)) => Err(SiteError::Fault(address.clone(), fault.clone())),
        None => Ok(nodes),
    }
}

fn check_memory(node: &NodeHealth, orders: u64) -> Result<(), SiteError> {
    let NodeHealth { address, used_memory, maxmemory, .. } = node;
    let needed = orders.saturating_mul(GATE_BYTES_PER_ORDER);
    // 0: it takes what there is.
    if *maxmemory > 0 && used_memory.saturating_add(needed) > maxmemory / 100 * GATE_PERCENT_MAX {
        let mib = |bytes: u64| bytes.div_ceil(1 << 20);
        return Err(SiteError::NoRoom(format!(
            "the gate (Redis) at {address} uses {} of {} MiB, and {orders} orders need {} MiB within {GATE_PERCENT_MAX}% of it",
            mib(*used_memory),
            mib(*maxmemory),
            mib(needed)
        )));
    }
    Ok(())
}
