//! The life of one order: what became of it, when, and who did it.
//!
//! Every query finds its rows by a key: the order's entry, or entries close to one of its own. The statements are the same for
//! every backend. Must not: read anything itself.

use engine::{By, Closing, Operated, OrderId, UnixMs};

use super::rows::{OPERATED, RowError, closing, operated};

/// Refunds of one order that are shown, the oldest. More are hardly ever: each has at least the smallest unit of its amount.
const REFUNDS_MAX: usize = 100;

/// An order, and its entries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OrderLife {
    pub id: OrderId,
    /// In their order.
    pub steps: Vec<LifeStep>,
    /// There are refunds that are not among them.
    pub more: bool,
}

/// Something that happened to an order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LifeStep {
    pub seq: u64,
    pub at: UnixMs,
    pub what: LifeWhat,
    /// The operator; `None`: its buyer, the provider or time.
    pub by: Option<By>,
}

/// What happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LifeWhat {
    Placed,
    /// With the payment's id, if it was paid by one.
    Closed(Closing, Option<String>),
    RefundDue(RefundStep),
    RefundMade(RefundStep),
}

/// A refund: its id, minor units, and units that went back on sale.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RefundStep {
    pub id: String,
    pub amount: u64,
    pub units: u32,
}

impl LifeWhat {
    /// A word of the API.
    pub fn as_str(&self) -> &'static str {
        match self {
            LifeWhat::Placed => "placed",
            LifeWhat::Closed(Closing::PaidLate, _) => "paid_late",
            LifeWhat::Closed(how, _) => how.status().as_str(),
            LifeWhat::RefundDue(_) => "refund_due",
            LifeWhat::RefundMade(_) => "refund_made",
        }
    }

    /// The payment or the refund.
    pub fn payment(&self) -> Option<&str> {
        match self {
            LifeWhat::Closed(_, payment) => payment.as_deref(),
            LifeWhat::RefundDue(refund) | LifeWhat::RefundMade(refund) => Some(&refund.id),
            LifeWhat::Placed => None,
        }
    }

    pub fn refund(&self) -> Option<&RefundStep> {
        match self {
            LifeWhat::RefundDue(refund) | LifeWhat::RefundMade(refund) => Some(refund),
            LifeWhat::Placed | LifeWhat::Closed(..) => None,
        }
    }
}

/// SKU, hash, time.
pub(super) fn order_query(order: u64) -> String {
    format!("SELECT sku, hash, at FROM orders WHERE seq = {order}")
}

/// Entry, time, kind.
pub(super) fn transitions_query(order: u64) -> String {
    format!("SELECT seq, at, kind FROM transitions WHERE order_seq = {order} ORDER BY step")
}

/// The id of the payment with which an order was paid: recorded, or matched, right before.
pub(super) fn paid_by_query(transition: u64) -> String {
    let before = transition.saturating_sub(1);
    format!(
        "SELECT id FROM payments WHERE seq = {before} AND disposition = 'applied' UNION ALL SELECT p.id FROM payment_ends AS e \
         JOIN payments AS p ON p.seq = e.payment_seq WHERE e.seq = {before} AND e.kind = 'matched'"
    )
}

/// As [`RefundRow`] has them, with one more if there is one.
pub(super) fn refunds_query(order: u64) -> String {
    format!(
        "SELECT p.seq, p.at, p.id, p.amount, p.units, e.seq, e.at FROM payments AS p LEFT JOIN payment_ends AS e \
         ON e.payment_seq = p.seq WHERE p.order_seq = {order} AND p.disposition = 'requested' ORDER BY p.seq LIMIT {}",
        REFUNDS_MAX + 1
    )
}

/// The same, of those that were made before they were known of: their end is their own entry.
pub(super) fn refunds_made_query(order: u64) -> String {
    format!(
        "SELECT seq, at, id, amount, units, seq, at FROM payments WHERE order_seq = {order} AND disposition = 'paid_out' \
         ORDER BY seq LIMIT {}",
        REFUNDS_MAX + 1
    )
}

/// A refund, and when it was made.
#[derive(Debug)]
pub(super) struct RefundRow {
    pub(super) seq: u64,
    pub(super) at: u64,
    pub(super) refund: RefundStep,
    pub(super) made: Option<(u64, u64)>,
}

/// What was read of an order.
#[derive(Debug)]
pub(super) struct LifeRows {
    pub(super) seq: u64,
    pub(super) id: OrderId,
    pub(super) placed_at: u64,
    pub(super) transitions: Vec<(u64, u64, u8)>,
    pub(super) paid_by: Option<String>,
    pub(super) refunds: Vec<RefundRow>,
}

/// The transition with which it was paid.
pub(super) fn paid_at(transitions: &[(u64, u64, u8)]) -> Option<u64> {
    let paid = |kind: u8| matches!(closing(kind), Some(Closing::Paid | Closing::PaidLate));
    transitions.iter().find(|(.., kind)| paid(*kind)).map(|(seq, ..)| *seq)
}

impl LifeRows {
    /// Who did any of it is still to be said.
    pub(super) fn into_life(self) -> Result<OrderLife, RowError> {
        let LifeRows { seq, id, placed_at, transitions, mut paid_by, mut refunds } = self;
        let step = |seq, at, what| LifeStep { seq, at: UnixMs(at), what, by: None };
        let mut steps = vec![step(seq, placed_at, LifeWhat::Placed)];
        let paid = paid_at(&transitions);
        for (seq, at, kind) in transitions {
            let how = closing(kind).ok_or_else(|| RowError::Unknown(format!("transition {kind}")))?;
            let payment = paid_by.take_if(|_| paid == Some(seq));
            steps.push(step(seq, at, LifeWhat::Closed(how, payment)));
        }
        refunds.sort_by_key(|refund| refund.seq);
        let more = refunds.len() > REFUNDS_MAX;
        refunds.truncate(REFUNDS_MAX);
        for RefundRow { seq, at, refund, made } in refunds {
            if made.is_none_or(|(end, _)| end != seq) {
                steps.push(step(seq, at, LifeWhat::RefundDue(refund.clone())));
            }
            steps.extend(made.map(|(seq, at)| step(seq, at, LifeWhat::RefundMade(refund))));
        }
        steps.sort_by_key(|step| step.seq);
        Ok(OrderLife { id, steps, more })
    }
}

impl OrderLife {
    /// Entry and body of what operators did: it follows the last entry of what it came to.
    pub(super) fn operated_query(&self) -> String {
        let after: Vec<_> = self.steps.iter().map(|step| (step.seq + 1).to_string()).collect();
        let after = after.join(", ");
        format!("SELECT seq, body FROM further_entries WHERE kind = '{OPERATED}' AND seq IN ({after})")
    }

    /// Says of each entry who did it.
    pub(super) fn note_operators(&mut self, actions: &[(u64, Vec<u8>)]) -> Result<(), RowError> {
        let order = self.id.to_string();
        for (seq, body) in actions {
            let Operated { by, about, .. } = operated(body)?;
            let Some(last) = self.steps.iter().position(|step| step.seq + 1 == *seq) else { continue };
            // A refund's amount follows its order; in older ledgers nothing does.
            let is_about_it =
                about.strip_prefix(&order).is_some_and(|rest| rest.is_empty() || rest.starts_with(','));
            if !is_about_it && self.steps[last].what.payment() != Some(&about) {
                continue;
            }
            // With the last of its money a refund closes the order, by the entry after its own.
            let closes = last > 0 && self.steps[last].what == LifeWhat::Closed(Closing::Refunded, None);
            for step in &mut self.steps[last - usize::from(closes)..=last] {
                step.by = Some(by.clone());
            }
        }
        Ok(())
    }
}
