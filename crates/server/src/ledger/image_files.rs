//! Images as files in the data directory, beside SQLite's ledger. A file has its name once it is whole and synced.

use std::collections::HashSet;
use std::fs::{self, DirEntry, File};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use engine::UnixMs;

use super::images::{ImageError, KeptImage, Space};

const DIRECTORY: &str = "images";

/// Panics on a name that would leave the directory: what comes from outside is checked before.
fn path(data_dir: &Path, name: &str) -> PathBuf {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'.';
    assert!(name.bytes().all(plain) && !name.starts_with('.'), "no name of an image: {name:?}");
    data_dir.join(DIRECTORY).join(name)
}

pub(super) fn add(data_dir: &Path, name: &str, content: &[u8]) -> Result<(), ImageError> {
    let whole = path(data_dir, name);
    if whole.exists() {
        return Ok(());
    }
    let directory = data_dir.join(DIRECTORY);
    fs::create_dir_all(&directory)?;
    File::open(data_dir)?.sync_all()?;
    let mut space = Space::default();
    for entry in entries(data_dir)? {
        space.images += 1;
        space.bytes += entry.metadata()?.len();
    }
    space.check(content.len() as u64)?;
    // Begins with a dot, so it is none of the images; what a crash leaves of it is overwritten.
    let part = directory.join(".part");
    let mut file = File::create(&part)?;
    file.write_all(content)?;
    file.sync_all()?;
    fs::rename(part, whole)?;
    Ok(File::open(directory)?.sync_all()?)
}

pub(super) fn read(data_dir: &Path, name: &str) -> io::Result<Option<Vec<u8>>> {
    found(fs::read(path(data_dir, name)))
}

pub(super) fn missing<'a>(data_dir: &Path, names: &[&'a str]) -> io::Result<Option<&'a str>> {
    let kept: HashSet<_> = entries(data_dir)?.into_iter().filter_map(|entry| name_of(&entry)).collect();
    Ok(names.iter().find(|name| !kept.contains(**name)).copied())
}

pub(super) fn list(data_dir: &Path, after: &str, max: usize) -> io::Result<Vec<KeptImage>> {
    let mut entries: Vec<_> =
        entries(data_dir)?.into_iter().filter_map(|entry| Some((name_of(&entry)?, entry))).collect();
    entries.retain(|(name, _)| name.as_str() > after);
    entries.sort_unstable_by(|(a, _), (b, _)| a.cmp(b));
    let kept = entries.into_iter().take(max).map(|(name, entry)| {
        let metadata = entry.metadata()?;
        let added_at = metadata.modified()?.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let added_at = UnixMs(added_at.as_millis().try_into().unwrap_or(u64::MAX));
        Ok(KeptImage { name, bytes: metadata.len(), added_at })
    });
    kept.collect()
}

pub(super) fn remove(data_dir: &Path, name: &str) -> io::Result<bool> {
    let removed = found(fs::remove_file(path(data_dir, name)))?.is_some();
    if removed {
        File::open(data_dir.join(DIRECTORY))?.sync_all()?;
    }
    Ok(removed)
}

/// All images; none if nobody has added one yet.
fn entries(data_dir: &Path) -> io::Result<Vec<DirEntry>> {
    let Some(entries) = found(fs::read_dir(data_dir.join(DIRECTORY)))? else { return Ok(Vec::new()) };
    entries.filter(|entry| !matches!(entry, Ok(entry) if name_of(entry).is_none())).collect()
}

fn name_of(entry: &DirEntry) -> Option<String> {
    entry.file_name().into_string().ok().filter(|name| !name.starts_with('.'))
}

fn found<T>(result: io::Result<T>) -> io::Result<Option<T>> {
    match result {
        Ok(found) => Ok(Some(found)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}
