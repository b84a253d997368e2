//! Several connections and threads: cuts and readers beside a writer.

use std::sync::atomic::{AtomicI64, Ordering};
use std::thread;

use rusqlite::Connection;

use crate::{Bed, checkpoint, ids, ids_in, place};

const ROWS: i64 = 120;

/// The power is cut again and again under a writer at work; each image holds what was committed before the cut.
#[test]
fn power_cuts_beside_a_writer_lose_no_committed_row() {
    let bed = Bed::new("beside");
    bed.vfs.record_unsynced(true);
    let connection = bed.open_checkpointed("FULL");
    let committed = AtomicI64::new(0);
    let (committed_by, mut seed) = (&committed, 0);
    thread::scope(|scope| {
        // The connection moves into the thread: its end, a close with a checkpoint, is under the cuts as well.
        let writer = scope.spawn(move || {
            for id in 1..=ROWS {
                place(&connection, id).unwrap();
                committed_by.store(id, Ordering::SeqCst);
                if id % 10 == 0 {
                    checkpoint(&connection).unwrap();
                }
            }
        });
        while !writer.is_finished() {
            seed += 1;
            let before = committed.load(Ordering::SeqCst);
            let image = bed.image(&format!("cut-{seed}"));
            bed.vfs.power_cut(seed, &image).unwrap();
            let found = ids_in(&image).unwrap_or_else(|damage| panic!("seed {seed}: {damage}"));
            let last = i64::try_from(found.len()).unwrap();
            assert!(last >= before && found.iter().copied().eq(1..=last), "seed {seed}: {before}, {found:?}");
        }
    });
    assert!(seed > 0 && committed.into_inner() == ROWS);
}

/// Shared memory and locks are those of the unix VFS: a reader without the shim sees the same database.
#[test]
fn connections_with_and_without_the_shim_share_a_database() {
    let bed = Bed::new("share");
    let writer = bed.open_checkpointed("FULL");
    let reader = Connection::open(bed.database()).unwrap();
    let second = bed.open("FULL").unwrap();
    for id in 1..=3 {
        place(&writer, id).unwrap();
        let expected: Vec<i64> = (1..=id).collect();
        assert_eq!(ids(&reader).unwrap(), expected);
        assert_eq!(ids(&second).unwrap(), expected);
    }
    writer.execute_batch("BEGIN IMMEDIATE").unwrap();
    reader.busy_timeout(std::time::Duration::ZERO).unwrap();
    assert!(place(&reader, 4).unwrap_err().to_string().contains("locked"));
}

#[test]
#[should_panic(expected = "record before the first connection opens")]
fn recording_does_not_start_under_an_open_connection() {
    let bed = Bed::new("late");
    let _connection = bed.open_checkpointed("FULL");
    bed.vfs.record_unsynced(true);
}

#[test]
fn without_a_record_there_is_no_image() {
    let bed = Bed::new("no-record");
    let _connection = bed.open_checkpointed("FULL");
    assert!(bed.vfs.power_cut(1, &bed.image("cut")).is_err());
    assert!(bed.vfs.process_kill(&bed.image("killed")).is_err());
}

#[test]
#[should_panic(expected = "is taken")]
fn a_name_is_registered_once() {
    let bed = Bed::new("taken");
    faultvfs::FaultVfs::register(&bed.vfs_name);
}
