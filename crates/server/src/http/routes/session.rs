//! A session: a token of ours for one of the shop, as JSON for whoever calls the API, and as a cookie for a form that the
//! shop's page posts, where no script is needed.
//!
//! Must not: put a token into an address, or lead a browser to another site.

use std::borrow::Cow;

use crate::http::HttpService;
use crate::http::auth::token::Session;
use crate::http::auth::{SESSION_COOKIE, SESSION_SIGN, came_by_tls};
use crate::http::call::Call;
use crate::http::pending::{Pending, Waiting};
use crate::http::reads::ShowRead;
use crate::http::route::{Handler, Route};
use crate::http::sessions::{ShowSession, WaitingExchange};
use crate::http::wire::answer::Answering;
use crate::http::wire::error::Problem;
use crate::http::wire::{FORM, Object, decode, is_form, parameter};
use crate::net::Answer;

pub(in crate::http) const ROUTES: &[Route] =
    &[Route::post("/api/v1/session", Handler::Anybody(HttpService::open_session))];

/// Longest path that a form leads to.
const PATH_BYTES_MAX: usize = 1024;

impl HttpService {
    fn open_session(&mut self, call: &Call<'_>, _out: &mut Answering<'_, '_>) -> Result<Answer, Problem> {
        let exchange = self.access.auth.exchange().ok_or_else(Problem::sessions_off)?;
        let (token, show) = match call.fields.content_type {
            Some(found) if is_form(found) => self.of_form(call)?,
            Some(_) if !call.request.body.is_empty() => return Err(Problem::unsupported_media_type(FORM)),
            _ => {
                self.access.auth.same_site(&call.fields, call.request.secure)?;
                let token = self.access.auth.bearer_of(&call.fields)?.to_owned();
                let show: ShowSession = Box::new(|session| {
                    ShowRead::new(move |service, out| {
                        service.show_session(&session, out);
                        Ok(())
                    })
                });
                (token, show)
            }
        };
        let address = call.client(&self.shared.options.trusted_proxies);
        self.shared.exchanges.count(address).map_err(Problem::too_many_exchanges)?;
        let (event_loop, ticket, between) = (self.client.event_loop(), call.ticket, call.between);
        let waiting = WaitingExchange { event_loop, ticket, exchange, token, between, show };
        if !self.shared.sessions.ask(waiting) {
            return Err(Problem::busy());
        }
        self.pending.put(ticket, Pending::new(call, Waiting::Thread));
        Ok(Answer::Later)
    }

    /// From a page of the shop's: a stranger's page must not sign a reader in as somebody else.
    fn of_form(&self, call: &Call<'_>) -> Result<(String, ShowSession), Problem> {
        self.access.auth.shop_page(&call.fields, call.request.secure)?;
        let form = std::str::from_utf8(call.request.body)
            .map_err(|_not_text| Problem::invalid("The form is not text."))?;
        let field = |name: &str| parameter(form, name).and_then(decode).map(Cow::into_owned);
        let token = field("token").filter(|token| !token.is_empty());
        let token =
            token.ok_or_else(|| Problem::invalid("\"token\" must be the token that the shop gave."))?;
        let to = field("to").unwrap_or_else(|| "/".to_owned());
        if !is_local(&to) {
            return Err(Problem::invalid("\"to\" must be a path of this server, as in /seckill_3_30.html."));
        }
        let secure = if came_by_tls(&call.fields, call.request.secure) { "; Secure" } else { "" };
        let show = move |session: Session| {
            ShowRead::new(move |_, out| {
                let ends = format!("; Path=/; Max-Age={}; SameSite=Lax{secure}", session.lasts_s);
                let cookie = format!("{SESSION_COOKIE}={}{ends}; HttpOnly", session.token);
                // The page's script sees whose session it is, and not what proves it.
                let sign = format!("{SESSION_SIGN}={}{ends}", session.bearer.buyer.id);
                let headers = [("Location", &*to), ("Set-Cookie", &cookie), ("Set-Cookie", &sign), REFERRER];
                out.empty(303, &headers);
                Ok(())
            })
        };
        Ok((token, Box::new(show)))
    }

    fn show_session(&mut self, session: &Session, out: &mut Answering<'_, '_>) {
        let buyer = &session.bearer.buyer;
        self.scratch.clear();
        Object::begin(&mut self.scratch)
            .text("token", &session.token)
            .text("buyer", buyer.text.as_deref().unwrap_or(&buyer.id.to_string()))
            .number("expires_at_ms", session.bearer.expires_s.saturating_mul(1000))
            .end();
        out.json(200, &self.scratch);
    }
}

const REFERRER: (&str, &str) = ("Referrer-Policy", "no-referrer");

/// A path, with a query perhaps, that no browser takes for another site's address.
pub(in crate::http) fn is_local(to: &str) -> bool {
    to.len() <= PATH_BYTES_MAX
        && to.starts_with('/')
        && !to.starts_with("//")
        && to.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'\\')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_path_of_ours_is_gone_to() {
        for (to, local) in [
            ("/", true),
            ("/seckill_3_30.html?a=b#c", true),
            ("/a//b", true),
            ("", false),
            ("seckill", false),
            ("//evil.example", false),
            ("/\\evil.example", false),
            ("/a\\b", false),
            ("https://evil.example", false),
            ("/a b", false),
            ("/\t/evil.example", false),
            ("/a\r\nSet-Cookie: x=y", false),
            ("/ä", false),
            (&format!("/{}", "x".repeat(PATH_BYTES_MAX)), false),
        ] {
            assert_eq!(is_local(to), local, "{to:?}");
        }
    }
}
