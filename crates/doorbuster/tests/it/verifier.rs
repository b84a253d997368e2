//! A service is asked about whoever joins a line, by the real program: stopped while it is asked, configured wrongly, and away so
//! that an alarm says it.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};
use std::thread;
use std::time::Duration;

use crate::alarms::made::Alarm;
use crate::exchange::{Connection, Response};
use crate::line::{LINE, make_sale};
use crate::reload::wait_until;
use crate::serving::Serving;
use crate::{doorbuster, run};

const ARGUMENTS: [&str; 8] =
    ["serve", "--demo", "--config", "line.toml", "--listen", "127.0.0.1:0", "--data-dir", "data"];

/// The section of the configuration by which the service at a URL is asked.
pub(crate) fn section(directory: &Path, url: &str) -> String {
    std::fs::write(directory.join("secret"), "of-the-shop\n").unwrap();
    let owners_alone = std::fs::Permissions::from_mode(0o600);
    std::fs::set_permissions(directory.join("secret"), owners_alone).unwrap();
    let more = "http_allow_private = true\nhttp_secret_file = \"secret\"\nhttp_send_address = false\n";
    format!("[line]\nverifier = \"http\"\nhttp_url = \"{url}\"\n{more}")
}

fn configure(directory: &Path, url: &str) {
    std::fs::write(directory.join("line.toml"), section(directory, url)).unwrap();
}

fn start(directory: &Path) -> Serving {
    let mut command = doorbuster(directory);
    command.args(ARGUMENTS);
    Serving::start(command)
}

fn read_form(stream: &TcpStream) -> String {
    let mut reader = BufReader::new(stream);
    let (mut line, mut length) = (String::new(), 0);
    while reader.read_line(&mut line).unwrap() > 2 {
        let header = line.trim_end().to_lowercase();
        length = header.strip_prefix("content-length: ").map_or(length, |text| text.parse().unwrap());
        line.clear();
    }
    let mut form = vec![0; length];
    reader.read_exact(&mut form).unwrap();
    String::from_utf8(form).unwrap()
}

fn say(stream: &TcpStream, body: &str) {
    say_with(stream, 200, body);
}

fn say_with(mut stream: &TcpStream, status: u16, body: &str) {
    let head = format!("HTTP/1.1 {status} x\r\nConnection: close\r\nContent-Length: {}\r\n\r\n", body.len());
    stream.write_all((head + body).as_bytes()).unwrap();
}

fn join(server: &Serving, buyer: &str, body: &str) -> Response {
    let mut connection = Connection::open(server.address).unwrap();
    connection.exchange("POST", LINE, &[("memberId", buyer)], body).unwrap()
}

#[test]
fn who_is_asked_about_while_the_server_stops_joins_and_is_not_asked_about_again() {
    let directory = tempfile::tempdir().unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    configure(directory.path(), &format!("http://{}/siteverify", listener.local_addr().unwrap()));
    let server = start(directory.path());
    make_sale(directory.path(), server.address);
    thread::scope(|scope| {
        let refused = scope.spawn(|| join(&server, "6", r#"{"verification":"wrong"}"#));
        let (asked, _) = listener.accept().unwrap();
        assert_eq!(read_form(&asked), "secret=of-the-shop&response=wrong");
        say(&asked, r#"{"success":false,"error-codes":["timeout-or-duplicate"]}"#);
        let refused = refused.join().unwrap();
        assert_eq!((refused.status, &refused.json()["code"]), (403, &"verification_token_required".into()));
    });
    let metrics =
        Connection::open(server.address).unwrap().exchange("GET", "/metrics", &[], "").unwrap().body;
    for (outcome, count) in [("passed", 0), ("refused", 1), ("unreachable", 0), ("busy", 0)] {
        let line = format!("doorbuster_line_verifications_total{{outcome=\"{outcome}\"}} {count}\n");
        assert!(metrics.contains(&line), "{line}{metrics}");
    }
    let mut waiting = Connection::open(server.address).unwrap();
    waiting.send("POST", LINE, &[("memberId", "7")], r#"{"verification":"right"}"#).unwrap();
    let (asked, _) = listener.accept().unwrap();
    assert_eq!(read_form(&asked), "secret=of-the-shop&response=right");
    // It is to stop before it has the answer.
    let mut server = server;
    let stopped = Command::new("kill").args(["-TERM", &server.pid().to_string()]).status().unwrap();
    assert!(stopped.success());
    say(&asked, r#"{"success":true}"#);
    let place = waiting.read().unwrap();
    assert_eq!(place.status, 201, "{place:?}");
    let code = loop {
        match server.ended() {
            Some(code) => break code,
            None => thread::sleep(Duration::from_millis(5)),
        }
    };
    assert_eq!(code, 0);
    // The service is gone.
    drop((listener, asked));
    let server = start(directory.path());
    let again = join(&server, "7", r#"{"verification":"right"}"#);
    assert_eq!((again.status, &again.json()["ticket"]), (200, &place.json()["ticket"]));
    let other = join(&server, "8", r#"{"verification":"other"}"#);
    assert_eq!((other.status, &other.json()["code"]), (503, &"unavailable".into()));
    assert_eq!(server.stop(), 0);
}

#[test]
fn a_service_without_its_secret_is_no_configuration() {
    let directory = tempfile::tempdir().unwrap();
    configure(directory.path(), "http://127.0.0.1:9/siteverify");
    let open = std::fs::Permissions::from_mode(0o644);
    std::fs::set_permissions(directory.path().join("secret"), open).unwrap();
    let log = directory.path().join("log");
    let mut command = doorbuster(directory.path());
    command.args(ARGUMENTS);
    let server = Serving::start_logging(command, Stdio::from(std::fs::File::create(&log).unwrap()));
    assert_eq!(server.stop(), 0);
    let said = std::fs::read_to_string(&log).unwrap();
    assert!(said.contains("chmod 600 secret") && !said.contains("of-the-shop"), "{said}");
    let config = std::fs::read_to_string(directory.path().join("line.toml")).unwrap();
    std::fs::write(directory.path().join("line.toml"), config.replace("http_secret_file = \"secret\"\n", ""))
        .unwrap();
    let (code, _, errors) = run(directory.path(), &ARGUMENTS);
    assert!(code == 64 && errors.contains("set line.http_secret_file"), "{code}: {errors}");
}

/// A service that lets everybody pass, if it answers 200.
struct Service {
    address: SocketAddr,
    status: Arc<AtomicU16>,
}

impl Service {
    fn start() -> Service {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (address, status) = (listener.local_addr().unwrap(), Arc::new(AtomicU16::new(200)));
        let shared = Arc::clone(&status);
        // It ends with the test's process.
        thread::spawn(move || {
            for stream in listener.incoming() {
                let stream = stream.unwrap();
                read_form(&stream);
                say_with(&stream, shared.load(Ordering::Relaxed), r#"{"success":true}"#);
            }
        });
        Service { address, status }
    }

    fn set(&self, status: u16) {
        self.status.store(status, Ordering::Relaxed);
    }
}

/// What makes the alarm happen: the service answers 500, while people join.
pub(crate) fn away(alarm: &mut Alarm) {
    let service = Service::start();
    configure(alarm.directory(), &format!("http://{}/siteverify", service.address));
    let server = start(alarm.directory());
    make_sale(alarm.directory(), server.address);
    let mut buyers = 1..;
    let mut joins = || {
        let buyer = buyers.next().unwrap().to_string();
        join(&server, &buyer, &format!(r#"{{"verification":"of-{buyer}"}}"#)).status
    };
    assert_eq!(joins(), 201);
    alarm.is_quiet(&[&server]);
    service.set(500);
    alarm.is_seen(|| assert_eq!(joins(), 503, "as the runbook says"));
    service.set(200);
    wait_until("people join again", || joins() == 201);
    alarm.lets_others_go_on();
    alarm.is_gone();
    assert_eq!(server.stop(), 0);
}
