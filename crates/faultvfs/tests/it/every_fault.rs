//! Every operation of a short run fails once, in every way: the run sees an error, and no committed row is lost.

use faultvfs::{Effect, Fault, Operation, Which};
use rusqlite::ffi::{SQLITE_FULL, SQLITE_IOERR_FSYNC, SQLITE_IOERR_TRUNCATE, SQLITE_IOERR_WRITE};

use crate::{Bed, checkpoint, code, ids, ids_in, place, run};

/// How many operations of each kind the run consists of.
fn operations(files: Which, operation: Operation) -> u64 {
    let bed = Bed::new("count");
    let connection = bed.open_checkpointed("FULL");
    bed.vfs.reset_counts();
    run(&connection).1.unwrap();
    let counts = bed.vfs.counts_of(files);
    match operation {
        Operation::Write => counts.writes,
        Operation::Sync => counts.syncs,
        Operation::Grow => counts.grows,
        Operation::GrowIndex => counts.index_grows,
    }
}

fn check(fault: Fault) {
    let bed = Bed::new("every-fault");
    let connection = bed.open_checkpointed("FULL");
    bed.vfs.arm(fault);
    let (mut committed, result) = run(&connection);
    assert!(bed.vfs.fired() > 0, "{fault:?}");
    bed.vfs.disarm();
    // SQLite ignores a failed size hint, so only the growth of the WAL, which it never announces, is sure to be seen.
    if fault.operation != Operation::Grow || fault.lasting || fault.files == Which::Wal {
        let error = result.as_ref().expect_err("it went unnoticed");
        let expected: &[i32] = match (fault.operation, fault.effect) {
            (Operation::Sync, _) => &[SQLITE_IOERR_FSYNC],
            (_, Effect::DiskFull) => &[SQLITE_FULL],
            _ => &[SQLITE_IOERR_WRITE, SQLITE_IOERR_TRUNCATE],
        };
        assert!(expected.contains(&code(error)), "{fault:?}: {error}");
    }
    drop(connection);
    let connection = bed.open("FULL").unwrap();
    let verdict: String = connection.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
    assert_eq!(verdict, "ok", "{fault:?}");
    assert_eq!(ids(&connection).unwrap(), committed, "{fault:?}");
    // The disk works again, and so does the database.
    committed.push(100);
    place(&connection, 100).unwrap();
    checkpoint(&connection).unwrap();
    assert_eq!(ids(&connection).unwrap(), committed, "{fault:?}");
}

fn check_each(operation: Operation, effects: &[Effect], least: u64) {
    for files in [Which::Any, Which::Wal, Which::Database] {
        let last = operations(files, operation);
        assert!(last >= least, "{last} operations are no test");
        for nth in 1..=last {
            for effect in effects.iter().copied() {
                for lasting in [false, true] {
                    check(Fault { operation, nth, effect, lasting, files });
                }
            }
        }
    }
}

#[test]
fn every_write_fails_once() {
    check_each(Operation::Write, &[Effect::IoError, Effect::DiskFull, Effect::ShortWrite], 10);
}

#[test]
fn every_sync_fails_once() {
    check_each(Operation::Sync, &[Effect::IoError, Effect::DiskFull], 2);
}

#[test]
fn every_growth_fails_once() {
    check_each(Operation::Grow, &[Effect::IoError, Effect::DiskFull, Effect::ShortWrite], 2);
}

/// Without a restart: the same connection refuses while the disk is full, reads on, and serves as soon as there is room.
#[test]
fn a_full_disk_stops_commits_only_as_long_as_it_is_full() {
    let bed = Bed::new("full");
    bed.vfs.record_unsynced(true);
    let connection = bed.open_checkpointed("FULL");
    place(&connection, 1).unwrap();
    let (operation, effect, files) = (Operation::Grow, Effect::DiskFull, Which::Any);
    bed.vfs.arm(Fault { operation, nth: 1, effect, lasting: true, files });
    for id in 2..=4 {
        assert_eq!(code(&place(&connection, id).unwrap_err()), SQLITE_FULL);
        assert_eq!(ids(&connection).unwrap(), [1]);
    }
    assert!(bed.vfs.fired() >= 3);
    bed.vfs.disarm();
    place(&connection, 5).unwrap();
    checkpoint(&connection).unwrap();
    place(&connection, 6).unwrap();
    bed.vfs.process_kill(&bed.image("killed")).unwrap();
    assert_eq!(ids_in(&bed.image("killed")).unwrap(), [1, 5, 6]);
}
