//! The gate's Redis in memory: the real scripts over a key space, by a clock that a test sets.
//!
//! It takes a client's bytes and gives bytes back, so that all of the server's client is the real one. It has no cluster, no bound
//! of memory and no disk; what a replica has, whoever plays with it copies there.

mod commands;
mod keys;
mod link;
mod network;
mod notes;
mod numbers;
mod packed;
mod resp;
mod scripts;
mod sentinel;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use self::commands::Store;
use self::keys::{Hash, Keys, Sorted};
use self::scripts::Scripts;
use self::sentinel::Sentinel;

pub use self::commands::Role;
pub use self::link::Shared;
pub use self::network::{FaultCounts, Faults, Network, Reach};
pub use self::resp::{Parts, commands};

/// Whose words and numbers it has, where the engines differ: a number of Lua as text, and some errors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    /// 7.0
    Redis,
    /// 8.1
    Valkey,
}

/// What a server had at one time.
#[derive(Clone, Debug)]
pub struct Snapshot(Keys);

/// One server.
#[derive(Debug)]
pub struct Redis {
    store: Arc<Mutex<Store>>,
    scripts: Scripts,
}

impl Redis {
    /// `run`: which life of a server it is, 40 hexadecimal digits.
    pub fn new(dialect: Dialect, run: &str) -> Redis {
        let (keys, followed) = (Keys::default(), "0".repeat(40));
        let store = Store { keys, now_us: 0, run: run.to_owned(), role: Role::Master, followed };
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

    pub fn set_role(&mut self, role: Role) {
        locked(&self.store).role = role;
    }

    /// A replica becomes the master, and says whose history it has followed: 40 digits.
    pub fn promote(&mut self, followed: &str) {
        let mut store = locked(&self.store);
        (store.role, store.followed) = (Role::Master, followed.to_owned());
    }

    /// What it has in a field of a hash.
    pub fn field(&self, key: &[u8], field: &[u8]) -> Option<Vec<u8>> {
        locked(&self.store).keys.read::<Hash>(key).ok()??.get(field).cloned()
    }

    /// What it has in a sorted set.
    pub fn members(&self, key: &[u8]) -> Vec<Vec<u8>> {
        let store = locked(&self.store);
        let sorted = store.keys.read::<Sorted>(key).ok().flatten();
        sorted.map(|set| set.members().map(|(member, _)| member.to_vec()).collect()).unwrap_or_default()
    }

    /// All that it has now.
    pub fn snapshot(&self) -> Snapshot {
        Snapshot(locked(&self.store).keys.clone())
    }

    /// What it had, or another one, in the place of what it has.
    pub fn restore(&mut self, snapshot: Snapshot) {
        locked(&self.store).keys = snapshot.0;
    }

    /// The reply to one command, as bytes.
    pub fn answer(&mut self, parts: &Parts) -> Vec<u8> {
        let is = |at: usize, name: &str| {
            parts.get(at).is_some_and(|part| part.eq_ignore_ascii_case(name.as_bytes()))
        };
        let refusal = || locked(&self.store).refusal();
        let reply = if is(0, "EVALSHA") {
            let writes = parts.get(1).is_some_and(|sha| self.scripts.may_write(sha));
            writes.then(refusal).flatten().unwrap_or_else(|| self.scripts.evaluate(&parts[1..]))
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
