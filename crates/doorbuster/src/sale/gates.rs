//! What gate and queue of a cluster said of a sale when it was certified, beside the ledger at the entry of the report.
//!
//! They can't be read again as they were: later only the ledger's part of it is found out again. Must not: read any of them.

use serde::{Deserialize, Serialize};
use server::cluster::{SkuSight, ThreeWay};
use server::ledger::{ItemReport, SaleReport};

use crate::time::format_utc;

/// As the certificate has it. Fields are only added.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct GateAndQueue {
    /// When they were read, by the clock of the machine that did.
    read_at_ms: u64,
    /// Nothing was on its way, of no sale.
    at_rest: bool,
    /// Messages in the queue that no server had consumed.
    messages: u64,
    /// Changes of the ledger that the gate had not heard of.
    outbox: u64,
    items: Vec<GateItem>,
    /// Every invariant between the three that did not hold, of all sales.
    broken: Vec<String>,
}

/// One product: what the gate had, beside what the ledger has at the report's entry.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct GateItem {
    product: u64,
    total: u64,
    held: u64,
    sold: u64,
    /// What the gate would have sold.
    available: i64,
    /// Reservations that were not settled, and units of those that the ledger did not have.
    open: u64,
    open_units: u64,
    /// Nothing of it was on its way: `available`, `open_units`, `held` and `sold` add up to `total`, or `broken` says that they don't.
    compared: bool,
    /// Why the gate sold nothing of it, if it did not.
    closed: Option<String>,
}

impl GateItem {
    fn of(sight: &SkuSight, item: &ItemReport) -> GateItem {
        let product = sight.item.map(|(_, product)| product.0);
        assert_eq!(product, Some(item.product), "both are in the order of the sale's items");
        let said = (sight.total, sight.held, sight.sold);
        GateItem {
            product: item.product,
            total: item.total,
            held: item.held,
            sold: item.sold,
            available: sight.available,
            open: sight.open,
            open_units: sight.open_units,
            // The gates were read after the report's entry: what was ordered in between is on its way, too.
            compared: sight.compared && said == (item.total, item.held, item.sold),
            closed: sight.closed.map(str::to_owned),
        }
    }

    fn adds_up(&self) -> bool {
        let sum = i128::from(self.available) + i128::from(self.open_units);
        sum + i128::from(self.held) + i128::from(self.sold) == i128::from(self.total)
    }
}

impl GateAndQueue {
    /// `report`: as of the entry at which the audit read the ledger.
    pub(super) fn of(found: &ThreeWay, report: &SaleReport, read_at_ms: u64) -> GateAndQueue {
        let of_sale = |sight: &&SkuSight| sight.item.is_some_and(|(sale, _)| sale.0 == report.sale);
        let sights = found.skus.iter().filter(of_sale).zip(&report.items);
        GateAndQueue {
            read_at_ms,
            at_rest: found.at_rest(),
            messages: found.backlog,
            outbox: found.outbox,
            items: sights.map(|(sight, item)| GateItem::of(sight, item)).collect(),
            broken: found.broken.clone(),
        }
    }

    /// For people, in one line.
    pub(super) fn says(&self) -> String {
        let compared = self.items.iter().filter(|item| item.compared).count();
        let closed = self.items.iter().filter(|item| item.closed.is_some()).count();
        let agree = match (self.broken.is_empty(), compared) {
            (false, _) => "DO NOT AGREE",
            (true, 0) => "NOT COMPARED",
            (true, _) => "agree",
        };
        let mut text = format!(
            "gate, queue and ledger {agree}: {compared} of {} items compared on {}, {} messages and {} changes on their way",
            self.items.len(),
            format_utc(self.read_at_ms),
            self.messages,
            self.outbox
        );
        if closed > 0 {
            text += &format!("; gates of {closed} items were closed");
        }
        text
    }

    /// What of it can't be, by the ledger at that entry; in lines.
    pub(super) fn contradicted_by(&self, report: &SaleReport) -> Vec<String> {
        if self.items.len() != report.items.len() {
            let (certified, found) = (self.items.len(), report.items.len());
            return vec![format!(
                "gate_and_queue: certified of {certified} items, in the ledger are {found}"
            )];
        }
        let mut lines = Vec::new();
        for (item, found) in self.items.iter().zip(&report.items) {
            let certified = (item.product, item.total, item.held, item.sold);
            if certified != (found.product, found.total, found.held, found.sold) {
                lines.push(format!(
                    "gate_and_queue: of product {} certified total {}, held {}, sold {}; in the ledger product {}: {}, {}, {}",
                    item.product, item.total, item.held, item.sold, found.product, found.total, found.held, found.sold
                ));
            }
            if item.compared && self.broken.is_empty() && !item.adds_up() {
                lines.push(format!(
                    "gate_and_queue: product {} does not add up, and nothing says so",
                    item.product
                ));
            }
        }
        lines
    }
}

#[cfg(test)]
mod tests {
    use engine::{ProductId, SaleId, SkuId};
    use server::ledger::Audit;

    use super::*;

    fn report() -> SaleReport {
        let item = |product| {
            let mut item = ItemReport::default();
            (item.product, item.total, item.available, item.held, item.sold) = (product, 10, 4, 1, 5);
            item
        };
        SaleReport { sale: 3, items: vec![item(29), item(30)], ..SaleReport::default() }
    }

    fn sight((sale, product): (u64, u64), available: i64) -> SkuSight {
        SkuSight {
            sku: SkuId(0),
            item: Some((SaleId(sale), ProductId(product))),
            total: 10,
            held: 1,
            sold: 5,
            available,
            open: 0,
            open_units: 0,
            closed: None,
            over: false,
            compared: true,
        }
    }

    fn found(skus: Vec<SkuSight>) -> ThreeWay {
        ThreeWay {
            ledger: Audit::default(),
            skus,
            moving: 0,
            closed: 0,
            over: 0,
            backlog: 0,
            outbox: 0,
            settings: Vec::new(),
            retired: Vec::new(),
            remarks: Vec::new(),
            clocks: Vec::new(),
            rebuild_waits: None,
            broken: Vec::new(),
        }
    }

    #[test]
    fn only_the_items_of_the_sale_are_in_it_and_what_moved_since_the_entry_was_not_compared() {
        let moved = SkuSight { sold: 6, ..sight((3, 30), 3) };
        let closed = SkuSight { closed: Some("gate_lost"), compared: false, ..sight((3, 30), 0) };
        let of = |skus| GateAndQueue::of(&found(skus), &report(), 1_764_000_000_000);
        let said = of(vec![sight((2, 29), 4), sight((3, 29), 4), moved, sight((4, 30), 4)]);
        let compared: Vec<_> = said.items.iter().map(|item| (item.product, item.compared)).collect();
        assert_eq!(compared, [(29, true), (30, false)]);
        assert_eq!(said.contradicted_by(&report()), [""; 0]);
        let says = "gate, queue and ledger agree: 1 of 2 items compared on 2025-11-24T16:00:00Z, 0 messages and 0 changes on their way";
        assert_eq!(said.says(), says);
        let moving = SkuSight { compared: false, ..sight((3, 29), 4) };
        let said = of(vec![moving, closed.clone()]).says();
        assert!(said.starts_with("gate, queue and ledger NOT COMPARED: 0 of 2 items compared on "), "{said}");
        let said = of(vec![sight((3, 29), 4), closed]);
        assert!(said.says().ends_with("; gates of 1 items were closed"), "{}", said.says());
    }

    #[test]
    fn what_the_ledger_does_not_bear_out_is_found() {
        let certified = GateAndQueue::of(&found(vec![sight((3, 29), 4), sight((3, 30), 4)]), &report(), 0);
        let lines = |change: fn(&mut GateAndQueue)| {
            let mut changed = certified.clone();
            change(&mut changed);
            changed.contradicted_by(&report())
        };
        assert_eq!(lines(|_| ()), [""; 0]);
        assert_eq!(lines(|of| of.items[1].available = 5).len(), 1, "it does not add up");
        assert_eq!(lines(|of| of.items[1].open_units = 1).len(), 1);
        assert_eq!(lines(|of| (of.items[1].compared, of.items[1].available) = (false, 0)), [""; 0]);
        let broken: fn(&mut GateAndQueue) =
            |of| (of.items[1].available, of.broken) = (5, vec!["SKU 8".to_owned()]);
        assert_eq!(lines(broken), [""; 0], "it says so itself");
        let sold: fn(&mut GateAndQueue) = |of| (of.items[0].sold, of.items[0].available) = (4, 5);
        assert!(
            lines(sold)[0].starts_with("gate_and_queue: of product 29 certified total 10, held 1, sold 4;")
        );
        assert_eq!(lines(|of| of.items.truncate(1)).len(), 1);
    }
}
