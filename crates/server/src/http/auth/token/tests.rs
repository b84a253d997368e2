//! Forged and broken tokens, and that no text at all makes the verifier panic.

use engine::{BuyerId, UnixMs};
use proptest::prelude::*;

use super::*;

const SECRET: &[u8] = b"0123456789abcdef0123456789abcdef";
const NOW_S: u64 = 1_700_000_000;

fn encode(text: &str) -> String {
    URL_SAFE_NO_PAD.encode(text)
}

fn signed(header: &str, claims: &str, secret: &[u8]) -> String {
    let signed = format!("{}.{}", encode(header), encode(claims));
    let tag = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, secret), signed.as_bytes());
    format!("{signed}.{}", URL_SAFE_NO_PAD.encode(tag))
}

fn usual(claims: &str) -> String {
    signed(r#"{"alg":"HS256","typ":"JWT"}"#, claims, SECRET)
}

fn verifier(secrets: &[Box<[u8]>]) -> TokenVerifier {
    let rules = TokenRules { claim: "sub".to_owned(), ..TokenRules::default() };
    TokenVerifier::new(secrets, rules, Buyers::new(&[7; 16]))
}

/// The buyer of a good token.
fn buyer(verifier: &TokenVerifier, token: &str, between: Between) -> Result<BuyerId, Untrusted> {
    verifier.verify(token, between).map(|bearer| bearer.buyer.id)
}

fn verify(token: &str) -> Result<BuyerId, Untrusted> {
    buyer(&verifier(&[SECRET.into()]), token, UnixMs(NOW_S * 1000).into())
}

#[test]
fn while_a_secret_changes_tokens_of_both_are_believed_and_of_a_third_none() {
    let secrets: Vec<Box<[u8]>> = ["new", "old"].map(|secret| secret.as_bytes().into()).into();
    let both = verifier(&secrets);
    let now = UnixMs(NOW_S * 1000).into();
    let by = |secret: &str| {
        signed(r#"{"alg":"HS256","typ":"JWT"}"#, r#"{"sub":7,"exp":1700000001}"#, secret.as_bytes())
    };
    assert_eq!(["new", "old"].map(|secret| buyer(&both, &by(secret), now)), [Ok(BuyerId(7)), Ok(BuyerId(7))]);
    assert_eq!(buyer(&both, &by("older"), now), Err(Untrusted::Signature));
    assert_eq!(buyer(&verifier(&secrets[..1]), &by("old"), now), Err(Untrusted::Signature));
}

#[test]
fn the_usual_header_is_the_one_that_is_recognised() {
    assert_eq!(encode(r#"{"alg":"HS256","typ":"JWT"}"#), USUAL_HEADER);
}

#[test]
fn a_token_is_judged_by_what_is_known_of_the_time() {
    let verifier = verifier(&[SECRET.into()]);
    let at = |s: u64| UnixMs(s * 1000);
    let standing = Between { earliest: at(NOW_S), latest: UnixMs(u64::MAX) };
    for (claims, verdict) in [
        (r#"{"sub":7,"exp":1700000001}"#, Ok(BuyerId(7))),
        (r#"{"sub":7,"exp":1700000000}"#, Err(Untrusted::Expired)),
        (r#"{"sub":7,"nbf":1800000000,"exp":1800000900}"#, Ok(BuyerId(7))),
    ] {
        assert_eq!(buyer(&verifier, &usual(claims), standing), verdict, "{claims}");
    }
}

#[test]
fn claims_are_read_by_the_rules() {
    let anna = Buyers::new(&[7; 16]).find("anna").unwrap().id;
    for (claims, verdict) in [
        (r#"{"sub":"7","exp":1700000001}"#, Ok(BuyerId(7))),
        (r#"{"sub":7,"exp":1700000001}"#, Ok(BuyerId(7))),
        (r#"{"s\u0075b":7,"exp":1700000001.5}"#, Ok(BuyerId(7))),
        (r#"{"sub":"anna","exp":1700000001}"#, Ok(anna)),
        (r#"{"sub":"\u0061nna","exp":1700000001}"#, Ok(anna)),
        (
            r#"{"iss":{"a":[1]},"sub":"9223372036854775807","exp":1e10}"#,
            Ok(BuyerId(BuyerId::NUMBER_MAX.into())),
        ),
        (r#"{"sub":"7","exp":1700000001,"nbf":1700000000}"#, Ok(BuyerId(7))),
        (r#"{"sub":"7","exp":1700000000}"#, Err(Untrusted::Expired)),
        (r#"{"sub":"7","exp":1700000000.9}"#, Err(Untrusted::Expired)),
        (r#"{"sub":"7","exp":1700000001,"nbf":1700000001}"#, Err(Untrusted::NotYetValid)),
        (r#"{"sub":"7","exp":1700000001,"nbf":null}"#, Err(Untrusted::NotBefore)),
        (r#"{"sub":"7","exp":1700000001,"nbf":"1700000000"}"#, Err(Untrusted::NotBefore)),
        (r#"{"sub":"7"}"#, Err(Untrusted::NoExpiry)),
        ("{}", Err(Untrusted::NoExpiry)),
        (r#"{"sub":"7","exp":"1700000001"}"#, Err(Untrusted::Expiry)),
        (r#"{"sub":"7","exp":null}"#, Err(Untrusted::Expiry)),
        (r#"{"sub":"7","exp":-1}"#, Err(Untrusted::Expiry)),
        (r#"{"sub":"7","exp":1e300}"#, Err(Untrusted::Expiry)),
        (r#"{"exp":1700000001}"#, Err(Untrusted::NoSubject)),
        (r#"{"sub":9223372036854775808,"exp":1700000001}"#, Err(Untrusted::SubjectNumber)),
        (r#"{"sub":-7,"exp":1700000001}"#, Err(Untrusted::SubjectNumber)),
        (r#"{"sub":7.5,"exp":1700000001}"#, Err(Untrusted::SubjectNumber)),
        (r#"{"sub":null,"exp":1700000001}"#, Err(Untrusted::Subject)),
        (r#"{"sub":["7"],"exp":1700000001}"#, Err(Untrusted::Subject)),
        (r#"{"sub":"","exp":1700000001}"#, Err(Untrusted::SubjectLength)),
        (r#"{"sub":" 7","exp":1700000001}"#, Err(Untrusted::SubjectCharacters)),
        (r#"{"sub":"7\n","exp":1700000001}"#, Err(Untrusted::SubjectCharacters)),
        (r#"{"sub":"7","sub":"8","exp":1700000001}"#, Err(Untrusted::Repeated)),
        (r#"{"sub":"7","exp":1,"exp":1700000001}"#, Err(Untrusted::Repeated)),
        (r#"{"sub":"7","exp":1700000001} x"#, Err(Untrusted::Claims)),
        (r#"["sub"]"#, Err(Untrusted::Claims)),
        ("", Err(Untrusted::Claims)),
    ] {
        assert_eq!(verify(&usual(claims)), verdict, "{claims}");
    }
    let long = |bytes: usize| usual(&format!(r#"{{"sub":"{}","exp":1700000001}}"#, "x".repeat(bytes)));
    assert!(verify(&long(128)).is_ok());
    assert_eq!(verify(&long(129)), Err(Untrusted::SubjectLength));
}

#[test]
fn issuer_and_audience_are_checked_where_they_are_configured() {
    let rules = |issuer: Option<&str>, audience: Option<&str>| TokenRules {
        claim: "sub".to_owned(),
        issuer: issuer.map(str::to_owned),
        audience: audience.map(str::to_owned),
        with_address: false,
        groups: None,
    };
    let (neither, issuer, audience) =
        (rules(None, None), rules(Some("https://shop"), None), rules(None, Some("drops")));
    for (rules, more, verdict) in [
        (&neither, r#""iss":"x","aud":"y""#, Ok(BuyerId(7))),
        (&issuer, r#""iss":"https://shop""#, Ok(BuyerId(7))),
        (&issuer, r#""iss":"https:\/\/shop","aud":9"#, Ok(BuyerId(7))),
        (&issuer, r#""aud":"https://shop""#, Err(Untrusted::NoIssuer)),
        (&issuer, r#""iss":"https://shop/""#, Err(Untrusted::Issuer)),
        (&issuer, r#""iss":["https://shop"]"#, Err(Untrusted::Issuer)),
        (&issuer, r#""iss":null"#, Err(Untrusted::Issuer)),
        (&issuer, r#""iss":"https://shop","iss":"https://shop""#, Err(Untrusted::Repeated)),
        (&audience, r#""aud":"drops""#, Ok(BuyerId(7))),
        (&audience, r#""aud":["shop","drops"]"#, Ok(BuyerId(7))),
        (&audience, r#""iss":"drops""#, Err(Untrusted::NoAudience)),
        (&audience, r#""aud":"Drops""#, Err(Untrusted::Audience)),
        (&audience, r#""aud":[]"#, Err(Untrusted::Audience)),
        (&audience, r#""aud":["drops",7]"#, Err(Untrusted::Audience)),
        (&audience, r#""aud":{"drops":1}"#, Err(Untrusted::Audience)),
    ] {
        let token = usual(&format!(r#"{{"sub":7,"exp":1700000001,{more}}}"#));
        let verifier = TokenVerifier::new(&[SECRET.into()], rules.clone(), Buyers::new(&[7; 16]));
        assert_eq!(buyer(&verifier, &token, UnixMs(NOW_S * 1000).into()), verdict, "{more}");
    }
}

#[test]
fn forged_tokens_are_not_believed() {
    let claims = r#"{"sub":"7","exp":1800000000}"#;
    let good = usual(claims);
    assert_eq!(verify(&good), Ok(BuyerId(7)));
    assert_eq!(verify(&signed(r#"{"typ":"JWT","alg":"HS256"}"#, claims, SECRET)), Ok(BuyerId(7)));
    let (signed_part, tag) = good.rsplit_once('.').unwrap();
    let other_claims = format!("{USUAL_HEADER}.{}.{tag}", encode(r#"{"sub":"8","exp":1800000000}"#));
    // The tag has 32 bytes, so two bits of its last character mean nothing, and must be zero.
    let last = tag.chars().last().unwrap();
    let stray = char::from(u8::try_from(last).unwrap() + 1);
    let header = |header: &str| signed(header, claims, SECRET);
    for (forged, verdict) in [
        (header(r#"{"alg":"none"}"#), Untrusted::Algorithm),
        (format!("{}.{}.", encode(r#"{"alg":"none"}"#), encode(claims)), Untrusted::Algorithm),
        (header(r#"{"alg":"hs256"}"#), Untrusted::Algorithm),
        (header(r#"{"alg":"HS384"}"#), Untrusted::Algorithm),
        (header(r#"{"alg":"RS256"}"#), Untrusted::Algorithm),
        (header(r#"{"alg":"HS256","crit":["exp"],"exp":1}"#), Untrusted::Algorithm),
        (header(r#"{"typ":"JWT"}"#), Untrusted::Malformed),
        (header(r#"{"alg":["HS256"]}"#), Untrusted::Malformed),
        (header(r#"{"alg":"HS256","alg":"none"}"#), Untrusted::Malformed),
        (signed(r#"{"alg":"HS256","typ":"JWT"}"#, claims, b"another secret"), Untrusted::Signature),
        (other_claims, Untrusted::Signature),
        (format!("{signed_part}."), Untrusted::Signature),
        (format!("{signed_part}.{}", &tag[..tag.len() - 4]), Untrusted::Signature),
        (format!("{signed_part}.{}{stray}", &tag[..tag.len() - 1]), Untrusted::Malformed),
        (format!("{good}="), Untrusted::Malformed),
        (format!("{good}.x"), Untrusted::Signature),
        (good.replace('.', ""), Untrusted::Malformed),
        (signed_part.to_owned(), Untrusted::Malformed),
        (String::new(), Untrusted::Malformed),
        ("..".to_owned(), Untrusted::Malformed),
        (usual(&format!(r#"{{"sub":"7","exp":1800000000,"x":"{}"}}"#, "y".repeat(3000))), Untrusted::Length),
    ] {
        let found = verify(&forged).unwrap_err();
        // A token cut or extended at another place may be called malformed before its signature is looked at.
        assert!(found == verdict || found == Untrusted::Malformed, "{forged}: {found:?}, not {verdict:?}");
    }
}

proptest! {
    #[test]
    fn no_text_is_a_token_or_a_panic(text in "\\PC*") {
        prop_assert!(verify(&text).is_err());
    }

    #[test]
    fn no_parts_are_a_token_or_a_panic(header in "[A-Za-z0-9_-]{0,60}", claims in "[A-Za-z0-9_-]{0,60}", tag in "[A-Za-z0-9_-]{0,60}") {
        let forged = format!("{header}.{claims}.{tag}");
        let usual = format!("{USUAL_HEADER}.{claims}.{tag}");
        prop_assert!(verify(&forged).is_err());
        prop_assert!(verify(&usual).is_err());
    }

    #[test]
    fn no_signed_claims_are_a_panic(claims in "\\PC{0,200}") {
        prop_assert!(verify(&usual(&claims)).is_err());
    }

    #[test]
    fn one_changed_byte_is_noticed(at in 0_usize..100, with in "[A-Za-z0-9_-]") {
        let good = usual(r#"{"sub":"7","exp":1800000000}"#);
        let mut forged = good.clone();
        let at = at % good.len();
        forged.replace_range(at..=at, &with);
        prop_assert!(forged == good || verify(&forged).is_err());
    }
}
