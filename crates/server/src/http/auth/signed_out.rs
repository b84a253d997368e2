//! Sessions of the console that were signed out: a copy of their cookie is good no longer.
//!
//! Of this server since its start alone: what would end them on all is the operator's token.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

use engine::UnixMs;

use super::console::ConsoleSession;

/// With more, the one that was begun first is forgotten: it ends soonest.
const SIGNED_OUT_MAX: usize = 4_096;

/// By when they were begun, and whose they are: a cookie that was given a later end is of the same session.
#[derive(Debug, Default)]
pub(in crate::http) struct SignedOut(Mutex<BTreeSet<(UnixMs, Box<str>)>>);

impl SignedOut {
    /// Only a session that is good is noted, so whoever has none fills nothing.
    pub(in crate::http) fn note(&self, session: &ConsoleSession, now: UnixMs) {
        let mut sessions = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        sessions.retain(|(begun, _)| !ConsoleSession::is_over(*begun, now));
        sessions.insert((session.begun, session.actor.name.clone()));
        if sessions.len() > SIGNED_OUT_MAX {
            sessions.pop_first();
        }
    }

    pub(in crate::http) fn holds(&self, session: &ConsoleSession) -> bool {
        let sessions = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        sessions.contains(&(session.begun, session.actor.name.clone()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::auth::operators::Actor;

    #[test]
    fn it_is_bounded_and_forgets_what_is_over_and_then_what_was_begun_first() {
        let session = |begun: u64| {
            let (until, begun) = (UnixMs(begun + 1), UnixMs(begun));
            ConsoleSession { until, begun, secure: false, actor: Actor::root() }
        };
        let (signed_out, now) = (SignedOut::default(), UnixMs(1_700_000_000_000));
        let first = session(now.0);
        signed_out.note(&first, now);
        let another =
            ConsoleSession { actor: Actor { name: "anna".into(), ..Actor::root() }, ..first.clone() };
        assert!(
            signed_out.holds(&first) && !signed_out.holds(&another) && !signed_out.holds(&session(now.0 + 1))
        );
        for later in 1..SIGNED_OUT_MAX as u64 {
            signed_out.note(&session(now.0 + later), now);
        }
        assert!(signed_out.holds(&first));
        signed_out.note(&session(now.0 + SIGNED_OUT_MAX as u64), now);
        assert!(!signed_out.holds(&first) && signed_out.holds(&session(now.0 + 1)));
        signed_out.note(&session(now.0), now.plus(13 * 3_600_000));
        assert_eq!(signed_out.0.lock().unwrap().len(), 1, "no cookie of the others can be good");
    }
}
