//! The parts of the page: a scenario, a search, the price list, as tables, lists and charts.

use super::block::{Block, Cell};
use crate::report::chart::{self, Chart};
use crate::report::figures::{self, Figure};
use crate::report::format::{figure, number, percent, time_us, times};
use crate::report::model::{
    Distribution, DurabilityRow, Flag, Kill, Limiter, PeakPoint, PeakReport, Report, ScenarioReport, Shape,
    Size, ThresholdResult, Trial, Verdict,
};
use crate::report::statistics::median;
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

pub(super) fn scenario(of: &ScenarioReport, size: Size, figures: &[Figure]) -> Block {
    let published = of.reference.iter().map(|of| Block::text("sub", format!("Published figures: {of}")));
    let mut blocks: Vec<Block> = published.collect();
    let charts: Vec<Chart> = chart::main(of, figures).into_iter().chain(chart::latency(of)).collect();
    blocks.extend(Block::charts(charts));
    blocks.push(measured(of, figures));
    if !of.shapes.is_empty() {
        // What nobody published is what we expect.
        let beside = if of.reference.is_some() { "published" } else { "expected" };
        blocks.push(Block::Heading { text: "Shapes".to_owned() });
        blocks.push(Block::table(&format!("shape|{beside}|measured|result"), of.shapes.iter().map(shape)));
    }
    blocks.extend(of.limiter.iter().filter_map(limiter));
    blocks.extend(lists([
        ("Scaled down", of.scaled_down.clone()),
        ("Notes", of.notes.clone()),
        ("Validity", words::flags(of, size)),
        ("Audit, clean", of.audit.iter().map(words::audit).collect()),
        ("Engines, as they said themselves", of.engines.iter().map(words::engine).collect()),
    ]));
    blocks.extend(each_case(of));
    let (id, title) = (of.name.clone(), of.title.clone());
    Block::Section { level: 3, code: id.clone(), id, title, blocks }
}

fn lists<const N: usize>(lists: [(&str, Vec<String>); N]) -> impl Iterator<Item = Block> {
    lists.into_iter().filter_map(|(title, lines)| Block::list(title, lines))
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

/// Published against measured.
fn measured(scenario: &ScenarioReport, figures: &[Figure]) -> Block {
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
    Block::table("case|metric|measured|interval|published|measured/published|sample", rows)
}

/// Measured, interval, published, ratio, sample.
pub(super) fn cells_of(of: &Figure) -> [Cell; 5] {
    let write = |value: f64| figure(value, &of.unit);
    let interval = of.interval().map(|of| format!("{} to {}", write(of.low), write(of.high)));
    let doubt = of.published.as_ref().and_then(|of| of.dubious.as_ref()).map(|why| format!("(?) {why}"));
    let published = of.published.as_ref().map(|of| write(of.value)).unwrap_or_default();
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

pub(super) fn peak(peak: &PeakReport) -> Block {
    let mut loads: Vec<&PeakPoint> = peak.curve.iter().collect();
    loads.sort_by(|a, b| b.is_closed_loop().cmp(&a.is_closed_loop()).then(a.rate.total_cmp(&b.rate)));
    let mut blocks = vec![Block::text("", format!("Of {}.", peak.target))];
    blocks.extend(Block::charts(chart::peak(peak)));
    blocks.push(peak_facts(peak));
    blocks.push(Block::Heading { text: "Every load".to_owned() });
    blocks
        .push(Block::table("offered|phase|verdict|good|p99|sample|trials", loads.iter().map(|of| load(of))));
    blocks.extend(Block::list("Overload", peak.overload.iter().map(words::overload).collect()));
    if let Some(admission) = &peak.admission {
        let (low, high) = admission.everyday_per_s;
        let everyday = format!("Every day: {} to {}.", figure(low, "1/s"), figure(high, "1/s"));
        blocks.push(Block::Heading { text: "The admission that follows".to_owned() });
        blocks.push(Block::text("", everyday));
        blocks.push(Block::code(&admission.config));
    }
    blocks.extend(peak.limiter.iter().filter_map(limiter));
    blocks.extend(lists([
        ("Validity", words::peak_flags(peak)),
        ("Audit, clean", peak.audit.iter().map(words::audit).collect()),
        ("Notes", peak.notes.clone()),
    ]));
    let name = |of: &PeakPoint| format!("{}, {}", words::offered(of), of.phase);
    let trials: Vec<(String, &Trial)> =
        loads.iter().flat_map(|point| point.trials.iter().map(|of| (name(point), of))).collect();
    blocks.push(Block::folded("", "Each load: every trial", repeats(&trials)));
    Block::section(2, "peak", "Peak under the limit", blocks)
}

/// What a search came to.
fn peak_facts(peak: &PeakReport) -> Block {
    let rate =
        |rate: Option<f64>| Cell::figure(rate.map_or_else(|| "none".to_owned(), |rate| figure(rate, "1/s")));
    let (p99, errors) = (time_us(peak.p99_limit_us as f64), percent(peak.errors_limit));
    let (confirmed, class) = if peak.confirmed { ("yes", "num good") } else { ("no", "num bad") };
    let facts = [
        // A sentence, and it must wrap on a phone.
        ("limit", Cell::words(format!("p99 at most {p99}, errors at most {errors}"))),
        ("highest load that passed", rate(peak.highest_passed)),
        ("lowest load that failed", rate(peak.lowest_failed)),
        ("confirmed by interleaved repeats", Cell::of(class, confirmed)),
        ("closed-loop maximum", rate(peak.closed_loop_max)),
        ("generator's own ceiling", rate(Some(peak.generator_ceiling))),
        ("idle noise, p99", Cell::figure(time_us(peak.idle_noise_us.at(0.99) as f64))),
    ];
    Block::table("", facts.map(|(name, value)| vec![Cell::words(name), value]))
}

/// Its figures are the medians of its valid trials.
fn load(point: &PeakPoint) -> Vec<Cell> {
    let median_of = |value: fn(&Trial) -> f64, unit| {
        let median = median(&point.valid().map(value).collect::<Vec<_>>());
        Cell::figure(median.map(|of| figure(of, unit)).unwrap_or_default())
    };
    let (made, valid) = (point.trials.len(), point.valid().count());
    let invalid = if valid < made { format!(" ({} invalid)", made - valid) } else { String::new() };
    let passed = match point.verdict {
        Verdict::Pass => Some(true),
        Verdict::Fail => Some(false),
        Verdict::Undecided | Verdict::Invalid => None,
    };
    // Of a closed loop nothing is to be decided.
    let decided = !point.is_closed_loop() || valid == 0;
    vec![
        Cell::figure(words::offered(point)),
        Cell::words(&point.phase),
        Cell::marked(if decided { words::verdict_of_load(point.verdict) } else { "" }, passed),
        median_of(Trial::good_per_s, "1/s"),
        median_of(|trial| trial.response.at(0.99) as f64, "us"),
        Cell::of("sample", sample_of(&figures::samples(&point.trials))),
        Cell::figure(format!("{made}{invalid}")),
    ]
}

pub(super) fn durability(rows: &[DurabilityRow], size: Size) -> Option<Block> {
    let titles = "settings|orders/s|p99|sample|killed|acknowledged|lost|unknown|back after|a power cut may lose (not \
                  measured)";
    let about =
        "What each combination of settings costs, and what it lost when a process was killed under load.";
    let mut blocks = vec![Block::text("", about), Block::table(titles, rows.iter().flat_map(combination))];
    let notes = rows.iter().filter_map(|row| {
        let engines = row.engines.iter().map(|of| format!("as it said itself: {}", words::engine(of)));
        let audits = row.audit.iter().map(|of| format!("audit, clean: {}", words::audit(of)));
        let lines = row.notes.iter().cloned().chain(engines).chain(audits).collect();
        Block::list(&figures::combination(row), lines)
    });
    blocks.push(Block::folded("combinations", "Each combination", notes.collect()));
    blocks.extend(Block::list("Validity", words::durability_flags(rows, size)));
    (!rows.is_empty()).then(|| Block::section(2, "durability", "What durability costs", blocks))
}

/// A line for each kill, and one for a combination in which nothing was killed.
fn combination(row: &DurabilityRow) -> Vec<Vec<Cell>> {
    let median_of = |values: &[f64], unit| {
        Cell::figure(median(values).map_or_else(|| "not measured".to_owned(), |of| figure(of, unit)))
    };
    let p99: Vec<f64> = row.p99_us.iter().map(|us| *us as f64).collect();
    let line = |kill: Option<&Kill>| {
        let count = |count: fn(&Kill) -> u64| {
            Cell::figure(kill.map(|kill| number(count(kill) as f64)).unwrap_or_default())
        };
        // An acknowledged order that is gone is what this table is for.
        let lost = if kill.is_some_and(|kill| kill.acknowledged_lost > 0) { "num bad" } else { "num" };
        vec![
            Cell::words(figures::combination(row)),
            median_of(&row.orders_per_s, "1/s"),
            median_of(&p99, "us"),
            Cell::of("sample", sample_of(&figures::samples(&row.trials))),
            Cell::words(kill.map_or("nothing", |kill| &kill.victim)),
            count(|kill| kill.acknowledged),
            Cell { class: lost, ..count(|kill| kill.acknowledged_lost) },
            count(|kill| kill.unknown),
            Cell::figure(kill.map(|kill| figure(kill.back_after_s, "s")).unwrap_or_default()),
            Cell::words(&row.power_cut),
        ]
    };
    if row.kills.is_empty() { vec![line(None)] } else { row.kills.iter().map(Some).map(line).collect() }
}
