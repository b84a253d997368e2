//! Every invariant, checked over the whole book from the orders up. Costs a pass over all orders: for audits
//! and tests; the moves themselves assert what they can.

use std::collections::HashMap;

use super::{Book, BuyerId};
use crate::Status;

impl Book {
    /// Checks every invariant by counting again from the orders.
    ///
    /// # Errors
    /// One line for each that is broken.
    pub fn check_invariants(&self) -> Result<(), Vec<String>> {
        let mut broken = Vec::new();
        let mut held = vec![0u64; self.skus.len()];
        let mut sold = vec![0u64; self.skus.len()];
        let mut units: HashMap<(u32, BuyerId), u32> = HashMap::new();
        let mut holds: HashMap<(u32, BuyerId), u32> = HashMap::new();
        for (index, order) in self.orders.iter().enumerate() {
            let sku = self.sku_of(order);
            match order.status {
                Status::Held => held[order.sku.0 as usize] += u64::from(order.quantity),
                Status::Paid => sold[order.sku.0 as usize] += u64::from(order.quantity),
                Status::Cancelled | Status::Expired => {}
            }
            if sku.limit.is_some() && matches!(order.status, Status::Held | Status::Paid) {
                *units.entry((order.sku.0, order.buyer)).or_insert(0) += order.quantity;
            }
            if order.status == Status::Held
                && self.sales[sku.sale as usize].spec.open_holds_per_buyer_max.is_some()
            {
                *holds.entry((sku.sale, order.buyer)).or_insert(0) += 1;
            }
            if self.find(order.id()) != Some(index) {
                broken.push(format!("order {} stands there twice", order.id()));
            }
        }
        for (number, sku) in self.skus.iter().enumerate() {
            let stock = sku.stock;
            if stock.available() + stock.held() + stock.sold() != stock.total() {
                broken.push(format!("SKU {number}: available + held + sold is not the total: {stock:?}"));
            }
            if (stock.held(), stock.sold()) != (held[number], sold[number]) {
                broken.push(format!(
                    "SKU {number}: its orders hold {} and own {} units, the stock says {stock:?}",
                    held[number], sold[number]
                ));
            }
        }
        for ((sku, buyer), count) in &units {
            if self.skus[*sku as usize].limit.is_some_and(|limit| *count > limit) {
                broken.push(format!("SKU {sku}: buyer {} has {count} units, over the limit", buyer.0));
            }
        }
        if units != self.units.iter().collect() {
            broken.push("the units per buyer differ from what the orders say".to_owned());
        }
        if holds != self.holds.iter().collect() {
            broken.push("the open holds per buyer differ from what the orders say".to_owned());
        }
        if broken.is_empty() { Ok(()) } else { Err(broken) }
    }
}
