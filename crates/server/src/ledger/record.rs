//! What the ledger writes as JSON: sales as created and as changed, corrections of the clock. A format on disk: fields are only added.

use engine::{Event, ItemSpec, Payment, ProductId, SaleChange, SaleId, SaleSpec, UnixMs};
use serde::{Deserialize, Serialize};

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct SaleRecord {
    title: String,
    currency: String,
    starts_at_ms: u64,
    ends_at_ms: u64,
    /// Absent: orders are paid on placing.
    payment_ms: Option<u64>,
    open_holds_per_buyer_max: Option<u32>,
    items: Vec<ItemRecord>,
}

#[derive(Debug, Serialize, Deserialize)]
struct ItemRecord {
    product: u64,
    title: String,
    description: String,
    price: u64,
    list_price: u64,
    total: u64,
    limit: Option<u32>,
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct ChangeRecord {
    title: Option<String>,
    starts_at_ms: Option<u64>,
    ends_at_ms: Option<u64>,
    payment_ms: Option<u64>,
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct CorrectionRecord {
    from_ms: u64,
    to_ms: u64,
    who: Box<str>,
}

impl SaleRecord {
    pub(crate) fn of(spec: &SaleSpec) -> SaleRecord {
        let item = |item: &ItemSpec| ItemRecord {
            product: item.product.0,
            title: item.title.clone(),
            description: item.description.clone(),
            price: item.price,
            list_price: item.list_price,
            total: item.total,
            limit: item.limit,
        };
        SaleRecord {
            title: spec.title.clone(),
            currency: spec.currency.clone(),
            starts_at_ms: spec.starts_at.0,
            ends_at_ms: spec.ends_at.0,
            payment_ms: match spec.payment {
                Payment::WithinMs(ms) => Some(ms),
                Payment::OnPlacing => None,
            },
            open_holds_per_buyer_max: spec.open_holds_per_buyer_max,
            items: spec.items.iter().map(item).collect(),
        }
    }

    pub(crate) fn into_spec(self, id: SaleId) -> SaleSpec {
        let item = |item: ItemRecord| ItemSpec {
            product: ProductId(item.product),
            title: item.title,
            description: item.description,
            price: item.price,
            list_price: item.list_price,
            total: item.total,
            limit: item.limit,
        };
        SaleSpec {
            id,
            title: self.title,
            currency: self.currency,
            starts_at: UnixMs(self.starts_at_ms),
            ends_at: UnixMs(self.ends_at_ms),
            payment: self.payment_ms.map_or(Payment::OnPlacing, Payment::WithinMs),
            open_holds_per_buyer_max: self.open_holds_per_buyer_max,
            items: self.items.into_iter().map(item).collect(),
        }
    }
}

impl ChangeRecord {
    pub(crate) fn of(change: &SaleChange) -> ChangeRecord {
        ChangeRecord {
            title: change.title.clone(),
            starts_at_ms: change.starts_at.map(|at| at.0),
            ends_at_ms: change.ends_at.map(|at| at.0),
            payment_ms: change.payment_ms,
        }
    }

    pub(crate) fn into_change(self) -> SaleChange {
        SaleChange {
            title: self.title,
            starts_at: self.starts_at_ms.map(UnixMs),
            ends_at: self.ends_at_ms.map(UnixMs),
            payment_ms: self.payment_ms,
        }
    }
}

impl CorrectionRecord {
    pub(crate) fn of(from: UnixMs, to: UnixMs, who: &str) -> CorrectionRecord {
        CorrectionRecord { from_ms: from.0, to_ms: to.0, who: who.into() }
    }

    pub(crate) fn into_event(self) -> Event {
        Event::ClockCorrected { from: UnixMs(self.from_ms), to: UnixMs(self.to_ms), who: self.who }
    }
}
