//! The serving path of Doorbuster. Folders follow the path of an order.

pub mod admission;
pub mod catalog;
pub mod clock;
pub mod metrics;
pub mod pages;
