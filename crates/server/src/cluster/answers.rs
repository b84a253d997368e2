//! Answers of one batch on their way back to the event loops: collected, then handed over with one wake-up each.

use crate::intake::admission::NotAdmitted;
use crate::intake::{Mailbox, Reply};
use crate::net::Ticket;

/// Who asked.
#[derive(Clone, Copy, Debug)]
pub(super) struct ReplyTo {
    pub(super) event_loop: usize,
    pub(super) ticket: Ticket,
}

/// Why a request is not carried out, where the answer itself would be too large an error.
#[derive(Clone, Copy, Debug)]
pub(super) enum NotServed {
    /// By admission, or because too much waits.
    NotAdmitted(NotAdmitted),
    /// This server's clock is out; nothing was started.
    ClockUnconfirmed,
    /// An engine is missing; nothing was started.
    Unavailable,
    /// Whether it happened is not known.
    Unknown,
    /// Its order is on the way to the ledger.
    StillPending,
}

impl From<NotServed> for Reply {
    fn from(why: NotServed) -> Reply {
        match why {
            NotServed::NotAdmitted(why) => Reply::NotAdmitted(why),
            NotServed::ClockUnconfirmed => Reply::ClockUnconfirmed,
            NotServed::Unavailable => Reply::Unavailable,
            NotServed::Unknown => Reply::Unknown,
            NotServed::StillPending => Reply::StillPending,
        }
    }
}

/// Answers by event loop.
#[derive(Debug)]
pub(super) struct Answers {
    by_loop: Vec<Vec<(Ticket, Reply)>>,
}

impl Answers {
    pub(super) fn new(mailbox: &Mailbox) -> Answers {
        Answers { by_loop: (0..mailbox.event_loops()).map(|_| Vec::new()).collect() }
    }

    pub(super) fn push(&mut self, to: ReplyTo, reply: Reply) {
        self.by_loop[to.event_loop].push((to.ticket, reply));
    }

    pub(super) fn hand_over(&mut self, mailbox: &Mailbox) {
        for (event_loop, replies) in self.by_loop.iter_mut().enumerate() {
            mailbox.answer(event_loop, replies);
        }
    }
}
