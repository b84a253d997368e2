//! The headers of a request that some route looks at, found in one pass; and its method.
//!
//! Must not: judge what any of them says; only whether it can be read at all.

/// A method, as far as routes distinguish them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::http) enum Method {
    /// HEAD too: the net layer leaves the body out.
    Get,
    Post,
    Patch,
    Options,
    Other,
}

impl Method {
    pub(in crate::http) fn of(name: &str) -> Method {
        match name {
            "GET" | "HEAD" => Method::Get,
            "POST" => Method::Post,
            "PATCH" => Method::Patch,
            "OPTIONS" => Method::Options,
            _ => Method::Other,
        }
    }
}

/// Headers that change what a request does or who sends it. To pass over one that can't be read would be to do
/// something else than was asked: an order without its key is another order each time.
const DECISIVE: [&str; 7] = [
    "authorization",
    "doorbuster-signature",
    "idempotency-key",
    "memberid",
    "operator-reason",
    "origin",
    "stripe-signature",
];

/// The first header of each name, as text; `None` if it is absent or not UTF-8.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::http) struct Fields<'a> {
    pub(in crate::http) accept: Option<&'a str>,
    pub(in crate::http) accept_encoding: Option<&'a str>,
    pub(in crate::http) accept_language: Option<&'a str>,
    pub(in crate::http) authorization: Option<&'a str>,
    pub(in crate::http) content_type: Option<&'a str>,
    pub(in crate::http) cookie: Option<&'a str>,
    pub(in crate::http) host: Option<&'a str>,
    pub(in crate::http) idempotency_key: Option<&'a str>,
    pub(in crate::http) if_none_match: Option<&'a str>,
    pub(in crate::http) member_id: Option<&'a str>,
    pub(in crate::http) operator_reason: Option<&'a str>,
    pub(in crate::http) origin: Option<&'a str>,
    pub(in crate::http) referer: Option<&'a str>,
    pub(in crate::http) sec_fetch_site: Option<&'a str>,
    pub(in crate::http) signature: Option<&'a str>,
    pub(in crate::http) stripe_signature: Option<&'a str>,
    /// The name of a decisive header that is there twice or is no text: the request must be refused.
    pub(in crate::http) unusable: Option<&'static str>,
}

impl<'a> Fields<'a> {
    /// Whether a person is to read the answer.
    pub(in crate::http) fn wants_html(&self) -> bool {
        self.accept.is_some_and(|accept| accept.contains("text/html"))
    }

    pub(in crate::http) fn of(headers: &[httparse::Header<'a>]) -> Fields<'a> {
        let mut fields = Fields::default();
        for header in headers {
            // The length rules nearly all out before any letter is compared.
            let (name, field) = match header.name.len() {
                4 => ("host", &mut fields.host),
                6 if header.name.starts_with(['a', 'A']) => ("accept", &mut fields.accept),
                6 if header.name.starts_with(['c', 'C']) => ("cookie", &mut fields.cookie),
                6 => ("origin", &mut fields.origin),
                7 => ("referer", &mut fields.referer),
                8 => ("memberid", &mut fields.member_id),
                12 => ("content-type", &mut fields.content_type),
                13 if header.name.starts_with(['a', 'A']) => ("authorization", &mut fields.authorization),
                13 => ("if-none-match", &mut fields.if_none_match),
                14 => ("sec-fetch-site", &mut fields.sec_fetch_site),
                15 if header.name.ends_with(['e', 'E']) => ("accept-language", &mut fields.accept_language),
                15 if header.name.starts_with(['a', 'A']) => ("accept-encoding", &mut fields.accept_encoding),
                15 if header.name.starts_with(['o', 'O']) => ("operator-reason", &mut fields.operator_reason),
                15 => ("idempotency-key", &mut fields.idempotency_key),
                16 => ("stripe-signature", &mut fields.stripe_signature),
                20 => ("doorbuster-signature", &mut fields.signature),
                _ => continue,
            };
            if !header.name.eq_ignore_ascii_case(name) {
                continue;
            }
            let text = std::str::from_utf8(header.value).ok();
            if field.is_none() {
                *field = text;
            } else if DECISIVE.contains(&name) {
                fields.unusable = Some(name);
            }
            if text.is_none() && DECISIVE.contains(&name) {
                fields.unusable = Some(name);
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
            "Accept-Language",
            "authorization",
            "Content-Type",
            "cookie",
            "HOST",
            "Idempotency-Key",
            "if-none-match",
            "memberId",
            "Operator-Reason",
            "Origin",
            "Referer",
            "Sec-Fetch-Site",
            "doorbuster-signature",
            "Stripe-Signature",
        ];
        let mut headers: Vec<httparse::Header<'_>> =
            names.iter().map(|name| httparse::Header { name, value: name.as_bytes() }).collect();
        headers.push(httparse::Header { name: "Host", value: b"second" });
        headers.push(httparse::Header { name: "X-Oddity", value: b"x" });
        let found = Fields::of(&headers);
        let values = [
            found.accept,
            found.accept_encoding,
            found.accept_language,
            found.authorization,
            found.content_type,
            found.cookie,
            found.host,
            found.idempotency_key,
            found.if_none_match,
            found.member_id,
            found.operator_reason,
            found.origin,
            found.referer,
            found.sec_fetch_site,
            found.signature,
            found.stripe_signature,
        ];
        assert_eq!(values, names.map(Some));
        assert_eq!(found.unusable, None);
    }

    #[test]
    fn a_decisive_header_must_be_text_and_there_once() {
        for name in DECISIVE {
            let header = |value| httparse::Header { name, value };
            for headers in [
                [header(b"a"), header(b"b")],
                [header(b"a"), header(b"a")],
                [header(b"\xff"), httparse::Header { name: "Accept", value: b"a" }],
                [header(b"a"), header(b"\xff")],
                [header(b"\xff"), header(b"a")],
            ] {
                assert_eq!(Fields::of(&headers).unusable, Some(name), "{headers:?}");
            }
        }
        let accept = httparse::Header { name: "Accept", value: b"\xff" };
        assert_eq!(Fields::of(&[accept, accept]).unusable, None);
    }
}
