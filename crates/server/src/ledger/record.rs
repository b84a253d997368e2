//! What the ledger writes as JSON: sales as created and as changed, corrections of the clock, erasures, notices, operators.
//! A format on disk: fields are only added.

use engine::{
    BuyerId, By, Event, ItemChange, ItemImage, ItemSpec, Notice, Operated, Operator, OrderId, Payment,
    ProductId, Refusal, Role, SaleChange, SaleId, SaleSpec, SkuId, UnixMs,
};
use serde::{Deserialize, Serialize};

use super::lines::LineRecord;

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
    #[serde(default, skip_serializing_if = "Option::is_none")]
    image: Option<ImageRecord>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    line: Option<LineRecord>,
}

#[derive(Debug, Serialize, Deserialize)]
struct ImageRecord {
    name: String,
    alt: String,
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct ChangeRecord {
    title: Option<String>,
    starts_at_ms: Option<u64>,
    ends_at_ms: Option<u64>,
    payment_ms: Option<u64>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    items: Vec<ItemChangeRecord>,
}

#[derive(Debug, Serialize, Deserialize)]
struct ItemChangeRecord {
    product: u64,
    title: Option<String>,
    description: Option<String>,
    price: Option<u64>,
    list_price: Option<u64>,
    limit: Option<LimitRecord>,
}

/// `None` in it: as many as there are. JSON has one null, which says here that the limit stays.
#[derive(Debug, Serialize, Deserialize)]
struct LimitRecord {
    units: Option<u32>,
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct CorrectionRecord {
    from_ms: u64,
    to_ms: u64,
    who: Box<str>,
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct AddressRecord {
    /// The order's entry. The address is with the order, where it can be removed.
    pub(crate) order: u64,
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct ErasureRecord {
    /// Digits, or the 32 hexadecimal ones of a hash.
    pub(crate) buyer: String,
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct OperatorRecord {
    name: Box<str>,
    role: String,
    /// Of the token, in hexadecimal digits.
    sha256: String,
    by: Box<str>,
    added_at_ms: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    expires_at_ms: Option<u64>,
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct RevocationRecord {
    pub(crate) name: Box<str>,
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct OperatedRecord {
    who: Box<str>,
    what: Box<str>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    sale: Option<u64>,
    #[serde(default, skip_serializing_if = "str::is_empty")]
    about: Box<str>,
    #[serde(default, skip_serializing_if = "str::is_empty")]
    why: Box<str>,
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct RejectionRecord {
    pub(crate) order: String,
    /// As in the API's problem documents.
    pub(crate) reason: String,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "what", rename_all = "snake_case")]
pub(crate) enum NoticeRecord {
    SaleStarted { sale: u64 },
    SaleEnded { sale: u64 },
    SoldOut { sku: u32 },
    BackInStock { sku: u32 },
}

impl ImageRecord {
    fn of(image: &ItemImage) -> ImageRecord {
        ImageRecord { name: image.name.clone(), alt: image.alt.clone() }
    }
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
            image: item.image.as_ref().map(ImageRecord::of),
            line: item.line.as_ref().map(LineRecord::of),
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
            image: item.image.map(|image| ItemImage { name: image.name, alt: image.alt }),
            line: item.line.map(LineRecord::into_terms),
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
            items: change.items.iter().map(ItemChangeRecord::of).collect(),
        }
    }

    pub(crate) fn into_change(self) -> SaleChange {
        SaleChange {
            title: self.title,
            starts_at: self.starts_at_ms.map(UnixMs),
            ends_at: self.ends_at_ms.map(UnixMs),
            payment_ms: self.payment_ms,
            items: self.items.into_iter().map(ItemChangeRecord::into_change).collect(),
        }
    }
}

impl ItemChangeRecord {
    fn of(change: &ItemChange) -> ItemChangeRecord {
        ItemChangeRecord {
            product: change.product.0,
            title: change.title.clone(),
            description: change.description.clone(),
            price: change.price,
            list_price: change.list_price,
            limit: change.limit.map(|units| LimitRecord { units }),
        }
    }

    fn into_change(self) -> ItemChange {
        ItemChange {
            product: ProductId(self.product),
            title: self.title,
            description: self.description,
            price: self.price,
            list_price: self.list_price,
            limit: self.limit.map(|limit| limit.units),
        }
    }
}

impl OperatorRecord {
    pub(crate) fn of(operator: &Operator) -> OperatorRecord {
        OperatorRecord {
            name: operator.name.clone(),
            role: operator.role.as_str().to_owned(),
            sha256: operator.digest.iter().map(|byte| format!("{byte:02x}")).collect(),
            by: operator.by.clone(),
            added_at_ms: operator.added_at.0,
            expires_at_ms: operator.expires_at.map(|at| at.0),
        }
    }

    /// Or what of it is not known.
    pub(crate) fn into_operator(self) -> Result<Operator, String> {
        let role = Role::of(&self.role).ok_or_else(|| format!("role {}", self.role))?;
        let digest = (0..32).map(|at| u8::from_str_radix(self.sha256.get(2 * at..2 * at + 2)?, 16).ok());
        let digest: Option<Vec<u8>> = digest.collect();
        let digest = digest.filter(|_| self.sha256.len() == 64).and_then(|digest| digest.try_into().ok());
        Ok(Operator {
            role,
            digest: digest.ok_or_else(|| format!("hash {}", self.sha256))?,
            name: self.name,
            added_at: UnixMs(self.added_at_ms),
            by: self.by,
            expires_at: self.expires_at_ms.map(UnixMs),
        })
    }
}

impl OperatedRecord {
    pub(crate) fn of(operated: &Operated) -> OperatedRecord {
        let Operated { by: By { who, why }, what, sale, about } = operated.clone();
        OperatedRecord { who, what, sale: sale.map(|sale| sale.0), about, why }
    }

    pub(crate) fn into_operated(self) -> Operated {
        let OperatedRecord { who, what, sale, about, why } = self;
        Operated { by: By { who, why }, what, sale: sale.map(SaleId), about }
    }
}

impl RejectionRecord {
    pub(crate) fn of(order: OrderId, reason: Refusal) -> RejectionRecord {
        RejectionRecord { order: order.to_string(), reason: reason.code().to_owned() }
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

impl NoticeRecord {
    pub(crate) fn of(notice: Notice) -> NoticeRecord {
        match notice {
            Notice::SaleStarted(sale) => NoticeRecord::SaleStarted { sale: sale.0 },
            Notice::SaleEnded(sale) => NoticeRecord::SaleEnded { sale: sale.0 },
            Notice::SoldOut(sku) => NoticeRecord::SoldOut { sku: sku.0 },
            Notice::BackInStock(sku) => NoticeRecord::BackInStock { sku: sku.0 },
        }
    }

    pub(crate) fn into_notice(self) -> Notice {
        match self {
            NoticeRecord::SaleStarted { sale } => Notice::SaleStarted(SaleId(sale)),
            NoticeRecord::SaleEnded { sale } => Notice::SaleEnded(SaleId(sale)),
            NoticeRecord::SoldOut { sku } => Notice::SoldOut(SkuId(sku)),
            NoticeRecord::BackInStock { sku } => Notice::BackInStock(SkuId(sku)),
        }
    }
}

impl ErasureRecord {
    pub(crate) fn of(buyer: BuyerId) -> ErasureRecord {
        ErasureRecord { buyer: buyer.to_string() }
    }
}
