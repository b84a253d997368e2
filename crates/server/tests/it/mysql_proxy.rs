//! A TCP proxy before a MySQL server that cuts a connection around its COMMIT, or another request.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

/// What happens to the next COMMIT that passes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cut {
    /// It never reaches the server, whose connection ends.
    BeforeServer,
    /// The server has answered, the client does not get it, and both connections end.
    BeforeAnswer,
    /// The server has answered; the client hears nothing, and the connections stay open.
    Silence,
    /// It never reaches the server, and both connections stay open: the transaction is left in the air.
    InTheAir,
}

#[derive(Debug)]
pub(crate) struct Proxy {
    pub(crate) port: u16,
    state: Arc<State>,
}

#[derive(Debug)]
struct State {
    server: Mutex<String>,
    /// With the word that names the request.
    next: Mutex<Option<(Cut, Vec<u8>)>>,
    /// Requests that were cut.
    cuts: AtomicU32,
    /// New connections are closed at once.
    closed: AtomicBool,
    /// After a cut nothing is let in any more.
    close_after_cut: AtomicBool,
}

/// A COMMIT, alone or among other statements of a packet.
const COMMIT: &[u8] = b"COMMIT";
/// Of the latest bytes so many are kept to look for a word in.
const WORD_BYTES_MAX: usize = COMMIT.len() - 1;

impl Proxy {
    pub(crate) fn before(server: String) -> Proxy {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let state = Arc::new(State {
            server: Mutex::new(server),
            next: Mutex::new(None),
            cuts: AtomicU32::new(0),
            closed: AtomicBool::new(false),
            close_after_cut: AtomicBool::new(false),
        });
        let accepting = Arc::clone(&state);
        // It ends with the test's process; nobody connects to it after the test.
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                if !accepting.closed.load(Ordering::SeqCst) {
                    let server = accepting.server.lock().unwrap().clone();
                    let Ok(server) = TcpStream::connect(server) else { continue };
                    server.set_nodelay(true).unwrap();
                    client.set_nodelay(true).unwrap();
                    join(client, server, &accepting);
                }
            }
        });
        Proxy { port, state }
    }

    /// New connections lead to this server.
    pub(crate) fn lead_to(&self, server: String) {
        *self.state.server.lock().unwrap() = server;
    }

    /// Cuts the next COMMIT; `then_closed`: and lets no connection in until [`Proxy::open`].
    pub(crate) fn cut_next(&self, cut: Cut, then_closed: bool) {
        self.state.close_after_cut.store(then_closed, Ordering::SeqCst);
        *self.state.next.lock().unwrap() = Some((cut, COMMIT.to_vec()));
    }

    /// Cuts the next request that has this in it.
    pub(crate) fn cut_next_of(&self, word: &str, cut: Cut) {
        self.state.close_after_cut.store(false, Ordering::SeqCst);
        *self.state.next.lock().unwrap() = Some((cut, word.as_bytes().to_vec()));
    }

    pub(crate) fn cuts(&self) -> u32 {
        self.state.cuts.load(Ordering::SeqCst)
    }

    pub(crate) fn open(&self) {
        self.state.closed.store(false, Ordering::SeqCst);
    }
}

fn has(bytes: &[u8], word: &[u8]) -> bool {
    bytes.windows(word.len()).any(|bytes| bytes == word)
}

fn join(client: TcpStream, server: TcpStream, state: &Arc<State>) {
    // The answers of this connection are swallowed from now on.
    let silent = Arc::new(Mutex::new(None::<Cut>));
    let (from_server, to_client) = (server.try_clone().unwrap(), client.try_clone().unwrap());
    let swallow = Arc::clone(&silent);
    thread::spawn(move || pass_answers(from_server, to_client, &swallow));
    let state = Arc::clone(state);
    thread::spawn(move || pass_requests(client, server, &silent, &state));
}

fn pass_requests(mut client: TcpStream, mut server: TcpStream, silent: &Mutex<Option<Cut>>, state: &State) {
    let mut buffer = [0; 65_536];
    // The word may come in two pieces.
    let mut latest = Vec::new();
    while let Ok(read @ 1..) = client.read(&mut buffer) {
        let request = &buffer[..read];
        latest.extend_from_slice(request);
        let cut = state.next.lock().unwrap().take_if(|(_, word)| has(&latest, word)).map(|(cut, _)| cut);
        latest.drain(..latest.len().saturating_sub(WORD_BYTES_MAX));
        if let Some(cut) = cut {
            state.closed.store(state.close_after_cut.load(Ordering::SeqCst), Ordering::SeqCst);
            *silent.lock().unwrap() = Some(cut);
            state.cuts.fetch_add(1, Ordering::SeqCst);
            match cut {
                Cut::BeforeServer => break,
                Cut::InTheAir => continue,
                Cut::BeforeAnswer | Cut::Silence => {}
            }
        }
        if server.write_all(request).is_err() {
            break;
        }
    }
    let held = matches!(*silent.lock().unwrap(), Some(Cut::Silence | Cut::InTheAir));
    if !held {
        server.shutdown(Shutdown::Both).ok();
    } else {
        // The server is to learn of the client's end no sooner than a router's silence would show it.
        std::mem::forget(server);
    }
    client.shutdown(Shutdown::Both).ok();
}

fn pass_answers(mut server: TcpStream, mut client: TcpStream, silent: &Mutex<Option<Cut>>) {
    let mut buffer = [0; 65_536];
    while let Ok(read @ 1..) = server.read(&mut buffer) {
        match *silent.lock().unwrap() {
            Some(Cut::BeforeAnswer) => break,
            Some(_) => continue,
            None => {}
        }
        if client.write_all(&buffer[..read]).is_err() {
            break;
        }
    }
    let held = matches!(*silent.lock().unwrap(), Some(Cut::Silence | Cut::InTheAir));
    if !held {
        client.shutdown(Shutdown::Both).ok();
        server.shutdown(Shutdown::Both).ok();
    }
}
