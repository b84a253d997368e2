//! The sales as a connection last saw them: the rules of sales are the engine's book of sales alone, and what an
//! order needs of its SKU stands beside it.
//!
//! Every transaction reads the sale events that came since, under the lock, so what is here is never behind
//! the ledger while it is used. Must not: know stock or orders.

use std::collections::HashMap;

use engine::{
    Accepted, Book, Command, Entry, Event, Payment, Refusal, SaleChange, SaleId, Seq, SkuId, UnixMs,
};
use mysql::Row;

use super::session::Failure;
use super::sql::unsigned;
use crate::ledger::rows as codes;

/// What an order needs to know of its SKU; none of it ever changes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Terms {
    /// Position in `Catalog::sales`.
    sale: usize,
    pub(super) price: u64,
    pub(super) limit: Option<u32>,
}

#[derive(Debug)]
struct Sale {
    id: SaleId,
    first_sku: SkuId,
    items: u32,
    /// How its orders are paid, and since which entry.
    payments: Vec<(Seq, Payment)>,
    /// Of the latest event about it.
    version: Seq,
}

/// All sales of the ledger up to an entry.
#[derive(Debug)]
pub(super) struct Catalog {
    book: Book,
    seen: Seq,
    /// It has carried out what was not committed yet.
    ahead: bool,
    sales: Vec<Sale>,
    by_id: HashMap<SaleId, usize>,
    terms: Vec<Terms>,
}

impl Catalog {
    pub(super) fn new() -> Catalog {
        Catalog {
            book: Book::of_queue(),
            seen: Seq(0),
            ahead: false,
            sales: Vec::new(),
            by_id: HashMap::new(),
            terms: Vec::new(),
        }
    }

    /// The statement that reads what came since.
    pub(super) fn query(&self) -> String {
        events_after(self.seen)
    }

    pub(super) fn terms(&self, sku: SkuId) -> Option<Terms> {
        self.terms.get(sku.0 as usize).copied()
    }

    pub(super) fn skus_len(&self) -> usize {
        self.terms.len()
    }

    pub(super) fn sale_of(&self, sku: SkuId) -> Option<(SaleId, Seq)> {
        let sale = &self.sales[self.terms(sku)?.sale];
        Some((sale.id, sale.version))
    }

    /// The SKUs of a sale.
    pub(super) fn skus(&self, sale: SaleId) -> Option<Vec<SkuId>> {
        let sale = &self.sales[*self.by_id.get(&sale)?];
        Some((sale.first_sku.0..sale.first_sku.0 + sale.items).map(SkuId).collect())
    }

    /// How an order of these terms was to be paid when the entry with this number placed it.
    pub(super) fn payment(&self, terms: Terms, placed: Seq) -> Payment {
        let payments = &self.sales[terms.sale].payments;
        let later = payments.partition_point(|(since, _)| *since < placed);
        payments[later.max(1) - 1].1
    }

    /// Carries a command about a sale out; its event, if there is one, comes as the next entry of the sequence.
    pub(super) fn execute(
        &mut self,
        now: UnixMs,
        command: Command,
    ) -> (Result<Accepted, Refusal>, Option<Event>) {
        let answer = self.book.execute(now, command);
        let mut journal = Vec::new();
        self.book.drain_journal(&mut journal);
        self.book.drain_touched(|_, _| {});
        assert!(journal.len() <= 1, "a command about a sale is one event");
        self.ahead |= !journal.is_empty();
        (answer, journal.pop().map(|entry| entry.event))
    }

    /// The transaction has ended. If it was not committed, what it did to the sales is forgotten with all else, and
    /// read again.
    pub(super) fn settle(&mut self, committed: bool) {
        if !committed && self.ahead {
            *self = Catalog::new();
        }
        self.ahead = false;
    }

    /// Takes an event in that another server has written.
    pub(super) fn replay(&mut self, entry: &Entry) -> Result<(), Failure> {
        self.book.replay_sale(entry).map_err(|inconsistent| Failure::Damaged(inconsistent.to_string()))?;
        self.book.drain_touched(|_, _| {});
        self.note(entry.seq, &entry.event);
        Ok(())
    }

    /// Notes an event that the book of sales knows.
    pub(super) fn note(&mut self, seq: Seq, event: &Event) {
        self.seen = seq;
        match event {
            Event::SaleCreated(spec) => {
                let sale = self.sales.len();
                let first = u32::try_from(self.terms.len()).expect("the book has numbers for its SKUs");
                self.by_id.insert(spec.id, sale);
                self.terms.extend(spec.items.iter().map(|item| Terms {
                    sale,
                    price: item.price,
                    limit: item.limit,
                }));
                self.sales.push(Sale {
                    id: spec.id,
                    first_sku: SkuId(first),
                    items: u32::try_from(spec.items.len()).expect("a sale has at most 10,000 items"),
                    payments: vec![(seq, spec.payment)],
                    version: seq,
                });
            }
            Event::SaleChanged { sale, change } => {
                let sale = self.sale_mut(*sale, seq);
                if let SaleChange { payment_ms: Some(ms), .. } = **change {
                    sale.payments.push((seq, Payment::WithinMs(ms)));
                }
            }
            Event::SalePaused(sale) | Event::SaleResumed(sale) | Event::SaleEnded(sale) => {
                self.sale_mut(*sale, seq);
            }
            _ => unreachable!("only events about sales are noted here"),
        }
    }

    fn sale_mut(&mut self, id: SaleId, version: Seq) -> &mut Sale {
        let sale = &mut self.sales[self.by_id[&id]];
        sale.version = version;
        sale
    }
}

/// The statement that reads the events about sales after an entry.
pub(super) fn events_after(seq: Seq) -> String {
    format!("SELECT seq, at, sale, kind, body FROM sale_events WHERE seq > {} ORDER BY seq", seq.0)
}

/// A row of `sale_events` as an entry.
pub(super) fn sale_entry(row: Row) -> Result<Entry, Failure> {
    let (seq, at, sale, kind, body): (i64, i64, i64, String, String) = mysql::from_row_opt(row)?;
    let event = codes::sale_event(SaleId(unsigned(sale)), &kind, &body)?;
    Ok(Entry { seq: Seq(unsigned(seq)), at: UnixMs(unsigned(at)), event })
}
