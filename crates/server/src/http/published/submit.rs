//! The published submit-order route: a synchronous order in the shop, from a form, answered by its id.
//!
//! Unlike the published program, which subtracts without looking, it refuses with 409 when the balance is
//! short.

use engine::{BuyerId, ProductId};

use crate::http::HttpService;
use crate::http::call::Call;
use crate::http::placing::{Placed, key_of};
use crate::http::route::{Handler, Route};
use crate::http::wire::answer::{Answering, TEXT};
use crate::http::wire::error::Problem;
use crate::http::wire::{FORM, is_form, needed_number_in, push_order_id};
use crate::ledger::Buyer;
use crate::net::Answer;

pub(in crate::http) const ROUTES: &[Route] =
    &[Route::post("/order/submit", Handler::Anybody(HttpService::submit_order))];

impl HttpService {
    /// Everything is asked of a buyer, but the form names one: who asks is checked against it.
    fn submit_order(&mut self, call: &Call<'_>, _out: &mut Answering<'_, '_>) -> Result<Answer, Problem> {
        let Some(sale) = self.shared.options.shop_sale else { return Err(Problem::not_found()) };
        self.access.auth.same_site(&call.fields, call.request.secure)?;
        if call.fields.content_type.is_some_and(|found| !is_form(found)) {
            return Err(Problem::unsupported_media_type(FORM));
        }
        let form = std::str::from_utf8(call.request.body)
            .map_err(|_not_text| Problem::invalid("The form is not text."))?;
        let user = needed_number_in(form, "user_id")?;
        let goods = needed_number_in(form, "goods_id")?;
        let count = u32::try_from(needed_number_in(form, "count")?)
            .map_err(|_too_many| Problem::invalid("\"count\" is more than any order may have."))?;
        let user = BuyerId::of_number(user).ok_or_else(|| Problem::invalid("user_id must be below 2^63."))?;
        let buyer = self.access.auth.named_buyer(&call.fields, user, call.between)?;
        let key = key_of(call)?;
        let buyer = Buyer { id: buyer, text: None };
        let admitted = self.admit_published(call, buyer, (sale, ProductId(goods)), key)?;
        let kept = self.keep_address(key.is_some(), count, &[], None);
        self.place(call, admitted, count, kept, HttpService::show_submitted)
    }

    fn show_submitted(
        &mut self,
        Placed { order, replayed, .. }: Placed,
        out: &mut Answering<'_, '_>,
    ) -> Result<(), Problem> {
        self.scratch.clear();
        push_order_id(&mut self.scratch, order.id);
        let headers: &[_] = if replayed { &[("Idempotency-Replayed", "true")] } else { &[] };
        out.body_with(200, headers, TEXT, &self.scratch);
        Ok(())
    }
}
