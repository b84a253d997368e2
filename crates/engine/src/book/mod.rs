//! The book: the whole state of all sales, and every command on it.
//!
//! Data structures first. Orders stand in one vector in the order of placing (80 bytes each); a hash table of
//! 4-byte positions finds them by id, and that is the uniqueness of idempotency keys too, because an id is a
//! hash of its key. Holds wait for their deadline in a heap of 16-byte entries that are skipped when stale.
//! Every change is an event, made by a command and carried out by one function alone, live and when a ledger is
//! replayed; so what the ledger holds and what the book does can't drift apart. Commands and events are those of
//! [`crate::rules`], for any state; here is how this one keeps its rows.
//!
//! Cost: a placed order is one probe by id, at most two of the buyer's counts, and a push. Closing an order
//! is a binary search by sequence number.

mod check;
mod correct;
mod line;
mod place;
mod replay;
mod rows;

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

use crate::buyers::Counts;
use crate::handover::Grant;
use crate::line::Line;
use crate::line::draw::LedgerSecret;
use crate::order::Order;
use crate::rules::apply::record;
use crate::rules::rows::{End, Rows, SkuRow};
use crate::rules::{self, Declined, operate};
use crate::sales::{Sale, Sales};
use crate::sharded::{FixedMap, Sharded};
use crate::{
    Accepted, Adjust, BuyerId, By, Closing, Command, CoolDown, Disposition, Entry, Event, KeptAddress,
    Operated, Operators, OrderId, OrderView, PaymentView, ProductId, Refunded, Refusal, SaleId, SaleView,
    Seq, SkuId, Status, Stock, UnixMs, limits,
};

pub use line::{CallsMade, LineView, ReceiptView};
pub use replay::LedgerKind;

/// A SKU in the book.
#[derive(Clone, Debug)]
struct Sku {
    row: SkuRow,
    /// In `Book::touched`.
    touched: bool,
    line: Option<Box<Line>>,
    /// In `Book::stirred`.
    stirred: bool,
    /// In `Book::moved`.
    moved: bool,
}

/// The whole state of all sales.
#[derive(Clone, Debug)]
pub struct Book {
    end: End,
    sales: Sales,
    /// By their numbers.
    skus: Vec<Sku>,
    orders: Vec<Order>,
    order_by_id: Sharded<u32>,
    /// Units held and owned, per SKU that has a limit.
    units: Counts,
    /// Open holds, per sale that bounds them.
    holds: Counts,
    /// Open turns, likewise.
    turns: Counts,
    /// Holds that were cancelled or have expired, per SKU.
    returned_holds: Counts,
    /// Of buyers who have no free one left: by which entry the latest came back, and when.
    cooling: FixedMap<(SkuId, BuyerId), (Seq, UnixMs)>,
    cool_down: CoolDown,
    /// Who may join a line from now on; those of a ledger may be more.
    line_places_max: u32,
    deadlines: BinaryHeap<Reverse<(UnixMs, u32)>>,
    /// What the secrets of its lines are made of.
    ledger_secret: LedgerSecret,
    has_lines: bool,
    /// Whose lines are others than those who look at them know.
    moved: Vec<SkuId>,
    /// Whose lines may have somebody to call.
    stirred: Vec<SkuId>,
    /// Whose lines have somebody to reach, which was not allowed at the last call.
    held_back: Vec<SkuId>,
    /// When they may have next, though nothing happens.
    line_times: BinaryHeap<Reverse<(UnixMs, SkuId)>>,
    /// The clock's corrections, with how far they have moved it altogether. Nearly always none.
    corrections: Vec<(Seq, i64)>,
    payments: Vec<PaymentView>,
    payment_by_id: Sharded<u32>,
    /// Payments that came before their order.
    unmatched: FixedMap<OrderId, Vec<u32>>,
    /// What of orders was refunded, of those of which something was.
    refunded: FixedMap<OrderId, Refunded>,
    /// Payments per order for which a refund is due.
    refunds: FixedMap<OrderId, u32>,
    /// The sum of `refunds`.
    refunds_due: usize,
    /// The order that the payment just recorded pays for, or refunds whole: its closing must be the next event.
    paying: Option<OrderId>,
    adjustments: FixedMap<(SkuId, Box<str>), (Adjust, u64)>,
    operators: Operators,
    journal: Vec<Entry>,
    touched: Vec<SkuId>,
}

impl Default for Book {
    fn default() -> Book {
        Book::new()
    }
}

impl Book {
    pub fn new() -> Book {
        Book {
            end: End { next: Seq(1), last_at: UnixMs(0) },
            sales: Sales::new(),
            skus: Vec::new(),
            orders: Vec::new(),
            order_by_id: Sharded::default(),
            units: Counts::default(),
            holds: Counts::default(),
            turns: Counts::default(),
            returned_holds: Counts::default(),
            cooling: FixedMap::default(),
            cool_down: CoolDown::NONE,
            line_places_max: limits::LINE_PLACES_MAX,
            deadlines: BinaryHeap::new(),
            ledger_secret: LedgerSecret::default(),
            has_lines: false,
            moved: Vec::new(),
            stirred: Vec::new(),
            held_back: Vec::new(),
            line_times: BinaryHeap::new(),
            corrections: Vec::new(),
            payments: Vec::new(),
            payment_by_id: Sharded::default(),
            unmatched: FixedMap::default(),
            refunded: FixedMap::default(),
            refunds: FixedMap::default(),
            refunds_due: 0,
            paying: None,
            adjustments: FixedMap::default(),
            operators: Operators::default(),
            journal: Vec::new(),
            touched: Vec::new(),
        }
    }

    /// From now on buyers wait so long. What was placed before is not judged by it: that it could be placed is all that a
    /// ledger says.
    pub fn set_cool_down(&mut self, cool_down: CoolDown) {
        self.cool_down = cool_down;
    }

    /// From now on nobody joins a line in which so many are. At most [`limits::LINE_PLACES_MAX`], by which a ledger is judged.
    pub fn set_line_places_max(&mut self, places: u32) {
        assert!(places <= limits::LINE_PLACES_MAX, "a ledger with more would not open");
        self.line_places_max = places;
    }

    /// Goes on with the settings of another. What a ledger says of itself stays.
    pub fn keep_settings_of(&mut self, before: &Book) {
        self.cool_down = before.cool_down;
        self.line_places_max = before.line_places_max;
    }

    /// Before anything is in the book that has a line.
    pub fn set_ledger_secret(&mut self, secret: LedgerSecret) {
        self.ledger_secret = secret;
    }

    /// Carries out one command, or refuses it and changes nothing. Its events wait in the journal.
    ///
    /// # Panics
    /// If `now` is before the latest event: the clock's guarantee is broken. If the command gives an order an address: see
    /// [`Book::give_address`].
    pub fn execute(&mut self, now: UnixMs, command: Command) -> Result<Accepted, Refusal> {
        self.assert_not_past(now);
        if let Command::Place(placement) = command {
            return self.place(now, &placement).map(|(order, replayed)| Accepted::Order { order, replayed });
        }
        match command {
            Command::Join { sku, buyer } => return self.join(now, sku, buyer),
            Command::ShowPresence { sku, buyer } => return self.show_presence(now, sku, buyer),
            Command::GiveTurnBack { sku, buyer } => return self.give_turn_back(now, sku, buyer),
            Command::Draw { sku, spoken } => return self.draw(now, sku, spoken),
            Command::SetLineMessage { sku, message } => return self.set_line_message(now, sku, message),
            Command::LimitPace { sku, per_s_max } => return self.limit_pace(now, sku, per_s_max),
            _ => {}
        }
        operate::execute(self, now, command, Grant::NotAsked).map_err(|why| match why {
            Declined::Refused(refusal) => refusal,
            Declined::NeedsClaim(_) => unreachable!("a book knows of all units: it grants them"),
        })
    }

    /// The same for an operator: what it came to is followed by an event that says who asked, and why. A command that came to
    /// nothing new leaves none.
    ///
    /// # Panics
    /// As [`Book::execute`], and if it is a command that no operator gives.
    pub fn execute_by(&mut self, now: UnixMs, command: Command, by: By) -> Result<Accepted, Refusal> {
        let (before, operated) = (self.end.next, Operated::new(by, &command, self));
        let accepted = self.execute(now, command)?;
        if self.end.next > before || accepted == Accepted::ActionKept {
            record(self, now, Event::Operated(Box::new(operated)));
        }
        Ok(accepted)
    }

    /// Gives a buyer's own order an address, if it has none. `kept`: what the ledger, and what is to be appended to it, has of
    /// that; a book has no addresses. Returns the entry with which the address is to be kept; `None`: it was given before.
    ///
    /// # Errors
    /// If there is no such order of the buyer's, it has another address, or takes none any more.
    ///
    /// # Panics
    /// If `now` is before the latest event.
    pub fn give_address(
        &mut self,
        now: UnixMs,
        whose: (OrderId, BuyerId),
        asked: &[u8],
        kept: &KeptAddress,
    ) -> Result<(OrderView, Option<Seq>), Refusal> {
        self.assert_not_past(now);
        rules::place::give_address(self, now, whose, asked, kept)
    }

    /// Takes the events since the last call, in order, into `into` (which keeps its memory for the next time).
    pub fn drain_journal(&mut self, into: &mut Vec<Entry>) {
        into.append(&mut self.journal);
    }

    /// Takes the SKUs whose stock changed since the last call, each once.
    pub fn drain_touched(&mut self, mut each: impl FnMut(SkuId, Stock)) {
        for sku in self.touched.drain(..) {
            let entry = &mut self.skus[sku.0 as usize];
            entry.touched = false;
            each(sku, entry.row.stock);
        }
    }

    /// The sequence number that the next event will have.
    pub fn next_seq(&self) -> Seq {
        self.end.next
    }

    /// The time of the latest event; the clock must not be behind it, unless it is corrected.
    pub fn last_at(&self) -> UnixMs {
        self.end.last_at
    }

    /// The SKU of a product in a sale.
    pub fn sku(&self, sale: SaleId, product: ProductId) -> Option<SkuId> {
        self.sales.sku(sale, product)
    }

    pub fn stock(&self, sku: SkuId) -> Option<Stock> {
        self.skus.get(sku.0 as usize).map(|sku| sku.row.stock)
    }

    /// Orders of a SKU, whatever became of them.
    pub fn orders_of(&self, sku: SkuId) -> Option<u64> {
        self.skus.get(sku.0 as usize).map(|sku| sku.row.orders)
    }

    pub fn order(&self, id: OrderId) -> Option<OrderView> {
        self.find(id).map(|order| self.order_view(order))
    }

    /// What a buyer holds and owns of a SKU, if that has a limit; 0 if not.
    pub fn units(&self, sku: SkuId, buyer: BuyerId) -> u32 {
        self.units.get(sku.0, buyer)
    }

    /// How many buyers hold or own units, per SKU that has a limit. Costs a pass over them.
    pub fn units_len(&self) -> usize {
        self.units.iter().count()
    }

    /// How many orders await payment. Costs a pass over all orders.
    pub fn held_len(&self) -> usize {
        self.orders.iter().filter(|order| order.status == Status::Held).count()
    }

    /// How each hold has ended, and after how many milliseconds: one that was paid late has expired, too. Costs a pass over all
    /// orders, and one over the payments if some were refunded.
    pub fn holds_ended(&self) -> impl Iterator<Item = (SkuId, Closing, u64)> + '_ {
        let applied = |payment: &&PaymentView| payment.disposition == Disposition::Applied;
        let payments = if self.refunded.is_empty() { &[][..] } else { &self.payments[..] };
        let paid_at: HashMap<OrderId, UnixMs> =
            payments.iter().filter(applied).map(|payment| (payment.pay.order, payment.at)).collect();
        self.orders.iter().filter(|order| order.payment_ms > 0).flat_map(move |order| {
            let (placed_at, closed_at) = (order.placed_at, order.closed_at);
            let paid = if order.paid_late { Closing::PaidLate } else { Closing::Paid };
            let ended = match order.status {
                Status::Held => None,
                Status::Paid => Some((paid, closed_at)),
                // When it was refunded is what the order knows.
                Status::Refunded => Some((paid, paid_at.get(&order.id()).copied().unwrap_or(placed_at))),
                Status::Cancelled => Some((Closing::Cancelled, closed_at)),
                Status::Expired => Some((Closing::Expired, closed_at)),
            };
            let expired = order.paid_late.then(|| (Closing::Expired, order.pay_by(0)));
            let after = move |at: UnixMs| at.0.saturating_sub(placed_at.0);
            let sku = order.sku;
            expired.into_iter().chain(ended).map(move |(how, at)| (sku, how, after(at)))
        })
    }

    /// The order that an entry with this sequence number placed.
    pub fn order_at(&self, seq: Seq) -> Option<OrderView> {
        self.find_at(seq).map(|order| self.order_view(order))
    }

    /// Orders in the book, of any status.
    pub fn orders_len(&self) -> usize {
        self.orders.len()
    }

    pub fn sale(&self, id: SaleId) -> Option<SaleView<'_>> {
        self.sales.get(id).map(|sale| self.view_sale(sale))
    }

    /// All sales in the order of creation.
    pub fn sales(&self) -> impl Iterator<Item = SaleView<'_>> + '_ {
        self.sales.iter().map(|sale| self.view_sale(sale))
    }

    /// The sales without their stock.
    pub fn registry(&self) -> &Sales {
        &self.sales
    }

    /// Who may, beside whoever has the token of the configuration.
    pub fn operators(&self) -> &Operators {
        &self.operators
    }

    /// How many payments wait for a refund. Costs nothing.
    pub fn refunds_due_len(&self) -> usize {
        self.refunds_due
    }

    /// Payments for which a refund is due, oldest first. Costs a pass over all payments.
    pub fn refunds_due(&self) -> impl Iterator<Item = PaymentView> + '_ {
        self.payments
            .iter()
            .filter(|payment| matches!(payment.disposition, Disposition::RefundDue(_)))
            .cloned()
    }

    /// No hold expires before this time, and nobody is called unless something happens; `None`: there is nothing to wait for.
    pub fn next_deadline(&self) -> Option<UnixMs> {
        if !self.stirred.is_empty() {
            return Some(self.end.last_at);
        }
        let hold = self.deadlines.peek().map(|Reverse((deadline, _))| *deadline);
        let line = self.line_times.peek().map(|Reverse((at, _))| *at);
        hold.into_iter().chain(line).min()
    }

    /// The clock never runs backwards but by a correction; every way in asserts it, before it looks at anything.
    fn assert_not_past(&self, now: UnixMs) {
        assert!(now >= self.end.last_at, "time ran backwards: {now:?} after {:?}", self.end.last_at);
    }

    fn view_sale<'a>(&'a self, sale: &'a Sale) -> SaleView<'a> {
        SaleView {
            spec: &sale.spec,
            paused: sale.paused,
            ended: sale.ended_at.is_some(),
            first_sku: sale.first_sku,
            stocks: sale.skus().map(|sku| self.skus[sku.0 as usize].row.stock).collect(),
        }
    }
}
