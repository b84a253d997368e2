//! The report as JSON: what programs read, and what every other form is made from again. Schema: `schema.json`.

use std::fs::Permissions;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use anyhow::{Context, bail, ensure};
use tempfile::NamedTempFile;

use super::model::{Report, SCHEMA};
use super::verdict;

/// The published JSON schema (draft 2020-12) of what [`write()`] writes.
pub const JSON_SCHEMA: &str = include_str!("schema.json");

pub fn to_text(report: &Report) -> anyhow::Result<String> {
    let report = Report { verdict: verdict::of(report).sentence, ..report.clone() };
    let mut text = serde_json::to_string_pretty(&report).context("the report as JSON")?;
    text.push('\n');
    // JSON has no infinities: they would be written as null, and found only by whoever reads the report.
    from_text(&text).context("the report holds something that can't be read again")?;
    Ok(text)
}

/// # Errors
/// If it is no JSON, has another schema than [`SCHEMA`], or does not keep to it.
pub fn from_text(text: &str) -> anyhow::Result<Report> {
    // Looked at first: another version would only give errors about fields that it has or lacks.
    let value: serde_json::Value = serde_json::from_str(text).context("no JSON")?;
    match value.get("schema").and_then(serde_json::Value::as_str) {
        Some(SCHEMA) => {}
        Some(other) => bail!("its schema is {other}, and this program reads {SCHEMA}"),
        None => bail!("no report of `doorbuster bench run`: it names no schema"),
    }
    // From the text again: a message with line and column is worth more than the time.
    serde_json::from_str(text).with_context(|| format!("not as {SCHEMA} wants it"))
}

/// Replaces the file whole, so that a crash leaves the report before.
pub fn write(report: &Report, file: &Path) -> anyhow::Result<()> {
    write_text(&to_text(report)?, file)
}

pub fn write_text(text: &str, file: &Path) -> anyhow::Result<()> {
    put(beside(text, file)?, file)
}

/// # Errors
/// If the file can't be replaced, found out without doing so.
pub fn check_place(file: &Path) -> anyhow::Result<()> {
    ensure!(!file.is_dir(), "{}: it is a folder", file.display());
    beside("", file).map(drop)
}

/// The whole text in a temporary file beside the one that it is to replace: a full disk is found out here.
pub(super) fn beside(text: &str, file: &Path) -> anyhow::Result<NamedTempFile> {
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let cannot = || cannot_write(file);
    // A temporary file is private by itself; a report is to be read by others, as the user's other files are.
    let public = Permissions::from_mode(0o666);
    let beside = tempfile::Builder::new().prefix(".report").permissions(public).tempfile_in(folder);
    let mut beside = beside.with_context(cannot)?;
    beside.write_all(text.as_bytes()).with_context(cannot)?;
    Ok(beside)
}

pub(super) fn put(beside: NamedTempFile, file: &Path) -> anyhow::Result<()> {
    beside.persist(file).map(drop).with_context(|| cannot_write(file))
}

fn cannot_write(file: &Path) -> String {
    format!("{}: can't be written", file.display())
}

pub fn read(file: &Path) -> anyhow::Result<Report> {
    let text = std::fs::read_to_string(file).with_context(|| file.display().to_string())?;
    ensure!(!text.is_empty(), "{}: it is empty", file.display());
    from_text(&text).with_context(|| file.display().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::sample;

    #[test]
    fn a_report_is_the_same_when_read_again() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("report.json");
        let report = sample::report();
        for _ in 0..2 {
            write(&report, &file).unwrap();
            assert_eq!(to_text(&read(&file).unwrap()).unwrap(), to_text(&report).unwrap());
        }
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "nothing is left beside it");
    }

    #[test]
    fn what_can_t_be_written_is_found_out_before() {
        let folder = tempfile::tempdir().unwrap();
        let check = |name: &str| check_place(&folder.path().join(name)).map_err(|error| error.to_string());
        assert!(check("chart.svg").is_ok());
        assert!(check("").unwrap_err().ends_with("it is a folder"));
        assert!(check("none/chart.svg").unwrap_err().ends_with("can't be written"));
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "nothing is left");
    }

    #[test]
    fn it_begins_with_its_verdict() {
        let text = to_text(&sample::report()).unwrap();
        let wanted = format!("  \"verdict\": \"{}", "INVALID in 2 of 7 cases");
        assert!(text.lines().nth(2).unwrap().starts_with(&wanted), "{text}");
    }

    #[test]
    fn reports_of_before_the_build_was_recorded_are_read() {
        let mut old: serde_json::Value = serde_json::from_str(&to_text(&sample::report()).unwrap()).unwrap();
        assert!(old["environment"].as_object_mut().unwrap().remove("build").is_some());
        assert_eq!(from_text(&old.to_string()).unwrap().environment.build, "");
    }

    #[test]
    fn what_is_no_report_of_this_schema_is_refused() {
        let other = to_text(&sample::report()).unwrap().replace("doorbuster-bench/2", "doorbuster-bench/0");
        for (text, reason) in [
            (other.as_str(), "its schema is doorbuster-bench/0"),
            ("{\"environment\": {}}", "it names no schema"),
            ("{\"schema\": \"doorbuster-bench/2\"}", "not as doorbuster-bench/2 wants it: missing field"),
            ("not json", "no JSON"),
        ] {
            let error = format!("{:#}", from_text(text).unwrap_err());
            assert!(error.contains(reason), "{error}");
        }
    }

    #[test]
    fn infinities_are_found_when_the_report_is_written() {
        let mut report = sample::report();
        report.scenarios[0].cases[0].metrics[0].values[0] = f64::INFINITY;
        assert!(format!("{:#}", to_text(&report).unwrap_err()).contains("can't be read again"));
    }
}
