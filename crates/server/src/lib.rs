//! The serving path of Doorbuster. Folders follow the path of an order.

pub mod admission;
pub mod calendar;
pub mod catalog;
pub mod clock;
pub mod cluster;
pub mod config;
pub mod demo;
pub mod http;
pub mod ledger;
pub mod metrics;
pub mod net;
pub mod pages;
pub mod queue;
mod serve;
pub mod stock;
pub mod writer;

pub use config::Secrets;
pub use serve::{Running, ServeError, run};
