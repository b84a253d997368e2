//! Charts as inline SVG: lines over linear or logarithmic axes, and pairs of bars. It knows scales, not benchmarks.
//!
//! Colours are classes, which the style sheet sets for light, dark and print. What the colour shows, the shape of the
//! marks and the dashes of the lines show too.

use std::fmt::Write as _;

use super::markup::escaped;

const WIDTH: f64 = 480.0;
const HEIGHT: f64 = 270.0;
const LEFT: f64 = 62.0;
/// Half of the longest label may stand beyond the last tick.
const RIGHT: f64 = 28.0;
const TOP: f64 = 12.0;
const BOTTOM: f64 = 44.0;
/// Lines that can be distinguished in one chart.
pub(super) const COLOURS: usize = 6;

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

#[derive(Debug, Clone)]
pub(super) struct Point {
    pub(super) x: f64,
    pub(super) y: f64,
    /// Shown when a pointer rests on it.
    pub(super) title: String,
    /// An interval, drawn as a bar through it.
    pub(super) between: Option<(f64, f64)>,
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

#[derive(Debug, Clone)]
pub(super) struct Chart {
    pub(super) title: String,
    pub(super) x: Axis,
    pub(super) y: Axis,
    pub(super) lines: Vec<Line>,
}

impl Chart {
    /// Empty if there is nothing to draw.
    pub(super) fn render(&self) -> String {
        let points = || self.lines.iter().flat_map(|line| &line.points);
        let ys = points().flat_map(|point| {
            let (low, high) = point.between.unwrap_or((point.y, point.y));
            [low, high, point.y]
        });
        let (Some(x), Some(y)) =
            (Ticks::new(&self.x, points().map(|point| point.x)), Ticks::new(&self.y, ys))
        else {
            return String::new();
        };
        let mut svg = format!(
            "<svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"{}\">\n",
            escaped(&self.title)
        );
        self.axes(&mut svg, &x, &y);
        for line in &self.lines {
            draw(&mut svg, line, &x, &y);
        }
        svg.push_str("</svg>\n");
        let title = format!("<figcaption>{}</figcaption>\n", escaped(&self.title));
        format!("<figure>{title}{}{svg}</figure>\n", self.legend())
    }

    fn axes(&self, svg: &mut String, x: &Ticks, y: &Ticks) {
        let (right, bottom) = (WIDTH - RIGHT, HEIGHT - BOTTOM);
        for tick in &y.at {
            let at = down(y.share(*tick));
            add(
                svg,
                format_args!(
                    "<line class=\"grid\" x1=\"{LEFT}\" x2=\"{right}\" y1=\"{at:.1}\" y2=\"{at:.1}\"/>\n"
                ),
            );
            let label = escaped(&(self.y.write)(*tick));
            let (x, y) = (LEFT - 6.0, at + 4.0);
            add(svg, format_args!("<text class=\"tick end\" x=\"{x}\" y=\"{y:.1}\">{label}</text>\n"));
        }
        for tick in &x.at {
            let at = across(x.share(*tick));
            let end = bottom + 4.0;
            add(
                svg,
                format_args!(
                    "<line class=\"axis\" x1=\"{at:.1}\" x2=\"{at:.1}\" y1=\"{bottom}\" y2=\"{end}\"/>\n"
                ),
            );
            let label = escaped(&(self.x.write)(*tick));
            let y = bottom + 17.0;
            add(svg, format_args!("<text class=\"tick middle\" x=\"{at:.1}\" y=\"{y}\">{label}</text>\n"));
        }
        add(
            svg,
            format_args!(
                "<line class=\"axis\" x1=\"{LEFT}\" x2=\"{right}\" y1=\"{bottom}\" y2=\"{bottom}\"/>\n"
            ),
        );
        let (middle, low) = (f64::midpoint(LEFT, right), HEIGHT - 8.0);
        let label = escaped(&self.x.label);
        add(svg, format_args!("<text class=\"label middle\" x=\"{middle}\" y=\"{low}\">{label}</text>\n"));
    }

    /// A line of text for each line of the chart; none for a single one.
    fn legend(&self) -> String {
        if self.lines.len() < 2 {
            return String::new();
        }
        let mut items = String::new();
        for line in self.lines.iter().filter(|line| !line.points.is_empty()) {
            let rule = if line.joined {
                format!("<line class=\"{}\" x1=\"1\" x2=\"25\" y1=\"6\" y2=\"6\"/>", class(line))
            } else {
                String::new()
            };
            let mark = if line.marks { mark(line, 13.0, 6.0, "") } else { String::new() };
            add(
                &mut items,
                format_args!(
                    "<li><svg class=\"key\" viewBox=\"0 0 26 12\" aria-hidden=\"true\">{rule}{mark}</svg>{}</li>\n",
                    escaped(&line.name)
                ),
            );
        }
        format!("<ul class=\"legend\">{items}</ul>\n")
    }
}

fn add(svg: &mut String, text: std::fmt::Arguments<'_>) {
    svg.write_fmt(text).expect("a String takes every write");
}

fn class(line: &Line) -> String {
    format!("line c{}{}", line.colour % COLOURS, if line.dashed { " dashed" } else { "" })
}

fn across(share: f64) -> f64 {
    LEFT + share * (WIDTH - RIGHT - LEFT)
}

fn down(share: f64) -> f64 {
    HEIGHT - BOTTOM - share * (HEIGHT - BOTTOM - TOP)
}

fn draw(svg: &mut String, line: &Line, x: &Ticks, y: &Ticks) {
    let place = |point: &Point| (across(x.share(point.x)), down(y.share(point.y)));
    let joined = if line.joined { line.points.as_slice() } else { &[] };
    let path: Vec<String> = joined.iter().map(place).map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
    if !path.is_empty() {
        add(svg, format_args!("<polyline class=\"{}\" points=\"{}\"/>\n", class(line), path.join(" ")));
    }
    for point in &line.points {
        let (at, height) = place(point);
        if let Some((low, high)) = point.between {
            let (low, high) = (down(y.share(low)), down(y.share(high)));
            let class = class(line);
            add(
                svg,
                format_args!(
                    "<line class=\"{class}\" x1=\"{at:.1}\" x2=\"{at:.1}\" y1=\"{low:.1}\" y2=\"{high:.1}\"/>\n"
                ),
            );
        }
        if line.marks {
            svg.push_str(&mark(line, at, height, &point.title));
        }
    }
}

/// Circle, square, diamond in turn, so that lines differ without colours; hollow on a dashed line.
fn mark(line: &Line, x: f64, y: f64, title: &str) -> String {
    let colour = line.colour % COLOURS;
    let class = if line.dashed { format!("mark hollow c{colour}") } else { format!("mark f{colour}") };
    let title = if title.is_empty() { String::new() } else { format!("<title>{}</title>", escaped(title)) };
    let path = match line.colour % 3 {
        0 => "m-3.5,0a3.5,3.5 0 1,0 7,0a3.5,3.5 0 1,0 -7,0",
        1 => "m-3.2,-3.2h6.4v6.4h-6.4z",
        _ => "m0,-4.4l4.4,4.4l-4.4,4.4l-4.4,-4.4z",
    };
    format!("<path class=\"{class}\" d=\"M{x:.1},{y:.1}{path}\">{title}</path>\n")
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
    fn new(axis: &Axis, values: impl Iterator<Item = f64>) -> Option<Self> {
        let log = axis.scale != Scale::Linear;
        let shown = values.filter(|value| value.is_finite() && (!log || *value > 0.0));
        let (least, most) = shown.fold((f64::INFINITY, f64::NEG_INFINITY), |(least, most), value| {
            (least.min(value), most.max(value))
        });
        (least <= most).then(|| match axis.scale {
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

    /// 1/(1-q): the median is 2, the 99th percentile 100.
    fn percentiles(most: f64) -> Self {
        let to = most.max(100.0);
        let ticks = [2.0, 10.0, 100.0, 1e3, 1e4, 1e5, 1e6];
        Self { log: true, from: 1.0, to, at: ticks.into_iter().filter(|tick| *tick <= to * 1.001).collect() }
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

/// A measured bar, and the published one under it.
#[derive(Debug, Clone)]
pub(super) struct Bar {
    pub(super) name: String,
    pub(super) measured: Option<(f64, String)>,
    pub(super) published: Option<(f64, String)>,
}

/// Horizontal, with the names above them: there is room for long ones on a phone too.
pub(super) fn bars(title: &str, bars: &[Bar]) -> String {
    let most = bars.iter().flat_map(|bar| [&bar.measured, &bar.published]).flatten().map(|(value, _)| *value);
    let most = most.fold(0.0, f64::max);
    if most <= 0.0 || !most.is_finite() {
        return String::new();
    }
    let (mut body, mut y) = (String::new(), 4.0);
    for bar in bars {
        y += 14.0;
        add(
            &mut body,
            format_args!("<text class=\"label\" x=\"0\" y=\"{y}\">{}</text>\n", escaped(&bar.name)),
        );
        y += 5.0;
        for (value, class) in [(&bar.measured, "measured"), (&bar.published, "published")] {
            let Some((value, label)) = value else { continue };
            let width = (value / most * (WIDTH - 170.0)).max(1.0);
            add(
                &mut body,
                format_args!(
                    "<rect class=\"bar {class}\" x=\"0.5\" y=\"{y}\" width=\"{width:.1}\" height=\"11\"/>\n"
                ),
            );
            let (x, baseline) = (width + 6.0, y + 10.0);
            let word = if class == "published" { " published" } else { "" };
            add(
                &mut body,
                format_args!(
                    "<text class=\"tick\" x=\"{x:.1}\" y=\"{baseline}\">{}{word}</text>\n",
                    escaped(label)
                ),
            );
            y += 14.0;
        }
        y += 4.0;
    }
    let label = escaped(title);
    format!(
        "<figure><figcaption>{label}</figcaption>\n<svg viewBox=\"0 0 {WIDTH} {y}\" role=\"img\" \
         aria-label=\"{label}\">\n{body}</svg>\n</figure>\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ticks(scale: Scale, values: &[f64]) -> Option<Ticks> {
        let axis = Axis { label: String::new(), scale, write: |value| value.to_string() };
        Ticks::new(&axis, values.iter().copied())
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
        let axis = || Axis { label: "x".to_owned(), scale: Scale::Linear, write: |value| value.to_string() };
        let line = Line {
            name: "a".to_owned(),
            colour: 0,
            dashed: false,
            marks: true,
            joined: true,
            points: Vec::new(),
        };
        let chart = Chart { title: "t".to_owned(), x: axis(), y: axis(), lines: vec![line] };
        assert_eq!(chart.render(), "");
        assert_eq!(bars("t", &[]), "");
    }
}
