//! Requests of many people over few connections: each is sent when its time has come, on whichever connection is free.
//!
//! One thread, one epoll instance, edge-triggered. A request here is small, and a person asks the next one after the answer.
//! Must not: know what is asked, nor when.

use std::io::{self, ErrorKind, Read, Write};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use mio::net::TcpStream;
use mio::{Events, Interest, Poll, Token};

use crate::drivers::http::response;

/// A request without an answer after this is given up.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);
const READ_BYTES: usize = 16 << 10;

/// Status and body; `None`: it was lost, and may have been carried out.
pub(super) type Answer = Option<(u16, Vec<u8>)>;

#[derive(Debug)]
pub(super) struct Wire<T> {
    address: SocketAddr,
    poll: Poll,
    events: Events,
    lines: Vec<Line<T>>,
    free: Vec<usize>,
    looked_at: Instant,
}

#[derive(Debug)]
struct Line<T> {
    stream: Option<TcpStream>,
    /// What is under way, and since when.
    asked: Option<(T, Instant)>,
    /// What the kernel has not taken yet.
    rest: Vec<u8>,
    arrived: Vec<u8>,
}

impl<T> Wire<T> {
    /// So many connections at most, each opened when it is first needed.
    pub(super) fn new(address: SocketAddr, connections: usize) -> io::Result<Self> {
        let line = |_| Line { stream: None, asked: None, rest: Vec::new(), arrived: Vec::new() };
        Ok(Self {
            address,
            poll: Poll::new()?,
            events: Events::with_capacity(connections),
            lines: (0..connections).map(line).collect(),
            free: (0..connections).rev().collect(),
            looked_at: Instant::now(),
        })
    }

    pub(super) fn has_free(&self) -> bool {
        !self.free.is_empty()
    }

    /// Sends on a free connection.
    ///
    /// # Panics
    /// If none is free.
    pub(super) fn send(&mut self, request: &[u8], of: T) -> io::Result<()> {
        let index = self.free.pop().expect("who sends has looked whether a connection is free");
        let line = &mut self.lines[index];
        if line.stream.is_none() {
            let stream = std::net::TcpStream::connect(self.address)?;
            stream.set_nodelay(true)?;
            stream.set_nonblocking(true)?;
            let mut stream = TcpStream::from_std(stream);
            let interest = Interest::READABLE | Interest::WRITABLE;
            self.poll.registry().register(&mut stream, Token(index), interest)?;
            line.stream = Some(stream);
        }
        line.asked = Some((of, Instant::now()));
        line.rest.extend_from_slice(request);
        // A connection that has broken is found out by its event.
        let _known_later = line.flush();
        Ok(())
    }

    /// What is answered within this time; it returns with the first.
    pub(super) fn wait(&mut self, at_most: Duration) -> io::Result<Vec<(T, Answer)>> {
        match self.poll.poll(&mut self.events, Some(at_most)) {
            Err(error) if error.kind() != ErrorKind::Interrupted => return Err(error),
            _ => {}
        }
        let mut answered = Vec::new();
        for event in &self.events {
            let index = event.token().0;
            let line = &mut self.lines[index];
            let answer = match line.go_on() {
                Ok(None) => continue,
                Ok(Some(answer)) => Some(answer),
                Err(_) => line.close(),
            };
            if let Some((of, _)) = line.asked.take() {
                answered.push((of, answer));
                self.free.push(index);
            }
        }
        if self.looked_at.elapsed() > ANSWER_TIMEOUT / 10 {
            self.looked_at = Instant::now();
            self.give_up(&mut answered);
        }
        Ok(answered)
    }

    fn give_up(&mut self, answered: &mut Vec<(T, Answer)>) {
        for (index, line) in self.lines.iter_mut().enumerate() {
            if let Some((of, _)) = line.asked.take_if(|(_, since)| since.elapsed() > ANSWER_TIMEOUT) {
                answered.push((of, line.close()));
                self.free.push(index);
            }
        }
    }
}

impl<T> Line<T> {
    fn close(&mut self) -> Answer {
        self.stream = None;
        self.rest.clear();
        self.arrived.clear();
        None
    }

    fn flush(&mut self) -> io::Result<()> {
        let Some(stream) = &mut self.stream else { return Ok(()) };
        while !self.rest.is_empty() {
            match stream.write(&self.rest) {
                Ok(taken) => drop(self.rest.drain(..taken)),
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// After an event. An error: the connection is of no more use.
    fn go_on(&mut self) -> io::Result<Option<(u16, Vec<u8>)>> {
        self.flush()?;
        let Some(stream) = &mut self.stream else { return Ok(None) };
        let mut buffer = [0; READ_BYTES];
        loop {
            match stream.read(&mut buffer) {
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(count) => self.arrived.extend_from_slice(&buffer[..count]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        let head = response::parse(&self.arrived).map_err(|malformed| io::Error::other(malformed.0))?;
        let Some(head) = head.filter(|head| self.arrived.len() >= head.total_bytes) else { return Ok(None) };
        let body = self.arrived[head.head_bytes..head.total_bytes].to_vec();
        self.arrived.clear();
        if !head.keep_alive {
            self.close();
        }
        Ok(Some((head.status, body)))
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    /// Answers so many requests of each connection, in two pieces, and closes it.
    fn server(each: usize) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        std::thread::spawn(move || {
            for mut stream in listener.incoming().map_while(Result::ok) {
                std::thread::spawn(move || {
                    let mut request = [0; 64];
                    for _ in 0..each {
                        let count = stream.read(&mut request).unwrap_or(0);
                        if count == 0 {
                            return;
                        }
                        let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {count}\r\n\r\n");
                        stream.write_all(head.as_bytes()).unwrap();
                        stream.write_all(&request[..count]).unwrap();
                    }
                });
            }
        });
        address
    }

    #[test]
    fn each_gets_the_answer_to_what_it_asked_and_a_lost_one_is_said() {
        let mut wire = Wire::new(server(2), 3).unwrap();
        let (mut asked, mut own, mut lost) = (0, 0, 0);
        while own + lost < 60 {
            while asked < 60 && wire.has_free() {
                wire.send(format!("request {asked}").as_bytes(), asked).unwrap();
                asked += 1;
            }
            for (of, answer) in wire.wait(Duration::from_secs(5)).unwrap() {
                match answer {
                    Some((status, body)) => {
                        assert_eq!((status, body), (200, format!("request {of}").into_bytes()));
                        own += 1;
                    }
                    None => lost += 1,
                }
            }
        }
        // Two of each connection are answered; what was sent to one that is being closed is lost.
        assert!(own >= 30 && lost <= 30, "{own} {lost}");
        assert!(wire.wait(Duration::ZERO).unwrap().is_empty());
    }
}
