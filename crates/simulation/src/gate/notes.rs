//! What a Redis does with orders, and with the units that it has to sell, as notes of a run.

use redis::Value;
use server::gate::redis::Script;

use super::{Parts, Redis};
use crate::record;

/// Those that may change something.
const WRITING: [Script; 7] = [
    Script::Reserve,
    Script::Settle,
    Script::Apply,
    Script::Claim,
    Script::Sale,
    Script::Fence,
    Script::Build,
];

/// What the scripts' codes mean.
const CODES: [&str; 22] = [
    "done",
    "there is no gate",
    "the gate is fenced",
    "the gate is of another run",
    "it is open already",
    "it is settled already",
    "its key has another body",
    "the sale has not started",
    "the sale is paused",
    "the sale has ended",
    "no such quantity",
    "over the limit",
    "sold out",
    "not enough left",
    "done already",
    "of an older epoch",
    "not yet",
    "the gate does not agree",
    "the gate is of another format",
    "the buyer has to wait",
    "a clock is wrong",
    "another limit is known",
];
/// Of those, what says that nothing could be done at all.
const CLOSED: [i64; 6] = [1, 2, 3, 16, 18, 20];
/// In the script that reserves, of each order: hash, body and record; in its answer a code.
const RESERVE_FIRST_ID: usize = 4;
const RESERVE_ARGS_EACH: usize = 3;
const RESERVE_FIRST_CODE: usize = 5;

/// The reply to a command that came this way, from a host to an address. Whoever takes notes hears what it did.
pub(super) fn answer(redis: &mut Redis, (host, address): &(String, String), parts: &Parts) -> Vec<u8> {
    let asked = if record::is_on() { Asked::of(parts) } else { None };
    let Some(asked) = asked else { return redis.answer(parts) };
    let orders = record::orders();
    let marks = |redis: &Redis| -> Vec<Option<u8>> {
        orders.iter().map(|order| asked.mark(redis, order.hash)).collect()
    };
    let (marks_before, stock_before) = (marks(redis), asked.stock(redis));
    let answer = redis.answer(parts);
    let (marks_after, stock_after) = (marks(redis), asked.stock(redis));
    let answer_read = redis::parse_redis_value(&answer).ok();
    let who = format!("{address}, {} of {host}", asked.name());
    for (order, (before, after)) in orders.iter().zip(marks_before.into_iter().zip(marks_after)) {
        if before != after || asked.is_about(order.hash) {
            let code = asked.code(answer_read.as_ref(), Some(order.hash));
            let in_vain = code.is_none_or(|code| CLOSED.contains(&code));
            let came_to = said(code, answer_read.as_ref());
            let (was, is) = (letter(before), letter(after));
            let mark =
                if was == is { format!("its mark: {is}") } else { format!("its mark: {was}, now {is}") };
            record::note(*order, in_vain, || format!("{who}: {came_to}; {mark}; {stock_after}"));
        }
    }
    if stock_before != stock_after {
        let about = asked.order().map_or(String::new(), |hash| format!(" (order {hash:x})"));
        let came_to = said(asked.code(answer_read.as_ref(), asked.order()), answer_read.as_ref());
        record::note_stock(|| format!("{who}{about}: {came_to}; {stock_before}, now {stock_after}"));
    }
    answer
}

/// A script that is run, with its keys and arguments.
struct Asked<'a> {
    script: Script,
    keys: &'a [Vec<u8>],
    args: &'a [Vec<u8>],
}

impl Asked<'_> {
    fn of(parts: &Parts) -> Option<Asked<'_>> {
        let [name, sha, count, rest @ ..] = parts.as_slice() else { return None };
        let script = WRITING.into_iter().find(|script| script.sha().as_bytes() == sha.as_slice())?;
        let count: usize = std::str::from_utf8(count).ok()?.parse().ok()?;
        let (keys, args) = rest.split_at_checked(count)?;
        (name.eq_ignore_ascii_case(b"EVALSHA") && keys.len() > 1).then_some(Asked { script, keys, args })
    }

    fn name(&self) -> String {
        let step = self.args.get(1).filter(|_| self.script == Script::Build);
        let step = step.map_or(String::new(), |step| format!(" ({})", String::from_utf8_lossy(step)));
        format!("{:?}{step}", self.script).to_lowercase()
    }

    /// The letter of an order's mark.
    fn mark(&self, redis: &Redis, hash: u128) -> Option<u8> {
        redis.field(&self.keys[1], &hash.to_be_bytes())?.first().copied()
    }

    /// What there is to sell, and whether it is sold.
    fn stock(&self, redis: &Redis) -> String {
        let text = |field: &[u8]| redis.field(&self.keys[0], field);
        let Some(gate) = text(b"gate") else { return "no gate".to_owned() };
        let left = text(b"avail").unwrap_or_default();
        let left = String::from_utf8_lossy(&left);
        let epoch = gate.get(42..50).and_then(|epoch| Some(u64::from_be_bytes(epoch.try_into().ok()?)));
        let state = match (gate.get(40), gate.get(41)) {
            (Some(b'O'), Some(b'l')) => "selling",
            (Some(b'O'), Some(b'p')) => "paused",
            (Some(b'O'), _) => "ended",
            (Some(b'B'), _) => "being built",
            _ => "fenced",
        };
        format!("{left} left, epoch {}, {state}", epoch.unwrap_or_default())
    }

    /// A settlement has a letter before each hash.
    fn is_about(&self, hash: u128) -> bool {
        let hash = hash.to_be_bytes();
        let is_it = |arg: &[u8]| arg == hash || arg.split_first().is_some_and(|(_, rest)| rest == hash);
        self.args.iter().any(|arg| is_it(arg))
    }

    /// The one order that it is about.
    fn order(&self) -> Option<u128> {
        let at = match self.script {
            Script::Reserve if self.args.len() == RESERVE_FIRST_ID + RESERVE_ARGS_EACH => RESERVE_FIRST_ID,
            Script::Claim => 2,
            Script::Apply => 3,
            _ => return None,
        };
        Some(u128::from_be_bytes(self.args.get(at)?.as_slice().try_into().ok()?))
    }

    /// The code of an answer: of several orders what it says of this one.
    fn code(&self, answer: Option<&Value>, order: Option<u128>) -> Option<i64> {
        let code = first(answer?)?;
        let (Script::Reserve, 0, Some(hash), Value::Array(values)) = (self.script, code, order, answer?)
        else {
            return Some(code);
        };
        let mut ids = self.args.iter().skip(RESERVE_FIRST_ID).step_by(RESERVE_ARGS_EACH);
        let at = ids.position(|id| id.as_slice() == hash.to_be_bytes())?;
        values.get(RESERVE_FIRST_CODE + at).and_then(first)
    }
}

/// A number, or the first of several.
fn first(value: &Value) -> Option<i64> {
    match value {
        Value::Int(code) => Some(*code),
        Value::Array(values) => values.first().and_then(first),
        _ => None,
    }
}

/// A code in words, or the answer that has none.
fn said(code: Option<i64>, answer: Option<&Value>) -> String {
    let known = code.and_then(|code| usize::try_from(code).ok()).and_then(|code| CODES.get(code));
    known.map_or_else(|| format!("{answer:?}"), |text| (*text).to_owned())
}

/// What a mark begins with, in words.
fn letter(mark: Option<u8>) -> &'static str {
    match mark {
        None => "none",
        Some(b'o') => "open",
        Some(b's') => "in the ledger",
        Some(b'r') => "given back",
        Some(b'x') => "rejected",
        Some(b'y') => "rejected and given back",
        Some(b'c') => "claimed for a late payment",
        Some(b'l') => "paid late",
        Some(_) => "another one",
    }
}
