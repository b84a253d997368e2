//! The naive model: the rules of a sale, written a second time as plainly as possible. It keeps lists, and for
//! each command counts again from the orders; nothing is shared with the engine but the types of commands and
//! answers.

mod refunding;

use std::collections::BTreeMap;

use engine::{
    Accepted, Adjust, BuyerId, Command, Disposition, Notice, OrderId, OrderView, Pay, Payment, PaymentView,
    Placement, RefundReason, Refunded, Refusal, SaleChange, SaleId, SaleSpec, Seq, SkuId, Status, UnitsKept,
    UnixMs,
};

/// The model does not know the engine's texts: refusals with a text are compared by their code.
const ANY_TEXT: &str = "";

#[derive(Clone, Debug)]
pub(crate) struct ModelSale {
    pub(crate) spec: SaleSpec,
    pub(crate) paused: bool,
    pub(crate) ended: bool,
    pub(crate) deleted: bool,
    pub(crate) first_sku: u32,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct ModelOrder {
    pub(crate) place: Placement,
    pub(crate) seq: Seq,
    pub(crate) status: Status,
    placed_at: u64,
    /// Before 1970, if the clock was set back far enough.
    pay_by: Option<i64>,
    closed_at: Option<u64>,
    /// When it was cancelled or expired, whatever came then.
    returned_at: Option<i64>,
    refunded: Refunded,
}

#[derive(Clone, Copy, Debug)]
struct ModelSku {
    sale: usize,
    item: usize,
    total: u64,
}

/// What the book should be.
#[derive(Debug, Default)]
pub(crate) struct Model {
    pub(crate) sales: Vec<ModelSale>,
    skus: Vec<ModelSku>,
    pub(crate) orders: Vec<ModelOrder>,
    by_id: BTreeMap<OrderId, usize>,
    /// Orders of each SKU that hold or own units; so that a long history is not counted from its beginning.
    taking: Vec<Vec<usize>>,
    /// Orders of each SKU whose holds were cancelled or have expired.
    returned: Vec<Vec<usize>>,
    /// The first wait after them.
    cool_down_ms: u64,
    /// Orders that await payment.
    held: Vec<usize>,
    pub(crate) payments: Vec<PaymentView>,
    payment_by_id: BTreeMap<Box<str>, usize>,
    /// Positions of payments for which a refund is due.
    pub(crate) due: Vec<usize>,
    adjustments: Vec<(SkuId, Box<str>, Adjust, u64)>,
    /// Events so far.
    pub(crate) events: u64,
    /// Why a gate refuses the units of a late payment, if it does.
    pub(crate) gate_refuses: Option<RefundReason>,
}

impl Model {
    pub(crate) fn with_cool_down(first_ms: u64) -> Model {
        Model { cool_down_ms: first_ms, ..Model::default() }
    }

    pub(crate) fn execute(&mut self, now: u64, command: &Command) -> Result<Accepted, Refusal> {
        match command {
            Command::CreateSale(spec) => self.create(spec),
            Command::ChangeSale { sale, change } => self.change(now, *sale, change),
            Command::Pause(sale) => self.switch(now, *sale, |sale| &mut sale.paused, true),
            Command::Resume(sale) => self.switch(now, *sale, |sale| &mut sale.paused, false),
            Command::End(sale) => self.end(*sale),
            Command::DeleteSale(sale) => self.delete(now, *sale),
            Command::Adjust { sku, how, units, key } => self.adjust(*sku, *how, *units, key),
            Command::Place(place) => self.place(now, place),
            Command::Cancel { order, buyer } => self.cancel(now, *order, *buyer),
            Command::Pay(pay) => self.pay(now, pay),
            Command::Refund(refund) => self.refund(now, refund),
            Command::Settle { payment } => self.settle(payment),
            Command::Address { .. } => unreachable!("a book has no addresses"),
            Command::EraseBuyer(_) => {
                self.event();
                Ok(Accepted::BuyerErased)
            }
            Command::Join { .. }
            | Command::SetLineMessage { .. }
            | Command::ShowPresence { .. }
            | Command::GiveTurnBack { .. }
            | Command::LimitPace { .. }
            | Command::Draw { .. } => {
                unreachable!("no item of these histories has a line")
            }
            Command::CancelFor(_)
            | Command::AddOperator(_)
            | Command::RevokeOperator(_)
            | Command::KeepAction(..) => {
                unreachable!("not of a sale: tests/rules has them")
            }
            Command::Notice(notice) => {
                match notice {
                    Notice::SaleStarted(sale) | Notice::SaleEnded(sale) => drop(self.sale_position(*sale)?),
                    Notice::SoldOut(sku) | Notice::BackInStock(sku) => {
                        (sku.0 < self.skus_len()).then_some(()).ok_or(Refusal::UnknownSku)?;
                    }
                }
                self.event();
                Ok(Accepted::Noticed)
            }
        }
    }

    pub(crate) fn event(&mut self) -> Seq {
        self.events += 1;
        Seq(self.events)
    }

    fn sale_position(&self, id: SaleId) -> Result<usize, Refusal> {
        self.sales.iter().rposition(|sale| sale.spec.id == id).ok_or(Refusal::UnknownSale)
    }

    /// Of a sale that was not deleted.
    fn there(&self, id: SaleId) -> Result<usize, Refusal> {
        let position = self.sale_position(id)?;
        if self.sales[position].deleted { Err(Refusal::UnknownSale) } else { Ok(position) }
    }

    fn over(&self, now: u64, sale: usize) -> bool {
        self.sales[sale].ended || now >= self.sales[sale].spec.ends_at.0
    }

    fn create(&mut self, spec: &SaleSpec) -> Result<Accepted, Refusal> {
        if let Ok(known) = self.sale_position(spec.id) {
            let same = !self.sales[known].deleted && self.sales[known].spec == *spec;
            return if same { Ok(Accepted::Sale(spec.id)) } else { Err(Refusal::SaleExists) };
        }
        if !can_be(spec) {
            return Err(Refusal::InvalidSale(ANY_TEXT));
        }
        let first_sku = self.skus_len();
        for (item, described) in spec.items.iter().enumerate() {
            self.skus.push(ModelSku { sale: self.sales.len(), item, total: described.total });
            self.taking.push(Vec::new());
            self.returned.push(Vec::new());
        }
        let (spec, paused, ended, deleted) = (spec.clone(), false, false, false);
        let id = spec.id;
        self.sales.push(ModelSale { spec, paused, ended, deleted, first_sku });
        self.event();
        Ok(Accepted::Sale(id))
    }

    fn change(&mut self, now: u64, id: SaleId, change: &SaleChange) -> Result<Accepted, Refusal> {
        let position = self.there(id)?;
        let for_good = self.sales[position].ended || change.ends_at.is_none();
        if self.over(now, position) && for_good {
            return Err(Refusal::Ended);
        }
        let mut spec = self.sales[position].spec.clone();
        let started = now >= spec.starts_at.0;
        if started && !change.items.is_empty() {
            return Err(Refusal::SaleStarted);
        }
        for (nth, item) in change.items.iter().enumerate() {
            let described = spec.items.iter_mut().find(|described| described.product == item.product);
            let described = described.ok_or(Refusal::UnknownSku)?;
            if change.items[..nth].iter().any(|earlier| earlier.product == item.product) {
                return Err(Refusal::InvalidChange(ANY_TEXT));
            }
            described.title = item.title.clone().unwrap_or(described.title.clone());
            described.description = item.description.clone().unwrap_or(described.description.clone());
            described.price = item.price.unwrap_or(described.price);
            described.list_price = item.list_price.unwrap_or(described.list_price);
            described.limit = item.limit.unwrap_or(described.limit);
        }
        let on_placing = spec.payment == Payment::OnPlacing;
        if (started && change.starts_at.is_some()) || (on_placing && change.payment_ms.is_some()) {
            return Err(Refusal::InvalidChange(ANY_TEXT));
        }
        spec.title = change.title.clone().unwrap_or(spec.title);
        spec.starts_at = change.starts_at.unwrap_or(spec.starts_at);
        spec.ends_at = change.ends_at.unwrap_or(spec.ends_at);
        spec.payment = change.payment_ms.map_or(spec.payment, Payment::WithinMs);
        if spec.ends_at.0 <= now {
            return Err(Refusal::InvalidChange(ANY_TEXT));
        }
        if !can_be(&spec) {
            return Err(Refusal::InvalidSale(ANY_TEXT));
        }
        if !change.items.is_empty() && self.has_orders(position) {
            return Err(Refusal::SaleStarted);
        }
        self.sales[position].spec = spec;
        self.event();
        Ok(Accepted::Sale(id))
    }

    fn switch(
        &mut self,
        now: u64,
        id: SaleId,
        flag: fn(&mut ModelSale) -> &mut bool,
        to: bool,
    ) -> Result<Accepted, Refusal> {
        let position = self.there(id)?;
        if self.over(now, position) {
            return Err(Refusal::Ended);
        }
        if std::mem::replace(flag(&mut self.sales[position]), to) != to {
            self.event();
        }
        Ok(Accepted::Sale(id))
    }

    fn end(&mut self, id: SaleId) -> Result<Accepted, Refusal> {
        let position = self.there(id)?;
        if !std::mem::replace(&mut self.sales[position].ended, true) {
            self.event();
        }
        Ok(Accepted::Sale(id))
    }

    fn delete(&mut self, now: u64, id: SaleId) -> Result<Accepted, Refusal> {
        let position = self.sale_position(id)?;
        if self.sales[position].deleted {
            return Ok(Accepted::Sale(id));
        }
        if now >= self.sales[position].spec.starts_at.0 || self.has_orders(position) {
            return Err(Refusal::SaleStarted);
        }
        let sale = &mut self.sales[position];
        (sale.ended, sale.deleted) = (true, true);
        self.event();
        Ok(Accepted::Sale(id))
    }

    fn has_orders(&self, sale: usize) -> bool {
        self.orders.iter().any(|order| self.skus[order.place.id.sku.0 as usize].sale == sale)
    }

    /// Whether a payment is of the whole amount of an order that has expired, and was not recorded before.
    pub(crate) fn is_late(&self, pay: &Pay) -> bool {
        let order = self.by_id.get(&pay.order).map(|index| self.orders[*index]);
        let expired = order.filter(|order| order.status == Status::Expired);
        let is_new = (1..=255).contains(&pay.id.len()) && !self.payment_by_id.contains_key(&pay.id);
        is_new && expired.is_some_and(|order| self.amount(&order.place) == pay.amount)
    }

    /// Whether a correction would be made.
    pub(crate) fn would_correct(&self, sku: SkuId, units: u64, key: &str) -> bool {
        let is_new = !self.adjustments.iter().any(|done| done.0 == sku && *done.1 == *key);
        let known = self.skus.get(sku.0 as usize).is_some_and(|sku| !self.sales[sku.sale].deleted);
        known && is_new && (1..=64).contains(&key.len()) && units > 0 && units <= self.stock(sku)[1]
    }

    pub(crate) fn is_order(&self, id: OrderId) -> bool {
        self.by_id.contains_key(&id)
    }

    fn adjust(&mut self, sku: SkuId, how: Adjust, units: u64, key: &str) -> Result<Accepted, Refusal> {
        if self.skus.get(sku.0 as usize).is_none_or(|sku| self.sales[sku.sale].deleted) {
            return Err(Refusal::UnknownSku);
        }
        if let Some(done) = self.adjustments.iter().find(|done| done.0 == sku && *done.1 == *key) {
            let same = (done.2, done.3) == (how, units);
            return if same { Ok(Accepted::Stock(sku)) } else { Err(Refusal::KeyConflict) };
        }
        if !(1..=64).contains(&key.len()) || units == 0 {
            return Err(Refusal::InvalidChange(ANY_TEXT));
        }
        let [total, available, held, sold] = self.stock(sku);
        let kept = UnitsKept { total, sold, held, turns: 0, promised: 0 };
        let total = &mut self.skus[sku.0 as usize].total;
        match how {
            Adjust::Restock if *total + units > 1_000_000_000_000 => {
                return Err(Refusal::InvalidChange(ANY_TEXT));
            }
            Adjust::Restock => *total += units,
            Adjust::Correct if units > available => {
                return Err(Refusal::CorrectionTooLarge(Some(kept)));
            }
            Adjust::Correct => *total -= units,
        }
        self.adjustments.push((sku, key.into(), how, units));
        self.event();
        Ok(Accepted::Stock(sku))
    }

    fn place(&mut self, now: u64, place: &Placement) -> Result<Accepted, Refusal> {
        if let Some(index) = self.by_id.get(&place.id) {
            let same = self.orders[*index].place == *place;
            let order = self.as_placed(*index);
            return if same {
                Ok(Accepted::Order { order, replayed: true })
            } else {
                Err(Refusal::KeyConflict)
            };
        }
        self.may_place(now, place)?;
        let sku = self.skus[place.id.sku.0 as usize];
        let (pay_by, status) = match self.sales[sku.sale].spec.payment {
            Payment::WithinMs(ms) => (Some((now + ms).cast_signed()), Status::Held),
            Payment::OnPlacing => (None, Status::Paid),
        };
        let index = self.orders.len();
        let seq = self.event();
        self.orders.push(ModelOrder {
            place: *place,
            seq,
            status,
            placed_at: now,
            pay_by,
            closed_at: None,
            returned_at: None,
            refunded: Refunded::default(),
        });
        self.by_id.insert(place.id, index);
        self.taking[place.id.sku.0 as usize].push(index);
        if status == Status::Held {
            self.held.push(index);
        }
        self.use_early_payment(now, index);
        Ok(Accepted::Order { order: self.as_placed(index), replayed: false })
    }

    fn may_place(&self, now: u64, place: &Placement) -> Result<(), Refusal> {
        let sku = self.skus.get(place.id.sku.0 as usize).ok_or(Refusal::UnknownSku)?;
        let sale = &self.sales[sku.sale];
        if self.over(now, sku.sale) {
            return Err(Refusal::Ended);
        }
        if sale.paused {
            return Err(Refusal::Paused);
        }
        if now < sale.spec.starts_at.0 {
            return Err(Refusal::NotStarted);
        }
        let let_go = self.let_go(place).count();
        let holds_max = sale.spec.open_holds_per_buyer_max.map(|max| (max as usize).saturating_sub(let_go));
        if holds_max == Some(0) {
            return Err(Refusal::HoldsUsedUp);
        }
        if let Some(retry_after_ms) = self.cool_down(now, place) {
            return Err(Refusal::CoolingDown { retry_after_ms });
        }
        if !(1..=1_000_000).contains(&place.quantity) {
            return Err(Refusal::InvalidQuantity);
        }
        if self.breaks_limit(place) {
            return Err(Refusal::OverLimit);
        }
        let open = self
            .held
            .iter()
            .map(|index| self.orders[*index].place)
            .filter(|held| held.buyer == place.buyer && self.skus[held.id.sku.0 as usize].sale == sku.sale)
            .count();
        if holds_max.is_some_and(|max| open >= max) {
            return Err(Refusal::TooManyHolds);
        }
        match self.stock(place.id.sku)[1] {
            0 => Err(Refusal::SoldOut),
            left if left < u64::from(place.quantity) => Err(Refusal::NotEnoughLeft),
            _ => Ok(()),
        }
    }

    /// How long the buyer has to wait after holds that came back.
    fn cool_down(&self, now: u64, place: &Placement) -> Option<u64> {
        let times: Vec<i64> = self.let_go(place).collect();
        if times.len() < 3 {
            return None;
        }
        let wait = (3..times.len().min(33)).fold(self.cool_down_ms, |wait, _| wait * 2);
        // The latest one by the order of events: the clock may have been set back since.
        let latest = times.last().expect("there are three");
        let left = latest + wait.cast_signed() - now.cast_signed();
        u64::try_from(left).ok().filter(|left| *left > 0)
    }

    /// When the buyer's holds of the SKU came back.
    fn let_go(&self, place: &Placement) -> impl Iterator<Item = i64> {
        let returned = self.returned[place.id.sku.0 as usize].iter().map(|index| &self.orders[*index]);
        returned.filter(|order| order.place.buyer == place.buyer).filter_map(|order| order.returned_at)
    }

    fn breaks_limit(&self, place: &Placement) -> bool {
        let sku = self.skus[place.id.sku.0 as usize];
        let Some(limit) = self.sales[sku.sale].spec.items[sku.item].limit else { return false };
        let has: u64 = self.taking[place.id.sku.0 as usize]
            .iter()
            .map(|index| self.orders[*index].place)
            .filter(|other| other.buyer == place.buyer)
            .map(|other| u64::from(other.quantity))
            .sum();
        has + u64::from(place.quantity) > u64::from(limit)
    }

    fn use_early_payment(&mut self, now: u64, index: usize) {
        let order = self.orders[index];
        let early = self.due.iter().position(|payment| {
            let PaymentView { pay, disposition, .. } = &self.payments[*payment];
            *disposition == Disposition::RefundDue(RefundReason::UnknownOrder)
                && pay.order == order.place.id
                && pay.amount == self.amount(&order.place)
        });
        if let (Some(early), Status::Held) = (early, order.status) {
            let payment = self.due.remove(early);
            self.payments[payment].disposition = Disposition::Applied;
            self.event();
            self.close(now, index, Status::Paid);
        }
    }

    /// Moves an order to another status; the lists follow.
    fn close(&mut self, now: u64, index: usize, to: Status) {
        self.event();
        self.held.retain(|other| *other != index);
        let order = &mut self.orders[index];
        let taking = &mut self.taking[order.place.id.sku.0 as usize];
        taking.retain(|other| *other != index);
        if matches!(to, Status::Paid | Status::Refunded) {
            taking.push(index);
        }
        order.status = to;
        order.closed_at = Some(now);
        if matches!(to, Status::Cancelled | Status::Expired) {
            order.returned_at = Some(now.cast_signed());
            self.returned[order.place.id.sku.0 as usize].push(index);
        }
    }

    fn cancel(&mut self, now: u64, id: OrderId, buyer: BuyerId) -> Result<Accepted, Refusal> {
        let index = *self.by_id.get(&id).ok_or(Refusal::UnknownOrder)?;
        let order = self.orders[index];
        let replayed = match order.status {
            _ if order.place.buyer != buyer => return Err(Refusal::UnknownOrder),
            Status::Paid | Status::Expired | Status::Refunded => {
                return Err(Refusal::NotCancellable(order.status));
            }
            Status::Cancelled => true,
            Status::Held => {
                self.close(now, index, Status::Cancelled);
                false
            }
        };
        Ok(Accepted::Order { order: self.view(index), replayed })
    }

    fn pay(&mut self, now: u64, pay: &Pay) -> Result<Accepted, Refusal> {
        if let Some(known) = self.payment_by_id.get(&pay.id) {
            let payment = self.payments[*known].clone();
            let same = payment.pay == *pay;
            return if same {
                Ok(Accepted::Payment { payment, replayed: true })
            } else {
                Err(Refusal::PaymentConflict)
            };
        }
        if !(1..=255).contains(&pay.id.len()) {
            return Err(Refusal::InvalidChange(ANY_TEXT));
        }
        let index = self.by_id.get(&pay.order).copied();
        let refund =
            index.map_or(Some(RefundReason::UnknownOrder), |index| self.why_refund(index, pay.amount));
        let disposition = refund.map_or(Disposition::Applied, Disposition::RefundDue);
        let payment = PaymentView { pay: pay.clone(), seq: self.event(), at: UnixMs(now), disposition };
        match (refund, index) {
            (None, Some(index)) => self.close(now, index, Status::Paid),
            _ => self.due.push(self.payments.len()),
        }
        self.payment_by_id.insert(pay.id.clone(), self.payments.len());
        self.payments.push(payment.clone());
        Ok(Accepted::Payment { payment, replayed: false })
    }

    /// Expires the `max` earliest holds that are due, and says how many there were.
    pub(crate) fn expire(&mut self, now: u64, max: usize) -> usize {
        let mut due: Vec<_> = self
            .held
            .iter()
            .map(|index| (deadline(self.orders[*index].pay_by.expect("a hold has a deadline")), *index))
            .filter(|(pay_by, _)| *pay_by <= now)
            .collect();
        due.sort_unstable();
        due.truncate(max);
        for (_, index) in &due {
            self.close(now, *index, Status::Expired);
        }
        due.len()
    }

    /// The clock is set: a buyer has as long to pay as before.
    pub(crate) fn correct(&mut self, from: u64, to: u64) {
        self.event();
        for order in &mut self.orders {
            let shifted = |ms| ms + to.cast_signed() - from.cast_signed();
            order.pay_by = order.pay_by.map(shifted);
            order.returned_at = order.returned_at.map(shifted);
        }
    }

    pub(crate) fn skus_len(&self) -> u32 {
        u32::try_from(self.skus.len()).expect("a few thousand")
    }

    /// Total, available, held and sold.
    pub(crate) fn stock(&self, sku: SkuId) -> [u64; 4] {
        let units = |held| -> u64 {
            self.taking[sku.0 as usize]
                .iter()
                .map(|index| self.orders[*index])
                .filter(|order| (order.status == Status::Held) == held)
                .map(|order| u64::from(order.place.quantity - order.refunded.units))
                .sum()
        };
        let (total, held, sold) = (self.skus[sku.0 as usize].total, units(true), units(false));
        [total, total - held - sold, held, sold]
    }

    pub(crate) fn amount(&self, place: &Placement) -> u64 {
        let sku = self.skus[place.id.sku.0 as usize];
        self.sales[sku.sale].spec.items[sku.item].price * u64::from(place.quantity)
    }

    pub(crate) fn view(&self, index: usize) -> OrderView {
        let ModelOrder { place, seq, status, placed_at, pay_by, closed_at, refunded, .. } =
            self.orders[index];
        OrderView {
            id: place.id,
            seq,
            buyer: place.buyer,
            quantity: place.quantity,
            unit_price: self.amount(&Placement { quantity: 1, ..place }),
            status,
            placed_at: UnixMs(placed_at),
            pay_by: pay_by.map(|ms| UnixMs(deadline(ms))),
            closed_at: closed_at.map(UnixMs),
            refund_due: self.due.iter().any(|payment| self.payments[*payment].pay.order == place.id),
            refunded,
        }
    }

    fn as_placed(&self, index: usize) -> OrderView {
        let view = self.view(index);
        let status = if view.pay_by.is_some() { Status::Held } else { Status::Paid };
        OrderView { status, closed_at: None, refund_due: false, refunded: Refunded::default(), ..view }
    }
}

/// There is no time before 1970.
fn deadline(ms: i64) -> u64 {
    ms.max(0).cast_unsigned()
}

/// Whether a sale may be described like this, as far as the simulation bends descriptions.
fn can_be(spec: &SaleSpec) -> bool {
    let payment_ok = match spec.payment {
        Payment::WithinMs(ms) => ms > 0 && ms <= 30 * 24 * 60 * 60 * 1000,
        Payment::OnPlacing => true,
    };
    let products_differ = spec
        .items
        .iter()
        .enumerate()
        .all(|(at, item)| spec.items[..at].iter().all(|other| other.product != item.product));
    payment_ok
        && products_differ
        && !spec.title.is_empty()
        && !spec.items.is_empty()
        && spec.starts_at < spec.ends_at
        && spec.open_holds_per_buyer_max != Some(0)
        && spec.items.iter().all(|item| item.limit != Some(0))
}
