//! The result: medians beside every point, goals, what each rate cost and what limits it; as a table, as JSON, and as the
//! Markdown of the documentation, which is made from the JSON of a run and from nothing else.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::edge::EdgeSample;
use super::gate::GateSample;
use super::orders::OrdersSample;
use super::submit::{SoldOutSample, SubmitSample};
use crate::audit::Answered;
use crate::engines::Versions;
use crate::environment::Environment;
use crate::goal::{Goal, verdict};
use crate::limit::OTHERS_MAX;

/// Fewer rounds than this show that the benchmark works, no more.
const ROUNDS_MIN: usize = 5;

/// Every measurement of all rounds, in order; those of one name belong together.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Measurements {
    pub orders: Vec<Named<OrdersSample>>,
    pub gate: Vec<Named<GateSample>>,
    pub submit: Vec<Named<SubmitSample>>,
    pub sold_out: Option<SoldOutSample>,
    pub edge: Vec<Named<EdgeSample>>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Named<T> {
    pub round: usize,
    pub name: String,
    pub sample: T,
}

/// One quantity of one scenario over all rounds.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Row {
    pub name: String,
    pub quantity: String,
    /// The median of `points`; it is this that is judged.
    pub value: f64,
    /// One for each round, in order.
    pub points: Vec<f64>,
    pub goal: Goal,
    /// `None` without a goal.
    pub met: Option<bool>,
}

/// Who used the processors in the median round of a scenario, and what limits it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Cost {
    pub name: String,
    pub per: String,
    pub processes: Vec<ProcessCost>,
    /// Processors that were used by whatever is not listed.
    pub others: f64,
    pub limit: String,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ProcessCost {
    pub name: String,
    pub cpu_us: f64,
    /// Processors that it used on average.
    pub processors: f64,
    pub busiest_thread: String,
    pub busiest_thread_share: f64,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ClusterReport {
    pub environment: Environment,
    pub engines: Versions,
    pub rounds: usize,
    /// Of each measurement.
    pub seconds: f64,
    pub rows: Vec<Row>,
    pub costs: Vec<Cost>,
    /// Orders accepted, and requests without an answer: of the cluster's ledgers and of the embedded one; all audited.
    #[serde(alias = "told")] // As it was called in reports of before.
    pub answered: Vec<Answered>,
    pub measurements: Measurements,
}

impl ClusterReport {
    /// Rows whose goal was missed.
    pub fn missed(&self) -> usize {
        self.rows.iter().filter(|row| row.met == Some(false)).count()
    }

    /// # Panics
    /// Never: no type in it can fail to be written as JSON.
    pub fn to_json(&self) -> String {
        serde_json::to_string_pretty(self).expect("a report has string keys only")
    }

    /// # Errors
    /// If the text is no report of this version.
    pub fn from_json(text: &str) -> serde_json::Result<Self> {
        serde_json::from_str(text)
    }

    /// For the documentation: tables of the figures, of what they cost, and a line on each limit.
    pub fn to_markdown(&self) -> String {
        let mut text = format!("{}\n\n", self.setting());
        text.push_str(
            "| scenario | quantity | median | goal | | rounds |\n| --- | --- | --- | --- | --- | --- |\n",
        );
        for row in &self.rows {
            text.push_str(&format!(
                "| {} | {} | {} | {} | {} | {} |\n",
                row.name,
                row.quantity,
                figure(row.value),
                row.goal,
                verdict(row.met),
                row.points.iter().map(|point| figure(*point)).collect::<Vec<_>>().join(", ")
            ));
        }
        text.push_str("\n| scenario | process | CPU, us | processors | its busiest thread |\n");
        text.push_str("| --- | --- | --- | --- | --- |\n");
        for cost in &self.costs {
            for of in &cost.processes {
                text.push_str(&format!(
                    "| {} | {} | {:.1} per {} | {:.2} | {} {:.0}% |\n",
                    cost.name,
                    of.name,
                    of.cpu_us,
                    cost.per,
                    of.processors,
                    of.busiest_thread,
                    of.busiest_thread_share * 100.0
                ));
            }
        }
        text.push('\n');
        for cost in &self.costs {
            text.push_str(&format!("- **{}**: {}\n", cost.name, cost.limit));
        }
        text.push_str(&format!("\n{}\n", self.conclusion()));
        text
    }

    fn setting(&self) -> String {
        let Environment {
            processor, processors, memory_mib, kernel, nginx, file_system, load_before, ..
        } = &self.environment;
        let Versions { redis, mariadb, rocketmq } = &self.engines;
        format!(
            "{processors} x {processor}, {memory_mib} MiB, Linux {kernel}, data on {file_system}; Redis {redis} \
             (AOF everysec, noeviction), MariaDB {mariadb} (innodb_flush_log_at_trx_commit 1, sync_binlog 1), RocketMQ \
             {rocketmq}, {nginx}. CO-LOCATED: the load and all of them share these processors; load average before: \
             {load_before}. {} rounds of {} s for each measurement.",
            self.rounds, self.seconds
        )
    }

    fn conclusion(&self) -> String {
        let accepted: u64 = self.answered.iter().map(|answered| answered.accepted).sum();
        let unknown: u64 = self.answered.iter().map(|answered| answered.unknown).sum();
        let judged = self.rows.iter().filter(|row| row.met.is_some()).count();
        let mut text = format!(
            "Audit: clean. {accepted} orders were accepted: the ledgers hold every one of them, and none beside but at \
             most the {unknown} whose answers were lost. Goals: {} of {judged} met.",
            judged - self.missed()
        );
        if let Some(sold_out) = &self.measurements.sold_out {
            text.push_str(&format!(
                " {} requests for {} goods with 10 units each ended in exactly {} orders, {} to {} of each good.",
                sold_out.requests, sold_out.goods, sold_out.orders, sold_out.units_min, sold_out.units_max
            ));
        }
        let disturbed = self.costs.iter().filter(|cost| cost.others > OTHERS_MAX).count();
        if disturbed > 0 {
            text.push_str(&format!(
                " DISTURBED: in {disturbed} of {} scenarios other work used more than {OTHERS_MAX} of a processor.",
                self.costs.len()
            ));
        }
        if self.rounds < ROUNDS_MIN {
            text.push_str(&format!(
                " Fewer than {ROUNDS_MIN} rounds: this shows that the benchmark works, and is no result."
            ));
        }
        text
    }
}

impl fmt::Display for ClusterReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}\n", self.setting())?;
        writeln!(
            f,
            "{:<42} {:<26} {:>10}  {:<9} {:<6}  points",
            "scenario", "quantity", "median", "goal", ""
        )?;
        for row in &self.rows {
            writeln!(f, "{row}")?;
        }
        for cost in &self.costs {
            writeln!(f, "\n{}, us of CPU per {} (processors used; busiest thread):", cost.name, cost.per)?;
            for of in &cost.processes {
                let (thread, share) = (&of.busiest_thread, of.busiest_thread_share * 100.0);
                writeln!(
                    f,
                    "  {:<18} {:>9.1}  ({:.2}; {thread} {share:.0}%)",
                    of.name, of.cpu_us, of.processors
                )?;
            }
            writeln!(f, "  {}", cost.limit)?;
        }
        writeln!(f, "\n{}", self.conclusion())
    }
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let points: Vec<String> = self.points.iter().map(|point| figure(*point)).collect();
        write!(
            f,
            "{:<42} {:<26} {:>10}  {:<9} {:<6}  {}",
            self.name,
            self.quantity,
            figure(self.value),
            self.goal,
            verdict(self.met),
            points.join(" ")
        )
    }
}

/// Three significant digits or so, and no fractions of large numbers.
fn figure(value: f64) -> String {
    match value.abs() {
        whole if whole == 0.0 || whole >= 100.0 => format!("{value:.0}"),
        large if large >= 10.0 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report() -> ClusterReport {
        let row = |quantity: &str, value: f64, goal: Goal| Row {
            name: "orders, async broker".to_owned(),
            quantity: quantity.to_owned(),
            value,
            points: vec![value - 1.0, value, value + 1.0],
            goal,
            met: goal.met(value),
        };
        let redis = ProcessCost {
            name: "redis".to_owned(),
            cpu_us: 12.34,
            processors: 0.4,
            busiest_thread: "redis-server".to_owned(),
            busiest_thread_share: 0.39,
        };
        ClusterReport {
            environment: Environment::read(std::path::Path::new("/")),
            engines: Versions { redis: "7.0".into(), mariadb: "10.11".into(), rocketmq: "V5_5_0".into() },
            rounds: 3,
            seconds: 5.0,
            rows: vec![
                row("persisted/s", 5000.0, Goal::AtLeast(4055.0)),
                row("not accepted", 2.0, Goal::AtMost(0.0)),
                row("accepted/s", 6000.4, Goal::None),
            ],
            costs: vec![Cost {
                name: "orders, async broker".to_owned(),
                per: "order".to_owned(),
                processes: vec![redis],
                others: 0.5,
                limit: "A thread is used up.".to_owned(),
            }],
            answered: vec![Answered { accepted: 70, unknown: 1 }, Answered { accepted: 5, unknown: 0 }],
            measurements: Measurements::default(),
        }
    }

    #[test]
    fn the_table_names_goals_verdicts_costs_and_limits() {
        let text = report().to_string();
        for part in [
            "CO-LOCATED",
            ">= 4055",
            "met",
            "MISSED",
            "4999 5000 5001",
            "12.3  (0.40; redis-server 39%)",
            "no result",
        ] {
            assert!(text.contains(part), "{part} is not in\n{text}");
        }
        assert!(text.contains("Goals: 1 of 2 met.") && text.contains("A thread is used up."), "{text}");
        assert!(text.contains("DISTURBED: in 1 of 1 scenarios"), "{text}");
        assert!(text.contains("75 orders were accepted"), "{text}");
    }

    #[test]
    fn the_documentation_is_made_from_the_json_of_a_run() {
        let report = report();
        let again = ClusterReport::from_json(&report.to_json()).unwrap();
        assert_eq!(again.to_markdown(), report.to_markdown());
        let line = "| orders, async broker | persisted/s | 5000 | >= 4055 | met | 4999, 5000, 5001 |";
        assert!(again.to_markdown().contains(line), "{}", again.to_markdown());
        assert_eq!(again.missed(), 1);
    }
}
