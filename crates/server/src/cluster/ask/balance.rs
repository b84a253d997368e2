//! The balance of a shop's goods, set as a whole: for loads that are to find a given stock.
//!
//! All or none means the ledger here: one transaction moves every item or none. Units that go are claimed at the gate
//! before, all of them, and given back if one can't be had; so no accepted order loses its units, whether the ledger has it
//! yet or not. The gate hears of the items one by one: for a moment a buyer may find one moved and another not. And orders
//! that come in while it is set take their units as always, so the balance is exact only while nobody buys.

use std::collections::HashMap;

use engine::balance::{Balance, plan};
use engine::handover::{Claim, Grant, Settle, Verdict};
use engine::rules::Declined;
use engine::working_set::Operation;
use engine::{Adjust, Command, Refusal, SaleId, Seq, SkuId};

use super::commands::{CLAIM_TRUSTED, Commanding, Taken};
use crate::cluster::answers::NotServed;
use crate::cluster::settle::reconcile::pump_outbox;
use crate::cluster::settle::settle;
use crate::gate::{ClaimRequest, Open, OpenRecord, limits};
use crate::intake::Reply;
use crate::ledger::mysql::cluster::{LedgerError, correction_id};
use crate::time::Instant;

/// The task's name in the ledger, and how long whoever died at it keeps others out.
const LEASE: &str = "balance";
const LEASE_MS: u64 = 30_000;
/// SKUs whose open reservations are read at once; each may have a thousand.
const SKUS_AT_ONCE: usize = 256;

/// Why units were not claimed. What was claimed before has been given back.
#[derive(Debug)]
enum NotClaimed {
    /// Fewer are free than go.
    TooFew,
    NotServed(NotServed),
}

impl From<NotClaimed> for Reply {
    fn from(why: NotClaimed) -> Reply {
        match why {
            NotClaimed::TooFew => Reply::Refused(Refusal::CorrectionTooLarge(None)),
            // Nothing was recorded; what the gate may have taken without an answer, reconciliation gives back.
            NotClaimed::NotServed(NotServed::Unknown) => Reply::Unavailable,
            NotClaimed::NotServed(why) => why.into(),
        }
    }
}

impl Commanding<'_> {
    /// Moves each item of a sale to this many available units at the gate, all of them or none. Two that set a balance at
    /// once would each move what the other has moved: one does, by a lease that its transaction is fenced with.
    pub(super) fn set_balance(&mut self, sale: SaleId, available: u64) -> Result<Reply, LedgerError> {
        let Some(lease) = self.ledger.lease(LEASE, self.core.options.server_id, LEASE_MS)? else {
            return Ok(Reply::Unavailable);
        };
        self.ledger.fence_with(Some(lease.clone()));
        let done = self.move_all(sale, available);
        self.ledger.fence_with(None);
        if let Err(error) = self.ledger.release(&lease) {
            tracing::debug!(%error, "the lease of a balance was not given up; its time ends soon");
        }
        done
    }

    fn move_all(&mut self, sale: SaleId, available: u64) -> Result<Reply, LedgerError> {
        let skus: Vec<_> = self.core.items_of(sale).into_iter().map(|item| item.sku).collect();
        if skus.is_empty() {
            return Ok(Reply::Refused(Refusal::UnknownSale));
        }
        // What was returned may still be on its way to the gate.
        pump_outbox(self.core, &mut *self.ledger, &mut self.gate)?;
        let (last, _) = self.ledger.end()?;
        let Some(items) = self.balances(&skus)? else { return Ok(Reply::Unavailable) };
        let plan = match plan(&items, available, Seq(last.0 + 1)) {
            Ok(plan) => plan,
            Err(refusal) => return Ok(Reply::Refused(refusal)),
        };
        let (operations, taken) = match self.claim_all(plan) {
            Ok(claimed) => claimed,
            Err(why) => return Ok(why.into()),
        };
        let executed = self.ledger.execute_all(self.core.clock.now(), &operations).inspect_err(|error| {
            // Surely nothing was changed, so the units go back at once. If that is not known, reconciliation looks.
            if matches!(error, LedgerError::Unavailable(_) | LedgerError::Fenced(_)) {
                self.end_claims(&taken, Verdict::ClaimUndone);
            }
        })?;
        match executed {
            Ok(_) => {
                self.end_claims(&taken, Verdict::ClaimKept);
                if let Err(error) = pump_outbox(self.core, &mut *self.ledger, &mut self.gate) {
                    self.core.warnings.returning.met(&error);
                }
                self.show_stock(&skus, &[]);
                Ok(Reply::BalanceSet { items: skus.len() })
            }
            Err(why) => {
                self.end_claims(&taken, Verdict::ClaimUndone);
                Ok(match why {
                    Declined::Refused(refusal) => Reply::Refused(refusal),
                    // A gate was built anew since it was asked: nothing was recorded, the same can be asked again.
                    Declined::NeedsClaim(_) => Reply::Unavailable,
                })
            }
        }
    }

    /// The items as they stand: available at the gate, in total in the ledger. `None`: a gate does not answer, is closed and
    /// may show anything, or holds units for a correction of which nobody knows yet whether it was made.
    fn balances(&mut self, skus: &[SkuId]) -> Result<Option<Vec<Balance>>, LedgerError> {
        let rows = self.ledger.stocks_of(skus)?;
        let totals: HashMap<_, _> = rows.iter().map(|row| (row.sku, row.stock.total())).collect();
        let mut items = Vec::with_capacity(skus.len());
        for skus in skus.chunks(SKUS_AT_ONCE) {
            let states = self.gate.states(skus);
            let open = self.gate.open_of_each(skus, 0, None, limits::OPEN_ROWS_MAX);
            for ((sku, state), open) in skus.iter().zip(states).zip(open) {
                let (Ok(Some(state)), Ok(open), Some(total)) = (state, open, totals.get(sku)) else {
                    return Ok(None);
                };
                // Both were read at the same moment, or it is not known what was available without the claims.
                if state.closed.is_some() || state.seen != open.seen || may_be_corrected(&open.what) {
                    return Ok(None);
                }
                let available = u64::try_from(state.seen.available).unwrap_or(0);
                items.push(Balance::without_line(*sku, *total, available));
            }
        }
        Ok(Some(items))
    }

    /// Has the gate take the units of every correction in the plan. If one can't be had, the others go back.
    fn claim_all(&mut self, plan: Vec<Command>) -> Result<(Vec<Operation>, Vec<Taken>), NotClaimed> {
        let mut operations = Vec::with_capacity(plan.len());
        let (mut claims, mut keys) = (Vec::new(), Vec::new());
        for command in plan {
            if let Command::Adjust { sku, how: Adjust::Correct, units, ref key } = command {
                claims.push((operations.len(), Claim::Correction { id: correction_id(sku, key), units }));
                keys.push(key.clone());
            }
            operations.push(Operation::of(command, Grant::NotAsked).expect("an adjustment places nothing"));
        }
        let requests: Vec<_> = claims
            .iter()
            .zip(&keys)
            .map(|((_, claim), key)| ClaimRequest { claim: *claim, record: key.as_bytes() })
            .collect();
        let at = Instant::now();
        let answers = self.gate.claim(&requests);
        let (mut all, mut failed) = (Vec::new(), None);
        for ((position, claim), answer) in claims.into_iter().zip(answers) {
            match self.granted(claim.id(), at, answer) {
                Ok((grant @ Grant::Taken { .. }, taken)) => {
                    operations[position] = operations[position].with(grant);
                    all.extend(taken);
                }
                Ok(_) => failed = Some(NotClaimed::TooFew),
                Err(why) => failed = Some(NotClaimed::NotServed(why)),
            }
        }
        if at.elapsed() > CLAIM_TRUSTED {
            failed = Some(NotClaimed::NotServed(NotServed::Unavailable));
        }
        match failed {
            None => Ok((operations, all)),
            Some(why) => {
                self.end_claims(&all, Verdict::ClaimUndone);
                Err(why)
            }
        }
    }

    fn end_claims(&mut self, taken: &[Taken], verdict: Verdict) {
        let settles: Vec<_> =
            taken.iter().map(|Taken { id, epoch, .. }| Settle { id: *id, epoch: *epoch, verdict }).collect();
        settle(self.core, &mut self.gate, &settles);
    }
}

/// Whether a correction is open here, or there is more than could be read.
fn may_be_corrected(open: &[OpenRecord]) -> bool {
    open.len() >= limits::OPEN_ROWS_MAX
        || open.iter().any(|open| matches!(open.what, Open::Claim(Claim::Correction { .. })))
}
