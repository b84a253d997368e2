//! Which pictures a report has, and what is on them: cases and trials become lines and rows. `draw` draws them.

mod draw;

use indexmap::{IndexMap, IndexSet};

pub(super) use self::draw::Chart;
use self::draw::{Axis, Line, Point, Row, Scale};
use super::figures::{self, Figure};
use super::format::{bytes, figure, number, time_us, times};
use super::model::{Case, ScenarioReport, Second, Trial, Verdict};
use super::statistics::median;

/// On a chart of all cases; more lines can't be distinguished.
const LATENCY_LINES_MAX: usize = 6;
/// Values that span more than this are shown on a logarithmic axis.
const LINEAR_SPAN_MAX: f64 = 20.0;
/// Fewer points show no course.
const POINTS_OVER_TIME_MIN: usize = 20;

/// Published rates against measured ones, of all tiers; none without a published rate.
pub(super) fn overview(figures: &[&Figure<'_>]) -> Option<Chart> {
    let pairs = figures.iter().filter(|of| of.metric.unit == "1/s" && of.metric.published.is_some());
    let named = |of: &&Figure<'_>| Row {
        name: format!("{}, {}", of.scenario, of.case.name),
        label: of.ratio().map(times).unwrap_or_default(),
        ..row(of)
    };
    let rows: Vec<Row> = pairs.map(named).collect();
    draw::rows("published against measured, per second".to_owned(), Scale::Log, short, &rows)
}

fn row(of: &Figure<'_>) -> Row {
    Row {
        name: of.case.name.clone(),
        measured: of.median(),
        between: of.interval().map(|interval| (interval.low, interval.high)),
        published: of.metric.published.as_ref().map(|published| published.value),
        label: of.median().map(|median| figure(median, &of.metric.unit)).unwrap_or_default(),
    }
}

/// A row for each name that has values: their median and range; and the same in words.
pub(super) fn medians(title: &str, unit: &str, named: &[(&str, Vec<f64>)]) -> Option<(Chart, String)> {
    let mut rows = Vec::new();
    for (name, values) in named {
        let Some(middle) = median(values) else { continue };
        let (least, most) = draw::span(values.iter().copied());
        rows.push(Row {
            name: (*name).to_owned(),
            measured: Some(middle),
            between: (least < most).then_some((least, most)),
            published: None,
            label: figure(middle, unit),
        });
    }
    let all: Vec<f64> = rows.iter().filter_map(|row| row.measured).collect();
    let said: Vec<String> = rows.iter().map(|row| format!("{} {}", row.name, row.label)).collect();
    let chart = draw::rows(title.to_owned(), scale_of(&all), writer(unit), &rows)?;
    Some((chart, said.join("; ")))
}

/// The first metric of each case: over x, or a row each where there is none. Of a search the first two of the loads that were
/// offered: the closed loop offers none, and a load that the generator could not make is none.
pub(super) fn main(scenario: &ScenarioReport) -> Vec<Chart> {
    let offered = |case: &&Case| {
        let made = case.load.as_ref().is_some_and(|load| load.verdict != Some(Verdict::Invalid));
        scenario.search.is_none() || (made && case.x.is_some())
    };
    let shown = scenario
        .cases
        .iter()
        .filter(offered)
        .flat_map(|case| figures::of_case(scenario, case).take(if case.load.is_some() { 2 } else { 1 }));
    let mut charts: IndexMap<_, Vec<Figure<'_>>> = IndexMap::new();
    for of in shown {
        let x = of.case.x.as_ref().map(|x| &x.label);
        charts.entry((&of.metric.name, &of.metric.unit, x)).or_default().push(of);
    }
    let drawn = |cases: &Vec<Figure<'_>>| {
        let first = cases[0].metric;
        if cases[0].case.x.is_some() {
            let limit = scenario.search.as_ref().filter(|_| first.unit == "us");
            return over_x(cases, limit.map(|of| of.p99_limit_us as f64));
        }
        let rows: Vec<Row> = cases.iter().map(row).collect();
        let all: Vec<f64> = rows.iter().flat_map(|row| [row.measured, row.published]).flatten().collect();
        draw::rows(first.name.clone(), scale_of(&all), writer(&first.unit), &rows).into_iter().collect()
    };
    charts.values().flat_map(drawn).collect()
}

/// So many series in a chart as there are colours; what is measured and what is published share one.
fn over_x(cases: &[Figure<'_>], limit: Option<f64>) -> Vec<Chart> {
    let series: IndexSet<&str> = cases.iter().map(|of| of.case.series.as_str()).collect();
    let series: Vec<&str> = series.into_iter().collect();
    let mut parts: Vec<Vec<Line>> = series.chunks(draw::COLOURS).map(|part| lines(cases, part)).collect();
    let xs: Vec<f64> = parts.iter().flatten().flat_map(|line| &line.points).map(|point| point.x).collect();
    let (least, most) = draw::span(xs.iter().copied());
    if let Some(limit) = limit.filter(|_| least < most) {
        let points = [least, most].map(|x| plain(x, limit)).to_vec();
        parts[0].push(Line { marks: false, ..Line::new("the limit", 4, points) });
    }
    let first = cases[0].metric;
    let label = cases[0].case.x.as_ref().map(|x| x.label.clone()).unwrap_or_default();
    let count = parts.len();
    let chart = |(part, lines): (usize, Vec<Line>)| {
        let which = if count > 1 { format!(" ({} of {count})", part + 1) } else { String::new() };
        let ys: Vec<f64> = lines.iter().flat_map(|line| &line.points).map(|point| point.y).collect();
        let title = format!("{} against {label}{which}", first.name);
        let x = Axis { label: label.clone(), scale: scale_of(&xs), write: short };
        let y = Axis { label: first.name.clone(), scale: scale_of(&ys), write: writer(&first.unit) };
        draw::lines(title, &x, &y, &lines)
    };
    parts.into_iter().enumerate().filter_map(chart).collect()
}

fn lines(cases: &[Figure<'_>], series: &[&str]) -> Vec<Line> {
    let mut lines = Vec::new();
    for (index, name) in series.iter().enumerate() {
        let of_series = || cases.iter().filter(|of| of.case.series == *name);
        let measured: Vec<Point> = of_series().filter_map(measured).collect();
        let published: Vec<Point> = of_series().filter_map(published).collect();
        let verdict = of_series().find_map(|of| of.case.load.as_ref()?.verdict);
        let colour = match verdict {
            Some(Verdict::Pass) => 2,
            Some(Verdict::Fail) => 1,
            Some(_) => 3,
            None => index,
        };
        let said = if verdict.is_some() { (*name).to_owned() } else { format!("{name}, measured") };
        // Loads of one verdict are no curve.
        let joined = verdict.is_none();
        lines.push(Line { joined, ..Line::new(said, colour, in_order(measured)) });
        lines.push(Line {
            dashed: true,
            ..Line::new(format!("{name}, published"), colour, in_order(published))
        });
    }
    lines.retain(|line| !line.points.is_empty());
    lines
}

fn measured(of: &Figure<'_>) -> Option<Point> {
    let y = of.median()?;
    let between = of.interval().map(|interval| (interval.low, interval.high));
    let title = format!("{}: {}", of.case.name, figure(y, &of.metric.unit));
    Some(Point { title, between, ..plain(of.case.x.as_ref()?.value, y) })
}

fn published(of: &Figure<'_>) -> Option<Point> {
    let published = of.metric.published.as_ref()?;
    let doubt = published.dubious.as_ref().map(|why| format!(" (?) {why}")).unwrap_or_default();
    let title = format!("{}, published: {}{doubt}", of.case.name, figure(published.value, &of.metric.unit));
    Some(Point { title, ..plain(of.case.x.as_ref()?.value, published.value) })
}

/// The response times of up to six cases, evenly taken from all of them.
pub(super) fn latency(scenario: &ScenarioReport) -> Option<Chart> {
    let cases: Vec<(&Case, &Trial)> =
        scenario.cases.iter().filter_map(|case| Some((case, typical(&case.trials)?))).collect();
    let count = LATENCY_LINES_MAX.min(cases.len());
    let line = |n: usize| {
        let (case, trial) = cases[if count > 1 { n * (cases.len() - 1) / (count - 1) } else { 0 }];
        percentiles(&case.name, n, trial)
    };
    let lines: Vec<Line> = (0..count).map(line).collect();
    let some =
        if cases.len() > count { format!(" ({count} of {} cases)", cases.len()) } else { String::new() };
    let x = Axis { label: "percentile".to_owned(), scale: Scale::Percentiles, write: percentile };
    let y = Axis { label: "time".to_owned(), scale: Scale::Log, write: time_us };
    draw::lines(format!("response time by percentile{some}"), &x, &y, &lines)
}

fn percentiles(name: &str, colour: usize, trial: &Trial) -> Line {
    // A percentile beyond the number of samples is the greatest of them, and would look like a plateau.
    let samples = trial.outcomes.total().max(1) as f64;
    let known = trial.response.points.iter().filter(|of| of.q < 1.0 && 1.0 / (1.0 - of.q) <= samples);
    let points = known.map(|of| {
        let inverse = 1.0 / (1.0 - of.q);
        let unmarked = !draw::PERCENTILES.iter().any(|tick| (tick / inverse - 1.0).abs() < 1e-6);
        let title = format!("{}: {}", percentile(inverse), time_us(of.us as f64));
        Point { title, unmarked, ..plain(inverse, of.us.max(1) as f64) }
    });
    Line::new(name, colour, points.collect())
}

/// The course of each case, or why there is no chart of it.
pub(super) fn courses(scenario: &ScenarioReport) -> Result<Vec<Chart>, String> {
    let trials = scenario.cases.iter().filter_map(|case| Some((case, typical(&case.trials)?)));
    let mut longest = 0;
    let mut charts = Vec::new();
    for (case, trial) in trials {
        longest = longest.max(trial.seconds_series.len());
        if trial.seconds_series.len() >= POINTS_OVER_TIME_MIN {
            charts.extend(by_second(&case.name, trial));
        }
    }
    if charts.is_empty() {
        return Err(format!("No chart over time: {longest} of at least {POINTS_OVER_TIME_MIN} seconds."));
    }
    Ok(charts)
}

fn by_second(name: &str, trial: &Trial) -> Vec<Chart> {
    type Value = fn(&Second) -> u64;
    let line = |(name, colour, dashed, value): (&str, usize, bool, Value)| {
        let points = trial.seconds_series.iter().map(|of| plain(of.at_s, value(of) as f64)).collect();
        Line { dashed, marks: false, ..Line::new(name, colour, points) }
    };
    let rates: [(&str, usize, bool, Value); 3] = [
        ("good", 0, false, |of| of.good),
        ("refused", 3, true, |of| of.refused),
        ("failed or unknown", 1, true, |of| of.bad),
    ];
    let some = |value: Value| trial.seconds_series.iter().any(|of| value(of) > 0);
    let rates: Vec<Line> = rates.into_iter().filter(|of| of.1 == 0 || some(of.3)).map(line).collect();
    let times =
        [("p99", 0, false, (|of| of.p99_us.max(1)) as Value), ("p50", 1, true, |of| of.p50_us.max(1))];
    let times: Vec<Line> = times.into_iter().map(line).collect();
    let axis = |label: &str, scale, write| Axis { label: label.to_owned(), scale, write };
    let x = axis("seconds", Scale::Linear, short);
    let rate = axis("1/s", Scale::Linear, short);
    let time = axis("response time", Scale::Log, time_us);
    let rates = draw::lines(format!("{name}: answers in each second"), &x, &rate, &rates);
    let times = draw::lines(format!("{name}: response time in each second"), &x, &time, &times);
    rates.into_iter().chain(times).collect()
}

/// The valid trial whose throughput is the median, or the one below it.
fn typical(trials: &[Trial]) -> Option<&Trial> {
    let mut valid: Vec<&Trial> = trials.iter().filter(|trial| trial.is_valid()).collect();
    valid.sort_by(|left, right| left.good_per_s().total_cmp(&right.good_per_s()));
    valid.get(valid.len().checked_sub(1)? / 2).copied()
}

fn plain(x: f64, y: f64) -> Point {
    Point { x, y, ..Point::default() }
}

fn in_order(mut points: Vec<Point>) -> Vec<Point> {
    points.sort_by(|left, right| left.x.total_cmp(&right.x));
    points
}

fn scale_of(values: &[f64]) -> Scale {
    let (least, most) = draw::span(values.iter().copied());
    if least > 0.0 && most / least > LINEAR_SPAN_MAX { Scale::Log } else { Scale::Linear }
}

fn writer(unit: &str) -> fn(f64) -> String {
    match unit {
        "us" => time_us,
        "ms" => |ms| time_us(ms * 1e3),
        "s" => |s| time_us(s * 1e6),
        "bytes" => bytes,
        _ => short,
    }
}

/// `40k`, `1.2M`.
fn short(value: f64) -> String {
    let tenths = |value: f64| ((value * 10.0).round() / 10.0).to_string();
    match value {
        _ if value >= 1e6 => format!("{}M", tenths(value / 1e6)),
        _ if value >= 1e3 => format!("{}k", tenths(value / 1e3)),
        _ => number((value * 1000.0).round() / 1000.0),
    }
}

/// `p99.9` of 1/(1-q).
fn percentile(inverse: f64) -> String {
    format!("p{}", ((1.0 - 1.0 / inverse) * 1e6).round() / 1e4)
}

#[cfg(test)]
mod tests;
