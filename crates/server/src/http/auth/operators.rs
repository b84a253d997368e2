//! Operators' tokens: made at random, shown once, and known by their hash.
//!
//! The hash is a fast one, and compared as any bytes are: a token has 256 random bits, so there is nothing to be guessed
//! that a slow hash would protect, and who sees how far two hashes agree learns nothing about a token. Must not: say what
//! a role may do; the routes do.

use engine::{Operator, Operators, ROOT, Role, UnixMs};
use ring::digest;
use ring::rand::{SecureRandom, SystemRandom};

use crate::http::wire::push_hex;

/// How a token begins, so that people and scanners for secrets see what it is.
const PREFIX: &str = "dbo_";
const RANDOM_BYTES: usize = 32;

/// An operator who asks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::http) struct Actor {
    pub(in crate::http) name: Box<str>,
    pub(in crate::http) role: Role,
}

impl Actor {
    /// Whoever has the token of the configuration.
    pub(super) fn root() -> Actor {
        Actor { name: ROOT.into(), role: Role::Admin }
    }

    pub(super) fn of(operator: &Operator) -> Actor {
        Actor { name: operator.name.clone(), role: operator.role }
    }
}

/// Who may, at a time. Whether a token has expired nobody knows while the server's clock is in doubt, so one that expires is
/// not taken then: with a clock that stands it would be good for ever.
#[derive(Clone, Copy, Debug)]
pub(in crate::http) struct OperatorsNow<'a> {
    pub(in crate::http) operators: &'a Operators,
    /// The latest that it may be: see [`Clock::latest`](crate::clock::Clock::latest).
    pub(in crate::http) now: UnixMs,
    pub(in crate::http) is_confirmed: bool,
}

impl OperatorsNow<'_> {
    /// Whose token this is. One that is unknown, revoked or expired costs the same, and is answered alike.
    pub(super) fn by_token(&self, token: &str) -> Option<&Operator> {
        // Buyers' tokens come here, too: they cost nothing.
        let digest = token.starts_with(PREFIX).then(|| digest_of(token))?;
        let found = self.operators.iter().find(|operator| operator.digest == digest);
        found.filter(|operator| self.is_in_time(operator))
    }

    pub(super) fn by_name(&self, name: &str) -> Option<&Operator> {
        self.operators.get(name).filter(|operator| self.is_in_time(operator))
    }

    fn is_in_time(&self, operator: &Operator) -> bool {
        if self.is_confirmed { !operator.is_expired(self.now) } else { operator.expires_at.is_none() }
    }
}

/// A new token for an operator of this name.
pub(in crate::http) fn new_token(name: &str) -> String {
    let mut random = [0; RANDOM_BYTES];
    SystemRandom::new().fill(&mut random).expect("the system gives entropy");
    let mut token = format!("{PREFIX}{name}_").into_bytes();
    push_hex(&mut token, &random);
    String::from_utf8(token).expect("a name is text, and digits are")
}

pub(in crate::http) fn digest_of(token: &str) -> [u8; 32] {
    let digest = digest::digest(&digest::SHA256, token.as_bytes());
    digest.as_ref().try_into().expect("SHA-256 has 32 bytes")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_known_until_it_expires_and_no_other_is() {
        let token = new_token("anna");
        assert_eq!((token.len(), token.starts_with("dbo_anna_")), (4 + 5 + 64, true));
        assert_ne!(token, new_token("anna"));
        let (role, by, expires_at) = (Role::Support, ROOT.into(), Some(UnixMs(10)));
        let digest = digest_of(&token);
        let anna = Operator { name: "anna".into(), role, digest, added_at: UnixMs(1), by, expires_at };
        let operators = Operators::new(vec![anna]);
        for (token, now, known) in [
            (&*token, 9, true),
            (&token, 10, false),
            (&token[1..], 9, false),
            (&token.to_uppercase(), 9, false),
            ("dbo_anna_", 9, false),
            ("", 9, false),
        ] {
            let found = at(&operators, now);
            assert_eq!(found.by_token(token).is_some(), known, "{token} at {now}");
        }
        let known = |name, now| at(&operators, now).by_name(name).is_some();
        assert_eq!([known("anna", 9), known("anna", 10), known("ben", 9)], [true, false, false]);
    }

    fn at(operators: &Operators, now: u64) -> OperatorsNow<'_> {
        OperatorsNow { operators, now: UnixMs(now), is_confirmed: true }
    }

    /// An expired token was good again as long as the clock stood before its end.
    #[test]
    fn while_the_clock_is_in_doubt_only_a_token_without_an_end_is_taken() {
        for (expires_at, is_confirmed, known) in [
            (Some(UnixMs(10)), true, true),
            (Some(UnixMs(10)), false, false),
            (Some(UnixMs(1)), false, false),
            (None, true, true),
            (None, false, true),
        ] {
            let (role, by, digest) = (Role::Admin, ROOT.into(), digest_of("dbo_anna_1"));
            let anna = Operator { name: "anna".into(), role, digest, added_at: UnixMs(1), by, expires_at };
            let operators = Operators::new(vec![anna]);
            let found = OperatorsNow { operators: &operators, now: UnixMs(2), is_confirmed };
            let found = [found.by_token("dbo_anna_1"), found.by_name("anna")].map(|found| found.is_some());
            assert_eq!(found, [known; 2], "{expires_at:?} {is_confirmed}");
        }
    }
}
