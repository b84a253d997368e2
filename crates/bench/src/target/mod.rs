//! What is measured: this program as a child, the engines under it, whole installations of both, and nginx beside them.
//!
//! Each is started with the settings under test, which are read back, and ends with the value that stands for it. It must not
//! send a load or judge an answer.

pub mod address;
pub mod engines;
pub mod installation;
pub mod nginx;
mod server;
pub mod token;

pub use self::server::{DOORBUSTER, OPERATOR_TOKEN, PAYMENT_SECRET, Setup, TOKEN_SECRET, Target};
