//! What servers make known to each other: of their figures, a hash in Redis with a field for each run of a server; and of who tries
//! most, which is asked for: a hash of questions, and one of answers for each item that is asked about.
//!
//! Nothing is decided by it. Losing it does no harm: each server says its own again within a second.

use engine::SkuId;
use redis::Value;

use super::Gate;
use super::commands::slot_of;
use super::reply::{array, bytes, malformed};
use crate::gate::{GateError, limits};

/// A field of a hash, and its value.
pub type Field = (String, Vec<u8>);

/// What one server says of who tries most, and what it wants to know.
#[derive(Debug, Default)]
pub struct AttemptsSaid<'a> {
    /// This server's.
    pub run: &'a str,
    pub questions: Vec<Field>,
    /// By item.
    pub answers: &'a [(SkuId, Vec<u8>)],
    /// Questions that are taken away.
    pub settled: &'a [String],
    /// Whose answers are read.
    pub wanted: &'a [SkuId],
}

/// What all have said.
#[derive(Debug, Default)]
pub struct AttemptsHeard {
    pub questions: Vec<Field>,
    /// By run, for each item in the order of [`AttemptsSaid::wanted`].
    pub answers: Vec<Vec<Field>>,
}

impl Gate {
    /// Says what is new of this server, forgets the runs that are named, and reads what all have said: run and figures.
    ///
    /// # Errors
    /// If Redis did not carry out all of it, or nobody knows whether it did.
    pub fn exchange_figures(
        &mut self,
        ours: Option<(&str, &[u8])>,
        forgotten: &[String],
    ) -> Result<Vec<Field>, GateError> {
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
        fields(&last.expect("all are read"))
    }

    /// Asks, answers, and reads what others ask and have answered. What names buyers stays for a minute at most.
    ///
    /// # Errors
    /// If Redis did not carry out all of it, or nobody knows whether it did.
    pub fn exchange_attempts(&mut self, said: &AttemptsSaid<'_>) -> Result<AttemptsHeard, GateError> {
        let questions = format!("{}:attempts", self.router.config().key_prefix);
        let kept_ms = limits::ATTEMPTS_KEPT.as_millis().to_string();
        let answers = |sku: SkuId| format!("{questions}:{}", sku.0);
        let (key, slot) = (questions.as_bytes(), slot_of(questions.as_bytes()));
        self.commands.clear();
        for (question, asked) in &said.questions {
            self.commands.plain(slot, &[b"HSET", key, question.as_bytes(), asked]);
        }
        for question in said.settled {
            self.commands.plain(slot, &[b"HDEL", key, question.as_bytes()]);
        }
        if !said.questions.is_empty() {
            self.commands.plain(slot, &[b"PEXPIRE", key, kept_ms.as_bytes()]);
        }
        for (sku, answer) in said.answers {
            let key = answers(*sku).into_bytes();
            let slot = slot_of(&key);
            self.commands.plain(slot, &[b"HSET", &key, said.run.as_bytes(), answer]);
            self.commands.plain(slot, &[b"PEXPIRE", &key, kept_ms.as_bytes()]);
        }
        for sku in said.wanted {
            let key = answers(*sku).into_bytes();
            self.commands.plain(slot_of(&key), &[b"HGETALL", &key]);
        }
        self.commands.plain(slot, &[b"HGETALL", key]);
        let outcomes: Vec<_> = self.router.exchange(&self.commands).into_iter().collect::<Result<_, _>>()?;
        let [.., questions] = &*outcomes else { return Err(malformed()) };
        let answers = &outcomes[outcomes.len() - 1 - said.wanted.len()..outcomes.len() - 1];
        Ok(AttemptsHeard {
            questions: fields(questions)?,
            answers: answers.iter().map(fields).collect::<Result<_, _>>()?,
        })
    }
}

/// Of an `HGETALL`.
fn fields(answer: &Value) -> Result<Vec<Field>, GateError> {
    let read = |pair: &[_]| {
        let [field, value] = pair else { return None };
        Some((String::from_utf8(bytes(field)?.to_vec()).ok()?, bytes(value)?.to_vec()))
    };
    array(answer).ok_or_else(malformed)?.chunks(2).map(|pair| read(pair).ok_or_else(malformed)).collect()
}
