//! What the generator's connections are: to whom, how many, for how long.

use std::net::SocketAddr;
use std::time::Duration;

use super::protocol::ConnectionId;

/// An open loop begins with so many connections, unless the cap is lower.
const OPENED_FIRST: usize = 32;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reuse {
    KeepAlive,
    /// A new connection for each request, closed after its answer.
    PerRequest,
}

/// Who talks to which of several addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Spread {
    /// They stand for one another: each user keeps to one, in turn.
    Users,
    /// Each request belongs to one of them, and the protocol says to which: a user has a connection to each.
    Requests,
}

#[derive(Debug, Clone)]
pub struct Settings {
    pub addresses: Vec<SocketAddr>,
    pub spread: Spread,
    /// Users: so many requests can be under way at once. A request that is due while all of them are waits for one,
    /// which is counted: see [`Record::waited_for_cap`](super::record::Record::waited_for_cap).
    pub connections: usize,
    /// Users whose connections are opened before the run; those of the others when they are first needed.
    pub opened: usize,
    pub reuse: Reuse,
    /// A request without an answer after this is given up: its outcome is unknown. For as long after the end of an
    /// open loop, requests are sent that were due before it; then the rest is left unsent.
    pub answer_timeout: Duration,
}

impl Settings {
    pub fn keep_alive(address: SocketAddr, connections: usize) -> Self {
        Self::spread(vec![address], connections)
    }

    /// Kept-alive connections to several servers that stand for one another.
    pub fn spread(addresses: Vec<SocketAddr>, connections: usize) -> Self {
        Self {
            addresses,
            spread: Spread::Users,
            connections,
            opened: connections,
            reuse: Reuse::KeepAlive,
            answer_timeout: Duration::from_secs(10),
        }
    }

    /// Kept-alive connections for an open loop: a few at first, as many as it takes, and `cap` at most.
    pub fn open_loop(address: SocketAddr, cap: usize) -> Self {
        Self { opened: cap.min(OPENED_FIRST), ..Self::keep_alive(address, cap) }
    }

    /// Connections of one user.
    pub(super) fn lanes(&self) -> usize {
        match self.spread {
            Spread::Users => 1,
            Spread::Requests => self.addresses.len(),
        }
    }

    pub(super) fn connection_id(&self, index: usize) -> ConnectionId {
        ConnectionId { user: index / self.lanes(), lane: index % self.lanes() }
    }

    pub(super) fn address(&self, connection: ConnectionId) -> SocketAddr {
        match self.spread {
            Spread::Users => self.addresses[connection.user % self.addresses.len()],
            Spread::Requests => self.addresses[connection.lane],
        }
    }
}
