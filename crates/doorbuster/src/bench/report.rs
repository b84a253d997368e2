//! `doorbuster bench report`: an earlier result in its other forms; and how `bench run` writes all of them.
//!
//! Must not: compute a figure; the forms are the bench crate's.

use std::path::{Path, PathBuf};

use ::bench::report::folder::Folder;
use ::bench::report::model::Report;
use ::bench::report::{csv, json, page, summary};
use clap::Args;

use super::read_report;
use crate::failure::Failure;
use crate::output;

/// Show an earlier report again, or write it in other forms
#[derive(Args, Debug)]
#[command(after_help = "\
Without an option the summary is printed. What the JSON holds is all that is needed: nothing is measured.

Examples:
  doorbuster bench report bench-report/report.json
  doorbuster bench report old.json --html old.html --markdown old.md --csv old.csv")]
pub(super) struct ReportArguments {
    /// The report.json of a run
    #[arg(value_name = "FILE.json")]
    file: PathBuf,
    /// Write one self-contained page to FILE
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Write Markdown to FILE
    #[arg(long, value_name = "FILE")]
    markdown: Option<PathBuf>,
    /// Write a row for each case, metric and repeat to FILE
    #[arg(long, value_name = "FILE")]
    csv: Option<PathBuf>,
}

pub(super) fn run(arguments: &ReportArguments) -> Result<(), Failure> {
    let report = read_report(&arguments.file)?;
    let wanted =
        [(&arguments.html, Form::Html), (&arguments.markdown, Form::Markdown), (&arguments.csv, Form::Csv)];
    let wanted: Vec<(&Path, Form)> =
        wanted.into_iter().filter_map(|(file, form)| Some((file.as_deref()?, form))).collect();
    // Before the first is written.
    let mut taken = vec![place(&arguments.file)];
    for (file, _) in &wanted {
        let place = place(file);
        if taken.contains(&place) {
            return Err(Failure::usage(format!(
                "{}: the report and each of its forms need a file of their own",
                file.display()
            )));
        }
        taken.push(place);
    }
    for (file, form) in &wanted {
        write(&report, *form, file)?;
    }
    if wanted.is_empty() { output::print(&summary::of_report(&report)) } else { Ok(()) }
}

/// The same for all names of a file, of one that is not there yet too. What can't be found fails when it is written.
fn place(file: &Path) -> PathBuf {
    let of_folder = || {
        let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        Some(folder.canonicalize().ok()?.join(file.file_name()?))
    };
    file.canonicalize().ok().or_else(of_folder).unwrap_or_else(|| file.to_owned())
}

#[derive(Debug, Clone, Copy)]
enum Form {
    Html,
    Markdown,
    Csv,
}

fn write(report: &Report, form: Form, file: &Path) -> Result<(), Failure> {
    let text = match form {
        Form::Html => Ok(page::html(report)),
        Form::Markdown => Ok(page::markdown(report)),
        Form::Csv => csv::render(report),
    };
    text.and_then(|text| json::write_text(&text, file)).map_err(|error| Failure::usage(format!("{error:#}")))
}

/// What a run writes into its folder, which no other run may write.
pub(super) fn folder(out: &Path) -> Result<Folder, Failure> {
    std::fs::create_dir_all(out)
        .map_err(|error| Failure::usage(format!("{}: can't be made: {error}", out.display())))?;
    Folder::open(out).map_err(|error| Failure::unavailable(format!("{error:#}")))
}

/// Beside the JSON, which is there already.
pub(super) fn write_all(report: &Report, folder: &Path) -> Result<(), Failure> {
    for (form, name) in
        [(Form::Html, "report.html"), (Form::Markdown, "report.md"), (Form::Csv, "report.csv")]
    {
        write(report, form, &folder.join(name))?;
    }
    Ok(())
}
