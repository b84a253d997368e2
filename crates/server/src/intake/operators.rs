//! Who may, as the event loops see it: what the profile behind them has read of the ledger last.
//!
//! A profile that can't read the ledger publishes nothing: who was known goes on. Must not: know a token.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use engine::Operators;

/// What is known now.
#[derive(Debug, Default)]
pub struct KnownOperators {
    version: AtomicU64,
    current: Mutex<OperatorsCopy>,
}

/// A reader's copy.
#[derive(Clone, Debug, Default)]
pub struct OperatorsCopy {
    version: u64,
    pub operators: Arc<Operators>,
}

impl KnownOperators {
    /// What is known already is not published again. Returns whether it was new.
    pub fn publish(&self, operators: &Operators) -> bool {
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        if *current.operators == *operators {
            return false;
        }
        let version = current.version + 1;
        *current = OperatorsCopy { version, operators: Arc::new(operators.clone()) };
        self.version.store(version, Ordering::Release);
        true
    }

    /// Brings a copy up to date; costs one atomic load when nothing changed. Returns whether it did.
    pub fn refresh(&self, copy: &mut OperatorsCopy) -> bool {
        let stale = self.version.load(Ordering::Acquire) != copy.version;
        if stale {
            *copy = self.current.lock().unwrap_or_else(PoisonError::into_inner).clone();
        }
        stale
    }
}
