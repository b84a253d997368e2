//! Answers in parts: they come as they are given, and cost nothing when nobody reads them.

use super::*;

/// Gives everybody a part; none: the end.
fn part(server: &Server, bytes: Option<&[u8]>) {
    server.held.parts.lock().unwrap().push(bytes.map(<[u8]>::to_vec));
    server.waker.wake();
}

fn wait_until_read_by(server: &Server, count: usize) {
    wait_until("answers are read", || server.held.streams.lock().unwrap().len() == count);
}

/// Asks for an answer in parts, and reads its head.
fn begin(server: &Server) -> Client<TcpStream> {
    let mut client = server.connect();
    client.get("/parts");
    let head = client.response_head();
    assert_eq!(head.status, 200);
    assert!(
        head.has("Connection: close") && head.has("X-Kind: parts") && !head.head.contains("Content-Length")
    );
    expect(&mut client, "first ");
    client
}

fn expect(client: &mut Client<TcpStream>, text: &str) {
    while client.read.len() < text.len() {
        assert!(client.fill() > 0, "the connection ended inside of a part");
    }
    assert_eq!(String::from_utf8(client.read.drain(..text.len()).collect()).unwrap(), text);
}

#[test]
fn parts_come_as_they_are_given_to_everybody_until_the_end() {
    let server = Server::start(relaxed());
    let mut clients = [begin(&server), begin(&server)];
    wait_until_read_by(&server, 2);
    for text in ["one ", "two "] {
        part(&server, Some(text.as_bytes()));
        clients.iter_mut().for_each(|client| expect(client, text));
    }
    part(&server, None);
    clients.iter_mut().for_each(Client::expect_end);
    server.wait_until_open(0);
}

#[test]
fn a_head_alone_ends_at_once_and_what_follows_a_request_in_parts_is_not_read() {
    let server = Server::start(relaxed());
    let mut client = server.connect();
    client.send("HEAD /parts HTTP/1.1\r\nHost: h\r\n\r\n");
    assert_eq!(client.response_head().status, 200);
    client.expect_end();
    part(&server, Some(b"nobody's"));
    wait_until_read_by(&server, 0);
    let mut client = begin(&server);
    client.get("/echo");
    part(&server, Some(b"a part"));
    expect(&mut client, "a part");
    wait_until_read_by(&server, 1);
}

#[test]
fn who_has_gone_is_noticed_and_a_stop_does_not_wait() {
    let mut server = Server::start(relaxed());
    let (gone, mut stays) = (begin(&server), begin(&server));
    wait_until_read_by(&server, 2);
    drop(gone);
    server.wait_until_open(1);
    part(&server, Some(b"news"));
    expect(&mut stays, "news");
    wait_until_read_by(&server, 1);
    server.stop.request();
    stays.expect_end();
    server.join();
}

#[test]
fn who_does_not_read_misses_parts_and_is_cut_and_the_others_get_theirs() {
    // Enough for whoever reads, on however busy a machine.
    let server = Server::start(Limits { write_timeout: Duration::from_secs(3), ..relaxed() });
    let (_hangs, mut reads) = (begin(&server), begin(&server));
    wait_until_read_by(&server, 2);
    // More than both systems keep for a connection, in parts that the one who reads gets whole.
    let bytes = vec![b'x'; 1 << 20];
    let text = String::from_utf8(bytes.clone()).unwrap();
    let mut given = 0;
    while server.held.streams.lock().unwrap().len() == 2 {
        part(&server, Some(&bytes));
        expect(&mut reads, &text);
        given += 1;
    }
    assert!(given > 1);
    server.wait_until_open(1);
    part(&server, Some(b"after it"));
    expect(&mut reads, "after it");
}

#[test]
fn who_is_slow_gets_every_part_that_waits_for_the_one_before() {
    const PARTS: usize = 4;
    let server = Server::start(relaxed());
    for (version, chunked) in [("1.1", true), ("1.0", false)] {
        let mut client = server.connect();
        client.send(format!("GET /all?{PARTS} HTTP/{version}\r\nHost: h\r\n\r\n"));
        let head = client.response_head();
        assert_eq!((head.status, head.has("Transfer-Encoding: chunked")), (200, chunked));
        let mut read = client.read.len();
        client.read.clear();
        while client.fill() > 0 {
            read += client.read.len();
            client.read.clear();
        }
        assert_eq!(read, PARTS * PART_BYTES, "HTTP/{version}");
    }
    server.wait_until_open(0);
}
