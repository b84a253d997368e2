//! The HTTP interface: routes, wire types, and the only map from errors to status codes.
//!
//! One [`HttpService`] runs on each event loop. It answers what committed state can answer at once, and hands
//! everything else to the book writer in one batch per poll round; the ticket of a request remembers how its
//! answer is to be written. Files follow the routes: `orders`, `sales`, `payments`, `published`, `submit`,
//! `pages`, `operating`.
//!
//! Must not: block, change the book, or keep a request's buffers.

mod address;
mod answer;
mod auth;
mod dispatch;
mod error;
mod fields;
mod operating;
mod order_id;
mod orders;
mod page_files;
mod page_shelf;
mod pages;
mod payments;
mod pending;
mod placing;
mod published;
mod published_reply;
mod reads;
mod route;
mod sales;
mod service;
mod shared;
mod signature;
mod submit;
#[cfg(test)]
mod tests;
mod token;
mod wire;

pub use auth::AuthMode;
pub use page_files::PageFiles;
pub use reads::Reads;
pub use service::HttpService;
pub use shared::{HttpOptions, HttpSecrets, Parts, Shared};
