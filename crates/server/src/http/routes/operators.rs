//! Operators: who may, and what they did.

use engine::{Accepted, Command, Operator, Role, SaleId, UnixMs};
use serde::Deserialize;

use crate::http::HttpService;
use crate::http::auth::operators::{digest_of, new_token};
use crate::http::call::Call;
use crate::http::reads::{LedgerRead, ShowRead};
use crate::http::route::{Handler, Route, Served};
use crate::http::wire::answer::{Answering, NO_STORE};
use crate::http::wire::body::read_object;
use crate::http::wire::error::Problem;
use crate::http::wire::{NUMBER_MAX, Number, Object, decode_path, not_null, number_in};
use crate::intake::Reply;
use crate::ledger::{OperatorAction, OperatorLog, OperatorLogAsked};
use crate::net::Answer;

pub(in crate::http) const ROUTES: &[Route] = &[
    Route::get("/api/v1/operators", Handler::Anybody(HttpService::list_operators)).served(Served::Operators),
    Route::post("/api/v1/operators", Handler::Operator(Role::Admin, HttpService::add_operator)),
    Route::post(
        "/api/v1/operators/{name?}/revoke",
        Handler::Operator(Role::Admin, HttpService::revoke_operator),
    ),
    Route::get("/api/v1/operators/log", Handler::OperatorReads(Role::Support, read_log)),
];

const LOG_MAX: u64 = 500;
const LOG_DEFAULT: u64 = 100;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NewOperator {
    name: String,
    role: String,
    /// Left out: until it is revoked.
    #[serde(default, deserialize_with = "not_null")]
    expires_s: Option<Number>,
}

impl HttpService {
    /// What this server knows: in a cluster that of a quarter of a second ago, while the ledger can be read.
    fn list_operators(&mut self, call: &Call<'_>, out: &mut Answering<'_, '_>) -> Result<Answer, Problem> {
        self.operator(call, Role::Admin)?;
        let (now, operators) =
            (self.operators_now().now, self.operators.operators.iter().collect::<Vec<_>>());
        self.scratch.clear();
        let write = |out: &mut Vec<u8>, operator: &&Operator| write_operator(out, operator, now);
        Object::begin(&mut self.scratch).list("operators", &operators, write).end();
        out.json(200, &self.scratch);
        Ok(Answer::Ready)
    }

    /// The token is in this answer and nowhere else.
    fn add_operator(&mut self, call: &Call<'_>) -> Result<Answer, Problem> {
        let NewOperator { name, role, expires_s } = read_object(call)?;
        let role = Role::of(&role).ok_or_else(|| {
            Problem::invalid("\"role\" must be one of viewer, support, operator and admin.")
        })?;
        let token = new_token(&name);
        let by = call.by.get().expect("the route has found out who asks").who.clone();
        if expires_s.is_some_and(|seconds| seconds.0 == 0) {
            return Err(Problem::invalid("\"expires_s\" must be at least 1, or be left out."));
        }
        let ms = |seconds: Number| seconds.0.saturating_mul(1000);
        let operator = Operator {
            name: name.into(),
            role,
            digest: digest_of(&token),
            added_at: call.now,
            by,
            expires_at: expires_s.map(|seconds| UnixMs(call.now.0.saturating_add(ms(seconds)))),
        };
        let command = Command::AddOperator(Box::new(operator.clone()));
        self.ask(call, call.command(command), move |service, reply, out| {
            let Reply::Accepted(Accepted::Operators) = reply else { return Err(reply.into()) };
            service.scratch.clear();
            Object::begin(&mut service.scratch)
                .text("name", &operator.name)
                .text("role", operator.role.as_str())
                .number_or_null("expires_at_ms", operator.expires_at.map(|at| at.0))
                .text("token", &token)
                .end();
            out.json_with(201, &[NO_STORE], &service.scratch);
            Ok(())
        })
    }

    fn revoke_operator(&mut self, call: &Call<'_>) -> Result<Answer, Problem> {
        let name = decode_path(call.params.name).ok_or_else(Problem::not_found)?;
        let command = Command::RevokeOperator(name.into());
        self.ask(call, call.command(command), |_, reply, out| {
            let Reply::Accepted(Accepted::Operators) = reply else { return Err(reply.into()) };
            out.empty(204, &[]);
            Ok(())
        })
    }
}

fn write_operator(out: &mut Vec<u8>, operator: &Operator, now: UnixMs) {
    Object::begin(out)
        .text("name", &operator.name)
        .text("role", operator.role.as_str())
        .text("added_by", &operator.by)
        .number("added_at_ms", operator.added_at.0)
        .number_or_null("expires_at_ms", operator.expires_at.map(|at| at.0))
        .flag("expired", operator.is_expired(now))
        .end();
}

/// What operators did, the latest first, by the page.
fn read_log(call: &Call<'_>) -> Result<LedgerRead, Problem> {
    let number = |name| number_in(call.request.query, name).transpose();
    let max = number("limit")?.unwrap_or(LOG_DEFAULT);
    if !(1..=LOG_MAX).contains(&max) {
        return Err(Problem::invalid(format!("limit must be from 1 to {LOG_MAX}.")));
    }
    let before = number("cursor")?.unwrap_or(NUMBER_MAX);
    let asked = OperatorLogAsked { before, sale: number("sale")?.map(SaleId), max };
    Ok(LedgerRead::new(move |ledger| {
        let page = ledger.operator_log(&asked)?;
        Ok(ShowRead::new(move |service, out| {
            service.scratch.clear();
            write_log(&mut service.scratch, &page);
            out.json(200, &service.scratch);
            Ok(())
        }))
    }))
}

fn write_log(out: &mut Vec<u8>, page: &OperatorLog) {
    let write = |out: &mut Vec<u8>, action: &OperatorAction| {
        let operated = &action.operated;
        Object::begin(out)
            .number("entry", action.seq)
            .number("at_ms", action.at.0)
            .text("who", &operated.by.who)
            .text("what", &operated.what)
            .number_or_null("sale", operated.sale.map(|sale| sale.0))
            .text("about", &operated.about)
            .text("why", &operated.by.why)
            .end();
    };
    Object::begin(out).list("log", &page.actions, write).number_or_null("next_cursor", page.older).end();
}

/// What fuzz/targets ask of a body: whether it is understood.
#[cfg(fuzzing)]
pub(in crate::http) fn understand(body: &[u8]) -> Result<(), Problem> {
    crate::http::wire::body::parse::<NewOperator>(body).map(drop)
}
