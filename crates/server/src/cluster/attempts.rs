//! Who tries most, asked of the other servers by way of the gate's Redis while somebody looks, and answered while somebody asks.
//!
//! A question is an item with a mark of who asks and when, so that whoever sees another mark answers again; an erased buyer is one
//! that needs no answer. Nothing is carried while nobody asks. Must not: be waited for by anybody.

use std::collections::HashMap;
use std::time::Duration;

use engine::{BuyerId, SkuId};

use crate::cluster::Core;
use crate::gate::redis::{AttemptsSaid, Field};
use crate::gate::{Gate, GateError};
use crate::intake::ServerReport;
use crate::time::Instant;

/// Between two questions about the same item.
const ASK_EVERY: Duration = Duration::from_secs(1);
/// Questions answered in one round; the others wait for the next.
const ANSWERED_AT_ONCE: usize = 8;
/// Of all servers; when there are more, all are taken away, and those that matter asked again.
const QUESTIONS_MAX: usize = 1_000;
/// Whoever said something so lately is there.
const LIVES: Duration = Duration::from_secs(4);
/// Before a buyer who is erased.
const FORGET: &str = "forget.";

#[derive(Default)]
pub(super) struct Attempts {
    run: String,
    number: u64,
    asked_at: Option<Instant>,
    /// The mark that each question had when it was answered.
    seen: HashMap<String, String>,
    answers: Vec<(SkuId, Vec<u8>)>,
    /// Not carried yet.
    forgotten: Vec<BuyerId>,
    settled: Vec<String>,
}

impl Attempts {
    pub(super) fn of(core: &Core, run: &str) -> Attempts {
        core.attempts.carry();
        Attempts { run: run.to_owned(), ..Attempts::default() }
    }

    pub(super) fn exchange(&mut self, core: &Core, gate: &mut Gate) -> Result<(), GateError> {
        let wanted = core.attempts.wanted();
        self.forgotten.extend(core.attempts.forgotten());
        let said = AttemptsSaid {
            questions: self.questions(&wanted, Instant::now()),
            run: &self.run,
            answers: &self.answers,
            settled: &self.settled,
            wanted: &wanted,
        };
        let heard = gate.exchange_attempts(&said)?;
        self.forgotten.clear();
        self.settled = settled(&heard.questions);
        let asked = self.new_questions(heard.questions);
        self.answers = asked.iter().filter_map(|(question, mark)| answer(core, question, mark)).collect();
        let living = |other: &&ServerReport| other.lives && other.at.elapsed() <= LIVES;
        let others = core.servers.others().iter().filter(living).count();
        for (sku, mut reports) in wanted.into_iter().zip(heard.answers) {
            reports.retain(|(run, _)| *run != self.run);
            core.attempts.hear(sku, reports, others);
        }
        Ok(())
    }

    fn questions(&mut self, wanted: &[SkuId], now: Instant) -> Vec<Field> {
        let due = self.asked_at.is_none_or(|at| now.duration_since(at) >= ASK_EVERY);
        let asked = if due { wanted } else { &[] };
        if asked.is_empty() && self.forgotten.is_empty() {
            return Vec::new();
        }
        if !asked.is_empty() {
            self.asked_at = Some(now);
        }
        self.number += 1;
        let mark = format!("{}.{}", self.run, self.number);
        let of_items = asked.iter().map(|sku| sku.0.to_string());
        let of_erased = self.forgotten.iter().map(|buyer| format!("{FORGET}{}", buyer.0));
        of_items.chain(of_erased).map(|question| (question, mark.clone().into_bytes())).collect()
    }

    /// Those of others whose mark is another than when it was answered.
    fn new_questions(&mut self, questions: Vec<Field>) -> Vec<(String, String)> {
        let mut before = std::mem::take(&mut self.seen);
        let mut asked = Vec::new();
        for (question, mark) in questions {
            let Ok(mark) = String::from_utf8(mark) else { continue };
            let ours = mark.strip_prefix(self.run.as_str()).is_some_and(|rest| rest.starts_with('.'));
            if !ours && before.remove(&question).as_ref() != Some(&mark) {
                if asked.len() >= ANSWERED_AT_ONCE && !question.starts_with(FORGET) {
                    continue;
                }
                asked.push((question.clone(), mark.clone()));
            }
            self.seen.insert(question, mark);
        }
        asked
    }
}

/// More than all servers can have asked is what a fault or another program left.
fn settled(questions: &[Field]) -> Vec<String> {
    match questions.len() > QUESTIONS_MAX {
        true => questions.iter().map(|(question, _)| question.clone()).collect(),
        false => Vec::new(),
    }
}

/// What this server counted of the item that is asked about. `None`: there is nothing to answer.
fn answer(core: &Core, question: &str, mark: &str) -> Option<(SkuId, Vec<u8>)> {
    if let Some(buyer) = question.strip_prefix(FORGET) {
        core.attempts.forget_here(BuyerId(buyer.parse().ok()?));
        return None;
    }
    let sku = SkuId(question.parse().ok()?);
    let catalog = core.shelf.current();
    let sale = catalog.skus.get(sku.0 as usize).map(|found| catalog.sales[found.sale].spec.id)?;
    Some((sku, core.attempts.report(sale, sku, core.clock.now(), mark)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attempts(run: &str) -> Attempts {
        Attempts { run: run.to_owned(), ..Attempts::default() }
    }

    #[test]
    fn an_item_is_asked_about_once_a_second_and_an_erased_buyer_at_once() {
        let (mut here, begun) = (attempts("a"), Instant::now());
        let field = |question: &str, mark: &str| (question.to_owned(), mark.as_bytes().to_vec());
        assert!(here.questions(&[], begun).is_empty());
        let wanted = [SkuId(7)];
        assert_eq!(here.questions(&wanted, begun), [field("7", "a.1")]);
        assert!(here.questions(&wanted, begun + ASK_EVERY / 2).is_empty());
        here.forgotten.push(BuyerId(5));
        assert_eq!(here.questions(&wanted, begun + ASK_EVERY / 2), [field("forget.5", "a.2")]);
        here.forgotten.clear();
        assert_eq!(here.questions(&wanted, begun + ASK_EVERY), [field("7", "a.3")]);
    }

    #[test]
    fn another_ones_question_is_answered_once_for_each_mark() {
        let mut here = attempts("a");
        let mut heard = |rows: &[(&str, &str)]| {
            let rows = rows.iter().map(|(question, mark)| ((*question).to_owned(), mark.as_bytes().to_vec()));
            let asked = here.new_questions(rows.collect());
            asked.into_iter().map(|(question, _)| question).collect::<Vec<_>>()
        };
        assert_eq!(heard(&[("7", "b.1"), ("8", "a.1"), ("9", "ab.1")]), ["7", "9"]);
        assert!(heard(&[("7", "b.1"), ("8", "a.1"), ("9", "ab.1")]).is_empty());
        assert_eq!(heard(&[("7", "b.2"), ("forget.5", "b.2")]), ["7", "forget.5"]);
        let many: Vec<String> = (0..20).map(|sku| sku.to_string()).collect();
        let rows: Vec<_> = many.iter().map(|sku| (sku.as_str(), "c.1")).collect();
        assert_eq!(
            [heard(&rows).len(), heard(&rows).len(), heard(&rows).len()],
            [8, 8, 4],
            "the rest in the next rounds"
        );
    }

    #[test]
    fn more_questions_than_there_can_be_are_taken_away() {
        let rows = |count: usize| (0..count).map(|sku| (sku.to_string(), Vec::new())).collect::<Vec<_>>();
        assert_eq!((settled(&rows(QUESTIONS_MAX)).len(), settled(&rows(1_001)).len()), (0, 1_001));
    }
}
