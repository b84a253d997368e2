//! Images in a table of the ledger's database, which every server of a cluster reads.

use engine::UnixMs;
use mysql::prelude::Queryable;

use super::{OpenError, Options, open_reader};
use crate::ledger::images::{ImageError, KeptImage, Space};

/// Names in one statement.
const NAMES_AT_ONCE: usize = 500;

pub(in crate::ledger) fn add_image(
    options: &Options,
    name: &str,
    content: &[u8],
    at: UnixMs,
) -> Result<(), ImageError> {
    let mut connection = open_reader(options)?;
    let mut add = || {
        let there = "SELECT 1 FROM images WHERE name = ?";
        if connection.exec_first::<u8, _, _>(there, (name,))?.is_some() {
            return Ok(None);
        }
        let all = "SELECT COUNT(*), CAST(COALESCE(SUM(size), 0) AS UNSIGNED) FROM images";
        let (images, bytes) = connection.query_first(all)?.unwrap_or_default();
        if let Err(full) = (Space { images, bytes }).check(content.len() as u64) {
            return Ok(Some(full));
        }
        let add = "INSERT IGNORE INTO images (name, size, added_at, content) VALUES (?, ?, ?, ?)";
        connection.exec_drop(add, (name, content.len(), at.0, content))?;
        Ok(None)
    };
    let full: Option<ImageError> = add().map_err(|error: mysql::Error| OpenError::from(error))?;
    full.map_or(Ok(()), Err)
}

pub(in crate::ledger) fn image(options: &Options, name: &str) -> Result<Option<Vec<u8>>, OpenError> {
    Ok(open_reader(options)?.exec_first("SELECT content FROM images WHERE name = ?", (name,))?)
}

pub(in crate::ledger) fn missing_image<'a>(
    options: &Options,
    names: &[&'a str],
) -> Result<Option<&'a str>, OpenError> {
    let mut connection = open_reader(options)?;
    for names in names.chunks(NAMES_AT_ONCE) {
        let holes = vec!["?"; names.len()].join(",");
        let kept: Vec<String> =
            connection.exec(format!("SELECT name FROM images WHERE name IN ({holes})"), names.to_vec())?;
        if let Some(missing) = names.iter().find(|name| !kept.iter().any(|kept| kept == *name)) {
            return Ok(Some(missing));
        }
    }
    Ok(None)
}

pub(in crate::ledger) fn images(
    options: &Options,
    after: &str,
    max: usize,
) -> Result<Vec<KeptImage>, OpenError> {
    let rows = "SELECT name, size, added_at FROM images WHERE name > ? ORDER BY name LIMIT ?";
    let rows: Vec<(String, u64, u64)> = open_reader(options)?.exec(rows, (after, max))?;
    let kept = |(name, bytes, at)| KeptImage { name, bytes, added_at: UnixMs(at) };
    Ok(rows.into_iter().map(kept).collect())
}

pub(in crate::ledger) fn remove_image(options: &Options, name: &str) -> Result<bool, OpenError> {
    let mut connection = open_reader(options)?;
    connection.exec_drop("DELETE FROM images WHERE name = ?", (name,))?;
    Ok(connection.affected_rows() > 0)
}
