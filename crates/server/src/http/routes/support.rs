//! What support does for a buyer: finds an order by the number that its buyer reads out, with all that became of it.

use std::time::Duration;

use engine::{OrderView, Role};

use crate::http::HttpService;
use crate::http::call::Call;
use crate::http::pending::Waiting;
use crate::http::reads::{LedgerRead, ShowRead};
use crate::http::route::{Handler, Route};
use crate::http::routes::orders::{ShownOrder, standing, write_order};
use crate::http::wire::answer::Answering;
use crate::http::wire::error::Problem;
use crate::http::wire::{Object, decode_path};
use crate::intake::Request;
use crate::ledger::{LifeStep, OrderLife};
use crate::net::Answer;

const FIND: &str = "/api/v1/support/orders/{number?}";

pub(in crate::http) const ROUTES: &[Route] =
    &[Route::get(FIND, Handler::Operator(Role::Support, HttpService::find_order))];

impl HttpService {
    /// One look into the ledger by key for its life, and one into the profile for how it stands.
    fn find_order(&mut self, call: &Call<'_>) -> Result<Answer, Problem> {
        let typed = decode_path(call.params.name);
        let order = typed.and_then(|typed| self.ids.numbers.read(&typed)).ok_or_else(|| {
            Problem::invalid(
                "An order's number has eight letters and digits, such as K7QM-3X9F: see the page of the order.",
            )
        })?;
        let read = LedgerRead::new(move |ledger| {
            let Some(life) = ledger.order_life(order.0)? else {
                return Ok(ShowRead::new(|_, _| Err(Problem::unknown_number())));
            };
            let read =
                Request::Read { order: life.id, buyer: None, wait: Duration::ZERO, with_address: false };
            let show = Waiting::Reply(Box::new(move |service, reply, out| {
                let (order, standing) = standing(reply)?;
                service.show_life(&order, standing, &life, out)
            }));
            Ok(ShowRead::ask(read, show))
        });
        self.read_ledger(call, FIND, read)
    }

    fn show_life(
        &mut self,
        order: &OrderView,
        standing: &str,
        life: &OrderLife,
        out: &mut Answering<'_, '_>,
    ) -> Result<(), Problem> {
        self.scratch.clear();
        let shown = ShownOrder { number: self.ids.numbers.of(order.seq), ..ShownOrder::only(standing) };
        let mut object = Object::begin(&mut self.scratch);
        write_order(object.value("order"), &self.catalog, order, None, &shown)?;
        object.list("life", &life.steps, write_step).flag("more", life.more).end();
        out.json(200, &self.scratch);
        Ok(())
    }
}

fn write_step(out: &mut Vec<u8>, step: &LifeStep) {
    let mut object = Object::begin(out);
    object.number("entry", step.seq).number("at_ms", step.at.0).text("what", step.what.as_str());
    if let Some(payment) = step.what.payment() {
        object.text("payment_id", payment);
    }
    if let Some(refund) = step.what.refund() {
        object.number("amount", refund.amount).number("units", u64::from(refund.units));
    }
    if let Some(by) = &step.by {
        object.text("by", &by.who).text("why", &by.why);
    }
    object.end();
}
