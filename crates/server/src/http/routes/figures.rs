//! The figures of the night, for operators: the last second, and the past. Must not: compute anything, or read the past on an
//! event loop.

use std::sync::Arc;

use engine::{Refusal, Role, SaleId};

use crate::figures::{Export, POINTS_MAX};
use crate::http::HttpService;
use crate::http::call::Call;
use crate::http::histories::Wish;
use crate::http::reads::{Lane, LedgerRead, ShowRead};
use crate::http::route::{Handler, Route, Served};
use crate::http::wire::answer::Answering;
use crate::http::wire::error::Problem;
use crate::http::wire::number_in;
use crate::net::Answer;
use crate::time::Instant;

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
        let sale = number_in(call.request.query, "sale").transpose()?;
        if let Some(sale) = sale.filter(|sale| self.catalog.sale(SaleId(*sale)).is_some()) {
            self.shared.figures.wanted.ask(sale, Instant::now());
        }
        out.json(200, &self.shared.figures.latest().to_json(Instant::now()));
        Ok(Answer::Ready)
    }

    fn figures_history_csv(
        &mut self,
        call: &Call<'_>,
        out: &mut Answering<'_, '_>,
    ) -> Result<Answer, Problem> {
        self.operator(call, Role::Viewer)?;
        let (time, item) = self.span(call)?;
        self.begin_export(call, (HISTORY_CSV, CSV), Export::new(time, item), out)
    }

    /// What was read a moment ago, or as soon as a thread that may block has read it.
    fn figures_history(&mut self, call: &Call<'_>, out: &mut Answering<'_, '_>) -> Result<Answer, Problem> {
        self.operator(call, Role::Viewer)?;
        let wish = self.wish(call)?;
        if let Some(answer) = self.shared.histories.fresh(wish, call.now) {
            out.prepared(200, &answer);
            return Ok(Answer::Ready);
        }
        let (figures, histories) = (Arc::clone(&self.shared.figures), Arc::clone(&self.shared.histories));
        let clock = Arc::clone(&self.shared.clock);
        let read = LedgerRead::new(move |_ledger| {
            let answer = histories.read(&figures.history, wish, clock.now());
            Ok(ShowRead::new(move |_, out| {
                let answer = answer.map_err(|none| Problem::unavailable(format!("{none}.")))?;
                out.prepared(200, &answer);
                Ok(())
            }))
        });
        self.read_ledger(call, HISTORY, read.on(Lane::Histories))
    }

    fn wish(&self, call: &Call<'_>) -> Result<Wish, Problem> {
        let points = number_in(call.request.query, "points").transpose()?.unwrap_or(POINTS_DEFAULT);
        if !(1..=POINTS_MAX).contains(&points) {
            return Err(Problem::invalid(format!("points must be from 1 to {POINTS_MAX}.")));
        }
        let (time_ms, item) = self.span(call)?;
        Ok(Wish { time_ms, points, item })
    }

    fn span(&self, call: &Call<'_>) -> Result<Span, Problem> {
        let number = |name| number_in(call.request.query, name).transpose();
        let to_ms = number("to_ms")?.unwrap_or(call.now.0 + 1);
        let from_ms = number("from_ms")?.unwrap_or(to_ms.saturating_sub(HOUR_MS));
        let item = match (number("sale")?, number("product")?) {
            (None, None) => None,
            (Some(sale), Some(product)) => Some((sale, product)),
            _ => return Err(Problem::half_an_item()),
        };
        // What is kept of one that was deleted can still be read.
        let is_unknown = |id| self.catalog.sale(id).is_none() && !self.catalog.is_deleted(id);
        if item.is_some_and(|(sale, _)| is_unknown(SaleId(sale))) {
            return Err(Refusal::UnknownSale.into());
        }
        Ok(((from_ms, to_ms), item))
    }
}

/// A time, and an item of a sale.
type Span = ((u64, u64), Option<(u64, u64)>);
