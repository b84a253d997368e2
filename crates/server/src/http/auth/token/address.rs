//! The address that a token of the shop has, as it is kept with an order.
//!
//! The claims are OpenID Connect's (`address` with `street_address`, `locality`, `region`, `postal_code`, `country`; `name` and
//! `phone_number` beside it). Inside of `address` our own names are understood too, which is what our sessions have. Must not:
//! be given a claim of a token whose signature was not checked.

use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::Untrusted;
use crate::http::wire::address::NAMES;
use crate::http::wire::push_text;

/// Longest address of a token as it is kept, in bytes: a session of ours, which has it too, must not be longer than a token.
const ADDRESS_BYTES_MAX: usize = 768;
/// What else a field of ours may be called in `address`, the first that is there.
const CALLED: [(&str, &[&str]); 5] = [
    ("detail", &["street_address", "formatted"]),
    ("city", &["locality"]),
    ("province", &["region"]),
    ("post_code", &["postal_code"]),
    ("phone", &["phone_number"]),
];

/// The claims that make an address.
#[derive(Clone, Copy, Default)]
pub(super) struct AddressClaims<'a> {
    pub(super) address: Option<&'a RawValue>,
    pub(super) name: Option<&'a RawValue>,
    pub(super) phone_number: Option<&'a RawValue>,
}

/// `None`: the token has no address.
pub(super) fn read(claims: &AddressClaims<'_>) -> Result<Option<Box<[u8]>>, Untrusted> {
    let Some(address) = claims.address else { return Ok(None) };
    let fields: Option<Map<String, Value>> =
        serde_json::from_str(address.get()).map_err(|_no_object| Untrusted::Address)?;
    let Some(fields) = fields else { return Ok(None) };
    let mut kept = Vec::with_capacity(256);
    for name in NAMES {
        let others = CALLED.iter().find(|(ours, _)| *ours == name).map_or(&[][..], |(_, others)| others);
        let found = std::iter::once(&name).chain(others).find_map(|name| fields.get(*name));
        let beside = match name {
            "name" => claims.name,
            "phone" => claims.phone_number,
            _ => None,
        };
        let text = match (found, beside) {
            (Some(Value::String(text)), _) => text.clone(),
            (Some(Value::Null) | None, None) => continue,
            (Some(Value::Null) | None, Some(beside)) => {
                match serde_json::from_str::<Option<String>>(beside.get())
                    .map_err(|_no_text| Untrusted::Address)?
                {
                    Some(text) => text,
                    None => continue,
                }
            }
            (Some(_), _) => return Err(Untrusted::Address),
        };
        if text.is_empty() {
            continue;
        }
        kept.extend_from_slice(if kept.is_empty() { b"{\"" } else { b",\"" });
        kept.extend_from_slice(name.as_bytes());
        kept.extend_from_slice(b"\":");
        push_text(&mut kept, &text);
    }
    if kept.is_empty() {
        return Ok(None);
    }
    kept.push(b'}');
    if kept.len() > ADDRESS_BYTES_MAX { Err(Untrusted::AddressLength) } else { Ok(Some(kept.into())) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(address: &str, name: Option<&str>, phone: Option<&str>) -> Result<Option<String>, Untrusted> {
        let raw = |json: &str| RawValue::from_string(json.to_owned()).unwrap();
        let (address, name, phone) = (raw(address), name.map(raw), phone.map(raw));
        let claims =
            AddressClaims { address: Some(&address), name: name.as_deref(), phone_number: phone.as_deref() };
        Ok(read(&claims)?.map(|kept| String::from_utf8(kept.into()).unwrap()))
    }

    #[test]
    fn the_claims_of_openid_connect_and_ours_are_one_address() {
        let whole = r#"{"street_address":"Götgatan 1\n\"B\"","locality":"Stockholm","region":"","postal_code":"116 21","country":"SE","x":[1]}"#;
        let kept = r#"{"name":"Zoë","phone":"+46","country":"SE","city":"Stockholm","detail":"Götgatan 1\n\"B\"","post_code":"116 21"}"#;
        assert_eq!(of(whole, Some(r#""Zoë""#), Some(r#""+46""#)), Ok(Some(kept.to_owned())));
        assert_eq!(of(kept, None, None), Ok(Some(kept.to_owned())), "as our sessions have it");
        let formatted = Ok(Some(r#"{"detail":"all in one"}"#.to_owned()));
        assert_eq!(of(r#"{"formatted":"all in one"}"#, None, Some("null")), formatted);
        for none in ["null", "{}", r#"{"locality":""}"#, r#"{"locality":null}"#] {
            assert_eq!(of(none, None, None), Ok(None), "{none}");
        }
        assert_eq!(read(&AddressClaims::default()), Ok(None));
    }

    #[test]
    fn what_is_no_address_is_refused() {
        let long = format!(r#"{{"locality":"{}"}}"#, "x".repeat(ADDRESS_BYTES_MAX));
        for (address, name, refused) in [
            ("7", None, Untrusted::Address),
            (r#""Götgatan""#, None, Untrusted::Address),
            ("[]", None, Untrusted::Address),
            (r#"{"locality":7}"#, None, Untrusted::Address),
            (r#"{"locality":"a"}"#, Some("7"), Untrusted::Address),
            (&long, None, Untrusted::AddressLength),
        ] {
            assert_eq!(of(address, name, None), Err(refused), "{address}");
        }
    }
}
