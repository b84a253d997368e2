//! What is asked beside placing: where an order is, commands on the ledger, and the view of sales and stock.

mod balance;
pub(super) mod commands;
pub(super) mod refresh;
pub(super) mod status;
