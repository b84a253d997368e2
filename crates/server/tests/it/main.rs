//! The server's tests: one binary.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]
#![allow(clippy::cast_possible_truncation, reason = "test data are small")]

mod addresses;
mod browser;
mod clock;
mod cluster_ledger;
mod dev_scripts;
mod embedded;
mod engines;
mod erasing;
mod faults;
mod formats;
mod gate;
mod history;
mod images;
mod ledger;
mod lines;
mod lives;
mod mysql_book;
mod mysql_faults;
mod mysql_proxy;
mod net;
mod operators;
mod outgoing;
mod places;
mod queue;
mod rehearsal;
mod sent;
mod sqlite_files;
