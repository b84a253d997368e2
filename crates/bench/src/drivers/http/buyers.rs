//! The buyers of a flash crowd, by our own API: each wants one unit, bots among them ask again and again, and whoever is
//! turned away for now tries again with the same key.

use std::collections::VecDeque;
use std::time::Duration;

use super::traffic;
use crate::audit::receipts::Receipts;
use crate::load::choice::{Buyer, Crowd, Random};
use crate::load::record::Outcome;
use crate::load::schedule::Retries;
use crate::load::{ConnectionId, Protocol, Received, Verdicts};
use crate::target::TOKEN_SECRET;
use crate::target::token::Minter;

/// Of the requests.
pub(crate) const BOTS_SHARE: f64 = 0.1;
pub(crate) const BOTS: u64 = 50;
pub(crate) const RETRIES: Retries = Retries {
    attempts_max: 4,
    back_off: Duration::from_millis(250),
    back_off_max: Duration::from_secs(1),
    jitter: 0.5,
};
const PERSON_FIRST: u64 = 1_000_000_000;
const BOT_FIRST: u64 = 2_000_000_000;

/// One buyer's wish: the same in each of its attempts, so that a repeated one is no second order.
#[derive(Debug, Clone, Copy)]
struct Wish {
    number: u64,
    buyer: u64,
    product: u64,
    /// From 1.
    attempt: u32,
}

/// Orders of the crowd. `product` says which one is wanted next.
pub(crate) struct Buyers<'a, F> {
    sale: u64,
    product: F,
    receipts: &'a mut Receipts,
    minter: Minter,
    random: Random,
    crowd: Crowd,
    wishes: u64,
    /// By user: what is asked for now.
    asking: Vec<Option<Wish>>,
    /// Refused, and worth another attempt, the longest ago first.
    again: VecDeque<Wish>,
    retrying: bool,
}

impl<'a, F: FnMut(&mut Random) -> u64> Buyers<'a, F> {
    /// Of so many users of the generator.
    pub(crate) fn new(sale: u64, product: F, users: usize, seed: u64, receipts: &'a mut Receipts) -> Self {
        Self {
            sale,
            product,
            receipts,
            minter: Minter::new(TOKEN_SECRET),
            random: Random::new(seed),
            crowd: Crowd::new(BOTS_SHARE, BOTS),
            wishes: 0,
            asking: vec![None; users],
            again: VecDeque::new(),
            retrying: false,
        }
    }

    /// Unless that was the last attempt.
    fn ask_again(&mut self, wish: Wish) {
        if wish.attempt < RETRIES.attempts_max {
            self.again.push_back(Wish { attempt: wish.attempt + 1, ..wish });
        }
    }

    fn wish(&mut self) -> Wish {
        if std::mem::take(&mut self.retrying)
            && let Some(wish) = self.again.pop_front()
        {
            return wish;
        }
        self.wishes += 1;
        let buyer = match self.crowd.next(&mut self.random) {
            Buyer::Person(number) => PERSON_FIRST + number,
            Buyer::Bot(number) => BOT_FIRST + number,
        };
        Wish { number: self.wishes, buyer, product: (self.product)(&mut self.random), attempt: 1 }
    }
}

impl<F: FnMut(&mut Random) -> u64> Protocol for Buyers<'_, F> {
    fn retrying(&mut self, _user: usize) {
        self.retrying = true;
    }

    fn request(&mut self, user: usize, out: &mut Vec<u8>) -> usize {
        // An answer that was lost leaves its wish behind: it is asked again with the same key, and finds its order.
        if let Some(wish) = self.asking[user].take() {
            self.ask_again(wish);
        }
        let wish = self.wish();
        self.asking[user] = Some(wish);
        let tail = traffic::order_tail(self.sale, wish.product);
        let Wish { number, buyer, .. } = wish;
        traffic::append_order(
            &self.minter,
            buyer,
            format_args!("Idempotency-Key: wish-{number}"),
            &tail,
            out,
        );
        0
    }

    fn receive(&mut self, connection: ConnectionId, bytes: &[u8], verdicts: &mut Verdicts) -> Received {
        super::whole(bytes, verdicts, |status, body| {
            let outcome = traffic::judge_own(status, body);
            if outcome == Outcome::Won {
                self.receipts.keep(body);
            }
            if let Some(wish) = self.asking[connection.user].take().filter(|_| outcome.is_worth_a_retry()) {
                self.ask_again(wish);
            }
            outcome
        })
    }
}
