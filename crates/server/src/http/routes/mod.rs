//! The routes of our own API, a file for each kind of thing that they are about.

pub(super) mod attempts;
pub(super) mod buyers;
pub(super) mod console;
pub(super) mod demo;
pub(super) mod figures;
pub(super) mod images;
pub(super) mod line;
pub(super) mod operating;
pub(super) mod operators;
pub(super) mod orders;
pub(super) mod payments;
pub(super) mod receipt;
pub(super) mod rehearsals;
pub(super) mod report;
pub(super) mod sales;
pub(super) mod session;
pub(super) mod stripe;
pub(super) mod support;
pub(super) mod webhooks;
