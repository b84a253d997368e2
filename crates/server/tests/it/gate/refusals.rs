//! Each wrong password, certificate, mode or address of a Redis is one line that names the server, what it answered, and the
//! key to change.

use std::io::Write as _;
use std::net::TcpListener;
use std::path::{Path, PathBuf};

use server::gate::{Gate, GateConfig, GateTls, Layout};

use super::servers::{Cluster, Redis, config, free_port, until};

pub(super) fn file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(name)
}

pub(super) fn pem(name: &str) -> Vec<u8> {
    std::fs::read(file(name)).unwrap()
}

/// Trusts one of the certificates of the tests, and shows another if it is to.
fn tls(authority: &str, certificate: bool) -> Option<GateTls> {
    let ours = || (pem("localhost-renewed.cert.pem"), pem("localhost-renewed.key.pem"));
    Some(GateTls { ca: Some(pem(authority)), client: certificate.then(ours) })
}

/// A Redis that takes TLS alone, of clients with a certificate alone, at this port.
fn encrypted(port: u16) -> Redis {
    let port = port.to_string();
    let dir = tempfile::tempdir().unwrap();
    let clients = dir.path().join("clients.pem");
    let both = [pem("localhost.cert.pem"), pem("localhost-renewed.cert.pem")].concat();
    std::fs::write(&clients, both).unwrap();
    let (certificate, key) = (file("localhost.cert.pem"), file("localhost.key.pem"));
    let paths = [&certificate, &key, &clients].map(|path| path.to_str().unwrap().to_owned());
    let arguments = [
        "--tls-port",
        &port,
        "--tls-cert-file",
        &paths[0],
        "--tls-key-file",
        &paths[1],
        "--tls-ca-cert-file",
        &paths[2],
        "--tls-auth-clients",
        "yes",
    ];
    Redis::spawn(free_port(), dir, &arguments)
}

#[test]
fn each_is_a_line_that_names_server_answer_and_key() {
    let plain = Redis::start(&[]);
    let rules = ["SETUSER", "shop", "on", ">secret", "~*", "+info", "+script|load", "+config|get"];
    plain.command::<()>(&[&["ACL"], &rules[..]].concat());
    plain.command::<()>(&["CONFIG", "SET", "requirepass", "secret"]);
    let port = free_port();
    let encrypted = encrypted(port);
    until("the encrypted one answers", || encrypted.pings());
    let cluster = Cluster::start(3, 0);
    let master = Redis::start(&[]);
    let replica = Redis::start(&["--replicaof", "127.0.0.1", &master.port.to_string()]);
    let nobody = free_port();
    let at = |address: String| config(vec![address], Layout::Single);
    let secure = |tls| GateConfig { tls, ..at(format!("localhost:{port}")) };
    let (user, password) = (Some("shop".to_owned()), Some("secret".to_owned()));
    let signed = |user: Option<&str>, password: &str| GateConfig {
        user: user.map(str::to_owned),
        password: Some(password.to_owned()),
        ..plain.config()
    };
    let cases: [(&str, GateConfig, &[&str]); 12] = [
        ("no password", plain.config(), &["NOAUTH", "check gate.user and gate.password_file"]),
        ("another password", signed(None, "no"), &["WRONGPASS", "gate.password_file"]),
        ("an unknown user", signed(Some("nobody"), "secret"), &["WRONGPASS", "check gate.user"]),
        (
            "a poor user",
            GateConfig { user, password, ..plain.config() },
            &["no permissions to run the 'evalsha'", "what that user may do"],
        ),
        (
            "TLS for a plain one",
            GateConfig { tls: tls("localhost.cert.pem", false), ..master.config() },
            &["gate.tls = false"],
        ),
        ("no TLS", secure(None), &["without an answer", "gate.tls = true"]),
        (
            "another authority",
            secure(tls("localhost-renewed.cert.pem", true)),
            &["invalid peer certificate", "check gate.tls_authority_file"],
        ),
        (
            "no certificate",
            secure(tls("localhost.cert.pem", false)),
            &["gate.tls_certificate_file and gate.tls_key_file"],
        ),
        (
            "cluster",
            GateConfig { layout: Layout::Cluster, ..master.config() },
            &["cluster support disabled", "gate.mode = \"single\""],
        ),
        ("single", at(cluster.nodes[0].address()), &["gate.mode = \"cluster\""]),
        ("a replica", replica.config(), &["it is a replica", "gate.addresses"]),
        (
            "nobody is there",
            at(format!("127.0.0.1:{nobody}")),
            &["no connection can be made", "gate.addresses"],
        ),
    ];
    for (what, config, held) in cases {
        let address = config.addresses[0].clone();
        let line = server::gate::fault(&Gate::new(config).health()).unwrap_or_else(|| panic!("{what}"));
        assert!(
            line.starts_with("redis ") && line.contains(&address) && !line.contains('\n'),
            "{what}: {line}"
        );
        assert!(held.iter().all(|text| line.contains(text)), "{what}: {line}");
        assert!(!line.contains("secret"), "{what}: {line}");
    }
    let right = secure(tls("localhost.cert.pem", true));
    assert_eq!(server::gate::fault(&Gate::new(right).health()), None);
}

#[test]
fn a_server_of_another_kind_is_named_with_the_key_to_change() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let config = config(vec![listener.local_addr().unwrap().to_string()], Layout::Single);
    std::thread::scope(|scope| {
        let greeting = scope.spawn(|| {
            let mut connection = listener.accept().unwrap().0;
            connection.write_all(b"h\0\0\0\n10.11.19-MariaDB\0").unwrap();
            connection
        });
        let line = server::gate::fault(&Gate::new(config).health()).unwrap();
        assert!(line.ends_with("it does not speak Redis' protocol (gate.addresses)"), "{line}");
        drop(greeting.join());
    });
}
