//! A route: one row that the module which serves it owns, and everything that the interface knows of it.
//!
//! The router, the header `Allow`, the check of the API's description, who may call and which answers come from the
//! ledger's file are all read from the rows. Must not: know any one route.

use engine::Role;

use super::HttpService;
use super::call::Call;
use super::reads::LedgerRead;
use super::shared::HttpOptions;
use super::wire::answer::{Answering, ProblemFormat};
use super::wire::error::Problem;
use super::wire::fields::Method;
use crate::ledger::Buyer;
use crate::net::Answer;

/// What serves a route, by who may call it. Who asks has been found out before the handler is called.
#[derive(Clone, Copy, Debug)]
pub(super) enum Handler {
    /// Anybody may; a handler that minds looks at the sender itself.
    Anybody(fn(&mut HttpService, &Call<'_>, &mut Answering<'_, '_>) -> Result<Answer, Problem>),
    /// A buyer who changes something: known, and not sent by another site's page.
    Buyer(fn(&mut HttpService, &Call<'_>, Buyer) -> Result<Answer, Problem>),
    /// An operator of this role, or of one that may more.
    Operator(Role, fn(&mut HttpService, &Call<'_>) -> Result<Answer, Problem>),
    /// An operator, answered by the ledger itself: past the mailbox, on the thread that may block.
    OperatorReads(Role, fn(&Call<'_>) -> Result<LedgerRead, Problem>),
    /// The payment provider, by the signature of the body.
    Provider(fn(&mut HttpService, &Call<'_>) -> Result<Answer, Problem>),
}

/// Where a route exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum When {
    Always,
    Demo,
    /// Where messages for load tests are stored.
    Messages,
    /// Where Stripe takes the payments.
    Stripe,
}

impl When {
    pub(super) fn check(self, options: &HttpOptions) -> Result<(), Problem> {
        match self {
            When::Demo if !options.demo => Err(Problem::demo_only()),
            When::Messages if !options.message_route => Err(Problem::not_found()),
            When::Stripe if !options.stripe => Err(Problem::stripe_off()),
            When::Always | When::Demo | When::Messages | When::Stripe => Ok(()),
        }
    }
}

/// At which listener a route is served, where the operators have one of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Served {
    Public,
    Operators,
    Both,
}

/// The bound of a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BodyLimit {
    Usual,
    /// The operator's, for whoever has the operator's token.
    Operator,
}

/// One row.
#[derive(Clone, Copy, Debug)]
pub(super) struct Route {
    pub(super) method: Method,
    /// As in the API's description, and as [`super::router`] reads it.
    pub(super) path: &'static str,
    pub(super) handler: Handler,
    pub(super) when: When,
    pub(super) body: BodyLimit,
    pub(super) served: Served,
    /// How its problems are reported.
    pub(super) problems: ProblemFormat,
}

impl Route {
    const fn new(method: Method, path: &'static str, handler: Handler) -> Route {
        let (when, body, problems) = (When::Always, BodyLimit::Usual, ProblemFormat::Problem);
        let served = match handler {
            Handler::Operator(..) | Handler::OperatorReads(..) => Served::Operators,
            Handler::Anybody(_) | Handler::Buyer(_) | Handler::Provider(_) => Served::Public,
        };
        Route { method, path, handler, when, body, served, problems }
    }

    /// GET, and with it HEAD.
    pub(super) const fn get(path: &'static str, handler: Handler) -> Route {
        Route::new(Method::Get, path, handler)
    }

    pub(super) const fn post(path: &'static str, handler: Handler) -> Route {
        Route::new(Method::Post, path, handler)
    }

    pub(super) const fn patch(path: &'static str, handler: Handler) -> Route {
        Route::new(Method::Patch, path, handler)
    }

    pub(super) const fn when(self, when: When) -> Route {
        Route { when, ..self }
    }

    pub(super) const fn body(self, body: BodyLimit) -> Route {
        Route { body, ..self }
    }

    pub(super) const fn served(self, served: Served) -> Route {
        Route { served, ..self }
    }

    pub(super) const fn problems(self, problems: ProblemFormat) -> Route {
        Route { problems, ..self }
    }
}
