//! Bounds: timeouts, the number of connections, sizes, and that an error is seen by its client.

use std::sync::atomic::Ordering::Relaxed;

use super::*;

/// Waited for. It is also the time that a client has between its connection and its request, which must be enough on a
/// machine so busy that the client gets no processor for a while.
const SHORT: Duration = Duration::from_secs(2);

#[test]
fn a_slow_request_is_answered_408() {
    let server = Server::start(Limits { request_timeout: SHORT, ..relaxed() });
    for start in ["G", "GET / HTTP/1.1\r\nHo", "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nab"] {
        let mut client = server.connect();
        client.send(start);
        let response = client.response();
        assert_eq!(response.status, 408);
        assert!(response.has("Connection: close"));
        client.expect_end();
    }
    server.wait_until_open(0);
    assert_eq!(server.stats.timeouts.load(Relaxed), 3);
}

#[test]
fn bytes_that_trickle_in_do_not_extend_the_time() {
    let server = Server::start(Limits { request_timeout: SHORT, ..relaxed() });
    let mut client = server.connect();
    client.stream.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
    let start = Instant::now();
    // One byte per 20 ms: each of them well within the time, all of them never.
    while !client.read.starts_with(b"HTTP/1.1 408") {
        assert!(start.elapsed() < PATIENCE);
        let sent = client.stream.write(b"G");
        assert!(sent.is_ok() || !client.read.is_empty(), "closed without an answer");
        let mut buffer = [0; 4096];
        if let Ok(bytes) = client.stream.read(&mut buffer) {
            client.read.extend_from_slice(&buffer[..bytes]);
        }
    }
}

#[test]
fn an_idle_connection_is_closed() {
    let server = Server::start(Limits { idle_timeout: SHORT, ..relaxed() });
    let mut fresh = server.connect();
    let mut used = server.connect();
    assert_eq!(used.ask("/echo").status, 200);
    fresh.expect_end();
    used.expect_end();
    server.wait_until_open(0);
    assert_eq!(server.stats.timeouts.load(Relaxed), 0);
}

#[test]
fn a_request_that_waits_at_the_service_is_not_timed_out() {
    let server = Server::start(Limits { idle_timeout: SHORT, request_timeout: SHORT, ..relaxed() });
    let mut waiting = server.connect();
    waiting.get("/hold");
    server.wait_until_held(1);
    // Three others run into their timeout one after the other: the held one has waited longer by then.
    for _ in 0..3 {
        let mut slow = server.connect();
        slow.send("G");
        assert_eq!(slow.response().status, 408);
    }
    server.release("late");
    assert_eq!(waiting.response().body, "late");
}

#[test]
fn a_client_that_does_not_read_is_cut_off() {
    let server = Server::start(Limits { write_timeout: SHORT, ..relaxed() });
    let mut client = server.connect();
    client.get("/big?30000000");
    wait_until("it is cut off", || server.stats.timeouts.load(Relaxed) == 1);
    server.wait_until_open(0);
}

#[test]
fn over_the_limit_is_asked_to_come_back() {
    let server = Server::start(Limits { connections_max: 2, ..relaxed() });
    let mut first = server.connect();
    let mut second = server.connect();
    assert_eq!(first.ask("/echo").status, 200);
    assert_eq!(second.ask("/echo").status, 200);
    for _ in 0..5 {
        let mut third = server.connect();
        third.get("/echo");
        let response = third.response();
        assert_eq!(response.status, 503);
        assert!(response.has("Retry-After: 1") && response.has("Connection: close"));
        third.expect_end();
    }
    assert_eq!(first.ask("/echo").status, 200);
    drop(second);
    wait_until("there is room", || server.stats.open() == 1);
    let mut next = server.connect();
    assert_eq!(next.ask("/echo").status, 200);
    drop((first, next));
    server.wait_until_open(0);
    assert_eq!(server.stats.refused_over_limit.load(Relaxed), 5);
}

#[test]
fn one_address_leaves_connections_for_the_others() {
    let server = Server::start(Limits { connections_max: 4, connections_per_address_max: 3, ..relaxed() });
    let mut first: Vec<_> = (0..3).map(|_| server.connect()).collect();
    assert!(first.iter_mut().all(|client| client.ask("/echo").status == 200));
    let mut fourth = server.connect();
    fourth.get("/echo");
    assert_eq!(fourth.response().status, 503);
    fourth.expect_end();
    let mut other = server.connect_from([127, 0, 0, 2]);
    assert_eq!(other.ask("/echo").status, 200);
    drop(first.pop());
    wait_until("there is room", || server.stats.open() == 3);
    assert_eq!(server.connect().ask("/echo").status, 200);
}

#[test]
fn an_address_may_have_what_nobody_else_needs_and_a_trusted_proxy_all() {
    let own = TrustedProxies::parse(&["127.0.0.1".to_owned()]).unwrap();
    for (trusted_proxies, served) in [(TrustedProxies::default(), 6), (own, 8)] {
        let limits =
            Limits { connections_max: 8, connections_per_address_max: 1, trusted_proxies, ..relaxed() };
        let server = Server::start(limits);
        let mut clients: Vec<_> = (0..served).map(|_| server.connect()).collect();
        assert!(clients.iter_mut().all(|client| client.ask("/echo").status == 200));
        let mut one_too_many = server.connect();
        one_too_many.get("/echo");
        assert_eq!(one_too_many.response().status, 503);
        one_too_many.expect_end();
        let mut other = server.connect_from([127, 0, 0, 2]);
        other.get("/echo");
        assert_eq!(other.response().status, if served == 8 { 503 } else { 200 });
    }
}

/// Sends so many requests for so large an answer at once, and reads nothing.
fn pipeline(client: &mut Client<TcpStream>, requests: usize, bytes: usize) {
    client.send(format!("GET /big?{bytes} HTTP/1.1\r\nHost: h\r\n\r\n").repeat(requests));
}

#[test]
fn a_connection_that_asks_for_much_has_its_turn_and_no_more() {
    const BYTES: usize = 10_000;
    let limits = Limits { output_bytes_max: 1, turn_bytes_max: 3 * BYTES, ..relaxed() };
    let server = Server::start(limits);
    let mut greedy = server.connect();
    pipeline(&mut greedy, 100, BYTES);
    for _ in 0..100 {
        assert_eq!(greedy.response().body.len(), BYTES);
    }
    let most = server.held.round_answers_max.load(Relaxed);
    assert!(most <= 4, "{most} answers in one round");
}

#[test]
fn a_round_ends_before_all_have_been_answered_if_they_ask_for_much() {
    const BYTES: usize = 10_000;
    let limits = Limits { output_bytes_max: 1, turn_bytes_max: 1, round_bytes_max: 5 * BYTES, ..relaxed() };
    let server = Server::start(limits);
    let mut greedy: Vec<_> = (0..20).map(|_| server.connect()).collect();
    for client in &mut greedy {
        pipeline(client, 20, BYTES);
    }
    for client in &mut greedy {
        for _ in 0..20 {
            assert_eq!(client.response().body.len(), BYTES);
        }
    }
    let most = server.held.round_answers_max.load(Relaxed);
    assert!(most <= 6, "{most} answers in one round");
}

/// As many who wait for one list, with more requests behind that one, when it is there.
#[test]
fn a_round_ends_before_all_who_waited_have_what_they_ask_for_next() {
    const BYTES: usize = 10_000;
    const CLIENTS: usize = 20;
    let limits = Limits { output_bytes_max: 1, turn_bytes_max: 1, round_bytes_max: 5 * BYTES, ..relaxed() };
    let server = Server::start(limits);
    let mut greedy: Vec<_> = (0..CLIENTS).map(|_| server.connect()).collect();
    for client in &mut greedy {
        client.get("/hold");
        pipeline(client, 20, BYTES);
    }
    server.wait_until_held(CLIENTS);
    server.release("the list");
    for client in &mut greedy {
        assert_eq!(client.response().body, "the list");
        for _ in 0..20 {
            assert_eq!(client.response().body.len(), BYTES);
        }
    }
    let most = server.held.round_answers_max.load(Relaxed);
    assert!(most <= 6, "{most} answers in one round");
}

#[test]
fn what_is_kept_for_clients_that_do_not_read_is_bounded() {
    const CLIENTS: usize = 20;
    let limits = Limits { send_buffer_bytes: 64 * 1024, output_bytes_max: 1, ..relaxed() };
    let server = Server::start(limits);
    let mut deaf: Vec<_> = (0..CLIENTS).map(|_| server.connect()).collect();
    for client in &mut deaf {
        pipeline(client, 100, 100_000);
    }
    // Others are served all the while; by the end of these rounds every one of the deaf has had its turns.
    let mut client = server.connect();
    for _ in 0..1_000 {
        assert_eq!(client.ask("/echo").status, 200);
    }
    let sent = server.stats.bytes_out.load(Relaxed) as usize;
    // Twice the send buffer, and what the client's own buffer takes before it is full.
    assert!(sent < CLIENTS * 1024 * 1024, "{sent} bytes were sent to nobody");
}

#[test]
fn an_error_is_seen_although_the_body_is_unread() {
    let server = Server::start(relaxed());
    let mut client = server.connect();
    let body = vec![b'x'; 3_000_000];
    client.send(format!("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: {}\r\n\r\n", body.len()));
    client.send(&body);
    let response = client.response();
    assert_eq!((response.status, response.body.as_str()), (413, "the body is too large"));
    client.expect_end();
    drop(client);
    server.wait_until_open(0);
    assert_eq!(server.stats.protocol_errors.load(Relaxed), 1);
}

#[test]
fn the_headers_may_allow_a_larger_body() {
    let server = Server::start(relaxed());
    let body = "x".repeat(2000);
    for (word, coding, status) in [
        ("X-Word: please\r\n", "Content-Length: 2000\r\n\r\n", 200),
        ("", "Content-Length: 2000\r\n\r\n", 413),
        ("X-Word: please\r\n", "Transfer-Encoding: chunked\r\n\r\n7d0\r\n", 200),
        ("", "Transfer-Encoding: chunked\r\n\r\n7d0\r\n", 413),
    ] {
        let mut client = server.connect();
        let end = if coding.ends_with("7d0\r\n") { "\r\n0\r\n\r\n" } else { "" };
        client.send(format!("POST / HTTP/1.1\r\nHost: h\r\n{word}{coding}{body}{end}"));
        assert_eq!(client.response().status, status, "{word:?} {coding:?}");
    }
}

#[test]
fn requests_before_an_error_are_answered_and_none_after_it() {
    let server = Server::start(relaxed());
    let mut client = server.connect();
    client.send(
        "GET /1 HTTP/1.1\r\nHost: h\r\n\r\nGET /later HTTP/1.1\r\nHost: h\r\n\r\n\
         GET /3 HTTP/9.9\r\n\r\nGET /4 HTTP/1.1\r\nHost: h\r\n\r\n",
    );
    assert_eq!(client.response().body, "GET /1  ");
    assert_eq!(client.response().body, "GET /later  ");
    assert_eq!(client.response().status, 505);
    client.expect_end();
    drop(client);
    server.wait_until_open(0);
    assert_eq!(server.stats.requests.load(Relaxed), 2);
}

#[test]
fn nothing_after_a_closing_request_is_served() {
    let server = Server::start(relaxed());
    let mut client = server.connect();
    client.send("GET /1 HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\nGET /2 HTTP/1.1\r\nHost: h\r\n\r\n");
    assert_eq!(client.response().body, "GET /1  ");
    client.expect_end();
    drop(client);
    server.wait_until_open(0);
    assert_eq!(server.stats.requests.load(Relaxed), 1);
}

#[test]
fn counters_add_up() {
    let server = Server::start(relaxed());
    let mut client = server.connect();
    let request = "GET /echo HTTP/1.1\r\nHost: h\r\n\r\n";
    client.send(request);
    let response = client.response();
    client.stream.shutdown(std::net::Shutdown::Write).unwrap();
    client.expect_end();
    server.wait_until_open(0);
    let stats = &server.stats;
    assert_eq!((stats.accepted.load(Relaxed), stats.closed.load(Relaxed)), (1, 1));
    assert_eq!(stats.bytes_in.load(Relaxed), request.len() as u64);
    assert_eq!(stats.bytes_out.load(Relaxed), (response.head.len() + response.body.len()) as u64);
}

#[test]
fn limits_out_of_range_are_refused() {
    for limits in [
        Limits { connections_max: 0, ..relaxed() },
        Limits { headers_max: 129, ..relaxed() },
        Limits { head_bytes_max: 10, ..relaxed() },
        Limits { output_bytes_max: 0, ..relaxed() },
    ] {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let error = EventLoop::new(listener, limits, None).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
    }
}
