//! The HTTP interface: routes, wire types, and the only map from errors to status codes.
//!
//! One [`HttpService`] runs on each event loop. A request is parsed, its route found, and who asks; then the route's
//! handler answers what committed state can answer at once, and hands everything else to the profile behind the
//! mailbox, in one batch per poll round, together with what will write the answer. Every module that serves something
//! has a table of its routes (`route::Route`); the router is made of these.
//!
//! Must not: block, change the book, know a profile, or keep a request's buffers.

mod access;
mod actions;
mod auth;
mod call;
mod delayed;
mod delivery;
mod exports;
#[cfg(fuzzing)]
pub mod fuzzing;
mod histories;
mod hosts;
mod images;
mod lists;
mod pages;
mod pay_link;
mod pending;
mod placing;
mod published;
mod reads;
mod route;
mod router;
mod routes;
mod sessions;
mod shared;
mod streams;
mod tally;
#[cfg(test)]
mod tests;
mod wire;

use std::cell::OnceCell;
use std::collections::HashMap;
use std::sync::Arc;

use engine::{By, Role, SkuId, limits};

pub use auth::{AuthMode, NotMinted, TokenRules, mint};
pub use pages::files::PageFiles;
pub use pay_link::PayPage;
pub use reads::Reads;
pub use shared::{HttpOptions, HttpSecrets, Parts, SessionOptions, Shared};

use access::Access;
use auth::console::ConsoleSession;
use auth::operators::{Actor, OperatorsNow};
use call::Call;
use delayed::Delayed;
use exports::Exports;
use pages::shelf::LoopPages;
use pending::{Pending, PendingTable, Show, Waiting};
use placing::order_id::Ids;
use published::reply::Templates;
use reads::{LedgerRead, ShowRead};
use route::{Handler, Route};
use router::{OPERATORS, PUBLIC, Params, ROUTER, Resource, Router};
use routes::line::SignedDraw;
use streams::Streams;
use tally::Tally;
use wire::answer::{Answering, ProblemFormat, SoldOut};
use wire::decode_path;
use wire::error::Problem;
use wire::fields::{Fields, Method};

use crate::intake::attempts::LoopAttempts;
use crate::intake::catalog::Catalog;
use crate::intake::{Envelope, MailboxClient, OperatorsCopy, Reply, Request};
use crate::ledger::Buyer;
use crate::net::{Answer, HttpRequest, Replies, ResponseWriter, Service, Ticket};
use crate::time::Instant;

/// At which listener a service serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entrance {
    /// There is one for all.
    Only,
    /// Operators have another: here nobody is one.
    Public,
    Operators,
}

impl Entrance {
    fn router(self) -> &'static Router {
        match self {
            Entrance::Only => &ROUTER,
            Entrance::Public => &PUBLIC,
            Entrance::Operators => &OPERATORS,
        }
    }
}

/// The routes, as one event loop serves them.
#[derive(Debug)]
pub struct HttpService {
    shared: Arc<Shared>,
    access: Arc<Access>,
    operators: OperatorsCopy,
    entrance: Entrance,
    client: MailboxClient,
    catalog: Arc<Catalog>,
    batch: Vec<Envelope>,
    pending: PendingTable,
    replies: Vec<(Ticket, Reply)>,
    read: Vec<(Ticket, ShowRead)>,
    /// Where an answer's body is assembled.
    scratch: Vec<u8>,
    ids: Ids,
    tally: Tally,
    templates: Templates,
    pages: LoopPages,
    sold_out: SoldOut,
    streams: Streams,
    delayed: Delayed,
    exports: Exports,
    attempts: LoopAttempts,
    /// What was signed of the draws of lines.
    signed_draws: HashMap<SkuId, SignedDraw>,
}

impl HttpService {
    /// One per event loop; `client` is that loop's.
    pub fn new(shared: Arc<Shared>, client: MailboxClient, entrance: Entrance) -> HttpService {
        HttpService {
            catalog: shared.shelf.current(),
            batch: Vec::new(),
            pending: PendingTable::default(),
            replies: Vec::new(),
            read: Vec::new(),
            scratch: Vec::with_capacity(4096),
            ids: Ids::new(shared.order_id_secret),
            tally: Tally::new(&shared.metrics),
            templates: Templates::default(),
            pages: LoopPages::default(),
            sold_out: SoldOut::new(),
            streams: Streams::default(),
            delayed: Delayed::default(),
            exports: Exports::default(),
            attempts: shared.attempts.of_loop(),
            signed_draws: HashMap::new(),
            client,
            access: shared.access.get(),
            operators: OperatorsCopy::default(),
            entrance,
            shared,
        }
    }

    fn serve(
        &mut self,
        resource: &Resource,
        call: &Call<'_>,
        out: &mut Answering<'_, '_>,
    ) -> Result<Answer, Problem> {
        if let Some(name) = call.fields.unusable {
            return Err(Problem::unusable_header(name));
        }
        match resource.route(call.method) {
            Some(route) => self.handle(route, call, out),
            None if call.method == Method::Options => {
                options(resource, call, out);
                Ok(Answer::Ready)
            }
            None => Err(Problem::method_not_allowed(resource.allow())),
        }
    }

    /// Finds out who asks, and lets the route's handler answer.
    fn handle(
        &mut self,
        route: &Route,
        call: &Call<'_>,
        out: &mut Answering<'_, '_>,
    ) -> Result<Answer, Problem> {
        route.when.check(&self.shared.options)?;
        match route.handler {
            Handler::Anybody(handler) => handler(self, call, out),
            Handler::Buyer(handler) => {
                let buyer = self.acting_buyer(call)?;
                handler(self, call, buyer)
            }
            Handler::Operator(role, handler) => {
                self.operator(call, role)?;
                handler(self, call)
            }
            Handler::OperatorReads(role, handler) => {
                self.operator(call, role)?;
                self.read_ledger(call, route.path, handler(call)?)
            }
            Handler::Provider(handler) => {
                self.access.auth.provider(&call.fields, call.request.body, call.between)?;
                handler(self, call)
            }
        }
    }

    /// The operator who asks, if it is one, by the token or by the console's session.
    fn who(&self, call: &Call<'_>) -> Option<Actor> {
        if self.entrance == Entrance::Public {
            return None;
        }
        let by_token = self.access.auth.by_token(&call.fields, self.operators_now());
        by_token.or_else(|| self.console(call).map(|session| session.actor))
    }

    /// Where nobody has to be an operator: a token that is none's, of nobody who is a buyer, is answered and counted as it is
    /// everywhere.
    fn check_guess(&self, call: &Call<'_>) -> Result<(), Problem> {
        let auth = &self.access.auth;
        if self.entrance == Entrance::Public
            || !auth.is_guess(&call.fields)
            || auth.buyer(&call.fields, call.between).is_ok()
        {
            return Ok(());
        }
        self.with_token(call).map(drop)
    }

    pub(in crate::http) fn operators_now(&self) -> OperatorsNow<'_> {
        let clock = &self.shared.clock;
        let (now, is_confirmed) = (clock.latest(), clock.is_confirmed());
        OperatorsNow { operators: &self.operators.operators, now, is_confirmed }
    }

    fn console(&self, call: &Call<'_>) -> Option<ConsoleSession> {
        let session =
            self.access.auth.console(&call.fields, (call.method, call.request.secure), self.operators_now());
        session.filter(|session| !self.shared.signed_out.holds(session))
    }

    /// Whoever has just shown a token. Wrong ones are counted.
    fn with_token(&self, call: &Call<'_>) -> Result<Actor, Problem> {
        let address = call.client(&self.shared.options.trusted_proxies);
        let shown = self.access.auth.operator(&call.fields, self.operators_now(), address);
        if call.fields.authorization.is_some() && shown.is_err() {
            self.shared.metrics.operator_tokens_wrong.inc();
        }
        shown
    }

    /// The call of an operator who has this role or one that may more, and a line in the log for each that may change
    /// something.
    fn operator(&self, call: &Call<'_>, role: Role) -> Result<(), Problem> {
        let actor = match self.console(call) {
            Some(session) => session.actor,
            None => self.with_token(call)?,
        };
        if actor.role < role {
            return Err(Problem::role_required(role));
        }
        let why = reason(call.fields.operator_reason)?;
        if call.method != Method::Get {
            let address = call.client(&self.shared.options.trusted_proxies);
            let (who, method, path) = (&*actor.name, call.request.method, call.request.path);
            tracing::info!(%address, who, method, path, "an operator's call");
        }
        call.by.get_or_init(|| By { who: actor.name, why });
        Ok(())
    }

    /// Whoever fails again and again to prove who they are is answered 429 instead. Who does prove it is not counted, and
    /// neither is what anybody may read: a crowd behind one address is no attack.
    fn bound_strangers(&self, call: &Call<'_>, problem: Problem) -> Problem {
        if !problem.is_of_a_stranger() {
            return problem;
        }
        match self.shared.anonymous.count(call.client(&self.shared.options.trusted_proxies)) {
            Ok(()) => problem,
            Err(retry_after_ms) => Problem::too_many_strangers(retry_after_ms),
        }
    }

    /// The buyer of a call that changes something: known, and not sent by another site's page.
    fn acting_buyer(&self, call: &Call<'_>) -> Result<Buyer, Problem> {
        self.access.auth.same_site(&call.fields, call.request.secure)?;
        self.access.auth.buyer(&call.fields, call.between)
    }

    /// Asks the profile behind the mailbox; `show` writes what it replies.
    fn ask(
        &mut self,
        call: &Call<'_>,
        request: Request,
        show: impl FnOnce(&mut HttpService, Reply, &mut Answering<'_, '_>) -> Result<(), Problem> + Send + 'static,
    ) -> Result<Answer, Problem> {
        let show: Show = Box::new(show);
        self.ask_and_wait(call, request, Waiting::Reply(show))
    }

    fn ask_and_wait(
        &mut self,
        call: &Call<'_>,
        request: Request,
        waiting: Waiting,
    ) -> Result<Answer, Problem> {
        if !self.client.reserve() {
            return Err(Problem::busy());
        }
        self.hand_over(call.ticket, request, Pending::new(call, waiting));
        Ok(Answer::Later)
    }

    /// For a request that has a place reserved in the mailbox.
    fn hand_over(&mut self, ticket: Ticket, request: Request, pending: Pending) {
        self.pending.put(ticket, pending);
        self.batch.push(Envelope { event_loop: self.client.event_loop(), ticket, request });
    }

    /// Asks the ledger itself, for this route.
    fn read_ledger(
        &mut self,
        call: &Call<'_>,
        route: &'static str,
        read: LedgerRead,
    ) -> Result<Answer, Problem> {
        if !self.shared.reads.ask(self.client.event_loop(), call.ticket, route, read) {
            return Err(Problem::busy());
        }
        self.pending.put(call.ticket, Pending::new(call, Waiting::Thread));
        Ok(Answer::Later)
    }

    fn write_problem(&mut self, problem: &Problem, format: ProblemFormat, out: &mut Answering<'_, '_>) {
        match format {
            ProblemFormat::Form(language) => self.trouble_page(problem, language, out),
            ProblemFormat::Console => self.operators_trouble_page(problem, out),
            _ => out.problem(problem, format, &self.sold_out, &mut self.scratch),
        }
    }
}

/// Why an operator does it, in percent-encoded UTF-8: a header has no other letters than English ones.
fn reason(header: Option<&str>) -> Result<Box<str>, Problem> {
    let Some(header) = header else { return Ok(Box::default()) };
    let why = decode_path(header)
        .filter(|why| why.chars().count() <= limits::REASON_CHARS_MAX && engine::is_plain(why));
    why.map(Box::from).ok_or_else(|| {
        Problem::invalid(format!(
            "The header Operator-Reason must be percent-encoded text of at most {} characters, without line ends \
             and what turns the direction of text.",
            limits::REASON_CHARS_MAX
        ))
    })
}

/// What may be asked here; for a page of an allowed origin also what it may send.
fn options(resource: &Resource, call: &Call<'_>, out: &mut Answering<'_, '_>) {
    let allow = resource.allow();
    let mut headers = vec![("Allow", allow)];
    if call.origin.is_some() {
        headers.push(("Access-Control-Allow-Methods", allow));
        headers.push(("Access-Control-Allow-Headers", "Authorization, Content-Type, Idempotency-Key"));
        headers.push(("Access-Control-Max-Age", "600"));
    }
    out.empty(204, &headers);
}

impl Service for HttpService {
    /// The large bound is the operator's alone: anybody else could have the server buffer that much for a 401.
    fn body_bytes_max(&self, _method: &str, path: &str, headers: &[httparse::Header<'_>]) -> usize {
        let options = &self.shared.options;
        let found = self.entrance.router().find(path);
        let large = found.is_some_and(|(resource, _)| resource.takes_large_bodies())
            && self.entrance != Entrance::Public
            && self
                .access
                .auth
                .by_token(&Fields::of(headers), self.operators_now())
                .is_some_and(|actor| actor.role >= Role::Operator);
        if large { options.operator_body_bytes_max } else { options.body_bytes_max }
    }

    fn call(
        &mut self,
        request: &HttpRequest<'_>,
        ticket: Ticket,
        response: &mut ResponseWriter<'_>,
    ) -> Answer {
        // An answer that another loop has given already may be of a newer catalog than this loop has, and its
        // reader may ask here next. One atomic load.
        self.shared.shelf.refresh(&mut self.catalog);
        self.shared.access.refresh(&mut self.access);
        self.shared.operators.refresh(&mut self.operators);
        let fields = Fields::of(request.headers);
        let method = Method::of(request.method);
        let origin = self.access.auth.foreign_origin(&fields);
        let mut out = Answering::new(response, origin.clone());
        let received = Instant::now();
        let now = self.shared.clock.at(received);
        let between = self.shared.clock.between(now);
        let found = self.entrance.router().find(request.path);
        let (params, problems) = match &found {
            Some((resource, params)) => {
                (*params, resource.problems().for_reader(&fields, || self.language(&fields)))
            }
            None => (Params::default(), ProblemFormat::of_unknown(request.path)),
        };
        let by = OnceCell::new();
        let call =
            Call { request, fields, method, params, ticket, received, now, between, origin, problems, by };
        let answered = match found {
            _ if !self.access.hosts.allow(call.fields.host) => Err(Problem::unknown_host()),
            Some((resource, _)) => {
                self.serve(resource, &call, &mut out).map_err(|problem| self.bound_strangers(&call, problem))
            }
            None => Err(Problem::not_found()),
        };
        match answered {
            Ok(Answer::Later) => return Answer::Later,
            Ok(Answer::Parts) => {
                self.tally.answered(out.status);
                return Answer::Parts;
            }
            Ok(Answer::Ready) => {}
            Err(problem)
                if problem.status == 404
                    && call.problems == ProblemFormat::Page
                    && call.fields.wants_html() =>
            {
                self.not_found_page(&problem, &call.fields, &mut out);
            }
            Err(problem) => match self.delay(&call, problem) {
                Some(problem) => self.write_problem(&problem, call.problems, &mut out),
                None => return Answer::Later,
            },
        }
        self.tally.answered(out.status);
        Answer::Ready
    }

    fn round_ended(&mut self) {
        self.client.submit(&mut self.batch);
    }

    fn deliver(&mut self, replies: &mut Replies<'_>) {
        self.deliver_to(replies);
    }

    fn protocol_error(&mut self, status: u16, detail: &str, response: &mut ResponseWriter<'_>) {
        let mut out = Answering::new(response, None);
        let problem = Problem::protocol(status, detail);
        out.problem(&problem, ProblemFormat::Problem, &self.sold_out, &mut self.scratch);
        self.tally.answered(out.status);
    }
}
