//! The same over TLS, with the fixed certificate of `tests/data` (valid for localhost until 2126).

use std::path::{Path, PathBuf};

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, ClientConnection, StreamOwned};
use server::net::{Tls, TlsError};

use super::*;

fn data(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(file)
}

fn start(limits: Limits) -> Server {
    let tls = Tls::load(&data("localhost.cert.pem"), &data("localhost.key.pem")).unwrap();
    Server::start_with(limits, Some(tls.config()))
}

fn connect(server: &Server) -> Client<StreamOwned<ClientConnection, TcpStream>> {
    let mut roots = rustls::RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(data("localhost.cert.pem")).unwrap()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    let session = ClientConnection::new(Arc::new(config), "localhost".try_into().unwrap()).unwrap();
    Client { stream: StreamOwned::new(session, server.connect().stream), read: Vec::new() }
}

#[test]
fn requests_over_tls() {
    let server = start(relaxed());
    let mut client = connect(&server);
    for _ in 0..3 {
        let response = client.ask("/echo?q");
        assert_eq!(response.body, "GET /echo q ");
        assert!(
            response.has("X-Secure: true") && response.has("Strict-Transport-Security: max-age=31536000")
        );
        assert_eq!(client.ask("/later").body, "GET /later  ");
    }
    assert_eq!(client.stream.conn.alpn_protocol(), Some(&b"http/1.1"[..]));
    client.send("GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n");
    assert!(client.response().has("Connection: close"));
    client.expect_end();
}

#[test]
fn large_answers_and_pipelines_over_tls() {
    let server = start(relaxed());
    let mut client = connect(&server);
    assert_eq!(client.ask("/big?5000000").body.len(), 5_000_000);
    for _ in 0..50 {
        client.get("/big?100000");
        client.get("/later");
    }
    for _ in 0..50 {
        assert_eq!(client.response().body.len(), 100_000);
        assert_eq!(client.response().body, "GET /later  ");
    }
}

#[test]
fn an_error_is_seen_over_tls() {
    let server = start(relaxed());
    let mut client = connect(&server);
    client.send("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 100000\r\n\r\n");
    client.send(vec![b'x'; 100_000]);
    assert_eq!(client.response().status, 413);
    client.expect_end();
}

#[test]
fn a_handshake_is_bounded_in_time() {
    // Enough for the second client's handshake on however busy a machine.
    let server = start(Limits { request_timeout: Duration::from_secs(2), ..relaxed() });
    let mut silent = server.connect();
    // At most an alert comes before the end.
    silent.stream.read_to_end(&mut silent.read).unwrap();
    assert!(silent.read.len() < 20);
    let mut slow = connect(&server);
    assert_eq!(slow.ask("/echo").status, 200);
    slow.send("GE");
    assert_eq!(slow.response().status, 408);
    slow.expect_end();
}

#[test]
fn plain_text_on_a_tls_port_is_closed() {
    let server = start(relaxed());
    let mut client = server.connect();
    client.get("/echo");
    // An alert, not a response; then the end.
    let mut received = Vec::new();
    client.stream.read_to_end(&mut received).unwrap_or_default();
    assert!(!received.starts_with(b"HTTP"), "{received:?}");
    server.wait_until_open(0);
}

#[test]
fn draining_over_tls() {
    let mut server = start(relaxed());
    let mut idle = connect(&server);
    assert_eq!(idle.ask("/echo").status, 200);
    let mut waiting = connect(&server);
    waiting.get("/hold");
    server.wait_until_held(1);
    server.stop.request();
    idle.expect_end();
    server.release("late");
    let response = waiting.response();
    assert_eq!(response.body, "late");
    assert!(response.has("Connection: close"));
    waiting.expect_end();
    server.join();
}

#[test]
fn a_wrong_file_is_named() {
    let (certificate, key) = (data("localhost.cert.pem"), data("localhost.key.pem"));
    for (certificate, key, named) in [
        (data("missing.pem"), key.clone(), "missing.pem"),
        (certificate.clone(), data("missing.pem"), "missing.pem"),
        (key.clone(), key.clone(), "localhost.key.pem holds no certificate"),
        (certificate.clone(), certificate, "localhost.cert.pem holds no readable"),
    ] {
        let error: TlsError = Tls::load(&certificate, &key).unwrap_err();
        assert!(error.to_string().contains(named), "{error}");
    }
}
