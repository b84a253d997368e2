//! What an audit finds, for every backend: the book of all entries, and whether its invariants hold.
//!
//! Must not: read a ledger.

use engine::{Book, ProductId, SaleId, UnixMs};

/// One SKU, as an audit found it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditedSku {
    pub sale: SaleId,
    /// When the sale begins and ends.
    pub times: (UnixMs, UnixMs),
    /// The sale was ended by hand.
    pub ended: bool,
    pub paused: bool,
    pub product: ProductId,
    pub title: String,
    pub total: u64,
    pub available: u64,
    /// Set aside for those who were called from its line.
    pub turns: u64,
    pub held: u64,
    pub sold: u64,
    /// Of any status.
    pub orders: u64,
}

/// What an audit found.
#[derive(Clone, Debug, Default)]
pub struct Audit {
    pub skus: Vec<AuditedSku>,
    /// Every entry was carried out. If not, one made no sense: it is named in `broken`, and all counts here are
    /// those before it, not the ledger's.
    pub complete: bool,
    /// Entries that were carried out: the ledger's state at that sequence number.
    pub entries: u64,
    pub orders: u64,
    pub refunds_due: u64,
    /// One line for each invariant that is broken; empty if the ledger is right.
    pub broken: Vec<String>,
}

impl Audit {
    /// Of the book to which the entries up to `last` were replayed, as far as they went; `broken`: why no further.
    pub(super) fn of(book: &Book, last: u64, broken: Vec<String>) -> Audit {
        let entries = book.next_seq().0 - 1;
        let mut audit = Audit {
            skus: Vec::new(),
            complete: entries == last,
            entries,
            orders: u64::try_from(book.orders_len()).expect("a count fits"),
            refunds_due: u64::try_from(book.refunds_due_len()).expect("a count fits"),
            broken,
        };
        if let Err(broken) = book.check_invariants() {
            audit.broken.extend(broken);
        }
        for sale in book.sales() {
            for (item, stock) in sale.spec.items.iter().zip(&sale.stocks) {
                let sku = book.sku(sale.spec.id, item.product).expect("an item of a sale has a SKU");
                audit.skus.push(AuditedSku {
                    sale: sale.spec.id,
                    times: (sale.spec.starts_at, sale.spec.ends_at),
                    ended: sale.ended,
                    paused: sale.paused,
                    product: item.product,
                    title: item.title.clone(),
                    total: stock.total(),
                    available: stock.available(),
                    turns: stock.turns(),
                    held: stock.held(),
                    sold: stock.sold(),
                    orders: book.orders_of(sku).expect("the SKU was just found"),
                });
            }
        }
        audit
    }
}
