//! RocketMQ's frames: the whole length without itself, the header's length (its top byte says how it is written), the
//! header, the body.
//!
//! Must not: panic, or wait for more memory than a frame may have, because of what a server sent.

use std::borrow::Cow;

use serde::Deserialize;

/// A frame that claims to be longer is none; brokers have the same bound.
pub(super) const FRAME_BYTES_MAX: usize = 16 << 20;
/// The bit of `flag` that an answer has and a request has not.
const ANSWER: i32 = 1;
/// Headers as JSON, which is what RocketMQ's own clients write by default.
const JSON: u8 = 0;

/// As much of an answer's header as a driver needs.
#[derive(Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Header<'a> {
    pub(super) code: i32,
    pub(super) opaque: i32,
    flag: i32,
    /// What the broker says about a refusal.
    #[serde(borrow, default)]
    pub(super) remark: Option<Cow<'a, str>>,
}

/// What the first bytes of a stream are.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Parsed<'a> {
    /// Not a whole frame yet.
    Part,
    /// Something that the server asks of its own accord; so many bytes.
    Asked {
        bytes: usize,
    },
    Answer {
        header: Header<'a>,
        body: &'a [u8],
        bytes: usize,
    },
}

pub(super) fn parse(bytes: &[u8]) -> Result<Parsed<'_>, &'static str> {
    let Some((length, rest)) = bytes.split_first_chunk::<4>() else { return Ok(Parsed::Part) };
    let length = size(*length);
    if !(4..=FRAME_BYTES_MAX).contains(&length) {
        return Err("a frame of an impossible length");
    }
    let Some((&[encoding, high, middle, low], rest)) = rest.split_first_chunk::<4>() else {
        return Ok(Parsed::Part);
    };
    if encoding != JSON {
        return Err("a header that is not JSON");
    }
    let header_bytes = size([0, high, middle, low]);
    if header_bytes > length - 4 {
        return Err("a header that is longer than its frame");
    }
    let Some(content) = rest.get(..length - 4) else { return Ok(Parsed::Part) };
    let (header, body) = content.split_at(header_bytes);
    let Ok(header) = serde_json::from_slice::<Header<'_>>(header) else {
        return Err("a header of another form");
    };
    let bytes = length + 4;
    if header.flag & ANSWER == 0 {
        return Ok(Parsed::Asked { bytes });
    }
    Ok(Parsed::Answer { header, body, bytes })
}

/// Appends a frame; `header` and `body` append their parts.
pub(super) fn append(out: &mut Vec<u8>, header: impl FnOnce(&mut Vec<u8>), body: impl FnOnce(&mut Vec<u8>)) {
    let start = out.len();
    out.extend_from_slice(&[0; 8]);
    header(out);
    let header_bytes = out.len() - start - 8;
    body(out);
    let length = out.len() - start - 4;
    assert!(header_bytes < 1 << 24 && length <= FRAME_BYTES_MAX, "requests are bounded by their options");
    out[start..start + 4].copy_from_slice(&to_u32(length).to_be_bytes());
    out[start + 4..start + 8].copy_from_slice(&to_u32(header_bytes).to_be_bytes());
}

fn size(bytes: [u8; 4]) -> usize {
    usize::try_from(u32::from_be_bytes(bytes)).unwrap_or(usize::MAX)
}

pub(super) fn to_u32(bytes: usize) -> u32 {
    u32::try_from(bytes).expect("frames are at most 16 MiB")
}

#[cfg(test)]
pub(super) fn answer(header: &str, body: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    append(&mut out, |out| out.extend_from_slice(header.as_bytes()), |out| out.extend_from_slice(body));
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_is_read_when_it_is_whole() {
        let bytes =
            answer(r#"{"code":2,"flag":1,"opaque":9,"remark":"no \"room\"","extFields":{"a":"b"}}"#, b"xy");
        for cut in 0..bytes.len() {
            assert_eq!(parse(&bytes[..cut]), Ok(Parsed::Part), "{cut}");
        }
        let more = [&bytes[..], b"more"].concat();
        let Ok(Parsed::Answer { header, body, bytes: used }) = parse(&more) else { panic!("no answer") };
        assert_eq!((header.code, header.opaque, body, used), (2, 9, &b"xy"[..], bytes.len()));
        assert_eq!(header.remark.as_deref(), Some(r#"no "room""#));
    }

    #[test]
    fn what_is_no_answer_is_an_error() {
        let asked = answer(r#"{"code":40,"flag":0,"opaque":1}"#, b"");
        assert_eq!(parse(&asked), Ok(Parsed::Asked { bytes: asked.len() }));
        let cases: [(&[u8], &str); 6] = [
            (&[0, 0, 0, 3], "a frame of an impossible length"),
            (&[1, 0, 0, 1], "a frame of an impossible length"),
            (b"HTTP/1.1 400 Bad Request", "a frame of an impossible length"),
            (&[0, 0, 0, 9, 1, 0, 0, 1], "a header that is not JSON"),
            (&[0, 0, 0, 9, 0, 0, 0, 6], "a header that is longer than its frame"),
            (&answer("{}", b""), "a header of another form"),
        ];
        for (bytes, wanted) in cases {
            assert_eq!(parse(bytes), Err(wanted), "{bytes:?}");
        }
    }
}
