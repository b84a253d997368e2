//! Who may write: tasks, queues, and the two kinds of ledger.

use std::time::{Duration, Instant};

use engine::UnixMs;
use mysql::prelude::Queryable;
use server::ledger::mysql::cluster::{
    Holder, LedgerError, QUEUE_LEASE_MS, QueueRow, ServerClock, SharedLedger,
};
use server::ledger::mysql::{MySqlLedger, OpenError};
use server::ledger::{EndpointChange, EndpointProgress, Source, StoredEndpoint};

use super::{START, assert_sound, one_sku, open, orders, progress};
use crate::places::Database;

const NOW: UnixMs = UnixMs(START);
const TASK: &str = "reconcile";
/// Longer than any test: how busy the machine is decides nothing.
const LONG_MS: u64 = 600_000;

/// Asks again and again, within a bound.
fn until<T>(mut ask: impl FnMut() -> Option<T>) -> (T, Duration) {
    let started = Instant::now();
    loop {
        if let Some(found) = ask() {
            return (found, started.elapsed());
        }
        assert!(started.elapsed() < Duration::from_secs(20), "it does not come");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_task_is_taken_over_when_its_time_is_over_and_the_old_holder_writes_nothing_more() {
    let (mut first, database) = open();
    one_sku(&mut first, 100, None);
    let lease = first.lease(TASK, 1, LONG_MS).unwrap().unwrap();
    assert_eq!(first.lease(TASK, 1, LONG_MS).unwrap(), Some(lease.clone()), "kept, with the same generation");
    first.fence_with(Some(lease.clone()));
    first.consume(NOW, &[], &orders(0..2)).unwrap();
    let mut second = first.another();
    assert_eq!(second.lease(TASK, 2, LONG_MS).unwrap(), None, "it is the first one's still");
    // Its time is over sooner than it can be kept again.
    assert_eq!(first.lease(TASK, 1, 1).unwrap(), Some(lease.clone()));
    let (taken, _) = until(|| second.lease(TASK, 2, LONG_MS).unwrap());
    assert_eq!(taken.generation, lease.generation + 1);
    let refused = first.consume(NOW, &[], &orders(2..4));
    assert!(matches!(refused, Err(LedgerError::Fenced(_))), "{refused:?}");
    let refused = first.raise_epochs(&[engine::SkuId(0)]);
    assert!(matches!(refused, Err(LedgerError::Fenced(_))), "{refused:?}");
    assert_eq!(first.lease(TASK, 1, LONG_MS).unwrap(), None);
    first.release(&lease).unwrap();
    second.fence_with(Some(taken.clone()));
    second.consume(NOW, &[], &orders(4..5)).unwrap();
    second.release(&taken).unwrap();
    assert!(first.lease(TASK, 1, LONG_MS).unwrap().is_some(), "it was given back");
    assert_eq!(assert_sound(&database).orders, 3);
}

#[test]
fn a_task_that_would_end_sooner_is_renewed_by_its_holder_alone() {
    let (mut first, database) = open();
    let mut second = first.another();
    let lease = first.lease(TASK, 1, LONG_MS).unwrap();
    let until = || -> i64 {
        let row = database.connection().query_first("SELECT leased_until FROM leases").unwrap();
        row.expect("there is one task")
    };
    let given = until();
    database.connection().query_drop("UPDATE leases SET leased_until = leased_until - 1000").unwrap();
    assert_eq!(second.lease(TASK, 2, LONG_MS).unwrap(), None);
    assert_eq!(until(), given - 1_000);
    assert_eq!(first.lease(TASK, 1, LONG_MS).unwrap(), lease, "with the same generation");
    assert!(until() >= given, "{} of {given}", until());
}

#[test]
fn how_far_the_endpoints_have_come_is_stored_by_the_holder_of_the_task_and_changed_by_any() {
    const WEBHOOKS: &str = "webhooks";
    let (mut first, database) = open();
    one_sku(&mut first, 100, None);
    first.consume(NOW, &[], &orders(0..2)).unwrap();
    let mut reader = Source::MySql(Box::new(database.options.clone())).event_reader().unwrap();
    let last = reader.last().unwrap();
    first.know_endpoints(&["shop", "other"]).unwrap();
    let stored = |sent_to, disabled| Some(StoredEndpoint { sent_to, disabled, waiting: Vec::new() });
    assert_eq!(reader.endpoint("shop").unwrap(), stored(last, false), "it begins now");
    let lease = first.lease(WEBHOOKS, 1, LONG_MS).unwrap().unwrap();
    let progress =
        |sent_to| [("shop".to_owned(), EndpointProgress { sent_to, ..EndpointProgress::default() })];
    first.note_progress(&lease, &progress(last + 5)).unwrap();
    first.know_endpoints(&["shop"]).unwrap();
    assert_eq!(reader.endpoint("shop").unwrap(), stored(last + 5, false), "it is known already");
    let mut second = first.another();
    let change = |change| [("shop".to_owned(), change)];
    second.change_endpoints(WEBHOOKS, &change(EndpointChange::Replay { since: 1 })).unwrap();
    second.change_endpoints(WEBHOOKS, &change(EndpointChange::Disable)).unwrap();
    assert_eq!(reader.endpoint("shop").unwrap(), stored(1, true));
    let refused = first.note_progress(&lease, &progress(last + 6));
    assert!(matches!(refused, Err(LedgerError::Fenced(_))), "{refused:?}");
    assert_eq!(reader.endpoint("shop").unwrap(), stored(1, true));
    let again = first.lease(WEBHOOKS, 1, LONG_MS).unwrap().unwrap();
    assert!(again.generation > lease.generation, "so that it reads anew");
    first.note_progress(&again, &progress(last + 6)).unwrap();
    assert_eq!(reader.endpoint("shop").unwrap(), stored(last + 6, false));
    assert_eq!(reader.endpoint("other").unwrap(), stored(last, false));
}

/// The database's clock was set back by an hour: what dead servers hold would be theirs for that hour.
#[test]
fn what_was_leased_before_the_databases_clock_went_back_is_over() {
    let (mut first, database) = open();
    let queues: Vec<(String, u64)> = (0..4).map(|number| (format!("broker/{number}"), 0)).collect();
    let held = first.lease(TASK, 1, LONG_MS).unwrap().unwrap();
    first.heartbeat(1, "a:1").unwrap();
    assert_eq!(first.lease_queues(1, &queues).unwrap().len(), 4);
    for (table, column) in
        [("leases", "leased_until"), ("queue_offsets", "leased_until"), ("servers", "alive_at")]
    {
        let later = format!("UPDATE {table} SET {column} = {column} + 3600000");
        database.connection().query_drop(later).unwrap();
    }
    let mut second = first.another();
    let taken = second.lease(TASK, 2, LONG_MS).unwrap().unwrap();
    assert_eq!((taken.owner, taken.generation), (2, held.generation + 1));
    assert!(second.queue_rows().unwrap().iter().all(|row| row.holder == Holder::Nobody));
    assert_eq!(second.lease_queues(2, &queues).unwrap().len(), 4);
}

#[test]
fn each_server_hears_what_the_others_say_of_their_clocks_while_it_is_true() {
    let (mut first, database) = open();
    let mut second = first.another();
    assert_eq!(first.compare_clocks(1, 7).unwrap(), [], "without a sign of life it says nothing");
    first.heartbeat(1, "a:1").unwrap();
    second.heartbeat(2, "b:1").unwrap();
    assert_eq!(first.compare_clocks(1, -86_400_000).unwrap(), []);
    let of_first = ServerClock { server: 1, address: "a:1".into(), ahead_ms: -86_400_000 };
    assert_eq!(second.compare_clocks(2, 3).unwrap(), [of_first]);
    for step in ["- 4000", "+ 3600000"] {
        let moved = format!("UPDATE servers SET clock_said_at = clock_said_at {step} WHERE id = 1");
        database.connection().query_drop(moved).unwrap();
        assert_eq!(second.compare_clocks(2, 3).unwrap(), [], "the database's clock has gone on, or back");
    }
    let time = second.time().unwrap();
    assert!(time.between.0 <= time.between.1 && time.at > UnixMs(START), "{time:?}");
}

#[test]
fn queues_are_shared_and_taken_over_from_a_server_that_is_gone() {
    let (mut first, database) = open();
    one_sku(&mut first, 100, None);
    let queues: Vec<(String, u64)> = (0..8).map(|number| (format!("broker/{number}"), 0)).collect();
    let mut second = first.another();
    let all = first.lease_queues(1, &queues).unwrap();
    assert_eq!(all.len(), 8);
    let others = second.lease_queues(2, &queues).unwrap();
    assert_eq!(others.len(), 4);
    // The first has not heard of it yet, and moves nothing that is another's now.
    let lost = all.iter().find(|one| one.queue == others[0].queue).unwrap();
    let refused = first.consume(NOW, &[progress(lost, 1, 0, 3)], &orders(0..3));
    assert!(matches!(refused, Err(LedgerError::Fenced(_))), "{refused:?}");
    let mine = first.lease_queues(1, &queues).unwrap();
    assert_eq!(mine.len(), 4);
    first.consume(NOW, &[progress(&mine[0], 1, 0, 3)], &orders(0..3)).unwrap();
    // The first server is gone without a word.
    let (all, after) = until(|| {
        let all = second.lease_queues(2, &queues).unwrap();
        (all.len() == 8).then_some(all)
    });
    // Less than two leases: what is beyond the one is for a busy machine.
    assert!(after < Duration::from_millis(2 * QUEUE_LEASE_MS), "{after:?}");
    assert_eq!(all.iter().find(|one| one.queue == mine[0].queue).unwrap().next_offset, 3);
    // It comes back, and does not know.
    let refused = first.consume(NOW, &[progress(&mine[0], 1, 3, 4)], &orders(3..4));
    assert!(matches!(refused, Err(LedgerError::Fenced(_))), "{refused:?}");
    second.leave(2).unwrap();
    assert_eq!(first.lease_queues(1, &queues).unwrap().len(), 8, "free at once");
    assert_sound(&database);
}

#[test]
fn a_retired_queue_is_taken_from_its_reader_and_goes_on_where_it_stood_when_it_is_back() {
    let (mut server, database) = open();
    one_sku(&mut server, 100, None);
    let both = [("broker/0".to_owned(), 0), ("broker/1".to_owned(), 0)];
    let mine = server.lease_queues(1, &both).unwrap();
    server.consume(NOW, &[progress(&mine[1], 1, 0, 3)], &orders(0..3)).unwrap();
    let mut operator = server.another();
    let row = |ledger: &mut SharedLedger| ledger.queue_rows().unwrap().remove(1);
    let held = row(&mut operator);
    assert_eq!((held.queue.as_str(), held.next_offset), ("broker/1", 3));
    assert!(matches!(held.holder, Holder::Server(_)), "{held:?}");
    assert!(!operator.retire_queue(&held).unwrap(), "a server reads it");

    // The topic has only the other one now: its reader keeps that, and this lease runs out.
    let (free, _) = until(|| {
        server.lease_queues(1, &both[..1]).unwrap();
        Some(row(&mut operator)).filter(|row| row.holder == Holder::Nobody)
    });
    let stale = QueueRow { next_offset: 2, ..free.clone() };
    assert!(!operator.retire_queue(&stale).unwrap(), "it stands elsewhere");
    assert!(operator.retire_queue(&free).unwrap());
    assert!(operator.retire_queue(&free).unwrap(), "as after a lost answer");
    assert!(row(&mut operator).is_retired());
    let refused = server.consume(NOW, &[progress(&mine[1], 1, 3, 4)], &orders(3..4));
    assert!(matches!(refused, Err(LedgerError::Fenced(_))), "{refused:?}");

    let (back, _) = until(|| Some(server.lease_queues(1, &both).unwrap()).filter(|mine| mine.len() == 2));
    assert_eq!(back[1].next_offset, 3);
    server.consume(NOW, &[progress(&back[1], 1, 3, 4)], &orders(3..4)).unwrap();
    assert!(matches!(row(&mut operator).holder, Holder::Server(_)));
    assert_eq!(assert_sound(&database).orders, 4);
}

#[test]
fn a_ledger_is_the_clusters_or_the_embedded_writers() {
    let database = Database::shared();
    let secret = SharedLedger::open(&database.options).unwrap().id_secret().unwrap();
    assert_ne!(secret, [0; 16]);
    assert_eq!(SharedLedger::open(&database.options).unwrap().id_secret().unwrap(), secret);
    let error = MySqlLedger::open(database.options.clone()).unwrap_err();
    assert!(matches!(error, OpenError::Profile { found: "cluster", wanted: "embedded", .. }), "{error}");
    let database = Database::shared();
    MySqlLedger::open(database.options.clone()).unwrap();
    let error = SharedLedger::open(&database.options).unwrap_err();
    assert!(matches!(error, OpenError::Profile { found: "embedded", wanted: "cluster", .. }), "{error}");
    MySqlLedger::open(database.options.clone()).unwrap();
}
