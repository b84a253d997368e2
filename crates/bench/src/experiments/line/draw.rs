//! The draw: so many people join a real server, their places are drawn, exported and verified by the program, and found out a
//! second time by an implementation of our own; and whether draws are fair.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use serde_json::Value;

use super::joins::{self, Joins, NO_BODY, Signed};
use super::places::{Places, Tree, hash_of, seed, sha256};
use super::{LINE, Measured, ScenarioContext, Shown, Terms, case, fairness, shape};
use crate::audit::AUDIT_FAILED;
use crate::goal::Goal;
use crate::host::process::{self, Guard};
use crate::host::procfs;
use crate::measure::watch;
use crate::report::model::{Better, Sample, ScenarioReport, Shape};
use crate::target::Target;

pub(super) const METRICS: &[&str] = &[
    "entries",
    "draw",
    "export",
    "memory of the export",
    "size of the file",
    "verify",
    "memory of the verification",
    "found out again",
    "chi-square over joining",
    "chi-square over buyers",
];
const PLACES: &str = "a line's places";
const FAIRNESS: &str = "fairness";
/// Draws whose places are counted.
const DRAWS: u32 = 1_000;
/// So many at the front are asked for their places.
const ANSWERS: u32 = 100;
const TOOL_PATIENCE: Duration = Duration::from_secs(600);
const TOOL_POLL: Duration = Duration::from_millis(2);
/// Somebody checks the draw on a laptop: a million entries within half a minute, and no more memory than a browser's tab.
const VERIFY_S_MAX: f64 = 30.0;
const VERIFY_BYTES_MAX: f64 = (64 << 20) as f64;

#[derive(Debug, Clone, Copy)]
pub struct DrawSizes {
    pub entries: u32,
}

impl DrawSizes {
    pub(super) fn of(context: &ScenarioContext) -> Self {
        Self { entries: if context.quick() { 100_000 } else { 1_000_000 } }
    }
}

/// # Errors
/// If anything can't be started or measured; `AUDIT FAILED` if a place is another one, or the draw not what was announced.
pub fn run(context: &ScenarioContext, sizes: DrawSizes) -> anyhow::Result<ScenarioReport> {
    super::check(context, sizes.entries)?;
    let mut report = ScenarioReport { title: "The draw of a line".to_owned(), ..ScenarioReport::default() };
    report.notes.push(
        "Every place of the exported draw was found out again by an implementation that shares no code with the server's; commitment \
         and root are those that the server showed before."
            .to_owned(),
    );
    if context.wants(PLACES) {
        let mut figures = Measured::default();
        for repeat in 1..=context.repeats {
            one(context, sizes, repeat, &mut figures, &mut report)?;
            context.keep(&case(&figures, PLACES));
        }
        let found = case(&figures, PLACES);
        let goals = [("verify", VERIFY_S_MAX), ("memory of the verification", VERIFY_BYTES_MAX)];
        report
            .shapes
            .extend(goals.iter().filter_map(|(name, most)| shape(&found, name, Goal::AtMost(*most), None)));
        report.cases.push(found);
    }
    if context.wants(FAIRNESS) {
        fair(context, &mut report);
    }
    Ok(report)
}

/// One draw, from joining to what its file says.
fn one(
    context: &ScenarioContext,
    sizes: DrawSizes,
    repeat: usize,
    figures: &mut Measured,
    report: &mut ScenarioReport,
) -> anyhow::Result<()> {
    let terms = Terms { units: 1, turn_s: 120, grace_s: 20, payment_s: 3600 };
    let mut server = super::open(context, &format!("draw-{repeat}"), terms)?;
    if repeat == 1 {
        report.engines.push(server.settings()?);
    }
    let announced = super::shown(&server)?;
    let joins = joins::all(context, &server, sizes.entries)?;
    context.progress.doing("the draw");
    let begun = Instant::now();
    super::close_entries(&server, Duration::from_secs(1800), Duration::from_secs(3600))?;
    let drawn = super::drawn(context, &server)?;
    let draw_s = begun.elapsed().as_secs_f64();
    check_answers(&server, &joins, &drawn)?;
    server.stop()?;
    server.audit()?;

    let file = context.folder.join(format!("draw-{repeat}.txt"));
    let ticket = joins.ticket.as_deref().context("nobody was given a ticket")?;
    let data_dir = server.data_dir();
    let (sale, product) = (super::SALE.to_string(), super::PRODUCT.to_string());
    let mut export = Command::new(&context.program);
    export.args(["draw", "export", "--sale", &sale, "--product", &product]).arg("--data-dir").arg(data_dir);
    export.arg("--to").arg(&file);
    let mut verify = Command::new(&context.program);
    verify.args(["draw", "verify", "--ticket", ticket]).arg(&file);
    let ((exported, verified), usage) = watch(context.around(&[], true), || {
        Ok((spent(context, "draw export", &mut export)?, spent(context, "draw verify", &mut verify)?))
    })?;
    figures.samples.push(Sample { seconds: usage.seconds, requests: 0, usage });
    let begun = Instant::now();
    context.progress.doing("finding every place out again");
    check_file(&file, &announced, &drawn)?;
    let file_bytes = std::fs::metadata(&file).context("the size of the draw")?.len();
    for (what, value) in [
        (("verify", "s", Better::Lower), verified.seconds),
        (("entries", "entries", Better::Neither), f64::from(drawn.entries()?)),
        (("draw", "s", Better::Lower), draw_s),
        (("export", "s", Better::Lower), exported.seconds),
        (("memory of the export", "bytes", Better::Lower), exported.memory_bytes),
        (("size of the file", "bytes", Better::Lower), file_bytes as f64),
        (("memory of the verification", "bytes", Better::Lower), verified.memory_bytes),
        (("found out again", "s", Better::Neither), begun.elapsed().as_secs_f64()),
    ] {
        figures.add_value(what, value);
    }
    context
        .progress
        .done(&format!("{PLACES}, {repeat} of {}: verified in {:.1} s", context.repeats, verified.seconds));
    std::fs::remove_file(&file).context("removing the draw")?;
    super::remove(server)
}

/// Whoever stands at the front is answered that place.
fn check_answers(server: &Target, joins: &Joins, drawn: &Shown) -> anyhow::Result<()> {
    let (order, people) = (Places::new(&drawn.hash("seed")?, drawn.entries()?), joins.person_by_number());
    for place in 1..=ANSWERS.min(drawn.entries()?) {
        let Some(person) = people.get(order.number_at(place) as usize).copied().flatten() else { continue };
        let mut request = Vec::new();
        Signed::new().post(&format!("{LINE}/presence"), person, NO_BODY, &mut request);
        let answer = server.exchange(&request, 200)?;
        let answer: Value = serde_json::from_slice(&answer.body).context("a place as JSON")?;
        ensure!(answer["place"] == place, "{AUDIT_FAILED}: who stands in place {place} is answered {answer}");
    }
    Ok(())
}

#[derive(Debug, Clone, Copy)]
struct Spent {
    seconds: f64,
    /// The most that was resident, as it was seen last.
    memory_bytes: f64,
}

fn spent(context: &ScenarioContext, name: &str, command: &mut Command) -> anyhow::Result<Spent> {
    context.progress.doing(name);
    let log = context.folder.join("draw.log");
    command.env_clear();
    let begun = Instant::now();
    let mut guard = Guard::start(command, &log).with_context(|| context.program.display().to_string())?;
    let mut peak = 0;
    let status = loop {
        peak = procfs::peak_rss_bytes(guard.pid()).unwrap_or(peak).max(peak);
        if let Some(status) = guard.ended_before(name, begun + TOOL_PATIENCE, &context.stop)? {
            break status;
        }
        std::thread::sleep(TOOL_POLL);
    };
    let seconds = begun.elapsed().as_secs_f64();
    match status.code() {
        Some(0) => Ok(Spent { seconds, memory_bytes: peak as f64 }),
        Some(1) => bail!("{AUDIT_FAILED}: {name} says: {}", process::log_tail(&log)),
        _ => bail!("{name} ended with {status}: {}", process::log_tail(&log)),
    }
}

/// The file against what the server showed, before and after, and against places of our own.
fn check_file(file: &Path, announced: &Shown, drawn: &Shown) -> anyhow::Result<()> {
    let mut lines = BufReader::new(std::fs::File::open(file).context("the exported draw")?).lines();
    let head = lines.next().context("the exported draw is empty")??;
    let head = Shown(serde_json::from_str::<Value>(&head).context("the first line of the draw")?);
    let (secret, entries) = (head.hash("secret")?, head.entries()?);
    let made = seed(&secret, &head.hash("root")?);
    let claims = [
        ("the secret was committed to before", sha256(&[&secret]) == announced.hash("commitment")?),
        ("the root is what the server shows", head.hash("root")? == drawn.hash("root")?),
        ("the seed follows", made == head.hash("seed")? && made == drawn.hash("seed")?),
        ("as many take part as the server shows", entries == drawn.entries()?),
    ];
    if let Some((claim, _)) = claims.iter().find(|(_, holds)| !holds) {
        bail!("{AUDIT_FAILED}: not so in the exported draw: {claim}");
    }
    let (order, mut tree, mut count) = (Places::new(&made, entries), Tree::default(), 0);
    for line in lines {
        let line = line.context("the exported draw")?;
        count += 1;
        let mut words = line.split(' ');
        let mut word = || words.next().with_context(|| format!("'{line}' is no entry"));
        let (number, leaf, place) = (word()?.parse::<u32>()?, hash_of(word()?)?, word()?.parse::<u32>()?);
        tree.add(leaf);
        let wanted = order.place_of(number);
        ensure!(
            (number, place) == (count, wanted),
            "{AUDIT_FAILED}: entry {count} is number {number} in place {place}, not {wanted}"
        );
    }
    ensure!(count == entries, "{AUDIT_FAILED}: the exported draw has {count} entries of {entries}");
    ensure!(tree.root() == head.hash("root")?, "{AUDIT_FAILED}: the entries do not add up to the root");
    Ok(())
}

fn fair(context: &ScenarioContext, report: &mut ScenarioReport) {
    context.progress.doing(&format!("{FAIRNESS}: {DRAWS} draws"));
    let (joining, buyers) = fairness::of_draws(DRAWS, context.seed);
    let mut figures = Measured::default();
    for (name, of) in [("chi-square over joining", joining), ("chi-square over buyers", buyers)] {
        figures.add_value((name, "", Better::Neither), of.chi_square);
        report.shapes.push(Shape {
            claim: format!(
                "{name}, of {DRAWS} draws: {:.1} to {:.1}, which chance leaves once in 5,000 times",
                of.least, of.most
            ),
            published: "not published: what chance gives".to_owned(),
            measured: format!("{:.1}", of.chi_square),
            holds: Some(of.is_fair()),
        });
    }
    let found = case(&figures, FAIRNESS);
    context.keep(&found);
    report.cases.push(found);
    context.progress.done(&format!(
        "{FAIRNESS}: chi-square {:.1} over joining, {:.1} over buyers",
        joining.chi_square, buyers.chi_square
    ));
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn hex(hash: &[u8]) -> String {
        hash.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// A file as the program writes it, and what its server showed.
    fn exported(entries: u32) -> (Vec<String>, Shown, Shown) {
        let (secret, mut tree, mut leaves) = (sha256(&[b"secret"]), Tree::default(), Vec::new());
        for number in 1..=entries {
            let leaf = sha256(&[&number.to_be_bytes()]);
            tree.add(leaf);
            leaves.push(leaf);
        }
        let (root, made) = (tree.root(), seed(&secret, &tree.root()));
        let of_draw = json!({
            "entries": entries, "root": hex(&root), "seed": hex(&made), "secret": hex(&secret), "state": "drawn",
        });
        let order = Places::new(&made, entries);
        let mut lines = vec![of_draw.to_string()];
        for (number, leaf) in (1..).zip(&leaves) {
            lines.push(format!("{number} {} {}", hex(leaf), order.place_of(number)));
        }
        (lines, Shown(json!({"commitment": hex(&sha256(&[&secret]))})), Shown(of_draw))
    }

    #[test]
    fn each_part_of_an_exported_draw_counts() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("draw.txt");
        let (lines, announced, drawn) = exported(9);
        let said = |lines: &[String], announced: &Shown| {
            std::fs::write(&file, lines.join("\n") + "\n").unwrap();
            check_file(&file, announced, &drawn).map_err(|error| format!("{error:#}"))
        };
        assert_eq!(said(&lines, &announced), Ok(()));
        let other = Shown(json!({"commitment": hex(&[0; 32])}));
        assert!(said(&lines, &other).unwrap_err().contains("committed to before"));
        let mut swapped = lines.clone();
        swapped.swap(3, 4);
        assert!(said(&swapped, &announced).unwrap_err().contains("entry 3 is number 4"));
        assert!(said(&lines[..9], &announced).unwrap_err().contains("has 8 entries of 9"));
        let mut forged = lines.clone();
        let words: Vec<&str> = lines[5].split(' ').collect();
        forged[5] = format!("{} {} {}", words[0], hex(&[1; 32]), words[2]);
        assert!(said(&forged, &announced).unwrap_err().contains("do not add up"));
        forged[5] = format!("{} {} 99", words[0], words[1]);
        assert!(said(&forged, &announced).unwrap_err().contains("in place 99"));
    }
}
