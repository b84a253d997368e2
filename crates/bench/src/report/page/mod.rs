//! The report for people: one HTML page that needs nothing beside it (no host, no script, no file), and Markdown for a
//! repository or a wiki.
//!
//! Light and dark, on paper, and on a phone. `page.html` and `page.md` have the markup; whatever is put into it is
//! escaped. Here is the order of both: the verdict, one picture, ten rows, and the rest folded by tier.

mod block;

use minijinja::{Environment, Value, context};

use self::block::{Block, Cell};
use super::chart::{self, Chart};
use super::figures::{self, Figure};
use super::format::{figure, number, percent, time_us, times, utc};
use super::model::{
    DurabilityRow, Flag, PeakPoint, PeakReport, Report, ScenarioReport, Shape, Size, Trial, Verdict,
};
use super::verdict::{self, Standing};
use super::words;

const STYLE: &str = include_str!("style.css");
const TITLE: &str = "Doorbuster benchmark";
/// More are folded.
const ROWS_AT_FIRST: usize = 10;

/// Id, title, and how the names of its scenarios begin, in the order of the path of an order.
const TIERS: [(&str, &str, &[&str]); 7] = [
    ("gate", "Gate: Redis", &["redis", "gate"]),
    ("queue", "Queue: RocketMQ", &["rocketmq", "message-broker"]),
    ("ledger", "Ledger: MariaDB", &["mysql", "submit"]),
    ("pages", "Pages", &["static-page", "product-page", "stock", "edge"]),
    ("orders", "Orders", &["order", "message-http", "flash-crowd"]),
    ("generator", "The load generator", &["self-check"]),
    ("others", "Others", &[""]),
];

pub fn html(report: &Report) -> String {
    rendered("page.html", include_str!("page.html"), escaped, report)
}

/// Without the pictures and every single trial.
pub fn markdown(report: &Report) -> String {
    rendered("page.md", include_str!("page.md"), escaped_for_markdown, report)
}

/// Escaped by our own: the library's writes each / as six characters, and knows no Markdown.
fn rendered(name: &str, template: &str, escaped: fn(&str) -> String, report: &Report) -> String {
    let mut environment = Environment::new();
    environment.set_trim_blocks(true);
    environment.set_lstrip_blocks(true);
    environment.set_formatter(move |out, _, value| {
        let text = value.to_string();
        Ok(out.write_str(&if value.is_safe() { text } else { escaped(&text) })?)
    });
    let page = environment.render_named_str(name, template, page(report));
    page.expect("the template is compiled in, and its tests fill it")
}

/// Text is text, in an element and in an attribute's quotes.
fn escaped(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&#39;"),
            // HTML has no such characters, escaped or not.
            c if c.is_control() && !matches!(c, '\n' | '\t') => safe.push('\u{fffd}'),
            c => safe.push(c),
        }
    }
    safe
}

/// Text is text: no markup of it, no cell of it, no line of it.
fn escaped_for_markdown(text: &str) -> String {
    let mut safe = String::new();
    for c in text.chars() {
        match c {
            '\\' | '`' | '*' | '_' | '[' | ']' | '|' => safe.extend(['\\', c]),
            '<' => safe.push_str("&lt;"),
            '&' => safe.push_str("&amp;"),
            '\n' | '\r' => safe.push(' '),
            _ => safe.push(c),
        }
    }
    safe
}

fn page(report: &Report) -> Value {
    let figures = figures::all(report);
    let verdict = verdict::of(report);
    let standing = match verdict.standing {
        Standing::Valid => "good",
        Standing::NotToBeQuoted => "open",
        Standing::Invalid => "bad",
    };
    let revision: String =
        report.git_revision.iter().map(|of| format!(", sources {}", shortened(of))).collect();
    let mut blocks = at_first(&figures);
    blocks.extend(thresholds(report));
    let failed = report.failures.iter().map(|failed| format!("{}: {}", failed.name, failed.error)).collect();
    blocks.extend(Block::list("Not finished", failed));
    let tiers = tiers(report);
    let mut links: Vec<(&str, &str)> = tiers.iter().map(|(id, title, _)| (*id, *title)).collect();
    let open = tiers.len() == 1;
    blocks.extend(tiers.into_iter().map(|(id, title, scenarios)| {
        let cases: usize = scenarios.iter().map(|of| of.cases.len()).sum();
        let many = |count, word| format!("{count} {word}{}", if count == 1 { "" } else { "s" });
        let title = format!("{title}: {}, {}", many(scenarios.len(), "scenario"), many(cases, "case"));
        let blocks = scenarios.iter().map(|of| scenario(of, report.size, &figures)).collect();
        Block::Folded { id: id.to_owned(), title, open, blocks }
    }));
    blocks.extend(report.peak.iter().map(peak));
    links.extend(report.peak.as_ref().map(|_| ("peak", "Peak")));
    blocks.extend(durability(&report.durability, report.size));
    links.extend(report.durability.first().map(|_| ("durability", "Durability")));
    let rows = words::environment(report).into_iter();
    let rows = rows.map(|(name, value)| vec![Cell::words(name), Cell::words(value)]);
    let environment = Block::table(&[], rows);
    blocks.push(Block::section(
        2,
        "environment",
        "Environment",
        vec![Block::folded("where", "Where it was measured", vec![environment])],
    ));
    links.push(("environment", "Environment"));
    context! {
        title => TITLE, style => STYLE, standing, verdict => verdict.sentence,
        made => format!("{}{revision}, {}", report.program, utc(report.started_unix_s)),
        facts => facts(report), links, blocks,
    }
}

/// The picture of all tiers, and the best figure of each scenario, those with a published one first.
fn at_first(figures: &[Figure]) -> Vec<Block> {
    let mut best: Vec<&Figure> = Vec::new();
    for of in figures.iter().filter(|of| of.median().is_some()) {
        let better = |than: &Figure| {
            let of_kind =
                (of.unit == than.unit, of.metric == than.metric) == (true, true) && of.unit == "1/s";
            of_kind && of.published.is_some() >= than.published.is_some() && of.median() > than.median()
        };
        match best.iter_mut().find(|other| other.scenario == of.scenario) {
            Some(other) if better(other) => *other = of,
            Some(_) => {}
            None => best.push(of),
        }
    }
    let mut blocks: Vec<Block> = Block::charts(chart::overview(&best)).into_iter().collect();
    best.sort_by_key(|of| of.published.is_none());
    let left = best.len().saturating_sub(ROWS_AT_FIRST);
    let rows: Vec<Vec<Cell>> = best.iter().take(ROWS_AT_FIRST).map(|of| row_at_first(of)).collect();
    if !rows.is_empty() {
        let titles =
            ["scenario", "case", "measured", "interval", "published", "measured/published", "sample"];
        blocks.push(Block::table(&titles, rows));
        let rest =
            if left > 0 { format!("{left} more scenarios, and every case") } else { "Every case".to_owned() };
        blocks.push(Block::text("sub", format!("The best case of each scenario. {rest}: below, by tier.")));
    }
    blocks
}

fn row_at_first(of: &Figure) -> Vec<Cell> {
    let scenario = Cell { link: Some(of.scenario.clone()), ..Cell::words(&of.scenario) };
    let mut cells = cells_of(of);
    // Why a published figure may be wrong stands below, with the case.
    if cells[2].note.take().is_some() {
        cells[2].text += " (?)";
    }
    [scenario, Cell::words(&of.case)].into_iter().chain(cells).collect()
}

fn facts(report: &Report) -> Vec<Cell> {
    let of_cases = || report.scenarios.iter().flat_map(|of| &of.cases).flat_map(|case| &case.trials);
    let of_loads = || report.peak.iter().flat_map(|of| &of.curve).flat_map(|point| &point.trials);
    let trials = || of_cases().chain(of_loads()).chain(report.durability.iter().flat_map(|row| &row.trials));
    let invalid = trials().filter(|trial| !trial.is_valid()).count();
    let audits = report.scenarios.iter().filter_map(|of| of.audit.as_ref());
    let audits = audits.chain(report.peak.iter().filter_map(|of| of.audit.as_ref()));
    let audits = audits.chain(report.durability.iter().filter_map(|of| of.audit.as_ref())).count();
    let met = report.thresholds.iter().filter(|of| of.met).count();
    let asked = report.thresholds.len();
    let size = match report.size {
        Size::Quick => "quick sizes",
        Size::Full => "published sizes",
    };
    // A search repeats its loads as it needs to.
    let repeats = if report.repeats == 1 { "once" } else { "repeatedly" };
    let measured = if report.peak.is_none() { format!(", measured {repeats}") } else { String::new() };
    let many = |count: usize, class, text: String| (count > 0).then(|| Cell::of(class, text));
    [
        many(report.scenarios.len(), "", format!("scenarios: {}", report.scenarios.len())),
        Some(Cell::words(format!("trials: {}", trials().count()))),
        many(invalid, "bad", format!("invalid trials: {invalid}")),
        many(report.failures.len(), "bad", format!("not finished: {}", report.failures.len())),
        many(audits, "good", format!("audits, all clean: {audits}")),
        many(asked, if met == asked { "good" } else { "bad" }, format!("thresholds met: {met} of {asked}")),
        Some(Cell::words(format!("{size}{measured}"))),
        report
            .environment
            .co_located
            .then(|| Cell::words("co-located: the load shares the target's processors")),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// All of it is under Environment; what must not be overlooked is behind the hash.
fn shortened(revision: &str) -> String {
    let (hash, doubts) = revision.split_at(revision.find('-').unwrap_or(revision.len()));
    hash.chars().take(12).chain(doubts.chars()).collect()
}

fn thresholds(report: &Report) -> Option<Block> {
    let row = |of: &super::model::ThresholdResult| {
        let [threshold, measured, met] = words::threshold(of);
        vec![Cell::words(threshold), Cell::figure(measured), Cell::marked(met, Some(of.met))]
    };
    let table = Block::table(&words::THRESHOLD_TITLES, report.thresholds.iter().map(row));
    (!report.thresholds.is_empty()).then(|| Block::section(2, "thresholds", "Thresholds", vec![table]))
}

/// Those that something was measured of.
fn tiers(report: &Report) -> Vec<(&'static str, &'static str, Vec<&ScenarioReport>)> {
    let tier_of = |scenario: &ScenarioReport| {
        let of_tier =
            |(_, _, begins): &(_, _, &[&str])| begins.iter().any(|of| scenario.name.starts_with(of));
        TIERS.iter().position(of_tier).unwrap_or(TIERS.len() - 1)
    };
    let scenarios_of = |tier| report.scenarios.iter().filter(|of| tier_of(of) == tier).collect::<Vec<_>>();
    let tiers = TIERS.iter().enumerate().map(|(tier, (id, title, _))| (*id, *title, scenarios_of(tier)));
    tiers.filter(|(.., scenarios)| !scenarios.is_empty()).collect()
}

fn scenario(scenario: &ScenarioReport, size: Size, figures: &[Figure]) -> Block {
    let published =
        scenario.reference.iter().map(|of| Block::text("sub", format!("Published figures: {of}")));
    let mut blocks: Vec<Block> = published.collect();
    let charts: Vec<Chart> =
        chart::main(scenario, figures).into_iter().chain(chart::latency(scenario)).collect();
    blocks.extend(Block::charts(charts));
    blocks.push(measured(scenario, figures));
    if !scenario.shapes.is_empty() {
        let row = |shape: &Shape| {
            let [claim, published, measured, result] = words::shape(shape);
            let words = [claim, published, measured].map(Cell::words);
            words.into_iter().chain([Cell::marked(result, shape.holds)]).collect()
        };
        blocks.push(Block::Heading { text: "Shapes".to_owned() });
        blocks.push(Block::table(&words::shape_titles(scenario), scenario.shapes.iter().map(row)));
    }
    blocks.extend(Block::lists(words::lists_of_scenario(scenario, size)));
    blocks.extend(each_case(scenario));
    let (id, title) = (scenario.name.clone(), scenario.title.clone());
    Block::Section { level: 3, code: id.clone(), id, title, blocks }
}

/// Published against measured.
fn measured(scenario: &ScenarioReport, figures: &[Figure]) -> Block {
    let titles = ["case", "metric", "measured", "interval", "published", "measured/published", "sample"];
    let rows = scenario.cases.iter().flat_map(|case| {
        // The figures of one case stand together: its name is said once.
        let mut name = case.name.as_str();
        let of_case = figures.iter().filter(|of| of.scenario == scenario.name && of.case == case.name);
        let invalid = case.trials.iter().filter(|trial| !trial.is_valid()).count();
        let row = move |of: &Figure| {
            let mut row = vec![Cell::words(std::mem::take(&mut name)), Cell::words(&of.metric)];
            row.extend(cells_of(of));
            row[2].note = (invalid > 0).then(|| format!("{invalid} trials invalid"));
            row
        };
        of_case.map(row)
    });
    Block::table(&titles, rows)
}

/// Measured, interval, published, ratio, sample.
fn cells_of(of: &Figure) -> [Cell; 5] {
    let write = |value: f64| figure(value, &of.unit);
    let interval = of.interval().map(|of| format!("{} to {}", write(of.low), write(of.high)));
    let doubt = of.published.as_ref().and_then(|of| of.dubious.as_ref()).map(|why| format!("(?) {why}"));
    let published = of.published.as_ref().map(|of| write(of.value)).unwrap_or_default();
    [
        Cell::figure(of.median().map_or_else(|| "not measured".to_owned(), write)),
        Cell::figure(interval.unwrap_or_default()),
        Cell { note: doubt, ..Cell::figure(published) },
        Cell::figure(of.ratio().map(times).unwrap_or_default()),
        Cell::of("sample", words::sample_of(&of.samples)),
    ]
}

/// Below the scenario, closed at first.
fn each_case(scenario: &ScenarioReport) -> Option<Block> {
    let trials: Vec<(&str, &Trial)> = scenario
        .cases
        .iter()
        .flat_map(|case| case.trials.iter().map(|of| (case.name.as_str(), of)))
        .collect();
    if trials.is_empty() {
        return None;
    }
    let courses = match chart::courses(scenario) {
        Ok(charts) => Block::charts(charts),
        Err(why) => Some(Block::text("sub", why)),
    };
    let blocks = courses.into_iter().chain(repeats(&trials)).collect();
    Some(Block::folded("", "Each case: the course of it, every repeat", blocks))
}

const REPEAT_TITLES: [&str; 14] = [
    "case",
    "repeat",
    "arrivals",
    "good",
    "p50",
    "p99",
    "p99.9",
    "p99 from the actual send",
    "refused",
    "failed",
    "unknown",
    "load's processor",
    "sample",
    "validity",
];

fn repeats(trials: &[(&str, &Trial)]) -> Vec<Block> {
    let mut case_before = "";
    let rows = trials.iter().map(|(case, trial)| {
        let named = if *case == case_before { "" } else { *case };
        case_before = case;
        let time = |of: &super::model::Distribution, q| Cell::figure(time_us(of.at(q) as f64));
        let count = |count: u64| Cell::figure(number(count as f64));
        let load = trial.usage.as_ref().and_then(|usage| usage.processes.iter().find(|of| of.name == "load"));
        let flags = trial.flags.iter().filter(|flag| **flag != Flag::CoLocated);
        let flags: Vec<String> = flags.map(words::flag).collect();
        let quotable = !trial.flags.iter().any(Flag::forbids_quoting);
        vec![
            Cell::words(named),
            Cell::figure(trial.repeat.to_string()),
            Cell::words(&trial.arrivals),
            Cell::figure(figure(trial.good_per_s(), "1/s")),
            time(&trial.response, 0.5),
            time(&trial.response, 0.99),
            time(&trial.response, 0.999),
            time(&trial.service, 0.99),
            count(trial.outcomes.refused()),
            count(trial.outcomes.failed),
            count(trial.outcomes.unknown),
            Cell::figure(load.map(|load| percent(load.processors)).unwrap_or_default()),
            Cell::of("sample", words::sample(1, trial.seconds, trial.outcomes.total())),
            if flags.is_empty() {
                Cell::marked("valid", Some(true))
            } else {
                Cell::marked(flags.join("; "), (!quotable).then_some(false))
            },
        ]
    });
    let table = Block::table(&REPEAT_TITLES, rows.collect::<Vec<_>>());
    let surprise = trials.iter().find_map(|(_, trial)| trial.first_surprise.as_ref());
    let surprise = surprise.map(|of| Block::text("sub", format!("The first unexpected answer: {of}")));
    std::iter::once(table).chain(surprise).collect()
}

fn peak(peak: &PeakReport) -> Block {
    let fact = |(name, value): (&str, String)| {
        let class = match name {
            // A sentence, and it must wrap on a phone.
            "limit" => "",
            _ if name.starts_with("confirmed") && peak.confirmed => "num good",
            _ if name.starts_with("confirmed") => "num bad",
            _ => "num",
        };
        vec![Cell::words(name), Cell::of(class, value)]
    };
    let mut blocks = vec![Block::text("", format!("Of {}.", peak.target))];
    blocks.extend(Block::charts(chart::peak(peak)));
    blocks.push(Block::table(&[], words::peak_facts(peak).into_iter().map(fact)));
    blocks.push(Block::Heading { text: "Every load".to_owned() });
    blocks.push(Block::table(&words::LOAD_TITLES, words::loads(peak).into_iter().map(load)));
    blocks.extend(Block::list("Overload", peak.overload.iter().map(words::overload).collect()));
    if let Some(admission) = &peak.admission {
        let (low, high) = admission.everyday_per_s;
        let everyday = format!("Every day: {} to {}.", figure(low, "1/s"), figure(high, "1/s"));
        blocks.push(Block::Heading { text: "The admission that follows".to_owned() });
        blocks.push(Block::text("", everyday));
        blocks.push(Block::code(&admission.config));
    }
    blocks.extend(Block::lists(words::lists_of_peak(peak)));
    let loads: Vec<(String, &PeakPoint)> = words::loads(peak)
        .into_iter()
        .map(|point| (format!("{}, {}", words::offered(point), point.phase), point))
        .collect();
    let trials: Vec<(&str, &Trial)> =
        loads.iter().flat_map(|(name, point)| point.trials.iter().map(|of| (name.as_str(), of))).collect();
    blocks.push(Block::folded("", "Each load: every trial", repeats(&trials)));
    Block::section(2, "peak", "Peak under the limit", blocks)
}

fn load(point: &PeakPoint) -> Vec<Cell> {
    let passed = match point.verdict {
        Verdict::Pass => Some(true),
        Verdict::Fail => Some(false),
        Verdict::Undecided | Verdict::Invalid => None,
    };
    let of = |(column, cell): (usize, String)| match column {
        1 | 5 => Cell::words(cell),
        2 => Cell::marked(cell, passed),
        _ => Cell::figure(cell),
    };
    words::load(point).into_iter().enumerate().map(of).collect()
}

fn durability(rows: &[DurabilityRow], size: Size) -> Option<Block> {
    if rows.is_empty() {
        return None;
    }
    let cells = rows.iter().flat_map(words::durability).map(|cells| {
        let of = |(column, cell): (usize, String)| match column {
            0 | 3 | 4 | 9 => Cell::words(cell),
            // An acknowledged order that is gone is what this table is for.
            6 if !matches!(cell.as_str(), "" | "0") => Cell::of("num bad", cell),
            _ => Cell::figure(cell),
        };
        cells.into_iter().enumerate().map(of).collect()
    });
    let about =
        "What each combination of settings costs, and what it lost when a process was killed under load.";
    let mut blocks = vec![Block::text("", about), Block::table(&words::DURABILITY_TITLES, cells)];
    let notes =
        Block::lists(rows.iter().map(|row| (figures::combination(row), words::durability_notes(row))));
    blocks.push(Block::folded("combinations", "Each combination", notes.collect()));
    blocks.extend(Block::list("Validity", words::durability_flags(rows, size)));
    Some(Block::section(2, "durability", "What durability costs", blocks))
}

#[cfg(test)]
mod tests;
