//! SIGHUP: secrets and certificates change while the server serves, and a wrong file changes nothing.

use std::fs;
use std::io::{Read, Write};
use std::net::SocketAddr;
use std::process::Command;
use std::time::{Duration, Instant};

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::hmac;

use crate::doorbuster;
use crate::exchange::Connection;
use crate::serving::Serving;
use crate::tls::{connect, file};

const PATIENCE: Duration = Duration::from_secs(60);
const OLD: &str = "the-old-secret-of-the-shop-0123456789";
const NEW: &str = "the-new-secret-of-the-shop-9876543210";

pub(crate) fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let started = Instant::now();
    while !is_so() {
        assert!(started.elapsed() < PATIENCE, "in vain: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn token(secret: &str) -> String {
    let part = |json: &str| URL_SAFE_NO_PAD.encode(json);
    let signed =
        format!("{}.{}", part(r#"{"alg":"HS256","typ":"JWT"}"#), part(r#"{"sub":7,"exp":9999999999}"#));
    let tag = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, secret.as_bytes()), signed.as_bytes());
    format!("Bearer {signed}.{}", URL_SAFE_NO_PAD.encode(tag.as_ref()))
}

/// A server of a shop, which is no demo, with its configuration and its log in a directory.
struct Shop {
    directory: tempfile::TempDir,
    serving: Serving,
}

impl Shop {
    fn start(settings: &str) -> Shop {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path();
        fs::write(path.join("token"), OLD).unwrap();
        fs::write(path.join("doorbuster.toml"), settings).unwrap();
        let mut command = doorbuster(path);
        command.args(["serve", "--config", "doorbuster.toml", "--listen", "127.0.0.1:0"]);
        let log = fs::File::create(path.join("log")).unwrap();
        let serving = Serving::start_logging(command, log);
        Shop { directory, serving }
    }

    fn write(&self, name: &str, text: &str) {
        fs::write(self.directory.path().join(name), text).unwrap();
    }

    fn log(&self) -> String {
        fs::read_to_string(self.directory.path().join("log")).unwrap()
    }

    /// Sends SIGHUP and waits until the log has this once more.
    fn hang_up(&self, logged: &str) {
        let before = self.log().matches(logged).count();
        let sent = Command::new("kill").args(["-HUP", &self.serving.pid().to_string()]).status().unwrap();
        assert!(sent.success());
        wait_until(logged, || self.log().matches(logged).count() > before);
    }

    /// Whether a buyer with a token of this secret is known: no order is 404, nobody is 401.
    fn knows(&self, secret: &str) -> bool {
        let path = format!("/api/v1/orders/{}", "0".repeat(40));
        let headers = [("Authorization", token(secret))];
        let headers = headers.each_ref().map(|(name, value)| (*name, value.as_str()));
        let mut connection = Connection::open(self.serving.address).unwrap();
        match connection.exchange("GET", &path, &headers, "").unwrap().status {
            404 => true,
            401 => false,
            status => panic!("{status}"),
        }
    }
}

#[test]
fn a_secret_is_changed_without_turning_anybody_away_and_a_wrong_file_changes_nothing() {
    let settings = "[auth]\ntoken_secret_file = 'token'\n[ledger]\ndata_dir = 'data'\n";
    let shop = Shop::start(settings);
    assert!(shop.knows(OLD) && !shop.knows(NEW));
    shop.write("token.previous", OLD);
    shop.write("token", NEW);
    let both = settings.replace("[ledger]", "token_secret_previous_file = 'token.previous'\n[ledger]");
    shop.write("doorbuster.toml", &format!("{both}batch_commands_max = 7\n[admission]\norders_per_s = 5\n"));
    shop.hang_up("these keys have changed, and need a restart");
    assert!(shop.knows(OLD) && shop.knows(NEW));
    let metrics =
        Connection::open(shop.serving.address).unwrap().exchange("GET", "/metrics", &[], "").unwrap();
    assert!(metrics.body.contains("doorbuster_admission_orders_per_s 5\n"), "{}", metrics.body);
    let log = shop.log();
    assert!(
        log.contains("ledger.batch_commands_max") && log.contains("auth.token_secret_previous_file"),
        "{log}"
    );
    for (file, text) in
        [("token", "short"), ("doorbuster.toml", "[auth]\nbuyer = 'member_id'\n"), ("doorbuster.toml", "[")]
    {
        let right = fs::read_to_string(shop.directory.path().join(file)).unwrap();
        shop.write(file, text);
        shop.hang_up("nothing is reloaded");
        assert!(shop.knows(OLD) && shop.knows(NEW), "{text}");
        shop.write(file, &right);
    }
    shop.write("doorbuster.toml", settings);
    shop.hang_up("reloaded the secrets");
    assert!(!shop.knows(OLD) && shop.knows(NEW));
    assert_eq!(shop.serving.stop(), 0);
}

/// Whether the server shows this certificate.
fn shows(address: SocketAddr, name: &str) -> bool {
    let mut stream = connect(address, name);
    let asked = stream.write_all(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    let mut answer = String::new();
    asked.and_then(|()| stream.read_to_string(&mut answer)).is_ok_and(|_| answer.starts_with("HTTP/1.1 200"))
}

#[test]
fn a_renewed_certificate_is_shown_from_the_next_handshake_on() {
    let settings = "[auth]\ntoken_secret_file = 'token'\n[ledger]\ndata_dir = 'data'\n\
                    [http]\ntls_certificate_file = 'cert.pem'\ntls_key_file = 'key.pem'\n";
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    fs::write(path.join("token"), OLD).unwrap();
    fs::write(path.join("doorbuster.toml"), settings).unwrap();
    let put = |name: &str| {
        fs::copy(file(&format!("{name}.cert.pem")), path.join("cert.pem")).unwrap();
        fs::copy(file(&format!("{name}.key.pem")), path.join("key.pem")).unwrap();
    };
    put("localhost");
    let mut command = doorbuster(path);
    command.args(["serve", "--config", "doorbuster.toml", "--listen", "127.0.0.1:0"]);
    let log = fs::File::create(path.join("log")).unwrap();
    let shop = Shop { serving: Serving::start_logging(command, log), directory };
    let at = shop.serving.address;
    assert!(shows(at, "localhost.cert.pem") && !shows(at, "localhost-renewed.cert.pem"));
    // A certificate that does not fit its key: the old pair stays.
    fs::copy(file("localhost-renewed.cert.pem"), shop.directory.path().join("cert.pem")).unwrap();
    shop.hang_up("nothing is reloaded");
    assert!(shows(at, "localhost.cert.pem"));
    fs::copy(file("localhost-renewed.key.pem"), shop.directory.path().join("key.pem")).unwrap();
    shop.hang_up("reloaded the secrets");
    assert!(!shows(at, "localhost.cert.pem") && shows(at, "localhost-renewed.cert.pem"));
    assert_eq!(shop.serving.stop(), 0);
}
