//! What exists in a demo only: a buyer's number for every browser, a button that pays, and a shop that is filled.

use std::time::Duration;

use engine::{BuyerId, Command, Pay, Role};
use serde::Deserialize;

use crate::http::HttpService;
use crate::http::auth::{COOKIE, came_by_tls};
use crate::http::call::Call;
use crate::http::pending::{Next, Waiting};
use crate::http::route::{Handler, Route, When};
use crate::http::routes::orders::order_id;
use crate::http::wire::answer::Answering;
use crate::http::wire::body::read_object;
use crate::http::wire::error::Problem;
use crate::http::wire::{Number, Object};
use crate::intake::{Reply, Request};
use crate::ledger::Buyer;
use crate::net::Answer;

pub(in crate::http) const ROUTES: &[Route] = &[
    Route::post("/api/v1/demo/session", Handler::Anybody(HttpService::demo_session)).when(When::Demo),
    Route::post("/api/v1/demo/load", Handler::Operator(Role::Operator, HttpService::demo_load))
        .when(When::Demo),
    Route::post("/api/v1/orders/{id?}/pay", Handler::Buyer(HttpService::demo_pay)).when(When::Demo),
];

/// How long the button that pays waits for an order that is pending.
const PENDING_WAIT: Duration = Duration::from_secs(2);

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Balance {
    balance: Number,
}

impl HttpService {
    /// Gives a browser a buyer's number of its own, once.
    fn demo_session(&mut self, call: &Call<'_>, out: &mut Answering<'_, '_>) -> Result<Answer, Problem> {
        self.access.auth.same_site(&call.fields, call.request.secure)?;
        match self.demo_cookie(call)? {
            None => out.empty(204, &[]),
            Some(cookie) => out.empty(204, &[("Set-Cookie", &cookie)]),
        }
        Ok(Answer::Ready)
    }

    /// For a browser that has none yet.
    pub(in crate::http) fn demo_cookie(&self, call: &Call<'_>) -> Result<Option<String>, Problem> {
        let secure = if came_by_tls(&call.fields, call.request.secure) { "; Secure" } else { "" };
        let value = self.access.auth.new_session(&call.fields)?;
        Ok(value.map(|value| format!("{COOKIE}={value}; Path=/; HttpOnly; SameSite=Strict{secure}")))
    }

    fn demo_load(&mut self, call: &Call<'_>) -> Result<Answer, Problem> {
        let sale = self.shared.options.shop_sale.ok_or_else(Problem::demo_only)?;
        let Balance { balance: Number(balance) } = read_object(call)?;
        if balance > engine::limits::TOTAL_MAX / 2 {
            return Err(Problem::invalid("The balance is more than a good may have."));
        }
        self.ask(call, Request::SetBalance { sale, balance }, move |service, reply, out| {
            let Reply::BalanceSet { items } = reply else { return Err(reply.into()) };
            service.scratch.clear();
            Object::begin(&mut service.scratch)
                .number("items", items as u64)
                .number("balance", balance)
                .end();
            out.json(200, &service.scratch);
            Ok(())
        })
    }

    /// Pays the buyer's own order without a provider. Three steps: the order is read, a payment of its amount is
    /// recorded, and it is read again. One payment per order: pressing twice pays once.
    fn demo_pay(&mut self, call: &Call<'_>, Buyer { id: buyer, text }: Buyer) -> Result<Answer, Problem> {
        self.pay_demo(call, buyer, move |service, reply, out| service.show_order(reply, text.as_deref(), out))
    }

    pub(in crate::http) fn pay_demo(
        &mut self,
        call: &Call<'_>,
        buyer: BuyerId,
        show: impl FnOnce(&mut HttpService, Reply, &mut Answering<'_, '_>) -> Result<(), Problem> + Send + 'static,
    ) -> Result<Answer, Problem> {
        let order = order_id(call.params.name)?;
        let read = move |wait| Request::Read { order, buyer: Some(buyer), wait, with_address: false };
        let pay = Waiting::Step(Box::new(move |reply| {
            let Reply::Order(view) = reply else { return Err(reply.into()) };
            let pay = Pay { id: format!("demo-{order}").into(), order, amount: view.amount() };
            let read_again = Waiting::Step(Box::new(move |reply| {
                let Reply::Accepted(_) = reply else { return Err(reply.into()) };
                Ok(Next::Ask(read(Duration::ZERO), Waiting::Reply(Box::new(show))))
            }));
            Ok(Next::Ask(Request::Execute(Command::Pay(pay)), read_again))
        }));
        self.ask_and_wait(call, read(PENDING_WAIT), pay)
    }
}
