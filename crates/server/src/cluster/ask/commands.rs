//! What changes the ledger but does not place: paying and cancelling, and what operators do.
//!
//! A batch is one transaction. An order that is pending is waited for, a little. Units that a late payment or a
//! correction needs are claimed at the gate first, because what is in flight is the gate's knowledge. What a command
//! returns to sale is at the gate before its answer, and so is a sale's new state, at every gate: a server that the
//! ledger can't reach asks the same gate.

use std::time::Duration;

use engine::handover::{Claim, Grant, Settle, Verdict};
use engine::working_set::{Executed, Operation};
use engine::{Accepted, By, Command, OrderId, Pay, Refund, Refusal, SaleId, SkuId};

use crate::cluster::Core;
use crate::cluster::answers::{Answers, NotServed, ReplyTo};
use crate::cluster::ask::refresh::look_at_ledger;
use crate::cluster::ask::status::{Whereabouts, find};
use crate::cluster::looks::is_live;
use crate::cluster::settle::reconcile::pump_outbox;
use crate::cluster::settle::settle;
use crate::cluster::work::Instruction;
use crate::gate::{ClaimRequest, Claimed, Closed, Gate, GateAnswer, GateError, GateState, SaleSet};
use crate::intake::Drained;
use crate::intake::Reply;
use crate::ledger::mysql::cluster::{ClusterLedger, LedgerError};
use crate::time::Instant;

const PATIENCE: Duration = Duration::from_millis(200);
const LOOK_INTERVAL: Duration = Duration::from_millis(50);
/// How long a payment or a cancellation waits for its order to reach the ledger.
const PENDING_WAIT: Duration = Duration::from_secs(2);
const BATCH_MAX: usize = 512;
/// After this every server has looked for new sales.
const SEEN_AFTER: Duration = Duration::from_millis(300);
/// How long the answer to a new sale waits for its gates.
const BUILT_WITHIN: Duration = Duration::from_secs(5);
/// A claim that is older is not used: reconciliation may be about to judge it.
pub(super) const CLAIM_TRUSTED: Duration = Duration::from_secs(5);

/// A command with the time until which its order is waited for.
#[derive(Debug)]
struct WaitingCommand {
    to: ReplyTo,
    command: Command,
    by: Option<By>,
    until: Instant,
}

/// Units taken at the gate for a command.
#[derive(Clone, Copy, Debug)]
pub(super) struct Taken {
    pub(super) id: OrderId,
    pub(super) epoch: u64,
    at: Instant,
}

/// The stage that changes. Lives on one thread.
#[derive(Debug)]
pub(in crate::cluster) struct Commanding<'a> {
    pub(super) core: &'a Core,
    pub(super) ledger: Box<dyn ClusterLedger>,
    pub(super) gate: Gate,
    answers: Answers,
}

impl<'a> Commanding<'a> {
    pub(in crate::cluster) fn new(
        core: &'a Core,
        ledger: Box<dyn ClusterLedger>,
        gate: Gate,
    ) -> Commanding<'a> {
        Commanding { core, ledger, gate, answers: Answers::new(&core.mailbox) }
    }

    /// Runs until the stage is closed and empty.
    pub(in crate::cluster) fn run(mut self) {
        let (mut work, mut waiting) = (Vec::new(), Vec::<WaitingCommand>::new());
        loop {
            let patience = if waiting.is_empty() { PATIENCE } else { LOOK_INTERVAL };
            let drained = self.core.commands.drain(&mut work, BATCH_MAX, patience);
            if drained == Drained::Closed {
                if waiting.is_empty() {
                    break;
                }
                crate::time::sleep(LOOK_INTERVAL);
            }
            let mut asked = std::mem::take(&mut waiting);
            for work in work.drain(..) {
                match work {
                    Instruction::Execute { to, command, by } => {
                        asked.push(WaitingCommand { to, command, by, until: Instant::now() + PENDING_WAIT });
                    }
                    Instruction::SetBalance { to, sale, balance } => {
                        let reply = self.set_balance(sale, balance).unwrap_or_else(|error| {
                            self.core.warnings.balancing.met(&error);
                            not_done_by(&error)
                        });
                        self.answers.push(to, reply);
                    }
                }
            }
            self.batch(asked, &mut waiting);
            self.answers.hand_over(&self.core.mailbox);
        }
    }

    fn batch(&mut self, asked: Vec<WaitingCommand>, waiting: &mut Vec<WaitingCommand>) {
        let mut ready = self.sort_out(asked, waiting);
        while !ready.is_empty() {
            let rest = ready.split_off(ready.len().min(BATCH_MAX));
            self.carry_out(ready);
            ready = rest;
        }
    }

    /// At most as many as one transaction takes.
    fn carry_out(&mut self, ready: Vec<WaitingCommand>) {
        let commands = ready.iter().map(|asked| (asked.command.clone(), asked.by.clone())).collect();
        match self.execute(commands) {
            Ok(replies) => {
                self.core.warnings.commanding.well();
                for (asked, reply) in ready.into_iter().zip(replies) {
                    self.answers.push(asked.to, reply);
                }
            }
            Err(error) => {
                self.core.warnings.commanding.met(&error);
                for asked in ready {
                    self.answers.push(asked.to, not_done_by(&error));
                }
            }
        }
    }

    /// Keeps back what is about an order that is on its way to the ledger.
    fn sort_out(
        &mut self,
        asked: Vec<WaitingCommand>,
        waiting: &mut Vec<WaitingCommand>,
    ) -> Vec<WaitingCommand> {
        let ids: Vec<_> = asked.iter().filter_map(|asked| order_of(&asked.command)).collect();
        let mut found = find(self.core, &mut *self.ledger, &mut self.gate, &ids).into_iter();
        let now = Instant::now();
        let mut ready = Vec::new();
        for asked in asked {
            if order_of(&asked.command).is_none() {
                ready.push(asked);
                continue;
            }
            match found.next().expect("each order has its whereabouts") {
                Whereabouts::Ledger(_) | Whereabouts::Nowhere => ready.push(asked),
                Whereabouts::Pending(_) | Whereabouts::Unclear if now < asked.until => waiting.push(asked),
                Whereabouts::Pending(_) => self.answers.push(asked.to, Reply::StillPending),
                Whereabouts::Unclear | Whereabouts::Silent => self.answers.push(asked.to, Reply::Unavailable),
            }
        }
        ready
    }

    /// Carries commands out: in the ledger, and then at the gate.
    fn execute(&mut self, commands: Vec<(Command, Option<By>)>) -> Result<Vec<Reply>, LedgerError> {
        let operations: Vec<_> = commands
            .into_iter()
            .map(|(command, by)| {
                let operation = Operation::of(command, Grant::NotAsked);
                operation.expect("placing goes through the gate").by(by).among_servers()
            })
            .collect();
        let executed = self.ledger.execute(self.core.clock.now(), &operations)?;
        let committed = Instant::now();
        let mut created = Vec::new();
        let mut replies = Vec::with_capacity(executed.len());
        for (operation, executed) in operations.into_iter().zip(executed) {
            if let Command::CreateSale(spec) = operation.command() {
                created.push(spec.id);
            }
            replies.push(self.finish(operation, executed));
        }
        self.core.count_holds_ended(&mut *self.ledger);
        let unheard = self.report_to_gate(&replies, &created, committed);
        for reply in &mut replies {
            // It is in the ledger, and reconciliation will update the gates. But until then somebody may buy.
            if matches!(reply, Reply::Accepted(Accepted::Sale(sale)) if unheard.contains(sale)) {
                *reply = Reply::Unknown;
            }
        }
        Ok(replies)
    }

    /// What a command came to, once more with a claim if it needs one. The others of its batch are committed by now:
    /// what becomes of this one is no matter of theirs.
    fn finish(&mut self, operation: Operation, executed: Executed) -> Reply {
        let executed = match executed {
            Executed::NeedsClaim(claim) => match self.with_claim(operation, claim) {
                Ok(Ok(executed)) => executed,
                Ok(Err(why)) => return why.into(),
                Err(error) => {
                    self.core.warnings.claiming.met(&error);
                    return not_done_by(&error);
                }
            },
            executed => executed,
        };
        match executed {
            Executed::Accepted(accepted) => Reply::Accepted(accepted),
            Executed::Refused(refusal) => Reply::Refused(refusal),
            // What it was claimed for was true a moment ago: somebody else was faster.
            Executed::NeedsClaim(_) => Reply::Unknown,
        }
    }

    /// So that a token holds on this server when its answer comes, and one that was revoked does not.
    fn look_at_operators(&mut self) {
        if let Ok(operators) = self.ledger.operators() {
            self.core.operators.publish(&operators);
        }
    }

    /// Reports to the gate what was committed; returns the sales of which some gate did not hear.
    fn report_to_gate(&mut self, replies: &[Reply], created: &[SaleId], committed: Instant) -> Vec<SaleId> {
        let (mut sales, mut stocked, mut returns) = (Vec::new(), Vec::new(), false);
        for reply in replies {
            match reply {
                Reply::Accepted(Accepted::Sale(sale)) => sales.push(*sale),
                Reply::Accepted(Accepted::Operators) => self.look_at_operators(),
                Reply::Accepted(accepted) => {
                    returns = true;
                    if let Accepted::Stock(sku) = accepted {
                        stocked.push(*sku);
                    }
                }
                _ => {}
            }
        }
        if returns && let Err(error) = pump_outbox(self.core, &mut *self.ledger, &mut self.gate) {
            self.core.warnings.returning.met(&error);
        }
        let unheard = match self.core.follow_sales(&mut *self.ledger) {
            Ok(()) => {
                let mut unheard = self.update_slots(&sales);
                let new = sales.into_iter().filter(|sale| created.contains(sale)).collect();
                unheard.extend(self.wait_for_slots(new, committed));
                unheard
            }
            Err(error) => {
                self.core.warnings.updating_gates.met(&error);
                sales
            }
        };
        if !stocked.is_empty() || !created.is_empty() {
            self.show_stock(&stocked, created);
        }
        unheard
    }

    /// Claims what a command needs at the gate and carries it out with that.
    fn with_claim(
        &mut self,
        operation: Operation,
        claim: Claim,
    ) -> Result<Result<Executed, NotServed>, LedgerError> {
        let (grant, taken) = match self.claim(&operation, claim) {
            Ok(granted) => granted,
            Err(reply) => return Ok(Err(reply)),
        };
        if taken.is_some_and(|taken| taken.at.elapsed() > CLAIM_TRUSTED) {
            return Ok(Err(NotServed::Unknown));
        }
        let operation = operation.with(grant);
        let executed = self.ledger.execute(self.core.clock.now(), &[operation])?.pop();
        let executed = executed.expect("one operation has one answer");
        if let Some(Taken { id, epoch, .. }) = taken {
            let kept = match &executed {
                Executed::Accepted(Accepted::Payment { payment, .. }) => {
                    payment.disposition == engine::Disposition::Applied
                }
                Executed::Accepted(_) => true,
                Executed::Refused(_) | Executed::NeedsClaim(_) => false,
            };
            let verdict = if kept { Verdict::ClaimKept } else { Verdict::ClaimUndone };
            settle(self.core, &mut self.gate, &[Settle { id, epoch, verdict }]);
        }
        Ok(Ok(executed))
    }

    fn claim(&mut self, operation: &Operation, claim: Claim) -> Result<(Grant, Option<Taken>), NotServed> {
        // What was returned may still be on its way to the gate, this order's units among it.
        if pump_outbox(self.core, &mut *self.ledger, &mut self.gate).is_err() {
            return Err(NotServed::Unavailable);
        }
        let record = match operation.command() {
            Command::Pay(pay) => pay.id.as_bytes(),
            Command::Adjust { key, .. } => key.as_bytes(),
            _ => unreachable!("payments and corrections alone are claimed for"),
        };
        let (id, at) = (claim.id(), Instant::now());
        let claimed = self.gate.claim(&[ClaimRequest { claim, record }]).pop();
        self.granted(id, at, claimed.expect("one claim has one answer"))
    }

    /// What the gate's answer to a claim is worth.
    pub(super) fn granted(
        &mut self,
        id: OrderId,
        at: Instant,
        claimed: Result<GateAnswer<Claimed>, GateError>,
    ) -> Result<(Grant, Option<Taken>), NotServed> {
        match claimed {
            Ok(answer) => {
                let taken = Some(Taken { id, epoch: answer.seen.epoch, at });
                match answer.what {
                    Claimed::Taken { .. } | Claimed::Settled => {
                        Ok((Grant::Taken { epoch: answer.seen.epoch }, taken))
                    }
                    // Another server is at it; it, or reconciliation, ends it.
                    Claimed::Open(_) => Err(NotServed::Unknown),
                    Claimed::Refused(Refusal::OverLimit) => Ok((Grant::OverLimit, None)),
                    Claimed::Refused(_) => Ok((Grant::SoldOut, None)),
                    Claimed::NotYet => Err(NotServed::StillPending),
                    Claimed::Drift => {
                        self.core.suspect(vec![id.sku]);
                        Err(NotServed::Unavailable)
                    }
                }
            }
            Err(GateError::Unknown(_)) => Err(NotServed::Unknown),
            Err(error) => {
                self.core.note_closed(id.sku, &error);
                Err(NotServed::Unavailable)
            }
        }
    }

    /// Gives every gate of these sales their state of now; returns the sales of which some gate did not hear.
    fn update_slots(&mut self, sales: &[SaleId]) -> Vec<SaleId> {
        let mut unheard = Vec::new();
        for sale in sales {
            let items = self.core.items_of(*sale).into_iter();
            let states: Vec<_> = items.map(|item| (item.sku, item.state, item.limit)).collect();
            let skus: Vec<_> = states.iter().map(|(sku, ..)| *sku).collect();
            // After the commit: a gate whose epoch is raised later than this is built by what its sale is now.
            let epochs = match self.ledger.stocks_of(&skus) {
                Ok(rows) => rows.into_iter().map(|row| (row.sku, row.epoch)),
                Err(error) => {
                    self.core.warnings.updating_gates.met(&error);
                    unheard.push(*sale);
                    continue;
                }
            };
            self.core.epochs.hear(epochs);
            let set = self.gate.set_sale(&states);
            if !skus.iter().zip(&set).all(|(sku, set)| has_heard(set, self.core.epochs.newest(*sku))) {
                unheard.push(*sale);
            }
        }
        unheard
    }

    /// Brings what an operator is about to be shown up to this moment.
    pub(super) fn show_stock(&mut self, stocked: &[SkuId], created: &[SaleId]) {
        let mut skus = stocked.to_vec();
        skus.extend(created.iter().flat_map(|sale| self.core.items_of(*sale)).map(|item| item.sku));
        for (sku, state) in skus.iter().zip(self.gate.states(&skus)) {
            if let Ok(Some(state)) = state {
                self.core.stock.observe(self.core, *sku, state.seen);
            }
        }
        skus.sort_unstable();
        look_at_ledger(self.core, &mut *self.ledger, &skus);
    }

    /// Waits until the gates of new sales are built, and every server has had the time to see the sales; returns those
    /// that were not built in time.
    fn wait_for_slots(&mut self, mut sales: Vec<SaleId>, committed: Instant) -> Vec<SaleId> {
        if sales.is_empty() {
            return sales;
        }
        crate::time::sleep(SEEN_AFTER.saturating_sub(committed.elapsed()));
        while !sales.is_empty() && committed.elapsed() < BUILT_WITHIN {
            sales.retain(|sale| {
                // What is over has no gate before somebody asks for it, and what is far off has the time to get one.
                let now = self.core.clock.now();
                let items = self.core.items_of(*sale).into_iter().filter(|item| is_live(item, now));
                let skus: Vec<_> = items.map(|item| item.sku).collect();
                let open = |state: &Result<Option<GateState>, _>| {
                    matches!(state, Ok(Some(state)) if state.closed.is_none())
                };
                !self.gate.states(&skus).iter().all(open)
            });
            if !sales.is_empty() {
                crate::time::sleep(LOOK_INTERVAL);
            }
        }
        sales
    }
}

/// Whether a gate sells by what it was told from now on. `newest`: its epoch, as far as this server has heard.
fn has_heard(set: &Result<GateAnswer<SaleSet>, GateError>, newest: u64) -> bool {
    match set {
        Ok(answer) => answer.seen.epoch >= newest,
        // That is an old master's: the one that sells is another.
        Err(GateError::Closed(Closed::RanBackwards)) => false,
        // A gate that was never built, or is to be, sells nothing; it is built with the state of then.
        Err(GateError::Closed(_)) => true,
        Err(GateError::NotExecuted(_) | GateError::Unknown(_)) => false,
    }
}

/// The order that a command is about.
fn order_of(command: &Command) -> Option<OrderId> {
    match command {
        Command::Cancel { order, .. }
        | Command::CancelFor(order)
        | Command::Address { order, .. }
        | Command::Pay(Pay { order, .. })
        | Command::Refund(Refund { order, .. }) => Some(*order),
        _ => None,
    }
}

fn not_done_by(error: &LedgerError) -> Reply {
    if matches!(error, LedgerError::Unknown(_)) { Reply::Unknown } else { Reply::Unavailable }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gate::{Seen, Why};

    /// A pause was answered by a server that was cut off with an old master, and the new one sold.
    #[test]
    fn the_slot_of_an_old_master_has_not_heard() {
        let answer =
            |epoch| Ok(GateAnswer { seen: Seen { epoch, seq: 1, available: 1 }, what: SaleSet::Done });
        let closed = |why| Err(GateError::Closed(why));
        for (set, is_heard) in [
            (answer(2), true),
            (answer(3), true),
            (answer(1), false),
            (closed(Closed::RanBackwards), false),
            (closed(Closed::Lost), true),
            (closed(Closed::Fenced), true),
            (closed(Closed::OtherRun), true),
            (Err(GateError::Unknown(Why::ConnectionLost)), false),
            (Err(GateError::NotExecuted(Why::Busy)), false),
        ] {
            assert_eq!(has_heard(&set, 2), is_heard, "{set:?}");
        }
    }
}
