//! This machine: what it is, what runs on it, and what a measurement spent of it.

pub mod environment;
pub mod leftovers;
pub(crate) mod limit;
pub mod process;
pub mod procfs;
pub mod usage;
