//! Where a service is asked about those who would join: on threads of its own, past the event loops.
//!
//! A bounded number waits, one for each buyer, for a bounded time. A token counts once. A service that has failed several times in a row is
//! left alone for a moment, so that nobody waits for it in vain. Must not: hold what somebody has already against an answer.

use std::collections::{HashSet, VecDeque};
use std::net::IpAddr;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use std::{fmt, io, thread};

use engine::BuyerId;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use ring::digest;

use super::siteverify::Service;
use crate::metrics::{Code, Metrics};
use crate::recurring::Recurring;

/// At one time; each waits for the service most of it.
pub(super) const THREADS: usize = 16;
/// That wait for a thread.
const WAITING_MAX: usize = 1_024;
/// Whoever has waited for longer is sent away to come again.
const PATIENCE: Duration = Duration::from_secs(10);
/// Tokens that are remembered as used, the newest: some 20 MB. Services forget theirs within five minutes.
const USED_MAX: usize = 262_144;
/// Failures in a row after which the service is left alone.
const FAILURES_MAX: u32 = 8;
/// For so long; then a failure more is enough.
const PAUSE: Duration = Duration::from_secs(2);

/// Who is asked about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Question {
    pub(super) buyer: BuyerId,
    pub(super) address: IpAddr,
    pub(super) token: Box<str>,
}

/// What it came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TokenOutcome {
    /// They may join.
    Passed,
    Refused,
    /// The service gives no answer, and without one nobody joins.
    Unreachable,
    /// Too many wait, or this buyer does already: ask again.
    Busy,
}

/// Takes the outcome to whoever asked.
pub type OnOutcome = Box<dyn FnOnce(TokenOutcome) + Send>;

struct Job {
    question: Question,
    answer: OnOutcome,
    since: Instant,
}

/// The threads, as the event loops see them. They end after this is dropped; what is unanswered then is asked again.
pub struct Desk {
    jobs: SyncSender<Job>,
    clerk: Arc<Clerk>,
}

impl fmt::Debug for Desk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Desk")
    }
}

impl Desk {
    /// `opens`: whoever can't be asked about may join.
    ///
    /// # Errors
    /// If a thread can't be started.
    pub fn start(
        service: Service,
        opens: bool,
        metrics: &Metrics,
        thread: impl Fn(String) -> thread::Builder,
    ) -> io::Result<Desk> {
        let (jobs, waiting) = sync_channel(WAITING_MAX);
        let counts: Family<Code, Counter> = Family::default();
        let help = "Answers to whether a buyer may join a line, by what they came to";
        metrics.with_registry(|r| r.register("doorbuster_line_verifications", help, counts.clone()));
        for outcome in ["passed", "refused", "unreachable", "busy"] {
            drop(counts.get_or_create(&[("outcome", outcome)]));
        }
        let silence = Recurring::new("the service that is asked about those who join a line gives no answer");
        let clerk = Arc::new(Clerk { service, opens, counts, silence, known: Mutex::default() });
        let waiting = Arc::new(Mutex::new(waiting));
        for _ in 0..THREADS {
            let (clerk, waiting) = (Arc::clone(&clerk), Arc::clone(&waiting));
            thread("line-verifier".to_owned()).spawn(move || clerk.run(&waiting))?;
        }
        Ok(Desk { jobs, clerk })
    }

    /// Always answers, now or from a thread.
    pub(super) fn ask(&self, question: Question, answer: OnOutcome) {
        let token = fingerprint(&question.token);
        let begun = self.clerk.known().begin(question.buyer, token, Instant::now());
        if let Err(outcome) = begun {
            return answer(self.clerk.counted(outcome));
        }
        let sent = self.jobs.try_send(Job { question, answer, since: Instant::now() });
        if let Err(TrySendError::Full(job) | TrySendError::Disconnected(job)) = sent {
            self.clerk.known().end(job.question.buyer, token, false);
            (job.answer)(self.clerk.counted(TokenOutcome::Busy));
        }
    }
}

struct Clerk {
    service: Service,
    opens: bool,
    counts: Family<Code, Counter>,
    silence: Recurring,
    known: Mutex<Known>,
}

impl Clerk {
    fn run(&self, jobs: &Mutex<Receiver<Job>>) {
        loop {
            let job = jobs.lock().unwrap_or_else(PoisonError::into_inner).recv();
            let Ok(Job { question, answer, since }) = job else { return };
            let outcome =
                if since.elapsed() >= PATIENCE { TokenOutcome::Busy } else { self.find_out(&question) };
            self.known().end(question.buyer, fingerprint(&question.token), outcome == TokenOutcome::Passed);
            answer(self.counted(outcome));
        }
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn find_out(&self, question: &Question) -> TokenOutcome {
        // Those who waited while it failed.
        if self.known().pauses(Instant::now()) {
            return TokenOutcome::Unreachable;
        }
        let said = self.service.ask(&question.token, question.address);
        self.known().heard(said.is_ok(), Instant::now());
        match said {
            Ok(good) => {
                self.silence.well();
                if good { TokenOutcome::Passed } else { TokenOutcome::Refused }
            }
            Err(why) => {
                self.silence.met(&why);
                TokenOutcome::Unreachable
            }
        }
    }

    fn counted(&self, outcome: TokenOutcome) -> TokenOutcome {
        let word = match outcome {
            TokenOutcome::Passed => "passed",
            TokenOutcome::Refused => "refused",
            TokenOutcome::Unreachable => "unreachable",
            TokenOutcome::Busy => "busy",
        };
        self.counts.get_or_create(&[("outcome", word)]).inc();
        if outcome == TokenOutcome::Unreachable && self.opens { TokenOutcome::Passed } else { outcome }
    }
}

/// Of a token: enough that nobody finds another one with the same.
type Fingerprint = [u8; 16];

fn fingerprint(token: &str) -> Fingerprint {
    let hash = digest::digest(&digest::SHA256, token.as_bytes());
    *hash.as_ref().first_chunk().expect("a hash has 32 bytes")
}

/// What is asked at the moment, what was used, and whether the service answers.
#[derive(Debug, Default)]
struct Known {
    buyers: HashSet<BuyerId>,
    asked: HashSet<Fingerprint>,
    used: HashSet<Fingerprint>,
    /// The same, the oldest first.
    used_order: VecDeque<Fingerprint>,
    /// In a row, up to now.
    failures: u32,
    paused_until: Option<Instant>,
}

impl Known {
    fn begin(&mut self, buyer: BuyerId, token: Fingerprint, now: Instant) -> Result<(), TokenOutcome> {
        if self.used.contains(&token) || self.asked.contains(&token) && !self.buyers.contains(&buyer) {
            return Err(TokenOutcome::Refused);
        }
        if self.pauses(now) {
            return Err(TokenOutcome::Unreachable);
        }
        if !self.buyers.insert(buyer) {
            return Err(TokenOutcome::Busy);
        }
        self.asked.insert(token);
        Ok(())
    }

    fn end(&mut self, buyer: BuyerId, token: Fingerprint, passed: bool) {
        self.buyers.remove(&buyer);
        self.asked.remove(&token);
        if passed && self.used.insert(token) {
            self.used_order.push_back(token);
        }
        if self.used_order.len() > USED_MAX {
            let oldest = self.used_order.pop_front().expect("there are more than none");
            self.used.remove(&oldest);
        }
    }

    fn pauses(&self, now: Instant) -> bool {
        self.paused_until.is_some_and(|until| now < until)
    }

    fn heard(&mut self, answered: bool, now: Instant) {
        if answered {
            (self.failures, self.paused_until) = (0, None);
            return;
        }
        self.failures = (self.failures + 1).min(FAILURES_MAX);
        if self.failures == FAILURES_MAX {
            self.paused_until = Some(now + PAUSE);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token(number: usize) -> Fingerprint {
        fingerprint(&number.to_string())
    }

    #[test]
    fn a_buyer_asks_once_at_a_time_and_a_token_counts_once() {
        let (mut known, now) = (Known::default(), Instant::now());
        let [anna, bert] = [1, 2].map(BuyerId);
        assert_eq!(known.begin(anna, token(1), now), Ok(()));
        for (buyer, number, expected) in [
            (anna, 1, Err(TokenOutcome::Busy)),
            (anna, 2, Err(TokenOutcome::Busy)),
            (bert, 1, Err(TokenOutcome::Refused)),
            (bert, 2, Ok(())),
        ] {
            assert_eq!(known.begin(buyer, token(number), now), expected, "{buyer:?} {number}");
        }
        known.end(anna, token(1), true);
        known.end(bert, token(2), false);
        assert_eq!(known.begin(anna, token(1), now), Err(TokenOutcome::Refused), "it is used");
        assert_eq!(known.begin(anna, token(2), now), Ok(()), "it was not");
    }

    #[test]
    fn what_is_remembered_is_bounded_and_the_oldest_goes() {
        let (mut known, now) = (Known::default(), Instant::now());
        for number in 0..USED_MAX + 2 {
            known.end(BuyerId(1), token(number), true);
        }
        assert_eq!((known.used.len(), known.used_order.len()), (USED_MAX, USED_MAX));
        assert_eq!(known.begin(BuyerId(1), token(2), now), Err(TokenOutcome::Refused));
        assert_eq!(known.begin(BuyerId(1), token(1), now), Ok(()));
    }

    #[test]
    fn a_service_that_fails_in_a_row_is_left_alone_for_a_moment() {
        let (mut known, now) = (Known::default(), Instant::now());
        for _ in 1..FAILURES_MAX {
            known.heard(false, now);
        }
        known.heard(true, now);
        for _ in 1..FAILURES_MAX {
            known.heard(false, now);
        }
        assert!(!known.pauses(now), "an answer between them begins the count anew");
        known.heard(false, now);
        assert_eq!(known.begin(BuyerId(1), token(1), now), Err(TokenOutcome::Unreachable));
        let later = now + PAUSE;
        assert_eq!(known.begin(BuyerId(1), token(1), later), Ok(()));
        known.heard(false, later);
        assert!(known.pauses(later), "one more is enough");
        known.heard(true, later);
        assert!(!known.pauses(later));
    }
}
