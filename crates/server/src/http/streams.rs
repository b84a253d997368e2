//! The figures as they come, as server-sent events: for the console, and for whoever else watches.
//!
//! A loop sends its readers the latest figures as soon as they have changed, for which it is woken. One who does not read goes
//! without. Must not: make the figures, or wait for anybody.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use engine::{Operators, Role, UnixMs};

use super::HttpService;
use super::access::Access;
use super::call::Call;
use super::delivery::Delivery;
use super::wire::answer::{Answering, NO_STORE};
use super::wire::error::Problem;
use crate::figures::Latest;
use crate::net::{Answer, Ticket};
use crate::time::Instant;

/// Readers of one loop. With more, the oldest of whoever has most goes: nobody keeps the others out.
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
    judged_by: Option<Judges>,
    /// What they were sent last.
    sent: Option<Latest>,
    /// Who gave way to another one, until the end of the round.
    displaced: Vec<Ticket>,
}

/// The same as long as nobody was made or revoked, and no secret was read anew.
#[derive(Clone, Debug)]
pub(super) struct Judges(Arc<Access>, Arc<Operators>);

impl PartialEq for Judges {
    fn eq(&self, other: &Judges) -> bool {
        Arc::ptr_eq(&self.0, &other.0) && Arc::ptr_eq(&self.1, &other.1)
    }
}

#[derive(Debug)]
struct Reader {
    ticket: Ticket,
    /// The operator's name.
    who: Box<str>,
    until: Instant,
}

impl Streams {
    /// Makes room for one more of this operator's; false: the operator has most of them already.
    fn make_room(&mut self, who: &str) -> bool {
        if self.readers.len() < READERS_MAX {
            return true;
        }
        let mut counts: HashMap<&str, usize> = HashMap::new();
        for reader in &self.readers {
            *counts.entry(&reader.who).or_default() += 1;
        }
        let own = counts.get(who).copied().unwrap_or(0);
        let most = counts.into_iter().max_by_key(|(_, count)| *count);
        // They are in the order in which they came.
        let oldest = most
            .filter(|(_, count)| *count > own + 1)
            .and_then(|(most, _)| self.readers.iter().position(|reader| &*reader.who == most));
        let Some(oldest) = oldest else { return false };
        self.displaced.push(self.readers.remove(oldest).ticket);
        true
    }
}

impl HttpService {
    pub(super) fn figures_events(
        &mut self,
        call: &Call<'_>,
        out: &mut Answering<'_, '_>,
    ) -> Result<Answer, Problem> {
        self.operator(call, Role::Viewer)?;
        let who = call.operator().who;
        if !self.streams.make_room(&who) {
            return Err(Problem::busy());
        }
        let cookie = self.renewed_console(call);
        let cookie = cookie.as_deref().map(|cookie| ("Set-Cookie", cookie));
        let headers: Vec<_> = [NO_STORE, UNBUFFERED].into_iter().chain(cookie).collect();
        let now = Instant::now();
        out.begin(&headers, "text/event-stream", &event(&self.shared.figures.latest(), now));
        if self.streams.readers.is_empty() {
            self.streams.judged_by = Some(self.judges());
        }
        let expires_at = self.operators.operators.get(&who).and_then(|operator| operator.expires_at);
        let until = now + lasts(expires_at, self.shared.clock.latest());
        self.streams.readers.push(Reader { ticket: call.ticket, who, until });
        Ok(Answer::Parts)
    }

    /// By whom and what operators who ask are judged.
    pub(super) fn judges(&self) -> Judges {
        Judges(Arc::clone(&self.access), Arc::clone(&self.operators.operators))
    }

    /// From now on.
    pub(super) fn judges_of_now(&mut self) -> Judges {
        self.shared.access.refresh(&mut self.access);
        self.shared.operators.refresh(&mut self.operators);
        self.judges()
    }

    /// To be called once in each round.
    pub(super) fn send_figures(&mut self, delivery: &mut impl Delivery) {
        self.streams.displaced.drain(..).for_each(|ticket| delivery.end(ticket));
        if self.streams.readers.is_empty() {
            return;
        }
        let judges = self.judges_of_now();
        // All of them: whoever still may asks again at once.
        if self.streams.judged_by.as_ref() != Some(&judges) {
            self.streams.readers.drain(..).for_each(|reader| delivery.end(reader.ticket));
            return;
        }
        let latest = self.shared.figures.latest();
        if self.streams.sent.as_ref().is_some_and(|sent| sent.is(&latest)) {
            return;
        }
        let now = Instant::now();
        let event = event(&latest, now);
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

/// No longer than the operator's token: one that expires is revoked by nobody.
fn lasts(expires_at: Option<UnixMs>, now: UnixMs) -> Duration {
    let left = expires_at.map(|at| Duration::from_millis(at.0.saturating_sub(now.0)));
    left.map_or(LASTS, |left| left.min(LASTS))
}

/// The figures are one line.
fn event(figures: &Latest, now: Instant) -> Vec<u8> {
    [b"data: ", &*figures.to_json(now), b"\n\n"].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_does_not_outlive_its_token() {
        let now = UnixMs(1_000_000);
        for (expires_at, lasts_ms) in [
            (None, 60_000),
            (Some(now.plus(60_001)), 60_000),
            (Some(now.plus(1_500)), 1_500),
            (Some(now), 0),
            (Some(UnixMs(1)), 0),
        ] {
            assert_eq!(lasts(expires_at, now), Duration::from_millis(lasts_ms), "{expires_at:?}");
        }
    }
}
