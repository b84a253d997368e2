//! The report for people: one HTML page that needs nothing beside it (no host, no script, no file), and Markdown for a
//! repository or a wiki.
//!
//! Light and dark, on paper, and on a phone. `page.html` and `page.md` have the markup; whatever is put into it is
//! escaped. A chart can be a file of its own, too. Here is the order of both: the verdict, one picture, ten rows, and the rest folded by tier.

mod block;
mod parts;

use indexmap::IndexMap;
use minijinja::{Environment, Value, context};

use self::block::{Block, Cell};
use super::figures::{self, Figure};
use super::format::utc;
use super::model::{Report, ScenarioReport, Size};
use super::verdict::{self, Grade};
use super::{chart, words};

const STYLE: &str = concat!(include_str!("../chart/chart.css"), include_str!("style.css"));
/// Shapes that charts refer to.
const MARKS: &str = include_str!("../chart/marks.svg");
const TITLE: &str = "Doorbuster benchmark";
/// More are folded.
const ROWS_AT_FIRST: usize = 10;

/// Id, title, and how the names of its scenarios begin: what is measured by itself, then the path of an order.
const TIERS: [(&str, &str, &[&str]); 10] = [
    ("tier-peak", "Peak under a limit", &["peak"]),
    ("tier-durability", "Durability", &["durability"]),
    ("tier-peers", "Beside what others build", &["peers"]),
    ("tier-gate", "Gate: Redis", &["redis", "gate"]),
    ("tier-queue", "Queue: RocketMQ", &["rocketmq", "message-broker"]),
    ("tier-ledger", "Ledger: MariaDB", &["mysql", "submit"]),
    ("tier-pages", "Pages", &["static-page", "product-page", "stock", "read", "edge"]),
    ("tier-orders", "Orders", &["order", "message-http", "flash-crowd"]),
    ("tier-generator", "The load generator", &["self-check"]),
    ("tier-others", "Others", &[""]),
];

pub fn html(report: &Report) -> String {
    rendered("page.html", include_str!("page.html"), escaped, page(report))
}

/// Without the pictures and every single trial.
pub fn markdown(report: &Report) -> String {
    rendered("page.md", include_str!("page.md"), escaped_for_markdown, page(report))
}

/// One chart as a file of its own, an SVG: a row for each name, the median of its values with their range. The note is under
/// it. None if there is no value.
pub fn picture(title: &str, unit: &str, rows: &[(&str, Vec<f64>)], note: &str) -> Option<String> {
    let (chart, said) = chart::medians(title, unit, rows)?;
    let values = context! { chart, said, note, marks => MARKS, style => include_str!("../chart/chart.css") };
    Some(rendered("chart.svg", include_str!("../chart/chart.svg"), escaped, values))
}

/// Escaped by our own: the library's writes each / as six characters, and knows no Markdown.
fn rendered(name: &str, template: &str, escaped: fn(&str) -> String, values: Value) -> String {
    let mut environment = Environment::new();
    environment.set_trim_blocks(true);
    environment.set_lstrip_blocks(true);
    environment.set_formatter(move |out, _, value| {
        let text = value.to_string();
        Ok(out.write_str(&if value.is_safe() { text } else { escaped(&text) })?)
    });
    let page = environment.render_named_str(name, template, values);
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
    let verdict = verdict::of(report);
    let grade = match verdict.grade {
        Grade::Valid => "good",
        Grade::NotToBeQuoted => "open",
        Grade::Invalid => "bad",
    };
    let revision: String =
        report.git_revision.iter().map(|of| format!(", sources {}", shortened(of))).collect();
    let mut blocks = at_first(&figures::all(report));
    blocks.extend(parts::thresholds(report));
    let failed = report.failures.iter().map(|failed| format!("{}: {}", failed.name, failed.error)).collect();
    blocks.extend(Block::list("Not finished", failed));
    let tiers = tiers(report);
    let mut links: Vec<(&str, &str)> = tiers.iter().map(|(id, title, _)| (*id, *title)).collect();
    let open = tiers.len() == 1;
    blocks.extend(tiers.into_iter().map(|(id, title, scenarios)| {
        let cases: usize = scenarios.iter().map(|of| of.cases.len()).sum();
        let many = |count, word| format!("{count} {word}{}", if count == 1 { "" } else { "s" });
        let title = format!("{title}: {}, {}", many(scenarios.len(), "scenario"), many(cases, "case"));
        let blocks = scenarios.iter().map(|of| parts::scenario(of, report.size)).collect();
        Block::Folded { id: id.to_owned(), title, open, blocks }
    }));
    let rows = words::environment(report).into_iter();
    let rows = rows.map(|(name, value)| vec![Cell::words(name), Cell::words(value)]);
    let environment = Block::table("", rows);
    blocks.push(Block::section(
        2,
        "environment",
        "Environment",
        vec![Block::folded("where", "Where it was measured", vec![environment])],
    ));
    links.push(("environment", "Environment"));
    context! {
        title => TITLE, style => STYLE, marks => MARKS, grade, verdict => verdict.sentence,
        made => format!("{}{revision}, {}", report.program, utc(report.started_unix_s)),
        facts => facts(report), links, blocks,
    }
}

/// The picture of all tiers, and the best figure of each scenario, those with a published one first.
fn at_first(figures: &[Figure<'_>]) -> Vec<Block> {
    let mut best: IndexMap<&str, &Figure<'_>> = IndexMap::new();
    let is_measured = |of: &&Figure<'_>| of.median().is_some() && !of.of_load() && !of.case.reference;
    for of in figures.iter().filter(is_measured) {
        let than = best.entry(of.scenario).or_insert(of);
        let (metric, other) = (of.metric, than.metric);
        let is_rate = metric.unit == "1/s" && (&metric.unit, &metric.name) == (&other.unit, &other.name);
        let is_published = metric.published.is_some() >= other.published.is_some();
        if is_rate && is_published && of.median() > than.median() {
            *than = of;
        }
    }
    let mut best: Vec<_> = best.into_values().collect();
    let mut blocks: Vec<Block> = Block::charts(chart::overview(&best)).into_iter().collect();
    best.sort_by_key(|of| of.metric.published.is_none());
    let left = best.len().saturating_sub(ROWS_AT_FIRST);
    let rows: Vec<Vec<Cell>> = best.iter().take(ROWS_AT_FIRST).map(|of| row_at_first(of)).collect();
    if !rows.is_empty() {
        let titles = "scenario|case|measured|interval|published|measured/published|sample";
        blocks.push(Block::table(titles, rows));
        let rest =
            if left > 0 { format!("{left} more scenarios, and every case") } else { "Every case".to_owned() };
        blocks.push(Block::text("sub", format!("The best case of each scenario. {rest}: below, by tier.")));
    }
    blocks
}

fn row_at_first(of: &Figure<'_>) -> Vec<Cell> {
    let scenario = Cell { link: Some(of.scenario.to_owned()), ..Cell::words(of.scenario) };
    let mut cells = parts::cells_of(of);
    // Why a published figure may be wrong stands below, with the case.
    if cells[2].note.take().is_some() {
        cells[2].text += " (?)";
    }
    [scenario, Cell::words(&of.case.name)].into_iter().chain(cells).collect()
}

fn facts(report: &Report) -> Vec<Cell> {
    let trials = || report.scenarios.iter().flat_map(|of| &of.cases).flat_map(|case| &case.trials);
    let invalid = trials().filter(|trial| !trial.is_valid()).count();
    let audits = report.scenarios.iter().filter(|of| of.audit.is_some()).count();
    let met = report.thresholds.iter().filter(|of| of.met).count();
    let asked = report.thresholds.len();
    let size = match report.size {
        Size::Quick => "quick sizes",
        Size::Full => "published sizes",
    };
    // A search repeats its loads as it needs to.
    let repeats = if report.repeats == 1 { "once" } else { "repeatedly" };
    let search = report.scenarios.iter().any(|of| of.search.is_some());
    let measured = if search { String::new() } else { format!(", measured {repeats}") };
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

#[cfg(test)]
mod tests;
