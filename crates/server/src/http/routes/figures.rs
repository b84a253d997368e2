//! The figures of the night, for operators: the last second, and the past. Must not: compute anything, or read the past on an
//! event loop.

use std::sync::Arc;

use engine::Role;

use crate::figures::{Asked, POINTS_MAX, Points};
use crate::http::HttpService;
use crate::http::call::Call;
use crate::http::reads::{LedgerRead, ShowRead};
use crate::http::route::{Handler, Route, Served};
use crate::http::wire::answer::{Answering, JSON};
use crate::http::wire::error::Problem;
use crate::http::wire::number_in;
use crate::net::Answer;

const HISTORY: &str = "/api/v1/figures/history";
const HISTORY_CSV: &str = "/api/v1/figures/history.csv";

pub(in crate::http) const ROUTES: &[Route] = &[
    Route::get("/api/v1/figures", Handler::Anybody(HttpService::figures)).served(Served::Operators),
    Route::get("/api/v1/figures/events", Handler::Anybody(HttpService::figures_events))
        .served(Served::Operators),
    Route::get(HISTORY, Handler::Anybody(HttpService::figures_history)).served(Served::Operators),
    Route::get(HISTORY_CSV, Handler::Anybody(HttpService::figures_history_csv)).served(Served::Operators),
];

const CSV: &str = "text/csv; charset=utf-8";
const HOUR_MS: u64 = 3600 * 1000;
const POINTS_DEFAULT: u64 = 600;

impl HttpService {
    fn figures(&mut self, call: &Call<'_>, out: &mut Answering<'_, '_>) -> Result<Answer, Problem> {
        self.operator(call, Role::Viewer)?;
        out.json(200, &self.shared.figures.latest());
        Ok(Answer::Ready)
    }

    fn figures_history(&mut self, call: &Call<'_>, _out: &mut Answering<'_, '_>) -> Result<Answer, Problem> {
        self.read_history(call, HISTORY, (JSON, Points::to_json))
    }

    fn figures_history_csv(
        &mut self,
        call: &Call<'_>,
        _out: &mut Answering<'_, '_>,
    ) -> Result<Answer, Problem> {
        self.read_history(call, HISTORY_CSV, (CSV, Points::to_csv))
    }

    /// On the thread that may block, past the ledger.
    fn read_history(
        &mut self,
        call: &Call<'_>,
        route: &'static str,
        (content_type, write): (&'static str, fn(&Points) -> Vec<u8>),
    ) -> Result<Answer, Problem> {
        self.operator(call, Role::Viewer)?;
        let asked = asked(call)?;
        let figures = Arc::clone(&self.shared.figures);
        let read = LedgerRead::new(move |_ledger| {
            let body = figures.history.read(&asked).map(|points| write(&points));
            Ok(ShowRead::new(move |_, out| {
                let body = body.map_err(|none| Problem::unavailable(format!("{none}.")))?;
                out.body(200, content_type, &body);
                Ok(())
            }))
        });
        self.read_ledger(call, route, read)
    }
}

fn asked(call: &Call<'_>) -> Result<Asked, Problem> {
    let number = |name| number_in(call.request.query, name).transpose();
    let to_ms = number("to_ms")?.unwrap_or(call.now.0 + 1);
    let from_ms = number("from_ms")?.unwrap_or(to_ms.saturating_sub(HOUR_MS));
    let points = number("points")?.unwrap_or(POINTS_DEFAULT);
    if !(1..=POINTS_MAX).contains(&points) {
        return Err(Problem::invalid(format!("points must be from 1 to {POINTS_MAX}.")));
    }
    let item = match (number("sale")?, number("product")?) {
        (None, None) => None,
        (Some(sale), Some(product)) => Some((sale, product)),
        _ => return Err(Problem::half_an_item()),
    };
    Ok(Asked::new((from_ms, to_ms), points, item))
}
