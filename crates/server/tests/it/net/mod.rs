//! The net layer on real sockets: a small echo service on a loop of its own thread, port 0.

mod answers;
mod hostile;
mod limits;
mod parts;
mod stopping;
mod tls;

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use server::net::{
    Answer, EventLoop, HttpRequest, Limits, NetStats, Replies, ResponseWriter, Service, Stop, Ticket,
    TrustedProxies, Waker,
};

/// Longer than anything here takes; only a failing test waits for it.
const PATIENCE: Duration = Duration::from_secs(20);

/// Limits under which nothing times out unless the test asks for it.
fn relaxed() -> Limits {
    Limits {
        connections_max: 100,
        head_bytes_max: 4096,
        headers_max: 16,
        request_timeout: PATIENCE,
        idle_timeout: PATIENCE,
        write_timeout: PATIENCE,
        drain: PATIENCE,
        output_bytes_max: 64 * 1024,
        ..Limits::default()
    }
}

/// More than both systems keep for a connection that is not read.
const PART_BYTES: usize = 16 << 20;

/// What a test sees of its service, and the requests that it holds back.
#[derive(Default)]
struct Held {
    /// Answers to `/hold` that wait for the test.
    tickets: Mutex<Vec<Ticket>>,
    /// To be delivered in the next round.
    ready: Mutex<Vec<(Ticket, String)>>,
    stale: AtomicUsize,
    /// Answers in parts that are read still.
    streams: Mutex<Vec<Ticket>>,
    /// Answers of which each part waits for the one before, and how many are to come.
    all: Mutex<Vec<(Ticket, usize)>>,
    /// The next part of all of them; none: their end.
    parts: Mutex<Vec<Option<Vec<u8>>>>,
    /// Answers to `/big` of one round, at most.
    round_answers_max: AtomicUsize,
}

/// `/echo` and everything else: method, path, query and body. `/later`: the same by way of another thread.
/// `/hold`: when the test releases it. `/big`: as many bytes as the query says. `/parts`: as the test gives them. `/all`: as many
/// large parts as the query says.
struct Echo {
    held: Arc<Held>,
    later: SyncSender<(Ticket, String)>,
    /// Answers to `/big` of this round.
    answers: usize,
}

impl Service for Echo {
    /// More for whoever says the word.
    fn body_bytes_max(&self, _method: &str, _path: &str, headers: &[httparse::Header<'_>]) -> usize {
        if headers.iter().any(|header| header.name == "X-Word") { 2000 } else { 1000 }
    }

    fn call(
        &mut self,
        request: &HttpRequest<'_>,
        ticket: Ticket,
        response: &mut ResponseWriter<'_>,
    ) -> Answer {
        let body = String::from_utf8_lossy(request.body);
        let echo = format!("{} {} {} {body}", request.method, request.path, request.query);
        match request.path {
            "/later" => self.later.send((ticket, echo)).unwrap(),
            "/hold" => self.held.tickets.lock().unwrap().push(ticket),
            "/parts" => {
                response.begin(&[("X-Kind", "parts")], "text/plain", b"first ");
                self.held.streams.lock().unwrap().push(ticket);
                return Answer::Parts;
            }
            "/all" => {
                response.begin_chunked(&[], "text/plain");
                let parts = request.query.parse().unwrap();
                self.held.all.lock().unwrap().push((ticket, parts));
                return Answer::Parts;
            }
            "/big" => {
                self.answers += 1;
                let bytes = request.query.parse().unwrap();
                response.head(200).body("text/plain", &vec![b'x'; bytes]);
                return Answer::Ready;
            }
            _ => {
                response
                    .head(200)
                    .header("X-Secure", &request.secure.to_string())
                    .body("text/plain", echo.as_bytes());
                return Answer::Ready;
            }
        }
        Answer::Later
    }

    fn round_ended(&mut self) {
        self.held.round_answers_max.fetch_max(std::mem::take(&mut self.answers), Ordering::SeqCst);
    }

    fn deliver(&mut self, replies: &mut Replies<'_>) {
        for (ticket, text) in self.held.ready.lock().unwrap().drain(..) {
            let write = |response: &mut ResponseWriter<'_>| {
                response.head(200).body("text/plain", text.as_bytes());
            };
            if !replies.reply(ticket, write) {
                self.held.stale.fetch_add(1, Ordering::SeqCst);
            }
        }
        self.held.all.lock().unwrap().retain_mut(|(ticket, parts)| match replies.has_taken_parts(*ticket) {
            None => false,
            Some(false) => true,
            Some(true) if *parts == 0 => {
                replies.end(*ticket);
                false
            }
            Some(true) => {
                *parts -= 1;
                replies.part(*ticket, &vec![b'x'; PART_BYTES])
            }
        });
        let mut streams = self.held.streams.lock().unwrap();
        for part in self.held.parts.lock().unwrap().drain(..) {
            match part {
                Some(bytes) => streams.retain(|ticket| replies.part(*ticket, &bytes)),
                None => streams.drain(..).for_each(|ticket| replies.end(ticket)),
            }
        }
    }

    fn protocol_error(&mut self, status: u16, detail: &str, response: &mut ResponseWriter<'_>) {
        response.head(status).body("text/problem", detail.as_bytes());
    }
}

/// A running loop.
struct Server {
    address: SocketAddr,
    held: Arc<Held>,
    waker: Waker,
    stop: Stop,
    stats: Arc<NetStats>,
    thread: Option<JoinHandle<io::Result<()>>>,
}

impl Server {
    fn start(limits: Limits) -> Server {
        Server::start_with(limits, None)
    }

    fn start_with(limits: Limits, tls: Option<Arc<rustls::ServerConfig>>) -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let mut event_loop = EventLoop::new(listener, limits, tls).unwrap();
        let (waker, stats, stop) = (event_loop.waker(), event_loop.stats(), Stop::new());
        let held = Arc::new(Held::default());
        let (later, asked) = sync_channel::<(Ticket, String)>(1000);
        let answering = (Arc::clone(&held), waker.clone());
        std::thread::spawn(move || {
            let (held, waker) = answering;
            for answer in asked {
                held.ready.lock().unwrap().push(answer);
                waker.wake();
            }
        });
        let mut echo = Echo { held: Arc::clone(&held), later, answers: 0 };
        let stopping = stop.clone();
        let thread = std::thread::spawn(move || event_loop.run(&mut echo, &stopping));
        Server { address, held, waker, stop, stats, thread: Some(thread) }
    }

    fn connect(&self) -> Client<TcpStream> {
        Server::client(TcpStream::connect(self.address).unwrap())
    }

    /// From another address of this machine.
    fn connect_from(&self, ip: [u8; 4]) -> Client<TcpStream> {
        let (inet, stream) = (rustix::net::AddressFamily::INET, rustix::net::SocketType::STREAM);
        let socket = rustix::net::socket(inet, stream, None).unwrap();
        rustix::net::bind(&socket, &SocketAddr::from((ip, 0))).unwrap();
        rustix::net::connect(&socket, &self.address).unwrap();
        Server::client(TcpStream::from(socket))
    }

    fn client(socket: TcpStream) -> Client<TcpStream> {
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        socket.set_write_timeout(Some(PATIENCE)).unwrap();
        socket.set_nodelay(true).unwrap();
        Client { stream: socket, read: Vec::new() }
    }

    /// Answers all requests that are held back, and those held from earlier.
    fn release(&self, text: &str) {
        let tickets = std::mem::take(&mut *self.held.tickets.lock().unwrap());
        self.held.ready.lock().unwrap().extend(tickets.into_iter().map(|ticket| (ticket, text.to_owned())));
        self.waker.wake();
    }

    fn wait_until_held(&self, count: usize) {
        wait_until("requests are held", || self.held.tickets.lock().unwrap().len() == count);
    }

    fn wait_until_open(&self, count: u64) {
        wait_until("connections are open", || self.stats.open() == count);
    }

    /// Waits for the loop to end by itself.
    fn join(&mut self) {
        let thread = self.thread.take().unwrap();
        wait_until("the loop ends", || thread.is_finished());
        thread.join().unwrap().unwrap();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop.abort();
    }
}

/// For what only counters show. Polls, because there is nothing to be woken by.
#[track_caller]
fn wait_until(what: &str, condition: impl Fn() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < PATIENCE, "waited in vain until {what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// A client that reads one response at a time.
struct Client<S> {
    stream: S,
    read: Vec<u8>,
}

#[derive(Debug, PartialEq, Eq)]
struct Response {
    status: u16,
    head: String,
    body: String,
}

impl Response {
    fn has(&self, header: &str) -> bool {
        self.head.lines().any(|line| line.eq_ignore_ascii_case(header))
    }
}

impl<S: Read + Write> Client<S> {
    fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.stream.write_all(bytes.as_ref()).unwrap();
        self.stream.flush().unwrap();
    }

    fn get(&mut self, target: &str) {
        self.send(format!("GET {target} HTTP/1.1\r\nHost: h\r\n\r\n"));
    }

    /// Sends a request and reads its answer.
    fn ask(&mut self, target: &str) -> Response {
        self.get(target);
        self.response()
    }

    fn fill(&mut self) -> usize {
        let mut buffer = [0; 4096];
        let bytes = self.stream.read(&mut buffer).unwrap();
        self.read.extend_from_slice(&buffer[..bytes]);
        bytes
    }

    fn response(&mut self) -> Response {
        let mut response = self.response_head();
        let length = response.head.lines().find_map(|line| line.strip_prefix("Content-Length: "));
        let length: usize = length.map_or(0, |length| length.parse().unwrap());
        while self.read.len() < length {
            assert!(self.fill() > 0, "the connection ended inside of a body");
        }
        response.body = String::from_utf8(self.read.drain(..length).collect()).unwrap();
        response
    }

    /// `None` if the connection ended, or was reset, before a byte of a response.
    fn response_or_end(&mut self) -> Option<Response> {
        let mut buffer = [0; 4096];
        match self.stream.read(&mut buffer) {
            Ok(0) => return None,
            Ok(bytes) => self.read.extend_from_slice(&buffer[..bytes]),
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset => return None,
            Err(error) => panic!("{error}"),
        }
        Some(self.response())
    }

    fn response_head(&mut self) -> Response {
        let end = loop {
            if let Some(at) = self.read.windows(4).position(|bytes| bytes == b"\r\n\r\n") {
                break at + 4;
            }
            assert!(self.fill() > 0, "the connection ended before a response: {:?}", self.read);
        };
        let head = String::from_utf8(self.read.drain(..end).collect()).unwrap();
        let status = head.strip_prefix("HTTP/1.1 ").unwrap()[..3].parse().unwrap();
        Response { status, head, body: String::new() }
    }

    /// Nothing more comes, and the server has closed.
    #[track_caller]
    fn expect_end(&mut self) {
        assert_eq!(self.fill(), 0, "more came: {:?}", String::from_utf8_lossy(&self.read));
        assert_eq!(self.read, b"");
    }
}
