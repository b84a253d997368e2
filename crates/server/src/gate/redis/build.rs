//! Building a gate from what the ledger holds.

use engine::SkuId;
use engine::handover::Snapshot;

use super::commands::decimal;
use super::reply::{Reply, code, malformed};
use super::scripts::Script;
use super::{Gate, decimals, hash_bytes, keys_of, phase_letter};
use crate::gate::mark::{buyer_bytes, letter_of, place_body, returned_field, returned_value};
use crate::gate::{Built, GateError, Why, limits};

impl Gate {
    /// Builds the gate of a SKU under a new epoch, whatever was there; it sells with the last step. After an error the
    /// gate is closed, and building it again under the same epoch is safe.
    /// `between` is called after each chunk: a large gate takes long.
    pub fn build(
        &mut self,
        sku: SkuId,
        snapshot: &Snapshot,
        between: &mut dyn FnMut(),
    ) -> Result<Built, GateError> {
        if snapshot.epoch == 0 || snapshot.epoch > limits::NUMBER_MAX {
            return Err(GateError::NotExecuted(Why::Invalid("the epoch must be positive, and exact in Lua")));
        }
        if self.build_step(sku, b"begin", snapshot.epoch, &[])?.code == code::OLD {
            return Ok(Built::Old);
        }
        let marks = snapshot.marks.iter().map(|mark| {
            let mut value = vec![letter_of(mark.state)];
            value.extend_from_slice(&place_body(&mark.place));
            (hash_bytes(mark.place.id).to_vec(), value)
        });
        self.add_rows(sku, b"marks", snapshot.epoch, marks, between)?;
        if snapshot.limit.is_some() {
            let buyers = snapshot
                .buyers
                .iter()
                .map(|(buyer, units)| (buyer_bytes(*buyer).to_vec(), decimal(&mut [0; 20], *units).to_vec()));
            self.add_rows(sku, b"buyers", snapshot.epoch, buyers, between)?;
        }
        let returned = snapshot.returned_holds.iter().map(|(buyer, returned)| {
            let until = self.router.config().cool_down.until(returned.count, returned.latest_at);
            (returned_field(*buyer), returned_value(returned.count, until))
        });
        let returned: Vec<_> = returned.collect();
        self.add_rows(sku, b"buyers", snapshot.epoch, returned.into_iter(), between)?;
        let available = snapshot.available.to_string();
        let sale = &snapshot.sale;
        let limit = snapshot.limit.map_or(0, u64::from);
        let mut digits = [[0; 20]; 4];
        let [limit, version, starts, ends] =
            decimals(&mut digits, [limit, sale.version, sale.starts_at.0, sale.ends_at.0]);
        let phase = [phase_letter(sale)];
        let args = [available.as_bytes(), limit, version, starts, ends, &phase];
        let reply = self.build_step(sku, b"finish", snapshot.epoch, &args)?;
        match reply.code {
            code::DONE | code::ALREADY => Ok(Built::Open(reply.seen)),
            code::OLD => Ok(Built::Old),
            _ => Err(malformed()),
        }
    }

    fn build_step(
        &mut self,
        sku: SkuId,
        step: &[u8],
        epoch: u64,
        more: &[&[u8]],
    ) -> Result<Reply, GateError> {
        let keys = keys_of(&mut self.keys, &self.router, sku);
        let mut digits = [0; 20];
        let mut args: Vec<&[u8]> = vec![step, decimal(&mut digits, epoch)];
        args.extend_from_slice(more);
        self.commands.clear();
        self.commands.script(Script::Build, keys.slot, &keys.all(), &args);
        Reply::read(self.router.exchange(&self.commands).remove(0)?)
    }

    /// Adds rows in chunks, a bounded number of which is on its way at once.
    fn add_rows(
        &mut self,
        sku: SkuId,
        step: &[u8],
        epoch: u64,
        mut rows: impl Iterator<Item = (Vec<u8>, Vec<u8>)>,
        between: &mut dyn FnMut(),
    ) -> Result<(), GateError> {
        loop {
            between();
            self.commands.clear();
            for _ in 0..limits::BUILD_CHUNKS_MAX {
                let chunk: Vec<(Vec<u8>, Vec<u8>)> = rows.by_ref().take(limits::BUILD_ROWS_MAX).collect();
                if chunk.is_empty() {
                    break;
                }
                let keys = keys_of(&mut self.keys, &self.router, sku);
                let mut digits = [0; 20];
                let mut args: Vec<&[u8]> = vec![step, decimal(&mut digits, epoch)];
                args.extend(chunk.iter().flat_map(|(field, value)| [field.as_slice(), value.as_slice()]));
                self.commands.script(Script::Build, keys.slot, &keys.all(), &args);
            }
            if self.commands.len() == 0 {
                return Ok(());
            }
            for outcome in self.router.exchange(&self.commands) {
                // Somebody else builds under a later epoch, or has finished under this one: not ours any more.
                if Reply::read(outcome?)?.code != code::DONE {
                    return Err(GateError::NotExecuted(Why::Invalid("the build was overtaken by another")));
                }
            }
        }
    }
}
