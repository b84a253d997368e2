//! A finished answer: its bytes, plain and compressed, and the tags by which a browser asks for it again;
//! and how it is written as a file for a CDN.
//!
//! Must not: know a route or a template.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;

use flate2::Compression;
use flate2::write::GzEncoder;
use ring::digest;

/// Bytes to serve, made once per change and shared by every reader.
#[derive(Clone, Debug)]
pub struct Rendered {
    pub body: Vec<u8>,
    /// The same, gzip-coded at the best level: it is paid for once and sent a million times.
    pub gzip: Vec<u8>,
    pub tags: Tags,
    pub content_type: &'static str,
}

/// The tags of an answer, strong and quoted: RFC 9110 wants one for each coding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tags {
    pub plain: String,
    pub gzip: String,
}

impl Rendered {
    pub(super) fn new(content_type: &'static str, body: Vec<u8>) -> Rendered {
        Rendered::with(content_type, body, Compression::best())
    }

    /// A page of a list as JSON. Somebody may walk through thousands, so compressing one takes little.
    pub fn list_json(body: Vec<u8>) -> Rendered {
        Rendered::with("application/json", body, Compression::fast())
    }

    fn with(content_type: &'static str, body: Vec<u8>, level: Compression) -> Rendered {
        let tag = content_tag(&body, 16);
        let tags = Tags { plain: format!("\"{tag}\""), gzip: format!("\"{tag}-gzip\"") };
        Rendered { gzip: compress(&body, level), tags, body, content_type }
    }

    /// See [`write_file`].
    ///
    /// # Errors
    /// Whatever the file system said; the earlier file is then still whole.
    pub fn write_file(&self, dir: &Path, name: &str) -> io::Result<()> {
        write_file(dir, name, &self.body, &self.gzip)
    }
}

impl Tags {
    /// Does this `If-None-Match` value name what we would send, in either coding? Then the answer is 304.
    pub fn are_known_to(&self, if_none_match: &str) -> bool {
        if_none_match.split(',').map(str::trim).any(|tag| {
            // The comparison is the weak one: a proxy that recompressed the page marks our tag as weak.
            let tag = tag.strip_prefix("W/").unwrap_or(tag);
            tag == "*" || tag == self.plain || tag == self.gzip
        })
    }
}

/// Writes the page as `dir/name`, and `dir/name.gz` beside it, each replaced in one step, so that a CDN
/// or nginx never reads half a page. One writer per directory: the temporary names are fixed, so that
/// what a crash left behind is overwritten by the next attempt. Blocks on the disk.
///
/// # Errors
/// Whatever the file system said; the earlier page is then still whole.
pub fn write_file(dir: &Path, name: &str, body: &[u8], gzip: &[u8]) -> io::Result<()> {
    assert!(is_plain_file_name(name), "a page's file name must stay inside its directory: {name:?}");
    let packed_name = format!("{name}.gz");
    let plain = stage(dir, name, body)?;
    let packed = stage(dir, &packed_name, gzip)?;
    // The compressed file first: it is the one that most readers get.
    fs::rename(packed, dir.join(packed_name))?;
    fs::rename(plain, dir.join(name))?;
    File::open(dir)?.sync_all()
}

/// The first bytes of the content's SHA-256, in hex.
pub(super) fn content_tag(content: &[u8], bytes: usize) -> String {
    let hash = digest::digest(&digest::SHA256, content);
    hash.as_ref()[..bytes].iter().map(|byte| format!("{byte:02x}")).collect()
}

fn compress(body: &[u8], level: Compression) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::with_capacity(body.len() / 2), level);
    encoder.write_all(body).expect("writing to a Vec cannot fail");
    encoder.finish().expect("writing to a Vec cannot fail")
}

fn is_plain_file_name(name: &str) -> bool {
    !name.starts_with('.')
        && !name.is_empty()
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte))
}

/// Writes and syncs a temporary file: without the sync, a power cut after the rename leaves an empty page.
fn stage(dir: &Path, name: &str, content: &[u8]) -> io::Result<std::path::PathBuf> {
    let path = dir.join(format!(".{name}.tmp"));
    let mut file = File::create(&path)?;
    file.write_all(content)?;
    file.sync_all()?;
    Ok(path)
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;

    fn page(text: &str) -> Rendered {
        Rendered::new("text/html; charset=utf-8", text.as_bytes().to_vec())
    }

    #[test]
    fn gzip_gives_back_the_body() {
        let page = page(&"a unit, a unit, my kingdom for a unit. ".repeat(50));
        let mut text = Vec::new();
        flate2::read::GzDecoder::new(page.gzip.as_slice()).read_to_end(&mut text).unwrap();
        assert_eq!(text, page.body);
        assert!(page.gzip.len() < page.body.len() / 4);
    }

    #[test]
    fn the_tag_follows_the_content() {
        assert_eq!(page("one").tags.plain, page("one").tags.plain);
        assert_ne!(page("one").tags.plain, page("two").tags.plain);
        assert_ne!(page("one").tags.plain, page("one").tags.gzip);
    }

    #[test]
    fn a_known_tag_is_recognised_in_every_form() {
        let page = page("one");
        let (etag, gzip) = (page.tags.plain.clone(), page.tags.gzip.clone());
        for (header, known) in [
            (etag.clone(), true),
            (gzip, true),
            (format!("W/{etag}"), true),
            (format!("\"other\", {etag}"), true),
            ("*".to_owned(), true),
            ("\"other\"".to_owned(), false),
            (etag.trim_matches('"').to_owned(), false),
            (String::new(), false),
        ] {
            assert_eq!(page.tags.are_known_to(&header), known, "{header}");
        }
    }

    #[test]
    fn a_file_is_replaced_whole_and_leaves_nothing_behind() {
        let dir = tempfile::tempdir().unwrap();
        page("old").write_file(dir.path(), "seckill_3_30.html").unwrap();
        page("new").write_file(dir.path(), "seckill_3_30.html").unwrap();
        assert_eq!(fs::read_to_string(dir.path().join("seckill_3_30.html")).unwrap(), "new");
        assert_eq!(fs::read(dir.path().join("seckill_3_30.html.gz")).unwrap(), page("new").gzip);
        let mut names: Vec<_> =
            fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        assert_eq!(names, ["seckill_3_30.html", "seckill_3_30.html.gz"]);
    }

    #[test]
    fn a_failed_write_keeps_the_earlier_page() {
        let dir = tempfile::tempdir().unwrap();
        page("old").write_file(dir.path(), "index.html").unwrap();
        // A directory where the temporary file should be: it can't be created.
        fs::create_dir(dir.path().join(".index.html.gz.tmp")).unwrap();
        page("new").write_file(dir.path(), "index.html").unwrap_err();
        assert_eq!(fs::read_to_string(dir.path().join("index.html")).unwrap(), "old");
    }

    #[test]
    fn only_plain_names_are_file_names() {
        for (name, plain) in [
            ("seckill_3_30.html", true),
            ("../etc/passwd", false),
            ("a/b.html", false),
            (".hidden", false),
            ("", false),
        ] {
            assert_eq!(is_plain_file_name(name), plain, "{name:?}");
        }
    }
}
