//! Reading orders: in the ledger, or on their way to it.
//!
//! An order that is not in the ledger is looked for at the gate. While the gate can't say, a valid id that nobody
//! knows may be an order on its way: it is pending, never unknown. Reads that wait are looked at again when the
//! consumer has committed, and often enough to see what other servers committed.

use std::collections::HashMap;
use std::time::Duration;

use engine::handover::{MarkState, Reservation};
use engine::working_set::Rejection;
use engine::{Accepted, BuyerId, KeptAddress, OrderId, OrderView, PaymentView, Placement, Refusal, Seq};

use crate::cluster::Core;
use crate::cluster::answers::{Answers, ReplyTo};
use crate::cluster::place::relay::order_of;
use crate::cluster::work::Question;
use crate::gate::{Found, Gate, GateError};
use crate::intake::Drained;
use crate::ledger::mysql::cluster::{ClusterLedger, LedgerError, Recorded};

use crate::intake::Reply;
use crate::time::Instant;

const PATIENCE: Duration = Duration::from_millis(200);
/// Between two looks at what is waited for, if nothing was committed here.
const LOOK_INTERVAL: Duration = Duration::from_millis(50);
/// Orders in one question to the ledger.
const BATCH_MAX: usize = 1024;

/// Payments in one read of the ledger.
const REFUNDS_PER_READ: usize = 5_000;

/// Where an order is.
#[derive(Debug)]
pub(in crate::cluster) enum Whereabouts {
    Ledger(Recorded),
    /// Reserved, and its message is on its way.
    Pending(Box<Reservation>),
    /// Neither the ledger nor the gate knows it.
    Nowhere,
    /// The ledger does not know it, and the gate can't say.
    Unclear,
    /// The ledger does not answer.
    Silent,
}

impl Whereabouts {
    /// What was rejected may have been taken anew, by a gate that was built since.
    fn may_be_at_gate(&self) -> bool {
        matches!(self, Whereabouts::Nowhere | Whereabouts::Ledger(Recorded::Rejected(_)))
    }
}

/// Finds orders: in the ledger first, then at the gate, and once more in the ledger if the gate says that it is
/// there by now.
pub(in crate::cluster) fn find(
    core: &Core,
    ledger: &mut dyn ClusterLedger,
    gate: &mut Gate,
    ids: &[OrderId],
) -> Vec<Whereabouts> {
    let mut found = match look_up(ledger, ids) {
        Ok(found) => {
            core.warnings.reading.well();
            found
        }
        Err(error) => {
            core.warnings.reading.met(&error);
            return ids.iter().map(|_| Whereabouts::Silent).collect();
        }
    };
    let missing: Vec<usize> = (0..ids.len()).filter(|index| found[*index].may_be_at_gate()).collect();
    if missing.is_empty() {
        return found;
    }
    let catalog = core.shelf.current();
    let mut arrived = Vec::new();
    let missing_ids: Vec<_> = missing.iter().map(|index| ids[*index]).collect();
    for (index, at_gate) in missing.into_iter().zip(gate.find(&missing_ids)) {
        if let Whereabouts::Ledger(Recorded::Rejected(rejection)) = &found[index] {
            let sku = ids[index].sku;
            match retaken(rejection, core.epochs.newest(sku), &at_gate) {
                Retaken::No => continue,
                Retaken::Pending(order) => found[index] = Whereabouts::Pending(order),
                Retaken::InLedger => {
                    arrived.push(index);
                    found[index] = Whereabouts::Unclear;
                }
                Retaken::Unclear => found[index] = Whereabouts::Unclear,
            }
            at_gate.err().iter().for_each(|error| core.note_closed(sku, error));
            continue;
        }
        found[index] = match at_gate {
            Ok(None) => Whereabouts::Nowhere,
            Ok(Some(Found::Open(open))) => match order_of(&open) {
                Ok(order) => Whereabouts::Pending(Box::new(order)),
                Err(_) => Whereabouts::Unclear,
            },
            Ok(Some(Found::Settled(_))) => {
                arrived.push(index);
                Whereabouts::Unclear
            }
            // A product that there is not has no gate, and nobody waits for what it would say.
            Err(_) if catalog.item(ids[index].sku).is_none() => Whereabouts::Nowhere,
            Err(error) => {
                core.note_closed(ids[index].sku, &error);
                Whereabouts::Unclear
            }
        };
    }
    let arrived_ids: Vec<_> = arrived.iter().map(|index| ids[*index]).collect();
    if let Ok(again) = look_up(ledger, &arrived_ids) {
        for (index, whereabouts) in arrived.into_iter().zip(again) {
            if let Whereabouts::Ledger(_) = whereabouts {
                found[index] = whereabouts;
            }
        }
    }
    found
}

/// What became of an order after it was rejected.
#[derive(Debug, PartialEq, Eq)]
enum Retaken {
    No,
    /// It was reserved anew, and its message is on its way.
    Pending(Box<Reservation>),
    /// The ledger has it by now.
    InLedger,
    /// A gate may have taken it that can't be asked.
    Unclear,
}

/// By what the gate says; `newest`: its epoch, as far as this server has heard.
fn retaken(rejection: &Rejection, newest: u64, at_gate: &Result<Option<Found>, GateError>) -> Retaken {
    match at_gate {
        Ok(Some(Found::Open(open))) if open.epoch > rejection.epoch => {
            order_of(open).map_or(Retaken::Unclear, |order| Retaken::Pending(Box::new(order)))
        }
        Ok(Some(Found::Settled(MarkState::Sold | MarkState::Returned | MarkState::PaidLate))) => {
            Retaken::InLedger
        }
        Err(_) if newest > rejection.epoch => Retaken::Unclear,
        Ok(_) | Err(_) => Retaken::No,
    }
}

fn look_up(ledger: &mut dyn ClusterLedger, ids: &[OrderId]) -> Result<Vec<Whereabouts>, LedgerError> {
    let found = ledger.lookup(ids)?;
    Ok(found.into_iter().map(|found| found.map_or(Whereabouts::Nowhere, Whereabouts::Ledger)).collect())
}

/// The stage that reads. Lives on one thread.
#[derive(Debug)]
pub(in crate::cluster) struct Reading<'a> {
    core: &'a Core,
    ledger: Box<dyn ClusterLedger>,
    gate: Gate,
    answers: Answers,
}

impl<'a> Reading<'a> {
    pub(in crate::cluster) fn new(core: &'a Core, ledger: Box<dyn ClusterLedger>, gate: Gate) -> Reading<'a> {
        Reading { core, ledger, gate, answers: Answers::new(&core.mailbox) }
    }

    /// Runs until the stage is closed and empty; what waits then is answered as it stands.
    pub(in crate::cluster) fn run(mut self) {
        let (mut work, mut waiting) = (Vec::new(), Vec::new());
        loop {
            let patience = if waiting.is_empty() { PATIENCE } else { LOOK_INTERVAL };
            let drained = self.core.status.drain(&mut work, BATCH_MAX, patience);
            let closing = drained == Drained::Closed;
            if closing && waiting.is_empty() {
                break;
            }
            work.append(&mut waiting);
            while !work.is_empty() {
                let batch: Vec<_> = work.drain(..work.len().min(BATCH_MAX)).collect();
                self.batch(batch, &mut waiting, closing);
            }
            self.answers.hand_over(&self.core.mailbox);
        }
    }

    fn batch(&mut self, batch: Vec<Question>, waiting: &mut Vec<Question>, closing: bool) {
        let ids: Vec<_> = batch.iter().filter_map(Question::order).collect();
        let mut found = find(self.core, &mut *self.ledger, &mut self.gate, &ids).into_iter();
        let now = Instant::now();
        let mut addressed = Vec::new();
        for work in batch {
            let reply = match &work {
                Question::RefundsDue { .. } => self.refunds_due(),
                Question::Replay { placement, .. } => {
                    self.replay(placement, found.next().expect("each order has its whereabouts"))
                }
                Question::Read { order, buyer, until, with_address, .. } => {
                    let found = found.next().expect("each order has its whereabouts");
                    let undecided = matches!(found, Whereabouts::Pending(_) | Whereabouts::Unclear);
                    if undecided && !closing && now < *until {
                        waiting.push(work);
                        continue;
                    }
                    match self.read(*order, *buyer, found) {
                        Reply::Order(order) if *with_address => {
                            addressed.push((work.to(), order));
                            continue;
                        }
                        reply => reply,
                    }
                }
            };
            self.answers.push(work.to(), reply);
        }
        if !addressed.is_empty() {
            self.answer_with_addresses(addressed);
        }
    }

    fn refunds_due(&mut self) -> Reply {
        let mut payments: Vec<PaymentView> = Vec::new();
        loop {
            let after = payments.last().map_or(Seq(0), |payment| payment.seq);
            match self.ledger.refunds_due(after, REFUNDS_PER_READ) {
                Ok(portion) => {
                    let full = portion.len() == REFUNDS_PER_READ;
                    payments.extend(portion);
                    if !full {
                        self.core.warnings.reading_refunds.well();
                        return Reply::RefundsDue(payments);
                    }
                }
                Err(error) => {
                    self.core.warnings.reading_refunds.met(&error);
                    return Reply::Unknown;
                }
            }
        }
    }

    fn read(&self, id: OrderId, buyer: Option<BuyerId>, found: Whereabouts) -> Reply {
        let may_read = |order: &OrderView| buyer.is_none_or(|buyer| buyer == order.buyer);
        match found {
            Whereabouts::Ledger(Recorded::Order { order, .. }) if may_read(&order) => Reply::Order(order),
            Whereabouts::Ledger(Recorded::Rejected(rejection))
                if buyer.is_none_or(|it| it == rejection.buyer) =>
            {
                Reply::Lost(self.lost_view(id, &rejection))
            }
            Whereabouts::Pending(order) if buyer.is_none_or(|buyer| buyer == order.placement.buyer) => {
                Reply::Pending { order: self.core.pending_view(&order), replayed: false }
            }
            // Whoever asks may have made it up.
            Whereabouts::Unclear | Whereabouts::Silent => Reply::Unknown,
            Whereabouts::Ledger(_) | Whereabouts::Pending(_) | Whereabouts::Nowhere => {
                Reply::Refused(Refusal::UnknownOrder)
            }
        }
    }

    /// Orders that are read with their addresses. How one stands can be answered though its address can't be read.
    fn answer_with_addresses(&mut self, asked: Vec<(ReplyTo, OrderView)>) {
        let ids: Vec<_> = asked.iter().map(|(_, order)| order.id).collect();
        let kept = match self.ledger.kept_addresses(&ids) {
            Ok(kept) => Some(kept),
            Err(error) => {
                self.core.warnings.reading.met(&error);
                None
            }
        };
        let kept = kept.map(|kept| kept.into_iter().collect::<HashMap<_, _>>());
        for (to, order) in asked {
            let reply = match &kept {
                Some(kept) => {
                    let address = match kept.get(&order.id) {
                        Some(KeptAddress::Is(address)) => Some(address.clone()),
                        Some(KeptAddress::Missing | KeptAddress::Over) | None => None,
                    };
                    Reply::AddressedOrder { order, address }
                }
                None => Reply::Order(order),
            };
            self.answers.push(to, reply);
        }
    }

    fn lost_view(&self, id: OrderId, rejection: &Rejection) -> OrderView {
        self.core.bare_view(id, rejection.buyer, rejection.quantity, rejection.at)
    }

    /// The first answer under a key again, if it can be found.
    fn replay(&self, placement: &Placement, found: Whereabouts) -> Reply {
        match found {
            Whereabouts::Ledger(found) if !is_of(&found, placement) => Reply::Refused(Refusal::KeyConflict),
            Whereabouts::Ledger(Recorded::Order { order, .. }) => {
                Reply::Accepted(Accepted::Order { order: order.as_placed(), replayed: true })
            }
            Whereabouts::Ledger(Recorded::Rejected(rejection)) => {
                Reply::Lost(self.lost_view(placement.id, &rejection))
            }
            // Its message may not have come: only the broker's acknowledgement would make it accepted.
            Whereabouts::Pending(_) | Whereabouts::Nowhere | Whereabouts::Unclear | Whereabouts::Silent => {
                Reply::Unknown
            }
        }
    }
}

/// Whether what stands under an id is what this request asked for, and not another request's under the same key.
fn is_of(found: &Recorded, placement: &Placement) -> bool {
    let known = match found {
        Recorded::Order { order, fingerprint } => (*fingerprint, order.buyer, order.quantity),
        Recorded::Rejected(rejection) => (rejection.fingerprint, rejection.buyer, rejection.quantity),
    };
    engine::rules::repeat(known, placement).is_ok()
}

#[cfg(test)]
mod tests {
    use engine::{Fingerprint, SkuId, UnixMs};

    use super::*;
    use crate::gate::{Closed, Open, OpenRecord};
    use crate::queue::message;

    /// Who had ordered again under a key whose first order was rejected was answered that it is rejected: while that gate was
    /// closed, and in the moment in which the ledger took the order.
    #[test]
    fn a_rejection_stands_unless_a_later_gate_has_taken_the_order_or_may_have() {
        let id = OrderId { sku: SkuId(1), hash: 2 };
        let placement = Placement { id, buyer: BuyerId(3), quantity: 1, fingerprint: Fingerprint(4) };
        let at = UnixMs(5);
        let rejection = Rejection {
            at,
            buyer: placement.buyer,
            quantity: 1,
            fingerprint: placement.fingerprint,
            epoch: 4,
            reason: Refusal::SoldOut,
        };
        let order =
            |epoch| Reservation { placement, buyer_text: None, epoch, reserved_at: at, address: None };
        let open = |epoch| {
            let mut record = Vec::new();
            message::encode(&order(0), &mut record);
            Ok(Some(Found::Open(OpenRecord {
                what: Open::Order(placement),
                epoch,
                at,
                record: record.into(),
            })))
        };
        let settled = |state| Ok(Some(Found::Settled(state)));
        let closed = || Err(GateError::Closed(Closed::OtherRun));
        for (at_gate, newest, expected) in [
            (open(5), 5, Retaken::Pending(Box::new(order(5)))),
            (open(4), 4, Retaken::No),
            (settled(MarkState::Sold), 5, Retaken::InLedger),
            (settled(MarkState::Returned), 5, Retaken::InLedger),
            (settled(MarkState::RejectedReturned), 5, Retaken::No),
            (settled(MarkState::RejectedKept), 4, Retaken::No),
            (Ok(None), 5, Retaken::No),
            (closed(), 5, Retaken::Unclear),
            (closed(), 4, Retaken::No),
        ] {
            assert_eq!(retaken(&rejection, newest, &at_gate), expected, "{at_gate:?}, {newest}");
        }
    }
}
