//! Delivering the answers that came later.

use slab::Slab;

use super::Ticket;
use super::connection::Connection;
use super::response::ResponseWriter;
use super::shared::LoopShared;

/// The connections that wait for answers.
#[derive(Debug)]
pub struct Replies<'a> {
    pub(super) connections: &'a mut Slab<Connection>,
    pub(super) shared: &'a mut LoopShared,
    /// Connections that have more to do after their answer: pipelined requests, or to be closed.
    pub(super) resume: &'a mut Vec<usize>,
}

impl Replies<'_> {
    /// Answers the request of this ticket; `write` fills in the response. False, and `write` is not
    /// called, if nobody waits for it any more: the connection is gone, or the ticket was answered before.
    pub fn reply(&mut self, ticket: Ticket, write: impl FnOnce(&mut ResponseWriter<'_>)) -> bool {
        let index = usize::try_from(ticket.connection).expect("usize has 32 bits or more");
        let Some(connection) = self.connections.get_mut(index) else {
            return false;
        };
        match connection.reply(ticket.generation, self.shared, write) {
            None => return false,
            Some(true) => self.resume.push(index),
            Some(false) => {}
        }
        true
    }

    /// Sends a part of an answer that was begun with [`super::Answer::Parts`]. False if nobody reads it any more. Who is slow
    /// misses parts: each one must be whole by itself.
    pub fn part(&mut self, ticket: Ticket, bytes: &[u8]) -> bool {
        let index = usize::try_from(ticket.connection).expect("usize has 32 bits or more");
        let Some(connection) = self.connections.get_mut(index) else { return false };
        let goes_on = connection.part(ticket.generation, self.shared, bytes);
        if goes_on {
            self.resume.push(index);
        }
        goes_on
    }

    /// Whether whoever reads an answer in parts has taken all of them; `None` if nobody reads it any more.
    pub fn has_taken_parts(&self, ticket: Ticket) -> Option<bool> {
        let index = usize::try_from(ticket.connection).expect("usize has 32 bits or more");
        self.connections.get(index)?.has_taken_parts(ticket.generation)
    }

    /// Ends an answer in parts.
    pub fn end(&mut self, ticket: Ticket) {
        let index = usize::try_from(ticket.connection).expect("usize has 32 bits or more");
        if let Some(connection) = self.connections.get_mut(index)
            && connection.end_parts(ticket.generation)
        {
            self.resume.push(index);
        }
    }
}
