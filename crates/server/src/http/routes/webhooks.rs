//! The shop's endpoints: how each stands, and what an operator asks of it.

use engine::Role;
use serde::Deserialize;

use crate::http::HttpService;
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
    Route::post("/api/v1/webhooks/{endpoint?}/disable", Handler::Anybody(HttpService::disable_webhook))
        .served(Served::Operators),
    Route::post("/api/v1/webhooks/{endpoint?}/enable", Handler::Anybody(HttpService::enable_webhook))
        .served(Served::Operators),
    Route::post("/api/v1/webhooks/{endpoint?}/replay", Handler::Anybody(HttpService::replay_webhook))
        .served(Served::Operators),
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

    fn disable_webhook(&mut self, call: &Call<'_>, out: &mut Answering<'_, '_>) -> Result<Answer, Problem> {
        self.ask_sender(call, out, |door| Ok(door.ask(EndpointChange::Disable).map(|()| None)?))
    }

    fn enable_webhook(&mut self, call: &Call<'_>, out: &mut Answering<'_, '_>) -> Result<Answer, Problem> {
        self.ask_sender(call, out, |door| Ok(door.ask(EndpointChange::Enable).map(|()| None)?))
    }

    fn replay_webhook(&mut self, call: &Call<'_>, out: &mut Answering<'_, '_>) -> Result<Answer, Problem> {
        self.ask_sender(call, out, |door| {
            let Replay { since } = read_object(call)?;
            Ok(door.ask(EndpointChange::Replay { since: since.0 }).map(|()| None)?)
        })
    }

    fn test_webhook(&mut self, call: &Call<'_>, out: &mut Answering<'_, '_>) -> Result<Answer, Problem> {
        self.ask_sender(call, out, |door| Ok(door.test().map(Some)?))
    }

    /// What is asked is done soon after this answer, in a cluster maybe by another server.
    fn ask_sender(
        &mut self,
        call: &Call<'_>,
        out: &mut Answering<'_, '_>,
        ask: impl FnOnce(&Control) -> Result<Option<u64>, Problem>,
    ) -> Result<Answer, Problem> {
        self.operator(call, Role::Operator)?;
        let door = self.shared.webhooks.iter().find(|door| door.name == call.params.name);
        let test = ask(door.ok_or_else(Problem::not_found)?)?;
        self.scratch.clear();
        Object::begin(&mut self.scratch).number_or_null("test", test).end();
        out.json(202, &self.scratch);
        Ok(Answer::Ready)
    }
}

impl From<Busy> for Problem {
    fn from(_: Busy) -> Problem {
        Problem::busy()
    }
}

fn write(out: &mut Vec<u8>, door: &Control) {
    let standing = door.standing();
    let mut object = Object::begin(out);
    object
        .text("name", &door.name)
        .text("url", &door.url)
        .flag("here", standing.here)
        .flag("disabled", standing.disabled)
        .number("sent_to", standing.sent_to)
        .number("waiting", standing.waiting as u64)
        .number_or_null("waiting_since_ms", standing.waiting_since.map(|at| at.0))
        .number("given_up", standing.dead as u64)
        .number_or_null("paused_until_ms", standing.paused_until.map(|at| at.0))
        .text("latest_error", &standing.error);
    let (number, error) = standing.test.map_or((None, None), |(number, error)| (Some(number), error));
    object.number_or_null("test", number).text("test_error", error.as_deref().unwrap_or_default()).end();
}
