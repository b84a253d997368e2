//! Whether it is this server's task to notify the shop, and what is to be stored of it: shared by the senders and whoever
//! writes the ledger.
//!
//! In a cluster one server has the task at a time. What a sender notes is of the time for which it was this server's: once
//! that is over it is dropped, for another server goes on from what the ledger has.

use std::collections::BTreeMap;
use std::mem;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::ledger::{EndpointChange, EndpointProgress, UnansweredEvent};
use crate::time::{Condvar, Instant};

/// Changes that were asked for and are not stored yet: more are refused.
const CHANGES_MAX: usize = 64;

#[derive(Debug, Default)]
pub struct Duty {
    shared: Mutex<DutyState>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct DutyState {
    stopped: bool,
    here: Option<Here>,
    /// How often it has begun.
    number: u64,
    notes: BTreeMap<String, EndpointProgress>,
    changes: Vec<(String, EndpointChange)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Here {
    /// `None`: for good.
    until: Option<Instant>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Now {
    /// The program ends.
    Stopped,
    /// Another server notifies the shop, or nobody.
    Elsewhere,
    /// This one does, for the n-th time.
    Here(u64),
}

/// So much was asked for that nothing more is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Busy;

impl Duty {
    /// From now on this server notifies the shop, after what the ledger has; it may be said again to go on. `until`: if it is not
    /// said again before then, the senders pause.
    pub fn begin(&self, until: Option<Instant>) {
        let mut shared = self.lock();
        if shared.here.is_none() {
            shared.number += 1;
            shared.notes.clear();
        }
        shared.here = Some(Here { until });
        self.changed.notify_all();
    }

    /// Another server may notify the shop from now on.
    pub fn end(&self) {
        let mut shared = self.lock();
        shared.here = None;
        shared.notes.clear();
        self.changed.notify_all();
    }

    /// After changes were stored: the senders read anew what the ledger has.
    pub fn begin_anew(&self) {
        let until = self.lock().here.and_then(|here| here.until);
        self.end();
        self.begin(until);
    }

    /// The senders end.
    pub fn stop(&self) {
        self.lock().stopped = true;
        self.changed.notify_all();
    }

    /// How far the endpoints have come, to be stored.
    pub fn take_progress(&self) -> Vec<(String, EndpointProgress)> {
        mem::take(&mut self.lock().notes).into_iter().collect()
    }

    /// What could not be stored: what was noted meanwhile comes after it.
    pub fn put_progress_back(&self, progress: Vec<(String, EndpointProgress)>) {
        let mut shared = self.lock();
        for (endpoint, mut before) in progress {
            if let Some(after) = shared.notes.remove(&endpoint) {
                follow(&mut before, after);
            }
            shared.notes.insert(endpoint, before);
        }
    }

    /// What operators change of the endpoints, to be stored after how far they have come.
    pub fn take_changes(&self) -> Vec<(String, EndpointChange)> {
        mem::take(&mut self.lock().changes)
    }

    /// What could not be stored: what was asked for meanwhile comes after it.
    pub fn put_changes_back(&self, changes: Vec<(String, EndpointChange)>) {
        let mut shared = self.lock();
        let after = mem::replace(&mut shared.changes, changes);
        shared.changes.extend(after);
    }

    /// Notes what has changed since the last call, if this is still the n-th time that it is this server's task.
    pub(super) fn note(&self, number: u64, endpoint: &str, progress: EndpointProgress) {
        let mut shared = self.lock();
        if shared.here.is_none() || shared.number != number {
            return;
        }
        match shared.notes.get_mut(endpoint) {
            Some(before) => follow(before, progress),
            None => drop(shared.notes.insert(endpoint.to_owned(), progress)),
        }
    }

    /// Asks for a change, which is stored soon.
    pub(super) fn ask(&self, endpoint: &str, change: EndpointChange) -> Result<(), Busy> {
        let mut shared = self.lock();
        if shared.changes.len() >= CHANGES_MAX {
            return Err(Busy);
        }
        shared.changes.push((endpoint.to_owned(), change));
        Ok(())
    }

    pub(super) fn now(&self) -> Now {
        self.lock().now()
    }

    /// Waits for so long, or until it is otherwise than it was.
    pub(super) fn pause(&self, was: Now, pause: Duration) {
        drop(self.changed.wait_while(&self.shared, pause, |shared| shared.now() == was));
    }

    fn lock(&self) -> MutexGuard<'_, DutyState> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl DutyState {
    fn now(&self) -> Now {
        match self.here {
            _ if self.stopped => Now::Stopped,
            Some(Here { until }) if until.is_none_or(|until| Instant::now() < until) => {
                Now::Here(self.number)
            }
            _ => Now::Elsewhere,
        }
    }
}

/// Makes one progress of two that follow each other.
fn follow(before: &mut EndpointProgress, after: EndpointProgress) {
    let EndpointProgress { sent_to, disabled, waiting, answered } = after;
    (before.sent_to, before.disabled) = (sent_to, disabled);
    let mut rows: BTreeMap<u64, UnansweredEvent> =
        before.waiting.drain(..).map(|row| (row.seq, row)).collect();
    for seq in &answered {
        rows.remove(seq);
    }
    before.answered.retain(|seq| !waiting.iter().any(|row| row.seq == *seq));
    before.answered.extend(answered);
    rows.extend(waiting.into_iter().map(|row| (row.seq, row)));
    before.waiting = rows.into_values().collect();
}

#[cfg(test)]
mod tests {
    use engine::UnixMs;

    use super::*;

    fn row(seq: u64, attempts: u32) -> UnansweredEvent {
        let (about, error) = (String::new(), String::new());
        UnansweredEvent { seq, about, since: UnixMs(0), attempts, next_at: UnixMs(0), dead: false, error }
    }

    fn progress(sent_to: u64, waiting: &[UnansweredEvent], answered: &[u64]) -> EndpointProgress {
        EndpointProgress { sent_to, disabled: false, waiting: waiting.to_vec(), answered: answered.to_vec() }
    }

    fn taken(progress: &[(&str, EndpointProgress)]) -> Vec<(String, EndpointProgress)> {
        progress.iter().map(|(name, progress)| ((*name).to_owned(), progress.clone())).collect()
    }

    #[test]
    fn what_follows_stands_above_what_was_before() {
        let duty = Duty::default();
        duty.begin(None);
        duty.note(1, "a", progress(5, &[row(3, 1), row(4, 1)], &[1]));
        duty.note(1, "a", progress(9, &[row(4, 2), row(1, 0)], &[3]));
        duty.note(1, "b", progress(2, &[], &[]));
        let first = duty.take_progress();
        let a = progress(9, &[row(1, 0), row(4, 2)], &[3]);
        assert_eq!(first, taken(&[("a", a), ("b", progress(2, &[], &[]))]));
        assert!(duty.take_progress().is_empty());
        // The write failed, and an event was answered meanwhile.
        duty.note(1, "a", progress(11, &[row(10, 1)], &[4]));
        duty.put_progress_back(first);
        let a = progress(11, &[row(1, 0), row(10, 1)], &[3, 4]);
        assert_eq!(duty.take_progress(), taken(&[("a", a), ("b", progress(2, &[], &[]))]));
    }

    #[test]
    fn what_was_done_before_another_had_the_task_is_dropped() {
        let duty = Duty::default();
        assert_eq!(duty.now(), Now::Elsewhere);
        duty.begin(None);
        assert_eq!(duty.now(), Now::Here(1));
        duty.note(1, "a", progress(5, &[], &[]));
        duty.end();
        duty.note(1, "a", progress(6, &[], &[]));
        duty.begin(None);
        duty.note(1, "a", progress(7, &[], &[]));
        assert!(duty.take_progress().is_empty(), "it is the second time");
        duty.note(2, "a", progress(8, &[], &[]));
        // Said again, it goes on.
        duty.begin(Some(Instant::now() + Duration::from_secs(600)));
        assert_eq!(
            (duty.now(), duty.take_progress()),
            (Now::Here(2), taken(&[("a", progress(8, &[], &[]))]))
        );
        duty.begin(Some(Instant::now()));
        assert_eq!(duty.now(), Now::Elsewhere, "the time is over");
        duty.begin_anew();
        duty.begin(None);
        assert_eq!(duty.now(), Now::Here(3));
        duty.stop();
        assert_eq!(duty.now(), Now::Stopped);
    }

    #[test]
    fn what_is_asked_for_is_taken_once_in_order_and_is_bounded() {
        let duty = Duty::default();
        let ask = |since| duty.ask("a", EndpointChange::Replay { since });
        assert_eq!((ask(1), ask(2)), (Ok(()), Ok(())));
        let first = duty.take_changes();
        assert_eq!((first.len(), duty.take_changes().len()), (2, 0));
        assert_eq!(ask(3), Ok(()));
        duty.put_changes_back(first);
        let order: Vec<_> = duty.take_changes().into_iter().map(|(_, change)| change).collect();
        assert_eq!(order, [1, 2, 3].map(|since| EndpointChange::Replay { since }));
        assert_eq!((0..65).map(ask).filter(Result::is_err).count(), 1);
    }
}
