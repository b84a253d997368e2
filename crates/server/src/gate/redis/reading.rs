//! What is only read: orders, states, open reservations.

use engine::handover::GateSale;
use engine::{OrderId, SkuId, UnixMs};
use redis::Value;

use super::reply::{ScriptReply, array, bytes, int, malformed};
use super::scripts::Script;
use super::{Gate, decimals, group, keys_of, spread};
use crate::gate::mark::MarkBytes;
use crate::gate::{
    Closed, Found, GATE_FORMAT, GateAnswer, GateError, GateState, OpenRecord, OpenRows, Seen, Why,
    hash_bytes, limits,
};

impl Gate {
    /// What the gate knows of these orders; `None`: nothing, and it would know of one that it reserved. One whose epoch is over is
    /// not believed: what is open there will not be an order.
    pub fn find(&mut self, ids: &[OrderId]) -> Vec<Result<Option<Found>, GateError>> {
        let groups = group(ids, (limits::SCRIPT_IDS_MAX, |_: &_| 1), |id| id.sku);
        let answers = self.each(
            &groups,
            |group| group.of,
            |_| None,
            |commands, keys, group| {
                let hashes: Vec<[u8; 16]> = group.members.iter().map(|at| hash_bytes(ids[*at])).collect();
                let args: Vec<&[u8]> = hashes.iter().map(<[u8; 16]>::as_slice).collect();
                commands.script(Script::Find, keys.slot, &keys.all(), &args);
            },
            |group, reply| {
                let marks = reply.rest.first().and_then(array).ok_or_else(malformed)?;
                let found = |(at, mark): (&usize, &Value)| match mark {
                    Value::Nil => Ok(None),
                    mark => found(ids[*at], mark).map(Some),
                };
                group.members.iter().zip(marks).map(found).collect()
            },
        );
        let answers = self.checked(answers, groups.iter().map(|group| group.of));
        let answers = answers.into_iter().map(|answer| answer.map(|answer| answer.what));
        spread(ids.len(), &groups, answers)
    }

    /// The states of these SKUs, closed ones included; `None`: there is none.
    pub fn states(&mut self, skus: &[SkuId]) -> Vec<Result<Option<GateState>, GateError>> {
        self.commands.clear();
        let mut slots = Vec::with_capacity(skus.len());
        for sku in skus {
            let keys = keys_of(&mut self.keys, &self.router, *sku);
            slots.push(keys.slot);
            self.commands.plain(keys.slot, &[b"HMGET", keys.state(), b"gate", b"seq", b"avail", b"version"]);
        }
        let outcomes = self.router.exchange(&self.commands).into_iter();
        let read = |(outcome, slot): (Result<Value, GateError>, u16)| {
            let value = outcome?;
            let fields = array(&value).ok_or_else(malformed)?;
            if fields.first() == Some(&Value::Nil) {
                return Ok(None);
            }
            // If the connection broke meanwhile, of which run this is can't be said.
            let run = self.router.run_of(slot).ok_or(GateError::NotExecuted(Why::ConnectionLost))?;
            state(fields, Some(run)).map(Some).ok_or_else(malformed)
        };
        outcomes.zip(slots).map(read).collect()
    }

    /// How many reservations and claims are open at each of these SKUs, whether its gate may be used or not.
    pub fn open_counts(&mut self, skus: &[SkuId]) -> Vec<Result<u64, GateError>> {
        self.commands.clear();
        for sku in skus {
            let keys = keys_of(&mut self.keys, &self.router, *sku);
            self.commands.plain(keys.slot, &[b"ZCARD", keys.times()]);
        }
        let count = |value: Value| int(&value).and_then(|count| u64::try_from(count).ok());
        let outcomes = self.router.exchange(&self.commands).into_iter();
        outcomes.map(|outcome| outcome.and_then(|value| count(value).ok_or_else(malformed))).collect()
    }

    /// What has been open for at least `age_ms`, oldest first, at most `max`. A fenced gate is read too.
    pub fn open_reservations(
        &mut self,
        sku: SkuId,
        age_ms: u64,
        max: usize,
    ) -> Result<Vec<OpenRecord>, GateError> {
        self.open_of_each(&[sku], age_ms, None, max).remove(0).map(|answer| answer.what)
    }

    /// The same of several SKUs, at most `max` of each. `now`: as of [`Gate::reserve`].
    pub fn open_of_each(
        &mut self,
        skus: &[SkuId],
        age_ms: u64,
        now: Option<UnixMs>,
        max: usize,
    ) -> Vec<Result<GateAnswer<Vec<OpenRecord>>, GateError>> {
        let whole = |answer: Result<GateAnswer<OpenRows>, GateError>| match answer? {
            GateAnswer { what: OpenRows { unreadable: 1.., .. }, .. } => Err(malformed()),
            GateAnswer { what, seen } => Ok(GateAnswer { what: what.records, seen }),
        };
        self.open_rows_of_each(skus, age_ms, now, max).into_iter().map(whole).collect()
    }

    /// All that is open at each of them, whatever its age, but for so many of the oldest; at most as many as one answer has.
    pub fn open_beyond(&mut self, passed: &[(SkuId, u64)]) -> Vec<Result<OpenRows, GateError>> {
        let wanted = passed.iter().map(|(sku, passed)| (*sku, [0, limits::OPEN_ROWS_MAX as u64, 0, *passed]));
        self.open(wanted).into_iter().map(|answer| answer.map(|answer| answer.what)).collect()
    }

    /// As [`Gate::open_of_each`], also where something can't be read.
    pub fn open_rows_of_each(
        &mut self,
        skus: &[SkuId],
        age_ms: u64,
        now: Option<UnixMs>,
        max: usize,
    ) -> Vec<Result<GateAnswer<OpenRows>, GateError>> {
        let max = max.min(limits::OPEN_ROWS_MAX) as u64;
        self.open(skus.iter().map(|sku| (*sku, [age_ms, max, now.map_or(0, |now| now.0), 0])))
    }

    fn open(
        &mut self,
        wanted: impl Iterator<Item = (SkuId, [u64; 4])> + Clone,
    ) -> Vec<Result<GateAnswer<OpenRows>, GateError>> {
        self.commands.clear();
        for (sku, args) in wanted.clone() {
            let mut digits = [[0; 20]; 4];
            let args = decimals(&mut digits, args);
            let keys = keys_of(&mut self.keys, &self.router, sku);
            self.commands.script(Script::Open, keys.slot, &keys.all(), &args);
        }
        let outcomes = self.router.exchange(&self.commands);
        wanted.zip(outcomes).map(|((sku, _), outcome)| open_rows(sku, outcome?)).collect()
    }
}

fn open_rows(sku: SkuId, value: Value) -> Result<GateAnswer<OpenRows>, GateError> {
    let reply = ScriptReply::read(value)?;
    let [ids, marks] = reply.rest.as_slice() else { return Err(malformed()) };
    let (Some(ids), Some(marks)) = (array(ids), array(marks)) else { return Err(malformed()) };
    let record = |(id, mark)| {
        let mark = bytes(mark).and_then(MarkBytes::parse)?;
        match mark.found(sku, bytes(id)?) {
            Some(Found::Open(record)) => Some(record),
            _ => None,
        }
    };
    let records: Vec<_> = ids.iter().zip(marks).filter_map(record).collect();
    let unreadable = ids.len() - records.len();
    Ok(GateAnswer { seen: reply.seen, what: OpenRows { records, unreadable } })
}

fn found(id: OrderId, mark: &Value) -> Result<Found, GateError> {
    let mark = bytes(mark).and_then(MarkBytes::parse);
    mark.and_then(|mark| mark.found(id.sku, &hash_bytes(id))).ok_or_else(malformed)
}

/// Of a state's field `gate`: where the numbers begin. The layout stands in lua/prelude.lua.
const RUN_BYTES: usize = 40;
/// Up to the format, which format 1 did not have yet.
const GATE_BYTES: usize = RUN_BYTES + 2 + 3 * 8 + 4;

fn state(fields: &[Value], run: Option<&str>) -> Option<GateState> {
    let [gate, seq, available, version] = fields else { return None };
    let (gate, rest) = bytes(gate)?.split_first_chunk::<GATE_BYTES>()?;
    let format = rest.first().copied().unwrap_or(1);
    let u64_at = |at: usize| u64::from_be_bytes(gate[at..at + 8].try_into().expect("eight bytes"));
    let limit = u32::from_be_bytes(gate[GATE_BYTES - 4..].try_into().expect("four bytes"));
    let closed = if format != GATE_FORMAT {
        Some(Closed::of_format(format.into()))
    } else if gate[RUN_BYTES] != b'O' {
        Some(Closed::Fenced)
    } else if run.is_some_and(|run| run.as_bytes() == &gate[..RUN_BYTES]) {
        None
    } else {
        Some(Closed::OtherRun)
    };
    Some(GateState {
        seen: Seen { epoch: u64_at(42), seq: u64::try_from(int(seq)?).ok()?, available: int(available)? },
        sale: GateSale {
            version: u64::try_from(int(version)?).ok()?,
            starts_at: UnixMs(u64_at(50)),
            ends_at: UnixMs(u64_at(58)),
            paused: gate[RUN_BYTES + 1] == b'p',
            ended: gate[RUN_BYTES + 1] == b'e',
        },
        limit: (limit > 0).then_some(limit),
        closed,
    })
}
