//! The queue on a real broker.

mod access;
mod conformance;
mod faults;
mod peer;

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use server::queue::{
    Admin, AdminError, BrokerQueues, Consumer, Options, Producer, PullError, Queue, Security,
};

use crate::engines::Engines;

/// Far more than a send takes on the busiest machine: in most tests it is no more than a bound.
const SEND_TIMEOUT: Duration = Duration::from_secs(10);
/// Everything that is expected to come comes within this time, or the test fails.
const PATIENCE: Duration = Duration::from_secs(20);

/// Number of the request that changes a broker's settings; its body has a line for each.
const UPDATE_BROKER_CONFIG: i64 = 25;
/// Answer of a broker to a request in which it threw.
const SYSTEM_ERROR: i32 = 1;

fn options(engines: &Engines) -> Options {
    Options {
        name_servers: vec![engines.address("rocketmq-namesrv")],
        group: "doorbuster-test".into(),
        send_timeout: SEND_TIMEOUT,
        security: Security::default(),
    }
}

/// What is asked of brokers, asked as servers do: again, of one that does not answer in time, or that fails. For its first
/// second a broker throws at who asks for its state, since it has measured nothing yet.
fn asked<T>(options: &Options, ask: impl Fn(&mut Admin) -> Result<T, AdminError>) -> Result<T, AdminError> {
    let deadline = Instant::now() + PATIENCE;
    let mut admin = Admin::new(options.clone());
    loop {
        match ask(&mut admin) {
            Err(AdminError::Unreachable(_) | AdminError::Refused { code: SYSTEM_ERROR, .. })
                if Instant::now() < deadline => {}
            answered => return answered,
        }
    }
}

fn create_topic(options: &Options, topic: &str) -> Result<(), AdminError> {
    asked(options, |admin| admin.create_topics(&[topic]))
}

/// What the only master says of its settings.
fn settings(options: &Options) -> String {
    let said = asked(options, |admin| {
        let said = admin.settings()?.remove(0);
        let silent = said.settings.iter().find_map(|setting| setting.value.as_ref().err()).cloned();
        silent.filter(|why| is_silence(why)).map_or(Ok(said), |why| Err(AdminError::Unreachable(why)))
    });
    said.unwrap().to_string()
}

/// What broker-a says of a topic's queues and of a further one.
fn survey(options: &Options, topic: &str, further: &Queue) -> BrokerQueues {
    let said = asked(options, |admin| match admin.survey(topic, [further])?.brokers.remove("broker-a") {
        Some(Err(why)) if is_silence(&why) => Err(AdminError::Unreachable(why)),
        said => Ok(said),
    });
    said.unwrap().unwrap().unwrap()
}

/// Of several brokers, one that does not answer is reported in words.
fn is_silence(why: &str) -> bool {
    why.starts_with("unreachable: ")
}

/// A topic, made now, and both ends of it.
fn topic(engines: &Engines, topic: &str) -> (Producer, Consumer) {
    let options = options(engines);
    create_topic(&options, topic).unwrap();
    (Producer::new(options.clone()), Consumer::new(options, topic))
}

/// All queues from their beginnings.
fn beginnings(consumer: &mut Consumer) -> Vec<(Queue, u64)> {
    consumer.queues().unwrap().into_iter().map(|queue| (queue, 0)).collect()
}

type Bodies = BTreeMap<Queue, Vec<Vec<u8>>>;

/// Reads from the wanted offsets on until so many messages have come.
fn read(consumer: &mut Consumer, wants: &[(Queue, u64)], count: usize) -> Bodies {
    let mut wants: BTreeMap<Queue, u64> = wants.iter().cloned().collect();
    let mut bodies = Bodies::new();
    let deadline = Instant::now() + PATIENCE;
    let mut left = count;
    while left > 0 {
        assert!(Instant::now() < deadline, "{left} of {count} messages did not come");
        let asked: Vec<_> = wants.clone().into_iter().collect();
        let pulled = match consumer.pull(&asked, 500, Duration::from_secs(1)) {
            Err(PullError::Unreachable(_)) => continue,
            pulled => pulled.unwrap(),
        };
        for pulled in pulled {
            let want = wants.get_mut(&pulled.queue).unwrap();
            for (offset, body) in pulled.messages {
                assert_eq!(offset, *want);
                *want += 1;
                left = left.checked_sub(1).expect("no more messages than were sent");
                bodies.entry(pulled.queue.clone()).or_default().push(body.into());
            }
            assert_eq!(pulled.next_offset, *want);
        }
    }
    bodies
}

/// Sends a request that the client does not know, and expects success.
fn operate(address: &str, code: i64, body: &[u8]) {
    let answer = ask(address, code, "", body).unwrap();
    assert!(answer.contains(r#""code":0"#), "{answer}");
}

/// The answer to a request on a connection of its own.
fn ask(address: &str, code: i64, fields: &str, body: &[u8]) -> io::Result<String> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.write_all(&peer::frame(code, 1, 0, fields, body))?;
    let mut length = [0; 4];
    stream.read_exact(&mut length)?;
    let mut answer = vec![0; u32::from_be_bytes(length) as usize];
    stream.read_exact(&mut answer)?;
    Ok(String::from_utf8_lossy(&answer).into())
}
