//! The server's tests: one binary.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]
#![allow(clippy::cast_possible_truncation, reason = "test data are small")]

mod browser;
mod faults;
mod history;
mod ledger;
mod writer;
