//! Adds a sale up, entry by entry.
//!
//! Beside the book it keeps 4 bytes for each hold that was paid, 12 for each who joined a line, up to 70 for each buyer, and a few for each payment that is to go
//! back. Must not: keep an order.

use std::collections::{HashMap, HashSet};

use engine::{
    Adjust, Book, BuyerId, Closing, Disposition, Entry, Event, Notice, Operated, OrderView, Pay, Payment,
    SaleId, SaleSpec, Seq, SkuId, Status, Turn, UnixMs,
};
use ring::digest::{Context, SHA256};

use super::canonical;
use super::{Acted, HAPPENED_MAX, Happened, ItemReport, Percentiles, SaleReport, Sum, WhatHappened};

/// What is known so far.
pub(in crate::ledger) struct Tally {
    sale: SaleId,
    /// Of its first item; `None`: it was not created yet.
    first_sku: Option<SkuId>,
    report: SaleReport,
    /// Items of which nothing is available, and how many.
    out: Vec<bool>,
    out_len: usize,
    /// How many paid orders each buyer has, of all who placed one.
    buyers: HashMap<BuyerId, u32>,
    paid_after_ms: Vec<u32>,
    /// By item.
    lines: Vec<Waiting>,
    paid_late: HashSet<Seq>,
    refunds_due: HashMap<Seq, u64>,
    /// Where a refund of this sale was settled last.
    settled: Option<Seq>,
    /// The second that is counted, and its orders.
    second: (u64, u64),
    digest: Context,
}

/// The line of an item.
#[derive(Clone, Default)]
struct Waiting {
    /// When each joined, by number.
    joined_at: Vec<u64>,
    waited_ms: Vec<u32>,
}

impl Tally {
    pub(in crate::ledger) fn of(sale: SaleId) -> Tally {
        Tally {
            sale,
            first_sku: None,
            report: SaleReport::default(),
            out: Vec::new(),
            out_len: 0,
            buyers: HashMap::new(),
            paid_after_ms: Vec::new(),
            lines: Vec::new(),
            paid_late: HashSet::new(),
            refunds_due: HashMap::new(),
            settled: None,
            second: (0, 0),
            digest: Context::new(&SHA256),
        }
    }

    /// Takes the next entry, which the book has carried out.
    pub(in crate::ledger) fn add(&mut self, book: &Book, entry: &Entry) {
        let Entry { seq, at, ref event } = *entry;
        (self.report.entry, self.report.entry_at_ms) = (seq.0, at.0);
        // Before a payment's end is carried out here: then it is not known any more.
        self.digest(book, entry);
        match event {
            Event::SaleCreated(spec) if spec.id == self.sale => self.created(book, spec),
            _ if self.first_sku.is_none() => return,
            Event::OrderPlaced { id, buyer, quantity, .. } => {
                self.placed(book, entry, id.sku, *buyer, *quantity)
            }
            Event::OrderClosed { order, how } => self.closed(book, at, *order, *how),
            Event::StockAdjusted { sku, how, units, .. } => {
                if let Some(item) = self.item(*sku) {
                    item.untouched = match how {
                        Adjust::Restock => item.untouched.saturating_add(*units),
                        Adjust::Correct => item.untouched.saturating_sub(*units),
                    };
                }
                self.stock_moved(book, at, *sku);
            }
            Event::PaymentRecorded { pay, disposition } => {
                self.payment(book, (seq, at), pay, *disposition);
            }
            Event::PaymentMatched { payment } => {
                if let Some(amount) = self.refunds_due.remove(payment) {
                    self.report.payments.add(amount);
                }
            }
            Event::RefundSettled { payment } => {
                if let Some(amount) = self.refunds_due.remove(payment) {
                    self.report.refunds_made.add(amount);
                    self.settled = Some(seq);
                }
            }
            Event::OrderRejected { order, .. } => {
                if let Some(item) = self.item(order.sku) {
                    item.orders.rejected += 1;
                }
            }
            Event::LineJoined { sku, .. } => {
                if let Some(index) = self.index(*sku) {
                    self.lines[index].joined_at.push(at.0);
                }
            }
            Event::TurnOpened { sku, turn } => self.called(book, at, *sku, *turn),
            Event::TurnEnded { sku, .. } => self.stock_moved(book, at, *sku),
            Event::Operated(operated) => self.acted((seq, at), operated),
            _ => {}
        }
        self.note(book, entry);
    }

    /// `None`: there is no such sale.
    pub(in crate::ledger) fn finish(mut self) -> Option<SaleReport> {
        self.first_sku?;
        self.end_second();
        let mut report = self.report;
        for (item, line) in report.items.iter_mut().zip(self.lines) {
            report.orders.add(item.orders);
            (item.line_joined, item.line_called) = (count(line.joined_at.len()), count(line.waited_ms.len()));
            item.line_waited_ms = Percentiles::of(line.waited_ms);
        }
        report.buyers_ordered = count(self.buyers.len());
        report.buyers_bought = count(self.buyers.values().filter(|orders| **orders > 0).count());
        let digest = self.digest.finish();
        report.entries_sha256 = digest.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
        report.paid_after_ms = Percentiles::of(self.paid_after_ms);
        let due = self.refunds_due.values();
        report.refunds_due = Sum { count: count(due.len()), amount: due.sum() };
        Some(report)
    }

    fn digest(&mut self, book: &Book, entry: &Entry) {
        if self.concerns(book, entry)
            && let Some(line) = canonical::line(entry)
        {
            self.digest.update(line.as_bytes());
            self.report.entries += 1;
        }
    }

    /// Whether the entry is about this sale, or about the clock since it was created.
    fn concerns(&self, book: &Book, entry: &Entry) -> bool {
        let of_order = |seq| book.order_at(seq).is_some_and(|order| self.index(order.id.sku).is_some());
        match &entry.event {
            Event::SaleCreated(spec) => spec.id == self.sale,
            Event::SaleChanged { sale, .. }
            | Event::SalePaused(sale)
            | Event::SaleResumed(sale)
            | Event::SaleEnded(sale)
            | Event::SaleDeleted(sale)
            | Event::Noticed(Notice::SaleStarted(sale) | Notice::SaleEnded(sale)) => *sale == self.sale,
            Event::Noticed(Notice::SoldOut(sku) | Notice::BackInStock(sku))
            | Event::StockAdjusted { sku, .. } => self.index(*sku).is_some(),
            Event::LineJoined { sku, .. }
            | Event::LineClosed { sku, .. }
            | Event::LineDrawn { sku, .. }
            | Event::LineMoved { sku, .. }
            | Event::PaceLimited { sku, .. }
            | Event::LineMessageSet { sku, .. }
            | Event::TurnOpened { sku, .. }
            | Event::TurnEnded { sku, .. } => self.index(*sku).is_some(),
            Event::OrderPlaced { id, .. } => self.index(id.sku).is_some(),
            Event::OrderRejected { order, .. } => self.index(order.sku).is_some(),
            Event::PaymentRecorded { pay, .. } => self.index(pay.order.sku).is_some(),
            Event::OrderClosed { order, .. } | Event::OrderAddressed { order } => of_order(*order),
            Event::PaymentMatched { payment } | Event::RefundSettled { payment } => {
                self.refunds_due.contains_key(payment)
            }
            Event::ClockCorrected { .. } => self.first_sku.is_some(),
            Event::Operated(operated) => operated.sale == Some(self.sale),
            Event::BuyerErased(_) | Event::OperatorAdded(_) | Event::OperatorRevoked(_) => false,
        }
    }

    fn created(&mut self, book: &Book, spec: &SaleSpec) {
        let sale = book.registry().get(self.sale).expect("the book has carried out that it was created");
        self.first_sku = Some(sale.first_sku);
        self.out = vec![false; spec.items.len()];
        self.lines = vec![Waiting::default(); spec.items.len()];
        let report = &mut self.report;
        report.sale = spec.id.0;
        report.title.clone_from(&spec.title);
        report.currency.clone_from(&spec.currency);
        (report.planned_starts_at_ms, report.planned_ends_at_ms) = (spec.starts_at.0, spec.ends_at.0);
        (report.starts_at_ms, report.ends_at_ms) = (spec.starts_at.0, spec.ends_at.0);
        let item = |item: &engine::ItemSpec| ItemReport {
            product: item.product.0,
            title: item.title.clone(),
            price: item.price,
            planned: item.total,
            total: item.total,
            available: item.total,
            untouched: item.total,
            ..ItemReport::default()
        };
        report.items = spec.items.iter().map(item).collect();
    }

    fn placed(&mut self, book: &Book, entry: &Entry, sku: SkuId, buyer: BuyerId, quantity: u32) {
        let Some(item) = self.item(sku) else { return };
        let at = entry.at;
        let order = book.order_at(entry.seq).expect("the book has carried out that it was placed");
        let is_paid = order.status == Status::Paid;
        item.orders.placed += 1;
        *(if is_paid { &mut item.orders.paid } else { &mut item.orders.held }) += 1;
        item.take(quantity);
        item.first_order_at_ms.get_or_insert(at.0);
        self.report.first_order_at_ms.get_or_insert(at.0);
        *self.buyers.entry(buyer).or_default() += u32::from(is_paid);
        if self.second.0 != at.0 / 1_000 {
            self.end_second();
            self.second = (at.0 / 1_000, 0);
        }
        self.second.1 += 1;
        self.stock_moved(book, at, sku);
    }

    fn called(&mut self, book: &Book, at: UnixMs, sku: SkuId, turn: Turn) {
        let Some(index) = self.index(sku) else { return };
        let starts_at = book.registry().get(self.sale).map_or(0, |sale| sale.spec.starts_at.0);
        let line = &mut self.lines[index];
        // Numbers are given from 1 on, in the order of joining.
        let joined_at = line.joined_at[turn.number as usize - 1];
        let waited_ms = at.0.saturating_sub(joined_at.max(starts_at));
        line.waited_ms.push(u32::try_from(waited_ms).unwrap_or(u32::MAX));
        self.stock_moved(book, at, sku);
    }

    fn closed(&mut self, book: &Book, at: UnixMs, seq: Seq, how: Closing) {
        let OrderView { id, buyer, quantity, placed_at, .. } =
            book.order_at(seq).expect("the book has carried out that it was closed");
        let was_late = self.paid_late.contains(&seq);
        let Some(item) = self.item(id.sku) else { return };
        let orders = &mut item.orders;
        let (from, to) = match how {
            Closing::Paid => (&mut orders.held, &mut orders.paid),
            Closing::Cancelled => (&mut orders.held, &mut orders.cancelled),
            Closing::Expired => (&mut orders.held, &mut orders.expired),
            Closing::PaidLate => (&mut orders.expired, &mut orders.paid_late),
            Closing::Refunded if was_late => (&mut orders.paid_late, &mut orders.refunded),
            Closing::Refunded => (&mut orders.paid, &mut orders.refunded),
        };
        *from -= 1;
        *to += 1;
        if how.returns_units() {
            item.returned += u64::from(quantity);
        }
        if how == Closing::PaidLate {
            item.take(quantity);
            self.paid_late.insert(seq);
        }
        if how == Closing::Paid {
            let after_ms = at.0.saturating_sub(placed_at.0);
            self.paid_after_ms.push(u32::try_from(after_ms).unwrap_or(u32::MAX));
        }
        let paid = self.buyers.entry(buyer).or_default();
        match how {
            Closing::Paid | Closing::PaidLate => *paid += 1,
            Closing::Refunded => *paid -= 1,
            Closing::Cancelled | Closing::Expired => {}
        }
        self.stock_moved(book, at, id.sku);
    }

    fn payment(&mut self, book: &Book, (seq, at): (Seq, UnixMs), pay: &Pay, disposition: Disposition) {
        let Some(item) = self.item(pay.order.sku) else { return };
        item.returned += u64::from(disposition.requested().unwrap_or(0));
        match disposition {
            Disposition::Applied => self.report.payments.add(pay.amount),
            Disposition::RefundDue(_) => {
                self.refunds_due.insert(seq, pay.amount);
            }
            Disposition::Settled(_) => self.report.refunds_made.add(pay.amount),
        }
        self.stock_moved(book, at, pay.order.sku);
    }

    /// Takes an item's stock from the book.
    fn stock_moved(&mut self, book: &Book, at: UnixMs, sku: SkuId) {
        let Some(index) = self.index(sku) else { return };
        let stock = book.stock(sku).expect("an item of a sale has a stock");
        let item = &mut self.report.items[index];
        (item.total, item.available, item.turns) = (stock.total(), stock.available(), stock.turns());
        (item.held, item.sold) = (stock.held(), stock.sold());
        if item.available + item.turns <= item.total / 2 {
            item.half_at_ms.get_or_insert(at.0);
        }
        let is_out = stock.is_sold_out();
        if is_out {
            item.sold_out_at_ms.get_or_insert(at.0);
        }
        if is_out != self.out[index] {
            self.out[index] = is_out;
            self.out_len = if is_out { self.out_len + 1 } else { self.out_len - 1 };
            if self.out_len == self.out.len() {
                self.report.sold_out_at_ms.get_or_insert(at.0);
            }
        }
    }

    /// Keeps what is no order.
    fn note(&mut self, book: &Book, entry: &Entry) {
        let Some(what) = self.what_happened(book, entry) else { return };
        let sale = book.registry().get(self.sale).expect("it was created");
        let report = &mut self.report;
        report.title.clone_from(&sale.spec.title);
        (report.starts_at_ms, report.ends_at_ms) = (sale.spec.starts_at.0, sale.spec.ends_at.0);
        report.payment_ms = match sale.spec.payment {
            Payment::WithinMs(ms) => Some(ms),
            Payment::OnPlacing => None,
        };
        report.paused = sale.paused;
        match what {
            WhatHappened::Ended => report.ended_at_ms = Some(entry.at.0),
            WhatHappened::Deleted => report.deleted_at_ms = Some(entry.at.0),
            _ => {}
        }
        if report.happened.len() < HAPPENED_MAX {
            report.happened.push(Happened { entry: entry.seq.0, at_ms: entry.at.0, what });
        } else {
            report.happened_left_out += 1;
        }
    }

    /// Whoever settles a refund names the payment: that it is of this sale is known by the entry before.
    fn acted(&mut self, (seq, at): (Seq, UnixMs), operated: &Operated) {
        let report = &mut self.report;
        let settles = *operated.what == *"refund_settled";
        let is_of_this = match operated.sale {
            Some(sale) => sale == self.sale,
            None if settles => self.settled == Some(Seq(seq.0 - 1)),
            None => at.0 < report.ended_at_ms.unwrap_or(report.ends_at_ms),
        };
        if !is_of_this {
            return;
        }
        if report.actions.len() == HAPPENED_MAX {
            report.actions_left_out += 1;
            return;
        }
        let [who, why] = [&operated.by.who, &operated.by.why].map(ToString::to_string);
        let [what, about] = [&operated.what, &operated.about].map(ToString::to_string);
        report.actions.push(Acted { entry: seq.0, at_ms: at.0, who, what, about, why });
    }

    fn what_happened(&self, book: &Book, entry: &Entry) -> Option<WhatHappened> {
        match &entry.event {
            Event::SaleCreated(spec) => (spec.id == self.sale).then_some(WhatHappened::Created),
            Event::SaleChanged { sale, change } => (*sale == self.sale).then(|| WhatHappened::Changed {
                title: change.title.clone(),
                starts_at_ms: change.starts_at.map(|at| at.0),
                ends_at_ms: change.ends_at.map(|at| at.0),
                payment_ms: change.payment_ms,
                products: change.items.iter().map(|item| item.product.0).collect(),
            }),
            Event::SalePaused(sale) => (*sale == self.sale).then_some(WhatHappened::Paused),
            Event::SaleResumed(sale) => (*sale == self.sale).then_some(WhatHappened::Resumed),
            Event::SaleEnded(sale) => (*sale == self.sale).then_some(WhatHappened::Ended),
            Event::SaleDeleted(sale) => (*sale == self.sale).then_some(WhatHappened::Deleted),
            Event::StockAdjusted { sku, how, units, key } => {
                let (product, units, key) =
                    (self.report.items[self.index(*sku)?].product, *units, key.to_string());
                Some(match how {
                    Adjust::Restock => WhatHappened::Restocked { product, units, key },
                    Adjust::Correct => WhatHappened::Corrected { product, units, key },
                })
            }
            Event::ClockCorrected { from, to, who } => {
                let sale = book.registry().get(self.sale)?;
                let sells = sale.ended_at.is_none() && *from < sale.spec.ends_at;
                let has_holds = self.report.items.iter().any(|item| item.held > 0);
                (sells || has_holds).then(|| WhatHappened::ClockCorrected {
                    from_ms: from.0,
                    to_ms: to.0,
                    who: who.to_string(),
                })
            }
            _ => None,
        }
    }

    fn end_second(&mut self) {
        let (second, orders) = self.second;
        if orders > self.report.peak_orders_per_s {
            (self.report.peak_at_ms, self.report.peak_orders_per_s) = (Some(second * 1_000), orders);
        }
    }

    fn index(&self, sku: SkuId) -> Option<usize> {
        let index = sku.0.checked_sub(self.first_sku?.0)? as usize;
        (index < self.report.items.len()).then_some(index)
    }

    fn item(&mut self, sku: SkuId) -> Option<&mut ItemReport> {
        let index = self.index(sku)?;
        self.report.items.get_mut(index)
    }
}

fn count(length: usize) -> u64 {
    u64::try_from(length).expect("a count fits")
}
