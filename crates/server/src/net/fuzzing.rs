//! What fuzz/targets give bytes to. Built for them alone.

use std::mem::MaybeUninit;
use std::sync::Arc;

use super::framer::{Framer, Step};
use super::limits::Limits;

/// A request as a route would see it, or why there is none.
type Found = Result<(String, String, String, Vec<u8>), u16>;

/// The same bytes are the same requests, whatever pieces they come in. That the last one can't be is seen at once if it comes
/// whole, and in pieces with the end of a line.
pub fn requests(data: &[u8]) {
    let Some((&piece, bytes)) = data.split_first() else { return };
    let (mut whole, mut pieces) = (cut(bytes, usize::MAX), cut(bytes, usize::from(piece).max(1)));
    let ends = [&mut whole, &mut pieces].map(|found| found.pop_if(|last| last.is_err()));
    assert_eq!(whole, pieces, "in pieces of {piece}");
    if let [Some(whole), Some(pieces)] = ends {
        assert_eq!(whole, pieces, "in pieces of {piece}");
    }
}

fn cut(bytes: &[u8], piece: usize) -> Vec<Found> {
    let limits = Limits { head_bytes_max: 1024, ..Limits::default() };
    let (mut input, mut framer, mut found) = (Vec::new(), Framer::new(), Vec::new());
    for part in bytes.chunks(piece.min(bytes.len()).max(1)) {
        input.extend_from_slice(part);
        loop {
            match framer.decode(&mut input) {
                Ok(length) => input.truncate(length),
                Err(malformed) => return ended(found, malformed.status),
            }
            let mut slots = [const { MaybeUninit::uninit() }; 128];
            let consumed = match framer.next(&input, &mut slots, &limits, |_head| 4096) {
                Ok(Step::Complete { head, body, consumed }) => {
                    let [method, path, query] = [head.method, head.path, head.query].map(str::to_owned);
                    found.push(Ok((method, path, query, body.to_vec())));
                    consumed
                }
                Ok(Step::Decode) => continue,
                Ok(Step::More { .. }) => break,
                Err(malformed) => return ended(found, malformed.status),
            };
            input.drain(..consumed);
        }
    }
    found
}

fn ended(mut found: Vec<Found>, status: u16) -> Vec<Found> {
    found.push(Err(status));
    found
}

/// A client's side of a handshake.
pub fn tls(data: &[u8]) {
    use rustls::ServerConfig;
    use rustls::server::ResolvesServerCertUsingSni;

    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("the provider has them")
        .with_no_client_auth()
        .with_cert_resolver(Arc::new(ResolvesServerCertUsingSni::new()));
    let mut connection = rustls::ServerConnection::new(Arc::new(config)).expect("the configuration is sound");
    let mut rest = data;
    while !rest.is_empty() && connection.wants_read() {
        if connection.read_tls(&mut rest).is_err() || connection.process_new_packets().is_err() {
            return;
        }
        drop(connection.write_tls(&mut std::io::sink()));
    }
}
