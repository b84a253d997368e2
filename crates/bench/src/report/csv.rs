//! The report as CSV: one row for each case, metric and repeat, for spreadsheets and data frames.

use anyhow::Context;

use super::model::{Better, Report};
use super::{figures, verdict};

const COLUMNS: [&str; 17] = [
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
    "seconds",
    "requests",
    "published",
    "published_dubious",
    "started_unix_s",
    "git_revision",
    "verdict",
];

/// `verdict` is the sentence that every form begins with. `seconds` and `requests` are of the repeat's load. A metric without a valid measurement has one row, with no repeat and no value.
pub fn render(report: &Report) -> anyhow::Result<String> {
    let mut writer = ::csv::Writer::from_writer(Vec::new());
    writer.write_record(COLUMNS)?;
    let started = report.started_unix_s.to_string();
    let revision = report.git_revision.clone().unwrap_or_default();
    let verdict = verdict::of(report).sentence;
    let figures = figures::all(report);
    if figures.is_empty() {
        // Without figures the reason has a row of its own.
        writer.write_record((1..COLUMNS.len()).map(|_| "").chain([verdict.as_str()]))?;
    }
    for figure in figures {
        let (x_label, x) =
            figure.x.clone().map_or_else(Default::default, |(label, x)| (label, x.to_string()));
        let published = figure.published.clone();
        let published_value =
            published.as_ref().map(|published| published.value.to_string()).unwrap_or_default();
        let dubious = published.and_then(|published| published.dubious).unwrap_or_default();
        // What was asked of the servers once, and not in each repeat, has one value and no load of its own.
        let each = figure.samples.len() == figure.values.len();
        for index in 0..figure.values.len().max(1) {
            let value = figure.values.get(index);
            let sample = figure.samples.get(index).filter(|_| each);
            writer.write_record([
                figure.scenario.as_str(),
                &figure.case,
                &figure.series,
                &x_label,
                &x,
                &figure.metric,
                &figure.unit,
                better(figure.better),
                &value.map_or_else(String::new, |_| (index + 1).to_string()),
                &value.map_or_else(String::new, f64::to_string),
                &sample.map_or_else(String::new, |(seconds, _)| seconds.to_string()),
                &sample.map_or_else(String::new, |(_, requests)| requests.to_string()),
                &published_value,
                &dubious,
                &started,
                &revision,
                &verdict,
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
        let fields: Vec<&str> = throughput[1].iter().take(13).collect();
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
                "3",
                "123000",
                "42634"
            ]
        );
        // All of its trials were invalid.
        let none = of("set, 5000 threads", "throughput");
        assert_eq!((none.len(), &none[0][8], &none[0][9]), (1, "", ""));
        assert_eq!(rows.iter().filter(|row| &row[0] == "peak" && &row[1] == "embedded").count(), 4);
        assert!(
            rows.iter().any(|row| &row[0] == "durability" && &row[5] == "acknowledged lost, redis killed")
        );
    }
}
