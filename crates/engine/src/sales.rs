//! The registry of sales: which there are, when they sell, on what terms each of their SKUs is sold.
//!
//! Contained in a [`crate::Book`], and used alone where the stock and the orders are somebody else's: beside a ledger
//! that many servers write. It judges the commands of operators about sales and follows the events that they make;
//! all other events are left out of it. Must not: know stock, orders or buyers.

use std::collections::BTreeSet;

use crate::sale::apply_change;
use crate::sharded::FixedMap;
use crate::{
    Command, Entry, Event, Inconsistent, ItemChange, Payment, Phase, ProductId, Refusal, SaleChange, SaleId,
    SaleSpec, Seq, SkuId, UnixMs,
};

/// A sale as it stands.
#[derive(Clone, Debug)]
pub struct Sale {
    pub spec: SaleSpec,
    /// Of its first item; the others follow.
    pub first_sku: SkuId,
    pub paused: bool,
    /// When an operator ended it, or deleted it.
    pub ended_at: Option<UnixMs>,
    /// It is ended too, and has no orders. What is left of it keeps its number, and those of its SKUs, from use.
    pub deleted: bool,
    /// The number of the latest entry about it: newer states have higher ones.
    pub version: Seq,
    /// Of all moves of its start, how shortly before the start of then the latest came. Who has not heard of it may sell at
    /// that start.
    moved_ms_before: u64,
    /// How its orders are paid, and since which entry.
    payments: Vec<(Seq, Payment)>,
}

impl Sale {
    pub fn phase(&self, now: UnixMs) -> Phase {
        Phase::at(now, self.spec.starts_at, self.spec.ends_at, self.paused, self.ended_at.is_some())
    }

    /// When the time of its lines goes on by itself, if it stands.
    pub(crate) fn lines_go_on_at(&self) -> UnixMs {
        if self.paused { self.spec.ends_at } else { self.spec.starts_at.min(self.spec.ends_at) }
    }

    /// It was ended before its start: it never sold.
    pub fn is_called_off(&self) -> bool {
        self.ended_at.is_some_and(|at| at < self.spec.starts_at)
    }

    /// The numbers of its SKUs, one per item in the same order.
    pub fn skus(&self) -> impl Iterator<Item = SkuId> + use<> {
        let items = u32::try_from(self.spec.items.len()).expect("a sale has at most 10,000 items");
        (self.first_sku.0..self.first_sku.0 + items).map(SkuId)
    }

    /// Checks which items a change is about, and whether it comes in time.
    fn check_items(&self, now: UnixMs, change: &SaleChange) -> Result<(), Refusal> {
        if change.items.is_empty() {
            return Ok(());
        }
        if now >= self.spec.starts_at {
            return Err(Refusal::SaleStarted);
        }
        let known: BTreeSet<_> = self.spec.items.iter().map(|item| item.product).collect();
        let mut named = BTreeSet::new();
        for ItemChange { product, .. } in &change.items {
            if !known.contains(product) {
                return Err(Refusal::UnknownSku);
            }
            if !named.insert(*product) {
                return Err(Refusal::InvalidChange("a product may be changed only once at a time"));
            }
        }
        Ok(())
    }

    /// Checks a change against the sale as it is now.
    fn check_change(&self, now: UnixMs, change: &SaleChange) -> Result<(), Refusal> {
        let invalid = |why| Err(Refusal::InvalidChange(why));
        // One that was ended stays so; one whose time is over may get more.
        if self.ended_at.is_some() || (self.phase(now) == Phase::Ended && change.ends_at.is_none()) {
            return Err(Refusal::Ended);
        }
        self.check_items(now, change)?;
        if change.starts_at.is_some() && now >= self.spec.starts_at {
            return invalid("the sale has started: its start can't be moved any more");
        }
        if change.payment_ms.is_some() && self.spec.payment == Payment::OnPlacing {
            return invalid("the orders of this sale are paid on placing: it has no payment time");
        }
        let mut changed = self.spec.clone();
        apply_change(&mut changed, change);
        if changed.ends_at <= now {
            return invalid("the new end is past: end the sale instead");
        }
        change.check_bounds(&changed)
    }
}

/// What an order needs to know of its SKU; none of it changes once there is one.
#[derive(Clone, Copy, Debug)]
pub struct Terms {
    /// Minor units, per unit.
    pub price: u64,
    /// Units that one buyer may hold and own.
    pub limit: Option<u32>,
    /// It is sold to a line.
    pub has_line: bool,
    /// Position in `Sales::sales`.
    pub(crate) sale: u32,
}

/// All sales, up to an entry of the ledger.
#[derive(Clone, Debug, Default)]
pub struct Sales {
    /// In the order of creation.
    sales: Vec<Sale>,
    by_id: FixedMap<SaleId, u32>,
    /// By the SKU's number.
    terms: Vec<Terms>,
    by_product: FixedMap<(SaleId, ProductId), SkuId>,
    /// Of the latest entry about a sale.
    seen: Seq,
    last_at: UnixMs,
}

impl Sales {
    pub fn new() -> Sales {
        Sales::default()
    }

    /// In the order of creation, which is that of their SKUs' numbers.
    pub fn iter(&self) -> impl Iterator<Item = &Sale> {
        self.sales.iter()
    }

    pub fn get(&self, id: SaleId) -> Option<&Sale> {
        self.by_id.get(&id).map(|index| &self.sales[*index as usize])
    }

    /// The SKU of a product in a sale.
    pub fn sku(&self, sale: SaleId, product: ProductId) -> Option<SkuId> {
        self.by_product.get(&(sale, product)).copied()
    }

    pub fn terms(&self, sku: SkuId) -> Option<Terms> {
        self.terms.get(sku.0 as usize).copied()
    }

    /// The sale that a SKU belongs to.
    pub fn of_sku(&self, sku: SkuId) -> Option<&Sale> {
        self.terms(sku).map(|terms| self.of(terms))
    }

    /// How an order of this SKU was to be paid when the entry with this number placed it.
    pub fn payment(&self, sku: SkuId, placed: Seq) -> Option<Payment> {
        let payments = &self.of_sku(sku)?.payments;
        let later = payments.partition_point(|(since, _)| *since < placed);
        Some(payments[later.max(1) - 1].1)
    }

    /// The latest entry about a sale that is in it.
    pub fn seen(&self) -> Seq {
        self.seen
    }

    /// Follows an entry about a sale, whatever other entries were left out before it.
    ///
    /// # Errors
    /// If the entry is of another kind or does not follow from the ones before it; the registry is as it was.
    pub fn replay(&mut self, entry: &Entry) -> Result<(), Inconsistent> {
        let refuse = |why| Err(Inconsistent { seq: entry.seq, why });
        if !entry.event.is_about_a_sale() {
            return refuse("the entry is not about a sale");
        }
        if entry.seq <= self.seen {
            return refuse("the entry comes a second time");
        }
        if entry.at < self.last_at {
            return refuse("time runs backwards");
        }
        self.check(entry.at, &entry.event).or_else(refuse)?;
        self.apply(entry);
        Ok(())
    }

    pub(crate) fn of(&self, terms: Terms) -> &Sale {
        &self.sales[terms.sale as usize]
    }

    /// Creating the same sale again is answered as the first time, if nothing of it was changed since.
    pub(crate) fn create(&self, spec: SaleSpec) -> Result<Option<Event>, Refusal> {
        if let Some(sale) = self.get(spec.id) {
            return if !sale.deleted && sale.spec == spec { Ok(None) } else { Err(Refusal::SaleExists) };
        }
        self.check_new(&spec)?;
        spec.check_shown()?;
        Ok(Some(Event::SaleCreated(Box::new(spec))))
    }

    pub(crate) fn change(
        &self,
        now: UnixMs,
        id: SaleId,
        change: SaleChange,
    ) -> Result<Option<Event>, Refusal> {
        let sale = self.known(id)?;
        sale.check_change(now, &change)?;
        change.check_shown()?;
        Ok(Some(Event::SaleChanged { sale: id, change: Box::new(change) }))
    }

    /// Pausing a paused sale changes nothing and is no error; so is resuming one that is not paused.
    pub(crate) fn pause(&self, now: UnixMs, id: SaleId) -> Result<Option<Event>, Refusal> {
        Ok((!self.unfinished(now, id)?.paused).then_some(Event::SalePaused(id)))
    }

    pub(crate) fn resume(&self, now: UnixMs, id: SaleId) -> Result<Option<Event>, Refusal> {
        Ok(self.unfinished(now, id)?.paused.then_some(Event::SaleResumed(id)))
    }

    pub(crate) fn end(&self, id: SaleId) -> Result<Option<Event>, Refusal> {
        Ok(self.known(id)?.ended_at.is_none().then_some(Event::SaleEnded(id)))
    }

    /// Deleting a sale again is answered as the first time. Whether it has orders is judged beside it.
    pub(crate) fn delete(&self, now: UnixMs, id: SaleId) -> Result<Option<Event>, Refusal> {
        let sale = self.get(id).ok_or(Refusal::UnknownSale)?;
        if sale.deleted {
            return Ok(None);
        }
        if now >= sale.spec.starts_at {
            return Err(Refusal::SaleStarted);
        }
        Ok(Some(Event::SaleDeleted(id)))
    }

    /// Whether a command changes the items of a sale, or deletes it, when it starts within so long, or when somebody who was
    /// not notified since may take it for started by then.
    pub(crate) fn is_within(&self, ms_before: u64, now: UnixMs, command: &Command) -> bool {
        self.to_have_no_orders(command).is_some_and(|sale| {
            let Sale { spec, deleted, moved_ms_before, .. } = sale;
            let near = now.plus(ms_before) > spec.starts_at || *moved_ms_before <= ms_before;
            near && !deleted && now < spec.starts_at
        })
    }

    /// The sale of which a command asks what only one that has sold nothing may come to.
    pub(crate) fn to_have_no_orders(&self, command: &Command) -> Option<&Sale> {
        match command {
            Command::ChangeSale { sale, change } if !change.items.is_empty() => self.get(*sale),
            Command::DeleteSale(sale) => self.get(*sale),
            _ => None,
        }
    }

    /// The sale of which an event says what only one that has sold nothing may come to.
    pub(crate) fn needs_no_orders(&self, event: &Event) -> Option<&Sale> {
        match event {
            Event::SaleChanged { sale, change } if !change.items.is_empty() => self.get(*sale),
            Event::SaleDeleted(sale) => self.get(*sale),
            _ => None,
        }
    }

    /// Whether a command could have made this event about a sale.
    pub(crate) fn check(&self, at: UnixMs, event: &Event) -> Result<(), &'static str> {
        let known = |id: &SaleId| self.known(*id).map_err(|_refusal| "the sale is unknown");
        match event {
            Event::SaleCreated(spec) if self.get(spec.id).is_some() => Err("the sale exists already"),
            Event::SaleCreated(spec) => self.check_new(spec).map_err(|_refusal| "the sale breaks a bound"),
            Event::SaleChanged { sale, change } => {
                known(sale)?.check_change(at, change).map_err(|_refusal| "the change breaks a rule")
            }
            Event::SalePaused(sale) | Event::SaleResumed(sale) | Event::SaleEnded(sale) => {
                known(sale).map(|_sale| ())
            }
            Event::SaleDeleted(sale) if at >= known(sale)?.spec.starts_at => Err("the sale had started"),
            Event::SaleDeleted(_) => Ok(()),
            _ => unreachable!("only events about sales come here"),
        }
    }

    /// Carries out an event about a sale that is known to be right.
    pub(crate) fn apply(&mut self, entry: &Entry) {
        let seq = entry.seq;
        (self.seen, self.last_at) = (seq, entry.at);
        match &entry.event {
            Event::SaleCreated(spec) => self.add(seq, spec),
            Event::SaleChanged { sale, change } => {
                let id = *sale;
                let sale = self.touch(id, seq);
                if change.starts_at.is_some_and(|starts_at| starts_at != sale.spec.starts_at) {
                    let before = sale.spec.starts_at.0.saturating_sub(entry.at.0);
                    sale.moved_ms_before = sale.moved_ms_before.min(before);
                }
                apply_change(&mut sale.spec, change);
                if change.payment_ms.is_some() {
                    sale.payments.push((seq, sale.spec.payment));
                }
                if !change.items.is_empty() {
                    let sale = &self.sales[self.by_id[&id] as usize];
                    let terms = &mut self.terms[sale.first_sku.0 as usize..];
                    for (terms, item) in terms.iter_mut().zip(&sale.spec.items) {
                        (terms.price, terms.limit) = (item.price, item.limit);
                    }
                }
            }
            Event::SalePaused(sale) => self.touch(*sale, seq).paused = true,
            Event::SaleResumed(sale) => self.touch(*sale, seq).paused = false,
            Event::SaleEnded(sale) => self.touch(*sale, seq).ended_at = Some(entry.at),
            Event::SaleDeleted(sale) => {
                let sale = self.touch(*sale, seq);
                (sale.ended_at, sale.deleted) = (Some(entry.at), true);
            }
            _ => unreachable!("only events about sales come here"),
        }
    }

    fn add(&mut self, seq: Seq, spec: &SaleSpec) {
        let number = u32::try_from(self.sales.len()).expect("fewer sales than SKUs, and those fit");
        let first_sku = self.next_sku();
        for item in &spec.items {
            self.by_product.insert((spec.id, item.product), self.next_sku());
            self.terms.push(Terms {
                price: item.price,
                limit: item.limit,
                has_line: item.line.is_some(),
                sale: number,
            });
        }
        self.by_id.insert(spec.id, number);
        self.sales.push(Sale {
            spec: spec.clone(),
            first_sku,
            paused: false,
            ended_at: None,
            deleted: false,
            version: seq,
            moved_ms_before: u64::MAX,
            payments: vec![(seq, spec.payment)],
        });
    }

    fn next_sku(&self) -> SkuId {
        SkuId(u32::try_from(self.terms.len()).expect("checked when the sale was made"))
    }

    fn touch(&mut self, id: SaleId, version: Seq) -> &mut Sale {
        let sale = &mut self.sales[self.by_id[&id] as usize];
        sale.version = version;
        sale
    }

    fn check_new(&self, spec: &SaleSpec) -> Result<(), Refusal> {
        spec.check()?;
        if u32::try_from(self.terms.len() + spec.items.len()).is_err() {
            return Err(Refusal::InvalidSale("no SKU numbers are left"));
        }
        Ok(())
    }

    fn known(&self, id: SaleId) -> Result<&Sale, Refusal> {
        self.get(id).filter(|sale| !sale.deleted).ok_or(Refusal::UnknownSale)
    }

    /// Whether there is a SKU of this number, of a sale that was not deleted.
    pub(crate) fn known_sku(&self, sku: SkuId) -> Result<(), Refusal> {
        let sale = self.of_sku(sku).filter(|sale| !sale.deleted);
        sale.map(drop).ok_or(Refusal::UnknownSku)
    }

    fn unfinished(&self, now: UnixMs, id: SaleId) -> Result<&Sale, Refusal> {
        let sale = self.known(id)?;
        if sale.phase(now) == Phase::Ended { Err(Refusal::Ended) } else { Ok(sale) }
    }
}
