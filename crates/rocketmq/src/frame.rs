//! Frames: total length (4 bytes, without itself), header length (4 bytes, of which the highest is the header's
//! encoding, 0 for JSON), header, body.
//!
//! Must not: panic, or take memory, because of what a server sent: lengths are checked against a bound first.

use std::collections::{BTreeMap, HashMap};

use serde::{Deserialize, Serialize};

use crate::Signer;

/// Longest frame that is accepted: the same bound that brokers have.
const FRAME_BYTES_MAX: usize = 16 << 20;
/// The version of the protocol that is spoken: RocketMQ 5.5.0 by its own count.
pub const VERSION: i32 = 513;
/// Bit of `flag`: the frame answers a request.
pub const FLAG_ANSWER: i32 = 1;

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct RequestHeader<'a, F> {
    code: i32,
    language: &'static str,
    version: i32,
    opaque: i32,
    flag: i32,
    ext_fields: &'a F,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct AnswerHeader {
    code: i32,
    opaque: i32,
    flag: i32,
    #[serde(default)]
    version: i32,
    #[serde(default)]
    remark: Option<String>,
    #[serde(default)]
    ext_fields: Option<HashMap<String, String>>,
}

/// A server's answer.
#[derive(Debug)]
pub struct Answer {
    pub code: i32,
    pub opaque: i32,
    /// Of the server's protocol, by RocketMQ's own count; 0 if it does not say.
    pub version: i32,
    pub remark: String,
    pub fields: HashMap<String, String>,
    pub body: Vec<u8>,
}

/// What was received can't be a frame; the connection is of no more use.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotAFrame {
    #[error("a frame of {0} bytes")]
    Length(usize),
    #[error("a header of {0} bytes in a frame of {1}")]
    HeaderLength(usize, usize),
    #[error("a header in encoding {0}, not JSON")]
    Encoding(u8),
    #[error("the header is wrong: {0}")]
    Header(String),
}

/// Appends a request, signed if somebody signs.
pub fn encode<F: Serialize>(
    out: &mut Vec<u8>,
    code: i32,
    opaque: i32,
    fields: &F,
    body: &[u8],
    signer: Option<Signer<'_>>,
) {
    let header = |out: &mut Vec<u8>| match signer {
        None => encode_header(out, code, opaque, fields),
        Some(signer) => {
            let fields = serde_json::to_value(fields).and_then(serde_json::from_value);
            let mut fields: BTreeMap<String, String> = fields.expect("the protocol's fields are texts");
            signer.sign(&mut fields, body);
            encode_header(out, code, opaque, &fields);
        }
    };
    append(out, header, |out| out.extend_from_slice(body));
}

/// Appends a frame; `header` and `body` append their parts.
pub fn append(out: &mut Vec<u8>, header: impl FnOnce(&mut Vec<u8>), body: impl FnOnce(&mut Vec<u8>)) {
    let start = out.len();
    out.extend_from_slice(&[0; 8]);
    header(out);
    let header_bytes = length(out.len() - start - 8);
    assert!(header_bytes < 1 << 24, "a header has at most 16 MiB");
    body(out);
    let total = out.len() - start;
    assert!(total <= FRAME_BYTES_MAX, "batches and names are bounded far below a frame's length");
    out[start..start + 4].copy_from_slice(&length(total - 4).to_be_bytes());
    out[start + 4..start + 8].copy_from_slice(&header_bytes.to_be_bytes());
}

fn encode_header<F: Serialize>(out: &mut Vec<u8>, code: i32, opaque: i32, fields: &F) {
    let header =
        RequestHeader { code, language: "RUST", version: VERSION, opaque, flag: 0, ext_fields: fields };
    serde_json::to_writer(out, &header).expect("a map of texts is JSON, and a Vec takes any length");
}

fn length(bytes: usize) -> u32 {
    u32::try_from(bytes).expect("a frame has at most 16 MiB")
}

/// A whole frame, of which only the lengths were looked at.
#[derive(Debug, PartialEq, Eq)]
pub struct Frame<'a> {
    /// JSON.
    pub header: &'a [u8],
    pub body: &'a [u8],
    /// Of all of it.
    pub bytes: usize,
}

/// The frame that a stream begins with; `None` while it is not whole.
pub fn split(received: &[u8]) -> Result<Option<Frame<'_>>, NotAFrame> {
    let Some((&total, rest)) = received.split_first_chunk::<4>() else {
        return Ok(None);
    };
    let total = usize::try_from(u32::from_be_bytes(total)).unwrap_or(usize::MAX);
    if !(4..=FRAME_BYTES_MAX).contains(&total) {
        return Err(NotAFrame::Length(total));
    }
    let Some((&[encoding, a, b, c], rest)) = rest.split_first_chunk::<4>() else {
        return Ok(None);
    };
    let header_bytes = usize::try_from(u32::from_be_bytes([0, a, b, c])).unwrap_or(usize::MAX);
    if encoding != 0 {
        return Err(NotAFrame::Encoding(encoding));
    }
    if header_bytes > total - 4 {
        return Err(NotAFrame::HeaderLength(header_bytes, total));
    }
    let Some(content) = rest.get(..total - 4) else {
        return Ok(None);
    };
    let (header, body) = content.split_at(header_bytes);
    Ok(Some(Frame { header, body, bytes: total + 4 }))
}

/// What the first bytes of a stream hold.
#[derive(Debug)]
pub enum Parsed {
    /// Not all of a frame is there yet.
    Partial,
    /// A frame that answers nothing (a server may ask its clients things), of so many bytes.
    Other(usize),
    /// An answer, of so many bytes.
    Answer(Answer, usize),
}

pub fn parse(received: &[u8]) -> Result<Parsed, NotAFrame> {
    let Some(Frame { header, body, bytes }) = split(received)? else { return Ok(Parsed::Partial) };
    let header: AnswerHeader =
        serde_json::from_slice(header).map_err(|error| NotAFrame::Header(error.to_string()))?;
    if header.flag & FLAG_ANSWER == 0 {
        return Ok(Parsed::Other(bytes));
    }
    let answer = Answer {
        code: header.code,
        opaque: header.opaque,
        version: header.version,
        remark: header.remark.unwrap_or_default(),
        fields: header.ext_fields.unwrap_or_default(),
        body: body.into(),
    };
    Ok(Parsed::Answer(answer, bytes))
}

impl Answer {
    /// A field that must be a number.
    pub fn number(&self, name: &str) -> Result<u64, String> {
        let value = self.fields.get(name).map_or("", String::as_str);
        value.parse().map_err(|_not_a_number| format!("the answer's field {name} is {value:?}, not a number"))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::text;

    #[derive(Serialize)]
    struct Fields {
        #[serde(serialize_with = "text")]
        number: u64,
    }

    fn frame(header: &str, body: &[u8]) -> Vec<u8> {
        let total = u32::try_from(4 + header.len() + body.len()).unwrap();
        let header_bytes = u32::try_from(header.len()).unwrap();
        [&total.to_be_bytes(), &header_bytes.to_be_bytes(), header.as_bytes(), body].concat()
    }

    #[test]
    fn a_request_has_its_lengths_its_header_and_its_body() {
        let mut out = vec![9; 3];
        encode(&mut out, 30, -5, &Fields { number: 7 }, b"body", None);
        let header =
            r#"{"code":30,"language":"RUST","version":513,"opaque":-5,"flag":0,"extFields":{"number":"7"}}"#;
        assert_eq!(out[..3], [9; 3]);
        assert_eq!(out[3..], frame(header, b"body"));
    }

    #[test]
    fn an_answer_is_parsed_when_it_is_whole() {
        let bytes = frame(r#"{"code":0,"flag":1,"opaque":3,"extFields":{"offset":"12"},"new":[]}"#, b"xy");
        for cut in 0..bytes.len() {
            assert!(matches!(parse(&bytes[..cut]), Ok(Parsed::Partial)), "{cut}");
        }
        let Ok(Parsed::Answer(answer, used)) = parse(&[&bytes[..], b"next"].concat()) else { panic!() };
        assert_eq!(
            (answer.code, answer.opaque, answer.body.as_slice(), used),
            (0, 3, &b"xy"[..], bytes.len())
        );
        assert_eq!(answer.number("offset"), Ok(12));
        assert!(answer.number("other").is_err());
    }

    #[test]
    fn what_is_no_answer_is_distinguished() {
        let request = frame(r#"{"code":40,"flag":0,"opaque":3}"#, b"");
        assert!(matches!(parse(&request), Ok(Parsed::Other(n)) if n == request.len()));
        let cases: [(&[u8], NotAFrame); 6] = [
            (&[0, 0, 0, 3], NotAFrame::Length(3)),
            (&[0xff; 4], NotAFrame::Length(0xffff_ffff)),
            (&[1, 0, 0, 1], NotAFrame::Length((16 << 20) + 1)),
            (&[0, 0, 0, 9, 1, 0, 0, 1], NotAFrame::Encoding(1)),
            (&[0, 0, 0, 9, 0, 0, 0, 6], NotAFrame::HeaderLength(6, 9)),
            (b"HTTP/1.1 400 Bad Request", NotAFrame::Length(0x4854_5450)),
        ];
        for (bytes, expected) in cases {
            assert_eq!(parse(bytes).unwrap_err(), expected, "{bytes:?}");
        }
        assert!(matches!(parse(&frame("{}", b"")), Err(NotAFrame::Header(_))));
        assert!(matches!(parse(&frame("\0\0", b"")), Err(NotAFrame::Header(_))));
    }

    proptest! {
        #[test]
        fn whatever_comes_is_no_reason_to_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            drop(parse(&bytes));
        }

        #[test]
        fn a_damaged_answer_is_no_reason_to_panic(at in 0_usize..60, byte: u8) {
            let mut bytes = frame(r#"{"code":0,"flag":1,"opaque":3,"extFields":{"offset":"12"}}"#, b"xy");
            bytes[at] = byte;
            drop(parse(&bytes));
        }
    }
}
