//! What a client gets for well-formed requests: reuse, order, versions, bodies, late answers.

use std::net::Shutdown;
use std::sync::atomic::Ordering;

use super::*;

#[test]
fn keep_alive() {
    let server = Server::start(relaxed());
    let mut client = server.connect();
    for turn in 0..5 {
        let response = client.ask(&format!("/echo?{turn}"));
        assert_eq!(response.status, 200);
        assert_eq!(response.body, format!("GET /echo {turn} "));
        assert!(response.has("X-Secure: false") && !response.head.contains("Connection"));
        assert!(response.head.contains("\r\nDate: "));
    }
    server.wait_until_open(1);
    client.send("GET /last HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n");
    assert!(client.response().has("Connection: close"));
    client.expect_end();
}

#[test]
fn http_1_0_keeps_alive_only_when_asked() {
    let server = Server::start(relaxed());
    let mut client = server.connect();
    for _ in 0..2 {
        client.send("GET / HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n");
        assert!(client.response().has("Connection: keep-alive"));
    }
    client.send("GET / HTTP/1.0\r\n\r\n");
    assert!(client.response().has("Connection: close"));
    client.expect_end();
}

#[test]
fn pipelined_answers_come_in_order() {
    let server = Server::start(relaxed());
    for pieces in [usize::MAX, 1000, 7, 1] {
        let mut client = server.connect();
        let paths: Vec<String> = (0..200)
            .map(|turn| format!("/{}?{turn}", if turn % 3 == 0 { "later" } else { "echo" }))
            .collect();
        let requests: String = paths
            .iter()
            .map(|path| format!("POST {path} HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\nabc"))
            .collect();
        for piece in requests.as_bytes().chunks(pieces.min(requests.len())) {
            client.send(piece);
        }
        for path in paths {
            assert_eq!(client.response().body, format!("POST {} abc", path.replace('?', " ")));
        }
    }
}

#[test]
fn pipelined_output_is_bounded_and_complete() {
    let server = Server::start(relaxed());
    let mut client = server.connect();
    // 20 MB of answers to a client that reads none of them until all requests are sent.
    for _ in 0..100 {
        client.get("/big?200000");
    }
    for _ in 0..100 {
        assert_eq!(client.response().body.len(), 200_000);
    }
    assert_eq!(client.ask("/echo").body, "GET /echo  ");
}

#[test]
fn a_large_answer_is_complete() {
    let server = Server::start(relaxed());
    let mut client = server.connect();
    assert_eq!(client.ask("/big?20000000").body.len(), 20_000_000);
    assert_eq!(client.ask("/echo").body, "GET /echo  ");
}

#[test]
fn head_has_no_body() {
    let server = Server::start(relaxed());
    let mut client = server.connect();
    client.send("HEAD /echo HTTP/1.1\r\nHost: h\r\n\r\n");
    assert!(client.response_head().has("Content-Length: 12"));
    client.send("HEAD /later HTTP/1.1\r\nHost: h\r\n\r\n");
    assert!(client.response_head().has("Content-Length: 13"));
    assert_eq!(client.ask("/echo").body, "GET /echo  ");
}

#[test]
fn bodies_by_length_and_in_chunks() {
    let server = Server::start(relaxed());
    let mut client = server.connect();
    let chunked = "POST /later HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n\
                   5\r\nhello\r\n6;x=y\r\n world\r\n0\r\nTrailer: t\r\n\r\n";
    for pieces in [1000, 3, 1] {
        for piece in chunked.as_bytes().chunks(pieces) {
            client.send(piece);
        }
        assert_eq!(client.response().body, "POST /later  hello world");
    }
    let body = "b".repeat(1000);
    client.send(format!("POST /echo HTTP/1.1\r\nHost: h\r\nContent-Length: 1000\r\n\r\n{body}"));
    assert_eq!(client.response().body, format!("POST /echo  {body}"));
}

#[test]
fn expect_100_continue() {
    let server = Server::start(relaxed());
    let mut client = server.connect();
    client.send("POST /a HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n");
    assert_eq!(client.response_head().status, 100);
    client.send("hi");
    assert_eq!(client.response().body, "POST /a  hi");
    client.send("POST /a HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 2000\r\n\r\n");
    assert_eq!(client.response().status, 413);
    client.expect_end();
}

#[test]
fn a_half_closed_client_gets_its_answers() {
    let server = Server::start(relaxed());
    for path in ["/echo", "/later"] {
        let mut client = server.connect();
        client.get(path);
        client.get(path);
        client.stream.shutdown(Shutdown::Write).unwrap();
        for _ in 0..2 {
            assert_eq!(client.response().body, format!("GET {path}  "));
        }
        client.expect_end();
    }
    let mut client = server.connect();
    client.get("/hold");
    server.wait_until_held(1);
    client.stream.shutdown(Shutdown::Write).unwrap();
    server.release("late");
    assert_eq!(client.response().body, "late");
    client.expect_end();
    server.wait_until_open(0);
}

#[test]
fn late_answers_find_their_connections() {
    let server = Server::start(relaxed());
    let mut clients: Vec<_> = (0..50).map(|_| server.connect()).collect();
    for turn in 0..20 {
        for (number, client) in clients.iter_mut().enumerate() {
            client.get(&format!("/later?{turn}-{number}"));
        }
        for (number, client) in clients.iter_mut().enumerate() {
            assert_eq!(client.response().body, format!("GET /later {turn}-{number} "));
        }
    }
    drop(clients);
    server.wait_until_open(0);
    assert_eq!(server.stats.requests.load(Ordering::Relaxed), 1000);
}

#[test]
fn a_stale_ticket_is_ignored() {
    let server = Server::start(relaxed());
    let mut client = server.connect();
    client.get("/echo");
    client.get("/hold");
    server.wait_until_held(1);
    // Closing with an answer unread resets the connection, which the server sees at once.
    client.stream.peek(&mut [0]).unwrap();
    drop(client);
    server.wait_until_open(0);

    // The slot of the lost connection is taken by another one that waits, too.
    let mut other = server.connect();
    other.get("/hold?other");
    server.wait_until_held(2);
    let [stale, waiting] = server.held.tickets.lock().unwrap()[..] else { panic!("two are held") };
    assert_eq!(stale.connection, waiting.connection);
    server.held.tickets.lock().unwrap().push(waiting);
    server.release("late");
    assert_eq!(other.response().body, "late");
    wait_until("both wrong tickets are counted", || server.held.stale.load(Ordering::SeqCst) == 2);
    assert_eq!(other.ask("/echo").body, "GET /echo  ");
}
