//! Stands in for the server: gives prepared answers, one per connection, and keeps what was asked.

use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(60);

/// One request as it came.
#[derive(Debug)]
pub(crate) struct Asked {
    /// Method and path.
    pub(crate) line: String,
    /// Lower-case `name: value`.
    pub(crate) headers: Vec<String>,
    pub(crate) body: String,
}

/// A prepared answer; `None` closes the connection without one.
pub(crate) type Prepared = Option<(u16, &'static str)>;

pub(crate) struct StandIn {
    pub(crate) url: String,
    thread: JoinHandle<Vec<Asked>>,
}

impl StandIn {
    pub(crate) fn start(answers: Vec<Prepared>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let serve = move || answers.into_iter().map(|answer| exchange(&listener, answer)).collect();
        Self { url, thread: std::thread::spawn(serve) }
    }

    /// All requests, once every prepared answer was given.
    pub(crate) fn asked(self) -> Vec<Asked> {
        self.thread.join().unwrap()
    }
}

/// The next request. A test that expects more of them than come fails, and does not wait for ever.
fn accept(listener: &TcpListener) -> TcpStream {
    let started = Instant::now();
    listener.set_nonblocking(true).unwrap();
    loop {
        match listener.accept() {
            Ok((stream, _)) => {
                stream.set_nonblocking(false).unwrap();
                return stream;
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock && started.elapsed() < PATIENCE => {
                std::thread::sleep(Duration::from_millis(5));
            }
            Err(error) => panic!("nobody asks for the next answer: {error}"),
        }
    }
}

fn exchange(listener: &TcpListener, answer: Prepared) -> Asked {
    let stream = accept(listener);
    let asked = read(&stream);
    if let Some((status, body)) = answer {
        let head =
            format!("HTTP/1.1 {status} x\r\nConnection: close\r\nContent-Length: {}\r\n\r\n", body.len());
        (&stream).write_all((head + body).as_bytes()).unwrap();
    }
    asked
}

fn read(stream: &TcpStream) -> Asked {
    let mut reader = BufReader::new(stream);
    let mut lines = Vec::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).unwrap();
        match line.trim_end() {
            "" => break,
            text => lines.push(text.to_owned()),
        }
    }
    let line = lines.remove(0).trim_end_matches(" HTTP/1.1").to_owned();
    let headers: Vec<String> = lines
        .iter()
        .map(|header| {
            let (name, value) = header.split_once(':').unwrap();
            format!("{}:{value}", name.to_lowercase())
        })
        .collect();
    let length = headers.iter().find_map(|header| header.strip_prefix("content-length: "));
    let mut body = vec![0; length.map_or(0, |length| length.parse().unwrap())];
    reader.read_exact(&mut body).unwrap();
    Asked { line, headers, body: String::from_utf8(body).unwrap() }
}
