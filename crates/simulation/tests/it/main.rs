//! The stand-ins beside the real engines: the same calls must give the same bytes, and leave the same behind.
//!
//! A few hundred seeds are a part of `make test`; `make simulate SEEDS=N FROM=S` plays as many as one likes.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]
#![allow(clippy::cast_possible_truncation, reason = "test data are small")]
#![expect(
    clippy::disallowed_methods,
    reason = "a test has no clock of the server, and is steered by its environment"
)]

mod alone;
mod both;
mod calls;
mod conversions;
mod crowd;
mod engine;
#[allow(dead_code, reason = "other tests use the rest of it")]
#[path = "../../../server/tests/it/engines.rs"]
mod engines;
mod faulty;
#[allow(dead_code, reason = "other tests use the rest of it")]
#[path = "../../../server/tests/it/history.rs"]
mod history;
mod ledger;
mod night;
mod panics;
#[allow(dead_code, reason = "other tests use the rest of it")]
#[path = "../../../server/tests/it/places.rs"]
mod places;
mod planted;
mod queue;
mod roles;
mod seeds;
mod sequences;
