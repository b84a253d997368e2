//! The words between gate and ledger: what one reports to the other about an order's units. Data only; it must not judge.
//!
//! The gate takes the units of an order first (a [`Reservation`]), and the ledger decides (a [`Verdict`]). What the
//! ledger decides on its own, the gate hears by the outbox (a [`Change`]), each once. Where units in flight matter, the
//! ledger has the gate asked before it decides (a [`Claim`], and the [`Grant`]). A gate that lost its memory is built
//! anew from a [`Snapshot`].
//!
//! An epoch is one life of a SKU's gate: 0 before it was first built, then counted up by the ledger with each rebuild.
//! Units are pieces of one SKU.

use crate::{BuyerId, OrderId, Placement, SkuId, UnixMs};

/// An order whose units the gate has taken, on its way to the ledger.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reservation {
    pub placement: Placement,
    /// Of a buyer who is a hash, and of no other.
    pub buyer_text: Option<Box<str>>,
    /// Of the SKU's gate when it took the units.
    pub epoch: u64,
    /// By the gate's clock.
    pub reserved_at: UnixMs,
    /// As JSON text.
    pub address: Option<Box<[u8]>>,
}

/// What the ledger decided about something that is open at the gate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The order is in the ledger.
    Placed,
    /// The order was rejected because the ledger has fewer units than the gate thought: the units are kept, so that the
    /// gate's surplus goes with each such rejection.
    RejectedKept,
    /// The ledger has carried out what was claimed.
    ClaimKept,
    /// The ledger refused it: the units go back.
    ClaimUndone,
}

/// A verdict on its way to the gate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settle {
    /// Of the reservation or the claim.
    pub id: OrderId,
    /// Of the gate when it took the units. What another epoch has under this id is left alone.
    pub epoch: u64,
    pub verdict: Verdict,
}

/// Units that the gate must take before the ledger carries a command out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Claim {
    /// A late payment takes the units of its expired order again.
    LatePayment(Placement),
    /// An operator takes units off sale. `id`: of the claim among the orders of its SKU, a hash of the operator's key.
    Correction { id: OrderId, units: u64 },
}

impl Claim {
    /// Under which the gate keeps it.
    pub fn id(&self) -> OrderId {
        match self {
            Claim::LatePayment(placement) => placement.id,
            Claim::Correction { id, .. } => *id,
        }
    }
}

/// What the ledger knows of a claim when it decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Grant {
    #[default]
    NotAsked,
    /// The gate of this epoch took the units. One that was rebuilt since does not have them, so it must be asked again.
    Taken { epoch: u64 },
    /// The gate has no units left for it.
    SoldOut,
    /// The buyer has reached the limit by another order.
    OverLimit,
}

/// What happened to units in the ledger, as the gate has to hear it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// The order was cancelled or has expired: its units are on sale again.
    Release(Placement),
    /// The ledger took an order of an older epoch, of which this gate does not know: its units leave the sale, into a
    /// debt if need be. Written by older releases: now such an order takes its units at the gate first.
    Take(Placement),
    /// The ledger took a late payment. Its units were claimed at the gate before, but that gate may be gone.
    TakeLate(Placement),
    /// An operator put more units on sale.
    Restock { units: u64 },
    /// An operator took units off sale. `id`: of the claim at the gate, which may be gone as well.
    Correct { id: OrderId, units: u64 },
}

/// A change that waits for the gate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutboxRow {
    /// Counted up by the ledger, over all SKUs. Rows are applied in its order.
    pub id: u64,
    pub sku: SkuId,
    /// Of the SKU when the change was made: a gate that was built later knows of it already.
    pub epoch: u64,
    pub change: Change,
}

impl OutboxRow {
    /// Under which the gate keeps it, so that it is applied once. A restock is named by its row, which no order's hash is.
    pub fn mark_id(&self) -> OrderId {
        match self.change {
            Change::Release(placement) | Change::Take(placement) | Change::TakeLate(placement) => {
                placement.id
            }
            Change::Correct { id, .. } => id,
            Change::Restock { .. } => OrderId { sku: self.sku, hash: u128::from(self.id) },
        }
    }
}

/// How an order that is settled stands at the gate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MarkState {
    /// In the ledger with its units, which count to its buyer.
    Sold,
    /// In the ledger, its units given back.
    Returned,
    /// Rejected, the units kept.
    RejectedKept,
    /// Rejected, the units given back.
    RejectedReturned,
    /// Paid after it had expired, with its units.
    PaidLate,
    /// No order: a restock or a correction.
    Adjustment,
}

/// An order that a new gate is to know. A rejected one is [`MarkState::RejectedReturned`]: the ledger's stock does not
/// count its units.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark {
    pub placement: Placement,
    pub state: MarkState,
}

/// A sale as the gate has to know it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GateSale {
    /// The ledger's sequence number of the newest change in it.
    pub version: u64,
    pub starts_at: UnixMs,
    pub ends_at: UnixMs,
    pub paused: bool,
    pub ended: bool,
}

/// What a SKU's gate is built from: the ledger at one entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot {
    /// Under which the gate is built.
    pub epoch: u64,
    /// Units that can be ordered.
    pub available: u64,
    pub sale: GateSale,
    /// Units that a buyer may hold and own.
    pub limit: Option<u32>,
    /// Units that each buyer holds and owns; may be empty if there is no limit.
    pub buyers: Vec<(BuyerId, u64)>,
    /// Of each buyer whose holds came back.
    pub returned_holds: Vec<(BuyerId, ReturnedHolds)>,
    pub marks: Vec<Mark>,
}

/// Holds of one buyer and SKU that were cancelled or have expired, see [`crate::CoolDown`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReturnedHolds {
    pub count: u32,
    pub latest_at: UnixMs,
}

impl ReturnedHolds {
    pub fn add(&mut self, at: UnixMs) {
        self.count += 1;
        self.latest_at = self.latest_at.max(at);
    }
}
