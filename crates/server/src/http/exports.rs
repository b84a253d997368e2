//! The history as CSV, which may be longer than an answer that is kept in memory: read page by page, on the thread that may
//! block, each when the one before is sent.
//!
//! Must not: read a page ahead, or keep one for whoever is gone.

use std::sync::Arc;

use engine::Role;

use super::HttpService;
use super::call::Call;
use super::delivery::Delivery;
use super::reads::{Lane, LedgerRead, ShowRead};
use super::streams::Judges;
use super::wire::answer::{Answering, NO_STORE};
use super::wire::error::Problem;
use crate::figures::{Export, ExportPage, Figures};
use crate::net::{Answer, Ticket};

/// Exports of one loop at a time, each with a page in memory.
const EXPORTS_MAX: usize = 4;
const LAST_CHUNK: &[u8] = b"0\r\n\r\n";

/// Those of a loop that were begun and not sent yet.
#[derive(Debug, Default)]
pub(super) struct Exports(Vec<Sending>);

#[derive(Debug)]
struct Sending {
    ticket: Ticket,
    /// The route, for the log.
    route: &'static str,
    chunked: bool,
    judged_by: Judges,
    step: Step,
}

#[derive(Debug)]
enum Step {
    /// To be asked for once there is room.
    Ask(Export),
    Reading,
    Send(ExportPage),
    /// What was sent is not all, and nothing comes any more.
    Cut,
}

impl Exports {
    /// Takes a page that was read.
    pub(super) fn read(&mut self, ticket: Ticket, page: Option<ExportPage>) {
        if let Some(sending) = self.0.iter_mut().find(|sending| sending.ticket == ticket) {
            sending.step = page.map_or(Step::Cut, Step::Send);
        }
    }
}

impl HttpService {
    /// Begins the answer; its pages follow.
    pub(super) fn begin_export(
        &mut self,
        call: &Call<'_>,
        (route, content_type): (&'static str, &str),
        export: Export,
        out: &mut Answering<'_, '_>,
    ) -> Result<Answer, Problem> {
        self.operator(call, Role::Viewer)?;
        self.shared.figures.history.check().map_err(|none| Problem::unavailable(format!("{none}.")))?;
        if self.exports.0.len() >= EXPORTS_MAX {
            return Err(Problem::busy());
        }
        let chunked = out.begin_chunked(&[NO_STORE], content_type);
        let (judged_by, step) = (self.judges(), Step::Ask(export));
        self.exports.0.push(Sending { ticket: call.ticket, route, chunked, judged_by, step });
        Ok(Answer::Parts)
    }

    /// To be called once in each round.
    pub(super) fn send_exports(&mut self, delivery: &mut impl Delivery) {
        if self.exports.0.is_empty() {
            return;
        }
        let (judges, mut exports) = (self.judges_of_now(), std::mem::take(&mut self.exports.0));
        // Whoever still may begins anew.
        for sending in exports.iter_mut().filter(|sending| sending.judged_by != judges) {
            sending.step = Step::Cut;
        }
        exports.retain_mut(|sending| self.send_page(sending, delivery));
        self.exports.0 = exports;
    }

    /// Returns whether there is more.
    fn send_page(&self, sending: &mut Sending, delivery: &mut impl Delivery) -> bool {
        let Some(taken) = delivery.has_taken_parts(sending.ticket) else { return false };
        if !taken {
            return true;
        }
        sending.step = match std::mem::replace(&mut sending.step, Step::Reading) {
            Step::Reading => return true,
            Step::Cut => {
                delivery.end(sending.ticket);
                return false;
            }
            Step::Ask(export) => Step::Ask(export),
            Step::Send(ExportPage { csv, next }) => {
                let mut part = sending.framed(csv);
                if next.is_none() && sending.chunked {
                    part.extend_from_slice(LAST_CHUNK);
                }
                delivery.part(sending.ticket, &part);
                let Some(next) = next else {
                    delivery.end(sending.ticket);
                    return false;
                };
                Step::Ask(next)
            }
        };
        if let Step::Ask(export) = sending.step {
            let read = read(Arc::clone(&self.shared.figures), export);
            if self.shared.reads.ask(self.client.event_loop(), sending.ticket, sending.route, read) {
                sending.step = Step::Reading;
            }
        }
        true
    }
}

impl Sending {
    /// An empty chunk would be the last one.
    fn framed(&self, part: Vec<u8>) -> Vec<u8> {
        if !self.chunked || part.is_empty() {
            return part;
        }
        [format!("{:x}\r\n", part.len()).as_bytes(), &part, b"\r\n"].concat()
    }
}

/// On the thread that may block, past the ledger.
fn read(figures: Arc<Figures>, export: Export) -> LedgerRead {
    LedgerRead::new(move |_ledger| Ok(ShowRead::page(figures.history.page(&export).ok()))).on(Lane::Histories)
}
