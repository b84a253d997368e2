//! The N-th write, sync and growth of the ledger's files fails, for every N of a short run.
//!
//! Whatever fails: what was committed is there, what was rolled back is not, and only the one batch whose sync
//! failed may be either.

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use engine::{Book, UnixMs};
use faultvfs::{Effect, Fault, FaultVfs, Operation, Which};
use server::ledger::sqlite::{Options, SqliteLedger, Synchronous, audit};
use server::ledger::{AppendError, Batch};

use crate::embedded::full_disk;
use crate::history::{Random, commands, seen, texts};

const BATCHES: u64 = 14;

fn options(dir: &Path, vfs: Option<&str>) -> Options {
    Options {
        data_dir: dir.to_owned(),
        synchronous: Synchronous::Full,
        checkpoint_pages: 12,
        vfs: vfs.map(str::to_owned),
    }
}

fn unique_vfs() -> (String, FaultVfs) {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    let name = format!("faults-{}", NUMBER.fetch_add(1, Ordering::Relaxed));
    let vfs = FaultVfs::register(&name);
    (name, vfs)
}

/// What a run came to.
#[derive(Debug, Default)]
struct Run {
    fired: bool,
    rolled_back: u64,
    sync_failed: bool,
    /// The ledger did not even open while the fault lasted.
    not_opened: bool,
}

/// A fresh ledger, a few batches, one fault somewhere; then the files as a killed process would leave them.
fn run(fault: Fault) -> Run {
    let (name, vfs) = unique_vfs();
    let dir = tempfile::tempdir().unwrap();
    vfs.record_unsynced(true);
    vfs.arm(fault);
    let mut outcome = Run::default();
    let (mut committed, mut unknown) = (seen(&Book::new()), None);
    match SqliteLedger::open(options(dir.path(), Some(&name))) {
        Ok(mut ledger) => {
            (committed, unknown) = batches(&mut ledger, &vfs, &mut outcome);
            check_image(&vfs, &committed, unknown.as_deref(), fault);
            // As the server does after a failed sync: it ends without another word to the file.
            if outcome.sync_failed {
                std::mem::forget(ledger);
            }
        }
        Err(_) => outcome.not_opened = true,
    }
    outcome.fired = vfs.fired() > 0;
    vfs.disarm();
    if outcome.not_opened {
        assert!(outcome.fired, "a ledger on a good disk opens");
        let ledger = SqliteLedger::open(options(dir.path(), Some(&name))).unwrap();
        assert_eq!(seen(&ledger.load().unwrap()), committed, "{fault:?}");
    } else if !outcome.sync_failed {
        assert!(unknown.is_none());
        assert_eq!(audit(dir.path()).unwrap().broken, Vec::<String>::new(), "{fault:?}");
    }
    outcome
}

fn batches(ledger: &mut SqliteLedger, vfs: &FaultVfs, outcome: &mut Run) -> (String, Option<String>) {
    let mut book = ledger.load().unwrap();
    let mut committed = seen(&book);
    let mut random = Random(4);
    for batch in 0..BATCHES {
        let now = UnixMs((1_000 + batch * 100).max(book.last_at().0));
        for command in commands(&mut random, &book) {
            drop(book.execute(now, command));
        }
        book.expire_due(now, 100);
        let mut entries = Vec::new();
        book.drain_journal(&mut entries);
        let batch =
            Batch { entries: &entries, addresses: &[], buyers: &texts(&entries), messages: &[], at: now };
        match ledger.append(&batch) {
            Ok(()) => committed = seen(&book),
            Err(AppendError::RolledBack(_)) => {
                count_rolled_back(vfs, outcome);
                if !settle(ledger, vfs, outcome) {
                    return (committed, Some(seen(&book)));
                }
                book = ledger.load().unwrap();
                assert_eq!(seen(&book), committed, "a rolled-back batch left something");
            }
            Err(AppendError::SyncFailed(_)) => {
                outcome.sync_failed = true;
                return (committed, Some(seen(&book)));
            }
            Err(other) => panic!("not an error of a file: {other}"),
        }
        if let Err(error) = ledger.maintain()
            && !error.is_retryable()
        {
            outcome.sync_failed = true;
            return (committed, None);
        }
    }
    (committed, None)
}

/// The third roll-back of a run is the disk's last.
fn count_rolled_back(vfs: &FaultVfs, outcome: &mut Run) {
    outcome.rolled_back += 1;
    if outcome.rolled_back == 3 {
        vfs.disarm();
    }
}

/// As the server does before it serves again. Returns false if a sync failed.
fn settle(ledger: &SqliteLedger, vfs: &FaultVfs, outcome: &mut Run) -> bool {
    while let Err(error) = ledger.settle_rolled_back() {
        if !error.is_retryable() {
            outcome.sync_failed = true;
            return false;
        }
        count_rolled_back(vfs, outcome);
    }
    true
}

/// The files as after a kill, opened on a good disk.
fn check_image(vfs: &FaultVfs, committed: &str, unknown: Option<&str>, fault: Fault) {
    let image = tempfile::tempdir().unwrap();
    vfs.process_kill(image.path()).unwrap();
    let ledger = SqliteLedger::open(options(image.path(), None)).unwrap();
    let found = seen(&ledger.load().unwrap());
    assert!(
        found == committed || Some(found.as_str()) == unknown,
        "{fault:?}: the ledger is neither what was committed nor that and the batch whose sync failed"
    );
    drop(ledger);
    assert_eq!(audit(image.path()).unwrap().broken, Vec::<String>::new(), "{fault:?}");
}

/// Every N until the fault no longer fires. Returns the runs in which it did.
fn every(operation: Operation, effect: Effect, lasting: bool) -> Vec<Run> {
    let mut runs = Vec::new();
    for nth in 1.. {
        let run = run(Fault { operation, nth, effect, lasting, files: Which::Any });
        if !run.fired {
            break;
        }
        runs.push(run);
    }
    assert!(runs.len() > 5, "{operation:?}: only {} places to fail", runs.len());
    runs
}

#[test]
fn every_write_may_fail_once() {
    let runs = every(Operation::Write, Effect::IoError, false);
    assert!(runs.iter().any(|run| run.rolled_back == 1));
    assert!(runs.iter().all(|run| !run.sync_failed), "a failed write is no failed sync");
}

#[test]
fn every_write_may_be_torn() {
    let runs = every(Operation::Write, Effect::ShortWrite, false);
    assert!(runs.iter().any(|run| run.rolled_back == 1));
}

#[test]
fn the_disk_may_be_full_from_every_growth_on_until_it_is_not() {
    let runs = every(Operation::Grow, Effect::DiskFull, true);
    assert!(runs.iter().any(|run| run.rolled_back == 3), "service must have gone on when the disk did");
}

#[test]
fn the_disk_may_be_full_from_every_write_on_until_it_is_not() {
    let runs = every(Operation::Write, Effect::DiskFull, true);
    assert!(runs.iter().any(|run| run.rolled_back == 3));
}

#[test]
fn every_sync_may_fail() {
    for lasting in [false, true] {
        let runs = every(Operation::Sync, Effect::IoError, lasting);
        assert!(runs.iter().any(|run| run.sync_failed), "a failed sync must be known as one");
        assert!(runs.iter().all(|run| run.rolled_back == 0), "a failed sync is never taken for a roll-back");
    }
}

#[test]
fn a_power_cut_at_any_moment_loses_no_committed_batch() {
    for seed in 0..60 {
        let (name, vfs) = unique_vfs();
        let dir = tempfile::tempdir().unwrap();
        vfs.record_unsynced(true);
        let mut ledger = SqliteLedger::open(options(dir.path(), Some(&name))).unwrap();
        let mut book = ledger.load().unwrap();
        let mut random = Random(seed);
        for batch in 0..(1 + seed % BATCHES) {
            let now = UnixMs(1_000 + batch * 100);
            for command in commands(&mut random, &book) {
                drop(book.execute(now, command));
            }
            let mut entries = Vec::new();
            book.drain_journal(&mut entries);
            ledger
                .append(&Batch {
                    entries: &entries,
                    addresses: &[],
                    buyers: &texts(&entries),
                    messages: &[],
                    at: now,
                })
                .unwrap();
            ledger.maintain().unwrap();
        }
        let image = tempfile::tempdir().unwrap();
        vfs.power_cut(seed, image.path()).unwrap();
        let survived = SqliteLedger::open(options(image.path(), None)).unwrap();
        assert_eq!(seen(&survived.load().unwrap()), seen(&book), "seed {seed}");
    }
}

/// What a process that opens the files as they are after a kill finds.
fn seen_after_a_kill(vfs: &FaultVfs) -> String {
    let image = tempfile::tempdir().unwrap();
    vfs.process_kill(image.path()).unwrap();
    seen(&SqliteLedger::open(options(image.path(), None)).unwrap().load().unwrap())
}

/// The WAL's index can't grow: the commit fails after its last frame was written.
#[test]
fn a_batch_that_was_rolled_back_after_it_was_written_stays_away_once_it_is_settled() {
    let (name, vfs) = unique_vfs();
    let dir = tempfile::tempdir().unwrap();
    vfs.record_unsynced(true);
    let options = Options { checkpoint_pages: u32::MAX, ..options(dir.path(), Some(&name)) };
    let mut ledger = SqliteLedger::open(options).unwrap();
    // Each takes a page.
    let messages = vec![Box::<[u8]>::from([7; 4_000]); 4_000];
    ledger
        .append(&Batch { entries: &[], addresses: &[], buyers: &[], messages: &messages, at: UnixMs(1) })
        .unwrap();
    // 4,062 frames fill the first part of the index, and each of these is one: the next batch begins the second part.
    let wal = dir.path().join("ledger.db-wal");
    let frames = || (std::fs::metadata(&wal).unwrap().len() - 32) / (4_096 + 24);
    while frames() < 4_062 {
        ledger.settle_rolled_back().unwrap();
    }
    assert_eq!(frames(), 4_062);
    let effect = Effect::DiskFull;
    vfs.arm(Fault { operation: Operation::GrowIndex, nth: 1, effect, lasting: true, files: Which::Any });
    let (mut book, mut random) = (Book::new(), Random(5));
    let mut committed = seen(&book);
    loop {
        let now = UnixMs(1_000 + book.next_seq().0);
        for command in commands(&mut random, &book) {
            drop(book.execute(now, command));
        }
        let mut entries = Vec::new();
        book.drain_journal(&mut entries);
        match ledger.append(&Batch {
            entries: &entries,
            addresses: &[],
            buyers: &texts(&entries),
            messages: &[],
            at: now,
        }) {
            Ok(()) => committed = seen(&book),
            Err(error) => {
                assert!(error.is_retryable(), "{error}");
                break;
            }
        }
    }
    assert_ne!(committed, seen(&book));
    assert_eq!(seen_after_a_kill(&vfs), seen(&book), "without settling it comes back");
    assert!(ledger.settle_rolled_back().is_err_and(|error| error.is_retryable()), "the disk is still full");
    vfs.disarm();
    ledger.settle_rolled_back().unwrap();
    assert_eq!(seen(&ledger.load().unwrap()), committed);
    assert_eq!(seen_after_a_kill(&vfs), committed);
}

#[test]
fn an_id_secret_that_was_given_out_is_in_the_file() {
    let (mut refused, mut nth) = (0, 0);
    loop {
        nth += 1;
        let (name, vfs) = unique_vfs();
        let dir = tempfile::tempdir().unwrap();
        vfs.record_unsynced(true);
        let ledger = SqliteLedger::open(options(dir.path(), Some(&name))).unwrap();
        vfs.arm(full_disk(nth));
        let Ok(secret) = ledger.id_secret() else {
            refused += 1;
            continue;
        };
        let image = tempfile::tempdir().unwrap();
        vfs.process_kill(image.path()).unwrap();
        let kept = SqliteLedger::open(options(image.path(), None)).unwrap().id_secret().unwrap();
        assert_eq!(kept, secret, "write {nth}");
        if vfs.fired() == 0 {
            break;
        }
    }
    assert!(refused > 0, "a full disk must be noticed");
}
