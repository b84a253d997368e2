//! The gate on Redis: one server, or a Cluster whose masters each have some of the SKUs.
//!
//! Every call takes many requests and sends them as pipelined batches, and every request has an outcome of its own.
//! The work is done by scripts (lua/), one atomic step each, whose keys are all of one SKU. Nothing here retries what
//! may have been carried out. What begins, ends and lasts is decided by Redis' clock; ours is compared with it.

mod audit;
mod build;
mod cluster;
mod commands;
mod connection;
mod figures;
mod flight;
#[cfg(fuzzing)]
pub mod fuzzing;
mod health;
mod link;
mod memory;
mod plain;
mod reading;
mod removal;
mod reply;
mod router;
mod scripts;
mod sentinel;
mod times;
mod wanted;

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;

use engine::handover::{Change, Claim, GateSale, OutboxRow, Settle, Verdict};
use engine::{OrderId, ProductId, Refusal, SkuId, UnixMs};
use foldhash::fast::RandomState;
use redis::Value;

use self::commands::{Commands, Keys, decimal, product_key, slot_of};
use self::memory::Memory;
use self::reply::{ScriptReply, code, int, malformed};
use self::router::Router;
use super::mark::{MarkBytes, adjustment_body, placement_body};
use super::{
    Applied, BySku, ClaimRequest, Claimed, Found, GateAnswer, GateConfig, GateError, OpenRecord, Reserve,
    Reserved, SaleSet, Settled, Why, hash_bytes, limits,
};

pub use figures::{AttemptsHeard, AttemptsSaid, Field};
pub use link::{Dial, Link};
pub use scripts::Script;
pub use times::TimeRead;

/// A client of the gate. Blocks; one per thread.
#[derive(Debug)]
pub struct Gate {
    router: Router,
    /// Reused for every call.
    commands: Commands,
    keys: BySku<Keys>,
    memory: Memory,
}

impl Gate {
    /// Connects with the first request: a Redis that is away is an outcome of that.
    pub fn new(config: GateConfig) -> Gate {
        let memory = Memory::new(Arc::clone(&config.epochs));
        Gate { router: Router::new(config), commands: Commands::default(), keys: BySku::default(), memory }
    }

    /// Takes units for each request that may have them.
    ///
    /// `now`: what the time is; a Redis whose clock says another one is closed. `None`: its clock is taken as it is.
    pub fn reserve(
        &mut self,
        requests: &[Reserve<'_>],
        now: Option<UnixMs>,
    ) -> Vec<Result<GateAnswer<Reserved>, GateError>> {
        self.take(requests, now, false)
    }

    /// The same for orders that a gate before this one had taken: whatever the sale and its limit are now, they are judged by units
    /// and this gate's limit alone, and by `now` as above.
    pub fn reserve_again(
        &mut self,
        requests: &[Reserve<'_>],
        now: Option<UnixMs>,
    ) -> Vec<Result<GateAnswer<Reserved>, GateError>> {
        self.take(requests, now, true)
    }

    fn take(
        &mut self,
        requests: &[Reserve<'_>],
        now: Option<UnixMs>,
        again: bool,
    ) -> Vec<Result<GateAnswer<Reserved>, GateError>> {
        let mut digits = [0; 20];
        let now = decimal(&mut digits, now.map_or(0, |now| now.0));
        let again: &[u8] = if again { b"1" } else { b"0" };
        let too_long = |request: &Reserve<'_>| request.record.len() > limits::RECORD_BYTES_MAX;
        let weight = |request: &Reserve<'_>| 1 + request.record.len() / limits::ORDER_BYTES;
        let kind = |request: &Reserve<'_>| (request.placement.id.sku, request.limit, too_long(request));
        let groups = group(requests, (limits::SCRIPT_ORDERS_MAX, weight), kind);
        let answers = self.each(
            &groups,
            |group| group.of.0,
            |group| group.of.2.then_some("the record is too long"),
            |commands, keys, group| {
                let mut digits = [0; 20];
                let limit = decimal(&mut digits, group.of.1.map_or(0, u64::from));
                let orders = group.members.iter().map(|at| &requests[*at]);
                let said: Vec<_> = orders
                    .map(|order| {
                        (hash_bytes(order.placement.id), placement_body(&order.placement), order.record)
                    })
                    .collect();
                let mut args = Vec::with_capacity(3 + 3 * said.len());
                args.extend([now, limit, again]);
                said.iter().for_each(|(id, body, record)| args.extend([&id[..], body, record]));
                commands.script(Script::Reserve, keys.slot, &keys.all(), &args);
                commands.weigh(group.members.len());
            },
            |group, reply| reserved(group.members.iter().map(|at| requests[*at].placement.id), reply),
        );
        let answers = self.checked(answers, groups.iter().map(|group| group.of.0));
        let of_each = |GateAnswer { seen, what }: GateAnswer<Vec<Result<Reserved, GateError>>>| {
            what.into_iter().map(|what| what.map(|what| GateAnswer { seen, what })).collect()
        };
        let answers = answers.into_iter().map(|answer| answer.map(of_each));
        spread(requests.len(), &groups, answers).into_iter().map(Result::flatten).collect()
    }

    /// Reports to the gate what the ledger decided.
    pub fn settle(&mut self, settles: &[Settle]) -> Vec<Result<Settled, GateError>> {
        let groups =
            group(settles, (limits::SCRIPT_IDS_MAX, |_: &_| 1), |settle| (settle.id.sku, settle.epoch));
        let answers = self.each(
            &groups,
            |group| group.of.0,
            |_| None,
            |commands, keys, group| {
                let values: Vec<[u8; 17]> = group
                    .members
                    .iter()
                    .map(|at| {
                        let mut value = [verdict_letter(settles[*at].verdict); 17];
                        value[1..].copy_from_slice(&hash_bytes(settles[*at].id));
                        value
                    })
                    .collect();
                let mut epoch = [0; 20];
                let mut args: Vec<&[u8]> = vec![decimal(&mut epoch, group.of.1)];
                args.extend(values.iter().map(<[u8; 17]>::as_slice));
                commands.script(Script::Settle, keys.slot, &keys.all(), &args);
            },
            |group, reply| match reply.code {
                code::OLD | code::NOT_YET => Ok(vec![Settled::NotHere; group.members.len()]),
                code::DONE => reply.bytes()?.iter().map(|letter| settled(*letter)).collect(),
                _ => Err(malformed()),
            },
        );
        let answers = answers.into_iter().map(|answer| answer.map(|answer| answer.what));
        spread(settles.len(), &groups, answers)
    }

    /// Applies rows of the ledger's outbox, each once, in the order given.
    pub fn apply(&mut self, rows: &[OutboxRow]) -> Vec<Result<GateAnswer<Applied>, GateError>> {
        let first_wait_ms = self.router.config().cool_down.first_ms.into();
        self.each(
            rows,
            |row| row.sku,
            |row| (row.epoch > limits::NUMBER_MAX).then_some("the epoch is too large"),
            |commands, keys, row| {
                let (kind, body) = match &row.change {
                    Change::Release(placement) => (b"r", placement_body(placement)),
                    Change::Take(placement) => (b"t", placement_body(placement)),
                    Change::TakeLate(placement) => (b"l", placement_body(placement)),
                    Change::Restock { units } => (b"s", adjustment_body(*units)),
                    Change::Correct { units, .. } => (b"d", adjustment_body(*units)),
                };
                let (mut epoch, mut wait) = ([0; 20], [0; 20]);
                let id = hash_bytes(row.mark_id());
                let wait = decimal(&mut wait, first_wait_ms);
                let args: [&[u8]; 5] = [decimal(&mut epoch, row.epoch), kind, &id, &body, wait];
                commands.script(Script::Apply, keys.slot, &keys.all(), &args);
            },
            |_, reply| match reply.code {
                code::DONE => Ok(Applied::Done),
                code::ALREADY => Ok(Applied::Already),
                code::OLD => Ok(Applied::Old),
                code::NOT_YET => Ok(Applied::NotYet),
                code::DRIFT => Ok(Applied::Drift),
                _ => Err(malformed()),
            },
        )
    }

    /// Takes units for something that the ledger will decide.
    pub fn claim(&mut self, requests: &[ClaimRequest<'_>]) -> Vec<Result<GateAnswer<Claimed>, GateError>> {
        let answers = self.each(
            requests,
            |request| request.claim.id().sku,
            |request| (request.record.len() > limits::RECORD_BYTES_MAX).then_some("the record is too long"),
            |commands, keys, request| {
                let (kind, body) = match &request.claim {
                    Claim::LatePayment(placement) => (b"c", placement_body(placement)),
                    Claim::Correction { units, .. } => (b"d", adjustment_body(*units)),
                };
                let id = hash_bytes(request.claim.id());
                let args: [&[u8]; 4] = [kind, &id, &body, request.record];
                commands.script(Script::Claim, keys.slot, &keys.all(), &args);
            },
            |request, reply| {
                let id = request.claim.id();
                claimed(id.sku, &hash_bytes(id), reply)
            },
        );
        self.checked(answers, requests.iter().map(|request| request.claim.id().sku))
    }

    /// Answers that promise units, but for those of a gate whose epoch is over.
    fn checked<T>(
        &mut self,
        mut answers: Vec<Result<GateAnswer<T>, GateError>>,
        skus: impl Iterator<Item = SkuId>,
    ) -> Vec<Result<GateAnswer<T>, GateError>> {
        for (answer, sku) in answers.iter_mut().zip(skus) {
            let Ok(GateAnswer { seen, .. }) = *answer else { continue };
            if let Err(error) = self.memory.check_promise(sku, seen) {
                *answer = Err(error);
            }
        }
        self.fence_suspects();
        answers
    }

    /// Gives SKUs what their sale's window and phase are now, and their limits.
    pub fn set_sale(
        &mut self,
        skus: &[(SkuId, GateSale, Option<u32>)],
    ) -> Vec<Result<GateAnswer<SaleSet>, GateError>> {
        self.each(
            skus,
            |(sku, ..)| *sku,
            |(_, sale, _)| (sale.version > limits::NUMBER_MAX).then_some("the version is too large"),
            |commands, keys, (_, sale, limit)| {
                let limit = limit.map_or(0, u64::from);
                let numbers = [sale.version, sale.starts_at.0, sale.ends_at.0, limit];
                let mut digits = [[0; 20]; 4];
                let [version, starts, ends, limit] = decimals(&mut digits, numbers);
                let args: [&[u8]; 5] = [version, starts, ends, &[phase_letter(sale)], limit];
                commands.script(Script::Sale, keys.slot, &keys.all(), &args);
            },
            |_, reply| match reply.code {
                code::DONE => Ok(SaleSet::Done),
                code::OLD => Ok(SaleSet::Old),
                _ => Err(malformed()),
            },
        )
    }

    /// Closes the gates of these SKUs until they are rebuilt under a later epoch than this. A gate that is lost, closed
    /// or of a later epoch already is as it should be.
    pub fn fence(&mut self, skus: &[(SkuId, u64)]) -> Vec<Result<(), GateError>> {
        let outcomes = self.fence_now(skus, &[]);
        self.memory.fenced(skus, &outcomes);
        outcomes
    }

    /// As [`Gate::fence`], whatever their epochs are, for a ledger that may have lost what they know of their sales: they begin
    /// anew with what it has.
    pub fn fence_anew(&mut self, skus: &[SkuId]) -> Vec<Result<(), GateError>> {
        let skus: Vec<_> = skus.iter().map(|sku| (*sku, limits::NUMBER_MAX)).collect();
        let outcomes = self.fence_now(&skus, &[b"anew"]);
        self.memory.fenced(&skus, &outcomes);
        outcomes
    }

    /// Notes for the edge which SKU sells each product. The newest wins.
    pub fn publish_products(&mut self, products: &[(ProductId, SkuId)]) -> Vec<Result<(), GateError>> {
        self.commands.clear();
        for (product, sku) in products {
            let key = product_key(&self.router.config().key_prefix, *product);
            let value = format!("{:08x}", sku.0);
            self.commands.script(Script::Product, slot_of(&key), &[&key], &[value.as_bytes()]);
        }
        let outcomes = self.router.exchange(&self.commands).into_iter();
        outcomes.map(|outcome| outcome.and_then(ScriptReply::read).map(drop)).collect()
    }

    /// Whether it would be known that another master was made: by one of the Sentinels, if there are any.
    pub fn hears_of_the_master(&mut self) -> bool {
        self.router.hears_of_the_master()
    }

    /// SKUs that were seen to run backwards since the last call: they must be rebuilt.
    pub fn take_suspects(&mut self) -> Vec<SkuId> {
        self.memory.take_suspects()
    }

    fn fence_now(&mut self, skus: &[(SkuId, u64)], how: &[&[u8]]) -> Vec<Result<(), GateError>> {
        self.commands.clear();
        for (sku, epoch) in skus {
            let keys = keys_of(&mut self.keys, &self.router, *sku);
            let mut digits = [0; 20];
            let arguments = [&[decimal(&mut digits, *epoch)], how].concat();
            self.commands.script(Script::Fence, keys.slot, &keys.all(), &arguments);
        }
        let outcomes = self.router.exchange(&self.commands).into_iter();
        let read = |((sku, _), outcome): (&(SkuId, u64), Result<Value, GateError>)| {
            match outcome.and_then(ScriptReply::read) {
                // A later one than was known here: what is built next comes after it.
                Ok(reply) if reply.code == code::OLD => {
                    self.router.config().epochs.hear([(*sku, reply.seen.epoch)]);
                    Ok(())
                }
                Ok(_) | Err(GateError::Closed(_)) => Ok(()),
                Err(error) => Err(error),
            }
        };
        skus.iter().zip(outcomes).map(read).collect()
    }

    /// One script for each request, or group of them: checks it, packs it, reads its answer, and compares what the answer was computed from
    /// with what was seen before.
    fn each<R, T>(
        &mut self,
        requests: &[R],
        sku_of: impl Fn(&R) -> SkuId,
        invalid: impl Fn(&R) -> Option<&'static str>,
        pack: impl Fn(&mut Commands, &Keys, &R),
        read: impl Fn(&R, &ScriptReply) -> Result<T, GateError>,
    ) -> Vec<Result<GateAnswer<T>, GateError>> {
        self.fence_suspects();
        let mut refused: Vec<Option<GateError>> = Vec::with_capacity(requests.len());
        self.commands.clear();
        for request in requests {
            let sku = sku_of(request);
            let why = match invalid(request) {
                Some(why) => Some(GateError::NotExecuted(Why::Invalid(why))),
                None => self.memory.refusal(sku),
            };
            if why.is_none() {
                pack(&mut self.commands, keys_of(&mut self.keys, &self.router, sku), request);
            }
            refused.push(why);
        }
        let mut outcomes = self.router.exchange(&self.commands).into_iter();
        let mut answers = Vec::with_capacity(requests.len());
        for (request, refused) in requests.iter().zip(refused) {
            answers.push(match refused {
                Some(error) => Err(error),
                None => {
                    let outcome = outcomes.next().expect("an outcome for every command");
                    outcome.and_then(ScriptReply::read).and_then(|reply| {
                        self.memory.compare(sku_of(request), reply.seen)?;
                        Ok(GateAnswer { seen: reply.seen, what: read(request, &reply)? })
                    })
                }
            });
        }
        self.fence_suspects();
        answers
    }

    /// What ran backwards is closed in Redis too, so that nobody else sells from it.
    fn fence_suspects(&mut self) {
        let open = self.memory.to_fence();
        if !open.is_empty() {
            let outcomes = self.fence_now(&open, &[]);
            self.memory.fenced(&open, &outcomes);
        }
    }
}

fn keys_of<'a>(keys: &'a mut BySku<Keys>, router: &Router, sku: SkuId) -> &'a Keys {
    // Anybody may ask for an order of a SKU that there is not.
    if keys.len() >= limits::KEYS_KEPT_MAX && !keys.contains_key(&sku) {
        keys.clear();
    }
    match keys.entry(sku) {
        Entry::Occupied(entry) => entry.into_mut(),
        Entry::Vacant(entry) => entry.insert(Keys::of(&router.config().key_prefix, sku)),
    }
}

/// Requests that one call of a script takes together.
struct Group<K> {
    of: K,
    /// Positions of the requests, in order.
    members: Vec<usize>,
}

/// Those of one kind together, in their order, and no more than weigh so much.
fn group<R, K: Copy + Eq + std::hash::Hash>(
    requests: &[R],
    (at_most, weight): (usize, impl Fn(&R) -> usize),
    of: impl Fn(&R) -> K,
) -> Vec<Group<K>> {
    let mut groups: Vec<Group<K>> = Vec::new();
    // The newest of each kind, and what it weighs.
    let mut newest: HashMap<K, (usize, usize), RandomState> = HashMap::default();
    for (at, request) in requests.iter().enumerate() {
        let (key, more) = (of(request), weight(request));
        match newest.get_mut(&key) {
            Some((group, weight)) if *weight + more <= at_most => {
                groups[*group].members.push(at);
                *weight += more;
            }
            _ => {
                newest.insert(key, (groups.len(), more));
                groups.push(Group { of: key, members: vec![at] });
            }
        }
    }
    groups
}

/// Gives each member its part of its group's answer.
fn spread<K, T>(
    len: usize,
    groups: &[Group<K>],
    answers: impl Iterator<Item = Result<Vec<T>, GateError>>,
) -> Vec<Result<T, GateError>> {
    let mut outcomes: Vec<Option<Result<T, GateError>>> = (0..len).map(|_| None).collect();
    for (group, answer) in groups.iter().zip(answers) {
        match answer {
            Ok(parts) if parts.len() == group.members.len() => {
                group.members.iter().zip(parts).for_each(|(at, part)| outcomes[*at] = Some(Ok(part)));
            }
            Ok(_) => {}
            Err(error) => group.members.iter().for_each(|at| outcomes[*at] = Some(Err(error.clone()))),
        }
    }
    outcomes.into_iter().map(|outcome| outcome.unwrap_or_else(|| Err(malformed()))).collect()
}

fn decimals<const N: usize>(digits: &mut [[u8; 20]; N], numbers: [u64; N]) -> [&[u8]; N] {
    let mut numbers = numbers.into_iter();
    digits.each_mut().map(|digits| {
        // Later than what is exact in Lua is never, and so is that.
        decimal(digits, numbers.next().expect("as many numbers as digits").min(limits::NUMBER_MAX))
    })
}

fn phase_letter(sale: &GateSale) -> u8 {
    match (sale.ended, sale.paused) {
        (true, _) => b'e',
        (false, true) => b'p',
        (false, false) => b'l',
    }
}

fn verdict_letter(verdict: Verdict) -> u8 {
    match verdict {
        Verdict::Placed => b'p',
        Verdict::RejectedKept => b'x',
        Verdict::ClaimKept => b'k',
        Verdict::ClaimUndone => b'u',
    }
}

fn settled(letter: u8) -> Result<Settled, GateError> {
    match letter {
        b'y' => Ok(Settled::Done),
        b'n' => Ok(Settled::Already),
        b'?' => Ok(Settled::NotHere),
        _ => Err(malformed()),
    }
}

/// The open record in the answer of a script that found one.
fn open_record(sku: SkuId, hash: &[u8], reply: &ScriptReply) -> Result<OpenRecord, GateError> {
    match MarkBytes::parse(reply.bytes()?).and_then(|mark| mark.found(sku, hash)) {
        Some(Found::Open(record)) => Ok(record),
        _ => Err(malformed()),
    }
}

/// Of each of these orders, what the script says after its time.
fn reserved(
    ids: impl ExactSizeIterator<Item = OrderId>,
    reply: &ScriptReply,
) -> Result<Vec<Result<Reserved, GateError>>, GateError> {
    let [at, codes @ ..] = &reply.rest[..] else { return Err(malformed()) };
    if reply.code != code::DONE || codes.len() != ids.len() {
        return Err(malformed());
    }
    let at = int(at).and_then(|at| u64::try_from(at).ok()).ok_or_else(malformed)?;
    Ok(ids
        .zip(codes)
        .map(|(id, said)| match said {
            Value::Int(code::DONE) => Ok(Reserved::Taken { at: UnixMs(at) }),
            said => not_taken(id, &reply.part(said)?),
        })
        .collect())
}

fn not_taken(id: OrderId, reply: &ScriptReply) -> Result<Reserved, GateError> {
    Ok(match reply.code {
        code::OPEN => Reserved::Open(open_record(id.sku, &hash_bytes(id), reply)?),
        code::SETTLED => Reserved::Settled,
        code::COOLING_DOWN => Reserved::Refused(Refusal::CoolingDown { retry_after_ms: reply.number()? }),
        other => Reserved::Refused(refusal(other).ok_or_else(malformed)?),
    })
}

fn claimed(sku: SkuId, hash: &[u8], reply: &ScriptReply) -> Result<Claimed, GateError> {
    Ok(match reply.code {
        code::DONE => Claimed::Taken { at: UnixMs(reply.number()?) },
        code::OPEN => Claimed::Open(open_record(sku, hash, reply)?),
        code::SETTLED => Claimed::Settled,
        code::NOT_YET => Claimed::NotYet,
        code::DRIFT => Claimed::Drift,
        other => Claimed::Refused(refusal(other).ok_or_else(malformed)?),
    })
}

fn refusal(code: i64) -> Option<Refusal> {
    Some(match code {
        code::CONFLICT => Refusal::KeyConflict,
        code::NOT_STARTED => Refusal::NotStarted,
        code::PAUSED => Refusal::Paused,
        code::ENDED => Refusal::Ended,
        code::INVALID_QUANTITY => Refusal::InvalidQuantity,
        code::OVER_LIMIT => Refusal::OverLimit,
        code::SOLD_OUT => Refusal::SoldOut,
        code::NOT_ENOUGH => Refusal::NotEnoughLeft,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn the_keys_of_any_number_of_skus_take_bounded_memory() {
        let config = GateConfig::plain(vec!["nowhere:1".to_owned()], "db", Duration::from_secs(1));
        let (router, mut keys) = (Router::new(config), BySku::default());
        let asked = u32::try_from(limits::KEYS_KEPT_MAX).unwrap() + 10;
        for sku in (0..asked).map(SkuId) {
            assert_eq!(keys_of(&mut keys, &router, sku).all(), Keys::of("db", sku).all());
        }
        assert!(keys.len() <= limits::KEYS_KEPT_MAX, "{}", keys.len());
    }
}
