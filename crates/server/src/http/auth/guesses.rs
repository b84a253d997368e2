//! Wrong operator tokens, counted by address: after some, an address is answered 429 instead, and the log has a line.
//!
//! The right token is taken from any address at any time: whoever shares one with a guesser must not be locked out. That
//! guessing is hopeless comes from the token's length; this keeps it from going unseen.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::net::network_of;

const WINDOW: Duration = Duration::from_secs(60);
/// Wrong tokens of one address in a window that are answered 401.
const GUESSES_MAX: u32 = 10;
/// Addresses that are counted one by one; those beyond share one count.
const ADDRESSES_MAX: usize = 1_024;

/// What is done about a wrong token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Guess {
    /// Answered as it is, and reported: the first of its window.
    First,
    Another,
    /// One too many, and reported.
    TooMany,
    StillTooMany,
}

#[derive(Clone, Copy, Debug)]
struct Count {
    since: Instant,
    guesses: u32,
}

#[derive(Debug, Default)]
pub(super) struct Guesses {
    counts: Mutex<HashMap<IpAddr, Count>>,
}

impl Guesses {
    pub(super) fn count(&self, address: IpAddr, now: Instant) -> Guess {
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        let mut network = network_of(address);
        if !counts.contains_key(&network) && counts.len() >= ADDRESSES_MAX {
            counts.retain(|_, count| now.duration_since(count.since) < WINDOW);
            if counts.len() >= ADDRESSES_MAX {
                network = IpAddr::V6(Ipv6Addr::UNSPECIFIED);
            }
        }
        let count = counts.entry(network).or_insert(Count { since: now, guesses: 0 });
        if now.duration_since(count.since) >= WINDOW {
            *count = Count { since: now, guesses: 0 };
        }
        count.guesses = count.guesses.saturating_add(1);
        match count.guesses {
            1 => Guess::First,
            2..=GUESSES_MAX => Guess::Another,
            guesses if guesses == GUESSES_MAX + 1 => Guess::TooMany,
            _ => Guess::StillTooMany,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(number: u32) -> IpAddr {
        IpAddr::V4(number.into())
    }

    #[test]
    fn an_address_has_some_guesses_in_a_minute_and_each_kind_is_reported_once() {
        let (guesses, start) = (Guesses::default(), Instant::now());
        let mut seen = Vec::new();
        for _ in 0..GUESSES_MAX + 3 {
            seen.push(guesses.count(address(1), start));
        }
        assert_eq!((seen[0], seen[1]), (Guess::First, Guess::Another));
        assert_eq!(seen[10..], [Guess::TooMany, Guess::StillTooMany, Guess::StillTooMany]);
        assert_eq!(guesses.count(address(2), start), Guess::First);
        assert_eq!(guesses.count(address(1), start + WINDOW), Guess::First);
    }

    #[test]
    fn a_network_counts_as_one_and_the_table_is_bounded() {
        let (guesses, now) = (Guesses::default(), Instant::now());
        let in_network = |host: u128| IpAddr::V6(Ipv6Addr::from_bits((0x2001_0db8 << 96) + host));
        assert_eq!(guesses.count(in_network(1), now), Guess::First);
        assert_eq!(guesses.count(in_network(2), now), Guess::Another);
        let mapped = IpAddr::V6("::ffff:0.0.0.7".parse::<Ipv6Addr>().unwrap());
        assert_eq!(guesses.count(mapped, now), Guess::First);
        assert_eq!(guesses.count(address(7), now), Guess::Another);
        for (number, _) in (0..).zip(0..3 * ADDRESSES_MAX) {
            guesses.count(address(number), now);
        }
        assert!(guesses.counts.lock().unwrap().len() <= ADDRESSES_MAX + 1);
        assert_eq!(
            guesses.count(address(u32::MAX), now),
            Guess::StillTooMany,
            "it shares a count with the rest"
        );
        assert_eq!(
            guesses.count(address(u32::MAX), now + WINDOW),
            Guess::First,
            "those of before are forgotten"
        );
    }
}
