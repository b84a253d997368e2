//! What fuzz/targets give bytes to. Built for them alone.

use super::Sources;

/// A configuration file: taken, or refused with what is wrong.
pub fn text(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let mut sources = Sources::default();
    sources.text("a file", text);
    if let Err(errors) = sources.load() {
        assert!(!errors.0.is_empty(), "a refusal says why");
    }
}
