//! How an endpoint stands, and what operators ask of it: shared by its sender and the event loops, which never wait for it.

use std::mem;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use engine::UnixMs;

use super::duty::{Busy, Duty};
use crate::ledger::EndpointChange;

/// One endpoint, as it is shown.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EndpointState {
    /// Whether this server sends to it; otherwise another one of the cluster does, and this is what the ledger has.
    pub here: bool,
    /// Every event up to this entry was answered, or waits.
    pub sent_to: u64,
    /// Events that wait for another try.
    pub waiting: usize,
    /// When the oldest of them was to be sent first.
    pub waiting_since: Option<UnixMs>,
    /// Events that were given up.
    pub dead: usize,
    pub disabled: bool,
    /// The endpoint fails again and again: nothing is sent until then.
    pub paused_until: Option<UnixMs>,
    /// Why the latest event was not delivered; empty: none failed yet.
    pub error: String,
    /// The latest test, and why it failed.
    pub test: Option<(u64, Option<String>)>,
}

/// Tests that were asked for and not sent yet: more are refused.
const TESTS_MAX: usize = 16;

/// What one sender and those who ask about it share.
#[derive(Debug)]
pub struct Control {
    pub name: String,
    pub url: String,
    duty: Arc<Duty>,
    shared: Mutex<ControlState>,
}

#[derive(Debug, Default)]
struct ControlState {
    state: EndpointState,
    /// By their numbers.
    tests: Vec<u64>,
    last_test: u64,
}

impl Control {
    pub(super) fn new(name: String, url: String, duty: Arc<Duty>) -> Control {
        Control { name, url, duty, shared: Mutex::default() }
    }

    pub fn state(&self) -> EndpointState {
        self.lock().state.clone()
    }

    /// Asks for a change; it is stored, and heeded, soon after.
    ///
    /// # Errors
    /// See [`Busy`].
    pub fn ask(&self, change: EndpointChange) -> Result<(), Busy> {
        self.duty.ask(&self.name, change)
    }

    /// Sends an event that means nothing, from this server, and returns the test's number.
    ///
    /// # Errors
    /// See [`Busy`].
    pub fn test(&self) -> Result<u64, Busy> {
        let mut shared = self.lock();
        if shared.tests.len() >= TESTS_MAX {
            return Err(Busy);
        }
        shared.last_test += 1;
        let number = shared.last_test;
        shared.tests.push(number);
        Ok(number)
    }

    pub(super) fn take_tests(&self) -> Vec<u64> {
        mem::take(&mut self.lock().tests)
    }

    pub(super) fn show(&self, update: impl FnOnce(&mut EndpointState)) {
        update(&mut self.lock().state);
    }

    fn lock(&self) -> MutexGuard<'_, ControlState> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tests_are_taken_once_in_order_and_are_bounded() {
        let control = Control::new("shop".to_owned(), String::new(), Arc::default());
        assert_eq!((control.test(), control.test()), (Ok(1), Ok(2)));
        assert_eq!(control.take_tests(), [1, 2]);
        assert_eq!((0..17).map(|_| control.test()).filter(Result::is_err).count(), 1);
        assert_eq!(control.take_tests().len(), 16);
    }
}
