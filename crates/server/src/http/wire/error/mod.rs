//! The only map from refusals and failures to status codes and problem documents (RFC 9457).
//!
//! A problem's `type` and `code` are part of the public API: they name the same thing and never change. Only here and in the
//! files beside this a problem is made, so no route can answer with a status of its own.
//! Must not: decide anything.

mod callers;
mod routes;

use std::borrow::Cow;
use std::time::Duration;

use engine::{Refusal, UnixMs};

use crate::http::wire::{NUMBER_MAX, Object};
use crate::intake::Reply;
use crate::intake::admission::NotAdmitted;
use crate::ledger::OpenError;

/// Where the problem types live; the code with dashes follows.
const TYPE_BASE: &str = "https://doorbuster.dev/problems/";

/// After this many seconds a buyer who was answered that we are busy, or that we do not know, may ask again.
const RETRY_AFTER_S: u64 = 1;

/// Why a request gets no better answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::http) struct Problem {
    pub(in crate::http) status: u16,
    /// Stable, with underscores.
    pub(in crate::http) code: &'static str,
    pub(in crate::http) title: &'static str,
    /// What happened and what to do about it, for a person.
    pub(in crate::http) detail: Cow<'static, str>,
    pub(in crate::http) retry_after_s: Option<u64>,
    /// The methods that the address has, with 405 only.
    pub(in crate::http) allow: Option<&'static str>,
    more: Option<More>,
}

/// What a problem of one kind has besides.
#[derive(Clone, Debug, PartialEq, Eq)]
enum More {
    /// What has to be worked out before the same is asked for again.
    Challenge(Box<str>),
    /// From when whoever asks may do it.
    OpensAt(UnixMs),
    /// What a unit costs now.
    UnitPrice(u64),
}

impl Problem {
    fn new(
        status: u16,
        code: &'static str,
        title: &'static str,
        detail: impl Into<Cow<'static, str>>,
    ) -> Problem {
        let retry_after_s = matches!(status, 429 | 503).then_some(RETRY_AFTER_S);
        Problem { status, code, title, detail: detail.into(), retry_after_s, allow: None, more: None }
    }

    /// The same problem, in words for what was asked.
    pub(in crate::http) fn in_words(self, detail: impl Into<Cow<'static, str>>) -> Problem {
        Problem { detail: detail.into(), ..self }
    }

    pub(in crate::http) fn invalid(detail: impl Into<Cow<'static, str>>) -> Problem {
        Problem::new(400, "invalid_request", "The request is not understood", detail)
    }

    /// A number of a query or of a form that is missing, or none.
    pub(in crate::http) fn no_number(name: &str) -> Problem {
        Problem::invalid(format!("\"{name}\" must be a whole number from 0 to {NUMBER_MAX}, in digits."))
    }

    /// A header that says what to do or who asks, and can't be read.
    pub(in crate::http) fn unusable_header(name: &'static str) -> Problem {
        Problem::invalid(format!("The header {name} must be there once at most, and be text."))
    }

    /// A body that is not the JSON that it should be.
    pub(in crate::http) fn invalid_body(detail: impl Into<Cow<'static, str>>) -> Problem {
        Problem::new(400, "invalid_body", "The body is not understood", detail)
    }

    pub(in crate::http) fn not_found() -> Problem {
        Problem::new(
            404,
            "not_found",
            "Not found",
            "There is nothing at this address; GET /api lists what there is.",
        )
    }

    /// Not the name that was sent: whoever sent it knows it.
    pub(in crate::http) fn unknown_host() -> Problem {
        let detail = "This server is not asked under this name; http.public_names lists those that it has.";
        Problem::new(421, "unknown_host", "Another server's name", detail)
    }

    pub(in crate::http) fn method_not_allowed(allow: &'static str) -> Problem {
        let detail = format!("This address takes {allow} only.");
        let problem =
            Problem::new(405, "method_not_allowed", "This address does not take this method", detail);
        Problem { allow: Some(allow), ..problem }
    }

    pub(in crate::http) fn unsupported_media_type(wanted: &'static str) -> Problem {
        let detail = format!("Send the body as {wanted}, and say so in Content-Type.");
        Problem::new(415, "unsupported_media_type", "The body's type is not understood", detail)
    }

    pub(in crate::http) fn ledger_unreadable(error: &OpenError) -> Problem {
        let detail = format!("The ledger can't be read now: {error}.");
        Problem::new(503, "ledger_unreadable", "The ledger can't be read", detail)
    }

    /// A read that was given up after so long. It has no outcome that could be unknown.
    pub(in crate::http) fn ledger_silent(waited: Duration) -> Problem {
        let detail =
            format!("It did not answer in {} s. Nothing was changed: ask again.", waited.as_secs().max(1));
        Problem::new(503, "ledger_unreadable", "The ledger can't be read", detail)
    }

    pub(in crate::http) fn outcome_unknown() -> Problem {
        let detail = "It could not be learnt in time whether this happened. With the same key it is safe to ask \
                      again; without a key, look first what came of it.";
        Problem::new(503, "outcome_unknown", "The outcome is not known", detail)
    }

    pub(in crate::http) fn still_pending() -> Problem {
        let detail = "The order is accepted and on its way to the ledger; ask again in a moment.";
        let problem = Problem::new(409, "pending", "The order is pending", detail);
        Problem { retry_after_s: Some(RETRY_AFTER_S), ..problem }
    }

    /// Only after the gate lost memory: the units had been given to somebody else.
    pub(in crate::http) fn lost() -> Problem {
        let detail = "The order was accepted, but its units were not there any more; it is rejected.";
        Problem::new(409, "order_rejected", "The order is rejected", detail)
    }

    pub(in crate::http) fn busy() -> Problem {
        Problem::new(503, "busy", "Too busy", "Too much is waiting to be answered already; try again.")
    }

    pub(in crate::http) fn unavailable(detail: impl Into<Cow<'static, str>>) -> Problem {
        Problem::new(503, "unavailable", "Not serving", detail)
    }

    pub(in crate::http) fn internal(detail: impl Into<Cow<'static, str>>) -> Problem {
        Problem::new(500, "internal", "Something of ours failed", detail)
    }

    /// What the net layer found: by its status alone.
    pub(in crate::http) fn protocol(status: u16, detail: &str) -> Problem {
        let (code, title) = match status {
            408 => ("request_timeout", "The request took too long"),
            413 => ("body_too_large", "The body is too large"),
            414 => ("uri_too_long", "The address is too long"),
            431 => ("head_too_large", "The headers are too large"),
            501 => ("not_implemented", "This coding is not understood"),
            503 => ("busy", "Too busy"),
            505 => ("http_version", "This version of HTTP is not spoken"),
            _ => ("bad_request", "The request is not HTTP as we know it"),
        };
        // Where it has to turn clients away, the net layer says itself when to come again.
        Problem { retry_after_s: None, ..Problem::new(status, code, title, detail.to_owned()) }
    }

    /// As `application/problem+json`.
    pub(in crate::http) fn write(&self, out: &mut Vec<u8>) {
        let mut object = Object::begin(out);
        let target = object.value("type");
        target.push(b'"');
        target.extend_from_slice(TYPE_BASE.as_bytes());
        target.extend(self.code.bytes().map(|byte| if byte == b'_' { b'-' } else { byte }));
        target.push(b'"');
        object.text("title", self.title).number("status", u64::from(self.status));
        object.text("detail", &self.detail).text("code", self.code);
        match &self.more {
            None => {}
            Some(More::Challenge(challenge)) => {
                object.text("challenge", challenge);
            }
            Some(More::OpensAt(at)) => {
                object.number("opens_at_ms", at.0);
            }
            Some(More::UnitPrice(price)) => {
                object.number("unit_price", *price);
            }
        }
        object.end();
    }

    /// In the shape of the published interface, which knows one code for all that went wrong.
    pub(in crate::http) fn write_published(&self, out: &mut Vec<u8>) {
        let mut object = Object::begin(out);
        object.number("code", 500).text("message", &self.detail).raw("data", b"null").end();
    }
}

impl From<Refusal> for Problem {
    fn from(refusal: Refusal) -> Problem {
        let (status, title) = match refusal {
            Refusal::UnknownSale => (404, "No such sale"),
            Refusal::UnknownSku => (404, "No such product in this sale"),
            Refusal::UnknownOrder => (404, "No such order"),
            Refusal::UnknownPayment => (404, "No such payment"),
            Refusal::NotStarted => (409, "Not started"),
            Refusal::Paused => (409, "Paused"),
            Refusal::Ended => (409, "Ended"),
            Refusal::SoldOut => (409, "Sold out"),
            Refusal::TurnRequired => (409, "It is not your turn"),
            Refusal::NoLine => (404, "No line"),
            Refusal::NotInLine => (404, "Not in the line"),
            Refusal::LineFull => (409, "The line is full"),
            Refusal::NotEnoughLeft => (409, "Not enough left"),
            Refusal::OverLimit => (409, "Over the limit per buyer"),
            Refusal::TooManyHolds => (409, "Too many open orders"),
            Refusal::HoldsUsedUp => (409, "Too many orders let go"),
            Refusal::CoolingDown { retry_after_ms } => {
                let problem =
                    Problem::new(429, refusal.code(), "Too many orders let go", refusal.to_string());
                return Problem { retry_after_s: Some(retry_after_ms.div_ceil(1000).max(1)), ..problem };
            }
            Refusal::PriceChanged { unit_price } => {
                let problem = Problem::new(409, refusal.code(), "The price has changed", refusal.to_string());
                return Problem { more: Some(More::UnitPrice(unit_price)), ..problem };
            }
            Refusal::KeyConflict => (409, "The key was used for another request"),
            Refusal::NotCancellable(_) => (409, "Not cancellable"),
            Refusal::AddressGiven => (409, "It has an address"),
            Refusal::TakesNoAddress(_) => (409, "It takes no address"),
            Refusal::PaymentConflict => (409, "The payment id was used for another payment"),
            Refusal::NothingToSettle => (409, "Nothing to settle"),
            Refusal::NotRefundable(_) => (409, "Not refundable"),
            Refusal::RefundTooLarge => (409, "More than is left"),
            Refusal::SaleExists => (409, "The sale exists and is another"),
            Refusal::SaleStarted => (409, "The sale has started"),
            Refusal::CorrectionTooLarge(_) => (409, "Fewer units are available"),
            Refusal::InvalidQuantity => (422, "Invalid quantity"),
            Refusal::InvalidSale(_) | Refusal::InvalidItem { .. } => (422, "Invalid sale"),
            Refusal::InvalidChange(_) => (422, "Invalid change"),
        };
        // Most texts are fixed, and sold out is the busiest answer of all: no formatting for it.
        let detail = match refusal {
            Refusal::SoldOut => Cow::Borrowed("sold out; units come back if orders are not paid in time"),
            other => Cow::Owned(other.to_string()),
        };
        Problem::new(status, refusal.code(), title, detail)
    }
}

impl From<NotAdmitted> for Problem {
    fn from(rejection: NotAdmitted) -> Problem {
        match rejection {
            NotAdmitted::Refused(refusal) => refusal.into(),
            NotAdmitted::RateLimited { retry_after_ms } => {
                let detail = "More orders come in than are let through; try again.";
                let problem = Problem::new(429, "rate_limited", "Too many orders", detail);
                Problem { retry_after_s: Some(retry_after_ms.div_ceil(1000).max(1)), ..problem }
            }
            NotAdmitted::BuyerRateLimited { retry_after_ms } => {
                let detail = "You send more orders, or ask a line more often, than one buyer may; try again.";
                let problem =
                    Problem::new(429, "buyer_rate_limited", "Too many requests of one buyer", detail);
                Problem { retry_after_s: Some(retry_after_ms.div_ceil(1000).max(1)), ..problem }
            }
            NotAdmitted::Busy => Problem::busy(),
            NotAdmitted::BuyerBusy => {
                let detail = "You have too many orders waiting for their answer; wait for one of them.";
                Problem::new(429, "buyer_busy", "Too many orders at once", detail)
            }
        }
    }
}

/// What a reply means that is not the one hoped for.
impl From<Reply> for Problem {
    fn from(reply: Reply) -> Problem {
        match reply {
            Reply::Refused(refusal) => refusal.into(),
            Reply::NotAdmitted(rejection) => rejection.into(),
            Reply::Unknown => Problem::outcome_unknown(),
            Reply::StillPending | Reply::Pending { .. } => Problem::still_pending(),
            Reply::Lost(_) => Problem::lost(),
            Reply::ClockUnconfirmed => {
                Problem::unavailable("The server's clock is not believed at the moment; nothing was started.")
            }
            Reply::Unavailable => {
                Problem::unavailable("The server can store nothing at the moment; nothing was started.")
            }
            reply => {
                debug_assert!(false, "the reply is to another request: {reply:?}");
                Problem::outcome_unknown()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_problem_is_a_document_of_rfc_9457() {
        let mut out = Vec::new();
        Problem::from(Refusal::SoldOut).write(&mut out);
        let value: serde_json::Value = serde_json::from_slice(&out).unwrap();
        assert_eq!(value["type"], "https://doorbuster.dev/problems/sold-out");
        assert_eq!((&value["status"], &value["code"]), (&409.into(), &"sold_out".into()));
        assert_eq!(value["detail"], Refusal::SoldOut.to_string());
    }

    /// An operator who pauses a sale is answered so on a full disk, and orders nothing.
    #[test]
    fn whoever_changes_a_sale_while_nothing_can_be_stored_reads_that_and_not_of_orders() {
        let detail = Problem::from(Reply::Unavailable).detail;
        assert!(detail.contains("can store nothing") && !detail.contains("order"), "{detail}");
    }

    #[test]
    fn a_problem_that_passes_says_when_to_come_again() {
        for (rejection, status, seconds) in [
            (NotAdmitted::RateLimited { retry_after_ms: 1 }, 429, Some(1)),
            (NotAdmitted::RateLimited { retry_after_ms: 1001 }, 429, Some(2)),
            (NotAdmitted::BuyerRateLimited { retry_after_ms: 1 }, 429, Some(1)),
            (NotAdmitted::Busy, 503, Some(1)),
            (NotAdmitted::BuyerBusy, 429, Some(1)),
            (NotAdmitted::Refused(Refusal::Paused), 409, None),
            (NotAdmitted::Refused(Refusal::CoolingDown { retry_after_ms: 19_001 }), 429, Some(20)),
        ] {
            let problem = Problem::from(rejection);
            assert_eq!((problem.status, problem.retry_after_s), (status, seconds));
        }
    }
}
