//! The routes without sockets: a service, and a writer that runs when a test says so, with the real rules.

mod access;
mod addresses;
mod admission;
mod attempts;
mod console;
mod entrances;
mod figures;
mod forms;
mod fuzz;
mod giving_addresses;
mod images;
mod joining;
mod line;
mod lists;
mod numbers;
mod operating;
mod operators;
mod orders;
mod pages;
mod payments;
mod places;
mod published;
mod rehearsals;
mod report;
mod sales;
mod sessions;
mod shop;
mod support;
mod turns;
mod verifying;
mod words;

use serde_json::Value;

/// An answer as a client reads it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Response {
    pub(super) status: u16,
    pub(super) headers: Vec<(String, String)>,
    pub(super) body: Vec<u8>,
}

impl Response {
    pub(super) fn read(bytes: &[u8]) -> Response {
        let mut headers = [httparse::EMPTY_HEADER; 32];
        let mut head = httparse::Response::new(&mut headers);
        let length = head.parse(bytes).unwrap().unwrap();
        let text = |value: &[u8]| String::from_utf8(value.to_vec()).unwrap();
        let headers = head.headers.iter().map(|header| (header.name.to_lowercase(), text(header.value)));
        let response = Response {
            status: head.code.unwrap(),
            headers: headers.collect(),
            body: bytes[length..].to_vec(),
        };
        if let Some(length) = response.header("content-length") {
            assert_eq!(length, response.body.len().to_string());
        }
        response
    }

    pub(super) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(found, _)| found == name).map(|(_, value)| value.as_str())
    }

    pub(super) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {}", self.text()))
    }

    /// An order as it was placed: without its number, which whoever reads it is shown.
    pub(super) fn as_placed(&self) -> Value {
        let mut order = self.json();
        let number = order.as_object_mut().unwrap().remove("number");
        assert_eq!(number.as_ref().and_then(Value::as_str).map(str::len), Some(9), "{number:?}");
        order
    }

    pub(super) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// The status and the code of a problem document, whose fields agree with each other.
    pub(super) fn problem(&self) -> (u16, String) {
        assert_eq!(self.header("content-type"), Some("application/problem+json"), "{}", self.text());
        let value = self.json();
        let code = value["code"].as_str().unwrap().to_owned();
        assert_eq!(value["status"], self.status);
        assert_eq!(value["type"], format!("https://doorbuster.dev/problems/{}", code.replace('_', "-")));
        assert!(
            !value["title"].as_str().unwrap().is_empty() && !value["detail"].as_str().unwrap().is_empty()
        );
        (self.status, code)
    }
}

/// `problem()` of a response, to compare with.
pub(super) fn problem(status: u16, code: &str) -> (u16, String) {
    (status, code.to_owned())
}
