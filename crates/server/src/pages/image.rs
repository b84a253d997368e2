//! Images that a shop brings: which kinds there are, recognised by their content and never by their name.
//!
//! Must not: decode one, or read a file.

use std::fmt;

use super::rendered::content_tag;

/// Of one image. A phone on a bad line waits for it, and all that are served are in memory.
pub const IMAGE_BYTES_MAX: usize = 512 * 1024;

/// An image as it is served.
#[derive(Clone, PartialEq, Eq)]
pub struct Image {
    pub(super) bytes: Vec<u8>,
    pub(super) content_type: &'static str,
    pub(super) extension: &'static str,
}

impl fmt::Debug for Image {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Image({}, {} bytes)", self.content_type, self.bytes.len())
    }
}

/// Why some bytes are no image for a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotAnImage {
    #[error("has {bytes} bytes, and {IMAGE_BYTES_MAX} are the most: make it smaller")]
    TooLarge { bytes: usize },
    #[error("is none of PNG, JPEG, WebP, AVIF and SVG")]
    UnknownKind,
}

const KINDS: [(&str, &str); 5] = [
    ("png", "image/png"),
    ("jpg", "image/jpeg"),
    ("webp", "image/webp"),
    ("avif", "image/avif"),
    ("svg", "image/svg+xml"),
];
/// Hexadecimal digits of a name.
const NAME_DIGITS: usize = 32;

/// Whether this may be the name of an image.
pub fn is_image_name(name: &str) -> bool {
    name.split_once('.').is_some_and(|(tag, extension)| {
        tag.len() == NAME_DIGITS
            && tag.bytes().all(|digit| matches!(digit, b'0'..=b'9' | b'a'..=b'f'))
            && KINDS.iter().any(|(kind, _)| *kind == extension)
    })
}

impl Image {
    /// Of its content alone: the same image has the same name everywhere, and another one never has it.
    pub fn name(&self) -> String {
        format!("{}.{}", content_tag(&self.bytes, NAME_DIGITS / 2), self.extension)
    }

    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    pub fn content_type(&self) -> &'static str {
        self.content_type
    }

    /// # Errors
    /// If it is too large, or of no kind that browsers show.
    pub fn new(bytes: Vec<u8>) -> Result<Image, NotAnImage> {
        if bytes.len() > IMAGE_BYTES_MAX {
            return Err(NotAnImage::TooLarge { bytes: bytes.len() });
        }
        let extension = kind(&bytes).ok_or(NotAnImage::UnknownKind)?;
        let (_, content_type) =
            *KINDS.iter().find(|(kind, _)| *kind == extension).expect("every kind is there");
        Ok(Image { bytes, content_type, extension })
    }
}

fn kind(bytes: &[u8]) -> Option<&'static str> {
    let at = |from: usize, mark: &[u8]| bytes.get(from..from + mark.len()) == Some(mark);
    if at(0, b"\x89PNG\r\n\x1a\n") {
        return Some("png");
    }
    if at(0, b"\xff\xd8\xff") {
        return Some("jpg");
    }
    if at(0, b"RIFF") && at(8, b"WEBP") {
        return Some("webp");
    }
    if at(4, b"ftypavif") {
        return Some("avif");
    }
    is_svg(bytes).then_some("svg")
}

/// An SVG is text whose first element is `<svg>`. It may hold a script: as an image it runs none, and opened by itself
/// it is under the pages' policy.
fn is_svg(bytes: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(bytes) else { return false };
    let mut rest = text.trim_start_matches('\u{feff}').trim_start();
    for (begin, end) in [("<?xml", "?>"), ("<!--", "-->"), ("<!DOCTYPE svg", ">"), ("<!--", "-->")] {
        if rest.starts_with(begin) {
            let Some((_, after)) = rest.split_once(end) else { return false };
            rest = after.trim_start();
        }
    }
    rest.strip_prefix("<svg").is_some_and(|rest| rest.starts_with([' ', '\t', '\r', '\n', '>']))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_content_says_what_it_is() {
        for (bytes, extension) in [
            (b"\x89PNG\r\n\x1a\n....".as_slice(), Some("png")),
            (b"\xff\xd8\xff\xe0....", Some("jpg")),
            (b"RIFF\0\0\0\0WEBPVP8 ", Some("webp")),
            (b"\0\0\0\x20ftypavif", Some("avif")),
            (b"<svg xmlns=\"http://www.w3.org/2000/svg\"></svg>", Some("svg")),
            (b"\xef\xbb\xbf<?xml version=\"1.0\"?>\n<!-- made --> <svg\n>", Some("svg")),
            (b"<svgish>", None),
            (b"<!-- never ends <svg>", None),
            (b"<html><svg></svg></html>", None),
            (b"GIF89a", None),
            (b"RIFF\0\0\0\0WAVE", None),
            (b"\x89PN", None),
            (b"", None),
        ] {
            let image = Image::new(bytes.to_vec());
            assert_eq!(image.ok().map(|image| image.extension), extension, "{bytes:?}");
        }
    }

    #[test]
    fn a_large_one_is_refused() {
        let refused = Image::new(vec![0; IMAGE_BYTES_MAX + 1]).unwrap_err();
        assert_eq!(refused.to_string(), "has 524289 bytes, and 524288 are the most: make it smaller");
    }
}
