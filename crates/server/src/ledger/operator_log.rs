//! What operators did, the latest first: one page of it.
//!
//! Their entries stand among others that have no table of their own, and are found by an index: a page costs what it has, whatever
//! else is there. One of a single sale may be empty although more follow. Must not: read anything itself.

use engine::{Operated, SaleId, UnixMs};

use super::rows::{RowError, operated};

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
    /// Those before this entry.
    pub before: u64,
    /// Those about this sale.
    pub sale: Option<SaleId>,
    pub max: u64,
}

impl OperatorLog {
    /// Of rows, at most as many as were asked for.
    pub(super) fn of(
        asked: &OperatorLogAsked,
        rows: Vec<(u64, u64, Vec<u8>)>,
    ) -> Result<OperatorLog, RowError> {
        let oldest = rows.last().map(|(seq, ..)| *seq);
        let older = oldest.filter(|_| rows.len() as u64 >= asked.max);
        let action = |(seq, at, body): (u64, u64, Vec<u8>)| {
            Ok(OperatorAction { seq, at: UnixMs(at), operated: operated(&body)? })
        };
        let actions = rows.into_iter().map(action).collect::<Result<Vec<_>, RowError>>()?;
        let wanted = |action: &OperatorAction| asked.sale.is_none() || asked.sale == action.operated.sale;
        Ok(OperatorLog { actions: actions.into_iter().filter(wanted).collect(), older })
    }
}
