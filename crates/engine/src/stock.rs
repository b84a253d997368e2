//! The units of one SKU. Every move keeps `available + turns + held + sold = total`; nothing else may write them.

use crate::Closing;

/// How the total was moved by an operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Adjust {
    /// More units than before.
    Restock,
    /// Fewer units than before, never below those that somebody has or was promised.
    Correct,
}

/// Whether nobody can order a unit: none is available, and none is set aside for somebody who was called. What is held may come
/// back, and is not asked.
pub fn is_sold_out(available: u64, turns: u64) -> bool {
    available == 0 && turns == 0
}

/// Units of one SKU by what they are doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stock {
    total: u64,
    available: u64,
    turns: u64,
    held: u64,
    sold: u64,
}

impl Stock {
    pub fn new(total: u64) -> Stock {
        Stock { total, available: total, turns: 0, held: 0, sold: 0 }
    }

    /// A stock as a ledger has kept it; `None` if more is held and sold than there is.
    pub fn of(total: u64, held: u64, sold: u64) -> Option<Stock> {
        let available = total.checked_sub(held)?.checked_sub(sold)?;
        Some(Stock { total, available, turns: 0, held, sold })
    }

    pub fn total(&self) -> u64 {
        self.total
    }

    /// Units that can be ordered now.
    pub fn available(&self) -> u64 {
        self.available
    }

    /// Units that are set aside for those who were called from a line.
    pub fn turns(&self) -> u64 {
        self.turns
    }

    /// See [`is_sold_out`].
    pub fn is_sold_out(&self) -> bool {
        is_sold_out(self.available, self.turns)
    }

    /// Units of orders that await payment.
    pub fn held(&self) -> u64 {
        self.held
    }

    /// Units of paid orders.
    pub fn sold(&self) -> u64 {
        self.sold
    }

    /// available -> turns. Panics if there are not enough: the caller has looked.
    pub(crate) fn set_aside(&mut self, units: u64) {
        self.available = self.available.checked_sub(units).expect("a turn takes available units only");
        self.turns += units;
        self.assert_sum();
    }

    /// turns -> available. Panics if fewer are set aside.
    pub(crate) fn put_back(&mut self, units: u64) {
        self.turns = self.turns.checked_sub(units).expect("only units of turns are put back");
        self.available += units;
        self.assert_sum();
    }

    /// available -> held. Panics if there are not enough: the caller has looked.
    pub fn hold(&mut self, units: u64) {
        self.available = self.available.checked_sub(units).expect("a hold takes available units only");
        self.held += units;
        self.assert_sum();
    }

    /// available -> sold: a late payment, or a sale whose orders are paid on placing.
    pub fn sell(&mut self, units: u64) {
        self.available = self.available.checked_sub(units).expect("a sale takes available units only");
        self.sold += units;
        self.assert_sum();
    }

    /// held -> sold. Panics if fewer are held.
    pub fn confirm(&mut self, units: u64) {
        self.held = self.held.checked_sub(units).expect("only held units are confirmed");
        self.sold += units;
        self.assert_sum();
    }

    /// held -> available. Panics if fewer are held.
    pub fn release(&mut self, units: u64) {
        self.held = self.held.checked_sub(units).expect("only held units are released");
        self.available += units;
        self.assert_sum();
    }

    /// What closing an order of so many units does to them.
    pub fn close(&mut self, how: Closing, units: u64) {
        match how {
            Closing::Paid => self.confirm(units),
            Closing::Cancelled | Closing::Expired => self.release(units),
            Closing::PaidLate => self.sell(units),
            // Those that go back on sale went with the refund.
            Closing::Refunded => {}
        }
    }

    /// sold -> available: units of a refunded order. Panics if fewer are sold.
    pub fn take_back(&mut self, units: u64) {
        self.sold = self.sold.checked_sub(units).expect("only sold units are taken back");
        self.available += units;
        self.assert_sum();
    }

    /// Moves the total; `false`, and nothing moved, if a correction asks for more than is available.
    pub fn adjust(&mut self, how: Adjust, units: u64) -> bool {
        match how {
            Adjust::Restock => {
                self.total += units;
                self.available += units;
            }
            Adjust::Correct => {
                let Some(available) = self.available.checked_sub(units) else { return false };
                self.available = available;
                self.total -= units;
            }
        }
        self.assert_sum();
        true
    }

    fn assert_sum(&self) {
        assert_eq!(
            self.available + self.turns + self.held + self.sold,
            self.total,
            "units appeared or vanished"
        );
    }
}
