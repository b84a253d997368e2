//! A sale as people write it: a TOML or JSON file, or arguments, with the same words in each.
//!
//! Must not: ask a server, or say what a sale may be.

use std::collections::BTreeMap;
use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;
use std::time::Duration;

use serde::de::{Error, MapAccess, Unexpected, Visitor};
use serde::{Deserialize, Deserializer};

use super::line::{Access, Group, Line, Opening};
use super::plan::{End, NewImage, NewItem, Plan, Times};
use crate::failure::Failure;
use crate::time::{Moment, parse_duration, parse_moment};

/// Ten thousand items with the longest descriptions are a third of it.
const FILE_BYTES_MAX: u64 = 64 << 20;
const DEFAULT_CURRENCY: &str = "EUR";
/// In the place of a payment time: orders are paid on placing.
const NO_PAYMENT: &str = "none";

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Written {
    pub(super) id: Option<u64>,
    pub(super) title: String,
    pub(super) currency: Option<String>,
    #[serde(deserialize_with = "starts_at")]
    pub(super) starts_at: Moment,
    #[serde(default, deserialize_with = "ends_at")]
    pub(super) ends_at: Option<Moment>,
    #[serde(default, rename = "for", deserialize_with = "length")]
    pub(super) for_: Option<Duration>,
    #[serde(default, deserialize_with = "payment")]
    pub(super) payment: Option<PaymentTime>,
    pub(super) open_holds_per_buyer_max: Option<u64>,
    #[serde(rename = "item")]
    pub(super) items: Vec<WrittenItem>,
}

/// How long a held order waits for its payment; `None`: orders are paid on placing.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct PaymentTime(Option<Duration>);

#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct WrittenItem {
    #[serde(deserialize_with = "whole")]
    product: u64,
    title: Option<String>,
    description: Option<String>,
    #[serde(deserialize_with = "price")]
    price: u64,
    #[serde(default, deserialize_with = "price_if_there")]
    list: Option<u64>,
    #[serde(deserialize_with = "whole")]
    total: u64,
    #[serde(default, deserialize_with = "whole_if_there")]
    limit: Option<u64>,
    image: Option<String>,
    alt: Option<String>,
    line: Option<WrittenLine>,
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenLine {
    #[serde(default = "one")]
    units: u64,
    #[serde(default = "two_minutes", deserialize_with = "turn")]
    turn: Duration,
    #[serde(default = "twenty_seconds", deserialize_with = "grace")]
    grace: Duration,
    #[serde(default = "thirty_seconds", deserialize_with = "close")]
    close: Duration,
    beacon: Option<bool>,
    access: Option<WrittenAccess>,
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenAccess {
    /// How long before the start each may join, or "always".
    groups: BTreeMap<String, String>,
    /// The same of everybody else, or "never".
    others: String,
}

fn one() -> u64 {
    1
}

fn two_minutes() -> Duration {
    Duration::from_secs(120)
}

fn twenty_seconds() -> Duration {
    Duration::from_secs(20)
}

fn thirty_seconds() -> Duration {
    Duration::from_secs(30)
}

/// What stands under a key is read while the file is, so that a fault has the line where it stands.
fn under<'de, D: Deserializer<'de>, T>(
    key: &str,
    parse: impl Fn(&str) -> Result<T, String>,
    value: D,
) -> Result<T, D::Error> {
    under_if_there(key, parse, value)?
        .ok_or_else(|| D::Error::custom(format_args!("{key}: null is no value")))
}

fn under_if_there<'de, D: Deserializer<'de>, T>(
    key: &str,
    parse: impl Fn(&str) -> Result<T, String>,
    value: D,
) -> Result<Option<T>, D::Error> {
    let text = Option::<Text>::deserialize(value)?;
    let parsed = text.map(|Text(text)| parse(&text)).transpose();
    parsed.map_err(|why| D::Error::custom(format_args!("{key}: {why}")))
}

/// A time without quotes is a value of its own in TOML.
struct Text(String);

impl<'de> Deserialize<'de> for Text {
    fn deserialize<D: Deserializer<'de>>(value: D) -> Result<Text, D::Error> {
        struct Quoted;
        impl<'de> Visitor<'de> for Quoted {
            type Value = Text;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("a text in quotes")
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Text, E> {
                Ok(Text(text.to_owned()))
            }

            fn visit_map<A: MapAccess<'de>>(self, _map: A) -> Result<Text, A::Error> {
                Err(A::Error::custom("write it in quotes, like \"2026-12-01T10:00:00Z\""))
            }
        }
        value.deserialize_any(Quoted)
    }
}

/// A whole number, and how it is to be written.
struct Whole(&'static str);

const A_NUMBER: Whole = Whole("a whole number");
const AN_AMOUNT: Whole = Whole("a whole number of the currency's smallest unit: 4999 for 49.99");

impl<'de> Visitor<'de> for Whole {
    type Value = Option<u64>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.0)
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<Option<u64>, E> {
        Ok(Some(number))
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<Option<u64>, E> {
        match u64::try_from(number) {
            Ok(number) => Ok(Some(number)),
            Err(_negative) => Err(E::invalid_value(Unexpected::Signed(number), &self)),
        }
    }

    /// `null` of JSON.
    fn visit_unit<E: Error>(self) -> Result<Option<u64>, E> {
        Ok(None)
    }
}

fn there<E: Error>(number: Option<u64>, wanted: Whole) -> Result<u64, E> {
    number.ok_or_else(|| E::invalid_type(Unexpected::Unit, &wanted))
}

fn whole<'de, D: Deserializer<'de>>(value: D) -> Result<u64, D::Error> {
    there(value.deserialize_any(A_NUMBER)?, A_NUMBER)
}

fn whole_if_there<'de, D: Deserializer<'de>>(value: D) -> Result<Option<u64>, D::Error> {
    value.deserialize_any(A_NUMBER)
}

fn price<'de, D: Deserializer<'de>>(value: D) -> Result<u64, D::Error> {
    there(value.deserialize_any(AN_AMOUNT)?, AN_AMOUNT)
}

fn price_if_there<'de, D: Deserializer<'de>>(value: D) -> Result<Option<u64>, D::Error> {
    value.deserialize_any(AN_AMOUNT)
}

/// An amount, of an argument.
pub(super) fn parse_amount(text: &str) -> Result<u64, String> {
    text.parse().map_err(|_not_a_number| format!("it is not {}", AN_AMOUNT.0))
}

fn starts_at<'de, D: Deserializer<'de>>(value: D) -> Result<Moment, D::Error> {
    under("starts_at", parse_moment, value)
}

fn ends_at<'de, D: Deserializer<'de>>(value: D) -> Result<Option<Moment>, D::Error> {
    under_if_there("ends_at", parse_moment, value)
}

fn length<'de, D: Deserializer<'de>>(value: D) -> Result<Option<Duration>, D::Error> {
    under_if_there("for", parse_duration, value)
}

fn payment<'de, D: Deserializer<'de>>(value: D) -> Result<Option<PaymentTime>, D::Error> {
    under_if_there("payment", parse_payment, value)
}

fn turn<'de, D: Deserializer<'de>>(value: D) -> Result<Duration, D::Error> {
    under("turn", parse_duration, value)
}

fn grace<'de, D: Deserializer<'de>>(value: D) -> Result<Duration, D::Error> {
    under("grace", parse_duration, value)
}

fn close<'de, D: Deserializer<'de>>(value: D) -> Result<Duration, D::Error> {
    under("close", parse_duration, value)
}

/// A duration, or "none".
pub(super) fn parse_payment(text: &str) -> Result<PaymentTime, String> {
    match text {
        NO_PAYMENT => Ok(PaymentTime(None)),
        text => parse_duration(text).map(|time| PaymentTime(Some(time))),
    }
}

/// Ends also with what never does, such as a device.
fn read_text(file: impl Read) -> io::Result<String> {
    let mut text = String::new();
    if file.take(FILE_BYTES_MAX + 1).read_to_string(&mut text)? as u64 > FILE_BYTES_MAX {
        let message = format!("it has more than {FILE_BYTES_MAX} bytes: no file of a sale is that large");
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, message));
    }
    Ok(text)
}

impl Written {
    pub(super) fn read(path: &Path) -> Result<Written, Failure> {
        let (shown, text) = match path.to_str() {
            Some("-") => (Path::new("standard input").display(), read_text(io::stdin())),
            _ => (path.display(), File::open(path).and_then(read_text)),
        };
        let text = text.map_err(|error| Failure::usage(format!("{shown}: can't be read: {error}")))?;
        let written = if text.trim_start().starts_with('{') {
            serde_json::from_str(&text).map_err(|error| format!("{shown}: {error}"))
        } else {
            toml::from_str(&text).map_err(|error| {
                let offset = error.span().map_or(0, |span| span.start);
                let line = text.bytes().take(offset).filter(|byte| *byte == b'\n').count() + 1;
                format!("{shown}:{line}: {}", error.message().replace('\n', ", "))
            })
        };
        written.map_err(|message| Failure::usage(message + "; see `doorbuster sale create --help`"))
    }

    /// With the defaults of what was left out, but the server's.
    pub(super) fn plan(self) -> Result<Plan, Failure> {
        let ends = match (self.ends_at, self.for_) {
            (Some(at), None) => End::At(at),
            (None, Some(length)) => End::After(length),
            (Some(_), Some(_)) => {
                let message =
                    "say once when the sale ends: either --for or --ends-at (in a file, for or ends_at)";
                return Err(Failure::usage(message));
            }
            (None, None) => {
                let message =
                    "say when the sale ends: --for 2h or --ends-at TIME (in a file, for = \"2h\" or ends_at)";
                return Err(Failure::usage(message));
            }
        };
        Ok(Plan {
            title: self.title,
            currency: self.currency.unwrap_or_else(|| DEFAULT_CURRENCY.to_owned()),
            times: Times { starts: self.starts_at, ends },
            payment_s: self.payment.map(|PaymentTime(time)| time.map(|time| time.as_secs())),
            open_holds_per_buyer_max: self.open_holds_per_buyer_max,
            items: self.items.into_iter().map(WrittenItem::new_item).collect::<Result<_, _>>()?,
        })
    }
}

impl WrittenItem {
    fn new_item(self) -> Result<NewItem, Failure> {
        if self.alt.is_some() && self.image.is_none() {
            return Err(Failure::usage(format!(
                "the item of product {} has alt, and no image",
                self.product
            )));
        }
        Ok(NewItem {
            product: self.product,
            title: self.title.unwrap_or_else(|| format!("Product {}", self.product)),
            description: self.description.unwrap_or_default(),
            price: self.price,
            list_price: self.list.unwrap_or(self.price),
            total: self.total,
            limit: self.limit,
            image: self.image.map(|name| NewImage { name, alt: self.alt.unwrap_or_default() }),
            line: self.line.map(WrittenLine::check).transpose()?,
        })
    }
}

impl WrittenLine {
    fn check(self) -> Result<Line, Failure> {
        Ok(Line {
            units: self.units,
            turn_s: self.turn.as_secs(),
            grace_s: self.grace.as_secs(),
            close_s: self.close.as_secs(),
            beacon: self.beacon,
            access: self.access.map(WrittenAccess::check).transpose()?,
        })
    }
}

impl WrittenAccess {
    fn check(self) -> Result<Access, Failure> {
        let before_s = |text: &str| match text {
            "always" => Ok(None),
            text => parse_duration(text).map(|duration| Some(duration.as_secs())),
        };
        let wrong = |why: String| Failure::usage(format!("access of a line: {why}"));
        let mut groups = Vec::with_capacity(self.groups.len());
        for (name, text) in &self.groups {
            groups.push(Group { name: name.clone(), before_s: before_s(text).map_err(wrong)? });
        }
        let others = match &*self.others {
            "never" => None,
            text => Some(Opening { before_s: before_s(text).map_err(wrong)? }),
        };
        Ok(Access { groups, others })
    }
}

/// Reads `product=30,title=Shoe,price=4999,list=9999,total=100,limit=1`. A comma of the title is none of the list if no
/// name follows it: `title=Shoe, red`.
pub(super) fn parse_item(text: &str) -> Result<WrittenItem, String> {
    let (mut product, mut title, mut price, mut list, mut total, mut limit) =
        (None, None, None, None, None, None);
    for part in parts_of_item(text) {
        let part = part.as_str();
        let (name, value) = part.split_once('=').ok_or_else(|| format!("{part:?} is not name=value"))?;
        let number = |wanted: Whole| {
            value.parse::<u64>().map_err(|_not_a_number| format!("{part:?} is not {}", wanted.0))
        };
        let earlier = match name.trim() {
            "product" => product.replace(number(A_NUMBER)?).is_some(),
            "title" => title.replace(value.to_owned()).is_some(),
            "price" => price.replace(number(AN_AMOUNT)?).is_some(),
            "list" => list.replace(number(AN_AMOUNT)?).is_some(),
            "total" => total.replace(number(A_NUMBER)?).is_some(),
            "limit" => limit.replace(number(A_NUMBER)?).is_some(),
            _ => return Err(format!("{name:?} is none of product, title, price, list, total and limit")),
        };
        if earlier {
            return Err(format!("{name} is there twice"));
        }
    }
    let (Some(product), Some(price), Some(total)) = (product, price, total) else {
        return Err("product, price and total are needed".to_owned());
    };
    Ok(WrittenItem {
        product,
        title,
        description: None,
        price,
        list,
        total,
        limit,
        image: None,
        alt: None,
        line: None,
    })
}

fn parts_of_item(text: &str) -> Vec<String> {
    let mut parts: Vec<String> = Vec::new();
    for part in text.split(',') {
        match parts.last_mut() {
            Some(title) if !part.contains('=') && title.trim_start().starts_with("title") => {
                *title += &format!(",{part}")
            }
            _ => parts.push(part.to_owned()),
        }
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_are_read() {
        assert_eq!(
            parse_item("product=30,title=Red shoe,price=4999,list=9999,total=100,limit=1"),
            Ok(WrittenItem {
                product: 30,
                title: Some("Red shoe".to_owned()),
                description: None,
                price: 4999,
                list: Some(9999),
                total: 100,
                limit: Some(1),
                image: None,
                alt: None,
                line: None,
            })
        );
        for (text, title) in [
            ("product=1,title=Shoe, red,price=2,total=3", "Shoe, red"),
            ("title=Shoe, red, size 42,product=1,price=2,total=3", "Shoe, red, size 42"),
            ("product=1,price=2,total=3,title=Shoe,", "Shoe,"),
        ] {
            assert_eq!(parse_item(text).unwrap().title.as_deref(), Some(title), "{text}");
        }
        for (text, error) in [
            ("product=1,price=2", "product, price and total are needed"),
            ("product=1,prize=2", "\"prize\" is none of product, title, price, list, total and limit"),
            ("product=x", "\"product=x\" is not a whole number"),
            (
                "price=49.99",
                "\"price=49.99\" is not a whole number of the currency's smallest unit: 4999 for 49.99",
            ),
            ("list=-5", "\"list=-5\" is not a whole number of the currency's smallest unit: 4999 for 49.99"),
            ("product=1,product=2", "product is there twice"),
            ("product", "\"product\" is not name=value"),
        ] {
            assert_eq!(parse_item(text), Err(error.to_owned()), "{text}");
        }
    }

    /// "Expected u64", it said, and of a time without quotes "invalid type: map".
    #[test]
    fn a_value_that_is_none_is_answered_how_it_is_written() {
        let file =
            "title = 't'\nstarts_at = '+1s'\nfor = '2h'\n[[item]]\nproduct = 1\nprice = 2\ntotal = 3\n";
        let written: Written = toml::from_str(file).unwrap();
        assert_eq!((written.items[0].price, written.items[0].list, written.items[0].limit), (2, None, None));
        let amount = "expected a whole number of the currency's smallest unit: 4999 for 49.99";
        for (from, to, says) in [
            ("'+1s'", "2026-11-29T16:00:00Z", "write it in quotes, like \"2026-12-01T10:00:00Z\""),
            ("price = 2", "price = 49.99", amount),
            ("price = 2", "price = -5", amount),
            ("price = 2", "price = 2\nlist = 0.5", amount),
            ("total = 3", "total = 'many'", "expected a whole number"),
        ] {
            let error = toml::from_str::<Written>(&file.replace(from, to)).unwrap_err();
            assert!(error.message().contains(says), "{to}: {error}");
        }
        let json = r#"{"title":"t","starts_at":"+1s","for":"2h","item":[{"product":1,"price":-5,"total":3,"limit":null}]}"#;
        let error = serde_json::from_str::<Written>(json).unwrap_err().to_string();
        assert!(error.contains(amount), "{error}");
        let written: Written = serde_json::from_str(&json.replace("-5", "5")).unwrap();
        assert_eq!((written.items[0].price, written.items[0].limit), (5, None));
    }

    #[test]
    fn who_may_join_a_line_is_read() {
        let check = |access: &str| {
            let line: WrittenLine = toml::from_str(&format!("access = {access}")).unwrap();
            line.check().map(|line| serde_json::json!(line.access))
        };
        let read = check(r#"{ groups = { gold = "always", club = "24h" }, others = "0s" }"#).ok().unwrap();
        let groups = [("club", Some(86_400)), ("gold", None)]
            .map(|(name, before_s)| serde_json::json!({ "name": name, "before_s": before_s }));
        assert_eq!(read, serde_json::json!({ "groups": groups, "others": { "before_s": 0 } }));
        let closed = check(r#"{ groups = { gold = "always" }, others = "never" }"#).ok().unwrap();
        assert_eq!(closed["others"], serde_json::Value::Null);
        for wrong in
            [r#"{ groups = { gold = "never" }, others = "0s" }"#, r#"{ groups = {}, others = "soon" }"#]
        {
            assert!(check(wrong).is_err(), "{wrong}");
        }
        for unread in
            ["{ groups = {} }", r#"{ others = "0s" }"#, r#"{ groups = {}, others = "0s", from = 1 }"#]
        {
            assert!(toml::from_str::<WrittenLine>(&format!("access = {unread}")).is_err(), "{unread}");
        }
    }

    #[test]
    fn relative_times_count_from_the_servers_clock() {
        let sale = |starts: &str, ends: Option<&str>, length: Option<&str>| Written {
            id: None,
            title: "t".to_owned(),
            currency: None,
            starts_at: parse_moment(starts).unwrap(),
            ends_at: ends.map(|at| parse_moment(at).unwrap()),
            for_: length.map(|length| parse_duration(length).unwrap()),
            payment: None,
            open_holds_per_buyer_max: None,
            items: Vec::new(),
        };
        let at = |sale: Written| sale.plan().and_then(|plan| plan.times.at(1_000)).ok();
        assert_eq!(at(sale("now", None, Some("2s"))), Some((1_000, 3_000)));
        assert_eq!(at(sale("+1s", Some("+3s"), None)), Some((2_000, 4_000)));
        assert_eq!(at(sale("1970-01-01T00:01:00Z", None, Some("1s"))), Some((60_000, 61_000)));
        assert_eq!(at(sale("+3s", Some("+3s"), None)), None);
        assert_eq!(at(sale("now", None, None)), None);
        assert_eq!(at(sale("now", Some("+1s"), Some("1s"))), None);
    }
}
