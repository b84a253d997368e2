//! A stand-in for the program under test: as much of its API as the benchmark uses, over one SQLite table.
//!
//! Its name says how it lies, if it does: the benchmark clears the environment and passes no other option.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use rusqlite::Connection;
use signal_hook::consts::SIGTERM;
use signal_hook::iterator::Signals;

/// What a stand-in does wrong. The variants' names are the names of the programs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lie {
    Honest,
    /// Every 500th accepted order is not in the ledger.
    LosesOrders,
    /// Every 500th order is in the ledger, and its buyer is answered that it is not.
    HidesOrders,
    /// Its own audit finds something.
    FailsItsAudit,
    /// Answers orders with an error.
    Refuses,
    /// Ends with an error when it is asked to stop.
    StopsBadly,
}

impl Lie {
    pub(crate) const ALL: [Self; 6] = [
        Self::Honest,
        Self::LosesOrders,
        Self::HidesOrders,
        Self::FailsItsAudit,
        Self::Refuses,
        Self::StopsBadly,
    ];

    pub(crate) fn name(self) -> String {
        format!("{self:?}")
    }
}

/// Acts as the program if it was called as the program.
pub(crate) fn run_if_called() {
    let arguments: Vec<String> = std::env::args().collect();
    let name = Path::new(&arguments[0]).file_name().map(|name| name.to_string_lossy().into_owned());
    let Some(lie) = Lie::ALL.into_iter().find(|lie| Some(lie.name()) == name) else {
        return;
    };
    let option = |name: &str| {
        let at =
            arguments.iter().position(|argument| argument == name).expect("the benchmark gives this option");
        arguments[at + 1].clone()
    };
    match arguments[1].as_str() {
        "audit" => std::process::exit(i32::from(lie == Lie::FailsItsAudit)),
        "serve" => serve(lie, &option("--listen"), &option("--data-dir").into()),
        other => panic!("the benchmark called {other}"),
    }
}

struct Shop {
    lie: Lie,
    ledger: Mutex<(Connection, u64)>,
}

fn serve(lie: Lie, listen: &str, data_dir: &PathBuf) -> ! {
    std::fs::create_dir_all(data_dir).expect("the data directory");
    let ledger = Connection::open(data_dir.join("ledger.db")).expect("the ledger");
    ledger
        .execute_batch(
            "PRAGMA journal_mode = WAL; PRAGMA synchronous = OFF;
             CREATE TABLE IF NOT EXISTS orders(seq INTEGER PRIMARY KEY, product INTEGER, key TEXT UNIQUE)",
        )
        .expect("the schema");
    let shop = Arc::new(Shop { lie, ledger: Mutex::new((ledger, 0)) });
    let mut signals = Signals::new([SIGTERM]).expect("a signal handler");
    std::thread::spawn(move || {
        signals.forever().next();
        std::process::exit(i32::from(lie == Lie::StopsBadly));
    });
    for stream in TcpListener::bind(listen).expect("the address").incoming() {
        let (stream, shop) = (stream.expect("a connection"), shop.clone());
        std::thread::spawn(move || shop.converse(&stream));
    }
    unreachable!("a listener never ends");
}

impl Shop {
    /// `None` when the client has gone.
    fn converse(&self, stream: &TcpStream) -> Option<()> {
        let mut reader = BufReader::new(stream);
        loop {
            let mut lines = Vec::new();
            loop {
                let mut line = String::new();
                reader.read_line(&mut line).ok().filter(|bytes| *bytes > 0)?;
                match line.trim_end() {
                    "" => break,
                    line => lines.push(line.to_owned()),
                }
            }
            let fields: HashMap<&str, &str> =
                lines[1..].iter().filter_map(|line| line.split_once(": ")).collect();
            let length = fields.get("Content-Length").map_or(0, |length| length.parse().expect("a length"));
            let mut body = vec![0; length];
            reader.read_exact(&mut body).ok()?;
            let (status, answer) = self.answer(&lines[0], &fields, &String::from_utf8_lossy(&body));
            let head = format!("HTTP/1.1 {status} Some\r\nContent-Length: {}\r\n\r\n", answer.len());
            (&mut &*stream).write_all(&[head.as_bytes(), &answer].concat()).ok()?;
        }
    }

    fn answer(&self, line: &str, fields: &HashMap<&str, &str>, body: &str) -> (u16, Vec<u8>) {
        let (method_and_path, _) = line.rsplit_once(' ').expect("a request line");
        match method_and_path {
            "GET /readyz" => (200, b"ready".to_vec()),
            "GET /metrics" => (200, b"doorbuster_build_info{version=\"0\"} 1\n".to_vec()),
            "GET /cache/stock?productId=29" => (200, b"9999999".to_vec()),
            "GET /seckill_3_29.html" if fields.contains_key("Accept-Encoding") => {
                (200, vec![0x1f, 0x8b, 8, 0])
            }
            "GET /seckill_3_29.html" => (200, vec![b'p'; 10_000]),
            "POST /api/v1/sales" => (201, Vec::new()),
            "POST /seckillOrder/generateOrder" if body.contains("\"productId\":90") => {
                self.place(90, None, 200)
            }
            "POST /seckillOrder/generateOrder" => self.place(29, None, 200),
            "POST /api/v1/orders" if !fields["Authorization"].starts_with("Bearer ey") => (401, Vec::new()),
            "POST /api/v1/orders" => self.place(1, Some(fields["Idempotency-Key"]), 201),
            other => (404, other.as_bytes().to_vec()),
        }
    }

    fn place(&self, product: u64, key: Option<&str>, accepted: u16) -> (u16, Vec<u8>) {
        let mut ledger = self.ledger.lock().expect("no thread panics with the ledger");
        if product == 90 && ledger.1 > 0 {
            return (409, b"{\"code\":500}".to_vec());
        }
        ledger.1 += 1;
        let odd = ledger.1.is_multiple_of(500);
        if self.lie == Lie::Refuses && product != 90 {
            return (418, b"no orders here".to_vec());
        }
        if !(odd && self.lie == Lie::LosesOrders) {
            let product = i64::try_from(product).expect("a small number");
            ledger
                .0
                .execute("INSERT INTO orders(product, key) VALUES (?1, ?2)", (product, key))
                .expect("a new key");
        }
        if odd && self.lie == Lie::HidesOrders {
            (503, Vec::new())
        } else {
            (accepted, b"{\"code\":200}".to_vec())
        }
    }
}
