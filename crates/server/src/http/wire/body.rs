//! The JSON body of a request, and what is said about one that is not understood: in the words of the API, with the
//! field's name, and not in those of the parser.
//!
//! A good body is parsed once. A bad one is parsed again, to find the field: only who sent it pays for that.

use serde::Deserialize;
use serde_json::de::Read;
use serde_json::error::Category;

use crate::http::call::Call;
use crate::http::wire::error::Problem;
use crate::http::wire::objects::Objects;
use crate::http::wire::plain::Plain;

/// Of a name that the sender chose, as much is repeated to them.
const NAME_CHARS_MAX: usize = 40;

/// A JSON object; lists stand for no object in it, see [`Objects`].
pub(in crate::http) fn read_object<'a, T: Deserialize<'a>>(call: &Call<'a>) -> Result<T, Problem> {
    check_type(call)?;
    parse(call.request.body)
}

/// The same, of a body that is nearly always plain: `plain` reads such a one, in less time than the parser.
pub(in crate::http) fn read_plain_object<'a, T: Deserialize<'a>>(
    call: &Call<'a>,
    plain: impl FnOnce(Plain<'a>) -> Option<T>,
) -> Result<T, Problem> {
    check_type(call)?;
    let body = call.request.body;
    match Plain::of(body).and_then(plain) {
        Some(read) => Ok(read),
        None => parse(body),
    }
}

fn check_type(call: &Call<'_>) -> Result<(), Problem> {
    if call.fields.content_type.is_some_and(|found| !is_json(found)) {
        return Err(Problem::unsupported_media_type("application/json"));
    }
    Ok(())
}

/// The same, of the bytes alone.
pub(in crate::http) fn parse<'a, T: Deserialize<'a>>(body: &'a [u8]) -> Result<T, Problem> {
    if !body.trim_ascii_start().starts_with(b"{") {
        return Err(Problem::invalid_body("Send a JSON object."));
    }
    // Known to be text, it need not be looked at again string by string.
    let parsed = match std::str::from_utf8(body) {
        Ok(text) => read_whole(serde_json::Deserializer::from_str(text), has_bracket(body)),
        Err(_not_text) => read_whole(serde_json::Deserializer::from_slice(body), true),
    };
    parsed.map_err(|error| Problem::invalid_body(what_is_wrong::<T>(body, &error)))
}

/// In a body without a bracket nothing is a list, and nobody need look for one. An order is such a body.
fn read_whole<'a, R: Read<'a>, T: Deserialize<'a>>(
    mut body: serde_json::Deserializer<R>,
    may_have_lists: bool,
) -> serde_json::Result<T> {
    let read = if may_have_lists { T::deserialize(Objects(&mut body)) } else { T::deserialize(&mut body) }?;
    body.end().map(|()| read)
}

/// Looks at all of it, which takes a sixth of the time of looking for the first in a body that has none.
fn has_bracket(body: &[u8]) -> bool {
    body.iter().fold(false, |found, byte| found | (*byte == b'['))
}

fn is_json(content_type: &str) -> bool {
    let kind = content_type.split(';').next().unwrap_or_default().trim();
    kind.eq_ignore_ascii_case("application/json")
}

fn what_is_wrong<'a, T: Deserialize<'a>>(body: &'a [u8], error: &serde_json::Error) -> String {
    if error.classify() == Category::Data
        && let Err(found) =
            serde_path_to_error::deserialize::<_, T>(Objects(&mut serde_json::Deserializer::from_slice(body)))
    {
        return in_words(&found.path().to_string(), found.inner());
    }
    format!("The body is not JSON from line {}, column {} on.", error.line(), error.column())
}

/// The derive's messages have few forms, which it keeps. What was found instead is left out: its sender knows it.
fn in_words(path: &str, error: &serde_json::Error) -> String {
    let text = error.to_string();
    let place = format!(" at line {} column {}", error.line(), error.column());
    let text = text.strip_suffix(&place).unwrap_or(&text);
    let object = path.trim_end_matches(['?', '.']);
    let inside = |name: &str| match object {
        "" => format!("\"{name}\""),
        object if object == name || object.ends_with(&format!(".{name}")) => format!("\"{object}\""),
        object => format!("\"{object}.{name}\""),
    };
    if let Some(name) = quoted(text, "missing field `") {
        return format!("{} is missing.", inside(name));
    }
    if let Some(name) = quoted(text, "duplicate field `") {
        return format!("{} is there twice.", inside(name));
    }
    if let Some((name, known)) =
        text.strip_prefix("unknown field `").and_then(|rest| rest.rsplit_once("`, expected "))
    {
        let name: String = name.chars().take(NAME_CHARS_MAX).collect();
        let known = known.trim_start_matches("one of ").replace('`', "\"");
        return format!("\"{name}\" is no field here; there is {known}.");
    }
    match text.rsplit_once(", expected ") {
        Some((_, expected)) => format!("\"{object}\" must be {}.", spoken(expected)),
        None => format!("\"{object}\" is not understood."),
    }
}

fn quoted<'a>(text: &'a str, before: &str) -> Option<&'a str> {
    text.strip_prefix(before)?.strip_suffix('`')
}

/// What the derive expects, as somebody who knows JSON and no Rust would say it.
fn spoken(expected: &str) -> &str {
    match expected {
        "u32" => "a whole number from 0 to 4294967295",
        "a sequence" => "a list",
        "a borrowed string" => "a string",
        expected if expected.starts_with("struct ") => "an object",
        expected => expected,
    }
}
