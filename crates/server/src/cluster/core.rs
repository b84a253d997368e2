//! What all stages of one server share.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use engine::working_set::Outcome;
use engine::{SaleId, SkuId, UnixMs};

use super::counts::Counts;
use super::ms;
use super::sales::{FollowedSales, GateItem};
use super::stages::Identity;
use super::warnings::Warnings;
use super::work::{Instruction, Question};
use crate::clock::{Clock, Trust};
use crate::cluster::ask::refresh::StockView;
use crate::cluster::clocks::Compared;
use crate::cluster::place::publish::Publication;
use crate::config::Config;
use crate::gate::{Closed, Epochs, GateError};
use crate::intake::Health;
use crate::intake::KnownOperators;
use crate::intake::Mailbox;
use crate::intake::Servers;
use crate::intake::WorkQueue;
use crate::intake::admission::Admission;
use crate::intake::attempts::AllAttempts;
use crate::intake::catalog::Shelf;
use crate::ledger::mysql::cluster::{ClusterLedger, LedgerError, Progress, QueueRow};
use crate::metrics::Metrics;
use crate::queue::Topics;
use crate::time::{Condvar, Instant};

/// So long before its start a sale's items, which were fixed [`engine::limits::ITEMS_FIXED_MS`] before, are known to who then
/// waits for the ledger's lock. In the 30 s between, a change that is judged in time has the lock or never gets it (10 s, see the
/// ledger's `execute`), and the clocks of two servers and the database may differ (2 s each).
const ITEMS_READ_MS: u64 = 30_000;

/// Whether the items of a sale with this start are as they were when the sales were read.
pub(super) fn items_known(starts_at: UnixMs, sales_read_at: Option<UnixMs>) -> bool {
    sales_read_at.is_some_and(|read_at| read_at.plus(ITEMS_READ_MS) >= starts_at)
}

/// Bounds and names.
#[derive(Clone, Debug)]
pub(super) struct Options {
    pub(super) server_name: String,
    /// Of this run of this server: never 0, and never another's.
    pub(super) server_id: u64,
    pub(super) topics: Topics,
    pub(super) batch_commands_max: usize,
    pub(super) queue_commands_max: usize,
    pub(super) publish_queue_max: usize,
    pub(super) publish_batch_max: usize,
    pub(super) publish_timeout: Duration,
    pub(super) backlog_max: u64,
    pub(super) consume_batch_max: usize,
    pub(super) roll_forward_after: Duration,
    pub(super) broker_disk_percent_max: u32,
    pub(super) address_retention_days: u32,
    /// A clock that is off from the majority is out; otherwise that is only logged.
    pub(super) clocks_decide: bool,
    /// From a fence to the moment when nothing from before it can be accepted any more.
    pub(super) fence_wait: Duration,
}

impl Options {
    pub(super) fn of(config: &Config, identity: Identity) -> Options {
        let cluster = &config.cluster;
        Options {
            server_name: identity.name,
            server_id: identity.id,
            topics: Topics::new(&config.queue.topic),
            batch_commands_max: config.ledger.batch_commands_max,
            queue_commands_max: config.ledger.queue_commands_max,
            publish_queue_max: cluster.publish_queue_max,
            publish_batch_max: cluster.publish_batch_max,
            publish_timeout: cluster.publish_timeout(),
            backlog_max: cluster.backlog_max,
            consume_batch_max: cluster.consume_batch_max,
            roll_forward_after: cluster.roll_forward_after(),
            broker_disk_percent_max: config.queue.broker_disk_percent_max,
            address_retention_days: config.ledger.address_retention_days,
            clocks_decide: config.clock.checks(false).trust == Trust::Ask,
            // A reservation may still be on its way back from Redis when the fence comes.
            fence_wait: cluster.publish_timeout() + config.gate.timeout(),
        }
    }
}

/// What all stages share.
#[derive(Debug)]
pub(super) struct Core {
    pub(super) options: Options,
    pub(super) mailbox: Arc<Mailbox>,
    pub(super) clock: Arc<Clock>,
    pub(super) shelf: Arc<Shelf>,
    pub(super) admission: Arc<Admission>,
    pub(super) metrics: Arc<Metrics>,
    pub(super) operators: Arc<KnownOperators>,
    pub(super) attempts: Arc<AllAttempts>,
    pub(super) counts: Counts,
    pub(super) warnings: Warnings,
    pub(super) health: Arc<Health>,
    pub(super) servers: Arc<Servers>,
    pub(super) publishing: WorkQueue<Publication>,
    pub(super) status: WorkQueue<Question>,
    pub(super) commands: WorkQueue<Instruction>,
    pub(super) stock: StockView,
    pub(super) epochs: Arc<Epochs>,
    pub(super) compared: Compared,
    /// Messages in all queues that were not consumed at this server's last look.
    pub(super) backlog: AtomicU64,
    /// A gate of a product that sells is closed for longer than a new one takes to be built, as this server sees it.
    pub(super) live_gate_closed: AtomicBool,
    /// The stages that work on their own must end.
    pub(super) stopping: AtomicBool,
    sales: Mutex<FollowedSales>,
    /// When this server last waited for the ledger's lock to read the sales; it has followed them since. `None`: never.
    sales_read: Mutex<Option<Instant>>,
    /// The queues as the ledger has them; `None`: not read since the start.
    queue_rows: Mutex<Option<Vec<QueueRow>>>,
    /// SKUs whose gate this server has seen going backwards.
    suspects: Mutex<Vec<SkuId>>,
    /// SKUs whose gate knows of what the ledger has lost.
    misled: Mutex<BTreeSet<SkuId>>,
    /// SKUs whose gate was needed here and is closed.
    needed: Mutex<BTreeSet<SkuId>>,
    stopped: (Mutex<()>, Condvar),
}

impl Core {
    pub(super) fn new(
        options: Options,
        mailbox: Arc<Mailbox>,
        shared: crate::intake::Intake,
        health: Arc<Health>,
        epochs: Arc<Epochs>,
    ) -> Core {
        Core {
            options,
            mailbox,
            counts: Counts::registered(&shared.metrics),
            warnings: Warnings::default(),
            clock: shared.clock,
            shelf: shared.shelf,
            admission: shared.admission,
            metrics: shared.metrics,
            operators: shared.operators,
            attempts: shared.attempts,
            health,
            servers: Arc::default(),
            publishing: WorkQueue::default(),
            status: WorkQueue::default(),
            commands: WorkQueue::default(),
            stock: StockView::default(),
            epochs,
            compared: Compared::default(),
            backlog: AtomicU64::new(0),
            live_gate_closed: AtomicBool::new(false),
            stopping: AtomicBool::new(false),
            sales: Mutex::default(),
            sales_read: Mutex::default(),
            queue_rows: Mutex::default(),
            suspects: Mutex::default(),
            misled: Mutex::default(),
            needed: Mutex::default(),
            stopped: Default::default(),
        }
    }

    /// Brings the sales up to date with the ledger, and publishes what changed.
    pub(super) fn publish_sales(&self, ledger: &mut dyn ClusterLedger) {
        match self.follow_sales(ledger) {
            Ok(()) => self.warnings.following.well(),
            Err(error) => self.warnings.following.met(&error),
        }
    }

    /// As [`Core::publish_sales`], for who must know that it is done.
    pub(super) fn follow_sales(&self, ledger: &mut dyn ClusterLedger) -> Result<(), LedgerError> {
        self.catch_up(ledger)?;
        let (latest, read_at) = (self.clock.now().plus(ITEMS_READ_MS), self.sales_read_at());
        let is_due = |item: &GateItem| !item.state.ended && item.state.starts_at <= latest;
        if self.items().iter().all(|item| !is_due(item) || items_known(item.state.starts_at, read_at)) {
            return Ok(());
        }
        let began = Instant::now();
        // A change may have been asked for in time, and its commit hang.
        ledger.wait_for_writers()?;
        self.catch_up(ledger)?;
        *self.sales_read.lock().unwrap_or_else(PoisonError::into_inner) = Some(began);
        Ok(())
    }

    fn catch_up(&self, ledger: &mut dyn ClusterLedger) -> Result<(), LedgerError> {
        // Locked while the ledger is asked, it would hold up all that reads the items.
        let sales = || self.sales.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            let times_back = ledger.times_back();
            let after = sales().after(times_back);
            let entries = ledger.sale_entries(after)?;
            let stocks = if entries.is_empty() { Vec::new() } else { ledger.stocks()? };
            // Both are of one database.
            if ledger.times_back() == times_back {
                sales().follow(times_back, entries, &stocks, &self.shelf);
                return Ok(());
            }
        }
    }

    /// When the sales were last read behind the ledger's lock, by the clock of now.
    pub(super) fn sales_read_at(&self) -> Option<UnixMs> {
        let read = *self.sales_read.lock().unwrap_or_else(PoisonError::into_inner);
        read.map(|at| UnixMs(self.clock.now().0.saturating_sub(ms(at.elapsed()))))
    }

    pub(super) fn items(&self) -> Arc<[GateItem]> {
        self.sales.lock().unwrap_or_else(PoisonError::into_inner).items()
    }

    pub(super) fn items_of(&self, sale: SaleId) -> Vec<GateItem> {
        self.sales.lock().unwrap_or_else(PoisonError::into_inner).items_of(sale)
    }

    /// The queues as the ledger had them when this server last read or changed them.
    pub(super) fn queue_rows(&self) -> Option<Vec<QueueRow>> {
        self.queue_rows.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn note_queue_rows(&self, rows: Vec<QueueRow>) {
        *self.queue_rows.lock().unwrap_or_else(PoisonError::into_inner) = Some(rows);
    }

    /// Notes how far this server has consumed its own since.
    pub(super) fn note_progress(&self, progress: &[Progress]) {
        let mut rows = self.queue_rows.lock().unwrap_or_else(PoisonError::into_inner);
        for row in rows.iter_mut().flatten() {
            if let Some(progressed) = progress.iter().find(|progressed| progressed.queue == row.queue) {
                row.next_offset = progressed.to;
            }
        }
    }

    /// Notes SKUs whose gate must be rebuilt. The server that reconciles finds others by itself: a gate that lost
    /// something is closed for everybody; one that ran backwards is known to who saw it only.
    pub(super) fn suspect(&self, skus: Vec<SkuId>) {
        if !skus.is_empty() {
            self.suspects.lock().unwrap_or_else(PoisonError::into_inner).extend(skus);
        }
    }

    /// Notes SKUs whose gate may know of what the ledger has lost: it must be rebuilt, and forget it.
    pub(super) fn note_misled(&self, skus: impl IntoIterator<Item = SkuId>) {
        self.misled.lock().unwrap_or_else(PoisonError::into_inner).extend(skus);
    }

    pub(super) fn take_misled(&self) -> Vec<SkuId> {
        let misled = std::mem::take(&mut *self.misled.lock().unwrap_or_else(PoisonError::into_inner));
        misled.into_iter().collect()
    }

    pub(super) fn take_suspects(&self) -> Vec<SkuId> {
        std::mem::take(&mut *self.suspects.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Notes a SKU for which the gate gave no result, if that is because its gate is closed: one that sells is rebuilt
    /// anyway, any other if it is needed.
    pub(super) fn note_closed(&self, sku: SkuId, error: &GateError) {
        let GateError::Closed(closed) = error else { return };
        if !matches!(closed, Closed::WrongClock { .. } | Closed::OtherLimit) {
            self.needed.lock().unwrap_or_else(PoisonError::into_inner).insert(sku);
        }
    }

    pub(super) fn take_needed(&self) -> BTreeSet<SkuId> {
        std::mem::take(&mut *self.needed.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub(super) fn count_outcomes(&self, outcomes: &[Outcome]) {
        let rejected = outcomes.iter().filter(|outcome| matches!(outcome, Outcome::Rejected(_))).count();
        if rejected > 0 {
            tracing::error!(
                rejected,
                "orders that the gate had let through were rejected: it had lost memory"
            );
        }
        self.counts.orders_lost.inc_by(rejected as u64);
    }

    /// For the figures: how the holds ended whose end this stage has committed.
    pub(super) fn count_holds_ended(&self, ledger: &mut dyn ClusterLedger) {
        let ended = ledger.take_holds_ended();
        if !ended.is_empty() {
            self.shelf.current().count_holds_ended(ended);
        }
    }

    /// Waits so long, or until the server stops.
    pub(super) fn wait(&self, duration: Duration) {
        let (lock, stopped) = &self.stopped;
        drop(stopped.wait_while(lock, duration, |()| !self.stopping.load(Ordering::Acquire)));
    }

    /// Ends the stages that work on their own.
    pub(super) fn stop(&self) {
        let (lock, stopped) = &self.stopped;
        let _guard = lock.lock().unwrap_or_else(PoisonError::into_inner);
        self.stopping.store(true, Ordering::Release);
        stopped.notify_all();
    }
}
