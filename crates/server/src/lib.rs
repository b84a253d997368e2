//! The serving path of Doorbuster. Folders follow the path of an order.

mod authorities;
pub mod beacon;
mod chores;
pub mod clock;
pub mod cluster;
pub mod config;
pub mod demo;
pub mod embedded;
pub mod figures;
pub mod gate;
pub mod hex;
pub mod http;
pub mod image_origins;
pub mod intake;
pub mod ledger;
pub mod line_ticket;
pub mod metrics;
pub mod net;
pub mod pages;
pub mod queue;
mod recurring;
pub mod rehearsals;
pub mod reported;
pub mod secret;
mod serve;
pub mod shop_keys;
pub mod signing;
pub mod stripe;

pub mod time;
mod tls_fault;
pub mod verifier;
pub mod webhooks;

pub use config::Secrets;
pub use serve::{Listeners, Reloader, Running, ServeError, check_demo, run};
