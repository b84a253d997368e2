//! The cases of a scenario, measured one after the other: its report grows with them.

use std::sync::atomic::Ordering;

use anyhow::{Context, ensure};

use super::{ScenarioContext, Target, limit};
use crate::goal::median;
use crate::load::Trial;
use crate::reference::Row;
use crate::report::model::{Better, Case, Metric, Published, Sample, ScenarioReport, Shape, X};
use crate::report::trials::figures;

/// What was published beside a figure of this name.
type Beside = Box<dyn Fn(&str) -> Option<Published>>;

/// Where a case is in the report.
pub(super) struct Point {
    pub(super) name: String,
    pub(super) series: String,
    pub(super) x: Option<X>,
    published: Beside,
    reference: bool,
}

impl Point {
    /// A point that is a bar of its own.
    pub(super) fn bar(series: &str, name: impl Into<String>) -> Self {
        let published = Box::new(|_: &str| None);
        Self { name: name.into(), series: series.to_owned(), x: None, published, reference: false }
    }

    /// A point of a line: named after both.
    pub(super) fn at(series: &str, label: &str, value: u64) -> Self {
        let x = X { label: label.to_owned(), value: value as f64 };
        Self { x: Some(x), ..Self::bar(series, format!("{series}, {value} {label}")) }
    }

    /// Of another tool or server, which stands beside what is measured.
    pub(super) fn of_reference(self) -> Self {
        Self { reference: true, ..self }
    }

    pub(super) fn named(self, name: impl Into<String>) -> Self {
        Self { name: name.into(), ..self }
    }

    /// The figures of this row stand beside those of the same name.
    pub(super) fn beside(self, row: Option<&'static Row>) -> Self {
        self.beside_each(move |figure| row?.figure(figure))
    }

    pub(super) fn beside_each(self, published: impl Fn(&str) -> Option<Published> + 'static) -> Self {
        Self { published: Box::new(published), ..self }
    }

    /// Of these trials: their figures of these names and those of its own, each beside what was published of it.
    ///
    /// Beside times of orders and reads that were carried the times of refusals say nothing: then nothing stands there.
    pub(super) fn case(self, Measured { trials, own, samples }: Measured, names: &[&str]) -> Case {
        let Self { name, series, x, published, reference } = self;
        let mut metrics = figures(&trials, names);
        metrics.extend(own);
        let carried = trials.iter().all(|trial| trial.not_carried().is_none());
        for metric in metrics.iter_mut().filter(|metric| carried || metric.unit != "us") {
            metric.published = published(&metric.name);
        }
        Case { name, series, x, metrics, trials, samples, reference, ..Case::default() }
    }
}

/// What a case came to: trials, and figures that loads have not, with what those rest on where there is no trial.
#[derive(Debug, Clone, Default)]
pub(super) struct Measured {
    pub(super) trials: Vec<Trial>,
    pub(super) own: Vec<Metric>,
    pub(super) samples: Vec<Sample>,
}

impl From<Vec<Trial>> for Measured {
    fn from(trials: Vec<Trial>) -> Self {
        Self { trials, ..Self::default() }
    }
}

impl From<Vec<Metric>> for Measured {
    fn from(own: Vec<Metric>) -> Self {
        Self { own, ..Self::default() }
    }
}

impl From<(Vec<Metric>, Sample)> for Measured {
    fn from((own, sample): (Vec<Metric>, Sample)) -> Self {
        Self { own, samples: vec![sample], ..Self::default() }
    }
}

impl Measured {
    /// Adds a repeat's value to the metric of its name.
    pub(super) fn add_value(&mut self, (name, unit, better): (&str, &str, Better), value: f64) {
        self.add(vec![Metric::new(name, unit, better, vec![value])]);
    }

    /// Adds what a repeat without a load came to.
    pub(super) fn add_repeat(&mut self, repeat: Self) {
        self.add(repeat.own);
        self.samples.extend(repeat.samples);
    }

    /// Adds a repeat's figures to the metrics of their names.
    pub(super) fn add(&mut self, figures: Vec<Metric>) {
        for figure in figures {
            match self.own.iter_mut().find(|metric| metric.name == figure.name) {
                Some(metric) => metric.values.extend(figure.values),
                None => self.own.push(figure),
            }
        }
    }
}

/// A scenario under way: its report grows with each case.
pub(super) struct Run<'a> {
    pub(super) context: &'a ScenarioContext,
    pub(super) report: ScenarioReport,
}

impl<'a> Run<'a> {
    /// The suite writes the name and the reference of its table over those of the report.
    pub(super) fn new(context: &'a ScenarioContext, title: &str) -> Self {
        Self { context, report: ScenarioReport { title: title.to_owned(), ..ScenarioReport::default() } }
    }

    pub(super) fn note(&mut self, text: impl Into<String>) {
        self.report.notes.push(text.into());
    }

    pub(super) fn scaled_down(&mut self, text: impl Into<String>) {
        self.report.scaled_down.push(text.into());
    }

    pub(super) fn case<M: Into<Measured>>(
        &mut self,
        point: Point,
        figures: &[&str],
        measure: impl FnOnce() -> anyhow::Result<M>,
    ) -> anyhow::Result<()> {
        if !self.context.wants(&point.name) {
            return Ok(());
        }
        self.context.progress.doing(&point.name);
        let measured = measure().with_context(|| point.name.clone())?;
        let case = point.case(measured.into(), figures);
        let shown = if case.trials.is_empty() { String::new() } else { format!(": {}", shown(&case.trials)) };
        self.context.progress.done(&format!("{}{shown}", case.name));
        self.keep(case);
        Ok(())
    }

    /// A case that stays in the report, even if the scenario fails later.
    pub(super) fn keep(&mut self, case: Case) {
        self.context.keep(&case);
        self.report.cases.push(case);
    }

    pub(super) fn ensure_some(&self) -> anyhow::Result<()> {
        ensure!(!self.report.cases.is_empty(), "no case has this in its name: {:?}", self.context.only);
        Ok(())
    }

    /// With what limited its best case.
    pub(super) fn finish(mut self, shapes: impl FnOnce(&[Case]) -> Vec<Shape>) -> ScenarioReport {
        self.report.limiter = limit::of(&self.report.cases);
        self.report.shapes = shapes(&self.report.cases);
        self.report
    }
}

impl ScenarioContext {
    /// All repeats of a case, each with figures of its own; those of invalid trials are not among them.
    pub(super) fn repeat(
        &self,
        mut once: impl FnMut(usize) -> anyhow::Result<(Trial, Vec<Metric>)>,
    ) -> anyhow::Result<Measured> {
        let mut measured = Measured::default();
        for repeat in 1..=self.repeats {
            self.ensure_running()?;
            let (trial, figures) = once(repeat)?;
            let surprise = trial.first_surprise.as_deref().unwrap_or("no answer");
            ensure!(trial.outcomes.good() > 0, "nothing was answered as it should: {surprise}");
            if trial.is_valid() {
                measured.add(figures);
            }
            measured.trials.push(trial);
        }
        Ok(measured)
    }

    /// The same of a case without a load.
    pub(super) fn repeat_figures<M: Into<Measured>>(
        &self,
        mut once: impl FnMut() -> anyhow::Result<M>,
    ) -> anyhow::Result<Measured> {
        let mut measured = Measured::default();
        for _ in 0..self.repeats {
            self.ensure_running()?;
            measured.add_repeat(once()?.into());
        }
        Ok(measured)
    }

    /// Asked by those that need engines or servers of their own.
    pub(super) fn ensure_spawned(&self) -> anyhow::Result<()> {
        let spawned = self.target == Target::Spawn;
        ensure!(spawned, "it starts all that it measures itself, and measures nothing that runs already");
        Ok(())
    }

    pub(super) fn ensure_running(&self) -> anyhow::Result<()> {
        ensure!(!self.stop.load(Ordering::Relaxed), "stopped by a signal");
        Ok(())
    }
}

/// The median of the valid trials, for the line of progress.
pub(super) fn shown(trials: &[Trial]) -> String {
    let valid = || trials.iter().filter(|trial| trial.is_valid());
    match valid().count() {
        0 => "no valid trial".to_owned(),
        _ => format!("{:.0}/s", median(valid().map(Trial::good_per_s))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::record::Record;
    use crate::load::schedule::Schedule;
    use crate::load::trial::Flag;

    #[test]
    fn refusals_stand_beside_nothing_that_was_published() {
        let record = Record::default();
        let mut trial = Trial::new(1, &Schedule::closed_requests(1), &record, None);
        let row = crate::reference::find(crate::reference::File::Tiers, &[("tier", "stock")]);
        let p99 = |trial: &Trial| {
            let case = Point::bar("", "").beside(row).case(vec![trial.clone()].into(), &["p99"]);
            case.metrics[0].published.clone()
        };
        assert!(p99(&trial).is_some());
        trial.flags.push(Flag::NotCarried { requests: 10, of: 10 });
        assert!(p99(&trial).is_none());
    }
}
