//! The book: the whole state of all sales, and every command on it.
//!
//! Data structures first. Orders stand in one vector in the order of placing (80 bytes each); a hash table of
//! 4-byte positions finds them by id, and that is the uniqueness of idempotency keys too, because an id is a
//! hash of its key. Holds wait for their deadline in a heap of 16-byte entries that are skipped when stale.
//! Every change is an [`Event`], made by a command and carried out by [`Book::apply`] alone, live and when a
//! ledger is replayed; so what the ledger holds and what the book does can't drift apart.
//!
//! Cost: a placed order is one probe by id, at most two of the buyer's counts, and a push. Closing an order
//! is a binary search by sequence number.

mod change;
mod check;
mod paying;
mod placing;
mod replay;

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::hash::{BuildHasherDefault, DefaultHasher};

use crate::buyers::Counts;
use crate::order::Order;
use crate::payment::Recorded;
use crate::sale::Sale;
use crate::sharded::{Sharded, hash_of};
use crate::{
    Adjust, BuyerId, Closing, Disposition, Fingerprint, OrderId, OrderView, Pay, Payment, PaymentView, Phase,
    Place, ProductId, Refusal, SaleChange, SaleId, SaleSpec, SaleView, Seq, SkuId, Status, Stock, UnixMs,
};

pub use replay::Inconsistent;

type FixedHash = BuildHasherDefault<DefaultHasher>;

/// Everything that can be asked of the book.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    CreateSale(SaleSpec),
    ChangeSale {
        sale: SaleId,
        change: SaleChange,
    },
    Pause(SaleId),
    Resume(SaleId),
    End(SaleId),
    /// Moves the total of a SKU; `key` is the operator's idempotency key.
    Adjust {
        sku: SkuId,
        how: Adjust,
        units: u64,
        key: Box<str>,
    },
    Place(Place),
    Cancel {
        order: OrderId,
        buyer: BuyerId,
    },
    Pay(Pay),
    /// Somebody has paid the refund out.
    Settle {
        payment: Box<str>,
    },
}

/// What a command that was carried out came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Accepted {
    Sale(SaleId),
    Stock(SkuId),
    /// `replayed`: the order was there before, this is its answer again.
    Order {
        order: OrderView,
        replayed: bool,
    },
    Payment {
        payment: PaymentView,
        replayed: bool,
    },
}

/// One change of the book: what the ledger keeps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    SaleCreated(Box<SaleSpec>),
    SaleChanged {
        sale: SaleId,
        change: Box<SaleChange>,
    },
    SalePaused(SaleId),
    SaleResumed(SaleId),
    SaleEnded(SaleId),
    StockAdjusted {
        sku: SkuId,
        how: Adjust,
        units: u64,
        key: Box<str>,
    },
    OrderPlaced {
        id: OrderId,
        buyer: BuyerId,
        quantity: u32,
        unit_price: u64,
        fingerprint: Fingerprint,
    },
    OrderClosed {
        order: Seq,
        how: Closing,
    },
    PaymentRecorded {
        pay: Pay,
        disposition: Disposition,
    },
    /// A payment that had come before its order has paid for it.
    PaymentMatched {
        payment: Seq,
    },
    RefundSettled {
        payment: Seq,
    },
}

/// An event with its place and time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    pub seq: Seq,
    pub at: UnixMs,
    pub event: Event,
}

/// A SKU in the book.
#[derive(Clone, Debug)]
struct Sku {
    /// Position in `Book::sales`.
    sale: u32,
    price: u64,
    limit: Option<u32>,
    stock: Stock,
    /// Orders placed, whatever became of them.
    orders: u64,
    /// In `Book::touched`.
    touched: bool,
}

/// The whole state of all sales.
#[derive(Clone, Debug)]
pub struct Book {
    next_seq: Seq,
    last_at: UnixMs,
    sales: Vec<Sale>,
    sale_by_id: HashMap<SaleId, u32, FixedHash>,
    skus: Vec<Sku>,
    sku_by_product: HashMap<(SaleId, ProductId), SkuId, FixedHash>,
    orders: Vec<Order>,
    order_by_id: Sharded<u32>,
    /// Units held and owned, per SKU that has a limit.
    units: Counts,
    /// Open holds, per sale that bounds them.
    holds: Counts,
    deadlines: BinaryHeap<Reverse<(UnixMs, u32)>>,
    payments: Vec<Recorded>,
    payment_by_id: Sharded<u32>,
    /// Payments that came before their order.
    unmatched: HashMap<OrderId, Vec<u32>, FixedHash>,
    /// Payments per order for which a refund is due.
    refunds: HashMap<OrderId, u32, FixedHash>,
    /// The sum of `refunds`.
    refunds_due: usize,
    /// The order that the payment just recorded pays for: its closing must be the next event.
    paying: Option<OrderId>,
    adjustments: HashMap<(SkuId, Box<str>), (Adjust, u64), FixedHash>,
    journal: Vec<Entry>,
    touched: Vec<SkuId>,
    /// Window, pause and open holds were judged before the queue, and late payments by the gate.
    of_queue: bool,
}

impl Default for Book {
    fn default() -> Book {
        Book::new()
    }
}

impl Book {
    pub fn new() -> Book {
        Book {
            next_seq: Seq(1),
            last_at: UnixMs(0),
            sales: Vec::new(),
            sale_by_id: HashMap::default(),
            skus: Vec::new(),
            sku_by_product: HashMap::default(),
            orders: Vec::new(),
            order_by_id: Sharded::default(),
            units: Counts::default(),
            holds: Counts::default(),
            deadlines: BinaryHeap::new(),
            payments: Vec::new(),
            payment_by_id: Sharded::default(),
            unmatched: HashMap::default(),
            refunds: HashMap::default(),
            refunds_due: 0,
            paying: None,
            adjustments: HashMap::default(),
            journal: Vec::new(),
            touched: Vec::new(),
            of_queue: false,
        }
    }

    /// An empty book to replay the ledger of a queue's consumers into. There, window, pause and open holds are
    /// judged before the queue: an order may reach the ledger after the end. And a late payment may be refused
    /// though the ledger shows units, because the gate had promised them. All other rules stay.
    pub fn of_queue() -> Book {
        Book { of_queue: true, ..Book::new() }
    }

    /// Carries out one command, or refuses it and changes nothing. Its events wait in the journal.
    ///
    /// # Panics
    /// If `now` is before the latest event: the clock's guarantee is broken.
    pub fn execute(&mut self, now: UnixMs, command: Command) -> Result<Accepted, Refusal> {
        self.assert_not_past(now);
        match command {
            Command::CreateSale(spec) => self.create_sale(now, spec),
            Command::ChangeSale { sale, change } => self.change_sale(now, sale, change),
            Command::Pause(sale) => self.pause(now, sale),
            Command::Resume(sale) => self.resume(now, sale),
            Command::End(sale) => self.end(now, sale),
            Command::Adjust { sku, how, units, key } => self.adjust(now, sku, how, units, key),
            Command::Place(place) => {
                self.place(now, &place).map(|(order, replayed)| Accepted::Order { order, replayed })
            }
            Command::Cancel { order, buyer } => self.cancel(now, order, buyer),
            Command::Pay(pay) => self.pay(now, pay),
            Command::Settle { payment } => self.settle(now, &payment),
        }
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
            each(sku, entry.stock);
        }
    }

    /// The sequence number that the next event will have.
    pub fn next_seq(&self) -> Seq {
        self.next_seq
    }

    /// The time of the latest event; the clock must not be behind it.
    pub fn last_at(&self) -> UnixMs {
        self.last_at
    }

    /// The SKU of a product in a sale.
    pub fn sku(&self, sale: SaleId, product: ProductId) -> Option<SkuId> {
        self.sku_by_product.get(&(sale, product)).copied()
    }

    pub fn stock(&self, sku: SkuId) -> Option<Stock> {
        self.skus.get(sku.0 as usize).map(|sku| sku.stock)
    }

    /// Orders of a SKU, whatever became of them.
    pub fn orders_of(&self, sku: SkuId) -> Option<u64> {
        self.skus.get(sku.0 as usize).map(|sku| sku.orders)
    }

    pub fn order(&self, id: OrderId) -> Option<OrderView> {
        self.find(id).map(|index| self.view(index))
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

    /// The order that an entry with this sequence number placed.
    pub fn order_at(&self, seq: Seq) -> Option<OrderView> {
        self.index_at(seq).map(|index| self.view(index))
    }

    /// Orders in the book, of any status.
    pub fn orders_len(&self) -> usize {
        self.orders.len()
    }

    pub fn sale(&self, id: SaleId) -> Option<SaleView<'_>> {
        self.sale_by_id.get(&id).map(|index| self.view_sale(*index))
    }

    /// All sales in the order of creation.
    pub fn sales(&self) -> impl Iterator<Item = SaleView<'_>> + '_ {
        self.sales.iter().map(|sale| self.view_sale(self.sale_by_id[&sale.spec.id]))
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
            .map(view_payment)
    }

    /// No hold expires before this time; `None`: there is none.
    pub fn next_deadline(&self) -> Option<UnixMs> {
        self.deadlines.peek().map(|Reverse((deadline, _))| *deadline)
    }

    /// The clock never runs backwards; every way in asserts it, before it looks at anything.
    fn assert_not_past(&self, now: UnixMs) {
        assert!(now >= self.last_at, "time ran backwards: {now:?} after {:?}", self.last_at);
    }

    /// Appends an event and carries it out.
    fn record(&mut self, at: UnixMs, event: Event) -> Seq {
        let entry = Entry { seq: self.next_seq, at, event };
        self.apply(&entry);
        self.journal.push(entry);
        self.journal[self.journal.len() - 1].seq
    }

    fn find(&self, id: OrderId) -> Option<usize> {
        self.order_by_id
            .find(table_hash(id.hash), |index| self.orders[*index as usize].id() == id)
            .map(|index| *index as usize)
    }

    fn find_payment(&self, id: &str) -> Option<usize> {
        self.payment_by_id
            .find(hash_of(id), |index| *self.payments[*index as usize].pay.id == *id)
            .map(|index| *index as usize)
    }

    fn index_at(&self, seq: Seq) -> Option<usize> {
        self.orders.binary_search_by_key(&seq, |order| order.seq).ok()
    }

    fn sku_of(&self, order: &Order) -> &Sku {
        &self.skus[order.sku.0 as usize]
    }

    fn view(&self, index: usize) -> OrderView {
        let order = &self.orders[index];
        OrderView {
            id: order.id(),
            seq: order.seq,
            buyer: order.buyer,
            quantity: order.quantity,
            unit_price: self.sku_of(order).price,
            status: order.status,
            placed_at: order.placed_at,
            pay_by: (order.payment_ms > 0).then(|| order.pay_by()),
            closed_at: (order.status != Status::Held && order.payment_ms > 0).then_some(order.closed_at),
            refund_due: !self.refunds.is_empty() && self.refunds.contains_key(&order.id()),
        }
    }

    fn view_sale(&self, index: u32) -> SaleView<'_> {
        let sale = &self.sales[index as usize];
        let first = sale.first_sku.0 as usize;
        SaleView {
            spec: &sale.spec,
            paused: sale.paused,
            ended: sale.ended,
            first_sku: sale.first_sku,
            stocks: self.skus[first..first + sale.spec.items.len()].iter().map(|sku| sku.stock).collect(),
        }
    }

    fn touch(&mut self, sku: SkuId) {
        let entry = &mut self.skus[sku.0 as usize];
        if !entry.touched {
            entry.touched = true;
            self.touched.push(sku);
        }
    }
}

fn view_payment(payment: &Recorded) -> PaymentView {
    PaymentView {
        pay: payment.pay.clone(),
        seq: payment.seq,
        at: payment.at,
        disposition: payment.disposition,
    }
}

/// An order id's hash is one already; its low half serves the table as it is.
#[expect(clippy::cast_possible_truncation, reason = "the low half is wanted")]
fn table_hash(hash: u128) -> u64 {
    hash as u64
}
