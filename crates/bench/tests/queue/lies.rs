//! Servers that lie, break off, or refuse: nothing of it may be counted as an order or a message.

use std::net::SocketAddr;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use bench::drivers::mysql::{MySql, Statement, Workload};
use bench::drivers::rocketmq::{Bodies, Master, Producer, Sending, Topic};
use bench::load::record::{Outcome, Outcomes, Record};
use bench::load::schedule::Schedule;
use bench::load::{Generator, Protocol, Settings, run_clients};
use mysql::OptsBuilder;

use crate::fake::{self, Reply, Reply::*};

const REQUESTS: u64 = 500;
/// Of silence; a test waits for it twice at most.
const PATIENCE: Duration = Duration::from_secs(3);

fn run<P: Protocol>(settings: Settings, protocol: &mut P) -> std::io::Result<Record> {
    let settings = Settings { answer_timeout: PATIENCE, ..settings };
    let mut generator = Generator::connect(settings, protocol)?;
    Ok(generator
        .run(Schedule::closed_requests(REQUESTS), protocol, &AtomicBool::new(false))
        .expect("nobody stops it"))
}

fn frame_bytes(head: [u8; 4]) -> usize {
    4 + usize::try_from(u32::from_be_bytes(head)).expect("a length")
}

fn frame(header: &str) -> Vec<u8> {
    let length = u32::try_from(header.len()).expect("a short header");
    [&(length + 4).to_be_bytes()[..], &length.to_be_bytes(), header.as_bytes()].concat()
}

fn opaque(request: &[u8]) -> i64 {
    let length =
        usize::try_from(u32::from_be_bytes(request[4..8].try_into().expect("four bytes"))).expect("it");
    let header: serde_json::Value = serde_json::from_slice(&request[8..8 + length]).expect("a header");
    header["opaque"].as_i64().expect("a number")
}

fn send(address: SocketAddr) -> Record {
    let brokers = vec![Master { name: "a".to_owned(), address, queues: 3 }];
    let sending = Sending::plain(Topic { name: "T".to_owned(), brokers }, 2, Bodies::new(1, 64));
    run(sending.settings(), &mut Producer::new(sending)).expect("it accepts")
}

#[test]
fn a_lying_broker_is_not_believed() {
    type ReplyTo = fn(i64) -> Reply;
    let unknown = Outcomes { unknown: REQUESTS, ..Outcomes::default() };
    let cases: [(&str, ReplyTo, Outcomes); 8] = [
        (
            "an honest one",
            |opaque| Word(frame(&format!(r#"{{"code":0,"flag":1,"opaque":{opaque}}}"#))),
            Outcomes { queued: REQUESTS, ..Outcomes::default() },
        ),
        (
            "one that asks something first",
            |opaque| {
                let mut bytes = frame(r#"{"code":40,"flag":0,"opaque":77}"#);
                bytes.extend(frame(&format!(r#"{{"code":0,"flag":1,"opaque":{opaque}}}"#)));
                Word(bytes)
            },
            Outcomes { queued: REQUESTS, ..Outcomes::default() },
        ),
        (
            "one that answers another request",
            |opaque| Word(frame(&format!(r#"{{"code":0,"flag":1,"opaque":{}}}"#, opaque + 1))),
            unknown,
        ),
        (
            "one that is busy",
            |opaque| Word(frame(&format!(r#"{{"code":2,"flag":1,"opaque":{opaque},"remark":"busy"}}"#))),
            Outcomes { busy: REQUESTS, ..Outcomes::default() },
        ),
        (
            "one that did not flush in time",
            |opaque| Word(frame(&format!(r#"{{"code":10,"flag":1,"opaque":{opaque}}}"#))),
            unknown,
        ),
        (
            "one whose disk is full",
            |opaque| Word(frame(&format!(r#"{{"code":14,"flag":1,"opaque":{opaque}}}"#))),
            Outcomes { failed: REQUESTS, ..Outcomes::default() },
        ),
        ("one that speaks HTTP", |_| Word(b"HTTP/1.1 400 Bad Request\r\n\r\n".to_vec()), unknown),
        ("one that hangs up", |_| HangUp, unknown),
    ];
    for (name, reply, wanted) in cases {
        let address = fake::start(Vec::new(), frame_bytes, move |_, request| reply(opaque(request)));
        let record = send(address);
        assert_eq!(record.outcomes, wanted, "{name}: {:?}", record.first_surprise);
    }
}

#[test]
fn a_broker_that_breaks_off_in_its_answer_leaves_the_message_unknown() {
    let address = fake::start(Vec::new(), frame_bytes, |number, request| {
        let mut bytes = frame(&format!(r#"{{"code":0,"flag":1,"opaque":{}}}"#, opaque(request)));
        if number == 5 {
            bytes.truncate(20);
        }
        Word(bytes)
    });
    let record = send(address);
    let wanted = Outcomes { queued: REQUESTS - 1, unknown: 1, ..Outcomes::default() };
    assert_eq!((record.outcomes, record.first_surprise.as_deref()), (wanted, Some("no answer in time")));
}

fn packet_bytes(head: [u8; 4]) -> usize {
    4 + usize::from(head[0]) + (usize::from(head[1]) << 8)
}

fn packet(sequence: u8, payload: &[u8]) -> Vec<u8> {
    let length = u8::try_from(payload.len()).expect("a short payload");
    [&[length, 0, 0, sequence][..], payload].concat()
}

fn greeting() -> Vec<u8> {
    let parts: [&[u8]; 6] = [
        b"\x0a10.11-fake\0\x01\0\0\0saltsalt\0",
        b"\xff\xff\x2d\x02\0\xff\xff\x15",
        &[0; 10],
        b"saltsaltsalt\0",
        b"mysql_native_password",
        &[0],
    ];
    packet(0, &parts.concat())
}

#[derive(Debug)]
struct Insert;

impl Workload for Insert {
    fn statements(&mut self) -> String {
        "INSERT".to_owned()
    }

    fn judge(&mut self, results: &[Statement]) -> Outcome {
        if results.len() == 1 && results[0].affected == 1 { Outcome::Won } else { Outcome::Failed }
    }
}

fn insert(address: SocketAddr) -> mysql::Result<Record> {
    let options = OptsBuilder::new()
        .ip_or_hostname(Some(address.ip().to_string()))
        .tcp_port(address.port())
        .prefer_socket(false)
        .user(Some("ada"))
        .pass(Some("secret"))
        .read_timeout(Some(PATIENCE))
        .max_allowed_packet(Some(1 << 20));
    let mut clients =
        (0..2).map(|_| MySql::connect(options.clone().into(), Insert)).collect::<mysql::Result<Vec<_>>>()?;
    let schedule = Schedule::closed_requests(REQUESTS);
    Ok(run_clients(&mut clients, schedule, &AtomicBool::new(false), &mut |_| {}).expect("nobody stops it"))
}

#[test]
fn a_lying_database_is_not_believed() {
    const OK: &[u8] = b"\0\x01\0\x02\0\0\0";
    let unknown = Outcomes { unknown: REQUESTS, ..Outcomes::default() };
    let cases: [(&str, Reply, Outcomes); 7] = [
        ("an honest one", Word(packet(1, OK)), Outcomes { won: REQUESTS, ..Outcomes::default() }),
        ("one that counts wrongly", Word(packet(7, OK)), unknown),
        (
            "one that is locked",
            Word(packet(1, b"\xff\xb5\x04#HY000Lock wait timeout")),
            Outcomes { busy: REQUESTS, ..Outcomes::default() },
        ),
        (
            "one without the table",
            Word(packet(1, b"\xff\x7a\x04#42S02no table")),
            Outcomes { failed: REQUESTS, ..Outcomes::default() },
        ),
        (
            "one that is shut down, and ends each connection with its answer",
            LastWord(packet(1, b"\xff\x1d\x04#08S01Server shutdown in progress")),
            unknown,
        ),
        ("one that wants a file", Word(packet(1, b"\xfb/etc/passwd")), unknown),
        ("one that hangs up", HangUp, unknown),
    ];
    for (name, reply, wanted) in cases {
        let address = fake::start(greeting(), packet_bytes, move |_, request| {
            // The answer to the greeting has number 1, a statement number 0.
            if request[3] == 1 { Word(packet(2, OK)) } else { reply.clone() }
        });
        let record = insert(address).expect("it greets");
        assert_eq!(record.outcomes, wanted, "{name}: {:?}", record.first_surprise);
    }
}

#[test]
fn a_database_that_does_not_let_in_is_an_error() {
    let cases: [(Vec<u8>, Reply, &str); 5] = [
        (greeting(), Word(packet(2, b"\xff\x15\x04#28000Access denied")), "Access denied"),
        (greeting(), Word(packet(2, b"\xfeno_such_plugin\0saltsaltsaltsaltsalt\0")), "no_such_plugin"),
        (packet(0, b"\xff\x10\x04Too many connections"), HangUp, "Too many connections"),
        (packet(0, b"\x09 an old one"), HangUp, ""),
        // With a length that says more than comes, the answer is never whole.
        (greeting(), Word(packet(2, b"\0\0\0\x02\0\0\0")[..6].to_vec()), ""),
    ];
    for (hello, reply, wanted) in cases {
        let address = fake::start(hello, packet_bytes, move |_, _| reply.clone());
        let error = insert(address).expect_err("it was not let in");
        assert!(error.to_string().contains(wanted), "{error}");
    }
}
