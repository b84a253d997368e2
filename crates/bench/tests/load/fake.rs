//! A server of known behaviour: what the generator reports about it can be compared with what it did.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// What the server does with the request of this number, counted from 0 over all connections.
pub(crate) enum Answer {
    /// An answer with this status and body.
    Status(u16, &'static [u8]),
    /// As 200, after a pause of this connection.
    After(Duration),
    /// As 200, in two pieces with a pause between them, cut after this many bytes.
    InPieces(usize),
    /// As 200, a byte at a time with this pause before each.
    Dripping(Duration),
    /// As 200, after this time of the one server that all connections share: the others wait for it.
    Queued(Duration),
    /// 200 with this claimed length and this body; the connection stays open.
    Claiming(usize, &'static [u8]),
    /// As `Claiming`, but the connection is closed after it.
    ClaimingThenClose(usize, &'static [u8]),
    /// 200 with `Connection: close`, and closed.
    Close,
    /// The connection is closed with bytes of the request unread, which the kernel turns into a reset.
    Reset,
    /// Nothing, until the client has gone.
    Silence,
}

pub(crate) type Behaviour = dyn Fn(u64, Duration) -> Answer + Send + Sync;

/// A running server. Its threads end with their connections; the accepting one ends with the process.
pub(crate) struct Fake {
    pub(crate) address: SocketAddr,
    pub(crate) requests: Arc<AtomicU64>,
    pub(crate) connections: Arc<AtomicU64>,
}

/// What the threads of one fake share.
struct Shared {
    behaviour: Box<Behaviour>,
    requests: Arc<AtomicU64>,
    begun: OnceLock<Instant>,
    server: Mutex<()>,
}

impl Fake {
    /// `behaviour` gets the number of the request and the time since the first one.
    pub(crate) fn start(behaviour: impl Fn(u64, Duration) -> Answer + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a free port");
        let address = listener.local_addr().expect("it is bound");
        let (requests, connections) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
        let shared = Arc::new(Shared {
            behaviour: Box::new(behaviour),
            requests: requests.clone(),
            begun: OnceLock::new(),
            server: Mutex::new(()),
        });
        let accepted = connections.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                accepted.fetch_add(1, Ordering::SeqCst);
                let shared = shared.clone();
                let stream = stream.expect("an accepted connection");
                std::thread::spawn(move || serve(stream, &shared));
            }
        });
        Self { address, requests, connections }
    }

    pub(crate) fn requests(&self) -> u64 {
        self.requests.load(Ordering::SeqCst)
    }

    pub(crate) fn connections(&self) -> u64 {
        self.connections.load(Ordering::SeqCst)
    }
}

/// Returns, closing the connection, on anything unexpected: the client may go away at any time.
fn serve(mut stream: TcpStream, shared: &Shared) -> Option<()> {
    stream.set_nodelay(true).ok()?;
    let mut arrived = Vec::new();
    let mut buffer = [0; 4096];
    loop {
        // Every request is as long as this; the behaviour is asked before its last bytes are read, so that they can
        // be left unread.
        let rest = super::REQUEST.len() - 8;
        while arrived.len() < rest {
            let wanted = (rest - arrived.len()).min(buffer.len());
            let count = stream.read(&mut buffer[..wanted]).ok().filter(|count| *count > 0)?;
            arrived.extend_from_slice(&buffer[..count]);
        }
        arrived.clear();
        let number = shared.requests.fetch_add(1, Ordering::SeqCst);
        let since = shared.begun.get_or_init(Instant::now).elapsed();
        let answer = (shared.behaviour)(number, since);
        if matches!(answer, Answer::Reset) {
            stream.peek(&mut buffer).ok()?;
            return None;
        }
        stream.read_exact(&mut buffer[..8]).ok()?;
        let good = b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\ngood";
        match answer {
            Answer::Status(status, body) => {
                let head = format!("HTTP/1.1 {status} Some\r\nContent-Length: {}\r\n\r\n", body.len());
                stream.write_all(&[head.as_bytes(), body].concat()).ok()?;
            }
            Answer::After(pause) => {
                sleep(pause);
                stream.write_all(good).ok()?;
            }
            Answer::InPieces(first) => {
                stream.write_all(&good[..first]).ok()?;
                sleep(Duration::from_millis(2));
                stream.write_all(&good[first..]).ok()?;
            }
            Answer::Dripping(pause) => {
                for byte in good {
                    sleep(pause);
                    stream.write_all(std::slice::from_ref(byte)).ok()?;
                }
            }
            Answer::Queued(service) => {
                let serving = shared.server.lock().expect("no thread panics while it serves");
                sleep(service);
                drop(serving);
                stream.write_all(good).ok()?;
            }
            Answer::Claiming(length, body) => claim(&mut stream, length, body)?,
            Answer::ClaimingThenClose(length, body) => {
                claim(&mut stream, length, body)?;
                return None;
            }
            Answer::Close => {
                stream
                    .write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
                    .ok()?;
                return None;
            }
            Answer::Reset => unreachable!("handled above"),
            Answer::Silence => while stream.read(&mut buffer).ok()? > 0 {},
        }
    }
}

fn claim(stream: &mut TcpStream, length: usize, body: &[u8]) -> Option<()> {
    let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n");
    stream.write_all(&[head.as_bytes(), body].concat()).ok()
}
