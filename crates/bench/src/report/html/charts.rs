//! Which charts a report has, and what is on them: it turns cases and trials into lines and bars.

use super::svg::{self, Axis, Bar, Chart, Line, Point, Scale};
use crate::report::figures::Figure;
use crate::report::format::{figure, number, time_us};
use crate::report::model::{Case, PeakPoint, PeakReport, ScenarioReport, Trial, Verdict};
use crate::report::{statistics, words};

/// On a chart of all cases; more lines can't be distinguished. Each case has its own chart besides.
const LATENCY_LINES_MAX: usize = 6;
/// Values that span more than this are shown on a logarithmic axis.
const LINEAR_SPAN_MAX: f64 = 20.0;

/// What charts show of a case: its first metric.
struct Shown<'a> {
    case: &'a Case,
    figure: &'a Figure,
}

/// The first metric of each case: over x, or as bars where there is none.
pub(super) fn main(scenario: &ScenarioReport, figures: &[Figure]) -> String {
    let shown: Vec<Shown<'_>> = scenario
        .cases
        .iter()
        .filter_map(|case| {
            let of_case = |figure: &&Figure| figure.scenario == scenario.name && figure.case == case.name;
            Some(Shown { case, figure: figures.iter().find(of_case)? })
        })
        .collect();
    let mut charts: Vec<(String, Vec<Shown<'_>>)> = Vec::new();
    for of in shown {
        let x = of.case.x.as_ref().map(|x| x.label.as_str()).unwrap_or_default();
        let key = format!("{}\n{}\n{x}", of.figure.metric, of.figure.unit);
        match charts.iter_mut().find(|(other, _)| *other == key) {
            Some((_, cases)) => cases.push(of),
            None => charts.push((key, vec![of])),
        }
    }
    charts
        .iter()
        .map(|(_, cases)| if cases[0].case.x.is_some() { over_x(cases) } else { as_bars(cases) })
        .collect()
}

/// So many series in a chart as there are colours; what is measured and what is published share one.
fn over_x(cases: &[Shown<'_>]) -> String {
    let mut series: Vec<&str> = Vec::new();
    for of in cases {
        if !series.contains(&of.case.series.as_str()) {
            series.push(&of.case.series);
        }
    }
    let parts: Vec<Vec<Line>> = series.chunks(svg::COLOURS).map(|part| lines(cases, part)).collect();
    let points = || parts.iter().flatten().flat_map(|line| &line.points);
    let xs: Vec<f64> = points().map(|point| point.x).collect();
    let first = cases[0].figure;
    let label = cases[0].case.x.as_ref().map(|x| x.label.clone()).unwrap_or_default();
    let count = parts.len();
    let chart = |(part, lines): (usize, Vec<Line>)| {
        let which = if count > 1 { format!(" ({} of {count})", part + 1) } else { String::new() };
        let ys: Vec<f64> = lines.iter().flat_map(|line| &line.points).map(|point| point.y).collect();
        let chart = Chart {
            title: format!("{} against {label}{which}", first.metric),
            x: Axis { label: label.clone(), scale: scale_of(&xs), write: short },
            y: Axis { label: first.metric.clone(), scale: scale_of(&ys), write: writer(&first.unit) },
            lines,
        };
        chart.render()
    };
    parts.into_iter().enumerate().map(chart).collect()
}

fn lines(cases: &[Shown<'_>], series: &[&str]) -> Vec<Line> {
    let mut lines = Vec::new();
    for (colour, name) in series.iter().enumerate() {
        let of_series = || cases.iter().filter(|of| of.case.series == *name);
        let line = |name: String, dashed, points: Vec<Point>| Line {
            name,
            colour,
            dashed,
            marks: true,
            joined: true,
            points: in_order(points),
        };
        let measured = of_series().filter_map(|of| measured(of)).collect();
        let published = of_series().filter_map(|of| published(of)).collect();
        lines.push(line(format!("{name}, measured"), false, measured));
        lines.push(line(format!("{name}, published"), true, published));
    }
    lines.retain(|line| !line.points.is_empty());
    lines
}

fn measured(of: &Shown<'_>) -> Option<Point> {
    let y = of.figure.median()?;
    let between = of.figure.interval().map(|interval| (interval.low, interval.high));
    let title = format!("{}: {}", of.case.name, figure(y, &of.figure.unit));
    Some(Point { x: of.case.x.as_ref()?.value, y, title, between })
}

fn published(of: &Shown<'_>) -> Option<Point> {
    let published = of.figure.published.as_ref()?;
    let doubt = published.dubious.as_ref().map(|why| format!(" (?) {why}")).unwrap_or_default();
    let title = format!("{}, published: {}{doubt}", of.case.name, figure(published.value, &of.figure.unit));
    Some(Point { x: of.case.x.as_ref()?.value, y: published.value, title, between: None })
}

fn as_bars(cases: &[Shown<'_>]) -> String {
    let bar = |of: &Shown<'_>| {
        let labelled = |value: f64| (value, figure(value, &of.figure.unit));
        Bar {
            name: of.case.name.clone(),
            measured: of.figure.median().map(labelled),
            published: of.figure.published.as_ref().map(|published| labelled(published.value)),
        }
    };
    svg::bars(&cases[0].figure.metric, &cases.iter().map(bar).collect::<Vec<_>>())
}

/// The response times of up to six cases, evenly taken from all of them.
pub(super) fn latency(scenario: &ScenarioReport) -> String {
    let cases: Vec<(&Case, &Trial)> =
        scenario.cases.iter().filter_map(|case| Some((case, typical(&case.trials)?))).collect();
    let lines_max = LATENCY_LINES_MAX.min(cases.len());
    let lines = (0..lines_max).map(|n| {
        let (case, trial) = cases[if lines_max > 1 { n * (cases.len() - 1) / (lines_max - 1) } else { 0 }];
        percentiles(&case.name, n, false, trial, &trial.response)
    });
    let some = if cases.len() > lines_max {
        format!(" ({lines_max} of {} cases)", cases.len())
    } else {
        String::new()
    };
    distribution(&format!("response time by percentile{some}"), lines.collect())
}

/// One case by itself: response and service time, rates and p99 by the second.
pub(super) fn of_case(case: &Case) -> String {
    let Some(trial) = typical(&case.trials) else { return String::new() };
    let lines = vec![
        percentiles("from the planned send", 0, false, trial, &trial.response),
        percentiles("from the actual send", 1, true, trial, &trial.service),
    ];
    let mut charts = distribution("latency by percentile", lines);
    if trial.seconds_series.len() > 1 {
        charts += &by_second(trial);
    }
    charts
}

fn by_second(trial: &Trial) -> String {
    let line = |name: &str, colour, dashed, value: fn(&crate::report::model::Second) -> u64| Line {
        name: name.to_owned(),
        colour,
        dashed,
        marks: false,
        joined: true,
        points: trial.seconds_series.iter().map(|of| plain(of.at_s, value(of) as f64)).collect(),
    };
    let mut rates = vec![line("good", 0, false, |of| of.good)];
    let none = |value: fn(&crate::report::model::Second) -> u64| {
        trial.seconds_series.iter().all(|of| value(of) == 0)
    };
    for (name, colour, value) in [
        ("refused", 3, (|of| of.refused) as fn(&crate::report::model::Second) -> u64),
        ("failed or unknown", 1, |of| of.bad),
    ] {
        if !none(value) {
            rates.push(line(name, colour, true, value));
        }
    }
    let x = || Axis { label: "seconds".to_owned(), scale: Scale::Linear, write: short };
    let rate = Chart {
        title: "answers in each second".to_owned(),
        x: x(),
        y: Axis { label: "1/s".to_owned(), scale: Scale::Linear, write: short },
        lines: rates,
    };
    let times = Chart {
        title: "response time in each second".to_owned(),
        x: x(),
        y: Axis { label: "p99".to_owned(), scale: Scale::Log, write: time_us },
        lines: vec![
            line("p99", 0, false, |of| of.p99_us.max(1)),
            line("p50", 1, true, |of| of.p50_us.max(1)),
        ],
    };
    rate.render() + &times.render()
}

fn percentiles(
    name: &str,
    colour: usize,
    dashed: bool,
    trial: &Trial,
    of: &crate::report::model::Distribution,
) -> Line {
    // A percentile beyond the number of samples is the greatest of them, and would look like a plateau.
    let samples = trial.outcomes.total().max(1) as f64;
    let points =
        of.points.iter().filter(|point| point.q < 1.0 && 1.0 / (1.0 - point.q) <= samples).map(|point| {
            Point {
                title: format!(
                    "{name}: {} of the requests within {}",
                    share(point.q),
                    time_us(point.us as f64)
                ),
                ..plain(1.0 / (1.0 - point.q), point.us.max(1) as f64)
            }
        });
    Line { name: name.to_owned(), colour, dashed, marks: true, joined: true, points: points.collect() }
}

fn distribution(title: &str, lines: Vec<Line>) -> String {
    let chart = Chart {
        title: title.to_owned(),
        x: Axis { label: "percentile".to_owned(), scale: Scale::Percentiles, write: percentile },
        y: Axis { label: "time".to_owned(), scale: Scale::Log, write: time_us },
        lines,
    };
    chart.render()
}

/// p99 and throughput against the offered load, with what became of each load. The closed loop offers none, and a load
/// that the generator could not make is none: they are in the table.
pub(super) fn peak(peak: &PeakReport) -> String {
    let loads: Vec<&PeakPoint> =
        peak.curve.iter().filter(|of| !of.is_closed_loop() && of.verdict != Verdict::Invalid).collect();
    let points = |value: fn(&Trial) -> f64, unit: &str, verdict: Option<Verdict>| {
        let of_verdict = loads.iter().filter(|of| verdict.is_none_or(|verdict| verdict == of.verdict));
        let points = of_verdict.filter_map(|point| {
            let y = statistics::median(&point.valid().map(value).collect::<Vec<_>>())?;
            let title = format!(
                "{}/s offered, {}: {}",
                number(point.rate),
                words::verdict(point.verdict),
                figure(y, unit)
            );
            Some(Point { title, ..plain(point.rate, y) })
        });
        in_order(points.collect())
    };
    let p99 = |trial: &Trial| (trial.response.at(0.99) as f64).max(1.0);
    // Loads of one verdict are no curve.
    let line = |name: &str, colour, points| Line {
        name: name.to_owned(),
        colour,
        dashed: false,
        marks: true,
        joined: false,
        points,
    };
    let x = || Axis { label: "offered, 1/s".to_owned(), scale: Scale::Linear, write: short };
    let of = |verdict, colour| line(words::verdict(verdict), colour, points(p99, "us", Some(verdict)));
    let rates = loads.iter().map(|point| point.rate);
    let (least, most) =
        rates.fold((f64::INFINITY, 0.0), |(least, most), rate| (f64::min(least, rate), f64::max(most, rate)));
    let mut lines = vec![of(Verdict::Pass, 2), of(Verdict::Fail, 1), of(Verdict::Undecided, 3)];
    if least < most {
        let limit = peak.p99_limit_us as f64;
        let limit = Line {
            marks: false,
            joined: true,
            ..line("the limit", 4, vec![plain(least, limit), plain(most, limit)])
        };
        lines.push(limit);
    }
    lines.retain(|line| !line.points.is_empty());
    let times = Chart {
        title: "p99 against the offered load".to_owned(),
        x: x(),
        y: Axis { label: "p99".to_owned(), scale: Scale::Log, write: time_us },
        lines,
    };
    let rates = Chart {
        title: "good answers against the offered load".to_owned(),
        x: x(),
        y: Axis { label: "good, 1/s".to_owned(), scale: Scale::Linear, write: short },
        lines: vec![line("good", 0, points(Trial::good_per_s, "1/s", None))],
    };
    times.render() + &rates.render()
}

/// The valid trial whose throughput is the median, or the one below it.
fn typical(trials: &[Trial]) -> Option<&Trial> {
    let mut valid: Vec<&Trial> = trials.iter().filter(|trial| trial.is_valid()).collect();
    valid.sort_by(|left, right| left.good_per_s().total_cmp(&right.good_per_s()));
    valid.get(valid.len().checked_sub(1)? / 2).copied()
}

fn plain(x: f64, y: f64) -> Point {
    Point { x, y, title: String::new(), between: None }
}

fn in_order(mut points: Vec<Point>) -> Vec<Point> {
    points.sort_by(|left, right| left.x.total_cmp(&right.x));
    points
}

fn scale_of(values: &[f64]) -> Scale {
    let least = values.iter().copied().fold(f64::INFINITY, f64::min);
    let most = values.iter().copied().fold(0.0, f64::max);
    if least > 0.0 && most / least > LINEAR_SPAN_MAX { Scale::Log } else { Scale::Linear }
}

fn writer(unit: &str) -> fn(f64) -> String {
    match unit {
        "us" => time_us,
        "ms" => |ms| time_us(ms * 1e3),
        "s" => |s| time_us(s * 1e6),
        "bytes" => crate::report::format::bytes,
        _ => short,
    }
}

/// `40k`, `1.2M`.
fn short(value: f64) -> String {
    match value {
        _ if value >= 1e6 => format!("{}M", trimmed(value / 1e6)),
        _ if value >= 1e3 => format!("{}k", trimmed(value / 1e3)),
        _ => number((value * 1000.0).round() / 1000.0),
    }
}

fn trimmed(value: f64) -> String {
    ((value * 10.0).round() / 10.0).to_string()
}

/// `p99.9` of 1/(1-q).
fn percentile(inverse: f64) -> String {
    format!("p{}", ((1.0 - 1.0 / inverse) * 1e6).round() / 1e4)
}

fn share(q: f64) -> String {
    format!("{}%", (q * 1e6).round() / 1e4)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::sample;

    #[test]
    fn labels_are_short() {
        assert_eq!(
            [0.2, 500.0, 2500.0, 40_000.0, 1_250_000.0].map(short),
            ["0.200", "500", "2.5k", "40k", "1.3M"]
        );
        assert_eq!([2.0, 10.0, 1000.0].map(percentile), ["p50", "p90", "p99.9"]);
    }

    #[test]
    fn the_typical_trial_is_the_median_of_the_valid_ones() {
        let mut trials: Vec<Trial> = [5, 1, 9, 100].into_iter().map(|rate| sample::trial(0, rate)).collect();
        trials[3].flags.push(crate::report::model::Flag::Unsent { requests: 1 });
        assert_eq!(typical(&trials).map(|trial| trial.outcomes.served), Some(15));
        assert!(typical(&trials[3..]).is_none());
    }

    #[test]
    fn more_series_than_colours_have_charts_of_their_own() {
        let mut report = sample::report();
        let scenario = &mut report.scenarios[0];
        let of = scenario.cases[1].clone();
        scenario.cases = (0..8)
            .map(|n| Case { name: format!("case {n}"), series: format!("series {n}"), ..of.clone() })
            .collect();
        let count = |charts: &str, text: &str| charts.matches(text).count();
        let figures = crate::report::figures::all(&report);
        let charts = main(&report.scenarios[0], &figures);
        assert_eq!(
            (count(&charts, "<svg viewBox=\"0 0 480"), count(&charts, "(2 of 2)")),
            (2, 2),
            "{charts}"
        );
        assert_eq!(count(&charts, "series 5, measured"), 1);
        let (first, second) = charts.split_once("(2 of 2)").unwrap();
        assert!(first.contains("series 5") && !first.contains("series 6") && second.contains("series 7"));
    }

    #[test]
    fn a_wide_span_is_drawn_so_that_the_small_values_can_be_distinguished() {
        let mut report = sample::report();
        report.scenarios[0].cases[0].metrics[0].values = vec![100.0];
        let chart = |report: &crate::report::model::Report| {
            let chart = main(&report.scenarios[0], &crate::report::figures::all(report));
            (chart.matches(">0</text>").count(), chart.contains(">100</text>"))
        };
        // Both axes begin at 0, or only that of the threads does.
        assert_eq!(chart(&sample::report()), (2, false));
        assert_eq!(chart(&report), (1, true));
    }

    #[test]
    fn invalid_trials_and_what_is_no_load_are_in_no_curve() {
        let mut report = sample::report().peak.unwrap();
        let chart = peak(&report);
        assert!(chart.contains("2,400/s offered, pass: 2,400/s"), "{chart}");
        assert!(
            !chart.contains("closed loop") && !chart.contains("3,000/s") && !chart.contains("invalid"),
            "{chart}"
        );
        report.curve[2].trials.remove(1);
        assert_eq!(peak(&report), chart);
        report.curve[2].trials.clear();
        assert_ne!(peak(&report), chart);
    }

    #[test]
    fn percentiles_beyond_the_samples_are_left_out() {
        let mut trial = sample::trial(0, 100);
        trial.outcomes.served = 100;
        let line = percentiles("x", 0, false, &trial, &trial.response);
        assert_eq!(
            line.points.iter().map(|point| point.x.round()).collect::<Vec<_>>(),
            [1.0, 2.0, 10.0, 100.0]
        );
    }
}
