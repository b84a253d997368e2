//! Faults of RocketMQ, the queue between the gate and the ledger.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use server::queue::{Consumer, Options, Producer, Security};

use crate::gate::{EVERYTHING, redis_cli};
use crate::load::Random;
use crate::proxy::Mode;
use crate::sent::send;
use crate::small_disk;
use crate::testbed::{Forgets, Scenario, Testbed, play};
use crate::topic;

pub(crate) const KILLED: Scenario = Scenario::of("the broker killed");
pub(crate) const FROZEN: Scenario = Scenario::of("the broker frozen");
pub(crate) const UNREACHABLE: Scenario = Scenario::of("the broker unreachable for one server");
pub(crate) const SILENT: Scenario = Scenario::of("the broker's answers lost");
pub(crate) const NAME_SERVER_KILLED: Scenario = Scenario::of("the broker's name server killed");
pub(crate) const TWICE_AND_OUT_OF_ORDER: Scenario = Scenario::of("messages delivered twice and out of order");

pub(crate) const DISK_FULL: Scenario =
    Scenario { small_disk: Some(&small_disk::BROKER), ..Scenario::of("the broker's disk full") };

pub(crate) const QUEUES_REMOVED: Scenario = Scenario {
    forgets: Forgets::Before(EVERYTHING),
    ..Scenario::of("queues with messages removed from the topic, then Redis wiped")
};

/// Copies in one batch, and messages in one pull.
const COPIES: u64 = 64;
const PULL_MAX: usize = 1024;
const PULL_WAIT: Duration = Duration::from_millis(50);

#[test]
fn the_broker_is_killed() {
    play(&KILLED, |testbed| {
        testbed.engines.kill("rocketmq-broker");
        Testbed::wait_out();
        testbed.engines.up(&["rocketmq"]);
    });
}

#[test]
fn the_broker_is_frozen() {
    play(&FROZEN, |testbed| {
        testbed.engines.freeze("rocketmq-broker");
        Testbed::wait_out();
        testbed.engines.thaw("rocketmq-broker");
    });
}

#[test]
fn the_broker_is_unreachable_for_one_server() {
    play(&UNREACHABLE, |testbed| {
        let pid = testbed.cluster.pid(0);
        testbed.network.broker.set_for(pid, Mode::Silent);
        testbed.network.name_server.set_for(pid, Mode::Silent);
        Testbed::wait_out();
        testbed.network.broker.set(Mode::Pass);
        testbed.network.name_server.set(Mode::Pass);
    });
}

/// It stores what it is sent, and nobody hears of it: neither producers nor consumers.
#[test]
fn the_brokers_answers_are_lost() {
    play(&SILENT, |testbed| {
        testbed.network.broker.set(Mode::MuteAnswers);
        Testbed::wait_out();
        // The connections have lost parts of what was said: they are of no use any more.
        testbed.network.broker.set(Mode::Cut);
        testbed.network.broker.set(Mode::Pass);
    });
}

/// Whoever knows the broker already does not need it.
#[test]
fn the_name_server_is_killed() {
    play(&NAME_SERVER_KILLED, |testbed| {
        testbed.engines.kill("rocketmq-namesrv");
        Testbed::wait_out();
        testbed.engines.up(&["rocketmq-namesrv"]);
    });
}

/// Filled by somebody else, faster than any look at it. What the broker is then, in whichever of its threads it met the
/// end, is anybody's guess: one that flushes nothing any more, or one whose queues miss what it has stored. It goes on
/// so for a while when there is room again; then an operator restarts it, and it forgets what came after the fault.
#[test]
fn the_brokers_disk_is_full() {
    play(&DISK_FULL, |testbed| {
        let disk = testbed.small_disk.as_ref().expect("the scenario has one");
        disk.fill();
        Testbed::wait_out();
        disk.free();
        Testbed::wait_out();
        disk.restart();
    });
}

/// Half of them, and all gates with them, which wait for what was in these queues until they are back.
#[test]
fn queues_are_removed_and_redis_is_wiped() {
    play(&QUEUES_REMOVED, |testbed| {
        let broker = testbed.engines.address("rocketmq-broker");
        testbed.engines.freeze("mariadb");
        testbed.load.wait_for_orders(50, Duration::from_secs(60));
        topic::resize(&broker, &testbed.topic, 4);
        testbed.engines.thaw("mariadb");
        assert_eq!(redis_cli(testbed.engines, "redis", &["flushall"]).trim(), "OK");
        Testbed::wait_out();
        topic::resize(&broker, &testbed.topic, 8);
    });
}

/// Copies of the orders so far, in no order, on whatever queue comes next: what a broker does that delivers again.
#[test]
fn messages_are_delivered_twice_and_out_of_order() {
    play(&TWICE_AND_OUT_OF_ORDER, |testbed| {
        let options = Options {
            name_servers: vec![testbed.engines.address("rocketmq-namesrv")],
            group: "faults".to_owned(),
            send_timeout: Duration::from_secs(5),
            security: Security::default(),
        };
        let (mut producer, mut consumer) =
            (Producer::new(options.clone()), Consumer::new(options, &testbed.topic));
        let mut offsets: Vec<_> = consumer.queues().unwrap().into_iter().map(|queue| (queue, 0)).collect();
        let (mut seen, mut originals) = (HashSet::new(), Vec::new());
        let (mut random, mut copies) = (Random(7), 0);
        let began = Instant::now();
        while began.elapsed() < Testbed::outage() {
            let pulled = match consumer.pull(&offsets, PULL_MAX, PULL_WAIT) {
                // Not connected yet, say.
                Err(error) if error.is_retryable() => continue,
                pulled => pulled.unwrap(),
            };
            for pulled in pulled {
                for (_, body) in pulled.messages {
                    if seen.insert(body.clone()) {
                        originals.push(body);
                    }
                }
                let (_, offset) = offsets.iter_mut().find(|(queue, _)| *queue == pulled.queue).unwrap();
                *offset = pulled.next_offset;
            }
            let copies_now = if originals.is_empty() { 0 } else { COPIES };
            let batch: Vec<&[u8]> = (0..copies_now)
                .map(|_| &*originals[usize::try_from(random.below(originals.len() as u64)).unwrap()])
                .collect();
            send(&mut producer, &testbed.topic, &batch);
            copies += batch.len();
        }
        assert!(copies > originals.len(), "only {copies} copies of {} messages", originals.len());
    });
}
