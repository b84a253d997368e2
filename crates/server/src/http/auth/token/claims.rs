//! What a token says, once its signature was found right: the buyer whom it names, and whether it holds now and here.
//!
//! Must not: be given a claim of a token whose signature was not checked; or allocate on the usual path.

use std::borrow::Cow;
use std::fmt;

use engine::{BuyerId, GroupName};
use serde::de::{DeserializeSeed, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

use super::address::{self, AddressClaims};
use super::{TokenRules, Untrusted, groups};
use crate::clock::Between;
use crate::http::auth::named::{self, Unnamed};
use crate::http::wire::decimal;
use crate::ledger::{Buyer, Buyers};

/// Later than any shop lasts, and exact as a floating-point number.
const SECONDS_MAX: f64 = 1e15;
/// The same.
const SECONDS_MAX_WHOLE: u64 = 1_000_000_000_000_000;

/// Whom a token speaks of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::http) struct Bearer {
    pub(in crate::http) buyer: Buyer,
    /// In seconds since 1970.
    pub(in crate::http) expires_s: u64,
    /// Where the buyer's orders go, as it is kept with one.
    pub(in crate::http) address: Option<Box<[u8]>>,
    /// None unless the shop's tokens name them; nothing is allocated then.
    pub(in crate::http) groups: Box<[GroupName]>,
}

/// No leeway: the shop's clock is to be right.
pub(super) fn judge(
    json: &str,
    rules: &TokenRules,
    buyers: &Buyers,
    between: Between,
) -> Result<Bearer, Untrusted> {
    let mut parser = serde_json::Deserializer::from_str(json);
    let claims = Wanted(rules).deserialize(&mut parser).map_err(|_invalid| Untrusted::Claims)?;
    parser.end().map_err(|_trailing| Untrusted::Claims)?;
    if claims.repeated {
        return Err(Untrusted::Repeated);
    }
    let expires_s = seconds(claims.expires.ok_or(Untrusted::NoExpiry)?).ok_or(Untrusted::Expiry)?;
    if between.earliest.0 / 1000 >= expires_s {
        return Err(Untrusted::Expired);
    }
    if let Some(raw) = claims.not_before {
        let not_before_s = seconds(raw).ok_or(Untrusted::NotBefore)?;
        if between.latest.0 / 1000 < not_before_s {
            return Err(Untrusted::NotYetValid);
        }
    }
    if let Some(issuer) = &rules.issuer {
        let raw = claims.issuer.ok_or(Untrusted::NoIssuer)?;
        if text(raw).as_deref() != Some(issuer) {
            return Err(Untrusted::Issuer);
        }
    }
    if let Some(audience) = &rules.audience {
        let raw = claims.audience.ok_or(Untrusted::NoAudience)?;
        if !is_for(raw, audience) {
            return Err(Untrusted::Audience);
        }
    }
    let buyer = buyer(claims.subject.ok_or(Untrusted::NoSubject)?, buyers)?;
    let address = address::read(&claims.address)?;
    let groups = claims.groups.map(groups::read).unwrap_or_default();
    Ok(Bearer { buyer, expires_s, address, groups })
}

/// `NumericDate`: seconds since 1970, which may have a fraction.
fn seconds(raw: &RawValue) -> Option<u64> {
    if let Some(seconds) = decimal(raw.get()) {
        return (seconds < SECONDS_MAX_WHOLE).then_some(seconds);
    }
    // JSON's numbers are read as the standard library reads its own; other values are not numbers there either.
    let seconds: f64 = raw.get().parse().ok()?;
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "the bounds are checked, and rounding down is wanted"
    )]
    (0.0..SECONDS_MAX).contains(&seconds).then_some(seconds as u64)
}

/// A JSON string, borrowed where it has no escapes.
fn text(raw: &RawValue) -> Option<Cow<'_, str>> {
    let inside = raw.get().strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
    if let Some(inside) = inside.filter(|inside| !inside.contains('\\')) {
        return Some(Cow::Borrowed(inside));
    }
    serde_json::from_str::<Text<'_>>(raw.get()).ok().map(|Text(text)| text)
}

/// `aud` is a text, or a list of them.
fn is_for(raw: &RawValue, audience: &str) -> bool {
    match serde_json::from_str::<Vec<Text<'_>>>(raw.get()) {
        Ok(several) => several.iter().any(|Text(one)| one == audience),
        Err(_) => text(raw).as_deref() == Some(audience),
    }
}

fn buyer(raw: &RawValue, buyers: &Buyers) -> Result<Buyer, Untrusted> {
    let json = raw.get();
    if json.starts_with(|first: char| first == '-' || first.is_ascii_digit()) {
        let id = BuyerId::of_digits(json).ok_or(Untrusted::SubjectNumber)?;
        return Ok(Buyer { id, text: None });
    }
    let text = text(raw).ok_or(Untrusted::Subject)?;
    named::find(&text, buyers).map_err(|unnamed| match unnamed {
        Unnamed::Length => Untrusted::SubjectLength,
        Unnamed::Characters => Untrusted::SubjectCharacters,
    })
}

/// The claims that matter, not read yet: so each can be refused for itself.
#[derive(Default)]
struct Claims<'a> {
    expires: Option<&'a RawValue>,
    not_before: Option<&'a RawValue>,
    issuer: Option<&'a RawValue>,
    audience: Option<&'a RawValue>,
    /// Names the buyer.
    subject: Option<&'a RawValue>,
    address: AddressClaims<'a>,
    groups: Option<&'a RawValue>,
    /// A claim that is there twice has two readers who read it differently: not believed.
    repeated: bool,
}

/// Finds the claims that matter.
struct Wanted<'n>(&'n TokenRules);

impl<'de> DeserializeSeed<'de> for Wanted<'_> {
    type Value = Claims<'de>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Claims<'de>, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Wanted<'_> {
    type Value = Claims<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object of claims")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Claims<'de>, A::Error> {
        let mut claims = Claims::default();
        while let Some(Text(name)) = map.next_key()? {
            let value: &RawValue = map.next_value()?;
            let before = match &*name {
                "exp" => claims.expires.replace(value),
                "nbf" => claims.not_before.replace(value),
                name if name == self.0.claim => claims.subject.replace(value),
                name if self.0.groups.as_deref() == Some(name) => claims.groups.replace(value),
                "iss" => claims.issuer.replace(value),
                "aud" => claims.audience.replace(value),
                "address" if self.0.with_address => claims.address.address.replace(value),
                "name" if self.0.with_address => claims.address.name.replace(value),
                "phone_number" if self.0.with_address => claims.address.phone_number.replace(value),
                _ => None,
            };
            claims.repeated |= before.is_some();
        }
        Ok(claims)
    }
}

/// A text that is borrowed where it has no escapes.
#[derive(serde::Deserialize)]
#[serde(transparent)]
struct Text<'a>(#[serde(borrow)] Cow<'a, str>);
