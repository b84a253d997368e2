//! What the stages of a cluster's server count, among the process' metrics.

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Unit;

use crate::metrics::Metrics;

/// Counters and gauges of the cluster's stages.
#[derive(Debug)]
pub(super) struct Counts {
    /// A batch at the gate, from the first command written to the last reply.
    pub(super) gate_seconds: Histogram,
    /// A batch at the broker, from the send to its acknowledgement.
    pub(super) publish_seconds: Histogram,
    pub(super) published: Counter,
    /// Batches that the broker did not acknowledge.
    pub(super) publishes_failed: Counter,
    /// Messages that wait in this server for the broker.
    pub(super) publish_queue: Gauge,
    /// Orders that this server took from the broker into the ledger.
    pub(super) consumed: Counter,
    /// Messages in all queues that were not consumed at this server's last look.
    pub(super) backlog: Gauge,
    /// Among the figures alone.
    pub(super) backlog_age_ms: Gauge,
    /// Messages that the broker has stored as of this server's queues, and that are not in them.
    pub(super) misplaced: Gauge,
    pub(super) dead_letters: Counter,
    pub(super) settled: Counter,
    /// Reservations that are settled in the ledger, and at the gate later, by reconciliation.
    pub(super) settles_unheard: Counter,
    /// Accepted, and then rejected by the ledger.
    pub(super) orders_lost: Counter,
    /// Times that this server found the ledger without its latest entries.
    pub(super) ledger_lost_tail: Counter,
    pub(super) rolled_forward: Counter,
    pub(super) outbox_applied: Counter,
    pub(super) gates_built: Counter,
    /// At this server's last look. Fewer than there are products: some of them can't be sold.
    pub(super) gates_open: Gauge,
    pub(super) gate_part_away: Gauge,
    /// Units by which gate and ledger differ at rest.
    pub(super) drift_units: Counter,
    /// 1: this server holds the lease of reconciliation.
    pub(super) reconciling: Gauge,
    /// Times that reconciliation ended well here. Among the figures alone.
    pub(super) reconciled: Counter,
    /// Times that what is held and sold was read from the ledger. Among the figures alone.
    pub(super) units_read: Counter,
    /// Clocks of this server, others, Redis masters and the database that are off from the majority.
    pub(super) clocks_out: Gauge,
    pub(super) clock_ahead_ms: Gauge,
}

impl Counts {
    /// Counters that are shown with the others of the process.
    pub(super) fn registered(metrics: &Metrics) -> Counts {
        let seconds = || Histogram::new(exponential_buckets(0.000_1, 2.0, 18));
        let counts = Counts {
            gate_seconds: seconds(),
            publish_seconds: seconds(),
            published: Counter::default(),
            publishes_failed: Counter::default(),
            publish_queue: Gauge::default(),
            consumed: Counter::default(),
            backlog: Gauge::default(),
            backlog_age_ms: Gauge::default(),
            misplaced: Gauge::default(),
            dead_letters: Counter::default(),
            settled: Counter::default(),
            settles_unheard: Counter::default(),
            orders_lost: Counter::default(),
            ledger_lost_tail: Counter::default(),
            rolled_forward: Counter::default(),
            outbox_applied: Counter::default(),
            gates_built: Counter::default(),
            gates_open: Gauge::default(),
            gate_part_away: Gauge::default(),
            drift_units: Counter::default(),
            reconciling: Gauge::default(),
            reconciled: Counter::default(),
            units_read: Counter::default(),
            clocks_out: Gauge::default(),
            clock_ahead_ms: Gauge::default(),
        };
        counts.register(metrics);
        counts
    }

    fn register(&self, metrics: &Metrics) {
        metrics.with_registry(|r| {
            let mut counter = |name: &str, help: &str, counter: &Counter| {
                r.register(format!("doorbuster_{name}"), help, counter.clone());
            };
            counter("messages_published", "Messages that the broker acknowledged", &self.published);
            counter(
                "publishes_failed",
                "Batches that the broker did not acknowledge",
                &self.publishes_failed,
            );
            counter("orders_consumed", "Orders taken from the broker into the ledger", &self.consumed);
            counter("dead_letters", "Messages that could not be understood", &self.dead_letters);
            counter(
                "reservations_settled",
                "Reservations that the gate knows are in the ledger",
                &self.settled,
            );
            counter(
                "settles_unheard",
                "Settlements that the gate did not hear of at once",
                &self.settles_unheard,
            );
            counter("orders_lost", "Orders accepted and then rejected by the ledger", &self.orders_lost);
            counter(
                "ledger_lost_tail",
                "Times that the ledger was found without its latest entries",
                &self.ledger_lost_tail,
            );
            counter(
                "reservations_rolled_forward",
                "Reservations whose message never came",
                &self.rolled_forward,
            );
            counter("outbox_applied", "Rows of the outbox that the gate has", &self.outbox_applied);
            counter("gates_built", "Gates built from the ledger", &self.gates_built);
            counter(
                "drift_units",
                "Units by which gate and ledger were found to differ at rest",
                &self.drift_units,
            );
            let mut gauge = |name: &str, help: &str, gauge: &Gauge| {
                r.register(format!("doorbuster_{name}"), help, gauge.clone());
            };
            gauge("publish_queue", "Messages that wait in this server for the broker", &self.publish_queue);
            gauge(
                "backlog",
                "Messages in all queues that were not consumed at this server's last look",
                &self.backlog,
            );
            let misplaced =
                "Messages that the broker stored as of this server's queues and does not have in them";
            gauge("messages_misplaced", misplaced, &self.misplaced);
            gauge("gates_open", "Products whose gate sold at this server's last look", &self.gates_open);
            let part = "1 while some products can't be sold because of the gate, and others can";
            gauge("gate_part_away", part, &self.gate_part_away);
            gauge("reconciling", "1 while this server reconciles", &self.reconciling);
            gauge(
                "clocks_out",
                "Clocks that are off from the majority, by this server's look",
                &self.clocks_out,
            );
            let help = "How far this server's clock is ahead of the majority";
            gauge("clock_ahead_ms", help, &self.clock_ahead_ms);
            let gate = self.gate_seconds.clone();
            r.register_with_unit("doorbuster_gate", "A batch at the gate", Unit::Seconds, gate);
            let publish = self.publish_seconds.clone();
            r.register_with_unit("doorbuster_publish", "A batch at the broker", Unit::Seconds, publish);
        });
    }
}
