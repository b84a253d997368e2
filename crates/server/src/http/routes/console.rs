//! The console: its page, the runbook that it leads to, and the session that its page acts with.
//!
//! The page asks what every operator's tool asks; what it may, its session says, in place of the token.

use crate::http::HttpService;
use crate::http::auth::came_by_tls;
use crate::http::auth::console::{ConsoleSession, end_console};
use crate::http::call::Call;
use crate::http::lists::Wanted;
use crate::http::route::{Handler, Route, Served};
use crate::http::wire::Object;
use crate::http::wire::answer::{Answering, ProblemFormat};
use crate::http::wire::error::Problem;
use crate::net::Answer;

pub(in crate::http) const ROUTES: &[Route] = &[
    Route::get("/console", Handler::Anybody(HttpService::console_page))
        .served(Served::Operators)
        .problems(ProblemFormat::Page),
    Route::get("/console/runbook", Handler::Anybody(HttpService::runbook_page))
        .served(Served::Operators)
        .problems(ProblemFormat::Page),
    Route::get("/api/v1/console/session", Handler::Anybody(HttpService::console_session))
        .served(Served::Operators),
    Route::post("/api/v1/console/session", Handler::Anybody(HttpService::begin_console))
        .served(Served::Operators),
    Route::post("/api/v1/console/session/end", Handler::Anybody(HttpService::end_console))
        .served(Served::Operators),
];

impl HttpService {
    /// The same for everybody: what it shows, its script asks for.
    #[expect(clippy::unnecessary_wraps, reason = "a route like any other")]
    fn console_page(&mut self, call: &Call<'_>, out: &mut Answering<'_, '_>) -> Result<Answer, Problem> {
        self.shared.pages.console.answer(&Wanted::of(&call.fields), out);
        Ok(Answer::Ready)
    }

    /// The program's own documentation: nothing of the shop is in it.
    #[expect(clippy::unnecessary_wraps, reason = "a route like any other")]
    fn runbook_page(&mut self, call: &Call<'_>, out: &mut Answering<'_, '_>) -> Result<Answer, Problem> {
        self.shared.pages.runbook.answer(&Wanted::of(&call.fields), out);
        Ok(Answer::Ready)
    }

    /// Whether the browser has a session: its page asks before it asks for anything else.
    #[expect(clippy::unnecessary_wraps, reason = "a route like any other")]
    fn console_session(&mut self, call: &Call<'_>, out: &mut Answering<'_, '_>) -> Result<Answer, Problem> {
        let session = self.console(call);
        self.scratch.clear();
        let mut object = Object::begin(&mut self.scratch);
        object
            .flag("signed_in", session.is_some())
            .number_or_null("until_ms", session.as_ref().map(|session| session.until.0));
        match &session {
            Some(ConsoleSession { actor, .. }) => {
                object.text("operator", &actor.name).text("role", actor.role.as_str())
            }
            None => object.raw("operator", b"null").raw("role", b"null"),
        }
        .end();
        out.json(200, &self.scratch);
        Ok(Answer::Ready)
    }

    /// For whoever has an operator's token; a session alone does not lead to another one.
    fn begin_console(&mut self, call: &Call<'_>, out: &mut Answering<'_, '_>) -> Result<Answer, Problem> {
        let (auth, secure) = (&self.access.auth, call.request.secure);
        auth.same_site(&call.fields, secure)?;
        let actor = self.with_token(call)?;
        let secure = came_by_tls(&call.fields, secure);
        let cookie = auth.begin_console(secure, self.operators_now(), &actor, None);
        let cookie = cookie.ok_or_else(Problem::operator_off)?;
        out.empty(204, &[("Set-Cookie", &*cookie)]);
        Ok(Answer::Ready)
    }

    /// A later end for a session that is in use.
    pub(in crate::http) fn renewed_console(&self, call: &Call<'_>) -> Option<String> {
        let session =
            self.console(call).filter(|session| session.is_to_be_renewed(self.operators_now().now))?;
        let (known, begun) = (self.operators_now(), Some(session.begun));
        self.access.auth.begin_console(session.secure, known, &session.actor, begun)
    }

    fn end_console(&mut self, call: &Call<'_>, out: &mut Answering<'_, '_>) -> Result<Answer, Problem> {
        self.access.auth.same_site(&call.fields, call.request.secure)?;
        if let Some(session) = self.console(call) {
            self.shared.signed_out.note(&session, self.operators_now().now);
        }
        out.empty(204, &[("Set-Cookie", &*end_console(call.request.secure))]);
        Ok(Answer::Ready)
    }
}
