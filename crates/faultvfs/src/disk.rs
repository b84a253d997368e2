//! What is on the platter: for each file the bytes that are durable and the changes that are not yet.
//!
//! It must not touch the real files: it is fed by the shim (content at open, each change, each sync), under the lock,
//! and only writes images into a directory of the test's.
//!
//! The model is that of a page cache in front of a disk with atomic sectors of 512 bytes: a successful sync makes all
//! earlier changes of that file durable. Without it, changes survive or not each on its own, in any combination. The
//! first sync of a new file covers its directory as well, as the unix VFS does it for journals and WALs. A failed sync
//! leaves its changes in doubt for good: Linux marks those pages clean, and no later sync writes them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::{fs, io};

const SECTOR: usize = 512;

/// The files that are known, by full path; nothing is recorded when it is off.
#[derive(Debug, Default)]
pub(crate) struct Disk {
    recording: bool,
    files: BTreeMap<PathBuf, FileRecord>,
}

/// File names and contents to be written into a directory.
pub(crate) type Images = Vec<(PathBuf, Vec<u8>)>;

#[derive(Debug, Default)]
struct FileRecord {
    /// The file is there as the running process sees it.
    present: bool,
    /// The content that is surely on disk; `None` as long as not even the name is.
    durable: Option<Vec<u8>>,
    /// Changes since, in order.
    pending: Vec<Pending>,
    /// The content of a deleted file whose deletion was not synced: a power cut may bring it back.
    ghost: Option<Vec<u8>>,
}

#[derive(Debug)]
struct Pending {
    change: Change,
    fate: Fate,
}

#[derive(Debug)]
enum Change {
    Write { offset: usize, bytes: Vec<u8> },
    Truncate { size: usize },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    /// The next successful sync makes it durable.
    Unsynced,
    /// Its sync failed.
    Doubtful,
    /// It is on disk, but an older change is not, so it can't be folded into `durable` yet.
    Durable,
}

impl Disk {
    pub(crate) fn record(&mut self, on: bool) {
        self.recording = on;
        self.files.clear();
    }

    /// Whether the content of this file has to be given to [`opened`](Self::opened).
    pub(crate) fn wants(&self, path: &Path) -> bool {
        self.recording && !self.files.get(path).is_some_and(|file| file.present)
    }

    /// `content` is `None` if the file was created by this open.
    pub(crate) fn opened(&mut self, path: &Path, content: Option<Vec<u8>>) {
        let file = self.files.entry(path.to_owned()).or_default();
        file.present = true;
        file.durable = content;
        file.pending.clear();
    }

    pub(crate) fn wrote(&mut self, path: &Path, offset: usize, bytes: &[u8]) {
        self.change(path, Change::Write { offset, bytes: bytes.to_owned() });
    }

    pub(crate) fn truncated(&mut self, path: &Path, size: usize) {
        self.change(path, Change::Truncate { size });
    }

    fn change(&mut self, path: &Path, change: Change) {
        if let Some(file) = self.files.get_mut(path) {
            file.pending.push(Pending { change, fate: Fate::Unsynced });
        }
    }

    pub(crate) fn synced(&mut self, path: &Path) {
        let Some(file) = self.files.get_mut(path) else { return };
        let is_new = file.durable.is_none();
        file.settle(Fate::Durable);
        let doubtful = file.pending.iter().position(|pending| pending.fate == Fate::Doubtful);
        let settled = doubtful.unwrap_or(file.pending.len());
        let durable = file.durable.get_or_insert_default();
        for pending in file.pending.drain(..settled) {
            pending.change.apply(durable);
        }
        if is_new {
            self.directory_synced(path.parent());
        }
    }

    /// All names are on disk: no deleted file comes back, no new one vanishes.
    fn directory_synced(&mut self, directory: Option<&Path>) {
        for (_, file) in self.files.iter_mut().filter(|(path, _)| path.parent() == directory) {
            file.ghost = None;
            if file.present {
                file.durable.get_or_insert_default();
            }
        }
    }

    pub(crate) fn sync_failed(&mut self, path: &Path) {
        if let Some(file) = self.files.get_mut(path) {
            file.settle(Fate::Doubtful);
        }
    }

    pub(crate) fn deleted(&mut self, path: &Path, directory_synced: bool) {
        if let Some(file) = self.files.get_mut(path) {
            let ghost = file.durable.take().or(file.ghost.take());
            *file = FileRecord { ghost, ..FileRecord::default() };
        }
        if directory_synced {
            self.directory_synced(path.parent());
        }
    }

    pub(crate) fn process_kill(&self) -> io::Result<Images> {
        self.images(|file| {
            let mut image = file.durable.clone().unwrap_or_default();
            for pending in &file.pending {
                pending.change.apply(&mut image);
            }
            file.present.then_some(image)
        })
    }

    pub(crate) fn power_cut(&self, seed: u64) -> io::Result<Images> {
        let mut dice = Dice(seed);
        // From "nothing unsynced survives" to "everything does"; in between, any combination of changes.
        let quarters = dice.below(5);
        self.images(|file| file.power_cut(&mut dice, quarters))
    }

    fn images(&self, mut image_of: impl FnMut(&FileRecord) -> Option<Vec<u8>>) -> io::Result<Images> {
        if !self.recording {
            return Err(io::Error::other("nothing is recorded: call record_unsynced(true) first"));
        }
        let mut images = Images::new();
        for (path, file) in &self.files {
            let Some(image) = image_of(file) else { continue };
            let name = PathBuf::from(path.file_name().expect("SQLite opens files, not directories"));
            if images.iter().any(|(other, _)| *other == name) {
                return Err(io::Error::other(format!("two recorded files are called {}", name.display())));
            }
            images.push((name, image));
        }
        Ok(images)
    }
}

impl FileRecord {
    fn settle(&mut self, fate: Fate) {
        for pending in self.pending.iter_mut().filter(|pending| pending.fate == Fate::Unsynced) {
            pending.fate = fate;
        }
    }

    fn power_cut(&self, dice: &mut Dice, quarters: u64) -> Option<Vec<u8>> {
        if let Some(ghost) = &self.ghost
            && !dice.survives(quarters)
        {
            return Some(ghost.clone());
        }
        if !self.present || (self.durable.is_none() && !dice.survives(quarters)) {
            return None;
        }
        let mut image = self.durable.clone().unwrap_or_default();
        for Pending { change, fate } in &self.pending {
            match change {
                _ if *fate == Fate::Durable => change.apply(&mut image),
                Change::Write { offset, bytes } if dice.below(4) == 0 => {
                    write_torn(&mut image, *offset, bytes, || dice.survives(quarters));
                }
                _ if dice.survives(quarters) => change.apply(&mut image),
                _ => {}
            }
        }
        Some(image)
    }
}

impl Change {
    fn apply(&self, image: &mut Vec<u8>) {
        match self {
            Change::Write { offset, bytes } => {
                let end = offset + bytes.len();
                if image.len() < end {
                    image.resize(end, 0);
                }
                image[*offset..end].copy_from_slice(bytes);
            }
            Change::Truncate { size } => image.resize(*size, 0),
        }
    }
}

/// Applies the parts of a write that lie in the sectors that survive.
fn write_torn(image: &mut Vec<u8>, offset: usize, bytes: &[u8], mut survives: impl FnMut() -> bool) {
    let mut from = 0;
    while from < bytes.len() {
        let sector_end = ((offset + from) / SECTOR + 1) * SECTOR - offset;
        let to = sector_end.min(bytes.len());
        if survives() {
            Change::Write { offset: offset + from, bytes: bytes[from..to].to_owned() }.apply(image);
        }
        from = to;
    }
}

pub(crate) fn write_images(images: Images, into_dir: &Path) -> io::Result<()> {
    fs::create_dir_all(into_dir)?;
    if fs::read_dir(into_dir)?.next().is_some() {
        return Err(io::Error::new(
            io::ErrorKind::AlreadyExists,
            "the directory for the images is not empty",
        ));
    }
    images.into_iter().try_for_each(|(name, image)| fs::write(into_dir.join(name), image))
}

/// SplitMix64: enough for tests, and the same on every machine.
#[derive(Debug)]
struct Dice(u64);

impl Dice {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    fn survives(&mut self, quarters: u64) -> bool {
        self.below(4) < quarters
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    const SEEDS: u64 = 400;

    fn disk_with(path: &Path, content: Option<&[u8]>) -> Disk {
        let mut disk = Disk::default();
        disk.record(true);
        assert!(disk.wants(path));
        disk.opened(path, content.map(<[u8]>::to_owned));
        disk
    }

    /// Every image that the seeds lead to; an absent file is `None`.
    fn outcomes(disk: &Disk) -> BTreeSet<Option<Vec<u8>>> {
        let image = |seed| disk.power_cut(seed).expect("it records").pop().map(|(_, image)| image);
        (0..SEEDS).map(image).collect()
    }

    fn set<const N: usize>(images: [Option<&[u8]>; N]) -> BTreeSet<Option<Vec<u8>>> {
        images.into_iter().map(|image| image.map(<[u8]>::to_owned)).collect()
    }

    #[test]
    fn unsynced_changes_survive_in_any_combination_and_synced_ones_always() {
        let path = Path::new("/d/file");
        let mut disk = disk_with(path, Some(b"--"));
        disk.wrote(path, 0, b"a");
        disk.wrote(path, 1, b"b");
        assert_eq!(outcomes(&disk), set([Some(b"--"), Some(b"a-"), Some(b"-b"), Some(b"ab")]));
        assert_eq!(disk.process_kill().unwrap(), [(PathBuf::from("file"), b"ab".to_vec())]);
        disk.synced(path);
        assert_eq!(outcomes(&disk), set([Some(b"ab")]));
        disk.truncated(path, 1);
        assert_eq!(outcomes(&disk), set([Some(b"ab"), Some(b"a")]));
    }

    #[test]
    fn what_a_failed_sync_left_in_doubt_no_later_sync_saves() {
        let path = Path::new("/d/file");
        let mut disk = disk_with(path, Some(b"--"));
        disk.wrote(path, 0, b"a");
        disk.sync_failed(path);
        disk.wrote(path, 1, b"b");
        disk.synced(path);
        assert_eq!(outcomes(&disk), set([Some(b"-b"), Some(b"ab")]));
    }

    #[test]
    fn a_write_is_torn_only_between_sectors() {
        let path = Path::new("/d/file");
        let mut disk = disk_with(path, Some(&[0; 1024]));
        disk.wrote(path, 500, &[1; 24]);
        for image in outcomes(&disk).into_iter().flatten() {
            assert!([[0; 12], [1; 12]].iter().any(|part| image[500..512] == *part));
            assert!([[0; 12], [1; 12]].iter().any(|part| image[512..524] == *part));
        }
        assert_eq!(outcomes(&disk).len(), 4);
    }

    #[test]
    fn a_new_file_may_vanish_and_a_deleted_one_come_back_until_a_sync() {
        let path = Path::new("/d/file");
        let mut disk = disk_with(path, None);
        assert_eq!(outcomes(&disk), set([None, Some(b"")]));
        disk.wrote(path, 0, b"a");
        disk.synced(path);
        disk.deleted(path, false);
        assert_eq!(outcomes(&disk), set([None, Some(b"a")]));
        assert!(disk.process_kill().unwrap().is_empty());
        disk.opened(path, None);
        disk.wrote(path, 0, b"b");
        assert_eq!(outcomes(&disk), set([None, Some(b"a"), Some(b""), Some(b"b")]));
        disk.synced(path);
        assert_eq!(outcomes(&disk), set([Some(b"b")]));
        disk.deleted(path, true);
        assert_eq!(outcomes(&disk), set([None]));
    }
}
