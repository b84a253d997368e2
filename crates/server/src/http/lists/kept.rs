//! A page with its answers assembled: plain, compressed, and "you have it"; and what of it is asked for.

use std::borrow::Cow;
use std::io;
use std::path::Path;

use crate::http::wire::answer::{Answering, NOSNIFF};
use crate::http::wire::fields::Fields;
use crate::net::Prepared;
use crate::pages::{CONTENT_SECURITY_POLICY, Image, Rendered, Tags, write_file};

/// Every page: what it may load, that it may not be framed, and that nobody learns where it was left from.
pub(in crate::http) const PAGE_HEADERS: [(&str, &str); 2] =
    [("Content-Security-Policy", CONTENT_SECURITY_POLICY), ("Referrer-Policy", "same-origin")];

/// What a request says of the answer that it wants.
#[derive(Clone, Debug)]
pub(in crate::http) struct Wanted<'a> {
    if_none_match: Option<Cow<'a, str>>,
    gzip: bool,
}

impl Wanted<'_> {
    pub(in crate::http) fn of<'a>(fields: &Fields<'a>) -> Wanted<'a> {
        Wanted {
            if_none_match: fields.if_none_match.map(Cow::Borrowed),
            gzip: fields.accept_encoding.is_some_and(takes_gzip),
        }
    }

    pub(in crate::http) fn to_owned(&self) -> Wanted<'static> {
        let if_none_match = self.if_none_match.as_ref().map(|tags| Cow::Owned(tags.clone().into_owned()));
        Wanted { if_none_match, gzip: self.gzip }
    }
}

#[derive(Debug)]
pub(in crate::http) struct KeptPage {
    tags: Tags,
    plain: Prepared,
    gzip: Prepared,
    known: Prepared,
}

/// What a page for people depends on: its language is asked for, or was chosen.
const PAGE_VARY: &str = "Accept-Encoding, Accept-Language, Cookie";

impl KeptPage {
    /// A page for people.
    pub(in crate::http) fn page(rendered: &Rendered, cache_control: &str) -> KeptPage {
        KeptPage::with(rendered, cache_control, PAGE_VARY, &PAGE_HEADERS)
    }

    /// What pages load, and what is the same in every language.
    pub(in crate::http) fn plain(rendered: &Rendered, cache_control: &str) -> KeptPage {
        KeptPage::with(rendered, cache_control, "Accept-Encoding", &PAGE_HEADERS)
    }

    /// JSON, of which an operator gets more than this.
    pub(in crate::http) fn json(rendered: &Rendered, cache_control: &str) -> KeptPage {
        KeptPage::with(rendered, cache_control, "Accept-Encoding, Authorization", &[])
    }

    /// An image of an item: what packing would make smaller is packed on its way, if at all.
    pub(in crate::http) fn image(image: &Image, cache_control: &str) -> KeptPage {
        let name = image.name();
        let tag = format!("\"{name}\"");
        let headers = [NOSNIFF, ("Cache-Control", cache_control), ("ETag", &tag)];
        let headers: Vec<_> = PAGE_HEADERS.into_iter().chain(headers).collect();
        let plain = Prepared::new(200, &headers, image.content_type(), image.bytes());
        KeptPage {
            gzip: plain.clone(),
            plain,
            known: Prepared::new(304, &headers, "", b""),
            tags: Tags { plain: tag.clone(), gzip: tag },
        }
    }

    fn with(rendered: &Rendered, cache_control: &str, vary: &str, more: &[(&str, &str)]) -> KeptPage {
        let headers = |etag| {
            let usual = [NOSNIFF, ("Cache-Control", cache_control), ("Vary", vary), ("ETag", etag)];
            more.iter().copied().chain(usual).collect::<Vec<_>>()
        };
        let (plain, mut packed) = (headers(&rendered.tags.plain), headers(&rendered.tags.gzip));
        packed.push(("Content-Encoding", "gzip"));
        KeptPage {
            plain: Prepared::new(200, &plain, rendered.content_type, &rendered.body),
            gzip: Prepared::new(200, &packed, rendered.content_type, &rendered.gzip),
            known: Prepared::new(304, &plain, "", b""),
            tags: rendered.tags.clone(),
        }
    }

    pub(in crate::http) fn answer(&self, wanted: &Wanted<'_>, out: &mut Answering<'_, '_>) {
        if wanted.if_none_match.as_ref().is_some_and(|tags| self.tags.are_known_to(tags)) {
            out.prepared(304, &self.known);
        } else if wanted.gzip {
            out.prepared(200, &self.gzip);
        } else {
            out.prepared(200, &self.plain);
        }
    }

    /// What it takes of memory, nearly.
    pub(in crate::http) fn bytes(&self) -> usize {
        self.plain.bytes() + self.gzip.bytes() + self.known.bytes()
    }

    /// See [`write_file`].
    pub(in crate::http) fn write_file(&self, dir: &Path, name: &str) -> io::Result<()> {
        write_file(dir, name, self.plain.body(), self.gzip.body())
    }
}

/// Whether gzip is among the accepted codings, and not by a weight of zero.
fn takes_gzip(accepted: &str) -> bool {
    accepted.split(',').any(|coding| {
        let (name, weight) = coding.split_once(';').unwrap_or((coding, ""));
        let refused =
            weight.trim().strip_prefix("q=").is_some_and(|weight| weight.trim_matches(['0', '.']).is_empty());
        matches!(name.trim(), "gzip" | "x-gzip" | "*") && !refused
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gzip_is_taken_where_it_is_accepted() {
        for (accepted, taken) in [
            ("gzip", true),
            ("br, gzip;q=0.5", true),
            ("deflate,gzip , br", true),
            ("*", true),
            ("gzip;q=0", false),
            ("gzip; q=0.000, br", false),
            ("identity", false),
            ("notgzip", false),
            ("", false),
        ] {
            assert_eq!(takes_gzip(accepted), taken, "{accepted:?}");
        }
    }
}
