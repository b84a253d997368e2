//! Brokers and name servers that die, freeze and come back. Each test has engines of its own.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::ScopedJoinHandle;
use std::time::{Duration, Instant};

use server::queue::{Admin, BATCH_BYTES_MAX, Consumer, Options, Producer, PullError, Queue, SendError};

use super::{PATIENCE, UPDATE_BROKER_CONFIG, ask, beginnings, create_topic, operate, options, read, topic};
use crate::engines::Engines;
use crate::sent::send;

/// A broker that serves again must be used within one second; the rest is for a busy machine.
const BACK_WITHIN: Duration = Duration::from_secs(10);

/// What became of each number that was sent.
#[derive(Debug, PartialEq, Eq)]
enum Fate {
    Acknowledged,
    Unknown,
    NotStored,
}

fn fate(result: &Result<(), SendError>) -> Fate {
    match result {
        Ok(()) => Fate::Acknowledged,
        Err(SendError::Unknown(_)) => Fate::Unknown,
        Err(SendError::NotSent(_) | SendError::Refused(..)) => Fate::NotStored,
    }
}

/// Sends batches of 16 until it is to stop. Returns the fates, and the times of the acknowledgements.
fn send_until(
    stop: &AtomicBool,
    mut producer: Producer,
    topic: &str,
) -> (BTreeMap<u32, Fate>, Vec<Instant>, Producer) {
    let mut fates = BTreeMap::new();
    let mut acknowledged = Vec::new();
    let mut number = 0_u32;
    while !stop.load(Ordering::Relaxed) {
        let batch: Vec<[u8; 4]> = (number..number + 16).map(u32::to_be_bytes).collect();
        let result = producer.send(topic, &batch);
        if result.is_ok() {
            acknowledged.push(Instant::now());
        }
        fates.extend((number..number + 16).map(|number| (number, fate(&result))));
        number += 16;
    }
    (fates, acknowledged, producer)
}

/// Reads until it is to stop, through whatever happens to the broker: how often each body came, how often the broker
/// could not be reached, and where to read on.
fn read_until(stop: &AtomicBool, consumer: &mut Consumer) -> (Seen, usize, Vec<(Queue, u64)>) {
    let mut wants = beginnings(consumer);
    let (mut seen, mut unreachable) = (Seen::new(), 0);
    while !stop.load(Ordering::Relaxed) {
        unreachable += usize::from(!read_some(consumer, &mut wants, &mut seen));
    }
    (seen, unreachable, wants)
}

/// How often each body came.
type Seen = BTreeMap<Vec<u8>, usize>;

/// Reads until all of these have come, and then on to the ends of the queues: what nobody promised may be there too.
fn read_to_the_end(
    consumer: &mut Consumer,
    wants: &mut [(Queue, u64)],
    seen: &mut Seen,
    promised: impl Fn(&Seen) -> bool,
) {
    let deadline = Instant::now() + PATIENCE;
    loop {
        // The ends are asked for after the look at what has come: nothing that was there before can be missed.
        if promised(seen)
            && wants.iter().all(|(queue, next)| consumer.max_offset(queue).is_ok_and(|end| end == *next))
        {
            return;
        }
        assert!(Instant::now() < deadline, "what was acknowledged did not come: {} bodies did", seen.len());
        read_some(consumer, wants, seen);
    }
}

/// Whether the broker could be reached. Any other error that may pass by itself is passed over.
fn read_some(consumer: &mut Consumer, wants: &mut [(Queue, u64)], seen: &mut Seen) -> bool {
    let pulled = match consumer.pull(wants, 500, Duration::from_millis(500)) {
        Err(PullError::Unreachable(_)) => return false,
        Err(error) if error.is_retryable() => return true,
        pulled => pulled.unwrap(),
    };
    for pulled in pulled {
        for (_, body) in pulled.messages {
            *seen.entry(body.into()).or_default() += 1;
        }
        wants.iter_mut().find(|(queue, _)| *queue == pulled.queue).unwrap().1 = pulled.next_offset;
    }
    true
}

/// When the broker first acknowledges a message to somebody who asks it all the time, on new connections.
fn first_acknowledgement(address: &str) -> Instant {
    const SEND_MESSAGE: i64 = 310;
    let fields =
        r#""a":"g","b":"yardstick","c":"TBW102","d":"8","e":"0","f":"0","g":"0","h":"0","i":"","j":"0""#;
    let deadline = Instant::now() + Duration::from_secs(120);
    while !ask(address, SEND_MESSAGE, fields, b"x").is_ok_and(|answer| answer.contains(r#""code":0"#)) {
        assert!(Instant::now() < deadline, "{address} acknowledges nothing");
        std::thread::sleep(Duration::from_millis(2));
    }
    Instant::now()
}

fn join<T>(handle: ScopedJoinHandle<'_, T>) -> T {
    handle.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

#[test]
fn what_was_acknowledged_survives_a_killed_broker_and_service_is_back_at_once() {
    let engines = Engines::private(&["rocketmq"], &[("DOORBUSTER_ROCKETMQ_FLUSH", "SYNC_FLUSH")]);
    let (producer, mut consumer) = topic(&engines, "killed");
    topic(&engines, "yardstick");
    let address = engines.address("rocketmq-broker");
    let (sent, done) = (AtomicBool::new(false), AtomicBool::new(false));
    let (fates, acknowledged, reader, killed_at, serves_at) = std::thread::scope(|scope| {
        let reader = scope.spawn(|| read_until(&done, &mut consumer));
        let sender = scope.spawn(|| send_until(&sent, producer, "killed"));
        std::thread::sleep(Duration::from_secs(2));
        engines.kill("rocketmq-broker");
        let killed_at = Instant::now();
        let restart = scope.spawn(|| engines.up(&["rocketmq-broker"]));
        let serves_at = first_acknowledgement(&address);
        join(restart);
        std::thread::sleep(Duration::from_secs(1));
        sent.store(true, Ordering::Relaxed);
        let (fates, acknowledged, _) = join(sender);
        done.store(true, Ordering::Relaxed);
        (fates, acknowledged, join(reader), killed_at, serves_at)
    });
    let (mut seen, unreachable, mut wants) = reader;
    let times = |seen: &Seen, number: u32| seen.get(&number.to_be_bytes()[..]).copied();
    read_to_the_end(&mut consumer, &mut wants, &mut seen, |seen| {
        fates.iter().all(|(number, fate)| *fate != Fate::Acknowledged || times(seen, *number).is_some())
    });
    let back = acknowledged.iter().find(|at| **at > killed_at).expect("nothing was sent after the restart");
    let behind = back.saturating_duration_since(serves_at);
    let count = |fate| fates.values().filter(|other| **other == fate).count();
    let is_there = |number: &u32| times(&seen, *number).is_some();
    let unknown_but_there =
        fates.iter().filter(|(number, fate)| **fate == Fate::Unknown && is_there(number)).count();
    println!(
        "acknowledged {}, unknown {} (of them stored {unknown_but_there}), not stored {}; reader without broker \
         {unreachable} times; back {behind:?} after the broker",
        count(Fate::Acknowledged),
        count(Fate::Unknown),
        count(Fate::NotStored),
    );
    for (number, fate) in &fates {
        check(fate, times(&seen, *number), &number.to_string());
    }
    assert!(count(Fate::NotStored) > 0, "the broker was away, and nobody noticed");
    assert!(unreachable > 0, "the reader must report that the broker is away");
    assert!(behind < BACK_WITHIN, "back after {behind:?}");
}

/// An unknown send was stored, or was not, or is later: it may be read once or never. What is known holds.
#[test]
fn a_frozen_broker_makes_sends_unknown_in_time_and_is_used_again_when_it_thaws() {
    let engines = Engines::private(&["rocketmq"], &[]);
    let (mut patient, mut consumer) = topic(&engines, "frozen");
    topic(&engines, "yardstick");
    let mut wants = beginnings(&mut consumer);
    send(&mut patient, "frozen", &[b"before"]);
    let send_timeout = Duration::from_secs(5);
    let mut producer = Producer::new(Options { send_timeout, ..options(&engines) });
    let start = Instant::now();
    while producer.look("frozen").is_err() {
        assert!(start.elapsed() < PATIENCE);
    }

    engines.freeze("rocketmq-broker");
    let start = Instant::now();
    let error = producer.send("frozen", &[b"during"]).unwrap_err();
    let took = start.elapsed();
    assert!(matches!(error, SendError::Unknown(_)), "{error}");
    assert!(took >= send_timeout && took < send_timeout * 2, "it waits once: {took:?}");
    // The kernel accepts connections for it all the same.
    let looks = (0..5).map(|_| {
        let start = Instant::now();
        assert!(producer.look("frozen").is_err());
        start.elapsed()
    });
    // The quickest of them shows it: another one may have asked the name server too, or got no processor.
    let quickest = looks.min().unwrap();
    assert!(quickest < Duration::from_millis(300), "a look must not wait: {quickest:?}");
    let error = producer.send("frozen", &[b"known to be down"]).unwrap_err();
    assert!(matches!(error, SendError::NotSent(_)), "{error}");

    thaw_and_wait_until_used(&engines, &mut producer, "frozen");
    // It is used: sends are acknowledged, be it that the first ones take the waking broker too long.
    let thawed = Instant::now();
    let mut fates =
        BTreeMap::from([(b"before".to_vec(), Fate::Acknowledged), (b"during".to_vec(), Fate::Unknown)]);
    fates.insert(b"known to be down".to_vec(), Fate::NotStored);
    for number in 0.. {
        assert!(thawed.elapsed() < PATIENCE, "nothing is acknowledged after the thaw: {fates:?}");
        let body = format!("after {number}").into_bytes();
        let fate = fate(&producer.send("frozen", &[&body]));
        let acknowledged = fate == Fate::Acknowledged;
        fates.insert(body, fate);
        if acknowledged {
            break;
        }
    }
    let mut seen = Seen::new();
    read_to_the_end(&mut consumer, &mut wants, &mut seen, |seen| {
        fates.iter().all(|(body, fate)| *fate != Fate::Acknowledged || seen.contains_key(body))
    });
    for (body, fate) in &fates {
        check(fate, seen.remove(body), &String::from_utf8_lossy(body));
    }
    assert_eq!(seen, Seen::new(), "nobody sent these");
}

/// Each send is read as often as is promised by what became of it.
#[track_caller]
fn check(fate: &Fate, times: Option<usize>, message: &str) {
    match (fate, times) {
        (Fate::Acknowledged, Some(1)) | (Fate::Unknown, None | Some(1)) | (Fate::NotStored, None) => {}
        (fate, times) => panic!("message {message}: {fate:?}, and read {times:?} times"),
    }
}

/// How long the broker itself takes to wake up is measured by somebody else.
fn thaw_and_wait_until_used(engines: &Engines, producer: &mut Producer, topic: &str) {
    let address = engines.address("rocketmq-broker");
    engines.thaw("rocketmq-broker");
    let (used_at, serves_at) = std::thread::scope(|scope| {
        let serves_at = scope.spawn(|| first_acknowledgement(&address));
        let thawed = Instant::now();
        while producer.look(topic).is_err() {
            assert!(thawed.elapsed() < PATIENCE, "it is never used again");
        }
        (Instant::now(), join(serves_at))
    });
    let behind = used_at.saturating_duration_since(serves_at);
    println!("back {behind:?} after the broker");
    assert!(behind < BACK_WITHIN, "back after {behind:?}");
}

#[test]
fn without_a_name_server_the_known_brokers_serve_on() {
    let engines = Engines::private(&["rocketmq"], &[]);
    let (mut producer, mut consumer) = topic(&engines, "unnamed");
    topic(&engines, "yardstick");
    let wants = beginnings(&mut consumer);
    send(&mut producer, "unnamed", &[b"one"]);
    engines.kill("rocketmq-namesrv");
    send(&mut producer, "unnamed", &[b"two"]);
    let bodies: usize = read(&mut consumer, &wants, 2).into_values().map(|bodies| bodies.len()).sum();
    assert_eq!(bodies, 2);

    // Even one that was away in the meantime.
    engines.freeze("rocketmq-broker");
    producer.send("unnamed", &[b"three"]).unwrap_err();
    let noticed = Instant::now();
    while noticed.elapsed() < Duration::from_secs(2) {
        assert!(producer.look("unnamed").is_err());
    }
    thaw_and_wait_until_used(&engines, &mut producer, "unnamed");
    producer.send("unnamed", &[b"four"]).unwrap();

    // Somebody new learns nothing, and says so.
    let mut late = Producer::new(options(&engines));
    let error = late.send("unnamed", &[b"five"]).unwrap_err();
    assert!(matches!(&error, SendError::NotSent(why) if why.contains("no name server")), "{error}");
    let error = Consumer::new(options(&engines), "unnamed").queues().unwrap_err();
    assert!(matches!(error, PullError::Unreachable(_)), "{error}");
}

#[test]
fn the_next_name_server_is_asked_when_one_is_away() {
    let engines = Engines::shared(&["rocketmq"]);
    let nobody = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    let mut options = options(engines);
    options.name_servers.insert(0, nobody);
    create_topic(&options, "second").unwrap();
    send(&mut Producer::new(options.clone()), "second", &[b"x"]);
    let mut consumer = Consumer::new(options, "second");
    let wants = beginnings(&mut consumer);
    assert_eq!(read(&mut consumer, &wants, 1).len(), 1);
}

/// A broker looks for what it may delete only a minute after its start, so this takes one.
#[test]
fn messages_that_the_broker_deleted_unread_are_a_loss_that_is_reported() {
    const DELETE_EXPIRED_COMMITLOG: i64 = 329;
    let engines = Engines::private(&["rocketmq"], &[]);
    let (mut producer, mut consumer) = topic(&engines, "deleted");
    let wants = beginnings(&mut consumer);
    // More than one file of the log, for the last one stays.
    let body = vec![7; BATCH_BYTES_MAX];
    for _ in 0..136 {
        send(&mut producer, "deleted", &[&body]);
    }
    let address = engines.address("rocketmq-broker");
    operate(&address, UPDATE_BROKER_CONFIG, b"fileReservedTime=0\n");
    let deadline = Instant::now() + Duration::from_secs(120);
    let queue = &wants[0].0;
    while consumer.min_offset(queue).unwrap() == 0 {
        assert!(Instant::now() < deadline, "the broker deletes nothing");
        operate(&address, DELETE_EXPIRED_COMMITLOG, b"");
        std::thread::sleep(Duration::from_secs(1));
    }
    let first = consumer.min_offset(queue).unwrap();
    let error = consumer.pull(&wants[..1], 10, PATIENCE).unwrap_err();
    assert!(
        matches!(&error, PullError::Deleted { queue: of, wanted: 0, first: got } if of == queue && *got == first),
        "{error}"
    );
    assert!(!error.is_retryable());
    let left = consumer.max_offset(queue).unwrap() - first;
    let read = read(&mut consumer, &[(queue.clone(), first)], usize::try_from(left).unwrap());
    assert!(read[queue].iter().all(|other| *other == body));
}

/// The audit said that no broker has the topic.
#[test]
fn where_the_only_broker_is_down_that_is_said_and_what_to_do() {
    let engines = Engines::private(&["rocketmq"], &[]);
    topic(&engines, "down");
    engines.kill("rocketmq-broker");
    let deadline = Instant::now() + PATIENCE;
    loop {
        let found = Consumer::new(options(&engines), "down").queues();
        match found {
            Err(error)
                if error
                    .to_string()
                    .contains("that has the topic down: its brokers are down, so start them") =>
            {
                break;
            }
            found => assert!(Instant::now() < deadline, "{found:?}"),
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    let found = Admin::new(options(&engines)).masters().unwrap_err().to_string();
    assert!(found.contains("the name servers know no broker now: start the brokers"), "{found}");
}
