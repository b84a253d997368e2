//! Buyers while a fault lasts: a bounded number of threads, each buying one thing after the other over HTTP, asking
//! again with the same key when it does not know what happened, paying and cancelling some.
//!
//! As behind a load balancer, each thread has a server of its own, tries another one when it got no order there, and
//! stays away for some seconds from one that did not answer at all.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::attempt::{Answer, Attempt, Closed, TimedAnswer};
use crate::exchange::Response;
use crate::shop::{Caller, FEW, FLEETING, LIMITED, PLENTY, Round, product};

/// Requests under one key before a buyer leaves it at that, for now.
const TRIES: usize = 4;
const PAUSE: Duration = Duration::from_millis(100);
/// Buyers of the product that is limited: few enough to come to their limit.
const LIMITED_BUYERS: u64 = 80;
/// From a server that did not answer.
const STAYS_AWAY: Duration = Duration::from_secs(5);
const POLL: Duration = Duration::from_millis(5);

/// How much is bought.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    pub(crate) buyers: u64,
    /// Between two attempts of a buyer.
    pub(crate) think: Duration,
    pub(crate) round: Round,
}

/// splitmix64.
#[derive(Debug)]
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % n
    }
}

/// The load while it runs. Dropping it stops it.
#[derive(Debug)]
pub(crate) struct Load {
    common: Arc<Common>,
    threads: Vec<JoinHandle<Vec<Attempt>>>,
}

#[derive(Debug)]
struct Common {
    servers: Vec<SocketAddr>,
    stop: AtomicBool,
    accepted: Mutex<Accepted>,
}

/// What the scenario waits for, as it happens.
#[derive(Debug, Default)]
struct Accepted {
    orders: u64,
    /// When the newest request was sent that made an order.
    last_sent: Option<Instant>,
}

impl Load {
    pub(crate) fn start(servers: Vec<SocketAddr>, shape: Shape) -> Load {
        let common = Common { servers, stop: AtomicBool::new(false), accepted: Mutex::default() };
        let common = Arc::new(common);
        let threads = (0..shape.buyers)
            .map(|thread| {
                let common = Arc::clone(&common);
                std::thread::spawn(move || Buyer::new(&common, thread, shape.round).run(shape.think))
            })
            .collect();
        Load { common, threads }
    }

    /// Waits until no order was accepted for so long.
    pub(crate) fn wait_until_silent(&self, silence: Duration, within: Duration) {
        let started = Instant::now();
        let (mut seen, mut since) = (0, started);
        while since.elapsed() < silence {
            assert!(started.elapsed() < within, "orders are accepted without end");
            std::thread::sleep(POLL);
            let orders = self.common.accepted.lock().unwrap().orders;
            if orders != seen {
                (seen, since) = (orders, Instant::now());
            }
        }
    }

    /// Waits until so many more orders were accepted, all of them asked for from now on. How long that took.
    #[track_caller]
    pub(crate) fn wait_for_orders(&self, more: u64, within: Duration) -> Duration {
        let started = Instant::now();
        let mut seen = self.common.accepted.lock().unwrap().orders;
        let mut counted = 0;
        while counted < more {
            assert!(started.elapsed() < within, "{counted} orders within {within:?}, not {more}");
            assert!(!self.threads.iter().any(JoinHandle::is_finished), "a buyer failed");
            std::thread::sleep(POLL);
            let accepted = self.common.accepted.lock().unwrap();
            if accepted.last_sent.is_some_and(|sent| sent >= started) {
                counted += accepted.orders - seen;
            }
            seen = accepted.orders;
        }
        started.elapsed()
    }

    /// Ends the load; what every buyer lived through.
    pub(crate) fn stop(mut self) -> Vec<Attempt> {
        self.common.stop.store(true, Ordering::Relaxed);
        let threads = std::mem::take(&mut self.threads);
        threads.into_iter().flat_map(|thread| thread.join().expect("no buyer saw a wrong answer")).collect()
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.common.stop.store(true, Ordering::Relaxed);
    }
}

#[derive(Debug)]
struct Buyer<'a> {
    common: &'a Common,
    thread: u64,
    round: Round,
    random: Random,
    home: usize,
    server: usize,
    away_until: Option<Instant>,
    caller: Caller,
    attempts: Vec<Attempt>,
}

impl Buyer<'_> {
    fn new(common: &Common, thread: u64, round: Round) -> Buyer<'_> {
        let home = usize::try_from(thread).unwrap() % common.servers.len();
        Buyer {
            common,
            thread,
            round,
            random: Random(thread + (round.number << 32)),
            home,
            server: home,
            away_until: None,
            caller: Caller::buyer(common.servers[home]),
            attempts: Vec::new(),
        }
    }

    fn run(mut self, think: Duration) -> Vec<Attempt> {
        for number in 0.. {
            if self.stopped() {
                break;
            }
            if self.server != self.home && self.away_until.is_none_or(|until| Instant::now() >= until) {
                self.go_to(self.home);
            }
            let mut attempt = self.choose(number);
            self.place(&mut attempt);
            self.go_on(&mut attempt);
            self.attempts.push(attempt);
            std::thread::sleep(think);
        }
        self.attempts
    }

    fn stopped(&self) -> bool {
        self.common.stop.load(Ordering::Relaxed)
    }

    fn choose(&mut self, number: u64) -> Attempt {
        let product = match self.random.below(8) {
            0 => FEW,
            1 => LIMITED,
            2 => FLEETING,
            _ => PLENTY,
        };
        let buyer = match product.limit {
            Some(_) => 1 + self.random.below(LIMITED_BUYERS),
            None => 1_000_000 * (self.thread + 1) + number,
        };
        let quantity = if self.random.below(4) == 0 { 2 } else { 1 };
        let round = self.round.number;
        let key = format!("r{round}-b{}-{number}", self.thread);
        Attempt::new(buyer, key, product.of_round(round).number, quantity)
    }

    fn place(&mut self, attempt: &mut Attempt) {
        for _ in 0..TRIES {
            self.ask(attempt);
            let placed = !matches!(
                attempt.answers.last().map(|timed| &timed.answer),
                Some(Answer::Unknown | Answer::Lost | Answer::TurnedAway { .. })
            );
            if placed || self.stopped() {
                return;
            }
            std::thread::sleep(PAUSE);
        }
    }

    fn ask(&mut self, attempt: &mut Attempt) {
        let sent = Instant::now();
        let answer = self.caller.place(attempt);
        match &answer {
            Answer::Accepted { .. } => {
                let mut accepted = self.common.accepted.lock().unwrap();
                accepted.orders += u64::from(attempt.order().is_none());
                accepted.last_sent = accepted.last_sent.max(Some(sent));
            }
            Answer::Lost => self.try_another(false),
            Answer::Unknown | Answer::TurnedAway { .. } => self.try_another(true),
            Answer::Refused { code } => {
                assert!(
                    !product(attempt.product).is(PLENTY),
                    "there is plenty, and the answer is {code}: {attempt:?}"
                );
            }
            Answer::Rejected => {}
        }
        attempt.hear(TimedAnswer { sent, at: Instant::now(), answer });
    }

    fn try_another(&mut self, answered: bool) {
        if !answered && self.server == self.home {
            self.away_until = Some(Instant::now() + STAYS_AWAY);
        }
        self.go_to((self.server + 1) % self.common.servers.len());
    }

    fn go_to(&mut self, server: usize) {
        self.server = server;
        self.caller.go_to(self.common.servers[server]);
    }

    /// What a buyer does with an order. One in four pays, cancels and reads; the others only buy, so that orders
    /// come in while the ledger is away.
    fn go_on(&mut self, attempt: &mut Attempt) {
        let Some(id) = attempt.order().map(str::to_owned) else { return };
        let chosen = self.random.below(8);
        if !matches!(self.thread % 8, 0 | 5) {
            if chosen == 0 {
                self.ask(attempt);
            }
            return;
        }
        match chosen {
            0 | 1 => {
                let price = product(attempt.product).price;
                let response = self.caller.pay(&id, price * u64::from(attempt.quantity));
                attempt.closed = Some(self.closed(response, |response| {
                    (response.status == 200 && response.json()["result"] == "paid").then_some("paid")
                }));
            }
            2 | 3 => {
                let response = self.caller.cancel(&id, attempt.buyer);
                attempt.closed = Some(self.closed(response, |response| {
                    (response.status == 200 && response.json()["status"] == "cancelled")
                        .then_some("cancelled")
                }));
            }
            4 => self.read(&id, attempt),
            _ => {}
        }
    }

    fn closed(
        &mut self,
        response: std::io::Result<Response>,
        status: impl FnOnce(&Response) -> Option<&'static str>,
    ) -> Closed {
        let Ok(response) = response else {
            self.try_another(false);
            return Closed::Perhaps;
        };
        // A 409 that the order is pending, expired, or rejected.
        let usual = matches!(response.status, 200 | 409 | 503);
        assert!(usual, "no answer to closing an order: {response:?}");
        status(&response).map_or(Closed::Perhaps, Closed::Answered)
    }

    /// Whoever was accepted finds the order, on every server, at any time.
    fn read(&mut self, id: &str, attempt: &Attempt) {
        match self.caller.status(id, attempt.buyer, 1) {
            Ok(response) => {
                assert!(matches!(response.status, 200 | 503), "accepted, then {response:?}: {attempt:?}");
            }
            Err(_) => self.try_another(false),
        }
    }
}
