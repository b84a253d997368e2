//! Answers that no healthy broker gives: a scripted peer that is name server and broker in one.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use server::Secrets;
use server::clock::wall_clock;
use server::cluster::{PassOverError, pass_over};
use server::config::Sources;
use server::ledger::mysql::cluster::{Acting, SharedLedger};
use server::ledger::{self, OperatorLogAsked, Source};
use server::queue::{Consumer, Options, Producer, PullError, Queue, Security, SendError};

use super::PATIENCE;
use crate::places::Database;

const ROUTE: i64 = 105;
const SEND: i64 = 320;
const PULL: i64 = 11;
/// Of a send to which no clear answer comes: this is waited for.
const SEND_TIMEOUT: Duration = Duration::from_secs(1);

/// What the peer does with a request: bytes to send, and whether it closes the connection then.
type Script = dyn Fn(i64) -> (Vec<u8>, bool) + Send + Sync;

struct Peer {
    address: String,
    /// Requests to send or pull that came.
    asked: Arc<AtomicUsize>,
    connections: Arc<Mutex<Vec<TcpStream>>>,
}

pub(super) fn frame(code: i64, opaque: i64, flag: i64, fields: &str, body: &[u8]) -> Vec<u8> {
    let header =
        format!(r#"{{"code":{code},"flag":{flag},"opaque":{opaque},"remark":"r","extFields":{{{fields}}}}}"#);
    let total = u32::try_from(4 + header.len() + body.len()).unwrap();
    let header_bytes = u32::try_from(header.len()).unwrap();
    [&total.to_be_bytes(), &header_bytes.to_be_bytes(), header.as_bytes(), body].concat()
}

impl Peer {
    /// Gives routes and answers questions about offsets; the script answers sends and pulls by the request's number.
    fn start(script: impl Fn(i64) -> (Vec<u8>, bool) + Send + Sync + 'static) -> Peer {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let asked = Arc::new(AtomicUsize::new(0));
        let connections: Arc<Mutex<Vec<TcpStream>>> = Arc::default();
        let script: Arc<Script> = Arc::new(script);
        let peer = Peer { address: address.clone(), asked: asked.clone(), connections: connections.clone() };
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let stream = stream.unwrap();
                connections.lock().unwrap().push(stream.try_clone().unwrap());
                let (address, asked, script) = (address.clone(), asked.clone(), script.clone());
                std::thread::spawn(move || serve(stream, &address, &asked, &*script));
            }
        });
        peer
    }

    fn options(&self) -> Options {
        Options {
            name_servers: vec![self.address.clone()],
            group: "g".into(),
            send_timeout: PATIENCE,
            security: Security::default(),
        }
    }

    fn close_connections(&self) {
        for stream in self.connections.lock().unwrap().drain(..) {
            drop(stream.shutdown(std::net::Shutdown::Both));
        }
    }

    fn send(&self) -> Result<(), SendError> {
        Producer::new(self.options()).send("t", &[b"x"])
    }

    fn pull(&self) -> PullError {
        let mut consumer = Consumer::new(self.options(), "t");
        consumer.pull(&[(queue(), 5)], 10, PATIENCE).unwrap_err()
    }
}

fn queue() -> Queue {
    Queue { broker: "b".into(), number: 0 }
}

/// Ends with the connection.
fn serve(mut stream: TcpStream, address: &str, asked: &AtomicUsize, script: &Script) {
    let mut length = [0; 4];
    while stream.read_exact(&mut length).is_ok() {
        let mut rest = vec![0; u32::from_be_bytes(length) as usize];
        stream.read_exact(&mut rest).unwrap();
        let header_bytes = u32::from_be_bytes(rest[..4].try_into().unwrap()) as usize;
        let header: serde_json::Value = serde_json::from_slice(&rest[4..4 + header_bytes]).unwrap();
        let opaque = header["opaque"].as_i64().unwrap();
        let (bytes, close) = match header["code"].as_i64().unwrap() {
            ROUTE => {
                let route = format!(
                    r#"{{"brokerDatas":[{{"brokerName":"b","brokerAddrs":{{"0":"{address}"}}}}],
                    "queueDatas":[{{"brokerName":"b","readQueueNums":1,"writeQueueNums":1,"perm":6}}]}}"#
                );
                (frame(0, opaque, 1, "", route.as_bytes()), false)
            }
            SEND | PULL => {
                asked.fetch_add(1, Ordering::Relaxed);
                script(opaque)
            }
            _ => (frame(0, opaque, 1, r#""offset":"0""#, b""), false),
        };
        if stream.write_all(&bytes).is_err() || close {
            return drop(stream.shutdown(std::net::Shutdown::Both));
        }
    }
}

#[test]
fn each_answer_to_a_send_is_stored_refused_or_unknown() {
    let refused = [2, 3, 13, 14, 15, 16, 17, 29, 1500];
    for code in (-2..40).chain([208, 215, 501, 604, 1500, 2000, i64::from(i32::MAX)]) {
        let result = Peer::start(move |opaque| (frame(code, opaque, 1, "", b""), false)).send();
        let expected = match result {
            Ok(()) => code == 0,
            Err(SendError::Refused(answered, _)) => i64::from(answered) == code && refused.contains(&code),
            Err(SendError::Unknown(_)) => code != 0 && !refused.contains(&code),
            Err(SendError::NotSent(_)) => false,
        };
        assert!(expected, "code {code}: {result:?}");
    }
}

#[test]
fn a_send_without_a_clear_answer_is_unknown_and_sent_only_once() {
    let good = |opaque| frame(0, opaque, 1, "", b"");
    let cases: [(&str, Peer); 8] = [
        ("closed without an answer", Peer::start(|_| (vec![], true))),
        ("no answer", Peer::start(|_| (vec![], false))),
        ("garbage", Peer::start(|_| (b"HTTP/1.1 400 Bad Request\r\n\r\n".into(), true))),
        ("cut off", Peer::start(move |opaque| (good(opaque)[..20].into(), true))),
        ("oversized", Peer::start(|_| (vec![0x7f; 64], false))),
        ("too short to be a frame", Peer::start(|_| (vec![0, 0, 0, 1, 9, 9], false))),
        ("another number", Peer::start(move |opaque| (good(opaque + 1), false))),
        ("no JSON", Peer::start(|_| (vec![0, 0, 0, 6, 0, 0, 0, 2, b'{', b'['], false))),
    ];
    for (name, peer) in cases {
        let start = Instant::now();
        let options = Options { send_timeout: SEND_TIMEOUT, ..peer.options() };
        let result = Producer::new(options).send("t", &[b"x"]);
        assert!(matches!(result, Err(SendError::Unknown(_))), "{name}: {result:?}");
        // Not for the time that the others here have; what is between is for a busy machine.
        assert!(start.elapsed() < SEND_TIMEOUT * 10, "{name}");
        assert_eq!(peer.asked.load(Ordering::Relaxed), 1, "{name}");
    }
}

#[test]
fn an_answer_is_found_among_other_frames() {
    let peer = Peer::start(|opaque| {
        let other = frame(1, opaque + 9, 1, "", b"an answer to nobody");
        let question = frame(40, opaque, 0, "", b"what the broker asks its clients");
        ([other, question, frame(0, opaque, 1, "", b"")].concat(), false)
    });
    peer.send().unwrap();
}

#[test]
fn a_connection_that_was_closed_while_idle_costs_nothing() {
    let peer = Peer::start(|opaque| (frame(0, opaque, 1, "", b""), false));
    let mut producer = Producer::new(peer.options());
    for sends in 1..20 {
        producer.send("t", &[b"x"]).unwrap();
        assert_eq!(peer.asked.load(Ordering::Relaxed), sends);
        peer.close_connections();
    }
    let closed = Instant::now();
    while producer.look("t").is_err() {
        assert!(closed.elapsed() < PATIENCE);
    }
}

#[test]
fn a_broker_that_takes_nothing_is_left_alone_for_a_moment() {
    let turn = AtomicUsize::new(0);
    let peer = Peer::start(move |opaque| {
        let full = turn.fetch_add(1, Ordering::Relaxed) == 0;
        (frame(if full { 14 } else { 0 }, opaque, 1, "", b""), false)
    });
    let mut producer = Producer::new(peer.options());
    let asked = Instant::now();
    let error = producer.send("t", &[b"x"]).unwrap_err();
    assert!(matches!(error, SendError::Refused(14, _)), "{error}");
    while producer.look("t").is_err() {
        assert!(asked.elapsed() < PATIENCE);
    }
    // For the whole pause, which begins after this clock.
    assert!(asked.elapsed() >= Duration::from_millis(200), "no units are to be taken for it meanwhile");
    producer.send("t", &[b"x"]).unwrap();
    assert_eq!(peer.asked.load(Ordering::Relaxed), 2);
}

/// A stored message without address, topic or properties.
fn stored(offset: u64, body: &[u8]) -> Vec<u8> {
    let checksum = crc32(body) & 0x7fff_ffff;
    let mut message = Vec::new();
    message.extend(0xdaa3_20a7_u32.to_be_bytes());
    message.extend(checksum.to_be_bytes());
    message.extend([0; 8]);
    message.extend(offset.to_be_bytes());
    message.extend([0; 8 + 4 + 8 + 8 + 8 + 8 + 4 + 8]);
    message.extend(u32::try_from(body.len()).unwrap().to_be_bytes());
    message.extend(body);
    message.extend([0; 3]);
    [&u32::try_from(message.len() + 4).unwrap().to_be_bytes()[..], &message].concat()
}

/// Bit by bit, so that it shares nothing with the code under test.
fn crc32(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(u32::MAX, |crc, byte| {
        (0..8).fold(
            crc ^ u32::from(*byte),
            |crc, _| if crc & 1 == 1 { 0xedb8_8320 ^ (crc >> 1) } else { crc >> 1 },
        )
    })
}

#[test]
fn what_a_pull_finds_wrong_is_reported() {
    let found = r#""maxOffset":"9","minOffset":"0","nextBeginOffset":"9""#;
    let moved = r#""maxOffset":"900","minOffset":"8","nextBeginOffset":"8""#;
    let mut damaged = stored(5, b"body");
    let body_at = damaged.len() - 4;
    damaged[body_at] ^= 1;
    type Expected = fn(&PullError) -> bool;
    let cases: [(&str, i64, &str, Vec<u8>, Expected); 7] = [
        ("deleted", 21, moved, vec![], |e| matches!(e, PullError::Deleted { wanted: 5, first: 8, .. })),
        ("skipped", 20, moved, vec![], |e| matches!(e, PullError::Deleted { wanted: 5, first: 8, .. })),
        ("a gap", 0, found, stored(7, b"x"), |e| matches!(e, PullError::Deleted { wanted: 5, first: 7, .. })),
        ("checksum", 0, found, damaged, |e| matches!(e, PullError::Damaged { offset: 5, .. })),
        ("older", 0, found, stored(4, b"x"), |e| matches!(e, PullError::Damaged { offset: 5, .. })),
        ("garbage", 0, found, b"garbage".into(), |e| matches!(e, PullError::Damaged { offset: 5, .. })),
        ("busy", 2, "", vec![], |e| matches!(e, PullError::Refused { code: 2, .. }) && e.is_retryable()),
    ];
    for (name, code, fields, body, expected) in cases {
        let error = Peer::start(move |opaque| (frame(code, opaque, 1, fields, &body), false)).pull();
        assert!(expected(&error), "{name}: {error}");
    }
}

/// A broker whose disk was full for a moment: it has given offsets to messages that its queue does not have.
#[test]
fn messages_are_counted_by_their_places_where_no_place_is_missing() {
    let two = [stored(7, b"a"), stored(8, b"b")].concat();
    let found = r#""maxOffset":"7","minOffset":"0","nextBeginOffset":"7""#;
    let peer = Peer::start(move |opaque| (frame(0, opaque, 1, found, &two), false));
    let mut consumer = Consumer::new(peer.options(), "t");
    let pulled = consumer.pull(&[(queue(), 5)], 10, Duration::from_secs(5)).unwrap();
    assert_eq!(pulled[0].messages, [(5, (*b"a").into()), (6, (*b"b").into())] as [(u64, Box<[u8]>); 2]);
    assert_eq!((pulled[0].next_offset, pulled[0].misplaced), (7, 2));
}

#[test]
fn a_broker_that_answers_pulls_with_garbage_is_tried_again_but_not_without_pause() {
    let peer = Peer::start(|_| (vec![0xff; 32], false));
    let mut consumer = Consumer::new(peer.options(), "t");
    let start = Instant::now();
    while peer.asked.load(Ordering::Relaxed) < 5 {
        assert!(start.elapsed() < PATIENCE);
        match consumer.pull(&[(queue(), 5)], 10, Duration::from_millis(50)) {
            Err(PullError::Unreachable(_)) => {}
            // The deadline may fall between a new connection and the next garbage.
            Ok(pulled) => assert_eq!(pulled, []),
            Err(other) => panic!("{other}"),
        }
    }
    // Four pauses of 100 ms lie between five connections.
    assert!(start.elapsed() > Duration::from_millis(400), "{:?}", start.elapsed());
}

#[test]
fn messages_before_a_damaged_one_are_delivered_first() {
    let mut damaged = stored(7, b"body");
    let body_at = damaged.len() - 4;
    damaged[body_at] ^= 1;
    let first = [stored(5, b"a"), stored(6, b"b"), damaged.clone()].concat();
    let turn = AtomicUsize::new(0);
    let found = r#""maxOffset":"8","minOffset":"0","nextBeginOffset":"8""#;
    let peer = Peer::start(move |opaque| {
        let body = if turn.fetch_add(1, Ordering::Relaxed) == 0 { &first } else { &damaged };
        (frame(0, opaque, 1, found, body), false)
    });
    let mut consumer = Consumer::new(peer.options(), "t");
    let pulled = consumer.pull(&[(queue(), 5)], 10, Duration::from_secs(5)).unwrap();
    assert_eq!(pulled[0].messages, [(5, (*b"a").into()), (6, (*b"b").into())] as [(u64, Box<[u8]>); 2]);
    assert_eq!(pulled[0].next_offset, 7);
    let error = consumer.pull(&[(queue(), 7)], 10, Duration::from_secs(5)).unwrap_err();
    assert!(matches!(error, PullError::Damaged { offset: 7, .. }), "{error}");
    // Passing over it is the caller's decision; the fault is not reported again.
    let quiet = consumer.pull(&[], 10, Duration::from_millis(20));
    assert_eq!(quiet.unwrap(), []);
}

/// Gone, damaged, and neither: the operator moves a queue behind what can't be read, and behind nothing else.
#[test]
fn a_queue_is_passed_over_where_it_can_not_be_read() {
    let mut damaged = stored(9, b"body");
    let body_at = damaged.len() - 4;
    damaged[body_at] ^= 1;
    let found = r#""maxOffset":"11","minOffset":"9","nextBeginOffset":"11""#;
    let turn = AtomicUsize::new(0);
    let peer = Peer::start(move |opaque| {
        let moved = r#""maxOffset":"11","minOffset":"9","nextBeginOffset":"9""#;
        let answer = match turn.fetch_add(1, Ordering::Relaxed) {
            0 => frame(21, opaque, 1, moved, b""),
            1 => frame(0, opaque, 1, found, &damaged),
            _ => frame(0, opaque, 1, found, &stored(10, b"x")),
        };
        (answer, false)
    });
    let database = Database::shared();
    let mut ledger = SharedLedger::open(&database.options).unwrap();
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("c.toml");
    let ledger::mysql::Options { host, port, user, database: name, .. } = &database.options;
    let text = format!(
        "[auth]\nbuyer = \"member_id\"\n[cluster]\nenabled = true\n[gate]\naddresses = [\"127.0.0.1:1\"]\n\
         [queue]\nname_servers = [\"{}\"]\ntopic = \"t\"\n[ledger]\nbackend = \"mysql\"\n\
         mysql_address = \"{host}:{port}\"\nmysql_user = \"{user}\"\nmysql_database = \"{name}\"\n",
        peer.address
    );
    std::fs::write(&file, text).unwrap();
    let sources = Sources::default().file(&file);
    let config = sources.load().unwrap();
    let by = engine::By::named("anna", "the disk was replaced").unwrap();
    let acting = Acting { by, now: wall_clock() };
    let pass_over = || pass_over(&config, &Secrets::default(), &queue(), &acting);
    assert!(matches!(pass_over(), Err(PassOverError::Unknown(_))));
    ledger.lease_queues(1, &[(queue().to_string(), 5)]).unwrap();
    assert_eq!(pass_over().unwrap(), 5..9);
    assert_eq!(pass_over().unwrap(), 9..10);
    assert!(matches!(pass_over(), Err(PassOverError::Sound { next: 10, .. })));
    assert_eq!(ledger.queue_offsets().unwrap(), [(queue().to_string(), 10)]);
    // Whoever comes late changes nothing.
    assert!(!ledger.pass_over(&acting, &queue().to_string(), 5..9).unwrap());
    assert_eq!(ledger.queue_offsets().unwrap(), [(queue().to_string(), 10)]);
    let source = Source::MySql(Box::new(database.options.clone()));
    let log = source.operator_log(&OperatorLogAsked { before: u64::MAX, sale: None, max: 9 }).unwrap();
    let said: Vec<String> = log
        .actions
        .iter()
        .map(|action| &action.operated)
        .map(|operated| {
            format!("{} {} {}: {}", operated.by.who, operated.what, operated.about, operated.by.why)
        })
        .collect();
    let expected = |messages: &str| {
        format!("anna messages_passed_over messages {messages} of {}: the disk was replaced", queue())
    };
    assert_eq!(
        said,
        [expected("9 to 9"), expected("5 to 8")],
        "one for each that came to something, the latest first"
    );
}
