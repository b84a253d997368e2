//! What comes back: events of sockets, answers in one piece or many, and requests that will never have one.

use std::io::{self, ErrorKind};
use std::time::Instant;

use mio::event::Event;

use super::{Generator, REST, Run, User};
use crate::load::connection::State;
use crate::load::protocol::{ConnectionId, Protocol, Received};
use crate::load::record::{Clocks, Outcome};
use crate::load::settings::Reuse;

impl Generator {
    pub(super) fn handle<P: Protocol>(&mut self, event: &Event, run: &mut Run<'_, P>) {
        let index = event.token().0;
        if self.connections[index].state == State::Connecting {
            match self.connected(index, run) {
                Ok(true) => {}
                Ok(false) => return,
                Err(error) => return self.lose(index, &error.to_string(), Instant::now(), run),
            }
        }
        let connection = &mut self.connections[index];
        if connection.has_outgoing()
            && let Err(error) = connection.flush()
        {
            return self.lose(index, &error.to_string(), Instant::now(), run);
        }
        if event.is_readable() || event.is_read_closed() || event.is_error() {
            self.read(index, event.is_read_closed(), run);
        }
    }

    /// Whether a connection that was begun is made now; then what waits for it is sent.
    fn connected<P: Protocol>(&mut self, index: usize, run: &mut Run<'_, P>) -> io::Result<bool> {
        if !self.connections[index].finish_connecting()? {
            return Ok(false);
        }
        if run.protocol.greets() {
            self.begin_greeting(index, run.protocol)?;
        } else {
            self.connections[index].send_waiting()?;
        }
        Ok(true)
    }

    /// Reads until the socket is drained. A short read has drained it, unless the end of the stream came with it; one
    /// that an answer has replaced has an event of its own.
    fn read<P: Protocol>(&mut self, index: usize, ending: bool, run: &mut Run<'_, P>) {
        let mut buffer = std::mem::take(&mut self.buffer);
        while self.connections[index].is_open() && self.connections[index].state != State::Connecting {
            match self.connections[index].read(&mut buffer) {
                Ok(0) => self.lose(index, "connection closed", Instant::now(), run),
                Ok(count) => {
                    self.receive(index, &buffer[..count], run);
                    if count < buffer.len() && !ending {
                        break;
                    }
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) => self.lose(index, &error.to_string(), Instant::now(), run),
            }
        }
        self.buffer = buffer;
    }

    fn receive<P: Protocol>(&mut self, index: usize, bytes: &[u8], run: &mut Run<'_, P>) {
        match self.connections[index].state {
            State::Asked => {}
            State::Greeting => {
                if let Err(error) = self.greet(index, bytes, run.protocol) {
                    self.lose(index, &error.to_string(), Instant::now(), run);
                }
                return;
            }
            State::Idle | State::Connecting => {
                // Bytes that nobody asked for: the answer before them was not what its length said.
                run.record.stray_answers += 1;
                self.connections[index].close();
                return;
            }
        }
        let id = self.settings.connection_id(index);
        let verdicts = &mut self.users[id.user].verdicts;
        let connection = &mut self.connections[index];
        if connection.arrived.is_empty() {
            // The usual case: the whole answer in one read, and no copy of it.
            let received = run.protocol.receive(id, bytes, verdicts);
            if let Received::Part { consumed } = received {
                connection.arrived.extend_from_slice(&bytes[consumed..]);
            }
            return self.received(index, received, bytes.len(), run);
        }
        connection.arrived.extend_from_slice(bytes);
        let length = connection.arrived.len();
        let received = run.protocol.receive(id, &connection.arrived, verdicts);
        if let Received::Part { consumed } = received {
            connection.arrived.drain(..consumed);
        } else {
            connection.arrived.clear();
        }
        self.received(index, received, length, run);
    }

    /// After the protocol has looked at `length` bytes.
    fn received<P: Protocol>(
        &mut self,
        index: usize,
        received: Received,
        length: usize,
        run: &mut Run<'_, P>,
    ) {
        match received {
            Received::Part { .. } => {}
            Received::Broken(why) => self.lose(index, why, Instant::now(), run),
            Received::Whole { consumed, keep_alive } => {
                let stray = length > consumed;
                run.record.stray_answers += u64::from(stray);
                let connection = &mut self.connections[index];
                let reusable = keep_alive && !stray && !connection.has_outgoing();
                if !reusable || self.settings.reuse == Reuse::PerRequest {
                    connection.close();
                }
                let now = Instant::now();
                run.unanswered_since = None;
                run.last_whole = Some(now);
                self.settle(index, now, run);
                self.dispatch(now, run);
            }
        }
    }

    /// The answer is whole, or will never be: what is still without a verdict is unknown.
    fn settle<P: Protocol>(&mut self, index: usize, now: Instant, run: &mut Run<'_, P>) {
        let ConnectionId { user: asking, .. } = self.settings.connection_id(index);
        self.connections[index].state = State::Idle;
        let operations = run.protocol.operations(asking);
        let user = &mut self.users[asking];
        let given: u64 = user.verdicts.outcomes.iter().map(|(_, count)| count).sum();
        if given < operations {
            user.verdicts.outcomes.push((Outcome::Unknown, operations - given));
        }
        let worth_a_retry = user.verdicts.outcomes.iter().any(|(outcome, _)| outcome.is_worth_a_retry());
        run.pace.settled(user.attempt, worth_a_retry, now);
        let clocks = Clocks { planned: user.planned, sent: user.sent, answered: now };
        run.roll(now);
        let tally = run.record.settle(&mut user.verdicts, clocks);
        if let Some(asking) = &mut run.asking
            && now.saturating_duration_since(run.started) <= asking.time
        {
            asking.good += tally.good;
        }
        if tally.good > 0 {
            run.record.last_good = Some(now.saturating_duration_since(run.started));
        }
        run.series.add(tally);
        user.asking = None;
        run.in_flight -= 1;
        run.last_settled = now;
        self.free(asking, now, run);
    }

    /// The user may ask again. Whatever was due before now and found nobody free has waited for this.
    pub(super) fn free<P: Protocol>(&mut self, user: usize, now: Instant, run: &mut Run<'_, P>) {
        if run.saturated {
            (run.saturated, run.freed) = (false, now);
        }
        self.idle.push_back(user);
    }

    /// The connection broke or its answer can't be read. Once a byte was sent the order may exist.
    pub(super) fn lose<P: Protocol>(&mut self, index: usize, why: &str, now: Instant, run: &mut Run<'_, P>) {
        let connection = &mut self.connections[index];
        let (state, begun) = (connection.state, connection.begun);
        connection.close();
        connection.state = State::Idle;
        let asking = self.settings.connection_id(index).user;
        let user = &mut self.users[asking];
        if user.asking != Some(index) {
            // The target closed a connection that had nothing to do: its right.
            return;
        }
        user.verdicts.surprise(|| why.to_owned());
        if begun && state == State::Asked {
            return self.settle(index, now, run);
        }
        let rested = now + REST;
        run.pace.settled(user.attempt, true, rested);
        run.roll(now);
        let tally = run.record.never_sent(&mut user.verdicts, run.protocol.operations(asking));
        run.series.add(tally);
        user.asking = None;
        run.in_flight -= 1;
        self.resting.push_back((rested, asking));
    }

    /// Gives up on requests without an answer, and lets rested users try again.
    pub(super) fn sweep<P: Protocol>(&mut self, now: Instant, run: &mut Run<'_, P>) {
        for user in 0..self.users.len() {
            let User { asking, sent, .. } = self.users[user];
            if let Some(index) = asking
                && now.saturating_duration_since(sent) > self.settings.answer_timeout
            {
                self.lose(index, "no answer in time", now, run);
            }
        }
        while let Some((until, user)) = self.resting.front().copied()
            && until <= now
        {
            self.resting.pop_front();
            self.free(user, now, run);
        }
    }
}
