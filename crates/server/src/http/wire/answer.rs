//! Writing an answer: the headers that every one has, and each kind of body.
//!
//! Must not: know a route.

use std::sync::Arc;

use crate::http::wire::error::Problem;
use crate::http::wire::fields::Fields;
use crate::http::wire::push_number;
use crate::net::{Prepared, ResponseWriter};
use crate::pages::LanguageId;

pub(in crate::http) const JSON: &str = "application/json";
const PROBLEM_JSON: &str = "application/problem+json";
pub(in crate::http) const TEXT: &str = "text/plain; charset=utf-8";
/// What a browser must not guess.
pub(in crate::http) const NOSNIFF: (&str, &str) = ("X-Content-Type-Options", "nosniff");
pub(in crate::http) const NO_STORE: (&str, &str) = ("Cache-Control", "no-store");
/// The first, and both, as lines.
const NOSNIFF_LINE: &str = "X-Content-Type-Options: nosniff\r\n";
const NOT_STORED_LINES: &str = "X-Content-Type-Options: nosniff\r\nCache-Control: no-store\r\n";

/// What a page of another site may read of an answer, beside its body.
const EXPOSED: (&str, &str) =
    ("Access-Control-Expose-Headers", "Location, Retry-After, Idempotency-Replayed");

/// How a problem is reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::http) enum ProblemFormat {
    /// RFC 9457.
    Problem,
    /// The same; but what is not found is a page, where a person reads it.
    Page,
    /// A page in English where a person reads it, who is an operator; otherwise the first.
    Console,
    /// A page in the reader's language: forms are sent by browsers without scripts, too.
    Form(LanguageId),
    /// `{"code":500,"message":..,"data":null}`.
    Published,
}

impl ProblemFormat {
    /// Of what buyers' forms lead to.
    pub(in crate::http) const FORM: ProblemFormat = ProblemFormat::Form(LanguageId::FIRST);

    /// The same, as whoever asks can read it: in their language, and no page for a program.
    pub(in crate::http) fn for_reader(
        self,
        fields: &Fields<'_>,
        language: impl FnOnce() -> LanguageId,
    ) -> ProblemFormat {
        match self {
            ProblemFormat::Form(_) => ProblemFormat::Form(language()),
            ProblemFormat::Console if !fields.wants_html() => ProblemFormat::Problem,
            format => format,
        }
    }

    /// Of a path that leads nowhere.
    pub(in crate::http) fn of_unknown(path: &str) -> ProblemFormat {
        if path.starts_with("/api/") { ProblemFormat::Problem } else { ProblemFormat::Page }
    }
}

/// Answers to sold out, the busiest of all, assembled once.
#[derive(Debug)]
pub(in crate::http) struct SoldOut {
    problem: Prepared,
    published: Prepared,
}

impl SoldOut {
    pub(in crate::http) fn new() -> SoldOut {
        let problem = Problem::from(engine::Refusal::SoldOut);
        let (mut own, mut published) = (Vec::new(), Vec::new());
        problem.write(&mut own);
        problem.write_published(&mut published);
        let prepare = |content_type, body: &[u8]| {
            Prepared::new(problem.status, &[NOSNIFF, NO_STORE], content_type, body)
        };
        SoldOut { problem: prepare(PROBLEM_JSON, &own), published: prepare(JSON, &published) }
    }
}

/// What lets the page of another site read an answer.
fn for_origin(origin: &Arc<str>) -> [(&str, &str); 3] {
    [("Access-Control-Allow-Origin", origin), ("Vary", "Origin"), EXPOSED]
}

/// Writes one answer.
#[derive(Debug)]
pub(in crate::http) struct Answering<'r, 'w> {
    writer: &'r mut ResponseWriter<'w>,
    /// The origin of another site whose page may read the answer.
    origin: Option<Arc<str>>,
    /// Of the answer that was written; 0 before.
    pub(in crate::http) status: u16,
}

impl<'r, 'w> Answering<'r, 'w> {
    pub(in crate::http) fn new(
        writer: &'r mut ResponseWriter<'w>,
        origin: Option<Arc<str>>,
    ) -> Answering<'r, 'w> {
        Answering { writer, origin, status: 0 }
    }

    fn head(
        &mut self,
        status: u16,
        headers: &[(&str, &str)],
        lines: &'static str,
    ) -> &mut ResponseWriter<'w> {
        self.status = status;
        self.writer.head(status);
        for (name, value) in headers {
            self.writer.header(name, value);
        }
        self.writer.lines(lines);
        for (name, value) in self.origin.iter().flat_map(for_origin) {
            self.writer.header(name, value);
        }
        self.writer
    }

    pub(in crate::http) fn json(&mut self, status: u16, body: &[u8]) {
        self.json_with(status, &[], body);
    }

    /// Not to be stored by anybody: all our JSON is of the moment, and much of it is one buyer's.
    pub(in crate::http) fn json_with(&mut self, status: u16, headers: &[(&str, &str)], body: &[u8]) {
        self.body_with(status, headers, JSON, body);
    }

    pub(in crate::http) fn body(&mut self, status: u16, content_type: &str, body: &[u8]) {
        self.body_with(status, &[], content_type, body);
    }

    pub(in crate::http) fn body_with(
        &mut self,
        status: u16,
        headers: &[(&str, &str)],
        content_type: &str,
        body: &[u8],
    ) {
        self.head(status, headers, NOT_STORED_LINES).body(content_type, body);
    }

    /// With no other headers than these.
    pub(in crate::http) fn cached(&mut self, headers: &[(&str, &str)], content_type: &str, body: &[u8]) {
        self.head(200, headers, NOSNIFF_LINE).body(content_type, body);
    }

    pub(in crate::http) fn empty(&mut self, status: u16, headers: &[(&str, &str)]) {
        self.head(status, headers, NOT_STORED_LINES).empty();
    }

    /// An answer that has no end: `first` is its first part.
    pub(in crate::http) fn begin(&mut self, headers: &[(&str, &str)], content_type: &str, first: &[u8]) {
        self.status = 200;
        self.writer.begin(headers, content_type, first);
    }

    /// An answer in chunks; false: its writer must not frame them.
    pub(in crate::http) fn begin_chunked(&mut self, headers: &[(&str, &str)], content_type: &str) -> bool {
        self.status = 200;
        self.writer.begin_chunked(headers, content_type)
    }

    pub(in crate::http) fn prepared(&mut self, status: u16, prepared: &Prepared) {
        self.status = status;
        match &self.origin {
            Some(origin) => self.writer.prepared(prepared, &for_origin(origin)),
            None => self.writer.prepared(prepared, &[]),
        }
    }

    pub(in crate::http) fn problem(
        &mut self,
        problem: &Problem,
        format: ProblemFormat,
        sold_out: &SoldOut,
        scratch: &mut Vec<u8>,
    ) {
        if problem.code == "sold_out" {
            return match format {
                ProblemFormat::Problem
                | ProblemFormat::Page
                | ProblemFormat::Console
                | ProblemFormat::Form(_) => self.prepared(problem.status, &sold_out.problem),
                ProblemFormat::Published => self.prepared(problem.status, &sold_out.published),
            };
        }
        scratch.clear();
        let content_type = match format {
            ProblemFormat::Problem
            | ProblemFormat::Page
            | ProblemFormat::Console
            | ProblemFormat::Form(_) => {
                problem.write(scratch);
                PROBLEM_JSON
            }
            ProblemFormat::Published => {
                problem.write_published(scratch);
                JSON
            }
        };
        let mut seconds = Vec::new();
        let writer = self.head(problem.status, &[], NOT_STORED_LINES);
        if let Some(retry_after_s) = problem.retry_after_s {
            push_number(&mut seconds, retry_after_s);
            writer.header("Retry-After", std::str::from_utf8(&seconds).expect("digits are text"));
        }
        if let Some(allow) = problem.allow {
            writer.header("Allow", allow);
        }
        if problem.status == 401 {
            writer.header("WWW-Authenticate", "Bearer");
        }
        writer.body(content_type, scratch);
    }
}
