//! The gate over TLS, with a certificate for a name.

use std::path::{Path, PathBuf};

use engine::SkuId;
use server::gate::{Gate, GateConfig, GateError, GateTls, Why};

use super::servers::{Redis, free_port};
use super::{build, fresh, is_taken, place, reserve};

fn file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(name)
}

#[test]
fn a_gate_over_tls_trusts_only_the_certificate_that_it_was_given() {
    let (certificate, key) = (file("localhost.cert.pem"), file("localhost.key.pem"));
    let port = free_port();
    let redis = Redis::start(&[
        "--tls-port",
        &port.to_string(),
        "--tls-cert-file",
        certificate.to_str().unwrap(),
        "--tls-key-file",
        key.to_str().unwrap(),
        "--tls-ca-cert-file",
        certificate.to_str().unwrap(),
        "--tls-auth-clients",
        "no",
    ]);
    redis.command::<()>(&["CONFIG", "SET", "requirepass", "secret"]);
    let pem = std::fs::read(&certificate).unwrap();
    let over_tls = |ca: Option<Vec<u8>>| {
        Gate::new(GateConfig {
            addresses: vec![format!("localhost:{port}")],
            tls: Some(GateTls { ca, client: None }),
            password: Some("secret".to_owned()),
            ..redis.config()
        })
    };
    let mut gate = over_tls(Some(pem));
    build(&mut gate, SkuId(1), &fresh(1, 5, None));
    assert!(is_taken(&reserve(&mut gate, place(SkuId(1), 1, 9, 1))));
    // The system's certificates don't vouch for it.
    let got = reserve(&mut over_tls(None), place(SkuId(1), 2, 9, 1));
    assert!(matches!(got, Err(GateError::NotExecuted(Why::Refused(_)))), "{got:?}");
}
