//! The loop: waits for events once per round, then lets each connection do what it can.
//!
//! A round: wait; answers that became ready go out (`Service::deliver`); connections with events are
//! driven; new connections are accepted; the service passes its batch on (`Service::round_ended`). The clock
//! is read once, and timeouts are found by a sweep every 250 ms, so no request pays for a timer. A
//! connection is registered once, edge-triggered for both directions, and never again.
//!
//! Must not know HTTP.

use std::collections::HashMap;
use std::io::{self, ErrorKind};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use mio::net::{TcpListener, TcpStream};
use mio::{Events, Interest, Poll, Token};
use rustls::{ServerConfig, ServerConnection};
use slab::Slab;

use super::Service;
use super::connection::{Connection, Fate};
use super::limits::Limits;
use super::network::network_of;
use super::replies::Replies;
use super::shared::{LoopShared, millis};
use super::stats::NetStats;
use super::stop::{Stop, Stopping, Waker};
use super::transport::Transport;

const LISTENER: Token = Token(usize::MAX);
const WAKER: Token = Token(usize::MAX - 1);
/// Events taken in one round; more wait for the next.
const EVENTS_PER_ROUND: usize = 1024;
/// Connections accepted in one round, so that loops on one listener share a burst.
const ACCEPTS_PER_ROUND: u32 = 32;
/// Connections turned away that may linger at one time; above it they are just closed.
pub(super) const REFUSED_MAX: usize = 128;
/// It wakes by itself: what is to be sent as it comes, or to be ended, waits no longer.
pub(crate) const SWEEP_EVERY: Duration = Duration::from_millis(250);

/// One event loop with its connections; belongs to one thread.
#[derive(Debug)]
pub struct EventLoop {
    poll: Poll,
    waker: Waker,
    /// Gone once the loop drains.
    listener: Option<TcpListener>,
    /// More connections may be waiting to be accepted.
    acceptable: bool,
    /// Accepting failed; the next sweep tries again.
    accept_paused: bool,
    tls: Option<Arc<ServerConfig>>,
    connections: Slab<Connection>,
    /// Of these, the ones turned away over the limit.
    refused: usize,
    /// The others, by address.
    held: HashMap<IpAddr, usize>,
    shared: LoopShared,
    stats: Arc<NetStats>,
    /// Connections to drive without an event, now and in the next round.
    resume: Vec<usize>,
    again: Vec<usize>,
    sweep_due_ms: u64,
    drain_until_ms: u64,
}

impl EventLoop {
    /// A loop on `listener`, which may be shared with other loops by `try_clone`. With `tls`, every
    /// connection has to be TLS. Errors: limits out of range, or the system is out of descriptors.
    pub fn new(
        listener: std::net::TcpListener,
        limits: Limits,
        tls: Option<Arc<ServerConfig>>,
    ) -> io::Result<EventLoop> {
        limits.check()?;
        listener.set_nonblocking(true)?;
        let mut listener = TcpListener::from_std(listener);
        let poll = Poll::new()?;
        poll.registry().register(&mut listener, LISTENER, Interest::READABLE)?;
        let waker = Waker::new(mio::Waker::new(poll.registry(), WAKER)?);
        Ok(EventLoop {
            poll,
            waker,
            listener: Some(listener),
            acceptable: true,
            accept_paused: false,
            tls,
            connections: Slab::new(),
            refused: 0,
            held: HashMap::new(),
            shared: LoopShared::new(limits),
            stats: Arc::default(),
            resume: Vec::new(),
            again: Vec::new(),
            sweep_due_ms: 0,
            drain_until_ms: u64::MAX,
        })
    }

    /// Counts into `stats` instead of own counters, so that several loops are counted together.
    #[must_use]
    pub fn with_stats(mut self, stats: Arc<NetStats>) -> EventLoop {
        self.stats = stats;
        self
    }

    /// Wakes this loop from any thread, so that it asks the service for answers.
    pub fn waker(&self) -> Waker {
        self.waker.clone()
    }

    pub fn stats(&self) -> Arc<NetStats> {
        Arc::clone(&self.stats)
    }

    /// Serves until `stop` says otherwise and everything received was answered, or the time to drain is
    /// over. Errors: epoll itself failed. A loop runs once.
    pub fn run(&mut self, service: &mut impl Service, stop: &Stop) -> io::Result<()> {
        stop.register(self.waker());
        let mut events = Events::with_capacity(EVENTS_PER_ROUND);
        loop {
            match self.poll.poll(&mut events, self.wait_at_most()) {
                Err(error) if error.kind() == ErrorKind::Interrupted => events.clear(),
                other => other?,
            }
            self.shared.read_clock();
            let stopping = stop.stopping();
            self.deliver(service);
            if stopping == Stopping::Abort {
                self.end();
                return Ok(());
            }
            self.drive_unfinished(service);
            self.drive_events(&events, service);
            self.accept(service);
            if stopping == Stopping::Drain && !self.shared.draining {
                self.begin_drain(service);
            }
            if self.shared.now_ms >= self.sweep_due_ms {
                self.sweep(service);
            }
            service.round_ended();
            self.shared.tally.flush(&self.stats);
            let drained = self.connections.is_empty() || self.shared.now_ms >= self.drain_until_ms;
            if self.shared.draining && drained {
                self.end();
                return Ok(());
            }
        }
    }

    /// Without a connection there is nothing to time out, and no reason to wake up.
    fn wait_at_most(&self) -> Option<Duration> {
        let accepting = self.acceptable && self.listener.is_some();
        if !self.again.is_empty() || accepting {
            return Some(Duration::ZERO);
        }
        if self.connections.is_empty() && !self.accept_paused && !self.shared.draining {
            return None;
        }
        Some(Duration::from_millis(self.sweep_due_ms.saturating_sub(self.shared.now_ms).max(1)))
    }

    fn deliver(&mut self, service: &mut impl Service) {
        let mut replies = Replies {
            connections: &mut self.connections,
            shared: &mut self.shared,
            resume: &mut self.resume,
        };
        service.deliver(&mut replies);
        let mut resume = std::mem::take(&mut self.resume);
        for index in resume.drain(..) {
            // Its answer is sent. What it asks for next is no more urgent than what others ask for: many who waited for one
            // list would otherwise get all their turns in one round, and an order behind them would wait for these.
            if self.has_room() {
                self.drive(index, service);
            } else if self.connections.contains(index) {
                self.settle(index, Fate::Again);
            }
        }
        self.resume = resume;
    }

    fn drive_events(&mut self, events: &Events, service: &mut impl Service) {
        for event in events {
            match event.token() {
                LISTENER => self.acceptable = true,
                WAKER => {}
                Token(index) => {
                    // A connection closed earlier in this round leaves its event behind.
                    let Some(connection) = self.connections.get_mut(index) else { continue };
                    if event.is_error() || event.is_write_closed() {
                        self.close(index);
                        continue;
                    }
                    if event.is_readable() || event.is_read_closed() {
                        connection.note_readable(event.is_read_closed());
                    }
                    // One that waits for its next turn has it in the next round.
                    if connection.queued {
                        continue;
                    }
                    if self.has_room() { self.drive(index, service) } else { self.settle(index, Fate::Again) }
                }
            }
        }
    }

    /// Whether this round has sent less than it may.
    fn has_room(&self) -> bool {
        self.shared.tally.bytes_out < self.shared.limits.round_bytes_max as u64
    }

    /// Drives the connections that had more to do than their turn in the last round allowed, in the order in which they
    /// have waited, as far as this round may go.
    fn drive_unfinished(&mut self, service: &mut impl Service) {
        let waiting = std::mem::take(&mut self.again);
        let mut left = waiting.into_iter();
        while self.has_room()
            && let Some(index) = left.next()
        {
            // The slot may have got another connection since, which is not queued then.
            if self.connections.get_mut(index).is_some_and(|it| std::mem::take(&mut it.queued)) {
                self.drive(index, service);
            }
        }
        if left.len() > 0 {
            let behind = std::mem::take(&mut self.again);
            self.again = left.chain(behind).collect();
        }
    }

    fn drive(&mut self, index: usize, service: &mut impl Service) {
        let Some(connection) = self.connections.get_mut(index) else { return };
        let fate = connection.drive(slot(index), &mut self.shared, service);
        self.settle(index, fate);
    }

    fn settle(&mut self, index: usize, fate: Fate) {
        match fate {
            Fate::Keep => {}
            Fate::Close => self.close(index),
            Fate::Again => {
                if !std::mem::replace(&mut self.connections[index].queued, true) {
                    self.again.push(index);
                }
            }
        }
    }

    fn close(&mut self, index: usize) {
        // Closing the descriptor takes it out of epoll, because nothing else holds it.
        let mut connection = self.connections.remove(index);
        connection.say_goodbye();
        if connection.refused {
            self.refused -= 1;
        } else {
            self.let_go(connection.peer);
        }
        self.shared.tally.closed += 1;
    }

    fn let_go(&mut self, peer: SocketAddr) {
        let network = network_of(peer.ip());
        match self.held.get_mut(&network) {
            Some(held) if *held > 1 => *held -= 1,
            _ => drop(self.held.remove(&network)),
        }
    }

    /// Accepts what a round may accept. Accepting comes after the round's events, so that no event of a
    /// closed connection is taken for one of a connection that got its slot.
    fn accept(&mut self, service: &mut impl Service) {
        if self.acceptable {
            for _ in 0..ACCEPTS_PER_ROUND {
                if !self.accept_one(service) {
                    self.acceptable = false;
                    return;
                }
            }
        }
    }

    /// False if there is nothing more to accept for now.
    fn accept_one(&mut self, service: &mut impl Service) -> bool {
        let Some(listener) = &self.listener else { return false };
        match listener.accept() {
            Ok((socket, peer)) => {
                self.shared.tally.accepted += 1;
                if self.admit(socket, peer, service).is_err() {
                    self.shared.tally.closed += 1;
                }
                true
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => false,
            // The client gave up while it waited, or a signal came: the next one may be fine.
            Err(error) if matches!(error.kind(), ErrorKind::ConnectionAborted | ErrorKind::Interrupted) => {
                true
            }
            Err(error) => {
                // Out of descriptors or memory: at once again would spin, so the sweep tries again.
                tracing::warn!(%error, open = self.connections.len(), "a connection can't be accepted");
                self.accept_paused = true;
                false
            }
        }
    }

    /// Takes the connection in, or turns it away if there are too many. Error: it is lost.
    fn admit(
        &mut self,
        mut socket: TcpStream,
        peer: SocketAddr,
        service: &mut impl Service,
    ) -> io::Result<()> {
        // An answer is one write: there is nothing to wait for that could be sent with it.
        socket.set_nodelay(true)?;
        let limits = &self.shared.limits;
        rustix::net::sockopt::set_socket_send_buffer_size(&socket, limits.send_buffer_bytes)?;
        let network = network_of(peer.ip());
        let held = self.held.get(&network).copied().unwrap_or_default();
        let counted = if limits.trusted_proxies.trust(network) { 0 } else { held };
        let full = limits.are_reached(self.connections.len() - self.refused, counted);
        if full {
            self.shared.tally.refused_over_limit += 1;
            // A TLS client could read the answer only after a handshake, which is what there is no room for.
            if self.tls.is_some() || self.refused >= REFUSED_MAX {
                self.shared.tally.closed += 1;
                return Ok(());
            }
        }
        let entry = self.connections.vacant_entry();
        let index = entry.key();
        let interests = Interest::READABLE | Interest::WRITABLE;
        self.poll.registry().register(&mut socket, Token(index), interests)?;
        let transport = match &self.tls {
            None => Transport::Plain(socket),
            Some(config) => {
                let session = ServerConnection::new(Arc::clone(config)).map_err(io::Error::other)?;
                Transport::tls(socket, session)
            }
        };
        let connection = entry.insert(Connection::new(transport, peer, &self.shared));
        if full {
            self.refused += 1;
            connection.refuse_over_limit(&mut self.shared, service);
            self.drive(index, service);
        } else {
            self.held.insert(network, held + 1);
        }
        Ok(())
    }

    /// Ends the connections whose time is up, and tries again to accept after a failure.
    fn sweep(&mut self, service: &mut impl Service) {
        self.sweep_due_ms = self.shared.now_ms + millis(SWEEP_EVERY);
        self.acceptable |= std::mem::take(&mut self.accept_paused);
        let now_ms = self.shared.now_ms;
        let overdue =
            |(index, connection): (usize, &Connection)| connection.is_overdue(now_ms).then_some(index);
        let overdue: Vec<usize> = self.connections.iter().filter_map(overdue).collect();
        for index in overdue {
            let fate = self.connections[index].expire(slot(index), &mut self.shared, service);
            self.settle(index, fate);
        }
    }

    /// Takes in who is connected already, closes the listener and all idle connections.
    fn begin_drain(&mut self, service: &mut impl Service) {
        while self.accept_one(service) {}
        self.listener = None;
        self.shared.draining = true;
        self.drain_until_ms = self.shared.now_ms.saturating_add(millis(self.shared.limits.drain));
        let open: Vec<usize> = self.connections.iter().map(|(index, _)| index).collect();
        for index in open {
            // A request that arrived since the last event still counts: one look, then idle ones close.
            self.connections[index].look_again();
            self.drive(index, service);
        }
    }

    /// Closes everything, after one last try to send what is written.
    fn end(&mut self) {
        self.listener = None;
        for connection in self.connections.drain() {
            let mut connection = connection;
            connection.send_last(&mut self.shared);
            self.shared.tally.closed += 1;
        }
        self.refused = 0;
        self.held.clear();
        self.shared.tally.flush(&self.stats);
    }
}

/// The index of a connection as tickets carry it.
fn slot(index: usize) -> u32 {
    u32::try_from(index).expect("connections_max is checked to be far below 2^32")
}
