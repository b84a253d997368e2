//! Carrying figures, and who tries most, between the servers, by way of the gate's Redis: so any of them shows the sum of all.
//!
//! While Redis is away the others fall silent here, and this server's own figures go on. A server that stops takes its own
//! away; of one that was killed they stay for [`FORGOTTEN_AFTER`], so that it is missed, or until it is there again. Must not:
//! know more of what is in them than whose they are, or be waited for by anybody.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use serde::Deserialize;

use super::attempts::Attempts;
use crate::cluster::Core;
use crate::figures::{HEARING_INTERVAL, SHOWN_WITHIN};
use crate::gate::Gate;
use crate::intake::{ServerReport, Servers};
use crate::time::Instant;

/// Between two looks. What is said once a second is known to the others so much later.
const INTERVAL: Duration = Duration::from_millis(250);
/// What another server says is read, and added up, before it is shown (decision 035).
const _: () =
    assert!(SHOWN_WITHIN.as_millis() + INTERVAL.as_millis() + HEARING_INTERVAL.as_millis() == 1_500);
const FORGOTTEN_AFTER: Duration = Duration::from_secs(600);
/// A run that has said nothing for so long is over if a later one of the same name has been heard.
const OVER_AFTER: Duration = Duration::from_secs(4);
/// Runs that are kept in Redis, dead ones among them. Of more than that those that do not speak are taken away, so many at once.
const RUNS_MAX: usize = 8 * (Servers::OTHERS_MAX + 1);

/// Runs until the server stops.
pub(super) fn run(core: &Core, mut gate: Gate) {
    let run = format!("{:016x}", core.options.server_id);
    let mut known = Known::of(&core.options.server_name);
    let mut attempts = Attempts::of(core, &run);
    let (mut said, mut has_listened, mut forgotten) = (None, false, Vec::new());
    while !core.stopping.load(Ordering::Acquire) {
        let ours = core.servers.ours();
        let is_new = |ours: &Arc<[u8]>| !said.as_ref().is_some_and(|said| Arc::ptr_eq(said, ours));
        let new = ours.as_ref().filter(|ours| is_new(ours)).map(|ours| (run.as_str(), &**ours));
        match gate.exchange_figures(new, &forgotten) {
            Ok(rows) => {
                said = ours;
                let now = Instant::now();
                if known.hear(rows.into_iter().filter(|(theirs, _)| *theirs != run), now) {
                    core.servers.hear(known.others(now));
                }
                forgotten = if has_listened { known.forgotten(now) } else { known.ended(now) };
                has_listened = true;
            }
            Err(error) => tracing::debug!(%error, "figures are not exchanged with the other servers"),
        }
        if let Err(error) = attempts.exchange(core, &mut gate) {
            tracing::debug!(%error, "who tries most is not exchanged with the other servers");
        }
        core.wait(INTERVAL);
    }
    forgotten.push(run);
    if let Err(error) = gate.exchange_figures(None, &forgotten) {
        tracing::debug!(%error, "this server's figures stay in Redis for a while");
    }
}

/// What the other servers have said, by their runs.
#[derive(Debug)]
struct Known {
    /// Of this server.
    name: String,
    runs: BTreeMap<String, Run>,
}

#[derive(Debug)]
struct Run {
    heard: ServerReport,
    whose: Whose,
}

/// All that is read here of what a run says.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Whose {
    server: String,
    /// When the run began, by its own clock.
    holds_since_ms: Option<u64>,
}

impl Run {
    fn speaks(&self, now: Instant) -> bool {
        self.heard.lives && now.duration_since(self.heard.at) < OVER_AFTER
    }
}

impl Known {
    fn of(name: &str) -> Known {
        Known { name: name.to_owned(), runs: BTreeMap::new() }
    }

    /// Takes in what there is now; returns whether that is something else than before.
    fn hear(&mut self, rows: impl Iterator<Item = (String, Vec<u8>)>, now: Instant) -> bool {
        let mut before = std::mem::take(&mut self.runs);
        let mut changed = false;
        let read = rows.filter(|(_, said)| said.len() <= Servers::SAID_BYTES_MAX).take(RUNS_MAX + 1);
        for (run, said) in read {
            let heard = match before.remove(&run) {
                Some(heard) if *heard.heard.said == *said => heard,
                earlier => {
                    changed = true;
                    // Of what can't be read nobody knows whose it is.
                    let whose = serde_json::from_slice(&said).unwrap_or_default();
                    Run {
                        heard: ServerReport { said: said.into(), at: now, lives: earlier.is_some() },
                        whose,
                    }
                }
            };
            self.runs.insert(run, heard);
        }
        changed || !before.is_empty()
    }

    /// Those that count: of each server its last run, and whoever speaks. Those who speak come first, and otherwise all are in one
    /// order, so that those within the bound are the same ones each time.
    fn others(&self, now: Instant) -> Vec<ServerReport> {
        let last = self.last_runs();
        let counts =
            |(run, known): &(&String, &Run)| known.speaks(now) || last[&*known.whose.server] == run.as_str();
        let mut others: Vec<_> = self.runs.iter().filter(counts).map(|(_, known)| known).collect();
        others.sort_by_key(|known| !known.speaks(now));
        others.into_iter().take(Servers::OTHERS_MAX).map(|known| known.heard.clone()).collect()
    }

    /// Runs that nobody misses: silent for too long, or over; and whoever does not speak if there are too many.
    fn forgotten(&self, now: Instant) -> Vec<String> {
        let last = self.last_runs();
        let (too_many, silent) =
            (self.runs.len() > RUNS_MAX, |known: &Run| now.duration_since(known.heard.at));
        let nobody_misses = |(run, known): &(&String, &Run)| {
            let is_over = silent(known) >= OVER_AFTER && last[&*known.whose.server] != run.as_str();
            is_over || silent(known) >= FORGOTTEN_AFTER || (too_many && !known.speaks(now))
        };
        self.runs.iter().filter(nobody_misses).map(|(run, _)| run.clone()).collect()
    }

    /// Earlier runs of this server. Another one that was given the same name by mistake speaks.
    fn ended(&self, now: Instant) -> Vec<String> {
        let is_earlier = |(_, known): &(&String, &Run)| known.whose.server == self.name && !known.speaks(now);
        self.runs.iter().filter(is_earlier).map(|(run, _)| run.clone()).collect()
    }

    /// The last run of each server; of this one it is ours, which is not among them. When somebody has said something new is known
    /// by our clock; what was there before we listened is distinguished by when it began.
    fn last_runs(&self) -> BTreeMap<&str, &str> {
        let mut runs: Vec<_> = self.runs.iter().collect();
        runs.sort_by_key(|(_, known)| (known.heard.at, known.whose.holds_since_ms));
        let ours = (self.name.as_str(), "");
        runs.into_iter().map(|(run, known)| (&*known.whose.server, run.as_str())).chain([ours]).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OURS: &str = "here:80";

    /// As a run says it that began at `since_ms`, for the `count`th time.
    fn said(server: &str, since_ms: u64, count: u64) -> Vec<u8> {
        format!(r#"{{"server":"{server}","holds_since_ms":{since_ms},"count":{count}}}"#).into_bytes()
    }

    fn rows(rows: &[(&str, &str, u64, u64)]) -> std::vec::IntoIter<(String, Vec<u8>)> {
        let row = |(run, server, since_ms, count): &(&str, &str, u64, u64)| {
            ((*run).to_owned(), said(server, *since_ms, *count))
        };
        rows.iter().map(row).collect::<Vec<_>>().into_iter()
    }

    /// The runs that count, by what they say.
    fn counted(known: &Known, now: Instant) -> Vec<&str> {
        let run = |heard: ServerReport| {
            known.runs.iter().find(|(_, known)| known.heard == heard).unwrap().0.as_str()
        };
        known.others(now).into_iter().map(run).collect()
    }

    #[test]
    fn who_says_something_new_lives_and_who_is_silent_is_forgotten_in_the_end() {
        let (mut known, begun) = (Known::of(OURS), Instant::now());
        let at = |ms| begun + Duration::from_millis(ms);
        let mut hear = |said: &[(&str, &str, u64, u64)], ms| {
            let changed = known.hear(rows(said), at(ms));
            let heard = |(run, Run { heard, .. }): (&String, &Run)| {
                (run.clone(), (heard.at - begun).as_millis(), heard.lives)
            };
            (changed, known.runs.iter().map(heard).collect::<Vec<_>>(), known.forgotten(at(ms)))
        };
        let row = |run: &str, ms, lives| (run.to_owned(), ms, lives);
        let nobody = Vec::<String>::new;
        // What was there before we listened may be of a server that is long gone.
        assert_eq!(
            hear(&[("a", "A", 0, 1), ("b", "B", 0, 1)], 0),
            (true, vec![row("a", 0, false), row("b", 0, false)], nobody())
        );
        assert_eq!(
            hear(&[("a", "A", 0, 2), ("b", "B", 0, 1)], 250),
            (true, vec![row("a", 250, true), row("b", 0, false)], nobody())
        );
        assert!(!hear(&[("a", "A", 0, 2), ("b", "B", 0, 1)], 500).0, "nothing new");
        let minutes = 10 * 60 * 1_000;
        assert_eq!(hear(&[("a", "A", 0, 3), ("b", "B", 0, 1)], minutes).2, ["b"]);
        assert_eq!(hear(&[("a", "A", 0, 3)], minutes + 1), (true, vec![row("a", 600_000, true)], nobody()));
    }

    /// Runs have random names: those of a server that comes and goes would have all the places.
    #[test]
    fn dead_runs_take_nobodys_place_and_are_forgotten_once_there_is_a_later_one() {
        let (mut known, begun) = (Known::of(OURS), Instant::now());
        let at = |ms| begun + Duration::from_millis(ms);
        let dead = (1..=118).map(|run| (format!("dead{run:03}"), said("B", run, 1)));
        let dead: Vec<_> = dead.chain([("ours".to_owned(), said(OURS, 1, 1))]).collect();
        let with = |more: &[(&str, &str, u64, u64)]| dead.clone().into_iter().chain(rows(more));
        known.hear(with(&[("lives", "C", 1, 1)]), at(0));
        assert_eq!(counted(&known, at(0)), ["dead118", "lives"], "the last of one name that is not ours");
        assert_eq!(known.forgotten(at(0)), Vec::<String>::new(), "it may be that it speaks");
        known.hear(with(&[("lives", "C", 1, 2), ("again", "B", 1, 1)]), at(4_000));
        // Its clock was set back meanwhile.
        assert_eq!(counted(&known, at(4_000)), ["lives", "again"], "who speaks comes first");
        let forgotten = known.forgotten(at(4_000));
        assert_eq!(forgotten.len(), 119, "those before, and ours");
        assert!(!forgotten.iter().any(|run| run == "lives" || run == "again"), "{forgotten:?}");
        // Two that were given one name both count while they speak.
        known.hear(rows(&[("lives", "C", 1, 3), ("too", "C", 2, 1)]), at(5_000));
        known.hear(rows(&[("lives", "C", 1, 4), ("too", "C", 2, 2)]), at(6_000));
        assert_eq!(counted(&known, at(6_000)), ["lives", "too"]);
        assert_eq!(known.forgotten(at(6_000)), Vec::<String>::new());
    }

    #[test]
    fn a_server_that_starts_takes_its_earlier_runs_away() {
        let (mut known, now) = (Known::of(OURS), Instant::now());
        let all = [("a", OURS, 3, 1), ("b", "B", 1, 1), ("c", OURS, 9, 1), ("d", OURS, 5, 1)];
        known.hear(rows(&all), now);
        assert_eq!(known.ended(now), ["a", "c", "d"]);
        known.hear(rows(&[("a", OURS, 3, 2)]), now);
        assert_eq!(known.ended(now), Vec::<String>::new(), "it has our name by mistake");
    }

    #[test]
    fn what_is_heard_is_bounded() {
        let mut known = Known::of(OURS);
        let now = Instant::now();
        let row = |run: usize| {
            let long = if run == 0 { Servers::SAID_BYTES_MAX } else { 0 };
            let mut said = said(&run.to_string(), 0, 1);
            said.resize(said.len() + long, b' ');
            (format!("{run:04}"), said)
        };
        known.hear((0..100).map(row), now);
        assert_eq!((known.others(now).len(), known.runs.contains_key("0000")), (Servers::OTHERS_MAX, false));
        assert_eq!(known.forgotten(now), Vec::<String>::new());
        known.hear((1..=RUNS_MAX).map(row), now);
        assert_eq!(known.forgotten(now), Vec::<String>::new());
        known.hear((1..10 * RUNS_MAX).map(row), now);
        assert_eq!((known.runs.len(), known.forgotten(now).len()), (RUNS_MAX + 1, RUNS_MAX + 1));
    }
}
