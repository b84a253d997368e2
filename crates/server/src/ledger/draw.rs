//! The draw of a line, as the ledger has it: what was announced, who took part, and what came of it.
//!
//! Must not: read a ledger.

use engine::draw::Hash;
use engine::{Book, Closed, Entry, Event, LineView, ProductId, SaleId, SkuId, UnixMs};

use super::Audit;
use crate::hex::hex;

/// Enough to find every place out again.
#[derive(Clone, Debug)]
pub struct Draw {
    pub sale: SaleId,
    pub product: ProductId,
    pub title: String,
    pub line: LineView,
    /// Of those who took part, by number.
    pub leaves: Vec<Hash>,
}

/// What the shop signs when the entries of a line are closed: a text, so that it can be checked without this program. `commitment`:
/// `None` for what was signed before the commitment was a part of it.
pub fn close_statement(
    (sale, product): (SaleId, ProductId),
    commitment: Option<&Hash>,
    closed: &Closed,
) -> String {
    let Closed { at, entries, root, round } = closed;
    let round = round.map_or_else(|| "none".to_owned(), |round| round.to_string());
    let committed = commitment.map_or_else(String::new, |hash| format!("commitment {}\n", hex(hash)));
    format!(
        "doorbuster line close\nsale {}\nproduct {}\n{committed}closed_at_ms {}\nentries {entries}\nroot {}\nround {round}\n",
        sale.0,
        product.0,
        at.0,
        hex(root)
    )
}

/// Why there is none.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoDraw {
    #[error("there is no such item")]
    UnknownItem,
    #[error("the item has no line: it is sold to whoever comes first")]
    NoLine,
    #[error("its entries are not closed yet: they close at {} (milliseconds since 1970)", .0.0)]
    Open(UnixMs),
    #[error("its entries are closed, and its draw waits for the beacon")]
    Waiting,
    #[error("the ledger breaks an invariant: {0}")]
    Broken(String),
}

/// Collects a draw, entry by entry.
#[derive(Debug)]
pub(super) struct Drawing {
    of: (SaleId, ProductId),
    sku: Option<SkuId>,
    title: String,
    starts_at: UnixMs,
    line: Option<LineView>,
    leaves: Vec<Hash>,
}

impl Drawing {
    pub(super) fn of(of: (SaleId, ProductId)) -> Drawing {
        let (title, starts_at) = (String::new(), UnixMs(0));
        Drawing { of, sku: None, title, starts_at, line: None, leaves: Vec::new() }
    }

    pub(super) fn add(&mut self, book: &Book, entry: &Entry) {
        match &entry.event {
            Event::SaleCreated(spec) if spec.id == self.of.0 => {
                self.sku = book.sku(self.of.0, self.of.1);
                self.look(book);
            }
            Event::SaleChanged { sale, .. } if *sale == self.of.0 => self.look(book),
            Event::LineJoined { sku, buyer } if Some(*sku) == self.sku => {
                let line = book.line_of(*sku).expect("somebody has joined it");
                if line.draw.closed().is_none() {
                    let secrets = book.line_secrets(*sku).expect("it has a line");
                    self.leaves.push(secrets.leaf(line.joined, *buyer));
                }
            }
            Event::LineClosed { sku, .. } | Event::LineDrawn { sku, .. } if Some(*sku) == self.sku => {
                self.look(book);
            }
            _ => {}
        }
    }

    fn look(&mut self, book: &Book) {
        self.line = self.sku.and_then(|sku| book.line_of(sku));
        let sale = book.registry().get(self.of.0).expect("it was created");
        self.starts_at = sale.spec.starts_at;
        let item = sale.spec.items.iter().find(|item| item.product == self.of.1);
        self.title = item.map_or_else(String::new, |item| item.title.clone());
    }

    pub(super) fn finish(self, audit: Audit) -> Result<Draw, NoDraw> {
        if let Some(broken) = audit.broken.into_iter().next() {
            return Err(NoDraw::Broken(broken));
        }
        self.sku.ok_or(NoDraw::UnknownItem)?;
        let line = self.line.ok_or(NoDraw::NoLine)?;
        if line.draw.closed().is_none() {
            return Err(NoDraw::Open(UnixMs(self.starts_at.0.saturating_sub(line.terms.close_ms))));
        }
        line.draw.drawn().ok_or(NoDraw::Waiting)?;
        let (sale, product) = self.of;
        Ok(Draw { sale, product, title: self.title, line, leaves: self.leaves })
    }
}
