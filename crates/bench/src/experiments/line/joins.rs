//! Joining: everybody by a request and a token of their own, as a page sends it, and the number that each was answered.

use anyhow::{Context, ensure};

use super::{LINE, ScenarioContext};
use crate::drivers::http::{Http, Settings, Workload};
use crate::load::Generator;
use crate::load::record::Outcome;
use crate::load::schedule::Schedule;
use crate::target::token::Minter;
use crate::target::{TOKEN_SECRET, Target};

/// Who joins is numbered from here: ten digits, so that all requests have one length.
pub(super) const PERSON_FIRST: u64 = 3_000_000_000;
/// Of a request that is all in its path and its token.
pub(super) const NO_BODY: &str = "\r\nContent-Length: 0\r\n\r\n";
pub(super) const CONNECTIONS: usize = 200;
/// Joins between two looks at how far it is.
const PART: u64 = 50_000;

/// What a page sends for somebody who is signed in. People are counted from 0.
#[derive(Debug)]
pub(super) struct Signed(Minter);

impl Signed {
    pub(super) fn new() -> Self {
        Self(Minter::new(TOKEN_SECRET))
    }

    /// A POST; `rest`: more of the head and the body, from behind the token on.
    pub(super) fn post(&self, path: &str, person: u32, rest: &str, out: &mut Vec<u8>) {
        for part in ["POST ", path, " HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer "] {
            out.extend_from_slice(part.as_bytes());
        }
        self.0.append(PERSON_FIRST + u64::from(person), out);
        out.extend_from_slice(rest.as_bytes());
    }
}

/// Everybody in turn, each once.
#[derive(Debug)]
pub(super) struct Joins {
    signed: Signed,
    pub(super) joined: u32,
    /// By person: the number in the line, 0 where no answer has come.
    pub(super) numbers: Vec<u32>,
    /// Of the first who was answered.
    pub(super) ticket: Option<String>,
    request: Vec<u8>,
}

impl Joins {
    pub(super) fn new(people: u32) -> Self {
        let numbers = Vec::with_capacity(people as usize);
        Self { signed: Signed::new(), joined: 0, numbers, ticket: None, request: Vec::new() }
    }

    /// By number, from 1: who has it, from 0. A gap is somebody whose answer was lost.
    pub(super) fn person_by_number(&self) -> Vec<Option<u32>> {
        let most = self.numbers.iter().max().copied().unwrap_or(0);
        let mut people = vec![None; most as usize + 1];
        for (person, number) in (0..).zip(&self.numbers) {
            if *number > 0 {
                people[*number as usize] = Some(person);
            }
        }
        people
    }

    /// Keeps the number; `None`: the answer is none.
    fn keep(&mut self, body: &[u8]) -> Option<()> {
        let text = std::str::from_utf8(body).ok()?;
        let ticket = text.split_once(r#""ticket":""#)?.1.split('"').next()?;
        let mut parts = ticket.split('.');
        let number: u32 = parts.next()?.parse().ok()?;
        let person = parts.next()?.parse::<u64>().ok()?.checked_sub(PERSON_FIRST)?;
        let kept = self.numbers.get_mut(usize::try_from(person).ok()?)?;
        if *kept == 0 {
            self.joined += 1;
        }
        *kept = number;
        self.ticket.get_or_insert_with(|| ticket.to_owned());
        Some(())
    }
}

impl Workload for Joins {
    fn request(&mut self) -> &[u8] {
        let person = u32::try_from(self.numbers.len()).expect("people have 32 bits");
        self.numbers.push(0);
        self.request.clear();
        self.signed.post(LINE, person, NO_BODY, &mut self.request);
        &self.request
    }

    fn judge(&mut self, status: u16, body: &[u8]) -> Outcome {
        match status {
            201 if self.keep(body).is_some() => Outcome::Served,
            429 => Outcome::Limited,
            503 => Outcome::Busy,
            _ => Outcome::Failed,
        }
    }
}

/// So many join, as fast as they are answered.
pub(super) fn all(context: &ScenarioContext, server: &Target, people: u32) -> anyhow::Result<Joins> {
    let mut joins = Joins::new(people);
    let settings = Settings::keep_alive(server.address(), CONNECTIONS);
    let mut generator =
        Generator::connect(settings, &mut Http { workload: &mut joins }).context("connecting")?;
    while joins.joined < people {
        context.progress.doing(&format!("joining: {} of {people}", joins.joined));
        let part = PART.min(u64::from(people - joins.joined));
        let before = joins.joined;
        let mut http = Http { workload: &mut joins };
        let record = generator.run(Schedule::closed_requests(part), &mut http, &context.stop)?;
        let refused = || record.first_surprise.as_deref().unwrap_or("none").to_owned();
        ensure!(
            u64::from(joins.joined - before) * 2 >= part,
            "joining is refused: {:?}; the first other answer was: {}",
            record.outcomes,
            refused()
        );
    }
    Ok(joins)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_of_each_person_is_kept() {
        let mut joins = Joins::new(3);
        let requests: Vec<String> =
            (0..3).map(|_| String::from_utf8(joins.request().to_vec()).unwrap()).collect();
        assert!(requests[0].starts_with(&format!("POST {LINE} HTTP/1.1\r\n")), "{}", requests[0]);
        assert_ne!(requests[0], requests[1], "each has a token of their own");
        let answer = |number: u32, buyer: u64| {
            format!(r#"{{"number":{number},"ticket":"{number}.{buyer}.0f","now_ms":1}}"#)
        };
        for (status, body, outcome) in [
            (201, answer(2, PERSON_FIRST), Outcome::Served),
            (201, answer(1, PERSON_FIRST + 2), Outcome::Served),
            (201, answer(3, PERSON_FIRST + 3), Outcome::Failed),
            (201, answer(3, 1), Outcome::Failed),
            (201, "{}".to_owned(), Outcome::Failed),
            (503, "{}".to_owned(), Outcome::Busy),
            (409, "{}".to_owned(), Outcome::Failed),
        ] {
            assert_eq!(joins.judge(status, body.as_bytes()), outcome, "{status} {body}");
        }
        assert_eq!(joins.joined, 2);
        assert_eq!(joins.person_by_number(), [None, Some(2), Some(0)]);
        assert_eq!(joins.ticket.as_deref(), Some(format!("2.{PERSON_FIRST}.0f").as_str()));
    }
}
