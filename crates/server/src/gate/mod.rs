//! The gate: the fast copy of the stock that decides who may try, for servers that share one.
//!
//! A gate is right only together with the ledger, which is the last guard: what it forgets must close it, never
//! oversell. So every state is built for one run of one Redis master under one epoch, and whatever is found to be of
//! another run, another epoch or older than what was seen before is closed until it is rebuilt
//! (docs/decisions/008-gate-fencing.md). It must not know the queue or the ledger, nor what a record says.
//!
//! In
//! the embedded profile there is no gate: the book is it (docs/decisions/005-the-book-is-the-gate.md).

mod epochs;
mod error;
mod mark;
pub mod redis;

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use engine::handover::{Claim, GateSale, MarkState};
use engine::{CoolDown, OrderId, Placement, Refusal, SkuId, UnixMs};

use crate::intake::EngineSettings;

pub use self::epochs::Epochs;
pub use self::redis::{Dial, Gate, Link, TimeRead};
pub(crate) use error::GATE_FORMAT;
pub use error::{Closed, GateError, Why};

/// By SKU, by a hash that is quick, not strong: of every order several are looked up.
pub(crate) type BySku<T> = HashMap<SkuId, T, foldhash::fast::RandomState>;

/// Named bounds.
pub mod limits {
    use std::time::Duration;

    /// Of the caller's record of an open reservation.
    pub const RECORD_BYTES_MAX: usize = 16 * 1024;
    /// Order hashes in one settle or find: Lua can pass about 8,000 values to a command, and a script must stay short,
    /// because nothing else runs beside it.
    pub const SCRIPT_IDS_MAX: usize = 500;
    /// Orders that are reserved by one script: about a millisecond, in which nothing else runs.
    pub const SCRIPT_ORDERS_MAX: usize = 64;
    /// There, an order whose record is longer counts as several.
    pub const ORDER_BYTES: usize = 1024;
    /// Marks or buyers in one step of a build; each is two values.
    pub const BUILD_ROWS_MAX: usize = 1_000;
    /// Rows of a build that are on their way at once.
    pub const BUILD_ROWS_AT_ONCE: usize = 16 * BUILD_ROWS_MAX;
    /// SKUs whose keys a client remembers; of more, some are made again.
    pub const KEYS_KEPT_MAX: usize = 1 << 16;
    /// Gates that are asked for by name, in one command.
    pub const WANTED_MAX: usize = 1_000;
    /// What servers say of their figures goes when none has said anything for so long.
    pub const FIGURES_KEPT: Duration = Duration::from_secs(600);
    /// What they say of who tries most names buyers: it goes so soon after the last question.
    pub const ATTEMPTS_KEPT: Duration = Duration::from_secs(60);
    /// Open reservations in one answer.
    pub const OPEN_ROWS_MAX: usize = 1_000;
    /// Times, versions, epochs and numbers of units are exact in Lua up to here.
    pub const NUMBER_MAX: u64 = (1 << 53) - 1;
    /// How far a Redis' clock may be from ours, either way, while it decides anything. The scripts have it as a number.
    pub const CLOCK_OFF_MS_MAX: u64 = 2_000;
    /// What a server configures as `GateConfig::idle_check`.
    pub const IDLE_CHECK: Duration = Duration::from_secs(1);
    /// A node that could not be reached is left alone for so long, and no shorter than `RETRY_SHARE` times what the
    /// attempt took: one that is silent must not take the time of the others.
    pub const RETRY_PAUSE: Duration = Duration::from_millis(100);
    pub const RETRY_SHARE: u32 = 3;
    /// How often one of the Sentinels is asked whether the master is still the one that we are connected to, and no more often than
    /// lets it take a part in `SENTINEL_CHECK_SHARE` of the time.
    pub const SENTINEL_CHECK: Duration = Duration::from_secs(1);
    pub const SENTINEL_CHECK_SHARE: u32 = 20;
    /// For so long it counts what a Sentinel has answered; and so long one that was silent is left out, while others answer.
    pub const SENTINEL_COUNTS: Duration = Duration::from_secs(10);
    pub const SENTINEL_LEFT_OUT: Duration = Duration::from_secs(60);
    /// Rounds of redirects and reloads that one command may take before it is given up as not executed.
    pub const ROUNDS_MAX: u32 = 8;
    /// Before a command that was answered TRYAGAIN is sent again: a slot is being moved, key by key.
    pub const TRY_AGAIN_PAUSE: Duration = Duration::from_millis(2);
}

/// Where the gate is and how it is spoken to.
#[derive(Clone)]
pub struct GateConfig {
    /// `host:port`. A single Redis: the master and those that may become it, tried in order; a Cluster: some of its nodes;
    /// Sentinel: the Sentinels.
    pub addresses: Vec<String>,
    pub layout: Layout,
    pub tls: Option<GateTls>,
    pub user: Option<String>,
    pub password: Option<String>,
    /// Of every key, so that several shops can share one Redis.
    pub key_prefix: String,
    /// Until a new connection is made and its server has said who it is.
    pub connect_timeout: Duration,
    /// A connection that was idle for so long is asked who is there before it is used: its server may have gone, or have
    /// been a replica in between.
    pub idle_check: Duration,
    /// The longest silence of a server that owes an answer.
    pub reply_timeout: Duration,
    /// Commands in one write, each order to be reserved counting as one; two such batches may be in flight on a connection.
    pub batch_commands_max: usize,
    /// Of buyers whose holds came back.
    pub cool_down: CoolDown,
    /// Who connects; `None`: by TCP.
    pub dial: Option<Arc<dyn Dial>>,
    /// Shared by all clients of a server.
    pub epochs: Arc<Epochs>,
}

impl GateConfig {
    /// A single Redis without a password, whose every answer is waited for so long.
    pub fn plain(addresses: Vec<String>, key_prefix: &str, patience: Duration) -> GateConfig {
        GateConfig {
            addresses,
            layout: Layout::Single,
            tls: None,
            user: None,
            password: None,
            key_prefix: key_prefix.to_owned(),
            connect_timeout: patience,
            idle_check: patience,
            reply_timeout: patience,
            batch_commands_max: 64,
            cool_down: CoolDown::NONE,
            dial: None,
            epochs: Arc::default(),
        }
    }
}

/// Which servers there are, and who knows where they are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Layout {
    Single,
    Cluster,
    Sentinel(Sentinel),
}

/// A master with replicas, watched by Sentinels.
#[derive(Clone, PartialEq, Eq)]
pub struct Sentinel {
    /// The name that the Sentinels have for it.
    pub master: String,
    /// At the Sentinels. They are spoken to in TLS if Redis is.
    pub user: Option<String>,
    pub password: Option<String>,
}

impl fmt::Debug for Sentinel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sentinel")
            .field("master", &self.master)
            .field("user", &self.user)
            .finish_non_exhaustive()
    }
}

/// Certificates as PEM.
#[derive(Clone, Debug, Default)]
pub struct GateTls {
    /// Whom to trust; the system's certificates if there are none.
    pub ca: Option<Vec<u8>>,
    /// Our own certificate and key, if the server wants them.
    pub client: Option<(Vec<u8>, Vec<u8>)>,
}

impl fmt::Debug for GateConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GateConfig")
            .field("addresses", &self.addresses)
            .field("layout", &self.layout)
            .field("tls", &self.tls.is_some())
            .field("user", &self.user)
            .field("key_prefix", &self.key_prefix)
            .field("batch_commands_max", &self.batch_commands_max)
            .finish_non_exhaustive()
    }
}

/// What the gate looked like when it answered. Two of one SKU are in order by (epoch, seq).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seen {
    pub epoch: u64,
    pub seq: u64,
    /// Units that can be reserved; negative: the ledger sold what the gate did not know of.
    pub available: i64,
}

/// An answer with the state that it was computed from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GateAnswer<T> {
    pub seen: Seen,
    pub what: T,
}

/// A request for units; `record` is kept while the reservation is open and given back with it.
#[derive(Clone, Copy, Debug)]
pub struct Reserve<'a> {
    pub placement: Placement,
    /// Units that a buyer may hold and own, as the asker knows it. A gate that knows another limit takes nothing.
    pub limit: Option<u32>,
    pub record: &'a [u8],
}

/// What became of a request for units.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reserved {
    /// Units were taken; the caller's record is open since this time of the Redis server.
    Taken {
        at: UnixMs,
    },
    /// This very request is open already, or was published and is not settled yet.
    Open(OpenRecord),
    /// This very request is in the ledger (placed, closed or rejected): its answer is there.
    Settled,
    Refused(Refusal),
}

/// What settling came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Settled {
    Done,
    /// The mark was settled before.
    Already,
    /// No mark, or a state of another epoch: nothing was done, and nothing needs to be.
    NotHere,
}

/// What applying a row came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Applied {
    Done,
    Already,
    /// The row is of an epoch before the state's, which was built with it.
    Old,
    /// The row is of an epoch that the state is yet to be built for.
    NotYet,
    /// The gate's marks contradict the row: it must be rebuilt.
    Drift,
}

/// A request for a claim's units; `record` is kept while the claim is open and given back with it.
#[derive(Clone, Copy, Debug)]
pub struct ClaimRequest<'a> {
    pub claim: Claim,
    pub record: &'a [u8],
}

/// What a claim came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Claimed {
    Taken {
        at: UnixMs,
    },
    /// This very claim is open.
    Open(OpenRecord),
    /// This very claim was carried out.
    Settled,
    /// Sold out, not enough left, over the limit, or another claim under this key.
    Refused(Refusal),
    /// The order's units are not given back yet: apply the outbox first.
    NotYet,
    /// The gate does not know the order as one whose units were given back.
    Drift,
}

/// What is open at the gate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenRecord {
    pub what: Open,
    pub epoch: u64,
    /// When the units were taken, by the gate's clock.
    pub at: UnixMs,
    /// As given.
    pub record: Box<[u8]>,
}

/// What is open at the gate of one SKU, as far as it can be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenRows {
    pub records: Vec<OpenRecord>,
    pub unreadable: usize,
}

impl OpenRows {
    pub fn count(&self) -> usize {
        self.records.len() + self.unreadable
    }
}

impl OpenRecord {
    pub fn id(&self) -> OrderId {
        match &self.what {
            Open::Order(placement) => placement.id,
            Open::Claim(claim) => claim.id(),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Open {
    Order(Placement),
    Claim(Claim),
}

/// What the gate knows of an order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found {
    /// Reserved and not settled, or claimed.
    Open(OpenRecord),
    /// Settled; the ledger has it.
    Settled(MarkState),
}

/// What a sale's change came to at one SKU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SaleSet {
    Done,
    /// The gate has this version or a newer one.
    Old,
}

/// The state of one SKU, as stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GateState {
    pub seen: Seen,
    pub sale: GateSale,
    pub limit: Option<u32>,
    /// Why it may not be used, if it may not.
    pub closed: Option<Closed>,
}

/// What building came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Built {
    /// The gate sells.
    Open(Seen),
    /// The gate has this epoch or a later one: nothing was changed.
    Old,
}

/// What adds up, or does not. Read in pieces: exact only while nothing else writes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GateAudit {
    pub available: i64,
    /// Units of open reservations and claims.
    pub open_units: u64,
    /// Units of settled marks that have their units.
    pub taken_units: u64,
    /// Of restocks and corrections since the gate was built, both counted as positive.
    pub adjusted_units: u64,
    /// Over all buyers; what the marks say and what is counted. Both 0 without a limit.
    pub buyers_by_marks: u64,
    pub buyers_counted: u64,
    /// Buyers whose count differs from their marks.
    pub buyers_wrong: u64,
    pub open_marks: u64,
    /// Open marks without their entry by time, or the other way round.
    pub open_unlisted: u64,
}

impl GateAudit {
    /// What is wrong within the gate, if anything is.
    pub fn fault(&self) -> Option<&'static str> {
        if self.open_unlisted > 0 {
            return Some("open marks and their times differ");
        }
        if self.buyers_wrong > 0 || self.buyers_by_marks != self.buyers_counted {
            return Some("a buyer's count differs from the marks");
        }
        None
    }
}

/// A node as `Gate::health` found it.
#[derive(Clone, Debug)]
pub struct NodeHealth {
    pub address: String,
    /// Why it can't serve, if it can't.
    pub fault: Option<String>,
    pub maxmemory_policy: String,
    /// What it keeps on disk and on its replicas.
    pub settings: EngineSettings,
    pub used_memory: u64,
    /// 0: no bound.
    pub maxmemory: u64,
    pub replicas: Vec<ReplicaHealth>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplicaHealth {
    pub address: String,
    pub online: bool,
    /// Bytes of the replication stream that it has not acknowledged.
    pub lag_bytes: u64,
    /// Since it last spoke.
    pub lag: Duration,
}

/// Why no order may be admitted because of the gate as a whole, if so: the text of the first fault.
pub fn fault(nodes: &[NodeHealth]) -> Option<String> {
    nodes
        .iter()
        .find_map(|node| node.fault.as_ref().map(|fault| format!("{}: {fault}", node.settings.engine)))
}

/// By which setting a second master could sell what the first does, if so, and what to do. One that can't be read says nothing.
pub fn unguarded_master(nodes: &[NodeHealth]) -> Option<String> {
    nodes.iter().find_map(|NodeHealth { settings, .. }| {
        let setting = settings.settings.iter().find(|setting| setting.weak.is_some())?;
        let engine = &settings.engine;
        Some(format!(
            "{engine}: {setting}: set min-replicas-to-write to 1 there and on the replicas, of which two are needed, and \
             min-replicas-max-lag to some seconds"
        ))
    })
}

/// The part of an order id that is a key within its SKU.
pub(crate) fn hash_bytes(id: OrderId) -> [u8; 16] {
    id.hash.to_be_bytes()
}

pub(crate) fn id_of(sku: SkuId, hash: &[u8]) -> Option<OrderId> {
    Some(OrderId { sku, hash: u128::from_be_bytes(hash.try_into().ok()?) })
}
