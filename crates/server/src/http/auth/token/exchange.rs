//! A token of the shop, exchanged once for one of ours: so that a signature of another kind than HS256 is never checked on
//! the way of an order, and whoever stole the shop's token has ours for a while only.
//!
//! Must not: be used on an event loop.

use std::borrow::Cow;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::de::IgnoredAny;

use super::claims::{self, Bearer};
use super::mint::{NotMinted, mint_with};
use super::{TokenRules, TokenVerifier, Untrusted};
use crate::clock::Between;
use crate::ledger::Buyers;
use crate::shop_keys::{Algorithm, ShopKeys, SignatureCheck};

/// Longest token of a shop, in bytes: those of identity providers have a page of claims.
const SHOP_TOKEN_BYTES_MAX: usize = 8192;

/// What a token of the shop is checked and exchanged with.
pub(in crate::http) struct Exchange {
    /// Signs our tokens.
    secret: Box<[u8]>,
    hs256: TokenVerifier,
    rules: TokenRules,
    buyers: Buyers,
    /// Those of a file.
    keys: Option<ShopKeys>,
    /// Longest time that a session holds.
    session_s: u64,
}

impl std::fmt::Debug for Exchange {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Exchange").field("rules", &self.rules).finish_non_exhaustive()
    }
}

/// A token of ours.
pub(in crate::http) struct Session {
    pub(in crate::http) token: String,
    pub(in crate::http) bearer: Bearer,
    /// From now on.
    pub(in crate::http) lasts_s: u64,
}

impl Exchange {
    /// `None`: there is no secret to sign with.
    pub(in crate::http) fn new(
        secrets: &[Box<[u8]>],
        rules: TokenRules,
        buyers: Buyers,
        keys: Option<ShopKeys>,
        session_s: u64,
    ) -> Option<Exchange> {
        let secret = secrets.first()?.clone();
        let hs256 = TokenVerifier::new(secrets, rules.clone(), buyers.clone());
        Some(Exchange { secret, hs256, rules, buyers, keys, session_s })
    }

    /// Whom the token speaks of. `fetched`: the keys of a URL, if there is one.
    pub(in crate::http) fn verify(
        &self,
        token: &str,
        fetched: Option<&ShopKeys>,
        between: Between,
    ) -> Result<Bearer, Untrusted> {
        if token.len() > SHOP_TOKEN_BYTES_MAX {
            return Err(Untrusted::ShopLength);
        }
        let (signed, signature) = token.rsplit_once('.').ok_or(Untrusted::Malformed)?;
        let (header, claims) = signed.split_once('.').ok_or(Untrusted::Malformed)?;
        let header = decode(header)?;
        let header: Header<'_> = serde_json::from_slice(&header).map_err(|_invalid| Untrusted::Malformed)?;
        if header.crit.is_some() {
            return Err(Untrusted::ShopAlgorithm);
        }
        if header.alg == "HS256" {
            return self.hs256.verify(token, between);
        }
        let algorithm = Algorithm::of_name(&header.alg).ok_or(Untrusted::ShopAlgorithm)?;
        if self.keys.is_none() && fetched.is_none() {
            return Err(Untrusted::NoShopKeys);
        }
        let signature = decode(signature)?;
        let mut check = SignatureCheck::UnknownKey;
        for keys in self.keys.iter().chain(fetched) {
            match keys.verify(algorithm, header.kid.as_deref(), signed.as_bytes(), &signature) {
                SignatureCheck::UnknownKey => {}
                other => check = other,
            }
            if check == SignatureCheck::Good {
                let claims = String::from_utf8(decode(claims)?).map_err(|_not_text| Untrusted::Claims)?;
                return claims::judge(&claims, &self.rules, &self.buyers, between);
            }
        }
        Err(if check == SignatureCheck::Wrong { Untrusted::Signature } else { Untrusted::UnknownKey })
    }

    /// Our own token for whoever proved to be that buyer: it never holds longer than theirs.
    pub(in crate::http) fn open(&self, bearer: Bearer, between: Between) -> Result<Session, NotMinted> {
        let now_s = between.earliest.0 / 1000;
        let expires_s = bearer.expires_s.min(now_s.saturating_add(self.session_s));
        let number = bearer.buyer.id.to_string();
        let name = bearer.buyer.text.as_deref().unwrap_or(&number);
        let whose = (name, bearer.address.as_deref(), &*bearer.groups);
        let token = mint_with(&self.secret, &self.rules, whose, expires_s)?;
        let bearer = Bearer { expires_s, ..bearer };
        Ok(Session { token, bearer, lasts_s: expires_s.saturating_sub(now_s) })
    }
}

#[derive(serde::Deserialize)]
struct Header<'a> {
    #[serde(borrow)]
    alg: Cow<'a, str>,
    #[serde(borrow, default)]
    kid: Option<Cow<'a, str>>,
    /// Extensions that must be understood: we understand none.
    #[serde(default)]
    crit: Option<IgnoredAny>,
}

fn decode(text: &str) -> Result<Vec<u8>, Untrusted> {
    URL_SAFE_NO_PAD.decode(text).map_err(|_invalid| Untrusted::Malformed)
}

#[cfg(test)]
mod tests {
    use engine::UnixMs;
    use serde_json::Value;

    use super::*;

    const SECRET: &[u8] = b"0123456789abcdef0123456789abcdef";
    const NOW: UnixMs = UnixMs(1_700_000_000_000);

    fn made() -> Value {
        serde_json::from_str(include_str!("../../../../tests/data/shop-keys.json")).unwrap()
    }

    fn exchange(keys: Option<ShopKeys>) -> Exchange {
        let rules = TokenRules { claim: "sub".to_owned(), ..TokenRules::default() };
        Exchange::new(&[SECRET.into()], rules, Buyers::new(&[7; 16]), keys, 300).unwrap()
    }

    #[test]
    fn a_token_of_the_shop_becomes_one_of_ours_that_holds_no_longer() {
        let made = made();
        let keys = ShopKeys::read(&made["jwks"].to_string()).unwrap();
        let from_file = exchange(Some(keys.clone()));
        let fetching = exchange(None);
        for token in made["tokens"].as_array().unwrap() {
            let text = token["token"].as_str().unwrap();
            let found = from_file.verify(text, None, NOW.into());
            assert_eq!(found, fetching.verify(text, Some(&keys), NOW.into()));
            if token["kid"] == "rsa-0" {
                assert_eq!(found, Err(Untrusted::UnknownKey));
                continue;
            }
            let bearer = found.unwrap();
            assert_eq!(
                (bearer.buyer.text.as_deref(), bearer.expires_s),
                (Some("anna@shop.example"), 1_700_000_600)
            );
            for (now, lasts_s) in [(NOW, 300), (NOW.plus(599_000), 1)] {
                let session = from_file.open(bearer.clone(), now.into()).unwrap();
                assert_eq!(session.lasts_s, lasts_s);
                let known = from_file.hs256.verify(&session.token, now.into()).unwrap();
                assert_eq!((&known.buyer, known.expires_s), (&bearer.buyer, now.0 / 1000 + lasts_s));
                // One of ours becomes another one, and none holds longer for it.
                let again = from_file.verify(&session.token, None, now.into()).unwrap();
                assert_eq!(from_file.open(again, now.into()).unwrap().lasts_s, lasts_s);
            }
            let late = from_file.verify(text, None, NOW.plus(600_000).into());
            assert_eq!(late, Err(Untrusted::Expired));
        }
    }

    #[test]
    fn what_the_shop_did_not_sign_is_refused_with_its_reason() {
        let made = made();
        let keys = ShopKeys::read(&made["jwks"].to_string()).unwrap();
        let of_shop = exchange(Some(keys));
        let good = made["tokens"][0]["token"].as_str().unwrap();
        let (signed, signature) = good.rsplit_once('.').unwrap();
        let (_, claims) = signed.split_once('.').unwrap();
        let with = |header: &str| format!("{}.{claims}.{signature}", URL_SAFE_NO_PAD.encode(header));
        for (token, reason) in [
            (String::new(), Untrusted::Malformed),
            (signed.to_owned(), Untrusted::Malformed),
            (with("{}"), Untrusted::Malformed),
            (with(r#"{"alg":"none"}"#), Untrusted::ShopAlgorithm),
            (with(r#"{"alg":"RS512"}"#), Untrusted::ShopAlgorithm),
            (with(r#"{"alg":"RS256","crit":["x"]}"#), Untrusted::ShopAlgorithm),
            // An RSA key is no secret, and no key of another algorithm.
            (with(r#"{"alg":"HS256"}"#), Untrusted::Signature),
            (with(r#"{"alg":"ES256","kid":"rsa-1"}"#), Untrusted::UnknownKey),
            (with(r#"{"alg":"RS256","kid":"ec-1"}"#), Untrusted::UnknownKey),
            (with(r#"{"alg":"RS256","kid":"rsa-1"}"#), Untrusted::Signature),
            (with(r#"{"alg":"RS256"}"#), Untrusted::Signature),
            (format!("{signed}."), Untrusted::Signature),
            (format!("{good}="), Untrusted::Malformed),
            (format!("{good}{}", "x".repeat(SHOP_TOKEN_BYTES_MAX)), Untrusted::ShopLength),
        ] {
            assert_eq!(of_shop.verify(&token, None, NOW.into()), Err(reason), "{token}");
        }
        assert_eq!(exchange(None).verify(good, None, NOW.into()), Err(Untrusted::NoShopKeys));
    }
}
