//! Carrying figures, and who tries most, between the servers, by way of the gate's Redis: so any of them shows the sum of all.
//!
//! While Redis is away the others fall silent here, and this server's own figures go on. A server that stops takes its own
//! away; of one that was killed they stay for [`FORGOTTEN_AFTER`], so that it is missed. Must not: know what is in them, or be
//! waited for by anybody.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::attempts::Attempts;
use crate::cluster::Core;
use crate::gate::Gate;
use crate::intake::{Heard, Servers};
use crate::time::Instant;

/// Between two looks. What is said once a second is known to the others so much later.
const INTERVAL: Duration = Duration::from_millis(250);
const FORGOTTEN_AFTER: Duration = Duration::from_secs(600);

/// Runs until the server stops.
pub(super) fn run(core: &Core, mut gate: Gate) {
    let run = format!("{:016x}", core.options.server_id);
    let mut known = Known::default();
    let mut attempts = Attempts::of(core, &run);
    let mut said = None;
    while !core.stopping.load(Ordering::Acquire) {
        let ours = core.servers.ours();
        let is_new = |ours: &Arc<[u8]>| !said.as_ref().is_some_and(|said| Arc::ptr_eq(said, ours));
        let new = ours.as_ref().filter(|ours| is_new(ours)).map(|ours| (run.as_str(), &**ours));
        match gate.exchange_figures(new, &known.forgotten(Instant::now())) {
            Ok(rows) => {
                said = ours;
                let mut others: Vec<_> = rows.into_iter().filter(|(theirs, _)| *theirs != run).collect();
                // Redis gives them in no order, and those within the bound must be the same ones each time.
                others.sort_unstable();
                if known.hear(others.into_iter(), Instant::now()) {
                    core.servers.hear(known.0.values().cloned().collect());
                }
            }
            Err(error) => tracing::debug!(%error, "figures are not exchanged with the other servers"),
        }
        if let Err(error) = attempts.exchange(core, &mut gate) {
            tracing::debug!(%error, "who tries most is not exchanged with the other servers");
        }
        core.wait(INTERVAL);
    }
    if let Err(error) = gate.exchange_figures(None, &[run]) {
        tracing::debug!(%error, "this server's figures stay in Redis for a while");
    }
}

/// What the other servers have said, by their runs.
#[derive(Debug, Default)]
struct Known(BTreeMap<String, Heard>);

impl Known {
    /// Takes in what there is now; returns whether that is something else than before.
    fn hear(&mut self, rows: impl Iterator<Item = (String, Vec<u8>)>, now: Instant) -> bool {
        let mut before = std::mem::take(&mut self.0);
        let read = rows.filter(|(_, said)| said.len() <= Servers::SAID_BYTES_MAX).take(Servers::OTHERS_MAX);
        let mut changed = false;
        for (run, said) in read {
            let heard = match before.remove(&run) {
                Some(heard) if *heard.said == *said => heard,
                earlier => {
                    changed = true;
                    Heard { said: said.into(), at: now, lives: earlier.is_some() }
                }
            };
            self.0.insert(run, heard);
        }
        changed || !before.is_empty()
    }

    /// Runs that have been silent for so long that nobody misses them.
    fn forgotten(&self, now: Instant) -> Vec<String> {
        let silent = |heard: &Heard| now.duration_since(heard.at) >= FORGOTTEN_AFTER;
        self.0.iter().filter(|(_, heard)| silent(heard)).map(|(run, _)| run.clone()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_says_something_new_lives_and_who_is_silent_is_forgotten_in_the_end() {
        let (mut known, begun) = (Known::default(), Instant::now());
        let at = |ms| begun + Duration::from_millis(ms);
        let mut hear = |rows: &[(&str, &str)], ms| {
            let rows = rows.iter().map(|(run, said)| ((*run).to_owned(), said.as_bytes().to_vec()));
            let changed = known.hear(rows, at(ms));
            let heard =
                |(run, heard): (&String, &Heard)| (run.clone(), (heard.at - begun).as_millis(), heard.lives);
            (changed, known.0.iter().map(heard).collect::<Vec<_>>(), known.forgotten(at(ms)))
        };
        let row = |run: &str, ms, lives| (run.to_owned(), ms, lives);
        let nobody = Vec::<String>::new;
        // What was there before we listened may be of a server that is long gone.
        assert_eq!(
            hear(&[("a", "1"), ("b", "1")], 0),
            (true, vec![row("a", 0, false), row("b", 0, false)], nobody())
        );
        assert_eq!(
            hear(&[("a", "2"), ("b", "1")], 250),
            (true, vec![row("a", 250, true), row("b", 0, false)], nobody())
        );
        assert!(!hear(&[("a", "2"), ("b", "1")], 500).0, "nothing new");
        let minutes = 10 * 60 * 1_000;
        assert_eq!(hear(&[("a", "3"), ("b", "1")], minutes).2, ["b"]);
        assert_eq!(hear(&[("a", "3")], minutes + 1), (true, vec![row("a", 600_000, true)], nobody()));
    }

    #[test]
    fn what_is_heard_is_bounded() {
        let mut known = Known::default();
        let rows =
            (0..100).map(|run| (format!("{run:02}"), vec![0; if run == 0 { 16 * 1024 + 1 } else { 1 }]));
        known.hear(rows, Instant::now());
        assert_eq!((known.0.len(), known.0.contains_key("00")), (Servers::OTHERS_MAX, false));
    }
}
