//! What the contract promises while nothing fails.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use server::queue::{Admin, BATCH_BYTES_MAX, Consumer, Options, PullError, SendError, batch_len};

use super::{
    PATIENCE, UPDATE_BROKER_CONFIG, asked, beginnings, create_topic, operate, options, read, settings, topic,
};
use crate::engines::Engines;
use crate::sent::send;

/// Batches of 1 to 512 messages of 0 to 4 KB; each message begins with its number.
fn batches(total: usize) -> Vec<Vec<Vec<u8>>> {
    let mut runner = TestRunner::deterministic();
    let mut number = 0_u32;
    let mut batches = Vec::new();
    while batches.iter().map(Vec::len).sum::<usize>() < total {
        let lengths = proptest::collection::vec(prop_oneof![3 => 0..200_usize, 1 => 0..4096_usize], 1..=512);
        let lengths = lengths.new_tree(&mut runner).unwrap().current();
        assert_eq!(batch_len(lengths.iter().copied()), lengths.len());
        let body = |length: usize| {
            number += 1;
            [&number.to_be_bytes()[..], &vec![number.to_be_bytes()[3]; length]].concat()
        };
        batches.push(lengths.into_iter().map(body).collect());
    }
    batches
}

#[test]
fn messages_arrive_once_each_and_in_the_order_of_their_queue_and_can_be_read_again() {
    let engines = Engines::shared(&["rocketmq"]);
    let (mut producer, mut consumer) = topic(engines, "conformance");
    let wants = beginnings(&mut consumer);
    assert_eq!(wants.len(), 8);
    let batches = batches(5000);
    for batch in &batches {
        send(&mut producer, "conformance", batch);
    }
    let count = batches.iter().map(Vec::len).sum();
    let bodies = read(&mut consumer, &wants, count);

    let mut sent: Vec<&Vec<u8>> = batches.iter().flatten().collect();
    for queue in bodies.values() {
        assert!(
            queue.is_sorted_by_key(|body| &body[..4]),
            "a batch stays together, and batches in their order"
        );
    }
    let mut received: Vec<&Vec<u8>> = bodies.values().flatten().collect();
    sent.sort();
    received.sort();
    assert!(sent == received, "each message once, byte for byte");
    assert_eq!(bodies.len(), 8, "batches go to all queues in turn");

    // From an offset in the middle, the same consumer and another one.
    let (queue, expected) = bodies.iter().next_back().unwrap();
    let from = u64::try_from(expected.len() / 2).unwrap();
    let tail = &expected[expected.len() / 2..];
    for consumer in [&mut consumer, &mut topic(engines, "conformance").1] {
        let again = read(consumer, &[(queue.clone(), from)], tail.len());
        assert_eq!(again[queue], tail);
        assert_eq!(consumer.max_offset(queue).unwrap(), u64::try_from(expected.len()).unwrap());
        assert_eq!(consumer.min_offset(queue).unwrap(), 0);
    }
}

#[test]
fn a_topic_that_is_deleted_is_gone_with_its_messages_and_another_stays() {
    let engines = Engines::shared(&["rocketmq"]);
    let (mut producer, mut consumer) = topic(engines, "deleted");
    let (_, mut other) = topic(engines, "not-deleted");
    for name in ["deleted", "not-deleted"] {
        send(&mut producer, name, &[b"one"]);
    }
    // A busy broker puts what it has stored into its queue a moment later: in one of the new topic, if that is made by then.
    let there = beginnings(&mut consumer);
    assert_eq!(read(&mut consumer, &there, 1).len(), 1);
    // The second time there is none.
    for _ in 0..2 {
        asked(&options(engines), |admin| admin.delete_topics(&["deleted"])).unwrap();
        let found = Consumer::new(options(engines), "deleted").queues().unwrap_err().to_string();
        assert!(
            found.contains("know no broker now that has the topic deleted: its brokers are down"),
            "{found}"
        );
    }
    let wants = beginnings(&mut other);
    assert_eq!(read(&mut other, &wants, 1).len(), 1);
    create_topic(&options(engines), "deleted").unwrap();
    for (queue, _) in beginnings(&mut consumer) {
        assert_eq!(consumer.max_offset(&queue).unwrap(), 0, "{queue}");
    }
}

#[test]
fn two_consumers_share_the_queues() {
    let engines = Engines::shared(&["rocketmq"]);
    let (mut producer, mut first) = topic(engines, "shared");
    let (_, mut second) = topic(engines, "shared");
    let wants = beginnings(&mut first);
    for number in 0..64_u32 {
        send(&mut producer, "shared", &[number.to_be_bytes()]);
    }
    let mut seen = BTreeSet::new();
    for (consumer, wants) in [(&mut first, &wants[..3]), (&mut second, &wants[3..])] {
        let bodies = read(consumer, wants, 8 * wants.len());
        assert_eq!(bodies.len(), wants.len());
        seen.extend(bodies.into_values().flatten());
    }
    assert_eq!(seen.len(), 64);
}

#[test]
fn a_message_that_comes_while_a_consumer_waits_is_there_at_once() {
    let engines = Engines::shared(&["rocketmq"]);
    let (mut producer, mut consumer) = topic(engines, "waiting");
    let mut wants = beginnings(&mut consumer);
    let mut times = Vec::new();
    for number in 0..20_u32 {
        let sender = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(20));
            send(&mut producer, "waiting", &[number.to_be_bytes()]);
            (producer, Instant::now())
        });
        let pulled = consumer.pull(&wants, 100, PATIENCE).unwrap();
        let now = Instant::now();
        let sent_at;
        (producer, sent_at) = sender.join().unwrap();
        times.push(now.saturating_duration_since(sent_at));
        assert_eq!(pulled.len(), 1);
        assert_eq!(pulled[0].messages[0].1[..], number.to_be_bytes());
        wants.retain(|(queue, _)| *queue != pulled[0].queue);
        wants.push((pulled[0].queue.clone(), pulled[0].next_offset));
    }
    times.sort();
    println!("from acknowledgement to delivery: median {:?}, longest {:?}", times[10], times[19]);
    // Who only looks every 500 ms is never so quick; how many are is the machine's affair.
    assert!(times[0] < Duration::from_millis(200), "{times:?}");
    // A message that wakes nobody is found by a look, not after the 5 s for which a request is held.
    assert!(times[19] < Duration::from_secs(5), "{times:?}");
}

#[test]
fn an_offset_that_is_not_there_is_an_error_of_its_queue_alone() {
    let engines = Engines::shared(&["rocketmq"]);
    let (mut producer, mut consumer) = topic(engines, "offsets");
    let wants = beginnings(&mut consumer);
    send(&mut producer, "offsets", &[b"one"]);
    let bodies = read(&mut consumer, &wants, 1);
    let (queue, _) = bodies.first_key_value().unwrap();
    // At the end there is nothing yet; behind it there is a gap.
    assert_eq!(consumer.pull(&[(queue.clone(), 1)], 10, Duration::from_millis(50)).unwrap(), []);
    let ahead = consumer.pull(&[(queue.clone(), 2)], 10, PATIENCE).unwrap_err();
    assert!(matches!(&ahead, PullError::Ahead { queue: of, wanted: 2, end: 1 } if of == queue), "{ahead}");
    let (empty, _) = wants.iter().find(|(other, _)| other != queue).unwrap();
    let ahead = consumer.pull(&[(empty.clone(), 7)], 10, PATIENCE).unwrap_err();
    assert!(matches!(&ahead, PullError::Ahead { queue: of, wanted: 7, end: 0 } if of == empty), "{ahead}");
    // Beside a queue that has messages: both are reported, one after the other.
    let both = [(queue.clone(), 0), (empty.clone(), 7)];
    let (mut messages, mut faults) = (0, 0);
    while messages == 0 || faults == 0 {
        match consumer.pull(&both, 10, PATIENCE) {
            Ok(pulled) => messages += pulled.len(),
            Err(PullError::Ahead { .. }) => faults += 1,
            Err(other) => panic!("{other}"),
        }
    }
    assert_eq!(consumer.pull(&both[..1], 10, PATIENCE).unwrap().len(), 1, "and the other one goes on");
}

#[test]
fn a_missing_topic_and_an_oversized_batch_are_not_sent() {
    let engines = Engines::shared(&["rocketmq"]);
    let (mut producer, _) = topic(engines, "sizes");
    let error = producer.send("no-such-topic", &[b"x"]).unwrap_err();
    assert!(matches!(error, SendError::NotSent(_)), "{error}");
    assert!(error.to_string().contains("no-such-topic"), "{error}");
    assert!(producer.look("no-such-topic").is_err());

    let error = producer.send("sizes", &[vec![0; BATCH_BYTES_MAX + 1]]).unwrap_err();
    assert!(matches!(error, SendError::NotSent(_)), "{error}");
    send(&mut producer, "sizes", &[vec![0; BATCH_BYTES_MAX]]);
    send(&mut producer, "sizes", &vec![[0_u8; 1024]; 1024]);
    producer.send("sizes", &[[0_u8; 1]; 0]).unwrap();
    assert!(producer.look("sizes").is_ok());
}

#[test]
fn the_broker_says_how_full_its_disk_is() {
    let engines = Engines::shared(&["rocketmq"]);
    create_topic(&options(engines), "disk").unwrap();
    let used = asked(&options(engines), Admin::disk_used).unwrap();
    assert!((0.0..=1.0).contains(&used), "{used}");
}

#[test]
fn the_broker_says_what_its_messages_survive() {
    let engines = Engines::shared(&["rocketmq"]);
    let address = engines.address("rocketmq-broker");
    create_topic(&options(engines), "settings").unwrap();
    let expected =
        format!("rocketmq broker-a {address}: flushDiskType = SYNC_FLUSH, brokerRole = ASYNC_MASTER");
    assert_eq!(settings(&options(engines)), expected);
}

#[test]
fn the_group_is_made_where_brokers_make_none_by_themselves() {
    let engines = Engines::shared(&["rocketmq"]);
    let (mut producer, _) = topic(engines, "groups");
    send(&mut producer, "groups", &[b"x"]);
    // All tests have their group made for them, so that this one can't hurt them.
    operate(
        &engines.address("rocketmq-broker"),
        UPDATE_BROKER_CONFIG,
        b"autoCreateSubscriptionGroup=false\n",
    );
    let group = |group: &str| Options { group: group.into(), ..options(engines) };
    let mut stranger = Consumer::new(group("no-such-group"), "groups");
    let wants = beginnings(&mut stranger);
    let error = stranger.pull(&wants, 10, PATIENCE).unwrap_err();
    assert!(matches!(error, PullError::Refused { code: 26, .. }), "{error}");
    create_topic(&group("made"), "groups").unwrap();
    assert_eq!(read(&mut Consumer::new(group("made"), "groups"), &wants, 1).len(), 1);
}
