//! A delivery address: the fields of either interface, checked, and kept as one canonical JSON object.
//!
//! Field values stay the JSON strings that they came as, escapes and all: nothing is decoded to be encoded
//! again. Must not: judge whether anybody lives there.

use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use crate::http::wire::error::Problem;
use crate::http::wire::plain::{Plain, once};

/// Longest field as JSON text, in bytes.
const FIELD_BYTES_MAX: usize = 512;
/// Longest address as it is kept, in bytes.
const ADDRESS_BYTES_MAX: usize = 2048;

/// In the order in which they are kept.
pub(in crate::http) const NAMES: [&str; 8] =
    ["name", "phone", "country", "province", "city", "district", "detail", "post_code"];

/// A value as JSON, whatever it is.
#[derive(Clone, Copy, Debug)]
struct Json<'a>(&'a str);

impl<'de: 'a, 'a> Deserialize<'de> for Json<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Json<'a>, D::Error> {
        <&'a RawValue>::deserialize(deserializer).map(|value| Json(value.get()))
    }
}

/// The address of our own API.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::http) struct WireAddress<'a> {
    #[serde(borrow)]
    name: Option<Json<'a>>,
    #[serde(borrow)]
    phone: Option<Json<'a>>,
    #[serde(borrow)]
    country: Option<Json<'a>>,
    #[serde(borrow)]
    province: Option<Json<'a>>,
    #[serde(borrow)]
    city: Option<Json<'a>>,
    #[serde(borrow)]
    district: Option<Json<'a>>,
    #[serde(borrow)]
    detail: Option<Json<'a>>,
    #[serde(borrow)]
    post_code: Option<Json<'a>>,
}

/// The address of the published interface. Its other fields (ids of the shop's address book) are passed over.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(in crate::http) struct PublishedAddress<'a> {
    #[serde(borrow)]
    city: Option<Json<'a>>,
    #[serde(borrow)]
    detail_address: Option<Json<'a>>,
    #[serde(borrow)]
    name: Option<Json<'a>>,
    #[serde(borrow)]
    phone_number: Option<Json<'a>>,
    #[serde(borrow)]
    post_code: Option<Json<'a>>,
    #[serde(borrow)]
    province: Option<Json<'a>>,
    #[serde(borrow)]
    region: Option<Json<'a>>,
}

/// The members of the object that is kept, up to their values, in the order of `NAMES`; the first one begins with a brace instead.
const KEPT_AS: [&str; 8] = [
    r#","name":"#,
    r#","phone":"#,
    r#","country":"#,
    r#","province":"#,
    r#","city":"#,
    r#","district":"#,
    r#","detail":"#,
    r#","post_code":"#,
];

/// A checked address; each field is a JSON string with its quotes, in the order of `NAMES`.
#[derive(Clone, Copy, Debug)]
pub(in crate::http) struct DeliveryAddress<'a>([Option<&'a str>; 8]);

impl<'a> DeliveryAddress<'a> {
    pub(in crate::http) fn own(wire: &WireAddress<'a>) -> Result<DeliveryAddress<'a>, Problem> {
        let WireAddress { name, phone, country, province, city, district, detail, post_code } = wire;
        check([*name, *phone, *country, *province, *city, *district, *detail, *post_code])
    }

    pub(in crate::http) fn published(wire: &PublishedAddress<'a>) -> Result<DeliveryAddress<'a>, Problem> {
        let PublishedAddress { city, detail_address, name, phone_number, post_code, province, region } = wire;
        check([*name, *phone_number, None, *province, *city, *region, *detail_address, *post_code])
    }

    pub(in crate::http) fn fields(&self) -> impl Iterator<Item = Option<&'a str>> {
        self.0.into_iter()
    }

    /// A field by its place in [`NAMES`], as JSON.
    pub(in crate::http) fn field(&self, place: usize) -> &'a str {
        self.0[place].unwrap_or("null")
    }

    /// The object that is kept with the order.
    pub(in crate::http) fn to_json(self) -> Box<[u8]> {
        let present = || KEPT_AS.iter().zip(self.0).filter_map(|(name, field)| Some((name, field?)));
        // To the byte, so that boxing it moves nothing. The first comma stands for the brace.
        let bytes = present().map(|(name, field)| name.len() + field.len()).sum::<usize>().max(1) + 1;
        let mut out = Vec::with_capacity(bytes);
        for (name, field) in present() {
            out.extend_from_slice(name.as_bytes());
            out.extend_from_slice(field.as_bytes());
        }
        match out.first_mut() {
            Some(comma) => *comma = b'{',
            None => out.push(b'{'),
        }
        out.push(b'}');
        debug_assert_eq!(out.len(), bytes, "boxed without being moved");
        out.into_boxed_slice()
    }
}

impl<'a> PublishedAddress<'a> {
    /// Of a plain body.
    pub(in crate::http) fn plain(body: &mut Plain<'a>) -> Option<PublishedAddress<'a>> {
        let mut address = PublishedAddress::default();
        body.object(|body, name| {
            let field = match name {
                "city" => &mut address.city,
                "detailAddress" => &mut address.detail_address,
                "name" => &mut address.name,
                "phoneNumber" => &mut address.phone_number,
                "postCode" => &mut address.post_code,
                "province" => &mut address.province,
                "region" => &mut address.region,
                _ => return body.pass_over(),
            };
            once(field, Json(body.text()?))
        })?;
        Some(address)
    }
}

fn check(fields: [Option<Json<'_>>; 8]) -> Result<DeliveryAddress<'_>, Problem> {
    let fields = fields.map(|field| field.map(|Json(text)| text));
    for (name, field) in NAMES.iter().zip(fields) {
        let Some(field) = field else { continue };
        if !is_text(field) {
            return Err(Problem::invalid(format!("\"address.{name}\" must be a string.")));
        }
        if field.len() > FIELD_BYTES_MAX {
            return Err(Problem::invalid(format!(
                "\"address.{name}\" must have {} bytes at most.",
                FIELD_BYTES_MAX - 2
            )));
        }
    }
    if fields.iter().flatten().map(|field| field.len()).sum::<usize>() > ADDRESS_BYTES_MAX {
        return Err(Problem::invalid(format!("\"address\" must have {ADDRESS_BYTES_MAX} bytes at most.")));
    }
    Ok(DeliveryAddress(fields))
}

/// A JSON string that every reader can decode. The parser that found it has looked at its syntax, but not
/// whether its escapes are characters: half of a surrogate pair is none.
fn is_text(json: &str) -> bool {
    json.starts_with('"') && (!json.contains('\\') || serde_json::from_str::<String>(json).is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn own(json: &str) -> Result<String, u16> {
        let wire: WireAddress<'_> = serde_json::from_str(json).map_err(|_broken| 0_u16)?;
        let address = DeliveryAddress::own(&wire).map_err(|problem| problem.status)?;
        Ok(String::from_utf8(address.to_json().into()).unwrap())
    }

    #[test]
    fn an_address_is_kept_as_its_fields_say() {
        for (json, kept) in [
            ("{}", "{}"),
            (r#" { "city" : "B\u00e9\n" , "name" : "Ada" } "#, r#"{"name":"Ada","city":"B\u00e9\n"}"#),
            (r#"{"name":null,"post_code":"10117"}"#, r#"{"post_code":"10117"}"#),
        ] {
            assert_eq!(own(json).as_deref(), Ok(kept));
        }
    }

    #[test]
    fn each_field_is_kept_under_its_name() {
        for (name, kept_as) in NAMES.iter().zip(KEPT_AS) {
            assert_eq!(kept_as, format!(",\"{name}\":"));
        }
        let wire = format!("{{{}}}", NAMES.map(|name| format!("\"{name}\":\"of {name}\"")).join(","));
        assert_eq!(own(&wire).as_deref(), Ok(&*wire));
    }

    #[test]
    fn what_is_no_address_is_refused() {
        let long = format!(r#"{{"name":"{}"}}"#, "x".repeat(FIELD_BYTES_MAX));
        let fields: Vec<String> =
            NAMES.iter().map(|name| format!(r#""{name}":"{}""#, "x".repeat(FIELD_BYTES_MAX - 2))).collect();
        let whole = format!("{{{}}}", fields.join(","));
        for (json, status) in [
            (r#"{"name":1}"#, 400),
            (r#"{"name":["Ada"]}"#, 400),
            (r#"{"name":"\ud800"}"#, 400),
            (r#"{"nam":"Ada"}"#, 0),
            (r#"{"name":"Ada","name":"Bob"}"#, 0),
            (long.as_str(), 400),
            (whole.as_str(), 400),
        ] {
            assert_eq!(own(json), Err(status), "{json}");
        }
    }
}
