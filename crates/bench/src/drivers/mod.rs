//! The drivers: for each protocol, the bytes of its requests and the meaning of its answers.
//!
//! Each is a [`Protocol`](crate::load::Protocol) for the one loop of `load/`; but `mysql` is a
//! [`Client`](crate::load::Client) that blocks. A refusal is an outcome and no error, and never counts as an order.

pub mod http;
pub mod mysql;
pub mod redis;
pub mod rocketmq;
