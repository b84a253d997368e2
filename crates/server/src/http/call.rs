//! One request on its way through a route.

use std::cell::OnceCell;
use std::net::IpAddr;
use std::sync::Arc;

use engine::{By, Command, UnixMs};

use super::router::Params;
use super::wire::answer::ProblemFormat;
use super::wire::fields::{Fields, Method};
use crate::clock::Between;
use crate::intake::Request;
use crate::net::{HttpRequest, Ticket, TrustedProxies};
use crate::time::Instant;

#[derive(Debug)]
pub(super) struct Call<'a> {
    pub(super) request: &'a HttpRequest<'a>,
    pub(super) fields: Fields<'a>,
    pub(super) method: Method,
    /// What its path names.
    pub(super) params: Params<'a>,
    pub(super) ticket: Ticket,
    /// When the request was complete; `now` is the time of then.
    pub(super) received: Instant,
    pub(super) now: UnixMs,
    /// What tokens and signatures are judged by.
    pub(super) between: Between,
    /// The origin of another site whose page may read the answer.
    pub(super) origin: Option<Arc<str>>,
    /// How its problems are reported.
    pub(super) problems: ProblemFormat,
    /// The operator who asks, once that was found out.
    pub(super) by: OnceCell<By>,
}

impl Call<'_> {
    /// A command of the operator who asks.
    pub(super) fn command(&self, command: Command) -> Request {
        Request::Operate(command, self.operator())
    }

    /// The operator who asks, and why.
    pub(super) fn operator(&self) -> By {
        self.by.get().expect("a route of operators has found out who asks").clone()
    }

    /// Who asks: the peer, or who a trusted proxy says it asks for.
    pub(super) fn client(&self, proxies: &TrustedProxies) -> IpAddr {
        proxies.client(self.request.peer.ip(), self.request.headers)
    }
}
