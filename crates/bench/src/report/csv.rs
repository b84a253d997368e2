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
    for of in figures {
        let (case, metric) = (of.case, of.metric);
        let published = metric.published.as_ref();
        // What was asked of the servers once, and not in each repeat, has one value and no load of its own.
        let each = of.samples.len() == metric.values.len();
        for index in 0..metric.values.len().max(1) {
            let value = metric.values.get(index);
            let sample = of.samples.get(index).filter(|_| each);
            writer.write_record([
                of.scenario,
                &case.name,
                &case.series,
                case.x.as_ref().map_or("", |x| &x.label),
                &cell(case.x.as_ref().map(|x| x.value)),
                &metric.name,
                &metric.unit,
                better(metric.better),
                &cell(value.map(|_| index + 1)),
                &cell(value),
                &cell(sample.map(|(seconds, _)| seconds)),
                &cell(sample.map(|(_, requests)| requests)),
                &cell(published.map(|of| of.value)),
                &cell(published.and_then(|of| of.dubious.as_ref())),
                &started,
                &revision,
                &verdict,
            ])?;
        }
    }
    let bytes = writer.into_inner().context("the report as CSV")?;
    String::from_utf8(bytes).context("made of strings")
}

fn cell(value: Option<impl ToString>) -> String {
    value.map(|value| value.to_string()).unwrap_or_default()
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
