//! TLS through the real program: the operator's commands and a buyer, over the certificate of `server`'s tests.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use serde_json::Value;

use crate::serving::{OPERATOR, Serving};
use crate::{doorbuster, outcome};

/// One of `server`'s tests.
pub(crate) fn file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../server/tests/data").join(name)
}

/// Of a client that trusts this certificate alone.
pub(crate) fn connect(address: SocketAddr, trusted: &str) -> StreamOwned<ClientConnection, TcpStream> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(file(trusted)).unwrap()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let session = ClientConnection::new(Arc::new(config), "localhost".try_into().unwrap()).unwrap();
    let socket = TcpStream::connect(address).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    StreamOwned::new(session, socket)
}

/// Sends one request on a connection of its own and reads the status and the body.
fn exchange(serving: &Serving, request: &str) -> (String, Value) {
    let mut stream = connect(serving.address, "localhost.cert.pem");
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (head.lines().next().unwrap().to_owned(), serde_json::from_str(body).unwrap())
}

#[test]
fn orders_and_commands_go_over_tls() {
    let directory = tempfile::tempdir().unwrap();
    let mut command = doorbuster(directory.path());
    command
        .args(["serve", "--demo", "--listen", "127.0.0.1:0", "--data-dir", "data"])
        .env("DOORBUSTER_HTTP_TLS_CERTIFICATE_FILE", file("localhost.cert.pem"))
        .env("DOORBUSTER_HTTP_TLS_KEY_FILE", file("localhost.key.pem"));
    let serving = Serving::start_unseen(command);
    let body = r#"{"sale":3,"product":30}"#;
    let head = "Host: localhost\r\nmemberId: 7\r\nConnection: close\r\n";
    let order = format!("POST /api/v1/orders HTTP/1.1\r\n{head}Content-Length: {}\r\n\r\n{body}", body.len());
    let (status, placed) = exchange(&serving, &order);
    assert_eq!((status.as_str(), &placed["status"]), ("HTTP/1.1 201 Created", &"held".into()));
    let id = placed["id"].as_str().unwrap();
    let (status, mut read) = exchange(&serving, &format!("GET /api/v1/orders/{id} HTTP/1.1\r\n{head}\r\n"));
    assert!(read.as_object_mut().unwrap().remove("number").is_some(), "once it is in the ledger: {read}");
    assert_eq!((status.as_str(), read), ("HTTP/1.1 200 OK", placed));
    let mut list = doorbuster(directory.path());
    list.args(["sale", "list", "--server", &format!("https://localhost:{}", serving.address.port())]);
    list.arg("--ca-file").arg(file("localhost.cert.pem")).env("DOORBUSTER_OPERATOR_TOKEN", OPERATOR);
    let (code, stdout, stderr) = outcome(list.output().unwrap());
    assert_eq!((code, stderr.as_str()), (0, ""));
    assert!(stdout.contains("Doorbuster Friday"), "{stdout}");
    assert_eq!(serving.stop(), 0);
}

#[test]
fn https_to_a_server_without_tls_is_said() {
    let directory = tempfile::tempdir().unwrap();
    let mut command = doorbuster(directory.path());
    command.args(["serve", "--demo", "--listen", "localhost:0", "--data-dir", "data"]);
    let serving = Serving::start(command);
    let server = format!("https://{}", serving.address);
    let mut list = doorbuster(directory.path());
    list.args(["sale", "list", "--server", &server]).arg("--ca-file").arg(file("localhost.cert.pem"));
    let (code, _, stderr) = outcome(list.env("DOORBUSTER_OPERATOR_TOKEN", OPERATOR).output().unwrap());
    let expected = format!("error: the server at {server} speaks no TLS: write http://{}\n", serving.address);
    assert_eq!((code, stderr), (64, expected));
    assert_eq!(serving.stop(), 0);
}
