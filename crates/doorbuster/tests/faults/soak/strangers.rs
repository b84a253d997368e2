//! Who does not buy: readers of pages and lists, and clients that send what no server wants to get.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::load::Random;

const PAUSE: Duration = Duration::from_millis(100);
const PATIENCE: Duration = Duration::from_secs(2);
/// Connections that are open and of no use at a time.
const IDLE_MAX: usize = 64;
const READ_MAX: u64 = 1 << 20;

#[derive(Debug)]
pub(super) struct Strangers {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Strangers {
    pub(super) fn start(servers: Vec<SocketAddr>, seed: u64) -> Strangers {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread = std::thread::spawn(move || {
            let (mut random, mut idle) = (Random(seed), Vec::new());
            while !stopped.load(Ordering::Relaxed) {
                let server = servers[usize::try_from(random.below(servers.len() as u64)).unwrap()];
                // Whatever comes of it: a server that is away or closes the connection is none of their business.
                idle.extend(visit(server, &mut random).ok().flatten());
                if idle.len() > IDLE_MAX {
                    idle.clear();
                }
                std::thread::sleep(PAUSE);
            }
        });
        Strangers { stop, thread: Some(thread) }
    }

    pub(super) fn stop(mut self) {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.take().unwrap().join().unwrap();
    }
}

impl Drop for Strangers {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

/// A connection that is kept and not used any more, or none.
fn visit(server: SocketAddr, random: &mut Random) -> std::io::Result<Option<TcpStream>> {
    let mut stream = TcpStream::connect_timeout(&server, PATIENCE)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let pages = ["/", "/api/v1/sales", "/metrics", "/readyz", "/openapi.json", "/no-such-page"];
    let page = pages[usize::try_from(random.below(pages.len() as u64)).unwrap()];
    let get = format!("GET {page} HTTP/1.1\r\nHost: localhost\r\n\r\n");
    match random.below(6) {
        // Many requests, and nobody who reads the answers.
        0 => stream.write_all(get.repeat(20).as_bytes())?,
        // Half a request.
        1 => stream.write_all(&get.as_bytes()[..get.len() / 2])?,
        2 => {
            let noise: Vec<u8> = (0..512).map(|_| u8::try_from(random.below(256)).unwrap()).collect();
            stream.write_all(&noise)?;
        }
        3 => {
            let order = "POST /api/v1/sales HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer of-nobody\r\n\
                Content-Length: 2\r\n\r\n{}";
            stream.write_all(order.as_bytes())?;
            return Ok(None);
        }
        _ => {
            stream.write_all(get.replace("\r\n\r\n", "\r\nConnection: close\r\n\r\n").as_bytes())?;
            std::io::copy(&mut (&stream).take(READ_MAX), &mut std::io::sink())?;
            return Ok(None);
        }
    }
    Ok(Some(stream))
}
