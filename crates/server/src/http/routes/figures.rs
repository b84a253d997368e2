//! The figures of the night, for operators. Must not: compute anything; a reader copies bytes.

use crate::http::HttpService;
use crate::http::call::Call;
use crate::http::route::{Handler, Route, Served};
use crate::http::wire::answer::Answering;
use crate::http::wire::error::Problem;
use crate::net::Answer;

pub(in crate::http) const ROUTES: &[Route] = &[
    Route::get("/api/v1/figures", Handler::Anybody(HttpService::figures)).served(Served::Operators),
    Route::get("/api/v1/figures/events", Handler::Anybody(HttpService::figures_events))
        .served(Served::Operators),
];

impl HttpService {
    fn figures(&mut self, call: &Call<'_>, out: &mut Answering<'_, '_>) -> Result<Answer, Problem> {
        self.operator(call)?;
        out.json(200, &self.shared.figures.latest());
        Ok(Answer::Ready)
    }
}
