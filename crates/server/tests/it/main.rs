//! The server's tests: one binary.

mod history;
mod ledger;
