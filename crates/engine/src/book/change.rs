//! What operators do: create and change a sale, pause, resume, end, move the stock.

use super::{Accepted, Adjust, Book, Event, Phase, Refusal, SaleChange, SaleId, SaleSpec, SkuId, UnixMs};
use crate::rules;
use crate::sale::Sale;

impl Book {
    /// Creating the same sale again is answered as the first time, if nothing of it was changed since.
    pub(super) fn create_sale(&mut self, now: UnixMs, spec: SaleSpec) -> Result<Accepted, Refusal> {
        if let Some(index) = self.sale_by_id.get(&spec.id) {
            let same = self.sales[*index as usize].spec == spec;
            return if same { Ok(Accepted::Sale(spec.id)) } else { Err(Refusal::SaleExists) };
        }
        spec.check()?;
        if u32::try_from(self.skus.len() + spec.items.len()).is_err() {
            return Err(Refusal::InvalidSale("the book has no SKU numbers left"));
        }
        let id = spec.id;
        self.record(now, Event::SaleCreated(Box::new(spec)));
        Ok(Accepted::Sale(id))
    }

    pub(super) fn change_sale(
        &mut self,
        now: UnixMs,
        sale: SaleId,
        change: SaleChange,
    ) -> Result<Accepted, Refusal> {
        self.known_sale(sale)?.check_change(now, &change)?;
        self.record(now, Event::SaleChanged { sale, change: Box::new(change) });
        Ok(Accepted::Sale(sale))
    }

    /// Pausing a paused sale changes nothing and is no error; so is resuming one that is not paused.
    pub(super) fn pause(&mut self, now: UnixMs, id: SaleId) -> Result<Accepted, Refusal> {
        if !self.unfinished_sale(now, id)?.paused {
            self.record(now, Event::SalePaused(id));
        }
        Ok(Accepted::Sale(id))
    }

    pub(super) fn resume(&mut self, now: UnixMs, id: SaleId) -> Result<Accepted, Refusal> {
        if self.unfinished_sale(now, id)?.paused {
            self.record(now, Event::SaleResumed(id));
        }
        Ok(Accepted::Sale(id))
    }

    pub(super) fn end(&mut self, now: UnixMs, id: SaleId) -> Result<Accepted, Refusal> {
        if !self.known_sale(id)?.ended {
            self.record(now, Event::SaleEnded(id));
        }
        Ok(Accepted::Sale(id))
    }

    pub(super) fn adjust(
        &mut self,
        now: UnixMs,
        sku: SkuId,
        how: Adjust,
        units: u64,
        key: Box<str>,
    ) -> Result<Accepted, Refusal> {
        if self.stock(sku).is_none() {
            return Err(Refusal::UnknownSku);
        }
        let name = (sku, key);
        if let Some(done) = self.adjustments.get(&name) {
            return rules::adjust_again(*done, (how, units)).map(|()| Accepted::Stock(sku));
        }
        let (_, key) = name;
        self.check_adjust(sku, how, units, &key)?;
        self.record(now, Event::StockAdjusted { sku, how, units, key });
        Ok(Accepted::Stock(sku))
    }

    /// Whether the total of a SKU may be moved so, under a key that was not used yet.
    pub(super) fn check_adjust(&self, sku: SkuId, how: Adjust, units: u64, key: &str) -> Result<(), Refusal> {
        rules::adjust(self.stock(sku).ok_or(Refusal::UnknownSku)?, how, units, key)
    }

    pub(super) fn known_sale(&self, id: SaleId) -> Result<&Sale, Refusal> {
        self.sale_by_id.get(&id).map(|index| &self.sales[*index as usize]).ok_or(Refusal::UnknownSale)
    }

    fn unfinished_sale(&self, now: UnixMs, id: SaleId) -> Result<&Sale, Refusal> {
        let sale = self.known_sale(id)?;
        if sale.phase(now) == Phase::Ended { Err(Refusal::Ended) } else { Ok(sale) }
    }
}
