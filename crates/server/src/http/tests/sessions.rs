//! A token of the shop becomes a session, by the API or by a form, and who may not have one is answered why.

use std::io::{Read, Write};
use std::net::TcpListener;

use serde_json::Value;

use super::shop::{NOW, SECRET, Sent, Setup, Shop, demo_mode, token_mode};
use super::{Response, problem};
use crate::http::{AuthMode, mint};
use crate::shop_keys::{KeySource, ShopKeys};

const SESSION: &str = "/api/v1/session";
const ORDERS: &str = "/api/v1/orders";
const ORDER: &str = r#"{"sale":3,"product":29}"#;
const BUYER: &str = "anna@shop.example";

fn made() -> Value {
    serde_json::from_str(include_str!("../../../tests/data/shop-keys.json")).unwrap()
}

/// Tokens that the keys have signed.
fn tokens() -> Vec<String> {
    let made = made();
    let tokens = made["tokens"].as_array().unwrap().iter().filter(|token| token["kid"] != "rsa-0");
    tokens.map(|token| token["token"].as_str().unwrap().to_owned()).collect()
}

fn setup(mode: AuthMode) -> Setup {
    let mut setup = Setup::new(mode);
    setup.secrets.shop_keys = Some(ShopKeys::read(&made()["jwks"].to_string()).unwrap());
    setup
}

fn exchange(token: &str) -> Sent {
    Sent::post(SESSION, "").with("Authorization", &format!("Bearer {token}"))
}

fn form(fields: &str) -> Sent {
    let sent = Sent::post(SESSION, fields).with("Content-Type", "application/x-www-form-urlencoded");
    sent.with("Origin", "https://login.example").with("Sec-Fetch-Site", "cross-site")
}

/// The values of its cookies, without their attributes.
fn cookies(response: &Response) -> String {
    let set = response.headers.iter().filter(|(name, _)| name == "set-cookie");
    set.map(|(_, value)| value.split(';').next().unwrap()).collect::<Vec<_>>().join("; ")
}

#[test]
fn a_token_of_the_shop_is_exchanged_once_and_orders_take_the_session() {
    let mut shop = Shop::with(setup(token_mode()));
    for token in tokens() {
        let direct = Sent::post(ORDERS, ORDER).with("Authorization", &format!("Bearer {token}"));
        assert_eq!(shop.send(&direct).problem(), problem(401, "unauthorized"), "never checked for an order");
        // In whole seconds of a clock that goes on.
        let asked = shop.shared.clock.now().0 / 1000;
        let opened = shop.send(&exchange(&token));
        let answered = shop.shared.clock.now().0 / 1000;
        let session = opened.json();
        assert_eq!((opened.status, &session["buyer"]), (200, &BUYER.into()), "{session}");
        let expires = session["expires_at_ms"].as_u64().unwrap() / 1000 - 300;
        assert!((asked..=answered).contains(&expires), "{session}");
        assert_eq!(opened.header("cache-control"), Some("no-store"));
        let bearer = format!("Bearer {}", session["token"].as_str().unwrap());
        let placed = shop.send(&Sent::post(ORDERS, ORDER).with("Authorization", &bearer));
        assert_eq!((placed.status, &placed.json()["buyer"]), (201, &BUYER.into()));
    }
    let rules = setup(token_mode()).options.sessions.rules;
    let ours = mint(SECRET, &rules, "7", NOW.0 / 1000 + 200).unwrap();
    let opened = shop.send(&exchange(&ours)).json();
    assert_eq!((&opened["buyer"], &opened["expires_at_ms"]), (&"7".into(), &(NOW.0 + 200_000).into()));
}

#[test]
fn a_form_of_the_shop_leaves_a_cookie_and_no_token_in_the_address() {
    let mut shop = Shop::with(setup(token_mode()));
    let token = &tokens()[0];
    let opened = shop.send(&form(&format!("token={token}&to=%2Fseckill_3_29.html%3Fa%3Db")));
    assert_eq!((opened.status, opened.header("location")), (303, Some("/seckill_3_29.html?a=b")));
    assert_eq!(opened.header("referrer-policy"), Some("no-referrer"));
    let set: Vec<_> = opened.headers.iter().filter(|(name, _)| name == "set-cookie").collect();
    assert!(set.iter().all(|(_, value)| value.contains("; Path=/; Max-Age=300; SameSite=Lax")), "{set:?}");
    assert!(set[0].1.starts_with("doorbuster_token=") && set[0].1.ends_with("; HttpOnly"), "{set:?}");
    assert!(set[1].1.starts_with("doorbuster_session=") && !set[1].1.contains("HttpOnly"), "{set:?}");
    assert!(opened.body.is_empty());
    let cookie = format!("theme=dark; {}", cookies(&opened));
    let order = Sent::post(ORDERS, ORDER).with("Cookie", &cookie);
    let placed = shop.send(&order.clone().with("Origin", "http://here"));
    assert_eq!((placed.status, &placed.json()["buyer"]), (201, &BUYER.into()));
    let path = placed.header("location").unwrap();
    assert_eq!(shop.send(&Sent::get(path).with("Cookie", &cookie)).as_placed(), placed.json());
    for (name, value) in [
        ("Origin", "https://evil.example"),
        ("Origin", "https://login.example"),
        ("Sec-Fetch-Site", "cross-site"),
    ] {
        let refused = shop.send(&order.clone().with(name, value));
        assert_eq!(refused.problem(), problem(403, "forbidden_origin"), "{name}: {value}");
    }
    let both = order.with("Authorization", "Bearer x");
    assert_eq!(shop.send(&both).problem(), problem(401, "unauthorized"), "the header is what counts");
    assert_eq!(shop.send(&form(&format!("token={token}"))).header("location"), Some("/"));
}

/// A proxy before the server ends TLS: the cookie went by plain HTTP, too.
#[test]
fn a_session_that_came_by_tls_goes_by_tls_alone() {
    let mut shop = Shop::with(setup(token_mode()));
    let fields = format!("token={}", tokens()[0]);
    for (origin, site, secure) in [
        ("https://login.example", None, false),
        // Which browsers say by TLS alone, whatever page it is.
        ("https://login.example", Some("cross-site"), true),
        ("https://here", None, true),
        ("http://here", None, false),
        ("http://here", Some("same-origin"), false),
    ] {
        let sent = Sent::post(SESSION, &fields).with("Content-Type", "application/x-www-form-urlencoded");
        let sent = sent.with("Origin", origin);
        let opened = shop.send(&site.map_or(sent.clone(), |site| sent.with("Sec-Fetch-Site", site)));
        let set: Vec<_> = opened.headers.iter().filter(|(name, _)| name == "set-cookie").collect();
        assert_eq!((opened.status, set.len()), (303, 2));
        assert!(set.iter().all(|(_, value)| value.contains("; Secure") == secure), "{origin}: {set:?}");
    }
    let mut demo = Shop::new(demo_mode());
    for (origin, secure) in [("https://here", true), ("http://here", false)] {
        let begun = demo.send(&Sent::post("/api/v1/demo/session", "").with("Origin", origin));
        assert_eq!(begun.header("set-cookie").unwrap().contains("; Secure"), secure, "{origin}");
    }
}

#[test]
fn who_gets_no_session_is_answered_why() {
    let mut shop = Shop::with(setup(token_mode()));
    let good = tokens().remove(0);
    let of = |origin: &str| {
        let sent = Sent::post(SESSION, &format!("token={good}"));
        sent.with("Content-Type", "application/x-www-form-urlencoded; charset=utf-8").with("Origin", origin)
    };
    assert_eq!(
        shop.send(&of("https://shop.example")).status,
        303,
        "an allowed origin acts for a reader anyway"
    );
    assert_eq!(shop.send(&of("http://here")).status, 303);
    let without_origin = Sent::post(SESSION, &format!("token={good}"))
        .with("Content-Type", "application/x-www-form-urlencoded");
    let elsewhere = |to: &str| form(&format!("token={good}&to={to}"));
    for (sent, status, code) in [
        (without_origin, 403, "forbidden_origin"),
        (of("null"), 403, "forbidden_origin"),
        (of("https://evil.example"), 403, "forbidden_origin"),
        (of("https://login.example.evil"), 403, "forbidden_origin"),
        (exchange(&good).with("Origin", "https://evil.example"), 403, "forbidden_origin"),
        (form(""), 400, "invalid_request"),
        (form("token="), 400, "invalid_request"),
        (form("token=%zz"), 400, "invalid_request"),
        (elsewhere("https://evil.example"), 400, "invalid_request"),
        (elsewhere("//evil.example"), 400, "invalid_request"),
        (elsewhere("/%0d%0aSet-Cookie:x"), 400, "invalid_request"),
        (form("token=x"), 401, "unauthorized"),
        (form(&format!("token={good}x")), 401, "unauthorized"),
        (exchange(&good.replace('.', "")), 401, "unauthorized"),
        (Sent::post(SESSION, ""), 401, "unauthorized"),
        (Sent::post(SESSION, "{}").with("Content-Type", "application/json"), 415, "unsupported_media_type"),
        (Sent::get(SESSION), 405, "method_not_allowed"),
    ] {
        assert_eq!(shop.send(&sent).problem(), problem(status, code), "{sent:?}");
    }
    let unknown = made()["tokens"][6]["token"].as_str().unwrap().to_owned();
    assert!(shop.send(&exchange(&unknown)).text().contains("(alg, kid)"));
    shop.advance(600_000);
    assert!(shop.send(&exchange(&good)).text().contains("has expired"));
    let mut none = Shop::new(token_mode());
    assert!(none.send(&exchange(&good)).text().contains("no public keys of the shop"));
    let mut demo = Shop::with(setup(demo_mode()));
    assert_eq!(demo.send(&exchange(&good)).problem(), problem(403, "sessions_off"));
    let mut without_secret = setup(AuthMode::MemberId);
    without_secret.secrets.session.clear();
    let answer = Shop::with(without_secret).send(&exchange(&good));
    assert_eq!(answer.problem(), problem(403, "sessions_off"));
}

#[test]
fn behind_an_edge_sessions_are_opened_too() {
    let mut shop = Shop::with(setup(AuthMode::MemberId));
    assert_eq!(shop.send(&exchange(&tokens()[1])).json()["buyer"], BUYER);
}

#[test]
fn exchanges_are_bounded_by_address() {
    let mut setup = setup(token_mode());
    setup.options.sessions_per_s_per_address = 2;
    let mut shop = Shop::with(setup);
    let token = tokens().remove(2);
    let answers: Vec<_> = (0..40).map(|_| shop.send(&exchange(&token))).collect();
    let bounded = answers.iter().find(|answer| answer.status == 429).expect("one is too many");
    assert_eq!(bounded.problem(), problem(429, "session_rate_limited"));
    assert_eq!(bounded.header("retry-after"), Some("1"));
    assert_eq!(shop.send(&exchange(&token).from([10, 0, 0, 7])).status, 200, "others are served");
}

#[test]
fn keys_of_a_url_are_fetched_before_the_first_session_and_its_absence_is_said() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/keys", listener.local_addr().unwrap());
    let body = made()["jwks"].to_string();
    let server = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut asked = [0; 1024];
        assert!(stream.read(&mut asked).unwrap() > 0 && asked.starts_with(b"GET /keys "));
        let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\nConnection: close\r\n\r\n", body.len());
        stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(body.as_bytes())).unwrap();
    });
    let mut setup = Setup::new(token_mode());
    setup.shop_key_source = Some(KeySource::new(&url, None).unwrap());
    let mut shop = Shop::with(setup);
    for token in tokens() {
        assert_eq!(shop.send(&exchange(&token)).json()["buyer"], BUYER);
    }
    server.join().unwrap();
    let mut setup = Setup::new(token_mode());
    setup.shop_key_source = Some(KeySource::new(&url, None).unwrap());
    let mut shop = Shop::with(setup);
    assert_eq!(shop.send(&exchange(&tokens()[0])).problem(), problem(503, "unavailable"));
}
