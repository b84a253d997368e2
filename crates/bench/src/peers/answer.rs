//! What a comparison prints: one sentence, a table of medians with their ranges, and the same as JSON.

use serde_json::{Value, json};

use super::{Books, Compared, Kind, PeersOptions, Played};
use crate::load::Trial;
use crate::load::trial::Flag;
use crate::report::format::figure;
use crate::report::page::picture;
use crate::report::statistics::median;

/// The generator's name among the processes of a trial.
const LOAD: &str = "load";

/// Whether the figures may be quoted, in the first sentence; every peer is sound or not whatever else ran.
pub fn is_valid(compared: &Compared) -> bool {
    trials(compared).all(|trial| !trial.flags.iter().any(Flag::forbids_quoting))
}

/// Doorbuster's own books; what the others sell is their affair.
pub fn holds(compared: &Compared) -> bool {
    let ours = compared.played.iter().filter(|played| played.kind == Kind::Doorbuster);
    ours.flat_map(books).all(Books::sound)
}

pub fn sentence(options: &PeersOptions, compared: &Compared) -> String {
    let beside: Vec<String> = measured(compared)
        .map(|kind| format!("{} {}", kind.name(), cell(&of(compared, kind, peak), "1/s")))
        .collect();
    let rounds = options.rounds;
    let peaks = format!("Orders per second at the most, medians of {rounds}: {}.", beside.join("; "));
    if !holds(compared) {
        return format!("Doorbuster's own books are wrong. {peaks}");
    }
    if is_valid(compared) {
        return peaks;
    }
    format!("INVALID: the load was late or the machine had other work; don't quote it. {peaks}")
}

pub fn text(options: &PeersOptions, compared: &Compared) -> String {
    let mut lines = vec![sentence(options, compared)];
    for kind in measured(compared) {
        let killed: Vec<Books> = rounds(compared, kind).map(|played| played.killed).collect();
        let sum = |of: fn(Books) -> u64| killed.iter().copied().map(of).sum::<u64>();
        lines.push(format!("\n{}", kind.name()));
        let rows = [
            (
                "times",
                format!(
                    "p50 {}, p99 {} at {} requests/s",
                    cell(&of(compared, kind, |played| response_us(played, 0.5)), "us"),
                    cell(&of(compared, kind, |played| response_us(played, 0.99)), "us"),
                    options.rate
                ),
            ),
            ("peak", format!("{} with {} users", cell(&of(compared, kind, peak), "1/s"), options.users)),
            (
                "processors",
                format!(
                    "{} an order and {} a request at that rate, {} an order at the peak",
                    cell(&of(compared, kind, |played| cpu_us(&played.sale, played.sale.outcomes.won)), "us"),
                    cell(
                        &of(compared, kind, |played| cpu_us(&played.sale, played.sale.outcomes.total())),
                        "us"
                    ),
                    cell(&of(compared, kind, |played| cpu_us(&played.peak, played.peak.outcomes.won)), "us"),
                ),
            ),
            ("sold exactly", exactly(rounds(compared, kind)).to_owned()),
            (
                "kill -9",
                format!(
                    "{} of {} accepted orders lost, {} oversold, {} unsold, {} buyers over the limit",
                    sum(|books| books.lost),
                    sum(|books| books.accepted),
                    sum(Books::oversold),
                    sum(Books::unsold),
                    sum(|books| books.over_limit),
                ),
            ),
        ];
        lines.extend(rows.map(|(name, value)| format!("  {name:<13}{value}")));
    }
    for (kind, why) in &compared.missing {
        lines.push(format!("\n{}: {why}", kind.name()));
    }
    lines.join("\n") + "\n"
}

/// The most orders per second of each, as an SVG; none if nothing may be quoted.
pub fn chart(options: &PeersOptions, compared: &Compared) -> Option<String> {
    if !is_valid(compared) {
        return None;
    }
    let peaks: Vec<(&str, Vec<f64>)> =
        measured(compared).map(|kind| (kind.name(), of(compared, kind, peak))).collect();
    let note = format!(
        "Medians and ranges of {} rounds; {} users, on the same machine",
        options.rounds, options.users
    );
    picture("Orders per second, at the most", "1/s", &peaks, &note)
}

/// Times in microseconds, rates per second; a row for each peer and round.
pub fn json(options: &PeersOptions, compared: &Compared) -> Value {
    let round = |played: &Played| {
        json!({
            "peer": played.kind.name(),
            "p50_us": response_us(played, 0.5),
            "p99_us": response_us(played, 0.99),
            "peak_orders_per_s": peak(played),
            "cpu_us_per_order": cpu_us(&played.sale, played.sale.outcomes.won),
            "cpu_us_per_request": cpu_us(&played.sale, played.sale.outcomes.total()),
            "cpu_us_per_order_at_peak": cpu_us(&played.peak, played.peak.outcomes.won),
            "sale": played.sold,
            "peak": played.peak_sold,
            "kill": played.killed,
            "flags": [&played.sale.flags, &played.peak.flags],
        })
    };
    json!({
        "verdict": sentence(options, compared),
        "valid": is_valid(compared),
        "rounds": options.rounds,
        "rate_per_s": options.rate,
        "load_s": options.load.as_secs_f64(),
        "users": options.users,
        "played": compared.played.iter().map(round).collect::<Vec<_>>(),
        "missing": compared.missing.iter().map(|(kind, _)| kind.name()).collect::<Vec<_>>(),
    })
}

/// Of the two sales of each round that nothing was killed in.
fn exactly<'a>(mut rounds: impl Iterator<Item = &'a Played> + Clone) -> &'static str {
    let all_sold = |played: &Played| played.sale.outcomes.sold_out > 0;
    let sound = |played: &Played| {
        played.peak_sold.sound() && played.sold.sound() && (played.sold.exact() || !all_sold(played))
    };
    match (rounds.clone().all(sound), rounds.all(all_sold)) {
        (false, _) => "NO",
        (true, false) => "nothing wrong, but it did not carry enough requests to sell out",
        (true, true) => "yes",
    }
}

fn measured(compared: &Compared) -> impl Iterator<Item = Kind> {
    Kind::ALL.into_iter().filter(|kind| rounds(compared, *kind).next().is_some())
}

fn rounds(compared: &Compared, kind: Kind) -> impl Iterator<Item = &Played> + Clone {
    compared.played.iter().filter(move |played| played.kind == kind)
}

fn trials(compared: &Compared) -> impl Iterator<Item = &Trial> {
    compared.played.iter().flat_map(|played| [&played.sale, &played.peak])
}

fn books(played: &Played) -> [Books; 3] {
    [played.sold, played.peak_sold, played.killed]
}

fn of(compared: &Compared, kind: Kind, figure: impl Fn(&Played) -> Option<f64>) -> Vec<f64> {
    rounds(compared, kind).filter_map(figure).collect()
}

fn response_us(played: &Played, part: f64) -> Option<f64> {
    played.sale.is_valid().then(|| played.sale.response.at(part) as f64)
}

fn peak(played: &Played) -> Option<f64> {
    played.peak.is_valid().then(|| played.peak.good_per_s())
}

/// Of all processes of the peer; none of a trial that says nothing, or where the time was too short to be counted.
fn cpu_us(trial: &Trial, answers: u64) -> Option<f64> {
    if !trial.is_valid() {
        return None;
    }
    let processes = trial.usage.as_ref()?.processes.iter().filter(|of| of.name != LOAD);
    let seconds: f64 = processes.map(|of| of.cpu_seconds).sum();
    (answers > 0 && seconds > 0.0).then(|| seconds * 1e6 / answers as f64)
}

/// The median, and where the values differ their range.
fn cell(values: &[f64], unit: &str) -> String {
    let Some(middle) = median(values) else { return "not measured".to_owned() };
    let (least, most) = values
        .iter()
        .fold((f64::MAX, f64::MIN), |(least, most), value| (least.min(*value), most.max(*value)));
    if values.len() < 2 {
        return figure(middle, unit);
    }
    format!("{} ({} to {})", figure(middle, unit), figure(least, unit), figure(most, unit))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::usage::{ProcessUsage, Usage};
    use crate::load::record::{Outcome, Record};
    use crate::load::schedule::Schedule;
    use crate::target::installation::Site;

    fn trial(cpu: &[(&str, f64)]) -> Trial {
        let mut record = Record::default();
        record.outcomes.add(Outcome::Won, 1000);
        record.outcomes.add(Outcome::SoldOut, 1000);
        record.elapsed = std::time::Duration::from_secs(1);
        let processes = cpu.iter().map(|(name, share)| ProcessUsage::of(name, *share)).collect();
        let usage = Usage { seconds: 1.0, processors: 2, processes, ..Usage::default() };
        Trial::new(1, &Schedule::closed(record.elapsed), &record, Some(usage))
    }

    fn played(kind: Kind, lost: u64) -> Played {
        let good = Books { units: 5, orders: 5, accepted: 5, ..Books::default() };
        let cpu = [("server", 0.5), ("redis", 0.25), (LOAD, 0.9)];
        let killed = Books { lost, ..good };
        Played { kind, sale: trial(&cpu), sold: good, peak: trial(&cpu), peak_sold: good, killed }
    }

    #[test]
    fn every_process_but_the_load_counts() {
        assert_eq!(cpu_us(&trial(&[("server", 0.5), ("redis", 0.25), (LOAD, 0.9)]), 1000), Some(750.0));
        assert_eq!(cpu_us(&trial(&[(LOAD, 0.9)]), 1000), None);
        let mut spoiled = played(Kind::Doorbuster, 0);
        spoiled.sale.flags.push(Flag::Unsent { requests: 1 });
        assert_eq!((response_us(&spoiled, 0.99), cpu_us(&spoiled.sale, 1000)), (None, None));
        assert!(peak(&spoiled).is_some());
        assert_eq!(cell(&[3.0, 1.0, 2.0], "us"), "2 us (1 us to 3 us)");
    }

    #[test]
    fn a_sale_is_exact_if_it_sold_out() {
        let said = |change: fn(&mut Played)| {
            let mut of = played(Kind::RedisAlways, 0);
            change(&mut of);
            exactly([&of].into_iter())
        };
        assert_eq!(said(|_| ()), "yes");
        assert_eq!(said(|of| of.sold.orders = 6), "NO");
        assert_eq!(said(|of| (of.sold.orders, of.sold.accepted) = (4, 4)), "NO");
        assert_eq!(said(|of| of.peak_sold.lost = 1), "NO");
        let short = said(|of| (of.sold.units, of.sale.outcomes.sold_out) = (6, 0));
        assert!(short.starts_with("nothing wrong, but"), "{short}");
    }

    #[test]
    fn a_loss_of_our_own_is_the_first_thing_said() {
        let site = Site::new("doorbuster".into());
        let options = PeersOptions {
            rounds: 1,
            rate: 10,
            load: std::time::Duration::from_secs(1),
            users: 1,
            seed: 1,
            site,
        };
        let compared = |ours, theirs| Compared {
            played: vec![played(Kind::Doorbuster, ours), played(Kind::RedisEverySecond, theirs)],
            missing: vec![(Kind::RedisAlways, super::super::to_install("x"))],
        };
        assert!(holds(&compared(0, 3)) && !holds(&compared(1, 0)));
        assert!(sentence(&options, &compared(1, 0)).starts_with("Doorbuster's own books are wrong."));
        let said = text(&options, &compared(0, 3));
        assert!(
            said.contains("3 of 5 accepted orders lost")
                && said.contains("as root: apt-get install --no-install-recommends x"),
            "{said}"
        );
        let drawn = chart(&options, &compared(0, 0)).unwrap();
        assert!(
            drawn.contains("<title>Orders per second, at the most: Doorbuster, embedded 1,000/s; nginx"),
            "{drawn}"
        );
        let mut disturbed = compared(0, 0);
        disturbed.played[0].sale.flags.push(Flag::Disturbed { processors: 1.0, most: 0.5 });
        assert!(!is_valid(&disturbed) && text(&options, &disturbed).starts_with("INVALID"));
        assert_eq!(chart(&options, &disturbed), None);
    }
}
