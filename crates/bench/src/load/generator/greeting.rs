//! The exchange before the first request of a connection, for protocols that have one.

use std::io::{self, ErrorKind};
use std::time::Instant;

use mio::Events;

use super::{EVENTS_MAX, Generator, SWEEP};
use crate::load::connection::State;
use crate::load::protocol::{Greeting, Protocol};

impl Generator {
    pub(super) fn greet_all<P: Protocol>(&mut self, protocol: &mut P) -> io::Result<()> {
        let begun = Instant::now();
        let mut events = Events::with_capacity(EVENTS_MAX);
        for index in 0..self.connections.len() {
            if self.connections[index].is_open() {
                self.begin_greeting(index, protocol)?;
            }
        }
        while self.connections.iter().any(|connection| connection.state == State::Greeting) {
            if begun.elapsed() > self.settings.answer_timeout {
                return Err(io::Error::new(
                    ErrorKind::TimedOut,
                    "the target accepts connections and does not greet",
                ));
            }
            match self.poll.poll(&mut events, Some(SWEEP)) {
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                result => result?,
            }
            let mut buffer = std::mem::take(&mut self.buffer);
            for event in &events {
                let index = event.token().0;
                if self.connections[index].has_outgoing() {
                    self.connections[index].flush()?;
                }
                while self.connections[index].state == State::Greeting {
                    match self.connections[index].read(&mut buffer) {
                        Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                        Ok(count) => self.greet(index, &buffer[..count], protocol)?,
                        Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                        Err(error) => return Err(error),
                    }
                }
            }
            self.buffer = buffer;
        }
        Ok(())
    }

    pub(super) fn begin_greeting<P: Protocol>(&mut self, index: usize, protocol: &mut P) -> io::Result<()> {
        self.connections[index].state = State::Greeting;
        self.greet(index, &[], protocol)
    }

    /// Goes on with the exchange as far as the bytes allow; the connection is idle, or has asked, when it is over.
    pub(super) fn greet<P: Protocol>(
        &mut self,
        index: usize,
        bytes: &[u8],
        protocol: &mut P,
    ) -> io::Result<()> {
        let id = self.settings.connection_id(index);
        let connection = &mut self.connections[index];
        let mut arrived = std::mem::take(&mut connection.arrived);
        arrived.extend_from_slice(bytes);
        loop {
            self.request.clear();
            let step = protocol.greet(id, &arrived, &mut self.request);
            if !self.request.is_empty() {
                connection.say(&self.request).1?;
            }
            match step {
                Greeting::Part => break,
                Greeting::Next { consumed } => {
                    arrived.drain(..consumed);
                    if arrived.is_empty() {
                        break;
                    }
                }
                Greeting::Done { consumed } => {
                    arrived.drain(..consumed);
                    connection.arrived = arrived;
                    connection.state = State::Idle;
                    if !connection.waiting.is_empty() {
                        connection.send_waiting()?;
                    }
                    return Ok(());
                }
                Greeting::Broken(why) => return Err(io::Error::new(ErrorKind::InvalidData, why)),
            }
        }
        connection.arrived = arrived;
        Ok(())
    }
}
