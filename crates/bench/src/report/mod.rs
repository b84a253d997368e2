//! Reports: one structure, and the forms in which people and programs read it.

pub mod model;
