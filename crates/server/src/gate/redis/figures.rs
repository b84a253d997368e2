//! What servers make known to each other of their figures: a hash in Redis, with a field for each run of a server.
//!
//! Nothing is decided by it. Losing it does no harm: each server says its own again within a second.

use super::Gate;
use super::commands::slot_of;
use super::reply::{array, bytes, malformed};
use crate::gate::{GateError, limits};

impl Gate {
    /// Says what is new of this server, forgets the runs that are named, and reads what all have said: run and figures.
    ///
    /// # Errors
    /// If Redis did not carry out all of it, or nobody knows whether it did.
    pub fn exchange_figures(
        &mut self,
        ours: Option<(&str, &[u8])>,
        forgotten: &[String],
    ) -> Result<Vec<(String, Vec<u8>)>, GateError> {
        let key = format!("{}:figures", self.router.config().key_prefix).into_bytes();
        let slot = slot_of(&key);
        self.commands.clear();
        if let Some((run, figures)) = ours {
            let kept_ms = limits::FIGURES_KEPT.as_millis().to_string();
            self.commands.plain(slot, &[b"HSET", &key, run.as_bytes(), figures]);
            self.commands.plain(slot, &[b"PEXPIRE", &key, kept_ms.as_bytes()]);
        }
        for run in forgotten {
            self.commands.plain(slot, &[b"HDEL", &key, run.as_bytes()]);
        }
        self.commands.plain(slot, &[b"HGETALL", &key]);
        let mut last = None;
        for outcome in self.router.exchange(&self.commands) {
            last = Some(outcome?);
        }
        let last = last.expect("all are read");
        let read = |pair: &[_]| {
            let [run, figures] = pair else { return None };
            Some((String::from_utf8(bytes(run)?.to_vec()).ok()?, bytes(figures)?.to_vec()))
        };
        array(&last).ok_or_else(malformed)?.chunks(2).map(|pair| read(pair).ok_or_else(malformed)).collect()
    }
}
