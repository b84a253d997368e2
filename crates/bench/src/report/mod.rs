//! Reports: one structure, the forms in which people and programs read it, and what is asked of two of them.
//!
//! [`model`] is written by the suite; everything else here reads it. Nothing here measures.

mod chart;
pub mod compare;
pub mod csv;
pub mod figures;
pub mod folder;
pub(crate) mod format;
pub mod json;
pub mod model;
pub mod page;
#[cfg(test)]
pub(crate) mod sample;
pub mod statistics;
pub mod summary;
pub mod thresholds;
pub(crate) mod trials;
pub mod verdict;
pub(crate) mod words;

#[cfg(test)]
mod tests;
