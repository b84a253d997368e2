use std::collections::BTreeMap;

use engine::UnixMs;

use super::retire::{RetireError, check};
use super::*;
use crate::queue::BrokerQueues;

fn queue(name: &str) -> Queue {
    name.parse().unwrap()
}

fn row(name: &str, next_offset: u64, holder: Holder) -> QueueRow {
    QueueRow { queue: name.to_owned(), next_offset, generation: 1, holder }
}

fn answers(read: u32, write: u32, ends: &[(u32, u64)]) -> Result<BrokerQueues, String> {
    let messages = ends.iter().map(|(number, end)| (*number, 0..*end)).collect();
    Ok(BrokerQueues { read, write, messages })
}

fn survey(brokers: Vec<(&str, Result<BrokerQueues, String>)>) -> Survey {
    let brokers: BTreeMap<_, _> = brokers.into_iter().map(|(name, said)| (name.to_owned(), said)).collect();
    Survey { brokers }
}

/// A topic of two queues on one broker, after it was shrunk from three; the third stands so in the ledger and there.
fn shrunk(next_offset: u64, end: u64, holder: Holder) -> Queues {
    let rows = vec![
        row("a/0", 5, Holder::Server("one".into())),
        row("a/1", 5, Holder::Nobody),
        row("a/2", next_offset, holder),
    ];
    join(rows, &survey(vec![("a", answers(2, 2, &[(0, 5), (1, 7), (2, end)]))]))
}

#[test]
fn a_removed_queue_that_was_consumed_keeps_nothing_waiting() {
    let queues = shrunk(9, 9, Holder::Nobody);
    assert_eq!(queues.sights[2].condition, QueueCondition::Removed);
    assert_eq!(queues.ends(), Ok(vec![(queue("a/0"), 5), (queue("a/1"), 7)]));
    let [fault] = &Faults::of(&queues).all()[..] else { panic!("one fault") };
    assert!(fault.starts_with("queue a/2 is no longer in the topic"), "{fault}");
    assert!(fault.contains("doorbuster queues retire a/2"), "{fault}");
}

#[test]
fn a_removed_queue_with_messages_blocks_until_it_is_retired_or_comes_back() {
    let queues = shrunk(6, 9, Holder::Nobody);
    let fault = queues.ends().unwrap_err().blocking().unwrap();
    assert!(fault.contains("queue a/2 is no longer in the topic, with 3 message(s)"), "{fault}");
    assert!(fault.contains("retire --with-unread a/2"), "{fault}");
    // Its broker began anew: what was there can't be known any more.
    let fault = shrunk(6, 0, Holder::Nobody).ends().unwrap_err().blocking().unwrap();
    assert!(fault.contains("has lost what was there"), "{fault}");
    let retired = shrunk(6, 9, Holder::Retired { at: UnixMs(1) });
    assert_eq!(retired.ends().map(|ends| ends.len()), Ok(2));
    assert_eq!(Faults::of(&retired).all(), Vec::<String>::new());
    let back = join(
        vec![row("a/0", 6, Holder::Retired { at: UnixMs(1) })],
        &survey(vec![("a", answers(1, 1, &[(0, 9)]))]),
    );
    assert_eq!(back.ends(), Ok(vec![(queue("a/0"), 9)]), "what is in the topic again counts again");
}

#[test]
fn a_broker_that_does_not_answer_has_its_queues_still() {
    let rows = || vec![row("a/0", 5, Holder::Nobody), row("b/0", 5, Holder::Nobody)];
    let dead = || Err("no name server knows it".to_owned());
    let queues = join(rows(), &survey(vec![("a", answers(1, 1, &[(0, 5)])), ("b", dead())]));
    let fault = queues.ends().unwrap_err().blocking().unwrap();
    assert!(fault.contains("the broker b") && fault.contains("no name server knows it"), "{fault}");
    let refused = check(&queues, &queue("b/0"), true).unwrap_err();
    assert!(matches!(refused, RetireError::Silent { .. }), "{refused}");
    // Nor may anything be retired while one is silent: it may have the queue.
    let queues =
        join(rows(), &survey(vec![("a", answers(0, 0, &[(0, 5)])), ("b", Err("frozen".to_owned()))]));
    let refused = check(&queues, &queue("a/0"), true).unwrap_err();
    assert!(matches!(&refused, RetireError::Silent { broker, .. } if broker == "b"), "{refused}");
}

#[test]
fn a_queue_that_takes_messages_and_gives_none_is_named() {
    let rows = vec![row("a/0", 5, Holder::Nobody), row("a/1", 5, Holder::Nobody)];
    let queues = join(rows, &survey(vec![("a", answers(1, 2, &[(0, 5), (1, 6)]))]));
    let fault = queues.ends().unwrap_err().blocking().unwrap();
    assert!(fault.contains("queue a/1 is written to and can't be read"), "{fault}");
    assert!(matches!(check(&queues, &queue("a/1"), true), Err(RetireError::InTopic(_))));
}

#[test]
fn only_a_queue_that_is_gone_and_read_by_nobody_is_retired() {
    let check = |queues: Queues, name: &str, with_unread| check(&queues, &queue(name), with_unread);
    assert!(check(shrunk(9, 9, Holder::Nobody), "a/2", false).is_ok());
    assert!(check(shrunk(6, 0, Holder::Nobody), "a/2", false).is_ok(), "nothing is left to be consumed");
    let unread = check(shrunk(6, 9, Holder::Nobody), "a/2", false);
    assert!(matches!(unread, Err(RetireError::Unread { waiting: 3, .. })), "{unread:?}");
    assert!(check(shrunk(6, 9, Holder::Nobody), "a/2", true).is_ok());
    let held = check(shrunk(9, 9, Holder::Server("one".into())), "a/2", true);
    assert!(matches!(held, Err(RetireError::Held { .. })), "{held:?}");
    let before = check(shrunk(9, 9, Holder::Retired { at: UnixMs(1) }), "a/2", true);
    assert!(matches!(before, Err(RetireError::Before(_))), "{before:?}");
    assert!(matches!(check(shrunk(9, 9, Holder::Nobody), "a/1", true), Err(RetireError::InTopic(_))));
    assert!(matches!(check(shrunk(9, 9, Holder::Nobody), "a/7", true), Err(RetireError::Unknown(_))));
}

#[test]
fn many_queues_are_counted_and_not_listed() {
    let rows = (0..20).map(|number| row(&format!("a/{number:02}"), 1, Holder::Nobody)).collect();
    let ends: Vec<_> = (0..20).map(|number| (number, 1)).collect();
    let text = Faults::of(&join(rows, &survey(vec![("a", answers(0, 0, &ends))]))).all().concat();
    assert!(text.contains("a/7, and 12 more are no longer in the topic"), "{text}");
}

#[test]
fn a_queue_that_lost_messages_is_waited_for_until_it_is_read_again() {
    let ends = |next, holder| {
        join(vec![row("a/0", next, holder)], &survey(vec![("a", answers(1, 1, &[(0, 5)]))])).ends()
    };
    let server = || Holder::Server("one".into());
    assert_eq!(ends(5, server()), Ok(vec![(queue("a/0"), 5)]));
    let fault = ends(6, server()).unwrap_err().blocking().unwrap();
    assert_eq!(fault, "queue a/0 is about to be read again, for the broker has lost messages");
    assert!(ends(6, Holder::Retired { at: UnixMs(1) }).is_ok());
}
