//! Stand-ins for the engines of a cluster, for runs in which one seed decides everything: no socket, no thread, no
//! clock of the machine. The gate's Redis, its replica and a Sentinel, the queue, the ledger, the networks between; and whole nights on them.
//!
//! Test only: nothing that serves depends on it. A stand-in may do less than its engine, and says so with an error that names what
//! it lacks; what it does, it does to the byte, and `tests/it` holds it to the real ones.

pub mod gate;
pub mod ledger;
pub mod night;
pub mod queue;
pub mod random;
mod record;
pub mod schedule;
