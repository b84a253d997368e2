//! What fuzz/targets give bytes to. Built for them alone.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use engine::UnixMs;
use ring::hmac;

use super::auth::token::{TokenRules, TokenVerifier};
use super::wire::error::Problem;
use super::wire::{decode, decode_path, number_in, parameter};
use super::{published, routes};
use crate::ledger::Buyers;

const SECRET: &[u8] = b"a secret of the targets, which sign with it";
/// Of the derive and of the language: nobody who sends JSON should have to know them.
const NOT_OF_THE_API: [&str; 7] = ["u32", "u64", "i64", "struct ", "serde", "borrowed", "Option"];

/// Every body that the API takes: it is understood, or said in the API's words why not.
pub fn bodies(data: &[u8]) {
    if let Some(Some(address)) = answered(routes::orders::understand(data)) {
        assert!(serde_json::from_slice::<serde_json::Value>(&address).is_ok(), "{address:?}");
    }
    for read in routes::sales::understand(data) {
        answered(read);
    }
    answered(routes::payments::understand(data));
    answered(routes::buyers::understand(data));
    answered(routes::operators::understand(data));
    answered(published::understand(data));
}

fn answered<T>(read: Result<T, Problem>) -> Option<T> {
    match read {
        Ok(read) => Some(read),
        Err(problem) => {
            let mut out = Vec::new();
            problem.write(&mut out);
            let problem: serde_json::Value = serde_json::from_slice(&out).expect("a problem is JSON");
            let detail = problem["detail"].as_str().expect("it has a detail");
            // What is in quotes is the sender's own; a name that is no field's may have quotes itself.
            let said = detail.rsplit_once("\" is no field here").map_or(detail, |(_name, said)| said);
            let said: String = said.split('"').step_by(2).collect();
            assert!(!NOT_OF_THE_API.iter().any(|word| said.contains(word)), "{detail}");
            None
        }
    }
}

/// Tokens as they come, and as claims that were signed well.
pub fn tokens(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let verifier = TokenVerifier::new(
        &[SECRET.into()],
        TokenRules { claim: "sub".to_owned(), ..TokenRules::default() },
        Buyers::new(&[7; 16]),
    );
    let now = UnixMs(1_700_000_000_000);
    assert!(verifier.verify(text, now.into()).is_err(), "nobody can guess a signature: {text}");
    let (header, claims) = text.split_once('\n').unwrap_or((r#"{"alg":"HS256"}"#, text));
    let [header, claims] = [header, claims].map(|part| URL_SAFE_NO_PAD.encode(part));
    let signed = format!("{header}.{claims}");
    let tag = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, SECRET), signed.as_bytes());
    let _judged = verifier.verify(&format!("{signed}.{}", URL_SAFE_NO_PAD.encode(tag)), now.into());
}

/// Queries, forms and parts of paths.
pub fn forms(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    for name in ["limit", "cursor", "user_id", "a"] {
        if let Some(Ok(number)) = number_in(text, name) {
            let found = parameter(text, name).and_then(decode).expect("it was read");
            assert_eq!(found.parse(), Ok(number));
        }
    }
    drop(decode_path(text));
}
