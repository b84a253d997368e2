//! A whole server whose threads fail: it ends with an error, and never hangs with half of itself.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::mpsc::{SyncSender, sync_channel};

use engine::UnixMs;

use super::*;
use crate::config::{Demo, Environment, Sources};

/// Longer than anything here takes; only a failing test waits for it.
const PATIENCE: std::time::Duration = std::time::Duration::from_secs(20);
/// More than the address space: no thread has such a stack.
const STACK_BYTES: usize = 1 << 48;

fn builder(name: String) -> thread::Builder {
    thread::Builder::new().name(name)
}

fn is_on(name: &str) -> bool {
    thread::current().name() == Some(name)
}

/// Runs a demo until it ends; `then` gets the address once it serves.
fn run_demo(system: System, then: impl FnOnce(SocketAddr) + Send) -> Result<(), ServeError> {
    let data_dir = tempfile::tempdir().unwrap();
    let config = Sources::default()
        .argument("ledger.data_dir", data_dir.path().join("data").to_str().unwrap(), "--data-dir")
        .demo(Demo { starts_in: std::time::Duration::ZERO, public: false })
        .load()
        .unwrap();
    let secrets = Secrets::load(&config, &Environment::default()).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let (ended, end): (SyncSender<_>, _) = sync_channel(1);
    thread::scope(|scope| {
        let (ready, serving) = sync_channel(1);
        scope.spawn(move || {
            let served =
                run_on(system, &config, &secrets, listener.into(), &Stop::new(), |_| ready.send(()).unwrap());
            ended.send(served).unwrap();
        });
        // An error: it ended before it served.
        if serving.recv().is_ok() {
            then(address);
        }
        end.recv_timeout(PATIENCE).expect("the server ends by itself")
    })
}

#[test]
fn a_server_whose_thread_can_not_be_started_ends() {
    fn no_loop(name: String) -> thread::Builder {
        if name == "http-0" { builder(name).stack_size(STACK_BYTES) } else { builder(name) }
    }
    fn no_writer(name: String) -> thread::Builder {
        if name == "book-writer" { builder(name).stack_size(STACK_BYTES) } else { builder(name) }
    }
    for thread in [no_loop, no_writer] {
        let ended = run_demo(System { wall: wall_clock, thread }, |_| panic!("it served"));
        assert!(matches!(ended, Err(ServeError::Thread(_))), "{ended:?}");
    }
}

#[test]
fn a_panic_of_the_writer_ends_the_server() {
    fn wall() -> UnixMs {
        assert!(!is_on("book-writer"), "the test's panic of the writer");
        wall_clock()
    }
    let ended = run_demo(System { wall, thread: builder }, |_| ());
    assert!(matches!(ended, Err(ServeError::ProfilePanicked)), "{ended:?}");
}

#[test]
fn a_panic_of_an_event_loop_ends_the_server() {
    fn wall() -> UnixMs {
        assert!(!is_on("http-0"), "the test's panic of an event loop");
        wall_clock()
    }
    let ended = run_demo(System { wall, thread: builder }, |address| {
        let mut client = TcpStream::connect(address).unwrap();
        client.set_read_timeout(Some(PATIENCE)).unwrap();
        client.write_all(b"GET /metrics HTTP/1.1\r\nHost: h\r\n\r\n").unwrap();
        let mut answer = Vec::new();
        client.read_to_end(&mut answer).unwrap_or_default();
        assert_eq!(answer, b"");
    });
    assert!(matches!(ended, Err(ServeError::EventLoop(_))), "{ended:?}");
}
