//! The reply of the published order route: assembled from what is the same for a SKU, and what is not.
//!
//! Each loop keeps one template per SKU, made again when the catalog changes; an answer is then a few copies.
//! Ids, times and the buyer's number have a fixed width, so that every success of one SKU and address has one
//! length.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use engine::{OrderView, SkuId};

use crate::http::wire::address::DeliveryAddress;
use crate::http::wire::{push_number, push_order_id, push_padded, push_text};
use crate::intake::catalog::Catalog;
use crate::pages::amount;
use engine::date_of;

/// Digits of the largest buyer's number.
const BUYER_DIGITS: usize = 19;

/// What a reply repeats from its request: numbers, and the receiver as the fields of the reply.
#[derive(Debug, Default)]
pub(in crate::http) struct Echo {
    pub(in crate::http) order_id: Option<u64>,
    pub(in crate::http) order_item_id: Option<u64>,
    pub(in crate::http) pay_type: Option<u64>,
    pub(in crate::http) receiver: Vec<u8>,
}

/// The receiver's fields of the reply, up to their values; and their places in an address.
const RECEIVER: [(&str, usize); 7] = [
    (r#","receiverName":"#, 0),
    (r#","receiverPhone":"#, 1),
    (r#","receiverPostCode":"#, 7),
    (r#","receiverProvince":"#, 3),
    (r#","receiverCity":"#, 4),
    (r#","receiverRegion":"#, 5),
    (r#","receiverDetailAddress":"#, 6),
];

/// The receiver's fields of the reply, each with a comma before it.
pub(in crate::http) fn receiver(address: Option<&DeliveryAddress<'_>>) -> Vec<u8> {
    let mut out = Vec::with_capacity(320);
    for (name, place) in RECEIVER {
        out.extend_from_slice(name.as_bytes());
        out.extend_from_slice(address.map_or("null", |address| address.field(place)).as_bytes());
    }
    out
}

/// The parts of a success reply that are the same for a SKU.
#[derive(Debug)]
pub(in crate::http) struct Template {
    /// Of the order's item, after its serial number.
    item: Vec<u8>,
    /// Of the order, after its time and up to the pay type.
    amounts: Vec<u8>,
    /// After the receiver.
    end: Vec<u8>,
}

/// Templates that a loop keeps, of about a kilobyte each; with more it begins anew.
const TEMPLATES_MAX: usize = 1024;

/// The templates of one event loop, made again when the catalog changes.
#[derive(Debug, Default)]
pub(in crate::http) struct Templates {
    catalog_version: u64,
    by_sku: HashMap<SkuId, Template>,
}

impl Templates {
    pub(in crate::http) fn of(&mut self, catalog: &Catalog, sku: SkuId) -> Option<&Template> {
        if self.catalog_version != catalog.version || self.by_sku.len() >= TEMPLATES_MAX {
            self.by_sku.clear();
            self.catalog_version = catalog.version;
        }
        match self.by_sku.entry(sku) {
            Entry::Occupied(kept) => Some(kept.into_mut()),
            Entry::Vacant(place) => Some(place.insert(Template::new(catalog, sku)?)),
        }
    }
}

const NULLS_OF_ITEM: &str =
    r#""productSkuId":null,"productSkuCode":null,"productCategoryId":19,"sp1":null,"sp2":null,"sp3":null,"#;

impl Template {
    fn new(catalog: &Catalog, sku: SkuId) -> Option<Template> {
        let (sale, item) = catalog.item(sku)?;
        let price = amount(item.price, &sale.spec.currency);
        let discount = amount(item.list_price.saturating_sub(item.price), &sale.spec.currency);
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

    pub(in crate::http) fn write(&self, out: &mut Vec<u8>, order: &OrderView, echo: &Echo) {
        out.extend_from_slice(br#"{"code":200,"message":"Order accepted: pay in time and it is yours.","data":{"orderItemList":[{"id":"#);
        push_number_or_null(out, echo.order_item_id);
        out.extend_from_slice(br#","orderId":null,"orderSn":""#);
        push_order_id(out, order.id);
        out.extend_from_slice(&self.item);
        push_number_or_null(out, echo.order_id);
        out.extend_from_slice(br#","memberId":"#);
        // The route takes numbers only.
        push_spaced(out, order.buyer.number().unwrap_or_default());
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
        Some(number) => push_number(out, number),
        None => out.extend_from_slice(b"null"),
    }
}

/// The number with spaces before it, to one width for all buyers.
fn push_spaced(out: &mut Vec<u8>, number: u64) {
    let begun = out.len();
    push_number(out, number);
    let missing = BUYER_DIGITS.saturating_sub(out.len() - begun);
    out.resize(out.len() + missing, b' ');
    out[begun..].rotate_right(missing);
}

/// `2023-08-10T07:41:03.511`, in UTC. The years from 1970 to 9999 have one width.
fn push_time(out: &mut Vec<u8>, ms: u64) {
    const DAY_MS: u64 = 86_400_000;
    let (year, month, day) = date_of(ms / DAY_MS);
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::wire::address::{NAMES, PublishedAddress};

    #[test]
    fn the_receiver_is_who_the_address_names() {
        let places = RECEIVER.map(|(_, place)| NAMES[place]);
        assert_eq!(places, ["name", "phone", "post_code", "province", "city", "district", "detail"]);
        let wire = r#"{"name":"Li","phoneNumber":"180","postCode":"518","province":"G","city":"S","region":"N",
            "detailAddress":"12"}"#;
        let wire: PublishedAddress<'_> = serde_json::from_str(wire).unwrap();
        let address = DeliveryAddress::published(&wire).unwrap();
        let expected = r#","receiverName":"Li","receiverPhone":"180","receiverPostCode":"518","receiverProvince":"G","receiverCity":"S","receiverRegion":"N","receiverDetailAddress":"12""#;
        assert_eq!(receiver(Some(&address)), expected.as_bytes());
        let none = receiver(None);
        assert!(none.starts_with(br#","receiverName":null,"receiverPhone":null,"#), "{none:?}");
    }

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
}
