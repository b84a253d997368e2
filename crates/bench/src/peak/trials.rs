//! The search's trials, made for real: one load, one length, one verdict on whether the generator was sound.

use std::time::{Duration, Instant};

use anyhow::ensure;

use super::controller::{Load, Measurement, Phase};
use super::judge::{Limits, Seen};
use super::{PeakOptions, PeakTarget};
use crate::load::record::Outcomes;
use crate::load::schedule::Schedule;
use crate::report::model::{Flag, Trial};
use crate::testbed::{self, Testbed};

/// Of the trial's length: how exactly the time of the recovery is measured.
const PROBE_SHARE: f64 = 0.25;
const PROBE_MIN: Duration = Duration::from_millis(500);
const WARM_UP: Duration = Duration::from_secs(2);
/// The broker is a Java program: until it is compiled that takes the processors from what is measured.
const WARM_UP_OF_CLUSTER: Duration = Duration::from_secs(10);
/// Of the latency limit: a generator that is later than this by itself makes the load another one.
pub(super) const LAG_SHARE: u64 = 10;
/// Of what was offered: a target that answers less falls behind.
const KEPT_UP: f64 = 0.95;
/// Of the connections, on average over the trial: so many in flight are a backlog.
const BACKLOG_SHARE: f64 = 0.5;
/// Of a processor: the generator's thread had no time left.
const THREAD_FULL: f64 = 0.9;

pub(super) struct Measured {
    pub(super) phase: Phase,
    /// Offered; 0 for the closed loop.
    pub(super) per_s: f64,
    pub(super) trial: Trial,
    pub(super) measurement: Measurement,
    pub(super) begun: Instant,
    /// When the last request was due.
    pub(super) ended: Instant,
}

impl Measured {
    pub(super) fn seen(&self) -> Option<Seen> {
        match self.measurement {
            Measurement::Valid(seen) => Some(seen),
            Measurement::Invalid => None,
        }
    }
}

pub(super) struct Trials<'a> {
    options: &'a PeakOptions,
    limits: Limits,
    testbed: &'a mut Testbed,
    made: usize,
}

impl<'a> Trials<'a> {
    pub(super) fn new(options: &'a PeakOptions, limits: Limits, testbed: &'a mut Testbed) -> Self {
        Self { options, limits, testbed, made: 0 }
    }

    /// Its answers count for the audit only.
    pub(super) fn warm_up(&mut self) -> anyhow::Result<()> {
        self.options.site.progress.doing("warming up");
        let length = match self.options.target {
            PeakTarget::Cluster { .. } => WARM_UP_OF_CLUSTER,
            PeakTarget::Embedded | PeakTarget::Running { .. } => self.options.trial.min(WARM_UP),
        };
        let (trial, _) = self.trial(Schedule::closed(length), self.options.users)?;
        let Outcomes { won, sold_out, over_limit, .. } = trial.outcomes;
        ensure!(
            won > 0,
            "of {} orders in the warm-up none was accepted, {sold_out} were answered sold out and {over_limit} over the \
             limit{}",
            trial.outcomes.total(),
            trial.first_surprise.map_or(String::new(), |first| format!("; the first of the others: {first}"))
        );
        self.testbed.rest()
    }

    pub(super) fn measure(&mut self, load: Load, phase: Phase) -> anyhow::Result<Measured> {
        let length = match phase {
            Phase::Recover => self.options.trial.mul_f64(PROBE_SHARE).max(PROBE_MIN),
            _ => self.options.trial,
        };
        let (schedule, connections, per_s) = match load {
            Load::Closed => (Schedule::closed(length), self.options.users, 0.0),
            Load::Open { per_s } => (Schedule::poisson(per_s, length), self.options.in_flight_max, per_s),
        };
        let what = if per_s > 0.0 { format!("{per_s:.0}/s") } else { schedule.to_string() };
        self.options.site.progress.doing(&format!("{}: {what}", phase.name()));
        let (mut trial, begun) = self.trial(schedule, connections)?;
        // Recovery is measured from the end of the overload: nothing is waited for in between.
        if !matches!(phase, Phase::Overload | Phase::Recover) {
            self.testbed.rest()?;
        }
        let measurement = match load {
            // No limit to keep: but a generator that spoiled it would make its rate a wrong first guess.
            Load::Closed if !trial.is_valid() => Measurement::Invalid,
            Load::Closed => Measurement::Valid(seen(&trial)),
            Load::Open { per_s } => judge(&mut trial, per_s, connections, self.limits),
        };
        Ok(Measured { phase, per_s, trial, measurement, begun, ended: begun + length })
    }

    fn trial(&mut self, schedule: Schedule, connections: usize) -> anyhow::Result<(Trial, Instant)> {
        // Of an open loop only as many as are needed are opened.
        let opened = if schedule.is_open() { connections.min(self.options.users) } else { connections };
        self.made += 1;
        let schedule = schedule.seeded(seed(self.options.seed, self.made));
        let load = testbed::Load { schedule, connections, opened, p99: self.options.p99, repeat: self.made };
        self.testbed.load(&self.options.site, load)
    }
}

/// Apart for all trials of neighbouring seeds: a repeated search must not meet the same arrivals one trial later.
fn seed(of_search: u64, trial: usize) -> u64 {
    of_search.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(trial as u64)
}

fn seen(trial: &Trial) -> Seen {
    let asked = trial.outcomes.total() + trial.unsent;
    Seen {
        p99_us: trial.response.at(0.99),
        asked,
        lost: asked - trial.outcomes.good(),
        good_per_s: trial.good_per_s(),
    }
}

/// Whether an open loop's trial says something of the target.
///
/// A target that falls behind fills every connection, and then requests are sent late too: that is the target's doing
/// as long as the generator had processor time left, and the trial stands. So does one that met the cap on requests in
/// flight and is over the limit all the same: times count from the planned send, so the wait for a connection stands
/// for the wait in the target's queue that it spares. And so does one whose times are over the limit even from the actual
/// send, by a generator that was less late than that: where both share the processors, a target that uses them up makes
/// the generator late as well, and such a load can fail, but never pass. Any other lateness is the generator's, and the
/// trial says nothing. Requests that were never sent, because nothing was
/// answered any more, count as lost.
///
/// The flags of a trial that stands are the target's doing, so those that would call it invalid are taken off: the
/// report must not doubt what the verdict is built on.
fn judge(trial: &mut Trial, per_s: f64, connections: usize, limits: Limits) -> Measurement {
    let behind = falls_behind(trial, per_s, connections);
    let most_us = limits.p99_us / LAG_SHARE;
    let p99_us = trial.send_lag.at(0.99);
    let flagged = trial.flags.iter().any(|flag| matches!(flag, Flag::SendLag { .. }));
    if p99_us > most_us && !behind && !flagged {
        trial.flags.push(Flag::SendLag { p99_us, most_us });
    }
    let over_from_send = trial.service.at(0.99) > limits.p99_us && p99_us <= limits.p99_us;
    let spoiled = trial.flags.iter().any(|flag| match flag {
        Flag::CoLocated | Flag::Unsent { .. } => false,
        Flag::InFlightCap { .. } => !behind && trial.response.at(0.99) <= limits.p99_us,
        Flag::SendLag { .. } => !behind && !over_from_send,
        _ => flag.invalidates(),
    });
    if spoiled {
        return Measurement::Invalid;
    }
    trial.flags.retain(|flag| !flag.invalidates());
    Measurement::Valid(seen(trial))
}

fn falls_behind(trial: &Trial, per_s: f64, connections: usize) -> bool {
    let answered_per_s = trial.outcomes.total() as f64 / trial.seconds.max(1e-9);
    // Little's law: the mean number in flight.
    let in_flight = answered_per_s * trial.service.mean_us / 1e6;
    let full = trial.usage.as_ref().is_some_and(|usage| {
        usage.processes.iter().any(|of| of.name == "load" && of.busiest_thread_share >= THREAD_FULL)
    });
    answered_per_s < per_s * KEPT_UP && in_flight >= connections as f64 * BACKLOG_SHARE && !full
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::record::{Outcome, Record};
    use crate::report::model::{Distribution, Quantile};

    const LIMITS: Limits = Limits { p99_us: 50_000, lost_share: 0.001 };

    fn times(us: u64) -> Distribution {
        Distribution { mean_us: us as f64, points: vec![Quantile { q: 0.99, us }], max_us: us }
    }

    /// Ten seconds at an offered 1000/s.
    fn trial(won: u64, busy: u64, service_us: u64, lag_us: u64) -> Trial {
        let schedule = Schedule::constant(1000.0, Duration::from_secs(10));
        let mut trial = Trial::new(1, &schedule, &Record::default(), None);
        trial.seconds = 10.0;
        trial.outcomes.add(Outcome::Won, won);
        trial.outcomes.add(Outcome::Busy, busy);
        trial.service = times(service_us);
        trial.response = times(service_us + lag_us);
        trial.send_lag = times(lag_us);
        trial
    }

    #[test]
    fn no_two_trials_of_a_few_searches_have_one_seed() {
        let seeds = (0..50).flat_map(|of| (1..=400).map(move |trial| seed(of, trial)));
        assert_eq!(seeds.collect::<std::collections::BTreeSet<_>>().len(), 50 * 400);
        assert_eq!(seed(7, 3), seed(7, 3));
    }

    #[test]
    fn refusals_and_requests_never_sent_are_not_carried() {
        let mut refused = trial(9900, 90, 2000, 10);
        refused.unsent = 10;
        refused.flags.push(Flag::Unsent { requests: 10 });
        let Measurement::Valid(seen) = judge(&mut refused, 1000.0, 100, LIMITS) else {
            panic!("{refused:?}")
        };
        assert_eq!((seen.asked, seen.lost, seen.p99_us), (10_000, 100, 2010));
        assert!(seen.is_over(LIMITS));
        assert!(refused.is_valid(), "it counts as over the limit, so the report must not call it invalid");
    }

    #[test]
    fn a_late_generator_spoils_a_trial_and_a_late_target_fails_it() {
        let mut late = trial(10_000, 0, 2000, 6000);
        assert_eq!(judge(&mut late, 1000.0, 100, LIMITS), Measurement::Invalid);
        assert_eq!(late.flags, [Flag::SendLag { p99_us: 6000, most_us: 5000 }]);
        // 500 answers/s of 200 ms each: 100 in flight, all that there are.
        let mut behind = trial(5000, 0, 200_000, 4_000_000);
        assert!(matches!(judge(&mut behind, 1000.0, 100, LIMITS), Measurement::Valid(_)), "{behind:?}");
        // The same with 1000 connections is no backlog of the target's.
        let mut idle = trial(5000, 0, 200_000, 4_000_000);
        assert_eq!(judge(&mut idle, 1000.0, 1000, LIMITS), Measurement::Invalid);
        // Late, and over the limit from the actual send too: it can't pass. Later than the limit, it says nothing.
        let mut over = trial(10_000, 0, 60_000, 6000);
        let judged = judge(&mut over, 1000.0, 100, LIMITS);
        assert!(matches!(judged, Measurement::Valid(seen) if seen.is_over(LIMITS)), "{over:?}");
        let mut lost = trial(10_000, 0, 60_000, 51_000);
        assert_eq!(judge(&mut lost, 1000.0, 100, LIMITS), Measurement::Invalid);
        let mut capped = trial(10_000, 0, 2000, 10);
        capped.flags.push(Flag::InFlightCap { cap: 100, times: 3 });
        assert_eq!(judge(&mut capped, 1000.0, 100, LIMITS), Measurement::Invalid);
        capped.response = times(60_000);
        capped.flags.push(Flag::CoLocated);
        assert!(!capped.is_valid(), "{capped:?}");
        assert!(matches!(judge(&mut capped, 1000.0, 100, LIMITS), Measurement::Valid(_)), "{capped:?}");
        assert_eq!(capped.flags, [Flag::CoLocated], "over the limit, whatever the cap was");
    }
}
