//! The edge: a real nginx with `edge/`, a real Redis and its replica, and servers behind it, all of the test's own.
//!
//! The servers are embedded demos, which believe the header memberId: so what reaches them shows in their answers.
//! What they sell is not in Redis, so a stock that comes from there can't be mistaken for theirs.

mod buyers;
mod groups;
mod pages;
mod servers;
mod stock;

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::doorbuster;
use crate::engines::Engines;
use crate::exchange::{Connection, Response};
use crate::serving::Serving;

const SECRET: &str = "a-secret-of-the-shop-of-more-than-32-bytes";
/// Longer than any state of the edge lasts.
const SOON: Duration = Duration::from_secs(10);
const PUBLISHED_ORDER: &str = include_str!("../../../../../dev/ab-order.json");

/// Servers, and an edge before them. Fields are dropped in this order.
struct Shop {
    engines: Engines,
    servers: Vec<Serving>,
    dir: TempDir,
}

impl Shop {
    /// Two servers behind an edge of the demo kind, which limits nobody.
    fn demo(settings: &[(&str, &str)]) -> Shop {
        let unlimited = [
            ("EDGE_DEMO", "true"),
            ("EDGE_POSTS_PER_S_PER_CLIENT", "1000000"),
            ("EDGE_POSTS_BURST_PER_CLIENT", "1000000"),
            ("EDGE_REQUESTS_PER_S_PER_CLIENT", "1000000"),
            ("EDGE_REQUESTS_BURST_PER_CLIENT", "1000000"),
        ];
        Shop::start(&[&unlimited, settings].concat())
    }

    /// Two servers behind an edge that wants buyers' tokens.
    fn with_tokens(settings: &[(&str, &str)]) -> Shop {
        let dir = tempfile::tempdir().unwrap();
        let file = token_secret(dir.path());
        let mut all = vec![("EDGE_TOKEN_SECRET_FILE", file.to_str().unwrap())];
        all.extend(settings);
        Shop::start(&all)
    }

    fn start(settings: &[(&str, &str)]) -> Shop {
        let dir = tempfile::tempdir().unwrap();
        let pages = dir.path().join("pages");
        let servers: Vec<_> = ["one", "two"]
            .into_iter()
            .map(|name| {
                let mut command = doorbuster(dir.path());
                command.args(["serve", "--demo", "--listen", "127.0.0.1:0", "--data-dir", name]);
                if name == "one" {
                    command.env("DOORBUSTER_PAGES_WRITE_DIR", &pages);
                }
                Serving::start(command)
            })
            .collect();
        Shop::before(servers, dir, settings)
    }

    /// An edge before these servers, the first of which may write its pages into `pages` of the directory.
    fn before(servers: Vec<Serving>, dir: TempDir, settings: &[(&str, &str)]) -> Shop {
        let pages = dir.path().join("pages");
        let addresses = servers.iter().map(|server| server.address.to_string()).collect::<Vec<_>>().join(" ");
        let mut all = vec![("EDGE_SERVERS", addresses.as_str()), ("EDGE_PAGES", pages.to_str().unwrap())];
        all.extend(settings);
        Shop { engines: Engines::private(&["nginx"], &all), servers, dir }
    }

    fn edge(&self) -> SocketAddr {
        self.engines.address("nginx").parse().unwrap()
    }

    #[track_caller]
    fn get(&self, path: &str) -> Response {
        exchange(self.edge(), "GET", path, &[], "")
    }

    /// An answer of the edge's own, if it is one. What it had kept is at most 100 ms old; what it read for this request is no older
    /// than the request, however long the read took.
    #[track_caller]
    fn get_own(&self, path: &str) -> Result<Response, Response> {
        let asked = Instant::now();
        let response = self.get(path);
        let took_ms = asked.elapsed().as_millis();
        let Some(age) = header(&response, "Age-Ms") else { return Err(response) };
        let age_ms: u128 = age.parse().unwrap();
        // The edge rounds to whole milliseconds.
        assert!(age_ms <= took_ms.max(99) + 1, "after {took_ms} ms: {response:?}");
        Ok(response)
    }

    #[track_caller]
    fn post(&self, path: &str, headers: &[(&str, &str)], body: &str) -> Response {
        exchange(self.edge(), "POST", path, headers, body)
    }

    /// Sends commands to a Redis of the shop, on one connection; each must be answered by one line.
    #[track_caller]
    fn redis(&self, member: &str, commands: &[&str]) -> Vec<String> {
        let mut stream = TcpStream::connect(self.engines.address(member)).unwrap();
        stream.set_read_timeout(Some(SOON)).unwrap();
        stream.write_all(format!("{}\r\n", commands.join("\r\n")).as_bytes()).unwrap();
        let lines: Vec<_> =
            BufReader::new(stream).lines().take(commands.len()).map(|line| line.unwrap()).collect();
        assert!(!lines.iter().any(|line| line.starts_with('-')), "{commands:?}: {lines:?}");
        lines
    }
}

/// The file with the secret of the shop's tokens.
fn token_secret(directory: &Path) -> PathBuf {
    let file = directory.join("token-secret");
    std::fs::write(&file, format!("{SECRET}\n")).unwrap();
    file
}

#[track_caller]
fn exchange(address: SocketAddr, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> Response {
    Connection::open(address).unwrap().exchange(method, path, headers, body).unwrap()
}

/// The value of a header of the answer.
fn header<'a>(response: &'a Response, name: &str) -> Option<&'a str> {
    response.head.lines().find_map(|line| {
        let (found, value) = line.split_once(':')?;
        found.eq_ignore_ascii_case(name).then(|| value.trim())
    })
}

/// Asks again until the answer is as it should be, which has to be soon.
#[track_caller]
fn soon(what: &str, mut is_so: impl FnMut() -> bool) {
    let started = Instant::now();
    while !is_so() {
        assert!(started.elapsed() < SOON, "not within {SOON:?}: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}
