//! What survives a power cut, with an honest disk and with a lying one, and that the simulator distinguishes them.

use faultvfs::{Effect, Fault, Operation, Which};

use crate::{Bed, checkpoint, ids_in, place, run};

fn dead_disk(nth: u64) -> Fault {
    Fault { operation: Operation::Write, nth, effect: Effect::IoError, lasting: true, files: Which::Any }
}

/// Runs until the N-th write, cuts the power there, and opens what is left. Returns false if the run has fewer writes.
fn cut_at_write(
    nth: u64,
    seeds: std::ops::Range<u64>,
    mut judge: impl FnMut(i64, Result<Vec<i64>, String>),
) -> bool {
    let bed = Bed::new("cut-at-write");
    bed.vfs.record_unsynced(true);
    let connection = bed.open_checkpointed("FULL");
    bed.vfs.arm(dead_disk(nth));
    let (committed, _) = run(&connection);
    let committed = i64::try_from(committed.len()).unwrap();
    for seed in seeds {
        let image = bed.image(&format!("cut-{seed}"));
        bed.vfs.power_cut(seed, &image).unwrap();
        judge(committed, ids_in(&image));
    }
    bed.vfs.fired() > 0
}

/// The cut falls before each write of the run in turn: within commits, within checkpoints, while the WAL is reused.
#[test]
fn with_synchronous_full_no_power_cut_loses_a_committed_row() {
    let (mut nth, mut images) = (1, 0);
    loop {
        let reached = cut_at_write(nth, nth * 100..nth * 100 + 12, |committed, found| {
            let found = found.unwrap_or_else(|damage| panic!("cut at write {nth}: {damage}"));
            // The transaction in flight may be there or not; nothing else is in doubt.
            let ends = [committed, committed + 1];
            assert!(
                ends.iter().any(|end| found.iter().copied().eq(1..=*end)),
                "write {nth}: {committed}, {found:?}"
            );
            images += 1;
        });
        if !reached {
            break;
        }
        nth += 1;
    }
    assert!(images >= 300, "{images} images are no test");
}

#[test]
fn with_synchronous_off_power_cuts_lose_committed_rows() {
    let bed = Bed::new("off");
    bed.vfs.record_unsynced(true);
    let connection = bed.open_checkpointed("FULL");
    connection.pragma_update(None, "synchronous", "OFF").unwrap();
    (1..=6).for_each(|id| place(&connection, id).unwrap());
    let (mut complete, mut short) = (0, 0);
    for seed in 0..100 {
        let image = bed.image(&format!("cut-{seed}"));
        bed.vfs.power_cut(seed, &image).unwrap();
        let found = ids_in(&image).expect("the database itself was synced");
        assert!(
            found.iter().copied().eq(1..=i64::try_from(found.len()).unwrap()),
            "no row without those before"
        );
        if found.len() == 6 { complete += 1 } else { short += 1 }
    }
    assert!(complete > 0 && short > 0, "{complete} complete, {short} not");
}

/// Checkpoints without syncs damage the database itself: worse than the loss of the last rows.
#[test]
fn with_synchronous_off_a_power_cut_at_a_checkpoint_damages_the_database() {
    let bed = Bed::new("off-checkpoint");
    bed.vfs.record_unsynced(true);
    let connection = bed.open_checkpointed("FULL");
    (1..=20).for_each(|id| place(&connection, id).unwrap());
    connection.pragma_update(None, "synchronous", "OFF").unwrap();
    checkpoint(&connection).unwrap();
    let damaged = (0..100).filter(|seed| {
        let image = bed.image(&format!("cut-{seed}"));
        bed.vfs.power_cut(*seed, &image).unwrap();
        ids_in(&image).is_err()
    });
    assert!(damaged.count() > 0);
}

#[test]
fn a_disk_that_lies_about_syncs_loses_only_what_it_lied_about() {
    let bed = Bed::new("lies");
    bed.vfs.record_unsynced(true);
    let connection = bed.open_checkpointed("FULL");
    (1..=3).for_each(|id| place(&connection, id).unwrap());
    bed.vfs.arm(Fault {
        operation: Operation::Sync,
        nth: 1,
        effect: Effect::SyncLies,
        lasting: true,
        files: Which::Wal,
    });
    (4..=6).for_each(|id| place(&connection, id).unwrap());
    assert_eq!(bed.vfs.fired(), 3, "one sync a commit");
    let mut least = 6;
    for seed in 0..100 {
        let image = bed.image(&format!("cut-{seed}"));
        bed.vfs.power_cut(seed, &image).unwrap();
        let found = ids_in(&image).unwrap();
        assert!(found.starts_with(&[1, 2, 3]), "synced before the lies: {found:?}");
        least = least.min(found.len());
    }
    assert_eq!(least, 3, "some cut loses all that was not synced");
    // The next honest sync covers what the lies left out.
    bed.vfs.disarm();
    place(&connection, 7).unwrap();
    bed.vfs.power_cut(2, &bed.image("honest")).unwrap();
    assert_eq!(ids_in(&bed.image("honest")).unwrap(), [1, 2, 3, 4, 5, 6, 7]);
}

#[test]
fn the_same_seed_leaves_the_same_image() {
    let bed = Bed::new("seed");
    bed.vfs.record_unsynced(true);
    let connection = bed.open_checkpointed("OFF");
    (1..=3).for_each(|id| place(&connection, id).unwrap());
    let wal = |name: &str, seed| {
        bed.vfs.power_cut(seed, &bed.image(name)).unwrap();
        std::fs::read(bed.image(name).join("ledger.db-wal")).ok()
    };
    assert_eq!(wal("a", 7), wal("b", 7));
    assert!((8..40).any(|seed| wal(&format!("c-{seed}"), seed) != wal(&format!("d-{seed}"), 7)));
    assert!(bed.vfs.power_cut(7, &bed.image("a")).is_err(), "an image is never mixed into another one");
}
