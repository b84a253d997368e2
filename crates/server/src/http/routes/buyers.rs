//! Buyers: that one of them is erased.

use std::borrow::Cow;

use engine::{Accepted, BuyerId, Command, Role};
use serde::Deserialize;

use crate::http::HttpService;
use crate::http::auth::named;
use crate::http::call::Call;
use crate::http::route::{Handler, Route};
use crate::http::wire::Object;
use crate::http::wire::answer::Answering;
use crate::http::wire::body::read_object;
use crate::http::wire::error::Problem;
use crate::intake::Reply;
use crate::net::Answer;

pub(in crate::http) const ROUTES: &[Route] =
    &[Route::post("/api/v1/buyers/erase", Handler::Operator(Role::Admin, HttpService::erase_buyer))];

/// In the body and not in the address, which is logged on its way.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Erasure<'a> {
    #[serde(borrow)]
    buyer: Cow<'a, str>,
}

impl HttpService {
    /// Whether there is such a buyer is not looked at: whoever never ordered is answered the same.
    fn erase_buyer(&mut self, call: &Call<'_>) -> Result<Answer, Problem> {
        let erasure: Erasure<'_> = read_object(call)?;
        let buyer = named::find(&erasure.buyer, &self.access.buyers).map_err(|_unnamed| {
            Problem::invalid(
                "\"buyer\" must be the shop's name for the buyer: 1 to 128 bytes, no control characters, no spaces at its ends.",
            )
        })?;
        self.ask(call, call.command(Command::EraseBuyer(buyer.id)), move |service, reply, out| {
            service.show_erased(buyer.id, reply, out)
        })
    }

    fn show_erased(
        &mut self,
        buyer: BuyerId,
        reply: Reply,
        out: &mut Answering<'_, '_>,
    ) -> Result<(), Problem> {
        let Reply::Accepted(Accepted::BuyerErased) = reply else { return Err(reply.into()) };
        self.shared.attempts.forget(buyer);
        self.scratch.clear();
        Object::begin(&mut self.scratch).text("addresses", "erasing").end();
        out.json(202, &self.scratch);
        Ok(())
    }
}

/// What fuzz/targets ask of a body: whether it is understood.
#[cfg(fuzzing)]
pub(in crate::http) fn understand(body: &[u8]) -> Result<(), Problem> {
    crate::http::wire::body::parse::<Erasure<'_>>(body).map(drop)
}
