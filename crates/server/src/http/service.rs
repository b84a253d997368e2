//! What one event loop keeps, and how its routes hand work over to the writer and to the reads.

use std::sync::Arc;

use engine::{Refusal, UnixMs};
use prometheus_client::metrics::counter::Counter;

use crate::http::pages::shelf::LoopPages;
use crate::http::pending::{Pending, PendingTable, Waiting};
use crate::http::placing::order_id::Ids;
use crate::http::published::reply::Templates;
use crate::http::reads::Found;
use crate::http::shared::Shared;
use crate::http::wire::answer::SoldOut;
use crate::http::wire::error::Problem;
use crate::http::wire::fields::{Fields, Method};
use crate::intake::catalog::Catalog;
use crate::intake::{Client, Envelope, Reply, Request as Command};
use crate::metrics::Metrics;
use crate::net::{Answer, Request, Ticket};

/// One request on its way through a route.
#[derive(Debug)]
pub(super) struct Call<'a> {
    pub(super) request: &'a Request<'a>,
    pub(super) fields: Fields<'a>,
    pub(super) method: Method,
    pub(super) ticket: Ticket,
    pub(super) now: UnixMs,
    /// The origin of another site whose page may read the answer.
    pub(super) origin: Option<Arc<str>>,
}

impl Call<'_> {
    pub(super) fn now_s(&self) -> u64 {
        self.now.0 / 1000
    }
}

/// Counters that are looked up once, by their label, and then are one addition each.
#[derive(Debug)]
pub(super) struct Tally {
    by_class: [Counter; 4],
    by_refusal: Vec<(&'static str, Counter)>,
}

const CLASSES: [&str; 4] = ["2xx", "3xx", "4xx", "5xx"];

impl Tally {
    fn new(metrics: &Metrics) -> Tally {
        let class = |class| metrics.responses.get_or_create(&[("class", class)]).clone();
        Tally { by_class: CLASSES.map(class), by_refusal: Vec::new() }
    }

    pub(super) fn answered(&self, status: u16) {
        debug_assert!((200..600).contains(&status), "an answer was written");
        self.by_class[usize::from(status / 100).clamp(2, 5) - 2].inc();
    }

    pub(super) fn refused(&mut self, metrics: &Metrics, refusal: Refusal) {
        let code = refusal.code();
        // Few codes; the texts are one each, so the pointers are compared before the letters.
        if let Some((_, counter)) = self.by_refusal.iter().find(|(known, _)| *known == code) {
            counter.inc();
            return;
        }
        let counter = metrics.refusals.get_or_create(&[("code", code)]).clone();
        counter.inc();
        self.by_refusal.push((code, counter));
    }
}

/// The routes, as one event loop serves them.
#[derive(Debug)]
pub struct HttpService {
    pub(super) shared: Arc<Shared>,
    pub(super) client: Client,
    pub(super) catalog: Arc<Catalog>,
    pub(super) batch: Vec<Envelope>,
    pub(super) pending: PendingTable,
    pub(super) replies: Vec<(Ticket, Reply)>,
    pub(super) found: Vec<(Ticket, Found)>,
    /// Where an answer's body is assembled.
    pub(super) scratch: Vec<u8>,
    pub(super) ids: Ids,
    pub(super) tally: Tally,
    pub(super) templates: Templates,
    pub(super) pages: LoopPages,
    pub(super) sold_out: SoldOut,
}

impl HttpService {
    /// One per event loop; `client` is that loop's.
    pub fn new(shared: Arc<Shared>, client: Client) -> HttpService {
        HttpService {
            catalog: shared.shelf.current(),
            batch: Vec::new(),
            pending: PendingTable::default(),
            replies: Vec::new(),
            found: Vec::new(),
            scratch: Vec::with_capacity(4096),
            ids: Ids::new(shared.order_id_secret),
            tally: Tally::new(&shared.metrics),
            templates: Templates::default(),
            pages: LoopPages::default(),
            sold_out: SoldOut::new(),
            client,
            shared,
        }
    }

    /// Hands a command to the writer; the answer is written as `waiting` says.
    pub(super) fn ask(
        &mut self,
        call: &Call<'_>,
        command: Command,
        waiting: Waiting,
    ) -> Result<Answer, Problem> {
        if !self.client.reserve() {
            return Err(Problem::busy());
        }
        self.hand_over(call.ticket, command, Pending { waiting, origin: call.origin.clone() });
        Ok(Answer::Later)
    }

    /// For a command that has a place reserved.
    pub(super) fn hand_over(&mut self, ticket: Ticket, request: Command, pending: Pending) {
        self.pending.put(ticket, pending);
        self.batch.push(Envelope { event_loop: self.client.event_loop(), ticket, request });
    }

    /// Asks the ledger's file.
    pub(super) fn read_ledger(
        &mut self,
        call: &Call<'_>,
        question: crate::http::reads::Question,
        waiting: Waiting,
    ) -> Result<Answer, Problem> {
        if !self.shared.reads.ask(self.client.event_loop(), call.ticket, question) {
            return Err(Problem::busy());
        }
        self.pending.put(call.ticket, Pending { waiting, origin: call.origin.clone() });
        Ok(Answer::Later)
    }
}

/// What a reply means that is not the one hoped for.
pub(super) fn other(reply: Reply) -> Problem {
    match reply {
        Reply::Refused(refusal) => refusal.into(),
        Reply::Rejected(rejection) => rejection.into(),
        Reply::Unknown => Problem::outcome_unknown(),
        Reply::StillPending | Reply::Pending { .. } => Problem::still_pending(),
        Reply::Lost(_) => Problem::lost(),
        Reply::Unavailable => {
            Problem::unavailable("What orders are kept in takes none at the moment; nothing was started.")
        }
        reply => {
            debug_assert!(false, "the writer answered another question: {reply:?}");
            Problem::outcome_unknown()
        }
    }
}
