//! Hostile input on a real socket: whatever is sent, the server answers or closes, and goes on serving.

use std::net::Shutdown;

use proptest::prelude::*;

use super::*;

/// Pieces of requests that mean something, to be put together in senseless ways.
fn fragment() -> impl Strategy<Value = Vec<u8>> {
    let known = prop::sample::select(vec![
        &b"GET / HTTP/1.1\r\nHost: h\r\n\r\n"[..],
        b"GET /later HTTP/1.1\r\nHost: h\r\n\r\n",
        b"POST /echo HTTP/1.1\r\nHost: h\r\n",
        b"Content-Length: 3\r\n",
        b"Content-Length: 99999999999\r\n",
        b"Transfer-Encoding: chunked\r\n",
        b"Expect: 100-continue\r\n",
        b"Connection: close\r\n",
        b"\r\n",
        b"\n",
        b"abc",
        b"3\r\nabc\r\n",
        b"0\r\n\r\n",
        b"\0",
        b"\x16\x03\x01\x02\x00",
    ]);
    prop_oneof![4 => known.prop_map(<[u8]>::to_vec), 1 => prop::collection::vec(any::<u8>(), 0..200)]
}

#[test]
fn every_client_gets_an_answer_or_an_end() {
    let server = Server::start(relaxed());
    let config = ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() };
    proptest!(config, |(pieces in prop::collection::vec(fragment(), 0..12), in_one in any::<bool>())| {
        let mut client = server.connect();
        let pieces = if in_one { vec![pieces.concat()] } else { pieces };
        for piece in pieces {
            // After an error the server may have closed already.
            if client.stream.write_all(&piece).is_err() {
                break;
            }
        }
        // The end of input is the end of the connection, once what came before it is answered.
        client.stream.shutdown(Shutdown::Write).unwrap_or_default();
        let mut received = Vec::new();
        if let Err(error) = client.stream.read_to_end(&mut received) {
            prop_assert_eq!(error.kind(), io::ErrorKind::ConnectionReset);
        }
        prop_assert!(received.is_empty() || received.starts_with(b"HTTP/1.1 "));
    });
    server.wait_until_open(0);
    assert_eq!(server.connect().ask("/echo").status, 200);
}
