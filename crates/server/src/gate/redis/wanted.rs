//! SKUs whose gates somebody needs although nothing of them is sold any more: a late payment, a correction. They are
//! rebuilt when they are asked for, and not before.
//!
//! A set in Redis, because the server that needs one and the server that rebuilds are not the same. Losing it does no
//! harm: whoever still needs a gate asks again.

use engine::SkuId;

use super::Gate;
use super::commands::slot_of;
use super::reply::{array, bytes, malformed};
use crate::gate::{GateError, limits};

impl Gate {
    /// Asks whoever reconciles for these gates.
    pub fn want(&mut self, skus: &[SkuId]) -> Result<(), GateError> {
        if skus.is_empty() {
            return Ok(());
        }
        let key = self.wanted_key();
        let names: Vec<String> = skus.iter().map(|sku| sku.0.to_string()).collect();
        self.commands.clear();
        for names in names.chunks(limits::WANTED_MAX) {
            let mut command: Vec<&[u8]> = vec![b"SADD", &key];
            command.extend(names.iter().map(String::as_bytes));
            self.commands.plain(slot_of(&key), &command);
        }
        self.router.exchange(&self.commands).into_iter().try_for_each(|outcome| outcome.map(drop))
    }

    /// Takes some of those that were asked for.
    pub fn take_wanted(&mut self) -> Result<Vec<SkuId>, GateError> {
        let key = self.wanted_key();
        self.commands.clear();
        let count = limits::WANTED_MAX.to_string();
        self.commands.plain(slot_of(&key), &[b"SPOP", &key, count.as_bytes()]);
        let value = self.router.exchange(&self.commands).remove(0)?;
        let sku = |name| std::str::from_utf8(bytes(name)?).ok()?.parse().ok().map(SkuId);
        array(&value).ok_or_else(malformed)?.iter().map(|name| sku(name).ok_or_else(malformed)).collect()
    }

    fn wanted_key(&self) -> Vec<u8> {
        format!("{}:wanted", self.router.config().key_prefix).into_bytes()
    }
}
