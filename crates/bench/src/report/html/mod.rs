//! The report as one HTML page that needs nothing beside it: no host, no script, no file.
//!
//! Light and dark, on paper, and on a phone. `markup.rs` escapes, `svg.rs` draws, `charts.rs` says what is drawn; here
//! is the order of the page.

mod charts;
mod markup;
mod svg;

use self::markup::{Cell, element, escaped, list, table, text};
use super::figures::{self, Figure};
use super::format::{figure, number, percent, time_us, utc};
use super::model::{
    DurabilityRow, Flag, PeakPoint, PeakReport, Report, ScenarioReport, Shape, ThresholdResult, Trial,
    Verdict,
};
use super::words;

const STYLE: &str = include_str!("style.css");
const TITLE: &str = "Doorbuster benchmark";

pub fn render(report: &Report) -> String {
    let figures = figures::all(report);
    let mut body = header(report);
    body += &thresholds(&report.thresholds);
    for of in &report.scenarios {
        body += &scenario(of, &figures);
    }
    if !report.failures.is_empty() {
        let lines = report.failures.iter().map(|failed| format!("{}: {}", failed.name, failed.error));
        body += &section(
            "not-run",
            "Not finished",
            &element("ul", &lines.map(|line| text("li", &line)).collect::<String>()),
        );
    }
    body += &report.peak.iter().map(peak).collect::<String>();
    body += &durability(&report.durability);
    body += &environment(report);
    body += &element(
        "footer",
        "Medians of all valid repeats. Intervals are distribution-free and shown with six repeats or more. Response \
         times count from the planned send. Published figures come from five published documents; (?) marks those \
         that may be wrong.",
    );
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<meta name=\"viewport\" \
         content=\"width=device-width, initial-scale=1\">\n<title>{TITLE}</title>\n<style>\n{STYLE}</style>\n</head>\n\
         <body>\n{body}</body>\n</html>\n"
    )
}

fn section(id: &str, title: &str, inner: &str) -> String {
    let head = format!("<h2 id=\"{}\">{}</h2>\n", escaped(id), escaped(title));
    element("section", &(head + inner))
}

fn header(report: &Report) -> String {
    let revision = report.git_revision.iter().map(|of| format!(", sources {}", shortened(of)));
    let revision: String = revision.collect();
    let line = format!("{}{revision}, {}", report.program, utc(report.started_unix_s));
    let mut facts = Vec::new();
    let mut fact = |line: String, class: &str| facts.push(text(&format!("li class=\"{class}\""), &line));
    let of_cases = || report.scenarios.iter().flat_map(|of| &of.cases).flat_map(|case| &case.trials);
    let of_loads = || report.peak.iter().flat_map(|of| &of.curve).flat_map(|point| &point.trials);
    let trials = || of_cases().chain(of_loads()).chain(report.durability.iter().flat_map(|row| &row.trials));
    let invalid = trials().filter(|trial| !trial.is_valid()).count();
    if !report.scenarios.is_empty() {
        fact(format!("scenarios: {}", report.scenarios.len()), "");
    }
    fact(format!("trials: {}", trials().count()), "");
    if invalid > 0 {
        fact(format!("invalid trials: {invalid}"), "bad");
    }
    if !report.failures.is_empty() {
        fact(format!("not finished: {}", report.failures.len()), "bad");
    }
    let audits = report.scenarios.iter().filter_map(|of| of.audit.as_ref());
    let audits = audits.chain(report.peak.iter().filter_map(|of| of.audit.as_ref()));
    let audits = audits.chain(report.durability.iter().filter_map(|of| of.audit.as_ref())).count();
    if audits > 0 {
        fact(format!("audits, all clean: {audits}"), "good");
    }
    if !report.thresholds.is_empty() {
        let met = report.thresholds.iter().filter(|of| of.met).count();
        let class = if met == report.thresholds.len() { "good" } else { "bad" };
        fact(format!("thresholds met: {met} of {}", report.thresholds.len()), class);
    }
    // A search repeats its loads as it needs to.
    let repeats = if report.repeats == 1 { "once" } else { "repeatedly" };
    let measured = if report.peak.is_none() { format!(", measured {repeats}") } else { String::new() };
    fact(format!("{}{measured}", size(report)), "");
    if report.environment.co_located {
        fact("co-located: the load shares the target's processors".to_owned(), "");
    }
    text("h1", TITLE)
        + &report.unfit().map_or_else(String::new, |why| text("p class=\"banner bad\"", &why))
        + &report.warning().map_or_else(String::new, |why| text("p class=\"banner bad\"", why))
        + &text("p class=\"sub\"", &line)
        + &element("ul class=\"facts\"", &facts.concat())
        + &contents(report)
}

/// All of it is under Environment; what must not be overlooked is behind the hash.
fn shortened(revision: &str) -> String {
    let (hash, doubts) = revision.split_at(revision.find('-').unwrap_or(revision.len()));
    hash.chars().take(12).chain(doubts.chars()).collect()
}

fn size(report: &Report) -> &'static str {
    match report.size {
        super::model::Size::Quick => "quick sizes",
        super::model::Size::Full => "published sizes",
    }
}

fn contents(report: &Report) -> String {
    let link =
        |id: &str, name: &str| element("li", text(&format!("a href=\"#{}\"", escaped(id)), name).trim_end());
    let mut links: String = report.scenarios.iter().map(|of| link(&of.name, &of.title)).collect();
    if report.peak.is_some() {
        links += &link("peak", "Peak");
    }
    if !report.durability.is_empty() {
        links += &link("durability", "Durability");
    }
    links += &link("environment", "Environment");
    element("nav", &element("ul", &links))
}

fn thresholds(thresholds: &[ThresholdResult]) -> String {
    if thresholds.is_empty() {
        return String::new();
    }
    let row = |of: &ThresholdResult| {
        let [threshold, measured, met] = words::threshold(of);
        vec![Cell::words(threshold), Cell::figure(measured), Cell::marked(met, Some(of.met))]
    };
    section("thresholds", "Thresholds", &table(&words::THRESHOLD_TITLES, thresholds.iter().map(row)))
}

fn scenario(scenario: &ScenarioReport, figures: &[Figure]) -> String {
    let mut inner = format!(
        "<h2 id=\"{}\">{} <code>{}</code></h2>\n",
        escaped(&scenario.name),
        escaped(&scenario.title),
        escaped(&scenario.name)
    );
    if let Some(reference) = &scenario.reference {
        inner += &text("p class=\"sub\"", &format!("Published figures: {reference}"));
    }
    inner +=
        &element("div class=\"charts\"", &(charts::main(scenario, figures) + &charts::latency(scenario)));
    inner += &measured(scenario, figures);
    if !scenario.shapes.is_empty() {
        let row = |shape: &Shape| {
            let [claim, published, measured, result] = words::shape(shape);
            vec![
                Cell::words(claim),
                Cell::words(published),
                Cell::words(measured),
                Cell::marked(result, shape.holds),
            ]
        };
        inner += &text("h3", "Shapes");
        inner += &table(&words::shape_titles(scenario), scenario.shapes.iter().map(row));
    }
    inner += &lists(words::lists_of_scenario(scenario));
    inner += &each_case(scenario);
    element("section", &inner)
}

/// Published against measured.
fn measured(scenario: &ScenarioReport, figures: &[Figure]) -> String {
    let rows: Vec<words::Row> =
        scenario.cases.iter().flat_map(|case| words::rows(&scenario.name, case, figures)).collect();
    let intervals = rows.iter().any(|row| !row.interval.is_empty());
    let published = rows.iter().any(|row| !row.published.is_empty());
    let mut titles = vec!["case", "metric", "measured"];
    titles.extend(intervals.then_some("interval"));
    titles.extend(published.then_some(["published", "measured/published"]).into_iter().flatten());
    let mut case_before = String::new();
    let cells = rows.into_iter().map(|row| {
        // The figures of one case stand together: its name is said once.
        let case = if row.case == case_before { String::new() } else { row.case.clone() };
        case_before = row.case;
        let invalid = (row.invalid > 0).then(|| format!("{} trials invalid", row.invalid));
        let doubt = row.dubious.map(|why| format!("(?) {why}"));
        let mut cells = vec![
            Cell::words(case),
            Cell::words(row.metric),
            Cell { note: invalid, ..Cell::figure(row.measured) },
        ];
        cells.extend(intervals.then(|| Cell::figure(row.interval)));
        if published {
            cells.extend([Cell { note: doubt, ..Cell::figure(row.published) }, Cell::figure(row.ratio)]);
        }
        cells
    });
    table(&titles, cells)
}

/// Below the scenario, closed at first: every repeat, and the charts of each case.
fn each_case(scenario: &ScenarioReport) -> String {
    let cases: String = scenario
        .cases
        .iter()
        .filter(|case| !case.trials.is_empty())
        .map(|case| {
            text("h3", &case.name)
                + &element("div class=\"charts\"", &charts::of_case(case))
                + &repeats(&case.trials)
        })
        .collect();
    if cases.is_empty() {
        return cases;
    }
    element("details", &(text("summary", "Each case: latency, the course of it, every repeat") + &cases))
}

fn repeats(trials: &[Trial]) -> String {
    let titles = [
        "repeat",
        "arrivals",
        "good",
        "p50",
        "p99",
        "p99.9",
        "refused",
        "failed",
        "unknown",
        "load's processor",
        "validity",
    ];
    let row = |trial: &Trial| {
        let time = |q| time_us(trial.response.at(q) as f64);
        let count = |count: u64| Cell::figure(number(count as f64));
        let load = trial.usage.as_ref().and_then(|usage| usage.processes.iter().find(|of| of.name == "load"));
        let flags: Vec<String> =
            trial.flags.iter().filter(|flag| **flag != Flag::CoLocated).map(words::flag).collect();
        vec![
            Cell::figure(trial.repeat.to_string()),
            Cell::words(&trial.arrivals),
            Cell::figure(figure(trial.good_per_s(), "1/s")),
            Cell::figure(time(0.5)),
            Cell::figure(time(0.99)),
            Cell::figure(time(0.999)),
            count(trial.outcomes.refused()),
            count(trial.outcomes.failed),
            count(trial.outcomes.unknown),
            Cell::figure(load.map(|load| percent(load.processors)).unwrap_or_default()),
            if flags.is_empty() {
                Cell::marked("valid", Some(true))
            } else {
                Cell::marked(flags.join("; "), (!trial.is_valid()).then_some(false))
            },
        ]
    };
    let surprises = trials.iter().filter_map(|trial| trial.first_surprise.as_ref()).take(1);
    let surprise: String = surprises
        .map(|line| text("p class=\"sub\"", &format!("The first unexpected answer: {line}")))
        .collect();
    table(&titles, trials.iter().map(row)) + &surprise
}

fn peak(peak: &PeakReport) -> String {
    let fact = |(name, value): (&str, String)| {
        let cell = match name {
            // A sentence, and it must wrap on a phone.
            "limit" => Cell::words(value),
            _ if name.starts_with("confirmed") => {
                Cell { class: if peak.confirmed { "num good" } else { "num bad" }, ..Cell::words(value) }
            }
            _ => Cell::figure(value),
        };
        vec![Cell::words(name), cell]
    };
    let mut inner = text("p", &format!("Of {}.", peak.target));
    inner += &element("div class=\"charts\"", &charts::peak(peak));
    inner += &table(&["", ""], words::peak_facts(peak).into_iter().map(fact));
    inner += &text("h3", "Every load");
    inner += &table(&words::LOAD_TITLES, words::loads(peak).into_iter().map(load));
    inner += &list("Overload", peak.overload.iter().map(words::overload));
    if let Some(admission) = &peak.admission {
        let (low, high) = admission.everyday_per_s;
        inner += &text("h3", "The admission that follows");
        inner += &text("p", &format!("Every day: {} to {}.", figure(low, "1/s"), figure(high, "1/s")));
        inner += &text("pre", admission.config.trim_end());
    }
    inner += &lists(words::lists_of_peak(peak));
    let trials = |point: &PeakPoint| {
        text("h3", &format!("{}, {}", words::offered(point), point.phase)) + &repeats(&point.trials)
    };
    let loads: String = words::loads(peak).into_iter().map(trials).collect();
    inner += &element("details", &(text("summary", "Each load: every trial") + &loads));
    section("peak", "Peak under the limit", &inner)
}

fn load(point: &PeakPoint) -> Vec<Cell> {
    let passed = match point.verdict {
        Verdict::Pass => Some(true),
        Verdict::Fail => Some(false),
        Verdict::Undecided | Verdict::Invalid => None,
    };
    let of = |(column, cell): (usize, String)| match column {
        1 => Cell::words(cell),
        2 => Cell::marked(cell, passed),
        _ => Cell::figure(cell),
    };
    words::load(point).into_iter().enumerate().map(of).collect()
}

fn durability(rows: &[DurabilityRow]) -> String {
    if rows.is_empty() {
        return String::new();
    }
    let cells = rows.iter().flat_map(words::durability).map(|cells| {
        let of = |(column, cell): (usize, String)| match column {
            0 | 3 | 8 => Cell::words(cell),
            // An acknowledged order that is gone is what this table is for.
            5 if !matches!(cell.as_str(), "" | "0") => Cell { class: "num bad", ..Cell::words(cell) },
            _ => Cell::figure(cell),
        };
        cells.into_iter().enumerate().map(of).collect()
    });
    let mut inner = text(
        "p",
        "What each combination of settings costs, and what it lost when a process was killed under load.",
    );
    inner += &table(&words::DURABILITY_TITLES, cells);
    inner += &lists(rows.iter().map(|row| (figures::combination(row), words::durability_notes(row))));
    inner += &list("Validity", words::durability_flags(rows));
    section("durability", "What durability costs", &inner)
}

fn lists(lists: impl IntoIterator<Item = (String, Vec<String>)>) -> String {
    lists.into_iter().map(|(title, lines)| list(&title, lines)).collect()
}

fn environment(report: &Report) -> String {
    let rows = words::environment(report)
        .into_iter()
        .map(|(name, value)| vec![Cell::words(name), Cell::words(value)]);
    section("environment", "Environment", &table(&["", ""], rows))
}

#[cfg(test)]
mod tests;
