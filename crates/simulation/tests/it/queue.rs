//! The queue in memory beside a real broker: each test runs on both.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use server::queue::{
    Admin, AdminError, Administer, BATCH_BYTES_MAX, BATCH_MESSAGES_MAX, Consume, Consumer, Options, Produce,
    Producer, PullError, Queue, Security, SendError, Unavailable,
};
use simulation::queue::Brokers;

use crate::engines::Engines;
use crate::history::Random;

const BROKER: &str = "broker-a";
const QUEUES: u32 = 8;
/// Everything that is expected to come comes within this time, or the test fails.
const PATIENCE: Duration = Duration::from_secs(30);

/// A way to the brokers: the real ones first.
struct Ends {
    produce: Box<dyn Produce>,
    consume: Box<dyn Consume>,
    administer: Box<dyn Administer>,
    topic: String,
}

fn real(engines: &Engines, topic: &str) -> Ends {
    let options = Options {
        name_servers: vec![engines.address("rocketmq-namesrv")],
        group: "doorbuster-test".into(),
        send_timeout: Duration::from_secs(10),
        security: Security::default(),
    };
    Ends {
        produce: Box::new(Producer::new(options.clone())),
        consume: Box::new(Consumer::new(options.clone(), topic)),
        administer: Box::new(Admin::new(options)),
        topic: topic.to_owned(),
    }
}

fn simulated(brokers: &Brokers, topic: &str) -> Ends {
    let end = || brokers.connect("a-server", topic);
    Ends {
        produce: Box::new(end()),
        consume: Box::new(end()),
        administer: Box::new(end()),
        topic: topic.to_owned(),
    }
}

/// Of a topic of its own, which is not made yet.
fn each(topic: &str, test: impl Fn(Ends)) {
    test(real(Engines::shared(&["rocketmq"]), topic));
    test(simulated(&Brokers::new(&[BROKER], QUEUES, 1), topic));
}

fn each_with_topic(topic: &str, test: impl Fn(Ends)) {
    each(topic, |mut ends| {
        ends.create();
        test(ends);
    });
}

impl Ends {
    /// Asked as servers do: again, of a broker that does not answer in time, or that has just begun.
    fn asked<T>(&mut self, ask: impl Fn(&mut dyn Administer) -> Result<T, AdminError>) -> T {
        let deadline = Instant::now() + PATIENCE;
        loop {
            match ask(&mut *self.administer) {
                Ok(answer) => return answer,
                Err(error) => assert!(Instant::now() < deadline, "{error}"),
            }
        }
    }

    fn create(&mut self) {
        let topic = self.topic.clone();
        self.asked(|admin| admin.create_topics(&[&topic]));
    }

    /// What surely was not sent is sent again, as servers do.
    fn send(&mut self, bodies: &[Vec<u8>]) {
        let bodies: Vec<&[u8]> = bodies.iter().map(Vec::as_slice).collect();
        let deadline = Instant::now() + PATIENCE;
        while let Err(error) = self.produce.send(&self.topic, &bodies) {
            assert!(matches!(error, SendError::NotSent(_)) && Instant::now() < deadline, "{error}");
        }
    }

    /// All queues from their beginnings; asked as servers do.
    fn beginnings(&mut self) -> BTreeMap<Queue, u64> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            match self.consume.queues() {
                Err(PullError::Unreachable(error)) => assert!(Instant::now() < deadline, "{error}"),
                queues => return queues.unwrap().into_iter().map(|queue| (queue, 0)).collect(),
            }
        }
    }

    /// Reads on until so many messages have come, with each call at most `max` and one answer of a broker.
    fn read(&mut self, wants: &mut BTreeMap<Queue, u64>, count: usize, max: usize) -> Bodies {
        let (mut bodies, mut left, deadline) = (Bodies::new(), count, Instant::now() + PATIENCE);
        while left > 0 {
            assert!(Instant::now() < deadline, "{left} of {count} messages did not come");
            let asked: Vec<_> = wants.clone().into_iter().collect();
            let pulled = match self.consume.pull(&asked, max, Duration::from_secs(1)) {
                Err(PullError::Unreachable(_)) => continue,
                pulled => pulled.unwrap(),
            };
            let came: usize = pulled.iter().map(|pulled| pulled.messages.len()).sum();
            assert!(came < 2 * max, "{came} messages");
            for pulled in pulled {
                let want = wants.get_mut(&pulled.queue).unwrap();
                assert!(!pulled.messages.is_empty() && pulled.misplaced == 0);
                for (offset, body) in pulled.messages {
                    assert_eq!(offset, *want, "no gap in {}", pulled.queue);
                    *want += 1;
                    left = left.checked_sub(1).expect("no more messages than were sent");
                    bodies.entry(pulled.queue.clone()).or_default().push(body.into());
                }
                assert_eq!(pulled.next_offset, *want);
            }
        }
        bodies
    }

    fn pull(&mut self, queue: &Queue, offset: u64) -> Result<usize, PullError> {
        let pulled = self.consume.pull(&[(queue.clone(), offset)], 100, Duration::from_millis(300))?;
        Ok(pulled.iter().map(|pulled| pulled.messages.len()).sum())
    }
}

type Bodies = BTreeMap<Queue, Vec<Vec<u8>>>;

#[test]
fn what_is_sent_is_read_once_each_in_its_order_and_again() {
    each_with_topic("simulated-order", |mut ends| {
        let mut random = Random(7);
        let mut number = 0_u32;
        let mut batches = Vec::new();
        for _ in 0..60 {
            let size = 1 + random.below(80);
            let body = |_| {
                number += 1;
                [&number.to_be_bytes()[..], &vec![7; random.below(900) as usize]].concat()
            };
            batches.push((0..size).map(body).collect::<Vec<_>>());
        }
        for batch in &batches {
            ends.send(batch);
        }
        let sent: BTreeSet<Vec<u8>> = batches.iter().flatten().cloned().collect();
        let mut wants = ends.beginnings();
        assert_eq!(wants.len() as u32, QUEUES);
        let bodies = ends.read(&mut wants, sent.len(), 50);
        assert!(bodies.values().all(|queue| queue.is_sorted_by_key(|body| body[..4].to_vec())));
        assert_eq!(bodies.values().flatten().cloned().collect::<BTreeSet<_>>(), sent);
        // A batch is in one queue.
        let of = |body: &Vec<u8>| bodies.iter().find(|(_, queue)| queue.contains(body)).unwrap().0;
        assert!(batches.iter().all(|batch| of(&batch[0]) == of(&batch[batch.len() - 1])));
        for (queue, end) in &wants {
            assert_eq!(ends.consume.max_offset(queue).unwrap(), *end, "{queue}");
            assert_eq!(ends.consume.min_offset(queue).unwrap(), 0);
        }
        // From the middle of each, once more.
        let mut middles: BTreeMap<_, _> = wants.iter().map(|(queue, end)| (queue.clone(), end / 2)).collect();
        let count: u64 = wants.values().map(|end| end - end / 2).sum();
        let again = ends.read(&mut middles, count as usize, 1_000);
        for (queue, bodies) in &bodies {
            assert_eq!(again[queue], bodies[bodies.len() / 2..], "{queue}");
        }
    });
}

#[test]
fn a_topic_that_was_never_made_takes_and_gives_nothing() {
    each("simulated-nothing", |mut ends| {
        let none = matches!(ends.produce.look("simulated-nothing"), Err(Unavailable::NoTopic(_)));
        assert!(none);
        let sent = ends.produce.send("simulated-nothing", &[b"x"]);
        assert!(matches!(sent, Err(SendError::NotSent(_))), "{sent:?}");
        let queues = ends.consume.queues();
        assert!(matches!(queues, Err(PullError::Unreachable(_))), "{queues:?}");
        let survey = ends.asked(|admin| admin.survey("simulated-nothing", &[]));
        assert_eq!(survey.brokers.len(), 0, "{survey:?}");
        let gone = Queue { broker: BROKER.to_owned(), number: 9 };
        let mut survey = ends.asked(|admin| {
            let survey = admin.survey("simulated-nothing", std::slice::from_ref(&gone))?;
            let silent = survey.brokers[BROKER].clone().err();
            silent.map_or(Ok(survey), |why| Err(AdminError::Unreachable(why)))
        });
        let queues = survey.brokers.remove(BROKER).unwrap().unwrap();
        assert_eq!((queues.read, queues.write), (0, 0));
        assert_eq!(queues.messages, BTreeMap::from([(9, 0..0)]));
    });
}

#[test]
fn what_there_is_of_a_topic_is_answered_by_its_broker() {
    each_with_topic("simulated-survey", |mut ends| {
        // To make it again is as good.
        ends.create();
        ends.send(&[vec![1], vec![2]]);
        let mut wants = ends.beginnings();
        let bodies = ends.read(&mut wants, 2, 100);
        let [used] = &bodies.keys().collect::<Vec<_>>()[..] else { panic!("{bodies:?}") };
        let further =
            [Queue { broker: BROKER.to_owned(), number: 11 }, Queue { broker: "gone".to_owned(), number: 0 }];
        let survey = ends.asked(|admin| {
            let survey = admin.survey("simulated-survey", &further)?;
            let silent = survey.brokers[BROKER].clone().err();
            silent.map_or(Ok(survey), |why| Err(AdminError::Unreachable(why)))
        });
        assert!(survey.brokers["gone"].is_err(), "nobody knows it");
        let queues = survey.brokers[BROKER].clone().unwrap();
        assert_eq!((queues.read, queues.write), (QUEUES, QUEUES));
        let expected =
            (0..QUEUES).chain([11]).map(|number| (number, 0..if number == used.number { 2 } else { 0 }));
        assert_eq!(queues.messages, expected.collect());
    });
}

#[test]
fn an_offset_that_is_not_there_is_an_error_of_its_queue_alone() {
    each_with_topic("simulated-offsets", |mut ends| {
        ends.send(&[vec![1]]);
        let mut wants = ends.beginnings();
        let bodies = ends.read(&mut wants, 1, 100);
        let used = bodies.keys().next().unwrap();
        let empty = wants.keys().find(|queue| *queue != used).unwrap();
        // At the end there is nothing yet; behind it there is a gap.
        assert_eq!(ends.pull(used, 1).unwrap(), 0);
        for (queue, wanted, expected) in [(used, 2, 1), (empty, 7, 0)] {
            let ahead = ends.pull(queue, wanted);
            let is_ahead = matches!(&ahead, Err(PullError::Ahead { queue: of, wanted: found, end })
                if of == queue && *found == wanted && *end == expected);
            assert!(is_ahead, "{ahead:?}");
        }
        // Beside a queue that has messages, whichever is named first: both are reported, and neither hides the other.
        for both in [[(used.clone(), 0), (empty.clone(), 7)], [(empty.clone(), 7), (used.clone(), 0)]] {
            let (mut messages, mut faults, deadline) = (0, 0, Instant::now() + PATIENCE);
            while messages == 0 || faults == 0 {
                assert!(Instant::now() < deadline, "{messages} messages, {faults} faults");
                match ends.consume.pull(&both, 10, Duration::from_secs(1)) {
                    Ok(pulled) => messages += pulled.len(),
                    Err(PullError::Ahead { .. }) => faults += 1,
                    Err(other) => panic!("{other}"),
                }
            }
        }
        assert_eq!(ends.pull(used, 0).unwrap(), 1, "and the other one goes on");
    });
}

#[test]
fn a_batch_has_bounds_and_an_empty_one_is_nothing() {
    each_with_topic("simulated-sizes", |mut ends| {
        for bodies in [vec![vec![0; BATCH_BYTES_MAX + 1]], vec![vec![0]; BATCH_MESSAGES_MAX + 1]] {
            let bodies: Vec<&[u8]> = bodies.iter().map(Vec::as_slice).collect();
            let sent = ends.produce.send("simulated-sizes", &bodies);
            assert!(matches!(sent, Err(SendError::NotSent(_))), "{sent:?}");
        }
        ends.send(&[]);
        ends.send(&[vec![0; BATCH_BYTES_MAX]]);
        ends.send(&vec![vec![1]; BATCH_MESSAGES_MAX]);
        let mut wants = ends.beginnings();
        ends.read(&mut wants, 1 + BATCH_MESSAGES_MAX, 500);
        assert_eq!(wants.values().sum::<u64>(), 1 + BATCH_MESSAGES_MAX as u64);
    });
}

/// What is answered while a broker is down, and once it is back with what it had.
fn a_broker_goes_and_comes_back(mut ends: Ends, set_down: impl Fn(bool)) {
    ends.create();
    ends.send(&[vec![1], vec![2]]);
    let mut wants = ends.beginnings();
    let bodies = ends.read(&mut wants, 2, 100);
    let used = bodies.keys().next().unwrap();
    set_down(true);
    // The name servers forget it; until they have, it is asked in vain.
    let deadline = Instant::now() + PATIENCE;
    while ends.consume.queues().is_ok() {
        assert!(Instant::now() < deadline, "it is still known");
    }
    assert!(ends.produce.look(&ends.topic).is_err());
    let sent = ends.produce.send(&ends.topic, &[b"x"]);
    assert!(matches!(sent, Err(SendError::NotSent(_))), "{sent:?}");
    assert!(matches!(ends.pull(used, 0), Err(PullError::Unreachable(_))));
    assert!(matches!(ends.consume.max_offset(used), Err(PullError::Unreachable(_))));
    assert!(ends.administer.create_topics(&[&ends.topic]).is_err(), "no broker is known");
    let survey = ends.administer.survey(&ends.topic, &[]).unwrap();
    assert_eq!(survey.brokers.len(), 0, "nobody knows of it");
    let survey = ends.administer.survey(&ends.topic, std::slice::from_ref(used)).unwrap();
    assert!(survey.brokers[BROKER].is_err());
    set_down(false);
    let deadline = Instant::now() + PATIENCE;
    while ends.consume.queues().is_err() {
        assert!(Instant::now() < deadline, "it is not known again");
    }
    ends.send(&[vec![3]]);
    let mut wants = wants.into_keys().map(|queue| (queue, 0)).collect();
    let again = ends.read(&mut wants, 3, 100);
    assert_eq!(again.values().flatten().map(|body| body[0]).collect::<BTreeSet<_>>(), [1, 2, 3].into());
}

#[test]
fn a_real_broker_goes_and_comes_back() {
    let engines = Engines::private(&["rocketmq"], &[]);
    a_broker_goes_and_comes_back(real(&engines, "simulated-down"), |down| match down {
        true => engines.kill("rocketmq-broker"),
        false => engines.up(&["rocketmq-broker"]),
    });
}

#[test]
fn a_broker_in_memory_goes_and_comes_back() {
    let brokers = Brokers::new(&[BROKER], QUEUES, 1);
    a_broker_goes_and_comes_back(simulated(&brokers, "simulated-down"), |down| {
        brokers.set_down(BROKER, down)
    });
}
