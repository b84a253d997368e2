//! Who a buyer is, the edge alone says: by a token that the shop signed, and never by a header that a client sent.

use std::time::{SystemTime, UNIX_EPOCH};

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::hmac;

use super::{PUBLISHED_ORDER, SECRET, Shop, header};
use crate::exchange::Response;
use crate::serving::OPERATOR;

const PLACE: &str = "/seckillOrder/generateOrder";

fn signed_as(header: &str, claims: &str, secret: &str) -> String {
    let signed = format!("{}.{}", URL_SAFE_NO_PAD.encode(header), URL_SAFE_NO_PAD.encode(claims));
    let tag = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, secret.as_bytes()), signed.as_bytes());
    format!("{signed}.{}", URL_SAFE_NO_PAD.encode(tag))
}

pub(super) fn token(claims: &str) -> String {
    signed_as(r#"{"alg":"HS256","typ":"JWT"}"#, claims, SECRET)
}

#[expect(clippy::disallowed_methods, reason = "the edge goes by the wall clock, and so must its tokens")]
pub(super) fn now_s() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs()
}

/// The member whose order it became.
#[track_caller]
fn member_of(response: &Response) -> u64 {
    assert_eq!(response.status, 200, "{response:?}");
    response.json()["data"]["order"]["memberId"].as_u64().unwrap()
}

#[test]
fn the_buyer_is_the_one_in_the_token_whatever_the_header_says() {
    let shop = Shop::with_tokens(&[]);
    let place = |headers: &[(&str, &str)]| shop.post(PLACE, headers, PUBLISHED_ORDER);
    let later = now_s() + 600;
    for (claims, member) in [
        (format!(r#"{{"sub":"42","exp":{later}}}"#), 42),
        (format!(r#"{{"sub":43,"exp":{later}.5,"nbf":1,"name":"é"}}"#), 43),
        (format!(r#"{{"exp":{later},"sub":"9223372036854775807"}}"#), i64::MAX.unsigned_abs()),
        (format!(r#"{{"exp":{later},"sub":9007199254740991}}"#), 9_007_199_254_740_991),
        (format!(r#"{{"exp":{later},"sub":0}}"#), 0),
    ] {
        let bearer = format!("Bearer {}", token(&claims));
        assert_eq!(member_of(&place(&[("Authorization", &bearer)])), member);
        for name in ["memberId", "MEMBERID", "memberid"] {
            let headers = [(name, "7"), ("Authorization", bearer.as_str()), (name, "8")];
            assert_eq!(member_of(&place(&headers)), member, "{name}");
        }
        // An order with a key takes another way through the edge.
        let key = format!("key-{member}-of-this-test");
        let keyed = [("Authorization", bearer.as_str()), ("memberId", "7"), ("Idempotency-Key", &key)];
        assert_eq!(member_of(&place(&keyed)), member);
        let cookie = format!("a=b; doorbuster_token={}", token(&claims));
        assert_eq!(member_of(&place(&[("Cookie", &cookie), ("memberId", "7")])), member);
    }
}

#[test]
fn while_the_secret_changes_tokens_of_the_previous_one_are_taken_too() {
    let previous = tempfile::NamedTempFile::new().unwrap();
    let older = SECRET.replace("secret", "former");
    std::fs::write(previous.path(), &older).unwrap();
    let shop = Shop::with_tokens(&[("EDGE_TOKEN_SECRET_PREVIOUS_FILE", previous.path().to_str().unwrap())]);
    let claims = format!(r#"{{"sub":"42","exp":{}}}"#, now_s() + 600);
    let place = |secret: &str| {
        let bearer = format!("Bearer {}", signed_as(r#"{"alg":"HS256","typ":"JWT"}"#, &claims, secret));
        shop.post(PLACE, &[("Authorization", &bearer)], PUBLISHED_ORDER)
    };
    assert_eq!([member_of(&place(SECRET)), member_of(&place(&older))], [42, 42]);
    assert_eq!(place(&SECRET.to_uppercase()).status, 401);
}

#[test]
fn a_buyer_may_be_a_text_and_is_the_same_one_at_the_server() {
    let shop = Shop::with_tokens(&[]);
    let order = r#"{"sale":3,"product":29}"#;
    for text in ["anna", "Ännä Ö", "a@b.example", "9223372036854775808", "007"] {
        let bearer = format!("Bearer {}", token(&format!(r#"{{"sub":"{text}","exp":{}}}"#, now_s() + 600)));
        let placed = shop.post("/api/v1/orders", &[("Authorization", &bearer)], order);
        assert_eq!((placed.status, &placed.json()["buyer"]), (201, &text.into()), "{placed:?}");
    }
}

#[test]
fn issuer_and_audience_are_checked_where_they_are_set() {
    let shop = Shop::with_tokens(&[("EDGE_TOKEN_ISSUER", "https://shop"), ("EDGE_TOKEN_AUDIENCE", "drops")]);
    let place = |more: &str| {
        let bearer = token(&format!(r#"{{"sub":"42","exp":{}{more}}}"#, now_s() + 600));
        shop.post(PLACE, &[("Authorization", &format!("Bearer {bearer}"))], PUBLISHED_ORDER)
    };
    for more in [r#","iss":"https://shop","aud":"drops""#, r#","iss":"https://shop","aud":["x","drops"]"#] {
        assert_eq!(member_of(&place(more)), 42);
    }
    for (more, reason) in [
        ("", "no issuer"),
        (r#","iss":"https://other""#, "another issuer"),
        (r#","iss":"https://shop""#, "no audience"),
        (r#","iss":"https://shop","aud":"x""#, "another audience"),
        (r#","iss":"https://shop","aud":["x"]"#, "another audience"),
        (r#","iss":"https://shop","aud":["drops",7]"#, "another audience"),
        (r#","iss":"https://shop","aud":{"drops":"drops"}"#, "another audience"),
    ] {
        let response = place(more);
        assert_eq!(response.status, 401, "{more} {response:?}");
        assert!(response.body.contains(reason), "{more} {response:?}");
    }
}

#[test]
fn a_header_without_a_token_is_nobodys() {
    let shop = Shop::with_tokens(&[]);
    for headers in [
        &[][..],
        &[("memberId", "7")],
        &[("MEMBERID", "7"), ("memberId", "7")],
        &[("memberId", "7"), ("Idempotency-Key", "a-key-of-this-test-1")],
        &[("memberId", "7"), ("Authorization", "Basic Nzo3")],
    ] {
        let response = shop.post(PLACE, headers, PUBLISHED_ORDER);
        assert_eq!(response.status, 401, "{headers:?} {response:?}");
    }
}

#[test]
fn a_bad_token_is_refused_with_its_reason() {
    let shop = Shop::with_tokens(&[]);
    let (later, before) = (now_s() + 600, now_s() - 1);
    let good = format!(r#"{{"sub":"42","exp":{later}}}"#);
    let usual = r#"{"alg":"HS256","typ":"JWT"}"#;
    let whole = token(&good);
    let (body, tag) = whole.rsplit_once('.').unwrap();
    for (token, reason) in [
        (token(&format!(r#"{{"sub":"42","exp":{before}}}"#)), "expired"),
        (token(&format!(r#"{{"sub":"42","exp":{later},"nbf":{later}}}"#)), "not valid yet"),
        (token(&format!(r#"{{"sub":"42","exp":{later},"nbf":"1"}}"#)), "(nbf) is no time"),
        (token(r#"{"sub":"42"}"#), "has no expiry"),
        (token(r#"{"sub":"42","exp":"9999999999"}"#), "(exp) is no time"),
        (token(r#"["sub"]"#), "not a JSON object"),
        (token(&format!(r#"{{"exp":{later}}}"#)), "has no subject"),
        (token(&format!(r#"{{"sub":null,"exp":{later}}}"#)), "a text or a number"),
        (token(&format!(r#"{{"sub":"","exp":{later}}}"#)), "1 to 128 bytes"),
        (token(&format!(r#"{{"sub":"{}","exp":{later}}}"#, "x".repeat(129))), "1 to 128 bytes"),
        (token(&format!(r#"{{"sub":"a\r\nmemberId: 8","exp":{later}}}"#)), "control characters"),
        (token(&format!(r#"{{"sub":"a\u0085","exp":{later}}}"#)), "control characters"),
        (token(&format!(r#"{{"sub":"42 ","exp":{later}}}"#)), "spaces"),
        (token(&format!(r#"{{"sub":-1,"exp":{later}}}"#)), "number"),
        (token(&format!(r#"{{"sub":1.5,"exp":{later}}}"#)), "number"),
        // It has lost digits by the time that it is a number in Lua, and would be somebody else.
        (token(&format!(r#"{{"sub":9223372036854775806,"exp":{later}}}"#)), "number"),
        (signed_as(usual, &good, "another-secret-that-is-long-enough-too"), "signature"),
        (signed_as(r#"{"alg":"none"}"#, &good, SECRET), "HS256"),
        (signed_as(r#"{"alg":"HS384"}"#, &good, SECRET), "HS256"),
        (signed_as(r#"{"alg":"HS256","crit":["x"]}"#, &good, SECRET), "HS256"),
        (format!("{body}."), "signature"),
        (format!("{body}.{}", &tag[1..]), "signature"),
        (format!("{body}.{tag}="), "signature"),
        (whole.replacen('.', "x.", 1), "HS256"),
        (format!("{}{}", "eyJ", ".".repeat(2)), "HS256"),
        (token(&format!(r#"{{"sub":"42","exp":{later},"x":"{}"}}"#, "x".repeat(3000))), "2048"),
    ] {
        let headers = [("Authorization", format!("Bearer {token}")), ("memberId", "7".to_owned())];
        let headers = headers.each_ref().map(|(name, value)| (*name, value.as_str()));
        let response = shop.post(PLACE, &headers, PUBLISHED_ORDER);
        assert_eq!(response.status, 401, "{token} {response:?}");
        assert!(response.body.contains(reason), "{token} {response:?}");
        assert_eq!(response.json()["code"], 500, "the published shape");
    }
    let headers = [("Authorization", "Bearer eyJ.e30.x")];
    let response = shop.post("/api/v1/orders", &headers, "{}");
    assert_eq!(response.status, 401);
    assert_eq!(header(&response, "Content-Type"), Some("application/problem+json"));
    assert_eq!(response.json()["type"], "https://doorbuster.dev/problems/unauthorized");
}

#[test]
fn a_token_to_be_exchanged_is_for_the_servers_to_judge() {
    let shop = Shop::with_tokens(&[]);
    let token = signed_as(r#"{"alg":"RS256"}"#, "{}", SECRET);
    let headers = [("Authorization", format!("Bearer {token}")), ("memberId", "7".to_owned())];
    let headers = headers.each_ref().map(|(name, value)| (*name, value.as_str()));
    let response = shop.post("/api/v1/session", &headers, "");
    // The servers here are demos, which open none; the edge itself would have answered 401.
    assert_eq!((response.status, &response.json()["code"]), (403, &"sessions_off".into()), "{response:?}");
    assert_eq!(shop.post("/api/v1/orders", &headers, "{}").status, 401);
}

#[test]
fn an_operators_token_is_for_the_servers_to_judge() {
    let shop = Shop::with_tokens(&[]);
    let audit = |token: &str| {
        let bearer = format!("Bearer {token}");
        super::exchange(shop.edge(), "GET", "/api/v1/audit", &[("Authorization", &bearer)], "").status
    };
    assert_eq!(audit(OPERATOR), 200);
    assert_eq!(audit("operator-token-of-somebody-else"), 401);
}

#[test]
fn an_edge_without_a_good_secret_does_not_start() {
    let dir = tempfile::tempdir().unwrap();
    let short = dir.path().join("short");
    std::fs::write(&short, "too-short\n").unwrap();
    for file in [short, dir.path().join("missing")] {
        let render = concat!(env!("CARGO_MANIFEST_DIR"), "/../../edge/render");
        let conf = std::process::Command::new(render)
            .env("EDGE_DIR", dir.path())
            .env("EDGE_SERVERS", "127.0.0.1:1")
            .env("EDGE_LISTEN", "unix:edge.sock")
            .env("EDGE_TOKEN_SECRET_FILE", &file)
            .output()
            .unwrap();
        assert!(conf.status.success(), "{conf:?}");
        let path = dir.path().join("edge.conf");
        std::fs::write(&path, conf.stdout).unwrap();
        let ended = std::process::Command::new("timeout")
            .env("PATH", "/usr/sbin:/usr/bin:/bin")
            .args(["20", "nginx", "-p"])
            .arg(dir.path())
            .arg("-c")
            .arg(&path)
            .output()
            .unwrap();
        let log = std::fs::read_to_string(dir.path().join("error.log")).unwrap();
        let printed = format!("{}{log}", String::from_utf8_lossy(&ended.stderr));
        assert_eq!(ended.status.code(), Some(1), "{printed}");
        assert!(printed.contains(file.to_str().unwrap()), "{printed}");
    }
}
