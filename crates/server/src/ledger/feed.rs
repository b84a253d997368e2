//! Orders for the shop's fulfilment, for every backend: what a page of changes holds, and what a row of it means.
//!
//! Must not: read a ledger.

use engine::{
    BuyerId, Closing, Event, LineTerms, Notice, OrderId, Payment, ProductId, SaleId, SkuId, Status, Turn,
    UnixMs,
};

use super::outgoing::{OpenedTurn, What};
use super::record::SaleRecord;
use super::rows::{RowError, closing};

/// Entries looked through per read.
pub(super) const WINDOW: u64 = 5_000;

/// An order with its status at the cursor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OrderLine {
    pub id: OrderId,
    pub sale: SaleId,
    pub product: ProductId,
    /// As the shop names them: digits or a text; `erased:` and a hash of one who was erased.
    pub buyer: String,
    pub quantity: u32,
    /// Minor units, per unit.
    pub unit_price: u64,
    pub currency: String,
    pub status: Status,
    pub placed_at: UnixMs,
    /// When it left `held`, was paid late, or refunded whole.
    pub closed_at: Option<UnixMs>,
    /// What of its amount is refunded: minor units.
    pub refunded: u64,
    /// JSON text; `None` if none was given, or it was purged.
    pub address: Option<String>,
}

/// A page of changes.
#[derive(Clone, Debug, Default)]
pub struct Changes {
    pub orders: Vec<OrderLine>,
    /// Give this as `since` to go on.
    pub cursor: u64,
    /// More changes follow already.
    pub more: bool,
}

/// A row of the orders with its latest transition.
#[derive(Debug)]
pub(super) struct OrderFeedRow {
    pub(super) id: OrderId,
    pub(super) buyer: BuyerId,
    /// Of a buyer who is a hash.
    pub(super) buyer_text: Option<String>,
    pub(super) quantity: u32,
    pub(super) unit_price: u64,
    pub(super) placed_at: UnixMs,
    pub(super) address: Option<Vec<u8>>,
    /// The transition's kind and time.
    pub(super) closed: Option<(u8, UnixMs)>,
    /// Minor units of an order that is paid.
    pub(super) refunded: u64,
}

/// What the ledger's SKU numbers mean: sales as created, in order.
#[derive(Debug, Default)]
pub(super) struct Skus(Vec<SkuTerms>);

/// What was agreed of a SKU when its sale was created.
#[derive(Debug)]
struct SkuTerms {
    sale: SaleId,
    product: ProductId,
    currency: String,
    payment: Payment,
    line: Option<LineTerms>,
}

impl Skus {
    /// Takes the next sale that was created.
    pub(super) fn add(&mut self, sale: SaleId, body: &str) -> Result<(), RowError> {
        let record: SaleRecord = serde_json::from_str(body)?;
        let spec = record.into_spec(sale);
        for item in &spec.items {
            let (sale, currency, payment) = (spec.id, spec.currency.clone(), spec.payment);
            self.0.push(SkuTerms { sale, product: item.product, currency, payment, line: item.line });
        }
        Ok(())
    }

    /// A SKU's sale and product; `None`: there is no such SKU.
    fn product(&self, sku: SkuId) -> Option<(u64, u64)> {
        self.0.get(sku.0 as usize).map(|terms| (terms.sale.0, terms.product.0))
    }

    /// What a call at this time reports to the shop; `None`: there is no such line. `text`: of a buyer who is a hash.
    pub(super) fn turn(&self, sku: SkuId, turn: Turn, at: UnixMs, text: Option<String>) -> Option<What> {
        let terms = self.0.get(sku.0 as usize)?;
        let LineTerms { units, turn_ms, .. } = terms.line?;
        let Turn { place, number, buyer, fewer_units } = turn;
        Some(What::TurnOpened(OpenedTurn {
            sale: terms.sale.0,
            product: terms.product.0,
            number,
            place,
            buyer: text.unwrap_or_else(|| buyer_without_text(buyer)),
            units: fewer_units.unwrap_or(units),
            until: UnixMs(at.0.saturating_add(turn_ms)),
        }))
    }

    /// What an entry of `further_entries` reports to the shop; `None`: it is about an unknown SKU.
    pub(super) fn further(&self, event: &Event) -> Option<What> {
        match *event {
            Event::Noticed(notice) => self.notice(notice),
            // An order that was given an address is sent whole, from its row.
            Event::OrderRejected { order, reason } => {
                let (sale, product) = self.product(order.sku)?;
                Some(What::Rejected { order, sale, product, reason })
            }
            _ => None,
        }
    }

    /// What a notice reports to the shop; `None`: it is about an unknown SKU.
    fn notice(&self, notice: Notice) -> Option<What> {
        let item = |sku, sold_out| {
            let (sale, product) = self.product(sku)?;
            Some(What::Stock { sale, product, sold_out })
        };
        match notice {
            Notice::SaleStarted(sale) => Some(What::SaleStarted { sale: sale.0 }),
            Notice::SaleEnded(sale) => Some(What::SaleEnded { sale: sale.0 }),
            Notice::SoldOut(sku) => item(sku, true),
            Notice::BackInStock(sku) => item(sku, false),
        }
    }

    /// A SKU's sale and its currency; `None`: there is no such SKU.
    pub(super) fn sale(&self, sku: SkuId) -> Option<(u64, String)> {
        self.0.get(sku.0 as usize).map(|terms| (terms.sale.0, terms.currency.clone()))
    }

    /// `None`: an order of an unknown SKU. The sale of an order comes before it, so before the cursor, up to which
    /// at least the SKUs were read: it is damage.
    pub(super) fn line(&self, row: OrderFeedRow) -> Option<OrderLine> {
        let SkuTerms { sale, product, currency, payment, .. } = self.0.get(row.id.sku.0 as usize)?;
        let closed = row.closed.and_then(|(kind, _)| closing(kind));
        let status = closed.map_or_else(|| payment.placed_as(), Closing::status);
        let refunded = match status {
            Status::Refunded => row.unit_price.saturating_mul(u64::from(row.quantity)),
            _ => row.refunded,
        };
        Some(OrderLine {
            id: row.id,
            sale: *sale,
            product: *product,
            // A text goes when its buyer is erased; an audit reports any other that is missing.
            buyer: row.buyer_text.unwrap_or_else(|| buyer_without_text(row.buyer)),
            quantity: row.quantity,
            unit_price: row.unit_price,
            currency: currency.clone(),
            status,
            placed_at: row.placed_at,
            address: row.address.map(|bytes| String::from_utf8_lossy(&bytes).into_owned()),
            closed_at: row.closed.map(|(_, at)| at),
            refunded,
        })
    }
}

fn buyer_without_text(buyer: BuyerId) -> String {
    if buyer.is_hash() { format!("erased:{buyer}") } else { buyer.to_string() }
}
