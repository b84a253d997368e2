//! A server that accepts, may say something first, and answers each request as it was set up.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// How long a request is, from its first four bytes, those included.
pub(crate) type Length = fn([u8; 4]) -> usize;
/// What is said to a request; after the last word the connection is closed.
#[derive(Debug, Clone)]
pub(crate) enum Reply {
    Word(Vec<u8>),
    LastWord(Vec<u8>),
    HangUp,
}

/// The answer to the request of this number, counted from 0 over all connections.
type Answer = dyn Fn(usize, &[u8]) -> Reply + Send + Sync;

/// Ends with the process; its connections end with their clients.
pub(crate) fn start(
    hello: Vec<u8>,
    length: Length,
    answer: impl Fn(usize, &[u8]) -> Reply + Send + Sync + 'static,
) -> SocketAddr {
    let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a free port");
    let address = listener.local_addr().expect("it is bound");
    let (answer, requests): (Arc<Answer>, _) = (Arc::new(answer), Arc::new(AtomicUsize::new(0)));
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            // At once: it may arrive before the client looks again.
            let (answer, requests) = (answer.clone(), requests.clone());
            if stream.write_all(&hello).is_ok() {
                std::thread::spawn(move || serve(stream, length, &*answer, &requests));
            }
        }
    });
    address
}

fn serve(mut stream: TcpStream, length: Length, answer: &Answer, requests: &AtomicUsize) -> Option<()> {
    stream.set_nodelay(true).ok()?;
    loop {
        let mut head = [0; 4];
        stream.read_exact(&mut head).ok()?;
        let mut request = head.to_vec();
        request.resize(length(head), 0);
        stream.read_exact(&mut request[4..]).ok()?;
        let number = requests.fetch_add(1, Ordering::SeqCst);
        match answer(number, &request) {
            Reply::Word(bytes) => stream.write_all(&bytes).ok()?,
            Reply::LastWord(bytes) => return stream.write_all(&bytes).ok(),
            Reply::HangUp => return None,
        }
    }
}
