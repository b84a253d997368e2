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
use crate::http::wire::body::{read_object, read_plain_object};
use crate::http::wire::error::Problem;
use crate::http::wire::plain::{Plain, once};
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

#[derive(Debug, Deserialize)]
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

impl<'a> Generate<'a> {
    /// Of a plain body.
    fn plain(mut body: Plain<'a>) -> Option<Generate<'a>> {
        let (mut sale, mut product, mut address) = (None, None, None);
        let (mut order_id, mut order_item_id, mut pay_type) = (None, None, None);
        body.object(|body, name| match name {
            "flashPromotionId" => once(&mut sale, body.number()?),
            "productId" => once(&mut product, body.number()?),
            "memberReceiveAddress" => once(&mut address, PublishedAddress::plain(body)?),
            "orderId" => once(&mut order_id, body.number()?),
            "orderItemId" => once(&mut order_item_id, body.number()?),
            "payType" => once(&mut pay_type, body.number()?),
            _ => body.pass_over(),
        })?;
        body.end()?;
        Some(Generate {
            flash_promotion_id: sale?,
            product_id: product?,
            member_receive_address: address,
            order_id,
            order_item_id,
            pay_type,
        })
    }
}

impl HttpService {
    fn generate_order(&mut self, call: &Call<'_>, buyer: Buyer) -> Result<Answer, Problem> {
        if buyer.text.is_some() {
            return Err(Problem::forbidden(
                "The published answer has a number for the buyer: use /api/v1/orders.",
            ));
        }
        let key = key_of(call)?;
        let asked = read_plain_object(call, Generate::plain)?;
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

/// What fuzz/targets ask of a body: whether it is understood, and as the same if it is plain.
#[cfg(fuzzing)]
pub(in crate::http) fn understand(body: &[u8]) -> Result<(), Problem> {
    let parsed = crate::http::wire::body::parse::<Generate<'_>>(body);
    let plain = Plain::of(body).and_then(Generate::plain);
    if plain.is_some() {
        assert_eq!(format!("{plain:?}"), format!("{:?}", parsed.as_ref().ok()));
    }
    parsed.map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::wire::body::parse;

    const USUAL: &str = concat!(
        r#"{"flashPromotionId":3,"memberReceiveAddress":{"city":"Shenzhen","defaultStatus":1,"#,
        r#""detailAddress":"Keji 12","id":1,"name":"Li É","phoneNumber":"180","postCode":"518","province":"","#,
        r#""region":"N"}, "orderId": 1 ,"orderItemId":0,"payType":30, "productId":29,"shop":"us"}"#,
    );

    /// Whether the body is read as plain; then the parser reads the same.
    fn is_plain(body: &[u8]) -> bool {
        let Some(read) = Plain::of(body).and_then(Generate::plain) else { return false };
        let shown = String::from_utf8_lossy(body);
        let parsed = parse::<Generate<'_>>(body).unwrap_or_else(|problem| panic!("{shown}: {problem:?}"));
        assert_eq!(format!("{read:?}"), format!("{parsed:?}"), "{shown}");
        true
    }

    #[test]
    fn what_is_read_as_plain_the_parser_reads_as_the_same() {
        assert!(is_plain(USUAL.as_bytes()));
        let (mut plain, mut others) = (0, 0);
        let mut look = |body: &[u8]| *(if is_plain(body) { &mut plain } else { &mut others }) += 1;
        for at in 0..USUAL.len() {
            let (before, after) = USUAL.as_bytes().split_at(at);
            look(before);
            look(&[before, &after[1..]].concat());
            for other in b"\"\\{}[],: 0129.-+eEnx\t\n\0\x7f\x80\xff" {
                look(&[before, &[*other], after].concat());
                look(&[before, &[*other], &after[1..]].concat());
            }
        }
        assert!(plain > 500 && others > 500, "{plain} and {others}");
    }

    #[test]
    fn what_is_not_plain_is_left_to_the_parser() {
        let with = |old: &str, new: &str| {
            assert!(USUAL.contains(old), "{old}");
            USUAL.replace(old, new)
        };
        for (body, is_understood) in [
            (with("\"N\"", "\"\\u004e\""), true),
            (with("\"N\"", "null"), true),
            (with("\"N\"", "1"), true),
            (with(":29", ":29.0"), true),
            (with(":29", ":029"), false),
            (with(":29", ":9223372036854775807"), true),
            (with(":29", ":9223372036854775808"), false),
            (with(":29", ":29,\"productId\":29"), false),
            (with(", \"productId\":29", ""), false),
            (with("\"us\"", "[]"), true),
            (with("\"us\"", "{\"a\":true}"), true),
            (with("\"us\"}", "\"us\"}\n"), true),
            (with("\"us\"}", "\"us\"}}"), false),
        ] {
            assert!(!is_plain(body.as_bytes()), "{body}");
            assert_eq!(parse::<Generate<'_>>(body.as_bytes()).is_ok(), is_understood, "{body}");
        }
    }
}
