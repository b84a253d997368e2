//! What SQLite does after a failed sync, and after a failed write: the facts that the crate's documentation states.

use std::collections::BTreeSet;

use faultvfs::{Effect, Fault, Operation, Which};
use rusqlite::config::DbConfig;
use rusqlite::ffi::{
    SQLITE_FULL, SQLITE_IOERR_FSYNC, SQLITE_IOERR_SHMSIZE, SQLITE_IOERR_TRUNCATE, SQLITE_IOERR_WRITE,
};
use rusqlite::{Connection, ErrorCode};

use crate::{Bed, checkpoint, checkpoint_to_reuse, code, ids, ids_in, place};

fn first(operation: Operation, effect: Effect, files: Which) -> Fault {
    Fault { operation, nth: 1, effect, lasting: false, files }
}

fn failed_sync(files: Which) -> Fault {
    first(Operation::Sync, Effect::IoError, files)
}

/// A database with row 1, and a COMMIT of row 2 that failed.
fn failed_commit(test: &str, fault: Fault) -> (Bed, Connection, rusqlite::Error) {
    let bed = Bed::new(test);
    bed.vfs.record_unsynced(true);
    let connection = bed.open_checkpointed("FULL");
    place(&connection, 1).unwrap();
    bed.vfs.arm(fault);
    let error = place(&connection, 2).unwrap_err();
    assert_eq!(bed.vfs.fired(), 1);
    bed.vfs.disarm();
    (bed, connection, error)
}

#[test]
fn a_commit_distinguishes_a_failed_sync_from_a_failed_write() {
    let rows = [
        (failed_sync(Which::Wal), SQLITE_IOERR_FSYNC, ErrorCode::SystemIoFailure),
        (
            first(Operation::Sync, Effect::DiskFull, Which::Wal),
            SQLITE_IOERR_FSYNC,
            ErrorCode::SystemIoFailure,
        ),
        (
            first(Operation::Write, Effect::IoError, Which::Wal),
            SQLITE_IOERR_WRITE,
            ErrorCode::SystemIoFailure,
        ),
        (
            first(Operation::Write, Effect::ShortWrite, Which::Wal),
            SQLITE_IOERR_WRITE,
            ErrorCode::SystemIoFailure,
        ),
        (first(Operation::Write, Effect::DiskFull, Which::Wal), SQLITE_FULL, ErrorCode::DiskFull),
    ];
    for (fault, expected, expected_class) in rows {
        let (_bed, connection, error) = failed_commit("commit-codes", fault);
        assert_eq!((code(&error), error.sqlite_error_code()), (expected, Some(expected_class)), "{fault:?}");
        assert!(connection.is_autocommit(), "the transaction is closed after {fault:?}");
        assert_eq!(ids(&connection).unwrap(), [1], "its row is invisible after {fault:?}");
        let rollback = connection.execute_batch("ROLLBACK").unwrap_err();
        assert!(rollback.to_string().contains("no transaction is active"), "{rollback}");
    }
}

#[test]
fn a_checkpoint_distinguishes_a_failed_sync_from_a_failed_write() {
    let rows = [
        (failed_sync(Which::Wal), SQLITE_IOERR_FSYNC),
        (failed_sync(Which::Database), SQLITE_IOERR_FSYNC),
        (first(Operation::Write, Effect::IoError, Which::Database), SQLITE_IOERR_WRITE),
        (first(Operation::Write, Effect::DiskFull, Which::Database), SQLITE_FULL),
        // The only write to the WAL in a checkpoint is its truncation.
        (first(Operation::Write, Effect::IoError, Which::Wal), SQLITE_IOERR_TRUNCATE),
        (first(Operation::Write, Effect::DiskFull, Which::Wal), SQLITE_FULL),
    ];
    for (fault, expected) in rows {
        let bed = Bed::new("checkpoint-codes");
        let connection = bed.open_checkpointed("FULL");
        place(&connection, 1).unwrap();
        bed.vfs.arm(fault);
        let error = checkpoint(&connection).unwrap_err();
        assert_eq!((bed.vfs.fired(), code(&error)), (1, expected), "{fault:?}");
        bed.vfs.disarm();
        checkpoint(&connection).unwrap();
        assert_eq!(ids(&connection).unwrap(), [1], "{fault:?}");
    }
}

#[test]
fn the_row_of_a_failed_sync_comes_back_after_a_kill_and_that_of_a_failed_write_does_not() {
    let (bed, _connection, _) = failed_commit("comes-back", failed_sync(Which::Wal));
    bed.vfs.process_kill(&bed.image("killed")).unwrap();
    assert_eq!(ids_in(&bed.image("killed")).unwrap(), [1, 2]);

    for effect in [Effect::IoError, Effect::DiskFull, Effect::ShortWrite] {
        // The last write of a commit is the page behind the commit frame's header.
        let count = failed_commit("count", first(Operation::Sync, Effect::IoError, Which::Wal));
        let last = count.0.vfs.counts_of(Which::Wal).writes;
        for nth in 1..=last {
            let fault = Fault { nth, ..first(Operation::Write, effect, Which::Wal) };
            let (bed, _connection, _) = failed_commit("stays-away", fault);
            bed.vfs.process_kill(&bed.image("killed")).unwrap();
            assert_eq!(ids_in(&bed.image("killed")).unwrap(), [1], "{fault:?}");
        }
    }
}

/// The first commit into a reused WAL syncs twice: the new header, then the frames. Only the second can leave a row.
#[test]
fn in_a_reused_wal_the_row_comes_back_if_the_sync_of_its_frames_failed() {
    for (nth, expected) in [(1, vec![1]), (2, vec![1, 2])] {
        let bed = Bed::new("reused");
        bed.vfs.record_unsynced(true);
        let connection = bed.open_checkpointed("FULL");
        place(&connection, 1).unwrap();
        checkpoint_to_reuse(&connection).unwrap();
        bed.vfs.arm(Fault { nth, ..failed_sync(Which::Wal) });
        assert_eq!(code(&place(&connection, 2).unwrap_err()), SQLITE_IOERR_FSYNC);
        bed.vfs.process_kill(&bed.image("killed")).unwrap();
        assert_eq!(ids_in(&bed.image("killed")).unwrap(), expected, "sync {nth}");
    }
}

#[test]
fn a_clean_close_or_a_later_commit_removes_the_row_of_a_failed_sync() {
    let (bed, connection, _) = failed_commit("close", failed_sync(Which::Wal));
    drop(connection);
    assert_eq!(ids(&bed.open("FULL").unwrap()).unwrap(), [1]);

    let (bed, connection, _) = failed_commit("overwritten", failed_sync(Which::Wal));
    place(&connection, 3).unwrap();
    bed.vfs.process_kill(&bed.image("killed")).unwrap();
    assert_eq!(ids_in(&bed.image("killed")).unwrap(), [1, 3]);
}

/// The first region of the index has room for 4,062 frames.
#[test]
fn the_row_of_a_failed_growth_of_the_index_comes_back_unless_another_commit_takes_its_place() {
    for effect in [Effect::IoError, Effect::DiskFull] {
        let bed = Bed::new("index");
        bed.vfs.record_unsynced(true);
        let connection = bed.open_checkpointed("FULL");
        connection.execute("INSERT INTO orders VALUES (1, zeroblob(4040 * 4092))", []).unwrap();
        bed.vfs.arm(first(Operation::GrowIndex, effect, Which::Database));
        let (failed, error) = (2..100).find_map(|id| Some((id, place(&connection, id).err()?))).unwrap();
        assert_eq!((code(&error), bed.vfs.fired()), (SQLITE_IOERR_SHMSIZE, 1));
        assert_eq!(bed.vfs.counts_of(Which::Database).index_grows, 1);
        let committed: Vec<i64> = (1..failed).collect();
        assert_eq!(ids(&connection).unwrap(), committed);
        bed.vfs.process_kill(&bed.image("killed")).unwrap();
        assert_eq!(ids_in(&bed.image("killed")).unwrap(), (1..=failed).collect::<Vec<_>>());
        connection.execute_batch("PRAGMA user_version = 1").unwrap();
        bed.vfs.process_kill(&bed.image("settled")).unwrap();
        assert_eq!(ids_in(&bed.image("settled")).unwrap(), committed);
    }
}

/// A process whose sync failed exits without a checkpoint; the next one finds row 2 in the page cache.
fn next_process(test: &str) -> (Bed, Connection) {
    let (bed, connection, _) = failed_commit(test, failed_sync(Which::Wal));
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true).unwrap();
    drop(connection);
    let connection = bed.open("FULL").unwrap();
    assert_eq!(ids(&connection).unwrap(), [1, 2]);
    (bed, connection)
}

/// What a hundred power cuts at this moment would leave.
fn after_power_cuts(bed: &Bed) -> BTreeSet<Result<Vec<i64>, String>> {
    let cut = |seed| {
        let image = tempfile::tempdir().unwrap();
        bed.vfs.power_cut(seed, image.path()).unwrap();
        ids_in(image.path())
    };
    (0..100).map(cut).collect()
}

#[test]
fn a_commit_behind_a_failed_sync_is_lost_in_a_power_cut_although_it_was_synced() {
    let (bed, connection) = next_process("behind");
    place(&connection, 3).unwrap();
    assert_eq!(after_power_cuts(&bed), [Ok(vec![1]), Ok(vec![1, 2, 3])].into());
}

#[test]
fn a_checkpoint_and_a_commit_heal_a_failed_sync() {
    let (bed, connection) = next_process("healed");
    checkpoint(&connection).unwrap();
    place(&connection, 3).unwrap();
    assert_eq!(after_power_cuts(&bed), [Ok(vec![1, 2, 3])].into());
}

/// The checkpoint alone is not enough: the truncation of the WAL is not synced, and when the old WAL comes back without
/// the frames in doubt, its pages hide the newer ones that the checkpoint wrote to the database.
#[test]
fn a_row_of_a_failed_sync_can_be_lost_after_its_checkpoint_until_the_next_commit() {
    let (bed, connection) = next_process("half-healed");
    checkpoint(&connection).unwrap();
    assert_eq!(after_power_cuts(&bed), [Ok(vec![1]), Ok(vec![1, 2])].into());
}

/// What heals without such a window: the next process writes the WAL anew (a copy, synced, renamed over the old one)
/// before SQLite opens it. Files count as synced when they are first opened, so a copied image is in that state.
#[test]
fn a_wal_written_anew_before_it_is_opened_heals_a_failed_sync() {
    let (bed, _connection, _) = failed_commit("written-anew", failed_sync(Which::Wal));
    let next = Bed::new("written-anew-next");
    next.vfs.record_unsynced(true);
    bed.vfs.process_kill(&bed.image("killed")).unwrap();
    for file in ["ledger.db", "ledger.db-wal"] {
        std::fs::copy(bed.image("killed").join(file), next.dir.path().join(file)).unwrap();
    }
    let connection = next.open("FULL").unwrap();
    assert_eq!(after_power_cuts(&next), [Ok(vec![1, 2])].into());
    checkpoint(&connection).unwrap();
    assert_eq!(after_power_cuts(&next), [Ok(vec![1, 2])].into());
    place(&connection, 3).unwrap();
    assert_eq!(after_power_cuts(&next), [Ok(vec![1, 2, 3])].into());
}

#[test]
fn automatic_checkpoints_swallow_every_error() {
    for fault in [failed_sync(Which::Database), first(Operation::Write, Effect::DiskFull, Which::Database)] {
        let bed = Bed::new("swallowed");
        let connection = bed.open_checkpointed("FULL");
        bed.vfs.arm(Fault { lasting: true, ..fault });
        connection.pragma_update(None, "wal_autocheckpoint", 1).unwrap();
        place(&connection, 1).unwrap();
        assert_eq!(bed.vfs.fired(), 1, "in the automatic checkpoint, {fault:?}");
        connection.close().unwrap();
        assert_eq!(bed.vfs.fired(), 2, "in the checkpoint at close, {fault:?}");
        bed.vfs.disarm();
        assert_eq!(ids(&bed.open("FULL").unwrap()).unwrap(), [1]);
    }
}
