//! Bytes of requests and answers: JSON written by hand, and the parts of a request as text.
//!
//! Answers are written straight into a buffer that is used again, because the answer to an order is on the
//! hot path: a dozen fields cost about 150 ns this way. Must not: know a route.

pub(super) mod address;
pub(super) mod answer;
pub(super) mod body;
pub(super) mod error;
pub(super) mod fields;
mod objects;
pub(super) mod plain;

use std::borrow::Cow;
use std::fmt;

use engine::OrderId;
use serde::de::{Deserialize, Deserializer, Error, Unexpected, Visitor};

pub(in crate::http) use crate::hex::{push_hex, read_hex};
pub(in crate::http) use crate::net::push_number;

use error::Problem;

/// The largest number that is read from anybody: the ledger keeps numbers signed.
pub(in crate::http) const NUMBER_MAX: u64 = i64::MAX.unsigned_abs();

/// A whole number in a JSON body, from 0 to [`NUMBER_MAX`]. Every number that can reach the ledger is read as
/// one, so that none is too large to be written there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::http) struct Number(pub(in crate::http) u64);

impl<'de> Deserialize<'de> for Number {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Number, D::Error> {
        deserializer.deserialize_u64(WholeVisitor(NUMBER_MAX)).map(Number)
    }
}

/// The largest whole number that every reader of JSON keeps as it is: JavaScript rounds larger ones.
pub(in crate::http) const EXACT_MAX: u64 = (1 << 53) - 1;

/// A number in a JSON body that names something from then on, from 0 to [`EXACT_MAX`]: one that a page rounds is that of another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::http) struct ExactNumber(pub(in crate::http) u64);

impl<'de> Deserialize<'de> for ExactNumber {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<ExactNumber, D::Error> {
        deserializer.deserialize_u64(WholeVisitor(EXACT_MAX)).map(ExactNumber)
    }
}

/// How many units of a product, in a JSON body. How many an order may really have, the rules say; what no order may ever
/// have is no such number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::http) struct Quantity(pub(in crate::http) u32);

impl<'de> Deserialize<'de> for Quantity {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Quantity, D::Error> {
        deserializer.deserialize_u64(QuantityVisitor)
    }
}

/// How many units an order asks for, in a JSON body: any whole number. One that no order can have is refused by the rules, with
/// their code: less than 0 is read as 0, and too many as the most there can be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::http) struct Ordered(pub(in crate::http) u32);

impl<'de> Deserialize<'de> for Ordered {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Ordered, D::Error> {
        deserializer.deserialize_u64(OrderedVisitor)
    }
}

/// A field that may be left out, and is not null: without this, null would be read as left out, which the API's document does
/// not say. With `#[serde(default)]`.
pub(in crate::http) fn not_null<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    deserializer: D,
) -> Result<Option<T>, D::Error> {
    T::deserialize(deserializer).map(Some)
}

/// JSON has one kind of number: some senders write 30 as 30.0, and it is the same.
fn whole(number: f64) -> Option<u64> {
    const EXACT_MAX: f64 = (1_u64 << 53) as f64;
    let is_whole = number.fract() == 0.0 && (0.0..=EXACT_MAX).contains(&number);
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "it is whole, and from 0 to 2^53"
    )]
    is_whole.then_some(number as u64)
}

struct QuantityVisitor;

impl Visitor<'_> for QuantityVisitor {
    type Value = Quantity;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a whole number from 1 to {}", engine::limits::QUANTITY_MAX)
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<Quantity, E> {
        let fits = u32::try_from(number).map(Quantity);
        fits.map_err(|_too_large| E::invalid_value(Unexpected::Unsigned(number), &self))
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<Quantity, E> {
        match whole(number) {
            Some(whole) => self.visit_u64(whole),
            None => Err(E::invalid_value(Unexpected::Float(number), &self)),
        }
    }
}

struct OrderedVisitor;

impl Visitor<'_> for OrderedVisitor {
    type Value = Ordered;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        QuantityVisitor.expecting(f)
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<Ordered, E> {
        Ok(Ordered(u32::try_from(number).unwrap_or(u32::MAX)))
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<Ordered, E> {
        self.visit_u64(u64::try_from(number).unwrap_or(0))
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<Ordered, E> {
        match whole(number) {
            Some(whole) => self.visit_u64(whole),
            None if number.fract() == 0.0 => Ok(Ordered(if number < 0.0 { 0 } else { u32::MAX })),
            None => Err(E::invalid_value(Unexpected::Float(number), &self)),
        }
    }
}

/// Of whole numbers from 0 to this one.
struct WholeVisitor(u64);

impl Visitor<'_> for WholeVisitor {
    type Value = u64;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a whole number from 0 to {}", self.0)
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<u64, E> {
        if number > self.0 {
            return Err(E::invalid_value(Unexpected::Unsigned(number), &self));
        }
        Ok(number)
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<u64, E> {
        match whole(number) {
            Some(whole) => self.visit_u64(whole),
            None => Err(E::invalid_value(Unexpected::Float(number), &self)),
        }
    }
}

/// The fields of one JSON object, appended to a buffer. Names are our own and need no escaping.
#[derive(Debug)]
pub(in crate::http) struct Object<'a> {
    out: &'a mut Vec<u8>,
    empty: bool,
}

impl<'a> Object<'a> {
    pub(in crate::http) fn begin(out: &'a mut Vec<u8>) -> Object<'a> {
        out.push(b'{');
        Object { out, empty: true }
    }

    /// Writes the name; the value is the caller's to append.
    pub(in crate::http) fn value(&mut self, name: &str) -> &mut Vec<u8> {
        if !self.empty {
            self.out.push(b',');
        }
        self.empty = false;
        self.out.push(b'"');
        self.out.extend_from_slice(name.as_bytes());
        self.out.extend_from_slice(b"\":");
        self.out
    }

    pub(in crate::http) fn text(&mut self, name: &str, text: &str) -> &mut Self {
        push_text(self.value(name), text);
        self
    }

    pub(in crate::http) fn number(&mut self, name: &str, number: u64) -> &mut Self {
        push_number(self.value(name), number);
        self
    }

    pub(in crate::http) fn number_or_null(&mut self, name: &str, number: Option<u64>) -> &mut Self {
        match number {
            Some(number) => self.number(name, number),
            None => self.raw(name, b"null"),
        }
    }

    pub(in crate::http) fn text_or_null(&mut self, name: &str, text: Option<&str>) -> &mut Self {
        match text {
            Some(text) => self.text(name, text),
            None => self.raw(name, b"null"),
        }
    }

    pub(in crate::http) fn flag(&mut self, name: &str, flag: bool) -> &mut Self {
        self.raw(name, if flag { b"true" } else { b"false" })
    }

    /// A value that is JSON already.
    pub(in crate::http) fn raw(&mut self, name: &str, json: &[u8]) -> &mut Self {
        self.value(name).extend_from_slice(json);
        self
    }

    pub(in crate::http) fn order_id(&mut self, name: &str, id: OrderId) -> &mut Self {
        let out = self.value(name);
        out.push(b'"');
        push_order_id(out, id);
        out.push(b'"');
        self
    }

    /// A list of values, each written by `each`.
    pub(in crate::http) fn list<T>(
        &mut self,
        name: &str,
        items: impl IntoIterator<Item = T>,
        mut each: impl FnMut(&mut Vec<u8>, T),
    ) -> &mut Self {
        let out = self.value(name);
        out.push(b'[');
        for (position, item) in items.into_iter().enumerate() {
            if position > 0 {
                out.push(b',');
            }
            each(out, item);
        }
        out.push(b']');
        self
    }

    pub(in crate::http) fn end(&mut self) {
        self.out.push(b'}');
    }
}

/// The number with leading zeros, to a width that it must fit: for texts of one constant length.
pub(in crate::http) fn push_padded(out: &mut Vec<u8>, mut number: u64, width: usize) {
    let begun = out.len();
    out.resize(begun + width, b'0');
    for digit in out[begun..].iter_mut().rev() {
        *digit = b'0' + u8::try_from(number % 10).expect("a digit");
        number /= 10;
    }
}

pub(in crate::http) fn push_order_id(out: &mut Vec<u8>, id: OrderId) {
    let mut bytes = [0; 20];
    bytes[..4].copy_from_slice(&id.sku.0.to_be_bytes());
    bytes[4..].copy_from_slice(&id.hash.to_be_bytes());
    push_hex(out, &bytes);
}

/// A JSON string, with its quotes.
pub(in crate::http) fn push_text(out: &mut Vec<u8>, text: &str) {
    out.push(b'"');
    let mut rest = text.as_bytes();
    while let Some(at) = rest.iter().position(|byte| *byte < 0x20 || *byte == b'"' || *byte == b'\\') {
        out.extend_from_slice(&rest[..at]);
        match rest[at] {
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\t' => out.extend_from_slice(b"\\t"),
            byte @ (b'"' | b'\\') => out.extend_from_slice(&[b'\\', byte]),
            byte => {
                out.extend_from_slice(b"\\u00");
                push_hex(out, &[byte]);
            }
        }
        rest = &rest[at + 1..];
    }
    out.extend_from_slice(rest);
    out.push(b'"');
}

/// The value of a parameter in a query or in a form's body, still encoded; the first one of this name.
pub(in crate::http) fn parameter<'a>(encoded: &'a str, name: &str) -> Option<&'a str> {
    encoded.split('&').find_map(|pair| {
        let (found, value) = pair.split_once('=').unwrap_or((pair, ""));
        (found == name).then_some(value)
    })
}

/// The type of a form's body.
pub(in crate::http) const FORM: &str = "application/x-www-form-urlencoded";

/// Whether a `Content-Type` says so.
pub(in crate::http) fn is_form(content_type: &str) -> bool {
    content_type.split(';').next().is_some_and(|kind| kind.trim().eq_ignore_ascii_case(FORM))
}

/// A number of a query or of a form, if it is there.
pub(in crate::http) fn number_in(encoded: &str, name: &'static str) -> Option<Result<u64, Problem>> {
    let number = |text: &str| decode(text).as_deref().and_then(decimal);
    parameter(encoded, name).map(|text| number(text).ok_or_else(|| Problem::no_number(name)))
}

/// A number of a query or of a form that must be there.
pub(in crate::http) fn needed_number_in(encoded: &str, name: &'static str) -> Result<u64, Problem> {
    number_in(encoded, name).unwrap_or_else(|| Err(Problem::no_number(name)))
}

/// Undoes the encoding of a query's or a form's value: `+` is a space. `None` if it is broken or not UTF-8.
pub(in crate::http) fn decode(encoded: &str) -> Option<Cow<'_, str>> {
    if encoded.contains('+') {
        let spaced = encoded.replace('+', " ");
        return decode_path(&spaced).map(|decoded| Cow::Owned(decoded.into_owned()));
    }
    decode_path(encoded)
}

/// Undoes percent-encoding, as in a path, where a `+` is a plus.
pub(in crate::http) fn decode_path(encoded: &str) -> Option<Cow<'_, str>> {
    if !encoded.contains('%') {
        return Some(Cow::Borrowed(encoded));
    }
    let mut decoded = Vec::with_capacity(encoded.len());
    let mut bytes = encoded.bytes();
    while let Some(byte) = bytes.next() {
        if byte == b'%' {
            let digit = |byte: Option<u8>| char::from(byte?).to_digit(16);
            let (high, low) = (digit(bytes.next())?, digit(bytes.next())?);
            decoded.push(u8::try_from(high * 16 + low).ok()?);
        } else {
            decoded.push(byte);
        }
    }
    String::from_utf8(decoded).ok().map(Cow::Owned)
}

/// A number up to [`NUMBER_MAX`], written in decimal digits and nothing else: no sign, no space. At most 19
/// digits are looked at.
pub(in crate::http) fn decimal(text: &str) -> Option<u64> {
    let plain = !text.is_empty() && text.len() <= 19 && text.bytes().all(|byte| byte.is_ascii_digit());
    if plain { text.parse().ok().filter(|number| *number <= NUMBER_MAX) } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;
    use engine::SkuId;

    #[test]
    fn numbers_are_written_as_the_standard_library_does() {
        for number in [0, 7, 10, 99, 1_000_000, u64::MAX] {
            let mut out = Vec::new();
            push_number(&mut out, number);
            assert_eq!(out, number.to_string().as_bytes());
        }
        let mut out = Vec::new();
        push_padded(&mut out, 42, 5);
        assert_eq!(out, b"00042");
        let id = OrderId { sku: SkuId(29), hash: u128::MAX - 5 };
        let mut out = Vec::new();
        push_order_id(&mut out, id);
        assert_eq!(out, id.to_string().as_bytes());
    }

    #[test]
    fn objects_are_json_whatever_the_text() {
        for text in ["", "plain", "quo\"te", "back\\slash", "line\nbreak\t\u{1}", "\u{1f600} \u{2028}"] {
            let mut out = Vec::new();
            Object::begin(&mut out)
                .text("text", text)
                .number("n", 3)
                .number_or_null("none", None)
                .flag("yes", true)
                .list("list", [1, 2], push_number)
                .end();
            let value: serde_json::Value = serde_json::from_slice(&out).unwrap();
            let expected =
                serde_json::json!({"text": text, "n": 3, "none": null, "yes": true, "list": [1, 2]});
            assert_eq!(value, expected);
        }
    }

    #[test]
    fn parameters_are_found_and_decoded() {
        let query = "a=1&productId=29&empty&b=x%20y+z%C3%A9";
        assert_eq!(parameter(query, "productId"), Some("29"));
        assert_eq!(parameter(query, "empty"), Some(""));
        assert_eq!(parameter(query, "product"), None);
        assert_eq!(decode(parameter(query, "b").unwrap()).unwrap(), "x y z\u{e9}");
        assert_eq!(decode_path("p+1%2B").unwrap(), "p+1+");
        for broken in ["%", "%4", "%zz", "%ff", "%+1"] {
            assert_eq!(decode(broken), None, "{broken}");
        }
    }

    #[test]
    fn only_digits_are_a_number() {
        for (text, number) in
            [("0", Some(0)), ("0029", Some(29)), ("9223372036854775807", Some(i64::MAX as u64))]
        {
            assert_eq!(decimal(text), number);
        }
        let large = ["9223372036854775808", "9999999999999999999", "99999999999999999999"];
        for text in ["", "+1", "-1", " 1", "1 ", "1.0", "0x1", "\u{0661}"].into_iter().chain(large) {
            assert_eq!(decimal(text), None, "{text}");
        }
    }

    /// Read less exactly, some would not be whole any more.
    #[test]
    fn a_whole_number_may_be_written_as_a_float() {
        for number in [0, 29, 1_938_241_432_431_089, 1 << 53] {
            let read: Number = serde_json::from_str(&format!("{number}.0")).unwrap();
            assert_eq!(read, Number(number));
        }
        assert!(serde_json::from_str::<Number>("1938241432431089.5").is_err());
    }
}
