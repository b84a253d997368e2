//! Where tokens of the shop are exchanged: on a thread of its own, past the event loops. A second one fetches the shop's keys
//! from their URL, and has those exchanges wait for it whose key is not known yet.
//!
//! Both take a bounded number; with more, the client is asked to come again. Keys are kept when none come. Must not: keep or
//! log a token.

use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::auth::token::{Bearer, Exchange, NotMinted, Session, Untrusted};
use super::reads::{Answers, ShowRead};
use super::wire::error::Problem;
use crate::clock::Between;
use crate::net::Ticket;
use crate::shop_keys::{KeySource, ShopKeys};

/// Exchanges that wait at one time, at either thread.
const WAITING_MAX: usize = 1_024;
/// Between two asks for the keys because of a key that is not known: anybody can name one.
const FETCH_EVERY: Duration = Duration::from_secs(30);
/// Keys are asked for this often anyway: one that the shop has taken back is not believed for longer.
const REFRESH_EVERY: Duration = Duration::from_secs(600);

/// Writes the answer to a session that was opened.
pub(super) type ShowSession = Box<dyn FnOnce(Session) -> ShowRead + Send>;

/// An exchange that waits.
pub(super) struct WaitingExchange {
    pub(super) event_loop: usize,
    pub(super) ticket: Ticket,
    pub(super) exchange: Arc<Exchange>,
    pub(super) token: String,
    pub(super) between: Between,
    pub(super) show: ShowSession,
}

/// The keys that were fetched last.
#[derive(Clone, Debug, Default)]
struct Fetched(Arc<Mutex<Option<ShopKeys>>>);

impl Fetched {
    fn get(&self) -> Option<ShopKeys> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn set(&self, keys: ShopKeys) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(keys);
    }
}

/// The threads, as the event loops see them. They end after this is dropped.
#[derive(Debug)]
pub(super) struct Sessions {
    waiting: SyncSender<WaitingExchange>,
}

impl Sessions {
    /// `source`: where the shop publishes its keys.
    pub(super) fn start(answers: Answers, source: Option<KeySource>) -> Sessions {
        let fetched = Fetched::default();
        let (waiting, exchanges) = sync_channel(WAITING_MAX);
        let for_keys = source.map(|source| {
            let (for_keys, unknown) = sync_channel(WAITING_MAX);
            let (fetched, answers) = (fetched.clone(), answers.clone());
            let fetching = Fetching { source, fetched, asked: None, failing: false };
            spawn("shop-keys", move || fetching.run(&unknown, &answers));
            for_keys
        });
        spawn("sessions", move || exchange_all(&exchanges, for_keys.as_ref(), &fetched, &answers));
        Sessions { waiting }
    }

    /// Hands an exchange over; false: too many wait.
    pub(super) fn ask(&self, exchange: WaitingExchange) -> bool {
        self.waiting.try_send(exchange).is_ok()
    }
}

/// Not waited for at the end: nothing is lost with an exchange, and a fetch may take seconds.
fn spawn(name: &str, run: impl FnOnce() + Send + 'static) {
    let thread = std::thread::Builder::new().name(name.to_owned()).spawn(run);
    drop(thread.expect("the system starts a thread while the server starts"));
}

fn exchange_all(
    exchanges: &Receiver<WaitingExchange>,
    for_keys: Option<&SyncSender<WaitingExchange>>,
    fetched: &Fetched,
    answers: &Answers,
) {
    while let Ok(waiting) = exchanges.recv() {
        let found = waiting.verify(fetched);
        match for_keys {
            Some(for_keys) if is_without_key(&found) => {
                if let Err(TrySendError::Full(waiting) | TrySendError::Disconnected(waiting)) =
                    for_keys.try_send(waiting)
                {
                    waiting.refuse(answers, Problem::busy());
                }
            }
            _ => waiting.answer(answers, found),
        }
    }
}

/// Whether another key may change it.
fn is_without_key(found: &Result<Bearer, Untrusted>) -> bool {
    matches!(found, Err(Untrusted::UnknownKey | Untrusted::NoShopKeys))
}

impl WaitingExchange {
    fn verify(&self, fetched: &Fetched) -> Result<Bearer, Untrusted> {
        self.exchange.verify(&self.token, fetched.get().as_ref(), self.between)
    }

    fn answer(self, answers: &Answers, found: Result<Bearer, Untrusted>) {
        let opened =
            found.map_err(|untrusted| Problem::unauthorized(untrusted.detail())).and_then(|bearer| {
                let has_address = bearer.address.is_some();
                self.exchange.open(bearer, self.between).map_err(|not_minted| match not_minted {
                    NotMinted::Length if has_address => {
                        Problem::unauthorized(Untrusted::AddressLength.detail())
                    }
                    not_minted => Problem::internal(not_minted.to_string()),
                })
            });
        match opened {
            Ok(session) => answers.give(self.event_loop, self.ticket, (self.show)(session)),
            Err(problem) => self.refuse(answers, problem),
        }
    }

    fn refuse(self, answers: &Answers, problem: Problem) {
        answers.give(self.event_loop, self.ticket, ShowRead::new(move |_, _| Err(problem)));
    }
}

/// The thread that fetches.
struct Fetching {
    source: KeySource,
    fetched: Fetched,
    /// When it was last asked for keys; `None`: not yet.
    asked: Option<Instant>,
    failing: bool,
}

impl Fetching {
    fn run(mut self, unknown: &Receiver<WaitingExchange>, answers: &Answers) {
        loop {
            let since = self.asked.map(|asked| asked.elapsed());
            let rest = since.map_or(Duration::ZERO, |since| REFRESH_EVERY.saturating_sub(since));
            match unknown.recv_timeout(rest) {
                Ok(waiting) => match self.verify(&waiting) {
                    Err(Untrusted::NoShopKeys) => waiting.refuse(answers, Problem::no_shop_keys()),
                    found => waiting.answer(answers, found),
                },
                Err(RecvTimeoutError::Timeout) => self.fetch(Instant::now()),
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    }

    /// Other keys may have come while it waited, and may come now.
    fn verify(&mut self, waiting: &WaitingExchange) -> Result<Bearer, Untrusted> {
        let found = waiting.verify(&self.fetched);
        if is_without_key(&found) && self.fetch_if_due(Instant::now()) {
            return waiting.verify(&self.fetched);
        }
        found
    }

    fn fetch_if_due(&mut self, now: Instant) -> bool {
        let due = self.asked.is_none_or(|asked| now.duration_since(asked) >= FETCH_EVERY);
        if due {
            self.fetch(now);
        }
        due
    }

    /// What fails again is not logged again.
    fn fetch(&mut self, now: Instant) {
        self.asked = Some(now);
        match self.source.fetch() {
            Ok(keys) => {
                if self.failing || self.fetched.get().as_ref() != Some(&keys) {
                    tracing::info!(?keys, "the shop's keys were fetched");
                }
                self.fetched.set(keys);
                self.failing = false;
            }
            Err(error) if self.failing => tracing::debug!(%error, "the shop's keys could not be fetched"),
            Err(error) => {
                let source = &self.source;
                tracing::warn!(%error, ?source, "the shop's keys could not be fetched: the earlier ones are kept");
                self.failing = true;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpListener;

    use serde_json::{Value, json};

    use super::*;

    /// Answers so many requests, each with the next of these, and then none.
    fn keys_server(answers: Vec<String>) -> KeySource {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/", listener.local_addr().unwrap());
        std::thread::spawn(move || {
            for body in answers {
                let (mut stream, _) = listener.accept().unwrap();
                let _asked = stream.read(&mut [0; 1024]).unwrap();
                let head =
                    format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\nConnection: close\r\n\r\n", body.len());
                // Whoever reads a bounded part only may have left.
                let _sent =
                    stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(body.as_bytes()));
            }
        });
        KeySource::new(&url, None).unwrap()
    }

    #[test]
    fn keys_follow_the_shop_seldom_and_are_kept_when_none_come() {
        let made: Value = serde_json::from_str(include_str!("../../tests/data/shop-keys.json")).unwrap();
        let set = |keys: &[usize]| {
            let keys: Vec<_> = keys.iter().map(|key| made["jwks"]["keys"][*key].clone()).collect();
            json!({ "keys": keys }).to_string()
        };
        let many = set(&[1; 65]);
        let large = format!("{}{}", set(&[0]), " ".repeat(64 << 10));
        let source = keys_server(vec![set(&[0]), set(&[1]), "no JSON".to_owned(), many, large, set(&[2])]);
        let mut fetching = Fetching { source, fetched: Fetched::default(), asked: None, failing: false };
        let mut now = Instant::now();
        let mut next = |fetching: &mut Fetching, later: Duration| {
            now += later;
            let asked = fetching.fetch_if_due(now);
            (asked, format!("{:?}", fetching.fetched.get().unwrap()))
        };
        let [first, second, third] =
            [r#"[(Rs256, Some("rsa-1"))]"#, r#"[(Es256, Some("ec-1"))]"#, r#"[(EdDsa, Some("ed-1"))]"#]
                .map(str::to_owned);
        assert_eq!(next(&mut fetching, Duration::ZERO), (true, first.clone()));
        assert_eq!(next(&mut fetching, FETCH_EVERY / 2), (false, first));
        assert_eq!(next(&mut fetching, FETCH_EVERY / 2), (true, second.clone()));
        for _no_keys in 0..3 {
            assert_eq!(next(&mut fetching, FETCH_EVERY), (true, second.clone()));
            assert!(fetching.failing);
        }
        assert_eq!(next(&mut fetching, FETCH_EVERY), (true, third.clone()));
        assert!(!fetching.failing);
        assert_eq!(next(&mut fetching, FETCH_EVERY), (true, third), "the server is gone");
    }
}
