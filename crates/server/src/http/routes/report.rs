//! What a sale came to, for operators: as JSON, and as a page beside the console.
//!
//! Must not: find anything out on an event loop, or say anything that `reported` does not.

use std::sync::Arc;

use engine::{Refusal, Role};

use crate::figures::Sold;
use crate::http::HttpService;
use crate::http::call::Call;
use crate::http::pages::forms::private_page;
use crate::http::reads::{Lane, LedgerRead, ShowRead};
use crate::http::route::{Handler, Route};
use crate::http::wire::answer::{Answering, ProblemFormat};
use crate::http::wire::error::Problem;
use crate::net::Answer;
use crate::reported::Reported;
use crate::signing::SigningKey;

const REPORT: &str = "/api/v1/sales/{sale}/report";
const PAGE: &str = "/console/sales/{sale}/report";

pub(in crate::http) const ROUTES: &[Route] = &[
    Route::get(REPORT, Handler::Operator(Role::Support, HttpService::report)),
    Route::get(PAGE, Handler::Operator(Role::Support, HttpService::report_page))
        .problems(ProblemFormat::Console),
];

impl HttpService {
    /// As `doorbuster sale report --json` has it.
    fn report(&mut self, call: &Call<'_>) -> Result<Answer, Problem> {
        let json = |reported: &Reported| serde_json::to_vec(reported).expect("all of it is plain");
        self.read_report(call, REPORT, json, |body, out| out.json(200, body))
    }

    fn report_page(&mut self, call: &Call<'_>) -> Result<Answer, Problem> {
        let shelf = Arc::clone(&self.shared.pages);
        let public_key = self.shared.signing_key.as_ref().map(SigningKey::public);
        let page = move |reported: &Reported| shelf.pages.report(&reported.view(public_key));
        self.read_report(call, PAGE, page, |body, out| private_page(200, [], body, out))
    }

    /// Reads and audits the whole ledger; `make` makes the answer's body on the thread that has read it.
    fn read_report(
        &mut self,
        call: &Call<'_>,
        route: &'static str,
        make: impl FnOnce(&Reported) -> Vec<u8> + Send + 'static,
        write: fn(&[u8], &mut Answering<'_, '_>),
    ) -> Result<Answer, Problem> {
        let sale = call.params.sale;
        let (figures, clock) = (Arc::clone(&self.shared.figures), Arc::clone(&self.shared.clock));
        let read = LedgerRead::new(move |ledger| {
            let (audit, report) = ledger.report(sale, None)?;
            let kept = |sold: &Sold| figures.history.kept(sold).map_err(|error| error.to_string());
            let body = report.map(|report| make(&Reported::new((audit, report), clock.now().0, kept)));
            Ok(ShowRead::new(move |_, out| {
                write(&body.ok_or(Refusal::UnknownSale)?, out);
                Ok(())
            }))
        });
        self.read_ledger(call, route, read.on(Lane::Audits))
    }
}
