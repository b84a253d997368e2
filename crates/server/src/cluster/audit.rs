//! The three-way audit: gate, queue and ledger against each other, per SKU.
//!
//! What the gate has available, and what the ledger holds and sold, add up to the total, once nothing is on its way: no
//! reservation open, no message or row of the outbox waiting, and neither side changed while both were read. A SKU of which
//! something is on its way is reported as that, and not compared. Nor is one whose gate is closed: it sells nothing until a
//! server has rebuilt it, which breaks no invariant; that of a sale which is over is rebuilt when it is needed.

use std::collections::{HashMap, HashSet};

use engine::{ProductId, Sale, SaleId, SkuId};

use super::clocks::{Look, Whose, describe};
use super::queues::{self, Faults, LookError, QueueSight};
use super::start::{StartError, gate_config, queue_options};
use crate::clock::wall_clock;
use crate::cluster::place::relay::order_of;
use crate::config::{Config, Secrets};
use crate::gate::{Gate, GateError, Open};
use crate::intake::EngineSettings;
use crate::ledger::mysql::cluster::{LedgerError, SharedLedger, SkuRow};
use crate::ledger::{Audit, Source};
use crate::queue::{Admin, AdminError, Consumer, PullError};

/// Open reservations that are read at once.
const OPEN_ROWS: usize = 1_000;
/// SKUs that are read at once.
const READ_AT_ONCE: usize = 1_000;

/// What the three say together.
#[derive(Debug)]
pub struct ThreeWay {
    pub ledger: Audit,
    /// One per SKU, in the order of creation.
    pub skus: Vec<SkuSight>,
    /// SKUs that were not compared, because something of them is on its way.
    pub moving: usize,
    /// SKUs that were not compared, because their gate is closed: until it is rebuilt, there is no audit of them.
    pub closed: usize,
    /// SKUs that were not compared, because their gate is closed and their sale is over: it is rebuilt when it is needed.
    pub over: usize,
    /// Messages that no server has consumed.
    pub backlog: u64,
    /// Rows that the gate has not heard of yet.
    pub outbox: u64,
    /// Of each engine's servers, what decides what an accepted order survives.
    pub settings: Vec<EngineSettings>,
    /// Queues that an operator has retired.
    pub retired: Vec<QueueSight>,
    /// What an operator should know of the queues.
    pub remarks: Vec<String>,
    /// Clocks that are off from the majority of those of this machine, the servers, Redis and the database, in words.
    pub clocks: Vec<String>,
    /// Why no server can rebuild a gate now.
    pub rebuild_waits: Option<String>,
    /// Every invariant that does not hold, in words.
    pub broken: Vec<String>,
}

impl ThreeWay {
    /// Whether nothing is on its way, so that the sums must be exact.
    pub fn at_rest(&self) -> bool {
        self.moving == 0
            && self.closed == 0
            && self.backlog == 0
            && self.outbox == 0
            && self.skus.iter().all(|sku| sku.open == 0)
    }
}

/// One SKU as the gate and the ledger count it.
#[derive(Clone, Debug)]
pub struct SkuSight {
    pub sku: SkuId,
    /// Where it is sold.
    pub item: Option<(SaleId, ProductId)>,
    pub total: u64,
    pub held: u64,
    pub sold: u64,
    /// Units that the gate would sell; negative: it knows of more sold than there were.
    pub available: i64,
    /// Reservations and claims that are not settled.
    pub open: u64,
    /// Units of those that the ledger does not have.
    pub open_units: u64,
    /// Why the gate sells nothing of it, if it does not.
    pub closed: Option<&'static str>,
    /// Whether its sale is over.
    pub over: bool,
    /// Nothing of it was on its way, so that gate and ledger were held against each other.
    pub compared: bool,
}

/// Why there is no audit.
#[derive(Debug, thiserror::Error)]
pub enum AuditError {
    #[error(transparent)]
    Start(#[from] StartError),
    #[error(transparent)]
    Ledger(#[from] LedgerError),
    #[error(transparent)]
    Queues(#[from] LookError),
    #[error(transparent)]
    Read(#[from] crate::ledger::OpenError),
    #[error("the gate (Redis) can't be read: {0}")]
    Gate(#[from] GateError),
    #[error("the queue (RocketMQ) can't be read: {0}")]
    Queue(#[from] PullError),
    #[error("the brokers (RocketMQ) can't be asked for their settings: {0}")]
    Brokers(#[from] AdminError),
}

/// Reads all three. Nothing is changed. Costs what replaying the ledger costs, and a pass over the gate's marks.
///
/// # Errors
/// If one of them can't be read: an audit of two would prove nothing.
pub fn audit(config: &Config, secrets: &Secrets) -> Result<ThreeWay, AuditError> {
    let mut ledger = SharedLedger::open(&config.ledger.mysql_options(secrets)).map_err(StartError::from)?;
    let mut gate = Gate::new(gate_config(config, secrets)?);
    let mut consumer = Consumer::new(queue_options(config, secrets)?, &config.queue.topic);
    let backlog = backlog(&mut ledger, &mut consumer)?;
    let mut admin = Admin::new(queue_options(config, secrets)?);
    let mut settings: Vec<_> = gate.health().into_iter().map(|node| node.settings).collect();
    settings.extend(admin.settings()?);
    settings.push(ledger.settings()?);
    let clocks = clocks(&mut ledger, &mut gate)?;
    let queues = queues::look(&mut ledger, &mut admin, &config.queue.topic)?;
    let faults = Faults::of(&queues);
    let outbox = ledger.outbox_len(None)?;
    let audited = Source::MySql(Box::new(config.ledger.mysql_options(secrets))).audit()?;
    let mut broken = audited.broken.clone();
    let mut skus = Vec::new();
    let quiet = backlog == 0 && outbox == 0;
    let (rows, now) = (ledger.stocks()?, wall_clock());
    let is_over = |sku| {
        ledger.sales().of_sku(sku).is_some_and(|sale| sale.ended_at.is_some() || sale.spec.ends_at <= now)
    };
    let over: HashSet<_> = rows.iter().map(|row| row.sku).filter(|sku| is_over(*sku)).collect();
    let items: HashMap<_, _> = ledger.sales().iter().flat_map(items_of).collect();
    for rows in rows.chunks(READ_AT_ONCE) {
        for (row, (sight, seq)) in rows.iter().zip(look(&mut ledger, &mut gate, rows)?) {
            let item = items.get(&row.sku).copied();
            let sight = SkuSight { item, over: over.contains(&row.sku), ..sight };
            // Where there was never an order, there is nothing to add up.
            let fault = match sight.closed {
                None if row.orders > 0 || sight.open > 0 => gate.audit(row.sku)?.fault(),
                _ => None,
            };
            skus.push((sight, seq, *row, fault));
        }
    }
    // What moved while it was read can't be added up: the two are read one after the other.
    let after: HashMap<_, _> = ledger.stocks()?.into_iter().map(|row| (row.sku, row)).collect();
    let mut states = Vec::with_capacity(skus.len());
    for skus in skus.chunks(READ_AT_ONCE) {
        states.extend(gate.states(&skus.iter().map(|(sight, ..)| sight.sku).collect::<Vec<_>>()));
    }
    for ((sight, seq, row, fault), now) in skus.iter_mut().zip(states) {
        if sight.closed.is_some() {
            continue;
        }
        let now = now?;
        let still = after.get(&sight.sku) == Some(row) && now.map(|state| state.seen.seq) == *seq;
        sight.compared = still && quiet && sight.open == 0;
        if sight.compared {
            compare(sight, &mut broken);
            broken.extend(fault.map(|fault| format!("SKU {}: gate: {fault}", sight.sku.0)));
        }
    }
    let skus: Vec<_> = skus.into_iter().map(|(sight, ..)| sight).collect();
    let count = |which: fn(&SkuSight) -> bool| skus.iter().filter(|sight| which(sight)).count();
    Ok(ThreeWay {
        ledger: audited,
        moving: count(|sight| sight.closed.is_none() && !sight.compared),
        closed: count(|sight| sight.closed.is_some() && !sight.over),
        over: count(|sight| sight.closed.is_some() && sight.over),
        skus,
        backlog,
        outbox,
        settings,
        retired: queues.sights.into_iter().filter(QueueSight::is_retired).collect(),
        remarks: faults.all(),
        clocks,
        rebuild_waits: faults.blocking(),
        broken,
    })
}

fn clocks(ledger: &mut SharedLedger, gate: &mut Gate) -> Result<Vec<String>, AuditError> {
    let mut look = Look::new(wall_clock());
    look.add(Whose::Ours, 0, 0);
    let time = ledger.time()?;
    if let Some(ledger_ahead) = look.read_ledger(ledger, &time) {
        // 0 is no server: nothing is said.
        look.add_servers(ledger.compare_clocks(0, 0)?, ledger_ahead);
    }
    look.read_gates(gate);
    Ok(look.comparison().out().map(|(whose, off)| describe(whose, off)).collect())
}

fn backlog(ledger: &mut SharedLedger, consumer: &mut Consumer) -> Result<u64, AuditError> {
    let consumed: HashMap<_, _> = ledger.queue_offsets()?.into_iter().collect();
    let mut backlog = 0;
    for queue in consumer.queues()? {
        let end = consumer.max_offset(&queue)?;
        backlog += end.saturating_sub(consumed.get(&queue.to_string()).copied().unwrap_or(0));
    }
    Ok(backlog)
}

/// SKUs and the sequence numbers of their gates.
fn look(
    ledger: &mut SharedLedger,
    gate: &mut Gate,
    rows: &[SkuRow],
) -> Result<Vec<(SkuSight, Option<u64>)>, AuditError> {
    let skus: Vec<_> = rows.iter().map(|row| row.sku).collect();
    let (states, counts) = (gate.states(&skus), gate.open_counts(&skus));
    let mut sights = Vec::with_capacity(rows.len());
    for ((row, state), count) in rows.iter().zip(states).zip(counts) {
        let mut sight = SkuSight {
            sku: row.sku,
            total: row.stock.total(),
            held: row.stock.held(),
            sold: row.stock.sold(),
            available: 0,
            open: 0,
            open_units: 0,
            closed: Some("gate_lost"),
            over: false,
            compared: false,
            item: None,
        };
        let Some(state) = state? else {
            sights.push((sight, None));
            continue;
        };
        sight.available = state.seen.available;
        sight.closed = state.closed.map(crate::gate::Closed::as_str);
        if count? > 0 {
            look_at_open(ledger, gate, &mut sight)?;
        }
        sights.push((sight, Some(state.seen.seq)));
    }
    Ok(sights)
}

fn look_at_open(ledger: &mut SharedLedger, gate: &mut Gate, sight: &mut SkuSight) -> Result<(), AuditError> {
    let open = gate.open_reservations(sight.sku, 0, OPEN_ROWS)?;
    sight.open = open.len() as u64;
    for open in open {
        let Open::Order(placement) = open.what else { continue };
        if order_of(&open).is_ok() && ledger.lookup(&[placement.id])?.iter().all(Option::is_none) {
            sight.open_units += u64::from(placement.quantity);
        }
    }
    Ok(())
}

fn items_of(sale: &Sale) -> impl Iterator<Item = (SkuId, (SaleId, ProductId))> {
    let id = sale.spec.id;
    sale.skus().zip(&sale.spec.items).map(move |(sku, item)| (sku, (id, item.product)))
}

fn compare(sight: &SkuSight, broken: &mut Vec<String>) {
    let sku = sight.sku.0;
    let counted = i128::from(sight.available)
        + i128::from(sight.open_units)
        + i128::from(sight.held)
        + i128::from(sight.sold);
    let difference = counted - i128::from(sight.total);
    if difference != 0 {
        broken.push(format!(
            "SKU {sku}: gate {} + open {} + held {} + sold {} differs by {difference} from the total {}",
            sight.available, sight.open_units, sight.held, sight.sold, sight.total
        ));
    }
}
