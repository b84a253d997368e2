//! The report as CSV: one row for each case, metric and repeat, for spreadsheets and data frames.

use anyhow::Context;

use super::figures;
use super::model::{Better, Report};

const COLUMNS: [&str; 15] = [
    "scenario",
    "case",
    "series",
    "x_label",
    "x",
    "metric",
    "unit",
    "better",
    "repeat",
    "value",
    "published",
    "published_dubious",
    "started_unix_s",
    "git_revision",
    "unfit",
];

/// `unfit` is empty, or says why the rows are no result. A metric without a valid measurement has one row, with no repeat and no value.
pub fn render(report: &Report) -> anyhow::Result<String> {
    let mut writer = ::csv::Writer::from_writer(Vec::new());
    writer.write_record(COLUMNS)?;
    let started = report.started_unix_s.to_string();
    let revision = report.git_revision.clone().unwrap_or_default();
    let unfit = report.unfit().or_else(|| report.warning().map(str::to_owned)).unwrap_or_default();
    let figures = figures::all(report);
    if figures.is_empty() && !unfit.is_empty() {
        // Without figures the reason has a row of its own.
        writer.write_record((1..COLUMNS.len()).map(|_| "").chain([unfit.as_str()]))?;
    }
    for figure in figures {
        let (x_label, x) =
            figure.x.clone().map_or_else(Default::default, |(label, x)| (label, x.to_string()));
        let published = figure.published.clone();
        let published_value =
            published.as_ref().map(|published| published.value.to_string()).unwrap_or_default();
        let dubious = published.and_then(|published| published.dubious).unwrap_or_default();
        let repeats: Vec<(String, String)> = match figure.values.as_slice() {
            [] => vec![Default::default()],
            values => (1..).zip(values).map(|(n, value)| (i32::to_string(&n), value.to_string())).collect(),
        };
        for (repeat, value) in repeats {
            writer.write_record([
                figure.scenario.as_str(),
                &figure.case,
                &figure.series,
                &x_label,
                &x,
                &figure.metric,
                &figure.unit,
                better(figure.better),
                &repeat,
                &value,
                &published_value,
                &dubious,
                &started,
                &revision,
                &unfit,
            ])?;
        }
    }
    let bytes = writer.into_inner().context("the report as CSV")?;
    String::from_utf8(bytes).context("made of strings")
}

fn better(better: Better) -> &'static str {
    match better {
        Better::Higher => "higher",
        Better::Lower => "lower",
        Better::Neither => "neither",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::sample;

    #[test]
    fn a_row_for_each_repeat_with_names_that_hold_commas() {
        let text = render(&sample::report()).unwrap();
        let rows: Vec<::csv::StringRecord> =
            ::csv::Reader::from_reader(text.as_bytes()).records().map(Result::unwrap).collect();
        let of = |case: &str, metric: &str| {
            rows.iter().filter(|row| &row[1] == case && &row[5] == metric).collect::<Vec<_>>()
        };
        let throughput = of("set, 50 threads", "throughput");
        assert_eq!(throughput.len(), 6);
        let fields: Vec<&str> = throughput[1].iter().take(11).collect();
        assert_eq!(
            fields,
            [
                "redis-threads",
                "set, 50 threads",
                "set",
                "threads",
                "50",
                "throughput",
                "1/s",
                "higher",
                "2",
                "41000",
                "42634"
            ]
        );
        // All of its trials were invalid.
        let none = of("set, 5000 threads", "throughput");
        assert_eq!((none.len(), &none[0][8], &none[0][9]), (1, "", ""));
        assert_eq!(rows.iter().filter(|row| &row[0] == "peak").count(), 4);
        assert!(
            rows.iter().any(|row| &row[0] == "durability" && &row[5] == "acknowledged lost, redis killed")
        );
    }
}
