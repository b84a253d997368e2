//! Counters that are looked up once, by their label, and then are one addition each.

use engine::Refusal;
use prometheus_client::metrics::counter::Counter;

use crate::metrics::Metrics;

const CLASSES: [&str; 4] = ["2xx", "3xx", "4xx", "5xx"];

/// The counters of one event loop.
#[derive(Debug)]
pub(super) struct Tally {
    by_class: [Counter; 4],
    by_refusal: Vec<(&'static str, Counter)>,
}

impl Tally {
    pub(super) fn new(metrics: &Metrics) -> Tally {
        let class = |class| metrics.responses.get_or_create(&[("class", class)]).clone();
        Tally { by_class: CLASSES.map(class), by_refusal: Vec::new() }
    }

    pub(super) fn answered(&self, status: u16) {
        debug_assert!((200..600).contains(&status), "an answer was written");
        self.by_class[usize::from(status / 100).clamp(2, 5) - 2].inc();
    }

    pub(super) fn refused(&mut self, metrics: &Metrics, refusal: Refusal) {
        let code = refusal.code();
        // Few codes; the texts are one each, so the pointers are compared before the letters.
        if let Some((_, counter)) = self.by_refusal.iter().find(|(known, _)| *known == code) {
            counter.inc();
            return;
        }
        let counter = metrics.refusals.get_or_create(&[("code", code)]).clone();
        counter.inc();
        self.by_refusal.push((code, counter));
    }
}
