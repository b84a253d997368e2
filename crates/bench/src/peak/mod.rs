//! The load that an installation carries within a latency limit.

pub mod controller;
pub mod judge;
#[cfg(test)]
mod simulation;
