//! The headers of a request that some route looks at, found in one pass; and its method.
//!
//! Must not: judge any of them. Called by: `HttpService::call`, once per request.

use crate::net::Request;

/// A method, as far as routes tell them apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Method {
    /// HEAD too: the net layer leaves the body out.
    Get,
    Post,
    Patch,
    Options,
    Other,
}

impl Method {
    pub(super) fn of(name: &str) -> Method {
        match name {
            "GET" | "HEAD" => Method::Get,
            "POST" => Method::Post,
            "PATCH" => Method::Patch,
            "OPTIONS" => Method::Options,
            _ => Method::Other,
        }
    }
}

/// The first header of each name, as text; `None` if it is absent or not UTF-8.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Fields<'a> {
    pub(super) accept: Option<&'a str>,
    pub(super) accept_encoding: Option<&'a str>,
    pub(super) authorization: Option<&'a str>,
    pub(super) content_type: Option<&'a str>,
    pub(super) cookie: Option<&'a str>,
    pub(super) host: Option<&'a str>,
    pub(super) idempotency_key: Option<&'a str>,
    pub(super) if_none_match: Option<&'a str>,
    pub(super) member_id: Option<&'a str>,
    pub(super) origin: Option<&'a str>,
    pub(super) sec_fetch_site: Option<&'a str>,
    pub(super) signature: Option<&'a str>,
}

impl<'a> Fields<'a> {
    pub(super) fn of(request: &Request<'a>) -> Fields<'a> {
        let mut fields = Fields::default();
        for header in request.headers {
            // The length rules nearly all out before any letter is compared.
            let (name, field) = match header.name.len() {
                4 => ("host", &mut fields.host),
                6 if header.name.starts_with(['a', 'A']) => ("accept", &mut fields.accept),
                6 if header.name.starts_with(['c', 'C']) => ("cookie", &mut fields.cookie),
                6 => ("origin", &mut fields.origin),
                8 => ("memberid", &mut fields.member_id),
                12 => ("content-type", &mut fields.content_type),
                13 if header.name.starts_with(['a', 'A']) => ("authorization", &mut fields.authorization),
                13 => ("if-none-match", &mut fields.if_none_match),
                14 => ("sec-fetch-site", &mut fields.sec_fetch_site),
                15 if header.name.starts_with(['a', 'A']) => ("accept-encoding", &mut fields.accept_encoding),
                15 => ("idempotency-key", &mut fields.idempotency_key),
                20 => ("doorbuster-signature", &mut fields.signature),
                _ => continue,
            };
            if field.is_none() && header.name.eq_ignore_ascii_case(name) {
                *field = std::str::from_utf8(header.value).ok();
            }
        }
        fields
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_header_is_found_in_any_case_and_the_first_counts() {
        let names = [
            "Accept",
            "ACCEPT-ENCODING",
            "authorization",
            "Content-Type",
            "cookie",
            "HOST",
            "Idempotency-Key",
            "if-none-match",
            "memberId",
            "Origin",
            "Sec-Fetch-Site",
            "doorbuster-signature",
        ];
        let mut headers: Vec<httparse::Header<'_>> =
            names.iter().map(|name| httparse::Header { name, value: name.as_bytes() }).collect();
        headers.push(httparse::Header { name: "Host", value: b"second" });
        headers.push(httparse::Header { name: "X-Oddity", value: b"x" });
        let request = Request {
            method: "GET",
            path: "/",
            query: "",
            headers: &headers,
            body: b"",
            peer: ([127, 0, 0, 1], 1).into(),
            secure: false,
        };
        let found = Fields::of(&request);
        let values = [
            found.accept,
            found.accept_encoding,
            found.authorization,
            found.content_type,
            found.cookie,
            found.host,
            found.idempotency_key,
            found.if_none_match,
            found.member_id,
            found.origin,
            found.sec_fetch_site,
            found.signature,
        ];
        assert_eq!(values, names.map(Some));
    }
}
