//! Hostile input: whatever is sent to whatever address, there is an answer and no panic, and the sums hold.

use proptest::prelude::*;

use super::payments::signed;
use super::shop::{NOW, Sent, Setup, Shop, demo_mode, token_mode};

fn target() -> impl Strategy<Value = String> {
    let known = prop::sample::select(vec![
        "/api/v1/orders",
        "/api/v1/orders/0/cancel",
        "/api/v1/orders/0/pay",
        "/api/v1/stock?sale=3&product=29",
        "/api/v1/sales",
        "/api/v1/sales?state=ended&cursor=1&limit=2",
        "/api/v1/sales/3",
        "/api/v1/sales/3?cursor=1&limit=1",
        "/sales/3?cursor=1",
        "/api/v1/sales/3/pause",
        "/api/v1/sales/3/items/29/restock",
        "/api/v1/payments",
        "/api/v1/payments/%20/settle",
        "/api/v1/demo/load",
        "/api/v1/demo/session",
        "/api/v1/clock/confirm",
        "/api/v1/payments/refunds-due",
        "/seckillOrder/generateOrder",
        "/seckillOrder/pressureMQ",
        "/cache/stock?productId=29",
        "/order/submit",
        "/product?memberId=1",
        "/seckill_3_29.html",
        "/",
        "/api",
        "/metrics",
        "/readyz",
        "/assets/x",
    ]);
    prop_oneof![
        4 => known.prop_map(str::to_owned),
        1 => "/[ -~]{0,40}",
        1 => "(/api/v1)?(/[a-z0-9%]{0,9}){0,6}(\\?[ -~]{0,30})?",
        1 => "/(product|cache/stock|api/v1/stock)\\?(productId|memberId|sale|product)=[ -~]{0,20}",
        1 => "/(api/v1/sales|sales/3)?\\?(state|cursor|limit)=[ -~]{0,20}",
    ]
}

fn header() -> impl Strategy<Value = (String, Vec<u8>)> {
    let name = prop::sample::select(vec![
        "memberId",
        "Authorization",
        "Idempotency-Key",
        "Content-Type",
        "Cookie",
        "Origin",
        "Sec-Fetch-Site",
        "Accept",
        "Accept-Encoding",
        "If-None-Match",
        "Doorbuster-Signature",
        "Host",
        "X-Other",
    ]);
    let value = prop_oneof![
        Just(b"1".to_vec()),
        Just(b"Bearer the operator's token".to_vec()),
        Just(b"application/json".to_vec()),
        "[ -~]{0,40}".prop_map(String::into_bytes),
        prop::collection::vec(any::<u8>(), 0..40),
    ];
    (name.prop_map(str::to_owned), value)
}

fn body() -> impl Strategy<Value = Vec<u8>> {
    let json = prop::sample::select(vec![
        r#"{"sale":3,"product":29}"#,
        r#"{"sale":3,"product":31,"quantity":7,"address":{"name":"\ud83d\ude00"}}"#,
        r#"{"flashPromotionId":3,"productId":30,"memberReceiveAddress":{"name":"x"}}"#,
        r#"{"units":3}"#,
        r#"{"balance":18446744073709551615}"#,
        r#"{"payment_id":"p","order":"0","amount":1}"#,
        r#"{"title":"t","ends_at_ms":18446744073709551615,"payment_s":18446744073709551615}"#,
        r#"{"title":"t","currency":"EUR","starts_at_ms":1,"ends_at_ms":9007199254740993,"items":[{"product":1,"title":"t","price":0,"total":18446744073709551615}]}"#,
        "user_id=1&goods_id=101&count=1",
    ]);
    prop_oneof![
        3 => (json, any::<prop::sample::Index>(), any::<Option<u8>>()).prop_map(|(json, at, change)| {
            let mut bytes = json.as_bytes().to_vec();
            if let Some(byte) = change {
                let at = at.index(bytes.len());
                bytes[at] = byte;
            }
            bytes
        }),
        1 => prop::collection::vec(any::<u8>(), 0..200),
        1 => "[\\[\\]{}\":,0-9a-z\\\\ ]{0,80}".prop_map(String::into_bytes),
    ]
}

/// A callback that is signed rightly, whatever its body: nothing may be believed of it but its sender.
fn signed_callback() -> impl Strategy<Value = Sent> {
    let number = prop_oneof![any::<u64>().prop_map(|number| number.to_string()), "-?[0-9.e]{1,24}"];
    let order = prop_oneof!["[0-9a-f]{40}", "[ -~]{0,50}"];
    let callback = ("[ -!#-\\[\\]-~]{0,70}", order, number).prop_map(|(payment, order, amount)| {
        format!(r#"{{"payment_id":"{payment}","order":{order:?},"amount":{amount}}}"#)
    });
    let text = body().prop_map(|body| String::from_utf8_lossy(&body).into_owned());
    prop_oneof![3 => callback, 1 => text].prop_map(|body| signed(&body, NOW.0 / 1000))
}

fn sent() -> impl Strategy<Value = Sent> {
    prop_oneof![9 => unsigned(), 1 => signed_callback()]
}

fn unsigned() -> impl Strategy<Value = Sent> {
    let method = prop::sample::select(vec!["GET", "HEAD", "POST", "PATCH", "OPTIONS", "DELETE", "get", ""]);
    let method = prop_oneof![4 => Just("POST"), 3 => method];
    (method, target(), prop::collection::vec(header(), 0..8), body()).prop_map(
        |(method, target, headers, body)| Sent {
            method: method.to_owned(),
            target,
            headers,
            body,
            peer: [127, 0, 0, 1],
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]

    #[test]
    fn whatever_is_sent_is_answered(requests in prop::collection::vec(sent(), 1..60), tokens: bool) {
        let mode = if tokens { token_mode() } else { demo_mode() };
        let mut shop = Shop::with(Setup { ledger: true, ..Setup::new(mode) });
        for sent in &requests {
            // The ledger's thread answers these two when it likes; there is a test for them.
            if sent.target.starts_with("/api/v1/audit") || (sent.method != "POST" && sent.target.starts_with("/api/v1/orders?")) {
                continue;
            }
            let response = shop.send(sent);
            prop_assert!((200..600).contains(&response.status) && response.status != 500, "{:?}", sent);
            if response.status >= 400 && response.header("content-type") == Some("application/problem+json") {
                response.problem();
            }
        }
        shop.check_sums();
    }
}
