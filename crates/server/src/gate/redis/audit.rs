//! Adds up the marks of a SKU and compares the sums with what the gate counts.

use std::collections::{HashMap, HashSet};

use engine::{BuyerId, SkuId};
use redis::Value;

use super::reply::{array, bytes, int, malformed};
use super::{Gate, keys_of};
use crate::gate::mark::{MarkBytes, buyer_of, is_returned_field};
use crate::gate::{Closed, GateAudit, GateError};

/// Fields in one answer, about.
const SCAN_COUNT: &[u8] = b"1000";

/// Takes a field and its value, or a member and its score.
type Each<'a> = &'a mut dyn FnMut(&[u8], &[u8]) -> Result<(), GateError>;

impl Gate {
    /// Reads all marks of a SKU. Costs a pass over them, in pieces: what is written meanwhile makes it inexact.
    pub fn audit(&mut self, sku: SkuId) -> Result<GateAudit, GateError> {
        let state = self.states(&[sku]).remove(0)?.ok_or(GateError::Closed(Closed::Lost))?;
        let keys = keys_of(&mut self.keys, &self.router, sku).clone();
        let mut audit = GateAudit { available: state.seen.available, ..GateAudit::default() };
        let mut by_marks: HashMap<BuyerId, u64> = HashMap::new();
        let mut open: HashSet<Vec<u8>> = HashSet::new();
        self.scan(keys.slot, b"HSCAN", keys.marks(), &mut |id, value| {
            let mark = MarkBytes::parse(value).ok_or_else(malformed)?;
            add_mark(&mut audit, &mut by_marks, state.limit.is_some(), &mark);
            if matches!(mark.letter, b'o' | b'c' | b'd') {
                open.insert(id.to_vec());
            }
            Ok(())
        })?;
        audit.open_marks = open.len() as u64;
        self.scan(keys.slot, b"ZSCAN", keys.times(), &mut |id, _| {
            if !open.remove(id) {
                audit.open_unlisted += 1;
            }
            Ok(())
        })?;
        audit.open_unlisted += open.len() as u64;
        self.scan(keys.slot, b"HSCAN", keys.buyers(), &mut |buyer, units| {
            if is_returned_field(buyer) {
                return Ok(());
            }
            let buyer = buyer_of(buyer).ok_or_else(malformed)?;
            let units = int(&Value::BulkString(units.to_vec())).ok_or_else(malformed)?;
            let expected = by_marks.remove(&buyer).unwrap_or(0);
            audit.buyers_counted = audit.buyers_counted.saturating_add_signed(units);
            audit.buyers_wrong += u64::from(u64::try_from(units) != Ok(expected));
            Ok(())
        })?;
        audit.buyers_wrong += by_marks.values().filter(|units| **units > 0).count() as u64;
        Ok(audit)
    }

    /// Walks over a hash or a sorted set; pairs may come twice while it is written.
    fn scan(&mut self, slot: u16, command: &[u8], key: &[u8], each: Each<'_>) -> Result<(), GateError> {
        let mut cursor = b"0".to_vec();
        loop {
            self.commands.clear();
            self.commands.plain(slot, &[command, key, &cursor, b"COUNT", SCAN_COUNT]);
            let value = self.router.exchange(&self.commands).remove(0)?;
            let Some([next, values]) = array(&value) else { return Err(malformed()) };
            for pair in array(values).ok_or_else(malformed)?.chunks_exact(2) {
                let (Some(field), Some(value)) = (bytes(&pair[0]), bytes(&pair[1])) else {
                    return Err(malformed());
                };
                each(field, value)?;
            }
            cursor = bytes(next).ok_or_else(malformed)?.to_vec();
            if cursor == b"0" {
                return Ok(());
            }
        }
    }
}

fn add_mark(
    audit: &mut GateAudit,
    by_marks: &mut HashMap<BuyerId, u64>,
    limited: bool,
    mark: &MarkBytes<'_>,
) {
    // A mark that says more than there can be is somebody's fault, and no reason to stop.
    let add = |sum: &mut u64| *sum = sum.saturating_add(mark.units());
    match mark.letter {
        b'o' | b'c' => add(&mut audit.open_units),
        b'd' => return add(&mut audit.open_units),
        b's' | b'x' | b'l' => add(&mut audit.taken_units),
        b'a' => return add(&mut audit.adjusted_units),
        _ => return,
    }
    if limited {
        add(&mut audit.buyers_by_marks);
        add(by_marks.entry(mark.buyer()).or_default());
    }
}
