//! Tables and fuzzing of framing, without sockets. The rule behind most of it: how the bytes were cut up on
//! their way must not change what is understood.

use std::mem::MaybeUninit;

use proptest::prelude::*;

use super::*;
use crate::net::limits::HEADER_SLOTS;

const BODY_BYTES_MAX: usize = 100;

fn limits() -> Limits {
    Limits { head_bytes_max: 512, headers_max: 8, ..Limits::default() }
}

/// Feeds the pieces one by one, as a connection does, and describes what came out; "..." is an unfinished
/// rest.
fn understand(pieces: &[&[u8]]) -> Vec<String> {
    let limits = limits();
    let mut framer = Framer::new();
    let mut input = Vec::new();
    let mut seen = Vec::new();
    for piece in pieces {
        input.extend_from_slice(piece);
        loop {
            match framer.decode(&mut input) {
                Ok(bytes) => input.truncate(bytes),
                Err(refusal) => {
                    seen.push(format!("{} {}", refusal.status, refusal.detail));
                    return seen;
                }
            }
            if input.is_empty() {
                break;
            }
            let mut slots = [const { MaybeUninit::uninit() }; HEADER_SLOTS];
            match framer.next(&input, &mut slots, &limits, |_| BODY_BYTES_MAX) {
                Ok(Step::Complete { head, body, consumed }) => {
                    seen.push(describe(&head, body));
                    input.drain(..consumed);
                }
                Ok(Step::Decode) => {}
                Ok(Step::More { .. }) => break,
                Err(refusal) => {
                    seen.push(format!("{} {}", refusal.status, refusal.detail));
                    return seen;
                }
            }
        }
    }
    if !input.is_empty() {
        seen.push("...".to_owned());
    }
    seen
}

fn describe(head: &Head<'_>, body: &[u8]) -> String {
    let keep = if head.keep_alive { "keep" } else { "close" };
    let body = String::from_utf8_lossy(body);
    format!("{} {} {} {} {keep} [{body}]", head.method, head.path, head.query, head.headers.len())
}

/// The table: every input, whole and cut at each position and into single bytes, gives the same.
#[track_caller]
fn check(input: &str, expected: &[&str]) {
    let bytes = input.as_bytes();
    let whole = understand(&[bytes]);
    assert_eq!(whole.len(), expected.len(), "{input:?} gave {whole:?}");
    for (got, expected) in whole.iter().zip(expected) {
        assert!(got.starts_with(expected), "{input:?} gave {got:?} instead of {expected:?}");
    }
    for at in 1..bytes.len() {
        assert_eq!(understand(&[&bytes[..at], &bytes[at..]]), whole, "{input:?} cut at {at}");
    }
    let single: Vec<&[u8]> = bytes.chunks(1).collect();
    assert_eq!(understand(&single), whole, "{input:?} byte by byte");
}

/// A POST with these header lines and this rest.
fn post(headers: &str, rest: &str) -> String {
    format!("POST /a HTTP/1.1\r\nHost: h\r\n{headers}\r\n{rest}")
}

#[test]
fn requests() {
    check("GET /a?b=1&c HTTP/1.1\r\nHost: shop.example:80\r\n\r\n", &["GET /a b=1&c 1 keep []"]);
    check("\r\n\r\nGET / HTTP/1.1\r\nHost: h\r\n\r\n", &["GET /  1 keep []"]);
    check("GET / HTTP/1.1\r\nhost:h\r\nX:\r\n\r\n", &["GET /  2 keep []"]);
    check("GET / HTTP/1.1\r\nHost: h\r\nconnection: foo, Close\r\n\r\n", &["GET /  2 close []"]);
    check("GET / HTTP/1.0\r\n\r\n", &["GET /  0 close []"]);
    check("GET / HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n", &["GET /  1 keep []"]);
    check("OPTIONS * HTTP/1.1\r\nHost: h\r\n\r\n", &["OPTIONS *  1 keep []"]);
    check("GET http://H/a?b HTTP/1.1\r\nHost: h\r\n\r\n", &["GET /a b 1 keep []"]);
    check("GET http://h?b HTTP/1.1\r\nHost: h\r\n\r\n", &["GET / b 1 keep []"]);
    check("GET / HTTP/1.1\r\nHost: h\r\n\r\nGET /2 HT", &["GET /  1 keep []", "..."]);
}

#[test]
fn bodies() {
    check(&post("Content-Length: 5\r\n", "helloGET"), &["POST /a  2 keep [hello]", "..."]);
    check(&post("Content-Length: 5\r\nContent-Length: 5\r\n", "hello"), &["POST /a  3 keep [hello]"]);
    check(&post("Content-Length: 0\r\n", ""), &["POST /a  2 keep []"]);
    check(&post("Content-Length: 5\r\n", "hell"), &["..."]);
    let two = post("Content-Length: 2\r\n", "ab") + &post("Content-Length: 3\r\n", "cde");
    check(&two, &["POST /a  2 keep [ab]", "POST /a  2 keep [cde]"]);
}

#[test]
fn chunked_bodies() {
    let chunked = |rest: &str| post("Transfer-Encoding: Chunked\r\n", rest);
    check(&chunked("5\r\nhello\r\n0\r\n\r\n"), &["POST /a  2 keep [hello]"]);
    check(&chunked("0\r\n\r\n"), &["POST /a  2 keep []"]);
    check(
        &chunked("005;a=b\r\nhello\r\nB; c=\"d\"\r\n, you there\r\n0\r\nX: y\r\nZ: w\r\n\r\n"),
        &["POST /a  2 keep [hello, you there]"],
    );
    let two = chunked("1\r\na\r\n0\r\n\r\n") + &chunked("1\r\nb\r\n1\r\nc\r\n0\r\n\r\n");
    check(&two, &["POST /a  2 keep [a]", "POST /a  2 keep [bc]"]);
    check(&chunked("5\r\nhel"), &["..."]);
    for (rest, status) in [
        ("5\nhello\r\n0\r\n\r\n", "400"),
        ("5 \r\nhello\r\n0\r\n\r\n", "400"),
        ("-5\r\nhello\r\n0\r\n\r\n", "400"),
        ("0x5\r\nhello\r\n0\r\n\r\n", "400"),
        ("\r\nhello\r\n0\r\n\r\n", "400"),
        ("5\r\nhello0\r\n\r\n", "400"),
        ("5\r\nhello\r0\r\n\r\n", "400"),
        ("5\r\nhello\r\n0\r\nX: \0\r\n\r\n", "400"),
        ("5\r\nhello\r\n0\r\n\rX", "400"),
        ("5;\n\r\nhello\r\n0\r\n\r\n", "400"),
        ("65\r\n", "413"),
        ("ffffffffffffffffffff\r\n", "413"),
        ("40\r\n0123456789012345678901234567890123456789012345678901234567890123\r\n25\r\n", "413"),
    ] {
        check(&chunked(rest), &[status]);
    }
    let endless = chunked(&format!("5;{}\r\n", "x".repeat(300)));
    check(&endless, &["400"]);
    check(&chunked(&format!("{}\r\n", "0".repeat(300))), &["400"]);
    check(&chunked(&format!("0\r\n{}", "X: y\r\n".repeat(700))), &["400"]);
}

#[test]
fn refused_framing() {
    for (headers, status) in [
        ("Content-Length: 5\r\nTransfer-Encoding: chunked\r\n", "400"),
        ("Content-Length: 5\r\nContent-Length: 6\r\n", "400"),
        ("Content-Length: 5, 5\r\n", "400"),
        ("Content-Length: +5\r\n", "400"),
        ("Content-Length: 0x5\r\n", "400"),
        ("Content-Length:\r\n", "400"),
        ("Content-Length: 101\r\n", "413"),
        ("Content-Length: 99999999999999999999999999\r\n", "413"),
        ("Transfer-Encoding: gzip, chunked\r\n", "501"),
        ("Transfer-Encoding: xchunked\r\n", "501"),
        ("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n", "400"),
        ("Transfer-Encoding : chunked\r\n", "400"),
        ("Expect: tea\r\n", "417"),
        ("Host: h\r\n", "400"),
        ("X: a\r\n folded\r\n", "400"),
        ("X: a\0b\r\n", "400"),
        ("X: a\u{7f}b\r\n", "400"),
        ("X: a\rb\r\n", "400"),
        ("X: a\nY: b\r\n", "400"),
        ("X Y: b\r\n", "400"),
        (": b\r\n", "400"),
        ("A:\r\nB:\r\nC:\r\nD:\r\nE:\r\nF:\r\nG:\r\nH:\r\n", "431"),
    ] {
        check(&post(headers, "hello"), &[status]);
    }
    check("POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", &["400"]);
}

#[test]
fn refused_request_lines() {
    for (line, status) in [
        ("GET / HTTP/1.2", "505"),
        ("GET / HTTP/2.0", "505"),
        ("PRI * HTTP/2.0", "505"),
        ("GET /", "400"),
        ("GET a HTTP/1.1", "400"),
        ("GET * HTTP/1.1", "400"),
        ("GET ftp://h/ HTTP/1.1", "400"),
        ("GET http://other/ HTTP/1.1", "400"),
        ("CONNECT h:80 HTTP/1.1", "400"),
        ("GET /\u{e4} HTTP/1.1", "400"),
        ("GET /#a HTTP/1.1", "400"),
        ("GET /\0 HTTP/1.1", "400"),
        ("GET  / HTTP/1.1", "400"),
        ("G\u{1}T / HTTP/1.1", "400"),
    ] {
        check(&format!("{line}\r\nHost: h\r\n\r\n"), &[status]);
    }
    check("GET / HTTP/1.1\r\n\r\n", &["400 the Host header is missing"]);
    check("GET / HTTP/1.1\r\nHost: a, b\r\n\r\n", &["400 the Host header is invalid"]);
    check("GET / HTTP/1.1\nHost: h\n\n", &["400 a line ends without"]);
    check("\nGET / HTTP/1.1\r\nHost: h\r\n\r\n", &["400 a line ends without"]);
}

#[test]
fn sizes_are_exact() {
    let with_bytes = |bytes: usize| {
        let frame = "GET / HTTP/1.1\r\nHost: h\r\nX: \r\n\r\n".len();
        format!("GET / HTTP/1.1\r\nHost: h\r\nX: {}\r\n\r\n", "x".repeat(bytes - frame))
    };
    check(&with_bytes(512), &["GET /  2 keep []"]);
    check(&with_bytes(513), &["431"]);
    check(&format!("GET /{}", "x".repeat(600)), &["414"]);
    let full = "x".repeat(BODY_BYTES_MAX);
    check(&post("Content-Length: 100\r\n", &full), &[&format!("POST /a  2 keep [{full}]")]);
}

#[test]
fn continue_is_sent_once_and_only_when_wanted() {
    let limits = limits();
    let continues = |headers: &str, pieces: &[&str]| {
        let mut framer = Framer::new();
        let mut input = post(headers, "").into_bytes();
        let mut sent = 0;
        for piece in [""].iter().chain(pieces) {
            input.extend_from_slice(piece.as_bytes());
            loop {
                let bytes = framer.decode(&mut input).unwrap();
                input.truncate(bytes);
                let mut slots = [const { MaybeUninit::uninit() }; HEADER_SLOTS];
                match framer.next(&input, &mut slots, &limits, |_| BODY_BYTES_MAX).unwrap() {
                    Step::Complete { .. } => return Some(sent),
                    Step::Decode => {}
                    Step::More { send_continue } => {
                        sent += u32::from(send_continue);
                        break;
                    }
                }
            }
        }
        None
    };
    let expect = "Expect: 100-continue\r\nContent-Length: 2\r\n";
    assert_eq!(continues(expect, &["a", "b"]), Some(1));
    assert_eq!(continues("Content-Length: 2\r\n", &["a", "b"]), Some(0));
    let chunked = "Expect: 100-Continue\r\nTransfer-Encoding: chunked\r\n";
    assert_eq!(continues(chunked, &["1\r\na", "\r\n0\r\n", "\r\n"]), Some(1));
    assert_eq!(continues("Expect: 100-continue\r\nContent-Length: 0\r\n", &[]), Some(0));
}

/// Valid requests of every kind, to be damaged.
fn valid() -> impl Strategy<Value = Vec<u8>> {
    let one = prop_oneof![
        Just("GET /a?b=c HTTP/1.1\r\nHost: h\r\nAccept: */*\r\n\r\n".to_owned()),
        Just("GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n".to_owned()),
        Just(post("Content-Length: 5\r\n", "hello")),
        Just(post("Transfer-Encoding: chunked\r\n", "5\r\nhello\r\n1;x\r\n!\r\n0\r\nT: u\r\n\r\n")),
        Just(post("Expect: 100-continue\r\nContent-Length: 2\r\nConnection: close\r\n", "hi")),
    ];
    prop::collection::vec(one, 1..4).prop_map(|requests| requests.concat().into_bytes())
}

/// Bytes that mean something to a parser are far more likely to break it than others.
fn damaging() -> impl Strategy<Value = u8> {
    prop_oneof![prop::sample::select(b"\r\n\0 \t:;,0123456789abcdefHTP/.-+\x7f\xff".to_vec()), any::<u8>()]
}

fn cut<'a>(input: &'a [u8], cuts: &[prop::sample::Index]) -> Vec<&'a [u8]> {
    let mut places: Vec<usize> = cuts.iter().map(|cut| cut.index(input.len() + 1)).collect();
    places.sort_unstable();
    let mut pieces = Vec::new();
    let mut from = 0;
    for place in places {
        pieces.push(&input[from..place]);
        from = place;
    }
    pieces.push(&input[from..]);
    pieces
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn damaged_requests_mean_the_same_however_they_are_cut(
        mut input in valid(),
        damage in prop::collection::vec((any::<prop::sample::Index>(), 0..3u8, damaging()), 0..6),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..8),
    ) {
        for (place, kind, byte) in damage {
            let at = place.index(input.len());
            match kind {
                0 => input[at] = byte,
                1 => input.insert(at, byte),
                _ if input.len() > 1 => drop(input.remove(at)),
                _ => {}
            }
        }
        // Damage inside an unfinished line may be noticed only at its end.
        input.extend_from_slice(b"\r\n");
        prop_assert_eq!(understand(&cut(&input, &cuts)), understand(&[&input]));
    }

    #[test]
    fn arbitrary_bytes_are_understood_or_refused(
        input in prop::collection::vec(damaging(), 0..700),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..8),
    ) {
        let mut input = input;
        input.extend_from_slice(b"\r\n");
        prop_assert_eq!(understand(&cut(&input, &cuts)), understand(&[&input]));
    }
}
