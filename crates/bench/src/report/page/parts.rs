//! The parts of the page: thresholds, and a scenario as tables, lists and charts.

use indexmap::{IndexMap, IndexSet};

use super::block::{Block, Cell};
use crate::report::chart::{self, Chart};
use crate::report::figures::{self, Figure};
use crate::report::format::{figure, number, percent, time_us, times};
use crate::report::model::{
    Case, Distribution, Flag, Limiter, Report, ScenarioReport, Search, Shape, Size, ThresholdResult, Trial,
    Verdict,
};
use crate::report::words::{self, sample_of};

pub(super) fn thresholds(report: &Report) -> Option<Block> {
    let row = |of: &ThresholdResult| {
        let measured = of.measured.map_or_else(|| "not measured".to_owned(), number);
        let met = Cell::marked(if of.met { "met" } else { "MISSED" }, Some(of.met));
        vec![Cell::words(&of.threshold), Cell::figure(measured), met]
    };
    let table = Block::table("threshold|measured|result", report.thresholds.iter().map(row));
    (!report.thresholds.is_empty()).then(|| Block::section(2, "thresholds", "Thresholds", vec![table]))
}

pub(super) fn scenario(of: &ScenarioReport, size: Size) -> Block {
    let published = of.reference.iter().map(|of| Block::text("sub", format!("Published figures: {of}")));
    let mut blocks: Vec<Block> = published.collect();
    let charts: Vec<Chart> = chart::main(of).into_iter().chain(chart::latency(of)).collect();
    blocks.extend(Block::charts(charts));
    blocks.extend(of.search.iter().flat_map(search));
    blocks.extend(measured(of));
    if !of.shapes.is_empty() {
        // What nobody published is what we expect.
        let beside = if of.reference.is_some() { "published" } else { "expected" };
        blocks.push(Block::Heading { text: "Shapes".to_owned() });
        blocks.push(Block::table(&format!("shape|{beside}|measured|result"), of.shapes.iter().map(shape)));
    }
    blocks.extend(of.limiter.iter().filter_map(limiter));
    let lists = [
        ("Scaled down", of.scaled_down.clone()),
        ("Notes", of.notes.clone()),
        ("Validity", words::flags(of, size)),
        ("Audit, clean", of.audit.iter().map(words::audit).collect()),
        ("Engines, as they said themselves", of.engines.iter().map(words::engine).collect()),
    ];
    blocks.extend(lists.into_iter().filter_map(|(title, lines)| Block::list(title, lines)));
    let about: Vec<Block> = of.cases.iter().filter_map(about_case).collect();
    if !about.is_empty() {
        blocks.push(Block::folded(&format!("{}-cases", of.name), "About each case", about));
    }
    blocks.extend(each_case(of));
    let (id, title) = (of.name.clone(), of.title.clone());
    Block::Section { level: 3, code: id.clone(), id, title, blocks }
}

fn shape(of: &Shape) -> Vec<Cell> {
    let result = match of.holds {
        Some(true) => "found again",
        Some(false) => "NOT found",
        None => "can't be judged here",
    };
    let words = [&of.claim, &of.published, &of.measured].map(Cell::words);
    words.into_iter().chain([Cell::marked(result, of.holds)]).collect()
}

/// What a search found is whole sentences, which can't go on from a title's words.
fn limiter(of: &Limiter) -> Option<Block> {
    if of.what.ends_with('.') {
        return Block::list("The limit", [std::slice::from_ref(&of.what), &of.evidence].concat());
    }
    Block::list(&format!("Limited by {}", of.what), of.evidence.clone())
}

/// What a search looked for, and the settings that follow.
fn search(of: &Search) -> Vec<Block> {
    let (p99, errors) = (time_us(of.p99_limit_us as f64), percent(of.errors_limit));
    let confirmed = if of.confirmed { "Confirmed" } else { "NOT confirmed" };
    let limit =
        format!("Within the limit: p99 at most {p99}, errors at most {errors}. {confirmed} by repeats.");
    let settings = of.settings.iter().flat_map(|settings| {
        [Block::Heading { text: "The admission that follows".to_owned() }, Block::code(settings)]
    });
    std::iter::once(Block::text("", limit)).chain(settings).collect()
}

/// What is said of one case alone.
fn about_case(case: &Case) -> Option<Block> {
    let engines = case.engines.iter().map(|of| format!("as it said itself: {}", words::engine(of)));
    Block::list(&case.name, case.notes.iter().cloned().chain(engines).collect())
}

/// Published against measured, a row for each figure; without a published one a row for each case.
fn measured(scenario: &ScenarioReport) -> Vec<Block> {
    let cases = scenario.cases.iter().map(|case| figures::of_case(scenario, case).collect());
    let cases: Vec<Vec<Figure<'_>>> = cases.filter(|of: &Vec<_>| !of.is_empty()).collect();
    if cases.iter().flatten().all(|of| of.metric.published.is_none()) {
        let (loads, others): (Vec<_>, Vec<_>) = cases.into_iter().partition(|figures| figures[0].of_load());
        return [others, loads].iter().filter(|of| !of.is_empty()).map(|of| matrix(of)).collect();
    }
    let rows = cases.iter().flat_map(|figures| {
        // The figures of one case stand together: its name is said once.
        let mut name = figures[0].case.name.as_str();
        figures.iter().map(move |of| {
            let mut row = vec![Cell::words(std::mem::take(&mut name)), Cell::words(&of.metric.name)];
            row.extend(cells_of(of));
            row[2].note = invalid(of.case);
            row
        })
    });
    vec![Block::table("case|metric|measured|interval|published|measured/published|sample", rows)]
}

fn invalid(case: &Case) -> Option<String> {
    let (made, valid) = (case.trials.len(), case.valid().count());
    (valid < made).then(|| format!("{} of {made} trials invalid", made - valid))
}

/// A column for each metric. What stands behind a comma in its name, as in `back after, redis killed`, has a row of its own.
fn matrix(cases: &[Vec<Figure<'_>>]) -> Block {
    let columns: IndexSet<&str> = cases.iter().flatten().map(|of| parts(of).0).collect();
    let rows = cases.iter().flat_map(|figures| {
        let mut rows: IndexMap<&str, Vec<Cell>> = IndexMap::new();
        for of in figures {
            let (metric, of_what) = parts(of);
            let is_first = rows.is_empty();
            let row = rows.entry(of_what).or_insert_with(|| {
                let mut row = vec![Cell::default(), Cell::default(), Cell::words(of_what)];
                row.resize(3 + columns.len(), Cell::figure(""));
                row.push(Cell::of("sample", ""));
                if is_first {
                    row[0] = Cell { note: invalid(of.case), ..Cell::words(&of.case.name) };
                    row[1] = verdict(of.case).unwrap_or_default();
                    row[3 + columns.len()].text = sample_of(&of.samples);
                }
                row
            });
            row[3 + columns.get_index_of(metric).expect("they were gathered from all")] = in_matrix(of);
        }
        rows.into_values()
    });
    let titles: Vec<&str> =
        ["case", "verdict", "of"].into_iter().chain(columns.iter().copied()).chain(["sample"]).collect();
    Block::table(&titles.join("|"), rows)
}

/// The metric, and of what it is.
fn parts<'a>(of: &Figure<'a>) -> (&'a str, &'a str) {
    of.metric.name.split_once(", ").unwrap_or((&of.metric.name, ""))
}

/// With the interval below it.
fn in_matrix(of: &Figure<'_>) -> Cell {
    let [mut measured, interval, ..] = cells_of(of);
    measured.note = Some(interval.text).filter(|text| !text.is_empty());
    // An acknowledged order that is gone is what a price list is for.
    if of.metric.name.starts_with("acknowledged lost") && of.median().is_some_and(|lost| lost > 0.0) {
        measured.class = "num bad";
    }
    measured
}

/// Of a load that a search tried.
fn verdict(case: &Case) -> Option<Cell> {
    let verdict = case.load.as_ref()?.verdict?;
    let passed = match verdict {
        Verdict::Pass => Some(true),
        Verdict::Fail => Some(false),
        Verdict::Undecided | Verdict::Invalid => None,
    };
    Some(Cell::marked(words::verdict_of_load(verdict), passed))
}

/// Measured, interval, published, ratio, sample.
pub(super) fn cells_of(of: &Figure<'_>) -> [Cell; 5] {
    let write = |value: f64| figure(value, &of.metric.unit);
    let interval = of.interval().map(|of| format!("{} to {}", write(of.low), write(of.high)));
    let published = of.metric.published.as_ref();
    let doubt = published.and_then(|of| of.dubious.as_ref()).map(|why| format!("(?) {why}"));
    let published = published.map(|of| write(of.value)).unwrap_or_default();
    [
        Cell::figure(of.median().map_or_else(|| "not measured".to_owned(), write)),
        Cell::figure(interval.unwrap_or_default()),
        Cell { note: doubt, ..Cell::figure(published) },
        Cell::figure(of.ratio().map(times).unwrap_or_default()),
        Cell::of("sample", sample_of(&of.samples)),
    ]
}

/// Below the scenario, closed at first.
fn each_case(scenario: &ScenarioReport) -> Option<Block> {
    let cases = scenario.cases.iter();
    let trials: Vec<(String, &Trial)> =
        cases.flat_map(|case| case.trials.iter().map(|of| (case.name.clone(), of))).collect();
    let courses = match chart::courses(scenario) {
        Ok(charts) => Block::charts(charts),
        Err(why) => Some(Block::text("sub", why)),
    };
    let blocks = courses.into_iter().chain(repeats(&trials)).collect();
    (!trials.is_empty()).then(|| Block::folded("", "Each case: the course of it, every repeat", blocks))
}

fn repeats(trials: &[(String, &Trial)]) -> Vec<Block> {
    let mut before = "";
    let rows = trials.iter().map(|(name, trial)| {
        let named = if name == before { "" } else { name };
        before = name;
        let time = |of: &Distribution, q| Cell::figure(time_us(of.at(q) as f64));
        let count = |count: u64| Cell::figure(number(count as f64));
        let load = trial.usage.as_ref().and_then(|usage| usage.processes.iter().find(|of| of.name == "load"));
        let flags = trial.flags.iter().filter(|flag| **flag != Flag::CoLocated);
        let flags: Vec<String> = flags.map(words::flag).collect();
        let spoiled = trial.flags.iter().any(Flag::forbids_quoting);
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
            match flags.is_empty() {
                true => Cell::marked("valid", Some(true)),
                false => Cell::marked(flags.join("; "), spoiled.then_some(false)),
            },
        ]
    });
    let titles = "case|repeat|arrivals|good|p50|p99|p99.9|p99 from the actual send|refused|failed|unknown|load's \
                  processor|sample|validity";
    let table = Block::table(titles, rows);
    let surprise = trials.iter().find_map(|(_, trial)| trial.first_surprise.as_ref());
    let surprise = surprise.map(|of| Block::text("sub", format!("The first unexpected answer: {of}")));
    std::iter::once(table).chain(surprise).collect()
}
