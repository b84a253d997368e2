//! Every operation of a short run fails once, in every way: the run sees an error, and no committed row is lost.

use faultvfs::{Effect, Fault, Operation, Which};
use rusqlite::Connection;
use rusqlite::ffi::{SQLITE_FULL, SQLITE_IOERR_FSYNC, SQLITE_IOERR_TRUNCATE, SQLITE_IOERR_WRITE};

use crate::{Bed, checkpoint, code, ids, place};

const ROWS: i64 = 6;

/// Six commits, with a checkpoint in the middle and one at the end, so that the WAL grows, is reused and is cut.
/// Returns the rows that were committed, and the error that ended the run.
fn run(connection: &Connection) -> (Vec<i64>, Option<rusqlite::Error>) {
    let mut committed = Vec::new();
    for id in 1..=ROWS {
        if let Err(error) = place(connection, id) {
            return (committed, Some(error));
        }
        committed.push(id);
        if id % 3 == 0
            && let Err(error) = checkpoint(connection)
        {
            return (committed, Some(error));
        }
    }
    (committed, None)
}

/// How many operations of each kind the run consists of.
fn operations(files: Which, operation: Operation) -> u64 {
    let bed = Bed::new("count");
    let connection = bed.open_checkpointed("FULL");
    bed.vfs.reset_counts();
    assert!(run(&connection).1.is_none());
    let counts = bed.vfs.counts_of(files);
    match operation {
        Operation::Write => counts.writes,
        Operation::Sync => counts.syncs,
        Operation::Grow => counts.grows,
    }
}

fn check(fault: Fault) {
    let bed = Bed::new("every-fault");
    let connection = bed.open_checkpointed("FULL");
    bed.vfs.arm(fault);
    let (mut committed, error) = run(&connection);
    assert!(bed.vfs.fired() > 0, "{fault:?}");
    bed.vfs.disarm();
    // SQLite ignores a failed size hint, so only the growth of the WAL, which it never announces, is sure to be seen.
    if fault.operation != Operation::Grow || fault.lasting || fault.files == Which::Wal {
        let error = error.as_ref().unwrap_or_else(|| panic!("{fault:?} went unnoticed"));
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
