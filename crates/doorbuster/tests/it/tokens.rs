//! Buyers' tokens and the real program: what `token mint` makes, a server takes, and what the shop signed becomes a session.

use std::path::Path;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::rand::SystemRandom;
use ring::signature::{Ed25519KeyPair, KeyPair};
use server::clock::wall_clock;

use crate::exchange::{Connection, Response};
use crate::serving::Serving;
use crate::{doorbuster, outcome, run};

const SECRET: &str = "a-secret-of-the-shop-of-more-than-32-bytes";
const ORDER: &str = "/api/v1/orders/0000000000000000000000000000000000000000";

/// A configuration whose tokens need an issuer and an audience.
fn configure(directory: &Path) {
    std::fs::write(directory.join("token-secret"), format!("{SECRET}\n")).unwrap();
    let auth = "[auth]\ntoken_secret_file = \"token-secret\"\ntoken_issuer = \"https://shop\"\ntoken_audience = \"drops\"\n";
    std::fs::write(directory.join("doorbuster.toml"), auth).unwrap();
}

#[track_caller]
fn mint(directory: &Path, more: &[&str]) -> String {
    let (code, stdout, stderr) =
        run(directory, &[&["token", "mint", "--config", "doorbuster.toml"], more].concat());
    assert_eq!((code, stderr.as_str()), (0, ""), "{more:?}");
    stdout.trim_end().to_owned()
}

#[test]
fn a_minted_token_is_taken_by_a_server_with_the_same_configuration() {
    let directory = tempfile::tempdir().unwrap();
    configure(directory.path());
    let mut command = doorbuster(directory.path());
    command.args(["serve", "--config", "doorbuster.toml", "--listen", "127.0.0.1:0", "--data-dir", "data"]);
    let server = Serving::start(command);
    let ask = |token: &str| {
        let bearer = format!("Bearer {token}");
        let mut connection = Connection::open(server.address).unwrap();
        connection.exchange("GET", ORDER, &[("Authorization", &bearer)], "").unwrap()
    };
    for member in ["42", "anna@shop.example", "Ännä"] {
        let answer = ask(&mint(directory.path(), &["--member", member]));
        assert_eq!(answer.status, 404, "known, and without such an order: {answer:?}");
    }
    for (more, reason) in
        [(["--issuer", "https://other"], "another issuer"), (["--audience", "other"], "another audience")]
    {
        let answer = ask(&mint(directory.path(), &[&["--member", "42"], &more[..]].concat()));
        assert!(answer.status == 401 && answer.body.contains(reason), "{answer:?}");
    }
    assert_eq!(server.stop(), 0);
}

#[test]
fn a_token_that_would_be_no_good_is_not_minted() {
    let directory = tempfile::tempdir().unwrap();
    configure(directory.path());
    let long = "x".repeat(129);
    for (more, reason) in [
        (&["--member", ""][..], "1 to 128 bytes"),
        (&["--member", &long], "1 to 128 bytes"),
        (&["--member", "anna "], "no spaces at its ends"),
        (&["--member", "7", "--expires-in", "0s"], "from 1s to 366d"),
        (&["--member", "7", "--expires-in", "367d"], "from 1s to 366d"),
    ] {
        let (code, stdout, stderr) =
            run(directory.path(), &[&["token", "mint", "--config", "doorbuster.toml"], more].concat());
        assert_eq!((code, stdout.as_str()), (64, ""), "{more:?}: {stderr}");
        assert!(stderr.contains(reason), "{more:?}: {stderr}");
    }
    let short = doorbuster(directory.path())
        .args(["token", "mint", "--member", "7"])
        .env("DOORBUSTER_AUTH_TOKEN_SECRET", "short")
        .output();
    let (code, _, stderr) = outcome(short.unwrap());
    assert!(code == 64 && stderr.contains("needs 32 at least"), "{stderr}");
}

/// A key of the shop, and tokens that it signs.
struct ShopKey(Ed25519KeyPair);

impl ShopKey {
    fn new() -> ShopKey {
        let pkcs8 = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new()).unwrap();
        ShopKey(Ed25519KeyPair::from_pkcs8(pkcs8.as_ref()).unwrap())
    }

    fn set(&self, id: &str) -> String {
        let x = URL_SAFE_NO_PAD.encode(self.0.public_key());
        format!(r#"{{"keys":[{{"kty":"OKP","crv":"Ed25519","kid":"{id}","x":"{x}"}}]}}"#)
    }

    fn token(&self, id: &str, member: &str) -> String {
        let header = format!(r#"{{"alg":"EdDSA","kid":"{id}"}}"#);
        let claims = format!(
            r#"{{"sub":"{member}","exp":{},"iss":"https://shop","aud":["drops"]}}"#,
            wall_clock().0 / 1000 + 600
        );
        let signed = format!("{}.{}", URL_SAFE_NO_PAD.encode(header), URL_SAFE_NO_PAD.encode(claims));
        format!("{signed}.{}", URL_SAFE_NO_PAD.encode(self.0.sign(signed.as_bytes())))
    }
}

fn post(server: &Serving, headers: &[(&str, &str)], body: &str) -> Response {
    let mut connection = Connection::open(server.address).unwrap();
    connection.exchange("POST", "/api/v1/session", headers, body).unwrap()
}

/// With a key that is changed by SIGHUP; and nothing that proves a buyer is in the log, at its most talkative.
#[test]
fn sessions_follow_the_shops_key_and_no_token_is_logged() {
    let directory = tempfile::tempdir().unwrap();
    configure(directory.path());
    let key_file = directory.path().join("shop-keys.json");
    let (first, second) = (ShopKey::new(), ShopKey::new());
    std::fs::write(&key_file, first.set("one")).unwrap();
    let log = directory.path().join("log");
    let mut command = doorbuster(directory.path());
    command
        .args(["serve", "--config", "doorbuster.toml", "--listen", "127.0.0.1:0", "--data-dir", "data"])
        .env("DOORBUSTER_AUTH_SHOP_KEY_FILE", "shop-keys.json")
        .env("DOORBUSTER_AUTH_SHOP_ORIGINS", "https://shop.example")
        .env("DOORBUSTER_LOG_LEVEL", "trace");
    let server = Serving::start_logging(command, std::fs::File::create(&log).unwrap());
    let mut secrets = Vec::new();
    let token = first.token("one", "anna@shop.example");
    let opened = post(&server, &[("Authorization", &format!("Bearer {token}"))], "");
    assert_eq!((opened.status, &opened.json()["buyer"]), (200, &"anna@shop.example".into()), "{opened:?}");
    let session = opened.json()["token"].as_str().unwrap().to_owned();
    let mut connection = Connection::open(server.address).unwrap();
    let bearer = format!("Bearer {session}");
    let read = connection.exchange("GET", ORDER, &[("Authorization", &bearer)], "").unwrap();
    assert_eq!(read.status, 404, "known, and without such an order: {read:?}");
    let form = [
        ("Content-Type", "application/x-www-form-urlencoded"),
        ("Origin", "https://shop.example"),
        ("Sec-Fetch-Site", "cross-site"),
    ];
    let opened = post(&server, &form, &format!("token={token}&to=/seckill_3_30.html"));
    assert_eq!(opened.status, 303, "{opened:?}");
    assert!(
        !opened.head.contains(&token) && opened.head.contains("Location: /seckill_3_30.html\r\n"),
        "{opened:?}"
    );
    secrets.extend([token.clone(), session]);
    let forged = format!("{}x", second.token("one", "anna@shop.example"));
    assert_eq!(post(&server, &form, &format!("token={forged}")).status, 401);
    let unknown = second.token("two", "anna@shop.example");
    let refused = post(&server, &[("Authorization", &format!("Bearer {unknown}"))], "");
    assert!(refused.status == 401 && refused.body.contains("(alg, kid)"), "{refused:?}");
    std::fs::write(&key_file, second.set("two")).unwrap();
    let pid = rustix::process::Pid::from_raw(i32::try_from(server.pid()).unwrap()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::HUP).unwrap();
    let started = std::time::Instant::now();
    while post(&server, &[("Authorization", &format!("Bearer {unknown}"))], "").status != 200 {
        assert!(started.elapsed() < std::time::Duration::from_secs(30), "the new key is not taken up");
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    assert_eq!(post(&server, &[("Authorization", &format!("Bearer {token}"))], "").status, 401);
    secrets.extend([forged, unknown]);
    assert_eq!(server.stop(), 0);
    let log = std::fs::read_to_string(&log).unwrap();
    assert!(!log.is_empty());
    for secret in secrets {
        for part in secret.split('.').skip(1) {
            assert!(!log.contains(part), "the log has a part of a token");
        }
    }
}

#[test]
fn a_key_that_is_none_stops_the_start() {
    let directory = tempfile::tempdir().unwrap();
    configure(directory.path());
    std::fs::write(directory.path().join("keys"), "ssh-ed25519 AAAA").unwrap();
    for (variable, value, reason) in [
        ("DOORBUSTER_AUTH_SHOP_KEY_FILE", "keys", "holds neither a PEM public key nor a JSON Web Key Set"),
        ("DOORBUSTER_AUTH_SHOP_KEY_FILE", "missing", "can't be read"),
        ("DOORBUSTER_AUTH_SHOP_JWKS_URL", "http://shop.example/keys", "must begin with https://"),
        ("DOORBUSTER_AUTH_SHOP_JWKS_URL", "http://127.0.0.1@shop.example/keys", "must begin with https://"),
        ("DOORBUSTER_AUTH_SHOP_JWKS_AUTHORITY_FILE", "keys", "holds no PEM certificate"),
        ("DOORBUSTER_AUTH_SHOP_ORIGINS", "https://shop.example/login", "write it as a browser does"),
    ] {
        let mut command = doorbuster(directory.path());
        command.args([
            "serve",
            "--config",
            "doorbuster.toml",
            "--listen",
            "127.0.0.1:0",
            "--data-dir",
            "data",
        ]);
        command.env("DOORBUSTER_AUTH_SHOP_JWKS_URL", "https://shop.example/keys");
        command.env("DOORBUSTER_AUTH_SHOP_JWKS_AUTHORITY_FILE", "/dev/null").env(variable, value);
        let (code, _, stderr) = outcome(command.output().unwrap());
        assert!(code == 64 && stderr.contains(reason), "{variable}={value}: {stderr}");
    }
}
