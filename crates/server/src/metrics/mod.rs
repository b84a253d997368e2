//! What happens, counted per stage; `/metrics` shows it in Prometheus' text format.
//!
//! The counters of a stage sum: received = accepted + replayed + refused + rejected + unavailable + unknown + in flight.
//! What is only read (stock, holds, the clock) is not kept here but looked at when it is asked for.

mod latencies;

use std::sync::Mutex;

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::{Registry, Unit};

pub use latencies::{Counts, Latencies};

/// The label of a refusal's counter: its stable code.
pub type Code = [(&'static str, &'static str); 1];

/// All metrics of the process. Each is an atomic or a short lock, shared by all threads.
#[derive(Debug)]
pub struct Metrics {
    registry: Mutex<Registry>,
    /// Orders that reached the order path, whatever became of them.
    pub orders_received: Counter,
    pub orders_accepted: Counter,
    /// Answered again under a known key.
    pub orders_replayed: Counter,
    /// By a rule of the sale; by code in `refusals`.
    pub orders_refused: Counter,
    /// By admission: rate or bound.
    pub orders_rejected: Counter,
    /// An engine was away, or the clock not confirmed.
    pub orders_unavailable: Counter,
    /// Commits that failed: the buyer was asked to try again.
    pub orders_unknown: Counter,
    pub refusals: Family<Code, Counter>,
    /// From the complete request to the answer in the connection's buffer.
    pub order_seconds: Latencies,
    /// HTTP answers by status class.
    pub responses: Family<Code, Counter>,
    pub holds_expired: Counter,
    pub payments_recorded: Counter,
    /// Refunds that Stripe had taken on and could not make.
    pub stripe_refunds_failed: Counter,
    pub refunds_due: Gauge,
    pub batch_commands: Histogram,
    /// From the start of the transaction to the end of its sync.
    pub commit_seconds: Latencies,
    pub commits_failed: Counter,
    /// Ledger entries that were committed.
    pub entries: Counter,
    pub checkpoint_seconds: Histogram,
    pub addresses_purged: Counter,
    pub operator_tokens_wrong: Counter,
    /// Orders in the book, of any status.
    pub book_orders: Gauge,
}

impl Default for Metrics {
    fn default() -> Metrics {
        Metrics::new()
    }
}

impl Metrics {
    pub fn new() -> Metrics {
        let metrics = Metrics {
            registry: Mutex::new(Registry::default()),
            orders_received: Counter::default(),
            orders_accepted: Counter::default(),
            orders_replayed: Counter::default(),
            orders_refused: Counter::default(),
            orders_rejected: Counter::default(),
            orders_unavailable: Counter::default(),
            orders_unknown: Counter::default(),
            refusals: Family::default(),
            order_seconds: Latencies::default(),
            responses: Family::default(),
            holds_expired: Counter::default(),
            payments_recorded: Counter::default(),
            stripe_refunds_failed: Counter::default(),
            refunds_due: Gauge::default(),
            batch_commands: Histogram::new(exponential_buckets(1.0, 2.0, 14)),
            commit_seconds: Latencies::default(),
            commits_failed: Counter::default(),
            entries: Counter::default(),
            checkpoint_seconds: Histogram::new(exponential_buckets(0.000_1, 2.0, 18)),
            addresses_purged: Counter::default(),
            operator_tokens_wrong: Counter::default(),
            book_orders: Gauge::default(),
        };
        metrics.register();
        metrics
    }

    /// Lets a part of the process show metrics of its own beside these.
    pub fn with_registry(&self, register: impl FnOnce(&mut Registry)) {
        register(&mut self.registry.lock().unwrap_or_else(std::sync::PoisonError::into_inner));
    }

    /// The settings of the ledger that are in effect, as labels: a gauge's value can't be a word. Called once.
    pub fn show_ledger(&self, settings: Vec<(&'static str, String)>) {
        let info = Info::new(settings);
        self.with_registry(|r| r.register("doorbuster_ledger", "How the ledger is written", info));
    }

    fn register(&self) {
        let mut registry = self.registry.lock().expect("nobody else has it yet");
        let r = &mut *registry;
        let mut counter = |name: &str, help: &str, counter: &Counter| {
            r.register(format!("doorbuster_{name}"), help, counter.clone());
        };
        counter("orders_received", "Orders that reached the order path", &self.orders_received);
        counter("orders_accepted", "Orders accepted and durable", &self.orders_accepted);
        counter("orders_replayed", "Orders answered again under a known key", &self.orders_replayed);
        counter("orders_refused", "Orders refused by a rule of the sale", &self.orders_refused);
        counter("orders_rejected", "Orders refused by admission", &self.orders_rejected);
        let help = "Orders turned away while an engine was away or the clock unconfirmed";
        counter("orders_unavailable", help, &self.orders_unavailable);
        counter("orders_unknown", "Orders whose commit failed: outcome unknown", &self.orders_unknown);
        counter("holds_expired", "Holds whose payment time was over", &self.holds_expired);
        counter("payments_recorded", "Payments recorded, whatever they came to", &self.payments_recorded);
        counter(
            "stripe_refunds_failed",
            "Refunds that failed at Stripe after all",
            &self.stripe_refunds_failed,
        );
        counter("commits_failed", "Ledger transactions that failed", &self.commits_failed);
        counter("ledger_entries", "Ledger entries committed", &self.entries);
        counter(
            "operator_tokens_wrong",
            "Requests with an operator token that is wrong, revoked or expired",
            &self.operator_tokens_wrong,
        );
        counter("addresses_purged", "Addresses removed after their retention time", &self.addresses_purged);
        let r = &mut *registry;
        r.register("doorbuster_refusals", "Refused orders by code", self.refusals.clone());
        r.register("doorbuster_http_responses", "HTTP answers by status class", self.responses.clone());
        r.register("doorbuster_refunds_due", "Payments whose refund is due", self.refunds_due.clone());
        r.register("doorbuster_book_orders", "Orders in the book, of any status", self.book_orders.clone());
        r.register("doorbuster_writer_batch_commands", "Commands per batch", self.batch_commands.clone());
        let s = || Unit::Seconds;
        r.register_with_unit(
            "doorbuster_order",
            "From request to answer, of orders that were not refused at once",
            s(),
            self.order_seconds.clone(),
        );
        r.register_with_unit(
            "doorbuster_commit",
            "Ledger transaction and sync",
            s(),
            self.commit_seconds.clone(),
        );
        r.register_with_unit(
            "doorbuster_checkpoint",
            "WAL checkpoints",
            s(),
            self.checkpoint_seconds.clone(),
        );
    }

    /// Everything in Prometheus' text format (`OpenMetrics` 1.0), ending in `# EOF`.
    pub fn encode(&self) -> String {
        let mut text = String::new();
        let registry = self.registry.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        prometheus_client::encoding::text::encode(&mut text, &registry)
            .expect("writing to a string cannot fail");
        text
    }
}
