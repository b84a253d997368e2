//! One measurement: a warm-up, then load for some seconds, with the processor time of both ends around it.

use std::net::SocketAddr;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use anyhow::{Context, ensure};
use serde::{Deserialize, Serialize};

use crate::drivers::http::{Driver, Settings, Workload};
use crate::load::record::{LatencyUs, Outcome, Outcomes, Record};
use crate::load::schedule::Schedule;
use crate::procfs;

/// Of the answers, at least this share must be the wanted outcome or an honest refusal for want of capacity.
const SOUND_SHARE_MIN: f64 = 0.999;

/// Whom to ask, and how hard.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Probe {
    pub(crate) address: SocketAddr,
    pub(crate) pid: u32,
    pub(crate) connections: usize,
    /// Connections are open and caches warm after this; its answers count for the audit only.
    pub(crate) warm_up: Duration,
    pub(crate) schedule: Schedule,
    /// The outcome that is counted.
    pub(crate) wanted: Outcome,
}

/// The figures of one measurement; "answer" means one with the wanted outcome.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Sample {
    pub seconds: f64,
    pub answers_per_s: f64,
    /// The target's processor time per answer: all of its threads, user and system.
    pub cpu_us: f64,
    /// The generator's processor time per answer.
    pub generator_cpu_us: f64,
    /// From the planned send.
    pub response_us: LatencyUs,
    /// From the actual send.
    pub service_us: LatencyUs,
    pub send_lag_us: LatencyUs,
    pub outcomes: Outcomes,
    pub reconnects: u64,
    pub unsent: u64,
}

/// The records of warm-up and measurement are both handed to `settle`: an order is an order.
pub(crate) fn sample<W: Workload>(
    probe: Probe,
    workload: &mut W,
    stop: &AtomicBool,
    mut settle: impl FnMut(&Record),
) -> anyhow::Result<Sample> {
    let settings = Settings::keep_alive(probe.address, probe.connections);
    let mut driver = Driver::connect(settings).with_context(|| format!("connecting to {}", probe.address))?;
    settle(&driver.run(Schedule::closed(probe.warm_up), workload, stop)?);
    let (target_before, own_before) = (procfs::cpu(probe.pid)?, procfs::own_cpu()?);
    let record = driver.run(probe.schedule, workload, stop)?;
    let target_cpu = procfs::cpu(probe.pid)? - target_before;
    let own_cpu = procfs::own_cpu()? - own_before;
    settle(&record);
    ensure_sound(&record, probe.wanted)?;
    let per_answer = |cpu: Duration| cpu.as_secs_f64() * 1e6 / record.outcomes.of(probe.wanted) as f64;
    Ok(Sample {
        seconds: record.elapsed.as_secs_f64(),
        answers_per_s: record.per_s(probe.wanted),
        cpu_us: per_answer(target_cpu),
        generator_cpu_us: per_answer(own_cpu),
        response_us: record.response_us(),
        service_us: record.service_us(),
        send_lag_us: record.send_lag_us(),
        outcomes: record.outcomes,
        reconnects: record.reconnects,
        unsent: record.unsent,
    })
}

/// Quick failures would look like quick answers: then there is no figure.
fn ensure_sound(record: &Record, wanted: Outcome) -> anyhow::Result<()> {
    let Outcomes { busy, limited, .. } = record.outcomes;
    let answered = record.outcomes.of(wanted);
    let total = record.outcomes.total() + record.unsent;
    let share = (answered + busy + limited) as f64 / total.max(1) as f64;
    ensure!(
        answered > 0 && share >= SOUND_SHARE_MIN,
        "measurement invalid: wanted {wanted:?}, got {:?}, {} unsent; the first other answer was: {}",
        record.outcomes,
        record.unsent,
        record.first_surprise.as_deref().unwrap_or("none"),
    );
    ensure!(record.stray_answers == 0, "measurement invalid: answers longer than their Content-Length");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::Verdicts;
    use crate::load::record::Clocks;

    fn record(outcomes: &[(Outcome, u64)]) -> Record {
        let now = std::time::Instant::now();
        let mut record = Record::default();
        for (outcome, count) in outcomes {
            for _ in 0..*count {
                record.settle(&mut Verdicts::of(*outcome), Clocks { planned: now, sent: now, answered: now });
            }
        }
        record
    }

    #[test]
    fn failures_void_a_measurement_and_refusals_for_want_of_capacity_do_not() {
        let sound = |outcomes: &[(Outcome, u64)]| ensure_sound(&record(outcomes), Outcome::Won).is_ok();
        assert!(sound(&[(Outcome::Won, 1000)]));
        assert!(sound(&[(Outcome::Won, 500), (Outcome::Busy, 300), (Outcome::Limited, 200)]));
        assert!(sound(&[(Outcome::Won, 9990), (Outcome::Failed, 10)]));
        assert!(!sound(&[(Outcome::Won, 9980), (Outcome::Failed, 20)]));
        assert!(!sound(&[(Outcome::Won, 900), (Outcome::SoldOut, 100)]));
        assert!(!sound(&[(Outcome::Busy, 1000)]));
        assert!(!sound(&[]));
        let mut unsent = record(&[(Outcome::Won, 1000)]);
        unsent.unsent = 10;
        assert!(ensure_sound(&unsent, Outcome::Won).is_err());
    }
}
