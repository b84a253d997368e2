//! A bound per address, for requests that had to prove who sends them and did not.
//!
//! Networks have slots of a table of fixed size, by a keyed hash: nobody can choose to share one with somebody else, and
//! no number of addresses makes it grow. Who does prove it never comes here, whatever else comes from that address: a
//! carrier's NAT or a CDN has thousands of buyers behind one.

use std::hash::{BuildHasher, RandomState};
use std::net::IpAddr;
use std::sync::atomic::AtomicU64;

use super::shares::take;
use crate::net::network_of;
use crate::time::Instant;

/// 8 bytes each. Two of a few hundred addresses share one, and its rate.
const SLOTS: usize = 1 << 16;

/// Shared by all event loops.
#[derive(Debug)]
pub struct AddressRate {
    per_s: u64,
    slots: Box<[AtomicU64]>,
    hasher: RandomState,
    epoch: Instant,
}

impl AddressRate {
    /// So many a second of one address (IPv6: of one network); a second's worth may come at once. 0: no bound.
    pub fn new(per_s: u64) -> AddressRate {
        let slots = if per_s == 0 { 0 } else { SLOTS };
        AddressRate {
            per_s,
            slots: (0..slots).map(|_| AtomicU64::new(0)).collect(),
            hasher: RandomState::new(),
            epoch: Instant::now(),
        }
    }

    /// Counts one request.
    ///
    /// # Errors
    /// It is one too many: in so many milliseconds there is room for another.
    pub fn count(&self, address: IpAddr) -> Result<(), u64> {
        let now_ns = u64::try_from(self.epoch.elapsed().as_nanos()).unwrap_or(u64::MAX);
        self.count_at(address, now_ns)
    }

    fn count_at(&self, address: IpAddr, now_ns: u64) -> Result<(), u64> {
        if self.per_s == 0 {
            return Ok(());
        }
        let at = self.hasher.hash_one(network_of(address)) % SLOTS as u64;
        let slot = &self.slots[usize::try_from(at).expect("a small number")];
        take(slot, now_ns, self.per_s, self.per_s).map_err(|wait_ns| wait_ns.div_ceil(1_000_000))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_has_a_seconds_worth_at_once_and_then_the_rate() {
        let rate = AddressRate::new(2);
        let count = |address: &str, ms: u64| rate.count_at(address.parse().unwrap(), ms * 1_000_000);
        assert_eq!([count("192.0.2.1", 0), count("192.0.2.1", 0)], [Ok(()), Ok(())]);
        assert_eq!(count("::ffff:192.0.2.1", 0), Err(500));
        assert_eq!([count("192.0.2.1", 500), count("192.0.2.1", 500)], [Ok(()), Err(500)]);
        assert_eq!([count("2001:db8::1", 0), count("2001:db8::2", 0)], [Ok(()), Ok(())]);
        assert_eq!(count("2001:db8:0:0:ffff::3", 0), Err(500), "an IPv6 network counts as one");
    }

    #[test]
    fn without_a_rate_there_is_no_bound() {
        let rate = AddressRate::new(0);
        assert!((0..1000).all(|_| rate.count_at([192, 0, 2, 1].into(), 0) == Ok(())));
    }
}
