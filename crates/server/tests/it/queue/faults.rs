//! Brokers and name servers that die, freeze and come back. Each test has engines of its own.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::ScopedJoinHandle;
use std::time::{Duration, Instant};

use server::queue::{Admin, BATCH_BYTES_MAX, Consumer, Options, Producer, PullError, SendError};

use super::{PATIENCE, UPDATE_BROKER_CONFIG, ask, beginnings, operate, options, read, topic};
use crate::engines::Engines;

/// A broker that serves again must be used within one second; the rest is for a busy machine.
const BACK_WITHIN: Duration = Duration::from_secs(2);

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

/// Sends batches of 16 until told to stop. Returns the fates, and the times of the acknowledgements.
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

/// Reads everything from the beginnings until told to stop, through whatever happens to the broker.
fn read_until(stop: &AtomicBool, consumer: &mut Consumer) -> (BTreeMap<u32, usize>, usize) {
    let mut wants = beginnings(consumer);
    let mut seen = BTreeMap::new();
    let mut unreachable = 0;
    loop {
        let stopping = stop.load(Ordering::Relaxed);
        match consumer.pull(&wants, 500, Duration::from_millis(500)) {
            Ok(pulled) if pulled.is_empty() && stopping => return (seen, unreachable),
            Ok(pulled) => {
                for pulled in pulled {
                    for (_, body) in &pulled.messages {
                        *seen.entry(u32::from_be_bytes(body[..].try_into().unwrap())).or_default() += 1;
                    }
                    wants.iter_mut().find(|(queue, _)| *queue == pulled.queue).unwrap().1 =
                        pulled.next_offset;
                }
            }
            Err(PullError::Unreachable(_)) => unreachable += 1,
            Err(other) => panic!("{other}"),
        }
    }
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
    let (fates, acknowledged, seen, unreachable, killed_at, serves_at) = std::thread::scope(|scope| {
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
        let (seen, unreachable) = join(reader);
        (fates, acknowledged, seen, unreachable, killed_at, serves_at)
    });
    let back = acknowledged.iter().find(|at| **at > killed_at).expect("nothing was sent after the restart");
    let behind = back.saturating_duration_since(serves_at);
    let count = |fate| fates.values().filter(|other| **other == fate).count();
    let unknown_but_there =
        fates.iter().filter(|(number, fate)| **fate == Fate::Unknown && seen.contains_key(number)).count();
    println!(
        "acknowledged {}, unknown {} (of them stored {unknown_but_there}), not stored {}; reader without broker \
         {unreachable} times; back {behind:?} after the broker",
        count(Fate::Acknowledged),
        count(Fate::Unknown),
        count(Fate::NotStored),
    );
    for (number, fate) in &fates {
        match (fate, seen.get(number)) {
            (Fate::Acknowledged, Some(1)) | (Fate::Unknown, None | Some(1)) | (Fate::NotStored, None) => {}
            (fate, times) => panic!("message {number}: {fate:?}, and read {times:?} times"),
        }
    }
    assert!(count(Fate::NotStored) > 0, "the broker was away, and nobody noticed");
    assert!(unreachable > 0, "the reader must tell that the broker is away");
    assert!(behind < BACK_WITHIN, "back after {behind:?}");
}

#[test]
fn a_frozen_broker_makes_sends_unknown_in_time_and_is_used_again_when_it_thaws() {
    let engines = Engines::private(&["rocketmq"], &[]);
    let (mut patient, mut consumer) = topic(&engines, "frozen");
    let wants = beginnings(&mut consumer);
    patient.send("frozen", &[b"before"]).unwrap();
    let send_timeout = Duration::from_secs(2);
    let mut producer = Producer::new(Options { send_timeout, ..options(&engines) });
    let start = Instant::now();
    while !producer.is_available("frozen") {
        assert!(start.elapsed() < PATIENCE);
    }
    assert_eq!(read(&mut consumer, &wants, 1).len(), 1);

    engines.freeze("rocketmq-broker");
    let start = Instant::now();
    let error = producer.send("frozen", &[b"during"]).unwrap_err();
    let took = start.elapsed();
    assert!(matches!(error, SendError::Unknown(_)), "{error}");
    assert!(took >= send_timeout && took < send_timeout + Duration::from_secs(1), "{took:?}");
    // The kernel accepts connections for it all the same.
    for _ in 0..5 {
        let start = Instant::now();
        assert!(!producer.is_available("frozen"));
        assert!(start.elapsed() < Duration::from_millis(300), "a look must not wait: {:?}", start.elapsed());
    }
    let error = producer.send("frozen", &[b"known to be down"]).unwrap_err();
    assert!(matches!(error, SendError::NotSent(_)), "{error}");

    engines.thaw("rocketmq-broker");
    let thawed = Instant::now();
    while !producer.is_available("frozen") {
        assert!(thawed.elapsed() < BACK_WITHIN, "not available {:?} after it thawed", thawed.elapsed());
    }
    producer.send("frozen", &[b"after"]).unwrap();
    println!("back {:?} after it thawed", thawed.elapsed());
    // "during" reached the broker's socket, and is stored when it wakes: that is what unknown means.
    let deadline = Instant::now() + PATIENCE;
    let mut bodies = Vec::new();
    while bodies.len() < 3 {
        assert!(Instant::now() < deadline, "{bodies:?}");
        bodies = read(&mut consumer, &wants, 3).into_values().flatten().collect();
    }
    bodies.sort();
    assert_eq!(bodies, [&b"after"[..], b"before", b"during"]);
}

#[test]
fn without_a_name_server_the_known_brokers_serve_on() {
    let engines = Engines::private(&["rocketmq"], &[]);
    let (mut producer, mut consumer) = topic(&engines, "unnamed");
    let wants = beginnings(&mut consumer);
    producer.send("unnamed", &[b"one"]).unwrap();
    engines.kill("rocketmq-namesrv");
    producer.send("unnamed", &[b"two"]).unwrap();
    let bodies: usize = read(&mut consumer, &wants, 2).into_values().map(|bodies| bodies.len()).sum();
    assert_eq!(bodies, 2);

    // Even one that was away in the meantime.
    engines.freeze("rocketmq-broker");
    producer.send("unnamed", &[b"three"]).unwrap_err();
    let noticed = Instant::now();
    while noticed.elapsed() < Duration::from_secs(2) {
        assert!(!producer.is_available("unnamed"));
    }
    engines.thaw("rocketmq-broker");
    let thawed = Instant::now();
    while !producer.is_available("unnamed") {
        assert!(thawed.elapsed() < BACK_WITHIN);
    }
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
    Admin::new(options.clone()).create_topics(&["second"]).unwrap();
    Producer::new(options.clone()).send("second", &[b"x"]).unwrap();
    let mut consumer = Consumer::new(options, "second");
    let wants = beginnings(&mut consumer);
    assert_eq!(read(&mut consumer, &wants, 1).len(), 1);
}

/// A broker looks for what it may delete only a minute after its start, so this takes one.
#[test]
fn messages_that_the_broker_deleted_unread_are_a_loss_that_is_told() {
    const DELETE_EXPIRED_COMMITLOG: i64 = 329;
    let engines = Engines::private(&["rocketmq"], &[]);
    let (mut producer, mut consumer) = topic(&engines, "deleted");
    let wants = beginnings(&mut consumer);
    // More than one file of the log, for the last one stays.
    let body = vec![7; BATCH_BYTES_MAX];
    for _ in 0..136 {
        producer.send("deleted", &[&body]).unwrap();
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
        matches!(&error, PullError::Deleted { queue: of, wanted: 0, first: told } if of == queue && *told == first),
        "{error}"
    );
    assert!(!error.is_retryable());
    let left = consumer.max_offset(queue).unwrap() - first;
    let read = read(&mut consumer, &[(queue.clone(), first)], usize::try_from(left).unwrap());
    assert!(read[queue].iter().all(|other| *other == body));
}
