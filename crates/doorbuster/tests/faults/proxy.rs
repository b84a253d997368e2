//! The network between the servers and one engine: a TCP proxy that can fall silent, break, and lose answers, for
//! all servers or for one of them.
//!
//! Redis (single) and MariaDB are reached at the address that the configuration names, so that names the proxy.
//! RocketMQ's name server and a Redis Cluster send their clients on: they are set up (`dev/up`) to advertise
//! 127.0.0.2 while they listen on 127.0.0.1, so the proxy listens on the same port of 127.0.0.2. No name space and
//! no right of root is needed for it. Which server speaks is known from the owner of the client's socket.

use std::collections::{HashMap, HashSet};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, SocketAddrV4, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

/// The address that such engines advertise.
pub(crate) const ADVERTISED_HOST: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);
const CONNECT_WITHIN: Duration = Duration::from_secs(2);
const HELD_BACK_WITHIN: Duration = Duration::from_secs(10);
const CHUNK_BYTES: usize = 16 * 1024;

/// What happens to bytes on their way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    Pass,
    /// Nothing arrives, nothing breaks, as if a cable were pulled. What was sent meanwhile arrives afterwards.
    Silent,
    /// Connections are broken and new ones too; what was on its way is lost.
    Cut,
    /// What is sent arrives so much later: the way to another town and back.
    Late(Duration),
    /// Requests arrive, answers do not.
    MuteAnswers,
    /// The answer to each request that has these bytes in it is lost, and its connection with it.
    LoseAnswerTo(&'static [u8]),
}

#[derive(Debug)]
pub(crate) struct Proxy {
    pub(crate) address: SocketAddr,
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    target: SocketAddr,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug)]
struct State {
    /// For servers without a mode of their own.
    mode: Mode,
    by_pid: HashMap<u32, Mode>,
    links: HashMap<u64, Link>,
    next_link: u64,
    answers_lost: u64,
    /// Pieces of requests that a silence has held back.
    held_back: u64,
}

/// One connection through the proxy.
#[derive(Debug)]
struct Link {
    /// The client's end and ours.
    of: Option<(SocketAddr, SocketAddr)>,
    /// The client, if it has, or had, a mode of its own.
    owner: Option<u32>,
    ends: Vec<TcpStream>,
}

impl Proxy {
    /// A proxy on a port of the system's choice.
    pub(crate) fn to(target: SocketAddr) -> Proxy {
        Proxy::start(SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0).into(), target)
    }

    /// A proxy for an engine that advertises [`ADVERTISED_HOST`] and its own port.
    pub(crate) fn advertised(target: SocketAddr) -> Proxy {
        Proxy::start(SocketAddrV4::new(ADVERTISED_HOST, target.port()).into(), target)
    }

    fn start(listen: SocketAddr, target: SocketAddr) -> Proxy {
        let listener = TcpListener::bind(listen).unwrap_or_else(|error| panic!("{listen}: {error}"));
        let address = listener.local_addr().unwrap();
        let state = State {
            mode: Mode::Pass,
            by_pid: HashMap::new(),
            links: HashMap::new(),
            next_link: 0,
            answers_lost: 0,
            held_back: 0,
        };
        let shared = Arc::new(Shared { target, state: Mutex::new(state), changed: Condvar::new() });
        let accepting = Arc::clone(&shared);
        std::thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let shared = Arc::clone(&accepting);
                std::thread::spawn(move || shared.carry(client));
            }
        });
        Proxy { address, shared }
    }

    /// From now on, for every server.
    pub(crate) fn set(&self, mode: Mode) {
        self.shared.change(|state| {
            state.by_pid.clear();
            state.mode = mode;
        });
    }

    /// From now on, for one server.
    pub(crate) fn set_for(&self, pid: u32, mode: Mode) {
        self.shared.change(|state| {
            state.by_pid.insert(pid, mode);
            let (table, sockets) = (connections(), sockets_of(pid));
            for link in state.links.values_mut() {
                if link.of.and_then(|of| socket_in(&table, of)).is_some_and(|of| sockets.contains(&of)) {
                    link.owner = Some(pid);
                }
            }
        });
    }

    /// Waits until a request of somebody is held back by a silence.
    pub(crate) fn wait_until_held_back(&self) {
        let state = self.shared.lock();
        let before = state.held_back;
        let (state, timeout) = self
            .shared
            .changed
            .wait_timeout_while(state, HELD_BACK_WITHIN, |state| state.held_back == before)
            .unwrap_or_else(PoisonError::into_inner);
        drop(state);
        assert!(!timeout.timed_out(), "nothing was sent within {HELD_BACK_WITHIN:?}");
    }

    /// How many answers [`Mode::LoseAnswerTo`] has lost so far.
    pub(crate) fn answers_lost(&self) -> u64 {
        self.shared.lock().answers_lost
    }
}

impl Shared {
    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change(&self, change: impl FnOnce(&mut State)) {
        let mut state = self.lock();
        change(&mut state);
        let cut: Vec<u64> =
            state.links.keys().copied().filter(|id| *state.mode_of(*id) == Mode::Cut).collect();
        for id in cut {
            state.links.remove(&id);
        }
        self.changed.notify_all();
    }

    /// Carries one connection until an end of it closes, or the proxy breaks it.
    fn carry(&self, client: TcpStream) {
        let Some(id) = self.register(&client) else { return };
        self.carry_as(id, client);
        self.lock().links.remove(&id);
    }

    fn carry_as(&self, id: u64, client: TcpStream) {
        if self.wait_while_silent(id).is_none() {
            return;
        }
        let Ok(server) = TcpStream::connect_timeout(&self.target, CONNECT_WITHIN) else { return };
        // Without it small packets wait for each other, and the proxy would be what is measured.
        if client.set_nodelay(true).and_then(|()| server.set_nodelay(true)).is_err() {
            return;
        }
        let clones = (client.try_clone(), server.try_clone(), server.try_clone());
        let (Ok(from_client), Ok(to_server), Ok(to_cut)) = clones else { return };
        match self.lock().links.get_mut(&id) {
            Some(link) => link.ends.push(to_cut),
            None => return,
        }
        let losing = Mutex::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                self.copy(id, from_client, to_server, |mode, chunk| {
                    if let Mode::LoseAnswerTo(needle) = mode
                        && chunk.windows(needle.len()).any(|window| window == *needle)
                    {
                        *losing.lock().unwrap_or_else(PoisonError::into_inner) = true;
                    }
                    if let Mode::Late(by) = mode {
                        std::thread::sleep(*by);
                    }
                    Fate::Arrives
                });
            });
            self.copy(id, server, client, |mode, _| {
                if *losing.lock().unwrap_or_else(PoisonError::into_inner) {
                    self.lock().answers_lost += 1;
                    return Fate::Breaks;
                }
                if *mode == Mode::MuteAnswers { Fate::Vanishes } else { Fate::Arrives }
            });
        });
    }

    /// Remembers a connection, so that it can be silenced and cut; `None`: it is cut already.
    fn register(&self, client: &TcpStream) -> Option<u64> {
        let of = client.peer_addr().ok().zip(client.local_addr().ok());
        let end = client.try_clone().ok()?;
        let mut state = self.lock();
        // All connections of the machine are read for it.
        let socket = of.filter(|_| !state.by_pid.is_empty()).and_then(|of| socket_in(&connections(), of));
        let owns = |pid: &u32| socket.as_ref().is_some_and(|socket| sockets_of(*pid).contains(socket));
        let owner = state.by_pid.keys().copied().find(owns);
        let id = state.next_link;
        state.next_link += 1;
        state.links.insert(id, Link { of, owner, ends: vec![end] });
        if *state.mode_of(id) == Mode::Cut {
            state.links.remove(&id);
            return None;
        }
        Some(id)
    }

    /// The mode as soon as it is not silent; `None` if the link is cut, or was in between.
    fn wait_while_silent(&self, id: u64) -> Option<Mode> {
        let mut state = self.lock();
        if *state.mode_of(id) == Mode::Silent {
            state.held_back += 1;
            self.changed.notify_all();
        }
        let state = self
            .changed
            .wait_while(state, |state| *state.mode_of(id) == Mode::Silent)
            .unwrap_or_else(PoisonError::into_inner);
        Some(state.mode_of(id).clone()).filter(|mode| *mode != Mode::Cut)
    }

    /// Copies one direction; ends both when it ends.
    fn copy(
        &self,
        id: u64,
        mut from: TcpStream,
        mut to: TcpStream,
        mut fate: impl FnMut(&Mode, &[u8]) -> Fate,
    ) {
        let mut chunk = [0; CHUNK_BYTES];
        while let Ok(read @ 1..) = from.read(&mut chunk) {
            let Some(mode) = self.wait_while_silent(id) else { break };
            match fate(&mode, &chunk[..read]) {
                Fate::Arrives => {
                    if to.write_all(&chunk[..read]).is_err() {
                        break;
                    }
                }
                Fate::Vanishes => {}
                Fate::Breaks => break,
            }
        }
        // Closed already is as good.
        drop(from.shutdown(Shutdown::Both));
        drop(to.shutdown(Shutdown::Both));
    }
}

#[derive(Clone, Copy, Debug)]
enum Fate {
    Arrives,
    Vanishes,
    Breaks,
}

impl State {
    /// A link that was cut stays so.
    fn mode_of(&self, id: u64) -> &Mode {
        let Some(link) = self.links.get(&id) else { return &Mode::Cut };
        link.owner.and_then(|pid| self.by_pid.get(&pid)).unwrap_or(&self.mode)
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        for end in &self.ends {
            drop(end.shutdown(Shutdown::Both));
        }
    }
}

/// As the system lists them.
fn connections() -> String {
    std::fs::read_to_string("/proc/net/tcp").unwrap_or_default()
}

/// The socket of a connection's client, as it is called among its process's descriptors.
///
/// Both ends count: one local port can serve connections to many places, those of the past (inode 0) among them.
fn socket_in(table: &str, (from, to): (SocketAddr, SocketAddr)) -> Option<String> {
    let ends = [proc_address(from)?, proc_address(to)?];
    let line = table.lines().find(|line| line.split_whitespace().skip(1).take(2).eq(&ends))?;
    Some(format!("socket:[{}]", line.split_whitespace().nth(9)?))
}

/// An address as `/proc/net/tcp` writes it.
fn proc_address(address: SocketAddr) -> Option<String> {
    let SocketAddr::V4(address) = address else { return None };
    Some(format!("{:08X}:{:04X}", u32::from_le_bytes(address.ip().octets()), address.port()))
}

/// The sockets that a process has open.
fn sockets_of(pid: u32) -> HashSet<String> {
    let descriptors = std::fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
    descriptors
        .filter_map(|entry| std::fs::read_link(entry.path()).ok()?.into_os_string().into_string().ok())
        .filter(|link| link.starts_with("socket:"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Answers each byte with the next letter.
    fn echo() -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        std::thread::spawn(move || {
            for mut stream in listener.incoming().flatten() {
                std::thread::spawn(move || {
                    let mut byte = [0];
                    while stream.read_exact(&mut byte).is_ok() && stream.write_all(&[byte[0] + 1]).is_ok() {}
                });
            }
        });
        address
    }

    fn client(proxy: &Proxy) -> TcpStream {
        let stream = TcpStream::connect(proxy.address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        stream
    }

    /// An answer that must not come.
    fn ask_in_vain(stream: &mut TcpStream, byte: u8) {
        stream.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
        assert_eq!(ask(stream, byte).unwrap_err().kind(), std::io::ErrorKind::WouldBlock);
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    }

    fn ask(stream: &mut TcpStream, byte: u8) -> std::io::Result<u8> {
        stream.write_all(&[byte])?;
        let mut answer = [0];
        stream.read_exact(&mut answer)?;
        Ok(answer[0])
    }

    #[test]
    fn a_silent_network_breaks_nothing_and_delivers_late() {
        let proxy = Proxy::to(echo());
        let mut stream = client(&proxy);
        assert_eq!(ask(&mut stream, b'a').unwrap(), b'b');
        proxy.set(Mode::Silent);
        ask_in_vain(&mut stream, b'c');
        proxy.set(Mode::Pass);
        let mut late = [0];
        stream.read_exact(&mut late).unwrap();
        assert_eq!(late[0], b'd');
    }

    #[test]
    fn a_cut_breaks_what_was_on_its_way_and_new_connections() {
        let proxy = Proxy::to(echo());
        let mut stream = client(&proxy);
        assert_eq!(ask(&mut stream, b'a').unwrap(), b'b');
        proxy.set_for(std::process::id(), Mode::Silent);
        ask_in_vain(&mut stream, b'c');
        proxy.set_for(std::process::id(), Mode::Cut);
        assert_ne!(ask(&mut stream, b'e').unwrap_err().kind(), std::io::ErrorKind::WouldBlock);
        ask(&mut client(&proxy), b'a').unwrap_err();
        proxy.set_for(1, Mode::Cut);
        proxy.set_for(std::process::id(), Mode::Pass);
        assert_eq!(ask(&mut client(&proxy), b'x').unwrap(), b'y');
    }

    #[test]
    fn a_socket_is_known_by_both_ends() {
        let table = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:C350 0100007F:0CEA 06 00000000:00000000 03:00000A21 00000000     0        0 0 3 0000000000000000
   1: 0100007F:C350 0100007F:1F90 01 00000000:00000000 00:00000000 00000000     0        0 4711 1 0000000000000000 20 4 30 10 -1
";
        let from = "127.0.0.1:50000".parse().unwrap();
        let socket = socket_in(table, (from, "127.0.0.1:8080".parse().unwrap()));
        assert_eq!(socket.as_deref(), Some("socket:[4711]"));
        assert_eq!(socket_in(table, (from, "127.0.0.1:9".parse().unwrap())), None);
    }

    #[test]
    fn the_answer_to_one_request_is_lost_with_its_connection() {
        let proxy = Proxy::to(echo());
        proxy.set(Mode::LoseAnswerTo(b"k"));
        let mut stream = client(&proxy);
        assert_eq!(ask(&mut stream, b'a').unwrap(), b'b');
        assert_ne!(ask(&mut stream, b'k').unwrap_err().kind(), std::io::ErrorKind::WouldBlock);
        assert_eq!(proxy.answers_lost(), 1);
        proxy.set(Mode::MuteAnswers);
        ask_in_vain(&mut client(&proxy), b'a');
    }
}
