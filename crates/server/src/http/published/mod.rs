//! The published interface: its two POST routes and its stock read, with the shapes that load tools expect.
//!
//! Success replies of one SKU and address have one constant length: `ab` counts any other as failed. So ids
//! and times have a fixed width, and the buyer's number is padded with spaces, which JSON allows.

pub(super) mod reply;
pub(super) mod submit;

use engine::{OrderView, ProductId, Refusal, SaleId};
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::http::HttpService;
use crate::http::call::Call;
use crate::http::placing::key_of;
use crate::http::published::reply::{Echo, receiver};
use crate::http::route::{Handler, Route, When};
use crate::http::wire::address::{DeliveryAddress, PublishedAddress};
use crate::http::wire::answer::{Answering, ProblemFormat, TEXT};
use crate::http::wire::body::read_object;
use crate::http::wire::error::Problem;
use crate::http::wire::{Number, needed_number_in, number_in, push_number};
use crate::intake::{Reply, Request};
use crate::ledger::Buyer;
use crate::net::Answer;

pub(super) const ROUTES: &[Route] = &[
    Route::post("/seckillOrder/generateOrder", Handler::Buyer(HttpService::generate_order))
        .problems(ProblemFormat::Published),
    Route::post("/seckillOrder/pressureMQ", Handler::Buyer(HttpService::send_message))
        .when(When::Messages)
        .problems(ProblemFormat::Published),
    Route::get("/cache/stock", Handler::Anybody(HttpService::cache_stock)),
];

/// Longest message body that is stored, in bytes: what the published command sends, eight times over.
const MESSAGE_BYTES_MAX: usize = 4096;

const SENT: &[u8] = br#"{"code":200,"message":"The message is sent.","data":"success"}"#;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Generate<'a> {
    flash_promotion_id: Number,
    product_id: Number,
    #[serde(borrow)]
    member_receive_address: Option<PublishedAddress<'a>>,
    order_id: Option<Number>,
    order_item_id: Option<Number>,
    pay_type: Option<Number>,
}

impl HttpService {
    fn generate_order(&mut self, call: &Call<'_>, buyer: Buyer) -> Result<Answer, Problem> {
        if buyer.text.is_some() {
            return Err(Problem::forbidden(
                "The published answer has a number for the buyer: use /api/v1/orders.",
            ));
        }
        let key = key_of(call)?;
        let asked: Generate<'_> = read_object(call)?;
        let address = asked.member_receive_address.as_ref().map(DeliveryAddress::published).transpose()?;
        let named = (SaleId(asked.flash_promotion_id.0), ProductId(asked.product_id.0));
        let admitted = self.admit_published(call, buyer, named, key)?;
        let echoed =
            [asked.order_id, asked.order_item_id, asked.pay_type].map(|number| number.map(|it| it.0));
        let [order_id, order_item_id, pay_type] = echoed;
        let echo = Echo { order_id, order_item_id, pay_type, receiver: receiver(address.as_ref()) };
        // They are in the first answer, so a retry that says others is another request.
        let kept = self.keep_address(key.is_some(), 1, &echoed, address);
        self.place(call, admitted, 1, kept, move |service, placed, out| {
            service.show_generated(&placed.order, &echo, out)
        })
    }

    fn show_generated(
        &mut self,
        order: &OrderView,
        echo: &Echo,
        out: &mut Answering<'_, '_>,
    ) -> Result<(), Problem> {
        let Some(template) = self.templates.of(&self.catalog, order.id.sku) else {
            return Err(Problem::internal(
                "The order's sale is not published yet; ask again with the same key.",
            ));
        };
        self.scratch.clear();
        template.write(&mut self.scratch, order, echo);
        out.json(200, &self.scratch);
        Ok(())
    }

    /// Sends one message, and is no order. For load tests: a shop has no use for it, and each message stays.
    fn send_message(&mut self, call: &Call<'_>, _sender: Buyer) -> Result<Answer, Problem> {
        let body: &RawValue = read_object(call)?;
        if body.get().len() > MESSAGE_BYTES_MAX {
            return Err(Problem::invalid(format!("The message is longer than {MESSAGE_BYTES_MAX} bytes.")));
        }
        self.ask(call, Request::Message(body.get().as_bytes().into()), |_, reply, out| match reply {
            Reply::Stored => {
                out.json(200, SENT);
                Ok(())
            }
            reply => Err(reply.into()),
        })
    }

    /// The stock of a product in the newest sale that has it, or in the sale that is named: digits only.
    fn cache_stock(&mut self, call: &Call<'_>, out: &mut Answering<'_, '_>) -> Result<Answer, Problem> {
        let product = ProductId(needed_number_in(call.request.query, "productId")?);
        let sku = match number_in(call.request.query, "flashPromotionId") {
            None => self.catalog.newest_sku_of(product),
            Some(sale) => sale.ok().and_then(|sale| self.catalog.sku_id(SaleId(sale), product)),
        };
        let sku = sku.ok_or(Refusal::UnknownSku)?;
        self.scratch.clear();
        push_number(&mut self.scratch, self.catalog.skus[sku.0 as usize].counters.available());
        out.body(200, TEXT, &self.scratch);
        Ok(Answer::Ready)
    }
}

/// What fuzz/targets ask of a body: whether it is understood.
#[cfg(fuzzing)]
pub(in crate::http) fn understand(body: &[u8]) -> Result<(), Problem> {
    crate::http::wire::body::parse::<Generate<'_>>(body).map(drop)
}
