//! The result: medians beside every point, goals, the environment; printed as a table and written as JSON.

use std::fmt;

use serde::Serialize;

use super::EmbeddedOptions;
use super::measure::Sample;
use super::scenario::{Quantity, SCENARIOS};
use super::shop::Footprint;
use crate::audit::Answered;
use crate::environment::Environment;
use crate::goal::{Goal, median, verdict};

/// Fewer rounds than this show that the benchmark works, no more.
const ROUNDS_MIN: usize = 5;

/// One scenario in one round, against the server and against nginx.
#[derive(Debug, Clone, Serialize)]
pub struct Measurement {
    pub round: usize,
    /// Its place in the table of scenarios, and so in a round.
    pub scenario: usize,
    pub server: Sample,
    pub reference: Sample,
}

/// One quantity of one scenario over all rounds.
#[derive(Debug, Clone, Serialize)]
pub struct Row {
    pub name: &'static str,
    pub connections: usize,
    pub quantity: Quantity,
    /// Medians of the figures that the quantity is made of: microseconds, answers per second, or milliseconds.
    pub server: f64,
    pub reference: f64,
    /// The median of `points`; it is this that is judged.
    pub value: f64,
    /// One for each round, in order.
    pub points: Vec<f64>,
    pub goal: Goal,
    /// `None` without a goal.
    pub met: Option<bool>,
}

#[derive(Debug, Clone, Serialize)]
pub struct Report {
    pub environment: Environment,
    pub rounds: usize,
    /// Of each measurement.
    pub seconds: f64,
    pub rows: Vec<Row>,
    pub footprint: Footprint,
    /// Orders accepted, and requests without an answer, on the demo's and on the own server; both audited.
    pub answered: [Answered; 2],
    pub measurements: Vec<Measurement>,
}

impl Report {
    pub(super) fn new(
        options: &EmbeddedOptions,
        environment: Environment,
        footprint: Footprint,
        answered: [Answered; 2],
        measurements: Vec<Measurement>,
    ) -> Self {
        let rows = rows(&measurements);
        let (rounds, seconds) = (options.rounds, options.window.as_secs_f64());
        Self { environment, rounds, seconds, rows, footprint, answered, measurements }
    }

    /// Rows whose goal was missed.
    pub fn missed(&self) -> usize {
        self.rows.iter().filter(|row| row.met == Some(false)).count()
    }

    /// # Panics
    /// Never: no type in it can fail to be written as JSON.
    pub fn to_json(&self) -> String {
        serde_json::to_string_pretty(self).expect("a report has string keys only")
    }
}

fn rows(measurements: &[Measurement]) -> Vec<Row> {
    let mut rows = Vec::new();
    for (index, scenario) in SCENARIOS.iter().enumerate() {
        let rounds: Vec<&Measurement> = measurements.iter().filter(|of| of.scenario == index).collect();
        if rounds.is_empty() {
            continue;
        }
        for (quantity, goal) in scenario.goals {
            let figures: Vec<[f64; 2]> = rounds
                .iter()
                .map(|round| [&round.server, &round.reference].map(|sample| figure(*quantity, sample)))
                .collect();
            let points: Vec<f64> =
                figures.iter().map(|[server, nginx]| point(*quantity, *server, *nginx)).collect();
            let value = median(points.iter().copied());
            rows.push(Row {
                name: scenario.name,
                connections: scenario.connections,
                quantity: *quantity,
                server: median(figures.iter().map(|[server, _]| *server)),
                reference: median(figures.iter().map(|[_, nginx]| *nginx)),
                value,
                points,
                goal: *goal,
                met: goal.met(value),
            });
        }
    }
    rows
}

fn figure(quantity: Quantity, sample: &Sample) -> f64 {
    let ms = |us: u64| us as f64 / 1000.0;
    match quantity {
        Quantity::CpuRatio => sample.cpu_us,
        Quantity::RateRatio => sample.answers_per_s,
        Quantity::P50Ms => ms(sample.response_us.p50),
        Quantity::P99Ms => ms(sample.response_us.p99),
        Quantity::P999Ms => ms(sample.response_us.p999),
    }
}

/// Ratios are taken within a round, where both sides had the same machine.
fn point(quantity: Quantity, server: f64, reference: f64) -> f64 {
    match quantity {
        Quantity::CpuRatio | Quantity::RateRatio => server / reference,
        Quantity::P50Ms | Quantity::P99Ms | Quantity::P999Ms => server,
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.write_environment(f)?;
        writeln!(
            f,
            "{:<28} {:>5}  {:<9} {:>10} {:>10} {:>7}  {:<7} {:<6}  points",
            "scenario", "conns", "quantity", "server", "nginx", "value", "goal", ""
        )?;
        for row in &self.rows {
            writeln!(f, "{row}")?;
        }
        self.write_footprint(f)?;
        let [demo, own] = self.answered;
        writeln!(
            f,
            "Audit: clean. {} orders on the published route and {} on the own route were accepted: the ledgers hold \
             every one of them, and none beside but at most the {} whose answers were lost.",
            demo.accepted,
            own.accepted,
            demo.unknown + own.unknown
        )?;
        let judged = self.rows.iter().filter(|row| row.met.is_some()).count();
        writeln!(f, "Goals: {} of {judged} met.", judged - self.missed())?;
        if self.rounds < ROUNDS_MIN {
            writeln!(
                f,
                "Fewer than {ROUNDS_MIN} rounds: this shows that the benchmark works, and is no result."
            )?;
        }
        Ok(())
    }
}

impl Report {
    fn write_environment(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Environment {
            processor, processors, memory_mib, kernel, nginx, file_system, load_before, ..
        } = &self.environment;
        writeln!(
            f,
            "{processors} x {processor}, {memory_mib} MiB, Linux {kernel}, {nginx}, data on {file_system}"
        )?;
        let generator = |pick: fn(&Measurement) -> &Sample| {
            median(self.measurements.iter().map(|measurement| pick(measurement).generator_cpu_us))
        };
        writeln!(
            f,
            "CO-LOCATED: generator (1 thread, {:.1} us of CPU per answer of the server, {:.1} us of nginx), server \
             and nginx share these processors; load average before: {load_before}",
            generator(|measurement| &measurement.server),
            generator(|measurement| &measurement.reference)
        )?;
        writeln!(
            f,
            "{} rounds of {} s for each measurement, server and nginx in turn, keep-alive; medians, then each round. \
             CPU in us per answer, rates per second, times in ms from the planned send.\n",
            self.rounds, self.seconds
        )
    }

    fn write_footprint(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Footprint { orders, orders_per_s, open_seconds, reopened_memory_mib, .. } = self.footprint;
        let Footprint { memory_bytes_per_order, written_bytes_per_order, ledger_bytes_per_order, .. } =
            self.footprint;
        writeln!(
            f,
            "\n{orders} orders placed at {orders_per_s:.0}/s through the own route: memory {:.0} MiB per million, \
             written to disk {written_bytes_per_order:.0} bytes per order, ledger {ledger_bytes_per_order:.0} bytes \
             per order; opened again in {open_seconds:.2} s ({:.2} s per million), {reopened_memory_mib:.0} MiB \
             resident then.",
            memory_bytes_per_order * 1e6 / 1048576.0,
            open_seconds * 1e6 / orders as f64,
        )
    }
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let quantity = match self.quantity {
            Quantity::CpuRatio => "CPU ratio",
            Quantity::RateRatio => "rate",
            Quantity::P50Ms => "p50",
            Quantity::P99Ms => "p99",
            Quantity::P999Ms => "p99.9",
        };
        let goal = self.goal.to_string();
        let verdict = verdict(self.met);
        let figures = [self.server, self.reference]
            .map(|figure| if figure < 1000.0 { format!("{figure:.2}") } else { format!("{figure:.0}") });
        let points: Vec<String> = self.points.iter().map(|point| format!("{point:.2}")).collect();
        write!(
            f,
            "{:<28} {:>5}  {quantity:<9} {:>10} {:>10} {:>7.2}  {goal:<7} {verdict:<6}  {}",
            self.name,
            self.connections,
            figures[0],
            figures[1],
            self.value,
            points.join(" ")
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::record::{LatencyUs, Outcomes};

    fn sample(cpu_us: f64, answers_per_s: f64, p99_us: u64) -> Sample {
        let response_us = LatencyUs { p50: 100, p95: p99_us, p99: p99_us, p999: p99_us, max: p99_us };
        Sample {
            seconds: 5.0,
            answers_per_s,
            cpu_us,
            generator_cpu_us: 6.0,
            response_us,
            service_us: response_us,
            send_lag_us: LatencyUs::default(),
            outcomes: Outcomes::default(),
            reconnects: 0,
            unsent: 0,
        }
    }

    fn report() -> Report {
        // In the second round the whole machine was slow: the ratio does not show it.
        let measurements = [(1.0, 9_000), (3.0, 11_000), (1.0, 12_000)]
            .into_iter()
            .enumerate()
            .flat_map(|(round, (slow, p99_us))| {
                let reference = sample(5.0 * slow, 100_000.0 / slow, 500);
                [(0, sample(9.0 * slow, 40_000.0 / slow, 3_000)), (1, sample(9.0, 20_000.0, p99_us))].map(
                    |(scenario, server)| Measurement {
                        round,
                        scenario,
                        server,
                        reference: reference.clone(),
                    },
                )
            })
            .collect();
        let footprint = Footprint {
            orders: 1_000_000,
            orders_per_s: 30_000.0,
            memory_bytes_per_order: 104.8576,
            written_bytes_per_order: 700.0,
            ledger_bytes_per_order: 200.0,
            open_seconds: 1.5,
            reopened_memory_mib: 150.0,
        };
        let options = EmbeddedOptions { rounds: 3, ..EmbeddedOptions::new("doorbuster".into()) };
        let answered = [Answered { accepted: 70, unknown: 1 }, Answered { accepted: 1_000_000, unknown: 2 }];
        let environment = Environment::read(std::path::Path::new("/"));
        Report::new(&options, environment, footprint, answered, measurements)
    }

    #[test]
    fn medians_are_of_ratios_within_a_round_and_are_judged() {
        let report = report();
        let rows: Vec<_> = report.rows.iter().map(|row| (row.quantity, row.value, row.met)).collect();
        assert_eq!(
            rows,
            [
                (Quantity::CpuRatio, 1.8, Some(true)),
                (Quantity::RateRatio, 0.4, Some(false)),
                (Quantity::P50Ms, 0.1, None),
                (Quantity::P99Ms, 11.0, Some(false)),
                (Quantity::P999Ms, 11.0, None),
            ]
        );
        assert_eq!(report.missed(), 2);
        assert_eq!(report.rows[3].points, [9.0, 11.0, 12.0]);
    }

    #[test]
    fn the_table_names_goals_verdicts_and_points() {
        let text = report().to_string();
        for part in
            ["CO-LOCATED", "<= 2", "met", "MISSED", "9.00 11.00 12.00", "100 MiB per million", "no result"]
        {
            assert!(text.contains(part), "{part} is not in\n{text}");
        }
        assert!(text.contains("Goals: 1 of 3 met."), "{text}");
    }

    #[test]
    fn the_json_holds_every_point() {
        let json: serde_json::Value = serde_json::from_str(&report().to_json()).unwrap();
        assert_eq!(json["measurements"].as_array().map(Vec::len), Some(6));
        assert_eq!(json["rows"][0]["goal"], serde_json::json!({"at_most": 2.0}));
        assert_eq!(json["environment"]["co_located"], serde_json::json!(true));
    }
}
