//! Rehearsals at an operator's word. Must not: play one, or decide whether it may be played now.

use std::sync::Arc;

use engine::{Accepted, Action, Command, Refusal, Role, SaleId};
use serde::Deserialize;

use crate::http::HttpService;
use crate::http::actions::Done;
use crate::http::call::Call;
use crate::http::pending::{Next, Show, Waiting};
use crate::http::placing::key_of;
use crate::http::route::{Handler, Route, Served};
use crate::http::wire::answer::Answering;
use crate::http::wire::body::read_object;
use crate::http::wire::error::Problem;
use crate::http::wire::{Number, not_null, number_in};
use crate::intake::{Reply, Request};
use crate::net::Answer;
use crate::rehearsals::{Crowd, NotBegun, StopOutcome};

pub(in crate::http) const ROUTES: &[Route] = &[
    Route::post("/api/v1/sales/{sale}/rehearse", Handler::Anybody(HttpService::begin_rehearsal))
        .served(Served::Operators),
    Route::get("/api/v1/rehearsal", Handler::Anybody(HttpService::show_rehearsal)).served(Served::Operators),
    Route::post("/api/v1/rehearsal/stop", Handler::Anybody(HttpService::stop_rehearsal))
        .served(Served::Operators),
];

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Asked {
    #[serde(default = "buyers")]
    buyers: Number,
    #[serde(default = "over_s")]
    over_s: Number,
}

/// Of whoever stops one.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Meant {
    /// When the one that is meant began; `None`: the latest one is.
    #[serde(default, deserialize_with = "not_null")]
    began_at_ms: Option<Number>,
}

fn buyers() -> Number {
    Number(20_000)
}

fn over_s() -> Number {
    Number(10)
}

impl Asked {
    fn crowd(&self) -> Result<Crowd, Problem> {
        let Asked { buyers: Number(buyers), over_s: Number(over_s) } = *self;
        if !(1..=Crowd::BUYERS_MAX).contains(&buyers) {
            let most = Crowd::BUYERS_MAX;
            return Err(Problem::invalid(format!(
                "buyers must be from 1 to {most}; `doorbuster rehearse` plays more."
            )));
        }
        if !Crowd::OVER_S.contains(&over_s) {
            let (least, most) = (Crowd::OVER_S.start(), Crowd::OVER_S.end());
            return Err(Problem::invalid(format!("over_s must be from {least} to {most}.")));
        }
        Ok(Crowd { buyers, over_s })
    }
}

impl HttpService {
    fn begin_rehearsal(&mut self, call: &Call<'_>, out: &mut Answering<'_, '_>) -> Result<Answer, Problem> {
        self.operator(call, Role::Operator)?;
        let (id, by, key) = (call.params.sale, call.operator(), key_of(call)?);
        let crowd = read_object::<Asked>(call)?.crowd()?;
        if !self.shared.rehearsals.was_begun(key, id, crowd)? {
            let sale = self.catalog.sale(id).ok_or(Refusal::UnknownSale)?;
            if sale.starts_in_ms(call.now).is_none() {
                return Err(has_started());
            }
            self.shared.rehearsals.begin(&sale.spec, crowd, (&by, key))?;
        }
        let Crowd { buyers, over_s } = crowd;
        let about = format!("sale {}, {buyers} buyers within {over_s} s", id.0);
        self.keep_once(call, Done { action: Action::RehearsalBegan, about, by }, out)
    }

    /// The latest one of this server; and whether a sale could be rehearsed, for whoever is about to.
    fn show_rehearsal(&mut self, call: &Call<'_>, out: &mut Answering<'_, '_>) -> Result<Answer, Problem> {
        self.operator(call, Role::Viewer)?;
        let mut shown = self.shared.rehearsals.shown();
        if let Some(sale) = number_in(call.request.query, "sale").transpose()? {
            let sale = self.catalog.sale(SaleId(sale)).ok_or(Refusal::UnknownSale)?;
            let can_be = match sale.starts_in_ms(call.now) {
                Some(_) => self.shared.rehearsals.check(&sale.spec).map_err(Problem::from),
                None => Err(has_started()),
            };
            shown["why_not"] = can_be.err().map(|problem| problem.detail.into_owned()).into();
        }
        out.json(200, shown.to_string().as_bytes());
        Ok(Answer::Ready)
    }

    /// It ends soon after the answer; what it says then names who stopped it.
    fn stop_rehearsal(&mut self, call: &Call<'_>, out: &mut Answering<'_, '_>) -> Result<Answer, Problem> {
        self.operator(call, Role::Operator)?;
        let Meant { began_at_ms } =
            if call.request.body.is_empty() { Meant::default() } else { read_object(call)? };
        let by = call.operator();
        let began_at_ms = began_at_ms.map(|Number(ms)| ms);
        match self.shared.rehearsals.stop(began_at_ms, format!("by {}", by.who)) {
            StopOutcome::Asked { about } => {
                self.keep_once(call, Done { action: Action::RehearsalStopped, about, by }, out)
            }
            StopOutcome::Before => Ok(self.answer_begun(out)),
            StopOutcome::Another => Err(Problem::another_rehearsal()),
            StopOutcome::NonePlayed => Err(Problem::no_rehearsal()),
        }
    }

    /// A call that is repeated changes nothing, so it leaves nothing, also if nobody heard its answer. What the ledger says is heard
    /// here also if whoever called is gone: of what it has not taken the entry would be missing otherwise, whoever repeats the call.
    fn keep_once(
        &mut self,
        call: &Call<'_>,
        done: Done,
        out: &mut Answering<'_, '_>,
    ) -> Result<Answer, Problem> {
        let Done { action, about, by } = done;
        let Some(number) = self.shared.rehearsals.claim(action) else { return Ok(self.answer_begun(out)) };
        let request = Request::Operate(Command::KeepAction(action, about.into()), by);
        let shared = Arc::clone(&self.shared);
        let heard = Waiting::Step(Box::new(move |reply| match reply {
            reply @ Reply::Accepted(Accepted::ActionKept) => {
                let show: Show = Box::new(|service, _reply, out| {
                    service.answer_begun(out);
                    Ok(())
                });
                Ok(Next::Show(reply, show))
            }
            reply => {
                shared.rehearsals.give_back(number, action);
                Err(reply.into())
            }
        }));
        let asked = self.ask_and_wait(call, request, heard);
        asked.inspect_err(|_| self.shared.rehearsals.give_back(number, action))
    }

    fn answer_begun(&self, out: &mut Answering<'_, '_>) -> Answer {
        out.json(202, self.shared.rehearsals.shown().to_string().as_bytes());
        Answer::Ready
    }
}

fn has_started() -> Problem {
    let detail = "Only a sale that has not started is rehearsed: `doorbuster rehearse` plays its file.";
    Problem::from(Refusal::SaleStarted).in_words(detail)
}

impl From<NotBegun> for Problem {
    fn from(why: NotBegun) -> Problem {
        let detail = match &why {
            NotBegun::Playing(_) | NotBegun::Elsewhere(_) => {
                format!("Not now: {why}. One is played at a time.")
            }
            NotBegun::Needed(_) => {
                format!(
                    "Not now: {why}. No sale may be live or begin within 15 min, and no order wait for its payment."
                )
            }
            NotBegun::Off | NotBegun::NotStarted(_) => {
                format!("Not here: {why}. `doorbuster rehearse` does it in a terminal.")
            }
            NotBegun::Line(_) | NotBegun::OtherKey => format!("Not so: {why}."),
        };
        match why {
            NotBegun::Playing(_) | NotBegun::Elsewhere(_) => Problem::rehearsal_playing(detail),
            NotBegun::Needed(_) => Problem::machine_needed(detail),
            NotBegun::Off => Problem::rehearsals_off(detail),
            NotBegun::Line(_) => Problem::line_not_rehearsed(detail),
            NotBegun::OtherKey => Refusal::KeyConflict.into(),
            NotBegun::NotStarted(_) => Problem::unavailable(detail),
        }
    }
}
