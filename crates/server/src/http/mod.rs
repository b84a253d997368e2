//! The HTTP interface: routes, wire types, and the only map from errors to status codes.
//!
//! One [`HttpService`] runs on each event loop. It answers what committed state can answer at once, and hands
//! everything else to the book writer in one batch per poll round; the ticket of a request remembers how its
//! answer is to be written. Files follow the routes: `orders`, `sales`, `payments`, `published`, `submit`,
//! `pages`, `operating`.
//!
//! Must not: block, change the book, or keep a request's buffers.

mod auth;
mod dispatch;
mod pages;
mod pending;
mod placing;
mod published;
mod reads;
mod route;
mod routes;
mod service;
mod shared;
#[cfg(test)]
mod tests;
mod wire;

pub use auth::AuthMode;
pub use pages::files::PageFiles;
pub use reads::Reads;
pub use service::HttpService;
pub use shared::{HttpOptions, HttpSecrets, Parts, Shared};
