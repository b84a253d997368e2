//! The published interface: its two POST routes and its stock read, with the shapes that load tools expect.
//!
//! Success replies of one SKU and address have one constant length: `ab` counts any other as failed. So ids
//! and times have a fixed width, and the buyer's number is padded with spaces, which JSON allows. Called by:
//! the service.

use engine::{OrderView, ProductId, Refusal, SaleId, SkuId};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::address::{DeliveryAddress, PublishedAddress};
use super::answer::{Answering, TEXT};
use super::error::Problem;
use super::orders::read_object;
use super::pending::{Placed, Waiting};
use super::placing::key_of;
use super::service::{Call, HttpService, other};
use super::wire::{decimal, parameter, push_order_id, push_padded, push_text, push_u64};
use crate::catalog::Catalog;
use crate::net::Answer;
use crate::writer::{Reply, Request};

/// Digits of the largest buyer's number.
const BUYER_DIGITS: usize = 19;
/// Longest message body that is stored, in bytes: what the published command sends, eight times over.
const MESSAGE_BYTES_MAX: usize = 4096;

const SENT: &[u8] = br#"{"code":200,"message":"The message is sent.","data":"success"}"#;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Generate<'a> {
    flash_promotion_id: u64,
    product_id: u64,
    #[serde(borrow)]
    member_receive_address: Option<PublishedAddress<'a>>,
    order_id: Option<u64>,
    order_item_id: Option<u64>,
    pay_type: Option<u64>,
}

/// What a reply repeats from its request: numbers, and the receiver as the fields of the reply.
#[derive(Debug, Default)]
pub(super) struct Echo {
    order_id: Option<u64>,
    order_item_id: Option<u64>,
    pay_type: Option<u64>,
    receiver: Vec<u8>,
}

impl HttpService {
    pub(super) fn generate_order(&mut self, call: &Call<'_>) -> Result<Answer, Problem> {
        let buyer = self.acting_buyer(call)?;
        let key = key_of(call)?;
        let asked: Generate<'_> = read_object(call)?;
        let address = asked.member_receive_address.as_ref().map(DeliveryAddress::published).transpose()?;
        let admitted =
            self.admit(call, buyer, (SaleId(asked.flash_promotion_id), ProductId(asked.product_id)), key)?;
        let echo = Echo {
            order_id: asked.order_id,
            order_item_id: asked.order_item_id,
            pay_type: asked.pay_type,
            receiver: receiver(address.as_ref()),
        };
        let kept = self.keep_address(key.is_some(), 1, address);
        self.place(call, &admitted, 1, kept, Placed::Published(Box::new(echo)))
    }

    pub(super) fn show_generated(
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

    /// Sends one message, and is no order.
    pub(super) fn pressure_mq(&mut self, call: &Call<'_>) -> Result<Answer, Problem> {
        self.acting_buyer(call)?;
        let body: &RawValue = read_object_text(call)?;
        if body.get().len() > MESSAGE_BYTES_MAX {
            return Err(Problem::invalid(format!("The message is longer than {MESSAGE_BYTES_MAX} bytes.")));
        }
        self.ask(call, Request::Message(body.get().as_bytes().into()), Waiting::Message)
    }

    #[expect(clippy::unused_self, reason = "a route like any other")]
    pub(super) fn show_message(&self, reply: Reply, out: &mut Answering<'_, '_>) -> Result<(), Problem> {
        match reply {
            Reply::Stored => {
                out.json(200, SENT);
                Ok(())
            }
            reply => Err(other(reply)),
        }
    }

    /// The stock of a product in the newest sale that has it, or in the sale that is named: digits only.
    pub(super) fn cache_stock(
        &mut self,
        call: &Call<'_>,
        out: &mut Answering<'_, '_>,
    ) -> Result<Answer, Problem> {
        let number = |name| parameter(call.request.query, name).map(decimal);
        let Some(Some(product)) = number("productId") else {
            return Err(Problem::invalid("productId must be a number."));
        };
        let product = ProductId(product);
        let sku = match number("flashPromotionId") {
            None => self.catalog.newest_sku_of(product),
            Some(sale) => sale.and_then(|sale| self.catalog.sku_id(SaleId(sale), product)),
        };
        let sku = sku.ok_or(Refusal::UnknownSku)?;
        self.scratch.clear();
        push_u64(&mut self.scratch, self.catalog.skus[sku.0 as usize].counters.available());
        out.body(200, TEXT, &self.scratch);
        Ok(Answer::Ready)
    }
}

fn read_object_text<'a>(call: &Call<'a>) -> Result<&'a RawValue, Problem> {
    read_object(call)
}

/// The receiver's fields of the reply, each with a comma before it.
fn receiver(address: Option<&DeliveryAddress<'_>>) -> Vec<u8> {
    const FIELDS: [(&str, &str); 7] = [
        ("receiverName", "name"),
        ("receiverPhone", "phone"),
        ("receiverPostCode", "post_code"),
        ("receiverProvince", "province"),
        ("receiverCity", "city"),
        ("receiverRegion", "district"),
        ("receiverDetailAddress", "detail"),
    ];
    let mut out = Vec::with_capacity(320);
    for (theirs, ours) in FIELDS {
        let value = address.map_or("null", |address| address.field(ours));
        for part in [",\"", theirs, "\":", value] {
            out.extend_from_slice(part.as_bytes());
        }
    }
    out
}

/// The parts of a success reply that are the same for a SKU.
#[derive(Debug)]
struct Template {
    /// Of the order's item, after its serial number.
    item: Vec<u8>,
    /// Of the order, after its time and up to the pay type.
    amounts: Vec<u8>,
    /// After the receiver.
    end: Vec<u8>,
}

/// The templates of one event loop, made again when the catalog changes.
#[derive(Debug, Default)]
pub(super) struct Templates {
    catalog_version: u64,
    by_sku: Vec<Option<Template>>,
}

impl Templates {
    fn of(&mut self, catalog: &Catalog, sku: SkuId) -> Option<&Template> {
        if self.catalog_version != catalog.version {
            self.by_sku.clear();
            self.by_sku.resize_with(catalog.skus.len(), || None);
            self.catalog_version = catalog.version;
        }
        let place = self.by_sku.get_mut(sku.0 as usize)?;
        if place.is_none() {
            *place = Some(Template::new(catalog, sku)?);
        }
        place.as_ref()
    }
}

const NULLS_OF_ITEM: &str =
    r#""productSkuId":null,"productSkuCode":null,"productCategoryId":19,"sp1":null,"sp2":null,"sp3":null,"#;

impl Template {
    fn new(catalog: &Catalog, sku: SkuId) -> Option<Template> {
        let (sale, item) = catalog.item(sku)?;
        let price = money(item.price, &sale.spec.currency);
        let discount = money(item.list_price.saturating_sub(item.price), &sale.spec.currency);
        let points = item.price / 100;
        let mut of_item = Vec::new();
        let mut push = |text: &str| of_item.extend_from_slice(text.as_bytes());
        push(&format!(
            r#"","productId":{},"productPic":"/seckill_{}_{}.html","productName":"#,
            item.product.0, sale.spec.id.0, item.product.0
        ));
        push_text(&mut of_item, &item.title);
        let mut push = |text: &str| of_item.extend_from_slice(text.as_bytes());
        push(&format!(
            r#","productBrand":"Doorbuster","productSn":"{:07}","productPrice":{price},"productQuantity":1,{NULLS_OF_ITEM}"promotionName":"#,
            item.product.0
        ));
        push_text(&mut of_item, &sale.spec.title);
        let mut push = |text: &str| of_item.extend_from_slice(text.as_bytes());
        push(&format!(
            r#","promotionAmount":0,"couponAmount":0,"integrationAmount":0,"realAmount":{price},"giftIntegration":{points},"giftGrowth":{points},"productAttr":null,"gmtCreate":null,"gmtModified":null}}],"orderStatus":"1","order":{{"id":"#
        ));
        let amounts = format!(
            r#"+00:00","memberUsername":null,"totalAmount":{price},"payAmount":{price},"freightAmount":0,"promotionAmount":0,"integrationAmount":0,"couponAmount":null,"discountAmount":{discount},"payType":"#
        );
        let mut end = format!(
            r#","sourceType":0,"status":0,"orderType":1,"deliveryCompany":null,"deliverySn":null,"autoConfirmDay":null,"integration":{points},"growth":{points},"promotionInfo":"#
        )
        .into_bytes();
        push_text(&mut end, &sale.spec.title);
        end.extend_from_slice(br#","billType":null,"billHeader":null,"billContent":null,"billReceiverPhone":null,"billReceiverEmail":null"#);
        Some(Template { item: of_item, amounts: amounts.into_bytes(), end })
    }

    fn write(&self, out: &mut Vec<u8>, order: &OrderView, echo: &Echo) {
        out.extend_from_slice(br#"{"code":200,"message":"Order accepted: pay in time and it is yours.","data":{"orderItemList":[{"id":"#);
        push_number_or_null(out, echo.order_item_id);
        out.extend_from_slice(br#","orderId":null,"orderSn":""#);
        push_order_id(out, order.id);
        out.extend_from_slice(&self.item);
        push_number_or_null(out, echo.order_id);
        out.extend_from_slice(br#","memberId":"#);
        push_spaced(out, order.buyer.0);
        out.extend_from_slice(br#","couponId":null,"orderSn":""#);
        push_order_id(out, order.id);
        out.extend_from_slice(br#"","createTime":""#);
        push_time(out, order.placed_at.0);
        out.extend_from_slice(&self.amounts);
        push_number_or_null(out, echo.pay_type);
        out.extend_from_slice(&self.end);
        out.extend_from_slice(&echo.receiver);
        out.extend_from_slice(br#","note":null,"confirmStatus":0,"deleteStatus":0,"useIntegration":null,"paymentTime":null,"deliveryTime":null,"receiveTime":null,"commentTime":null,"modifyTime":null,"qrcode":null,"gmtCreate":null,"gmtModified":null,"version":null}}}"#);
    }
}

fn push_number_or_null(out: &mut Vec<u8>, number: Option<u64>) {
    match number {
        Some(number) => push_u64(out, number),
        None => out.extend_from_slice(b"null"),
    }
}

/// The number with spaces before it, to one width for all buyers.
fn push_spaced(out: &mut Vec<u8>, number: u64) {
    let begun = out.len();
    push_u64(out, number);
    let missing = BUYER_DIGITS.saturating_sub(out.len() - begun);
    out.resize(out.len() + missing, b' ');
    out[begun..].rotate_right(missing);
}

/// `2023-08-10T07:41:03.511`, in UTC. The years from 1970 to 9999 have one width.
fn push_time(out: &mut Vec<u8>, ms: u64) {
    const DAY_MS: u64 = 86_400_000;
    let (year, month, day) = civil(ms / DAY_MS);
    let second = ms % DAY_MS / 1000;
    let parts = [
        (year, 4, b'-'),
        (month, 2, b'-'),
        (day, 2, b'T'),
        (second / 3600, 2, b':'),
        (second / 60 % 60, 2, b':'),
        (second % 60, 2, b'.'),
    ];
    for (number, width, then) in parts {
        push_padded(out, number, width);
        out.push(then);
    }
    push_padded(out, ms % 1000, 3);
}

/// Year, month and day of a day counted from 1970-01-01: years begin in March here, so that the leap day is
/// the last of its year, and 400 of them are one cycle.
fn civil(day: u64) -> (u64, u64, u64) {
    let day = day + 719_468;
    let (cycle, of_cycle) = (day / 146_097, day % 146_097);
    let year = (of_cycle - of_cycle / 1460 + of_cycle / 36_524 - of_cycle / 146_096) / 365;
    let of_year = of_cycle - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let (month, carry) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    (cycle * 400 + year + carry, month, day)
}

/// Minor units as the published interface writes money, `4999.00`.
fn money(minor: u64, currency: &str) -> String {
    match crate::pages::minor_digits(currency) {
        0 => minor.to_string(),
        digits => {
            let unit = 10_u64.pow(digits);
            format!("{}.{:0width$}", minor / unit, minor % unit, width = digits as usize)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_one_width() {
        for (ms, text) in [
            (0, "1970-01-01T00:00:00.000"),
            (1_691_653_263_511, "2023-08-10T07:41:03.511"),
            (1_709_164_799_999, "2024-02-28T23:59:59.999"),
            (1_709_251_199_999, "2024-02-29T23:59:59.999"),
            (1_709_251_200_000, "2024-03-01T00:00:00.000"),
            (951_782_400_000, "2000-02-29T00:00:00.000"),
            (4_107_542_400_000, "2100-03-01T00:00:00.000"),
            (1_735_689_599_999, "2024-12-31T23:59:59.999"),
        ] {
            let mut out = Vec::new();
            push_time(&mut out, ms);
            assert_eq!(String::from_utf8(out).unwrap(), text);
        }
    }

    #[test]
    fn buyers_have_one_width() {
        for buyer in [0, 7, 462_245, i64::MAX.unsigned_abs()] {
            let mut out = Vec::new();
            push_spaced(&mut out, buyer);
            assert_eq!(out.len(), BUYER_DIGITS);
            assert_eq!(serde_json::from_slice::<u64>(&out).unwrap(), buyer);
        }
    }

    #[test]
    fn money_has_the_digits_of_its_currency() {
        assert_eq!(money(499_900, "EUR"), "4999.00");
        assert_eq!(money(5, "USD"), "0.05");
        assert_eq!(money(4999, "JPY"), "4999");
    }
}
