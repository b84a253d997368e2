//! What was compared, as every report has it: a case for each of the two loads of a peer, and what we expect of its books.

use std::fmt;

use super::{Books, Compared, Kind, PeersOptions, Played};
use crate::host::usage::Watched;
use crate::load::Trial;
use crate::load::record::Outcomes;
use crate::report::figures::KILLED;
use crate::report::model::{Audit, Better, Case, FailedScenario, Metric, Report, ScenarioReport, Shape};
use crate::report::page::picture;
use crate::report::trials::figures;
use crate::report::verdict::{self, Grade};

/// Of the scenario.
pub const NAME: &str = "peers";
const NOTES: [&str; 3] = [
    "The others check neither tokens nor idempotency keys, and have no payments: they have less to do.",
    "SIGKILL takes nothing that the system has. What a power cut would take is not measured: with appendfsync everysec up to \
     a second of accepted orders, or two while a sync is slow.",
    "Processor time is of all processes of a peer. What is counted after a kill is the sum of all rounds.",
];

type Count = fn(Books) -> u64;

/// Name, unit, direction and value of what is counted after a kill.
const COUNTS: [(&str, &str, Better, Count); 5] = [
    ("accepted", "orders", Better::Neither, |of| of.accepted),
    ("lost", "orders", Better::Lower, |of| of.lost),
    ("oversold", "units", Better::Lower, Books::oversold),
    ("unsold", "units", Better::Lower, Books::unsold),
    ("over the limit", "orders", Better::Lower, |of| of.over_limit),
];

/// The most orders per second of each peer, as an SVG; none if the report's figures may not be quoted.
pub fn chart(report: &Report) -> Option<String> {
    if verdict::of(report).grade != Grade::Valid {
        return None;
    }
    let cases = report.scenarios.iter().filter(|of| of.name == NAME).flat_map(|of| &of.cases);
    let rate = |case: &Case| Some(case.metrics.iter().find(|of| of.name == "throughput")?.values.clone());
    let peaks: Vec<(&Case, Vec<f64>)> = cases.filter_map(|case| Some((case, rate(case)?))).collect();
    let users = peaks.first()?.0.name.rsplit(", ").next()?;
    let note = format!("Medians and ranges of {} rounds; {users}, on the same machine", report.repeats);
    let rows: Vec<(&str, Vec<f64>)> =
        peaks.iter().map(|(case, rates)| (case.series.as_str(), rates.clone())).collect();
    picture("Orders per second, at the most", "1/s", &rows, &note)
}

impl PeersOptions {
    /// What can be measured: the name of each case, and its metrics.
    pub fn plan(&self) -> Vec<(String, Vec<String>)> {
        let cases = Kind::ALL.into_iter().flat_map(|kind| [self.peak_of(kind, &[]), self.sale_of(kind, &[])]);
        cases.map(|case| (case.name, case.metrics.into_iter().map(|of| of.name).collect())).collect()
    }

    fn peak_of(&self, kind: Kind, rounds: &[&Played]) -> Case {
        let trials: Vec<Trial> = rounds.iter().map(|of| of.peak.clone()).collect();
        let mut metrics = figures(&trials, &["throughput"]);
        metrics.push(processors("CPU per order", &trials, |of| of.won));
        let notes = rounds.iter().map(|of| format!("Round {}: {}.", of.peak.repeat, of.peak_sold)).collect();
        let name = format!("{}, {} users", kind.name(), self.users);
        Case { name, metrics, trials, notes, ..case_of(kind) }
    }

    fn sale_of(&self, kind: Kind, rounds: &[&Played]) -> Case {
        let trials: Vec<Trial> = rounds.iter().map(|of| of.sale.clone()).collect();
        let mut metrics = figures(&trials, &["p99", "p50"]);
        metrics.push(processors("CPU per order", &trials, |of| of.won));
        metrics.push(processors("CPU per request", &trials, Outcomes::total));
        // Of all rounds together, as what follows: what was wrong in one of them must not vanish in a median.
        metrics.push(Metric::new("sold wrongly", "sales", Better::Lower, vec![wrong(rounds) as f64]));
        metrics.extend(COUNTS.map(|(name, unit, better, count)| {
            let name = format!("{name}, all processes{KILLED}");
            Metric::new(&name, unit, better, vec![killed(rounds, count) as f64])
        }));
        let note = |of: &&Played| format!("Round {}: {}. Killed: {}.", of.sale.repeat, of.sold, of.killed);
        let notes = rounds.iter().map(note).collect();
        let name = format!("{}, sale at {}/s", kind.name(), self.rate);
        Case { name, metrics, trials, notes, ..case_of(kind) }
    }
}

/// What is quoted is this program's, however quick the others are.
fn case_of(kind: Kind) -> Case {
    Case { series: kind.name().to_owned(), reference: kind != Kind::Doorbuster, ..Case::default() }
}

impl Compared {
    /// With the peers that gave no figures, and why.
    pub fn report(&self, options: &PeersOptions) -> (ScenarioReport, Vec<FailedScenario>) {
        let rounds = |kind| (kind, self.played.iter().filter(|of| of.kind == kind).collect::<Vec<_>>());
        let peers: Vec<(Kind, Vec<&Played>)> =
            Kind::ALL.into_iter().map(rounds).filter(|(_, rounds)| !rounds.is_empty()).collect();
        let peaks = peers.iter().map(|(kind, rounds)| options.peak_of(*kind, rounds));
        let sales = peers.iter().map(|(kind, rounds)| options.sale_of(*kind, rounds));
        let shapes =
            peers.iter().flat_map(|(kind, rounds)| [sells_exactly(*kind, rounds), keeps(*kind, rounds)]);
        let scenario = ScenarioReport {
            name: NAME.to_owned(),
            title: "Beside what others build".to_owned(),
            notes: NOTES.map(str::to_owned).to_vec(),
            cases: peaks.chain(sales).collect(),
            shapes: shapes.collect(),
            audit: self.audit(),
            ..ScenarioReport::default()
        };
        let missing = self.missing.iter();
        let missing =
            missing.map(|(kind, why)| FailedScenario { name: kind.name().to_owned(), error: why.clone() });
        (scenario, missing.collect())
    }

    /// Of this program: all its ledgers together.
    fn audit(&self) -> Option<Audit> {
        let ours = self.played.iter().filter(|of| of.kind == Kind::Doorbuster);
        let audit = |of: Books| Audit {
            initial_units: of.units,
            remaining_units: of.unsold(),
            held_units: of.orders,
            accepted: of.accepted,
            unknown: of.unknown,
            orders: of.orders,
            method: "the id of every accepted order looked up among the ledger's rows".to_owned(),
            ..Audit::default()
        };
        ours.flat_map(|of| [of.sold, of.peak_sold, of.killed]).map(audit).reduce(|mut all, of| {
            all.add(&of);
            all
        })
    }
}

/// A line for whoever watches.
impl fmt::Display for Played {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, rate, exactly) = (self.kind.name(), self.peak.good_per_s(), exactly(&[self]).0);
        let Books { accepted, lost, .. } = self.killed;
        write!(
            f,
            "{name}: {rate:.0}/s; sold exactly: {exactly}; kill -9: {lost} of {accepted} accepted orders lost"
        )
    }
}

/// Processor time of all processes of the peer, for each of these answers. None of a trial that says nothing, or where the time
/// was too short to be counted.
fn processors(name: &str, trials: &[Trial], answers: fn(&Outcomes) -> u64) -> Metric {
    let load = Watched::load().name;
    let cost = |trial: &Trial| {
        let processes = trial.usage.as_ref()?.processes.iter().filter(|of| of.name != load);
        let (seconds, answers) = (processes.map(|of| of.cpu_seconds).sum::<f64>(), answers(&trial.outcomes));
        (answers > 0 && seconds > 0.0).then(|| seconds * 1e6 / answers as f64)
    };
    let values = trials.iter().filter(|trial| trial.is_valid()).filter_map(cost).collect();
    Metric::new(name, "us", Better::Lower, values)
}

/// Loads that nothing was killed in, two in each round, after which its books are wrong.
fn wrong(rounds: &[&Played]) -> usize {
    let sale = |of: &Played| of.sold.sound() && (of.sold.exact() || !sold_out(of));
    rounds.iter().flat_map(|of| [sale(of), of.peak_sold.sound()]).filter(|right| !right).count()
}

fn sold_out(of: &Played) -> bool {
    of.sale.outcomes.sold_out > 0
}

fn exactly(rounds: &[&Played]) -> (&'static str, Option<bool>) {
    match (wrong(rounds), rounds.iter().all(|of| sold_out(of))) {
        (0, true) => ("yes", Some(true)),
        (0, false) => ("nothing wrong, but it did not carry enough requests to sell out", None),
        _ => ("NO", Some(false)),
    }
}

fn sells_exactly(kind: Kind, rounds: &[&Played]) -> Shape {
    let (measured, holds) = exactly(rounds);
    Shape {
        claim: format!("{} sells exactly", kind.name()),
        published: "each unit once, one to a buyer, and a row for each accepted order".to_owned(),
        measured: measured.to_owned(),
        holds,
    }
}

fn killed(rounds: &[&Played], count: Count) -> u64 {
    rounds.iter().map(|of| count(of.killed)).sum()
}

fn keeps(kind: Kind, rounds: &[&Played]) -> Shape {
    let [accepted, lost, oversold, unsold, over_limit] = COUNTS.map(|(.., count)| killed(rounds, count));
    Shape {
        claim: format!("{} keeps what it accepted, after kill -9", kind.name()),
        published: "no accepted order lost, and the rest sold exactly".to_owned(),
        measured: format!(
            "{lost} of {accepted} accepted orders lost, {oversold} oversold, {unsold} unsold, {over_limit} over the limit"
        ),
        holds: Some(lost + oversold + unsold + over_limit == 0),
    }
}

#[cfg(test)]
pub(super) mod tests {
    use std::time::Duration;

    use super::*;
    use crate::host::usage::{ProcessUsage, Usage};
    use crate::load::record::{Outcome, Record};
    use crate::load::schedule::Schedule;
    use crate::load::trial::Flag;
    use crate::report::{page, sample, summary};

    /// Of 3 s: half of its requests find the product sold out.
    fn trial(repeat: usize, won: u64, cpu: &[(&str, f64)]) -> Trial {
        let mut record = Record::default();
        record.outcomes.add(Outcome::Won, won);
        record.outcomes.add(Outcome::SoldOut, won);
        record.elapsed = Duration::from_secs(3);
        let processes = cpu.iter().map(|(name, share)| ProcessUsage::of(name, *share)).collect();
        let usage = Usage { seconds: 3.0, processors: 2, processes, ..Usage::default() };
        Trial::new(repeat, &Schedule::closed(record.elapsed), &record, Some(usage))
    }

    pub(in crate::peers) fn played(kind: Kind, repeat: usize, lost: u64) -> Played {
        let good = Books { units: 5, orders: 5, accepted: 5, ..Books::default() };
        let cpu = [("server", 0.5), ("redis", 0.25), ("load", 0.4)];
        let won = if kind == Kind::Doorbuster { 9000 } else { 6000 };
        let [sale, peak] = [(); 2].map(|()| trial(repeat, won, &cpu));
        Played { kind, sale, sold: good, peak, peak_sold: good, killed: Books { lost, ..good } }
    }

    fn options() -> PeersOptions {
        PeersOptions::new("doorbuster".into())
    }

    fn reported(compared: &Compared) -> Report {
        let (scenario, failures) = compared.report(&options());
        let environment =
            crate::host::environment::Environment { co_located: true, ..sample::report().environment };
        let (scenarios, thresholds) = (vec![scenario], Vec::new());
        Report { scenarios, failures, thresholds, environment, repeats: 1, ..sample::report() }
    }

    /// The last one is not installed.
    fn compared(ours: u64, theirs: u64) -> Compared {
        Compared {
            played: vec![played(Kind::Doorbuster, 1, ours), played(Kind::RedisEverySecond, 1, theirs)],
            missing: vec![(Kind::RedisAlways, crate::peers::to_install("x"))],
        }
    }

    fn values<'a>(case: &'a Case, metric: &str) -> &'a [f64] {
        &case.metrics.iter().find(|of| of.name == metric).unwrap().values
    }

    #[test]
    fn every_process_but_the_load_counts() {
        let cost = |trial: Trial| processors("CPU per order", &[trial], |of| of.won).values;
        let cpu = [("server", 0.5), ("redis", 0.25), ("load", 0.9)];
        assert_eq!(cost(trial(1, 1000, &cpu)), [750.0]);
        assert!(cost(trial(1, 1000, &[("load", 0.9)])).is_empty());
        let mut spoiled = played(Kind::Doorbuster, 1, 0);
        spoiled.sale.flags.push(Flag::Unsent { requests: 1 });
        let [peak, sale] =
            [options().peak_of(spoiled.kind, &[&spoiled]), options().sale_of(spoiled.kind, &[&spoiled])];
        assert!(
            ["p50", "p99", "CPU per order", "CPU per request"].iter().all(|of| values(&sale, of).is_empty())
        );
        assert_eq!((values(&peak, "throughput"), sale.trials.len()), (&[3000.0][..], 1));
    }

    #[test]
    fn a_sale_is_exact_if_it_sold_out() {
        let said = |change: fn(&mut Played)| {
            let mut of = played(Kind::RedisAlways, 1, 0);
            change(&mut of);
            let shape = sells_exactly(of.kind, &[&of]);
            (shape.holds, shape.measured)
        };
        let wrong = (Some(false), "NO".to_owned());
        assert_eq!(said(|_| ()), (Some(true), "yes".to_owned()));
        assert_eq!(said(|of| of.sold.orders = 6), wrong);
        assert_eq!(said(|of| (of.sold.orders, of.sold.accepted) = (4, 4)), wrong);
        assert_eq!(said(|of| of.peak_sold.lost = 1), wrong);
        let short = said(|of| (of.sold.units, of.sale.outcomes.sold_out) = (6, 0));
        assert!(short.0.is_none() && short.1.starts_with("nothing wrong, but"), "{short:?}");
    }

    #[test]
    fn a_loss_of_one_round_vanishes_in_no_median() {
        let mut rounds: Vec<Played> = (1..=3).map(|round| played(Kind::MariaDb, round, 0)).collect();
        (rounds[1].killed.lost, rounds[2].sold.over_limit) = (3, 1);
        let sale = options().sale_of(Kind::MariaDb, &rounds.iter().collect::<Vec<_>>());
        let of_kill = |of: &str| values(&sale, &format!("{of}, all processes killed"))[0];
        assert_eq!(
            (of_kill("accepted"), of_kill("lost"), values(&sale, "sold wrongly")),
            (15.0, 3.0, &[1.0][..])
        );
        assert_eq!(sale.notes.len(), 3);
        assert!(sale.notes[1].starts_with("Round 2: 5 units; 5 orders") && sale.notes[1].contains("3 lost"));
        let text = summary::of_report(&reported(&Compared { played: rounds, missing: Vec::new() }));
        for wanted in [
            "peers: shape not found: Go + MariaDB, one transaction sells exactly",
            "peers: shape not found: Go + MariaDB, one transaction keeps what it accepted, after kill -9; measured: 3 of 15",
        ] {
            assert!(text.contains(wanted), "{wanted}\n{text}");
        }
    }

    #[test]
    fn it_is_a_report_as_all_others() {
        let report = reported(&compared(0, 3));
        let sentence = "valid, co-located, 1 repeat: peers, Doorbuster, embedded, 100 users: 3,000 orders/s; not finished: \
                        nginx + Lua + Redis, appendfsync always";
        assert_eq!(verdict::of(&report).sentence, sentence);
        let mut quicker = compared(0, 3);
        quicker.played[1].peak = trial(1, 30_000, &[("redis", 0.5)]);
        assert_eq!(verdict::of(&reported(&quicker)).sentence, sentence, "another's figure is not quoted");
        let text = summary::of_report(&report);
        assert!(text.contains("as root: apt-get install --no-install-recommends x"), "{text}");
        assert!(page::html(&report).contains("id=\"tier-peers\""), "a tier of its own");
        let audit = report.scenarios[0].audit.as_ref().unwrap();
        assert_eq!(
            (audit.initial_units, audit.orders, audit.broken()),
            (15, 15, None),
            "of this program alone"
        );
        let planned = options().plan();
        for case in &report.scenarios[0].cases {
            let names: Vec<&str> = case.metrics.iter().map(|of| of.name.as_str()).collect();
            assert!(
                planned.iter().any(|(name, metrics)| *name == case.name && *metrics == names),
                "{}",
                case.name
            );
        }
    }

    #[test]
    fn a_chart_is_drawn_of_what_may_be_quoted() {
        let drawn = chart(&reported(&compared(0, 0))).unwrap();
        assert!(
            drawn.contains("<title>Orders per second, at the most: Doorbuster, embedded 3,000/s; nginx"),
            "{drawn}"
        );
        assert!(drawn.contains("of 1 rounds; 100 users, on the same machine"), "{drawn}");
        let refused = |change: fn(&mut Played), why: &str| {
            let mut compared = compared(0, 0);
            change(&mut compared.played[0]);
            let report = reported(&compared);
            let said = verdict::of(&report).sentence;
            assert!(said.starts_with("INVALID in 1 of 4 cases") && said.contains(why), "{said}");
            assert_eq!(chart(&report), None, "{why}");
        };
        refused(
            |of| of.sale.flags.push(Flag::Disturbed { processors: 1.0, most: 0.5 }),
            "other work took 50%",
        );
        refused(|of| of.peak = trial(1, 9000, &[("load", 0.9)]), "the load generator was the limit");
        refused(|of| of.peak = trial(1, 4999, &[("server", 0.9)]), "too short a sample: 3 s, 9,998 requests");
    }
}
