//! The draw of a line, as the ledger has it: what was announced, who took part, and what came of it.
//!
//! Must not: read a ledger.

use std::collections::BTreeMap;

use engine::draw::Hash;
use engine::{
    BeaconTerms, Book, ClosedLine, Entry, Event, LineView, ProductId, Sale, SaleId, SkuId, Spoken, UnixMs,
};

use super::Audit;
use crate::hex::hex;

/// Enough to find every place out again.
#[derive(Clone, Debug)]
pub struct Draw {
    pub sale: SaleId,
    pub product: ProductId,
    pub line: LineView,
    /// Of those who took part, by number.
    pub leaves: Vec<Hash>,
}

/// What the shop signs of a draw: texts, so that they can be checked without this program.
#[derive(Clone, Copy, Debug)]
pub struct Statements<'a> {
    pub sale: SaleId,
    pub product: ProductId,
    pub commitment: &'a Hash,
    pub closed: &'a ClosedLine,
    /// That was announced.
    pub beacon: Option<&'a BeaconTerms>,
}

impl Statements<'_> {
    /// When the entries are closed.
    pub fn close(&self) -> String {
        format!("doorbuster line close\n{}", self.closed_lines())
    }

    /// When the places are drawn: what was closed, and all that the draw was made of beside the secret, which the commitment is of.
    /// `spoken`: what the beacon said; `None`: it was silent, or there is none.
    pub fn drawn(&self, spoken: Option<&Spoken>, seed: &Hash) -> String {
        let said = match (self.beacon, spoken) {
            (None, _) => "none".to_owned(),
            (Some(_), None) => "silent".to_owned(),
            (Some(_), Some(spoken)) => hex(&spoken.signature),
        };
        format!("doorbuster line drawn\n{}said {said}\nseed {}\n", self.closed_lines(), hex(seed))
    }

    fn closed_lines(&self) -> String {
        let ClosedLine { at, entries, root, round } = self.closed;
        let beacon = self.beacon.map_or_else(
            || "none".to_owned(),
            |BeaconTerms { public_key, genesis_s, period_s }| {
                format!("{} {genesis_s} {period_s}", hex(public_key))
            },
        );
        let round = round.map_or_else(|| "none".to_owned(), |round| round.to_string());
        format!(
            "sale {}\nproduct {}\ncommitment {}\nclosed_at_ms {}\nentries {entries}\nroot {}\nbeacon {beacon}\nround {round}\n",
            self.sale.0,
            self.product.0,
            hex(self.commitment),
            at.0,
            hex(root)
        )
    }
}

/// Why there is none.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoDraw {
    #[error("there is no such item")]
    UnknownItem,
    #[error("the item has no line: it is sold to whoever comes first")]
    NoLine,
    #[error("several sales sell it to a line: {}", named(.0))]
    Several(Vec<SaleId>),
    #[error("its entries are not closed yet: they close at {} (milliseconds since 1970)", .0.0)]
    Open(UnixMs),
    #[error("its draw was abandoned: the sale was over before the entries closed, so nobody has a place")]
    Abandoned,
    #[error("its entries are closed, and its draw waits for the beacon")]
    Waiting,
    #[error("the ledger breaks an invariant: {0}")]
    Broken(String),
}

/// Of so many sales the others are not named.
const SALES_NAMED: usize = 10;

fn named(sales: &[SaleId]) -> String {
    let (first, others) = sales.split_at(sales.len().min(SALES_NAMED));
    let mut text = first.iter().map(|sale| sale.0.to_string()).collect::<Vec<_>>().join(", ");
    if !others.is_empty() {
        text.push_str(&format!(" and {} more", others.len()));
    }
    text
}

/// Collects a draw, entry by entry.
#[derive(Debug)]
pub(super) struct Drawing {
    /// `None`: of the only one that sells the product to a line.
    sale: Option<SaleId>,
    product: ProductId,
    /// That may be meant.
    items: BTreeMap<SkuId, Item>,
    /// Some sale has the product without a line.
    is_sold_plainly: bool,
    /// The time of the latest entry.
    latest: UnixMs,
}

/// A line that may be asked for.
#[derive(Debug)]
struct Item {
    sale: SaleId,
    starts_at: UnixMs,
    ends_at: UnixMs,
    is_ended: bool,
    line: LineView,
    leaves: Vec<Hash>,
}

impl Item {
    /// `None`: it is sold to whoever comes first.
    fn of(book: &Book, sku: SkuId, sale: &Sale) -> Option<Item> {
        let line = book.line_of(sku)?;
        let (spec, is_ended) = (&sale.spec, sale.ended_at.is_some());
        let (starts_at, ends_at) = (spec.starts_at, spec.ends_at);
        Some(Item { sale: spec.id, starts_at, ends_at, is_ended, line, leaves: Vec::new() })
    }
}

impl Drawing {
    pub(super) fn of(sale: Option<SaleId>, product: ProductId) -> Drawing {
        let (items, latest) = (BTreeMap::new(), UnixMs(0));
        Drawing { sale, product, items, is_sold_plainly: false, latest }
    }

    pub(super) fn add(&mut self, book: &Book, entry: &Entry) {
        self.latest = self.latest.max(entry.at);
        match &entry.event {
            Event::SaleCreated(spec) => self.look_at_sale(book, spec.id),
            Event::SaleChanged { sale, .. } | Event::SaleEnded(sale) | Event::SaleDeleted(sale) => {
                self.look_at_sale(book, *sale);
            }
            Event::LineJoined { sku, buyer } => {
                let Some(item) = self.items.get_mut(sku) else { return };
                if item.line.draw.closed().is_none() {
                    let secrets = book.line_secrets(*sku).expect("it has a line");
                    let number = u32::try_from(item.leaves.len()).expect("places have 32 bits") + 1;
                    item.leaves.push(secrets.leaf(number, *buyer));
                }
            }
            Event::LineClosed { sku, .. } | Event::LineDrawn { sku, .. } => {
                if let Some(item) = self.items.get_mut(sku) {
                    item.line = book.line_of(*sku).expect("it has a line");
                }
            }
            _ => {}
        }
    }

    /// Of a sale that was deleted nothing is asked for.
    fn look_at_sale(&mut self, book: &Book, id: SaleId) {
        if self.sale.is_some_and(|asked| asked != id) {
            return;
        }
        let sale = book.registry().get(id).expect("the entry is about it");
        let Some(sku) = book.sku(id, self.product).filter(|_| !sale.deleted) else {
            self.items.retain(|_, item| item.sale != id);
            return;
        };
        match Item::of(book, sku, sale) {
            None => self.is_sold_plainly = true,
            Some(mut item) => {
                let before = self.items.remove(&sku);
                item.leaves = before.map_or_else(Vec::new, |before| before.leaves);
                self.items.insert(sku, item);
            }
        }
    }

    pub(super) fn finish(self, audit: Audit) -> Result<Draw, NoDraw> {
        if let Some(broken) = audit.broken.into_iter().next() {
            return Err(NoDraw::Broken(broken));
        }
        if self.items.len() > 1 {
            return Err(NoDraw::Several(self.items.into_values().map(|item| item.sale).collect()));
        }
        let Some(item) = self.items.into_values().next() else {
            return Err(if self.is_sold_plainly { NoDraw::NoLine } else { NoDraw::UnknownItem });
        };
        let Item { sale, starts_at, ends_at, is_ended, line, leaves } = item;
        if line.draw.closed().is_none() {
            let is_over = is_ended || ends_at <= self.latest;
            let closes_at = UnixMs(starts_at.0.saturating_sub(line.terms.close_ms));
            return Err(if is_over { NoDraw::Abandoned } else { NoDraw::Open(closes_at) });
        }
        line.draw.drawn().ok_or(NoDraw::Waiting)?;
        Ok(Draw { sale, product: self.product, line, leaves })
    }
}
