//! The JSON body of a request.

use serde::Deserialize;

use crate::http::call::Call;
use crate::http::wire::error::Problem;

/// A JSON object. The derive would read an array of values in order as well; the API has no such form.
pub(in crate::http) fn read_object<'a, T: Deserialize<'a>>(call: &Call<'a>) -> Result<T, Problem> {
    if call.fields.content_type.is_some_and(|found| !is_json(found)) {
        return Err(Problem::unsupported_media_type("application/json"));
    }
    let body = call.request.body;
    if !body.trim_ascii_start().starts_with(b"{") {
        return Err(Problem::new(400, "invalid_body", "The body is not understood", "Send a JSON object."));
    }
    serde_json::from_slice(body).map_err(|error| Problem::json(&error))
}

fn is_json(content_type: &str) -> bool {
    let kind = content_type.split(';').next().unwrap_or_default().trim();
    kind.eq_ignore_ascii_case("application/json")
}
