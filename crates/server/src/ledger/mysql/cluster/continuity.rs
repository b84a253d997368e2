//! Whether the ledger still has what this server knows to be in it: a replica that takes over may lack the latest transactions.
//!
//! A server remembers the newest entry that it has seen or committed, and looks for it with every new connection, and whenever it
//! reads what the gates are to hear. Whoever finds it missing follows the sales anew and has all gates rebuilt.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use engine::{Seq, UnixMs};

/// What all connections of one server know together.
#[derive(Clone, Debug, Default)]
pub struct Continuity(Arc<Mutex<Known>>);

#[derive(Debug, Default)]
struct Known {
    end: (Seq, UnixMs),
    times_back: u64,
}

impl Continuity {
    /// The newest entry that was seen, and its time. Hardly two have both in common: a number that is given again is given later,
    /// unless the ledger's time stood still because a clock was ahead.
    pub fn end(&self) -> (Seq, UnixMs) {
        self.lock().end
    }

    /// How often the ledger was found without it.
    pub fn times_back(&self) -> u64 {
        self.lock().times_back
    }

    /// Takes in what one look has shown: the entry that was `asked` for has this time, if it is there, and the ledger ends here.
    pub fn looked(&self, asked: (Seq, UnixMs), found: Option<UnixMs>, end: (Seq, UnixMs)) {
        let mut known = self.lock();
        if asked.0 == Seq(0) || found == Some(asked.1) {
            // Another look may have seen more meanwhile.
            if known.end.0 < end.0 {
                known.end = end;
            }
        } else if known.end == asked {
            // Whoever finds out second learns nothing new.
            known.end = end;
            known.times_back += 1;
            tracing::error!(
                missing = asked.0.0,
                last = end.0.0,
                "the ledger has lost its latest entries: a database without them has taken over. What they answered may not hold; \
                 the gates are rebuilt"
            );
        }
    }

    /// Takes in the last entry of a transaction of this server's. Its connection has looked back when it was made.
    pub fn committed(&self, end: (Seq, UnixMs)) {
        let mut known = self.lock();
        if known.end.0 < end.0 {
            known.end = end;
        }
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn entry(seq: u64, at: u64) -> (Seq, UnixMs) {
        (Seq(seq), UnixMs(at))
    }

    #[test]
    fn a_ledger_without_the_newest_entry_has_gone_back_and_once() {
        let continuity = Continuity::default();
        let look = |asked: (Seq, UnixMs), found: Option<u64>, end| {
            continuity.looked(asked, found.map(UnixMs), end);
            (continuity.end(), continuity.times_back())
        };
        assert_eq!(look(entry(0, 0), None, entry(5, 50)), (entry(5, 50), 0));
        assert_eq!(look(entry(5, 50), Some(50), entry(9, 90)), (entry(9, 90), 0));
        assert_eq!(look(entry(5, 50), Some(50), entry(7, 70)), (entry(9, 90), 0), "a look that took long");
        assert_eq!(look(entry(9, 90), None, entry(6, 60)), (entry(6, 60), 1));
        assert_eq!(look(entry(9, 90), None, entry(6, 60)), (entry(6, 60), 1), "found out twice");
        assert_eq!(
            look(entry(6, 60), Some(61), entry(8, 80)),
            (entry(8, 80), 2),
            "another entry in its place"
        );
        assert_eq!(look(entry(8, 80), Some(80), entry(8, 80)), (entry(8, 80), 2));
        continuity.committed(entry(9, 95));
        continuity.committed(entry(7, 99));
        assert_eq!(continuity.end(), entry(9, 95));
        assert_eq!(look(entry(9, 95), None, entry(8, 80)), (entry(8, 80), 3), "its own, just answered");
    }
}
