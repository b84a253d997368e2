//! A server and nginx in turn: the same requests to both, on one machine, within one repeat.
//!
//! Ratios are taken within a repeat, where both had the same machine; which of them comes first changes from repeat to
//! repeat. Bounds on their medians are shapes of the report.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context, ensure};

use super::cases::Run;
use super::shapes::Judged;
use super::{ScenarioContext, limit};
use crate::drivers::http::{Http, Workload};
use crate::goal::{Goal, median};
use crate::load::record::{Outcome, Outcomes};
use crate::load::schedule::Schedule;
use crate::load::trial::Flag;
use crate::load::{Generator, Settings, Trial};
use crate::measure::{Surroundings, trial};
use crate::report::format::figure;
use crate::report::model::{Better, Case, Metric, ScenarioReport, Shape};
use crate::report::trials;

pub(super) const CPU_BESIDE_NGINX: &str = "CPU beside nginx";
pub(super) const THROUGHPUT_BESIDE_NGINX: &str = "throughput beside nginx";
const CPU: &str = "CPU per answer";
/// All figures of a comparison.
pub(super) const METRICS: &[&str] =
    &["throughput", "p50", "p99", "p99.9", CPU, CPU_BESIDE_NGINX, THROUGHPUT_BESIDE_NGINX];
/// Of the answers, at least this share must be the wanted outcome or an honest refusal for want of capacity: quick
/// failures would look like quick answers.
const SOUND_SHARE_MIN: f64 = 0.999;

#[derive(Debug, Clone, Copy)]
pub(super) struct Probe {
    pub(super) address: SocketAddr,
    pub(super) connections: usize,
    /// Connections are open and caches warm after this; its answers count for the audit only.
    pub(super) warm_up: Duration,
    pub(super) schedule: Schedule,
    pub(super) wanted: Outcome,
    pub(super) repeat: usize,
}

/// One trial after a warm-up. `settle` is handed the outcomes of both: an order is an order.
pub(super) fn sample<W: Workload>(
    probe: Probe,
    workload: &mut W,
    around: Surroundings<'_>,
    mut settle: impl FnMut(&Outcomes) -> anyhow::Result<()>,
) -> anyhow::Result<Trial> {
    let Probe { address, connections, warm_up, schedule, wanted, repeat } = probe;
    let mut http = Http { workload };
    let mut generator = Generator::connect(Settings::keep_alive(address, connections), &mut http)
        .with_context(|| format!("connecting to {address}"))?;
    let warmed = generator.run(Schedule::closed(warm_up), &mut http, around.stop)?;
    settle(&warmed.outcomes)?;
    let mut trial = trial(&mut generator, schedule, &mut http, repeat, around)?;
    allow_waiting(&mut trial);
    // The audit comes first: a measurement that says nothing may be the lesser news.
    settle(&trial.outcomes)?;
    ensure_sound(&trial, wanted)?;
    Ok(trial)
}

/// Of a case that is about so many connections: a request that waits for a free one waits from its planned send on, so
/// that it is in the time of the answer, and no reason to doubt it.
pub(super) fn allow_waiting(trial: &mut Trial) {
    trial.flags.retain(|flag| !matches!(flag, Flag::InFlightCap { .. }));
}

fn ensure_sound(trial: &Trial, wanted: Outcome) -> anyhow::Result<()> {
    let answered = trial.outcomes.of(wanted);
    let total = trial.outcomes.total() + trial.unsent;
    let share = (answered + trial.outcomes.busy + trial.outcomes.limited) as f64 / total.max(1) as f64;
    ensure!(
        answered > 0 && share >= SOUND_SHARE_MIN,
        "wanted {wanted:?}, got {:?}, {} unsent; the first other answer was: {}",
        trial.outcomes,
        trial.unsent,
        trial.first_surprise.as_deref().unwrap_or("none"),
    );
    ensure!(trial.stray_answers == 0, "answers were longer than their Content-Length");
    Ok(())
}

/// The trials of one case: of the server, and of nginx in the same repeat.
#[derive(Debug)]
pub(super) struct Comparison {
    pub(super) name: String,
    /// As it is watched: whose processor time is compared.
    pub(super) process: &'static str,
    pub(super) wanted: Outcome,
    pub(super) server: Vec<Trial>,
    pub(super) nginx: Vec<Trial>,
}

/// What is expected of the median of a figure of [`METRICS`].
pub(super) type Bounds = &'static [(&'static str, Goal)];

impl Comparison {
    pub(super) fn new(name: String, process: &'static str, wanted: Outcome) -> Self {
        Self { name, process, wanted, server: Vec::new(), nginx: Vec::new() }
    }

    /// Measures both, `first` said by the repeat's number.
    pub(super) fn measure(
        &mut self,
        context: &ScenarioContext,
        repeat: usize,
        mut server: impl FnMut() -> anyhow::Result<Trial>,
        mut nginx: impl FnMut() -> anyhow::Result<Trial>,
    ) -> anyhow::Result<()> {
        context.progress.doing(&format!("{}, {repeat} of {}", self.name, context.repeats));
        let of_nginx = || format!("{}, nginx", self.name);
        let (server, nginx) = if repeat % 2 == 1 {
            let server = server().with_context(|| self.name.clone())?;
            (server, nginx().with_context(of_nginx)?)
        } else {
            let nginx = nginx().with_context(of_nginx)?;
            (server().with_context(|| self.name.clone())?, nginx)
        };
        context.progress.done(&format!(
            "{}, {repeat} of {}: {:.0}/s, nginx {:.0}/s",
            self.name,
            context.repeats,
            self.rate(&server),
            rate(&nginx, Outcome::Served)
        ));
        self.server.push(server);
        self.nginx.push(nginx);
        self.cases().iter().for_each(|case| context.keep(case));
        Ok(())
    }

    /// Of the repeat that was measured last.
    pub(super) fn last_rate(&self) -> Option<f64> {
        self.server.last().map(|trial| self.rate(trial))
    }

    fn rate(&self, trial: &Trial) -> f64 {
        rate(trial, self.wanted)
    }

    /// Of the server, and of nginx.
    pub(super) fn cases(&self) -> [Case; 2] {
        let pairs = || {
            let pairs = self.server.iter().zip(&self.nginx);
            pairs.filter(|(server, nginx)| server.is_valid() && nginx.is_valid())
        };
        let ratio = |name, better, of: &dyn Fn(&Trial, &Trial) -> Option<f64>| {
            Metric::new(name, "x", better, pairs().filter_map(|(server, nginx)| of(server, nginx)).collect())
        };
        let mut metrics = figures(&self.server, self.process, self.wanted);
        metrics.push(ratio(CPU_BESIDE_NGINX, Better::Lower, &|server, nginx| {
            Some(cpu_us(server, self.process, self.wanted)? / cpu_us(nginx, "nginx", Outcome::Served)?)
        }));
        metrics.push(ratio(THROUGHPUT_BESIDE_NGINX, Better::Higher, &|server, nginx| {
            Some(self.rate(server) / rate(nginx, Outcome::Served))
        }));
        let case = |name: String, metrics, trials: &[Trial]| Case {
            series: name.clone(),
            name,
            metrics,
            trials: trials.to_vec(),
            ..Case::default()
        };
        let of_nginx = figures(&self.nginx, "nginx", Outcome::Served);
        let beside = case(format!("{}, nginx", self.name), of_nginx, &self.nginx);
        [case(self.name.clone(), metrics, &self.server), Case { reference: true, ..beside }]
    }
}

fn figures(trials: &[Trial], process: &str, wanted: Outcome) -> Vec<Metric> {
    let valid = || trials.iter().filter(|trial| trial.is_valid());
    let cpu = valid().filter_map(|trial| cpu_us(trial, process, wanted)).collect();
    let mut metrics =
        vec![trials::metric("throughput", "1/s", Better::Higher, trials, |trial| rate(trial, wanted))];
    metrics.extend(trials::figures(trials, &["p50", "p99", "p99.9"]));
    metrics.push(Metric::new(CPU, "us", Better::Lower, cpu));
    metrics
}

fn rate(trial: &Trial, wanted: Outcome) -> f64 {
    trial.outcomes.of(wanted) as f64 / trial.seconds.max(1e-9)
}

/// All of the process's threads, user and system, for each wanted answer; none where the time was too short to be counted.
fn cpu_us(trial: &Trial, process: &str, wanted: Outcome) -> Option<f64> {
    let usage = trial.usage.as_ref()?.processes.iter().find(|of| of.name == process)?;
    let answers = trial.outcomes.of(wanted);
    (answers > 0 && usage.cpu_seconds > 0.0).then(|| usage.cpu_seconds * 1e6 / answers as f64)
}

/// The end of a scenario: each comparison with what is expected of it. The limit is the server's, whatever nginx reached.
pub(super) fn report<'a>(
    mut run: Run<'_>,
    all: impl IntoIterator<Item = (&'a Comparison, Bounds)>,
) -> ScenarioReport {
    let mut of_server = Vec::new();
    for (comparison, bounds) in all {
        let [server, nginx] = comparison.cases();
        run.report.shapes.extend(shapes(&server, bounds));
        of_server.push(server.clone());
        run.report.cases.extend([server, nginx]);
    }
    run.report.limiter = limit::of(&of_server);
    run.report
}

/// What is expected of a case, and what its median is.
pub(super) fn shapes(case: &Case, bounds: Bounds) -> Vec<Shape> {
    let shape = |(name, goal): &(&str, Goal)| {
        let metric = case.metrics.iter().find(|metric| metric.name == *name);
        let unit = metric.map_or("", |metric| &metric.unit);
        let measured = metric.filter(|metric| !metric.values.is_empty());
        let value = measured.map(|metric| median(metric.values.iter().copied()));
        let judged = value.map(|value| (figure(value, unit), goal.met(value)));
        Judged::new(judged, "no valid measurement").shape(
            &format!("{}: {name} {}", case.name, goal.said(unit)),
            "not published: what we expect of ourselves",
        )
    };
    bounds.iter().map(shape).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::usage::{ProcessUsage, Usage};
    use crate::load::record::Record;

    fn trial(outcomes: &[(Outcome, u64)], process: &str, cpu_us: f64, seconds: f64) -> Trial {
        let mut record = Record::default();
        outcomes.iter().for_each(|(outcome, count)| record.outcomes.add(*outcome, *count));
        record.elapsed = Duration::from_secs_f64(seconds);
        let answers = record.outcomes.total() as f64;
        let process = ProcessUsage { cpu_seconds: cpu_us * answers / 1e6, ..ProcessUsage::of(process, 0.5) };
        let usage = Usage { seconds, processors: 2, processes: vec![process], ..Usage::default() };
        Trial::new(1, &Schedule::closed(record.elapsed), &record, Some(usage))
    }

    #[test]
    fn failures_void_a_measurement_and_refusals_for_want_of_capacity_do_not() {
        let sound = |outcomes: &[(Outcome, u64)]| {
            ensure_sound(&trial(outcomes, "server", 1.0, 1.0), Outcome::Won).is_ok()
        };
        assert!(sound(&[(Outcome::Won, 1000)]));
        assert!(sound(&[(Outcome::Won, 500), (Outcome::Busy, 300), (Outcome::Limited, 200)]));
        assert!(sound(&[(Outcome::Won, 9990), (Outcome::Failed, 10)]));
        assert!(!sound(&[(Outcome::Won, 9980), (Outcome::Failed, 20)]));
        assert!(!sound(&[(Outcome::Won, 900), (Outcome::SoldOut, 100)]));
        assert!(!sound(&[(Outcome::Busy, 1000)]));
        assert!(!sound(&[]));
        let mut unsent = trial(&[(Outcome::Won, 1000)], "server", 1.0, 1.0);
        unsent.unsent = 10;
        assert!(ensure_sound(&unsent, Outcome::Won).is_err());
    }

    #[test]
    fn medians_are_of_ratios_within_a_repeat_and_are_judged() {
        let mut comparison = Comparison::new("orders".to_owned(), "server", Outcome::Won);
        // In the second repeat the whole machine was slow: the ratio does not show it.
        for slow in [1.0, 3.0, 1.0] {
            comparison.server.push(trial(&[(Outcome::Won, 40_000)], "server", 9.0 * slow, slow));
            comparison.nginx.push(trial(&[(Outcome::Served, 100_000)], "nginx", 5.0 * slow, slow));
        }
        let [server, nginx] = comparison.cases();
        let value = |case: &Case, name: &str| {
            let metric = case.metrics.iter().find(|metric| metric.name == name).unwrap();
            (metric.values.len(), (median(metric.values.iter().copied()) * 100.0).round() / 100.0)
        };
        assert_eq!(value(&server, CPU_BESIDE_NGINX), (3, 1.8));
        assert_eq!(value(&server, THROUGHPUT_BESIDE_NGINX), (3, 0.4));
        assert_eq!(value(&nginx, CPU), (3, 5.0));
        let bounds: Bounds =
            &[(CPU_BESIDE_NGINX, Goal::AtMost(2.0)), (THROUGHPUT_BESIDE_NGINX, Goal::AtLeast(0.5))];
        let shapes = shapes(&server, bounds);
        assert_eq!(shapes[0].claim, "orders: CPU beside nginx at most 2 x");
        assert_eq!((shapes[0].holds, shapes[1].holds), (Some(true), Some(false)));
        assert_eq!(shapes[1].measured, "0.400 x");
        // It is counted in hundredths of a second, and a share of none is no number.
        comparison.nginx[1].usage.as_mut().unwrap().processes[0].cpu_seconds = 0.0;
        assert_eq!(value(&comparison.cases()[0], CPU_BESIDE_NGINX), (2, 1.8));
        assert_eq!(value(&comparison.cases()[0], THROUGHPUT_BESIDE_NGINX).0, 3);
        // Nothing of an invalid pair counts.
        comparison.nginx[0].unsent = 1;
        comparison.nginx[0].flags.push(Flag::Unsent { requests: 1 });
        assert_eq!(value(&comparison.cases()[0], THROUGHPUT_BESIDE_NGINX).0, 2);
    }
}
