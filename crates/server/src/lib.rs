//! The serving path of Doorbuster. Folders follow the path of an order.

pub mod pages;
