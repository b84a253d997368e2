//! Which operation fails, and how: the armed fault and the counts of operations.
//!
//! Pure bookkeeping; it must not do any I/O. Its caller holds the lock.

/// One fault: the `nth` `operation` from now on `files` has the `effect`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fault {
    /// The operation that is counted and fails.
    pub operation: Operation,
    /// 1 is the next one.
    pub nth: u64,
    /// What happens instead.
    pub effect: Effect,
    /// Also all later ones until disarmed (the disk stays full), else just that one.
    pub lasting: bool,
    /// Only operations on these files are counted and fail.
    pub files: Which,
}

/// What SQLite does to a file that can fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    /// A write, or a truncation in either direction.
    Write,
    /// A sync; SQLite leaves them out with `synchronous=OFF`. One that succeeds is only recorded: the shim never syncs
    /// the real file, so a test that counts on the machine's own disk must not use it.
    Sync,
    /// A write beyond the file's end, a truncation to more than its size, or an `SQLITE_FCNTL_SIZE_HINT` beyond it.
    /// The first two are counted as writes also. SQLite ignores the result of a size hint: the write that follows
    /// it is what fails visibly.
    Grow,
    /// A region of the shared memory (the WAL's index, `-shm`) is asked for and made if absent. Counted for the
    /// database that it belongs to.
    GrowIndex,
}

/// What happens instead of the operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// Nothing is done; `SQLITE_IOERR_WRITE`, `SQLITE_IOERR_FSYNC`, `SQLITE_IOERR_TRUNCATE` or
    /// `SQLITE_IOERR_SHMSIZE`.
    IoError,
    /// Nothing is done; `SQLITE_FULL`, except for a sync: there the unix VFS turns `ENOSPC` (late allocation) into
    /// `SQLITE_IOERR_FSYNC`, and so does this; and for the index, where it says `SQLITE_IOERR_SHMSIZE`.
    DiskFull,
    /// The first half of the bytes is written, then `SQLITE_IOERR_WRITE`: a torn write. Not for `Sync` and
    /// `GrowIndex`; a truncation or a hint has no half, and just fails.
    ShortWrite,
    /// Success is reported without a sync. Only for `Sync`.
    SyncLies,
}

/// A selection of files by the flags that SQLite opened them with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Which {
    /// Every file: also rollback journals and temporary files.
    Any,
    /// Write-ahead logs.
    Wal,
    /// Main databases.
    Database,
}

/// How many operations were asked for, failed ones included.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Counts {
    /// Writes and truncations.
    pub writes: u64,
    /// Syncs.
    pub syncs: u64,
    /// Operations that make a file longer: see [`Operation::Grow`].
    pub grows: u64,
    /// Regions of the index: see [`Operation::GrowIndex`].
    pub index_grows: u64,
}

/// What a file is, once and for all: given when it is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FileKind {
    Database,
    Wal,
    Other,
}

impl Which {
    fn includes(self, kind: FileKind) -> bool {
        match self {
            Which::Any => true,
            Which::Wal => kind == FileKind::Wal,
            Which::Database => kind == FileKind::Database,
        }
    }
}

#[derive(Debug, Default)]
pub(crate) struct Plan {
    /// Indexed by `FileKind as usize`.
    counts: [Counts; 3],
    fault: Option<Fault>,
    /// Operations that matched the fault since it was armed.
    seen: u64,
    fired: u64,
}

impl Plan {
    pub(crate) fn arm(&mut self, fault: Fault) {
        assert!(fault.nth > 0, "operations are counted from 1");
        let sensible = match fault.effect {
            Effect::IoError | Effect::DiskFull => true,
            Effect::ShortWrite => matches!(fault.operation, Operation::Write | Operation::Grow),
            Effect::SyncLies => fault.operation == Operation::Sync,
        };
        assert!(sensible, "{:?} can't happen to a {:?}", fault.effect, fault.operation);
        *self = Plan { fault: Some(fault), ..Plan::default() };
    }

    pub(crate) fn disarm(&mut self) {
        self.fault = None;
    }

    pub(crate) fn fired(&self) -> u64 {
        self.fired
    }

    pub(crate) fn reset_counts(&mut self) {
        self.counts = Default::default();
    }

    pub(crate) fn counts_of(&self, files: Which) -> Counts {
        let mut sum = Counts::default();
        for kind in [FileKind::Database, FileKind::Wal, FileKind::Other] {
            if files.includes(kind) {
                let counts = self.counts[kind as usize];
                sum.writes += counts.writes;
                sum.syncs += counts.syncs;
                sum.grows += counts.grows;
                sum.index_grows += counts.index_grows;
            }
        }
        sum
    }

    /// Counts one operation and says what shall happen instead of it, if anything.
    pub(crate) fn observe(&mut self, kind: FileKind, operation: Operation) -> Option<Effect> {
        let counts = &mut self.counts[kind as usize];
        match operation {
            Operation::Write => counts.writes += 1,
            Operation::Sync => counts.syncs += 1,
            Operation::Grow => counts.grows += 1,
            Operation::GrowIndex => counts.index_grows += 1,
        }
        let fault = self.fault?;
        if fault.operation != operation || !fault.files.includes(kind) {
            return None;
        }
        self.seen += 1;
        if self.seen < fault.nth || (self.seen > fault.nth && !fault.lasting) {
            return None;
        }
        self.fired += 1;
        Some(fault.effect)
    }

    /// A write or truncation is one write, and one growth also if it makes the file longer.
    pub(crate) fn observe_write(&mut self, kind: FileKind, grows: bool) -> Option<Effect> {
        let as_write = self.observe(kind, Operation::Write);
        let as_growth = if grows { self.observe(kind, Operation::Grow) } else { None };
        as_write.or(as_growth)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fault(operation: Operation, nth: u64, lasting: bool, files: Which) -> Fault {
        Fault { operation, nth, effect: Effect::IoError, lasting, files }
    }

    /// One row a case: the fault, and which of four growing writes (WAL, database, WAL, WAL) fail.
    #[test]
    fn only_the_chosen_operations_fail() {
        let cases = [
            (fault(Operation::Write, 1, false, Which::Any), [true, false, false, false]),
            (fault(Operation::Write, 2, false, Which::Any), [false, true, false, false]),
            (fault(Operation::Write, 2, false, Which::Wal), [false, false, true, false]),
            (fault(Operation::Grow, 2, true, Which::Wal), [false, false, true, true]),
            (fault(Operation::Write, 1, true, Which::Database), [false, true, false, false]),
            (fault(Operation::Sync, 1, true, Which::Any), [false; 4]),
            (fault(Operation::Write, 5, true, Which::Any), [false; 4]),
        ];
        for (fault, expected) in cases {
            let mut plan = Plan::default();
            plan.arm(fault);
            let kinds = [FileKind::Wal, FileKind::Database, FileKind::Wal, FileKind::Wal];
            let failed = kinds.map(|kind| plan.observe_write(kind, true).is_some());
            assert_eq!(failed, expected, "{fault:?}");
            assert_eq!(plan.fired(), failed.iter().filter(|failed| **failed).count() as u64, "{fault:?}");
            assert_eq!(plan.counts_of(Which::Any), Counts { writes: 4, syncs: 0, grows: 4, index_grows: 0 });
            assert_eq!(plan.counts_of(Which::Wal), Counts { writes: 3, syncs: 0, grows: 3, index_grows: 0 });
        }
    }

    #[test]
    fn disarmed_nothing_fails_and_counts_go_on() {
        let mut plan = Plan::default();
        plan.arm(fault(Operation::Sync, 1, true, Which::Any));
        assert!(plan.observe(FileKind::Wal, Operation::Sync).is_some());
        plan.disarm();
        assert!(plan.observe(FileKind::Wal, Operation::Sync).is_none());
        assert_eq!((plan.fired(), plan.counts_of(Which::Any).syncs), (1, 2));
    }

    #[test]
    #[should_panic(expected = "ShortWrite can't happen to a Sync")]
    fn an_effect_that_can_not_happen_is_refused() {
        let mut plan = Plan::default();
        plan.arm(Fault { effect: Effect::ShortWrite, ..fault(Operation::Sync, 1, false, Which::Any) });
    }
}
