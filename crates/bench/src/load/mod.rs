//! The load: when requests are due, one loop that sends them and takes their answers, and what came of them.
//!
//! One thread, one epoll instance, many connections. It costs two system calls per request (one
//! read, one write; sockets are registered once, edge-triggered) and copies an answer only if it comes in pieces, so
//! that on a machine shared with the target the target gets the processor. It must not judge answers (a [`Protocol`]
//! does) nor decide when to send (a [`Schedule`](schedule::Schedule) does). Only a protocol
//! whose client is a library, MySQL's, has a thread for each connection instead (`blocking`).

mod blocking;
pub mod choice;
mod connection;
pub(crate) mod distribution;
mod generator;
pub(crate) mod mid_load;
mod outcome;
pub mod protocol;
pub mod rank;
pub mod record;
pub mod schedule;
mod series;
mod settings;
pub mod trial;

pub use self::blocking::{Client, run_clients};
pub use self::generator::{Generator, RunError};
pub use self::protocol::{ConnectionId, Greeting, Protocol, Received, Verdicts};
pub use self::settings::{Reuse, Settings, Spread};
pub use self::trial::{Second, Trial};
