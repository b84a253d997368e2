//! Bounds per address: whom they touch, and that a crowd behind one address is not locked out.

use super::problem;
use super::shop::{SECRET, Sent, Setup, Shop, token_mode};
use crate::http::AuthMode;
use crate::net::TrustedProxies;

const PROXY: [u8; 4] = [10, 0, 0, 1];

/// A token of a buyer that does not expire while the tests run.
fn token(buyer: u64) -> String {
    use base64::Engine;
    use base64::engine::general_purpose::URL_SAFE_NO_PAD;
    use ring::hmac;
    let part = |json: &str| URL_SAFE_NO_PAD.encode(json);
    let signed = format!(
        "{}.{}",
        part(r#"{"alg":"HS256","typ":"JWT"}"#),
        part(&format!(r#"{{"sub":{buyer},"exp":9999999999}}"#))
    );
    let tag = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, SECRET), signed.as_bytes());
    format!("Bearer {signed}.{}", URL_SAFE_NO_PAD.encode(tag.as_ref()))
}

fn order() -> Sent {
    Sent::post("/api/v1/orders", r#"{"sale":3,"product":29}"#)
}

/// A shop behind a proxy, where an address may fail twice a second.
fn shop(auth: AuthMode) -> Shop {
    let mut setup = Setup::new(auth);
    setup.options.demo = false;
    setup.options.anonymous_requests_per_s_per_address = 2;
    setup.options.trusted_proxies = TrustedProxies::parse(&["10.0.0.0/8".to_owned()]).unwrap();
    Shop::with(setup)
}

#[test]
fn who_fails_to_say_who_asks_is_bounded_and_a_buyer_of_the_same_address_never() {
    let mut shop = shop(token_mode());
    let order_id = "0".repeat(40);
    for sent in [order(), order().with("Authorization", "Bearer x.y.z")] {
        assert_eq!(shop.send(&sent).problem(), problem(401, "unauthorized"));
    }
    for sent in [
        order(),
        order().with("Authorization", "Bearer x.y.z"),
        Sent::get(&format!("/api/v1/orders/{order_id}")),
        Sent::post(&format!("/api/v1/orders/{order_id}/cancel"), ""),
        Sent::post("/api/v1/payments", "{}"),
    ] {
        let bounded = shop.send(&sent);
        assert_eq!(bounded.problem(), problem(429, "anonymous_rate_limited"), "{sent:?}");
        assert_eq!(bounded.header("retry-after"), Some("1"));
    }
    // What anybody may read, the operator, and buyers with a token are served from there all the same.
    for buyer in 1..50 {
        assert_eq!(shop.send(&order().with("Authorization", &token(buyer))).status, 201);
        for path in
            ["/", "/seckill_3_29.html", "/api/v1/sales", "/api/v1/stock?sale=3&product=29", "/healthz"]
        {
            assert_eq!(shop.send(&Sent::get(path)).status, 200, "{path}");
        }
    }
    assert_eq!(shop.send(&Sent::get("/api/v1/payments/refunds-due").operator()).status, 200);
    assert_eq!(shop.send(&order().from([127, 0, 0, 2])).status, 401, "another address");
}

#[test]
fn behind_a_trusted_proxy_the_client_counts_and_what_it_made_up_does_not() {
    let mut shop = shop(token_mode());
    let asked = |list: &str| order().from(PROXY).with("X-Forwarded-For", list);
    for made_up in ["1.1.1.1", "2.2.2.2"] {
        assert_eq!(shop.send(&asked(&format!("{made_up}, 198.51.100.1, 10.0.0.2"))).status, 401);
    }
    assert_eq!(shop.send(&asked("3.3.3.3, 198.51.100.1")).status, 429);
    assert_eq!(shop.send(&asked("198.51.100.2")).status, 401, "another client of the same proxy");
    // From somebody who is no proxy of ours the header says nothing.
    let stranger = |list: &str| order().from([203, 0, 113, 5]).with("X-Forwarded-For", list);
    let statuses = ["1.1.1.1", "2.2.2.2", "3.3.3.3"].map(|list| shop.send(&stranger(list)).status);
    assert_eq!(statuses, [401, 401, 429]);
}

#[test]
fn wrong_operator_tokens_are_counted_by_client() {
    let mut shop = shop(AuthMode::MemberId);
    let guess = |client: &str| {
        let asked = Sent::get("/api/v1/payments/refunds-due").from(PROXY);
        asked.with("X-Forwarded-For", client).with("Authorization", "Bearer wrong")
    };
    let mut statuses: Vec<u16> = (0..20).map(|_| shop.send(&guess("198.51.100.1")).status).collect();
    statuses.dedup();
    assert_eq!(statuses, [401, 429]);
    assert_eq!(shop.send(&guess("198.51.100.2")).status, 401);
}
