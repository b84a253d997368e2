//! Draining and aborting: whoever sent a request gets an answer, and the loop ends.

use std::sync::atomic::Ordering::Relaxed;

use super::*;

const IDLE_BYTES: u64 = "GET /echo HTTP/1.1\r\nHost: h\r\n\r\n".len() as u64;
const PARTIAL_BYTES: u64 = "POST /partly HTTP/1.1\r\nHost: h\r\nContent-Length: 4\r\n\r\nha".len() as u64;

#[test]
fn draining_answers_what_was_received_and_closes_the_rest() {
    let mut server = Server::start(relaxed());
    let mut fresh = server.connect();
    let mut idle = server.connect();
    assert_eq!(idle.ask("/echo").status, 200);
    let mut partial = server.connect();
    partial.send("POST /partly HTTP/1.1\r\nHost: h\r\nContent-Length: 4\r\n\r\nha");
    let received = || server.stats.bytes_in.load(Relaxed);
    wait_until("the beginning is received", || received() == IDLE_BYTES + PARTIAL_BYTES);
    let mut waiting = server.connect();
    waiting.get("/hold");
    // Complete requests wait behind the one that is held.
    waiting.send("GET /2 HTTP/1.1\r\nHost: h\r\n\r\nGET /3 HTTP/1.1\r\nHost: h\r\n\r\n");
    server.wait_until_held(1);
    server.wait_until_open(4);

    server.stop.request();
    fresh.expect_end();
    idle.expect_end();
    assert!(TcpStream::connect(server.address).is_err(), "the listener is closed");

    partial.send("lf");
    let response = partial.response();
    assert_eq!(response.body, "POST /partly  half");
    assert!(response.has("Connection: close"));
    partial.expect_end();

    server.release("late");
    assert_eq!(waiting.response().body, "late");
    assert_eq!(waiting.response().body, "GET /2  ");
    let last = waiting.response();
    assert_eq!(last.body, "GET /3  ");
    assert!(last.has("Connection: close"));
    waiting.expect_end();
    server.join();
    assert_eq!(server.stats.open(), 0);
}

#[test]
fn draining_loses_no_request_of_busy_clients() {
    let mut server = Server::start(relaxed());
    let address = server.address;
    let clients: Vec<_> = (0..8)
        .map(|number| {
            let mut client = server.connect();
            std::thread::spawn(move || {
                let path = if number % 2 == 0 { "/later" } else { "/echo" };
                let mut answered = 0_u64;
                // Until the server says that it closes; an end instead of an answer may only come before
                // the server has read anything of the request.
                loop {
                    let request = format!("GET {path} HTTP/1.1\r\nHost: h\r\n\r\n");
                    if client.stream.write_all(request.as_bytes()).is_err() {
                        return answered;
                    }
                    let Some(response) = client.response_or_end() else { return answered };
                    assert_eq!(response.status, 200);
                    answered += 1;
                    if response.has("Connection: close") {
                        client.expect_end();
                        return answered;
                    }
                }
            })
        })
        .collect();
    wait_until("they are busy", || server.stats.requests.load(Relaxed) > 500);
    server.stop.request();
    let answered: u64 = clients.into_iter().map(|client| client.join().unwrap()).sum();
    server.join();
    assert_eq!(answered, server.stats.requests.load(Relaxed), "every request handed out was answered");
    assert!(TcpStream::connect(address).is_err());
}

#[test]
fn the_drain_is_bounded() {
    let mut server = Server::start(Limits { drain: Duration::from_millis(300), ..relaxed() });
    let mut waiting = server.connect();
    waiting.get("/hold");
    server.wait_until_held(1);
    server.stop.request();
    server.join();
    waiting.expect_end();
}

#[test]
fn an_idle_loop_stops_at_once() {
    let mut server = Server::start(relaxed());
    server.stop.request();
    server.join();
    let mut server = Server::start(relaxed());
    server.stop.abort();
    server.join();
}

#[test]
fn abort_sends_the_answers_that_are_ready() {
    let mut server = Server::start(relaxed());
    let mut answered = server.connect();
    answered.get("/hold");
    server.wait_until_held(1);
    // As the book writer does when the ledger failed: hand over the last answers, then abort.
    let ticket = server.held.tickets.lock().unwrap().pop().unwrap();
    let mut lost = server.connect();
    lost.get("/hold");
    server.wait_until_held(1);
    server.held.ready.lock().unwrap().push((ticket, "unknown".to_owned()));
    server.stop.abort();
    assert_eq!(answered.response().body, "unknown");
    answered.expect_end();
    lost.expect_end();
    server.join();
}

#[test]
fn loops_share_a_listener_and_a_stop() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let (stop, stats) = (Stop::new(), Arc::new(NetStats::default()));
    let threads: Vec<_> = (0..3)
        .map(|_| {
            let mut event_loop = EventLoop::new(listener.try_clone().unwrap(), relaxed(), None)
                .unwrap()
                .with_stats(Arc::clone(&stats));
            let (later, _) = sync_channel(1);
            let mut echo = Echo { held: Arc::default(), later, answers: 0 };
            let stop = stop.clone();
            std::thread::spawn(move || event_loop.run(&mut echo, &stop))
        })
        .collect();
    drop(listener);
    for _ in 0..100 {
        let mut client = Client { stream: TcpStream::connect(address).unwrap(), read: Vec::new() };
        assert_eq!(client.ask("/echo").status, 200);
    }
    stop.request();
    for thread in threads {
        thread.join().unwrap().unwrap();
    }
    assert_eq!((stats.accepted.load(Relaxed), stats.open()), (100, 0));
}
