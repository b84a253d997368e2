//! Removing the addresses of buyers who were erased, for every backend: which rows of `meta` say that some are left, and
//! which of them one pass over the orders serves.
//!
//! Orders have no index by buyer, so a pass goes through all that may have an address, a bounded number at a time; buyers who
//! are erased while it runs wait for the next one. A text goes with the entry itself. Must not: know a database.

use engine::{BuyerId, Seq};

use super::rows::{RowError, buyer_of, int};

/// Bounds between which the names of the waiting erasures are.
pub(super) const WAITING_FROM: &str = "erase:";
pub(super) const WAITING_TO: &str = "erase;";
/// How far a pass has come, and the last erasure that it serves: the numbers of an order and of an entry. Absent: none has begun.
pub(super) const PASS_AT: &str = "erasing_at";
pub(super) const PASS_TO: &str = "erasing_to";
/// Buyers of one pass.
pub(super) const BUYERS_MAX: u32 = 100;

/// The row of `meta` that an erasure is waiting under: in the order of the entries.
pub(super) fn waiting_name(seq: Seq) -> String {
    format!("{WAITING_FROM}{:020}", seq.0)
}

/// Whose addresses one pass removes: from orders before entry `to`.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Pass {
    pub(super) buyers: Vec<BuyerId>,
    pub(super) to: i64,
}

impl Pass {
    /// `waiting`: the oldest erasures, names and buyers, at most [`BUYERS_MAX`]. `begun_to`: of a pass that has begun.
    pub(super) fn of(waiting: &[(String, String)], begun_to: Option<i64>) -> Result<Option<Pass>, RowError> {
        let mut pass = Pass { buyers: Vec::with_capacity(waiting.len()), to: 0 };
        for (name, buyer) in waiting {
            let seq = name.strip_prefix(WAITING_FROM).and_then(|seq| seq.parse().ok());
            let seq = int(seq.ok_or_else(|| RowError::Unknown(name.clone()))?);
            if begun_to.is_none_or(|to| seq <= to) {
                pass.buyers.push(buyer_of(buyer)?);
                pass.to = seq;
            }
        }
        Ok(Some(pass).filter(|pass| !pass.buyers.is_empty()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pass_that_has_begun_takes_nobody_in() {
        let hash = BuyerId::of_hash(7);
        let waiting = [(9, BuyerId(1)), (10, hash), (11, BuyerId(2))]
            .map(|(seq, buyer)| (waiting_name(Seq(seq)), buyer.to_string()));
        let of = |begun_to| Pass::of(&waiting, begun_to).unwrap();
        assert_eq!(of(None), Some(Pass { buyers: vec![BuyerId(1), hash, BuyerId(2)], to: 11 }));
        assert_eq!(of(Some(10)), Some(Pass { buyers: vec![BuyerId(1), hash], to: 10 }));
        assert_eq!(of(Some(8)), None);
        assert!(waiting.is_sorted() && waiting.iter().all(|(name, _)| name.as_str() < WAITING_TO));
        for (name, buyer) in
            [("erase:x", "1"), ("erase:1", "anna"), ("erase:1", "00000000000000000000000000000007")]
        {
            Pass::of(&[(name.to_owned(), buyer.to_owned())], None).unwrap_err();
        }
    }
}
