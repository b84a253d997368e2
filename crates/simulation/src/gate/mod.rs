//! The gate's Redis in memory: the real scripts over a key space, by a clock that a test sets.
//!
//! It takes a client's bytes and gives bytes back, so that all of the server's client is the real one. It has no replica, no
//! cluster, no bound of memory and no disk.

mod commands;
mod keys;
mod link;
mod network;
mod numbers;
mod packed;
mod resp;
mod scripts;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use self::commands::Store;
use self::keys::Keys;
use self::scripts::Scripts;

pub use self::link::Shared;
pub use self::network::{Faults, Happened, Network};
pub use self::resp::{Parts, commands};

/// Whose words and numbers it has, where the engines differ: a number of Lua as text, and some errors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    /// 7.0
    Redis,
    /// 8.1
    Valkey,
}

/// One server.
#[derive(Debug)]
pub struct Redis {
    store: Arc<Mutex<Store>>,
    scripts: Scripts,
}

impl Redis {
    /// `run`: which life of a server it is, 40 hexadecimal digits.
    pub fn new(dialect: Dialect, run: &str) -> Redis {
        let store = Store { keys: Keys::default(), now_us: 0, run: run.to_owned() };
        let store = Arc::new(Mutex::new(store));
        Redis { scripts: Scripts::new(dialect, &store), store }
    }

    /// Plants a defect: scripts that have this text run with the other in its place.
    pub fn change_scripts(&mut self, from: &'static str, to: &'static str) {
        self.scripts.change(from, to);
    }

    /// Sets the clock: microseconds since 1970.
    pub fn set_now(&mut self, now_us: u64) {
        locked(&self.store).now_us = now_us;
    }

    /// Another life: with the same keys, as after a restart that has lost nothing.
    pub fn set_run(&mut self, run: &str) {
        locked(&self.store).run = run.to_owned();
    }

    /// The reply to one command, as bytes.
    pub fn answer(&mut self, parts: &Parts) -> Vec<u8> {
        let is = |at: usize, name: &str| {
            parts.get(at).is_some_and(|part| part.eq_ignore_ascii_case(name.as_bytes()))
        };
        let reply = if is(0, "EVALSHA") {
            self.scripts.evaluate(&parts[1..])
        } else if is(0, "SCRIPT") && is(1, "LOAD") && parts.len() == 3 {
            self.scripts.load(&parts[2])
        } else {
            locked(&self.store).carry_out(parts, None)
        };
        reply.bytes()
    }
}

/// Whoever panicked has left a store that is whole: commands check before they write.
fn locked(store: &Mutex<Store>) -> MutexGuard<'_, Store> {
    store.lock().unwrap_or_else(PoisonError::into_inner)
}
