//! What each endpoint's sender counts, among the process' metrics; the label is the endpoint's name.

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;

use super::EndpointState;
use crate::metrics::Metrics;

type Endpoint = [(&'static str, String); 1];

/// Of all endpoints.
#[derive(Debug, Default)]
pub struct Counts {
    answered: Family<Endpoint, Counter>,
    failed: Family<Endpoint, Counter>,
    waiting: Family<Endpoint, Gauge>,
    given_up: Family<Endpoint, Gauge>,
    waiting_since: Family<Endpoint, Gauge>,
    off: Family<Endpoint, Gauge>,
}

/// Of one endpoint.
#[derive(Clone, Debug)]
pub(super) struct EndpointCounts {
    pub(super) answered: Counter,
    pub(super) failed: Counter,
    waiting: Gauge,
    given_up: Gauge,
    waiting_since: Gauge,
    off: Gauge,
}

impl Counts {
    /// Counters that are shown with the others of the process.
    pub fn registered(metrics: &Metrics) -> Counts {
        let counts = Counts::default();
        metrics.with_registry(|r| {
            let mut counter = |name: &str, help: &str, counter: &Family<Endpoint, Counter>| {
                r.register(format!("doorbuster_webhook_events_{name}"), help, counter.clone());
            };
            counter("answered", "Events that an endpoint has answered with 2xx", &counts.answered);
            counter("failed", "Events that it has not, each time that they were sent", &counts.failed);
            let mut gauge = |name: &str, help: &str, gauge: &Family<Endpoint, Gauge>| {
                r.register(format!("doorbuster_webhook_{name}"), help, gauge.clone());
            };
            gauge("events_waiting", "Events that wait for another try", &counts.waiting);
            gauge("events_given_up", "Events that were given up", &counts.given_up);
            let since = "When the oldest event that waits was sent first, in Unix time; 0: none waits";
            gauge("waiting_since_seconds", since, &counts.waiting_since);
            gauge("off", "1 while nothing is sent: disabled, or paused after failures", &counts.off);
        });
        counts
    }

    pub(super) fn of(&self, endpoint: &str) -> EndpointCounts {
        let label = [("endpoint", endpoint.to_owned())];
        EndpointCounts {
            answered: self.answered.get_or_create(&label).clone(),
            failed: self.failed.get_or_create(&label).clone(),
            waiting: self.waiting.get_or_create(&label).clone(),
            given_up: self.given_up.get_or_create(&label).clone(),
            waiting_since: self.waiting_since.get_or_create(&label).clone(),
            off: self.off.get_or_create(&label).clone(),
        }
    }
}

impl EndpointCounts {
    /// Shows how the endpoint stands; of one that another server notifies, nothing.
    pub(super) fn show(&self, state: &EndpointState) {
        let state = if state.here { state } else { &EndpointState::default() };
        let gauge = |number: usize| i64::try_from(number).unwrap_or(i64::MAX);
        self.waiting.set(gauge(state.waiting));
        self.given_up.set(gauge(state.dead));
        let since_s = state.waiting_since.map_or(0, |at| at.0 / 1_000);
        self.waiting_since.set(i64::try_from(since_s).unwrap_or(i64::MAX));
        self.off.set(i64::from(state.disabled || state.paused_until.is_some()));
    }
}
