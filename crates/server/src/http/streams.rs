//! The figures as they come, as server-sent events: for the console, and for whoever else watches.
//!
//! A loop sends its readers the latest figures in the first round after they have changed, which is a quarter of a second
//! later at most. One who does not read goes without. Must not: make the figures, or wait for anybody.

use std::sync::Arc;
use std::time::{Duration, Instant};

use engine::{Operators, Role};

use super::HttpService;
use super::access::Access;
use super::call::Call;
use super::delivery::Delivery;
use super::wire::answer::{Answering, NO_STORE};
use super::wire::error::Problem;
use crate::net::{Answer, Ticket};

/// Readers of one loop.
const READERS_MAX: usize = 256;
/// Then a reader has to ask anew, and is judged anew: a session that is over is noticed, and one in use is renewed.
const LASTS: Duration = Duration::from_secs(60);
/// A proxy that keeps an answer until it is complete would keep this one.
const UNBUFFERED: (&str, &str) = ("X-Accel-Buffering", "no");

/// The readers of a loop.
#[derive(Debug, Default)]
pub(super) struct Streams {
    readers: Vec<Reader>,
    /// By whom and what they were judged; `None`: there were no readers.
    judged_by: Option<(Arc<Access>, Arc<Operators>)>,
    /// What they were sent last.
    sent: Option<Arc<[u8]>>,
}

#[derive(Debug)]
struct Reader {
    ticket: Ticket,
    until: Instant,
}

impl HttpService {
    pub(super) fn figures_events(
        &mut self,
        call: &Call<'_>,
        out: &mut Answering<'_, '_>,
    ) -> Result<Answer, Problem> {
        self.operator(call, Role::Viewer)?;
        if self.streams.readers.len() >= READERS_MAX {
            return Err(Problem::busy());
        }
        let cookie = self.renewed_console(call);
        let cookie = cookie.as_deref().map(|cookie| ("Set-Cookie", cookie));
        let headers: Vec<_> = [NO_STORE, UNBUFFERED].into_iter().chain(cookie).collect();
        let latest = self.shared.figures.latest();
        out.begin(&headers, "text/event-stream", &event(&latest));
        if self.streams.readers.is_empty() {
            self.streams.judged_by = Some(self.judges());
        }
        self.streams.readers.push(Reader { ticket: call.ticket, until: Instant::now() + LASTS });
        Ok(Answer::Parts)
    }

    fn judges(&self) -> (Arc<Access>, Arc<Operators>) {
        (Arc::clone(&self.access), Arc::clone(&self.operators.operators))
    }

    /// To be called once in each round.
    pub(super) fn send_figures(&mut self, delivery: &mut impl Delivery) {
        if self.streams.readers.is_empty() {
            return;
        }
        self.shared.access.refresh(&mut self.access);
        self.shared.operators.refresh(&mut self.operators);
        let (access, operators) = self.judges();
        let is_same = |(access_before, before): &(Arc<Access>, Arc<Operators>)| {
            Arc::ptr_eq(access_before, &access) && Arc::ptr_eq(before, &operators)
        };
        // All of them: whoever still may asks again at once.
        if !self.streams.judged_by.as_ref().is_some_and(is_same) {
            self.streams.readers.drain(..).for_each(|reader| delivery.end(reader.ticket));
            return;
        }
        let latest = self.shared.figures.latest();
        if self.streams.sent.as_ref().is_some_and(|sent| Arc::ptr_eq(sent, &latest)) {
            return;
        }
        let (event, now) = (event(&latest), Instant::now());
        self.streams.sent = Some(latest);
        self.streams.readers.retain(|reader| {
            let reads = delivery.part(reader.ticket, &event);
            if reads && now >= reader.until {
                delivery.end(reader.ticket);
            }
            reads && now < reader.until
        });
    }
}

/// The figures are one line.
fn event(figures: &[u8]) -> Vec<u8> {
    [b"data: ", figures, b"\n\n"].concat()
}
