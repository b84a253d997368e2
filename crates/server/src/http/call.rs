//! One request on its way through a route.

use std::sync::Arc;

use engine::UnixMs;

use super::router::Params;
use super::wire::answer::Shape;
use super::wire::fields::{Fields, Method};
use crate::clock::Between;
use crate::net::{HttpRequest, Ticket};

#[derive(Debug)]
pub(super) struct Call<'a> {
    pub(super) request: &'a HttpRequest<'a>,
    pub(super) fields: Fields<'a>,
    pub(super) method: Method,
    /// What its path names.
    pub(super) params: Params<'a>,
    pub(super) ticket: Ticket,
    pub(super) now: UnixMs,
    /// What tokens and signatures are judged by.
    pub(super) between: Between,
    /// The origin of another site whose page may read the answer.
    pub(super) origin: Option<Arc<str>>,
    /// How its problems are reported.
    pub(super) problems: Shape,
}

impl Call<'_> {
    /// Whether a person is to read the answer.
    pub(super) fn wants_html(&self) -> bool {
        self.fields.accept.is_some_and(|accept| accept.contains("text/html"))
    }
}
