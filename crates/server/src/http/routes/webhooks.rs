//! The shop's endpoints: how each stands, and what an operator asks of it.

use std::sync::Arc;

use engine::{Action, Role};
use serde::Deserialize;

use crate::http::HttpService;
use crate::http::actions::Done;
use crate::http::call::Call;
use crate::http::route::{Handler, Route, Served};
use crate::http::wire::answer::Answering;
use crate::http::wire::body::read_object;
use crate::http::wire::error::Problem;
use crate::http::wire::{Number, Object};
use crate::ledger::EndpointChange;
use crate::net::Answer;
use crate::webhooks::{Busy, Control};

pub(in crate::http) const ROUTES: &[Route] = &[
    Route::get("/api/v1/webhooks", Handler::Anybody(HttpService::list_webhooks)).served(Served::Operators),
    Route::post(
        "/api/v1/webhooks/{endpoint?}/disable",
        Handler::Operator(Role::Operator, HttpService::disable_webhook),
    ),
    Route::post(
        "/api/v1/webhooks/{endpoint?}/enable",
        Handler::Operator(Role::Operator, HttpService::enable_webhook),
    ),
    Route::post(
        "/api/v1/webhooks/{endpoint?}/replay",
        Handler::Operator(Role::Operator, HttpService::replay_webhook),
    ),
    Route::post("/api/v1/webhooks/{endpoint?}/test", Handler::Anybody(HttpService::test_webhook))
        .served(Served::Operators),
];

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Replay {
    since: Number,
}

impl HttpService {
    fn list_webhooks(&mut self, call: &Call<'_>, out: &mut Answering<'_, '_>) -> Result<Answer, Problem> {
        self.operator(call, Role::Viewer)?;
        self.scratch.clear();
        Object::begin(&mut self.scratch)
            .list("endpoints", &self.shared.webhooks, |out, door| write(out, door))
            .end();
        out.json(200, &self.scratch);
        Ok(Answer::Ready)
    }

    fn disable_webhook(&mut self, call: &Call<'_>) -> Result<Answer, Problem> {
        let about = call.params.name.to_owned();
        self.ask_sender(call, EndpointChange::Disable, (Action::WebhookDisabled, about))
    }

    fn enable_webhook(&mut self, call: &Call<'_>) -> Result<Answer, Problem> {
        let about = call.params.name.to_owned();
        self.ask_sender(call, EndpointChange::Enable, (Action::WebhookEnabled, about))
    }

    fn replay_webhook(&mut self, call: &Call<'_>) -> Result<Answer, Problem> {
        self.door(call)?;
        let Replay { since: Number(since) } = read_object(call)?;
        let about = format!("{}, since entry {since}", call.params.name);
        self.ask_sender(call, EndpointChange::Replay { since }, (Action::WebhookReplayed, about))
    }

    /// It shows whether an endpoint answers, and changes nothing.
    fn test_webhook(&mut self, call: &Call<'_>, out: &mut Answering<'_, '_>) -> Result<Answer, Problem> {
        self.operator(call, Role::Operator)?;
        let test = self.door(call)?.test()?;
        self.show_asked(Some(test), out);
        Ok(Answer::Ready)
    }

    /// What is asked is done soon after the answer, in a cluster maybe by another server.
    fn ask_sender(
        &mut self,
        call: &Call<'_>,
        change: EndpointChange,
        (action, about): (Action, String),
    ) -> Result<Answer, Problem> {
        self.door(call)?.ask(change)?;
        let (request, show) = Done { action, about, by: call.operator() }.keep(|service, out| {
            service.show_asked(None, out);
            Ok(())
        });
        self.ask_and_wait(call, request, show)
    }

    fn door(&self, call: &Call<'_>) -> Result<&Control, Problem> {
        let mut doors = self.shared.webhooks.iter().map(Arc::as_ref);
        doors.find(|door| door.name == call.params.name).ok_or_else(Problem::not_found)
    }

    fn show_asked(&mut self, test: Option<u64>, out: &mut Answering<'_, '_>) {
        self.scratch.clear();
        Object::begin(&mut self.scratch).number_or_null("test", test).end();
        out.json(202, &self.scratch);
    }
}

impl From<Busy> for Problem {
    fn from(_: Busy) -> Problem {
        Problem::busy()
    }
}

fn write(out: &mut Vec<u8>, door: &Control) {
    let state = door.state();
    let mut object = Object::begin(out);
    object
        .text("name", &door.name)
        .text("url", &door.url)
        .flag("here", state.here)
        .flag("disabled", state.disabled)
        .number("sent_to", state.sent_to)
        .number("waiting", state.waiting as u64)
        .number_or_null("waiting_since_ms", state.waiting_since.map(|at| at.0))
        .number("given_up", state.dead as u64)
        .number_or_null("paused_until_ms", state.paused_until.map(|at| at.0))
        .text("latest_error", &state.error);
    let (number, error) = state.test.map_or((None, None), |(number, error)| (Some(number), error));
    object.number_or_null("test", number).text("test_error", error.as_deref().unwrap_or_default()).end();
}
