//! How pictures are drawn: scales with their ticks, lines over two axes, and rows of pairs. It knows no benchmark.
//!
//! It makes the elements of an inline SVG; the page's template writes and escapes them. Colours are classes, which the
//! style sheet sets for light, dark and print. What the colour shows, the shape of the marks and the dashes show too.

use serde::Serialize;

const WIDTH: f64 = 480.0;
const HEIGHT: f64 = 270.0;
const LEFT: f64 = 62.0;
/// Half of the longest label may stand beyond the last tick.
const RIGHT: f64 = 28.0;
const TOP: f64 = 12.0;
const BOTTOM: f64 = 44.0;
/// A row's name stands above its marks, so that there is room for long ones on a phone too.
const ROW: f64 = 34.0;
/// For what is written beside the marks of a row.
const ROW_RIGHT: f64 = 92.0;
/// What is labelled on an axis of percentiles, as 1/(1-q): the median is 2, the 99th percentile 100.
pub(super) const PERCENTILES: [f64; 7] = [2.0, 10.0, 100.0, 1e3, 1e4, 1e5, 1e6];
/// Lines that can be distinguished in one chart.
pub(super) const COLOURS: usize = 6;
/// The colour of what is measured and of what is published, in rows.
const PAIR: usize = 0;

#[derive(Debug, Clone, PartialEq, Serialize)]
pub(in crate::report) struct Chart {
    pub(super) title: String,
    legend: Vec<Key>,
    width: f64,
    height: f64,
    elements: Vec<Element>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
struct Key {
    name: String,
    elements: Vec<Element>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
struct Element {
    tag: &'static str,
    /// Numbers and classes that are made here; nothing of a report is ever among them.
    attributes: String,
    text: String,
    /// Shown when a pointer rests on it.
    title: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Scale {
    /// From 0.
    Linear,
    Log,
    /// Logarithmic in 1/(1-q), labelled as percentiles.
    Percentiles,
}

#[derive(Debug, Clone)]
pub(super) struct Axis {
    pub(super) label: String,
    pub(super) scale: Scale,
    /// How a value is written at a tick.
    pub(super) write: fn(f64) -> String,
}

#[derive(Debug, Clone, Default)]
pub(super) struct Point {
    pub(super) x: f64,
    pub(super) y: f64,
    pub(super) title: String,
    /// An interval, drawn as a bar through it.
    pub(super) between: Option<(f64, f64)>,
    /// The line bends in it, and has no mark there.
    pub(super) unmarked: bool,
}

#[derive(Debug, Clone)]
pub(super) struct Line {
    pub(super) name: String,
    /// Lines of one colour belong together.
    pub(super) colour: usize,
    pub(super) dashed: bool,
    pub(super) marks: bool,
    /// Its points are drawn as one line; else each is by itself.
    pub(super) joined: bool,
    /// In the order of x.
    pub(super) points: Vec<Point>,
}

impl Line {
    pub(super) fn new(name: impl Into<String>, colour: usize, points: Vec<Point>) -> Self {
        Self { name: name.into(), colour, dashed: false, marks: true, joined: true, points }
    }

    fn class(&self) -> String {
        format!("line c{}{}", self.colour % COLOURS, if self.dashed { " dashed" } else { "" })
    }
}

/// Two values of one thing.
#[derive(Debug, Clone)]
pub(super) struct Row {
    pub(super) name: String,
    pub(super) measured: Option<f64>,
    pub(super) between: Option<(f64, f64)>,
    pub(super) published: Option<f64>,
    /// Beside the marks.
    pub(super) label: String,
}

/// None if there is nothing to draw.
pub(super) fn lines(title: String, x: &Axis, y: &Axis, lines: &[Line]) -> Option<Chart> {
    let points = || lines.iter().flat_map(|line| &line.points);
    let heights = points().flat_map(|point| {
        let (low, high) = point.between.unwrap_or((point.y, point.y));
        [low, high, point.y]
    });
    let (xs, ys) = (Ticks::new(x.scale, points().map(|point| point.x))?, Ticks::new(y.scale, heights)?);
    let across = |value| LEFT + xs.share(value) * (WIDTH - RIGHT - LEFT);
    let down = |value| HEIGHT - BOTTOM - ys.share(value) * (HEIGHT - BOTTOM - TOP);
    let (right, bottom) = (WIDTH - RIGHT, HEIGHT - BOTTOM);
    let mut elements = Vec::new();
    for tick in &ys.at {
        let at = down(*tick);
        elements.push(rule("grid", (LEFT, at), (right, at)));
        elements.push(text("tick end", LEFT - 6.0, at + 4.0, (y.write)(*tick)));
    }
    for tick in &xs.at {
        let at = across(*tick);
        elements.push(rule("axis", (at, bottom), (at, bottom + 4.0)));
        elements.push(text("tick middle", at, bottom + 17.0, (x.write)(*tick)));
    }
    elements.push(rule("axis", (LEFT, bottom), (right, bottom)));
    elements.push(text("label middle", f64::midpoint(LEFT, right), HEIGHT - 8.0, x.label.clone()));
    for line in lines {
        if line.joined && !line.points.is_empty() {
            let place = |point: &Point| format!("{:.1},{:.1}", across(point.x), down(point.y));
            let path: Vec<String> = line.points.iter().map(place).collect();
            let attributes = format!("class=\"{}\" points=\"{}\"", line.class(), path.join(" "));
            elements.push(element("polyline", attributes, String::new()));
        }
        for point in &line.points {
            let at = across(point.x);
            if let Some((low, high)) = point.between {
                elements.push(rule(&line.class(), (at, down(low)), (at, down(high))));
            }
            if line.marks && !point.unmarked {
                elements.push(mark(line.colour, line.dashed, at, down(point.y), &point.title));
            }
        }
    }
    let shown: Vec<&Line> = lines.iter().filter(|line| !line.points.is_empty()).collect();
    let key = |line: &&Line| {
        let path = line.joined.then(|| rule(&line.class(), (1.0, 6.0), (25.0, 6.0)));
        let mark = line.marks.then(|| mark(line.colour, line.dashed, 13.0, 6.0, ""));
        Key { name: line.name.clone(), elements: path.into_iter().chain(mark).collect() }
    };
    // A single line needs none.
    let legend = if shown.len() > 1 { shown.iter().map(key).collect() } else { Vec::new() };
    Some(Chart { title, legend, width: WIDTH, height: HEIGHT, elements })
}

/// A line for each thing, with the marks of its two values on one common axis. None if there is nothing to draw.
pub(super) fn rows(title: String, scale: Scale, write: fn(f64) -> String, rows: &[Row]) -> Option<Chart> {
    let values = rows.iter().flat_map(|row| {
        let (low, high) = row.between.unzip();
        [row.measured, row.published, low, high].into_iter().flatten()
    });
    let ticks = Ticks::new(scale, values)?;
    let across = |value| 6.0 + ticks.share(value) * (WIDTH - ROW_RIGHT - 12.0);
    let mut elements = Vec::new();
    let bottom = ROW * rows.len() as f64 + 6.0;
    for tick in &ticks.at {
        let at = across(*tick);
        elements.push(rule("grid", (at, 0.0), (at, bottom)));
        let class = if at < 12.0 { "tick" } else { "tick middle" };
        elements.push(text(class, at, bottom + 14.0, write(*tick)));
    }
    for (index, row) in rows.iter().enumerate() {
        let top = ROW * index as f64;
        let middle = top + 26.0;
        elements.push(text("label", 0.0, top + 15.0, row.name.clone()));
        elements.push(text("tick end", WIDTH, middle + 4.0, row.label.clone()));
        if let (Some(measured), Some(published)) = (row.measured, row.published) {
            elements.push(rule("line c0", (across(published), middle), (across(measured), middle)));
        }
        if let Some((low, high)) = row.between {
            elements.push(rule("line c0 wide", (across(low), middle), (across(high), middle)));
        }
        for (value, hollow, word) in [(row.published, true, "published"), (row.measured, false, "measured")] {
            let title = |value| format!("{}, {word}: {}", row.name, write(value));
            elements.extend(value.map(|value| mark(PAIR, hollow, across(value), middle, &title(value))));
        }
    }
    let key =
        |name: &str, hollow| Key { name: name.to_owned(), elements: vec![mark(PAIR, hollow, 13.0, 6.0, "")] };
    let pairs = rows.iter().any(|row| row.published.is_some());
    let legend = if pairs { vec![key("measured", false), key("published", true)] } else { Vec::new() };
    Some(Chart { title, legend, width: WIDTH, height: bottom + 20.0, elements })
}

fn element(tag: &'static str, attributes: String, text: String) -> Element {
    Element { tag, attributes, text, title: String::new() }
}

fn rule(class: &str, from: (f64, f64), to: (f64, f64)) -> Element {
    let ((x1, y1), (x2, y2)) = (from, to);
    let attributes = format!("class=\"{class}\" x1=\"{x1:.1}\" x2=\"{x2:.1}\" y1=\"{y1:.1}\" y2=\"{y2:.1}\"");
    element("line", attributes, String::new())
}

fn text(class: &str, x: f64, y: f64, text: String) -> Element {
    element("text", format!("class=\"{class}\" x=\"{x:.1}\" y=\"{y:.1}\""), text)
}

/// Circle, square, diamond in turn, so that lines differ without colours; hollow on a dashed line. The page has the
/// shapes, once.
fn mark(colour: usize, hollow: bool, x: f64, y: f64, title: &str) -> Element {
    let colour = colour % COLOURS;
    let class = if hollow { format!("mark hollow c{colour}") } else { format!("mark f{colour}") };
    let attributes = format!("class=\"{class}\" href=\"#mark{}\" x=\"{x:.1}\" y=\"{y:.1}\"", colour % 3);
    Element { title: title.to_owned(), ..element("use", attributes, String::new()) }
}

/// The least and the greatest; of no values the least is the greater one.
pub(super) fn span(values: impl IntoIterator<Item = f64>) -> (f64, f64) {
    let ends = (f64::INFINITY, f64::NEG_INFINITY);
    values.into_iter().fold(ends, |(least, most), value| (least.min(value), most.max(value)))
}

/// Where an axis begins and ends, and what is written at it.
#[derive(Debug, PartialEq)]
struct Ticks {
    log: bool,
    from: f64,
    to: f64,
    at: Vec<f64>,
}

impl Ticks {
    /// `None` without a value that the scale can show.
    fn new(scale: Scale, values: impl Iterator<Item = f64>) -> Option<Self> {
        let log = scale != Scale::Linear;
        let (least, most) = span(values.filter(|value| value.is_finite() && (!log || *value > 0.0)));
        (least <= most).then(|| match scale {
            Scale::Linear => Self::linear(most.max(0.0)),
            Scale::Log => Self::log(least, most),
            Scale::Percentiles => Self::percentiles(most),
        })
    }

    fn linear(most: f64) -> Self {
        let most = if most > 0.0 { most } else { 1.0 };
        // Of 1, 2 and 5 times a power of ten the least step that gives at most five ticks.
        let rough = most / 5.0;
        let power = 10.0_f64.powf(rough.log10().floor());
        let step =
            [1.0, 2.0, 5.0, 10.0].map(|times| times * power).into_iter().find(|step| *step >= rough * 0.999);
        let step = step.unwrap_or(power * 10.0);
        let to = (most / step - 1e-9).ceil() * step;
        let at = (0..=10).map(|n| f64::from(n) * step).take_while(|tick| *tick <= to * 1.001).collect();
        Self { log: false, from: 0.0, to, at }
    }

    fn log(least: f64, most: f64) -> Self {
        let (first, last) = (least.log10().floor(), most.log10().ceil());
        let decades = (last - first).max(1.0);
        let factors: &[f64] = if decades <= 2.0 { &[1.0, 2.0, 5.0] } else { &[1.0] };
        let all: Vec<f64> = std::iter::successors(Some(first), |power| Some(power + 1.0))
            .take_while(|power| *power <= last)
            .flat_map(|power| factors.iter().map(move |factor| factor * 10.0_f64.powf(power)))
            .collect();
        // The axis begins at the tick before the least value, and ends at the one after the greatest.
        let from = all.iter().copied().rfind(|tick| *tick <= least * 1.001).unwrap_or(least);
        let to =
            all.iter().copied().find(|tick| *tick >= most * 0.999 && *tick > from).unwrap_or(from * 10.0);
        let at = all.into_iter().filter(|tick| (from..=to).contains(tick)).collect();
        Self { log: true, from, to, at }
    }

    fn percentiles(most: f64) -> Self {
        let to = most.max(100.0);
        Self {
            log: true,
            from: 1.0,
            to,
            at: PERCENTILES.into_iter().filter(|tick| *tick <= to * 1.001).collect(),
        }
    }

    /// 0 at the beginning of the axis, 1 at its end.
    fn share(&self, value: f64) -> f64 {
        let share = if self.log {
            (value.max(self.from) / self.from).ln() / (self.to / self.from).ln()
        } else {
            (value - self.from) / (self.to - self.from)
        };
        share.clamp(0.0, 1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ticks(scale: Scale, values: &[f64]) -> Option<Ticks> {
        Ticks::new(scale, values.iter().copied())
    }

    #[test]
    fn ticks_are_round_and_hold_every_value() {
        for (values, at) in [
            (&[9000.0, 43_500.0][..], &[0.0, 10_000.0, 20_000.0, 30_000.0, 40_000.0, 50_000.0][..]),
            (&[0.0], &[0.0, 0.2, 0.4, 0.6, 0.8, 1.0]),
            (&[100.0], &[0.0, 20.0, 40.0, 60.0, 80.0, 100.0]),
        ] {
            let ticks = ticks(Scale::Linear, values).unwrap();
            let near = ticks.at.iter().zip(at).all(|(left, right)| (left - right).abs() < 1e-9);
            assert!(near && ticks.at.len() == at.len(), "{ticks:?}");
        }
        assert_eq!(ticks(Scale::Log, &[5.0, 5000.0]).unwrap().at, [1.0, 10.0, 100.0, 1000.0, 10_000.0]);
        assert_eq!(ticks(Scale::Log, &[100.0, 800.0]).unwrap().at, [100.0, 200.0, 500.0, 1000.0]);
        assert_eq!(ticks(Scale::Percentiles, &[1.0, 1000.0]).unwrap().at, [2.0, 10.0, 100.0, 1000.0]);
    }

    #[test]
    fn values_that_a_scale_can_not_show_do_not_stretch_it() {
        assert_eq!(ticks(Scale::Linear, &[]), None);
        assert_eq!(ticks(Scale::Log, &[0.0, f64::NAN, f64::INFINITY]), None);
        let ticks = ticks(Scale::Log, &[0.0, 10.0]).unwrap();
        assert_eq!((ticks.from, ticks.to), (10.0, 20.0));
        assert_eq!((ticks.share(0.0), ticks.share(20.0)), (0.0, 1.0));
    }

    #[test]
    fn a_chart_without_points_is_none() {
        let axis = Axis { label: "x".to_owned(), scale: Scale::Linear, write: |value| value.to_string() };
        assert_eq!(lines("t".to_owned(), &axis, &axis, &[Line::new("a", 0, Vec::new())]), None);
        assert_eq!(rows("t".to_owned(), Scale::Log, axis.write, &[]), None);
    }

    #[test]
    fn the_marks_of_a_row_lie_on_one_axis() {
        let row = |measured, published| Row {
            name: "a".to_owned(),
            measured,
            published,
            between: None,
            label: String::new(),
        };
        let all = [row(Some(100.0), Some(10_000.0)), row(None, Some(1000.0))];
        let chart = rows("t".to_owned(), Scale::Log, |value| value.to_string(), &all).unwrap();
        let at = |title: &str| {
            let mark = chart.elements.iter().find(|of| of.title == title).unwrap();
            let x = mark.attributes.split(" x=\"").nth(1).unwrap().split('"').next().unwrap();
            x.parse::<f64>().unwrap()
        };
        let (low, middle, high) =
            (at("a, measured: 100"), at("a, published: 1000"), at("a, published: 10000"));
        assert!((middle - low - (high - middle)).abs() < 0.2, "{low} {middle} {high}");
        assert_eq!(chart.legend.len(), 2);
    }
}
