//! Every invariant, checked over the whole book from the orders up. Costs a pass over all orders and payments:
//! for audits and tests; the moves themselves assert what they can.

use std::collections::{HashMap, HashSet};

use super::Book;
use crate::rules::rows::Rows;
use crate::{BuyerId, Disposition, OrderId, RETURNED_HOLDS_FREE, Refunded, SkuId, Status};

impl Book {
    /// Checks every invariant by counting again from the orders and payments.
    ///
    /// # Errors
    /// One line for each that is broken.
    pub fn check_invariants(&self) -> Result<(), Vec<String>> {
        let mut broken = Vec::new();
        self.check_units(&mut broken);
        self.check_buyers(&mut broken);
        self.check_deadlines(&mut broken);
        self.check_money(&mut broken);
        if broken.is_empty() { Ok(()) } else { Err(broken) }
    }

    /// available + turns + held + sold = total, and held and sold are what the orders say; each order stands once.
    fn check_units(&self, broken: &mut Vec<String>) {
        let mut held = vec![0u64; self.skus.len()];
        let mut sold = vec![0u64; self.skus.len()];
        let mut orders = vec![0u64; self.skus.len()];
        for (index, order) in self.orders.iter().enumerate() {
            let sku = order.sku.0 as usize;
            orders[sku] += 1;
            match order.status {
                Status::Held => held[sku] += u64::from(order.quantity),
                Status::Paid | Status::Refunded => {
                    let back = self.refunded.get(&order.id()).map_or(0, |refunded| refunded.units);
                    sold[sku] += u64::from(order.quantity.saturating_sub(back));
                }
                Status::Cancelled | Status::Expired => {}
            }
            if self.find(order.id()).map(|found| found as usize) != Some(index) {
                broken.push(format!("order {} stands there twice", order.id()));
            }
        }
        for (number, sku) in self.skus.iter().enumerate() {
            let stock = sku.row.stock;
            let turns = sku.line.as_ref().map_or(0, |line| line.turn_units());
            if stock.turns() != turns {
                broken.push(format!(
                    "SKU {number}: turns are open for {turns} units, the stock says {stock:?}"
                ));
            }
            if let Some(line) = &sku.line {
                let found = line.check(stock.available()).err();
                broken.extend(found.map(|why| format!("SKU {number}: its line: {why}")));
            }
            if stock.available() + stock.turns() + stock.held() + stock.sold() != stock.total() {
                broken.push(format!(
                    "SKU {number}: available + turns + held + sold is not the total: {stock:?}"
                ));
            }
            if (stock.held(), stock.sold()) != (held[number], sold[number]) {
                broken.push(format!(
                    "SKU {number}: its orders hold {} and own {} units, the stock says {stock:?}",
                    held[number], sold[number]
                ));
            }
            if sku.row.orders != orders[number] {
                broken
                    .push(format!("SKU {number}: {} orders, but counted {}", orders[number], sku.row.orders));
            }
        }
    }

    /// Nobody is over a limit, and the counts per buyer are what the orders say.
    fn check_buyers(&self, broken: &mut Vec<String>) {
        let mut units: HashMap<(u32, BuyerId), u32> = HashMap::new();
        let mut holds: HashMap<(u32, BuyerId), u32> = HashMap::new();
        for order in &self.orders {
            let terms = self.sales.terms(order.sku).expect("an order has a SKU");
            if terms.limit.is_some() && order.status.has_units() {
                *units.entry((order.sku.0, order.buyer)).or_insert(0) += order.quantity;
            }
            let bounded = self.sales.of(terms).spec.open_holds_per_buyer_max.is_some();
            if bounded && order.status == Status::Held {
                *holds.entry((terms.sale, order.buyer)).or_insert(0) += 1;
            }
        }
        for ((sku, buyer), count) in &units {
            if self.sales.terms(SkuId(*sku)).and_then(|terms| terms.limit).is_some_and(|limit| *count > limit)
            {
                broken.push(format!("SKU {sku}: buyer {buyer} has {count} units, over the limit"));
            }
        }
        if units != self.units.iter().collect() {
            broken.push("the units per buyer differ from what the orders say".to_owned());
        }
        let waits = self.returned_holds.iter().filter(|(_, count)| *count > RETURNED_HOLDS_FREE);
        let waits: HashSet<_> = waits.map(|((sku, buyer), _)| (SkuId(sku), buyer)).collect();
        if waits != self.cooling.keys().copied().collect() {
            broken.push("those who wait after returned holds are not those who returned too many".to_owned());
        }
        if holds != self.holds.iter().collect() {
            broken.push("the open holds per buyer differ from what the orders say".to_owned());
        }
        let mut turns: HashMap<(u32, BuyerId), u32> = HashMap::new();
        let lines = self.sku_numbers().filter_map(|sku| Some((self.line(sku)?, self.bounds_holds(sku)?)));
        for (line, sale) in lines {
            line.called().for_each(|buyer| *turns.entry((sale, buyer)).or_insert(0) += 1);
        }
        if turns != self.turns.iter().collect() {
            broken.push("the open turns per buyer differ from what the lines say".to_owned());
        }
    }

    /// Every hold waits for its deadline: none keeps its units for good.
    fn check_deadlines(&self, broken: &mut Vec<String>) {
        let mut waits = vec![false; self.orders.len()];
        for entry in &self.deadlines {
            let (deadline, index) = entry.0;
            waits[index as usize] |= deadline == self.pay_by(index);
        }
        for (order, waits) in self.orders.iter().zip(waits) {
            if order.status == Status::Held && !waits {
                broken.push(format!("order {} is held and would never expire", order.id()));
            }
        }
    }

    /// One payment has paid for each order that is paid, none for any other, and every other one is listed. What is
    /// refunded of an order is no more than it has.
    fn check_money(&self, broken: &mut Vec<String>) {
        let mut due: HashMap<OrderId, u32> = HashMap::new();
        let mut paid_by = vec![0u32; self.orders.len()];
        let mut refunded: HashMap<OrderId, Refunded> = HashMap::new();
        for payment in &self.payments {
            if let Some(units) = payment.disposition.requested() {
                let part = Refunded { amount: payment.pay.amount, units };
                refunded.entry(payment.pay.order).or_default().add(part);
            }
            match (payment.disposition, self.find(payment.pay.order)) {
                (Disposition::Applied, Some(index)) => paid_by[index as usize] += 1,
                (Disposition::Applied, None) => {
                    broken.push(format!("payment {} paid for an unknown order", payment.pay.id));
                }
                (Disposition::RefundDue(_), _) => *due.entry(payment.pay.order).or_insert(0) += 1,
                (Disposition::Settled(_), _) => {}
            }
        }
        for (order, payments) in self.orders.iter().zip(paid_by) {
            let is_paid = matches!(order.status, Status::Paid | Status::Refunded);
            let needs = u32::from(is_paid && order.payment_ms > 0);
            if payments != needs {
                let (id, status) = (order.id(), order.status.as_str());
                broken.push(format!("order {id} is {status}, and {payments} payments paid for it"));
            }
        }
        self.check_refunded(&refunded, broken);
        let count: usize = due.values().map(|count| *count as usize).sum();
        if count != self.refunds_due {
            broken.push(format!("{count} refunds are due, but counted {}", self.refunds_due));
        }
        let listed: HashMap<_, _> = self.refunds.iter().map(|(order, count)| (*order, *count)).collect();
        if due != listed {
            broken.push("the refunds per order differ from what the payments say".to_owned());
        }
    }

    fn check_refunded(&self, counted: &HashMap<OrderId, Refunded>, broken: &mut Vec<String>) {
        for (index, order) in (0..).zip(&self.orders) {
            let (view, counted) = (self.order_view(index), counted.get(&order.id()).copied());
            let Refunded { amount, units } = counted.unwrap_or_default();
            let is_whole = counted.is_some() && amount == view.amount();
            let fits = match view.status {
                Status::Refunded => is_whole,
                Status::Paid => !is_whole && amount <= view.amount(),
                _ => counted.is_none(),
            };
            if !fits || units > view.quantity {
                let (id, status) = (view.id, view.status.as_str());
                broken.push(format!(
                    "order {id} is {status}, and {amount} and {units} units of it are refunded"
                ));
            }
        }
        if *counted != self.refunded.iter().map(|(order, refunded)| (*order, *refunded)).collect() {
            broken.push("what is refunded differs from what the payments say".to_owned());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        Command, Fingerprint, ItemSpec, Pay, Payment, Placement, ProductId, SaleId, SaleSpec, Stock, UnixMs,
    };

    /// Two holds, a paid order and a refund that is due.
    fn sound() -> Book {
        let item = ItemSpec {
            product: ProductId(1),
            title: "Shoe".to_owned(),
            description: String::new(),
            price: 5,
            list_price: 5,
            total: 9,
            limit: Some(3),
            image: None,
            line: None,
        };
        let spec = SaleSpec {
            id: SaleId(1),
            title: "Drop".to_owned(),
            currency: "EUR".to_owned(),
            starts_at: UnixMs(0),
            ends_at: UnixMs(100),
            payment: Payment::WithinMs(10),
            open_holds_per_buyer_max: Some(3),
            items: vec![item],
        };
        let mut book = Book::new();
        book.execute(UnixMs(0), Command::CreateSale(spec)).expect("the sale can be");
        for hash in 1..=3 {
            let id = OrderId { sku: SkuId(0), hash };
            let place = Placement { id, buyer: BuyerId(1), quantity: 1, fingerprint: Fingerprint(0) };
            book.place(UnixMs(1), &place).expect("there are units");
        }
        for (id, amount) in [("p", 5), ("q", 4)] {
            let pay = Pay { id: id.into(), order: OrderId { sku: SkuId(0), hash: 1 }, amount };
            book.execute(UnixMs(2), Command::Pay(pay)).expect("any payment is recorded");
        }
        book
    }

    #[test]
    fn each_invariant_is_missed_when_it_is_broken() {
        assert_eq!(sound().check_invariants(), Ok(()));
        type Damage = fn(&mut Book);
        let rows: [(&str, Damage); 13] = [
            ("its orders hold", |book| book.skus[0].row.stock = Stock::new(9)),
            ("3 orders, but counted 2", |book| book.skus[0].row.orders -= 1),
            ("stands there twice", |book| book.orders[2].hash = 1),
            ("over the limit", |book| book.orders[0].quantity = 3),
            ("units per buyer differ", |book| book.units.add(0, BuyerId(2), 1)),
            ("open holds per buyer differ", |book| book.holds.take(0, BuyerId(1), 1)),
            ("open turns per buyer differ", |book| book.turns.add(0, BuyerId(1), 1)),
            ("those who wait", |book| book.returned_holds.add(0, BuyerId(1), 3)),
            ("would never expire", |book| book.deadlines.clear()),
            ("is paid, and 0 payments", |book| book.payments.clear()),
            ("is held, and 1 payments", |book| book.payments[0].pay.order.hash = 2),
            ("1 refunds are due, but counted 2", |book| book.refunds_due += 1),
            ("refunds per order differ", |book| book.refunds.clear()),
        ];
        for (line, damage) in rows {
            let mut book = sound();
            damage(&mut book);
            let broken = book.check_invariants().expect_err(line);
            assert!(broken.iter().any(|found| found.contains(line)), "{line}: {broken:?}");
        }
    }
}
