//! What operators do beside the books (images, endpoints, the clock, rehearsals): done first, then kept in the ledger, then answered. So an
//! answer that it is done means that the ledger says so, and no entry says what was not done.
//!
//! Must not: do any of it.

use engine::{Accepted, Action, By, Command};

use super::HttpService;
use super::pending::{Show, Waiting};
use super::wire::answer::Answering;
use super::wire::error::Problem;
use crate::intake::{Reply, Request};

/// Something that an operator did.
#[derive(Debug)]
pub(super) struct Done {
    pub(super) action: Action,
    /// At most 255 bytes.
    pub(super) about: String,
    pub(super) by: By,
}

impl Done {
    /// Has the ledger keep it; `show` answers then.
    pub(super) fn keep(
        self,
        show: impl FnOnce(&mut HttpService, &mut Answering<'_, '_>) -> Result<(), Problem> + Send + 'static,
    ) -> (Request, Waiting) {
        let request = Request::Operate(Command::KeepAction(self.action, self.about.into()), self.by);
        let show: Show = Box::new(move |service, reply, out| match reply {
            Reply::Accepted(Accepted::ActionKept) => show(service, out),
            reply => Err(reply.into()),
        });
        (request, Waiting::Reply(show))
    }
}
