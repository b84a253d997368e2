//! RESP2, Redis' protocol: commands are written, replies are read from bytes that may have come in part.
//!
//! Nothing is copied: a reply borrows the bytes it was read from. It knows no command and no meaning.

/// Replies nest this deep at most.
const DEPTH_MAX: usize = 8;
/// A line without an end after this is none.
const LINE_BYTES_MAX: usize = 64 << 10;
/// Redis' own limit of a string.
const BULK_BYTES_MAX: i64 = 512 << 20;
const ELEMENTS_MAX: i64 = 1 << 20;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reply<'a> {
    Simple(&'a [u8]),
    Error(&'a [u8]),
    Integer(i64),
    Bulk(&'a [u8]),
    /// A missing string or array.
    Nil,
    Array(Elements<'a>),
}

/// The elements of an array, one after the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Elements<'a> {
    left: usize,
    bytes: &'a [u8],
}

/// This can't be a reply, whatever comes behind it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Malformed(pub &'static str);

/// The first reply of `bytes` and its length; `None` if a part of it is still to come.
pub fn decode(bytes: &[u8]) -> Result<Option<(Reply<'_>, usize)>, Malformed> {
    nested(bytes, DEPTH_MAX)
}

fn nested(bytes: &[u8], depth: usize) -> Result<Option<(Reply<'_>, usize)>, Malformed> {
    let Some((text, line)) = line(bytes)? else { return Ok(None) };
    let reply = match bytes[0] {
        b'+' => Reply::Simple(text),
        b'-' => Reply::Error(text),
        b':' => Reply::Integer(integer(text)?),
        b'$' => return bulk(bytes, line, integer(text)?),
        b'*' => return array(bytes, line, integer(text)?, depth),
        _ => return Err(Malformed("no reply of Redis begins like this")),
    };
    Ok(Some((reply, line)))
}

fn bulk(bytes: &[u8], line: usize, length: i64) -> Result<Option<(Reply<'_>, usize)>, Malformed> {
    if length == -1 {
        return Ok(Some((Reply::Nil, line)));
    }
    if !(0..=BULK_BYTES_MAX).contains(&length) {
        return Err(Malformed("a string of an impossible length"));
    }
    let end = line + usize::try_from(length).expect("its bound fits");
    match bytes.get(end..end + 2) {
        None => Ok(None),
        Some(b"\r\n") => Ok(Some((Reply::Bulk(&bytes[line..end]), end + 2))),
        Some(_) => Err(Malformed("a string that is longer than it claims")),
    }
}

fn array(
    bytes: &[u8],
    line: usize,
    count: i64,
    depth: usize,
) -> Result<Option<(Reply<'_>, usize)>, Malformed> {
    if count == -1 {
        return Ok(Some((Reply::Nil, line)));
    }
    if !(0..=ELEMENTS_MAX).contains(&count) || depth == 0 {
        return Err(Malformed("an array of an impossible length or depth"));
    }
    let mut end = line;
    for _ in 0..count {
        let Some((_, length)) = nested(&bytes[end..], depth - 1)? else { return Ok(None) };
        end += length;
    }
    let left = usize::try_from(count).expect("its bound fits");
    Ok(Some((Reply::Array(Elements { left, bytes: &bytes[line..end] }), end)))
}

/// What follows the first byte of the first line, and the line's length with its end.
fn line(bytes: &[u8]) -> Result<Option<(&[u8], usize)>, Malformed> {
    match bytes.first() {
        None => return Ok(None),
        Some(b'+' | b'-' | b':' | b'$' | b'*') => {}
        Some(_) => return Err(Malformed("no reply of Redis begins like this")),
    }
    let Some(end) = bytes.iter().take(LINE_BYTES_MAX).position(|byte| *byte == b'\n') else {
        return if bytes.len() < LINE_BYTES_MAX { Ok(None) } else { Err(Malformed("a line without an end")) };
    };
    let text = bytes[1..end].strip_suffix(b"\r").ok_or(Malformed("a line that ends without a return"))?;
    Ok(Some((text, end + 1)))
}

fn integer(text: &[u8]) -> Result<i64, Malformed> {
    let text = std::str::from_utf8(text).ok().and_then(|text| text.parse().ok());
    text.ok_or(Malformed("a number that is none"))
}

impl<'a> Iterator for Elements<'a> {
    type Item = Reply<'a>;

    fn next(&mut self) -> Option<Reply<'a>> {
        self.left = self.left.checked_sub(1)?;
        let whole = decode(self.bytes).ok().flatten();
        let (reply, length) = whole.expect("the array was found whole and well-formed");
        self.bytes = &self.bytes[length..];
        Some(reply)
    }
}

impl Reply<'_> {
    pub fn integer(self) -> Option<i64> {
        if let Self::Integer(value) = self { Some(value) } else { None }
    }
}

/// Appends a command.
pub fn encode(words: &[&[u8]], out: &mut Vec<u8>) {
    header(b'*', words.len(), out);
    for word in words {
        header(b'$', word.len(), out);
        out.extend_from_slice(word);
        out.extend_from_slice(b"\r\n");
    }
}

/// Appends the line before an array or a string.
pub(super) fn header(kind: u8, length: usize, out: &mut Vec<u8>) {
    out.push(kind);
    digits(length as u64, 1, out);
    out.extend_from_slice(b"\r\n");
}

/// Appends a decimal number with leading zeros up to `least` digits. On the path of every request, so without `fmt`.
pub(super) fn digits(mut value: u64, least: usize, out: &mut Vec<u8>) {
    let begin = out.len();
    while value > 0 || out.len() - begin < least {
        out.push(b'0' + (value % 10) as u8);
        value /= 10;
    }
    out[begin..].reverse();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_replies_are_read_and_every_part_of_them_is_waited_for() {
        type Check = fn(Reply<'_>) -> bool;
        let table: &[(&[u8], Check)] = &[
            (b"+OK\r\n", |reply| reply == Reply::Simple(b"OK")),
            (b"+\r\n", |reply| reply == Reply::Simple(b"")),
            (b"-ERR no\r\n", |reply| reply == Reply::Error(b"ERR no")),
            (b":-42\r\n", |reply| reply == Reply::Integer(-42)),
            (b"$3\r\na\r\n\r\n", |reply| reply == Reply::Bulk(b"a\r\n")),
            (b"$0\r\n\r\n", |reply| reply == Reply::Bulk(b"")),
            (b"$-1\r\n", |reply| reply == Reply::Nil),
            (b"*-1\r\n", |reply| reply == Reply::Nil),
            (b"*0\r\n", |reply| matches!(reply, Reply::Array(of) if of.count() == 0)),
            (b"*3\r\n:1\r\n*2\r\n$1\r\nx\r\n$-1\r\n-ERR in it\r\n", |reply| {
                let Reply::Array(mut of) = reply else { return false };
                let first = of.next() == Some(Reply::Integer(1));
                let Some(Reply::Array(mut inner)) = of.next() else { return false };
                let inner = [inner.next(), inner.next(), inner.next()];
                first
                    && inner == [Some(Reply::Bulk(b"x")), Some(Reply::Nil), None]
                    && of.next() == Some(Reply::Error(b"ERR in it"))
                    && of.next().is_none()
            }),
        ];
        for (bytes, check) in table {
            let shown = String::from_utf8_lossy(bytes);
            let with_more = [bytes, &b"+next\r\n"[..]].concat();
            let (reply, length) = decode(&with_more).unwrap().unwrap();
            assert!(check(reply), "{shown}: {reply:?}");
            assert_eq!(length, bytes.len(), "{shown}");
            for cut in 0..bytes.len() {
                assert_eq!(decode(&bytes[..cut]), Ok(None), "{shown} cut at {cut}");
            }
        }
    }

    #[test]
    fn what_can_be_no_reply_is_refused() {
        let long = [b"+", vec![b'x'; LINE_BYTES_MAX].as_slice()].concat();
        let deep = b"*1\r\n".repeat(DEPTH_MAX + 1);
        let table: &[&[u8]] = &[
            b"HTTP/1.1 200 OK\r\n",
            b"?",
            b"+OK\n",
            b":4x\r\n",
            b":\r\n",
            b"$-2\r\n",
            b"$999999999999\r\n",
            b"$1\r\nxyz",
            b"*-2\r\n",
            b"*99999999\r\n",
            b"*2\r\n:1\r\n!\r\n",
            &long,
            &deep,
        ];
        for bytes in table {
            let shown = String::from_utf8_lossy(&bytes[..bytes.len().min(40)]);
            assert!(decode(bytes).is_err(), "{shown}: {:?}", decode(bytes));
        }
    }

    #[test]
    fn commands_are_written_with_their_lengths() {
        let mut out = Vec::new();
        encode(&[b"SET", b"key of ten", b""], &mut out);
        assert_eq!(out, b"*3\r\n$3\r\nSET\r\n$10\r\nkey of ten\r\n$0\r\n\r\n");
        for (value, least, wanted) in
            [(0, 1, "0"), (0, 0, ""), (70, 1, "70"), (70, 5, "00070"), (123, 2, "123")]
        {
            let mut out = Vec::new();
            digits(value, least, &mut out);
            assert_eq!(out, wanted.as_bytes());
        }
    }
}
