//! What operators did, the latest first: one page of it.
//!
//! Their entries stand among others that have no table of their own, without an index: a page looks at a bounded number
//! of them, and may so be empty although more follow. Must not: read anything itself.

use engine::{Operated, SaleId, UnixMs};

use super::rows::{RowError, operated};

/// Entries that a page may look at: a hundredth of a second of reading.
pub(super) const LOOKED_AT_MAX: u64 = 20_000;

/// What an operator did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OperatorAction {
    pub seq: u64,
    pub at: UnixMs,
    pub operated: Operated,
}

/// A page.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OperatorLog {
    /// The latest first.
    pub actions: Vec<OperatorAction>,
    /// Older ones, if there are any, are before this entry.
    pub older: Option<u64>,
}

/// What of them is asked for.
#[derive(Clone, Copy, Debug)]
pub struct OperatorLogAsked {
    /// Those of before this entry.
    pub before: u64,
    /// Those about this sale.
    pub sale: Option<SaleId>,
    pub max: u64,
}

impl OperatorLog {
    /// Of rows, at most as many as were asked for; `looked_at`: the oldest of the entries that were looked at, and how many.
    pub(super) fn of(
        asked: &OperatorLogAsked,
        rows: Vec<(u64, u64, Vec<u8>)>,
        (oldest, entries): (u64, u64),
    ) -> Result<OperatorLog, RowError> {
        let older = match rows.last() {
            Some((seq, ..)) if rows.len() as u64 >= asked.max => Some(*seq),
            _ => (entries >= LOOKED_AT_MAX).then_some(oldest),
        };
        let action = |(seq, at, body): (u64, u64, Vec<u8>)| {
            Ok(OperatorAction { seq, at: UnixMs(at), operated: operated(&body)? })
        };
        let actions = rows.into_iter().map(action).collect::<Result<Vec<_>, RowError>>()?;
        let wanted = |action: &OperatorAction| asked.sale.is_none() || asked.sale == action.operated.sale;
        Ok(OperatorLog { actions: actions.into_iter().filter(wanted).collect(), older })
    }
}
