//! Keys and signatures that another library made, and texts that are no keys.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};

use super::*;

fn made() -> Value {
    serde_json::from_str(include_str!("../../tests/data/shop-keys.json")).unwrap()
}

/// Algorithm, name of the key, what is signed and the signature.
fn signed(token: &Value) -> (Algorithm, Option<String>, String, Vec<u8>) {
    let algorithm = Algorithm::of_name(token["algorithm"].as_str().unwrap()).unwrap();
    let (message, signature) = token["token"].as_str().unwrap().rsplit_once('.').unwrap();
    let signature = URL_SAFE_NO_PAD.decode(signature).unwrap();
    (algorithm, token["kid"].as_str().map(str::to_owned), message.to_owned(), signature)
}

#[test]
fn what_another_library_signed_is_believed_and_nothing_else() {
    let made = made();
    let set = ShopKeys::read(&made["jwks"].to_string()).unwrap();
    let pem: String = made["pem"].as_object().unwrap().values().map(|pem| pem.as_str().unwrap()).collect();
    let pem = ShopKeys::read(&pem).unwrap();
    for token in made["tokens"].as_array().unwrap() {
        let (algorithm, id, message, mut signature) = signed(token);
        let verify = |keys: &ShopKeys, message: &str, signature: &[u8]| {
            keys.verify(algorithm, id.as_deref(), message.as_bytes(), signature)
        };
        let known =
            if id.as_deref() == Some("rsa-0") { SignatureCheck::UnknownKey } else { SignatureCheck::Good };
        assert_eq!(verify(&set, &message, &signature), known, "{token}");
        assert_eq!(
            verify(&pem, &message, &signature),
            SignatureCheck::Good,
            "a PEM key has no name: {token}"
        );
        assert_eq!(verify(&pem, &format!("{message}x"), &signature), SignatureCheck::Wrong);
        assert_eq!(verify(&pem, &message, &signature[1..]), SignatureCheck::Wrong);
        assert_eq!(verify(&pem, &message, b""), SignatureCheck::Wrong);
        signature[7] ^= 1;
        assert_eq!(verify(&pem, &message, &signature), SignatureCheck::Wrong);
    }
}

#[test]
fn a_key_is_good_for_one_algorithm() {
    let made = made();
    for (name, pem) in made["pem"].as_object().unwrap() {
        let keys = ShopKeys::read(pem.as_str().unwrap()).unwrap();
        for token in made["tokens"].as_array().unwrap() {
            let (algorithm, _, message, signature) = signed(token);
            let own = Algorithm::of_name(name) == Some(algorithm);
            let check = keys.verify(algorithm, None, message.as_bytes(), &signature);
            assert_eq!(
                check,
                if own { SignatureCheck::Good } else { SignatureCheck::UnknownKey },
                "{name} {token}"
            );
        }
    }
    for name in ["none", "HS256", "RS384", "rs256", ""] {
        assert_eq!(Algorithm::of_name(name), None, "{name}");
    }
}

#[test]
fn what_is_no_public_key_says_what_it_is() {
    let made = made();
    let rsa = made["pem"]["RS256"].as_str().unwrap();
    let ec = made["pem"]["ES256"].as_str().unwrap();
    let key = |changes: Value| {
        let mut key = made["jwks"]["keys"][0].clone();
        key.as_object_mut().unwrap().extend(changes.as_object().unwrap().clone());
        json!({"keys": [key]}).to_string()
    };
    let many: Vec<_> = std::iter::repeat_n(&made["jwks"]["keys"][1], KEYS_MAX + 1).collect();
    let short = URL_SAFE_NO_PAD.encode([255; 128]);
    for (text, reason) in [
        (String::new(), NotKeys::Neither),
        ("ssh-rsa AAAA".to_owned(), NotKeys::Neither),
        (rsa.replace("PUBLIC", "PRIVATE"), NotKeys::Private),
        (rsa.replace("PUBLIC KEY", "RSA PRIVATE KEY"), NotKeys::Private),
        (rsa.replace("PUBLIC KEY", "CERTIFICATE"), NotKeys::Certificate),
        // The curve is another one, and the length of the outer sequence.
        (ec.replacen("AQcD", "AQgD", 1), NotKeys::Kind),
        (ec.replacen("MFkw", "MFgw", 1), NotKeys::Kind),
        (rsa.replacen("MIIB", "MIIC", 1), NotKeys::Kind),
        (json!({"keys": []}).to_string(), NotKeys::None),
        (key(json!({"use": "enc"})), NotKeys::None),
        (key(json!({"alg": "RS512"})), NotKeys::None),
        (key(json!({"n": "not base64!"})), NotKeys::None),
        (key(json!({"n": null})), NotKeys::None),
        (key(json!({"d": "AQAB"})), NotKeys::Private),
        (key(json!({"n": short})), NotKeys::RsaBits),
        (json!({"keys": many}).to_string(), NotKeys::TooMany),
    ] {
        assert_eq!(ShopKeys::read(&text), Err(reason), "{text}");
    }
    for text in ["{", "{}", r#"{"keys":{}}"#] {
        assert!(matches!(ShopKeys::read(text), Err(NotKeys::Json(_))), "{text}");
    }
}

#[test]
fn debug_shows_names_and_no_keys() {
    let keys = ShopKeys::read(&made()["jwks"].to_string()).unwrap();
    assert_eq!(
        format!("{keys:?}"),
        r#"[(Rs256, Some("rsa-1")), (Es256, Some("ec-1")), (EdDsa, Some("ed-1"))]"#
    );
}
