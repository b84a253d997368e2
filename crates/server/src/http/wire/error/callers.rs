//! What is answered for who asks: a buyer, an operator, a page of another site, the payment provider; and that they ask too often.

use engine::Role;

use super::Problem;

/// After this many seconds wrong operator tokens are answered as such again.
const GUESSES_RETRY_AFTER_S: u64 = 60;

impl Problem {
    pub(in crate::http) fn unauthorized(detail: &'static str) -> Problem {
        Problem::new(401, "unauthorized", "The buyer is not known", detail)
    }

    /// The buyer or the payment provider did not prove who they are. Wrong operator tokens have a bound of their own.
    pub(in crate::http) fn is_of_a_stranger(&self) -> bool {
        self.status == 401 && matches!(self.code, "unauthorized" | "invalid_signature")
    }

    pub(in crate::http) fn too_many_strangers(retry_after_ms: u64) -> Problem {
        let detail = "Too many requests without a valid token come from your address. With one you are served at once.";
        let problem =
            Problem::new(429, "anonymous_rate_limited", "Too many requests without a token", detail);
        Problem { retry_after_s: Some(retry_after_ms.div_ceil(1000).max(1)), ..problem }
    }

    /// In the same words for whoever has no token and for whoever has one that has expired.
    pub(in crate::http) fn operator_unauthorized(clock_is_confirmed: bool) -> Problem {
        let detail = if clock_is_confirmed {
            "Send Authorization: Bearer with the operator's token."
        } else {
            "The server's clock is not confirmed: tokens that expire are not taken. Send Authorization: Bearer with one that does not."
        };
        Problem::new(401, "operator_unauthorized", "The operator's token is missing or wrong", detail)
    }

    pub(in crate::http) fn is_of_no_operator(&self) -> bool {
        self.code == "operator_unauthorized"
    }

    /// The token is good, and may less.
    pub(in crate::http) fn role_required(role: Role) -> Problem {
        let detail = format!("This takes the role {}: ask somebody who has it.", role.as_str());
        Problem::new(403, "role_required", "The operator may not do that", detail)
    }

    pub(in crate::http) fn operator_guesses() -> Problem {
        let detail = "Too many wrong operator tokens came from your address: the right one is taken at once.";
        let problem = Problem::new(429, "operator_guesses", "Too many wrong tokens", detail);
        Problem { retry_after_s: Some(GUESSES_RETRY_AFTER_S), ..problem }
    }

    pub(in crate::http) fn operator_off() -> Problem {
        let detail =
            "This server has no operator token, so its operator calls are off: set auth.operator_token_file.";
        Problem::new(403, "operator_off", "Operator calls are off", detail)
    }

    pub(in crate::http) fn demo_only() -> Problem {
        Problem::new(404, "demo_only", "Not found", "This call exists under --demo only.")
    }

    pub(in crate::http) fn payments_off() -> Problem {
        let detail = "This server has no payment secret, so callbacks are off: set auth.payment_secret_file.";
        Problem::new(403, "payments_off", "Payment callbacks are off", detail)
    }

    pub(in crate::http) fn stripe_off() -> Problem {
        let detail = "Stripe does not take this server's payments: set stripe.secret_key_file.";
        Problem::new(403, "payments_off", "Payments by Stripe are off", detail)
    }

    pub(in crate::http) fn invalid_signature(detail: &'static str) -> Problem {
        Problem::new(401, "invalid_signature", "The callback is not signed rightly", detail)
    }

    pub(in crate::http) fn forbidden_origin() -> Problem {
        let detail =
            "Pages of this origin may not act for a buyer here; http.allowed_origins lists those that may.";
        Problem::new(403, "forbidden_origin", "This origin is not allowed", detail)
    }

    pub(in crate::http) fn forbidden_shop_origin() -> Problem {
        let detail = "A page of this origin may not sign a reader in here; auth.shop_origins lists those that may. \
                      A page that sends no referrer sends no origin either.";
        Problem::new(403, "forbidden_origin", "This origin is not allowed", detail)
    }

    pub(in crate::http) fn sessions_off() -> Problem {
        let detail =
            "This server opens no sessions: it is a demo, or has no token secret (auth.token_secret_file).";
        Problem::new(403, "sessions_off", "Sessions are off", detail)
    }

    pub(in crate::http) fn no_shop_keys() -> Problem {
        Problem::unavailable("The shop's keys could not be fetched yet; try again in half a minute.")
    }

    pub(in crate::http) fn too_many_exchanges(retry_after_ms: u64) -> Problem {
        let detail = "Too many tokens come from your address to be exchanged; try again.";
        let problem = Problem::new(429, "session_rate_limited", "Too many sessions", detail);
        Problem { retry_after_s: Some(retry_after_ms.div_ceil(1000).max(1)), ..problem }
    }

    pub(in crate::http) fn forbidden(detail: &'static str) -> Problem {
        Problem::new(403, "forbidden", "This buyer may not do that", detail)
    }
}
